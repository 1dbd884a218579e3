/* Sizes and strides of one run. Nothing is trusted: a nest comes out of a package, and the code that it is compiled to reads and writes where
 * these numbers say. */
#include "kernel/inside.h"

static bool alone(const sp_nest_axis *x, int loop)
{
    return x->n == 1 && x->term[0].loop == loop && x->term[0].times == 1 && !x->plus;
}

/* Of outputs first: an input may be larger than the slice of it that is read. */
static sparta_status loop_size(sparta_ctx *cx, const sp_nest *n, const sparta_tensor *tensor, int loop,
                               int64_t *out)
{
    const int inputs = sp_nest_inputs(n);
    *out = n->loop[loop].size;
    if (*out >= 0) return SPARTA_OK;
    for (int k = 0; k < n->operands; k++) {
        const int at = k + inputs < n->operands ? k + inputs : k + inputs - n->operands;
        const sp_nest_operand *o = &n->operand[at];
        for (int i = 0; i < o->rank; i++)
            if (alone(&o->axis[i], loop)) {
                *out = tensor[at].dim[i];
                return SPARTA_OK;
            }
    }
    return sp_fail(cx, SPARTA_E_FORMAT, "nest: no operand tells the size of loop %c", n->loop[loop].name);
}

static sparta_status check_tensor(sparta_ctx *cx, const sp_nest *n, const sparta_tensor *t, int at)
{
    const sp_nest_operand *o = &n->operand[at];
    if (t->rank != o->rank)
        return sp_fail(cx, SPARTA_E_SHAPE, "nest: operand %d has %d axes in place of %d", at, t->rank,
                       o->rank);
    if (t->dtype != o->dtype)
        return sp_fail(cx, SPARTA_E_DTYPE, "nest: operand %d is %s in place of %s", at,
                       sparta_dtype_name(t->dtype), sparta_dtype_name(o->dtype));
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 0) return sp_fail(cx, SPARTA_E_SHAPE, "nest: operand %d has a negative size", at);
    return SPARTA_OK;
}

/* The least and the largest index of an axis, when all loops run. */
static bool range(const sp_nest_axis *x, const int64_t *size, int64_t *low, int64_t *high)
{
    *low = *high = x->plus;
    for (int i = 0; i < x->n; i++) {
        int64_t most;
        if (!sp_int_mul(x->term[i].times, size[x->term[i].loop] - 1, &most)) return false;
        if (!sp_int_add(most < 0 ? *low : *high, most, most < 0 ? low : high)) return false;
    }
    return true;
}

static sparta_status bind_operand(sparta_ctx *cx, const sp_nest *n, const sparta_tensor *t, int at,
                                  bool empty, sp_nest_bound *b)
{
    const sp_nest_operand *o = &n->operand[at];
    for (int i = 0; i < o->rank; i++) {
        const sp_nest_axis *x = &o->axis[i];
        int64_t low, high, step;
        if (!range(x, b->size, &low, &high) || (!empty && (low < 0 || high >= t->dim[i])))
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "nest: indices %lld to %lld of axis %d of operand %d are not all among its %lld",
                           (long long)low, (long long)high, i, at, (long long)t->dim[i]);
        for (int k = 0; k < x->n; k++) {
            int64_t *stride = &b->stride[at][x->term[k].loop];
            if (!sp_int_mul(x->term[k].times, t->stride[i], &step) || !sp_int_add(*stride, step, stride))
                return sp_fail(cx, SPARTA_E_SHAPE, "nest: strides of operand %d are too large", at);
        }
        if (!sp_int_mul(x->plus, t->stride[i], &step) || !sp_int_add(b->offset[at], step, &b->offset[at]))
            return sp_fail(cx, SPARTA_E_SHAPE, "nest: strides of operand %d are too large", at);
    }
    const int vector = sp_nest_vector(n);
    int64_t *along = &b->stride[at][vector];
    if (sp_nest_access(n, at) == SP_ALONG_UNIT && *along != 1) {
        if (b->size[vector] > 1)
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "nest: the last axis of operand %d has stride %lld in place of 1", at,
                           (long long)*along);
        *along = 1; /* what joins the loop goes by it */
    }
    if (o->lanes && ((uintptr_t)t->data | (uintptr_t)(4 * t->stride[1])) % 64)
        return sp_fail(cx, SPARTA_E_SHAPE, "nest: operand %d does not lie in panels", at);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ joining loops */
/* Loops a and b, a right before b, are one loop in memory for every operand. */
static bool one(const sp_nest *n, const sp_nest_bound *b, int i, int k)
{
    if (n->loop[i].bind != SP_BIND_SERIAL || n->loop[k].bind == SP_BIND_UNROLL) return false;
    if (n->loop[i].inner != n->loop[k].inner) return false;
    for (int o = 0; o < n->operands; o++) {
        int64_t step;
        if (!sp_int_mul(b->stride[o][k], b->size[k], &step) || step != b->stride[o][i]) return false;
    }
    return true;
}

/* From the last loop to the first: each goes into the next one that is left, where it can. One of size 1 is no loop. */
static void join(const sp_nest *n, sp_nest_bound *b)
{
    int next = -1;
    for (int i = n->loops - 1; i >= 0; i--) {
        int64_t size;
        if (b->size[i] == 1 && n->loop[i].bind != SP_BIND_VECTOR) continue;
        if (next >= 0 && one(n, b, i, next) && sp_int_mul(b->size[i], b->size[next], &size)) {
            b->size[next] = size;
            b->size[i] = 1;
        } else
            next = i;
    }
}

/* A kept line of at most 256 KiB where that leaves 16 lanes, so that it is still in L2 when the next phase reads it. */
static sparta_status lines(sparta_ctx *cx, const sp_nest *n, sp_nest_bound *b)
{
    int64_t inner = 1;
    b->block = 256;
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].inner && !sp_int_mul(inner, b->size[i], &inner)) goto large;
    if (inner > ((int64_t)1 << 40)) goto large;
    const bool down = sp_nest_down(n);
    if (down && sp_nest_lanes(n))
        b->block = SP_NEST_LANES; /* however wide it is: the text has the number in it */
    else if (down)
        b->block = SP_MAX(16, SP_MIN(256, sp_nest_up(((int64_t)1 << 16) / SP_MAX(1, inner), 16)));
    b->line = down ? inner * b->block : sp_nest_up(inner, 16) + 16; /* the last vector may reach over */
    return SPARTA_OK;
large:
    return sp_fail(cx, SPARTA_E_SHAPE, "nest: the sizes of its loops are too large");
}

sparta_status sp_nest_bind(sparta_ctx *cx, const sp_nest *n, const sparta_tensor *tensor, sp_nest_bound *out)
{
    bool empty = false;
    *out = (sp_nest_bound){0};
    for (int i = 0; i < n->operands; i++) SP_TRY(check_tensor(cx, n, &tensor[i], i));
    for (int i = 0; i < n->loops; i++) {
        SP_TRY(loop_size(cx, n, tensor, i, &out->size[i]));
        empty |= !out->size[i];
    }
    for (int i = 0; i < n->operands; i++) {
        /* Where a loop right of the bar is empty, what has none of those is still stored. */
        bool none = empty;
        if (!sp_nest_inner(n, &n->operand[i])) {
            none = false;
            for (int k = 0; k < n->loops; k++) none |= !n->loop[k].inner && !out->size[k];
        }
        SP_TRY(bind_operand(cx, n, &tensor[i], i, none, out));
    }
    join(n, out);
    return lines(cx, n, out);
}
