/* The file: a header and sections; for the files of this room only.
 *
 *   offset 0     header, HEADER_BYTES, little-endian:
 *                  magic "SPARTA\r\n", u32 version, u32 sections, then per section u64 offset, u64 size, 32 bytes SHA-256;
 *                  at the end of the header the SHA-256 of all of it before that
 *   PLAN         text of the graph
 *   OTHERS       of each other plan a line "least most bytes", and so many bytes: text of the graph
 *   GIVEN        text of the graph as it was given, when the plan was made from a smaller one; else nothing
 *   TABLES       text, a line each:
 *                  weight "name" dtype rank dim... : array                        stored as it is
 *                  packed "name" swapped dtype rank dim... "format" : storage
 *                  kernel "name" "parameters" source-offset source-size ncode { target abi offset size }
 *                  note "what its user should know"                               at most one
 *                where abi     = 16 hex digits: the argument structs that the code was compiled for (panel/abi.h)
 *                      array   = dtype count offset size sha256 (offset into section WEIGHTS)
 *                      storage = array...                    positions and coordinates of levels 0.., then values
 *                              | array...                    opaque: the arrays that its row names, then values
 *                              | parts { "format" storage }  a sum: its leaves, each a list of levels or opaque
 *   CODE         machine code, one object after the other
 *   SOURCE       kernel texts, for reading
 *   WEIGHTS      64-byte aligned arrays; the section has no digest of its own, each array has
 */
#ifndef SP_PACKAGE_DISK_H
#define SP_PACKAGE_DISK_H

#include "package/package.h"

#define DISK_MAGIC   "SPARTA\r\n"
#define DISK_VERSION 8u
#define HEADER_BYTES 4096u
enum { DISK_PLAN, DISK_OTHERS, DISK_GIVEN, DISK_TABLES, DISK_CODE, DISK_SOURCE, DISK_WEIGHTS, DISK_SECTIONS };

typedef struct disk_section {
    uint64_t offset, size;
    uint8_t digest[32];
} disk_section;

typedef struct disk_header {
    uint8_t magic[8];
    uint32_t version, sections;
    disk_section section[DISK_SECTIONS];
} disk_header;

/* Behind the name of a target whose code could not be run where it was made. */
#define DISK_UNCHECKED "-unchecked"

/* ready.c: an array of indices in the file. `to` is room for its copy, which nobody has touched: a private one, so that what was verified is
 * what is used. */
typedef struct sp_index {
    struct sp_index *next;
    const void *from;
    void *to;
    size_t bytes;
} sp_index;
sparta_status sp_index_add(sparta_package *p, sp_index **list, sparta_tensor *t) SP_MUST;
sparta_status sp_unverified_create(sparta_package *p, sp_index *list, sp_unverified **out) SP_MUST;
void sp_unverified_free(sp_unverified *u);
void sp_index_rooms_free(sparta_package *p); /* after all of them */

#endif
