/* How long a Range is, for its shape rule and its reference. */
#ifndef SP_BUILTIN_RANGE_H
#define SP_BUILTIN_RANGE_H

#include "builtin/builtin.h"

/* in: start, limit, delta, scalars of one type. E_RANGE when it has no end. */
sparta_status sp_range_count(sparta_ctx *cx, const sparta_tensor *in, int64_t *out) SP_MUST;

#endif
