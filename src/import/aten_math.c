/* aten_math.c: builders of what is computed element by element, of reductions and of products. */
#include "import/aten.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ one operand */

BUILD(unary)
{
    sp_value *x = sp_aten_as(b, "self");
    return sp_aten_node(b, b->row->op, NULL, 1, &x);
}

BUILD(unary_bool)
{
    sp_value *x = sp_aten_in(b, "self", SPARTA_BOOL);
    return sp_aten_node(b, b->row->op, NULL, 1, &x);
}

BUILD(bitwise_not)
{
    if (b->dtype != SPARTA_BOOL) return sp_aten_refuse(b, "of integers it is not supported, only of bools");
    return sp_aten_build_unary_bool(b);
}

BUILD(test)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    sp_value *in = sp_dtype_is_float(x->dtype) ? x->v : sp_aten_cast(b, x->v, x->dtype, SPARTA_F32);
    return sp_aten_node(b, b->row->op, NULL, 1, &in);
}

BUILD(rsqrt)
{
    return OP(b, Reciprocal, OP(b, Sqrt, sp_aten_as(b, "self")));
}

BUILD(square)
{
    sp_value *x = sp_aten_as(b, "self");
    return OP(b, Mul, x, x);
}

BUILD(silu)
{
    return OP_WITH(b, Swish, SP_ATTRS(SP_FLOAT("alpha", 1)), sp_aten_as(b, "self"));
}

BUILD(gelu)
{
    const char *how = sp_aten_word(b, "approximate", "none");
    return OP_WITH(b, Gelu, SP_ATTRS(SP_STRING("approximate", how)), sp_aten_as(b, "self"));
}

BUILD(log_sigmoid)
{
    return OP(b, Neg, OP(b, Softplus, OP(b, Neg, sp_aten_as(b, "self"))));
}

BUILD(threshold)
{
    sp_value *x = sp_aten_as(b, "self"), *most = sp_aten_as(b, "threshold");
    return OP(b, Where, OP(b, LessOrEqual, x, most), sp_aten_as(b, "value"), x); /* NaN stays */
}

/* One slope, or one of each channel, which is dim 1. */
BUILD(prelu)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self"), *slope = sp_aten_tensor(b, "weight");
    int64_t along[SPARTA_RANK];
    for (int i = 0; i < x->rank; i++) along[i] = i == 1 ? -1 : 1;
    sp_value *by = x->rank > 2 && slope->rank == 1
                       ? OP(b, Reshape, slope->v, sp_aten_numbers(b, x->rank, along))
                       : slope->v;
    int64_t one;
    if (slope->rank == 1 && sp_aten_known(slope->meta, 0, &one) && one == 1)
        by = OP(b, Reshape, slope->v, sp_aten_numbers(b, 0, along));
    return OP(b, PRelu, sp_aten_as(b, "self"), by);
}

/* The first half times the sigmoid of the second. */
BUILD(glu)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", -1, x->rank);
    int64_t size;
    if (!sp_aten_known(x->meta, (int)axis, &size) || size % 2)
        return sp_aten_refuse(b, "along a size that is not fixed, or odd");
    sp_value *in[] = {sp_aten_as(b, "self"), sp_aten_numbers(b, 2, (int64_t[]){size / 2, size / 2})},
             *half[2];
    if (!in[0] || !in[1] || !sp_aten_nodes(b, SP_OP_Split, SP_ATTRS(SP_INT("axis", axis)), 2, in, 2, half))
        return NULL;
    return OP(b, Mul, half[0], OP(b, Sigmoid, half[1]));
}

BUILD(leaky_relu)
{
    const float slope = (float)sp_aten_number(b, "negative_slope", 0.01);
    return OP_WITH(b, LeakyRelu, SP_ATTRS(SP_FLOAT("alpha", slope)), sp_aten_as(b, "self"));
}

BUILD(elu)
{
    if (sp_aten_number(b, "scale", 1) != 1 || sp_aten_number(b, "input_scale", 1) != 1)
        return sp_aten_refuse(b, "its scales are not 1");
    const float alpha = (float)sp_aten_number(b, "alpha", 1);
    return OP_WITH(b, Elu, SP_ATTRS(SP_FLOAT("alpha", alpha)), sp_aten_as(b, "self"));
}

BUILD(softplus)
{
    if (sp_aten_number(b, "beta", 1) != 1) return sp_aten_refuse(b, "its beta is not 1");
    return OP(b, Softplus, sp_aten_as(b, "self"));
}

BUILD(hardsigmoid)
{
    return OP_WITH(b, HardSigmoid, SP_ATTRS(SP_FLOAT("alpha", 1.0f / 6), SP_FLOAT("beta", 0.5f)),
                   sp_aten_as(b, "self"));
}

BUILD(relu6)
{
    return OP(b, Clip, sp_aten_as(b, "self"), sp_aten_number_of(b, b->dtype, 0),
              sp_aten_number_of(b, b->dtype, 6));
}

BUILD(hardtanh)
{
    return OP(b, Clip, sp_aten_as(b, "self"),
              sp_aten_number_of(b, b->dtype, sp_aten_number(b, "min_val", -1)),
              sp_aten_number_of(b, b->dtype, sp_aten_number(b, "max_val", 1)));
}

BUILD(clamp)
{
    sp_value *y = sp_aten_as(b, "self");
    if (sp_aten_arg(b, "min")) y = OP(b, Max, y, sp_aten_as(b, "min"));
    if (sp_aten_arg(b, "max")) y = OP(b, Min, y, sp_aten_as(b, "max"));
    return y;
}

/* ------------------------------------------------------------------ two operands */

BUILD(binary)
{
    sp_value *in[] = {sp_aten_as(b, "self"), sp_aten_as(b, "other")};
    return sp_aten_node(b, b->row->op, NULL, 2, in);
}

/* v times the argument alpha. */
static sp_value *times_alpha(sp_aten *b, sp_value *v)
{
    const double alpha = sp_aten_number(b, "alpha", 1);
    return alpha == 1 ? v : OP(b, Mul, v, sp_aten_number_of(b, b->dtype, alpha));
}

BUILD(added)
{
    sp_value *in[] = {sp_aten_as(b, "self"), times_alpha(b, sp_aten_as(b, "other"))};
    return sp_aten_node(b, b->row->op, NULL, 2, in);
}

BUILD(rsub)
{
    return OP(b, Sub, sp_aten_as(b, "other"), times_alpha(b, sp_aten_as(b, "self")));
}

/* Python's remainder: it has the sign of the divisor. */
static sp_value *modulo(sp_aten *b, sp_value *x, sp_value *y)
{
    if (!sp_dtype_is_float(b->dtype)) return OP_WITH(b, Mod, SP_ATTRS(SP_INT("fmod", 0)), x, y);
    return OP(b, Sub, x, OP(b, Mul, OP(b, Floor, OP(b, Div, x, y)), y));
}

BUILD(remainder)
{
    return modulo(b, sp_aten_as(b, "self"), sp_aten_as(b, "other"));
}

BUILD(div_mode)
{
    const bool whole = !sp_dtype_is_float(b->dtype);
    const char *mode =
        strstr(b->row->overload, "floor_divide") ? "floor" : sp_aten_word(b, "rounding_mode", "");
    sp_value *x = sp_aten_as(b, "self"), *y = sp_aten_as(b, "other");
    if (!strcmp(mode, "floor"))
        return whole ? OP(b, Div, OP(b, Sub, x, modulo(b, x, y)), y) : OP(b, Floor, OP(b, Div, x, y));
    sp_value *q = OP(b, Div, x, y);
    return whole || strcmp(mode, "trunc") != 0 ? q : OP(b, Mul, OP(b, Sign, q), OP(b, Floor, OP(b, Abs, q)));
}

BUILD(power)
{
    return OP(b, Pow, sp_aten_as(b, "self"), sp_aten_as(b, "exponent"));
}

/* ------------------------------------------------------------------ truths */

static int category(sparta_dtype t)
{
    return t == SPARTA_BOOL ? 0 : sp_dtype_is_float(t) ? 2 : 1;
}

/* The type in which two are compared: that of the higher kind, of those with dims before those without, the wider. A number counts as a
 * tensor without dims of the least type of its kind. */
static sparta_dtype promoted(sp_aten *b)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const json_value *other = sp_aten_arg(b, "other");
    if (!other || strcmp(other->key, "as_tensor") != 0) {
        const bool real = other && !strcmp(other->key, "as_float");
        if (real && category(x->dtype) < 2) return SPARTA_F32;
        return x->dtype == SPARTA_BOOL && other && strcmp(other->key, "as_bool") != 0 ? SPARTA_I64 : x->dtype;
    }
    const sp_pt2_value *y = sp_aten_tensor(b, "other");
    if (category(x->dtype) != category(y->dtype))
        return category(x->dtype) > category(y->dtype) ? x->dtype : y->dtype;
    if (!x->rank != !y->rank) return x->rank ? x->dtype : y->dtype;
    return sparta_dtype_size(x->dtype) >= sparta_dtype_size(y->dtype) ? x->dtype : y->dtype;
}

/* Numbers with bools in them are compared as integers: bools have no order. */
BUILD(compare)
{
    sparta_dtype t = promoted(b);
    if (t == SPARTA_BOOL && b->row->op != SP_OP_Equal) t = SPARTA_I32;
    sp_value *in[] = {sp_aten_in(b, "self", t), sp_aten_in(b, "other", t)};
    return sp_aten_node(b, b->row->op, NULL, 2, in);
}

BUILD(not_equal)
{
    const sparta_dtype t = promoted(b);
    return OP(b, Not, OP(b, Equal, sp_aten_in(b, "self", t), sp_aten_in(b, "other", t)));
}

BUILD(logical)
{
    sp_value *in[] = {sp_aten_in(b, "self", SPARTA_BOOL), sp_aten_in(b, "other", SPARTA_BOOL)};
    return sp_aten_node(b, b->row->op, NULL, 2, in);
}

BUILD(logic)
{
    if (b->dtype != SPARTA_BOOL) return sp_aten_refuse(b, "of integers it is not supported, only of bools");
    return sp_aten_build_logical(b);
}

BUILD(where)
{
    return OP(b, Where, sp_aten_in(b, "condition", SPARTA_BOOL), sp_aten_as(b, "self"),
              sp_aten_as(b, "other"));
}

BUILD(masked_fill)
{
    return OP(b, Where, sp_aten_in(b, "mask", SPARTA_BOOL), sp_aten_as(b, "value"), sp_aten_as(b, "self"));
}

/* ------------------------------------------------------------------ reductions */

/* Over the axes of argument dim; all of them where there is none. */
static sp_value *reduced(sp_aten *b, sp_op_id op, sp_value *x, bool keep)
{
    int64_t axis[SPARTA_RANK];
    const int n = sp_aten_ints(b, "dim", axis);
    sp_value *in[] = {x, n ? sp_aten_numbers(b, n, axis) : NULL};
    return sp_aten_node(b, op, SP_ATTRS(SP_INT("keepdims", keep)), n ? 2 : 1, in);
}

BUILD(reduce)
{
    return reduced(b, b->row->op, sp_aten_as(b, "self"), sp_aten_yes(b, "keepdim", false));
}

/* The mean square of what is left of the mean, times n / (n - correction); its root where the overload is std, and the mean beside it where
 * it is var_mean. In f32 of halves, whose squares end at 65504. */
BUILD(variance)
{
    const sparta_dtype dtype = b->dtype == SPARTA_F64 ? SPARTA_F64 : SPARTA_F32;
    sp_value *x = sp_aten_cast(b, sp_aten_as(b, "self"), b->dtype, dtype);
    const bool keep = sp_aten_yes(b, "keepdim", false);
    const double less =
        sp_aten_arg(b, "correction") ? sp_aten_number(b, "correction", 1) : sp_aten_yes(b, "unbiased", true);
    sp_value *off = OP(b, Sub, x, reduced(b, SP_OP_ReduceMean, x, true)),
             *y = reduced(b, SP_OP_ReduceMean, OP(b, Mul, off, off), keep);
    if (less != 0) {
        sp_value *n = sp_aten_cast(b, OP(b, Div, OP(b, Size, x), OP(b, Size, y)), SPARTA_I64, dtype),
                 *left = OP(b, Max, OP(b, Sub, n, sp_aten_number_of(b, dtype, less)),
                            sp_aten_number_of(b, dtype, 0));
        y = OP(b, Mul, y, OP(b, Div, n, left));
    }
    if (strstr(b->row->overload, "_mean") && b->n_names > 1)
        b->out[1] = sp_aten_cast(b, reduced(b, SP_OP_ReduceMean, x, keep), dtype, b->dtype);
    return sp_aten_cast(b, strstr(b->row->overload, ".std") ? OP(b, Sqrt, y) : y, dtype, b->dtype);
}

/* v times g over its norms along all dims but one; -1: along all. */
BUILD(weight_norm)
{
    const sp_pt2_value *v = sp_aten_tensor(b, "v");
    const bool whole = sp_aten_int(b, "dim", 0) == -1;
    const int64_t kept = sp_aten_axis(b, "dim", 0, v->rank);
    int64_t axis[SPARTA_RANK];
    int n = 0;
    for (int d = 0; d < v->rank; d++)
        if (whole || d != kept) axis[n++] = d;
    sp_value *in[] = {sp_aten_as(b, "v"), n ? sp_aten_numbers(b, n, axis) : NULL};
    sp_value *norm =
        n ? sp_aten_node(b, SP_OP_ReduceL2, SP_ATTRS(SP_INT("keepdims", 1)), 2, in) : OP(b, Abs, in[0]);
    if (b->n_names > 1) b->out[1] = norm;
    return OP(b, Mul, in[0], OP(b, Div, sp_aten_as(b, "g"), norm));
}

BUILD(norm)
{
    const char *order = strstr(b->row->overload, "linalg") ? "ord" : "p";
    const double p = sp_aten_number(b, order, 2);
    if (p != 1 && p != 2) return sp_aten_refuse(b, "the norm of order %g; 1 and 2 are supported", p);
    return reduced(b, p == 1 ? SP_OP_ReduceL1 : SP_OP_ReduceL2, sp_aten_as(b, "self"),
                   sp_aten_yes(b, "keepdim", false));
}

static sp_value *arg_along(sp_aten *b, sp_op_id op, sp_value *x, int64_t axis, bool keep)
{
    return sp_aten_node(b, op, SP_ATTRS(SP_INT("axis", axis), SP_INT("keepdims", keep)), 1, &x);
}

/* The largest, or smallest, and where it is. */
BUILD(extreme)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    const bool keep = sp_aten_yes(b, "keepdim", false);
    sp_value *y = reduced(b, b->row->op, x->v, keep);
    if (b->n_names > 1)
        b->out[1] =
            arg_along(b, b->row->op == SP_OP_ReduceMax ? SP_OP_ArgMax : SP_OP_ArgMin, x->v, axis, keep);
    return y;
}

BUILD(arg)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    if (sp_aten_arg(b, "dim"))
        return arg_along(b, b->row->op, x->v, sp_aten_int(b, "dim", 0), sp_aten_yes(b, "keepdim", false));
    return arg_along(b, b->row->op, OP(b, Reshape, x->v, sp_aten_numbers(b, 1, &(int64_t){-1})), 0, false);
}

BUILD(topk)
{
    sp_value *in[] = {sp_aten_tensor(b, "self")->v, sp_aten_size(b, "k")}, *out[2];
    const sp_attrs *attrs = SP_ATTRS(SP_INT("axis", sp_aten_int(b, "dim", -1)),
                                     SP_INT("largest", sp_aten_yes(b, "largest", true)),
                                     SP_INT("sorted", sp_aten_yes(b, "sorted", true)));
    if (!in[0] || !in[1] || !sp_aten_nodes(b, SP_OP_TopK, attrs, 2, in, 2, out)) return NULL;
    if (b->n_names > 1) b->out[1] = out[1];
    return out[0];
}

/* All of an axis as the first so many of it; equal ones stay in their order. Bools as integers; one number is sorted. */
BUILD(sort)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", -1, x->rank);
    const sparta_dtype dtype = x->dtype == SPARTA_BOOL ? SPARTA_I32 : x->dtype;
    const bool places = strstr(b->row->overload, "argsort") != NULL;
    sp_value *out[2] = {x->v, sp_aten_number_of(b, SPARTA_I64, 0)};
    if (x->rank) {
        sp_value *in[] = {sp_aten_cast(b, x->v, x->dtype, dtype),
                          OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", axis), SP_INT("end", axis + 1)), x->v)};
        const sp_attrs *attrs =
            SP_ATTRS(SP_INT("axis", axis), SP_INT("largest", sp_aten_yes(b, "descending", false)),
                     SP_INT("sorted", 1));
        if (!in[0] || !in[1] || !sp_aten_nodes(b, SP_OP_TopK, attrs, 2, in, 2, out)) return NULL;
        out[0] = sp_aten_cast(b, out[0], dtype, x->dtype);
    }
    if (b->n_names > 1) b->out[1] = out[1];
    return out[places];
}

BUILD(cumsum)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    return OP(b, CumSum, sp_aten_as(b, "self"), sp_aten_number_of(b, SPARTA_I64, (double)axis));
}

BUILD(softmax)
{
    sp_value *x = sp_aten_as(b, "self");
    return sp_aten_node(b, b->row->op, SP_ATTRS(SP_INT("axis", sp_aten_int(b, "dim", -1))), 1, &x);
}

/* ------------------------------------------------------------------ products */

BUILD(linear)
{
    const sp_pt2_value *w = sp_aten_tensor(b, "weight");
    sp_value *y = OP(b, MatMul, sp_aten_as(b, "input"), sp_aten_swap_last(b, w->v, w->rank));
    return sp_aten_arg(b, "bias") ? OP(b, Add, y, sp_aten_as(b, "bias")) : y;
}

BUILD(matmul)
{
    const bool other = sp_aten_arg(b, "other") != NULL;
    return OP(b, MatMul, sp_aten_as(b, "self"), sp_aten_as(b, other ? "other" : "mat2"));
}

/* v times the number that an argument says. */
static sp_value *scaled(sp_aten *b, const char *by, sp_value *v)
{
    const double scale = sp_aten_number(b, by, 1);
    return scale == 1 ? v : OP(b, Mul, v, sp_aten_number_of(b, b->dtype, scale));
}

BUILD(addmm)
{
    const bool batches = sp_aten_arg(b, "batch1") != NULL;
    sp_value *y =
        OP(b, MatMul, sp_aten_as(b, batches ? "batch1" : "mat1"), sp_aten_as(b, batches ? "batch2" : "mat2"));
    return OP(b, Add, scaled(b, "alpha", y), scaled(b, "beta", sp_aten_as(b, "self")));
}

BUILD(einsum)
{
    int n;
    const sp_pt2_value **list = sp_aten_tensors(b, "tensors", &n);
    sp_value **in = list ? sp_arena_array(b->p->keep, (size_t)n + 1, sizeof *in) : NULL;
    for (int i = 0; in && i < n; i++)
        in[i] = list[i] ? sp_aten_cast(b, list[i]->v, list[i]->dtype, b->dtype) : NULL;
    if (!in) return NULL;
    return sp_aten_node(b, SP_OP_Einsum, SP_ATTRS(SP_STRING("equation", sp_aten_word(b, "equation", ""))), n,
                        in);
}
