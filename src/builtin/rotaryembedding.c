/* RotaryEmbedding: pairs of elements of each head are turned by the angle of their position,
 *
 *     y1 = cos x1 - sin x2       pair i of a head: elements i and i + half, or 2i and 2i+1 with attribute interleaved=1
 *     y2 = sin x1 + cos x2       half: half of attribute rotary_embedding_dim (0: the whole head); elements beyond it stay
 *
 * x is (B, heads, S, D), or (B, S, heads*D) with attribute num_heads. The tables of cos and sin are (positions, half), indexed
 * by position_ids (B, S), or without these (B, S, half). */
#include "builtin/heads.h"

typedef struct rotation {
    sparta_tensor x, y, cos, sin; /* x and y (B, heads, S, D) */
    const sparta_tensor *ids;     /* NULL: the tables are (B, S, half) */
    int64_t half;
    bool interleaved;
} rotation;

/* Element offsets of the row of (batch b, token s) in the tables. */
static sparta_status find_row(sparta_ctx *cx, const rotation *r, int64_t b, int64_t s, int64_t at[2])
{
    const sparta_tensor *table[] = {&r->cos, &r->sin};
    int64_t row = 0;
    if (r->ids) {
        int64_t id =
            sp_element_get_int(r->ids->dtype, r->ids->data, b * r->ids->stride[0] + s * r->ids->stride[1]);
        SP_TRY(sp_builtin_index(cx, "RotaryEmbedding", id, r->cos.dim[0], &row));
    }
    for (int i = 0; i < 2; i++)
        at[i] = r->ids ? row * table[i]->stride[0] : b * table[i]->stride[0] + s * table[i]->stride[1];
    return SPARTA_OK;
}

/* One head of one token: x and y are its D elements, with the strides of dimension 3. */
static void turn(const rotation *r, int64_t x, int64_t y, const int64_t table[2])
{
    const sparta_tensor *c = &r->cos, *s = &r->sin;
    const int64_t sx = r->x.stride[3], sy = r->y.stride[3];
    for (int64_t i = 0; i < r->half; i++) {
        int64_t first = r->interleaved ? 2 * i : i, second = r->interleaved ? 2 * i + 1 : i + r->half;
        double cos = sp_element_get(c->dtype, c->data, table[0] + i * c->stride[c->rank - 1]);
        double sin = sp_element_get(s->dtype, s->data, table[1] + i * s->stride[s->rank - 1]);
        double x1 = sp_element_get(r->x.dtype, r->x.data, x + first * sx);
        double x2 = sp_element_get(r->x.dtype, r->x.data, x + second * sx);
        sp_element_set(r->y.dtype, r->y.data, y + first * sy, cos * x1 - sin * x2);
        sp_element_set(r->y.dtype, r->y.data, y + second * sy, sin * x1 + cos * x2);
    }
    for (int64_t i = 2 * r->half; i < r->x.dim[3]; i++)
        sp_builtin_move(r->y.data, y + i * sy, r->x.data, x + i * sx, sparta_dtype_size(r->x.dtype));
}

static sparta_status check(sparta_ctx *cx, const rotation *r)
{
    const sparta_tensor *table[] = {&r->cos, &r->sin};
    bool fits = r->half >= 0 && 2 * r->half <= r->x.dim[3];
    for (int i = 0; i < 2; i++) {
        const int rank = r->ids ? 2 : 3;
        fits &= table[i]->rank == rank && table[i]->dim[rank - 1] == r->half;
        fits = fits && (r->ids ? table[i]->dim[0] == r->cos.dim[0]
                               : table[i]->dim[0] == r->x.dim[0] && table[i]->dim[1] == r->x.dim[2]);
    }
    if (fits) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_SHAPE,
                   "RotaryEmbedding: the tables of cos and sin do not fit %lld pairs of a head of %lld",
                   (long long)r->half, (long long)r->x.dim[3]);
}

sparta_status sp_builtin_RotaryEmbedding(sparta_ctx *cx, const sp_op_args *args)
{
    int64_t heads = sp_attr_int(args->attrs, "num_heads", 0), table[2];
    rotation r = {.cos = args->in[1], .sin = args->in[2], .ids = sp_op_has(args, 3) ? &args->in[3] : NULL};
    SP_TRY(sp_view_heads(cx, "RotaryEmbedding", &args->in[0], heads, &r.x));
    SP_TRY(sp_view_heads(cx, "RotaryEmbedding", &args->out[0], heads, &r.y));
    int64_t turned = sp_attr_int(args->attrs, "rotary_embedding_dim", 0);
    r.half = (turned ? turned : r.x.dim[3]) / 2;
    r.interleaved = sp_attr_int(args->attrs, "interleaved", 0) != 0;
    SP_TRY(check(cx, &r));
    if (sp_op_empty(args)) return SPARTA_OK; /* heads of 0 columns may be 2^62 */
    for (int64_t b = 0; b < r.x.dim[0]; b++)
        for (int64_t s = 0; s < r.x.dim[2]; s++) {
            SP_TRY(find_row(cx, &r, b, s, table));
            for (int64_t h = 0; h < r.x.dim[1]; h++)
                turn(&r, b * r.x.stride[0] + h * r.x.stride[1] + s * r.x.stride[2],
                     b * r.y.stride[0] + h * r.y.stride[1] + s * r.y.stride[2], table);
        }
    return SPARTA_OK;
}
