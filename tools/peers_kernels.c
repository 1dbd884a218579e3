/* Times one product y[tokens, n] = x[tokens, k] w[n, k]' by oneDNN or libxsmm, for tools/bench_kernels.py, which
 * builds it with -DONEDNN and -DLIBXSMM where their headers are installed. It is no part of sparta's build.
 *
 *     peers_kernels PEER N K TOKENS [WEIGHTS]      WEIGHTS: a file of n x k floats; without it random ones
 *
 *     onednn   dense: matmul primitive, weights in the order that it asks for, x and y row-major
 *     libxsmm  dense: batch-reduce kernel over blocks of 64 x 64, w and x blocked beforehand, y row-major
 *     spmdm    sparse: libxsmm's sparse times dense, w in its slices, x and y with the tokens along the row
 *
 * When it is ready (a few elements compared with a plain sum) it prints one line, then for each line "SECONDS"
 * that it reads one line with the best and the median of short windows. All lines are JSON. One thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef ONEDNN
#include <dnnl.h>
#endif
#ifdef LIBXSMM
#include <libxsmm.h>
#endif

enum { WINDOWS = 100000, BLOCK = 64, CHECKED = 200 };
static const double WINDOW = 30e-6; /* seconds: long enough for the clock, short enough to be left alone */

typedef struct product {
    int n, k, tokens;
    float *w; /* (n, k) */
    float *x; /* (tokens, k) */
    float *y; /* (tokens, n), or (n, tokens) when `turned` */
    int turned;
    char version[64];
} product;

typedef struct peer {
    const char *name;
    void (*open)(product *p);
    void (*run)(product *p);
} peer;

static void fail(const char *what)
{
    fprintf(stderr, "peers_kernels: %s\n", what);
    exit(1);
}

static void *room(size_t floats)
{
    void *p = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
    if (!p) fail("out of memory");
    return p;
}

/* ------------------------------------------------------------------ oneDNN */
#ifdef ONEDNN

static struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t matmul;
    dnnl_exec_arg_t arg[3];
} one;

static void must(dnnl_status_t status)
{
    if (status != dnnl_success) fail("oneDNN refuses");
}

static dnnl_memory_t memory(const dnnl_memory_desc_t *d, void *data)
{
    dnnl_memory_t m;
    must(dnnl_memory_create(&m, d, one.engine, data));
    return m;
}

static dnnl_memory_t reordered(dnnl_memory_t from, const dnnl_memory_desc_t *as)
{
    const dnnl_memory_desc_t *is;
    dnnl_primitive_desc_t d;
    dnnl_primitive_t reorder;
    dnnl_memory_t to = memory(as, DNNL_MEMORY_ALLOCATE);
    must(dnnl_memory_get_memory_desc(from, &is));
    must(dnnl_reorder_primitive_desc_create(&d, is, one.engine, as, one.engine, NULL));
    must(dnnl_primitive_create(&reorder, d));
    dnnl_exec_arg_t arg[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    must(dnnl_primitive_execute(reorder, one.stream, 2, arg));
    must(dnnl_stream_wait(one.stream));
    return to;
}

static void open_onednn(product *p)
{
    dnnl_dims_t xs = {p->tokens, p->k}, ws = {p->k, p->n}, ys = {p->tokens, p->n};
    dnnl_memory_desc_t x, w, any, y;
    dnnl_matmul_desc_t d;
    dnnl_primitive_desc_t pd;
    must(dnnl_engine_create(&one.engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&one.stream, one.engine, dnnl_stream_default_flags));
    must(dnnl_memory_desc_init_by_tag(&x, 2, xs, dnnl_f32, dnnl_ab));
    must(dnnl_memory_desc_init_by_tag(&w, 2, ws, dnnl_f32, dnnl_ba));
    must(dnnl_memory_desc_init_by_tag(&any, 2, ws, dnnl_f32, dnnl_format_tag_any));
    must(dnnl_memory_desc_init_by_tag(&y, 2, ys, dnnl_f32, dnnl_ab));
    must(dnnl_matmul_desc_init(&d, &x, &any, NULL, &y));
    must(dnnl_primitive_desc_create(&pd, &d, NULL, one.engine, NULL));
    must(dnnl_primitive_create(&one.matmul, pd));
    dnnl_memory_t weights =
        reordered(memory(&w, p->w), dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    one.arg[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, memory(&x, p->x)};
    one.arg[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, weights};
    one.arg[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, memory(&y, p->y)};
    const dnnl_version_t *v = dnnl_version();
    snprintf(p->version, sizeof p->version, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

static void run_onednn(product *p)
{
    (void)p;
    must(dnnl_primitive_execute(one.matmul, one.stream, 3, one.arg));
    must(dnnl_stream_wait(one.stream));
}
#endif

/* ------------------------------------------------------------------ libxsmm, dense
 *
 * Its matrices are column-major, so a block of 64 outputs is the long side of A and of C:
 *
 *     w  [n/64][k/64][64 inputs][64 outputs]
 *     x  [tokens/b][k/64][b tokens][64 inputs]       b: the largest divisor of the tokens up to 64 */
#ifdef LIBXSMM

static struct {
    libxsmm_smmfunction_reducebatch_strd kernel;
    float *w, *x;
    int tokens;
} dense;

static void block_weights(const product *p)
{
    float *to = dense.w = room((size_t)p->n * p->k);
    for (int n = 0; n < p->n; n += BLOCK)
        for (int k = 0; k < p->k; k++)
            for (int i = 0; i < BLOCK; i++) *to++ = p->w[(size_t)(n + i) * p->k + k];
}

static void block_activations(const product *p)
{
    float *to = dense.x = room((size_t)p->tokens * p->k);
    for (int t = 0; t < p->tokens; t += dense.tokens)
        for (int k = 0; k < p->k; k += BLOCK)
            for (int i = 0; i < dense.tokens; i++, to += BLOCK)
                memcpy(to, p->x + (size_t)(t + i) * p->k + k, BLOCK * sizeof(float));
}

static void open_libxsmm(product *p)
{
    const libxsmm_blasint ldc = p->n;
    const float zero = 0;
    if (p->n % BLOCK || p->k % BLOCK) fail("libxsmm: n and k must be multiples of 64");
    for (dense.tokens = BLOCK; p->tokens % dense.tokens; dense.tokens--) {}
    block_weights(p);
    block_activations(p);
    dense.kernel = libxsmm_smmdispatch_reducebatch_strd(
        BLOCK, dense.tokens, BLOCK, BLOCK * BLOCK * sizeof(float), dense.tokens * BLOCK * sizeof(float), NULL,
        NULL, &ldc, NULL, &zero, NULL, NULL);
    if (!dense.kernel) fail("libxsmm has no kernel for this CPU");
    snprintf(p->version, sizeof p->version, "libxsmm %s", LIBXSMM_VERSION);
}

static void run_libxsmm(product *p)
{
    const unsigned long long blocks = (unsigned long long)(p->k / BLOCK);
    for (int t = 0; t < p->tokens; t += dense.tokens)
        for (int n = 0; n < p->n; n += BLOCK)
            dense.kernel(dense.w + (size_t)n * p->k, dense.x + (size_t)t * p->k, p->y + (size_t)t * p->n + n,
                         &blocks);
}

/* ------------------------------------------------------------------ libxsmm, sparse times dense */

static struct {
    libxsmm_spmdm_handle handle;
    libxsmm_CSR_sparseslice *slices;
    float *x; /* (k, tokens) */
} sparse;

static void open_spmdm(product *p)
{
    libxsmm_init();
    libxsmm_spmdm_init(p->n, p->tokens, p->k, 1, &sparse.handle, &sparse.slices);
    for (int i = 0; i < libxsmm_spmdm_get_num_createSparseSlice_blocks(&sparse.handle); i++)
        libxsmm_spmdm_createSparseSlice_fp32_thread(&sparse.handle, 'N', p->w, sparse.slices, i, 0, 1);
    sparse.x = room((size_t)p->k * p->tokens);
    for (int t = 0; t < p->tokens; t++)
        for (int k = 0; k < p->k; k++) sparse.x[(size_t)k * p->tokens + t] = p->x[(size_t)t * p->k + k];
    p->turned = 1;
    snprintf(p->version, sizeof p->version, "libxsmm %s", LIBXSMM_VERSION);
}

static void run_spmdm(product *p)
{
    const float alpha = 1, beta = 0;
    for (int i = 0; i < libxsmm_spmdm_get_num_compute_blocks(&sparse.handle); i++)
        libxsmm_spmdm_compute_fp32_thread(&sparse.handle, 'N', 'N', &alpha, sparse.slices, sparse.x, 'N',
                                          &beta, p->y, i, 0, 1);
}
#endif

/* ------------------------------------------------------------------ the product, and how it is timed */

static const peer PEERS[] = {
#ifdef ONEDNN
    {"onednn", open_onednn, run_onednn},
#endif
#ifdef LIBXSMM
    {"libxsmm", open_libxsmm, run_libxsmm},
    {"spmdm", open_spmdm, run_spmdm},
#endif
    {NULL, NULL, NULL}};

static const peer *find(const char *name)
{
    const peer *p = PEERS;
    while (p->name && strcmp(p->name, name)) p++;
    if (!p->name) fail("this peer is not built in");
    return p;
}

static float number(void)
{
    return (float)rand() / (float)RAND_MAX - 0.5f;
}

static void fill(product *p, const char *weights)
{
    size_t size = (size_t)p->n * p->k;
    p->w = room(size);
    p->x = room((size_t)p->tokens * p->k);
    p->y = room((size_t)p->tokens * p->n);
    for (size_t i = 0; i < (size_t)p->tokens * p->k; i++) p->x[i] = number();
    if (!weights) {
        for (size_t i = 0; i < size; i++) p->w[i] = number();
        return;
    }
    FILE *f = fopen(weights, "rb");
    if (!f || fread(p->w, sizeof(float), size, f) != size) fail("the weights do not have n x k floats");
    fclose(f);
}

/* The largest difference of some elements to a plain sum, over the largest of these. */
static double difference(const product *p)
{
    double worst = 0, most = 0;
    for (int i = 0; i < CHECKED; i++) {
        int n = rand() % p->n, t = rand() % p->tokens;
        double sum = 0;
        for (int k = 0; k < p->k; k++) sum += (double)p->w[(size_t)n * p->k + k] * p->x[(size_t)t * p->k + k];
        double y = p->turned ? p->y[(size_t)n * p->tokens + t] : p->y[(size_t)t * p->n + n];
        worst = fmax(worst, fabs(y - sum));
        most = fmax(most, fabs(sum));
    }
    return worst / most;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double window(const peer *e, product *p, long repeats)
{
    double start = now();
    for (long i = 0; i < repeats; i++) e->run(p);
    return (now() - start) / (double)repeats;
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void turn(const peer *e, product *p, double seconds)
{
    static double times[WINDOWS];
    long repeats = (long)(WINDOW / window(e, p, 1)) + 1;
    double end = now() + seconds;
    int n = 0;
    while (n < WINDOWS && (n < 3 || now() < end)) times[n++] = window(e, p, repeats);
    qsort(times, (size_t)n, sizeof *times, ascending);
    printf("{\"best_us\": %.3f, \"median_us\": %.3f, \"windows\": %d}\n", times[0] * 1e6, times[n / 2] * 1e6,
           n);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[64];
    if (argc < 5) fail("peers_kernels PEER N K TOKENS [WEIGHTS]");
    product p = {.n = atoi(argv[2]), .k = atoi(argv[3]), .tokens = atoi(argv[4])};
    const peer *e = find(argv[1]);
    if (p.n < 1 || p.k < 1 || p.tokens < 1) fail("n, k and the tokens must be at least 1");
    fill(&p, argv[5]);
    e->open(&p);
    e->run(&p);
    if (!(difference(&p) < 1e-4)) fail("the answer is wrong");
    printf("{\"version\": \"%s\"}\n", p.version);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) turn(e, &p, atof(line));
    return 0;
}
