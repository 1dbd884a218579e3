/* The normal form of an attribute, in which every change and every operation ends (attribute.h says what it is).
 *
 *     constants   within `has`; zeros become absent elements; axes along which bits and values are alike collapse
 *     precision   along each axis the largest group: the gcd of the places where it changes
 */
#include "tesa/attribute_inside.h"
#include <string.h>

bool sp_tesa_empty(const sp_tesa *t)
{
    for (int i = 0; i < t->rank; i++)
        if (!t->dim[i].max) return true;
    return false;
}

static bool same_index(const void *arg, const int64_t *index, int *which, int64_t *there)
{
    (void)which;
    memcpy(there, index, (size_t) * (const int *)arg * sizeof *index);
    return true;
}

/* Only the constants in `keep`. */
static sparta_status restrict_to(sparta_ctx *cx, sp_constants *c, const sp_set *keep)
{
    int64_t extent[SP_TESA_RANK];
    if (!sp_extents_join(keep->rank, c->where.extent, keep->extent, extent))
        return sp_fail(cx, SPARTA_E_SHAPE, "tesa: constants and elements have different sizes");
    sp_span wide;
    sp_mask mask;
    sp_constants next;
    SP_TRY(sp_span_widen(cx, &c->where, extent, &wide));
    sparta_status status = sp_set_mask(cx, keep, extent, &mask);
    if (!status) status = sp_mask_and(cx, &wide.mask, &mask);
    if (!status) {
        sp_mask_free(cx, &mask);
        status = sp_constants_gather(cx, c, 1, &wide, same_index, &c->where.rank, &next);
    } else {
        sp_mask_free(cx, &wide.mask);
    }
    if (status) return status;
    sp_constants_free(cx, c);
    *c = next;
    return SPARTA_OK;
}

/* The constants that are 0, and whether there are any. */
static sparta_status find_zeros(sparta_ctx *cx, const sp_constants *c, sp_set *zeros, bool *any)
{
    size_t size = sparta_dtype_size(c->value.dtype);
    static const char zero[8];
    sp_mask m;
    int64_t place = 0;
    *any = false;
    SP_TRY(sp_mask_create(cx, c->where.mask.rows, c->where.mask.cols, &m));
    for (int64_t r = 0; m.words && r < m.rows; r++)
        for (int64_t k = sp_bits_next(sp_mask_row(&c->where.mask, r), 0, m.cols); k < m.cols;
             k = sp_bits_next(sp_mask_row(&c->where.mask, r), k + 1, m.cols))
            if (!memcmp((const char *)c->value.data + (size_t)place++ * size, zero, size)) {
                sp_mask_set(&m, r, k);
                *any = true;
            }
    return sp_set_take(cx, c->where.rank, c->where.extent, &m, zeros);
}

static sparta_status drop_zeros(sparta_ctx *cx, sp_tesa *t, sp_constants *c)
{
    sp_set zeros, left;
    bool any;
    SP_TRY(find_zeros(cx, c, &zeros, &any));
    sparta_status status = any ? sp_set_combine(cx, SP_SET_ANDNOT, &t->set, &zeros, &left) : SPARTA_OK;
    sp_set_free(cx, &zeros);
    if (status || !any) return status;
    sp_set_free(cx, &t->set);
    t->set = left;
    return restrict_to(cx, c, &t->set);
}

/* Are the values alike along an axis along which the bits are? */
static bool values_alike(const sp_constants *c, const int64_t *before, int axis)
{
    size_t size = sparta_dtype_size(c->value.dtype);
    const char *data = c->value.data;
    const sp_mask *m = &c->where.mask;
    int64_t place = 0, index[SP_TESA_RANK];
    for (int64_t r = 0; m->words && r < m->rows; r++)
        for (int64_t k = sp_bits_next(sp_mask_row(m, r), 0, m->cols); k < m->cols;
             k = sp_bits_next(sp_mask_row(m, r), k + 1, m->cols), place++) {
            sp_span_index(&c->where, r, k, index);
            index[axis] = 0;
            int64_t first = sp_constants_place(&c->where, before, index);
            if (memcmp(data + (size_t)place * size, data + (size_t)first * size, size)) return false;
        }
    return true;
}

static sparta_status collapse(sparta_ctx *cx, sp_constants *c)
{
    for (int i = 0; i < c->where.rank; i++) {
        if (c->where.extent[i] == 1 || !sp_span_alike(&c->where, i)) continue;
        int64_t *before;
        sp_span part;
        sp_constants next;
        SP_TRY(sp_constants_rank(cx, &c->where, &before));
        bool alike = values_alike(c, before, i);
        sp_free(cx, before);
        if (!alike) continue;
        SP_TRY(sp_span_slice(cx, &c->where, i, 0, 1, &part));
        SP_TRY(sp_constants_gather(cx, c, 1, &part, same_index, &c->where.rank, &next));
        sp_constants_free(cx, c);
        *c = next;
    }
    return SPARTA_OK;
}

/* The largest group along an axis: the gcd of the places where the precision changes, 0 when it does not. */
static int64_t largest_group(const sp_tesa *t, int axis)
{
    int64_t inner = 1, outer = 1, size = sp_groups_of(&t->dim[axis], t->group[axis]), g = 0;
    for (int i = 0; i < axis; i++) outer *= sp_groups_of(&t->dim[i], t->group[i]);
    for (int i = axis + 1; i < t->rank; i++) inner *= sp_groups_of(&t->dim[i], t->group[i]);
    for (int64_t o = 0; o < outer && g != 1; o++)
        for (int64_t k = 1; k < size && g != 1; k++)
            if (memcmp(t->precision + (o * size + k) * inner, t->precision + (o * size + k - 1) * inner,
                       (size_t)inner))
                g = sp_gcd(k, g);
    return g * t->group[axis];
}

static sparta_status settle_precision(sparta_ctx *cx, sp_tesa *t)
{
    int64_t group[SP_TESA_RANK];
    sp_tesa old = *t;
    for (int i = 0; i < t->rank; i++) group[i] = largest_group(t, i);
    if (!memcmp(group, t->group, (size_t)t->rank * sizeof *group)) return SPARTA_OK;
    SP_TRY(sp_precision_build(cx, t, group, sp_precision_same, &old));
    sp_free(cx, old.precision);
    return SPARTA_OK;
}

static sparta_status settle_has(sparta_ctx *cx, sp_tesa *t, sp_constants *c)
{
    if (sp_tesa_empty(t)) {
        sp_set_free(cx, &t->set);
        sp_constants_free(cx, c);
        t->has = SP_HAS_SET;
        SP_TRY(sp_set_all(cx, t->rank, true, &t->set));
    }
    if (t->has != SP_HAS_OF_ROW && t->has != SP_HAS_BLOCKS) t->most = 0;
    if (t->has != SP_HAS_BLOCKS) t->block[0] = t->block[1] = 0;
    if (t->has == SP_HAS_SET) SP_TRY(sp_tesa_check_extent(cx, t, t->set.extent, "which elements exist"));
    if (!c->where.rank) return SPARTA_OK;
    SP_TRY(sp_tesa_check_extent(cx, t, c->where.extent, "which elements are constant"));
    if (t->has == SP_HAS_SET) SP_TRY(restrict_to(cx, c, &t->set));
    if (t->has == SP_HAS_SET) SP_TRY(drop_zeros(cx, t, c));
    return collapse(cx, c);
}

sparta_status sp_tesa_settle(sparta_ctx *cx, sp_tesa *t, sp_constants *c, sp_tesa *out)
{
    for (int i = 0; i < t->rank; i++) /* a symbol that can be one size only is that size */
        if (t->dim[i].min == t->dim[i].max) t->dim[i] = sp_tesa_size(t->dim[i].min);
    sparta_status status = settle_has(cx, t, c);
    if (!status) status = settle_precision(cx, t);
    t->where = c->where.mask, t->value = c->value, t->constants = c->where.rank ? c->value.dim[0] : 0;
    memcpy(t->extent, c->where.extent, sizeof t->extent);
    if (!t->constants) {
        sp_constants_free(cx, c);
        t->where = (sp_mask){0}, t->value = (sparta_tensor){0};
        memset(t->extent, 0, sizeof t->extent);
    }
    *c = (sp_constants){0};
    if (status)
        sp_tesa_free(cx, t);
    else
        *out = *t;
    return status;
}
