/* fuse: neighbours that run as one generated kernel. What lies between them is never stored.
 *
 *     Pow(x, 2)   ReduceMean   Add(., eps)   Sqrt   Div(x, .)   Mul(., gain)         six nodes, each a nest that reads and writes memory
 *                                        |
 *     i | k*; x0: f32[i,k]; x1: f32[k]; y0: f32[i,k]; t0 = mul(x0,x0); t1 = mean(t0); ...; y0 = mul(t5,x1)         one that reads x and writes y
 *
 * Where values lie is settled, so joining is a pure gain and needs no search: from the first node to the last, each joins the chains that make what it reads,
 * if room emit can put the two nests together (emit/join.c). A chain runs in the place of its last node; so what it stores may only be read behind that.
 * On panels, sums and activations that have a kernel of their own (map) join as well; nodes that only move elements join and stay with their
 * references where nobody computes. The nodes stay in the plan, marked with the number of their chain: without code each runs on its reference.
 */
#include "compile/lower.h"
#include <string.h>

typedef struct chain {
    sp_nest nest;
    const void *value[SP_NEST_OPERANDS]; /* what its operands are */
    int members, last;                   /* nodes; the one that it runs at */
    bool computes;                       /* some of them have a kernel: not all only move */
} chain;

typedef struct fusing {
    lowering *l;
    chain **of;     /* of each node, by its place; NULL: it is in none */
    int *before;    /* the member before it in its chain; -1: none */
    sp_users users; /* of each value: its maker first, as nodes are in order */
    int64_t chains; /* numbers that were given */
} fusing;

enum { MEMBERS = 64 }; /* as many as a session takes (run/chain.c) */

/* Is a value of the first chain read by others than the two? *may: not before `last`, where it is stored then. */
static bool read_outside(const fusing *f, const sp_value *v, const chain *a, const chain *b, int last,
                         bool *may)
{
    bool kept = v->is_output;
    for (int i = f->users.first[v->id]; i < f->users.first[v->id + 1] && *may; i++) {
        const int user = f->users.user[i];
        if (f->of[user] == a || f->of[user] == b) continue;
        kept = true;
        *may = user > last;
    }
    return kept;
}

/* ------------------------------------------------------------------ chains */

/* The node by itself as a chain; NULL: it is not generated and joins none. */
static sparta_status begin(fusing *f, int at)
{
    lower_node *ln = &f->l->node[at];
    const bool lanes = sp_layout_has_lanes(ln->layout), mine = sp_implement_generates(ln->im);
    const bool moves = !ln->im->kernel && !lanes && sp_implement_only_moves(ln->node->op);
    int slot[SP_NEST_OPERANDS];
    bool can = false;
    if (!mine && !moves && ln->im != &sp_implement_map) return SPARTA_OK;
    if (ln->node->n_out != 1 || !ln->node->out[0]->typed) return SPARTA_OK;
    if (!mine && f->l->target[SP_DEVICE_CPU] == SP_TARGET_PORTABLE) return SPARTA_OK;
    chain *c = sp_zalloc(f->l->cx, sizeof *c);
    SP_NEED(f->l->cx, c);
    const sparta_status s = sp_emit_node(f->l->cx, ln->node, lanes, &c->nest, slot, &can);
    if (s != SPARTA_OK || !can) {
        sp_free(f->l->cx, c);
        return s;
    }
    f->of[at] = c;
    f->before[at] = -1;
    for (int k = 0; k < c->nest.operands; k++) c->value[k] = sp_node_slot(ln->node, slot[k]);
    c->members = 1;
    c->last = at;
    c->computes = ln->im->kernel != NULL;
    return SPARTA_OK;
}

/* Do what chain `a` makes and chain `b` reads in one kernel. */
static sparta_status join(fusing *f, chain *a, chain *b, bool *done)
{
    lowering *l = f->l;
    bool keep[SP_NEST_OPERANDS] = {false}, may = true;
    *done = false;
    if (sp_nest_lanes(&a->nest) != sp_nest_lanes(&b->nest) || a->members + b->members > MEMBERS)
        return SPARTA_OK;
    for (int k = 0; k < a->nest.operands; k++)
        keep[k] = a->nest.operand[k].out && read_outside(f, a->value[k], a, b, b->last, &may);
    if (!may) return SPARTA_OK;
    chain *both = sp_zalloc(l->cx, sizeof *both);
    SP_NEED(l->cx, both);
    const sparta_status s =
        sp_emit_join(l->cx, &a->nest, a->value, keep, &b->nest, b->value, &both->nest, both->value, done);
    if (s != SPARTA_OK || !*done) {
        sp_free(l->cx, both);
        return s;
    }
    both->members = a->members + b->members;
    both->last = b->last;
    both->computes = a->computes || b->computes;
    int end = -1;
    for (int i = b->last; i >= 0; end = i, i = f->before[i]) f->of[i] = both;
    for (int i = a->last; i >= 0; i = f->before[i]) f->of[i] = both;
    f->before[end] = a->last;
    sp_free(l->cx, a);
    sp_free(l->cx, b);
    return SPARTA_OK;
}

/* Node `at` takes in the chains that make what it reads, the longest first: those near it in the plan. */
static sparta_status extend(fusing *f, int at)
{
    bool again = f->of[at] != NULL;
    while (again) {
        chain *c = f->of[at];
        again = false;
        for (int k = sp_nest_inputs(&c->nest); k-- > 0 && !again;) {
            const sp_value *v = c->value[k];
            const int maker = v->producer ? f->users.user[f->users.first[v->id]] : -1;
            if (maker < 0 || !f->of[maker] || f->of[maker] == c) continue;
            SP_TRY(join(f, f->of[maker], c, &again));
        }
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ into the plan */

/* Where a value is read or made in the chain: its member, in the order of the plan, and the slot of that. */
static void find_slot(const fusing *f, const int *member, int n, const sp_value *v, bool out, int64_t *to)
{
    for (int m = 0; m < n; m++) {
        const sp_node *node = f->l->node[member[m]].node;
        for (int k = out ? node->n_in : 0; k < (out ? sp_node_slots(node) : node->n_in); k++)
            if (sp_node_slot(node, k) == v) {
                to[0] = m;
                to[1] = k;
                return;
            }
    }
}

/* Members in the order of the plan. */
static int members_of(const fusing *f, const chain *c, int *member)
{
    int n = c->members;
    for (int i = c->last; i >= 0; i = f->before[i]) {
        int at = c->members - n--;
        for (; at > 0 && member[at - 1] > i; at--) member[at] = member[at - 1];
        member[at] = i;
    }
    return c->members;
}

static sparta_status write(fusing *f, const chain *c)
{
    lowering *l = f->l;
    lower_node *last = &l->node[c->last];
    int member[MEMBERS];
    const int n = members_of(f, c, member);
    int64_t *operands = sp_arena_array(l->g->arena, 2 * (size_t)c->nest.operands, sizeof *operands);
    sp_text text;
    SP_NEED(l->cx, operands);
    for (int i = 0; i < c->nest.operands; i++)
        find_slot(f, member, n, c->value[i], c->nest.operand[i].out, operands + 2 * i);
    sp_text_init(&text, l->cx);
    sp_nest_print(&c->nest, &text);
    sparta_status s = text.status;
    last->nest = s == SPARTA_OK ? sp_arena_string(l->g->arena, sp_text_str(&text)) : NULL;
    sp_text_free(&text);
    SP_NEED(l->cx, last->nest);
    last->operands = operands;
    last->n_operands = 2 * c->nest.operands;
    last->im = sp_nest_lanes(&c->nest) ? &sp_implement_generated_lanes : &sp_implement_generated;
    if (n > 1) f->chains++;
    for (int i = 0; i < n && n > 1; i++) l->node[member[i]].chain = f->chains;
    return sp_lower_kernel(l, last->im->kernel, last->nest, &last->kernel);
}

sparta_status sp_lower_fuse(lowering *l)
{
    fusing f = {.l = l,
                .of = sp_arena_array(l->arena, (size_t)l->n_nodes + 1, sizeof *f.of),
                .before = sp_arena_array(l->arena, (size_t)l->n_nodes + 1, sizeof *f.before)};
    if (!f.of || !f.before) return sp_ctx_status(l->cx);
    SP_TRY(sp_graph_users(l->g, l->arena, &f.users));
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < l->n_nodes && s == SPARTA_OK; i++) {
        s = begin(&f, i);
        if (s == SPARTA_OK) s = extend(&f, i);
    }
    for (int i = 0; i < l->n_nodes; i++) {
        chain *c = f.of[i];
        if (!c || c->last != i) continue;
        const bool worth = c->computes && (c->members > 1 || sp_implement_generates(l->node[i].im));
        if (s == SPARTA_OK) s = sp_check_cancel(l->cx);
        if (s == SPARTA_OK && worth) s = write(&f, c);
        sp_free(l->cx, c);
    }
    return s;
}
