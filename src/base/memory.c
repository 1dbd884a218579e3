/* Memory through the context: counted, budgeted, and able to fail on demand.
 *
 *     raw ... | header (size, raw) | fence | block, 64-byte aligned, size bytes | fence |
 *              ------- 64 bytes -----------                                      64 bytes
 *
 * Fences are bytes that nobody writes: sp_block_whole looks at them. The address sanitizer sees one byte too many by itself, so there blocks end without one.
 */
#include "base/ctx.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, LARGE = 4 << 20, HUGE = 2 << 20, FENCE = 0xa5 };
/* The address sanitizer watches what malloc gives. */
#if defined(__SANITIZE_ADDRESS__)
enum { MAP = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { MAP = 0 };
#else
enum { MAP = 1 };
#endif
#else
enum { MAP = 1 };
#endif
enum { BEHIND = MAP ? ALIGN : 0 }; /* bytes of the fence there */

typedef struct header {
    size_t size;   /* of the block */
    void *raw;     /* what free wants */
    size_t held;   /* what is counted for it */
    size_t mapped; /* bytes, when it was mapped; 0: allocated */
} header;
enum { BEFORE = ALIGN - sizeof(header) };
_Static_assert(sizeof(header) < ALIGN, "the header fits before the block, and a fence behind it");

static header *header_of(void *p)
{
    return (header *)((char *)p - ALIGN);
}

/* ------------------------------------------------------------------ counting */

static bool told_to_fail(sparta_ctx *cx)
{
    uint64_t asked = atomic_fetch_add_explicit(&cx->asked, 1, memory_order_relaxed) + 1;
    uint64_t at = atomic_load_explicit(&cx->fail_at, memory_order_relaxed);
    if (!at || asked < at) return false;
    return asked == at || atomic_load_explicit(&cx->fail_forever, memory_order_relaxed);
}

static unsigned long mebibytes(size_t size)
{
    return (unsigned long)((size >> 20) + ((size & ((1 << 20) - 1)) != 0));
}

/* Take `size` from the budget; E_MEMORY, with nothing taken, when it does not fit. */
static sparta_status take(sparta_ctx *cx, size_t size)
{
    size_t held = atomic_load_explicit(&cx->held, memory_order_relaxed), now;
    do {
        if (!sp_size_add(held, size, &now) || now > cx->options.max_memory)
            return sp_fail(cx, SPARTA_E_MEMORY,
                           "memory: %lu MiB more would pass the budget of %lu MiB; raise options.max_memory",
                           mebibytes(size), mebibytes(cx->options.max_memory));
    } while (!atomic_compare_exchange_weak_explicit(&cx->held, &held, now, memory_order_relaxed,
                                                    memory_order_relaxed));
    size_t peak = atomic_load_explicit(&cx->peak, memory_order_relaxed);
    while (peak < now && !atomic_compare_exchange_weak_explicit(&cx->peak, &peak, now, memory_order_relaxed,
                                                                memory_order_relaxed)) {}
    return SPARTA_OK;
}

static void give_back(sparta_ctx *cx, size_t size)
{
    atomic_fetch_sub_explicit(&cx->held, size, memory_order_relaxed);
}

static sparta_status no_memory(sparta_ctx *cx, size_t size)
{
    return sp_fail(cx, SPARTA_E_MEMORY,
                   "memory: the system has no %lu MiB more; close something or use a smaller model",
                   mebibytes(size));
}

void sp_ctx_fail_alloc(sparta_ctx *cx, uint64_t nth, bool forever)
{
    uint64_t asked = atomic_load_explicit(&cx->asked, memory_order_relaxed);
    atomic_store_explicit(&cx->fail_forever, forever, memory_order_relaxed);
    atomic_store_explicit(&cx->fail_at, nth ? asked + nth : 0, memory_order_relaxed);
}

uint64_t sp_ctx_alloc_count(const sparta_ctx *cx)
{
    return atomic_load_explicit(&cx->asked, memory_order_relaxed);
}

size_t sp_ctx_memory(const sparta_ctx *cx)
{
    return atomic_load_explicit(&cx->held, memory_order_relaxed);
}

size_t sp_ctx_memory_peak(const sparta_ctx *cx)
{
    return atomic_load_explicit(&cx->peak, memory_order_relaxed);
}

size_t sp_ctx_budget(const sparta_ctx *cx)
{
    return cx->options.max_memory;
}

/* ------------------------------------------------------------------ blocks */

/* Large blocks are mapped: the kernel gives zero pages instead of our writing them, and pages of 2 MiB where it has them, from
 * the first byte on, so that 64 MiB cost tens of page faults and not tens of thousands. An end of more than half such a
 * page is a whole one: up to 1 MiB nobody counts, for hundreds of faults. */
static void *mapped_block(size_t size, void **raw, size_t *mapped)
{
    size_t length, all;
    const long page = sysconf(_SC_PAGESIZE);
    if (page <= 0 || !sp_size_add(size, ALIGN + BEHIND, &length) ||
        !sp_size_align(length, length % HUGE > HUGE / 2 ? HUGE : (size_t)page, &length) ||
        !sp_size_add(length, HUGE, &all))
        return NULL;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *from = (char *)(((uintptr_t)p + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    if (from > p) munmap(p, (size_t)(from - p));
    if (p + all > from + length) munmap(from + length, (size_t)(p + all - from - length));
    (void)madvise(from, length, MADV_HUGEPAGE); /* a wish, no more */
    *raw = from;
    *mapped = length;
    return from + ALIGN;
}

/* Under the address sanitizer blocks end exactly where the system's block ends. */
static void *raw_block(size_t size, bool clear, void **raw, size_t *mapped)
{
    if (MAP && size >= LARGE) return mapped_block(size, raw, mapped);
    if (posix_memalign(raw, ALIGN, size + ALIGN + BEHIND)) return NULL;
    char *p = (char *)*raw + ALIGN;
    if (clear) memset(p, 0, size);
    return p;
}

static void *get(sparta_ctx *cx, size_t size, bool clear)
{
    size_t held, mapped = 0;
    void *raw = NULL;
    if (told_to_fail(cx) || !sp_size_add(size, (size_t)2 * ALIGN, &held)) {
        no_memory(cx, size);
        return NULL;
    }
    if (take(cx, held)) return NULL;
    void *p = raw_block(size, clear, &raw, &mapped);
    if (!p) {
        give_back(cx, held);
        no_memory(cx, size);
        return NULL;
    }
    *header_of(p) = (header){size, raw, held, mapped};
    memset((char *)p - BEFORE, FENCE, BEFORE);
    memset((char *)p + size, FENCE, BEHIND);
    return p;
}

static bool all_fence(const unsigned char *p, size_t n)
{
    while (n && *p == FENCE) p++, n--;
    return !n;
}

bool sp_block_whole(const void *p)
{
    const unsigned char *at = p;
    return !p || (all_fence(at - BEFORE, BEFORE) && all_fence(at + header_of((void *)at)->size, BEHIND));
}

void *sp_alloc(sparta_ctx *cx, size_t size)
{
    return get(cx, size, false);
}

void *sp_zalloc(sparta_ctx *cx, size_t size)
{
    return get(cx, size, true);
}

void *sp_alloc_array(sparta_ctx *cx, size_t n, size_t size)
{
    size_t bytes;
    if (!sp_size_mul(n, size, &bytes)) bytes = SIZE_MAX; /* fails in get, with the message */
    return get(cx, bytes, true);
}

void *sp_realloc(sparta_ctx *cx, void *p, size_t size)
{
    void *now = get(cx, size, false);
    if (!now || !p) return now;
    memcpy(now, p, SP_MIN(size, header_of(p)->size));
    sp_free(cx, p);
    return now;
}

void sp_free(sparta_ctx *cx, void *p)
{
    if (!p) return;
    header h = *header_of(p);
    if (h.mapped)
        munmap(h.raw, h.mapped);
    else
        free(h.raw);
    give_back(cx, h.held);
}
