/* A nest as text; sp_nest_parse reads it back. */
#include "kernel/inside.h"
#include <math.h>
#include <stdio.h>

const char *const sp_nest_bindings[] = {"", "unroll", "*", "threads", "grid", "warp", "lane"};
const char *const sp_nest_overs[] = {"", "segment", "merge"};

static void print_loop(const sp_nest_loop *l, sp_text *out)
{
    sp_text_printf(out, "%c", l->name);
    if (l->size >= 0) sp_text_printf(out, ":%lld", (long long)l->size);
    if (l->over != SP_OVER_COUNT) sp_text_printf(out, "@%s", sp_nest_overs[l->over]);
    if (l->bind == SP_BIND_VECTOR)
        sp_text_printf(out, "*");
    else if (l->bind != SP_BIND_SERIAL)
        sp_text_printf(out, ".%s", sp_nest_bindings[l->bind]);
}

static void print_axis(const sp_nest *n, const sp_nest_axis *x, sp_text *out)
{
    for (int i = 0; i < x->n; i++) {
        const int64_t times = x->term[i].times;
        if (i && times >= 0) sp_text_printf(out, "+");
        if (times != 1) sp_text_printf(out, "%lld*", (long long)times);
        sp_text_printf(out, "%c", n->loop[x->term[i].loop].name);
    }
    if (x->plus || !x->n) sp_text_printf(out, x->n ? "%+lld" : "%lld", (long long)x->plus);
}

static void print_operand(const sp_nest *n, int at, sp_text *out)
{
    const sp_nest_operand *o = &n->operand[at];
    sp_text_printf(out, "; %c%d: %s%s[", o->out ? 'y' : 'x', o->out ? at - sp_nest_inputs(n) : at,
                   o->lanes ? "lanes " : "", sparta_dtype_name(o->dtype));
    for (int i = 0; i < o->rank; i++) {
        if (i) sp_text_printf(out, ",");
        print_axis(n, &o->axis[i], out);
    }
    sp_text_printf(out, "]");
}

void sp_nest_print_number(double v, sp_text *out)
{
    char s[32];
    if (!isfinite(v))
        snprintf(s, sizeof s, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    else
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(s, sizeof s, "%.*g", digits, v);
            for (char *c = s; *c; c++)
                if (*c == ',') *c = '.'; /* the host's locale */
            double back;
            if (sp_parse_double(s, &back) && back == v) break;
        }
    sp_text_printf(out, "%s", s);
}

static void print_name(const sp_nest *n, int statement, sp_text *out)
{
    const int y = n->statement[statement].stores;
    if (y >= 0)
        sp_text_printf(out, "y%d", y - sp_nest_inputs(n));
    else
        sp_text_printf(out, "t%d", statement);
}

static void print_statement(const sp_nest *n, int at, sp_text *out)
{
    const sp_nest_statement *s = &n->statement[at];
    sp_text_printf(out, "; ");
    print_name(n, at, out);
    if (s->dtype != SPARTA_F32) sp_text_printf(out, ": %s", sparta_dtype_name(s->dtype));
    sp_text_printf(out, " = %s(", sp_nest_word_row(s->word)->name);
    for (int i = 0; i < s->n; i++) {
        if (i) sp_text_printf(out, ",");
        switch (s->arg[i].kind) {
        case SP_ARG_OPERAND: sp_text_printf(out, "x%d", s->arg[i].at); break;
        case SP_ARG_STATEMENT: print_name(n, s->arg[i].at, out); break;
        case SP_ARG_NUMBER: sp_nest_print_number(s->arg[i].number, out); break;
        }
    }
    sp_text_printf(out, ")");
}

void sp_nest_print(const sp_nest *n, sp_text *out)
{
    for (int i = 0; i < n->loops; i++) {
        if (n->loop[i].inner && (!i || !n->loop[i - 1].inner)) sp_text_printf(out, i ? " |" : "|");
        if (i || n->loop[i].inner) sp_text_printf(out, " ");
        print_loop(&n->loop[i], out);
    }
    for (int i = 0; i < n->operands; i++) print_operand(n, i, out);
    for (int i = 0; i < n->statements; i++) print_statement(n, i, out);
}
