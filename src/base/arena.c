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

struct sparta_arena {
    sparta_ctx *cx;
    chunk *top;
    size_t grow; /* data size of the next ordinary chunk */
};

sparta_arena *sparta_arena_create(sparta_ctx *cx)
{
    sparta_arena *a = sparta_zalloc(cx, sizeof *a);
    if (!a) return NULL;
    a->cx = cx;
    a->grow = FIRST - sizeof(chunk);
    return a;
}

void sparta_arena_free(sparta_arena *a)
{
    if (!a) return;
    for (chunk *c = a->top, *next; c; c = next) {
        next = c->next;
        SHOW(c->data, c->size);
        sparta_free(a->cx, c);
    }
    sparta_free(a->cx, a);
}

sparta_ctx *sparta_arena_ctx(const sparta_arena *a)
{
    return a->cx;
}

static chunk *new_chunk(sparta_arena *a, size_t size)
{
    size_t bytes;
    if (!sparta_size_add(size, sizeof(chunk), &bytes)) bytes = SIZE_MAX;
    chunk *c = sparta_zalloc(a->cx, bytes);
    if (!c) return NULL;
    c->size = size;
    HIDE(c->data, size);
    return c;
}

/* A chunk with room for `size` more, aligned; it becomes the top unless it is filled at once. */
static chunk *make_room(sparta_arena *a, size_t size)
{
    bool alone = size > a->grow / 4;
    chunk *c = new_chunk(a, alone ? size : a->grow);
    if (!c) return NULL;
    a->grow = SPARTA_MIN(2 * a->grow, (size_t)LARGEST);
    if (alone && a->top) { /* the top still has room for small things */
        c->next = a->top->next;
        a->top->next = c;
        return c;
    }
    c->next = a->top;
    a->top = c;
    return c;
}

void *sparta_arena_alloc(sparta_arena *a, size_t size)
{
    const size_t align = size >= 64 ? 64 : 16;
    chunk *c = a->top;
    size_t at = 0, end = 0;
    bool fits =
        c && sparta_size_align(c->used, align, &at) && sparta_size_add(at, size, &end) && end <= c->size;
    if (!fits) {
        c = make_room(a, size);
        if (!c) return NULL;
        at = 0;
        end = size;
    }
    c->used = SPARTA_MIN(end + GAP, c->size);
    SHOW(c->data + at, size);
    return c->data + at;
}

void *sparta_arena_array(sparta_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (!sparta_size_mul(n, size, &bytes)) bytes = SIZE_MAX; /* fails below, with the message */
    return sparta_arena_alloc(a, bytes);
}

char *sparta_arena_bytes(sparta_arena *a, const char *s, size_t n)
{
    size_t size;
    if (!sparta_size_add(n, 1, &size)) size = SIZE_MAX;
    char *copy = sparta_arena_alloc(a, size);
    if (copy && n) memcpy(copy, s, n);
    return copy;
}

char *sparta_arena_string(sparta_arena *a, const char *s)
{
    return sparta_arena_bytes(a, s, strlen(s));
}

char *sparta_arena_printf(sparta_arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = sparta_vformat(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        sparta_fail(a->cx, SPARTA_E_INTERNAL, "arena: the text \"%s\" cannot be formatted", format);
        return NULL;
    }
    char *text = sparta_arena_alloc(a, (size_t)n + 1);
    if (!text) return NULL;
    va_start(args, format);
    sparta_vformat(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}
