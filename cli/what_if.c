/* sparta inspect --what-if: "what should I prune to?" The measuring is room measure's; here are the list, the tables and the JSON. */
#include "verbs.h"
#include <math.h>
#include <string.h>

static const char *const usual = "4x1:0.9,16x4:0.9,32x32:0.9,2x1:0.9,1x1:0.9,2:4";

/* ------------------------------------------------------------------ measuring */

sparta_status cli_what_if(cli *c, sp_what_if *out)
{
    const char *list = cli_text(c, CLI_WHAT_IF, "default");
    sp_what_if_request r = {.model = c->operand[0],
                            .threads = (int)cli_int(c, CLI_THREADS, 0),
                            .seconds = cli_real(c, CLI_TIME, 2),
                            .seed = (uint64_t)cli_int(c, CLI_SEED, 0)};
    SP_TRY(cli_patterns(c, CLI_WHAT_IF, strcmp(list, "default") ? list : usual, &r.pattern, &r.n_patterns));
    SP_TRY(cli_dims(c, &r.sizes));
    SP_TRY(cli_compile_request(c, &r.compile));
    cli_inputs in = {0};
    if (cli_has(c, CLI_INPUT) || cli_has(c, CLI_INPUTS)) SP_TRY(cli_inputs_of(c, r.model, &in));
    r.inputs = in.tensor;
    r.n_inputs = in.n;
    sparta_status status = sp_what_if_run(c->cx, c->arena, &r, out);
    cli_inputs_free(&in);
    cli_progress_end(c);
    c->stands = status == SPARTA_E_CANCELLED && out->n > 0;
    return status;
}

/* ------------------------------------------------------------------ for scripts */

static double ratio_of(const sp_what_if_layer *l)
{
    return l->us > 0 && l->dense_us > 0 ? l->dense_us / l->us : NAN;
}

static void layer_json(cli_json *j, const sp_what_if_layer *l)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "name", l->name);
    cli_json_ints(j, "shape", 2, (int64_t[]){l->n, l->k});
    cli_json_int(j, "tokens", l->tokens);
    cli_json_text(j, "pattern", l->pattern);
    cli_json_real(j, "density", l->density);
    cli_json_text(j, "implement", l->implement);
    cli_json_real(j, "us", l->us > 0 ? l->us : NAN);
    cli_json_real(j, "dense_us", l->dense_us > 0 ? l->dense_us : NAN);
    cli_json_real(j, "ratio_to_dense", ratio_of(l));
    cli_json_words(j, "reason", l->reason);
    cli_json_text(j, "source", l->us > 0 ? l->source : NULL);
    cli_json_close(j, '}');
}

static void remark_json(cli_json *j, const sp_what_if_remark *r)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "weight", r->weight);
    cli_json_ints(j, "shape", 2, (int64_t[]){r->n, r->k});
    cli_json_bool(j, "pruned", !r->skipped);
    cli_json_text(j, "remark", r->remark);
    cli_json_close(j, '}');
}

static void left_json(cli_json *j, const sp_what_if_left *l)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "weight", l->weight);
    cli_json_ints(j, "shape", l->rank, l->dim);
    cli_json_text(j, "reason", l->reason);
    cli_json_close(j, '}');
}

static void break_even_json(cli_json *j, const sp_break_even *e)
{
    cli_json_open(j, NULL, '{');
    cli_json_ints(j, "shape", 2, (int64_t[]){e->n, e->k});
    cli_json_int(j, "tokens", e->tokens);
    cli_json_real(j, "sparsity", e->sparsity);
    cli_json_text(j, "implement", *e->implement ? e->implement : NULL);
    cli_json_text(j, "note", e->note);
    cli_json_text(j, "source", e->source);
    cli_json_close(j, '}');
}

static void measured_at(cli_json *j, const sp_what_if *w)
{
    cli_json_open(j, "what_if_at", '{');
    cli_json_int(j, "threads", w->threads);
    cli_json_text(j, "isa", w->isa);
    cli_json_sizes(j, &w->sizes);
    cli_json_bool(j, "complete", w->complete);
    cli_json_close(j, '}');
}

static void details_json(cli_json *j, const sp_what_if_pattern *p)
{
    cli_json_open(j, "remarks", '[');
    for (int i = 0; i < p->n_remarks; i++) remark_json(j, &p->remark[i]);
    cli_json_close(j, ']');
    cli_json_open(j, "layers", '[');
    for (int i = 0; i < p->n_layers; i++) layer_json(j, &p->layer[i]);
    cli_json_close(j, ']');
    cli_json_open(j, "break_even", '[');
    for (int i = 0; i < p->n_break_even; i++) break_even_json(j, &p->break_even[i]);
    cli_json_close(j, ']');
}

/* ------------------------------------------------------------------ in both forms */

/* One line a pattern; all there is with --table. */
static sparta_status summary(cli *c, cli_json *j, const sp_what_if *w)
{
    static const char *const names[] = {"pattern",  "sparsity", "speedup",  "from",      "to",     "ms",
                                        "dense_ms", "MB",       "dense_MB", "norm_kept", "pruned", "weights"};
    cli_rows t = cli_rows_begin(c, j, "what_if", (int)SP_COUNT(names), names);
    for (int i = 0; i < w->n; i++) {
        const sp_what_if_pattern *p = &w->pattern[i];
        cli_rows_next(&t);
        cli_rows_text(&t, "pattern", p->pattern);
        cli_rows_real(&t, "sparsity", 3, p->sparsity);
        cli_rows_real(&t, "speedup", 2, p->speedup);
        cli_json_open(j, "ci95", '[');
        cli_rows_real(&t, NULL, 2, p->ci95[0]);
        cli_rows_real(&t, NULL, 2, p->ci95[1]);
        cli_json_close(j, ']');
        cli_rows_real(&t, "median_ms", 2, p->median_ms);
        cli_rows_real(&t, "dense_ms", 2, p->dense_ms);
        cli_json_int(j, "bytes", (int64_t)p->bytes);
        cli_table_real(&t.table, 1, (double)p->bytes * 1e-6);
        cli_json_int(j, "dense_bytes", (int64_t)p->dense_bytes);
        cli_table_real(&t.table, 1, (double)p->dense_bytes * 1e-6);
        cli_rows_real(&t, "norm_kept", 3, p->norm_kept);
        cli_rows_int(&t, "pruned", p->n_pruned);
        cli_rows_int(&t, "weights", p->n_weights);
        details_json(j, p);
    }
    return cli_rows_end(&t);
}

/* ------------------------------------------------------------------ for people */

static const sp_break_even *break_even_of(const sp_what_if_pattern *p, const sp_what_if_layer *l)
{
    for (int i = 0; i < p->n_break_even; i++)
        if (p->break_even[i].n == l->n && p->break_even[i].k == l->k && p->break_even[i].tokens == l->tokens)
            return &p->break_even[i];
    return NULL;
}

/* Do two layers read the same in the table: as large, run alike, as fast or as not? */
static bool alike(const sp_what_if_layer *a, const sp_what_if_layer *b)
{
    return a->n == b->n && a->k == b->k && a->tokens == b->tokens && !strcmp(a->implement, b->implement) &&
           !*a->reason == !*b->reason;
}

/* Layers that are alike share a line: the first of them, their times the mean. */
static void layer_rows(cli *c, cli_table *t, const sp_what_if_pattern *p)
{
    for (int i = 0; i < p->n_layers; i++) {
        const sp_what_if_layer *l = &p->layer[i];
        double us = 0, dense_us = 0;
        int count = 0;
        bool seen = false;
        for (int k = 0; k < p->n_layers; k++) {
            if (!alike(l, &p->layer[k])) continue;
            seen |= k < i;
            us += p->layer[k].us, dense_us += p->layer[k].dense_us;
            count++;
        }
        if (seen) continue;
        const sp_break_even *e = break_even_of(p, l);
        cli_table_text(t, p->pattern);
        cli_table_int(t, count);
        cli_table_text(t, cli_shape(c, l->n, l->k));
        cli_table_int(t, l->tokens);
        cli_table_text(t, l->name);
        cli_table_text(t, l->implement);
        cli_table_real(t, 1, us > 0 ? us / count : NAN);
        cli_table_real(t, 1, dense_us > 0 ? dense_us / count : NAN);
        cli_table_real(t, 2, us > 0 && dense_us > 0 ? dense_us / us : NAN);
        cli_table_real(t, 2, e ? e->sparsity : NAN);
        cli_table_text(t, cli_words_of(c, *l->reason ? l->reason : e ? e->note : ""));
    }
}

static sparta_status layers(cli *c, const sp_what_if *w)
{
    static const char *const names[] = {"pattern", "layers",   "shape", "tokens",     "such as", "implement",
                                        "us",      "dense_us", "ratio", "break_even", "reason"};
    cli_table t = cli_table_begin(c, (int)SP_COUNT(names), names);
    for (int i = 0; i < w->n; i++) layer_rows(c, &t, &w->pattern[i]);
    return cli_table_end(&t);
}

/* Weights that no pattern prunes; those of one reason and shape share a line. */
static void left(cli *c, const sp_what_if *w)
{
    for (int i = 0; i < w->n_left; i++) {
        const sp_what_if_left *l = &w->left[i];
        int count = 0;
        bool seen = false;
        for (int k = 0; k < w->n_left; k++) {
            const sp_what_if_left *o = &w->left[k];
            if (strcmp(o->reason, l->reason) || o->rank != l->rank ||
                memcmp(o->dim, l->dim, (size_t)l->rank * sizeof *l->dim))
                continue;
            seen |= k < i;
            count++;
        }
        const sparta_tensor t = sparta_tensor_view(SPARTA_F32, l->rank, l->dim, NULL);
        if (!seen) cli_say(c, "left, %d of %s (%s): %s\n", count, cli_dims_text(c, &t), l->weight, l->reason);
    }
}

static void remarks(cli *c, const sp_what_if_pattern *p)
{
    for (int i = 0; i < p->n_remarks; i++) {
        const sp_what_if_remark *r = &p->remark[i];
        int count = 0;
        bool seen = false;
        for (int k = 0; k < p->n_remarks; k++) {
            const sp_what_if_remark *o = &p->remark[k];
            if (o->n != r->n || o->k != r->k || o->skipped != r->skipped) continue;
            seen |= k < i;
            count++;
        }
        if (seen) continue;
        cli_say(c, "%s, %d of %lldx%lld (%s): %s\n", p->pattern, count, (long long)r->n, (long long)r->k,
                r->weight, r->remark);
    }
}

sparta_status cli_what_if_show(cli *c, cli_json *j, const sp_what_if *w)
{
    const bool people = !cli_has(c, CLI_TABLE) && !cli_has(c, CLI_QUIET);
    sp_text sizes;
    measured_at(j, w);
    cli_json_open(j, "left", '[');
    for (int i = 0; i < w->n_left; i++) left_json(j, &w->left[i]);
    cli_json_close(j, ']');
    sp_text_init(&sizes, c->cx);
    sp_sizes_print(&w->sizes, &sizes);
    cli_say(c,
            "pruned by magnitude in memory, whole model against itself dense in one run, at %s%s%d thread%s, "
            "%s;\n",
            sp_text_str(&sizes), w->sizes.n ? ", " : "", w->threads, w->threads == 1 ? "" : "s", w->isa);
    cli_say(c,
            "from, to: 95 %% interval; MB: all weights as stored; norm_kept is a proxy: only training tells "
            "the accuracy\n");
    sp_text_free(&sizes);
    SP_TRY(summary(c, j, w));
    if (!people) return SPARTA_OK;
    cli_say(c, "\nlayers, those that gain most first; us on one thread at that many tokens (128 stand for "
               "more than 16, or a\n");
    cli_say(c, "number that is not known: --dim says it); break_even: sparsity from which on the pattern is "
               "faster than dense,\n");
    cli_say(c, "measured on random weights of that shape\n");
    SP_TRY(layers(c, w));
    for (int i = 0; i < w->n; i++) remarks(c, &w->pattern[i]);
    left(c, w);
    if (!w->complete) cli_say(c, "interrupted: not everything that was asked for is here\n");
    return SPARTA_OK;
}
