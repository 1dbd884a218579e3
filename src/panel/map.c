/* map: y = act(a + b) element by element. in: a, b? in panels. Serves Add and the activations that no product could take. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_map.h"

static int act_of(sparta_op_id op, const sparta_attrs *attrs)
{
    switch (op) {
    case SPARTA_OP_Add: return SPARTA_ACT_NONE;
    case SPARTA_OP_Relu: return SPARTA_ACT_RELU;
    case SPARTA_OP_Tanh: return SPARTA_ACT_TANH;
    case SPARTA_OP_Sigmoid: return SPARTA_ACT_SIGMOID;
    case SPARTA_OP_Gelu:
        return sparta_attr_string(attrs, "approximate", "none")[0] == 't' ? SPARTA_ACT_GELU_TANH
                                                                          : SPARTA_ACT_GELU;
    default: return -1;
    }
}

static sparta_status prepare(sparta_ctx *cx, sparta_arena *arena, sparta_job *job)
{
    (void)arena;
    job->act = act_of(job->node->op, &job->node->attrs);
    if (job->act < 0)
        return sparta_fail(cx, SPARTA_E_FORMAT, "%s: not an operator of kernel map", job->node->name);
    return SPARTA_OK;
}

static sparta_status check(sparta_ctx *cx, const sparta_job *job)
{
    const int64_t features = sparta_panel_features(&job->out[0].tensor);
    SPARTA_TRY(sparta_panel_want(cx, job, &job->in[0], features, "the input"));
    if (job->n_in > 1) SPARTA_TRY(sparta_panel_want(cx, job, &job->in[1], features, "the second input"));
    return sparta_panel_want(cx, job, &job->out[0], features, "the output");
}

static bool fill(const sparta_job *job, const sparta_place *at, sparta_panel_args *out)
{
    struct sparta_map_args *a = &out->map;
    int64_t from, to;
    sparta_panel_share(sparta_panel_features(&job->out[0].tensor), 4, at, &from, &to);
    a->row0 = (long)from, a->row1 = (long)to;
    a->a = sparta_panel_at(&job->in[0], at);
    a->b = job->n_in > 1 ? sparta_panel_at(&job->in[1], at) : 0;
    a->y = sparta_panel_at(&job->out[0], at);
    a->vectors = sparta_panel_vectors(job, at->panel);
    a->act = job->act;
    return to > from;
}

static bool takes(sparta_op_id op)
{
    return act_of(op, &(sparta_attrs){0}) >= 0;
}

const sparta_panel_kernel sparta_panel_map = {"map", sparta_kernel_map, takes, prepare, check, NULL, NULL,
                                              fill};
