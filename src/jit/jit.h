/* jit: source text in, function out.
 *
 *      text + target + compiler --> key (SHA-256)
 *        memory   has this process loaded it already?
 *        cache    <cache>/kernels/<key>.so, its HMAC right?
 *        compile  the compiler of the target's device (cc -O3 <flags> -shared), by argv, limits on time, memory, output
 *        none     SPARTA_E_COMPILER: no compiler, or it failed, or it hung
 *
 * Rungs of a ladder: the first that answers wins; when none does the caller uses its portable built-in.
 *
 * Only a cancellation and a lack of memory end a climb with anything but E_COMPILER. A compiler that hung (60
 * s, or SPARTA_CC_TIMEOUT seconds) is not tried again in this process. SPARTA_CACHE=off in the environment
 * does without the cache.
 *
 * The text includes no headers and contains nothing from a model but numbers. The cache folder is 0700 and
 * ours, or it is not used (a note says so); entries are authenticated with a per-user key (0600) and written
 * by atomic rename, so several processes may compile at once. Loading an object runs code: bytes come from
 * this compiler, this cache, or a package that the user chose to run.
 */
#ifndef SP_JIT_H
#define SP_JIT_H

#include "device/device.h"

/* Machine code that is loaded; shared and kept until the process ends or the last close. */
typedef struct sp_object {
    void *handle;
    const uint8_t *bytes; /* the shared object itself, for packages */
    size_t size;
    uint8_t digest[32]; /* SHA-256 of bytes */
} sp_object;

typedef enum { SP_JIT_MEMORY, SP_JIT_CACHE, SP_JIT_COMPILED } sp_jit_rung;

/* Compile (or find) `text` for `target`. The object belongs to the process-wide table: close it once per get. */
sparta_status sp_jit_get(sparta_ctx *cx, sp_target target, const char *text, const sp_object **out,
                         sp_jit_rung *rung) SP_MUST;
/* The same for several texts, whose compilers run side by side, one a core. out[i] is NULL where there is no object, or where it could not be
 * made here: sp_jit_get then makes it, or says why not. */
sparta_status sp_jit_get_all(sparta_ctx *cx, sp_target target, int n, const char *const *text,
                             const sp_object **out) SP_MUST;
/* Load machine code from memory (a package's). Equal bytes are loaded once. E_FORMAT: no shared object for this machine. */
sparta_status sp_jit_load(sparta_ctx *cx, const void *bytes, size_t n, const sp_object **out) SP_MUST;
void sp_jit_close(const sp_object *o);
void *sp_jit_symbol(const sp_object *o, const char *name); /* or NULL */

/* For doctor: the compiler ("" when none) with its version line (or why there is none), the cache folder and
 * its problem ("" or the reason why it is not used). */
typedef struct sp_jit_state {
    char compiler[256], version[256], cache[512], cache_problem[256];
    bool cache_moved; /* it is root's own, since HOME is another user's */
} sp_jit_state;
void sp_jit_describe(sparta_ctx *cx, sp_jit_state *out);

#endif
