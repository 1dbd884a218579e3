/* Texts of all steps and what the compiler makes of them, one shared object a target. */
#include "compile/lower.h"
#include "emit/emit.h"
#include "specialize/specialize.h"
#include <stdio.h>

static void sizes(sp_text *t, const char *name, const long *v, int n)
{
    sp_text_printf(t, "    static const long %s[%d] = {", name, SP_MAX(n, 1));
    bool any = false;
    for (int i = 0; i < n; i++)
        if (v[i]) sp_text_printf(t, "%s[%d] = %ld", any ? ", " : "", i, v[i]), any = true;
    sp_text_printf(t, "%s};\n", any ? "" : "0");
}

/* ------------------------------------------------------------------ expressions */
/* Every array of the result to 0, by one thread. */
static void clear(const sp_specialize_step *step, const sp_special *special, int operand, sp_text *t)
{
    const sp_special_operand *o = &special->operand[operand];
    for (int i = 0; i < step->told.arguments; i++)
        if (step->place[i] == o->array) /* a result has one part */
            sp_text_printf(
                t, "        for (long i = 0; !part && i < %lld; i++) ((float *)argument[%d])[i] = 0;\n",
                (long long)step->argument[i].elements, i);
}

static void phases(const sp_specialize_step *step, const sp_special *special, sp_text *t)
{
    for (int i = 0; i < special->nests; i++) {
        int operand;
        if (sp_special_clears(special, i, &operand)) {
            sp_text_printf(t, "    if (phase == %d)\n", 2 * i);
            clear(step, special, operand, t);
        }
        sp_text_printf(t, "    if (phase == %d%s) %s_%d(&a);\n", 2 * i + 1,
                       sp_special_shares(special->nest[i]) ? "" : " && !part", step->told.symbol, i);
    }
}

static sparta_status write_expression(sparta_ctx *cx, const sp_specialize_step *step, sp_target target,
                                      sp_text *t)
{
    sp_special *special;
    char prefix[64];
    SP_TRY(sp_specialize_lower(cx, step, target, &special));
    snprintf(prefix, sizeof prefix, "%s_", step->told.symbol);
    sp_special_functions(special, prefix, t);
    sp_text_printf(t, "KERNEL void %s(void *const *argument, long phase, long part, long parts)\n{\n",
                   step->told.symbol);
    sizes(t, "size", step->kernel.size, SP_SPECIAL_INDICES + special->levels);
    sp_text_printf(t, "    void *const array[%d] = {", SP_MAX(special->arrays, 1));
    for (int i = 0; i < step->told.arguments; i++)
        sp_text_printf(t, "%s[%d] = argument[%d]", i ? ", " : "", step->place[i], i);
    sp_text_printf(t, "};\n    const struct sp_special_args a = {array, size, part, parts};\n");
    phases(step, special, t);
    sp_text_printf(t, "}\n");
    sp_special_free(special);
    return t->status;
}

/* ------------------------------------------------------------------ nests */
static void longs(sp_text *t, const int64_t *v, int n)
{
    sp_text_printf(t, "{");
    for (int i = 0; i < n; i++) sp_text_printf(t, "%s%lld", i ? ", " : "", (long long)v[i]);
    sp_text_printf(t, "}");
}

static sparta_status write_nest(const sp_specialize_step *step, sp_text *t)
{
    const sp_nest *n = step->nest;
    const sp_nest_bound *b = &step->bound;
    char symbol[64];
    snprintf(symbol, sizeof symbol, "%s_0", step->told.symbol);
    sp_emit_function(n, symbol, t);
    sp_text_printf(t, "KERNEL void %s(void *const *argument, long phase, long part, long parts)\n{\n",
                   step->told.symbol);
    sp_text_printf(t, "    struct sp_nest_args a = {.size = ");
    longs(t, b->size, n->loops);
    sp_text_printf(t, ", .block = %lld, .line = %lld, .stride = {", (long long)b->block, (long long)b->line);
    for (int i = 0; i < n->operands; i++) {
        if (i) sp_text_printf(t, ", ");
        longs(t, b->stride[i], n->loops);
    }
    sp_text_printf(t, "}};\n    if (phase || part || parts < 1) return;\n");
    for (int i = 0; i < n->operands; i++)
        sp_text_printf(t, "    a.array[%d] = (char *)argument[%d] + %lld;\n", i, i,
                       (long long)(b->offset[i] * (int64_t)sparta_dtype_size(n->operand[i].dtype)));
    if (step->told.arguments > n->operands) sp_text_printf(t, "    a.work = argument[%d];\n", n->operands);
    sp_text_printf(t, "    %s(&a);\n}\n", symbol);
    return t->status;
}

/* ------------------------------------------------------------------ one target */
static sparta_status write_all(sparta_specialized *s, sp_target target, sp_text *t)
{
    SP_TRY(sp_special_head(target, t));
    for (int i = 0; i < s->n_steps; i++) {
        const sp_specialize_step *step = s->step[i];
        if (step->kind == SP_STEP_EXPRESSION) SP_TRY(write_expression(s->cx, step, target, t));
        if (step->kind == SP_STEP_NEST) SP_TRY(write_nest(step, t));
    }
    return t->status;
}

static sparta_status make(sparta_specialized *s, sp_target target)
{
    sp_text t;
    sp_jit_rung rung;
    sp_text_init(&t, s->cx);
    const sparta_status status = write_all(s, target, &t);
    if (status) {
        sp_text_free(&t);
        return status;
    }
    sparta_specialized_code *c = &s->code[s->n_code];
    c->text = sp_text_keep(&t, s->arena);
    SP_NEED(s->cx, c->text);
    SP_TRY(sp_jit_get(s->cx, target, c->text, &s->object[s->n_code], &rung));
    const sp_object *o = s->object[s->n_code++];
    c->target = sp_target_name(target);
    c->code = o->bytes, c->bytes = o->size;
    c->fits = sp_target_fits(target);
    return SPARTA_OK;
}

sparta_status sp_specialize_code(sparta_specialized *s)
{
    lower_targets targets;
    SP_TRY(sp_lower_targets(s->cx, s->options.target, &targets));
    s->code = sp_arena_array(s->arena, (size_t)targets.n + 1, sizeof *s->code);
    SP_NEED(s->cx, s->code);
    s->object = sp_arena_array(s->arena, (size_t)targets.n + 1, sizeof *s->object);
    SP_NEED(s->cx, s->object);
    for (int i = 0; i < targets.n; i++) SP_TRY(make(s, targets.target[i]));
    return SPARTA_OK;
}
