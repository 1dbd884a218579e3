/* Any bytes as the text of a sub-graph, then names of edges and their formats, each ended by a 0. There is no compiler: what comes as far as code is
 * written as C for every target and ends there. Whatever is refused has a message, no failure is our own, and nothing is left in memory. */
#include "specialize/specialize.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EDGES = 4 };
static float numbers[64] = {1, 0, 0, 2, 0, 0, 0, 3, [20] = -1, [41] = 5};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t dim_w[] = {8, 4}, dim_b[] = {4};
    const sparta_named_tensor constant[] = {{"w", sparta_tensor_view(SPARTA_F32, 2, dim_w, numbers)},
                                            {"b", sparta_tensor_view(SPARTA_F32, 1, dim_b, numbers)}};
    static const char *const dims[] = {"batch=3", NULL};
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    sparta_specialize_options o = SPARTA_OPTIONS(sparta_specialize_options);
    sparta_edge edge[EDGES] = {{0}};
    sparta_specialized *s = NULL;
    options.max_memory = (size_t)64 << 20;
    options.cache_dir = "";
    options.compiler = "";
    sparta_ctx *cx = sparta_ctx_create(&options);
    char *text = malloc(size + 1);
    if (!cx || !text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    const char *p = text + strlen(text), *end = text + size;
    for (int i = 0; i < EDGES && p < end; i++) {
        edge[i].value = p + 1;
        p += 1 + strlen(p + 1);
        if (p >= end) break;
        edge[i].format = p + 1;
        p += 1 + strlen(p + 1);
        o.edges++;
    }
    o.edge = edge;
    o.constant = constant, o.constants = 2;
    o.dims = strstr(text, "batch") ? dims : NULL;
    o.target = "avx512,avx2,portable";
    const sparta_status status = sparta_specialize(cx, text, &o, &s);
    if (status == SPARTA_OK ? !sparta_specialized_step_at(s, 0) : !*sparta_message(cx)) abort();
    if (status == SPARTA_E_INTERNAL) abort();
    sparta_specialized_free(s);
    if (!sp_ctx_slot(cx, SP_SLOT_FORMATS) && sp_ctx_memory(cx)) abort();
    sparta_ctx_free(cx);
    free(text);
    return 0;
}
