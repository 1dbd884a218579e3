/* fuzz_graph.c: libFuzzer's target for the text form of graphs, which packages carry. Any text must give an
 * error, or a graph that verifies and whose text parses back to itself. */
#include "graph/graph.h"
#include "graph_mutate.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char zeros[4096];

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    int64_t n = sparta_tensor_elements(out);
    (void)name;
    if (n < 0 || (size_t)n > sizeof zeros / 8) return sp_fail(arg, SPARTA_E_FORMAT, "no such weights");
    out->data = zeros;
    return SPARTA_OK;
}

static char *text_of(sparta_ctx *cx, const sp_graph *g)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_graph_print(g, &t);
    char *s = t.status == SPARTA_OK ? strdup(sp_text_str(&t)) : NULL;
    sp_text_free(&t);
    return s;
}

static void round_trip(sparta_ctx *cx, const sp_graph *g)
{
    sp_graph *back = NULL;
    if (sp_graph_verify(g) == SPARTA_E_INTERNAL) abort();
    char *once = text_of(cx, g), *again = NULL;
    if (once && sp_graph_parse(cx, once, fetch, cx, &back) == SPARTA_OK) {
        again = text_of(cx, back);
        if (again && strcmp(once, again)) abort();
    } else if (once && sp_ctx_status(cx) != SPARTA_E_MEMORY)
        abort();
    sp_graph_free(back);
    free(once);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    options.cache_dir = "";
    options.compiler = "";
    sparta_ctx *cx = sparta_ctx_create(&options);
    char *text = malloc(size + 1);
    if (!cx || !text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    sp_graph *g = NULL;
    if (sp_graph_parse(cx, text, fetch, cx, &g) == SPARTA_OK)
        round_trip(cx, g);
    else if (sp_ctx_status(cx) == SPARTA_E_INTERNAL)
        abort();
    sp_graph_free(g);
    if (sp_ctx_memory(cx) != 0) abort();
    sparta_ctx_free(cx);
    free(text);
    return 0;
}
