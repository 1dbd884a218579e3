/* merge: Linears of one input into one Linear and a Split: query, key and value are one product.
 *
 *     x --> Linear(wq) --> q                x --> Linear([wq wk wv]) --> Split --> q
 *      \--> Linear(wk) --> k                                               |-----> k
 *      \--> Linear(wv) --> v                                               '-----> v
 *
 * Merged are those of equal epilogue and layout, all with a bias or all without, each with a multiple of 4
 * outputs so that blocks of rows do not straddle. Weights and biases are copied side by side; their names
 * tell people the parts: "layer.0.{query,key,value}.weight". Whoever needs the parts has sp_value.part.
 */
#include "compile/match.h"
#include "compile/passes.h"
#include "ops/ops.h"
#include <string.h>

enum { PARTS = 16 };

typedef struct siblings {
    int n;
    sp_node *part[PARTS];
    int64_t outputs[PARTS];
} siblings;

static bool transposed(const sp_node *n)
{
    return sp_attr_int(&n->attrs, "transposed", 0) != 0;
}

static bool has_bias(const sp_node *n)
{
    return n->n_in > 2 && n->in[2];
}

/* May it be merged at all? Its number of outputs. */
static bool is_candidate(const sp_node *n, int64_t *outputs)
{
    if (n->op != SP_OP_Linear || (n->n_in > 3 && n->in[3])) return false;
    const sp_value *w = n->in[1];
    if (!w->constant || w->dtype != SPARTA_F32 || (has_bias(n) && !n->in[2]->constant)) return false;
    *outputs = w->constant->dim[transposed(n) ? 0 : 1];
    return *outputs > 0 && *outputs % 4 == 0;
}

static bool go_together(const sp_node *a, const sp_node *b)
{
    return a->in[0] == b->in[0] && transposed(a) == transposed(b) && has_bias(a) == has_bias(b) &&
           strcmp(sp_attr_string(&a->attrs, "epilogue", ""), sp_attr_string(&b->attrs, "epilogue", "")) == 0;
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
    for (int i = 1; i < n; i++) shortest = SP_MIN(shortest, strlen(name[i]));
    const char *end = name[0] + strlen(name[0]);
    for (bool same = true; same && k < shortest - head; k += same)
        for (int i = 1; i < n; i++) same &= name[i][strlen(name[i]) - 1 - k] == end[-1 - (ptrdiff_t)k];
    while (k > 0 && is_word(end[-(ptrdiff_t)k])) k--;
    return k;
}

/* a.query.b, a.key.b -> a.{query,key}.b; NULL after a message. */
static char *joined_name(sp_graph *g, int n, const char *const *name)
{
    size_t head = common_head(n, name), tail = common_tail(n, name, head);
    sp_text t;
    sp_text_init(&t, g->cx);
    sp_text_put(&t, name[0], head);
    for (int i = 0; i < n; i++)
        sp_text_printf(&t, "%s%.*s", i ? "," : "{", (int)(strlen(name[i]) - head - tail), name[i] + head);
    sp_text_printf(&t, "}%s", name[0] + strlen(name[0]) - tail);
    return sp_text_keep(&t, g->arena);
}

/* ------------------------------------------------------------------ constants side by side */

/* Input `slot` of all parts, side by side along `axis`. */
static sparta_status joined(sp_match *m, const siblings *s, int slot, int axis, sp_value **out)
{
    const char **name = sp_arena_array(m->g->arena, PARTS, sizeof *name);
    sparta_tensor t = *s->part[0]->in[slot]->constant;
    int64_t at = 0;
    SP_NEED(m->g->cx, name);
    for (int i = 0; i < s->n; i++) {
        const sp_value *v = s->part[i]->in[slot];
        name[i] = v->origin ? v->origin : v->name;
        if (i && !sp_int_add(t.dim[axis], v->constant->dim[axis], &t.dim[axis]))
            return sp_fail(m->g->cx, SPARTA_E_LIMIT, "merge: too many outputs in '%.200s'", v->name);
    }
    SP_TRY(sp_tensor_alloc_in(m->g->arena, t.dtype, t.rank, t.dim, &t));
    for (int i = 0; i < s->n; i++) {
        const sparta_tensor *from = s->part[i]->in[slot]->constant;
        sparta_tensor to = t;
        to.data = (float *)t.data + at * t.stride[axis];
        to.dim[axis] = from->dim[axis];
        SP_TRY(sp_tensor_copy(m->g->cx, from, &to));
        at += from->dim[axis];
    }
    const char *origin = joined_name(m->g, s->n, name);
    SP_NEED(m->g->cx, origin);
    SP_TRY(sp_graph_add_constant(m->g, sp_graph_find(m->g, origin) ? NULL : origin, &t, false, out));
    (*out)->origin = origin;
    (*out)->part = name;
    (*out)->n_parts = s->n;
    return sp_match_room(m);
}

/* ------------------------------------------------------------------ merging */

static sparta_status join_names(sp_match *m, const siblings *s, char **out)
{
    const char *name[PARTS];
    for (int i = 0; i < s->n; i++) name[i] = s->part[i]->name;
    *out = joined_name(m->g, s->n, name);
    SP_NEED(m->g->cx, *out);
    return SPARTA_OK;
}

/* The parts keep their nodes, which now make values that nobody uses; Split makes the real ones. */
static sparta_status split_into(sp_match *m, const siblings *s, const char *name, sp_value *y)
{
    sp_value *out[PARTS];
    for (int i = 0; i < s->n; i++) {
        out[i] = s->part[i]->out[0];
        SP_TRY(sp_graph_add_value(m->g, NULL, &s->part[i]->out[0]));
        s->part[i]->out[0]->producer = s->part[i];
        out[i]->producer = NULL;
    }
    return sp_match_split(m, name, y, s->n, s->outputs, out);
}

static sparta_status merge(sp_match *m, const siblings *s)
{
    const sp_node *first = s->part[0];
    sp_value *in[] = {first->in[0], NULL, NULL}, *y;
    char *name;
    SP_TRY(joined(m, s, 1, transposed(first) ? 0 : 1, &in[1]));
    if (has_bias(first)) SP_TRY(joined(m, s, 2, 0, &in[2]));
    SP_TRY(join_names(m, s, &name));
    sp_attrs attrs = first->attrs;
    SP_TRY(sp_match_add(m, SP_OP_Linear, name, in[2] ? 3 : 2, in, &attrs, &y));
    return split_into(m, s, name, y);
}

typedef struct lists { /* Linears by their input */
    int *first, *next; /* by value id, by node index; index + 1, 0: none */
    bool *done;        /* by node index */
} lists;

static sparta_status merge_all(sp_match *m, lists *l, int n_nodes)
{
    sp_graph *g = m->g;
    int64_t outputs;
    for (int i = n_nodes - 1; i >= 0; i--) { /* backwards, so that lists run forwards */
        if (!is_candidate(g->node[i], &outputs)) continue;
        int id = g->node[i]->in[0]->id;
        l->next[i] = l->first[id];
        l->first[id] = i + 1;
    }
    for (int i = 0; i < n_nodes; i++) {
        siblings s = {0};
        if (l->done[i] || !is_candidate(g->node[i], &outputs)) continue;
        for (int k = i; k >= 0 && s.n < PARTS; k = l->next[k] - 1) {
            if (l->done[k] || !go_together(g->node[i], g->node[k])) continue;
            l->done[k] = true;
            is_candidate(g->node[k], &s.outputs[s.n]);
            s.part[s.n++] = g->node[k];
        }
        if (s.n > 1) SP_TRY(merge(m, &s));
    }
    return SPARTA_OK;
}

static sparta_status with_lists(sp_match *m, lists *l)
{
    size_t values = (size_t)m->g->n_values, nodes = (size_t)m->g->n_nodes;
    SP_TRY(sp_match_room(m));
    l->first = sp_alloc_array(m->g->cx, values, sizeof *l->first);
    SP_NEED(m->g->cx, l->first);
    l->next = sp_alloc_array(m->g->cx, nodes, sizeof *l->next);
    SP_NEED(m->g->cx, l->next);
    l->done = sp_alloc_array(m->g->cx, nodes, sizeof *l->done);
    SP_NEED(m->g->cx, l->done);
    SP_TRY(merge_all(m, l, m->g->n_nodes));
    SP_TRY(sp_graph_sweep(m->g));
    return sp_graph_sort(m->g);
}

sparta_status sp_pass_merge(sp_graph *g)
{
    sp_match m = {.g = g};
    lists l = {0};
    sparta_status status = with_lists(&m, &l);
    sp_free(g->cx, l.first);
    sp_free(g->cx, l.next);
    sp_free(g->cx, l.done);
    sp_free(g->cx, m.uses);
    sp_free(g->cx, m.alias);
    return status;
}
