/* Steps into groups, and how long values live.
 *
 * A group is a run of panel steps over the same tokens in which no step needs another panel's results of this group: attention reads
 * the keys and values of all panels, so it starts a new group when they were made in the present one. A value whose every reader is
 * in the group that made it is local: one slot a thread is enough. Others live from the first step of their maker's group
 * to the last step of their last reader's, since threads are at different panels in between.
 */
#include "run/session.h"

static int root_of(const sparta_session *s, int id)
{
    return s->value[id].parent >= 0 ? s->value[id].parent : id;
}

/* Input i of a node is read beyond the panel at hand. */
static bool reads_all(const sparta_node *n, int i)
{
    return n->op == SPARTA_OP_Attention && (i == 1 || i == 2);
}

/* The tokens a panel step works on, as expressions: the leading dims of its panel side. */
static const sparta_value *panel_side(const sparta_session *s, const run_step *step)
{
    const sparta_value *out = step->node->out[0];
    return s->value[out->id].panels ? out : step->node->in[0];
}

bool sparta_session_same_tokens(const sparta_value *a, const sparta_value *b)
{
    if (a->dims.rank != b->dims.rank) return false;
    for (int i = 0; i + 1 < a->dims.rank; i++)
        if (!sparta_expr_equal(a->dims.dim[i], b->dims.dim[i])) return false;
    return true;
}

static bool must_wait(const sparta_session *s, const run_step *step, int group_first)
{
    for (int i = 0; i < step->node->n_in; i++) {
        const sparta_value *v = step->node->in[i];
        if (!v) continue;
        const run_value *r = &s->value[root_of(s, v->id)];
        if (r->producer >= group_first && (!r->panels || reads_all(step->node, i))) return true;
    }
    return false;
}

static void form_groups(sparta_session *s)
{
    for (int i = 0; i < s->n_steps; i++) {
        run_step *step = &s->step[i];
        run_group *g = s->n_groups ? &s->group[s->n_groups - 1] : NULL;
        const bool joins =
            g && g->panels && step->call.kernel &&
            sparta_session_same_tokens(panel_side(s, &s->step[g->first]), panel_side(s, step)) &&
            !must_wait(s, step, g->first);
        if (!joins) {
            g = &s->group[s->n_groups++];
            g->first = i;
            g->panels = step->call.kernel != NULL;
        }
        g->last = i;
        step->group = s->n_groups - 1;
    }
}

static void live_until(sparta_session *s, int id, int step)
{
    run_value *r = &s->value[root_of(s, id)];
    if (r->producer < 0) return;
    r->last = SPARTA_MAX(r->last, step);
    if (s->step[step].group != s->step[r->producer].group) r->local = false;
}

sparta_status sparta_session_groups(sparta_ctx *cx, sparta_session *s)
{
    form_groups(s);
    for (int i = 0; i < s->n_values; i++) {
        run_value *r = &s->value[i];
        r->first = r->last = r->producer;
        r->local = r->panels;
    }
    for (int i = 0; i < s->n_steps; i++)
        for (int j = 0; j < s->step[i].node->n_in; j++)
            if (s->step[i].node->in[j]) live_until(s, s->step[i].node->in[j]->id, i);
    for (int i = 0; i < s->n_values; i++) {
        run_value *r = &s->value[i];
        if (r->value->is_output && r->panels)
            return sparta_fail(cx, SPARTA_E_FORMAT, "package: output '%s' is left in panels", r->value->name);
        if (r->producer < 0 || r->parent >= 0) continue;
        if (r->value->is_output) r->last = s->n_steps - 1;
        if (r->local) continue;
        r->first = s->group[s->step[r->producer].group].first;
        r->last = s->group[s->step[r->last].group].last;
    }
    return SPARTA_OK;
}
