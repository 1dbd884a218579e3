/* Offsets for buffers: largest first, each at the lowest offset free of everything that lives at the same time.
 *
 * Most values of a long model never meet, so only those that do are looked at. The values lie in the order of their first
 * steps, and a tree over them holds the latest last step of those that are placed: whoever meets [first, last] is found in
 * steps of the tree's depth. Where a value meets many, sorting what it meets would cost more than passing by the rest: then
 * all that is placed is kept sorted by offset and scanned. */
#include "run/session.h"
#include <stdlib.h>
#include <string.h>

enum { FEW = 16 }; /* a value meets few when it meets less than one in so many */

typedef struct placed {
    size_t offset, bytes;
    int first, last;
} placed;

typedef struct block {
    run_value *value;
    int leaf;
} block;

typedef struct places {
    int n, leaves; /* leaves: a power of two */
    block *block;
    int *latest;      /* node i has the nodes 2i and 2i+1 below it; -1: nothing placed there */
    run_value **leaf; /* by first step */
    placed *met;      /* what one value meets, when few */
    int n_met, most_met;
    placed *busy; /* the first n_busy blocks, by offset */
    int n_busy;
} places;

static int by_first(const void *a, const void *b)
{
    const run_value *x = *(run_value *const *)a, *y = *(run_value *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->value->id - y->value->id;
}

static int by_size(const void *a, const void *b)
{
    const run_value *x = ((const block *)a)->value, *y = ((const block *)b)->value;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->value->id - y->value->id;
}

static int by_offset(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static placed placed_of(const run_value *r)
{
    return (placed){r->offset, r->bytes, r->first, r->last};
}

/* Keep `busy` sorted by offset. */
static void insert(placed *busy, int n, placed p)
{
    int low = 0, high = n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (busy[mid].offset < p.offset)
            low = mid + 1;
        else
            high = mid;
    }
    memmove(busy + low + 1, busy + low, (size_t)(n - low) * sizeof *busy);
    busy[low] = p;
}

/* Whoever meets r below a node whose leaves start at `from`. False: there are more than few. */
static bool meet(places *p, const run_value *r, int node, int from, int width)
{
    if (p->latest[node] < r->first || p->leaf[from]->first > r->last) return true;
    if (width == 1) {
        if (p->n_met == p->most_met) return false;
        p->met[p->n_met++] = placed_of(p->leaf[from]);
        return true;
    }
    return meet(p, r, 2 * node, from, width / 2) && meet(p, r, 2 * node + 1, from + width / 2, width / 2);
}

/* The lowest offset of r among n others sorted by offset. */
static size_t lowest(const placed *other, int n, const run_value *r)
{
    size_t at = 0;
    for (int i = 0; i < n && other[i].offset < at + r->bytes; i++)
        if (other[i].first <= r->last && r->first <= other[i].last)
            at = SP_MAX(at, other[i].offset + other[i].bytes);
    return at;
}

static void place_one(places *p, int i)
{
    run_value *r = p->block[i].value;
    p->n_met = 0;
    p->most_met = FEW + i / FEW;
    if (meet(p, r, 1, 0, p->leaves)) {
        qsort(p->met, (size_t)p->n_met, sizeof *p->met, by_offset);
        r->offset = lowest(p->met, p->n_met, r);
    } else {
        for (; p->n_busy < i; p->n_busy++) insert(p->busy, p->n_busy, placed_of(p->block[p->n_busy].value));
        r->offset = lowest(p->busy, i, r);
    }
    for (int node = p->leaves + p->block[i].leaf; node; node /= 2)
        p->latest[node] = SP_MAX(p->latest[node], r->last);
}

static sparta_status place_each(sparta_ctx *cx, places *p, size_t *total)
{
    for (int i = 0; i < p->n; i++) {
        place_one(p, i);
        *total = SP_MAX(*total, p->block[i].value->offset + p->block[i].value->bytes);
        if (*total > RUN_MOST_BYTES) /* before a sum can overflow */
            return sp_fail(cx, SPARTA_E_LIMIT, "run: the buffers are too large");
        if (i % 256 == 0) SP_TRY(sp_check_cancel(cx));
    }
    return SPARTA_OK;
}

static void start(places *p)
{
    qsort(p->leaf, (size_t)p->n, sizeof *p->leaf, by_first);
    for (int i = 0; i < p->n; i++) p->block[i] = (block){p->leaf[i], i};
    qsort(p->block, (size_t)p->n, sizeof *p->block, by_size);
    for (int i = 0; i < 2 * p->leaves; i++) p->latest[i] = -1;
}

/* Do no two buffers that live at the same time share a byte? Of a very long list the first ones. */
static bool apart(const block *list, int n)
{
    n = SP_MIN(n, 2000);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            const run_value *a = list[i].value, *b = list[k].value;
            if (a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
                b->offset < a->offset + a->bytes)
                return false;
        }
    return true;
}

sparta_status sp_session_place(sparta_ctx *cx, run_value **list, int n, size_t *total)
{
    places p = {.n = n, .leaves = 1, .leaf = list};
    while (p.leaves < n) p.leaves *= 2;
    *total = 0;
    p.block = sp_alloc_array(cx, (size_t)n + 1, sizeof *p.block);
    p.latest = sp_alloc_array(cx, 2 * (size_t)p.leaves, sizeof *p.latest);
    p.met = sp_alloc_array(cx, (size_t)(FEW + n / FEW), sizeof *p.met);
    p.busy = sp_alloc_array(cx, (size_t)n + 1, sizeof *p.busy);
    sparta_status status = sp_ctx_status(cx);
    if (p.block && p.latest && p.met && p.busy) {
        start(&p);
        status = place_each(cx, &p, total);
        SP_ASSERT(status != SPARTA_OK || apart(p.block, n));
    }
    sp_free(cx, p.block);
    sp_free(cx, p.latest);
    sp_free(cx, p.met);
    sp_free(cx, p.busy);
    return status;
}
