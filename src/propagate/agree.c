/* What goes: every operand that shares a label agrees on its indices.
 *
 * Each axis of each value begins with the indices it could do without (spare.c). Nodes are then visited until nothing changes: an index of a
 * label stays if one operand keeps it, so lists only shrink and the end is the largest agreement. A summed index also needs its summand to be 0, or a constant that a bias takes up. */
#include "propagate/facts.h"
#include <string.h>

typedef struct agreement {
    sp_propagation *p;
    int *queue, head, tail, queued;
    bool *waiting;      /* by node */
    uint8_t ***summand; /* by node, by label; NULL: not looked at */
    bool rounding;      /* what is kept now could go: nobody is to be told who holds it */
} agreement;

/* ------------------------------------------------------------------ one node */
static sparta_status wake(agreement *s, const sp_value *v)
{
    const sp_users *u = &s->p->users;
    for (int i = u->first[v->id]; i < u->first[v->id + 1]; i++) {
        const int n = u->user[i];
        if (s->waiting[n]) continue;
        s->waiting[n] = true;
        s->queue[s->tail] = n;
        s->tail = (s->tail + 1) % s->p->g->n_nodes;
        s->queued++;
    }
    return SPARTA_OK;
}

/* The axis keeps index i from now on; the first loss that matters is remembered. */
static bool keep(sp_fact *f, int axis, int64_t i, sp_cause cause)
{
    if (!f->gone[axis] || !f->gone[axis][i]) return false;
    f->gone[axis][i] = 0;
    if (f->wanted[axis][i] && !f->cause[axis].node) {
        cause.index = i;
        f->cause[axis] = cause;
    }
    return true;
}

static sparta_status keep_all(agreement *s, const sp_node *n, const sp_value *v, int axis, const char *why)
{
    sp_fact *f = sp_fact_of(s->p, v);
    bool changed = false;
    for (int64_t i = 0; f->gone[axis] && i < sp_axis_size(v, axis); i++)
        changed |= keep(f, axis, i, (sp_cause){.node = n, .why = why});
    return changed ? wake(s, v) : SPARTA_OK;
}

/* Which label indices go, and who said no first. */
typedef struct label_state {
    uint8_t *gone;   /* NULL: none */
    sp_cause *cause; /* by index */
} label_state;

static bool in_list(const sp_axes *a, int from, int to, int label)
{
    for (int o = from; o < to; o++) {
        const sp_value *v = sp_node_slot(a->n, o);
        if (!v || a->in[o].role == SP_SIDE) continue;
        for (int i = 0; i < v->dims.rank; i++)
            if (sp_axis_has(&a->in[o].axis[i], label)) return true;
    }
    return false;
}

const char sp_says_nothing[] = "sparta has no rule for its axes, so all of them stay";

const char *sp_label_fixed(const sp_axes *a, int l)
{
    const sp_label *x = &a->label[l];
    if (x->why) return x->why;
    if (x->size < 0) return "their number is a symbol; give it with options.dims";
    if (x->size > SP_CELLS) return "there are more than 4 million of them, which is not looked at";
    bool in = in_list(a, 0, a->n->n_in, l), out = in_list(a, a->n->n_in, sp_node_slots(a->n), l);
    if (x->kind == SP_WHOLE || (x->kind == SP_SUM && a->how != SP_FLOW_PRODUCT))
        return "each of its outputs depends on all of them";
    if (x->kind == SP_EACH && !out) return "it takes one of them, by its place";
    if (!in && !x->made) return "it makes them, and their number stays";
    return NULL;
}

/* Why none of a label's indices go: one of its operands may have them in an axis whose size is a symbol. */
static const char *held_label(const sp_axes *a, int l)
{
    const char *why = sp_label_fixed(a, l);
    return why ? why : "they are part of an axis whose size is a symbol; give it with options.dims";
}

/* Which index of its label j index i of an axis has, where `inner` indices of the axis make one of the label. */
static int64_t label_at(const sp_axes *a, const sp_axis *x, int j, int64_t inner, int64_t i)
{
    const int64_t n = a->label[x->label[j]].size;
    if (x->window) return sp_axis_at(x, i);
    return n > 0 ? i / inner % n : 0;
}

/* What the operand says of its labels' indices: those of an index that it keeps stay. */
static void hear(const sp_propagation *p, const sp_axes *a, int o, int axis, label_state *state)
{
    const sp_value *v = sp_node_slot(a->n, o);
    const sp_axis *x = &a->in[o].axis[axis];
    const uint8_t *gone = sp_fact_of(p, v)->gone[axis];
    int64_t size = sp_axis_size(v, axis), inner = 1;
    for (int j = x->n - 1; j >= 0; j--) {
        label_state *l = &state[x->label[j]];
        int64_t n = a->label[x->label[j]].size;
        if (size < 0 || size > SP_CELLS) l->gone = NULL; /* it is not looked at index by index */
        for (int64_t i = 0; l->gone && i < size; i++) {
            const int64_t at = label_at(a, x, j, inner, i);
            if ((gone && gone[i]) || !l->gone[at]) continue;
            l->gone[at] = 0;
            l->cause[at] = (sp_cause){.node = a->n, .value = v, .axis = axis, .other = i};
        }
        inner *= SP_MAX(n, 1);
    }
}

/* Does the operand itself want every index that has index `at` of the label which repeats every `inner`? */
static bool wants_all(const uint8_t *wanted, int64_t size, int64_t inner, int64_t n, int64_t at)
{
    for (int64_t i = 0; i < size; i++)
        if (i / inner % n == at && !wanted[i]) return false;
    return true;
}

/* "it takes them as 4 x 16": neither a whole block nor the same place of every block is wanted. */
static const char *unlike(const sp_propagation *p, const sp_axes *a, const sp_axis *x)
{
    sp_text t;
    sp_text_init(&t, p->cx);
    for (int j = 0, n = 0; j < x->n; j++)
        if (a->label[x->label[j]].size != 1)
            sp_text_printf(&t, "%s%lld", n++ ? " x " : "it takes them as ",
                           (long long)a->label[x->label[j]].size);
    sp_text_printf(&t, "; prune whole blocks of that (heads, groups), or the same places in every block");
    return sp_text_keep(&t, p->arena);
}

/* Who holds index i of an axis. One of several labels could let it go: the one that the operand wants it of has the reason; none,
 * and the operand has it. `why` is NULL with node NULL when memory ran out. */
static sp_cause holder(const sp_propagation *p, const sp_axes *a, int o, int axis, int64_t i,
                       const label_state *state)
{
    const sp_value *v = sp_node_slot(a->n, o);
    const sp_axis *x = &a->in[o].axis[axis];
    const uint8_t *wanted = sp_fact_of(p, v)->wanted[axis];
    const int64_t size = sp_axis_size(v, axis);
    sp_cause cause = {.node = a->n, .why = held_label(a, x->label[0])};
    int64_t inner = 1;
    int free_labels = 0;
    for (int j = x->n - 1; j >= 0; j--) {
        const label_state *l = &state[x->label[j]];
        const int64_t n = a->label[x->label[j]].size, at = label_at(a, x, j, inner, i);
        if (n > 1 || x->n == 1) { /* a group of one holds nothing by itself */
            if (!l->gone && !free_labels) cause = (sp_cause){.node = a->n, .why = held_label(a, x->label[j])};
            if (l->gone) cause = l->cause[at];
            if (l->gone && x->n > 1 && wants_all(wanted, size, inner, n, at)) return cause;
            free_labels += l->gone != NULL;
        }
        inner *= SP_MAX(n, 1);
    }
    if (free_labels < 2) return cause;
    const char *why = unlike(p, a, x);
    return why ? (sp_cause){.node = a->n, .why = why} : (sp_cause){0};
}

static sparta_status tell(agreement *s, const sp_axes *a, int o, int axis, const label_state *state)
{
    const sp_value *v = sp_node_slot(a->n, o);
    const sp_axis *x = &a->in[o].axis[axis];
    sp_fact *f = sp_fact_of(s->p, v);
    int64_t size = sp_axis_size(v, axis);
    bool changed = false;
    for (int64_t i = 0; f->gone[axis] && i < size; i++) {
        int64_t inner = 1;
        bool goes = false;
        sp_cause cause = {0};
        if (!f->gone[axis][i]) continue;
        for (int j = x->n - 1; j >= 0; j--) {
            const label_state *l = &state[x->label[j]];
            goes |= l->gone && l->gone[label_at(a, x, j, inner, i)];
            inner *= SP_MAX(a->label[x->label[j]].size, 1);
        }
        if (goes) continue;
        if (f->wanted[axis][i] && !f->cause[axis].node && !s->rounding) {
            cause = holder(s->p, a, o, axis, i, state);
            SP_NEED(s->p->cx, cause.node);
        }
        changed |= keep(f, axis, i, cause);
    }
    return changed ? wake(s, v) : SPARTA_OK;
}

/* Axes that keep all they have, whatever the labels say: an opaque operator's, a size that is read, one that is repeated. */
static sparta_status special(agreement *s, const sp_axes *a)
{
    for (int i = 0; i < a->n->n_in; i++) {
        const sp_value *v = a->n->in[i];
        if (!v) continue;
        for (int k = 0; k < v->dims.rank; k++) {
            if (a->how == SP_FLOW_SIZES && i == 0) {
                const sp_value *y = a->n->out[0]; /* a list of sizes, or their product */
                int64_t at[SPARTA_RANK] = {k - a->first},
                        n = y->dims.rank ? sp_axis_size(y, 0) : a->first + k + 1;
                bool read =
                    at[0] >= 0 && at[0] < n && sp_cells_get(&sp_fact_of(s->p, y)->need, y->dims.rank, at);
                if (read) SP_TRY(keep_all(s, a->n, v, k, "the model computes with their number"));
            } else if (a->how == SP_FLOW_OPAQUE || a->how == SP_FLOW_SIZES || a->in[i].role == SP_SIDE) {
                SP_TRY(keep_all(s, a->n, v, k, sp_says_nothing));
            } else if (a->in[i].axis[k].n == 0) {
                SP_TRY(keep_all(s, a->n, v, k, "it repeats them"));
            }
        }
    }
    for (int o = 0; o < a->n->n_out; o++)
        for (int k = 0; k < a->n->out[o]->dims.rank; k++)
            if (a->how == SP_FLOW_OPAQUE || a->how == SP_FLOW_SIZES || a->out[o].role == SP_SIDE ||
                !a->out[o].axis[k].n)
                SP_TRY(keep_all(s, a->n, a->n->out[o], k, sp_says_nothing));
    return SPARTA_OK;
}

/* No operand may end with an axis of nothing. */
static void leave_one(const sp_axes *a, int labels, label_state *state)
{
    for (int l = 0; l < labels; l++) {
        int64_t stays = 0;
        for (int64_t i = 0; state[l].gone && i < a->label[l].size; i++) stays += !state[l].gone[i];
        if (!state[l].gone || stays || !a->label[l].size) continue;
        state[l].gone[0] = 0;
        state[l].cause[0] = (sp_cause){.node = a->n, .why = "one is left so that the axis is there"};
    }
    for (int o = 0; o < sp_node_slots(a->n); o++) {
        const sp_value *v = sp_node_slot(a->n, o);
        for (int k = 0; v && k < v->dims.rank; k++) {
            const sp_axis *x = &a->in[o].axis[k];
            bool stays = !x->window || x->n == 0 || !state[x->label[0]].gone || sp_axis_size(v, k) < 1;
            for (int64_t i = 0; !stays && i < sp_axis_size(v, k); i++)
                stays |= !state[x->label[0]].gone[sp_axis_at(x, i)];
            if (stays) continue;
            int64_t at = sp_axis_at(x, 0);
            state[x->label[0]].gone[at] = 0;
            state[x->label[0]].cause[at] =
                (sp_cause){.node = a->n, .why = "one is left so that the axis is there"};
        }
    }
}

static sparta_status hear_summands(agreement *s, int at, const sp_axes *a, int l, label_state *state)
{
    uint8_t **mine = &s->summand[at][l];
    if (!*mine) {
        *mine = sp_arena_alloc(s->p->arena, (size_t)SP_MAX(a->label[l].size, 1));
        SP_NEED(s->p->cx, *mine);
        if (s->p->effort->steps > 0)
            SP_TRY(sp_summands(s->p, a, l, *mine));
        else
            s->p->effort->spent |= SP_SPENT_STEPS;
    }
    for (int64_t i = 0; i < a->label[l].size; i++) {
        if ((*mine)[i]) continue;
        state->gone[i] = 0;
        state->cause[i] = (sp_cause){.node = a->n, .why = "what they add to its sums depends on the input"};
    }
    return SPARTA_OK;
}

/* What all operands leave of the labels, in `arena`; the causes in `scratch`. */
static sparta_status listen(const sp_propagation *p, const sp_axes *a, sp_arena *arena, sp_arena *scratch,
                            label_state *state)
{
    for (int l = 0; l < a->labels; l++) {
        if (sp_label_fixed(a, l) || a->label[l].size < 1) continue;
        size_t n = (size_t)a->label[l].size;
        state[l].gone = sp_arena_alloc(arena, n);
        state[l].cause = sp_arena_array(scratch, n, sizeof *state[l].cause);
        SP_NEED(p->cx, state[l].gone && state[l].cause);
        memset(state[l].gone, 1, n);
    }
    for (int o = 0; o < sp_node_slots(a->n); o++) {
        const sp_value *v = sp_node_slot(a->n, o);
        for (int k = 0; v && a->in[o].role != SP_SIDE && k < v->dims.rank; k++) hear(p, a, o, k, state);
    }
    return SPARTA_OK;
}

static sparta_status settle(agreement *s, int at, sp_arena *scratch)
{
    const sp_axes *a = &s->p->axes[at];
    label_state state[SP_LABELS] = {{0}};
    SP_TRY(listen(s->p, a, scratch, scratch, state));
    for (int l = 0; l < a->labels; l++)
        if (state[l].gone && a->label[l].kind == SP_SUM) SP_TRY(hear_summands(s, at, a, l, &state[l]));
    leave_one(a, a->labels, state);
    for (int o = 0; o < sp_node_slots(a->n); o++) {
        const sp_value *v = sp_node_slot(a->n, o);
        for (int k = 0; v && a->in[o].role != SP_SIDE && k < v->dims.rank; k++)
            if (a->in[o].axis[k].n) SP_TRY(tell(s, a, o, k, state));
    }
    return SPARTA_OK;
}

static sparta_status visit(agreement *s, int at)
{
    const sp_axes *a = &s->p->axes[at];
    SP_TRY(special(s, a));
    if (a->how == SP_FLOW_OPAQUE || a->how == SP_FLOW_SIZES) return SPARTA_OK;
    sp_arena *scratch = sp_arena_create(s->p->cx);
    SP_NEED(s->p->cx, scratch);
    sparta_status status = settle(s, at, scratch);
    sp_arena_free(scratch);
    return status;
}

sparta_status sp_labels_left(const sp_propagation *p, const sp_axes *a, uint8_t *kept[SP_LABELS])
{
    label_state state[SP_LABELS] = {{0}};
    for (int l = 0; l < SP_LABELS; l++) kept[l] = NULL;
    if (a->how == SP_FLOW_OPAQUE || a->how == SP_FLOW_SIZES) return SPARTA_OK;
    sp_arena *scratch = sp_arena_create(p->cx);
    SP_NEED(p->cx, scratch);
    sparta_status status = listen(p, a, p->arena, scratch, state);
    sp_arena_free(scratch);
    for (int l = 0; status == SPARTA_OK && l < a->labels; l++) {
        kept[l] = state[l].gone;
        for (int64_t i = 0; kept[l] && i < a->label[l].size; i++) kept[l][i] = !kept[l][i];
    }
    return status;
}

/* ------------------------------------------------------------------ to the end */
static sparta_status set_up(agreement *s)
{
    const sp_graph *g = s->p->g;
    size_t nodes = (size_t)SP_MAX(g->n_nodes, 1);
    s->queue = sp_arena_array(s->p->arena, nodes, sizeof *s->queue);
    s->waiting = sp_arena_array(s->p->arena, nodes, sizeof *s->waiting);
    s->summand = sp_arena_array(s->p->arena, nodes, sizeof *s->summand);
    SP_NEED(s->p->cx, s->queue && s->waiting && s->summand);
    for (int i = 0; i < g->n_nodes; i++) {
        s->summand[i] = sp_arena_array(s->p->arena, SP_LABELS, sizeof **s->summand);
        SP_NEED(s->p->cx, s->summand[i]);
        s->queue[i] = i;
        s->waiting[i] = true;
    }
    s->queued = g->n_nodes;
    return SPARTA_OK;
}

/* Indices that a visit may look at. */
static double visit_size(const sp_axes *a)
{
    double n = 1;
    for (int o = 0; o < sp_node_slots(a->n); o++) {
        const sp_value *v = sp_node_slot(a->n, o);
        for (int k = 0; v && k < v->dims.rank; k++)
            n += (double)SP_MIN(SP_MAX(sp_axis_size(v, k), 0), SP_CELLS);
    }
    return n;
}

/* An agreement that does not come to its end takes nothing away. */
static void keep_everything(sp_propagation *p)
{
    for (int i = 0; i < p->n_values; i++)
        for (int k = 0; k < p->g->value[i]->dims.rank; k++)
            if (p->fact[i].gone[k]) memset(p->fact[i].gone[k], 0, (size_t)sp_axis_size(p->g->value[i], k));
}

static sparta_status settle_all(agreement *s)
{
    sp_propagation *p = s->p;
    while (s->queued) {
        int at = s->queue[s->head];
        s->head = (s->head + 1) % p->g->n_nodes;
        s->queued--;
        s->waiting[at] = false;
        SP_TRY(sp_check_cancel(p->cx));
        p->effort->visits -= visit_size(&p->axes[at]);
        if (p->effort->visits < 0) {
            p->effort->spent |= SP_SPENT_VISITS;
            keep_everything(p);
            break;
        }
        SP_TRY(visit(s, at));
    }
    return SPARTA_OK;
}

/* A weight keeps some of what could go, until a multiple stays. */
static sparta_status round_up(agreement *s, const sp_value *v, int axis)
{
    sp_fact *f = sp_fact_of(s->p, v);
    const int64_t size = sp_axis_size(v, axis), multiple = s->p->options->multiple;
    int64_t left = 0;
    if (!f->gone[axis]) return SPARTA_OK;
    for (int64_t i = 0; i < size; i++) left += !f->gone[axis][i];
    if (left == size || left % multiple == 0) return SPARTA_OK;
    int64_t more = multiple - left % multiple;
    for (int64_t i = 0; i < size && more > 0; i++) more -= keep(f, axis, i, (sp_cause){0});
    return wake(s, v);
}

/* Who shares an axis keeps the same, which may be more than a multiple of theirs (a whole head): again until all have one. */
static sparta_status round_all(agreement *s)
{
    const sp_graph *g = s->p->g;
    s->rounding = true;
    do {
        SP_TRY(settle_all(s));
        for (int i = 0; i < g->n_values; i++)
            for (int k = 0; g->value[i]->constant && g->value[i]->dims.rank > 1 && k < g->value[i]->dims.rank;
                 k++)
                SP_TRY(round_up(s, g->value[i], k));
    } while (s->queued);
    return SPARTA_OK;
}

sparta_status sp_agree(sp_propagation *p)
{
    agreement s = {.p = p};
    SP_TRY(set_up(&s));
    SP_TRY(sp_spare(p));
    SP_TRY(settle_all(&s));
    return p->options && p->options->multiple > 1 ? round_all(&s) : SPARTA_OK;
}
