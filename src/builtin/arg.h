/* Where a line has its extreme: ArgMax and ArgMin. */
#ifndef SP_BUILTIN_ARG_H
#define SP_BUILTIN_ARG_H

#include "builtin/view.h"

/* y = index of the largest (or smallest) element along attribute axis (0), the first of equals or with attribute
 * select_last_index the last. A NaN is beyond every number, as in NumPy. */
sparta_status sp_builtin_arg(sparta_ctx *cx, const sp_op_args *args, const char *op, bool largest) SP_MUST;
/* Order of two elements of one tensor: below 0, 0 or above; NaNs equal each other and are above all. */
int sp_element_compare(sparta_dtype dtype, const void *data, int64_t a, int64_t b);

#endif
