/* aten_index.c: builders of what is addressed by numbers: lookups, windows, writes at places, bags, counts. */
#include "import/aten.h"
#include <math.h>
#include <string.h>

static sp_value *number(sp_aten *b, int64_t value)
{
    return sp_aten_numbers(b, 1, &value);
}

/* Integers as a matrix, (rows, columns). */
static sp_value *matrix(sp_aten *b, int64_t rows, int64_t columns, const int64_t *value)
{
    return OP(b, Reshape, sp_aten_numbers(b, (int)(rows * columns), value),
              sp_aten_numbers(b, 2, (int64_t[]){rows, columns}));
}

static sp_value *permuted(sp_aten *b, sp_value *v, int rank, const int64_t *perm)
{
    return OP_WITH(b, Transpose, SP_ATTRS(SP_INTS("perm", rank, perm)), v);
}

/* 0, 1, ... up to the size of an axis of v. */
static sp_value *places(sp_aten *b, sp_value *v, int64_t axis)
{
    sp_value *size = OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", axis), SP_INT("end", axis + 1)), v);
    return OP(b, Range, sp_aten_number_of(b, SPARTA_I64, 0), OP(b, Squeeze, size, number(b, 0)),
              sp_aten_number_of(b, SPARTA_I64, 1));
}

/* ------------------------------------------------------------------ lookups */

BUILD(index_select)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    return OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", axis)), x->v, sp_aten_tensor(b, "index")->v);
}

BUILD(gather)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    return OP_WITH(b, GatherElements, SP_ATTRS(SP_INT("axis", axis)), x->v, sp_aten_tensor(b, "index")->v);
}

/* Several indices: they repeat into one shape, and what they point at is looked up as one, GatherND over the axes that have one, which
 * are put in front. */
typedef struct indexing {
    int n, rank;           /* of the indices: how many, and their dims when they are as one */
    int axis[SPARTA_RANK]; /* that they are of */
    sp_value *v[SPARTA_RANK];
} indexing;

/* All of one shape: the sum of what is zero everywhere else has it. */
static sp_value *common_shape(sp_aten *b, const indexing *x)
{
    sp_value *sum = x->v[0];
    for (int i = 1; i < x->n; i++) sum = OP(b, Add, sum, x->v[i]);
    return OP(b, Shape, sum);
}

/* perm that puts the indexed axes in front; back: the one that puts the `rank` dims of the indices where the first of the axes was. */
static bool to_front(const indexing *x, int rank, int64_t *perm)
{
    int n = 0;
    bool moved = false;
    for (int i = 0; i < x->n; i++) perm[n++] = x->axis[i];
    for (int d = 0; d < rank; d++) {
        bool taken = false;
        for (int i = 0; i < x->n; i++) taken |= x->axis[i] == d;
        if (!taken) perm[n++] = d;
    }
    for (int d = 0; d < rank; d++) moved |= perm[d] != d;
    return moved;
}

/* Do the dims of the indices stand where the first of the axes was? Else PyTorch puts them in front. */
static bool is_between(const indexing *x)
{
    return x->axis[0] && x->axis[x->n - 1] - x->axis[0] == x->n - 1;
}

/* The perm that moves the dims of the indices from the front to where they stand; `rest` dims have none. */
static bool to_between(sp_aten *b, const indexing *x, int rest, int64_t *perm)
{
    const int first = x->axis[0], rank = x->rank + rest;
    if (rank > SPARTA_RANK) sp_aten_refuse(b, "more than %d dims", SPARTA_RANK);
    if (rank > SPARTA_RANK || !is_between(x)) return false;
    for (int d = 0; d < rank; d++) perm[d] = d < first ? x->rank + d : d < first + x->rank ? d - first : d;
    return true;
}

static void inverse(int rank, const int64_t *perm, int64_t *out)
{
    for (int d = 0; d < rank; d++) out[perm[d]] = d;
}

/* The indices side by side, (.., n), which are of that shape by themselves. */
static sp_value *side_by_side(sp_aten *b, const indexing *by, sp_value *shape)
{
    sp_value *v[SPARTA_RANK];
    for (int i = 0; i < by->n; i++) v[i] = OP(b, Unsqueeze, OP(b, Expand, by->v[i], shape), number(b, -1));
    return sp_aten_node(b, SP_OP_Concat, SP_ATTRS(SP_INT("axis", -1)), by->n, v);
}

static sp_value *look_up(sp_aten *b, const sp_pt2_value *x, const indexing *by)
{
    int64_t perm[SPARTA_RANK];
    sp_value *from = x->v, *all = side_by_side(b, by, common_shape(b, by));
    if (to_front(by, x->rank, perm)) from = permuted(b, from, x->rank, perm);
    sp_value *y = OP(b, GatherND, from, all);
    return to_between(b, by, x->rank - by->n, perm) ? permuted(b, y, by->rank + x->rank - by->n, perm) : y;
}

/* Those of argument "indices"; false where they are not such. */
static bool read_indices(sp_aten *b, const sp_pt2_value *x, indexing *by)
{
    int n;
    const sp_pt2_value **list = sp_aten_tensors(b, "indices", &n);
    if (!list || n > x->rank) return sp_aten_refuse(b, "more indices than dims");
    for (int i = 0; i < n; i++) {
        if (!list[i]) continue;
        if (list[i]->dtype == SPARTA_BOOL || list[i]->dtype == SPARTA_U8)
            return sp_aten_refuse(
                b, "a mask as an index: how many elements there are would be known only as it runs");
        by->axis[by->n] = i;
        by->v[by->n++] = sp_aten_cast(b, list[i]->v, list[i]->dtype, SPARTA_I64);
        by->rank = SP_MAX(by->rank, list[i]->rank);
    }
    return true;
}

BUILD(index)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    indexing by = {0};
    if (!read_indices(b, x, &by)) return NULL;
    if (!by.n) return x->v;
    if (by.n == 1) return OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", by.axis[0])), x->v, by.v[0]);
    return look_up(b, x, &by);
}

/* ------------------------------------------------------------------ windows */

enum { MOST_PLACES = 1 << 20 };

/* Where windows along an axis read: entry (i, j) is i*first + j*second, which is inside of the axis. */
static sp_value *lattice(sp_aten *b, int64_t n, int64_t first, int64_t m, int64_t second)
{
    if (b->status != SPARTA_OK) return NULL;
    if (n < 1 || m < 1 || n > MOST_PLACES / m)
        return sp_aten_refuse(b, "no windows, or more than a million places in them");
    int64_t *at = sp_arena_array(b->p->keep, (size_t)(n * m), sizeof *at);
    if (!at) {
        b->status = sp_ctx_status(b->p->cx);
        return NULL;
    }
    for (int64_t i = 0; i < n * m; i++) at[i] = i / m * first + i % m * second;
    return matrix(b, n, m, at);
}

/* (.., L, ..) -> (.., windows, .., size) */
BUILD(unfold)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const int64_t axis = sp_aten_axis(b, "dimension", 0, x->rank), size = sp_aten_int(b, "size", 1),
                  step = sp_aten_int(b, "step", 1);
    int64_t length, perm[SPARTA_RANK + 1];
    if (!x->rank || x->rank == SPARTA_RANK || !sp_aten_known(x->meta, (int)axis, &length))
        return sp_aten_refuse(b, "along a size that is not fixed, or of %d dims", x->rank);
    if (size < 1 || step < 1 || size > length)
        return sp_aten_refuse(b, "windows of %lld in steps of %lld, of %lld", (long long)size,
                              (long long)step, (long long)length);
    sp_value *y = OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", axis)), x->v,
                          lattice(b, (length - size) / step + 1, step, size, 1));
    for (int d = 0; d <= x->rank; d++) perm[d] = d <= axis ? d : d < x->rank ? d + 1 : axis + 1;
    return permuted(b, y, x->rank + 1, perm);
}

/* Two numbers, or one for both; false where they are outside of least to MOST_PLACES. */
static bool pair(sp_aten *b, const char *name, int64_t otherwise, int64_t least, int64_t out[2])
{
    int64_t said[SPARTA_RANK];
    const int n = sp_aten_ints(b, name, said);
    bool inside = true;
    for (int i = 0; i < 2; i++) {
        out[i] = !n ? otherwise : said[n > 1 ? i : 0];
        inside &= out[i] >= least && out[i] <= MOST_PLACES;
    }
    return inside;
}

/* (N, C, H, W) -> (N, C*kh*kw, places): rows are looked up, then columns. */
BUILD(im2col)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    int64_t size[4], kernel[2], dilation[2], pad[2], stride[2], n[2];
    if (!pair(b, "kernel_size", 1, 1, kernel) || !pair(b, "dilation", 1, 1, dilation) ||
        !pair(b, "padding", 0, 0, pad) || !pair(b, "stride", 1, 1, stride))
        return sp_aten_refuse(b, "a kernel, stride, dilation or padding that is none");
    for (int i = 1; i < 4; i++)
        if (x->rank != 4 || !sp_aten_known(x->meta, i, &size[i]) || size[i] > MOST_PLACES)
            return sp_aten_refuse(b, "of other than four dims, (N, C, H, W), or of sizes that are not fixed; "
                                     "x.unsqueeze(0) makes a batch of one image");
    sp_value *y =
        OP(b, Pad, x->v, sp_aten_numbers(b, 8, (int64_t[]){0, 0, pad[0], pad[1], 0, 0, pad[0], pad[1]}),
           sp_aten_number_of(b, b->dtype, 0));
    for (int i = 0; i < 2; i++) {
        const int64_t room = size[2 + i] + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1;
        n[i] = room < 0 ? 0 : room / stride[i] + 1;
        y = OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", i ? 4 : 2)), y,
                    lattice(b, kernel[i], dilation[i], n[i], stride[i]));
    }
    y = permuted(b, y, 6, (int64_t[]){0, 1, 2, 4, 3, 5});
    return OP(b, Reshape, y,
              sp_aten_numbers(b, 3, (int64_t[]){0, size[1] * kernel[0] * kernel[1], n[0] * n[1]}));
}

/* ------------------------------------------------------------------ writes at places */

static bool has_sums(sp_aten *b)
{
    if (b->dtype == SPARTA_BOOL) sp_aten_refuse(b, "it adds bools; cast them to integers before, x.int()");
    return b->dtype != SPARTA_BOOL;
}

/* What ScatterND adds or puts: coordinates (.., rank) and what goes there. */
static sp_value *scattered(sp_aten *b, sp_value *to, sp_value *at, sp_value *from, bool add)
{
    if (add && !has_sums(b)) return NULL;
    return OP_WITH(b, ScatterND, SP_ATTRS(SP_STRING("reduction", add ? "add" : "none")), to, at, from);
}

/* Element by element: along `dim` it goes where the index says, along the others where it stands. */
BUILD(scatter)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self"), *index = sp_aten_tensor(b, "index");
    const bool value = strstr(b->row->overload, ".value") != NULL,
               add = strstr(b->row->overload, "_add") != NULL;
    const sp_pt2_value *src = value ? NULL : sp_aten_tensor(b, "src");
    const int64_t axis = sp_aten_axis(b, "dim", 0, x->rank);
    sp_value *at[SPARTA_RANK];
    if (!x->rank || index->rank != x->rank || (src && src->rank != x->rank))
        return sp_aten_refuse(b, "of other dims than its index");
    sp_value *shape = OP(b, Shape, index->v), *from = sp_aten_as(b, value ? "value" : "src");
    for (int d = 0; d < x->rank; d++) {
        int64_t along[SPARTA_RANK];
        for (int i = 0; i < x->rank; i++) along[i] = i == d ? -1 : 1;
        sp_value *v =
            d == axis ? index->v
                      : OP(b, Expand,
                           OP(b, Reshape, places(b, index->v, d), sp_aten_numbers(b, x->rank, along)), shape);
        at[d] = OP(b, Unsqueeze, sp_aten_cast(b, v, d == axis ? index->dtype : SPARTA_I64, SPARTA_I64),
                   number(b, -1));
        if (src)
            from = OP(b, Slice, from, number(b, 0),
                      OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", d), SP_INT("end", d + 1)), index->v),
                      number(b, d));
    }
    if (value) from = OP(b, Expand, from, shape);
    sp_value *all = sp_aten_node(b, SP_OP_Concat, SP_ATTRS(SP_INT("axis", -1)), x->rank, at);
    return scattered(b, sp_aten_as(b, "self"), all, from, add);
}

/* A mask of truths: one value where it is true, or the same row of them. */
static sp_value *put_masked(sp_aten *b, const sp_pt2_value *x, const sp_pt2_value *mask,
                            const sp_pt2_value *value)
{
    const int rest = x->rank - mask->rank;
    int64_t more[SPARTA_RANK], size = 0;
    if (rest < 0 || value->rank > rest + 1 ||
        (value->rank > rest && !(sp_aten_known(value->meta, 0, &size) && size == 1)))
        return sp_aten_refuse(b, "more than one value where a mask is true: how many are read would be known "
                                 "only as it runs; torch.where(mask, values, x) takes values of x's shape");
    for (int i = 0; i < rest; i++) more[i] = mask->rank + i;
    sp_value *where = rest ? OP(b, Unsqueeze, mask->v, sp_aten_numbers(b, rest, more)) : mask->v,
             *from = sp_aten_as(b, "values");
    if (sp_aten_yes(b, "accumulate", false))
        from = has_sums(b) ? OP(b, Add, sp_aten_as(b, "self"), from) : NULL;
    return OP(b, Where, where, from, sp_aten_as(b, "self"));
}

/* The shape of x[indices], into which the values repeat. */
static sp_value *shape_of_places(sp_aten *b, const sp_pt2_value *x, const indexing *by, sp_value *shape)
{
    const int first = is_between(by) ? by->axis[0] : 0;
    sp_value *part[SPARTA_RANK + 1];
    int n = 0, next = 0;
    for (int d = 0; d <= x->rank; d++) {
        if (d == first) part[n++] = shape;
        if (next < by->n && by->axis[next] == d)
            next++;
        else if (d < x->rank)
            part[n++] = OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", d), SP_INT("end", d + 1)), x->v);
    }
    return sp_aten_node(b, SP_OP_Concat, SP_ATTRS(SP_INT("axis", 0)), n, part);
}

static sp_value *put_at(sp_aten *b, const sp_pt2_value *x, const indexing *by, sp_value *values, bool add)
{
    const int rest = x->rank - by->n;
    int64_t perm[SPARTA_RANK], back[SPARTA_RANK];
    sp_value *shape = common_shape(b, by), *to = sp_aten_as(b, "self"),
             *from = OP(b, Expand, values, shape_of_places(b, x, by, shape));
    if (to_between(b, by, rest, perm)) {
        inverse(by->rank + rest, perm, back);
        from = permuted(b, from, by->rank + rest, back);
    }
    const bool moved = to_front(by, x->rank, perm);
    if (moved) to = permuted(b, to, x->rank, perm);
    to = scattered(b, to, side_by_side(b, by, shape), from, add);
    inverse(x->rank, perm, back);
    return moved ? permuted(b, to, x->rank, back) : to;
}

/* The counterpart of index: one mask, or numbers of some of the axes. */
BUILD(index_put)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    indexing by = {0};
    int n;
    const sp_pt2_value **list = sp_aten_tensors(b, "indices", &n);
    if (list && n == 1 && list[0] && list[0]->dtype == SPARTA_BOOL)
        return put_masked(b, x, list[0], sp_aten_tensor(b, "values"));
    if (!read_indices(b, x, &by)) return NULL;
    if (!by.n) return sp_aten_refuse(b, "no index");
    return put_at(b, x, &by, sp_aten_as(b, "values"), sp_aten_yes(b, "accumulate", false));
}

/* self with src in the place of one slice of an axis, as a program has it that was made functional. */
BUILD(slice_scatter)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    indexing by = {.n = 1, .rank = 1, .axis = {(int)sp_aten_axis(b, "dim", 0, x->rank)}};
    sp_value *from, *to, *src = sp_aten_as(b, "src");
    int64_t step;
    if (sp_aten_slice(b, &from, &to, &step)) return src;
    by.v[0] = OP(b, Slice, places(b, x->v, by.axis[0]), from, to, number(b, 0), number(b, step));
    return put_at(b, x, &by, src, false);
}

/* The same of one of an axis. */
BUILD(select_scatter)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    indexing by = {.n = 1, .rank = 1, .axis = {(int)sp_aten_axis(b, "dim", 0, x->rank)}};
    by.v[0] = OP(b, Gather, places(b, x->v, by.axis[0]), sp_aten_size(b, "index"));
    return put_at(b, x, &by, OP(b, Unsqueeze, sp_aten_as(b, "src"), number(b, by.axis[0])), false);
}

/* ------------------------------------------------------------------ bags */

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

/* Are the ids so many times the bags, so that none is left for the last? */
static bool is_multiple(sp_aten *b, const json_value *ids, const json_value *bags, int64_t length)
{
    sp_dims of_ids, of_bags;
    if (b->status != SPARTA_OK) return false;
    b->status = sp_pt2_dims(b->p, sp_json_get(ids, "sizes"), &of_ids);
    if (b->status == SPARTA_OK) b->status = sp_pt2_dims(b->p, sp_json_get(bags, "sizes"), &of_bags);
    if (b->status != SPARTA_OK || of_ids.rank != 1 || !of_bags.rank) return false;
    sp_arena *arena = b->p->g->arena;
    const sp_expr *all = sp_expr_mul(arena, of_bags.dim[0], sp_expr_const(arena, length));
    if (!all) b->status = sp_ctx_status(b->p->cx);
    return all && sp_expr_equal(all, of_ids.dim[0]);
}

/* The length of all bags, where they begin at 0, n, 2*n, ...: ids of two dims. 0: not known. */
static int64_t length_of_all(sp_aten *b, const sp_pt2_value *ids, const sp_pt2_value *offsets)
{
    const sp_node *n = offsets->v ? offsets->v->producer : NULL;
    if (!n || n->op != SP_OP_Range || n->in[0]->n_ints != 1 || n->in[2]->n_ints != 1) return 0;
    int64_t length;
    if (!sp_expr_is(n->in[0]->ints[0], 0) || !sp_expr_is_const(n->in[2]->ints[0], &length)) return 0;
    return length > 0 && is_multiple(b, ids->meta, b->meta, length) ? length : 0;
}

static sp_value *equal_bags(sp_aten *b, sp_value *rows, int64_t length, int64_t width, int64_t mode)
{
    const sp_op_id op = mode == BAG_SUM    ? SP_OP_ReduceSum
                        : mode == BAG_MEAN ? SP_OP_ReduceMean
                                           : SP_OP_ReduceMax;
    sp_value *in[] = {OP(b, Reshape, rows, sp_aten_numbers(b, 3, (int64_t[]){-1, length, width})),
                      number(b, 1)};
    return sp_aten_node(b, op, SP_ATTRS(SP_INT("keepdims", 0)), 2, in);
}

/* Where bags begin, (bags). */
static sp_value *beginnings(sp_aten *b, const sp_pt2_value *offsets)
{
    sp_value *start = sp_aten_cast(b, offsets->v, offsets->dtype, SPARTA_I64);
    if (!sp_aten_yes(b, "include_last_offset", false)) return start;
    return OP(b, Slice, start, number(b, 0), number(b, -1), number(b, 0));
}

/* Of each id the number of its bag, the last that begins at or before it, from 1 on. 0: it pads, and is in none. */
static sp_value *bag_of(sp_aten *b, sp_value *start, const sp_pt2_value *ids, int64_t rows)
{
    sp_value *begun = OP(b, LessOrEqual, OP(b, Unsqueeze, start, number(b, 1)), places(b, ids->v, 0)),
             *bag = OP_WITH(b, ReduceSum, SP_ATTRS(SP_INT("keepdims", 0)),
                            sp_aten_cast(b, begun, SPARTA_BOOL, SPARTA_I64), number(b, 0));
    if (!sp_aten_arg(b, "padding_idx")) return bag;
    int64_t pads = sp_aten_int(b, "padding_idx", 0);
    pads += pads < 0 ? rows : 0;
    return OP(b, Where, OP(b, Equal, ids->v, sp_aten_number_of(b, ids->dtype, (double)pads)),
              sp_aten_number_of(b, SPARTA_I64, 0), bag);
}

/* 0 for ids behind the last offset: sums of PyTorch's quick paths end there. Those of f64 or padded bags go on to the last id, as do the largest
 * and, everywhere, the number by which means divide. */
static sp_value *up_to_last(sp_aten *b, const sp_pt2_value *offsets, sp_value *bag)
{
    if (!sp_aten_yes(b, "include_last_offset", false) || sp_aten_arg(b, "padding_idx") ||
        b->dtype == SPARTA_F64)
        return bag;
    sp_value *last = OP(b, Slice, sp_aten_cast(b, offsets->v, offsets->dtype, SPARTA_I64), number(b, -1),
                        number(b, INT64_MAX));
    return OP(b, Where, OP(b, Less, places(b, bag, 0), last), bag, sp_aten_number_of(b, SPARTA_I64, 0));
}

/* Rows of one bag as one, (bags, width): added, or their largest. A row of the result more, the first, takes what is in no bag. */
static sp_value *in_bags(sp_aten *b, sp_value *start, sp_value *bag, sp_value *rows, sp_value *nothing,
                         const char *how)
{
    sp_value *one = number(b, 1),
             *width = OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", 1), SP_INT("end", 2)), rows),
             *shape =
                 OP_WITH(b, Concat, SP_ATTRS(SP_INT("axis", 0)), OP(b, Add, OP(b, Shape, start), one), width),
             *all = OP_WITH(b, ScatterND, SP_ATTRS(SP_STRING("reduction", how)),
                            OP(b, Expand, nothing, shape), OP(b, Unsqueeze, bag, one), rows);
    return OP(b, Slice, all, one, number(b, INT64_MAX), number(b, 0));
}

/* Bags of any length. Of halves in f32, as PyTorch does. */
static sp_value *any_bags(sp_aten *b, sp_value *rows, const sp_pt2_value *offsets, const sp_pt2_value *ids,
                          int64_t table_rows, int64_t mode)
{
    const sparta_dtype dtype = b->dtype == SPARTA_F64 ? SPARTA_F64 : SPARTA_F32;
    sp_value *start = beginnings(b, offsets), *bag = bag_of(b, start, ids, table_rows),
             *none = sp_aten_number_of(b, dtype, 0), *one = sp_aten_number_of(b, dtype, 1),
             *ones = OP(b, Expand, one, OP(b, Shape, OP(b, Unsqueeze, bag, number(b, 1)))), *y;
    rows = sp_aten_cast(b, rows, b->dtype, dtype);
    if (mode == BAG_MAX) {
        y = in_bags(b, start, bag, rows, sp_aten_number_of(b, dtype, -INFINITY), "max");
        y = OP(b, Where, OP(b, Equal, in_bags(b, start, bag, ones, none, "add"), none), none, y);
    } else
        y = in_bags(b, start, up_to_last(b, offsets, bag), rows, none, "add");
    if (mode == BAG_MEAN) y = OP(b, Div, y, OP(b, Max, in_bags(b, start, bag, ones, none, "add"), one));
    return sp_aten_cast(b, y, dtype, b->dtype);
}

BUILD(embedding_bag)
{
    const sp_pt2_value *table = sp_aten_tensor(b, "weight"), *ids = sp_aten_tensor(b, "indices"),
                       *offsets = sp_aten_tensor(b, "offsets"),
                       *scale = sp_aten_maybe(b, "per_sample_weights");
    const int64_t mode = sp_aten_int(b, "mode", 0);
    int64_t high, width;
    if (mode < 0 || mode > BAG_MAX || ids->rank != 1 || !sp_aten_known(table->meta, 0, &high) ||
        !sp_aten_known(table->meta, 1, &width))
        return sp_aten_refuse(b, "ids of %d dims, or a table whose sizes are not fixed", ids->rank);
    sp_value *rows = OP(b, Gather, table->v, ids->v);
    if (scale) rows = OP(b, Mul, rows, OP(b, Unsqueeze, scale->v, number(b, 1)));
    const bool plain = !sp_aten_arg(b, "padding_idx") && !sp_aten_yes(b, "include_last_offset", false);
    const int64_t length = plain ? length_of_all(b, ids, offsets) : 0;
    return length ? equal_bags(b, rows, length, width, mode) : any_bags(b, rows, offsets, ids, high, mode);
}

/* ------------------------------------------------------------------ counts */

/* How many lie in each of `bins` equal parts of low to high; high itself is in the last. */
BUILD(histc)
{
    const int64_t bins = sp_aten_int(b, "bins", 100);
    double low = sp_aten_number(b, "min", 0), high = sp_aten_number(b, "max", 0);
    if (bins < 1 || bins > MOST_PLACES || low > high)
        return sp_aten_refuse(b, "no bins, or more than a million");
    sp_value *x = OP(b, Reshape, sp_aten_as(b, "self"), number(b, -1)),
             *one = sp_aten_number_of(b, b->dtype, 1);
    const sp_attrs *all = SP_ATTRS(SP_INT("keepdims", 0));
    const bool of_data = low == high;
    sp_value *from = of_data ? OP_WITH(b, ReduceMin, all, x) : sp_aten_number_of(b, b->dtype, low),
             *to = of_data ? OP_WITH(b, ReduceMax, all, x) : sp_aten_number_of(b, b->dtype, high);
    if (of_data) {
        sp_value *same = OP(b, Equal, from, to);
        from = OP(b, Where, same, OP(b, Sub, from, one), from);
        to = OP(b, Where, same, OP(b, Add, to, one), to);
    }
    sp_value *place =
        OP(b, Floor,
           OP(b, Div, OP(b, Mul, OP(b, Sub, x, from), sp_aten_number_of(b, b->dtype, (double)bins)),
              OP(b, Sub, to, from)));
    place = OP(b, Min, place, sp_aten_number_of(b, b->dtype, (double)(bins - 1)));
    sp_value *inside = OP(b, And, OP(b, GreaterOrEqual, x, from), OP(b, LessOrEqual, x, to));
    place = OP(b, Where, inside, place, sp_aten_number_of(b, b->dtype, -1));
    sp_value *bin =
        sp_aten_cast(b,
                     OP(b, Range, sp_aten_number_of(b, SPARTA_I64, 0),
                        sp_aten_number_of(b, SPARTA_I64, (double)bins), sp_aten_number_of(b, SPARTA_I64, 1)),
                     SPARTA_I64, b->dtype);
    sp_value *hit =
        sp_aten_cast(b, OP(b, Equal, OP(b, Unsqueeze, bin, number(b, 1)), place), SPARTA_BOOL, b->dtype);
    return OP_WITH(b, ReduceSum, all, hit, number(b, 1));
}
