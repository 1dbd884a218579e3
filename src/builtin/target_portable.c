/* The quick kernels for whatever the compiler was told to build for. */
#include "builtin/quick.h"
#define TABLE sp_quick_portable
#include "builtin/kernel_table.h"
