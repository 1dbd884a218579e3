/* Operators of decoders and of quantised models: shape rules, answers by hand, inputs that lie. ONNX's node tests check the
 * ordinary cases. */
#include "ops_bed.h"
#include <math.h>
#include <stdio.h>

/* After inference value `name` has this type and these dims, written as in a graph. */
static void types(const char *text, const char *name, const char *want)
{
    sp_graph *g = parse(text);
    if (sp_ops_infer(g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    const sp_value *v = sp_graph_find(g, name);
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "%s", sparta_dtype_name(v->dtype));
    sp_dims_print(&v->dims, &t);
    assert_string_equal(sp_text_str(&t), want);
    sp_text_free(&t);
    sp_graph_free(g);
}

static void refuses(const char *text, sparta_status status, const char *words)
{
    sp_graph *g = parse(text);
    sparta_status got = sp_ops_infer(g);
    if (got != status || !strstr(sparta_message(cx), words))
        fail_msg("%s, wanted %s with '%s': %s", sparta_status_name(got), sparta_status_name(status), words,
                 sparta_message(cx));
    sp_graph_free(g);
    sp_ctx_clear(cx);
}

/* A graph of constants folds, and its output y is known then; DequantizeLinear, which does not, runs. */
static void folds(const char *text, int64_t n, const double *want)
{
    sp_graph *g = parse(text);
    if (sp_ops_infer(g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    const sparta_tensor *t = sp_graph_find(g, "y")->constant;
    sparta_tensor ran = {.rank = 0};
    if (!t) {
        assert_non_null(strstr(text, "DequantizeLinear"));
        if (sp_ops_run(cx, g, NULL, 0, &ran, NULL, NULL) != SPARTA_OK)
            fail_msg("%s\n%s", sparta_message(cx), text);
        t = &ran;
    }
    assert_int_equal(sparta_tensor_elements(t), n);
    for (int64_t i = 0; i < n; i++) {
        double x = sp_element_get(t->dtype, t->data, i);
        if (!(fabs(x - want[i]) <= 1e-6 * (1 + fabs(want[i]))) && !(isnan(x) && isnan(want[i])) &&
            x != want[i])
            fail_msg("element %d is %.9g, wanted %.9g\n%s", (int)i, x, want[i], text);
    }
    sp_free(cx, ran.data);
    sp_graph_free(g);
}
#define FOLDS(text, ...)                                                                                     \
    folds("graph \"t\"\n" text "output y\n", (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),    \
          (double[]){__VA_ARGS__})

/* ------------------------------------------------------------------ Einsum */
#define AB                       "graph \"t\"\ninput a: f32[i,j,3,3]\ninput b: f32[j,4]\ninput c: f32[7,1,4]\n"
#define EINSUM(inputs, equation) AB "node y: ? = Einsum(" inputs ") {equation=\"" equation "\"}\noutput y\n"

static void einsum_shapes(void **state)
{
    (void)state;
    types(EINSUM("a", "abcc->ca"), "y", "f32[3,i]");
    types(EINSUM("a", "zyxx"), "y", "f32[j,i]"); /* alphabetical, without x */
    types(EINSUM("a, b", "i j x y , j k -> k i"), "y", "f32[4,i]");
    types(EINSUM("a, b", "...jxy,jk->...k"), "y", "f32[i,4]");
    types(EINSUM("c, b", "...k,...k->...k"), "y",
          "f32[7,j,4]"); /* 1 repeats in "...", which may differ in length */
    types(EINSUM("c, b", "...k,...k->"), "y", "f32[]");
    types(EINSUM("b, b, b", "jk,jl,mn"), "y", "f32[4,4,j,4]");
    types(EINSUM("a", "..."), "y", "f32[i,j,3,3]");
    types(EINSUM("b", "Zz"), "y", "f32[j,4]"); /* capitals first */
}

static void einsum_lies(void **state)
{
    (void)state;
    refuses(EINSUM("a", ""), SPARTA_E_SHAPE, "0 letters");
    refuses(EINSUM("b", "ij->"
                        "ii"),
            SPARTA_E_FORMAT, "twice");
    refuses(EINSUM("b", "ij->ik"), SPARTA_E_FORMAT, "no operand");
    refuses(EINSUM("b", "ij->i,j"), SPARTA_E_FORMAT, "the last");
    refuses(EINSUM("b", "ij-i"), SPARTA_E_FORMAT, "expected");
    refuses(EINSUM("b", "ij-"), SPARTA_E_FORMAT, "expected");
    refuses(EINSUM("b", "ij->i->j"), SPARTA_E_FORMAT, "the last");
    refuses(EINSUM("b", "i1->i"), SPARTA_E_FORMAT, "character 2");
    refuses(EINSUM("b", "i..j"), SPARTA_E_FORMAT, "are possible");
    refuses(EINSUM("b", "......"), SPARTA_E_FORMAT, "second");
    refuses(EINSUM("b", "i..."
                        "jk"),
            SPARTA_E_SHAPE, "rank 2");
    refuses(EINSUM("b, b", "ij"), SPARTA_E_FORMAT, "fewer terms");
    refuses(EINSUM("b", "ij,ij"), SPARTA_E_FORMAT, "more terms");
    refuses(EINSUM("b", "abcdefghijklmnopqrstuvwxyzA"), SPARTA_E_SHAPE, "27 letters");
    refuses(EINSUM("b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            SPARTA_E_FORMAT, "too many");
    refuses(EINSUM("a, b", "ijkl,kj->i"), SPARTA_E_SHAPE, "3 and 4 differ"); /* what was j is both */
    refuses(EINSUM("a, c, b", "abcd,efg,hi->abcdefghi"), SPARTA_E_UNSUPPORTED, "9 dims");
    refuses(AB "node y: ? = Einsum(a)\noutput y\n", SPARTA_E_SHAPE, "0 letters");
    /* every short text is an answer or an error */
    static const char letters[] = "ij.,-> ";
    for (int n = 0; n < 7 * 7 * 7 * 7; n++) {
        char text[400];
        snprintf(text, sizeof text, EINSUM("b", "%c%c%c%c"), letters[n % 7], letters[n / 7 % 7],
                 letters[n / 49 % 7], letters[n / 343]);
        sp_graph *g = parse(text);
        sparta_status status = sp_ops_infer(g);
        assert_true(status == SPARTA_OK || status == SPARTA_E_FORMAT || status == SPARTA_E_SHAPE);
        sp_graph_free(g);
        sp_ctx_clear(cx);
    }
}

static void einsum_answers(void **state)
{
    (void)state;
#define SQUARE "const a: f32[2,2] = [1,2,3,4]\nconst b: f32[2] = [10,100]\n"
    FOLDS(SQUARE "node y: ? = Einsum(a) {equation=\"ii\"}\n", 5);
    FOLDS(SQUARE "node y: ? = Einsum(a) {equation=\"ii->i\"}\n", 1, 4);
    FOLDS(SQUARE "node y: ? = Einsum(a) {equation=\"ji\"}\n", 1, 3, 2, 4);
    FOLDS(SQUARE "node y: ? = Einsum(a, b) {equation=\"ij,j\"}\n", 210, 430);
    FOLDS(SQUARE "node y: ? = Einsum(a, b, b) {equation=\"ij,j,i->\"}\n", 100 + 2000 + 3000 + 40000);
    FOLDS(SQUARE "node y: ? = Einsum(b, b) {equation=\"i,j->ji\"}\n", 100, 1000, 1000, 10000);
    FOLDS(SQUARE "node y: ? = Einsum(a, a, a, a, a) {equation=\"ab,bc,cd,de,ef->af\"}\n", 1069, 1558, 2337,
          3406);
    FOLDS("const a: i8[2] = [100,100]\nnode y: ? = Einsum(a, a) {equation=\"i,i\"}\n", 32); /* 20000 wraps */
    FOLDS("const a: f32[0,2] = []\nnode y: ? = Einsum(a) {equation=\"ij->j\"}\n", 0, 0);
    FOLDS("const a: u64[1] = [18446744073709551615]\nnode y: ? = Einsum(a) {equation=\"i->\"}\n",
          18446744073709551615.0);
}

/* Constants whose nest would take years are left alone, and a nest that runs can be stopped. */
static void einsum_takes_no_years(void **state)
{
    (void)state;
    sp_graph *g = parse("graph \"t\"\nconst n: i64[2] = [1000,1000]\nnode a: ? = ConstantOfShape(n)\n"
                        "node y: ? = Einsum(a, a, a) {equation=\"ab,cd,ef->\"}\noutput y\n");
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    assert_null(sp_graph_find(g, "y")->constant);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ TopK, ArgMax, reductions */
#define X "graph \"t\"\ninput x: f32[batch,5]\ninput k: i64[1]\nconst three: i64[1] = [3]\n"

static void top_shapes(void **state)
{
    (void)state;
    types(X "node y: ?, i: ? = TopK(x, three)\noutput y\noutput i\n", "i", "i64[batch,3]");
    types(X "node y: ?, i: ? = TopK(x, three) {axis=0}\noutput y\n", "y",
          "f32[3,5]"); /* the run looks at batch */
    types(X "node y: ? = ArgMax(x) {axis=-1, keepdims=0}\noutput y\n", "y", "i64[batch]");
    types(X "node y: ? = ArgMin(x)\noutput y\n", "y", "i64[1,5]");
    types(X "const last: i64[1] = [-1]\nnode y: ? = ReduceL2(x, last) {keepdims=0}\noutput y\n", "y",
          "f32[batch]");
}

static void top_lies(void **state)
{
    (void)state;
    refuses(X "const six: i64[1] = [6]\nnode y: ?, i: ? = TopK(x, six)\noutput y\n", SPARTA_E_SHAPE,
            "k is 6");
    refuses(X "const m: i64[1] = [-1]\nnode y: ?, i: ? = TopK(x, m)\noutput y\n", SPARTA_E_SHAPE, "k is -1");
    refuses(X "const two: i64[2] = [1,1]\nnode y: ?, i: ? = TopK(x, two)\noutput y\n", SPARTA_E_SHAPE,
            "2 elements");
    refuses(X "const none: i64[0] = []\nnode y: ?, i: ? = TopK(x, none)\noutput y\n", SPARTA_E_SHAPE,
            "0 elements");
    refuses(X "node y: ?, i: ? = TopK(x, k)\noutput y\n", SPARTA_E_UNSUPPORTED, "computed from data");
    refuses(X "node y: ?, i: ? = TopK(x, three) {axis=2}\noutput y\n", SPARTA_E_SHAPE, "axis 2");
    refuses(X "node y: ? = ArgMax(x) {axis=-3}\noutput y\n", SPARTA_E_SHAPE, "axis -3");
    refuses("graph \"t\"\nconst s: f32[] = [1]\nnode y: ? = ArgMax(s)\noutput y\n", SPARTA_E_SHAPE, "axis 0");
    refuses("graph \"t\"\nconst e: f32[0,2] = []\nnode y: ? = ArgMax(e)\noutput y\n", SPARTA_E_RANGE,
            "empty");
    refuses("graph \"t\"\ninput x: i4[2]\nnode y: ? = ArgMax(x)\noutput y\n", SPARTA_E_DTYPE, "i4");
    refuses("graph \"t\"\ninput x: i64[2]\nnode y: ? = Sum(x, x)\noutput y\n", SPARTA_E_DTYPE, "i64");
}

static void top_answers(void **state)
{
    (void)state;
#define LINE "const x: f32[6] = [3,nan,-1,3,inf,-1]\nconst k: i64[1] = [4]\n"
    FOLDS(LINE "node v: ?, y: ? = TopK(x, k)\n", 1, 4, 0, 3);
    FOLDS(LINE "node y: ?, i: ? = TopK(x, k) {largest=0}\n", -1, -1, 3, 3);
    FOLDS(LINE "node v: ?, y: ? = TopK(x, k) {largest=0}\n", 2, 5, 0, 3);
    FOLDS(LINE "node y: ? = ArgMax(x)\n", 1); /* a NaN is beyond every number, both ways */
    FOLDS(LINE "node y: ? = ArgMin(x)\n", 1);
    FOLDS("const x: f32[4] = [2,1,2,1]\nnode y: ? = ArgMin(x) {select_last_index=1}\n", 3);
    FOLDS("const x: u64[2] = [1,18446744073709551615]\nnode y: ? = ArgMax(x) {keepdims=0}\n", 1);
    FOLDS("const x: u64[2] = [0,18446744073709551615]\nnode y: ? = Sign(x)\n", 0, 1);
    FOLDS("const x: f32[4] = [-2.5,0.5,1.5,nan]\nnode y: ? = Round(x)\n", -2, 0, 2, NAN);
    FOLDS("const x: f32[3] = [1000,1000,-inf]\nnode y: ? = ReduceLogSumExp(x)\n", 1000 + log(2));
    FOLDS("const x: f32[2] = [-inf,-inf]\nnode y: ? = ReduceLogSumExp(x)\n", -INFINITY);
    FOLDS("const x: i32[2] = [-3,4]\nnode y: ? = ReduceL2(x)\n", 5);
    FOLDS("const x: i32[2] = [-3,4]\nnode y: ? = ReduceL1(x)\n", 7);
    FOLDS("const x: f32[2] = [-3,4]\nnode y: ? = ReduceSumSquare(x) {noop_with_empty_axes=1}\n", 9, 16);
    FOLDS("const a: f32[2] = [1,2]\nconst b: f32[2,1] = [10,20]\nnode y: ? = Mean(a, b, a)\n", 4, 14 / 3.0,
          22 / 3.0, 8);
}

/* ------------------------------------------------------------------ quantisation */
#define W                                                                                                    \
    "graph \"t\"\ninput x: f32[4,batch,6]\nconst s: f32[] = [0.5]\nconst s4: f32[4] = [1,2,3,4]\nconst s2: " \
    "f32[2] = [1,2]\n"

static void quant_shapes(void **state)
{
    (void)state;
    types(W "node y: ? = QuantizeLinear(x, s)\noutput y\n", "y", "u8[4,batch,6]");
    types(W "node y: ? = QuantizeLinear(x, s4) {axis=-3, output_dtype=22}\noutput y\n", "y", "i4[4,batch,6]");
    types(W "const z: i16[4] = [1,2,3,4]\nnode y: ? = QuantizeLinear(x, s4, z) {axis=0}\noutput y\n", "y",
          "i16[4,batch,6]");
    types(
        W
        "input q: i4[4,6]\ninput b: f16[4,2]\nnode y: ? = DequantizeLinear(q, b) {block_size=4}\noutput y\n",
        "y", "f16[4,6]");
    types(W "input q: i4[4,6]\ninput b: f16[4,2]\nnode y: ? = DequantizeLinear(q, b) {block_size=3, "
            "output_dtype=1}\noutput y\n",
          "y", "f32[4,6]");
}

static void quant_lies(void **state)
{
    (void)state;
    refuses(W "node y: ? = QuantizeLinear(x, s2) {axis=0}\noutput y\n", SPARTA_E_SHAPE, "2 and 4");
    refuses(W "node y: ? = QuantizeLinear(x, s4) {axis=3}\noutput y\n", SPARTA_E_SHAPE, "axis 3");
    refuses(W "node y: ? = QuantizeLinear(s2, s2)\noutput y\n", SPARTA_E_SHAPE, "axis 1");
    refuses(W "const z: u8[] = [1]\nnode y: ? = QuantizeLinear(x, s4, z) {axis=0}\noutput y\n",
            SPARTA_E_SHAPE, "alike");
    refuses(W "const z: u8[] = [1]\nnode y: ? = QuantizeLinear(x, s, z) {output_dtype=3}\noutput y\n",
            SPARTA_E_DTYPE, "i8");
    refuses(W "node y: ? = QuantizeLinear(x, s) {output_dtype=17}\noutput y\n", SPARTA_E_UNSUPPORTED,
            "floats of 8");
    refuses(W "node y: ? = QuantizeLinear(x, s) {output_dtype=1}\noutput y\n", SPARTA_E_UNSUPPORTED,
            "type 1");
    refuses(W "node y: ? = QuantizeLinear(x, s) {precision=6}\noutput y\n", SPARTA_E_UNSUPPORTED,
            "precision");
    refuses(W "node y: ? = QuantizeLinear(x, s) {block_size=-1}\noutput y\n", SPARTA_E_SHAPE,
            "block_size is -1");
    refuses(W "node y: ? = QuantizeLinear(x, s4) {block_size=2}\noutput y\n", SPARTA_E_SHAPE, "rank 1");
    refuses(W "input b: f32[4,2,6]\nnode y: ? = QuantizeLinear(x, b) {block_size=2}\noutput y\n",
            SPARTA_E_UNSUPPORTED, "batch");
    refuses(W "input b: f32[3,batch,6]\nnode y: ? = QuantizeLinear(x, b) {block_size=2, axis=0}\noutput y\n",
            SPARTA_E_SHAPE, "3 and 2");
    refuses(W "input b: f32[2,batch,5]\nnode y: ? = QuantizeLinear(x, b) {block_size=2, axis=0}\noutput y\n",
            SPARTA_E_SHAPE, "5 and 6");
    refuses(W "node y: ? = DequantizeLinear(x, s)\noutput y\n", SPARTA_E_DTYPE, "f32");
    refuses(W "input q: i8[4]\nconst z: u8[] = [1]\nnode y: ? = DequantizeLinear(q, s, z)\noutput y\n",
            SPARTA_E_DTYPE, "u8");
}

static void quant_answers(void **state)
{
    (void)state;
    FOLDS("const x: f32[6] = [1.5,2.5,-9,9,nan,inf]\nconst s: f32[1] = [1]\nnode y: ? = QuantizeLinear(x, s) "
          "{output_dtype=22}\n",
          2, 2, -8, 7, -8, 7);
    FOLDS("const x: f32[3] = [-5,2,200]\nconst s: f32[] = [0.5]\nconst z: u8[] = [3]\nnode y: ? = "
          "QuantizeLinear(x, s, z)\n",
          0, 7, 255);
    /* blocks of 2 along 3: the last one is short */
    FOLDS("const x: i4[2,3] = [-8,7,1,2,3,4]\nconst s: f32[2,2] = [1,10,100,1000]\nconst z: i4[2,2] = "
          "[0,1,-1,0]\n"
          "node y: ? = DequantizeLinear(x, s, z) {block_size=2}\n",
          -8, 7, 0, 300, 400, 4000);
    FOLDS("const x: u2[4] = [0,1,2,3]\nconst s: f32[] = [1]\nconst z: u2[] = [2]\nnode y: ? = "
          "DequantizeLinear(x, s, z)\n",
          -2, -1, 0, 1);
    FOLDS("const x: i32[1] = [16777217]\nconst s: f32[] = [2]\nnode y: ? = DequantizeLinear(x, s)\n",
          33554434);
    FOLDS("const x: f32[5] = [-1,-9,7.9,8,300]\nnode y: ? = Cast(x) {to=22}\n", -1, 7, 7, -8, -4); /* wraps */
    FOLDS("const x: i4[3] = [-1,7,-8]\nnode t: ? = Transpose(x)\nnode y: ? = Cast(t) {to=6}\n", -1, 7, -8);
    FOLDS("const x: i2[2] = [-2,1]\nnode y: ? = Cast(x) {to=21}\n", 14, 1);
    refuses("graph \"t\"\ninput x: i4[2]\nnode y: ? = Add(x, x)\noutput y\n", SPARTA_E_DTYPE, "i4");
}

/* ------------------------------------------------------------------ attention and its friends */
#define QKV                                                                                                  \
    "graph \"t\"\ninput q: f32[batch,s,32]\ninput k: f32[batch,t,16]\ninput v: f32[batch,t,24]\ninput q4: "  \
    "f32[batch,8,s,4]\n"                                                                                     \
    "input k4: f32[batch,4,t,4]\ninput v4: f32[batch,4,t,6]\ninput pk: f32[batch,4,p,4]\ninput pv: "         \
    "f32[batch,4,p,6]\n"
#define HEADS "q_num_heads=8, kv_num_heads=4"

static void attention_shapes(void **state)
{
    (void)state;
    types(QKV "node y: ? = Attention(q, k, v) {" HEADS "}\noutput y\n", "y", "f32[batch,s,48]");
    types(QKV "node y: ? = Attention(q4, k4, v4)\noutput y\n", "y", "f32[batch,8,s,6]");
    types(QKV "node y: ?, a: ?, b: ?, c: ? = Attention(q, k, v, _, pk, pv) {" HEADS "}\noutput a\noutput c\n",
          "a", "f32[batch,4,p+t,4]");
    types(QKV "node y: ?, a: ?, b: ?, c: ? = Attention(q4, k4, v4, _, pk, pv)\noutput c\n", "c",
          "f32[batch,8,s,p+t]");
    types(QKV "input m: bool[s,t]\nnode y: ? = Attention(q4, k4, v4, m)\noutput y\n", "y",
          "f32[batch,8,s,6]");
    types("graph \"t\"\ninput x: f16[b,s,4]\ninput w: f32[4]\nnode y: ? = RMSNormalization(x, w)\noutput y\n",
          "y", "f32[b,s,4]");
}

static void attention_lies(void **state)
{
    (void)state;
    refuses(QKV "node y: ? = Attention(q, k, v)\noutput y\n", SPARTA_E_SHAPE, "q_num_heads=0");
    refuses(QKV "node y: ? = Attention(q, k, v) {q_num_heads=8}\noutput y\n", SPARTA_E_SHAPE,
            "kv_num_heads=0");
    refuses(QKV "node y: ? = Attention(q, k, v) {q_num_heads=-8, kv_num_heads=4}\noutput y\n", SPARTA_E_SHAPE,
            "-8");
    refuses(QKV "node y: ? = Attention(q, k, v) {q_num_heads=7, kv_num_heads=4}\noutput y\n", SPARTA_E_SHAPE,
            "do not divide");
    refuses(QKV "node y: ? = Attention(q, q, q) {q_num_heads=8, kv_num_heads=4}\noutput y\n", SPARTA_E_SHAPE,
            "4 and 8");
    refuses(
        "graph \"t\"\ninput q: f32[b,6,s,4]\ninput k: f32[b,4,t,4]\nnode y: ? = Attention(q, k, k)\noutput "
        "y\n",
        SPARTA_E_SHAPE, "no multiple");
    refuses(
        "graph \"t\"\ninput q: f32[b,6,s,4]\ninput k: f32[b,0,t,4]\nnode y: ? = Attention(q, k, k)\noutput "
        "y\n",
        SPARTA_E_SHAPE, "no multiple");
    refuses(QKV "node y: ? = Attention(q4, k4, v4) {q_num_heads=4}\noutput y\n", SPARTA_E_SHAPE,
            "q_num_heads");
    refuses(QKV "node y: ? = Attention(q, k4, v4) {" HEADS "}\noutput y\n", SPARTA_E_SHAPE,
            "ranks 3, 4 and 4");
    refuses(QKV "node y: ? = Attention(q4, k4, v4, _, pk)\noutput y\n", SPARTA_E_FORMAT, "together");
    refuses(QKV "node y: ? = Attention(q4, k4, v4, _, pv, pv)\noutput y\n", SPARTA_E_SHAPE,
            "columns of the past");
    refuses(QKV "input n: i64[batch]\nnode y: ? = Attention(q4, k4, v4, _, pk, pv, n)\noutput y\n",
            SPARTA_E_FORMAT, "exclude");
    refuses(QKV "input m: f32[s,1]\nnode y: ? = Attention(q4, k4, v4, m)\noutput y\n", SPARTA_E_UNSUPPORTED,
            "one column");
    refuses(QKV "input m: i64[s,t]\nnode y: ? = Attention(q4, k4, v4, m)\noutput y\n", SPARTA_E_DTYPE, "i64");
    refuses(QKV "node y: ? = Attention(q4, k4, v4) {qk_matmul_output_mode=4}\noutput y\n",
            SPARTA_E_UNSUPPORTED, "mode 4");
    refuses(QKV "node y: ? = Attention(q4, k4, v4) {softmax_precision=7}\noutput y\n", SPARTA_E_UNSUPPORTED,
            "softmax_precision");
    refuses(
        "graph \"t\"\ninput x: f32[b,s,4]\ninput w: f32[3]\nnode y: ? = RMSNormalization(x, w)\noutput y\n",
        SPARTA_E_SHAPE, "broadcast");
#define TURN "graph \"t\"\ninput x: f32[b,s,12]\ninput c: f32[10,3]\ninput i: i64[b,s]\n"
    types(TURN "node y: ? = RotaryEmbedding(x, c, c, i) {num_heads=2}\noutput y\n", "y", "f32[b,s,12]");
    refuses(TURN "node y: ? = RotaryEmbedding(x, c, c, i)\noutput y\n", SPARTA_E_SHAPE, "num_heads=0");
    refuses(TURN "node y: ? = RotaryEmbedding(x, c, c, i) {num_heads=5}\noutput y\n", SPARTA_E_SHAPE,
            "do not divide");
    refuses(TURN "node y: ? = RotaryEmbedding(x, c, c, i) {num_heads=4}\noutput y\n", SPARTA_E_SHAPE,
            "pairs");
    refuses(TURN "node y: ? = RotaryEmbedding(x, c, c, i) {num_heads=2, rotary_embedding_dim=8}\noutput y\n",
            SPARTA_E_SHAPE, "pairs");
    refuses(TURN "node y: ? = RotaryEmbedding(x, c, c, i) {num_heads=2, rotary_embedding_dim=-2}\noutput y\n",
            SPARTA_E_SHAPE, "pairs");
    refuses(TURN "node y: ? = RotaryEmbedding(x, c, c, i) {num_heads=2, rotary_embedding_dim=4}\noutput y\n",
            SPARTA_E_SHAPE, "3 and 2");
    refuses(TURN "node y: ? = RotaryEmbedding(x, c, c) {num_heads=2}\noutput y\n", SPARTA_E_SHAPE, "rank 2");
}

static void attention_answers(void **state)
{
    (void)state;
    /* scores are all 0: the mean of the keys that are let through */
#define ZEROS                                                                                                \
    "const q: f32[1,2,3,1] = [0,0,0,0,0,0]\nconst k: f32[1,1,3,1] = [1,2,3]\nconst v: f32[1,1,3,1] = "       \
    "[1,2,6]\n"
    FOLDS(ZEROS "node y: ? = Attention(q, k, v)\n", 3, 3, 3, 3, 3, 3);
    FOLDS(ZEROS "node y: ? = Attention(q, k, v) {is_causal=1}\n", 1, 1.5, 3, 1, 1.5, 3);
    FOLDS(ZEROS "const m: bool[3,2] = [1,0,1,1,0,0]\nnode y: ? = Attention(q, k, v, m)\n", 1, 1.5, NAN, 1,
          1.5, NAN);
    FOLDS(ZEROS "const n: i64[1] = [2]\nnode y: ? = Attention(q, k, v, _, _, _, n)\n", 1.5, 1.5, 1.5, 1.5,
          1.5, 1.5);
    FOLDS("const x: f32[1,1,4] = [1,2,3,4]\nconst c: f32[2,1] = [1,0]\nconst s: f32[2,1] = [0,1]\nconst i: "
          "i64[1,1] = [1]\n"
          "node y: ? = RotaryEmbedding(x, c, s, i) {num_heads=2}\n",
          -2, 1, -4, 3);
    refuses("graph \"t\"\nconst x: f32[1,1,2] = [1,2]\nconst c: f32[2,1] = [1,0]\nconst i: i64[1,1] = [2]\n"
            "node y: ? = RotaryEmbedding(x, c, c, i) {num_heads=1}\noutput y\n",
            SPARTA_E_RANGE, "index 2");
}

/* ------------------------------------------------------------------ memory */
static const char *const everything =
    "graph \"t\"\nconst q: f32[1,2,3,1] = [0,0,0,0,0,0]\nconst k: f32[1,1,3,1] = [1,2,3]\nconst two: i64[1] "
    "= [2]\n"
    "node a: ? = Attention(q, k, k) {is_causal=1}\nnode e: ? = Einsum(a, k) {equation=\"ahsd,agtd->st\"}\n"
    "node t: ?, i: ? = TopK(e, two) {axis=0}\nconst s: f32[] = [0.5]\nnode z: ? = QuantizeLinear(t, s) "
    "{output_dtype=22}\n"
    "node d: ? = DequantizeLinear(z, s)\nnode m: ? = Mean(d, d)\nnode l: ? = ReduceLogSumExp(m)\nnode y: ? = "
    "ArgMax(m)\n"
    "output y\noutput l\noutput i\n";

static void without_memory(void **state)
{
    (void)state;
    for (int n = 1;; n++) {
        sp_graph *g = parse(everything);
        sp_ctx_fail_alloc(cx, (uint64_t)n, false);
        sparta_status status = sp_ops_infer(g);
        sp_ctx_fail_alloc(cx, 0, false);
        sp_graph_free(g);
        sp_ctx_clear(cx);
        if (status == SPARTA_OK) {
            assert_true(n > 10);
            break;
        }
        assert_int_equal(status, SPARTA_E_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(einsum_shapes),     cmocka_unit_test(einsum_lies),
        cmocka_unit_test(einsum_answers),    cmocka_unit_test(einsum_takes_no_years),
        cmocka_unit_test(top_shapes),        cmocka_unit_test(top_lies),
        cmocka_unit_test(top_answers),       cmocka_unit_test(quant_shapes),
        cmocka_unit_test(quant_lies),        cmocka_unit_test(quant_answers),
        cmocka_unit_test(attention_shapes),  cmocka_unit_test(attention_lies),
        cmocka_unit_test(attention_answers), cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
