/* What the tests of room special share: an expression computed index by index from dense operands, which knows nothing of levels, loops or vectors. */
#ifndef SPECIAL_BED_H
#define SPECIAL_BED_H

#include "code_bed.h"
#include "special/inside.h"
#include "store/store.h"
#include <math.h>

/* ------------------------------------------------------------------ index by index */
typedef struct dense_walk {
    const sp_special *s;
    sparta_tensor *operand; /* row-major f32 */
    int64_t index[SP_SPECIAL_INDICES];
    unsigned char *stored[SP_SPECIAL_OPERANDS]; /* NULL: all of it */
    int reduce;
} dense_walk;

static float *element(const dense_walk *w, int access)
{
    const sp_special_access *a = &w->s->access[access];
    const sparta_tensor *t = &w->operand[a->operand];
    int64_t at = 0;
    for (int d = 0; d < w->s->operand[a->operand].rank; d++) {
        int64_t i = a->axis[d].plus;
        for (int k = 0; k < a->axis[d].n; k++)
            i += a->axis[d].term[k].times * w->index[a->axis[d].term[k].loop];
        assert_true(i >= 0 && i < t->dim[d]);
        at = at * t->dim[d] + i;
    }
    return (float *)t->data + at;
}

static double value_of(const dense_walk *w, int node)
{
    const sp_special_node *x = &w->s->node[node];
    if (x->kind == SP_TREE_NUMBER) return x->number;
    if (x->kind == SP_TREE_ACCESS) return (double)*element(w, x->at);
    const double a = value_of(w, x->arg[0]), b = x->n > 1 ? value_of(w, x->arg[1]) : 0;
    switch (x->at) {
    case SP_NEST_add: return a + b;
    case SP_NEST_sub: return a - b;
    case SP_NEST_mul: return a * b;
    case SP_NEST_div: return a / b;
    case SP_NEST_min: return a < b ? a : b;
    case SP_NEST_max: return a > b ? a : b;
    case SP_NEST_neg: return -a;
    case SP_NEST_abs: return fabs(a);
    case SP_NEST_relu: return a > 0 ? a : 0;
    case SP_NEST_sqrt: return sqrt(a);
    case SP_NEST_exp: return exp(a);
    case SP_NEST_tanh: return tanh(a);
    }
    fail_msg("word %s", sp_nest_word_row(x->at)->name);
    return 0;
}

/* Is there such an element? Else the term is 0, or takes no part in what is the largest. */
static bool there(const dense_walk *w, int node)
{
    const sp_special_node *x = &w->s->node[node];
    if (x->kind == SP_TREE_NUMBER) return true;
    if (x->kind == SP_TREE_ACCESS) {
        const int o = w->s->access[x->at].operand;
        return !w->stored[o] || w->stored[o][element(w, x->at) - (float *)w->operand[o].data];
    }
    const bool a = there(w, x->arg[0]), b = x->n > 1 ? there(w, x->arg[1]) : true;
    switch (x->at) {
    case SP_NEST_mul: return a && b;
    case SP_NEST_add:
    case SP_NEST_sub:
    case SP_NEST_min:
    case SP_NEST_max:
    case SP_NEST_exp: return true; /* these have no factors */
    }
    return a;
}

static bool has_index(const sp_special *s, int node, int index)
{
    const sp_special_node *x = &s->node[node];
    bool has = false;
    if (x->kind == SP_TREE_ACCESS)
        for (int d = 0; d < s->operand[s->access[x->at].operand].rank; d++)
            for (int k = 0; k < s->access[x->at].axis[d].n; k++)
                has |= s->access[x->at].axis[d].term[k].loop == index;
    for (int i = 0; i < x->n; i++) has |= has_index(s, x->arg[i], index);
    return has;
}

/* Every value of the indices that the term or the result has, from index `at` on. */
static void add_term(dense_walk *w, double *sum, int target, int node, double sign, int at)
{
    const sp_special_access *a = &w->s->access[target];
    if (at == w->s->indices) {
        double *const to = sum + (element(w, target) - (float *)w->operand[a->operand].data);
        const double v = there(w, node) ? value_of(w, node) : 0;
        if (w->reduce == SP_NEST_sum)
            *to += sign * v;
        else if (there(w, node) && (w->reduce == SP_NEST_largest ? v > *to : v < *to))
            *to = v;
        return;
    }
    bool used = has_index(w->s, node, at);
    for (int d = 0; d < w->s->operand[a->operand].rank; d++) used |= a->axis[d].term[0].loop == at;
    for (w->index[at] = 0; w->index[at] < (used ? w->s->index[at].size : 1); w->index[at]++)
        add_term(w, sum, target, node, sign, at + 1);
    w->index[at] = 0;
}

static void add_terms(dense_walk *w, double *sum, int target, int node, double sign)
{
    const sp_special_node *x = &w->s->node[node];
    const bool word = x->kind == SP_TREE_WORD && w->reduce == SP_NEST_sum;
    if (word && (x->at == SP_NEST_add || x->at == SP_NEST_sub)) {
        add_terms(w, sum, target, x->arg[0], sign);
        add_terms(w, sum, target, x->arg[1], x->at == SP_NEST_add ? sign : -sign);
    } else if (word && x->at == SP_NEST_neg)
        add_terms(w, sum, target, x->arg[0], -sign);
    else
        add_term(w, sum, target, node, sign, 0);
}

typedef struct marks {
    const sparta_tensor *of;
    unsigned char *at;
} marks;

static sparta_status mark(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
{
    const marks *m = arg;
    int64_t at = 0;
    if (sp_special_fills_up(&part->format) && sp_element_get(part->dtype, part->values.data, position) == 0)
        return SPARTA_OK;
    for (int d = 0; d < m->of->rank; d++) at = at * m->of->dim[d] + index[d];
    m->at[at] = 1;
    return SPARTA_OK;
}

/* Which elements are stored is what the walker over storage says; 0 is none of them in formats that fill up with zeros. */
static void mark_stored(dense_walk *w, const sp_special_kernel *k)
{
    for (int i = 0; i < w->s->operands; i++) {
        const sp_format *f = &w->s->operand[i].format;
        bool dense = !f->sum; /* then every element is there */
        for (int l = 0; l < f->n; l++) dense &= f->level[l].kind == SP_LEVEL_DENSE;
        if (!w->s->operand[i].stored || dense) continue;
        marks m = {&w->operand[i], calloc((size_t)sparta_tensor_elements(&w->operand[i]) + 1, 1)};
        assert_non_null(m.at);
        must(sp_packed_walk(cx, &k->packed[i], mark, &m), "walk");
        w->stored[i] = m.at;
    }
}

/* Operands of results hold the answers afterwards. */
static void by_index(const sp_special *s, sparta_tensor *operand, const sp_special_kernel *k)
{
    dense_walk w = {.s = s, .operand = operand};
    mark_stored(&w, k);
    for (int i = 0; i < s->statements; i++) {
        const sparta_tensor *t = &operand[s->access[s->statement[i].target].operand];
        const int64_t n = sparta_tensor_elements(t);
        double *sum = calloc((size_t)n + 1, sizeof *sum);
        assert_non_null(sum);
        w.reduce = s->statement[i].reduce;
        for (int64_t e = 0; e < n; e++)
            sum[e] = s->statement[i].adds          ? (double)((float *)t->data)[e]
                     : w.reduce == SP_NEST_sum     ? 0
                     : w.reduce == SP_NEST_largest ? -(double)INFINITY
                                                   : (double)INFINITY;
        add_terms(&w, sum, s->statement[i].target, s->statement[i].root, 1);
        for (int64_t e = 0; e < n; e++) ((float *)t->data)[e] = (float)sum[e];
        free(sum);
    }
    for (int i = 0; i < s->operands; i++) free(w.stored[i]);
}

/* ------------------------------------------------------------------ one case */
typedef struct special_case {
    int64_t number; /* of those drawn from one seed */
    sp_special *s;
    sp_special_kernel kernel;
    sparta_tensor operand[SP_SPECIAL_OPERANDS]; /* f32 */
    sparta_tensor given[SP_SPECIAL_OPERANDS];   /* the same in the types of the expression */
    char prefix[24];
} special_case;

/* Whole numbers, `keep` of a hundred not 0. */
static void draw_operand(sp_rng *r, unsigned keep, sparta_tensor *t)
{
    float *x = t->data;
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++)
        x[i] =
            (unsigned)(sp_rng_next(r) >> 33) % 100 < keep ? (float)(int)((sp_rng_next(r) >> 33) % 7) - 3 : 0;
}

static void make_operands(special_case *c, sp_rng *r, unsigned keep)
{
    for (int i = 0; i < c->s->operands; i++) {
        const sp_special_operand *o = &c->s->operand[i];
        must(sp_tensor_alloc(cx, SPARTA_F32, o->rank, o->dim, &c->operand[i]), "operand");
        if (o->read || !o->written) draw_operand(r, o->stored ? keep : 90, &c->operand[i]);
        must(sp_tensor_alloc(cx, o->dtype, o->rank, o->dim, &c->given[i]), "operand");
        for (int64_t k = 0; k < sparta_tensor_elements(&c->given[i]); k++)
            sp_element_set(o->dtype, c->given[i].data, k, (double)((float *)c->operand[i].data)[k]);
    }
}

/* What is left of a number in a type. */
static double rounded(sparta_dtype dtype, double v)
{
    double kept;
    sp_element_set(dtype, &kept, 0, v);
    return sp_element_get(dtype, &kept, 0);
}

static void compare_case(special_case *c, const char *what)
{
    sparta_tensor kept[SP_SPECIAL_OPERANDS];
    by_index(c->s, c->operand, &c->kernel);
    for (int i = 0; i < c->s->operands; i++) {
        if (!c->s->operand[i].written) continue;
        must(sp_special_result(&c->kernel, i, &kept[i]), what);
        for (int64_t k = 0; k < sparta_tensor_elements(&kept[i]); k++) {
            const double got = sp_element_get(kept[i].dtype, kept[i].data, k),
                         want = rounded(kept[i].dtype, (double)((float *)c->operand[i].data)[k]);
            if (got != want)
                fail_msg("%s: %s[%lld] is %g, not %g", what, c->s->operand[i].name, (long long)k, got, want);
        }
        sp_free(cx, kept[i].data);
    }
}

static void end_case(special_case *c)
{
    sp_special_close(&c->kernel);
    for (int i = 0; c->s && i < c->s->operands; i++)
        sp_free(cx, c->operand[i].data), sp_free(cx, c->given[i].data);
    sp_special_free(c->s);
    *c = (special_case){0};
}

/* formats: names of operands, and of each its format, or a type: f16, bf16. */
HELPER sp_special *expression(const char *text, const char *const *formats)
{
    sp_special *s;
    must(sp_special_parse(cx, text, &s), text);
    for (; formats && *formats; formats += 2)
        if (!strcmp(formats[1], "f16") || !strcmp(formats[1], "bf16"))
            must(sp_special_dtype(s, formats[0], *formats[1] == 'f' ? SPARTA_F16 : SPARTA_BF16), formats[1]);
        else
            must(sp_special_format(s, formats[0], formats[1]), formats[1]);
    return s;
}

/* Index number n has 37 + n * step values. */
HELPER void run_scheduled(sp_target target, int step, const char *text, const char *const *formats,
                          const char *schedule)
{
    sp_rng r = sp_rng_seed(5);
    special_case c = {.s = expression(text, formats)};
    for (int i = 0; i < c.s->indices; i++) ok(sp_special_size(c.s, c.s->index[i].name, 37 + step * i));
    ok(sp_special_sized(c.s));
    ok(sp_special_lower(c.s));
    must(sp_special_schedule(c.s, schedule, target), schedule);
    make_operands(&c, &r, 20);
    must(sp_special_build(c.s, c.given, target, &c.kernel), text);
    sp_pool *pool = sp_special_shares(c.s->nest[0]) ? sp_pool_create(cx, 3) : NULL;
    ok(sp_special_run(&c.kernel, pool));
    sp_pool_free(pool);
    compare_case(&c, schedule ? schedule : text);
    end_case(&c);
}

#endif
