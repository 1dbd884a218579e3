/* Relative: what positions add to the scores of attention, chosen from a row of each query, and one of each key.
 *
 *     in: c (B, S, heads*K), at (S, T); p (B, T, heads*L) and back (T, S), both or neither
 *
 *     y[b, h, i, j] = scale (c[b, i, h*K + at[i, j]] + p[b, j, h*L + back[j, i]])        y is (B, heads, S, T)
 *
 * DeBERTa adds such sums: c and p are products with an embedding of each distance, at and back say which distance lies between i and j.
 * Indices count from the end when they are negative. */
#include "builtin/view.h"
#include <string.h>

enum { C, AT, P, BACK };

typedef struct relative {
    const sp_op_args *args;
    int64_t heads, s, t, k, l; /* l is 0 without p */
    float scale;
    const int32_t *at, *back; /* (S, T) both, counted from the front */
    float *rows;              /* (T, L) of one item and head; NULL without p */
} relative;

/* Indices below `below` as (S, T), from those with these steps along S and T. Are all of them in range? */
#define TAKE(name, type)                                                                                     \
    static bool name(const void *from, const int64_t step[2], int64_t s, int64_t t, int64_t below,           \
                     int32_t *to)                                                                            \
    {                                                                                                        \
        bool good = true;                                                                                    \
        for (int64_t i = 0; i < s; i++)                                                                      \
            for (int64_t j = 0; j < t; j++) {                                                                \
                int64_t x = ((const type *)from)[i * step[0] + j * step[1]];                                 \
                x += x < 0 ? below : 0;                                                                      \
                good &= x >= 0 && x < below;                                                                 \
                to[i * t + j] = (int32_t)x;                                                                  \
            }                                                                                                \
        return good;                                                                                         \
    }
TAKE(take_i64, int64_t)
TAKE(take_i32, int32_t)

/* turned: they lie as (T, S) */
static sparta_status take_indices(sparta_ctx *cx, const sparta_tensor *from, bool turned, int64_t below,
                                  int32_t *to)
{
    const int64_t s = from->dim[turned], t = from->dim[!turned], step[] = {turned ? 1 : t, turned ? s : 1};
    if (below > INT32_MAX) return sp_fail(cx, SPARTA_E_LIMIT, "Relative: too many columns");
    const bool good = (from->dtype == SPARTA_I64 ? take_i64 : take_i32)(from->data, step, s, t, below, to);
    return good ? SPARTA_OK : sp_builtin_check_indices(cx, "Relative", from, below);
}

/* Item b and head h. */
static void choose(const relative *r, int64_t b, int64_t h)
{
    const float *c = (const float *)r->args->in[C].data + b * r->s * r->heads * r->k + h * r->k, *p = r->rows;
    float *y = (float *)r->args->out[0].data + (b * r->heads + h) * r->s * r->t;
    for (int64_t j = 0; p && j < r->t; j++) /* side by side: they are read again for every query */
        memcpy(r->rows + j * r->l,
               (const float *)r->args->in[P].data + (b * r->t + j) * r->heads * r->l + h * r->l,
               (size_t)r->l * sizeof *p);
    for (int64_t i = 0; i < r->s; i++, c += r->heads * r->k, y += r->t) {
        const int32_t *at = r->at + i * r->t, *back = r->back + i * r->t;
        for (int64_t j = 0; !p && j < r->t; j++) y[j] = r->scale * c[at[j]];
        for (int64_t j = 0; p && j < r->t; j++) y[j] = r->scale * (c[at[j]] + p[j * r->l + back[j]]);
    }
}

static sparta_status choose_all(sparta_ctx *cx, relative *r, int32_t *index)
{
    const sp_op_args *args = r->args;
    r->at = r->back = index;
    SP_TRY(take_indices(cx, &args->in[AT], false, r->k, index));
    if (r->rows) {
        r->back = index + r->s * r->t;
        SP_TRY(take_indices(cx, &args->in[BACK], true, r->l, index + r->s * r->t));
    }
    for (int64_t b = 0; b < args->in[C].dim[0]; b++)
        for (int64_t h = 0; h < r->heads; h++) {
            choose(r, b, h);
            SP_TRY(sp_check_cancel(cx));
        }
    return SPARTA_OK;
}

static bool fits(const sp_op_args *args, const relative *r)
{
    const sparta_tensor *c = &args->in[C], *at = &args->in[AT];
    if (c->rank != 3 || at->rank != 2 || r->heads < 1 || c->dim[2] % r->heads || at->dim[0] != c->dim[1])
        return false;
    if (!sp_op_has(args, P)) return true;
    const sparta_tensor *p = &args->in[P], *back = &args->in[BACK];
    return sp_op_has(args, BACK) && p->rank == 3 && back->rank == 2 && p->dim[0] == c->dim[0] &&
           p->dim[1] == at->dim[1] && p->dim[2] % r->heads == 0 && back->dim[0] == at->dim[1] &&
           back->dim[1] == at->dim[0];
}

static sparta_status run(sparta_ctx *cx, const sp_op_args *args)
{
    relative r = {.args = args,
                  .heads = sp_attr_int(args->attrs, "heads", 1),
                  .scale = sp_attr_float(args->attrs, "scale", 1)};
    if (!fits(args, &r))
        return sp_fail(cx, SPARTA_E_SHAPE, "Relative: rows and indices do not fit each other");
    if (sp_op_empty(args)) return SPARTA_OK;
    const bool both = sp_op_has(args, P);
    r.s = args->in[C].dim[1];
    r.t = args->in[AT].dim[1];
    r.k = args->in[C].dim[2] / r.heads;
    r.l = both ? args->in[P].dim[2] / r.heads : 0;
    int32_t *index = sp_alloc_array(cx, (size_t)(r.s * r.t) * 2, sizeof *index);
    SP_NEED(cx, index);
    if (both) r.rows = sp_alloc_array(cx, (size_t)(r.t * r.l) + 1, sizeof *r.rows);
    sparta_status status = both && !r.rows ? SPARTA_E_MEMORY : choose_all(cx, &r, index);
    sp_free(cx, r.rows);
    sp_free(cx, index);
    return status;
}

SP_REFERENCE(Relative, sp_builtin_dense(cx, args, run))
