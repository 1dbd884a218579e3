/* Other people's arrays seen as packed tensors, without a copy, and packed tensors as entries. */
#include "store/entries.h"
#include <string.h>

static sp_level level_of(int dim, sp_level_kind kind, unsigned properties)
{
    return (sp_level){
        .kind = kind, .dim = dim, .properties = properties, .pos = SPARTA_I64, .crd = SPARTA_I64};
}

/* i j k l m n o p, and dense levels of them. */
static sp_format dense_levels(int rank)
{
    sp_format f = {.rank = rank, .n = rank};
    for (int d = 0; d < rank; d++) {
        f.dim_name[d][0] = (char)('i' + d);
        f.level[d] = level_of(d, SP_LEVEL_DENSE, 0);
        f.level[d].pos = f.level[d].crd = SPARTA_I32;
    }
    return f;
}

/* i:compressed(nonunique), j:singleton(nonunique,soa), k:singleton(soa); of one dimension, i:compressed. */
static sp_format coo_levels(int rank)
{
    sp_format f = dense_levels(rank);
    for (int d = 0; d < rank; d++) {
        unsigned again = d + 1 < rank ? SP_PROP_NONUNIQUE : 0;
        f.level[d] = d ? level_of(d, SP_LEVEL_SINGLETON, again | SP_PROP_SOA)
                       : level_of(d, SP_LEVEL_COMPRESSED, again);
    }
    return f;
}

sp_packed sp_store_of_dense(const sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t);
    sp_packed p = {.format = dense_levels(t->rank), .dtype = t->dtype, .rank = t->rank};
    memcpy(p.dim, t->dim, (size_t)t->rank * sizeof p.dim[0]);
    p.values = sparta_tensor_view(t->dtype, 1, &n, t->data);
    return p;
}

sp_packed sp_store_of_coo(const sp_coo *c, int64_t pos[2])
{
    int64_t two = 2;
    if (c->dense) return sp_store_of_dense(&c->values);
    sp_packed p = {.format = coo_levels(c->rank),
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

static void copy_entries(const sp_entry_list *e, sp_coo *out)
{
    size_t size = sparta_dtype_size(e->dtype);
    int64_t index[SPARTA_RANK];
    for (int64_t i = 0; i < e->n; i++) {
        sp_entries_index(e, e->entry[i].key, index);
        for (int d = 0; d < e->rank; d++) out->index[d][i] = index[d];
        if (e->values)
            memcpy((char *)out->values.data + (size_t)i * size,
                   (const char *)e->values + e->entry[i].source * (int64_t)size, size);
    }
}

sparta_status sp_store_to_coo(sparta_ctx *cx, const sp_packed *p, sp_coo *out)
{
    sp_entry_list e = {0};
    SP_TRY(sp_entries_of_packed(cx, p, &e));
    sp_coo c;
    sparta_status status = sp_coo_alloc(cx, e.rank, e.dim, e.n, e.values ? &e.dtype : NULL, &c);
    if (!status) {
        copy_entries(&e, &c);
        *out = c;
    }
    sp_entries_free(cx, &e);
    return status;
}
