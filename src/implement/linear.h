/* What the Linear rows share; for this room only. */
#ifndef SPARTA_IMPLEMENT_LINEAR_H
#define SPARTA_IMPLEMENT_LINEAR_H

#include "implement/implement.h"

bool sparta_linear_match(const sparta_task *t);
void sparta_linear_parameters(const sparta_task *t, int sparse, sparta_text *out);

#endif
