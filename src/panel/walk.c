/* walk: y = w x and its epilogue for a weight in any format. in: x, w (packed, any format), bias?, residual?
 *
 * The generic walker of room format goes over the storage once, when a session is made, and checks it on the way. What it finds is
 * noted by output row: which input row each stored weight multiplies, and where it lies.
 *
 *      storage (bsr, a sum, ...)  --walk-->  notes of row 0 | notes of row 1 | ...   8 bytes a stored weight
 *             values  <----------------------- at
 *
 * so that a run follows the notes, needs no context, and can be shared by rows. Notes come in two walks: one counts, one writes.
 */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_walk.h"

typedef struct scribe {
    sparta_ctx *cx;
    const sp_packed *w;
    struct sp_walk_part *part;
    struct sp_walk_note **note; /* (parts), to be written; NULL while counting */
    long **count;               /* (parts)(rows + 1): notes of row r at r + 1 */
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
    const int p = s->w->format.sum ? (int)(part - s->w->part) : 0;
    const int64_t n = index[0], k = index[1];
    if (n < 0 || n >= s->w->dim[0] || k < 0 || k >= s->w->dim[1] || position < 0 ||
        position >= part->values.dim[0])
        return sp_fail(s->cx, SPARTA_E_INTERNAL, "walk: an element lies outside of its weight");
    if (!s->note) {
        s->count[p][n + 1]++;
        return SPARTA_OK;
    }
    if (s->count[p][n] >= s->part[p].pos[n + 1]) /* a mapped file may change under us */
        return sp_fail(s->cx, SPARTA_E_FORMAT, "walk: the storage changed while it was read");
    s->note[p][s->count[p][n]++] = (struct sp_walk_note){(unsigned)k, (unsigned)position};
    return SPARTA_OK;
}

/* Numbers of notes into where each row's begin; room for them. */
static sparta_status make_room(sp_arena *arena, scribe *s, int p)
{
    const int64_t rows = s->w->dim[0];
    long *pos = sp_arena_array(arena, (size_t)rows + 1, sizeof *pos);
    SP_NEED(s->cx, pos);
    for (int64_t r = 0; r < rows; r++) s->count[p][r + 1] += s->count[p][r];
    for (int64_t r = 0; r <= rows; r++) pos[r] = s->count[p][r];
    s->note[p] = sp_arena_array(arena, (size_t)pos[rows] + 1, sizeof **s->note);
    SP_NEED(s->cx, s->note[p]);
    s->part[p] = (struct sp_walk_part){pos, s->note[p], part_at(s->w, p)->values.data};
    return SPARTA_OK;
}

static sparta_status write_notes(sp_arena *arena, scribe *s, sp_arena *scratch)
{
    const int parts = parts_of(s->w);
    struct sp_walk_note **note = sp_arena_array(scratch, (size_t)parts, sizeof *note);
    s->count = sp_arena_array(scratch, (size_t)parts, sizeof *s->count);
    s->part = sp_arena_array(arena, (size_t)parts, sizeof *s->part);
    if (!note || !s->count || !s->part) return sp_ctx_status(s->cx);
    for (int p = 0; p < parts; p++) {
        s->count[p] = sp_arena_array(scratch, (size_t)s->w->dim[0] + 1, sizeof **s->count);
        SP_NEED(s->cx, s->count[p]);
    }
    SP_TRY(sp_packed_walk(s->cx, s->w, note_one, s));
    s->note = note;
    for (int p = 0; p < parts; p++) SP_TRY(make_room(arena, s, p));
    return sp_packed_walk(s->cx, s->w, note_one, s);
}

/* Notes hold places and input rows in 32 bits. */
static sparta_status fits(sparta_ctx *cx, const sp_job *job, const sp_packed *w)
{
    bool f32 = !w->pattern && w->rank == 2 && w->dim[1] <= UINT32_MAX;
    for (int p = 0; p < parts_of(w); p++) {
        const sp_packed *part = part_at(w, p);
        f32 &= part->dtype == SPARTA_F32 && !part->pattern;
        if (part->values.rank && part->values.dim[0] > UINT32_MAX)
            return sp_fail(cx, SPARTA_E_LIMIT, "%s: more than 2^32 values are stored", job->node->name);
    }
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
    job->walked = s.part;
    job->walked_parts = parts_of(w);
    return sp_panel_end_prepare(cx, arena, job);
}

/* Rows are shared by equal numbers of notes. */
static int64_t notes_before(const sp_job *job, int64_t row)
{
    int64_t n = 0;
    for (int p = 0; p < job->walked_parts; p++) n += job->walked[p].pos[row];
    return n;
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_walk_args *a = &out->walk;
    sp_panel_share_by(job, job->in[1].packed->dim[0], notes_before, at, &a->row0, &a->row1);
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    a->part = job->walked;
    a->parts = job->walked_parts;
    a->vectors = sp_panel_vectors(job, at->panel);
    return a->row1 > a->row0 || job->stat;
}

const sp_panel_kernel sp_panel_walk = {.name = "walk",
                                       .portable = sp_kernel_walk,
                                       .op = SP_OP_Linear,
                                       .prepare = prepare,
                                       .check = sp_panel_product_check,
                                       .fill = fill,
                                       .slots = SP_PRODUCT_SLOTS};
