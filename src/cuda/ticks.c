/* The clock of a GPU as it is now, which power and heat decide: the driver says only the highest there may be. */
#include "cuda/cuda.h"

static sparta_status run(const sp_complaint *c, const sp_gpu *gpu, void *stream, uint64_t *out)
{
    const sp_gpu_kernel *kernel;
    const sp_cuda_point point = {0};
    const sp_grid one = {.x = 1, .threads = 1};
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_ticks, "ticks", &point, &kernel));
    return sp_gpu_launch(c, kernel, &one, stream, (void *[]){&out});
}

sparta_status sp_cuda_clock(const sp_complaint *c, const sp_gpu *gpu, void *stream, double *mhz)
{
    uint64_t counted[2] = {0};
    void *out;
    *mhz = 0;
    SP_TRY(sp_gpu_alloc(c, sizeof counted, &out));
    sparta_status status = sp_gpu_fill(c, out, 0, sizeof counted, stream);
    if (!status) status = run(c, gpu, stream, out);
    if (!status) status = sp_gpu_wait(c, stream);
    if (!status) status = sp_gpu_get(c, counted, out, sizeof counted);
    sp_gpu_free(out);
    if (!status && counted[1]) *mhz = 1e3 * (double)counted[0] / (double)counted[1];
    return status;
}

bool sp_cuda_points_ticks(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const sp_target targets[] = {SP_TARGET_SM90A, SP_TARGET_SM80};
    if (i < 0 || i >= (int)SP_COUNT(targets)) return false;
    *point = (sp_cuda_point){0};
    *entry = "ticks";
    *target = targets[i];
    return true;
}
