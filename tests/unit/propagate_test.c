/* Propagation and compaction on small graphs in their text form: what goes, what stays and who holds it, worked out by hand. */
#include "propagate_bed.h"
#include "propagate_needed.h"
#include <stdlib.h>
#include <string.h>

/* What the graph becomes, its constants and dims in full. */
static void becomes(const char *text, const char *expected, sp_propagate_report *report)
{
    sp_graph *g = parse(text);
    sp_text t;
    sp_propagate_report mine;
    ok(sp_propagate(g, NULL, &mine));
    sp_text_init(&t, cx);
    sp_graph_print(g, &t);
    assert_string_equal(sp_text_str(&t), expected);
    sp_text_free(&t);
    sp_graph_free(g);
    if (report) *report = mine;
}

/* Kept: a multiple of what could go; who shares an axis keeps the same; nobody is said to hold it. */
static void test_multiple(void **state)
{
    (void)state;
    const char *text = "graph \"g\"\ninput x: f32[b,3]\n"
                       "const w1: f32[3,6] = [1,0,0,0,2,0,1,0,0,0,2,0,1,0,0,0,2,0]\n"
                       "const w2: f32[6,4] = [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]\n"
                       "node h: ? = MatMul(x, w1)\nnode y: ? = MatMul(h, w2)\noutput y\n";
    for (int multiple = 0; multiple < 9; multiple++) {
        static const int left[] = {2, 2, 2, 3, 4, 5, 6, 6, 6};
        const sp_propagate_options options = {.multiple = multiple};
        sp_propagate_report r;
        sp_graph *g = parse(text);
        ok(sp_propagate(g, &options, &r));
        assert_int_equal(r.n, 2);
        assert_int_equal(r.tensor[0].after[1], left[multiple]);
        assert_int_equal(r.tensor[1].after[0], left[multiple]);
        assert_int_equal(r.tensor[1].after[1], 4);
        assert_string_equal(r.tensor[0].blocked_by, "");
        assert_string_equal(r.tensor[1].blocked_by, "");
        sp_graph_free(g);
    }
}

static const sp_kept *find(const sp_propagate_report *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->tensor[i].name, name)) return &r->tensor[i];
    fail_msg("the report has no '%s'", name);
    return NULL;
}

/* After propagation this initialiser has these dims (0, ..: gone), and what holds the rest says `why` somewhere. */
static void left(const sp_propagate_report *r, const char *name, int64_t rows, int64_t columns,
                 const char *why)
{
    const sp_kept *k = find(r, name);
    assert_int_equal(k->gone, rows == 0);
    if (rows) {
        assert_int_equal(k->after[0], rows);
        if (k->rank > 1) assert_int_equal(k->after[1], columns);
    }
    if (!*why)
        assert_string_equal(k->blocked_by, "");
    else if (!strstr(k->blocked_by, why))
        fail_msg("'%s' says \"%s\", not \"%s\"", name, k->blocked_by, why);
}

static sp_graph *propagated(const char *text, sp_propagate_report *report)
{
    sp_graph *g = parse(text);
    ok(sp_propagate(g, NULL, report));
    return g;
}

/* ------------------------------------------------------------------ constants move on */
static const char mlp[] = "graph \"mlp\"\n"
                          "input x: f32[b,2]\n"
                          "const w1: f32[2,3] = [1,0,2,3,-0.0,4]\n"
                          "const b1: f32[3] = [1,2,3]\n"
                          "const w2: f32[3,2] = [5,6,7,8,0,0]\n"
                          "const b2: f32[2] = [1,1]\n"
                          "node h: f32[b,3] = MatMul(x, w1)\n"
                          "node hb: f32[b,3] = Add(h, b1)\n"
                          "node r: f32[b,3] = Relu(hb)\n"
                          "node y: f32[b,2] = MatMul(r, w2)\n"
                          "node z: f32[b,2] = Add(y, b2)\n"
                          "output z\n";

/* Hidden unit 1 has no inputs: relu(2) times its row, 14 and 16, goes into b2. Unit 2 is not read. */
static void test_constants_into_the_next_bias(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(mlp, &r);
    assert_int_equal(r.parameters_before, 17);
    assert_int_equal(r.parameters_after, 7);
    assert_int_equal(r.nodes_after, 5);
    left(&r, "w1", 2, 1, "");
    left(&r, "b1", 1, 0, "");
    left(&r, "w2", 1, 2, "");
    const float *b2 = sp_graph_find(g, "b2")->constant->data;
    assert_true(b2[0] == 15 && b2[1] == 17);
    sp_graph_free(g);
}

/* Nobody adds anything after the product: an Add is put there. */
static void test_constants_without_a_bias(void **state)
{
    (void)state;
    becomes("graph \"g\"\n"
            "input x: f32[b,2]\n"
            "const b1: f32[2] = [0,2]\n"
            "const w1: f32[2,2] = [1,0,1,0]\n"
            "const w2: f32[2,2] = [3,4,5,6]\n"
            "node h: f32[b,2] = MatMul(x, w1)\n"
            "node hb: f32[b,2] = Add(h, b1)\n"
            "node y: f32[b,2] = MatMul(hb, w2) \"last\"\n"
            "output y\n",
            "graph \"g\"\n"
            "input  x: f32[b,2]\n"
            "const  w1: f32[2,1] = [1.0,1.0]\n"
            "const  w2: f32[1,2] = [3.0,4.0]\n"
            "const  %0: f32[2] = [10.0,12.0]\n"
            "node   h: f32[b,1] = MatMul(x, w1)\n"
            "node   %1: f32[b,2] = MatMul(h, w2) \"last\"\n"
            "node   y: f32[b,2] = Add(%1, %0) \"last/%0\"\n"
            "output y\n",
            NULL);
}

/* In a strict context 0 times x may be NaN: nothing is known of unit 1, and unit 2 is read. */
static void test_strict_keeps(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(mlp, &r);
    assert_int_equal(r.parameters_after, 17);
    assert_int_equal(r.nodes_after, 5);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ who holds it */
#define RESIDUAL(second)                                                                                     \
    "graph \"residual\"\n"                                                                                   \
    "input x: f32[b,2]\n"                                                                                    \
    "const w1: f32[2,3] = [1,0,2,3,0,4]\n"                                                                   \
    "const w2: f32[2,3] = " second "\n"                                                                      \
    "const w3: f32[3,1] = [1,2,3]\n"                                                                         \
    "node a: f32[b,3] = MatMul(x, w1) \"left\"\n"                                                            \
    "node c: f32[b,3] = MatMul(x, w2) \"right\"\n"                                                           \
    "node s: f32[b,3] = Add(a, c)\n"                                                                         \
    "node y: f32[b,1] = MatMul(s, w3)\n"                                                                     \
    "output y\n"

static void test_residual(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(RESIDUAL("[1,1,1,1,1,1]"), &r);
    left(&r, "w1", 2, 3, "keeps 1 zero output of 3, because 'w2' needs them: prune both alike");
    left(&r, "w2", 2, 3, "");
    assert_int_equal(r.parameters_after, 15);
    sp_graph_free(g);
    g = propagated(RESIDUAL("[1,0,1,1,0,1]"), &r);
    left(&r, "w1", 2, 2, "");
    left(&r, "w2", 2, 2, "");
    left(&r, "w3", 2, 1, "");
    sp_graph_free(g);
}

static void test_outputs_keep(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated("graph \"g\"\ninput x: f32[b,2]\nconst w: f32[2,3] = [1,0,2,3,0,4]\n"
                             "node y: f32[b,3] = MatMul(x, w)\noutput y\n",
                             &r);
    left(&r, "w", 2, 3, "'y' is an output of the model");
    sp_graph_free(g);
    g = propagated("graph \"g\"\ninput x: f32[b,2]\nconst w: f32[2,2] = [1,3,0,-0.0]\n"
                   "node y: f32[b,2] = MatMul(x, w)\noutput y\n",
                   &r);
    left(&r, "w", 2, 2, "'x' is an input of the model");
    sp_graph_free(g);
}

/* Its statistics run over all features: the dead ones stay, though they are constants before it. */
static void test_layer_norm_keeps(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g =
        propagated("graph \"g\"\ninput x: f32[b,2]\nconst w: f32[2,3] = [1,0,2,3,0,4]\n"
                   "const scale: f32[3] = [1,1,0]\n"
                   "const v: f32[3,1] = [1,2,3]\n"
                   "node h: f32[b,3] = MatMul(x, w)\n"
                   "node n: f32[b,3] = LayerNormalization(h, scale) {axis=-1, epsilon=0.01} \"norm\"\n"
                   "node y: f32[b,1] = MatMul(n, v)\noutput y\n",
                   &r);
    left(&r, "w", 2, 3, "LayerNormalization 'norm'");
    sp_graph_free(g);
}

/* A weight of two layers: a column goes when neither needs it. */
#define SHARED(second)                                                                                       \
    "graph \"shared\"\n"                                                                                     \
    "input x: f32[b,2]\n"                                                                                    \
    "input z: f32[b,2]\n"                                                                                    \
    "const w: f32[2,2] = [1,2,3,4]\n"                                                                        \
    "const v1: f32[2,1] = [1,0]\n"                                                                           \
    "const v2: f32[2,1] = " second "\n"                                                                      \
    "node a: f32[b,2] = MatMul(x, w)\n"                                                                      \
    "node c: f32[b,2] = MatMul(z, w)\n"                                                                      \
    "node p: f32[b,1] = MatMul(a, v1)\n"                                                                     \
    "node q: f32[b,1] = MatMul(c, v2)\n"                                                                     \
    "output p\noutput q\n"

static void test_shared_weight(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated(SHARED("[1,1]"), &r);
    left(&r, "w", 2, 2, "");
    left(&r, "v1", 2, 1, "'w' needs them: prune both alike"); /* its other user does */
    sp_graph_free(g);
    g = propagated(SHARED("[1,0]"), &r);
    left(&r, "w", 2, 1, "");
    left(&r, "v1", 1, 1, "");
    left(&r, "v2", 1, 1, "");
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ movers */
/* Of a table of 3 words, column 1 is zero and column 3 is not read: both go, and the rows stay, for any may be asked for. */
static void test_embedding_columns(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated("graph \"words\"\ninput i: i64[b,s]\n"
                             "const t: f32[3,4] = [1,0,2,3,4,0,5,6,8,0,0,7]\n"
                             "const w: f32[4,2] = [1,2,3,4,5,6,0,0]\n"
                             "node e: ? = Gather(t, i)\nnode y: ? = MatMul(e, w)\noutput y\n",
                             &r);
    left(&r, "t", 3, 2, "");
    left(&r, "w", 2, 2, "");
    sp_graph_free(g);
}

/* Head 1 of 2 is dead where it is made: it goes from both weights, and the shapes say so. */
static void test_heads(void **state)
{
    (void)state;
    becomes("graph \"heads\"\n"
            "input x: f32[b,s,2]\n"
            "const wq: f32[2,4] = [1,2,0,0,3,4,0,-0.0]\n"
            "const split: i64[4] = [0,0,2,2]\n"
            "const join: i64[3] = [0,0,4]\n"
            "const wo: f32[4,2] = [1,2,3,4,5,6,7,8]\n"
            "node q: f32[b,s,4] = MatMul(x, wq)\n"
            "node h: f32[b,s,2,2] = Reshape(q, split)\n"
            "node t: f32[b,2,s,2] = Transpose(h) {perm=[0,2,1,3]}\n"
            "node r: f32[b,2,s,2] = Relu(t)\n"
            "node u: f32[b,s,2,2] = Transpose(r) {perm=[0,2,1,3]}\n"
            "node j: f32[b,s,4] = Reshape(u, join)\n"
            "node y: f32[b,s,2] = MatMul(j, wo)\n"
            "output y\n",
            "graph \"heads\"\n"
            "input  x: f32[b,s,2]\n"
            "const  wq: f32[2,2] = [1.0,2.0,3.0,4.0]\n"
            "const  wo: f32[2,2] = [1.0,2.0,3.0,4.0]\n"
            "const  %0: i64[4] = [0,0,1,2]\n"
            "const  %1: i64[3] = [0,0,2]\n"
            "node   q: f32[b,s,2] = MatMul(x, wq)\n"
            "node   h: f32[b,s,1,2] = Reshape(q, %0)\n"
            "node   t: f32[b,1,s,2] = Transpose(h) {perm=[0,2,1,3]}\n"
            "node   r: f32[b,1,s,2] = Relu(t)\n"
            "node   u: f32[b,s,1,2] = Transpose(r) {perm=[0,2,1,3]}\n"
            "node   j: f32[b,s,2] = Reshape(u, %1)\n"
            "node   y: f32[b,s,2] = MatMul(j, wo)\n"
            "output y\n",
            NULL);
}

/* Column 0 of the one and 1 of the other are dead: rows 0 and 3 of the next weight go. */
static void test_concat(void **state)
{
    (void)state;
    becomes("graph \"g\"\n"
            "input x: f32[b,1]\n"
            "const w1: f32[1,2] = [0,1]\n"
            "const w2: f32[1,2] = [2,0]\n"
            "const w3: f32[4,1] = [1,2,3,4]\n"
            "node a: f32[b,2] = MatMul(x, w1)\n"
            "node c: f32[b,2] = MatMul(x, w2)\n"
            "node d: f32[b,4] = Concat(a, c) {axis=1}\n"
            "node y: f32[b,1] = MatMul(d, w3)\n"
            "output y\n",
            "graph \"g\"\n"
            "input  x: f32[b,1]\n"
            "const  w1: f32[1,1] = [1.0]\n"
            "const  w2: f32[1,1] = [2.0]\n"
            "const  w3: f32[2,1] = [2.0,3.0]\n"
            "node   a: f32[b,1] = MatMul(x, w1)\n"
            "node   c: f32[b,1] = MatMul(x, w2)\n"
            "node   d: f32[b,2] = Concat(a, c) {axis=1}\n"
            "node   y: f32[b,1] = MatMul(d, w3)\n"
            "output y\n",
            NULL);
}

/* Of equal parts one loses more than the other: the lengths are written out. */
static void test_split(void **state)
{
    (void)state;
    becomes("graph \"g\"\n"
            "input x: f32[b,1]\n"
            "const w: f32[1,4] = [0,1,2,3]\n"
            "const v: f32[2,1] = [1,2]\n"
            "const u: f32[2,1] = [3,4]\n"
            "node h: f32[b,4] = MatMul(x, w)\n"
            "node p: f32[b,2], q: f32[b,2] = Split(h) {axis=1, num_outputs=2}\n"
            "node y: f32[b,1] = MatMul(p, v)\n"
            "node z: f32[b,1] = MatMul(q, u)\n"
            "output y\noutput z\n",
            "graph \"g\"\n"
            "input  x: f32[b,1]\n"
            "const  w: f32[1,3] = [1.0,2.0,3.0]\n"
            "const  v: f32[1,1] = [2.0]\n"
            "const  u: f32[2,1] = [3.0,4.0]\n"
            "const  %0: i64[2] = [1,2]\n"
            "node   h: f32[b,3] = MatMul(x, w)\n"
            "node   p: f32[b,1], q: f32[b,2] = Split(h, %0) {axis=1}\n"
            "node   y: f32[b,1] = MatMul(p, v)\n"
            "node   z: f32[b,1] = MatMul(q, u)\n"
            "output y\noutput z\n",
            NULL);
}

/* What a Slice does not take goes; nothing of it is left to do but the copy. */
static void test_slice(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated("graph \"g\"\n"
                             "input x: f32[b,1]\n"
                             "const w: f32[1,4] = [1,2,3,4]\n"
                             "const from: i64[1] = [1]\n"
                             "const to: i64[1] = [3]\n"
                             "const axes: i64[1] = [1]\n"
                             "const v: f32[2,1] = [1,2]\n"
                             "node h: f32[b,4] = MatMul(x, w)\n"
                             "node s: f32[b,2] = Slice(h, from, to, axes)\n"
                             "node y: f32[b,1] = MatMul(s, v)\n"
                             "output y\n",
                             &r);
    left(&r, "w", 1, 2, "");
    assert_int_equal(((const float *)sp_graph_find(g, "w")->constant->data)[0], 2);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ nodes that go */
/* A gate of zeros makes a constant of a whole branch. */
static void test_known_branch_goes(void **state)
{
    (void)state;
    becomes("graph \"g\"\n"
            "input x: f32[b,2]\n"
            "const w: f32[2,2] = [1,2,3,4]\n"
            "const gate: f32[2] = [0,-0.0]\n"
            "node r: f32[b,2] = Relu(x)\n"
            "node h: f32[b,2] = MatMul(r, w)\n"
            "node m: f32[b,2] = Mul(h, gate)\n"
            "node s: f32[b,2] = Sigmoid(m)\n"
            "node y: f32[b,2] = Mul(x, s)\n"
            "output y\n",
            "graph \"g\"\n"
            "input  x: f32[b,2]\n"
            "const  %0: f32[1,1] = [0.5]\n"
            "node   y: f32[b,2] = Mul(x, %0)\n"
            "output y\n",
            NULL);
}

static void test_adding_nothing_goes(void **state)
{
    (void)state;
    becomes("graph \"g\"\n"
            "input x: f32[b,2]\n"
            "const zero: f32[2] = [0,-0.0]\n"
            "const one: f32[1] = [1]\n"
            "node a: f32[b,2] = Add(x, zero)\n"
            "node c: f32[b,2] = Mul(a, one)\n"
            "node d: f32[b,2] = Relu(c)\n"
            "node y: f32[b,2] = Sub(d, zero)\n"
            "output y\n",
            "graph \"g\"\n"
            "input  x: f32[b,2]\n"
            "node   y: f32[b,2] = Relu(x)\n"
            "output y\n",
            NULL);
}

/* A zero that widens x is no nothing. */
static void test_adding_that_widens_stays(void **state)
{
    (void)state;
    sp_propagate_report r;
    sp_graph *g = propagated("graph \"g\"\ninput x: f32[1,2]\nconst zero: f32[3,2] = [0,0,0,0,0,0]\n"
                             "node y: f32[3,2] = Add(x, zero)\noutput y\n",
                             &r);
    assert_int_equal(r.nodes_after, 1);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ facts */
static void test_facts(void **state)
{
    (void)state;
    sp_graph *g = parse(mlp);
    sp_propagation *p;
    double x;
    ok(sp_propagate_facts(g, NULL, &p));
    const sp_value *r = sp_graph_find(g, "r"), *y = sp_graph_find(g, "y");
    assert_true(sp_tesa_known(sp_propagation_tesa(p, r), (int64_t[]){0, 1}, &x) && x == 2);
    assert_false(sp_tesa_known(sp_propagation_tesa(p, r), (int64_t[]){0, 0}, &x));
    assert_true(is_needed(p, r, (int64_t[]){0, 1}));
    assert_false(is_needed(p, r, (int64_t[]){0, 2}));
    assert_true(is_needed(p, y, (int64_t[]){0, 1}));
    sp_propagation_free(p);
    sp_graph_free(g);
}

/* a and d are 0 at index 0, Relu(1 * -5 + 1 * 3), so that neither is needed there, because of the other; they must stay 0 all the
 * same. h[0], which adds to nothing else, goes into the bias with h[1]: -2, not 3. */
static void test_zeros_that_rest_on_each_other(void **state)
{
    (void)state;
    becomes("graph \"g\"\ninput x: f32[b,2]\n"
            "const w: f32[2,4] = [0,0,1,2,0,0,3,4]\nconst c: f32[4] = [1,1,0,0]\n"
            "const p: f32[4,2] = [-5,0,3,1,0,1,0,2]\nconst q: f32[4,2] = [-5,0,3,1,0,3,0,4]\n"
            "node m: f32[b,4] = MatMul(x, w)\nnode h: f32[b,4] = Add(m, c)\n"
            "node s: f32[b,2] = MatMul(h, p)\nnode a: f32[b,2] = Relu(s)\n"
            "node t: f32[b,2] = MatMul(h, q)\nnode d: f32[b,2] = Relu(t)\n"
            "node y: f32[b,2] = Mul(a, d)\noutput y\n",
            "graph \"g\"\n"
            "input  x: f32[b,2]\n"
            "const  w: f32[2,2] = [1.0,2.0,3.0,4.0]\n"
            "const  p: f32[2,2] = [0.0,1.0,0.0,2.0]\n"
            "const  q: f32[2,2] = [0.0,3.0,0.0,4.0]\n"
            "const  %0: f32[2] = [-2.0,1.0]\n"
            "const  %2: f32[2] = [-2.0,1.0]\n"
            "node   m: f32[b,2] = MatMul(x, w)\n"
            "node   %1: f32[b,2] = MatMul(m, p)\n"
            "node   s: f32[b,2] = Add(%1, %0) \"/%0\"\n"
            "node   a: f32[b,2] = Relu(s)\n"
            "node   %3: f32[b,2] = MatMul(m, q)\n"
            "node   t: f32[b,2] = Add(%3, %2) \"/%2\"\n"
            "node   d: f32[b,2] = Relu(t)\n"
            "node   y: f32[b,2] = Mul(a, d)\n"
            "output y\n",
            NULL);
}

/* A key counts in the softmax even where its value is 0. */
static void test_keys_of_no_value(void **state)
{
    (void)state;
    sp_graph *g = parse("graph \"g\"\ninput q: f32[1,1,2,2]\ninput u: f32[1,1,1,2]\ninput r: f32[1,1,1,2]\n"
                        "const v: f32[1,1,2,2] = [0,0,1,1]\nnode i: f32[1,1,1,2] = Identity(u)\n"
                        "node k: f32[1,1,2,2] = Concat(i, r) {axis=2}\n"
                        "node y: f32[1,1,2,2] = Attention(q, k, v)\noutput y\n");
    sp_propagation *p;
    ok(sp_propagate_facts(g, NULL, &p));
    assert_true(is_needed(p, sp_graph_find(g, "i"), (int64_t[]){0, 0, 0, 0}));
    sp_propagation_free(p);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ no memory, no time */
/* Every allocation fails once: E_MEMORY, and all of it is freed. */
static void sweep(const char *text)
{
    for (uint64_t nth = 1;; nth++) {
        sp_graph *g = parse(text);
        sp_propagate_report r;
        sp_ctx_fail_alloc(cx, nth, false);
        sparta_status status = sp_propagate(g, NULL, &r);
        sp_ctx_fail_alloc(cx, 0, false);
        sp_graph_free(g);
        assert_int_equal(sp_ctx_memory(cx), 0);
        if (status == SPARTA_OK) {
            assert_true(nth > 10);
            return;
        }
        assert_int_equal(status, SPARTA_E_MEMORY);
        sp_ctx_clear(cx);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    sweep(mlp);
    sweep(RESIDUAL("[1,1,1,1,1,1]"));
    sweep("graph \"g\"\ninput x: f32[b,1]\nconst w: f32[1,4] = [0,1,2,3]\nconst v: f32[2,1] = [1,2]\n"
          "const c: f32[4] = [5,0,0,0]\nconst shape: i64[2] = [0,4]\n"
          "node h: f32[b,4] = MatMul(x, w)\nnode k: f32[b,4] = Add(h, c)\nnode m: f32[b,4] = Reshape(k, "
          "shape)\n"
          "node p: f32[b,2], q: f32[b,2] = Split(m) {axis=1, num_outputs=2}\n"
          "node y: f32[b,1] = MatMul(p, v)\nnode z: f32[b,2] = Softmax(q) {axis=-1}\noutput y\noutput z\n");
}

static void test_cancel(void **state)
{
    (void)state;
    sp_graph *g = parse(mlp);
    sp_propagate_report r;
    sparta_ctx_cancel(cx);
    assert_int_equal(sp_propagate(g, NULL, &r), SPARTA_E_CANCELLED);
    sp_graph_free(g);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(test_constants_into_the_next_bias),
        ON(test_multiple),
        ON(test_constants_without_a_bias),
        cmocka_unit_test_setup_teardown(test_strict_keeps, set_up_strict, tear_down),
        ON(test_residual),
        ON(test_outputs_keep),
        ON(test_layer_norm_keeps),
        ON(test_shared_weight),
        ON(test_embedding_columns),
        ON(test_heads),
        ON(test_concat),
        ON(test_split),
        ON(test_slice),
        ON(test_known_branch_goes),
        ON(test_adding_nothing_goes),
        ON(test_adding_that_widens_stays),
        ON(test_facts),
        ON(test_zeros_that_rest_on_each_other),
        ON(test_keys_of_no_value),
        ON(test_out_of_memory),
        ON(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
