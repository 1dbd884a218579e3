/* Messages of functions that take no context. */
#include "base/base.h"
#include <stdio.h>

sparta_status sp_refuse(const sp_complaint *c, sparta_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (c->size) {
        const int n = snprintf(c->text, c->size, "%s: ", c->where);
        if (n > 0 && (size_t)n < c->size) vsnprintf(c->text + n, c->size - (size_t)n, format, args);
    }
    va_end(args);
    return status;
}
