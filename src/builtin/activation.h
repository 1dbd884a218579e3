/* The activations by name, in double: what Gelu and the epilogue of Linear compute. */
#ifndef SP_BUILTIN_ACTIVATION_H
#define SP_BUILTIN_ACTIVATION_H

#include "builtin/elementwise.h"
#include <string.h>

typedef double (*sp_activation)(double x);
sp_activation sp_activation_find(const char *name); /* "" is the identity; NULL: no such activation */

#endif
