/* file: bytes on disk.
 *
 *   mapped    a whole file as read-only memory; regular files only; beneath a folder when told so (no "..",
 * no links) atomic    written beside the target under a temporary name, synced, renamed at the end: the old
 * file or the new one, never a half npy npz   NumPy's arrays. npz entries are stored or deflated; zlib is
 * loaded when it is there (dlopen), and a deflated entry without it is E_UNSUPPORTED.
 *
 * Everything read here is hostile: lengths are checked against the file before they are used, and memory
 * comes from the context's budget. A mapped file may be truncated by somebody else while we read it: nothing
 * but weights is read from a mapping after it was checked.
 */
#ifndef SPARTA_FILE_H
#define SPARTA_FILE_H

#include "tensor/tensor.h"

typedef struct sparta_mapped {
    const uint8_t *data; /* read-only; size bytes */
    size_t size;
} sparta_mapped;
sparta_status sparta_map_open(sparta_ctx *cx, const char *path, sparta_mapped *out) SPARTA_MUST;
/* `relative` beneath `folder`: refuses absolute paths, "..", symbolic links, hard links (st_nlink > 1),
 * non-regular files. */
sparta_status sparta_map_open_beneath(sparta_ctx *cx, const char *folder, const char *relative,
                                      sparta_mapped *out) SPARTA_MUST;
void sparta_map_close(sparta_mapped *m);

typedef struct sparta_atomic sparta_atomic; /* a file being written */
sparta_atomic *sparta_atomic_open(sparta_ctx *cx,
                                  const char *path) SPARTA_MUST; /* NULL: message in the context */
sparta_status sparta_atomic_write(sparta_atomic *f, const void *bytes, size_t n) SPARTA_MUST;
sparta_status sparta_atomic_align(sparta_atomic *f,
                                  size_t to) SPARTA_MUST; /* zeros up to a multiple of `to` */
uint64_t sparta_atomic_offset(const sparta_atomic *f);
/* Overwrite bytes already written, e.g. a header. */
sparta_status sparta_atomic_patch(sparta_atomic *f, uint64_t offset, const void *bytes, size_t n) SPARTA_MUST;
sparta_status sparta_atomic_commit(sparta_atomic *f)
    SPARTA_MUST;                            /* sync and rename; frees f also on failure */
void sparta_atomic_abort(sparta_atomic *f); /* removes the temporary file; NULL is fine */
/* A whole small file at once. */
sparta_status sparta_file_write(sparta_ctx *cx, const char *path, const void *bytes, size_t n) SPARTA_MUST;
sparta_status sparta_file_read(sparta_ctx *cx, const char *path, size_t limit, char **bytes,
                               size_t *n) SPARTA_MUST; /* sparta_free; terminated */
sparta_status sparta_make_folder(sparta_ctx *cx,
                                 const char *path) SPARTA_MUST; /* like mkdir -p; an existing one is fine */

/* npy: the tensor is a row-major copy (Fortran order is transposed), big-endian is E_UNSUPPORTED, strings
 * too. */
sparta_status sparta_npy_read(sparta_ctx *cx, const char *path,
                              sparta_tensor *out) SPARTA_MUST; /* sparta_free(out->data) */
sparta_status sparta_npy_parse(sparta_ctx *cx, const void *bytes, size_t n, sparta_tensor *out) SPARTA_MUST;
sparta_status sparta_npy_write(sparta_ctx *cx, const char *path, const sparta_tensor *t) SPARTA_MUST;
void sparta_npy_header(const sparta_tensor *t, sparta_text *out); /* magic, version 1.0, padded to 64 */

typedef struct sparta_npz_entry {
    char *name;
    sparta_tensor tensor;
} sparta_npz_entry;
typedef struct sparta_npz {
    sparta_ctx *cx;
    int n;
    sparta_npz_entry *entry;
} sparta_npz;
sparta_status sparta_npz_read(sparta_ctx *cx, const char *path,
                              sparta_npz *out) SPARTA_MUST; /* names without ".npy" */
void sparta_npz_free(sparta_npz *z);
const sparta_tensor *sparta_npz_find(const sparta_npz *z, const char *name);
sparta_status sparta_npz_write(sparta_ctx *cx, const char *path, int n, const char *const *names,
                               const sparta_tensor *tensors) SPARTA_MUST; /* stored */

#endif
