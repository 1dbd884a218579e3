/* Reports: what is said of a package, or of a model that was not compiled, layer by layer. Nothing is run or timed. */
#include "api/api.h"
#include "implement/implement.h"
#include "ops/ops.h"
#include <math.h>

struct sparta_report {
    sparta_ctx *cx;
    sp_arena *arena; /* of everything below, and of the report itself */
    sparta_facts facts;
    int n_layers, n_symbols, n_operators, n_targets, n_effects;
    sparta_layer *layer;
    sparta_symbol *symbol;
    sparta_operator_use *operator_use;
    sparta_target *target;
    sparta_effect *effect;
};

/* A name of a graph that will be gone. */
static const char *keep(sparta_report *r, const char *text)
{
    return text ? sp_arena_string(r->arena, text) : NULL;
}

/* ------------------------------------------------------------------ what a graph says */

static sparta_status fill_layer(sparta_report *r, const sp_layer *l, sparta_layer *out)
{
    const sp_implement *im = sp_implement_find(l->implement);
    *out = (sparta_layer){.name = keep(r, l->name),
                          .op = l->op,
                          .n = l->n,
                          .k = l->k,
                          .dtype = l->dtype,
                          .pattern = l->pattern,
                          .block = l->block,
                          .density = l->density,
                          .implement = l->implement,
                          .sparse = im && im->sparse,
                          .format = keep(r, l->format),
                          .reason = l->reason,
                          .us = l->us > 0 ? l->us : NAN,
                          .dense_us = l->dense_us > 0 ? l->dense_us : NAN,
                          .tokens = l->tokens,
                          .source = l->us > 0 ? l->source : NULL};
    r->facts.sparse_layers += out->sparse;
    return out->name && (out->format || !l->format) ? SPARTA_OK : sp_ctx_status(r->cx);
}

static sparta_status fill_layers(sparta_report *r, const sp_graph *g, const char *db, const sp_obeyed *obeyed)
{
    sp_layer *said;
    SP_TRY(sp_compile_layers(r->cx, r->arena, g, db, obeyed, &said, &r->n_layers));
    r->layer = sp_arena_array(r->arena, (size_t)r->n_layers + 1, sizeof *r->layer);
    SP_NEED(r->cx, r->layer);
    for (int i = 0; i < r->n_layers; i++) SP_TRY(fill_layer(r, &said[i], &r->layer[i]));
    return SPARTA_OK;
}

static sparta_symbol symbol_of(const char *name, sp_bound b)
{
    return (sparta_symbol){name, b.most, b.least};
}

static sparta_status fill_symbols(sparta_report *r, const sp_graph *g)
{
    const char *const *name;
    SP_TRY(sp_graph_symbols(r->cx, r->arena, g, &name, &r->n_symbols));
    r->symbol = sp_arena_array(r->arena, (size_t)r->n_symbols + 1, sizeof *r->symbol);
    SP_NEED(r->cx, r->symbol);
    for (int i = 0; i < r->n_symbols; i++) {
        r->symbol[i] = symbol_of(keep(r, name[i]), sp_symbol_bound(g, name[i]));
        SP_NEED(r->cx, r->symbol[i].name);
    }
    return SPARTA_OK;
}

static sparta_status fill_coverage(sparta_report *r, const sp_graph *g)
{
    sp_coverage c;
    SP_TRY(sp_compile_coverage(r->cx, g, &c));
    sp_compile_note_coverage(r->cx, &c);
    r->facts.unaccelerated = c.without_kernel;
    r->facts.unaccelerated_reason = c.worst < 0 ? NULL : c.why;
    r->facts.unaccelerated_hint = c.worst < 0 ? NULL : c.help;
    return SPARTA_OK;
}

/* Which values quantisers read: as numbers that stand for others (a bias has 32 bits), and as zero points. */
typedef enum { NO_PART, NUMBERS, ZERO_POINT } quantised_part;

static void find_parts(const sp_graph *g, quantised_part *part)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        const bool back = n->op == SP_OP_DequantizeLinear;
        if (!back && n->op != SP_OP_QuantizeLinear) continue;
        if (back && n->n_in > 0 && n->in[0]) part[n->in[0]->id] = NUMBERS;
        if (n->n_in > 2 && n->in[2]) part[n->in[2]->id] = ZERO_POINT;
    }
}

/* Floats, numbers of a byte or less, which are quantised ones, and what a quantiser says is. */
static bool is_parameter(const sp_value *v, quantised_part part)
{
    if (sp_dtype_is_float(v->dtype) || part == NUMBERS) return true;
    return part == NO_PART && v->dtype != SPARTA_BOOL && sparta_dtype_size(v->dtype) == 1;
}

/* Numbers of all weights. */
static sparta_status parameters_of(sparta_report *r, const sp_graph *g, int64_t *out)
{
    int64_t n = 0;
    quantised_part *part = sp_arena_array(r->arena, (size_t)g->n_values + 1, sizeof *part);
    SP_NEED(r->cx, part);
    find_parts(g, part);
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        int64_t dim[SPARTA_RANK], all = 1;
        if (v->producer || v->is_input || !v->typed || !is_parameter(v, part[v->id]) ||
            !sp_dims_const(&v->dims, dim))
            continue;
        for (int d = 0; d < v->dims.rank; d++)
            if (!sp_int_mul(all, dim[d], &all)) all = INT64_MAX; /* a file may say anything */
        if (v->dims.rank && !sp_int_add(n, all, &n)) n = INT64_MAX;
    }
    *out = n;
    return SPARTA_OK;
}

/* What is counted: of a model as the file has it. */
static sparta_status fill_counts(sparta_report *r, const sp_graph *g)
{
    int used[SP_OPS] = {0};
    r->facts.nodes = g->n_nodes;
    r->facts.other_plans = "";
    SP_TRY(parameters_of(r, g, &r->facts.parameters));
    r->facts.parameters_given = r->facts.parameters_left = r->facts.parameters;
    for (int i = 0; i < g->n_nodes; i++) used[g->node[i]->op]++;
    r->n_operators = 0;
    r->operator_use = sp_arena_array(r->arena, SP_OPS, sizeof *r->operator_use);
    SP_NEED(r->cx, r->operator_use);
    for (int op = 0; op < SP_OPS; op++)
        if (used[op])
            r->operator_use[r->n_operators++] =
                (sparta_operator_use){sp_builtin_row((sp_op_id)op)->name, used[op]};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ a package */

static sparta_status fill_targets(sparta_report *r, const sparta_package *p)
{
    sp_package_target t[SP_TARGETS];
    r->n_targets = sp_package_targets(p, t);
    r->target = sp_arena_array(r->arena, (size_t)r->n_targets + 1, sizeof *r->target);
    SP_NEED(r->cx, r->target);
    for (int i = 0; i < r->n_targets; i++)
        r->target[i] = (sparta_target){sp_target_name(t[i].target), t[i].kernels, !t[i].unchecked};
    return SPARTA_OK;
}

static sparta_status fill_plans(sparta_report *r, const sparta_package *p)
{
    const char *said = "";
    for (int i = 0; i < p->n_others; i++) {
        const sp_other_plan *o = &p->other[i];
        const long long least = o->least, most = o->most;
        const char *before = !i ? "" : i + 1 < p->n_others ? ", " : " and ";
        if (o->most == INT64_MAX)
            said = sp_arena_printf(r->arena, "%s%s%lld and more", said, before, least);
        else if (most > least)
            said = sp_arena_printf(r->arena, "%s%s%lld to %lld", said, before, least, most);
        else
            said = sp_arena_printf(r->arena, "%s%s%lld", said, before, least);
        SP_NEED(r->cx, said);
    }
    r->facts.other_plans = said;
    return SPARTA_OK;
}

static sparta_status of_package(sparta_report *r, const sparta_package *p, const sparta_compile_options *o)
{
    SP_TRY(fill_counts(r, p->plan));
    SP_TRY(fill_plans(r, p));
    r->facts.bytes = p->bytes;
    r->facts.kernels = p->n_kernels;
    if (p->parameters_given) {
        r->facts.parameters_given = p->parameters_given;
        r->facts.parameters_left = p->parameters_left;
        r->facts.masked_nonzero = p->masked_nonzero;
    }
    SP_TRY(fill_targets(r, p));
    SP_TRY(fill_symbols(r, p->plan));
    SP_TRY(fill_coverage(r, p->plan));
    return fill_layers(r, p->plan, o->db, NULL);
}

/* ------------------------------------------------------------------ a model */

typedef struct look { /* at a model: as compile has it after the passes */
    sp_model *model;
    sp_obeyed obeyed;
    sp_propagate_report went;
} look;

static sparta_status change(sparta_report *r, const sparta_compile_options *o,
                            const sparta_schedule *schedule, bool smaller, look *out)
{
    sp_graph *g = out->model->graph;
    SP_TRY(sp_compile_bind(r->cx, g, o->dims));
    if (o->masks) SP_TRY(sp_compile_masks(r->cx, g, o->masks, NULL));
    if (schedule) SP_TRY(sp_compile_schedule(r->cx, g, schedule, &out->obeyed));
    out->obeyed.limit = o->limit;
    SP_TRY(sp_ops_infer(g));
    const sparta_compile_options plain = {.size = sizeof plain};
    if (smaller) SP_TRY(sp_compile_propagate(g, &plain, &out->obeyed, &out->went));
    return sp_compile_passes(g);
}

static sparta_status open_look(sparta_report *r, const char *onnx, const sparta_compile_options *o,
                               const sparta_schedule *schedule, bool smaller, look *out)
{
    const sp_import_options options = sp_import_options_of(o);
    *out = (look){0};
    SP_TRY(sp_model_open(r->cx, onnx, &options, &out->model));
    SP_TRY(fill_counts(r, out->model->graph));
    return change(r, o, schedule, smaller, out);
}

/* As given, or smaller where propagation takes something away and compile would find that faster. two[0] is the one. */
static sparta_status open_faster(sparta_report *r, const char *onnx, const sparta_compile_options *o,
                                 const sparta_schedule *schedule, look two[2])
{
    double us = 0, given_us = 0;
    SP_TRY(open_look(r, onnx, o, schedule, !o->no_propagate, &two[0]));
    if (two[0].went.parameters_after == two[0].went.parameters_before) return SPARTA_OK;
    SP_TRY(open_look(r, onnx, o, schedule, false, &two[1]));
    if (sp_compile_no_slower(&two[0].went, two[0].model->graph, two[1].model->graph)) return SPARTA_OK;
    SP_TRY(sp_compile_sum(r->cx, two[0].model->graph, o->db, &two[0].obeyed, &us));
    SP_TRY(sp_compile_sum(r->cx, two[1].model->graph, o->db, &two[1].obeyed, &given_us));
    if (sp_compile_worth(&two[0].went, us, given_us)) return SPARTA_OK;
    const look given = two[1];
    two[1] = two[0];
    two[0] = given;
    return SPARTA_OK;
}

static sparta_status fill_effects(sparta_report *r, const sp_obeyed *o)
{
    r->effect = sp_arena_array(r->arena, (size_t)o->n + 1, sizeof *r->effect);
    SP_NEED(r->cx, r->effect);
    for (int i = 0; i < o->n; i++) {
        const sp_effect *e = &o->effect[i];
        sparta_effect *out = &r->effect[i];
        *out =
            (sparta_effect){.at = sp_arena_printf(r->arena, "%s:%d:%d", e->at.file, e->at.line, e->at.column),
                            .clause = e->clause,
                            .text = keep(r, e->text),
                            .glob = keep(r, e->glob),
                            .tensor = keep(r, e->known ? e->known : e->tensor),
                            .layer = keep(r, e->layer),
                            .n = e->n,
                            .k = e->k,
                            .density_before = e->before,
                            .density = e->after,
                            .pattern = keep(r, e->pattern),
                            .implement = e->implement ? e->implement->name : NULL};
        if (!out->at || !out->text || !out->glob || !out->tensor || !out->pattern)
            return sp_ctx_status(r->cx);
    }
    r->n_effects = o->n;
    return SPARTA_OK;
}

static sparta_status of_look(sparta_report *r, const look *l, const sparta_compile_options *o)
{
    const sp_model *m = l->model;
    r->facts.opset = m->opset;
    r->facts.bytes = m->file.size;
    for (int i = 0; i < m->n_external; i++) r->facts.bytes += m->external[i].size;
    if (l->went.parameters_before > l->went.parameters_after) {
        r->facts.parameters_given = l->went.parameters_before;
        r->facts.parameters_left = l->went.parameters_after;
    }
    SP_TRY(fill_symbols(r, m->graph));
    SP_TRY(fill_coverage(r, m->graph));
    SP_TRY(fill_layers(r, m->graph, o->db, &l->obeyed));
    return fill_effects(r, &l->obeyed);
}

static sparta_status of_model(sparta_report *r, const char *onnx, const sparta_compile_options *o)
{
    look two[2] = {{0}};
    sparta_schedule *schedule = NULL;
    SP_TRY(sp_compile_rules(r->cx, o, &schedule));
    sparta_status s = open_faster(r, onnx, o, o->rules ? o->rules : schedule, two);
    if (s == SPARTA_OK) s = of_look(r, &two[0], o);
    sp_model_close(two[0].model);
    sp_model_close(two[1].model);
    sparta_schedule_free(schedule);
    return s;
}

/* ------------------------------------------------------------------ life */

static sparta_report *create(sparta_ctx *cx)
{
    sp_arena *arena = sp_arena_create(cx);
    sparta_report *r = arena ? sp_arena_alloc(arena, sizeof *r) : NULL;
    if (r)
        *r = (sparta_report){.cx = cx, .arena = arena};
    else if (arena)
        sp_arena_free(arena);
    return r;
}

/* Of the package, or else of the model. */
static sparta_status report(sparta_ctx *cx, const sparta_package *package, const char *onnx,
                            const sparta_compile_options *options, sparta_report **out)
{
    sparta_compile_options o;
    SP_TRY(sp_options(cx, "report", options, &o, sizeof o));
    sparta_report *r = create(cx);
    SP_NEED(cx, r);
    const sparta_status s = package ? of_package(r, package, &o) : of_model(r, onnx, &o);
    if (s == SPARTA_OK)
        *out = r;
    else
        sparta_report_free(r);
    return s;
}

sparta_status sparta_package_report(sparta_ctx *cx, const sparta_package *package,
                                    const sparta_compile_options *options, sparta_report **out)
{
    return report(cx, package, NULL, options, out);
}

sparta_status sparta_model_report(sparta_ctx *cx, const char *onnx, const sparta_compile_options *options,
                                  sparta_report **out)
{
    return report(cx, NULL, onnx, options, out);
}

void sparta_report_free(sparta_report *r)
{
    if (r) sp_arena_free(r->arena);
}

/* ------------------------------------------------------------------ asking */

#define AT(list, count) return i >= 0 && i < (count) ? &(list)[i] : NULL

const sparta_facts *sparta_report_facts(const sparta_report *r)
{
    return &r->facts;
}
const sparta_layer *sparta_report_layer(const sparta_report *r, int i)
{
    AT(r->layer, r->n_layers);
}
const sparta_symbol *sparta_report_symbol(const sparta_report *r, int i)
{
    AT(r->symbol, r->n_symbols);
}
const sparta_operator_use *sparta_report_operator(const sparta_report *r, int i)
{
    AT(r->operator_use, r->n_operators);
}
const sparta_target *sparta_report_target(const sparta_report *r, int i)
{
    AT(r->target, r->n_targets);
}
const sparta_effect *sparta_report_effect(const sparta_report *r, int i)
{
    AT(r->effect, r->n_effects);
}
