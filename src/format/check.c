/* What a format must be: a map that can be inverted, and widths that hold the coordinates of a shape. Also
 * its canonical text. */
#include "format/level.h"
#include <stdio.h>
#include <string.h>

const sparta_level_info sparta_level_table[SPARTA_LEVEL_KINDS] = {
#define SPARTA_LEVEL(id, name, has_pos, has_crd) {name, has_pos, has_crd, &sparta_level_ops_##id},
#include "format/levels.def"
#undef SPARTA_LEVEL
};

/* ------------------------------------------------------------------ widths */

int64_t sparta_width_max(sparta_dtype width)
{
    switch (width) {
    case SPARTA_U8: return UINT8_MAX;
    case SPARTA_U16: return UINT16_MAX;
    case SPARTA_U32: return UINT32_MAX;
    case SPARTA_I32: return INT32_MAX;
    case SPARTA_I64:
    case SPARTA_U64: return INT64_MAX; /* positions are int64 inside */
    default: return -1;
    }
}

bool sparta_width_valid(sparta_dtype width)
{
    return sparta_width_max(width) >= 0;
}

/* The narrowest unsigned width that holds `max`. */
static const char *width_for(int64_t max)
{
    return max <= UINT8_MAX ? "u8" : max <= UINT16_MAX ? "u16" : max <= UINT32_MAX ? "u32" : "u64";
}

sparta_status sparta_level_pos_fits(sparta_ctx *cx, const sparta_level *l, int number, int64_t size)
{
    if (size <= sparta_width_max(l->pos)) return SPARTA_OK;
    return sparta_fail(cx, SPARTA_E_USAGE,
                       "format: pos=%s holds positions up to %lld, level %d has %lld; use pos=%s",
                       sparta_dtype_name(l->pos), (long long)sparta_width_max(l->pos), number,
                       (long long)size, width_for(size));
}

/* ------------------------------------------------------------------ structure */

/* "format:1:8: message" when the place is known, else "format: message". */
static sparta_status SPARTA_PRINTF(3, 4)
    wrong(sparta_ctx *cx, const sparta_place *at, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!at) return sparta_fail(cx, SPARTA_E_USAGE, "format: %s", message);
    return sparta_fail(cx, SPARTA_E_USAGE, "format:%d:%d: %s", at->line, at->column, message);
}

static const sparta_place *place(const sparta_place *of, int i)
{
    return of ? &of[i] : NULL;
}

void sparta_level_print_map(const sparta_format *f, const sparta_level *l, char out[48])
{
    const char *name = f->dim_name[l->dim];
    if (l->map == SPARTA_MAP_ALL)
        snprintf(out, 48, "%.15s", name);
    else
        snprintf(out, 48, "%.15s%c%lld", name, l->map == SPARTA_MAP_DIV ? '/' : '%', (long long)l->c);
}

static sparta_status level_sane(sparta_ctx *cx, const sparta_format *f, int i)
{
    const sparta_level *l = &f->level[i];
    bool blocked = l->map == SPARTA_MAP_DIV || l->map == SPARTA_MAP_MOD;
    if ((unsigned)l->kind >= SPARTA_LEVEL_KINDS || l->dim < 0 || l->dim >= f->rank ||
        (!blocked && l->map != SPARTA_MAP_ALL))
        return wrong(cx, NULL, "level %d is no level", i);
    if (blocked && (l->c < 1 || l->c > INT32_MAX))
        return wrong(cx, NULL, "level %d: block size %lld must be between 1 and %d", i, (long long)l->c,
                     INT32_MAX);
    if (!sparta_width_valid(l->pos) || !sparta_width_valid(l->crd))
        return wrong(cx, NULL, "level %d: widths are u8 u16 u32 u64 i32 i64", i);
    return SPARTA_OK;
}

/* A half of a block alone: name the other half. */
static sparta_status half(sparta_ctx *cx, const sparta_format *f, const sparta_level *l,
                          const sparta_place *at)
{
    char has[48], missing[48];
    sparta_level other = *l;
    other.map = l->map == SPARTA_MAP_DIV ? SPARTA_MAP_MOD : SPARTA_MAP_DIV;
    sparta_level_print_map(f, l, has);
    sparta_level_print_map(f, &other, missing);
    return wrong(
        cx, at,
        "map is not invertible: %s appears as %s but %s is missing; add '%s : dense' or remove the block",
        f->dim_name[l->dim], has, missing, missing);
}

/* A dimension is stored by i, or by i/c and i%c. */
static sparta_status dim_sane(sparta_ctx *cx, const sparta_format *f, int dim, const sparta_place *level,
                              const sparta_place *dims)
{
    int found[2], n = 0;
    const char *name = f->dim_name[dim];
    for (int i = 0; i < f->n; i++) {
        if (f->level[i].dim != dim) continue;
        if (n == 2)
            return wrong(cx, place(level, i),
                         "dimension %s has more than two levels; write it as %s, or as %s/c and %s%%c", name,
                         name, name, name);
        found[n++] = i;
    }
    if (!n)
        return wrong(cx, place(dims, dim),
                     "map is not invertible: no level stores dimension %s; add '%s : dense'", name, name);
    const sparta_level *a = &f->level[found[0]], *b = &f->level[found[n - 1]];
    if (n == 1) return a->map == SPARTA_MAP_ALL ? SPARTA_OK : half(cx, f, a, place(level, found[0]));
    if (a->map == SPARTA_MAP_ALL || b->map == SPARTA_MAP_ALL || a->map == b->map) {
        char first[48], second[48];
        sparta_level_print_map(f, a, first);
        sparta_level_print_map(f, b, second);
        return wrong(cx, place(level, found[1]),
                     "dimension %s appears as %s and again as %s; write it as %s, or as %s/c and %s%%c", name,
                     first, second, name, name, name);
    }
    if (a->map == SPARTA_MAP_MOD) a = b, b = &f->level[found[0]];
    if (a->c != b->c)
        return wrong(cx, place(level, found[1]),
                     "%s/%lld and %s%%%lld disagree: block sizes of dimension %s must match (%lld != %lld)",
                     name, (long long)a->c, name, (long long)b->c, name, (long long)a->c, (long long)b->c);
    return SPARTA_OK;
}

sparta_status sparta_format_structure(sparta_ctx *cx, const sparta_format *f, const sparta_place *level,
                                      const sparta_place *dim)
{
    if (f->rank < 1 || f->rank > SPARTA_RANK || f->n < 1 || f->n > SPARTA_LEVELS)
        return wrong(cx, NULL, "%d dimensions and %d levels; there may be 1 to %d and 1 to %d", f->rank, f->n,
                     SPARTA_RANK, SPARTA_LEVELS);
    for (int i = 0; i < f->n; i++) SPARTA_TRY(level_sane(cx, f, i));
    for (int d = 0; d < f->rank; d++) SPARTA_TRY(dim_sane(cx, f, d, level, dim));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ shapes */

int64_t sparta_level_extent(const sparta_level *l, const int64_t *dim)
{
    int64_t n = dim[l->dim];
    switch (l->map) {
    case SPARTA_MAP_DIV: return n / l->c + (n % l->c != 0);
    case SPARTA_MAP_MOD: return l->c;
    default: return n;
    }
}

static sparta_status crd_fits(sparta_ctx *cx, const sparta_format *f, int i, int64_t extent)
{
    const sparta_level *l = &f->level[i];
    if (!sparta_level_table[l->kind].has_crd || extent - 1 <= sparta_width_max(l->crd)) return SPARTA_OK;
    char map[48];
    sparta_level_print_map(f, l, map);
    return sparta_fail(
        cx, SPARTA_E_USAGE, "format: crd=%s holds coordinates below %lld, %s %s has %lld; use crd=%s",
        sparta_dtype_name(l->crd), (long long)sparta_width_max(l->crd) + 1,
        l->map == SPARTA_MAP_ALL ? "dimension" : "level", map, (long long)extent, width_for(extent - 1));
}

sparta_status sparta_format_check(sparta_ctx *cx, const sparta_format *f, int rank, const int64_t *dim)
{
    SPARTA_TRY(sparta_format_structure(cx, f, NULL, NULL));
    if (rank != f->rank)
        return sparta_fail(cx, SPARTA_E_USAGE, "format: %d dimension%s but the tensor has %d; %s", f->rank,
                           f->rank == 1 ? "" : "s", rank,
                           rank > f->rank ? "add a view, e.g. .reshape(O, C*H*W)"
                                          : "use a format with as many");
    int64_t all = 1;
    bool fits = true;
    for (int d = 0; d < rank; d++)
        if (dim[d] < 0)
            return sparta_fail(cx, SPARTA_E_SHAPE, "format: dimension %s is %lld", f->dim_name[d],
                               (long long)dim[d]);
    for (int i = 0; i < f->n; i++) {
        int64_t extent = sparta_level_extent(&f->level[i], dim);
        SPARTA_TRY(crd_fits(cx, f, i, extent));
        fits = fits && sparta_int_mul(all, extent, &all);
    }
    if (!fits)
        return sparta_fail(
            cx, SPARTA_E_LIMIT,
            "format: the padded tensor has more elements than 64 bits count; use smaller blocks");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ text */

/* ", crd=u16" when all levels that have one agree, else ", crd[2]=u16" for each that is not i32. */
static void print_widths(const sparta_format *f, bool crd, sparta_text *out)
{
    const char *key = crd ? "crd" : "pos";
    sparta_dtype width[SPARTA_LEVELS];
    int at[SPARTA_LEVELS], n = 0;
    bool same = true;
    for (int i = 0; i < f->n; i++) {
        const sparta_level *l = &f->level[i];
        if (crd ? !sparta_level_table[l->kind].has_crd : !sparta_level_table[l->kind].has_pos) continue;
        width[n] = crd ? l->crd : l->pos;
        same = same && width[n] == width[0];
        at[n++] = i;
    }
    for (int i = 0; i < n; i++) {
        if (width[i] == SPARTA_I32) continue;
        if (!same)
            sparta_text_printf(out, ", %s[%d]=%s", key, at[i], sparta_dtype_name(width[i]));
        else if (i == 0)
            sparta_text_printf(out, ", %s=%s", key, sparta_dtype_name(width[i]));
    }
}

void sparta_format_print(const sparta_format *f, sparta_text *out)
{
    for (int d = 0; d < f->rank; d++) sparta_text_printf(out, "%s%s", d ? "," : "(", f->dim_name[d]);
    for (int i = 0; i < f->n; i++) {
        char map[48];
        sparta_level_print_map(f, &f->level[i], map);
        sparta_text_printf(out, "%s%s:%s", i ? ", " : ")->(", map, sparta_level_table[f->level[i].kind].name);
    }
    sparta_text_printf(out, ")");
    print_widths(f, false, out);
    print_widths(f, true, out);
}

bool sparta_format_equal(const sparta_format *a, const sparta_format *b)
{
    if (a->rank != b->rank || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const sparta_level *x = &a->level[i], *y = &b->level[i];
        const sparta_level_info *info = &sparta_level_table[x->kind];
        if (x->kind != y->kind || x->dim != y->dim || x->map != y->map) return false;
        if (x->map != SPARTA_MAP_ALL && x->c != y->c) return false;
        if (info->has_pos && x->pos != y->pos) return false;
        if (info->has_crd && x->crd != y->crd) return false;
    }
    return true;
}
