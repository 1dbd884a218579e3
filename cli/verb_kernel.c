/* sparta kernel: bench, one product by itself, against dense and against the peak; of a random weight, or of a file's; on a GPU: kernel_gpu.c;
 * show is in kernel_show.c. */
#include "verbs.h"
#include <string.h>

typedef struct points {
    cli_json json;
    cli_rows rows; /* set up for the first point */
    bool begun;
    const sparta_tensor *weight; /* of --weight; NULL: a random one */
} points;

/* As asked for; a pattern that says it itself (2:4, a mask file) and a given weight get what came of it. */
static double sparsity(const sp_kernel_request *q, const sp_kernel_result *r)
{
    return q->weight || strpbrk(q->pattern, ":.") ? 1 - (double)r->nnz / ((double)q->n * (double)q->k)
                                                  : q->sparsity;
}

/* As asked for; of a weight that is not pruned here what was found in it. */
static const char *pattern(const sp_kernel_request *q, const sp_kernel_result *r)
{
    return q->pattern ? q->pattern : r->pattern;
}

static const char *const names[] = {
    "m",         "n",         "k",         "pattern",       "sparsity",       "implement", "best_us",
    "median_us", "gops_real", "%_of_peak", "dense_best_us", "ratio_to_dense", "threads",   "isa"};

static void result(cli_rows *t, const char *point, const sp_kernel_request *q, const sp_kernel_result *r)
{
    cli_json *j = t->json;
    if (*point) cli_json_text(j, "point", point);
    cli_json_text(j, "op", "matmul");
    cli_rows_int(t, "m", q->m);
    cli_rows_int(t, "n", q->n);
    cli_rows_int(t, "k", q->k);
    cli_json_text(j, "dtype", "f32");
    cli_rows_text(t, "pattern", pattern(q, r));
    cli_rows_real(t, "sparsity", 3, sparsity(q, r));
    cli_rows_text(t, "implement", r->implement);
    cli_rows_real(t, "best_us", 2, r->best_us);
    cli_rows_real(t, "median_us", 2, r->median_us);
    cli_json_int(j, "nnz", r->nnz);
    cli_json_int(j, "stored_bytes", r->stored_bytes);
    cli_rows_real(t, "gops_real", 1, r->gops_real);
    cli_json_real(j, "gops_dense_equivalent", r->gops_dense_equivalent);
    cli_json_real(j, "peak_gops", r->peak_gops);
    cli_json_real(j, "share_of_peak", r->share_of_peak);
    cli_table_real(&t->table, 1, r->share_of_peak * 100);
    if (r->peak_gbytes_per_s > 0) { /* few tokens: what is stored is what is read */
        cli_json_real(j, "gbytes_per_s", r->gbytes_per_s);
        cli_json_real(j, "peak_gbytes_per_s", r->peak_gbytes_per_s);
        cli_json_real(j, "share_of_bandwidth", r->share_of_bandwidth);
    }
    cli_json_open(j, "dense", '{');
    cli_json_text(j, "name", r->dense_name);
    cli_rows_real(t, "best_us", 2, r->dense_best_us);
    cli_json_real(j, "median_us", r->dense_median_us);
    cli_json_close(j, '}');
    cli_rows_real(t, "ratio_to_dense", 3, r->ratio_to_dense);
    cli_json_range(j, "ratio_ci95", r->ratio_lo, r->ratio_hi);
    cli_json_bool(j, "noisy", r->noisy);
    cli_rows_int(t, "threads", r->threads);
    cli_rows_text(t, "isa", r->isa);
    cli_json_text(j, "knobs", r->point);
    cli_json_text(j, "parameters", r->parameters);
    cli_json_text(j, "format", r->format);
}

static void say_result(cli *c, const sp_kernel_request *q, const sp_kernel_result *r)
{
    cli_say(
        c, "matmul of %lld tokens, %lldx%lld, %s at sparsity %.3g: %lld weights stay; f32, %s, %d thread%s\n",
        (long long)q->m, (long long)q->n, (long long)q->k, pattern(q, r), sparsity(q, r), (long long)r->nnz,
        r->isa, r->threads, r->threads == 1 ? "" : "s");
    cli_say(c, "  %-8s %10.2f us best, %.2f us median; %.1f Gop/s real, %.1f %% of the peak of %.1f\n",
            r->implement, r->best_us, r->median_us, r->gops_real, r->share_of_peak * 100, r->peak_gops);
    if (r->peak_gbytes_per_s > 0)
        cli_say(c, "           %lld bytes stored; %.1f GB/s, %.1f %% of the %.1f that this machine reads\n",
                (long long)r->stored_bytes, r->gbytes_per_s, r->share_of_bandwidth * 100,
                r->peak_gbytes_per_s);
    if (*r->point) cli_say(c, "           at %s\n", r->point);
    if (q->weight || q->format)
        cli_say(c, "           stored as %s, %lld bytes\n", r->format, (long long)r->stored_bytes);
    if (strcmp(r->implement, r->dense_name))
        cli_say(c,
                "  %-8s %10.2f us best, %.2f us median, the fastest dense one: %s is %.2fx %s (95 %% "
                "interval %.2f to %.2f)\n",
                r->dense_name, r->dense_best_us, r->dense_median_us, r->implement,
                r->ratio_to_dense >= 1 ? r->ratio_to_dense : 1 / r->ratio_to_dense,
                r->ratio_to_dense >= 1 ? "faster" : "slower",
                r->ratio_to_dense >= 1 ? r->ratio_lo : 1 / r->ratio_hi,
                r->ratio_to_dense >= 1 ? r->ratio_hi : 1 / r->ratio_lo);
    else if (!q->format && strcmp(pattern(q, r), "dense"))
        cli_say(c, "  no sparse implement takes this weight\n");
}

static void fill_request(cli *c, const sparta_tensor *weight, sp_kernel_request *q)
{
    *q = (sp_kernel_request){.m = cli_int(c, CLI_M, 128),
                             .n = weight ? weight->dim[0] : cli_int(c, CLI_N, 1024),
                             .k = weight ? weight->dim[1] : cli_int(c, CLI_K, 1024),
                             .weight = weight,
                             .format = cli_text(c, CLI_FORMAT, NULL),
                             .limit = cli_real(c, CLI_LIMIT, 0)};
    q->pattern = cli_text(c, CLI_PATTERN, weight ? NULL : "4x1");
    q->sparsity = q->pattern && !strcmp(q->pattern, "dense") ? 0 : cli_real(c, CLI_SPARSITY, 0.9);
    q->threads = (int)cli_int(c, CLI_THREADS, 0);
    q->seconds = cli_real(c, CLI_TIME, 0.5);
    q->seed = (uint64_t)cli_int(c, CLI_SEED, 0);
    q->target = cli_text(c, CLI_TARGET, NULL);
}

static sparta_status one_point(cli *c, const char *point, void *arg)
{
    points *p = arg;
    sp_kernel_result r;
    sp_kernel_request q;
    fill_request(c, p->weight, &q);
    SP_TRY(sp_kernel_bench(c->cx, &q, &r));
    if (r.noisy) cli_note_noise(c);
    const bool many = *point != 0; /* a sweep is a table */
    if (!p->begun) p->rows = cli_rows_begin(c, &p->json, many ? "runs" : NULL, (int)SP_COUNT(names), names);
    p->begun = true;
    cli_rows_next(&p->rows);
    result(&p->rows, point, &q, &r);
    if (!many) say_result(c, &q, &r);
    return SPARTA_OK;
}

static sparta_status all_points(cli *c, const sparta_tensor *weight)
{
    points p = {.weight = weight, .json = cli_json_begin(c, "kernel")};
    int n;
    const sparta_status status = cli_sweep(c, one_point, &p, &n);
    c->stands = status == SPARTA_E_CANCELLED && p.begun;
    if (status && !c->stands) return status;
    if (n > 1 || cli_wants_json(c) || cli_has(c, CLI_TABLE) || cli_has(c, CLI_QUIET))
        SP_TRY(cli_rows_end(&p.rows));
    if (c->stands) cli_say(c, "interrupted: not every point is here\n");
    cli_json_end(c, &p.json);
    return status;
}

/* The matrix of a file of any kind, made dense: it is the weight of a product. */
static sparta_status bench_file(cli *c, const char *path)
{
    cli_source s;
    sparta_tensor weight;
    SP_TRY(cli_source_read(c, path, &s));
    sparta_status status = cli_source_dense(c, path, &s, &weight);
    if (!status) status = all_points(c, &weight);
    cli_source_free(c, &s);
    return status;
}

static sparta_status bench(cli *c)
{
    const char *dtype = cli_text(c, CLI_DTYPE, "f32"), *op = cli_text(c, CLI_OP, "matmul"),
               *weight = cli_text(c, CLI_WEIGHT, NULL);
    if (strcmp(op, "matmul"))
        return sp_fail(c->cx, SPARTA_E_UNSUPPORTED,
                       "kernel: --op %s is timed on a GPU only; add --device cuda:0", op);
    if (strcmp(dtype, "f32"))
        return sp_fail(c->cx, SPARTA_E_UNSUPPORTED, "kernel: --dtype %s is not there yet; use f32", dtype);
    if (weight && (cli_has(c, CLI_N) || cli_has(c, CLI_K)))
        return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --weight says n and k itself; leave --n and --k out");
    return weight ? bench_file(c, weight) : all_points(c, NULL);
}

/* A flag of the one is not passed over in silence by the other. */
static sparta_status refuse(cli *c, const char *what, const cli_option_id *flags, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cli_has(c, flags[i]))
            return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --%s means nothing to %s; leave it out",
                           cli_options[flags[i]].name, what);
    return SPARTA_OK;
}

sparta_status cli_verb_kernel(cli *c)
{
    static const cli_option_id of_show[] = {CLI_NEST, CLI_NUMBER, CLI_STEP, CLI_WHOLE},
                               of_cpu[] = {CLI_WEIGHT, CLI_FORMAT, CLI_TENSOR, CLI_TARGET},
                               of_gpu[] = {CLI_TUNE}, of_pack[] = {CLI_OUTPUT, CLI_EPILOGUE},
                               not_of_pack[] = {CLI_WEIGHT, CLI_FORMAT, CLI_TENSOR,
                                                CLI_TARGET, CLI_TIME,   CLI_TUNE},
                               of_bench[] = {CLI_DEVICE, CLI_OP,      CLI_M,        CLI_N,     CLI_K,
                                             CLI_WEIGHT, CLI_PATTERN, CLI_SPARSITY, CLI_DTYPE, CLI_TIME,
                                             CLI_FORMAT, CLI_TENSOR,  CLI_TUNE};
    const char *what = c->operand[0];
    static const cli_option_id of_expr[] = {CLI_STAGE, CLI_INPUT, CLI_OUTPUT_DIR, CLI_SCHEDULE, CLI_DIM};
    if (cli_has(c, CLI_EXPR)) return cli_kernel_expr(c);
    if (!strcmp(what, "run"))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: run what? sparta kernel run --expr \"C(i,k) = A(i,j)*B(j,k)\"");
    SP_TRY(refuse(c, what, of_expr, SP_COUNT(of_expr)));
    if (!strcmp(what, "show")) {
        SP_TRY(refuse(c, what, of_bench, SP_COUNT(of_bench)));
        SP_TRY(refuse(c, what, of_pack, SP_COUNT(of_pack)));
        return cli_kernel_show(c);
    }
    if (!strcmp(what, "pack")) {
        SP_TRY(refuse(c, what, of_show, SP_COUNT(of_show)));
        SP_TRY(refuse(c, what, not_of_pack, SP_COUNT(not_of_pack)));
        return cli_kernel_pack(c);
    }
    SP_TRY(refuse(c, what, of_pack, SP_COUNT(of_pack)));
    if (strcmp(what, "bench"))
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: there is no \"%s\"; sparta kernel bench, show, run or pack", what);
    if (c->n_operands > 1)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: bench takes no \"%s\"; a weight is given with --weight", c->operand[1]);
    SP_TRY(refuse(c, what, of_show, SP_COUNT(of_show)));
    if (!strcmp(cli_text(c, CLI_DEVICE, "cpu"), "cpu")) {
        SP_TRY(refuse(c, "bench on the CPU, whose database compile fills", of_gpu, SP_COUNT(of_gpu)));
        return bench(c);
    }
    SP_TRY(refuse(c, "bench on a GPU", of_cpu, SP_COUNT(of_cpu)));
    return cli_kernel_gpu(c);
}
