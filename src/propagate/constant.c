/* What is known of a constant: all of it, and where it is 0.
 *
 * A model of a billion weights has as many states, but most are alike: a dense weight is one cell, one with dead outputs a cell for
 * each row, one with dead inputs a cell for each column. So rows are counted, not written down, for as long as that goes:
 *
 *     0 0 0 0      {rows, 1}     x 0 x 0      {1, cols}      x 0 x x      {rows, cols}
 *     x x x x                    x 0 x 0                     0 x 0 x
 *     0 0 0 0                    x 0 x 0                     x x x 0
 */
#include "propagate/facts.h"
#include <math.h>
#include <string.h>

#define ROW 256 /* elements that a row has at least, where the axes allow it */

/* Row-major data as rows of the axes from `split` on. */
typedef struct rows {
    const sparta_tensor *t;
    int split;
    int64_t n, size;
} rows;

static rows rows_of(const sparta_tensor *t)
{
    rows r = {t, t->rank, 1, 1};
    while (r.split > (t->rank > 1) && r.size < ROW) r.size *= t->dim[--r.split];
    for (int i = 0; i < r.split; i++) r.n *= t->dim[i];
    return r;
}

static uint8_t state_of(double x)
{
    return x == 0 ? 0 : isfinite(x) ? SP_SOME : SP_UNKNOWN;
}

/* state[i] = 2 where the element is not 0 (-0.0 is); NaN and infinities are unknown: nothing is concluded from them. */
static void classify(const sparta_tensor *t, int64_t from, int64_t n, uint8_t *state)
{
    if (t->dtype == SPARTA_F32) {
        const float *x = (const float *)t->data + from;
        /* 0, SP_SOME, or with x - x, which is not 0 then, SP_UNKNOWN; without branches, which scattered zeros would make costly */
        for (int64_t i = 0; i < n; i++) state[i] = (uint8_t)((x[i] != 0) << 1 | (x[i] - x[i] != 0));
        return;
    }
    for (int64_t i = 0; i < n; i++) state[i] = state_of(sp_element_get(t->dtype, t->data, from + i));
}

/* The state that all elements of a row have; false: they differ. */
static bool uniform(const rows *r, int64_t row, uint8_t *state)
{
    const int64_t from = row * r->size;
    if (r->t->dtype != SPARTA_F32) {
        *state = state_of(sp_element_get(r->t->dtype, r->t->data, from));
        for (int64_t i = 1; i < r->size; i++)
            if (state_of(sp_element_get(r->t->dtype, r->t->data, from + i)) != *state) return false;
        return true;
    }
    const float *x = (const float *)r->t->data + from;
    for (int64_t at = 0; at < r->size; at += ROW) { /* what differs mostly does so at once */
        const int n = (int)SP_MIN(r->size - at, ROW);
        int zeros = 0, finite = 0;
        for (int i = 0; i < n; i++) {
            zeros += x[at + i] == 0;
            finite += x[at + i] - x[at + i] == 0;
        }
        const uint8_t here = zeros == n ? 0 : zeros == 0 && finite == n ? SP_SOME : SP_UNKNOWN;
        if (here == SP_UNKNOWN || (at && here != *state)) return false;
        *state = here;
    }
    return true;
}

/* ------------------------------------------------------------------ three ways to keep it */
static sparta_status keep_cells(sp_propagation *p, const rows *r, bool outer, bool inner, sp_cells *out)
{
    out->at = sp_arena_alloc(p->arena, (size_t)((outer ? r->n : 1) * (inner ? r->size : 1)));
    SP_NEED(p->cx, out->at);
    for (int i = 0; i < r->t->rank; i++) out->extent[i] = (i < r->split ? outer : inner) ? r->t->dim[i] : 1;
    return SPARTA_OK;
}

/* Is a row zero, and finite, where the first is? */
static bool like_first(const rows *r, int64_t row, const uint8_t *first, uint8_t *scratch)
{
    if (r->t->dtype != SPARTA_F32) {
        classify(r->t, row * r->size, r->size, scratch);
        return !memcmp(scratch, first, (size_t)r->size);
    }
    const float *x = r->t->data, *y = x + row * r->size;
    for (int64_t at = 0; at < r->size; at += ROW) {
        const int n = (int)SP_MIN(r->size - at, ROW);
        int differ = 0;
        for (int i = 0; i < n; i++) /* with a first row that is finite */
            differ |= ((x[at + i] == 0) ^ (y[at + i] == 0)) | (y[at + i] - y[at + i] != 0);
        if (differ) return false;
    }
    return true;
}

/* A cell for each row; *fits is false when one is not uniform. */
static sparta_status by_rows(sp_propagation *p, const rows *r, sp_cells *out, bool *fits)
{
    *fits = sp_room(p, r->n, 1);
    if (!*fits) return SPARTA_OK;
    SP_TRY(keep_cells(p, r, true, false, out));
    for (int64_t i = 0; i < r->n && *fits; i++) *fits = uniform(r, i, &out->at[i]);
    if (*fits) sp_cells_tighten(out, r->t->rank);
    return SPARTA_OK;
}

/* The cells of the first row; *fits is false when another differs. */
static sparta_status by_columns(sp_propagation *p, const rows *r, sp_cells *out, bool *fits)
{
    *fits = r->n > 1 && sp_room(p, r->size, 2);
    if (!*fits) return SPARTA_OK;
    SP_TRY(keep_cells(p, r, false, true, out));
    uint8_t *row = sp_arena_alloc(p->arena, (size_t)r->size);
    SP_NEED(p->cx, row);
    classify(r->t, 0, r->size, out->at);
    *fits = !memchr(out->at, SP_UNKNOWN, (size_t)r->size);
    for (int64_t i = 1; i < r->n && *fits; i++) *fits = like_first(r, i, out->at, row);
    if (*fits) sp_cells_tighten(out, r->t->rank);
    return SPARTA_OK;
}

/* In a strict context, zeros that are -0.0 have cells of their own. */
static bool has_signs(const sp_propagation *p, const sparta_tensor *t, int64_t n)
{
    if (!p->strict || !sp_dtype_is_float(t->dtype)) return false;
    for (int64_t i = 0; i < n; i++) {
        const double x = t->dtype == SPARTA_F32 ? (double)((const float *)t->data)[i]
                                                : sp_element_get(t->dtype, t->data, i);
        if (x == 0 && signbit(x)) return true;
    }
    return false;
}

sparta_status sp_known_constant(sp_propagation *p, const sp_value *v)
{
    sp_fact *f = sp_fact_of(p, v);
    const sparta_tensor *t = v->constant;
    const int64_t n = sparta_tensor_elements(t);
    uint8_t first;
    bool fits = false;
    f->wild = sp_dtype_is_float(t->dtype); /* unless they are looked at */
    if (n <= 0) return sp_cells_one(p->arena, SP_UNKNOWN, &f->tesa.state);
    const rows r = rows_of(t);
    const bool signs = has_signs(p, t, n);
    if (!signs && uniform(&r, 0, &first))
        SP_TRY(by_rows(p, &r, &f->tesa.state, &fits));
    else if (!signs)
        SP_TRY(by_columns(p, &r, &f->tesa.state, &fits));
    if (!fits && !sp_room(p, n, 1)) return sp_cells_one(p->arena, SP_UNKNOWN, &f->tesa.state);
    if (!fits) {
        SP_TRY(keep_cells(p, &r, true, true, &f->tesa.state));
        classify(t, 0, n, f->tesa.state.at);
    }
    for (int64_t i = 0; signs && i < n; i++)
        f->tesa.state.at[i] = sp_state_of(p->strict, sp_element_get(t->dtype, t->data, i));
    if (sp_cells_has(&f->tesa.state, t->rank, SP_SOME)) f->tesa.value = *t;
    f->wild = sp_cells_has(&f->tesa.state, t->rank, 1);
    return SPARTA_OK;
}
