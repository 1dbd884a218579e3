/* What several verbs say of a report. */
#include "cli.h"
#include <math.h>

sparta_status cli_layers(cli *c, cli_json *j, const sparta_report *r)
{
    static const char *const names[] = {"layer",     "op", "shape",    "pattern", "density",
                                        "implement", "us", "dense_us", "source",  "reason"};
    const sparta_layer *l;
    cli_rows t = cli_rows_begin(c, j, "layers", (int)SP_COUNT(names), names);
    t.table.keeps = "pattern density";
    for (int i = 0; (l = sparta_report_layer(r, i)); i++) {
        cli_rows_next(&t);
        cli_rows_text(&t, "name", l->name);
        cli_rows_text(&t, "op", l->op);
        cli_json_ints(j, "shape", l->n ? 2 : 0, (int64_t[]){l->n, l->k});
        cli_table_text(&t.table, cli_shape(c, l->n, l->k));
        cli_json_text(j, "dtype", sparta_dtype_name(l->dtype));
        cli_json_text(j, "pattern", l->pattern);
        cli_json_text(j, "block", l->block);
        cli_json_real(j, "density", l->density);
        cli_table_text(&t.table, l->n ? l->pattern : ""); /* a product of activations has no weight */
        cli_table_real(&t.table, 3, l->n ? l->density : NAN);
        cli_rows_text(&t, "implement", l->implement);
        if (l->format) cli_json_text(j, "format", l->format);
        cli_rows_real(&t, "us", 1, l->us);
        cli_rows_real(&t, "dense_us", 1, l->dense_us);
        cli_rows_text(&t, "source", l->source);
        cli_rows_text(&t, "reason", cli_words_of(c, l->reason));
    }
    return cli_rows_end(&t);
}

void cli_coverage_json(cli_json *j, const sparta_report *r)
{
    const sparta_facts *f = sparta_report_facts(r);
    cli_json_real(j, "unaccelerated_share", f->unaccelerated);
    cli_json_text(j, "unaccelerated_reason", f->unaccelerated_reason);
    cli_json_words(j, "unaccelerated_hint", f->unaccelerated_hint);
}

void cli_targets_json(cli_json *j, const sparta_report *r)
{
    const sparta_target *t;
    cli_json_open(j, "targets", '[');
    for (int i = 0; (t = sparta_report_target(r, i)); i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", t->name);
        cli_json_int(j, "kernels", t->kernels);
        cli_json_bool(j, "checked", t->checked != 0);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

const char *cli_targets_text(cli *c, const sparta_report *r, const char *before)
{
    const sparta_target *t;
    const char *text = "";
    for (int i = 0; text && (t = sparta_report_target(r, i)); i++)
        text = sp_arena_printf(c->arena, "%s%s%s%s", text, i ? ", " : before, t->name,
                               t->checked ? "" : " (not checked)");
    return text ? text : "";
}
