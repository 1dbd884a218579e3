/* The kernels for any CPU that the library is compiled for. */
#define TABLE sp_kernels_portable
#include "sparse/kernel_table.h"
