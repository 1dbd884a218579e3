/* emit: nodes as nests, compiled and run against their references, in rows and on panels. */
#include "unit/emit_bed.h"
#include "ops/close.h"
#include "ops/ops.h"

/* Inputs, the node. Inputs a to d; `c` are constants. */
static const struct {
    const char *inputs, *node;
    int nests; /* how many of rows and panels there are: 0 to 2 */
} cases[] = {
    {"input a: f32[2,5,17]\ninput b: f32[2,5,17]\n", "Add(a, b)", 2},
    {"input a: f32[2,5,17]\ninput b: f32[17]\n", "Sub(a, b)", 1},
    {"input a: f32[2,1,17]\ninput b: f32[5,1]\n", "Mul(a, b)", 1},
    {"input a: f32[2,5,17]\nconst c: f32[17] = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]\n", "Div(a, c)",
     0},
    {"input a: f32[2,5,7]\nconst c: f32[7] = [1,2,3,4,5,6,7]\n", "Div(a, c)", 2},
    {"input a: f32[2,5,7]\nconst c: f32[] = [2]\n", "Pow(a, c)", 2},
    {"input a: f32[2,5,7]\nconst c: f32[1] = [-3]\n", "Pow(a, c)", 2},
    {"input a: f32[2,5,7]\nconst c: i64[] = [3]\n", "Pow(a, c)", 2},
    {"input a: f32[33]\ninput b: f32[33]\n", "Pow(a, b)", 1},
    {"input a: f32[2,5,17]\ninput b: f32[2,5,1]\n", "Div(a, b)", 2},
    {"input a: i32[4,9]\ninput b: i32[4,1]\n", "Mul(a, b)", 1},
    {"input a: i64[4,9]\ninput b: i64[9]\n", "Sub(a, b)", 1},
    {"input a: u8[4,9]\ninput b: u8[9]\n", "Add(a, b)", 1},
    {"input a: i32[4,9]\ninput b: i32[9]\n", "Div(a, b)", 0},
    {"input a: f16[4,9]\ninput b: f16[9]\n", "Mul(a, b)", 1},
    {"input a: bf16[4,9]\ninput b: bf16[9]\n", "Add(a, b)", 1},
    {"input a: f64[4,9]\ninput b: f64[9]\n", "Add(a, b)", 1},
    {"input a: f32[4,9]\ninput b: f32[9]\ninput d: f32[1]\n", "Max(a, b, d)", 1},
    {"input a: f32[4,9]\ninput b: f32[9]\ninput d: f32[1]\n", "Sum(a, b, d)", 1},
    {"input a: f32[4,9]\ninput b: f32[9]\ninput d: f32[1]\n", "Mean(a, b, d)", 1},
    {"input a: f32[4,9]\ninput b: f32[9]\n", "Greater(a, b)", 1},
    {"input a: i64[4,9]\ninput b: i64[9]\n", "LessOrEqual(a, b)", 1},
    {"input a: bool[4,9]\ninput b: bool[4,1]\n", "Xor(a, b)", 1},
    {"input a: bool[4,9]\n", "Not(a)", 1},
    {"input a: bool[4,9]\ninput b: f32[9]\nconst c: f32[] = [-1000]\n", "Where(a, b, c)", 1},
    {"input a: bool[4,9]\ninput b: i64[9]\ninput d: i64[4,1]\n", "Where(a, b, d)", 1},
    {"input a: f32[3,40]\n", "Exp(a)", 2},
    {"input a: f32[3,40]\n", "Erf(a)", 2},
    {"input a: f32[3,40]\n", "Sin(a)", 2},
    {"input a: f32[3,40]\n", "Cos(a)", 2},
    {"input a: f32[3,40]\n", "Log(a)", 2},
    {"input a: f32[3,40]\n", "Sqrt(a)", 2},
    {"input a: f32[3,40]\n", "Softplus(a)", 2},
    {"input a: f32[3,40]\n", "Mish(a)", 2},
    {"input a: f32[3,40]\n", "HardSwish(a)", 2},
    {"input a: f32[3,40]\n", "HardSigmoid(a)", 2},
    {"input a: f32[3,40]\n", "LeakyRelu(a) {alpha=0.1}", 2},
    {"input a: f32[3,40]\n", "Elu(a)", 2},
    {"input a: f32[3,40]\n", "Selu(a)", 2},
    {"input a: f32[3,40]\n", "Softsign(a)", 2},
    {"input a: f32[3,40]\ninput b: f32[40]\n", "PRelu(a, b)", 1},
    {"input a: f32[3,40]\n", "Gelu(a)", 2},
    {"input a: f32[3,40]\n", "Gelu(a) {approximate=\"tanh\"}", 2},
    {"input a: f32[3,40]\n", "IsNaN(a)", 1},
    {"input a: f32[3,40]\n", "Round(a)", 2},
    {"input a: f32[3,40]\nconst c: f32[] = [-1]\nconst d: f32[] = [2]\n", "Clip(a, c, d)", 2},
    {"input a: f32[3,40]\nconst d: f32[] = [2]\n", "Clip(a, _, d)", 2},
    {"input a: i32[3,40]\nconst c: i32[] = [-7]\nconst d: i32[] = [2]\n", "Clip(a, c, d)", 1},
    {"input a: f32[3,40]\n", "Cast(a) {to=7}", 1},
    {"input a: f32[3,40]\n", "Cast(a) {to=6}", 1},
    {"input a: f32[3,40]\n", "Cast(a) {to=3}", 1},
    {"input a: f32[3,40]\n", "Cast(a) {to=10}", 1},
    {"input a: f32[3,40]\n", "Cast(a) {to=9}", 1},
    {"input a: bool[3,40]\n", "Cast(a) {to=1}", 1},
    {"input a: i64[3,40]\n", "Cast(a) {to=1}", 1},
    {"input a: i64[3,40]\n", "Cast(a) {to=2}", 1},
    {"input a: f16[3,40]\n", "Cast(a) {to=1}", 1},
    /* along an axis */
    {"input a: f32[3,5,40]\n", "Softmax(a)", 2},
    {"input a: f32[3,5,40]\n", "Softmax(a) {axis=1}", 1},
    {"input a: f32[3,5,40]\n", "Softmax(a) {axis=0}", 1},
    {"input a: f32[3,5,40]\n", "LogSoftmax(a)", 2},
    {"input a: f32[3,13,2100]\n", "Softmax(a)", 2}, /* lines of more than 256 KiB in lanes */
    {"input a: f32[3,21,1300]\n", "LogSoftmax(a)", 2},
    {"input a: f32[3,5,1]\n", "Softmax(a) {axis=1}", 1},
    {"input a: f32[3,5,40]\nconst c: i64[1] = [-1]\n", "ReduceMean(a, c)", 2},
    {"input a: f32[3,5,40]\nconst c: i64[1] = [1]\n", "ReduceMean(a, c) {keepdims=0}", 1},
    {"input a: f32[3,5,40]\nconst c: i64[2] = [0,2]\n", "ReduceSum(a, c)", 1},
    {"input a: f32[3,5,40]\nconst c: i64[2] = [0,1]\n", "ReduceMax(a, c) {keepdims=0}", 1},
    {"input a: f32[3,5,40]\n", "ReduceMin(a) {keepdims=0}", 1},
    {"input a: f32[3,5,40]\nconst c: i64[1] = [2]\n", "ReduceL2(a, c)", 2},
    {"input a: f32[3,5,40]\nconst c: i64[1] = [2]\n", "ReduceL1(a, c)", 2},
    {"input a: f32[3,5,40]\nconst c: i64[1] = [0]\n", "ReduceSumSquare(a, c)", 1},
    {"input a: f32[3,5,40]\nconst c: i64[1] = [2]\n", "ReduceLogSumExp(a, c)", 2},
    {"input a: i32[3,5,40]\nconst c: i64[1] = [2]\n", "ReduceSum(a, c)", 1},
    {"input a: i64[3,5,40]\nconst c: i64[1] = [1]\n", "ReduceMax(a, c)", 1},
    {"input a: f32[3,5,7]\nconst c: f32[7] = [1,2,3,4,5,6,7]\nconst d: f32[7] = [-1,2,3,4,5,6,7]\n",
     "LayerNormalization(a, c, d)", 2},
    {"input a: f32[3,5,8]\ninput b: f32[5,8]\n", "LayerNormalization(a, b) {axis=1}", 1},
    {"input a: f32[3,5,7]\nconst c: f32[7] = [1,2,3,4,5,6,7]\n", "RMSNormalization(a, c)", 2},
    {"input a: f32[2,6,3,5]\ninput b: f32[6]\ninput d: f32[6]\n", "InstanceNormalization(a, b, d)", 1},
    {"input a: f32[2,6,3,5]\ninput b: f32[6]\ninput d: f32[6]\ninput e: f32[6]\nconst c: f32[6] = "
     "[1,2,3,4,5,6]\n",
     "BatchNormalization(a, b, d, e, c)", 1},
    {"input a: f32[2,6,9]\nconst c: f32[] = [0.05]\nconst d: u8[] = [128]\n", "QuantizeLinear(a, c, d)", 1},
    {"input a: f32[2,6,9]\nconst c: f32[6] = [0.05,1,2,3,4,5]\nconst d: i8[6] = [0,1,2,3,-4,5]\n",
     "QuantizeLinear(a, c, d) {axis=1}", 1},
    {"input a: f32[2,6,9]\nconst c: f32[] = [0.01]\n", "QuantizeLinear(a, c)", 1},
    {"input a: f32[2,6,9]\nconst c: f32[] = [0.004]\nconst d: u8[] = [255]\n", "QuantizeLinear(a, c, d)", 1},
    {"input a: f32[2,6,9]\nconst c: f32[6] = [0.001,0.1,-1,3,4,5]\nconst d: i8[6] = [-128,127,0,3,-4,5]\n",
     "QuantizeLinear(a, c, d) {axis=1}", 1},
    {"input a: i32[2,6,9]\nconst c: f32[] = [0.05]\n", "DequantizeLinear(a, c)", 1},
    {"input a: i32[2,6,9]\nconst c: f32[] = [0.05]\nconst d: i32[] = [1]\n", "DequantizeLinear(a, c, d)", 0},
    {"input a: u8[2,6,9]\nconst c: f32[] = [0.05]\nconst d: u8[] = [128]\n", "DequantizeLinear(a, c, d)", 1},
    {"input a: i8[2,6,9]\nconst c: f32[6] = [0.05,1,2,3,4,5]\nconst d: i8[6] = [0,1,2,3,-4,5]\n",
     "DequantizeLinear(a, c, d) {axis=1}", 1},
    /* moves */
    {"input a: f32[3,5,7]\n", "Transpose(a) {perm=[0,2,1]}", 1},
    {"input a: i64[3,5,7]\n", "Transpose(a) {perm=[1,0,2]}", 1},
    {"input a: bool[3,5,7]\n", "Transpose(a)", 1},
    {"input a: f32[3,1,7]\nconst c: i64[4] = [2,3,5,7]\n", "Expand(a, c)", 1},
};

typedef struct made {
    int at; /* which case */
    bool lanes;
    int slot[SP_NEST_OPERANDS];
    sp_graph *g;
} made;

static sp_graph *graph_of(int i)
{
    sp_graph *g;
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "graph \"g\"\n%snode y: ? = %s \"n\"\noutput y\n", cases[i].inputs, cases[i].node);
    must(sp_graph_parse(cx, sp_text_str(&t), NULL, NULL, &g), cases[i].node);
    must(sp_ops_infer(g), cases[i].node);
    sp_text_free(&t);
    return g;
}

static void fill(sparta_tensor *t, bool special)
{
    static const double odd[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e15, -1e15, 1e-40};
    for (int64_t i = 0, n = sparta_tensor_elements(t); i < n; i++)
        if (sp_dtype_is_float(t->dtype))
            sp_element_set(t->dtype, t->data, i, special && !below(4) ? odd[below(8)] : uniform(-4, 4));
        else
            sp_element_set_int(t->dtype, t->data, i,
                               t->dtype == SPARTA_BOOL ? below(2)
                               : special               ? (int64_t)uniform(-2e9, 2e9)
                                                       : below(100) - 50);
}

/* Rows to one panel of up to 64 tokens, and back. */
static sparta_tensor to_panel(const sparta_tensor *t)
{
    int64_t f = t->dim[t->rank - 1], tokens = sparta_tensor_elements(t) / f;
    sparta_tensor p = {.dtype = SPARTA_F32,
                       .rank = 2,
                       .dim = {tokens, f},
                       .stride = {1, 64},
                       .data = aligned_alloc(64, (size_t)f * 256)};
    memset(p.data, 0, (size_t)f * 256);
    for (int64_t i = 0; i < tokens * f; i++) ((float *)p.data)[i % f * 64 + i / f] = ((float *)t->data)[i];
    return p;
}

static void check_case(const made *m, const sp_nest *n, kernel_fn fn, bool special)
{
    const sp_node *node = m->g->node[0];
    sparta_named_tensor in[8];
    sparta_tensor want, tensor[SP_NEST_OPERANDS] = {0};
    double slack;
    for (int i = 0; i < m->g->n_inputs; i++) {
        int64_t dim[SPARTA_RANK];
        assert_true(sp_dims_const(&m->g->input[i]->dims, dim));
        in[i].name = m->g->input[i]->name;
        must(sp_tensor_alloc(cx, m->g->input[i]->dtype, m->g->input[i]->dims.rank, dim, &in[i].tensor),
             "room");
        fill(&in[i].tensor, special);
    }
    must(sp_ops_answer(cx, m->g, &(sp_answer){in, m->g->n_inputs, &want, &slack}), cases[m->at].node);
    sparta_tensor got = want;
    got.data = calloc((size_t)sparta_tensor_elements(&want) + 1, 8);
    for (int i = 0; i < n->operands; i++) {
        const sp_value *v = sp_node_slot(node, m->slot[i]);
        sparta_tensor t = v->constant ? *v->constant : got;
        for (int k = 0; k < m->g->n_inputs; k++)
            if (v == m->g->input[k]) t = in[k].tensor;
        tensor[i] = n->operand[i].lanes ? to_panel(&t) : t;
    }
    run_nest(n, fn, tensor, 1 + below(3));
    for (int i = 0; i < n->operands; i++) {
        if (!n->operand[i].lanes) continue;
        if (n->operand[i].out)
            for (int64_t k = 0, f = tensor[i].dim[1]; k < f * tensor[i].dim[0]; k++)
                ((float *)got.data)[k] = ((float *)tensor[i].data)[k % f * 64 + k / f];
        free(tensor[i].data);
    }
    sp_closeness c;
    if (!sp_close(&got, &want,
                  &(sp_tolerance){sp_dtype_is_float(want.dtype) && want.dtype != SPARTA_F16 &&
                                          want.dtype != SPARTA_BF16
                                      ? 1e-5
                                      : -1,
                                  -1},
                  slack, &c)) {
        sp_text t;
        sp_text_init(&t, cx);
        sp_nest_print(n, &t);
        for (int64_t k = 0; k < sparta_tensor_elements(&want); k++) {
            const double a = sp_element_get(got.dtype, got.data, k),
                         b = sp_element_get(want.dtype, want.data, k);
            if (a != b && !(a != a && b != b) && !(fabs(a - b) <= c.allowed))
                fail_msg("%s%s: element %d is %.9g in place of %.9g (%s)", cases[m->at].node,
                         special ? ", special" : "", (int)k, a, b, sp_text_str(&t));
        }
        fail_msg("%s: %g apart (%s)", cases[m->at].node, c.max_abs, sp_text_str(&t));
    }
    free(got.data);
    sp_free(cx, want.data);
    for (int i = 0; i < m->g->n_inputs; i++) sp_free(cx, in[i].tensor.data);
}

/* Ordinary numbers, and special ones where their answer is settled. */
static void check_rounds(const made *m, const sp_nest *n, kernel_fn fn)
{
    const char *node = cases[m->at].node;
    const bool open = strstr(node, "Cast") || strstr(node, "Sin") || strstr(node, "Cos");
    for (int round = 0; round < 4; round++) check_case(m, n, fn, round == 3 && !open);
}

enum { BATCH = 20 };
static void test_operators(void **state)
{
    (void)state;
    static sp_nest nests[2 * SP_COUNT(cases)];
    static made all[2 * SP_COUNT(cases)];
    sp_graph *g[SP_COUNT(cases)];
    int n = 0;
    for (int i = 0; i < (int)SP_COUNT(cases); i++) {
        g[i] = NULL;
        if (!cases[i].nests && strstr(cases[i].inputs, "f32[17] =")) continue;
        g[i] = graph_of(i);
        int can_do = 0;
        for (int lanes = 0; lanes < 2; lanes++) {
            bool can;
            must(sp_emit_node(cx, g[i]->node[0], lanes, &nests[n], all[n].slot, &can), cases[i].node);
            if (!can) continue;
            can_do++;
            all[n].at = i;
            all[n].lanes = lanes;
            all[n++].g = g[i];
        }
        if (can_do != cases[i].nests)
            fail_msg("%s%s: %d nests in place of %d", cases[i].inputs, cases[i].node, can_do, cases[i].nests);
    }
    sp_target target[SP_CPU_TARGETS];
    for (int t = 0, known = targets(target); t < known; t++) {
        /* All of them on the best target, some on the others: compilers take their time. */
        static sp_nest batch[BATCH];
        int from[BATCH], count = 0;
        for (int i = 0; i <= n; i++) {
            if (i < n && (!t || i % 5 == t)) {
                from[count] = i;
                batch[count++] = nests[i];
            }
            if (count < (i < n ? BATCH : 1)) continue;
            const sp_object *o = compile_nests(batch, count, target[t]);
            for (int k = 0; k < count; k++) check_rounds(&all[from[k]], &batch[k], symbol_of(o, k));
            sp_jit_close(o);
            count = 0;
        }
    }
    for (int i = 0; i < (int)SP_COUNT(cases); i++) sp_graph_free(g[i]);
}

/* Quantisers differ by their numbers, of which a model has hundreds: their texts do not, or each would be compiled. */
static void test_numbers_of_quantisers(void **state)
{
    (void)state;
    static const char *const number[][2] = {{"0.05", "128"}, {"0.0061764517", "3"}, {"2", "255"}},
                             *const node[][2] = {{"f32", "QuantizeLinear"}, {"u8", "DequantizeLinear"}};
    for (size_t k = 0; k < SP_COUNT(node); k++) {
        char first[512] = "";
        for (size_t i = 0; i < SP_COUNT(number); i++) {
            char text[512];
            sp_graph *g;
            sp_nest nest;
            sp_text printed;
            int slot[SP_NEST_OPERANDS];
            bool can;
            (void)snprintf(text, sizeof text,
                           "graph \"g\"\ninput a: %s[6,9]\nconst c: f32[1] = [%s]\nconst d: u8[1] = [%s]\n"
                           "node y: ? = %s(a, c, d) \"n\"\noutput y\n",
                           node[k][0], number[i][0], number[i][1], node[k][1]);
            must(sp_graph_parse(cx, text, NULL, NULL, &g), text);
            must(sp_ops_infer(g), text);
            must(sp_emit_node(cx, g->node[0], false, &nest, slot, &can), text);
            assert_true(can && nest.operands == 4);
            sp_text_init(&printed, cx);
            sp_nest_print(&nest, &printed);
            if (i) assert_string_equal(sp_text_str(&printed), first);
            (void)snprintf(first, sizeof first, "%s", sp_text_str(&printed));
            sp_text_free(&printed);
            sp_graph_free(g);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operators),
                                       cmocka_unit_test(test_numbers_of_quantisers)};
    return cmocka_run_group_tests(tests, enter, leave);
}
