/* Files for targets that read .npz: the CRCs of stored entries are mended, as somebody who knows the format would, and the bytes put
 * into a file of this process. */
#ifndef SP_FUZZ_NPZ_FILE_H
#define SP_FUZZ_NPZ_FILE_H

#include "arrays/zip.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];
static void forget(void)
{
    unlink(path);
}

/* Walk the directory as the reader does and write the right CRC into each entry of it. */
static void mend(sparta_ctx *cx, uint8_t *bytes, size_t size)
{
    sp_mapped m = {bytes, size};
    zip_directory d;
    if (sp_zip_directory(cx, &m, &d)) return;
    uint64_t at = d.at;
    for (uint64_t i = 0; i < d.n; i++) {
        zip_entry e;
        uint64_t here = at;
        if (sp_zip_entry(cx, &m, &d, &at, &e)) return;
        if (e.method != ZIP_STORED) continue;
        uint32_t crc = sp_crc32(0, e.data, (size_t)e.size);
        for (int b = 0; b < 4; b++) bytes[here + 16 + (uint64_t)b] = (uint8_t)(crc >> (8 * b));
    }
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
