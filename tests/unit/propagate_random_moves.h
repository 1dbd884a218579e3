/* Makers of operators that move elements, and of those that run along an axis: part of propagate_random_ops.h. */
#ifndef SP_TESTS_PROPAGATE_RANDOM_MOVES_H
#define SP_TESTS_PROPAGATE_RANDOM_MOVES_H

#include "propagate_random.h"

/* ------------------------------------------------------------------ movers */
static inline bool make_transpose(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 2, 5);
    int64_t perm[SPARTA_RANK];
    if (!x) return false;
    for (int i = 0; i < x->dims.rank; i++) perm[i] = i;
    for (int i = x->dims.rank - 1; i > 0; i--) {
        int j = (int)roll(d, (unsigned)i + 1);
        int64_t t = perm[i];
        perm[i] = perm[j], perm[j] = t;
    }
    const sp_attr attr[] = {DRAW_INTS("perm", x->dims.rank, perm)};
    return put_node(d, op, 1, &x, reach_of(d, x), roll(d, 8) ? 1 : 0, attr);
}

/* Split an axis, join two, or shuffle all that are numbers into other factors. */
static inline int reshape_to(draw *d, const sp_value *x, int64_t *shape)
{
    int rank = x->dims.rank, n = 0, axis = rank ? draw_axis(d, x, 1) : -1;
    unsigned kind = roll(d, 3);
    if (axis < 0) return -1;
    if (kind == 0) {
        int64_t size = size_of(x, axis), by = 2 + roll(d, 3);
        if (size % by) return -1;
        for (int i = 0; i < axis; i++) shape[n++] = 0;
        shape[n++] = roll(d, 2) ? by : size / by;
        shape[n] = size / shape[n - 1], n++;
        for (int i = axis + 1; i < rank; i++) {
            if (size_of(x, i) < 0) return -1;
            shape[n++] = size_of(x, i);
        }
        return n;
    }
    if (kind == 1) {
        if (axis + 1 >= rank) return -1;
        for (int i = 0; i < axis; i++) shape[n++] = 0;
        shape[n++] = -1;
        for (int i = axis + 2; i < rank; i++) {
            if (size_of(x, i) < 0) return -1;
            shape[n++] = size_of(x, i);
        }
        return n;
    }
    int lead = size_of(x, 0) < 0;
    int64_t left = 1;
    for (int i = lead; i < rank; i++) {
        if (size_of(x, i) < 0) return -1;
        left *= size_of(x, i);
    }
    if (lead) shape[n++] = 0;
    for (int64_t f = 2; n < 3 && left > 1; f = 2 + (int64_t)roll(d, 5)) {
        if (roll(d, 3) == 0) break;
        if (left % f) continue;
        shape[n++] = f;
        left /= f;
    }
    shape[n++] = left;
    return n;
}

static inline bool make_reshape(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 1, 4), *s;
    int64_t shape[2 * SPARTA_RANK];
    int n = x ? reshape_to(d, x, shape) : -1;
    s = n > 0 && n <= 5 ? put_ints(d, n, shape) : NULL;
    return s && put2(d, op, x, s, reach_of(d, x));
}

static inline bool make_flatten(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 1, 4);
    if (!x) return false;
    const sp_attr attr[] = {DRAW_INT("axis", roll(d, (unsigned)x->dims.rank + 1))};
    return put_node(d, op, 1, &x, reach_of(d, x), 1, attr);
}

static inline bool make_squeeze(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 1, 5), *axes;
    for (int i = 0; x && i < x->dims.rank; i++) {
        if (size_of(x, i) != 1) continue;
        axes = put_ints(d, 1, (int64_t[]){i});
        return axes && put2(d, op, x, axes, reach_of(d, x));
    }
    return false;
}

static inline bool make_unsqueeze(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 0, 3),
             *axes = x ? put_ints(d, 1, (int64_t[]){roll(d, (unsigned)x->dims.rank + 1)}) : NULL;
    return axes && put2(d, op, x, axes, reach_of(d, x));
}

static inline bool make_concat(draw *d, const char *op)
{
    sp_value *in[4] = {tame(d, draw_value(d, SP_DTYPES, 1, 4), 32)};
    if (!in[0]) return false;
    int axis = (int)roll(d, (unsigned)in[0]->dims.rank), n = 1;
    double reach = reach_of(d, in[0]);
    for (int tries = 0; tries < 40 && n < 4 && (n < 2 || roll(d, 3)); tries++) {
        sp_value *y = d->value[roll(d, (unsigned)d->n)];
        bool good = y->dtype == in[0]->dtype && y->dims.rank == in[0]->dims.rank;
        for (int i = 0; good && i < y->dims.rank; i++)
            good &= i == axis || sp_expr_equal(y->dims.dim[i], in[0]->dims.dim[i]);
        if (!good) continue;
        in[n++] = y;
        reach = SP_MAX(reach, reach_of(d, y));
    }
    if (all_numbers(in[0]) && n < 4 && roll(d, 3) == 0) {
        int64_t dim[SPARTA_RANK];
        for (int i = 0; i < in[0]->dims.rank; i++) dim[i] = i == axis ? 1 + roll(d, 3) : size_of(in[0], i);
        in[n] = draw_constant(d, in[0]->dtype, in[0]->dims.rank, dim);
        n += in[n] != NULL;
    }
    const sp_attr attr[] = {DRAW_INT("axis", roll(d, 2) ? axis : axis - in[0]->dims.rank)};
    return put_node(d, op, n, in, SP_MAX(reach, 2), 1, attr);
}

static inline bool make_split(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 1, 4), *out[3], *lengths;
    int axis = x ? draw_axis(d, x, 2) : -1;
    if (axis < 0) return false;
    int64_t size = size_of(x, axis), part[3];
    int n = size > 2 ? 2 + (int)roll(d, 2) : 2;
    if (roll(d, 2)) {
        const sp_attr attr[] = {DRAW_INT("axis", axis), DRAW_INT("num_outputs", n)};
        return put_nodes(d, op, 1, &x, n, out, reach_of(d, x), 2, attr);
    }
    part[0] = 1 + roll(d, (unsigned)(size - n + 1)), part[1] = n == 2 ? size - part[0] : 1,
    part[2] = size - part[0] - part[1];
    lengths = put_ints(d, n, part);
    const sp_attr attr[] = {DRAW_INT("axis", axis)};
    return lengths && put_nodes(d, op, 2, (sp_value *[]){x, lengths}, n, out, reach_of(d, x), 1, attr);
}

static inline bool make_slice(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 1, 4), *in[5];
    int axis = x ? draw_axis(d, x, 2) : -1;
    if (axis < 0) return false;
    int64_t size = size_of(x, axis), from = roll(d, (unsigned)size),
            end = from + 1 + roll(d, (unsigned)(size - from)), step = 1;
    if (roll(d, 4) == 0) step = 2;
    if (roll(d, 8) == 0) end = INT64_MAX;
    if (roll(d, 8) == 0) step = -1, from = size - 1, end = INT64_MIN + 1;
    if (roll(d, 5) == 0 && from > 0) from -= size;
    in[0] = x, in[1] = put_ints(d, 1, &from), in[2] = put_ints(d, 1, &end),
    in[3] = put_ints(d, 1, (int64_t[]){roll(d, 2) ? axis : axis - x->dims.rank}),
    in[4] = put_ints(d, 1, &step);
    return in[4] && put_node(d, op, step == 1 && roll(d, 2) ? 4 : 5, in, reach_of(d, x), 0, NULL);
}

static inline bool make_gather(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 1, 4), *indices;
    int axis = x ? draw_axis(d, x, 1) : -1;
    if (axis < 0) return false;
    const sp_attr attr[] = {DRAW_INT("axis", axis)};
    if (roll(d, 4) == 0) {
        sp_value *ids = draw_value(d, SPARTA_I64, 1, 2), *table;
        if (!ids || !ids->is_input) return false;
        table = draw_constant(d, SPARTA_F32, 2, (int64_t[]){4, 2 + 2 * roll(d, 4)});
        return table && put_node(d, op, 2, (sp_value *[]){table, ids}, 2, 0, NULL);
    }
    int64_t size = size_of(x, axis), pick[8], n = 1 + roll(d, 6);
    for (int i = 0; i < n; i++) pick[i] = (int64_t)roll(d, (unsigned)size) - (roll(d, 4) ? 0 : size);
    sparta_tensor t = sparta_tensor_view(SPARTA_I64,
                                         (int)roll(d, 4) ? 1
                                         : n == 4        ? 2
                                                         : 0,
                                         n == 4 ? (int64_t[]){2, 2} : &n, pick);
    if (t.rank == 1) t = sparta_tensor_view(SPARTA_I64, 1, &n, pick);
    indices = put_constant(d, &t, 8);
    return indices && put_node(d, op, 2, (sp_value *[]){x, indices}, reach_of(d, x), 1, attr);
}

static inline bool make_gather_elements(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_F32, 1, 3), *indices;
    int64_t dim[SPARTA_RANK], pick[DRAW_ELEMENTS];
    int axis = x && all_numbers(x) ? draw_axis(d, x, 1) : -1;
    if (axis < 0) return false;
    for (int i = 0; i < x->dims.rank; i++) dim[i] = i == axis ? 1 + roll(d, 4) : size_of(x, i);
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, x->dims.rank, dim, pick);
    int64_t n = sparta_tensor_elements(&t);
    if (n > DRAW_ELEMENTS) return false;
    for (int64_t i = 0; i < n; i++) pick[i] = roll(d, (unsigned)size_of(x, axis));
    indices = put_constant(d, &t, 8);
    const sp_attr attr[] = {DRAW_INT("axis", axis)};
    return indices && put_node(d, op, 2, (sp_value *[]){x, indices}, reach_of(d, x), 1, attr);
}

static inline bool make_gather_nd(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_F32, 2, 4), *indices;
    int64_t pick[4];
    if (!x || size_of(x, 0) < 1 || size_of(x, 1) < 1) return false;
    for (int i = 0; i < 4; i++) pick[i] = roll(d, (unsigned)size_of(x, i % 2));
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){2, 2}, pick);
    indices = put_constant(d, &t, 8);
    return indices && put_node(d, op, 2, (sp_value *[]){x, indices}, reach_of(d, x), 0, NULL);
}

static inline bool make_scatter_nd(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SPARTA_F32, 1, 3), *indices, *updates;
    int64_t dim[SPARTA_RANK];
    if (!x || !all_numbers(x) || size_of(x, 0) < 1) return false;
    dim[0] = 1;
    for (int i = 1; i < x->dims.rank; i++) dim[i] = size_of(x, i);
    int64_t at = roll(d, (unsigned)size_of(x, 0));
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){1, 1}, &at);
    indices = put_constant(d, &t, 8), updates = draw_constant(d, SPARTA_F32, x->dims.rank, dim);
    return updates && put_node(d, op, 3, (sp_value *[]){x, indices, updates}, reach_of(d, x) + 2, 0, NULL);
}

static inline bool make_expand(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 0, 3), *s;
    int64_t shape[SPARTA_RANK];
    int n = 0, rank;
    if (!x) return false;
    rank = x->dims.rank;
    if (roll(d, 2)) shape[n++] = 1 + roll(d, 3);
    for (int i = 0; i < rank; i++) shape[n++] = size_of(x, i) == 1 ? 1 + roll(d, 4) : 1;
    s = n ? put_ints(d, n, shape) : NULL;
    return s && put2(d, op, x, s, reach_of(d, x));
}

static inline bool make_tile(draw *d, const char *op)
{
    sp_value *x = draw_value(d, SP_DTYPES, 1, 3), *s;
    int64_t times[SPARTA_RANK];
    if (!x || numbers_of(x) > 128) return false;
    for (int i = 0; i < x->dims.rank; i++) times[i] = 1 + (roll(d, 3) == 0);
    s = put_ints(d, x->dims.rank, times);
    return s && put2(d, op, x, s, reach_of(d, x));
}

static inline bool make_trilu(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 2, 4),
             *k = roll(d, 2) ? put_scalar(d, SPARTA_I64, (double)roll(d, 3) - 1) : NULL;
    const sp_attr attr[] = {DRAW_INT("upper", roll(d, 2))};
    return x && put_node(d, op, k ? 2 : 1, (sp_value *[]){x, k}, reach_of(d, x), 1, attr);
}

static inline bool make_cumsum(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4);
    int axis = x ? draw_axis(d, x, 1) : -1;
    sp_value *a = axis >= 0 ? put_scalar(d, SPARTA_I64, axis) : NULL;
    const sp_attr attr[] = {DRAW_INT("exclusive", roll(d, 2)), DRAW_INT("reverse", roll(d, 2))};
    return a && put_node(d, op, 2, (sp_value *[]){x, a}, (double)size_of(x, axis) * reach_of(d, x), 2, attr);
}

static inline bool make_rotary(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 3, 3), *in[3];
    if (!x || !all_numbers(x) || size_of(x, 2) % 4) return false;
    int64_t dim[3] = {size_of(x, 0), size_of(x, 1), size_of(x, 2) / 4};
    in[0] = x, in[1] = draw_constant(d, x->dtype, 3, dim), in[2] = draw_constant(d, x->dtype, 3, dim);
    const sp_attr attr[] = {DRAW_INT("num_heads", 2), DRAW_INT("interleaved", roll(d, 2))};
    return put_node(d, op, 3, in, 4 * reach_of(d, x), 2, attr);
}

/* ------------------------------------------------------------------ along axes */
static inline bool make_reduce(draw *d, const char *op)
{
    bool product = !strcmp(op, "ReduceProd"), positive = !strcmp(op, "ReduceLogSum");
    sp_value *x = tame(d, draw_float(d, 1, 4), product || !strcmp(op, "ReduceLogSumExp") ? 1 : 32),
             *axes = NULL;
    int axis = x ? (int)roll(d, (unsigned)x->dims.rank) : 0;
    if (!x) return false;
    if (positive) {
        sp_value *half;
        x = put1(d, "Exp", tame(d, x, 1), 3), half = x ? put_scalar(d, x->dtype, 0.5) : NULL;
        x = half ? put2(d, "Add", x, half, 4) : NULL;
        if (!x) return false;
    }
    if (product && roll(d, 2)) { /* a zero somewhere */
        sp_value *zeros = draw_switch(d, x, x->dtype);
        x = zeros ? put2(d, "Mul", x, zeros, 2) : NULL;
        if (!x) return false;
    }
    if (roll(d, 4)) axes = put_ints(d, 1, (int64_t[]){axis});
    const sp_attr attr[] = {DRAW_INT("keepdims", roll(d, 2))};
    return put_node(d, op, axes ? 2 : 1, (sp_value *[]){x, axes},
                    64 * reach_of(d, x) * (product ? 1 : reach_of(d, x)), 1, attr);
}

static inline bool make_along(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4);
    if (!x) return false;
    const sp_attr attr[] = {DRAW_INT("axis", (int64_t)roll(d, (unsigned)x->dims.rank) -
                                                 (int64_t)(roll(d, 2) ? x->dims.rank : 0))};
    return put_node(d, op, 1, &x, !strcmp(op, "LogSoftmax") ? 2 * reach_of(d, x) + 8 : 8, 1, attr);
}

static inline bool make_layer_norm(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4), *in[3], *out[3];
    bool layer = !strcmp(op, "LayerNormalization");
    if (!x || size_of(x, x->dims.rank - 1) < 1) return false;
    int64_t n = size_of(x, x->dims.rank - 1), dim[2];
    int axis = -1, outs = layer ? 1 + 2 * (roll(d, 6) == 0) : 1;
    if (x->dims.rank >= 2 && size_of(x, x->dims.rank - 2) > 0 && roll(d, 4) == 0) axis = -2;
    dim[0] = axis == -2 ? size_of(x, x->dims.rank - 2) : n, dim[1] = n;
    in[0] = x, in[1] = draw_scale(d, x->dtype, -axis, dim),
    in[2] = layer && roll(d, 2) ? draw_constant(d, x->dtype, -axis, dim) : NULL;
    const sp_attr attr[] = {DRAW_INT("axis", axis), DRAW_FLOAT("epsilon", 0.01f)};
    return put_nodes(d, op, in[2] ? 3 : 2, in, outs, out, SP_MAX(40, reach_of(d, x)), 2, attr);
}

static inline bool make_arg(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4);
    if (!x) return false;
    const sp_attr attr[] = {DRAW_INT("axis", roll(d, (unsigned)x->dims.rank)),
                            DRAW_INT("keepdims", roll(d, 2))};
    return put_node(d, op, 1, &x, 8, 2, attr);
}

static inline bool make_topk(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4), *out[2];
    int axis = x ? draw_axis(d, x, 1) : -1;
    int64_t k = axis >= 0 ? 1 + roll(d, (unsigned)SP_MIN(size_of(x, axis), 4)) : 1;
    sp_value *count = axis >= 0 ? put_ints(d, 1, &k) : NULL;
    const sp_attr attr[] = {DRAW_INT("axis", axis), DRAW_INT("largest", roll(d, 2))};
    return count && put_nodes(d, op, 2, (sp_value *[]){x, count}, 2, out, SP_MAX(reach_of(d, x), 8), 2, attr);
}

static inline bool make_sparsify(draw *d, const char *op)
{
    sp_value *x = draw_float(d, 1, 4);
    if (!x) return false;
    const sp_attr attr[] = {DRAW_INT("keep", roll(d, 4)), DRAW_INT("left", roll(d, 3) - 1),
                            DRAW_INT("right", roll(d, 3) - 1)};
    return put_node(d, op, 1, &x, reach_of(d, x), x->dims.rank > 1 ? 3 : 1, attr);
}

#endif
