/* Binding and executing calls. */
#include "call/call.h"
#include <stdio.h>

sparta_status sparta_call_bind(sparta_ctx *cx, const sparta_node *node, const char *name,
                               const sparta_object *object, sparta_call *out)
{
    sparta_call c = {.kernel = NULL, .object = object};
    if (name) {
        char symbol[64];
        c.kernel = sparta_panel_find(name);
        if (!c.kernel)
            return sparta_fail(cx, SPARTA_E_FORMAT,
                               "%s: there is no kernel '%s'; the package is newer than this library",
                               node->name, name);
        if (!c.kernel->takes(node->op))
            return sparta_fail(cx, SPARTA_E_FORMAT, "%s: kernel '%s' does not compute %s", node->name, name,
                               sparta_builtin_row(node->op)->name);
        c.entry = c.kernel->portable;
        snprintf(symbol, sizeof symbol, "sparta_kernel_%s", name);
        if (object) {
            void *found = sparta_jit_symbol(object, symbol);
            if (!found)
                return sparta_fail(cx, SPARTA_E_FORMAT, "%s: its machine code has no '%s'", node->name,
                                   symbol);
            c.entry = (sparta_entry)(uintptr_t)found;
        }
    }
    if (node->n_in > SPARTA_OPERANDS && name)
        return sparta_fail(cx, SPARTA_E_FORMAT, "%s: %d inputs are too many for kernel '%s'", node->name,
                           node->n_in, name);
    c.job.node = node;
    c.job.n_in = SPARTA_MIN(node->n_in, SPARTA_OPERANDS);
    c.job.n_out = SPARTA_MIN(node->n_out, 2);
    *out = c;
    return SPARTA_OK;
}

void sparta_call_panel(const sparta_call *c, const sparta_place *at)
{
    sparta_panel_args args;
    if (c->kernel->fill(&c->job, at, &args)) c->entry(&args);
}

void sparta_call_all(const sparta_call *c, float *work)
{
    for (int64_t p = 0; p < c->job.panels; p++)
        sparta_call_panel(c, &(sparta_place){.panel = p, .part = 0, .parts = 1, .work = work});
}

sparta_status sparta_call_builtin(sparta_ctx *cx, const sparta_node *node, const sparta_tensor *in,
                                  const sparta_tensor *out)
{
    const sparta_op_args args = {&node->attrs, node->n_in, node->n_out, in, out};
    sparta_status s = sparta_builtin_run(cx, node->op, &args);
    return s == SPARTA_OK ? s : sparta_fail_in(cx, "%s", node->name);
}

/* Weights that are multiplied: all that are stored, or those that a walk found. */
static double weights_of(const sparta_job *j)
{
    const sparta_packed *w = j->in[1].packed;
    if (!j->walked) return w->format.sum ? 0 : (double)w->values.dim[0];
    double n = 0;
    for (int i = 0; i < j->walked_parts; i++) n += (double)j->walked[i].pos[w->dim[0]];
    return n;
}

void sparta_call_ops(const sparta_call *c, double *real, double *dense)
{
    const sparta_job *j = &c->job;
    *real = *dense = 0;
    if (j->node->op == SPARTA_OP_Linear) {
        const sparta_operand *w = &j->in[1];
        const double tokens = (double)sparta_panel_tokens(&j->out[0].tensor);
        *dense = 2. * tokens * (double)sparta_tensor_elements(&w->tensor);
        *real = w->kind == SPARTA_OPERAND_PACKED ? 2. * tokens * weights_of(j) : *dense;
    } else if (j->node->op == SPARTA_OP_Attention) {
        const sparta_tensor *q = &j->in[0].tensor, *v = &j->in[2].tensor; /* (B,S,h*e) (B,T,h*d) */
        *real = *dense =
            2. * (double)(q->dim[0] * q->dim[1]) * (double)(q->dim[2] + v->dim[2]) * (double)v->dim[1];
    } else if (j->node->op == SPARTA_OP_Interact) {
        const int64_t dim = sparta_panel_features(&j->in[0].tensor),
                      row = sparta_panel_features(&j->out[0].tensor);
        const int64_t pairs = row - (sparta_attr_int(&j->node->attrs, "keep", -1) >= 0 ? dim : 0);
        *real = *dense = 2. * (double)sparta_panel_tokens(&j->out[0].tensor) * (double)pairs * (double)dim;
    } else if (j->node->op == SPARTA_OP_MatMul) {
        const sparta_tensor *a = &j->in[0].tensor;
        *real = *dense = 2. * (double)sparta_tensor_elements(&j->out[0].tensor) *
                         (double)(a->rank ? a->dim[a->rank - 1] : 1);
    }
}
