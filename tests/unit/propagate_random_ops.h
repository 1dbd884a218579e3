/* The operators of random models: one row for each, with how often and who makes it.
 *
 * A maker chooses operands from what there is, makes constants, and appends a node or a few; where nothing fits it gives
 * up. Operators that the build does not have are never drawn. The soundness test fails for an operator without a row. */
#ifndef SP_TESTS_PROPAGATE_RANDOM_OPS_H
#define SP_TESTS_PROPAGATE_RANDOM_OPS_H

#include "propagate_random.h"
#include "propagate_random_moves.h"

/* ------------------------------------------------------------------ element by element */
static inline bool make_unary(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 5);
    return x && put1(d, op, x, SP_MAX(reach_of(d, x), 2));
}

/* Arguments that could be too large or of the wrong sign: into [-1, 1] first, or made positive. */
static inline bool make_small(draw *d, const char *op)
{
    sp_value *x = tame(d, draw_float(d, 0, 5), 1);
    return x && put1(d, op, x, 3);
}

static inline bool make_positive(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 5), *y = x;
    if (x && !d->wild) y = put1(d, "Abs", x, reach_of(d, x));
    sp_value *one = y && !d->wild && strcmp(op, "Sqrt") ? put_scalar(d, y->dtype, 0.5) : NULL;
    if (one) y = put2(d, "Add", y, one, reach_of(d, x) + 1);
    return y && put1(d, op, y, SP_MAX(reach_of(d, x), 2));
}

static inline double reach_binary(const char *op, double a, double b)
{
    return !strcmp(op, "Mul")                         ? a * b
           : !strcmp(op, "Div")                       ? 4 * a
           : !strcmp(op, "Add") || !strcmp(op, "Sub") ? a + b
                                                      : SP_MAX(a, b);
}

/* With a constant, on either side. */
static inline bool make_with_constant(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 5), *c = x ? draw_beside(d, x) : NULL;
    if (!c) return false;
    double reach = reach_binary(op, reach_of(d, x), reach_of(d, c));
    return roll(d, 4) ? put2(d, op, x, c, reach) : put2(d, op, c, x, reach);
}

static inline bool make_binary(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 5), *y = x ? draw_partner(d, x) : NULL;
    if (roll(d, 3) == 0 || !y) return make_with_constant(d, op);
    return put2(d, op, x, y, reach_binary(op, reach_of(d, x), reach_of(d, y)));
}

/* What divides is a constant other than 0, or positive. */
static inline bool make_divide(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 5), *y;
    if (!x) return false;
    if (d->wild) return make_binary(d, op);
    if (roll(d, 2)) {
        float by[8];
        int64_t n = x->dims.rank ? size_of(x, x->dims.rank - 1) : -1;
        if (n > 8 || n < 1 || x->dtype != SPARTA_F32) return false;
        for (int i = 0; i < 8; i++) by[i] = (float)(1 + roll(d, 3)) / (roll(d, 2) ? 2 : -2);
        sparta_tensor t = sparta_tensor_view(SPARTA_F32, 1, &n, by);
        y = put_constant(d, &t, 1.5);
    } else {
        sp_value *s = put1(d, "Abs", x, reach_of(d, x)), *c = s ? put_scalar(d, s->dtype, 0.25) : NULL;
        y = c ? put2(d, "Add", s, c, reach_of(d, x) + 1) : NULL;
    }
    return y && put2(d, op, x, y, reach_of(d, x) * (strcmp(op, "Mod") ? 4 : 1));
}

static inline bool make_mod(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 4), *by = x ? put_scalar(d, x->dtype, 1.5) : NULL;
    const sp_attr attr[] = {DRAW_INT("fmod", 1)};
    return by && put_node(d, op, 2, (sp_value *[]){x, by}, 2, 1, attr);
}

static inline bool make_pow(draw *d, const char *op)
{
    sp_value *x = tame(d, draw_float(d, 0, 4), 2), *by = !x ? NULL
                                                         : roll(d, 2)
                                                             ? draw_switch(d, x, x->dtype)
                                                             : put_scalar(d, x->dtype, (double)roll(d, 4));
    return by && put2(d, op, x, by, 8);
}

static inline bool make_many(draw *d, const char *op)
{
    sp_value *in[4] = {draw_float(d, 0, 5)};
    int n = 1 + (int)roll(d, 3);
    if (!in[0]) return false;
    double reach = reach_of(d, in[0]);
    for (int i = 1; i < n; i++) {
        sp_value *y = roll(d, 2) ? draw_partner(d, in[0]) : draw_beside(d, in[0]);
        if (!y) return false;
        in[i] = y;
        reach += reach_of(d, y);
    }
    return put_node(d, op, n, in, reach, 0, NULL);
}

static inline bool make_clip(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 5);
    if (!x) return false;
    sp_value *low = roll(d, 2) ? put_scalar(d, x->dtype, -1.0 + (double)roll(d, 2) * 1.5) : NULL,
             *high = roll(d, 2) || !low ? put_scalar(d, x->dtype, 2) : NULL;
    return put_node(d, op, 3, (sp_value *[]){x, low, high}, reach_of(d, x) + 2, 0, NULL);
}

static inline bool make_prelu(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 5);
    if (!x) return false;
    int axis = (int)roll(d, (unsigned)x->dims.rank);
    int64_t dim[SPARTA_RANK];
    for (int i = axis; i < x->dims.rank; i++)
        dim[i - axis] = i == axis && size_of(x, i) > 0 ? size_of(x, i) : 1;
    sp_value *slope = draw_constant(d, x->dtype, x->dims.rank - axis, dim);
    return slope && put2(d, op, x, slope, 2 * reach_of(d, x));
}

/* ------------------------------------------------------------------ booleans and types */
static inline bool make_compare(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 4), *y = x ? roll(d, 2) ? draw_beside(d, x) : draw_partner(d, x) : NULL;
    return y && put2(d, op, x, y, 1);
}

static inline bool make_logic(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_BOOL, 0, 4), *y = NULL;
    unsigned kind = roll(d, 3);
    if (x)
        y = kind == 0 ? draw_beside(d, x) : kind == 1 ? draw_switch(d, x, SPARTA_BOOL) : draw_partner(d, x);
    return y && (roll(d, 2) ? put2(d, op, x, y, 1) : put2(d, op, y, x, 1));
}

static inline bool make_not(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_BOOL, 0, 4);
    return x && put1(d, op, x, 1);
}

static inline bool make_where(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 4), *y = x ? roll(d, 2) ? draw_beside(d, x) : draw_partner(d, x) : NULL,
             *c = NULL;
    if (!y) return false;
    for (int tries = 0; tries < 20 && !c; tries++) {
        sp_value *v = d->value[roll(d, (unsigned)d->n)];
        if (v->dtype == SPARTA_BOOL && v->dims.rank <= x->dims.rank) c = v;
    }
    if (roll(d, 2)) c = draw_switch(d, x, SPARTA_BOOL);
    if (!c || roll(d, 6) == 0) {
        int64_t dim[1] = {x->dims.rank ? SP_MAX(size_of(x, x->dims.rank - 1), 1) : 1};
        c = draw_constant(d, SPARTA_BOOL, x->dims.rank ? 1 : 0, dim);
    }
    double reach = SP_MAX(reach_of(d, x), reach_of(d, y));
    return c &&
           put_node(d, op, 3, roll(d, 2) ? (sp_value *[]){c, x, y} : (sp_value *[]){c, y, x}, reach, 0, NULL);
}

static inline bool make_cast(draw *d, const char *op)
{
    static const sparta_dtype types[] = {SPARTA_F32, SPARTA_F32, SPARTA_F32,  SPARTA_F64, SPARTA_I64,
                                         SPARTA_I32, SPARTA_F16, SPARTA_BOOL, SPARTA_I8};
    sp_value *x = tame(d, draw_value(d, SP_DTYPES, 0, 5), 32);
    sparta_dtype to = types[roll(d, SP_COUNT(types))];
    const sp_attr attr[] = {DRAW_INT("to", sp_dtype_to_onnx(to))};
    if (!x || (d->wild && !sp_dtype_is_float(to) && to != SPARTA_BOOL))
        return false; /* what a NaN is as an integer nobody says */
    return put_node(d, op, 1, &x, reach_of(d, x), 1, attr);
}

static inline bool make_castlike(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 0, 5),
             *y = draw_value(d, roll(d, 2) ? SPARTA_F32 : SPARTA_F64, 0, 5);
    return x && y && put2(d, op, x, y, reach_of(d, x));
}

static inline bool make_any_unary(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 0, 5);
    return x && put1(d, op, x, reach_of(d, x));
}

static inline bool make_round_trip(draw *d, const char *op)
{
    sp_value *x = tame(d, draw_float(d, 1, 4), 32);
    if (!x || x->dtype != SPARTA_F32 || !draw_find("DequantizeLinear")) return false;
    static const char *const types[] = {"i8", "u8", "i4", "u4"};
    sparta_dtype type;
    if (!sp_dtype_parse(types[roll(d, 4)], &type)) return false;
    int axis = roll(d, 2) ? draw_axis(d, x, 1) : -1;
    float scale[64];
    int64_t n = axis >= 0 ? size_of(x, axis) : 1;
    if (n > 64) return false;
    for (int i = 0; i < 64; i++) scale[i] = (float)(1 + roll(d, 4)) / 16;
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, axis >= 0, &n, scale);
    if (roll(d, 8) == 0) scale[roll(d, (unsigned)n)] = roll(d, 2) ? 0.0f : -0.0f;
    sp_value *s = put_constant(d, &t, 1), *zero = draw_constant(d, type, axis >= 0, &n), *q;
    const sp_attr attr[] = {DRAW_INT("axis", axis)};
    if (!s || !zero) return false;
    q = put_node(d, op, 3, (sp_value *[]){x, s, zero}, 127, axis >= 0, attr);
    if (q && roll(d, 3) == 0 && q->dims.rank == 2) { /* a mover between them */
        const sp_attr perm[] = {DRAW_INTS("perm", 2, ((int64_t[]){0, 1}))};
        q = put_node(d, "Transpose", 1, &q, 127, 1, perm);
    }
    return q && put_node(d, "DequantizeLinear", 3, (sp_value *[]){q, s, zero}, 32, axis >= 0, attr);
}

/* ------------------------------------------------------------------ products */
static inline bool make_matmul(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4), *w;
    if (!x || size_of(x, x->dims.rank - 1) < 1) return false;
    int64_t k = size_of(x, x->dims.rank - 1), n = 1 + roll(d, 8), dim[3];
    unsigned kind = roll(d, 12);
    double reach = (double)k * 2 * reach_of(d, x);
    if (kind == 0 && x->dims.rank >= 2) { /* x x^T */
        int64_t perm[SPARTA_RANK];
        int rank = x->dims.rank;
        for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
        const sp_attr attr[] = {DRAW_INTS("perm", rank, perm)};
        w = put_node(d, "Transpose", 1, &x, reach_of(d, x), 1, attr);
        return w && put2(d, op, x, w, (double)k * reach_of(d, x) * reach_of(d, x));
    }
    if (kind == 1) { /* the weight on the left */
        if (x->dims.rank < 2 || size_of(x, x->dims.rank - 2) < 1) return false;
        w = draw_constant(d, x->dtype, 2, (int64_t[]){n, size_of(x, x->dims.rank - 2)});
        return w && put2(d, op, w, x, (double)size_of(x, x->dims.rank - 2) * 2 * reach_of(d, x));
    }
    if (kind == 2) {
        w = draw_vector(d, x->dtype, k);
        return w && put2(d, op, x, w, reach);
    }
    if (kind == 3 && x->dims.rank == 3 && size_of(x, 0) > 0) {
        dim[0] = size_of(x, 0), dim[1] = k, dim[2] = n;
        w = draw_constant(d, x->dtype, 3, dim);
        return w && put2(d, op, x, w, reach);
    }
    w = draw_constant(d, x->dtype, 2, (int64_t[]){k, n});
    return w && put2(d, op, x, w, reach);
}

static inline bool make_gemm(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 2, 2), *w, *c = NULL;
    int ta = roll(d, 4) == 0, tb = (int)roll(d, 2);
    if (!x || size_of(x, !ta) < 1) return false;
    int64_t k = size_of(x, !ta), n = 1 + roll(d, 8);
    w = draw_constant(d, x->dtype, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n});
    if (roll(d, 3)) c = roll(d, 3) ? draw_vector(d, x->dtype, n) : draw_vector(d, x->dtype, 1);
    static const float scales[] = {1, 1, 0.5f, -2, 0};
    const sp_attr attr[] = {DRAW_INT("transA", ta), DRAW_INT("transB", tb),
                            DRAW_FLOAT("alpha", scales[roll(d, 5)]), DRAW_FLOAT("beta", scales[roll(d, 5)])};
    return w &&
           put_node(d, op, c ? 3 : 2, (sp_value *[]){x, w, c}, (double)k * 4 * reach_of(d, x) + 4, 4, attr);
}

static inline bool make_linear(draw *d, const char *op)
{
    static const char *const functions[] = {"", "", "relu", "gelu", "tanh"};
    char epilogue[32];
    sp_value *x = draw_float(d, 1, 4), *w, *bias, *residual = NULL;
    if (!x || size_of(x, x->dims.rank - 1) < 1) return false;
    int64_t k = size_of(x, x->dims.rank - 1), n = roll(d, 2) ? k : 1 + roll(d, 8);
    int transposed = (int)roll(d, 2);
    w = draw_constant(d, x->dtype, 2, transposed ? (int64_t[]){n, k} : (int64_t[]){k, n});
    bias = roll(d, 2) ? draw_vector(d, x->dtype, n) : NULL;
    if (n == k && roll(d, 3) == 0) residual = x;
    snprintf(epilogue, sizeof epilogue, "%s %s %s", bias ? "bias" : "", functions[roll(d, 5)],
             residual ? "add" : "");
    const sp_attr attr[] = {DRAW_INT("transposed", transposed), DRAW_STRING("epilogue", epilogue)};
    return w && put_node(d, op,
                         residual ? 4
                         : bias   ? 3
                                  : 2,
                         (sp_value *[]){x, w, bias, residual}, (double)(k + 1) * 3 * reach_of(d, x), 2, attr);
}

static inline bool make_attention(draw *d, const char *op)
{
    sp_value *x = tame(d, draw_float(d, 3, 3), 8), *in[4] = {NULL};
    if (!x || x->dtype != SPARTA_F32 || size_of(x, 2) < 1) return false;
    int64_t c = size_of(x, 2), heads = 1 + roll(d, 4);
    for (int i = 0; i < 3; i++) {
        const int64_t columns = i == 2 && c % 2 ? 12 : 8; /* heads of v may have another width */
        sp_value *w = draw_constant(d, SPARTA_F32, 2, (int64_t[]){c, columns}),
                 *p = w ? put2(d, "MatMul", x, w, 2 * (double)c * reach_of(d, x)) : NULL;
        sp_value *b = p ? draw_vector(d, SPARTA_F32, columns) : NULL;
        in[i] = b ? tame(d, put2(d, "Add", p, b, 2 + reach_of(d, p)), 8) : NULL;
        if (!in[i]) return false;
    }
    heads = heads == 3 ? 4 : heads;
    if (!strncmp(op, "sparta::", 8)) {
        const sp_attr attr[] = {DRAW_INT("heads", heads), DRAW_FLOAT("scale", 0.5f)};
        return put_node(d, op, 3, in, 8, 2, attr);
    }
    const sp_attr attr[] = {DRAW_INT("q_num_heads", heads), DRAW_INT("kv_num_heads", heads),
                            DRAW_INT("is_causal", roll(d, 2))};
    return put_node(d, op, 3, in, 8, 3, attr);
}

static inline bool make_einsum(draw *d, const char *op)
{
    static const struct {
        const char *equation;
        int rank,
            other; /* the first operand is drawn, the second has the last dims of it: its rank, or -1 for none */
    } forms[] = {{"ij,jk->ik", 2, 2},    {"ij->ji", 2, -1},  {"ij->i", 2, -1},     {"bij,jk->bik", 3, 2},
                 {"bij,kj->bki", 3, -2}, {"ij,j->ij", 2, 1}, {"...j,j->...", 2, 1}};
    unsigned f = roll(d, SP_COUNT(forms));
    sp_value *x = draw_float(d, forms[f].rank, forms[f].rank), *w = NULL;
    const sp_attr attr[] = {DRAW_STRING("equation", forms[f].equation)};
    if (!x || size_of(x, x->dims.rank - 1) < 1) return false;
    int64_t k = size_of(x, x->dims.rank - 1), n = 1 + roll(d, 6);
    if (forms[f].other == 2) w = draw_constant(d, x->dtype, 2, (int64_t[]){k, n});
    if (forms[f].other == -2) w = draw_constant(d, x->dtype, 2, (int64_t[]){n, k});
    if (forms[f].other == 1) w = draw_vector(d, x->dtype, k);
    return put_node(d, op, w ? 2 : 1, (sp_value *[]){x, w}, (double)k * 2 * reach_of(d, x), 1, attr);
}

static inline bool make_interact(draw *d, const char *op)
{
    sp_value *x = tame(d, draw_float(d, 2, 2), 8), *y = NULL;
    for (int i = 0; x && i < d->n && !y; i++)
        if (d->value[i] != x && d->value[i]->dtype == x->dtype && sp_dims_equal(&d->value[i]->dims, &x->dims))
            y = tame(d, d->value[i], 8);
    if (!y || size_of(x, 1) < 1) return false;
    int64_t pairs[] = {1, 0, 1, 1};
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){2, 2}, pairs);
    sp_value *p = put_constant(d, &t, 1);
    const sp_attr attr[] = {DRAW_INT("keep", (int64_t)roll(d, 3) - 1)};
    return p && put_node(d, op, 3, (sp_value *[]){x, y, p}, 64 * (double)size_of(x, 1), 1, attr);
}

static inline bool make_embed(draw *d, const char *op)
{
    sp_value *ids = draw_value(d, SPARTA_I64, 1, 2), *table = NULL;
    if (!ids || !ids->is_input) return false;
    table = draw_constant(d, SPARTA_F32, 2, (int64_t[]){4 + roll(d, 3), 4 + 2 * roll(d, 3)});
    return table && put2(d, op, table, ids, 2);
}

/* Columns that indices choose (0 to 3), for each pair of a query and a key; of the keys' rows, too, now and then. */
static inline bool make_relative(draw *d, const char *op)
{
    sp_value *c = draw_value(d, SPARTA_F32, 3, 3), *in[4];
    if (!c || size_of(c, 1) < 1 || size_of(c, 2) < 4) return false;
    const int64_t heads = size_of(c, 2) >= 8 && size_of(c, 2) % 2 == 0 ? 2 : 1, keys = 1 + roll(d, 4);
    in[0] = c;
    in[1] = draw_constant(d, SPARTA_I64, 2, (int64_t[]){size_of(c, 1), keys});
    const bool both = size_of(c, 0) > 0 && roll(d, 2);
    in[2] = both ? draw_constant(d, SPARTA_F32, 3, (int64_t[]){size_of(c, 0), keys, 4 * heads}) : NULL;
    in[3] = both ? draw_constant(d, SPARTA_I64, 2, (int64_t[]){keys, size_of(c, 1)}) : NULL;
    if (!in[1] || (both && (!in[2] || !in[3]))) return false;
    const sp_attr attr[] = {DRAW_INT("heads", heads), DRAW_FLOAT("scale", .5f)};
    return put_node(d, op, both ? 4 : 2, in, reach_of(d, c) + 2, 2, attr);
}

/* Blocks of keys for blocks of queries, each other's or their own. */
static inline bool make_route(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_F32, 3, 3), *in[2] = {x, x};
    if (!x || size_of(x, 0) < 1 || size_of(x, 1) < 1 || size_of(x, 2) < 1) return false;
    const int64_t own = roll(d, 2);
    if (!own)
        in[1] = draw_constant(d, SPARTA_F32, 3, (int64_t[]){size_of(x, 0), 1 + roll(d, 6), size_of(x, 2)});
    if (!in[1]) return false;
    const sp_attr attr[] = {DRAW_INT("heads", size_of(x, 2) % 2 ? 1 : 2), DRAW_INT("block", 1 + roll(d, 3)),
                            DRAW_INT("keep", 1 + roll(d, 3)), DRAW_INT("own", own)};
    return put_node(d, op, 2, in, 16, 4, attr);
}

/* ------------------------------------------------------------------ windows */
static inline bool make_conv(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 3, 5), *w, *bias;
    bool up = !strcmp(op, "ConvTranspose");
    if (!x || size_of(x, 1) < 1) return false;
    int spatial = x->dims.rank - 2;
    int64_t c = size_of(x, 1), group = roll(d, 3) ? 1 : roll(d, 2) ? c : c % 2 ? 1 : 2, each = 1 + roll(d, 3);
    int64_t dim[SPARTA_RANK], stride[3], dilation[3], pads[6], m = group * each;
    dim[0] = up ? c : m, dim[1] = up ? each : c / group;
    for (int i = 0; i < spatial; i++) {
        int64_t size = size_of(x, 2 + i);
        dim[2 + i] = 1 + roll(d, (unsigned)SP_MIN(SP_MAX(size, 1), 3));
        stride[i] = 1 + (roll(d, 3) == 0), dilation[i] = 1 + (roll(d, 6) == 0);
        pads[i] = roll(d, 2) ? 0 : (int64_t)roll(d, (unsigned)dim[2 + i]), pads[spatial + i] = pads[i];
        if (size > 8) return false;
    }
    w = draw_constant(d, x->dtype, spatial + 2, dim);
    bias = roll(d, 2) ? draw_vector(d, x->dtype, m) : NULL;
    const sp_attr attr[] = {DRAW_INT("group", group), DRAW_INTS("strides", spatial, stride),
                            DRAW_INTS("dilations", spatial, dilation), DRAW_INTS("pads", 2 * spatial, pads)};
    int64_t terms = c;
    for (int i = 0; i < spatial; i++) terms *= dim[2 + i];
    return w && put_node(d, op, bias ? 3 : 2, (sp_value *[]){x, w, bias},
                         2 * (double)terms * reach_of(d, x) + 2, 4, attr);
}

static inline bool make_pool(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 3, 5);
    int64_t kernel[3], stride[3], pads[6];
    if (!x) return false;
    int spatial = x->dims.rank - 2;
    for (int i = 0; i < spatial; i++) {
        int64_t size = size_of(x, 2 + i);
        if (size < 1) return false;
        kernel[i] = 1 + roll(d, (unsigned)SP_MIN(size, 3)), stride[i] = 1 + roll(d, 2);
        pads[i] = pads[spatial + i] = kernel[i] > 1 ? roll(d, 2) : 0;
    }
    const sp_attr attr[] = {DRAW_INTS("kernel_shape", spatial, kernel), DRAW_INTS("strides", spatial, stride),
                            DRAW_INTS("pads", 2 * spatial, pads)};
    return put_node(d, op, 1, &x, 32 * reach_of(d, x), 3, attr);
}

static inline bool make_global_pool(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 3, 5);
    return x && put1(d, op, x, 64 * reach_of(d, x));
}

/* Positive numbers that nothing masks: variances. */
static inline sp_value *put_positive(draw *d, sparta_dtype dtype, int64_t n)
{
    double data[64];
    sparta_tensor t = sparta_tensor_view(dtype, 1, &n, data);
    if (n < 1 || n > 64) return NULL;
    for (int64_t i = 0; i < n; i++) sp_element_set(dtype, data, i, 0.25 * (1 + roll(d, 8)));
    return put_constant(d, &t, 3);
}

static inline bool make_batch_norm(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 2, 5), *in[5];
    if (!x || size_of(x, 1) < 1) return false;
    in[0] = x;
    int64_t c = size_of(x, 1);
    in[1] = draw_scale(d, x->dtype, 1, &c);
    for (int i = 2; i < 4; i++) in[i] = draw_vector(d, x->dtype, c);
    in[4] = put_positive(d, x->dtype, size_of(x, 1));
    return in[4] && put_node(d, op, 5, in, 8 * reach_of(d, x) + 8, 0, NULL);
}

/* Normalisations over the spatial axes of a channel or of a group of them. */
static inline bool make_channel_norm(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 3, 5), *in[3];
    if (!x || size_of(x, 1) < 1) return false;
    int64_t c = size_of(x, 1);
    in[0] = x, in[1] = draw_scale(d, x->dtype, 1, &c), in[2] = draw_vector(d, x->dtype, c);
    const sp_attr attr[] = {DRAW_INT("num_groups", c % 2 ? 1 : 2)};
    return put_node(d, op, 3, in, 20, !strcmp(op, "GroupNormalization"), attr);
}

static inline bool make_pad(draw *d, const char *op)
{
    static const char *const modes[] = {"constant", "constant", "reflect", "edge"};
    sp_value *x = draw_float(d, 1, 4);
    int axis = x ? draw_axis(d, x, 2) : -1;
    if (axis < 0) return false;
    int64_t pads[2] = {roll(d, 2), roll(d, 3) - (int64_t)(roll(d, 6) == 0)}, axes[1] = {axis};
    sp_value *p = put_ints(d, 2, pads), *a = put_ints(d, 1, axes),
             *fill = roll(d, 2) ? put_scalar(d, x->dtype, 1) : NULL;
    const sp_attr attr[] = {DRAW_STRING("mode", modes[roll(d, 4)])};
    if (strcmp(attr[0].s, "constant") && (size_of(x, axis) < 3 || pads[1] < 0)) return false;
    return p && a && put_node(d, op, 4, (sp_value *[]){x, p, fill, a}, reach_of(d, x) + 1, 1, attr);
}

static inline bool make_resize(draw *d, const char *op)
{
    static const char *const modes[] = {"nearest", "nearest", "linear"};
    sp_value *x = draw_float(d, 3, 4);
    float scales[4] = {1, 1, 1 + (float)roll(d, 2), roll(d, 3) ? 2 : 0.5f};
    if (!x || x->dtype != SPARTA_F32) return false;
    for (int i = 2; i < x->dims.rank; i++)
        if (size_of(x, i) < 2 || size_of(x, i) > 8) return false;
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){x->dims.rank}, scales);
    sp_value *s = put_constant(d, &t, 2);
    const sp_attr attr[] = {DRAW_STRING("mode", modes[roll(d, 3)])};
    return s && put_node(d, op, 3, (sp_value *[]){x, NULL, s}, reach_of(d, x), 1, attr);
}

static inline bool make_blocks(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 4, 4);
    bool out = !strcmp(op, "DepthToSpace");
    if (!x || (out ? size_of(x, 1) < 4 || size_of(x, 1) % 4
                   : size_of(x, 2) < 2 || size_of(x, 3) < 2 || size_of(x, 2) % 2 || size_of(x, 3) % 2))
        return false;
    const sp_attr attr[] = {DRAW_INT("blocksize", 2), DRAW_STRING("mode", roll(d, 2) ? "DCR" : "CRD")};
    return put_node(d, op, 1, &x, reach_of(d, x), out ? 2 : 1, attr);
}

/* ------------------------------------------------------------------ sizes and constants */
/* A shape that the model computes: Reshape(x, Shape(y)) of equal dims, or a Size. */
static inline bool make_shape(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_F32, 1, 4), *s = x ? put1(d, op, x, 8) : NULL;
    if (!s) return false;
    sp_value *y = draw_value(d, SPARTA_F32, 1, 4);
    if (y && roll(d, 2) && sp_dims_equal(&x->dims, &y->dims)) return put2(d, "Reshape", y, s, reach_of(d, y));
    const sp_attr attr[] = {DRAW_INT("to", 1)};
    return put_node(d, "Cast", 1, &s, 16, 1, attr);
}

static inline bool make_constant(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 0, 4);
    const sp_attr attr[] = {DRAW_FLOAT("value_float", (float)draw_number(d))};
    sp_value *c = x && x->dtype == SPARTA_F32 ? put_node(d, op, 0, NULL, 2, 1, attr) : NULL;
    return c && put2(d, "Add", x, c, 2 + reach_of(d, x));
}

static inline bool make_constant_of_shape(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_F32, 1, 4), *s = x ? put1(d, "Shape", x, 8) : NULL;
    float value = (float)roll(d, 2);
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){1}, &value);
    const sp_attr attr[] = {{.name = "value", .kind = SP_ATTR_TENSOR, .tensor = &t}};
    sp_value *c = s ? put_node(d, op, 1, &s, 1, 1, attr) : NULL;
    return c && put2(d, roll(d, 2) ? "Mul" : "Add", x, c, 1 + reach_of(d, x));
}

static inline bool make_range(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4), *from = put_scalar(d, SPARTA_F32, 0),
             *step = put_scalar(d, SPARTA_F32, 1);
    int64_t n = x ? size_of(x, x->dims.rank - 1) : -1;
    if (n < 1 || x->dtype != SPARTA_F32) return false;
    sp_value *to = put_scalar(d, SPARTA_F32, (double)n),
             *r = to ? put_node(d, op, 3, (sp_value *[]){from, to, step}, 16, 0, NULL) : NULL;
    return r && put2(d, "Mul", x, r, 16 * reach_of(d, x));
}

/* ------------------------------------------------------------------ blocks as models have them */
/* x + W2 relu(W1 x + b1) + b2, with hidden units that are dead at one end or the other. */
static inline bool make_mlp(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 2, 3), *h, *c;
    if (!x || size_of(x, x->dims.rank - 1) < 1) return false;
    int64_t k = size_of(x, x->dims.rank - 1), n = 4 + 2 * roll(d, 4);
    double reach = 2 * (double)k * reach_of(d, x);
    if (!(c = draw_constant(d, x->dtype, 2, (int64_t[]){k, n})) || !(h = put2(d, op, x, c, reach)))
        return false;
    if (roll(d, 4) && (!(c = draw_vector(d, x->dtype, n)) || !(h = put2(d, "Add", h, c, reach + 2))))
        return false;
    h = tame(d, put1(d, roll(d, 2) ? "Relu" : "Gelu", h, reach + 2), 32);
    if (!h || !(c = draw_constant(d, x->dtype, 2, (int64_t[]){n, k})) ||
        !(h = put2(d, op, h, c, 64 * (double)n)))
        return false;
    if (roll(d, 2) && (!(c = draw_vector(d, x->dtype, k)) || !(h = put2(d, "Add", h, c, 64 * (double)n + 2))))
        return false;
    return roll(d, 2) ? put2(d, "Add", h, x, 64 * (double)n + 64) != NULL : true;
}

/* (b, s, c) into heads and back, with something done to each of them. */
static inline bool make_heads(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 3, 3), *w, *h, *shape;
    if (!x || size_of(x, 2) < 1) return false;
    int64_t c = size_of(x, 2), each = 2, heads = 2 + roll(d, 3);
    double reach = 2 * (double)c * reach_of(d, x);
    if (!(w = draw_constant(d, x->dtype, 2, (int64_t[]){c, heads * each})) ||
        !(h = put2(d, "MatMul", x, w, reach)))
        return false;
    if (roll(d, 2) &&
        (!(w = draw_vector(d, x->dtype, heads * each)) || !(h = put2(d, "Add", h, w, reach + 2))))
        return false;
    if (!(shape = put_ints(d, 4, (int64_t[]){0, 0, heads, each})) || !(h = put2(d, op, h, shape, reach + 2)))
        return false;
    const sp_attr swap[] = {DRAW_INTS("perm", 4, ((int64_t[]){0, 2, 1, 3}))};
    if (!(h = put_node(d, "Transpose", 1, &h, reach + 2, 1, swap))) return false;
    if (roll(d, 2)) { /* a gate for each head */
        w = draw_constant(d, x->dtype, 3, (int64_t[]){heads, 1, 1});
        if (!w || !(h = put2(d, "Mul", h, w, 2 * reach + 4))) return false;
    }
    if (!(h = put_node(d, "Transpose", 1, &h, 2 * reach + 4, 1, swap))) return false;
    if (!(shape = put_ints(d, 3, (int64_t[]){0, 0, heads * each})) ||
        !(h = put2(d, op, h, shape, 2 * reach + 4)))
        return false;
    h = tame(d, h, 32);
    w = h ? draw_constant(d, x->dtype, 2, (int64_t[]){heads * each, c}) : NULL;
    return w && put2(d, "MatMul", h, w, 64 * (double)heads * (double)each);
}

/* (b, s, c) into (b*h, s, d), attention among these, and back to (b, s, c) */
static inline bool make_joined(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 3, 3), *w, *h, *t, *shape[4];
    if (!x || size_of(x, 1) < 1 || size_of(x, 2) < 1) return false;
    const int64_t s = size_of(x, 1), c = size_of(x, 2), each = 2, heads = 2 + roll(d, 3);
    const double reach = 2 * (double)c * reach_of(d, x);
    const sp_attr swap[] = {DRAW_INTS("perm", 4, ((int64_t[]){0, 2, 1, 3}))},
                  turn[] = {DRAW_INTS("perm", 3, ((int64_t[]){0, 2, 1}))};
    shape[0] = put_ints(d, 4, (int64_t[]){0, 0, heads, each});
    shape[1] = put_ints(d, 3, (int64_t[]){-1, s, each});
    shape[2] = put_ints(d, 4, (int64_t[]){-1, heads, s, each});
    shape[3] = put_ints(d, 3, (int64_t[]){0, 0, heads * each});
    w = draw_constant(d, x->dtype, 2, (int64_t[]){c, heads * each});
    if (!w || !shape[0] || !shape[1] || !shape[2] || !shape[3]) return false;
    if (!(h = put2(d, op, x, w, reach)) || !(h = put2(d, "Reshape", h, shape[0], reach)) ||
        !(h = put_node(d, "Transpose", 1, &h, reach, 1, swap)) ||
        !(h = put2(d, "Reshape", h, shape[1], reach)) || !(h = tame(d, h, 4)) ||
        !(t = put_node(d, "Transpose", 1, &h, 4, 1, turn)) || !(t = put2(d, op, h, t, 32)) ||
        !(t = put1(d, "Softmax", t, 1)))
        return false;
    if (roll(d, 4) == 0 && !put1(d, "Shape", h, 64)) return false;
    if (!(h = put2(d, op, t, h, 4 * (double)s)) || !(h = put2(d, "Reshape", h, shape[2], 4 * (double)s)) ||
        !(h = put_node(d, "Transpose", 1, &h, 4 * (double)s, 1, swap)) ||
        !(h = put2(d, "Reshape", h, shape[3], 4 * (double)s)))
        return false;
    w = draw_constant(d, x->dtype, 2, (int64_t[]){heads * each, c});
    return w && put2(d, op, h, w, 8 * (double)s * (double)heads * (double)each);
}

/* ------------------------------------------------------------------ the table */
static const draw_row *draw_table(int *n)
{
    static const draw_row rows[] = {
        {"Add", 16, make_binary},
        {"Sub", 3, make_binary},
        {"Mul", 10, make_binary},
        {"Div", 3, make_divide},
        {"Mod", 1, make_mod},
        {"Pow", 2, make_pow},
        {"Min", 2, make_many},
        {"Max", 2, make_many},
        {"Sum", 2, make_many},
        {"Mean", 2, make_many},
        {"Equal", 1, make_compare},
        {"Less", 2, make_compare},
        {"LessOrEqual", 1, make_compare},
        {"Greater", 1, make_compare},
        {"GreaterOrEqual", 1, make_compare},
        {"And", 3, make_logic},
        {"Or", 3, make_logic},
        {"Xor", 1, make_logic},
        {"Not", 1, make_not},
        {"Neg", 2, make_unary},
        {"Abs", 2, make_unary},
        {"Sqrt", 1, make_positive},
        {"Reciprocal", 1, make_positive},
        {"Exp", 2, make_small},
        {"Log", 1, make_positive},
        {"Erf", 1, make_unary},
        {"Tanh", 2, make_unary},
        {"Atan", 2, make_unary},
        {"Sigmoid", 2, make_unary},
        {"Relu", 8, make_unary},
        {"Gelu", 2, make_unary},
        {"Floor", 1, make_unary},
        {"Ceil", 1, make_unary},
        {"Round", 1, make_unary},
        {"Sign", 1, make_unary},
        {"Sin", 1, make_unary},
        {"Cos", 1, make_unary},
        {"IsNaN", 1, make_unary},
        {"IsInf", 1, make_unary},
        {"LeakyRelu", 1, make_unary},
        {"HardSwish", 1, make_unary},
        {"HardSigmoid", 1, make_unary},
        {"Softplus", 1, make_unary},
        {"Softsign", 1, make_unary},
        {"Elu", 1, make_unary},
        {"Selu", 1, make_unary},
        {"Mish", 1, make_unary},
        {"Swish", 1, make_unary},
        {"PRelu", 2, make_prelu},
        {"Clip", 2, make_clip},
        {"Identity", 1, make_any_unary},
        {"Dropout", 1, make_unary},
        {"Cast", 3, make_cast},
        {"CastLike", 1, make_castlike},
        {"Where", 6, make_where},
        {"Shape", 1, make_shape},
        {"Size", 1, make_shape},
        {"Reshape", 8, make_reshape},
        {"Flatten", 2, make_flatten},
        {"Transpose", 6, make_transpose},
        {"Squeeze", 2, make_squeeze},
        {"Unsqueeze", 2, make_unsqueeze},
        {"Concat", 6, make_concat},
        {"Split", 4, make_split},
        {"Slice", 5, make_slice},
        {"Gather", 4, make_gather},
        {"GatherElements", 2, make_gather_elements},
        {"GatherND", 2, make_gather_nd},
        {"ScatterND", 2, make_scatter_nd},
        {"Expand", 3, make_expand},
        {"Tile", 3, make_tile},
        {"Trilu", 2, make_trilu},
        {"CumSum", 2, make_cumsum},
        {"Constant", 1, make_constant},
        {"ConstantOfShape", 1, make_constant_of_shape},
        {"Range", 1, make_range},
        {"ReduceMean", 3, make_reduce},
        {"ReduceSum", 3, make_reduce},
        {"ReduceMax", 2, make_reduce},
        {"ReduceMin", 1, make_reduce},
        {"ReduceProd", 2, make_reduce},
        {"ReduceL1", 1, make_reduce},
        {"ReduceL2", 1, make_reduce},
        {"ReduceSumSquare", 1, make_reduce},
        {"ReduceLogSum", 1, make_reduce},
        {"ReduceLogSumExp", 1, make_reduce},
        {"ArgMax", 1, make_arg},
        {"ArgMin", 1, make_arg},
        {"TopK", 1, make_topk},
        {"Softmax", 3, make_along},
        {"LogSoftmax", 1, make_along},
        {"Hardmax", 1, make_along},
        {"LayerNormalization", 3, make_layer_norm},
        {"RMSNormalization", 2, make_layer_norm},
        {"BatchNormalization", 6, make_batch_norm},
        {"InstanceNormalization", 2, make_channel_norm},
        {"GroupNormalization", 2, make_channel_norm},
        {"MatMul", 14, make_matmul},
        {"Gemm", 6, make_gemm},
        {"Einsum", 4, make_einsum},
        {"Conv", 16, make_conv},
        {"ConvTranspose", 4, make_conv},
        {"MaxPool", 3, make_pool},
        {"AveragePool", 3, make_pool},
        {"LpPool", 1, make_pool},
        {"GlobalMaxPool", 1, make_global_pool},
        {"GlobalAveragePool", 2, make_global_pool},
        {"GlobalLpPool", 1, make_global_pool},
        {"Pad", 3, make_pad},
        {"Resize", 2, make_resize},
        {"DepthToSpace", 2, make_blocks},
        {"SpaceToDepth", 2, make_blocks},
        {"RotaryEmbedding", 2, make_rotary},
        {"QuantizeLinear", 3, make_round_trip},
        {"DequantizeLinear", 0, make_round_trip}, /* made with it */
        {"Attention", 2, make_attention},
        {"sparta::Attention", 2, make_attention},
        {"sparta::Linear", 5, make_linear},
        {"sparta::Embed", 2, make_embed},
        {"sparta::Interact", 2, make_interact},
        {"sparta::Sparsify", 2, make_sparsify},
        {"sparta::Relative", 2, make_relative},
        {"sparta::Route", 2, make_route},
        {"MatMul", 8, make_mlp},
        {"Reshape", 6, make_heads},
        {"MatMul", 2, make_joined},
    };
    *n = (int)SP_COUNT(rows);
    return rows;
}

#endif
