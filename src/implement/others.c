/* The rows of what is no product: the rest of a transformer and of a recommender, on panels; conversions; and the reference. */
#include "implement/implement.h"

/* ------------------------------------------------------------------ attention */

/* Of one head of input i; 0: none. */
static int64_t head_rows(const sp_node *n, int i)
{
    const int64_t all = sp_attr_int(&n->attrs, "heads", 0),
                  heads = i ? sp_attr_int(&n->attrs, "kv_heads", all) : all;
    const sp_dims *x = &n->in[i]->dims;
    int64_t features = 0;
    sp_expr_is_const(x->dim[x->rank - 1], &features);
    if (x->rank == 4) return features;
    return heads > 0 && features % heads == 0 ? features / heads : 0;
}

/* Heads of q and k and those of v have any number of rows; k and v may lie as in a cache. */
static bool has_heads(const sp_node *n)
{
    for (int i = 0; i < 3; i++)
        if (!n->in[i] || (n->in[i]->dims.rank != 3 && !(i && n->in[i]->dims.rank == 4))) return false;
    if (n->n_in > 3 && n->in[3] && n->in[3]->dims.rank > 4) return false;
    return head_rows(n, 0) > 0 && head_rows(n, 2) > 0;
}

static bool has_list(const sp_node *n)
{
    return n->op == SP_OP_Attention && n->n_in > 4 && n->in[4];
}

bool sp_implement_listed(const sp_node *n, int64_t *blocks, int64_t *room)
{
    const int64_t block = SP_MAX(sp_attr_int(&n->attrs, "block", 1), 1);
    int64_t keys, most;
    if (!has_list(n)) return false;
    const sp_dims *k = &n->in[1]->dims;
    const bool known = sp_expr_is_const(k->dim[k->rank - 2], &keys) && keys > 0 &&
                       sp_expr_is_const(n->in[4]->dims.dim[3], &most);
    if (blocks) *blocks = known ? (keys - 1) / block + 1 : 0;
    if (room) *room = known ? most : 0;
    return true;
}

/* All heads of one panel of queries, scores kept in cache. */
static bool match_attention(const sp_task *t)
{
    const sp_node *n = t->node;
    return has_heads(n) && n->in[1]->dims.rank == 3 && n->in[2]->dims.rank == 3;
}

/* On rows: what lies in a cache, and few queries, which would leave most of a panel idle. */
static bool match_attention_rows(const sp_task *t)
{
    return has_heads(t->node) && !has_list(t->node) && (sp_implement_few(t) || !match_attention(t));
}

/* Where a Route lists blocks of keys; what is not listed is not read, so that 0 times an infinite value does not show. */
static bool match_attention_skip(const sp_task *t)
{
    return match_attention(t) && has_list(t->node) && !t->strict;
}

static void heads(const sp_implement *im, const sp_task *t, sp_text *out)
{
    const sp_attrs *a = &t->node->attrs;
    sp_text_printf(out, "DIM_K=%ld DIM_V=%ld NAN0=%d WINDOW=%d CAPPED=%d MASK=%d LISTED=%d",
                   (long)head_rows(t->node, 0), (long)head_rows(t->node, 2),
                   (int)sp_attr_int(a, "nan_to_zero", 0),
                   sp_attr_int(a, "left", -1) >= 0 || sp_attr_int(a, "right", -1) >= 0,
                   sp_attr_float(a, "softcap", 0) > 0, sp_attention_mask(t->node),
                   !has_list(t->node) ? SP_LIST_NONE
                   : im->sparse       ? SP_LIST_SKIP
                                      : SP_LIST_HIDE);
}

const sp_implement sp_implement_attention_skip = {.name = "attention_skip",
                                                  .sparse = true,
                                                  .kernel = "attention_skip",
                                                  .match = match_attention_skip,
                                                  .parameters = heads},
                   sp_implement_attention = {.name = "attention",
                                             .kernel = "attention",
                                             .match = match_attention,
                                             .parameters = heads},
                   sp_implement_attention_rows = {.name = "attention_rows",
                                                  .kernel = "attention_rows",
                                                  .match = match_attention_rows,
                                                  .parameters = heads};

/* ------------------------------------------------------------------ norm */

static bool is_vector(const sp_value *v, const sp_expr *features)
{
    return !v || (v->dims.rank == 1 && sp_expr_equal(v->dims.dim[0], features));
}

/* Normalisation of the last axis with constant gain and shift. */
static bool match_norm(const sp_task *t)
{
    const sp_node *n = t->node;
    if (!n->in[0]) return false;
    const int64_t axis = sp_attr_int(&n->attrs, "axis", -1);
    const int last = n->in[0]->dims.rank - 1;
    const sp_expr *features = n->in[0]->dims.dim[last];
    return (axis == -1 || axis == last) && n->in[1] && is_vector(n->in[1], features) &&
           is_vector(n->n_in > 2 ? n->in[2] : NULL, features);
}

const sp_implement sp_implement_norm = {.name = "norm", .kernel = "norm", .match = match_norm},
                   sp_implement_rms = {.name = "rms", .kernel = "rms", .match = match_norm};

/* ------------------------------------------------------------------ rotary */

/* Heads side by side, with tables that have a row for every token. */
static bool match_rotary(const sp_task *t)
{
    const sp_node *n = t->node;
    const int64_t heads = sp_attr_int(&n->attrs, "num_heads", 0);
    int64_t features;
    if (n->n_in != 3 || n->in[0]->dims.rank != 3 || heads < 1) return false;
    for (int i = 1; i < 3; i++)
        if (!n->in[i] || n->in[i]->dims.rank != 3) return false;
    for (int i = 1; i < 3; i++)
        for (int d = 0; d < 2; d++)
            if (!sp_expr_equal(n->in[0]->dims.dim[d], n->in[i]->dims.dim[d])) return false;
    return sp_expr_is_const(n->in[0]->dims.dim[2], &features) && features % heads == 0;
}

const sp_implement sp_implement_rotary = {.name = "rotary", .kernel = "rotary", .match = match_rotary};

/* ------------------------------------------------------------------ map */

/* Sums and products of two values of the same shape, and activations, element by element. */
static bool match_map(const sp_task *t)
{
    const sp_node *n = t->node;
    if (sp_word_of(n->op, &n->attrs) < 0) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->constant || !sp_dims_equal(&n->in[i]->dims, &n->out[0]->dims))
            return false;
    return true;
}

static void word(const sp_implement *im, const sp_task *t, sp_text *out)
{
    (void)im;
    const int id = sp_word_of(t->node->op, &t->node->attrs);
    sp_implement_epilogue(&(sp_words){id >= 0, {(sp_word_id)id}}, false, out);
}

const sp_implement sp_implement_map = {
    .name = "map", .kernel = "map", .match = match_map, .parameters = word};

/* ------------------------------------------------------------------ embed, interact */

/* Sums of rows of constant tables, written straight into panels. */
static bool match_embed(const sp_task *t)
{
    const sp_node *n = t->node;
    if (n->n_in % 2) return false;
    for (int i = 0; i < n->n_in; i += 2)
        if (!n->in[i] || !n->in[i + 1] || n->in[i]->dims.rank != 2) return false;
    return true;
}

const sp_implement sp_implement_embed = {.name = "embed", .kernel = "embed", .match = match_embed};

/* Dot products of vectors, two by two, item by item. */
static bool match_interact(const sp_task *t)
{
    const sp_node *n = t->node;
    const int vectors = n->n_in - 1;
    int where[SP_OPERANDS * SP_OPERANDS];
    if (vectors < 1 || !n->in[vectors]) return false;
    for (int i = 0; i < vectors; i++)
        if (!n->in[i] || n->in[i]->constant) return false;
    return sp_panel_dots(n->in[vectors]->constant, vectors, 0, where);
}

const sp_implement sp_implement_interact = {
    .name = "interact", .kernel = "interact", .match = match_interact};

/* ------------------------------------------------------------------ conversions, and the reference */

/* Compile puts them where one reads rows of what lies in panels, or the other way round (compile/layout.c): they take nothing of their own accord. */
static bool match_conversion(const sp_task *t)
{
    return t->conversion;
}

const sp_implement sp_implement_to_lanes = {.name = "to_lanes",
                                            .kernel = "to_lanes",
                                            .match = match_conversion},
                   sp_implement_to_rows = {.name = "to_rows", .kernel = "to_rows", .match = match_conversion};

static bool match_all(const sp_task *t)
{
    (void)t;
    return true;
}

const sp_implement sp_implement_builtin = {.name = "builtin", .match = match_all};
