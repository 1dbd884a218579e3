/* The attribute: made, changed, compared. */
#include "tesa/attribute_inside.h"
#include <ctype.h>
#include <string.h>

/* ------------------------------------------------------------------ checks */

static bool is_name(const char *s)
{
    if (!memchr(s, 0, sizeof((sp_tesa_dim *)0)->name)) return false;
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

sparta_status sp_tesa_check_dims(sparta_ctx *cx, int rank, const sp_tesa_dim *dim)
{
    if (rank < 1 || rank > SP_TESA_RANK)
        return sp_fail(cx, SPARTA_E_SHAPE, "tesa: %d dimensions; 1 to %d are possible", rank, SP_TESA_RANK);
    for (int i = 0; i < rank; i++) {
        bool symbol = dim[i].name[0];
        if (dim[i].min < 0 || dim[i].max < dim[i].min || (!symbol && dim[i].max != dim[i].min))
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "tesa: dimension %d is %lld..%lld; give a size, or a symbol and bounds from 0 on",
                           i, (long long)dim[i].min, (long long)dim[i].max);
        if (symbol && !is_name(dim[i].name))
            return sp_fail(
                cx, SPARTA_E_USAGE,
                "tesa: the symbol of dimension %d; a name has up to 31 letters, digits and _, a digit "
                "not first",
                i);
    }
    return SPARTA_OK;
}

sparta_status sp_tesa_check_extent(sparta_ctx *cx, const sp_tesa *t, const int64_t *extent, const char *what)
{
    for (int i = 0; i < t->rank; i++)
        if (extent[i] != 1 && (t->dim[i].name[0] || extent[i] != t->dim[i].max))
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "tesa: %s differs over %lld elements of axis %d, which has %lld%s", what,
                           (long long)extent[i], i, (long long)t->dim[i].max,
                           t->dim[i].name[0] ? " at most; along a symbol it must be alike" : "");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ made and freed */

static sp_precision one_precision(const void *arg, const int64_t *index)
{
    (void)index;
    return *(const sp_precision *)arg;
}

/* Takes the set over. */
static sparta_status create(sparta_ctx *cx, int rank, const sp_tesa_dim *dim, sp_precision p, sp_set *set,
                            sp_tesa *out)
{
    static const int64_t whole[SP_TESA_RANK];
    sp_tesa t = {.rank = rank, .set = *set};
    sp_constants none = {0};
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    sparta_status status = sp_precision_build(cx, &t, whole, one_precision, &p);
    if (!status) return sp_tesa_settle(cx, &t, &none, out);
    sp_set_free(cx, set);
    return status;
}

sparta_status sp_tesa_create(sparta_ctx *cx, int rank, const sp_tesa_dim *dim, sp_precision p, sp_tesa *out)
{
    sp_set all;
    SP_TRY(sp_tesa_check_dims(cx, rank, dim));
    if (p < 0 || p >= SP_PRECISIONS)
        return sp_fail(cx, SPARTA_E_USAGE, "tesa: %d is no precision; see precisions.def", (int)p);
    SP_TRY(sp_set_all(cx, rank, true, &all));
    return create(cx, rank, dim, p, &all, out);
}

sparta_status sp_tesa_of_mask(sparta_ctx *cx, const sp_mask *m, sp_precision p, sp_tesa *out)
{
    sp_tesa_dim dim[2] = {sp_tesa_size(m->rows), sp_tesa_size(m->cols)};
    sp_set set;
    if (p < 0 || p >= SP_PRECISIONS)
        return sp_fail(cx, SPARTA_E_USAGE, "tesa: %d is no precision; see precisions.def", (int)p);
    SP_TRY(sp_set_of_mask(cx, 2, (int64_t[]){m->rows, m->cols}, m, &set));
    return create(cx, 2, dim, p, &set, out);
}

sparta_status sp_tesa_of_tensor(sparta_ctx *cx, const sparta_tensor *w, sp_tesa *out)
{
    sp_tesa_dim dim[SP_TESA_RANK];
    sp_mask m;
    sp_set set;
    for (int i = 0; i < w->rank && i < SP_TESA_RANK; i++) dim[i] = sp_tesa_size(w->dim[i]);
    SP_TRY(sp_tesa_check_dims(cx, w->rank, dim));
    if (w->rank != 2 && !sp_tensor_contiguous(w))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "tesa: %d dimensions with gaps; make the tensor row-major",
                       w->rank);
    int64_t all = sparta_tensor_elements(w), rows = w->rank > 1 ? w->dim[0] : 1;
    if (all < 0) return sp_fail(cx, SPARTA_E_SHAPE, "tesa: too many elements");
    sparta_tensor flat = sparta_tensor_view(w->dtype, 2, (int64_t[]){rows, rows ? all / rows : 0}, w->data);
    SP_TRY(sp_mask_of(cx, w->rank == 2 ? w : &flat, &m));
    if (!all) { /* columns of nothing */
        sp_mask_free(cx, &m);
        return sp_tesa_create(cx, w->rank, dim, sp_precision_of(w->dtype), out);
    }
    SP_TRY(sp_set_take(cx, w->rank, w->dim, &m, &set));
    return create(cx, w->rank, dim, sp_precision_of(w->dtype), &set, out);
}

static sparta_status copy_constants(sparta_ctx *cx, const sp_tesa *t, sp_constants *out)
{
    sp_constants c = sp_constants_of(t);
    *out = (sp_constants){0};
    if (!t->constants) return SPARTA_OK;
    sp_mask where;
    sparta_tensor value;
    SP_TRY(sp_mask_copy(cx, &t->where, &where));
    sparta_status status = sp_tensor_alloc(cx, t->value.dtype, 1, &t->constants, &value);
    if (status) {
        sp_mask_free(cx, &where);
        return status;
    }
    memcpy(value.data, t->value.data, (size_t)t->constants * sparta_dtype_size(value.dtype));
    *out = (sp_constants){c.where, value};
    out->where.mask = where;
    return SPARTA_OK;
}

/* A copy without its constants, which come separately: what a change starts from. */
static sparta_status copy_parts(sparta_ctx *cx, const sp_tesa *t, sp_tesa *out, sp_constants *c)
{
    sp_tesa n = *t;
    n.set = (sp_set){0}, n.where = (sp_mask){0}, n.value = (sparta_tensor){0};
    n.constants = 0, n.precision = NULL;
    *c = (sp_constants){0};
    sparta_status status = t->has == SP_HAS_SET ? sp_set_copy(cx, &t->set, &n.set) : SPARTA_OK;
    if (!status) status = sp_precision_build(cx, &n, t->group, sp_precision_same, t);
    if (!status) status = copy_constants(cx, t, c);
    if (status)
        sp_tesa_free(cx, &n);
    else
        *out = n;
    return status;
}

sparta_status sp_tesa_copy(sparta_ctx *cx, const sp_tesa *t, sp_tesa *out)
{
    sp_tesa n;
    sp_constants c;
    SP_TRY(copy_parts(cx, t, &n, &c));
    return sp_tesa_settle(cx, &n, &c, out);
}

void sp_tesa_free(sparta_ctx *cx, sp_tesa *t)
{
    if (!t) return;
    sp_set_free(cx, &t->set);
    sp_mask_free(cx, &t->where);
    sp_free(cx, t->value.data);
    sp_free(cx, t->precision);
    *t = (sp_tesa){0};
}

/* ------------------------------------------------------------------ one fact replaced */

/* The changed copy, settled, takes the place of the attribute. */
static sparta_status replace(sparta_ctx *cx, sp_tesa *t, sp_tesa *changed, sp_constants *c)
{
    sp_tesa settled;
    SP_TRY(sp_tesa_settle(cx, changed, c, &settled));
    sp_tesa_free(cx, t);
    *t = settled;
    return SPARTA_OK;
}

sparta_status sp_tesa_set_has(sparta_ctx *cx, sp_tesa *t, const sp_set *has)
{
    sp_tesa n;
    sp_constants c;
    sp_set set;
    if (has->rank != t->rank)
        return sp_fail(cx, SPARTA_E_SHAPE, "tesa: a set of %d axes for %d dimensions", has->rank, t->rank);
    SP_TRY(sp_tesa_check_extent(cx, t, has->extent, "the set"));
    SP_TRY(sp_set_copy(cx, has, &set));
    sparta_status status = copy_parts(cx, t, &n, &c);
    if (status) {
        sp_set_free(cx, &set);
        return status;
    }
    sp_set_free(cx, &n.set);
    n.has = SP_HAS_SET, n.set = set;
    return replace(cx, t, &n, &c);
}

sparta_status sp_tesa_set_bound(sparta_ctx *cx, sp_tesa *t, sp_has kind, int64_t most, const int64_t block[2])
{
    bool blocks = kind == SP_HAS_BLOCKS;
    if ((kind != SP_HAS_OF_ROW && !blocks && kind != SP_HAS_UNKNOWN) || most < 0 ||
        (blocks && (t->rank < 2 || !block || block[0] < 1 || block[1] < 1)))
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "tesa: this is no bound; give a count from 0 on, and for blocks two sizes and dimensions");
    sp_tesa n;
    sp_constants c;
    SP_TRY(copy_parts(cx, t, &n, &c));
    sp_set_free(cx, &n.set);
    n.has = kind, n.most = most, n.block[0] = blocks ? block[0] : 0, n.block[1] = blocks ? block[1] : 0;
    return replace(cx, t, &n, &c);
}

/* Values of the elements of a set, straight from a tensor whose axes of size 1 repeat. */
static sparta_status constants_from(sparta_ctx *cx, const sp_set *where, const sparta_tensor *value,
                                    sp_constants *out)
{
    sp_constants c = {.where = {.rank = where->rank}};
    size_t size = sparta_dtype_size(value->dtype);
    int64_t index[SP_TESA_RANK], place = 0;
    if (!sp_extents_join(where->rank, where->extent, value->dim, c.where.extent))
        return sp_fail(cx, SPARTA_E_SHAPE, "tesa: values of constants have other sizes than the elements");
    SP_TRY(sp_set_mask(cx, where, c.where.extent, &c.where.mask));
    int64_t n = sp_mask_count(&c.where.mask);
    sparta_status status = sp_tensor_alloc(cx, value->dtype, 1, &n, &c.value);
    if (status) {
        sp_mask_free(cx, &c.where.mask);
        return status;
    }
    for (int64_t r = 0, cols = c.where.mask.cols; n && r < c.where.mask.rows; r++)
        for (int64_t k = sp_bits_next(sp_mask_row(&c.where.mask, r), 0, cols); k < cols;
             k = sp_bits_next(sp_mask_row(&c.where.mask, r), k + 1, cols)) {
            int64_t at = 0;
            sp_span_index(&c.where, r, k, index);
            for (int i = 0; i < where->rank; i++) at += value->dim[i] == 1 ? 0 : index[i] * value->stride[i];
            memcpy((char *)c.value.data + (size_t)place++ * size,
                   (const char *)value->data + at * (int64_t)size, size);
        }
    *out = c;
    return SPARTA_OK;
}

sparta_status sp_tesa_set_constants(sparta_ctx *cx, sp_tesa *t, const sp_set *where,
                                    const sparta_tensor *value)
{
    sp_tesa n;
    sp_constants c, fresh = {0};
    if (value) {
        if (where->rank != t->rank || value->rank != t->rank)
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "tesa: constants of %d axes and values of %d for %d dimensions", where->rank,
                           value->rank, t->rank);
        SP_TRY(sp_tesa_check_extent(cx, t, where->extent, "the set of constants"));
        SP_TRY(sp_tesa_check_extent(cx, t, value->dim, "the tensor of values"));
        if (!sp_tesa_empty(t)) SP_TRY(constants_from(cx, where, value, &fresh));
    }
    sparta_status status = copy_parts(cx, t, &n, &c);
    if (status) {
        sp_constants_free(cx, &fresh);
        return status;
    }
    sp_constants_free(cx, &c);
    return replace(cx, t, &n, &fresh);
}

sparta_status sp_tesa_set_precision(sparta_ctx *cx, sp_tesa *t, const int64_t *group,
                                    const sp_precision *precision)
{
    int64_t count;
    for (int i = 0; i < t->rank; i++)
        if (group[i] < 0 || (group[i] && t->dim[i].name[0]))
            return sp_fail(cx, SPARTA_E_USAGE, "tesa: groups of %lld along axis %d; give 0 (all along it)%s",
                           (long long)group[i], i, t->dim[i].name[0] ? ", it is a symbol" : " or a size");
    if (!sp_groups_count(t->rank, t->dim, group, &count))
        return sp_fail(cx, SPARTA_E_SHAPE, "precision: too many groups");
    for (int64_t i = 0; i < count; i++)
        if (precision[i] < 0 || precision[i] >= SP_PRECISIONS)
            return sp_fail(cx, SPARTA_E_USAGE, "tesa: %d is no precision; see precisions.def",
                           (int)precision[i]);
    if (!count) return SPARTA_OK; /* no elements */
    uint8_t *map = sp_alloc(cx, (size_t)count);
    SP_NEED(cx, map);
    sp_tesa n;
    sp_constants c;
    sparta_status status = copy_parts(cx, t, &n, &c);
    if (status) {
        sp_free(cx, map);
        return status;
    }
    for (int64_t i = 0; i < count; i++) map[i] = (uint8_t)precision[i];
    sp_free(cx, n.precision);
    n.precision = map;
    memcpy(n.group, group, (size_t)t->rank * sizeof *group);
    return replace(cx, t, &n, &c);
}

/* ------------------------------------------------------------------ facts */

bool sp_tesa_present(const sp_tesa *t, const int64_t *index)
{
    return t->has != SP_HAS_SET || sp_set_get(&t->set, index);
}

bool sp_tesa_known(const sp_tesa *t, const int64_t *index, double *value, int64_t *place)
{
    *value = 0, *place = -1;
    if (!sp_tesa_present(t, index)) return true;
    sp_constants c = sp_constants_of(t);
    if (!t->constants) return false;
    int64_t row, col, at = 0;
    sp_span_place(&c.where, index, &row, &col);
    if (!sp_mask_get(&c.where.mask, row, col)) return false;
    int64_t word = row * t->where.words + col / WORD;
    for (int64_t i = 0; i < word; i++) at += (int64_t)sp_ones(t->where.bits[i]);
    *place = at + (int64_t)sp_ones(t->where.bits[word] & sp_low(col % WORD));
    *value = sp_element_get(t->value.dtype, t->value.data, *place);
    return true;
}

static bool same_dims(const sp_tesa *a, const sp_tesa *b)
{
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i].min != b->dim[i].min || a->dim[i].max != b->dim[i].max ||
            strcmp(a->dim[i].name, b->dim[i].name))
            return false;
    return true;
}

static bool same_constants(const sp_tesa *a, const sp_tesa *b)
{
    if (a->constants != b->constants) return false;
    return !a->constants ||
           (a->value.dtype == b->value.dtype &&
            !memcmp(a->extent, b->extent, (size_t)a->rank * sizeof a->extent[0]) &&
            sp_mask_equal(&a->where, &b->where) &&
            !memcmp(a->value.data, b->value.data, (size_t)a->constants * sparta_dtype_size(a->value.dtype)));
}

bool sp_tesa_equal(const sp_tesa *a, const sp_tesa *b)
{
    int64_t groups = 1;
    if (a->rank != b->rank || !same_dims(a, b) || a->has != b->has || a->most != b->most ||
        memcmp(a->block, b->block, sizeof a->block) ||
        memcmp(a->group, b->group, (size_t)a->rank * sizeof a->group[0]))
        return false;
    if (a->has == SP_HAS_SET && !sp_set_equal(&a->set, &b->set)) return false;
    sp_groups_count(a->rank, a->dim, a->group, &groups);
    return !memcmp(a->precision, b->precision, (size_t)SP_MAX(groups, 1)) && same_constants(a, b);
}

uint64_t sp_tesa_digest(const sp_tesa *t)
{
    int64_t groups = 1, head[] = {t->rank, t->has, t->most, t->block[0], t->block[1], t->constants};
    uint64_t h = sp_hash(head, sizeof head, 0);
    for (int i = 0; i < t->rank; i++) {
        h = sp_hash((int64_t[3]){t->dim[i].min, t->dim[i].max, t->group[i]}, 3 * sizeof(int64_t), h);
        h = sp_hash(t->dim[i].name, strlen(t->dim[i].name), h);
    }
    if (t->has == SP_HAS_SET) h = sp_hash((uint64_t[1]){sp_set_digest(&t->set)}, sizeof h, h);
    sp_groups_count(t->rank, t->dim, t->group, &groups);
    h = sp_hash(t->precision, (size_t)SP_MAX(groups, 1), h);
    if (!t->constants) return h;
    h = sp_hash((uint64_t[2]){sp_mask_digest(&t->where), t->value.dtype}, 2 * sizeof h, h);
    h = sp_hash(t->extent, (size_t)t->rank * sizeof t->extent[0], h);
    return sp_hash(t->value.data, (size_t)t->constants * sparta_dtype_size(t->value.dtype), h);
}
