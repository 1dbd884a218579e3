/* Formats and sizes of operands, and what there is to know of one access. */
#include "special/inside.h"
#include "special/known.h"
#include "format/walk.h"
#include <stdio.h>
#include <string.h>

int sp_special_plain(const sp_nest_axis *x)
{
    return x->n == 1 && x->term[0].times == 1 && !x->plus ? x->term[0].loop : -1;
}

const sp_format *sp_special_leaf(const sp_special_operand *o, int leaf)
{
    const sp_format *all[SP_PARTS];
    if (!o->stored) return NULL;
    if (!o->format.sum) return &o->format;
    sp_sum_leaves(&o->format, all);
    return all[leaf];
}

static bool dense_kind(sp_level_kind kind)
{
    return kind == SP_LEVEL_DENSE || kind == SP_LEVEL_RANGE;
}

static bool all_dense(const sp_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].kind != SP_LEVEL_DENSE) return false;
    return f->n > 0;
}

int sp_special_levels(const sp_special *s, const sp_special_use *u)
{
    return u->format ? u->format->n : s->operand[u->operand].rank;
}

bool sp_special_level_dense(const sp_special_use *u, int level)
{
    if (!u->format) return true;
    const sp_level *l = &u->format->level[level];
    return dense_kind(l->kind) && l->map != SP_MAP_SUB &&
           l->map != SP_MAP_ADD; /* diagonals are gone over, dense ones too */
}

sp_special_digit sp_special_level_digit(const sp_special *s, const sp_special_use *u, int level)
{
    const sp_level *l = &u->format->level[level];
    const sp_special_access *a = &s->access[u->access];
    const int index = sp_special_plain(&a->axis[l->dim]);
    switch (l->map) {
    case SP_MAP_DIV: return (sp_special_digit){index, 0, l->c};
    case SP_MAP_MOD: return (sp_special_digit){index, l->c, 1};
    case SP_MAP_NEST: return (sp_special_digit){index, l->c, l->inner};
    case SP_MAP_ALL: return (sp_special_digit){index, 0, 1};
    default: return (sp_special_digit){-1, 0, 1};
    }
}

bool sp_special_has(const sp_special *s, int access, int index)
{
    const sp_special_access *a = &s->access[access];
    for (int d = 0; d < s->operand[a->operand].rank; d++)
        for (int t = 0; t < a->axis[d].n; t++)
            if (a->axis[d].term[t].loop == index) return true;
    return false;
}

bool sp_special_uses(const sp_special *s, const sp_special_use *u, int index)
{
    return sp_special_has(s, u->access, index);
}

bool sp_special_in_result(const sp_special *s, const sp_special_nest *n, int index)
{
    return index >= 0 && sp_special_uses(s, sp_special_target(n), index);
}

bool sp_special_ordered(const sp_level *l)
{
    return (l->kind == SP_LEVEL_COMPRESSED || l->kind == SP_LEVEL_LOOSE) &&
           !(l->properties & (SP_PROP_NONUNIQUE | SP_PROP_NONORDERED));
}

bool sp_special_fills_up(const sp_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].kind == SP_LEVEL_PACKED || f->level[l].kind == SP_LEVEL_STRUCTURED) return true;
    return sp_levels_pattern_has_values(f);
}

bool sp_special_same_axes(const sp_special *s, int a, int b)
{
    const sp_special_access *x = &s->access[a], *y = &s->access[b];
    for (int d = 0; d < s->operand[x->operand].rank; d++)
        if (sp_special_plain(&x->axis[d]) != sp_special_plain(&y->axis[d])) return false;
    return s->operand[x->operand].rank == s->operand[y->operand].rank;
}

int sp_special_like(const sp_special *s, const sp_special_nest *n)
{
    const sp_special_use *t = sp_special_target(n);
    const int like = s->operand[t->operand].like;
    for (int u = 0; u < n->uses - 1 && like >= 0; u++)
        if (n->use[u].needed && sp_special_pattern(s, n->use[u].operand) == like &&
            sp_special_same_axes(s, n->use[u].access, t->access))
            return u;
    return -1;
}

/* Does p, over pieces, cut what l goes over? */
static bool cuts(const sp_special_loop *p, const sp_special_loop *l)
{
    if (l->over == SP_OVER_COUNT)
        return p->fused &&
               (sp_special_same(l->digit, p->outer) || (p->use < 0 && sp_special_same(l->digit, p->digit)));
    if (l->over == SP_OVER_MERGE || l->use != p->use || l->level != p->level) return false;
    return l->over == SP_OVER_SEGMENT || !l->fused ||
           (p->fused && sp_special_same(l->digit, p->digit) && sp_special_same(l->outer, p->outer));
}

int sp_special_cutter(const sp_special_nest *n, int at)
{
    for (int i = at - 1; i >= 0; i--)
        if (n->loop[i].over == SP_OVER_PIECES && cuts(&n->loop[i], &n->loop[at])) return i;
    return -1;
}

bool sp_special_cuts(const sp_special_nest *n, int pieces, int loop)
{
    return n->loop[pieces].over == SP_OVER_PIECES && pieces != loop && cuts(&n->loop[pieces], &n->loop[loop]);
}

int sp_special_counter(const sp_special_nest *n, int segment)
{
    for (int i = 0; i < n->loops && n->loop[segment].range; i++)
        if (sp_special_counts_ranges(&n->loop[i]) && !strcmp(n->loop[i].name, n->loop[segment].with))
            return i;
    return -1;
}

int sp_special_counted(const sp_special_nest *n, int counter)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].range && sp_special_counter(n, i) == counter) return i;
    return -1;
}

bool sp_special_shares(const sp_special_nest *n)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].threads) return true;
    return false;
}

bool sp_special_temporaries(const sp_special_nest *n)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].temporaries) return true;
    return false;
}

int64_t sp_special_steps(const sp_special_nest *n, const sp_special_loop *l)
{
    const sp_special_digit d = l->digit;
    if (d.modulus || d.index < 0 || !n->bound[d.index]) return sp_special_extent(d);
    return (n->bound[d.index] + d.weight - 1) / d.weight;
}

int sp_special_group(const sp_special *s, int nest)
{
    int end = nest + 1;
    while (end < s->nests && s->nest[end]->joined) end++;
    return end;
}

int sp_special_bounded(const sp_special *s)
{
    for (int i = 0; i < s->indices; i++)
        for (int n = 0; n < s->nests; n++)
            if (s->nest[n]->bound[i]) return i;
    return -1;
}

int sp_special_again(const sp_special_nest *n, int use)
{
    int again = 0;
    for (int i = 0; i < use; i++) again += n->use[i].operand == n->use[use].operand;
    return again;
}

/* ------------------------------------------------------------------ formats */
sparta_status sp_special_named(const sp_special *s, const char *name, int *out)
{
    const char *names[SP_SPECIAL_OPERANDS];
    char hint[SP_HINT];
    *out = name ? sp_special_find(s, name) : -1;
    if (*out >= 0) return SPARTA_OK;
    for (int i = 0; i < s->operands; i++) names[i] = s->operand[i].name;
    return sp_fail(s->cx, SPARTA_E_USAGE, "expression: there is no operand '%s'%s", name ? name : "",
                   name ? sp_did_you_mean(name, names, s->operands, "", hint) : "");
}

sparta_status sp_special_format(sp_special *s, const char *operand, const char *format)
{
    const sp_format *leaf[SP_PARTS];
    int at;
    SP_TRY(sp_special_named(s, operand, &at));
    sp_special_operand *o = &s->operand[at];
    sp_format f;
    SP_TRY(sp_format_parse(s->cx, format, &f));
    if (f.opaque || (!f.sum && f.rank != o->rank))
        return sp_fail(s->cx, SPARTA_E_USAGE,
                       f.opaque ? "expression: format of %s: %s has no levels; give one that has"
                                : "expression: format of %s: %s has %d dimensions, %s has %d",
                       operand, format, f.rank, operand, o->rank);
    const int leaves = sp_sum_leaves(&f, leaf);
    if (leaves > SP_PARTS)
        return sp_fail(s->cx, SPARTA_E_LIMIT, "expression: format of %s has %d parts, the most are %d",
                       operand, leaves, SP_PARTS);
    for (int i = 0; i < leaves; i++)
        if (leaf[i]->opaque || leaf[i]->rank != o->rank)
            return sp_fail(s->cx, SPARTA_E_USAGE, "expression: format of %s: part %d %s", operand, i,
                           leaf[i]->opaque ? "has no levels; give formats that have"
                                           : "has other dimensions");
    o->stored = true;
    o->format = f;
    o->leaves = leaves;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sizes */
static sparta_status put_size(sp_special *s, int index, int64_t size, const char *who)
{
    sp_special_index *i = &s->index[index];
    if (i->size >= 0 && i->size != size)
        return sp_fail(s->cx, SPARTA_E_SHAPE, "expression: %s says that %s has %lld values, and it has %lld",
                       who, i->name, (long long)size, (long long)i->size);
    i->size = size;
    return SPARTA_OK;
}

sparta_status sp_special_size(sp_special *s, const char *index, int64_t size)
{
    for (int i = 0; i < s->indices; i++)
        if (!strcmp(s->index[i].name, index)) return put_size(s, i, size, "a size");
    return sp_fail(s->cx, SPARTA_E_USAGE, "expression: there is no index '%s'", index);
}

sparta_status sp_special_dtype(sp_special *s, const char *operand, sparta_dtype dtype)
{
    int at;
    SP_TRY(sp_special_named(s, operand, &at));
    if (dtype != SPARTA_F32 && dtype != SPARTA_F16 && dtype != SPARTA_BF16)
        return sp_fail(s->cx, SPARTA_E_DTYPE,
                       "expression: %s is %s; kernels are generated for f32, f16 and bf16", operand,
                       sparta_dtype_name(dtype));
    s->operand[at].dtype = dtype;
    return SPARTA_OK;
}

bool sp_special_runs(const sp_special_nest *n, int at)
{
    if (at < 0 || at + 1 >= n->loops) return false;
    const sp_special_loop *l = &n->loop[at], *in = &n->loop[at + 1];
    if (l->over != SP_OVER_SEGMENT || in->over != SP_OVER_SEGMENT || in->use != l->use ||
        in->level != l->level + 1 || l->digit.index < 0 || l->range || l->caches || in->range)
        return false;
    const sp_level *v = &n->use[l->use].format->level[l->level], *below = v + 1;
    for (int p = 0; p < n->loops; p++)
        if (n->loop[p].over == SP_OVER_PIECES) return false;
    return v->kind == SP_LEVEL_COMPRESSED && (v->properties & SP_PROP_NONUNIQUE) &&
           below->kind == SP_LEVEL_SINGLETON;
}

/* Row-major with neither index but as its last one, alone; or what stores the diagonals, one element of each side by side. */
static bool lies_along(const sp_special *s, const sp_special_use *u, int from, int to, bool result)
{
    if (u->needed) {
        const sp_special_digit d = sp_special_level_digit(s, u, u->format->n - 1);
        return u->format->n == 2 && sp_special_level_dense(u, 1) && d.index == from && !d.modulus &&
               d.weight == 1;
    }
    const sp_special_operand *o = &s->operand[u->operand];
    bool any = false;
    for (int x = 0; x < 2; x++) any |= sp_special_uses(s, u, x ? from : to);
    if (!any) return true;
    if (o->stored || (result && sp_special_uses(s, u, to))) return false;
    for (int d = 0; d < o->rank; d++) {
        const sp_nest_axis *a = &s->access[u->access].axis[d];
        const int plain = sp_special_plain(a);
        for (int t = 0; t < a->n; t++)
            if ((a->term[t].loop == from || a->term[t].loop == to) && (d < o->rank - 1 || plain < 0))
                return false;
    }
    return true;
}

int sp_special_slides(const sp_special *s, const sp_special_nest *n, int at, int *diagonal, bool *ahead)
{
    const sp_special_loop *l = &n->loop[at];
    int to = -1, dim, other;
    if (l->over != SP_OVER_COUNT || l->digit.index < 0 || l->digit.modulus || l->digit.weight != 1) return -1;
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].over == SP_OVER_PIECES) return -1;
    for (int u = 0; u < n->uses; u++) {
        if (!n->use[u].needed) continue;
        if (to >= 0 || !sp_special_diagonal(s, &n->use[u], 0, &dim, &other) ||
            n->use[u].format->level[0].map != SP_MAP_SUB ||
            (dim != l->digit.index && other != l->digit.index))
            return -1;
        *diagonal = sp_special_loop_of(n, u, 0);
        *ahead = other == l->digit.index;
        to = *ahead ? dim : other;
        if (*diagonal < 0 || *diagonal > at || n->loop[*diagonal].over != SP_OVER_SEGMENT) return -1;
    }
    for (int u = 0; u < n->uses && to >= 0; u++)
        if (!lies_along(s, &n->use[u], l->digit.index, to, u == n->uses - 1)) return -1;
    return to;
}

void sp_special_count(sp_special *s, int operand, int64_t count)
{
    s->operand[operand].count = count;
}

sparta_status sp_special_shape(sp_special *s, int operand, const int64_t *dim)
{
    sp_special_operand *o = &s->operand[operand];
    for (int d = 0; d < o->rank; d++) {
        if (dim[d] < 0) return sp_fail(s->cx, SPARTA_E_SHAPE, "expression: %s: a negative size", o->name);
        o->dim[d] = dim[d];
    }
    for (int a = 0; a < s->accesses; a++)
        for (int d = 0; s->access[a].operand == operand && d < o->rank; d++) {
            const int index = sp_special_plain(&s->access[a].axis[d]);
            if (index >= 0) SP_TRY(put_size(s, index, dim[d], o->name));
        }
    return SPARTA_OK;
}

/* The least and the largest value of an axis. */
static sparta_status axis_range(const sp_special *s, const sp_nest_axis *x, int64_t *low, int64_t *high)
{
    *low = *high = x->plus;
    for (int t = 0; t < x->n; t++) {
        int64_t most;
        const int64_t last = s->index[x->term[t].loop].size - 1;
        if (!sp_int_mul(SP_MAX(last, 0), x->term[t].times, &most) ||
            !sp_int_add(*low, most < 0 ? most : 0, low) || !sp_int_add(*high, most > 0 ? most : 0, high))
            return sp_fail(s->cx, SPARTA_E_SHAPE, "expression: sizes are too large");
    }
    if (*high == INT64_MAX) return sp_fail(s->cx, SPARTA_E_SHAPE, "expression: sizes are too large");
    return SPARTA_OK;
}

static sparta_status check_access(sp_special *s, const sp_special_access *a)
{
    sp_special_operand *o = &s->operand[a->operand];
    for (int d = 0; d < o->rank; d++) {
        int64_t low, high;
        SP_TRY(axis_range(s, &a->axis[d], &low, &high));
        if (o->dim[d] < 0) o->dim[d] = high + 1; /* nobody said: as large as it must be */
        bool empty = false;
        for (int t = 0; t < a->axis[d].n; t++) empty |= !s->index[a->axis[d].term[t].loop].size;
        if (!empty && (low < 0 || high >= o->dim[d]))
            return sp_fail(s->cx, SPARTA_E_SHAPE,
                           "expression: dimension %d of %s has %lld elements, it is read from %lld to %lld",
                           d, o->name, (long long)o->dim[d], (long long)low, (long long)high);
    }
    return SPARTA_OK;
}

/* A window A(i+p): where the operand and all indices but one have a size, that one goes as far as the operand does. */
static bool fill_window(sp_special *s, const sp_nest_axis *x, int64_t dim)
{
    int unknown = -1;
    if (x->n < 2) return false;
    int64_t left = dim - x->plus;
    for (int t = 0; t < x->n; t++) {
        const int64_t size = s->index[x->term[t].loop].size;
        if (size < 0 && unknown >= 0) return false;
        if (size < 0)
            unknown = t;
        else if (x->term[t].times != 1 || size < 1)
            return false;
        else
            left -= size - 1;
    }
    if (unknown < 0 || x->term[unknown].times != 1 || left < 1 || left > dim) return false;
    s->index[x->term[unknown].loop].size = left;
    return true;
}

static void fill_windows(sp_special *s)
{
    for (bool more = true; more;) {
        more = false;
        for (int a = 0; a < s->accesses; a++) {
            const sp_special_operand *o = &s->operand[s->access[a].operand];
            for (int d = 0; d < o->rank; d++)
                if (o->dim[d] >= 0) more |= fill_window(s, &s->access[a].axis[d], o->dim[d]);
        }
    }
}

sparta_status sp_special_sized(sp_special *s)
{
    fill_windows(s);
    for (int i = 0; i < s->indices; i++)
        if (s->index[i].size < 0)
            return sp_fail(
                s->cx, SPARTA_E_SHAPE,
                "expression: nothing says how many values %s has; give a tensor that has it, or --dim %s=N",
                s->index[i].name, s->index[i].name);
    for (int a = 0; a < s->accesses; a++) {
        const sp_special_operand *o = &s->operand[s->access[a].operand];
        for (int d = 0; d < o->rank; d++) { /* a plain one is exactly as large */
            const int index = sp_special_plain(&s->access[a].axis[d]);
            if (index >= 0 && o->dim[d] < 0) s->operand[s->access[a].operand].dim[d] = s->index[index].size;
        }
    }
    for (int a = 0; a < s->accesses; a++) SP_TRY(check_access(s, &s->access[a]));
    for (int i = 0; i < s->operands; i++)
        if (s->operand[i].stored)
            SP_TRY(sp_format_check(s->cx, &s->operand[i].format, s->operand[i].rank, s->operand[i].dim));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ results */
/* A result in a sparse format has the pattern of an operand that is stored so and has the same indices. */
static sparta_status find_like(sp_special *s, const sp_special_statement *st)
{
    sp_special_operand *o = &s->operand[s->access[st->target].operand];
    if (o->like >= 0 || !o->stored || (!o->format.sum && all_dense(&o->format))) return SPARTA_OK;
    const unsigned needed = sp_special_needs(s, st->root);
    for (int pass = 0; pass < 2; pass++) /* those that the statement is 0 without go first */
        for (int a = 0; a < s->accesses; a++) {
            const int like = sp_special_pattern(s, s->access[a].operand);
            const sp_special_operand *p = &s->operand[like];
            if ((pass || needed >> a & 1) && p->stored && !p->written &&
                sp_format_equal(&p->format, &o->format) && sp_special_same_axes(s, st->target, a)) {
                o->like = like;
                return SPARTA_OK;
            }
        }
    return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                   "expression: the result %s has a sparse format; it can have that of an operand with the "
                   "same indices, whose "
                   "pattern it takes, or dense levels alone",
                   o->name);
}

/* Formats name dimensions one by one; sums of indices and repeated ones are for row-major operands. */
static sparta_status check_stored(sp_special *s, const sp_special_access *a)
{
    const sp_special_operand *o = &s->operand[a->operand];
    for (int d = 0; o->stored && d < o->rank; d++) {
        const int index = sp_special_plain(&a->axis[d]);
        for (int e = 0; e < d && index >= 0; e++)
            if (sp_special_plain(&a->axis[e]) == index)
                return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                               "expression: %s has a format and the index %s twice; leave the format out",
                               o->name, s->index[index].name);
        if (index < 0)
            return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                           "expression: %s has a format and an index that is a sum; leave the format out, or "
                           "name an operand for it",
                           o->name);
    }
    return SPARTA_OK;
}

sparta_status sp_special_stored(sp_special *s)
{
    for (int a = 0; a < s->accesses; a++) SP_TRY(check_stored(s, &s->access[a]));
    for (int i = 0; i < s->operands; i++) s->operand[i].like = -1;
    for (int i = 0; i < s->statements; i++) SP_TRY(find_like(s, &s->statement[i]));
    s->arrays = s->levels = 0;
    for (int i = 0; i < s->operands; i++) {
        sp_special_operand *o = &s->operand[i];
        o->array = s->arrays;
        o->level = s->levels;
        s->arrays += o->leaves * (1 + 2 * SP_LEVELS);
        s->levels += o->leaves * SP_LEVELS;
    }
    return SPARTA_OK;
}
