/* And, Or, Xor and Not of bools that lie side by side: a vector holds four times as many bytes as a generated kernel, which computes in words, takes
 * at once. Operands of one shape, or of one element. A byte that is not 0 is true. */
#include "builtin/quick.h"
#include <string.h>

typedef struct logic {
    const uint8_t *a, *b;
    uint8_t *y;
    int64_t a_step, b_step; /* 0: one element for all */
    void (*line)(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n);
} logic;

enum { CHUNK = 1024 }; /* elements of a call: what is one for all is repeated so often */

static void compute(void *arg, int64_t from, int64_t to)
{
    const logic *l = arg;
    uint8_t same[2][CHUNK];
    if (!l->a_step) memset(same[0], *l->a, CHUNK);
    if (!l->b_step) memset(same[1], *l->b, CHUNK);
    for (int64_t i = from; i < to; i += CHUNK)
        l->line(l->y + i, l->a_step ? l->a + i : same[0], l->b_step ? l->b + i : same[1],
                SP_MIN(to - i, (int64_t)CHUNK));
}

/* The step of an operand; false: another shape, or not row by row. */
static bool takes(const sparta_tensor *t, const sparta_tensor *y, int64_t *step)
{
    *step = sp_tensor_same_shape(t, y);
    return t->dtype == SPARTA_BOOL && sp_tensor_contiguous(t) && (*step || sparta_tensor_elements(t) == 1);
}

static sparta_status by_lines(sparta_ctx *cx, const sp_op_args *args,
                              void (*line)(uint8_t *, const uint8_t *, const uint8_t *, int64_t), bool *done)
{
    const sparta_tensor *a = &args->in[0], *b = &args->in[args->n_in - 1], *y = &args->out[0];
    logic l = {a->data, b->data, y->data, 0, 0, line};
    if (y->dtype != SPARTA_BOOL || !sp_tensor_contiguous(y) || !takes(a, y, &l.a_step) ||
        !takes(b, y, &l.b_step))
        return SPARTA_OK;
    *done = true;
    return sp_ctx_share(cx, sparta_tensor_elements(y), 1, compute, &l);
}

sparta_status sp_quick_And(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return by_lines(cx, args, sp_quick_here()->both, done);
}
sparta_status sp_quick_Or(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return by_lines(cx, args, sp_quick_here()->either, done);
}
sparta_status sp_quick_Xor(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return by_lines(cx, args, sp_quick_here()->differ, done);
}
sparta_status sp_quick_Not(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return by_lines(cx, args, sp_quick_here()->neither, done);
}
