/* The ladder: memory, cache, compile; of one text, or of several whose compilers run side by side. What is compiled is loaded before it is kept: the cache never holds what does not load. */
#include "jit/inside.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MOST = 16 << 20 };

/* ------------------------------------------------------------------ the key */

/* Each part with its final 0, so that no two lists of parts read the same. */
static void add_part(sp_sha256 *s, const char *part)
{
    sp_sha256_add(s, part, strlen(part) + 1);
}

static void make_key(const sp_compiler *c, sp_target target, const char *text, uint8_t key[32])
{
    char program[64];
    sp_sha256 s;
    snprintf(program, sizeof program, "%lld %lld", (long long)c->size, (long long)c->mtime_ns);
    sp_sha256_init(&s);
    add_part(&s, SPARTA_VERSION);
    add_part(&s, c->path);
    add_part(&s, c->version);
    add_part(&s, program);
    add_part(&s, sp_compiler_flags(sp_target_device(target)));
    add_part(&s, sp_target_flags(target));
    add_part(&s, text);
    sp_sha256_end(&s, key);
}

/* ------------------------------------------------------------------ the rung that compiles */

static sparta_status cannot(sparta_ctx *cx, const char *what, int error)
{
    if (error == ENOMEM) return sp_ctx_status(cx);
    return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s: %s", what, strerror(error));
}

static int put_text(const char *folder, const char *text)
{
    char path[SP_FOLDER + 16];
    snprintf(path, sizeof path, "%s/kernel.c", folder);
    return sp_write_at(AT_FDCWD, path, text, strlen(text), NULL, 0);
}

static int take_object(sparta_ctx *cx, const char *folder, uint8_t **bytes, size_t *size)
{
    char path[SP_FOLDER + 16];
    snprintf(path, sizeof path, "%s/kernel.so", folder);
    return sp_read_at(cx, AT_FDCWD, path, SP_OBJECT_MOST, bytes, size, NULL);
}

static sparta_status compile_in(sparta_ctx *cx, const sp_compiler *c, sp_target target, const char *text,
                                const char *folder, uint8_t **bytes, size_t *size)
{
    int error = put_text(folder, text);
    if (error) return cannot(cx, "its input cannot be written", error);
    SP_TRY(sp_compiler_run(cx, c, target, folder));
    error = take_object(cx, folder, bytes, size);
    return error ? cannot(cx, "its output cannot be read", error) : SPARTA_OK;
}

/* `cache` NULL: in $TMPDIR. */
static sparta_status compile(sparta_ctx *cx, const sp_cache *cache, const sp_compiler *c, sp_target target,
                             const char *text, uint8_t **bytes, size_t *size)
{
    char folder[SP_FOLDER];
    sparta_status status = sp_temp_create(cx, cache, folder, sizeof folder);
    if (status == SPARTA_E_IO) return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s", sparta_message(cx));
    SP_TRY(status);
    status = compile_in(cx, c, target, text, folder, bytes, size);
    sp_temp_remove(folder);
    return status;
}

/* ------------------------------------------------------------------ the ladder */

typedef struct request {
    sp_compiler compiler;
    sp_cache cache;
    sp_target target;
    const char *text;
    uint8_t key[32];
} request;

/* *out stays NULL when the cache does not have it. */
static sparta_status from_cache(sparta_ctx *cx, const request *r, const sp_object **out)
{
    uint8_t *bytes;
    size_t size;
    SP_TRY(sp_entry_read(cx, &r->cache, r->key, &bytes, &size));
    if (!bytes) return SPARTA_OK;
    sparta_status status = sp_object_load(cx, bytes, size, r->key, out);
    sp_free(cx, bytes);
    /* It loaded when it was written; what has changed since (a library, a limit) a compiler may know how to meet. */
    return status == SPARTA_E_FORMAT ? SPARTA_OK : status;
}

/* A full disk shows in many ways: the text, the compiler's own files or the object cannot be written. So what fails in the
 * cache is tried once more where temporary files belong; when that fails too, the first failure says most. */
static sparta_status compile_somewhere(sparta_ctx *cx, const request *r, uint8_t **bytes, size_t *size)
{
    char first[512];
    sparta_status status = compile(cx, &r->cache, &r->compiler, r->target, r->text, bytes, size);
    if (status != SPARTA_E_COMPILER || r->cache.dir < 0) return status;
    snprintf(first, sizeof first, "%s", sparta_message(cx));
    status = compile(cx, NULL, &r->compiler, r->target, r->text, bytes, size);
    if (status == SPARTA_E_COMPILER) return sp_fail(cx, status, "%s", first);
    SP_TRY(status);
    sp_note(cx, "cache: %s cannot be compiled in (its disk may be full); kernels are compiled in TMPDIR",
            r->cache.path);
    return SPARTA_OK;
}

static sparta_status from_compiler(sparta_ctx *cx, const request *r, const sp_object **out)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    SP_TRY(compile_somewhere(cx, r, &bytes, &size));
    sparta_status status = sp_object_load(cx, bytes, size, r->key, out);
    if (status == SPARTA_OK) sp_entry_write(cx, &r->cache, r->key, bytes, size);
    sp_free(cx, bytes);
    if (status != SPARTA_E_FORMAT && status != SPARTA_E_IO) return status;
    return sp_fail(cx, SPARTA_E_COMPILER, "compiler: what %s made does not load: %s", r->compiler.path,
                   sparta_message(cx));
}

static sparta_status climb(sparta_ctx *cx, request *r, const sp_object **found, sp_jit_rung *rung)
{
    SP_TRY(sp_compiler_find(cx, sp_target_device(r->target), &r->compiler));
    make_key(&r->compiler, r->target, r->text, r->key);
    *rung = SP_JIT_MEMORY;
    if ((*found = sp_object_find(r->key))) return SPARTA_OK;
    sp_cache_open(cx, &r->cache);
    *rung = SP_JIT_CACHE;
    sparta_status status = from_cache(cx, r, found);
    if (status == SPARTA_OK && !*found) {
        *rung = SP_JIT_COMPILED;
        status = from_compiler(cx, r, found);
    }
    sp_cache_close(&r->cache);
    return status;
}

sparta_status sp_jit_get(sparta_ctx *cx, sp_target target, const char *text, const sp_object **out,
                         sp_jit_rung *rung)
{
    request r = {.target = target, .text = text, .cache.dir = -1};
    const sp_object *found = NULL;
    sp_jit_rung from = SP_JIT_MEMORY;
    SP_ASSERT(sp_target_device(target) == SP_DEVICE_CPU); /* gpu.h has the others */
    SP_TRY(sp_check_cancel(cx));
    if (strlen(text) > TEXT_MOST)
        return sp_fail(cx, SPARTA_E_LIMIT, "kernel: %zu bytes of text; at most %d are compiled", strlen(text),
                       TEXT_MOST);
    sparta_status status = climb(cx, &r, &found, &from);
    if (status == SPARTA_E_COMPILER) sp_compiler_note(cx);
    SP_TRY(status);
    if (rung) *rung = from;
    *out = found;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ several texts */

typedef struct missing { /* a text that neither memory nor the cache has */
    int at;
    uint8_t key[32];
} missing;

typedef struct several {
    sparta_ctx *cx;
    request r; /* of each in turn: compiler, cache and target are of all */
    int n, n_missing;
    const char *const *text;
    const sp_object **out;
    missing *missing;
    sp_compilation *run; /* of each that is missing */
} several;

/* In memory, in the cache, or missing; a text that is there twice is missing once. */
static sparta_status look_for(several *all, int i)
{
    request *r = &all->r;
    bool twin = false;
    r->text = all->text[i];
    make_key(&r->compiler, r->target, r->text, r->key);
    for (int k = 0; k < all->n_missing; k++) twin |= !memcmp(all->missing[k].key, r->key, 32);
    if (twin || strlen(r->text) > TEXT_MOST || (all->out[i] = sp_object_find(r->key))) return SPARTA_OK;
    SP_TRY(from_cache(all->cx, r, &all->out[i]));
    if (all->out[i]) return SPARTA_OK;
    /* The longest text first: what takes longest should not be what is left for the end. */
    int at = all->n_missing++;
    for (; at > 0 && strlen(all->text[all->missing[at - 1].at]) < strlen(r->text); at--)
        all->missing[at] = all->missing[at - 1];
    all->missing[at].at = i;
    memcpy(all->missing[at].key, r->key, 32);
    return SPARTA_OK;
}

static sparta_status take(several *all, int k)
{
    const missing *m = &all->missing[k];
    uint8_t *bytes;
    size_t size;
    const int error = all->run[k].made ? take_object(all->cx, all->run[k].folder, &bytes, &size) : EINVAL;
    if (error) return error == ENOMEM ? sp_ctx_status(all->cx) : SPARTA_OK;
    const sparta_status s = sp_object_load(all->cx, bytes, size, m->key, &all->out[m->at]);
    if (s == SPARTA_OK) sp_entry_write(all->cx, &all->r.cache, m->key, bytes, size);
    sp_free(all->cx, bytes);
    return s;
}

/* Cancellation and a lack of memory are failures; whatever else goes wrong, sp_jit_get meets and tells. */
static sparta_status forgive(sparta_ctx *cx, sparta_status s)
{
    if (s == SPARTA_OK || s == SPARTA_E_CANCELLED || s == SPARTA_E_MEMORY) return s;
    if (s == SPARTA_E_COMPILER) sp_compiler_note(cx);
    sp_ctx_clear(cx);
    return SPARTA_OK;
}

static sparta_status compile_all(several *all)
{
    int folders = 0;
    sparta_status s = SPARTA_OK;
    for (; folders < all->n_missing && s == SPARTA_OK; folders++) {
        sp_compilation *run = &all->run[folders];
        s = sp_temp_create(all->cx, &all->r.cache, run->folder, sizeof run->folder);
        if (s != SPARTA_OK) break;
        if (put_text(run->folder, all->text[all->missing[folders].at])) s = SPARTA_E_IO;
    }
    if (s == SPARTA_OK)
        s = sp_compiler_run_all(all->cx, &all->r.compiler, all->r.target, all->run, all->n_missing);
    for (int k = 0; k < all->n_missing && s == SPARTA_OK; k++) s = forgive(all->cx, take(all, k));
    for (int k = 0; k < folders; k++) sp_temp_remove(all->run[k].folder);
    return s;
}

static sparta_status find_all(several *all)
{
    all->missing = sp_alloc_array(all->cx, (size_t)all->n, sizeof *all->missing);
    SP_NEED(all->cx, all->missing);
    SP_TRY(sp_compiler_find(all->cx, sp_target_device(all->r.target), &all->r.compiler));
    sp_cache_open(all->cx, &all->r.cache);
    for (int i = 0; i < all->n; i++) SP_TRY(look_for(all, i));
    if (all->n_missing < 2) return SPARTA_OK; /* nothing stands beside it */
    all->run = sp_alloc_array(all->cx, (size_t)all->n_missing, sizeof *all->run);
    SP_NEED(all->cx, all->run);
    memset(all->run, 0, (size_t)all->n_missing * sizeof *all->run);
    return compile_all(all);
}

sparta_status sp_jit_get_all(sparta_ctx *cx, sp_target target, int n, const char *const *text,
                             const sp_object **out)
{
    several all = {.cx = cx, .r = {.target = target, .cache.dir = -1}, .n = n, .text = text, .out = out};
    SP_ASSERT(sp_target_device(target) == SP_DEVICE_CPU);
    for (int i = 0; i < n; i++) out[i] = NULL;
    sparta_status s = sp_check_cancel(cx);
    if (s == SPARTA_OK && n) s = forgive(cx, find_all(&all));
    sp_cache_close(&all.r.cache);
    sp_free(cx, all.run);
    sp_free(cx, all.missing);
    for (int i = 0; i < n && s != SPARTA_OK; i++) {
        sp_jit_close(out[i]);
        out[i] = NULL;
    }
    return s;
}

sparta_status sp_jit_load(sparta_ctx *cx, const void *bytes, size_t n, const sp_object **out)
{
    return sp_object_load(cx, bytes, n, NULL, out);
}

/* ------------------------------------------------------------------ for doctor */

void sp_jit_describe(sparta_ctx *cx, sp_jit_state *out)
{
    sp_compiler c;
    sp_cache cache;
    memset(out, 0, sizeof *out);
    if (sp_compiler_find(cx, SP_DEVICE_CPU, &c) == SPARTA_OK) {
        memcpy(out->compiler, c.path, sizeof out->compiler);
        memcpy(out->version, c.version, sizeof out->version);
    } else {
        snprintf(out->version, sizeof out->version, "%.255s", sparta_message(cx));
        sp_ctx_clear(cx);
    }
    sp_cache_open(cx, &cache);
    memcpy(out->cache, cache.path, sizeof out->cache);
    memcpy(out->cache_problem, cache.problem, sizeof out->cache_problem);
    out->cache_moved = cache.moved;
    sp_cache_close(&cache);
}
