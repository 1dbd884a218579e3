/* Types in Matrix Market files, as LAGraph writes them: among the comments before the line of sizes
 *
 *     %%GraphBLAS type uint8_t          (older ones: %%GraphBLAS GrB_UINT8)
 *
 * What a value is must fit into its type exactly; only fractions are rounded, to float. */
#include "arrays/mtx_type.h"
#include <float.h>
#include <math.h>

static const mtx_type types[] = {
    {"bool", "GrB_BOOL", SPARTA_BOOL, false},         {"int8_t", "GrB_INT8", SPARTA_I8, false},
    {"int16_t", "GrB_INT16", SPARTA_I16, false},      {"int32_t", "GrB_INT32", SPARTA_I32, false},
    {"int64_t", "GrB_INT64", SPARTA_I64, false},      {"uint8_t", "GrB_UINT8", SPARTA_U8, false},
    {"uint16_t", "GrB_UINT16", SPARTA_U16, false},    {"uint32_t", "GrB_UINT32", SPARTA_U32, false},
    {"uint64_t", "GrB_UINT64", SPARTA_U64, false},    {"float", "GrB_FP32", SPARTA_F32, false},
    {"double", "GrB_FP64", SPARTA_F64, false},        {"float complex", "GxB_FC32", SPARTA_F32, true},
    {"double complex", "GxB_FC64", SPARTA_F64, true},
};

const mtx_type *sp_mtx_type_of(sparta_dtype t)
{
    size_t i = 0;
    while (i + 1 < SP_COUNT(types) && types[i].dtype != t) i++;
    return &types[i];
}

/* ------------------------------------------------------------------ the line */

/* A name of two words comes as "float" and, next on the line, "complex". */
static const mtx_type *find_type(line_token t, bool complex)
{
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        if (sp_line_is(t, types[i].grb)) return &types[i];
        if (types[i].complex != complex) continue;
        if (sp_line_is(t, !complex ? types[i].name : types[i].dtype == SPARTA_F32 ? "float" : "double"))
            return &types[i];
    }
    return NULL;
}

sparta_status sp_mtx_type_line(line_reader *r, const mtx_type **out)
{
    line_token t = sp_line_token(r);
    const bool says = sp_line_is(t, "type");
    if (says) t = sp_line_token(r);
    line_reader ahead = *r;
    const bool complex = sp_line_is(sp_line_token(&ahead), "complex");
    const mtx_type *type = find_type(t, complex);
    if (!type && !says) return SPARTA_OK; /* a comment on something else */
    if (!type)
        return sp_line_fail(r, SPARTA_E_FORMAT,
                            "unknown type '%s'; it is bool, int8_t to int64_t, uint8_t to uint64_t, "
                            "float or double",
                            sp_line_quote(r, t));
    if (type->complex && complex) *r = ahead;
    if (*out && *out != type)
        return sp_line_fail(r, SPARTA_E_FORMAT, "the type is %s here and %s above", type->name, (*out)->name);
    *out = type;
    return sp_line_end(r);
}

/* ------------------------------------------------------------------ values */

/* The largest size of a value of that sign. */
static uint64_t largest(sparta_dtype t, bool minus)
{
    const bool is_signed = sp_dtype_is_signed(t);
    if (t == SPARTA_BOOL) return !minus;
    if (minus && !is_signed) return 0;
    return (UINT64_MAX >> (64 - sp_dtype_bits(t) + is_signed)) + minus;
}

static sparta_status fit_whole(line_reader *r, const mtx_type *type, const char *what, const mtx_number *v)
{
    if (v->size <= largest(type->dtype, v->minus)) return SPARTA_OK;
    return sp_line_fail(r, SPARTA_E_RANGE, "%s %s%llu does not fit in %s", what, v->minus ? "-" : "",
                        (unsigned long long)v->size, type->name);
}

sparta_status sp_mtx_from_real(line_reader *r, const mtx_type *type, mtx_number *v)
{
    const double size = fabs(v->real);
    bool fits = true;
    if (type->dtype == SPARTA_F32) {
        fits = !isfinite(size) || isfinite((float)size);
    } else if (!sp_dtype_is_float(type->dtype)) {
        fits = size < 0x1p64 && size == floor(size);
        v->minus = v->real < 0;
        v->size = fits ? (uint64_t)size : 0;
        fits = fits && v->size <= largest(type->dtype, v->minus);
    }
    if (fits) return SPARTA_OK;
    return sp_line_fail(r, SPARTA_E_RANGE, "the value %.17g does not fit in %s", v->real, type->name);
}

static bool next_is_whole(line_reader ahead)
{
    const line_token t = sp_line_token(&ahead);
    size_t i = t.n && (t.p[0] == '-' || t.p[0] == '+');
    while (i < t.n && t.p[i] >= '0' && t.p[i] <= '9') i++;
    return i == t.n;
}

/* Digits of an integer type are read as such also in a file of reals: a double would lose the last of 64 bits. */
sparta_status sp_mtx_number(line_reader *r, const mtx_type *type, bool whole, mtx_number *out)
{
    const bool real = sp_dtype_is_float(type->dtype);
    mtx_number v = {0};
    if (whole || (!real && next_is_whole(*r))) {
        SP_TRY(sp_line_whole(r, "the value", &v.minus, &v.size));
        v.real = v.minus ? -(double)v.size : (double)v.size;
        if (!real) SP_TRY(fit_whole(r, type, "the value", &v));
    } else {
        SP_TRY(sp_line_real(r, "the value", &v.real));
        SP_TRY(sp_mtx_from_real(r, type, &v));
    }
    *out = v;
    return SPARTA_OK;
}

sparta_status sp_mtx_negate(line_reader *r, const mtx_type *type, mtx_number *v)
{
    v->real = -v->real;
    v->minus = v->size && !v->minus;
    return sp_dtype_is_float(type->dtype) ? SPARTA_OK : fit_whole(r, type, "the negative of the value,", v);
}

void sp_mtx_store(const mtx_type *type, void *data, int64_t at, const mtx_number *v)
{
    if (sp_dtype_is_float(type->dtype))
        sp_element_set(type->dtype, data, at, v->real);
    else
        sp_element_set_int(type->dtype, data, at, (int64_t)(v->minus ? 0 - v->size : v->size));
}
