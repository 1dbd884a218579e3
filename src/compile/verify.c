/* verify: compile's own check. The references of the file and the package run on the same made-up items: 66 tokens or more, so that full
 * panels, part-filled ones and panels shared by threads all have to give the one answer.
 *
 * The references are slow. Where the items of a batch are computed apart (ops says so), they run on as many different items as
 * the budget allows, and the package on these again and again until there are enough. Where items are mixed, a Softmax over the batch
 * say, both run on the same batch. */
#include "compile/lower.h"
#include "ops/close.h"
#include "run/run.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* FULL: 66 tokens, one full panel and two lanes. */
enum { ITEMS = 11, MIXED = 3, TOKENS = 6, FULL = ITEMS * TOKENS };

#define BUDGET 3e8 /* multiply-adds of a run of the references, about: a second */

typedef struct check {
    sparta_ctx *cx;
    const sparta_package *package;
    sp_graph *g;
    const sp_tolerance *tolerance;
    int plan;               /* of the package: 0, or one more than the other that it is */
    int64_t most;           /* tokens that it takes */
    const char *item;       /* the symbol that counts items; NULL: there is none, or they are mixed */
    int64_t different, all; /* items of the references' run; of the package's */
    sp_symbols symbol;
    int64_t size[SP_GRAPH_SYMBOLS]; /* of each */
} check;

/* ------------------------------------------------------------------ sizes */

/* Symbols in front (batch-like) are `items`, others TOKENS or as many as it takes, within their bounds and what the plan is for. */
static sparta_status set_sizes(check *c, int64_t items)
{
    static const bool fixed[SP_GRAPH_SYMBOLS]; /* none is */
    const sp_symbols *s = &c->symbol;
    const int64_t tokens = SP_MIN(TOKENS, c->most);
    SP_TRY(sp_input_symbols(c->cx, c->g, &c->symbol));
    for (int i = 0; i < s->n; i++)
        c->size[i] = sp_symbol_within(c->g, s->name[i], s->axis[i] == 0 ? items : tokens);
    return sp_sizes_that_run(c->cx, c->g, s->n, s->name, fixed, c->size);
}

static bool starts_with(const sp_value *v, const char *symbol)
{
    const char *name;
    return v->dims.rank > 0 && sp_expr_is_symbol(v->dims.dim[0], &name) && !strcmp(name, symbol);
}

/* The symbol that counts items: first in an input and in every output; NULL: there is none. */
static const char *item_symbol(const sp_graph *g)
{
    const char *item = NULL;
    for (int i = 0; i < g->n_inputs && !item; i++)
        if (g->input[i]->dims.rank) (void)sp_expr_is_symbol(g->input[i]->dims.dim[0], &item);
    for (int i = 0; i < g->n_outputs && item; i++)
        if (!starts_with(g->output[i], item)) item = NULL;
    return item;
}

/* Can the inputs be given again and again? Items in front alone are whole rows: not those of [4,items] or [2*items]. */
static bool repeats(const sp_graph *g, const char *item)
{
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++)
            if (sp_ops_mentions(g->input[i]->dims.dim[d], item) && (d || !starts_with(g->input[i], item)))
                return false;
    return true;
}

/* Items to run on, of which one costs so much: as many as make FULL tokens. Where an item is a token these are FULL items, and so they are where that
 * costs no more than the references may: a head, behind whatever has tokens, sees one row an item. */
static int64_t wanted(const check *c, double cost)
{
    const bool alone = sp_lower_has_items_alone(c->g);
    const int64_t items = alone || cost * FULL <= BUDGET ? FULL : ITEMS;
    return SP_MAX(1, SP_MIN(items, alone ? c->most : c->most / TOKENS));
}

/* Items that the sizes have: one, or the least that the model takes. */
static int64_t items_of_sizes(const check *c, const char *item)
{
    for (int i = 0; item && i < c->symbol.n; i++)
        if (!strcmp(c->symbol.name[i], item)) return SP_MAX(c->size[i], 1);
    return 1;
}

/* How many items each side runs on. */
static sparta_status plan(check *c)
{
    const char *item = item_symbol(c->g);
    bool apart = false;
    SP_TRY(set_sizes(c, 1));
    const double cost = sp_ops_cost(c->cx, c->g, &(sp_bindings){c->symbol.n, c->symbol.name, c->size}) /
                        (double)items_of_sizes(c, item);
    if (item && repeats(c->g, item)) SP_TRY(sp_ops_items_apart(c->g, item, &apart));
    const int64_t items = wanted(c, cost), most = item ? sp_symbol_within(c->g, item, items) : items;
    const int64_t least = SP_MIN(apart ? 1 : MIXED, most);
    c->different = cost * (double)most <= BUDGET ? most : SP_MAX(least, (int64_t)(BUDGET / cost));
    c->item = apart ? item : NULL;
    SP_TRY(set_sizes(c, c->different));
    if (item) c->different = items_of_sizes(c, item);
    c->all = apart ? SP_MAX(most, c->different) : c->different;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ inputs */

/* One input with its items again and again, or as it is where it has none. */
static sparta_status repeat(const check *c, const sparta_tensor *t, bool items, sparta_tensor *out)
{
    int64_t dim[SPARTA_RANK];
    size_t bytes, room;
    memcpy(dim, t->dim, sizeof dim);
    if (items) dim[0] = c->all;
    SP_TRY(sp_tensor_bytes(c->cx, t->dtype, t->rank, t->dim, &bytes));
    SP_TRY(sp_tensor_bytes(c->cx, t->dtype, t->rank, dim, &room));
    SP_TRY(sp_tensor_alloc(c->cx, t->dtype, t->rank, dim, out));
    for (size_t at = 0; at < room; at += bytes)
        memcpy((char *)out->data + at, t->data, SP_MIN(bytes, room - at));
    return SPARTA_OK;
}

static sparta_status repeat_all(const check *c, const sparta_named_tensor *some, sparta_named_tensor *out)
{
    for (int i = 0; i < c->g->n_inputs; i++) {
        const bool items = c->item && starts_with(c->g->input[i], c->item);
        sparta_status s = repeat(c, &some[i].tensor, items, &out[i].tensor);
        out[i].name = some[i].name;
        if (s != SPARTA_OK) {
            sp_inputs_free(c->cx, out, i);
            return s;
        }
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ comparing */

/* Items [from, end) of a tensor that has them in front. */
static sparta_tensor items_of(const sparta_tensor *t, int64_t from, int64_t end)
{
    sparta_tensor part = *t;
    part.dim[0] = end - from;
    part.data = (char *)t->data + (size_t)(from * t->stride[0]) * sparta_dtype_size(t->dtype);
    return part;
}

/* The worst of all repetitions. */
static void compare(const check *c, const sparta_tensor *got, const sparta_tensor *want, double slack,
                    const sp_units *units, sp_closeness *worst)
{
    if (!c->item) {
        sp_close_units(got, want, c->tolerance, slack, units, worst);
        return;
    }
    *worst = (sp_closeness){.max_abs = INFINITY};
    if (got->rank != want->rank || got->dim[0] != c->all) return;
    worst->max_abs = -1;
    for (int64_t at = 0; at < c->all; at += c->different) {
        const int64_t count = SP_MIN(c->different, c->all - at);
        const sparta_tensor a = items_of(got, at, at + count), b = items_of(want, 0, count);
        sp_units some = units ? *units : (sp_units){0};
        if (units) some.mark = items_of(&units->mark, 0, count);
        sp_closeness one;
        sp_close_units(&a, &b, c->tolerance, slack, &some, &one);
        if (!one.ok || one.max_abs > worst->max_abs) *worst = one;
        if (!one.ok) break;
    }
}

/* The answer of the references. */
typedef struct answer {
    const sparta_named_tensor *in;
    sparta_tensor *want; /* one an output */
    double *slack;
    sp_units *units;
    bool moved; /* units are known */
} answer;

/* Why so much is allowed; "" where nobody asked. */
static const char *print_units(const answer *a, int i, char out[SP_UNITS_TEXT + 8])
{
    char units[SP_UNITS_TEXT];
    *out = 0;
    if (a->moved) snprintf(out, SP_UNITS_TEXT + 8, ", as %s", sp_units_print(&a->units[i], units));
    return out;
}

/* Is there a number in it that is none? */
static bool has_broken(const sparta_tensor *t)
{
    for (int64_t i = 0, n = sp_dtype_is_float(t->dtype) ? sparta_tensor_elements(t) : 0; i < n; i++)
        if (!isfinite(sp_element_get(t->dtype, t->data, i))) return true;
    return false;
}

/* The name of a product's weight that has NaN or Inf; NULL: there is none. */
static const char *broken_weight(const sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        for (int k = 0; k < n->n_in && sp_node_is_product(n); k++)
            if (n->in[k] && n->in[k]->constant && has_broken(n->in[k]->constant)) return n->in[k]->name;
    }
    return NULL;
}

/* The output has NaN or Inf where the reference has not, or the other way round. */
static sparta_status say_broken(const check *c, const char *name, const sp_closeness *is)
{
    char cause[400];
    const char *weight = broken_weight(c->g);
    if (sp_ctx_strict(c->cx))
        snprintf(cause, sizeof cause,
                 "a kernel is wrong: see whether options.dense_only mends it, and report it");
    else if (weight)
        snprintf(
            cause, sizeof cause,
            "weight '%.200s' has such numbers, and a sparse product skips 0 x NaN: mend it, or compile with "
            "options.strict",
            weight);
    else
        snprintf(cause, sizeof cause,
                 "a sparse product skips 0 x Inf: compile with options.strict; where that does not mend it a "
                 "kernel "
                 "is wrong: report it");
    return sp_fail(c->cx, SPARTA_E_DIFFER,
                   "compile: output '%s' is NaN or Inf on one side only in %" PRId64
                   " elements, and nothing was written; %s",
                   name, is->broken, cause);
}

/* Rounding alone makes NaN or Inf of numbers, and so may right kernels anywhere. */
static sparta_status say_unknown(const check *c, const answer *a, int i, const sp_closeness *is)
{
    char unit[SP_UNITS_TEXT];
    return sp_fail(
        c->cx, SPARTA_E_DIFFER,
        "compile: output '%s' cannot be checked: %s; the package differs by %.3g, and in %" PRId64
        " elements by a NaN or an Inf; nothing was written; compute what cancels in another way, such "
        "as a variance as the mean of squared differences",
        c->g->output[i]->name, sp_units_print(&a->units[i], unit), is->finite, is->broken);
}

static sparta_status check_output(const check *c, const answer *a, int i, const sp_closeness *is)
{
    const char *name = c->g->output[i]->name;
    char unit[SP_UNITS_TEXT + 8];
    if (is->ok) return SPARTA_OK;
    if (a->moved && a->units[i].broken) return say_unknown(c, a, i, is);
    if (is->broken) return say_broken(c, name, is);
    return sp_fail(
        c->cx, SPARTA_E_DIFFER,
        "compile: output '%s' differs from the reference by %.3g where %.3g is allowed%s (largest value "
        "%.3g); nothing was written; where the model magnifies rounding by more than that, give "
        "options.rtol %.1g; else a kernel is wrong: see whether options.dense_only mends it, and report it",
        name, is->max_abs, is->allowed, print_units(a, i, unit), is->largest, 2 * is->max_rel);
}

/* Where the fixed allowance is passed, the model at hand says what its last digits do. */
static sparta_status compare_units(const check *c, answer *a, int i, const sparta_tensor *got,
                                   sp_closeness *is)
{
    const sp_answer run = {a->in, c->g->n_inputs, a->want, a->slack};
    char unit[SP_UNITS_TEXT + 8];
    if (!a->moved) SP_TRY(sp_ops_units(c->cx, c->g, &run, is->broken, a->units));
    a->moved = true;
    compare(c, got, &a->want[i], a->slack[i], &a->units[i], is);
    if (is->ok)
        sp_note(c->cx,
                "compile: output '%s' differs from the reference by %.3g where %.3g is allowed%s (largest "
                "value %.3g)",
                c->g->output[i]->name, is->max_abs, is->allowed, print_units(a, i, unit), is->largest);
    return SPARTA_OK;
}

static sparta_status check_outputs(const check *c, const sparta_named_tensor *got, answer *a)
{
    for (int i = 0; i < c->g->n_outputs; i++) {
        sp_closeness is;
        compare(c, &got[i].tensor, &a->want[i], a->slack[i], NULL, &is);
        if (!is.ok && c->tolerance->atol < 0) SP_TRY(compare_units(c, a, i, &got[i].tensor, &is));
        SP_TRY(check_output(c, a, i, &is));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ running */

static sparta_status run_package(const check *c, int threads, const sparta_named_tensor *inputs, answer *a)
{
    const sp_graph *g = c->g;
    const sparta_session_options options = {.size = sizeof options, .threads = threads};
    sparta_named_tensor *got = sp_alloc_array(c->cx, (size_t)g->n_outputs + 1, sizeof *got);
    sparta_session *session = NULL;
    SP_NEED(c->cx, got);
    for (int i = 0; i < g->n_outputs; i++) got[i].name = g->output[i]->name;
    sparta_status s = sparta_session_create(c->cx, c->package, &options, &session);
    if (s == SPARTA_OK) {
        sp_session_share_from(session, 0); /* a few tokens, by all threads */
        sp_session_only(session, c->plan);
        s = sparta_session_run(c->cx, session, inputs, g->n_inputs, got, g->n_outputs);
    }
    if (s == SPARTA_OK) s = check_outputs(c, got, a);
    sparta_session_free(session);
    sp_free(c->cx, got);
    return s;
}

static sparta_status run_both(const check *c, const sparta_named_tensor *some, const sparta_named_tensor *all)
{
    const size_t n = (size_t)c->g->n_outputs;
    answer a = {.in = some, .want = sp_alloc_array(c->cx, n + 1, sizeof *a.want)};
    a.slack = sp_alloc_array(c->cx, n + 1, sizeof *a.slack);
    a.units = sp_alloc_array(c->cx, n + 1, sizeof *a.units);
    sparta_status s = a.want && a.slack && a.units ? SPARTA_OK : sp_ctx_status(c->cx);
    if (s == SPARTA_OK) s = sp_ops_answer(c->cx, c->g, &(sp_answer){some, c->g->n_inputs, a.want, a.slack});
    for (int threads = 1; threads <= 2 && s == SPARTA_OK; threads++) s = run_package(c, threads, all, &a);
    for (size_t i = 0; i < n && a.want; i++) sp_free(c->cx, a.want[i].data);
    if (a.units) sp_units_free(c->cx, a.units, (int)n);
    sp_free(c->cx, a.units);
    sp_free(c->cx, a.want);
    sp_free(c->cx, a.slack);
    return s;
}

static sparta_status run_check(check *c)
{
    const sp_graph *g = c->g;
    SP_TRY(plan(c));
    sparta_named_tensor *some = sp_alloc_array(c->cx, (size_t)g->n_inputs * 2 + 2, sizeof *some);
    SP_NEED(c->cx, some);
    sparta_named_tensor *all = some + g->n_inputs + 1;
    sparta_status s =
        sp_inputs_make(c->cx, g, &(sp_make_inputs){11, {c->symbol.n, c->symbol.name, c->size}}, some);
    if (s == SPARTA_OK) {
        s = repeat_all(c, some, all);
        if (s == SPARTA_OK) {
            s = run_both(c, some, all);
            sp_inputs_free(c->cx, all, g->n_inputs);
        }
        sp_inputs_free(c->cx, some, g->n_inputs);
    }
    sp_free(c->cx, some);
    return s;
}

sparta_status sp_lower_verify(sparta_ctx *cx, const sparta_package *p, sp_graph *g,
                              const sp_tolerance *tolerance)
{
    for (int plan = 0; plan <= p->n_others; plan++) {
        check c = {.cx = cx, .package = p, .g = g, .tolerance = tolerance, .plan = plan};
        c.most = plan && p->other[plan - 1].most <= SP_FEW_TOKENS ? p->other[plan - 1].most : INT64_MAX;
        SP_TRY(run_check(&c));
    }
    return SPARTA_OK;
}
