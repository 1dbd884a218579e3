/* tokens: several plans in one package. What is fastest for one token (weights read once, in rows) is not for a thousand (panels), so a model whose
 * number of tokens varies may be compiled for several: each plan is for a range of them, and a run takes the one that its sizes fall into.
 *
 *     --tokens 1,16,1024        1: one token      16: 2 to 16      128, as always: 17 to 362      1024: 363 and more
 *
 * Up to 16, where kernels for few tokens end, a plan is for that many at most; beyond it, for those that are nearer to it than to the next.
 *
 * A model that may run for few gets such plans without being asked: one whose items are its tokens (a multi-layer perceptron, a recommender), for 1, 4, 8 and 16 of them;
 * one that decodes (one token an item, or any number of them beside a past that is appended to), for one. */
#include "compile/estimate.h"
#include "compile/lower.h"
#include "run/run.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The numbers of the list and the usual one, sorted, each once. */
static sparta_status read_list(sparta_ctx *cx, const char *text, int64_t *all, int *n)
{
    all[(*n)++] = LOWER_TOKENS;
    for (const char *p = text;; p++) {
        char word[24] = "";
        const size_t length = strcspn(p, ",");
        if (length < sizeof word) memcpy(word, p, length);
        if (!sp_parse_int(word, &all[*n]) || all[*n] < 1 || all[*n] > INT32_MAX)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "options.tokens %.100s: '%.*s' is no number of tokens; give a list like 1,16,1024",
                           text, (int)SP_MIN(length, 20), p);
        bool known = false;
        for (int i = 0; i < *n; i++) known |= all[i] == all[*n];
        if (!known && ++*n > SP_OTHER_PLANS)
            return sp_fail(cx, SPARTA_E_USAGE, "options.tokens %.100s: at most %d numbers", text,
                           SP_OTHER_PLANS - 1);
        p += length;
        if (!*p) break;
    }
    qsort(all, (size_t)*n, sizeof *all, by_size);
    return SPARTA_OK;
}

static int64_t between(int64_t a, int64_t b)
{
    return (int64_t)sqrt((double)a * (double)b);
}

/* Tokens of every product at these sizes, where they are few then and not known to be; else 0. */
static sparta_status few_at(const lowering *l, const sp_bindings *sizes, int64_t *out)
{
    *out = 0;
    int64_t most = 0;
    for (int i = 0; i < l->g->n_nodes; i++) {
        const sp_value *x = sp_node_is_fused(l->g->node[i]) ? l->g->node[i]->in[0] : NULL;
        int64_t dim[SPARTA_RANK], known, tokens = 1;
        if (!x || x->dims.rank < 2) continue;
        SP_TRY(sp_lower_most_tokens(l->cx, l->g, x, &known));
        const sparta_status s = sp_dims_eval(l->cx, &x->dims, sizes, dim);
        if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
        if (s != SPARTA_OK) sp_ctx_clear(l->cx); /* not known: no reason to fail */
        for (int d = 0; d + 1 < x->dims.rank && s == SPARTA_OK; d++)
            if (!sp_int_mul(tokens, dim[d], &tokens)) tokens = 0;
        if (s != SPARTA_OK || known || tokens < 1 || tokens > SP_FEW_TOKENS) return SPARTA_OK;
        most = SP_MAX(most, tokens);
    }
    *out = most;
    return SPARTA_OK;
}

bool sp_lower_has_items_alone(const sp_graph *g)
{
    bool open = false;
    int64_t size;
    for (int i = 0; i < g->n_nodes; i++)
        if (SP_OP_AMONG(g->node[i]->op, SP_OP_Conv, SP_OP_ConvTranspose)) return false;
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_dims *d = &g->input[i]->dims;
        if (d->rank > 2 || (d->rank == 2 && !sp_expr_is_const(d->dim[1], &size))) return false;
        open |= d->rank && !sp_expr_is_const(d->dim[0], &size);
    }
    return open;
}

/* One of everything but what came before: the sizes of the smallest run of a model. Plans below the least of a bound are not made (sp_lower_may_have). */
static sparta_status smallest_run(const lowering *l, sp_bindings *out, bool *decodes)
{
    int64_t *value = sp_arena_array(l->g->arena, (size_t)l->sizes.n + 1, sizeof *value);
    SP_NEED(l->cx, value);
    *decodes = false;
    for (int i = 0; i < l->sizes.n; i++) {
        const bool past = sp_compile_is_past(l->g, l->sizes.name[i]);
        value[i] = past ? l->sizes.value[i] : 1;
        *decodes |= past;
    }
    *out = (sp_bindings){l->sizes.n, l->sizes.name, value};
    return SPARTA_OK;
}

static const int64_t of_items[] = {1, 4, 8, SP_FEW_TOKENS};

/* The plans of a model of which nobody said how many tokens it is for. */
static sparta_status unasked(const lowering *l, lower_range *out, int *n)
{
    const bool items = sp_lower_has_items_alone(l->g);
    sp_bindings sizes;
    int64_t few;
    bool decodes;
    SP_TRY(few_at(l, &l->sizes, &few));
    SP_TRY(smallest_run(l, &sizes, &decodes));
    if (!few && (items || decodes)) SP_TRY(few_at(l, &sizes, &few));
    if (few && (few > 1 || !items)) out[(*n)++] = (lower_range){.tokens = few, .least = 1, .most = few};
    for (size_t i = 0; few == 1 && items && i < SP_COUNT(of_items); i++)
        out[(*n)++] = (lower_range){of_items[i], .least = i ? of_items[i - 1] + 1 : 1, .most = of_items[i]};
    return SPARTA_OK;
}

sparta_status sp_lower_ranges(const lowering *l, lower_range *out, int *n)
{
    const char *text = l->request->options.tokens;
    int64_t all[SP_OTHER_PLANS + 2], from = 1;
    int count = 0;
    *n = 0;
    if (!text) return unasked(l, out, n);
    SP_TRY(read_list(l->cx, text, all, &count));
    for (int i = 0; i < count; i++) {
        const bool few = all[i] <= SP_FEW_TOKENS;
        if (!few) from = SP_MAX(from, SP_FEW_TOKENS + 1);
        const int64_t to = few ? all[i] : i + 1 < count ? between(all[i], all[i + 1]) : INT64_MAX;
        if (all[i] != LOWER_TOKENS) out[(*n)++] = (lower_range){.tokens = all[i], .least = from, .most = to};
        from = to == INT64_MAX ? to : to + 1;
    }
    return SPARTA_OK;
}

/* Where its symbols may be anything, 1: plans for none are not made. */
static int64_t least_of(const sp_graph *g, const sp_expr *dim)
{
    const char *name;
    int64_t size;
    if (sp_expr_is_const(dim, &size)) return size;
    return sp_expr_is_symbol(dim, &name) ? SP_MAX(1, sp_graph_bound(g, name).least) : 1;
}

bool sp_lower_may_have(const sp_graph *g, int64_t tokens)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_value *x = sp_node_is_fused(g->node[i]) ? g->node[i]->in[0] : NULL;
        int64_t least = 1;
        for (int d = 0; x && d + 1 < x->dims.rank; d++)
            if (!sp_int_mul(least, least_of(g, x->dims.dim[d]), &least)) return false;
        if (least > tokens) return false;
    }
    return true;
}

/* ------------------------------------------------------------------ is it faster? */

enum { TURNS = 15 };

/* The best of some runs of each plan, in turns. */
static sparta_status race(sparta_ctx *cx, const sp_graph *g, sparta_session *s, int plan,
                          const sparta_named_tensor *inputs, double best[2])
{
    best[0] = best[1] = INFINITY;
    for (int turn = 0; turn < TURNS; turn++)
        for (int k = 0; k < 2; k++) {
            sp_session_only(s, k ? plan : 0);
            const double start = sp_now();
            SP_TRY(sparta_session_run(cx, s, inputs, g->n_inputs, NULL, 0));
            if (turn) best[k] = fmin(best[k], sp_now() - start); /* the first lays buffers out */
        }
    return SPARTA_OK;
}

/* Is the newest of the other plans faster than the plan itself, at the sizes it was made for? */
static sparta_status is_faster(lowering *l, bool *out)
{
    const sparta_package *p = l->package;
    const sparta_session_options options = {.size = sizeof options, .threads = 1};
    const sp_graph *g = p->plan;
    sparta_session *s = NULL;
    double best[2] = {1, 1};
    sparta_named_tensor *inputs = sp_alloc_array(l->cx, (size_t)g->n_inputs + 1, sizeof *inputs);
    SP_NEED(l->cx, inputs);
    sparta_status status = sp_inputs_make(l->cx, g, &(sp_make_inputs){7, l->sizes}, inputs);
    if (status == SPARTA_OK) {
        status = sparta_session_create(l->cx, p, &options, &s);
        if (status == SPARTA_OK) status = race(l->cx, g, s, p->n_others, inputs, best);
        sparta_session_free(s);
        sp_inputs_free(l->cx, inputs, g->n_inputs);
    }
    sp_free(l->cx, inputs);
    *out = best[1] < best[0] * (1 - LOWER_NOISE);
    return status;
}

/* What a plan has brought into the package goes again. */
static sparta_status take_back(sparta_package *p, int weights, int kernels)
{
    sp_graph_free(p->other[--p->n_others].plan);
    for (int i = weights; i < p->n_weights; i++)
        if (p->weight[i].owned) sp_packed_free(p->cx, &p->weight[i].pack);
    p->n_weights = weights;
    p->n_kernels = kernels;
    sp_map_free(p->by_name);
    p->by_name = sp_map_create(p->cx);
    SP_NEED(p->cx, p->by_name);
    for (int i = 0; i < weights; i++) SP_TRY(sp_map_put(p->by_name, p->weight[i].name, i));
    return SPARTA_OK;
}

sparta_status sp_lower_other(lowering *l, const lower_range *range)
{
    sparta_package *p = l->package;
    const int weights = p->n_weights, kernels = p->n_kernels;
    bool faster = true;
    sparta_status s = sp_lower_plan(l);
    p->other[p->n_others++] = (sp_other_plan){range->least, range->most, l->g};
    if (s == SPARTA_OK && !l->no_measure) s = is_faster(l, &faster);
    return s == SPARTA_OK && !faster ? take_back(p, weights, kernels) : s;
}

void sp_lower_choices(const lowering *l, sp_text *out)
{
    for (int i = 0; i < l->n_nodes; i++)
        sp_text_printf(out, "%s %s %s\n", l->node[i].im->name, l->node[i].point,
                       sp_layout_name(l->node[i].layout));
}
