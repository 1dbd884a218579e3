/* Steps: one for each node of the transformed graph, with the list of its arguments. */
#include "emit/emit.h"
#include "format/walk.h"
#include "specialize/specialize.h"
#include "store/store.h"
#include <string.h>

/* ------------------------------------------------------------------ what is refused */
static sparta_status check_sizes(sparta_ctx *cx, const sp_node *n)
{
    for (int i = 0; i < sp_node_slots(n); i++) {
        const sp_value *v = sp_node_slot(n, i);
        int64_t size;
        for (int d = 0; v && d < v->dims.rank; d++) {
            if (!sp_expr_is_const(v->dims.dim[d], &size))
                return sp_fail(cx, SPARTA_E_USAGE,
                               "%s: dimension %d of %s is no number; fix its symbols with options.dims",
                               n->name, d, v->name);
            if (size < 1)
                return sp_fail(cx, SPARTA_E_UNSUPPORTED, "%s: %s has no elements; take it out of the graph",
                               n->name, v->name);
        }
    }
    return SPARTA_OK;
}

static sparta_status check_rows(sparta_specialized *s, const sp_node *n)
{
    for (int i = 0; i < sp_node_slots(n); i++)
        if (sp_specialize_asked(s, sp_node_slot(n, i)))
            return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                           "%s: %s takes its values row-major alone; leave the format of %s out", n->name,
                           sp_builtin_row(n->op)->name, sp_node_slot(n, i)->name);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ arguments */
static sparta_status add(sparta_specialized *s, sp_specialize_step *step, sparta_specialized_argument a,
                         int place)
{
    const int n = step->told.arguments;
    if (n == step->room) {
        const size_t more = 2 * (size_t)n + 8;
        sparta_specialized_argument *list = sp_arena_array(s->arena, more, sizeof *list);
        SP_NEED(s->cx, list);
        int *places = sp_arena_array(s->arena, more, sizeof *places);
        SP_NEED(s->cx, places);
        if (n) memcpy(list, step->argument, (size_t)n * sizeof *list);
        if (n) memcpy(places, step->place, (size_t)n * sizeof *places);
        step->argument = list, step->place = places, step->room = (int)more;
    }
    step->argument[n] = a;
    step->place[n] = place;
    step->told.argument = step->argument;
    step->told.arguments = n + 1;
    return SPARTA_OK;
}

static const char *role(const sp_specialize_step *step, const sp_value *v)
{
    for (int i = 0; i < step->node->n_out; i++)
        if (step->node->out[i] == v) return "output";
    return v->constant ? "constant" : "input";
}

static sparta_status add_rows(sparta_specialized *s, sp_specialize_step *step, const sp_value *v,
                              const void *data, int place)
{
    int64_t dim[SPARTA_RANK];
    if (!sp_dims_const(&v->dims, dim)) return sp_fail(s->cx, SPARTA_E_INTERNAL, "%s has no size", v->name);
    const sparta_tensor t = sparta_tensor_view(v->dtype, v->dims.rank, dim, NULL);
    if (sparta_tensor_elements(&t) < 0)
        return sp_fail(s->cx, SPARTA_E_LIMIT, "%s: it has more elements than can be counted", v->name);
    return add(s, step,
               (sparta_specialized_argument){v->name, "values", role(step, v), v->dtype,
                                             sparta_tensor_elements(&t), v->constant ? data : NULL},
               place);
}

static bool all_dense(const sp_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].kind != SP_LEVEL_DENSE) return false;
    return !f->sum;
}

static sparta_status add_array(sparta_specialized *s, sp_specialize_step *step,
                               const sp_specialize_operand *o, const char *name, const sparta_tensor *t,
                               int place)
{
    const sp_value *v = o->value;
    const bool known =
        v->constant || all_dense(&step->special->operand[sp_special_find(step->special, o->name)].format);
    SP_NEED(s->cx, name);
    return add(s, step,
               (sparta_specialized_argument){v->name, name, role(step, v), t->dtype,
                                             known ? sparta_tensor_elements(t) : -1,
                                             v->constant ? t->data : NULL},
               place);
}

/* The arrays of one part of what is stored, as files of packed tensors name them (store/file.c). */
static sparta_status add_leaf(sparta_specialized *s, sp_specialize_step *step, const sp_specialize_operand *o,
                              int leaf, const sp_packed *p)
{
    const sp_special_operand *of = &step->special->operand[sp_special_find(step->special, o->name)];
    const int first = of->array + leaf * (1 + 2 * SP_LEVELS);
    for (int l = 0; l < p->format.n; l++) {
        const sp_level_info *info = &sp_level_table[p->format.level[l].kind];
        if (!o->value->constant && p->format.level[l].kind == SP_LEVEL_PACKED)
            return sp_fail(
                s->cx, SPARTA_E_UNSUPPORTED,
                "format of %s: the width of a packed level is known of constants alone; give another",
                o->value->name);
        if (info->has_pos)
            SP_TRY(add_array(s, step, o, sp_arena_printf(s->arena, "p%d_l%d_pos", leaf, l), &p->pos[l],
                             first + 1 + 2 * l));
        if (info->crd_kind == SP_CRD_NONE || p->format.level[l].properties & SP_PROP_AOS) continue;
        SP_TRY(add_array(
            s, step, o,
            sp_arena_printf(s->arena, "p%d_l%d_%s", leaf, l, info->crd_kind == SP_CRD_BITS ? "bits" : "crd"),
            &p->crd[l], first + 2 + 2 * l));
    }
    return add_array(s, step, o, sp_arena_printf(s->arena, "p%d_values", leaf), &p->values, first);
}

/* ------------------------------------------------------------------ expressions */
static sparta_status shapes(sp_special *special, const sp_specialize_step *step)
{
    for (int i = 0; i < step->operands; i++) {
        const sp_specialize_operand *o = &step->operand[i];
        int64_t dim[SPARTA_RANK];
        if (o->format && sp_special_format(special, o->name, o->format))
            return sp_fail_in(special->cx, "format of %s", o->value ? o->value->name : "scratch");
        if (!o->value) continue; /* its indices have sizes */
        if (!sp_dims_const(&o->value->dims, dim))
            return sp_fail(special->cx, SPARTA_E_INTERNAL, "%s has no size", o->value->name);
        SP_TRY(sp_special_shape(special, sp_special_find(special, o->name), dim));
    }
    return sp_special_sized(special);
}

sparta_status sp_specialize_lower(sparta_ctx *cx, const sp_specialize_step *step, sp_target target,
                                  sp_special **out)
{
    sp_special *special = NULL;
    SP_TRY(sp_special_parse(cx, step->text, &special));
    sparta_status status = shapes(special, step);
    if (!status) status = sp_special_lower(special);
    if (!status) status = sp_special_schedule(special, NULL, target);
    if (status)
        sp_special_free(special);
    else
        *out = special;
    return status;
}

/* What a format stores of a constant: too much is refused before it is stored. */
static sparta_status check_fill(sparta_specialized *s, const sp_special_operand *o, const sp_value *v)
{
    sp_store_stats stats;
    if (!o->stored || !v->constant) return SPARTA_OK;
    SP_TRY(sp_store_measure(s->cx, &o->format, v->constant, NULL, &stats));
    if (sp_store_within(s->cx, &o->format, &stats, s->options.limit))
        return sp_fail_in(s->cx, "format of %s", v->name);
    return SPARTA_OK;
}

/* Operands as the kernel is bound to them: constants, zeros in place of inputs. */
static sparta_status bind(sparta_specialized *s, sp_specialize_step *step)
{
    sparta_tensor given[SP_SPECIAL_OPERANDS] = {0};
    bool made[SP_SPECIAL_OPERANDS] = {false};
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < step->operands && !status; i++) {
        const sp_value *v = step->operand[i].value;
        const int at = sp_special_find(step->special, step->operand[i].name);
        const sp_special_operand *o = &step->special->operand[at];
        if (v) status = check_fill(s, o, v);
        if (status) break;
        if (v && v->constant)
            given[at] = *v->constant;
        else if (o->written)
            given[at] = sparta_tensor_view(SPARTA_F32, o->rank, o->dim, NULL);
        else {
            status = sp_tensor_alloc(s->cx, SPARTA_F32, o->rank, o->dim, &given[at]);
            made[at] = !status;
        }
    }
    if (!status) status = sp_special_bind(step->special, given, &step->kernel);
    for (int i = 0; i < SP_SPECIAL_OPERANDS; i++)
        if (made[i]) sp_free(s->cx, given[i].data);
    return status;
}

/* Only what constants hold stays; the rest was there to learn sizes. */
static void forget_others(sp_specialize_step *step)
{
    for (int i = 0; i < step->operands; i++) {
        const int at = sp_special_find(step->special, step->operand[i].name);
        if ((step->operand[i].value && step->operand[i].value->constant) || !step->kernel.dense[at].data)
            continue;
        sp_free(step->special->cx, step->kernel.dense[at].data);
        step->kernel.dense[at].data = NULL;
    }
}

static sparta_status expression_arguments(sparta_specialized *s, sp_specialize_step *step)
{
    for (int i = 0; i < step->operands; i++) {
        const sp_specialize_operand *o = &step->operand[i];
        const int at = sp_special_find(step->special, o->name);
        if (!o->format) {
            SP_TRY(
                add_rows(s, step, o->value, step->kernel.dense[at].data, step->special->operand[at].array));
            continue;
        }
        const sp_packed *p = &step->kernel.packed[at];
        if (!o->value) {
            SP_TRY(add(s, step,
                       (sparta_specialized_argument){NULL, "values", "scratch", SPARTA_F32,
                                                     sparta_tensor_elements(&p->values), NULL},
                       step->special->operand[at].array));
            continue;
        }
        for (int leaf = 0; leaf < step->special->operand[at].leaves; leaf++)
            SP_TRY(add_leaf(s, step, o, leaf, sp_packed_leaf(p, leaf)));
    }
    return SPARTA_OK;
}

static sparta_status note_formats(sparta_specialized *s, const sp_specialize_step *step)
{
    for (int i = 0; i < step->operands; i++) {
        const int at = sp_special_find(step->special, step->operand[i].name);
        if (!step->operand[i].format || !step->operand[i].value) continue;
        sp_text t;
        sp_text_init(&t, s->cx);
        sp_format_print(&step->special->operand[at].format, &t);
        s->value[step->operand[i].value->id].format = sp_text_keep(&t, s->arena);
        SP_NEED(s->cx, s->value[step->operand[i].value->id].format);
    }
    return SPARTA_OK;
}

static sparta_status make_expression(sparta_specialized *s, sp_specialize_step *step)
{
    step->kind = SP_STEP_EXPRESSION;
    SP_TRY(sp_specialize_lower(s->cx, step, SP_TARGET_PORTABLE, &step->special));
    SP_TRY(bind(s, step));
    SP_TRY(note_formats(s, step));
    SP_TRY(expression_arguments(s, step));
    forget_others(step);
    step->told.phases = 2 * step->special->nests;
    step->told.what = step->text;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ nests */
static sparta_status nest_arguments(sparta_specialized *s, sp_specialize_step *step)
{
    sparta_tensor tensor[SP_NEST_OPERANDS];
    for (int i = 0; i < step->nest->operands; i++) {
        const sp_value *v = step->is[i];
        const void *data = NULL;
        int64_t dim[SPARTA_RANK];
        if (!sp_dims_const(&v->dims, dim))
            return sp_fail(s->cx, SPARTA_E_INTERNAL, "%s has no size", v->name);
        tensor[i] = sparta_tensor_view(v->dtype, v->dims.rank, dim, NULL);
        if (v->constant) {
            sparta_tensor copy;
            SP_TRY(sp_tensor_alloc_in(s->arena, v->dtype, v->dims.rank, dim, &copy));
            SP_TRY(sp_tensor_copy(s->cx, v->constant, &copy));
            data = copy.data;
        }
        SP_TRY(add_rows(s, step, v, data, i));
    }
    SP_TRY(sp_nest_bind(s->cx, step->nest, tensor, &step->bound));
    const size_t scratch = sp_nest_scratch(step->nest, &step->bound);
    if (!scratch) return SPARTA_OK;
    return add(s, step,
               (sparta_specialized_argument){NULL, "values", "scratch", SPARTA_U8, (int64_t)scratch, NULL},
               -1);
}

/* The step before that makes this value for nobody else; -1: none. */
static int maker(const sparta_specialized *s, const sp_value *v)
{
    for (int i = 0; i < s->n_steps - 1; i++) {
        const sp_node *n = s->step[i]->node;
        if (s->step[i]->kind == SP_STEP_NEST && n->n_out == 1 && n->out[0] == v &&
            sp_graph_uses(s->graph, v) == 1)
            return i;
    }
    return -1;
}

static void forget_step(sparta_specialized *s, int at)
{
    memmove(s->step + at, s->step + at + 1, (size_t)(s->n_steps - at - 1) * sizeof *s->step);
    s->n_steps--;
}

/* One kernel with the step that makes operand `at`, which is then not stored; *done: they were joined. */
static sparta_status join(sparta_specialized *s, sp_specialize_step *step, int at, bool *done)
{
    const bool keep[SP_NEST_OPERANDS] = {false};
    const void *is[SP_NEST_OPERANDS] = {NULL};
    const int before = step->nest->operand[at].out ? -1 : maker(s, step->is[at]);
    *done = false;
    if (before < 0) return SPARTA_OK;
    const sp_specialize_step *first = s->step[before];
    sp_nest *both = sp_arena_array(s->arena, 1, sizeof *both);
    SP_NEED(s->cx, both);
    SP_TRY(sp_emit_join(s->cx, first->nest, first->is, keep, step->nest, step->is, both, is, done));
    if (!*done) return SPARTA_OK;
    step->nest = both;
    memcpy(step->is, is, sizeof is);
    forget_step(s, before);
    return SPARTA_OK;
}

static sparta_status join_all(sparta_specialized *s, sp_specialize_step *step)
{
    for (int i = 0; i < step->nest->operands;) {
        bool done;
        SP_TRY(join(s, step, i, &done));
        i = done ? 0 : i + 1; /* it has other operands now */
    }
    return SPARTA_OK;
}

static sparta_status make_nest(sparta_specialized *s, sp_specialize_step *step, bool *can)
{
    int slot[SP_NEST_OPERANDS];
    sp_text text;
    step->kind = SP_STEP_NEST;
    step->nest = sp_arena_array(s->arena, 1, sizeof *step->nest);
    SP_NEED(s->cx, step->nest);
    SP_TRY(sp_emit_node(s->cx, step->node, false, step->nest, slot, can));
    if (!*can) return SPARTA_OK;
    SP_TRY(check_rows(s, step->node));
    for (int i = 0; i < step->nest->operands; i++) step->is[i] = sp_node_slot(step->node, slot[i]);
    SP_TRY(join_all(s, step));
    SP_TRY(sp_nest_check(s->cx, step->nest));
    sp_nest_phases(step->nest);
    SP_TRY(nest_arguments(s, step));
    sp_text_init(&text, s->cx);
    sp_nest_print(step->nest, &text);
    step->told.what = sp_text_keep(&text, s->arena);
    SP_NEED(s->cx, step->told.what);
    step->told.phases = 1;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ another shape */
static bool keeps_memory(sp_op_id op)
{
    return SP_OP_AMONG(op, SP_OP_Reshape, SP_OP_Flatten, SP_OP_Squeeze, SP_OP_Unsqueeze, SP_OP_Identity);
}

static sparta_status make_shape(sparta_specialized *s, sp_specialize_step *step)
{
    const sp_node *n = step->node;
    step->kind = SP_STEP_SHAPE;
    SP_TRY(check_rows(s, n));
    SP_TRY(add_rows(s, step, n->in[0], NULL, 0));
    SP_TRY(add_rows(s, step, n->out[0], NULL, 1));
    step->told.what = "the same memory";
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ all of them */
static sparta_status make(sparta_specialized *s, sp_specialize_step *step)
{
    const sp_node *n = step->node;
    const char *op = sp_builtin_row(n->op)->name;
    bool can = false;
    SP_TRY(check_sizes(s->cx, n));
    if (keeps_memory(n->op) && n->in[0] && !n->in[0]->constant) return make_shape(s, step);
    step->told.symbol = sp_arena_printf(s->arena, "sparta_step_%d", step->number);
    SP_NEED(s->cx, step->told.symbol);
    SP_TRY(sp_specialize_express(s, step, &can));
    if (can && make_expression(s, step)) return sp_fail_in(s->cx, "%s, %s", n->name, step->text);
    if (can) return SPARTA_OK;
    SP_TRY(make_nest(s, step, &can));
    if (can) return SPARTA_OK;
    return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                   "%s: no kernel is generated for %s of these types; keep the node outside of the sub-graph",
                   *n->name ? n->name : n->out[0]->name, op);
}

sparta_status sp_specialize_steps(sparta_specialized *s)
{
    const int n = s->graph->n_nodes;
    if (n > SP_SPECIALIZE_STEPS)
        return sp_fail(s->cx, SPARTA_E_LIMIT, "the graph has %d nodes, the most are %d; cut it", n,
                       SP_SPECIALIZE_STEPS);
    s->step = sp_arena_array(s->arena, (size_t)n + 1, sizeof *s->step);
    SP_NEED(s->cx, s->step);
    for (int i = 0; i < n; i++) {
        sp_specialize_step *step = sp_arena_array(s->arena, 1, sizeof *step);
        SP_NEED(s->cx, step);
        s->step[s->n_steps++] = step;
        step->node = s->graph->node[i];
        step->number = i;
        step->told.name = step->node->name;
        step->told.op = sp_builtin_row(step->node->op)->name;
        SP_TRY(sp_check_cancel(s->cx));
        SP_TRY(make(s, step));
    }
    return sp_specialize_all_used(s);
}
