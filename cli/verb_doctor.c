/* sparta doctor: what this machine is, what it can do, and what is missing. */
#include "verbs.h"
#include "device/device.h"
#include "jit/jit.h"
#include "panel/library.h"
#include "tune/sqlite.h"
#include <dlfcn.h>
#include <string.h>

/* A library is examined by its own function, or opened by the name of its file. */
static const struct library {
    const char *name, *file, *enables;
    const char *(*problem)(void);
} libraries[] = {
    {"zlib", "libz.so.1", "reading compressed .npz files", NULL},
    {"sqlite", "libsqlite3.so.0", "remembering measured times between calls", sp_sqlite_problem},
    {"oneDNN", NULL, "a second dense product, used for layers where it is the fastest", sp_library_problem},
    {"CUDA driver", "libcuda.so.1", "running on a GPU (not used by this version yet)", NULL},
};

/* NULL: it is there. */
static const char *problem_of(const struct library *l)
{
    if (l->problem) return l->problem();
    void *handle = dlopen(l->file, RTLD_LAZY | RTLD_LOCAL);
    if (!handle) return "not found";
    dlclose(handle);
    return NULL;
}

typedef struct health {
    const sp_cpu *cpu;
    sp_target best;
    int threads;
    double peak1, peak, bandwidth;
    sp_jit_state jit;
} health;

static sparta_status examine(cli *c, health *h)
{
    h->cpu = sp_cpu_info();
    h->best = sp_target_best(SP_DEVICE_CPU);
    h->threads = (int)cli_int(c, CLI_THREADS, sp_cores());
    cli_progress_show(c, 0, 3, "peak of one thread");
    h->peak1 = sp_peak_flops(h->best, 1, 0.2);
    SP_TRY(sp_check_cancel(c->cx));
    cli_progress_show(c, 1, 3, "peak of all threads");
    h->peak = h->threads == 1 ? h->peak1 : sp_peak_flops(h->best, h->threads, 0.2);
    SP_TRY(sp_check_cancel(c->cx));
    cli_progress_show(c, 2, 3, "memory bandwidth");
    h->bandwidth = sp_peak_bandwidth(h->threads, 0.2);
    SP_TRY(sp_check_cancel(c->cx));
    sp_jit_describe(c->cx, &h->jit);
    return SPARTA_OK;
}

static void as_json(cli *c, const health *h)
{
    cli_json j = cli_json_begin(c, "doctor");
    cli_json_text(&j, "version", sparta_version());
    cli_json_open(&j, "cpu", '{');
    cli_json_text(&j, "vendor", h->cpu->vendor);
    cli_json_text(&j, "brand", h->cpu->brand);
    cli_json_int(&j, "family", h->cpu->family);
    cli_json_int(&j, "model", h->cpu->model);
    cli_json_int(&j, "cores", h->cpu->cores);
    cli_json_text(&j, "isa", h->cpu->isa);
    cli_json_int(&j, "l1d", (int64_t)h->cpu->l1d);
    cli_json_int(&j, "l2", (int64_t)h->cpu->l2);
    cli_json_int(&j, "l3", (int64_t)h->cpu->l3);
    cli_json_int(&j, "memory", (int64_t)h->cpu->memory);
    cli_json_close(&j, '}');
    cli_json_open(&j, "targets", '[');
    for (int t = 0; t < SP_TARGETS; t++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", sp_target_name((sp_target)t));
        cli_json_bool(&j, "fits", sp_target_fits((sp_target)t));
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_text(&j, "isa", sp_target_name(h->best));
    cli_json_int(&j, "threads", h->threads);
    cli_json_real(&j, "peak_gops_1", h->peak1 * 1e-9);
    cli_json_real(&j, "peak_gops", h->peak * 1e-9);
    cli_json_real(&j, "bandwidth_gb_s", h->bandwidth * 1e-9);
    cli_json_text(&j, "compiler", *h->jit.compiler ? h->jit.compiler : NULL);
    cli_json_text(&j, "compiler_version", *h->jit.version ? h->jit.version : NULL);
    cli_json_text(&j, "cache", *h->jit.cache ? h->jit.cache : NULL);
    cli_json_text(&j, "cache_problem", *h->jit.cache_problem ? h->jit.cache_problem : NULL);
    cli_json_open(&j, "libraries", '[');
    for (size_t i = 0; i < SP_COUNT(libraries); i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", libraries[i].name);
        const char *problem = problem_of(&libraries[i]);
        cli_json_bool(&j, "found", !problem);
        cli_json_text(&j, "problem", problem);
        cli_json_text(&j, "enables", libraries[i].enables);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_int(&j, "max_memory", (int64_t)sp_ctx_budget(c->cx));
    cli_json_end(c, &j);
}

typedef struct sheet {
    cli *c;
    cli_table table;
} sheet;

static void line(sheet *s, const char *what, const char *format, ...) SP_PRINTF(3, 4);
static void line(sheet *s, const char *what, const char *format, ...)
{
    sp_text t;
    va_list args;
    sp_text_init(&t, s->c->cx);
    va_start(args, format);
    sp_text_vprintf(&t, format, args);
    va_end(args);
    cli_table_text(&s->table, what);
    cli_table_text(&s->table, sp_text_str(&t));
    sp_text_free(&t);
}

static void library(sheet *s, const struct library *l)
{
    const char *problem = problem_of(l), *version = l->file ? "found" : sp_library_version();
    line(s, l->name, "%s; %s %s", problem ? problem : version, problem ? "would enable" : "enables",
         l->enables);
}

static void machine(sheet *s, const health *h)
{
    line(s, "sparta", "%s", sparta_version());
    line(s, "cpu", "%s, family %d, model %d", h->cpu->brand, h->cpu->family, h->cpu->model);
    line(s, "isa", "%s", h->cpu->isa);
    line(s, "cores", "%d", h->cpu->cores);
    line(s, "caches", "L1d %zu KiB, L2 %zu KiB, L3 %zu KiB", h->cpu->l1d >> 10, h->cpu->l2 >> 10,
         h->cpu->l3 >> 10);
    line(s, "memory", "%.1f GiB, of which sparta uses at most %.1f", (double)h->cpu->memory / (1 << 30),
         (double)sp_ctx_budget(s->c->cx) / (1 << 30));
    for (int t = 0; t < SP_TARGETS; t++)
        line(s, "target", "%s: %s", sp_target_name((sp_target)t),
             !sp_target_fits((sp_target)t) ? "does not run here"
             : (sp_target)t == h->best     ? "runs here, used"
                                           : "runs here");
    line(s, "peak", "%.1f Gop/s on one thread, %.1f on %d (f32, %s, measured)", h->peak1 * 1e-9,
         h->peak * 1e-9, h->threads, sp_target_name(h->best));
    line(s, "bandwidth", "%.1f GB/s (measured)", h->bandwidth * 1e-9);
}

static sparta_status as_table(cli *c, const health *h)
{
    static const char *const names[] = {"what", "found"};
    sheet s = {c, cli_table_begin(c, 2, names)};
    machine(&s, h);
    if (*h->jit.compiler)
        line(&s, "compiler", "%s (%s)", h->jit.compiler, h->jit.version);
    else
        line(&s, "compiler", "none: the portable kernels run; install gcc for fast ones");
    if (*h->jit.cache_problem)
        line(&s, "cache", "not used: %s", h->jit.cache_problem);
    else if (*h->jit.cache)
        line(&s, "cache", "%s (nobody else can write there%s); compiled kernels and measured times",
             h->jit.cache, h->jit.cache_moved ? "; root's own, since HOME is another user's" : "");
    else
        line(&s, "cache", "none: kernels are compiled and times measured anew by every call");
    for (size_t i = 0; i < SP_COUNT(libraries); i++) library(&s, &libraries[i]);
    return cli_table_end(&s.table);
}

sparta_status cli_verb_doctor(cli *c)
{
    health h = {0};
    SP_TRY(examine(c, &h));
    as_json(c, &h);
    return as_table(c, &h);
}
