/* The inside of jit: the pieces that the ladder (jit.c) puts together. */
#ifndef SP_JIT_INSIDE_H
#define SP_JIT_INSIDE_H

#include "jit/jit.h"

enum {
    SP_OBJECT_MOST = 64 << 20,
    SP_FOLDER = 600
}; /* bytes of one shared object; of the path of a temporary folder */

/* ------------------------------------------------------------------ folder.c: private folders */

/* The cache folder, open: what was checked is what is used, whatever happens to its path. */
typedef struct sp_cache {
    int dir;           /* -1: not used */
    char path[512];    /* "" when switched off */
    char problem[256]; /* "" or why it is not used */
    bool moved;        /* root's own, since HOME is another user's */
} sp_cache;
void sp_cache_open(sparta_ctx *cx, sp_cache *out);
void sp_cache_close(sp_cache *c);

/* A fresh 0700 folder: in the cache when it is given and used (its file system runs code for sure), else in $TMPDIR or /tmp. */
sparta_status sp_temp_create(sparta_ctx *cx, const sp_cache *c, char *path, size_t size) SP_MUST;
void sp_temp_remove(const char *path); /* with the files in it */

/* Files below an open folder (or AT_FDCWD). Reading takes regular files of ours only, follows no link, waits
 * for no pipe. They return 0 or an errno. EPERM: the file is somebody else's; EFBIG: past `most`. *bytes is
 * the context's. */
int sp_read_at(sparta_ctx *cx, int dir, const char *name, size_t most, uint8_t **bytes, size_t *size,
               int *mode);
int sp_write_all(int fd, const void *bytes, size_t n);
/* New, 0600. */
int sp_write_at(int dir, const char *name, const void *bytes, size_t n, const void *more, size_t m);

/* ------------------------------------------------------------------ cache.c: entries with their proof */

/* *bytes is NULL when there is no entry, or none that can be trusted. */
sparta_status sp_entry_read(sparta_ctx *cx, const sp_cache *c, const uint8_t key[32], uint8_t **bytes,
                            size_t *size) SP_MUST;
/* A failure to keep one is a note: the kernel is there all the same. */
void sp_entry_write(sparta_ctx *cx, const sp_cache *c, const uint8_t key[32], const void *bytes, size_t n);

/* ------------------------------------------------------------------ compiler.c */

typedef struct sp_compiler {
    char path[256], version[256];
    int64_t size, mtime_ns; /* of the program: an upgrade changes the key */
} sp_compiler;
/* The one for a device. E_COMPILER: there is none, or it does not answer. */
sparta_status sp_compiler_find(sparta_ctx *cx, sp_device device, sp_compiler *out) SP_MUST;
sparta_status sp_compiler_run(sparta_ctx *cx, const sp_compiler *c, sp_target target,
                              const char *folder) SP_MUST;
/* Several folders side by side, one compiler a core. What failed is not made, and only running it by itself tells why: one that
 * takes too long beside others may not when it is alone. */
typedef struct sp_compilation {
    char folder[SP_FOLDER];
    bool made;
} sp_compilation;
sparta_status sp_compiler_run_all(sparta_ctx *cx, const sp_compiler *c, sp_target target, sp_compilation *all,
                                  int n) SP_MUST;
/* One note about the compiler is enough, however many kernels it does not make. */
void sp_compiler_note(sparta_ctx *cx);
const char *sp_compiler_flags(sp_device device); /* common to all its targets */

/* ------------------------------------------------------------------ nvrtc.c */

/* A GPU's architecture, 90 for 9.0: can NVRTC make code for it? */
bool sp_nvrtc_knows(int architecture);
/* As sp_nvrtc_compile (gpu.h), for "--gpu-architecture=..."; sm_ gives a cubin, compute_ PTX. */
sparta_status sp_nvrtc_compile_for(const sp_complaint *c, const char *architecture, const char *text,
                                   void **image, size_t *size, char *log, size_t log_size) SP_MUST;

/* ------------------------------------------------------------------ gpu.c, gpu_pack.c */

/* What tells a kernel from others: its text, the target and the chip. */
void sp_gpu_key(sp_target target, int major, int minor, const char *text, uint8_t key[32]);
/* For a target on a chip, 90 for 9.0. *image is malloc'ed. */
sparta_status sp_gpu_compile(const sp_complaint *c, sp_target target, int architecture, const char *text,
                             void **image, size_t *size) SP_MUST;
/* What is wrong with the bytes of a file of kernels; NULL: nothing. */
const char *sp_gpu_pack_check(const uint8_t *bytes, size_t size);
/* The image in a file that was opened; NULL: there is none. */
const void *sp_gpu_pack_find(const uint8_t key[32], size_t *size);
/* The environment's file is open, or there is none. */
sparta_status sp_gpu_pack_given(const sp_complaint *c) SP_MUST;

/* ------------------------------------------------------------------ object.c: what this process has loaded */

/* Load (or share) an object; `key`, when given, is remembered so that the memory rung finds it. */
sparta_status sp_object_load(sparta_ctx *cx, const void *bytes, size_t n, const uint8_t *key,
                             const sp_object **out) SP_MUST;
const sp_object *sp_object_find(const uint8_t key[32]); /* with a reference for the caller, or NULL */

#endif
