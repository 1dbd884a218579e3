/* node_runner: ONNX's own node tests against the references, or through packages.
 *
 *     node_runner <folder of node tests> [floor] [-v] [--package] [--share I/N] [name ...]
 *
 * Each folder holds model.onnx and test_data_set_*\/{input,output}_*.pb. A model is imported, inferred and
 * run by sp_ops_run, and its outputs compared (integers exactly, floats within rtol 1e-3 and atol 1e-7). Then it is written as
 * ONNX, read again, and must give the same; the files are kept in $NODE_RUNNER_KEEP when that names a folder.
 * With --package a model is compiled instead, choosing by the cost model, and its package runs in a session.
 * --share takes every N-th test, from the I-th (0 to N-1) on: for several runners side by side.
 * A model or tensor that sparta does not support (E_UNSUPPORTED: an operator without a row, a text, a
 * sequence) counts as such; anything else that goes wrong is a failure. Exit 1 on a failure, or when fewer
 * than `floor` tests pass.
 */
#include "../unit/onnx_tensor.h"
#include "ops/ops.h"
#include "sparta.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16 }; /* inputs or outputs */
typedef enum { PASSED, UNSUPPORTED, FAILED } outcome;

typedef struct tally {
    int count[3];
} tally;

typedef struct runner {
    sparta_ctx *cx;
    bool verbose, package;
    int share, shares; /* which of how many */
    tally total, by_op[SP_OPS];
    const char *root;
} runner;

/* ------------------------------------------------------------------ comparing */
static bool same_float(double got, double want)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabs(got - want) <= 1e-7 + 1e-3 * fabs(want);
}

static bool same_tensor(const sparta_tensor *got, const sparta_tensor *want, char *why, size_t n)
{
    if (got->dtype != want->dtype || !sp_tensor_same_shape(got, want)) {
        snprintf(why, n, "%s of rank %d, wanted %s of rank %d (or other dims)", sparta_dtype_name(got->dtype),
                 got->rank, sparta_dtype_name(want->dtype), want->rank);
        return false;
    }
    const sparta_tensor *both[] = {got, want};
    for (sp_cursor w = sp_cursor_begin(got->rank, got->dim, 2, both); w.more; sp_cursor_next(&w)) {
        double a = sp_element_get(got->dtype, got->data, w.at[0]),
               b = sp_element_get(want->dtype, want->data, w.at[1]);
        bool same = sp_dtype_is_float(got->dtype) ? same_float(a, b)
                                                  : sp_element_get_int(got->dtype, got->data, w.at[0]) ==
                                                        sp_element_get_int(want->dtype, want->data, w.at[1]);
        if (same) continue;
        snprintf(why, n, "element %lld is %.9g, wanted %.9g", (long long)w.at[0], a, b);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ one test */
static sparta_status read_tensor(sparta_ctx *cx, const char *folder, const char *kind, int i,
                                 sparta_tensor *out)
{
    char path[4096], *bytes;
    size_t n;
    snprintf(path, sizeof path, "%s/%s_%d.pb", folder, kind, i);
    SP_TRY(sp_file_read(cx, path, (size_t)1 << 28, &bytes, &n));
    sparta_status status = onnx_tensor(cx, bytes, n, out);
    sp_free(cx, bytes);
    return status;
}

static sparta_status compare_outputs(runner *r, const sp_graph *g, const char *folder,
                                     const sparta_tensor *got)
{
    for (int i = 0; i < g->n_outputs; i++) {
        sparta_tensor want;
        char why[256];
        SP_TRY(read_tensor(r->cx, folder, "output", i, &want));
        bool same = same_tensor(&got[i], &want, why, sizeof why);
        sp_free(r->cx, want.data);
        if (!same) return sp_fail(r->cx, SPARTA_E_DIFFER, "output %d: %s", i, why);
    }
    return SPARTA_OK;
}

/* The inputs of a data set; on failure, too, what was read is in `in`. */
static sparta_status read_inputs(runner *r, const sp_graph *g, const char *folder,
                                 sparta_named_tensor in[MOST])
{
    if (g->n_inputs > MOST || g->n_outputs > MOST)
        return sp_fail(r->cx, SPARTA_E_UNSUPPORTED, "more than %d inputs or outputs", MOST);
    for (int i = 0; i < g->n_inputs; i++) {
        in[i].name = g->input[i]->name;
        SP_TRY(read_tensor(r->cx, folder, "input", i, &in[i].tensor));
    }
    return SPARTA_OK;
}

static sparta_status run_set(runner *r, const sp_graph *g, const char *folder)
{
    sparta_named_tensor in[MOST] = {0};
    sparta_tensor out[MOST] = {0};
    sparta_status status = read_inputs(r, g, folder, in);
    if (status == SPARTA_OK) status = sp_ops_run(r->cx, g, in, g->n_inputs, out, NULL, NULL);
    if (status == SPARTA_OK) status = compare_outputs(r, g, folder, out);
    for (int i = 0; i < MOST; i++) {
        sp_free(r->cx, in[i].tensor.data);
        sp_free(r->cx, out[i].data);
    }
    return status;
}

/* ------------------------------------------------------------------ through a package */
static sparta_status run_session(runner *r, const sp_graph *g, const char *folder,
                                 const sparta_package *package, const sparta_named_tensor *in)
{
    sparta_session_options options = SPARTA_OPTIONS(sparta_session_options);
    sparta_session *session;
    sparta_named_tensor out[MOST] = {0};
    sparta_tensor got[MOST];
    options.threads = 1;
    SP_TRY(sparta_session_create(r->cx, package, &options, &session));
    for (int i = 0; i < g->n_outputs; i++) out[i].name = g->output[i]->name;
    sparta_status status = sparta_session_run(r->cx, session, in, g->n_inputs, out, g->n_outputs);
    for (int i = 0; i < g->n_outputs; i++) got[i] = out[i].tensor;
    if (status == SPARTA_OK) status = compare_outputs(r, g, folder, got);
    sparta_session_free(session);
    return status;
}

/* `g` is what stands in the file at `path`. */
static sparta_status run_package(runner *r, const sp_graph *g, const char *path, const char *folder)
{
    sparta_compile_options options = SPARTA_OPTIONS(sparta_compile_options);
    sparta_named_tensor in[MOST] = {0};
    sparta_package *package = NULL;
    options.no_measure = options.threads = 1;
    sparta_status status = read_inputs(r, g, folder, in);
    if (status == SPARTA_OK) status = sparta_compile_package(r->cx, path, &options, &package);
    if (status == SPARTA_OK) status = run_session(r, g, folder, package, in);
    sparta_package_close(package);
    for (int i = 0; i < MOST; i++) sp_free(r->cx, in[i].tensor.data);
    return status;
}

/* The operators of a model, kept from before folding makes them vanish. */
typedef struct ops_seen {
    bool op[SP_OPS];
} ops_seen;

/* Where a shape is an input, its contents of the first data set take the input's place: what a shape may be computed from (integers
 * in a row), or everything. */
typedef enum { NOTHING, LISTS, ALL } frozen;

static sparta_status freeze_inputs(runner *r, sp_graph *g, const char *folder, frozen which)
{
    int n = g->n_inputs;
    for (int i = 0; i < n; i++) {
        sparta_tensor t;
        sp_value *c, *v = g->input[i];
        SP_TRY(read_tensor(r->cx, folder, "input", i, &t));
        if (which == LISTS && (t.rank > 1 || sp_dtype_is_float(t.dtype))) {
            sp_free(r->cx, t.data);
            continue;
        }
        sparta_status status = sp_graph_add_constant(g, NULL, &t, true, &c);
        sp_users users;
        sp_free(r->cx, t.data);
        if (status == SPARTA_OK) status = sp_graph_users(g, g->arena, &users);
        if (status != SPARTA_OK) return status;
        sp_graph_replace(g, &users, v, c);
    }
    return SPARTA_OK;
}

/* Where the model is written: one file for all, or one each to keep. */
static void again_path(const char *folder, char *out, size_t n)
{
    const char *keep = getenv("NODE_RUNNER_KEEP"), *temporary = getenv("TMPDIR"),
               *name = strrchr(folder, '/');
    if (keep && *keep)
        snprintf(out, n, "%s/%s.onnx", keep, name ? name + 1 : folder);
    else
        snprintf(out, n, "%s/node_runner.%ld.onnx", temporary && *temporary ? temporary : "/tmp",
                 (long)getpid());
}

static sparta_status run_again(runner *r, const sp_graph *g, const char *folder, const char *data)
{
    char path[4096];
    sp_model *m;
    again_path(folder, path, sizeof path);
    SP_TRY(sp_onnx_write(r->cx, g, path));
    sparta_status status = sp_model_open(r->cx, path, NULL, &m);
    if (!getenv("NODE_RUNNER_KEEP")) (void)unlink(path);
    if (status != SPARTA_OK) return sp_fail_in(r->cx, "written and read again");
    status = sp_ops_infer(m->graph);
    if (status == SPARTA_OK) status = run_set(r, m->graph, data);
    sp_model_close(m);
    return status == SPARTA_OK ? SPARTA_OK : sp_fail_in(r->cx, "written and read again");
}

/* The file is what is compiled, or where inputs were frozen what is written of the graph. */
static sparta_status compile_model(runner *r, sp_graph *g, const char *folder, const char *data, bool changed)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (changed) {
        SP_TRY(sp_ops_infer(g)); /* what is written must be typed */
        again_path(folder, path, sizeof path);
        SP_TRY(sp_onnx_write(r->cx, g, path));
    }
    const sparta_status status = run_package(r, g, path, data);
    if (changed && !getenv("NODE_RUNNER_KEEP")) (void)unlink(path);
    return status;
}

static sparta_status run_model(runner *r, const char *folder, frozen which, ops_seen *seen)
{
    char path[4096];
    sp_model *m;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    SP_TRY(sp_model_open(r->cx, path, NULL, &m));
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < m->graph->n_nodes; i++) seen->op[m->graph->node[i]->op] = true;
    snprintf(path, sizeof path, "%s/test_data_set_0", folder);
    if (which != NOTHING) status = freeze_inputs(r, m->graph, path, which);
    if (r->package) {
        if (status == SPARTA_OK) status = compile_model(r, m->graph, folder, path, which != NOTHING);
        sp_model_close(m);
        return status;
    }
    if (status == SPARTA_OK) status = sp_ops_infer(m->graph);
    if (status == SPARTA_OK) status = sp_graph_verify(m->graph);
    if (status == SPARTA_OK) status = run_set(r, m->graph, path);
    if (status == SPARTA_OK && run_again(r, m->graph, folder, path) != SPARTA_OK) {
        status = sp_ctx_status(r->cx); /* what was read must be written: nothing is unsupported here */
        if (status == SPARTA_E_UNSUPPORTED) status = SPARTA_E_DIFFER;
    }
    sp_model_close(m);
    return status;
}

/* First with inputs as inputs; when a shape is computed from data, again with some or all of the data in the model. A reference is
 * the same either way; a package that is given everything runs nothing. */
static outcome judge(runner *r, const char *folder, const char *name)
{
    ops_seen seen = {{false}};
    sparta_status status = run_model(r, folder, NOTHING, &seen);
    for (frozen which = r->package ? LISTS : ALL; which <= ALL; which++)
        if (status == SPARTA_E_UNSUPPORTED && strstr(sparta_message(r->cx), "computed from data"))
            status = run_model(r, folder, which, &seen);
    /* Models made of other domains alone (ai.onnx.ml) name no opset of the default one: none of their
     * operators is ours. */
    if (status == SPARTA_E_FORMAT && strstr(sparta_message(r->cx), "does not say its opset"))
        status = SPARTA_E_UNSUPPORTED;
    outcome o = status == SPARTA_OK ? PASSED : status == SPARTA_E_UNSUPPORTED ? UNSUPPORTED : FAILED;
    if (o == FAILED || (o == UNSUPPORTED && r->verbose))
        printf("%s %s: %s: %s\n", o == FAILED ? "FAIL" : "unsupported", name, sparta_status_name(status),
               sparta_message(r->cx));
    for (int i = 0; i < SP_OPS; i++) r->by_op[i].count[o] += seen.op[i];
    r->total.count[o]++;
    sp_ctx_clear(r->cx);
    return o;
}

/* ------------------------------------------------------------------ all of them */
static int only_folders(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static bool chosen(const char *name, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (sp_glob(names[i], name)) return true;
    return n == 0;
}

static void print_table(const runner *r)
{
    printf("%-22s %8s %12s %6s\n", "operator", "passed", "unsupported", "FAILED");
    for (int i = 0; i < SP_OPS; i++) {
        const int *c = r->by_op[i].count;
        if (c[0] + c[1] + c[2])
            printf("%-22s %8d %12d %6d\n", sp_builtin_row((sp_op_id)i)->name, c[PASSED], c[UNSUPPORTED],
                   c[FAILED]);
    }
    printf("%-22s %8d %12d %6d\n", "all tests", r->total.count[PASSED], r->total.count[UNSUPPORTED],
           r->total.count[FAILED]);
}

static bool read_options(runner *r, int argc, char **argv, int *first)
{
    r->shares = 1;
    for (*first = 3; *first < argc && argv[*first][0] == '-'; ++*first) {
        const char *a = argv[*first];
        if (!strcmp(a, "-v"))
            r->verbose = true;
        else if (!strcmp(a, "--package"))
            r->package = true;
        else if (strcmp(a, "--share") || *first + 1 == argc ||
                 sscanf(argv[++*first], "%d/%d", &r->share, &r->shares) != 2 || r->shares < 1)
            return false;
    }
    return argc > 1;
}

static void judge_all(runner *r, int n_names, char **names)
{
    struct dirent **entry;
    int n = scandir(r->root, &entry, only_folders, alphasort);
    if (n < 0) {
        fprintf(stderr, "node_runner: cannot read %s\n", r->root);
        exit(2);
    }
    for (int i = 0; i < n; i++) {
        char folder[2048];
        snprintf(folder, sizeof folder, "%s/%s", r->root, entry[i]->d_name);
        if (i % r->shares == r->share && chosen(entry[i]->d_name, n_names, names))
            judge(r, folder, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
}

int main(int argc, char **argv)
{
    runner r = {.cx = sparta_ctx_create(NULL), .root = argv[1]};
    int floor = argc > 2 ? atoi(argv[2]) : 0, first;
    if (!r.cx || !read_options(&r, argc, argv, &first)) {
        fprintf(stderr, "usage: node_runner FOLDER [FLOOR] [-v] [--package] [--share I/N] [NAME-GLOB ...]\n");
        return 2;
    }
    judge_all(&r, first < argc ? argc - first : 0, argv + first);
    print_table(&r);
    size_t left = sp_ctx_memory(r.cx);
    sparta_ctx_free(r.cx);
    if (left) printf("FAIL: %zu bytes were not freed\n", left);
    if (r.total.count[PASSED] < floor)
        printf("FAIL: %d passed, and at least %d must\n", r.total.count[PASSED], floor);
    return r.total.count[FAILED] > 0 || left > 0 || r.total.count[PASSED] < floor;
}
