/* What a sparsifier promises against what a format holds, before anything is computed:
 *
 *     granularity 4x4, bound 8        (n/4:dense, k/4:packed[8], ...)     8 blocks in a row of blocks: fits
 *                                     (n:dense, k:packed[8])              up to 32 elements in a row: does not
 *     granularity 4x4, no bound       any packed[w]                       nobody knows: set the bound, or use compressed
 *     granularity 2:4                 (n:dense, k/4:dense, k%4:structured[2,4])   fits
 */
#include "prune/prune.h"
#include <stdio.h>
#include <string.h>

/* Blocks of c that touch `b` neighbours which begin at a multiple of b. */
static int64_t touched(int64_t b, int64_t c)
{
    return b % c == 0 ? b / c : c % b == 0 ? 1 : b / c + 2;
}

/* The level that has a fixed width, and the rows that share one of its segments; NULL: there is none, or segments are not rows. */
static const sp_level *fixed_level(const sp_format *f, int64_t *rows)
{
    *rows = 1;
    for (int i = 0; i < f->n; i++) {
        const sp_level *l = &f->level[i];
        if (l->kind == SP_LEVEL_PACKED)
            return l->w && l->dim == 1 && (l->map == SP_MAP_ALL || l->map == SP_MAP_DIV) ? l : NULL;
        if (l->kind == SP_LEVEL_STRUCTURED) return l->dim == 1 && l->map == SP_MAP_MOD ? l : NULL;
        const bool row = l->dim == 0 && (l->map == SP_MAP_ALL || l->map == SP_MAP_DIV);
        const bool group = l->dim == 1 && l->map == SP_MAP_DIV; /* k/4 above k%4:structured */
        if (!row && !group) return NULL;
        if (row && l->map == SP_MAP_DIV) *rows = l->c;
    }
    return NULL;
}

/* The most blocks of `rows` x `cols` that stay in a row of them; 0: no bound. */
static int64_t most_kept(const sp_prune_spec *g, int64_t bound, const int64_t size[2], const int64_t block[2])
{
    const int64_t bn = g->block_n ? g->block_n : size[0], bk = g->block_m ? g->block_m : size[1];
    int64_t most = bound;
    if (g->of && !g->along_out) {
        const int64_t groups = (size[1] + g->of - 1) / g->of * g->keep;
        most = bound ? SP_MIN(bound, groups) : groups;
    }
    most = SP_MIN(most, (size[1] + bk - 1) / bk);
    return most * touched(block[0], bn) * touched(bk, block[1]);
}

static sparta_status no_bound(sparta_ctx *cx, const sp_own_sparsifier *own, int64_t width)
{
    char set[100] = "";
    if (own->is.bound_argument)
        snprintf(set, sizeof set, "set %.60s=%lld or ", own->is.bound_argument, (long long)width);
    return sp_fail(cx, SPARTA_E_USAGE,
                   "sparsify: %.60s gives %s%s without a bound; 'packed[%lld]' needs one: %suse 'compressed'",
                   own->is.name, own->is.granularity ? own->is.granularity : "elements",
                   own->is.granularity && strchr(own->is.granularity, 'x') ? " blocks" : "", (long long)width,
                   set);
}

static sparta_status suits_structured(sparta_ctx *cx, const sp_own_sparsifier *own, const sp_level *l)
{
    const sp_prune_spec *g = &own->granularity;
    if (g->of && !g->along_out && l->m % g->of == 0 && l->m / g->of * g->keep <= l->w) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE,
                   "sparsify: %.60s gives %s; 'structured[%lld,%lld]' needs %lld:%lld: register it with that "
                   "granularity or use 'compressed'",
                   own->is.name, own->is.granularity ? own->is.granularity : "elements", (long long)l->w,
                   (long long)l->m, (long long)l->w, (long long)l->m);
}

sparta_status sp_prune_suits(sparta_ctx *cx, const sp_schedule_call *call, const sp_format *f, int64_t n,
                             int64_t k)
{
    const sp_own_sparsifier *own = call->row->own;
    int64_t rows, bound = 0;
    const sp_level *l = own ? fixed_level(f, &rows) : NULL;
    if (!l) return SPARTA_OK;
    if (l->kind == SP_LEVEL_STRUCTURED) return suits_structured(cx, own, l);
    SP_TRY(sp_prune_bound(cx, call, &bound));
    const int64_t size[2] = {n, k}, block[2] = {rows, l->map == SP_MAP_DIV ? l->c : 1};
    const int64_t most = most_kept(&own->granularity, bound, size, block);
    if (!most) return no_bound(cx, own, l->w);
    if (most > l->w)
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "sparsify: %.60s keeps up to %lld in a row of the format, 'packed[%lld]' holds %lld; use "
            "packed[%lld], packed[auto] or 'compressed'",
            own->is.name, (long long)most, (long long)l->w, (long long)l->w, (long long)most);
    return SPARTA_OK;
}
