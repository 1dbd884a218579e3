/* file: bytes on disk.
 *
 *   mapped       a whole file as read-only memory; regular files only; beneath a folder when told so (no "..", no links);
 *                a copy of it when the context says so (copy_files)
 *   atomic       written beside the target under a temporary name, synced, renamed at the end: the old file or the
 *                new one, never a half
 *
 * Everything read here is hostile: lengths are checked against the file before they are used, and memory
 * comes from the context's budget. A mapped file may be written or truncated by somebody else while we read it: nothing
 * but weights is read from a mapping after it was checked, and sp_mapped_check tells whether the file is as it was.
 */
#ifndef SP_FILE_H
#define SP_FILE_H

#include "base/base.h"

typedef struct sp_mapped {
    const uint8_t *data; /* read-only; size bytes */
    size_t size;
    int kept;         /* descriptor of the file plus 1; 0: none */
    int64_t mtime_ns; /* when it was opened */
    sparta_ctx *cx;   /* a copy: whose memory it is; NULL: mapped */
} sp_mapped;
sparta_status sp_mapped_open(sparta_ctx *cx, const char *path, sp_mapped *out) SP_MUST;
/* `relative` beneath `folder`: refuses absolute paths, "..", symbolic links, hard links (st_nlink > 1), non-regular files. */
sparta_status sp_mapped_open_beneath(sparta_ctx *cx, const char *folder, const char *relative,
                                     sp_mapped *out) SP_MUST;
void sp_mapped_close(sp_mapped *m);
/* E_IO when the file was written since it was opened: what was read of it may be a mixture of two files. A copy is always as it was,
 * and so is a file that was replaced (renamed over): its old contents stay mapped. `path` is for the message. */
sparta_status sp_mapped_check(sparta_ctx *cx, const sp_mapped *m, const char *path) SP_MUST;
/* What lies in the range has been copied: its memory may go, and comes back from the file if it is read after all. A range outside of the
 * mapping is left alone. */
void sp_mapped_forget(const sp_mapped *m, const void *from, size_t size);

typedef struct sp_atomic sp_atomic;                                  /* a file being written */
sp_atomic *sp_atomic_open(sparta_ctx *cx, const char *path) SP_MUST; /* NULL: message in the context */
sparta_status sp_atomic_write(sp_atomic *f, const void *bytes, size_t n) SP_MUST;
sparta_status sp_atomic_align(sp_atomic *f, size_t to) SP_MUST; /* zeros up to a multiple of `to` */
uint64_t sp_atomic_offset(const sp_atomic *f);
/* Overwrite bytes already written, e.g. a header. */
sparta_status sp_atomic_patch(sp_atomic *f, uint64_t offset, const void *bytes, size_t n) SP_MUST;
/* The end, which frees f: sync and rename when all went well so far, else the temporary file goes and `so_far` is the answer. f NULL is
 * fine with a failure. */
sparta_status sp_atomic_end(sp_atomic *f, sparta_status so_far) SP_MUST;
/* A whole small file at once. */
sparta_status sp_file_write(sparta_ctx *cx, const char *path, const void *bytes, size_t n) SP_MUST;
/* Terminated; free with sp_free. */
sparta_status sp_file_read(sparta_ctx *cx, const char *path, size_t limit, char **bytes, size_t *n) SP_MUST;
/* Like mkdir -p; an existing one is fine. */
sparta_status sp_make_folder(sparta_ctx *cx, const char *path) SP_MUST;

#endif
