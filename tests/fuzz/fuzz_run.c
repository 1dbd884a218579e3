/* fuzz_run.c: libFuzzer's target for the whole walk of ONNX models (walked.h). */
#include "onnx_mutate.h"
#include "walked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    walk_all(key_of(data, size), data, size);
    return 0;
}
