/* compressed: only the coordinates that are there, ascending; pos says where each parent's begin.
 *
 *      parent      0        1     2
 *      pos         0        2     2     3     its positions are pos[parent] .. pos[parent+1]-1
 *      crd         1  3           0
 *      position    0  1           2
 *
 * nonunique: a coordinate may come again, each time with a position of its own; nonordered: in any order.
 */
#include "format/level.h"

/* pos has room for parents+1 and is 0: count each parent's positions one place up, then sum. */
static void fill(sp_assembly *a)
{
    sparta_dtype pw = a->level->pos, cw = a->level->crd;
    int64_t position = -1;
    for (int64_t e = 0; e < a->n; e++) {
        int64_t parent = a->at[e];
        position += a->opens[e];
        if (a->opens[e] && a->store) {
            sp_index_set(cw, a->crd.data, position, a->coord[e] + a->origin);
            sp_index_set(pw, a->pos.data, parent + 1, sp_index_get(pw, a->pos.data, parent + 1) + 1);
        }
        a->at[e] = position;
    }
    if (!a->store) return;
    int64_t sum = 0;
    for (int64_t p = 0; p <= a->parents; p++)
        sp_index_set(pw, a->pos.data, p, sum += sp_index_get(pw, a->pos.data, p));
}

static sparta_status assemble(sparta_ctx *cx, sp_assembly *a)
{
    int64_t edges, run = 0;
    for (int64_t e = 0; e < a->n; e++) {
        run = (e && a->at[e] == a->at[e - 1] ? run : 0) + a->opens[e];
        a->longest = SP_MAX(a->longest, run);
        a->size += a->opens[e];
    }
    if (!sp_int_add(a->parents, 1, &edges))
        return sp_fail(cx, SPARTA_E_LIMIT, "format: level %d has too many parents", a->number);
    SP_TRY(sp_level_pos_fits(cx, a->level, a->number, a->size));
    SP_TRY(sp_assembly_arrays(cx, a, edges, a->size));
    fill(a);
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, sp_level_view *v)
{
    v->size = v->crd_n;
    return sp_edges_verify(cx, v, v->size);
}

const sp_level_ops sp_level_ops_COMPRESSED = {assemble,           verify, sp_edges_segment,
                                              sp_coordinates_get, NULL,   NULL};
