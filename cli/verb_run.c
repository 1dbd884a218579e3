/* sparta run: a package in a session, or an ONNX file on the references; results as npy. */
#include "verbs.h"
#include "file/file.h"
#include "ops/ops.h"
#include <string.h>

typedef struct job {
    cli *c;
    const char *folder;
    const sparta_graph *graph;
    cli_inputs in;
    sparta_named_tensor *out;
    int n_out;
    bool owns_out; /* the references' results are ours to free */
    double seconds;
    int threads; /* 0: the references */
    const char *isa;
    const char *warning; /* of the package; NULL: none */
} job;

/* D/NAME.npy; a '/' in the name becomes '_', so that it stays inside D. */
static sparta_status path_of(job *j, const char *name, const char **out)
{
    char *file = sparta_arena_string(j->c->arena, name);
    SPARTA_NEED(j->c->cx, file);
    for (char *p = file; *p; p++)
        if (*p == '/') *p = '_';
    const char *path = sparta_arena_printf(j->c->arena, "%s/%s.npy", j->folder, file);
    SPARTA_NEED(j->c->cx, path);
    *out = path;
    return SPARTA_OK;
}

/* Two names that differ only in '/' and '_' would overwrite each other. An empty path is not written. */
static sparta_status check_paths(job *j, sparta_map *seen, const char **path, int n)
{
    for (int i = 0; i < n; i++) {
        SPARTA_TRY(sparta_check_cancel(j->c->cx));
        if (*path[i] && sparta_map_get(seen, path[i], NULL))
            return sparta_fail(j->c->cx, SPARTA_E_UNSUPPORTED,
                               "run: two arrays would be written to %s; rename one in the model", path[i]);
        SPARTA_TRY(sparta_map_put(seen, path[i], i));
    }
    return SPARTA_OK;
}

static sparta_status write_all(job *j, const char **path)
{
    int n = 0;
    for (int i = 0; i < j->n_out; i++) SPARTA_TRY(path_of(j, j->out[i].name, &path[n++]));
    for (int i = 0; i < j->in.n; i++) {
        path[n] = "";
        if (j->in.generated[i]) SPARTA_TRY(path_of(j, j->in.tensor[i].name, &path[n]));
        n++;
    }
    sparta_map *seen = sparta_map_create(j->c->cx);
    SPARTA_NEED(j->c->cx, seen);
    sparta_status status = check_paths(j, seen, path, n);
    sparta_map_free(seen);
    SPARTA_TRY(status);
    SPARTA_TRY(sparta_make_folder(j->c->cx, j->folder));
    for (int i = 0; i < j->in.n; i++)
        if (j->in.generated[i])
            SPARTA_TRY(sparta_npy_write(j->c->cx, path[j->n_out + i], &j->in.tensor[i].tensor));
    for (int i = 0; i < j->n_out; i++) SPARTA_TRY(sparta_npy_write(j->c->cx, path[i], &j->out[i].tensor));
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
    for (int i = 0; i < j->n_out; i++) {
        sparta_text shape;
        sparta_text_init(&shape, c->cx);
        sparta_tensor_print_shape(&j->out[i].tensor, &shape);
        cli_say(c, "%s: %s %s\n", path[i], sparta_dtype_name(j->out[i].tensor.dtype),
                sparta_text_str(&shape));
        sparta_text_free(&shape);
    }
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
    const char **path = sparta_arena_array(j->c->arena, (size_t)(j->n_out + j->in.n) + 1, sizeof *path);
    SPARTA_NEED(j->c->cx, path);
    SPARTA_TRY(write_all(j, path));
    return report(j, path);
}

/* ------------------------------------------------------------------ the two ways */

static sparta_status name_outputs(job *j)
{
    j->out = sparta_arena_array(j->c->arena, (size_t)j->graph->n_outputs + 1, sizeof *j->out);
    SPARTA_NEED(j->c->cx, j->out);
    for (int i = 0; i < j->graph->n_outputs; i++) j->out[i].name = j->graph->output[i]->name;
    j->n_out = j->graph->n_outputs;
    return SPARTA_OK;
}

static sparta_status in_session(job *j, sparta_package *p, sparta_session **s)
{
    sparta_session_options options = {sizeof options, (int)cli_int(j->c, CLI_THREADS, 0), 0};
    j->graph = p->plan;
    j->warning = p->note;
    SPARTA_TRY(name_outputs(j));
    SPARTA_TRY(cli_inputs_make(j->c, j->graph, &j->in));
    SPARTA_TRY(sparta_session_create(j->c->cx, p, &options, s));
    double start = sparta_now();
    SPARTA_TRY(sparta_session_run(j->c->cx, *s, j->in.tensor, j->in.n, j->out, j->n_out));
    j->seconds = sparta_now() - start;
    j->threads = sparta_session_threads(*s);
    j->isa = sparta_session_isa(*s);
    return finish(j);
}

static sparta_status run_package(job *j)
{
    sparta_package *p = NULL;
    sparta_session *s = NULL;
    SPARTA_TRY(sparta_package_open(j->c->cx, j->c->operand[0], &p));
    sparta_status status = in_session(j, p, &s);
    sparta_session_free(s);
    cli_inputs_free(j->c, &j->in);
    sparta_package_close(p);
    return status;
}

static sparta_status on_references(job *j, sparta_model *m)
{
    cli *c = j->c;
    j->graph = m->graph;
    j->isa = "reference";
    SPARTA_TRY(name_outputs(j));
    SPARTA_TRY(cli_inputs_make(c, j->graph, &j->in));
    sparta_tensor *results = sparta_arena_array(c->arena, (size_t)j->n_out + 1, sizeof *results);
    SPARTA_NEED(c->cx, results);
    double start = sparta_now();
    SPARTA_TRY(sparta_ops_run(c->cx, j->graph, j->in.tensor, j->in.n, results, NULL, NULL));
    j->seconds = sparta_now() - start;
    j->owns_out = true;
    for (int i = 0; i < j->n_out; i++) j->out[i].tensor = results[i];
    SPARTA_TRY(sparta_model_check(c->cx, m));
    return finish(j);
}

static sparta_status run_model(job *j)
{
    sparta_model *m = NULL;
    SPARTA_TRY(cli_open_model(j->c, j->c->operand[0], &m));
    sparta_status status = on_references(j, m);
    for (int i = 0; i < j->n_out && j->owns_out; i++) sparta_free(j->c->cx, j->out[i].tensor.data);
    cli_inputs_free(j->c, &j->in);
    sparta_model_close(m);
    return status;
}

sparta_status cli_verb_run(cli *c)
{
    job j = {.c = c, .folder = cli_text(c, CLI_OUTPUT_DIR, NULL)};
    sparta_file_kind kind;
    if (!j.folder)
        return sparta_fail(c->cx, SPARTA_E_USAGE,
                           "run: nowhere to write the outputs; say where with --output-dir D");
    SPARTA_TRY(sparta_file_kind_of(c->cx, c->operand[0], &kind));
    if (kind == SPARTA_FILE_PACKAGE) return run_package(&j);
    return run_model(&j);
}
