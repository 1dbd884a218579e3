/* Arrays of somebody else (SciPy's, torch's, a caller's) as a packed tensor: the same memory, verified. */
#include "store/store.h"
#include <string.h>

_Static_assert(SP_COUNT(((sparta_arrays *)0)->pos) >= SP_LEVELS,
               "sparta_arrays holds all levels of a format");

sparta_status sp_store_arrays(sparta_ctx *cx, const sparta_arrays *given, sp_packed *out)
{
    sparta_arrays a;
    SP_TRY(sp_options(cx, "packed arrays", given, &a, sizeof a));
    *out = (sp_packed){.dtype = a.dtype, .rank = a.rank, .values = a.values};
    if (!memchr(a.format, 0, sizeof a.format))
        return sp_fail(cx, SPARTA_E_USAGE, "packed arrays: their format has no end");
    SP_TRY(sp_format_parse(cx, a.format, &out->format));
    if (out->format.sum || out->format.rank != a.rank)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "packed arrays: \"%.100s\" is no format of one set of arrays for %d dims", a.format,
                       a.rank);
    memcpy(out->dim, a.dim, sizeof out->dim);
    memcpy(out->pos, a.pos, sizeof out->pos);
    memcpy(out->crd, a.crd, sizeof out->crd);
    for (int i = 0; i < SP_LEVELS; i++) {
        SP_TRY(sp_tensor_on_cpu(cx, &out->pos[i], "packed array", "pos"));
        SP_TRY(sp_tensor_on_cpu(cx, &out->crd[i], "packed array", "crd"));
    }
    SP_TRY(sp_tensor_on_cpu(cx, &out->values, "packed array", "values"));
    return sp_packed_verify(cx, out);
}
