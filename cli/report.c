/* What several verbs say of a report. */
#include "cli.h"

static void layer_json(cli_json *j, const sparta_layer *l)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "name", l->name);
    cli_json_text(j, "op", l->op);
    cli_json_open(j, "shape", '[');
    if (l->n) cli_json_int(j, NULL, l->n);
    if (l->n) cli_json_int(j, NULL, l->k);
    cli_json_close(j, ']');
    cli_json_text(j, "dtype", sparta_dtype_name(l->dtype));
    cli_json_text(j, "pattern", l->pattern);
    cli_json_text(j, "block", l->block);
    cli_json_real(j, "density", l->density);
    cli_json_text(j, "implement", l->implement);
    if (l->format) cli_json_text(j, "format", l->format);
    cli_json_words(j, "reason", l->reason);
    cli_json_text(j, "source", l->source);
    cli_json_real(j, "us", l->us);
    cli_json_real(j, "dense_us", l->dense_us);
    cli_json_close(j, '}');
}

void cli_layers_json(cli_json *j, const sparta_report *r)
{
    const sparta_layer *l;
    cli_json_open(j, "layers", '[');
    for (int i = 0; (l = sparta_report_layer(r, i)); i++) layer_json(j, l);
    cli_json_close(j, ']');
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
