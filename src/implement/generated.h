/* Texts of generated kernels; for the files of this room only. */
#ifndef SP_IMPLEMENT_GENERATED_H
#define SP_IMPLEMENT_GENERATED_H

#include "implement/implement.h"

/* The C text of kernel "nest" or "nest_lanes" for a nest. */
sparta_status sp_implement_write(const char *kernel, const char *nest, sp_target target,
                                 sp_text *out) SP_MUST;
/* The C text of kernel "stored" for its parameters. */
sparta_status sp_implement_write_stored(const char *parameters, sp_target target, sp_text *out) SP_MUST;
/* The same for a kernel of a user's, behind the #defines; which of them take the weight of a task. */
sparta_status sp_implement_write_user(const char *name, size_t length, sp_target target,
                                      sp_text *out) SP_MUST;
sparta_status sp_implement_users(sparta_ctx *cx, const sparta_tensor *w, sp_task *t) SP_MUST;
/* The same of functions (function.c), which the former asks too. */
sparta_status sp_implement_functions(sparta_ctx *cx, const sparta_tensor *w, sp_task *t) SP_MUST;
/* Can the weight be stored so, in not too much? */
sparta_status sp_implement_storable(sparta_ctx *cx, const char *format, const sparta_tensor *w,
                                    const sp_mask *mask, bool *out) SP_MUST;
/* Which one of those that take a weight a point names; without a word, the first. */
int sp_implement_place(const sp_task *t, const char *knob, unsigned which);
double sp_implement_user_cost(const sp_task *t); /* taken at its word: as if it wasted nothing */

#endif
