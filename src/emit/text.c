/* A nest as C. One function with a loop for each loop of the nest; what is known only at run time are sizes and strides.
 *
 *     no bar    for each outer index { vector loop { loads; statements; stores } }
 *     ACROSS    for each outer index { for each phase { accumulators; inner loops, the vector loop last { ... }; a fold across the lanes } }
 *     DOWN      for each outer index { for each block of the vector loop { for each phase { inner loops { vector loop over the block { ... } } } } }
 *
 * In DOWN, what is one value for all inner indices (a maximum, a sum) is a line of a value a lane, in an array on the stack. Sums are taken in runs of 64: what a
 * run came to is added to a second line, e, so that a long sum is as good as a short one.
 */
#include "emit/spell.h"
#include "panel/panel.h"
#include <stdio.h>
#include <string.h>

_Static_assert(SP_NEST_LANES == SP_PANEL, "what lies in lanes is counted by panels");

enum { BLOCK = 256, CHUNK = 8192, RUN = 64 };

typedef struct writer {
    const sp_nest *n;
    sp_text *out;
    int depth, vector, inputs, phases;
    bool barred, down, lanes;
    char at[SP_NEST_OPERANDS][SP_NEST_LOOPS + 8]; /* the pointer of each operand at this depth */
    char position[64];                            /* where kept lines are at the inner loops so far */
} writer;

/* ------------------------------------------------------------------ lines of text */
static void indent(writer *w)
{
    sp_text_printf(w->out, "%*s", 4 * w->depth, "");
}
#define LINE(w, ...)                                                                                         \
    do {                                                                                                     \
        indent(w);                                                                                           \
        sp_text_printf((w)->out, __VA_ARGS__);                                                               \
        sp_text_printf((w)->out, "\n");                                                                      \
    } while (0)
static void open(writer *w)
{
    sp_text_printf(w->out, " {\n");
    w->depth++;
}
static void close(writer *w)
{
    w->depth--;
    LINE(w, "}");
}

/* ------------------------------------------------------------------ what a phase needs */
typedef struct needs {
    bool statement[SP_NEST_STATEMENTS]; /* to be there in the body of the vector loop */
    bool operand[SP_NEST_OPERANDS];
    bool any;
} needs;

static void need_arg(const writer *w, const sp_nest_arg *a, int phase, needs *d)
{
    if (a->kind == SP_ARG_OPERAND) d->operand[a->at] = true;
    if (a->kind != SP_ARG_STATEMENT || d->statement[a->at]) return;
    const sp_nest_statement *s = &w->n->statement[a->at];
    d->statement[a->at] = true;
    if (w->barred && !s->inner) return; /* it is there already */
    if (s->space == SP_SPACE_LINE && s->phase < phase) return;
    for (int i = 0; i < s->n; i++) need_arg(w, &s->arg[i], phase, d);
}

/* Stored at every index of the loops in the body? */
static bool stores_inside(const writer *w, const sp_nest_statement *s)
{
    return s->stores >= 0 && (!w->barred || sp_nest_inner(w->n, &w->n->operand[s->stores]));
}

static void body_needs(const writer *w, int phase, needs *d)
{
    memset(d, 0, sizeof *d);
    for (int i = 0; i < w->n->statements; i++) {
        const sp_nest_statement *s = &w->n->statement[i];
        if (s->phase != phase) continue;
        if (sp_nest_reduces(s))
            need_arg(w, &s->arg[0], phase, d);
        else if (stores_inside(w, s))
            need_arg(w, &(sp_nest_arg){SP_ARG_STATEMENT, i, 0}, phase, d);
        else
            continue;
        d->any = true;
    }
    /* A reduction's result that is stored everywhere. */
    for (int i = 0; i < w->n->statements; i++) {
        const sp_nest_statement *s = &w->n->statement[i];
        if (sp_nest_reduces(s) && stores_inside(w, s) && s->phase + 1 == phase)
            d->statement[i] = d->any = true;
    }
}

/* What is one value for all inner indices and computed where phase `phase` begins. */
static bool outside(const writer *w, const sp_nest_statement *s, int phase)
{
    return w->barred && !s->inner && !sp_nest_reduces(s) && s->phase == phase;
}

/* ------------------------------------------------------------------ loads and stores */
static char loop_name(const writer *w)
{
    return w->n->loop[w->vector].name;
}

/* Where an operand is at the vector index: px0 + k. In blocks of DOWN the index begins at `from`. */
static void print_place(const writer *w, int operand, const char *plus, sp_text *out)
{
    const sp_nest_along along = sp_nest_access(w->n, operand);
    const char v = loop_name(w);
    sp_text_printf(out, "%s", w->at[operand]);
    if (along == SP_ALONG_NONE) return;
    const bool any = along == SP_ALONG_ANY;
    if (!w->down && !*plus)
        sp_text_printf(out, " + %c", v);
    else
        sp_text_printf(out, any ? " + (%s%c%s)" : " + %s%c%s", w->down ? "from + " : "", v, plus);
    if (any)
        sp_text_printf(out, " * %c%d_%c", w->n->operand[operand].out ? 'y' : 'x',
                       w->n->operand[operand].out ? operand - w->inputs : operand, v);
}

static void load_operand(writer *w, int operand, const char *plus, const char *count)
{
    const sp_nest_operand *o = &w->n->operand[operand];
    const char *d = sparta_dtype_name(o->dtype), *t = sp_spell_type_of(o->dtype)->name;
    indent(w);
    sp_text_printf(w->out, "const %s x%d = ", t, operand);
    switch (sp_nest_access(w->n, operand)) {
    case SP_ALONG_NONE: sp_text_printf(w->out, "all_%s(%s);\n", d, w->at[operand]); return;
    case SP_ALONG_UNIT:
        sp_text_printf(w->out, o->lanes ? "load(" : "get_%s(", d);
        print_place(w, operand, plus, w->out);
        if (!o->lanes) sp_text_printf(w->out, ", %s", count);
        break;
    case SP_ALONG_ANY:
        sp_text_printf(w->out, "gather_%s(", d);
        print_place(w, operand, plus, w->out);
        sp_text_printf(w->out, ", x%d_%c, %s", operand, loop_name(w), count);
        break;
    }
    sp_text_printf(w->out, ");\n");
}

static void store_operand(writer *w, int statement, const char *plus, const char *count)
{
    const int y = w->n->statement[statement].stores;
    const sp_nest_operand *o = &w->n->operand[y];
    const char *d = sparta_dtype_name(o->dtype);
    const sp_nest_along along = sp_nest_access(w->n, y);
    indent(w);
    if (o->lanes)
        sp_text_printf(w->out, "store(");
    else
        sp_text_printf(w->out, along == SP_ALONG_ANY ? "scatter_%s(" : "put_%s(", d);
    print_place(w, y, plus, w->out);
    sp_text_printf(w->out, ", %s", sp_spell_name_of(w->n, statement).s);
    if (along == SP_ALONG_ANY) sp_text_printf(w->out, ", y%d_%c", y - w->inputs, loop_name(w));
    if (!o->lanes) sp_text_printf(w->out, ", %s", along == SP_ALONG_NONE ? "1" : count);
    sp_text_printf(w->out, ");\n");
}

/* ------------------------------------------------------------------ the body of the vector loop */
/* a += b, or a = most(a, b): text of names. */
static void put_step(writer *w, const sp_nest_statement *s, const char *a, const char *b)
{
    const sp_spell_type *t = sp_spell_type_of(s->dtype);
    const char *step = sp_spell_fold(s)->step;
    const bool sum = !strcmp(step, "add"), plain = t == &sp_spell_vec || t == &sp_spell_doubles;
    if (plain && (sum || !strcmp(step, "mul")))
        LINE(w, "%s %c= %s;", a, sum ? '+' : '*', b);
    else
        LINE(w, "%s = %s%s(%s, %s);", a, step, t == &sp_spell_vec ? "" : t->end, a, b);
}

/* DOWN: what a line has for these lanes. */
static void read_line(writer *w, int at)
{
    const char *t = sp_spell_type_of(w->n->statement[at].dtype)->name;
    LINE(w, "const %s %s = *(const %s *)(l%d + %c);", t, sp_spell_name_of(w->n, at).s, t, at, loop_name(w));
}

/* A statement that is reduced: into accumulator `turn`, or in DOWN into its line. Of a tail only the first n lanes count. */
static void accumulate(writer *w, int at, int turn, bool tail)
{
    const sp_nest_statement *s = &w->n->statement[at];
    const sp_spell_type *t = sp_spell_type_of(s->dtype);
    sp_text value;
    char sum[24];
    sp_text_init(&value, w->out->cx);
    if (tail && !w->down) sp_text_printf(&value, "first%s(n, ", t->end);
    sp_spell_arg(w->n, &s->arg[0], t, &value);
    if (tail && !w->down) sp_text_printf(&value, ", %s)", sp_spell_start(s));
    if (w->down) {
        snprintf(sum, sizeof sum, "*a%d", at);
        LINE(w, "%s *const a%d = (%s *)(l%d + %c);", t->name, at, t->name, at, loop_name(w));
    } else
        snprintf(sum, sizeof sum, "t%d_%d", at, turn);
    put_step(w, s, sum, sp_text_str(&value));
    sp_text_free(&value);
}

/* One vector: `plus` is added to the index, `count` lanes of it count (LANES or n). */
static void body(writer *w, int phase, int turn, const char *plus, const char *count)
{
    const sp_nest *n = w->n;
    needs d;
    body_needs(w, phase, &d);
    for (int i = 0; i < w->inputs; i++)
        if (d.operand[i] && sp_nest_access(n, i) != SP_ALONG_NONE) load_operand(w, i, plus, count);
    for (int i = 0; i < n->statements; i++) {
        const sp_nest_statement *s = &n->statement[i];
        const sp_spell_type *t = sp_spell_type_of(s->dtype);
        if (sp_nest_reduces(s) && s->phase == phase) {
            accumulate(w, i, turn, *count == 'n');
            continue;
        }
        if (!d.statement[i]) continue;
        if (w->barred && !s->inner) {
            if (w->down) read_line(w, i);
        } else if (s->space == SP_SPACE_LINE && s->phase < phase)
            LINE(w, "const %s %s = get_%s(k%d + %s%c%s, LANES);", t->name, sp_spell_name_of(w->n, i).s,
                 t->kept, i, w->position, loop_name(w), plus);
        else {
            indent(w);
            sp_text_printf(w->out, "const %s %s = ", t->name, sp_spell_name_of(w->n, i).s);
            sp_spell_expression(w->n, s, w->out);
            sp_text_printf(w->out, ";\n");
            if (s->space == SP_SPACE_LINE)
                LINE(w, "put_%s(k%d + %s%c%s, %s, LANES);", t->kept, i, w->position, loop_name(w), plus,
                     sp_spell_name_of(w->n, i).s);
        }
        if (stores_inside(w, s) && s->phase + sp_nest_reduces(s) == phase) store_operand(w, i, plus, count);
    }
}

/* ------------------------------------------------------------------ loops */
/* Does the body of a phase read or write the operand? ANY_PHASE: it is asked outside of all of them. */
enum { ANY_PHASE = -1 };
static bool touches(const writer *w, int phase, int operand)
{
    needs d;
    if (phase == ANY_PHASE) return true;
    body_needs(w, phase, &d);
    bool stored = false;
    for (int i = 0; i < w->n->statements; i++) {
        const sp_nest_statement *s = &w->n->statement[i];
        stored |= s->stores == operand && stores_inside(w, s) && s->phase + sp_nest_reduces(s) == phase;
    }
    return d.operand[operand] || stored;
}

/* for (long i = 0; i < n_i; i++), and the pointers of operands that have it. */
static void open_loop(writer *w, int loop, int phase, char saved[SP_NEST_OPERANDS][SP_NEST_LOOPS + 8])
{
    const char l = w->n->loop[loop].name;
    indent(w);
    sp_text_printf(w->out, "for (long %c = 0; %c < n_%c; %c++)", l, l, l, l);
    open(w);
    memcpy(saved, w->at, sizeof w->at);
    for (int i = 0; i < w->n->operands; i++) {
        const sp_nest_operand *o = &w->n->operand[i];
        if (!sp_nest_uses(o, loop) || !touches(w, phase, i)) continue;
        const char *was = saved[i];
        const char kind = o->out ? 'y' : 'x';
        const int number = o->out ? i - w->inputs : i;
        char now[SP_NEST_LOOPS + 8];
        snprintf(now, sizeof now, "%s%s%c", was, strchr(was, '_') ? "" : "_", l);
        LINE(w, "%s%s *%s = %s + %c * %c%d_%c;", o->out ? "" : "const ", sp_spell_stored(o->dtype), now, was,
             l, kind, number, l);
        memcpy(w->at[i], now, sizeof now);
    }
}

/* What does not go along the vector loop, before it. */
static void load_still(writer *w, int phase)
{
    needs d;
    body_needs(w, phase, &d);
    for (int i = 0; i < w->inputs; i++)
        if (d.operand[i] && sp_nest_access(w->n, i) == SP_ALONG_NONE) load_operand(w, i, "", "LANES");
}

static bool reduces_in(const writer *w, int phase)
{
    for (int i = 0; i < w->n->statements; i++)
        if (sp_nest_reduces(&w->n->statement[i]) && w->n->statement[i].phase == phase) return true;
    return false;
}

/* Panels have room for whole vectors; rows end with what is left. */
static void vector_loop(writer *w, int phase)
{
    const char v = loop_name(w);
    load_still(w, phase);
    if (w->lanes) {
        indent(w);
        sp_text_printf(w->out, "for (long %c = 0; %c < %s%c; %c += LANES)", v, v, w->down ? "m_" : "n_", v,
                       v);
        open(w);
        body(w, phase, 0, "", "LANES");
        close(w);
        return;
    }
    const char *end = w->down ? "m_" : "n_";
    LINE(w, "long %c = 0;", v);
    indent(w);
    sp_text_printf(w->out, "for (; %c + LANES <= %s%c; %c += LANES)", v, end, v, v);
    open(w);
    body(w, phase, 0, "", "LANES");
    close(w);
    indent(w);
    sp_text_printf(w->out, "if (%c < %s%c)", v, end, v);
    open(w);
    LINE(w, "const long n = %s%c - %c;", end, v, v);
    body(w, phase, 0, "", "n");
    close(w);
}

enum { ACCUMULATORS = 4 };
/* The vector loop of a phase that reduces across: several accumulators, so that additions need not wait for each other; sums of a chunk are added up
 * apart, so that a long line is summed as well as a short one. */
static void reducing_loop(writer *w, int phase)
{
    const sp_nest *n = w->n;
    const char v = loop_name(w);
    load_still(w, phase);
    LINE(w, "/* piece by piece: what a sum loses grows with its length */");
    indent(w);
    sp_text_printf(w->out, "for (long %c = 0, end = 0; %c < n_%c; %c = end)", v, v, v, v);
    open(w);
    LINE(w, "end = n_%c - %c > %d ? %c + %d : n_%c;", v, v, CHUNK, v, CHUNK, v);
    for (int i = 0; i < n->statements; i++) {
        const sp_nest_statement *s = &n->statement[i];
        if (!sp_nest_reduces(s) || s->phase != phase) continue;
        indent(w);
        sp_text_printf(w->out, "%s t%d_0 = %s(%s)", sp_spell_type_of(s->dtype)->name, i,
                       sp_spell_type_of(s->dtype)->splat, sp_spell_start(s));
        for (int k = 1; k < ACCUMULATORS; k++) sp_text_printf(w->out, ", t%d_%d = t%d_0", i, k, i);
        sp_text_printf(w->out, ";\n");
    }
    indent(w);
    sp_text_printf(w->out, "for (; %c + %d * LANES <= end; %c += %d * LANES)", v, ACCUMULATORS, v,
                   ACCUMULATORS);
    open(w);
    for (int k = 0; k < ACCUMULATORS; k++) {
        char plus[24] = "";
        if (k) snprintf(plus, sizeof plus, k > 1 ? " + %d * LANES" : " + LANES", k);
        LINE(w, "{");
        w->depth++;
        body(w, phase, k, plus, "LANES");
        close(w);
    }
    close(w);
    indent(w);
    sp_text_printf(w->out, "for (; %c + LANES <= end; %c += LANES)", v, v);
    open(w);
    body(w, phase, 0, "", "LANES");
    close(w);
    indent(w);
    sp_text_printf(w->out, "if (%c < end)", v);
    open(w);
    LINE(w, "const long n = end - %c;", v);
    body(w, phase, 1, "", "n");
    close(w);
    for (int i = 0; i < n->statements; i++) {
        const sp_nest_statement *s = &n->statement[i];
        if (!sp_nest_reduces(s) || s->phase != phase) continue;
        for (int k = 1; k < ACCUMULATORS; k *= 2)
            for (int j = 0; j < ACCUMULATORS; j += 2 * k) {
                char a[32], b[32];
                snprintf(a, sizeof a, "t%d_%d", i, j);
                snprintf(b, sizeof b, "t%d_%d", i, j + k);
                put_step(w, s, a, b);
            }
        char a[32], b[32];
        snprintf(a, sizeof a, "s%d", i);
        snprintf(b, sizeof b, "t%d_0", i);
        put_step(w, s, a, b);
    }
    close(w);
}

static bool keeps(const writer *w)
{
    for (int i = 0; i < w->n->statements; i++)
        if (w->n->statement[i].space == SP_SPACE_LINE) return true;
    return false;
}

/* DOWN: is it a sum that is taken in runs? */
static bool in_runs(const writer *w, const sp_nest_statement *s)
{
    return w->down && sp_nest_reduces(s) && !strcmp(sp_spell_fold(s)->step, "add") &&
           sp_spell_type_of(s->dtype) == &sp_spell_vec;
}

static bool runs_in(const writer *w, int phase)
{
    for (int i = 0; i < w->n->statements; i++)
        if (in_runs(w, &w->n->statement[i]) && w->n->statement[i].phase == phase) return true;
    return false;
}

/* Add the sums of runs to those of runs before them: to the second line, which goes on, or back at the end. */
static void add_runs(writer *w, int phase, bool end)
{
    const char v = loop_name(w);
    indent(w);
    sp_text_printf(w->out, "for (long %c = 0; %c < m_%c; %c += LANES)", v, v, v, v);
    open(w);
    for (int i = 0; i < w->n->statements; i++) {
        if (!in_runs(w, &w->n->statement[i]) || w->n->statement[i].phase != phase) continue;
        LINE(w, "*(vec *)(%c%d + %c) += *(vec *)(%c%d + %c);", end ? 'l' : 'e', i, v, end ? 'e' : 'l', i, v);
        if (!end) LINE(w, "*(vec *)(l%d + %c) = splat(0);", i, v);
    }
    close(w);
}

/* Is a run over? Asked in the last serial loop. */
static void end_run(writer *w, int phase)
{
    if (!runs_in(w, phase)) return;
    indent(w);
    sp_text_printf(w->out, "if (++turn %% %d == 0)", RUN);
    open(w);
    add_runs(w, phase, false);
    close(w);
}

/* The serial loops right of the bar, then the vector loop. */
static void inner_loops(writer *w, int phase, int loop)
{
    while (loop < w->n->loops && (!w->n->loop[loop].inner || loop == w->vector)) loop++;
    if (loop >= w->n->loops) {
        if (!w->down && reduces_in(w, phase))
            reducing_loop(w, phase);
        else
            vector_loop(w, phase);
        return;
    }
    char saved[SP_NEST_OPERANDS][SP_NEST_LOOPS + 8], position[64];
    memcpy(position, w->position, sizeof position);
    open_loop(w, loop, phase, saved);
    /* ((i) * n_j + j) * n_k + k, from the outside in; the last factor is the vector loop's or the block. */
    char inside[64];
    bool last = true;
    for (int l = loop + 1; l < w->n->loops; l++) last &= l == w->vector;
    if (keeps(w)) LINE(w, "const long p_%c = %s%c;", w->n->loop[loop].name, position, w->n->loop[loop].name);
    if (last)
        snprintf(inside, sizeof inside, w->down ? "p_%c * block + " : "p_%c * n_%c + ", w->n->loop[loop].name,
                 loop_name(w));
    else
        snprintf(inside, sizeof inside, "p_%c * n_%c + ", w->n->loop[loop].name, w->n->loop[loop + 1].name);
    memcpy(w->position, inside, sizeof inside);
    inner_loops(w, phase, loop + 1);
    if (last) end_run(w, phase);
    memcpy(w->position, position, sizeof position);
    memcpy(w->at, saved, sizeof saved);
    close(w);
}

/* ------------------------------------------------------------------ between phases */
static void print_count(const writer *w, sp_text *out)
{
    int inner = 0, n = 0;
    for (int l = 0; l < w->n->loops; l++) inner += w->n->loop[l].inner;
    if (inner > 1) sp_text_printf(out, "(");
    for (int l = 0; l < w->n->loops; l++)
        if (w->n->loop[l].inner)
            sp_text_printf(out, "%s%sn_%c", n++ ? " * " : "", inner > 1 ? "(double)" : "",
                           w->n->loop[l].name);
    if (inner > 1) sp_text_printf(out, ")");
}

/* Is it needed behind the place where it is computed: in a body, or in a later phase? */
static bool lasts(const writer *w, int at)
{
    for (int p = 0; p < w->phases; p++) {
        needs d;
        body_needs(w, p, &d);
        if (d.statement[at]) return true;
    }
    const sp_nest_statement *s = &w->n->statement[at];
    const int known = s->phase + sp_nest_reduces(s);
    for (int i = at + 1; i < w->n->statements; i++)
        if (w->n->statement[i].phase > known && sp_nest_reads(&w->n->statement[i], at)) return true;
    return false;
}

/* Statements of one value for all inner indices, where phase `phase` begins, and results of the reductions before it. */
static bool has_between(const writer *w, int phase)
{
    for (int i = 0; i < w->n->statements; i++) {
        const sp_nest_statement *s = &w->n->statement[i];
        if (outside(w, s, phase) || (sp_nest_reduces(s) && s->phase + 1 == phase)) return true;
    }
    return false;
}

static void load_between(writer *w, int phase, const char *count)
{
    bool loaded[SP_NEST_OPERANDS] = {0};
    for (int i = 0; i < w->n->statements; i++)
        if (outside(w, &w->n->statement[i], phase))
            for (int k = 0; k < w->n->statement[i].n; k++) {
                const sp_nest_arg *a = &w->n->statement[i].arg[k];
                if (a->kind != SP_ARG_OPERAND || loaded[a->at]) continue;
                loaded[a->at] = true;
                load_operand(w, a->at, "", count);
            }
}

static bool used_between(const writer *w, int at, int phase)
{
    for (int i = at + 1; i < w->n->statements; i++)
        if (outside(w, &w->n->statement[i], phase) && sp_nest_reads(&w->n->statement[i], at)) return true;
    return false;
}

static void outer_statements(writer *w, int phase, const char *count)
{
    const sp_nest *n = w->n;
    for (int i = 0; i < n->statements; i++) {
        const sp_nest_statement *s = &n->statement[i];
        const sp_spell_type *t = sp_spell_type_of(s->dtype);
        const bool reduced = sp_nest_reduces(s) && s->phase + 1 == phase;
        if (reduced) {
            indent(w);
            sp_text_printf(w->out, "const %s %s = ", t->name, sp_spell_name_of(w->n, i).s);
            if (w->down)
                sp_text_printf(w->out, "*(const %s *)(l%d + %c)", t->name, i, loop_name(w));
            else
                sp_text_printf(w->out, "%s(%s%s(s%d))", t->splat, sp_spell_fold(s)->fold, t->end, i);
            if (s->word == SP_NEST_mean) {
                sp_text_printf(w->out, " / %s((%s)", t->splat, t->scalar);
                print_count(w, w->out);
                sp_text_printf(w->out, ")");
            }
            sp_text_printf(w->out, ";\n");
        } else if (outside(w, s, phase)) {
            indent(w);
            sp_text_printf(w->out, "const %s %s = ", t->name, sp_spell_name_of(w->n, i).s);
            sp_spell_expression(w->n, s, w->out);
            sp_text_printf(w->out, ";\n");
        } else if (w->down && !s->inner && s->phase + sp_nest_reduces(s) < phase && used_between(w, i, phase))
            read_line(w, i);
        else
            continue;
        if ((reduced || outside(w, s, phase)) && w->down && lasts(w, i) &&
            (!reduced || s->word == SP_NEST_mean))
            LINE(w, "*(%s *)(l%d + %c) = %s;", t->name, i, loop_name(w), sp_spell_name_of(w->n, i).s);
        if ((reduced || outside(w, s, phase)) && s->stores >= 0 && !stores_inside(w, s))
            store_operand(w, i, "", count);
    }
}

static void between(writer *w, int phase)
{
    if (!has_between(w, phase)) return;
    if (!w->down) {
        load_between(w, phase, "LANES");
        outer_statements(w, phase, "1");
        return;
    }
    const char v = loop_name(w);
    indent(w);
    sp_text_printf(w->out, "for (long %c = 0; %c < m_%c; %c += LANES)", v, v, v, v);
    open(w);
    if (!w->lanes) LINE(w, "const long n = m_%c - %c; /* lanes that count, or more */", v, v);
    load_between(w, phase, "n");
    outer_statements(w, phase, "n");
    close(w);
}

/* Where the reductions of a phase start. */
static void begin_reductions(writer *w, int phase)
{
    const char v = loop_name(w);
    bool any = false;
    for (int i = 0; i < w->n->statements; i++) {
        const sp_nest_statement *s = &w->n->statement[i];
        const sp_spell_type *t = sp_spell_type_of(s->dtype);
        if (!sp_nest_reduces(s) || s->phase != phase) continue;
        if (!w->down) {
            LINE(w, "%s s%d = %s(%s);", t->name, i, t->splat, sp_spell_start(s));
            continue;
        }
        if (!any) {
            indent(w);
            sp_text_printf(w->out, "for (long %c = 0; %c < m_%c; %c += LANES)", v, v, v, v);
            open(w);
            any = true;
        }
        LINE(w, "*(%s *)(l%d + %c) = %s(%s);", t->name, i, v, t->splat, sp_spell_start(s));
        if (in_runs(w, s)) LINE(w, "*(vec *)(e%d + %c) = splat(0);", i, v);
    }
    if (any) close(w);
}

/* Do the loops of a phase begin with declarations: an index that goes on in the tail, operands that do not go along? */
static bool declares(const writer *w, int phase)
{
    needs d;
    body_needs(w, phase, &d);
    for (int l = 0; l < w->n->loops; l++)
        if (w->n->loop[l].inner && l != w->vector) return false;
    for (int i = 0; i < w->inputs; i++)
        if (d.operand[i] && sp_nest_access(w->n, i) == SP_ALONG_NONE) return true;
    return !w->lanes && (w->down || !reduces_in(w, phase));
}

static void phases(writer *w)
{
    for (int p = 0; p < w->phases; p++) {
        needs d;
        between(w, p);
        body_needs(w, p, &d);
        if (!d.any) continue;
        begin_reductions(w, p);
        const bool runs = runs_in(w, p), names = runs || declares(w, p); /* then it is a scope of its own */
        if (names) {
            LINE(w, "{");
            w->depth++;
        }
        if (runs) LINE(w, "long turn = 0;");
        inner_loops(w, p, 0);
        if (runs) add_runs(w, p, true);
        if (names) close(w);
    }
}

static void blocks(writer *w)
{
    const char v = loop_name(w);
    for (int i = 0; i < w->n->statements; i++) {
        const sp_nest_statement *s = &w->n->statement[i];
        if (sp_nest_reduces(s) || (!s->inner && lasts(w, i)))
            LINE(w, "%s l%d[%d] __attribute__((aligned(64)));", sp_spell_type_of(s->dtype)->scalar, i,
                 w->lanes ? SP_NEST_LANES : BLOCK);
        if (in_runs(w, s))
            LINE(w, "float e%d[%d] __attribute__((aligned(64)));", i, w->lanes ? SP_NEST_LANES : BLOCK);
    }
    indent(w);
    sp_text_printf(w->out, "for (long from = 0; from < n_%c; from += block)", v);
    open(w);
    LINE(w, "const long m_%c = n_%c - from < block ? n_%c - from : block;", v, v, v);
    phases(w);
    close(w);
}

static void outer_loops(writer *w, int loop)
{
    while (loop < w->n->loops && (w->n->loop[loop].inner || loop == w->vector)) loop++;
    if (loop >= w->n->loops) {
        if (w->down)
            blocks(w);
        else if (w->barred)
            phases(w);
        else
            vector_loop(w, 0);
        return;
    }
    char saved[SP_NEST_OPERANDS][SP_NEST_LOOPS + 8];
    open_loop(w, loop, ANY_PHASE, saved);
    outer_loops(w, loop + 1);
    memcpy(w->at, saved, sizeof saved);
    close(w);
}

/* ------------------------------------------------------------------ the function */
static void locals(writer *w)
{
    const sp_nest *n = w->n;
    LINE(w, "const struct sp_nest_args *const a = given;");
    indent(w);
    for (int i = 0; i < n->loops; i++)
        sp_text_printf(w->out, "%sn_%c = a->size[%d]", i ? ", " : "const long ", n->loop[i].name, i);
    sp_text_printf(w->out, ";\n");
    if (w->down && w->lanes)
        LINE(w, "const long block = %d;", SP_NEST_LANES); /* as bind.c has it */
    else if (w->down)
        LINE(w, "const long block = a->block;");
    for (int i = 0; i < n->operands; i++) {
        const sp_nest_operand *o = &n->operand[i];
        const char kind = o->out ? 'y' : 'x';
        const int number = o->out ? i - w->inputs : i;
        snprintf(w->at[i], sizeof w->at[i], "p%c%d", kind, number);
        LINE(w, "%s%s *const p%c%d = a->array[%d];", o->out ? "" : "const ", sp_spell_stored(o->dtype), kind,
             number, i);
        int strides = 0;
        for (int l = 0; l < n->loops; l++) {
            if (!sp_nest_uses(o, l) || (l == w->vector && sp_nest_access(n, i) != SP_ALONG_ANY)) continue;
            if (!strides) indent(w);
            sp_text_printf(w->out, "%s%c%d_%c = a->stride[%d][%d]", strides++ ? ", " : "const long ", kind,
                           number, n->loop[l].name, i, l);
        }
        if (strides) sp_text_printf(w->out, ";\n");
    }
    for (int i = 0, before = -1; i < n->statements; i++) { /* one line behind the other */
        if (n->statement[i].space != SP_SPACE_LINE) continue;
        const char *t = sp_spell_type_of(n->statement[i].dtype)->scalar;
        if (before < 0)
            LINE(w, "%s *const k%d = a->work; /* %s, kept for a later phase */", t, i,
                 sp_spell_name_of(w->n, i).s);
        else
            LINE(w, "%s *const k%d = (void *)(k%d + a->line); /* %s, the same */", t, i, before,
                 sp_spell_name_of(w->n, i).s);
        before = i;
    }
}

/* Where the function came from: the nest, loops and operands first, then a line for each statement. */
static void put_origin(const sp_nest *n, sp_text *out)
{
    sp_text nest;
    sp_text_init(&nest, out->cx);
    sp_nest_print(n, &nest);
    const char *p = sp_text_str(&nest);
    sp_text_printf(out, "/* Generated from this nest (docs/kernels.md):\n *\n *     ");
    for (int part = 0; *p; part++) {
        const size_t length = strcspn(p, ";");
        if (part) sp_text_printf(out, part <= n->operands ? "; " : "\n *     ");
        sp_text_put(out, p, length);
        p += length + strspn(p + length, "; ");
    }
    sp_text_printf(out,
                   "\n *\n * n_%c: size of loop %c; px0: where x0 begins; x0_%c: elements from one %c of x0 "
                   "to the next. */\n",
                   n->loop[0].name, n->loop[0].name, n->loop[0].name, n->loop[0].name);
    if (nest.status != SPARTA_OK) out->status = nest.status;
    sp_text_free(&nest);
}

void sp_emit_function(const sp_nest *given, const char *symbol, sp_text *out)
{
    sp_nest n = *given;
    writer w = {.n = &n, .out = out, .inputs = sp_nest_inputs(&n), .vector = sp_nest_vector(&n)};
    w.phases = sp_nest_phases(&n);
    w.barred = sp_nest_barred(&n);
    w.down = sp_nest_down(&n);
    w.lanes = sp_nest_lanes(&n);
    put_origin(&n, out);
    sp_text_printf(out, "KERNEL void %s(const void *given)\n{\n", symbol);
    w.depth = 1;
    locals(&w);
    outer_loops(&w, 0);
    sp_text_printf(out, "}\n");
}

extern const char sp_text_nest_abi[], sp_text_end_nest_abi[], sp_text_vector[], sp_text_end_vector[],
    sp_text_nest_words[], sp_text_end_nest_words[];
#define EMBED(symbol, file)                                                                                  \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".hidden sp_text_" symbol "\n.hidden sp_text_end_" symbol "\n"                                   \
            ".global sp_text_" symbol "\n.global sp_text_end_" symbol "\n"                                   \
            "sp_text_" symbol ":\n.incbin \"src/" file "\"\n"                                                \
            "sp_text_end_" symbol ":\n.byte 0\n.popsection\n");
EMBED("nest_words", "emit/words.h")

sparta_status sp_emit_head(sp_target target, sp_text *out)
{
    sp_text_printf(out,
                   "/* sparta %s: generated kernel, target %s */\n#define KERNEL "
                   "__attribute__((visibility(\"default\")))\n",
                   SPARTA_VERSION, sp_target_name(target));
    sp_text_put(out, sp_text_nest_abi, (size_t)(sp_text_end_nest_abi - sp_text_nest_abi));
    sp_text_put(out, sp_text_vector, (size_t)(sp_text_end_vector - sp_text_vector));
    sp_text_put(out, sp_text_nest_words, (size_t)(sp_text_end_nest_words - sp_text_nest_words));
    return out->status;
}

sparta_status sp_emit_text(const sp_nest *n, const char *symbol, sp_target target, sp_text *out)
{
    SP_TRY(sp_nest_check(out->cx, n));
    SP_TRY(sp_emit_head(target, out));
    sp_emit_function(n, symbol, out);
    return out->status;
}
