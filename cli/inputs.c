/* Inputs of run, verify, bench and inspect --what-if: --input NAME=F.npy or NAME=random, --inputs F.npz, or everything from the seed. */
#include "cli.h"
#include <string.h>

typedef struct asked { /* for by --input */
    int n, n_given, n_random;
    const char **name;
    sparta_named_tensor *given;
    const char **random;
} asked;

/* The one array of a .npy. */
static sparta_status read_array(cli *c, const char *path, cli_inputs *in, sparta_tensor *out)
{
    sparta_archive *a;
    SP_TRY(sparta_archive_open(c->cx, path, &a));
    in->file[in->n_files++] = a;
    const sparta_named_tensor *only = sparta_archive_array(a, 0);
    if (!only || *only->name)
        return sp_fail(c->cx, SPARTA_E_FORMAT,
                       "%s: holds named arrays; give a .npy, or the file with --inputs", path);
    *out = only->tensor;
    return SPARTA_OK;
}

static sparta_status take_one(cli *c, const char *text, cli_inputs *in, asked *a)
{
    const char *name, *rest;
    SP_TRY(cli_cut(c, CLI_INPUT, text, &name, &rest));
    a->name[a->n++] = name;
    if (!strncmp(rest, "random", 6) && (!rest[6] || rest[6] == ':')) {
        a->random[a->n_random++] = text;
        return SPARTA_OK;
    }
    a->given[a->n_given].name = name;
    return read_array(c, rest, in, &a->given[a->n_given++].tensor);
}

/* Who gives some gives all: what is made besides was asked for. */
static sparta_status check_missing(cli *c, const asked *a, const sparta_inputs *made)
{
    sp_text names;
    const sparta_named_tensor *t;
    sp_text_init(&names, c->cx);
    for (int i = 0; (t = sparta_inputs_array(made, i)); i++) {
        bool known = !sparta_inputs_made(made, i);
        for (int k = 0; k < a->n; k++) known |= !strcmp(a->name[k], t->name);
        if (!known) sp_text_printf(&names, "%s%s", names.size ? ", " : "", t->name);
    }
    const sparta_status s = !names.size
                                ? SPARTA_OK
                                : sp_fail(c->cx, SPARTA_E_USAGE,
                                          "%s: not given: %s; give every input with --input NAME=F.npy or "
                                          "NAME=random, or in the file of --inputs, or none",
                                          c->verb->name, sp_text_str(&names));
    sp_text_free(&names);
    return s;
}

static sparta_status make(cli *c, const sparta_package *p, const sparta_model *m, cli_inputs *in)
{
    const cli_values *v = &c->option[CLI_INPUT];
    const size_t most = (size_t)v->n + 1;
    sparta_inputs_options o = SPARTA_OPTIONS(sparta_inputs_options);
    asked a = {.name = sp_arena_array(c->arena, most, sizeof *a.name)};
    SP_NEED(c->cx, a.name);
    a.given = sp_arena_array(c->arena, most, sizeof *a.given);
    SP_NEED(c->cx, a.given);
    a.random = sp_arena_array(c->arena, most, sizeof *a.random);
    SP_NEED(c->cx, a.random);
    in->file = sp_arena_array(c->arena, most, sizeof *in->file);
    SP_NEED(c->cx, in->file);
    for (int i = 0; i < v->n; i++) SP_TRY(take_one(c, v->value[i], in, &a));
    o.seed = (uint64_t)cli_int(c, CLI_SEED, 0);
    o.archive = cli_text(c, CLI_INPUTS, NULL);
    o.given = a.given;
    o.n_given = a.n_given;
    o.random = a.random;
    SP_TRY(cli_sizes(c, &o.dims));
    SP_TRY(p ? sparta_package_make_inputs(c->cx, p, &o, &in->made)
             : sparta_model_make_inputs(c->cx, m, &o, &in->made));
    while (sparta_inputs_array(in->made, in->n)) in->n++;
    in->tensor = sparta_inputs_array(in->made, 0);
    return v->n || o.archive ? check_missing(c, &a, in->made) : SPARTA_OK;
}

sparta_status cli_inputs_make(cli *c, const sparta_package *p, const sparta_model *m, cli_inputs *out)
{
    cli_inputs in = {0};
    const sparta_status s = make(c, p, m, &in);
    if (s == SPARTA_OK)
        *out = in;
    else
        cli_inputs_free(&in);
    return s;
}

sparta_status cli_inputs_of(cli *c, const char *path, cli_inputs *out)
{
    sparta_file_kind kind;
    sparta_package *p = NULL;
    sparta_model *m = NULL;
    SP_TRY(sparta_file_kind_of(c->cx, path, &kind));
    SP_TRY(kind == SPARTA_FILE_PACKAGE ? sparta_package_open(c->cx, path, &p) : cli_open_model(c, path, &m));
    const sparta_status status = cli_inputs_make(c, p, m, out);
    sparta_package_close(p);
    sparta_model_close(m);
    return status;
}

void cli_inputs_free(cli_inputs *in)
{
    sparta_inputs_free(in->made);
    for (int i = 0; i < in->n_files; i++) sparta_archive_close(in->file[i]);
    *in = (cli_inputs){0};
}

sparta_status cli_open_model(cli *c, const char *path, sparta_model **out)
{
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    o.external_data_root = cli_text(c, CLI_EXTERNAL, NULL);
    SP_TRY(cli_sizes(c, &o.dims));
    return sparta_model_open(c->cx, path, &o, out);
}
