/* What a nest sums, as C: where sums begin, what comes to them in the innermost loop, and where they are stored.
 *
 * Sums are kept in variables from the outermost place on where every loop inside is summed over, or unrolled: sum2_0 is vector 0 of the sum that
 * the unrolled loops are at with copy 2. What is multiplied by factors that are known outside of a loop may be summed apart first (part2_0). */
#include "special/writer.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ the sums */
static bool counted(const sp_special_nest *n, int index)
{
    for (int l = 0; l < n->loops; l++)
        if (sp_special_binds(&n->loop[l]) && n->loop[l].digit.index == index) return true;
    return false;
}

bool sp_special_summed(const sp_special *s, const sp_special_nest *n, int loop)
{
    const sp_special_loop *l = &n->loop[loop];
    if (l->over == SP_OVER_MERGE)
        return l->use != sp_special_like(s, n); /* whose positions are the result's */
    if (l->digit.index >= 0 && sp_special_in_result(s, n, l->digit.index)) return false;
    /* Where the result has an index that follows from diagonals, all that they go over says which element it is. */
    bool follows = false;
    for (int i = 0; i < s->indices; i++) follows |= sp_special_in_result(s, n, i) && !counted(n, i);
    for (int u = 0; u < n->uses && follows; u++)
        for (int k = 0; n->use[u].needed && k < n->use[u].format->n; k++) {
            int dim, other;
            if (sp_special_diagonal(s, &n->use[u], k, &dim, &other) &&
                (l->digit.index < 0 || l->digit.index == dim || l->digit.index == other))
                return false;
        }
    return true;
}

int sp_special_sums(const sp_special *s, const sp_special_nest *n)
{
    int at = n->loops;
    while (at && (sp_special_summed(s, n, at - 1) || n->loop[at - 1].bind == SP_BIND_UNROLL)) at--;
    return at;
}

bool sp_special_stores(const sp_special *s, int nest)
{
    const sp_special_nest *n = s->nest[nest];
    if (!n->whole || s->statement[n->statement].adds || sp_special_temporaries(n) ||
        (nest && s->nest[nest - 1]->statement == n->statement))
        return false;
    for (int l = 0; l < sp_special_sums(s, n); l++)
        if (sp_special_summed(s, n, l)) return false;
    return true;
}

/* How many sums of one vector there are, and which one the unrolled loops are at. */
static int sums(const writer *w)
{
    int64_t n = 1;
    for (int l = 0; l < w->n->loops; l++)
        if (w->n->loop[l].bind == SP_BIND_UNROLL && !sp_special_summed(w->s, w->n, l))
            n *= w->n->loop[l].together ? w->n->loop[l].together : sp_special_steps(w->n, &w->n->loop[l]);
    return (int)n;
}

static int vector_loop(const sp_special_nest *n)
{
    for (int l = 0; l < n->loops; l++)
        if (n->loop[l].bind == SP_BIND_VECTOR) return l;
    return -1;
}

/* The innermost loop, over positions, several at a time with a sum each; -1: there is none. */
static int turns_loop(const sp_special_nest *n)
{
    const sp_special_loop *l = n->loops ? &n->loop[n->loops - 1] : NULL;
    return l && l->over == SP_OVER_SEGMENT && l->bind == SP_BIND_UNROLL && !l->together ? n->loops - 1 : -1;
}

static int sum_vectors(const writer *w)
{
    const int v = vector_loop(w->n), t = turns_loop(w->n);
    if (t >= 0 && w->n->loop[t].gather) return 1;
    return t >= 0 ? w->n->loop[t].vectors : v < 0 ? 1 : w->bound[v] ? w->vectors : w->n->loop[v].vectors;
}

/* Is what lanes sum added up before factors that are known outside have their part? The sums are numbers then. Lane by lane, one that is 0 because nothing came to it would
 * make NaN of an infinite factor. */
static bool lanes_first(const sp_special_nest *n)
{
    for (int l = 0; l <= vector_loop(n); l++)
        if (n->loop[l].apart) return true;
    return false;
}

/* ------------------------------------------------------------------ the body */
static const char *lanes(const writer *w)
{
    return w->masked ? "lanes" : "LANES";
}

/* What sums are made of, or what stands in their place: what they begin with, how another comes to them, as a number and in vectors, and across lanes. */
typedef struct reduction {
    const char *begin, *one, *vectors, *across;
} reduction;
static const reduction *reduction_of(const writer *w)
{
    static const reduction sum = {"0.f", "", "", "sum_vec"},
                           largest = {"-__builtin_inff()", "most_one", "most", "largest_vec"},
                           smallest = {"__builtin_inff()", "least_one", "least", "smallest_vec"};
    const int word = w->s->statement[w->n->statement].reduce;
    return word == SP_NEST_largest ? &largest : word == SP_NEST_smallest ? &smallest : &sum;
}
static bool sums_up(const writer *w)
{
    return w->s->statement[w->n->statement].reduce == SP_NEST_sum;
}

/* Where 0 stands for what is not stored it has no part in what is the largest. */
static void take_part(const writer *w, int t, const char *begin, sp_text *e)
{
    const bool in_vectors = vector_loop(w->n) >= 0;
    int tests = 0;
    for (int u = 0; u < w->n->uses && !sums_up(w); u++) {
        const sp_special_use *use = &w->n->use[u];
        char name[64];
        if (!use->factor || !sp_special_fills_up(use->format)) continue;
        sp_write_value(w, u, t, name);
        sp_text_printf(e, in_vectors ? "%s(%s != splat(0.f))" : "%s%s != 0.f",
                       tests++      ? in_vectors ? " & " : " && "
                       : in_vectors ? "pick("
                                    : "",
                       name);
    }
    if (tests) sp_text_printf(e, in_vectors ? ", " : " ? ");
    writer as = *w;
    if (w->scheduled) as.n = w->scheduled;
    if (w->apart >= 0)
        sp_write_product(&as, w->apart, false, t, e);
    else
        sp_write_expression(w, w->n->root, t, e);
    if (tests) sp_text_printf(e, in_vectors ? ", splat(%s))" : " : %s", begin);
}

void sp_write_body(writer *w)
{
    const bool in_vectors = vector_loop(w->n) >= 0;
    const reduction *r = reduction_of(w);
    const bool across = in_vectors && sp_special_summed(w->s, w->n, vector_loop(w->n));
    for (int t = 0; t < (in_vectors ? w->vectors : 1); t++) {
        sp_text e;
        sp_text_init(&e, w->out->cx);
        take_part(w, t, r->begin, &e);
        const char *with = in_vectors ? r->vectors : r->one, *to = w->apart < 0 ? "sum" : "part";
        const char sign = w->n->negative && w->apart < 0 ? '-' : '+';
        if (!sums_up(w) && across && w->masked)
            LINE(w, "sum%d_%d = %s(sum%d_%d, first_vec(lanes, %s, %s));", w->copy, t + w->turn, with, w->copy,
                 t + w->turn, sp_text_str(&e), r->begin);
        else if (!sums_up(w))
            LINE(w, "sum%d_%d = %s(sum%d_%d, %s);", w->copy, t + w->turn, with, w->copy, t + w->turn,
                 sp_text_str(&e));
        else if (across && w->masked)
            LINE(w, "%s%d_%d %c= first_vec(lanes, %s, 0.f);", to, w->copy, t + w->turn, sign,
                 sp_text_str(&e));
        else
            LINE(w, "%s%d_%d %c= %s;", to, w->copy, t + w->turn, sign, sp_text_str(&e));
        if (e.status && !w->out->status) w->out->status = e.status;
        sp_text_free(&e);
    }
}

static void store(writer *w, int nest_stores)
{
    const bool numbers = lanes_first(w->n);
    const int u = w->n->uses - 1, v = numbers ? -1 : vector_loop(w->n),
              vectors = numbers ? 1 : sum_vectors(w);
    char name[48], at[sizeof w->at[0]];
    sp_write_name(w, u, name);
    sp_write_result_place(w, at);
    if (v >= 0 && !sp_special_summed(w->s, w->n, v)) {
        for (int t = 0; t < vectors; t++) {
            char plus[32] = "";
            if (t) snprintf(plus, sizeof plus, t > 1 ? " + %d * LANES" : " + LANES", t);
            if (!nest_stores && !sums_up(w))
                LINE(w, "put_f32(%s_values + %s%s, %s(get_f32(%s_values + %s%s, %s), sum%d_%d), %s);", name,
                     at, plus, reduction_of(w)->vectors, name, at, plus, lanes(w), w->copy, t, lanes(w));
            else if (nest_stores)
                LINE(w, "put_f32(%s_values + %s%s, sum%d_%d, %s);", name, at, plus, w->copy, t, lanes(w));
            else
                LINE(w, "put_f32(%s_values + %s%s, get_f32(%s_values + %s%s, %s) + sum%d_%d, %s);", name, at,
                     plus, name, at, plus, lanes(w), w->copy, t, lanes(w));
        }
        return;
    }
    sp_text e;
    sp_text_init(&e, w->out->cx);
    const reduction *r = reduction_of(w);
    if (v >= 0) sp_text_printf(&e, "%s(", r->across);
    for (int t = 1; t < vectors && !sums_up(w); t++) sp_text_printf(&e, "%s(", v >= 0 ? r->vectors : r->one);
    for (int t = 0; t < vectors; t++)
        sp_text_printf(&e,
                       sums_up(w) ? "%ssum%d_%d"
                       : t        ? "%ssum%d_%d)"
                                  : "%ssum%d_%d",
                       !t           ? ""
                       : sums_up(w) ? " + "
                                    : ", ",
                       w->copy, t);
    if (v >= 0) sp_text_printf(&e, ")");
    if (nest_stores || sums_up(w))
        LINE(w, "%s_values[%s] %s %s;", name, at, nest_stores ? "=" : "+=", sp_text_str(&e));
    else
        LINE(w, "%s_values[%s] = %s(%s_values[%s], %s);", name, at, r->one, name, at, sp_text_str(&e));
    sp_text_free(&e);
}

/* Each value of the unrolled loops from `at` on that the result has. */
static void store_all(const writer *from, int at, int nest_stores)
{
    writer w = *from;
    if (at == w.n->loops) {
        w.opened = 0;
        if (sums(&w) > 1) sp_write_block(&w);
        sp_write_guard_result(&w);
        sp_write_settle(&w, sp_write_result_use(&w));
        store(&w, nest_stores);
        sp_write_close(&w);
        return;
    }
    const sp_special_loop *l = &w.n->loop[at];
    if (l->bind != SP_BIND_UNROLL || sp_special_summed(w.s, w.n, at)) {
        store_all(&w, at + 1, nest_stores);
        return;
    }
    for (int v = 0; v < (int)sp_special_steps(w.n, l); v++) {
        writer in = w;
        snprintf(in.value[at], sizeof in.value[at], "%d", v);
        in.bound[at] = true;
        in.copy = w.copy * (int)sp_special_steps(w.n, l) + v;
        store_all(&in, at + 1, nest_stores);
    }
}

/* ------------------------------------------------------------------ from where they begin to where they are stored */
void sp_write_sum_across(const writer *w, const char *name, int t, bool fours, char out[SP_WRITE_SUM])
{
    const int vectors = sum_vectors(w);
    size_t used = 0;
    if (fours) {
        snprintf(out, SP_WRITE_SUM, "sums%d[%d]", t / 4, t % 4);
        return;
    }
    used += (size_t)snprintf(out, SP_WRITE_SUM, "sum_vec(");
    for (int v = 0; v < vectors; v++)
        used += (size_t)snprintf(out + used, SP_WRITE_SUM - used, "%s%s%d_%d", v ? " + " : "", name, t, v);
    snprintf(out + used, SP_WRITE_SUM - used, ")");
}

void sp_write_sum_fours(writer *w, const char *name, int n)
{
    for (int g = 0; g < n / 4; g++) {
        sp_text_printf(w->out, "%*sconst four sums%d = sum_four(", 4 * w->indent, "", g);
        for (int t = 4 * g; t < 4 * g + 4; t++)
            for (int v = 0; v < sum_vectors(w); v++)
                sp_text_printf(w->out, "%s%s%d_%d", v ? " + " : t > 4 * g ? ", " : "", name, t, v);
        sp_text_printf(w->out, ");\n");
    }
}

void sp_write_begin_sums(const writer *w, const char *name, bool numbers)
{
    const bool in_vectors = vector_loop(w->n) >= 0 && !numbers;
    const int n = sums(w), vectors = numbers ? 1 : sum_vectors(w);
    for (int k = 0; k < n; k++) {
        sp_text_printf(w->out, "%*s%s", 4 * w->indent, "", in_vectors ? "vec" : "float");
        for (int t = 0; t < vectors; t++)
            sp_text_printf(w->out, in_vectors ? "%s %s%d_%d = splat(%s)" : "%s %s%d_%d = %s", t ? "," : "",
                           name, k, t, reduction_of(w)->begin);
        sp_text_printf(w->out, ";\n");
    }
}

/* What was summed apart comes to the sums, by the factors that are known already: lanes that these sums share added up before, lanes of a loop outside as many as there are. */
static void add_apart(writer *w, int at, int k, int t)
{
    const int v = vector_loop(w->n);
    const char sign = w->n->negative ? '-' : '+';
    char sum[SP_WRITE_SUM];
    sp_text e;
    sp_text_init(&e, w->out->cx);
    sp_write_product(w, at, true, t, &e);
    if (lanes_first(w->n)) {
        sp_write_sum_across(w, "part", k, false, sum);
        LINE(w, "sum%d_0 %c= %s * %s[0];", k, sign, sum, sp_text_str(&e));
    } else if (v >= 0 && w->masked && sp_special_summed(w->s, w->n, v))
        LINE(w, "sum%d_%d %c= first_vec(lanes, part%d_%d * %s, 0.f);", k, t, sign, k, t, sp_text_str(&e));
    else
        LINE(w, "sum%d_%d %c= part%d_%d * %s;", k, t, sign, k, t, sp_text_str(&e));
    if (e.status && !w->out->status) w->out->status = e.status;
    sp_text_free(&e);
}

void sp_write_summing_apart(const writer *from, int at)
{
    writer w = *from;
    w.opened = 0;
    w.apart = at;
    sp_write_block(&w);
    sp_write_begin_sums(&w, "part", false);
    sp_write_walk(&w, at);
    for (int k = 0; k < sums(&w); k++)
        for (int t = 0; t < (lanes_first(w.n) ? 1 : sum_vectors(&w)); t++) add_apart(&w, at, k, t);
    sp_write_close(&w);
}

/* Where nothing is summed, each product goes to what is there in one step. */
static bool adds_at_once(const writer *w, int at)
{
    const int v = vector_loop(w->n);
    if (v >= 0 && sp_special_summed(w->s, w->n, v)) return false;
    return at == w->n->loops && sums(w) == 1 && sums_up(w) && !w->n->negative && w->apart < 0 &&
           !sp_special_stores(w->s, w->number);
}

static void add_at_once(writer *w)
{
    const int v = vector_loop(w->n);
    char name[48], at[sizeof w->at[0]];
    sp_write_name(w, w->n->uses - 1, name);
    sp_write_result_place(w, at);
    for (int t = 0; t < (v < 0 ? 1 : sum_vectors(w)); t++) {
        char plus[32] = "";
        sp_text e;
        sp_text_init(&e, w->out->cx);
        sp_write_expression(w, w->n->root, t, &e);
        if (t) snprintf(plus, sizeof plus, t > 1 ? " + %d * LANES" : " + LANES", t);
        if (v < 0)
            LINE(w, "%s_values[%s] += %s;", name, at, sp_text_str(&e));
        else
            LINE(w, "put_f32(%s_values + %s%s, get_f32(%s_values + %s%s, %s) + %s, %s);", name, at, plus,
                 name, at, plus, lanes(w), sp_text_str(&e), lanes(w));
        if (e.status && !w->out->status) w->out->status = e.status;
        sp_text_free(&e);
    }
}

void sp_write_summing(const writer *from, int at)
{
    writer w = *from;
    w.summing = true;
    w.opened = 0;
    if (adds_at_once(&w, at)) {
        sp_write_guard_result(&w);
        sp_write_settle(&w, sp_write_result_use(&w));
        add_at_once(&w);
        sp_write_close(&w);
        return;
    }
    sp_write_begin_sums(&w, "sum", lanes_first(w.n));
    sp_write_walk(&w, at);
    w.copy = 0;
    store_all(&w, at, sp_special_stores(w.s, w.number));
    sp_write_close(&w);
}
