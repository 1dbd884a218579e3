/* What the rows of linear.c and few.c share; for this room only. */
#ifndef SP_IMPLEMENT_LINEAR_H
#define SP_IMPLEMENT_LINEAR_H

#include "implement/implement.h"

bool sp_linear_match(const sp_task *t);
void sp_linear_epilogue(const sp_task *t, sp_text *out); /* "EPILOGUE=word_relu(v) STAT=1" */
/* Elements of the weight, and those that are there. */
static inline double sp_linear_all(const sp_task *t)
{
    return (double)(t->n * t->k);
}
static inline double sp_linear_present(const sp_task *t)
{
    return sp_linear_all(t) * t->pattern.density;
}

#endif
