/* Several plans in one package: what is fastest for one token is not for a thousand. Each plan has a session of its own, on the same threads;
 * a run looks at its inputs, counts the tokens that products will see, and takes the plan that was made for so many. */
#include "run/session.h"

/* Values that products read, one for each way to count their tokens. */
static sparta_status find_products(sparta_session *s)
{
    const sp_graph *g = s->plan;
    s->product = sp_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *s->product);
    SP_NEED(s->cx, s->product);
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        bool known = !sp_node_is_fused(n) || !n->n_in || !n->in[0] || n->in[0]->dims.rank < 2;
        for (int k = 0; k < s->n_products && !known; k++)
            known = sp_session_same_tokens(s->product[k], n->in[0]);
        if (!known) s->product[s->n_products++] = n->in[0];
    }
    return SPARTA_OK;
}

sparta_status sp_session_others(sparta_session *s, const sparta_session_options *options)
{
    const sparta_package *p = s->package;
    if (!p->n_others) return SPARTA_OK;
    SP_TRY(find_products(s));
    s->other = sp_arena_array(s->arena, (size_t)p->n_others, sizeof *s->other);
    SP_NEED(s->cx, s->other);
    for (int i = 0; i < p->n_others; i++) {
        const sp_other_plan *o = &p->other[i];
        s->other[i] = (run_other){.least = o->least, .most = o->most};
        SP_TRY(sp_session_create(s->cx, p, o->plan, options, s->pool, &s->other[i].session));
        s->n_others++;
    }
    return SPARTA_OK;
}

/* The most tokens that a product has at the sizes of this run; 0: there is none, or more than a number can say. */
static sparta_status count_tokens(sparta_ctx *cx, const sparta_session *s, int64_t *out)
{
    const sp_bindings sizes = {s->n_symbols, s->symbol, s->wanted};
    *out = 0;
    for (int i = 0; i < s->n_products; i++) {
        const sp_dims *d = &s->product[i]->dims;
        int64_t dim[SPARTA_RANK], tokens = 1;
        SP_TRY(sp_dims_eval(cx, d, &sizes, dim));
        for (int k = 0; k + 1 < d->rank; k++)
            if (!sp_int_mul(tokens, dim[k], &tokens)) tokens = INT64_MAX;
        *out = SP_MAX(*out, tokens);
    }
    return SPARTA_OK;
}

static sparta_session *plan_for(sparta_session *s, int64_t tokens)
{
    if (s->only >= 0) return s->only ? s->other[s->only - 1].session : s;
    for (int i = 0; i < s->n_others; i++)
        if (tokens >= s->other[i].least && tokens <= s->other[i].most) return s->other[i].session;
    return s;
}

sparta_status sp_session_for(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                             int n_inputs, const sparta_named_tensor *outputs, int n_outputs, bool data,
                             sparta_session **out)
{
    int64_t tokens;
    *out = s->last = s;
    SP_TRY(sp_session_look(cx, s, inputs, n_inputs, outputs, n_outputs, data));
    if (!s->n_others) return SPARTA_OK;
    SP_TRY(count_tokens(cx, s, &tokens));
    *out = s->last = plan_for(s, tokens);
    return *out == s ? SPARTA_OK : sp_session_look(cx, *out, inputs, n_inputs, outputs, n_outputs, data);
}
