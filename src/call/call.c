/* Binding and executing calls. */
#include "call/call.h"
#include <stdio.h>

sparta_status sp_call_bind(sparta_ctx *cx, sp_arena *arena, const sp_node *node, const char *name,
                           const sp_object *object, sp_call *out)
{
    sp_call c = {.kernel = NULL, .object = object};
    if (name) {
        char symbol[64];
        c.kernel = sp_panel_find(name);
        if (!c.kernel)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "%s: there is no kernel '%s'; the package is newer than this library", node->name,
                           name);
        if (!sp_panel_takes(c.kernel, node->op))
            return sp_fail(cx, SPARTA_E_FORMAT, "%s: kernel '%s' does not compute %s", node->name, name,
                           sp_builtin_row(node->op)->name);
        c.entry = c.kernel->portable;
        snprintf(symbol, sizeof symbol, "sp_kernel_%s", name);
        if (object) {
            void *found = sp_jit_symbol(object, symbol);
            if (!found)
                return sp_fail(cx, SPARTA_E_FORMAT, "%s: its machine code has no '%s'", node->name, symbol);
            c.entry = (sp_entry)(uintptr_t)found;
        }
    }
    if (node->n_in > SP_OPERANDS && name)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: %d inputs are too many for kernel '%s'", node->name,
                       node->n_in, name);
    c.job.node = node;
    c.job.n_in = SP_MIN(node->n_in, SP_OPERANDS);
    c.job.n_out = SP_MIN(node->n_out, 2);
    c.job.in = sp_arena_array(arena, (size_t)(c.job.n_in + c.job.n_out) + 1, sizeof *c.job.in);
    SP_NEED(cx, c.job.in);
    c.job.out = c.job.in + c.job.n_in;
    for (int i = 0; i < c.job.n_in; i++) c.job.in[i].layout = SP_LAYOUT_ABSENT;
    *out = c;
    return SPARTA_OK;
}

void sp_call_panel(const sp_call *c, const sp_place *at)
{
    sp_panel_args args;
    SP_ASSERT(at->panel >= 0 && at->panel < c->job.panels && at->part >= 0 && at->part < at->parts);
    if (c->kernel->fill(&c->job, at, &args)) c->entry(&args);
}

void sp_call_all(const sp_call *c, float *work)
{
    for (int64_t p = 0; p < c->job.panels; p++)
        sp_call_panel(c, &(sp_place){.panel = p, .part = 0, .parts = 1, .work = work});
}

sparta_status sp_call_builtin(sparta_ctx *cx, const sp_node *node, const sparta_tensor *in,
                              const sparta_tensor *out)
{
    const sp_op_args args = {&node->attrs, node->n_in, node->n_out, in, out};
    sparta_status s = sp_builtin_run(cx, node->op, &args);
    return s == SPARTA_OK ? s : sp_fail_in(cx, "%s", node->name);
}

/* Weights that are multiplied: all that are stored, or those that a walk found. */
static double weights_of(const sp_job *j)
{
    const sp_packed *w = j->in[1].packed;
    if (!j->walked) return w->format.sum ? 0 : (double)w->values.dim[0];
    double n = 0;
    for (int i = 0; i < j->walked_parts; i++) n += (double)j->walked[i].pos[w->dim[0]];
    return n;
}

void sp_call_ops(const sp_call *c, double *real, double *dense)
{
    const sp_job *j = &c->job;
    const sp_multiply *p = sp_multiply_of(j->node->op);
    *real = *dense = 0;
    if (!p || j->n_in < 2) return;
    const sp_operand *w = &j->in[1];
    const sparta_tensor *y = &j->out[0].tensor;
    *dense = 2 * p->multiplies(&j->node->attrs, &j->in[0].tensor, &w->tensor, y);
    *real = w->layout == SP_LAYOUT_PACKED ? 2 * (double)sp_panel_tokens(y) * weights_of(j) : *dense;
}
