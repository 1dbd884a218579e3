/* Precisions: the table, and which holds which. */
#include "tesa/attribute.h"
#include <string.h>

static const struct {
    const char *name;
    int sign, exponent, value;
} table[] = {
#define SP_PRECISION(id, name, sign, exponent, value) {name, sign, exponent, value},
#include "tesa/precisions.def"
#undef SP_PRECISION
};

const char *sp_precision_name(sp_precision p)
{
    return table[p].name;
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
