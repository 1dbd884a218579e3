/* sparta prune: a trained model in, the same with less of its weights out, and what each layer lost. */
#include "cli.h"
#include "prune/prune.h"
#include "verbs.h"
#include <math.h>
#include <string.h>

static sparta_status request(cli *c, sp_prune_request *out)
{
    static const char *const methods[] = {"magnitude", "wanda", "sparsegpt"};
    const cli_values *keep = &c->option[CLI_KEEP];
    const char *method = cli_text(c, CLI_METHOD, "magnitude"), *pattern = cli_text(c, CLI_PATTERN, NULL);
    sp_prune_request r = {.data = cli_text(c, CLI_DATA, NULL),
                          .n_keep = keep->n,
                          .keep = keep->value,
                          .progress = cli_progress_show,
                          .user = c};
    if (!pattern)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "prune: which pattern? say e.g. --pattern 4x1:0.9 or --pattern 2:4");
    SP_TRY(sp_prune_parse(c->cx, pattern, &r.spec));
    for (int i = 0; i < (int)SP_COUNT(methods); i++)
        if (!strcmp(method, methods[i])) r.method = (sp_prune_method)i;
    *out = r;
    return SPARTA_OK;
}

/* All layers: of those that were left the reason. */
static sparta_status table(cli *c, cli_json *j, const sp_prune_report *r)
{
    static const char *const names[] = {"weight", "shape", "density", "norm_kept", "error", "left"};
    cli_rows rows = cli_rows_begin(c, j, "layers", (int)SP_COUNT(names), names);
    for (int i = 0; i < r->n; i++) {
        const sp_prune_row *row = &r->row[i];
        cli_rows_next(&rows);
        cli_rows_text(&rows, "name", row->weight);
        cli_json_ints(j, "shape", 2, (const int64_t[]){row->n, row->k});
        cli_table_text(&rows.table, cli_shape(c, row->n, row->k));
        cli_rows_real(&rows, "density", 3, row->density);
        cli_rows_real(&rows, "norm_kept", 3, row->norm_kept);
        cli_rows_real(&rows, "error", 3, row->error);
        cli_rows_text(&rows, "left", row->why ? row->why : "");
    }
    return cli_rows_end(&rows);
}

static sparta_status report(cli *c, cli_json *j, const sp_prune_report *r, double seconds)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    double elements = 0, left = 0;
    for (int i = 0; i < r->n; i++) {
        elements += (double)r->row[i].n * (double)r->row[i].k;
        left += (double)r->row[i].n * (double)r->row[i].k * r->row[i].density;
    }
    cli_json_text(j, "output", path);
    cli_json_text(j, "pattern", cli_text(c, CLI_PATTERN, NULL));
    cli_json_text(j, "method", cli_text(c, CLI_METHOD, "magnitude"));
    cli_json_int(j, "items", r->items);
    cli_json_int(j, "pruned", r->n_pruned);
    cli_json_real(j, "sparsity", elements > 0 ? 1 - left / elements : 0);
    cli_json_real(j, "seconds", seconds);
    SP_TRY(table(c, j, r));
    cli_say(c, "%s: %d of %d weights pruned by %s to %s, %.1f %% of them gone, in %.2f s\n", path,
            r->n_pruned, r->n, cli_text(c, CLI_METHOD, "magnitude"), cli_text(c, CLI_PATTERN, ""),
            elements > 0 ? 100 - 100 * left / elements : 0.0, seconds);
    return SPARTA_OK;
}

static sparta_status prune(cli *c, sp_opened *o, const sp_prune_request *r)
{
    sp_prune_report done;
    const double start = sp_now();
    SP_TRY(sp_prune_model(o->model->graph, r, &done));
    SP_TRY(sp_model_check(c->cx, o->model));
    SP_TRY(sp_onnx_write(c->cx, o->model->graph, cli_text(c, CLI_OUTPUT, NULL)));
    cli_json j = cli_json_begin(c, "prune");
    SP_TRY(report(c, &j, &done, sp_now() - start));
    cli_json_end(c, &j);
    return SPARTA_OK;
}

sparta_status cli_verb_prune(cli *c)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    sp_compile_request compile;
    sp_prune_request r;
    sp_opened o;
    if (!path)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "prune: nowhere to write the model; say where with -o OUT.onnx");
    SP_TRY(request(c, &r));
    SP_TRY(cli_compile_request(c, &compile));
    SP_TRY(cli_compile_dims(c, &compile.options.dims));
    SP_TRY(cli_writable(c, path));
    SP_TRY(sp_compile_open(c->cx, c->operand[0], &compile.options, &o));
    const sparta_status status = prune(c, &o, &r);
    sp_compile_close(&o);
    return status;
}
