/* GroupNormalization and InstanceNormalization of f32: a group lies together, and of a channel in it everything is scaled alike. */
#include "builtin/quick.h"
#include <math.h>

typedef struct groups {
    const float *x, *scale, *bias;
    float *y;
    int64_t groups, each, n; /* of an image; channels of a group; elements of a channel */
    float epsilon;
    const sp_quick_kernels *kernels;
} groups;

/* Numbers may differ by less than f32 can say of their mean. That is near + rest, then: the rest is the mean of distances from what is near it. */
static void normalise(void *arg, int64_t from, int64_t to)
{
    const groups *g = arg;
    const int64_t all = g->each * g->n;
    for (int64_t i = from; i < to; i++) {
        const float *x = g->x + i * all, near = g->kernels->sum(x, all, 0) / (float)all;
        const float rest = g->kernels->sum(x, all, near) / (float)all;
        const float variance = g->kernels->squares(x, all, near) / (float)all - rest * rest;
        const float inverse = 1 / sqrtf(fmaxf(variance, 0) + g->epsilon);
        for (int64_t k = 0; k < g->each; k++) {
            const int64_t c = i % g->groups * g->each + k;
            const float a = g->scale[c] * inverse;
            g->kernels->scale(g->y + i * all + k * g->n, x + k * g->n, g->n, near, a, g->bias[c] - rest * a);
        }
    }
}

static sparta_status by_groups(sparta_ctx *cx, const sp_op_args *args, int64_t n, bool *done)
{
    const sparta_tensor *in = args->in, *x = &in[0], *y = &args->out[0];
    for (int i = 0; i < 3; i++)
        if (!sp_quick_floats(&in[i]) || !sp_tensor_contiguous(&in[i])) return SPARTA_OK;
    if (!sp_quick_floats(y) || !sp_tensor_contiguous(y) || x->rank < 2 || n < 1 || x->dim[1] % n)
        return SPARTA_OK;
    if (in[1].rank != 1 || in[1].dim[0] != x->dim[1] || in[2].rank != 1 || in[2].dim[0] != x->dim[1])
        return SPARTA_OK;
    groups g = {.x = x->data,
                .scale = in[1].data,
                .bias = in[2].data,
                .y = y->data,
                .groups = n,
                .each = x->dim[1] / n,
                .n = 1,
                .epsilon = sp_attr_float(args->attrs, "epsilon", 1e-5f),
                .kernels = sp_quick_here()};
    for (int i = 2; i < x->rank; i++) g.n *= x->dim[i];
    *done = true;
    return sp_ctx_share(cx, x->dim[0] * n, 8 * g.each * g.n, normalise, &g);
}

sparta_status sp_quick_GroupNormalization(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return by_groups(cx, args, sp_attr_int(args->attrs, "num_groups", 1), done);
}

sparta_status sp_quick_InstanceNormalization(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return by_groups(cx, args, args->in[0].dim[1], done);
}
