/* Binding and executing calls. */
#include "call/call.h"
#include "builtin/quick.h"
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
        if (!object && c.kernel->otherwise) c.kernel = c.kernel->otherwise;
        c.entry = c.kernel->portable;
        if (!object && !c.entry) c.kernel = NULL;
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
    SP_TRY(sp_call_operands(cx, arena, SP_MIN(node->n_in, SP_OPERANDS), SP_MIN(node->n_out, 2), &c));
    *out = c;
    return SPARTA_OK;
}

sparta_status sp_call_operands(sparta_ctx *cx, sp_arena *arena, int n_in, int n_out, sp_call *c)
{
    sp_job *j = &c->job;
    j->in = sp_arena_array(arena, (size_t)(n_in + n_out) + 1, sizeof *j->in);
    SP_NEED(cx, j->in);
    j->n_in = n_in;
    j->n_out = n_out;
    j->out = j->in + n_in;
    for (int i = 0; i < n_in; i++) j->in[i].layout = SP_LAYOUT_ABSENT;
    return SPARTA_OK;
}

void sp_call_tokens(sp_call *c)
{
    sp_job *j = &c->job;
    if (c->kernel->whole) { /* one place, where there is anything to make */
        j->tokens = 0;
        for (int i = 0; i < j->n_out; i++) j->tokens |= sparta_tensor_elements(&j->out[i].tensor) > 0;
        j->panels = j->tokens;
        return;
    }
    j->tokens = sp_panel_tokens(sp_layout_has_lanes(j->out[0].layout) ? &j->out[0].tensor : &j->in[0].tensor);
    j->panels = sp_panels(j->tokens);
}

void sp_call_panel(const sp_call *c, const sp_place *at)
{
    sp_panel_args args;
    SP_ASSERT(at->panel >= 0 && at->panel < c->job.panels && at->part >= 0 && at->part < at->parts);
    if (c->kernel->fill(&c->job, at, &args)) c->entry(&args);
}

sparta_status sp_call_builtin(sparta_ctx *cx, const sp_node *node, const sparta_tensor *in,
                              const sparta_tensor *out)
{
    const sp_op_args args = {&node->attrs, node->n_in, node->n_out, in, out};
    sparta_status s = sp_builtin_run(cx, node->op, &args);
    return s == SPARTA_OK ? s : sp_fail_in(cx, "%s", node->name);
}

sparta_status sp_call_quick(sparta_ctx *cx, const sp_node *node, const sparta_tensor *in,
                            const sparta_tensor *out)
{
    const sp_op_args args = {&node->attrs, node->n_in, node->n_out, in, out};
    sparta_status s = sp_builtin_quick(cx, node->op, &args);
    return s == SPARTA_OK ? s : sp_fail_in(cx, "%s", node->name);
}

/* Weights that are multiplied: all that are stored, or those that a walk found. */
static double weights_of(const sp_job *j)
{
    const sp_packed *w = j->in[1].packed;
    if (!j->walked) return w->format.sum ? 0 : (double)w->values.dim[0];
    return (double)j->walked_pos[j->walked_ranges * w->dim[0]];
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
    if (c->kernel == &sp_panel_attention_skip) { /* as much as a list has room for */
        const double block = (double)sp_attr_int(&j->node->attrs, "block", 1),
                     keys = (double)w->tensor.dim[1];
        *real = *dense * SP_MIN(1, block * (double)j->in[4].tensor.dim[3] / SP_MAX(keys, 1));
        return;
    }
    *real = w->layout == SP_LAYOUT_PACKED ? 2 * (double)sp_panel_tokens(y) * weights_of(j) : *dense;
}
