/* sparta propagate: what is zero, constant or not needed goes; a smaller ONNX model with the same answer comes out. */
#include "cli.h"
#include "ops/ops.h"
#include "verbs.h"
#include <string.h>
#include <sys/stat.h>

typedef struct done {
    sp_propagate_report report;
    size_t bytes_before, bytes_after;
    double seconds, read_s, write_s;
} done;

/* ------------------------------------------------------------------ what is known of values */
static sparta_status show_values(cli *c, const sp_propagation *p, const sp_graph *g, cli_json *j)
{
    static const char *const names[] = {"value", "dtype", "precision", "zeros", "constants"};
    cli_rows r = cli_rows_begin(c, j, "values", (int)SP_COUNT(names), names);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++) {
            const sp_value *v = g->node[i]->out[k];
            double zeros, constants;
            sp_tesa_shares(sp_propagation_tesa(p, v), &zeros, &constants);
            cli_rows_next(&r);
            cli_rows_text(&r, "name", v->name);
            cli_rows_text(&r, "dtype", sparta_dtype_name(v->dtype));
            cli_rows_text(&r, "precision",
                          sp_precision_name(sp_tesa_precision(sp_propagation_tesa(p, v), NULL)));
            cli_rows_real(&r, "zeros", 3, zeros);
            cli_rows_real(&r, "constants", 3, constants);
        }
    SP_TRY(cli_rows_end(&r));
    cli_say(c, "\n");
    return SPARTA_OK;
}

/* --values, --tesa: facts of the model as it is asked for, before anything goes. */
static sparta_status find_values(cli *c, sp_graph *g, sparta_compile_options *o, cli_json *j)
{
    sp_propagation *p;
    const char *file = cli_text(c, CLI_TESA, NULL);
    SP_TRY(sp_compile_facts(g, o, &p));
    sparta_status status = cli_has(c, CLI_VALUES) ? show_values(c, p, g, j) : SPARTA_OK;
    if (!status && file) status = sp_propagation_write(p, file);
    sp_propagation_free(p);
    return status;
}

/* ------------------------------------------------------------------ the report */
static bool shrank(const sp_kept *k)
{
    return k->gone || memcmp(k->before, k->after, (size_t)k->rank * sizeof *k->before);
}

static const char *shape_text(cli *c, int rank, const int64_t *dim)
{
    const char *s = rank ? "" : "scalar";
    for (int i = 0; i < rank && s; i++)
        s = sp_arena_printf(c->arena, "%s%s%lld", s, i ? "x" : "", (long long)dim[i]);
    return s ? s : "";
}

/* Every weight is told: a script looks for the one it has pruned. */
static void report_json(cli_json *j, const char *path, const done *d)
{
    const sp_propagate_report *r = &d->report;
    cli_json_text(j, "output", path);
    cli_json_int(j, "parameters_before", r->parameters_before);
    cli_json_int(j, "parameters_after", r->parameters_after);
    cli_json_int(j, "bytes_before", (int64_t)d->bytes_before);
    cli_json_int(j, "bytes_after", (int64_t)d->bytes_after);
    cli_json_int(j, "nodes_before", r->nodes_before);
    cli_json_int(j, "nodes_after", r->nodes_after);
    cli_json_int(j, "rounds", r->rounds);
    cli_json_words(j, "cut_short", *r->cut_short ? r->cut_short : NULL);
    cli_json_real(j, "seconds", d->seconds);
    cli_json_real(j, "read_s", d->read_s);
    cli_json_real(j, "write_s", d->write_s);
    cli_json_open(j, "tensors", '[');
    for (int i = 0; i < r->n; i++) {
        const sp_kept *k = &r->tensor[i];
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", k->name);
        cli_json_ints(j, "before", k->rank, k->before);
        cli_json_ints(j, "after", k->gone ? 0 : k->rank, k->after);
        cli_json_bool(j, "gone", k->gone);
        cli_json_words(j, "blocked_by", *k->blocked_by ? k->blocked_by : NULL);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/* What changed; for --table also what is held, by whom. */
static sparta_status changes_table(cli *c, const sp_propagate_report *r, int *changed, int *blocked)
{
    static const char *const names[] = {"tensor", "before", "after", "blocked_by"};
    const bool all = cli_has(c, CLI_TABLE);
    cli_table t = cli_table_begin(c, (int)SP_COUNT(names) - !all, names);
    *changed = *blocked = 0;
    for (int i = 0; i < r->n; i++) {
        const sp_kept *k = &r->tensor[i];
        const bool held = *k->blocked_by != 0;
        *blocked += held;
        *changed += shrank(k);
        if (!shrank(k) && !(all && held)) continue;
        cli_table_text(&t, k->name);
        cli_table_text(&t, shape_text(c, k->rank, k->before));
        cli_table_text(&t, k->gone ? "gone" : shape_text(c, k->rank, k->after));
        if (all) cli_table_text(&t, cli_words_of(c, k->blocked_by));
    }
    return *changed || all ? cli_table_end(&t) : SPARTA_OK;
}

static void tell_nothing(cli *c, int blocked)
{
    cli_say(c, "nothing could go: %s\n",
            blocked ? "the zeros in the weights are held, as said above"
                    : "no whole channel, row, column or head of a weight is zero or unused; zeros that are "
                      "scattered stay in place "
                      "(sparta compile makes them fast)");
}

/* The reason in a text of report.c, "keeps 16 zero outputs of 64, because ...". */
static const char *reason_of(const sp_kept *k)
{
    const char *because = strstr(k->blocked_by, "because");
    return because ? because : k->blocked_by;
}

enum { NEAR = 256, ALSO = 6 }; /* tensors that may share a line, and those that it names */

static bool same_reason(const sp_kept *a, const sp_kept *b)
{
    return *b->blocked_by && !strcmp(reason_of(a), reason_of(b));
}

static void tell_also(cli *c, const sp_propagate_report *r, int i)
{
    int n = 0;
    for (int j = i + 1; j < SP_MIN(r->n, i + NEAR); j++)
        if (same_reason(&r->tensor[i], &r->tensor[j]) && ++n <= ALSO)
            cli_say(c, "%s%s", n == 1 ? " (also " : ", ", r->tensor[j].name);
    if (n > ALSO) cli_say(c, " and %d more", n - ALSO);
    cli_say(c, n ? ")\n" : "\n");
}

/* One line for each reason: a bias is held by what holds its weight. */
static void tell_blocked(cli *c, const sp_propagate_report *r)
{
    for (int i = 0; i < r->n; i++) {
        const sp_kept *k = &r->tensor[i];
        bool told = !*k->blocked_by;
        for (int j = SP_MAX(0, i - NEAR + 1); j < i && !told; j++) told = same_reason(&r->tensor[j], k);
        if (told) continue;
        cli_say(c, "%s %s", k->name, cli_words_of(c, k->blocked_by));
        tell_also(c, r, i);
    }
}

static sparta_status report_text(cli *c, const char *path, const done *d)
{
    const sp_propagate_report *r = &d->report;
    int changed, blocked;
    SP_TRY(changes_table(c, r, &changed, &blocked));
    if (changed && blocked) cli_say(c, "\n");
    tell_blocked(c, r);
    if (changed || blocked) cli_say(c, "\n");
    if (*r->cut_short) cli_say(c, "%s\n", cli_words_of(c, r->cut_short));
    if (!changed && r->nodes_before <= r->nodes_after) tell_nothing(c, blocked);
    cli_say(c, "%s: %.3f M of %.3f M parameters, %.1f of %.1f MB, %d of %d nodes, in %.2f s\n", path,
            (double)r->parameters_after * 1e-6, (double)r->parameters_before * 1e-6,
            (double)d->bytes_after * 1e-6, (double)d->bytes_before * 1e-6, r->nodes_after, r->nodes_before,
            d->seconds);
    return SPARTA_OK;
}

/* Runtimes lay channels out in fours, eights or sixteens: a model with 13 of 32 may take longer than the one with 19 zeros. */
static void note_odd(cli *c, const sp_propagate_report *r)
{
    int odd = 0;
    for (int i = 0; i < r->n; i++) {
        const sp_kept *k = &r->tensor[i];
        odd += k->rank > 2 && !k->gone && k->before[0] % 4 == 0 && k->after[0] % 4 != 0;
    }
    if (odd)
        sp_note(c->cx,
                "propagate: %d convolutions have no multiple of 4 channels any more, for which runtimes "
                "may take longer; "
                "--multiple 8 keeps a few that are zero",
                odd);
}

/* ------------------------------------------------------------------ the work */
/* Of the model, and of the file beside it where its weights do not fit into one. */
static sparta_status written_bytes(cli *c, const sp_graph *g, const char *path, size_t *out)
{
    size_t model, beside = 0, weight = 0; /* the largest */
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++) {
            const sparta_tensor *t = g->node[i]->in[k] ? g->node[i]->in[k]->constant : NULL;
            const size_t bits = t ? (size_t)sp_dtype_bits(t->dtype) : 0;
            if (t) weight = SP_MAX(weight, (size_t)sparta_tensor_elements(t) * bits / 8);
        }
    SP_TRY(cli_file_size(c, path, &model));
    if (model < weight) {
        const char *data = sp_arena_printf(c->arena, "%s.data", path);
        SP_NEED(c->cx, data);
        SP_TRY(cli_file_size(c, data, &beside));
    }
    *out = model + beside;
    return SPARTA_OK;
}

/* A model may be written over itself, which is one change. One whose weights lie beside it may not: it would be lost if that stopped
 * between the two files. */
static sparta_status check_output(cli *c, const sp_model *m, const char *path)
{
    struct stat in, out;
    if (m->n_external && !stat(c->operand[0], &in) && !stat(path, &out) && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino)
        return sp_fail(
            c->cx, SPARTA_E_USAGE,
            "%s: is the model that is read, whose weights lie in other files, and could be lost; give "
            "-o another name",
            path);
    return SPARTA_OK;
}

static sparta_status shrink(cli *c, sp_opened *o, sparta_compile_options *options, cli_json *j, done *d)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    const double start = sp_now();
    if (cli_has(c, CLI_VALUES) || cli_has(c, CLI_TESA)) SP_TRY(find_values(c, o->model->graph, options, j));
    cli_progress_show(c, 1, 3, "propagating");
    SP_TRY(sp_compile_propagate(o->model->graph, options, &o->obeyed, &d->report));
    d->bytes_before = o->model->file.size;
    for (int i = 0; i < o->model->n_external; i++) d->bytes_before += o->model->external[i].size;
    d->seconds = sp_now() - start;
    note_odd(c, &d->report);
    cli_progress_show(c, 2, 3, "writing");
    SP_TRY(sp_check_cancel(c->cx));
    SP_TRY(sp_propagate_tie(o->model->graph));
    SP_TRY(sp_model_check(c->cx, o->model));
    SP_TRY(sp_onnx_write(c->cx, o->model->graph, path));
    d->write_s = sp_now() - start - d->seconds;
    SP_TRY(written_bytes(c, o->model->graph, path, &d->bytes_after));
    report_json(j, path, d);
    return report_text(c, path, d);
}

sparta_status cli_verb_propagate(cli *c)
{
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    sp_compile_request r;
    sp_opened o;
    done d = {0};
    if (!path)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "propagate: nowhere to write the smaller model; say where with -o OUT.onnx");
    SP_TRY(cli_compile_request(c, &r));
    SP_TRY(cli_compile_dims(c, &r.options.dims));
    SP_TRY(cli_writable(c, path));
    if (cli_has(c, CLI_TESA)) SP_TRY(cli_writable(c, cli_text(c, CLI_TESA, NULL)));
    cli_progress_show(c, 0, 3, "reading");
    const double start = sp_now();
    SP_TRY(sp_compile_open(c->cx, c->operand[0], &r.options, &o));
    d.read_s = sp_now() - start;
    cli_json j = cli_json_begin(c, "propagate");
    sparta_status status = check_output(c, o.model, path);
    if (!status) status = shrink(c, &o, &r.options, &j, &d);
    if (!status) cli_json_end(c, &j);
    sp_compile_close(&o);
    return status;
}
