/* Running into memory of the caller, as a program sees it. */
#include "unit/api_bed.h"
#include <math.h>

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

/* The same inputs, made from a seed, for a model on its references and for its package: the same answer. */
static void made_inputs(void **state)
{
    (void)state;
    static const char onnx[] = "tests/fixtures/mlp-script.onnx";
    static const char *const dims[] = {"batch=3", NULL};
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    sparta_inputs_options how = SPARTA_OPTIONS(sparta_inputs_options);
    sparta_package *p;
    sparta_model *m;
    sparta_inputs *made, *again;
    o.no_measure = 1;
    ok(sparta_compile_package(cx, onnx, &o, &p));
    ok(sparta_model_open(cx, onnx, NULL, &m));
    assert_int_equal(sparta_model_inputs(m), sparta_package_inputs(p));
    assert_int_equal(sparta_model_outputs(m), sparta_package_outputs(p));
    assert_string_equal(sparta_model_input_name(m, 0), sparta_package_input_name(p, 0));
    assert_null(sparta_model_output_name(m, 1));
    how.seed = 5;
    how.dims = dims;
    ok(sparta_model_make_inputs(cx, m, &how, &made));
    const sparta_named_tensor *x = sparta_inputs_array(made, 0);
    assert_int_equal(x->tensor.dim[0], 3);
    assert_true(sparta_inputs_made(made, 0));
    assert_null(sparta_inputs_array(made, 1));

    place a = enter_place(p);
    sparta_named_tensor want = {.name = sparta_model_output_name(m, 0)}, got = want;
    ok(sparta_model_run(cx, m, x, 1, &want, 1));
    ok(sparta_session_run(cx, a.session, x, 1, &got, 1));
    assert_int_equal(sparta_tensor_elements(&got.tensor), sparta_tensor_elements(&want.tensor));
    for (int64_t i = 0; i < sparta_tensor_elements(&got.tensor); i++)
        assert_true(fabsf(((float *)got.tensor.data)[i] - ((float *)want.tensor.data)[i]) < 1e-4f);
    refused(sparta_model_run(cx, m, x, 1, &(sparta_named_tensor){.name = "none"}, 1), SPARTA_E_USAGE,
            "no such output");

    how.dims = NULL; /* the array that is given says the size */
    how.given = x;
    how.n_given = 1;
    ok(sparta_package_make_inputs(cx, p, &how, &again));
    assert_true(sparta_inputs_array(again, 0)->tensor.data == x->tensor.data);
    assert_false(sparta_inputs_made(again, 0));
    sparta_inputs_free(again);
    sparta_named_tensor other = {"inputt", x->tensor};
    how.given = &other;
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_USAGE, "has no input 'inputt'");
    other = *x;
    other.tensor.dim[1]--;
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_SHAPE, "the model wants");
    other = *x;
    other.tensor.device = 4;
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_UNSUPPORTED, "device 4");

    const char *random[] = {NULL, NULL, NULL};
    char text[64];
    snprintf(text, sizeof text, "%s=random:2:3", x->name);
    random[0] = text;
    how.n_given = 0;
    how.random = random;
    how.dims = dims;
    ok(sparta_package_make_inputs(cx, p, &how, &again));
    const sparta_tensor *t = &sparta_inputs_array(again, 0)->tensor;
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++)
        assert_true(((float *)t->data)[i] >= 2 && ((float *)t->data)[i] < 3);
    sparta_inputs_free(again);
    random[1] = text;
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_USAGE, "given twice");
    random[1] = "nobody=random";
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_USAGE, "no input 'nobody'");
    random[1] = "x=random:3:2";
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_USAGE,
            "options.random x=random:3:2: expected");
    random[1] = "x=randomly";
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_USAGE,
            "options.random x=randomly: expected");
    random[0] = NULL;
    how.size = 0;
    refused(sparta_package_make_inputs(cx, p, &how, &again), SPARTA_E_USAGE, "size");
    sparta_inputs_free(made);
    sparta_inputs_free(NULL);
    sparta_model_close(m);
    sparta_model_close(NULL);
    leave_place(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_inputs),
        cmocka_unit_test(into),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(in_place),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
