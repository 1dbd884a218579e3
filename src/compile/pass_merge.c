/* merge: Linears of one input into one Linear and a Split: query, key and value are one product.
 *
 *     x --> Linear(wq) --> q                x --> Linear([wq wk wv]) --> Split --> q
 *      \--> Linear(wk) --> k                                               |-----> k
 *      \--> Linear(wv) --> v                                               '-----> v
 *
 * Merged are those of equal activation and layout, all with a bias or all without, each with a multiple of 4
 * outputs so that blocks of rows do not straddle. Weights and biases are copied side by side; their names
 * list the parts: "layer.0.{query,key,value}.weight".
 */
#include "compile/match.h"
#include "compile/passes.h"
#include "ops/ops.h"
#include <string.h>

enum { PARTS = 16 };

typedef struct group {
    int n;
    sparta_node *part[PARTS];
    int64_t outputs[PARTS];
} group;

static bool transposed(const sparta_node *n)
{
    return sparta_attr_int(&n->attrs, "transposed", 0) != 0;
}

static bool has_bias(const sparta_node *n)
{
    return n->n_in > 2 && n->in[2];
}

/* May it be merged at all? Its number of outputs. */
static bool is_candidate(const sparta_node *n, int64_t *outputs)
{
    if (n->op != SPARTA_OP_Linear || (n->n_in > 3 && n->in[3])) return false;
    const sparta_value *w = n->in[1];
    if (!w->constant || w->dtype != SPARTA_F32 || (has_bias(n) && !n->in[2]->constant)) return false;
    *outputs = w->constant->dim[transposed(n) ? 0 : 1];
    return *outputs > 0 && *outputs % 4 == 0;
}

static bool go_together(const sparta_node *a, const sparta_node *b)
{
    return a->in[0] == b->in[0] && transposed(a) == transposed(b) && has_bias(a) == has_bias(b) &&
           strcmp(sparta_attr_string(&a->attrs, "activation", ""),
                  sparta_attr_string(&b->attrs, "activation", "")) == 0;
}

/* ------------------------------------------------------------------ names */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 128;
}

/* The common beginning of all names, ending between words. */
static size_t common_head(int n, const char *const *name)
{
    size_t k = 0;
    for (bool same = true; same && name[0][k]; k += same)
        for (int i = 1; i < n; i++) same &= name[i][k] == name[0][k];
    while (k > 0 && is_word(name[0][k - 1])) k--;
    return k;
}

static size_t common_tail(int n, const char *const *name, size_t head)
{
    size_t k = 0, shortest = strlen(name[0]);
    for (int i = 1; i < n; i++) shortest = SPARTA_MIN(shortest, strlen(name[i]));
    const char *end = name[0] + strlen(name[0]);
    for (bool same = true; same && k < shortest - head; k += same)
        for (int i = 1; i < n; i++) same &= name[i][strlen(name[i]) - 1 - k] == end[-1 - (ptrdiff_t)k];
    while (k > 0 && is_word(end[-(ptrdiff_t)k])) k--;
    return k;
}

/* a.query.b, a.key.b -> a.{query,key}.b; NULL after a message. */
static char *joined_name(sparta_graph *g, int n, const char *const *name)
{
    size_t head = common_head(n, name), tail = common_tail(n, name, head);
    sparta_text t;
    sparta_text_init(&t, g->cx);
    sparta_text_put(&t, name[0], head);
    for (int i = 0; i < n; i++)
        sparta_text_printf(&t, "%s%.*s", i ? "," : "{", (int)(strlen(name[i]) - head - tail), name[i] + head);
    sparta_text_printf(&t, "}%s", name[0] + strlen(name[0]) - tail);
    char *joined = t.status == SPARTA_OK ? sparta_arena_string(g->arena, sparta_text_str(&t)) : NULL;
    sparta_text_free(&t);
    return joined;
}

/* ------------------------------------------------------------------ constants side by side */

/* Input `slot` of all parts, side by side along `axis`. */
static sparta_status joined(sparta_match *m, const group *s, int slot, int axis, sparta_value **out)
{
    const char *name[PARTS];
    sparta_tensor t = *s->part[0]->in[slot]->constant;
    int64_t at = 0;
    for (int i = 0; i < s->n; i++) {
        const sparta_value *v = s->part[i]->in[slot];
        name[i] = v->origin ? v->origin : v->name;
        if (i && !sparta_int_add(t.dim[axis], v->constant->dim[axis], &t.dim[axis]))
            return sparta_fail(m->g->cx, SPARTA_E_LIMIT, "merge: too many outputs in '%.200s'", v->name);
    }
    SPARTA_TRY(sparta_tensor_alloc_in(m->g->arena, t.dtype, t.rank, t.dim, &t));
    for (int i = 0; i < s->n; i++) {
        const sparta_tensor *from = s->part[i]->in[slot]->constant;
        sparta_tensor to = t;
        to.data = (float *)t.data + at * t.stride[axis];
        to.dim[axis] = from->dim[axis];
        SPARTA_TRY(sparta_tensor_copy(m->g->cx, from, &to));
        at += from->dim[axis];
    }
    const char *origin = joined_name(m->g, s->n, name);
    SPARTA_NEED(m->g->cx, origin);
    SPARTA_TRY(
        sparta_graph_add_constant(m->g, sparta_graph_find(m->g, origin) ? NULL : origin, &t, false, out));
    (*out)->origin = origin;
    return sparta_match_room(m);
}

/* ------------------------------------------------------------------ merging */

static sparta_status join_names(sparta_match *m, const group *s, char **out)
{
    const char *name[PARTS];
    for (int i = 0; i < s->n; i++) name[i] = s->part[i]->name;
    *out = joined_name(m->g, s->n, name);
    SPARTA_NEED(m->g->cx, *out);
    return SPARTA_OK;
}

/* The parts keep their nodes, which now make values that nobody uses; Split makes the real ones. */
static sparta_status split_into(sparta_match *m, const group *s, const char *name, sparta_value *y)
{
    sparta_value *in[] = {y, NULL}, *out[PARTS];
    sparta_node *split;
    SPARTA_TRY(sparta_match_constant_ints(m, s->n, s->outputs, &in[1]));
    for (int i = 0; i < s->n; i++) {
        out[i] = s->part[i]->out[0];
        SPARTA_TRY(sparta_graph_add_value(m->g, NULL, &s->part[i]->out[0]));
        s->part[i]->out[0]->producer = s->part[i];
        out[i]->producer = NULL;
    }
    SPARTA_TRY(sparta_graph_add_node(m->g, SPARTA_OP_Split, name, 2, in, s->n, out,
                                     SPARTA_ATTRS(SPARTA_INT("axis", -1)), &split));
    SPARTA_TRY(sparta_match_room(m));
    return sparta_ops_infer_node(m->g, split);
}

static sparta_status merge(sparta_match *m, const group *s)
{
    const sparta_node *first = s->part[0];
    sparta_value *in[] = {first->in[0], NULL, NULL}, *y;
    char *name;
    SPARTA_TRY(joined(m, s, 1, transposed(first) ? 0 : 1, &in[1]));
    if (has_bias(first)) SPARTA_TRY(joined(m, s, 2, 0, &in[2]));
    SPARTA_TRY(join_names(m, s, &name));
    sparta_attrs attrs = first->attrs;
    SPARTA_TRY(sparta_match_add(m, SPARTA_OP_Linear, name, in[2] ? 3 : 2, in, &attrs, &y));
    return split_into(m, s, name, y);
}

typedef struct lists { /* Linears by their input */
    int *first, *next; /* by value id, by node index; index + 1, 0: none */
    bool *done;        /* by node index */
} lists;

static sparta_status merge_all(sparta_match *m, lists *l, int n_nodes)
{
    sparta_graph *g = m->g;
    int64_t outputs;
    for (int i = n_nodes - 1; i >= 0; i--) { /* backwards, so that lists run forwards */
        if (!is_candidate(g->node[i], &outputs)) continue;
        int id = g->node[i]->in[0]->id;
        l->next[i] = l->first[id];
        l->first[id] = i + 1;
    }
    for (int i = 0; i < n_nodes; i++) {
        group s = {0};
        if (l->done[i] || !is_candidate(g->node[i], &outputs)) continue;
        for (int k = i; k >= 0 && s.n < PARTS; k = l->next[k] - 1) {
            if (l->done[k] || !go_together(g->node[i], g->node[k])) continue;
            l->done[k] = true;
            is_candidate(g->node[k], &s.outputs[s.n]);
            s.part[s.n++] = g->node[k];
        }
        if (s.n > 1) SPARTA_TRY(merge(m, &s));
    }
    return SPARTA_OK;
}

static sparta_status with_lists(sparta_match *m, lists *l)
{
    size_t values = (size_t)m->g->n_values, nodes = (size_t)m->g->n_nodes;
    SPARTA_TRY(sparta_match_room(m));
    l->first = sparta_alloc_array(m->g->cx, values, sizeof *l->first);
    SPARTA_NEED(m->g->cx, l->first);
    l->next = sparta_alloc_array(m->g->cx, nodes, sizeof *l->next);
    SPARTA_NEED(m->g->cx, l->next);
    l->done = sparta_alloc_array(m->g->cx, nodes, sizeof *l->done);
    SPARTA_NEED(m->g->cx, l->done);
    SPARTA_TRY(merge_all(m, l, m->g->n_nodes));
    SPARTA_TRY(sparta_graph_sweep(m->g));
    return sparta_graph_sort(m->g);
}

sparta_status sparta_pass_merge(sparta_graph *g)
{
    sparta_match m = {.g = g};
    lists l = {0};
    sparta_status status = with_lists(&m, &l);
    sparta_free(g->cx, l.first);
    sparta_free(g->cx, l.next);
    sparta_free(g->cx, l.done);
    sparta_free(g->cx, m.uses);
    sparta_free(g->cx, m.alias);
    return status;
}
