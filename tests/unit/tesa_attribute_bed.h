/* A plain model of an attribute, element by element, to compare with: random facts that differ along random axes. */
#ifndef TESA_ATTRIBUTE_BED_H
#define TESA_ATTRIBUTE_BED_H

#include "tesa_bed.h"
#include "tesa/attribute.h"

#define MODEL 2048 /* the most elements */

typedef struct {
    int rank;
    int64_t dim[SP_TESA_RANK];
    bool symbol[SP_TESA_RANK];
    bool has[MODEL], constant[MODEL];
    float value[MODEL];
    uint8_t precision[MODEL];
} model;

static inline int64_t elements(const model *m)
{
    int64_t n = 1;
    for (int i = 0; i < m->rank; i++) n *= m->dim[i];
    return n;
}

static inline void index_of(const model *m, int64_t at, int64_t *index)
{
    for (int i = m->rank - 1; i >= 0; i--) index[i] = at % m->dim[i], at /= m->dim[i];
}

static inline int64_t place_of(const model *m, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < m->rank; i++) at = at * m->dim[i] + index[i];
    return at;
}

/* A number that depends on the axes in `along` only. */
static inline uint64_t fact(uint64_t seed, unsigned along, const model *m, int64_t at)
{
    int64_t index[SP_TESA_RANK] = {0};
    index_of(m, at, index);
    for (int i = 0; i < m->rank; i++)
        if (!(along >> i & 1) || m->symbol[i]) index[i] = 0;
    return sp_hash(index, (size_t)m->rank * sizeof *index, seed) >> 16;
}

static const sp_precision some_precisions[] = {SP_PRECISION_F32, SP_PRECISION_I8, SP_PRECISION_U8,
                                               SP_PRECISION_BF16, SP_PRECISION_I4};

/* Facts for the shape in m. Values come from `values`, so that two models agree where both know one. */
static inline void random_facts(sp_rng *r, model *m, uint64_t values)
{
    unsigned along[4];
    uint64_t seed = sp_rng_next(r), dense = 1 + sp_rng_next(r) % 8;
    bool any = below(r, 3) != 0;
    for (int i = 0; i < 4; i++) along[i] = (unsigned)sp_rng_next(r) % 64;
    for (int64_t at = 0; at < elements(m); at++) {
        m->has[at] = fact(seed, along[0], m, at) % 8 < dense;
        m->constant[at] = any && m->has[at] && fact(seed + 1, along[1], m, at) % 4 == 0;
        m->value[at] = 0.5f + (float)(fact(values, 3, m, at) % 3);
        m->precision[at] = some_precisions[fact(seed + 2, along[3], m, at) % SP_COUNT(some_precisions)];
    }
}

static inline void random_shape(sp_rng *r, model *m, bool symbols)
{
    memset(m, 0, sizeof *m);
    m->rank = 1 + (int)below(r, 4);
    for (int i = 0; i < m->rank; i++) {
        m->dim[i] = below(r, 12) ? 1 + below(r, m->rank > 2 ? 6 : 40) : 1;
        m->symbol[i] = symbols && !below(r, 4) && m->dim[i] > 1;
    }
}

static inline void model_dims(const model *m, sp_tesa_dim *dim)
{
    for (int i = 0; i < m->rank; i++)
        dim[i] = m->symbol[i] ? (sp_tesa_dim){1, 99, "n"} : sp_tesa_size(m->dim[i]);
}

/* The bits of a fact; along symbols one slice. */
static inline sp_set set_of(const model *m, const bool *bit)
{
    int64_t extent[SP_TESA_RANK], index[SP_TESA_RANK], cols = 1;
    sp_set s;
    for (int i = 0; i < m->rank; i++) extent[i] = m->symbol[i] ? 1 : m->dim[i];
    for (int i = m->rank > 1; i < m->rank; i++) cols *= extent[i];
    sp_mask mask = mask_of_shape(m->rank > 1 ? extent[0] : 1, cols);
    for (int64_t at = 0; at < elements(m); at++) {
        int64_t col = 0;
        index_of(m, at, index);
        for (int i = m->rank > 1; i < m->rank; i++) col = col * extent[i] + (m->symbol[i] ? 0 : index[i]);
        if (bit[at]) sp_mask_set(&mask, m->rank > 1 && !m->symbol[0] ? index[0] : 0, col);
    }
    OK(sp_set_take(cx, m->rank, extent, &mask, &s));
    return s;
}

static inline sp_tesa tesa_of(const model *m)
{
    sp_tesa_dim dim[SP_TESA_RANK];
    sp_tesa t;
    model_dims(m, dim);
    OK(sp_tesa_create(cx, m->rank, dim, SP_PRECISION_F32, &t));
    sp_set has = set_of(m, m->has), where = set_of(m, m->constant);
    OK(sp_tesa_set_has(cx, &t, &has));
    sparta_tensor value = sparta_tensor_view(SPARTA_F32, m->rank, m->dim, (void *)m->value);
    for (int i = 0; i < m->rank; i++)
        if (m->symbol[i]) value.dim[i] = 1;
    OK(sp_tesa_set_constants(cx, &t, &where, &value));
    sp_precision map[MODEL];
    int64_t group[SP_TESA_RANK], n = 0, index[SP_TESA_RANK];
    for (int i = 0; i < m->rank; i++) group[i] = !m->symbol[i];
    for (int64_t at = 0; at < elements(m); at++) {
        bool first = true;
        index_of(m, at, index);
        for (int i = 0; i < m->rank; i++) first &= !m->symbol[i] || !index[i];
        if (first) map[n++] = m->precision[at];
    }
    OK(sp_tesa_set_precision(cx, &t, group, map));
    sp_set_free(cx, &has);
    sp_set_free(cx, &where);
    return t;
}

static inline void assert_is(const sp_tesa *t, const model *m)
{
    assert_int_equal(t->rank, m->rank);
    for (int64_t at = 0; at < elements(m); at++) {
        int64_t index[SP_TESA_RANK], place;
        double value;
        index_of(m, at, index);
        assert_int_equal(sp_tesa_present(t, index), m->has[at]);
        bool known = sp_tesa_known(t, index, &value, &place);
        assert_int_equal(known, !m->has[at] || m->constant[at]);
        if (known) assert_true(value == (m->has[at] ? (double)m->value[at] : 0));
        assert_int_equal(sp_tesa_precision_at(t, index), m->precision[at]);
    }
}

/* The result of an operation is what the model says, and its normal form that of one made from the model. */
static inline void assert_model(sp_tesa *t, const model *m)
{
    assert_is(t, m);
    sp_tesa again = tesa_of(m);
    assert_true(sp_tesa_equal(t, &again));
    assert_true(sp_tesa_digest(t) == sp_tesa_digest(&again));
    sp_tesa_free(cx, &again);
    sp_tesa_free(cx, t);
}

#endif
