/* What positions add to scores, as DeBERTa's exports write it, becomes Relative; what only looks like it stays. */
#include "compile_small.h"

/* Two heads of products of queries (c) and of keys (p), four positions each; ids of distances */
#define ROWS(x, columns)                                                                                     \
    "input " x ": f32[batch,sequence," columns "]\n" NODE(x "4", "Reshape(" x ", to4)")                      \
        NODE(x "h", "Transpose(" x "4) {perm=[0,2,1,3]}") NODE(x "3", "Reshape(" x "h, to3)")
#define HEADS                                                                                                \
    "const to4: i64[4] = [0,0,2,4]\nconst minus: i64[1] = [-1]\nconst four: i64[1] = [4]\nconst two: "       \
    "i64[1] = [2]\n"                                                                                         \
    "const i0: i64[] = [0]\nconst i1: i64[] = [1]\nconst i3: i64[] = [3]\nconst col: i64[2] = [-1,1]\n"      \
    "const half: f32[] = [0.5]\nconst third: f32[] = [0.3]\nconst zeroth: i64[1] = [0]\n"                    \
    "input shape: f32[batch,sequence]\n" NODE("s", "Shape(shape) {start=1, end=2}")                          \
        NODE("b", "Shape(shape) {start=0, end=1}") NODE("to3", "Concat(minus, s, four) {axis=0}")            \
            NODE("bh", "Mul(b, two)") NODE("full", "Concat(bh, s, s) {axis=0}")                              \
                NODE("n", "Squeeze(s, zeroth)") NODE("r", "Range(i0, n, i1)")                                \
                    NODE("rows", "Reshape(r, col)") NODE("by", "Sub(rows, r)") NODE("far", "Abs(by)")        \
                        NODE("at2", "Min(far, i3)") NODE("at", "Unsqueeze(at2, zeroth)")                     \
                            NODE("ids", "Expand(at, full)")
#define LATER                                                                                                \
    NODE("late", "Clip(by, i0, i3)")                                                                         \
    NODE("late3", "Unsqueeze(late, zeroth)") NODE("back", "Expand(late3, full)")
#define GATHERED(y, x, i) NODE(y, "GatherElements(" x "3, " i ") {axis=-1}")
#define TURNED            GATHERED("g2", "p", "back") NODE("g2t", "Transpose(g2) {perm=[0,2,1]}")

/* of sizes that are known: indices are constants, of six items and heads */
#define KNOWN                                                                                                \
    "input c: f32[3,5,8]\nconst to4: i64[4] = [0,0,2,4]\nconst to3: i64[3] = [6,5,4]\nconst full: i64[3] = " \
    "[6,5,5]\nconst i0: i64[] = [0]\nconst i1: i64[] = [1]\n"                                                \
    "const i3: i64[] = [3]\nconst i5: i64[] = [5]\nconst col: i64[2] = [-1,1]\nconst other: i64[6,1,1] = "   \
    "[0,0,0,0,0,-1]\n" NODE("c4", "Reshape(c, to4)") NODE("ch", "Transpose(c4) {perm=[0,2,1,3]}")            \
        NODE("c3", "Reshape(ch, to3)") NODE("r", "Range(i0, i5, i1)") NODE("rows", "Reshape(r, col)")        \
            NODE("by", "Sub(rows, r)") NODE("late", "Clip(by, i0, i3)") NODE("ids", "Expand(late, full)")

static const small cases[] = {
    {"indices that are known", GRAPH KNOWN GATHERED("y", "c", "ids") OUT("y"), "Relative=1 GatherElements=0"},
    {"one term", GRAPH HEADS ROWS("c", "8") GATHERED("y", "c", "ids") OUT("y"),
     "Relative=1 GatherElements=0 Expand=0"},
    {"both terms, divided",
     GRAPH HEADS LATER ROWS("c", "8") ROWS("p", "8") GATHERED("g1", "c", "ids")
         TURNED NODE("d1", "Div(g1, half)") NODE("d2", "Div(g2t, half)") NODE("y", "Add(d1, d2)") OUT("y"),
     "Relative=1 GatherElements=0 Expand=0 Div=0 Transpose=0 Add=0"},
    {"both terms, the other way round",
     GRAPH HEADS LATER ROWS("c", "8") ROWS("p", "8") GATHERED("g1", "c", "ids")
         TURNED NODE("y", "Add(g2t, g1)") OUT("y"),
     "Relative=1 GatherElements=0 Transpose=0 Add=0"},
};

static const small misses[] = {
    {"known indices, other ones for a head",
     GRAPH KNOWN NODE("own", "Add(ids, other)") GATHERED("y", "c", "own") OUT("y"),
     "Relative=0 GatherElements=1"},
    {"terms of unequal weight",
     GRAPH HEADS LATER ROWS("c", "8") ROWS("p", "8") GATHERED("g1", "c", "ids")
         TURNED NODE("d1", "Mul(g1, half)") NODE("d2", "Mul(g2t, third)") NODE("y", "Add(d1, d2)") OUT("y"),
     "Relative=2 Add=1"},
    {"two terms of queries",
     GRAPH HEADS LATER ROWS("c", "8") ROWS("p", "8") GATHERED("g1", "c", "ids") GATHERED("g2", "p", "back")
         NODE("y", "Add(g1, g2)") OUT("y"),
     "Relative=2 Add=1"},
    {"a term that is read elsewhere",
     GRAPH HEADS LATER ROWS("c", "8") ROWS("p", "8") GATHERED("g1", "c", "ids")
         TURNED NODE("y", "Add(g1, g2t)") OUT("y") OUT("g2t"),
     "Relative=2 Add=1"},
    {"indices of each item",
     GRAPH HEADS ROWS(
         "c", "8") "input more: i64[batch,sequence,sequence]\nconst none: i64[] = [0]\nconst put: i64[1] = "
                   "[1]\nconst flat: i64[1] = [-1]\n" NODE("m0", "Mul(more, none)") NODE("m1", "Add(m0, at2)")
                       NODE("m4", "Unsqueeze(m1, put)") NODE("to_all", "Concat(b, two, s, s) {axis=0}")
                           NODE("m5", "Expand(m4, to_all)") NODE("own", "Reshape(m5, full)")
                               GATHERED("y", "c", "own") OUT("y"),
     "Relative=0 GatherElements=1"},
    {"rows inside of heads",
     GRAPH HEADS "input c: f32[batch,sequence,8]\n" NODE("c3", "Reshape(c, to3)") GATHERED("y", "c", "ids")
         OUT("y"),
     "Relative=0 GatherElements=1"},
};

static void terms(void **state)
{
    (void)state;
    run_table(cases, SP_COUNT(cases));
}

static void look_alikes(void **state)
{
    (void)state;
    run_table(misses, SP_COUNT(misses));
}

/* Layers that read one constant have one plane of it. */
static void one_plane_for_all(void **state)
{
    (void)state;
    sp_graph *g = NULL;
    const sp_value *plane = NULL;
    int found = 0;
    ok(sp_graph_parse(cx,
                      GRAPH KNOWN GATHERED("y", "c", "ids") NODE("d", "Tanh(c)") NODE("d4", "Reshape(d, to4)")
                          NODE("dh", "Transpose(d4) {perm=[0,2,1,3]}") NODE("d3", "Reshape(dh, to3)")
                              GATHERED("z", "d", "ids") OUT("y") OUT("z"),
                      fetch, NULL, &g));
    ok(sp_compile_passes(g));
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        if (n->op != SP_OP_Relative) continue;
        if (found++) assert_ptr_equal(n->in[1], plane);
        plane = n->in[1];
    }
    assert_int_equal(found, 2);
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(terms), TEST(look_alikes), TEST(one_plane_for_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
