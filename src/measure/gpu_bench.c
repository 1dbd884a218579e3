/* kernel bench on a GPU: one product by itself, against dense and against what the chip does.
 *
 *   random blocks --> device --> checked at some hundred places --> rounds in turns: ours, cuBLAS, ours, ... --> ratio of medians, with its interval
 *
 * Times are the device's: calls captured into a graph that is replayed (device/cuda.h), so that nothing of the host is in them. With few tokens a product
 * does little but read its weight, so several copies take turns, twice as much as the L2 cache holds. Shares are best over best: of the fastest dense product with
 * large sides, and of the fastest copy from memory to memory, both measured before and after. The dense weight has no zeros: they would save it power, and a chip at
 * its limit of power is faster then. */
#include "measure/trial.h"
#include "cuda/cuda.h"
#include "device/cublas.h"
#include "measure/gpu_peaks.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 15, PLACES = 384, HELD = 16, FEW_TOKENS = 64, MOST_IN_TURN = 64 };
#define GRAPH_SECONDS 2e-3 /* of a replay, about */

/* Weights of which each call takes the next. */
typedef struct turns {
    char *base;
    size_t bytes; /* of one */
    int n, next;
} turns;

typedef struct bench {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_gpu_bench_request *r;
    const sp_gpu *gpu;
    char said[512];
    sp_complaint c; /* says it there */
    sp_trial p;
    int n_held;
    void *held[HELD]; /* memory of the device */
    void *chunk;      /* SP_PEAK_CHUNK random elements, on the host */
    sparta_blocks s;
    sparta_tensor x, y; /* (1, features, tokens); of a sample both are read */
    void *room;
    size_t room_bytes;
    turns ours, theirs;
    void *theirs_room; /* of cuBLASLt; NULL: there is none */
    sp_dense dense;
    sp_peaks peaks;
    sparta_tuned tuned;
} bench;

/* What is timed. */
typedef struct side {
    sparta_status (*call)(void *bench, void *stream);
    int calls, replays;
    double time[ROUNDS];
} side;

/* ------------------------------------------------------------------ memory */
static sparta_status hold(bench *b, size_t bytes, void **out)
{
    SP_ASSERT(b->n_held < HELD);
    SP_TRY(sp_gpu_alloc(&b->c, bytes, out));
    b->held[b->n_held++] = *out;
    return SPARTA_OK;
}

static sparta_status hold_copy(bench *b, const void *from, size_t bytes, void **out)
{
    SP_TRY(hold(b, bytes, out));
    return sp_gpu_put(&b->c, *out, from, bytes);
}

static sparta_status hold_random(bench *b, size_t bytes, void **out)
{
    SP_TRY(hold(b, bytes, out));
    return sp_peaks_fill(&b->c, *out, bytes, b->r->dtype, b->chunk);
}

/* How many weights of so many bytes take turns. */
static int turns_for(const bench *b, size_t bytes)
{
    if (b->r->m > FEW_TOKENS || b->r->verb == SPARTA_SAMPLE || !bytes) return 1;
    return (int)SP_MIN(2 * b->gpu->l2 / bytes + 1, (size_t)MOST_IN_TURN);
}

static void *next_of(turns *t)
{
    char *at = t->base + t->bytes * (size_t)t->next;
    t->next = (t->next + 1) % t->n;
    return at;
}

/* ------------------------------------------------------------------ ours */
static sparta_tensor on_gpu(const bench *b, sparta_dtype dtype, int rank, const int64_t *dim, void *data)
{
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, data);
    t.device = 1 + b->r->gpu;
    return t;
}

/* (tokens, features) as the functions of sparta.h have it. */
static sparta_tensor cube(const bench *b, int64_t features, void *data)
{
    sparta_tensor t = on_gpu(b, b->r->dtype, 3, (int64_t[]){1, features, b->r->m}, data);
    t.stride[1] = 1;
    t.stride[2] = features;
    return t;
}

static sparta_launch launch_of(const bench *b, void *stream)
{
    return (sparta_launch){.size = sizeof(sparta_launch),
                           .stream = stream,
                           .workspace = b->room,
                           .workspace_bytes = b->room_bytes,
                           .tf32 = b->r->tf32};
}

static sparta_status call_ours(void *arg, void *stream)
{
    bench *b = arg;
    const sparta_launch how = launch_of(b, stream);
    const sparta_multiply_options options = {.size = sizeof options,
                                             .turned = b->r->verb == SPARTA_MULTIPLY_TURNED};
    sparta_blocks s = b->s;
    s.values.data = next_of(&b->ours);
    if (b->r->verb == SPARTA_SAMPLE)
        return sparta_blocks_sample(&s, &b->x, &b->y, 1, &how, b->said, sizeof b->said);
    return sparta_blocks_multiply(&s, &b->x, &b->y, &options, &how, b->said, sizeof b->said);
}

static sparta_status put_values(bench *b)
{
    const sp_trial *p = &b->p;
    turns *t = &b->ours;
    void *base;
    t->bytes = (size_t)(p->blocks * p->height * p->width) * sparta_dtype_size(b->r->dtype);
    t->n = turns_for(b, t->bytes);
    SP_TRY(hold(b, t->bytes * (size_t)t->n, &base));
    t->base = base;
    for (int i = 0; i < t->n; i++)
        SP_TRY(sp_gpu_put(&b->c, t->base + t->bytes * (size_t)i, p->values, t->bytes));
    return SPARTA_OK;
}

static sparta_status put_matrix(bench *b)
{
    const sp_trial *p = &b->p;
    const sparta_launch how = launch_of(b, NULL);
    void *pos, *crd, *index;
    SP_TRY(put_values(b));
    SP_TRY(hold_copy(b, p->pos, ((size_t)p->down + 1) * sizeof *p->pos, &pos));
    SP_TRY(hold_copy(b, p->crd, (size_t)p->blocks * sizeof *p->crd, &crd));
    b->s = (sparta_blocks){.size = sizeof b->s,
                           .rows = b->r->n,
                           .cols = b->r->k,
                           .height = p->height,
                           .width = p->width,
                           .batch = 1,
                           .patterns = 1};
    b->s.pos = on_gpu(b, SPARTA_I32, 1, (int64_t[]){p->down + 1}, pos);
    b->s.crd = on_gpu(b, SPARTA_I32, 1, (int64_t[]){p->blocks}, crd);
    b->s.values = on_gpu(b, b->r->dtype, 3, (int64_t[]){p->blocks, p->height, p->width}, b->ours.base);
    const int64_t words = sparta_blocks_index_words(&b->s);
    if (!words) return SPARTA_OK; /* of blocks that are multiplied dense */
    SP_TRY(hold(b, (size_t)words * sizeof(int32_t), &index));
    const sparta_tensor made = on_gpu(b, SPARTA_I32, 1, &words, index);
    SP_TRY(sparta_blocks_index(&b->s, &made, &how, b->said, sizeof b->said));
    b->s.index = made;
    return SPARTA_OK;
}

static sparta_status put_all(bench *b)
{
    const sp_trial *p = &b->p;
    const size_t size = sparta_dtype_size(b->r->dtype);
    const size_t x_bytes = (size_t)(b->r->m * p->in) * size, y_bytes = (size_t)(b->r->m * p->out) * size;
    void *x, *y;
    SP_TRY(put_matrix(b));
    SP_TRY(hold_copy(b, p->x, x_bytes, &x));
    if (p->other)
        SP_TRY(hold_copy(b, p->other, y_bytes, &y));
    else
        SP_TRY(hold(b, y_bytes, &y));
    b->x = cube(b, p->in, x);
    b->y = cube(b, p->out, y);
    const sparta_launch how = launch_of(b, NULL);
    b->room_bytes = sparta_blocks_workspace(b->r->verb, &b->s, &b->x, &b->y, &how);
    return b->room_bytes ? hold(b, b->room_bytes, &b->room) : SPARTA_OK;
}

/* Points that were measured are used from here on. */
static sparta_status tune_ours(bench *b, sparta_tuned *out)
{
    const sparta_tune_call call = {
        .size = sizeof call, .verb = b->r->verb, .s = &b->s, .x = &b->x, .y = &b->y, .tf32 = b->r->tf32};
    *out = (sparta_tuned){.size = sizeof *out};
    return b->r->tune ? sparta_blocks_tune(b->cx, &call, out) : SPARTA_OK;
}

/* The row of cuda.def that such calls come to, and its point. */
static const sp_cuda_row *row_of(const bench *b, char point[SP_POINT_TEXT])
{
    const sp_trial *p = &b->p;
    const sp_cuda_job job = {.verb = b->r->verb,
                             .gpu = b->r->gpu,
                             .dtype = b->r->dtype,
                             .tf32 = b->r->tf32,
                             .rows = b->r->n,
                             .cols = b->r->k,
                             .height = p->height,
                             .width = p->width,
                             .down = p->down,
                             .right = p->right,
                             .blocks = p->blocks,
                             .values = b->ours.base,
                             .index = b->s.index.data,
                             .tokens = b->r->m,
                             .x = b->x.data,
                             .y = b->y.data,
                             .x_step = p->in,
                             .y_step = p->out,
                             .scale = 1};
    const sp_cuda_row *row = sp_cuda_find(&job);
    const sp_choice *at = row ? sp_cuda_preferred(row, &job, b->gpu) : NULL;
    *point = 0;
    if (at) sp_choice_print(row->choices, at, point);
    return row;
}

/* ------------------------------------------------------------------ the answer is right */
static sparta_status check_place(bench *b, const char *result, int64_t at)
{
    const size_t size = sparta_dtype_size(b->r->dtype);
    float room; /* one element of any type */
    SP_TRY(sp_gpu_get(&b->c, &room, result + (size_t)at * size, size));
    const sp_expected e = sp_trial_expect(&b->p, at);
    const double is = sp_element_get(b->r->dtype, &room, 0);
    if (fabs(is - e.value) <= e.allowed) return SPARTA_OK;
    return sp_fail(
        b->cx, SPARTA_E_DIFFER,
        "kernel bench: element %lld is %g on the GPU, expected %g (%g off at most); report it as a bug",
        (long long)at, is, e.value, e.allowed);
}

/* NaNs everywhere before, so that what is not written is found. */
static sparta_status check(bench *b)
{
    const int64_t elements = sp_trial_elements(&b->p);
    char *result = b->r->verb == SPARTA_SAMPLE ? b->ours.base : b->y.data;
    sp_rng rng = sp_rng_seed(b->r->seed + 4);
    SP_TRY(sp_gpu_fill(&b->c, result, 0xff, (size_t)elements * sparta_dtype_size(b->r->dtype), NULL));
    SP_TRY(call_ours(b, NULL));
    SP_TRY(sp_gpu_wait(&b->c, NULL)); /* streams of their own do not wait for the default one */
    for (int i = 0; elements && i < PLACES; i++) {
        SP_TRY(sp_check_cancel(b->cx));
        SP_TRY(check_place(b, result, (int64_t)(sp_rng_uniform(&rng) * (double)elements)));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ dense */
static sparta_status call_dense(void *arg, void *stream)
{
    bench *b = arg;
    sp_dense d = b->dense;
    if (b->r->verb != SPARTA_SAMPLE) d.b = next_of(&b->theirs);
    return sp_cublas_multiply(&b->c, b->gpu, &d, stream);
}

/* Matrices without gaps. */
static void fill_steps(const bench *b, sp_dense *d)
{
    d->out_dtype = d->dtype;
    d->a_step = d->a_turned ? d->rows : d->depth;
    d->b_step = d->b_turned ? d->depth : d->cols;
    d->out_step = d->cols;
    d->room = b->theirs_room;
}

static sparta_status put_dense(bench *b)
{
    const sp_gpu_bench_request *r = b->r;
    const bool sample = r->verb == SPARTA_SAMPLE;
    turns *t = &b->theirs;
    void *weight;
    t->bytes = (size_t)(r->n * r->k) * sparta_dtype_size(r->dtype);
    t->n = turns_for(b, t->bytes);
    SP_TRY(hold_random(b, t->bytes * (size_t)t->n, &weight));
    t->base = weight;
    b->dense = (sp_dense){.rows = sample ? r->n : r->m,
                          .cols = b->p.out,
                          .depth = sample ? r->m : b->p.in,
                          .a_turned = sample,
                          .b_turned = r->verb == SPARTA_MULTIPLY,
                          .dtype = r->dtype,
                          .tf32 = r->tf32,
                          .a = b->x.data,
                          .b = sample ? b->y.data : weight,
                          .out = sample ? weight : b->y.data,
                          .any_order = true};
    SP_TRY(hold(b, SP_CUBLAS_ROOM, &b->theirs_room));
    fill_steps(b, &b->dense);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ timing */
/* A graph of about GRAPH_SECONDS, whole turns; as many replays as a round has time for. */
static sparta_status plan(bench *b, const turns *turn, side *s)
{
    enum { FIRST = 3, MOST_CALLS = 256, LEAST = 3, MOST = 1000 };
    double t;
    SP_TRY(sp_gpu_time(&b->c, s->call, b, turn->n, FIRST, &t));
    t = fmax(t, 1e-7);
    s->calls = turn->n * (int)ceil(fmin(GRAPH_SECONDS / t, MOST_CALLS) / turn->n);
    s->replays = (int)fmin(fmax(b->r->seconds / ROUNDS / (t * s->calls), LEAST), MOST);
    return SPARTA_OK;
}

static sparta_status time_round(bench *b, int round, side *s)
{
    SP_TRY(sp_check_cancel(b->cx));
    return sp_gpu_time(&b->c, s->call, b, s->calls, s->replays, &s->time[round]);
}

static double best_of(const side *s)
{
    double best = s->time[0];
    for (int i = 1; i < ROUNDS; i++) best = fmin(best, s->time[i]);
    return best;
}

static void fill_rates(const bench *b, double best, sp_gpu_bench_result *r)
{
    const size_t size = sparta_dtype_size(b->r->dtype);
    const double bytes =
        (double)b->ours.bytes + (double)b->r->m * (double)(b->p.in + b->p.out) * (double)size;
    r->best_us = best * 1e6;
    r->nnz = b->p.nnz;
    r->blocks = b->p.blocks;
    r->stored_bytes = (int64_t)b->ours.bytes + (b->p.down + 1 + b->p.blocks + b->s.index.dim[0]) * 4;
    r->in_turn = b->ours.n;
    r->tflops_real = 2e-12 * (double)b->r->m * (double)r->nnz / best;
    r->gbytes_per_s = 1e-9 * bytes / best;
    r->peak_gbytes_per_s = b->peaks.bandwidth * 1e-9;
    r->share_of_bandwidth = b->peaks.bandwidth > 0 ? bytes / best / b->peaks.bandwidth : 0;
    r->peak_tflops = b->peaks.flops * 1e-12;
    r->share_of_peak = b->peaks.flops > 0 ? r->tflops_real / r->peak_tflops : 0;
    r->peak_side = b->peaks.large.rows;
    r->clock_mhz = b->peaks.clock;
}

static sparta_status fill(bench *b, const side *ours, const side *dense, sp_gpu_bench_result *out)
{
    sp_comparison found;
    sp_gpu_bench_result r = {.dense_problem = sp_cublas_problem(), .tuned = b->tuned};
    const sp_cuda_row *row = row_of(b, r.point);
    SP_TRY(sp_compare(b->cx, ours->time, (dense ? dense : ours)->time, ROUNDS, b->r->seed + 5, &found));
    fill_rates(b, fmax(best_of(ours), 1e-9), &r);
    r.median_us = found.a.median * 1e6;
    r.noisy = found.noisy;
    snprintf(r.implement, sizeof r.implement, "%s", row ? row->name : "");
    snprintf(r.isa, sizeof r.isa, "%s", sp_target_name(b->gpu->target));
    snprintf(r.device, sizeof r.device, "%s", b->gpu->name);
    if (dense) {
        snprintf(r.dense_name, sizeof r.dense_name, "cuBLAS");
        r.dense_best_us = best_of(dense) * 1e6;
        r.dense_median_us = found.b.median * 1e6;
        r.ratio_to_dense = found.ratio;
        r.ratio_lo = found.lo;
        r.ratio_hi = found.hi;
    }
    *out = r;
    return SPARTA_OK;
}

/* The GPU has been entered. */
static sparta_status measure(bench *b, sp_gpu_bench_result *out)
{
    const bool dense = !*sp_cublas_problem();
    side ours = {.call = call_ours}, theirs = {.call = call_dense};
    b->chunk = sp_arena_array(b->arena, SP_PEAK_CHUNK, sparta_dtype_size(b->r->dtype));
    SP_NEED(b->cx, b->chunk);
    sp_trial_fill(b->r->dtype, b->r->seed + 6, b->chunk, SP_PEAK_CHUNK);
    SP_TRY(put_all(b));
    SP_TRY(tune_ours(b, &b->tuned));
    SP_TRY(check(b));
    if (dense) SP_TRY(put_dense(b));
    b->peaks = (sp_peaks){.c = &b->c, .gpu = b->gpu};
    SP_TRY(sp_peaks_prepare(&b->peaks, b->r->dtype, b->r->tf32, b->chunk));
    SP_TRY(sp_peaks_measure(&b->peaks));
    SP_TRY(plan(b, &b->ours, &ours));
    if (dense) SP_TRY(plan(b, &b->theirs, &theirs));
    for (int i = 0; i < ROUNDS; i++) {
        SP_TRY(time_round(b, i, &ours));
        if (dense) SP_TRY(time_round(b, i, &theirs));
    }
    SP_TRY(sp_check_cancel(b->cx));
    SP_TRY(sp_peaks_measure(&b->peaks));
    return fill(b, &ours, dense ? &theirs : NULL, out);
}

static sparta_status visit(bench *b, sp_gpu_bench_result *out)
{
    sp_gpu_visit here;
    SP_TRY(sp_gpu_enter(&b->c, b->gpu, &here));
    const sparta_status status = measure(b, out);
    sp_peaks_free(&b->peaks);
    for (int i = 0; i < b->n_held; i++) sp_gpu_free(b->held[i]);
    sp_gpu_leave(&here);
    return status;
}

static sparta_status find_gpu(sparta_ctx *cx, int number, const sp_gpu **out)
{
    const sp_gpu *gpu = sp_gpu_at(number);
    const char *problem = sp_gpu_problem();
    if (!gpu)
        return sp_fail(cx, SPARTA_E_DEVICE, "kernel bench: there is no GPU %d: %s", number,
                       *problem ? problem : "`sparta doctor` lists those that there are");
    if (gpu->target == SP_TARGETS)
        return sp_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "kernel bench: GPU %d (%s) runs no target of ours; sm_80 is the oldest, and SPARTA_TARGET "
            "may forbid it",
            number, gpu->name);
    *out = gpu;
    return SPARTA_OK;
}

sparta_status sp_gpu_bench(sparta_ctx *cx, const sp_gpu_bench_request *r, sp_gpu_bench_result *out)
{
    bench b = {.cx = cx, .r = r};
    b.c = (sp_complaint){.where = "kernel bench", .text = b.said, .size = sizeof b.said};
    b.arena = sp_arena_create(cx);
    SP_NEED(cx, b.arena);
    sparta_status status = sp_trial_plan(cx, r, &b.p);
    if (!status) status = find_gpu(cx, r->gpu, &b.gpu);
    if (!status) status = sp_trial_make(cx, b.arena, &b.p);
    if (!status) status = visit(&b, out);
    if (status && b.said[0]) sp_fail(cx, status, "%s", b.said);
    sp_arena_free(b.arena);
    return status;
}
