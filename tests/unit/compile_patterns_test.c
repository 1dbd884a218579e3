/* The patterns of a transformer on small graphs: each in its forms and its near misses (a value somebody else wants, another axis,
 * another constant, an output inside), which must stay as they are. Both ways the answer is compared. */
#include "compile_small.h"

/* ------------------------------------------------------------------ LayerNormalization */

#define NORM_CONSTANTS                                                                                       \
    "const last: i64[1] = [-1]\n" SCALAR("two", "2")                                                         \
        SCALAR("eps", "1e-5") "const gamma: f32[8] @\"gamma\"\nconst beta: f32[8] @\"bet\"\n"
#define NORM_TO_ROOT                                                                                         \
    NODE("mean", "ReduceMean(x, last) {keepdims=1}")                                                         \
    NODE("d", "Sub(x, mean)")                                                                                \
    NODE("sq", "Pow(d, two)")                                                                                \
    NODE("var", "ReduceMean(sq, last)") NODE("ve", "Add(var, eps)") NODE("root", "Sqrt(ve)")

static const small norms[] = {
    {"pieces",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("q", "Div(d, root)") NODE("s", "Mul(q, gamma)")
         NODE("y", "Add(s, beta)") OUT("y"),
     "LayerNormalization=1 Add=0 Mul=0 Sub=0"},
    {"other order",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("q", "Div(d, root)") NODE("s", "Mul(gamma, q)")
         NODE("y", "Add(beta, s)") OUT("y"),
     "LayerNormalization=1 Add=0 Mul=0"},
    {"reciprocal, d * d",
     GRAPH X NORM_CONSTANTS NODE("mean", "ReduceMean(x, last)") NODE("d", "Sub(x, mean)")
         NODE("sq", "Mul(d, d)") NODE("var", "ReduceMean(sq, last)") NODE("ve", "Add(eps, var)")
             NODE("root", "Sqrt(ve)") NODE("r", "Reciprocal(root)") NODE("q", "Mul(d, r)")
                 NODE("s", "Mul(q, gamma)") NODE("y", "Add(s, beta)") OUT("y"),
     "LayerNormalization=1 Reciprocal=0 Mul=0"},
    {"no beta",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("q", "Div(d, root)") NODE("y", "Mul(q, gamma)") OUT("y"),
     "LayerNormalization=1 Mul=0"},
    {"subtracted twice",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("mean2", "ReduceMean(x, last) {keepdims=1}")
         NODE("d2", "Sub(x, mean2)") NODE("q", "Div(d2, root)") NODE("s", "Mul(q, gamma)")
             NODE("y", "Add(s, beta)") OUT("y"),
     "LayerNormalization=1"},
    {"neither gain nor bias", GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("y", "Div(d, root)") OUT("y"),
     "LayerNormalization=1 Sub=0"},
    {"a gain for each of two",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("q", "Div(d, root)") NODE("y", "Mul(q, gamma)")
         NODE("z", "Mul(q, beta)") OUT("y") OUT("z"),
     "LayerNormalization=1 Mul=2"},
    {"two gains",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("q", "Div(d, root)") NODE("s", "Mul(q, gamma)")
         NODE("y", "Mul(s, beta)") OUT("y"),
     "LayerNormalization=1 Mul=1"},
    {"variance wanted",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("q", "Div(d, root)") NODE("s", "Mul(q, gamma)")
         NODE("y", "Add(s, beta)") OUT("y") OUT("var"),
     "LayerNormalization=0"},
    {"difference wanted",
     GRAPH X NORM_CONSTANTS NORM_TO_ROOT NODE("q", "Div(d, root)") NODE("s", "Mul(q, gamma)")
         NODE("y", "Add(s, beta)") NODE("z", "Relu(d)") OUT("y") OUT("z"),
     "LayerNormalization=0 RMSNormalization=1 Sub=1 Add=1"},
    {"another axis",
     GRAPH X "const first: i64[1] = [1]\n" NORM_CONSTANTS NODE("mean", "ReduceMean(x, first)")
         NODE("d", "Sub(x, mean)") NODE("sq", "Pow(d, two)") NODE("var", "ReduceMean(sq, first)")
             NODE("ve", "Add(var, eps)") NODE("root", "Sqrt(ve)") NODE("q", "Div(d, root)")
                 NODE("s", "Mul(q, gamma)") NODE("y", "Add(s, beta)") OUT("y"),
     "LayerNormalization=0"},
    {"cube",
     GRAPH X SCALAR("three", "4") NORM_CONSTANTS NODE("mean", "ReduceMean(x, last)") NODE("d", "Sub(x, mean)")
         NODE("sq", "Pow(d, three)") NODE("var", "ReduceMean(sq, last)") NODE("ve", "Add(var, eps)")
             NODE("root", "Sqrt(ve)") NODE("q", "Div(d, root)") NODE("y", "Mul(q, gamma)") OUT("y"),
     "LayerNormalization=0"},
    {"square of something else",
     GRAPH X NORM_CONSTANTS NODE("mean", "ReduceMean(x, last)") NODE("d", "Sub(x, mean)")
         NODE("sq", "Mul(d, x)") NODE("a", "Abs(sq)") NODE("var", "ReduceMean(a, last)")
             NODE("ve", "Add(var, eps)") NODE("root", "Sqrt(ve)") NODE("q", "Div(d, root)")
                 NODE("y", "Mul(q, gamma)") OUT("y"),
     "LayerNormalization=0"},
    {"mean of something else",
     GRAPH X NORM_CONSTANTS NODE("x2", "Abs(x)") NODE("mean", "ReduceMean(x2, last)")
         NODE("d", "Sub(x, mean)") NODE("sq", "Mul(d, d)") NODE("var", "ReduceMean(sq, last)")
             NODE("ve", "Add(var, eps)") NODE("root", "Sqrt(ve)") NODE("q", "Div(d, root)")
                 NODE("y", "Mul(q, gamma)") OUT("y"),
     "LayerNormalization=0 RMSNormalization=1 Sub=1"},
};

/* ------------------------------------------------------------------ RMSNormalization */

#define RMS_TO_ROOT                                                                                          \
    NODE("sq", "Pow(x, two)")                                                                                \
    NODE("var", "ReduceMean(sq, last)") NODE("ve", "Add(var, eps)") NODE("root", "Sqrt(ve)")

static const small rms[] = {
    {"Llama by script",
     GRAPH X NORM_CONSTANTS SCALAR("one", "1") RMS_TO_ROOT NODE("r", "Div(one, root)") NODE("q", "Mul(x, r)")
         NODE("y", "Mul(gamma, q)") OUT("y"),
     "RMSNormalization=1 Mul=0 Div=0 LayerNormalization=0"},
    {"Llama by dynamo",
     GRAPH X NORM_CONSTANTS RMS_TO_ROOT NODE("r", "Reciprocal(root)") NODE("q", "Mul(x, r)")
         NODE("y", "Mul(q, gamma)") OUT("y"),
     "RMSNormalization=1 Mul=0 Reciprocal=0"},
    {"x * x, a power",
     GRAPH X NORM_CONSTANTS SCALAR("minus", "-0.5") NODE("sq", "Mul(x, x)")
         NODE("var", "ReduceMean(sq, last)") NODE("ve", "Add(eps, var)") NODE("r", "Pow(ve, minus)")
             NODE("q", "Mul(r, x)") NODE("y", "Mul(q, gamma)") OUT("y"),
     "RMSNormalization=1 Mul=0 Pow=0"},
    {"Gemma: 1 + w",
     GRAPH X NORM_CONSTANTS SCALAR("one", "1") RMS_TO_ROOT NODE("q", "Div(x, root)")
         NODE("g", "Add(gamma, one)") NODE("y", "Mul(q, g)") OUT("y"),
     "RMSNormalization=1 Mul=0 Div=0 Add=0"},
    {"no gain, and x goes on",
     GRAPH X NORM_CONSTANTS RMS_TO_ROOT NODE("q", "Div(x, root)") NODE("y", "Add(x, q)") OUT("y"),
     "RMSNormalization=1 Add=1"},
    {"a bias is no part of it",
     GRAPH X NORM_CONSTANTS RMS_TO_ROOT NODE("q", "Div(x, root)") NODE("s", "Mul(q, gamma)")
         NODE("y", "Add(s, beta)") OUT("y"),
     "RMSNormalization=1 Add=1"},
    {"eps outside of the root",
     GRAPH X NORM_CONSTANTS NODE("sq", "Pow(x, two)") NODE("var", "ReduceMean(sq, last)")
         NODE("root", "Sqrt(var)") NODE("re", "Add(root, eps)") NODE("q", "Div(x, re)")
             NODE("y", "Mul(q, gamma)") OUT("y"),
     "RMSNormalization=0 Div=1"},
    {"eps before the mean",
     GRAPH X NORM_CONSTANTS NODE("sq", "Pow(x, two)") NODE("se", "Add(sq, eps)")
         NODE("var", "ReduceMean(se, last)") NODE("root", "Sqrt(var)") NODE("q", "Div(x, root)")
             NODE("y", "Mul(q, gamma)") OUT("y"),
     "RMSNormalization=0 Div=1"},
    {"a sum, no mean",
     GRAPH X NORM_CONSTANTS NODE("sq", "Pow(x, two)") NODE("var", "ReduceSum(sq, last)")
         NODE("ve", "Add(var, eps)") NODE("root", "Sqrt(ve)") NODE("q", "Div(x, root)")
             NODE("y", "Mul(q, gamma)") OUT("y"),
     "RMSNormalization=0 Div=1"},
    {"another x",
     GRAPH X NORM_CONSTANTS NODE("z", "Relu(x)") RMS_TO_ROOT NODE("q", "Div(z, root)")
         NODE("y", "Mul(q, gamma)") OUT("y"),
     "RMSNormalization=0 Div=1"},
    {"a factor for each token",
     GRAPH X "input f: f32[batch,sequence,1]\n" NORM_CONSTANTS RMS_TO_ROOT NODE("q", "Div(x, root)")
         NODE("y", "Mul(q, f)") OUT("y"),
     "RMSNormalization=1 Mul=1"},
    {"root wanted",
     GRAPH X NORM_CONSTANTS RMS_TO_ROOT NODE("q", "Div(x, root)") NODE("y", "Mul(q, gamma)") OUT("y")
         OUT("root"),
     "RMSNormalization=0"},
};

/* ------------------------------------------------------------------ RotaryEmbedding */

#define ROTARY_CONSTANTS                                                                                     \
    "const w: f32[8,8] @\"weight\"\nconst places: i64[1,1] = [1]\nconst freq: f32[2] = [1,0.25]\n"           \
    "const heads: i64[4] = [0,0,2,4]\nconst flat: i64[3] = [0,0,8]\nconst zero: i64[1] = [0]\n"              \
    "const one: i64[1] = [1]\nconst two: i64[1] = [2]\nconst last: i64[1] = [3]\nconst end: i64[1] = "       \
    "[9223372036854775807]\ninput angle: f32[batch,sequence,2]\n"
#define ROTARY_X                                                                                             \
    NODE("p", "MatMul(x, w)") NODE("v", "Reshape(p, heads)") NODE("t", "Transpose(v) {perm=[0,2,1,3]}")
#define ROTARY_TABLES(f, g)                                                                                  \
    NODE("ff", "Concat(angle, angle) {axis=-1}")                                                             \
    NODE("c", f "(ff)")                                                                                      \
    NODE("s", g "(ff)")                                                                                      \
    NODE("cos", "Unsqueeze(c, one)")                                                                         \
    NODE("sin", "Unsqueeze(s, one)")
#define ROTARY_HALVES                                                                                        \
    NODE("a", "Slice(t, zero, two, last, one)")                                                              \
    NODE("b", "Slice(t, two, end, last, one)")                                                               \
    NODE("n", "Neg(b)")
#define ROTARY_SUM NODE("u", "Mul(t, cos)") NODE("z", "Mul(h, sin)") NODE("r", "Add(u, z)")
#define ROTARY_OUT NODE("back", "Transpose(r) {perm=[0,2,1,3]}") NODE("y", "Reshape(back, flat)") OUT("y")
/* of two tokens, the first line of cos given */
#define KNOWN_ROTARY(line)                                                                                   \
    GRAPH "input x: f32[batch,2,8]\n" ROTARY_CONSTANTS ROTARY_X "const cos: f32[1,1,2,4] = [" line           \
          ",0.1,0.2,0.1,0.2]\nconst cos2: f32[1,1,2,4] = [" line ",0.1,0.2,0.1,0.2]\n"                       \
          "const sin: f32[1,1,2,4] = [0,0.25,0,0.25,-1,0.75,-1,0.75]\n" ROTARY_HALVES NODE(                  \
              "h", "Concat(n, a) {axis=-1}") ROTARY_SUM

static const small rotaries[] = {
    {"pieces",
     GRAPH X ROTARY_CONSTANTS ROTARY_X ROTARY_TABLES("Cos", "Sin")
         ROTARY_HALVES NODE("h", "Concat(n, a) {axis=-1}") ROTARY_SUM ROTARY_OUT,
     "RotaryEmbedding=1 Linear=1 Neg=0 Slice=0 Concat=0 Transpose=0 Reshape=0 Cos=1 Sin=1 Expand=0"},
    {"twice, other orders: the tables are made once",
     GRAPH X ROTARY_CONSTANTS ROTARY_X ROTARY_TABLES("Cos", "Sin")
         ROTARY_HALVES NODE("h", "Concat(n, a) {axis=-1}") NODE("u", "Mul(cos, t)") NODE("z", "Mul(sin, h)")
             NODE("r", "Add(z, u)") ROTARY_OUT NODE("t2", "Tanh(t)")
                 NODE("a2", "Slice(t2, zero, two, last, one)") NODE("b2", "Slice(t2, two, end, last, one)")
                     NODE("n2", "Neg(b2)") NODE("h2", "Concat(n2, a2) {axis=-1}") NODE("u2", "Mul(t2, cos)")
                         NODE("z2", "Mul(h2, sin)") NODE("r2", "Add(u2, z2)") OUT("r2"),
     "RotaryEmbedding=2 Neg=0 Slice=0 Cos=1 Sin=1"},
    {"cos and sin swapped",
     GRAPH X ROTARY_CONSTANTS ROTARY_X ROTARY_TABLES("Sin", "Cos")
         ROTARY_HALVES NODE("h", "Concat(n, a) {axis=-1}") ROTARY_SUM ROTARY_OUT,
     "RotaryEmbedding=0 Neg=1"},
    {"halves not swapped",
     GRAPH X ROTARY_CONSTANTS ROTARY_X ROTARY_TABLES("Cos", "Sin")
         ROTARY_HALVES NODE("h", "Concat(a, n) {axis=-1}") ROTARY_SUM ROTARY_OUT,
     "RotaryEmbedding=0 Neg=1"},
    {"the other half is negative",
     GRAPH X ROTARY_CONSTANTS ROTARY_X ROTARY_TABLES("Cos", "Sin") NODE("a", "Slice(t, zero, two, last, one)")
         NODE("b", "Slice(t, two, end, last, one)") NODE("n", "Neg(a)") NODE("h", "Concat(b, n) {axis=-1}")
             ROTARY_SUM ROTARY_OUT,
     "RotaryEmbedding=0 Neg=1"},
    {"halves of unequal angles",
     GRAPH X ROTARY_CONSTANTS ROTARY_X NODE("twice", "Add(angle, angle)")
         NODE("ff", "Concat(angle, twice) {axis=-1}") NODE("c", "Cos(ff)") NODE("s", "Sin(ff)")
             NODE("cos", "Unsqueeze(c, one)") NODE("sin", "Unsqueeze(s, one)")
                 ROTARY_HALVES NODE("h", "Concat(n, a) {axis=-1}") ROTARY_SUM ROTARY_OUT,
     "RotaryEmbedding=0 Neg=1"},
    {"tables that are known", KNOWN_ROTARY("1,0.5,1,0.5") ROTARY_OUT,
     "RotaryEmbedding=1 Neg=0 Slice=0 Transpose=0 Expand=2"},
    {"tables that are known, twice",
     KNOWN_ROTARY("1,0.5,1,0.5") ROTARY_OUT NODE("t2", "Tanh(t)")
         NODE("a2", "Slice(t2, zero, two, last, one)") NODE("b2", "Slice(t2, two, end, last, one)")
             NODE("n2", "Neg(b2)") NODE("h2", "Concat(n2, a2) {axis=-1}") NODE("u2", "Mul(t2, cos2)")
                 NODE("z2", "Mul(h2, sin)") NODE("r2", "Add(u2, z2)") OUT("r2"),
     "RotaryEmbedding=2 Neg=0 Slice=0 Expand=2"},
    {"known, halves that differ", KNOWN_ROTARY("1,0.5,1,0.25") ROTARY_OUT, "RotaryEmbedding=0 Neg=1"},
    {"turned wanted",
     GRAPH X ROTARY_CONSTANTS ROTARY_X ROTARY_TABLES("Cos", "Sin")
         ROTARY_HALVES NODE("h", "Concat(n, a) {axis=-1}") ROTARY_SUM ROTARY_OUT OUT("h"),
     "RotaryEmbedding=0 Neg=1"},
};

/* ------------------------------------------------------------------ Swish, and gates */

#define GATE                                                                                                 \
    "const wg: f32[8,12] @\"weight\"\nconst wu: f32[8,12] @\"bias\"\n" SCALAR("k", "1.702")                  \
        NODE("g", "MatMul(x, wg)") NODE("u", "MatMul(x, wu)")

static const small gates[] = {
    {"silu", GRAPH X NODE("s", "Sigmoid(x)") NODE("y", "Mul(x, s)") OUT("y"), "Swish=1 Sigmoid=0 Mul=0"},
    {"quick GELU",
     GRAPH X SCALAR("k", "1.702") NODE("a", "Mul(k, x)") NODE("s", "Sigmoid(a)") NODE("y", "Mul(s, x)")
         OUT("y"),
     "Swish=1 Sigmoid=0 Mul=0"},
    {"a shifted sigmoid",
     GRAPH X SCALAR("k", "1.702") NODE("a", "Add(k, x)") NODE("s", "Sigmoid(a)") NODE("y", "Mul(s, x)")
         OUT("y"),
     "Swish=0 Sigmoid=1 Mul=1"},
    {"of something else",
     GRAPH X NODE("z", "Neg(x)") NODE("s", "Sigmoid(z)") NODE("w", "Abs(x)") NODE("y", "Mul(s, w)") OUT("y"),
     "Swish=0 Sigmoid=1 Mul=1"},
    {"sigmoid wanted", GRAPH X NODE("s", "Sigmoid(x)") NODE("y", "Mul(x, s)") OUT("y") OUT("s"),
     "Swish=0 Sigmoid=1 Mul=1"},
    {"SwiGLU", GRAPH X GATE NODE("s", "Sigmoid(g)") NODE("a", "Mul(g, s)") NODE("y", "Mul(a, u)") OUT("y"),
     "Linear=2 Swish=0 Sigmoid=0 Mul=0"},
    {"GeGLU, the other way round", GRAPH X GATE NODE("a", "Gelu(g)") NODE("y", "Mul(u, a)") OUT("y"),
     "Linear=2 Gelu=0 Mul=0"},
    {"a gate that is read again",
     GRAPH X GATE NODE("a", "Gelu(g)") NODE("y", "Mul(a, u)") OUT("y") OUT("a") OUT("u"),
     "Linear=2 Gelu=0 Mul=1"},
    {"a factor for each token",
     GRAPH X "input f: f32[batch,sequence,1]\n" GATE NODE("y", "Mul(g, f)") NODE("z", "Relu(u)") OUT("y")
         OUT("z"),
     "Linear=2 Mul=1"},
};

/* ------------------------------------------------------------------ Gelu */

#define GELU_CONSTANTS                                                                                       \
    SCALAR("half", "0.5")                                                                                    \
    SCALAR("one", "1")                                                                                       \
    SCALAR("root2", "1.41421354")                                                                            \
    SCALAR("iroot2", "0.707106769")                                                                          \
    SCALAR("c0", "0.797884583") SCALAR("c1", "0.0447149985") SCALAR("three", "3")

static const small gelus[] = {
    {"half last",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(x, root2)") NODE("e", "Erf(d)") NODE("a", "Add(e, one)")
         NODE("p", "Mul(x, a)") NODE("y", "Mul(p, half)") OUT("y"),
     "Gelu=1 Erf=0 Mul=0"},
    {"half first",
     GRAPH X GELU_CONSTANTS NODE("h", "Mul(half, x)") NODE("d", "Mul(iroot2, x)") NODE("e", "Erf(d)")
         NODE("a", "Add(one, e)") NODE("y", "Mul(h, a)") OUT("y"),
     "Gelu=1 Erf=0 Mul=0"},
    {"half inside",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(x, root2)") NODE("e", "Erf(d)") NODE("a", "Add(e, one)")
         NODE("h", "Mul(a, half)") NODE("y", "Mul(x, h)") OUT("y"),
     "Gelu=1 Erf=0 Mul=0"},
    {"tanh, cube as a power",
     GRAPH X GELU_CONSTANTS NODE("p", "Pow(x, three)") NODE("q", "Mul(c1, p)") NODE("s", "Add(x, q)")
         NODE("u", "Mul(s, c0)") NODE("t", "Tanh(u)") NODE("a", "Add(t, one)") NODE("h", "Mul(half, x)")
             NODE("y", "Mul(h, a)") OUT("y"),
     "Gelu=1 Tanh=0 Mul=0 Pow=0"},
    {"tanh, x factored out",
     GRAPH X GELU_CONSTANTS NODE("p", "Mul(x, x)") NODE("q", "Mul(c1, p)") NODE("s", "Add(one, q)")
         NODE("v", "Mul(x, s)") NODE("u", "Mul(v, c0)") NODE("t", "Tanh(u)") NODE("a", "Add(t, one)")
             NODE("h", "Mul(half, x)") NODE("y", "Mul(h, a)") OUT("y"),
     "Gelu=1 Tanh=0 Mul=0"},
    {"no half",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(x, root2)") NODE("e", "Erf(d)") NODE("a", "Add(e, one)")
         NODE("y", "Mul(x, a)") OUT("y"),
     "Gelu=0 Erf=1"},
    {"not root 2",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(x, three)") NODE("e", "Erf(d)") NODE("a", "Add(e, one)")
         NODE("p", "Mul(x, a)") NODE("y", "Mul(p, half)") OUT("y"),
     "Gelu=0 Erf=1"},
    {"not one",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(x, root2)") NODE("e", "Erf(d)") NODE("a", "Add(e, three)")
         NODE("p", "Mul(x, a)") NODE("y", "Mul(p, half)") OUT("y"),
     "Gelu=0 Erf=1"},
    {"another x",
     GRAPH X GELU_CONSTANTS NODE("z", "Neg(x)") NODE("d", "Div(x, root2)") NODE("e", "Erf(d)")
         NODE("a", "Add(e, one)") NODE("p", "Mul(z, a)") NODE("y", "Mul(p, half)") OUT("y"),
     "Gelu=0 Erf=1"},
    {"erf wanted",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(x, root2)") NODE("e", "Erf(d)") NODE("a", "Add(e, one)")
         NODE("p", "Mul(x, a)") NODE("y", "Mul(p, half)") OUT("y") OUT("e"),
     "Gelu=0 Erf=1"},
    {"product used twice",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(x, root2)") NODE("e", "Erf(d)") NODE("a", "Add(e, one)")
         NODE("p", "Mul(x, a)") NODE("y", "Mul(p, half)") NODE("z", "Exp(p)") OUT("y") OUT("z"),
     "Gelu=0 Erf=1"},
    {"divided the other way",
     GRAPH X GELU_CONSTANTS NODE("d", "Div(root2, x)") NODE("e", "Erf(d)") NODE("a", "Add(e, one)")
         NODE("p", "Mul(x, a)") NODE("y", "Mul(p, half)") OUT("y"),
     "Gelu=0 Erf=1"},
    {"wrong cubic",
     GRAPH X GELU_CONSTANTS NODE("p", "Pow(x, three)") NODE("q", "Mul(half, p)") NODE("s", "Add(x, q)")
         NODE("u", "Mul(s, c0)") NODE("t", "Tanh(u)") NODE("a", "Add(t, one)") NODE("h", "Mul(half, x)")
             NODE("y", "Mul(h, a)") OUT("y"),
     "Gelu=0 Tanh=1"},
};

/* ------------------------------------------------------------------ Linear and its epilogue */

static const small linears[] = {
    {"product and bias", GRAPH X WB NODE("p", "MatMul(x, w)") NODE("y", "Add(p, b)") OUT("y"),
     "Linear=1 Add=0 MatMul=0"},
    {"bias first", GRAPH X WB NODE("p", "MatMul(x, w)") NODE("y", "Add(b, p)") OUT("y"), "Linear=1 Add=0"},
    {"product wanted", GRAPH X WB NODE("p", "MatMul(x, w)") NODE("y", "Add(p, b)") OUT("y") OUT("p"),
     "Linear=1 Add=1"},
    {"product used twice",
     GRAPH X WB NODE("p", "MatMul(x, w)") NODE("y", "Add(p, b)") NODE("z", "Exp(p)") OUT("y") OUT("z"),
     "Linear=1 Add=1"},
    {"two biases are one",
     GRAPH X WB "const c: f32[12] @\"c\"\n" NODE("p", "MatMul(x, w)") NODE("q", "Add(p, b)")
         NODE("y", "Add(q, c)") OUT("y"),
     "Linear=1 Add=0"},
    {"bias per row",
     GRAPH "input x: f32[12,8]\n" WB "const c: f32[12,1] @\"c\"\n" NODE("p", "MatMul(x, w)")
         NODE("y", "Add(p, c)") OUT("y"),
     "Linear=1 Add=1"},
    {"one output, bias of twelve",
     GRAPH X WB "const v: f32[8,1] @\"v\"\n" NODE("p", "MatMul(x, v)") NODE("y", "Add(p, b)") OUT("y"),
     "Linear=1 Add=1"},
    {"weight on the left", GRAPH "input x: f32[batch,12,4]\n" WB NODE("y", "MatMul(w, x)") OUT("y"),
     "Linear=0 MatMul=1"},
    {"weight of rank 3", GRAPH X "const w: f32[1,8,4] @\"w\"\n" NODE("y", "MatMul(x, w)") OUT("y"),
     "Linear=0 MatMul=1"},
    {"vector times matrix", GRAPH "input x: f32[8]\n" WB NODE("y", "MatMul(x, w)") OUT("y"),
     "Linear=0 MatMul=1"},
    {"f64", GRAPH "input x: f64[batch,2]\nconst w: f64[2,2] = [1,2,3,4]\n" NODE("y", "MatMul(x, w)") OUT("y"),
     "Linear=0 MatMul=1"},
    {"gemm", GRAPH "input x: f32[batch,8]\n" WB NODE("y", "Gemm(x, w, b)") OUT("y"), "Linear=1 Gemm=0"},
    {"gemm transposed",
     GRAPH "input x: f32[batch,12]\n" WB "const c: f32[8] @\"c\"\n" NODE("y", "Gemm(x, w, c) {transB=1}")
         OUT("y"),
     "Linear=1 Gemm=0"},
    {"gemm scaled",
     GRAPH "input x: f32[batch,8]\n" WB NODE("y", "Gemm(x, w, b) {alpha=0.5, beta=3.0}") OUT("y"),
     "Linear=1 Gemm=0"},
    {"gemm of columns", GRAPH "input x: f32[8,batch]\n" WB NODE("y", "Gemm(x, w, b) {transA=1}") OUT("y"),
     "Linear=0 Gemm=1"},
    {"gemm with a matrix",
     GRAPH "input x: f32[3,8]\n" WB "const c: f32[3,12] @\"c\"\n" NODE("y", "Gemm(x, w, c)") OUT("y"),
     "Linear=0 Gemm=1"},
    {"relu", GRAPH X WB NODE("p", "MatMul(x, w)") NODE("q", "Add(p, b)") NODE("y", "Relu(q)") OUT("y"),
     "Linear=1 Relu=0"},
    {"sum wanted before relu",
     GRAPH X WB NODE("p", "MatMul(x, w)") NODE("q", "Add(p, b)") NODE("y", "Relu(q)") OUT("y") OUT("q"),
     "Linear=1 Relu=1"},
    {"two activations",
     GRAPH X WB NODE("p", "MatMul(x, w)") NODE("q", "Tanh(p)") NODE("y", "Sigmoid(q)") OUT("y"),
     "Linear=1 Tanh=0 Sigmoid=0"},
    {"bias after activation",
     GRAPH X WB NODE("p", "MatMul(x, w)") NODE("q", "Tanh(p)") NODE("y", "Add(q, b)") OUT("y"),
     "Linear=1 Tanh=0 Add=1"},
    {"residual",
     GRAPH X "const v: f32[8,8] @\"v\"\n" NODE("p", "MatMul(x, v)") NODE("y", "Add(x, p)") OUT("y"),
     "Linear=1 Add=0"},
    {"residual, then activation",
     GRAPH X "const v: f32[8,8] @\"v\"\n" NODE("p", "MatMul(x, v)") NODE("q", "Add(x, p)")
         NODE("y", "Relu(q)") OUT("y"),
     "Linear=1 Add=0 Relu=0"},
    {"activation, then residual",
     GRAPH X "const v: f32[8,8] @\"v\"\n" NODE("p", "MatMul(x, v)") NODE("q", "Relu(p)")
         NODE("y", "Add(q, x)") OUT("y"),
     "Linear=1 Add=0 Relu=0"},
    {"two residuals",
     GRAPH X "const v: f32[8,8] @\"v\"\n" NODE("p", "MatMul(x, v)") NODE("q", "Add(x, p)")
         NODE("y", "Add(q, x)") OUT("y"),
     "Linear=1 Add=1"},
    {"residual that broadcasts",
     GRAPH X "input z: f32[1,1,8]\nconst v: f32[8,8] @\"v\"\n" NODE("p", "MatMul(x, v)")
         NODE("y", "Add(z, p)") OUT("y"),
     "Linear=1 Add=1"},
    {"residual that widens",
     GRAPH "input x: f32[1,1,8]\ninput z: f32[batch,sequence,8]\nconst v: f32[8,8] @\"v\"\n" NODE(
         "p", "MatMul(x, v)") NODE("y", "Add(z, p)") OUT("y"),
     "Linear=1 Add=1"},
    {"sum with itself", GRAPH X WB NODE("p", "MatMul(x, w)") NODE("y", "Add(p, p)") OUT("y"),
     "Linear=1 Add=1"},
};

/* ------------------------------------------------------------------ Attention */

#define HEADS                                                                                                \
    "input q: f32[batch,sequence,8]\ninput k: f32[batch,sequence,8]\ninput v: f32[batch,sequence,8]\n"       \
    "const shape: i64[4] = [0,0,2,4]\nconst flat: i64[3] = [0,0,8]\n" SCALAR("c", "0.5") SCALAR("two", "2")  \
        SCALAR("zero", "0") SCALAR("low", "-inf")                                                            \
            SCALAR("weak", "-5") "input mask: i64[batch,sequence]\nconst axes: i64[2] = [1,2]\n" NODE(       \
                "m4", "Unsqueeze(mask, axes)") NODE("mb", "Cast(m4) {to=9}")                                 \
                NODE("added", "Where(mb, zero, low)") NODE("q4", "Reshape(q, shape)")                        \
                    NODE("qh", "Transpose(q4) {perm=[0,2,1,3]}") NODE("k4", "Reshape(k, shape)")             \
                        NODE("kh", "Transpose(k4) {perm=[0,2,3,1]}") NODE("v4", "Reshape(v, shape)")         \
                            NODE("vh", "Transpose(v4) {perm=[0,2,1,3]}")
#define TAIL                                                                                                 \
    NODE("o", "MatMul(p, vh)")                                                                               \
    NODE("ot", "Transpose(o) {perm=[0,2,1,3]}") NODE("y", "Reshape(ot, flat)") OUT("y")
#define FUSED "Attention=1 MatMul=0 Softmax=0 Transpose=0 Reshape="

static const small attentions[] = {
    {"plain", GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("p", "Softmax(s) {axis=-1}") TAIL, FUSED "0"},
    {"scaled and masked",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("t", "Div(s, two)") NODE("u", "Add(t, added)")
         NODE("p", "Softmax(u) {axis=3}") TAIL,
     FUSED "0"},
    {"mask first",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("t", "Mul(c, s)") NODE("u", "Add(added, t)")
         NODE("p", "Softmax(u) {axis=-1}") TAIL,
     FUSED "0"},
    {"scaled before",
     GRAPH HEADS NODE("qs", "Mul(qh, c)") NODE("ks", "Div(kh, two)") NODE("s", "MatMul(qs, ks)")
         NODE("p", "Softmax(s) {axis=-1}") TAIL,
     FUSED "0"},
    {"guarded",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("u", "Add(s, added)") NODE("p0", "Softmax(u) {axis=-1}")
         NODE("n", "IsNaN(p0)") NODE("p", "Where(n, zero, p0)") TAIL,
     FUSED "0 IsNaN=0"},
    {"keep where",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("u", "Where(mb, s, low)") NODE("p", "Softmax(u) {axis=-1}")
         TAIL,
     FUSED "0"},
    {"hide where",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("nb", "Not(mb)") NODE("u", "Where(nb, low, s)")
         NODE("p", "Softmax(u) {axis=-1}") TAIL,
     FUSED "0"},
    {"keys transposed twice",
     GRAPH HEADS NODE("kk", "Transpose(k4) {perm=[0,2,1,3]}") NODE("kt", "Transpose(kk) {perm=[0,1,3,2]}")
         NODE("s", "MatMul(qh, kt)") NODE("p", "Softmax(s) {axis=-1}") TAIL,
     FUSED "0"},
    {"values of another width",
     GRAPH HEADS "input w: f32[batch,sequence,6]\nconst narrow: i64[4] = [0,0,2,3]\nconst six: i64[3] = "
                 "[0,0,6]\n" NODE("w4", "Reshape(w, narrow)") NODE("wh", "Transpose(w4) {perm=[0,2,1,3]}")
                     NODE("s", "MatMul(qh, kh)") NODE("p", "Softmax(s) {axis=-1}") NODE("o", "MatMul(p, wh)")
                         NODE("ot", "Transpose(o) {perm=[0,2,1,3]}") NODE("y", "Reshape(ot, six)") OUT("y"),
     FUSED "0"},
    {"hidden weakly",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("u", "Where(mb, s, weak)") NODE("p", "Softmax(u) {axis=-1}")
         TAIL,
     "Attention=0 Softmax=1 MatMul=2"},
    {"mask inside of the scale",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("u", "Add(s, added)") NODE("t", "Mul(u, c)")
         NODE("p", "Softmax(t) {axis=-1}") TAIL,
     "Attention=0 Softmax=1 MatMul=2"},
    {"another axis", GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("p", "Softmax(s) {axis=2}") TAIL,
     "Attention=0 Softmax=1 MatMul=2"},
    {"scores wanted", GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("p", "Softmax(s) {axis=-1}") TAIL OUT("s"),
     "Attention=0 Softmax=1 MatMul=2"},
    {"probabilities wanted",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("p", "Softmax(s) {axis=-1}") TAIL OUT("p"),
     "Attention=0 Softmax=1 MatMul=2"},
    {"guard of one",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("u", "Add(s, added)") NODE("p0", "Softmax(u) {axis=-1}")
         NODE("n", "IsNaN(p0)") NODE("p", "Where(n, two, p0)") TAIL,
     "Attention=0 Softmax=1 MatMul=2"},
    {"shared keys",
     GRAPH HEADS "const one: i64[4] = [0,0,1,4]\ninput k1: f32[batch,sequence,4]\n" NODE(
         "r", "Reshape(k1, one)") NODE("rt", "Transpose(r) {perm=[0,2,3,1]}") NODE("s", "MatMul(qh, rt)")
         NODE("p", "Softmax(s) {axis=-1}") TAIL,
     "Attention=0 Softmax=1 MatMul=2"},
    {"result used twice",
     GRAPH HEADS NODE("s", "MatMul(qh, kh)") NODE("p", "Softmax(s) {axis=-1}") TAIL NODE("z", "Relu(o)")
         OUT("z"),
     "Attention=1 Softmax=0"},
};

static void layernorm(void **state)
{
    (void)state;
    run_table(norms, SP_COUNT(norms));
}
static void rms_norm(void **state)
{
    (void)state;
    run_table(rms, SP_COUNT(rms));
}
static void rotary(void **state)
{
    (void)state;
    run_table(rotaries, SP_COUNT(rotaries));
}
static void gate(void **state)
{
    (void)state;
    run_table(gates, SP_COUNT(gates));
}
static void gelu(void **state)
{
    (void)state;
    run_table(gelus, SP_COUNT(gelus));
}
static void linear(void **state)
{
    (void)state;
    run_table(linears, SP_COUNT(linears));
}
static void attention(void **state)
{
    (void)state;
    run_table(attentions, SP_COUNT(attentions));
}

/* ------------------------------------------------------------------ gains and shifts of a Linear */

#define PRODUCT                                                                                              \
    GRAPH X WB "const g: f32[12] @\"gain\"\nconst s: f32[12] @\"shift\"\n" NODE("p0", "MatMul(x, w)")        \
        NODE("p", "Add(p0, b)")

static const small gains[] = {
    {"a gain and a shift", PRODUCT NODE("m", "Mul(p, g)") NODE("y", "Add(s, m)") OUT("y"),
     "Linear=1 Mul=0 Add=0"},
    {"a gain of a product without a bias, a turned weight",
     GRAPH X "const wt: f32[12,8] @\"weight\"\nconst g: f32[12] @\"gain\"\n" NODE(
         "w", "Transpose(wt) {perm=[1,0]}") NODE("p", "MatMul(x, w)") NODE("y", "Mul(g, p)") OUT("y"),
     "Linear=1 Mul=0"},
    {"a residual comes between",
     PRODUCT "input r: f32[batch,sequence,12]\n" NODE("a", "Add(p, r)") NODE("y", "Mul(a, g)") OUT("y"),
     "Linear=1 Mul=1"},
    {"a product that is read elsewhere", PRODUCT NODE("y", "Mul(p, g)") OUT("y") OUT("p"), "Linear=1 Mul=1"},
    {"a gain that is 0 somewhere",
     GRAPH "input x: f32[batch,sequence,2]\nconst w: f32[2,2] @\"weight\"\nconst g: f32[2] = [1.5,0]\n" NODE(
         "p", "MatMul(x, w)") NODE("y", "Mul(p, g)") OUT("y"),
     "Linear=1 Mul=1"},
    {"a gain for each row",
     GRAPH "input x: f32[batch,12,8]\n" WB "const g: f32[12,1] @\"gain\"\n" NODE("p", "MatMul(x, w)")
         NODE("y", "Mul(p, g)") OUT("y"),
     "Linear=1 Mul=1"},
};

static void gains_of_products(void **state)
{
    (void)state;
    run_table(gains, SP_COUNT(gains));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(gains_of_products),
                                       TEST(layernorm),
                                       TEST(rms_norm),
                                       TEST(rotary),
                                       TEST(gate),
                                       TEST(gelu),
                                       TEST(linear),
                                       TEST(attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
