/* The text of an attribute. Print is canonical for what has the smallest extents; parse makes facts of the text and has them checked, so it
 * takes any way of saying the same.
 *
 *     tesa DIMS; has HAS; constant TYPE ALONG MASK values V ..; precision PRECISION
 *
 *     DIMS       [batch,128,768]
 *     HAS        all   none   ALONG MASK
 *     ALONG      along 0 2     the axes along which it differs; nothing when there are none
 *     MASK       mask 2x8 rle 4 4 3 1 4     (text.c), of the first axis by the others, those not named counting 1
 *     V          a number for each element of the mask
 *     PRECISION  f32   or   along 1 f32 i8 ..     one for each index of these axes, row-major
 *
 * The part that says `constant` is there when something is one.
 */
#include "tesa/attribute.h"
#include "tesa/words.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ print */
static void print_along(int rank, const int64_t *extent, sp_text *out)
{
    bool any = false;
    for (int i = 0; i < rank; i++)
        if (extent[i] != 1) {
            sp_text_printf(out, any ? " %d" : "along %d", i);
            any = true;
        }
    if (any) sp_text_put(out, " ", 1);
}

/* A bool tensor, row-major, as the mask of the first axis by the others. */
static sparta_status print_mask(const sparta_tensor *a, sp_text *out)
{
    const int64_t n = sparta_tensor_elements(a), rows = a->rank > 1 ? a->dim[0] : 1;
    sp_mask m;
    print_along(a->rank, a->dim, out);
    SP_TRY(sp_mask_create(out->cx, rows, n / rows, &m));
    for (int64_t i = 0; i < n; i++)
        if (((const uint8_t *)a->data)[i]) sp_mask_set(&m, i / m.cols, i % m.cols);
    sp_mask_print(&m, out);
    sp_mask_free(out->cx, &m);
    return out->status;
}

static void print_value(const sparta_tensor *value, int64_t at, sp_text *out)
{
    if (sp_dtype_is_float(value->dtype))
        sp_text_printf(out, " %.*g", value->dtype == SPARTA_F64 ? 17 : 9,
                       sp_element_get(value->dtype, value->data, at));
    else if (value->dtype == SPARTA_U64)
        sp_text_printf(out, " %llu", (unsigned long long)((const uint64_t *)value->data)[at]);
    else
        sp_text_printf(out, " %lld", (long long)sp_element_get_int(value->dtype, value->data, at));
}

/* The mask is as fine as the values: each of its elements has one. */
static sparta_status print_constants(sp_arena *arena, const sparta_tesa_facts *f, sp_text *out)
{
    const int rank = f->known.rank;
    int64_t extent[SPARTA_RANK];
    const sparta_tensor *const from[] = {&f->known, &f->values};
    sparta_tensor wide[2], all;
    for (int i = 0; i < rank; i++) extent[i] = SP_MAX(f->known.dim[i], f->values.dim[i]);
    SP_TRY(sp_tensor_alloc_in(arena, SPARTA_BOOL, rank, extent, &all));
    for (int i = 0; i < 2; i++) SP_TRY(sp_tensor_broadcast(out->cx, from[i], rank, extent, &wide[i]));
    SP_TRY(sp_tensor_copy(out->cx, &wide[0], &all));
    sp_text_printf(out, "; constant %s ", sparta_dtype_name(f->values.dtype));
    SP_TRY(print_mask(&all, out));
    sp_text_printf(out, " values");
    const sparta_tensor *const walked[] = {&wide[0], &wide[1]};
    for (sp_cursor w = sp_cursor_begin(rank, extent, 2, walked); w.more && !out->status; sp_cursor_next(&w))
        if (((const uint8_t *)f->known.data)[w.at[0]]) print_value(&f->values, w.at[1], out);
    return out->status;
}

static void print_precision(const sp_tesa *t, sp_text *out)
{
    const int64_t n = t->precision.at ? sp_cells_held(&t->precision, t->dims.rank) : 0;
    sp_text_printf(out, "; precision ");
    if (n > 1) print_along(t->dims.rank, t->precision.extent, out);
    for (int64_t i = 0; i < SP_MAX(n, 1) && !out->status; i++)
        sp_text_printf(out, "%s%s", i ? " " : "",
                       sp_precision_name(n ? (sp_precision)t->precision.at[i] : SP_PRECISION_ANY));
}

static sparta_status print_facts(sp_arena *arena, const sp_tesa *t, sp_text *out)
{
    sparta_tesa_facts f;
    SP_TRY(sp_tesa_facts(arena, t, &f));
    sp_text_printf(out, "tesa %s; has ", f.dims);
    if (!f.has.data || sparta_tensor_elements(&f.has) == 1)
        sp_text_printf(out, f.has.data ? "none" : "all");
    else
        SP_TRY(print_mask(&f.has, out));
    if (f.known.data) SP_TRY(print_constants(arena, &f, out));
    print_precision(t, out);
    return out->status;
}

sparta_status sp_tesa_print(const sp_tesa *t, sp_text *out)
{
    sp_arena *arena = sp_arena_create(out->cx);
    SP_NEED(out->cx, arena);
    sparta_status status = print_facts(arena, t, out);
    sp_arena_free(arena);
    return status;
}

/* ------------------------------------------------------------------ words */
typedef struct reader {
    sparta_ctx *cx;
    sp_arena *arena;
    const char *start, *at;
    int rank;
    int64_t size[SPARTA_RANK]; /* -1: no number */
    sparta_tesa_facts f;
} reader;

static sparta_status wrong(const reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT,
                   "tesa text, character %lld: %s; e.g. tesa [batch,768]; has all; precision f32",
                   (long long)(r->at - r->start) + 1, what);
}

static void skip_space(reader *r)
{
    while (*r->at && strchr(" \n\t\r", *r->at)) r->at++;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* A whole word, or a sign of one character. */
static bool take(reader *r, const char *word)
{
    const size_t n = strlen(word);
    skip_space(r);
    if (strncmp(r->at, word, n) || (in_word(word[n - 1]) && in_word(r->at[n]))) return false;
    r->at += n;
    return true;
}

static size_t word_length(reader *r)
{
    size_t n = 0;
    skip_space(r);
    while (in_word(r->at[n])) n++;
    return n;
}

/* Of the text up to one of these characters, a copy. */
static sparta_status take_until(reader *r, const char *ends, char **out)
{
    skip_space(r);
    const size_t n = strcspn(r->at, ends);
    *out = sp_arena_bytes(r->arena, r->at, n);
    SP_NEED(r->cx, *out);
    r->at += n;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ parse */
static sparta_status read_dims(reader *r)
{
    char *text;
    sp_dims d;
    if (!take(r, "tesa")) return wrong(r, "it begins with 'tesa ['");
    const char *before = r->at;
    SP_TRY(take_until(r, ";", &text));
    for (size_t n = strlen(text); n && isspace((unsigned char)text[n - 1]); n--) text[n - 1] = 0;
    if (sp_dims_parse(r->arena, text, &d))
        return sp_fail_in(r->cx, "tesa text, character %lld", (long long)(before - r->start) + 1);
    r->f.dims = text;
    r->rank = d.rank;
    for (int i = 0; i < d.rank; i++)
        if (!sp_expr_is_const(d.dim[i], &r->size[i])) r->size[i] = -1;
    return SPARTA_OK;
}

/* The axes that are named have their size, the others 1. */
static sparta_status read_along(reader *r, int64_t *extent)
{
    for (int i = 0; i < SPARTA_RANK; i++) extent[i] = 1;
    if (!take(r, "along")) return SPARTA_OK;
    int axis = -1;
    for (skip_space(r); isdigit((unsigned char)*r->at); skip_space(r)) {
        const int next = *r->at - '0';
        if (next <= axis || next >= r->rank || in_word(r->at[1]))
            return wrong(r, "axes ascend and are less than the number of dims");
        if (r->size[next] < 0) return wrong(r, "nothing can differ along an axis whose size is no number");
        r->at++;
        extent[axis = next] = r->size[next];
    }
    return axis < 0 ? wrong(r, "an axis is missing after 'along'") : SPARTA_OK;
}

static sparta_status read_mask_text(reader *r, sp_mask *out)
{
    char *text;
    const char *before = r->at;
    SP_TRY(take_until(r, ";v", &text)); /* 'values' */
    if (sp_mask_parse(r->cx, text, out))
        return sp_fail_in(r->cx, "tesa text, character %lld", (long long)(before - r->start) + 1);
    return SPARTA_OK;
}

/* ALONG MASK, as bools. */
static sparta_status read_mask(reader *r, sparta_tensor *out)
{
    int64_t extent[SPARTA_RANK], cols = 1;
    sp_mask m;
    SP_TRY(read_along(r, extent));
    SP_TRY(read_mask_text(r, &m));
    bool fits = m.rows == (r->rank > 1 ? extent[0] : 1);
    for (int i = r->rank > 1; i < r->rank; i++) fits = fits && sp_int_mul(cols, extent[i], &cols);
    sparta_status status = fits && m.cols == cols
                               ? sp_tensor_alloc_in(r->arena, SPARTA_BOOL, r->rank, extent, out)
                               : wrong(r, "the mask is not of the sizes of these axes");
    for (int64_t i = 0; !status && m.cols && i < m.rows; i++) /* no column: any number of rows is nothing */
        for (int64_t k = 0; k < m.cols; k++) ((uint8_t *)out->data)[i * m.cols + k] = sp_mask_get(&m, i, k);
    sp_mask_free(r->cx, &m);
    return status;
}

static sparta_status read_has(reader *r)
{
    static uint8_t nothing;
    static const int64_t one[SPARTA_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (!take(r, ";") || !take(r, "has")) return wrong(r, "'; has' is missing");
    if (take(r, "all")) return SPARTA_OK;
    if (!take(r, "none")) return read_mask(r, &r->f.has);
    r->f.has = sparta_tensor_view(SPARTA_BOOL, r->rank, one, &nothing);
    return SPARTA_OK;
}

/* Does the type hold the number that is written? */
static bool set_value(const sparta_tensor *value, int64_t at, const char *word)
{
    double x;
    int64_t whole;
    if (value->dtype == SPARTA_U64 && isdigit((unsigned char)*word)) {
        char *end;
        errno = 0;
        ((uint64_t *)value->data)[at] = strtoull(word, &end, 10);
        return !*end && !errno;
    }
    if (!sp_dtype_is_float(value->dtype)) {
        if (!sp_parse_int(word, &whole) || (whole < 0 && !sp_dtype_is_signed(value->dtype))) return false;
        sp_element_set_int(value->dtype, value->data, at, whole);
        return sp_element_get_int(value->dtype, value->data, at) == whole;
    }
    if (!sp_parse_double(word, &x) || !isfinite(x)) return false;
    sp_element_set(value->dtype, value->data, at, x);
    return isfinite(sp_element_get(value->dtype, value->data, at));
}

static sparta_status read_value(reader *r, int64_t at)
{
    char *word;
    skip_space(r);
    const char *before = r->at;
    SP_TRY(take_until(r, " \n\t\r;", &word));
    if (set_value(&r->f.values, at, word)) return SPARTA_OK;
    r->at = before;
    return wrong(r, *word ? "this is no number of that type" : "a value is missing here");
}

static sparta_status read_constants(reader *r)
{
    char *name;
    sparta_dtype dtype;
    SP_TRY(take_until(r, " \n\t\r;", &name));
    if (!sp_dtype_parse(name, &dtype)) return wrong(r, "a type is missing after 'constant'");
    SP_TRY(read_mask(r, &r->f.known));
    if (!take(r, "values")) return wrong(r, "'values' is missing after the mask");
    SP_TRY(sp_tensor_alloc_in(r->arena, dtype, r->rank, r->f.known.dim, &r->f.values));
    const int64_t n = sparta_tensor_elements(&r->f.known);
    for (int64_t i = 0; i < n; i++)
        if (((const uint8_t *)r->f.known.data)[i]) SP_TRY(read_value(r, i));
    return SPARTA_OK;
}

static sparta_status read_precision_name(reader *r, sp_precision *out)
{
    const size_t n = word_length(r);
    if (!sp_precision_parse(r->at, n, out)) return wrong(r, "a precision is missing, such as f32 or i8");
    r->at += n;
    return SPARTA_OK;
}

/* All names there are, and for each element its place among them. */
static sparta_status read_precision(reader *r)
{
    int64_t extent[SPARTA_RANK];
    sp_precision p;
    const char *names = sp_precision_name((sp_precision)0);
    if (!take(r, ";") || !take(r, "precision")) return wrong(r, "'; precision' is missing");
    SP_TRY(read_along(r, extent));
    for (int i = 1; i < SP_PRECISIONS && names; i++)
        names = sp_arena_printf(r->arena, "%s %s", names, sp_precision_name((sp_precision)i));
    SP_NEED(r->cx, names);
    r->f.precision = names;
    const sparta_tensor shape = sparta_tensor_view(SPARTA_U8, r->rank, extent, NULL);
    const int64_t n = sparta_tensor_elements(&shape);
    if (n < 1 || n > (int64_t)strlen(r->at))
        return wrong(r, "there are not as many precisions as indices of these axes");
    SP_TRY(sp_tensor_alloc_in(r->arena, SPARTA_U8, r->rank, extent, &r->f.which));
    for (int64_t i = 0; i < n; i++) {
        SP_TRY(read_precision_name(r, &p));
        ((uint8_t *)r->f.which.data)[i] = (uint8_t)p;
    }
    return SPARTA_OK;
}

static sparta_status read_all(reader *r)
{
    SP_TRY(read_dims(r));
    SP_TRY(read_has(r));
    const char *before = r->at;
    if (take(r, ";") && take(r, "constant"))
        SP_TRY(read_constants(r));
    else
        r->at = before;
    SP_TRY(read_precision(r));
    skip_space(r);
    return *r->at ? wrong(r, "there is something after the end") : SPARTA_OK;
}

sparta_status sp_tesa_parse(sp_arena *arena, const char *text, sp_tesa *out)
{
    sparta_ctx *cx = sp_arena_ctx(arena);
    reader r = {.cx = cx, .arena = sp_arena_create(cx), .start = text, .at = text, .f = {.size = sizeof r.f}};
    SP_NEED(cx, r.arena);
    sparta_status status = read_all(&r);
    if (!status) status = sp_tesa_of_facts(arena, &r.f, out);
    sp_arena_free(r.arena);
    return status;
}
