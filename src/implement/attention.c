/* attention: all heads of one panel of queries, scores kept in cache. Heads of q and k and those of v have any number of rows. */
#include "implement/implement.h"

/* Of one head of input i; 0: none. */
static int64_t head_rows(const sp_node *n, int i)
{
    const int64_t heads = sp_attr_int(&n->attrs, "heads", 0);
    int64_t features = 0;
    sp_expr_is_const(n->in[i]->dims.dim[2], &features);
    return heads > 0 && features % heads == 0 ? features / heads : 0;
}

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    for (int i = 0; i < 3; i++)
        if (!n->in[i] || n->in[i]->dims.rank != 3) return false;
    if (n->n_in > 3 && n->in[3] && n->in[3]->dims.rank > 4) return false;
    return head_rows(n, 0) > 0 && head_rows(n, 2) > 0;
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_text_printf(out, "DIM_K=%ld DIM_V=%ld NAN0=%d", (long)head_rows(t->node, 0),
                   (long)head_rows(t->node, 2), sp_attr_int(&t->node->attrs, "nan_to_zero", 0) != 0);
}

const sp_implement sp_implement_attention = {
    .name = "attention", .kernel = "attention", .match = match, .parameters = parameters};
