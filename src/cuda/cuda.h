/* cuda: products with one sparse matrix on an NVIDIA GPU (ADR 10).
 *
 *     sparse --job--> cuda.def: the first row that takes it --> host file (*.c): point, maps, grid --> text (*.cu), compiled by NVRTC, cached
 *
 *   index     what kernels follow in place of pos and crd (index.h), made on the device
 *   clean     where elements of blocks do not exist (keep, or past the edge of the matrix), a copy of the values with zeros there; in the workspace
 *   rows      strips     sm_90a   multiply and turned: strips of 64 rows, wgmma, all operands by TMA
 *             sampled    sm_90a   sample (the gradient of values): both operands along their outer side
 *             dense      sm_80    what no kernel takes, or is nearly full: unpacked, by cuBLASLt where it is installed
 *             ...                 cuda.def says all
 *   half      sm_90a   2:4 weights: no row, because its values are a packed copy that callers keep (half.h)
 *   bits               unstructured weights for few tokens: the same (bits.h)
 *   points    the numbers of a kernel (tile, stages, ...): a row's rule chooses; those that were measured to be better are preferred (points.c, tune/gpu.c)
 *
 * A text is the file as it is, after lines "#define NAME value" that say its point, and after index.h, sampled.h, common.cuh and hopper.cuh. Texts include no header of NVIDIA's.
 *
 * Nothing here allocates on the device or waits for it. All memory is the caller's; kernels run on his stream. Functions of this room may be called
 * by any number of threads; what is compiled and loaded is kept for the process.
 */
#ifndef SP_CUDA_H
#define SP_CUDA_H

#include "builtin/epilogue.h"
#include "cuda/index.h"
#include "device/cuda.h"
#include "jit/gpu.h"
#include "tensor/tensor.h"

/* A call, checked but for what pos, crd and index hold, which are on the device. Memory is row-major; a token's features are contiguous. */
typedef struct sp_cuda_job {
    sparta_verb verb; /* a product or a sample */
    int gpu;          /* its number */
    void *stream;     /* CUstream; NULL: the default one */
    sparta_dtype dtype;
    bool tf32; /* f32 may be rounded to tf32 before it is multiplied */
    bool own;  /* kernels of this room alone: no library of NVIDIA's */
    int64_t rows, cols, height, width;
    /* Rows and columns of blocks; blocks. */
    int64_t down, right, blocks;
    const int32_t *pos, *crd;
    const uint8_t
        *keep; /* (blocks, height, width), or NULL. Rows that are not `plain` meet it in a sample only. */
    void *
        values; /* (blocks, height, width); of a product with zeros where nothing is, unless the row is `plain` */
    int64_t bytes; /* of values, where they are packed (bits.h) */
    const int32_t *index;
    int64_t tokens;
    /* Element (t, i) is at x[t * x_step + i]. A product: x is its operand, y its result. A sample: x (tokens, rows), y (tokens, cols). */
    const void *x;
    void *y;
    int64_t x_step, y_step;
    /* Of a product: what happens to the sums. The bias has one element for each feature of the result; the residual is as y. */
    sp_words words;
    const void *bias, *residual;
    int64_t residual_step;
    double scale;                   /* of a sample */
    char *room;                     /* the row's own workspace, 256-byte aligned */
    const struct sp_choice *choice; /* the point of its row; NULL: what is preferred, else the rule's */
} sp_cuda_job;

/* Numbers of a point that a row lets others choose, in the order of its names. SP_BY_RULE: as the rule has it. */
enum { SP_CHOICES = 10, SP_BY_RULE = -1, SP_SPACE = 24, SP_POINT_TEXT = 64 };
typedef struct sp_choice {
    int value[SP_CHOICES];
} sp_choice;

/* Of a row that has a choice. */
typedef struct sp_choices {
    const char *name[SP_CHOICES]; /* as in the text; NULL ends them */
    const char *variable;         /* of the environment, for experiments: "TOK=128 NWG=1" */
    int text;                     /* sp_cuda_text: what the numbers mean changes with it */
    /* The point of a job that takes what is wanted where that can be had, and the rule's otherwise: fills in all numbers. False: it cannot run the job. */
    bool (*settle)(const sp_cuda_job *job, const sp_gpu *gpu, sp_choice *point);
    /* Those worth a trial, "TOK=128 NWG=1"; NULL ends them. A job takes those that settle lets stand. */
    const char *space[SP_SPACE];
} sp_choices;

struct sp_cuda_asked;
/* One way to run jobs. `room`: bytes of workspace that it wants, whatever the point. */
typedef struct sp_cuda_row {
    const char *name;
    bool (*takes)(const sp_cuda_job *job, const sp_gpu *gpu);
    size_t (*room)(const sp_cuda_job *job, const sp_gpu *gpu);
    sparta_status (*run)(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu);
    const sp_choices *choices; /* or NULL */
    /* Kernel i of those that it launches for a job; false: there is no such. Needs no device. */
    bool (*kernel)(const sp_cuda_job *job, const sp_gpu *gpu, int i, struct sp_cuda_asked *out);
    bool plain; /* it follows pos, crd and keep themselves: it gets no index and no clean values */
} sp_cuda_row;

#define SP_CUDA_ROW(name, what) extern const sp_cuda_row sp_cuda_##name;
#include "cuda/cuda.def"
#undef SP_CUDA_ROW

/* The row that would run it; NULL: none does. Needs no device memory. */
const sp_cuda_row *sp_cuda_find(const sp_cuda_job *job);
/* The same on a GPU that need not be here. */
const sp_cuda_row *sp_cuda_find_on(const sp_cuda_job *job, const sp_gpu *gpu);
/* Bytes of workspace of the whole call: an index unless there is one, clean values, the row's own. */
size_t sp_cuda_room(const sp_cuda_job *job);
/* E_UNSUPPORTED: no row takes it. `job->room` is of sp_cuda_room bytes, 256-byte aligned. */
sparta_status sp_cuda_run(const sp_complaint *c, const sp_cuda_job *job) SP_MUST;

/* ------------------------------------------------------------------ points that were chosen (points.c) */
/* What is wanted of a row's point: by the environment, by the job, or nothing. E_USAGE: the variable is no list of its names. */
sparta_status sp_choice_wanted(const sp_complaint *c, const sp_choices *of, const sp_cuda_job *job,
                               sp_choice *out) SP_MUST;
/* The same for `takes`, which does not complain. */
sp_choice sp_choice_quietly(const sp_choices *of, const sp_cuda_job *job);
bool sp_choice_fixed(const sp_choices *of); /* the environment says some of it: nothing is preferred */
/* "TOK=128 NWG=1"; what is left to the rule is left out. */
void sp_choice_print(const sp_choices *of, const sp_choice *choice, char out[SP_POINT_TEXT]);
/* False: it is none. "" leaves all to the rule. */
bool sp_choice_parse(const sp_choices *of, const char *text, sp_choice *out);
/* Can the job run just so? */
bool sp_choice_allowed(const sp_choices *of, const sp_cuda_job *job, const sp_gpu *gpu,
                       const sp_choice *choice);
/* The points of a job that differ, the rule's first, which leaves all to it. Returns how many, SP_SPACE at most. */
int sp_choice_space(const sp_choices *of, const sp_cuda_job *job, const sp_gpu *gpu, sp_choice out[SP_SPACE]);
/* For the points that tests compile: point i is job i of the first `plain` by rule, and then each of the space at each of the first `jobs`. */
bool sp_choice_sample(const sp_choices *of, int i, int plain, int jobs, sp_choice *out, int *job);

/* Jobs that run alike, as a number and in words that end with it: GPU and driver, row, verb, types, sizes, share of blocks, tokens (in half octaves), epilogue. */
uint64_t sp_cuda_task(const sp_cuda_row *row, const sp_cuda_job *job, const sp_gpu *gpu);
void sp_cuda_task_print(const sp_cuda_row *row, const sp_cuda_job *job, const sp_gpu *gpu, char *out,
                        size_t size);
#define SP_TASK_PREFIX "gpu "
bool sp_cuda_task_parse(const char *text, uint64_t *out); /* the number; false: it has none */
/* From now on such jobs run so, in this process; readers take no lock. False: no memory, or too many. */
bool sp_cuda_prefer(uint64_t task, const sp_choice *choice);
/* What is preferred for a job and can be had; NULL: nothing is. */
const sp_choice *sp_cuda_preferred(const sp_cuda_row *row, const sp_cuda_job *job, const sp_gpu *gpu);
void sp_cuda_forget(const sp_choice *preferred); /* it did not run */
/* Runs the job on its row: at its point, at a preferred one, or by the rule, which also stands in for a preferred one that fails. */
sparta_status sp_cuda_run_row(const sp_complaint *c, const sp_cuda_row *row, const sp_cuda_job *job,
                              const sp_gpu *gpu) SP_MUST;
/* A row that has a choice, by its name, 2:4 too; NULL: there is none. */
const sp_cuda_row *sp_cuda_row_named(const char *name);
/* What a point of this row was measured with: a digest of its text, in hexadecimal. */
void sp_cuda_code(const sp_cuda_row *row, char out[40]);

/* ------------------------------------------------------------------ index (index.c, index.cu) */
/* Words of the index; 0: there is none for such blocks, or it would be too large. */
int64_t sp_index_words(int64_t height, int64_t width, int64_t down, int64_t right);
/* Makes it on the job's stream: fields gpu, stream, sizes, pos, crd. */
sparta_status sp_cuda_index(const sp_complaint *c, const sp_cuda_job *job, int32_t *index) SP_MUST;
/* The same on the CPU, in plain C: what the device's is compared with. */
void sp_index_plain(int64_t height, int64_t width, int64_t down, int64_t right, int64_t blocks,
                    const int32_t *pos, const int32_t *crd, int32_t *index);

/* ------------------------------------------------------------------ kernels (texts.c) */
/* The texts of this room, embedded. */
typedef enum sp_cuda_text {
#define SP_CUDA_TEXT(name) SP_CUDA_TEXT_##name,
#include "cuda/texts.def"
#undef SP_CUDA_TEXT
    SP_CUDA_TEXTS
} sp_cuda_text;

/* The point of a kernel: names are string constants. */
enum { SP_CUDA_PARAMETERS = 24 };
typedef struct sp_cuda_point {
    int n;
    struct {
        const char *name;
        int value;
    } parameter[SP_CUDA_PARAMETERS];
} sp_cuda_point;
void sp_cuda_set(sp_cuda_point *point, const char *name, int value);
void sp_cuda_set_dtype(sp_cuda_point *point, sparta_dtype dtype); /* DTYPE: 0 f16, 1 bf16, 2 f32 */
/* DTYPE, and of a product WORDS, WORD0, WORD1, ... (numbers of sp_word_id, which common.cuh has as names). */
void sp_cuda_set_job(sp_cuda_point *point, const sp_cuda_job *job);

typedef struct sp_cuda_asked {
    sp_cuda_text text;
    const char *entry;
    sp_cuda_point point;
} sp_cuda_asked;

/* Entry `entry` of a text at a point, for this GPU: found again by its point, else compiled and loaded, which is kept. */
sparta_status sp_cuda_kernel(const sp_complaint *c, const sp_gpu *gpu, sp_cuda_text text, const char *entry,
                             const sp_cuda_point *point, const sp_gpu_kernel **out) SP_MUST;
/* The whole text at a point, as NVRTC gets it. The caller frees it with free(); NULL: no memory. For tests and `kernel show`. */
char *sp_cuda_text_at(sp_cuda_text text, const sp_cuda_point *point);
const char *sp_cuda_text_name(sp_cuda_text text);

/* Points that tests compile each text at, for every target: i counts from 0; false: there is no such. */
bool sp_cuda_sample_point(sp_cuda_text text, int i, sp_cuda_point *point, const char **entry,
                          sp_target *target);
/* They come from the host file of each text, sp_cuda_points_<text>: points that jobs lead to, each kind of code at least once, on every target that the
 * text is for. `point` comes empty; *target is SM90A unless it is set. */
#define SP_CUDA_TEXT(name)                                                                                   \
    bool sp_cuda_points_##name(int i, sp_cuda_point *point, const char **entry, sp_target *target);
#include "cuda/texts.def"
#undef SP_CUDA_TEXT

/* MHz at which a multiprocessor runs now, after what is before it on the stream (ticks.c); waits. 0: its counters do not say. The GPU has been entered. */
sparta_status sp_cuda_clock(const sp_complaint *c, const sp_gpu *gpu, void *stream, double *mhz) SP_MUST;

/* How strips.c deals items to clusters (index.h); `most` tiles of tokens in a band. */
sp_deal sp_strips_deal(int groups, int tiles, int clusters, int most);

#endif
