/* What there is to know of a nest without sizes: phases, what is kept between them, how accesses go along the vector loop. */
#include "kernel/inside.h"

int sp_nest_vector(const sp_nest *n)
{
    for (int i = 0; i < n->loops; i++)
        if (n->loop[i].bind == SP_BIND_VECTOR) return i;
    return -1;
}

bool sp_nest_barred(const sp_nest *n)
{
    return n->loops && n->loop[n->loops - 1].inner;
}

bool sp_nest_down(const sp_nest *n)
{
    return sp_nest_barred(n) && !n->loop[sp_nest_vector(n)].inner;
}

bool sp_nest_lanes(const sp_nest *n)
{
    for (int i = 0; i < n->operands; i++)
        if (n->operand[i].lanes) return true;
    return false;
}

int sp_nest_inputs(const sp_nest *n)
{
    int inputs = 0;
    while (inputs < n->operands && !n->operand[inputs].out) inputs++;
    return inputs;
}

static int64_t factor(const sp_nest_axis *x, int loop)
{
    for (int i = 0; i < x->n; i++)
        if (x->term[i].loop == loop) return x->term[i].times;
    return 0;
}

bool sp_nest_uses(const sp_nest_operand *o, int loop)
{
    for (int i = 0; i < o->rank; i++)
        if (factor(&o->axis[i], loop)) return true;
    return false;
}

bool sp_nest_inner(const sp_nest *n, const sp_nest_operand *o)
{
    for (int l = 0; l < n->loops; l++)
        if (n->loop[l].inner && sp_nest_uses(o, l)) return true;
    return false;
}

bool sp_nest_arg_inner(const sp_nest *n, const sp_nest_arg *a)
{
    return a->kind == SP_ARG_OPERAND     ? sp_nest_inner(n, &n->operand[a->at])
           : a->kind == SP_ARG_STATEMENT ? n->statement[a->at].inner
                                         : false;
}

sp_nest_along sp_nest_access(const sp_nest *n, int operand)
{
    const sp_nest_operand *o = &n->operand[operand];
    const int vector = sp_nest_vector(n);
    if (!sp_nest_uses(o, vector)) return SP_ALONG_NONE;
    if (o->lanes) return SP_ALONG_UNIT;
    /* Axes of size 1 behind the last that has a loop are at index 0. */
    int last = o->rank - 1;
    while (last > 0 && !o->axis[last].n && !o->axis[last].plus) last--;
    for (int i = 0; i < o->rank; i++)
        if (factor(&o->axis[i], vector) != (i == last)) return SP_ALONG_ANY;
    return SP_ALONG_UNIT;
}

int sp_nest_bytes(sparta_dtype dtype)
{
    return dtype == SPARTA_I64 || dtype == SPARTA_U64 || dtype == SPARTA_F64 ? 8 : 4;
}

/* The first phase in which an argument is known. */
static int known_in(const sp_nest *n, const sp_nest_arg *a)
{
    if (a->kind != SP_ARG_STATEMENT) return 0;
    const sp_nest_statement *s = &n->statement[a->at];
    return s->phase + sp_nest_reduces(s);
}

/* Phase `phase` needs statement `at`: from a line when it is costly and was computed before, else computed again. */
static void need(sp_nest *n, int at, int phase)
{
    sp_nest_statement *s = &n->statement[at];
    if (!s->inner || s->space == SP_SPACE_LINE) return;
    if (s->phase < phase && sp_nest_word_row(s->word)->costly) {
        s->space = SP_SPACE_LINE;
        return;
    }
    for (int i = 0; i < s->n; i++)
        if (s->arg[i].kind == SP_ARG_STATEMENT) need(n, s->arg[i].at, phase);
}

int sp_nest_phases(sp_nest *n)
{
    int phases = 1;
    for (int i = 0; i < n->statements; i++) {
        sp_nest_statement *s = &n->statement[i];
        s->phase = 0;
        s->inner = false;
        s->space = SP_SPACE_REGISTER;
        for (int k = 0; k < s->n; k++) {
            s->phase = SP_MAX(s->phase, known_in(n, &s->arg[k]));
            s->inner |= sp_nest_arg_inner(n, &s->arg[k]);
        }
        if (sp_nest_reduces(s)) s->inner = false;
        /* One value for all indices, stored at each of them. */
        phases = SP_MAX(phases, s->phase + 1 + sp_nest_reduces(s));
    }
    for (int i = 0; i < n->statements; i++) {
        const sp_nest_statement *s = &n->statement[i];
        const bool root = sp_nest_reduces(s) || s->stores >= 0;
        for (int k = 0; root && k < s->n; k++)
            if (s->arg[k].kind == SP_ARG_STATEMENT) need(n, s->arg[k].at, s->phase);
    }
    return phases;
}
