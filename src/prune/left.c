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

static const char *name_of(const sp_value *v)
{
    return v->origin ? v->origin : v->name;
}

/* A small one that is transposed was folded into a constant of its own, which says whose it is. */
static bool same(const sp_value *a, const sp_value *b)
{
    return a == b || !strcmp(name_of(a), name_of(b));
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

bool sp_prune_is_tied(const sp_graph *g, const sp_value *weight)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        const sp_value *table = n->n_in && looked_up(n, 0) ? source(n->in[0]) : NULL;
        if (table && same(table, weight)) return true;
    }
    return false;
}

typedef struct finder {
    const sp_schedule_match *match;
    int n_match;
    sp_left *left;
    int n;
} finder;

static bool pruned(const finder *f, const sp_value *v)
{
    for (int i = 0; i < f->n_match; i++)
        if (same(f->match[i].value, v)) return true;
    return false;
}

/* Its row, a new one where it has none. */
static sp_left *row_of(finder *f, const sp_value *v, const sp_node *reader)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->left[i].weight, name_of(v))) return &f->left[i];
    f->left[f->n] = (sp_left){name_of(v), reader->name, reader->op, v->constant, SPARTA_LEFT_OTHER};
    return &f->left[f->n++];
}

/* The first reader that says something gives the reason; one that would have it pruned says that it is tied. */
static void look(finder *f, const sp_node *node, int input)
{
    const sp_value *v = source(node->in[input]);
    if (!v || only_moves(node->op) || !like_matrix(v->constant)) return;
    const bool codes = node->op == SP_OP_DequantizeLinear && input == 0;
    if (!(codes || sp_dtype_is_float(v->constant->dtype)) || pruned(f, v)) return;
    bool turned;
    const bool tied = input == 1 && sp_schedule_weight_of(node, &turned) == v;
    sp_left *l = row_of(f, v, node);
    if (l->why != SPARTA_LEFT_OTHER && !tied) return;
    l->why = tied ? SPARTA_LEFT_TIED : why(node, input, v->constant);
    l->op = node->op;
    l->layer = node->name;
}

sparta_status sp_prune_left(const sp_graph *g, const sp_schedule_match *match, int n_match, sp_arena *arena,
                            sp_left **out, int *n)
{
    finder f = {match, n_match, sp_arena_array(arena, (size_t)g->n_values + 1, sizeof *f.left), 0};
    SP_NEED(g->cx, f.left);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k]) look(&f, g->node[i], k);
    *out = f.left;
    *n = f.n;
    return SPARTA_OK;
}
