/* Expressions over operands in any formats (room special), as a handle. What has a format is packed once, when the kernel is made; what lies
 * row-major is the caller's, given with each run, and its sizes may be others each time. */
#include "api/api.h"
#include "format/walk.h"
#include "special/special.h"
#include <string.h>

struct sparta_expression {
    sparta_ctx *cx;
    sp_special *s;
    sp_special_kernel kernel;
    sp_target target;
    sp_pool *pool;
    sp_text nest, text;
    sparta_packed *own[SP_SPECIAL_OPERANDS]; /* made of dense data */
    const sp_packed *packed[SP_SPECIAL_OPERANDS];
    sparta_packed *result[SP_SPECIAL_OPERANDS]; /* results that have a format, as they lie */
    sparta_expression_value value[SP_SPECIAL_OPERANDS];
    sp_text format[SP_SPECIAL_OPERANDS]; /* canonical */
    int64_t index[SP_SPECIAL_INDICES];   /* sizes that formats fix; -1: those of a run */
};

/* ------------------------------------------------------------------ operands */
static sparta_status shape(sparta_expression *e, int at, const sparta_tensor *t)
{
    const sp_special_operand *o = &e->s->operand[at];
    SP_TRY(sp_tensor_on_cpu(e->cx, t, "expression", o->name));
    if (t->rank != o->rank)
        return sp_fail(e->cx, SPARTA_E_SHAPE, "expression: %s has %d dimensions, the expression gives it %d",
                       o->name, t->rank, o->rank);
    if (t->dtype != o->dtype)
        return sp_fail(e->cx, SPARTA_E_DTYPE,
                       "expression: %s is %s, and the kernel was made for %s; say the type when it is made",
                       o->name, sparta_dtype_name(t->dtype), sparta_dtype_name(o->dtype));
    return sp_special_shape(e->s, at, t->dim);
}

/* An operand of the specification that has a format, and is read. */
static sparta_status pack(sparta_expression *e, int at, const sparta_expression_operand *given, double limit)
{
    sparta_tensor type;
    if (!given->packed) {
        if (!given->tensor.data && sparta_tensor_elements(&given->tensor))
            return sp_fail(e->cx, SPARTA_E_USAGE, "expression: %s has a format and no data to pack",
                           given->name);
        SP_TRY(shape(e, at, &given->tensor));
        if (sparta_packed_create(e->cx, given->format, &given->tensor, NULL, limit, &e->own[at]))
            return sp_fail_in(e->cx, "expression: %s", given->name);
    }
    const sparta_packed *p = given->packed ? given->packed : e->own[at];
    sparta_packed_type(p, &type);
    SP_TRY(shape(e, at, &type));
    e->packed[at] = sp_api_packed(p);
    int64_t stored = 0;
    for (int i = 0; i < sp_packed_leaves(e->packed[at]); i++)
        stored += sparta_tensor_elements(&sp_packed_leaf(e->packed[at], i)->values);
    sp_special_count(e->s, at, stored);
    return SPARTA_OK;
}

static sparta_status take_operand(sparta_expression *e, const sparta_expression_operand *given, double limit)
{
    int at;
    SP_TRY(sp_special_named(e->s, given->name, &at));
    const sp_special_operand *o = &e->s->operand[at];
    if (e->value[at].name)
        return sp_fail(e->cx, SPARTA_E_USAGE, "expression: %s is given twice", given->name);
    e->value[at].name = o->name;
    if (given->packed && given->format)
        return sp_fail(e->cx, SPARTA_E_USAGE,
                       "expression: %s is packed, and a format is given for it; leave that out", given->name);
    const char *format = given->packed ? sparta_packed_format(given->packed) : given->format;
    sparta_tensor type = given->tensor;
    if (given->packed) sparta_packed_type(given->packed, &type);
    SP_TRY(sp_special_dtype(e->s, given->name, type.dtype));
    if (format) SP_TRY(sp_special_format(e->s, given->name, format));
    if (format && !o->written) return pack(e, at, given, limit);
    if (given->packed)
        return sp_fail(e->cx, SPARTA_E_USAGE, "expression: %s is written; a packed tensor is only read",
                       given->name);
    const bool told = given->tensor.rank || given->tensor.data || !o->rank;
    return told ? shape(e, at, &given->tensor) : SPARTA_OK;
}

/* Sizes that follow from what is packed; those of other operands were hints for the schedule. */
static sparta_status keep_sizes(sparta_expression *e)
{
    sp_special *s = e->s;
    for (int i = 0; i < s->indices; i++) s->index[i].size = -1;
    for (int i = 0; i < s->operands; i++) {
        sp_special_operand *o = &s->operand[i];
        if (o->stored &&
            !(e->packed[i] || o->like >= 0)) /* a result in a format of its own is laid out now */
            for (int d = 0; d < o->rank; d++)
                if (o->dim[d] < 0)
                    return sp_fail(e->cx, SPARTA_E_SHAPE,
                                   "expression: the size of %s has to be known, since it has a format; give "
                                   "its tensor",
                                   o->name);
        if (o->stored)
            SP_TRY(sp_special_shape(s, i, o->dim));
        else
            for (int d = 0; d < o->rank; d++) o->dim[d] = -1;
    }
    for (int i = 0; i < s->indices; i++) e->index[i] = s->index[i].size;
    return SPARTA_OK;
}

/* What a result with a format has as dims: those of its indices, as far as they are known. */
static void result_dims(sparta_expression *e)
{
    for (int i = 0; i < e->s->statements; i++) {
        const sp_special_access *a = &e->s->access[e->s->statement[i].target];
        sp_special_operand *o = &e->s->operand[a->operand];
        for (int d = 0; o->stored && d < o->rank; d++)
            if (o->dim[d] < 0 && a->axis[d].n == 1) o->dim[d] = e->s->index[a->axis[d].term[0].loop].size;
    }
}

/* ------------------------------------------------------------------ making one */
static sparta_status take_all(sparta_expression *e, const sparta_expression_spec *q)
{
    SP_TRY(sp_special_parse(e->cx, q->text, &e->s));
    for (int i = 0; i < q->n; i++) SP_TRY(take_operand(e, &q->operand[i], q->limit));
    return SPARTA_OK;
}

/* Runs get the memory of row-major results; one with a format is ours, and nothing is there before. */
static sparta_status check_added(const sparta_expression *e)
{
    for (int i = 0; i < e->s->statements; i++) {
        const sp_special_statement *t = &e->s->statement[i];
        const int to = e->s->access[t->target].operand;
        bool before = false;
        for (int k = 0; k < i; k++) before |= e->s->access[e->s->statement[k].target].operand == to;
        if (t->adds && e->s->operand[to].stored && !before)
            return sp_fail(e->cx, SPARTA_E_UNSUPPORTED,
                           "expression: %s has a format, and += would add to what is not there; write =, or "
                           "leave it row-major",
                           e->s->operand[to].name);
    }
    return SPARTA_OK;
}

static sparta_status describe(sparta_expression *e)
{
    for (int i = 0; i < e->s->operands; i++) {
        const sp_special_operand *o = &e->s->operand[i];
        sparta_expression_value *v = &e->value[i];
        *v = (sparta_expression_value){
            .name = o->name, .rank = o->rank, .written = o->written, .dtype = o->dtype};
        memcpy(v->dim, o->dim, sizeof v->dim);
        if (!o->stored) continue;
        sp_format_print(&o->format, &e->format[i]);
        SP_TRY(e->format[i].status);
        v->format = sp_text_str(&e->format[i]);
        if (o->written) SP_TRY(sp_api_packed_view(e->cx, &e->kernel.packed[i], &e->result[i]));
    }
    for (int a = 0; a < e->s->accesses; a++) { /* sizes of the others, as far as what is packed has them */
        const sp_special_access *x = &e->s->access[a];
        for (int d = 0; d < e->value[x->operand].rank; d++)
            if (x->axis[d].n == 1 && x->axis[d].term[0].times == 1 && !x->axis[d].plus)
                e->value[x->operand].dim[d] = e->index[x->axis[d].term[0].loop];
    }
    return SPARTA_OK;
}

static sparta_status build(sparta_expression *e, const sparta_expression_spec *q)
{
    SP_TRY(take_all(e, q));
    SP_TRY(check_added(e));
    e->pool = sp_pool_create(e->cx, q->threads);
    SP_NEED(e->cx, e->pool);
    SP_TRY(sp_special_lower(e->s));
    SP_TRY(sp_special_schedule(e->s, q->schedule, e->target));
    sp_special_print(e->s, &e->nest);
    SP_TRY(e->nest.status);
    result_dims(e);
    SP_TRY(keep_sizes(e));
    for (int i = 0; i < e->s->operands; i++)
        if (e->s->operand[i].stored)
            SP_TRY(sp_format_check(e->cx, &e->s->operand[i].format, e->s->operand[i].rank,
                                   e->s->operand[i].dim));
    SP_TRY(sp_special_attach(e->s, e->packed, &e->kernel));
    SP_TRY(sp_special_compile(&e->kernel, e->target, &e->text));
    return describe(e);
}

static sparta_status find_target(sparta_ctx *cx, const char *name, sp_target *out)
{
    SP_TRY(sp_target_check(cx));
    *out = sp_target_best(SP_DEVICE_CPU);
    if (!name) return SPARTA_OK;
    if (!sp_target_parse(name, out) || sp_target_device(*out) != SP_DEVICE_CPU)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "expression: kernels are generated for no target '%s'; give avx512, avx2 or portable",
                       name);
    if (!sp_target_fits(*out))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "expression: this machine does not run %s", name);
    return SPARTA_OK;
}

sparta_status sparta_expression_create(sparta_ctx *cx, const sparta_expression_spec *spec,
                                       sparta_expression **out)
{
    sparta_expression_spec q;
    sp_target target;
    SP_TRY(sp_options(cx, "expression", spec, &q, sizeof q));
    if (!q.text || q.n < 0 || (q.n && !q.operand))
        return sp_fail(cx, SPARTA_E_USAGE, "expression: give its text, and as many operands as spec.n says");
    SP_TRY(find_target(cx, q.target, &target));
    sparta_expression *e = sp_zalloc(cx, sizeof *e);
    SP_NEED(cx, e);
    e->cx = cx;
    e->target = target;
    sp_text_init(&e->nest, cx), sp_text_init(&e->text, cx);
    for (int i = 0; i < SP_SPECIAL_OPERANDS; i++) sp_text_init(&e->format[i], cx);
    const sparta_status status = build(e, &q);
    if (status)
        sparta_expression_free(e);
    else
        *out = e;
    return status;
}

void sparta_expression_free(sparta_expression *e)
{
    if (!e) return;
    sp_pool_free(e->pool);
    for (int i = 0; i < SP_SPECIAL_OPERANDS; i++) sparta_packed_free(e->result[i]);
    if (e->kernel.s) sp_special_close(&e->kernel);
    for (int i = 0; i < SP_SPECIAL_OPERANDS; i++) {
        sparta_packed_free(e->own[i]);
        sp_text_free(&e->format[i]);
    }
    sp_text_free(&e->nest), sp_text_free(&e->text);
    sp_special_free(e->s);
    sp_free(e->cx, e);
}

/* ------------------------------------------------------------------ what it is */
const sparta_expression_value *sparta_expression_value_at(const sparta_expression *e, int i)
{
    return i >= 0 && i < e->s->operands ? &e->value[i] : NULL;
}

const char *sparta_expression_nest(const sparta_expression *e)
{
    return sp_text_str(&e->nest);
}

const char *sparta_expression_text(const sparta_expression *e)
{
    return sp_text_str(&e->text);
}

const sparta_packed *sparta_expression_result(const sparta_expression *e, const char *name)
{
    const int at = name ? sp_special_find(e->s, name) : -1;
    return at < 0 ? NULL : e->result[at];
}

/* ------------------------------------------------------------------ running */
typedef struct arrays {
    const sparta_tensor *of[SP_SPECIAL_OPERANDS]; /* NULL: not given */
} arrays;

static sparta_status take(sparta_expression *e, const sparta_named_tensor *array, int n, bool written,
                          arrays *a)
{
    for (int i = 0; i < n; i++) {
        int at;
        SP_TRY(sp_special_named(e->s, array[i].name, &at));
        const sp_special_operand *o = &e->s->operand[at];
        if (a->of[at]) return sp_fail(e->cx, SPARTA_E_USAGE, "expression: %s is given twice", o->name);
        if (o->written != written)
            return sp_fail(e->cx, SPARTA_E_USAGE, "expression: %s is %s, and stands among the %s", o->name,
                           written ? "only read" : "written", written ? "results" : "inputs");
        if (e->packed[at])
            return sp_fail(e->cx, SPARTA_E_USAGE,
                           "expression: %s was packed when the expression was made; leave it out", o->name);
        a->of[at] = &array[i].tensor;
    }
    return SPARTA_OK;
}

/* Sizes of this run: those that formats fix, and those of the arrays. */
static sparta_status size_run(sparta_expression *e, const arrays *a)
{
    sp_special *s = e->s;
    for (int i = 0; i < s->indices; i++) s->index[i].size = e->index[i];
    for (int i = 0; i < s->operands; i++)
        for (int d = 0; !s->operand[i].stored && d < s->operand[i].rank; d++) s->operand[i].dim[d] = -1;
    for (int i = 0; i < s->operands; i++)
        if (a->of[i]) SP_TRY(shape(e, i, a->of[i]));
    return sp_special_sized(s);
}

sparta_status sparta_expression_types(sparta_expression *e, const sparta_named_tensor *input, int inputs,
                                      sparta_named_tensor *output, int outputs)
{
    arrays a = {{NULL}};
    SP_TRY(take(e, input, inputs, false, &a));
    SP_TRY(size_run(e, &a));
    for (int i = 0; i < outputs; i++) {
        int at;
        SP_TRY(sp_special_named(e->s, output[i].name, &at));
        output[i].tensor =
            sparta_tensor_view(e->s->operand[at].dtype, e->s->operand[at].rank, e->s->operand[at].dim, NULL);
    }
    return SPARTA_OK;
}

static bool overlap(const sparta_tensor *a, const sparta_tensor *b)
{
    const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return x < y + (uintptr_t)sparta_tensor_elements(b) * sparta_dtype_size(b->dtype) &&
           y < x + (uintptr_t)sparta_tensor_elements(a) * sparta_dtype_size(a->dtype);
}

static sparta_status check(const sparta_expression *e, const arrays *a)
{
    for (int i = 0; i < e->s->operands; i++) {
        const sp_special_operand *o = &e->s->operand[i];
        const sparta_tensor *t = a->of[i];
        if (!t && !o->stored)
            return sp_fail(e->cx, SPARTA_E_USAGE, "expression: nothing is given for %s", o->name);
        if (t && !t->data && sparta_tensor_elements(t))
            return sp_fail(e->cx, SPARTA_E_USAGE, "expression: %s has no data", o->name);
        for (int k = 0; t && o->written && k < e->s->operands; k++)
            if (k != i && a->of[k] && overlap(t, a->of[k]))
                return sp_fail(
                    e->cx, SPARTA_E_USAGE,
                    "expression: %s is written and shares memory with %s; give it memory of its own", o->name,
                    e->s->operand[k].name);
    }
    return SPARTA_OK;
}

sparta_status sparta_expression_run(sparta_expression *e, const sparta_named_tensor *input, int inputs,
                                    const sparta_named_tensor *output, int outputs)
{
    arrays a = {{NULL}};
    SP_TRY(take(e, input, inputs, false, &a));
    SP_TRY(take(e, output, outputs, true, &a));
    SP_TRY(size_run(e, &a));
    SP_TRY(check(e, &a));
    SP_TRY(sp_special_give(&e->kernel, a.of));
    SP_TRY(sp_special_run(&e->kernel, e->pool));
    for (int i = 0; i < e->s->operands; i++)
        if (e->s->operand[i].stored && a.of[i]) SP_TRY(sp_store_unpack(e->cx, &e->kernel.packed[i], a.of[i]));
    return SPARTA_OK;
}
