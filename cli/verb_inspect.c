/* sparta inspect: what is in a file. Runs no code of it and times nothing, unless --what-if asks for that. */
#include "ops/ops.h"
#include "verbs.h"
#include "file/file.h"
#include "implement/implement.h"
#include <math.h>
#include <string.h>

typedef struct facts { /* of a model or package */
    const char *kind;
    const sp_graph *graph;
    const sparta_package *package; /* NULL: an ONNX file */
    int64_t parameters;
    size_t bytes;
    int nodes;           /* of the file; fused ones of a package */
    int opset;           /* 0: no ONNX file */
    const char *warning; /* of a package; NULL: none */
    int n_operators;
    int operators[SP_OPS]; /* how many of each, as the file has them */
    const char *const *symbol;
    int n_symbols;
    sp_layer *layer;
    int n_layers;
    sp_coverage coverage; /* what has no kernel */
    sp_what_if what_if;
    sp_obeyed obeyed;         /* what the schedule did */
    sp_propagate_report went; /* what propagation takes away first, of an ONNX file */
} facts;

/* ------------------------------------------------------------------ gathering */

static void count_operators(facts *f, const sp_graph *g)
{
    f->nodes = g->n_nodes;
    for (int i = 0; i < g->n_nodes; i++) f->operators[g->node[i]->op]++;
}

static int64_t parameters_of(const sp_graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        int64_t dim[SPARTA_RANK], all = 1;
        if (v->producer || v->is_input || !v->typed || !sp_dtype_is_float(v->dtype) ||
            !sp_dims_const(&v->dims, dim))
            continue;
        for (int d = 0; d < v->dims.rank; d++) all *= dim[d];
        n += v->dims.rank ? all : 0;
    }
    return n;
}

static sparta_status gather(cli *c, facts *f)
{
    SP_TRY(cli_file_size(c, c->operand[0], &f->bytes));
    SP_TRY(sp_graph_symbols(c->cx, c->arena, f->graph, &f->symbol, &f->n_symbols));
    SP_TRY(sp_compile_coverage(c->cx, f->graph, &f->coverage));
    sp_compile_note_coverage(c->cx, &f->coverage);
    return sp_compile_layers(c->cx, c->arena, f->graph, cli_text(c, CLI_DB, NULL), &f->obeyed, &f->layer,
                             &f->n_layers);
}

/* ------------------------------------------------------------------ --schedule: what each clause did */

static const char *place(cli *c, const sp_effect *e)
{
    return sp_arena_printf(c->arena, "%s:%d:%d", e->at.file, e->at.line, e->at.column);
}

static void schedule_json(cli *c, cli_json *j, const sp_obeyed *o)
{
    cli_json_open(j, "schedule", '[');
    for (int i = 0; i < o->n; i++) {
        const sp_effect *e = &o->effect[i];
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "at", place(c, e));
        cli_json_text(j, "clause", e->clause);
        cli_json_text(j, "text", e->text);
        cli_json_text(j, "glob", e->glob);
        cli_json_text(j, "tensor", e->tensor);
        cli_json_text(j, "layer", e->layer);
        cli_json_int(j, "n", e->n);
        cli_json_int(j, "k", e->k);
        cli_json_real(j, "density_before", e->before);
        cli_json_real(j, "density", e->after);
        cli_json_text(j, "pattern", e->pattern);
        cli_json_text(j, "implement", e->implement ? e->implement->name : NULL);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static sparta_status schedule_table(cli *c, const sp_obeyed *o)
{
    static const char *const names[] = {"at",     "clause",  "tensor",  "shape",
                                        "before", "density", "pattern", "implement"};
    cli_table t = cli_table_begin(c, (int)SP_COUNT(names), names);
    for (int i = 0; i < o->n; i++) {
        const sp_effect *e = &o->effect[i];
        cli_table_text(&t, place(c, e));
        cli_table_text(&t, sp_arena_printf(c->arena, "%s %s", e->clause, e->text));
        cli_table_text(&t, e->tensor);
        cli_table_text(&t, sp_arena_printf(c->arena, "%lldx%lld", (long long)e->n, (long long)e->k));
        cli_table_real(&t, 3, e->before);
        cli_table_real(&t, 3, e->after);
        cli_table_text(&t, e->pattern);
        cli_table_text(&t, e->implement ? e->implement->name : "");
    }
    cli_say(c, "\nwhat the schedule did:\n");
    return cli_table_end(&t);
}

/* ------------------------------------------------------------------ what is said */

static void facts_json(cli *c, const facts *f)
{
    cli_json j = cli_json_begin(c, "inspect");
    cli_json_text(&j, "name", c->operand[0]);
    cli_json_text(&j, "kind", f->kind);
    cli_json_int(&j, "nodes", f->nodes);
    cli_json_int(&j, "parameters", f->parameters);
    cli_json_int(&j, "bytes", (int64_t)f->bytes);
    if (f->opset) cli_json_int(&j, "opset", f->opset);
    cli_json_text(&j, "warning", f->warning);
    if (f->package) cli_targets_json(&j, f->package);
    if (cli_has(c, CLI_CHECK)) cli_json_bool(&j, "weights_checked", !strcmp(f->kind, "package"));
    cli_json_open(&j, "symbols", '[');
    for (int i = 0; i < f->n_symbols; i++) cli_json_text(&j, NULL, f->symbol[i]);
    cli_json_close(&j, ']');
    cli_json_open(&j, "bounds", '{');
    for (int i = 0; i < f->n_symbols; i++) {
        int64_t bound = sp_symbol_bound(f->graph, f->symbol[i]);
        if (bound < INT64_MAX) cli_json_int(&j, f->symbol[i], bound);
    }
    cli_json_close(&j, '}');
    cli_json_open(&j, "operators", '{');
    for (int op = 0; op < SP_OPS; op++)
        if (f->operators[op]) cli_json_int(&j, sp_builtin_row((sp_op_id)op)->name, f->operators[op]);
    cli_json_close(&j, '}');
    if (f->went.parameters_before > f->went.parameters_after)
        cli_json_int(&j, "parameters_after", f->went.parameters_after);
    cli_coverage_json(&j, &f->coverage);
    cli_layers_json(&j, f->layer, f->n_layers);
    if (cli_has(c, CLI_WHAT_IF)) cli_what_if_json(&j, &f->what_if);
    if (cli_has(c, CLI_SCHEDULE)) schedule_json(c, &j, &f->obeyed);
    cli_json_end(c, &j);
}

/* Where the times of the table come from: its layers may have several sources. */
static void say_sources(cli *c, const facts *f)
{
    static const struct {
        const char *source, *means;
    } known[] = {{"measured", "timed by compile"},
                 {"database", "timed on this machine before"},
                 {"model", "estimated; compile times them"}};
    if (f->n_layers)
        cli_say(c,
                "times: us at 128 tokens, or as many as there are when they are 16 at most, on one thread");
    for (size_t k = 0; k < SP_COUNT(known); k++) {
        bool used = false;
        for (int i = 0; i < f->n_layers; i++)
            used |= f->layer[i].us > 0 && !strcmp(f->layer[i].source, known[k].source);
        if (used) cli_say(c, "; %s: %s", known[k].source, known[k].means);
    }
    if (f->n_layers) cli_say(c, "\n");
}

static void head(cli *c, const facts *f)
{
    cli_say(c, "%s: %s, %d nodes, %.2f M parameters, %.1f MB", c->operand[0], f->kind, f->nodes,
            (double)f->parameters * 1e-6, (double)f->bytes * 1e-6);
    if (f->opset) cli_say(c, ", opset %d", f->opset);
    if (f->package) cli_say(c, "%s", cli_targets_text(c, f->package, ", code for "));
    cli_say(c, "\nsymbols:");
    for (int i = 0; i < f->n_symbols; i++) {
        int64_t bound = sp_symbol_bound(f->graph, f->symbol[i]);
        cli_say(c, " %s", f->symbol[i]);
        if (bound < INT64_MAX) cli_say(c, " (at most %lld)", (long long)bound);
    }
    cli_say(c, f->n_symbols ? "\n" : " none\n");
    cli_say(c, "operators:");
    for (int op = 0; op < SP_OPS; op++)
        if (f->operators[op]) cli_say(c, " %s %d", sp_builtin_row((sp_op_id)op)->name, f->operators[op]);
    cli_say(c, "\n");
    const int64_t went = f->went.parameters_before - f->went.parameters_after;
    if (went > 0)
        cli_say(c,
                "%.3f M parameters go before anything is chosen (sparta propagate); layers are as that "
                "leaves them\n",
                (double)went * 1e-6);
    if (cli_has(c, CLI_CHECK) && !strcmp(f->kind, "package"))
        cli_say(c, "digests of all weights are right\n");
    say_sources(c, f);
    cli_say(c, "\n");
}

static sparta_status layers_table(cli *c, const facts *f)
{
    static const char *const names[] = {"layer",     "op", "shape",    "pattern", "density",
                                        "implement", "us", "dense_us", "source",  "reason"};
    cli_table t = cli_table_begin(c, (int)SP_COUNT(names), names);
    for (int i = 0; i < f->n_layers; i++) {
        const sp_layer *l = &f->layer[i];
        const char *shape =
            l->n ? sp_arena_printf(c->arena, "%lldx%lld", (long long)l->n, (long long)l->k) : "";
        cli_table_text(&t, l->name);
        cli_table_text(&t, l->op);
        cli_table_text(&t, shape);
        cli_table_text(&t, l->n ? l->pattern : "");
        cli_table_real(&t, 3, l->n ? l->density : NAN); /* a product of activations has no weight */
        cli_table_text(&t, l->implement);
        cli_table_real(&t, 1, l->us > 0 ? l->us : NAN);
        cli_table_real(&t, 1, l->dense_us > 0 ? l->dense_us : NAN);
        cli_table_text(&t, l->us > 0 ? l->source : "");
        cli_table_text(&t, l->reason);
    }
    return cli_table_end(&t);
}

/* What --what-if found takes the place of the layers' table: those are the layers as they are. */
static sparta_status show(cli *c, const facts *f)
{
    if (cli_wants_json(c)) {
        facts_json(c, f);
        return SPARTA_OK;
    }
    head(c, f);
    if (cli_has(c, CLI_WHAT_IF)) return cli_what_if_tables(c, &f->what_if);
    SP_TRY(layers_table(c, f));
    return cli_has(c, CLI_SCHEDULE) ? schedule_table(c, &f->obeyed) : SPARTA_OK;
}

static sparta_status report(cli *c, facts *f)
{
    sparta_status measured = cli_has(c, CLI_WHAT_IF) ? cli_what_if(c, &f->what_if) : SPARTA_OK;
    if (measured && !c->stands) return measured;
    SP_TRY(show(c, f));
    return measured;
}

/* ------------------------------------------------------------------ the kinds of files */

static sparta_status inspect_package(cli *c)
{
    facts f = {.kind = "package"};
    sparta_package *p = NULL;
    SP_TRY(sparta_package_open(c->cx, c->operand[0], &p));
    f.graph = p->plan;
    f.warning = p->note;
    f.package = p;
    count_operators(&f, p->plan);
    f.parameters = parameters_of(p->plan);
    sparta_status status = cli_has(c, CLI_CHECK) ? sp_package_check_weights(c->cx, p) : SPARTA_OK;
    if (!status) status = gather(c, &f);
    if (!status) status = report(c, &f);
    sparta_package_close(p);
    return status;
}

/* The model as compile has it after the passes: what the schedule says done, and smaller if asked for. */
static sparta_status open_model(cli *c, const sparta_schedule *schedule, bool smaller, facts *f,
                                sp_model **out)
{
    sp_import_options options = {cli_text(c, CLI_EXTERNAL, NULL)};
    const sparta_compile_options none = SPARTA_OPTIONS(sparta_compile_options);
    sp_model *m;
    SP_TRY(sp_model_open(c->cx, c->operand[0], &options, &m));
    sp_bindings given;
    sparta_status status = cli_dims(c, &given);
    if (!status && !cli_has(c, CLI_WHAT_IF)) status = sp_ops_bind(m->graph, &given);
    f->graph = m->graph;
    f->opset = m->opset;
    f->parameters = parameters_of(m->graph);
    count_operators(f, m->graph);
    if (!status && schedule) status = sp_compile_schedule(c->cx, m->graph, schedule, &f->obeyed);
    f->obeyed.limit = cli_real(c, CLI_LIMIT, 0);
    if (!status) status = sp_ops_infer(m->graph);
    if (!status && smaller) status = sp_compile_propagate(m->graph, &none, &f->obeyed, &f->went);
    if (!status) status = sp_compile_passes(m->graph);
    if (status)
        sp_model_close(m);
    else
        *out = m;
    return status;
}

static sparta_status estimate(cli *c, sp_model *m, const facts *f, double *us)
{
    return sp_compile_sum(c->cx, m->graph, cli_text(c, CLI_DB, NULL), &f->obeyed, us);
}

/* The model as given, or smaller where propagation takes something away and compile would find that faster. */
static sparta_status open_faster(cli *c, const sparta_schedule *schedule, facts *f, sp_model **out)
{
    facts as_given = *f;
    sp_model *smaller, *given = NULL;
    double us = 0, given_us = 0;
    SP_TRY(open_model(c, schedule, true, f, &smaller));
    sparta_status status = SPARTA_OK;
    if (f->went.parameters_after != f->went.parameters_before) {
        status = open_model(c, schedule, false, &as_given, &given);
        if (!status) status = estimate(c, smaller, f, &us);
        if (!status) status = estimate(c, given, &as_given, &given_us);
    }
    const bool worth = sp_compile_worth(&f->went, us, given_us);
    if (!worth) *f = as_given;
    sp_model_close(worth ? given : smaller);
    *out = worth ? smaller : given;
    if (status) sp_model_close(*out);
    return status;
}

static sparta_status inspect_model(cli *c)
{
    facts f = {.kind = "onnx"};
    sp_model *m = NULL;
    sparta_schedule *schedule = NULL;
    if (cli_has(c, CLI_CHECK))
        sp_note(c->cx, "%s: --check compares the digests of a package; an ONNX file has none", c->operand[0]);
    if (cli_has(c, CLI_SCHEDULE))
        SP_TRY(sparta_schedule_open(c->cx, cli_text(c, CLI_SCHEDULE, ""), &schedule));
    sparta_status status = open_faster(c, schedule, &f, &m);
    if (!status) {
        status = gather(c, &f);
        for (int i = 0; !status && i < m->n_external; i++) f.bytes += m->external[i].size;
        if (!status) status = report(c, &f);
        sp_model_close(m);
    }
    sparta_schedule_free(schedule);
    return status;
}

/* Flags that mean nothing here are not passed over in silence. */
static sparta_status check_flags(cli *c, bool model, bool onnx)
{
    static const cli_option_id how[] = {CLI_TIME, CLI_TARGET, CLI_DIM, CLI_BATCH};
    const size_t n = onnx ? 2 : SP_COUNT(how); /* sizes replace the symbols of an ONNX file */
    if (cli_has(c, CLI_SCHEDULE) && !onnx)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "inspect: --schedule shows what a schedule does to an ONNX model; '%s' is none",
                       c->operand[0]);
    if (cli_has(c, CLI_LIMIT) && !cli_has(c, CLI_SCHEDULE))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "inspect: --limit is for the formats of a schedule; leave it out or give --schedule");
    if (cli_has(c, CLI_WHAT_IF) && !model)
        return sp_fail(c->cx, SPARTA_E_USAGE, "inspect: --what-if prunes a model; '%s' is none",
                       c->operand[0]);
    if (cli_has(c, CLI_WHAT_IF) && cli_has(c, CLI_SCHEDULE))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "inspect: --schedule and --what-if both say how to prune; leave one out");
    for (size_t i = 0; i < n && !cli_has(c, CLI_WHAT_IF); i++)
        if (cli_has(c, how[i]))
            return sp_fail(c->cx, SPARTA_E_USAGE,
                           "inspect: --%s says how --what-if measures; leave it out or give --what-if",
                           cli_options[how[i]].name);
    return SPARTA_OK;
}

sparta_status cli_verb_inspect(cli *c)
{
    sp_file_kind kind;
    bool arrays = false;
    SP_TRY(sp_file_kind_of(c->cx, c->operand[0], &kind));
    if (kind == SP_FILE_ONNX) SP_TRY(cli_holds_arrays(c, &arrays));
    const bool onnx = kind == SP_FILE_ONNX && !arrays;
    SP_TRY(check_flags(c, onnx || kind == SP_FILE_PACKAGE, onnx));
    switch (kind) {
    case SP_FILE_PACKAGE: return inspect_package(c);
    case SP_FILE_NPY: return cli_inspect_npy(c);
    case SP_FILE_NPZ: SP_TRY(sp_import_can_show(c->cx, c->operand[0])); return cli_inspect_arrays(c);
    case SP_FILE_ONNX: break;
    }
    return arrays ? cli_inspect_arrays(c) : inspect_model(c);
}
