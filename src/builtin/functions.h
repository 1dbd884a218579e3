/* Functions of callers, by name, that say which elements of a line stay (operator Sparsify). They belong to a context: a package has the name, and whoever
 * runs it registers the function. */
#ifndef SP_BUILTIN_FUNCTIONS_H
#define SP_BUILTIN_FUNCTIONS_H

#include "builtin/builtin.h"

typedef struct sp_line_function sp_line_function;
/* E_USAGE: none of that name is registered with the context. */
sparta_status sp_line_function_find(sparta_ctx *cx, const char *name, const sp_line_function **out) SP_MUST;
/* keep: all 1, and 0 afterwards where an element goes. E_USAGE: it failed. */
sparta_status sp_line_function_call(sparta_ctx *cx, const sp_line_function *f, const float *line, int64_t n,
                                    uint8_t *keep) SP_MUST;
/* Elements [from, to) of line s of `all` that attributes left and right let stay. */
void sp_sparsify_band(const sp_attrs *attrs, int64_t s, int64_t all, int64_t n, int64_t *from, int64_t *to);

#endif
