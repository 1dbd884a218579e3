/* chain.c: following chains of reshapes and transposes, and writing them in their shortest form. */
#include "compile/chain.h"
#include <string.h>

enum { LONGEST = 8 }; /* nodes of a chain: a file may hold a chain of a million */

bool sp_chain_is_step(const sp_node *n)
{
    switch (n->op) {
    case SP_OP_Reshape:
    case SP_OP_Transpose:
    case SP_OP_Squeeze:
    case SP_OP_Unsqueeze:
    case SP_OP_Flatten: return n->in[0]->typed && n->out[0]->typed;
    default: return false;
    }
}

bool sp_chain_begin(sp_value *v, sp_chain *out)
{
    if (!v->typed) return false;
    *out = (sp_chain){.base = v, .dims = v->dims};
    for (int i = 0; i < v->dims.rank; i++) {
        if (sp_expr_is(v->dims.dim[i], 0)) return false;
        if (!sp_expr_is(v->dims.dim[i], 1)) {
            out->size[out->n] = v->dims.dim[i];
            out->order[out->n] = out->n;
            out->n++;
        }
        out->end[i] = out->n;
    }
    return true;
}

/* The atom at place `at` of the order becomes two: `outer`, then `inner`. */
static bool cut(sp_chain *v, int at, const sp_expr *outer, const sp_expr *inner)
{
    if (v->n == SP_CHAIN_ATOMS) return false;
    int atom = v->order[at];
    for (int i = 0; i < v->n; i++)
        if (v->order[i] > atom) v->order[i]++;
    memmove(v->size + atom + 1, v->size + atom, (size_t)(v->n - atom) * sizeof *v->size);
    memmove(v->order + at + 1, v->order + at, (size_t)(v->n - at) * sizeof *v->order);
    v->size[atom] = outer;
    v->size[atom + 1] = inner;
    v->order[at + 1] = atom + 1;
    v->n++;
    return true;
}

/* Take atoms from place *at on until they make `want`, cutting the last one where needed. */
static bool gather_dim(sp_match *m, sp_chain *v, const sp_expr *want, int *at)
{
    while (!sp_expr_is(want, 1)) {
        if (*at == v->n) return false;
        const sp_expr *size = v->size[v->order[*at]], *rest;
        if (sp_expr_equal(size, want)) {
            ++*at;
            return true;
        }
        if ((rest = sp_expr_divide_exact(m->g->arena, size, want))) {
            if (!cut(v, *at, want, rest)) return false;
        } else if ((rest = sp_expr_divide_exact(m->g->arena, want, size))) {
            want = rest;
            ++*at;
        } else
            return false;
    }
    return true;
}

bool sp_chain_reshape(sp_match *m, sp_chain *view, const sp_dims *dims)
{
    int at = 0;
    for (int i = 0; i < dims->rank; i++) {
        if (sp_expr_is(dims->dim[i], 0) || !gather_dim(m, view, dims->dim[i], &at)) return false;
        view->end[i] = at;
    }
    view->dims = *dims;
    return at == view->n;
}

static int begin_of(const sp_chain *v, int dim)
{
    return dim ? v->end[dim - 1] : 0;
}

static bool transpose(sp_chain *v, const sp_node *n)
{
    const sp_attr *perm = sp_attr_find(&n->attrs, "perm");
    sp_chain old = *v;
    int rank = v->dims.rank, at = 0;
    if (perm && perm->n != rank) return false;
    for (int i = 0; i < rank; i++) {
        int64_t from = perm ? perm->ints[i] : rank - 1 - i;
        if (from < 0 || from >= rank) return false;
        for (int k = begin_of(&old, (int)from); k < old.end[from]; k++) v->order[at++] = old.order[k];
        v->end[i] = at;
        v->dims.dim[i] = old.dims.dim[from];
    }
    return at == v->n;
}

bool sp_chain_step(sp_match *m, sp_chain *view, const sp_node *n)
{
    view->steps++;
    return n->op == SP_OP_Transpose ? transpose(view, n) : sp_chain_reshape(m, view, &n->out[0]->dims);
}

bool sp_chain_of(sp_match *m, sp_value *v, sp_chain *out)
{
    sp_node *step[LONGEST];
    int n = 0;
    while (n < LONGEST && v->producer && sp_chain_is_step(v->producer)) {
        step[n++] = v->producer;
        v = v->producer->in[0];
    }
    if (!sp_chain_begin(v, out)) return false;
    while (n > 0) {
        sp_chain longer = *out;
        const sp_node *next = step[--n];
        bool followed = sp_chain_step(m, &longer, next);
        /* (4,6) as (3,8) cuts through atoms: what comes before is the base of what follows */
        if (!followed && out->steps > 0)
            followed = sp_chain_begin(next->in[0], &longer) && sp_chain_step(m, &longer, next);
        if (!followed && !sp_chain_begin(next->out[0], &longer)) return false;
        *out = longer;
    }
    return true;
}

bool sp_chain_is_base(const sp_chain *view)
{
    for (int i = 0; i < view->n; i++)
        if (view->order[i] != i) return false;
    return sp_dims_equal(&view->dims, &view->base->dims);
}

/* ------------------------------------------------------------------ the shortest chain */

typedef struct plan {
    sp_dims cut, moved; /* dims before and after the Transpose */
    int64_t perm[SPARTA_RANK];
    bool reshape_first, transpose, reshape_last;
} plan;

/* by atom: the dim of the base it lies in */
static bool base_dims(sp_match *m, const sp_chain *v, int *dim_of)
{
    sp_chain whole = {.n = v->n};
    for (int i = 0; i < v->n; i++) {
        whole.size[i] = v->size[i];
        whole.order[i] = i;
    }
    if (!sp_chain_reshape(m, &whole, &v->base->dims) || whole.n != v->n) return false;
    for (int d = 0; d < v->base->dims.rank; d++)
        for (int i = begin_of(&whole, d); i < whole.end[d]; i++) dim_of[i] = d;
    return true;
}

/* Which atoms begin a run: atoms of one run stay together in the base's dims and in the view's. */
static void mark_runs(const sp_chain *v, const int *dim_of, bool *begins)
{
    for (int d = 0; d < v->dims.rank; d++)
        for (int i = begin_of(v, d); i < v->end[d]; i++) {
            int atom = v->order[i];
            begins[atom] =
                i == begin_of(v, d) || v->order[i - 1] != atom - 1 || dim_of[atom] != dim_of[atom - 1];
        }
}

static bool make_plan(sp_match *m, const sp_chain *v, plan *p)
{
    int dim_of[SP_CHAIN_ATOMS], run_of[SP_CHAIN_ATOMS], runs = 0, at = 0;
    bool begins[SP_CHAIN_ATOMS], sorted = true;
    if (!base_dims(m, v, dim_of)) return false;
    mark_runs(v, dim_of, begins);
    *p = (plan){0};
    for (int i = 0; i < v->n; i++) {
        if (begins[i] && runs == SPARTA_RANK) return false;
        if (begins[i])
            p->cut.dim[runs++] = v->size[i];
        else
            p->cut.dim[runs - 1] = sp_expr_mul(m->g->arena, p->cut.dim[runs - 1], v->size[i]);
        if (!p->cut.dim[runs - 1]) return false;
        run_of[i] = runs - 1;
    }
    p->cut.rank = p->moved.rank = runs;
    for (int i = 0; i < v->n; i++) {
        if (!begins[v->order[i]]) continue;
        p->moved.dim[at] = p->cut.dim[run_of[v->order[i]]];
        p->perm[at] = run_of[v->order[i]];
        sorted &= p->perm[at] == at;
        at++;
    }
    p->transpose = !sorted;
    p->reshape_first = !sorted && !sp_dims_equal(&p->cut, &v->base->dims);
    p->reshape_last = !sp_dims_equal(sorted ? &v->base->dims : &p->moved, &v->dims);
    return true;
}

static sparta_status finish(sp_match *m, const plan *p, const sp_chain *view, sp_node *n, sp_value *x,
                            bool *done)
{
    sp_attrs *perm = SP_ATTRS(SP_INTS("perm", p->moved.rank, p->perm));
    if (p->transpose && p->reshape_last) SP_TRY(sp_match_add(m, SP_OP_Transpose, n->name, 1, &x, perm, &x));
    if (p->reshape_last) {
        sp_value *in[] = {x, NULL};
        SP_TRY(sp_match_reshape_target(m, x, &view->dims, &in[1]));
        *done = in[1] != NULL;
        return *done ? sp_match_become(m, n, SP_OP_Reshape, 2, in, NULL) : SPARTA_OK;
    }
    *done = true;
    return p->transpose ? sp_match_become(m, n, SP_OP_Transpose, 1, &x, perm) : sp_match_alias(m, n, x);
}

sparta_status sp_chain_write(sp_match *m, const sp_chain *view, sp_node *n, bool *shorter)
{
    plan p;
    *shorter = false;
    if (!make_plan(m, view, &p) || p.reshape_first + p.transpose + p.reshape_last >= view->steps)
        return SPARTA_OK;
    sp_value *x = view->base;
    if (p.reshape_first) SP_TRY(sp_match_reshaped(m, n->name, &p.cut, &x));
    return x ? finish(m, &p, view, n, x, shorter) : SPARTA_OK;
}
