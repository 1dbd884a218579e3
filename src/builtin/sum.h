/* Sums of any number of inputs, element by element. */
#ifndef SPARTA_BUILTIN_SUM_H
#define SPARTA_BUILTIN_SUM_H

#include "builtin/elementwise.h"

/* y = (in[0] + in[1] + ...) / divisor, broadcasting, in double and rounded once. */
sparta_status sparta_builtin_sum(sparta_ctx *cx, const sparta_op_args *args, double divisor) SPARTA_MUST;

#endif
