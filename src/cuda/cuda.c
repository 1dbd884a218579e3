/* A job, from its row to its launches. */
#include "cuda/cuda.h"
#include "device/cublas.h"
#include <string.h>

static const sp_cuda_row *const table[] = {
#define SP_CUDA_ROW(name, what) &sp_cuda_##name,
#include "cuda/cuda.def"
#undef SP_CUDA_ROW
};

static size_t align(size_t n)
{
    return (n + 255) & ~(size_t)255;
}

/* ------------------------------------------------------------------ clean values */
/* Does it take elements of blocks that do not exist? A sample writes them, as 0. */
static bool is_unclean(const sp_cuda_job *job)
{
    return job->verb != SPARTA_SAMPLE && job->blocks > 0 &&
           (job->keep || job->rows % job->height || job->cols % job->width);
}

static size_t clean_bytes(const sp_cuda_job *job)
{
    return is_unclean(job)
               ? align((size_t)(job->blocks * job->height * job->width) * sparta_dtype_size(job->dtype))
               : 0;
}

/* The values at `to`, zeros where nothing is. */
static sparta_status clean(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, void *to)
{
    enum { THREADS = 256, EACH = 8 };
    const sp_gpu_kernel *kernel;
    sp_cuda_point point = {0};
    long long blocks = job->blocks, rows = job->rows, cols = job->cols, down = job->down;
    int height = (int)job->height, width = (int)job->width;
    const void *pos = job->pos, *crd = job->crd, *keep = job->keep, *from = job->values;
    void *argument[] = {&to, &from, &keep, &pos, &crd, &blocks, &down, &rows, &cols, &height, &width};
    sp_cuda_set(&point, "BYTES", (int)sparta_dtype_size(job->dtype));
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_clean, "clean", &point, &kernel));
    const long long each = (long long)height * width,
                    needed = (blocks * each + THREADS * EACH - 1) / (THREADS * EACH);
    const sp_grid grid = {.x = (unsigned)SP_MIN(needed, 32LL * gpu->processors), .threads = THREADS};
    return sp_gpu_launch(c, kernel, &grid, job->stream, argument);
}

bool sp_cuda_points_clean(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const int bytes[] = {2, 4};
    static const sp_target targets[] = {SP_TARGET_SM90A, SP_TARGET_SM80};
    if (i < 0 || i >= (int)(SP_COUNT(bytes) * SP_COUNT(targets))) return false;
    *point = (sp_cuda_point){0};
    sp_cuda_set(point, "BYTES", bytes[i / SP_COUNT(targets)]);
    *entry = "clean";
    *target = targets[i % SP_COUNT(targets)];
    return true;
}

/* ------------------------------------------------------------------ the index */
static size_t index_bytes(const sp_cuda_job *job)
{
    return job->index ? 0 : align((size_t)sp_index_words(job->height, job->width, job->down, job->right) * 4);
}

/* ------------------------------------------------------------------ running */
const sp_cuda_row *sp_cuda_find_on(const sp_cuda_job *job, const sp_gpu *gpu)
{
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (table[i]->takes(job, gpu)) return table[i];
    return NULL;
}

const sp_cuda_row *sp_cuda_find(const sp_cuda_job *job)
{
    const sp_gpu *gpu = sp_gpu_at(job->gpu);
    return gpu ? sp_cuda_find_on(job, gpu) : NULL;
}

size_t sp_cuda_room(const sp_cuda_job *job)
{
    const sp_cuda_row *row = sp_cuda_find(job);
    if (!row) return 0;
    return (row->plain ? 0 : index_bytes(job) + clean_bytes(job)) + row->room(job, sp_gpu_at(job->gpu));
}

static sparta_status run(const sp_complaint *c, const sp_cuda_job *given, const sp_cuda_row *row,
                         const sp_gpu *gpu)
{
    sp_cuda_job job = *given;
    if (row->plain) return row->run(c, &job, gpu);
    if (!job.index) {
        job.index = (int32_t *)job.room;
        SP_TRY(sp_cuda_index(c, &job, (int32_t *)job.room));
        job.room += index_bytes(given);
    }
    if (is_unclean(&job)) {
        job.values = job.room;
        SP_TRY(clean(c, given, gpu, job.values));
        job.room += clean_bytes(&job);
        job.keep = NULL;
    }
    return sp_cuda_run_row(c, row, &job, gpu);
}

static sparta_status refuse(const sp_complaint *c, const sp_cuda_job *job)
{
    const char *problem = job->own ? "" : sp_cublas_problem();
    return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                     "no GPU kernel takes blocks of %lldx%lld in %s; blocks have sides of "
                     "16, 32 or a multiple of 64%s%s",
                     (long long)job->height, (long long)job->width, sparta_dtype_name(job->dtype),
                     *problem ? "; others need cuBLASLt: " : "", problem);
}

sparta_status sp_cuda_run(const sp_complaint *c, const sp_cuda_job *job)
{
    const sp_gpu *gpu = sp_gpu_at(job->gpu);
    const sp_cuda_row *row = sp_cuda_find(job);
    sp_gpu_visit visit;
    if (!gpu) return sp_refuse(c, SPARTA_E_DEVICE, "there is no GPU %d: %s", job->gpu, sp_gpu_problem());
    if (!row) return refuse(c, job);
    SP_TRY(sp_gpu_enter(c, gpu, &visit));
    const sparta_status status = run(c, job, row, gpu);
    sp_gpu_leave(&visit);
    return status;
}
