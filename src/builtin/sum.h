/* Sums of any number of inputs, element by element. */
#ifndef SP_BUILTIN_SUM_H
#define SP_BUILTIN_SUM_H

#include "builtin/elementwise.h"

/* y = (in[0] + in[1] + ...) / divisor, broadcasting, in double and rounded once. */
sparta_status sp_builtin_sum(sparta_ctx *cx, const sp_op_args *args, double divisor) SP_MUST;

#endif
