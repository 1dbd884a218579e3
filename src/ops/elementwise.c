/* The rules that the rows of builtin/elementwise.def and builtin/reductions.def make. */
#include "ops/ints.h"

/* ------------------------------------------------------------------ element by element */
/* True where one input is, whatever the other. */
static sparta_status either_axes(sp_axes *a)
{
    SP_TRY(sp_flow_each(a));
    for (int i = 0; i < 2; i++) a->in[i].hides[true] = 1 << !i;
    return SPARTA_OK;
}

/* The flows that rows name. */
#define RULE_each(id, shape, types, follow)                                                                  \
    const sp_rule sp_rule_##id = {shape, types,        SP_EXACT, "element by element",                       \
                                  "",    sp_flow_each, NULL,     follow};
#define RULE_times(id, shape, types, follow)                                                                 \
    const sp_rule sp_rule_##id = {shape, types,         SP_EXACT, "zero where a factor is",                  \
                                  "",    sp_flow_times, NULL,     follow};
#define RULE_both(id, shape, types, follow)                                                                  \
    const sp_rule sp_rule_##id = {shape, types,         SP_EXACT, "false where an input is",                 \
                                  "",    sp_flow_times, NULL,     follow};
#define RULE_either(id, shape, types, follow)                                                                \
    const sp_rule sp_rule_##id = {shape, types,       SP_EXACT, "true where an input is",                    \
                                  "",    either_axes, NULL,     follow};

#define SP_REAL(id, since, y)                                       RULE_each(id, sp_ops_same, SP_FLOATS, NULL)
#define SP_REAL_WITH(id, since, alpha, other, otherwise, y)         RULE_each(id, sp_ops_same, SP_FLOATS, NULL)
#define SP_NUMBER(id, since, types, follow, real, integer, natural) RULE_each(id, sp_ops_unary, types, follow)
#define SP_ARITHMETIC(id, since, follow, flow, op)                  RULE_##flow(id, sp_ops_binary, SP_NUMBERS, follow)
#define SP_COMPARE(id, since, types, follow, op)                    RULE_each(id, sp_ops_compare, types, follow)
#define SP_LOGIC(id, since, flow, y)                                RULE_##flow(id, sp_ops_binary, SP_BOOLS, NULL)
#define SP_EXTREME(id, since, follow, op)                           RULE_each(id, sp_ops_variadic, SP_NUMBERS, follow)
#define SP_BINARY(id, since, types, shape, real, integer, natural)  RULE_each(id, shape, types, NULL)
#define SP_OWN(id, since, least, most, types, shape, follow)        RULE_each(id, shape, types, follow)
#include "builtin/elementwise.def"

/* ------------------------------------------------------------------ reductions */
#define SP_REDUCE(id, types, follow, how, kind, why, says, start, first, real, integer, natural)             \
    static sparta_status id##_axes(sp_axes *a)                                                               \
    {                                                                                                        \
        return sp_flow_reduce(a, how, kind, why);                                                            \
    }                                                                                                        \
    const sp_rule sp_rule_##id = {sp_ops_reduce, types, SP_EXACT, says, "axes that are computed",            \
                                  id##_axes,     NULL,  follow};
#define SP_REDUCE_REAL(id, why, start, real, finish)                                                         \
    SP_REDUCE(id, SP_NUMBERS, NULL, SP_FLOW_FUNCTION, SP_WHOLE, why,                                         \
              "known where all it runs over is, which stays", , , , , )
#include "builtin/reductions.def"
