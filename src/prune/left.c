/* Weights that look like matrices and are not pruned, each with its reason: who reads it decides.
 *
 *     Conv(x, w)                       w (O,I,kh,kw)    a convolution
 *     Gather(w, ids)                   w (V,E)          an embedding; where a product multiplies by it too, it is tied: left as well
 *     MatMul(x, w), Gather(w, which)   w (experts,K,N)  a stack
 *     DequantizeLinear(w, scale)       w of 8 bits      quantised
 *
 * A weight is seen through what only moves it (Transpose, Reshape, a cast). */
#include "prune/prune.h"
#include <string.h>

const char *sparta_left_reason(sparta_left why)
{
    static const char *const reason[] = {
#define SP_LEFT(id, text) [SPARTA_LEFT_##id] = (text),
#include "prune/left.def"
#undef SP_LEFT
    };
    return (size_t)why < SP_COUNT(reason) ? reason[why] : "";
}

static bool only_moves(sp_op_id op)
{
    return op == SP_OP_Transpose || op == SP_OP_Identity || op == SP_OP_Reshape || op == SP_OP_Cast ||
           op == SP_OP_Unsqueeze || op == SP_OP_Squeeze;
}

/* The constant that a node reads there, or NULL. */
static const sp_value *source(const sp_value *v)
{
    while (v && !v->constant && v->producer && only_moves(v->producer->op) && v->producer->n_in)
        v = v->producer->in[0];
    return v && v->constant ? v : NULL;
}

/* At least two of its dimensions are longer than 1. */
static bool like_matrix(const sparta_tensor *t)
{
    int sides = 0;
    for (int i = 0; i < t->rank; i++) sides += t->dim[i] > 1;
    return sides >= 2;
}

/* A stack: more than one matrix. */
static bool stacked(const sparta_tensor *t)
{
    return t->rank >= 3 && sparta_tensor_elements(t) > t->dim[t->rank - 1] * t->dim[t->rank - 2];
}

static bool looked_up(const sp_node *n, int input)
{
    return input == 0 && (n->op == SP_OP_Gather || n->op == SP_OP_GatherND || n->op == SP_OP_GatherElements);
}

static bool multiplies(sp_op_id op)
{
    return sp_multiply_of(op) || op == SP_OP_Einsum;
}

static sparta_left why(const sp_node *n, int input, const sparta_tensor *t)
{
    if (n->op == SP_OP_Conv || n->op == SP_OP_ConvTranspose) return SPARTA_LEFT_CONVOLUTION;
    if (n->op == SP_OP_DequantizeLinear) return SPARTA_LEFT_QUANTISED;
    if (stacked(t) && (looked_up(n, input) || multiplies(n->op))) return SPARTA_LEFT_EXPERTS;
    return looked_up(n, input) ? SPARTA_LEFT_EMBEDDING : SPARTA_LEFT_OTHER;
}

sparta_status sp_prune_tables(const sp_graph *g, sp_map *names)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        const sp_value *table = n->n_in && looked_up(n, 0) ? source(n->in[0]) : NULL;
        if (table) SP_TRY(sp_map_put(names, sp_initialiser_name(table), i));
    }
    return SPARTA_OK;
}

enum { PRUNED = -1 };
typedef struct finder {
    /* By the initialiser's name: of `left`, or PRUNED. A small one that is transposed was folded into a constant of its own, which says whose it is. */
    sp_map *row;
    sp_left *left;
    int n;
} finder;

/* Its row, a new one where it has none; NULL: it is pruned. */
static sparta_status row_of(finder *f, const sp_value *v, const sp_node *reader, sp_left **out)
{
    int64_t at = f->n;
    if (!sp_map_get(f->row, sp_initialiser_name(v), &at)) {
        SP_TRY(sp_map_put(f->row, sp_initialiser_name(v), at));
        f->left[f->n++] =
            (sp_left){sp_initialiser_name(v), reader->name, reader->op, v->constant, SPARTA_LEFT_OTHER};
    }
    *out = at == PRUNED ? NULL : &f->left[at];
    return SPARTA_OK;
}

/* The first reader that says something gives the reason; one that would have it pruned says that it is tied. */
static sparta_status look(finder *f, const sp_node *node, int input)
{
    const sp_value *v = source(node->in[input]);
    if (!v || only_moves(node->op) || !like_matrix(v->constant)) return SPARTA_OK;
    const bool codes = node->op == SP_OP_DequantizeLinear && input == 0;
    if (!codes && !sp_dtype_is_float(v->constant->dtype)) return SPARTA_OK;
    bool turned;
    const bool tied = input == 1 && sp_schedule_weight_of(node, &turned) == v;
    sp_left *l;
    SP_TRY(row_of(f, v, node, &l));
    if (!l || (l->why != SPARTA_LEFT_OTHER && !tied)) return SPARTA_OK;
    l->why = tied ? SPARTA_LEFT_TIED : why(node, input, v->constant);
    l->op = node->op;
    l->layer = node->name;
    return SPARTA_OK;
}

static sparta_status look_at_all(finder *f, const sp_graph *g, const sp_schedule_match *match, int n_match)
{
    for (int i = 0; i < n_match; i++) SP_TRY(sp_map_put(f->row, sp_initialiser_name(match[i].value), PRUNED));
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k]) SP_TRY(look(f, g->node[i], k));
    return SPARTA_OK;
}

sparta_status sp_prune_left(const sp_graph *g, const sp_schedule_match *match, int n_match, sp_arena *arena,
                            sp_left **out, int *n)
{
    finder f = {.left = sp_arena_array(arena, (size_t)g->n_values + 1, sizeof *f.left)};
    SP_NEED(g->cx, f.left);
    f.row = sp_map_create(g->cx);
    SP_NEED(g->cx, f.row);
    const sparta_status status = look_at_all(&f, g, match, n_match);
    sp_map_free(f.row);
    if (status) return status;
    *out = f.left;
    *n = f.n;
    return SPARTA_OK;
}
