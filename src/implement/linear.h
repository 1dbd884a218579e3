/* What the Linear rows share; for this room only. */
#ifndef SPARTA_IMPLEMENT_LINEAR_H
#define SPARTA_IMPLEMENT_LINEAR_H

#include "implement/implement.h"

bool sparta_linear_match(const sparta_task *t);
void sparta_linear_epilogue(const sparta_task *t, sparta_text *out); /* "ACT=2 RESIDUAL=0 STAT=1" */
void sparta_linear_parameters(const sparta_task *t, int form, sparta_text *out);

/* What the rows for few tokens share (kernel few). */
bool sparta_few_match(const sparta_task *t);
void sparta_few_parameters(const sparta_task *t, int form, sparta_text *out);
/* So many bytes are read, so many vectors multiplied and added for each token: whichever takes longer. */
double sparta_few_cost(const sparta_task *t, double bytes, double vectors);

#endif
