/* How long a linear layer takes in each format that advice lists: kernel bench of the matrix itself, one format after the other, one thread. A row that
 * no implement runs, or that is past the limit, has no time. */
#include "measure/measure.h"
#include "implement/implement.h"
#include <math.h>

enum { ELEMENTS = 1 << 26 }; /* of a matrix that is made dense to be timed, at most */

/* Failures that say "not this one", as opposed to "stop". */
static bool skips(sparta_status s)
{
    return s == SPARTA_E_UNSUPPORTED || s == SPARTA_E_LIMIT || s == SPARTA_E_RANGE || s == SPARTA_E_MEMORY ||
           s == SPARTA_E_SHAPE;
}

static sparta_status time_row(sparta_ctx *cx, const sparta_tensor *w, const sp_advise_timing *how,
                              sp_advice_row *row)
{
    const sp_kernel_request q = {.m = how->tokens,
                                 .weight = w,
                                 .format = row->format,
                                 .limit = how->limit,
                                 .alone = true,
                                 .quick = true,
                                 .threads = 1,
                                 .seconds = how->seconds};
    sp_kernel_result r;
    sparta_status status = sp_kernel_bench(cx, &q, &r);
    if (!status) row->us = r.best_us;
    if (!skips(status)) return status;
    sp_ctx_clear(cx);
    return SPARTA_OK;
}

sparta_status sp_advise_time(sparta_ctx *cx, const sp_packed *p, const sp_advise_timing *how, sp_advice *a)
{
    int64_t all;
    sparta_tensor w;
    if (p->rank != 2 || !sp_int_mul(p->dim[0], p->dim[1], &all) || all < 1 || all > ELEMENTS)
        return SPARTA_OK;
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_status status = sp_tensor_alloc_in(arena, p->dtype, 2, p->dim, &w);
    if (!status) status = sp_store_unpack(cx, p, &w);
    for (int i = 0; i < a->n && !status; i++)
        if (a->row[i].implement) status = time_row(cx, &w, how, &a->row[i]);
    for (int i = 0; i < a->n && !status; i++)
        if (a->row[i].us > 0 && (!a->fastest || a->row[i].us < a->fastest->us)) a->fastest = &a->row[i];
    sp_arena_free(arena);
    return status;
}
