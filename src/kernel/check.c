/* What must hold of a nest, whoever made it: one vector loop that is the last of its side, outputs stored once and at every index, types. */
#include "kernel/inside.h"

static const sp_nest_word table[] = {
#define SP_WORD(name, n, kind, costly) {#name, n, SP_KIND_##kind, costly},
#include "kernel/words.def"
#undef SP_WORD
};
const sp_nest_word *sp_nest_word_row(int word)
{
    return &table[word];
}

#define BAD(...) return sp_fail(cx, SPARTA_E_FORMAT, "nest: " __VA_ARGS__)

static sparta_status check_loops(sparta_ctx *cx, const sp_nest *n)
{
    int vectors = 0;
    if (!n->loops) BAD("there is no loop");
    for (int i = 0; i < n->loops; i++) {
        const sp_nest_loop *l = &n->loop[i];
        if (i && n->loop[i - 1].inner && !l->inner) BAD("loop %c stands right of an inner one", l->name);
        if (l->over != SP_OVER_COUNT)
            BAD("loop %c runs over %s, which no kernel does yet", l->name, sp_nest_overs[l->over]);
        if (l->bind > SP_BIND_VECTOR)
            BAD("loop %c is bound to %s, which this device does not have", l->name,
                sp_nest_bindings[l->bind]);
        if (l->bind != SP_BIND_VECTOR) continue;
        vectors++;
        if (i + 1 < n->loops && n->loop[i + 1].inner == l->inner)
            BAD("the vector loop %c is not the last of its side", l->name);
    }
    if (vectors != 1) BAD("there are %d vector loops in place of one", vectors);
    return SPARTA_OK;
}

static sparta_status check_lanes(sparta_ctx *cx, const sp_nest *n)
{
    if (!sp_nest_lanes(n)) return SPARTA_OK;
    const int vector = sp_nest_vector(n);
    if (n->loop[vector].inner) BAD("tokens in panels are lanes; their loop stands right of the bar");
    for (int i = 0; i < n->operands; i++) {
        const sp_nest_operand *o = &n->operand[i];
        if (!o->lanes) {
            if (o->out || sp_nest_uses(o, vector))
                BAD("operand %d has tokens and is not in panels, as others are", i);
            continue;
        }
        const sp_nest_axis *t = &o->axis[0];
        if (o->rank != 2 || o->dtype != SPARTA_F32) BAD("operand %d in panels is not f32[token,feature]", i);
        for (int k = 0; k < o->axis[1].n; k++)
            if (o->axis[1].term[k].loop == vector) BAD("features of operand %d go along with its tokens", i);
        if (t->n != 1 || t->term[0].loop != vector || t->term[0].times != 1 || t->plus)
            BAD("tokens of operand %d in panels are not the vector loop", i);
    }
    return SPARTA_OK;
}

/* f16 and bf16 are read as f32 and rounded when they are stored or cast to. */
static sparta_dtype value_of(sparta_dtype dtype)
{
    return dtype == SPARTA_F16 || dtype == SPARTA_BF16 ? SPARTA_F32 : dtype;
}
sparta_dtype sp_nest_arg_dtype(const sp_nest *n, const sp_nest_arg *a, sparta_dtype number)
{
    return a->kind == SP_ARG_OPERAND     ? value_of(n->operand[a->at].dtype)
           : a->kind == SP_ARG_STATEMENT ? value_of(n->statement[a->at].dtype)
                                         : number;
}

static bool wide(sparta_dtype d) /* types that are only moved */
{
    return d == SPARTA_U32 || d == SPARTA_U64;
}
static bool known(sparta_dtype d)
{
    return d <= SPARTA_BOOL;
}
static bool number(sparta_dtype d)
{
    return known(d) && !wide(d) && d != SPARTA_BOOL && value_of(d) == d;
}

/* Does a result of type d come from these arguments? */
static bool typed(const sp_nest *n, const sp_nest_statement *s)
{
    const sp_nest_word *w = sp_nest_word_row(s->word);
    sparta_dtype a[SP_NEST_ARGS], first = s->dtype;
    for (int i = s->n; i-- > 0;)
        if (s->arg[i].kind != SP_ARG_NUMBER) first = sp_nest_arg_dtype(n, &s->arg[i], s->dtype);
    for (int i = 0; i < s->n; i++)
        a[i] = sp_nest_arg_dtype(n, &s->arg[i], w->kind == SP_KIND_TEST ? first : s->dtype);
    for (int i = 0; i < s->n; i++)
        if (!known(a[i])) return false;
    switch (w->kind) {
    case SP_KIND_NUMBER: return number(s->dtype) && a[0] == s->dtype && a[s->n - 1] == s->dtype;
    case SP_KIND_REAL: return s->dtype == SPARTA_F32 && a[0] == s->dtype && a[s->n - 1] == s->dtype;
    case SP_KIND_REDUCE:
        return (s->dtype == SPARTA_F32 || s->dtype == SPARTA_F64 ||
                (s->word != SP_NEST_mean && (s->dtype == SPARTA_I32 || s->dtype == SPARTA_I64))) &&
               a[0] == s->dtype;
    case SP_KIND_TEST:
        return s->dtype == SPARTA_BOOL && a[0] == a[1] &&
               (number(a[0]) || (a[0] == SPARTA_BOOL && s->word == SP_NEST_equal));
    case SP_KIND_CHECK: return s->dtype == SPARTA_BOOL && a[0] == SPARTA_F32;
    case SP_KIND_STEPS:
        for (int i = 0; i < s->n; i++)
            if (s->arg[i].kind != SP_ARG_NUMBER && a[i] != SPARTA_F32) return false;
        return s->dtype == SPARTA_I32;
    case SP_KIND_LOGIC: return s->dtype == SPARTA_BOOL && a[0] == s->dtype && a[s->n - 1] == s->dtype;
    case SP_KIND_CHOOSE:
        return known(s->dtype) && !wide(s->dtype) && a[0] == SPARTA_BOOL && s->arg[0].kind != SP_ARG_NUMBER &&
               a[1] == value_of(s->dtype) && a[2] == a[1];
    case SP_KIND_CAST: return known(s->dtype) && !wide(s->dtype) && !wide(a[0]);
    case SP_KIND_COPY: return value_of(s->dtype) == s->dtype && known(s->dtype) && a[0] == s->dtype;
    }
    return false;
}

static sparta_status check_statement(sparta_ctx *cx, const sp_nest *n, int at)
{
    const sp_nest_statement *s = &n->statement[at];
    if (s->word < 0 || s->word >= SP_NEST_WORDS) BAD("statement %d has no word", at);
    const sp_nest_word *w = sp_nest_word_row(s->word);
    if (s->n != w->n) BAD("%s in statement %d has %d arguments in place of %d", w->name, at, s->n, w->n);
    for (int i = 0; i < s->n; i++) {
        const sp_nest_arg *a = &s->arg[i];
        if (a->kind == SP_ARG_OPERAND && (a->at < 0 || a->at >= sp_nest_inputs(n)))
            BAD("statement %d reads no input", at);
        if (a->kind == SP_ARG_STATEMENT && (a->at < 0 || a->at >= at))
            BAD("statement %d uses what comes later", at);
    }
    if (!typed(n, s))
        BAD("types in statement %d: no %s of these is %s", at, w->name, sparta_dtype_name(s->dtype));
    if (w->kind == SP_KIND_REDUCE && !sp_nest_barred(n))
        BAD("statement %d reduces, and no loop stands right of a bar", at);
    if (s->stores < 0) return SPARTA_OK;
    const sparta_dtype stored = n->operand[s->stores].dtype;
    if (stored != s->dtype && value_of(stored) != s->dtype)
        BAD("statement %d is %s and stored as %s", at, sparta_dtype_name(s->dtype),
            sparta_dtype_name(stored));
    return SPARTA_OK;
}

/* Outputs have every loop that what they store has, so that no two threads write one element; all of them are stored once. */
static sparta_status check_output(sparta_ctx *cx, const sp_nest *n, int at)
{
    int stored = -1;
    for (int s = 0; s < n->statements; s++)
        if (n->statement[s].stores == at) {
            if (stored >= 0) BAD("output %d is stored twice", at - sp_nest_inputs(n));
            stored = s;
        }
    if (stored < 0) BAD("output %d is not stored", at - sp_nest_inputs(n));
    const bool inner = sp_nest_inner(n, &n->operand[at]);
    for (int l = 0; l < n->loops; l++)
        if ((!n->loop[l].inner || inner) && !sp_nest_uses(&n->operand[at], l))
            BAD("output %d has no loop %c", at - sp_nest_inputs(n), n->loop[l].name);
    return SPARTA_OK;
}

/* An output without inner loops takes what is one value for all of them. */
static sparta_status check_levels(sparta_ctx *cx, const sp_nest *n)
{
    sp_nest copy = *n;
    sp_nest_phases(&copy);
    for (int s = 0; s < n->statements; s++) {
        const int y = n->statement[s].stores;
        if (y >= 0 && copy.statement[s].inner && !sp_nest_inner(n, &n->operand[y]))
            BAD("output %d has one place for many values", y - sp_nest_inputs(n));
    }
    return SPARTA_OK;
}

sparta_status sp_nest_check(sparta_ctx *cx, const sp_nest *n)
{
    SP_TRY(check_loops(cx, n));
    SP_TRY(check_lanes(cx, n));
    if (sp_nest_inputs(n) == n->operands) BAD("there is no output");
    for (int i = 0; i < n->operands; i++)
        if (!known(n->operand[i].dtype))
            BAD("operand %d: no kernel reads %s", i, sparta_dtype_name(n->operand[i].dtype));
    for (int i = 0; i < n->statements; i++) SP_TRY(check_statement(cx, n, i));
    for (int i = sp_nest_inputs(n); i < n->operands; i++) SP_TRY(check_output(cx, n, i));
    return check_levels(cx, n);
}
