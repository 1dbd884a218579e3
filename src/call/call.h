/* call: one bound kernel: an operator, the code that runs it, and what it works on.
 *
 *   entry     compiled code from a package or the jit, else the portable kernel of room panel, else the builtin reference
 *   job       operands and sizes (panel.h); a builtin takes its operands as row-major tensors
 *
 * Steps of a package, the tuner's candidates and `kernel bench` all execute calls, so what is timed is what runs. A call knows
 * nothing of graphs beyond its own node and nothing of packages.
 */
#ifndef SPARTA_CALL_H
#define SPARTA_CALL_H

#include "jit/jit.h"
#include "panel/panel.h"

typedef struct sparta_call {
    const sparta_panel_kernel *kernel; /* NULL: the builtin reference */
    sparta_entry entry;
    const sparta_object *object; /* that the entry lives in; NULL: portable or builtin */
    sparta_job job;
} sparta_call;

/* Bind a node to kernel `name` (NULL: its builtin). `object` may be NULL: the portable kernel. The call does not own the object. */
sparta_status sparta_call_bind(sparta_ctx *cx, const sparta_node *node, const char *name,
                               const sparta_object *object, sparta_call *out) SPARTA_MUST;
/* One part of one panel. */
void sparta_call_panel(const sparta_call *c, const sparta_place *at);
/* All panels on one thread: for checking and timing candidates. */
void sparta_call_all(const sparta_call *c, float *work);
/* The builtin of a node, on tensors in rows (rank -1: absent). */
sparta_status sparta_call_builtin(sparta_ctx *cx, const sparta_node *node, const sparta_tensor *in,
                                  const sparta_tensor *out) SPARTA_MUST;
/* Operations (a multiply-add is two) at the present sizes: what is really done, and what a dense run would do. 0 for what is no product. */
void sparta_call_ops(const sparta_call *c, double *real, double *dense);

#endif
