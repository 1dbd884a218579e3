/* base: what every other room stands on.
 *
 *   context   who asks: its memory (counted, budgeted, can be told to fail), its last message, its cancel flag
 *   memory    sparta_alloc / sparta_free through the context; sparta_arena for things that die together
 *   sizes     sparta_size_mul / add / align: no size arithmetic on data from outside without them
 *   text      a growing string whose error is sticky: write many times, look once
 *   map       names to integers
 *   digest    a fast 64-bit hash for keys, SHA-256 where somebody may be hostile
 *   process   run a program by argv, with limits, no shell
 *   pool      one persistent team of threads
 *
 * The rule for errors: a fallible function takes the context first and returns sparta_status. The message has
 * one shape,
 *
 *     return sparta_fail(cx, SPARTA_E_SHAPE, "MatMul %s: K is %ld on the left and %ld on the right; export it again", ...);
 *                                             where      what                                       what to do
 *
 * "where: what; what to do". Functions that make one object return a pointer, NULL after sparta_fail was
 * called; the caller then writes  if (!p) return sparta_ctx_status(cx);  Outputs are written last.
 *
 * A context belongs to one thread at a time. Memory of one context may be freed by another only through its
 * owner. Only sparta_ctx_cancel may be called from anywhere, a signal handler included.
 */
#ifndef SPARTA_BASE_H
#define SPARTA_BASE_H

#include "sparta.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARTA_MUST         __attribute__((warn_unused_result))
#define SPARTA_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SPARTA_COUNT(a)     (sizeof(a) / sizeof((a)[0]))
#define SPARTA_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define SPARTA_MAX(a, b)    ((a) > (b) ? (a) : (b))

/* Pass an error on. */
#define SPARTA_TRY(call)                                                                                     \
    do {                                                                                                     \
        sparta_status try_ = (call);                                                                         \
        if (try_ != SPARTA_OK) return try_;                                                                  \
    } while (0)
/* Pass a failed allocation on: the context has the message. */
#define SPARTA_NEED(cx, pointer)                                                                             \
    do {                                                                                                     \
        if (!(pointer)) {                                                                                    \
            sparta_status need_ = sparta_ctx_status(cx);                                                     \
            return need_ != SPARTA_OK ? need_ : SPARTA_E_INTERNAL; /* lets the compiler see that it fails */ \
        }                                                                                                    \
    } while (0)

/* ------------------------------------------------------------------ context (the public part is in sparta.h)
 */

/* Record a message and return `status`. The first failure of a call chain says most; a later call overwrites
 * it. */
sparta_status sparta_fail(sparta_ctx *cx, sparta_status status, const char *format, ...) SPARTA_PRINTF(3, 4);
/* Put "where: " in front of the present message: for callers who know the file or the node. Returns its
 * status. */
sparta_status sparta_fail_in(sparta_ctx *cx, const char *format, ...) SPARTA_PRINTF(2, 3);
sparta_status sparta_ctx_status(
    const sparta_ctx *cx); /* of the last failure; SPARTA_E_INTERNAL when there is none */
void sparta_ctx_clear(
    sparta_ctx *cx); /* forgets the message; a cancellation stays for the life of the context */
/* E_CANCELLED once somebody asked to stop; call it in every loop that may last. */
sparta_status sparta_check_cancel(sparta_ctx *cx) SPARTA_MUST;
/* Remarks for the user that are no errors ("no compiler: the portable kernels run"); shown once by the door.
 */
void sparta_note(sparta_ctx *cx, const char *format, ...) SPARTA_PRINTF(2, 3);
const char *sparta_ctx_notes(const sparta_ctx *cx); /* newline-separated, "" when there are none */
void sparta_ctx_forget_notes(sparta_ctx *cx);
/* Tests: let the n-th allocation from now fail (1 = the next), every later one too when `forever`; 0 switches
 * it off. */
void sparta_ctx_fail_alloc(sparta_ctx *cx, uint64_t nth, bool forever);
uint64_t sparta_ctx_alloc_count(const sparta_ctx *cx); /* allocations asked for since creation */
size_t sparta_ctx_memory(const sparta_ctx *cx);        /* bytes held now */
size_t sparta_ctx_memory_peak(const sparta_ctx *cx);
size_t sparta_ctx_budget(const sparta_ctx *cx);
bool sparta_ctx_strict(const sparta_ctx *cx);
/* The options the context was created with: strings are the context's own copies, max_memory is resolved,
 * absent ones are NULL. */
const sparta_ctx_options *sparta_ctx_options_of(const sparta_ctx *cx);
int sparta_exit_code(sparta_status status);
/* What users add to the tables of other rooms lives as long as the context: one thing a slot, made by its room
 * when it is first needed, freed with the context. NULL: not made yet. */
typedef enum { SPARTA_SLOT_FORMATS, SPARTA_SLOT_SPARSIFIERS, SPARTA_SLOTS } sparta_slot;
void *sparta_ctx_slot(const sparta_ctx *cx, sparta_slot slot);
void sparta_ctx_set_slot(sparta_ctx *cx, sparta_slot slot, void *thing,
                         void (*free_thing)(sparta_ctx *cx, void *thing));

/* ------------------------------------------------------------------ memory */

/* 64-byte aligned, not cleared. size 0 gives a valid pointer. NULL: the context has the message (E_MEMORY).
 */
void *sparta_alloc(sparta_ctx *cx, size_t size) SPARTA_MUST;
void *sparta_zalloc(sparta_ctx *cx, size_t size) SPARTA_MUST;                /* cleared */
void *sparta_alloc_array(sparta_ctx *cx, size_t n, size_t size) SPARTA_MUST; /* cleared, n * size checked */
void *sparta_realloc(sparta_ctx *cx, void *p, size_t size) SPARTA_MUST; /* keeps the old block on failure */
void sparta_free(sparta_ctx *cx, void *p);                              /* NULL is fine */
/* Count memory that does not come from sparta_alloc (a mapping that will be touched, a library's) against the
 * budget. */
sparta_status sparta_reserve(sparta_ctx *cx, size_t size) SPARTA_MUST;
void sparta_unreserve(sparta_ctx *cx, size_t size);

typedef struct sparta_arena sparta_arena;
sparta_arena *sparta_arena_create(sparta_ctx *cx) SPARTA_MUST;
void sparta_arena_free(sparta_arena *arena);
sparta_ctx *sparta_arena_ctx(const sparta_arena *arena);
void *sparta_arena_alloc(sparta_arena *arena,
                         size_t size) SPARTA_MUST; /* cleared, 64-byte aligned when size >= 64, else 16 */
void *sparta_arena_array(sparta_arena *arena, size_t n, size_t size) SPARTA_MUST;
char *sparta_arena_string(sparta_arena *arena, const char *s) SPARTA_MUST;
char *sparta_arena_bytes(sparta_arena *arena, const char *s,
                         size_t n) SPARTA_MUST; /* n bytes and a final 0 */
char *sparta_arena_printf(sparta_arena *arena, const char *format, ...) SPARTA_MUST SPARTA_PRINTF(2, 3);

/* ------------------------------------------------------------------ sizes: false when the result does not
 * fit */
static inline bool sparta_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool sparta_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool sparta_size_align(size_t a, size_t to, size_t *out) /* to: a power of two */
{
    if (__builtin_add_overflow(a, to - 1, out)) return false;
    *out &= ~(to - 1);
    return true;
}
static inline bool sparta_int_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool sparta_int_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* ------------------------------------------------------------------ text */
typedef struct sparta_text { /* set up by sparta_text_init; data is always terminated (or NULL while empty:
                                use _str) */
    sparta_ctx *cx;
    char *data;
    size_t size, capacity;
    sparta_status status; /* sticky */
} sparta_text;
void sparta_text_init(sparta_text *t, sparta_ctx *cx);
void sparta_text_free(sparta_text *t);
void sparta_text_printf(sparta_text *t, const char *format, ...) SPARTA_PRINTF(2, 3);
void sparta_text_vprintf(sparta_text *t, const char *format, va_list args);
void sparta_text_put(sparta_text *t, const void *bytes, size_t n);
/* A quoted JSON string; bytes that are no UTF-8 become U+FFFD, and what a terminal would act on is escaped. */
void sparta_text_json(sparta_text *t, const char *s);
const char *sparta_text_str(const sparta_text *t); /* "" when empty */

/* Make `s`, which may hold names out of hostile files, one harmless line: control characters (also C1, new lines and tabs),
 * separators of lines, marks of direction and bytes that are no UTF-8 become '?'. */
void sparta_clean(char *s);

/* Is `s` matched by the glob (only * and ? are special)? */
bool sparta_glob(const char *glob, const char *s);
/* The nearest of n names to `s` (edit distance at most 3), or NULL: for "did you mean". */
const char *sparta_nearest(const char *s, const char *const *names, int n);
/* Strict decimal parse of the whole string. */
bool sparta_parse_int(const char *s, int64_t *out);
bool sparta_parse_double(const char *s, double *out);

/* ------------------------------------------------------------------ map: strings (borrowed) to int64 */
typedef struct sparta_map sparta_map;
sparta_map *sparta_map_create(sparta_ctx *cx) SPARTA_MUST;
void sparta_map_free(sparta_map *map);
sparta_status sparta_map_put(sparta_map *map, const char *key, int64_t value) SPARTA_MUST; /* replaces */
bool sparta_map_get(const sparta_map *map, const char *key, int64_t *value);
size_t sparta_map_size(const sparta_map *map);

/* ------------------------------------------------------------------ digests */
uint64_t sparta_hash(const void *bytes, size_t n, uint64_t seed); /* fast, for keys; not for adversaries */
typedef struct sparta_sha256 {
    uint32_t h[8];
    uint64_t length;
    uint8_t block[64];
} sparta_sha256;
void sparta_sha256_init(sparta_sha256 *s);
void sparta_sha256_add(sparta_sha256 *s, const void *bytes, size_t n);
void sparta_sha256_end(sparta_sha256 *s, uint8_t out[32]);
void sparta_sha256_of(const void *bytes, size_t n, uint8_t out[32]);
void sparta_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t n, uint8_t out[32]);
void sparta_hex(const uint8_t *bytes, size_t n, char *out); /* 2n characters and a final 0 */

/* A small repeatable generator (xorshift64*). The same seed gives the same model on every machine. */
typedef struct sparta_rng {
    uint64_t state;
} sparta_rng;
sparta_rng sparta_rng_seed(uint64_t seed);
uint64_t sparta_rng_next(sparta_rng *r);
double sparta_rng_uniform(sparta_rng *r); /* [0, 1) */
double sparta_rng_normal(sparta_rng *r);  /* mean 0, deviation 1 */

/* ------------------------------------------------------------------ time */
double sparta_now(void); /* seconds, monotonic */

/* ------------------------------------------------------------------ process */
typedef struct sparta_spawn_options {
    double timeout;         /* seconds; 0: none. A child past it is killed with its group */
    size_t memory;          /* RLIMIT_AS; 0: none */
    size_t output;          /* RLIMIT_FSIZE of what it writes; 0: none */
    const char *const *env; /* NULL-terminated; NULL: PATH and LC_ALL only */
} sparta_spawn_options;
/* argv[0] is an absolute path. stdout and stderr go to `said` (capped at 16 KiB). exit_code: >= 0, or
 * -signal, or -1000: timeout. Cancellation of the context kills the child. */
sparta_status sparta_spawn(sparta_ctx *cx, const char *const *argv, const sparta_spawn_options *options,
                           sparta_text *said, int *exit_code) SPARTA_MUST;

/* ------------------------------------------------------------------ pool
 * A team of `threads` that sleeps between jobs. sparta_pool_run calls fn(arg, i) once for each i in [0,
 * threads), the caller being one of them, and returns when all are done. Workers spin for a short while
 * before they sleep, so that a series of small jobs costs about a microsecond each. With a host's
 * parallel_for (sparta_ctx_options) no threads are made and the host's is called: it must call fn for every
 * i, in any order, on any thread. One job at a time per pool. In a child of fork() the caller's thread does
 * all of it: the others stayed with the parent. */
typedef struct sparta_pool sparta_pool;
sparta_pool *sparta_pool_create(sparta_ctx *cx,
                                int threads) SPARTA_MUST; /* 0: the cores this process may use */
void sparta_pool_free(sparta_pool *pool);
int sparta_pool_threads(const sparta_pool *pool);
void sparta_pool_run(sparta_pool *pool, void (*fn)(void *arg, int i), void *arg);
int sparta_cores(void); /* cores this process may use */

#endif
