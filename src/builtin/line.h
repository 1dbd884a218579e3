/* Operators that rewrite every line along one axis by itself. */
#ifndef SP_BUILTIN_LINE_H
#define SP_BUILTIN_LINE_H

#include "builtin/builtin.h"

/* y = f of each line of x along attribute axis (-1), lines in double. */
sparta_status sp_builtin_lines(sparta_ctx *cx, const sp_op_args *args, const char *op,
                               void (*f)(double *line, int64_t n)) SP_MUST;
/* One line of Softmax, in place: also of Attention. */
void sp_line_softmax(double *line, int64_t n);

#endif
