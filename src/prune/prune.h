/* prune: sparsifiers: magnitude, by pattern, in one shot; a threshold; and functions of users, whose answers are checked.
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
/* Does no block (or group) of the pattern fit into a weight of (n, k)? Is the weight no multiple of them, so that those at its edge
 * are smaller, and kernels pad them? */
bool sp_prune_too_large(const sp_prune_spec *spec, int64_t n, int64_t k);
bool sp_prune_ragged(const sp_prune_spec *spec, int64_t n, int64_t k);
/* Tell the user what is odd about pruning w so: edges, elements that are not finite. Before it is pruned. */
void sp_prune_note(sparta_ctx *cx, const sp_prune_spec *spec, const sparta_tensor *w);
/* Set the elements of a 2-D float view whose magnitude is below the value to 0; NaN stays. */
void sp_prune_threshold(const sparta_tensor *w, double value);

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
