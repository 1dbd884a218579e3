/* sparta compile: the whole walk, from ONNX to a package that was checked. */
#include "cli.h"
#include <string.h>

/* "12.3 M of 45.6 M parameters went, "; nothing when none did. */
static const char *what_went(cli *c, const sparta_facts *f)
{
    const int64_t went = f->parameters_given - f->parameters_left;
    const char *s = "";
    if (went > 0)
        s = sp_arena_printf(c->arena, "%.2f M of %.2f M parameters went, ", (double)went * 1e-6,
                            (double)f->parameters_given * 1e-6);
    return s ? s : "";
}

static sparta_status as_json(cli *c, const sparta_package *p, const sparta_report *r, const char *path,
                             size_t bytes, double seconds)
{
    const sparta_facts *f = sparta_report_facts(r);
    const char *note = sparta_package_note(p);
    cli_json j = cli_json_begin(c, "compile");
    cli_json_text(&j, "output", path);
    cli_json_int(&j, "bytes", (int64_t)bytes);
    cli_json_real(&j, "seconds", seconds);
    cli_json_int(&j, "kernels", f->kernels);
    cli_json_text(&j, "other_plans", f->other_plans);
    cli_json_text(&j, "warning", *note ? note : NULL);
    cli_targets_json(&j, r);
    cli_json_int(&j, "sparse_layers", f->sparse_layers);
    cli_json_int(&j, "parameters_before", f->parameters_given);
    cli_json_int(&j, "parameters_after", f->parameters_left);
    cli_json_int(&j, "masked_nonzero", f->masked_nonzero);
    cli_coverage_json(&j, r);
    SP_TRY(cli_layers(c, &j, r));
    cli_json_end(c, &j);
    return SPARTA_OK;
}

static void say(cli *c, const sparta_report *r, const char *path, size_t bytes, double seconds)
{
    const sparta_facts *f = sparta_report_facts(r);
    int layers = 0;
    while (sparta_report_layer(r, layers)) layers++;
    const char *plans =
        *f->other_plans ? sp_arena_printf(c->arena, ", plans for %s tokens besides", f->other_plans) : "";
    cli_say(c, "%s: %s%d of %d layers sparse, %d kernels%s%s, %.1f MB, compiled and verified in %.1f s\n",
            path, what_went(c, f), f->sparse_layers, layers, f->kernels, cli_targets_text(c, r, " for "),
            plans ? plans : "", (double)bytes * 1e-6, seconds);
}

static sparta_status finish(cli *c, const sparta_package *p, const sparta_compile_options *o,
                            const char *path, double start)
{
    const char *note = sparta_package_note(p);
    sparta_report *r = NULL;
    size_t bytes = 0;
    SP_TRY(sparta_package_save(c->cx, p, path));
    SP_TRY(cli_file_size(c, path, &bytes));
    const double seconds = sp_now() - start;
    if (*note) c->warning = sp_arena_printf(c->arena, "%s: %s", path, note);
    SP_TRY(sparta_package_report(c->cx, p, o, &r));
    sparta_status status = cli_wants_json(c) ? as_json(c, p, r, path, bytes, seconds) : SPARTA_OK;
    say(c, r, path, bytes, seconds);
    sparta_report_free(r);
    return status;
}

static void print_dump(void *user, const char *text)
{
    cli *c = user;
    for (const char *line = text; *line; line += strspn(line, "\n")) {
        const size_t length = strcspn(line, "\n");
        cli_say(c, "%.*s\n", (int)length, line);
        line += length;
    }
    if (!cli_wants_json(c)) return;
    cli_json j = cli_json_begin(c, "compile");
    cli_json_text(&j, "pass", cli_text(c, CLI_DUMP, NULL));
    cli_json_text(&j, "text", text);
    cli_json_end(c, &j);
}

static sparta_status dump(cli *c, const char *pass)
{
    sparta_compile_options o;
    if (cli_text(c, CLI_OUTPUT, NULL))
        return sp_fail(c->cx, SPARTA_E_USAGE, "compile: --dump compiles nothing; leave out -o, or --dump");
    SP_TRY(cli_compile_options(c, &o));
    SP_TRY(cli_compile_dims(c, &o.dims));
    return sparta_compile_dump(c->cx, c->operand[0], pass, &o, print_dump, c);
}

sparta_status cli_verb_compile(cli *c)
{
    const char *pass = cli_text(c, CLI_DUMP, NULL);
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    sparta_compile_options o;
    sparta_package *p = NULL;
    c->progress.grows = true;
    if (pass) return dump(c, pass);
    if (!path)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "compile: nowhere to write the package; say where with -o P.sparta");
    SP_TRY(cli_compile_options(c, &o));
    SP_TRY(cli_compile_dims(c, &o.dims));
    SP_TRY(cli_writable(c, path));
    const double start = sp_now();
    SP_TRY(sparta_compile_package(c->cx, c->operand[0], &o, &p));
    sparta_status status = finish(c, p, &o, path, start);
    sparta_package_close(p);
    return status;
}
