/* Points of a kernel on a GPU: those that a call can run at, checked and timed on its own arrays; what was found, remembered.
 *
 *     call --sparse--> job --room cuda--> space: the rule's point, others
 *                                            |
 *        by rule on a poisoned result --> the answer
 *        each other on a poisoned result --> the same, within rounding? --> rounds in turns, graphs replayed --> medians
 *                                                                                  |
 *        faster than the rule's by 2 %: sp_cuda_prefer in this process, trials in the database
 *
 * In the database the key is the task of a job (sp_cuda_task_print), the implement its row, the code a digest of the row's text, and the point what differs from the rule's: ""
 * is the rule itself, which every other is measured against. `us` is a median. sparta_blocks_recall goes over all keys once and tells room cuda who won;
 * nothing that it reads is trusted: room cuda settles a point for each job that it is used for.
 *
 * With few tokens a product does little but read its weight, so copies of it take turns, twice as much as the L2 cache holds. */
#include "cuda/cuda.h"
#include "cuda/half.h"
#include "sparse/packed.h"
#include "tune/tune.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS = 9,
    FIRST = 3 /* rounds that all run */,
    REPLAYS = 3,
    HELD = 8,
    FEW_TOKENS = 64,
    MOST_IN_TURN = 64
};
enum { CHUNK = 32 << 20 /* bytes that are compared at a time */ };
#define SECONDS       30.
#define MARGIN        .98 /* of the rule's time: what wins takes at most that */
#define HOPELESS      1.1 /* times the best: not measured again */
#define GRAPH_SECONDS 2e-3

typedef struct contender {
    sp_choice choice;
    char point[SP_POINT_TEXT];
    enum { UNKNOWN, RECALLED, READY, WRONG, FAILED } state;
    int calls, rounds;
    double time[ROUNDS];
    double us, spread;
} contender;

typedef struct race {
    sparta_ctx *cx;
    char said[512];
    sp_complaint c; /* says it there */
    const sp_gpu *gpu;
    const sp_cuda_row *row;
    sp_cuda_job job;
    char key[512], code[40];
    double until;
    int n, measured;
    contender each[SP_SPACE];
    const contender *at; /* which runs */
    int n_held;
    void *held[HELD];
    char *want, *got; /* results: by rule, and of one that is checked */
    size_t bytes;
    uint8_t *host[2]; /* CHUNK of each */
    char *values;     /* copies that take turns */
    size_t value_bytes;
    int turns, next;
} race;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------ the job */
static bool is_half(const race *r)
{
    return r->row == &sp_cuda_half;
}

static sparta_status read_job(race *r, const sparta_tune_call *call)
{
    const sparta_launch how = {.size = sizeof how, .tf32 = call->tf32};
    sparta_multiply_options o = {.size = sizeof o};
    const sp_packed_call h = {call->packed, call->x, call->y, call->rows, call->cols, &o, &how};
    sp_work w;
    if (call->options && call->options->size < sizeof o.size)
        return sp_refuse(&r->c, SPARTA_E_USAGE, "options.size is not that of its struct");
    if (call->options) memcpy(&o, call->options, SP_MIN(call->options->size, sizeof o));
    o.size = sizeof o;
    o.turned = call->verb == SPARTA_MULTIPLY_TURNED;
    if (call->packed) {
        r->row = &sp_cuda_half;
        return sp_half_read(&r->c, &h, &r->job);
    }
    if (!call->s) return sp_refuse(&r->c, SPARTA_E_USAGE, "no blocks are given");
    if (call->verb == SPARTA_SAMPLE)
        SP_TRY(sp_sample_read(&r->c, call->s, call->x, call->y, 1, &w));
    else if (sp_is_product(call->verb))
        SP_TRY(sp_product_read(&r->c, call->s, call->x, call->y, &o, &w));
    else
        return sp_refuse(&r->c, SPARTA_E_USAGE, "points are those of products and samples");
    if (!w.s.device)
        return sp_refuse(&r->c, SPARTA_E_UNSUPPORTED,
                         "the arrays are on the CPU, whose kernels for them have no points");
    if (!sp_gpu_job(&w, &how, &r->job))
        return sp_refuse(&r->c, SPARTA_E_UNSUPPORTED,
                         "on a GPU there are products and samples of one matrix, with contiguous features");
    return SPARTA_OK;
}

static sparta_status find_row(race *r)
{
    r->gpu = sp_gpu_at(r->job.gpu);
    if (!r->gpu)
        return sp_refuse(&r->c, SPARTA_E_DEVICE, "there is no GPU %d: %s", r->job.gpu, sp_gpu_problem());
    if (!r->row) r->row = sp_cuda_find(&r->job);
    if (r->row && r->row->takes(&r->job, r->gpu)) return SPARTA_OK;
    return sp_refuse(&r->c, SPARTA_E_UNSUPPORTED, "no GPU kernel takes such a call; run it once to see why");
}

static void list_points(race *r)
{
    sp_choice space[SP_SPACE];
    r->n = sp_choice_space(r->row->choices, &r->job, r->gpu, space);
    for (int i = 0; i < r->n; i++) {
        r->each[i].choice = space[i];
        sp_choice_print(r->row->choices, &space[i], r->each[i].point);
    }
}

/* ------------------------------------------------------------------ memory of the device */
static sparta_status hold(race *r, size_t bytes, void **out)
{
    SP_ASSERT(r->n_held < HELD);
    SP_TRY(sp_gpu_alloc(&r->c, bytes, out));
    r->held[r->n_held++] = *out;
    return SPARTA_OK;
}

static size_t size_of_values(const race *r)
{
    const sp_cuda_job *j = &r->job;
    return is_half(r) ? sp_half_bytes(j->rows, j->cols)
                      : (size_t)(j->blocks * j->height * j->width) * sparta_dtype_size(j->dtype);
}

static size_t size_of_result(const race *r)
{
    const sp_cuda_job *j = &r->job;
    const int64_t made = j->verb == SPARTA_MULTIPLY_TURNED ? j->cols : j->rows;
    if (j->verb == SPARTA_SAMPLE) return size_of_values(r);
    return j->tokens ? (size_t)((j->tokens - 1) * j->y_step + made) * sparta_dtype_size(j->dtype) : 0;
}

static sparta_status hold_values(race *r)
{
    void *values;
    r->value_bytes = size_of_values(r);
    r->turns = 1;
    if (r->job.tokens > FEW_TOKENS || r->job.verb == SPARTA_SAMPLE || !r->value_bytes) return SPARTA_OK;
    r->turns = (int)SP_MIN(2 * r->gpu->l2 / r->value_bytes + 1, (size_t)MOST_IN_TURN);
    SP_TRY(hold(r, r->value_bytes * (size_t)r->turns, &values));
    r->values = values;
    for (int i = 0; i < r->turns; i++)
        SP_TRY(
            sp_gpu_copy(&r->c, r->values + r->value_bytes * (size_t)i, r->job.values, r->value_bytes, NULL));
    return SPARTA_OK;
}

static sparta_status hold_all(race *r)
{
    void *want, *got, *index, *room;
    r->bytes = size_of_result(r);
    SP_TRY(sp_gpu_get(&r->c, NULL, NULL, 0)); /* other streams may still write what is read here */
    SP_TRY(hold(r, r->bytes, &want));
    SP_TRY(hold(r, r->bytes, &got));
    r->want = want;
    r->got = got;
    SP_TRY(hold_values(r));
    if (is_half(r)) return SPARTA_OK;
    if (!r->job.index) {
        const int64_t words = sp_index_words(r->job.height, r->job.width, r->job.down, r->job.right);
        SP_TRY(hold(r, (size_t)words * sizeof(int32_t), &index));
        SP_TRY(sp_cuda_index(&r->c, &r->job, index));
        r->job.index = index;
    }
    SP_TRY(hold(r, sp_cuda_room(&r->job), &room)); /* what is allocated begins on 256 bytes */
    r->job.room = room;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one that runs */
static sparta_status run_into(race *r, const contender *which, char *result, void *values, void *stream)
{
    sp_cuda_job job = r->job;
    job.stream = stream;
    job.choice = &which->choice;
    if (values) job.values = values;
    if (job.verb == SPARTA_SAMPLE)
        job.values = result;
    else
        job.y = result;
    return is_half(r) ? sp_half_multiply(&r->c, &job) : sp_cuda_run(&r->c, &job);
}

static sparta_status call_next(void *arg, void *stream)
{
    race *r = arg;
    char *values = r->turns > 1 ? r->values + r->value_bytes * (size_t)r->next : NULL;
    r->next = (r->next + 1) % r->turns;
    return run_into(r, r->at, r->got, values, stream);
}

/* What is not written stays NaN. */
static sparta_status answer(race *r, const contender *which, char *result)
{
    SP_TRY(sp_gpu_fill(&r->c, result, 0xff, r->bytes, NULL));
    SP_TRY(run_into(r, which, result, NULL, NULL));
    return sp_gpu_wait(&r->c, NULL);
}

/* ------------------------------------------------------------------ is it the same answer? */
static sparta_status get_chunk(race *r, size_t at, size_t bytes)
{
    SP_TRY(sp_gpu_get(&r->c, r->host[0], r->want + at, bytes));
    return sp_gpu_get(&r->c, r->host[1], r->got + at, bytes);
}

static double largest_of(const race *r, const void *data, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = fabs(sp_element_get(r->job.dtype, data, i));
        if (isfinite(v) && v > most) most = v;
    }
    return most;
}

/* Sums are f32 in any order, rounded once: by what a sum of such values forgives, and two roundings. */
static bool is_close(const race *r, int64_t n, double largest)
{
    const double rounding = r->job.dtype == SPARTA_F16    ? 0x1p-9
                            : r->job.dtype == SPARTA_BF16 ? 0x1p-6
                                                          : 0x1p-20,
                 terms = r->job.tf32 ? 0x1p-8 : 0x1p-12;
    for (int64_t i = 0; i < n; i++) {
        const double a = sp_element_get(r->job.dtype, r->host[0], i),
                     b = sp_element_get(r->job.dtype, r->host[1], i);
        if (isnan(a) && isnan(b)) continue;
        if (a != b && !(fabs(a - b) <= rounding * fabs(a) + terms * largest)) return false;
    }
    return true;
}

static sparta_status compare(race *r, bool *same)
{
    const size_t size = sparta_dtype_size(r->job.dtype);
    *same = true;
    for (size_t at = 0; at < r->bytes && *same; at += CHUNK) {
        const size_t bytes = SP_MIN((size_t)CHUNK, r->bytes - at);
        const int64_t n = (int64_t)(bytes / size);
        SP_TRY(sp_check_cancel(r->cx));
        SP_TRY(get_chunk(r, at, bytes));
        *same = !memcmp(r->host[0], r->host[1], bytes) || is_close(r, n, largest_of(r, r->host[0], n));
    }
    return SPARTA_OK;
}

/* A contender that does not run is out; the device has to go on, and a lack of memory is everybody's. */
static sparta_status check(race *r, contender *which)
{
    bool same = false;
    const sparta_status status = answer(r, which, r->got);
    if (status == SPARTA_E_MEMORY) return status;
    if (status != SPARTA_OK) {
        which->state = status == SPARTA_E_COMPILER && !sp_nvrtc_version() ? UNKNOWN : FAILED;
        sp_note(r->cx, "tune: %s at %s does not run: %s", r->row->name, which->point, r->said);
        return sp_gpu_get(&r->c, NULL, NULL, 0);
    }
    SP_TRY(compare(r, &same));
    which->state = same ? READY : WRONG;
    if (!same)
        sp_note(
            r->cx,
            "tune: %s at %s gives another answer than the rule's point; it is not used; report it as a bug",
            r->row->name, which->point);
    return SPARTA_OK;
}

static sparta_status check_all(race *r)
{
    SP_TRY(answer(r, &r->each[0], r->want));
    r->each[0].state = READY;
    for (int i = 1; i < r->n && now() < r->until; i++) {
        SP_TRY(sp_check_cancel(r->cx));
        if (r->each[i].state == UNKNOWN) SP_TRY(check(r, &r->each[i]));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ time */
static sparta_status plan(race *r, contender *which)
{
    enum { MOST_CALLS = 256 };
    double t;
    r->at = which;
    SP_TRY(sp_gpu_time(&r->c, call_next, r, r->turns, REPLAYS, &t));
    which->calls = r->turns * (int)ceil(fmin(GRAPH_SECONDS / fmax(t, 1e-7), MOST_CALLS) / r->turns);
    return SPARTA_OK;
}

static sparta_status time_once(race *r, contender *which)
{
    r->at = which;
    SP_TRY(sp_check_cancel(r->cx));
    return sp_gpu_time(&r->c, call_next, r, which->calls, REPLAYS, &which->time[which->rounds++]);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(contender *which)
{
    double t[ROUNDS];
    memcpy(t, which->time, sizeof t);
    qsort(t, (size_t)which->rounds, sizeof *t, ascending);
    which->us = fmax(t[which->rounds / 2], 1e-9) * 1e6;
    which->spread = (t[which->rounds - 1] - t[0]) * 1e6 / which->us;
}

/* Some rounds for all; then for those that may still win. */
static sparta_status time_all(race *r)
{
    double best = INFINITY;
    for (int i = 0; i < r->n; i++)
        if (r->each[i].state == READY) SP_TRY(plan(r, &r->each[i]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < r->n; i++) {
            contender *which = &r->each[i];
            if (which->state != READY || (round >= FIRST && i && which->us > HOPELESS * best)) continue;
            SP_TRY(time_once(r, which));
            sum_up(which);
        }
        best = INFINITY;
        for (int i = 0; i < r->n; i++)
            if (r->each[i].state == READY) best = fmin(best, r->each[i].us);
    }
    for (int i = 0; i < r->n; i++) r->measured += r->each[i].state == READY;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the database */
static bool is_ours(const race *r, const contender *which, const sp_trial *t)
{
    return !strcmp(t->implement, r->row->name) && !strcmp(t->code, r->code) &&
           !strcmp(t->point, which->point);
}

/* What is known: wrong ones, and those that are too slow to be tried again; all of them where nothing is missing. */
static void recall(race *r, sp_tune_db *db)
{
    sp_trial t[2 * SP_SPACE];
    const int n = SP_MIN(sp_tune_find(db, r->key, t, (int)SP_COUNT(t)), (int)SP_COUNT(t));
    int known = 0;
    double best = INFINITY;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < n; k++) {
            contender *which = &r->each[i];
            if (!is_ours(r, which, &t[k])) continue;
            known++;
            which->state = t[k].verdict == SP_VERDICT_OK ? RECALLED : WRONG;
            which->us = t[k].us;
            if (which->state == RECALLED) best = fmin(best, which->us);
        }
    if (known == r->n) return;
    for (int i = 0; i < r->n; i++)
        if (i == 0 || (r->each[i].state == RECALLED && r->each[i].us <= HOPELESS * best))
            r->each[i].state = UNKNOWN;
}

static void remember(race *r, sp_tune_db *db)
{
    for (int i = 0; i < r->n; i++) {
        const contender *which = &r->each[i];
        sp_trial t = {.verdict = which->state == READY ? SP_VERDICT_OK : SP_VERDICT_WRONG, .threads = 1};
        if (which->state == UNKNOWN || which->state == RECALLED) continue;
        snprintf(t.implement, sizeof t.implement, "%s", r->row->name);
        snprintf(t.point, sizeof t.point, "%s", which->point);
        snprintf(t.code, sizeof t.code, "%s", r->code);
        if (which->state == READY) t.us = which->us, t.spread = which->spread;
        sp_tune_add(db, r->key, &t);
    }
}

/* ------------------------------------------------------------------ who won */
static const contender *winner_of(const race *r)
{
    const contender *best = &r->each[0];
    for (int i = 1; i < r->n; i++) {
        const contender *which = &r->each[i];
        const bool runs = which->state == (r->measured ? READY : RECALLED); /* times of one clock */
        if (runs && which->us < best->us) best = which;
    }
    return best->us <= MARGIN * r->each[0].us ? best : &r->each[0];
}

static void fill_result(const race *r, sparta_tuned *out)
{
    const contender *best = winner_of(r);
    out->points = r->n;
    out->measured = r->measured;
    for (int i = 0; i < r->n; i++) {
        out->wrong += r->each[i].state == WRONG;
        out->failed += r->each[i].state == FAILED;
    }
    snprintf(out->point, sizeof out->point, "%s", best->point);
    out->us = best->us;
    out->rule_us = r->each[0].us;
}

static bool is_known(const race *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->each[i].state == UNKNOWN) return false;
    return true;
}

static sparta_status measure(race *r)
{
    sp_gpu_visit here;
    for (int i = 0; i < 2; i++) {
        r->host[i] = sp_alloc(r->cx, CHUNK);
        SP_NEED(r->cx, r->host[i]);
    }
    SP_TRY(sp_gpu_enter(&r->c, r->gpu, &here));
    sparta_status status = hold_all(r);
    if (!status) status = check_all(r);
    if (!status) status = time_all(r);
    for (int i = 0; i < r->n_held; i++) sp_gpu_free(r->held[i]);
    sp_gpu_leave(&here);
    return status;
}

static sparta_status tune(race *r, const sparta_tune_call *call, sparta_tuned *out)
{
    sp_tune_db *db = NULL;
    r->until = now() + (call->seconds > 0 ? call->seconds : SECONDS);
    sp_cuda_task_print(r->row, &r->job, r->gpu, r->key, sizeof r->key);
    sp_cuda_code(r->row, r->code);
    SP_TRY(sp_tune_open(r->cx, call->db, &db));
    if (!call->again) recall(r, db);
    sparta_status status = is_known(r) ? SPARTA_OK : measure(r);
    if (!status) {
        remember(r, db);
        fill_result(r, out);
        sp_cuda_prefer(sp_cuda_task(r->row, &r->job, r->gpu), &winner_of(r)->choice);
    }
    sp_tune_close(db);
    return status;
}

static sparta_status begin(race *r, const sparta_tune_call *call, sparta_tuned *out)
{
    SP_TRY(read_job(r, call));
    SP_TRY(find_row(r));
    snprintf(out->implement, sizeof out->implement, "%s", r->row->name);
    if (!r->row->choices) return SPARTA_OK;
    if (sp_choice_fixed(r->row->choices))
        return sp_refuse(&r->c, SPARTA_E_USAGE, "%s says what runs; unset it to tune",
                         r->row->choices->variable);
    list_points(r); /* without work there is none */
    return r->n ? tune(r, call, out) : SPARTA_OK;
}

sparta_status sparta_blocks_tune(sparta_ctx *cx, const sparta_tune_call *call, sparta_tuned *out)
{
    sparta_tune_call given = {0};
    sparta_tuned found = {0};
    if (!call || call->size < sizeof call->size || !out || out->size < sizeof out->size)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "tune: the size of the call or of the result is not that of its struct");
    memcpy(&given, call, SP_MIN(call->size, sizeof given));
    race *r = sp_zalloc(cx, sizeof *r);
    SP_NEED(cx, r);
    r->cx = cx;
    r->c = (sp_complaint){.where = "tune", .text = r->said, .size = sizeof r->said};
    const sparta_status status = begin(r, &given, &found);
    if (status && r->said[0]) sp_fail(cx, status, "%s", r->said);
    for (int i = 0; i < 2; i++) sp_free(cx, r->host[i]);
    sp_free(cx, r);
    if (status) return status;
    found.size = out->size;
    memcpy(out, &found, SP_MIN(out->size, sizeof found));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ winners of other processes */
typedef struct recalling {
    const sp_cuda_row *row; /* of the trial before, and its code now: trials of a row follow each other */
    char code[40];
    char key[1024];
    double rule_us; /* 0: not met */
    sp_trial best;  /* point "": none */
    int n;
} recalling;

static void settle_key(recalling *k)
{
    uint64_t task;
    sp_choice choice;
    if (!k->key[0] || !k->best.point[0] || k->best.us > MARGIN * k->rule_us) return;
    if (!sp_cuda_task_parse(k->key, &task) ||
        !sp_choice_parse(sp_cuda_row_named(k->best.implement)->choices, k->best.point, &choice))
        return;
    k->n += sp_cuda_prefer(task, &choice);
}

/* Was it measured with the code that would run now? Points that a newer row no longer tries stay in the database, however fast they were. */
static bool is_current(recalling *k, const sp_trial *t)
{
    const sp_cuda_row *row = sp_cuda_row_named(t->implement);
    if (row && row != k->row) sp_cuda_code(row, k->code);
    if (row) k->row = row;
    return row && !strcmp(k->code, t->code);
}

static bool each_trial(void *arg, const char *key, const sp_trial *t)
{
    recalling *k = arg;
    if (strcmp(key, k->key)) {
        settle_key(k);
        snprintf(k->key, sizeof k->key, "%s", key);
        k->rule_us = 0;
        k->best = (sp_trial){0};
    }
    if (t->verdict != SP_VERDICT_OK || !is_current(k, t)) return true;
    if (!t->point[0])
        k->rule_us = t->us;
    else if (!k->best.point[0])
        k->best = *t;
    return true;
}

int sparta_blocks_recall(sparta_ctx *cx, const char *path)
{
    recalling k = {.n = 0};
    sp_tune_db *db = NULL;
    if (!sp_gpu_count() || sp_tune_open(cx, path, &db) != SPARTA_OK) return 0;
    sp_tune_each(db, SP_TASK_PREFIX, each_trial, &k);
    settle_key(&k);
    sp_tune_close(db);
    return k.n;
}
