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
    sparta_arena *arena; /* keys */
    const sparta_verify_request *r;
    sparta_map *at; /* key -> index of a kept value */
    int n, capacity;
    kept *kept;
    sparta_scales scales; /* of the graph that is walked */
    const char *first;    /* found */
} search;

/* The graphs that were made for looking, and what they live in. */
typedef struct plain {
    const sparta_graph *graph;
    sparta_graph *unplanned;
    sparta_model *model;
} plain;

/* What the schedule says of the weights; its dims and target are for compiling. */
static sparta_status obey(sparta_ctx *cx, sparta_graph *g, const char *path)
{
    sparta_schedule *schedule;
    sparta_obeyed obeyed;
    if (!path) return SPARTA_OK;
    SPARTA_TRY(sparta_schedule_open(cx, path, &schedule));
    sparta_status status = sparta_compile_schedule(cx, g, schedule, &obeyed);
    sparta_schedule_free(schedule);
    return status;
}

static sparta_status remove_all(sparta_graph *g, const char *const *remove)
{
    if (!remove) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_infer(g));
    for (int i = 0; remove[i]; i++) SPARTA_TRY(sparta_propagate_remove(g, remove[i]));
    return SPARTA_OK;
}

/* Of two ONNX files A is what became of B: masks, the schedule and what is removed are for B alone. */
static sparta_status is_result(const sparta_side *s, const sparta_verify_request *r, bool *out)
{
    sparta_file_kind kind;
    SPARTA_TRY(sparta_file_kind_of(s->cx, r->against, &kind));
    *out = s->path == r->a && kind == SPARTA_FILE_ONNX;
    return SPARTA_OK;
}

sparta_status sparta_side_model(const sparta_side *s, const sparta_verify_request *r, sparta_model **out)
{
    sparta_import_options options = {r->compile.options.external_data_root};
    sparta_model *m = NULL;
    bool result;
    SPARTA_TRY(is_result(s, r, &result));
    SPARTA_TRY(sparta_model_open(s->cx, s->path, &options, &m));
    sparta_status status = s->bound ? sparta_ops_bind(m->graph, &r->sizes) : SPARTA_OK;
    if (!status)
        status = r->masks && !result ? sparta_compile_masks(s->cx, m->graph, r->masks, NULL) : SPARTA_OK;
    if (!status && !result) status = obey(s->cx, m->graph, r->compile.options.schedule);
    if (!status && !result) status = remove_all(m->graph, r->compile.options.remove);
    if (status) {
        sparta_model_close(m);
        return status;
    }
    *out = m;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ matching */

/* "Linear /encoder/layer.0/... 0"; NULL for what has no named producer (no message) or without memory. */
static const char *node_key(search *s, const sparta_value *v)
{
    const sparta_node *n = v->producer;
    int i = 0;
    if (!n || !*n->name) return NULL;
    while (i < n->n_out && n->out[i] != v) i++;
    return sparta_arena_printf(s->arena, "%s %s %d", sparta_builtin_row(n->op)->name, n->name, i);
}

static bool find(search *s, const sparta_value *v, int64_t *at)
{
    const char *key;
    if (sparta_map_get(s->at, v->name, at)) return true;
    return (key = node_key(s, v)) && sparta_map_get(s->at, key, at);
}

/* A name that the package made up says nothing: its node does. */
static const char *shown(const sparta_value *v)
{
    return v->name[0] == '%' && v->producer && *v->producer->name ? v->producer->name : v->name;
}

static sparta_status keep_value(void *arg, const sparta_value *v, const sparta_tensor *t)
{
    search *s = arg;
    if (s->n == s->capacity) {
        int capacity = s->capacity ? s->capacity * 2 : 256;
        kept *grown = sparta_realloc(s->cx, s->kept, (size_t)capacity * sizeof *grown);
        SPARTA_NEED(s->cx, grown);
        s->kept = grown;
        s->capacity = capacity;
    }
    kept *k = &s->kept[s->n];
    SPARTA_TRY(sparta_tensor_alloc(s->cx, t->dtype, t->rank, t->dim, &k->tensor));
    k->name = shown(v);
    SPARTA_TRY(sparta_scales_watch(&s->scales, v, t));
    k->slack = sparta_slack(&s->scales, v);
    s->n++; /* counted now, so that it is freed whatever happens */
    SPARTA_TRY(sparta_tensor_copy(s->cx, t, &k->tensor));
    SPARTA_TRY(sparta_map_put(s->at, v->name, s->n - 1));
    const char *key = node_key(s, v);
    return key ? sparta_map_put(s->at, key, s->n - 1) : SPARTA_OK;
}

static bool differs(const search *s, const sparta_tensor *a, const sparta_tensor *b, double slack)
{
    sparta_closeness one;
    if (a->dtype != b->dtype) return false; /* narrow in a package, where only elements are moved */
    return !sparta_close(a, b, &s->r->tolerance, slack, &one);
}

static sparta_status compare_value(void *arg, const sparta_value *v, const sparta_tensor *t)
{
    search *s = arg;
    int64_t at;
    SPARTA_TRY(sparta_scales_watch(&s->scales, v, t));
    if (!s->first && find(s, v, &at) && differs(s, &s->kept[at].tensor, t, sparta_slack(&s->scales, v)))
        s->first = shown(v);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ both on the references */

static sparta_status open_plain(sparta_side *side, const sparta_side *other, const sparta_verify_request *r,
                                plain *p)
{
    p->graph = side->graph;
    if (side->package) {
        SPARTA_TRY(sparta_compile_unplan(side->cx, side->package, &p->unplanned));
        p->graph = p->unplanned;
        return sparta_ops_infer(p->unplanned);
    }
    if (!other->package) return SPARTA_OK;
    SPARTA_TRY(sparta_side_model(side, r, &p->model));
    p->graph = p->model->graph;
    return sparta_compile_passes(p->model->graph);
}

static void close_plain(plain *p)
{
    sparta_graph_free(p->unplanned);
    if (p->model) sparta_model_close(p->model);
}

static sparta_status walk(search *s, const sparta_graph *g, const sparta_named_tensor *in, int n_in,
                          sparta_ops_watch watch)
{
    sparta_tensor *out = sparta_alloc_array(s->cx, (size_t)g->n_outputs + 1, sizeof *out);
    SPARTA_NEED(s->cx, out);
    sparta_status status = sparta_scales_create(s->cx, g, in, n_in, &s->scales);
    if (!status) status = sparta_ops_run(s->cx, g, in, n_in, out, watch, s);
    sparta_scales_free(&s->scales);
    for (int i = 0; i < g->n_outputs && !status; i++) sparta_free(s->cx, out[i].data);
    sparta_free(s->cx, out);
    return status;
}

/* ------------------------------------------------------------------ the package's kernels */

/* In the order of the nodes, so that the first one that differs is the first one computed. */
static sparta_status all_outputs(sparta_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++) {
            sparta_value *v = g->node[i]->out[k];
            if (!v->is_output && v->dtype == SPARTA_F32) SPARTA_TRY(sparta_graph_add_output(g, v));
        }
    return SPARTA_OK;
}

static sparta_status compare_session(search *s, const sparta_package *p, const sparta_named_tensor *in,
                                     int n_in)
{
    sparta_session_options options = {sizeof options, s->r->threads, 0};
    sparta_session *session = NULL;
    const sparta_graph *plan = p->plan;
    sparta_named_tensor *out = sparta_alloc_array(s->cx, (size_t)plan->n_outputs + 1, sizeof *out);
    SPARTA_NEED(s->cx, out);
    for (int i = 0; i < plan->n_outputs; i++) out[i].name = plan->output[i]->name;
    sparta_status status = sparta_session_create(s->cx, p, &options, &session);
    if (!status) status = sparta_session_run(s->cx, session, in, n_in, out, plan->n_outputs);
    int64_t first = INT64_MAX, at; /* kept in the order they were computed */
    for (int i = 0; i < plan->n_outputs && !status; i++)
        if (sparta_map_get(s->at, out[i].name, &at) && at < first &&
            differs(s, &out[i].tensor, &s->kept[at].tensor, s->kept[at].slack))
            first = at;
    if (first < INT64_MAX) s->first = s->kept[first].name;
    sparta_session_free(session);
    sparta_free(s->cx, out);
    return status;
}

static sparta_status find_kernel(search *s, const sparta_package *of, const sparta_named_tensor *in, int n_in)
{
    sparta_compile_request request = s->r->compile;
    sparta_graph *g = NULL;
    sparta_package *p = NULL;
    request.options.no_measure = 1;
    request.options.masks = NULL;
    request.options.dims = NULL;
    request.no_verify = true;
    SPARTA_TRY(sparta_compile_unplan(s->cx, of, &g));
    sparta_status status = sparta_ops_infer(g);
    if (!status) status = all_outputs(g);
    if (!status) status = sparta_compile_graph(s->cx, g, &request, &p);
    if (status) {
        sparta_graph_free(g);
        return status;
    }
    status = compare_session(s, p, in, n_in);
    sparta_package_close(p);
    return status;
}

/* ------------------------------------------------------------------ looking */

static sparta_status look(search *s, sparta_side *a, sparta_side *b, plain p[2],
                          const sparta_named_tensor *in, int n_in)
{
    SPARTA_TRY(open_plain(a, b, s->r, &p[0]));
    SPARTA_TRY(open_plain(b, a, s->r, &p[1]));
    SPARTA_TRY(walk(s, p[0].graph, in, n_in, keep_value));
    SPARTA_TRY(walk(s, p[1].graph, in, n_in, compare_value));
    if (s->first || !a->package) return SPARTA_OK; /* what was kept are a's values, by its names */
    SPARTA_TRY(find_kernel(s, a->package, in, n_in));
    sparta_note(s->cx, "verify: the references of both models agree; a kernel of %s computes something else",
                a->path);
    return SPARTA_OK;
}

sparta_status sparta_first_difference(sparta_side *a, sparta_side *b, const sparta_named_tensor *in, int n_in,
                                      const sparta_verify_request *r, sparta_arena *arena,
                                      sparta_verify_result *out)
{
    search s = {.cx = a->cx, .arena = arena, .r = r, .at = sparta_map_create(a->cx)};
    plain p[2] = {{0}, {0}};
    SPARTA_NEED(a->cx, s.at);
    sparta_status status = look(&s, a, b, p, in, n_in);
    const char *name = s.first;
    for (int i = 0; i < out->n_outputs && !name; i++)
        if (!out->output[i].ok) name = out->output[i].name;
    if (!status) out->first_difference = sparta_arena_string(arena, name ? name : "");
    if (!status && !out->first_difference) status = sparta_ctx_status(a->cx);
    for (int i = 0; i < s.n; i++) sparta_free(s.cx, s.kept[i].tensor.data);
    sparta_free(s.cx, s.kept);
    sparta_map_free(s.at);
    close_plain(&p[0]);
    close_plain(&p[1]);
    return status;
}
