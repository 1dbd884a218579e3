/* fuzz_npz.c: libFuzzer's target for .npz files and SciPy's matrices in them. A CRC would stop nearly everything, so the target
 * mends those of stored entries first, as somebody who knows the format would. */
#include "npz_file.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    sparta_ctx *cx = sparta_ctx_create(&options);
    uint8_t *copy = malloc(size ? size : 1);
    sp_npz z;
    if (!cx || !copy) return 0;
    memcpy(copy, data, size);
    mend(cx, copy, size);
    put_file(copy, size);
    sp_ctx_clear(cx);
    if (sp_npz_read(cx, path, &z) == SPARTA_OK) {
        sp_coo c = {0};
        sparta_status status = sp_scipy_matrix(cx, &z, &c);
        if (status == SPARTA_E_INTERNAL) abort();
        for (int64_t i = 0; i < c.n; i++)
            if (c.index[0][i] < 0 || c.index[0][i] >= c.dim[0] || c.index[1][i] < 0 ||
                c.index[1][i] >= c.dim[1])
                abort();
        sp_coo_free(&c);
        sp_npz_free(&z);
    } else if (sp_ctx_status(cx) == SPARTA_E_INTERNAL)
        abort();
    if (sp_ctx_memory(cx) != 0) abort();
    sparta_ctx_free(cx);
    free(copy);
    return 0;
}
