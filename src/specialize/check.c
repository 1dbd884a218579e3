/* The check: the code of every target that runs here, as its caller will call it, against the references of the graph as it was given. */
#include "format/walk.h"
#include "ops/close.h"
#include "specialize/specialize.h"
#include "store/store.h"
#include <string.h>

typedef struct held { /* a value of the transformed graph, by id */
    sparta_tensor dense;
    sp_packed packed;
    bool stored;
} held;

typedef struct check {
    sparta_specialized *s;
    held *value;
    sparta_named_tensor *input; /* of the given graph, row-major */
    sparta_tensor *answer;
    double *slack;
} check;

/* ------------------------------------------------------------------ inputs and memory */
/* Whole numbers are small, so that they can count and choose; of what is stored in a format two thirds are 0. */
static void fill(sp_rng *r, bool sparse, sparta_tensor *t)
{
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++) {
        const double u = sp_rng_uniform(r), keep = sp_rng_uniform(r);
        if (sp_dtype_is_float(t->dtype))
            sp_element_set(t->dtype, t->data, i, sparse && keep > .33 ? 0 : 2 * u - 1);
        else
            sp_element_set_int(t->dtype, t->data, i, u > .5);
    }
}

static sparta_status make_inputs(check *c)
{
    const sp_graph *g = c->s->given;
    sp_rng r = sp_rng_seed(17);
    for (int i = 0; i < g->n_inputs; i++) {
        int64_t dim[SPARTA_RANK];
        const sp_value *v = g->input[i], *mine = sp_graph_find(c->s->graph, v->name);
        if (!sp_dims_const(&v->dims, dim))
            return sp_fail(c->s->cx, SPARTA_E_USAGE,
                           "input %s: its size is no number; fix it with options.dims", v->name);
        c->input[i].name = v->name;
        SP_TRY(sp_tensor_alloc(c->s->cx, v->dtype, v->dims.rank, dim, &c->input[i].tensor));
        fill(&r, mine && c->s->value[mine->id].format, &c->input[i].tensor);
    }
    return SPARTA_OK;
}

/* Memory of a value: what an input has, zeros for another. */
static sparta_status place(check *c, const sp_value *v)
{
    sparta_ctx *cx = c->s->cx;
    held *h = &c->value[v->id];
    const int at = sp_graph_named(c->s->given->input, c->s->given->n_inputs, v->name);
    int64_t dim[SPARTA_RANK];
    if (h->dense.data || h->stored || !sp_dims_const(&v->dims, dim)) return SPARTA_OK;
    SP_TRY(sp_tensor_alloc(cx, v->dtype, v->dims.rank, dim, &h->dense));
    if (v->is_input && at >= 0) SP_TRY(sp_tensor_copy(cx, &c->input[at].tensor, &h->dense));
    if (!c->s->value[v->id].format) return SPARTA_OK;
    sp_format f;
    SP_TRY(sp_format_parse(cx, c->s->value[v->id].format, &f));
    SP_TRY(sp_store_pack(cx, &f, &h->dense, NULL, &h->packed));
    h->stored = true;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one step */
static void *array_of(const check *c, const sp_specialize_step *step, int argument, const sp_value *v)
{
    const held *h = &c->value[v->id];
    if (!h->stored) return h->dense.data;
    for (int i = 0; i < step->operands; i++) {
        if (step->operand[i].value != v) continue;
        const int at = step->place[argument] -
                       step->special->operand[sp_special_find(step->special, step->operand[i].name)].array;
        const int each = 1 + 2 * SP_LEVELS, array = at % each;
        if (at < 0 || at / each >= sp_packed_leaves(&h->packed)) continue; /* the same value twice */
        const sp_packed *p = sp_packed_leaf(&h->packed, at / each);
        return !array ? p->values.data : array % 2 ? p->pos[array / 2].data : p->crd[array / 2 - 1].data;
    }
    return NULL;
}

static sparta_status run_step(check *c, const sp_specialize_step *step, const sp_object *object)
{
    const sparta_specialized_step *t = &step->told;
    void (*kernel)(void *const *, long, long, long);
    void **argument = sp_arena_array(c->s->arena, (size_t)t->arguments + 1, sizeof *argument);
    SP_NEED(c->s->cx, argument);
    for (int i = 0; i < t->arguments; i++) {
        const sparta_specialized_argument *a = &t->argument[i];
        const sp_value *v = a->value ? sp_graph_find(c->s->graph, a->value) : NULL;
        if (v && !v->constant) SP_TRY(place(c, v));
        if (a->data || (v && v->constant))
            memcpy(&argument[i], &a->data, sizeof argument[i]);
        else if (v)
            argument[i] = array_of(c, step, i, v);
        else
            argument[i] = sp_arena_alloc(c->s->arena, (size_t)a->elements * sparta_dtype_size(a->dtype) + 64);
        if (!v) SP_NEED(c->s->cx, argument[i]);
    }
    if (!t->symbol) {
        memcpy(argument[1], argument[0],
               (size_t)t->argument[0].elements * sparta_dtype_size(t->argument[0].dtype));
        return SPARTA_OK;
    }
    void *address = sp_jit_symbol(object, t->symbol);
    if (!address) return sp_fail(c->s->cx, SPARTA_E_INTERNAL, "the code has no %s", t->symbol);
    memcpy(&kernel, &address, sizeof kernel);
    for (int phase = 0; phase < t->phases; phase++) /* in two parts: callers may have two threads */
        for (int part = 0; part < 2; part++) kernel(argument, phase, part, 2);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ one target */
static sparta_status compare(check *c, int output, const char *target)
{
    const sp_value *v = c->s->graph->output[output];
    held *h = &c->value[v->id];
    sp_closeness close;
    if (h->stored) SP_TRY(sp_store_unpack(c->s->cx, &h->packed, &h->dense));
    if (sp_close(&h->dense, &c->answer[output], &(sp_tolerance){-1, -1}, c->slack[output], &close))
        return SPARTA_OK;
    return sp_fail(c->s->cx, SPARTA_E_DIFFER,
                   "output %s: kernels for %s differ from the reference by %.3g, %.3g is allowed", v->name,
                   target, close.max_abs, close.allowed);
}

static void forget(check *c)
{
    for (int i = 0; i < c->s->graph->n_values; i++) {
        held *h = &c->value[i];
        sp_free(c->s->cx, h->dense.data);
        if (h->stored) sp_packed_free(c->s->cx, &h->packed);
        *h = (held){0};
    }
}

static sparta_status check_target(check *c, int code)
{
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < c->s->n_steps && !status; i++)
        status = run_step(c, c->s->step[i], c->s->object[code]);
    for (int i = 0; i < c->s->graph->n_outputs && !status; i++)
        status = compare(c, i, c->s->code[code].target);
    forget(c);
    return status;
}

/* ------------------------------------------------------------------ all of them */
static sparta_status check_all(check *c)
{
    const sp_graph *g = c->s->given;
    sparta_status status = make_inputs(c);
    const sp_answer answer = {c->input, g->n_inputs, c->answer, c->slack};
    if (!status) status = sp_ops_answer(c->s->cx, g, &answer);
    for (int i = 0; i < c->s->n_code && !status; i++)
        if (c->s->code[i].fits) status = check_target(c, i);
    for (int i = 0; i < g->n_inputs; i++) sp_free(c->s->cx, c->input[i].tensor.data);
    for (int i = 0; i < g->n_outputs; i++) sp_free(c->s->cx, c->answer[i].data);
    return status;
}

/* References are slow: what would take minutes is refused before it runs. */
#define MOST_WORK 2e10
static sparta_status check_cost(const sparta_specialized *s)
{
    const double work = sp_ops_cost(s->cx, s->given, &(sp_bindings){0});
    if (work <= MOST_WORK) return SPARTA_OK;
    return sp_fail(
        s->cx, SPARTA_E_LIMIT,
        "the graph takes %.3g multiply-adds, at most %.3g are checked against the references; cut it, "
        "or fix smaller sizes",
        work, MOST_WORK);
}

sparta_status sp_specialize_check(sparta_specialized *s)
{
    check c = {.s = s};
    bool any = false;
    for (int i = 0; i < s->n_code; i++) any |= s->code[i].fits;
    if (!any) return SPARTA_OK;
    SP_TRY(check_cost(s));
    c.value = sp_arena_array(s->arena, (size_t)s->graph->n_values + 1, sizeof *c.value);
    SP_NEED(s->cx, c.value);
    c.input = sp_arena_array(s->arena, (size_t)s->given->n_inputs + 1, sizeof *c.input);
    SP_NEED(s->cx, c.input);
    c.answer = sp_arena_array(s->arena, (size_t)s->given->n_outputs + 1, sizeof *c.answer);
    SP_NEED(s->cx, c.answer);
    c.slack = sp_arena_array(s->arena, (size_t)s->given->n_outputs + 1, sizeof *c.slack);
    SP_NEED(s->cx, c.slack);
    return check_all(&c);
}
