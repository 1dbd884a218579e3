/* The ladder for a GPU's texts: files that were packed, cache, compile. An entry of the cache is a head and the image:
 *
 *     | mark | NVRTC that made it, 13002 | cubin or PTX ... |        32-bit words of this machine
 *
 * in the file and with the proof that cache.c draws. */
#include "jit/gpu.h"
#include "jit/inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK = 0x31475053 };
typedef struct head {
    uint32_t mark, version;
} head;

typedef struct request {
    const sp_complaint *c;
    const sp_gpu *gpu;
    sp_target target;
    const char *text, *entry;
    sparta_ctx *cx; /* of the cache; NULL: there is no memory for one, and no cache */
    sp_cache cache;
    uint8_t key[32];
} request;

/* ------------------------------------------------------------------ the key */
/* Each part with its final 0, as in jit.c. The GPU's own architecture counts: sm_80 may have become code for it. */
void sp_gpu_key(sp_target target, int major, int minor, const char *text, uint8_t key[32])
{
    char architecture[32];
    const char *part[] = {SPARTA_VERSION, "NVRTC", sp_target_flags(target), architecture, text};
    sp_sha256 s;
    snprintf(architecture, sizeof architecture, "%d.%d", major, minor);
    sp_sha256_init(&s);
    for (size_t i = 0; i < SP_COUNT(part); i++) sp_sha256_add(&s, part[i], strlen(part[i]) + 1);
    sp_sha256_end(&s, key);
}

/* ------------------------------------------------------------------ rungs */
/* NULL: there is none, or a newer NVRTC is here. */
static uint8_t *read_entry(const request *r, size_t *size)
{
    uint8_t *bytes = NULL;
    head h;
    if (!r->cx || sp_entry_read(r->cx, &r->cache, r->key, &bytes, size) != SPARTA_OK || !bytes) return NULL;
    if (*size > sizeof h) {
        memcpy(&h, bytes, sizeof h);
        if (h.mark == MARK && h.version >= (uint32_t)sp_nvrtc_version()) return bytes;
    }
    sp_free(r->cx, bytes);
    return NULL;
}

/* False: the cache does not have it, or what it has does not load here while there is an NVRTC that may do better. */
static bool from_cache(const request *r, sp_gpu_kernel *out, sparta_status *status)
{
    size_t size = 0;
    uint8_t *bytes = read_entry(r, &size);
    if (!bytes) return false;
    *status = sp_gpu_load(r->c, r->gpu, bytes + sizeof(head), size - sizeof(head), r->entry, out);
    sp_free(r->cx, bytes);
    return *status == SPARTA_OK || *status == SPARTA_E_MEMORY || !sp_nvrtc_version();
}

static void keep(const request *r, const void *image, size_t size)
{
    const head h = {MARK, (uint32_t)sp_nvrtc_version()};
    uint8_t *bytes = r->cx ? malloc(sizeof h + size) : NULL;
    if (!bytes) return;
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, image, size);
    sp_entry_write(r->cx, &r->cache, r->key, bytes, sizeof h + size);
    free(bytes);
}

sparta_status sp_gpu_compile(const sp_complaint *c, sp_target target, int architecture, const char *text,
                             void **image, size_t *size)
{
    char option[64];
    snprintf(option, sizeof option, "%s", sp_target_flags(target));
    if (target == SP_TARGET_SM80 && sp_nvrtc_knows(architecture))
        snprintf(option, sizeof option, "--gpu-architecture=sm_%d", architecture);
    return sp_nvrtc_compile_for(c, option, text, image, size, NULL, 0);
}

static sparta_status from_compiler(const request *r, sp_gpu_kernel *out)
{
    void *image;
    size_t size;
    SP_TRY(sp_gpu_compile(r->c, r->target, 10 * r->gpu->major + r->gpu->minor, r->text, &image, &size));
    const sparta_status status = sp_gpu_load(r->c, r->gpu, image, size, r->entry, out);
    if (status == SPARTA_OK) keep(r, image, size);
    free(image);
    return status;
}

/* ------------------------------------------------------------------ the ladder */
sparta_status sp_jit_gpu(const sp_complaint *c, const sp_gpu *gpu, sp_target target, const char *text,
                         const char *entry, sp_gpu_kernel *out)
{
    request r = {.c = c, .gpu = gpu, .target = target, .text = text, .entry = entry, .cache.dir = -1};
    sparta_status status = SPARTA_OK;
    if (sp_target_device(target) != SP_DEVICE_CUDA)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "GPU %d, %s: compute capability %d.%d is too old for its kernels; use one of 8.0 or "
                         "newer",
                         gpu->number, gpu->name, gpu->major, gpu->minor);
    size_t size = 0;
    sp_gpu_key(target, gpu->major, gpu->minor, text, r.key);
    SP_TRY(sp_gpu_pack_given(c));
    const void *packed = sp_gpu_pack_find(r.key, &size);
    if (packed && sp_gpu_load(c, gpu, packed, size, entry, out) == SPARTA_OK) return SPARTA_OK;
    r.cx = sparta_ctx_create(NULL);
    if (r.cx) sp_cache_open(r.cx, &r.cache);
    if (!from_cache(&r, out, &status)) status = from_compiler(&r, out);
    if (r.cx) sp_cache_close(&r.cache);
    sparta_ctx_free(r.cx);
    return status;
}
