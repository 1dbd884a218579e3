/* Making an operator: an implement takes the node of its expression, its weight is stored, and its kernel is prepared. */
#include "compile/operator.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ an implement and its weight */

/* The cheapest by its cost, or the first that matches. */
static const sp_implement *cheapest(sp_task *t)
{
    const sp_implement *best = NULL;
    char point[SP_POINT] = "";
    double least = 0;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int p = 0; im->kernel && p < sp_implement_points(im); p++) {
            if (!sp_implement_point(im, p, t) || !sp_implement_matches(im, t)) continue;
            const double cost = im->cost ? im->cost(t) : 0;
            if (best && cost >= least) continue;
            best = im, least = cost;
            snprintf(point, sizeof point, "%s", t->point);
        }
    }
    snprintf(t->point, sizeof t->point, "%s", point);
    return best;
}

_Static_assert(SP_COUNT(((sparta_arrays *)0)->pos) >= SP_LEVELS,
               "sparta_arrays holds all levels of a format");

static sparta_status packed_of(sparta_ctx *cx, const sparta_arrays *given, sp_packed *out)
{
    sparta_arrays a;
    SP_TRY(sp_options(cx, "operator: packed arrays", given, &a, sizeof a));
    *out = (sp_packed){.dtype = a.dtype, .rank = a.rank, .values = a.values};
    if (!memchr(a.format, 0, sizeof a.format))
        return sp_fail(cx, SPARTA_E_USAGE, "operator: the format of the packed arrays has no end");
    SP_TRY(sp_format_parse(cx, a.format, &out->format));
    if (out->format.sum || out->format.rank != a.rank)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "operator: \"%.100s\" is no format of one set of arrays for %d dims", a.format,
                       a.rank);
    memcpy(out->dim, a.dim, sizeof out->dim);
    memcpy(out->pos, a.pos, sizeof out->pos);
    memcpy(out->crd, a.crd, sizeof out->crd);
    for (int i = 0; i < SP_LEVELS; i++) {
        SP_TRY(sp_tensor_on_cpu(cx, &out->pos[i], "packed array", "pos"));
        SP_TRY(sp_tensor_on_cpu(cx, &out->crd[i], "packed array", "crd"));
    }
    SP_TRY(sp_tensor_on_cpu(cx, &out->values, "packed array", "values"));
    return sp_packed_verify(cx, out);
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
    t->format = text;
    return SPARTA_OK;
}

static sparta_status choose(making *m, sp_task *t, const sp_implement **im)
{
    const int w = m->weight;
    const char *format = m->spec->format;
    sp_format f;
    if (w >= 0 && sp_operator_packed(m, w)) {
        SP_TRY(packed_of(m->cx, m->spec->packed[w], &m->op->packed));
        const sp_node *n = m->op->graph->node[0];
        const bool transposed = sp_attr_int(&n->attrs, "transposed", 0);
        if (!transposed)
            return sp_fail(m->cx, SPARTA_E_UNSUPPORTED, "operator: a weight in a format is (n, k): w(%s,%s)",
                           m->ref[0].index[m->ref[0].rank - 1], m->ref[w].index[0]);
        *t = (sp_task){.node = n, .n = m->op->packed.dim[0], .k = m->op->packed.dim[1]};
        for (int i = 0; i < 2; i++)
            if (m->op->packed.dim[i] != m->spec->operand[w].dim[i])
                return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: the arrays of %s are of another shape",
                               m->ref[w].name);
        return by_format(m, &m->op->packed.format, m->spec->packed[w]->format, t, im);
    }
    SP_TRY(sp_implement_task(m->cx, m->op->graph->node[0], 0, t));
    if (w >= 0 && format) {
        SP_TRY(sp_format_parse(m->cx, format, &f));
        SP_TRY(by_format(m, &f, format, t, im));
    } else
        *im = cheapest(t);
    if (*im && (*im)->format) {
        sparta_tensor dense;
        if (!sp_implement_weight(t->node, &dense))
            return sp_fail(m->cx, SPARTA_E_INTERNAL, "operator: no weight to pack");
        if (!format) SP_TRY(sp_implement_format(m->cx, *im, t, &f));
        SP_TRY(sp_store_pack(m->cx, &f, &dense, (*im)->sparse ? t->mask : NULL, &m->op->packed));
        m->op->owned = true;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ code */

static sparta_status say_why(making *m, const sp_implement *im, sp_target target)
{
    sp_text format;
    sp_text_init(&format, m->cx);
    if (im->format) sp_format_print(&m->op->packed.format, &format);
    const sparta_status s = format.status;
    snprintf(m->op->reason, sizeof m->op->reason, "%s%s%.300s, %s", im->name,
             im->format ? ", weight as " : "", sp_text_str(&format), sp_target_name(target));
    sp_text_free(&format);
    return s;
}

static sparta_status load(making *m, const sp_implement *im, const sp_task *t)
{
    const sp_target target = sp_target_best(SP_DEVICE_CPU);
    sparta_operator *op = m->op;
    sp_text parameters;
    sp_text_init(&parameters, m->cx);
    if (im->parameters) im->parameters(im, t, &parameters);
    sparta_status s = parameters.status;
    if (s == SPARTA_OK)
        s = sp_implement_code(m->cx, im->kernel, sp_text_str(&parameters), target, &op->object[0]);
    sp_text_free(&parameters);
    SP_TRY(s);
    SP_TRY(sp_implement_code(m->cx, "pack", "", target, &op->object[1]));
    SP_TRY(sp_implement_code(m->cx, "unpack", "", target, &op->object[2]));
    void *pack = op->object[1] ? sp_jit_symbol(op->object[1], "sp_kernel_pack") : NULL,
         *unpack = op->object[2] ? sp_jit_symbol(op->object[2], "sp_kernel_unpack") : NULL;
    op->pack = pack ? (sp_entry)(uintptr_t)pack : sp_panel_pack.portable;
    op->unpack = unpack ? (sp_entry)(uintptr_t)unpack : sp_panel_unpack.portable;
    SP_TRY(say_why(m, im, op->object[0] ? target : SP_TARGET_PORTABLE));
    return sp_call_bind(m->cx, op->arena, op->graph->node[0], im->kernel, op->object[0], &op->call);
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
    const sp_implement *im = NULL;
    sp_task t = {0};
    SP_TRY(sp_operator_graph(m));
    if (!is_run(m->op->graph->node[0]->op))
        return sp_fail(
            m->cx, SPARTA_E_UNSUPPORTED,
            "operator: %s does not run by itself yet; products, sparta::Attention and LayerNormalization do",
            sp_builtin_row(m->op->graph->node[0]->op)->name);
    sparta_status s = choose(m, &t, &im);
    if (s == SPARTA_OK && (!im || !im->kernel))
        s = sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                    "operator: no kernel runs \"%.100s\" with these types and sizes (f32; features and "
                    "weights known)",
                    m->spec->expression);
    if (s == SPARTA_OK) s = load(m, im, &t);
    if (s == SPARTA_OK) s = bind(m);
    sp_implement_task_free(m->cx, &t);
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
    m.op->arena = sp_arena_create(cx);
    const sparta_status s = m.op->arena ? make(&m) : sp_ctx_status(cx);
    if (s == SPARTA_OK)
        *out = m.op;
    else
        sparta_operator_free(m.op);
    return s;
}
