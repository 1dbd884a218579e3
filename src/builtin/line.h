/* One line of Softmax, which the attentions share. */
#ifndef SP_BUILTIN_LINE_H
#define SP_BUILTIN_LINE_H

#include "builtin/builtin.h"

void sp_line_softmax(double *line, int64_t n); /* in place */

#endif
