/* Sizes into addresses: dims are evaluated, buffers placed, operands bound. Runs when a session sees new sizes. */
#include "run/session.h"
#include <string.h>

/* Rows for statistics behind those of a value, two a thread. */
static int64_t stat_rows(const sparta_session *s, const run_value *r)
{
    return r->stat ? 2 * (int64_t)s->threads : 0;
}

static sparta_status measure(sparta_ctx *cx, const sparta_session *s, run_value *r)
{
    const sparta_tensor lain = r->local ? sp_panel_one(&r->tensor) : r->tensor;
    size_t bytes;
    bool fits = true;
    if (sp_session_in_lanes(r))
        fits = sp_lanes_of(r->layout, &lain, stat_rows(s, r), &r->lanes, &bytes);
    else
        SP_TRY(sp_tensor_bytes(cx, r->tensor.dtype, r->tensor.rank, r->tensor.dim, &bytes));
    if (!fits || !sp_size_align(bytes, 64, &r->bytes) || r->bytes > RUN_MOST_BYTES)
        return sp_fail(cx, SPARTA_E_LIMIT, "%s: too large", r->value->name);
    return SPARTA_OK;
}

static sparta_status evaluate(sparta_ctx *cx, sparta_session *s)
{
    const sp_bindings b = {s->n_symbols, s->symbol, s->size};
    SP_TRY(sp_graph_check_musts(cx, s->plan, &b));
    for (int i = 0; i < s->n_values; i++) {
        run_value *r = &s->value[i];
        if (r->producer < 0 && r->parent < 0 && !r->value->is_input) continue;
        int64_t dim[SPARTA_RANK];
        void *data = r->tensor.data;
        if (r->sized) continue;
        if (sp_dims_eval(cx, &r->value->dims, &b, dim) != SPARTA_OK)
            return sp_fail_in(cx, "%s", r->value->name);
        size_t bytes;
        SP_TRY(sp_tensor_bytes(cx, r->value->dtype, r->value->dims.rank, dim, &bytes));
        r->tensor =
            sparta_tensor_view(r->value->dtype, r->value->dims.rank, dim, r->value->is_input ? data : NULL);
        r->sized = !r->value->is_input && sp_dims_const(&r->value->dims, dim);
    }
    return SPARTA_OK;
}

/* Views in rows have as many elements as what they show. */
static sparta_status check_views(sparta_ctx *cx, const sparta_session *s)
{
    for (int i = 0; i < s->n_values; i++) {
        const run_value *r = &s->value[i];
        if (r->parent < 0 || sp_session_in_lanes(r)) continue;
        const run_value *root = &s->value[r->parent];
        if (sparta_tensor_elements(&r->tensor) != sparta_tensor_elements(&root->tensor))
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: %ld elements out of %ld", r->value->name,
                           (long)sparta_tensor_elements(&r->tensor),
                           (long)sparta_tensor_elements(&root->tensor));
    }
    return SPARTA_OK;
}

/* Has memory of its own: made by a step, not a view, not a product that is never stored. */
static bool is_stored(const sparta_session *s, const run_value *r)
{
    return r->producer >= 0 && r->parent < 0 && !s->step[r->producer].folded;
}

/* `base` is where the buffers lie, NULL while their size is not known. */
static sp_operand operand_of(const sparta_session *s, char *base, const sp_value *v, const sp_operand *was)
{
    sp_operand o = *was;
    if (!v) return o;
    const run_value *r = &s->value[v->id], *root = r->parent >= 0 ? &s->value[r->parent] : r;
    o.tensor = r->tensor;
    o.lookup = sp_session_is_lookup(s, v) ? &s->step[r->producer].call.job : NULL;
    if (sp_layout_has_lanes(o.layout)) {
        o.row0 = r->row0;
        o.slotted = root->local;
        o.lanes = root->lanes;
        if (root->local) o.lanes.panel = (int64_t)(s->slot_bytes / 4);
        float *first = base ? (float *)(void *)(base + (root->local ? s->slots_at : 0) + root->offset) : NULL;
        o.at = first ? first + r->row0 * o.lanes.row : NULL;
        o.stat = first && root->stat ? first + (o.lanes.rows - stat_rows(s, root)) * o.lanes.row : NULL;
    }
    return o;
}

static sparta_status bind(sparta_ctx *cx, sparta_session *s, char *base, size_t *work)
{
    for (int i = 0; i < s->n_values; i++) {
        run_value *r = &s->value[i];
        if ((r->producer < 0 && r->parent < 0) || sp_session_in_lanes(r)) continue;
        const run_value *root = r->parent >= 0 ? &s->value[r->parent] : r;
        r->tensor.data = base ? base + root->offset : NULL;
    }
    for (int i = 0; i < s->n_steps; i++) {
        run_step *step = &s->step[i];
        sp_job *j = &step->call.job;
        for (int k = 0; k < j->n_in; k++) j->in[k] = operand_of(s, base, step->reads[k], &j->in[k]);
        for (int k = 0; k < j->n_out; k++) j->out[k] = operand_of(s, base, step->writes[k], &j->out[k]);
        if (base) continue; /* its sizes were looked at before there was memory */
        sp_call_ops(&step->call, &step->ops, &step->dense_ops);
        if (!step->call.kernel) continue;
        sp_call_tokens(&step->call);
        if (!j->tokens) continue; /* a batch or a sequence of none: it will not run */
        SP_TRY(step->call.kernel->check(cx, j));
        if (step->call.kernel->work) *work = SP_MAX(*work, step->call.kernel->work(j));
        if (step->product >= 0 && s->step[step->product].folded) *work = SP_MAX(*work, sp_head_work(j));
    }
    return SPARTA_OK;
}

static sparta_status place_all(sparta_ctx *cx, sparta_session *s, size_t *arena_bytes)
{
    run_value **list = sp_alloc_array(cx, (size_t)s->n_values + 1, sizeof *list);
    SP_NEED(cx, list);
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < s->n_values && status == SPARTA_OK; i++)
        if (is_stored(s, &s->value[i])) status = measure(cx, s, &s->value[i]);
    for (int local = 0; local < 2 && status == SPARTA_OK; local++) {
        int n = 0;
        for (int i = 0; i < s->n_values; i++)
            if (is_stored(s, &s->value[i]) && s->value[i].local == local) list[n++] = &s->value[i];
        status = sp_session_place(cx, list, n, local ? &s->slot_bytes : arena_bytes);
    }
    sp_free(cx, list);
    return status;
}

/* Operations of a step at the present sizes. */
static double work_of(const sparta_session *s, const run_step *step)
{
    const sp_value *made = step->node->n_out ? step->node->out[0] : NULL;
    if (step->ops > 0) return step->ops;
    return made ? 16. * (double)sparta_tensor_elements(&s->value[made->id].tensor) : 0;
}

/* How many threads take part: bits of a few microseconds are not worth handing out, neither a run nor a step of it. What leaves statistics, and who
 * reads them, are shared alike. */
static void share_work(sparta_session *s)
{
    double all = 0;
    for (int i = 0; i < s->n_steps; i++) {
        run_step *step = &s->step[i];
        const double work = work_of(s, step);
        all += work;
        step->small = work < s->share_from / 10 && !step->call.job.stat;
    }
    s->team = all < s->share_from ? 1 : s->threads;
}

sparta_status sp_session_layout(sparta_ctx *cx, sparta_session *s)
{
    size_t arena_bytes = 0, slots, total, work = 0;
    s->laid_out = false;
    memcpy(s->size, s->wanted, (size_t)s->n_symbols * sizeof *s->size);
    SP_TRY(evaluate(cx, s));
    SP_TRY(check_views(cx, s));
    sp_session_groups(s);
    SP_TRY(place_all(cx, s, &arena_bytes));
    SP_TRY(bind(cx, s, NULL, &work)); /* once without memory: checks sizes, finds the scratch */
    s->work_bytes = (work + 127) & ~(size_t)63;
    s->slots_at = (arena_bytes + 4095) & ~(size_t)4095;
    s->slot_bytes = (s->slot_bytes + 4095) & ~(size_t)4095;
    if (!sp_size_mul(s->slot_bytes + s->work_bytes, (size_t)s->threads, &slots) ||
        !sp_size_add(s->slots_at, slots, &total))
        return sp_fail(cx, SPARTA_E_LIMIT, "run: the buffers are too large");
    s->work_at = s->slots_at + s->slot_bytes * (size_t)s->threads;
    if (total > s->buffer_bytes || total < s->buffer_bytes / 2) {
        /* what grows will grow again: a cache does with every token */
        const size_t more = s->buffer_bytes && total > s->buffer_bytes ? total / 4 : 0;
        if (!sp_size_add(total, more, &total))
            return sp_fail(cx, SPARTA_E_LIMIT, "run: the buffers are too large");
        sp_free(s->cx, s->buffer);
        s->buffer_bytes = 0;
        s->buffer = sp_zalloc(s->cx, total); /* the session's own, whoever runs it */
        if (!s->buffer)
            return sp_fail(cx, SPARTA_E_MEMORY, "run: buffers for these sizes: %s", sparta_message(s->cx));
        s->buffer_bytes = total;
    }
    SP_TRY(bind(cx, s, s->buffer, &work));
    share_work(s);
    s->laid_out = true;
    return SPARTA_OK;
}
