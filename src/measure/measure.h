/* measure: honest comparisons.
 *
 *   bench    two subjects alternately in one run, A B A B ..., so that noise hits both; ratio of medians
 *            with a 95 % interval (bootstrap of the pairs); p50 p90 p99; per-layer table with share of the
 *            peak measured in the same run
 *   verify   two models on the same inputs; the first value that differs is found by an unfused run
 *   kernel   one product by itself, of a random weight or a given one, against the best dense row (in turns, too) and the peak
 *   advice   the formats that fit a tensor, by what they would store
 *   what if  a model pruned so, in memory: what it would gain, layer by layer, and from which sparsity on
 *   fit      a time in; which layer takes which pattern so that the model runs within it, and least is lost
 *
 * A subject is a package, or an ONNX file (compiled in memory). Several sessions may run at a time (load.h), and the other side may be
 * another library in a Python of its own (peer.h). The baseline, when none is named, is the same
 * model compiled with dense implements only. The reference is never a speed baseline.
 */
#ifndef SP_MEASURE_H
#define SP_MEASURE_H

#include "compile/compile.h"
#include "prune/prune.h"
#include "store/store.h"
#include "ops/close.h"
#include "run/run.h"

/* ------------------------------------------------------------------ subjects */

/* A value for every symbol of a graph's inputs: the given one; else a sequence 128, the sides of an image 224, others the smallest
 * that runs, never above the bound that the model itself sets. A given name that is no symbol of the graph is E_USAGE. Lives in the
 * arena. */
sparta_status sp_sizes_fill(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const sp_bindings *given,
                            sp_bindings *out) SP_MUST;
/* E_USAGE when a size is 0: such a run has an answer, an empty one, and nothing to compare or to time. */
sparta_status sp_sizes_some(sparta_ctx *cx, const sp_bindings *sizes) SP_MUST;
/* The symbols of a graph's inputs, each once, in the order they appear. */
sparta_status sp_graph_symbols(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const char *const **out,
                               int *n) SP_MUST;

/* ------------------------------------------------------------------ statistics */

/* Quantile q (0 to 1) of n sorted numbers, between neighbours in proportion; 0 when n is 0. */
double sp_quantile(const double *sorted, int64_t n, double q);
/* 95 % interval of median(b) / median(a) for n pairs, by resampling pairs. The same seed gives the same
 * interval. */
sparta_status sp_ratio_interval(sparta_ctx *cx, const double *a, const double *b, int64_t n, uint64_t seed,
                                double *lo, double *hi) SP_MUST;

typedef struct sp_summary { /* of times of one thing, seconds */
    double best, median, p90, p99;
    bool noisy; /* half of them lie far apart */
} sp_summary;
sparta_status sp_summarise(sparta_ctx *cx, const double *x, int64_t n, sp_summary *out) SP_MUST;
typedef struct sp_comparison { /* of two things that took turns */
    sp_summary a, b;
    double ratio, lo, hi; /* median(b) / median(a) and its 95 % interval: above 1 a is faster */
    /* One of them is, or the interval is wide: measure again, longer, with nothing else running. */
    bool noisy;
} sp_comparison;
/* Of n pairs; the same seed gives the same interval. */
sparta_status sp_compare(sparta_ctx *cx, const double *a, const double *b, int64_t n, uint64_t seed,
                         sp_comparison *out) SP_MUST;

/* ------------------------------------------------------------------ bench */

typedef struct sp_bench_request {
    /* against NULL: the dense baseline; "onnxruntime", "openvino": the ONNX file in this library of a Python (peer.h) */
    const char *subject, *against;
    const char *model; /* the ONNX file of a subject that is a package, for these; NULL: none */
    bool no_baseline;
    int concurrency; /* sessions that run at the same time, each in a thread of its own; 0: 1 */
    int threads;
    double seconds;     /* per subject; 0: use iterations */
    int64_t iterations; /* 0: use seconds */
    int64_t warmup;
    uint64_t seed;
    bool profile;
    sp_bindings sizes;                 /* symbols; the others: batch 1, sequence 128, anything else 1 */
    const sparta_named_tensor *inputs; /* given ones, which say sizes too; NULL: all are made from the seed */
    int n_inputs;
    sp_compile_request compile;
} sp_bench_request;

typedef struct sp_bench_subject {
    char name[256];
    double median, p90, p99, best; /* seconds */
    int64_t runs;
    double *times;      /* every run, in order */
    double items_per_s; /* of all sessions together; items: the size of the symbol `batch`, else 1 */
    size_t memory;
} sp_bench_subject;

typedef struct sp_bench_layer {
    const char *name, *op, *implement, *pattern, *reason, *source;
    double density;                      /* of the weight; NAN: it has none */
    double ms, gops_real, share_of_peak; /* share 0 to 1 of the peak of the threads used; 0: no product */
    double baseline_ms;                  /* the same layer of the baseline in this run; 0: none */
} sp_bench_layer;

typedef struct sp_bench_result {
    sp_bench_subject subject, baseline; /* baseline.runs 0: none */
    double ratio, ratio_lo, ratio_hi;   /* baseline / subject: above 1 the subject is faster */
    bool noisy;                         /* sp_comparison's, or the subject's when it is alone */
    bool complete; /* false: interrupted, and this is what was measured until then; layers are not */
    bool compared,
        agrees; /* the answers with the other library's: whether they were, whether they are alike */
    int concurrency;
    int threads;
    char isa[24];
    sp_bindings sizes; /* of every symbol */
    double peak_gops;
    double sparse_flop_share; /* share of the dense operations of all products that sparse implements did */
    int64_t parameters_given, parameters_left; /* of the subject, where propagation took some; else both 0 */
    double layers_ms;                          /* all layers together, thread time over threads */
    double profiled_ms;                        /* a profiled run by the clock; the difference is waiting */
    int n_layers;
    sp_bench_layer *layer;
} sp_bench_result;

/* The request's compile.options.progress is called while measuring too. E_CANCELLED: out has what was measured until then; subject.runs 0:
 * nothing was. */
sparta_status sp_bench(sparta_ctx *cx, sp_arena *arena, const sp_bench_request *r,
                       sp_bench_result *out) SP_MUST;

/* ------------------------------------------------------------------ verify */

typedef struct sp_verify_request {
    const char *a, *against;
    const char *masks;
    const sparta_named_tensor *inputs; /* given ones; NULL: generated from the seed at a few sizes */
    int n_inputs;
    sp_tolerance tolerance;
    /* Multiply-adds that the references may take at one size, when there is a batch to make smaller; 0: 6e9. */
    double cost;
    uint64_t seed;
    int threads;
    sp_bindings sizes;
    sp_compile_request compile;
} sp_verify_request;
typedef struct sp_verify_output {
    const char *name;
    double max_abs, max_rel, cosine;
    double allowed; /* what max_abs may be; of several comparisons, in the first that failed */
    double unit; /* how much of it one unit in the last place accounts for; 0: nobody asked (ops/close.h) */
    /* Elements that it makes NaN or Inf, which are not compared; of several comparisons, in the first that failed. */
    int64_t unit_broken;
    bool ok;
} sp_verify_output;
typedef struct sp_verify_result {
    bool ok;
    int n_outputs;
    sp_verify_output *output;
    bool compared;                /* an output had elements */
    const char *first_difference; /* name of the first value that differs, or NULL */
    int n_sizes;
    const char *sizes[3]; /* what was compared: "batch=1 sequence=65"; none when the inputs were given */
} sp_verify_result;
/* SPARTA_OK also when they differ: look at out->ok. A package's weights' digests are checked first. */
sparta_status sp_verify(sparta_ctx *cx, sp_arena *arena, const sp_verify_request *r,
                        sp_verify_result *out) SP_MUST;

/* ------------------------------------------------------------------ one product by itself */

typedef struct sp_kernel_request {
    int64_t m, n, k; /* tokens, output rows, inputs */
    /* A matrix of any dtype to time instead of a random one of (n, k); NULL: none. */
    const sparta_tensor *weight;
    const char *format; /* the storage to time; NULL: the fastest */
    double limit;       /* the most slots that a format may store for each non-zero; 0: SP_STORE_LIMIT */
    /* "4x1", or a mask file with one array (.npy, .npz, .safetensors), zero where a weight is gone; NULL: the weight as it is. */
    const char *pattern;
    double sparsity;
    int threads;
    double seconds;
    uint64_t seed;
    const char *target; /* NULL: best */
    bool quick;         /* a few windows, no peak: for a first look */
    bool alone;         /* only the row that stores `format`, without a dense one beside it */
} sp_kernel_request;
typedef struct sp_kernel_result {
    double median_us, best_us, gops_real, gops_dense_equivalent, peak_gops, share_of_peak, dense_best_us,
        dense_median_us;
    double ratio_to_dense, ratio_lo, ratio_hi; /* of medians of windows in turns, as bench has it */
    bool noisy, disturbed;                     /* others worked meanwhile (device/quiet.h) */
    int64_t nnz;
    int64_t stored_bytes; /* of the weight as the implement keeps it */
    double gbytes_per_s;  /* of them, at best_us */
    /* Read from memory; 0: the tokens are too many for it to matter. */
    double peak_gbytes_per_s, share_of_bandwidth;
    int threads;
    char implement[48], point[64], parameters[96], dense_name[48], isa[24];
    char format[256]; /* in which the implement keeps the weight, canonical; a longer one is cut */
    char pattern[32]; /* found in the weight */
} sp_kernel_result;
sparta_status sp_kernel_bench(sparta_ctx *cx, const sp_kernel_request *r, sp_kernel_result *out) SP_MUST;

/* ------------------------------------------------------------------ the same on a GPU */

/* sparta_blocks_multiply or _sample with a random weight of (n, k) in blocks, m tokens. */
typedef struct sp_gpu_bench_request {
    int gpu;
    sparta_verb verb; /* multiply, turned (the gradient of x) or sample (the gradient of the weight) */
    int64_t m, n, k;
    const char *pattern; /* sides of a block: "64x32" */
    double sparsity;     /* share of the blocks that is gone */
    sparta_dtype dtype;
    bool tf32;      /* f32 may be rounded to tf32, by the dense product too */
    double seconds; /* for each of the two */
    uint64_t seed;
    bool tune; /* first find the point that it runs at (sparta_blocks_tune) */
} sp_gpu_bench_request;
typedef struct sp_gpu_bench_result {
    double best_us, median_us; /* of the device: calls captured into a graph */
    double tflops_real;        /* multiply-adds of elements that exist, times two, at best_us */
    double gbytes_per_s;       /* values, operand and result, each once, at best_us */
    int64_t nnz, blocks, stored_bytes;
    /* Of copies on the device, in this run: bytes that are read and written. */
    double peak_gbytes_per_s, share_of_bandwidth;
    /* Weights that take turns so that none is found in the L2 cache; 1: one, many tokens do not wait for it. */
    int in_turn;
    char implement[16], isa[16], device[96];
    char point[64];     /* where it differs from the rule's; "": it is the rule's */
    sparta_tuned tuned; /* points 0: it was not asked for, or there is no choice */
    /* Empty: there is no cuBLAS, and dense_problem says why. All below is then 0. */
    char dense_name[16];
    const char *dense_problem;
    double dense_best_us, dense_median_us;
    double ratio_to_dense, ratio_lo, ratio_hi; /* of medians of rounds in turns */
    double peak_tflops, share_of_peak;         /* of a dense product with sides of peak_side, in this run */
    int64_t peak_side;
    double clock_mhz; /* of the multiprocessors, right after; 0: not known */
    bool noisy;
} sp_gpu_bench_result;
/* The answer is checked at some hundred places first: E_DIFFER. E_DEVICE: there is no such GPU. */
sparta_status sp_gpu_bench(sparta_ctx *cx, const sp_gpu_bench_request *r, sp_gpu_bench_result *out) SP_MUST;

/* What a GPU does at most, measured in a second or two: f16. 0: not known (no cuBLAS; counters that say nothing). */
typedef struct sp_gpu_peaks {
    double tflops;       /* of a dense product with sides of `side`, by cuBLAS */
    double gbytes_per_s; /* of copies on the device: read and written */
    double clock_mhz;    /* right after the product */
    int64_t side;
} sp_gpu_peaks;
struct sp_gpu;
sparta_status sp_gpu_peaks_find(sparta_ctx *cx, const struct sp_gpu *gpu, sp_gpu_peaks *out) SP_MUST;

/* ------------------------------------------------------------------ what if the model were pruned so? */

/* From which sparsity on the best sparse row is faster than the best dense one, for a weight of (n, k) with a random mask of a
 * pattern; one thread. */
typedef struct sp_break_even {
    int64_t n, k;
    int64_t tokens;        /* 0: 128 */
    double sparsity;       /* between measured ones; NAN: none, `note` says why */
    const char *note;      /* "" or what there is to say */
    const char *source;    /* "measured", or "database": measured here before */
    const char *implement; /* the sparse row that was the fastest nearest to it; "" : none */
} sp_break_even;
/* Of out->n, out->k, out->tokens; `pattern` without a sparsity ("4x1", "rows"); n:m has no break-even. target NULL: the best. Every
 * measurement is remembered in db (path; NULL: beside the kernel cache). */
sparta_status sp_break_even_find(sparta_ctx *cx, sp_arena *arena, const char *db, const char *pattern,
                                 const char *target, sp_break_even *out) SP_MUST;
/* Of the texts that rows of products run, in the key of its times: those of an edited kernel are not those of the one before. */
sparta_status sp_break_even_code(sparta_ctx *cx, uint64_t *out) SP_MUST;

typedef struct sp_what_if_request {
    const char *model;          /* ONNX file or package */
    const char *const *pattern; /* "4x1:0.9", "2:4" */
    int n_patterns;
    int threads;
    double seconds; /* to measure a pattern and, in turns with it, the dense model: each */
    uint64_t seed;
    sp_bindings sizes; /* symbols, as for bench; the model is compiled for those that are given */
    const sparta_named_tensor *inputs; /* given ones, which say sizes too; NULL: all are made from the seed */
    int n_inputs;
    bool no_break_even;
    sp_compile_request compile; /* target, database, progress; it does not prune, mask or schedule */
} sp_what_if_request;
typedef struct sp_what_if_layer {
    const char *name, *pattern, *implement, *source;
    const char *reason; /* why it is not faster; "" when it is */
    int64_t n, k;
    int64_t tokens;               /* that the times are for: 128, or as many as there are when 16 at most */
    double density, us, dense_us; /* one thread */
} sp_what_if_layer;
typedef struct sp_what_if_remark { /* a weight that the pattern does not fit as it is */
    const char *weight, *remark;
    int64_t n, k;
    bool skipped; /* not pruned; otherwise padded */
} sp_what_if_remark;
typedef struct sp_what_if_pattern {
    const char *pattern;     /* as it was asked for */
    int n_weights, n_pruned; /* weights of products, those that were pruned */
    double sparsity;         /* of the pruned ones, reached */
    double norm_kept;        /* ||what stays|| / ||all|| of them: a proxy for what accuracy does, no more */
    double speedup, ci95[2]; /* over the dense model, whole; NAN: nothing was pruned */
    double median_ms, dense_ms; /* in that run */
    size_t bytes, dense_bytes;  /* of all weights as they are stored */
    int n_layers, n_remarks, n_break_even;
    sp_what_if_layer *layer; /* those that gain most first */
    sp_what_if_remark *remark;
    sp_break_even *break_even; /* one a shape, those with the most work first */
} sp_what_if_pattern;
typedef struct sp_what_if_left { /* a matrix-like weight that is left, whatever the pattern (prune/left.c) */
    const char *weight, *reason;
    int rank;
    int64_t dim[SPARTA_RANK];
} sp_what_if_left;
typedef struct sp_what_if {
    int threads;
    char isa[24];
    sp_bindings sizes;
    bool complete; /* everything that was asked for is there */
    int n, n_left;
    sp_what_if_pattern *pattern;
    sp_what_if_left *left; /* weights that no pattern prunes */
} sp_what_if;
/* For each pattern: copies of the weights are pruned by magnitude, compiled and run in turns with the dense model. The answer
 * lives in the arena. E_CANCELLED: `out` has what was measured until then (n may be 0); every other failure leaves it. */
sparta_status sp_what_if_run(sparta_ctx *cx, sp_arena *arena, const sp_what_if_request *r,
                             sp_what_if *out) SP_MUST;

/* ------------------------------------------------------------------ a time in, patterns out */

typedef struct
    sp_exchange_option { /* a pattern of a layer: what it takes, and the share of its output that is lost */
    double us, error;    /* NAN: it is none */
} sp_exchange_option;
typedef struct sp_exchange_layer {
    double dense_us;
    int n;
    const sp_exchange_option *option;
    int chosen; /* -1: dense */
} sp_exchange_layer;
/* Which option each layer takes so that together they take `budget` at most and the sum of the squares of errors is small; *us gets what
 * they take. Above the budget: it cannot be met, and every layer has its fastest. */
sparta_status sp_exchange(sparta_ctx *cx, sp_exchange_layer *layer, int n, double budget, double *us) SP_MUST;

#define SP_FIT_TOLERANCE 0.02 /* of a measured time over its target: the noise of times */
typedef struct sp_fit_request {
    const char *model;
    double ms, speedup; /* one of the two; speedup over the same model dense */
    /* "4x1:0.9", "2:4"; "4x1" stands for several sparsities; none: 4x1 and 2:4. */
    const char *const *pattern;
    int n_patterns;
    /* method, data and keep: how errors are found. Without data an error is the share of the norm that goes. */
    sp_prune_request prune;
    double seconds; /* to measure a choice and, in turns with it, the dense model: each */
    uint64_t seed;
    /* Instead of what is found here: what a weight loses by a pattern, NAN: leave it; microseconds that its products take, pattern NULL: dense,
     * NAN: the pattern is none. With `time` nothing is compiled or measured. NULL: none. */
    double (*error)(void *user, const char *weight, const char *pattern);
    double (*time)(void *user, const char *weight, const char *pattern);
    void *user;
    sp_compile_request compile; /* dims, threads, target, database, progress */
} sp_fit_request;
typedef struct
    sp_fit_row { /* of a weight by its name: a layer that runs twice may be two values, which take one pattern */
    const char *weight, *layer;
    int64_t n, k, tokens;
    const char *pattern; /* "": it stays dense */
    double dense_us, us; /* that its products take, on one thread */
    double error;        /* 0 to 1 */
    const char *why;     /* no pattern is an option; NULL: one is, or a caller's errors say so */
} sp_fit_row;
typedef struct sp_fit {
    int n, threads, rounds;
    sp_fit_row *row;
    const sp_prune_spec *const *each; /* of each row; NULL: it stays dense */
    double target_ms, dense_ms;       /* of the whole model */
    double expected_ms;               /* by the sum of layers */
    double measured_ms;               /* NAN: times were given */
    bool noisy;
    sp_bindings sizes;
} sp_fit;
/* E_RANGE when the time cannot be reached, with the best that can. The answer lives in the arena. */
sparta_status sp_fit_run(sparta_ctx *cx, sp_arena *arena, const sp_fit_request *r, sp_fit *out) SP_MUST;

/* ------------------------------------------------------------------ advice: the formats that fit a tensor */

#define SP_ADVISE_SLACK 1.05
typedef struct sp_advise_request {
    double slack; /* a pattern holds when it stores at most this many slots per element; 0: SP_ADVISE_SLACK */
    size_t bitset;    /* the most bytes of a bitset to look for patterns in; 0: 256 MiB */
    bool group;       /* look for an order of the rows in which blocks show, too */
    const char *also; /* one more format to compare; NULL: none */
} sp_advise_request;
typedef struct sp_advice_row {
    const char *format; /* as one types it: "csr", "bsr(4,4)" */
    sp_format parsed;
    sp_store_stats stats;
    double share;        /* of the bytes of a dense array */
    const char *pattern; /* that it was found for: "4x1", "2:4 along k"; "" when for none */
    bool exact;          /* the pattern has no slot to spare */
    /* That stores a linear layer so; NULL: none, or none for its dtype. */
    const struct sp_implement *implement;
    double us; /* of a linear layer stored so, when it was timed (sp_advise_time); 0: not */
} sp_advice_row;
typedef struct sp_advice {
    int64_t elements;
    double density, dense_bytes;
    bool looked; /* for patterns; no: it is no matrix, or too large for a bitset */
    int n;
    sp_advice_row *row;           /* fewest bytes first */
    const sp_advice_row *fastest; /* of those that were timed; NULL: none */
    /* With `group`: the best order of rows that was found, NULL when none is better than the present one. Row i of the
     * new matrix is row order[i]. */
    int64_t *order;
    int group_n, group_m; /* the block */
    double fill_before, fill_after, group_bytes;
} sp_advice;
/* Everything of the result lives in the arena. */
sparta_status sp_advise(sparta_ctx *cx, sp_arena *arena, const sp_packed *p, const sp_advise_request *r,
                        sp_advice *out) SP_MUST;
typedef struct sp_advise_timing {
    int64_t tokens;
    double seconds; /* for each format */
    double limit;   /* of slots over non-zeros: formats past it are not timed */
} sp_advise_timing;
/* Fill in how long each row takes on one thread; of a matrix that is small enough to be made dense. */
sparta_status sp_advise_time(sparta_ctx *cx, const sp_packed *p, const sp_advise_timing *how,
                             sp_advice *a) SP_MUST;

#endif
