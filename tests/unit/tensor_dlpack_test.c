/* DLPack in and out: every type there and back, deleters, and structs that lie. */
#include "bed.h"
#include "tensor/dlpack.h"

static sp_dl_versioned *to(const sparta_tensor *t)
{
    void *dl;
    ok(sparta_tensor_to_dlpack(cx, t, &dl));
    return dl;
}

static void round_trips(void **state)
{
    (void)state;
    static double memory[24];
    for (int d = SPARTA_U4; d < SP_DTYPES; d++) { /* packed there, and not here */
        sparta_tensor t = sparta_tensor_view((sparta_dtype)d, 1, (int64_t[]){3}, memory);
        void *dl;
        fails(SPARTA_E_UNSUPPORTED, sparta_tensor_to_dlpack(cx, &t, &dl));
    }
    for (int d = 0; d <= SPARTA_BOOL; d++) {
        /* rows turned round, every second column */
        sparta_tensor t = {(sparta_dtype)d, 2, {3, 4}, {-8, 2}, NULL, 0}, back;
        t.data = (char *)memory + 16 * sparta_dtype_size((sparta_dtype)d);
        sp_dl_versioned *v = to(&t);
        assert_true(v->version.major == 1 && v->flags == 0);
        ok(sparta_tensor_from_dlpack(cx, &v->tensor, &back));
        assert_true(back.dtype == t.dtype && back.rank == 2 && back.dim[0] == 3 && back.dim[1] == 4);
        assert_true(back.data == t.data && back.stride[0] == -8 && back.stride[1] == 2);
        v->deleter(v);
    }
}

static void no_elements_and_scalars(void **state)
{
    (void)state;
    float x[2] = {1, 2};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){0, 3}, x), back;
    sp_dl_versioned *v = to(&t);
    assert_null(v->tensor.data);
    ok(sparta_tensor_from_dlpack(cx, &v->tensor, &back));
    assert_int_equal(sparta_tensor_elements(&back), 0);
    v->deleter(v);
    t = sparta_tensor_view(SPARTA_F32, 0, NULL, x);
    v = to(&t);
    ok(sparta_tensor_from_dlpack(cx, &v->tensor, &back));
    assert_true(back.rank == 0 && back.data == x);
    v->deleter(v);
}

/* What another library might hand over. */
static sp_dl_tensor good(float *x, int64_t *shape)
{
    shape[0] = 2, shape[1] = 3;
    return (sp_dl_tensor){
        .data = x, .device = {1, 0}, .ndim = 2, .dtype = {SP_DL_FLOAT, 32, 1}, .shape = shape};
}

static void without_strides(void **state)
{
    (void)state;
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t shape[2];
    sparta_tensor t;
    sp_dl_tensor dl = good(x, shape);
    dl.byte_offset = 2 * sizeof(float);
    ok(sparta_tensor_from_dlpack(cx, &dl, &t));
    assert_true(t.stride[0] == 3 && t.stride[1] == 1 && t.data == x + 2);
    assert_true(sp_tensor_contiguous(&t));
}

static void lies(void **state)
{
    (void)state;
    float x[8] = {0};
    int64_t shape[9], strides[9] = {3, 1};
    sparta_tensor t = {.rank = 77};
#define REFUSED(status, ...)                                                                                 \
    do {                                                                                                     \
        sp_dl_tensor dl = good(x, shape);                                                                    \
        __VA_ARGS__;                                                                                         \
        assert_int_equal(sparta_tensor_from_dlpack(cx, &dl, &t), status);                                    \
        assert_int_equal(t.rank, 77);                                                                        \
    } while (0)
    REFUSED(SPARTA_E_UNSUPPORTED, dl.device.type = 2);
    REFUSED(SPARTA_E_UNSUPPORTED, dl.device.type = 0);
    REFUSED(SPARTA_E_UNSUPPORTED, dl.dtype.lanes = 4);
    REFUSED(SPARTA_E_UNSUPPORTED, dl.dtype.lanes = 0);
    REFUSED(SPARTA_E_UNSUPPORTED, dl.dtype.bits = 24);
    REFUSED(SPARTA_E_UNSUPPORTED, dl.dtype.code = 5);
    REFUSED(SPARTA_E_UNSUPPORTED, dl.dtype.code = 6);
    REFUSED(SPARTA_E_UNSUPPORTED, dl.ndim = 9);
    REFUSED(SPARTA_E_FORMAT, dl.ndim = -1);
    REFUSED(SPARTA_E_FORMAT, dl.ndim = INT32_MIN);
    REFUSED(SPARTA_E_FORMAT, dl.shape = NULL);
    REFUSED(SPARTA_E_FORMAT, dl.data = NULL);
    REFUSED(SPARTA_E_FORMAT, shape[1] = -1);
    REFUSED(SPARTA_E_FORMAT, shape[0] = INT64_MAX);
    REFUSED(SPARTA_E_FORMAT, shape[0] = INT64_MAX / 3); /* fits, but its bytes do not */
    REFUSED(SPARTA_E_FORMAT, shape[0] = 0; shape[1] = INT64_MAX; shape[0] = INT64_MAX);
    REFUSED(SPARTA_E_FORMAT, strides[0] = INT64_MAX; shape[0] = 3; dl.strides = strides);
    REFUSED(SPARTA_E_FORMAT, strides[0] = INT64_MIN; shape[0] = 2; dl.strides = strides);
    REFUSED(SPARTA_E_FORMAT, strides[0] = INT64_MIN / 8; dl.strides = strides); /* before the address space */
    REFUSED(SPARTA_E_FORMAT, dl.byte_offset = 2);
    REFUSED(SPARTA_E_FORMAT, dl.byte_offset = UINT64_MAX - 3);
    REFUSED(SPARTA_E_FORMAT, dl.data = (char *)x + 1);
}

static void memory(void **state)
{
    (void)state;
    float x[6] = {0};
    void *dl = NULL;
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 3}, x);
    sp_ctx_fail_alloc(cx, 1, false);
    fails(SPARTA_E_MEMORY, sparta_tensor_to_dlpack(cx, &t, &dl));
    sp_ctx_fail_alloc(cx, 0, false);
    assert_null(dl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips), cmocka_unit_test(no_elements_and_scalars),
        cmocka_unit_test(without_strides), cmocka_unit_test(lies), cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
