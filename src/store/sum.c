/* Sums: each element goes to the first part whose selector takes it; each part is stored as a tensor of the whole shape
 * that has only its own elements.
 *
 *     sum{rownnz<=2 -> (i,j)->(i:compressed, j:packed[2]); rest -> coo}
 *
 *       a . b .     part 0: crd of i  0 1    crd of j  0 2  3 3    values  a b  c 0
 *       . . . c     part 1: rows 2 2 2   columns 0 1 3             values  d e f
 *       d e . f
 *
 * Reading adds what the parts have: an element that somebody stored in two of them is their sum, and selectors are not
 * asked again.
 */
#include "store/entries.h"
#include <string.h>

enum { NOBODY = 255 };
_Static_assert(SP_PARTS < NOBODY, "a piece is one byte");

/* ------------------------------------------------------------------ selectors
 * Entries lie in row-major order, so a row is a run of them. taken[i] is the piece that has entry i. */

typedef struct {
    const sp_entry_list *e;
    int64_t row_size; /* elements of a row */
    uint8_t *taken;   /* (n) */
} selection;

static int64_t row_of(const selection *s, int64_t i)
{
    return s->e->entry[i].key / s->row_size;
}

static int64_t row_end(const selection *s, int64_t i)
{
    int64_t row = row_of(s, i), end = i + 1;
    while (end < s->e->n && row_of(s, end) == row) end++;
    return end;
}

static void give(const selection *s, int64_t i, int64_t piece)
{
    if (s->taken[i] == NOBODY) s->taken[i] = (uint8_t)piece;
}

static void select_rows(const selection *s, const sp_select *by, int64_t piece)
{
    for (int64_t i = 0, end; i < s->e->n; i = end) {
        end = row_end(s, i);
        bool first = by->kind == SP_SELECT_FIRST;
        bool takes = first || (end - i > by->a && end - i <= by->b);
        int64_t until = first ? SP_MIN(end, i + SP_MIN(by->b, end - i)) : end;
        for (int64_t k = i; takes && k < until; k++) give(s, k, piece);
    }
}

static void select_columns(const selection *s, int64_t parts, int64_t piece)
{
    int64_t cols = s->e->dim[s->e->rank - 1], each = SP_MAX(cols / parts + (cols % parts != 0), 1);
    for (int64_t i = 0; i < s->e->n; i++) give(s, i, piece + s->e->entry[i].key % cols / each);
}

/* The block of a format along each dimension, and how many elements it has. */
static double block_of(const sp_format *f, int64_t block[SPARTA_RANK])
{
    double all = 1;
    for (int d = 0; d < SPARTA_RANK; d++) block[d] = 1;
    for (int l = 0; l < f->n; l++)
        if (f->level[l].map == SP_MAP_DIV) block[f->level[l].dim] = f->level[l].c;
    for (int d = 0; d < SPARTA_RANK; d++) all *= (double)block[d];
    return all;
}

static sparta_status select_blocks(sparta_ctx *cx, const selection *s, const sp_format *f, double density,
                                   int64_t piece)
{
    int64_t block[SPARTA_RANK], index[SPARTA_RANK], n = s->e->n;
    double all = block_of(f, block);
    sp_entry *at = sp_alloc_array(cx, (size_t)n, sizeof *at);
    SP_NEED(cx, at);
    for (int64_t i = 0; i < n; i++) {
        at[i] = (sp_entry){0, i};
        sp_entries_index(s->e, s->e->entry[i].key, index);
        for (int d = 0; d < s->e->rank; d++)
            at[i].key = at[i].key * ((s->e->dim[d] - 1) / block[d] + 1) + index[d] / block[d];
    }
    sparta_status status = sp_entries_sort(cx, n, &at);
    for (int64_t i = 0, end; !status && i < n; i = end) {
        for (end = i + 1; end < n && at[end].key == at[i].key;) end++;
        if ((double)(end - i) / all < density) continue;
        for (int64_t k = i; k < end; k++) give(s, at[k].source, piece);
    }
    sp_free(cx, at);
    return status;
}

static sparta_status select_part(sparta_ctx *cx, const selection *s, const struct sp_sum_part *part,
                                 int64_t piece)
{
    switch (part->select.kind) {
    case SP_SELECT_ROWNNZ:
    case SP_SELECT_FIRST: select_rows(s, &part->select, piece); break;
    case SP_SELECT_COLPART: select_columns(s, part->select.b, piece); break;
    case SP_SELECT_BLOCKDENSITY: return select_blocks(cx, s, &part->format, part->select.x, piece);
    default:
        for (int64_t i = 0; i < s->e->n; i++) give(s, i, piece);
    }
    return sp_check_cancel(cx);
}

static sparta_status all_taken(sparta_ctx *cx, const selection *s)
{
    for (int64_t i = 0, end; i < s->e->n; i = end) {
        int64_t left = 0;
        end = row_end(s, i);
        for (int64_t k = i; k < end; k++) left += s->taken[k] == NOBODY;
        if (left)
            return sp_fail(
                cx, SPARTA_E_USAGE,
                "pack: row %lld has %lld elements, and no part of the sum takes %lld of them; end it with "
                "'; rest -> coo'",
                (long long)row_of(s, i), (long long)(end - i), (long long)left);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ assemble */

typedef struct {
    sp_packed *out; /* its parts are filled one after the other */
    int next;
    bool store;
    int64_t largest; /* slots of the largest part so far */
    sp_store_stats *stats;
} assembly;

sparta_status sp_stats_add(sparta_ctx *cx, sp_store_stats *all, const sp_store_stats *part, int64_t *largest)
{
    if (part->slots > *largest) {
        *largest = part->slots;
        memcpy(all->longest, part->longest, sizeof all->longest);
        memcpy(all->segments, part->segments, sizeof all->segments);
    }
    all->parts++;
    if (sp_int_add(all->elements, part->elements, &all->elements) &&
        sp_int_add(all->slots, part->slots, &all->slots) &&
        sp_size_add(all->pos_bytes, part->pos_bytes, &all->pos_bytes) &&
        sp_size_add(all->crd_bytes, part->crd_bytes, &all->crd_bytes) &&
        sp_size_add(all->value_bytes, part->value_bytes, &all->value_bytes))
        return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_LIMIT, "format: the arrays are too large");
}

static sparta_status assemble_sum(sparta_ctx *cx, const sp_sum *sum, const sp_entry_list *e, assembly *a);

/* The entries of one piece, stored in its format. */
static sparta_status assemble_piece(sparta_ctx *cx, const sp_format *f, sp_entry_list *e, assembly *a)
{
    if (f->sum) return assemble_sum(cx, f->sum, e, a);
    sp_store_stats stats = {0};
    sp_packed none = {0}, *out = a->store ? &a->out->part[a->next] : &none;
    if (a->store) *out = sp_packed_head(f, e);
    a->next++;
    SP_TRY(sp_entries_assemble(cx, f, e, a->store, out, &stats));
    return sp_stats_add(cx, a->stats, &stats, &a->largest);
}

static sparta_status take_piece(sparta_ctx *cx, const sp_format *f, const selection *s, int piece,
                                assembly *a)
{
    sp_entry_list part = *s->e;
    part.n = 0;
    part.owned = NULL; /* the values are the whole's */
    for (int64_t i = 0; i < s->e->n; i++) part.n += s->taken[i] == piece;
    part.entry = sp_alloc_array(cx, (size_t)part.n, sizeof *part.entry);
    SP_NEED(cx, part.entry);
    for (int64_t i = 0, n = 0; i < s->e->n; i++)
        if (s->taken[i] == piece) part.entry[n++] = s->e->entry[i];
    sparta_status status = assemble_piece(cx, f, &part, a);
    sp_entries_free(cx, &part);
    return status;
}

static sparta_status assemble_selected(sparta_ctx *cx, const sp_sum *sum, const selection *s, assembly *a)
{
    int piece = 0;
    for (int i = 0; i < sum->n; i++) {
        SP_TRY(select_part(cx, s, &sum->part[i], piece));
        piece += (int)sp_sum_pieces(&sum->part[i]);
    }
    SP_TRY(all_taken(cx, s));
    piece = 0;
    for (int i = 0; i < sum->n; i++)
        for (int64_t c = 0; c < sp_sum_pieces(&sum->part[i]); c++, piece++)
            SP_TRY(take_piece(cx, &sum->part[i].format, s, piece, a));
    return SPARTA_OK;
}

static sparta_status assemble_sum(sparta_ctx *cx, const sp_sum *sum, const sp_entry_list *e, assembly *a)
{
    selection s = {.e = e, .row_size = 1};
    for (int d = 1; d < e->rank; d++) s.row_size *= SP_MAX(e->n ? e->dim[d] : 1, 1);
    s.taken = sp_alloc(cx, (size_t)e->n);
    SP_NEED(cx, s.taken);
    memset(s.taken, NOBODY, (size_t)e->n);
    sparta_status status = assemble_selected(cx, sum, &s, a);
    sp_free(cx, s.taken);
    return status;
}

sparta_status sp_sum_assemble(sparta_ctx *cx, const sp_format *f, sp_entry_list *e, bool store,
                              sp_packed *out, sp_store_stats *stats)
{
    assembly a = {.out = out, .store = store, .largest = -1, .stats = stats};
    int n = sp_sum_leaves(f, NULL);
    if (n > SP_PARTS || n < 1)
        return sp_fail(cx, SPARTA_E_USAGE, "format: a sum has 1 to %d parts, this one more or none",
                       SP_PARTS);
    if (store) {
        out->part = sp_alloc_array(cx, (size_t)n, sizeof *out->part);
        SP_NEED(cx, out->part);
        out->parts = n;
    }
    return assemble_sum(cx, f->sum, e, &a);
}
