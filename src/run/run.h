/* run: execute a package.
 *
 * A session holds the state of one caller: its threads, its buffers, the sizes it saw last. Several sessions of one package may
 * run at the same time in several threads.
 *
 *   plan (graph)  -->  steps, one a node: a panel kernel (compiled or portable) or a builtin reference
 *   steps         -->  groups: neighbours that work token by token and need no other panel's results
 *   a group       -->  each thread takes whole panels depth first through all steps of the group (what one panel needs stays in
 *                      its L2), the panels left over are shared by all threads step by step
 *   attention     -->  with the product that makes its q, k and v: each thread takes whole (item, head) pairs, when items are
 *                      whole panels; otherwise the product is a step like others and attention starts the next group
 *
 *        thread 0: heads 0..5 [qkv, attention]  | panel 0 [projection, norm, up, down, norm] panel 1 [...] | next layer
 *        thread 1: heads 6..11                  | panel 8 [...]                                             |
 *
 * A package may have several plans, for different numbers of tokens (plans.c): each has a session of its own inside, on the same threads.
 *
 * A run of less than a million operations stays on one thread.
 *
 * Sizes are symbols until a run binds them; buffers are laid out again when they change. Values that die inside their group
 * live in a per-thread slot of one panel, the others in one arena with reuse.
 *
 * The plan is trusted like the code beside it: what kernels follow without looking (panels, weights, ids) is checked, but a builtin
 * believes the dims that the plan declares.
 */
#ifndef SP_RUN_H
#define SP_RUN_H

#include "package/package.h"

/* All steps of sparta_session_step as an array; returns how many. The node of the plan that each is of. */
int sp_session_steps(sparta_session *s, const sparta_step **out);
const sp_node *sp_session_node(const sparta_session *s, int i);
const sp_graph *sp_session_plan(const sparta_session *s); /* that the last run took: the steps are its */
/* SP_SHARE_FROM for this session: for checks that are about threads; from the next run on. What is no product counts 16 operations for each
 * number it makes. */
void sp_session_share_from(sparta_session *s, double operations);
/* Every run takes this plan of the package from now on, whatever its tokens: 0 is the plan, i + 1 the other i; -1: by tokens. For checks. */
void sp_session_only(sparta_session *s, int plan);
size_t sp_session_memory(const sparta_session *s); /* bytes of buffers at the present sizes */

/* Inputs made from a seed at the sizes given (every symbol needs a value): floats in [lo, hi) (default -1 to 1), integers inside the
 * bounds of the Gather or Embed that uses them (else 0 or 1), masks named *mask* all ones. Row-major, allocated from cx. */
typedef struct sp_make_inputs {
    uint64_t seed;
    sp_bindings sizes;
} sp_make_inputs;
sparta_status sp_inputs_make(sparta_ctx *cx, const sp_graph *g, const sp_make_inputs *how,
                             sparta_named_tensor *out) SP_MUST; /* out[g->n_inputs] */
void sp_inputs_free(sparta_ctx *cx, sparta_named_tensor *t, int n);
/* What a symbol may be: as was said, and as the model itself bounds it (by the rows of a position table, say). */
sp_bound sp_symbol_bound(const sp_graph *g, const char *symbol);
/* The size that is nearest to it within this bound: of sizes that nobody gave. */
int64_t sp_symbol_within(const sp_graph *g, const char *symbol, int64_t size);
/* Raise sizes that are not fixed, each as little as it takes, until no dim of the (inferred) graph is below 1: a spatial size of 1 dies
 * in the kernel of a convolution; or lower them where only smaller ones meet a must. Where no sizes are found, they stay, and a note names
 * the symbol of the must. name, fixed, value: n of each. */
sparta_status sp_sizes_that_run(sparta_ctx *cx, const sp_graph *g, int n, const char *const *name,
                                const bool *fixed, int64_t *value) SP_MUST;
/* The symbols that are dims of inputs by themselves, each once, and where it first stands. E_LIMIT: there are too many. */
typedef struct sp_symbols {
    int n;
    const char *name[SP_GRAPH_SYMBOLS];
    int axis[SP_GRAPH_SYMBOLS];
} sp_symbols;
sparta_status sp_input_symbols(sparta_ctx *cx, const sp_graph *g, sp_symbols *out) SP_MUST;
/* Height or width of an input (batch, 1 or 3 channels, height, width) that a convolution reads. */
bool sp_symbol_is_image_side(const sp_graph *g, const char *symbol);
/* What a symbol counts, by its name ("batch", "sequence") or else by where it stands in inputs: the items of a batch in front; tokens last in
 * ids and masks and second in (batch, tokens, features). */
bool sp_symbol_counts_items(const sp_graph *g, const char *symbol);
bool sp_symbol_counts_tokens(const sp_graph *g, const char *symbol);
/* "batch=1 sequence=128" */
void sp_sizes_print(const sp_bindings *sizes, sp_text *out);
/* A note of those that nobody gave: "sizes assumed: batch=1 sequence=128; options.dims sequence=N". */
void sp_sizes_note(sparta_ctx *cx, const sp_bindings *given, const sp_bindings *sizes);

#endif
