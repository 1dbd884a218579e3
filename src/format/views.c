/* Other people's arrays seen as packed tensors, without a copy, and packed tensors as entries. */
#include "format/entries.h"
#include <string.h>

static sparta_level level_of(int dim, sparta_level_kind kind, unsigned properties)
{
    return (sparta_level){
        .kind = kind, .dim = dim, .properties = properties, .pos = SPARTA_I64, .crd = SPARTA_I64};
}

/* i j k l m n o p, and dense levels of them. */
static sparta_format dense_levels(int rank)
{
    sparta_format f = {.rank = rank, .n = rank};
    for (int d = 0; d < rank; d++) {
        f.dim_name[d][0] = (char)('i' + d);
        f.level[d] = level_of(d, SPARTA_LEVEL_DENSE, 0);
        f.level[d].pos = f.level[d].crd = SPARTA_I32;
    }
    return f;
}

/* i:compressed(nonunique), j:singleton(nonunique,soa), k:singleton(soa); of one dimension, i:compressed. */
static sparta_format coo_levels(int rank)
{
    sparta_format f = dense_levels(rank);
    for (int d = 0; d < rank; d++) {
        unsigned again = d + 1 < rank ? SPARTA_PROP_NONUNIQUE : 0;
        f.level[d] = d ? level_of(d, SPARTA_LEVEL_SINGLETON, again | SPARTA_PROP_SOA)
                       : level_of(d, SPARTA_LEVEL_COMPRESSED, again);
    }
    return f;
}

sparta_packed sparta_packed_of_dense(const sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t);
    sparta_packed p = {.format = dense_levels(t->rank), .dtype = t->dtype, .rank = t->rank};
    memcpy(p.dim, t->dim, (size_t)t->rank * sizeof p.dim[0]);
    p.values = sparta_tensor_view(t->dtype, 1, &n, t->data);
    return p;
}

sparta_packed sparta_packed_of_coo(const sparta_coo *c, int64_t pos[2])
{
    int64_t two = 2;
    if (c->dense) return sparta_packed_of_dense(&c->values);
    sparta_packed p = {.format = coo_levels(c->rank),
                       .dtype = c->values.data ? c->values.dtype : SPARTA_BOOL,
                       .pattern = !c->values.data,
                       .rank = c->rank};
    memcpy(p.dim, c->dim, (size_t)c->rank * sizeof p.dim[0]);
    pos[0] = 0, pos[1] = c->n;
    p.pos[0] = sparta_tensor_view(SPARTA_I64, 1, &two, pos);
    for (int d = 0; d < c->rank; d++) p.crd[d] = sparta_tensor_view(SPARTA_I64, 1, &c->n, c->index[d]);
    if (!p.pattern) p.values = c->values;
    return p;
}

static void copy_entries(const sparta_entry_list *e, sparta_coo *out)
{
    size_t size = sparta_dtype_size(e->dtype);
    int64_t index[SPARTA_RANK];
    for (int64_t i = 0; i < e->n; i++) {
        sparta_entries_index(e, e->entry[i].key, index);
        for (int d = 0; d < e->rank; d++) out->index[d][i] = index[d];
        if (e->values)
            memcpy((char *)out->values.data + (size_t)i * size,
                   (const char *)e->values + e->entry[i].source * (int64_t)size, size);
    }
}

sparta_status sparta_packed_to_coo(sparta_ctx *cx, const sparta_packed *p, sparta_coo *out)
{
    sparta_entry_list e = {0};
    SPARTA_TRY(sparta_entries_of_packed(cx, p, &e));
    sparta_coo c;
    sparta_status status = sparta_coo_alloc(cx, e.rank, e.dim, e.n, e.values ? &e.dtype : NULL, &c);
    if (!status) {
        copy_entries(&e, &c);
        *out = c;
    }
    sparta_entries_free(cx, &e);
    return status;
}
