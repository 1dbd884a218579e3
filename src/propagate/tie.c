/* Tied weights: a table of words that is also the last layer, read through a Transpose. Inference folds that into a second constant, which is
 * right for compiling; in the report it counts once, and a file that is written gets the Transpose back. */
#include "propagate/facts.h"
#include <string.h>

enum { TILE = 32 }; /* both are read along their rows */

static bool same_tile(const sparta_tensor *a, const sparta_tensor *b, int64_t row, int64_t column)
{
    const size_t size = sparta_dtype_size(a->dtype);
    const char *x = a->data, *y = b->data;
    for (int64_t i = row; i < SP_MIN(row + TILE, a->dim[0]); i++)
        for (int64_t k = column; k < SP_MIN(column + TILE, a->dim[1]); k++)
            if (memcmp(x + (size_t)(i * a->dim[1] + k) * size, y + (size_t)(k * a->dim[0] + i) * size,
                       size) != 0)
                return false;
    return true;
}

static bool is_transposed(const sparta_tensor *a, const sparta_tensor *b)
{
    if (a->rank != 2 || b->rank != 2 || a->dtype != b->dtype || a->dim[0] != b->dim[1] ||
        a->dim[1] != b->dim[0])
        return false;
    for (int64_t i = 0; i < a->dim[0]; i += TILE)
        for (int64_t k = 0; k < a->dim[1]; k += TILE)
            if (!same_tile(a, b, i, k)) return false;
    return true;
}

sparta_status sp_used(const sp_graph *g, sp_arena *arena, bool **out)
{
    bool *used = sp_arena_array(arena, (size_t)SP_MAX(g->n_values, 1), sizeof *used);
    SP_NEED(g->cx, used);
    sp_graph_used(g, used);
    *out = used;
    return SPARTA_OK;
}

sp_value *sp_tied(const sp_graph *g, const bool *used, const sp_value *v)
{
    if (!v->constant || !v->constant->data || !v->origin || !strcmp(v->origin, v->name)) return NULL;
    sp_value *a = sp_graph_find(g, v->origin);
    if (!a || a == v || !a->constant || !a->constant->data || !used[a->id]) return NULL;
    return is_transposed(a->constant, v->constant) ? a : NULL;
}

static sparta_status tie_all(sp_graph *g, const bool *used)
{
    static const int64_t swap[] = {1, 0};
    const sp_attr perm = {.name = "perm", .kind = SP_ATTR_INTS, .n = 2, .ints = swap};
    const int n = g->n_values;
    for (int i = 0; i < n; i++) {
        sp_value *v = g->value[i], *a = v->is_output || !used[i] ? NULL : sp_tied(g, used, v);
        if (!a) continue;
        v->constant = NULL;
        SP_TRY(sp_graph_add_node(g, SP_OP_Transpose, v->name, 1, &a, 1, &v, &(sp_attrs){1, &perm}, NULL));
    }
    return sp_graph_sort(g); /* they stand behind those who read them */
}

sparta_status sp_propagate_tie(sp_graph *g)
{
    sp_arena *arena = sp_arena_create(g->cx);
    SP_NEED(g->cx, arena);
    bool *used;
    sparta_status status = sp_used(g, arena, &used);
    if (status == SPARTA_OK) status = tie_all(g, used);
    sp_arena_free(arena);
    return status == SPARTA_OK ? sp_graph_verify(g) : status;
}
