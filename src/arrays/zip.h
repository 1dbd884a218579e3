/* The parts of the zip format that npz needs (PKWARE's APPNOTE). All numbers are little-endian.
 *
 *     local header + name + extra | data | local header ... | central directory: an entry per file |
 *     [zip64 end, locator] | end
 *
 * The central directory is believed; a local header only tells where its data begins. */
#ifndef SP_ARRAYS_ZIP_H
#define SP_ARRAYS_ZIP_H

#include "arrays/arrays.h"

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };
enum {
    ZIP_LOCAL = 0x04034b50,
    ZIP_CENTRAL = 0x02014b50,
    ZIP_END = 0x06054b50,
    ZIP_END64 = 0x06064b50,
    ZIP_LOCATOR = 0x07064b50
};
enum {
    ZIP_LOCAL_SIZE = 30,
    ZIP_CENTRAL_SIZE = 46,
    ZIP_END_SIZE = 22,
    ZIP_END64_SIZE = 56,
    ZIP_LOCATOR_SIZE = 20
};

typedef struct zip_directory {
    uint64_t n, at, size; /* entries; where the central directory stands */
} zip_directory;

typedef struct zip_entry {
    const char *name; /* in the file, not terminated */
    size_t name_size;
    int method;
    uint32_t crc;
    uint64_t packed, size; /* bytes in the file, bytes of the array */
    const uint8_t *data;   /* packed bytes, inside the file */
} zip_entry;

/* Start with 0, continue with the last answer. */
uint32_t sp_crc32(uint32_t crc, const void *bytes, size_t n);

sparta_status sp_zip_directory(sparta_ctx *cx, const sp_mapped *m, zip_directory *out) SP_MUST;
/* The entry at *at (inside the directory), which is moved to the next one. */
sparta_status sp_zip_entry(sparta_ctx *cx, const sp_mapped *m, const zip_directory *d, uint64_t *at,
                           zip_entry *out) SP_MUST;
/* Exactly e->size bytes into out. */
sparta_status sp_zip_inflate(sparta_ctx *cx, const zip_entry *e, uint8_t *out) SP_MUST;

/* Like sp_npy_parse, and a single string (descr |S3, no dimensions) comes as a u8 array of its bytes. */
sparta_status sp_npy_parse_text(sparta_ctx *cx, const void *bytes, size_t n, sparta_tensor *out) SP_MUST;

#endif
