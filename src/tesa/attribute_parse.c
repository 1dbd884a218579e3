/* Reads the text of an attribute (attribute_text.c has the grammar), with arrays beside it when it is a file's. */
#include "tesa/attribute_inside.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct {
    sparta_ctx *cx;
    const char *start, *at;
    const sp_tesa_arrays *arrays; /* NULL: text only */
    sp_tesa t;
    sp_constants c;
} reader;

static sparta_status wrong(const reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT,
                   "tesa text, character %lld: %s; e.g. tesa [batch:1..64, 768]; has all; precision f32",
                   (long long)(r->at - r->start) + 1, what);
}

/* ------------------------------------------------------------------ words */

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
    size_t n = strlen(word);
    skip_space(r);
    if (strncmp(r->at, word, n) || (in_word(word[n - 1]) && in_word(r->at[n]))) return false;
    r->at += n;
    return true;
}

static bool take_all(reader *r, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (!take(r, words[i])) return false;
    return true;
}

static sparta_status take_number(reader *r, int64_t *out)
{
    int64_t x = 0;
    skip_space(r);
    if (*r->at < '0' || *r->at > '9') return wrong(r, "a number is missing here");
    for (; *r->at >= '0' && *r->at <= '9'; r->at++)
        if (!sp_int_mul(x, 10, &x) || !sp_int_add(x, *r->at - '0', &x))
            return wrong(r, "this number is too large");
    *out = x;
    return SPARTA_OK;
}

static size_t word_length(reader *r)
{
    size_t n = 0;
    skip_space(r);
    while (in_word(r->at[n])) n++;
    return n;
}

/* ------------------------------------------------------------------ dims, masks */

static sparta_status read_dim(reader *r, sp_tesa_dim *d)
{
    size_t n = word_length(r);
    if (isdigit((unsigned char)*r->at)) {
        SP_TRY(take_number(r, &d->max));
        d->min = d->max;
        return SPARTA_OK;
    }
    if (!n || n >= sizeof d->name)
        return wrong(r, "a size, or a symbol of at most 31 characters, is missing");
    memcpy(d->name, r->at, n);
    r->at += n;
    if (!take(r, ":")) return wrong(r, "a symbol has bounds, NAME:1..64");
    SP_TRY(take_number(r, &d->min));
    if (!take(r, "..")) return wrong(r, "bounds are 1..64");
    return take_number(r, &d->max);
}

static sparta_status read_dims(reader *r)
{
    if (!take(r, "tesa") || !take(r, "[")) return wrong(r, "it begins 'tesa ['");
    do {
        if (r->t.rank == SP_TESA_RANK) return wrong(r, "there are at most 6 dimensions");
        SP_TRY(read_dim(r, &r->t.dim[r->t.rank]));
        r->t.rank++;
    } while (take(r, ","));
    if (!take(r, "]")) return wrong(r, "']' is missing after the dimensions");
    return sp_tesa_check_dims(r->cx, r->t.rank, r->t.dim);
}

/* The axes that are named have their size, the others 1. */
static sparta_status read_along(reader *r, int64_t *extent)
{
    for (int i = 0; i < SP_TESA_RANK; i++) extent[i] = 1;
    if (!take(r, "along")) return SPARTA_OK;
    int64_t axis, before = -1;
    for (skip_space(r); isdigit((unsigned char)*r->at); skip_space(r)) {
        SP_TRY(take_number(r, &axis));
        if (axis >= r->t.rank || axis <= before)
            return wrong(r, "axes ascend and are less than the dimensions");
        if (r->t.dim[axis].name[0]) return wrong(r, "nothing can differ along a symbol");
        extent[axis] = r->t.dim[axis].max, before = axis;
    }
    return before < 0 ? wrong(r, "an axis is missing after 'along'") : SPARTA_OK;
}

/* Up to ';', the word `values`, or the end. */
static sparta_status read_mask_text(reader *r, sp_mask *out)
{
    skip_space(r);
    size_t n = strcspn(r->at, ";v");
    char *text = sp_alloc(r->cx, n + 1);
    SP_NEED(r->cx, text);
    memcpy(text, r->at, n);
    text[n] = 0;
    sparta_status status = sp_mask_parse(r->cx, text, out);
    sp_free(r->cx, text);
    if (status) return sp_fail_in(r->cx, "tesa text, character %lld", (long long)(r->at - r->start) + 1);
    r->at += n;
    return SPARTA_OK;
}

static sparta_status read_mask_array(reader *r, const sparta_tensor *a, const int64_t *extent, sp_mask *out)
{
    sp_span s;
    if (!a || a->dtype != SPARTA_U8 || a->rank != 2 || !sp_tensor_contiguous(a))
        return wrong(r, "the array of bits is missing, or not u8 (rows, bytes)");
    SP_TRY(sp_span_create(r->cx, r->t.rank, extent, &s));
    int64_t bytes = sp_ceil_div(s.mask.cols, 8);
    bool fits = a->dim[0] == s.mask.rows && a->dim[1] == bytes;
    for (int64_t i = 0; fits && s.mask.words && i < s.mask.rows; i++) {
        memcpy(sp_mask_row(&s.mask, i), (const uint8_t *)a->data + i * bytes, (size_t)bytes);
        fits =
            !(sp_mask_row(&s.mask, i)[s.mask.words - 1] & ~sp_low(s.mask.cols - (s.mask.words - 1) * WORD));
    }
    if (fits) {
        *out = s.mask;
        return SPARTA_OK;
    }
    sp_mask_free(r->cx, &s.mask);
    return wrong(r, "the array of bits has other sizes, or bits beyond them");
}

static sparta_status read_mask(reader *r, const sparta_tensor *array, const int64_t *extent, sp_mask *out)
{
    if (r->arrays && take(r, "array")) return read_mask_array(r, array, extent, out);
    return read_mask_text(r, out);
}

/* ------------------------------------------------------------------ has */

static sparta_status read_bound(reader *r)
{
    static const char *const rows[] = {"of", "each", "row"}, *const in_each[] = {"in", "each", "row"};
    SP_TRY(take_number(r, &r->t.most));
    r->t.has = SP_HAS_OF_ROW;
    if (take_all(r, rows, 3)) return SPARTA_OK;
    r->t.has = SP_HAS_BLOCKS;
    if (!take(r, "blocks") || !take(r, "of"))
        return wrong(r, "'of each row' or 'blocks of NxM in each row' is missing");
    SP_TRY(take_number(r, &r->t.block[0]));
    if (*r->at != 'x') return wrong(r, "a block is NxM");
    r->at++;
    SP_TRY(take_number(r, &r->t.block[1]));
    if (!take_all(r, in_each, 3)) return wrong(r, "'in each row' is missing");
    if (r->t.rank < 2 || !r->t.block[0] || !r->t.block[1])
        return wrong(r, "blocks have two sizes of at least 1, and need two dimensions");
    return SPARTA_OK;
}

static sparta_status read_has(reader *r)
{
    static const char *const at_most[] = {"at", "most"};
    if (!take(r, ";") || !take(r, "has")) return wrong(r, "'; has' is missing");
    if (take(r, "all")) return sp_set_all(r->cx, r->t.rank, true, &r->t.set);
    if (take(r, "none")) return sp_set_all(r->cx, r->t.rank, false, &r->t.set);
    if (take(r, "unknown")) {
        r->t.has = SP_HAS_UNKNOWN;
        return SPARTA_OK;
    }
    if (take_all(r, at_most, 2)) return read_bound(r);
    int64_t extent[SP_TESA_RANK];
    sp_mask m;
    SP_TRY(read_along(r, extent));
    SP_TRY(read_mask(r, r->arrays ? r->arrays->has : NULL, extent, &m));
    return sp_set_take(r->cx, r->t.rank, extent, &m, &r->t.set);
}

/* ------------------------------------------------------------------ constants */

/* #hex: the bits themselves. */
static sparta_status read_bits(reader *r, sparta_tensor *value, int64_t at)
{
    size_t size = sparta_dtype_size(value->dtype);
    uint64_t x = 0;
    if (sp_dtype_bits(value->dtype) < 8) return wrong(r, "a value of this type is written as a number");
    r->at++;
    for (size_t i = 0; i < 2 * size; i++, r->at++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = *r->at ? strchr(digits, *r->at) : NULL;
        if (!digit) return wrong(r, "a value of bits has two digits 0-9 a-f a byte");
        x = x << 4 | (uint64_t)(digit - digits);
    }
    memcpy((char *)value->data + (size_t)at * size, &x, size);
    return SPARTA_OK;
}

static sparta_status read_value(reader *r, sparta_tensor *value, int64_t at)
{
    char word[64];
    skip_space(r);
    if (*r->at == '#') return read_bits(r, value, at);
    size_t n = strcspn(r->at, " \n\t\r;");
    double x;
    int64_t whole;
    if (!n || n >= sizeof word) return wrong(r, "a value is missing here");
    memcpy(word, r->at, n);
    word[n] = 0;
    if (sp_dtype_is_float(value->dtype)) {
        if (!sp_parse_double(word, &x) || !isfinite(x)) return wrong(r, "this is no finite number");
        sp_element_set(value->dtype, value->data, at, x);
        if (!isfinite(sp_element_get(value->dtype, value->data, at)))
            return wrong(r, "this number is too large for its type");
    } else {
        if (!sp_parse_int(word, &whole)) return wrong(r, "this is no integer");
        sp_element_set_int(value->dtype, value->data, at, whole);
        bool negative = whole < 0 && !sp_dtype_is_signed(value->dtype);
        if (negative || sp_element_get_int(value->dtype, value->data, at) != whole)
            return wrong(r, "this number does not fit its type");
    }
    r->at += n;
    return SPARTA_OK;
}

static sparta_status read_values(reader *r, sparta_dtype dtype, int64_t n)
{
    const sparta_tensor *a = r->arrays ? r->arrays->values : NULL;
    bool text = take(r, "values");
    sparta_tensor narrow = a ? *a : (sparta_tensor){0}; /* V1 may be any of the types narrower than a byte */
    bool same = a && (a->dtype == dtype || sp_tensor_narrow(&narrow, dtype));
    if (!text && (!same || a->rank != 1 || a->dim[0] != n || !sp_tensor_contiguous(a)))
        return wrong(r, "the values are missing, or there are not as many as constants");
    if (text && n > (int64_t)strlen(r->at)) return wrong(r, "there are fewer values than constants");
    SP_TRY(sp_tensor_alloc(r->cx, dtype, 1, &n, &r->c.value));
    if (!text) memcpy(r->c.value.data, a->data, (size_t)n * sparta_dtype_size(dtype));
    for (int64_t i = 0; text && i < n; i++) SP_TRY(read_value(r, &r->c.value, i));
    return SPARTA_OK;
}

static sparta_status read_constants(reader *r)
{
    char name[16];
    size_t n = word_length(r);
    sparta_dtype dtype;
    int64_t cols = 1;
    if (n >= sizeof name) return wrong(r, "a type is missing after 'constant'");
    memcpy(name, r->at, n);
    name[n] = 0;
    if (!sp_dtype_parse(name, &dtype)) return wrong(r, "a type is missing after 'constant'");
    r->at += n;
    SP_TRY(read_along(r, r->c.where.extent));
    SP_TRY(read_mask(r, r->arrays ? r->arrays->constants : NULL, r->c.where.extent, &r->c.where.mask));
    for (int i = r->t.rank > 1; i < r->t.rank; i++)
        if (!sp_int_mul(cols, r->c.where.extent[i], &cols)) return wrong(r, "too many elements");
    if (r->c.where.mask.rows != (r->t.rank > 1 ? r->c.where.extent[0] : 1) || r->c.where.mask.cols != cols)
        return wrong(r, "the mask of constants is not one of these axes");
    r->c.where.rank = r->t.rank;
    return read_values(r, dtype, sp_mask_count(&r->c.where.mask));
}

/* ------------------------------------------------------------------ precision */

static sparta_status read_precision_name(reader *r, uint8_t *out)
{
    size_t n = word_length(r);
    sp_precision p;
    if (!sp_precision_parse(r->at, n, &p)) return wrong(r, "a precision is missing, such as f32 or i8");
    r->at += n;
    *out = (uint8_t)p;
    return SPARTA_OK;
}

static sparta_status read_groups(reader *r, bool *whole)
{
    *whole = !take(r, "per");
    if (*whole) return SPARTA_OK;
    if (!take(r, "[")) return wrong(r, "groups are [64, 0], one for each dimension");
    for (int i = 0; i < r->t.rank; i++) {
        if (i && !take(r, ",")) return wrong(r, "there is a group for each dimension");
        SP_TRY(take_number(r, &r->t.group[i]));
        if (r->t.group[i] && r->t.dim[i].name[0]) return wrong(r, "along a symbol the group is 0");
    }
    return take(r, "]") ? SPARTA_OK : wrong(r, "']' is missing after the groups");
}

/* Names, then places among them from the array. */
static sparta_status read_precision_array(reader *r, int64_t groups)
{
    uint8_t palette[SP_PRECISIONS];
    int n = 0;
    const sparta_tensor *a = r->arrays->precision;
    for (; word_length(r) && n < SP_PRECISIONS; n++) SP_TRY(read_precision_name(r, &palette[n]));
    if (!a || a->dtype != SPARTA_U8 || sparta_tensor_elements(a) != groups || !sp_tensor_contiguous(a))
        return wrong(r, "the array of precisions is missing, or not u8 with one for each group");
    for (int64_t i = 0; i < groups; i++) {
        int k = ((const uint8_t *)a->data)[i];
        if (k >= n) return wrong(r, "the array of precisions has numbers that are not in the list");
        r->t.precision[i] = palette[k];
    }
    return SPARTA_OK;
}

static sparta_status read_precision(reader *r)
{
    bool whole;
    int64_t groups;
    if (!take(r, ";") || !take(r, "precision")) return wrong(r, "'; precision' is missing");
    SP_TRY(read_groups(r, &whole));
    if (!sp_groups_count(r->t.rank, r->t.dim, r->t.group, &groups))
        return wrong(r, "there are too many groups");
    bool array = !whole && r->arrays && take(r, "array");
    const sparta_tensor *a = array ? r->arrays->precision : NULL;
    if (!groups || (a && sparta_tensor_elements(a) != groups) || (!array && groups > (int64_t)strlen(r->at)))
        return wrong(r, "there are not as many precisions as groups");
    r->t.precision = sp_alloc(r->cx, (size_t)groups);
    SP_NEED(r->cx, r->t.precision);
    if (array) return read_precision_array(r, groups);
    for (int64_t i = 0; i < groups; i++) SP_TRY(read_precision_name(r, &r->t.precision[i]));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ all of it */

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

sparta_status sp_tesa_parse_as(sparta_ctx *cx, const char *text, const sp_tesa_arrays *arrays, sp_tesa *out)
{
    reader r = {.cx = cx, .start = text, .at = text, .arrays = arrays};
    sparta_status status = read_all(&r);
    if (!status) return sp_tesa_settle(cx, &r.t, &r.c, out);
    sp_constants_free(cx, &r.c);
    sp_tesa_free(cx, &r.t);
    return status;
}

sparta_status sp_tesa_parse(sparta_ctx *cx, const char *text, sp_tesa *out)
{
    return sp_tesa_parse_as(cx, text, NULL, out);
}
