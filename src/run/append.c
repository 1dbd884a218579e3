/* Caches: a model whose output is one of its inputs with more behind it (past and present keys of a decoder).
 *
 *     past (B,g,P,e), an input --\
 *                                 Concat --> present (B,g,P+S,e), an output --> attention
 *     k (B,g,S,e) ---------------/
 *
 * The caller may keep both in one place, with room for what is to come:
 *
 *     [g][most][e]    past is a view of the first P of each head, present of the first P+S, and both begin at one address
 *
 * Then there is nothing to move but k, which is written where it stays, and attention reads the caller's memory. That is done when nobody can
 * tell: no other input and no other output of the run lies in between, and every reader of present takes tensors with gaps. Otherwise
 * present is made in the session's memory and copied when all has run, like every output. */
#include "builtin/view.h"
#include "run/session.h"

enum { PAST, NEW };

/* ------------------------------------------------------------------ which steps */

static bool is_append(const sparta_session *s, const run_step *step)
{
    const sp_node *n = step->node;
    if (n->op != SP_OP_Concat || n->n_in != 2 || !n->in[PAST] || !n->in[NEW] || step->folded) return false;
    if (sp_attr_find(&n->attrs, "chain") || sp_attr_find(&n->attrs, "kernel") || !n->in[PAST]->is_input ||
        !n->out[0]->is_output)
        return false;
    for (int i = 0; i < 2; i++)
        if (sp_session_in_lanes(&s->value[n->in[i]->id])) return false;
    return !sp_session_in_lanes(&s->value[n->out[0]->id]);
}

/* Does every step that reads v take it with gaps? Appending does, and who asks for a shape does not look. What shows it in other dims does not. */
static bool gaps_do(const sparta_session *s, const sp_value *v)
{
    for (int i = 0; i < s->n_values; i++)
        if (s->value[i].parent == v->id) return false;
    for (int i = 0; i < s->n_steps; i++) {
        const run_step *step = &s->step[i];
        for (int k = 0; k < step->n_reads; k++) {
            if (step->reads[k] != v) continue;
            const sp_slot *slot =
                step->call.kernel ? sp_panel_slot(step->call.kernel, step->call.job.n_in, k) : NULL;
            if (!(step->appends && k == PAST) && step->node->op != SP_OP_Shape && !(slot && slot->gaps))
                return false;
        }
    }
    return true;
}

void sp_session_appends(sparta_session *s)
{
    for (int i = 0; i < s->n_steps; i++) {
        run_step *step = &s->step[i];
        if (!is_append(s, step)) continue;
        step->appends = true;
        step->implement = "append";
    }
    for (int i = 0; i < s->n_steps; i++) {
        const sp_node *n = s->step[i].node;
        if (!s->step[i].appends) continue;
        s->value[n->in[PAST]->id].gaps = gaps_do(s, n->in[PAST]);
        s->value[n->out[0]->id].gaps = gaps_do(s, n->out[0]);
        s->value[n->out[0]->id].appended = true;
    }
}

/* ------------------------------------------------------------------ in place */

/* From the first byte of a tensor to behind its last. False: it has no elements. */
static bool span(const sparta_tensor *t, uintptr_t *from, uintptr_t *to)
{
    int64_t low = 0, high = 0;
    const int64_t size = (int64_t)sparta_dtype_size(t->dtype);
    if (!sparta_tensor_elements(t) || !t->data) return false;
    for (int d = 0; d < t->rank; d++) *(t->stride[d] < 0 ? &low : &high) += t->stride[d] * (t->dim[d] - 1);
    *from = (uintptr_t)t->data + (uintptr_t)(low * size);
    *to = (uintptr_t)t->data + (uintptr_t)((high + 1) * size);
    return true;
}

static bool apart(const sparta_tensor *a, const sparta_tensor *b)
{
    uintptr_t a0, a1, b0, b1;
    return !span(a, &a0, &a1) || !span(b, &b0, &b1) || a1 <= b0 || b1 <= a0;
}

/* Is every element of past where present has it? */
static bool same_place(const sparta_tensor *past, const sparta_tensor *present)
{
    if (!sparta_tensor_elements(past)) return true;
    for (int d = 0; d < past->rank; d++)
        if (past->dim[d] > 1 && past->stride[d] != present->stride[d]) return false;
    return past->data == present->data;
}

bool sp_session_in_order(const sparta_tensor *t)
{
    int64_t least = 1;
    for (int d = t->rank; d-- > 0;) {
        if (t->dim[d] == 1) continue;
        if (t->stride[d] < least || (d == t->rank - 1 && t->stride[d] != 1)) return false;
        least = t->stride[d] * t->dim[d];
    }
    return true;
}

static bool may_lend(const sparta_session *s, const sparta_named_tensor *outputs, int n, int i)
{
    const run_value *r = &s->value[sp_graph_find(s->plan, outputs[i].name)->id];
    const sparta_tensor *to = &outputs[i].tensor;
    if (!r->appended || !r->gaps || !sp_session_in_order(to)) return false;
    const sp_value *past = s->step[r->producer].node->in[PAST];
    if (!same_place(&s->value[past->id].tensor, to)) return false;
    for (int k = 0; k < s->plan->n_inputs; k++)
        if (s->plan->input[k] != past && !apart(to, &s->value[s->plan->input[k]->id].tensor)) return false;
    for (int k = 0; k < n; k++)
        if (k != i && !apart(to, &outputs[k].tensor)) return false;
    return true;
}

void sp_session_lend(sparta_session *s, const sparta_named_tensor *outputs, int n)
{
    for (int i = 0; i < n; i++) {
        run_value *r = &s->value[sp_graph_find(s->plan, outputs[i].name)->id];
        if (r->lent || !may_lend(s, outputs, n, i)) continue; /* an output may be asked for twice */
        r->own = r->tensor;
        r->tensor = sp_tensor_placed(&outputs[i].tensor);
        r->lent = true;
    }
}

void sp_session_take_back(sparta_session *s)
{
    for (int i = 0; i < s->plan->n_outputs; i++) {
        run_value *r = &s->value[s->plan->output[i]->id];
        if (r->lent) r->tensor = r->own;
        r->lent = false;
    }
}

/* ------------------------------------------------------------------ running */

sparta_status sp_session_append(sparta_ctx *cx, const sparta_session *s, const run_step *step)
{
    const sp_node *n = step->node;
    const run_value *out = &s->value[n->out[0]->id];
    const sparta_tensor *past = &s->value[n->in[PAST]->id].tensor, *new = &s->value[n->in[NEW]->id].tensor;
    int axis;
    SP_TRY(sp_builtin_axis(cx, "Concat", sp_attr_int(&n->attrs, "axis", 0), out->tensor.rank, &axis));
    const int64_t before = past->dim[axis];
    if (past->rank != out->tensor.rank || new->rank != out->tensor.rank ||
        before + new->dim[axis] != out->tensor.dim[axis])
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %ld and %ld are not %ld", n->name, (long)before,
                       (long)new->dim[axis], (long)out->tensor.dim[axis]);
    sparta_tensor first = sp_view_part(&out->tensor, axis, 0, before);
    sparta_tensor second = sp_view_part(&out->tensor, axis, before, new->dim[axis]);
    if (!out->lent) SP_TRY(sp_tensor_copy(cx, past, &first));
    return sp_tensor_copy(cx, new, &second);
}
