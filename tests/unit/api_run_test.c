/* Running into memory of the caller, as a program sees it. */
#include "unit/api_bed.h"

typedef struct place { /* a package with a session */
    sparta_package *package;
    sparta_session *session;
} place;

static place enter_place(sparta_package *p)
{
    place a = {.package = p};
    ok(sparta_session_create(cx, p, NULL, &a.session));
    return a;
}

static void leave_place(place *a)
{
    sparta_session_free(a->session);
    sparta_package_close(a->package);
}

static sparta_named_tensor output_of(const sparta_package *p, sparta_dtype dtype, int64_t rows, int64_t cols,
                                     void *data)
{
    const int64_t dim[2] = {rows, cols};
    return (sparta_named_tensor){sparta_package_output_name(p, 0), sparta_tensor_view(dtype, 2, dim, data)};
}

static void into(void **state)
{
    (void)state;
    place a = enter_place(mlp());
    float mine[5 * MLP_OUT], wide[5 * 16];
    const sparta_named_tensor in = mlp_input(a.package, 5);
    sparta_named_tensor typed = {.name = sparta_package_output_name(a.package, 0)}, view = typed, bare = in;
    bare.tensor.data = NULL;
    ok(sparta_session_types(cx, a.session, &bare, 1, &typed, 1));
    assert_true(typed.tensor.rank == 2 && typed.tensor.dim[0] == 5 && typed.tensor.dim[1] == MLP_OUT);
    assert_true(typed.tensor.dtype == SPARTA_F32 && !typed.tensor.data);
    ok(sparta_session_run(cx, a.session, &in, 1, &view, 1));
    float seen[5 * MLP_OUT];
    memcpy(seen, view.tensor.data, sizeof seen);
    for (int64_t rows = 1; rows < 3000; rows *= 7) { /* of other sizes: the view stays */
        bare.tensor.dim[0] = rows;
        ok(sparta_session_types(cx, a.session, &bare, 1, &typed, 1));
        assert_int_equal(typed.tensor.dim[0], rows);
        assert_memory_equal(seen, view.tensor.data, sizeof seen);
    }
    const sparta_named_tensor out = output_of(a.package, SPARTA_F32, 5, MLP_OUT, mine);
    ok(sparta_session_run_into(cx, a.session, &in, 1, &out, 1));
    assert_memory_equal(mine, view.tensor.data, sizeof mine);
    sparta_named_tensor strided = out; /* a part of a wider array */
    strided.tensor.data = wide;
    strided.tensor.stride[0] = 16;
    for (int i = 0; i < 5 * 16; i++) wide[i] = -77;
    ok(sparta_session_run_into(cx, a.session, &in, 1, &strided, 1));
    for (int i = 0; i < 5 * 16; i++)
        assert_true(wide[i] == (i % 16 < MLP_OUT ? mine[i / 16 * MLP_OUT + i % 16] : -77));
    leave_place(&a);
}

/* What does not fit is refused before anything is run, and the memory is as it was. */
static void what_does_not_fit(void **state)
{
    (void)state;
    place a = enter_place(mlp());
    float mine[5 * MLP_OUT] = {0}, before[5 * MLP_OUT] = {0};
    const sparta_named_tensor in = mlp_input(a.package, 5);
    sparta_named_tensor out = output_of(a.package, SPARTA_F32, 4, MLP_OUT, mine), bare = in;
    refused(sparta_session_run_into(cx, a.session, &in, 1, &out, 1), SPARTA_E_SHAPE, "5x7");
    out = output_of(a.package, SPARTA_F16, 5, MLP_OUT, mine);
    refused(sparta_session_run_into(cx, a.session, &in, 1, &out, 1), SPARTA_E_DTYPE, "f16");
    out = output_of(a.package, SPARTA_F32, 5, MLP_OUT, NULL);
    refused(sparta_session_run_into(cx, a.session, &in, 1, &out, 1), SPARTA_E_USAGE, "no memory");
    out = output_of(a.package, SPARTA_F32, 5, MLP_OUT, mine);
    out.tensor.device = 1;
    refused(sparta_session_run_into(cx, a.session, &in, 1, &out, 1), SPARTA_E_UNSUPPORTED, "device 1");
    out.tensor.device = 0;
    out.name = "nobody";
    refused(sparta_session_run_into(cx, a.session, &in, 1, &out, 1), SPARTA_E_USAGE, "nobody");
    out.name = sparta_package_output_name(a.package, 0);
    bare.tensor.data = NULL;
    refused(sparta_session_run_into(cx, a.session, &bare, 1, &out, 1), SPARTA_E_USAGE, "no data");
    assert_memory_equal(mine, before, sizeof mine);
    ok(sparta_session_run_into(cx, a.session, &in, 1, &out, 1)); /* none of it hurts the next run */
    leave_place(&a);
}

/* An output in the memory of an input: a state that goes in and comes out, again and again. */
static void in_place(void **state)
{
    (void)state;
    enum { MOST = 4096 };
    sparta_package *p = NULL;
    const sparta_compile_options o = quick();
    sparta_tensor type;
    float *mine = calloc(MOST, sizeof *mine), *apart = calloc(MOST, sizeof *apart);
    ok(sparta_compile_package(cx, "tests/fixtures/encoder-script.onnx", &o, &p));
    place a = enter_place(p);
    sparta_package_input_type(p, 0, &type);
    for (int d = 0; d < type.rank; d++)
        if (type.dim[d] < 0) type.dim[d] = d ? 5 : 2;
    sparta_named_tensor in[4], out = {.name = sparta_package_output_name(p, 0)}, view = out;
    const int n = sparta_package_inputs(p);
    static int64_t ones[64];
    assert_in_range(n, 1, 4);
    in[0] = (sparta_named_tensor){sparta_package_input_name(p, 0),
                                  sparta_tensor_view(type.dtype, type.rank, type.dim, mine)};
    for (int i = 1; i < n; i++) {
        sparta_package_input_type(p, i, &type);
        for (int d = 0; d < type.rank; d++)
            if (type.dim[d] < 0) type.dim[d] = d ? 5 : 2;
        memset(ones, 1, sizeof ones);
        in[i] = (sparta_named_tensor){sparta_package_input_name(p, i),
                                      sparta_tensor_view(type.dtype, type.rank, type.dim, ones)};
    }
    const int64_t elements = sparta_tensor_elements(&in[0].tensor);
    assert_true(elements > 0 && elements <= MOST);
    for (int i = 0; i < elements; i++) mine[i] = apart[i] = (float)(i % 13) / 7 - 1;
    for (int round = 0; round < 3; round++) {
        in[0].tensor.data = apart;
        ok(sparta_session_run(cx, a.session, in, n, &view, 1));
        assert_int_equal(sparta_tensor_elements(&view.tensor), elements);
        memcpy(apart, view.tensor.data, (size_t)elements * sizeof *apart);
        in[0].tensor.data = mine;
        out.tensor = in[0].tensor;
        ok(sparta_session_run_into(cx, a.session, in, n, &out, 1));
        assert_memory_equal(mine, apart, (size_t)elements * sizeof *mine);
    }
    leave_place(&a);
    free(mine);
    free(apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(into),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(in_place),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
