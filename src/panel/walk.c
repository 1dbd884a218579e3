/* walk: y = w x and its epilogue for a weight in any format. in: x, w (packed, any format), bias?, residual?
 *
 * The generic walker of room format goes over the storage once, when a session is made, and checks it on the way. What it finds is
 * noted by range of inputs and output row: which input row each stored weight multiplies, and the weight.
 *
 *      storage (bsr, a sum, ...)  --walk-->  inputs 0 to 255: notes of row 0 | of row 1 | ...   inputs 256 to 511: ...   8 bytes a stored weight
 *
 * so that a run follows the notes from the first to the last and needs no context. Within a range rows are sorted by how many notes they have. A panel is shared
 * out among threads by its vectors of tokens, not by rows. Notes come in two walks: one counts, one writes.
 */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_walk.h"
#include <string.h>

/* Inputs of a range, and how many notes a row should have in one: with fewer it takes longer to load and store its sums than the cache saves. */
enum { RANGE = 128, MIN_NOTES = 8 };

typedef struct scribe {
    sparta_ctx *cx;
    const sp_packed *w;
    int64_t range;
    long ranges, *pos;
    unsigned *row;
    struct sp_walk_note *note; /* NULL while counting */
    long *count, *next,
        *end; /* (ranges)(rows), by row: how many notes, where the next one goes, where they end */
} scribe;

static const sp_packed *part_at(const sp_packed *w, int i)
{
    return w->format.sum ? &w->part[i] : w;
}
static int parts_of(const sp_packed *w)
{
    return w->format.sum ? w->parts : 1;
}

static sparta_status note_one(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
{
    scribe *s = arg;
    const int64_t n = index[0], k = index[1];
    if (n < 0 || n >= s->w->dim[0] || k < 0 || k >= s->w->dim[1] || position < 0 ||
        position >= part->values.dim[0])
        return sp_fail(s->cx, SPARTA_E_INTERNAL, "walk: an element lies outside of its weight");
    const int64_t at = k / s->range * s->w->dim[0] + n;
    if (!s->note) {
        s->count[at]++;
        return SPARTA_OK;
    }
    if (s->next[at] >= s->end[at]) /* a mapped file may change under us */
        return sp_fail(s->cx, SPARTA_E_FORMAT, "walk: the storage changed while it was read");
    s->note[s->next[at]++] = (struct sp_walk_note){(unsigned)k, ((const float *)part->values.data)[position]};
    return SPARTA_OK;
}

/* Ranges as short as leave rows enough notes in each. */
static void cut(scribe *s)
{
    double stored = 0;
    for (int p = 0; p < parts_of(s->w); p++) {
        const sp_packed *part = part_at(s->w, p);
        if (part->values.rank) stored += (double)part->values.dim[0];
    }
    const int64_t rows = SP_MAX(s->w->dim[0], 1), inputs = SP_MAX(s->w->dim[1], 1);
    for (s->range = RANGE; s->range < inputs; s->range *= 2)
        if (stored * (double)s->range >= MIN_NOTES * (double)rows * (double)inputs) break;
    s->ranges = (long)((inputs + s->range - 1) / s->range);
}

/* The rows of a range, those with the fewest notes first; `first` has room for every number of notes. */
static void sort_rows(const scribe *s, long range, long most, long *first)
{
    const long rows = (long)s->w->dim[0], *count = s->count + range * rows;
    memset(first, 0, ((size_t)most + 2) * sizeof *first);
    for (long n = 0; n < rows; n++) first[count[n] + 1]++;
    for (long c = 0; c <= most; c++) first[c + 1] += first[c];
    for (long n = 0; n < rows; n++) s->row[range * rows + first[count[n]]++] = (unsigned)n;
}

/* Where the notes of each row of each range go. */
static sparta_status place_rows(scribe *s, size_t places, sp_arena *scratch)
{
    const long rows = (long)s->w->dim[0];
    long most = 0;
    for (size_t i = 0; i < places; i++) most = SP_MAX(most, s->count[i]);
    long *first = sp_arena_array(scratch, (size_t)most + 2, sizeof *first);
    SP_NEED(s->cx, first);
    for (long r = 0; r < s->ranges; r++) {
        sort_rows(s, r, most, first);
        for (long i = r * rows; i < (r + 1) * rows; i++) {
            const long at = r * rows + (long)s->row[i];
            s->next[at] = s->pos[i];
            s->pos[i + 1] = s->end[at] = s->pos[i] + s->count[at];
        }
    }
    return SPARTA_OK;
}

static sparta_status write_notes(sp_arena *arena, scribe *s, sp_arena *scratch)
{
    cut(s);
    const size_t places = (size_t)s->ranges * (size_t)s->w->dim[0];
    s->count = sp_arena_array(scratch, places + 1, sizeof *s->count);
    s->next = sp_arena_array(scratch, places + 1, sizeof *s->next);
    s->end = sp_arena_array(scratch, places + 1, sizeof *s->end);
    s->row = sp_arena_array(arena, places + 1, sizeof *s->row);
    s->pos = sp_arena_array(arena, places + 1, sizeof *s->pos);
    if (!s->count || !s->next || !s->end || !s->row || !s->pos) return sp_ctx_status(s->cx);
    SP_TRY(sp_packed_walk(s->cx, s->w, note_one, s));
    SP_TRY(place_rows(s, places, scratch));
    struct sp_walk_note *note = sp_arena_array(arena, (size_t)s->pos[places] + 1, sizeof *note);
    SP_NEED(s->cx, note);
    s->note = note;
    return sp_packed_walk(s->cx, s->w, note_one, s);
}

/* Notes hold rows in 32 bits. */
static sparta_status fits(sparta_ctx *cx, const sp_job *job, const sp_packed *w)
{
    bool f32 = !w->pattern && w->rank == 2 && w->dim[0] <= UINT32_MAX && w->dim[1] <= UINT32_MAX;
    for (int p = 0; p < parts_of(w); p++)
        f32 &= part_at(w, p)->dtype == SPARTA_F32 && !part_at(w, p)->pattern;
    if (!f32) return sp_fail(cx, SPARTA_E_FORMAT, "%s: the weight is no f32 matrix", job->node->name);
    return SPARTA_OK;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    SP_TRY(fits(cx, job, w));
    sp_arena *scratch = sp_arena_create(cx);
    SP_NEED(cx, scratch);
    scribe s = {.cx = cx, .w = w};
    const sparta_status status = write_notes(arena, &s, scratch);
    sp_arena_free(scratch);
    if (status != SPARTA_OK) return sp_fail_in(cx, "%s", job->node->name);
    job->walked = s.note;
    job->walked_row = s.row;
    job->walked_pos = s.pos;
    job->walked_ranges = s.ranges;
    return sp_panel_end_prepare(cx, arena, job);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_walk_args *a = &out->walk;
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    a->row = job->walked_row;
    a->pos = job->walked_pos;
    a->note = job->walked;
    a->rows = (long)job->in[1].packed->dim[0];
    a->ranges = job->walked_ranges;
    return sp_panel_share_vectors(job, at, &a->vector0, &a->vectors);
}

const sp_panel_kernel sp_panel_walk = {.name = "walk",
                                       .portable = sp_kernel_walk,
                                       .op = SP_OP_Linear,
                                       .prepare = prepare,
                                       .check = sp_panel_product_check,
                                       .fill = fill,
                                       .slots = SP_PRODUCT_SLOTS};
