/* Hardmax: along attribute axis (-1), 1 where the line has its first maximum and 0 elsewhere. */
#include "builtin/line.h"

static void mark(double *line, int64_t n)
{
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (line[i] > line[at]) at = i;
    for (int64_t i = 0; i < n; i++) line[i] = i == at;
}

sparta_status sp_builtin_Hardmax(sparta_ctx *cx, const sp_op_args *args)
{
    return sp_builtin_lines(cx, args, "Hardmax", mark);
}
