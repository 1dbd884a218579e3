/* Measured peaks. Every thread runs short windows for the whole time, all threads at once, and keeps its best
 * window: a window of some 30 us fits between two interruptions, so the best one is what the machine does
 * when left alone.
 *
 *     peak = sum over threads of (work of a window / time of its best window)
 *
 * Memory is shared: what one thread reads while another waits is not there for both. So its windows are the same for all.
 */
#include "device/device.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_THREADS = 256 };

typedef struct crew crew;
typedef struct member {
    crew *all;
    pthread_t thread;
    int index;
    double best;              /* work a second */
    _Alignas(64) size_t done; /* bytes read, for bandwidth; its thread alone writes it */
} member;
struct crew {
    double (*work)(crew *all, int index); /* returns the best rate of one thread */
    sp_target target;
    double seconds;
    int threads;
    uint8_t *memory; /* for bandwidth: `slice` bytes for each thread */
    size_t slice;
    int made; /* threads that there are */
    atomic_int ready;
    atomic_bool stop;
    member members[MOST_THREADS];
};

static void *serve(void *arg)
{
    member *m = arg;
    m->best = m->all->work(m->all, m->index);
    return NULL;
}

/* A thread that cannot be made is missing from the sum: then this is what the machine gives. */
static double gather(crew *all)
{
    bool made[MOST_THREADS] = {false};
    double sum = 0;
    all->made = 1;
    for (int i = 0; i < all->threads; i++) {
        all->members[i] = (member){.all = all, .index = i};
        if (i > 0) made[i] = pthread_create(&all->members[i].thread, NULL, serve, &all->members[i]) == 0;
        all->made += made[i];
    }
    serve(&all->members[0]);
    for (int i = 1; i < all->threads; i++)
        if (made[i]) pthread_join(all->members[i].thread, NULL);
    for (int i = 0; i < all->threads; i++) sum += all->members[i].best;
    return sum;
}

/* No more threads than cores: the best windows of threads that take turns would add up to more than there is. */
static crew crew_of(int threads, double seconds, double (*work)(crew *, int))
{
    crew all = {.work = work, .seconds = seconds > 1e-3 ? SP_MIN(seconds, 60) : 1e-3};
    int most = SP_MIN(sp_cores(), MOST_THREADS);
    all.threads = threads > 0 ? SP_MIN(threads, most) : most;
    return all;
}

/* ------------------------------------------------------------------ arithmetic
 * A window runs `rounds` rounds of 48 vector operations on 12 independent registers: more than latency x
 * ports of any CPU so far. Operands are ordinary numbers that stay finite: zeros would draw less power and so
 * run at a higher clock. */

typedef double (*fma_window)(uint64_t rounds); /* returns the operations done */

#if defined(__x86_64__)
#define ROUND12(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define ROUND48(op) ROUND12(op) ROUND12(op) ROUND12(op) ROUND12(op)
static const float factors[2] __attribute__((aligned(8))) = {0.7f, 0.3f};

/* Raw text: the rest of the library is built for every x86-64. Only called when the target fits. */
#define CLEAR_Y(i) "vxorps %%ymm" #i ", %%ymm" #i ", %%ymm" #i "\n" /* clears the whole register */
#define FMA_Z(i)   "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #i "\n"
#define FMA_Y(i)   "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #i "\n"
#define FMA_WINDOW(name, letter, fma, lanes)                                                                 \
    static double name(uint64_t rounds)                                                                      \
    {                                                                                                        \
        double done = (double)rounds * 48 * 2 * (lanes);                                                     \
        __asm__ volatile("vbroadcastss (%1), %%" letter "mm12\n vbroadcastss 4(%1), %%" letter               \
                         "mm13\n" ROUND12(CLEAR_Y) "1:\n" ROUND48(fma) "dec %0\n jnz 1b\n vzeroupper\n"      \
                         : "+r"(rounds)                                                                      \
                         : "r"(factors)                                                                      \
                         : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",   \
                           "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13");                              \
        return done;                                                                                         \
    }
FMA_WINDOW(window_avx512, "z", FMA_Z, 16)
FMA_WINDOW(window_avx2, "y", FMA_Y, 8)

/* The baseline has no fused multiply-add: multiplications and additions in equal number, in independent registers. */
static double window_portable(uint64_t rounds)
{
    static const float one[4] __attribute__((aligned(16))) = {1, 1, 1, 1};
    double done = (double)rounds * 48 * 4;
#define CLEAR(i) "movaps %%xmm12, %%xmm" #i "\n"
#define MUL(i)   "mulps %%xmm12, %%xmm" #i "\n"
#define ADD(i)   "addps %%xmm12, %%xmm" #i "\n"
#define ROUND6   MUL(0) ADD(6) MUL(1) ADD(7) MUL(2) ADD(8) MUL(3) ADD(9) MUL(4) ADD(10) MUL(5) ADD(11)
    __asm__ volatile("movaps (%1), %%xmm12\n" ROUND12(CLEAR) "1:\n" ROUND6 ROUND6 ROUND6 ROUND6
                                                             "dec %0\n jnz 1b\n"
                     : "+r"(rounds)
                     : "r"(one)
                     : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12");
#undef CLEAR
#undef MUL
#undef ADD
#undef ROUND6
    return done;
}
#else
typedef float vector __attribute__((vector_size(16)));

static double window_portable(uint64_t rounds)
{
    volatile float factor = 0.7f;
    vector x = {factor, factor, factor, factor}, c0 = x, c1 = x, c2 = x, c3 = x, c4 = x, c5 = x, c6 = x,
           c7 = x;
    for (uint64_t i = 0; i < rounds; i++) {
        c0 += x * c0, c1 += x * x, c2 += x * x, c3 += x * x, c4 += x * x, c5 += x * x, c6 += x * x,
            c7 += x * x;
        __asm__ volatile("" : "+w"(x)); /* the product is computed anew */
    }
    vector sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7;
    factor = sum[0];
    return (double)rounds * 8 * 8;
}
static double window_avx2(uint64_t rounds)
{
    (void)rounds;
    return 0;
}
#define window_avx512 window_avx2 /* never called: neither target fits here */
#endif

static const fma_window windows[] = {[SP_TARGET_AVX512] = window_avx512,
                                     [SP_TARGET_AVX2] = window_avx2,
                                     [SP_TARGET_PORTABLE] = window_portable};
_Static_assert(SP_COUNT(windows) == SP_CPU_TARGETS, "a target without its window");

static double rate_of(fma_window window, uint64_t rounds, double *took)
{
    double start = sp_now(), done = window(rounds);
    *took = sp_now() - start;
    return *took > 0 ? done / *took : 0;
}

/* The length of a window is settled on the way: one that was interrupted looks long enough and says nothing about the next. */
static double best_flops(crew *all, int index)
{
    fma_window window = windows[all->target];
    uint64_t rounds = 256;
    double end = sp_now() + all->seconds, took, best = 0;
    (void)index;
    do {
        double rate = rate_of(window, rounds, &took);
        if (took < 20e-6 && rounds < (uint64_t)1 << 30) {
            rounds *= 2;
            best = 0; /* shorter windows do not count */
        } else {
            best = SP_MAX(best, rate);
        }
    } while (sp_now() < end || best == 0);
    return best;
}

double sp_peak_flops(sp_target t, int threads, double seconds)
{
    if (!sp_target_fits(t)) return 0;
    crew all = crew_of(threads, seconds, best_flops);
    all.target = t;
    return gather(&all);
}

/* ------------------------------------------------------------------ memory
 * Each thread walks its own slice round and round; all slices together are several times the last cache, so
 * that a piece has left it when its turn comes again. The first one looks at what all have read, window by window. */

enum { PIECE = 64 << 10 };
#define WINDOW_SECONDS 1e-3
static const size_t most_memory = (size_t)256 << 20;

typedef uint64_t words __attribute__((vector_size(16)));

static void read_piece(const uint8_t *from)
{
    const words *p = (const words *)(const void *)from;
    words a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < PIECE / sizeof *p; i += 4) a += p[i], b += p[i + 1], c += p[i + 2], d += p[i + 3];
    volatile uint64_t sink = (a + b + c + d)[0]; /* so that the loads stay */
    (void)sink;
}

static size_t read_by_all(const crew *all)
{
    size_t sum = 0;
    for (int i = 0; i < all->threads; i++) sum += __atomic_load_n(&all->members[i].done, __ATOMIC_RELAXED);
    return sum;
}

static double best_bandwidth(crew *all, int index)
{
    uint8_t *mine = all->memory + (size_t)index * all->slice;
    size_t *done = &all->members[index].done, before = 0;
    double best = 0, start = 0, end = 0;
    memset(mine, 1, all->slice); /* the thread that reads a page touches it first: it lies near */
    atomic_fetch_add(&all->ready, 1);
    for (size_t at = 0; !atomic_load(&all->stop); at = at + 2 * PIECE <= all->slice ? at + PIECE : 0) {
        read_piece(mine + at);
        __atomic_store_n(done, *done + PIECE, __ATOMIC_RELAXED);
        if (index > 0 || atomic_load(&all->ready) < all->made) continue;
        const double now = sp_now();
        if (end == 0) end = now + SP_MAX(all->seconds, 2 * WINDOW_SECONDS);
        if (start > 0 && now - start < WINDOW_SECONDS) continue;
        const size_t sum = read_by_all(all);
        if (start > 0) best = SP_MAX(best, (double)(sum - before) / (now - start));
        start = now;
        before = sum;
        if (now >= end) atomic_store(&all->stop, true);
    }
    return best;
}

static size_t enough_memory(int threads)
{
    const sp_cpu *c = sp_cpu_info();
    size_t size = SP_MAX(8 * c->l3, (size_t)64 << 20);
    size = SP_MIN(size, most_memory);
    if (c->memory) size = SP_MIN(size, c->memory / 4);
    size_t slice = size / (size_t)threads / PIECE * PIECE;
    return slice;
}

double sp_peak_bandwidth(int threads, double seconds)
{
    crew all = crew_of(threads, seconds, best_bandwidth);
    all.slice = enough_memory(all.threads);
    if (!all.slice) return 0;
    size_t size = all.slice * (size_t)all.threads;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
    all.memory = memory;
    double rate = gather(&all);
    munmap(memory, size);
    return rate;
}
