/* epilogue: what follows a Linear is done while its result is still in registers: activations and one residual or factor, in the order in
 * which they come (builtin/epilogue.h). */
#include "builtin/epilogue.h"
#include "compile/match.h"
#include "compile/passes.h"

typedef struct open_linear { /* one that has this one user and takes the word */
    const sp_node *node;
    sp_words words;
} open_linear;

static bool has_input(const sp_node *n, int i)
{
    return n->n_in > i && n->in[i];
}

static bool find_open(const sp_match *m, const sp_value *v, sp_word_id word, open_linear *out)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_Linear);
    const int slot = sp_word_row(word)->slot;
    *out = (open_linear){.node = n};
    return n && sp_match_once(m, v) && !(slot && has_input(n, slot)) &&
           !sp_words_of(&n->attrs, has_input(n, 2), has_input(n, 3), &out->words) &&
           out->words.n < SP_EPILOGUE_WORDS;
}

/* n becomes the Linear with one word more, which takes `operand` if it takes any. */
static sparta_status append(sp_match *m, sp_node *n, const open_linear *l, sp_word_id word, sp_value *operand)
{
    const int64_t transposed = sp_attr_int(&l->node->attrs, "transposed", 0);
    sp_value *in[4] = {NULL};
    int n_in = l->node->n_in;
    const char *list = "";
    for (int i = 0; i < n_in; i++) in[i] = l->node->in[i];
    if (operand) in[sp_word_row(word)->slot] = operand, n_in = 4;
    for (int i = 0; i <= l->words.n && list; i++)
        list = sp_arena_printf(m->g->arena, "%s%s%s", list, i ? " " : "",
                               sp_word_row(i < l->words.n ? l->words.word[i] : word)->name);
    SP_NEED(m->g->cx, list);
    SP_TRY(sp_match_rename(m, n, l->node->name));
    return sp_match_become(m, n, SP_OP_Linear, n_in, in,
                           SP_ATTRS(SP_INT("transposed", transposed), SP_STRING("epilogue", list)));
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    const int word = sp_word_of(n->op, &n->attrs);
    open_linear l;
    if (word < 0) return SPARTA_OK;
    if (!sp_word_row((sp_word_id)word)->slot)
        return find_open(m, n->in[0], (sp_word_id)word, &l) ? append(m, n, &l, (sp_word_id)word, NULL)
                                                            : SPARTA_OK;
    for (int i = 0; i < 2; i++) {
        sp_value *other = n->in[1 - i];
        if (!other->constant && sp_match_same_dims(other, n->in[i]) && other->dtype == n->in[i]->dtype &&
            find_open(m, n->in[i], (sp_word_id)word, &l))
            return append(m, n, &l, (sp_word_id)word, other);
    }
    return SPARTA_OK;
}

SP_MATCH_PASS(epilogue, visit)
