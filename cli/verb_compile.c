/* sparta compile: the whole walk, from ONNX to a package that was checked. */
#include "cli.h"
#include "compile/compile.h"
#include "verbs.h"
#include "implement/implement.h"
#include <float.h>
#include <string.h>

/* Masks and schedules change the weights of a model; where only packages are given they would do nothing. */
static sparta_status needs_model(cli *c)
{
    const char *file[2] = {c->n_operands ? c->operand[0] : NULL, cli_text(c, CLI_AGAINST, NULL)};
    static const cli_option_id changes[] = {CLI_MASKS, CLI_SCHEDULE, CLI_REMOVE, CLI_MULTIPLE,
                                            CLI_NO_PROPAGATE};
    bool any = false;
    for (size_t i = 0; i < SP_COUNT(changes); i++) any |= cli_has(c, changes[i]);
    if (!any) return SPARTA_OK;
    for (int i = 0; i < 2; i++) {
        sp_file_kind kind;
        if (!file[i]) continue;
        if (sp_file_kind_of(c->cx, file[i], &kind) != SPARTA_OK || kind == SP_FILE_ONNX) return SPARTA_OK;
    }
    return sp_fail(
        c->cx, SPARTA_E_USAGE,
        "%s: --masks, --schedule, --remove, --multiple and --no-propagate are for an ONNX model, and none is "
        "given; compile it with them",
        c->verb->name);
}

/* The values of an option as a list that ends with NULL. */
static sparta_status list_of(cli *c, cli_option_id id, const char *const **out)
{
    const cli_values *v = &c->option[id];
    const char **list = sp_arena_array(c->arena, (size_t)v->n + 1, sizeof *list);
    SP_NEED(c->cx, list);
    for (int i = 0; i < v->n; i++) list[i] = v->value[i];
    *out = list;
    return SPARTA_OK;
}

/* In the options of compile 0 is the default; who says 0 wants the least there is. */
static double tolerance(const cli *c, cli_option_id id)
{
    const double given = cli_real(c, id, -1);
    return given < 0 ? 0 : given > 0 ? given : DBL_MIN;
}

/* "avx512,avx2": each of them is known. */
static sparta_status check_targets(cli *c, const char *list)
{
    for (const char *p = list; p; p = *p ? p + 1 : NULL) {
        sp_target target;
        const char *one = sp_arena_bytes(c->arena, p, strcspn(p, ","));
        SP_NEED(c->cx, one);
        if (!sp_target_parse(one, &target))
            return sp_fail(c->cx, SPARTA_E_USAGE, "%s: there is no target \"%s\"; `sparta doctor` lists them",
                           c->verb->name, one);
        p += strlen(one);
    }
    return SPARTA_OK;
}

sparta_status cli_compile_request(cli *c, sp_compile_request *out)
{
    SP_TRY(needs_model(c));
    sp_compile_request r = {.options = SPARTA_OPTIONS(sparta_compile_options)};
    r.options.masks = cli_text(c, CLI_MASKS, NULL);
    r.options.target = cli_text(c, CLI_TARGET, NULL);
    r.options.schedule = cli_text(c, CLI_SCHEDULE, NULL);
    if (cli_has(c, CLI_REMOVE)) SP_TRY(list_of(c, CLI_REMOVE, &r.options.remove));
    r.options.multiple = (int)cli_int(c, CLI_MULTIPLE, 1);
    r.options.no_propagate = cli_has(c, CLI_NO_PROPAGATE);
    r.options.dense_only = cli_has(c, CLI_DENSE);
    r.options.no_measure = cli_has(c, CLI_NO_MEASURE);
    r.options.limit = cli_real(c, CLI_LIMIT, 0);
    r.options.rtol = tolerance(c, CLI_RTOL);
    r.options.atol = tolerance(c, CLI_ATOL);
    r.options.threads = (int)cli_int(c, CLI_THREADS, 0);
    r.options.external_data_root = cli_text(c, CLI_EXTERNAL, NULL);
    SP_TRY(check_targets(c, r.options.target));
    r.runs_here = strcmp(c->verb->name, "compile") != 0;
    r.db = cli_text(c, CLI_DB, NULL);
    r.progress = cli_progress_show;
    r.progress_arg = c;
    *out = r;
    return SPARTA_OK;
}

sparta_status cli_compile_dims(cli *c, const char *const **out)
{
    const cli_values *v = &c->option[CLI_DIM];
    for (int i = 0; i < v->n; i++) {
        const char *name, *rest;
        SP_TRY(cli_cut(c, CLI_DIM, v->value[i], &name, &rest));
    }
    return list_of(c, CLI_DIM, out);
}

static int count_sparse(const sp_layer *layer, int n)
{
    int sparse = 0;
    for (int i = 0; i < n; i++) {
        const sp_implement *im = sp_implement_find(layer[i].implement);
        sparse += im && im->sparse;
    }
    return sparse;
}

/* "12.3 M of 45.6 M parameters went, "; nothing when none did. */
static const char *what_went(cli *c, const sp_propagate_report *r)
{
    const int64_t went = r->parameters_before - r->parameters_after;
    const char *s = "";
    if (went > 0)
        s = sp_arena_printf(c->arena, "%.2f M of %.2f M parameters went, ", (double)went * 1e-6,
                            (double)r->parameters_before * 1e-6);
    return s ? s : "";
}

static sparta_status report(cli *c, const sparta_package *p, const sp_compile_request *r, const char *path,
                            size_t bytes, double seconds)
{
    const sp_propagate_report *went = r->went;
    sp_layer *layer;
    sp_coverage coverage;
    int n;
    SP_TRY(sp_compile_layers(c->cx, c->arena, p->plan, cli_text(c, CLI_DB, NULL), NULL, &layer, &n));
    SP_TRY(sp_compile_coverage(c->cx, p->plan, &coverage));
    sp_compile_note_coverage(c->cx, &coverage);
    if (cli_wants_json(c)) {
        cli_json j = cli_json_begin(c, "compile");
        cli_json_text(&j, "output", path);
        cli_json_int(&j, "bytes", (int64_t)bytes);
        cli_json_real(&j, "seconds", seconds);
        cli_json_int(&j, "kernels", p->n_kernels);
        cli_json_text(&j, "warning", p->note);
        cli_targets_json(&j, p);
        cli_json_int(&j, "sparse_layers", count_sparse(layer, n));
        cli_json_int(&j, "parameters_before", went->parameters_before);
        cli_json_int(&j, "parameters_after", went->parameters_after);
        cli_json_int(&j, "masked_nonzero", *r->masked_nonzero);
        cli_coverage_json(&j, &coverage);
        cli_layers_json(&j, layer, n);
        cli_json_end(c, &j);
        return SPARTA_OK;
    }
    cli_say(c, "%s: %s%d of %d layers sparse, %d kernels%s, %.1f MB, compiled and verified in %.1f s\n", path,
            what_went(c, went), count_sparse(layer, n), n, p->n_kernels, cli_targets_text(c, p, " for "),
            (double)bytes * 1e-6, seconds);
    return SPARTA_OK;
}

sparta_status cli_verb_compile(cli *c)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    sp_compile_request r;
    sp_propagate_report went = {0};
    sparta_package *p = NULL;
    size_t bytes = 0;
    int64_t masked = 0;
    if (!path)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "compile: nowhere to write the package; say where with -o P.sparta");
    SP_TRY(cli_compile_request(c, &r));
    SP_TRY(cli_compile_dims(c, &r.options.dims));
    SP_TRY(cli_writable(c, path));
    r.went = &went;
    r.masked_nonzero = &masked;
    double start = sp_now();
    SP_TRY(sp_compile_file(c->cx, c->operand[0], &r, &p));
    sparta_status status = sp_check_cancel(c->cx);
    if (!status) status = sp_package_write(c->cx, p, path);
    if (!status) status = cli_file_size(c, path, &bytes);
    if (!status && p->note) c->warning = sp_arena_printf(c->arena, "%s: %s", path, p->note);
    if (!status) status = report(c, p, &r, path, bytes, sp_now() - start);
    sparta_package_close(p);
    return status;
}
