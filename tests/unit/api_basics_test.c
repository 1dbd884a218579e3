/* The C interface's basics, as a program sees them: versions, messages, notes, cancelling and going on, types of what a package takes and
 * gives, which code runs. */
#include "unit/api_bed.h"

static void versions(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", SPARTA_VERSION_MAJOR, SPARTA_VERSION_MINOR, SPARTA_VERSION_PATCH);
    assert_string_equal(text, SPARTA_VERSION);
    assert_string_equal(sparta_version(), SPARTA_VERSION);
    assert_int_equal(sparta_version_number(), SPARTA_VERSION_NUMBER);
}

static void sizes_of_options(void **state)
{
    (void)state;
    const sparta_compile_options all = SPARTA_OPTIONS(sparta_compile_options);
    assert_int_equal(all.size, sizeof all);
    assert_true(!all.masks && !all.threads && !all.dims && !all.no_propagate && all.rtol == 0);
}

/* What was cancelled stays cancelled, until it is reset; then the same context works. */
static void cancel_and_go_on(void **state)
{
    (void)state;
    sparta_package *p = NULL;
    const sparta_compile_options o = quick();
    sparta_ctx_cancel(cx);
    refused(sparta_compile(cx, MLP, in_root("cancelled.sparta"), &o), SPARTA_E_CANCELLED, "cancelled");
    refused(sparta_compile(cx, MLP, in_root("cancelled.sparta"), &o), SPARTA_E_CANCELLED, "cancelled");
    assert_int_not_equal(access(in_root("cancelled.sparta"), F_OK), 0);
    sparta_ctx_reset(cx);
    assert_string_equal(sparta_message(cx), "");
    p = mlp();
    sparta_package_close(p);
    sparta_ctx_reset(NULL);
    sparta_ctx_cancel(NULL);
}

static void types(void **state)
{
    (void)state;
    sparta_package *p = mlp();
    sparta_tensor t;
    assert_int_equal(sparta_package_inputs(p), 1);
    assert_int_equal(sparta_package_outputs(p), 1);
    sparta_package_input_type(p, 0, &t);
    assert_int_equal(t.dtype, SPARTA_F32);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dim[0], -1);
    assert_int_equal(t.dim[1], MLP_IN);
    sparta_package_output_type(p, 0, &t);
    assert_int_equal(t.dtype, SPARTA_F32);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dim[0], -1);
    assert_int_equal(t.dim[1], MLP_OUT);
    assert_null(t.data);
    for (int i = -1; i <= 1; i += 2) {
        sparta_package_output_type(p, i, &t);
        assert_int_equal(t.rank, -1);
        assert_null(sparta_package_output_name(p, i));
    }
    sparta_package_close(p);
}

/* Without a compiler nothing but portable C can be in the package, and it is said where somebody would look. */
static void portable(void **state)
{
    (void)state;
    sparta_ctx_options none = SPARTA_OPTIONS(sparta_ctx_options);
    sparta_session_options two = SPARTA_OPTIONS(sparta_session_options);
    sparta_package *p = mlp(), *q = NULL;
    sparta_session *s = NULL;
    two.threads = 2;
    ok(sparta_session_create(cx, p, &two, &s));
    assert_int_equal(sparta_session_threads(s), 2);
    if (strcmp(sparta_session_isa(s), "portable")) assert_int_equal(sparta_session_portable(s), 0);
    sparta_session_free(s);
    none.cache_dir = none.compiler = "";
    sparta_ctx *own = cx;
    const sparta_compile_options o = quick();
    cx = sparta_ctx_create(&none);
    assert_non_null(cx);
    assert_string_equal(sparta_notes(cx), "");
    ok(sparta_compile(cx, MLP, in_root("portable.sparta"), &o));
    ok(sparta_package_open(cx, in_root("portable.sparta"), &q));
    ok(sparta_session_create(cx, q, NULL, &s));
    assert_string_equal(sparta_session_isa(s), "portable");
    assert_true(*sparta_notes(cx));
    sparta_ctx_reset(cx);
    assert_string_equal(sparta_notes(cx), "");
    sparta_session_free(s);
    sparta_package_close(q);
    sparta_ctx_free(cx);
    cx = own;
    sparta_package_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions), cmocka_unit_test(sizes_of_options), cmocka_unit_test(cancel_and_go_on),
        cmocka_unit_test(types),    cmocka_unit_test(portable),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
