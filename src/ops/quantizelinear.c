/* QuantizeLinear: the dims of x; the type of the zero point, or of attribute output_dtype, or u8. */
#include "ops/flow.h"
#include "ops/quant.h"

/* Blocked: the dims of x, but at the axis the number of blocks. */
static sparta_status check_blocks(sp_graph *g, const sp_node *n, int axis, int64_t block)
{
    const sp_dims *x = &n->in[0]->dims, *scale = &n->in[1]->dims;
    int64_t size;
    SP_TRY(sp_ops_rank(g, n, 1, x->rank, x->rank));
    for (int d = 0; d < x->rank; d++) {
        const sp_expr *want = x->dim[d];
        if (d == axis && !sp_expr_is_const(want, &size))
            return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                               "blocks along a dim that is not known (%s); fix it with options.dims",
                               sp_ops_say(g, want));
        if (d == axis) want = sp_expr_const(g->arena, size / block + (size % block != 0));
        SP_NEED(g->cx, want);
        SP_TRY(sp_ops_agree(g, n,
                            d == axis ? "scales and blocks along the axis" : "a dim of the scale and of x",
                            scale->dim[d], want));
    }
    return SPARTA_OK;
}

/* For all of x: a scalar or (1). */
static bool is_one(const sp_dims *d)
{
    return d->rank == 0 || (d->rank == 1 && sp_expr_is(d->dim[0], 1));
}

sparta_status sp_ops_quant(sp_graph *g, const sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *scale = &n->in[1]->dims;
    int64_t block = sp_attr_int(&n->attrs, "block_size", 0);
    int axis = 0;
    bool one = is_one(scale);
    if (block < 0) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "block_size is %lld", (long long)block);
    if (block > 0 || !one) SP_TRY(sp_ops_axis(g, n, sp_attr_int(&n->attrs, "axis", 1), x->rank, &axis));
    if (block > 0)
        SP_TRY(check_blocks(g, n, axis, block));
    else if (!one) {
        SP_TRY(sp_ops_rank(g, n, 1, 0, 1));
        SP_TRY(sp_ops_agree(g, n, "scales and the dim at the axis", scale->dim[0], x->dim[axis]));
    }
    if (!sp_ops_has(n, 2) || sp_dims_equal(&n->in[2]->dims, scale)) return SPARTA_OK;
    if (one && !block && is_one(&n->in[2]->dims)) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_SHAPE,
                       "the zero point has dims %s and the scale %s; they must be alike",
                       sp_ops_say_dims(g, &n->in[2]->dims), sp_ops_say_dims(g, scale));
}

sparta_status sp_ops_quant_type(sp_graph *g, const sp_node *n, const char *attribute, unsigned types,
                                sparta_dtype *out)
{
    int64_t code = sp_attr_int(&n->attrs, attribute, 0);
    sparta_dtype dtype;
    if (!code) return SPARTA_OK;
    if (!sp_dtype_from_onnx(code, &dtype) || !(types & SP_TYPE(dtype)))
        return sp_ops_fail(
            g, n, SPARTA_E_UNSUPPORTED, "%s is ONNX's type %lld, which is not supported here%s", attribute,
            (long long)code, code >= 17 && code <= 24 ? " (floats of 8 and 4 bits are not)" : "");
    *out = dtype;
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sparta_dtype to = SPARTA_U8, said, precision;
    SP_TRY(sp_ops_types(g, n, 1, SP_QUANT_FLOATS));
    SP_TRY(sp_ops_types(g, n, 2, SP_QUANT_TYPES));
    SP_TRY(sp_ops_quant(g, n));
    if (sp_ops_has(n, 2)) to = n->in[2]->dtype;
    said = to;
    SP_TRY(sp_ops_quant_type(g, n, "output_dtype", SP_QUANT_TYPES, &said));
    SP_TRY(sp_ops_quant_type(g, n, "precision", SP_QUANT_FLOATS, &precision));
    if (sp_ops_has(n, 2) && said != to)
        return sp_ops_fail(g, n, SPARTA_E_DTYPE, "output_dtype is %s and the zero point %s",
                           sparta_dtype_name(said), sparta_dtype_name(to));
    return sp_ops_done(n, said, &n->in[0]->dims);
}

/* Scale and zero point: one, or one for each index of the axis. */
static void scale_of_index(sp_axes *a, int i, int label)
{
    const sp_dims *d = &a->n->in[i]->dims;
    a->in[i].role = SP_ARG;
    for (int k = 0; k < d->rank && !is_one(d); k++) a->in[i].axis[k] = sp_axis_of(label);
}

/* Of blocks: x: (b t), scale: b. Blocks go, what is in one stays; where they do not come out even, all stay. */
static sparta_status scales_of_blocks(sp_axes *a, int axis, int64_t size)
{
    const sp_node *n = a->n;
    const sp_expr *each = sp_expr_const(a->g->arena, size), *all;
    int b = a->in[0].axis[axis].label[0], t;
    SP_NEED(a->g->cx, each);
    all = sp_expr_mul(a->g->arena, n->in[1]->dims.dim[axis], each);
    SP_NEED(a->g->cx, all);
    const bool even = sp_expr_equal(all, n->out[0]->dims.dim[axis]) && a->label[b].size > 0;
    a->no_values = !even;
    a->label[b].why = even ? NULL : "blocks of them share a scale";
    if (even) {
        a->label[b].size /= size;
        SP_TRY(sp_axes_label(a, each, SP_EACH, "blocks of them share a scale", &t));
        a->label[t].run = size;
        a->in[0].axis[axis] = a->out[0].axis[axis] = sp_axis_pair(b, t);
    }
    for (int i = 1; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        a->in[i].role = SP_ARG;
        for (int k = 0; k < n->in[i]->dims.rank; k++) a->in[i].axis[k] = sp_axis_of(k);
        if (even) continue;
        SP_TRY(sp_axes_label(a, n->in[i]->dims.dim[axis], SP_WHOLE, "blocks share them", &t));
        a->in[i].axis[axis] = sp_axis_of(t);
    }
    return SPARTA_OK;
}

sparta_status sp_flow_quant(sp_axes *a)
{
    const sp_node *n = a->n;
    int label[SPARTA_RANK], axis = 0;
    const int64_t block = sp_attr_int(&n->attrs, "block_size", 0);
    SP_TRY(sp_axes_labels(a, n->out[0], label));
    if (block > 0 || !is_one(&n->in[1]->dims))
        SP_TRY(sp_ops_axis(a->g, n, sp_attr_int(&n->attrs, "axis", 1), n->out[0]->dims.rank, &axis));
    a->how = SP_FLOW_FUNCTION;
    a->in[0].role = a->out[0].role = SP_ARG;
    for (int k = 0; k < n->out[0]->dims.rank; k++)
        a->in[0].axis[k] = a->out[0].axis[k] = sp_axis_of(label[k]);
    if (block > 0) return scales_of_blocks(a, axis, block);
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i]) scale_of_index(a, i, label[axis]);
    return SPARTA_OK;
}

/* What is divided by 0 ends at one bound of the type or the other, as the signs are. */
static sparta_status axes(sp_axes *a)
{
    SP_TRY(sp_flow_quant(a));
    a->in[1].sign = true;
    return SPARTA_OK;
}

SP_RULE(QuantizeLinear, shape, SP_QUANT_FLOATS | SP_TYPE(SPARTA_I32), SP_EXACT, axes, NULL,
        "element by element, with the scale of its tensor, index or block", "8-bit floats");
