/* Where outputs go: views of the session's memory, copies into the caller's, or their types alone.
 *
 * Copies are made when everything has run. So an output may have the memory of an input: a cache that comes in and goes out is
 * updated in place, as the caller sees it. One that only grows is written there at once (append.c). */
#include "run/session.h"

static const sparta_tensor *result(const sparta_session *s, const char *name)
{
    return &s->value[sp_graph_find(s->plan, name)->id].tensor;
}

sparta_status sparta_session_run(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                                 int n_inputs, sparta_named_tensor *outputs, int n_outputs)
{
    SP_TRY(sp_session_for(cx, s, inputs, n_inputs, outputs, n_outputs, true, &s));
    SP_TRY(sp_session_prepare(cx, s));
    SP_TRY(sp_session_execute(cx, s));
    for (int i = 0; i < n_outputs; i++) outputs[i].tensor = *result(s, outputs[i].name);
    return SPARTA_OK;
}

sparta_status sparta_session_types(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                                   int n_inputs, sparta_named_tensor *outputs, int n_outputs)
{
    const sp_bindings sizes = {s->n_symbols, s->symbol, s->wanted};
    int64_t dim[SPARTA_RANK];
    size_t bytes;
    SP_TRY(sp_session_look(cx, s, inputs, n_inputs, outputs, n_outputs, false));
    SP_TRY(sp_graph_check_musts(cx, s->plan, &sizes));
    for (int written = 0; written < 2; written++) /* all can be told before one is */
        for (int i = 0; i < n_outputs; i++) {
            const sp_value *v = sp_graph_find(s->plan, outputs[i].name);
            if (sp_dims_eval(cx, &v->dims, &sizes, dim) != SPARTA_OK) return sp_fail_in(cx, "%s", v->name);
            SP_TRY(sp_tensor_bytes(cx, v->dtype, v->dims.rank, dim, &bytes));
            if (written) outputs[i].tensor = sparta_tensor_view(v->dtype, v->dims.rank, dim, NULL);
        }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ into the caller's memory */

static sparta_status fits(sparta_ctx *cx, const sparta_named_tensor *o, const sparta_tensor *made)
{
    SP_TRY(sp_tensor_on_cpu(cx, &o->tensor, "output", o->name));
    if (o->tensor.dtype != made->dtype)
        return sp_fail(cx, SPARTA_E_DTYPE, "output '%s': it is %s and the memory for it %s; give that type",
                       o->name, sparta_dtype_name(made->dtype), sparta_dtype_name(o->tensor.dtype));
    if (!sp_tensor_same_shape(&o->tensor, made)) {
        sp_text is, given;
        sp_text_init(&is, cx), sp_text_init(&given, cx);
        sp_tensor_print_shape(made, &is), sp_tensor_print_shape(&o->tensor, &given);
        const sparta_status s =
            sp_fail(cx, SPARTA_E_SHAPE,
                    "output '%s': it is %s at these inputs and the memory for it %s; sparta_session_types "
                    "tells what it will be",
                    o->name, sp_text_str(&is), sp_text_str(&given));
        sp_text_free(&is), sp_text_free(&given);
        return s;
    }
    if (!o->tensor.data && sparta_tensor_elements(made))
        return sp_fail(cx, SPARTA_E_USAGE, "output '%s': there is no memory for it; give some", o->name);
    return SPARTA_OK;
}

/* An output that is an input as it came: its memory may be where another output goes, so it is put aside first. */
static sparta_status put_aside(sparta_ctx *cx, const sparta_session *s, const sparta_named_tensor *o,
                               sparta_tensor *out)
{
    const sparta_tensor *t = result(s, o->name);
    if (!sp_graph_find(s->plan, o->name)->is_input) {
        *out = *t;
        return SPARTA_OK;
    }
    SP_TRY(sp_tensor_alloc(cx, t->dtype, t->rank, t->dim, out));
    return sp_tensor_copy(cx, t, out);
}

static sparta_status hand_out(sparta_ctx *cx, const sparta_session *s, const sparta_named_tensor *outputs,
                              int n, sparta_tensor *from)
{
    for (int i = 0; i < n; i++) SP_TRY(put_aside(cx, s, &outputs[i], &from[i]));
    for (int i = 0; i < n; i++) {
        const run_value *r = &s->value[sp_graph_find(s->plan, outputs[i].name)->id];
        if (!r->lent || outputs[i].tensor.data != r->tensor.data)
            SP_TRY(sp_tensor_copy(cx, &from[i], &outputs[i].tensor));
    }
    return SPARTA_OK;
}

sparta_status sparta_session_run_into(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                                      int n_inputs, const sparta_named_tensor *outputs, int n_outputs)
{
    SP_TRY(sp_session_for(cx, s, inputs, n_inputs, outputs, n_outputs, true, &s));
    SP_TRY(sp_session_prepare(cx, s));
    for (int i = 0; i < n_outputs; i++) SP_TRY(fits(cx, &outputs[i], result(s, outputs[i].name)));
    sparta_tensor *from = sp_alloc_array(cx, (size_t)n_outputs, sizeof *from);
    SP_NEED(cx, from);
    sp_session_lend(s, outputs, n_outputs);
    sparta_status status = sp_session_execute(cx, s);
    if (status == SPARTA_OK) status = hand_out(cx, s, outputs, n_outputs, from);
    sp_session_take_back(s);
    for (int i = 0; i < n_outputs; i++)
        if (sp_graph_find(s->plan, outputs[i].name)->is_input) sp_free(cx, from[i].data);
    sp_free(cx, from);
    return status;
}
