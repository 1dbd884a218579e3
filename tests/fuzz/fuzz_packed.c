/* fuzz_packed.c: libFuzzer's target for packed tensors in .npz files. The CRCs of stored entries are mended first, as somebody
 * who knows the format would. Whatever reads as a packed tensor must verify, walk, convert and unpack, and come back from a file
 * that we write. */
#include "npz_file.h"
#include "store/store.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

static bool same(const sp_coo *a, const sp_coo *b)
{
    bool all = a->n == b->n && a->rank == b->rank;
    for (int d = 0; all && d < a->rank; d++)
        all = !memcmp(a->index[d], b->index[d], (size_t)a->n * sizeof(int64_t));
    return all;
}

/* Nothing but memory may stop these: the storage was verified. A value in the padding is found by reading only. */
static bool fine(sparta_status status)
{
    must(status == SPARTA_OK || status == SPARTA_E_MEMORY || status == SPARTA_E_FORMAT);
    return !status;
}

static void write_and_read(sparta_ctx *cx, const sp_packed *p, const sp_coo *want)
{
    sp_store_file again;
    sp_coo c;
    if (!fine(sp_store_write(cx, path, p)) || !fine(sp_store_read(cx, path, &again))) return;
    if (fine(sp_store_to_coo(cx, &again.packed, &c))) {
        must(same(&c, want));
        sp_coo_free(&c);
    }
    sp_store_file_free(cx, &again);
}

static void convert(sparta_ctx *cx, const sp_packed *p, const sp_coo *want)
{
    static const char *const texts[] = {"csr, pos=i64, crd=i64", "dcsc, pos=i64, crd=i64",
                                        "coo, pos=i64, crd=i64", "bsr(2,3), pos=i64, crd=i64"};
    for (size_t i = 0; i < SP_COUNT(texts) && p->rank == 2; i++) {
        sp_format f;
        sp_packed q;
        sp_coo c;
        if (sp_format_parse(cx, texts[i], &f) || sp_store_convert(cx, p, &f, NULL, &q)) continue;
        must(sp_packed_verify(cx, &q) == SPARTA_OK);
        if (i < 3 && fine(sp_store_to_coo(cx, &q, &c))) { /* blocks forget explicit zeros */
            must(same(&c, want));
            sp_coo_free(&c);
        }
        sp_packed_free(cx, &q);
    }
}

static void unpack(sparta_ctx *cx, const sp_packed *p)
{
    sparta_tensor t;
    if (sp_tensor_alloc(cx, p->dtype, p->rank, p->dim, &t)) return;
    fine(sp_store_unpack(cx, p, &t));
    sp_free(cx, t.data);
}

static void use(sparta_ctx *cx, const sp_packed *p)
{
    sp_store_stats stats;
    sp_coo c;
    must(sp_packed_verify(cx, p) == SPARTA_OK);
    fine(sp_store_measure_packed(cx, p, &stats));
    unpack(cx, p);
    if (!fine(sp_store_to_coo(cx, p, &c))) return;
    for (int d = 0; d < c.rank; d++)
        for (int64_t i = 0; i < c.n; i++) must(c.index[d][i] >= 0 && c.index[d][i] < c.dim[d]);
    convert(cx, p, &c);
    write_and_read(cx, p, &c);
    sp_coo_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)32 << 20;
    sparta_ctx *cx = sparta_ctx_create(&options);
    uint8_t *copy = malloc(size ? size : 1);
    sp_store_file file;
    must(cx && copy);
    memcpy(copy, data, size);
    mend(cx, copy, size);
    put_file(copy, size);
    sp_ctx_clear(cx);
    if (sp_store_read(cx, path, &file) == SPARTA_OK) {
        use(cx, &file.packed);
        sp_store_file_free(cx, &file);
    } else
        must(sp_ctx_status(cx) != SPARTA_E_INTERNAL && *sparta_message(cx));
    sparta_ctx_free(cx);
    free(copy);
    return 0;
}
