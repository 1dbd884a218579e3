/* Attention as exporters of decoders, of relative positions and of windows write it: recognised with its groups, window, cap and mask, and with
 * the same answer; near misses stay what they are. */
#include "compile_small.h"

typedef struct form {
    const char *name, *text;
    int64_t groups, left, right; /* attributes of the one Attention; -1: not there */
    float cap;
    int mask; /* rank of what its mask is for: 0 none, 1 keys, 2 queries and keys */
} form;

static void check_form(const form *f)
{
    sp_graph *plain = NULL, *fused = NULL;
    static const sizes runs[] = {{2, 3}, {1, 1}, {4, 9}};
    ok(sp_graph_parse(cx, f->text, fetch, NULL, &plain));
    ok(sp_graph_parse(cx, f->text, fetch, NULL, &fused));
    ok(sp_ops_infer(plain));
    ok(sp_compile_passes(fused));
    has(f->name, fused, "Attention=1 Softmax=0 MatMul=0 Expand=0");
    if (strstr(f->name, "scaled before")) has(f->name, fused, "Mul=0 Reshape=0");
    for (int i = 0; i < fused->n_nodes; i++) {
        const sp_node *n = fused->node[i];
        if (n->op != SP_OP_Attention) continue;
        const sp_value *m = n->n_in > 3 ? n->in[3] : NULL;
        const int kind = !m ? 0 : m->dims.rank < 2 || sp_expr_is(m->dims.dim[m->dims.rank - 2], 1) ? 1 : 2;
        if (sp_attr_int(&n->attrs, "kv_heads", -1) != f->groups ||
            sp_attr_int(&n->attrs, "left", -1) != f->left ||
            sp_attr_int(&n->attrs, "right", -1) != f->right ||
            sp_attr_float(&n->attrs, "softcap", 0) != f->cap || kind != f->mask)
            fail_msg("%s: kv_heads=%ld left=%ld right=%ld softcap=%g, mask %d", f->name,
                     (long)sp_attr_int(&n->attrs, "kv_heads", -1), (long)sp_attr_int(&n->attrs, "left", -1),
                     (long)sp_attr_int(&n->attrs, "right", -1),
                     (double)sp_attr_float(&n->attrs, "softcap", 0), kind);
    }
    for (size_t i = 0; i < SP_COUNT(runs); i++) same_answer(f->name, plain, fused, runs[i], true);
    sp_graph_free(plain);
    sp_graph_free(fused);
}

/* ------------------------------------------------------------------ pieces */

#define NUMBERS                                                                                              \
    SCALAR("half", "0.5")                                                                                    \
    SCALAR("zero", "0")                                                                                      \
    SCALAR("low", "-inf")                                                                                    \
    SCALAR("least", "-3.40282347e+38")                                                                       \
    SCALAR("cap", "2.5")                                                                                     \
    "const i0: i64[] = [0]\nconst i1: i64[] = [1]\nconst i2: i64[] = [2]\nconst one: i64[1] = "              \
    "[1]\n"                                                                                                  \
    "const two: i64[1] = [2]\nconst rows: i64[4] = [1,1,-1,1]\nconst cols: i64[4] = [1,1,1,-1]\n"            \
    "const flat: i64[3] = [0,0,16]\n"
/* four heads of q, two of k and v, repeated */
#define Q_HEADS                                                                                              \
    "input q: f32[batch,sequence,16]\nconst q_shape: i64[4] = [0,0,4,4]\n" NODE("q4", "Reshape(q, q_shape)") \
        NODE("qh", "Transpose(q4) {perm=[0,2,1,3]}")
#define KV_HEADS                                                                                             \
    "input k: f32[batch,sequence,8]\ninput v: f32[batch,sequence,8]\nconst kv_shape: i64[4] = [0,0,2,4]\n"   \
    "const times: i64[5] = [1,1,2,1,1]\nconst all: i64[4] = [0,4,-1,4]\n" NODE("k4", "Reshape(k, kv_shape)") \
        NODE("kt", "Transpose(k4) {perm=[0,2,1,3]}") NODE("v4", "Reshape(v, kv_shape)")                      \
            NODE("vt", "Transpose(v4) {perm=[0,2,1,3]}")
#define REPEATED                                                                                             \
    KV_HEADS NODE("k5", "Unsqueeze(kt, two)") NODE("ke", "Expand(k5, times)") NODE("kr", "Reshape(ke, all)") \
        NODE("v5", "Unsqueeze(vt, two)") NODE("ve", "Expand(v5, times)") NODE("vh", "Reshape(ve, all)")      \
            NODE("kh", "Transpose(kr) {perm=[0,1,3,2]}")
#define FOUR_HEADS                                                                                           \
    "input k: f32[batch,sequence,16]\ninput v: f32[batch,sequence,16]\n" NODE("k4", "Reshape(k, q_shape)")   \
        NODE("kh", "Transpose(k4) {perm=[0,2,3,1]}") NODE("v4", "Reshape(v, q_shape)")                       \
            NODE("vh", "Transpose(v4) {perm=[0,2,1,3]}")
/* indices of queries and keys, and the keys that are no padding */
#define INDICES                                                                                              \
    NODE("s1", "Shape(q) {start=1, end=2}")                                                                  \
    NODE("s", "Squeeze(s1)")                                                                                 \
    NODE("range", "Range(i0, s, i1)") NODE("iq", "Reshape(range, rows)") NODE("ik", "Reshape(range, cols)")
#define PADDING                                                                                              \
    "input mask: i64[batch,sequence]\nconst mask_axes: i64[2] = [1,2]\n" NODE(                               \
        "m4", "Unsqueeze(mask, mask_axes)") NODE("mb", "Cast(m4) {to=9}")
#define SCORES NODE("product", "MatMul(qh, kh)") NODE("scores", "Mul(product, half)")
#define TAIL                                                                                                 \
    NODE("o", "MatMul(p, vh)")                                                                               \
    NODE("ot", "Transpose(o) {perm=[0,2,1,3]}") NODE("y", "Reshape(ot, flat)") OUT("y")
#define GUARDED                                                                                              \
    NODE("p0", "Softmax(a) {axis=-1}") NODE("nan", "IsNaN(p0)") NODE("p", "Where(nan, zero, p0)") TAIL
#define DECODER GRAPH NUMBERS Q_HEADS REPEATED INDICES PADDING SCORES
#define ENCODER GRAPH NUMBERS Q_HEADS FOUR_HEADS INDICES PADDING SCORES

/* Where(does the mask leave a key, Attention, 0) */
#define PYTORCHS(mask)                                                                                       \
    "const least_axis: i64[1] = [-1]\n" NODE("o0", "Attention(qh, kr, vh, " mask ") {scale=0.25}")
#define ZEROED                                                                                               \
    NODE("o", "Where(sees, o0, zero)")                                                                       \
    NODE("ot", "Transpose(o) {perm=[0,2,1,3]}") NODE("y", "Reshape(ot, flat)") OUT("y")
#define KNOWN(mask)                                                                                          \
    GRAPH "input q: f32[2,3,16]\ninput k: f32[2,3,8]\nconst mask: " mask                                     \
          "\n" NODE("y", "Attention(q, k, k, mask) {q_num_heads=4, kv_num_heads=2}") OUT("y")

static const form forms[] = {
    {"causal and padded, groups",
     DECODER NODE("c", "LessOrEqual(ik, iq)") NODE("cm", "And(c, mb)") NODE("t", "Where(cm, zero, low)")
         NODE("a", "Add(scores, t)") GUARDED,
     2, -1, 0, 0, 1},
    {"hidden by the least number",
     DECODER NODE("c", "LessOrEqual(ik, iq)") NODE("cm", "And(c, mb)") NODE("t", "Where(cm, zero, least)")
         NODE("a", "Add(scores, t)") GUARDED,
     2, -1, 0, 0, 1},
    {"sliding, written the other way round",
     DECODER NODE("far", "Sub(iq, i2)") NODE("c1", "Greater(ik, far)") NODE("c2", "GreaterOrEqual(iq, ik)")
         NODE("c", "And(c1, c2)") NODE("cm", "And(mb, c)") NODE("t", "Where(cm, zero, low)")
             NODE("a", "Add(t, scores)") GUARDED,
     2, 1, 0, 0, 1},
    {"what is hidden, not what is seen",
     DECODER NODE("late", "Greater(ik, iq)") NODE("padded", "Not(mb)") NODE("hide", "Or(late, padded)")
         NODE("a", "Where(hide, low, scores)") GUARDED,
     2, -1, 0, 0, 1},
    {"a window on both sides",
     ENCODER NODE("by", "Sub(iq, ik)") NODE("far", "Abs(by)") NODE("c", "LessOrEqual(far, i2)")
         NODE("cm", "And(c, mb)") NODE("t", "Where(cm, zero, low)") NODE("a", "Add(scores, t)") GUARDED,
     -1, 2, 2, 0, 1},
    {"capped",
     DECODER NODE("d", "Div(scores, cap)") NODE("th", "Tanh(d)") NODE("capped", "Mul(th, cap)")
         NODE("c", "LessOrEqual(ik, iq)") NODE("t", "Where(c, zero, least)") NODE("a", "Add(capped, t)")
             NODE("p", "Softmax(a) {axis=-1}") TAIL,
     2, -1, 0, 2.5f, 0},
    {"a table of distances, hidden where padded",
     ENCODER "const table: f32[4,64] @\"table\"\n" NODE("by", "Sub(iq, ik)") NODE("far", "Abs(by)")
         NODE("b", "Gather(table, far) {axis=1}") "const drop: i64[2] = [1,2]\n" NODE(
             "b4", "Squeeze(b, drop)") "const zeroth: i64[1] = [0]\n" NODE("b5", "Unsqueeze(b4, zeroth)")
             NODE("t", "Where(mb, b5, least)") NODE("a", "Add(scores, t)") NODE("p", "Softmax(a) {axis=-1}")
                 TAIL,
     -1, -1, -1, 0, 2},
    {"two terms",
     ENCODER "input bias: f32[4,sequence,sequence]\n" NODE("b", "Add(scores, bias)")
         NODE("t", "Where(mb, zero, least)") NODE("a", "Add(b, t)") NODE("p", "Softmax(a) {axis=-1}") TAIL,
     -1, -1, -1, 0, 2},
    {"heads and items as one axis",
     GRAPH NUMBERS Q_HEADS FOUR_HEADS PADDING
     "input bias: f32[batch,4,sequence,sequence]\n" NODE("dims", "Shape(bias)") NODE(
         "n", "Shape(q) {start=1, end=2}") "const minus: i64[1] = [-1]\nconst width: i64[1] = "
                                           "[4]\n" NODE("q_to", "Concat(minus, n, width) {axis=0}")
                                               NODE("q3", "Reshape(qh, q_to)")
                                                   NODE("k_to", "Concat(minus, width, n) {axis=0}") NODE(
                                                       "k3", "Reshape(kh, k_to)")
                                                       NODE("b_to", "Concat(minus, n, n) {axis=0}") NODE(
                                                           "b3", "Reshape(bias, b_to)") NODE("product",
                                                                                             "MatMul(q3, k3)")
                                                           NODE("sum", "Add(b3, product)")
                                                               NODE("s4", "Reshape(sum, dims)")
                                                                   NODE("a", "Where(mb, s4, least)")
                                                                       NODE("p", "Softmax(a) {axis=-1}") TAIL,
     -1, -1, -1, 0, 2},
    {"windows of images",
     GRAPH NUMBERS "input x: f32[batch,6,16]\nconst to_q: i64[3] = [-1,2,16]\n" NODE("q", "Reshape(x, to_q)")
         NODE("k", "Mul(q, half)") NODE("v", "Tanh(q)") "const q_shape: i64[4] = [0,0,4,4]\n" NODE(
             "q4", "Reshape(q, q_shape)") NODE("qh", "Transpose(q4) {perm=[0,2,1,3]}")
             NODE("k4", "Reshape(k, q_shape)") NODE("kh", "Transpose(k4) {perm=[0,2,3,1]}")
                 NODE("v4", "Reshape(v, q_shape)") NODE("vh", "Transpose(v4) {perm=[0,2,1,3]}") SCORES
     "const shift: f32[1,3,1,2,2] @\"sh\"\nconst table: f32[1,4,2,2] @\"tables\"\nconst ones: i64[4] = "
     "[1,1,1,1]\n"
     "const to: i64[4] = [-1,1,2,2]\n" NODE("b", "Shape(x) {start=0, end=1}") NODE(
         "e", "Concat(b, ones) {axis=0}") NODE("each", "Expand(shift, e)") NODE("flat4", "Reshape(each, to)")
         NODE("t", "Add(table, flat4)") NODE("a", "Add(scores, t)") NODE("p", "Softmax(a) {axis=-1}") TAIL,
     -1, -1, -1, 0, 2},
    {"scaled before it has heads",
     GRAPH NUMBERS "input x: f32[batch,sequence,16]\n" NODE("q", "Mul(x, half)") NODE("k", "Tanh(x)")
         NODE("v", "Sigmoid(x)") "const q_shape: i64[4] = [0,0,4,4]\n" NODE("q4", "Reshape(q, q_shape)")
             NODE("qh", "Transpose(q4) {perm=[0,2,1,3]}") NODE("k4", "Reshape(k, q_shape)")
                 NODE("kh", "Transpose(k4) {perm=[0,2,3,1]}") NODE("v4", "Reshape(v, q_shape)")
                     NODE("vh", "Transpose(v4) {perm=[0,2,1,3]}") NODE("s", "MatMul(qh, kh)")
                         NODE("p", "Softmax(s) {axis=-1}") TAIL,
     -1, -1, -1, 0, 0},
    {"ONNX's, causal, groups",
     GRAPH
     "input q: f32[batch,sequence,16]\ninput k: f32[batch,sequence,8]\ninput v: f32[batch,sequence,8]\n" NODE(
         "y", "Attention(q, k, v) {q_num_heads=4, kv_num_heads=2, is_causal=1, softcap=2.5}") OUT("y"),
     2, -1, 0, 2.5f, 0},
    {"ONNX's, with a past",
     GRAPH
     "input q: f32[batch,sequence,16]\ninput k: f32[batch,sequence,8]\ninput v: f32[batch,sequence,10]\n"
     "input pk: f32[batch,2,3,4]\ninput pv: f32[batch,2,3,5]\n"
     "node y: ?, nk: ?, nv: ? = Attention(q, k, v, _, pk, pv) {q_num_heads=4, kv_num_heads=2, "
     "is_causal=1}\n" OUT("y") OUT("nk") OUT("nv"),
     2, -1, 0, 0, 0},
    {"ONNX's, four dims with a past, only the values wanted",
     GRAPH NUMBERS Q_HEADS KV_HEADS
     "input pk: f32[batch,2,7,4]\n"
     "node o: ?, nk: ?, nv: ? = Attention(qh, kt, vt, _, pk, pk) {scale=0.25}\n" NODE(
         "ot", "Transpose(o) {perm=[0,2,1,3]}") NODE("y", "Reshape(ot, flat)") OUT("y") OUT("nv"),
     2, -1, -1, 0, 0},
    {"ONNX's, four dims and a mask of bools",
     GRAPH NUMBERS Q_HEADS KV_HEADS PADDING NODE("o", "Attention(qh, kt, vt, mb) {scale=0.25}")
         NODE("ot", "Transpose(o) {perm=[0,2,1,3]}") NODE("y", "Reshape(ot, flat)") OUT("y"),
     2, -1, -1, 0, 1},
    {"PyTorch's, heads repeated, a mask of bools",
     DECODER PYTORCHS("mb") NODE("sees", "ReduceMax(mb, least_axis)") ZEROED, 2, -1, -1, 0, 1},
    {"PyTorch's, causal and padded",
     DECODER NODE("c", "LessOrEqual(ik, iq)") NODE("cm", "And(c, mb)") PYTORCHS("cm")
         NODE("sees", "ReduceMax(cm, least_axis)") ZEROED,
     2, -1, 0, 0, 1},
    {"PyTorch's, a mask of numbers",
     DECODER NODE("t", "Where(mb, zero, low)") PYTORCHS("t") NODE("most", "ReduceMax(t, least_axis)")
         NODE("sees", "Greater(most, low)") ZEROED,
     2, -1, -1, 0, 1},
    {"a constant that is causal", KNOWN("bool[3,3] = [1,0,0,1,1,0,1,1,1]"), 2, -1, 0, 0, 0},
    {"a constant that slides, added", KNOWN("f32[1,1,3,3] = [0,-inf,-inf,0,0,-inf,-inf,0,0]"), 2, 1, 0, 0, 0},
    {"a constant that hides nothing", KNOWN("bool[2,1,3,3] = [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"), 2, -1,
     -1, 0, 0},
    {"a constant that is no window", KNOWN("bool[3,3] = [1,0,0,1,1,0,1,0,1]"), 2, -1, -1, 0, 2},
    {"a constant that differs between items", KNOWN("bool[2,1,3,3] = [1,0,0,1,1,0,1,1,1,1,0,0,1,1,0,0,1,1]"),
     2, -1, -1, 0, 2},
    {"a constant that hides weakly", KNOWN("f32[3,3] = [0,-5,-5,0,0,-5,0,0,0]"), 2, -1, -1, 0, 2},
    {"a constant in the sum of scores",
     GRAPH NUMBERS
     "input q: f32[2,3,16]\nconst q_shape: i64[4] = [0,0,4,4]\nconst mask: f32[1,1,3,3] = "
     "[0,-3.40282347e+38,-3.40282347e+38,0,0,-3.40282347e+38,0,0,0]\n" NODE("q4", "Reshape(q, q_shape)")
         NODE("qh", "Transpose(q4) {perm=[0,2,1,3]}") NODE("kh", "Transpose(q4) {perm=[0,2,3,1]}")
             NODE("vh", "Transpose(q4) {perm=[0,2,1,3]}") SCORES NODE("a", "Add(scores, mask)")
                 NODE("p", "Softmax(a) {axis=-1}") TAIL,
     -1, -1, 0, 0, 0},
};

static void forms_of_exporters(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(forms); i++) check_form(&forms[i]);
}

/* ------------------------------------------------------------------ caches */

/* Keys of a past before the new ones, repeated for the heads that share them, as exporters of decoders write it. */
#define PASTS "input pk: f32[batch,2,5,4]\ninput pv: f32[batch,2,5,4]\n"
#define PAST(axis)                                                                                           \
    GRAPH NUMBERS Q_HEADS KV_HEADS PASTS NODE("ak", "Concat(pk, kt) {axis=" axis "}")                        \
        NODE("av", "Concat(pv, vt) {axis=" axis "}")
#define ATTEND_PAST                                                                                          \
    NODE("k5", "Unsqueeze(ak, two)")                                                                         \
    NODE("ke", "Expand(k5, times)")                                                                          \
    NODE("kr", "Reshape(ke, all)")                                                                           \
    NODE("v5", "Unsqueeze(av, two)")                                                                         \
    NODE("ve", "Expand(v5, times)")                                                                          \
    NODE("vh", "Reshape(ve, all)")                                                                           \
    NODE("kh", "Transpose(kr) {perm=[0,1,3,2]}")                                                             \
    NODE("scores", "MatMul(qh, kh)") NODE("p", "Softmax(scores) {axis=-1}") TAIL

static const small caches[] = {
    {"past and new keys", PAST("2") ATTEND_PAST OUT("ak") OUT("av"), "Attention=1 Concat=2 Transpose=2"},
    {"of an encoder",
     GRAPH NUMBERS Q_HEADS
     "input ak: f32[batch,4,7,4]\ninput av: f32[batch,4,7,4]\n" NODE("kh", "Transpose(ak) {perm=[0,1,3,2]}")
         NODE("scores", "MatMul(qh, kh)") NODE("p", "Softmax(scores) {axis=-1}") NODE("c", "MatMul(p, av)")
             NODE("ct", "Transpose(c) {perm=[0,2,1,3]}") NODE("y", "Reshape(ct, flat)") OUT("y"),
     "Attention=1 Transpose=0 Reshape=0"},
};

/* What its keys and values are: in the form of a cache. */
static void as_a_cache_has_them(void **state)
{
    (void)state;
    run_table(caches, SP_COUNT(caches));
    for (size_t i = 0; i < SP_COUNT(caches); i++) {
        sp_graph *g = NULL;
        ok(sp_graph_parse(cx, caches[i].text, fetch, NULL, &g));
        ok(sp_compile_passes(g));
        for (int k = 0; k < g->n_nodes; k++)
            if (g->node[k]->op == SP_OP_Attention)
                for (int j = 1; j < 3; j++) assert_int_equal(g->node[k]->in[j]->dims.rank, 4);
        sp_graph_free(g);
    }
}

/* ------------------------------------------------------------------ near misses */

#define WITH(op) "Attention=1 Softmax=0 " op

static const small misses[] = {
    {"the same for every key",
     ENCODER "const three: i64[] = [3]\n" NODE("e", "Expand(three, s1)") NODE("ik2", "Reshape(e, cols)") NODE(
         "c", "LessOrEqual(ik2, iq)") NODE("t", "Where(c, zero, low)") NODE("a", "Add(scores, t)") GUARDED,
     WITH("Where=1")},
    {"a key and itself",
     ENCODER NODE("c", "LessOrEqual(ik, ik)") NODE("t", "Where(c, zero, low)") NODE("a", "Add(scores, t)")
         GUARDED,
     "Attention=1"},
    {"nothing before the next key",
     ENCODER NODE("next", "Add(iq, i1)") NODE("c", "GreaterOrEqual(ik, next)")
         NODE("t", "Where(c, zero, low)") NODE("a", "Add(scores, t)") GUARDED,
     WITH("GreaterOrEqual=1")},
    {"weakly hidden",
     ENCODER SCALAR("weak", "-5") NODE("c", "LessOrEqual(ik, iq)") NODE("t", "Where(c, zero, weak)")
         NODE("a", "Add(scores, t)") GUARDED,
     WITH("LessOrEqual=1")},
    {"groups the other way round",
     GRAPH NUMBERS Q_HEADS KV_HEADS "const times2: i64[5] = [1,2,1,1,1]\n" NODE("k5", "Unsqueeze(kt, one)")
         NODE("ke", "Expand(k5, times2)") NODE("kr", "Reshape(ke, all)") NODE("v5", "Unsqueeze(vt, one)")
             NODE("ve", "Expand(v5, times2)") NODE("vh", "Reshape(ve, all)") NODE(
                 "kh", "Transpose(kr) {perm=[0,1,3,2]}") SCORES NODE("p", "Softmax(scores) {axis=-1}") TAIL,
     WITH("Expand=2")},
    {"a cap that is none",
     ENCODER NODE("d", "Div(scores, cap)") NODE("th", "Tanh(d)") NODE("capped", "Neg(th)")
         NODE("p", "Softmax(capped) {axis=-1}") TAIL,
     "Attention=0 Softmax=1"},
    {"ONNX's, more new keys than queries after a past",
     GRAPH "input q: f32[batch,2,8]\ninput k: f32[batch,3,8]\ninput p: f32[batch,2,4,4]\n"
           "node y: ?, nk: ?, nv: ? = Attention(q, k, k, _, p, p) {q_num_heads=2, kv_num_heads=2, "
           "is_causal=1}\n" OUT("y") OUT("nk"),
     "Attention=1 Concat=0"},
    {"ONNX's, scores wanted",
     GRAPH "input q: f32[batch,3,8]\ninput p: f32[batch,2,4,4]\n"
           "node y: ?, nk: ?, nv: ?, s: ? = Attention(q, q, q, _, p, p) {q_num_heads=2, "
           "kv_num_heads=2}\n" OUT("y") OUT("s"),
     "Attention=1 Concat=0"},
    {"PyTorch's: fully masked queries are zeros, and the Where is gone",
     DECODER PYTORCHS("mb") NODE("sees", "ReduceMax(mb, least_axis)") ZEROED, WITH("ReduceMax=0 Where=1")},
    {"zeros where another mask hides all",
     DECODER NODE("other", "Not(mb)") PYTORCHS("mb") NODE("sees", "ReduceMax(other, least_axis)") ZEROED,
     WITH("ReduceMax=1")},
    {"ones instead of zeros",
     DECODER SCALAR("unit", "1") PYTORCHS("mb") NODE("sees", "ReduceMax(mb, least_axis)")
         NODE("o", "Where(sees, o0, unit)") NODE("ot", "Transpose(o) {perm=[0,2,1,3]}")
             NODE("y", "Reshape(ot, flat)") OUT("y"),
     WITH("ReduceMax=1")},
    {"what is not zeroed wanted",
     DECODER PYTORCHS("mb") NODE("sees", "ReduceMax(mb, least_axis)") ZEROED OUT("o0"), WITH("ReduceMax=1")},
    {"zeros where the mask of a head hides all, of items instead of heads",
     GRAPH NUMBERS
     "input q: f32[2,3,8]\ninput k: f32[2,3,8]\ninput m0: i64[2,3,3]\nconst last: i64[1] = [-1]\n"
     "const first: i64[2,1,1] = [1,0]\n" NODE("m1", "Mul(m0, first)") NODE("mb", "Cast(m1) {to=9}") NODE(
         "sees", "ReduceMax(mb, last)") NODE("o", "Attention(q, k, k, mb) {q_num_heads=2, kv_num_heads=2}")
         NODE("y", "Where(sees, o, zero)") OUT("y"),
     "Attention=1 ReduceMax=1"},
    {"ONNX's, causal from the first key",
     GRAPH "input q: f32[batch,2,8]\ninput k: f32[batch,5,8]\n" NODE(
         "y", "Attention(q, k, k) {q_num_heads=2, kv_num_heads=2, is_causal=1}") OUT("y"),
     "Attention=1 Softmax=0"},
};

static void near_misses(void **state)
{
    (void)state;
    run_table(misses, SP_COUNT(misses));
}

/* Where the mask hides all there is 0, whatever the scores are; a kernel that sees scores alone would make NaN of a query that is. */
static void strict_ones(void **state)
{
    (void)state;
    check_small(&(small){"PyTorch's, queries of NaN",
                         GRAPH NUMBERS Q_HEADS REPEATED PADDING NODE("none", "Div(zero, zero)")
                             NODE("qn", "Add(qh, none)") "const least_axis: i64[1] = [-1]\n" NODE(
                                 "o0", "Attention(qn, kr, vh, mb) {scale=0.25}")
                                 NODE("sees", "ReduceMax(mb, least_axis)") ZEROED,
                         "Attention=1 ReduceMax=1 Where=2"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(forms_of_exporters), TEST(as_a_cache_has_them), TEST(near_misses),
                                       TEST_STRICT(strict_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
