/* call: one bound kernel: an operator, the code that runs it, and what it works on.
 *
 *   entry     compiled code from a package or the jit, else the portable kernel of room panel (generated ones have none, or another one in their place), else the builtin reference
 *   job       operands and sizes (panel.h); a builtin takes its operands as row-major tensors
 *
 * Steps of a package, operators by themselves (operator.h), the tuner's candidates and `kernel bench` all execute calls, so what is timed is what runs. A call knows
 * nothing of graphs beyond its own node and nothing of packages.
 */
#ifndef SP_CALL_H
#define SP_CALL_H

#include "jit/jit.h"
#include "panel/panel.h"

typedef struct sp_call {
    const sp_panel_kernel *kernel; /* NULL: the builtin reference */
    sp_entry entry;
    const sp_object *object; /* that the entry lives in; NULL: portable or builtin */
    sp_job job;
} sp_call;

/* Bind a node to kernel `name` (NULL: its builtin). `object` may be NULL: the portable kernel, or the builtin where a kernel is generated and has none. The call does not own the object; the
 * operands of its job, absent as yet, lie in the arena. */
sparta_status sp_call_bind(sparta_ctx *cx, sp_arena *arena, const sp_node *node, const char *name,
                           const sp_object *object, sp_call *out) SP_MUST;
/* Room for other operands than the node's, absent as yet: those of a generated kernel, which may be of a whole chain. */
sparta_status sp_call_operands(sparta_ctx *cx, sp_arena *arena, int n_in, int n_out, sp_call *c) SP_MUST;
/* The tensors of all operands are known: tokens and panels of the job. */
void sp_call_tokens(sp_call *c);
/* One part of one panel. */
void sp_call_panel(const sp_call *c, const sp_place *at);
/* The builtin of a node, on tensors in rows (rank -1: absent): its reference, or as a session runs it (builtin/quick.h). */
sparta_status sp_call_builtin(sparta_ctx *cx, const sp_node *node, const sparta_tensor *in,
                              const sparta_tensor *out) SP_MUST;
sparta_status sp_call_quick(sparta_ctx *cx, const sp_node *node, const sparta_tensor *in,
                            const sparta_tensor *out) SP_MUST;
/* Operations (a multiply-add is two) at the present sizes: what is really done, and what a dense run would do. 0 for what is no product. */
void sp_call_ops(const sp_call *c, double *real, double *dense);
/* A run of fewer operations stays on the caller's thread: to wake the others takes longer than they save. */
#define SP_SHARE_FROM 1e6

#endif
