/* Cells, and attributes made from facts and told as facts. */
#include "tesa/attribute.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ cells */
sparta_status sp_cells_new(sp_arena *arena, int rank, const int64_t *extent, sp_cells *out)
{
    sp_cells c = {.at = NULL};
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        c.extent[i] = extent[i];
        if (!sp_int_mul(n, extent[i], &n))
            return sp_fail(sp_arena_ctx(arena), SPARTA_E_SHAPE, "cells: there are more than 2^63");
    }
    c.at = sp_arena_alloc(arena, (size_t)SP_MAX(n, 1));
    SP_NEED(sp_arena_ctx(arena), c.at);
    *out = c;
    return SPARTA_OK;
}

sparta_status sp_cells_one(sp_arena *arena, uint8_t x, sp_cells *out)
{
    int64_t extent[SPARTA_RANK];
    for (int i = 0; i < SPARTA_RANK; i++) extent[i] = 1;
    SP_TRY(sp_cells_new(arena, SPARTA_RANK, extent, out));
    out->at[0] = x;
    return SPARTA_OK;
}

int64_t sp_cells_held(const sp_cells *c, int rank)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= c->extent[i];
    return n;
}

int64_t sp_cell_at(int rank, const int64_t *extent, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < rank; i++) at = at * extent[i] + (extent[i] == 1 ? 0 : index[i]);
    return at;
}

uint8_t sp_cells_get(const sp_cells *c, int rank, const int64_t *index)
{
    return c->at[sp_cell_at(rank, c->extent, index)];
}

bool sp_cells_has(const sp_cells *c, int rank, uint8_t bit)
{
    const int64_t n = sp_cells_held(c, rank);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t eight;
        memcpy(&eight, c->at + i, 8);
        if (eight & bit * 0x0101010101010101u) return true;
    }
    for (; i < n; i++)
        if (c->at[i] & bit) return true;
    return false;
}

bool sp_cells_all(const sp_cells *c, int rank, uint8_t bit)
{
    const int64_t n = sp_cells_held(c, rank);
    for (int64_t i = 0; i < n; i++)
        if (!(c->at[i] & bit)) return false;
    return true;
}

bool sp_slices_alike(const void *data, int64_t outer, int64_t size, size_t inner)
{
    for (int64_t o = 0; o < outer; o++) {
        const char *row = (const char *)data + (size_t)(o * size) * inner;
        for (int64_t i = 1; i < size; i++)
            if (memcmp(row, row + (size_t)i * inner, inner)) return false;
    }
    return true;
}

void sp_slices_first(void *data, int64_t outer, int64_t size, size_t inner)
{
    for (int64_t o = 1; o < outer; o++)
        memmove((char *)data + (size_t)o * inner, (char *)data + (size_t)(o * size) * inner, inner);
}

void sp_extents_tighten(void *data, size_t element, int rank, int64_t *extent)
{
    int64_t n = 1, inner = 1;
    for (int i = 0; i < rank; i++) n *= extent[i];
    for (int i = rank - 1; i >= 0 && n > 0; i--) {
        const int64_t size = extent[i], outer = n / (size * inner);
        const size_t bytes = (size_t)inner * element;
        if (size > 1 && sp_slices_alike(data, outer, size, bytes)) {
            sp_slices_first(data, outer, size, bytes);
            extent[i] = 1;
            n /= size;
        }
        inner *= extent[i];
    }
}

void sp_cells_tighten(sp_cells *c, int rank)
{
    sp_extents_tighten(c->at, 1, rank, c->extent);
}

/* ------------------------------------------------------------------ one element */
uint8_t sp_state_of(bool strict, double x)
{
    return x == 0 ? (strict && signbit(x) ? SP_SOME : SP_ZERO) : isfinite(x) ? SP_SOME : SP_UNKNOWN;
}

int64_t sp_tesa_extent(const sp_tesa *t, int axis)
{
    return t->value.data ? SP_MAX(t->state.extent[axis], t->value.dim[axis]) : t->state.extent[axis];
}

bool sp_tesa_known(const sp_tesa *t, const int64_t *index, double *value)
{
    const int rank = t->dims.rank;
    if (!t->state.at) return false;
    const uint8_t state = sp_cells_get(&t->state, rank, index);
    *value = state == SP_SOME
                 ? sp_element_get(t->value.dtype, t->value.data, sp_cell_at(rank, t->value.dim, index))
                 : 0;
    return state != SP_UNKNOWN;
}

sp_precision sp_tesa_precision(const sp_tesa *t, const int64_t *index)
{
    if (!t->precision.at) return SP_PRECISION_ANY;
    return (sp_precision)(index ? sp_cells_get(&t->precision, t->dims.rank, index) : t->precision.at[0]);
}

void sp_tesa_shares(const sp_tesa *t, double *zeros, double *constants)
{
    const int64_t n = t->state.at ? sp_cells_held(&t->state, t->dims.rank) : 0;
    int64_t zero = 0, some = 0;
    for (int64_t i = 0; i < n; i++) {
        zero += t->state.at[i] == SP_ZERO;
        some += t->state.at[i] == SP_SOME;
    }
    *zeros = n ? (double)zero / (double)n : 0;
    *constants = n ? (double)some / (double)n : 0;
}

/* ------------------------------------------------------------------ from facts */
typedef struct making {
    sp_arena *arena;
    sparta_ctx *cx;
    const sparta_tesa_facts *f;
    int64_t size[SPARTA_RANK]; /* of each axis; -1: no number */
    sp_tesa t;
} making;

/* Is each dim of an array the value's, or 1? */
static sparta_status check_dims(const making *m, const char *what, const sparta_tensor *a)
{
    if (a->rank != m->t.dims.rank)
        return sp_fail(m->cx, SPARTA_E_SHAPE,
                       "tesa: '%s' has %d dims and the value %d; give it a dim for each", what, a->rank,
                       m->t.dims.rank);
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != 1 && (a->dim[i] < 0 || a->dim[i] != m->size[i]))
            return sp_fail(m->cx, SPARTA_E_SHAPE,
                           "tesa: dim %d of '%s' is %lld; it is the value's where that is a number, or 1", i,
                           what, (long long)a->dim[i]);
    return SPARTA_OK;
}

static sparta_status read_dims(making *m)
{
    if (!m->f->dims)
        return sp_fail(m->cx, SPARTA_E_USAGE, "tesa: it has no dims; give them, e.g. [batch,768]");
    SP_TRY(sp_dims_parse(m->arena, m->f->dims, &m->t.dims));
    for (int i = 0; i < m->t.dims.rank; i++) {
        if (!sp_expr_is_const(m->t.dims.dim[i], &m->size[i]))
            m->size[i] = -1;
        else if (m->size[i] < 0)
            return sp_fail(m->cx, SPARTA_E_SHAPE, "tesa: dim %d is negative", i);
    }
    return SPARTA_OK;
}

static sparta_status check_arrays(const making *m)
{
    const sparta_tesa_facts *f = m->f;
    if (f->has.data) SP_TRY(check_dims(m, "has", &f->has));
    if (f->known.data) SP_TRY(check_dims(m, "known", &f->known));
    if (f->values.data) SP_TRY(check_dims(m, "values", &f->values));
    if (f->which.data) SP_TRY(check_dims(m, "which", &f->which));
    if ((f->has.data && f->has.dtype != SPARTA_BOOL) || (f->known.data && f->known.dtype != SPARTA_BOOL))
        return sp_fail(m->cx, SPARTA_E_DTYPE, "tesa: 'has' and 'known' are bools");
    if (f->which.data && f->which.dtype != SPARTA_U8)
        return sp_fail(m->cx, SPARTA_E_DTYPE, "tesa: 'which' is u8: places in the list of precisions");
    if (f->known.data && !f->values.data)
        return sp_fail(m->cx, SPARTA_E_USAGE,
                       "tesa: elements are known and there are no values; give 'values'");
    return SPARTA_OK;
}

/* The element of an array at an index of the value, as an offset. */
static int64_t offset(const sparta_tensor *a, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < a->rank; i++) at += (a->dim[i] == 1 ? 0 : index[i]) * a->stride[i];
    return at;
}

static bool flag(const sparta_tensor *a, const int64_t *index, bool otherwise)
{
    return a->data ? sp_element_get_int(a->dtype, a->data, offset(a, index)) != 0 : otherwise;
}

static void step(int rank, const int64_t *extent, int64_t *index)
{
    for (int d = rank - 1; d >= 0 && ++index[d] == extent[d]; d--) index[d] = 0;
}

/* States and values at the finest extents that some array has; those of what is no constant are 0. */
static sparta_status read_states(making *m)
{
    const sparta_tesa_facts *f = m->f;
    const sparta_tensor *const from[] = {&f->has, &f->known, &f->values};
    const int rank = m->t.dims.rank;
    sp_tesa *t = &m->t;
    int64_t extent[SPARTA_RANK], index[SPARTA_RANK] = {0};
    bool some = false;
    for (int i = 0; i < rank; i++) {
        extent[i] = 1;
        for (int k = 0; k < (f->known.data ? 3 : 1); k++)
            if (from[k]->data && from[k]->dim[i] != 1) extent[i] = from[k]->dim[i];
    }
    SP_TRY(sp_cells_new(m->arena, rank, extent, &t->state));
    if (f->known.data) SP_TRY(sp_tensor_alloc_in(m->arena, f->values.dtype, rank, extent, &t->value));
    const size_t size = f->known.data ? sparta_dtype_size(f->values.dtype) : 0;
    const int64_t n = sp_cells_held(&t->state, rank);
    for (int64_t c = 0; c < n; c++, step(rank, extent, index)) {
        const bool known = flag(&f->known, index, false);
        const int64_t at = known ? offset(&f->values, index) : 0;
        t->state.at[c] =
            !flag(&f->has, index, true) ? SP_ZERO
            : !known                    ? SP_UNKNOWN
                     : sp_state_of(sp_ctx_strict(m->cx), sp_element_get(f->values.dtype, f->values.data, at));
        if (t->state.at[c] != SP_SOME) continue;
        memcpy((char *)t->value.data + (size_t)c * size, (const char *)f->values.data + (size_t)at * size,
               size);
        some = true;
    }
    if (!n) t->state.at = NULL; /* no elements: nothing to know */
    if (!some) t->value = (sparta_tensor){0};
    return SPARTA_OK;
}

/* The smallest extents of all three. */
static void tighten(sp_tesa *t)
{
    const int rank = t->dims.rank;
    if (t->value.data) {
        sp_extents_tighten(t->value.data, sparta_dtype_size(t->value.dtype), rank, t->value.dim);
        t->value = sparta_tensor_view(t->value.dtype, rank, t->value.dim, t->value.data);
    }
    if (t->state.at) sp_cells_tighten(&t->state, rank);
    if (t->precision.at) sp_cells_tighten(&t->precision, rank);
}

/* "i8 f16" into a list. */
static sparta_status read_names(const making *m, uint8_t *list, int *n)
{
    const char *at = m->f->precision ? m->f->precision : "any";
    for (*n = 0; *at; (*n)++) {
        const size_t size = strcspn(at, " ");
        sp_precision p;
        if (*n == SP_PRECISIONS || !sp_precision_parse(at, size, &p))
            return sp_fail(m->cx, SPARTA_E_USAGE, "tesa: '%.*s' is no precision; they are f32, i8, ...",
                           (int)SP_MIN(size, 40), at);
        list[*n] = (uint8_t)p;
        at += size;
        at += *at == ' ';
    }
    return *n ? SPARTA_OK
              : sp_fail(m->cx, SPARTA_E_USAGE, "tesa: no precision is named; leave it NULL, or say f32");
}

static sparta_status read_precision(making *m)
{
    const sparta_tensor *which = &m->f->which;
    uint8_t list[SP_PRECISIONS + 1];
    int n;
    int64_t index[SPARTA_RANK] = {0};
    SP_TRY(read_names(m, list, &n));
    if (!which->data) return sp_cells_one(m->arena, list[0], &m->t.precision);
    SP_TRY(sp_cells_new(m->arena, which->rank, which->dim, &m->t.precision));
    const int64_t cells = sp_cells_held(&m->t.precision, which->rank);
    if (!cells) return sp_cells_one(m->arena, list[0], &m->t.precision);
    for (int64_t c = 0; c < cells; c++, step(which->rank, which->dim, index)) {
        const int64_t place = sp_element_get_int(SPARTA_U8, which->data, offset(which, index));
        if (place >= n)
            return sp_fail(m->cx, SPARTA_E_RANGE, "tesa: 'which' has %lld; %d precisions are named",
                           (long long)place, n);
        m->t.precision.at[c] = list[place];
    }
    return SPARTA_OK;
}

sparta_status sp_tesa_of_facts(sp_arena *arena, const sparta_tesa_facts *facts, sp_tesa *out)
{
    making m = {.arena = arena, .cx = sp_arena_ctx(arena), .f = facts};
    SP_TRY(read_dims(&m));
    SP_TRY(check_arrays(&m));
    SP_TRY(read_states(&m));
    SP_TRY(read_precision(&m));
    tighten(&m.t);
    *out = m.t;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ as facts */
/* Where the state is, or is not, this one; data NULL: nowhere it is otherwise. */
static sparta_status where(sp_arena *arena, const sp_tesa *t, uint8_t state, bool is, sparta_tensor *out)
{
    const int rank = t->dims.rank;
    sp_cells c;
    *out = (sparta_tensor){0};
    if (!t->state.at) return SPARTA_OK;
    SP_TRY(sp_cells_new(arena, rank, t->state.extent, &c));
    const int64_t n = sp_cells_held(&c, rank);
    for (int64_t i = 0; i < n; i++) c.at[i] = (t->state.at[i] == state) == is;
    if (!memchr(c.at, is ? 1 : 0, (size_t)n)) return SPARTA_OK;
    sp_cells_tighten(&c, rank);
    *out = sparta_tensor_view(SPARTA_BOOL, rank, c.extent, c.at);
    return SPARTA_OK;
}

static sparta_status tell_precision(sp_arena *arena, const sp_tesa *t, sparta_tesa_facts *out)
{
    const int rank = t->dims.rank;
    int place[SP_PRECISIONS] = {0}, named = 0;
    const char *names = "";
    const int64_t n = t->precision.at ? sp_cells_held(&t->precision, rank) : 0;
    sp_cells c;
    for (int64_t i = 0; i < n; i++) place[t->precision.at[i]] = -1;
    for (int p = 0; p < SP_PRECISIONS && names; p++) {
        if (!place[p]) continue;
        place[p] = named++;
        names =
            sp_arena_printf(arena, "%s%s%s", names, place[p] ? " " : "", sp_precision_name((sp_precision)p));
    }
    SP_NEED(sp_arena_ctx(arena), names);
    out->precision = named ? names : "any";
    if (named < 2) return SPARTA_OK;
    SP_TRY(sp_cells_new(arena, rank, t->precision.extent, &c));
    for (int64_t i = 0; i < n; i++) c.at[i] = (uint8_t)place[t->precision.at[i]];
    out->which = sparta_tensor_view(SPARTA_U8, rank, c.extent, c.at);
    return SPARTA_OK;
}

sparta_status sp_tesa_facts(sp_arena *arena, const sp_tesa *t, sparta_tesa_facts *out)
{
    sparta_ctx *cx = sp_arena_ctx(arena);
    sparta_tesa_facts f = {.size = sizeof f};
    sp_text dims;
    sp_text_init(&dims, cx);
    sp_dims_print(&t->dims, &dims);
    f.dims = sp_text_keep(&dims, arena);
    SP_NEED(cx, f.dims);
    SP_TRY(where(arena, t, SP_ZERO, false, &f.has));
    SP_TRY(where(arena, t, SP_SOME, true, &f.known));
    if (f.known.data) f.values = t->value;
    SP_TRY(tell_precision(arena, t, &f));
    *out = f;
    return SPARTA_OK;
}
