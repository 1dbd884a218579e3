/* Einsum of two operands as a batch of products: by who has a loop it is one of
 *
 *                     in a and b    in a    in b           "bhid, bhjd -> bhij"      batch b h, rows i, columns j, depth d
 *     in the result   batch         rows    columns
 *     summed over     depth         -       -              "-" is left to the reference, as is more than one depth
 *
 * Loops of one kind whose steps fit are merged; of those that are left the innermost is the matrix's, and the others are part of the batch. */
#include "builtin/einsum.h"
#include "builtin/quick.h"

enum { A, B, C, OPERANDS };
enum { BATCH, ROWS, COLUMNS, DEPTH, KINDS };

typedef struct loop {
    int64_t size, step[OPERANDS];
} loop;

typedef struct loops {
    int n;
    loop of[SP_EINSUM_LOOPS];
} loops;

typedef struct dims {
    int64_t size[SP_EINSUM_LOOPS], stride[SP_EINSUM_LOOPS]; /* size -1: the operand does not have the loop */
} dims;

/* false: a diagonal. */
static bool read_dims(const sparta_tensor *t, const int *of, dims *d)
{
    for (int l = 0; l < SP_EINSUM_LOOPS; l++) d->size[l] = -1;
    for (int i = 0; i < t->rank; i++) {
        if (d->size[of[i]] >= 0) return false;
        d->size[of[i]] = t->dim[i];
        d->stride[of[i]] = t->stride[i];
    }
    return true;
}

/* Every loop of more than one step into its kind; false: the reference knows better. */
static bool sort_loops(const sp_einsum *e, const sparta_tensor *out, const dims d[2], loops kind[KINDS])
{
    if (out->rank != e->kept) return false;
    for (int l = 0; l < e->loops; l++) {
        const int64_t x = d[A].size[l], y = d[B].size[l], size = SP_MAX(x, y);
        const bool kept = l<e->kept, in_a = x> 1, in_b = y > 1;
        const bool repeats = e->wide[l] && (x == 1 || y == 1);
        if (size < 1 || (x >= 0 && y >= 0 && x != y && !repeats) || (kept && out->dim[l] != size))
            return false;
        if (size == 1) continue;
        if (!kept && !(in_a && in_b)) return false;
        loops *to = &kind[!kept ? DEPTH : in_a && in_b ? BATCH : in_a ? ROWS : COLUMNS];
        to->of[to->n++] =
            (loop){size, {in_a ? d[A].stride[l] : 0, in_b ? d[B].stride[l] : 0, kept ? out->stride[l] : 0}};
    }
    return true;
}

/* Outer loops first, as `by` steps; then neighbours become one where every operand steps evenly over both. */
static void merge(loops *l, int by)
{
    for (int i = 1; i < l->n; i++)
        for (int k = i; k > 0 && l->of[k].step[by] > l->of[k - 1].step[by]; k--) {
            const loop swap = l->of[k];
            l->of[k] = l->of[k - 1];
            l->of[k - 1] = swap;
        }
    int n = 0;
    for (int i = 0; i < l->n; i++) {
        const loop *inner = &l->of[i];
        bool even = n > 0;
        for (int o = 0; even && o < OPERANDS; o++)
            even = l->of[n - 1].step[o] == inner->size * inner->step[o];
        if (!even) {
            l->of[n++] = *inner;
            continue;
        }
        const int64_t size = l->of[n - 1].size * inner->size;
        l->of[n - 1] = *inner;
        l->of[n - 1].size = size;
    }
    l->n = n;
}

/* The innermost loop of a kind, or one of one step; the others join the batch. */
static loop take(loops *from, loops *batch)
{
    if (from->n == 0) return (loop){.size = 1};
    for (int i = 0; i < from->n - 1; i++) batch->of[batch->n++] = from->of[i];
    return from->of[from->n - 1];
}

static bool plan(const sp_op_args *args, const sp_einsum *e, sp_products *p)
{
    loops kind[KINDS] = {0};
    dims d[2];
    if (!read_dims(&args->in[A], e->loop[A], &d[A]) || !read_dims(&args->in[B], e->loop[B], &d[B]) ||
        !sort_loops(e, &args->out[0], d, kind))
        return false;
    for (int i = 0; i < KINDS; i++) merge(&kind[i], i == DEPTH ? A : C);
    loops *batch = &kind[BATCH];
    const loop row = take(&kind[ROWS], batch), col = take(&kind[COLUMNS], batch);
    if (kind[DEPTH].n > 1 || batch->n > SP_PRODUCT_DIMS) return false;
    const loop depth = take(&kind[DEPTH], batch);
    *p = (sp_products){.rank = batch->n,
                       .m = row.size,
                       .n = col.size,
                       .k = depth.size,
                       .a_row = row.step[A],
                       .a_col = depth.step[A],
                       .b_row = depth.step[B],
                       .b_col = col.step[B],
                       .c_row = row.step[C],
                       .c_col = col.step[C],
                       .a = args->in[A].data,
                       .b = args->in[B].data,
                       .c = args->out[0].data};
    for (int i = 0; i < batch->n; i++) {
        p->size[i] = batch->of[i].size;
        p->a_step[i] = batch->of[i].step[A];
        p->b_step[i] = batch->of[i].step[B];
        p->c_step[i] = batch->of[i].step[C];
    }
    return true;
}

sparta_status sp_quick_Einsum(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    if (args->n_in != 2 || !sp_quick_floats(&args->in[0]) || !sp_quick_floats(&args->in[1]) ||
        !sp_quick_floats(&args->out[0]))
        return SPARTA_OK;
    const int rank[2] = {args->in[0].rank, args->in[1].rank};
    sp_einsum e;
    sp_products p;
    SP_TRY(sp_einsum_parse(cx, sp_attr_string(args->attrs, "equation", ""), 2, rank, &e));
    const bool can = plan(args, &e, &p);
    sp_free(cx, e.loop);
    return can ? sp_quick_products(cx, &p, done) : SPARTA_OK;
}
