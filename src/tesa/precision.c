/* Precisions: the table, and which group of elements has which. */
#include "tesa/attribute_inside.h"
#include <string.h>

static const struct {
    const char *name;
    int bits, sign, exponent, value;
} table[] = {
#define SP_PRECISION(id, name, bits, sign, exponent, value) {name, bits, sign, exponent, value},
#include "tesa/precisions.def"
#undef SP_PRECISION
};

const char *sp_precision_name(sp_precision p)
{
    return table[p].name;
}

int sp_precision_bits(sp_precision p)
{
    return table[p].bits;
}

bool sp_precision_parse(const char *name, size_t size, sp_precision *out)
{
    for (int i = 0; i < SP_PRECISIONS; i++)
        if (strlen(table[i].name) == size && !memcmp(table[i].name, name, size)) {
            *out = (sp_precision)i;
            return true;
        }
    return false;
}

sp_precision sp_precision_of(sparta_dtype dtype)
{
    const char *name = sparta_dtype_name(dtype);
    sp_precision p = SP_PRECISION_ANY;
    sp_precision_parse(name, strlen(name), &p);
    return p;
}

bool sp_precision_holds(sp_precision wide, sp_precision narrow)
{
    if (wide == narrow || wide == SP_PRECISION_ANY) return true;
    if (table[narrow].sign > table[wide].sign || table[narrow].exponent > table[wide].exponent) return false;
    bool integer_in_float = table[wide].exponent && !table[narrow].exponent;
    return table[narrow].value <= table[wide].value + integer_in_float; /* the hidden bit */
}

sp_precision sp_precision_join(sp_precision a, sp_precision b)
{
    int p = 0;
    while (!sp_precision_holds((sp_precision)p, a) || !sp_precision_holds((sp_precision)p, b)) p++;
    return (sp_precision)p;
}

/* ------------------------------------------------------------------ groups */

int64_t sp_groups_of(const sp_tesa_dim *dim, int64_t group)
{
    return group ? sp_ceil_div(dim->max, group) : 1;
}

bool sp_groups_count(int rank, const sp_tesa_dim *dim, const int64_t *group, int64_t *out)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        if (!sp_int_mul(n, sp_groups_of(&dim[i], group[i]), &n)) return false;
    *out = n;
    return true;
}

sp_precision sp_tesa_precision_at(const sp_tesa *t, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t groups = sp_groups_of(&t->dim[i], t->group[i]);
        int64_t in = t->group[i] ? index[i] / t->group[i] : 0;
        at = at * groups + SP_MIN(in, groups - 1); /* an empty slice asks at the end */
    }
    return (sp_precision)t->precision[at];
}

sp_precision sp_precision_same(const void *tesa, const int64_t *index)
{
    return sp_tesa_precision_at(tesa, index);
}

sparta_status sp_precision_build(sparta_ctx *cx, sp_tesa *t, const int64_t *group, sp_precision_source at,
                                 const void *arg)
{
    int64_t n, index[SP_TESA_RANK] = {0}, none[SP_TESA_RANK] = {0};
    if (!sp_groups_count(t->rank, t->dim, group, &n))
        return sp_fail(cx, SPARTA_E_SHAPE, "precision: too many groups");
    if (!n) group = none, n = 1; /* no elements: one precision */
    uint8_t *map = sp_zalloc(cx, (size_t)n);
    SP_NEED(cx, map);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k;
        for (int i = t->rank - 1; i >= 0; i--) {
            int64_t groups = sp_groups_of(&t->dim[i], group[i]);
            index[i] = rest % groups * group[i];
            rest /= groups;
        }
        map[k] = (uint8_t)at(arg, index);
    }
    t->precision = map;
    memcpy(t->group, group, (size_t)t->rank * sizeof *group);
    return SPARTA_OK;
}
