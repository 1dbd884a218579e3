/* A whole model: which weights, what they meet, and what is left of them.
 *
 *     weights (a schedule's "*") -- keep globs, too large --> layers
 *     for each group of layers whose inputs fit into memory:
 *         run the model on the data, some items at a time        met, by the value that a product reads
 *         prune each of them in a copy, which takes its place    a row of the report
 */
#include "prune/prune.h"
#include "arrays/arrays.h"
#include "ops/ops.h"
#include <math.h>
#include <string.h>

enum {
    ITEMS = 16,
    ROWS = 256
}; /* at least so many items at a time; about so many rows of what layers read */
static const double MOST = 1 << 30; /* bytes that are kept of the inputs of a group */

typedef struct job {
    sparta_ctx *cx;
    sp_graph *g;
    const sp_prune_request *r;
    sp_schedule_match *match;
    int n;
    sp_arrays data;
    sparta_named_tensor *given; /* of the graph's inputs, in its order */
    int64_t items;
    bool apart;         /* they may be run a few at a time */
    sp_prune_met **met; /* by value id; NULL: nobody asks */
    sp_prune_report out;
    int done;
} job;

/* NULL: it is left. */
static const sp_prune_spec *spec_of(const job *j, int i)
{
    return j->r->each ? j->r->each[i] : &j->r->spec;
}

/* ------------------------------------------------------------------ data */
/* An array of another type or rank is said so here, by its name, not by the layer that would meet it first. */
static sparta_status check_array(const job *j, const sp_value *v, const sparta_tensor *t)
{
    int64_t size;
    if (t->dtype != v->dtype)
        return sp_fail(j->cx, SPARTA_E_DTYPE,
                       "prune: %s: array '%.200s' is %s and the model's input is %s; convert it", j->r->data,
                       v->name, sparta_dtype_name(t->dtype), sparta_dtype_name(v->dtype));
    if (t->rank != v->dims.rank)
        return sp_fail(
            j->cx, SPARTA_E_SHAPE,
            "prune: %s: array '%.200s' has %d dimensions and the model's input has %d; items lie along "
            "the first",
            j->r->data, v->name, t->rank, v->dims.rank);
    for (int d = 0; d < t->rank; d++)
        if (sp_expr_is_const(v->dims.dim[d], &size) && size != t->dim[d])
            return sp_fail(j->cx, SPARTA_E_SHAPE,
                           "prune: %s: dimension %d of array '%.200s' is %lld and the model's is %lld",
                           j->r->data, d, v->name, (long long)t->dim[d], (long long)size);
    return SPARTA_OK;
}

static sparta_status find_input(job *j, int i)
{
    const char *name = j->g->input[i]->name;
    for (int k = 0; k < j->data.n; k++)
        if (!strcmp(j->data.entry[k].name, name)) {
            j->given[i] = (sparta_named_tensor){name, j->data.entry[k].tensor};
            return check_array(j, j->g->input[i], &j->data.entry[k].tensor);
        }
    return sp_fail(j->cx, SPARTA_E_USAGE, "prune: %s: has no array for input '%.200s' of the model",
                   j->r->data, name);
}

/* May items be run a few at a time? All inputs have the same number of them, which the model leaves open, and each is computed by itself. */
static sparta_status items_apart(job *j)
{
    const char *symbol, *first = NULL;
    for (int i = 0; i < j->g->n_inputs; i++) {
        const sp_value *v = j->g->input[i];
        const sparta_tensor *t = &j->given[i].tensor;
        if (v->dims.rank < 1 || t->rank < 1 || !sp_expr_is_symbol(v->dims.dim[0], &symbol)) return SPARTA_OK;
        if (t->dim[0] != j->given[0].tensor.dim[0] || (first && strcmp(first, symbol))) return SPARTA_OK;
        first = symbol;
    }
    return first ? sp_ops_items_apart(j->g, first, &j->apart) : SPARTA_OK;
}

static sparta_status read_data(job *j)
{
    if (!j->r->data) return SPARTA_OK;
    SP_TRY(sp_arrays_open(j->cx, j->r->data, &j->data));
    j->given = sp_arena_array(j->g->arena, (size_t)j->g->n_inputs + 1, sizeof *j->given);
    SP_NEED(j->cx, j->given);
    for (int i = 0; i < j->g->n_inputs; i++) SP_TRY(find_input(j, i));
    j->items = j->g->n_inputs && j->given[0].tensor.rank > 0 ? j->given[0].tensor.dim[0] : 1;
    if (j->items < 1) return sp_fail(j->cx, SPARTA_E_USAGE, "prune: %s: has no items", j->r->data);
    j->out.items = j->items;
    return items_apart(j);
}

/* ------------------------------------------------------------------ what layers meet */
static sparta_status see(void *arg, const sp_value *v, const sparta_tensor *t)
{
    const job *j = arg;
    return j->met[v->id] ? sp_prune_met_add(j->cx, j->met[v->id], t) : SPARTA_OK;
}

static bool asked(const job *j, const sp_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (j->met[n->out[i]->id]) return true;
    return false;
}

/* As far as somebody asks, and without outputs. */
static sparta_status run_items(job *j, const sparta_named_tensor *inputs)
{
    sp_graph part = *j->g;
    part.n_outputs = 0;
    while (part.n_nodes > 0 && !asked(j, part.node[part.n_nodes - 1])) part.n_nodes--;
    for (int i = 0; i < part.n_inputs; i++) SP_TRY(see(j, part.input[i], &inputs[i].tensor));
    return sp_ops_run_quick(j->cx, &part, inputs, part.n_inputs, NULL, see, j);
}

/* Sums over a few rows take as long as over many: items that are one row each (features, not a sequence) come in larger parts. */
static int64_t items_at_a_time(const job *j)
{
    const sparta_tensor *t = &j->given[0].tensor;
    const int last = t->rank - (sp_dtype_is_float(t->dtype) ? 1 : 0); /* features come last */
    int64_t rows = 1;
    for (int d = 1; d < last && rows < ROWS; d++) rows *= SP_MAX(t->dim[d], 1);
    return SP_MAX(ROWS / rows, ITEMS);
}

static sparta_status run_data(job *j)
{
    const int64_t step = j->apart ? items_at_a_time(j) : j->items;
    sparta_named_tensor *some = sp_arena_array(j->g->arena, (size_t)j->g->n_inputs + 1, sizeof *some);
    SP_NEED(j->cx, some);
    for (int64_t from = 0; from < j->items; from += step) {
        for (int i = 0; i < j->g->n_inputs; i++) {
            sparta_tensor t = j->given[i].tensor;
            if (step < j->items) {
                t.data = (char *)t.data + from * t.stride[0] * (int64_t)sparta_dtype_size(t.dtype);
                t.dim[0] = SP_MIN(step, j->items - from);
            }
            some[i] = (sparta_named_tensor){j->given[i].name, t};
        }
        SP_TRY(run_items(j, some));
        if (j->r->progress) j->r->progress(j->r->user, j->done, j->n, "running the data");
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one weight */
static void shape_of(const sp_schedule_match *m, int64_t *n, int64_t *k)
{
    *n = m->value->constant->dim[m->turned];
    *k = m->value->constant->dim[!m->turned];
}

static sparta_tensor turned_view(const sparta_tensor *t, bool turned)
{
    sparta_tensor w = *t;
    if (turned) {
        w.dim[0] = t->dim[1], w.dim[1] = t->dim[0];
        w.stride[0] = t->stride[1], w.stride[1] = t->stride[0];
    }
    return w;
}

static void to_rows(const sparta_tensor *w, float *out)
{
    for (int64_t i = 0; i < w->dim[0]; i++)
        for (int64_t k = 0; k < w->dim[1]; k++)
            out[i * w->dim[1] + k] =
                (float)sp_element_get(w->dtype, w->data, i * w->stride[0] + k * w->stride[1]);
}

static void from_rows(const float *rows, const sparta_tensor *w)
{
    for (int64_t i = 0; i < w->dim[0]; i++)
        for (int64_t k = 0; k < w->dim[1]; k++)
            sp_element_set(w->dtype, w->data, i * w->stride[0] + k * w->stride[1], rows[i * w->dim[1] + k]);
}

static void tell(const float *w, const float *left, int64_t count, sp_prune_row *row)
{
    double all = 0, kept = 0;
    int64_t there = 0;
    for (int64_t i = 0; i < count; i++) {
        const double square = isfinite(w[i]) ? (double)w[i] * w[i] : 0;
        all += square;
        kept += left[i] != 0 ? square : 0;
        there += left[i] != 0;
    }
    row->density = (double)there / (double)count;
    row->norm_kept = all > 0 ? sqrt(kept / all) : 1;
}

typedef struct rows2 { /* the weight before and after, (n, k) */
    float *w, *left;
} rows2;

static sparta_status prune_rows(job *j, const sparta_tensor *w, sp_prune_met *met, rows2 r, sp_prune_row *row)
{
    const sp_prune_spec *spec = spec_of(j, (int)(row - j->out.row));
    const int64_t n = w->dim[0], k = w->dim[1];
    to_rows(w, r.w);
    for (int64_t i = 0; i < n * k && j->r->method != SP_PRUNE_MAGNITUDE; i++)
        if (!isfinite(r.w[i])) return sp_fail(j->cx, SPARTA_E_FORMAT, "prune: the weight has NaN or Inf");
    memcpy(r.left, r.w, (size_t)(n * k) * sizeof *r.w);
    if (j->r->method == SP_PRUNE_MAGNITUDE) {
        sp_prune_note(j->cx, spec, w);
        SP_TRY(sp_prune(j->cx, spec, w, NULL));
        to_rows(w, r.left);
    } else {
        SP_TRY(sp_prune_layer(j->cx, spec, j->r->method, met, n, r.left));
        from_rows(r.left, w);
        to_rows(w, r.left); /* as its type holds them */
    }
    tell(r.w, r.left, n * k, row);
    if (row->density == 0 && j->r->leave) {
        row->why = "nothing would be left of it";
        row->density = row->norm_kept = 1;
        j->out.n_pruned--;
        return SPARTA_OK;
    }
    if (row->density == 0)
        return sp_fail(j->cx, SPARTA_E_USAGE,
                       "prune: nothing would be left of it; ask for less, or keep it with --keep");
    return met ? sp_prune_met_error(j->cx, met, n, r.w, r.left, &row->error) : SPARTA_OK;
}

/* A copy of the weight loses elements and takes its place. */
static sparta_status prune_weight(job *j, const sp_schedule_match *m, sp_prune_row *row)
{
    const sparta_tensor *given = m->value->constant;
    sp_prune_met *met = j->met[m->node->in[0]->id];
    const size_t count = (size_t)sparta_tensor_elements(given);
    sparta_tensor *copy = sp_arena_alloc(j->g->arena, sizeof *copy);
    SP_NEED(j->cx, copy);
    SP_TRY(sp_tensor_alloc_in(j->g->arena, given->dtype, given->rank, given->dim, copy));
    SP_TRY(sp_tensor_copy(j->cx, given, copy));
    const sparta_tensor w = turned_view(copy, m->turned);
    if (j->r->data && (!met || !met->rows))
        return sp_fail(j->cx, SPARTA_E_UNSUPPORTED,
                       "prune: what it multiplies was not seen; keep it with --keep");
    const rows2 r = {sp_alloc_array(j->cx, count, sizeof(float)),
                     sp_alloc_array(j->cx, count, sizeof(float))};
    const sparta_status status = r.w && r.left ? prune_rows(j, &w, met, r, row) : sp_ctx_status(j->cx);
    sp_free(j->cx, r.w);
    sp_free(j->cx, r.left);
    if (status == SPARTA_OK && !row->why) m->value->constant = copy;
    return status == SPARTA_OK ? SPARTA_OK
                               : sp_fail_in(j->cx, "prune: '%.200s'", sp_initialiser_name(m->value));
}

/* ------------------------------------------------------------------ groups of layers */
static bool kept(const job *j, const sp_schedule_match *m)
{
    for (int i = 0; i < j->r->n_keep; i++)
        if (sp_schedule_is_called(j->r->keep[i], m->value, m->node)) return true;
    return false;
}

static sparta_status check_keep(const job *j)
{
    for (int i = 0; i < j->r->n_keep; i++) {
        bool any = false;
        for (int k = 0; k < j->n && !any; k++)
            any = sp_schedule_is_called(j->r->keep[i], j->match[k].value, j->match[k].node);
        for (int k = 0; k < j->out.n_left && !any; k++) /* it is left in any case */
            any =
                sp_glob(j->r->keep[i], j->out.left[k].weight) || sp_glob(j->r->keep[i], j->out.left[k].layer);
        if (!any)
            return sp_fail(j->cx, SPARTA_E_USAGE,
                           "prune: --keep %.100s names no weight of a product; `sparta inspect` lists them",
                           j->r->keep[i]);
    }
    return SPARTA_OK;
}

static sparta_status list(job *j)
{
    j->out.row = sp_arena_array(j->g->arena, (size_t)j->n + 1, sizeof *j->out.row);
    SP_NEED(j->cx, j->out.row);
    for (int i = 0; i < j->n; i++) {
        sp_prune_row *row = &j->out.row[i];
        const sp_schedule_match *m = &j->match[i];
        *row = (sp_prune_row){.weight = sp_schedule_known_as(j->g->arena, m->value, m->node),
                              .layer = m->node->name,
                              .density = 1,
                              .norm_kept = 1,
                              .error = NAN};
        SP_NEED(j->cx, row->weight);
        shape_of(m, &row->n, &row->k);
        row->why = kept(j, m)                                          ? "kept, as asked for"
                   : !spec_of(j, i)                                    ? "dense is enough"
                   : sp_prune_too_large(spec_of(j, i), row->n, row->k) ? "a block is larger than it"
                                                                       : NULL;
        j->out.n_pruned += !row->why;
    }
    j->out.n = j->n;
    if (!j->out.n_pruned && !j->r->each && !j->r->leave)
        return sp_fail(j->cx, SPARTA_E_USAGE,
                       "prune: no weight is left to prune: the %d of products are kept, or a block is larger",
                       j->n);
    return SPARTA_OK;
}

static void forget(job *j)
{
    for (int i = 0; j->met && i < j->g->n_values; i++)
        if (j->met[i]) {
            sp_prune_met_free(j->cx, j->met[i]);
            j->met[i] = NULL;
        }
}

/* Ask for the inputs of layers from `from` on, as long as they fit; *to is where the next group begins. */
static sparta_status ask(job *j, int from, int *to)
{
    const bool hessian = j->r->method == SP_PRUNE_SPARSEGPT;
    double bytes = 0;
    for (*to = from; *to < j->n; ++*to) {
        const sp_prune_row *row = &j->out.row[*to];
        const sp_value *x = j->match[*to].node->in[0];
        if (row->why || !j->r->data || j->met[x->id]) continue;
        bytes += 4.0 * (double)row->k * ((hessian ? (double)row->k : 2.0) + SP_PRUNE_SAMPLE);
        if (bytes > MOST && *to > from) return SPARTA_OK;
        sp_prune_met *met = sp_arena_alloc(j->g->arena, sizeof *met);
        SP_NEED(j->cx, met);
        SP_TRY(sp_prune_met_create(j->cx, row->k, hessian, met));
        j->met[x->id] = met;
    }
    return SPARTA_OK;
}

static sparta_status prune_group(job *j, int from, int to)
{
    if (j->r->data) SP_TRY(run_data(j));
    for (int i = from; i < to; i++) {
        SP_TRY(sp_check_cancel(j->cx));
        if (!j->out.row[i].why) SP_TRY(prune_weight(j, &j->match[i], &j->out.row[i]));
        j->done = i + 1;
        if (j->r->progress) j->r->progress(j->r->user, i + 1, j->n, j->out.row[i].weight);
    }
    return SPARTA_OK;
}

static sparta_status nothing_to_prune(const sp_graph *g, sp_arena *arena)
{
    sp_left *left;
    int n;
    SP_TRY(sp_prune_left(g, NULL, 0, arena, &left, &n));
    if (!n)
        return sp_fail(
            g->cx, SPARTA_E_USAGE,
            "prune: there is nothing to prune: the model has no weight that a product multiplies by");
    return sp_fail(
        g->cx, SPARTA_E_USAGE,
        "prune: there is nothing to prune: the model has no weight of a linear layer; of %d matrix-like ones "
        "the first is '%.200s': %s",
        n, left->weight, sparta_left_reason(left->why));
}

/* What is an embedding as well is none of the matches any more. */
static sparta_status leave_tables(const sp_graph *g, sp_schedule_match *match, int *n)
{
    int kept = 0;
    sp_map *tables = sp_map_create(g->cx);
    SP_NEED(g->cx, tables);
    const sparta_status status = sp_prune_tables(g, tables);
    for (int i = 0; i < *n && !status; i++)
        if (!sp_map_get(tables, sp_initialiser_name(match[i].value), NULL)) match[kept++] = match[i];
    sp_map_free(tables);
    *n = kept;
    return status;
}

sparta_status sp_prune_weights(const sp_graph *g, sp_arena *arena, sp_schedule_match **match, int *n)
{
    sparta_schedule *all;
    sparta_schedule_rule *rule;
    SP_TRY(sparta_schedule_create(g->cx, NULL, &all));
    sparta_status status = sparta_schedule_tensor(all, "*", &rule);
    /* A rule must say something to name a weight; this one would change nothing. */
    if (!status) status = sparta_schedule_sparsify(rule, "magnitude(pattern=1x1, sparsity=0)");
    if (!status) status = sp_schedule_matches(all, g, arena, match, n);
    sparta_schedule_free(all);
    const bool none = status == SPARTA_E_USAGE;
    if (none) *n = 0;
    if (status && !none) return status;
    for (int i = 0; i < *n; i++) memset((*match)[i].rule, 0, sizeof(*match)[i].rule); /* gone */
    SP_TRY(leave_tables(g, *match, n));
    return *n ? SPARTA_OK : nothing_to_prune(g, arena);
}

static sparta_status prune_all(job *j)
{
    SP_TRY(sp_prune_weights(j->g, j->g->arena, &j->match, &j->n));
    SP_TRY(sp_prune_left(j->g, j->match, j->n, j->g->arena, &j->out.left, &j->out.n_left));
    SP_TRY(check_keep(j));
    SP_TRY(list(j));
    SP_TRY(read_data(j));
    j->met = sp_arena_array(j->g->arena, (size_t)j->g->n_values + 1, sizeof(sp_prune_met *));
    SP_NEED(j->cx, j->met);
    for (int from = 0, to; from < j->n; from = to) {
        sparta_status status = ask(j, from, &to);
        if (!status) status = prune_group(j, from, to);
        forget(j);
        SP_TRY(status);
    }
    return SPARTA_OK;
}

sparta_status sp_prune_model(sp_graph *g, const sp_prune_request *r, sp_prune_report *out)
{
    job j = {.cx = g->cx, .g = g, .r = r};
    if (r->method != SP_PRUNE_MAGNITUDE && !r->data)
        return sp_fail(g->cx, SPARTA_E_USAGE,
                       "prune: %s looks at what layers meet; give inputs with --data F.npz",
                       r->method == SP_PRUNE_WANDA ? "wanda" : "sparsegpt");
    sp_pool *team = r->data ? sp_pool_create(g->cx, r->threads) : NULL;
    if (r->data && !team) return sp_ctx_status(g->cx);
    sp_ctx_lend(g->cx, team);
    const sparta_status status = prune_all(&j);
    sp_ctx_lend(g->cx, NULL);
    sp_pool_free(team);
    sp_arrays_close(&j.data);
    if (status == SPARTA_OK) *out = j.out;
    return status;
}
