/* The first value that differs.
 *
 *   1  both models on the references, value by value: a difference there is one of weights or of the graph
 *   2  when they agree, a kernel is wrong: the package's graph is compiled anew with every value an output, and what
 *      it computes is compared with the references
 *
 * Values are matched by name, and by (operator, node, output): a package keeps values in panels, whose names are
 * new, but fusion leaves nodes their names. So a model that is compared with a package is fused first. */
#include "measure/side.h"
#include "ops/ops.h"
#include <string.h>

typedef struct kept {
    sparta_tensor tensor;
    double slack;     /* for close.h */
    const char *name; /* to show */
} kept;

typedef struct search {
    sparta_ctx *cx;
    sp_arena *arena; /* keys, the list of kept values */
    const sp_verify_request *r;
    sp_map *at; /* key -> index of a kept value */
    int n, capacity;
    kept *kept;
    sp_scales scales;  /* of the graph that runs */
    bool rounding;     /* of what an output that differs may be off by, most is what rounding does */
    const char *first; /* found */
} search;

/* The graphs that were made for looking, and what they live in. */
typedef struct plain {
    const sp_graph *graph;
    sp_graph *unplanned;
    sp_model *model;
} plain;

/* What the schedule says of the weights; its dims and target are for compiling. */
static sparta_status obey(sparta_ctx *cx, sp_graph *g, const char *path)
{
    sparta_schedule *schedule;
    sp_obeyed obeyed;
    if (!path) return SPARTA_OK;
    SP_TRY(sparta_schedule_open(cx, path, &schedule));
    sparta_status status = sp_compile_schedule(cx, g, schedule, &obeyed);
    sparta_schedule_free(schedule);
    return status;
}

static sparta_status remove_all(sp_graph *g, const char *const *remove)
{
    if (!remove) return SPARTA_OK;
    SP_TRY(sp_ops_infer(g));
    for (int i = 0; remove[i]; i++) SP_TRY(sp_propagate_remove(g, remove[i]));
    return SPARTA_OK;
}

/* Of two ONNX files A is what became of B: masks, the schedule and what is removed are for B alone. */
static sparta_status is_result(const sp_side *s, const sp_verify_request *r, bool *out)
{
    sparta_file_kind kind;
    SP_TRY(sparta_file_kind_of(s->cx, r->against, &kind));
    *out = s->path == r->a && kind == SPARTA_FILE_ONNX;
    return SPARTA_OK;
}

sparta_status sp_side_model(const sp_side *s, const sp_verify_request *r, sp_model **out)
{
    sp_import_options options = sp_import_options_of(&r->compile.options);
    sp_model *m = NULL;
    bool result;
    SP_TRY(is_result(s, r, &result));
    SP_TRY(sp_model_open(s->cx, s->path, &options, &m));
    sparta_status status = s->bound ? sp_ops_bind(m->graph, &r->sizes) : SPARTA_OK;
    if (!status) status = r->masks && !result ? sp_compile_masks(s->cx, m->graph, r->masks, NULL) : SPARTA_OK;
    if (!status && !result) status = obey(s->cx, m->graph, r->compile.options.schedule);
    if (!status && !result) status = remove_all(m->graph, r->compile.options.remove);
    if (status) {
        sp_model_close(m);
        return status;
    }
    *out = m;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ matching */

/* "Linear /encoder/layer.0/... 0"; NULL for what has no named producer (no message) or without memory. */
static const char *node_key(search *s, const sp_value *v)
{
    const sp_node *n = v->producer;
    int i = 0;
    if (!n || !*n->name) return NULL;
    while (i < n->n_out && n->out[i] != v) i++;
    return sp_arena_printf(s->arena, "%s %s %d", sp_builtin_row(n->op)->name, n->name, i);
}

static bool find(search *s, const sp_value *v, int64_t *at)
{
    const char *key;
    if (sp_map_get(s->at, v->name, at)) return true;
    return (key = node_key(s, v)) && sp_map_get(s->at, key, at);
}

/* A name that the package made up says nothing: its node does. */
static const char *shown(const sp_value *v)
{
    return v->name[0] == '%' && v->producer && *v->producer->name ? v->producer->name : v->name;
}

static sparta_status keep_value(void *arg, const sp_value *v, const sparta_tensor *t)
{
    search *s = arg;
    SP_GROW(s->arena, s->kept, s->n, s->capacity);
    kept *k = &s->kept[s->n];
    SP_TRY(sp_tensor_alloc(s->cx, t->dtype, t->rank, t->dim, &k->tensor));
    k->name = shown(v);
    SP_TRY(sp_scales_watch(&s->scales, v, t));
    k->slack = sp_slack(&s->scales, v);
    s->n++; /* counted now, so that it is freed whatever happens */
    SP_TRY(sp_tensor_copy(s->cx, t, &k->tensor));
    SP_TRY(sp_map_put(s->at, v->name, s->n - 1));
    const char *key = node_key(s, v);
    return key ? sp_map_put(s->at, key, s->n - 1) : SPARTA_OK;
}

static bool differs(const search *s, const sparta_tensor *a, const sparta_tensor *b, double slack)
{
    sp_closeness one;
    if (a->dtype != b->dtype) return false; /* narrow in a package, where only elements are moved */
    return !sp_close(a, b, &s->r->tolerance, slack, &one);
}

static sparta_status compare_value(void *arg, const sp_value *v, const sparta_tensor *t)
{
    search *s = arg;
    int64_t at;
    SP_TRY(sp_scales_watch(&s->scales, v, t));
    if (!s->first && find(s, v, &at) && differs(s, &s->kept[at].tensor, t, sp_slack(&s->scales, v)))
        s->first = shown(v);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ both on the references */

static sparta_status open_plain(sp_side *side, const sp_side *other, const sp_verify_request *r, plain *p)
{
    p->graph = side->graph;
    if (side->package) {
        SP_TRY(sp_compile_unplan(side->cx, side->package, &p->unplanned));
        p->graph = p->unplanned;
        return sp_ops_infer(p->unplanned);
    }
    if (!other->package) return SPARTA_OK;
    SP_TRY(sp_side_model(side, r, &p->model));
    p->graph = p->model->graph;
    return sp_compile_passes(p->model->graph);
}

static void close_plain(plain *p)
{
    sp_graph_free(p->unplanned);
    if (p->model) sp_model_close(p->model);
}

static sparta_status run_watched(search *s, const sp_graph *g, const sparta_named_tensor *in, int n_in,
                                 sp_ops_watch watch)
{
    sparta_tensor *out = sp_alloc_array(s->cx, (size_t)g->n_outputs + 1, sizeof *out);
    SP_NEED(s->cx, out);
    sparta_status status = sp_scales_create(s->cx, g, in, n_in, &s->scales);
    if (!status) status = sp_ops_run(s->cx, g, in, n_in, out, watch, s);
    sp_scales_free(&s->scales);
    for (int i = 0; i < g->n_outputs && !status; i++) sp_free(s->cx, out[i].data);
    sp_free(s->cx, out);
    return status;
}

/* ------------------------------------------------------------------ the package's kernels */

/* In the order of the nodes, so that the first one that differs is the first one computed. */
static sparta_status all_outputs(sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++) {
            sp_value *v = g->node[i]->out[k];
            if (!v->is_output && v->dtype == SPARTA_F32) SP_TRY(sp_graph_add_output(g, v));
        }
    return SPARTA_OK;
}

static sparta_status compare_session(search *s, const sparta_package *p, const sparta_named_tensor *in,
                                     int n_in)
{
    sparta_session_options options = {sizeof options, s->r->threads, 0};
    sparta_session *session = NULL;
    const sp_graph *plan = p->plan;
    sparta_named_tensor *out = sp_alloc_array(s->cx, (size_t)plan->n_outputs + 1, sizeof *out);
    SP_NEED(s->cx, out);
    for (int i = 0; i < plan->n_outputs; i++) out[i].name = plan->output[i]->name;
    sparta_status status = sparta_session_create(s->cx, p, &options, &session);
    if (!status) status = sparta_session_run(s->cx, session, in, n_in, out, plan->n_outputs);
    int64_t first = INT64_MAX, at; /* kept in the order they were computed */
    for (int i = 0; i < plan->n_outputs && !status; i++)
        if (sp_map_get(s->at, out[i].name, &at) && at < first &&
            differs(s, &out[i].tensor, &s->kept[at].tensor, s->kept[at].slack))
            first = at;
    if (first < INT64_MAX) s->first = s->kept[first].name;
    sparta_session_free(session);
    sp_free(s->cx, out);
    return status;
}

static sparta_status find_kernel(search *s, const sparta_package *of, const sparta_named_tensor *in, int n_in)
{
    sp_compile_request request = s->r->compile;
    sp_graph *g = NULL;
    sparta_package *p = NULL;
    request.options.no_measure = 1;
    request.options.remeasure = 0;
    request.options.masks = NULL;
    request.options.dims = NULL;
    request.no_verify = true;
    SP_TRY(sp_compile_unplan(s->cx, of, &g));
    sparta_status status = sp_ops_infer(g);
    if (!status) status = all_outputs(g);
    if (!status) status = sp_compile_graph(s->cx, g, &request, &p);
    if (status) {
        sp_graph_free(g);
        return status;
    }
    status = compare_session(s, p, in, n_in);
    sparta_package_close(p);
    return status;
}

/* ------------------------------------------------------------------ looking */

static sparta_status look(search *s, sp_side *a, sp_side *b, plain p[2], const sparta_named_tensor *in,
                          int n_in)
{
    SP_TRY(open_plain(a, b, s->r, &p[0]));
    SP_TRY(open_plain(b, a, s->r, &p[1]));
    SP_TRY(run_watched(s, p[0].graph, in, n_in, keep_value));
    SP_TRY(run_watched(s, p[1].graph, in, n_in, compare_value));
    if (s->first || !a->package) return SPARTA_OK; /* what was kept are a's values, by its names */
    SP_TRY(find_kernel(s, a->package, in, n_in));
    sp_note(s->cx, "verify: the references of both models agree; a kernel of %s computes something else%s",
            a->path, s->rounding ? ", or the model magnifies rounding by more than was measured" : "");
    return SPARTA_OK;
}

static bool magnifies(const sp_verify_output *o)
{
    return !o->ok && (o->unit_broken || o->unit > o->allowed / 4);
}

sparta_status sp_first_difference(sp_side *a, sp_side *b, const sparta_named_tensor *in, int n_in,
                                  const sp_verify_request *r, sp_arena *arena, sp_verify_result *out)
{
    search s = {.cx = a->cx, .arena = arena, .r = r, .at = sp_map_create(a->cx)};
    plain p[2] = {{0}, {0}};
    SP_NEED(a->cx, s.at);
    for (int i = 0; i < out->n_outputs; i++) s.rounding |= magnifies(&out->output[i]);
    sparta_status status = look(&s, a, b, p, in, n_in);
    const char *name = s.first;
    for (int i = 0; i < out->n_outputs && !name; i++)
        if (!out->output[i].ok) name = out->output[i].name;
    if (!status) out->first_difference = sp_arena_string(arena, name ? name : "");
    if (!status && !out->first_difference) status = sp_ctx_status(a->cx);
    for (int i = 0; i < s.n; i++) sp_free(s.cx, s.kept[i].tensor.data);
    sp_map_free(s.at);
    close_plain(&p[0]);
    close_plain(&p[1]);
    return status;
}
