/* Damaging packages on purpose, and signing them again: for the tests of hostile files and for the fuzzer. */
#ifndef SP_TEST_PACKAGE_DAMAGE_H
#define SP_TEST_PACKAGE_DAMAGE_H

#include "package/disk.h"
#include <string.h>

/* Recompute every digest of an image, as somebody who knows the format would. Sections that lie outside are left alone. */
static inline void sign(uint8_t *image, size_t size)
{
    disk_header h;
    if (size < HEADER_BYTES) return;
    memcpy(&h, image, sizeof h);
    for (int i = 0; i < DISK_WEIGHTS; i++) {
        disk_section *s = &h.section[i];
        if (s->offset <= size && s->size <= size - s->offset)
            sp_sha256_of(image + s->offset, s->size, s->digest);
    }
    memcpy(image, &h, sizeof h);
    sp_sha256_of(image, HEADER_BYTES - 32, image + HEADER_BYTES - 32);
}

#endif
