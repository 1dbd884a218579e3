/* The other passes on small graphs: lookups, merged products, rearrangements that cancel, dots of pairs, Dropout; and chains, long ones and
 * random ones. What is nearly such a pattern must stay as it is; both ways the answer is compared. */
#include "compile_small.h"

/* ------------------------------------------------------------------ Embed, merge, rows, simplify */

#define TABLES                                                                                               \
    "input input_ids: i64[batch,sequence]\ninput kind: i64[batch,sequence]\ninput place: i64[1,sequence]\n"  \
    "const words: f32[100,8] @\"words\"\nconst kinds: f32[2,8] @\"ki\"\nconst places: f32[3,8] @\"pl\"\n"
#define LOOKUPS                                                                                              \
    NODE("a", "Gather(words, input_ids)")                                                                    \
    NODE("b", "Gather(kinds, kind) {axis=0}") NODE("c", "Gather(places, place)")

/* v (S,S), its row numbers a and column numbers b as (S,S,1) */
#define SQUARE                                                                                               \
    "input v: f32[sequence,sequence]\nconst z: i64[] = [0]\nconst o: i64[] = [1]\nconst zz: i64[1] = "       \
    "[0]\nconst oo: i64[1] = [1]\nconst last: i64[1] = [-1]\n" NODE("s", "Shape(v)")                         \
        NODE("n1", "Shape(v) {end=1}") NODE("n0", "Squeeze(n1, zz)") NODE("i", "Range(z, n0, o)")            \
            NODE("iu", "Unsqueeze(i, oo)") NODE("ie", "Expand(iu, s)") NODE("a", "Unsqueeze(ie, last)")      \
                NODE("je", "Expand(i, s)") NODE("b", "Unsqueeze(je, last)")

/* x (batch, 4, 24) as (batch, 4, 3, 8): three projections side by side */
#define PACKED(rows, parts)                                                                                  \
    "input x: f32[batch," rows ",24]\nconst s: i64[4] = [0,0," parts "]\nconst i0: i64[] = [0]\n"            \
    "const i1: i64[] = [1]\nconst i2: i64[] = [2]\nconst back: i64[] = [-3]\n" NODE("t", "Reshape(x, s)")
#define PACKED_SUM NODE("pq", "Sub(p, q)") NODE("y", "Mul(pq, r)") OUT("y")

#define MOVED NODE("p", "MatMul(x, w)") NODE("q", "Add(p, b)") NODE("t", "Transpose(q) {perm=[0,2,1]}")

static const small others[] = {
    {"an activation behind rows that were moved", GRAPH X WB MOVED NODE("y", "Relu(t)") OUT("y"),
     "Linear=1 Relu=0 Transpose=1"},
    {"a sum of two that were moved alike, and its activation",
     GRAPH X WB MOVED NODE("x2", "Sin(x)") NODE("p2", "MatMul(x2, w)") NODE("q2", "Tanh(p2)")
         NODE("t2", "Transpose(q2) {perm=[0,2,1]}") NODE("a", "Add(t2, t)") NODE("y", "Relu(a)") OUT("y"),
     "Linear=2 Add=0 Tanh=0 Relu=0 Transpose=1"},
    {"a sum of one that was moved and one that was not",
     GRAPH "input x: f32[batch,12,8]\n" WB MOVED NODE("x2", "Sin(x)") NODE("p2", "MatMul(x2, w)")
         NODE("q2", "Tanh(p2)") NODE("a", "Add(q2, t)") NODE("y", "Relu(a)") OUT("y"),
     "Linear=2 Add=0 Relu=0 Transpose=1"},
    {"what was moved is wanted", GRAPH X WB MOVED NODE("y", "Relu(t)") OUT("y") OUT("t"), "Linear=1 Relu=1"},
    {"what was moved is of no Linear",
     GRAPH X NODE("p", "Sin(x)") NODE("t", "Transpose(p) {perm=[0,2,1]}") NODE("y", "Relu(t)") OUT("y"),
     "Relu=1 Transpose=1"},
    {"a Where that always takes the one",
     GRAPH X "const t: bool[1,1,8] = [1,1,1,1,1,1,1,1]\n" NODE("z", "Neg(x)") NODE("a", "Where(t, x, z)")
         NODE("y", "Relu(a)") OUT("y"),
     "Where=0 Neg=0"},
    {"a Where that always takes the other",
     GRAPH X "const t: bool[1,1,8] = [0,0,0,0,0,0,0,0]\n" NODE("z", "Neg(x)") NODE("a", "Where(t, x, z)")
         NODE("y", "Relu(a)") OUT("y"),
     "Where=0 Neg=1"},
    {"a Where that takes both",
     GRAPH X "const t: bool[1,1,8] = [1,1,1,0,1,1,1,1]\n" NODE("z", "Neg(x)") NODE("a", "Where(t, x, z)")
         NODE("y", "Relu(a)") OUT("y"),
     "Where=1"},
    {"a Where that widens what it takes",
     GRAPH "input x: f32[batch,1,8]\nconst t: bool[1,3,8] = "
           "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]\n" NODE("z", "Neg(x)")
               NODE("a", "Where(t, x, z)") NODE("y", "Relu(a)") OUT("y"),
     "Where=1"},
    {"And with what is true, and widens",
     GRAPH "input m: i64[batch,1,1,3]\nconst t: bool[1,1,3,1] = [1,1,1]\n" SCALAR("one", "1")
         SCALAR("two", "2") NODE("b", "Cast(m) {to=9}") NODE("a", "And(t, b)") NODE("y", "Where(a, one, two)")
             OUT("y"),
     "And=0 Where=1"},
    {"And with what is not always true",
     GRAPH "input m: i64[batch,1,1,3]\nconst t: bool[1,1,3,1] = [1,0,1]\n" SCALAR("one", "1")
         SCALAR("two", "2") NODE("b", "Cast(m) {to=9}") NODE("a", "And(t, b)") NODE("y", "Where(a, one, two)")
             OUT("y"),
     "And=1"},
    {"three tables", GRAPH TABLES LOOKUPS NODE("s", "Add(a, b)") NODE("y", "Add(c, s)") OUT("y"),
     "Embed=1 Gather=0 Add=0"},
    {"partial sum wanted",
     GRAPH TABLES LOOKUPS NODE("s", "Add(a, b)") NODE("y", "Add(c, s)") OUT("y") OUT("s"), "Embed=2 Add=1"},
    {"five tables",
     GRAPH TABLES LOOKUPS NODE("d", "Gather(kinds, place)") NODE("e", "Gather(places, kind)")
         NODE("s", "Add(a, b)") NODE("t", "Add(c, s)") NODE("u", "Add(t, d)") NODE("y", "Add(u, e)") OUT("y"),
     "Embed=2 Add=1"},
    {"columns of a table", GRAPH TABLES NODE("y", "Gather(places, kind) {axis=1}") OUT("y"),
     "Embed=0 Gather=1"},
    {"a narrow table",
     GRAPH TABLES "const thin: f32[2,1] @\"t\"\n" NODE("a", "Gather(words, input_ids)")
         NODE("b", "Gather(thin, kind)") NODE("y", "Add(a, b)") OUT("y"),
     "Embed=2 Add=1"},
    {"one row", GRAPH TABLES "input one: i64[]\n" NODE("y", "Gather(kinds, one)") OUT("y"),
     "Embed=0 Gather=1"},

    {"three of one input",
     GRAPH X "const a: f32[8,8] @\"a\"\nconst b: f32[8,4] @\"b\"\nconst c: f32[8,12] @\"c\"\n" NODE(
         "p", "MatMul(x, a)") NODE("q", "MatMul(x, b)") NODE("r", "MatMul(x, c)") OUT("p") OUT("q") OUT("r"),
     "Linear=1 Split=1"},
    {"one with a bias",
     GRAPH X WB "const c: f32[8,4] @\"c\"\nconst d: f32[8,4] @\"dd\"\n" NODE("p", "MatMul(x, w)") NODE(
         "q", "MatMul(x, c)") NODE("r", "MatMul(x, d)") NODE("s", "Add(p, b)") OUT("s") OUT("q") OUT("r"),
     "Linear=2 Split=1"},
    {"another activation",
     GRAPH X "const c: f32[8,4] @\"c\"\nconst d: f32[8,4] @\"dd\"\n" NODE("q", "MatMul(x, c)")
         NODE("r", "MatMul(x, d)") NODE("s", "Relu(r)") OUT("s") OUT("q"),
     "Linear=2 Split=0"},
    {"not a multiple of 4",
     GRAPH X "const c: f32[8,4] @\"c\"\nconst d: f32[8,6] @\"dd\"\n" NODE("q", "MatMul(x, c)")
         NODE("r", "MatMul(x, d)") OUT("r") OUT("q"),
     "Linear=2 Split=0"},
    {"transposed",
     GRAPH "input x: f32[batch,8]\nconst c: f32[4,8] @\"c\"\nconst d: f32[12,8] @\"dd\"\n" NODE(
         "q", "Gemm(x, c) {transB=1}") NODE("r", "Gemm(x, d) {transB=1}") OUT("r") OUT("q"),
     "Linear=1 Split=1"},
    {"both layouts",
     GRAPH "input x: f32[batch,8]\nconst c: f32[8,8] @\"c\"\n" NODE("q", "MatMul(x, c)")
         NODE("r", "Gemm(x, c) {transB=1}") OUT("r") OUT("q"),
     "Linear=2 Split=0"},

    {"rows there and back",
     GRAPH X WB "const two: i64[2] = [-1,8]\n" NODE("a", "Transpose(x) {perm=[1,0,2]}")
         NODE("f", "Reshape(a, two)") NODE("p", "MatMul(f, w)")
             NODE("s", "Shape(a) {end=2}") "const n: i64[1] = [12]\n" NODE("t", "Concat(s, n) {axis=0}")
                 NODE("r", "Reshape(p, t)") NODE("y", "Transpose(r) {perm=[1,0,2]}") OUT("y"),
     "Linear=1 Reshape=0 Transpose=0 Shape=0"},
    {"rows that end elsewhere",
     GRAPH X WB NODE("a", "Transpose(x) {perm=[1,0,2]}") NODE("p", "MatMul(a, w)")
         NODE("y", "Transpose(p) {perm=[1,2,0]}") OUT("y"),
     "Linear=1 Transpose=2"},
    {"columns mixed in",
     GRAPH "input x: f32[batch,4,8]\nconst v: f32[4,4] @\"v\"\n" NODE("a", "Transpose(x) {perm=[0,2,1]}")
         NODE("p", "MatMul(a, v)") NODE("y", "Transpose(p) {perm=[0,2,1]}") OUT("y"),
     "Linear=1 Transpose=2"},

    {"columns mixed in, square",
     GRAPH "input x: f32[batch,4,4]\nconst v: f32[4,4] @\"v\"\n" NODE("a", "Transpose(x) {perm=[0,2,1]}")
         NODE("p", "MatMul(a, v)") NODE("y", "Transpose(p) {perm=[0,2,1]}") OUT("y"),
     "Linear=1 Transpose=2"},

    {"packed",
     GRAPH PACKED("4", "3,8") NODE("p", "Gather(t, i0) {axis=2}") NODE("q", "Gather(t, i1) {axis=2}")
         NODE("r", "Gather(t, i2) {axis=2}") PACKED_SUM,
     "Split=1 Gather=0 Reshape=0"},
    {"packed, a place twice",
     GRAPH PACKED("4", "3,8") NODE("p", "Gather(t, i0) {axis=2}") NODE("q", "Gather(t, back) {axis=2}")
         NODE("r", "Gather(t, i2) {axis=2}") PACKED_SUM,
     "Split=0 Gather=3"},
    {"packed the other way",
     GRAPH PACKED("4", "8,3") NODE("p", "Gather(t, i0) {axis=3}") NODE("q", "Gather(t, i1) {axis=3}")
         NODE("r", "Gather(t, i2) {axis=3}") PACKED_SUM,
     "Split=0 Gather=3"},
    {"packed, another axis",
     GRAPH PACKED("4", "3,8") NODE("p", "Gather(t, i0) {axis=2}") NODE("q", "Gather(t, i1) {axis=2}")
         NODE("r", "Gather(t, i2) {axis=1}") OUT("p") OUT("q") OUT("r"),
     "Split=0 Gather=3"},
    {"packed and wanted",
     GRAPH PACKED("4", "3,8") NODE("p", "Gather(t, i0) {axis=2}") NODE("q", "Gather(t, i1) {axis=2}")
         NODE("r", "Gather(t, i2) {axis=2}") PACKED_SUM OUT("t"),
     "Split=0 Gather=3"},

    {"chain of nothing",
     GRAPH X NODE("a", "Transpose(x) {perm=[1,0,2]}") NODE("b", "Transpose(a) {perm=[1,0,2]}")
         NODE("c", "Identity(b)") NODE("y", "Relu(c)") OUT("y"),
     "Relu=1 Transpose=0 Identity=0"},
    {"reshapes in a row",
     GRAPH X "const s4: i64[4] = [0,0,2,4]\nconst s2: i64[2] = [-1,8]\n" NODE("a", "Reshape(x, s4)")
         NODE("b", "Reshape(a, s2)") NODE("y", "Relu(b)") OUT("y"),
     "Reshape=1"},
    {"split and moved is no reshape",
     GRAPH X "const s4: i64[4] = [0,0,2,4]\nconst s3: i64[3] = [0,0,8]\n" NODE("a", "Reshape(x, s4)")
         NODE("b", "Transpose(a) {perm=[0,1,3,2]}") NODE("c", "Reshape(b, s3)") NODE("y", "Relu(c)") OUT("y"),
     "Reshape=2 Transpose=1"},
    {"a dim cut in three and shuffled",
     GRAPH X "const s5: i64[5] = [0,0,2,2,2]\nconst s3: i64[3] = [0,0,8]\n" NODE("a", "Reshape(x, s5)")
         NODE("b", "Transpose(a) {perm=[0,1,3,2,4]}") NODE("c", "Transpose(b) {perm=[0,1,3,4,2]}")
             NODE("y", "Reshape(c, s3)") OUT("y"),
     "Reshape=2 Transpose=1"},
    {"an output that is an input", GRAPH X NODE("y", "Identity(x)") OUT("y"), "Identity=1"},
    {"an output through nothing", GRAPH X NODE("a", "Relu(x)") NODE("y", "Identity(a)") OUT("y"),
     "Relu=1 Identity=0"},
    {"two outputs of one value",
     GRAPH X NODE("a", "Relu(x)") NODE("y", "Identity(a)") NODE("z", "Identity(a)") OUT("y") OUT("z"),
     "Relu=1"},
    {"twins, both outputs", GRAPH X NODE("y", "Relu(x)") NODE("z", "Relu(x)") OUT("y") OUT("z"),
     "Relu=1 Identity=1"},
    {"a twin is an output",
     GRAPH X NODE("a", "Relu(x)") NODE("y", "Neg(a)") NODE("z", "Relu(x)") OUT("y") OUT("z"),
     "Relu=1 Identity=1"},
    {"twins", GRAPH X NODE("a", "Relu(x)") NODE("b", "Relu(x)") NODE("y", "Mul(a, b)") OUT("y"), "Relu=1"},
    {"not twins",
     GRAPH X NODE("a", "Softmax(x) {axis=1}") NODE("b", "Softmax(x) {axis=2}") NODE("y", "Mul(a, b)")
         OUT("y"),
     "Softmax=2"},
    {"reversed by a slice",
     GRAPH X "const s: i64[1] = [-1]\nconst e: i64[1] = [-100]\nconst ax: i64[1] = [2]\n" NODE(
         "a", "Slice(x, s, e, ax, s)") NODE("y", "Relu(a)") OUT("y"),
     "Slice=1"},
    {"expanded mask",
     GRAPH X "input z: f32[1,sequence,1]\nconst c: f32[] = [2]\n" NODE("s", "Shape(x)")
         NODE("e", "Expand(z, s)") NODE("m", "Mul(e, c)") NODE("y", "Add(x, m)") OUT("y"),
     "Expand=0"},
    {"expanded and wanted",
     GRAPH X "input z: f32[1,sequence,1]\nconst c: f32[] = [2]\n" NODE("s", "Shape(x)")
         NODE("e", "Expand(z, s)") NODE("y", "Mul(e, c)") OUT("y"),
     "Expand=1"},
    {"times one that widens",
     GRAPH X "const o: f32[1,1,1,1] = [1]\n" NODE("a", "Mul(x, o)") NODE("y", "Relu(a)") OUT("y"), "Mul=1"},
    {"one divided by x", GRAPH X SCALAR("o", "1") NODE("a", "Div(o, x)") NODE("y", "Relu(a)") OUT("y"),
     "Div=1"},

    {"counted through",
     GRAPH
     "input v: f32[sequence,2]\nconst z: i64[] = [0]\nconst o: i64[] = [1]\nconst zz: i64[1] = [0]\n" NODE(
         "n1", "Shape(v) {end=1}") NODE("n", "Squeeze(n1, zz)") NODE("i", "Range(z, n, o)")
         NODE("j", "Unsqueeze(i, zz)") NODE("y", "Gather(v, j)") OUT("y"),
     "Gather=0 Range=0 Reshape=1"},
    {"counted from one",
     GRAPH
     "input v: f32[sequence,2]\nconst z: i64[] = [-1]\nconst o: i64[] = [1]\nconst zz: i64[1] = [0]\n" NODE(
         "n1", "Shape(v) {end=1}") NODE("n2", "Squeeze(n1, zz)") NODE("n", "Sub(n2, o)")
         NODE("i", "Range(z, n, o)") NODE("y", "Gather(v, i)") OUT("y"),
     "Gather=1"},
    {"counted in columns",
     GRAPH "input v: f32[batch,sequence]\nconst z: i64[] = [0]\nconst o: i64[] = [1]\nconst zz: i64[1] = "
           "[0]\nconst oo: i64[1] = [1]\nconst all: i64[1] = [-1]\n" NODE("b1", "Shape(v) {end=1}")
               NODE("b", "Squeeze(b1, zz)") NODE("s1", "Shape(v) {start=1}") NODE("s", "Squeeze(s1, zz)")
                   NODE("flat", "Reshape(v, all)") NODE("i", "Range(z, b, o)") NODE("is", "Mul(i, s)")
                       NODE("j", "Range(z, s, o)") NODE("ju", "Unsqueeze(j, oo)") NODE("k", "Add(is, ju)")
                           NODE("y", "Gather(flat, k)") OUT("y"),
     "Gather=1"},
    {"own grid", GRAPH SQUARE NODE("t", "Concat(a, b) {axis=-1}") NODE("y", "GatherND(v, t)") OUT("y"),
     "GatherND=0 Concat=0"},
    {"transposed grid", GRAPH SQUARE NODE("t", "Concat(b, a) {axis=-1}") NODE("y", "GatherND(v, t)") OUT("y"),
     "GatherND=1"},
    {"diagonal", GRAPH SQUARE NODE("t", "Concat(a, a) {axis=-1}") NODE("y", "GatherND(v, t)") OUT("y"),
     "GatherND=1"},
    {"always true",
     GRAPH SQUARE NODE("g", "GreaterOrEqual(iu, z)") NODE("n", "Neg(v)") NODE("y", "Where(g, v, n)") OUT("y"),
     "Range=0 GreaterOrEqual=0"},
    {"not always true",
     GRAPH SQUARE NODE("g", "GreaterOrEqual(iu, o)") NODE("n", "Neg(v)") NODE("y", "Where(g, v, n)") OUT("y"),
     "GreaterOrEqual=1"},
};

/* ------------------------------------------------------------------ Interact */

#define VECTORS                                                                                              \
    "input a: f32[batch,4]\ninput b: f32[batch,4]\ninput c: f32[batch,4]\n"                                  \
    "const stack: i64[3] = [-1,3,4]\nconst flat: i64[2] = [-1,9]\nconst nine: i64[2] = [9,-1]\n"             \
    "const low: i64[3] = [3,6,7]\nconst nd: i64[3,2] = [1,0, 2,0, 2,1]\nconst one: i64[1] = [1]\n"
#define DOTS                                                                                                 \
    NODE("t0", "Concat(a, b, c) {axis=1}")                                                                   \
    NODE("t", "Reshape(t0, stack)") NODE("tt", "Transpose(t) {perm=[0,2,1]}") NODE("z", "MatMul(t, tt)")
#define LAST NODE("zl", "Transpose(z) {perm=[1,2,0]}")

static const small crossings[] = {
    {"flattened",
     GRAPH VECTORS DOTS NODE("f", "Reshape(z, flat)") NODE("y", "Gather(f, low) {axis=1}") OUT("y"),
     "Interact=1 MatMul=0 Concat=0 Gather=0"},
    {"batch last, flattened",
     GRAPH VECTORS DOTS LAST NODE("f", "Reshape(zl, nine)") NODE("g", "Gather(f, low)")
         NODE("y", "Transpose(g) {perm=[1,0]}") OUT("y"),
     "Interact=1 MatMul=0 Transpose=0"},
    {"batch last, pairs",
     GRAPH VECTORS DOTS LAST NODE("g", "GatherND(zl, nd)") NODE("y", "Transpose(g) {perm=[1,0]}") OUT("y"),
     "Interact=1 MatMul=0 GatherND=0"},
    {"the vectors turned: i and j are alike",
     GRAPH VECTORS DOTS NODE("zl", "Transpose(z) {perm=[2,1,0]}") NODE("g", "GatherND(zl, nd)")
         NODE("y", "Transpose(g) {perm=[1,0]}") OUT("y"),
     "Interact=1 MatMul=0"},
    {"stacked",
     GRAPH VECTORS NODE("a1", "Unsqueeze(a, one)") NODE("b1", "Unsqueeze(b, one)")
         NODE("c1", "Unsqueeze(c, one)") NODE("t", "Concat(a1, b1, c1) {axis=1}")
             NODE("tt", "Transpose(t) {perm=[0,2,1]}") NODE("z", "MatMul(t, tt)")
                 NODE("f", "Reshape(z, flat)") NODE("y", "Gather(f, low) {axis=1}") OUT("y"),
     "Interact=1 MatMul=0 Unsqueeze=0"},
    {"kept in front",
     GRAPH VECTORS DOTS NODE("f", "Reshape(z, flat)") NODE("g", "Gather(f, low) {axis=1}")
         NODE("y", "Concat(b, g) {axis=1}") OUT("y"),
     "Interact=1 Concat=0"},
    {"kept behind: stays a Concat",
     GRAPH VECTORS DOTS NODE("f", "Reshape(z, flat)") NODE("g", "Gather(f, low) {axis=1}")
         NODE("y", "Concat(g, b) {axis=1}") OUT("y"),
     "Interact=1 Concat=1"},
    {"the dots are wanted twice: stays a Concat",
     GRAPH VECTORS DOTS NODE("f", "Reshape(z, flat)") NODE("g", "Gather(f, low) {axis=1}")
         NODE("y", "Concat(a, g) {axis=1}") NODE("n", "Neg(g)") OUT("y") OUT("n"),
     "Interact=1 Concat=1"},
    {"indices from the end, a pair twice, the diagonal",
     GRAPH VECTORS "const odd: i64[5] = [-2,7,0,8,4]\n" DOTS NODE("f", "Reshape(z, flat)")
         NODE("y", "Gather(f, odd) {axis=1}") OUT("y"),
     "Interact=1"},
    {"the product is wanted too",
     GRAPH VECTORS DOTS NODE("f", "Reshape(z, flat)") NODE("y", "Gather(f, low) {axis=1}") OUT("y") OUT("z"),
     "Interact=1 Einsum=1 MatMul=0"},
    {"with another stack",
     GRAPH VECTORS NODE("t0", "Concat(a, b, c) {axis=1}") NODE("s0", "Concat(b, a, c) {axis=1}")
         NODE("t", "Reshape(t0, stack)") NODE("s", "Reshape(s0, stack)")
             NODE("tt", "Transpose(s) {perm=[0,2,1]}") NODE("z", "MatMul(t, tt)")
                 NODE("f", "Reshape(z, flat)") NODE("y", "Gather(f, low) {axis=1}") OUT("y"),
     "Interact=0 Einsum=1 MatMul=0"},
    {"stacked the other way: features are not together",
     GRAPH VECTORS "const four: i64[3] = [-1,4,3]\n" NODE("t0", "Concat(a, b, c) {axis=1}")
         NODE("t1", "Reshape(t0, four)") NODE("t", "Transpose(t1) {perm=[0,2,1]}") NODE("z", "MatMul(t, t1)")
             NODE("f", "Reshape(z, flat)") NODE("y", "Gather(f, low) {axis=1}") OUT("y"),
     "Interact=0 Einsum=1 MatMul=0"},
    {"the product flattened across items",
     GRAPH VECTORS "const mixed: i64[2] = [9,-1]\n" DOTS NODE("f", "Reshape(z, mixed)")
         NODE("y", "Gather(f, low)") OUT("y"),
     "Interact=0 Einsum=1 MatMul=0"},
    {"one row of the product",
     GRAPH VECTORS "const row: i64[1] = [1]\n" DOTS NODE("y", "Gather(z, row) {axis=1}") OUT("y"),
     "Interact=0 Einsum=1 MatMul=0"},
    {"vectors of two lengths",
     GRAPH VECTORS "input d: f32[batch,8]\n" NODE("t0", "Concat(a, d) {axis=1}")
         NODE("t", "Reshape(t0, stack)") NODE("tt", "Transpose(t) {perm=[0,2,1]}") NODE("z", "MatMul(t, tt)")
             NODE("f", "Reshape(z, flat)") NODE("y", "Gather(f, low) {axis=1}") OUT("y") OUT("b") OUT("c"),
     "Interact=0 Einsum=1 MatMul=0"},
};

/* ------------------------------------------------------------------ columns of ids */

#define IDS                                                                                                  \
    "input ids: i64[batch,3]\nconst w: f32[5,8] @\"w\"\nconst v: f32[6,8] @\"v\"\n"                          \
    "const two: i64[] = [2]\nconst last: i64[] = [-1]\nconst row: i64[1] = [1]\n"

static const small columns[] = {
    {"a column", GRAPH IDS NODE("i", "Gather(ids, two) {axis=1}") NODE("y", "Gather(w, i)") OUT("y"),
     "Embed=1 Gather=0"},
    {"from the end", GRAPH IDS NODE("i", "Gather(ids, last) {axis=-1}") NODE("y", "Gather(w, i)") OUT("y"),
     "Embed=1 Gather=0"},
    {"a column of one column",
     GRAPH IDS NODE("i", "Gather(ids, row) {axis=1}") NODE("y", "Gather(w, i)") OUT("y"), "Embed=1 Gather=1"},
    {"a row of ids", GRAPH IDS NODE("i", "Gather(ids, last) {axis=0}") NODE("y", "Gather(w, i)") OUT("y"),
     "Embed=1 Gather=1"},
    {"sums of columns are not put together",
     GRAPH IDS NODE("i", "Gather(ids, two) {axis=1}") NODE("j", "Gather(ids, last) {axis=1}")
         NODE("p", "Gather(w, i)") NODE("q", "Gather(v, j)") NODE("y", "Add(p, q)") OUT("y"),
     "Embed=2 Add=1 Gather=0"},
};

static void interact(void **state)
{
    (void)state;
    run_table(crossings, SP_COUNT(crossings));
    run_table(columns, SP_COUNT(columns));
}
static void rest(void **state)
{
    (void)state;
    run_table(others, SP_COUNT(others));
}

/* Dropout does nothing at inference; a model that asks for training, or may ask, keeps it. */
static void dropout(void **state)
{
    (void)state;
    static const small table[] = {
        {"idle", GRAPH X SCALAR("r", "0.5") NODE("a", "Dropout(x, r)") NODE("y", "Relu(a)") OUT("y"),
         "Dropout=0"},
        {"training",
         GRAPH X SCALAR("r", "0.5") "const t: bool[] = [1]\n" NODE("a", "Dropout(x, r, t)")
             NODE("y", "Relu(a)") OUT("y"),
         "Dropout=1"},
        {"asked at run time",
         GRAPH X "input t: bool[]\n" SCALAR("r", "0.5") NODE("a", "Dropout(x, r, t)") NODE("y", "Relu(a)")
             OUT("y"),
         "Dropout=1"},
    };
    for (size_t i = 0; i < SP_COUNT(table); i++) {
        sp_graph *g;
        ok(sp_graph_parse(cx, table[i].text, fetch, NULL, &g));
        ok(sp_compile_passes(g));
        has(table[i].name, g, table[i].wanted);
        sp_graph_free(g);
    }
}

/* A Transpose that moves nothing in place of the one that puts the batch first: no pass before this one has removed it. */
static void interact_looks_at_the_transpose(void **state)
{
    (void)state;
    static const char *const perm[] = {"{perm=[0,1]}", "", "{perm=[1,0]}"};
    for (int i = 0; i < 3; i++) {
        sp_graph *g[2]; /* as it is, and after the pass */
        char text[1024];
        snprintf(
            text, sizeof text,
            GRAPH VECTORS DOTS LAST NODE("g", "GatherND(zl, nd)") "node y: ? = Transpose(g) %s\n" OUT("y"),
            perm[i]);
        for (int k = 0; k < 2; k++) ok(sp_graph_parse(cx, text, fetch, NULL, &g[k]));
        for (int k = 0; k < 2; k++) ok(sp_ops_infer(g[k]));
        ok(sp_pass_interact(g[1]));
        has(text, g[1], i ? "Interact=1" : "Interact=0");
        same_answer(text, g[0], g[1], (sizes){3, 1}, false); /* 3 items, 3 pairs: shapes do not tell */
        for (int k = 0; k < 2; k++) sp_graph_free(g[k]);
    }
}

/* Long chains of anything must not take the stack, and take time in proportion. */
static void long_chains(void **state)
{
    (void)state;
    static const char *const step[] = {"Identity(%s)", "Transpose(%s) {perm=[1,0]}", "Neg(%s)", "Mul(%s, c)",
                                       "Add(%s, %s)"};
    enum { LENGTH = 5000 };
    for (size_t s = 0; s < SP_COUNT(step); s++) {
        sp_text t;
        sp_graph *g;
        char name[32] = "x", call[96];
        sp_text_init(&t, cx);
        sp_text_printf(&t, "graph \"t\"\ninput x: f32[2,2]\nconst c: f32[] = [0.5]\n");
        for (int i = 0; i < LENGTH; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(call, sizeof call, step[s], name, name);
#pragma GCC diagnostic pop
            snprintf(name, sizeof name, "v%d", i);
            sp_text_printf(&t, "node %s: ? = %s\n", name, call);
        }
        sp_text_printf(&t, "output %s\n", name);
        ok(sp_graph_parse(cx, sp_text_str(&t), fetch, NULL, &g));
        ok(sp_compile_passes(g));
        if (s == 0) assert_int_equal(g->n_nodes, 1);
        sp_graph_free(g);
        sp_text_free(&t);
    }
}

/* One random step of a chain on `rank` dims, as text; the dims change with it. */
static void random_step(sp_text *t, sp_rng *r, int i, int64_t *dim, int *rank)
{
    if (sp_rng_next(r) % 2) {
        int64_t old[SPARTA_RANK], perm[SPARTA_RANK];
        for (int k = 0; k < *rank; k++) {
            int j = (int)(sp_rng_next(r) % (uint64_t)(k + 1));
            perm[k] = perm[j];
            perm[j] = k;
            old[k] = dim[k];
        }
        sp_text_printf(t, "node v%d: ? = Transpose(v%d) {perm=[", i + 1, i);
        for (int k = 0; k < *rank; k++) {
            sp_text_printf(t, "%s%ld", k ? "," : "", (long)perm[k]);
            dim[k] = old[perm[k]];
        }
        sp_text_printf(t, "]}\n");
        return;
    }
    int64_t elements = 1;
    for (int k = 0; k < *rank; k++) elements *= dim[k];
    *rank = 1 + (int)(sp_rng_next(r) % 5);
    for (int k = 0; k < *rank; k++) { /* any divisor; the last dim takes the rest */
        do dim[k] = 1 + (int64_t)(sp_rng_next(r) % (uint64_t)elements);
        while (elements % dim[k]);
        if (k + 1 == *rank) dim[k] = elements;
        elements /= dim[k];
    }
    sp_text_printf(t, "const s%d: i64[%d] = [", i, *rank);
    for (int k = 0; k < *rank; k++) sp_text_printf(t, "%s%ld", k ? "," : "", (long)dim[k]);
    sp_text_printf(t, "]\nnode v%d: ? = Reshape(v%d, s%d)\n", i + 1, i, i);
}

/* Chains of reshapes and transposes come out no longer, often shorter, and mean the same. */
static void random_chains(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(3);
    int written = 0, left = 0;
    for (int i = 0; i < 500; i++) {
        int64_t dim[SPARTA_RANK] = {4, 6, 10};
        int rank = 3, steps = 1 + (int)(sp_rng_next(&r) % 7);
        sp_text t;
        sp_text_init(&t, cx);
        sp_text_printf(&t, "graph \"t\"\ninput v0: f32[4,6,10]\n");
        for (int k = 0; k < steps; k++) random_step(&t, &r, k, dim, &rank);
        sp_text_printf(&t, "node y: ? = Neg(v%d)\noutput y\n", steps);
        sp_graph *plain, *fused;
        ok(sp_graph_parse(cx, sp_text_str(&t), fetch, NULL, &plain));
        ok(sp_graph_parse(cx, sp_text_str(&t), fetch, NULL, &fused));
        ok(sp_ops_infer(plain));
        ok(sp_compile_passes(fused));
        assert_true(fused->n_nodes <= 1 + steps);
        written += steps;
        left += fused->n_nodes - 1;
        same_answer(sp_text_str(&t), plain, fused, (sizes){1, 1}, false);
        sp_graph_free(plain);
        sp_graph_free(fused);
        sp_text_free(&t);
    }
    assert_true(left * 4 < written * 3); /* 1341 of 2050 with this seed: random dims are often cut askew */
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(interact),    TEST(interact_looks_at_the_transpose),
                                       TEST(rest),        TEST(dropout),
                                       TEST(long_chains), TEST(random_chains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
