/* What a format must be: a map that can be inverted, and widths that hold the coordinates of a shape. */
#include "format/text.h"
#include <stdio.h>
#include <string.h>

const sp_level_info sp_level_table[SP_LEVEL_KINDS] = {
#define SP_LEVEL(id, name, pos, crd, arguments, properties, begin, end, coordinate)                          \
    {name, pos, SP_CRD_##crd, arguments, properties, &sp_level_ops_##id},
#include "format/levels.def"
#undef SP_LEVEL
};

/* ------------------------------------------------------------------ widths */

int64_t sp_width_max(sparta_dtype width)
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

bool sp_width_valid(sparta_dtype width)
{
    return sp_width_max(width) >= 0;
}

int64_t sp_crd_max(const sp_level *l)
{
    return l->crd_bits ? (1 << l->crd_bits) - 1 : sp_width_max(l->crd);
}

const char *sp_crd_name(const sp_level *l)
{
    return l->crd_bits == 2 ? "u2" : l->crd_bits == 4 ? "u4" : sparta_dtype_name(l->crd);
}

/* The narrowest unsigned width that holds `max`. */
static const char *width_for(int64_t max)
{
    return max <= UINT8_MAX ? "u8" : max <= UINT16_MAX ? "u16" : max <= UINT32_MAX ? "u32" : "u64";
}

sparta_status sp_level_pos_fits(sparta_ctx *cx, const sp_level *l, int number, int64_t size)
{
    if (size <= sp_width_max(l->pos)) return SPARTA_OK;
    return sp_fail(
        cx, SPARTA_E_USAGE, "format: pos=%s holds positions up to %lld, level %d has %lld; use pos=%s",
        sparta_dtype_name(l->pos), (long long)sp_width_max(l->pos), number, (long long)size, width_for(size));
}

/* ------------------------------------------------------------------ structure */

sparta_status sp_format_wrong(sparta_ctx *cx, const sp_text_place *at, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!at) return sp_fail(cx, SPARTA_E_USAGE, "format: %s", message);
    return sp_fail(cx, SPARTA_E_USAGE, "format:%d:%d: %s", at->line, at->column, message);
}

static const sp_text_place *place(const sp_text_place *of, int i)
{
    return of ? &of[i] : NULL;
}

void sp_level_print_map(const sp_format *f, const sp_level *l, char out[48])
{
    const char *name = f->dim_name[l->dim];
    switch (l->map) {
    case SP_MAP_DIV:
    case SP_MAP_MOD:
        snprintf(out, 48, "%.15s%c%lld", name, l->map == SP_MAP_DIV ? '/' : '%', (long long)l->c);
        break;
    case SP_MAP_NEST:
        snprintf(out, 48, "%.15s%%%lld/%lld", name, (long long)l->c, (long long)l->inner);
        break;
    case SP_MAP_SUB:
    case SP_MAP_ADD:
        snprintf(out, 48, "%.15s%c%.15s", name, l->map == SP_MAP_SUB ? '-' : '+', f->dim_name[l->other]);
        break;
    default: snprintf(out, 48, "%.15s", name);
    }
}

/* ------------------------------------------------------------------ one level */

/* Somebody may have filled the struct wrongly: nothing of it is used before this. */
static sparta_status level_sane(sparta_ctx *cx, const sp_format *f, int i)
{
    const sp_level *l = &f->level[i];
    if ((unsigned)l->kind >= SP_LEVEL_KINDS || l->dim < 0 || l->dim >= f->rank ||
        (!sp_level_is_blocked(l) && !sp_level_is_diagonal(l) && l->map != SP_MAP_ALL) ||
        (sp_level_is_diagonal(l) && (l->other < 0 || l->other >= f->rank)) ||
        l->properties & ~sp_level_table[l->kind].properties)
        return sp_format_wrong(cx, NULL, "level %d is no level", i);
    if (sp_level_is_blocked(l) && (l->c < 1 || l->c > INT32_MAX))
        return sp_format_wrong(cx, NULL, "level %d: block size %lld must be between 1 and %d", i,
                               (long long)l->c, INT32_MAX);
    if (l->map == SP_MAP_NEST && (l->inner < 1 || l->inner > INT32_MAX))
        return sp_format_wrong(cx, NULL, "level %d: block size %lld must be between 1 and %d", i,
                               (long long)l->inner, INT32_MAX);
    if (l->w < 0 || l->w > INT32_MAX || l->m < 0 || l->m > INT32_MAX)
        return sp_format_wrong(cx, NULL, "level %d: [%lld,%lld] must be below 2147483648", i, (long long)l->w,
                               (long long)l->m);
    if (!sp_width_valid(l->pos) || !sp_width_valid(l->crd))
        return sp_format_wrong(cx, NULL, "level %d: widths are u8 u16 u32 u64 i32 i64", i);
    if (l->crd_bits &&
        (l->kind != SP_LEVEL_STRUCTURED || l->crd != SPARTA_U8 || (l->crd_bits != 2 && l->crd_bits != 4)))
        return sp_format_wrong(cx, NULL, "level %d: widths u2 and u4 are for structured levels", i);
    return SPARTA_OK;
}

static sparta_status structured_fits(sparta_ctx *cx, const sp_format *f, int i, const sp_text_place *at)
{
    const sp_level *l = &f->level[i];
    char map[48];
    sp_level_print_map(f, l, map);
    if (l->w < 1 || l->w > l->m)
        return sp_format_wrong(cx, at, "structured[%lld,%lld]: n must be <= m", (long long)l->w,
                               (long long)l->m);
    if (l->map != SP_MAP_MOD || l->c != l->m)
        return sp_format_wrong(cx, at, "structured[%lld,%lld] needs level expression %s%%%lld, got %s",
                               (long long)l->w, (long long)l->m, f->dim_name[l->dim], (long long)l->m, map);
    return SPARTA_OK;
}

static sparta_status diagonal_fits(sparta_ctx *cx, const sp_format *f, int i, const sp_text_place *at)
{
    const sp_level *l = &f->level[i], *next = &f->level[i + 1];
    const char *a = f->dim_name[l->dim], *b = f->dim_name[l->other];
    char map[48];
    sp_level_print_map(f, l, map);
    if (l->dim == l->other) return sp_format_wrong(cx, at, "%s: a diagonal needs two dimensions", map);
    if (l->kind != SP_LEVEL_COMPRESSED && l->kind != SP_LEVEL_DENSE)
        return sp_format_wrong(cx, at, "%s must be 'compressed' (or 'dense'), not '%s'", map,
                               sp_level_table[l->kind].name);
    if (i + 2 != f->n || next->kind != SP_LEVEL_RANGE || next->map != SP_MAP_ALL ||
        (next->dim != l->dim && next->dim != l->other))
        return sp_format_wrong(cx, at,
                               "'%s : %s' must be followed by '%s : range' or '%s : range' as the last level",
                               map, sp_level_table[l->kind].name, b, a);
    if (l->map == SP_MAP_SUB && sp_level_has_crd(l) && l->crd != SPARTA_I32 && l->crd != SPARTA_I64)
        return sp_format_wrong(cx, at, "%s: offsets have a sign, crd=%s has none; use crd=i32 or crd=i64",
                               map, sp_crd_name(l));
    return SPARTA_OK;
}

static sparta_status shared_fits(sparta_ctx *cx, const sp_format *f, int i, const sp_text_place *at)
{
    const sp_level *l = &f->level[i], *above = &f->level[i - 1];
    bool head = above->kind == SP_LEVEL_COMPRESSED || above->kind == SP_LEVEL_LOOSE;
    if (l->properties & SP_PROP_SOA) return sp_format_wrong(cx, at, "level %d is soa and aos; choose one", i);
    if (sp_level_is_diagonal(above) || !(head || above->properties & SP_PROP_AOS))
        return sp_format_wrong(
            cx, at, "level %d is aos: the level above must be compressed, loose or another aos singleton", i);
    if (above->crd != l->crd)
        return sp_format_wrong(
            cx, at, "level %d is aos: its crd=%s and the crd=%s above share one array; make them equal", i,
            sp_crd_name(l), sp_crd_name(above));
    return SPARTA_OK;
}

/* What a kind asks of its place among the others. */
static sparta_status kind_fits(sparta_ctx *cx, const sp_format *f, int i, const sp_text_place *at)
{
    const sp_level *l = &f->level[i];
    if (sp_level_is_diagonal(l)) return diagonal_fits(cx, f, i, at);
    if (l->kind == SP_LEVEL_SINGLETON && i == 0)
        return sp_format_wrong(cx, at,
                               "level 0 is 'singleton': it has no parent to take its position from; use "
                               "'compressed(nonunique)' first");
    if (l->properties & SP_PROP_AOS) SP_TRY(shared_fits(cx, f, i, at));
    if (l->kind == SP_LEVEL_STRUCTURED) return structured_fits(cx, f, i, at);
    if (l->kind == SP_LEVEL_RANGE && (i == 0 || i + 1 != f->n || !sp_level_is_diagonal(&f->level[i - 1])))
        return sp_format_wrong(
            cx, at,
            "'%s : range' must be the last level and follow a diagonal such as 'j-i : compressed'; did "
            "you mean '%s : dense'?",
            f->dim_name[l->dim], f->dim_name[l->dim]);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the map */

/* A part of a block alone: name what it needs. */
static sparta_status half(sparta_ctx *cx, const sp_format *f, const sp_level *l, const sp_text_place *at)
{
    char has[48], missing[48];
    sp_level other = *l;
    other.map = l->map == SP_MAP_MOD ? SP_MAP_DIV : SP_MAP_MOD;
    if (l->map == SP_MAP_NEST) other.c = l->inner;
    sp_level_print_map(f, l, has);
    sp_level_print_map(f, &other, missing);
    return sp_format_wrong(
        cx, at,
        "map is not invertible: %s appears as %s but %s is missing; add '%s : dense' or remove the block",
        f->dim_name[l->dim], has, missing, missing);
}

static sparta_status again(sparta_ctx *cx, const sp_format *f, int dim, int first, int second,
                           const sp_text_place *at)
{
    char a[48], b[48];
    const char *name = f->dim_name[dim];
    sp_level_print_map(f, &f->level[first], a);
    sp_level_print_map(f, &f->level[second], b);
    return sp_format_wrong(cx, at,
                           "dimension %s appears as %s and again as %s; write it as %s, or as %s/c and %s%%c",
                           name, a, b, name, name, name);
}

static bool uses(const sp_level *l, int dim)
{
    return l->dim == dim || (sp_level_is_diagonal(l) && l->other == dim);
}

/* i/32, i%32/4, i%4: each begins where the last one stopped. */
static sparta_status chain_fits(sparta_ctx *cx, const sp_format *f, const int *found, int n,
                                const sp_text_place *level)
{
    int last = -1, used = 0;
    const char *name = f->dim_name[f->level[found[0]].dim];
    for (int k = 0; k < n; k++) {
        const sp_level *l = &f->level[found[k]];
        if (l->map == SP_MAP_NEST && (l->c % l->inner || l->c == l->inner))
            return sp_format_wrong(
                cx, place(level, found[k]),
                "%s%%%lld/%lld: the inner block must be smaller than the outer one and divide it", name,
                (long long)l->c, (long long)l->inner);
        for (int j = 0; j < k; j++) {
            const sp_level *o = &f->level[found[j]];
            if (o->map == l->map && (l->map != SP_MAP_NEST || o->c == l->c))
                return again(cx, f, l->dim, found[j], found[k], place(level, found[k]));
        }
        if (l->map == SP_MAP_DIV) last = found[k], used = 1;
    }
    if (last < 0) return half(cx, f, &f->level[found[0]], place(level, found[0]));
    while (f->level[last].map != SP_MAP_MOD) {
        const sp_level *l = &f->level[last];
        int64_t rest = l->map == SP_MAP_DIV ? l->c : l->inner;
        int next = -1, other = -1;
        for (int k = 0; k < n; k++) {
            if (f->level[found[k]].map == SP_MAP_DIV || found[k] == last) continue;
            if (f->level[found[k]].c == rest && used < n) next = found[k];
            if (f->level[found[k]].map == SP_MAP_MOD) other = found[k];
        }
        if (next < 0 && other >= 0 && n == 2)
            return sp_format_wrong(
                cx, place(level, found[1]),
                "%s/%lld and %s%%%lld disagree: block sizes of dimension %s must match (%lld != %lld)", name,
                (long long)l->c, name, (long long)f->level[other].c, name, (long long)l->c,
                (long long)f->level[other].c);
        if (next < 0) return half(cx, f, l, place(level, last));
        last = next;
        used++;
    }
    return used == n ? SPARTA_OK
                     : again(cx, f, f->level[last].dim, found[0], found[n - 1], place(level, found[n - 1]));
}

/* A dimension is stored by i, by i/c and i%c (with i%c/d between), or by a diagonal and a range. */
static sparta_status dim_sane(sparta_ctx *cx, const sp_format *f, int dim, const sp_text_place *level,
                              const sp_text_place *dims)
{
    int found[SP_LEVELS], n = 0, blocks = 0;
    const char *name = f->dim_name[dim];
    for (int i = 0; i < f->n; i++) {
        const sp_level *l = &f->level[i];
        if (!uses(l, dim) || l->kind == SP_LEVEL_RANGE) continue; /* the diagonal above stands for both */
        blocks += sp_level_is_blocked(l);
        found[n++] = i;
    }
    if (!n)
        return sp_format_wrong(cx, place(dims, dim),
                               "map is not invertible: no level stores dimension %s; add '%s : dense'", name,
                               name);
    if (n == 1) return blocks ? half(cx, f, &f->level[found[0]], place(level, found[0])) : SPARTA_OK;
    if (blocks < n) {
        int second = 1;
        if (sp_level_is_blocked(&f->level[found[0]]))
            while (sp_level_is_blocked(&f->level[found[second]])) second++;
        return again(cx, f, dim, found[0], found[second], place(level, found[second]));
    }
    return chain_fits(cx, f, found, n, level);
}

/* Sums and opaque formats have no levels of their own. */
static sparta_status without_levels(sparta_ctx *cx, const sp_format *f)
{
    int row = 0;
    if (f->n || (f->sum && f->opaque))
        return sp_format_wrong(cx, NULL, "it is more than one of levels, a sum and opaque");
    if (f->sum) return sp_sum_structure(cx, f, NULL);
    while (row < sp_opaque_count() && sp_opaque_row(row) != f->opaque) row++;
    if (row == sp_opaque_count() || f->rank != 2)
        return sp_format_wrong(cx, NULL, "no such opaque format of %d dimensions", f->rank);
    for (int i = 0; i < f->opaque->arguments; i++)
        if (f->argument[i] < 0 || f->argument[i] > f->opaque->most ||
            (i && f->argument[i] && !f->argument[i - 1]))
            return sp_format_wrong(cx, NULL, "%s: argument %d is %lld; it must be between 1 and %d",
                                   f->opaque->name, i + 1, (long long)f->argument[i], f->opaque->most);
    return SPARTA_OK;
}

sparta_status sp_format_structure(sparta_ctx *cx, const sp_format *f, const sp_text_place *level,
                                  const sp_text_place *dim)
{
    if (f->sum || f->opaque) return without_levels(cx, f);
    if (f->rank < 1 || f->rank > SPARTA_RANK || f->n < 1 || f->n > SP_LEVELS)
        return sp_format_wrong(cx, NULL, "%d dimensions and %d levels; there may be 1 to %d and 1 to %d",
                               f->rank, f->n, SPARTA_RANK, SP_LEVELS);
    for (int i = 0; i < f->n; i++) SP_TRY(level_sane(cx, f, i));
    for (int i = 0; i < f->n; i++) SP_TRY(kind_fits(cx, f, i, place(level, i)));
    for (int d = 0; d < f->rank; d++) SP_TRY(dim_sane(cx, f, d, level, dim));
    return SPARTA_OK;
}

int sp_level_shares(const sp_format *f, int i)
{
    int n = 1;
    while (i + n < f->n && f->level[i + n].properties & SP_PROP_AOS) n++;
    return n;
}

/* ------------------------------------------------------------------ shapes */

int64_t sp_level_extent(const sp_level *l, const int64_t *dim)
{
    int64_t n = dim[l->dim], all;
    switch (l->map) {
    case SP_MAP_DIV: return n / l->c + (n % l->c != 0);
    case SP_MAP_MOD: return l->c;
    case SP_MAP_NEST: return l->c / l->inner;
    case SP_MAP_SUB:
    case SP_MAP_ADD:
        if (!n || !dim[l->other]) return 0;
        return sp_int_add(n - 1, dim[l->other], &all) ? all : INT64_MAX; /* too large for the range below */
    default: return n;
    }
}

int64_t sp_level_origin(const sp_level *l, const int64_t *dim)
{
    return l->map == SP_MAP_SUB && dim[l->dim] && dim[l->other] ? 1 - dim[l->other] : 0;
}

static sparta_status crd_fits(sparta_ctx *cx, const sp_format *f, int i, int64_t extent, const int64_t *dim)
{
    const sp_level *l = &f->level[i];
    if (l->map == SP_MAP_SUB && extent) extent = SP_MAX(dim[l->dim], dim[l->other]); /* either sign */
    if (!sp_level_has_crd(l) || extent - 1 <= sp_crd_max(l)) return SPARTA_OK;
    char map[48];
    sp_level_print_map(f, l, map);
    return sp_fail(cx, SPARTA_E_USAGE,
                   "format: crd=%s holds coordinates below %lld, %s %s has %lld; use crd=%s", sp_crd_name(l),
                   (long long)sp_crd_max(l) + 1, l->map == SP_MAP_ALL ? "dimension" : "level", map,
                   (long long)extent, l->map == SP_MAP_SUB ? "i64" : width_for(extent - 1));
}

static sparta_status rank_fits(sparta_ctx *cx, const sp_format *f, int rank)
{
    if (rank == f->rank) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE, "format: %d dimension%s but the tensor has %d; %s", f->rank,
                   f->rank == 1 ? "" : "s", rank,
                   rank > f->rank ? "add a view, e.g. .reshape(O, C*H*W)" : "use a format with as many");
}

static sparta_status levels_fit(sparta_ctx *cx, const sp_format *f, const int64_t *dim)
{
    int64_t all = 1;
    bool fits = true;
    for (int i = 0; i < f->n; i++) {
        int64_t extent = sp_level_extent(&f->level[i], dim);
        SP_TRY(crd_fits(cx, f, i, extent, dim));
        fits = fits && sp_int_mul(all, extent, &all);
    }
    if (!fits)
        return sp_fail(cx, SPARTA_E_LIMIT,
                       "format: the padded tensor has more elements than 64 bits count; use smaller blocks");
    return SPARTA_OK;
}

/* The parts of a sum are stored with the whole shape: each must fit it. */
static sparta_status parts_fit(sparta_ctx *cx, const sp_sum *sum, int rank, const int64_t *dim)
{
    for (int i = 0; i < sum->n; i++) {
        sparta_status status = sp_format_check(cx, &sum->part[i].format, rank, dim);
        char select[SP_SELECT_TEXT];
        if (status) return sp_fail_in(cx, "part '%s'", sp_select_show(&sum->part[i].select, select));
    }
    return SPARTA_OK;
}

sparta_status sp_format_check(sparta_ctx *cx, const sp_format *f, int rank, const int64_t *dim)
{
    SP_TRY(sp_format_structure(cx, f, NULL, NULL));
    SP_TRY(rank_fits(cx, f, rank));
    for (int d = 0; d < rank; d++)
        if (dim[d] < 0)
            return sp_fail(cx, SPARTA_E_SHAPE, "format: dimension %s is %lld", f->dim_name[d],
                           (long long)dim[d]);
    if (f->opaque) return f->opaque->check(cx, f, rank, dim);
    return f->sum ? parts_fit(cx, f->sum, rank, dim) : levels_fit(cx, f, dim);
}
