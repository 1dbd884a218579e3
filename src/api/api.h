/* api: what sparta.h promises and no single room to the left can say.
 *
 *     compile, measure, propagate ...   -->   report.c    what runs each layer of a package or a model, and why not faster
 *     import, ops                       -->   model.c     a model on its references
 *     run, measure                      -->   inputs.c    inputs for a run, given or made from a seed
 *     arrays                            -->   archive.c   named arrays in files
 *     store                             -->   packed.c    packed tensors
 *     measure                           -->   fit.c       which pattern each weight takes, for a time
 *     measure                           -->   verify.c    whether two models give the same answer
 *     compile, prune, import            -->   prune.c     a model file pruned in one shot
 *     special                           -->   expression.c   expressions over operands in any formats
 *
 * Functions of sparta.h live in the room that does the work (sparta_session_run in run, sparta_compile in compile). What needs several
 * rooms is put together here, thinly: no decision is made in this room that another caller could want differently. Rooms to the
 * left never call it; the program is its first client (cli/verb_run.c, cli/verb_compile.c).
 *
 * Structs that are handed out by pointer live in the arena of their handle: a caller reads the fields that his header knows, so fields
 * may be added at the end and never moved.
 */
#ifndef SP_API_H
#define SP_API_H

#include "measure/measure.h"

/* model.c: the graph behind the handle; "name=4" of options.dims, in the arena. */
const sp_graph *sp_api_graph(const sparta_model *m);
sparta_status sp_api_dims(sparta_ctx *cx, sp_arena *arena, const char *const *dims, sp_bindings *out) SP_MUST;

/* packed.c: what is behind the handle; and a handle of somebody else's, who outlives it. */
const sp_packed *sp_api_packed(const sparta_packed *p);
sparta_status sp_api_packed_view(sparta_ctx *cx, const sp_packed *of, sparta_packed **out) SP_MUST;

#endif
