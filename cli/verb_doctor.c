/* sparta doctor: what this machine is, what it can do, and what is missing. */
#include "verbs.h"
#include "device/cublas.h"
#include "jit/gpu.h"
#include "panel/library.h"
#include "tune/sqlite.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ libraries */
/* "13.2" of 13 and 2. */
static const char *print_version(int major, int minor, char out[32])
{
    snprintf(out, 32, "%d.%d", major, minor);
    return out;
}

static const char *driver_problem(void)
{
    return *sp_gpu_problem() ? sp_gpu_problem() : NULL;
}
static const char *driver_version(void)
{
    static char text[32];
    return print_version(sp_gpu_driver() / 1000, sp_gpu_driver() % 1000 / 10, text);
}
static const char *nvrtc_problem(void)
{
    return sp_nvrtc_version() ? NULL : sp_nvrtc_problem();
}
static const char *cublas_problem(void)
{
    return *sp_cublas_problem() ? sp_cublas_problem() : NULL;
}
static const char *nvrtc_version(void)
{
    static char text[32];
    return print_version(sp_nvrtc_version() / 1000, sp_nvrtc_version() % 1000, text);
}

/* A library is examined by its own function, or opened by the names of its file. `version` NULL: "found". */
static const struct library {
    const char *name, *file, *older, *enables;
    const char *(*problem)(void);
    const char *(*version)(void);
} libraries[] = {
    {"zlib", "libz.so.1", NULL, "reading compressed .npz files", NULL, NULL},
    {"sqlite", NULL, NULL, "remembering measured times between calls", sp_sqlite_problem, NULL},
    {"oneDNN", NULL, NULL, "a second dense product, used for layers where it is the fastest",
     sp_library_problem, sp_library_version},
    {"CUDA driver", NULL, NULL, "products with a sparse matrix on a GPU", driver_problem, driver_version},
    {"NVRTC", NULL, NULL, "compiling kernels for a GPU", nvrtc_problem, nvrtc_version},
    {"cuBLASLt", NULL, NULL, "dense products on a GPU, blocks that have no kernel there, and its peak",
     cublas_problem, NULL},
    {"cuSPARSELt", "libcusparseLt.so.0", NULL, "comparing with 2:4 products on a GPU", NULL, NULL},
};

/* NULL: it is there. */
static const char *problem_of(const struct library *l)
{
    if (l->problem) return l->problem();
    /* It stays: some keep memory of their own when they are unloaded. */
    enum { HOW = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE };
    void *handle = dlopen(l->file, HOW);
    if (!handle && l->older) handle = dlopen(l->older, HOW);
    if (!handle) return "not found";
    dlclose(handle);
    return NULL;
}

/* ------------------------------------------------------------------ targets */
/* The first GPU that runs a target of GPUs, or NULL. */
static const sp_gpu *gpu_for(sp_target t)
{
    for (int i = 0; sp_target_device(t) == SP_DEVICE_CUDA && i < sp_gpu_count(); i++)
        if (sp_gpu_at(i)->target <= t) return sp_gpu_at(i);
    return NULL;
}

static bool runs_here(sp_target t)
{
    return sp_target_fits(t) || gpu_for(t);
}

/* Of a GPU: NULL when it is too old for any. */
static const char *target_of(const sp_gpu *g)
{
    return g->target < SP_TARGETS ? sp_target_name(g->target) : NULL;
}

/* ------------------------------------------------------------------ what is asked once */
typedef struct health {
    const sp_cpu *cpu;
    sp_target best;
    int threads;
    double peak1, peak, bandwidth;
    sp_jit_state jit;
    int measured; /* GPUs, the first ones */
    sp_gpu_peaks gpu[SP_GPUS];
} health;

/* --measure. One that fails is said, and the rest of the report stands. */
static sparta_status measure_gpus(cli *c, health *h)
{
    for (; cli_has(c, CLI_MEASURE) && h->measured < sp_gpu_count(); h->measured++) {
        cli_progress_show(c, h->measured, sp_gpu_count(), "peaks of a GPU");
        const sparta_status status = sp_gpu_peaks_find(c->cx, sp_gpu_at(h->measured), &h->gpu[h->measured]);
        SP_TRY(sp_check_cancel(c->cx));
        if (status) sp_note(c->cx, "doctor: GPU %d was not measured: %s", h->measured, sparta_message(c->cx));
    }
    return SPARTA_OK;
}

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
    return measure_gpus(c, h);
}

/* ------------------------------------------------------------------ for scripts */
/* What was not measured, or is not known, is null. */
static void peaks_as_json(cli_json *j, const sp_gpu_peaks *p)
{
    cli_json_real(j, "peak_tflops", p && p->tflops > 0 ? p->tflops : NAN);
    cli_json_real(j, "peak_gbytes_per_s", p && p->gbytes_per_s > 0 ? p->gbytes_per_s : NAN);
    cli_json_real(j, "clock_mhz", p && p->clock_mhz > 0 ? p->clock_mhz : NAN);
}

static void gpu_as_json(cli_json *j, const sp_gpu *g, const sp_gpu_peaks *p)
{
    char capability[32];
    cli_json_open(j, NULL, '{');
    cli_json_int(j, "number", g->number);
    cli_json_text(j, "name", g->name);
    cli_json_text(j, "compute_capability", print_version(g->major, g->minor, capability));
    cli_json_int(j, "multiprocessors", g->processors);
    cli_json_int(j, "memory", (int64_t)g->memory);
    cli_json_int(j, "l2", (int64_t)g->l2);
    cli_json_int(j, "shared", g->shared);
    cli_json_int(j, "clock_khz", g->clock);
    cli_json_int(j, "memory_clock_khz", g->memory_clock);
    cli_json_text(j, "target", target_of(g));
    peaks_as_json(j, p);
    cli_json_close(j, '}');
}

static void gpus_as_json(cli_json *j, const health *h)
{
    cli_json_open(j, "gpus", '[');
    for (int i = 0; i < sp_gpu_count(); i++)
        gpu_as_json(j, sp_gpu_at(i), i < h->measured ? &h->gpu[i] : NULL);
    cli_json_close(j, ']');
    cli_json_text(j, "gpu_problem", driver_problem());
    cli_json_text(j, "cuda_driver", sp_gpu_driver() ? driver_version() : NULL);
    cli_json_text(j, "nvrtc", sp_nvrtc_version() ? nvrtc_version() : NULL);
    cli_json_text(j, "nvrtc_problem", nvrtc_problem());
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
        cli_json_bool(&j, "fits", runs_here((sp_target)t));
        cli_json_text(&j, "device", sp_target_device((sp_target)t) == SP_DEVICE_CPU ? "cpu" : "cuda");
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
    gpus_as_json(&j, h);
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

/* ------------------------------------------------------------------ for people */
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
    const char *problem = problem_of(l), *version = l->version ? l->version() : "found";
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
             !runs_here((sp_target)t)  ? "does not run here"
             : gpu_for((sp_target)t)   ? "runs on a GPU here"
             : (sp_target)t == h->best ? "runs here, used"
                                       : "runs here");
    line(s, "peak", "%.1f Gop/s on one thread, %.1f on %d (f32, %s, measured)", h->peak1 * 1e-9,
         h->peak * 1e-9, h->threads, sp_target_name(h->best));
    line(s, "bandwidth", "%.1f GB/s (measured)", h->bandwidth * 1e-9);
}

static void gpu_peaks(sheet *s, const sp_gpu *g, const sp_gpu_peaks *p)
{
    char dense[96] = "dense products not measured without cuBLAS", clock[48] = "";
    if (p->tflops > 0)
        snprintf(dense, sizeof dense, "%.1f TFLOP/s (f16, dense, sides of %lld, cuBLAS)", p->tflops,
                 (long long)p->side);
    if (p->clock_mhz > 0) snprintf(clock, sizeof clock, ", %.0f MHz right after", p->clock_mhz);
    line(s, "gpu peak", "%d: %s, %.1f GB/s of copies%s (measured)", g->number, dense, p->gbytes_per_s, clock);
}

static void gpu(sheet *s, const sp_gpu *g)
{
    const char *target = target_of(g);
    line(s, "gpu",
         "%d: %s, compute capability %d.%d (%s%s), %d multiprocessors, %.1f GiB, L2 %zu MiB, at most %d "
         "MHz, memory %d MHz",
         g->number, g->name, g->major, g->minor, target ? "runs " : "too old: 8.0 or newer is used",
         target ? target : "", g->processors, (double)g->memory / (1 << 30), g->l2 >> 20, g->clock / 1000,
         g->memory_clock / 1000);
}

static sparta_status as_table(cli *c, const health *h)
{
    static const char *const names[] = {"what", "found"};
    sheet s = {c, cli_table_begin(c, 2, names)};
    machine(&s, h);
    for (int i = 0; i < sp_gpu_count(); i++) {
        gpu(&s, sp_gpu_at(i));
        if (i < h->measured && h->gpu[i].gbytes_per_s > 0) gpu_peaks(&s, sp_gpu_at(i), &h->gpu[i]);
    }
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
    if (cli_has(c, CLI_TIMES) || cli_has(c, CLI_FORGET)) return cli_doctor_times(c);
    if (cli_has(c, CLI_YES) || cli_has(c, CLI_DB))
        return sp_fail(c->cx, SPARTA_E_USAGE, "doctor: --yes and --db go with --times or --forget; add one");
    SP_TRY(examine(c, &h));
    as_json(c, &h);
    return as_table(c, &h);
}
