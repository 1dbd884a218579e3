/* sparta inspect: what is in a file. Runs no code of it and times nothing, unless --what-if asks for that. */
#include "verbs.h"
#include <math.h>
#include <string.h>

typedef struct facts { /* of a model or package */
    const char *kind;
    const sparta_package *package; /* NULL: an ONNX file */
    const sparta_report *report;
    const sparta_facts *all; /* of the report */
    sp_what_if what_if;
} facts;

static bool is_bounded(const sparta_symbol *s)
{
    return s->most < INT64_MAX;
}

static void say_bound(cli *c, const sparta_symbol *s)
{
    if (s->least && is_bounded(s))
        cli_say(c, " (%lld to %lld)", (long long)s->least, (long long)s->most);
    else if (s->least)
        cli_say(c, " (at least %lld)", (long long)s->least);
    else if (is_bounded(s))
        cli_say(c, " (at most %lld)", (long long)s->most);
}

/* ------------------------------------------------------------------ --schedule: what each clause did */

static sparta_status schedule_effects(cli *c, cli_json *j, const sparta_report *r)
{
    static const char *const names[] = {"at",     "clause",  "tensor",  "shape",
                                        "before", "density", "pattern", "implement"};
    const sparta_effect *e;
    cli_rows t = cli_rows_begin(c, j, "schedule", (int)SP_COUNT(names), names);
    for (int i = 0; (e = sparta_report_effect(r, i)); i++) {
        cli_rows_next(&t);
        cli_rows_text(&t, "at", e->at);
        cli_json_text(j, "clause", e->clause);
        cli_json_text(j, "text", e->text);
        cli_table_text(&t.table, sp_arena_printf(c->arena, "%s %s", e->clause, e->text));
        cli_json_text(j, "glob", e->glob);
        cli_rows_text(&t, "tensor", e->tensor);
        cli_json_text(j, "layer", e->layer);
        cli_json_int(j, "n", e->n);
        cli_json_int(j, "k", e->k);
        cli_table_text(&t.table, cli_shape(c, e->n, e->k));
        cli_rows_real(&t, "density_before", 3, e->density_before);
        cli_rows_real(&t, "density", 3, e->density);
        cli_rows_text(&t, "pattern", e->pattern);
        cli_rows_text(&t, "implement", e->implement);
    }
    cli_say(c, "\nwhat the schedule did:\n");
    return cli_rows_end(&t);
}

/* ------------------------------------------------------------------ what is said */

static void facts_json(cli *c, cli_json *j, const facts *f)
{
    const char *warning = f->package ? sparta_package_note(f->package) : "";
    const sparta_symbol *s;
    const sparta_operator_use *op;
    cli_json_text(j, "name", c->operand[0]);
    cli_json_text(j, "kind", f->kind);
    cli_json_int(j, "nodes", f->all->nodes);
    cli_json_int(j, "parameters", f->all->parameters);
    cli_json_int(j, "bytes", (int64_t)f->all->bytes);
    if (f->all->opset) cli_json_int(j, "opset", f->all->opset);
    cli_json_text(j, "warning", *warning ? warning : NULL);
    if (f->package) cli_targets_json(j, f->report);
    if (f->package) cli_json_text(j, "other_plans", f->all->other_plans);
    if (cli_has(c, CLI_CHECK)) cli_json_bool(j, "weights_checked", f->package != NULL);
    cli_json_open(j, "symbols", '[');
    for (int i = 0; (s = sparta_report_symbol(f->report, i)); i++) cli_json_text(j, NULL, s->name);
    cli_json_close(j, ']');
    cli_json_open(j, "bounds", '{');
    for (int i = 0; (s = sparta_report_symbol(f->report, i)); i++)
        if (is_bounded(s)) cli_json_int(j, s->name, s->most);
    cli_json_close(j, '}');
    cli_json_open(j, "least", '{');
    for (int i = 0; (s = sparta_report_symbol(f->report, i)); i++)
        if (s->least) cli_json_int(j, s->name, s->least);
    cli_json_close(j, '}');
    cli_json_open(j, "operators", '{');
    for (int i = 0; (op = sparta_report_operator(f->report, i)); i++) cli_json_int(j, op->name, op->nodes);
    cli_json_close(j, '}');
    if (f->all->parameters_given > f->all->parameters_left)
        cli_json_int(j, "parameters_after", f->all->parameters_left);
    cli_coverage_json(j, f->report);
}

/* Where the times of the table come from: its layers may have several sources. */
static void say_sources(cli *c, const sparta_report *r)
{
    static const struct {
        const char *source, *means;
    } known[] = {{"measured", "timed by compile"},
                 {"database", "timed on this machine before"},
                 {"model", "estimated; compile times them"}};
    const sparta_layer *l;
    if (!sparta_report_layer(r, 0)) return;
    cli_say(c, "times: us on one thread, at 128 tokens or, where the model has at most 16, at all of them");
    for (size_t k = 0; k < SP_COUNT(known); k++) {
        bool used = false;
        for (int i = 0; (l = sparta_report_layer(r, i)); i++)
            used |= l->source && !strcmp(l->source, known[k].source);
        if (used) cli_say(c, "; %s: %s", known[k].source, known[k].means);
    }
    cli_say(c, "\n");
}

static void say_symbols(cli *c, const sparta_report *r)
{
    const sparta_symbol *s;
    cli_say(c, "\nsymbols:");
    for (int i = 0; (s = sparta_report_symbol(r, i)); i++) {
        cli_say(c, " %s", s->name);
        say_bound(c, s);
    }
    cli_say(c, sparta_report_symbol(r, 0) ? "\n" : " none\n");
}

static void head(cli *c, const facts *f)
{
    const sparta_operator_use *op;
    cli_say(c, "%s: %s, %d nodes, %.2f M parameters, %.1f MB", c->operand[0], f->kind, f->all->nodes,
            (double)f->all->parameters * 1e-6, (double)f->all->bytes * 1e-6);
    if (f->all->opset) cli_say(c, ", opset %d", f->all->opset);
    if (f->package) cli_say(c, "%s", cli_targets_text(c, f->report, ", code for "));
    if (*f->all->other_plans) cli_say(c, ", plans for %s tokens besides", f->all->other_plans);
    say_symbols(c, f->report);
    cli_say(c, "operators:");
    for (int i = 0; (op = sparta_report_operator(f->report, i)); i++)
        cli_say(c, " %s %d", op->name, op->nodes);
    cli_say(c, "\n");
    const int64_t went = f->all->parameters_given - f->all->parameters_left;
    if (went > 0)
        cli_say(c,
                "%.3f M parameters go before anything is chosen (sparta propagate); layers are as that "
                "leaves them\n",
                (double)went * 1e-6);
    if (cli_has(c, CLI_CHECK) && f->package) cli_say(c, "digests of all weights are right\n");
    say_sources(c, f->report);
    cli_say(c, "\n");
}

/* What --what-if found takes the place of the layers' table: those are the layers as they are. */
static sparta_status show(cli *c, const facts *f)
{
    const bool what_if = cli_has(c, CLI_WHAT_IF);
    cli_json j = cli_json_begin(c, "inspect");
    facts_json(c, &j, f);
    head(c, f);
    if (!what_if || cli_wants_json(c)) SP_TRY(cli_layers(c, &j, f->report));
    if (what_if) SP_TRY(cli_what_if_show(c, &j, &f->what_if));
    if (cli_has(c, CLI_SCHEDULE)) SP_TRY(schedule_effects(c, &j, f->report));
    cli_json_end(c, &j);
    return SPARTA_OK;
}

static sparta_status tell(cli *c, facts *f)
{
    f->all = sparta_report_facts(f->report);
    sparta_status measured = cli_has(c, CLI_WHAT_IF) ? cli_what_if(c, &f->what_if) : SPARTA_OK;
    if (measured && !c->stands) return measured;
    SP_TRY(show(c, f));
    return measured;
}

/* ------------------------------------------------------------------ the kinds of files */

static sparta_status inspect_package(cli *c)
{
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    sparta_report *report = NULL;
    sparta_package *p = NULL;
    o.db = cli_text(c, CLI_DB, NULL);
    SP_TRY(sparta_package_open(c->cx, c->operand[0], &p));
    sparta_status status = cli_has(c, CLI_CHECK) ? sparta_package_check(c->cx, p) : SPARTA_OK;
    if (!status) status = sparta_package_report(c->cx, p, &o, &report);
    facts f = {.kind = "package", .package = p, .report = report};
    if (!status) status = tell(c, &f);
    sparta_report_free(report);
    sparta_package_close(p);
    return status;
}

/* --dim and --batch as texts; with --what-if they say how it measures. */
static sparta_status dims_of(cli *c, const char *const **out)
{
    sp_bindings given;
    SP_TRY(cli_dims(c, &given));
    const int n = cli_has(c, CLI_WHAT_IF) ? 0 : given.n;
    const char **dims = sp_arena_array(c->arena, (size_t)n + 1, sizeof *dims);
    SP_NEED(c->cx, dims);
    for (int i = 0; i < n; i++) {
        dims[i] = sp_arena_printf(c->arena, "%s=%lld", given.name[i], (long long)given.value[i]);
        SP_NEED(c->cx, dims[i]);
    }
    *out = dims;
    return SPARTA_OK;
}

static sparta_status inspect_model(cli *c)
{
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    sparta_report *report = NULL;
    if (cli_has(c, CLI_CHECK))
        sp_note(c->cx, "%s: --check compares the digests of a package; an ONNX file has none", c->operand[0]);
    o.external_data_root = cli_text(c, CLI_EXTERNAL, NULL);
    o.schedule = cli_text(c, CLI_SCHEDULE, NULL);
    o.limit = cli_real(c, CLI_LIMIT, 0);
    o.db = cli_text(c, CLI_DB, NULL);
    SP_TRY(dims_of(c, &o.dims));
    SP_TRY(sparta_model_report(c->cx, c->operand[0], &o, &report));
    facts f = {.kind = sparta_report_facts(report)->opset ? "onnx" : "pt2", .report = report};
    sparta_status status = tell(c, &f);
    sparta_report_free(report);
    return status;
}

/* Flags that mean nothing here are not passed over in silence. */
static sparta_status check_flags(cli *c, bool model, bool onnx)
{
    static const cli_option_id how[] = {CLI_TIME, CLI_TARGET, CLI_INPUT, CLI_INPUTS, CLI_DIM, CLI_BATCH};
    const size_t n = onnx ? 4 : SP_COUNT(how); /* sizes replace the symbols of an ONNX file */
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
    sparta_file_kind kind;
    bool arrays = false;
    SP_TRY(sparta_file_kind_of(c->cx, c->operand[0], &kind));
    if (kind == SPARTA_FILE_ONNX) SP_TRY(cli_holds_arrays(c, &arrays));
    const bool onnx = kind == SPARTA_FILE_ONNX && !arrays;
    SP_TRY(check_flags(c, onnx || kind == SPARTA_FILE_PACKAGE, onnx));
    switch (kind) {
    case SPARTA_FILE_PACKAGE: return inspect_package(c);
    case SPARTA_FILE_NPY: return cli_inspect_npy(c);
    case SPARTA_FILE_NPZ: SP_TRY(sp_import_can_show(c->cx, c->operand[0])); return cli_inspect_arrays(c);
    case SPARTA_FILE_ONNX: break;
    }
    return arrays ? cli_inspect_arrays(c) : inspect_model(c);
}
