/* Arguments of one thread: a range of one loop; and the scratch that it needs. */
#include "kernel/inside.h"

int64_t sp_nest_work(const sp_nest *n, const sp_nest_bound *b)
{
    int64_t work = 1;
    for (int i = 0; i < n->loops; i++)
        if (!sp_int_mul(work, b->size[i], &work)) return INT64_MAX;
    return work;
}

size_t sp_nest_scratch(const sp_nest *n, const sp_nest_bound *b)
{
    size_t bytes = 0;
    for (int i = 0; i < n->statements; i++)
        if (n->statement[i].space == SP_SPACE_LINE)
            bytes += (size_t)b->line * (size_t)sp_nest_bytes(n->statement[i].dtype);
    return bytes;
}

/* Outer loops in whole; sixteens of the vector loop. */
static int64_t pieces(const sp_nest *n, const sp_nest_bound *b, int loop)
{
    if (n->loop[loop].inner && sp_nest_barred(n)) return 0;
    return n->loop[loop].bind == SP_BIND_VECTOR ? sp_nest_up(b->size[loop], 16) / 16 : b->size[loop];
}

/* The first loop with four pieces a thread, so that their shares are about equal; else the one with the most. */
static int cut_loop(const sp_nest *n, const sp_nest_bound *b, int parts)
{
    int best = 0;
    for (int i = 0; i < n->loops; i++) {
        if (pieces(n, b, i) >= 4 * (int64_t)parts) return i;
        if (pieces(n, b, i) > pieces(n, b, best)) best = i;
    }
    return best;
}

bool sp_nest_cut(const sp_nest *n, const sp_nest_bound *b, void *const *data, int part, int parts, void *work,
                 struct sp_nest_args *out)
{
    for (int i = 0; i < n->loops; i++)
        if (!b->size[i] && !n->loop[i].inner) return false;
    const int cut = cut_loop(n, b, parts);
    const bool vector = n->loop[cut].bind == SP_BIND_VECTOR;
    int64_t from = 0, end = b->size[cut];
    if (pieces(n, b, cut) > 0) {
        const int64_t p = pieces(n, b, cut), unit = vector ? 16 : 1;
        from = (p / parts * part + SP_MIN(p % parts, part)) * unit;
        end = SP_MIN(end, (p / parts * (part + 1) + SP_MIN(p % parts, part + 1)) * unit);
    } else if (part) /* nothing but inner loops: one thread does it */
        return false;
    if (from >= end && pieces(n, b, cut) > 0) return false;
    for (int i = 0; i < n->loops; i++) out->size[i] = b->size[i];
    out->size[cut] = end - from;
    for (int o = 0; o < n->operands; o++) {
        const int64_t at = b->offset[o] + from * b->stride[o][cut];
        out->array[o] = (char *)data[o] + at * (int64_t)sparta_dtype_size(n->operand[o].dtype);
        for (int i = 0; i < n->loops; i++) out->stride[o][i] = b->stride[o][i];
    }
    out->block = b->block;
    out->line = b->line;
    out->work = work;
    return true;
}
