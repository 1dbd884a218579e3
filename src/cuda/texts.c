/* The texts, embedded; their points; kernels that are loaded, found again by both. */
#include "cuda/cuda.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* make runs at the root of the tree. */
#define EMBED(symbol, file)                                                                                  \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".hidden sp_cuda_text_" symbol "\n.global sp_cuda_text_" symbol "\n"                             \
            "sp_cuda_text_" symbol ":\n.incbin \"src/cuda/" file "\"\n.byte 0\n.popsection\n");
EMBED("common", "common.cuh")
EMBED("hopper", "hopper.cuh")
EMBED("index_h", "index.h")
EMBED("sampled_h", "sampled.h")
extern const char sp_cuda_text_sampled_h[];
#define SP_CUDA_TEXT(name) EMBED(#name, #name ".cu")
#include "cuda/texts.def"
#undef SP_CUDA_TEXT

extern const char sp_cuda_text_common[], sp_cuda_text_hopper[], sp_cuda_text_index_h[];
#define SP_CUDA_TEXT(name) extern const char sp_cuda_text_##name[];
#include "cuda/texts.def"
#undef SP_CUDA_TEXT

static const struct {
    const char *name, *text;
} texts[] = {
#define SP_CUDA_TEXT(name) {#name, sp_cuda_text_##name},
#include "cuda/texts.def"
#undef SP_CUDA_TEXT
};

const char *sp_cuda_text_name(sp_cuda_text text)
{
    return texts[text].name;
}

/* ------------------------------------------------------------------ points */
void sp_cuda_set(sp_cuda_point *point, const char *name, int value)
{
    SP_ASSERT(point->n < SP_CUDA_PARAMETERS);
    point->parameter[point->n].name = name;
    point->parameter[point->n++].value = value;
}

void sp_cuda_set_dtype(sp_cuda_point *point, sparta_dtype dtype)
{
    sp_cuda_set(point, "DTYPE", dtype == SPARTA_F16 ? 0 : dtype == SPARTA_BF16 ? 1 : 2);
}

void sp_cuda_set_job(sp_cuda_point *point, const sp_cuda_job *job)
{
    static const char *const word[SP_EPILOGUE_WORDS] = {"WORD0", "WORD1", "WORD2", "WORD3",
                                                        "WORD4", "WORD5", "WORD6", "WORD7"};
    sp_cuda_set_dtype(point, job->dtype);
    if (job->verb == SPARTA_SAMPLE) return;
    sp_cuda_set(point, "WORDS", job->words.n);
    for (int i = 0; i < job->words.n; i++) sp_cuda_set(point, word[i], (int)job->words.word[i]);
}

static bool same_point(const sp_cuda_point *a, const sp_cuda_point *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->parameter[i].value != b->parameter[i].value ||
            strcmp(a->parameter[i].name, b->parameter[i].name))
            return false;
    return true;
}

/* ------------------------------------------------------------------ points for tests */
typedef bool points_of(int i, sp_cuda_point *point, const char **entry, sp_target *target);
static points_of *const points[] = {
#define SP_CUDA_TEXT(name) sp_cuda_points_##name,
#include "cuda/texts.def"
#undef SP_CUDA_TEXT
};

bool sp_cuda_sample_point(sp_cuda_text text, int i, sp_cuda_point *point, const char **entry,
                          sp_target *target)
{
    *point = (sp_cuda_point){0};
    *target = SP_TARGET_SM90A;
    return points[text](i, point, entry, target);
}

/* ------------------------------------------------------------------ the text at a point */
char *sp_cuda_text_at(sp_cuda_text text, const sp_cuda_point *point)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    if (!f) return NULL;
    fprintf(f, "/* %s.cu of sparta " SPARTA_VERSION " */\n", texts[text].name);
    for (int i = 0; i < point->n; i++)
        fprintf(f, "#define %s %d\n", point->parameter[i].name, point->parameter[i].value);
#define SP_WORD(id, name, slot, f_, op, approximate, alpha)                                                  \
    fprintf(f, "#define SP_WORD_%s %d\n", #id, (int)SP_WORD_##id);
#include "builtin/epilogue.def"
#undef SP_WORD
    fprintf(f, "%s%s%s%s%s", sp_cuda_text_index_h, sp_cuda_text_sampled_h, sp_cuda_text_common,
            sp_cuda_text_hopper, texts[text].text);
    if (fclose(f) != 0) {
        free(out);
        return NULL;
    }
    return out;
}

/* ------------------------------------------------------------------ what is loaded
 * A list that only grows: readers take no lock. */
typedef struct loaded {
    struct loaded *next;
    int gpu;
    sp_cuda_text text;
    char entry[32];
    sp_cuda_point point;
    sp_gpu_kernel kernel;
    /* Not OK: it does not compile, which will not change while this process lives. */
    sparta_status status;
    char why[400];
} loaded;
static _Atomic(loaded *) kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const loaded *find(const sp_gpu *gpu, sp_cuda_text text, const char *entry, const sp_cuda_point *point)
{
    for (const loaded *k = atomic_load(&kernels); k; k = k->next)
        if (k->text == text && k->gpu == gpu->number && !strcmp(k->entry, entry) &&
            same_point(&k->point, point))
            return k;
    return NULL;
}

/* Under the lock. */
static sparta_status load(const sp_complaint *c, const sp_gpu *gpu, sp_cuda_text text, const char *entry,
                          const sp_cuda_point *point, const sp_gpu_kernel **out)
{
    loaded *k = calloc(1, sizeof *k);
    char *whole = k ? sp_cuda_text_at(text, point) : NULL;
    sparta_status status = SPARTA_E_MEMORY;
    if (whole) {
        const sp_complaint own = {.where = texts[text].name, .text = k->why, .size = sizeof k->why};
        status = k->status = sp_jit_gpu(&own, gpu, gpu->target, whole, entry, &k->kernel);
        if (status != SPARTA_OK) sp_refuse(c, status, "%s", k->why);
    } else {
        sp_refuse(c, status, "no memory for the text of kernel %s", texts[text].name);
    }
    free(whole);
    if (status != SPARTA_OK && status != SPARTA_E_COMPILER && status != SPARTA_E_UNSUPPORTED) {
        free(k);
        return status;
    }
    k->gpu = gpu->number;
    k->text = text;
    snprintf(k->entry, sizeof k->entry, "%s", entry);
    k->point = *point;
    k->next = atomic_load(&kernels);
    atomic_store(&kernels, k);
    *out = &k->kernel;
    return status;
}

static sparta_status give(const sp_complaint *c, const loaded *k, const sp_gpu_kernel **out)
{
    if (k->status != SPARTA_OK) return sp_refuse(c, k->status, "%s", k->why);
    *out = &k->kernel;
    return SPARTA_OK;
}

sparta_status sp_cuda_kernel(const sp_complaint *c, const sp_gpu *gpu, sp_cuda_text text, const char *entry,
                             const sp_cuda_point *point, const sp_gpu_kernel **out)
{
    const loaded *k = find(gpu, text, entry, point);
    if (k) return give(c, k, out);
    pthread_mutex_lock(&lock);
    k = find(gpu, text, entry, point);
    const sparta_status status = k ? give(c, k, out) : load(c, gpu, text, entry, point, out);
    pthread_mutex_unlock(&lock);
    return status;
}
