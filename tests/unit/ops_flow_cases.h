/* The nodes that ops_flow_test.c experiments with: {text, how, limit of integers that are inputs, labels that may lose indices}.
 * Symbols are b = 2, s = 6, t = 3. */
#define UNARY(op)                                                                                            \
    {                                                                                                        \
        X34 "node y: ? = " op "(x)" END, FUN, 2, 2                                                           \
    }
#define TWO(type) G "input x: " type "[2,3,4]\ninput z: " type "[3,1]\n"
#define BINARY(op)                                                                                           \
    {                                                                                                        \
        TWO("f32") "node y: ? = " op "(x, z)" END, FUN, 2, 3                                                 \
    }
#define LOGIC(op)                                                                                            \
    {                                                                                                        \
        TWO("bool") "node y: ? = " op "(x, z)" END, FUN, 2, 3                                                \
    }
#define REDUCE(op, how, one, two, all)                                                                       \
    {G "input x: f32[2,3,4]\nconst a: i64[1] = [-2]\nnode y: ? = " op "(x, a)" END, how, 2, one},            \
        {G "input x: f32[2,3,4]\nconst a: i64[2] = [0,2]\nnode y: ? = " op "(x, a) {keepdims=0}" END, how,   \
         2, two},                                                                                            \
        {G "input x: f32[2,3]\nnode y: ? = " op "(x)" END, how, 2, all},                                     \
        {G "input x: f32[2,3]\nnode y: ? = " op "(x) {noop_with_empty_axes=1}" END, how, 2, 2},              \
        {G "input x: f32[]\nnode y: ? = " op "(x)" END, how, 2, 0},                                          \
    {                                                                                                        \
        G "input x: f32[2,0]\nnode y: ? = " op "(x)" END, SP_FLOW_OPAQUE, 2, 0                               \
    }

/* clang-format off */
UNARY("Abs"), UNARY("Sqrt"), UNARY("Reciprocal"), UNARY("Exp"), UNARY("Log"), UNARY("Erf"), UNARY("Tanh"), UNARY("Atan"), UNARY("Sigmoid"),
UNARY("Relu"), UNARY("Gelu"), UNARY("Floor"), UNARY("Ceil"), UNARY("Sin"), UNARY("Cos"), UNARY("IsNaN"), UNARY("IsInf"), UNARY("Neg"),
{G "input x: bool[3,4]\nnode y: ? = Not(x)" END, FUN, 2, 2},
{X34 "node y: ? = Cast(x) {to=7}" END, FUN, 2, 2},
{X34 "input z: i64[2,2,2]\nnode y: ? = CastLike(x, z)" END, FUN, 2, 2},
BINARY("Add"), BINARY("Sub"), BINARY("Div"), BINARY("Pow"), BINARY("Min"), BINARY("Max"), BINARY("Equal"), BINARY("Less"),
BINARY("LessOrEqual"), BINARY("Greater"), BINARY("GreaterOrEqual"), LOGIC("Or"), LOGIC("Xor"),
{G "input x: f32[1,3]\ninput z: f32[3,1]\nnode y: ? = Mod(x, z) {fmod=1}" END, FUN, 2, 2},
{TWO("f32") "node y: ? = Mul(x, z)" END, PRO, 2, 3},
{TWO("bool") "node y: ? = And(x, z)" END, PRO, 2, 3},
{X34 "node y: ? = Mul(x, x)" END, PRO, 2, 2}, /* the same value twice */
{G "input x: f32[]\ninput z: f32[]\nnode y: ? = Mul(x, z)" END, PRO, 2, 0},
{G "input x: f32[b,3]\ninput z: f32[1]\nnode y: ? = Add(x, z)" END, FUN, 2, 1},
{G "input c: bool[4]\ninput x: f32[3,1]\ninput z: f32[]\nnode y: ? = Where(c, x, z)" END, FUN, 2, 2},
{G "input c: bool[3,1]\ninput x: f32[2,1,4]\ninput z: f32[3,4]\nnode y: ? = Where(c, x, z)" END, FUN, 2, 3},
{X34 "input l: f32[]\nnode y: ? = Clip(x, l)" END, FUN, 2, 2},
{X34 "input l: f32[]\nnode y: ? = Clip(x, _, l)" END, FUN, 2, 2},
{G "input x: f32[]\ninput l: f32[1]\nnode y: ? = Clip(x, l)" END, FUN, 2, 0},
{X34 "node y: ? = Identity(x)" END, MOV, 2, 2},
{X34 "node y: ? = Dropout(x)" END, MOV, 2, 2},
{X34 "const r: f32[1] = [0.5]\nnode y: ?, m: ? = Dropout(x, r)" END, FUN, 2, 2},

/* products */
{G "input x: f32[2,1,3,4]\ninput w: f32[5,4,2]\nnode y: ? = MatMul(x, w)" END, PRO, 2, 5},
{G "input x: f32[4]\ninput w: f32[4,2]\nnode y: ? = MatMul(x, w)" END, PRO, 2, 2},
{G "input x: f32[3,4]\ninput w: f32[4]\nnode y: ? = MatMul(x, w)" END, PRO, 2, 2},
{G "input x: f32[b,s,4]\ninput w: f32[4,3]\nnode y: ? = MatMul(x, w)" END, PRO, 2, 2},
{G "input x: f32[3,3]\nnode y: ? = MatMul(x, x)" END, PRO, 2, 3},
{G "input x: f32[3,4]\ninput w: f32[4,2]\ninput c: f32[2]\nnode y: ? = Gemm(x, w, c)" END, PRO, 2, 3},
{G "input x: f32[4,3]\ninput w: f32[2,4]\ninput c: f32[3,1]\nnode y: ? = Gemm(x, w, c) {transA=1, transB=1, alpha=0.5}" END, PRO, 2, 3},
{G "input x: f32[4,3]\ninput w: f32[4,2]\nnode y: ? = Gemm(x, w) {transA=1}" END, PRO, 2, 3},
{G "input x: f32[2,3,4]\ninput w: f32[5,4]\ninput c: f32[5]\ninput r: f32[3,5]\nnode y: ? = sparta::Linear(x, w, c, r) {transposed=1}" END, PRO, 2, 4},
{G "input x: f32[3,4]\ninput w: f32[4,5]\nnode y: ? = sparta::Linear(x, w)" END, PRO, 2, 3},
{G "input x: f32[3,4]\ninput w: f32[4,5]\ninput r: f32[5]\nnode y: ? = sparta::Linear(x, w, _, r) {epilogue=\"gelu add\"}" END, FUN, 2, 2},
{G "input q: f32[2,3,8]\ninput k: f32[2,5,8]\ninput v: f32[2,5,8]\ninput m: f32[2,1,1,5]\nnode y: ? = sparta::Attention(q, k, v, m) {heads=4, scale=0.5}" END, FUN, 2, 3},
{G "input q: f32[b,s,4]\ninput k: f32[b,t,4]\ninput v: f32[b,t,4]\nnode y: ? = sparta::Attention(q, k, v) {heads=2, scale=1.0}" END, FUN, 2, 1},
{G "input q: f32[2,3,8]\ninput k: f32[2,5,8]\ninput v: f32[2,5,12]\nnode y: ? = sparta::Attention(q, k, v) {heads=4, scale=0.5}" END, FUN, 2, 3},
{G "input q: f32[2,3,8]\ninput k: f32[2,2,5,2]\ninput v: f32[2,2,5,3]\nnode y: ? = sparta::Attention(q, k, v) {heads=4, kv_heads=2, scale=0.5}" END, FUN, 2, 3},
{G "input c: f32[2,2,6]\nconst at: i64[2,3] = [0,1,-1,2,0,1]\nnode y: ? = sparta::Relative(c, at) {heads=2, scale=0.5}" END, FUN, 2, 1},
{G "input c: f32[2,2,6]\ninput p: f32[2,3,4]\nconst at: i64[2,3] = [0,1,-1,2,0,1]\nconst back: i64[3,2] = [0,1,1,0,-1,1]\nnode y: ? = sparta::Relative(c, at, p, back) {heads=2}" END, FUN, 2, 1},

/* along axes */
{G "input x: f32[2,3,4]\nnode y: ? = Softmax(x) {axis=1}" END, FUN, 2, 2},
{G "input x: f32[]\nnode y: ? = Softmax(x)" END, FUN, 2, 0},
{G "input x: f32[2,3,4]\nnode y: ? = LogSoftmax(x) {axis=-1}" END, FUN, 2, 2},
{G "input x: f32[2,3,4]\ninput g: f32[4]\ninput h: f32[3,4]\nnode y: ?, m: ?, i: ? = LayerNormalization(x, g, h)" END, FUN, 2, 2},
{G "input x: f32[2,3,4]\ninput g: f32[3,1]\nnode y: ? = LayerNormalization(x, g) {axis=-2}" END, PRO, 2, 1},
{G "input x: f32[2,3,4]\ninput g: f32[3,4]\ninput h: f32[4]\nnode y: ? = LayerNormalization(x, g, h)" END, PRO, 2, 2},
{G "input x: f32[2,3,4]\ninput g: f32[2,3,4]\ninput h: f32[]\nnode y: ? = LayerNormalization(x, g, h)" END, PRO, 2, 2},
{G "input x: f32[2,3,4]\ninput g: f32[4]\ninput h: f32[4]\nnode y: ? = LayerNormalization(x, g, h) {epsilon=0.0}" END, FUN, 2, 2},
{G "input x: f32[2,3,4]\nconst a: i64[] = [-2]\nnode y: ? = CumSum(x, a) {reverse=1}" END, PRO, 2, 2},
{G "input x: f32[2,3,4]\ninput a: i64[]\nnode y: ? = CumSum(x, a)" END, SP_FLOW_OPAQUE, 2, 0},
{G "input x: f32[2,3,4]\nconst k: i64[] = [1]\nnode y: ? = Trilu(x, k)" END, PRO, 2, 1},
{G "input x: f32[3,4]\nnode y: ? = Trilu(x) {upper=0}" END, PRO, 2, 0},
REDUCE("ReduceSum", PRO, 3, 3, 2),
REDUCE("ReduceMean", PRO, 2, 1, 0),
REDUCE("ReduceMax", FUN, 2, 1, 0), REDUCE("ReduceMin", FUN, 2, 1, 0), REDUCE("ReduceProd", PRO, 2, 1, 0),
{G "input x: i32[2,3,4]\nconst a: i64[2] = [0,-1]\nnode y: ? = ReduceProd(x, a)" END, PRO, 3, 1},

/* moves */
{G "input x: f32[2,3,4]\nnode y: ? = Transpose(x)" END, MOV, 2, 3},
{G "input x: f32[2,3,4]\nnode y: ? = Transpose(x) {perm=[1,2,0]}" END, MOV, 2, 3},
{G "input x: f32[]\nnode y: ? = Transpose(x)" END, MOV, 2, 0},
{G "input x: f32[2,1,4]\nnode y: ? = Squeeze(x)" END, MOV, 2, 2},
{G "input x: f32[1,2,1,4]\nconst a: i64[1] = [-2]\nnode y: ? = Squeeze(x, a)" END, MOV, 2, 2},
{G "input x: f32[3,4]\nconst a: i64[2] = [-1,0]\nnode y: ? = Unsqueeze(x, a)" END, MOV, 2, 2},
{G "input x: f32[]\nconst a: i64[1] = [0]\nnode y: ? = Unsqueeze(x, a)" END, MOV, 2, 0},
{G "input x: f32[3,1]\nconst n: i64[3] = [2,1,4]\nnode y: ? = Expand(x, n)" END, MOV, 2, 3},
{G "input x: f32[3,4]\nconst n: i64[2] = [3,4]\nnode y: ? = Expand(x, n)" END, MOV, 2, 2},
{G "input x: f32[4]\ninput z: f32[b]\nnode k: ? = Shape(z)\nconst f: i64[1] = [4]\nnode n: ? = Concat(k, f) {axis=0}\nnode y: ? = Expand(x, n)" END, MOV, 2, 1},
{G "input x: f32[3,1,2]\nconst n: i64[3] = [2,4,1]\nnode y: ? = Tile(x, n)" END, MOV, 2, 4},
{G "input x: f32[3]\nconst n: i64[1] = [0]\nnode y: ? = Tile(x, n)" END, SP_FLOW_OPAQUE, 2, 0},
{G "input x: f32[2,3]\ninput z: f32[2,4]\nnode y: ? = Concat(x, z, x) {axis=-1}" END, MOV, 2, 1 + 1},
{G "input x: f32[2,3]\ninput z: f32[2,0]\nnode y: ? = Concat(x, z) {axis=1}" END, MOV, 2, 2},
{G "input x: f32[b,3]\ninput z: f32[t,3]\nnode y: ? = Concat(x, z) {axis=0}" END, FUN, 2, 1},
{G "input x: f32[2,7]\nnode y: ?, z: ?, w: ? = Split(x) {axis=1, num_outputs=3}" END, MOV, 2, 2},
{G "input x: f32[6,2]\nconst n: i64[3] = [1,2,3]\nnode y: ?, z: ?, w: ? = Split(x, n)" END, MOV, 2, 2},
{G "input x: f32[s,2]\nnode y: ?, z: ? = Split(x) {axis=0}" END, MOV, 2, 1},
{G "input x: f32[6,5]\nconst f: i64[2] = [1,-4]\nconst e: i64[2] = [5,9223372036854775807]\nnode y: ? = Slice(x, f, e)" END, MOV, 2, 2},
{G "input x: f32[6,7]\nconst f: i64[2] = [-1,1]\nconst e: i64[2] = [-9223372036854775807,6]\nconst a: i64[2] = [1,0]\nconst p: i64[2] = [-2,1]\nnode y: ? = Slice(x, f, e, a, p)" END, MOV, 2, 1},
{G "input x: f32[s,4]\nconst f: i64[1] = [-1]\nconst e: i64[1] = [9223372036854775807]\nconst a: i64[1] = [0]\nnode y: ? = Slice(x, f, e, a)" END, MOV, 2, 1},
{G "input x: f32[8,4]\ninput z: f32[s]\nnode e: ? = Shape(z)\nconst f: i64[1] = [0]\nnode y: ? = Slice(x, f, e)" END, PRO, 2, 1},
{G "input x: f32[4,5,2]\nconst i: i64[3] = [3,-5,3]\nnode y: ? = Gather(x, i) {axis=1}" END, MOV, 2, 3},
{G "input x: f32[5,2]\nconst i: i64[1,3] = [4,1,0]\nnode y: ? = Gather(x, i)" END, MOV, 2, 2},
{G "input x: f32[4,5,2]\nconst i: i64[] = [-2]\nnode y: ? = Gather(x, i) {axis=1}" END, MOV, 2, 2},
{G "input x: f32[4]\nconst i: i64[] = [3]\nnode y: ? = Gather(x, i)" END, MOV, 2, 0},
{G "input x: f32[2,s,4]\nconst i: i64[] = [0]\nnode y: ? = Gather(x, i) {axis=1}" END, MOV, 2, 2},
{G "input x: f32[5,2]\nconst i: i64[2,2] = [4,1,0,1]\nnode y: ? = Gather(x, i)" END, PRO, 2, 3},
{G "input x: f32[5,3]\ninput i: i64[2,2]\nnode y: ? = Gather(x, i)" END, PRO, 5, 3},
{G "input x: f32[5,3]\ninput i: i64[]\nnode y: ? = Gather(x, i) {axis=-1}" END, PRO, 3, 1},
{G "input x: f32[4,3,2]\ninput i: i64[4,5,1]\nnode y: ? = GatherElements(x, i) {axis=1}" END, PRO, 3, 2},
{G "input x: f32[3,3]\ninput i: i64[3,3]\nnode y: ? = GatherElements(x, i)" END, PRO, 3, 2},
{G "input x: f32[2,3,4,5]\ninput i: i64[2,3,1]\nnode y: ? = GatherND(x, i) {batch_dims=1}" END, PRO, 3, 4},
{G "input x: f32[3,3,2]\ninput i: i64[4,2]\nnode y: ? = GatherND(x, i)" END, PRO, 3, 2},
{G "input x: f32[3,3,2]\ninput i: i64[4,2]\ninput u: f32[4,2]\nnode y: ? = ScatterND(x, i, u)" END, FUN, 3, 1},
{G "input x: f32[3,4,2]\ninput i: i64[2,1]\ninput u: f32[2,4,2]\nnode y: ? = ScatterND(x, i, u) {reduction=\"add\"}" END, FUN, 3, 2},

/* reshapes */
#define SHAPED(x, n, shape, how, go) {G "input x: f32" x "\nconst n: i64[" n "] = " shape "\nnode y: ? = Reshape(x, n)" END, how, 2, go}
SHAPED("[12,64]", "2", "[24,32]", MOV, 3),
SHAPED("[2,3,4]", "1", "[-1]", MOV, 3),
SHAPED("[24]", "3", "[2,3,4]", MOV, 3),
SHAPED("[2,1,12]", "4", "[2,3,1,4]", MOV, 3),
SHAPED("[6,4]", "2", "[4,6]", PRO, 2),
SHAPED("[5,6,4,3]", "4", "[5,4,6,3]", PRO, 4),
SHAPED("[3,5]", "2", "[5,3]", PRO, 0),
SHAPED("[]", "2", "[1,1]", MOV, 0),
SHAPED("[1,1]", "0", "[]", MOV, 0),
SHAPED("[2,0,3]", "2", "[0,-1]", SP_FLOW_OPAQUE, 0),
SHAPED("[b,s,12]", "4", "[0,0,3,4]", MOV, 2),
SHAPED("[b,s,3,4]", "3", "[0,0,-1]", MOV, 2),
SHAPED("[b,s,12]", "2", "[-1,12]", MOV, 1),
SHAPED("[b,6,s,2]", "3", "[0,3,-1]", MOV, 3),
SHAPED("[b,4]", "2", "[4,-1]", PRO, 0),
SHAPED("[2,3,s,4]", "3", "[3,2,-1]", PRO, 1),
{G "input x: f32[2,3,4]\nnode y: ? = Flatten(x)" END, MOV, 2, 3},
{G "input x: f32[2,3,4]\nnode y: ? = Flatten(x) {axis=0}" END, MOV, 2, 3},
{G "input x: f32[b,3,4]\nnode y: ? = Flatten(x) {axis=-1}" END, MOV, 2, 2},

/* activations and sums of many */
UNARY("Sign"), UNARY("Round"), UNARY("LeakyRelu"), UNARY("HardSwish"), UNARY("HardSigmoid"), UNARY("Softplus"), UNARY("Softsign"),
UNARY("Elu"), UNARY("Selu"), UNARY("Mish"), UNARY("Swish"),
BINARY("Sum"), BINARY("Mean"),
{G "input x: f32[3,4]\nnode y: ? = Sum(x)" END, FUN, 2, 2},
{G "input x: f32[3,1]\ninput z: f32[4]\ninput w: f32[b,1,1]\nnode y: ? = Sum(x, z, w, z)" END, FUN, 2, 2},
{G "input x: f32[3,4]\ninput z: f32[]\ninput w: f32[2,3,1]\nnode y: ? = Mean(x, z, w)" END, FUN, 2, 3},
{G "input x: f32[2,3,4]\ninput s: f32[3,1]\nnode y: ? = PRelu(x, s)" END, FUN, 2, 3},
{G "input x: f32[b,3,2,2]\ninput s: f32[1]\nnode y: ? = PRelu(x, s)" END, FUN, 2, 3},
{G "input x: f32[2,3,4]\nnode y: ? = Hardmax(x) {axis=1}" END, FUN, 2, 2},
{G "input x: f32[]\nnode y: ? = Hardmax(x)" END, FUN, 2, 0},
REDUCE("ReduceL1", FUN, 2, 1, 0), REDUCE("ReduceL2", FUN, 2, 1, 0), REDUCE("ReduceSumSquare", FUN, 2, 1, 0),
REDUCE("ReduceLogSum", FUN, 2, 1, 0), REDUCE("ReduceLogSumExp", FUN, 2, 1, 0),
{G "input x: f32[2,3,4]\nnode y: ? = ArgMax(x) {axis=1}" END, FUN, 2, 2},
{G "input x: f32[2,3,4]\nnode y: ? = ArgMax(x) {axis=-1, keepdims=0, select_last_index=1}" END, FUN, 2, 2},
{G "input x: i8[b,s,4]\nnode y: ? = ArgMax(x) {axis=1, keepdims=0}" END, FUN, 9, 1},
{G "input x: f32[2,3,4]\nnode y: ? = ArgMin(x) {keepdims=0}" END, FUN, 2, 2},
{G "input x: f32[2,3,4]\nconst k: i64[1] = [2]\nnode y: ?, i: ? = TopK(x, k)" END, FUN, 2, 2},
{G "input x: f32[2,4,3]\nconst k: i64[1] = [4]\nnode y: ?, i: ? = TopK(x, k) {axis=1, largest=0, sorted=0}" END, FUN, 2, 2},
{G "input x: i64[b,5]\nconst k: i64[1] = [1]\nnode y: ?, i: ? = TopK(x, k)" END, FUN, 9, 0},
{G "input x: f32[2,3,4]\nnode y: ? = sparta::Sparsify(x) {keep=2}" END, PRO, 2, 2},
{G "input x: f32[2,3,4]\nnode y: ? = sparta::Sparsify(x) {above=0.5}" END, FUN, 2, 3},
{G "input x: f32[2,3,4]\nnode y: ? = sparta::Sparsify(x) {left=1, right=0}" END, PRO, 2, 1},
{G "input x: f32[b,s,4]\nnode y: ? = sparta::Sparsify(x) {keep=1, above=0.5}" END, PRO, 2, 0},
{G "input x: f32[2,3,4]\ninput g: f32[4]\nnode y: ? = RMSNormalization(x, g)" END, PRO, 2, 2},
{G "input x: f32[2,3,4]\ninput g: f32[3,1]\nnode y: ? = RMSNormalization(x, g) {axis=-2}" END, PRO, 2, 1},
{G "input x: f32[b,s,4]\ninput g: f32[4]\nnode y: ? = RMSNormalization(x, g) {axis=2}" END, PRO, 2, 0},
{G "input x: f32[2,3,4]\ninput g: f32[4]\nnode y: ? = RMSNormalization(x, g) {epsilon=0.0}" END, FUN, 2, 2},

/* convolutions */
#define CONV(x, w, attrs, go) {G "input x: f32" x "\ninput w: f32" w "\nnode y: ? = Conv(x, w) {" attrs "}" END, PRO, 2, go}
#define CONVB(x, w, m, attrs, go) {G "input x: f32" x "\ninput w: f32" w "\ninput c: f32[" m "]\nnode y: ? = Conv(x, w, c) {" attrs "}" END, PRO, 2, go}
{G "input x: f32[2,3,4,4]\ninput w: f32[5,3,3,3]\nnode y: ? = Conv(x, w)" END, PRO, 2, 3},
CONVB("[2,3,4,4]", "[4,3,3,2]", "4", "pads=[1,0,2,1]", 3),
CONV("[b,4,5]", "[6,2,3]", "group=2, strides=[2], pads=[1,1]", 3),
CONVB("[2,6,4]", "[9,2,2]", "9", "group=3, dilations=[2]", 4),
CONVB("[1,4,3,3]", "[4,1,3,3]", "4", "group=4, pads=[1,1,1,1], kernel_shape=[3,3]", 1),
CONV("[1,4,3,3]", "[8,1,2,2]", "group=4", 2),
CONV("[2,2,5,4]", "[3,2,3,3]", "auto_pad=\"SAME_UPPER\", strides=[2,2]", 3),
CONV("[2,2,5,4]", "[3,2,2,3]", "auto_pad=\"SAME_LOWER\", dilations=[2,1]", 3),
CONV("[2,2,5,4]", "[3,2,2,3]", "auto_pad=\"VALID\"", 3),
CONVB("[1,4,2,3,2]", "[4,2,2,2,1]", "4", "group=2, pads=[0,1,0,1,0,1], strides=[1,2,1]", 3),
CONV("[2,3,3]", "[2,3,3]", "pads=[1,1]", 3),
CONV("[b,3,s]", "[2,3,1]", "group=1", 2),
CONV("[b,3,s,t]", "[2,3,3,3]", "pads=[1,1,1,1], strides=[2,1]", 2),
#define CONVT(x, w, attrs, go) {G "input x: f32" x "\ninput w: f32" w "\nnode y: ? = ConvTranspose(x, w) {" attrs "}" END, PRO, 2, go}
#define CONVTB(x, w, m, attrs, go) {G "input x: f32" x "\ninput w: f32" w "\ninput c: f32[" m "]\nnode y: ? = ConvTranspose(x, w, c) {" attrs "}" END, PRO, 2, go}
{G "input x: f32[2,3,2,3]\ninput w: f32[3,4,3,2]\nnode y: ? = ConvTranspose(x, w)" END, PRO, 2, 3},
CONVTB("[2,3,2,3]", "[3,4,3,2]", "4", "strides=[2,2], pads=[1,0,0,1], output_padding=[1,0]", 3),
CONVTB("[b,4,3]", "[4,3,3]", "6", "group=2, strides=[2], dilations=[2]", 3),
CONVT("[1,4,3,3]", "[4,1,2,2]", "group=4, strides=[3,2]", 1),
CONVT("[2,2,3]", "[2,2,3]", "auto_pad=\"SAME_UPPER\", strides=[2]", 3),
CONVT("[2,2,3]", "[2,2,3]", "output_shape=[6], strides=[2]", 3),
CONVTB("[1,2,2,2,3]", "[2,3,1,2,2]", "3", "pads=[0,1,0,0,0,1]", 2),

/* pools */
#define POOL(op, how, x, attrs, go) {G "input x: f32" x "\nnode y: ? = " op "(x) {" attrs "}" END, how, 2, go}
#define POOLS(op, how)                                                                                       \
    POOL(op, how, "[2,2,3]", "kernel_shape=[3], pads=[1,1]", 2), /* a window of all there is, and more */            \
    POOL(op, how, "[2,3,5]", "kernel_shape=[2]", 2),                                                         \
    POOL(op, how, "[2,3,5,4]", "kernel_shape=[3,2], strides=[2,2], pads=[1,0,2,1]", 2),                      \
    POOL(op, how, "[1,3,5,5]", "kernel_shape=[2,2], strides=[2,2], ceil_mode=1", 1),                         \
    POOL(op, how, "[1,3,6,5]", "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1", 1),         \
    POOL(op, how, "[b,3,5,4]", "kernel_shape=[2,3], dilations=[2,1], auto_pad=\"SAME_UPPER\"", 1),           \
    POOL(op, how, "[b,3,4]", "kernel_shape=[3], strides=[2], auto_pad=\"SAME_LOWER\"", 1),                   \
    POOL(op, how, "[2,2,3,2,3]", "kernel_shape=[2,1,2], pads=[1,0,0,0,0,1]", 2),                             \
    POOL(op, how, "[b,3,s,t]", "kernel_shape=[2,2]", 1)
POOLS("MaxPool", FUN), POOLS("AveragePool", PRO), POOLS("LpPool", PRO),
POOL("MaxPool", SP_FLOW_OPAQUE, "[1,2,2]", "kernel_shape=[2], dilations=[3], pads=[1,1]", 0), /* a window of nothing */
POOL("AveragePool", SP_FLOW_OPAQUE, "[1,2,s]", "kernel_shape=[2], dilations=[3], pads=[1,1]", 0),
POOL("MaxPool", FUN, "[1,2,3]", "kernel_shape=[2], dilations=[3], pads=[1,1]", 1),
{G "input x: f32[1,3,4]\nnode y: ?, i: ? = MaxPool(x) {kernel_shape=[2]}" END, SP_FLOW_OPAQUE, 2, 0},
{G "input x: u8[2,3,4]\nnode y: ? = MaxPool(x) {kernel_shape=[2], pads=[1,1]}" END, FUN, 9, 2},
POOL("AveragePool", PRO, "[2,3,5,4]", "kernel_shape=[3,2], pads=[1,0,1,1], count_include_pad=1", 2),
POOL("AveragePool", PRO, "[1,3,6,5]", "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1, count_include_pad=1", 1),
POOL("LpPool", PRO, "[2,3,5]", "kernel_shape=[2], p=3", 2),
#define GLOBAL(op, how)                                                                                      \
    {G "input x: f32[2,3,4,5]\nnode y: ? = " op "(x)" END, how, 2, 2},                                       \
    {G "input x: f32[b,3,s]\nnode y: ? = " op "(x)" END, how, 2, 1},                                         \
    {G "input x: f32[2,3]\nnode y: ? = " op "(x)" END, how, 2, 2}
GLOBAL("GlobalMaxPool", FUN), GLOBAL("GlobalAveragePool", PRO), GLOBAL("GlobalLpPool", PRO),

/* normalisations */
#define CHANNELS(c) "input g: f32[" c "]\ninput h: f32[" c "]\n"
{G "input x: f32[2,3,4]\n" CHANNELS("3") "input m: f32[3]\ninput v: f32[3]\nnode y: ? = BatchNormalization(x, g, h, m, v)" END, PRO, 2, 3},
{G "input x: f32[b,3,s,2]\n" CHANNELS("3") "input m: f32[3]\ninput v: f32[3]\nnode y: ? = BatchNormalization(x, g, h, m, v) {epsilon=0.5}" END, PRO, 2, 2},
{G "input x: f32[2,3]\n" CHANNELS("3") "input m: f32[3]\ninput v: f32[3]\nnode y: ? = BatchNormalization(x, g, h, m, v)" END, PRO, 2, 2},
{G "input x: f32[2,3,4]\n" CHANNELS("3") "node y: ? = InstanceNormalization(x, g, h)" END, PRO, 2, 2},
{G "input x: f32[b,3,2,s]\n" CHANNELS("3") "node y: ? = InstanceNormalization(x, g, h)" END, PRO, 2, 1},
{G "input x: f32[2,6,4]\n" CHANNELS("6") "node y: ? = GroupNormalization(x, g, h) {num_groups=3}" END, PRO, 2, 2},
{G "input x: f32[b,4,2,2]\n" CHANNELS("4") "node y: ? = GroupNormalization(x, g, h) {num_groups=4}" END, PRO, 2, 1},
{G "input x: f32[2,4,s]\n" CHANNELS("4") "node y: ? = GroupNormalization(x, g, h) {num_groups=1}" END, PRO, 2, 1},

/* borders and blocks */
#define PAD(x, n, pads, attrs, how, go) {G "input x: f32" x "\nconst p: i64[" n "] = " pads "\nnode y: ? = Pad(x, p)" attrs END, how, 2, go}
PAD("[2,3,4]", "6", "[0,1,2,0,0,1]", "", MOV, 3),
PAD("[2,3,4]", "6", "[0,-1,2,1,0,-2]", "", MOV, 1),
PAD("[2,5]", "4", "[0,-2,0,-1]", "", MOV, 1),
PAD("[b,3,s]", "6", "[0,1,1,0,1,1]", "", MOV, 1),
PAD("[2,3,4]", "6", "[0,1,2,0,1,1]", " {mode=\"reflect\"}", FUN, 1),
PAD("[2,3,4]", "6", "[0,1,0,0,2,0]", " {mode=\"edge\"}", FUN, 2),
PAD("[2,3,4]", "6", "[0,0,3,0,0,2]", " {mode=\"wrap\"}", FUN, 2),
PAD("[b,3,s]", "6", "[0,0,1,0,0,1]", " {mode=\"reflect\"}", FUN, 1),
PAD("[2,3,4]", "6", "[0,-1,1,0,0,0]", " {mode=\"reflect\"}", FUN, 1),
{G "input x: f32[2,3,4]\nconst p: i64[2] = [1,2]\nconst f: f32[] = [0.25]\nconst a: i64[1] = [-2]\nnode y: ? = Pad(x, p, f, a)" END, MOV, 2, 3},
{G "input x: f32[2,3,4]\nconst p: i64[4] = [1,0,0,2]\nconst f: f32[] = [-3]\nconst a: i64[2] = [2,0]\nnode y: ? = Pad(x, p, f, a)" END, MOV, 2, 3},
{G "input x: f32[2,3,4]\nconst p: i64[4] = [1,-1,0,0]\nconst a: i64[2] = [2,1]\nnode y: ? = Pad(x, p, _, a)" END, MOV, 2, 2},
{G "input x: f32[2,3]\nconst p: i64[4] = [0,1,0,0]\ninput f: f32[]\nnode y: ? = Pad(x, p, f)" END, FUN, 2, 1},
{G "input x: i64[2,3]\nconst p: i64[4] = [0,1,0,0]\nconst f: i64[] = [7]\nnode y: ? = Pad(x, p, f)" END, MOV, 5, 2},
{G "input x: f32[2,3]\nconst p: i64[4] = [0,0,0,0]\nnode y: ? = Pad(x, p) {mode=\"wrap\"}" END, FUN, 2, 2},
{G "input x: f32[2,12,2,3]\nnode y: ? = DepthToSpace(x) {blocksize=2}" END, MOV, 2, 4},
{G "input x: f32[2,12,2,3]\nnode y: ? = DepthToSpace(x) {blocksize=2, mode=\"CRD\"}" END, MOV, 2, 4},
{G "input x: i8[b,8,s,2]\nnode y: ? = DepthToSpace(x) {blocksize=2}" END, MOV, 5, 2},
{G "input x: f32[2,3,4,6]\nnode y: ? = SpaceToDepth(x) {blocksize=2}" END, MOV, 2, 4},
{G "input x: f32[b,2,6,3]\nnode y: ? = SpaceToDepth(x) {blocksize=3}" END, MOV, 2, 2},
#define SCALE(x, n, scales, attrs, go) {G "input x: f32" x "\nconst k: f32[" n "] = " scales "\nnode y: ? = Resize(x, _, k)" attrs END, PRO, 2, go}
#define SIZES(x, n, sizes, attrs, go) {G "input x: f32" x "\nconst k: i64[" n "] = " sizes "\nnode y: ? = Resize(x, _, _, k)" attrs END, PRO, 2, go}
SCALE("[2,3,2,2]", "4", "[1,1,2,2]", "", 2),
SCALE("[2,3,4]", "3", "[1,1,0.5]", " {mode=\"linear\", antialias=1}", 2),
SCALE("[2,3,4]", "1", "[1.5]", " {axes=[-2], mode=\"linear\", coordinate_transformation_mode=\"asymmetric\"}", 2),
SCALE("[2,3,4]", "3", "[1,1.1,1]", " {coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"ceil\"}", 2), /* three again, and others */
SCALE("[b,3,s]", "3", "[1,1,2]", "", 1),
SIZES("[2,3,4]", "3", "[2,3,6]", "", 2),
SIZES("[2,3,4,2]", "4", "[2,3,5,3]", " {mode=\"cubic\", coordinate_transformation_mode=\"align_corners\"}", 2),
SIZES("[2,3,4]", "2", "[3,7]", " {axes=[1,2], mode=\"linear\", coordinate_transformation_mode=\"pytorch_half_pixel\"}", 2),
SIZES("[2,3,4]", "2", "[7,3]", " {axes=[2,1], nearest_mode=\"floor\"}", 2),
SIZES("[2,3,20]", "2", "[4,22]", " {axes=[1,2], keep_aspect_ratio_policy=\"not_larger\"}", 1), /* 3 remain, scaled by 1.1 */
SIZES("[2,4,4]", "2", "[8,6]", " {axes=[1,2], keep_aspect_ratio_policy=\"not_smaller\", mode=\"linear\"}", 1),
{G "input x: i8[2,3,4]\nconst k: i64[3] = [2,3,8]\nnode y: ? = Resize(x, _, _, k)" END, PRO, 9, 2},
{G "input x: f32[2,4]\nconst r: f32[4] = [0,0.25,1,0.75]\nconst k: i64[2] = [2,4]\nnode y: ? = Resize(x, r, _, k) {coordinate_transformation_mode=\"tf_crop_and_resize\"}" END, SP_FLOW_OPAQUE, 2, 0},

/* sums of products by letters */
#define EIN1(x, equation, go) {G "input x: f32" x "\nnode y: ? = Einsum(x) {equation=\"" equation "\"}" END, PRO, 2, go}
#define EIN2(x, z, equation, go) {G "input x: f32" x "\ninput z: f32" z "\nnode y: ? = Einsum(x, z) {equation=\"" equation "\"}" END, PRO, 2, go}
EIN1("[3,4]", "ij->ji", 2), EIN1("[3,4]", "ij->i", 2), EIN1("[3,4]", "ij->", 2), EIN1("[3,3]", "ii->i", 1), EIN1("[3,3]", "ii", 1),
EIN1("[2,3,3]", "...ii->...", 2), EIN1("[2,3,4]", "...j", 3), EIN1("[b,3,4]", "b...->...b", 2), EIN1("[3,2,3]", "iji->ij", 2),
EIN2("[3,4]", "[4,5]", "ij,jk->ik", 3), EIN2("[2,3,4]", "[2,4,5]", "bij,bjk", 4), EIN2("[3]", "[4]", "i,j->ij", 2),
EIN2("[3,4]", "[3,4]", "ij,ij->", 2), EIN2("[2,1,4]", "[3,4]", "...k,...k->...", 3), EIN2("[b,s,2,3]", "[b,t,2,3]", "bqhd,bkhd->bhqk", 2),
EIN2("[2,3]", "[]", "ij,->ij", 2), EIN2("[3,3]", "[3]", "ii,i->i", 1), EIN2("[1,4]", "[3,4]", "...k,...k->k", 2),
{G "input x: f32[3,4]\nnode y: ? = Einsum(x, x) {equation=\"ij,kj->ik\"}" END, PRO, 2, 3},
{G "input x: f32[2,3]\ninput z: f32[3,4]\ninput w: f32[4,2]\nnode y: ? = Einsum(x, z, w) {equation=\"ij,jk,ki->jk\"}" END, PRO, 2, 3},
{G "input x: i32[2,3]\ninput z: i32[3]\ninput w: i32[2]\nnode y: ? = Einsum(x, z, w) {equation=\"ij,j,i->i\"}" END, PRO, 5, 2},

/* decoders */
#define ROTARY(x, table, rest, attrs, go) {G "input x: f32" x "\ninput c: f32" table "\ninput z: f32" table "\n" rest attrs END, PRO, 2, go}
ROTARY("[2,3,2,4]", "[2,2,2]", "node y: ? = RotaryEmbedding(x, c, z)", "", 3),
ROTARY("[2,2,12]", "[2,2,2]", "node y: ? = RotaryEmbedding(x, c, z)", " {num_heads=3, interleaved=1}", 3),
ROTARY("[2,3,2,6]", "[2,2,2]", "node y: ? = RotaryEmbedding(x, c, z)", " {rotary_embedding_dim=4}", 3),
ROTARY("[2,2,12]", "[5,2]", "const p: i64[2,2] = [3,0,4,1]\nnode y: ? = RotaryEmbedding(x, c, z, p)", " {num_heads=3}", 3),
ROTARY("[b,3,s,4]", "[2,2]", "input p: i64[b,s]\nnode y: ? = RotaryEmbedding(x, c, z, p)", "", 1),
#define ATTEND(q, k, v, rest, attrs, go) {G "input q: f32" q "\ninput k: f32" k "\ninput v: f32" v "\n" rest " {" attrs "}" END, PRO, 2, go}
#define PLAIN "node y: ? = Attention(q, k, v)"
ATTEND("[2,3,2,4]", "[2,3,5,4]", "[2,3,5,2]", PLAIN, "scale=0.5", 4),
ATTEND("[2,2,12]", "[2,5,12]", "[2,5,6]", PLAIN, "q_num_heads=3, kv_num_heads=3", 4),
ATTEND("[1,6,2,2]", "[1,3,4,2]", "[1,3,4,2]", PLAIN, "softcap=2.0", 4),
ATTEND("[2,2,12]", "[2,3,6]", "[2,3,4]", PLAIN, "q_num_heads=4, kv_num_heads=2", 5),
ATTEND("[2,3,8]", "[2,4,4]", "[2,4,4]", PLAIN, "q_num_heads=2, kv_num_heads=1, is_causal=1", 3),
ATTEND("[b,s,8]", "[b,t,8]", "[b,t,8]", PLAIN, "q_num_heads=2, kv_num_heads=2", 2),
ATTEND("[2,2,3,2]", "[2,2,4,2]", "[2,2,4,3]", "input m: f32[3,4]\nnode y: ? = Attention(q, k, v, m)", "scale=1.0", 4),
ATTEND("[2,4,3,2]", "[2,2,4,2]", "[2,2,4,3]", "input m: f32[2,4,1,4]\nnode y: ? = Attention(q, k, v, m)", "is_causal=1", 4),
ATTEND("[2,4,3,2]", "[2,2,2,2]", "[2,2,2,3]", "const m: bool[1,1,3,2] = [1,0,0,1,1,1]\nnode y: ? = Attention(q, k, v, m)", "scale=1.0", 5),
{G "input q: f32[2,2,3,2]\ninput k: f32[2,2,4,2]\ninput m: f32[3,2]\nnode y: ? = Attention(q, k, k, m)" END, SP_FLOW_OPAQUE, 2, 0},
{G "input q: f32[1,2,3,2]\nconst m: bool[3,3] = [1,0,0,0,0,0,1,1,1]\nnode y: ? = Attention(q, q, q, m)" END, SP_FLOW_OPAQUE, 2, 0}, /* a row of NaN */
{G "input q: f32[1,2,3,2]\nconst m: bool[3,3] = [1,1,0,0,0,1,1,1,1]\nnode y: ? = Attention(q, q, q, m) {is_causal=1}" END, SP_FLOW_OPAQUE, 2, 0},
{G "input q: f32[2,2,3,2]\ninput p: f32[2,2,1,2]\nnode y: ?, k: ?, v: ? = Attention(q, q, q, _, p, p)" END, SP_FLOW_OPAQUE, 2, 0},

/* quantised */
#define QUANT(x, s, zero, attrs, go) {G "input x: f32" x "\ninput k: f32" s "\ninput z: " zero s "\nnode y: ? = QuantizeLinear(x, k, z)" attrs END, FUN, 3, go}
#define DEQUANT(type, x, s, attrs, go) {G "input x: " type x "\ninput k: f32" s "\ninput z: " type s "\nnode y: ? = DequantizeLinear(x, k, z)" attrs END, FUN, 3, go}
QUANT("[2,3,4]", "[]", "u8", "", 3), QUANT("[2,3,4]", "[3]", "i8", "", 3), QUANT("[2,3,4]", "[4]", "i4", " {axis=-1}", 3),
QUANT("[2,3,4]", "[1]", "u4", "", 3), QUANT("[2,4]", "[2,2]", "i8", " {axis=1, block_size=2}", 2), QUANT("[5,3]", "[2,3]", "u2", " {axis=0, block_size=3}", 1),
QUANT("[b,3,s]", "[3]", "i16", "", 1),
{G "input x: f32[3,4]\ninput k: f32[]\nnode y: ? = QuantizeLinear(x, k)" END, FUN, 2, 2},
{G "input x: f32[3,4]\ninput k: f32[4]\nnode y: ? = QuantizeLinear(x, k) {output_dtype=22}" END, FUN, 2, 2},
DEQUANT("u8", "[2,3,4]", "[]", "", 3), DEQUANT("i8", "[2,3,4]", "[2]", " {axis=0}", 3), DEQUANT("i4", "[3,5]", "[3,3]", " {axis=1, block_size=2}", 1),
DEQUANT("u4", "[4,3]", "[2,3]", " {axis=0, block_size=2}", 2), DEQUANT("i2", "[3,4]", "[4]", "", 2), DEQUANT("u2", "[b,4]", "[1]", "", 1), DEQUANT("i32", "[3,4]", "[4]", "", 2),
{G "input x: i8[3,4]\ninput k: f32[]\nnode y: ? = DequantizeLinear(x, k)" END, FUN, 2, 2},
{G "input x: i4[3,5]\nnode y: ? = Transpose(x)" END, MOV, 2, 2},
{G "input x: i4[2,3]\ninput z: i4[2,2]\nnode y: ? = Concat(x, z) {axis=1}" END, MOV, 2, 2},
    /* clang-format on */
