/* base: what every other room stands on.
 *
 *   context   who asks: its memory (counted, budgeted, can be told to fail), its last message, its cancel flag
 *   memory    sp_alloc / sp_free through the context; sp_arena for things that die together
 *   sizes     sp_size_mul / add / align: no size arithmetic on data from outside without them
 *   text      a growing string whose error is sticky: write many times, look once
 *   map       names to integers
 *   digest    a fast 64-bit hash for keys, SHA-256 where somebody may be hostile
 *   process   run programs by argv, with limits, no shell
 *   pool      one persistent team of threads
 *
 * The rule for errors: a fallible function takes the context first and returns sparta_status. The message has
 * one shape,
 *
 *     return sp_fail(cx, SPARTA_E_SHAPE, "MatMul %s: K is %ld on the left and %ld on the right; export it again", ...);
 *                                             where      what                                       what to do
 *
 * "where: what; what to do". Functions that make one object return a pointer, NULL after sp_fail was
 * called; the caller then writes  if (!p) return sp_ctx_status(cx);  Outputs are written last.
 *
 * A context belongs to one thread at a time. Memory of one context may be freed by another only through its
 * owner. Only sparta_ctx_cancel may be called from anywhere, a signal handler included.
 */
#ifndef SP_BASE_H
#define SP_BASE_H

#include "sparta.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_MUST         __attribute__((warn_unused_result))
#define SP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SP_COUNT(a)     (sizeof(a) / sizeof((a)[0]))
#define SP_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define SP_MAX(a, b)    ((a) > (b) ? (a) : (b))
/* For our own bugs only, never for what comes from outside: an invariant that a room's header states. Builds for people who look for
 * bugs (debug, sanitizers, fuzz: -DSP_CHECKED) stop where it is broken; a release does not look, and does not evaluate it. */
#ifdef SP_CHECKED
#define SP_ASSERT(truth) ((truth) ? (void)0 : sp_broken(#truth, __FILE__, __LINE__))
#else
#define SP_ASSERT(truth) ((void)sizeof((truth) ? 1 : 0))
#endif
void sp_broken(const char *truth, const char *file, int line) __attribute__((noreturn));

/* Pass an error on. */
#define SP_TRY(call)                                                                                         \
    do {                                                                                                     \
        sparta_status try_ = (call);                                                                         \
        if (try_ != SPARTA_OK) return try_;                                                                  \
    } while (0)
/* Pass a failed allocation on: the context has the message. */
#define SP_NEED(cx, pointer)                                                                                 \
    do {                                                                                                     \
        if (!(pointer)) {                                                                                    \
            sparta_status need_ = sp_ctx_status(cx);                                                         \
            return need_ != SPARTA_OK ? need_ : SPARTA_E_INTERNAL; /* lets the compiler see that it fails */ \
        }                                                                                                    \
    } while (0)

/* ------------------------------------------------------------------ context (the public part is in sparta.h) */

/* Record a message and return `status`. The first failure of a call chain says most; a later call overwrites it. */
sparta_status sp_fail(sparta_ctx *cx, sparta_status status, const char *format, ...) SP_PRINTF(3, 4);
/* Put "where: " in front of the present message: for callers who know the file or the node. Returns its status. */
sparta_status sp_fail_in(sparta_ctx *cx, const char *format, ...) SP_PRINTF(2, 3);
/* Of the last failure; SPARTA_E_INTERNAL when there is none. */
sparta_status sp_ctx_status(const sparta_ctx *cx);
void sp_ctx_clear(sparta_ctx *cx);  /* forgets the message; a cancellation stays */
void sp_ctx_resume(sparta_ctx *cx); /* forgets the cancellation alone: what was reached is to be written */
/* E_CANCELLED once somebody asked to stop; call it in every loop that may last. */
bool sp_ctx_cancelled(const sparta_ctx *cx); /* from any thread */
sparta_status sp_check_cancel(sparta_ctx *cx) SP_MUST;
/* Remarks for the user that are no errors ("no compiler: the portable kernels run"); shown once by the door. */
void sp_note(sparta_ctx *cx, const char *format, ...) SP_PRINTF(2, 3);
/* A note that a door shows even where it was asked to be quiet: something that was to last does not. */
void sp_warn(sparta_ctx *cx, const char *format, ...) SP_PRINTF(2, 3);
const char *sp_warnings(const sparta_ctx *cx); /* those notes, one a line */
void sp_ctx_forget_notes(sparta_ctx *cx);
/* Tests: let the n-th allocation from now fail (1 = the next), every later one too when `forever`; 0 switches it off. */
void sp_ctx_fail_alloc(sparta_ctx *cx, uint64_t nth, bool forever);
uint64_t sp_ctx_alloc_count(const sparta_ctx *cx); /* allocations asked for since creation */
size_t sp_ctx_memory(const sparta_ctx *cx);        /* bytes held now */
size_t sp_ctx_memory_peak(const sparta_ctx *cx);
size_t sp_ctx_budget(const sparta_ctx *cx);
bool sp_ctx_strict(const sparta_ctx *cx);
/* The options the context was created with: strings are the context's own copies, max_memory is resolved, absent ones are NULL. */
const sparta_ctx_options *sp_ctx_options_of(const sparta_ctx *cx);
/* Options that a caller gave, an option struct whose first member is its size: what his header knows of them into `to` (of `room` bytes, 0
 * where his is shorter), all 0 for NULL. E_USAGE when the size is 0, since nothing of them would count: `what` begins the message. */
sparta_status sp_options(sparta_ctx *cx, const char *what, const void *given, void *to, size_t room) SP_MUST;
int sp_exit_code(sparta_status status);
/* What users add to the tables of other rooms lives as long as the context: one thing a slot, made by its room
 * when it is first needed, freed with the context. NULL: not made yet. */
typedef enum {
    SP_SLOT_FORMATS,
    SP_SLOT_SPARSIFIERS,
    SP_SLOT_KERNELS,
    SP_SLOT_FUNCTIONS,
    SP_SLOT_CALLED,
    SP_SLOTS
} sp_ctx_key;
void *sp_ctx_slot(const sparta_ctx *cx, sp_ctx_key slot);
/* The same, made of `size` bytes of 0 where it is not there yet; NULL: no memory. */
void *sp_ctx_make_slot(sparta_ctx *cx, sp_ctx_key slot, size_t size,
                       void (*free_thing)(sparta_ctx *cx, void *thing));

/* Functions that take no context say what is wrong here: "where: what". */
typedef struct sp_complaint {
    const char *where;
    char *text;
    size_t size;
    bool planning; /* the workspace is asked for: arrays need no data yet */
} sp_complaint;
sparta_status sp_refuse(const sp_complaint *c, sparta_status status, const char *format, ...) SP_PRINTF(3, 4);

/* ------------------------------------------------------------------ memory */

/* 64-byte aligned, not cleared. size 0 gives a valid pointer. NULL: the context has the message (E_MEMORY). */
void *sp_alloc(sparta_ctx *cx, size_t size) SP_MUST;
void *sp_zalloc(sparta_ctx *cx, size_t size) SP_MUST;                /* cleared */
void *sp_alloc_array(sparta_ctx *cx, size_t n, size_t size) SP_MUST; /* cleared, n * size checked */
void *sp_realloc(sparta_ctx *cx, void *p, size_t size) SP_MUST;      /* keeps the old block on failure */
void sp_free(sparta_ctx *cx, void *p);                               /* NULL is fine */
/* Has nobody written next to this block: in the 32 bytes before it and the 64 behind? NULL is whole. */
bool sp_block_whole(const void *p);

typedef struct sp_arena sp_arena;
sp_arena *sp_arena_create(sparta_ctx *cx) SP_MUST;
void sp_arena_free(sp_arena *arena);
sparta_ctx *sp_arena_ctx(const sp_arena *arena);
/* Cleared, 64-byte aligned when size >= 64, else 16. */
void *sp_arena_alloc(sp_arena *arena, size_t size) SP_MUST;
void *sp_arena_array(sp_arena *arena, size_t n, size_t size) SP_MUST;
char *sp_arena_string(sp_arena *arena, const char *s) SP_MUST;
char *sp_arena_bytes(sp_arena *arena, const char *s, size_t n) SP_MUST; /* n bytes and a final 0 */
char *sp_arena_printf(sp_arena *arena, const char *format, ...) SP_MUST SP_PRINTF(2, 3);
/* Room for one more in a list that has n of `room`: a list twice as long takes its place. Fails like SP_NEED. */
#define SP_GROW(arena, list, n, room)                                                                        \
    do {                                                                                                     \
        if ((n) < (room)) break;                                                                             \
        void *grown_ = sp_arena_array(arena, 2 * (size_t)(n) + 8, sizeof *(list));                           \
        SP_NEED(sp_arena_ctx(arena), grown_);                                                                \
        if (n) memcpy(grown_, list, (size_t)(n) * sizeof *(list));                                           \
        (list) = grown_;                                                                                     \
        (room) = 2 * (n) + 8;                                                                                \
    } while (0)

/* ------------------------------------------------------------------ sizes: false when the result does not fit */
static inline bool sp_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool sp_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool sp_size_align(size_t a, size_t to, size_t *out) /* to: a power of two */
{
    if (__builtin_add_overflow(a, to - 1, out)) return false;
    *out &= ~(to - 1);
    return true;
}
static inline bool sp_int_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool sp_int_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* ------------------------------------------------------------------ text */
/* Set up by sp_text_init; data is always terminated, or NULL while it is empty: sp_text_str. */
typedef struct sp_text {
    sparta_ctx *cx;
    char *data;
    size_t size, capacity;
    sparta_status status; /* sticky */
} sp_text;
void sp_text_init(sp_text *t, sparta_ctx *cx);
void sp_text_free(sp_text *t);
void sp_text_printf(sp_text *t, const char *format, ...) SP_PRINTF(2, 3);
void sp_text_vprintf(sp_text *t, const char *format, va_list args);
void sp_text_put(sp_text *t, const void *bytes, size_t n);
/* A quoted JSON string; bytes that are no UTF-8 become U+FFFD, and what a terminal would act on is escaped. */
void sp_text_json(sp_text *t, const char *s);
const char *sp_text_str(const sp_text *t); /* "" when empty */
/* What it says, in an arena; the text itself is freed. NULL: the context has the message. */
char *sp_text_keep(sp_text *t, sp_arena *arena) SP_MUST;

/* Make `s`, which may hold names out of hostile files, one harmless line: control characters (also C1, new lines and tabs),
 * separators of lines, marks of direction and bytes that are no UTF-8 become '?'. */
void sp_clean(char *s);

/* Is `s` matched by the glob (only * and ? are special)? */
bool sp_glob(const char *glob, const char *s);
/* The nearest of n names to `s` (edit distance at most 3), or NULL; as the end of a message: "; did you mean 'x'?", or what is to be said
 * when none is near. */
const char *sp_nearest(const char *s, const char *const *names, int n);
enum { SP_HINT = 128 };
const char *sp_did_you_mean(const char *s, const char *const *names, int n, const char *otherwise,
                            char out[SP_HINT]);
/* Strict decimal parse of the whole string. */
bool sp_parse_int(const char *s, int64_t *out);
bool sp_parse_double(const char *s, double *out);

/* ------------------------------------------------------------------ map: strings (borrowed) to int64 */
typedef struct sp_map sp_map;
sp_map *sp_map_create(sparta_ctx *cx) SP_MUST;
void sp_map_free(sp_map *map);
sparta_status sp_map_put(sp_map *map, const char *key, int64_t value) SP_MUST; /* replaces */
bool sp_map_get(const sp_map *map, const char *key, int64_t *value);
size_t sp_map_size(const sp_map *map);

/* ------------------------------------------------------------------ digests */
uint64_t sp_hash(const void *bytes, size_t n, uint64_t seed); /* fast, for keys; not for adversaries */
typedef struct sp_sha256 {
    uint32_t h[8];
    uint64_t length;
    uint8_t block[64];
} sp_sha256;
void sp_sha256_init(sp_sha256 *s);
void sp_sha256_add(sp_sha256 *s, const void *bytes, size_t n);
void sp_sha256_end(sp_sha256 *s, uint8_t out[32]);
void sp_sha256_of(const void *bytes, size_t n, uint8_t out[32]);
void sp_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t n, uint8_t out[32]);
void sp_hex(const uint8_t *bytes, size_t n, char *out); /* 2n characters and a final 0 */

/* A small repeatable generator (xorshift64*). The same seed gives the same model on every machine. */
typedef struct sp_rng {
    uint64_t state;
} sp_rng;
sp_rng sp_rng_seed(uint64_t seed);
uint64_t sp_rng_next(sp_rng *r);
double sp_rng_uniform(sp_rng *r); /* [0, 1) */

/* ------------------------------------------------------------------ time */
double sp_now(void); /* seconds, monotonic */

/* ------------------------------------------------------------------ process */
typedef struct sp_spawn_options {
    double timeout;         /* seconds; 0: none. A child past it is killed with its group */
    size_t memory;          /* RLIMIT_AS; 0: none */
    size_t output;          /* RLIMIT_FSIZE of what it writes; 0: none */
    const char *const *env; /* NULL-terminated; NULL: PATH and LC_ALL only */
} sp_spawn_options;
/* argv[0] is an absolute path. stdout and stderr go to `said` (capped at 16 KiB). exit_code: >= 0, or
 * -signal, or -1000: timeout. Cancellation of the context kills the child. */
sparta_status sp_spawn(sparta_ctx *cx, const char *const *argv, const sp_spawn_options *options,
                       sp_text *said, int *exit_code) SP_MUST;
/* Several of them side by side, as many at once as is said (64 at most). What one of them fails with is its own affair;
 * but once one has run out of its time, those that wait are not started (ETIMEDOUT). Cancellation ends all. */
typedef struct sp_program {
    const char *const *argv;
    const sp_spawn_options *options; /* NULL: none */
    sp_text *said;                   /* NULL: nobody listens */
    int error;                       /* why it could not be run; 0: it was, and exit_code is as sp_spawn's */
    int exit_code;
} sp_program;
sparta_status sp_spawn_all(sparta_ctx *cx, sp_program *all, int n, int at_once) SP_MUST;

/* ------------------------------------------------------------------ pool
 * A team of `threads` that sleeps between jobs. sp_pool_run calls fn(arg, i) once for each i in [0,
 * threads), the caller being one of them, and returns when all are done. Workers spin for a short while
 * before they sleep, so that a series of small jobs costs about a microsecond each. With a host's
 * parallel_for (sparta_ctx_options) no threads are made and the host's is called: it must call fn for every
 * i, in any order, on any thread. One job at a time per pool. In a child of fork() the caller's thread does
 * all of it: the others stayed with the parent. */
typedef struct sp_pool sp_pool;
sp_pool *sp_pool_create(sparta_ctx *cx, int threads) SP_MUST; /* 0: the cores this process may use */
void sp_pool_free(sp_pool *pool);
int sp_pool_threads(const sp_pool *pool);
void sp_pool_run(sp_pool *pool, void (*fn)(void *arg, int i), void *arg);
int sp_cores(void); /* cores this process may use */
/* While a caller runs a loop by itself, the threads of its pool wait. The pool that is lent to a context (NULL: none) helps with those that
 * are handed to sp_ctx_share: fn(arg, from, to) covers [0, n) in parts, each item being about `each` bytes moved or operations. Little
 * work stays on the caller's thread. fn cannot fail, and must not use the context but to ask whether it is cancelled. */
void sp_ctx_lend(sparta_ctx *cx, sp_pool *team);
sparta_status sp_ctx_share(sparta_ctx *cx, int64_t n, int64_t each,
                           void (*fn)(void *arg, int64_t from, int64_t to), void *arg) SP_MUST;

#endif
