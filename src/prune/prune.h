/* prune: sparsifiers: magnitude, by pattern, in one shot; a threshold; functions of users, whose answers are checked; and whole models, by what
 * their layers meet in data (Wanda, SparseGPT).
 *
 *     sp_prune_spec s;
 *     SP_TRY(sp_prune_parse(cx, "4x1:0.9", &s));
 *     SP_TRY(sp_prune(cx, &s, &w, NULL));      w: a view (n,k)
 *
 * A block's score is the mean of |w| over it (a block at a ragged edge: over what is there; a NaN or Inf in
 * it keeps it as long as possible); the blocks with the smallest scores go until the sparsity is reached:
 * until at least that share of the elements went. Among equals the one with the lower index (n, then k) goes
 * first, so that the result is the same everywhere. n:m keeps the n largest of each m along the input (along
 * the output with @out), of a ragged last group min(n, what is there).
 */
#ifndef SP_PRUNE_H
#define SP_PRUNE_H

#include "store/store.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"
#include "tesa/tesa.h"

typedef struct sp_prune_spec {
    int block_n, block_m; /* NxM; 0 is the whole dimension: rows are 1x0, cols 0x1 */
    double sparsity;
    int keep, of; /* n:m when of > 0 */
    bool along_out;
} sp_prune_spec;
/* "NxM:SPARSITY", "n:m", "n:m@out", "rows:S", "cols:S". 0 <= S <= 1. Wrong text is E_USAGE with the forms it
 * could have; heads and bands are E_UNSUPPORTED. */
sparta_status sp_prune_parse(sparta_ctx *cx, const char *text, sp_prune_spec *out) SP_MUST;
/* The pattern alone, without a sparsity: "NxM", "n:m", "n:m@out", "rows", "cols". */
sparta_status sp_prune_parse_pattern(sparta_ctx *cx, const char *text, sp_prune_spec *out) SP_MUST;
/* Set pruned elements of a 2-D float view (n, k; any strides) to 0 in place; mask, when given, gets what
 * stays (free it with sp_mask_free). E_SHAPE, E_DTYPE when w is no such view. */
sparta_status sp_prune(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w,
                       sp_mask *mask) SP_MUST;
/* Elements of so many that must go for this sparsity; rounding of the product does not ask for one more. */
int64_t sp_prune_needed(int64_t count, double sparsity);
/* The blocks with the smallest scores go until at least `need` elements went (none: it is not above 0); adds what went to *gone. Not for
 * n:m. For parts of a weight: what one part rounds up, the next need not give. */
sparta_status sp_prune_count(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w, int64_t need,
                             int64_t *gone) SP_MUST;
/* Does no block (or group) of the pattern fit into a weight of (n, k)? Is the weight no multiple of them, so that those at its edge
 * are smaller, and kernels pad them? */
bool sp_prune_too_large(const sp_prune_spec *spec, int64_t n, int64_t k);
bool sp_prune_ragged(const sp_prune_spec *spec, int64_t n, int64_t k);
/* Tell the user what is odd about pruning w so: edges, elements that are not finite. Before it is pruned. */
void sp_prune_note(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w);
/* Set the elements of a 2-D float view whose magnitude is below the value to 0; NaN stays. */
void sp_prune_threshold(const sparta_tensor *w, double value);

/* ------------------------------------------------------------------ with data (layer.c, factor.c, met.c, model.c) */
typedef enum { SP_PRUNE_MAGNITUDE, SP_PRUNE_WANDA, SP_PRUNE_SPARSEGPT } sp_prune_method;
enum { SP_PRUNE_SAMPLE = 512 }; /* inputs of a layer on which its error is measured */
/* What the inputs of a layer are, over all data. */
typedef struct sp_prune_met {
    int64_t k, rows; /* features; inputs that came */
    float *hessian;  /* (k, k), X'X on and above its diagonal; NULL: the squares are enough */
    double *squares; /* (k), sums of x^2 */
    float *sample;   /* (SP_PRUNE_SAMPLE, k), the first of them */
    int64_t n_sample;
} sp_prune_met;
sparta_status sp_prune_met_create(sparta_ctx *cx, int64_t k, bool hessian, sp_prune_met *out) SP_MUST;
void sp_prune_met_free(sparta_ctx *cx, sp_prune_met *met);
/* Inputs as a value has them: any rank, the last dimension is k. */
sparta_status sp_prune_met_add(sparta_ctx *cx, sp_prune_met *met, const sparta_tensor *x) SP_MUST;
/* |X (w - left)'| / |X w'| on the sample; NAN without one. Both (n, k). */
sparta_status sp_prune_met_error(sparta_ctx *cx, const sp_prune_met *met, int64_t n, const float *w,
                                 const float *left, double *out) SP_MUST;
/* Prune w (n, met->k) by what was met; not by magnitude, which is sp_prune. The met may be changed. */
sparta_status sp_prune_layer(sparta_ctx *cx, const sp_prune_spec *spec, sp_prune_method method,
                             sp_prune_met *met, int64_t n, float *w) SP_MUST;
/* U, upper, with (H + damp)^-1 = U'U; both (n, n). */
sparta_status sp_prune_factor(sparta_ctx *cx, int64_t n, const float *h, float *u) SP_MUST;

typedef struct sp_prune_request {
    sp_prune_spec spec;
    /* Of each weight its own, in the order of sp_prune_weights, NULL where it is left; NULL: spec for all. */
    const sp_prune_spec *const *each;
    bool leave; /* a weight of which nothing would remain, or that is too small, as it is: no error */
    sp_prune_method method;
    const char
        *data; /* .npz or .safetensors: an array per input, items along its first dimension; NULL: none */
    int n_keep;
    const char *const *keep; /* globs of weights, or of products, to leave */
    int threads;             /* of runs on data and of what is made of them; 0: the cores */
    void (*progress)(void *user, int done, int all, const char *what);
    void *user;
} sp_prune_request;
typedef struct sp_prune_row {
    const char *weight, *layer;
    int64_t n, k;
    double density, norm_kept;
    double error;    /* of its output; NAN: there was no data */
    const char *why; /* it was left; NULL: it was pruned */
} sp_prune_row;
typedef struct sp_left { /* a matrix-like weight that is not pruned (left.c) */
    const char *weight, *layer;
    sp_op_id op; /* of who reads it */
    const sparta_tensor *tensor;
    sparta_left why;
} sp_left;
typedef struct sp_prune_report {
    int n, n_pruned, n_left;
    sp_prune_row *row; /* of the graph's arena, as is `left` */
    sp_left *left;
    int64_t items; /* of the data */
} sp_prune_report;
/* The weights that products multiply by, in the order of the graph, but for those that are embeddings too. E_USAGE: there are none. */
sparta_status sp_prune_weights(const sp_graph *g, sp_arena *arena, sp_schedule_match **match, int *n) SP_MUST;
/* The matrix-like weights that are none of these, in the order of the graph, with the reason; they name the graph's own. */
sparta_status sp_prune_left(const sp_graph *g, const sp_schedule_match *match, int n_match, sp_arena *arena,
                            sp_left **out, int *n) SP_MUST;
/* The names (their initialisers') of weights whose rows are looked up, put into a map. */
sparta_status sp_prune_tables(const sp_graph *g, sp_map *names) SP_MUST;
/* Prune the weights of an inferred graph, which a schedule's "*" names, in copies: nothing that was read is changed. Layers meet what those
 * before them give, as far as they were pruned by then: as many at a time as what is kept of their inputs fits into 1 GiB. */
sparta_status sp_prune_model(sp_graph *g, const sp_prune_request *r, sp_prune_report *out) SP_MUST;

/* ------------------------------------------------------------------ sparsifiers of users (sparta.h; sparsifier.c)
 * What sparta_sparsifier_register keeps: `own` of the row of a call. */
typedef struct sp_own_sparsifier {
    sparta_sparsifier is;
    sp_prune_spec granularity;
} sp_own_sparsifier;
/* Ask it which elements of w (n, k) stay, check the answer against what it promised, and set the others to 0. */
sparta_status sp_prune_by_user(sparta_ctx *cx, const sp_schedule_call *call, const char *tensor,
                               const sparta_tensor *w) SP_MUST;
/* The most elements or blocks that a call keeps in a row of them, by its declaration; 0: no bound. */
sparta_status sp_prune_bound(sparta_ctx *cx, const sp_schedule_call *call, int64_t *out) SP_MUST;
/* Does what a user's sparsifier promises of a weight (n, k) suffice for a format of fixed widths, packed[w] and structured[n,m]?
 * E_USAGE says what it lacks. Other sparsifiers, and formats that it cannot judge, are measured when there are elements. */
sparta_status sp_prune_suits(sparta_ctx *cx, const sp_schedule_call *call, const sp_format *f, int64_t n,
                             int64_t k) SP_MUST;

#endif
