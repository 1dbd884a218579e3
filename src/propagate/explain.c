/* Who holds what could go, in words that a user can act on. Names are those of weights and of nodes: values have names that exporters made up.
 *
 *     layer3.0.conv3.weight keeps 256 zero outputs of 1024, because 'layer3.0.downsample.0.weight' needs them: prune both alike
 *
 * The agreement remembers the first who said no (sparta_cause), which is one reason of several. What nobody can change comes before it:
 * all that share the axis are asked first whether one of them is an output of the model, or has a label that never gives an index up.
 * Then the causes are followed from one axis to the next until somebody has a reason of their own.
 */
#include "propagate/facts.h"
#include <string.h>

enum { LOOKS = 96 }; /* values that one explanation looks at */

typedef struct spot { /* an index of an axis of a value */
    const sparta_value *v;
    int axis;
    int64_t index;
} spot;

/* "Conv '/layer1.0.conv2/Conv'" */
static void tell_node(const sparta_node *n, sparta_text *t)
{
    sparta_text_printf(t, "%s '%s'", sparta_builtin_row(n->op)->name, *n->name ? n->name : n->out[0]->name);
}

static void tell_why(const sparta_node *n, const char *why, sparta_text *t)
{
    sparta_text_printf(t, "of ");
    tell_node(n, t);
    sparta_text_printf(t, ": %s", why);
}

void sparta_tell_place(const sparta_explainer *e, const sparta_value *w, sparta_text *t)
{
    if (strpbrk(sparta_initialiser_name(w), "./")) return; /* a path of its own */
    for (int i = e->p->users.first[w->id]; i < e->p->users.first[w->id + 1]; i++) {
        const sparta_node *n = e->p->axes[e->p->users.user[i]].n;
        if (!strpbrk(n->name, "./")) continue;
        sparta_text_printf(t, " in ");
        tell_node(n, t);
        return;
    }
}

static const sparta_axes *axes_of(const sparta_explainer *e, const sparta_value *v, const sparta_node *n)
{
    for (int i = e->p->users.first[v->id]; i < e->p->users.first[v->id + 1] && sparta_look(e, 1); i++)
        if (e->p->axes[e->p->users.user[i]].n == n) return &e->p->axes[e->p->users.user[i]];
    return NULL;
}

static bool has_label(const sparta_axis *x, int label)
{
    for (int j = 0; j < x->n; j++)
        if (x->label[j] == label) return true;
    return false;
}

/* The axis of operand o that shares a label with x; -1: none. */
static int axis_like(const sparta_axes *a, int o, const sparta_axis *x)
{
    const sparta_value *v = sparta_node_slot(a->n, o);
    for (int k = 0; v && a->in[o].role != SPARTA_SIDE && k < v->dims.rank; k++)
        for (int j = 0; j < x->n; j++)
            if (has_label(&a->in[o].axis[k], x->label[j])) return k;
    return -1;
}

/* Index i of axis x, as an index of axis y; both have one label. -1: y does not have it. */
static int64_t index_there(const sparta_axis *x, int64_t i, const sparta_axis *y, int64_t size)
{
    const int64_t at = sparta_axis_at(x, i);
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
    const sparta_explainer *e;
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
static const char *ask(search *s, const sparta_axes *a, int o, spot here)
{
    const sparta_axis *x = &a->in[o].axis[here.axis];
    if (a->how == SPARTA_FLOW_OPAQUE) return sparta_says_nothing;
    if (a->how == SPARTA_FLOW_SIZES || a->in[o].role == SPARTA_SIDE || x->n != 1) return NULL;
    const char *why = sparta_label_fixed(a, x->label[0]);
    /* What comes after is nearer to a user's mind. */
    for (int k = sparta_node_slots(a->n) - 1; !why && k >= 0 && sparta_look(s->e, 1); k--) {
        const int axis = k == o ? -1 : axis_like(a, k, x);
        if (axis < 0 || a->in[k].axis[axis].n != 1) continue;
        const sparta_value *v = sparta_node_slot(a->n, k);
        const int64_t i =
            index_there(x, here.index, &a->in[k].axis[axis], SPARTA_MAX(sparta_axis_size(v, axis), 0));
        if (i >= 0) push(s, (spot){v, axis, i});
    }
    return why;
}

static bool never(const sparta_explainer *e, spot from, sparta_text *t)
{
    search s = {.e = e, .n = 1, .queue = {from}};
    for (int at = 0; at < s.n; at++) {
        const spot here = s.queue[at];
        if (here.v->is_output || here.v->is_input) {
            sparta_text_printf(t, "'%s' is an %s of the model, whose size stays", here.v->name,
                               here.v->is_output ? "output" : "input");
            return true;
        }
        for (int i = e->p->users.first[here.v->id]; i < e->p->users.first[here.v->id + 1]; i++) {
            const sparta_axes *a = &e->p->axes[e->p->users.user[i]];
            if (!sparta_look(e, sparta_node_slots(a->n))) return false;
            for (int o = 0; o < sparta_node_slots(a->n); o++) {
                const char *why = sparta_node_slot(a->n, o) == here.v ? ask(&s, a, o, here) : NULL;
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
static const sparta_value *weight_at(const sparta_axes *a, const sparta_axis *x, const sparta_value *about)
{
    for (int o = 0; o < a->n->n_in; o++) {
        const sparta_value *v = a->n->in[o];
        if (v && v != about && v->constant && v->constant->rank > 1 && axis_like(a, o, x) >= 0) return v;
    }
    return NULL;
}

/* Are these indices of the weight zero themselves? */
static bool is_dead(const sparta_explainer *e, const sparta_axes *a, const sparta_axis *x,
                    const sparta_value *w, int64_t index)
{
    for (int o = 0; o < a->n->n_in; o++) {
        const int axis = a->n->in[o] == w ? axis_like(a, o, x) : -1;
        const uint8_t *dead = axis >= 0 ? sparta_fact_of(e->p, w)->wanted[axis] : NULL;
        if (dead && index < sparta_axis_size(w, axis)) return dead[index];
    }
    return false;
}

/* The weight of a layer that makes this value, past so many biases, normalisations, activations and residuals; NULL: none. */
static const sparta_value *maker_within(const sparta_explainer *e, spot s, const sparta_value *about,
                                        int steps, int *looks)
{
    const sparta_axes *a = s.v->producer && steps > 0 && --*looks > 0 ? axes_of(e, s.v, s.v->producer) : NULL;
    if (!a || a->how == SPARTA_FLOW_OPAQUE || a->how == SPARTA_FLOW_SIZES) return NULL;
    int o = a->n->n_in;
    while (sparta_node_slot(a->n, o) != s.v) o++;
    const sparta_axis *x = &a->in[o].axis[s.axis];
    const sparta_value *found = weight_at(a, x, about);
    for (o = 0; !found && o < a->n->n_in; o++) {
        const int axis = axis_like(a, o, x);
        if (axis >= 0 && !a->n->in[o]->constant)
            found = maker_within(e, (spot){a->n->in[o], axis, s.index}, about, steps - 1, looks);
    }
    return found;
}

/* The nearest of them. */
static const sparta_value *maker(const sparta_explainer *e, spot s, const sparta_value *about)
{
    const sparta_value *found = NULL;
    for (int steps = 3; !found && steps < LOOKS; steps *= 2) {
        int looks = LOOKS;
        found = maker_within(e, s, about, steps, &looks);
    }
    return found;
}

/* The weight of a layer that reads this value and is not zero there. */
static const sparta_value *reader(const sparta_explainer *e, spot s, const sparta_value *about, int *looks)
{
    for (int i = e->p->users.first[s.v->id]; i < e->p->users.first[s.v->id + 1] && --*looks > 0; i++) {
        const sparta_axes *a = &e->p->axes[e->p->users.user[i]];
        for (int o = 0; o < a->n->n_in; o++) {
            if (a->n->in[o] != s.v || a->in[o].role == SPARTA_SIDE) continue;
            const sparta_axis *x = &a->in[o].axis[s.axis];
            const sparta_value *w = weight_at(a, x, about);
            if (w && !is_dead(e, a, x, w, s.index)) return w;
            for (int k = a->n->n_in; !w && k < sparta_node_slots(a->n); k++) {
                const int axis = axis_like(a, k, x);
                const sparta_value *found =
                    axis < 0 ? NULL
                             : reader(e, (spot){sparta_node_slot(a->n, k), axis, s.index}, about, looks);
                if (found) return found;
            }
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ constants that are not 0 */
/* Is this index of a value that the model computes a constant, and not 0? */
static bool is_constant(const sparta_explainer *e, spot s)
{
    const sparta_cells *c = &sparta_fact_of(e->p, s.v)->state;
    int64_t index[SPARTA_RANK] = {0}, n = 1;
    bool some = false;
    if (s.v->constant || !c->at) return false;
    for (int i = 0; i < s.v->dims.rank; i++) n *= i == s.axis ? 1 : c->extent[i];
    if (!sparta_look(e, n)) return false;
    for (int64_t k = 0; k < n; k++) {
        index[s.axis] = s.index;
        const uint8_t state = sparta_cells_get(c, s.v->dims.rank, index);
        if (state == SPARTA_UNKNOWN) return false;
        some |= state == SPARTA_SOME;
        for (int d = s.v->dims.rank - 1; d >= 0; d--)
            if (d != s.axis && ++index[d] < c->extent[d])
                break;
            else if (d != s.axis)
                index[d] = 0;
    }
    return some;
}

typedef struct shift { /* what makes zeros of a weight a constant: a bias, or a BatchNormalization's two */
    const sparta_value *scale, *bias;
} shift;

static void shift_at(const sparta_node *n, const sparta_value *about, shift *s)
{
    const sparta_value *c[2] = {NULL, NULL};
    switch (n->op) {
    case SPARTA_OP_BatchNormalization:
        c[0] = n->in[1];
        c[1] = n->in[2];
        break;
    case SPARTA_OP_Add: c[1] = n->in[n->in[0] && n->in[0]->constant ? 0 : 1]; break;
    case SPARTA_OP_Conv:
    case SPARTA_OP_ConvTranspose:
    case SPARTA_OP_Gemm: c[1] = n->n_in > 2 ? n->in[2] : NULL; break;
    default: break;
    }
    if (!c[1] || !c[1]->constant) return;
    s->scale = c[0] && c[0]->constant && c[0] != about ? c[0] : NULL;
    s->bias = c[1];
}

/* From a weight on to the node that does not take its constants. */
static shift find_shift(const sparta_explainer *e, const sparta_value *about, const sparta_node *end)
{
    shift s = {NULL, NULL};
    const sparta_value *v = about;
    for (int steps = 0; steps < 12; steps++) {
        const sparta_node *n = NULL;
        for (int i = e->p->users.first[v->id]; !n && i < e->p->users.first[v->id + 1]; i++) {
            const sparta_node *user = e->p->axes[e->p->users.user[i]].n;
            n = user == v->producer ? NULL : user;
        }
        if (!n || n == end) break;
        shift_at(n, about, &s);
        v = n->out[0];
    }
    return s;
}

static void tell_constant(const sparta_explainer *e, const sparta_value *about, const sparta_axes *a,
                          sparta_text *t)
{
    const shift s = find_shift(e, about, a->n);
    const bool border = a->no_values && a->n->op != SPARTA_OP_OnnxAttention;
    tell_node(a->n, t);
    sparta_text_printf(
        t, " gets a constant for them that is not 0%s: ", border ? ", and 0 at its padded border" : "");
    if (s.scale)
        sparta_text_printf(t, "make '%s' and '%s' 0 there too", sparta_initialiser_name(s.scale),
                           sparta_initialiser_name(s.bias));
    if (s.bias && !s.scale) sparta_text_printf(t, "make '%s' 0 there too", sparta_initialiser_name(s.bias));
    if (!s.bias) sparta_text_printf(t, "make what is added to them 0 too");
}

/* ------------------------------------------------------------------ scores of an attention */
static bool softmax_after(const sparta_explainer *e, const sparta_value *v, int steps, int *looks)
{
    for (int i = e->p->users.first[v->id]; steps > 0 && --*looks > 0 && i < e->p->users.first[v->id + 1];
         i++) {
        const sparta_axes *a = &e->p->axes[e->p->users.user[i]];
        if (a->n->op == SPARTA_OP_Softmax) return true;
        if (a->n != v->producer && a->n->n_out && a->n->op != SPARTA_OP_MatMul &&
            softmax_after(e, a->n->out[0], steps - 1, looks))
            return true;
    }
    return false;
}

/* Does `v` come to this node as queries or keys? */
static bool makes_scores(const sparta_explainer *e, const sparta_axes *a, const sparta_value *v)
{
    const sparta_node *n = a->n;
    if (v->constant || n->n_in < 2 || !n->in[1] || n->in[0]->constant || n->in[1]->constant) return false;
    if (n->op == SPARTA_OP_OnnxAttention || n->op == SPARTA_OP_Attention)
        return v == n->in[0] || v == n->in[1];
    int looks = LOOKS;
    return n->op == SPARTA_OP_MatMul && softmax_after(e, n->out[0], 5, &looks);
}

/* The Softmax that a value comes from, through operators of one input; NULL: none. */
static const sparta_node *softmax_before(const sparta_value *v)
{
    for (int steps = 0; v && v->producer && steps < 6; steps++) {
        if (v->producer->op == SPARTA_OP_Softmax) return v->producer;
        v = v->producer->n_in ? v->producer->in[0] : NULL;
    }
    return NULL;
}

/* ------------------------------------------------------------------ the end of a chain of causes */
/* This value keeps them. `inputs`: the axis that is asked about is what its layer reads. */
static void tell_keeper(const sparta_explainer *e, const sparta_value *about, bool inputs, spot s,
                        sparta_text *t)
{
    int looks = LOOKS;
    const sparta_value *w = s.v->constant ? s.v : NULL;
    const bool read = inputs && !w && (w = reader(e, s, about, &looks));
    if (!w) w = maker(e, s, about);
    if (w && w != about) {
        sparta_text_printf(t, "'%s'", sparta_initialiser_name(w));
        sparta_tell_place(e, w, t);
        sparta_text_printf(t, " %s them: prune both alike", read ? "reads" : "needs");
    } else if (s.v->producer)
        tell_why(s.v->producer, "what it makes of them depends on the input; prune what reads that, too", t);
    else
        sparta_text_printf(t, "'%s' has them too", sparta_initialiser_name(s.v));
}

static void tell_end(const sparta_explainer *e, const sparta_value *about, bool inputs, spot from,
                     const sparta_cause *c, sparta_text *t)
{
    const sparta_axes *a = axes_of(e, from.v, c->node);
    const sparta_node *softmax = softmax_before(from.v);
    if (a && !inputs && makes_scores(e, a, from.v))
        tell_why(a->n,
                 a->n->op == SPARTA_OP_MatMul ? "it makes scores of them; prune the same columns of every "
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
    else if (a && a->how == SPARTA_FLOW_PRODUCT && is_constant(e, from))
        tell_constant(e, about, a, t);
    else if (c->why)
        tell_why(c->node, c->why, t);
    else
        tell_keeper(e, about, inputs, (spot){c->value, c->axis, c->other}, t);
}

void sparta_explain(const sparta_explainer *e, const sparta_value *about, int axis, bool inputs,
                    sparta_text *t)
{
    const sparta_cause *c = &sparta_fact_of(e->p, about)->cause[axis];
    spot from = {about, axis, c->index};
    if (never(e, from, t)) return;
    for (int steps = 0; !c->why && steps < e->p->g->n_nodes && sparta_look(e, 1); steps++) {
        const sparta_fact *f = sparta_fact_of(e->p, c->value);
        const sparta_cause *next = &f->cause[c->axis];
        const bool wanted = f->wanted[c->axis] && f->wanted[c->axis][c->other];
        if (!wanted || !next->node || c->value->constant) break;
        from = (spot){c->value, c->axis, next->index};
        c = next;
    }
    tell_end(e, about, inputs, from, c, t);
}
