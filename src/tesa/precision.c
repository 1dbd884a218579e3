/* Precisions: the table, and which group of elements has which. */
#include "tesa/attribute_inside.h"
#include <string.h>

static const struct {
    const char *name;
    int bits, sign, exponent, value;
} table[] = {
#define SPARTA_PRECISION(id, name, bits, sign, exponent, value) {name, bits, sign, exponent, value},
#include "tesa/precisions.def"
#undef SPARTA_PRECISION
};

const char *sparta_precision_name(sparta_precision p)
{
    return table[p].name;
}

int sparta_precision_bits(sparta_precision p)
{
    return table[p].bits;
}

bool sparta_precision_parse(const char *name, size_t size, sparta_precision *out)
{
    for (int i = 0; i < SPARTA_PRECISIONS; i++)
        if (strlen(table[i].name) == size && !memcmp(table[i].name, name, size)) {
            *out = (sparta_precision)i;
            return true;
        }
    return false;
}

sparta_precision sparta_precision_of(sparta_dtype dtype)
{
    const char *name = sparta_dtype_name(dtype);
    sparta_precision p = SPARTA_PRECISION_ANY;
    sparta_precision_parse(name, strlen(name), &p);
    return p;
}

bool sparta_precision_holds(sparta_precision wide, sparta_precision narrow)
{
    if (wide == narrow || wide == SPARTA_PRECISION_ANY) return true;
    if (table[narrow].sign > table[wide].sign || table[narrow].exponent > table[wide].exponent) return false;
    bool integer_in_float = table[wide].exponent && !table[narrow].exponent;
    return table[narrow].value <= table[wide].value + integer_in_float; /* the hidden bit */
}

sparta_precision sparta_precision_join(sparta_precision a, sparta_precision b)
{
    int p = 0;
    while (!sparta_precision_holds((sparta_precision)p, a) || !sparta_precision_holds((sparta_precision)p, b))
        p++;
    return (sparta_precision)p;
}

/* ------------------------------------------------------------------ groups */

int64_t sparta_groups_of(const sparta_tesa_dim *dim, int64_t group)
{
    return group ? sparta_ceil_div(dim->max, group) : 1;
}

bool sparta_groups_count(int rank, const sparta_tesa_dim *dim, const int64_t *group, int64_t *out)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        if (!sparta_int_mul(n, sparta_groups_of(&dim[i], group[i]), &n)) return false;
    *out = n;
    return true;
}

sparta_precision sparta_tesa_precision_at(const sparta_tesa *t, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t groups = sparta_groups_of(&t->dim[i], t->group[i]);
        int64_t in = t->group[i] ? index[i] / t->group[i] : 0;
        at = at * groups + SPARTA_MIN(in, groups - 1); /* an empty slice asks at the end */
    }
    return (sparta_precision)t->precision[at];
}

sparta_precision sparta_precision_same(const void *tesa, const int64_t *index)
{
    return sparta_tesa_precision_at(tesa, index);
}

sparta_status sparta_precision_build(sparta_ctx *cx, sparta_tesa *t, const int64_t *group,
                                     sparta_precision_source at, const void *arg)
{
    int64_t n, index[SPARTA_TESA_RANK] = {0}, none[SPARTA_TESA_RANK] = {0};
    if (!sparta_groups_count(t->rank, t->dim, group, &n))
        return sparta_fail(cx, SPARTA_E_SHAPE, "precision: too many groups");
    if (!n) group = none, n = 1; /* no elements: one precision */
    uint8_t *map = sparta_zalloc(cx, (size_t)n);
    SPARTA_NEED(cx, map);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k;
        for (int i = t->rank - 1; i >= 0; i--) {
            int64_t groups = sparta_groups_of(&t->dim[i], group[i]);
            index[i] = rest % groups * group[i];
            rest /= groups;
        }
        map[k] = (uint8_t)at(arg, index);
    }
    t->precision = map;
    memcpy(t->group, group, (size_t)t->rank * sizeof *group);
    return SPARTA_OK;
}
