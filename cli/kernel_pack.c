/* sparta kernel pack: kernels for GPUs into a file, for machines without NVRTC. Every combination of values that swept flags list is a wish. */
#include "verbs.h"
#include <stdio.h>
#include <string.h>

enum { MOST_WISHES = 4096 };

typedef struct wishes {
    sp_arena *arena;
    const char *device, *epilogue;
    int n;
    sparta_gpu_wish *wish; /* MOST_WISHES */
} wishes;

static sparta_status sides_of(cli *c, const char *pattern, sparta_gpu_wish *w)
{
    long long height = 0, width = 0;
    int end = 0;
    if (!strcmp(pattern, "2:4")) return SPARTA_OK;
    if (sscanf(pattern, "%7lldx%7lld%n", &height, &width, &end) != 2 || pattern[end] || height < 1 ||
        width < 1)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: --pattern %s: give the sides of a block, 64x64, or 2:4", pattern);
    w->height = height;
    w->width = width;
    return SPARTA_OK;
}

static sparta_status one_wish(cli *c, const char *point, void *arg)
{
    wishes *all = arg;
    sp_gpu_bench_request q;
    (void)point;
    if (all->n == MOST_WISHES)
        return sp_fail(c->cx, SPARTA_E_LIMIT, "kernel: pack takes %d combinations at most", (int)MOST_WISHES);
    SP_TRY(cli_gpu_request(c, 0, &q));
    sparta_gpu_wish *w = &all->wish[all->n++];
    *w = (sparta_gpu_wish){.size = sizeof *w,
                           .device = all->device,
                           .verb = q.verb,
                           .dtype = q.dtype,
                           .tf32 = q.tf32,
                           .rows = q.n,
                           .cols = q.k,
                           .tokens = q.m,
                           .density = q.sparsity < 1 ? 1 - q.sparsity : 0,
                           .epilogue = q.verb == SPARTA_MULTIPLY ? all->epilogue : NULL};
    return sides_of(c, q.pattern, w);
}

static sparta_status pack(cli *c, wishes *all, const char *path)
{
    int n;
    all->wish = sp_arena_array(all->arena, MOST_WISHES, sizeof *all->wish);
    SP_NEED(c->cx, all->wish);
    SP_TRY(cli_sweep(c, one_wish, all, &n));
    cli_progress_show(c, 0, 1, "compiling kernels");
    SP_TRY(sparta_gpu_pack(c->cx, all->wish, all->n, path));
    cli_json j = cli_json_begin(c, "kernel");
    cli_json_text(&j, "file", path);
    cli_json_text(&j, "device", all->device);
    cli_json_int(&j, "wishes", all->n);
    cli_json_end(c, &j);
    cli_say(c, "%s: for %s, %d kind%s of call; SPARTA_GPU_KERNELS=%s uses it\n", path, all->device, all->n,
            all->n == 1 ? "" : "s", path);
    return SPARTA_OK;
}

sparta_status cli_kernel_pack(cli *c)
{
    wishes all = {.device = cli_text(c, CLI_DEVICE, "sm_90a"), .epilogue = cli_text(c, CLI_EPILOGUE, NULL)};
    const char *path = cli_text(c, CLI_OUTPUT, NULL);
    if (!path)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "kernel: pack writes a file; name it with -o kernels.sparta-gpu");
    all.arena = sp_arena_create(c->cx);
    SP_NEED(c->cx, all.arena);
    const sparta_status status = pack(c, &all, path);
    sp_arena_free(all.arena);
    return status;
}
