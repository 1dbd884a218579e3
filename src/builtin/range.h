/* How long a Range is, for its shape rule and its reference. */
#ifndef SPARTA_BUILTIN_RANGE_H
#define SPARTA_BUILTIN_RANGE_H

#include "builtin/builtin.h"

/* in: start, limit, delta, scalars of one type. E_RANGE when it has no end. */
sparta_status sparta_range_count(sparta_ctx *cx, const sparta_tensor *in, int64_t *out) SPARTA_MUST;

#endif
