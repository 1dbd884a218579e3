/* compile: neighbours that become one generated kernel. What they compute stays the same at every size and number of threads, what others read is
 * stored, what cannot be one stays two, and code that computes something else is caught. */
#include "models.h"
#include "sanitized.h"
#include "compile/lower.h"

#define GRAPH(body)            "graph \"g\"\ninput x: f32[batch,sequence,24]\n" body
#define LINE(name, type, call) "node " name ": " type " = " call " \"" name "\"\n"

/* Kernels that were generated, and nodes that they run. */
typedef struct found {
    int kernels, nodes, lanes;
} found;

static found look(const sparta_package *p)
{
    found f = {0};
    for (int i = 0; i < p->plan->n_nodes; i++) {
        const sp_attrs *a = &p->plan->node[i]->attrs;
        const bool mine = sp_attr_find(a, "nest");
        f.kernels += mine;
        f.nodes += mine || sp_attr_find(a, "chain");
        f.lanes += mine && !strcmp(sp_attr_string(a, "kernel", ""), "nest_lanes");
    }
    return f;
}

static void becomes(const char *text, int kernels, int nodes)
{
    sparta_package *p = check_text(text);
    const found f = look(p);
    if (f.kernels != kernels || f.nodes != nodes)
        fail_msg("%d nodes in %d kernels, not %d in %d:\n%s", f.nodes, f.kernels, nodes, kernels, text);
    sparta_package_close(p);
}

/* ------------------------------------------------------------------ what becomes one */

static void chains_are_one_kernel(void **state)
{
    (void)state;
    becomes(GRAPH(LINE("a", "?", "Exp(x)") LINE("b", "?", "Add(a, x)") LINE("c", "?", "Sqrt(b)")
                      LINE("y", "?", "Mul(c, a)") "output y\n"),
            1, 4);
    /* a normalisation that no pass knows: by its largest value, along the middle axis */
    becomes(GRAPH("const axes: i64[1] = [1]\n" LINE("m", "?", "ReduceMax(x, axes)")
                      LINE("d", "?", "Sub(x, m)") LINE("e", "?", "Exp(d)")
                          LINE("s", "?", "ReduceSum(e, axes)") LINE("y", "?", "Div(e, s)") "output y\n"),
            1, 5);
    /* comparisons, a choice, and a cast between them */
    becomes(GRAPH("const zero: f32[] = [0]\n" LINE("p", "?", "Greater(x, zero)") LINE("q", "?", "Not(p)")
                      LINE("n", "?", "Neg(x)") LINE("w", "?", "Where(q, n, x)")
                          LINE("y", "?", "Cast(w) {to=7}") "output y\n"),
            1, 5);
}

/* What is an output, or read behind the chain, is stored by it. */
static void what_others_read_is_stored(void **state)
{
    (void)state;
    becomes(GRAPH(LINE("a", "?", "Exp(x)") LINE("y", "?", "Mul(a, x)") "output y\noutput a\n"), 1, 2);
    becomes(GRAPH("const k: i64[] = [1]\n" LINE("a", "?", "Exp(x)") LINE("y", "?", "Mul(a, x)")
                      LINE("z", "?", "CumSum(a, k)") "output y\noutput z\n"),
            1, 2);
}

/* A value that is needed before the last node of a chain keeps that apart. */
static void what_is_read_between_keeps_them_apart(void **state)
{
    (void)state;
    becomes(GRAPH("const k: i64[] = [1]\n" LINE("a", "?", "Exp(x)") LINE("c", "?", "CumSum(a, k)")
                      LINE("y", "?", "Add(a, c)") "output y\n"),
            2, 2);
}

/* What is stored in f16 is rounded, and a strict context wants that: 300 * 300 is infinite there. */
static void narrow_values_are_rounded(void **state)
{
    (void)state;
    sparta_ctx_options o = {.size = sizeof o, .strict = 1, .cache_dir = cache};
    sparta_ctx *strict = sparta_ctx_create(&o);
    static const char text[] = "graph \"g\"\ninput x: f16[batch,4]\nconst b: f16[] = [300]\n"
                               "node a: ? = Mul(x, b) \"a\"\nnode y: ? = Div(a, b) \"y\"\noutput y\n";
    sparta_package *p = compile_in(strict, graph_in(strict, text), quick());
    sparta_session *s = session_in(strict, p, 1);
    inputs in = make_inputs_in(strict, p->plan, 2, 1, 1);
    for (int i = 0; i < 8; i++) sp_element_set(SPARTA_F16, in.in[0].tensor.data, i, 300);
    results got = run_in(strict, s, p, &in);
    for (int i = 0; i < 8; i++) assert_true(isinf(sp_element_get(SPARTA_F16, got.t[0].data, i)));
    free_results_in(strict, &got);
    sp_inputs_free(strict, in.in, in.n);
    sparta_session_free(s);
    sparta_package_close(p);
    sparta_ctx_free(strict);
}

/* A transposition by itself is a copy; before something that computes it is a way to read. */
static void moves_join_what_computes(void **state)
{
    (void)state;
    becomes(GRAPH(LINE("y", "?", "Transpose(x) {perm=[0,2,1]}") "output y\n"), 0, 0);
    becomes(GRAPH("input s: f32[batch,1,24]\n" LINE("e", "?", "Exp(x)") LINE(
                "y", "?", "Transpose(e) {perm=[1,0,2]}") LINE("z", "?", "Add(e, s)") "output y\noutput z\n"),
            1, 3);
}

/* Between products values lie in panels, and chains there as well. */
static void chains_on_panels(void **state)
{
    (void)state;
    sparta_package *p = check_text(
        GRAPH("const w: f32[24,64] @\"w\"\nconst v: f32[64,24] @\"v\"\nconst g: f32[64] @\"g\"\n" LINE(
            "h", "?", "MatMul(x, w)") LINE("a", "?", "Mul(h, g)") LINE("b", "?", "Sin(a)")
                  LINE("c", "?", "Abs(b)") LINE("d", "?", "Add(c, h)")
                      LINE("y", "?", "MatMul(d, v)") "output y\n"));
    const found f = look(p);
    assert_int_equal(f.kernels, 1);
    assert_int_equal(f.lanes, 1);
    assert_int_equal(f.nodes, 4);
    sparta_package_close(p);
}

/* ------------------------------------------------------------------ random graphs */

static void put(sp_text *t, sp_rng *r, int i)
{
    static const char *const one[] = {"Exp", "Tanh", "Abs", "Neg", "Sigmoid", "Relu", "Floor", "Erf"},
                             *const two[] = {"Add", "Sub", "Mul", "Max", "Min"};
    const int back = 1 + (int)(sp_rng_next(r) % 3), a = SP_MAX(0, i - back),
              b = (int)(sp_rng_next(r) % (uint64_t)i);
    switch (sp_rng_next(r) % 8) {
    case 0:
        sp_text_printf(t, "node v%d: ? = Softmax(v%d) {axis=%d} \"v%d\"\n", i, a, (int)(sp_rng_next(r) % 3),
                       i);
        break;
    case 1: sp_text_printf(t, "node v%d: ? = ReduceMean(v%d, axes) \"v%d\"\n", i, a, i); break;
    case 2:
    case 3:
        sp_text_printf(t, "node v%d: ? = %s(v%d) \"v%d\"\n", i, one[sp_rng_next(r) % SP_COUNT(one)], a, i);
        break;
    case 4: /* an island that nothing joins */
        sp_text_printf(t, "node v%d: ? = CumSum(v%d, axis) \"v%d\"\n", i, a, i);
        break;
    default:
        sp_text_printf(t, "node v%d: ? = %s(v%d, v%d) \"v%d\"\n", i, two[sp_rng_next(r) % SP_COUNT(two)], a,
                       b, i);
    }
}

static void random_graphs(void **state)
{
    (void)state;
    enum { GRAPHS = 24, NODES = 14 };
    int together = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        sp_rng r = sp_rng_seed(seed);
        sp_text t;
        sp_text_init(&t, cx);
        sp_text_printf(&t, "graph \"g\"\ninput v0: f32[batch,sequence,12]\nconst axes: i64[1] = [2]\nconst "
                           "axis: i64[] = [1]\n");
        for (int i = 1; i <= NODES; i++) put(&t, &r, i);
        sp_text_printf(&t, "output v%d\noutput v%d\n", NODES, NODES / 2);
        assert_int_equal(t.status, SPARTA_OK);
        sparta_package *p = check_text(sp_text_str(&t));
        const found f = look(p);
        together += f.nodes - f.kernels;
        sparta_package_close(p);
        sp_text_free(&t);
    }
    print_message("%d random graphs: %d nodes without a kernel of their own\n", GRAPHS, together);
    assert_true(together > 3 * GRAPHS); /* or this tests nothing */
}

/* ------------------------------------------------------------------ no code, wrong code */

static const char two_kernels[] = GRAPH("const k: i64[] = [1]\n" LINE("a", "?", "Exp(x)") LINE(
    "c", "?", "CumSum(a, k)") LINE("y", "?", "Neg(c)") "output y\n");

/* Without a compiler nodes stay what they are. */
static void no_compiler_no_kernels(void **state)
{
    (void)state;
    sparta_ctx *plain = context(cache, "");
    sp_graph *want = graph_in(plain, two_kernels);
    ok_in(plain, sp_ops_infer(want));
    sparta_package *p = compile_in(plain, graph_in(plain, two_kernels), quick());
    sparta_session *s = session_in(plain, p, 2);
    inputs in = make_inputs_in(plain, want, 3, 5, 1);
    results got = run_in(plain, s, p, &in), ref = reference_in(plain, want, &in);
    close_enough(&got, &ref, 1e-6, "references");
    free_results_in(plain, &got);
    free_results_in(plain, &ref);
    sp_inputs_free(plain, in.in, in.n);
    sparta_session_free(s);
    sparta_package_close(p);
    sp_graph_free(want);
    sparta_ctx_free(plain);
}

/* The check of a finished package sees a kernel that computes something else: here two that changed places. */
static void wrong_code_is_caught(void **state)
{
    (void)state;
    const sp_tolerance usual = {-1, -1};
    sp_graph *want = typed(graph(two_kernels));
    sparta_package *p = compile(graph(two_kernels));
    assert_int_equal(look(p).kernels, 2);
    ok(sp_lower_verify(cx, p, want, &usual));
    sp_kernel_code *first = p->kernel[0].code;
    p->kernel[0].code = p->kernel[1].code;
    p->kernel[1].code = first;
    assert_int_equal(sp_lower_verify(cx, p, want, &usual), SPARTA_E_DIFFER);
    sp_ctx_clear(cx);
    sparta_package_close(p);
    sp_graph_free(want);
}

/* Names of the model are in no text: one kernel serves all models that compute the same. */
static void texts_are_free_of_names(void **state)
{
    (void)state;
    sparta_package *p = compile(graph("graph \"g\"\ninput secret_in: f32[batch,sequence]\n"
                                      "node secret_a: ? = Exp(secret_in) \"secret_node\"\n"
                                      "node secret_y: ? = Neg(secret_a) \"secret_last\"\noutput secret_y\n"));
    for (int i = 0; i < p->n_kernels; i++) assert_null(strstr(p->kernel[i].source, "secret"));
    for (int i = 0; i < p->n_kernels; i++) assert_null(strstr(p->kernel[i].parameters, "secret"));
    assert_int_equal(p->n_kernels, 1);
    sparta_package_close(p);
}

/* Where the test is built with sanitizers, so are the kernels. */
static int enter_sanitized(void **state)
{
    if (enter(state)) return -1;
    if (!SANITIZED) return 0;
    sparta_ctx_free(cx);
    cx = sanitizing_context(cache);
    return cx ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_one_kernel),
        cmocka_unit_test(what_others_read_is_stored),
        cmocka_unit_test(what_is_read_between_keeps_them_apart),
        cmocka_unit_test(narrow_values_are_rounded),
        cmocka_unit_test(moves_join_what_computes),
        cmocka_unit_test(chains_on_panels),
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(no_compiler_no_kernels),
        cmocka_unit_test(wrong_code_is_caught),
        cmocka_unit_test(texts_are_free_of_names),
    };
    return cmocka_run_group_tests(tests, enter_sanitized, leave);
}
