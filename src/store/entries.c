/* Gather the elements of any source (entries.h draws it). A first pass counts them, a second writes them; then they are
 * sorted, where the source was not, and those that the storage has twice are added. */
#include "store/entries.h"
#include <string.h>

/* Where an empty tensor has no data: only a pattern's values are NULL. */
static const uint64_t nothing;

/* ------------------------------------------------------------------ keys */

/* What one step along each dimension is worth. Where a dimension is 0 the others may be anything, and there are no entries. */
static sparta_status weigh(sparta_ctx *cx, int rank, const int64_t *dim, int64_t weight[SPARTA_RANK])
{
    int64_t all = 1;
    bool fits = true, empty = false;
    for (int d = rank - 1; d >= 0; d--) {
        weight[d] = all;
        empty = empty || !dim[d];
        fits = fits && sp_int_mul(all, dim[d], &all);
    }
    if (fits || empty) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_LIMIT, "format: the tensor has more elements than 64 bits count");
}

void sp_entries_index(const sp_entry_list *e, int64_t key, int64_t index[SPARTA_RANK])
{
    for (int d = e->rank - 1; d > 0; d--) {
        index[d] = key % e->dim[d];
        key /= e->dim[d];
    }
    index[0] = key;
}

/* ------------------------------------------------------------------ sort */

#define DIGIT   11
#define BUCKETS (1 << DIGIT)

static void sort_by_digit(const sp_entry *from, sp_entry *to, int64_t n, int shift)
{
    int64_t start[BUCKETS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) start[from[i].key >> shift & (BUCKETS - 1)]++;
    for (int b = 0; b < BUCKETS; b++) {
        int64_t count = start[b];
        start[b] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++) to[start[from[i].key >> shift & (BUCKETS - 1)]++] = from[i];
}

/* Radix sort by as many digits as the largest key has; keys are not negative. */
sparta_status sp_entries_sort(sparta_ctx *cx, int64_t n, sp_entry **entry)
{
    int64_t most = 0;
    bool sorted = true;
    for (int64_t i = 0; i < n; i++) {
        most = SP_MAX(most, (*entry)[i].key);
        sorted = sorted && (i == 0 || (*entry)[i - 1].key <= (*entry)[i].key);
    }
    if (sorted) return SPARTA_OK;
    sp_entry *spare = sp_alloc_array(cx, (size_t)n, sizeof *spare), *from = *entry;
    SP_NEED(cx, spare);
    for (int shift = 0; shift < 63 && most >> shift && !sp_ctx_cancelled(cx); shift += DIGIT) {
        sort_by_digit(from, spare, n, shift);
        sp_entry *swap = from;
        from = spare;
        spare = swap;
    }
    sp_free(cx, spare);
    *entry = from;
    return sp_check_cancel(cx);
}

/* ------------------------------------------------------------------ a dense tensor */

static bool asked(const sparta_tensor *t, const sp_mask *mask, const sp_cursor *w)
{
    return mask ? sp_mask_get(mask, w->index[0], w->index[1])
                : sp_element_stored(t->dtype, t->data, w->at[0]);
}

/* Cancelled? Asked now and then of so many elements. */
static inline bool stops(const sparta_ctx *cx, int64_t seen)
{
    return !(seen & 0xfffff) && sp_ctx_cancelled(cx);
}

sparta_status sp_entries_of_tensor(sparta_ctx *cx, const sparta_tensor *t, const sp_mask *mask,
                                   sp_entry_list *out)
{
    sp_entry_list e = {.rank = t->rank, .dtype = t->dtype, .values = t->data ? t->data : &nothing};
    int64_t weight[SPARTA_RANK], key = 0, n = 0;
    memcpy(e.dim, t->dim, (size_t)t->rank * sizeof e.dim[0]);
    SP_TRY(weigh(cx, t->rank, t->dim, weight));
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, &t); w.more; sp_cursor_next(&w), key++) {
        e.n += asked(t, mask, &w);
        if (stops(cx, key)) break;
    }
    SP_TRY(sp_check_cancel(cx));
    e.entry = sp_alloc_array(cx, (size_t)e.n, sizeof *e.entry);
    SP_NEED(cx, e.entry);
    key = 0;
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, &t); w.more && n < e.n;
         sp_cursor_next(&w), key++) {
        if (asked(t, mask, &w)) e.entry[n++] = (sp_entry){key, w.at[0]};
        if (stops(cx, key)) break;
    }
    e.n = n; /* fewer when somebody changed the array meanwhile */
    const sparta_status status = sp_check_cancel(cx);
    if (status)
        sp_free(cx, e.entry);
    else
        *out = e;
    return status;
}

/* ------------------------------------------------------------------ storage */

typedef struct {
    sparta_ctx *cx;
    sp_entry_list *to;
    int64_t weight[SPARTA_RANK], n;
    size_t size; /* of a value that must be copied; 0: its place is enough */
} gathering;

static sparta_status count(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
{
    (void)index, (void)part, (void)position;
    ((gathering *)arg)->n++;
    return SPARTA_OK;
}

static sparta_status put(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
{
    gathering *g = arg;
    int64_t key = 0;
    if (g->n == g->to->n)
        return sp_fail(g->cx, SPARTA_E_FORMAT, "packed: the storage changed while it was read");
    for (int d = 0; d < g->to->rank; d++) key += index[d] * g->weight[d];
    g->to->entry[g->n] = (sp_entry){key, g->size ? g->n : position};
    if (g->size)
        memcpy((char *)g->to->owned + (size_t)g->n * g->size,
               (const char *)part->values.data + (size_t)position * g->size, g->size);
    g->n++;
    return SPARTA_OK;
}

/* Values of our own, in the order of the entries. */
static sparta_status own_values(sparta_ctx *cx, sp_entry_list *e)
{
    size_t size = sparta_dtype_size(e->dtype);
    char *own = sp_alloc_array(cx, (size_t)e->n, size);
    SP_NEED(cx, own);
    for (int64_t i = 0; i < e->n; i++) {
        memcpy(own + (size_t)i * size, (const char *)e->values + e->entry[i].source * (int64_t)size, size);
        e->entry[i].source = i;
    }
    e->values = e->owned = own;
    return SPARTA_OK;
}

static sparta_status add_repeated(sparta_ctx *cx, sp_entry_list *e)
{
    int64_t n = 1;
    while (n < e->n && e->entry[n].key != e->entry[n - 1].key) n++;
    if (n >= e->n) return SPARTA_OK;
    if (e->values && !e->owned) SP_TRY(own_values(cx, e));
    for (int64_t i = n; i < e->n; i++) {
        if (e->entry[i].key != e->entry[n - 1].key)
            e->entry[n++] = e->entry[i];
        else if (e->values)
            sp_element_add(e->dtype, e->owned, e->entry[n - 1].source, e->values, e->entry[i].source);
    }
    e->n = n;
    return SPARTA_OK;
}

static sparta_status gather(sparta_ctx *cx, const sp_packed *p, sp_entry_list *e)
{
    gathering g = {.cx = cx, .to = e};
    bool several = p->format.sum && !p->pattern;
    SP_TRY(sp_packed_walk(cx, p, count, &g)); /* this verifies the head, too */
    *e = (sp_entry_list){.n = g.n, .rank = p->rank, .dtype = p->pattern ? SPARTA_BOOL : p->dtype};
    memcpy(e->dim, p->dim, (size_t)p->rank * sizeof e->dim[0]);
    SP_TRY(weigh(cx, p->rank, p->dim, g.weight));
    e->entry = sp_alloc_array(cx, (size_t)e->n, sizeof *e->entry);
    SP_NEED(cx, e->entry);
    if (several) {
        g.size = sparta_dtype_size(p->dtype);
        e->owned = sp_alloc_array(cx, (size_t)e->n, g.size);
        SP_NEED(cx, e->owned);
    }
    if (!p->pattern) e->values = several ? e->owned : p->values.data ? p->values.data : &nothing;
    g.n = 0;
    SP_TRY(sp_packed_walk(cx, p, put, &g));
    e->n = g.n;
    SP_TRY(sp_entries_sort(cx, e->n, &e->entry));
    return add_repeated(cx, e);
}

sparta_status sp_entries_of_packed(sparta_ctx *cx, const sp_packed *p, sp_entry_list *out)
{
    sp_entry_list e = {0};
    sparta_status status = gather(cx, p, &e);
    if (status)
        sp_entries_free(cx, &e);
    else
        *out = e;
    return status;
}

void sp_entries_free(sparta_ctx *cx, sp_entry_list *e)
{
    sp_free(cx, e->entry);
    sp_free(cx, e->owned);
    *e = (sp_entry_list){0};
}
