/* QuantizeLinear: the dims of x; the type of the zero point, or of attribute output_dtype, or u8. */
#include "ops/flow.h"
#include "ops/quant.h"

/* Blocked: the dims of x, but at the axis the number of blocks. */
static sparta_status check_blocks(sparta_graph *g, const sparta_node *n, int axis, int64_t block)
{
    const sparta_dims *x = &n->in[0]->dims, *scale = &n->in[1]->dims;
    int64_t size;
    SPARTA_TRY(sparta_ops_rank(g, n, 1, x->rank, x->rank));
    for (int d = 0; d < x->rank; d++) {
        const sparta_expr *want = x->dim[d];
        if (d == axis && !sparta_expr_is_const(want, &size))
            return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                                   "blocks along a dim that is not known (%s); fix it with --dim",
                                   sparta_ops_say(g, want));
        if (d == axis) want = sparta_expr_const(g->arena, size / block + (size % block != 0));
        SPARTA_NEED(g->cx, want);
        SPARTA_TRY(sparta_ops_agree(
            g, n, d == axis ? "scales and blocks along the axis" : "a dim of the scale and of x",
            scale->dim[d], want));
    }
    return SPARTA_OK;
}

/* For all of x: a scalar or (1). */
static bool is_one(const sparta_dims *d)
{
    return d->rank == 0 || (d->rank == 1 && sparta_expr_is(d->dim[0], 1));
}

sparta_status sparta_ops_quant(sparta_graph *g, const sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims, *scale = &n->in[1]->dims;
    int64_t block = sparta_attr_int(&n->attrs, "block_size", 0);
    int axis = 0;
    bool one = is_one(scale);
    if (block < 0) return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "block_size is %lld", (long long)block);
    if (block > 0 || !one)
        SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 1), x->rank, &axis));
    if (block > 0)
        SPARTA_TRY(check_blocks(g, n, axis, block));
    else if (!one) {
        SPARTA_TRY(sparta_ops_rank(g, n, 1, 0, 1));
        SPARTA_TRY(sparta_ops_agree(g, n, "scales and the dim at the axis", scale->dim[0], x->dim[axis]));
    }
    if (!sparta_ops_has(n, 2) || sparta_dims_equal(&n->in[2]->dims, scale)) return SPARTA_OK;
    if (one && !block && is_one(&n->in[2]->dims)) return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                           "the zero point has dims %s and the scale %s; they must be alike",
                           sparta_ops_say_dims(g, &n->in[2]->dims), sparta_ops_say_dims(g, scale));
}

sparta_status sparta_ops_quant_type(sparta_graph *g, const sparta_node *n, const char *attribute,
                                    unsigned types, sparta_dtype *out)
{
    int64_t code = sparta_attr_int(&n->attrs, attribute, 0);
    sparta_dtype dtype;
    if (!code) return SPARTA_OK;
    if (!sparta_dtype_from_onnx(code, &dtype) || !(types & SPARTA_TYPE(dtype)))
        return sparta_ops_fail(
            g, n, SPARTA_E_UNSUPPORTED, "%s is ONNX's type %lld, which is not supported here%s", attribute,
            (long long)code, code >= 17 && code <= 24 ? " (floats of 8 and 4 bits are not)" : "");
    *out = dtype;
    return SPARTA_OK;
}

sparta_status sparta_shape_QuantizeLinear(sparta_graph *g, sparta_node *n)
{
    sparta_dtype to = SPARTA_U8, said, precision;
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_QUANT_FLOATS | SPARTA_TYPE(SPARTA_I32)));
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_QUANT_FLOATS));
    SPARTA_TRY(sparta_ops_types(g, n, 2, SPARTA_QUANT_TYPES));
    SPARTA_TRY(sparta_ops_quant(g, n));
    if (sparta_ops_has(n, 2)) to = n->in[2]->dtype;
    said = to;
    SPARTA_TRY(sparta_ops_quant_type(g, n, "output_dtype", SPARTA_QUANT_TYPES, &said));
    SPARTA_TRY(sparta_ops_quant_type(g, n, "precision", SPARTA_QUANT_FLOATS, &precision));
    if (sparta_ops_has(n, 2) && said != to)
        return sparta_ops_fail(g, n, SPARTA_E_DTYPE, "output_dtype is %s and the zero point %s",
                               sparta_dtype_name(said), sparta_dtype_name(to));
    sparta_ops_set(n, 0, said, &n->in[0]->dims);
    return SPARTA_OK;
}

/* Scale and zero point: one, or one for each index of the axis. */
static void scale_of_index(sparta_axes *a, int i, int label)
{
    const sparta_dims *d = &a->n->in[i]->dims;
    a->in[i].role = SPARTA_ARG;
    for (int k = 0; k < d->rank && !is_one(d); k++) a->in[i].axis[k] = sparta_axis_of(label);
}

/* Of blocks: x: (b t), scale: b. Blocks go, what is in one stays; where they do not come out even, all stay. */
static sparta_status scales_of_blocks(sparta_axes *a, int axis, int64_t size)
{
    const sparta_node *n = a->n;
    const sparta_expr *each = sparta_expr_const(a->g->arena, size), *all;
    int b = a->in[0].axis[axis].label[0], t;
    SPARTA_NEED(a->g->cx, each);
    all = sparta_expr_mul(a->g->arena, n->in[1]->dims.dim[axis], each);
    SPARTA_NEED(a->g->cx, all);
    const bool even = sparta_expr_equal(all, n->out[0]->dims.dim[axis]) && a->label[b].size > 0;
    a->no_values = !even;
    a->label[b].why = even ? NULL : "blocks of them share a scale";
    if (even) {
        a->label[b].size /= size;
        SPARTA_TRY(sparta_axes_label(a, each, SPARTA_EACH, "blocks of them share a scale", &t));
        a->label[t].run = size;
        a->in[0].axis[axis] = a->out[0].axis[axis] = sparta_axis_pair(b, t);
    }
    for (int i = 1; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        a->in[i].role = SPARTA_ARG;
        for (int k = 0; k < n->in[i]->dims.rank; k++) a->in[i].axis[k] = sparta_axis_of(k);
        if (even) continue;
        SPARTA_TRY(sparta_axes_label(a, n->in[i]->dims.dim[axis], SPARTA_WHOLE, "blocks share them", &t));
        a->in[i].axis[axis] = sparta_axis_of(t);
    }
    return SPARTA_OK;
}

sparta_status sparta_flow_quant(sparta_axes *a)
{
    const sparta_node *n = a->n;
    int label[SPARTA_RANK], axis = 0;
    const int64_t block = sparta_attr_int(&n->attrs, "block_size", 0);
    SPARTA_TRY(sparta_axes_labels(a, n->out[0], label));
    if (block > 0 || !is_one(&n->in[1]->dims))
        SPARTA_TRY(
            sparta_ops_axis(a->g, n, sparta_attr_int(&n->attrs, "axis", 1), n->out[0]->dims.rank, &axis));
    a->how = SPARTA_FLOW_FUNCTION;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    for (int k = 0; k < n->out[0]->dims.rank; k++)
        a->in[0].axis[k] = a->out[0].axis[k] = sparta_axis_of(label[k]);
    if (block > 0) return scales_of_blocks(a, axis, block);
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i]) scale_of_index(a, i, label[axis]);
    return SPARTA_OK;
}

/* What is divided by 0 ends at one bound of the type or the other, as the signs are. */
static sparta_status axes(sparta_axes *a)
{
    SPARTA_TRY(sparta_flow_quant(a));
    a->in[1].sign = true;
    return SPARTA_OK;
}

const sparta_flow sparta_flow_QuantizeLinear = {
    SPARTA_EXACT, "element by element, with the scale of its tensor, index or block",
    "floats",     "8-bit floats",
    axes,         NULL};
