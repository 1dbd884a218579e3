/* map: sums of two values of the same shape, and activations, element by element on panels. */
#include "implement/implement.h"

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->constant || !sp_dims_equal(&n->in[i]->dims, &n->out[0]->dims))
            return false;
    return true;
}

static void parameters(const sp_task *t, sp_text *out)
{
    const int word = sp_word_of(t->node->op, &t->node->attrs);
    sp_implement_epilogue(&(sp_words){word >= 0, {(sp_word_id)word}}, false, out);
}

const sp_implement sp_implement_map = {
    .name = "map", .kernel = "map", .match = match, .parameters = parameters};
