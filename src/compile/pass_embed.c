/* embed: sums of rows of tables, Add(Add(Gather(words, ids), Gather(types, kinds)), Gather(positions,
 * places)), into Embed. Each Gather becomes an Embed of one table, and Adds of Embeds put their tables
 * together. Ids that are one column of a matrix, Gather(words, Gather(ids, 3, axis=1)), are read where they lie. */
#include "compile/match.h"
#include "compile/passes.h"
#include <string.h>

enum { TABLES = 4 };

/* Rows of a constant f32 table. */
static bool is_lookup(const sp_node *n)
{
    const sp_value *table = n->in[0], *ids = n->in[1];
    if (!table->constant || !sp_match_f32(table) || table->dims.rank != 2) return false;
    return sp_match_axis(n, 0, 2) == 0 && ids->typed && ids->dims.rank >= 1 && !ids->constant;
}

/* ids = Gather(matrix, c) along the last axis, c a constant without dims? */
static bool is_column(const sp_value *ids, sp_value **matrix, int64_t *column)
{
    const sp_node *n = sp_match_made_by(ids, SP_OP_Gather);
    double c;
    int64_t size;
    if (!n || !n->in[0]->typed || n->in[0]->constant || n->in[0]->dims.rank < 2) return false;
    const sp_dims *dims = &n->in[0]->dims;
    if (n->in[1]->dims.rank != 0 || !sp_match_scalar(n->in[1], &c) ||
        sp_match_axis(n, 0, dims->rank) != dims->rank - 1 ||
        !sp_expr_is_const(dims->dim[dims->rank - 1], &size))
        return false;
    *column = (int64_t)c < 0 ? (int64_t)c + size : (int64_t)c;
    if (*column < 0 || *column >= size) return false; /* the Gather will say so when it runs */
    *matrix = n->in[0];
    return true;
}

static sparta_status look_up(sp_match *m, sp_node *n)
{
    sp_value *in[] = {n->in[0], n->in[1]};
    int64_t column;
    if (is_column(n->in[1], &in[1], &column))
        return sp_match_become(m, n, SP_OP_Embed, 2, in, SP_ATTRS(SP_INT("column", column)));
    return sp_match_become(m, n, SP_OP_Embed, 2, in, NULL);
}

static bool has_column(const sp_node *n)
{
    return sp_attr_find(&n->attrs, "column") != NULL;
}

static sparta_status join(sp_match *m, sp_node *n)
{
    const sp_node *a = sp_match_made_by(n->in[0], SP_OP_Embed), *b = sp_match_made_by(n->in[1], SP_OP_Embed);
    sp_value *in[2 * TABLES];
    if (!a || !b || has_column(a) || has_column(b) || a->n_in + b->n_in > 2 * TABLES ||
        !sp_match_once(m, n->in[0]) || !sp_match_once(m, n->in[1]))
        return SPARTA_OK;
    if (!sp_expr_equal(a->in[0]->dims.dim[1], b->in[0]->dims.dim[1]))
        return SPARTA_OK; /* a table of one column would repeat */
    memcpy(in, a->in, (size_t)a->n_in * sizeof *in);
    memcpy(in + a->n_in, b->in, (size_t)b->n_in * sizeof *in);
    return sp_match_become(m, n, SP_OP_Embed, a->n_in + b->n_in, in, NULL);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    if (n->op == SP_OP_Gather && is_lookup(n)) return look_up(m, n);
    return n->op == SP_OP_Add ? join(m, n) : SPARTA_OK;
}

SP_MATCH_PASS(embed, visit)
