/* Files for targets that read .npz: the bytes, mended, are put into a file of this process. */
#ifndef SP_FUZZ_NPZ_FILE_H
#define SP_FUZZ_NPZ_FILE_H

#include "zip_mend.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];
static void forget(void)
{
    unlink(path);
}

static void put_file(const uint8_t *bytes, size_t size)
{
    if (!path[0]) {
        snprintf(path, sizeof path, "/tmp/sparta-fuzz-npz-%ld", (long)getpid());
        atexit(forget);
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f)) abort();
}

#endif
