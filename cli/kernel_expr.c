/* sparta kernel show, run and bench --expr: the kernel of an expression over operands in any formats. */
#include "builtin/elementwise.h"
#include "special/special.h"
#include "verbs.h"
#include <stdlib.h>
#include <string.h>

typedef struct job {
    cli *c;
    sp_special *s;
    sp_target target;
    sparta_tensor operand[SP_SPECIAL_OPERANDS]; /* data: owned where `made` */
    bool given[SP_SPECIAL_OPERANDS], made[SP_SPECIAL_OPERANDS], typed[SP_SPECIAL_OPERANDS];
    cli_source source[SP_SPECIAL_OPERANDS];
    sp_special_kernel kernel;
} job;

/* ------------------------------------------------------------------ what is asked for */

static sparta_status read_formats(job *j)
{
    const cli_values *v = &j->c->option[CLI_FORMAT];
    for (int i = 0; i < v->n; i++) {
        const char *name, *text;
        SP_TRY(cli_cut(j->c, CLI_FORMAT, v->value[i], &name, &text));
        SP_TRY(sp_special_format(j->s, name, text));
    }
    return SPARTA_OK;
}

static sparta_status read_types(job *j)
{
    const cli_values *v = &j->c->option[CLI_DTYPE];
    for (int i = 0; i < v->n; i++) {
        const char *name, *text;
        sparta_dtype dtype;
        SP_TRY(cli_cut(j->c, CLI_DTYPE, v->value[i], &name, &text));
        if (!sp_dtype_parse(text, &dtype))
            return sp_fail(j->c->cx, SPARTA_E_DTYPE,
                           "kernel: --dtype %s=%s: kernels are generated for f32, f16 and bf16", name, text);
        SP_TRY(sp_special_dtype(j->s, name, dtype));
        j->typed[sp_special_find(j->s, name)] = true;
    }
    return SPARTA_OK;
}

static sparta_status read_sizes(job *j)
{
    const cli_values *v = &j->c->option[CLI_DIM];
    for (int i = 0; i < v->n; i++) {
        const char *name, *text;
        int64_t size;
        SP_TRY(cli_cut(j->c, CLI_DIM, v->value[i], &name, &text));
        if (!sp_parse_int(text, &size) || size < 0 || size > (int64_t)1 << 40)
            return sp_fail(j->c->cx, SPARTA_E_USAGE,
                           "kernel: --dim %s=%s: give a whole number from 0 to %lld", name, text, 1LL << 40);
        SP_TRY(sp_special_size(j->s, name, size));
    }
    return SPARTA_OK;
}

/* What is given or drawn, as the type that --dtype says. */
static sparta_status as_typed(job *j, int at)
{
    const sp_special_operand *o = &j->s->operand[at];
    sparta_tensor *t = &j->operand[at], to;
    if (t->dtype == o->dtype) return SPARTA_OK;
    SP_TRY(sp_tensor_alloc(j->c->cx, o->dtype, o->rank, o->dim, &to));
    const sparta_status status = sp_builtin_convert(j->c->cx, t, &to);
    if (j->made[at]) sp_free(j->c->cx, t->data);
    *t = to;
    j->made[at] = true;
    return status;
}

/* An array of any rank from .npy, a matrix from any other file. */
static sparta_status read_operand(job *j, int at, const char *path)
{
    const size_t n = strlen(path);
    cli *c = j->c;
    if (n > 4 && !strcmp(path + n - 4, ".npy")) {
        SP_TRY(sp_npy_read(c->cx, path, &j->operand[at]));
        j->made[at] = true;
    } else {
        SP_TRY(cli_source_read(c, path, &j->source[at]));
        SP_TRY(cli_source_dense(c, path, &j->source[at], &j->operand[at]));
    }
    j->given[at] = true;
    const sp_special_operand *o = &j->s->operand[at];
    if (j->operand[at].rank != o->rank)
        return sp_fail(c->cx, SPARTA_E_SHAPE, "%s: an array with %d dimensions; %s has %d", path,
                       j->operand[at].rank, o->name, o->rank);
    if (!j->typed[at]) SP_TRY(sp_special_dtype(j->s, o->name, j->operand[at].dtype));
    SP_TRY(sp_special_shape(j->s, at, j->operand[at].dim));
    return as_typed(j, at);
}

static sparta_status read_inputs(job *j)
{
    const cli_values *v = &j->c->option[CLI_INPUT];
    for (int i = 0; i < v->n; i++) {
        const char *name, *path;
        SP_TRY(cli_cut(j->c, CLI_INPUT, v->value[i], &name, &path));
        const int at = sp_special_find(j->s, name);
        if (at < 0 || j->given[at])
            return sp_fail(j->c->cx, SPARTA_E_USAGE, "kernel: --input %s: %s", name,
                           at < 0 ? "the expression has no such operand" : "it is given twice");
        SP_TRY(read_operand(j, at, path));
    }
    return SPARTA_OK;
}

/* What is not given is drawn from the seed: a tenth of what has a format, or as --sparsity says, all of the others. */
static sparta_status make_operands(job *j)
{
    sp_rng r = sp_rng_seed((uint64_t)cli_int(j->c, CLI_SEED, 0));
    const double gone = cli_real(j->c, CLI_SPARSITY, 0.9);
    for (int i = 0; i < j->s->operands; i++) {
        const sp_special_operand *o = &j->s->operand[i];
        sparta_tensor *t = &j->operand[i];
        if (j->given[i]) continue;
        if (o->written && !o->read) {
            *t = (sparta_tensor){.dtype = o->dtype, .rank = o->rank};
            memcpy(t->dim, o->dim, sizeof t->dim);
            continue;
        }
        SP_TRY(sp_tensor_alloc(j->c->cx, SPARTA_F32, o->rank, o->dim, t));
        j->made[i] = true;
        for (int64_t k = 0; !o->written && k < sparta_tensor_elements(t); k++) {
            const bool there = !o->stored || sp_rng_uniform(&r) >= gone;
            ((float *)t->data)[k] = there ? (float)(2 * sp_rng_uniform(&r) - 1) : 0;
        }
        SP_TRY(as_typed(j, i));
    }
    return SPARTA_OK;
}

/* How much of each operand with a format is there: of what is given, and of what will be drawn, as far as sizes are known. */
static void count_operands(job *j)
{
    const double there = 1 - cli_real(j->c, CLI_SPARSITY, 0.9);
    for (int a = 0; a < j->s->accesses; a++) {
        const sp_special_access *x = &j->s->access[a];
        const sp_special_operand *o = &j->s->operand[x->operand];
        const sparta_tensor *t = &j->operand[x->operand];
        double count = 0, all = 1;
        if (!o->stored || o->written) continue;
        for (int d = 0; d < o->rank; d++) all *= (double)SP_MAX(j->s->index[x->axis[d].term[0].loop].size, 0);
        for (int64_t k = 0; j->given[x->operand] && k < sparta_tensor_elements(t); k++)
            count += sp_element_get(t->dtype, t->data, k) != 0;
        sp_special_count(j->s, x->operand, (int64_t)SP_MIN(j->given[x->operand] ? count : all * there, 1e18));
    }
}

static sparta_status open_job(job *j)
{
    SP_TRY(cli_kernel_target(j->c, &j->target));
    SP_TRY(sp_special_parse(j->c->cx, cli_text(j->c, CLI_EXPR, ""), &j->s));
    SP_TRY(read_formats(j));
    SP_TRY(read_types(j));
    SP_TRY(read_sizes(j));
    return SPARTA_OK;
}

static sparta_status lower(job *j)
{
    count_operands(j);
    return sp_special_lower(j->s);
}

static sparta_status schedule(job *j)
{
    return sp_special_schedule(j->s, cli_text(j->c, CLI_SCHEDULE, NULL), j->target);
}

static sparta_status build(job *j)
{
    SP_TRY(read_inputs(j));
    SP_TRY(sp_special_sized(j->s));
    SP_TRY(lower(j));
    SP_TRY(schedule(j));
    SP_TRY(make_operands(j));
    return sp_special_build(j->s, j->operand, j->target, &j->kernel);
}

/* ------------------------------------------------------------------ show */

/* The default of each nest before it was applied, so that it can be pasted into --schedule and changed. */
static sparta_status show_nests(job *j, cli_json *o)
{
    sp_text text;
    sp_text_init(&text, j->c->cx);
    sparta_status status = lower(j);
    for (int i = 0; !status && i < j->s->nests && !cli_has(j->c, CLI_SCHEDULE); i++) {
        sp_text_printf(&text, "schedule of %d: ", i);
        status = sp_special_default(j->s, j->s->nest[i], j->target, &text);
        sp_text_printf(&text, "\n");
    }
    if (!status) status = schedule(j);
    if (!status) sp_special_print(j->s, &text);
    if (!status) status = text.status;
    if (!status) status = cli_kernel_text(j->c, o, sp_text_str(&text));
    sp_text_free(&text);
    return status;
}

static sparta_status show_text(job *j, cli_json *o)
{
    sp_text text;
    sp_text_init(&text, j->c->cx);
    sparta_status status = lower(j);
    if (!status) status = schedule(j);
    if (!status) status = sp_special_text(j->s, j->target, &text);
    if (!status) status = cli_kernel_text(j->c, o, sp_text_str(&text));
    sp_text_free(&text);
    return status;
}

static sparta_status show(job *j)
{
    const bool nests = !strcmp(cli_text(j->c, CLI_STAGE, "text"), "nest");
    cli_json o = cli_json_begin(j->c, "kernel");
    cli_json_text(&o, "expr", j->s->text);
    cli_json_text(&o, "target", sp_target_name(j->target));
    return nests ? show_nests(j, &o) : show_text(j, &o);
}

/* ------------------------------------------------------------------ run */

static sparta_status write_operand(job *j, const char *folder, int at, const sparta_tensor *t, cli_json *o)
{
    const char *name = j->s->operand[at].name,
               *path = sp_arena_printf(j->c->arena, "%s/%s.npy", folder, name);
    SP_NEED(j->c->cx, path);
    SP_TRY(sp_npy_write(j->c->cx, path, t));
    cli_json_open(o, NULL, '{');
    cli_json_text(o, "name", name);
    cli_tensor_json(o, t);
    cli_json_text(o, "file", path);
    cli_json_close(o, '}');
    cli_say(j->c, "%s %s\n", path, cli_tensor_text(j->c, t));
    return SPARTA_OK;
}

static sparta_status write_all(job *j, cli_json *o)
{
    const char *folder = cli_text(j->c, CLI_OUTPUT_DIR, NULL);
    cli_json_open(o, "outputs", '[');
    if (folder) SP_TRY(cli_make_folder(j->c, folder));
    for (int i = 0; folder && i < j->s->operands; i++) {
        sparta_tensor t = j->operand[i];
        const bool written = j->s->operand[i].written;
        if (!written && j->given[i]) continue; /* it is in a file already */
        if (written) SP_TRY(sp_special_result(&j->kernel, i, &t));
        const sparta_status status = write_operand(j, folder, i, &t, o);
        if (written) sp_free(j->c->cx, t.data);
        SP_TRY(status);
    }
    cli_json_close(o, ']');
    return SPARTA_OK;
}

static sparta_status run(job *j)
{
    if (!cli_has(j->c, CLI_OUTPUT_DIR))
        return sp_fail(j->c->cx, SPARTA_E_USAGE,
                       "kernel: run writes its results into a folder; give --output-dir D");
    SP_TRY(build(j));
    sp_pool *pool = sp_pool_create(j->c->cx, (int)cli_int(j->c, CLI_THREADS, 0));
    SP_NEED(j->c->cx, pool);
    const sparta_status status = sp_special_run(&j->kernel, pool);
    sp_pool_free(pool);
    SP_TRY(status);
    cli_json o = cli_json_begin(j->c, "kernel");
    cli_json_text(&o, "expr", j->s->text);
    SP_TRY(write_all(j, &o));
    cli_json_end(j->c, &o);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ bench */

static int ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

enum { SAMPLES = 4096 };

/* Times of single runs for --time seconds, in us, ascending. */
static sparta_status measure(job *j, sp_pool *pool, double *us, int *n)
{
    const double end = sp_now() + cli_real(j->c, CLI_TIME, 0.5);
    SP_TRY(sp_special_run(&j->kernel, pool));
    for (*n = 0; *n < SAMPLES && (*n < 3 || sp_now() < end);) {
        const double begin = sp_now();
        SP_TRY(sp_special_run(&j->kernel, pool));
        us[(*n)++] = (sp_now() - begin) * 1e6;
    }
    qsort(us, (size_t)*n, sizeof *us, ascending);
    return SPARTA_OK;
}

static sparta_status bench(job *j)
{
    int n;
    double *us = sp_arena_array(j->c->arena, SAMPLES, sizeof *us);
    SP_NEED(j->c->cx, us);
    SP_TRY(build(j));
    sp_pool *pool = sp_pool_create(j->c->cx, (int)cli_int(j->c, CLI_THREADS, 0));
    SP_NEED(j->c->cx, pool);
    const int threads = sp_pool_threads(pool);
    const sparta_status status = measure(j, pool, us, &n);
    sp_pool_free(pool);
    SP_TRY(status);
    const double steps = sp_special_work(&j->kernel), gops = 2e-3 * steps / us[0];
    cli_json o = cli_json_begin(j->c, "kernel");
    cli_json_text(&o, "expr", j->s->text);
    cli_json_real(&o, "best_us", us[0]);
    cli_json_real(&o, "median_us", us[n / 2]);
    cli_json_real(&o, "steps", steps);
    cli_json_real(&o, "gops", gops);
    cli_json_real(&o, "compile_ms", j->kernel.rung == SP_JIT_COMPILED ? j->kernel.compile_ms : 0);
    cli_json_int(&o, "threads", threads);
    cli_json_text(&o, "isa", sp_target_name(j->target));
    cli_json_end(j->c, &o);
    cli_say(j->c, "%s: %.2f us best, %.2f us median; %.4g steps, %.1f Gop/s at two each; %s, %d thread%s\n",
            j->s->text, us[0], us[n / 2], steps, gops, sp_target_name(j->target), threads,
            threads == 1 ? "" : "s");
    if (j->kernel.rung == SP_JIT_COMPILED) cli_say(j->c, "compiled in %.0f ms\n", j->kernel.compile_ms);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the verb */

static sparta_status check_flags(cli *c, const char *what)
{
    static const cli_option_id others[] = {CLI_OP,      CLI_M,      CLI_N,    CLI_K,    CLI_WEIGHT,
                                           CLI_PATTERN, CLI_NUMBER, CLI_STEP, CLI_NEST, CLI_TENSOR},
                               of_run[] = {CLI_INPUT, CLI_OUTPUT_DIR};
    for (size_t i = 0; i < SP_COUNT(others); i++)
        if (cli_has(c, others[i]))
            return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --%s means nothing with --expr; leave it out",
                           cli_options[others[i]].name);
    for (size_t i = 0; i < SP_COUNT(of_run) && !strcmp(what, "show"); i++)
        if (cli_has(c, of_run[i]))
            return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --%s means nothing to show; leave it out",
                           cli_options[of_run[i]].name);
    if (cli_has(c, CLI_STAGE) && strcmp(what, "show"))
        return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --stage is of show; leave it out");
    if (cli_has(c, CLI_OUTPUT_DIR) && !strcmp(what, "bench"))
        return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --output-dir is of run; leave it out");
    if (c->n_operands > 1)
        return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: --expr says what the kernel is; leave \"%s\" out",
                       c->operand[1]);
    return SPARTA_OK;
}

sparta_status cli_kernel_expr(cli *c)
{
    const char *what = c->operand[0];
    const bool shows = !strcmp(what, "show"), runs = !strcmp(what, "run");
    if (!shows && !runs && strcmp(what, "bench"))
        return sp_fail(c->cx, SPARTA_E_USAGE, "kernel: there is no \"%s\"; sparta kernel bench, show or run",
                       what);
    if (strcmp(cli_text(c, CLI_DEVICE, "cpu"), "cpu"))
        return sp_fail(c->cx, SPARTA_E_UNSUPPORTED,
                       "kernel: --expr runs on the CPU alone; leave --device out");
    SP_TRY(check_flags(c, what));
    job *j = sp_arena_array(c->arena, 1, sizeof *j);
    SP_NEED(c->cx, j);
    j->c = c;
    sparta_status status = open_job(j);
    if (!status) status = shows ? show(j) : runs ? run(j) : bench(j);
    if (j->kernel.s) sp_special_close(&j->kernel);
    for (int i = 0; i < SP_SPECIAL_OPERANDS; i++) {
        if (j->made[i]) sp_free(c->cx, j->operand[i].data);
        cli_source_free(c, &j->source[i]);
    }
    sp_special_free(j->s);
    return status;
}
