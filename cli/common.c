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

sparta_status cli_make_folder(cli *c, const char *path)
{
    return sp_make_folder(c->cx, path);
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
    for (int i = 0; i < v->n; i++) SP_TRY(sp_store_define_file(c->cx, v->value[i]));
    return SPARTA_OK;
}

void cli_tensor_json(cli_json *j, const sparta_tensor *t)
{
    cli_json_text(j, "dtype", sparta_dtype_name(t->dtype));
    cli_json_ints(j, "shape", t->rank, t->dim);
}

void cli_json_sizes(cli_json *j, const sp_bindings *sizes)
{
    cli_json_open(j, "sizes", '{');
    for (int i = 0; i < sizes->n; i++) cli_json_int(j, sizes->name[i], sizes->value[i]);
    cli_json_close(j, '}');
}

const char *cli_tensor_text(cli *c, const sparta_tensor *t)
{
    sp_text shape;
    sp_text_init(&shape, c->cx);
    sp_tensor_print_shape(t, &shape);
    const char *text = sp_arena_printf(c->arena, "%s %s", sparta_dtype_name(t->dtype), sp_text_str(&shape));
    sp_text_free(&shape);
    return text ? text : "";
}

const char *cli_dims_text(cli *c, const sparta_tensor *t)
{
    sp_text shape;
    sp_text_init(&shape, c->cx);
    sp_tensor_print_shape(t, &shape);
    const char *text = sp_arena_string(c->arena, sp_text_str(&shape));
    sp_text_free(&shape);
    return text ? text : "";
}

const char *cli_shape(cli *c, int64_t n, int64_t k)
{
    return n ? sp_arena_printf(c->arena, "%lldx%lld", (long long)n, (long long)k) : "";
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
        if (sp_target_device(target) != SP_DEVICE_CPU)
            return sp_fail(c->cx, SPARTA_E_USAGE,
                           "%s: %s is a target of GPUs, and packages run on the CPU; --target takes avx512, "
                           "avx2, portable",
                           c->verb->name, one);
        p += strlen(one);
    }
    return SPARTA_OK;
}

sparta_status cli_compile_request(cli *c, sp_compile_request *out)
{
    sp_compile_request r = {.runs_here = true};
    SP_TRY(cli_compile_options(c, &r.options));
    SP_TRY(check_targets(c, r.options.target));
    *out = r;
    return SPARTA_OK;
}

sparta_status cli_patterns(cli *c, cli_option_id id, const char *list, const char *const **out, int *n)
{
    enum { MOST = 64 };
    const char *flag = cli_options[id].name, **pattern = sp_arena_array(c->arena, MOST, sizeof *pattern);
    int count = 0;
    SP_NEED(c->cx, pattern);
    for (const char *p = list;; p++) {
        const size_t length = strcspn(p, ",");
        if (!length)
            return sp_fail(c->cx, SPARTA_E_USAGE,
                           "%s: --%s %.60s: a pattern is missing; write e.g. 4x1:0.9,2:4", c->verb->name,
                           flag, list);
        if (count == MOST)
            return sp_fail(c->cx, SPARTA_E_USAGE, "%s: --%s: more than %d patterns; ask for fewer",
                           c->verb->name, flag, MOST);
        pattern[count] = sp_arena_bytes(c->arena, p, length);
        SP_NEED(c->cx, pattern[count]);
        count++;
        p += length;
        if (!*p) break;
    }
    *out = pattern;
    *n = count;
    return SPARTA_OK;
}

void cli_note_noise(cli *c)
{
    sp_note(c->cx,
            "%s: the machine is noisy: the times of one thing lie far apart; close what else runs, or "
            "measure longer "
            "with --time",
            c->verb->name);
}
