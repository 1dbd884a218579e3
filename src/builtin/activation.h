/* The activations by name, in double: what Gelu and the epilogue of Linear compute. */
#ifndef SPARTA_BUILTIN_ACTIVATION_H
#define SPARTA_BUILTIN_ACTIVATION_H

#include "builtin/elementwise.h"
#include <string.h>

typedef double (*sparta_activation)(double x);
sparta_activation sparta_activation_find(const char *name); /* "" is the identity; NULL: no such activation */

#endif
