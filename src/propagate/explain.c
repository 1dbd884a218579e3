/* Who holds what could go, in words that a user can act on. Names are those of weights and of nodes: values have names that exporters made up.
 *
 *     layer3.0.conv3.weight keeps 256 zero outputs of 1024, because 'layer3.0.downsample.0.weight' needs them: prune both alike
 *
 * The agreement remembers the first who said no (sp_cause), which is one reason of several. What nobody can change comes before it:
 * all that share the axis are asked first whether one of them is an output of the model, or has a label that never gives an index up.
 * Then the causes are followed from one axis to the next until somebody has a reason of their own.
 */
#include "propagate/facts.h"
#include <string.h>

enum { LOOKS = 96 }; /* values that one explanation looks at */

typedef struct spot { /* an index of an axis of a value */
    const sp_value *v;
    int axis;
    int64_t index;
} spot;

/* "Conv '/layer1.0.conv2/Conv'" */
static void tell_node(const sp_node *n, sp_text *t)
{
    sp_text_printf(t, "%s '%s'", sp_builtin_row(n->op)->name, *n->name ? n->name : n->out[0]->name);
}

static void tell_why(const sp_node *n, const char *why, sp_text *t)
{
    sp_text_printf(t, "of ");
    tell_node(n, t);
    sp_text_printf(t, ": %s", why);
}

void sp_tell_place(const sp_explainer *e, const sp_value *w, sp_text *t)
{
    if (strpbrk(sp_initialiser_name(w), "./")) return; /* a path of its own */
    for (int i = e->p->users.first[w->id]; i < e->p->users.first[w->id + 1]; i++) {
        const sp_node *n = e->p->axes[e->p->users.user[i]].n;
        if (!strpbrk(n->name, "./")) continue;
        sp_text_printf(t, " in ");
        tell_node(n, t);
        return;
    }
}

static const sp_axes *axes_of(const sp_explainer *e, const sp_value *v, const sp_node *n)
{
    for (int i = e->p->users.first[v->id]; i < e->p->users.first[v->id + 1] && sp_look(e, 1); i++)
        if (e->p->axes[e->p->users.user[i]].n == n) return &e->p->axes[e->p->users.user[i]];
    return NULL;
}

/* The axis of operand o that shares a label with x; -1: none. */
static int axis_like(const sp_axes *a, int o, const sp_axis *x)
{
    const sp_value *v = sp_node_slot(a->n, o);
    for (int k = 0; v && a->in[o].role != SP_SIDE && k < v->dims.rank; k++)
        for (int j = 0; j < x->n; j++)
            if (sp_axis_has(&a->in[o].axis[k], x->label[j])) return k;
    return -1;
}

/* Index i of axis x, as an index of axis y; both have one label. -1: y does not have it. */
static int64_t index_there(const sp_axis *x, int64_t i, const sp_axis *y, int64_t size)
{
    const int64_t at = sp_axis_at(x, i);
    if (!y->window) return at < size ? at : -1;
    if (!y->at)
        return y->step && (at - y->from) % y->step == 0 && (at - y->from) / y->step >= 0 &&
                       (at - y->from) / y->step < size
                   ? (at - y->from) / y->step
                   : -1;
    for (int64_t k = 0; k < size; k++)
        if (y->at[k] == at) return k;
    return -1;
}

/* ------------------------------------------------------------------ what nobody can change */
typedef struct search {
    const sp_explainer *e;
    spot queue[LOOKS];
    int n;
} search;

static void push(search *s, spot x)
{
    for (int i = 0; i < s->n; i++)
        if (s->queue[i].v == x.v) return;
    if (s->n < LOOKS && !x.v->constant) s->queue[s->n++] = x;
}

/* What this node says of operand o of it; the other operands that share the label are next. */
static const char *ask(search *s, const sp_axes *a, int o, spot here)
{
    const sp_axis *x = &a->in[o].axis[here.axis];
    if (a->how == SP_FLOW_OPAQUE) return sp_says_nothing;
    if (a->how == SP_FLOW_SIZES || a->in[o].role == SP_SIDE || x->n != 1) return NULL;
    const char *why = sp_label_fixed(a, x->label[0]);
    /* What comes after is nearer to a user's mind. */
    for (int k = sp_node_slots(a->n) - 1; !why && k >= 0 && sp_look(s->e, 1); k--) {
        const int axis = k == o ? -1 : axis_like(a, k, x);
        if (axis < 0 || a->in[k].axis[axis].n != 1) continue;
        const sp_value *v = sp_node_slot(a->n, k);
        const int64_t i = index_there(x, here.index, &a->in[k].axis[axis], SP_MAX(sp_axis_size(v, axis), 0));
        if (i >= 0) push(s, (spot){v, axis, i});
    }
    return why;
}

static bool never(const sp_explainer *e, spot from, sp_text *t)
{
    search s = {.e = e, .n = 1, .queue = {from}};
    for (int at = 0; at < s.n; at++) {
        const spot here = s.queue[at];
        if (here.v->is_output || here.v->is_input) {
            sp_text_printf(t, "'%s' is an %s of the model, whose size stays", here.v->name,
                           here.v->is_output ? "output" : "input");
            return true;
        }
        for (int i = e->p->users.first[here.v->id]; i < e->p->users.first[here.v->id + 1]; i++) {
            const sp_axes *a = &e->p->axes[e->p->users.user[i]];
            if (!sp_look(e, sp_node_slots(a->n))) return false;
            for (int o = 0; o < sp_node_slots(a->n); o++) {
                const char *why = sp_node_slot(a->n, o) == here.v ? ask(&s, a, o, here) : NULL;
                if (!why) continue;
                tell_why(a->n, why, t);
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ weights of neighbours */
/* A weight of this node that has the axis. */
static const sp_value *weight_at(const sp_axes *a, const sp_axis *x, const sp_value *about)
{
    for (int o = 0; o < a->n->n_in; o++) {
        const sp_value *v = a->n->in[o];
        if (v && v != about && v->constant && v->constant->rank > 1 && axis_like(a, o, x) >= 0) return v;
    }
    return NULL;
}

/* Are these indices of the weight zero themselves? */
static bool is_dead(const sp_explainer *e, const sp_axes *a, const sp_axis *x, const sp_value *w,
                    int64_t index)
{
    for (int o = 0; o < a->n->n_in; o++) {
        const int axis = a->n->in[o] == w ? axis_like(a, o, x) : -1;
        const uint8_t *dead = axis >= 0 ? sp_fact_of(e->p, w)->wanted[axis] : NULL;
        if (dead && index < sp_axis_size(w, axis)) return dead[index];
    }
    return false;
}

/* The weight of a layer that makes this value, past at most `steps` biases, normalisations, activations and residuals; NULL: none. */
static const sp_value *maker_within(const sp_explainer *e, spot s, const sp_value *about, int steps,
                                    int *looks)
{
    const sp_axes *a = s.v->producer && steps > 0 && --*looks > 0 ? axes_of(e, s.v, s.v->producer) : NULL;
    if (!a || a->how == SP_FLOW_OPAQUE || a->how == SP_FLOW_SIZES) return NULL;
    int o = a->n->n_in;
    while (sp_node_slot(a->n, o) != s.v) o++;
    const sp_axis *x = &a->in[o].axis[s.axis];
    const sp_value *found = weight_at(a, x, about);
    for (o = 0; !found && o < a->n->n_in; o++) {
        const int axis = axis_like(a, o, x);
        if (axis >= 0 && !a->n->in[o]->constant)
            found = maker_within(e, (spot){a->n->in[o], axis, s.index}, about, steps - 1, looks);
    }
    return found;
}

/* The nearest of them. */
static const sp_value *maker(const sp_explainer *e, spot s, const sp_value *about)
{
    const sp_value *found = NULL;
    for (int steps = 3; !found && steps < LOOKS; steps *= 2) {
        int looks = LOOKS;
        found = maker_within(e, s, about, steps, &looks);
    }
    return found;
}

/* The weight of a layer that reads this value and is not zero there. */
static const sp_value *reader(const sp_explainer *e, spot s, const sp_value *about, int *looks)
{
    for (int i = e->p->users.first[s.v->id]; i < e->p->users.first[s.v->id + 1] && --*looks > 0; i++) {
        const sp_axes *a = &e->p->axes[e->p->users.user[i]];
        for (int o = 0; o < a->n->n_in; o++) {
            if (a->n->in[o] != s.v || a->in[o].role == SP_SIDE) continue;
            const sp_axis *x = &a->in[o].axis[s.axis];
            const sp_value *w = weight_at(a, x, about);
            if (w && !is_dead(e, a, x, w, s.index)) return w;
            for (int k = a->n->n_in; !w && k < sp_node_slots(a->n); k++) {
                const int axis = axis_like(a, k, x);
                const sp_value *found =
                    axis < 0 ? NULL : reader(e, (spot){sp_node_slot(a->n, k), axis, s.index}, about, looks);
                if (found) return found;
            }
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ constants that are not 0 */
/* Is this index of a value that the model computes a constant, and not 0? */
static bool is_constant(const sp_explainer *e, spot s)
{
    const sp_cells *c = &sp_fact_of(e->p, s.v)->tesa.state;
    int64_t index[SPARTA_RANK] = {0}, n = 1;
    bool some = false;
    if (s.v->constant || !c->at) return false;
    for (int i = 0; i < s.v->dims.rank; i++) n *= i == s.axis ? 1 : c->extent[i];
    if (!sp_look(e, n)) return false;
    for (int64_t k = 0; k < n; k++) {
        index[s.axis] = s.index;
        const uint8_t state = sp_cells_get(c, s.v->dims.rank, index);
        if (state == SP_UNKNOWN) return false;
        some |= state == SP_SOME;
        for (int d = s.v->dims.rank - 1; d >= 0; d--)
            if (d != s.axis && ++index[d] < c->extent[d])
                break;
            else if (d != s.axis)
                index[d] = 0;
    }
    return some;
}

typedef struct shift { /* what makes zeros of a weight a constant: a bias, or a BatchNormalization's two */
    const sp_value *scale, *bias;
} shift;

static void shift_at(const sp_node *n, const sp_value *about, shift *s)
{
    const sp_value *c[2] = {NULL, NULL};
    switch (n->op) {
    case SP_OP_BatchNormalization:
        c[0] = n->in[1];
        c[1] = n->in[2];
        break;
    case SP_OP_Add: c[1] = n->in[n->in[0] && n->in[0]->constant ? 0 : 1]; break;
    case SP_OP_Conv:
    case SP_OP_ConvTranspose:
    case SP_OP_Gemm: c[1] = n->n_in > 2 ? n->in[2] : NULL; break;
    default: break;
    }
    if (!c[1] || !c[1]->constant) return;
    s->scale = c[0] && c[0]->constant && c[0] != about ? c[0] : NULL;
    s->bias = c[1];
}

/* From a weight on to the node that does not take its constants. */
static shift find_shift(const sp_explainer *e, const sp_value *about, const sp_node *end)
{
    shift s = {NULL, NULL};
    const sp_value *v = about;
    for (int steps = 0; steps < 12; steps++) {
        const sp_node *n = NULL;
        for (int i = e->p->users.first[v->id]; !n && i < e->p->users.first[v->id + 1]; i++) {
            const sp_node *user = e->p->axes[e->p->users.user[i]].n;
            n = user == v->producer ? NULL : user;
        }
        if (!n || n == end) break;
        shift_at(n, about, &s);
        v = n->out[0];
    }
    return s;
}

static void tell_constant(const sp_explainer *e, const sp_value *about, const sp_axes *a, sp_text *t)
{
    const shift s = find_shift(e, about, a->n);
    const bool border = a->no_values && a->n->op != SP_OP_OnnxAttention;
    tell_node(a->n, t);
    sp_text_printf(
        t, " gets a constant for them that is not 0%s: ", border ? ", and 0 at its padded border" : "");
    if (s.scale)
        sp_text_printf(t, "make '%s' and '%s' 0 there too", sp_initialiser_name(s.scale),
                       sp_initialiser_name(s.bias));
    if (s.bias && !s.scale) sp_text_printf(t, "make '%s' 0 there too", sp_initialiser_name(s.bias));
    if (!s.bias) sp_text_printf(t, "make what is added to them 0 too");
}

/* ------------------------------------------------------------------ scores of an attention */
static bool softmax_after(const sp_explainer *e, const sp_value *v, int steps, int *looks)
{
    for (int i = e->p->users.first[v->id]; steps > 0 && --*looks > 0 && i < e->p->users.first[v->id + 1];
         i++) {
        const sp_axes *a = &e->p->axes[e->p->users.user[i]];
        if (a->n->op == SP_OP_Softmax) return true;
        if (a->n != v->producer && a->n->n_out && a->n->op != SP_OP_MatMul &&
            softmax_after(e, a->n->out[0], steps - 1, looks))
            return true;
    }
    return false;
}

/* Does `v` come to this node as queries or keys? */
static bool makes_scores(const sp_explainer *e, const sp_axes *a, const sp_value *v)
{
    const sp_node *n = a->n;
    if (v->constant || n->n_in < 2 || !n->in[1] || n->in[0]->constant || n->in[1]->constant) return false;
    if (n->op == SP_OP_OnnxAttention || n->op == SP_OP_Attention) return v == n->in[0] || v == n->in[1];
    int looks = LOOKS;
    return n->op == SP_OP_MatMul && softmax_after(e, n->out[0], 5, &looks);
}

/* The Softmax that a value comes from, through operators of one input; NULL: none. */
static const sp_node *softmax_before(const sp_value *v)
{
    for (int steps = 0; v && v->producer && steps < 6; steps++) {
        if (v->producer->op == SP_OP_Softmax) return v->producer;
        v = v->producer->n_in ? v->producer->in[0] : NULL;
    }
    return NULL;
}

/* ------------------------------------------------------------------ the end of a chain of causes */
/* This value keeps them. `inputs`: the axis that is asked about is what its layer reads. */
static void tell_keeper(const sp_explainer *e, const sp_value *about, bool inputs, spot s, sp_text *t)
{
    int looks = LOOKS;
    const sp_value *w = s.v->constant ? s.v : NULL;
    const bool read = inputs && !w && (w = reader(e, s, about, &looks));
    if (!w) w = maker(e, s, about);
    if (w && w != about) {
        sp_text_printf(t, "'%s'", sp_initialiser_name(w));
        sp_tell_place(e, w, t);
        sp_text_printf(t, " %s them: prune both alike", read ? "reads" : "needs");
    } else if (s.v->producer)
        tell_why(s.v->producer, "what it makes of them depends on the input; prune what reads that, too", t);
    else
        sp_text_printf(t, "'%s' has them too", sp_initialiser_name(s.v));
}

static void tell_end(const sp_explainer *e, const sp_value *about, bool inputs, spot from, const sp_cause *c,
                     sp_text *t)
{
    const sp_axes *a = axes_of(e, from.v, c->node);
    const sp_node *softmax = softmax_before(from.v);
    if (a && !inputs && makes_scores(e, a, from.v))
        tell_why(a->n,
                 a->n->op == SP_OP_MatMul ? "it makes scores of them; prune the same columns of every "
                                            "head in queries and keys with their "
                                            "biases, or of a whole head its values with their bias"
                                          : "it makes scores of them; prune the values of the whole head "
                                            "with their bias, or what reads it",
                 t);
    else if (a && softmax && is_constant(e, from))
        tell_why(
            softmax,
            "equal scores still take the mean of a head's values; prune those with their bias, or what reads "
            "the head",
            t);
    else if (a && a->how == SP_FLOW_PRODUCT && is_constant(e, from))
        tell_constant(e, about, a, t);
    else if (c->why)
        tell_why(c->node, c->why, t);
    else
        tell_keeper(e, about, inputs, (spot){c->value, c->axis, c->other}, t);
}

void sp_explain(const sp_explainer *e, const sp_value *about, int axis, bool inputs, sp_text *t)
{
    const sp_cause *c = &sp_fact_of(e->p, about)->cause[axis];
    spot from = {about, axis, c->index};
    if (never(e, from, t)) return;
    for (int steps = 0; !c->why && steps < e->p->g->n_nodes && sp_look(e, 1); steps++) {
        const sp_fact *f = sp_fact_of(e->p, c->value);
        const sp_cause *next = &f->cause[c->axis];
        const bool wanted = f->wanted[c->axis] && f->wanted[c->axis][c->other];
        if (!wanted || !next->node || c->value->constant) break;
        from = (spot){c->value, c->axis, next->index};
        c = next;
    }
    tell_end(e, about, inputs, from, c, t);
}
