/* Arrays of somebody else (SciPy's, torch's, a caller's) as a packed tensor. Positions and coordinates are copied and then verified: kernels follow them
 * without a look, so nobody else may be able to change them. Values are the same memory. */
#include "store/store.h"
#include <string.h>

_Static_assert(SP_COUNT(((sparta_arrays *)0)->pos) >= SP_LEVELS,
               "sparta_arrays holds all levels of a format");

/* In the place of *t, also where it has no elements: all that is kept is freed. */
static sparta_status own(sparta_ctx *cx, sparta_tensor *t, const char *what, int level, void **copy)
{
    const int64_t n = sparta_tensor_elements(t);
    size_t bytes;
    SP_TRY(sp_tensor_on_cpu(cx, t, "packed array", what));
    if (!t->data) return SPARTA_OK;
    if (n < 0 || !sp_tensor_contiguous(t))
        return sp_fail(cx, SPARTA_E_FORMAT, "packed arrays: %s of level %d are no contiguous array", what,
                       level);
    if (!sp_size_mul((size_t)n, sparta_dtype_size(t->dtype), &bytes))
        return sp_fail(cx, SPARTA_E_LIMIT, "packed arrays: %lld elements are too many", (long long)n);
    *copy = sp_alloc(cx, bytes);
    SP_NEED(cx, *copy);
    t->data = memcpy(*copy, t->data, bytes);
    return SPARTA_OK;
}

static sparta_status take(sparta_ctx *cx, const sparta_arrays *a, sp_packed *p, void *copy[2 * SP_LEVELS])
{
    if (!memchr(a->format, 0, sizeof a->format))
        return sp_fail(cx, SPARTA_E_USAGE, "packed arrays: their format has no end");
    SP_TRY(sp_format_parse(cx, a->format, &p->format));
    if (p->format.sum || p->format.rank != a->rank)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "packed arrays: \"%.100s\" is no format of one set of arrays for %d dims", a->format,
                       a->rank);
    memcpy(p->dim, a->dim, sizeof p->dim);
    memcpy(p->pos, a->pos, sizeof p->pos);
    memcpy(p->crd, a->crd, sizeof p->crd);
    for (int i = 0; i < SP_LEVELS; i++) {
        SP_TRY(own(cx, &p->pos[i], "pos", i, &copy[2 * i]));
        SP_TRY(own(cx, &p->crd[i], "crd", i, &copy[2 * i + 1]));
    }
    SP_TRY(sp_tensor_on_cpu(cx, &p->values, "packed array", "values"));
    return sp_packed_verify(cx, p);
}

sparta_status sp_store_arrays(sparta_ctx *cx, const sparta_arrays *given, sp_packed *out)
{
    sparta_arrays a;
    void *copy[2 * SP_LEVELS] = {NULL};
    SP_TRY(sp_options(cx, "packed arrays", given, &a, sizeof a));
    sp_packed p = {.dtype = a.dtype, .rank = a.rank, .values = a.values};
    const sparta_status status = take(cx, &a, &p, copy);
    if (status)
        for (int i = 0; i < 2 * SP_LEVELS; i++) sp_free(cx, copy[i]);
    else
        *out = p;
    return status;
}
