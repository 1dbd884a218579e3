/* The rule of every operator by its id. This table has a file of its own so that tests can put wrong rules in its place (ld --wrap). */
#include "ops/flow.h"

static const sp_rule *const rules[] = {
#define SP_OP(id, domain, name, since, min_in, max_in, max_out) &sp_rule_##id,
#include "builtin/ops.def"
#undef SP_OP
};

const sp_rule *sp_rule_of(sp_op_id op)
{
    return rules[op];
}
