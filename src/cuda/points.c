/* Points that were chosen: by the environment, by a caller, by what was measured. Otherwise the rule of a row holds.
 *
 *     wanted, "TOK=128 NWG=1" --settle--> all numbers of the point       a choice is allowed where settle lets it stand
 *     space                   --settle--> those that a job can run so    what tune/gpu.c times
 *     task of a job           --table---> what is preferred for it       a hash table of lists that only grow: readers take no lock
 *
 * What is preferred comes from files and from other jobs that run alike, so it is settled again for every job, and where it fails the rule stands in. */
#include "cuda/bits.h"
#include "cuda/cuda.h"
#include "cuda/half.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 30 }; /* of a number */

static const sp_choice by_rule = {{SP_BY_RULE, SP_BY_RULE, SP_BY_RULE, SP_BY_RULE, SP_BY_RULE, SP_BY_RULE,
                                   SP_BY_RULE, SP_BY_RULE, SP_BY_RULE, SP_BY_RULE}};

/* Rows that have a choice. */
static const sp_cuda_row *const rows[] = {&sp_cuda_few, &sp_cuda_strips, &sp_cuda_sampled, &sp_cuda_half,
                                          &sp_cuda_bits};

const sp_cuda_row *sp_cuda_row_named(const char *name)
{
    for (size_t i = 0; i < SP_COUNT(rows); i++)
        if (!strcmp(rows[i]->name, name)) return rows[i];
    return NULL;
}

/* ------------------------------------------------------------------ as text */
static int name_at(const sp_choices *of, const char *word, size_t length)
{
    for (int i = 0; i < SP_CHOICES && of->name[i]; i++)
        if (strlen(of->name[i]) == length && !strncmp(of->name[i], word, length)) return i;
    return -1;
}

/* One "NAME=number", which ends where the next begins. */
static bool parse_one(const sp_choices *of, const char **text, sp_choice *out)
{
    const char *equals = strchr(*text, '=');
    const int at = equals ? name_at(of, *text, (size_t)(equals - *text)) : -1;
    char *end;
    if (at < 0 || equals[1] < '0' || equals[1] > '9') return false;
    errno = 0;
    const long value = strtol(equals + 1, &end, 10);
    if (errno || value > LONGEST || (*end && *end != ' ')) return false;
    out->value[at] = (int)value;
    *text = end;
    return true;
}

bool sp_choice_parse(const sp_choices *of, const char *text, sp_choice *out)
{
    *out = by_rule;
    for (text += strspn(text, " "); *text; text += strspn(text, " "))
        if (!parse_one(of, &text, out)) return false;
    return true;
}

void sp_choice_print(const sp_choices *of, const sp_choice *choice, char out[SP_POINT_TEXT])
{
    int n = 0;
    out[0] = 0;
    for (int i = 0; i < SP_CHOICES && of->name[i] && n < SP_POINT_TEXT; i++)
        if (choice->value[i] != SP_BY_RULE)
            n += snprintf(out + n, (size_t)(SP_POINT_TEXT - n), "%s%s=%d", n ? " " : "", of->name[i],
                          choice->value[i]);
}

/* ------------------------------------------------------------------ the environment, read once */
typedef struct given {
    sp_choice choice;
    bool some;         /* it says some of it */
    const char *wrong; /* its value, which is no list of names; or NULL */
} given;
static given environment[SP_COUNT(rows)];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        const char *text = getenv(rows[i]->choices->variable);
        const bool good = sp_choice_parse(rows[i]->choices, text ? text : "", &environment[i].choice);
        if (!good) environment[i].wrong = strdup(text);
        if (!good) environment[i].choice = by_rule;
        environment[i].some = memcmp(&environment[i].choice, &by_rule, sizeof by_rule) != 0;
    }
}

static const given *given_for(const sp_choices *of)
{
    size_t i = 0;
    pthread_once(&once, read_environment);
    while (i < SP_COUNT(rows) - 1 && rows[i]->choices != of) i++;
    return &environment[i];
}

bool sp_choice_fixed(const sp_choices *of)
{
    return given_for(of)->some;
}

sp_choice sp_choice_quietly(const sp_choices *of, const sp_cuda_job *job)
{
    const given *g = given_for(of);
    return g->some ? g->choice : job->choice ? *job->choice : by_rule;
}

sparta_status sp_choice_wanted(const sp_complaint *c, const sp_choices *of, const sp_cuda_job *job,
                               sp_choice *out)
{
    const given *g = given_for(of);
    char names[128];
    int n = 0;
    *out = sp_choice_quietly(of, job);
    if (!g->wrong) return SPARTA_OK;
    for (int i = 0; i < SP_CHOICES && of->name[i]; i++)
        n += snprintf(names + n, sizeof names - (size_t)n, "%s%s", n ? ", " : "", of->name[i]);
    return sp_refuse(c, SPARTA_E_USAGE,
                     "%s=%.80s: it is NAME=number with a space between them, of %s; or do not set it",
                     of->variable, g->wrong, names);
}

/* ------------------------------------------------------------------ which there are */
bool sp_choice_allowed(const sp_choices *of, const sp_cuda_job *job, const sp_gpu *gpu,
                       const sp_choice *choice)
{
    sp_choice point = *choice;
    if (!of->settle(job, gpu, &point)) return false;
    for (int i = 0; i < SP_CHOICES && of->name[i]; i++)
        if (choice->value[i] != SP_BY_RULE && choice->value[i] != point.value[i]) return false;
    return true;
}

int sp_choice_space(const sp_choices *of, const sp_cuda_job *job, const sp_gpu *gpu, sp_choice out[SP_SPACE])
{
    sp_choice settled[SP_SPACE] = {by_rule}, wanted;
    int n = 0;
    if (!of->settle(job, gpu, &settled[0])) return 0;
    out[n++] = by_rule;
    for (int i = 0; i < SP_SPACE && of->space[i] && n < SP_SPACE; i++) {
        if (!sp_choice_parse(of, of->space[i], &wanted) || !sp_choice_allowed(of, job, gpu, &wanted))
            continue;
        int same = 0;
        settled[n] = wanted;
        of->settle(job, gpu, &settled[n]);
        while (same < n && memcmp(&settled[same], &settled[n], sizeof settled[n]) != 0) same++;
        if (same == n) out[n++] = wanted;
    }
    return n;
}

bool sp_choice_sample(const sp_choices *of, int i, int plain, int jobs, sp_choice *out, int *job)
{
    *out = by_rule;
    *job = i;
    if (i < plain) return i >= 0;
    *job = (i - plain) % jobs;
    const int at = (i - plain) / jobs;
    return at < SP_SPACE && of->space[at] && sp_choice_parse(of, of->space[at], out);
}

/* ------------------------------------------------------------------ tasks */
/* Tokens of jobs that share a point: eights up to 64, then the next of 96, 128, 192, 256, ... */
static int64_t tokens_up(int64_t tokens)
{
    int64_t n = 64;
    if (tokens <= n) return (tokens + 7) / 8 * 8;
    while (n < tokens && n < LONGEST) n = n & (n - 1) ? n / 3 * 4 : n / 2 * 3;
    return n;
}
/* Blocks that exist of a hundred. 2:4 has none. */
static int64_t percent_of(const sp_cuda_job *job)
{
    const double all = (double)job->down * (double)job->right;
    return all > 0 ? (int64_t)(100. * (double)job->blocks / all + .5) : 50;
}
/* Rows meet elements that do not exist in a sample only: of a product they get clean values. */
static bool is_masked(const sp_cuda_job *job)
{
    return job->verb == SPARTA_SAMPLE && (job->keep || job->rows % job->height || job->cols % job->width);
}

static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}
static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return mix(hash, 0);
}

uint64_t sp_cuda_task(const sp_cuda_row *row, const sp_cuda_job *job, const sp_gpu *gpu)
{
    const int64_t number[] = {gpu->target,     sp_gpu_driver() / 1000,
                              job->verb,       job->dtype,
                              job->rows,       job->cols,
                              job->height,     job->width,
                              percent_of(job), tokens_up(job->tokens),
                              job->tf32,       is_masked(job),
                              job->words.n};
    uint64_t hash = mix_text(mix_text(0, gpu->name), row->name);
    for (size_t i = 0; i < SP_COUNT(number); i++) hash = mix(hash, (uint64_t)number[i]);
    for (int i = 0; i < job->words.n; i++) hash = mix(hash, (uint64_t)job->words.word[i]);
    return hash;
}

void sp_cuda_task_print(const sp_cuda_row *row, const sp_cuda_job *job, const sp_gpu *gpu, char *out,
                        size_t size)
{
    static const char *const verbs[] = {
        [SPARTA_MULTIPLY] = "multiply", [SPARTA_MULTIPLY_TURNED] = "turned", [SPARTA_SAMPLE] = "sample"};
    char words[160] = "";
    for (int i = 0, n = 0; i < job->words.n && n < (int)sizeof words; i++)
        n += snprintf(words + n, sizeof words - (size_t)n, " %s", sp_word_row(job->words.word[i])->name);
    snprintf(out, size,
             SP_TASK_PREFIX
             "%s, %s, driver %d; %s %s %s%s %lldx%lld in %lldx%lld, %lld %% there, %lld tokens%s%s #%016llx",
             gpu->name, sp_target_name(gpu->target), sp_gpu_driver() / 1000, row->name, verbs[job->verb],
             sparta_dtype_name(job->dtype), job->tf32 ? " (tf32)" : "", (long long)job->rows,
             (long long)job->cols, (long long)job->height, (long long)job->width, (long long)percent_of(job),
             (long long)tokens_up(job->tokens), is_masked(job) ? ", masked" : "", words,
             (unsigned long long)sp_cuda_task(row, job, gpu));
}

bool sp_cuda_task_parse(const char *text, uint64_t *out)
{
    enum { DIGITS = 16 };
    const char *at = strrchr(text, '#');
    if (strncmp(text, SP_TASK_PREFIX, strlen(SP_TASK_PREFIX)) || !at || strlen(at + 1) != DIGITS ||
        strspn(at + 1, "0123456789abcdef") != DIGITS)
        return false;
    *out = strtoull(at + 1, NULL, 16);
    return true;
}

/* ------------------------------------------------------------------ what is preferred */
typedef struct preferred {
    sp_choice choice; /* first: sp_cuda_forget gets its address */
    struct preferred *next;
    uint64_t task;
    _Atomic bool failed;
} preferred;
enum { LISTS = 256, MOST_PREFERRED = 1 << 14 };
static _Atomic(preferred *) lists[LISTS];
static _Atomic int known;

static preferred *find(uint64_t task)
{
    preferred *p = atomic_load(&lists[task % LISTS]);
    while (p && p->task != task) p = p->next;
    return p;
}

/* What is preferred already takes no more room: a database may be read any number of times. */
bool sp_cuda_prefer(uint64_t task, const sp_choice *choice)
{
    _Atomic(preferred *) *list = &lists[task % LISTS];
    preferred *p = find(task);
    if (p && !memcmp(&p->choice, choice, sizeof *choice)) {
        atomic_store(&p->failed, false);
        return true;
    }
    p = atomic_fetch_add(&known, 1) < MOST_PREFERRED ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        atomic_fetch_sub(&known, 1);
        return false;
    }
    p->choice = *choice;
    p->task = task;
    preferred *first = atomic_load(list);
    do p->next = first; /* a newer one comes first, and is found */
    while (!atomic_compare_exchange_weak(list, &first, p));
    return true;
}

const sp_choice *sp_cuda_preferred(const sp_cuda_row *row, const sp_cuda_job *job, const sp_gpu *gpu)
{
    if (!atomic_load_explicit(&known, memory_order_relaxed) || !row->choices || sp_choice_fixed(row->choices))
        return NULL;
    const preferred *p = find(sp_cuda_task(row, job, gpu));
    if (!p || atomic_load(&p->failed) || !memcmp(&p->choice, &by_rule, sizeof by_rule) ||
        !sp_choice_allowed(row->choices, job, gpu, &p->choice))
        return NULL;
    return &p->choice;
}

void sp_cuda_forget(const sp_choice *choice)
{
    preferred *p = (preferred *)(uintptr_t)choice;
    atomic_store(&p->failed, true);
}

sparta_status sp_cuda_run_row(const sp_complaint *c, const sp_cuda_row *row, const sp_cuda_job *job,
                              const sp_gpu *gpu)
{
    const sp_choice *choice = job->choice ? NULL : sp_cuda_preferred(row, job, gpu);
    sp_cuda_job at = *job;
    if (!choice) return row->run(c, job, gpu);
    at.choice = choice;
    if (row->run(c, &at, gpu) == SPARTA_OK) return SPARTA_OK;
    sp_cuda_forget(choice);
    return row->run(c, job, gpu);
}

/* ------------------------------------------------------------------ which code it was */
void sp_cuda_code(const sp_cuda_row *row, char out[40])
{
    enum { BYTES = 16 };
    const sp_cuda_point none = {0};
    uint8_t digest[32] = {0};
    char *text = sp_cuda_text_at((sp_cuda_text)row->choices->text, &none);
    if (text) sp_sha256_of(text, strlen(text), digest);
    free(text);
    sp_hex(digest, BYTES, out);
}
