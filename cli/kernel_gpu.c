/* sparta kernel bench --device cuda:N: a product with a sparse weight on a GPU, against cuBLAS and against what the chip does. */
#include "verbs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How --op says it, and sparta.h. */
static const struct {
    const char *name;
    sparta_verb verb;
} ops[] = {{"matmul", SPARTA_MULTIPLY}, {"turned", SPARTA_MULTIPLY_TURNED}, {"sample", SPARTA_SAMPLE}};
static const struct {
    const char *name;
    sparta_dtype dtype;
    bool tf32;
} dtypes[] = {{"f16", SPARTA_F16, false},
              {"bf16", SPARTA_BF16, false},
              {"f32", SPARTA_F32, false},
              {"tf32", SPARTA_F32, true}};

typedef struct points {
    cli_json json;
    cli_rows rows; /* set up for the first point */
    bool begun;
    int gpu;
} points;

/* ------------------------------------------------------------------ what is asked for */
sparta_status cli_gpu_request(cli *c, int gpu, sp_gpu_bench_request *q)
{
    const char *op = cli_text(c, CLI_OP, ops[0].name), *dtype = cli_text(c, CLI_DTYPE, dtypes[0].name);
    size_t o = 0, d = 0;
    while (o < SP_COUNT(ops) - 1 && strcmp(ops[o].name, op)) o++; /* options.def has no other */
    while (d < SP_COUNT(dtypes) && strcmp(dtypes[d].name, dtype)) d++;
    if (d == SP_COUNT(dtypes))
        return sp_fail(c->cx, SPARTA_E_UNSUPPORTED,
                       "kernel: --dtype %s has no kernel on a GPU; use f16, bf16, f32 or tf32", dtype);
    *q = (sp_gpu_bench_request){.gpu = gpu,
                                .verb = ops[o].verb,
                                .m = cli_int(c, CLI_M, 4096),
                                .n = cli_int(c, CLI_N, 4096),
                                .k = cli_int(c, CLI_K, 4096),
                                .pattern = cli_text(c, CLI_PATTERN, "64x64"),
                                .sparsity = cli_real(c, CLI_SPARSITY, 0.9),
                                .dtype = dtypes[d].dtype,
                                .tf32 = dtypes[d].tf32,
                                .seconds = cli_real(c, CLI_TIME, 0.5),
                                .seed = (uint64_t)cli_int(c, CLI_SEED, 0),
                                .tune = cli_has(c, CLI_TUNE)};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what came of it */
static const char *const names[] = {"m",
                                    "n",
                                    "k",
                                    "op",
                                    "dtype",
                                    "pattern",
                                    "sparsity",
                                    "implement",
                                    "point",
                                    "best_us",
                                    "median_us",
                                    "tflops",
                                    "%_of_peak",
                                    "gbytes_per_s",
                                    "%_of_copies",
                                    "dense_best_us",
                                    "ratio_to_dense",
                                    "isa"};

static void dense_result(cli_rows *t, const sp_gpu_bench_result *r)
{
    cli_json *j = t->json;
    const bool there = *r->dense_name != 0;
    cli_json_open(j, "dense", '{');
    cli_json_text(j, "name", there ? r->dense_name : NULL);
    cli_json_text(j, "problem", there ? NULL : r->dense_problem);
    cli_rows_real(t, "best_us", 2, there ? r->dense_best_us : NAN);
    cli_json_real(j, "median_us", there ? r->dense_median_us : NAN);
    cli_json_close(j, '}');
    cli_rows_real(t, "ratio_to_dense", 3, there ? r->ratio_to_dense : NAN);
    cli_json_range(j, "ratio_ci95", there ? r->ratio_lo : NAN, there ? r->ratio_hi : NAN);
}

/* What --tune found. */
static void tuned_result(cli_json *j, const sparta_tuned *t)
{
    cli_json_open(j, "tuned", '{');
    cli_json_text(j, "point", t->point);
    cli_json_real(j, "us", t->us);
    cli_json_real(j, "rule_us", t->rule_us);
    cli_json_int(j, "points", t->points);
    cli_json_int(j, "measured", t->measured);
    cli_json_int(j, "wrong", t->wrong);
    cli_json_int(j, "failed", t->failed);
    cli_json_close(j, '}');
}

static void say_tuned(cli *c, const sparta_tuned *t)
{
    if (!t->points) return;
    cli_say(c, "           %d points, %d measured now: ", t->points, t->measured);
    if (*t->point)
        cli_say(c, "%s takes %.2f us, the rule's %.2f us; remembered\n", t->point, t->us, t->rule_us);
    else
        cli_say(c, "none is faster than the rule's, %.2f us\n", t->rule_us);
}

static void result(cli *c, cli_rows *t, const char *point, const sp_gpu_bench_request *q,
                   const sp_gpu_bench_result *r)
{
    cli_json *j = t->json;
    const bool there = *r->dense_name != 0;
    if (*point) cli_json_text(j, "point", point);
    cli_rows_int(t, "m", q->m);
    cli_rows_int(t, "n", q->n);
    cli_rows_int(t, "k", q->k);
    cli_rows_text(t, "op", cli_text(c, CLI_OP, ops[0].name));
    cli_rows_text(t, "dtype", cli_text(c, CLI_DTYPE, dtypes[0].name));
    cli_rows_text(t, "pattern", q->pattern);
    cli_rows_real(t, "sparsity", 3, q->sparsity);
    cli_rows_text(t, "implement", r->implement);
    cli_rows_text(t, "parameters", *r->point ? r->point : "by rule");
    if (r->tuned.points) tuned_result(j, &r->tuned);
    cli_rows_real(t, "best_us", 2, r->best_us);
    cli_rows_real(t, "median_us", 2, r->median_us);
    cli_json_int(j, "nnz", r->nnz);
    cli_json_int(j, "blocks", r->blocks);
    cli_json_int(j, "stored_bytes", r->stored_bytes);
    cli_json_int(j, "weights_in_turn", r->in_turn);
    cli_rows_real(t, "tflops_real", 1, r->tflops_real);
    cli_json_real(j, "peak_tflops", there ? r->peak_tflops : NAN);
    cli_json_int(j, "peak_side", r->peak_side);
    cli_json_real(j, "share_of_peak", there ? r->share_of_peak : NAN);
    cli_table_real(&t->table, 1, there ? r->share_of_peak * 100 : NAN);
    cli_rows_real(t, "gbytes_per_s", 1, r->gbytes_per_s);
    cli_json_real(j, "peak_gbytes_per_s", r->peak_gbytes_per_s);
    cli_json_real(j, "share_of_bandwidth", r->share_of_bandwidth);
    cli_table_real(&t->table, 1, r->share_of_bandwidth * 100);
    dense_result(t, r);
    cli_json_real(j, "device_us", r->best_us);
    cli_json_open(j, "peers", '{');
    if (there) cli_json_real(j, r->dense_name, r->dense_best_us);
    cli_json_close(j, '}');
    cli_json_real(j, "clock_mhz", r->clock_mhz > 0 ? r->clock_mhz : NAN);
    cli_json_bool(j, "noisy", r->noisy);
    cli_rows_text(t, "isa", r->isa);
    cli_json_text(j, "device", r->device);
}

static void say_result(cli *c, const sp_gpu_bench_request *q, const sp_gpu_bench_result *r)
{
    cli_say(c, "%s of %lld tokens, %lldx%lld, %s at sparsity %.3g: %lld blocks stay; %s, %s, %s\n",
            cli_text(c, CLI_OP, ops[0].name), (long long)q->m, (long long)q->n, (long long)q->k, q->pattern,
            q->sparsity, (long long)r->blocks, cli_text(c, CLI_DTYPE, dtypes[0].name), r->device, r->isa);
    cli_say(c, "  %-8s %10.2f us best, %.2f us median; %.1f TFLOP/s of what exists", r->implement, r->best_us,
            r->median_us, r->tflops_real);
    if (*r->dense_name)
        cli_say(c, ", %.1f %% of the %.1f of a dense product of %lldx%lldx%lld", r->share_of_peak * 100,
                r->peak_tflops, (long long)r->peak_side, (long long)r->peak_side, (long long)r->peak_side);
    cli_say(c, "\n           %.1f GB/s of values, operand and result, %.1f %% of the %.1f of a copy",
            r->gbytes_per_s, r->share_of_bandwidth * 100, r->peak_gbytes_per_s);
    if (r->in_turn > 1) cli_say(c, "; %d weights take turns", r->in_turn);
    if (r->clock_mhz > 0) cli_say(c, "; at %.0f MHz", r->clock_mhz);
    cli_say(c, "\n");
    if (*r->point && !r->tuned.points) cli_say(c, "           at %s, as tuned before\n", r->point);
    say_tuned(c, &r->tuned);
    if (*r->dense_name)
        cli_say(
            c, "  %-8s %10.2f us best, %.2f us median, dense: %s is %.2fx %s (95 %% interval %.2f to %.2f)\n",
            r->dense_name, r->dense_best_us, r->dense_median_us, r->implement,
            r->ratio_to_dense >= 1 ? r->ratio_to_dense : 1 / r->ratio_to_dense,
            r->ratio_to_dense >= 1 ? "faster" : "slower",
            r->ratio_to_dense >= 1 ? r->ratio_lo : 1 / r->ratio_hi,
            r->ratio_to_dense >= 1 ? r->ratio_hi : 1 / r->ratio_lo);
}

static sparta_status one_point(cli *c, const char *point, void *arg)
{
    points *p = arg;
    sp_gpu_bench_request q;
    sp_gpu_bench_result r;
    SP_TRY(cli_gpu_request(c, p->gpu, &q));
    SP_TRY(sp_gpu_bench(c->cx, &q, &r));
    if (r.noisy) cli_note_noise(c);
    if (!*r.dense_name && !p->begun)
        sp_note(c->cx, "kernel bench: nothing to compare with: %s", r.dense_problem);
    const bool many = *point != 0; /* a sweep is a table */
    if (!p->begun) p->rows = cli_rows_begin(c, &p->json, many ? "runs" : NULL, (int)SP_COUNT(names), names);
    p->begun = true;
    cli_rows_next(&p->rows);
    result(c, &p->rows, point, &q, &r);
    if (!many) say_result(c, &q, &r);
    return SPARTA_OK;
}

/* "cuda" and "cuda:N" */
static bool parse_device(const char *text, int *out)
{
    int end = 0;
    *out = 0;
    if (!strcmp(text, "cuda")) return true;
    return sscanf(text, "cuda:%2d%n", out, &end) == 1 && !text[end] && *out >= 0;
}

sparta_status cli_kernel_gpu(cli *c)
{
    const char *device = cli_text(c, CLI_DEVICE, "cuda:0");
    points p = {.begun = false};
    int n;
    if (!parse_device(device, &p.gpu))
        return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: there is no device \"%s\"; cpu, or a GPU: cuda:0",
                       device);
    p.json = cli_json_begin(c, "kernel");
    (void)sparta_blocks_recall(c->cx, NULL);
    const sparta_status status = cli_sweep(c, one_point, &p, &n);
    c->stands = status == SPARTA_E_CANCELLED && p.begun;
    if (status && !c->stands) return status;
    if (n > 1 || cli_wants_json(c) || cli_has(c, CLI_TABLE) || cli_has(c, CLI_QUIET))
        SP_TRY(cli_rows_end(&p.rows));
    if (c->stands) cli_say(c, "interrupted: not every point is here\n");
    cli_json_end(c, &p.json);
    return status;
}
