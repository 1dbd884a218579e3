/* The reference of a step. Operands in rows are taken as they lie. What is generated for lanes and has no code here reads copies of them in rows,
 * and its results are copied back: slow, and right. */
#include "run/session.h"
#include <string.h>

/* Between the lanes of an operand and rows. */
static void copy(const sp_operand *o, const sparta_tensor *rows, bool to_rows)
{
    const int64_t tokens = sp_panel_tokens(rows), features = sp_panel_features(rows);
    const size_t size = sparta_dtype_size(rows->dtype);
    char *row = rows->data;
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t f = 0; f < features; f++, row += size) {
            char *lane = sp_lane_at(&o->lanes, rows->dtype, o->at, t, f);
            memcpy(to_rows ? row : lane, to_rows ? lane : row, size);
        }
}

/* One operand as the reference takes it. */
static sparta_status take(const sparta_session *s, const sp_node *n, sp_arena *arena, const sp_value *v,
                          const sp_operand *o, sparta_tensor *out)
{
    const run_value *r = v ? &s->value[v->id] : NULL;
    *out = r ? r->tensor : (sparta_tensor){.rank = -1};
    if (r && sp_session_in_lanes(r) && o && o->at)
        return sp_tensor_alloc_in(arena, r->tensor.dtype, r->tensor.rank, r->tensor.dim, out);
    if (r && !out->data)
        return sp_fail(sp_arena_ctx(arena), SPARTA_E_FORMAT, "%s: '%s' is not stored in rows", n->name,
                       v->name);
    return SPARTA_OK;
}

static sparta_status run(sparta_ctx *cx, const sparta_session *s, sp_arena *arena, const run_step *step)
{
    const sp_node *n = step->node;
    const sp_job *j = &step->call.job;
    for (int k = 0; k < n->n_in; k++) {
        SP_TRY(take(s, n, arena, n->in[k], k < j->n_in ? &j->in[k] : NULL, &step->in[k]));
        if (n->in[k] && sp_session_in_lanes(&s->value[n->in[k]->id])) copy(&j->in[k], &step->in[k], true);
    }
    for (int k = 0; k < n->n_out; k++)
        SP_TRY(take(s, n, arena, n->out[k], k < j->n_out ? &j->out[k] : NULL, &step->out[k]));
    SP_TRY(sp_call_quick(cx, n, step->in, step->out));
    for (int k = 0; k < n->n_out; k++)
        if (sp_session_in_lanes(&s->value[n->out[k]->id])) copy(&j->out[k], &step->out[k], false);
    return SPARTA_OK;
}

sparta_status sp_session_reference(sparta_ctx *cx, sparta_session *s, const run_step *step)
{
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    const sparta_status status = run(cx, s, arena, step);
    sp_arena_free(arena);
    return status;
}
