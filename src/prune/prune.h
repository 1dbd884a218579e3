/* prune: sparsifiers. Narrow for now: magnitude, by pattern, one shot; the zoo uses it, `sparta prune` comes
 * later.
 *
 *     sparta_prune_spec s;
 *     SPARTA_TRY(sparta_prune_parse(cx, "4x1:0.9", &s));
 *     SPARTA_TRY(sparta_prune(cx, &s, &w, NULL));      w: a view (n,k)
 *
 * A block's score is the mean of |w| over it (a block at a ragged edge: over what is there; a NaN or Inf in
 * it keeps it as long as possible); the blocks with the smallest scores go until the sparsity is reached:
 * until at least that share of the elements went. Among equals the one with the lower index (n, then k) goes
 * first, so that the result is the same everywhere. n:m keeps the n largest of each m along the input (along
 * the output with @out), of a ragged last group min(n, what is there).
 */
#ifndef SPARTA_PRUNE_H
#define SPARTA_PRUNE_H

#include "tensor/tensor.h"
#include "tesa/tesa.h"

typedef struct sparta_prune_spec {
    int block_n, block_m; /* NxM; 0 is the whole dimension: rows are 1x0, cols 0x1 */
    double sparsity;
    int keep, of; /* n:m when of > 0 */
    bool along_out;
} sparta_prune_spec;
/* "NxM:SPARSITY", "n:m", "n:m@out", "rows:S", "cols:S". 0 <= S <= 1. Wrong text is E_USAGE with the forms it
 * could have; heads and bands are E_UNSUPPORTED. */
sparta_status sparta_prune_parse(sparta_ctx *cx, const char *text, sparta_prune_spec *out) SPARTA_MUST;
/* Set pruned elements of a 2-D float view (n, k; any strides) to 0 in place; mask, when given, gets what
 * stays (free it with sparta_mask_free). E_SHAPE, E_DTYPE when w is no such view. */
sparta_status sparta_prune(sparta_ctx *cx, const sparta_prune_spec *spec, const sparta_tensor *w,
                           sparta_mask *mask) SPARTA_MUST;

#endif
