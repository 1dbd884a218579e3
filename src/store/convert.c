/* Convert: the same elements in another format. A fast path where one fits; else every element is gathered, sorted and
 * assembled again, which needs memory for the elements, never for a dense copy. */
#include "store/entries.h"

/* ------------------------------------------------------------------ any format from any other */

static sparta_status check(sparta_ctx *cx, const sp_packed *from, const sp_format *to)
{
    SP_TRY(sp_packed_head_check(cx, from));
    return sp_format_check(cx, to, from->rank, from->dim);
}

static sparta_status generic(sparta_ctx *cx, const sp_packed *from, const sp_format *to, bool store,
                             sp_packed *out, sp_store_stats *stats)
{
    sp_entry_list e = {0};
    SP_TRY(sp_entries_of_packed(cx, from, &e));
    if (store) *out = sp_packed_head(to, &e);
    sparta_status status = sp_entries_assemble(cx, to, &e, store, out, stats);
    sp_entries_free(cx, &e);
    return status;
}

sparta_status sp_convert_generic(sparta_ctx *cx, const sp_packed *from, const sp_format *to, sp_packed *out)
{
    sp_packed p = {0};
    sp_store_stats stats = {0};
    SP_TRY(check(cx, from, to));
    sparta_status status = generic(cx, from, to, true, &p, &stats);
    if (status)
        sp_packed_free(cx, &p);
    else
        *out = p;
    return status;
}

sparta_status sp_measure_generic(sparta_ctx *cx, const sp_packed *from, const sp_format *to,
                                 sp_store_stats *out)
{
    sp_packed none = {0};
    sp_store_stats stats = {0};
    SP_TRY(check(cx, from, to));
    SP_TRY(generic(cx, from, to, false, &none, &stats));
    *out = stats;
    return SPARTA_OK;
}

sparta_status sp_store_convert(sparta_ctx *cx, const sp_packed *from, const sp_format *to, sp_pool *pool,
                               sp_packed *out)
{
    bool done = false;
    SP_TRY(check(cx, from, to));
    SP_TRY(sp_convert_fast(cx, from, to, pool, &done, out));
    return done ? SPARTA_OK : sp_convert_generic(cx, from, to, out);
}

sparta_status sp_store_measure_converted(sparta_ctx *cx, const sp_packed *from, const sp_format *to,
                                         sp_store_stats *out)
{
    sp_store_stats stats = {0};
    bool done = false;
    SP_TRY(check(cx, from, to));
    SP_TRY(sp_measure_fast(cx, from, to, &done, &stats));
    if (!done) SP_TRY(sp_measure_generic(cx, from, to, &stats));
    *out = stats;
    return SPARTA_OK;
}
