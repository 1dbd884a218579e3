/* Columns of a Linear that go different ways become Linears of their own: parts of heads, gates; what only looks like them stays. */
#include "compile_small.h"

#define BOUNDS                                                                                               \
    "const last: i64[1] = [-1]\nconst c0: i64[1] = [0]\nconst c4: i64[1] = [4]\nconst c6: i64[1] = [6]\n"    \
    "const c8: i64[1] = [8]\nconst c12: i64[1] = [12]\nconst most: i64[1] = [9223372036854775807]\n"         \
    "const two: i64[1] = [2]\n"
#define WIDE                                                                                                 \
    GRAPH X BOUNDS                                                                                           \
        "const w: f32[8,24] @\"w\"\nconst b: f32[24] @\"b\"\nconst to4: i64[4] = [0,0,2,12]\n" NODE(         \
            "y0", "MatMul(x, w)") NODE("y", "Add(y0, b)") NODE("y4", "Reshape(y, to4)")                      \
            NODE("v", "Transpose(y4) {perm=[0,2,1,3]}")
#define CUT(out, of, from, to) NODE(out, "Slice(" of ", " from ", " to ", last)")
#define GATED                                                                                                \
    GRAPH X BOUNDS "const w: f32[8,24] @\"w\"\nconst b: f32[24] @\"b\"\n" NODE("y0", "MatMul(x, w)")         \
        NODE("y", "Add(y0, b)")
#define GATE NODE("g", "Gelu(p)") NODE("z", "Mul(g, r)") OUT("z")

static const small cases[] = {
    {"query, key and value of each head, sliced",
     WIDE CUT("q", "v", "c0", "c4") CUT("k", "v", "c4", "c8") CUT("u", "v", "c8", "most") OUT("q") OUT("k")
         OUT("u"),
     "Linear=1 Slice=0 Split=1 Transpose=3"},
    {"query, key and value of each head, split",
     WIDE "node q: ?, k: ?, u: ? = Split(v) {axis=3, num_outputs=3}\n" OUT("q") OUT("k") OUT("u"),
     "Linear=1 Slice=0 Split=1 Transpose=3"},
    {"heads behind rows, a turned weight, parts of unequal size",
     GRAPH X BOUNDS "const wt: f32[24,8] @\"w\"\nconst to4: i64[4] = [0,0,2,12]\n" NODE(
         "w", "Transpose(wt) {perm=[1,0]}") NODE("y", "MatMul(x, w)") NODE("v", "Reshape(y, to4)")
         CUT("q", "v", "c0", "c8") CUT("k", "v", "c8", "c12") OUT("q") OUT("k"),
     "Linear=1 Slice=0 Split=1"},
    {"a gate, sliced", GATED CUT("p", "y", "c0", "c12") CUT("r", "y", "c12", "most") GATE,
     "Linear=2 Slice=0 Gelu=0 Mul=0"},
    {"a gate, split", GATED "node r: ?, p: ? = Split(y) {axis=-1, num_outputs=2}\n" GATE,
     "Linear=2 Split=0 Gelu=0 Mul=0"},
};

static const small misses[] = {
    {"columns that two parts have",
     WIDE CUT("q", "v", "c0", "c8") CUT("k", "v", "c4", "c12") OUT("q") OUT("k"), "Linear=1 Slice=2"},
    {"blocks of outputs that would be cut",
     WIDE CUT("q", "v", "c0", "c6") CUT("k", "v", "c6", "c12") OUT("q") OUT("k"), "Linear=1 Slice=2"},
    {"every second column",
     WIDE NODE("q", "Slice(v, c0, c8, last, two)") CUT("k", "v", "c8", "c12") OUT("q") OUT("k"),
     "Linear=1 Slice=2"},
    {"heads that are read as a whole, too",
     WIDE CUT("q", "v", "c0", "c4") CUT("k", "v", "c4", "c12") NODE("t", "Tanh(v)") OUT("q") OUT("k")
         OUT("t"),
     "Linear=1 Slice=2"},
    {"a result that is an output, too",
     GATED CUT("p", "y", "c0", "c12") CUT("r", "y", "c12", "most") GATE OUT("y"), "Linear=1 Slice=2"},
    {"halves without an activation",
     GATED "node p: ?, r: ? = Split(y) {axis=-1, num_outputs=2}\n" NODE("z", "Mul(p, r)") OUT("z"),
     "Linear=1 Split=1"},
    {"halves of rows",
     GRAPH "input x: f32[batch,2,8]\nconst w: f32[8,24] @\"w\"\n" NODE(
         "y", "MatMul(x, w)") "node p: ?, r: ? = Split(y) {axis=1, num_outputs=2}\n" GATE,
     "Linear=1 Split=1"},
};

SMALL_TESTS(parts)
