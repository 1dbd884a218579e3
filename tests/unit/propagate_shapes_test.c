/* Propagation through shapes that a model computes as it runs, axes that it joins and takes apart, and what it repeats. */
#include "propagate_bed.h"
#include <stdio.h>

static sp_graph *propagated(const char *text, sp_propagate_report *report)
{
    sp_graph *g = parse(text);
    ok(sp_propagate(g, NULL, report));
    return g;
}

static int count(const sp_graph *g, sp_op_id op)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->op == op;
    return n;
}

/* A constant has these dims. */
static void has(const sp_graph *g, const char *name, int rank, const int64_t *dim)
{
    const sp_value *v = sp_graph_find(g, name);
    assert_true(v && v->constant);
    assert_int_equal(v->constant->rank, rank);
    for (int i = 0; i < rank; i++) assert_int_equal(v->constant->dim[i], dim[i]);
}
#define HAS(g, name, ...)                                                                                    \
    has(g, name, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* ------------------------------------------------------------------ shapes that are computed */
/* GPT-2: rows are batch and sequence in one, and taken apart by sizes that are read. Two layers, so that two rounds set numbers. */
#define LAYER(x, t, y)                                                                                       \
    "node f" t ": ? = Reshape(" x ", flat)\nnode h" t ": ? = MatMul(f" t ", w" t ")\nnode n" t               \
    ": ? = Concat(bs, c" t ") {axis=0}\nnode " y ": ? = Reshape(h" t ", n" t ")\n"

static void test_computed_shape(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(
        "graph \"g\"\ninput x: f32[b,s,2]\n"
        "const flat: i64[2] = [-1,2]\nconst flat4: i64[2] = [-1,4]\n"
        "const w1: f32[2,4] = [1,0,2,0,3,0,4,0]\nconst w2: f32[4,2] = [1,2,3,4,5,6,7,8]\n"
        "const c1: i64[1] = [4]\nconst c2: i64[1] = [2]\n"
        "node bs: ? = Shape(x) {end=2}\n" LAYER(
            "x", "1", "y1") "node r1: ? = Relu(y1)\n"
                            "node f2: ? = Reshape(r1, flat4)\nnode h2: ? = MatMul(f2, w2)\n"
                            "node n2: ? = Concat(bs, c2) {axis=0}\nnode y: ? = Reshape(h2, n2)\noutput y\n",
        &r);
    HAS(g, "w1", 2, 2);
    HAS(g, "w2", 2, 2);
    assert_int_equal(count(g, SP_OP_Where), 1); /* [b, s, 4] is now [b, s, 2] */
    const sp_node *reshape = sp_graph_find(g, "y1")->producer;
    assert_int_equal(reshape->in[1]->n_ints, 3);
    assert_true(sp_expr_is(reshape->in[1]->ints[2], 2));
    sp_graph_free(g);
}

/* What Expand, Tile and ConstantOfShape make may be less. */
static void test_made(void **state)
{
    (void)state;
    static const char *const made[] = {
        "node l: ? = Concat(bs, four) {axis=0}\nnode m: ? = Expand(x, l)\n",
        "const t: i64[3] = [1,1,4]\nnode m: ? = Tile(x, t)\n",
        "node l: ? = Concat(bs, four) {axis=0}\nnode z: ? = ConstantOfShape(l)\nnode m: ? = Add(x, z)\n"};
    for (int i = 0; i < 3; i++) {
        char text[600];
        sp_propagate_report r;
        snprintf(text, sizeof text,
                 "graph \"g\"\ninput x: f32[b,s,1]\nconst four: i64[1] = [4]\n"
                 "const w: f32[4,2] = [1,2,0,0,3,4,0,0]\nnode bs: ? = Shape(x) {end=2}\n%s"
                 "node y: ? = MatMul(m, w)\noutput y\n",
                 made[i]);
        sp_graph *g = propagated(text, &r);
        HAS(g, "w", 2, 2);
        sp_graph_free(g);
    }
}

/* Without a value it makes zeros, of which there may be any number. */
static void test_made_of_zeros(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated("graph \"g\"\ninput x: f32[b,2]\nnode l: ? = Shape(x)\n"
                             "node z: ? = ConstantOfShape(l)\nnode a: ? = Add(x, z)\nnode y: ? = Relu(a)\n"
                             "output y\n",
                             &r);
    assert_int_equal(g->n_nodes, 1);
    sp_graph_free(g);
}

/* The list of an Expand may be shorter than what it makes: dims before it are the input's. */
static void test_short_list(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(
        "graph \"g\"\ninput x: f32[2]\ninput t: f32[n]\nconst w: f32[2,3] = [1,0,2,3,0,4]\n"
        "const apart: i64[3] = [3,1,1]\nconst one: i64[1] = [1]\nconst v: f32[3,2] = [1,2,3,4,5,6]\n"
        "node h: ? = MatMul(x, w)\nnode a: ? = Reshape(h, apart)\nnode s: ? = Shape(t)\n"
        "node l: ? = Concat(s, one) {axis=0}\nnode e: ? = Expand(a, l)\n"
        "node u: ? = Transpose(e) {perm=[1,2,0]}\nnode y: ? = MatMul(u, v)\noutput y\n",
        &r);
    HAS(g, "w", 2, 2);
    HAS(g, "v", 2, 2);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ batch and heads as one axis */
/* Heads 0 and 1 of width 2; the values of head 1 are zero. `more` sees the keys as they are joined. */
#define PART(x)                                                                                              \
    "node " x "3: ? = MatMul(x, w" x ")\nnode " x "4: ? = Reshape(" x "3, part)\n"                           \
    "node " x "5: ? = Transpose(" x "4) {perm=[0,2,1,3]}\nnode " x ": ? = Reshape(" x "5, joined)\n"
#define BMM(more, last)                                                                                      \
    "graph \"g\"\ninput x: f32[b,s,4]\nconst part: i64[4] = [0,0,2,2]\nconst two: i64[1] = [2]\n"            \
    "const wq: f32[4,4] = [1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7]\n"                                               \
    "const wk: f32[4,4] = [3,2,3,4,5,4,7,8,9,1,2,3,4,5,6,7]\n"                                               \
    "const wv: f32[4,4] = [1,2,0,0,5,6,0,0,9,1,0,0,4,5,0,0]\n"                                               \
    "const wo: f32[4,4] = [1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7]\n"                                               \
    "const neg: i64[1] = [-1]\nnode size: ? = Shape(x)\nconst i0: i64[1] = [0]\nconst i1: i64[1] = [1]\n"    \
    "node b1: ? = Gather(size, i0)\nnode s1: ? = Gather(size, i1)\nnode bh: ? = Mul(b1, two)\n"              \
    "node joined: ? = Concat(bh, s1, two) {axis=0}\n" PART("q") PART("k")                                    \
        PART("v") "node kt: ? = Transpose(k) {perm=[0,2,1]}\nnode w0: ? = MatMul(q, kt)\n" more              \
                  "node p: ? = Softmax(w1) {axis=2}\nnode o3: ? = MatMul(p, v)\n"                            \
                  "node apart: ? = Concat(b1, two, s1, two) {axis=0}\nnode o4: ? = Reshape(o3, apart)\n"     \
                  "node o5: ? = Transpose(o4) {perm=[0,2,1,3]}\nconst whole: i64[3] = [0,0,4]\n"             \
                  "node o: ? = Reshape(o5, whole)\nnode y: ? = MatMul(o, wo)\n" last

static void check_heads(const char *text, int64_t left)
{
    sp_propagate_report r;
    sp_graph *g = propagated(text, &r);
    HAS(g, "wq", 4, left);
    HAS(g, "wk", 4, left);
    HAS(g, "wv", 4, left);
    HAS(g, "wo", left, 4);
    sp_graph_free(g);
}

static void test_joined_heads(void **state)
{
    (void)state;
    check_heads(BMM("node w1: ? = Identity(w0)\n", "output y\n"), 2);
    check_heads(BMM("const f: f32[] = [2]\nnode w1: ? = Mul(w0, f)\n", "output y\n"), 2);
    /* a mask is added where they are apart */
    check_heads(BMM("input m: f32[s,s]\nnode wide: ? = Concat(b1, two, s1, s1) {axis=0}\n"
                    "node w4: ? = Reshape(w0, wide)\nnode w5: ? = Add(w4, m)\n"
                    "node thin: ? = Concat(bh, s1, s1) {axis=0}\nnode w1: ? = Reshape(w5, thin)\n",
                    "output y\n"),
                2);
    /* what would keep them together adds nothing, and is gone after a round */
    check_heads(BMM("const ax: i64[] = [2]\nconst f: f32[] = [0]\nnode w2: ? = CumSum(w0, ax)\n"
                    "node w3: ? = Mul(w2, f)\nnode w1: ? = Add(w0, w3)\n",
                    "output y\n"),
                2);
    /* their sizes are read: 2 b, s, 2 as before */
    check_heads(BMM("const f: f32[] = [2]\nnode w1: ? = Mul(w0, f)\nnode ks: ? = Shape(k)\n",
                    "node kf: ? = Cast(ks) {to=1}\noutput y\noutput kf\n"),
                2);
}

/* Sizes of a value that is taken apart are those it had. */
static void test_joined_sizes(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(BMM("const f: f32[] = [2]\nnode w1: ? = Mul(w0, f)\nnode ks: ? = Shape(k)\n",
                                 "output y\noutput ks\n"),
                             &r);
    const sp_value *ks = g->output[1];
    sp_text t;
    assert_int_equal(ks->n_ints, 3);
    sp_text_init(&t, cx);
    for (int i = 0; i < 3; i++) {
        sp_expr_print(ks->ints[i], &t);
        sp_text_printf(&t, " ");
    }
    assert_string_equal(sp_text_str(&t), "2*b s 2 ");
    sp_text_free(&t);
    sp_graph_free(g);
}

/* Two axes of one value come apart, one after the other, and its sizes are told: a Shape is rewritten once. */
static void test_joined_twice(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(
        "graph \"g\"\ninput x: f32[b,4,s,5]\nconst i0: i64[1] = [0]\nconst i2: i64[1] = [2]\n"
        "const four: i64[1] = [4]\nconst five: i64[1] = [5]\nnode size: ? = Shape(x)\n"
        "node b1: ? = Gather(size, i0)\nnode s1: ? = Gather(size, i2)\nnode bh: ? = Mul(b1, four)\n"
        "node sd: ? = Mul(s1, five)\nnode joined: ? = Concat(bh, sd) {axis=0}\n"
        "node apart: ? = Concat(b1, four, s1, five) {axis=0}\nnode a: ? = Abs(x)\n"
        "node j: ? = Reshape(a, joined)\nnode h: ? = Relu(j)\nnode hs: ? = Shape(h)\n"
        "node p: ? = Reshape(h, apart)\nnode y: ? = Abs(p)\noutput y\noutput hs\n",
        &r);
    assert_int_equal(count(g, SP_OP_Shape), 1);
    assert_int_equal(sp_graph_find(g, "hs")->n_ints, 2);
    assert_int_equal(sp_graph_find(g, "y")->dims.rank, 4);
    sp_graph_free(g);
}

/* An operand that reaches as far as the axis and lacks it, a softmax over it, an operator that is not looked into and an output keep
 * it together, and with it the heads. */
static void test_stays_joined(void **state)
{
    (void)state;
    static const char *const keeps[] = {
        BMM("input m: f32[1,s,s]\nnode w1: ? = Add(w0, m)\n", "output y\n"),
        BMM("node w1: ? = Softmax(w0) {axis=0}\n", "output y\n"),
        BMM("const ax: i64[] = [2]\nnode w1: ? = CumSum(w0, ax)\n", "output y\n"),
        BMM("node w1: ? = Neg(w0)\n", "output y\noutput w1\n"),
    };
    for (size_t i = 0; i < SP_COUNT(keeps); i++) {
        sp_propagate_report r;
        sp_graph *g = propagated(keeps[i], &r);
        assert_int_equal(sp_graph_find(g, "w0")->dims.rank, 3);
        HAS(g, "wq", 4, 4);
        sp_graph_free(g);
    }
}

/* ------------------------------------------------------------------ what repeats */
/* A table gathered with constant ids: 2 x 3 rows that are alike are kept once. One that is read as it is stays. */
static void test_kept_once(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g =
        propagated("graph \"g\"\ninput x: f32[2,3,2]\nconst t: f32[2,2] = [1,2,3,4]\n"
                   "const i: i64[2,3] = [1,1,1,1,1,1]\nconst k: i64[2,3] = [0,1,0,0,1,0]\n"
                   "node e: ? = Gather(t, i)\nnode f: ? = Gather(t, k)\nnode h: ? = Gather(t, i)\n"
                   "node a: ? = Add(x, e)\nnode c: ? = Mul(a, f)\nnode d: ? = Concat(c, h) {axis=0}\n"
                   "output d\n",
                   &r);
    HAS(g, "e", 1, 1, 2);
    HAS(g, "f", 1, 3, 2);
    HAS(g, "h", 2, 3, 2);
    const float *e = sp_graph_find(g, "e")->constant->data, *f = sp_graph_find(g, "f")->constant->data;
    assert_true(e[0] == 3 && e[1] == 4 && f[0] == 1 && f[2] == 3 && f[4] == 1);
    sp_graph_free(g);
}

/* Of two that repeat alike, and give their node's output its dims, one stays as it is. */
static void test_one_stays(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g =
        propagated("graph \"g\"\ninput x: f32[1,1]\nconst a: f32[2,3] = [1,2,3,1,2,3]\n"
                   "const b: f32[2,3] = [2,1,5,2,1,5]\nnode c: ? = Add(a, b)\nnode d: ? = Mul(a, b)\n"
                   "node y: ? = Max(c, d, x)\noutput y\n",
                   &r);
    HAS(g, "c", 2, 3);
    HAS(g, "d", 1, 3);
    assert_true(sp_expr_is(g->output[0]->dims.dim[0], 2));
    sp_graph_free(g);
}

/* What is known for many users is in the file once, unless it is small. */
static void test_known_once(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated("graph \"g\"\ninput x: f32[40,40]\ninput u: f32[b,40]\nconst z: f32[] = [0]\n"
                             "const s: i64[2] = [40,40]\nnode k0: ? = Mul(x, z)\nnode k: ? = Cos(k0)\n"
                             "node p: ? = MatMul(u, k)\nnode q: ? = MatMul(p, k)\noutput q\n",
                             &r);
    assert_int_equal(g->n_nodes, 2);
    assert_true(g->node[0]->in[1]->constant && g->node[0]->in[1] == g->node[1]->in[1]);
    sp_graph_free(g);
}

/* A weight that is dequantised and then turned stays narrow; of blocks that share a scale, columns and whole blocks go. */
static void test_narrow(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated("graph \"g\"\ninput x: f32[b,4]\n"
                             "const q: i8[2,4] = [1,2,0,0,3,4,0,0]\nconst s: f32[] = [0.5]\n"
                             "node w: ? = DequantizeLinear(q, s)\nnode t: ? = Transpose(w) {perm=[1,0]}\n"
                             "const v: f32[4,4] = [1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7]\n"
                             "node h: ? = MatMul(x, v)\nnode y: ? = MatMul(h, t)\noutput y\n",
                             &r);
    HAS(g, "q", 2, 2);
    HAS(g, "v", 4, 2);
    assert_int_equal(count(g, SP_OP_DequantizeLinear), 1);
    sp_graph_free(g);
    g = propagated(
        "graph \"g\"\ninput x: f32[b,2]\nconst v: f32[2,4] = [1,2,3,4,5,6,7,8]\n"
        "const q: i8[4,3] = [1,0,2,3,0,4,0,0,0,0,0,0]\nconst s: f32[2,3] = [1,2,3,4,5,6]\n"
        "node w: ? = DequantizeLinear(q, s) {axis=0, block_size=2}\nnode h: ? = MatMul(x, v)\n"
        "node y: ? = MatMul(h, w)\nconst u: f32[3,2] = [1,2,3,4,5,6]\nnode z: ? = MatMul(y, u)\noutput z\n",
        &r);
    HAS(g, "q", 2, 2);
    HAS(g, "s", 1, 2);
    HAS(g, "v", 2, 2);
    HAS(g, "u", 2, 2);
    sp_graph_free(g);
}

/* Memory that ends anywhere leaves nothing behind. */
static void test_memory(void **state)
{
    (void)state;
    const char *text = BMM("const f: f32[] = [2]\nnode w1: ? = Mul(w0, f)\nnode ks: ? = Shape(k)\n",
                           "output y\noutput ks\n");
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        sp_graph *g = parse(text);
        sp_propagate_report r;
        sp_ctx_fail_alloc(cx, n, false);
        sparta_status status = sp_propagate(g, NULL, &r);
        sp_ctx_fail_alloc(cx, 0, false);
        done = status == SPARTA_OK;
        if (!done) assert_int_equal(status, SPARTA_E_MEMORY);
        sp_ctx_clear(cx);
        sp_graph_free(g);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_computed_shape), TEST(test_made),         TEST(test_made_of_zeros), TEST(test_short_list),
        TEST(test_joined_heads),   TEST(test_joined_sizes), TEST(test_joined_twice),  TEST(test_stays_joined),
        TEST(test_kept_once),      TEST(test_one_stays),    TEST(test_known_once),    TEST(test_narrow),
        TEST(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
