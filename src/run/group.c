/* Steps into groups, and how long values live.
 *
 * A group is a run of panel steps over the same tokens in which no step needs another panel's results of this group: attention reads
 * the keys and values of all panels, so it starts a new group when they were made in the present one. A value whose every reader is
 * in the group that made it is local: one slot a thread is enough. Others live from the first step of their maker's group
 * to the last step of their last reader's, since threads are at different panels in between.
 *
 * An attention whose q, k and v come from one product that nobody else reads can take the product in: a thread then does one
 * head of one item at a time, and the rows of all heads are never stored. That pays when items are whole panels and there
 * are enough heads for the threads; it makes a group of its own.
 *
 * A kernel of whole values (in rows) is a group by itself, whose parts the threads share.
 *
 * An interaction of vectors looks up those that Embeds would make for it alone: rows go from their tables straight into its
 * scratch, and an Embed so folded has no group either.
 */
#include "run/session.h"

static int root_of(const sparta_session *s, int id)
{
    return s->value[id].parent >= 0 ? s->value[id].parent : id;
}

/* Input i is read beyond the panel at hand. */
static bool reads_all(const run_step *step, int i)
{
    const sp_slot *slot = step->call.kernel ? sp_panel_slot(step->call.kernel, step->call.job.n_in, i) : NULL;
    return slot && slot->beyond;
}

/* The tokens a panel step works on, as expressions: the leading dims of its panel side. */
static const sp_value *panel_side(const sparta_session *s, const run_step *step)
{
    const sp_value *out = step->writes[0];
    return sp_session_in_lanes(&s->value[out->id]) ? out : step->reads[0];
}

bool sp_session_same_tokens(const sp_value *a, const sp_value *b)
{
    if (a->dims.rank != b->dims.rank) return false;
    for (int i = 0; i + 1 < a->dims.rank; i++)
        if (!sp_expr_equal(a->dims.dim[i], b->dims.dim[i])) return false;
    return true;
}

static bool must_wait(const sparta_session *s, const run_step *step, int group_first)
{
    for (int i = 0; i < step->n_reads; i++) {
        const sp_value *v = step->reads[i];
        if (!v) continue;
        const run_value *r = &s->value[root_of(s, v->id)];
        if (r->producer >= group_first && (!sp_session_in_lanes(r) || reads_all(step, i))) return true;
    }
    return false;
}

/* ------------------------------------------------------------------ attention with its product */

static bool reads(const sparta_session *s, const run_step *step, int root)
{
    for (int i = 0; i < step->node->n_in; i++)
        if (step->node->in[i] && root_of(s, step->node->in[i]->id) == root) return true;
    return false;
}

static bool folds_by(const run_step *step, sp_fold how)
{
    return step->call.kernel && step->call.kernel->folds == how;
}

static bool folded_by(const run_step *step, sp_fold how)
{
    return step->call.kernel && step->call.kernel->folded == how;
}

static bool is_plain_product(const run_step *step)
{
    return folded_by(step, SP_FOLD_HEADS) && !step->call.job.stat &&
           (step->node->n_in < 4 || !step->node->in[3]);
}

static int product_of(const sparta_session *s, int i)
{
    const sp_node *n = s->step[i].node;
    if (!folds_by(&s->step[i], SP_FOLD_HEADS)) return -1;
    const int root = root_of(s, n->in[0]->id), maker = s->value[root].producer;
    if (maker < 0 || root_of(s, n->in[1]->id) != root || root_of(s, n->in[2]->id) != root) return -1;
    if (!is_plain_product(&s->step[maker])) return -1;
    for (int k = 0; k < s->n_steps; k++)
        if (k != i && reads(s, &s->step[k], root)) return -1;
    return maker;
}

bool sp_session_is_lookup(const sparta_session *s, const sp_value *v)
{
    const int maker = v ? s->value[v->id].producer : -1;
    return maker >= 0 && s->step[maker].folded && folded_by(&s->step[maker], SP_FOLD_LOOKUPS);
}

/* Embeds of one table that only interaction i reads, once. */
static void fold_lookups(sparta_session *s, int i)
{
    const sp_node *n = s->step[i].node;
    for (int k = 0; k < n->n_in - 1; k++) {
        if (!n->in[k]) continue;
        const run_value *v = &s->value[n->in[k]->id];
        int readers = 0;
        if (v->producer < 0 || v->parent >= 0 || v->value->is_output) continue;
        run_step *maker = &s->step[v->producer];
        if (!folded_by(maker, SP_FOLD_LOOKUPS) || maker->node->n_in != 2) continue;
        for (int j = 0; j < s->n_steps; j++)
            for (int at = 0; at < s->step[j].node->n_in; at++) { /* through views, too */
                const sp_value *in = s->step[j].node->in[at];
                readers += in && root_of(s, in->id) == v->value->id;
            }
        maker->folded = readers == 1 && sp_session_same_tokens(v->value, n->out[0]);
        if (maker->folded) maker->implement = s->step[i].implement; /* which is where its time is counted */
    }
}

void sp_session_folds(sparta_session *s)
{
    for (int i = 0; i < s->n_steps; i++) s->step[i].product = product_of(s, i);
    for (int i = 0; i < s->n_steps; i++)
        if (folds_by(&s->step[i], SP_FOLD_LOOKUPS)) fold_lookups(s, i);
}

/* At the present sizes: items are whole panels, heads share out evenly (or there are many), and what a thread keeps fits its L2. */
static bool folds(const sparta_session *s, const run_step *step)
{
    const sparta_tensor *q = &s->value[step->node->in[0]->id].tensor,
                        *k = &s->value[step->node->in[1]->id].tensor,
                        *v = &s->value[step->node->in[2]->id].tensor;
    const int64_t heads = step->call.job.heads, groups = step->call.job.groups;
    int64_t units, kept;
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || q->dim[1] != k->dim[1] || q->dim[1] < 1 ||
        q->dim[1] % SP_PANEL || groups < 1 || heads < groups || heads % groups || q->dim[2] % heads ||
        v->dim[2] % groups || !sp_int_mul(q->dim[0], groups, &units) ||
        !sp_int_mul(q->dim[1],
                    (q->dim[2] + k->dim[2] + v->dim[2] + v->dim[2] / groups * heads) / groups + SP_PANEL,
                    &kept)) /* q k v o of the item, scores of a panel */
        return false;
    const size_t l2 = sp_cpu_info()->l2;
    return kept <= (int64_t)((l2 ? l2 : 1 << 20) / sizeof(float)) &&
           (units % s->threads == 0 || units >= 8 * s->threads);
}

/* ------------------------------------------------------------------ groups */

static bool joins(const sparta_session *s, const run_group *g, const run_step *step)
{
    return g->kind == RUN_PANELS && step->call.kernel && !step->call.kernel->whole &&
           sp_session_same_tokens(panel_side(s, &s->step[g->first]), panel_side(s, step)) &&
           !must_wait(s, step, g->first);
}

static void form_groups(sparta_session *s)
{
    run_group *g = NULL;
    s->n_groups = 0;
    for (int i = 0; i < s->n_steps; i++) {
        run_step *step = &s->step[i];
        const bool heads = step->product >= 0 && s->step[step->product].folded;
        step->group = -1;
        if (step->folded) continue;
        if (!g || heads || !joins(s, g, step)) {
            g = &s->group[s->n_groups++];
            g->first = i;
            g->kind = heads                      ? RUN_HEADS
                      : !step->call.kernel       ? RUN_ROWS
                      : step->call.kernel->whole ? RUN_WHOLE
                                                 : RUN_PANELS;
        }
        g->last = i;
        step->group = s->n_groups - 1;
    }
}

static void live_until(sparta_session *s, int id, int step)
{
    run_value *r = &s->value[root_of(s, id)];
    if (r->producer < 0 || s->step[r->producer].folded) return;
    r->last = SP_MAX(r->last, step);
    if (s->step[step].group != s->step[r->producer].group) r->local = false;
}

/* Everything that step i reads lives until then; an attention that does its product reads the product's inputs, an interaction
 * the ids that it looks up. */
static void live_inputs(sparta_session *s, int i, const run_step *step)
{
    for (int j = 0; j < step->n_reads; j++) {
        const sp_value *v = step->reads[j];
        if (v) live_until(s, v->id, i);
        if (sp_session_is_lookup(s, v)) live_inputs(s, i, &s->step[s->value[v->id].producer]);
    }
}

/* Groups follow each other, and every step that is not folded is in the one that its place says. */
static bool in_order(const sparta_session *s)
{
    int at = -1;
    for (int g = 0; g < s->n_groups; g++) {
        if (s->group[g].first <= at || s->group[g].last < s->group[g].first) return false;
        at = s->group[g].last;
    }
    for (int i = 0; i < s->n_steps; i++) {
        const int g = s->step[i].group;
        if (s->step[i].folded ? g != -1 : i < s->group[g].first || i > s->group[g].last) return false;
    }
    return true;
}

void sp_session_groups(sparta_session *s)
{
    for (int i = 0; i < s->n_steps; i++)
        if (s->step[i].product >= 0) s->step[s->step[i].product].folded = folds(s, &s->step[i]);
    form_groups(s);
    SP_ASSERT(in_order(s));
    for (int i = 0; i < s->n_values; i++) {
        run_value *r = &s->value[i];
        r->first = r->last = r->producer;
        r->local = sp_session_in_lanes(r) && r->producer >= 0 && !s->step[r->producer].folded;
    }
    for (int i = 0; i < s->n_steps; i++) {
        const run_step *step = &s->step[i];
        if (step->folded) continue;
        const bool heads = step->product >= 0 && s->step[step->product].folded;
        live_inputs(s, i, step);
        if (heads) live_inputs(s, i, &s->step[step->product]);
    }
    for (int i = 0; i < s->n_values; i++) /* a view that is an output keeps what it shows */
        if (s->value[i].parent >= 0 && s->value[i].value->is_output) live_until(s, i, s->n_steps - 1);
    for (int i = 0; i < s->n_values; i++) {
        run_value *r = &s->value[i];
        if (r->producer < 0 || r->parent >= 0 || s->step[r->producer].folded) continue;
        if (r->value->is_output) r->last = s->n_steps - 1;
        if (r->local && s->group[s->step[r->producer].group].kind != RUN_PANELS) r->local = false;
        if (r->local) continue;
        r->first = s->group[s->step[r->producer].group].first;
        r->last = s->group[s->step[r->last].group].last;
    }
}
