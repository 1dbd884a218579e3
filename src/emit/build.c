/* Building nests: build.h. */
#include "emit/build.h"

sparta_dtype sp_build_dtype(sparta_dtype dtype)
{
    return dtype == SPARTA_F16 || dtype == SPARTA_BF16 ? SPARTA_F32 : dtype;
}

static int add_loop(sp_build *b, char name, bool inner)
{
    sp_nest *n = b->out;
    if (n->loops == SP_NEST_LOOPS) {
        b->can = false;
        return 0;
    }
    n->loop[n->loops] = (sp_nest_loop){.name = name, .inner = inner, .size = -1};
    return n->loops++;
}

/* Tokens are lanes: f t* without a reduction, t* | f with one over the last axis. */
static void loops_in_lanes(sp_build *b, const bool *reduced)
{
    const int last = b->space->rank - 1;
    if (last < 1) {
        b->can = false;
        return;
    }
    for (int i = 0; i < last; i++)
        if (reduced[i]) b->can = false;
    const bool one = sp_expr_is(b->space->dim[last], 1);
    if (reduced[last]) {
        b->token = add_loop(b, 't', false);
        b->loop[last] = add_loop(b, 'f', true);
    } else {
        b->loop[last] = one ? -1 : add_loop(b, 'f', false);
        b->token = add_loop(b, 't', false);
    }
    b->out->loop[b->token].bind = SP_BIND_VECTOR;
}

void sp_build_loops(sp_build *b, const sp_dims *space, const bool *reduced)
{
    const int last = space->rank - 1;
    b->space = space;
    b->token = -1;
    if (last < 0) {
        b->can = false;
        return;
    }
    if (b->lanes) {
        loops_in_lanes(b, reduced);
        return;
    }
    int vector = last;
    while (vector > 0 && !reduced[vector] && sp_expr_is(space->dim[vector], 1)) vector--;
    for (int inner = 0; inner < 2; inner++)
        for (int i = 0; i <= last; i++) {
            if (reduced[i] != inner) continue;
            const bool none = i != vector && !inner && sp_expr_is(space->dim[i], 1);
            b->loop[i] = none ? -1 : add_loop(b, (char)('i' + i), inner);
        }
    if (b->can) b->out->loop[b->loop[vector]].bind = SP_BIND_VECTOR;
}

static sp_nest_axis axis_of(int loop)
{
    sp_nest_axis x = {0};
    if (loop >= 0) {
        x.n = 1;
        x.term[0] = (sp_nest_term){loop, 1};
    }
    return x;
}

/* A value whose axis k is axis[k] of the space. */
static void access(sp_build *b, const sp_value *v, const int *axis, sp_nest_operand *o)
{
    const int last = b->space->rank - 1, rank = v->dims.rank;
    *o = (sp_nest_operand){.dtype = v->dtype, .rank = rank};
    if (b->lanes && !v->constant) { /* (tokens, features): all token axes alike */
        o->lanes = true;
        o->rank = 2;
        if (rank != last + 1) b->can = false;
        for (int k = 0; k < rank && b->can; k++)
            if (k < last && (axis[k] != k || !sp_expr_equal(v->dims.dim[k], b->space->dim[k])))
                b->can = false;
        if (!b->can) return;
        o->axis[0] = axis_of(b->token);
        o->axis[1] = axis_of(axis[last] < 0 ? -1 : b->loop[last]);
        return;
    }
    for (int k = 0; k < rank; k++) {
        if (b->lanes && axis[k] >= 0 && axis[k] != last) b->can = false;
        o->axis[k] = axis_of(axis[k] < 0 ? -1 : b->loop[axis[k]]);
    }
}

static bool literal(const sp_value *v, double *out)
{
    const sparta_tensor *t = v->constant;
    if (!t || !t->data || sparta_tensor_elements(t) != 1) return false;
    *out = sp_dtype_is_float(t->dtype) ? sp_element_get(t->dtype, t->data, 0)
                                       : (double)sp_element_get_int(t->dtype, t->data, 0);
    return t->dtype != SPARTA_BOOL && t->dtype != SPARTA_U64 &&
           (sp_dtype_is_float(t->dtype) || (*out > -0x1p52 && *out < 0x1p52));
}

sp_nest_arg sp_build_number(double v)
{
    return (sp_nest_arg){SP_ARG_NUMBER, 0, v};
}

static sp_nest_arg operand_at(sp_build *b, int i, const int *axis)
{
    const sp_value *v = b->node->in[i];
    sp_nest *n = b->out;
    sp_nest_operand o;
    access(b, v, axis, &o);
    for (int k = 0; k < n->operands; k++)
        if (b->node->in[b->slot[k]] == v) return (sp_nest_arg){SP_ARG_OPERAND, k, 0};
    if (n->operands >= SP_NEST_OPERANDS - 3) { /* room for outputs */
        b->can = false;
        return SP_NONE;
    }
    b->slot[n->operands] = i;
    n->operand[n->operands] = o;
    return (sp_nest_arg){SP_ARG_OPERAND, n->operands++, 0};
}

sp_nest_arg sp_build_input_at(sp_build *b, int i, const int *axis)
{
    const sp_value *v = i < b->node->n_in ? b->node->in[i] : NULL;
    double number;
    if (!v || !v->typed || !b->can) {
        b->can = false;
        return SP_NONE;
    }
    return literal(v, &number) ? sp_build_number(number) : operand_at(b, i, axis);
}

sp_nest_arg sp_build_parameter(sp_build *b, int i)
{
    static const int everywhere[SPARTA_RANK] = {-1, -1, -1, -1, -1, -1, -1, -1};
    double number;
    if (!b->can || !b->node->in[i]->typed) {
        b->can = false;
        return SP_NONE;
    }
    if (literal(b->node->in[i], &number) && number == 0) return sp_build_number(0);
    return operand_at(b, i, everywhere);
}

sp_nest_arg sp_build_input(sp_build *b, int i)
{
    const sp_value *v = i < b->node->n_in ? b->node->in[i] : NULL;
    int axis[SPARTA_RANK];
    if (!v || !v->typed || !b->can || v->dims.rank > b->space->rank) {
        b->can = false;
        return SP_NONE;
    }
    for (int k = 0; k < v->dims.rank; k++) {
        const int at = b->space->rank - v->dims.rank + k;
        axis[k] = sp_expr_is(v->dims.dim[k], 1) && !sp_expr_is(b->space->dim[at], 1) ? -1 : at;
        if (axis[k] >= 0 && !sp_expr_equal(v->dims.dim[k], b->space->dim[at])) b->can = false;
    }
    return sp_build_input_at(b, i, axis);
}

sp_nest_arg sp_build_of(sp_build *b, int word, sparta_dtype dtype, const sp_nest_arg *arg)
{
    sp_nest *n = b->out;
    if (n->statements == SP_NEST_STATEMENTS) b->can = false;
    if (!b->can) return SP_NONE;
    sp_nest_statement *s = &n->statement[n->statements];
    *s = (sp_nest_statement){.word = word, .dtype = dtype, .n = sp_nest_word_row(word)->n, .stores = -1};
    for (int i = 0; i < s->n; i++) s->arg[i] = arg[i];
    return (sp_nest_arg){SP_ARG_STATEMENT, n->statements++, 0};
}

void sp_build_output(sp_build *b, int i, const int *axis, sp_nest_arg v)
{
    static const int same[SPARTA_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    sp_nest *n = b->out;
    const sp_value *y = b->node->out[i];
    if (!b->can || !y->typed) {
        b->can = false;
        return;
    }
    if (v.kind != SP_ARG_STATEMENT || n->statement[v.at].stores >= 0)
        v = sp_build_statement(b, SP_NEST_copy, sp_build_dtype(y->dtype), v, SP_NONE, SP_NONE);
    if (!b->can || n->operands == SP_NEST_OPERANDS) {
        b->can = false;
        return;
    }
    access(b, y, axis ? axis : same, &n->operand[n->operands]);
    n->operand[n->operands].out = true;
    n->statement[v.at].stores = n->operands;
    b->slot[n->operands++] = b->node->n_in + i;
}
