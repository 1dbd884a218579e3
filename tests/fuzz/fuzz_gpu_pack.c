/* fuzz_gpu_pack.c: libFuzzer's target for files of kernels for GPUs. The digest would stop nearly everything, so the target signs what it is given, as somebody who knows the
 * format would: whatever it says, the check reads nothing outside of it. */
#include "jit/inside.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 64, SIZE = 16, DIGEST = 24 };
    uint8_t *bytes = malloc(size ? size : 1);
    const uint64_t all = size;
    if (!bytes) abort();
    memcpy(bytes, data, size);
    (void)sp_gpu_pack_check(bytes, size);
    if (size >= HEAD) {
        memcpy(bytes, "spgpukn1", 8);
        bytes[8] = 1, bytes[9] = bytes[10] = bytes[11] = 0;
        memcpy(bytes + SIZE, &all, sizeof all);
        sp_sha256_of(bytes + HEAD, size - HEAD, bytes + DIGEST);
        (void)sp_gpu_pack_check(bytes, size);
    }
    free(bytes);
    return 0;
}
