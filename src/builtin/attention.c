/* Both operators of this name. Attention as ONNX has it (domain "", since opset 23), for each batch b, head h and query s:
 *
 *     score[t] = scale q[b, h, s] . k[b, g, t]         t over the past and then the new keys; g = h / (heads of q / heads of k)
 *     score[t] = softcap tanh(score[t] / softcap)      when softcap > 0
 *     score[t] += mask[b, h, s, t]                     -inf: where a mask of bools is false, beyond the end of a short mask,
 *                                                      t > past + s with is_causal, t >= nonpad_kv_seqlen[b]
 *     y[b, h, s] = sum over t of softmax(score)[t] v[b, g, t]
 *
 * q, k, v are (B, heads, S, D) or (B, S, heads*D) with q_num_heads and kv_num_heads; past_key and past_value (B, heads, P, D).
 * Further outputs: present_key and present_value, past and new one after the other, and the scores as they are at the step that
 * qk_matmul_output_mode says: 0 the product, 1 after the softcap, 2 after the mask, 3 after the softmax. A row whose every score
 * is -inf is NaN, as IEEE says.
 *
 * That of domain "sparta" (builtin.h) is the same on (B, S, heads*D), without a past. The last query stands at the last key, and
 * attributes left and right say how many keys before and after its own place a query sees; a mask may be that of several items, which it
 * then repeats for; with nan_to_zero=1 a probability that is NaN counts as 0, with 2 a query
 * whose every score is -inf gets 0; a list says which blocks of keys are there (route.h). */
#include "builtin/heads.h"
#include "builtin/line.h"
#include "builtin/route.h"
#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD, LIST = PAST_K }; /* inputs; LIST: of domain "sparta" */
enum { Y, PRESENT_K, PRESENT_V, SCORES };                      /* outputs */

typedef struct attention {
    const sp_op_args *args;
    /* (B, heads, S, D); part: new k and v; past: of rank -1 when there is none. */
    sparta_tensor q, y, part[2], past[2];
    sparta_tensor mask;    /* (B, heads, S, up to T), rank -1: none */
    int64_t total, before; /* keys in all, and of the past */
    int64_t place;       /* of query 0 among the keys: those from left before it to right after it are seen */
    int64_t left, right; /* -1: all of them */
    double hidden;       /* score of those that are not */
    const int32_t *list; /* (B, heads, blocks of queries, room): blocks of keys that are seen; NULL: all */
    int64_t block, room;
    double scale, softcap;
    int mode;
    int nan_to_zero;
    double *k, *v;                  /* (D, T) and (T, Dv) of one batch and head */
    double *query, *score, *result; /* (D), (T) and (Dv) of one query */
} attention;

static double get(const sparta_tensor *t, int64_t b, int64_t h, int64_t s, int64_t d)
{
    return sp_element_get(t->dtype, t->data,
                          b * t->stride[0] + h * t->stride[1] + s * t->stride[2] + d * t->stride[3]);
}

static void set(const sparta_tensor *t, const int64_t at[3], int64_t d, double value)
{
    sp_element_set(t->dtype, t->data,
                   at[0] * t->stride[0] + at[1] * t->stride[1] + at[2] * t->stride[2] + d * t->stride[3],
                   value);
}

/* All keys and values of batch b and head g. */
static void load(const attention *a, int64_t b, int64_t g)
{
    for (int which = 0; which < 2; which++) {
        const sparta_tensor *now = &a->part[which], *past = &a->past[which];
        const int64_t n = now->dim[3];
        for (int64_t t = 0; t < a->total; t++)
            for (int64_t d = 0; d < n; d++)
                *(which ? &a->v[t * n + d] : &a->k[d * a->total + t]) =
                    t < a->before ? get(past, b, g, t, d) : get(now, b, g, t - a->before, d);
    }
}

static double bias(const attention *a, const int64_t at[3], int64_t t)
{
    const sparta_tensor *nonpad = &a->args->in[NONPAD], *m = &a->mask;
    if (sp_op_has(a->args, NONPAD) &&
        t >= sp_element_get_int(nonpad->dtype, nonpad->data, at[0] * nonpad->stride[0]))
        return -INFINITY;
    if (m->rank < 0) return 0;
    if (t >= m->dim[3]) return -INFINITY;
    double v = get(m, at[0] % m->dim[0], at[1], at[2], t);
    return m->dtype != SPARTA_BOOL ? v : v != 0 ? 0 : -INFINITY;
}

/* Keys of blocks that are not listed for a query are not there. */
static void hide_unlisted(const attention *a, const int64_t at[3])
{
    const int64_t blocks = sp_route_blocks(a->total, a->block), rows = sp_route_blocks(a->q.dim[2], a->block);
    const int32_t *list = a->list + ((at[0] * a->q.dim[1] + at[1]) * rows + at[2] / a->block) * a->room;
    int64_t t = 0, last = -1;
    for (int64_t i = 0; i < a->room; i++) {
        if (!sp_route_lists(list[i], blocks, &last)) continue;
        for (; t < list[i] * a->block; t++) a->score[t] = -INFINITY;
        t = SP_MIN((list[i] + 1) * a->block, a->total);
    }
    for (; t < a->total; t++) a->score[t] = -INFINITY;
}

/* Is key t outside of the window of query s? */
static bool outside(const attention *a, int64_t s, int64_t t)
{
    const int64_t after = t - s - a->place;
    return (a->right >= 0 && after > a->right) || (a->left >= 0 && after < -a->left);
}

static void report(const attention *a, int mode, const int64_t at[3])
{
    if (mode != a->mode || a->args->n_out <= SCORES) return;
    for (int64_t t = 0; t < a->total; t++) set(&a->args->out[SCORES], at, t, a->score[t]);
}

/* sum[j] = sum over i of x[i] m[i, j], m being (rows, n) */
static void weigh(const double *m, int64_t rows, int64_t n, const double *x, double *restrict sum)
{
    for (int64_t j = 0; j < n; j++) sum[j] = 0;
    for (int64_t i = 0; i < rows; i++, m += n)
        for (int64_t j = 0; j < n; j++) sum[j] += x[i] * m[j];
}

static bool sees_nothing(const attention *a)
{
    for (int64_t t = 0; t < a->total; t++)
        if (a->score[t] != -(double)INFINITY) return false;
    return true;
}

/* at: batch, head of q, query */
static void attend(const attention *a, const int64_t at[3])
{
    const int64_t d = a->q.dim[3], dv = a->part[1].dim[3];
    for (int64_t i = 0; i < d; i++) a->query[i] = get(&a->q, at[0], at[1], at[2], i);
    weigh(a->k, d, a->total, a->query, a->score);
    for (int64_t t = 0; t < a->total; t++) a->score[t] *= a->scale;
    report(a, 0, at);
    for (int64_t t = 0; a->softcap > 0 && t < a->total; t++)
        a->score[t] = a->softcap * tanh(a->score[t] / a->softcap);
    report(a, 1, at);
    for (int64_t t = 0; t < a->total; t++)
        a->score[t] = outside(a, at[2], t) ? a->hidden : a->score[t] + bias(a, at, t);
    if (a->list) hide_unlisted(a, at);
    report(a, 2, at);
    const bool nothing = a->nan_to_zero == 2 && sees_nothing(a);
    sp_line_softmax(a->score, a->total);
    for (int64_t t = 0; a->nan_to_zero == 1 && t < a->total; t++)
        if (isnan(a->score[t])) a->score[t] = 0;
    report(a, 3, at);
    weigh(a->v, a->total, dv, a->score, a->result);
    for (int64_t i = 0; i < dv; i++) set(&a->y, at, i, nothing ? 0 : a->result[i]);
}

/* Every batch, head and query. */
static sparta_status attend_all(sparta_ctx *cx, attention *a)
{
    const int64_t d = a->q.dim[3], heads = a->q.dim[1], each = heads / a->part[0].dim[1];
    const size_t n = (size_t)d + (size_t)a->part[1].dim[3]; /* and for each key as much, and its score */
    double *room = sp_alloc_array(cx, n + (size_t)a->total * (n + 1), sizeof *room);
    SP_NEED(cx, room);
    a->query = room;
    a->score = a->query + d;
    a->k = a->score + a->total;
    a->v = a->k + a->total * d;
    a->result = a->v + a->total * a->part[1].dim[3];
    sparta_status status = SPARTA_OK;
    const int64_t count = sp_op_empty(a->args) ? 0 : a->q.dim[0] * heads; /* heads of 0 columns may be 2^62 */
    for (int64_t i = 0; i < count && status == SPARTA_OK; i++) {
        load(a, i / heads, i % heads / each);
        for (int64_t s = 0; s < a->q.dim[2]; s++) attend(a, (int64_t[]){i / heads, i % heads, s});
        status = sp_check_cancel(cx);
    }
    sp_free(cx, room);
    return status;
}

/* past and new, one after the other. */
static sparta_status put_present(sparta_ctx *cx, const attention *a, int which)
{
    if (a->args->n_out <= PRESENT_K + which) return SPARTA_OK;
    const sparta_tensor *out = &a->args->out[PRESENT_K + which];
    sparta_tensor first = sp_view_part(out, 2, 0, a->before);
    sparta_tensor second = sp_view_part(out, 2, a->before, a->total - a->before);
    if (a->before > 0) SP_TRY(sp_tensor_copy(cx, &a->past[which], &first));
    return sp_tensor_copy(cx, &a->part[which], &second);
}

static sparta_status check(sparta_ctx *cx, const attention *a)
{
    const sparta_tensor *q = &a->q, *k = &a->part[0], *v = &a->part[1];
    bool fits = k->dim[0] == q->dim[0] && v->dim[0] == q->dim[0] && k->dim[1] == v->dim[1] &&
                k->dim[2] == v->dim[2] && k->dim[3] == q->dim[3] && k->dim[1] > 0 &&
                q->dim[1] % k->dim[1] == 0;
    for (int i = 0; i < 2 && fits; i++) {
        const sparta_tensor *p = &a->past[i], *now = &a->part[i];
        if (p->rank < 0) continue;
        fits = p->rank == 4 && p->dim[0] == q->dim[0] && p->dim[1] == k->dim[1] && p->dim[2] == a->before &&
               p->dim[3] == now->dim[3];
    }
    if (fits) return SPARTA_OK;
    return sp_fail(
        cx, SPARTA_E_SHAPE,
        "Attention: batches, heads, lengths or columns of q, k, v and the past do not fit each other");
}

/* The mask as (items, heads, S, length). */
static sparta_status take_mask(sparta_ctx *cx, attention *a, int64_t items, int64_t length)
{
    const int64_t full[4] = {items, a->q.dim[1], a->q.dim[2], length};
    a->mask = (sparta_tensor){.rank = -1};
    return sp_op_has(a->args, MASK) ? sp_tensor_broadcast(cx, &a->args->in[MASK], 4, full, &a->mask)
                                    : SPARTA_OK;
}

/* Its own length: what it does not reach is masked. */
static sparta_status take_short_mask(sparta_ctx *cx, attention *a)
{
    const sparta_tensor *m = &a->args->in[MASK];
    const int64_t length = sp_op_has(a->args, MASK) && m->rank ? m->dim[m->rank - 1] : 0;
    if (sp_op_has(a->args, MASK) && (m->rank < 1 || length > a->total))
        return sp_fail(cx, SPARTA_E_SHAPE, "Attention: a mask of %lld columns for %lld keys",
                       (long long)length, (long long)a->total);
    return take_mask(cx, a, a->q.dim[0], length);
}

/* Of as many items as it has, when that is a part of the batch. */
static sparta_status take_repeated_mask(sparta_ctx *cx, attention *a)
{
    const sparta_tensor *m = &a->args->in[MASK];
    const int64_t batch = a->q.dim[0];
    const bool some = sp_op_has(a->args, MASK) && m->rank == 4 && m->dim[0] > 0 && batch % m->dim[0] == 0;
    return take_mask(cx, a, some ? m->dim[0] : batch, a->total);
}

static sparta_status view_all(sparta_ctx *cx, attention *a, int64_t heads, int64_t groups, bool onnx)
{
    const sp_op_args *args = a->args;
    SP_TRY(sp_view_heads(cx, "Attention", &args->in[Q], heads, &a->q));
    SP_TRY(sp_view_heads(cx, "Attention", &args->in[K], groups, &a->part[0]));
    SP_TRY(sp_view_heads(cx, "Attention", &args->in[V], groups, &a->part[1]));
    SP_TRY(sp_view_heads(cx, "Attention", &args->out[Y], heads, &a->y));
    for (int i = 0; i < 2; i++)
        a->past[i] = onnx && sp_op_has(args, PAST_K + i) ? args->in[PAST_K + i] : (sparta_tensor){.rank = -1};
    a->before = a->past[0].rank == 4 ? a->past[0].dim[2] : 0;
    a->total = a->before + a->part[0].dim[2];
    a->scale = a->q.dim[3] ? 1 / sqrt((double)a->q.dim[3]) : 1;
    if (sp_attr_find(args->attrs, "scale")) a->scale = (double)sp_attr_float(args->attrs, "scale", 1);
    return check(cx, a);
}

sparta_status sp_builtin_OnnxAttention(sparta_ctx *cx, const sp_op_args *args)
{
    attention a = {.args = args, .softcap = (double)sp_attr_float(args->attrs, "softcap", 0)};
    SP_TRY(view_all(cx, &a, sp_attr_int(args->attrs, "q_num_heads", 0),
                    sp_attr_int(args->attrs, "kv_num_heads", 0), true));
    SP_TRY(take_short_mask(cx, &a));
    a.mode = (int)sp_attr_int(args->attrs, "qk_matmul_output_mode", 0);
    a.place = a.before;
    a.left = -1;
    a.hidden = -INFINITY;
    a.right = sp_attr_int(args->attrs, "is_causal", 0) ? 0 : -1;
    SP_TRY(attend_all(cx, &a));
    for (int i = 0; i < 2; i++) SP_TRY(put_present(cx, &a, i));
    return SPARTA_OK;
}

static sparta_status take_list(sparta_ctx *cx, attention *a)
{
    const sparta_tensor *list = &a->args->in[LIST];
    if (!sp_op_has(a->args, LIST)) return SPARTA_OK;
    a->block = sp_attr_int(a->args->attrs, "block", 1);
    if (a->block < 1 || list->rank != 4 || list->dtype != SPARTA_I32 || !sp_tensor_contiguous(list) ||
        list->dim[0] != a->q.dim[0] || list->dim[1] != a->q.dim[1] ||
        list->dim[2] != sp_route_blocks(a->q.dim[2], a->block))
        return sp_fail(cx, SPARTA_E_SHAPE, "Attention: the list is not one of blocks of %lld queries",
                       (long long)a->block);
    a->list = list->data;
    a->room = list->dim[3];
    return SPARTA_OK;
}

sparta_status sp_builtin_Attention(sparta_ctx *cx, const sp_op_args *args)
{
    const int64_t heads = sp_attr_int(args->attrs, "heads", 1);
    attention a = {.args = args,
                   .softcap = (double)sp_attr_float(args->attrs, "softcap", 0),
                   .left = sp_attr_int(args->attrs, "left", -1),
                   .right = sp_attr_int(args->attrs, "right", -1),
                   .hidden = (double)sp_attr_float(args->attrs, "hidden", -INFINITY),
                   .nan_to_zero = (int)sp_attr_int(args->attrs, "nan_to_zero", 0)};
    SP_TRY(view_all(cx, &a, heads, sp_attr_int(args->attrs, "kv_heads", heads), false));
    SP_TRY(take_repeated_mask(cx, &a));
    SP_TRY(take_list(cx, &a));
    a.place = a.total - a.q.dim[2];
    return attend_all(cx, &a);
}
