/* Facts that follow values: what is known of one operand settles the result whatever the others are, and they are not needed. Every
 * rule of `hides`, `after` and `sign` (ops/flow.h), and sums of integers that no double holds. */
#include "propagate_bed.h"
#include "propagate_needed.h"
#include "ops/flow.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEAD "graph \"g\"\n"

static sp_propagation *facts(sp_graph *g)
{
    sp_propagation *p;
    ok(sp_propagate_facts(g, NULL, &p));
    return p;
}

/* "2 . 0": what is known of a value along its last axis, with 0 for the others; a dot is unknown. */
static void known(const sp_graph *g, const sp_propagation *p, const char *name, const char *expected)
{
    const sp_value *v = sp_graph_find(g, name);
    char text[200] = "";
    int64_t n = 1, index[SPARTA_RANK] = {0};
    assert_non_null(v);
    if (v->dims.rank) assert_true(sp_expr_is_const(v->dims.dim[v->dims.rank - 1], &n));
    for (int64_t i = 0; i < n; i++) {
        double x;
        size_t at = strlen(text);
        if (v->dims.rank) index[v->dims.rank - 1] = i;
        if (sp_tesa_known(sp_propagation_tesa(p, v), index, &x))
            snprintf(text + at, sizeof text - at, "%s%g", i ? " " : "", x);
        else
            snprintf(text + at, sizeof text - at, "%s.", i ? " " : "");
    }
    assert_string_equal(text, expected);
}

/* "1 0 1": what is needed along the last axis. */
static void needed(const sp_graph *g, const sp_propagation *p, const char *name, const char *expected)
{
    const sp_value *v = sp_graph_find(g, name);
    char text[200] = "";
    int64_t n = 1, index[SPARTA_RANK] = {0};
    assert_non_null(v);
    if (v->dims.rank) assert_true(sp_expr_is_const(v->dims.dim[v->dims.rank - 1], &n));
    for (int64_t i = 0; i < n; i++) {
        size_t at = strlen(text);
        if (v->dims.rank) index[v->dims.rank - 1] = i;
        snprintf(text + at, sizeof text - at, "%s%d", i ? " " : "", (int)is_needed(p, v, index));
    }
    assert_string_equal(text, expected);
}

/* One graph: y's facts, and what is needed of u, an Identity of the input x. */
typedef struct expectation {
    const char *text, *y, *u;
} expectation;

static void check(const expectation *e)
{
    sp_graph *g = parse(e->text);
    sp_propagation *p = facts(g);
    known(g, p, "y", e->y);
    if (e->u) needed(g, p, "u", e->u);
    sp_propagation_free(p);
    sp_graph_free(g);
}

static void strictly(void)
{
    sparta_ctx_options options = {.size = sizeof options, .strict = true};
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
    cx = sparta_ctx_create(&options);
    assert_non_null(cx);
}

/* ------------------------------------------------------------------ hidden */
#define U(dims) HEAD "input x: f32[" dims "]\nnode u: ? = Identity(x)\n"
#define B       HEAD "input x: bool[4]\nnode u: ? = Identity(x)\n"
#define Y       "\noutput y\n"

/* For all values, infinities and NaN too: in a strict context as well. */
static const expectation firm[] = {
    {U("b,4") "const c: bool[4] = [1,0,1,0]\nconst z: f32[4] = [5,6,0,-7]\nnode y: ? = Where(c, u, z)" Y,
     ". 6 . -7", "1 0 1 0"},
    {U("b,4") "const c: bool[4] = [1,0,1,0]\nconst z: f32[4] = [5,6,0,-7]\nnode y: ? = Where(c, z, u)" Y,
     "5 . 0 .", "0 1 0 1"},
    {U("b,4") "const c: bool[] = [1]\nconst z: f32[4] = [5,6,0,-7]\nnode y: ? = Where(c, z, u)" Y, "5 6 0 -7",
     "0 0 0 0"},
    {U("b,4") "const c: bool[1,1] = [0]\nconst z: f32[4] = [5,6,0,-7]\nnode y: ? = Where(c, z, u)" Y,
     ". . . .", "1 1 1 1"},
    {U("2,4") "const c: bool[2,1] = [1,0]\nconst z: f32[4] = [5,6,0,-7]\nnode y: ? = Where(c, z, u)" Y,
     "5 6 0 -7", "0 0 0 0"}, /* row 0 */
    /* what is not finite is not known, and hides as well as anything */
    {U("4") "const c: bool[4] = [1,0,0,0]\nconst z: f32[4] = [5,inf,nan,-7]\nnode y: ? = Where(c, u, z)" Y,
     ". . . -7", "1 0 0 0"},
    /* a condition that is computed */
    {U("4") "input a: bool[4]\nconst m: bool[4] = [1,0,1,0]\nconst t: bool[4] = [0,0,1,1]\n"
            "node o: ? = And(a, m)\nnode c: ? = Or(o, t)\nconst z: f32[4] = [5,6,7,8]\n"
            "node y: ? = Where(c, z, u)" Y,
     ". . 7 8", "1 1 0 0"},
    {B "const m: bool[4] = [1,0,1,0]\nnode y: ? = Or(u, m)" Y, "1 . 1 .", "0 1 0 1"},
    {B "const m: bool[4] = [1,0,1,0]\nnode y: ? = Or(m, u)" Y, "1 . 1 .", "0 1 0 1"},
    {B "const m: bool[4] = [1,0,1,0]\nnode y: ? = And(u, m)" Y, ". 0 . 0", "1 0 1 0"},
    {B "const m: bool[4] = [1,0,1,0]\nnode y: ? = Xor(u, m)" Y, ". . . .", "1 1 1 1"},
    {B "const m: bool[4] = [1,0,1,0]\nconst n: bool[4] = [1,1,0,0]\nnode v: ? = Or(u, n)\n"
       "node w: ? = Or(u, m)\nnode y: ? = Or(v, w)" Y,
     "1 1 1 .", "0 0 0 1"},
    {U("4") "const e: f32[4] = [0,1,0,2]\nnode y: ? = Pow(u, e)" Y, "1 . 1 .", "0 1 0 1"},
    {HEAD "input x: i64[4]\nnode u: ? = Identity(x)\nconst m: i64[4] = [3,0,1,0]\nnode y: ? = Mul(u, m)" Y,
     ". 0 . 0", "1 0 1 0"}, /* integers are finite */
    {HEAD "input x: i64[2,3]\nnode u: ? = Identity(x)\nconst m: i64[3] = [3,0,1]\nnode v: ? = Mul(u, m)\n"
          "const a: i64[1] = [1]\nnode y: ? = ReduceProd(v, a) {keepdims=0}" Y,
     "0 0", NULL},
};

static void test_hidden(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(firm); i++) check(&firm[i]);
    strictly();
    for (size_t i = 0; i < SP_COUNT(firm); i++) check(&firm[i]);
}

/* ------------------------------------------------------------------ for finite values */
#define SCALED(op, more, attrs)                                                                              \
    U("2,3,4")                                                                                               \
    "const g: f32[4] = [1,0,-0.0,2]\nconst h: f32[4] = [5,6,7,8]\nnode y: ? = " op "(u, g" more ")" attrs Y
#define CHANNELS(op, x, attrs)                                                                               \
    U(x)                                                                                                     \
    "const g: f32[4] = [1,0,-0.0,2]\nconst h: f32[4] = [5,6,7,8]\nnode v: ? = " op "(u, g, h)" attrs         \
    "\nnode y: ? = Transpose(v) {perm=[2,0,1]}" Y
#define ALL_OFF                                                                                              \
    U("2,3,4")                                                                                               \
    "const g: f32[4] = [0,0,0,0]\nconst h: f32[4] = [5,6,7,8]\nnode y: ? = LayerNormalization("              \
    "u, g, h)" Y

static const expectation when_finite[] = {
    {SCALED("LayerNormalization", ", h", ""), ". 6 7 .", "1 1 1 1"},
    {SCALED("LayerNormalization", "", ""), ". 0 0 .", "1 1 1 1"},
    {SCALED("LayerNormalization", ", h", " {axis=1}"), ". 6 7 .", "1 1 1 1"},
    {SCALED("RMSNormalization", "", ""), ". 0 0 .", "1 1 1 1"},
    {ALL_OFF, "5 6 7 8", "0 0 0 0"},
    {CHANNELS("InstanceNormalization", "2,4,3", ""), ". 6 7 .", NULL},
    {CHANNELS("GroupNormalization", "2,4,3", " {num_groups=2}"), ". 6 7 .", NULL},
    {CHANNELS("GroupNormalization", "2,4,3", " {num_groups=4}"), ". 6 7 .", NULL},
    {U("4") "const e: f32[4] = [1,1,-0.0,2]\nnode y: ? = Pow(u, e)" Y, ". . 1 .", "1 1 0 1"},
    /* a zero of the line is enough, and it must stay one */
    {U("2,3") "const m: f32[3] = [3,0,1]\nnode v: ? = Mul(u, m)\nconst a: i64[1] = [1]\n"
              "node y: ? = ReduceProd(v, a) {keepdims=0}" Y,
     "0 0", "0 0 0"},
    {U("2,3") "const m: f32[2,1] = [3,0]\nnode v: ? = Mul(u, m)\nconst a: i64[1] = [1]\n"
              "node y: ? = ReduceProd(v, a) {keepdims=0}" Y,
     ". 0", "1 1 1"},
    {U("2,3") "const m: f32[2,1] = [3,0]\nnode v: ? = Mul(u, m)\nnode y: ? = ReduceProd(v) {keepdims=0}" Y,
     "0", "0 0 0"},
    /* a run on zeros asks with whole tuples: a part of one would take, and write, more than a slice */
    {HEAD "const v: f32[3,3,2] = [0.75,0,1,0,1.5,0,0.25,0,1.5,0,0.5,0,1.25,0,0.75,0,0,0]\ninput i: i64[4,2]\n"
          "node y: ? = GatherND(v, i)" Y,
     ". 0", NULL},
};

/* Neither with further outputs nor where an epsilon of 0 would divide by it. */
static const expectation nothing[] = {
    {U("2,3,4") "const g: f32[4] = [0,0,0,0]\nnode y: ?, m: ?, i: ? = LayerNormalization(u, g)\n"
                "output y\noutput m\n",
     ". . . .", "1 1 1 1"},
    {SCALED("LayerNormalization", ", h", " {epsilon=0.0}"), ". . . .", "1 1 1 1"},
    {SCALED("RMSNormalization", "", " {epsilon=0.0}"), ". . . .", "1 1 1 1"},
    {CHANNELS("InstanceNormalization", "2,4,3", " {epsilon=0.0}"), ". . . .", NULL},
    {CHANNELS("GroupNormalization", "2,4,3", " {num_groups=2, epsilon=-1.0}"), ". . . .", NULL},
    {U("4") "const z: f32[] = [0]\nnode y: ? = Div(z, u)" Y, ". . . .", "1 1 1 1"},
    {U("4") "const z: f32[4] = [1,1,1,1]\nnode y: ? = Pow(z, u)" Y, ". . . .", "1 1 1 1"},
    {U("2,3") "const m: f32[3] = [3,0,1]\nnode v: ? = Mul(u, m)\nconst a: i64[1] = [1]\n"
              "node y: ? = ReduceMax(v, a) {keepdims=0}" Y,
     ". .", NULL},
};

static void test_finite(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(when_finite); i++) check(&when_finite[i]);
    for (size_t i = 0; i < SP_COUNT(nothing); i++) check(&nothing[i]);
}

/* Nothing of it is known then. */
static void test_finite_is_not_strict(void **state)
{
    (void)state;
    strictly();
    for (size_t i = 0; i < SP_COUNT(when_finite); i++) {
        char dots[16] = ".";
        for (const char *s = when_finite[i].y; (s = strchr(s, ' ')); s++) strcat(dots, " .");
        check(&(expectation){when_finite[i].text, dots, NULL});
    }
}

/* ------------------------------------------------------------------ signs of zeros */
/* x / 0 is one end of the type or the other, as the sign of the zero is, and nobody knows that one. */
static void test_quantized_by_zero(void **state)
{
    (void)state;
    static const expectation cases[] = {
        {HEAD
         "input b: f32[]\nconst o: f32[] = [0]\nnode s: ? = Mul(b, o)\ninput x: f32[2]\n"
         "const m: f32[2] = [0,0]\nnode v: ? = Mul(x, m)\nconst k: f32[2] = [3,0]\nnode w: ? = Add(v, k)\n"
         "const z: i8[] = [0]\nnode y: ? = QuantizeLinear(w, s, z)" Y,
         ". .", NULL},
        {HEAD "input x: f32[4]\nconst m: f32[] = [0]\nnode v: ? = Mul(x, m)\nconst k: f32[4] = [3,3,4,0]\n"
              "node w: ? = Add(v, k)\nconst s: f32[4] = [-0.0,0.0,0.5,2]\nconst z: i8[4] = [0,0,1,1]\n"
              "node y: ? = QuantizeLinear(w, s, z) {axis=0}" Y,
         ". . 9 1", NULL},
        {HEAD
         "input x: f32[3]\nconst m: f32[] = [0]\nnode v: ? = Mul(x, m)\nconst k: f32[3] = [1e38,-1e38,1]\n"
         "node w: ? = Add(v, k)\nconst s: f32[] = [1e-30]\nconst z: i8[] = [0]\n"
         "node y: ? = QuantizeLinear(w, s, z)" Y,
         "127 -128 127", NULL}, /* beyond all floats, it still ends at the bounds */
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) check(&cases[i]);
}

/* Strictly, a zero keeps its sign: 1 / -0.0 is not 1 / 0. */
static void test_strict_zeros_keep_their_sign(void **state)
{
    (void)state;
    strictly();
    sp_propagate_report r;
    sp_graph *g = parse(HEAD "input x: f32[2,2]\nconst c: bool[] = [0]\nconst k: f32[2] = [-0.0,0]\n"
                             "node w: ? = Where(c, x, k)\nnode t: ? = Transpose(w)\nnode a: ? = Relu(x)\n"
                             "node y: ? = Div(a, t)" Y);
    ok(sp_propagate(g, NULL, &r));
    const sparta_tensor *by = sp_graph_find(g, "y")->producer->in[1]->constant;
    assert_non_null(by);
    const int64_t n = sparta_tensor_elements(by);
    assert_true(signbit(sp_element_get(SPARTA_F32, by->data, 0)));
    assert_false(signbit(sp_element_get(SPARTA_F32, by->data, n - 1)));
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ an ARG of a sum */
static sp_rule planted; /* for OnnxAttention; no axes: none */

/* The linker puts this in place of sp_rule_of (--wrap, in the Makefile). */
const sp_rule *__real_sp_rule_of(sp_op_id op);
const sp_rule *__wrap_sp_rule_of(sp_op_id op);
const sp_rule *__wrap_sp_rule_of(sp_op_id op)
{
    return op == SP_OP_OnnxAttention && planted.axes ? &planted : __real_sp_rule_of(op);
}

static sparta_status with_values(sp_axes *a)
{
    SP_TRY(sp_rule_OnnxAttention.axes(a));
    a->no_values = false;
    return SPARTA_OK;
}

/* Key 0 is not known and its value is 0; key 1 is known, and so is its value. The answer has key 0 in its softmax, whether the rule
 * lets constants pass or not. */
static void test_unknown_key_of_no_value(void **state)
{
    (void)state;
    planted = sp_rule_OnnxAttention;
    planted.axes = with_values;
    sp_graph *g =
        parse(HEAD "input u: f32[1,1,1,2]\nconst o: f32[] = [0]\nnode n: ? = Mul(u, o)\n"
                   "const c: f32[1,1,1,2] = [1,2]\nnode q: ? = Add(n, c)\nnode k: ? = Concat(u, q) {axis=2}\n"
                   "const v: f32[1,1,2,2] = [0,0,1,0]\nnode y: ? = Attention(q, k, v)" Y);
    sp_propagation *p = facts(g);
    known(g, p, "q", "1 2");
    known(g, p, "y", ". 0");
    sp_propagation_free(p);
    sp_graph_free(g);
    planted.axes = NULL;
}

/* ------------------------------------------------------------------ the smaller model */
static void dims_are(const sp_graph *g, const char *name, const char *expected)
{
    const sp_value *v = sp_graph_find(g, name);
    sp_text t;
    sp_text_init(&t, cx);
    assert_non_null(v);
    sp_dims_print(&v->dims, &t);
    assert_string_equal(sp_text_str(&t), expected);
    sp_text_free(&t);
}

/* Channels that a condition switches off go from the layer before it; what is there in their place goes into the bias after it. */
static void test_where_switches_channels_off(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = parse(HEAD "input x: f32[b,2]\nconst w: f32[2,4] = [1,2,3,4,5,6,7,8]\n"
                             "node h: ? = MatMul(x, w)\nconst c: bool[4] = [1,0,1,0]\nconst z: f32[] = [2]\n"
                             "node a: ? = Where(c, h, z)\nconst v: f32[4,1] = [1,10,100,1000]\n"
                             "node y: ? = MatMul(a, v)" Y);
    ok(sp_propagate(g, NULL, &r));
    dims_are(g, "w", "[2,2]");
    dims_are(g, "v", "[2,1]");
    assert_int_equal(r.moved, 1); /* 2 * 10 + 2 * 1000 */
    sp_graph_free(g);
}

/* A condition that is the same everywhere takes one choice as it is; who made the other is gone. */
static void test_where_of_one_kind_goes(void **state)
{
    (void)state;
    static const char *const condition[] = {"0", "1"};
    for (int i = 0; i < 2; i++) {
        char text[500];
        sp_propagate_report r;
        snprintf(text, sizeof text,
                 HEAD "input x: f32[2,3]\nconst c: bool[] = [%s]\nnode s: ? = Sin(x)\nnode t: ? = Cos(x)\n"
                      "node w: ? = Where(c, s, t)\nnode y: ? = Relu(w)" Y,
                 condition[i]);
        sp_graph *g = parse(text);
        ok(sp_propagate(g, NULL, &r));
        assert_int_equal(r.nodes_after, 2);
        assert_string_equal(sp_graph_find(g, "y")->producer->in[0]->name, i ? "s" : "t");
        sp_graph_free(g);
    }
}

/* A LayerNormalization whose scale is 0 is its bias: all that makes its input goes. Of one that has some zeros nothing can: its
 * statistics need x, and its columns are those of x. */
static void test_slimmed_norm(void **state)
{
    (void)state;
    static const char *const scale[] = {"0,0,0,0", "1,0,0,0"};
    for (int i = 0; i < 2; i++) {
        char text[800];
        sp_propagate_report r;
        snprintf(text, sizeof text,
                 HEAD "input x: f32[b,2]\nconst w: f32[2,4] = [1,2,3,4,5,6,7,8]\nnode h: ? = MatMul(x, w)\n"
                      "const g: f32[4] = [%s]\nconst d: f32[4] = [1,2,3,4]\n"
                      "node n: ? = LayerNormalization(h, g, d)\nconst v: f32[4,2] = [1,2,3,4,5,6,7,8]\n"
                      "node m: ? = MatMul(n, v)\ninput u: f32[b,2]\nnode y: ? = Add(m, u)" Y,
                 scale[i]);
        sp_graph *g = parse(text);
        ok(sp_propagate(g, NULL, &r));
        assert_int_equal(r.nodes_after, i ? 4 : 1);
        if (i) dims_are(g, "v", "[4,2]");
        sp_graph_free(g);
    }
}

/* 2^53 + 1 is no double: constants of integers go into a bias as integers, and wrap. */
static void test_sums_of_large_integers(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = parse(HEAD "input x: i64[b,2]\nconst m: i64[2,2] = [0,1,0,1]\nnode s: ? = MatMul(x, m)\n"
                             "const k: i64[2] = [1,0]\nnode t: ? = Add(s, k)\n"
                             "const w: i64[2,2] = [9007199254740993,9223372036854775807,1,1]\n"
                             "node h: ? = MatMul(t, w)\nconst d: i64[2] = [2,2]\nnode y: ? = Add(h, d)" Y);
    ok(sp_propagate(g, NULL, &r));
    assert_int_equal(r.moved, 1);
    const sp_node *add = sp_graph_find(g, "y")->producer;
    const sparta_tensor *bias = add->in[add->in[1]->constant != NULL]->constant;
    assert_non_null(bias);
    assert_true(sp_element_get_int(SPARTA_I64, bias->data, 0) == 9007199254740995);
    assert_true(sp_element_get_int(SPARTA_I64, bias->data, 1) == INT64_MIN + 1);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ no memory */
static void test_out_of_memory(void **state)
{
    (void)state;
    const char *const text[] = {firm[6].text, when_finite[0].text, when_finite[8].text};
    for (size_t i = 0; i < SP_COUNT(text); i++) {
        sparta_status status = SPARTA_E_MEMORY;
        for (uint64_t nth = 1; status == SPARTA_E_MEMORY; nth++) {
            sp_graph *g = parse(text[i]);
            sp_propagate_report r;
            sp_ctx_fail_alloc(cx, nth, false);
            status = sp_propagate(g, NULL, &r);
            sp_ctx_fail_alloc(cx, 0, false);
            sp_graph_free(g);
            assert_int_equal(sp_ctx_memory(cx), 0);
            sp_ctx_clear(cx);
            assert_true(status != SPARTA_OK || nth > 10);
        }
        assert_int_equal(status, SPARTA_OK);
    }
}

int main(void)
{
#define ON(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ON(test_hidden),
        ON(test_finite),
        ON(test_finite_is_not_strict),
        ON(test_quantized_by_zero),
        ON(test_strict_zeros_keep_their_sign),
        ON(test_unknown_key_of_no_value),
        ON(test_where_switches_channels_off),
        ON(test_where_of_one_kind_goes),
        ON(test_slimmed_norm),
        ON(test_sums_of_large_integers),
        ON(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
