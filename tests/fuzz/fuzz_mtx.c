/* fuzz_mtx.c: libFuzzer's target for matrices in text, Matrix Market and SMTX. Any text must give an error that names its line, or
 * entries in order, inside the matrix, no coordinate twice. */
#include "arrays/arrays.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const sp_coo *c)
{
    if (c->rank != 2 || c->n < 0) abort();
    if (c->dense) {
        if (sparta_tensor_elements(&c->values) != c->n) abort();
        return;
    }
    if (c->values.data && c->values.dim[0] != c->n) abort();
    for (int64_t i = 0; i < c->n; i++) {
        int64_t row = c->index[0][i], col = c->index[1][i];
        if (row < 0 || row >= c->dim[0] || col < 0 || col >= c->dim[1]) abort();
        if (i && (row < c->index[0][i - 1] || (row == c->index[0][i - 1] && col <= c->index[1][i - 1])))
            abort();
    }
}

static void one(const void *bytes, size_t size,
                sparta_status (*parse)(sparta_ctx *, const void *, size_t, sp_coo *))
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    sparta_ctx *cx = sparta_ctx_create(&options);
    sp_coo c = {0};
    if (!cx) return;
    sparta_status status = parse(cx, bytes, size, &c);
    if (!status)
        check(&c);
    else if (status == SPARTA_E_INTERNAL ||
             (status == SPARTA_E_FORMAT && !strstr(sparta_message(cx), "line ")))
        abort();
    sp_coo_free(&c);
    if (sp_ctx_memory(cx) != 0) abort();
    sparta_ctx_free(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1); /* so that a byte too far is seen */
    if (!copy) return 0;
    memcpy(copy, data, size);
    one(copy, size, sp_mtx_parse); /* whose first line may be missing */
    if (!size || data[0] != '%') one(copy, size, sp_smtx_parse);
    free(copy);
    return 0;
}
