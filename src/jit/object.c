/* What this process has loaded: a table of shared objects by the digest of their bytes.
 *
 * The table belongs to the process: an object may be shared by several contexts and outlive the one that
 * loaded it. So its memory is malloc's and not a context's; it is bounded by SP_OBJECT_MOST for each
 * object, and the size of a kernel is some kilobytes.
 *
 * An object is loaded from memory (memfd), so that what was checked is what runs; where that is not possible,
 * from a file in a private folder that is gone again right after. */
#include "jit/inside.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct alias { /* different texts may compile to the same bytes */
    struct alias *next;
    uint8_t key[32];
} alias;

typedef struct loaded {
    sp_object object; /* first: what callers hold is a pointer to this */
    struct loaded *next;
    alias *aliases;
    uint64_t references;
    uint8_t bytes[];
} loaded;

static loaded *table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ is it a shared object at all?
 * The loader maps what the program headers say; a file that ends before that would kill the process when it
 * is touched. */

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OUR_MACHINE = EM_AARCH64 };
#else
enum { OUR_MACHINE = EM_NONE };
#endif

static bool segments_fit(const uint8_t *bytes, size_t n, const Elf64_Ehdr *e)
{
    size_t end;
    if (e->e_phentsize != sizeof(Elf64_Phdr)) return false;
    if (!sp_size_add(e->e_phoff, (size_t)e->e_phnum * sizeof(Elf64_Phdr), &end) || end > n) return false;
    for (int i = 0; i < e->e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, bytes + e->e_phoff + (size_t)i * sizeof p, sizeof p);
        if (!sp_size_add(p.p_offset, p.p_filesz, &end) || end > n) return false;
        if (p.p_type == PT_LOAD && (p.p_memsz > SP_OBJECT_MOST || p.p_filesz > p.p_memsz)) return false;
    }
    return e->e_phnum > 0;
}

static bool is_object(const uint8_t *bytes, size_t n)
{
    Elf64_Ehdr e;
    if (n < sizeof e) return false;
    memcpy(&e, bytes, sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_type != ET_DYN)
        return false;
    return e.e_machine == OUR_MACHINE && segments_fit(bytes, n, &e);
}

/* ------------------------------------------------------------------ loading */

/* /proc/self/fd/<fd>, spelled differently each time ("/." for a one, "//" for a zero): the loader takes a
 * name that it has seen for the object it has seen, and descriptors are used again. */
static void fresh_path(char *out, size_t size, int fd)
{
    static uint32_t count; /* under the lock */
    char spelling[65];
    count++;
    for (int i = 0; i < 32; i++) memcpy(spelling + 2 * i, count >> i & 1 ? "/." : "//", 2);
    spelling[64] = 0;
    snprintf(out, size, "/proc/self/fd%s/%d", spelling, fd);
}

static int memory_file(void)
{
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
    unsigned ours = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("sparta-kernel", ours | MFD_EXEC);
    return fd < 0 && errno == EINVAL ? memfd_create("sparta-kernel", ours)
                                     : fd; /* kernels before 6.3 do not know the flag */
}

static void *open_memory(const uint8_t *bytes, size_t n)
{
    char path[128];
    void *handle = NULL;
    int fd = memory_file();
    if (fd < 0) return NULL;
    if (!sp_write_all(fd, bytes, n)) {
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
        fresh_path(path, sizeof path, fd);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    close(fd);
    return handle;
}

static sparta_status open_in(sparta_ctx *cx, const sp_cache *cache, const uint8_t *bytes, size_t n,
                             void **handle)
{
    char folder[600], path[640];
    SP_TRY(sp_temp_create(cx, cache, folder, sizeof folder));
    snprintf(path, sizeof path, "%s/kernel.so", folder);
    int error = sp_write_at(AT_FDCWD, path, bytes, n, NULL, 0);
    *handle = error ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = error ? strerror(error) : *handle ? "" : dlerror();
    sparta_status status = SPARTA_OK;
    if (!*handle)
        status =
            sp_fail(cx, SPARTA_E_FORMAT, "kernel: it cannot be loaded: %s", why ? why : "no reason given");
    sp_temp_remove(folder);
    return status;
}

/* In the cache, or where temporary files belong when its disk is full. */
static sparta_status open_file(sparta_ctx *cx, const uint8_t *bytes, size_t n, void **handle)
{
    sp_cache cache;
    sp_cache_open(cx, &cache);
    sparta_status status = open_in(cx, &cache, bytes, n, handle);
    if (status == SPARTA_E_FORMAT && cache.dir >= 0) status = open_in(cx, NULL, bytes, n, handle);
    sp_cache_close(&cache);
    return status;
}

static sparta_status make(sparta_ctx *cx, const void *bytes, size_t n, const uint8_t digest[32], loaded **out)
{
    loaded *l = malloc(sizeof *l + n);
    if (!l) return sp_fail(cx, SPARTA_E_MEMORY, "kernel: no memory for %zu bytes of machine code", n);
    memset(l, 0, sizeof *l);
    memcpy(l->bytes, bytes, n);
    memcpy(l->object.digest, digest, 32);
    l->object.bytes = l->bytes;
    l->object.size = n;
    l->object.handle = open_memory(l->bytes, n);
    sparta_status status = l->object.handle ? SPARTA_OK : open_file(cx, l->bytes, n, &l->object.handle);
    if (status) {
        free(l);
        return status;
    }
    *out = l;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the table */

static bool has_alias(const loaded *l, const uint8_t key[32])
{
    const alias *a = l->aliases;
    while (a && memcmp(a->key, key, 32)) a = a->next;
    return a != NULL;
}

/* Without memory for it the next look goes to the cache: slower, not wrong. */
static void add_alias(loaded *l, const uint8_t *key)
{
    if (!key || has_alias(l, key)) return;
    alias *a = malloc(sizeof *a);
    if (!a) return;
    memcpy(a->key, key, 32);
    a->next = l->aliases;
    l->aliases = a;
}

static sparta_status load_locked(sparta_ctx *cx, const void *bytes, size_t n, const uint8_t *key,
                                 const sp_object **out)
{
    uint8_t digest[32];
    sp_sha256_of(bytes, n, digest);
    loaded *l = table;
    while (l && memcmp(l->object.digest, digest, 32)) l = l->next;
    if (!l) {
        SP_TRY(make(cx, bytes, n, digest, &l));
        l->next = table;
        table = l;
    }
    add_alias(l, key);
    l->references++;
    *out = &l->object;
    return SPARTA_OK;
}

sparta_status sp_object_load(sparta_ctx *cx, const void *bytes, size_t n, const uint8_t *key,
                             const sp_object **out)
{
    if (n > SP_OBJECT_MOST)
        return sp_fail(cx, SPARTA_E_LIMIT, "kernel: %zu bytes of machine code; at most %d are loaded", n,
                       SP_OBJECT_MOST);
    if (!bytes || !is_object(bytes, n))
        return sp_fail(cx, SPARTA_E_FORMAT, "kernel: %zu bytes that are no shared object for this machine",
                       n);
    pthread_mutex_lock(&lock);
    sparta_status status = load_locked(cx, bytes, n, key, out);
    pthread_mutex_unlock(&lock);
    return status;
}

const sp_object *sp_object_find(const uint8_t key[32])
{
    pthread_mutex_lock(&lock);
    loaded *l = table;
    while (l && !has_alias(l, key)) l = l->next;
    if (l) l->references++;
    pthread_mutex_unlock(&lock);
    return l ? &l->object : NULL;
}

static void unload(loaded *l)
{
    dlclose(l->object.handle);
    while (l->aliases) {
        alias *a = l->aliases;
        l->aliases = a->next;
        free(a);
    }
    free(l);
}

void sp_jit_close(const sp_object *o)
{
    if (!o) return;
    pthread_mutex_lock(&lock);
    loaded **at = &table;
    while (*at && &(*at)->object != o) at = &(*at)->next;
    loaded *l = *at;
    if (l && --l->references == 0) {
        *at = l->next;
        unload(l);
    }
    pthread_mutex_unlock(&lock);
}

void *sp_jit_symbol(const sp_object *o, const char *name)
{
    return o ? dlsym(o->handle, name) : NULL;
}
