/* Shape rules, folding of shape arithmetic, the reference executor; graphs are written in their text form. */
#include "ops_bed.h"
#include "ops/ints.h"
#include <math.h>
#include <stdio.h>

/* After inference the dims of value y are `want`; returns how many nodes are left. */
static int expect_dims(const char *text, const char *want)
{
    sp_graph *g = parse(text);
    if (sp_ops_infer(g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    if (sp_graph_verify(g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    sp_text t;
    sp_text_init(&t, cx);
    sp_dims_print(&sp_graph_find(g, "y")->dims, &t);
    assert_string_equal(sp_text_str(&t), want);
    sp_text_free(&t);
    int nodes = g->n_nodes;
    if (sp_ops_infer(g) != SPARTA_OK) fail_msg("the second time: %s\n%s", sparta_message(cx), text);
    assert_int_equal(g->n_nodes, nodes); /* once is enough */
    sp_graph_free(g);
    return nodes;
}

static void expect_failure(const char *text, sparta_status status, const char *const *words)
{
    sp_graph *g = parse(text);
    assert_int_equal(sp_ops_infer(g), status);
    for (; *words; words++)
        if (!strstr(sparta_message(cx), *words)) fail_msg("'%s' is not in: %s", *words, sparta_message(cx));
    sp_graph_free(g);
}
#define FAILS(status, text, ...)                                                                             \
    expect_failure("graph \"t\"\n" text, status, (const char *const[]){__VA_ARGS__, NULL})

/* ------------------------------------------------------------------ folding */
#define IDS "graph \"t\"\ninput ids: i64[batch,sequence]\ninput x: f32[batch,sequence,256]\n"
#define NUMBERS                                                                                              \
    "const zero: i64[] = [0]\nconst one: i64[1] = [1]\nconst minus: i64[1] = [-1]\nconst four: i64[1] = "    \
    "[4]\nconst axis0: i64[1] = [0]\n"

/* What the TorchScript exporter writes for x.view(x.size(0), x.size(1), 4, 64). */
static void test_view(void **state)
{
    (void)state;
    int nodes = expect_dims(
        IDS NUMBERS
        "const index1: i64[] = [1]\n"
        "node s: ? = Shape(x)\nnode b: ? = Gather(s, zero) {axis=0}\nnode b1: ? = Unsqueeze(b, axis0)\n"
        "node t: ? = Gather(s, index1) {axis=0}\nnode t1: ? = Unsqueeze(t, axis0)\n"
        "node shape: ? = Concat(b1, t1, four, minus) {axis=0}\n"
        "node y: ? = Reshape(x, shape)\noutput y\n",
        "[batch,sequence,4,64]");
    assert_int_equal(nodes, 1); /* the shape is now [0, 0, 4, 64] */
}

/* Dynamo's: sizes by Shape with start and end, allowzero=1. */
static void test_view_dynamo(void **state)
{
    (void)state;
    int nodes = expect_dims(IDS NUMBERS
                            "node b: ? = Shape(x) {start=0, end=1}\nnode t: ? = Shape(x) {start=1, end=2}\n"
                            "node shape: ? = Concat(b, t, minus, four) {axis=0}\n"
                            "node y: ? = Reshape(x, shape) {allowzero=1}\noutput y\n",
                            "[batch,sequence,64,4]");
    assert_int_equal(nodes, 1);
}

/* Expand(x, Where(Equal(shape, -1), ones, shape)): a size is never -1. */
static void test_expand_where(void **state)
{
    (void)state;
    int nodes = expect_dims(
        IDS NUMBERS "const axes: i64[2] = [1,2]\nconst m: i64[3] = [-1,-1,-1]\nconst ones: i64[3] = [1,1,1]\n"
                    "node s: ? = Shape(ids)\nnode wanted: ? = Concat(s, four) {axis=0}\n"
                    "node odd: ? = Equal(wanted, m)\nnode shape: ? = Where(odd, ones, wanted)\n"
                    "const axis2: i64[1] = [2]\nnode u: ? = Unsqueeze(ids, axis2)\n"
                    "node y: ? = Expand(u, shape)\noutput y\n",
        "[batch,sequence,4]");
    assert_int_equal(nodes, 2); /* Unsqueeze and Expand to [1, 1, 4] */
}

static void test_arithmetic(void **state)
{
    (void)state;
    /* prod of the shape, halved, less one, at most 3 * sequence: everything stays an expression */
    expect_dims(IDS NUMBERS "const two: i64[1] = [2]\nconst three: i64[1] = [3]\n"
                            "node s: ? = Shape(x)\nnode p: ? = ReduceProd(s)\nnode h: ? = Div(p, two)\nnode "
                            "t: ? = Shape(ids) {start=1}\n"
                            "node k: ? = Mul(t, three)\nnode l: ? = Sub(k, one)\nnode m: ? = Add(l, h)\nnode "
                            "c: ? = Cast(m) {to=6}\n"
                            "node d: ? = Cast(c) {to=7}\nnode y: ? = ConstantOfShape(d)\noutput y\n",
                "[128*batch*sequence+3*sequence-1]");
    expect_dims(IDS NUMBERS
                "const big: i64[1] = [512]\nnode t: ? = Shape(ids) {start=-1}\nnode m: ? = Min(t, big)\n"
                "node n: ? = Neg(m)\nnode z: ? = Neg(n)\nnode y: ? = ConstantOfShape(z)\noutput y\n",
                "[min(sequence,512)]");
    expect_dims(IDS NUMBERS
                "node n: ? = Size(x)\nnode t: ? = Mod(n, four)\nnode y: ? = ConstantOfShape(t)\noutput y\n",
                "[0]");
}

static void test_range(void **state)
{
    (void)state;
    expect_dims(IDS NUMBERS "const first: i64[] = [2]\nconst step: i64[] = [3]\nnode s: ? = Shape(ids) "
                            "{start=1}\nnode t: ? = Squeeze(s)\n"
                            "node y: ? = Range(zero, t, step)\noutput y\n",
                "[(sequence+2)/3]");
    expect_dims(IDS NUMBERS
                "const back: i64[] = [-1]\nnode s: ? = Shape(ids) {start=1}\nnode t: ? = Squeeze(s)\n"
                "node y: ? = Range(t, zero, back)\noutput y\n",
                "[sequence]");
    assert_int_equal(
        expect_dims("graph \"t\"\nconst a: f32[] = [1]\nconst b: f32[] = [2]\nconst c: f32[] = [0.3]\n"
                    "node y: ? = Range(a, b, c)\noutput y\n",
                    "[4]"),
        0); /* folded */
}

static void test_slice(void **state)
{
    (void)state;
    static const char *const cases[][5] = {
        /* start, end, axis, step, dims of y for x [batch, sequence, 256] */
        {"0", "9223372036854775807", "1", "1", "[batch,sequence,256]"},
        {"1", "2147483647", "1", "1", "[batch,sequence-1,256]"},
        {"-1", "9223372036854775807", "1", "1", "[batch,1,256]"},
        {"0", "-1", "-2", "1", "[batch,sequence-1,256]"},
        {"0", "1", "1", "1", "[batch,1,256]"},
        {"0", "9223372036854775807", "1", "2", "[batch,(sequence+1)/2,256]"},
        {"-1", "-9223372036854775807", "1", "-1", "[batch,sequence,256]"},
        {"-1", "-9223372036854775807", "1", "-2", "[batch,(sequence+1)/2,256]"},
        {"0", "512", "1", "1", "[batch,min(sequence,512),256]"},
        {"200", "1000", "2", "1", "[batch,sequence,56]"},
        {"5", "3", "2", "1", "[batch,sequence,0]"},
        {"-1", "0", "2", "-100", "[batch,sequence,3]"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[1000];
        snprintf(
            text, sizeof text,
            IDS
            "const s: i64[1] = [%s]\nconst e: i64[1] = [%s]\nconst a: i64[1] = [%s]\nconst p: i64[1] = [%s]\n"
            "node y: ? = Slice(x, s, e, a, p)\noutput y\n",
            cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
        expect_dims(text, cases[i][4]);
    }
    /* a table longer than any sequence, cut to the sequence */
    expect_dims(IDS NUMBERS "const table: i64[1,8] = [0,1,2,3,4,5,6,7]\nnode t: ? = Shape(ids) {start=1}\n"
                            "node y: ? = Slice(table, axis0, t, one, one)\noutput y\n",
                "[1,sequence]");
}

static void test_shapes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"node y: ? = MatMul(x, w)\n", "[batch,sequence,7]"},
        {"node y: ? = MatMul(x, v)\n", "[batch,sequence]"},
        {"node y: ? = Transpose(x)\n", "[256,sequence,batch]"},
        {"node y: ? = Flatten(x) {axis=2}\n", "[batch*sequence,256]"},
        {"node y: ? = Flatten(x) {axis=0}\n", "[1,256*batch*sequence]"},
        {"node y: ? = Concat(x, x) {axis=1}\n", "[batch,2*sequence,256]"},
        {"node y: ?, b: ?, c: ? = Split(x) {axis=-1, num_outputs=3}\n", "[batch,sequence,86]"},
        {"node a: ?, b: ?, y: ? = Split(x) {axis=-1, num_outputs=3}\n", "[batch,sequence,84]"},
        {"const r: i64[3] = [1,2,3]\nnode y: ? = Tile(x, r)\n", "[batch,2*sequence,768]"},
        {"const a: i64[1] = [-1]\nnode y: ? = ReduceMean(x, a)\n", "[batch,sequence,1]"},
        {"node y: ? = ReduceSum(x) {keepdims=0}\n", "[]"},
        {"const a: i64[2] = [0,-1]\nnode y: ? = Unsqueeze(x, a)\n", "[1,batch,sequence,256,1]"},
        {"const s: i64[3] = [0,-1,64]\nnode y: ? = Reshape(x, s)\n", "[batch,4*sequence,64]"},
        {"node y: ? = Gather(w, ids)\n", "[batch,sequence,7]"},
        {"node y: ? = sparta::Embed(w, ids, w, ids)\n", "[batch,sequence,7]"},
        {"input six: i64[batch,6]\nnode y: ? = sparta::Embed(w, six) {column=5}\n", "[batch,7]"},
        {"input u: f32[batch,8]\nconst p: i64[3,2] = [0,0,1,0,1,1]\nnode y: ? = sparta::Interact(u, u, p)\n",
         "[batch,3]"},
        {"input u: f32[batch,8]\nconst p: i64[1,2] = [1,0]\nnode y: ? = sparta::Interact(u, u, p) {keep=1}\n",
         "[batch,9]"},
        {"node y: ? = sparta::Sparsify(x) {keep=3}\n", "[batch,sequence,256]"},
        {"input rc: f32[batch,5,8]\ninput ri: i64[5,3]\nnode y: ? = sparta::Relative(rc, ri) {heads=2}\n",
         "[batch,2,5,3]"},
        {"input rc: f32[batch,5,8]\ninput ri: i64[5,3]\ninput rp: f32[batch,3,6]\ninput rk: i32[3,5]\nnode "
         "y: ? "
         "= "
         "sparta::Relative(rc, ri, rp, rk) {heads=2}\n",
         "[batch,2,5,3]"},
        {"input cq: f32[batch,1,8]\ninput ck: f32[batch,2,9,2]\ninput cv: f32[batch,2,9,3]\nnode y: ? = "
         "sparta::Attention(cq, ck, cv) {heads=4, kv_heads=2}\n",
         "[batch,1,12]"},
        {"node y: ? = sparta::Linear(x, w)\n", "[batch,sequence,7]"},
        {"node y: ? = sparta::Attention(x, x, x) {heads=4}\n", "[batch,sequence,256]"},
        {"node z: ?, y: ? = LayerNormalization(x, v)\n", "[batch,sequence,1]"},
        {"node y: ? = Add(x, v)\n", "[batch,sequence,256]"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[1000];
        snprintf(text, sizeof text, IDS "input w: f32[256,7]\ninput v: f32[256]\n%soutput y\n", cases[i][0]);
        expect_dims(text, cases[i][1]);
    }
}

static void test_fold_float(void **state)
{
    (void)state;
    sp_graph *g = parse("graph \"t\"\nconst a: f32[2] = [3,4]\nconst two: f32[] = [2]\nnode s: ? = "
                        "Pow(a, two)\nnode r: ? = ReduceSum(s) "
                        "{keepdims=0}\nnode y: ? = Sqrt(r)\noutput y\n");
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    assert_int_equal(g->n_nodes, 0);
    const sp_value *y = sp_graph_find(g, "y");
    assert_non_null(y->constant);
    assert_true(*(const float *)y->constant->data == 5);
    sparta_tensor out;
    assert_int_equal(sp_ops_run(cx, g, NULL, 0, &out, NULL, NULL), SPARTA_OK);
    assert_true(*(float *)out.data == 5);
    assert_ptr_not_equal(out.data, y->constant->data); /* a copy that is ours */
    sp_free(cx, out.data);
    sp_graph_free(g);
}

/* A folded result may not be larger than 16 MiB, and what is dead need not make sense. */
static void test_fold_limits(void **state)
{
    (void)state;
    assert_int_equal(
        expect_dims(
            "graph \"t\"\nconst s: i64[2] = [1000000,1000000]\nnode y: ? = ConstantOfShape(s)\noutput y\n",
            "[1000000,1000000]"),
        1);
    assert_int_equal(expect_dims("graph \"t\"\ninput x: f32[2]\ninput z: f32[3]\nnode dead: ? = Add(x, "
                                 "z)\nnode y: ? = Neg(x)\noutput y\n",
                                 "[2]"),
                     1);
}

/* ------------------------------------------------------------------ errors */
static void test_errors(void **state)
{
    (void)state;
    FAILS(SPARTA_E_SHAPE,
          "input a: f32[2,3]\ninput b: f32[4,5]\nnode y: ? = MatMul(a, b) \"enc/mm\"\noutput y\n", "MatMul",
          "enc/mm", "3", "4");
    FAILS(SPARTA_E_SHAPE,
          "input a: f32[n]\nnode b: ? = Concat(a, a) {axis=0}\nnode y: ? = Add(a, b) \"sum\"\noutput y\n",
          "Add", "sum", "n", "2*n");
    FAILS(SPARTA_E_SHAPE,
          "input t: f32[5,4]\ninput i: i64[n,3]\nnode y: ? = sparta::Embed(t, i) {column=3}\noutput y\n",
          "Embed", "column is 3", "[n,3]");
    FAILS(SPARTA_E_SHAPE,
          "input t: f32[5,4]\ninput i: i64[]\nnode y: ? = sparta::Embed(t, i) {column=0}\noutput y\n",
          "Embed");
    FAILS(SPARTA_E_SHAPE,
          "input c: f32[n,5,8]\ninput i: i64[5,3]\nnode y: ? = sparta::Relative(c, i) {heads=3}\noutput y\n",
          "8", "3 heads");
    FAILS(SPARTA_E_SHAPE,
          "input c: f32[n,5,8]\ninput i: i64[4,3]\nnode y: ? = sparta::Relative(c, i) {heads=2}\noutput y\n",
          "number of queries");
    FAILS(
        SPARTA_E_FORMAT,
        "input c: f32[n,5,8]\ninput i: i64[5,3]\nnode y: ? = sparta::Relative(c, i, c) {heads=2}\noutput y\n",
        "rows of keys");
    FAILS(SPARTA_E_SHAPE,
          "input q: f32[n,1,8]\ninput k: f32[n,3,9,2]\nnode y: ? = sparta::Attention(q, k, k) {heads=4, "
          "kv_heads=2}\noutput y\n",
          "heads of k and v");
    FAILS(
        SPARTA_E_SHAPE,
        "input a: f32[n,4]\ninput b: f32[n,5]\nconst p: i64[1,2] = [1,0]\nnode y: ? = sparta::Interact(a, b, "
        "p)\noutput y\n",
        "Interact", "length of the vectors");
    FAILS(SPARTA_E_SHAPE,
          "input a: f32[n,4]\nconst p: i64[2,1] = [0,0]\nnode y: ? = sparta::Interact(a, p)\noutput y\n",
          "(P, 2)");
    FAILS(SPARTA_E_SHAPE,
          "input a: f32[n,4]\nconst p: i64[1,2] = [0,0]\nnode y: ? = sparta::Interact(a, p) {keep=1}\noutput "
          "y\n",
          "keep is 1");
    FAILS(SPARTA_E_SHAPE, "input a: f32[n,4]\nnode y: ? = sparta::Sparsify(a) {keep=-1}\noutput y\n",
          "keep is -1");
    FAILS(SPARTA_E_SHAPE, "input a: f32[n,4]\nnode y: ? = sparta::Sparsify(a) {above=-0.5}\noutput y\n",
          "above is -0.5");
    FAILS(SPARTA_E_SHAPE, "input a: f32[n,4]\nnode y: ? = sparta::Sparsify(a) {expect=1.5}\noutput y\n",
          "expect is 1.5");
    FAILS(SPARTA_E_SHAPE, "input a: f32[]\nnode y: ? = sparta::Sparsify(a)\noutput y\n", "Sparsify");
    FAILS(SPARTA_E_SHAPE, "input a: f32[4]\nnode y: ? = sparta::Sparsify(a) {left=1}\noutput y\n",
          "Sparsify");
    FAILS(SPARTA_E_SHAPE, "input a: f32[n,4]\nnode y: ? = sparta::Sparsify(a) {right=-2}\noutput y\n",
          "left and right are -1 and -2");
    FAILS(SPARTA_E_DTYPE, "input a: i64[n,4]\nnode y: ? = sparta::Sparsify(a)\noutput y\n", "i64");
    FAILS(SPARTA_E_DTYPE, "input a: f32[2]\ninput b: i64[2]\nnode y: ? = Add(a, b)\noutput y\n", "'a'", "f32",
          "'b'", "i64");
    FAILS(SPARTA_E_DTYPE, "input a: bool[2]\nnode y: ? = Sqrt(a)\noutput y\n", "bool");
    FAILS(SPARTA_E_UNSUPPORTED,
          "input a: f32[6]\ninput s: i64[2]\nnode y: ? = Reshape(a, s) \"view\"\noutput y\n", "view", "'s'",
          "data");
    FAILS(SPARTA_E_SHAPE, "input a: f32[6]\nconst s: i64[2] = [4,-1]\nnode y: ? = Reshape(a, s)\noutput y\n",
          "-1", "6", "4");
    FAILS(SPARTA_E_SHAPE, "input a: f32[6]\nconst s: i64[2] = [-1,-1]\nnode y: ? = Reshape(a, s)\noutput y\n",
          "-1");
    FAILS(SPARTA_E_SHAPE, "input a: f32[6]\nconst s: i64[2] = [4,2]\nnode y: ? = Reshape(a, s)\noutput y\n",
          "6", "8");
    FAILS(SPARTA_E_SHAPE, "input a: f32[0]\nconst s: i64[2] = [0,-1]\nnode y: ? = Reshape(a, s)\noutput y\n",
          "-1");
    FAILS(SPARTA_E_SHAPE, "input a: f32[2,3]\nnode y: ? = Softmax(a) {axis=2}\noutput y\n", "axis 2",
          "rank 2");
    FAILS(SPARTA_E_SHAPE, "input a: f32[2,3]\nnode y: ? = Transpose(a) {perm=[0,0]}\noutput y\n", "twice");
    FAILS(SPARTA_E_SHAPE,
          "input a: f32[2,3]\nconst s: i64[2] = [0,-2]\nnode y: ? = Squeeze(a, s)\noutput y\n", "twice");
    FAILS(SPARTA_E_SHAPE, "input a: f32[2,3]\nconst s: i64[1] = [1]\nnode y: ? = Squeeze(a, s)\noutput y\n",
          "a dim that is to go, and 1: 3 and 1 differ");
    FAILS(SPARTA_E_SHAPE,
          "input a: f32[6]\nconst s: i64[2] = [4,1]\nnode y: ?, z: ? = Split(a, s)\noutput y\n", "1 over");
    FAILS(SPARTA_E_SHAPE, "const s: i64[1] = [-5]\nnode y: ? = ConstantOfShape(s)\noutput y\n", "-5");
    FAILS(SPARTA_E_RANGE,
          "const a: f32[2] = [1,2]\nconst i: i64[1] = [2]\nnode y: ? = Gather(a, i) \"pick\"\noutput y\n",
          "pick", "index 2");
    FAILS(SPARTA_E_RANGE,
          "input a: f32[n,2]\nconst i: i64[1] = [2]\nnode s: ? = Shape(a)\nnode y: ? = Gather(s, i) "
          "\"pick\"\noutput y\n",
          "pick", "index 2");
    FAILS(SPARTA_E_RANGE,
          "const a: i64[2] = [1,2]\nconst z: i64[2] = [1,0]\nnode y: ? = Div(a, z) \"ratio\"\noutput y\n",
          "ratio", "zero");
    FAILS(SPARTA_E_DTYPE, "input a: f32[2]\nnode y: ? = Mod(a, a)\noutput y\n", "fmod");
    FAILS(SPARTA_E_UNSUPPORTED, "input a: f32[2]\nnode y: ? = Cast(a) {to=8}\noutput y\n", "type 8");
    FAILS(SPARTA_E_SHAPE, "input q: f32[1,2,6]\nnode y: ? = sparta::Attention(q, q, q) {heads=4}\noutput y\n",
          "6", "4 heads");
    FAILS(SPARTA_E_UNSUPPORTED,
          "input a: f32[1,1,1,1,1,1,1,1]\nconst s: i64[1] = [0]\nnode y: ? = Unsqueeze(a, s)\noutput y\n",
          "9 dims");
}

/* ------------------------------------------------------------------ bind and run */
#define SUM                                                                                                  \
    "graph \"t\"\ninput a: f32[n,m]\ninput b: f32[m]\nconst c: f32[] = [0.5]\nnode s: ? = Add(a, b) "        \
    "\"sum\"\nnode y: ? = Mul(s, c)\noutput y\noutput s\n"

/* Every operator whose shape function is one that many share: its rule's types are those that inference takes, no more and no fewer. */
static void test_types(void **state)
{
    (void)state;
    int tried = 0;
    for (int op = 0; op < SP_OPS; op++) {
        const sp_rule *rule = sp_rule_of((sp_op_id)op);
        const bool two = rule->shape == sp_ops_binary || rule->shape == sp_ops_compare;
        if (!two && rule->shape != sp_ops_same && rule->shape != sp_ops_unary && rule->shape != sp_ops_test &&
            rule->shape != sp_ops_variadic && rule->shape != sp_ops_reduce)
            continue;
        for (int type = 0; type < SP_DTYPES; type++) {
            char text[200];
            snprintf(text, sizeof text, "graph \"t\"\ninput x: %s[3]\nnode y: ? = %s(x%s)\noutput y\n",
                     sparta_dtype_name((sparta_dtype)type), sp_builtin_row((sp_op_id)op)->name,
                     two ? ", x" : "");
            sp_graph *g = parse(text);
            const sparta_status want = rule->types & SP_TYPE(type) ? SPARTA_OK : SPARTA_E_DTYPE;
            if (sp_ops_infer(g) != want) fail_msg("%s%s", text, sparta_message(cx));
            sp_ctx_clear(cx);
            sp_graph_free(g);
            tried++;
        }
    }
    assert_true(tried > 50 * SP_DTYPES);
}

static void test_bind(void **state)
{
    (void)state;
    sp_graph *g = parse(SUM);
    const char *name[] = {"m"}, *wrong[] = {"batch"};
    int64_t value[] = {3};
    assert_int_equal(sp_ops_bind(g, &(sp_bindings){1, wrong, value}), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "batch"));
    assert_non_null(strstr(sparta_message(cx), "a[n,m]"));
    assert_int_equal(sp_ops_bind(g, &(sp_bindings){1, name, value}), SPARTA_OK);
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    const sp_dims *d = &sp_graph_find(g, "y")->dims;
    assert_true(sp_expr_is(d->dim[1], 3) && sp_expr_is_symbol(d->dim[0], NULL));
    sp_graph_free(g);
}

static int watched;
static sparta_status watch(void *arg, const sp_value *v, const sparta_tensor *t)
{
    (void)arg;
    watched += !strcmp(v->name, "s") || !strcmp(v->name, "y");
    return t->data ? SPARTA_OK : sp_fail(cx, SPARTA_E_INTERNAL, "no data");
}

static void test_run(void **state)
{
    (void)state;
    sp_graph *g = parse(SUM);
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30};
    sparta_named_tensor in[] = {{"b", sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){3}, b)},
                                {"a", sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 3}, a)}};
    sparta_tensor out[2];
    watched = 0;
    assert_int_equal(sp_ops_run(cx, g, in, 2, out, watch, NULL), SPARTA_OK);
    assert_int_equal(watched, 2);
    for (int i = 0; i < 6; i++) {
        assert_true(((float *)out[1].data)[i] == a[i] + b[i % 3]);
        assert_true(((float *)out[0].data)[i] == (a[i] + b[i % 3]) / 2);
    }
    for (int i = 0; i < 2; i++) sp_free(cx, out[i].data);
    in[0].tensor.dim[0] = 2; /* m is 3 in a */
    assert_int_equal(sp_ops_run(cx, g, in, 2, out, NULL, NULL), SPARTA_E_SHAPE);
    assert_non_null(strstr(sparta_message(cx), "'m' is 2 in input 'b' and 3 in input 'a'"));
    assert_int_equal(sp_ops_run(cx, g, in, 1, out, NULL, NULL), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "missing: 'a'"));
    assert_non_null(strstr(sparta_message(cx), "'a', 'b'"));
    in[1].name = "A";
    assert_int_equal(sp_ops_run(cx, g, in, 2, out, NULL, NULL), SPARTA_E_USAGE);
    in[1].name = "b";
    assert_int_equal(sp_ops_run(cx, g, in, 2, out, NULL, NULL), SPARTA_E_USAGE);
    in[1].name = "a";
    in[1].tensor.rank = 1;
    assert_int_equal(sp_ops_run(cx, g, in, 2, out, NULL, NULL), SPARTA_E_SHAPE);
    in[1].tensor.rank = 2;
    in[1].tensor.dtype = SPARTA_I32;
    assert_int_equal(sp_ops_run(cx, g, in, 2, out, NULL, NULL), SPARTA_E_DTYPE);
    sp_graph_free(g);
}

/* A sequence longer than the table of positions is refused by the run, since inference took it to fit. */
static void test_run_too_long(void **state)
{
    (void)state;
    sp_graph *g = parse(
        "graph \"t\"\ninput ids: i64[sequence]\nconst zero: i64[1] = [0]\nconst table: i64[4] = [5,6,7,8]\n"
        "node n: ? = Shape(ids)\nnode y: ? = Slice(table, zero, n) \"positions\"\noutput y\n");
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    int64_t ids[5] = {0}, want[] = {5, 6, 7};
    sparta_named_tensor in = {"ids", sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){3}, ids)};
    sparta_tensor out;
    assert_int_equal(sp_ops_run(cx, g, &in, 1, &out, NULL, NULL), SPARTA_OK);
    assert_memory_equal(out.data, want, sizeof want);
    sp_free(cx, out.data);
    in.tensor.dim[0] = 5;
    assert_int_equal(sp_ops_run(cx, g, &in, 1, &out, NULL, NULL), SPARTA_E_RANGE);
    assert_non_null(strstr(sparta_message(cx), "positions"));
    in.tensor.dim[0] = 0; /* nothing is fine */
    assert_int_equal(sp_ops_run(cx, g, &in, 1, &out, NULL, NULL), SPARTA_OK);
    sp_free(cx, out.data);
    sp_graph_free(g);
}

static void test_cancel(void **state)
{
    (void)state;
    sparta_ctx *mine = sparta_ctx_create(NULL);
    sp_graph *g;
    assert_non_null(mine);
    assert_int_equal(sp_graph_parse(mine, SUM, NULL, NULL, &g), SPARTA_OK);
    sparta_ctx_cancel(mine);
    assert_int_equal(sp_ops_infer(g), SPARTA_E_CANCELLED);
    sp_graph_free(g);
    sparta_ctx_free(mine);
}

/* ------------------------------------------------------------------ out of memory */
static const char *const transformer =
    "graph \"t\"\ninput ids: i64[batch,sequence]\ninput w: f32[8,4]\nconst zero: i64[] = [0]\nconst two: "
    "i64[1] = [2]\nconst minus: i64[1] = [-1]\n"
    "const first: i64[1] = [0]\nconst scale: f32[4] = [1,1,1,1]\nconst table: i64[1,4] = [0,1,2,3]\nconst "
    "axis1: i64[1] = [1]\n"
    "node x: ? = Gather(w, ids)\nnode s: ? = Shape(x)\nnode b: ? = Gather(s, zero)\nnode b1: ? = "
    "Unsqueeze(b, first)\n"
    "node t: ? = Shape(x) {start=1, end=2}\nnode places: ? = Slice(table, first, t, axis1)\nnode p: ? = "
    "Gather(w, places)\nnode e: ? = Add(x, p)\n"
    "node n: ? = LayerNormalization(e, scale)\nnode shape: ? = Concat(b1, minus, two, two) {axis=0}\nnode v: "
    "? = Reshape(n, shape)\n"
    "node h: ? = Transpose(v) {perm=[0,2,1,3]}\nnode k: ? = Transpose(v) {perm=[0,2,3,1]}\nnode q: ? = "
    "MatMul(h, k)\nnode a: ? = Softmax(q)\n"
    "node o: ? = MatMul(a, h)\nnode c: ? = ReduceProd(s) {keepdims=0}\nnode r: ? = Range(zero, c, c)\nnode "
    "y: ? = ReduceMean(o) {keepdims=0}\n"
    "output y\n";

static sparta_status whole_walk(sparta_ctx *mine)
{
    sp_graph *g = NULL;
    sparta_tensor out;
    float w[32];
    int64_t ids[] = {1, 7, -8, 3, 2, 0};
    for (int i = 0; i < 32; i++) w[i] = (float)i;
    sparta_named_tensor in[] = {{"ids", sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){2, 3}, ids)},
                                {"w", sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){8, 4}, w)}};
    sparta_status status = sp_graph_parse(mine, transformer, NULL, NULL, &g);
    if (status == SPARTA_OK) status = sp_ops_infer(g);
    if (status == SPARTA_OK) status = sp_graph_verify(g);
    if (status == SPARTA_OK) status = sp_ops_run(mine, g, in, 2, &out, NULL, NULL);
    if (status == SPARTA_OK) sp_free(mine, out.data);
    sp_graph_free(g);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    sparta_status status = SPARTA_E_MEMORY;
    uint64_t n = 1;
    for (; status == SPARTA_E_MEMORY; n++) {
        sparta_ctx *mine = sparta_ctx_create(NULL);
        assert_non_null(mine);
        sp_ctx_fail_alloc(mine, n, n % 2);
        status = whole_walk(mine);
        if (status != SPARTA_OK) assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(mine), 0);
        sparta_ctx_free(mine);
    }
    assert_int_equal(status, SPARTA_OK);
    assert_true(n > 30); /* it did allocate */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view),         cmocka_unit_test(test_view_dynamo),
        cmocka_unit_test(test_expand_where), cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_range),        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_shapes),       cmocka_unit_test(test_fold_float),
        cmocka_unit_test(test_fold_limits),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_types),        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_run),          cmocka_unit_test(test_run_too_long),
        cmocka_unit_test(test_cancel),       cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
