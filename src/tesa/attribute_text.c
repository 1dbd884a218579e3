/* The text of an attribute. Print is canonical because attributes are in normal form; parse settles, so it takes any
 * way of saying the same and refuses what is not whole, with the character where it went wrong.
 *
 *     tesa [DIM, ..]; has HAS; constant TYPE ALONG MASK values V ..; precision PRECISION
 *
 *     DIM        768   or   batch:1..64
 *     HAS        all   none   unknown   ALONG MASK   at most 4 of each row   at most 8 blocks of 64x64 in each row
 *     ALONG      along 0 2     the axes along which it differs; nothing when there are none
 *     MASK       mask 2x8 rle 4 4 3 1 4     (text.c), of the first axis by the others, those not named counting 1
 *     V          a number, or #7fc00000: the bits of one that is no number
 *     PRECISION  f32   or   per [64, 0] f32 i8 ..     groups along each axis, row-major; 0: all along it
 *
 * In a file (attribute_file.c) the word `array` stands for the mask, for the values and for the list; the names after
 * `precision per [..] array` are what the numbers in the array mean.
 */
#include "tesa/attribute_inside.h"
#include <math.h>
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

static void print_set(const sp_set *s, bool arrays, sp_text *out)
{
    sp_span span;
    bool own;
    print_along(s->rank, s->extent, out);
    if (arrays) {
        sp_text_printf(out, "array");
        return;
    }
    sparta_status status = out->status ? out->status : sp_set_span(out->cx, s, &span, &own);
    if (status) {
        out->status = status;
        return;
    }
    sp_mask_print(&span.mask, out);
    if (own) sp_mask_free(out->cx, &span.mask);
}

static void print_has(const sp_tesa *t, bool arrays, sp_text *out)
{
    sp_text_printf(out, "; has ");
    if (t->has == SP_HAS_UNKNOWN)
        sp_text_printf(out, "unknown");
    else if (t->has == SP_HAS_OF_ROW)
        sp_text_printf(out, "at most %lld of each row", (long long)t->most);
    else if (t->has == SP_HAS_BLOCKS)
        sp_text_printf(out, "at most %lld blocks of %lldx%lld in each row", (long long)t->most,
                       (long long)t->block[0], (long long)t->block[1]);
    else if (sp_set_is_all(&t->set) || sp_set_is_none(&t->set))
        sp_text_printf(out, sp_set_is_all(&t->set) ? "all" : "none");
    else
        print_set(&t->set, arrays, out);
}

static void print_bits(const sparta_tensor *value, int64_t at, sp_text *out)
{
    size_t size = sparta_dtype_size(value->dtype);
    uint64_t x = 0;
    memcpy(&x, (const char *)value->data + (size_t)at * size, size);
    sp_text_printf(out, "#%0*llx", (int)(2 * size), (unsigned long long)x);
}

static void print_value(const sparta_tensor *value, int64_t at, sp_text *out)
{
    sp_text_put(out, " ", 1);
    double x = sp_element_get(value->dtype, value->data, at);
    bool is_float = sp_dtype_is_float(value->dtype);
    int64_t whole = is_float ? 0 : sp_element_get_int(value->dtype, value->data, at);
    if ((is_float && !isfinite(x)) || (value->dtype == SPARTA_U64 && whole < 0))
        print_bits(value, at, out);
    else if (is_float)
        sp_text_printf(out, "%.*g", value->dtype == SPARTA_F64 ? 17 : 9, x);
    else
        sp_text_printf(out, "%lld", (long long)whole);
}

static void print_constants(const sp_tesa *t, bool arrays, sp_text *out)
{
    if (!t->constants) return;
    sp_text_printf(out, "; constant %s ", sparta_dtype_name(t->value.dtype));
    print_along(t->rank, t->extent, out);
    if (arrays) {
        sp_text_printf(out, "array");
        return;
    }
    sp_mask_print(&t->where, out);
    sp_text_printf(out, " values");
    for (int64_t i = 0; i < t->constants && !out->status; i++) print_value(&t->value, i, out);
}

int sp_tesa_palette(const sp_tesa *t, sp_precision *palette)
{
    int64_t groups = 1;
    bool seen[SP_PRECISIONS] = {0};
    int n = 0;
    sp_groups_count(t->rank, t->dim, t->group, &groups);
    for (int64_t i = 0; i < groups; i++) seen[t->precision[i]] = true;
    for (int p = 0; p < SP_PRECISIONS; p++)
        if (seen[p]) palette[n++] = (sp_precision)p;
    return n;
}

static void print_precision(const sp_tesa *t, bool arrays, sp_text *out)
{
    int64_t groups = 1;
    bool whole = true;
    sp_precision palette[SP_PRECISIONS];
    for (int i = 0; i < t->rank; i++) whole &= !t->group[i];
    sp_text_printf(out, "; precision ");
    for (int i = 0; !whole && i < t->rank; i++)
        sp_text_printf(out, "%s%lld%s", i ? ", " : "per [", (long long)t->group[i],
                       i < t->rank - 1 ? "" : (arrays ? "] array " : "] "));
    sp_groups_count(t->rank, t->dim, t->group, &groups);
    if (arrays && !whole) groups = sp_tesa_palette(t, palette);
    for (int64_t i = 0; i < groups && !out->status; i++)
        sp_text_printf(out, "%s%s", i ? " " : "",
                       sp_precision_name(arrays && !whole ? palette[i] : (sp_precision)t->precision[i]));
}

void sp_tesa_print_as(const sp_tesa *t, bool arrays, sp_text *out)
{
    sp_text_printf(out, "tesa [");
    for (int i = 0; i < t->rank; i++) {
        const sp_tesa_dim *d = &t->dim[i];
        if (i) sp_text_put(out, ", ", 2);
        if (d->name[0])
            sp_text_printf(out, "%s:%lld..%lld", d->name, (long long)d->min, (long long)d->max);
        else
            sp_text_printf(out, "%lld", (long long)d->max);
    }
    sp_text_printf(out, "]");
    print_has(t, arrays, out);
    print_constants(t, arrays, out);
    print_precision(t, arrays, out);
}

void sp_tesa_print(const sp_tesa *t, sp_text *out)
{
    sp_tesa_print_as(t, false, out);
}
