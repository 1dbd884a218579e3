/* aten_shape.c: builders of what moves or makes elements and computes none: views, pieces, new tensors, sizes. */
#include "import/aten.h"
#include <string.h>

static sp_value *number(sp_aten *b, int64_t value)
{
    return sp_aten_numbers(b, 1, &value);
}

/* ------------------------------------------------------------------ the same */

BUILD(same)
{
    return sp_aten_tensor(b, "self")->v;
}

BUILD(dropout)
{
    if (sp_aten_yes(b, "train", true) && sp_aten_number(b, "p", 0) != 0)
        return sp_aten_refuse(b, "it drops at random, as in training; export module.eval()");
    return sp_aten_tensor(b, sp_aten_arg(b, "self") ? "self" : "input")->v; /* dropout_ calls it self */
}

BUILD(cast)
{
    return sp_aten_as(b, "self");
}

/* ------------------------------------------------------------------ reshaping */

BUILD(reshape)
{
    const char *to = sp_aten_arg(b, "shape") ? "shape" : "size";
    return OP(b, Reshape, sp_aten_tensor(b, "self")->v, sp_aten_sizes(b, to));
}

BUILD(reshape_as)
{
    return OP(b, Reshape, sp_aten_tensor(b, "self")->v, OP(b, Shape, sp_aten_tensor(b, "other")->v));
}

/* Axes from..to (without to) of a shape; NULL where that is none of them. */
static sp_value *shape_part(sp_aten *b, sp_value *v, int64_t from, int64_t to)
{
    return from < to ? OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", from), SP_INT("end", to)), v) : NULL;
}

/* x with the axes from..to replaced by others. */
static sp_value *reshape_axes(sp_aten *b, const sp_pt2_value *x, int64_t from, int64_t to, sp_value *by)
{
    sp_value *before = shape_part(b, x->v, 0, from), *after = shape_part(b, x->v, to, x->rank), *part[3];
    int n = 0;
    if (before) part[n++] = before;
    part[n++] = by;
    if (after) part[n++] = after;
    sp_value *shape = n > 1 ? sp_aten_node(b, SP_OP_Concat, SP_ATTRS(SP_INT("axis", 0)), n, part) : by;
    return OP(b, Reshape, x->v, shape);
}

BUILD(flatten)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t from = sp_aten_axis(b, "start_dim", 0, x->rank),
                  to = sp_aten_axis(b, "end_dim", -1, x->rank);
    if (x->rank && from == to) return x->v;
    if (from == 0 && to == x->rank - 1) return OP(b, Reshape, x->v, number(b, -1));
    return reshape_axes(b, x, from, to + 1, number(b, -1));
}

BUILD(unflatten)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    return reshape_axes(b, x, axis, axis + 1, sp_aten_sizes(b, "sizes"));
}

static sp_value *permuted(sp_aten *b, sp_value *v, int rank, const int64_t *perm)
{
    return OP_WITH(b, Transpose, SP_ATTRS(SP_INTS("perm", rank, perm)), v);
}

BUILD(transpose)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    int64_t perm[SPARTA_RANK];
    const bool named = sp_aten_arg(b, "dim0") || sp_aten_arg(b, "axis0");
    if (x->rank < 2) return x->v;
    if (!named && x->rank != 2) return sp_aten_refuse(b, "of %d dims", x->rank);
    const bool dims = sp_aten_arg(b, "dim0") != NULL;
    const int64_t i = sp_aten_axis(b, dims ? "dim0" : "axis0", 0, x->rank),
                  j = sp_aten_axis(b, dims ? "dim1" : "axis1", 1, x->rank);
    for (int d = 0; d < x->rank; d++) perm[d] = d == i ? j : d == j ? i : d;
    return permuted(b, x->v, x->rank, perm);
}

BUILD(turned)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    return sp_aten_swap_last(b, x->v, x->rank);
}

BUILD(permute)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    int64_t perm[SPARTA_RANK];
    if (sp_aten_ints(b, "dims", perm) != x->rank)
        return sp_aten_refuse(b, "it does not name all %d dims", x->rank);
    for (int d = 0; d < x->rank; d++) perm[d] += perm[d] < 0 ? x->rank : 0;
    return x->rank ? permuted(b, x->v, x->rank, perm) : x->v;
}

BUILD(movedim)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t from = sp_aten_axis(b, "source", 0, x->rank),
                  to = sp_aten_axis(b, "destination", 0, x->rank);
    int64_t perm[SPARTA_RANK];
    for (int d = 0, other = 0; d < x->rank; d++) {
        if (d == to) {
            perm[d] = from;
            continue;
        }
        other += other == from;
        perm[d] = other++;
    }
    return permuted(b, x->v, x->rank, perm);
}

BUILD(unsqueeze)
{
    return OP(b, Unsqueeze, sp_aten_tensor(b, "self")->v, number(b, sp_aten_int(b, "dim", 0)));
}

/* Axes whose size is another than 1, or may be, stay: PyTorch's rule. */
BUILD(squeeze)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    int64_t axis[SPARTA_RANK], size;
    int n = sp_aten_ints(b, "dim", axis), kept = 0;
    if (!sp_aten_arg(b, "dim"))
        for (n = 0; n < x->rank; n++) axis[n] = n;
    for (int i = 0; i < n; i++) {
        const int64_t at = axis[i] < 0 ? axis[i] + x->rank : axis[i];
        if (at >= 0 && at < x->rank && sp_aten_known(x->meta, (int)at, &size) && size == 1) axis[kept++] = at;
    }
    return kept ? OP(b, Squeeze, x->v, sp_aten_numbers(b, kept, axis)) : x->v;
}

/* -1 leaves a size as it is, as 1 does for ONNX. */
BUILD(expand)
{
    sp_value *sizes = sp_aten_sizes(b, "size");
    int64_t kept[SPARTA_RANK];
    if (!sizes) return NULL;
    if (sizes->constant) {
        const int n = sp_aten_ints(b, "size", kept);
        for (int i = 0; i < n; i++) kept[i] = kept[i] == -1 ? 1 : kept[i];
        sizes = sp_aten_numbers(b, n, kept);
    } else if (sizes->producer)
        for (int i = 0; i < sizes->producer->n_in && sizes->producer->op == SP_OP_Concat; i++) {
            sp_value **part = &sizes->producer->in[i];
            if ((*part)->n_ints == 1 && sp_expr_is((*part)->ints[0], -1)) *part = number(b, 1);
            if (!*part) return NULL;
        }
    return OP(b, Expand, sp_aten_tensor(b, "self")->v, sizes);
}

BUILD(expand_as)
{
    return OP(b, Expand, sp_aten_tensor(b, "self")->v, OP(b, Shape, sp_aten_tensor(b, "other")->v));
}

BUILD(repeat)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const json_value *times = sp_aten_arg(b, "repeats");
    const int more = (times ? times->n : 0) - x->rank;
    int64_t front[SPARTA_RANK];
    sp_value *v = x->v;
    if (more < 0 || more > SPARTA_RANK) return sp_aten_refuse(b, "it repeats fewer dims than there are");
    for (int i = 0; i < more; i++) front[i] = i;
    if (more) v = OP(b, Unsqueeze, v, sp_aten_numbers(b, more, front));
    return OP(b, Tile, v, sp_aten_sizes(b, "repeats"));
}

/* (.., n, ..) -> (.., n, 1, ..) -> (.., n, times, ..) -> (.., n*times, ..) */
BUILD(repeat_interleave)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    int64_t tile[SPARTA_RANK + 1], size;
    const int64_t times = sp_aten_int(b, "repeats", 1);
    if (!sp_aten_arg(b, "dim") || x->rank == SPARTA_RANK)
        return sp_aten_refuse(b, "without a dim, or of %d dims", x->rank);
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    for (int i = 0; i <= x->rank; i++) tile[i] = i == axis + 1 ? times : 1;
    sp_pt2_value wide = *x;
    wide.v = OP(b, Tile, OP(b, Unsqueeze, x->v, number(b, axis + 1)), sp_aten_numbers(b, x->rank + 1, tile));
    wide.rank = x->rank + 1;
    int64_t all = -1;
    if (times < 0 || (sp_aten_known(x->meta, (int)axis, &size) && __builtin_mul_overflow(size, times, &all)))
        return sp_aten_refuse(b, "%lld times", (long long)times);
    return wide.v ? reshape_axes(b, &wide, axis, axis + 2, number(b, all)) : NULL;
}

/* ------------------------------------------------------------------ pieces */

static sp_value *sliced(sp_aten *b, sp_value *v, sp_value *from, sp_value *to, int64_t axis, int64_t step)
{
    return OP(b, Slice, v, from, to, number(b, axis), number(b, step));
}

bool sp_aten_slice(sp_aten *b, sp_value **from, sp_value **to, int64_t *step)
{
    *step = sp_aten_int(b, "step", 1);
    *from = sp_aten_arg(b, "start") ? sp_aten_size(b, "start") : number(b, 0);
    *to = sp_aten_arg(b, "end") ? sp_aten_size(b, "end") : number(b, INT64_MAX);
    if (!*from || !*to) return false;
    const bool first = (*from)->n_ints == 1 && sp_expr_is((*from)->ints[0], 0),
               last = (*to)->constant && *(const int64_t *)(*to)->constant->data == INT64_MAX;
    return first && last && *step == 1;
}

BUILD(slice)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    sp_value *from, *to;
    int64_t step;
    return sp_aten_slice(b, &from, &to, &step) ? x->v : sliced(b, x->v, from, to, axis, step);
}

BUILD(narrow)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    sp_value *from = sp_aten_size(b, "start"), *to = OP(b, Add, from, sp_aten_size(b, "length"));
    return sliced(b, x->v, from, to, sp_aten_axis(b, "dim", 0, x->rank), 1);
}

BUILD(select)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    return OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", axis)), x->v, sp_aten_scalar_size(b, "index"));
}

/* Sizes of the pieces as the file says them of the outputs. */
BUILD(split)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    int64_t *size = sp_arena_array(b->p->keep, (size_t)b->n_names + 1, sizeof *size);
    if (!size || !b->n_names) return sp_aten_refuse(b, "it has no outputs");
    for (int i = 0; i < b->n_names; i++)
        if (!sp_aten_known(sp_pt2_row(&b->p->metas, b->out_name[i]), (int)axis, &size[i]))
            return sp_aten_refuse(b, "the sizes of the pieces are not fixed");
    sp_value *in[] = {x->v, sp_aten_numbers(b, b->n_names, size)};
    if (!in[0] || !in[1]) return NULL;
    if (!sp_aten_nodes(b, SP_OP_Split, SP_ATTRS(SP_INT("axis", axis)), 2, in, b->n_names, b->out))
        return NULL;
    return b->out[0];
}

BUILD(unbind)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    for (int i = 0; i < b->n_names; i++)
        b->out[i] =
            OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", axis)), x->v, sp_aten_number_of(b, SPARTA_I64, i));
    return b->n_names ? b->out[0] : sp_aten_refuse(b, "it has no outputs");
}

/* A tensor without elements and with one dim may stand among those of another rank; PyTorch ignores it. */
static bool ignored(const sp_aten *b, const sp_pt2_value *x)
{
    int64_t size;
    return x->rank == 1 && b->rank != 1 && sp_aten_known(x->meta, 0, &size) && size == 0;
}

BUILD(cat)
{
    int n, kept = 0;
    const sp_pt2_value **list = sp_aten_tensors(b, "tensors", &n);
    sp_value **in = list ? sp_arena_array(b->p->keep, (size_t)n + 1, sizeof *in) : NULL;
    const int64_t axis = sp_aten_axis(b, "dim", 0, b->rank);
    for (int i = 0; in && i < n; i++) {
        if (!list[i]) return sp_aten_refuse(b, "one of its tensors is None");
        if (!ignored(b, list[i])) in[kept++] = sp_aten_cast(b, list[i]->v, list[i]->dtype, b->dtype);
    }
    if (!in || !kept) return sp_aten_refuse(b, "it has no tensors");
    return kept == 1 ? in[0] : sp_aten_node(b, SP_OP_Concat, SP_ATTRS(SP_INT("axis", axis)), kept, in);
}

BUILD(stack)
{
    int n;
    const sp_pt2_value **list = sp_aten_tensors(b, "tensors", &n);
    sp_value **in = list ? sp_arena_array(b->p->keep, (size_t)n + 1, sizeof *in) : NULL;
    const int64_t axis = sp_aten_axis(b, "dim", 0, b->rank);
    for (int i = 0; in && i < n; i++) {
        if (!list[i]) return sp_aten_refuse(b, "one of its tensors is None");
        in[i] = OP(b, Unsqueeze, sp_aten_cast(b, list[i]->v, list[i]->dtype, b->dtype), number(b, axis));
    }
    if (!in || !n) return sp_aten_refuse(b, "it has no tensors");
    return sp_aten_node(b, SP_OP_Concat, SP_ATTRS(SP_INT("axis", axis)), n, in);
}

BUILD(roll)
{
    int64_t by[SPARTA_RANK], axis[SPARTA_RANK];
    const int n = sp_aten_ints(b, "shifts", by);
    sp_value *v = sp_aten_tensor(b, "self")->v;
    if (sp_aten_ints(b, "dims", axis) != n || !n)
        return sp_aten_refuse(b, "its shifts and dims are not as many");
    for (int i = 0; i < n; i++) {
        if (by[i] == INT64_MIN) return sp_aten_refuse(b, "by %lld", (long long)by[i]);
        sp_value *head = sliced(b, v, number(b, 0), number(b, -by[i]), axis[i], 1),
                 *tail = sliced(b, v, number(b, -by[i]), number(b, INT64_MAX), axis[i], 1);
        if (by[i]) v = OP_WITH(b, Concat, SP_ATTRS(SP_INT("axis", axis[i])), tail, head);
    }
    return v;
}

BUILD(flip)
{
    int64_t axis[SPARTA_RANK];
    const int n = sp_aten_ints(b, "dims", axis);
    sp_value *v = sp_aten_tensor(b, "self")->v;
    for (int i = 0; i < n; i++) v = sliced(b, v, number(b, INT64_MAX), number(b, INT64_MIN), axis[i], -1);
    return v;
}

/* PyTorch says pairs, of the last axis first; ONNX all beginnings, then all ends. */
BUILD(pad)
{
    static const char *const modes[][2] = {
        {"constant", "constant"}, {"reflect", "reflect"}, {"replicate", "edge"}, {"circular", "wrap"}};
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const json_value *pairs = sp_aten_arg(b, "pad");
    const char *mode = sp_aten_word(b, "mode", "constant"), *ours = NULL;
    int64_t pads[2 * SPARTA_RANK] = {0};
    int i = 0;
    for (size_t m = 0; m < SP_COUNT(modes); m++)
        if (!strcmp(mode, modes[m][0])) ours = modes[m][1];
    if (!ours || !pairs || pairs->n > 2 * x->rank)
        return sp_aten_refuse(b, "mode '%.40s' of so many dims", mode);
    for (const json_value *v = sp_json_first(pairs); v; v = v->next, i++) {
        const int axis = x->rank - 1 - i / 2;
        if (!sp_json_int(v->kind == JSON_OBJECT ? sp_json_get(v, "as_int") : v,
                         &pads[i % 2 ? x->rank + axis : axis]))
            return sp_aten_refuse(b, "what it adds is not fixed");
    }
    sp_value *in[] = {x->v, sp_aten_numbers(b, 2 * x->rank, pads),
                      sp_aten_number_of(b, b->dtype, sp_aten_number(b, "value", 0))};
    return sp_aten_node(b, SP_OP_Pad, SP_ATTRS(SP_STRING("mode", ours)), strcmp(ours, "constant") ? 2 : 3,
                        in);
}

BUILD(diff)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self"), *before = sp_aten_maybe(b, "prepend");
    const int64_t axis = sp_aten_axis(b, "dim", -1, x->rank);
    sp_value *v = sp_aten_as(b, "self");
    if (sp_aten_int(b, "n", 1) != 1 || sp_aten_arg(b, "append") || b->dtype == SPARTA_BOOL)
        return sp_aten_refuse(b, "more than once, with something behind it, or of bools");
    if (before)
        v = OP_WITH(b, Concat, SP_ATTRS(SP_INT("axis", axis)),
                    sp_aten_cast(b, before->v, before->dtype, b->dtype), v);
    return OP(b, Sub, sliced(b, v, number(b, 1), number(b, INT64_MAX), axis, 1),
              sliced(b, v, number(b, 0), number(b, -1), axis, 1));
}

BUILD(triangle)
{
    const bool upper = strstr(b->row->overload, "triu") != NULL;
    return OP_WITH(b, Trilu, SP_ATTRS(SP_INT("upper", upper)), sp_aten_tensor(b, "self")->v,
                   sp_aten_number_of(b, SPARTA_I64, (double)sp_aten_int(b, "diagonal", 0)));
}

/* ------------------------------------------------------------------ new tensors */

static sp_value *bound(sp_aten *b, const char *name, double otherwise)
{
    return sp_aten_arg(b, name) ? sp_aten_as(b, name) : sp_aten_number_of(b, b->dtype, otherwise);
}

BUILD(arange)
{
    return OP(b, Range, bound(b, "start", 0), bound(b, "end", 0), bound(b, "step", 1));
}

static sp_value *of_shape(sp_aten *b, sp_value *shape)
{
    const bool ones = strstr(b->row->overload, "ones") != NULL;
    const double value = sp_aten_number(b, "fill_value", ones ? 1 : 0);
    sp_value *one = sp_aten_filled(b, b->dtype, 1, value);
    if (!one) return NULL;
    const sp_attr attr = {.name = "value", .kind = SP_ATTR_TENSOR, .tensor = one->constant};
    const sp_attrs attrs = {1, &attr};
    return sp_aten_node(b, SP_OP_ConstantOfShape, &attrs, 1, &shape);
}

BUILD(full)
{
    return of_shape(b, sp_aten_sizes(b, "size"));
}

BUILD(full_like)
{
    return of_shape(b, OP(b, Shape, sp_aten_tensor(b, "self")->v));
}

/* The shape of self, filled with what is written over it: a tensor, a number, or zero. */
BUILD(fill)
{
    const char *by = sp_aten_arg(b, "src") ? "src" : "value";
    sp_value *v = sp_aten_arg(b, by) ? sp_aten_as(b, by) : sp_aten_number_of(b, b->dtype, 0);
    return OP(b, Expand, v, OP(b, Shape, sp_aten_tensor(b, "self")->v));
}

BUILD(scalar_tensor)
{
    return sp_aten_as(b, "s");
}

/* ------------------------------------------------------------------ sizes */

BUILD(sym_size)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    return shape_part(b, x->v, axis, axis + 1);
}

BUILD(sym_numel)
{
    return OP(b, Reshape, OP(b, Size, sp_aten_tensor(b, "self")->v), number(b, 1));
}

/* Sizes are not negative, so that a quotient that is cut off is floored. */
BUILD(sizes)
{
    sp_value *in[] = {sp_aten_size(b, "a"), sp_aten_size(b, "b")};
    return sp_aten_node(b, b->row->op, NULL, 2, in);
}

/* What is said of sizes and types: the shape rules find out themselves. */
BUILD(nothing)
{
    (void)b;
    return NULL;
}
