/* Arena: things that die together. A list of chunks; the newest is filled from the front, and what is too
 * large for it gets a chunk of its own. Chunks come cleared, so allocating is adding to an offset. */
#include "base/ctx.h"
#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { GAP = 16 }; /* between neighbours, so that overruns are seen */
#define HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
enum { GAP = 0 };
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#endif

enum { FIRST = 4096, LARGEST = 1 << 20 };

typedef struct chunk {
    struct chunk *next; /* older */
    size_t size, used;  /* of data */
    _Alignas(64) char data[];
} chunk;

struct sp_arena {
    sparta_ctx *cx;
    chunk *top;
    size_t grow; /* data size of the next ordinary chunk */
};

sp_arena *sp_arena_create(sparta_ctx *cx)
{
    sp_arena *a = sp_zalloc(cx, sizeof *a);
    if (!a) return NULL;
    a->cx = cx;
    a->grow = FIRST - sizeof(chunk);
    return a;
}

void sp_arena_free(sp_arena *a)
{
    if (!a) return;
    for (chunk *c = a->top, *next; c; c = next) {
        next = c->next;
        SHOW(c->data, c->size);
        sp_free(a->cx, c);
    }
    sp_free(a->cx, a);
}

sparta_ctx *sp_arena_ctx(const sp_arena *a)
{
    return a->cx;
}

static chunk *new_chunk(sp_arena *a, size_t size)
{
    size_t bytes;
    if (!sp_size_add(size, sizeof(chunk), &bytes)) bytes = SIZE_MAX;
    chunk *c = sp_zalloc(a->cx, bytes);
    if (!c) return NULL;
    c->size = size;
    HIDE(c->data, size);
    return c;
}

/* A chunk with room for `size` more, aligned; it becomes the top unless it is filled at once. */
static chunk *make_room(sp_arena *a, size_t size)
{
    bool alone = size > a->grow / 4;
    chunk *c = new_chunk(a, alone ? size : a->grow);
    if (!c) return NULL;
    a->grow = SP_MIN(2 * a->grow, (size_t)LARGEST);
    if (alone && a->top) { /* the top still has room for small things */
        c->next = a->top->next;
        a->top->next = c;
        return c;
    }
    c->next = a->top;
    a->top = c;
    return c;
}

void *sp_arena_alloc(sp_arena *a, size_t size)
{
    const size_t align = size >= 64 ? 64 : 16;
    chunk *c = a->top;
    size_t at = 0, end = 0;
    bool fits = c && sp_size_align(c->used, align, &at) && sp_size_add(at, size, &end) && end <= c->size;
    if (!fits) {
        c = make_room(a, size);
        if (!c) return NULL;
        at = 0;
        end = size;
    }
    c->used = SP_MIN(end + GAP, c->size);
    SHOW(c->data + at, size);
    SP_ASSERT((uintptr_t)(c->data + at) % align == 0 && end <= c->size);
    return c->data + at;
}

void *sp_arena_array(sp_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (!sp_size_mul(n, size, &bytes)) bytes = SIZE_MAX; /* fails below, with the message */
    return sp_arena_alloc(a, bytes);
}

char *sp_arena_bytes(sp_arena *a, const char *s, size_t n)
{
    size_t size;
    if (!sp_size_add(n, 1, &size)) size = SIZE_MAX;
    char *copy = sp_arena_alloc(a, size);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

char *sp_arena_string(sp_arena *a, const char *s)
{
    return sp_arena_bytes(a, s, strlen(s));
}

char *sp_arena_printf(sp_arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = sp_vformat(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        sp_fail(a->cx, SPARTA_E_INTERNAL, "arena: the text \"%s\" cannot be formatted", format);
        return NULL;
    }
    char *text = sp_arena_alloc(a, (size_t)n + 1);
    if (!text) return NULL;
    va_start(args, format);
    sp_vformat(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}
