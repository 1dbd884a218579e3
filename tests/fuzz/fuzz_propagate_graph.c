/* fuzz_propagate_graph.c: libFuzzer's target for the text form of graphs with propagation behind it. Weights that a text names have
 * zeros in whole rows and columns, so that there is something to propagate. */
#include "graph/graph.h"
#include "graph_mutate.h"
#include "propagated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WEIGHTS = 64 };
typedef struct store {
    sparta_ctx *cx;
    int n;
    void *data[WEIGHTS];
} store;

/* Element i of weights by name: a third of the last axis is zero, and what is not repeats small numbers. */
static double element(const char *name, int64_t i, int64_t last)
{
    int64_t key = (unsigned char)name[0] + (unsigned char)name[strlen(name) / 2];
    int64_t column = i % SP_MAX(last, 1);
    return (column + key) % 3 == 0 ? 0 : (double)((i + key) % 5 - 1);
}

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    store *s = arg;
    int64_t n = sparta_tensor_elements(out);
    if (n < 0 || n > 4096 || s->n == WEIGHTS) return sp_fail(s->cx, SPARTA_E_FORMAT, "no such weights");
    out->data = s->data[s->n] = calloc((size_t)n + 1, 16);
    if (!out->data) return sp_fail(s->cx, SPARTA_E_MEMORY, "no memory");
    s->n++;
    for (int64_t i = 0; i < n; i++)
        sp_element_set(out->dtype, out->data, i, element(name, i, out->rank ? out->dim[out->rank - 1] : 1));
    return SPARTA_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t key = key_of(data, size);
    sparta_ctx *cx = small_context(key);
    char *text = malloc(size + 1);
    store s = {.cx = cx};
    sp_graph *g = NULL, *twin = NULL;
    if (!cx || !text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (accepted(cx, sp_graph_parse(cx, text, fetch, &s, &g), "read") &&
        accepted(cx, sp_graph_parse(cx, text, fetch, &s, &twin), "read again"))
        check_propagation(cx, key, g, twin);
    sp_graph_free(twin);
    sp_graph_free(g);
    if (sp_ctx_memory(cx) != 0) give_up("memory", "some is held at the end");
    sparta_ctx_free(cx);
    for (int i = 0; i < s.n; i++) free(s.data[i]);
    free(text);
    return 0;
}
