/* Products of heads with a constant matrix each become a Linear with those on its diagonal; what only looks like them stays. */
#include "compile_small.h"

#define HEADS                                                                                                \
    "input x: f32[batch,sequence,8]\nconst to4: i64[4] = [0,0,2,4]\n" NODE("x4", "Reshape(x, to4)")          \
        NODE("xh", "Transpose(x4) {perm=[0,2,1,3]}")
#define AS_ONE                                                                                               \
    "const minus: i64[1] = [-1]\nconst width: i64[1] = [4]\n" NODE("s", "Shape(x) {start=1, end=2}")         \
        NODE("to3", "Concat(minus, s, width) {axis=0}") NODE("x3", "Reshape(xh, to3)")
#define TIMES                                                                                                \
    "const one: i64[1] = [1]\n" NODE("b", "Shape(x) {start=0, end=1}")                                       \
        NODE("times", "Concat(b, one, one) {axis=0}")

#define KNOWN                                                                                                \
    "input x: f32[3,5,8]\nconst to4: i64[4] = [0,0,2,4]\nconst to3: i64[3] = [6,5,4]\n" NODE(                \
        "x4", "Reshape(x, to4)") NODE("xh", "Transpose(x4) {perm=[0,2,1,3]}") NODE("x3", "Reshape(xh, to3)")

static const small cases[] = {
    {"a matrix for each head", GRAPH HEADS "const c: f32[2,4,3] @\"c\"\n" NODE("y", "MatMul(xh, c)") OUT("y"),
     "Linear=1 MatMul=0"},
    {"repeated for items, turned",
     GRAPH HEADS AS_ONE TIMES "const c: f32[2,3,4] @\"c\"\n" NODE("t", "Tile(c, times)")
         NODE("ct", "Transpose(t) {perm=[0,2,1]}") NODE("y", "MatMul(x3, ct)") OUT("y"),
     "Linear=1 MatMul=0 Tile=0"},
    {"a size that is a multiple of another",
     GRAPH HEADS AS_ONE TIMES
     "const c: f32[2,4,3] @\"c\"\nconst i0: i64[1] = [0]\nconst three: i64[1] = [3]\n" NODE(
         "t", "Tile(c, times)") NODE("z", "MatMul(x3, t)") NODE("n", "Shape(x3)")
         NODE("n0", "Gather(n, i0) {axis=0}") "const ids: i64[1,1,3] = [2,0,1]\n" NODE(
             "e", "Concat(n0, s, three) {axis=0}") NODE("i", "Expand(ids, e)")
             NODE("y", "GatherElements(z, i) {axis=-1}") OUT("y"),
     "Linear=1 MatMul=0 Tile=0 Gather=0"},
    {"repeated for items, which is known",
     GRAPH KNOWN "const c: f32[2,4,3] @\"c\"\nconst times: i64[3] = [3,1,1]\n" NODE("t", "Tile(c, times)")
         NODE("y", "MatMul(x3, t)") OUT("y"),
     "Linear=1 MatMul=0"},
    {"a large product of constants",
     GRAPH "input x: f32[batch,528,512]\nconst i0: i64[] = [0]\nconst i1: i64[] = [1]\nconst n: i64[] = "
           "[270336]\nconst a_to: i64[2] = [528,512]\n"
           "const from: i64[1] = [0]\nconst to: i64[1] = [512]\n" NODE("r", "Range(i0, n, i1)")
               NODE("f", "Cast(r) {to=1}") NODE("s", "Sin(f)") NODE("a", "Reshape(s, a_to)") NODE(
                   "b", "Slice(a, from, to, from)") NODE("p", "MatMul(a, b)") NODE("y", "Add(x, p)") OUT("y"),
     "MatMul=0 Linear=0 Add=1"},
    {"one matrix for all is a product as ever",
     GRAPH HEADS "const c: f32[4,3] @\"c\"\n" NODE("y", "MatMul(xh, c)") OUT("y"), "Linear=1 MatMul=0"},
};

static const small misses[] = {
    {"heads that are not put first",
     GRAPH "input x: f32[batch,2,8]\nconst to4: i64[4] = [0,0,2,4]\n" NODE(
         "x4", "Reshape(x, to4)") "const c: f32[2,4,3] @\"c\"\n" NODE("y", "MatMul(x4, c)") OUT("y"),
     "Linear=0 MatMul=1"},
    {"rows inside of heads",
     GRAPH "input x: f32[batch,sequence,8]\nconst to4: i64[4] = [0,2,-1,4]\n" NODE(
         "xh", "Reshape(x, to4)") "const c: f32[2,4,3] @\"c\"\n" NODE("y", "MatMul(xh, c)") OUT("y"),
     "Linear=0 MatMul=1"},
    {"features the other way round",
     GRAPH "input x: f32[batch,sequence,8]\nconst to4: i64[4] = [0,0,4,2]\n" NODE("x4", "Reshape(x, to4)")
         NODE("xh", "Transpose(x4) {perm=[0,3,1,2]}") "const c: f32[2,4,3] @\"c\"\n" NODE(
             "y", "MatMul(xh, c)") OUT("y"),
     "Linear=0 MatMul=1"},
    {"a matrix for each item and head",
     GRAPH KNOWN "const c: f32[6,4,3] @\"c\"\n" NODE("y", "MatMul(x3, c)") OUT("y"), "Linear=0 MatMul=1"},
    {"a matrix for each item",
     GRAPH "input x: f32[2,sequence,8]\nconst to4: i64[4] = [0,0,2,4]\n" NODE("x4", "Reshape(x, to4)") NODE(
         "xh", "Transpose(x4) {perm=[2,0,1,3]}") "const c: f32[2,4,3] @\"c\"\n" NODE("y", "MatMul(xh, c)")
         OUT("y"),
     "Linear=0 MatMul=1"},
};

static void heads(void **state)
{
    (void)state;
    run_table(cases, SP_COUNT(cases));
}

static void look_alikes(void **state)
{
    (void)state;
    run_table(misses, SP_COUNT(misses));
}

static float zeros[2 * 1536 * 1024];
static sparta_status fetch_zeros(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg, (void)name;
    out->data = zeros;
    return SPARTA_OK;
}

/* Too large to be repeated before the pass: what it repeats is not itself one matrix for two items because its heads are alike. */
static void heads_that_are_alike(void **state)
{
    (void)state;
    sp_graph *g = NULL;
    ok(sp_graph_parse(cx,
                      GRAPH
                      "input x: f32[2,5,3072]\nconst to4: i64[4] = [0,0,2,1536]\nconst to3: i64[3] = "
                      "[4,5,1536]\nconst times: i64[3] = [2,1,1]\nconst c: f32[2,1536,1024] @\"c\"\n" NODE(
                          "x4", "Reshape(x, to4)") NODE("xh", "Transpose(x4) {perm=[0,2,1,3]}")
                          NODE("x3", "Reshape(xh, to3)") NODE("t", "Tile(c, times)")
                              NODE("y", "MatMul(x3, t)") OUT("y"),
                      fetch_zeros, NULL, &g));
    ok(sp_ops_infer(g));
    has("before", g, "Tile=1 MatMul=1");
    ok(sp_pass_heads(g));
    has("after", g, "Tile=0 MatMul=0 Linear=1");
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(heads), TEST(look_alikes), TEST(heads_that_are_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
