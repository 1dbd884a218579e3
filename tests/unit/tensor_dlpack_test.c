/* DLPack in and out: every type there and back, views and copies, deleters, and structs that lie. */
#include "bed.h"
#include "tensor/dlpack.h"

#define OK(call) assert_int_equal((call), SPARTA_OK)

static void count_done(void *arg)
{
    ++*(int *)arg;
}

static void round_trips(void **state)
{
    (void)state;
    static double memory[24];
    for (int d = SPARTA_U4; d < SP_DTYPES; d++) { /* packed there, and not here */
        sparta_tensor t = sparta_tensor_view((sparta_dtype)d, 1, (int64_t[]){3}, memory);
        sp_dl_versioned *v;
        assert_int_equal(sp_tensor_to_dlpack(cx, &t, NULL, &v), SPARTA_E_UNSUPPORTED);
    }
    for (int d = 0; d <= SPARTA_BOOL; d++)
        for (int copy = 0; copy < 2; copy++) {
            int done = 0;
            /* rows turned round, every second column */
            sparta_tensor t = {(sparta_dtype)d, 2, {3, 4}, {-8, 2}, NULL, 0}, back;
            t.data = (char *)memory + 16 * sparta_dtype_size((sparta_dtype)d);
            for (int64_t i = 0; i < 24; i++) sp_element_set_int((sparta_dtype)d, memory, i, i % 2);
            sp_dl_versioned *v;
            sp_dl_managed *m;
            sp_dl_options o = {.copy = copy, .done = count_done, .arg = &done};
            OK(sp_tensor_to_dlpack(cx, &t, &o, &v));
            assert_int_equal(v->version.major, 1);
            assert_int_equal(v->flags, copy ? SP_DL_COPIED : 0);
            OK(sp_tensor_from_dlpack_versioned(cx, v, true, &back));
            assert_true(back.dtype == t.dtype && back.rank == 2 && back.dim[0] == 3 && back.dim[1] == 4);
            assert_int_equal(back.data == t.data, !copy);
            assert_int_equal(back.stride[0], copy ? 4 : -8);
            for (int64_t i = 0; i < 12; i++)
                assert_int_equal(
                    sp_element_get_int(t.dtype, back.data, i / 4 * back.stride[0] + i % 4 * back.stride[1]),
                    sp_element_get_int(t.dtype, t.data, i / 4 * -8 + i % 4 * 2));
            v->deleter(v);
            assert_int_equal(done, 1);
            OK(sp_tensor_to_dlpack_managed(cx, &t, &o, &m));
            OK(sp_tensor_from_dlpack(cx, &m->tensor, &back));
            assert_int_equal(back.dim[1], 4);
            m->deleter(m);
            assert_int_equal(done, 2);
        }
}

static void options(void **state)
{
    (void)state;
    float x[2] = {1, 2};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){2}, x), back;
    sp_dl_versioned *v;
    sp_dl_managed *m;
    OK(sp_tensor_to_dlpack(cx, &t, &(sp_dl_options){.read_only = true}, &v));
    assert_int_equal(v->flags, SP_DL_READ_ONLY);
    assert_int_equal(sp_tensor_from_dlpack_versioned(cx, v, true, &back), SPARTA_E_USAGE);
    OK(sp_tensor_from_dlpack_versioned(cx, v, false, &back));
    v->version.major = 2;
    v->tensor.shape = (void *)8; /* not to be looked at */
    assert_int_equal(sp_tensor_from_dlpack_versioned(cx, v, false, &back), SPARTA_E_UNSUPPORTED);
    v->deleter(v);
    assert_int_equal(sp_tensor_to_dlpack_managed(cx, &t, &(sp_dl_options){.read_only = true}, &m),
                     SPARTA_E_USAGE);
    /* no elements, no data; a scalar */
    t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){0, 3}, x);
    OK(sp_tensor_to_dlpack(cx, &t, NULL, &v));
    assert_null(v->tensor.data);
    OK(sp_tensor_from_dlpack_versioned(cx, v, true, &back));
    assert_int_equal(sparta_tensor_elements(&back), 0);
    v->deleter(v);
    t = sparta_tensor_view(SPARTA_F32, 0, NULL, x);
    OK(sp_tensor_to_dlpack(cx, &t, NULL, &v));
    OK(sp_tensor_from_dlpack_versioned(cx, v, true, &back));
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
    OK(sp_tensor_from_dlpack(cx, &dl, &t));
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
        assert_int_equal(sp_tensor_from_dlpack(cx, &dl, &t), status);                                        \
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
    int done = 0;
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 3}, x);
    sp_dl_versioned *v = NULL;
    for (uint64_t fail = 1; fail < 10; fail++) {
        sp_ctx_fail_alloc(cx, fail, false);
        sparta_status status =
            sp_tensor_to_dlpack(cx, &t, &(sp_dl_options){.copy = true, .done = count_done, .arg = &done}, &v);
        sp_ctx_fail_alloc(cx, 0, false);
        if (!status) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), 0);
        assert_int_equal(done, 0);
    }
    assert_non_null(v);
    v->deleter(v);
    assert_int_equal(done, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trips), cmocka_unit_test(options),
                                       cmocka_unit_test(without_strides), cmocka_unit_test(lies),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
