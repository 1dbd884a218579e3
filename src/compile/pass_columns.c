/* columns: parts of the columns of a Linear that go different ways become Linears of their own.
 *
 *     y = Linear(x) (B,S,h*W) --> heads (B,h,S,W) --> Slice or Split of W       query, key and value of each head side by side (GPT-NeoX)
 *     y = Linear(x) (B,S,2*I) --> Slice or Split in two, one of them activated  a gate and what it lets through (ModernBERT)
 *
 * Each part is Linear(x) with the columns that it has. Those of heads are then heads side by side, which attention takes as they are and
 * merge puts back into one product; a gate takes its activation and its factor into its epilogue. Only where every user of y is such a
 * part: nothing is computed twice.
 */
#include "builtin/epilogue.h"
#include "compile/chain.h"
#include "compile/passes.h"
#include "ops/ops.h"

enum { PARTS = SP_MATCH_READERS, ALIGNED = 4 }; /* blocks of 4 outputs stay whole */

typedef struct wide {
    const sp_node *linear;
    int64_t heads, width; /* columns of a head */
    bool first;           /* heads lie before rows */
} wide;

/* ------------------------------------------------------------------ the Linear */

static bool is_plain(const sp_node *n)
{
    return n && n->n_in <= 3 && n->in[1]->constant && sp_match_f32(n->in[1]) &&
           (n->n_in < 3 || !n->in[2] || n->in[2]->constant);
}

/* From v up to a Linear's result, through values that nobody else wants; v itself may have several users. */
static bool find_wide(sp_match *m, sp_value *v, wide *w)
{
    sp_chain c;
    if (!v->typed || v->is_output || !sp_chain_of(m, v, &c) || c.base->dims.rank != 3) return false;
    const sp_dims *x = &c.base->dims;
    int64_t all;
    *w = (wide){.linear = sp_match_made_by(c.base, SP_OP_Linear), .heads = 1};
    if (!is_plain(w->linear) || !sp_expr_is_const(x->dim[2], &all)) return false;
    w->width = all;
    if (c.steps == 0) return true;
    for (sp_value *u = v; u != c.base;) {
        u = u->producer->in[0];
        if (!sp_match_once(m, u)) return false;
    }
    if (v->dims.rank != 4) return false;
    const int h =
        sp_expr_equal(v->dims.dim[1], x->dim[1]) && !sp_expr_equal(v->dims.dim[2], x->dim[1]) ? 2 : 1;
    if (!sp_expr_equal(v->dims.dim[0], x->dim[0]) || !sp_expr_equal(v->dims.dim[3 - h], x->dim[1]))
        return false;
    if (!sp_expr_is_const(v->dims.dim[h], &w->heads) || w->heads < 2 || all % w->heads) return false;
    w->width = all / w->heads;
    w->first = h == 1;
    const int moved[] = {0, w->first ? 2 : 1, w->first ? 1 : 2, 3};
    const bool there[] = {!sp_expr_is(x->dim[0], 1), !sp_expr_is(x->dim[1], 1), true, w->width > 1};
    int at[4], n = 0, place = 0;
    for (int i = 0; i < 4; i++) at[i] = there[i] ? n++ : -1;
    if (n != c.n || !sp_expr_is(v->dims.dim[3], w->width)) return false;
    for (int i = 0; i < 4; i++)
        if (at[moved[i]] >= 0 && c.order[place++] != at[moved[i]]) return false;
    return true;
}

/* ------------------------------------------------------------------ its users */

static bool is_activated(const sp_match *m, const sp_value *v, int64_t *effort)
{
    const sp_readers u = sp_match_readers(m, v, effort);
    const int word = u.n == 1 ? sp_word_of(u.node[0]->op, &u.node[0]->attrs) : -1;
    return word >= 0 && !sp_word_row((sp_word_id)word)->slot;
}

typedef struct part {
    sp_node *node; /* the Slice; NULL: still one of a Split */
    sp_value *value;
    int64_t from, to;
} part;

/* What is taken of v, by `n` and those like it; how many parts, -1: v goes elsewhere too. */
static int find_parts(const sp_match *m, const sp_node *n, const sp_value *v, int64_t *effort, part *p)
{
    const sp_readers u = sp_match_readers(m, v, effort);
    int64_t size, at = 0;
    if (n->op == SP_OP_Split) {
        if (u.n != 1 || n->n_out > PARTS) return -1;
        for (int i = 0; i < n->n_out; i++, at += size) {
            if (!sp_expr_is_const(n->out[i]->dims.dim[v->dims.rank - 1], &size) || size > INT32_MAX)
                return -1;
            p[i] = (part){NULL, n->out[i], at, at + size};
        }
        return n->n_out;
    }
    for (int i = 0; i < u.n; i++) {
        p[i].node = u.node[i];
        p[i].value = u.node[i]->out[0];
        if (sp_match_slice_of(p[i].value, &p[i].from, &p[i].to) != v) return -1;
    }
    return u.n;
}

/* No column twice, no block cut; of columns that are no heads two halves, one of them activated. */
static bool are_apart(const sp_match *m, int n, const part *p, const wide *w, int64_t *effort)
{
    int64_t sum = 0;
    bool activated = false;
    for (int i = 0; i < n; i++) {
        if (p[i].from < 0 || p[i].from >= p[i].to || p[i].from % ALIGNED || p[i].to % ALIGNED) return false;
        sum += p[i].to - p[i].from;
        if (w->heads > 1) continue;
        if ((p[i].to - p[i].from) * 2 != w->width) return false;
        activated |= is_activated(m, p[i].value, effort);
    }
    if (n < 2 || sum > w->width || w->width % ALIGNED) return false;
    return w->heads > 1 || activated;
}

/* ------------------------------------------------------------------ one part */

/* `count` of the columns of each head from `from` on, of a constant along `axis`. */
static sparta_status chosen(sp_match *m, const sp_value *v, const wide *w, int axis, int64_t from,
                            int64_t count, sp_value **out)
{
    const sparta_tensor *x = v->constant;
    int64_t dim[2] = {x->dim[0], x->rank > 1 ? x->dim[1] : 1};
    sparta_tensor t;
    dim[axis] = w->heads * count;
    SP_TRY(sp_tensor_alloc_in(m->g->arena, SPARTA_F32, x->rank, dim, &t));
    for (int64_t i = 0; i < dim[0]; i++)
        for (int64_t j = 0; j < dim[1]; j++) {
            const int64_t at = axis ? j : i, column = at / count * w->width + from + at % count,
                          row = axis ? i : j;
            const int64_t other = x->rank > 1 ? row * x->stride[!axis] : 0;
            ((float *)t.data)[i * dim[1] + j] = ((const float *)x->data)[column * x->stride[axis] + other];
        }
    SP_TRY(sp_graph_add_constant(m->g, NULL, &t, false, out));
    SP_TRY(sp_match_room(m));
    (*out)->origin = v->origin ? v->origin : v->name;
    return SPARTA_OK;
}

/* n, columns [from, to) of each head, becomes a Linear of its own. */
static sparta_status take_part(sp_match *m, sp_node *n, const wide *w, int64_t from, int64_t to)
{
    static const int64_t swap[] = {0, 2, 1, 3};
    const sp_node *l = w->linear;
    const bool turned = sp_attr_int(&l->attrs, "transposed", 0) != 0;
    sp_value *in[] = {l->in[0], NULL, NULL}, *y;
    const int n_in = l->n_in > 2 && l->in[2] ? 3 : 2;
    sp_attrs attrs = l->attrs;
    SP_TRY(chosen(m, l->in[1], w, turned ? 0 : 1, from, to - from, &in[1]));
    if (n_in > 2) SP_TRY(chosen(m, l->in[2], w, 0, from, to - from, &in[2]));
    if (w->heads == 1) {
        SP_TRY(sp_match_rename(m, n, l->name));
        return sp_match_become(m, n, SP_OP_Linear, n_in, in, &attrs);
    }
    SP_TRY(sp_match_add(m, SP_OP_Linear, l->name, n_in, in, &attrs, &y));
    sp_value *split[] = {y, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, w->heads, to - from}, &split[1]));
    if (!w->first) return sp_match_become(m, n, SP_OP_Reshape, 2, split, NULL);
    SP_TRY(sp_match_add(m, SP_OP_Reshape, n->name, 2, split, NULL, &y));
    return sp_match_become(m, n, SP_OP_Transpose, 1, &y, SP_ATTRS(SP_INTS("perm", 4, swap)));
}

/* Output i of a Split as a Slice by itself, which makes the value from now on. */
static sparta_status cut(sp_match *m, sp_node *split, int i, part *p)
{
    sp_value *v = split->in[0], *in[4] = {v};
    const int64_t bound[] = {p->from, p->to, v->dims.rank - 1};
    for (int k = 0; k < 3; k++) SP_TRY(sp_match_constant_ints(m, 1, &bound[k], &in[1 + k]));
    SP_TRY(sp_graph_add_value(m->g, NULL, &split->out[i]));
    split->out[i]->producer = split;
    p->value->producer = NULL;
    SP_TRY(sp_graph_add_node(m->g, SP_OP_Slice, split->name, 4, in, 1, &p->value, NULL, &p->node));
    SP_TRY(sp_match_room(m));
    for (int k = 0; k < 4; k++) sp_match_use(m, in[k]);
    m->added = true;
    return sp_ops_infer_node(m->g, p->node);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    wide w;
    part p[PARTS];
    int64_t from, to, *effort = m->state;
    const bool split = n->op == SP_OP_Split;
    sp_value *v = split ? n->in[0] : sp_match_slice_of(n->out[0], &from, &to);
    if (!v || !v->typed || v->dims.rank < 3 || !sp_match_f32(v) || !find_wide(m, v, &w)) return SPARTA_OK;
    if (split && sp_match_axis(n, 0, v->dims.rank) != v->dims.rank - 1) return SPARTA_OK;
    const int parts = find_parts(m, n, v, effort, p);
    if (!are_apart(m, parts, p, &w, effort)) return SPARTA_OK;
    for (int i = 0; split && i < parts; i++) SP_TRY(cut(m, n, i, &p[i]));
    for (int i = 0; split && i < n->n_in; i++) sp_match_release(m, n->in[i]);
    for (int i = 0; i < parts; i++) SP_TRY(take_part(m, p[i].node, &w, p[i].from, p[i].to));
    return SPARTA_OK;
}

sparta_status sp_pass_columns(sp_graph *g)
{
    int64_t effort = (int64_t)1 << 28;
    return sp_match_run(g, visit, &effort);
}
