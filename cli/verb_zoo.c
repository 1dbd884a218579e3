/* sparta zoo: models made here, written as ONNX. */
#include "verbs.h"
#include "import/import.h"
#include "zoo/zoo.h"
#include <string.h>

static sparta_status list(cli *c)
{
    static const char *const names[] = {"name", "parameters", "MB", "what"};
    cli_json j = cli_json_begin(c, "zoo");
    cli_rows r = cli_rows_begin(c, &j, "models", (int)SP_COUNT(names), names);
    for (int i = 0; i < sp_zoo_count(); i++) {
        const sp_zoo_model *m = sp_zoo_row(i);
        cli_rows_next(&r);
        cli_rows_text(&r, "name", m->name);
        cli_rows_int(&r, "parameters", m->parameters);
        cli_json_int(&j, "bytes", m->parameters * 4);
        cli_table_real(&r.table, 1, (double)m->parameters * 4e-6);
        cli_rows_text(&r, "what", m->what);
    }
    SP_TRY(cli_rows_end(&r));
    cli_json_end(c, &j);
    return SPARTA_OK;
}

static int64_t parameters(const sp_graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        if (v->constant && v->dims.rank > 0 && sp_dtype_is_float(v->dtype))
            n += sparta_tensor_elements(v->constant);
    }
    return n;
}

static void report(cli *c, const sp_graph *g, const char *path)
{
    cli_json j = cli_json_begin(c, "zoo");
    cli_json_text(&j, "name", g->name);
    cli_json_text(&j, "output", path);
    cli_json_int(&j, "nodes", g->n_nodes);
    cli_json_int(&j, "parameters", parameters(g));
    cli_json_text(&j, "prune", cli_text(c, CLI_PRUNE, NULL));
    cli_json_int(&j, "seed", cli_int(c, CLI_SEED, 0));
    cli_json_end(c, &j);
    cli_say(c, "%s: %s, %.1f M parameters, %d nodes%s%s\n", path, g->name, (double)parameters(g) * 1e-6,
            g->n_nodes, cli_has(c, CLI_PRUNE) ? ", pruned " : "", cli_text(c, CLI_PRUNE, ""));
}

sparta_status cli_verb_zoo(cli *c)
{
    if (c->n_operands == 0) return list(c);
    sp_prune_spec prune;
    sp_zoo_request r = {.name = c->operand[0], .seed = (uint64_t)cli_int(c, CLI_SEED, 0)};
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    if (cli_has(c, CLI_PRUNE)) {
        SP_TRY(sp_prune_parse(c->cx, cli_text(c, CLI_PRUNE, NULL), &prune));
        r.prune = &prune;
    }
    SP_TRY(cli_dims(c, &r.dims));
    bool known = false;
    for (int i = 0; i < sp_zoo_count(); i++) known |= !strcmp(sp_zoo_row(i)->name, r.name);
    if (known && !path)
        return sp_fail(c->cx, SPARTA_E_USAGE, "zoo: nowhere to write %s; say where with -o M.onnx", r.name);
    sp_graph *g = NULL;
    SP_TRY(sp_zoo_build(c->cx, &r, &g));
    sparta_status status = sp_onnx_write(c->cx, g, path);
    if (!status) report(c, g, path);
    sp_graph_free(g);
    return status;
}
