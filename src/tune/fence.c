/* Fences around memory of a bed: made, looked at, mended. */
#include "tune/fence.h"
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#endif

enum { WIDE = 16 << 10 }; /* a panel of 64 features */

static uint32_t word(const char *at)
{
    return 0x3f800000 | ((uint32_t)((uintptr_t)at >> 2) * UINT32_C(2654435761)) >> 9;
}

/* The side that begins there, whole again; true: it was not. The last word may be cut: what is fenced may end anywhere. */
static bool mend(char *from, size_t n)
{
    bool broken = false;
    SHOW(from, n);
    for (size_t i = 0; i < n; i += sizeof(uint32_t)) {
        const uint32_t w = word(from + i);
        const size_t some = SP_MIN(sizeof w, n - i);
        if (!memcmp(from + i, &w, some)) continue;
        broken = true;
        memcpy(from + i, &w, some);
    }
    HIDE(from, n);
    return broken;
}

void *sp_fence_alloc(sp_arena *a, sp_fence **list, const char *what, size_t size)
{
    size_t all;
    sp_fence *f = sp_arena_array(a, 1, sizeof *f);
    if (!sp_size_add(size, (size_t)2 * WIDE, &all)) all = SIZE_MAX; /* fails below, with the message */
    char *p = f ? sp_arena_alloc(a, all) : NULL;
    if (!p) return NULL;
    *f = (sp_fence){.next = *list, .what = what, .at = p + WIDE, .size = size};
    *list = f;
    (void)mend(p, WIDE);
    (void)mend(f->at + size, WIDE);
    return f->at;
}

sparta_status sp_fence_tensor(sp_arena *a, sp_fence **list, const char *what, sparta_tensor *like)
{
    size_t bytes;
    SP_TRY(sp_tensor_bytes(sp_arena_ctx(a), like->dtype, like->rank, like->dim, &bytes));
    void *data = sp_fence_alloc(a, list, what, bytes);
    SP_NEED(sp_arena_ctx(a), data);
    *like = sparta_tensor_view(like->dtype, like->rank, like->dim, data);
    return SPARTA_OK;
}

const char *sp_fence_broken(const sp_fence *list)
{
    const char *what = NULL;
    for (const sp_fence *f = list; f; f = f->next) {
        const bool before = mend(f->at - WIDE, WIDE), behind = mend(f->at + f->size, WIDE);
        if (before || behind) what = f->what;
    }
    return what;
}
