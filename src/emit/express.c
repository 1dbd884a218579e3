/* Nodes as nests. What works element by element is a row of express.def or a few statements here; reductions, the softmax family and normalisations
 * say which axes stand right of the bar; moves are accesses. */
#include "emit/build.h"
#include "ops/rule.h"
#include <math.h>
#include <string.h>

#define WORD1(word, x)    sp_build_1(b, SP_NEST_##word, x)
#define WORD2(word, x, y) sp_build_2(b, SP_NEST_##word, x, y)
#define NUMBER(v)         sp_build_number(v)

static const bool nothing[SPARTA_RANK];

/* ------------------------------------------------------------------ element by element */
static sp_nest_arg choose(sp_build *b, sp_nest_arg c, sp_nest_arg x, sp_nest_arg y)
{
    return sp_build_statement(b, SP_NEST_where, sp_build_dtype(b->node->out[0]->dtype), c, x, y);
}
static sp_nest_arg less(sp_build *b, sp_nest_arg x, sp_nest_arg y)
{
    return sp_build_statement(b, SP_NEST_less, SPARTA_BOOL, x, y, SP_NONE);
}
static sp_nest_arg between(sp_build *b, sp_nest_arg x, double low, double high)
{
    return WORD2(min, WORD2(max, x, NUMBER(low)), NUMBER(high));
}
static double attribute(const sp_build *b, const char *name, double otherwise)
{
    return sp_attr_float(&b->node->attrs, name, (float)otherwise);
}

/* x^c of a number c that is a product or a root. */
static sp_nest_arg power(sp_build *b, sp_nest_arg x, sp_nest_arg c)
{
    if (c.kind != SP_ARG_NUMBER) return WORD2(pow, x, c);
    if (c.number == 1) return x;
    if (c.number == 2) return WORD2(mul, x, x);
    if (c.number == 3) return WORD2(mul, WORD2(mul, x, x), x);
    if (c.number == 4) {
        const sp_nest_arg q = WORD2(mul, x, x);
        return WORD2(mul, q, q);
    }
    if (c.number == -1) return WORD1(reciprocal, x);
    if (c.number == -2) return WORD1(reciprocal, WORD2(mul, x, x));
    return WORD2(pow, x, c); /* 0.5 too: pow(-inf, .5) is inf, a root NaN */
}

static sp_nest_arg cast(sp_build *b, sp_nest_arg x, sparta_dtype to)
{
    return sp_build_statement(b, SP_NEST_cast, to, x, SP_NONE, SP_NONE);
}

/* A float of another type is read as f32: nothing to do for a power's exponent or a bound. */
static sp_nest_arg input_as(sp_build *b, int i, sparta_dtype as)
{
    const sp_nest_arg x = sp_build_input(b, i);
    if (!b->can || x.kind == SP_ARG_NUMBER || sp_build_dtype(b->node->in[i]->dtype) == as) return x;
    return cast(b, x, as);
}

static sp_nest_arg clip(sp_build *b, sparta_dtype t)
{
    sp_nest_arg v = sp_build_input(b, 0);
    if (sp_ops_has(b->node, 1)) v = sp_build_statement(b, SP_NEST_max, t, v, sp_build_input(b, 1), SP_NONE);
    if (sp_ops_has(b->node, 2)) v = sp_build_statement(b, SP_NEST_min, t, v, sp_build_input(b, 2), SP_NONE);
    return v;
}

/* x or y where x is negative. */
static sp_nest_arg where_negative(sp_build *b, sp_nest_arg x, sp_nest_arg y)
{
    return choose(b, less(b, x, NUMBER(0)), y, x);
}

static bool is_sentence(sp_op_id op)
{
    return SP_OP_AMONG(op, SP_OP_Pow, SP_OP_Clip, SP_OP_Cast, SP_OP_CastLike, SP_OP_Gelu, SP_OP_Mean,
                       SP_OP_Softsign, SP_OP_Mish, SP_OP_HardSwish, SP_OP_HardSigmoid, SP_OP_LeakyRelu,
                       SP_OP_Elu, SP_OP_Selu, SP_OP_PRelu);
}

/* What is not one word. */
static sp_nest_arg sentence(sp_build *b, sparta_dtype t)
{
    const sp_node *n = b->node;
    sp_nest_arg x, y;
    if (n->op == SP_OP_Clip) return clip(b, t);
    if (SP_OP_AMONG(n->op, SP_OP_Cast, SP_OP_CastLike)) {
        x = sp_build_input(b, 0);
        if (x.kind == SP_ARG_NUMBER) b->can = false;
        return cast(b, x, n->out[0]->dtype);
    }
    if (t != SPARTA_F32) b->can = false;
    if (!b->can) return SP_NONE;
    x = sp_build_input(b, 0);
    switch (n->op) {
    case SP_OP_Pow: return power(b, x, input_as(b, 1, SPARTA_F32));
    case SP_OP_Gelu:
        return strcmp(sp_attr_string(&n->attrs, "approximate", "none"), "tanh") ? WORD1(gelu, x)
                                                                                : WORD1(gelu_tanh, x);
    case SP_OP_Mean:
        for (int i = 1; i < n->n_in; i++) x = WORD2(add, x, sp_build_input(b, i));
        return WORD2(div, x, NUMBER(n->n_in));
    case SP_OP_Softsign: return WORD2(div, x, WORD2(add, WORD1(abs, x), NUMBER(1)));
    case SP_OP_Mish: return WORD2(mul, x, WORD1(tanh, WORD1(softplus, x)));
    case SP_OP_HardSwish:
        y = between(b, WORD2(add, WORD2(div, x, NUMBER(6)), NUMBER(.5)), 0, 1);
        return WORD2(mul, x, y);
    case SP_OP_HardSigmoid:
        y = WORD2(mul, x, NUMBER(attribute(b, "alpha", .2f)));
        return between(b, WORD2(add, y, NUMBER(attribute(b, "beta", .5f))), 0, 1);
    case SP_OP_LeakyRelu: return where_negative(b, x, WORD2(mul, x, NUMBER(attribute(b, "alpha", .01f))));
    case SP_OP_Elu:
        return where_negative(b, x, WORD2(mul, WORD1(expm1, x), NUMBER(attribute(b, "alpha", 1))));
    case SP_OP_Selu:
        y = WORD2(mul, WORD1(expm1, x), NUMBER(attribute(b, "alpha", 1.67326319217681884765625f)));
        return WORD2(mul, where_negative(b, x, y), NUMBER(attribute(b, "gamma", 1.05070102214813232421875f)));
    default: /* PRelu */ return where_negative(b, x, WORD2(mul, x, sp_build_input(b, 1)));
    }
}

static bool each(sp_build *b)
{
    static const struct {
        sp_op_id op;
        int word;
        bool turned;
    } rows[] = {
#define SP_EXPRESS(op, word, turned) {SP_OP_##op, SP_NEST_##word, turned},
#include "emit/express.def"
#undef SP_EXPRESS
    };
    const sp_node *n = b->node;
    const sparta_dtype t = sp_build_dtype(n->out[0]->dtype);
    sp_nest_arg v;
    int row = -1;
    for (int i = 0; i < (int)SP_COUNT(rows); i++)
        if (rows[i].op == n->op) row = i;
    if (row < 0 && !is_sentence(n->op)) return false;
    sp_build_loops(b, &n->out[0]->dims, nothing);
    if (row < 0) {
        v = sentence(b, t);
    } else if (rows[row].word == SP_NEST_where) {
        const sp_nest_arg c = sp_build_input(b, 0), x = sp_build_input(b, 1), y = sp_build_input(b, 2);
        v = choose(b, c, x, y);
    } else if (sp_nest_word_row(rows[row].word)->n == 1)
        v = sp_build_statement(b, rows[row].word, t, sp_build_input(b, 0), SP_NONE, SP_NONE);
    else {
        v = sp_build_input(b, 0);
        for (int i = 1; i < n->n_in; i++) {
            const sp_nest_arg x = sp_build_input(b, i);
            v = rows[row].turned ? sp_build_statement(b, rows[row].word, t, x, v, SP_NONE)
                                 : sp_build_statement(b, rows[row].word, t, v, x, SP_NONE);
        }
    }
    sp_build_output(b, 0, NULL, v);
    return true;
}

/* ------------------------------------------------------------------ reductions */
static bool reduced_axes(const sp_build *b, bool *reduced)
{
    const sp_node *n = b->node;
    const int rank = n->in[0]->dims.rank;
    memset(reduced, 0, SPARTA_RANK);
    const sparta_tensor *axes = sp_ops_has(n, 1) ? n->in[1]->constant : NULL;
    if (sp_ops_has(n, 1) && (!axes || !axes->data)) return false;
    const int64_t count = axes ? sparta_tensor_elements(axes) : 0;
    if (!count && sp_attr_int(&n->attrs, "noop_with_empty_axes", 0)) return false;
    for (int i = 0; i < rank; i++) reduced[i] = !count;
    for (int64_t i = 0; i < count; i++) {
        int64_t a = sp_element_get_int(axes->dtype, axes->data, i);
        if (a < 0) a += rank;
        if (a < 0 || a >= rank) return false;
        reduced[a] = true;
    }
    return true;
}

static bool reduce(sp_build *b)
{
    static const struct {
        sp_op_id op;
        int word;
    } rows[] = {{SP_OP_ReduceSum, SP_NEST_sum},       {SP_OP_ReduceMean, SP_NEST_mean},
                {SP_OP_ReduceProd, SP_NEST_prod},     {SP_OP_ReduceMax, SP_NEST_largest},
                {SP_OP_ReduceMin, SP_NEST_smallest},  {SP_OP_ReduceL1, SP_NEST_sum},
                {SP_OP_ReduceSumSquare, SP_NEST_sum}, {SP_OP_ReduceL2, SP_NEST_sum},
                {SP_OP_ReduceLogSum, SP_NEST_sum},    {SP_OP_ReduceLogSumExp, SP_NEST_sum}};
    const sp_node *n = b->node;
    bool reduced[SPARTA_RANK];
    int word = -1, axis[SPARTA_RANK], rank = 0;
    for (size_t i = 0; i < SP_COUNT(rows); i++)
        if (rows[i].op == n->op) word = rows[i].word;
    if (word < 0) return false;
    const sparta_dtype t = sp_build_dtype(n->out[0]->dtype);
    if (!n->in[0] || !n->in[0]->typed || !reduced_axes(b, reduced)) {
        b->can = false;
        return true;
    }
    const bool keep = sp_attr_int(&n->attrs, "keepdims", 1);
    for (int i = 0; i < n->in[0]->dims.rank; i++)
        if (keep || !reduced[i]) axis[rank++] = reduced[i] ? -1 : i;
    if (rank != n->out[0]->dims.rank || (b->lanes && !keep)) b->can = false;
    sp_build_loops(b, &n->in[0]->dims, reduced);
    sp_nest_arg x = sp_build_input(b, 0), v;
    switch (n->op) {
    case SP_OP_ReduceL1: x = sp_build_statement(b, SP_NEST_abs, t, x, SP_NONE, SP_NONE); break;
    case SP_OP_ReduceSumSquare:
    case SP_OP_ReduceL2: x = sp_build_statement(b, SP_NEST_mul, t, x, x, SP_NONE); break;
    case SP_OP_ReduceLogSumExp: {
        if (t != SPARTA_F32) b->can = false;
        /* A maximum that is infinite is not subtracted: the difference would be NaN. */
        const sp_nest_arg most = WORD1(largest, x);
        const sp_nest_arg infinite =
            sp_build_statement(b, SP_NEST_is_inf, SPARTA_BOOL, most, SP_NONE, SP_NONE);
        const sp_nest_arg m = sp_build_statement(b, SP_NEST_where, SPARTA_F32, infinite, NUMBER(0), most);
        v = WORD2(add, WORD1(log, WORD1(sum, WORD1(exp, WORD2(sub, x, m)))), m);
        sp_build_output(b, 0, axis, v);
        return true;
    }
    default: break;
    }
    v = sp_build_statement(b, word, t, x, SP_NONE, SP_NONE);
    if (n->op == SP_OP_ReduceL2) v = t == SPARTA_F32 ? WORD1(sqrt, v) : (b->can = false, v);
    if (n->op == SP_OP_ReduceLogSum) v = t == SPARTA_F32 ? WORD1(log, v) : (b->can = false, v);
    sp_build_output(b, 0, axis, v);
    return true;
}

/* ------------------------------------------------------------------ lines and normalisations */
static bool softmax(sp_build *b)
{
    const sp_node *n = b->node;
    bool reduced[SPARTA_RANK] = {false};
    if (n->op != SP_OP_Softmax && n->op != SP_OP_LogSoftmax) return false;
    const int rank = n->in[0]->dims.rank;
    int64_t axis = sp_attr_int(&n->attrs, "axis", -1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || sp_build_dtype(n->out[0]->dtype) != SPARTA_F32) {
        b->can = false;
        return true;
    }
    reduced[axis] = true;
    sp_build_loops(b, &n->in[0]->dims, reduced);
    const sp_nest_arg x = sp_build_input(b, 0), d = WORD2(sub, x, WORD1(largest, x)), e = WORD1(exp, d),
                      s = WORD1(sum, e);
    sp_build_output(b, 0, NULL,
                    n->op == SP_OP_Softmax ? WORD2(mul, e, WORD1(reciprocal, s))
                                           : WORD2(sub, d, WORD1(log, s)));
    return true;
}

/* (x - mean) / sqrt(variance + epsilon); *mean and *inverse for whoever stores them. The mean of large numbers has an error that counts where they are
 * close to each other: it is what is left as the mean of the differences, which the same phase finds that finds the variance. */
static sp_nest_arg standard(sp_build *b, sp_nest_arg x, bool centred, sp_nest_arg *mean, sp_nest_arg *inverse)
{
    sp_nest_arg d = x, variance;
    if (centred) {
        *mean = WORD1(mean, x);
        const sp_nest_arg apart = WORD2(sub, x, *mean), rest = WORD1(mean, apart);
        variance = WORD1(mean, WORD2(mul, apart, apart));
        variance = WORD2(max, WORD2(sub, variance, WORD2(mul, rest, rest)), NUMBER(0));
        d = WORD2(sub, apart, rest);
        *mean = WORD2(add, *mean, rest);
    } else
        variance = WORD1(mean, WORD2(mul, d, d));
    *inverse = WORD1(rsqrt, WORD2(add, variance, NUMBER(attribute(b, "epsilon", 1e-5f))));
    return WORD2(mul, d, *inverse);
}

static bool normalise_rows(sp_build *b)
{
    const sp_node *n = b->node;
    bool reduced[SPARTA_RANK] = {false};
    sp_nest_arg mean = SP_NONE, inverse;
    if (n->op != SP_OP_LayerNormalization && n->op != SP_OP_RMSNormalization) return false;
    const int rank = n->in[0]->dims.rank;
    int64_t axis = sp_attr_int(&n->attrs, "axis", -1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || sp_build_dtype(n->out[0]->dtype) != SPARTA_F32 ||
        sp_build_dtype(n->in[0]->dtype) != SPARTA_F32) {
        b->can = false;
        return true;
    }
    for (int i = (int)axis; i < rank; i++) reduced[i] = true;
    sp_build_loops(b, &n->in[0]->dims, reduced);
    sp_nest_arg x = sp_build_input(b, 0);
    const sp_nest_arg scale = sp_build_input(b, 1), bias = sp_ops_has(n, 2) ? sp_build_input(b, 2) : SP_NONE;
    x = WORD2(mul, standard(b, x, n->op == SP_OP_LayerNormalization, &mean, &inverse), scale);
    if (sp_ops_has(n, 2)) x = WORD2(add, x, bias);
    sp_build_output(b, 0, NULL, x);
    int outer[SPARTA_RANK];
    for (int i = 0; i < rank; i++) outer[i] = i < axis ? i : -1;
    for (int o = 1; o < n->n_out && b->can; o++)
        if (n->out[o]) sp_build_output(b, o, outer, o == 1 ? mean : inverse);
    return true;
}

/* x (N, C, ...) by channels: BatchNormalization has what it divides by, InstanceNormalization takes it of each channel. */
static bool normalise_channels(sp_build *b)
{
    const sp_node *n = b->node;
    bool reduced[SPARTA_RANK] = {false};
    static const int channel[] = {1};
    sp_nest_arg mean, inverse, v;
    if (n->op != SP_OP_BatchNormalization && n->op != SP_OP_InstanceNormalization) return false;
    const int rank = n->in[0]->dims.rank;
    if (rank < 3 || n->out[0]->dtype != SPARTA_F32 || b->lanes) {
        b->can = false;
        return true;
    }
    for (int i = 2; i < rank; i++) reduced[i] = n->op == SP_OP_InstanceNormalization;
    sp_build_loops(b, &n->in[0]->dims, reduced);
    const sp_nest_arg x = sp_build_input(b, 0), scale = sp_build_input_at(b, 1, channel),
                      bias = sp_build_input_at(b, 2, channel);
    if (n->op == SP_OP_InstanceNormalization)
        v = WORD2(add, WORD2(mul, standard(b, x, true, &mean, &inverse), scale), bias);
    else {
        mean = sp_build_input_at(b, 3, channel);
        inverse = WORD1(rsqrt,
                        WORD2(add, sp_build_input_at(b, 4, channel), NUMBER(attribute(b, "epsilon", 1e-5f))));
        v = WORD2(add, WORD2(mul, WORD2(sub, x, mean), WORD2(mul, scale, inverse)), bias);
    }
    sp_build_output(b, 0, NULL, v);
    return true;
}

/* ------------------------------------------------------------------ quantisation: one scale, or one for each index of an axis */
static sp_nest_arg of_axis(sp_build *b, int i)
{
    const sp_node *n = b->node;
    const sp_value *v = n->in[i];
    int64_t axis = sp_attr_int(&n->attrs, "axis", 1);
    if (axis < 0) axis += n->in[0]->dims.rank;
    const int at[] = {(int)axis};
    if (v->dims.rank == 0 || (v->dims.rank == 1 && sp_expr_is(v->dims.dim[0], 1)))
        return sp_build_parameter(b, i);
    if (v->dims.rank != 1 || axis >= n->in[0]->dims.rank) b->can = false;
    return b->can ? sp_build_input_at(b, i, at) : SP_NONE;
}

static bool quantise(sp_build *b)
{
    const sp_node *n = b->node;
    if (n->op != SP_OP_QuantizeLinear && n->op != SP_OP_DequantizeLinear) return false;
    const bool to = n->op == SP_OP_QuantizeLinear;
    const sparta_dtype whole = to ? n->out[0]->dtype : n->in[0]->dtype;
    if (b->lanes || sp_attr_int(&n->attrs, "block_size", 0) || sp_attr_int(&n->attrs, "precision", 0) ||
        (to ? n->in[0] : n->out[0])->dtype != SPARTA_F32 || n->in[1]->dtype != SPARTA_F32 ||
        (whole != SPARTA_U8 && whole != SPARTA_I8 && whole != SPARTA_I32) || (to && whole == SPARTA_I32)) {
        b->can = false;
        return true;
    }
    sp_build_loops(b, &n->out[0]->dims, nothing);
    const sp_nest_arg x = sp_build_input(b, 0), scale = of_axis(b, 1);
    sp_nest_arg zero = sp_ops_has(n, 2) ? of_axis(b, 2) : NUMBER(0), v;
    const bool numbered = zero.kind == SP_ARG_NUMBER;
    if (whole == SPARTA_I32 && (!numbered || zero.number)) b->can = false; /* the difference needs 33 bits */
    const sp_nest_arg shift = numbered ? zero : cast(b, zero, SPARTA_I32);
    if (to) {
        /* Limits before the zero point is added: it is a whole number. */
        const double low = (double)sp_dtype_lowest(whole), high = (double)sp_dtype_highest(whole);
        if (!numbered) zero = cast(b, zero, SPARTA_F32);
        v = sp_build_of(b, SP_NEST_steps, SPARTA_I32,
                        (const sp_nest_arg[]){
                            x, scale, numbered ? NUMBER(low - zero.number) : WORD2(sub, NUMBER(low), zero),
                            numbered ? NUMBER(high - zero.number) : WORD2(sub, NUMBER(high), zero)});
        if (!numbered || zero.number) v = sp_build_statement(b, SP_NEST_add, SPARTA_I32, v, shift, SP_NONE);
        v = cast(b, v, whole);
    } else {
        v = whole == SPARTA_I32 ? x : cast(b, x, SPARTA_I32);
        if (!numbered || zero.number) v = sp_build_statement(b, SP_NEST_sub, SPARTA_I32, v, shift, SP_NONE);
        v = WORD2(mul, cast(b, v, SPARTA_F32), scale);
    }
    sp_build_output(b, 0, NULL, v);
    return true;
}

/* ------------------------------------------------------------------ moves */
static bool move(sp_build *b)
{
    const sp_node *n = b->node;
    int axis[SPARTA_RANK];
    if (n->op != SP_OP_Transpose && n->op != SP_OP_Expand) return false;
    const int rank = n->out[0]->dims.rank;
    if (b->lanes || !n->in[0]) {
        b->can = false;
        return true;
    }
    sp_build_loops(b, &n->out[0]->dims, nothing);
    if (n->op == SP_OP_Expand) {
        sp_build_output(b, 0, NULL, sp_build_input(b, 0));
        return true;
    }
    const sp_attr *perm = sp_attr_find(&n->attrs, "perm");
    for (int i = 0; i < rank; i++) {
        const int64_t from = perm && perm->n == rank ? perm->ints[i] : rank - 1 - i;
        if (from < 0 || from >= rank)
            b->can = false;
        else
            axis[from] = i;
    }
    sp_build_output(b, 0, NULL, b->can ? sp_build_input_at(b, 0, axis) : SP_NONE);
    return true;
}

/* ------------------------------------------------------------------ one node */
sparta_status sp_emit_node(sparta_ctx *cx, const sp_node *n, bool lanes, sp_nest *out, int *slot, bool *can)
{
    static bool (*const ways[])(sp_build *) = {each,     reduce, softmax, normalise_rows, normalise_channels,
                                               quantise, move};
    sp_build b = {.node = n, .lanes = lanes, .out = out, .slot = slot, .can = true};
    bool known = false;
    *can = false;
    *out = (sp_nest){0};
    if (!n->n_in || !n->in[0] || !n->in[0]->typed || !n->n_out || !n->out[0] || !n->out[0]->typed)
        return SPARTA_OK;
    for (size_t i = 0; i < SP_COUNT(ways) && !known; i++) known = ways[i](&b);
    if (!known || !b.can || !sp_nest_inputs(out)) return SPARTA_OK;
    if (lanes)
        for (int i = 0; i < out->operands; i++)
            if (out->operand[i].dtype != SPARTA_F32) return SPARTA_OK;
    /* What words do not have for these types, and nothing else, is found here. */
    if (sp_nest_check(cx, out) != SPARTA_OK) {
        sp_ctx_clear(cx);
        return SPARTA_OK;
    }
    sp_nest_phases(out);
    *can = true;
    return SPARTA_OK;
}
