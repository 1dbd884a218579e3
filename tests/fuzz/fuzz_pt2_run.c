/* fuzz_pt2_run.c: libFuzzer's target for the whole walk of programs of torch.export (walked.h).
 *
 * Units: tests/fuzz/pt2_units.py */
#include "pt2_mutate.h"
#include "pt2_program.h"
#include "walked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pt2_archive a = pt2_given(data, size);
    walk_all(key_of(data, size), a.data, a.size);
    free(a.data);
    return 0;
}
