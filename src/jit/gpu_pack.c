/* Kernels for GPUs in a file: compiled ahead, carried to machines without NVRTC.
 *
 *     | head      "spgpukn1", version, kernels, size of the file, SHA-256 of all that follows the head |
 *     | kernels   each: key (as the cache's: text, target, chip, version), where its image is, its size |
 *     | images    cubins, or PTX with its final 0, at multiples of 16 |
 *
 * Integers are little-endian. A file is read whole, checked and kept for the process; whoever loads one runs the code in it, as with a package. Files are a list that
 * only grows: readers take no lock. */
#include "file/file.h"
#include "jit/gpu.h"
#include "jit/inside.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, ALIGN = 16, MOST_KERNELS = 1 << 16, MOST_FILES = 64, ELF_HEAD = 64 };
#define MOST_BYTES ((size_t)512 << 20)
static const char magic[8] = {'s', 'p', 'g', 'p', 'u', 'k', 'n', '1'};

typedef struct head {
    char magic[8];
    uint32_t version, kernels;
    uint64_t size;
    uint8_t digest[32], reserved[8];
} head;
typedef struct entry {
    uint8_t key[32];
    uint64_t offset, size;
    uint8_t reserved[16];
} entry;
_Static_assert(sizeof(head) == 64 && sizeof(entry) == 64, "as in the file");

/* ------------------------------------------------------------------ reading */
typedef struct loaded {
    struct loaded *next;
    uint8_t *bytes;
    size_t size;
    uint32_t kernels;
} loaded;
static _Atomic(loaded *) files;

static entry entry_at(const uint8_t *bytes, uint32_t i)
{
    entry e;
    memcpy(&e, bytes + sizeof(head) + i * sizeof e, sizeof e);
    return e;
}

/* The driver reads PTX up to its 0, and an ELF by its own head. */
static bool is_image(const uint8_t *image, size_t size)
{
    if (size >= ELF_HEAD && !memcmp(image, "\177ELF", 4)) return true;
    return size > 1 && image[size - 1] == 0 && memchr(image, 0, size) == image + size - 1;
}

const char *sp_gpu_pack_check(const uint8_t *bytes, size_t size)
{
    head h;
    uint8_t digest[32];
    if (size < sizeof h || memcmp(bytes, magic, sizeof magic)) return "it holds no kernels for GPUs";
    memcpy(&h, bytes, sizeof h);
    if (h.version != VERSION) return "it is of another version of this format; pack it again";
    if (h.size != size) return "it is cut off, or something follows it";
    if (h.kernels > MOST_KERNELS || h.kernels > (size - sizeof h) / sizeof(entry))
        return "its table does not fit into it";
    sp_sha256_of(bytes + sizeof h, size - sizeof h, digest);
    if (memcmp(digest, h.digest, sizeof digest)) return "it is damaged: its digest is another";
    const uint64_t first = sizeof h + (uint64_t)h.kernels * sizeof(entry);
    for (uint32_t i = 0; i < h.kernels; i++) {
        const entry e = entry_at(bytes, i);
        if (e.offset < first || e.offset % ALIGN || e.offset > size || e.size > size - e.offset ||
            e.size > SP_OBJECT_MOST || !is_image(bytes + e.offset, e.size))
            return "a kernel of it is none";
    }
    return NULL;
}

static int count_files(void)
{
    int n = 0;
    for (const loaded *f = atomic_load(&files); f; f = f->next) n++;
    return n;
}

/* Into memory of the process: it outlives every context. */
static sparta_status keep(sparta_ctx *cx, const void *bytes, size_t size)
{
    loaded *f = malloc(sizeof *f);
    uint8_t *copy = f ? malloc(size) : NULL;
    head h;
    if (!copy) {
        free(f);
        return sp_fail(cx, SPARTA_E_MEMORY, "no memory for %zu bytes of kernels", size);
    }
    memcpy(copy, bytes, size);
    memcpy(&h, bytes, sizeof h);
    *f = (loaded){atomic_load(&files), copy, size, h.kernels};
    while (!atomic_compare_exchange_weak(&files, &f->next, f)) continue;
    return SPARTA_OK;
}

sparta_status sp_gpu_pack_open(sparta_ctx *cx, const char *path, int *kernels)
{
    char *bytes;
    size_t size;
    head h;
    if (count_files() >= MOST_FILES)
        return sp_fail(cx, SPARTA_E_LIMIT, "%s: %d files of kernels are loaded already; pack them into one",
                       path, (int)MOST_FILES);
    SP_TRY(sp_file_read(cx, path, MOST_BYTES, &bytes, &size));
    const char *wrong = sp_gpu_pack_check((const uint8_t *)bytes, size);
    sparta_status status =
        wrong ? sp_fail(cx, SPARTA_E_FORMAT, "%s: %s", path, wrong) : keep(cx, bytes, size);
    if (status == SPARTA_OK) {
        memcpy(&h, bytes, sizeof h);
        *kernels = (int)h.kernels;
    }
    sp_free(cx, bytes);
    return status;
}

const void *sp_gpu_pack_find(const uint8_t key[32], size_t *size)
{
    for (const loaded *f = atomic_load(&files); f; f = f->next)
        for (uint32_t i = 0; i < f->kernels; i++) {
            const entry e = entry_at(f->bytes, i);
            if (memcmp(e.key, key, sizeof e.key)) continue;
            *size = (size_t)e.size;
            return f->bytes + e.offset;
        }
    return NULL;
}

/* ------------------------------------------------------------------ the environment's */
static struct {
    sparta_status status;
    char why[400];
} given;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_given(void)
{
    const char *path = getenv("SPARTA_GPU_KERNELS");
    sparta_ctx *cx = path && *path ? sparta_ctx_create(NULL) : NULL;
    int kernels;
    if (!cx) return;
    given.status = sp_gpu_pack_open(cx, path, &kernels);
    snprintf(given.why, sizeof given.why, "SPARTA_GPU_KERNELS: %s; unset it, or name another file",
             sparta_message(cx));
    sparta_ctx_free(cx);
}

sparta_status sp_gpu_pack_given(const sp_complaint *c)
{
    pthread_once(&once, open_given);
    return given.status ? sp_refuse(c, given.status, "%s", given.why) : SPARTA_OK;
}

/* ------------------------------------------------------------------ writing */
typedef struct image {
    struct image *next;
    uint8_t key[32];
    void *bytes; /* malloc'ed */
    size_t size;
} image;
struct sp_gpu_pack {
    sparta_ctx *cx;
    int n;
    image *first, **last;
};

sp_gpu_pack *sp_gpu_pack_create(sparta_ctx *cx)
{
    sp_gpu_pack *p = sp_zalloc(cx, sizeof *p);
    if (!p) return NULL;
    p->cx = cx;
    p->last = &p->first;
    return p;
}

void sp_gpu_pack_free(sp_gpu_pack *p)
{
    if (!p) return;
    for (image *i = p->first, *next; i; i = next) {
        next = i->next;
        free(i->bytes);
        sp_free(p->cx, i);
    }
    sp_free(p->cx, p);
}

int sp_gpu_pack_count(const sp_gpu_pack *p)
{
    return p->n;
}

sparta_status sp_gpu_pack_add(sp_gpu_pack *p, sp_target target, int architecture, const char *text)
{
    char said[800] = "";
    const sp_complaint c = {.where = "kernels", .text = said, .size = sizeof said};
    uint8_t key[32];
    sp_gpu_key(target, architecture / 10, architecture % 10, text, key);
    for (const image *i = p->first; i; i = i->next)
        if (!memcmp(i->key, key, sizeof key)) return SPARTA_OK;
    if (p->n == MOST_KERNELS)
        return sp_fail(p->cx, SPARTA_E_LIMIT, "kernels: more than %d", (int)MOST_KERNELS);
    SP_TRY(sp_check_cancel(p->cx));
    image *new = sp_zalloc(p->cx, sizeof *new);
    SP_NEED(p->cx, new);
    const sparta_status status = sp_gpu_compile(&c, target, architecture, text, &new->bytes, &new->size);
    if (status) {
        sp_free(p->cx, new);
        return sp_fail(p->cx, status, "%s", said);
    }
    memcpy(new->key, key, sizeof key);
    *p->last = new;
    p->last = &new->next;
    p->n++;
    return SPARTA_OK;
}

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t size_of(const sp_gpu_pack *p)
{
    uint64_t n = sizeof(head) + (uint64_t)p->n * sizeof(entry);
    for (const image *i = p->first; i; i = i->next) n = aligned(n) + i->size;
    return n;
}

static void fill(const sp_gpu_pack *p, uint8_t *bytes, size_t size)
{
    head h = {.version = VERSION, .kernels = (uint32_t)p->n, .size = size};
    uint64_t at = sizeof h + (uint64_t)p->n * sizeof(entry);
    uint8_t *to = bytes + sizeof h;
    for (const image *i = p->first; i; i = i->next, to += sizeof(entry)) {
        entry e = {.offset = aligned(at), .size = i->size};
        memcpy(e.key, i->key, sizeof e.key);
        memcpy(to, &e, sizeof e);
        memcpy(bytes + e.offset, i->bytes, i->size);
        at = e.offset + e.size;
    }
    memcpy(h.magic, magic, sizeof magic);
    sp_sha256_of(bytes + sizeof h, size - sizeof h, h.digest);
    memcpy(bytes, &h, sizeof h);
}

sparta_status sp_gpu_pack_save(const sp_gpu_pack *p, const char *path)
{
    const uint64_t size = size_of(p);
    if (size > MOST_BYTES)
        return sp_fail(p->cx, SPARTA_E_LIMIT, "%s: %llu bytes of kernels; make several files", path,
                       (unsigned long long)size);
    uint8_t *bytes = sp_zalloc(p->cx, (size_t)size);
    SP_NEED(p->cx, bytes);
    fill(p, bytes, (size_t)size);
    const sparta_status status = sp_file_write(p->cx, path, bytes, (size_t)size);
    sp_free(p->cx, bytes);
    return status;
}
