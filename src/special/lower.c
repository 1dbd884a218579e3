/* Expression to nests: terms, parts of sums, loops in the order of levels.
 *
 * What is known with some loops bound is found by going round until nothing new follows: an index from its parts, one end of a
 * diagonal from the other, the position of a dense level from its coordinate. The same says which orders of loops there are. */
#include "special/inside.h"
#include "special/known.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ what is known */
int sp_special_loop_of(const sp_special_nest *n, int use, int level)
{
    for (int l = 0; l < n->loops; l++)
        if ((n->loop[l].over == SP_OVER_SEGMENT || n->loop[l].over == SP_OVER_MERGE) &&
            n->loop[l].use == use && n->loop[l].level == level)
            return l;
    return -1;
}

int sp_special_digit_parts(const sp_special_nest *n, sp_special_digit d, const bool *bound,
                           int out[SP_SPECIAL_LOOPS])
{
    int parts = 0;
    int64_t weight = d.weight;
    if (d.modulus == d.weight) { /* i%1 */
        for (int l = 0; l < n->loops; l++)
            if (bound[l] && sp_special_binds(&n->loop[l]) && sp_special_same(n->loop[l].digit, d))
                return out[0] = l, 1;
        return 0;
    }
    for (int step = 0; step < n->loops; step++) {
        int l = 0;
        while (l < n->loops &&
               !(bound[l] && sp_special_binds(&n->loop[l]) && n->loop[l].digit.index == d.index &&
                 n->loop[l].digit.weight == weight && n->loop[l].digit.modulus != weight))
            l++;
        if (l == n->loops) return 0;
        out[parts++] = l;
        weight = n->loop[l].digit.modulus;
        if (weight == d.modulus) return parts;
        if (!weight) return 0;
    }
    return 0;
}

bool sp_special_diagonal(const sp_special *s, const sp_special_use *u, int level, int *dim, int *other)
{
    const sp_level *l = u->format ? &u->format->level[level] : NULL;
    if (!l || (l->map != SP_MAP_SUB && l->map != SP_MAP_ADD)) return false;
    *dim = sp_special_plain(&s->access[u->access].axis[l->dim]);
    *other = sp_special_plain(&s->access[u->access].axis[l->other]);
    return true;
}

/* Do the parts that loops bind make up the index? Those over i%1 add nothing to it, but it is written down when all of its loops are open. */
static bool covered(const sp_special_nest *n, int index, const bool *bound)
{
    int parts[SP_SPECIAL_LOOPS];
    for (int l = 0; l < n->loops; l++) {
        const sp_special_digit d = n->loop[l].digit;
        if (!bound[l] && sp_special_binds(&n->loop[l]) && d.index == index && d.modulus == d.weight)
            return false;
    }
    return sp_special_digit_parts(n, (sp_special_digit){index, 0, 1}, bound, parts) > 0;
}

/* Is the coordinate of a level known? */
static bool coordinate(const sp_special *s, const sp_special_nest *n, const sp_special_use *u, int level,
                       const bool *bound, const sp_special_known *k)
{
    int dim, other;
    if (!u->format) {
        const sp_nest_axis *x = &s->access[u->access].axis[level];
        for (int t = 0; t < x->n; t++)
            if (!k->index[x->term[t].loop]) return false;
        return true;
    }
    if (sp_special_diagonal(s, u, level, &dim, &other)) return k->index[dim] && k->index[other];
    const sp_special_digit d = sp_special_level_digit(s, u, level);
    int parts[SP_SPECIAL_LOOPS];
    return k->index[d.index] || sp_special_digit_parts(n, d, bound, parts) > 0;
}

static bool derive(const sp_special *s, const sp_special_nest *n, int use, const bool *bound,
                   sp_special_known *k)
{
    const sp_special_use *u = &n->use[use];
    for (int l = 0; u->format && u->needed && l < u->format->n; l++) {
        int dim, other;
        if (!sp_special_diagonal(s, u, l, &dim, &other)) continue;
        const int loop = sp_special_loop_of(n, use, l);
        if (loop < 0 || !bound[loop] || k->index[dim] == k->index[other]) return false;
        k->index[dim] = k->index[other] = true;
        return true;
    }
    return false;
}

void sp_special_known_with(const sp_special *s, const sp_special_nest *n, const bool *bound,
                           sp_special_known *k)
{
    bool more = true;
    memset(k, 0, sizeof *k);
    while (more) {
        more = false;
        for (int i = 0; i < s->indices; i++)
            if (!k->index[i] && covered(n, i, bound)) k->index[i] = more = true;
        for (int u = 0; u < n->uses; u++) {
            more |= derive(s, n, u, bound, k);
            const int l = k->levels[u];
            if (l == sp_special_levels(s, &n->use[u])) continue;
            const int loop = sp_special_loop_of(n, u, l);
            if (loop >= 0
                    ? bound[loop]
                    : sp_special_level_dense(&n->use[u], l) && coordinate(s, n, &n->use[u], l, bound, k)) {
                k->levels[u]++;
                more = true;
            }
        }
    }
}

bool sp_special_opens(const sp_special *s, const sp_special_nest *n, int loop, const bool *bound)
{
    const sp_special_loop *l = &n->loop[loop];
    sp_special_known k;
    if (l->over == SP_OVER_COUNT || (l->over == SP_OVER_PIECES && l->fused)) return true;
    sp_special_known_with(s, n, bound, &k);
    return k.levels[l->use] == l->level &&
           (l->over != SP_OVER_MERGE || coordinate(s, n, &n->use[l->use], l->level, bound, &k));
}

/* ------------------------------------------------------------------ terms */
/* Words that make 0 of 0. */
static bool keeps_zero(int word)
{
    switch (word) {
    case SP_NEST_copy:
    case SP_NEST_neg:
    case SP_NEST_abs:
    case SP_NEST_sign:
    case SP_NEST_relu:
    case SP_NEST_sqrt:
    case SP_NEST_floor:
    case SP_NEST_ceil:
    case SP_NEST_round:
    case SP_NEST_expm1:
    case SP_NEST_sin:
    case SP_NEST_tanh:
    case SP_NEST_erf:
    case SP_NEST_gelu:
    case SP_NEST_gelu_tanh: return true;
    default: return false;
    }
}

unsigned sp_special_needs(const sp_special *s, int node)
{
    const sp_special_node *t = &s->node[node];
    if (t->kind == SP_TREE_NUMBER) return 0;
    if (t->kind == SP_TREE_ACCESS) return 1u << t->at;
    const unsigned first = sp_special_needs(s, t->arg[0]),
                   second = t->n > 1 ? sp_special_needs(s, t->arg[1]) : 0;
    switch (t->at) {
    case SP_NEST_mul: return first | second;
    case SP_NEST_div: return first;
    case SP_NEST_add:
    case SP_NEST_sub:
    case SP_NEST_min:
    case SP_NEST_max: return first & second;
    default: return keeps_zero(t->at) ? first : 0;
    }
}

static unsigned accesses_of(const sp_special *s, int node)
{
    const sp_special_node *t = &s->node[node];
    unsigned all = t->kind == SP_TREE_ACCESS ? 1u << t->at : 0;
    for (int i = 0; i < t->n; i++) all |= accesses_of(s, t->arg[i]);
    return all;
}

/* Are all elements that a node reads known with these loops? */
static bool known_there(const sp_special *s, const sp_special_nest *n, int node, const sp_special_known *k)
{
    const unsigned all = accesses_of(s, node);
    for (int u = 0; u < n->uses - 1; u++) {
        const sp_special_use *use = &n->use[u];
        const int at = use->follows >= 0 ? use->follows : u;
        if (all >> use->access & 1 && k->levels[at] < sp_special_levels(s, &n->use[at])) return false;
    }
    return true;
}

static int factors_of(const sp_special *s, int node, int out[SP_SPECIAL_NODES])
{
    const sp_special_node *t = &s->node[node];
    if (t->kind != SP_TREE_WORD || t->at != SP_NEST_mul) return out[0] = node, 1;
    const int n = factors_of(s, t->arg[0], out);
    return n + factors_of(s, t->arg[1], out + n);
}

int sp_special_factors(const sp_special *s, const sp_special_nest *n, int loop, bool outside,
                       int node[SP_SPECIAL_NODES])
{
    bool bound[SP_SPECIAL_LOOPS] = {false};
    sp_special_known k;
    int all[SP_SPECIAL_NODES], out = 0;
    for (int l = 0; l < loop; l++) bound[l] = true;
    sp_special_known_with(s, n, bound, &k);
    const int factors = factors_of(s, n->root, all);
    for (int i = 0; i < factors; i++)
        if (known_there(s, n, all[i], &k) == outside) node[out++] = all[i];
    return out;
}

/* ------------------------------------------------------------------ loops */
static sparta_status add_loop(sp_special *s, sp_special_nest *n, sp_special_loop l)
{
    if (n->loops == SP_SPECIAL_LOOPS)
        return sp_fail(s->cx, SPARTA_E_LIMIT, "expression: a term has more than %d loops", SP_SPECIAL_LOOPS);
    n->loop[n->loops++] = l;
    return SPARTA_OK;
}

static sparta_status add_level(sp_special *s, sp_special_nest *n, int use, int level)
{
    const sp_special_use *u = &n->use[use];
    bool bound[SP_SPECIAL_LOOPS];
    sp_special_known k;
    memset(bound, true, sizeof bound);
    sp_special_known_with(s, n, bound, &k);
    if (k.levels[use] > level) return SPARTA_OK;
    sp_special_loop l = {.use = use, .level = level, .digit = sp_special_level_digit(s, u, level)};
    if (sp_special_level_dense(u, level))
        l.over = SP_OVER_COUNT;
    else
        l.over = coordinate(s, n, u, level, bound, &k) ? SP_OVER_MERGE : SP_OVER_SEGMENT;
    return add_loop(s, n, l);
}

/* The sizes of blocks in which formats cut an index, largest first; 0 when they do not lie in one another. */
static int cuts(const sp_special *s, const sp_special_nest *n, int index, int64_t out[SP_LEVELS])
{
    int m = 0;
    for (int u = 0; u < n->uses; u++)
        for (int l = 0; n->use[u].format && !n->use[u].sparse && l < n->use[u].format->n; l++) {
            const sp_special_digit d = sp_special_level_digit(s, &n->use[u], l);
            const int64_t c[2] = {d.modulus, d.weight};
            for (int i = 0; d.index == index && i < 2; i++) {
                int at = 0;
                while (at < m && out[at] > c[i]) at++;
                if (c[i] < 2 || (at < m && out[at] == c[i]) || m == SP_LEVELS) continue;
                memmove(out + at + 1, out + at, (size_t)(m - at) * sizeof *out);
                out[at] = c[i];
                m++;
            }
        }
    for (int i = 1; i < m; i++)
        if (out[i - 1] % out[i]) return 0;
    return m;
}

static sparta_status add_counts(sp_special *s, sp_special_nest *n)
{
    bool bound[SP_SPECIAL_LOOPS];
    sp_special_known k;
    memset(bound, true, sizeof bound);
    sp_special_known_with(s, n, bound, &k);
    for (int i = 0; i < s->indices; i++) {
        bool used = false;
        int64_t cut[SP_LEVELS + 1];
        for (int u = 0; u < n->uses; u++) used |= sp_special_uses(s, &n->use[u], i);
        if (!used || k.index[i]) continue;
        const int m = cuts(s, n, i, cut);
        for (int c = 0; c <= m; c++)
            SP_TRY(add_loop(s, n,
                            (sp_special_loop){.over = SP_OVER_COUNT,
                                              .use = -1,
                                              .digit = {i, c ? cut[c - 1] : 0, c < m ? cut[c] : 1}}));
    }
    return SPARTA_OK;
}

static sparta_status name_loop(sp_special *s, sp_special_nest *n, int at)
{
    sp_special_loop *l = &n->loop[at];
    const int index = l->digit.index;
    int parts = 0, before = 0;
    if (l->over == SP_OVER_MERGE || index < 0) {
        const int again = sp_special_again(n, l->use);
        const char *name = s->operand[n->use[l->use].operand].name;
        if (again)
            snprintf(l->name, sizeof l->name, "%s_%d_%d", name, again + 1, l->level);
        else
            snprintf(l->name, sizeof l->name, "%s_%d", name, l->level);
        return SPARTA_OK;
    }
    for (int i = 0; i < n->loops; i++)
        if (sp_special_binds(&n->loop[i]) && n->loop[i].digit.index == index) {
            parts++;
            const sp_special_digit *d = &n->loop[i].digit;
            before += d->weight > l->digit.weight ||
                      (d->weight == l->digit.weight && (d->modulus > l->digit.modulus && l->digit.modulus));
            before += d->weight == l->digit.weight && !d->modulus && l->digit.modulus;
        }
    snprintf(l->name, sizeof l->name, parts > 1 ? "%s%d" : "%s", s->index[index].name, before);
    for (int i = 0; parts > 1 && i < s->indices; i++)
        if (!strcmp(s->index[i].name, l->name))
            return sp_fail(
                s->cx, SPARTA_E_USAGE,
                "expression: a part of index %s is called %s, as another index is; rename that one",
                s->index[index].name, l->name);
    return SPARTA_OK;
}

/* A nest that visits every element of its result once, with all sums inside, needs nothing there before. */
static bool whole(const sp_special *s, const sp_special_nest *n)
{
    for (int l = 0; l < n->loops; l++)
        if (n->loop[l].over != SP_OVER_COUNT &&
            (n->loop[l].digit.index < 0 || sp_special_in_result(s, n, n->loop[l].digit.index)))
            return false;
    return s->operand[sp_special_target(n)->operand].like < 0;
}

static sparta_status make_nest(sp_special *s, const sp_special_nest *of)
{
    if (s->nests == SP_SPECIAL_NESTS)
        return sp_fail(s->cx, SPARTA_E_LIMIT,
                       "expression: its terms and the parts of its formats make more than %d nests",
                       SP_SPECIAL_NESTS);
    sp_special_nest *n = sp_arena_array(s->arena, 1, sizeof *n);
    SP_NEED(s->cx, n);
    *n = *of;
    for (int u = 0; u < n->uses; u++)
        if (n->use[u].follows >= 0) n->use[u].leaf = n->use[n->use[u].follows].leaf;
    for (int u = 0; u < n->uses; u++)
        if (n->use[u].leaf >= 0)
            n->use[u].format = sp_special_leaf(&s->operand[n->use[u].operand], n->use[u].leaf);
    for (int u = 0; u < n->uses; u++)
        for (int l = 0; n->use[u].needed && l < n->use[u].format->n; l++) SP_TRY(add_level(s, n, u, l));
    SP_TRY(add_counts(s, n));
    for (int l = 0; l < n->loops; l++) SP_TRY(name_loop(s, n, l));
    n->whole = whole(s, n);
    s->nest[s->nests++] = n;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ nests of a term */
static bool is_sparse(const sp_special_operand *o)
{
    bool sparse = o->stored && o->format.sum;
    for (int l = 0; o->stored && l < o->format.n; l++) sparse |= o->format.level[l].kind != SP_LEVEL_DENSE;
    return sparse;
}

/* Every choice of a part for each needed operand that is a sum. */
static sparta_status each_leaf(sp_special *s, sp_special_nest *n, int use)
{
    if (use == n->uses - 1) {
        const int like = sp_special_like(s, n);
        if (like >= 0) n->use[use].leaf = n->use[like].leaf;
        return make_nest(s, n);
    }
    sp_special_use *u = &n->use[use];
    const int leaves = u->needed ? s->operand[u->operand].leaves : 1;
    for (int i = 0; i < leaves; i++) {
        if (u->leaf >= 0) u->leaf = i;
        SP_TRY(each_leaf(s, n, use + 1));
    }
    return SPARTA_OK;
}

static sparta_status check_like(sp_special *s, const sp_special_nest *n)
{
    const sp_special_operand *o = &s->operand[sp_special_target(n)->operand];
    if (o->like < 0 || sp_special_like(s, n) >= 0) return SPARTA_OK;
    return sp_fail(
        s->cx, SPARTA_E_UNSUPPORTED,
        "expression: %s has the pattern of %s, and a term is not 0 everywhere else; multiply the term by it",
        o->name, s->operand[o->like].name);
}

/* What has the pattern of an operand that the loops go over, at the same indices, lies where that one does: nothing is searched for. */
static void follow(const sp_special *s, sp_special_nest *n)
{
    for (int u = 0; u < n->uses - 1; u++)
        for (int v = 0; v < n->uses - 1; v++) {
            sp_special_use *use = &n->use[u];
            const sp_special_use *other = &n->use[v];
            if (u == v || !use->sparse || use->follows >= 0 || !other->needed || (use->needed && v > u) ||
                sp_special_pattern(s, use->operand) != sp_special_pattern(s, other->operand) ||
                !sp_special_same_axes(s, use->access, other->access))
                continue;
            use->follows = v;
            use->needed = false;
            use->leaf = 0;
        }
}

static sparta_status lower_term(sp_special *s, int statement, int root, bool negative)
{
    const sp_special_node *t = &s->node[root];
    const bool sums = s->statement[statement].reduce == SP_NEST_sum;
    if (sums && t->kind == SP_TREE_WORD && (t->at == SP_NEST_add || t->at == SP_NEST_sub)) {
        SP_TRY(lower_term(s, statement, t->arg[0], negative));
        return lower_term(s, statement, t->arg[1], negative ^ (t->at == SP_NEST_sub));
    }
    if (sums && t->kind == SP_TREE_WORD && t->at == SP_NEST_neg)
        return lower_term(s, statement, t->arg[0], !negative);
    const unsigned all = accesses_of(s, root), needed = sp_special_needs(s, root);
    sp_special_nest *n = sp_arena_array(s->arena, 1, sizeof *n);
    SP_NEED(s->cx, n);
    n->statement = statement, n->root = root, n->negative = negative;
    for (int a = 0; a < s->accesses; a++) {
        if (!(all >> a & 1)) continue;
        const sp_special_operand *o = &s->operand[s->access[a].operand];
        const bool sparse = is_sparse(o), need = sparse && needed >> a & 1;
        n->use[n->uses++] = (sp_special_use){.access = a,
                                             .operand = s->access[a].operand,
                                             .sparse = sparse,
                                             .needed = need,
                                             .factor = need,
                                             .follows = -1,
                                             .leaf = sparse && !need ? -1 : 0};
    }
    const int target = s->statement[statement].target;
    n->use[n->uses++] =
        (sp_special_use){.access = target, .operand = s->access[target].operand, .follows = -1};
    follow(s, n);
    SP_TRY(check_like(s, n));
    return each_leaf(s, n, 0);
}

/* Reading what it writes, a statement must visit every element, or the others would keep what they were. */
static sparta_status check_own(sp_special *s, int statement, int first)
{
    for (int i = first; i < s->nests; i++) {
        const sp_special_nest *n = s->nest[i];
        for (int u = 0; u < n->uses - 1; u++)
            if (n->use[u].operand == sp_special_target(n)->operand && (!n->whole || s->nests > first + 1))
                return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                               "expression: statement %d reads %s, which it writes, and goes over stored "
                               "elements only; write "
                               "another name",
                               statement + 1, s->operand[n->use[u].operand].name);
    }
    return SPARTA_OK;
}

static bool sums(const sp_special *s, const sp_special_nest *n)
{
    for (int l = 0; l < n->loops; l++) {
        const int index = n->loop[l].digit.index;
        if (sp_special_binds(&n->loop[l]) && index >= 0 && !sp_special_in_result(s, n, index)) return true;
    }
    return false;
}

/* Terms without a sum come last: where sums are added up in the result (a format of columns), all of their additions would be rounded to the digits of a
 * large bias that lay there first. */
static void sums_first(sp_special *s, int first)
{
    sp_special_nest *later[SP_SPECIAL_NESTS];
    int n = 0, at = first;
    for (int i = first; i < s->nests; i++)
        if (sums(s, s->nest[i]))
            s->nest[at++] = s->nest[i];
        else
            later[n++] = s->nest[i];
    for (int i = 0; i < n; i++) s->nest[at++] = later[i];
}

sparta_status sp_special_lower(sp_special *s)
{
    SP_TRY(sp_special_stored(s));
    s->nests = 0;
    for (int i = 0; i < s->statements; i++) {
        const int first = s->nests;
        SP_TRY(lower_term(s, i, s->statement[i].root, false));
        SP_TRY(check_own(s, i, first));
        sums_first(s, first);
    }
    return SPARTA_OK;
}
