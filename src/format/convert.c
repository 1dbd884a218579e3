/* Convert: the same elements in another format. A fast path where one fits; else every element is gathered, sorted and
 * assembled again, which needs memory for the elements, never for a dense copy.
 */
#include "format/entries.h"

/* ------------------------------------------------------------------ any format from any other */

static sparta_status check(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to)
{
    SPARTA_TRY(sparta_packed_head_check(cx, from));
    return sparta_format_check(cx, to, from->rank, from->dim);
}

static sparta_status generic(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to, bool store,
                             sparta_packed *out, sparta_format_stats *stats)
{
    sparta_entry_list e = {0};
    SPARTA_TRY(sparta_entries_of_packed(cx, from, &e));
    if (store) *out = sparta_packed_head(to, &e);
    sparta_status status = sparta_entries_assemble(cx, to, &e, store, out, stats);
    sparta_entries_free(cx, &e);
    return status;
}

sparta_status sparta_convert_generic(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to,
                                     sparta_packed *out)
{
    sparta_packed p = {0};
    sparta_format_stats stats = {0};
    SPARTA_TRY(check(cx, from, to));
    sparta_status status = generic(cx, from, to, true, &p, &stats);
    if (status)
        sparta_packed_free(cx, &p);
    else
        *out = p;
    return status;
}

sparta_status sparta_measure_generic(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to,
                                     sparta_format_stats *out)
{
    sparta_packed none = {0};
    sparta_format_stats stats = {0};
    SPARTA_TRY(check(cx, from, to));
    SPARTA_TRY(generic(cx, from, to, false, &none, &stats));
    *out = stats;
    return SPARTA_OK;
}

sparta_status sparta_format_convert(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to,
                                    sparta_pool *pool, sparta_packed *out)
{
    bool done = false;
    SPARTA_TRY(check(cx, from, to));
    SPARTA_TRY(sparta_convert_fast(cx, from, to, pool, &done, out));
    return done ? SPARTA_OK : sparta_convert_generic(cx, from, to, out);
}

sparta_status sparta_format_measure_packed(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to,
                                           sparta_format_stats *out)
{
    sparta_format_stats stats = {0};
    bool done = false;
    SPARTA_TRY(check(cx, from, to));
    SPARTA_TRY(sparta_measure_fast(cx, from, to, &done, &stats));
    if (!done) SPARTA_TRY(sparta_measure_generic(cx, from, to, &stats));
    *out = stats;
    return SPARTA_OK;
}
