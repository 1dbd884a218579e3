/* measure: honest comparisons.
 *
 *   bench    two subjects alternately in one run, A B A B ..., so that noise hits both; ratio of medians
 *            with a 95 % interval (bootstrap of the pairs); p50 p90 p99; per-layer table with share of the
 *            peak measured in the same run
 *   verify   two models on the same inputs; the first value that differs is found by an unfused run
 *   kernel   one product by itself, against the best dense row and the peak
 *
 * A subject is a package, or an ONNX file (compiled in memory). The baseline, when none is named, is the same
 * model compiled with dense implements only. The reference is never a speed baseline.
 */
#ifndef SPARTA_MEASURE_H
#define SPARTA_MEASURE_H

#include "compile/compile.h"
#include "run/run.h"

/* ------------------------------------------------------------------ subjects */

/* What a file is, by its first bytes. What is nothing else is taken for ONNX: its reader says what is wrong
 * with it. */
typedef enum { SPARTA_FILE_ONNX, SPARTA_FILE_PACKAGE, SPARTA_FILE_NPY, SPARTA_FILE_NPZ } sparta_file_kind;
sparta_status sparta_file_kind_of(sparta_ctx *cx, const char *path, sparta_file_kind *out) SPARTA_MUST;

/* A value for every symbol of a graph's inputs: the given one; else batch 1, a sequence 128, others 1, never
 * above the bound that the model itself sets. A given name that is no symbol of the graph is E_USAGE. Lives
 * in the arena. */
sparta_status sparta_sizes_fill(sparta_ctx *cx, sparta_arena *arena, const sparta_graph *g,
                                const sparta_bindings *given, sparta_bindings *out) SPARTA_MUST;
/* "batch=1 sequence=128" */
void sparta_sizes_print(const sparta_bindings *sizes, sparta_text *out);
/* The symbols of a graph's inputs, each once, in the order they appear. */
sparta_status sparta_graph_symbols(sparta_ctx *cx, sparta_arena *arena, const sparta_graph *g,
                                   const char *const **out, int *n) SPARTA_MUST;

/* ------------------------------------------------------------------ statistics */

/* Quantile q (0 to 1) of n sorted numbers, between neighbours in proportion; 0 when n is 0. */
double sparta_quantile(const double *sorted, int64_t n, double q);
/* 95 % interval of median(b) / median(a) for n pairs, by resampling pairs. The same seed gives the same
 * interval. */
sparta_status sparta_ratio_interval(sparta_ctx *cx, const double *a, const double *b, int64_t n,
                                    uint64_t seed, double *lo, double *hi) SPARTA_MUST;

/* ------------------------------------------------------------------ bench */

typedef struct sparta_bench_request {
    const char *subject, *against; /* against NULL: the dense baseline */
    bool no_baseline;
    int threads;
    double seconds;     /* per subject; 0: use iterations */
    int64_t iterations; /* 0: use seconds */
    int64_t warmup;
    uint64_t seed;
    bool profile;
    sparta_bindings sizes; /* symbols; the others: batch 1, sequence 128, anything else 1 */
    sparta_compile_request compile;
} sparta_bench_request;

typedef struct sparta_bench_subject {
    char name[256];
    double median, p90, p99, best; /* seconds */
    int64_t runs;
    double *times;      /* every run, in order */
    double items_per_s; /* items: the size of the symbol `batch`, else 1 */
    size_t memory;
} sparta_bench_subject;

typedef struct sparta_bench_layer {
    const char *name, *op, *implement, *pattern, *reason, *source;
    double density;                      /* of the weight; NAN: it has none */
    double ms, gops_real, share_of_peak; /* share 0 to 1 of the peak of the threads used; 0: no product */
    double baseline_ms;                  /* the same layer of the baseline in this run; 0: none */
} sparta_bench_layer;

typedef struct sparta_bench_result {
    sparta_bench_subject subject, baseline; /* baseline.runs 0: none */
    double ratio, ratio_lo, ratio_hi;       /* baseline / subject: above 1 the subject is faster */
    int threads;
    char isa[24];
    sparta_bindings sizes; /* of every symbol */
    double peak_gops;
    double sparse_flop_share; /* share of the dense operations of all products that sparse implements did */
    double layers_ms;         /* all layers together, thread time over threads */
    double profiled_ms;       /* a profiled run by the clock; the difference is waiting */
    int n_layers;
    sparta_bench_layer *layer;
} sparta_bench_result;

/* The request's compile.progress is called while measuring too. */
sparta_status sparta_bench(sparta_ctx *cx, sparta_arena *arena, const sparta_bench_request *r,
                           sparta_bench_result *out) SPARTA_MUST;

/* ------------------------------------------------------------------ verify */

typedef struct sparta_verify_request {
    const char *a, *against;
    const char *masks;
    const sparta_named_tensor *inputs; /* given ones; NULL: generated from the seed at a few sizes */
    int n_inputs;
    double rtol, atol; /* < 0: the defaults of the dtype */
    uint64_t seed;
    int threads;
    sparta_bindings sizes;
    sparta_compile_request compile;
} sparta_verify_request;
typedef struct sparta_verify_output {
    const char *name;
    double max_abs, max_rel, cosine;
    double
        allowed; /* what max_abs may be: atol + rtol * max|b|; of several comparisons, in the first that failed */
    bool ok;
} sparta_verify_output;
typedef struct sparta_verify_result {
    bool ok;
    int n_outputs;
    sparta_verify_output *output;
    const char *first_difference; /* name of the first value that differs, or NULL */
    int n_sizes;
    const char *sizes[3]; /* what was compared: "batch=1 sequence=65"; none when the inputs were given */
} sparta_verify_result;
/* SPARTA_OK also when they differ: look at out->ok. A package's weights' digests are checked first. */
sparta_status sparta_verify(sparta_ctx *cx, sparta_arena *arena, const sparta_verify_request *r,
                            sparta_verify_result *out) SPARTA_MUST;
/* Compare two results: |a-b| <= atol + rtol * max|b|; NaN equals NaN, Inf equals Inf of the same sign. */
bool sparta_close(const sparta_tensor *a, const sparta_tensor *b, double rtol, double atol,
                  sparta_verify_output *out);

/* ------------------------------------------------------------------ one product by itself */

typedef struct sparta_kernel_request {
    int64_t m, n, k;     /* tokens, output rows, inputs */
    const char *pattern; /* "4x1" */
    double sparsity;
    int threads;
    double seconds;
    uint64_t seed;
    const char *target; /* NULL: best */
} sparta_kernel_request;
typedef struct sparta_kernel_result {
    double median_us, best_us, gops_real, gops_dense_equivalent, peak_gops, share_of_peak, dense_best_us,
        ratio_to_dense;
    int64_t nnz;
    int threads;
    char implement[48], parameters[96], dense_name[48], isa[24];
} sparta_kernel_result;
sparta_status sparta_kernel_bench(sparta_ctx *cx, const sparta_kernel_request *r,
                                  sparta_kernel_result *out) SPARTA_MUST;

#endif
