/* The attribute: made, changed, compared. */
#include "tesa/attribute_inside.h"
#include <ctype.h>
#include <string.h>

/* ------------------------------------------------------------------ checks */

static bool is_name(const char *s)
{
    if (!memchr(s, 0, sizeof((sparta_tesa_dim *)0)->name)) return false;
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_') return false;
    return true;
}

sparta_status sparta_tesa_check_dims(sparta_ctx *cx, int rank, const sparta_tesa_dim *dim)
{
    if (rank < 1 || rank > SPARTA_TESA_RANK)
        return sparta_fail(cx, SPARTA_E_SHAPE, "tesa: %d dimensions; 1 to %d are possible", rank,
                           SPARTA_TESA_RANK);
    for (int i = 0; i < rank; i++) {
        bool symbol = dim[i].name[0];
        if (dim[i].min < 0 || dim[i].max < dim[i].min || (!symbol && dim[i].max != dim[i].min))
            return sparta_fail(
                cx, SPARTA_E_SHAPE,
                "tesa: dimension %d is %lld..%lld; give a size, or a symbol and bounds from 0 on", i,
                (long long)dim[i].min, (long long)dim[i].max);
        if (symbol && !is_name(dim[i].name))
            return sparta_fail(
                cx, SPARTA_E_USAGE,
                "tesa: the symbol of dimension %d; a name has up to 31 letters, digits and _, a digit "
                "not first",
                i);
    }
    return SPARTA_OK;
}

sparta_status sparta_tesa_check_extent(sparta_ctx *cx, const sparta_tesa *t, const int64_t *extent,
                                       const char *what)
{
    for (int i = 0; i < t->rank; i++)
        if (extent[i] != 1 && (t->dim[i].name[0] || extent[i] != t->dim[i].max))
            return sparta_fail(cx, SPARTA_E_SHAPE,
                               "tesa: %s differs over %lld elements of axis %d, which has %lld%s", what,
                               (long long)extent[i], i, (long long)t->dim[i].max,
                               t->dim[i].name[0] ? " at most; along a symbol it must be alike" : "");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ made and freed */

static sparta_precision one_precision(const void *arg, const int64_t *index)
{
    (void)index;
    return *(const sparta_precision *)arg;
}

/* Takes the set over. */
static sparta_status create(sparta_ctx *cx, int rank, const sparta_tesa_dim *dim, sparta_precision p,
                            sparta_set *set, sparta_tesa *out)
{
    static const int64_t whole[SPARTA_TESA_RANK];
    sparta_tesa t = {.rank = rank, .set = *set};
    sparta_constants none = {0};
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    sparta_status status = sparta_precision_build(cx, &t, whole, one_precision, &p);
    if (!status) return sparta_tesa_settle(cx, &t, &none, out);
    sparta_set_free(cx, set);
    return status;
}

sparta_status sparta_tesa_create(sparta_ctx *cx, int rank, const sparta_tesa_dim *dim, sparta_precision p,
                                 sparta_tesa *out)
{
    sparta_set all;
    SPARTA_TRY(sparta_tesa_check_dims(cx, rank, dim));
    if (p < 0 || p >= SPARTA_PRECISIONS)
        return sparta_fail(cx, SPARTA_E_USAGE, "tesa: %d is no precision; see precisions.def", (int)p);
    SPARTA_TRY(sparta_set_all(cx, rank, true, &all));
    return create(cx, rank, dim, p, &all, out);
}

sparta_status sparta_tesa_of_mask(sparta_ctx *cx, const sparta_mask *m, sparta_precision p, sparta_tesa *out)
{
    sparta_tesa_dim dim[2] = {sparta_tesa_size(m->rows), sparta_tesa_size(m->cols)};
    sparta_set set;
    if (p < 0 || p >= SPARTA_PRECISIONS)
        return sparta_fail(cx, SPARTA_E_USAGE, "tesa: %d is no precision; see precisions.def", (int)p);
    SPARTA_TRY(sparta_set_of_mask(cx, 2, (int64_t[]){m->rows, m->cols}, m, &set));
    return create(cx, 2, dim, p, &set, out);
}

sparta_status sparta_tesa_of_tensor(sparta_ctx *cx, const sparta_tensor *w, sparta_tesa *out)
{
    sparta_tesa_dim dim[SPARTA_TESA_RANK];
    sparta_mask m;
    sparta_set set;
    for (int i = 0; i < w->rank && i < SPARTA_TESA_RANK; i++) dim[i] = sparta_tesa_size(w->dim[i]);
    SPARTA_TRY(sparta_tesa_check_dims(cx, w->rank, dim));
    if (w->rank != 2 && !sparta_tensor_contiguous(w))
        return sparta_fail(cx, SPARTA_E_UNSUPPORTED,
                           "tesa: %d dimensions with gaps; make the tensor row-major", w->rank);
    int64_t all = sparta_tensor_elements(w), rows = w->rank > 1 ? w->dim[0] : 1;
    if (all < 0) return sparta_fail(cx, SPARTA_E_SHAPE, "tesa: too many elements");
    sparta_tensor flat = sparta_tensor_view(w->dtype, 2, (int64_t[]){rows, rows ? all / rows : 0}, w->data);
    SPARTA_TRY(sparta_mask_of(cx, w->rank == 2 ? w : &flat, &m));
    if (!all) { /* columns of nothing */
        sparta_mask_free(cx, &m);
        return sparta_tesa_create(cx, w->rank, dim, sparta_precision_of(w->dtype), out);
    }
    SPARTA_TRY(sparta_set_take(cx, w->rank, w->dim, &m, &set));
    return create(cx, w->rank, dim, sparta_precision_of(w->dtype), &set, out);
}

static sparta_status copy_constants(sparta_ctx *cx, const sparta_tesa *t, sparta_constants *out)
{
    sparta_constants c = sparta_constants_of(t);
    *out = (sparta_constants){0};
    if (!t->constants) return SPARTA_OK;
    sparta_mask where;
    sparta_tensor value;
    SPARTA_TRY(sparta_mask_copy(cx, &t->where, &where));
    sparta_status status = sparta_tensor_alloc(cx, t->value.dtype, 1, &t->constants, &value);
    if (status) {
        sparta_mask_free(cx, &where);
        return status;
    }
    memcpy(value.data, t->value.data, (size_t)t->constants * sparta_dtype_size(value.dtype));
    *out = (sparta_constants){c.where, value};
    out->where.mask = where;
    return SPARTA_OK;
}

/* A copy without its constants, which come separately: what a change starts from. */
static sparta_status copy_parts(sparta_ctx *cx, const sparta_tesa *t, sparta_tesa *out, sparta_constants *c)
{
    sparta_tesa n = *t;
    n.set = (sparta_set){0}, n.where = (sparta_mask){0}, n.value = (sparta_tensor){0};
    n.constants = 0, n.precision = NULL;
    *c = (sparta_constants){0};
    sparta_status status = t->has == SPARTA_HAS_SET ? sparta_set_copy(cx, &t->set, &n.set) : SPARTA_OK;
    if (!status) status = sparta_precision_build(cx, &n, t->group, sparta_precision_same, t);
    if (!status) status = copy_constants(cx, t, c);
    if (status)
        sparta_tesa_free(cx, &n);
    else
        *out = n;
    return status;
}

sparta_status sparta_tesa_copy(sparta_ctx *cx, const sparta_tesa *t, sparta_tesa *out)
{
    sparta_tesa n;
    sparta_constants c;
    SPARTA_TRY(copy_parts(cx, t, &n, &c));
    return sparta_tesa_settle(cx, &n, &c, out);
}

void sparta_tesa_free(sparta_ctx *cx, sparta_tesa *t)
{
    if (!t) return;
    sparta_set_free(cx, &t->set);
    sparta_mask_free(cx, &t->where);
    sparta_free(cx, t->value.data);
    sparta_free(cx, t->precision);
    *t = (sparta_tesa){0};
}

/* ------------------------------------------------------------------ one fact replaced */

/* The changed copy, settled, takes the place of the attribute. */
static sparta_status replace(sparta_ctx *cx, sparta_tesa *t, sparta_tesa *changed, sparta_constants *c)
{
    sparta_tesa settled;
    SPARTA_TRY(sparta_tesa_settle(cx, changed, c, &settled));
    sparta_tesa_free(cx, t);
    *t = settled;
    return SPARTA_OK;
}

sparta_status sparta_tesa_set_has(sparta_ctx *cx, sparta_tesa *t, const sparta_set *has)
{
    sparta_tesa n;
    sparta_constants c;
    sparta_set set;
    if (has->rank != t->rank)
        return sparta_fail(cx, SPARTA_E_SHAPE, "tesa: a set of %d axes for %d dimensions", has->rank,
                           t->rank);
    SPARTA_TRY(sparta_tesa_check_extent(cx, t, has->extent, "the set"));
    SPARTA_TRY(sparta_set_copy(cx, has, &set));
    sparta_status status = copy_parts(cx, t, &n, &c);
    if (status) {
        sparta_set_free(cx, &set);
        return status;
    }
    sparta_set_free(cx, &n.set);
    n.has = SPARTA_HAS_SET, n.set = set;
    return replace(cx, t, &n, &c);
}

sparta_status sparta_tesa_set_bound(sparta_ctx *cx, sparta_tesa *t, sparta_has kind, int64_t most,
                                    const int64_t block[2])
{
    bool blocks = kind == SPARTA_HAS_BLOCKS;
    if ((kind != SPARTA_HAS_OF_ROW && !blocks && kind != SPARTA_HAS_UNKNOWN) || most < 0 ||
        (blocks && (t->rank < 2 || !block || block[0] < 1 || block[1] < 1)))
        return sparta_fail(
            cx, SPARTA_E_USAGE,
            "tesa: this is no bound; give a count from 0 on, and for blocks two sizes and dimensions");
    sparta_tesa n;
    sparta_constants c;
    SPARTA_TRY(copy_parts(cx, t, &n, &c));
    sparta_set_free(cx, &n.set);
    n.has = kind, n.most = most, n.block[0] = blocks ? block[0] : 0, n.block[1] = blocks ? block[1] : 0;
    return replace(cx, t, &n, &c);
}

/* Values of the elements of a set, straight from a tensor whose axes of size 1 repeat. */
static sparta_status constants_from(sparta_ctx *cx, const sparta_set *where, const sparta_tensor *value,
                                    sparta_constants *out)
{
    sparta_constants c = {.where = {.rank = where->rank}};
    size_t size = sparta_dtype_size(value->dtype);
    int64_t index[SPARTA_TESA_RANK], place = 0;
    if (!sparta_extents_join(where->rank, where->extent, value->dim, c.where.extent))
        return sparta_fail(cx, SPARTA_E_SHAPE,
                           "tesa: values of constants have other sizes than the elements");
    SPARTA_TRY(sparta_set_mask(cx, where, c.where.extent, &c.where.mask));
    int64_t n = sparta_mask_count(&c.where.mask);
    sparta_status status = sparta_tensor_alloc(cx, value->dtype, 1, &n, &c.value);
    if (status) {
        sparta_mask_free(cx, &c.where.mask);
        return status;
    }
    for (int64_t r = 0, cols = c.where.mask.cols; n && r < c.where.mask.rows; r++)
        for (int64_t k = sparta_bits_next(sparta_mask_row(&c.where.mask, r), 0, cols); k < cols;
             k = sparta_bits_next(sparta_mask_row(&c.where.mask, r), k + 1, cols)) {
            int64_t at = 0;
            sparta_span_index(&c.where, r, k, index);
            for (int i = 0; i < where->rank; i++) at += value->dim[i] == 1 ? 0 : index[i] * value->stride[i];
            memcpy((char *)c.value.data + (size_t)place++ * size,
                   (const char *)value->data + at * (int64_t)size, size);
        }
    *out = c;
    return SPARTA_OK;
}

sparta_status sparta_tesa_set_constants(sparta_ctx *cx, sparta_tesa *t, const sparta_set *where,
                                        const sparta_tensor *value)
{
    sparta_tesa n;
    sparta_constants c, fresh = {0};
    if (value) {
        if (where->rank != t->rank || value->rank != t->rank)
            return sparta_fail(cx, SPARTA_E_SHAPE,
                               "tesa: constants of %d axes and values of %d for %d dimensions", where->rank,
                               value->rank, t->rank);
        SPARTA_TRY(sparta_tesa_check_extent(cx, t, where->extent, "the set of constants"));
        SPARTA_TRY(sparta_tesa_check_extent(cx, t, value->dim, "the tensor of values"));
        if (!sparta_tesa_empty(t)) SPARTA_TRY(constants_from(cx, where, value, &fresh));
    }
    sparta_status status = copy_parts(cx, t, &n, &c);
    if (status) {
        sparta_constants_free(cx, &fresh);
        return status;
    }
    sparta_constants_free(cx, &c);
    return replace(cx, t, &n, &fresh);
}

sparta_status sparta_tesa_set_precision(sparta_ctx *cx, sparta_tesa *t, const int64_t *group,
                                        const sparta_precision *precision)
{
    int64_t count;
    for (int i = 0; i < t->rank; i++)
        if (group[i] < 0 || (group[i] && t->dim[i].name[0]))
            return sparta_fail(cx, SPARTA_E_USAGE,
                               "tesa: groups of %lld along axis %d; give 0 (all along it)%s",
                               (long long)group[i], i, t->dim[i].name[0] ? ", it is a symbol" : " or a size");
    if (!sparta_groups_count(t->rank, t->dim, group, &count))
        return sparta_fail(cx, SPARTA_E_SHAPE, "precision: too many groups");
    for (int64_t i = 0; i < count; i++)
        if (precision[i] < 0 || precision[i] >= SPARTA_PRECISIONS)
            return sparta_fail(cx, SPARTA_E_USAGE, "tesa: %d is no precision; see precisions.def",
                               (int)precision[i]);
    if (!count) return SPARTA_OK; /* no elements */
    uint8_t *map = sparta_alloc(cx, (size_t)count);
    SPARTA_NEED(cx, map);
    sparta_tesa n;
    sparta_constants c;
    sparta_status status = copy_parts(cx, t, &n, &c);
    if (status) {
        sparta_free(cx, map);
        return status;
    }
    for (int64_t i = 0; i < count; i++) map[i] = (uint8_t)precision[i];
    sparta_free(cx, n.precision);
    n.precision = map;
    memcpy(n.group, group, (size_t)t->rank * sizeof *group);
    return replace(cx, t, &n, &c);
}

/* ------------------------------------------------------------------ facts */

bool sparta_tesa_present(const sparta_tesa *t, const int64_t *index)
{
    return t->has != SPARTA_HAS_SET || sparta_set_get(&t->set, index);
}

bool sparta_tesa_known(const sparta_tesa *t, const int64_t *index, double *value, int64_t *place)
{
    *value = 0, *place = -1;
    if (!sparta_tesa_present(t, index)) return true;
    sparta_constants c = sparta_constants_of(t);
    if (!t->constants) return false;
    int64_t row, col, at = 0;
    sparta_span_place(&c.where, index, &row, &col);
    if (!sparta_mask_get(&c.where.mask, row, col)) return false;
    int64_t word = row * t->where.words + col / WORD;
    for (int64_t i = 0; i < word; i++) at += (int64_t)sparta_ones(t->where.bits[i]);
    *place = at + (int64_t)sparta_ones(t->where.bits[word] & sparta_low(col % WORD));
    *value = sparta_element_get(t->value.dtype, t->value.data, *place);
    return true;
}

static bool same_dims(const sparta_tesa *a, const sparta_tesa *b)
{
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i].min != b->dim[i].min || a->dim[i].max != b->dim[i].max ||
            strcmp(a->dim[i].name, b->dim[i].name))
            return false;
    return true;
}

static bool same_constants(const sparta_tesa *a, const sparta_tesa *b)
{
    if (a->constants != b->constants) return false;
    return !a->constants ||
           (a->value.dtype == b->value.dtype &&
            !memcmp(a->extent, b->extent, (size_t)a->rank * sizeof a->extent[0]) &&
            sparta_mask_equal(&a->where, &b->where) &&
            !memcmp(a->value.data, b->value.data, (size_t)a->constants * sparta_dtype_size(a->value.dtype)));
}

bool sparta_tesa_equal(const sparta_tesa *a, const sparta_tesa *b)
{
    int64_t groups = 1;
    if (a->rank != b->rank || !same_dims(a, b) || a->has != b->has || a->most != b->most ||
        memcmp(a->block, b->block, sizeof a->block) ||
        memcmp(a->group, b->group, (size_t)a->rank * sizeof a->group[0]))
        return false;
    if (a->has == SPARTA_HAS_SET && !sparta_set_equal(&a->set, &b->set)) return false;
    sparta_groups_count(a->rank, a->dim, a->group, &groups);
    return !memcmp(a->precision, b->precision, (size_t)SPARTA_MAX(groups, 1)) && same_constants(a, b);
}

uint64_t sparta_tesa_digest(const sparta_tesa *t)
{
    int64_t groups = 1, head[] = {t->rank, t->has, t->most, t->block[0], t->block[1], t->constants};
    uint64_t h = sparta_hash(head, sizeof head, 0);
    for (int i = 0; i < t->rank; i++) {
        h = sparta_hash((int64_t[3]){t->dim[i].min, t->dim[i].max, t->group[i]}, 3 * sizeof(int64_t), h);
        h = sparta_hash(t->dim[i].name, strlen(t->dim[i].name), h);
    }
    if (t->has == SPARTA_HAS_SET) h = sparta_hash((uint64_t[1]){sparta_set_digest(&t->set)}, sizeof h, h);
    sparta_groups_count(t->rank, t->dim, t->group, &groups);
    h = sparta_hash(t->precision, (size_t)SPARTA_MAX(groups, 1), h);
    if (!t->constants) return h;
    h = sparta_hash((uint64_t[2]){sparta_mask_digest(&t->where), t->value.dtype}, 2 * sizeof h, h);
    h = sparta_hash(t->extent, (size_t)t->rank * sizeof t->extent[0], h);
    return sparta_hash(t->value.data, (size_t)t->constants * sparta_dtype_size(t->value.dtype), h);
}
