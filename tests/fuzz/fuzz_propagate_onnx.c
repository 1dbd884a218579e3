/* fuzz_propagate_onnx.c: libFuzzer's target for the ONNX reader with propagation behind it. Any bytes are refused, or give a model
 * that propagates within 64 MiB to one with the same answers. */
#include "import/import.h"
#include "onnx_mutate.h"
#include "propagated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t key = key_of(data, size);
    sparta_ctx *cx = small_context(key);
    sp_model *m = NULL, *twin = NULL;
    if (!cx) return 0;
    if (accepted(cx, sp_model_parse(cx, data, size, NULL, &m), "read") &&
        accepted(cx, sp_model_parse(cx, data, size, NULL, &twin), "read again"))
        check_propagation(cx, key, m->graph, twin->graph);
    sp_model_close(twin);
    sp_model_close(m);
    if (sp_ctx_memory(cx) != 0) give_up("memory", "some is held at the end");
    sparta_ctx_free(cx);
    return 0;
}
