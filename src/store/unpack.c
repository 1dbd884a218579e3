/* Unpack: storage into a dense tensor of any strides. Everything is checked before the first element is written. */
#include "store/store_inside.h"
#include <string.h>

typedef struct {
    const sparta_tensor *out;
    bool add; /* an element may come more than once */
} target;

static sparta_status put(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
{
    const target *t = arg;
    const sparta_tensor *out = t->out;
    size_t size = sparta_dtype_size(out->dtype);
    int64_t at = 0;
    for (int d = 0; d < out->rank; d++) at += index[d] * out->stride[d];
    char *slot = (char *)out->data + at * (int64_t)size;
    if (part->pattern)
        *slot = 1;
    else if (t->add && sp_element_stored(out->dtype, out->data, at))
        sp_element_add(out->dtype, out->data, at, part->values.data, position);
    else
        memcpy(slot, (const char *)part->values.data + position * (int64_t)size, size);
    return SPARTA_OK;
}

/* Are there slots that nobody asked for, which must be 0? */
static bool padded(const sp_packed *p)
{
    if (p->format.opaque) return true;
    for (int l = 0; l < p->format.n; l++) {
        const sp_level *level = &p->format.level[l];
        if (level->map == SP_MAP_DIV && p->dim[level->dim] % level->c) return true;
        if (level->kind == SP_LEVEL_RANGE || sp_level_table[level->kind].ops->padding) return true;
    }
    return false;
}

/* Opaque storage may have a column twice. */
static bool repeats(const sp_packed *p)
{
    if (p->format.sum || p->format.opaque) return true;
    for (int l = 0; l < p->format.n; l++)
        if (p->format.level[l].properties & (SP_PROP_NONUNIQUE | SP_PROP_NONORDERED)) return true;
    return false;
}

static bool same_shape(const sp_packed *p, const sparta_tensor *out)
{
    bool same = out->rank == p->rank;
    for (int d = 0; same && d < p->rank; d++) same = out->dim[d] == p->dim[d];
    return same;
}

/* What is wrong with the storage says more than what is wrong with the target. */
static sparta_status target_check(sparta_ctx *cx, const sp_packed *p, const sparta_tensor *out)
{
    bool type = out->dtype == p->dtype, shape = same_shape(p, out);
    if (type && shape) return SPARTA_OK;
    SP_TRY(sp_packed_verify(cx, p));
    if (!shape)
        return sp_fail(cx, SPARTA_E_SHAPE, "unpack: the target's shape is not that of the packed tensor");
    return sp_fail(cx, SPARTA_E_DTYPE, "unpack: into %s, the values are %s", sparta_dtype_name(out->dtype),
                   sparta_dtype_name(p->dtype));
}

static sparta_status unpack_generic(sparta_ctx *cx, const sp_packed *p, const sparta_tensor *out)
{
    target t = {out, repeats(p)};
    sp_walker w;
    int n = sp_packed_leaves(p);
    for (int i = 0; i < n; i++) {
        SP_TRY(sp_walker_open(cx, sp_packed_leaf(p, i), &w));
        if (padded(w.p)) SP_TRY(sp_walker_run(&w, NULL, NULL));
    }
    if (sparta_tensor_elements(out) < 1) return SPARTA_OK;
    sp_tensor_clear(out);
    for (int i = 0; i < n; i++) {
        if (n > 1) SP_TRY(sp_walker_open(cx, sp_packed_leaf(p, i), &w));
        SP_TRY(sp_walker_run(&w, put, &t));
    }
    return SPARTA_OK;
}

sparta_status sp_store_unpack(sparta_ctx *cx, const sp_packed *p, const sparta_tensor *out)
{
    bool done = false;
    SP_TRY(sp_packed_head_check(cx, p));
    SP_TRY(target_check(cx, p, out));
    SP_TRY(sp_unpack_fast(cx, p, out, NULL, &done));
    return done ? SPARTA_OK : unpack_generic(cx, p, out);
}
