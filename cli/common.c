/* Pieces that several verbs use. */
#include "verbs.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sparta_status cli_writable(cli *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat s;
    const char *folder = !slash          ? "."
                         : slash == path ? "/"
                                         : sp_arena_bytes(c->arena, path, (size_t)(slash - path));
    SP_NEED(c->cx, folder);
    if (!stat(path, &s) && S_ISDIR(s.st_mode))
        return sp_fail(c->cx, SPARTA_E_IO, "%s: is a folder; give a file", path);
    if (stat(folder, &s) || access(folder, W_OK | X_OK))
        return sp_fail(c->cx, SPARTA_E_IO, "%s: cannot be written: %s; make the folder or choose another",
                       path, strerror(errno));
    return SPARTA_OK;
}

sparta_status cli_file_size(cli *c, const char *path, size_t *out)
{
    struct stat s;
    if (stat(path, &s)) return sp_fail(c->cx, SPARTA_E_IO, "%s: %s; look at the path", path, strerror(errno));
    *out = (size_t)s.st_size;
    return SPARTA_OK;
}

sparta_status cli_define_formats(cli *c)
{
    const cli_values *v = &c->option[CLI_FORMATS];
    for (int i = 0; i < v->n; i++) SP_TRY(sp_format_define_file(c->cx, v->value[i]));
    return SPARTA_OK;
}

void cli_tensor_json(cli_json *j, const sparta_tensor *t)
{
    cli_json_text(j, "dtype", sparta_dtype_name(t->dtype));
    cli_json_open(j, "shape", '[');
    for (int d = 0; d < t->rank; d++) cli_json_int(j, NULL, t->dim[d]);
    cli_json_close(j, ']');
}

static void layer_json(cli_json *j, const sp_layer *l)
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
    cli_json_text(j, "reason", l->reason);
    cli_json_text(j, "source", l->us > 0 ? l->source : NULL); /* no time, no source */
    cli_json_real(j, "us", l->us > 0 ? l->us : NAN);
    cli_json_real(j, "dense_us", l->dense_us > 0 ? l->dense_us : NAN);
    cli_json_close(j, '}');
}

void cli_coverage_json(cli_json *j, const sp_coverage *c)
{
    cli_json_real(j, "unaccelerated_share", c->without_kernel);
    cli_json_text(j, "unaccelerated_reason", c->worst < 0 ? NULL : c->why);
    cli_json_text(j, "unaccelerated_hint", c->worst < 0 ? NULL : c->help);
}

void cli_layers_json(cli_json *j, const sp_layer *layer, int n)
{
    cli_json_open(j, "layers", '[');
    for (int i = 0; i < n; i++) layer_json(j, &layer[i]);
    cli_json_close(j, ']');
}

void cli_note_noise(cli *c)
{
    sp_note(c->cx,
            "%s: the machine is noisy: the times of one thing lie far apart; close what else runs, or "
            "measure longer "
            "with --time",
            c->verb->name);
}

void cli_targets_json(cli_json *j, const sparta_package *p)
{
    sp_package_target t[SP_TARGETS];
    const int n = sp_package_targets(p, t);
    cli_json_open(j, "targets", '[');
    for (int i = 0; i < n; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", sp_target_name(t[i].target));
        cli_json_int(j, "kernels", t[i].kernels);
        cli_json_bool(j, "checked", !t[i].unchecked);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

const char *cli_targets_text(cli *c, const sparta_package *p, const char *before)
{
    sp_package_target t[SP_TARGETS];
    const int n = sp_package_targets(p, t);
    const char *text = "";
    for (int i = 0; i < n && text; i++)
        text = sp_arena_printf(c->arena, "%s%s%s%s", text, i ? ", " : before, sp_target_name(t[i].target),
                               t[i].unchecked ? " (not checked)" : "");
    return text ? text : "";
}
