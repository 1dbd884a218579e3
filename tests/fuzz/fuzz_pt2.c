/* fuzz_pt2.c: libFuzzer's target for programs of torch.export (pt2_program.h). They must give an error, or a graph that verifies, whose shapes are
 * inferred or refused, within 64 MiB.
 *
 * Units: tests/fuzz/pt2_units.py */
#include "import/import.h"
#include "ops/ops.h"
#include "pt2_mutate.h"
#include "pt2_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the shapes are: they are inferred, or it is said why not. */
static void look(sparta_ctx *cx, sp_graph *g)
{
    const sparta_status s = sp_graph_verify(g);
    if (s != SPARTA_OK && s != SPARTA_E_MEMORY) abort();
    if (sp_ops_infer(g) != SPARTA_OK && (!*sparta_message(cx) || sp_ctx_status(cx) == SPARTA_E_INTERNAL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    options.cache_dir = "";
    options.compiler = "";
    sparta_ctx *cx = sparta_ctx_create(&options);
    if (!cx) return 0;
    pt2_archive a = pt2_given(data, size);
    sp_model *m = NULL;
    if (sp_model_parse(cx, a.data, a.size, NULL, &m) == SPARTA_OK)
        look(cx, m->graph);
    else if (!*sparta_message(cx) || sp_ctx_status(cx) == SPARTA_E_INTERNAL)
        abort();
    sp_model_close(m);
    if (sp_ctx_memory(cx) != 0) abort();
    sparta_ctx_free(cx);
    free(a.data);
    return 0;
}
