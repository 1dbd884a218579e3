/* computed: what a schedule says of values that the model computes. `sparsify` puts a Sparsify between a value and those who read it:
 *
 *     Relu --> MatMul                      tensor "/fc1/Relu:output" { sparsify topk(10%) }
 *     Relu --> Sparsify {keep=410} --> MatMul
 *
 * `similarity` is of pairs, the scores of an attention, and of the queries and keys that the scores are the products of:
 *
 *     MatMul(q, k) --> Mul --> Add --> Softmax                       tensor "/Softmax:input" { sparsify similarity(topk=4, block=64) }
 *     MatMul(q, k) --> Mul --> Add --> Sparsify(., q, k) --> Softmax
 *
 * Which elements stay is found out in every run. What the compiler is told is how many at most (keep), and how many it may count on (expect):
 * products that read the result compete with that share of their input present (implement few_skip; matmul_skip of two
 * values that are computed); an attention that is recognised around pairs takes the blocks of keys that stay, and no others (implement attention_skip). Whoever compares answers, compile itself and
 * verify, runs the same graph on the references.
 */
#include "compile/lower.h"
#include "builtin/functions.h"
#include "ops/ops.h"
#include <stdio.h>
#include <string.h>

typedef struct job { /* one value */
    sparta_ctx *cx;
    sp_graph *g;
    const sp_schedule_edge *edge;
    int64_t features; /* of a line */
} job;

typedef struct dropping { /* what a sparsifier asks for: the attributes of Sparsify */
    int64_t keep;         /* 0: all */
    double above, expect; /* expect: a share; 0: not said */
    bool banded;
    int64_t left, right;
    const char *function; /* NULL: none */
    /* Of pairs: keep counts blocks of so many columns. NULL: none. */
    sp_value *q, *k;
    int64_t block;
    bool own;
    double share; /* of the pairs that stay, at most; 0: nobody knows */
} dropping;

/* ------------------------------------------------------------------ sparsifiers: a function for each row of sparsifiers.def */

static sparta_status drop_topk(const job *j, const sp_schedule_call *call, dropping *out)
{
    out->keep = sp_schedule_part(sp_schedule_arg_of(call, "k"), j->features);
    return SPARTA_OK;
}

static sparta_status drop_threshold(const job *j, const sp_schedule_call *call, dropping *out)
{
    const sp_schedule_arg *bound = sp_schedule_arg_of(call, "bound");
    if (!sp_parse_double(sp_schedule_arg_of(call, "value")->text, &out->above)) return SPARTA_E_INTERNAL;
    if (out->above > 1e30)
        return sp_fail(j->cx, SPARTA_E_USAGE, "threshold: nothing is as large as %g; give a smaller value",
                       out->above);
    if (bound) out->keep = sp_schedule_part(bound, j->features);
    return SPARTA_OK;
}

static sparta_status drop_bands(const job *j, const sp_schedule_call *call, dropping *out)
{
    int64_t wide;
    if (j->edge->value->dims.rank < 2)
        return sp_fail(j->cx, SPARTA_E_USAGE, "bands: it has one dimension; bands are of matrices");
    if (!sp_parse_int(sp_schedule_arg_of(call, "left")->text, &out->left) ||
        !sp_parse_int(sp_schedule_arg_of(call, "right")->text, &out->right))
        return SPARTA_E_INTERNAL;
    out->banded = true;
    if (sp_int_add(out->left, out->right, &wide) && wide < j->features)
        out->expect = (double)(wide + 1) / (double)j->features;
    return SPARTA_OK;
}

static sparta_status drop_function(const job *j, const sp_schedule_call *call, dropping *out)
{
    const sp_schedule_arg *bound = sp_schedule_arg_of(call, "bound");
    const sp_line_function *known;
    out->function = sp_schedule_arg_of(call, "name")->text;
    if (bound) out->keep = sp_schedule_part(bound, j->features);
    return sp_line_function_find(j->cx, out->function, &known);
}

/* The product that scores come from, through what scales, masks and regroups them; NULL: none. */
static const sp_node *product_of(const sp_value *v, const sp_dims *scores, int depth)
{
    const sp_node *n = v ? v->producer : NULL;
    if (!n || !depth || !v->typed || v->dims.rank < 2) return NULL;
    for (int i = 1; i <= 2; i++)
        if (!sp_expr_equal(v->dims.dim[v->dims.rank - i], scores->dim[scores->rank - i])) return NULL;
    if (n->op == SP_OP_MatMul) return n->in[0]->constant || n->in[1]->constant ? NULL : n;
    if (!SP_OP_AMONG(n->op, SP_OP_Add, SP_OP_Sub, SP_OP_Mul, SP_OP_Div, SP_OP_Where, SP_OP_Tanh, SP_OP_Cast,
                     SP_OP_Reshape, SP_OP_Unsqueeze, SP_OP_Squeeze, SP_OP_Identity))
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        const sp_node *found = product_of(n->in[i], scores, depth - 1);
        if (found) return found;
    }
    return NULL;
}

/* Is it read by softmaxes along its last axis, and by them alone? Others would meet infinities. */
static bool are_scores(const job *j)
{
    const sp_value *v = j->edge->value;
    bool any = false;
    for (int i = 0; i < j->g->n_nodes; i++) {
        const sp_node *n = j->g->node[i];
        for (int k = 0; k < n->n_in; k++) {
            if (n->in[k] != v || (j->edge->reader && (n != j->edge->reader || k))) continue;
            const int64_t axis = sp_attr_int(&n->attrs, "axis", -1);
            if (n->op != SP_OP_Softmax || (axis != -1 && axis != v->dims.rank - 1)) return false;
            any = true;
        }
    }
    return any;
}

static const sp_expr *matrices(sp_arena *arena, const sp_dims *d)
{
    const sp_expr *n = sp_expr_const(arena, 1);
    for (int i = 0; n && i < d->rank - 2; i++) n = sp_expr_mul(arena, n, d->dim[i]);
    return n;
}

static sparta_status drop_similarity(const job *j, const sp_schedule_call *call, dropping *out)
{
    enum { DEEPEST = 12 };
    const sp_dims *x = &j->edge->value->dims;
    const sp_schedule_arg *block = sp_schedule_arg_of(call, "block");
    const sp_node *product = are_scores(j) ? product_of(j->edge->value, x, DEEPEST) : NULL;
    if (!product || product->in[0]->dtype != j->edge->value->dtype)
        return sp_fail(
            j->cx, SPARTA_E_USAGE,
            "similarity is of the scores of an attention: of what a Softmax along the last axis reads "
            "and a product of queries and keys makes; name that, \"/attention/Softmax:input\"");
    out->q = product->in[0], out->k = product->in[1];
    out->block = 1;
    if (block && (!sp_parse_int(block->text, &out->block) || out->block < 1 || out->block > INT32_MAX))
        return sp_fail(j->cx, SPARTA_E_USAGE, "similarity: block=%.60s: a block has 1 to %d rows and columns",
                       block->text, INT32_MAX);
    const sp_expr *of[] = {matrices(j->g->arena, x), matrices(j->g->arena, &out->q->dims),
                           matrices(j->g->arena, &out->k->dims)};
    SP_NEED(j->cx, of[0] && of[1] && of[2]);
    if (!sp_expr_equal(of[0], of[1]) || !sp_expr_equal(of[0], of[2]))
        return sp_fail(
            j->cx, SPARTA_E_UNSUPPORTED,
            "similarity: queries, keys and scores are not as many matrices; heads that repeat must be "
            "written out");
    const int64_t blocks = j->features > 0 ? (j->features - 1) / out->block + 1 : INT32_MAX;
    out->keep = sp_schedule_part(sp_schedule_arg_of(call, "topk"), blocks);
    out->own = sp_expr_equal(x->dim[x->rank - 2], x->dim[x->rank - 1]);
    out->share = j->features > 0 ? SP_MIN(1, (double)(out->keep + out->own) / (double)blocks) : 1;
    return SPARTA_OK;
}

static sparta_status of_weights(const job *j, const sp_schedule_call *call, dropping *out)
{
    (void)out;
    return sp_fail(
        j->cx, SPARTA_E_UNSUPPORTED,
        "sparsify %.60s is for weights; what is computed as the model runs takes topk(64), topk(10%%), "
        "threshold(0.01), bands(left=2, right=2), similarity(topk=4, block=64) or function(\"name\")",
        call->name);
}
#define drop_magnitude of_weights
#define drop_mask      of_weights
#define drop_python    of_weights

/* Is a share of a line asked for, or how much of one stays? Blocks are counted without. */
static sparta_status has_features(const job *j, const sp_schedule_call *call)
{
    const bool counts =
        call->row->id == SP_SPARSIFIER_similarity && !strchr(sp_schedule_arg_of(call, "topk")->text, '%');
    if (counts || j->features > 0) return SPARTA_OK;
    return sp_fail(j->cx, SPARTA_E_UNSUPPORTED,
                   "its last dimension is no number, so that nobody can say how much of a line stays; fix it "
                   "with --dim");
}

static sparta_status asked_for(const job *j, const sp_schedule_call *call, dropping *out)
{
    static sparta_status (*const run[])(const job *, const sp_schedule_call *, dropping *) = {
#define SP_SPARSIFIER(id, usage, ...) [SP_SPARSIFIER_##id] = drop_##id,
#include "schedule/sparsifiers.def"
#undef SP_SPARSIFIER
        [SP_SPARSIFIERS] = of_weights};
    *out = (dropping){0};
    SP_TRY(has_features(j, call));
    SP_TRY(run[call->row->id](j, call, out));
    if (out->q) return SPARTA_OK;
    const sp_schedule_arg *expect = sp_schedule_arg_of(call, "expect");
    if (expect) out->expect = (double)sp_schedule_part(expect, j->features) / (double)j->features;
    if (out->keep == j->features) out->keep = 0;
    if (out->keep && out->expect * (double)j->features > (double)out->keep)
        return sp_fail(j->cx, SPARTA_E_USAGE,
                       "expect=%.60s: at most %lld of %lld stay; expect no more than that", expect->text,
                       (long long)out->keep, (long long)j->features);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one value */

static sparta_status may_be_sparsified(job *j)
{
    const sp_value *v = j->edge->value;
    if (!v->typed || !sp_dtype_is_float(v->dtype))
        return sp_fail(j->cx, SPARTA_E_USAGE, "it holds %s; only numbers of a float type can be sparsified",
                       v->typed ? sparta_dtype_name(v->dtype) : "something unknown");
    if (v->dims.rank < 1 || !sp_expr_is_const(v->dims.dim[v->dims.rank - 1], &j->features)) j->features = 0;
    if (v->is_output && !j->edge->reader)
        return sp_fail(
            j->cx, SPARTA_E_UNSUPPORTED,
            "it is an output of the model, and would change for whoever calls it; name what a layer "
            "reads, \"NODE:input\"");
    return SPARTA_OK;
}

/* Of its own: a value may be sparsified for all, and once more for some who read it. */
static const char *name_of(const job *j)
{
    const char *after = j->edge->reader ? j->edge->reader->name : j->edge->value->name;
    const char *name = sp_arena_printf(j->g->arena, "%s/Sparsify", after);
    for (int i = 0, more = 2; name && i < j->g->n_nodes; i++) {
        if (strcmp(j->g->node[i]->name, name)) continue;
        name = sp_arena_printf(j->g->arena, "%s/Sparsify_%d", after, more++);
        i = -1;
    }
    return name;
}

/* The value behind a Sparsify, to those who are meant. */
static sparta_status put_sparsify(const job *j, const dropping *d, const sp_node **first)
{
    sp_graph *g = j->g;
    sp_value *v = j->edge->value, *thin;
    sp_node *node;
    int at = g->n_nodes;
    sp_attr attr[6];
    sp_attrs attrs = {0, attr};
    if (d->keep) attr[attrs.n++] = SP_INT("keep", d->keep);
    if (d->above > 0) attr[attrs.n++] = SP_FLOAT("above", (float)d->above);
    if (d->expect > 0) attr[attrs.n++] = SP_FLOAT("expect", (float)d->expect);
    if (d->banded) attr[attrs.n++] = SP_INT("left", d->left), attr[attrs.n++] = SP_INT("right", d->right);
    if (d->function) attr[attrs.n++] = SP_STRING("function", sp_arena_string(g->arena, d->function));
    if (d->q) attr[attrs.n++] = SP_INT("block", d->block), attr[attrs.n++] = SP_INT("own", d->own);
    const char *name = name_of(j);
    SP_NEED(j->cx, name);
    SP_TRY(sp_graph_add_value(g, NULL, &thin));
    thin->dims = v->dims;
    thin->dtype = v->dtype;
    thin->typed = true;
    for (int i = g->n_nodes; i-- > 0;)
        for (int k = 0; k < g->node[i]->n_in; k++) {
            if (g->node[i]->in[k] != v || (j->edge->reader && (g->node[i] != j->edge->reader || k))) continue;
            g->node[i]->in[k] = thin;
            at = i;
        }
    *first = at < g->n_nodes ? g->node[at] : NULL;
    sp_value *in[] = {v, d->q, d->k};
    SP_TRY(sp_graph_add_node(g, SP_OP_Sparsify, name, d->q ? 3 : 1, in, 1, &thin, &attrs, &node));
    sp_graph_move_node(g, at, node);
    return SPARTA_OK;
}

static sparta_status only_sparsify(const job *j)
{
    for (int k = 0; k < SP_CLAUSES; k++) {
        const sparta_schedule_rule *rule = j->edge->rule[k];
        if (k == SP_CLAUSE_SPARSIFY || !rule) continue;
        sp_fail(j->cx, SPARTA_E_UNSUPPORTED,
                "'%.100s': %s %.100s: of what is computed only sparsify can be said; what runs the layer "
                "that reads "
                "it is said of that layer's weight",
                j->edge->value->name, sp_clause_word((sp_clause_kind)k), rule->clause[k].text);
        return sp_lower_fail_at(j->cx, rule->clause[k].at);
    }
    return SPARTA_OK;
}

static sparta_status obey_one(job *j, sp_obeyed *out)
{
    const sparta_schedule_rule *rule = j->edge->rule[SP_CLAUSE_SPARSIFY];
    SP_TRY(only_sparsify(j));
    if (!rule) return SPARTA_OK;
    const sp_schedule_clause *c = &rule->clause[SP_CLAUSE_SPARSIFY];
    const sp_node *first = NULL;
    dropping d;
    sparta_status s = may_be_sparsified(j);
    if (s == SPARTA_OK) s = asked_for(j, &c->call, &d);
    if (s != SPARTA_OK) {
        sp_fail_in(j->cx, "'%.100s'", j->edge->value->name);
        return sp_lower_fail_at(j->cx, c->at);
    }
    SP_TRY(put_sparsify(j, &d, &first));
    sp_effect *e = &out->effect[out->n++];
    *e = (sp_effect){.at = c->at,
                     .clause = sp_clause_word(SP_CLAUSE_SPARSIFY),
                     .text = c->text,
                     .glob = rule->glob,
                     .tensor = j->edge->value->name,
                     .layer = first ? first->name : "",
                     .k = j->features,
                     .point = "",
                     .before = 1,
                     .after = d.q      ? d.share
                              : d.keep ? (double)d.keep / (double)j->features
                                       : 1};
    snprintf(e->pattern, sizeof e->pattern, "as it runs");
    return SPARTA_OK;
}

sparta_status sp_lower_computed(sparta_ctx *cx, sp_graph *g, const sparta_schedule *s, sp_obeyed *done)
{
    sp_schedule_edge *edge;
    int n;
    SP_TRY(sp_schedule_edges(s, g, g->arena, &edge, &n));
    if (!n) return SPARTA_OK;
    SP_TRY(sp_ops_infer(g)); /* shares need sizes */
    SP_TRY(sp_schedule_edges(s, g, g->arena, &edge, &n));
    sp_effect *all = sp_arena_array(g->arena, (size_t)(done->n + n) + 1, sizeof *all);
    SP_NEED(cx, all);
    if (done->n) memcpy(all, done->effect, (size_t)done->n * sizeof *all);
    done->effect = all;
    for (int i = 0; i < n; i++) {
        job j = {.cx = cx, .g = g, .edge = &edge[i]};
        SP_TRY(sp_check_cancel(cx));
        SP_TRY(obey_one(&j, done));
    }
    return SPARTA_OK;
}
