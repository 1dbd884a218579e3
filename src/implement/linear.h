/* What the Linear rows share; for this room only. */
#ifndef SP_IMPLEMENT_LINEAR_H
#define SP_IMPLEMENT_LINEAR_H

#include "implement/implement.h"

bool sp_linear_match(const sp_task *t);
void sp_linear_epilogue(const sp_task *t, sp_text *out); /* "EPILOGUE=word_relu(v) STAT=1" */
void sp_linear_parameters(const sp_task *t, int form, sp_text *out);

/* Rows whose weight comes in ranges of inputs, which double: knob RANGE. One as long as the input is the last that makes a difference. */
int64_t sp_linear_range(const sp_task *t);
bool sp_linear_range_differs(const sp_task *t);

/* What the rows for few tokens share (kernel few). */
bool sp_few_match(const sp_task *t);
void sp_few_parameters(const sp_task *t, int form, sp_text *out);
/* So many bytes are read, so many vectors multiplied and added for each token: whichever takes longer. */
double sp_few_cost(const sp_task *t, double bytes, double vectors);

#endif
