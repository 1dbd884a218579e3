/* Constants without the indices that go: most of what compaction does, so several are cut at once, on all cores, after memory for
 * them has been had. */
#include "propagate/facts.h"
#include <stdatomic.h>
#include <string.h>

#define PARALLEL ((int64_t)1 << 24) /* bytes for which threads are worth waking */

struct sp_cut {
    const sparta_tensor *from;
    sparta_tensor *to;
    const int64_t *kept[SPARTA_RANK]; /* indices; to's dims say how many */
    int whole;                        /* axes from here on lose nothing */
    sp_cut *next;
};

static sparta_status list_kept(sp_arena *arena, const uint8_t *gone, int64_t size, const int64_t **out,
                               int64_t *n)
{
    int64_t *kept = sp_arena_array(arena, (size_t)SP_MAX(size, 1), sizeof *kept);
    SP_NEED(sp_arena_ctx(arena), kept);
    *n = 0;
    for (int64_t i = 0; i < size; i++)
        if (!gone || !gone[i]) kept[(*n)++] = i;
    *out = kept;
    return SPARTA_OK;
}

sparta_status sp_cut_plan(sp_arena *scratch, sp_arena *arena, const sparta_tensor *t, uint8_t *const *gone,
                          sparta_tensor *out, sp_cut **list)
{
    int64_t dim[SPARTA_RANK];
    sp_cut *c = sp_arena_alloc(scratch, sizeof *c);
    SP_NEED(sp_arena_ctx(scratch), c);
    *c = (sp_cut){.from = t, .to = out, .whole = t->rank, .next = *list};
    for (int k = 0; k < t->rank; k++) SP_TRY(list_kept(scratch, gone[k], t->dim[k], &c->kept[k], &dim[k]));
    while (c->whole > 0 && dim[c->whole - 1] == t->dim[c->whole - 1]) c->whole--;
    SP_TRY(sp_tensor_alloc_in(arena, t->dtype, t->rank, dim, out));
    *list = c;
    return SPARTA_OK;
}

/* What is kept of axes from `axis` on, which have that many elements. */
static char *copy(const sp_cut *c, int axis, const char *from, int64_t elements, char *to)
{
    const size_t size = sparta_dtype_size(c->from->dtype);
    if (axis == c->whole) {
        memcpy(to, from, (size_t)elements * size);
        return to + (size_t)elements * size;
    }
    const int64_t n = c->to->dim[axis], *kept = c->kept[axis];
    const size_t step = (size_t)(elements / c->from->dim[axis]) * size;
    if (axis == c->whole - 1 && step == 4) { /* columns of floats, nearly always */
        for (int64_t i = 0; i < n; i++, to += 4) memcpy(to, from + 4 * kept[i], 4);
        return to;
    }
    for (int64_t i = 0; i < n; i++)
        to = copy(c, axis + 1, from + (size_t)kept[i] * step, elements / c->from->dim[axis], to);
    return to;
}

static void cut_one(const sp_cut *c)
{
    if (sparta_tensor_elements(c->to) > 0)
        (void)copy(c, 0, c->from->data, sparta_tensor_elements(c->from), c->to->data);
}

typedef struct shared {
    const sp_cut *const *cut;
    int n;
    atomic_int next;
} shared;

static void cut_some(void *arg, int thread)
{
    shared *s = arg;
    (void)thread;
    for (int i; (i = atomic_fetch_add(&s->next, 1)) < s->n;) cut_one(s->cut[i]);
}

sparta_status sp_cut_all(sp_arena *scratch, const sp_cut *list, int threads)
{
    shared s = {0};
    int64_t bytes = 0;
    for (const sp_cut *c = list; c; c = c->next, s.n++)
        bytes += sparta_tensor_elements(c->to) * (int64_t)sparta_dtype_size(c->to->dtype);
    if (bytes < PARALLEL) {
        for (const sp_cut *c = list; c; c = c->next) cut_one(c);
        return SPARTA_OK;
    }
    const sp_cut **cut = sp_arena_array(scratch, (size_t)s.n, sizeof *cut);
    sp_pool *pool = cut ? sp_pool_create(sp_arena_ctx(scratch), threads) : NULL;
    SP_NEED(sp_arena_ctx(scratch), pool);
    for (int i = 0; list; list = list->next) cut[i++] = list;
    s.cut = cut;
    sp_pool_run(pool, cut_some, &s);
    sp_pool_free(pool);
    return SPARTA_OK;
}
