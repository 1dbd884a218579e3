/* Making an operator: an implement takes the node of its expression, its weight is stored, and its kernel is prepared. */
#include "compile/operator.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ an implement and its weight */

/* As compile chooses for a node of a model: by the cost model, or on the bed. */
static sparta_status contest(making *m, lower_node *ln)
{
    const sp_compile_request request = {.options = {.size = sizeof request.options}};
    lowering l = {.cx = m->cx,
                  .arena = m->op->arena,
                  .g = m->op->graph,
                  .request = &request,
                  .no_measure = !m->spec->tune};
    SP_TRY(sp_lower_targets(m->cx, NULL, &l.targets));
    memcpy(l.target, l.targets.main, sizeof l.target);
    SP_TRY(sp_compile_usual_sizes(m->cx, l.arena, l.g, &l.sizes));
    sparta_status s = m->spec->tune ? sp_tune_open(m->cx, m->spec->db, &l.db) : SPARTA_OK;
    if (s == SPARTA_OK) s = sp_lower_contest(&l, ln);
    for (int i = 0; i < l.n_kernels; i++)
        if (l.kernel[i].object) sp_jit_close(l.kernel[i].object);
    if (l.db) sp_tune_close(l.db);
    return s;
}

/* The implement that stores a weight in a format that was asked for. */
static sparta_status by_format(making *m, const sp_format *f, const char *text, sp_task *t,
                               const sp_implement **im)
{
    SP_TRY(sp_implement_for_format(m->cx, f, true, t->n, t->k, im));
    if (*im && (*im)->sparse && sp_ctx_strict(m->cx))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                       "operator: %.100s skips products with 0, which a strict context does not allow", text);
    t->asked = true;
    if (!sp_implement_stores_any(*im)) return SPARTA_OK; /* no other needs it */
    return sp_implement_ask(m->cx, text, NULL, sp_target_best(SP_DEVICE_CPU), t);
}

/* What the spec asks for by name. */
static sparta_status by_name(making *m, sp_effect *pin)
{
    const char *name = m->spec->implement, *point = m->spec->point;
    pin->implement = sp_implement_find(name);
    if (!pin->implement || !pin->implement->kernel)
        return sp_fail(m->cx, SPARTA_E_USAGE, "operator: there is no implement '%.60s'", name);
    if (point) SP_TRY(sp_implement_has_point(m->cx, pin->implement, point, pin->n, pin->k));
    pin->point = point ? point : "";
    return SPARTA_OK;
}

/* The pin of a product, if something is asked for: an implement, or the one that stores a format. */
static sparta_status find_pin(making *m, sp_task *t, sp_effect *pin)
{
    const char *format = m->spec->format;
    sp_format f;
    sp_text text;
    *pin = (sp_effect){.n = t->n, .k = t->k, .point = ""};
    if (format && m->spec->implement)
        return sp_fail(m->cx, SPARTA_E_USAGE,
                       "operator: both a format and an implement, which has its own; leave one out");
    if (m->spec->implement) return by_name(m, pin);
    if (!format) return SPARTA_OK;
    SP_TRY(sp_format_parse(m->cx, format, &f));
    SP_TRY(by_format(m, &f, format, t, &pin->implement));
    sp_text_init(&text, m->cx);
    sp_format_print(&f, &text);
    pin->format = text.status ? NULL : sp_arena_string(m->op->arena, sp_text_str(&text));
    sp_text_free(&text);
    SP_NEED(m->cx, pin->format);
    if (t->format) t->format = pin->format;
    return SPARTA_OK;
}

/* A dense weight: the implement for it, and the weight as that stores it. */
static sparta_status choose_dense(making *m, lower_node *ln)
{
    sp_effect pin;
    SP_TRY(find_pin(m, &ln->task, &pin));
    ln->task.asked = pin.implement != NULL;
    ln->pin = pin.implement ? &pin : NULL;
    sparta_status s = contest(m, ln);
    ln->pin = NULL;
    SP_TRY(s);
    if (pin.implement && (!ln->im || !sp_lower_meets(&pin, ln->im)))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                       "operator: %s%s%s does not run \"%.100s\" with these types and sizes",
                       pin.implement->name, *pin.point ? " at " : "", pin.point, m->spec->expression);
    if (!ln->im || !ln->im->format) return SPARTA_OK;
    sparta_tensor dense;
    sp_format f;
    m->op->owned = true;
    if (ln->packed) { /* it was timed with it */
        m->op->packed = *ln->packed;
        ln->packed = NULL;
        return SPARTA_OK;
    }
    if (!sp_implement_weight(ln->node, &dense))
        return sp_fail(m->cx, SPARTA_E_INTERNAL, "operator: no weight to pack");
    SP_TRY(sp_implement_format(m->cx, ln->im, &ln->task, &f));
    return sp_store_pack(m->cx, &f, &dense, ln->im->sparse ? ln->task.mask : NULL, &m->op->packed);
}

/* Arrays of the caller: the implement is the one that stores their format. */
static sparta_status choose_packed(making *m, int w, lower_node *ln)
{
    const sp_node *n = ln->node;
    SP_TRY(sp_store_arrays(m->cx, m->spec->packed[w], &m->op->packed));
    if (m->spec->implement || m->spec->format || m->spec->tune)
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                       "operator: the format of packed arrays says what runs them; leave implement, format "
                       "and tune out");
    if (!sp_attr_int(&n->attrs, "transposed", 0))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED, "operator: a weight in a format is (n, k): w(%s,%s)",
                       m->ref[0].index[m->ref[0].rank - 1], m->ref[w].index[0]);
    ln->task = (sp_task){.node = n, .n = m->op->packed.dim[0], .k = m->op->packed.dim[1]};
    for (int i = 0; i < 2; i++)
        if (m->op->packed.dim[i] != m->spec->operand[w].dim[i])
            return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: the arrays of %s are of another shape",
                           m->ref[w].name);
    SP_TRY(by_format(m, &m->op->packed.format, m->spec->packed[w]->format, &ln->task, &ln->im));
    /* The walker notes values when it is made, and these may change. */
    if (sp_implement_stores_any(ln->im) && ln->task.special) ln->im = &sp_implement_generated_linear;
    return SPARTA_OK;
}

static sparta_status choose(making *m, lower_node *ln)
{
    const int w = m->weight;
    if (m->spec->point && !m->spec->implement)
        return sp_fail(m->cx, SPARTA_E_USAGE, "operator: a point is one of an implement: say which");
    ln->node = m->op->graph->node[0];
    if (w >= 0 && sp_operator_packed(m, w)) return choose_packed(m, w, ln);
    SP_TRY(sp_lower_task(m->cx, m->op->graph, ln->node, sp_target_best(SP_DEVICE_CPU), ln));
    ln->task.generated = 0; /* operators are what has a kernel of its own */
    if (ln->task.mask && sp_implement_tokens(ln->node->in[0])) return choose_dense(m, ln);
    if (m->spec->implement || m->spec->tune)
        return sp_fail(
            m->cx, SPARTA_E_UNSUPPORTED,
            "operator: only products have implements to choose from; leave implement and tune out");
    ln->im = sp_lower_first(&ln->task, false);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ code */

static sparta_status say_why(making *m, const lower_node *ln, sp_target target)
{
    sp_text format;
    sp_text_init(&format, m->cx);
    if (ln->im->format) sp_format_print(&m->op->packed.format, &format);
    const sparta_status s = format.status;
    snprintf(m->op->reason, sizeof m->op->reason, "%s%s%s%s%.300s, %s%s%s", ln->im->name,
             *ln->task.point ? " at " : "", ln->task.point, ln->im->format ? ", weight as " : "",
             sp_text_str(&format), sp_target_name(target), *ln->source ? ", chosen by: " : "", ln->source);
    sp_text_free(&format);
    return s;
}

static sparta_status load(making *m, const lower_node *ln)
{
    const sp_implement *im = ln->im;
    const sp_target target = sp_target_best(SP_DEVICE_CPU);
    sparta_operator *op = m->op;
    sp_text parameters;
    sp_text_init(&parameters, m->cx);
    if (im->parameters) im->parameters(im, &ln->task, &parameters);
    sparta_status s = parameters.status;
    if (s == SPARTA_OK)
        s = sp_implement_code(m->cx, im->kernel, sp_text_str(&parameters), target, &op->object[0]);
    sp_text_free(&parameters);
    SP_TRY(s);
    SP_TRY(sp_implement_code(m->cx, "to_lanes", "", target, &op->object[1]));
    SP_TRY(sp_implement_code(m->cx, "to_rows", "", target, &op->object[2]));
    void *lanes = op->object[1] ? sp_jit_symbol(op->object[1], "sp_kernel_to_lanes") : NULL,
         *rows = op->object[2] ? sp_jit_symbol(op->object[2], "sp_kernel_to_rows") : NULL;
    op->to_lanes = lanes ? (sp_entry)(uintptr_t)lanes : sp_panel_to_lanes.portable;
    op->to_rows = rows ? (sp_entry)(uintptr_t)rows : sp_panel_to_rows.portable;
    SP_TRY(say_why(m, ln, op->object[0] ? target : SP_TARGET_PORTABLE));
    SP_TRY(sp_call_bind(m->cx, op->arena, op->graph->node[0], im->kernel, op->object[0], &op->call));
    op->call.job.text = sp_implement_function_name(im, &ln->task);
    if (!op->owned && op->packed.rank && op->call.kernel == &sp_panel_walk)
        return sp_fail(
            m->cx, SPARTA_E_UNSUPPORTED,
            "operator: only generated code reads arrays of this format where they lie, and there is no "
            "compiler here, or it does not take the format; give the weight dense, with a format");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ all of it */

static void note_late(making *m, int operand, int at)
{
    sp_late *l = &m->op->late[m->op->n_late++];
    const operator_ref *o = &m->ref[operand];
    snprintf(l->name, sizeof l->name, "%s", o->name);
    l->at = at;
    l->dtype = m->spec->operand[operand].dtype;
    l->rank = o->rank;
    for (int k = 0; k < o->rank; k++) l->size[k] = sp_operator_size(m, o->index[k]);
}

/* Constants are bound now, the others with each run, in the order of the expression. */
static sparta_status bind(making *m)
{
    sparta_operator *op = m->op;
    sp_job *j = &op->call.job;
    const sp_layout result = sp_slot_layout(&op->call.kernel->slots.out, SP_LAYOUT_ROWS);
    note_late(m, 0, -1);
    for (int operand = 1; operand < m->n; operand++)
        for (int i = 0; i < m->n_in; i++) {
            const sp_slot *slot = sp_panel_slot(op->call.kernel, j->n_in, i);
            if (m->input[i] != operand) continue;
            if (!slot)
                return sp_fail(m->cx, SPARTA_E_UNSUPPORTED, "operator: %s is one operand too many",
                               m->ref[operand].name);
            j->in[i] = (sp_operand){.layout = sp_slot_layout(slot, result),
                                    .tensor = m->spec->operand[operand],
                                    .packed = &op->packed};
            if (j->in[i].layout == SP_LAYOUT_PACKED) continue;
            if (!sp_operator_constant(m, operand)) {
                op->beyond |= slot->beyond;
                note_late(m, operand, i);
            } else if (!slot->constant)
                return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                               "operator: %s cannot be constant: it comes with each run",
                               m->ref[operand].name);
        }
    j->out[0] = (sp_operand){.layout = result, .tensor = m->spec->operand[0]};
    SP_TRY(sp_panel_prepare(m->cx, op->arena, op->call.kernel, j));
    return sp_operator_try(m->cx, op);
}

static bool is_run(sp_op_id op)
{
    return op == SP_OP_Linear || op == SP_OP_Attention || op == SP_OP_LayerNormalization;
}

static sparta_status make(making *m)
{
    lower_node ln = {.kernel = -1};
    SP_TRY(sp_operator_graph(m));
    if (!is_run(m->op->graph->node[0]->op))
        return sp_fail(
            m->cx, SPARTA_E_UNSUPPORTED,
            "operator: %s does not run by itself yet; products, sparta::Attention and LayerNormalization do",
            sp_builtin_row(m->op->graph->node[0]->op)->name);
    sparta_status s = choose(m, &ln);
    if (s == SPARTA_OK && (!ln.im || !ln.im->kernel))
        s = sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                    "operator: no kernel runs \"%.100s\" with these types and sizes (f32; features and "
                    "weights known)",
                    m->spec->expression);
    if (s == SPARTA_OK) s = load(m, &ln);
    if (s == SPARTA_OK) s = bind(m);
    sp_lower_forget(m->cx, &ln);
    return s;
}

sparta_status sparta_operator_create(sparta_ctx *cx, const sparta_operator_spec *given, sparta_operator **out)
{
    sparta_operator_spec spec;
    SP_TRY(sp_options(cx, "operator", given, &spec, sizeof spec));
    if (!spec.expression || !spec.operand)
        return sp_fail(cx, SPARTA_E_USAGE, "operator: an expression and its operands are needed");
    making m = {.cx = cx, .spec = &spec};
    m.op = sp_zalloc(cx, sizeof *m.op);
    SP_NEED(cx, m.op);
    m.op->cx = cx;
    m.op->share_from = SP_SHARE_FROM;
    m.op->arena = sp_arena_create(cx);
    const sparta_status s = m.op->arena ? make(&m) : sp_ctx_status(cx);
    if (s == SPARTA_OK)
        *out = m.op;
    else
        sparta_operator_free(m.op);
    return s;
}
