/* Attention as ONNX has it (domain "", since opset 23), for each batch b, head h and query s:
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
 * is -inf is NaN, as IEEE says. */
#include "builtin/heads.h"
#include "builtin/line.h"
#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD }; /* inputs */
enum { Y, PRESENT_K, PRESENT_V, SCORES };       /* outputs */

typedef struct attention {
    const sp_op_args *args;
    /* (B, heads, S, D); part: new k and v; past: of rank -1 when there is none. */
    sparta_tensor q, y, part[2], past[2];
    sparta_tensor mask;    /* (B, heads, S, up to T), rank -1: none */
    int64_t total, before; /* keys in all, and of the past */
    double scale, softcap;
    int mode;
    bool causal;
    double *row[2]; /* k (T, D) and v (T, Dv) of one batch and head */
    double *query, *score;
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

/* All keys (0) or values (1) of batch b and head g. */
static void load(const attention *a, int which, int64_t b, int64_t g)
{
    const sparta_tensor *now = &a->part[which], *past = &a->past[which];
    const int64_t n = now->dim[3];
    for (int64_t t = 0; t < a->total; t++)
        for (int64_t d = 0; d < n; d++)
            a->row[which][t * n + d] =
                t < a->before ? get(past, b, g, t, d) : get(now, b, g, t - a->before, d);
}

static double bias(const attention *a, const int64_t at[3], int64_t t)
{
    const sparta_tensor *nonpad = &a->args->in[NONPAD], *m = &a->mask;
    if (a->causal && t > a->before + at[2]) return -INFINITY;
    if (sp_op_has(a->args, NONPAD) &&
        t >= sp_element_get_int(nonpad->dtype, nonpad->data, at[0] * nonpad->stride[0]))
        return -INFINITY;
    if (m->rank < 0) return 0;
    if (t >= m->dim[3]) return -INFINITY;
    double v = get(m, at[0], at[1], at[2], t);
    return m->dtype != SPARTA_BOOL ? v : v != 0 ? 0 : -INFINITY;
}

static void report(const attention *a, int mode, const int64_t at[3])
{
    if (mode != a->mode || a->args->n_out <= SCORES) return;
    for (int64_t t = 0; t < a->total; t++) set(&a->args->out[SCORES], at, t, a->score[t]);
}

/* at: batch, head of q, query */
static void attend(const attention *a, const int64_t at[3])
{
    const int64_t d = a->q.dim[3], dv = a->part[1].dim[3];
    for (int64_t i = 0; i < d; i++) a->query[i] = get(&a->q, at[0], at[1], at[2], i);
    for (int64_t t = 0; t < a->total; t++) {
        double sum = 0;
        for (int64_t i = 0; i < d; i++) sum += a->query[i] * a->row[0][t * d + i];
        a->score[t] = a->scale * sum;
    }
    report(a, 0, at);
    for (int64_t t = 0; a->softcap > 0 && t < a->total; t++)
        a->score[t] = a->softcap * tanh(a->score[t] / a->softcap);
    report(a, 1, at);
    for (int64_t t = 0; t < a->total; t++) a->score[t] += bias(a, at, t);
    report(a, 2, at);
    sp_line_softmax(a->score, a->total);
    report(a, 3, at);
    for (int64_t i = 0; i < dv; i++) {
        double sum = 0;
        for (int64_t t = 0; t < a->total; t++) sum += a->score[t] * a->row[1][t * dv + i];
        set(&a->y, at, i, sum);
    }
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

/* The mask as (B, heads, S, its own length). */
static sparta_status take_mask(sparta_ctx *cx, attention *a)
{
    const sparta_tensor *m = &a->args->in[MASK];
    a->mask = (sparta_tensor){.rank = -1};
    if (!sp_op_has(a->args, MASK)) return SPARTA_OK;
    int64_t length = m->rank ? m->dim[m->rank - 1] : 0;
    if (m->rank < 1 || length > a->total)
        return sp_fail(cx, SPARTA_E_SHAPE, "Attention: a mask of %lld columns for %lld keys",
                       (long long)length, (long long)a->total);
    const int64_t full[4] = {a->q.dim[0], a->q.dim[1], a->q.dim[2], length};
    return sp_tensor_broadcast(cx, m, 4, full, &a->mask);
}

static sparta_status view_all(sparta_ctx *cx, attention *a)
{
    const sp_op_args *args = a->args;
    int64_t heads = sp_attr_int(args->attrs, "q_num_heads", 0);
    int64_t groups = sp_attr_int(args->attrs, "kv_num_heads", 0);
    SP_TRY(sp_view_heads(cx, "Attention", &args->in[Q], heads, &a->q));
    SP_TRY(sp_view_heads(cx, "Attention", &args->in[K], groups, &a->part[0]));
    SP_TRY(sp_view_heads(cx, "Attention", &args->in[V], groups, &a->part[1]));
    SP_TRY(sp_view_heads(cx, "Attention", &args->out[Y], heads, &a->y));
    for (int i = 0; i < 2; i++)
        a->past[i] = sp_op_has(args, PAST_K + i) ? args->in[PAST_K + i] : (sparta_tensor){.rank = -1};
    a->before = a->past[0].rank == 4 ? a->past[0].dim[2] : 0;
    a->total = a->before + a->part[0].dim[2];
    SP_TRY(check(cx, a));
    return take_mask(cx, a);
}

sparta_status sp_builtin_OnnxAttention(sparta_ctx *cx, const sp_op_args *args)
{
    attention a = {.args = args, .softcap = (double)sp_attr_float(args->attrs, "softcap", 0)};
    SP_TRY(view_all(cx, &a));
    const int64_t d = a.q.dim[3], each = a.q.dim[1] / a.part[0].dim[1];
    a.scale = d ? 1 / sqrt((double)d) : 1;
    if (sp_attr_find(args->attrs, "scale")) a.scale = (double)sp_attr_float(args->attrs, "scale", 1);
    a.mode = (int)sp_attr_int(args->attrs, "qk_matmul_output_mode", 0);
    a.causal = sp_attr_int(args->attrs, "is_causal", 0) != 0;
    size_t columns = (size_t)d + (size_t)a.part[1].dim[3] + 1; /* k, v and scores for each key */
    double *room = sp_alloc_array(cx, (size_t)d + (size_t)a.total * columns, sizeof *room);
    SP_NEED(cx, room);
    a.query = room;
    a.score = a.query + d;
    a.row[0] = a.score + a.total;
    a.row[1] = a.row[0] + a.total * d;
    sparta_status status = SPARTA_OK;
    const int64_t count = sp_op_empty(args) ? 0 : a.q.dim[0] * a.q.dim[1];
    for (int64_t i = 0; i < count && status == SPARTA_OK; i++) {
        const int64_t b = i / a.q.dim[1], h = i % a.q.dim[1];
        for (int k = 0; k < 2; k++) load(&a, k, b, h / each);
        for (int64_t s = 0; s < a.q.dim[2]; s++) attend(&a, (int64_t[]){b, h, s});
        status = sp_check_cancel(cx);
    }
    sp_free(cx, room);
    for (int k = 0; k < 2 && status == SPARTA_OK; k++) status = put_present(cx, &a, k);
    return status;
}
