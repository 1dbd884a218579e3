/* Precision beside the facts: what is dequantised stays narrow while it only moves, pairs cancel, and the attribute of a value. */
#include "propagate_bed.h"
#include "compile/passes.h"
#include <stdio.h>
#include <string.h>

static int count(const sp_graph *g, const char *op)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += !strcmp(sp_builtin_row(g->node[i]->op)->name, op);
    return n;
}

/* q --Dequantize--> Transpose --> Quantize with the given second scale and zero point, and what lies between. */
static sp_graph *pair(const char *scale, const char *zero, const char *between)
{
    char text[2000];
    snprintf(text, sizeof text,
             "graph \"pair\"\n"
             "input q: i8[b,4]\n"
             "const s: f32[] = [0.25]\n"
             "const z: i8[] = [3]\n"
             "const s2: f32[] = [%s]\n"
             "const z2: i8[] = [%s]\n"
             "const pads: i64[4] = [0,1,0,1]\n"
             "const shape: i64[2] = [4,-1]\n"
             "node x: f32[b,4] = DequantizeLinear(q, s, z)\n"
             "%s"
             "node r: ? = QuantizeLinear(y, s2, z2)\n"
             "output r\n",
             scale, zero, between);
    return parse(text);
}

#define TURN "node t: ? = Transpose(x) {perm=[1,0]}\nnode y: ? = Identity(t)\n"

static void test_pairs_cancel(void **state)
{
    (void)state;
    sp_propagate_report report;
    sp_graph *g = pair("0.25", "3", TURN);
    ok(sp_propagate(g, NULL, &report));
    assert_int_equal(count(g, "DequantizeLinear") + count(g, "QuantizeLinear"), 0);
    assert_int_equal(count(g, "Transpose"), 1);
    assert_string_equal(g->output[0]->name, "r");
    assert_int_equal(g->output[0]->dtype, SPARTA_I8);
    const int64_t dim[2] = {2, 4};
    int8_t in[8] = {-128, -1, 0, 127, 5, 6, 7, 8};
    sparta_named_tensor input = {"q", sparta_tensor_view(SPARTA_I8, 2, dim, in)};
    sparta_tensor out;
    ok(sp_ops_run(cx, g, &input, 1, &out, NULL, NULL));
    for (int i = 0; i < 8; i++) assert_int_equal(((int8_t *)out.data)[i % 4 * 2 + i / 4], in[i]);
    sp_free(cx, out.data);
    sp_graph_free(g);
}

/* One pair behind the other: each is found, as long as the model is. */
static void test_many_pairs_cancel(void **state)
{
    (void)state;
    char name[2][16] = {"q"};
    sp_propagate_report report;
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "graph \"g\"\ninput q: i8[b,4]\nconst s: f32[] = [0.25]\nconst z: i8[] = [3]\n");
    for (int i = 0; i < 5000; i++) {
        snprintf(name[(i + 1) % 2], sizeof *name, "q%d", i);
        sp_text_printf(&t,
                       "node x%d: ? = DequantizeLinear(%s, s, z)\nnode y%d: ? = Transpose(x%d) {perm=[1,0]}\n"
                       "node %s: ? = QuantizeLinear(y%d, s, z)\n",
                       i, name[i % 2], i, i, name[(i + 1) % 2], i);
    }
    sp_text_printf(&t, "output %s\n", name[0]);
    ok(t.status);
    sp_graph *g = parse(sp_text_str(&t));
    sp_text_free(&t);
    ok(sp_propagate(g, NULL, &report));
    assert_int_equal(g->n_nodes, 5000);
    assert_int_equal(count(g, "Transpose"), 5000);
    sp_graph_free(g);
}

/* Another scale, zero point, arithmetic or a border between them: the pair computes something. */
static void test_pairs_stay(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"0.5", "3", TURN},
        {"0.25", "4", TURN},
        {"0.25", "3", "node y: ? = Relu(x)\n"},
        {"0.25", "3", "node y: ? = Pad(x, pads)\n"},
        {"0.25", "3", "node y: ? = Add(x, x)\n"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_propagate_report report;
        sp_graph *g = pair(cases[i][0], cases[i][1], cases[i][2]);
        ok(sp_propagate(g, NULL, &report));
        assert_int_equal(count(g, "DequantizeLinear"), 1);
        assert_int_equal(count(g, "QuantizeLinear"), 1);
        sp_graph_free(g);
    }
}

static sp_precision precision_of(const sp_propagation *p, const sp_graph *g, const char *name)
{
    const sp_value *v = sp_graph_find(g, name);
    assert_non_null(v);
    return sp_tesa_precision(sp_propagation_tesa(p, v), NULL);
}

/* A move keeps the precision, arithmetic does not, and two of them meet at the first that holds both. */
static void test_flows(void **state)
{
    (void)state;
    sp_propagation *p;
    sp_graph *g = parse("graph \"flow\"\n"
                        "input q: i8[b,4]\n"
                        "input u: u8[b,4]\n"
                        "const s: f32[] = [0.25]\n"
                        "const pads: i64[4] = [0,1,0,1]\n"
                        "node x: ? = DequantizeLinear(q, s)\n"
                        "node y: ? = DequantizeLinear(u, s)\n"
                        "node t: ? = Transpose(x) {perm=[1,0]}\n"
                        "node r: ? = Relu(t)\n"
                        "node c: ? = Concat(x, y) {axis=1}\n"
                        "node d: ? = Concat(x, x) {axis=1}\n"
                        "output r\noutput c\noutput d\n");
    ok(sp_propagate_facts(g, NULL, &p));
    assert_int_equal(precision_of(p, g, "q"), SP_PRECISION_I8);
    assert_int_equal(precision_of(p, g, "x"), SP_PRECISION_I8);
    assert_int_equal(precision_of(p, g, "t"), SP_PRECISION_I8);
    assert_int_equal(precision_of(p, g, "r"), SP_PRECISION_F32);
    assert_int_equal(precision_of(p, g, "c"), SP_PRECISION_I16);
    assert_int_equal(precision_of(p, g, "d"), SP_PRECISION_I8);
    sp_propagation_free(p);
    sp_graph_free(g);
}

#define QUANTISED                                                                                            \
    "graph \"narrow\"\n"                                                                                     \
    "input x: f32[b,2]\n"                                                                                    \
    "const q: i8[2,3] = [1,0,2,3,0,4]\n"                                                                     \
    "const s: f32[] = [0.5]\n"                                                                               \
    "const bias: f32[3] = [1,0,3]\n"                                                                         \
    "const w2: f32[3,2] = [5,6,7,8,1,2]\n"                                                                   \
    "node w: ? = DequantizeLinear(q, s)\n"                                                                   \
    "node h: ? = MatMul(x, w)\n"                                                                             \
    "node hb: ? = Add(h, bias)\n"                                                                            \
    "node y: ? = MatMul(hb, w2)\n"                                                                           \
    "output y\n"

/* A weight that DequantizeLinear widens keeps its type and loses its dead column; compile's pass makes it f32. */
static void test_weights_stay_narrow(void **state)
{
    (void)state;
    sp_propagate_report report;
    sp_graph *g = parse(QUANTISED);
    assert_int_equal(count(g, "DequantizeLinear"), 1);
    ok(sp_propagate(g, NULL, &report));
    assert_int_equal(count(g, "DequantizeLinear"), 1);
    assert_int_equal(sp_graph_find(g, "q")->dtype, SPARTA_I8);
    assert_true(report.parameters_after < report.parameters_before);
    ok(sp_pass_dequantize(g));
    ok(sp_ops_infer(g));
    assert_int_equal(count(g, "DequantizeLinear"), 0);
    const sp_value *w = sp_graph_find(g, "w");
    assert_non_null(w->constant);
    assert_int_equal(w->dtype, SPARTA_F32);
    assert_true(((const float *)w->constant->data)[0] == 0.5f);
    ok(sp_graph_verify(g));
    sp_graph_free(g);
}

static void rule_says(const sp_tesa *t, const char *expected)
{
    sp_text text;
    sp_text_init(&text, cx);
    ok(sp_tesa_print(t, &text));
    assert_string_equal(sp_text_str(&text), expected);
    sp_text_free(&text);
}

/* dims, zeros, constants and precision as an attribute. */
static void test_attribute(void **state)
{
    (void)state;
    sp_propagation *p;
    double x, zeros, constants;
    sp_graph *g = parse("graph \"attribute\"\n"
                        "input x: f32[b,2]\n"
                        "const w: f32[2,4] = [1,0,0,2,3,0,0,4]\n"
                        "const bias: f32[4] = [1,0,7,3]\n"
                        "node h: ? = MatMul(x, w)\n"
                        "node y: ? = Add(h, bias)\n"
                        "output y\n"
                        "bound b[8]\n");
    ok(sp_propagate_facts(g, NULL, &p));
    const sp_value *y = sp_graph_find(g, "y");
    const sp_tesa *t = sp_propagation_tesa(p, y);
    assert_true(sp_dims_equal(&t->dims, &y->dims));
    assert_true(sp_tesa_known(t, (int64_t[]){5, 1}, &x) && x == 0);
    assert_true(sp_tesa_known(t, (int64_t[]){3, 2}, &x) && x == 7);
    assert_false(sp_tesa_known(t, (int64_t[]){0, 0}, &x));
    assert_false(sp_tesa_known(t, (int64_t[]){3, 3}, &x));
    assert_int_equal(sp_tesa_precision(t, (int64_t[]){0, 0}), SP_PRECISION_F32);
    sp_tesa_shares(t, &zeros, &constants);
    assert_true(zeros == .25 && constants == .25);
    rule_says(
        t, "tesa [b,4]; has along 1 mask 1x4 hex d; constant f32 along 1 mask 1x4 hex 4 values 7; precision "
           "f32");
    t = sp_propagation_tesa(p, sp_graph_find(g, "w"));
    assert_true(sp_tesa_known(t, (int64_t[]){1, 1}, &x) && x == 0);
    rule_says(
        t, "tesa [2,4]; has along 1 mask 1x4 hex 9; constant f32 along 0 1 mask 2x4 hex 9 9 values 1 2 3 4; "
           "precision f32");
    rule_says(sp_propagation_tesa(p, sp_graph_find(g, "x")), "tesa [b,2]; has all; precision f32");
    sp_propagation_free(p);
    sp_graph_free(g);
}

/* Every allocation may fail, and nothing is left behind. */
static void test_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        sp_propagation *p = NULL;
        sp_text text;
        sp_text_init(&text, cx);
        sp_graph *g = pair("0.25", "3", TURN);
        sp_ctx_fail_alloc(cx, n, false);
        sparta_status status = sp_propagate_facts(g, NULL, &p);
        if (status == SPARTA_OK) status = sp_tesa_print(sp_propagation_tesa(p, g->output[0]), &text);
        sp_propagate_report report;
        if (status == SPARTA_OK) status = sp_propagate(g, NULL, &report);
        sp_ctx_fail_alloc(cx, 0, false);
        sp_text_free(&text);
        sp_propagation_free(p);
        sp_graph_free(g);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_in_range(n, 1, 5000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pairs_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_pairs_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pairs_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_weights_stay_narrow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attribute, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
