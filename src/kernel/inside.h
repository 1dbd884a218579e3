/* What the files of this room share. */
#ifndef SP_KERNEL_INSIDE_H
#define SP_KERNEL_INSIDE_H

#include "kernel/kernel.h"

extern const char *const sp_nest_bindings[], *const sp_nest_overs[]; /* their names in texts */
enum { SP_NEST_BINDINGS = SP_BIND_LANE + 1, SP_NEST_OVERS = SP_OVER_MERGE + 1 };
/* In as few digits as read back the same. */
void sp_nest_print_number(double v, sp_text *out);
static inline int64_t sp_nest_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
