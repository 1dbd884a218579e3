/* zip_mend.h: the CRCs of stored entries of a zip archive are mended, as somebody who knows the format would. */
#ifndef SP_FUZZ_ZIP_MEND_H
#define SP_FUZZ_ZIP_MEND_H

#include "arrays/zip.h"

/* Walk the directory as the reader does and write the right CRC into each entry of it. */
static inline void mend(sparta_ctx *cx, uint8_t *bytes, size_t size)
{
    sp_mapped m = {.data = bytes, .size = size};
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

#endif
