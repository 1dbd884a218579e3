/* The nodes that one generated kernel runs.
 *
 *     t = Pow(x, 2)            {chain=3}
 *     m = ReduceMean(t)        {chain=3}
 *     y = Add(m, 1e-6)         {chain=3, kernel="nest", nest="i | k*; x0: ...", operands=[0,0,2,2], code=7}
 *
 * All nodes of a chain have its number, the last of them has the kernel; a node by itself needs no number. `operands` are those of the nest, inputs
 * first, two numbers each: which node of the chain, and which of its inputs and then outputs. What is not among them is never stored, so
 * nobody outside may read it, and what is stored is there when the last node has run. All of that comes from a package and is checked here;
 * that no access leaves its operand is checked when sizes are known (panel/nest.c).
 *
 * Where there is no code for the kernel nothing of this counts, and each node runs on its reference. */
#include "kernel/kernel.h"
#include "run/session.h"
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 64 };

typedef struct chain {
    sparta_session *s;
    const sp_node *last;
    int n, at; /* nodes; place of the last in the plan */
    const sp_node *member[MEMBERS];
    int n_in, n_out;
    sp_value *value[SP_NEST_OPERANDS];
} chain;

static sparta_status wrong(const chain *c, const char *what)
{
    return sp_fail(c->s->cx, SPARTA_E_FORMAT, "package: '%s': %s", c->last->name, what);
}

static bool is_member(const chain *c, const sp_node *n)
{
    for (int i = 0; i < c->n; i++)
        if (c->member[i] == n) return true;
    return false;
}

static bool is_operand(const chain *c, int from, int to, const sp_value *v)
{
    for (int i = from; i < to; i++)
        if (c->value[i] == v) return true;
    return false;
}

static int by_number(const void *a, const void *b)
{
    const run_chained *x = a, *y = b;
    return x->chain != y->chain ? (x->chain > y->chain) - (x->chain < y->chain) : x->at - y->at;
}

/* All nodes that have a number, sorted by it, and who reads what: once for all chains. */
static sparta_status index_chains(sparta_session *s)
{
    const sp_graph *g = s->plan;
    if (s->chained) return SPARTA_OK;
    run_chained *all = sp_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *all);
    SP_NEED(s->cx, all);
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_attr *a = sp_attr_find(&g->node[i]->attrs, "chain");
        if (a) all[s->n_chained++] = (run_chained){a->i, i};
    }
    qsort(all, (size_t)s->n_chained, sizeof *all, by_number);
    SP_TRY(sp_graph_users(g, s->arena, &s->users));
    s->chained = all;
    return SPARTA_OK;
}

static sparta_status find_members(chain *c)
{
    const sparta_session *s = c->s;
    const sp_attr *mine = sp_attr_find(&c->last->attrs, "chain");
    int low = 0, high = mine ? s->n_chained : 0;
    while (low < high) { /* the first with this number */
        const int middle = low + (high - low) / 2;
        if (s->chained[middle].chain < mine->i)
            low = middle + 1;
        else
            high = middle;
    }
    for (int i = low; mine && i < s->n_chained && s->chained[i].chain == mine->i; i++) {
        const sp_node *n = s->plan->node[s->chained[i].at];
        if (s->chained[i].at >= c->at) break;
        if (sp_attr_find(&n->attrs, "kernel")) return wrong(c, "two nodes of its chain have a kernel");
        if (c->n == MEMBERS - 1) return wrong(c, "its chain is too long");
        c->member[c->n++] = n;
    }
    c->member[c->n++] = c->last;
    return SPARTA_OK;
}

static sparta_status find_operands(chain *c)
{
    const sp_attr *a = sp_attr_find(&c->last->attrs, "operands");
    if (!a || a->n < 4 || a->n % 2 || a->n / 2 > SP_NEST_OPERANDS)
        return wrong(c, "its kernel is generated and its operands are not told, or too many");
    for (int i = 0; i < a->n / 2; i++) {
        const int64_t node = a->ints[2 * i], slot = a->ints[2 * i + 1];
        if (node < 0 || node >= c->n || slot < 0 || slot >= sp_node_slots(c->member[node]))
            return wrong(c, "an operand of its kernel is not there");
        sp_value *v = sp_node_slot(c->member[node], (int)slot);
        const bool out = slot >= c->member[node]->n_in;
        if (!v) return wrong(c, "an operand of its kernel is absent");
        if (!out && c->n_out) return wrong(c, "operands of its kernel that are read come first");
        if (!out && v->producer && is_member(c, v->producer))
            return wrong(c, "its kernel reads what it makes itself");
        if (out && is_operand(c, c->n_in, i, v)) return wrong(c, "its kernel makes a value twice");
        if (out && c->s->value[v->id].parent >= 0) return wrong(c, "its kernel makes rows of another value");
        c->value[i] = v;
        *(out ? &c->n_out : &c->n_in) += 1;
    }
    return c->n_in && c->n_out ? SPARTA_OK : wrong(c, "its kernel reads or makes nothing");
}

/* Who reads what the chain makes: inside it anything, behind it what is stored. */
static sparta_status check_value(const chain *c, const sp_value *v)
{
    const sparta_session *s = c->s;
    const bool stored = is_operand(c, c->n_in, c->n_in + c->n_out, v);
    if (v->is_output && !stored) return wrong(c, "its chain does not store an output of the model");
    for (int i = s->users.first[v->id]; i < s->users.first[v->id + 1]; i++)
        if (!is_member(c, s->plan->node[s->users.user[i]]) && (s->users.user[i] < c->at || !stored))
            return wrong(c, "a value that its chain does not store is read by another node");
    return SPARTA_OK;
}

static sparta_status check_readers(const chain *c)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->member[i]->n_out; k++)
            if (c->member[i]->out[k]) SP_TRY(check_value(c, c->member[i]->out[k]));
    return SPARTA_OK;
}

/* "Pow+ReduceMean+Add", or of a longer one "Pow+ReduceMean+4", for profiles. */
static const char *names_of(const chain *c)
{
    enum { NAMES = 3 };
    const char *all = sp_builtin_row(c->member[0]->op)->name;
    for (int i = 1; i < (c->n > NAMES ? NAMES - 1 : c->n) && all; i++)
        all = sp_arena_printf(c->s->arena, "%s+%s", all, sp_builtin_row(c->member[i]->op)->name);
    return all && c->n > NAMES ? sp_arena_printf(c->s->arena, "%s+%d", all, c->n - NAMES + 1) : all;
}

sparta_status sp_session_chain(sparta_session *s, run_step *step, int at)
{
    chain c = {.s = s, .last = step->node, .at = at};
    SP_TRY(index_chains(s));
    SP_TRY(find_members(&c));
    SP_TRY(find_operands(&c));
    SP_TRY(check_readers(&c));
    sp_value **all = sp_arena_array(s->arena, SP_NEST_OPERANDS, sizeof *all);
    step->op = names_of(&c);
    if (!all || !step->op) return sp_ctx_status(s->cx);
    memcpy(all, c.value, sizeof c.value);
    step->reads = all;
    step->n_reads = c.n_in;
    step->writes = all + c.n_in;
    SP_TRY(sp_call_operands(s->cx, s->arena, c.n_in, c.n_out, &step->call));
    step->call.job.text = sp_attr_string(&step->node->attrs, "nest", "");
    for (int i = 0; i < c.n - 1; i++) {
        const int made = c.member[i]->n_out ? s->value[c.member[i]->out[0]->id].producer : -1;
        if (made < 0) continue; /* a view */
        s->step[made].folded = true;
        s->step[made].implement = step->implement; /* which is where its time is counted */
    }
    return SPARTA_OK;
}
