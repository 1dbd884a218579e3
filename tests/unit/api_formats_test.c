/* Files of arrays, formats and DLPack, as a program sees them. */
#include "unit/api_bed.h"

enum { N = 8, K = 12 };
static float dense[N][K];

static sparta_tensor matrix(void *data)
{
    const int64_t dim[2] = {N, K};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) dense[i][j] = (i / 4 + j) % 3 ? 0 : (float)(i * K + j + 1);
    return sparta_tensor_view(SPARTA_F32, 2, dim, data);
}

static void archives(void **state)
{
    (void)state;
    static const char *const files[] = {"a.npz", "a.safetensors"};
    const sparta_tensor w = matrix(dense);
    int64_t ids[3] = {1, 2, 3};
    const int64_t three = 3;
    const sparta_named_tensor arrays[] = {{"w", w}, {"ids", sparta_tensor_view(SPARTA_I64, 1, &three, ids)}};
    sparta_archive *a = NULL;
    for (int f = 0; f < 2; f++) {
        int n = 0;
        ok(sparta_archive_save(cx, in_root(files[f]), arrays, 2));
        ok(sparta_archive_open(cx, in_root(files[f]), &a));
        while (sparta_archive_array(a, n)) n++;
        assert_int_equal(n, 2);
        const sparta_tensor *found = sparta_archive_find(a, "w");
        assert_non_null(found);
        assert_true(found->dtype == SPARTA_F32 && found->dim[0] == N && found->dim[1] == K);
        assert_memory_equal(found->data, dense, sizeof dense);
        assert_memory_equal(sparta_archive_find(a, "ids")->data, ids, sizeof ids);
        assert_null(sparta_archive_find(a, "nobody"));
        sparta_archive_close(a);
    }
    ok(sparta_archive_save(cx, in_root("w.npy"), arrays, 1));
    ok(sparta_archive_open(cx, in_root("w.npy"), &a));
    assert_string_equal(sparta_archive_array(a, 0)->name, "");
    assert_memory_equal(sparta_archive_array(a, 0)->tensor.data, dense, sizeof dense);
    sparta_archive_close(a);
    sparta_archive_close(NULL);
    refused(sparta_archive_save(cx, in_root("w.npy"), arrays, 2), SPARTA_E_USAGE, ".npz");
    refused(sparta_archive_save(cx, in_root("w.txt"), arrays, 1), SPARTA_E_USAGE, ".safetensors");
    refused(sparta_archive_open(cx, in_root("absent.npz"), &a), SPARTA_E_IO, "absent");
}

static void texts(void **state)
{
    (void)state;
    char text[128], small[4] = "abc";
    const int64_t dim[2] = {N, K};
    ok(sparta_format_print(cx, "csr", 2, dim, text, sizeof text));
    assert_string_equal(text, "(i,j)->(i:dense, j:compressed)");
    ok(sparta_format_print(cx, text, 0, NULL, text, sizeof text));
    refused(sparta_format_print(cx, "csr", 2, dim, small, sizeof small), SPARTA_E_LIMIT, "characters");
    assert_string_equal(small, "abc");
    refused(sparta_format_print(cx, "(i,j)->(i:dense, j:nothing)", 2, dim, text, sizeof text), SPARTA_E_USAGE,
            "1:20");
}

static void packed(void **state)
{
    (void)state;
    const sparta_tensor w = matrix(dense);
    sparta_packed *csr = NULL, *blocks = NULL, *again = NULL;
    float back[N][K];
    sparta_tensor type, to = w;
    to.data = back;
    ok(sparta_packed_create(cx, "csr", &w, NULL, 0, &csr));
    const sparta_storage *s = sparta_packed_storage(csr);
    assert_true(s->elements == N * K / 3 && s->slots == s->elements && s->fill == 1 && s->bytes > 0);
    assert_string_equal(sparta_packed_format(csr), "(i,j)->(i:dense, j:compressed)");
    sparta_packed_type(csr, &type);
    assert_true(type.dtype == SPARTA_F32 && type.dim[0] == N && type.dim[1] == K && !type.data);
    ok(sparta_packed_convert(cx, csr, "strip(4)", 0, &blocks));
    ok(sparta_packed_save(cx, blocks, in_root("w.packed.npz")));
    ok(sparta_packed_open(cx, in_root("w.packed.npz"), &again));
    assert_string_equal(sparta_packed_format(again), sparta_packed_format(blocks));
    ok(sparta_packed_unpack(cx, again, &to));
    assert_memory_equal(back, dense, sizeof dense);
    sparta_packed_free(again);
    sparta_packed_free(blocks);
    sparta_packed_free(csr);
    sparta_packed_free(NULL);
}

static void masked(void **state)
{
    (void)state;
    const sparta_tensor w = matrix(dense);
    uint8_t keep[N][K] = {{0}};
    const int64_t dim[2] = {N, K}, other[2] = {K, N};
    const sparta_tensor mask = sparta_tensor_view(SPARTA_U8, 2, dim, keep),
                        turned = sparta_tensor_view(SPARTA_U8, 2, other, keep);
    sparta_packed *p = NULL;
    for (int i = 0; i < N; i++) keep[i][1] = 1;
    ok(sparta_packed_create(cx, "csr", &w, &mask, 0, &p));
    assert_int_equal(sparta_packed_storage(p)->elements, N);
    sparta_packed_free(p);
    refused(sparta_packed_create(cx, "csr", &w, &turned, 0, &p), SPARTA_E_SHAPE, "mask");
    refused(sparta_packed_create(cx, "bsr(8,12)", &w, NULL, 1.5, &p), SPARTA_E_LIMIT, "");
    refused(sparta_packed_create(cx, "nothing", &w, NULL, 0, &p), SPARTA_E_USAGE, "nothing");
    refused(sparta_packed_open(cx, in_root("absent.npz"), &p), SPARTA_E_IO, "absent");
}

/* DLPack's binary interface, as far as this test looks at it. */
typedef struct dl_tensor {
    void *data;
    int32_t device[2], ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_versioned {
    uint32_t version[2];
    void *manager;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static void dlpack(void **state)
{
    (void)state;
    const sparta_tensor w = matrix(dense);
    void *out = NULL;
    sparta_tensor view;
    ok(sparta_tensor_to_dlpack(cx, &w, &out));
    dl_versioned *dl = out;
    assert_true(dl->version[0] == 1 && dl->tensor.data == dense && dl->tensor.ndim == 2);
    assert_true(dl->tensor.shape[0] == N && dl->tensor.bits == 32 && dl->tensor.code == 2);
    ok(sparta_tensor_from_dlpack(cx, &dl->tensor, &view));
    assert_true(view.data == dense && view.dtype == SPARTA_F32 && view.dim[1] == K);
    dl->tensor.device[0] = 2; /* a GPU */
    refused(sparta_tensor_from_dlpack(cx, &dl->tensor, &view), SPARTA_E_UNSUPPORTED, "");
    dl->tensor.device[0] = 1;
    dl->deleter(dl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(archives), cmocka_unit_test(texts),  cmocka_unit_test(packed),
        cmocka_unit_test(masked),   cmocka_unit_test(dlpack),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
