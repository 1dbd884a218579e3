/* fuzz_onnx.c: libFuzzer's target for the ONNX reader. Any bytes must give an error, or a graph that verifies
 * and whose text parses back to itself, within 64 MiB. */
#include "import/import.h"
#include "onnx_mutate.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sparta_status same_weights(void *arg, const char *name, sparta_tensor *out)
{
    const sp_graph *g = arg;
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        if (v->constant && strcmp(v->origin ? v->origin : v->name, name) == 0) {
            *out = *v->constant;
            return SPARTA_OK;
        }
    }
    return sp_fail(g->cx, SPARTA_E_FORMAT, "no '%s'", name);
}

/* Out of memory is an answer too; anything else that fails here is a bug. */
static void check(sparta_status status)
{
    if (status != SPARTA_OK && status != SPARTA_E_MEMORY && status != SPARTA_E_LIMIT) abort();
}

static sparta_status text_of(sparta_ctx *cx, sp_graph *g, sp_text *out)
{
    sp_text_init(out, cx);
    sp_graph_print(g, out);
    check(out->status);
    return out->status;
}

static void round_trip(sparta_ctx *cx, sp_graph *g)
{
    sp_text once, again;
    sp_graph *back = NULL;
    check(sp_graph_verify(g));
    if (text_of(cx, g, &once) == SPARTA_OK) {
        check(sp_graph_parse(cx, sp_text_str(&once), same_weights, g, &back));
        if (back && text_of(cx, back, &again) == SPARTA_OK && strcmp(sp_text_str(&once), sp_text_str(&again)))
            abort();
        if (back) sp_text_free(&again);
    }
    sp_text_free(&once);
    sp_graph_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    options.cache_dir = "";
    options.compiler = "";
    sparta_ctx *cx = sparta_ctx_create(&options);
    if (!cx) return 0;
    sp_model *m = NULL;
    if (sp_model_parse(cx, data, size, NULL, &m) == SPARTA_OK)
        round_trip(cx, m->graph);
    else if (!*sparta_message(cx) || sp_ctx_status(cx) == SPARTA_E_INTERNAL)
        abort();
    sp_model_close(m);
    if (sp_ctx_memory(cx) != 0) abort();
    sparta_ctx_free(cx);
    return 0;
}
