/* sparta run: a package in a session, or an ONNX file on the references; results as npy. */
#include "cli.h"

typedef struct job {
    cli *c;
    const char *folder;
    cli_inputs in;
    sparta_named_tensor *out;
    int n_out;
    double seconds;
    int threads; /* 0: the references */
    const char *isa;
    const char *warning; /* of the package; NULL: none */
} job;

/* D/NAME.npy; a '/' in the name becomes '_', so that it stays inside D. */
static sparta_status path_of(job *j, const char *name, const char **out)
{
    char *file = sp_arena_string(j->c->arena, name);
    SP_NEED(j->c->cx, file);
    for (char *p = file; *p; p++)
        if (*p == '/') *p = '_';
    const char *path = sp_arena_printf(j->c->arena, "%s/%s.npy", j->folder, file);
    SP_NEED(j->c->cx, path);
    *out = path;
    return SPARTA_OK;
}

/* Two names that differ only in '/' and '_' would overwrite each other. An empty path is not written. */
static sparta_status check_paths(job *j, sp_map *seen, const char **path, int n)
{
    for (int i = 0; i < n; i++) {
        SP_TRY(sp_check_cancel(j->c->cx));
        if (*path[i] && sp_map_get(seen, path[i], NULL))
            return sp_fail(j->c->cx, SPARTA_E_UNSUPPORTED,
                           "run: two arrays would be written to %s; rename one in the model", path[i]);
        SP_TRY(sp_map_put(seen, path[i], i));
    }
    return SPARTA_OK;
}

static sparta_status write_all(job *j, const char **path)
{
    int n = 0;
    for (int i = 0; i < j->n_out; i++) SP_TRY(path_of(j, j->out[i].name, &path[n++]));
    for (int i = 0; i < j->in.n; i++) {
        path[n] = "";
        if (sparta_inputs_made(j->in.made, i)) SP_TRY(path_of(j, j->in.tensor[i].name, &path[n]));
        n++;
    }
    sp_map *seen = sp_map_create(j->c->cx);
    SP_NEED(j->c->cx, seen);
    sparta_status status = check_paths(j, seen, path, n);
    sp_map_free(seen);
    SP_TRY(status);
    SP_TRY(cli_make_folder(j->c, j->folder));
    for (int i = 0; i < j->in.n; i++)
        if (sparta_inputs_made(j->in.made, i))
            SP_TRY(sparta_archive_save(j->c->cx, path[j->n_out + i], &j->in.tensor[i], 1));
    for (int i = 0; i < j->n_out; i++) SP_TRY(sparta_archive_save(j->c->cx, path[i], &j->out[i], 1));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what is said */

static void array_json(cli_json *o, const sparta_named_tensor *t, const char *file)
{
    cli_json_open(o, NULL, '{');
    cli_json_text(o, "name", t->name);
    cli_tensor_json(o, &t->tensor);
    cli_json_text(o, "file", *file ? file : NULL);
    cli_json_close(o, '}');
}

static sparta_status report(job *j, const char **path)
{
    cli *c = j->c;
    if (cli_wants_json(c)) {
        cli_json o = cli_json_begin(c, "run");
        cli_json_text(&o, "name", c->operand[0]);
        cli_json_open(&o, "inputs", '[');
        for (int i = 0; i < j->in.n; i++) array_json(&o, &j->in.tensor[i], path[j->n_out + i]);
        cli_json_close(&o, ']');
        cli_json_open(&o, "outputs", '[');
        for (int i = 0; i < j->n_out; i++) array_json(&o, &j->out[i], path[i]);
        cli_json_close(&o, ']');
        cli_json_real(&o, "ms", j->seconds * 1e3);
        cli_json_int(&o, "threads", j->threads ? j->threads : 1);
        cli_json_text(&o, "isa", j->isa);
        cli_json_text(&o, "warning", j->warning);
        cli_json_end(c, &o);
        return SPARTA_OK;
    }
    for (int i = 0; i < j->n_out; i++) cli_say(c, "%s: %s\n", path[i], cli_tensor_text(c, &j->out[i].tensor));
    bool generated = false;
    for (int i = 0; i < j->in.n; i++) generated |= *path[j->n_out + i] != 0;
    if (generated)
        cli_say(c, "inputs made from seed %lld are in %s too\n", (long long)cli_int(c, CLI_SEED, 0),
                j->folder);
    if (j->threads)
        cli_say(c, "%.2f ms (first run, %d thread%s, %s)\n", j->seconds * 1e3, j->threads,
                j->threads == 1 ? "" : "s", j->isa);
    else
        cli_say(c, "%.2f ms on the reference\n", j->seconds * 1e3);
    return SPARTA_OK;
}

static sparta_status finish(job *j)
{
    const char **path = sp_arena_array(j->c->arena, (size_t)(j->n_out + j->in.n) + 1, sizeof *path);
    SP_NEED(j->c->cx, path);
    SP_TRY(write_all(j, path));
    return report(j, path);
}

/* ------------------------------------------------------------------ the two ways */

static sparta_status make_room(job *j, int n)
{
    j->out = sp_arena_array(j->c->arena, (size_t)n + 1, sizeof *j->out);
    SP_NEED(j->c->cx, j->out);
    j->n_out = n;
    return SPARTA_OK;
}

static sparta_status in_session(job *j, const sparta_package *p, sparta_session **s)
{
    cli *c = j->c;
    sparta_session_options options = SPARTA_OPTIONS(sparta_session_options);
    const char *note = sparta_package_note(p);
    options.threads = (int)cli_int(c, CLI_THREADS, 0);
    j->warning = *note ? note : NULL;
    SP_TRY(make_room(j, sparta_package_outputs(p)));
    for (int i = 0; i < j->n_out; i++) j->out[i].name = sparta_package_output_name(p, i);
    SP_TRY(cli_inputs_make(c, p, NULL, &j->in));
    SP_TRY(sparta_session_create(c->cx, p, &options, s));
    const double start = sp_now();
    SP_TRY(sparta_session_run(c->cx, *s, j->in.tensor, j->in.n, j->out, j->n_out));
    j->seconds = sp_now() - start;
    j->threads = sparta_session_threads(*s);
    j->isa = sparta_session_isa(*s);
    return finish(j);
}

static sparta_status run_package(job *j)
{
    sparta_package *p = NULL;
    sparta_session *s = NULL;
    SP_TRY(sparta_package_open(j->c->cx, j->c->operand[0], &p));
    sparta_status status = in_session(j, p, &s);
    sparta_session_free(s);
    cli_inputs_free(&j->in);
    sparta_package_close(p);
    return status;
}

static sparta_status on_references(job *j, sparta_model *m)
{
    cli *c = j->c;
    j->isa = "reference";
    SP_TRY(make_room(j, sparta_model_outputs(m)));
    for (int i = 0; i < j->n_out; i++) j->out[i].name = sparta_model_output_name(m, i);
    SP_TRY(cli_inputs_make(c, NULL, m, &j->in));
    const double start = sp_now();
    SP_TRY(sparta_model_run(c->cx, m, j->in.tensor, j->in.n, j->out, j->n_out));
    j->seconds = sp_now() - start;
    return finish(j);
}

static sparta_status run_model(job *j)
{
    sparta_model *m = NULL;
    SP_TRY(cli_open_model(j->c, j->c->operand[0], &m));
    sparta_status status = on_references(j, m);
    cli_inputs_free(&j->in);
    sparta_model_close(m);
    return status;
}

sparta_status cli_verb_run(cli *c)
{
    job j = {.c = c, .folder = cli_text(c, CLI_OUTPUT_DIR, NULL)};
    sparta_file_kind kind;
    if (!j.folder)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "run: nowhere to write the outputs; say where with --output-dir D");
    SP_TRY(sparta_file_kind_of(c->cx, c->operand[0], &kind));
    return kind == SPARTA_FILE_PACKAGE ? run_package(&j) : run_model(&j);
}
