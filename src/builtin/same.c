/* Operators whose elements stay in order: copied, repeated, converted to another type, or under other dims. The shape rule has said which
 * dims and type y has, so that nothing is left to tell them apart. */
#include "builtin/elementwise.h"

/* y = x, broadcast to the dims of y, in its type: floats are cut off towards zero on the way to integers, integers wrap, anything but
 * zero is true. */
#define CONVERTED(id) SP_REFERENCE(id, sp_builtin_convert(cx, &args->in[0], &args->out[0]))
CONVERTED(Identity)
CONVERTED(Cast)
CONVERTED(CastLike)
CONVERTED(Expand)

/* The elements of x in row-major order under the dims of y. */
#define RESHAPED(id) SP_REFERENCE(id, sp_builtin_copy_flat(cx, &args->in[0], &args->out[0]))
RESHAPED(Reshape)
RESHAPED(Flatten)
RESHAPED(Squeeze)
RESHAPED(Unsqueeze)
