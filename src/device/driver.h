/* The inside of cuda.h: the driver's functions and their errors, without a header of NVIDIA's. Constants and layouts are those of cuda.h of CUDA 12 and 13,
 * which the driver keeps for as long as it has the symbols. */
#ifndef SP_DEVICE_DRIVER_H
#define SP_DEVICE_DRIVER_H

#include "device/cuda.h"

/* CUresult */
enum { SP_CUDA_OK = 0, SP_CUDA_OUT_OF_MEMORY = 2 };

/* CUlaunchAttribute and CUlaunchConfig */
enum { SP_LAUNCH_CLUSTER = 4, SP_LAUNCH_OVERLAP = 6 };
typedef struct sp_driver_attribute {
    int id, pad;
    union {
        unsigned cluster[3]; /* blocks along x, y, z */
        int on;
        char room[64];
    } value;
} sp_driver_attribute;
typedef struct sp_driver_launch {
    unsigned grid[3], block[3], shared;
    void *stream;
    sp_driver_attribute *attribute;
    unsigned n;
} sp_driver_launch;

typedef struct sp_driver {
#define SP_DRIVER(symbol, arguments) int(*symbol) arguments;
#include "device/driver.def"
#undef SP_DRIVER
} sp_driver;

/* The driver's functions, all there and initialised; NULL: sp_driver_problem says why. Opened once. */
const sp_driver *sp_driver_open(void);
/* "" or why it cannot be used, with what to do. */
const char *sp_driver_problem(void);
/* OK, or refuses with what the driver said of `call` and what to do. `more` (may be NULL): its log. */
sparta_status sp_driver_check(const sp_complaint *c, const char *call, int result, const char *more) SP_MUST;
/* The same as one line of text. */
void sp_driver_explain(const char *call, int result, const char *more, char *out, size_t size);

/* Calls a function by its row, and passes an error on. */
#define SP_DRIVE(c, symbol, ...)                                                                             \
    SP_TRY(sp_driver_check(c, #symbol, sp_driver_open()->symbol(__VA_ARGS__), NULL))

#endif
