/* A nest as C: the loops in their order, and in each what follows from it as soon as it does: indices, positions, elements.
 *
 * The state of the writer is copied for each loop, so that what a loop makes known is forgotten where it ends. Sums are kept in variables from the
 * outermost place on where every loop inside is summed over, or unrolled. A loop in vectors is written twice: several vectors at a time, then what is
 * left, one vector at a time with the lanes that there are. */
#include "special/tile.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ lines */
void sp_write_line(writer *w, const char *format, ...)
{
    va_list args;
    sp_text_printf(w->out, "%*s", 4 * w->indent, "");
    va_start(args, format);
    sp_text_vprintf(w->out, format, args);
    va_end(args);
    sp_text_printf(w->out, "\n");
}
void sp_write_open(writer *w, const char *format, ...)
{
    va_list args;
    sp_text_printf(w->out, "%*s", 4 * w->indent++, "");
    va_start(args, format);
    sp_text_vprintf(w->out, format, args);
    va_end(args);
    sp_text_printf(w->out, " {\n");
    w->opened++;
}
void sp_write_block(writer *w)
{
    LINE(w, "{");
    w->indent++, w->opened++;
}
void sp_write_close(writer *w)
{
    while (w->opened) {
        w->opened--, w->indent--;
        LINE(w, "}");
    }
}

/* ------------------------------------------------------------------ the sums */
static bool counted(const sp_special_nest *n, int index)
{
    for (int l = 0; l < n->loops; l++)
        if (sp_special_binds(&n->loop[l]) && n->loop[l].digit.index == index) return true;
    return false;
}

/* A loop that the result does not have: what it does is summed. */
static bool summed(const sp_special *s, const sp_special_nest *n, int loop)
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
    while (at && (summed(s, n, at - 1) || n->loop[at - 1].bind == SP_BIND_UNROLL)) at--;
    return at;
}

bool sp_special_stores(const sp_special *s, int nest)
{
    const sp_special_nest *n = s->nest[nest];
    if (!n->whole || s->statement[n->statement].adds || sp_special_temporaries(n) ||
        (nest && s->nest[nest - 1]->statement == n->statement))
        return false;
    for (int l = 0; l < sp_special_sums(s, n); l++)
        if (summed(s, n, l)) return false;
    return true;
}

/* How many sums of one vector there are, and which one the unrolled loops are at. */
static int sums(const writer *w)
{
    int64_t n = 1;
    for (int l = 0; l < w->n->loops; l++)
        if (w->n->loop[l].bind == SP_BIND_UNROLL && !summed(w->s, w->n, l))
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

static void body(writer *w)
{
    const bool in_vectors = vector_loop(w->n) >= 0;
    const reduction *r = reduction_of(w);
    const bool across = in_vectors && summed(w->s, w->n, vector_loop(w->n));
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
    if (v >= 0 && !summed(w->s, w->n, v)) {
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
    if (l->bind != SP_BIND_UNROLL || summed(w.s, w.n, at)) {
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

/* ------------------------------------------------------------------ loops */
static void walk(const writer *from, int at);
static void declare_sums(const writer *w, const char *name, bool numbers);

/* What is inside of the one loop of nests that are one function, nest by nest; the first has begun already. */
static void each_nest(const writer *in)
{
    const int end = sp_special_group(in->s, in->number);
    for (int i = in->number; i < end; i++) {
        writer w = {
            .s = in->s, .n = in->s->nest[i], .out = in->out, .number = i, .indent = in->indent, .apart = -1};
        if (i == in->number) w = *in;
        w.opened = 0;
        w.vectors = in->vectors;
        w.masked = in->masked;
        memcpy(w.value[0], in->value[0], sizeof w.value[0]);
        w.bound[0] = true;
        sp_write_block(&w);
        if (i > in->number) sp_write_declare(&w);
        sp_write_settle(&w, -1);
        sp_write_tiles(&w, 0);
        walk(&w, 1);
        sp_write_close(&w);
    }
}

static void inside(writer *in, int at)
{
    in->bound[at] = true;
    in->last = at;
    if (!at && sp_special_group(in->s, in->number) > in->number + 1) {
        each_nest(in);
    } else {
        sp_write_settle(in, -1);
        sp_write_tiles(in, at);
        walk(in, at + 1);
    }
    sp_write_close(in);
}

/* Where a loop runs from and to; the share of a thread. */
static void bounds(const writer *w, int at, const char *from, const char *to, const char *unit,
                   char first[SP_WRITE_SHARE], char end[SP_WRITE_SHARE])
{
    if (!w->n->loop[at].threads) {
        snprintf(first, SP_WRITE_SHARE, "%s", from);
        snprintf(end, SP_WRITE_SHARE, "%s", to);
    } else if (!strcmp(from, "0")) {
        snprintf(first, SP_WRITE_SHARE, "share(%s, args->part, args->parts, %s)", to, unit);
        snprintf(end, SP_WRITE_SHARE, "share(%s, args->part + 1, args->parts, %s)", to, unit);
    } else {
        snprintf(first, SP_WRITE_SHARE, "%s + share(%s - (%s), args->part, args->parts, %s)", from, to, from,
                 unit);
        snprintf(end, SP_WRITE_SHARE, "%s + share(%s - (%s), args->part + 1, args->parts, %s)", from, to,
                 from, unit);
    }
}

/* A loop inside of pieces goes over what these give it: the texts of its range. */
static void cut(const writer *w, int at, char from[SP_WRITE_SHARE], char to[SP_WRITE_SHARE])
{
    const int c = sp_special_cutter(w->n, at);
    if (c < 0) return;
    const sp_special_loop *l = &w->n->loop[at], *p = &w->n->loop[c];
    const char *f = p->name;
    char n[SP_WRITE_EXTENT], was[2][SP_WRITE_SHARE];
    if (l->over == SP_OVER_COUNT) { /* of two loops over counts */
        sp_write_extent(w, p->digit, n);
        if (sp_special_same(l->digit, p->outer)) {
            snprintf(from, SP_WRITE_SHARE, "%s / (%.80s)", f, n);
            snprintf(to, SP_WRITE_SHARE, "(%s_to + (%.80s) - 1) / (%.80s)", f, n, n);
            return;
        }
        int outer = 0;
        while (!sp_special_binds(&w->n->loop[outer]) || !sp_special_same(w->n->loop[outer].digit, p->outer))
            outer++;
        snprintf(from, SP_WRITE_SHARE, "max_of(0, %s - %s * (%.80s))", f, w->value[outer], n);
        memcpy(was[1], to, sizeof was[1]); /* a last block may be cut short */
        snprintf(to, SP_WRITE_SHARE, "min_of(%.*s, %s_to - %s * (%.80s))", SP_WRITE_EXTENT - 128, was[1], f,
                 w->value[outer], n);
        return;
    }
    if (!p->fused || l->fused) { /* they lie in what it goes over */
        snprintf(from, SP_WRITE_SHARE, "%s", f);
        snprintf(to, SP_WRITE_SHARE, "%s_to", f);
        return;
    }
    memcpy(was[0], from, sizeof was[0]);
    memcpy(was[1], to, sizeof was[1]);
    snprintf(from, SP_WRITE_SHARE, "max_of(%.*s, %s)", SP_WRITE_EXTENT, was[0], f);
    snprintf(to, SP_WRITE_SHARE, "min_of(%.*s, %s_to)", SP_WRITE_EXTENT, was[1], f);
}

/* Rows that have some of the positions of a piece: the first is searched for. */
static bool rows_loop(writer *w, int at)
{
    const int c = sp_special_cutter(w->n, at);
    if (c < 0 || w->n->loop[c].use < 0) return false;
    const sp_special_loop *p = &w->n->loop[c];
    const char *i = w->n->loop[at].name;
    char end[SP_WRITE_EXTENT], name[48];
    sp_write_extent(w, w->n->loop[at].digit, end);
    sp_write_name(w, p->use, name);
    OPEN(w, "for (long %s = row_%s(%s_pos%d, %s, %s); %s < %s && %s_pos%d[%s] < %s_to; %s++)", i,
         sparta_dtype_name(w->n->use[p->use].format->level[p->level].pos), name, p->level, end, p->name, i,
         end, name, p->level, i, p->name, i);
    return true;
}

static void count_loop(const writer *from, int at)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    char end[SP_WRITE_EXTENT], first[SP_WRITE_SHARE], last[SP_WRITE_SHARE];
    sp_write_extent(&w, l->digit, end);
    bounds(&w, at, "0", end, "1", first, last);
    cut(&w, at, first, last);
    w.opened = 0;
    if (rows_loop(&w, at))
        ;
    else if (sp_special_cutter(w.n, at) >= 0)
        OPEN(&w, "for (long %s = %s, %s_end = %s; %s < %s_end; %s++)", l->name, first, l->name, last, l->name,
             l->name, l->name);
    else if (!l->threads)
        OPEN(&w, "for (long %s = 0; %s < %s; %s++)", l->name, l->name, last, l->name);
    else
        OPEN(&w, "for (long %s = %s, end = %s; %s < end; %s++)", l->name, first, last, l->name, l->name);
    snprintf(w.value[at], sizeof w.value[at], "%s", l->name);
    inside(&w, at);
}

/* ------------------------------------------------------------------ ranges */
/* Which of the loops between the one that counts ranges and their positions is at which value, as one number; 0: there are none, or their number varies. */
static int64_t slots(const writer *w, int segment, char out[SP_WRITE_PARTS])
{
    int64_t n = 1;
    size_t used = 0;
    for (int l = sp_special_counter(w->n, segment) + 1; l < segment; l++) {
        const int64_t extent =
            w->n->loop[l].over == SP_OVER_COUNT ? sp_special_extent(w->n->loop[l].digit) : 0;
        if (!extent || w->n->loop[l].bind != SP_BIND_SERIAL || n * extent > SP_SPECIAL_CURSORS) return 0;
        if (out)
            used += (size_t)snprintf(out + used, SP_WRITE_PARTS - used, n > 1 ? " + %s * %lld" : "%s",
                                     w->value[l], (long long)n);
        n *= extent;
    }
    return n > 1 ? n : 0;
}

/* All ranges of coordinates; where each segment has come to is kept from one to the next. */
static void range_loop(const writer *from, int at)
{
    writer w = *from;
    const int segment = sp_special_counted(w.n, at);
    const sp_special_loop *l = &w.n->loop[at], *o = &w.n->loop[segment];
    const int64_t n = slots(&w, segment, NULL);
    char name[48];
    sp_write_name(&w, o->use, name);
    w.opened = 0;
    sp_write_block(&w);
    if (n) LINE(&w, "long %s_from%d[%lld];", name, o->level, (long long)n);
    OPEN(&w, "for (long %s = 0; %s < (n_%s + %lld) / %lld; %s++)", l->name, l->name,
         w.s->index[o->digit.index].name, (long long)o->range - 1, (long long)o->range, l->name);
    snprintf(w.value[at], sizeof w.value[at], "%s", l->name);
    inside(&w, at);
}

static void at_position(const writer *from, int at, const char *q, const char *coordinate);

/* The positions of one range. */
static void in_range(const writer *from, int at, const char *begin, const char *end, const char *q)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    const char *crd = sparta_dtype_name(w.n->use[l->use].format->level[l->level].crd);
    char name[48], slot[SP_WRITE_PARTS] = "";
    const bool kept = slots(&w, at, slot) > 0;
    sp_write_name(&w, l->use, name);
    w.opened = 0;
    sp_write_block(&w);
    LINE(&w, "const long end%d = %s, stop%d = (%s + 1) * %lld;", at, end, at, l->with, (long long)l->range);
    if (kept)
        LINE(&w, "long %s = %s ? %s_from%d[%s] : %s;", q, l->with, name, l->level, slot, begin);
    else
        LINE(&w, "long %s = find_from_%s(%s_crd%d, %s, end%d, %s * %lld);", q, crd, name, l->level, begin, at,
             l->with, (long long)l->range);
    writer in = w;
    in.opened = 0;
    OPEN(&in, "for (; %s < end%d && (long)%s_crd%d[%s] < stop%d; %s++)", q, at, name, l->level, q, at, q);
    at_position(&in, at, q, w.value[at]);
    if (kept) LINE(&w, "%s_from%d[%s] = %s;", name, l->level, slot, q);
    sp_write_close(&w);
}

/* Lanes along one end of a diagonal stay where the other end is inside. */
static void slide(const writer *w, int at, char first[SP_WRITE_SHARE], char last[SP_WRITE_SHARE])
{
    int diagonal;
    bool ahead;
    char was[2][SP_WRITE_SHARE];
    const int to = sp_special_slides(w->s, w->n, at, &diagonal, &ahead);
    if (to < 0) return;
    memcpy(was[0], first, sizeof was[0]);
    memcpy(was[1], last, sizeof was[1]);
    snprintf(first, SP_WRITE_SHARE, "max_of(%.*s, %s%s)", SP_WRITE_EXTENT, was[0], ahead ? "-" : "",
             w->value[diagonal]);
    snprintf(last, SP_WRITE_SHARE, "min_of(%.*s, n_%s %c %s)", SP_WRITE_EXTENT, was[1], w->s->index[to].name,
             ahead ? '-' : '+', w->value[diagonal]);
}

static void vector_loops(const writer *from, int at)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    char end[SP_WRITE_EXTENT], first[SP_WRITE_SHARE], last[SP_WRITE_SHARE], unit[32];
    const char *k = l->name;
    w.opened = 0;
    snprintf(unit, sizeof unit, "%d * LANES", l->vectors);
    sp_write_vector_extent(&w, l->digit, end);
    bounds(&w, at, "0", end, unit, first, last);
    cut(&w, at, first, last);
    slide(&w, at, first, last);
    sp_write_block(&w);
    LINE(&w, "const long end_%s = %s;", k, last);
    LINE(&w, "long %s = %s;", k, first);
    for (int tail = 0; tail < 2; tail++) {
        writer in = w;
        in.opened = 0;
        in.masked = tail;
        in.vectors = tail ? 1 : l->vectors;
        if (!tail)
            OPEN(&in, "for (; %s + %d * LANES <= end_%s; %s += %d * LANES)", k, l->vectors, k, k, l->vectors);
        else {
            OPEN(&in, "for (; %s < end_%s; %s += LANES)", k, k, k);
            LINE(&in, "const long lanes = end_%s - %s < LANES ? end_%s - %s : LANES;", k, k, k, k);
        }
        snprintf(in.value[at], sizeof in.value[at], "%s", k);
        inside(&in, at);
    }
    sp_write_close(&w);
}

static void unrolled_loop(const writer *from, int at)
{
    const sp_special_loop *l = &from->n->loop[at];
    for (int v = 0; v < (int)sp_special_steps(from->n, l); v++) {
        writer w = *from;
        w.opened = 0;
        OPEN(&w, "/* %s = %d */", l->name, v);
        snprintf(w.value[at], sizeof w.value[at], "%d", v);
        if (!summed(w.s, w.n, at)) w.copy = from->copy * (int)sp_special_steps(w.n, l) + v;
        inside(&w, at);
    }
}

/* The bits that are set, 64 at a time. */
static void bits_loop(writer *w, const char *name, int level, const char *parent, const char *begin,
                      const char *q, const char *coordinate)
{
    LINE(w, "const long %s_bytes%d = (%s_n%d + 7) / 8;", name, level, name, level);
    LINE(w, "long %s = %s - 1;", q, begin);
    OPEN(w, "for (long byte = 0; byte < %s_bytes%d; byte += 8)", name, level);
    LINE(w, "unsigned long bits = bits_at(%s_crd%d + %s * %s_bytes%d + byte, %s_bytes%d - byte);", name,
         level, *parent ? parent : "0", name, level, name, level);
    OPEN(w, "for (; bits; bits &= bits - 1)");
    LINE(w, "const long %s = 8 * byte + __builtin_ctzl(bits);", coordinate);
    LINE(w, "%s++;", q);
}

/* One position: its coordinate, and what is inside. */
static void at_position(const writer *from, int at, const char *q, const char *coordinate)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    char c[160];
    if (coordinate) {
        sp_write_coordinate(&w, l->use, l->level, w.at[l->use], q, c);
        LINE(&w, "const long %s = %s;", coordinate, c);
    }
    snprintf(w.at[l->use], sizeof w.at[0], "%s", q);
    w.levels[l->use] = l->level + 1;
    inside(&w, at);
}

/* LANES positions, `t` vectors on from `next`, added to the sums of their own. */
static void gathered_vector(const writer *w, int at, const char *coordinate, int t)
{
    writer in = *w;
    const sp_special_loop *l = &in.n->loop[at];
    char name[48], place[32] = "next";
    sp_text e;
    sp_write_name(&in, l->use, name);
    if (t) snprintf(place, sizeof place, t > 1 ? "next + %d * LANES" : "next + LANES", t);
    LINE(&in, "const ints %s = get_%s(%s_crd%d + %s, LANES);", coordinate,
         sparta_dtype_name(in.n->use[l->use].format->level[l->level].crd), name, l->level, place);
    sp_write_gather(&in, l->use, coordinate, place);
    sp_text_init(&e, in.out->cx);
    sp_write_expression(&in, in.n->root, 0, &e);
    LINE(&in, "sums%d %c= %s;", t, in.n->negative ? '-' : '+', sp_text_str(&e));
    if (e.status && !in.out->status) in.out->status = e.status;
    sp_text_free(&e);
}

/* Several vectors of positions at a time, each with sums of its own, then one at a time. */
static void gathered(const writer *from, int at, const char *coordinate)
{
    writer w = *from;
    w.vectors = 1, w.gathered = true;
    const int most = w.n->loop[at].vectors;
    sp_text_printf(w.out, "%*svec ", 4 * w.indent, "");
    for (int t = 0; t < most; t++) sp_text_printf(w.out, "%ssums%d = splat(0.f)", t ? ", " : "", t);
    sp_text_printf(w.out, ";\n");
    for (int n = most; n; n = n > 1 ? 1 : 0) {
        writer in = w;
        in.opened = 0;
        if (n > 1)
            OPEN(&in, "for (; next + %d * LANES <= end%d; next += %d * LANES)", n, at, n);
        else
            OPEN(&in, "for (; next + LANES <= end%d; next += LANES)", at);
        for (int t = 0; t < n; t++) {
            writer one = in;
            one.opened = 0;
            if (n > 1) sp_write_block(&one);
            gathered_vector(&one, at, coordinate, t);
            sp_write_close(&one);
        }
        sp_write_close(&in);
    }
}

/* What lanes of positions summed, added up after those that were left, which do not wait for it. */
static void sum_gathered(writer *w, int at)
{
    sp_text_printf(w->out, "%*ssum%d_0 += sum_vec(", 4 * w->indent, "", w->copy);
    for (int t = 0; t < w->n->loop[at].vectors; t++) sp_text_printf(w->out, "%ssums%d", t ? " + " : "", t);
    sp_text_printf(w->out, ");\n");
}

/* Is a term a product of operands alone? It is then 0 where these are. */
static bool multiplies(const sp_special *s, int node)
{
    const sp_special_node *t = &s->node[node];
    return t->kind == SP_TREE_ACCESS || (t->kind == SP_TREE_WORD && t->at == SP_NEST_mul &&
                                         multiplies(s, t->arg[0]) && multiplies(s, t->arg[1]));
}

/* LANES bits at a time: the elements of those that are set go to their lanes. */
static void bits_in_lanes(const writer *from, int at, const char *begin, const char *coordinate)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    const char *parent = *w.at[l->use] ? w.at[l->use] : "0";
    char name[48];
    sp_text e;
    sp_write_name(&w, l->use, name);
    w.opened = 0, w.vectors = 1, w.gathered = true;
    LINE(&w, "const long %s_bytes%d = (%s_n%d + 7) / 8;", name, l->level, name, l->level);
    LINE(&w, "long next = %s;", begin);
    LINE(&w, "vec sums = splat(0.f);");
    OPEN(&w, "for (long %s = 0; %s < %s_n%d; %s += LANES)", coordinate, coordinate, name, l->level,
         coordinate);
    LINE(&w, "const unsigned bits = lane_bits(%s_crd%d + %s * %s_bytes%d, %s, %s_bytes%d);", name, l->level,
         parent, name, l->level, coordinate, name, l->level);
    sp_write_expand(&w, l->use, coordinate);
    sp_text_init(&e, w.out->cx);
    sp_write_expression(&w, w.n->root, 0, &e);
    LINE(&w, multiplies(w.s, w.n->root) ? "sums %c= %s;" : "sums %c= where(%s, bits);",
         w.n->negative ? '-' : '+', sp_text_str(&e));
    LINE(&w, "next += set_bits(bits);");
    if (e.status && !w.out->status) w.out->status = e.status;
    sp_text_free(&e);
    sp_write_close(&w);
    LINE(&w, "sum%d_0 += sum_vec(sums);", w.copy);
}

/* Several positions at a time, each with a sum of its own, so that none waits for another; then those that are left. */
static void turns(const writer *from, int at, const char *first, const char *last, const char *q,
                  const char *coordinate)
{
    writer w = *from;
    const int n = w.n->loop[at].vectors;
    LINE(&w, "long next = %s;", first);
    LINE(&w, "const long end%d = %s;", at, last);
    if (w.n->loop[at].gather) gathered(&w, at, coordinate);
    for (int tail = w.n->loop[at].gather; tail < 2; tail++) {
        writer in = w;
        in.opened = 0;
        if (tail)
            OPEN(&in, "for (; next < end%d; next++)", at);
        else
            OPEN(&in, "for (; next + %d <= end%d; next += %d)", n, at, n);
        for (int t = 0; t < (tail ? 1 : n); t++) {
            writer one = in;
            one.opened = 0;
            one.turn = t;
            if (!tail) sp_write_block(&one);
            LINE(&one, t ? "const long %s = next + %d;" : "const long %s = next;", q, t);
            at_position(&one, at, q, coordinate);
        }
        sp_write_close(&in);
    }
    if (w.n->loop[at].gather) sum_gathered(&w, at);
}

/* Positions with the same coordinate, one behind the other, are a run: it is one row of the result, whose sum stays in registers. Where coordinates ascend, its end is
 * looked for 16 at a time first. */
static void runs_loop(writer *w, int at, const char *first, const char *last, const char *q,
                      const char *coordinate)
{
    const sp_special_loop *l = &w->n->loop[at];
    const bool ascends = !(w->n->use[l->use].format->level[l->level].properties & SP_PROP_NONORDERED);
    char name[48], run[64], far[80], own[160], next[160];
    sp_write_name(w, l->use, name);
    snprintf(run, sizeof run, "%s_run%d", name, l->level);
    snprintf(far, sizeof far, "(%s + 15)", run);
    OPEN(w, "for (long %s = %s, %s, end%d = %s; %s < end%d; %s = %s)", q, first, run, at, last, q, at, q,
         run);
    LINE(w, "%s = %s + 1;", run, q);
    sp_write_coordinate(w, l->use, l->level, w->at[l->use], q, own);
    sp_write_coordinate(w, l->use, l->level, w->at[l->use], far, next);
    if (ascends) LINE(w, "while (%s + 16 <= end%d && %s == %s) %s += 16;", run, at, next, own, run);
    sp_write_coordinate(w, l->use, l->level, w->at[l->use], run, next);
    LINE(w, "while (%s < end%d && %s == %s) %s++;", run, at, next, own, run);
    at_position(w, at, q, coordinate);
}

/* Does search `m` inside of loop `at` look for the very coordinates that the loop goes over, in segments that are known outside of it, both ascending? */
static bool goes_along(const writer *w, int at, int m)
{
    const sp_special_loop *l = &w->n->loop[at], *o = &w->n->loop[m];
    if (o->over != SP_OVER_MERGE || w->levels[o->use] != o->level || l->digit.index < 0) return false;
    const sp_special_use *u = &w->n->use[l->use], *other = &w->n->use[o->use];
    const sp_level *mine = &u->format->level[l->level], *its = &other->format->level[o->level];
    const bool ascends = sp_special_ordered(mine) || mine->kind == SP_LEVEL_BITMAP;
    return ascends && sp_special_ordered(its) && sp_level_shares(other->format, o->level) == 1 &&
           sp_special_same(l->digit, sp_special_level_digit(w->s, other, o->level));
}

/* Where such searches begin: they never go back. */
static void begin_cursors(writer *w, int at)
{
    for (int m = at + 1; m < w->n->loops; m++) {
        if (!goes_along(w, at, m)) continue;
        const sp_special_loop *o = &w->n->loop[m];
        char begin[128], end[128], name[48];
        sp_write_name(w, o->use, name);
        sp_write_segment(name, w->n->use[o->use].format, o->level, w->at[o->use], begin, end);
        LINE(w, "long %s_at%d = %s;", name, o->level, begin);
        LINE(w, "const long %s_end%d = %s;", name, o->level, end);
        w->cursor[m] = true;
    }
}

/* ------------------------------------------------------------------ positions together */
/* Positions next, next + 1, ..., each a block in the loop in vectors that stands around them now. */
static void each_together(const writer *from, int at, const char *q, const char *coordinate)
{
    for (int t = 0; t < from->n->loop[at].together; t++) {
        writer w = *from;
        w.opened = 0;
        w.copy = t;
        sp_write_block(&w);
        LINE(&w, t ? "const long %s = next + %d;" : "const long %s = next;", q, t);
        at_position(&w, at, q, coordinate);
    }
}

/* The sum of position t, across lanes; four of them at once where they are. */
enum { SUM_TEXT = 16 + 16 * SP_SPECIAL_VECTORS };
static void sum_together(const writer *w, const char *name, int t, bool fours, char out[SUM_TEXT])
{
    const int vectors = sum_vectors(w);
    size_t used = 0;
    if (fours) {
        snprintf(out, SUM_TEXT, "sums%d[%d]", t / 4, t % 4);
        return;
    }
    used += (size_t)snprintf(out, SUM_TEXT, "sum_vec(");
    for (int v = 0; v < vectors; v++)
        used += (size_t)snprintf(out + used, SUM_TEXT - used, "%s%s%d_%d", v ? " + " : "", name, t, v);
    snprintf(out + used, SUM_TEXT - used, ")");
}

static void sum_fours(writer *w, const char *name, int n)
{
    for (int g = 0; g < n / 4; g++) {
        sp_text_printf(w->out, "%*sconst four sums%d = sum_four(", 4 * w->indent, "", g);
        for (int t = 4 * g; t < 4 * g + 4; t++)
            for (int v = 0; v < sum_vectors(w); v++)
                sp_text_printf(w->out, "%s%s%d_%d", v ? " + " : t > 4 * g ? ", " : "", name, t, v);
        sp_text_printf(w->out, ");\n");
    }
}

/* Does a text say this name? */
static bool says(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if ((at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_')) &&
            !isalnum((unsigned char)at[n]) && at[n] != '_')
            return true;
    return false;
}

/* Each sum to its place, by the factors that do not depend on what was summed over. The coordinate is written where these or the place ask for it. */
static void store_together(const writer *from, int at, const char *q, const char *coordinate,
                           const char *name)
{
    const bool stores = sp_special_stores(from->s, from->number), apart = from->n->loop[at + 1].apart;
    const int n = from->n->loop[at].together;
    for (int t = 0; t < n; t++) {
        writer w = *from;
        const sp_special_loop *l = &w.n->loop[at];
        char c[160], sum[SUM_TEXT], result[48], place[64];
        sp_text e, block;
        w.opened = 0;
        sp_write_block(&w);
        LINE(&w, t ? "const long %s = next + %d;" : "const long %s = next;", q, t);
        sp_write_coordinate(&w, l->use, l->level, w.at[l->use], q, c);
        snprintf(w.at[l->use], sizeof w.at[0], "%s", q);
        w.levels[l->use] = l->level + 1;
        w.bound[at] = true, w.last = at;
        sp_text_init(&block, w.out->cx);
        w.out = &block;
        for (int u = 0; u < w.n->uses; u++) w.loaded[u] |= !apart;
        sp_write_settle(&w, -1);
        sp_write_guard_result(&w);
        sp_write_settle(&w, sp_write_result_use(&w));
        sp_write_name(&w, w.n->uses - 1, result);
        sp_write_result_place(&w, place);
        sum_together(&w, name, t, n % 4 == 0, sum);
        sp_text_init(&e, w.out->cx);
        if (apart) sp_write_product(&w, at + 1, true, 0, &e);
        LINE(&w, apart ? "%s_values[%s] %s %s * %s[0];" : "%s_values[%s] %s %s;", result, place,
             stores                   ? w.n->negative && apart ? "= -" : "="
             : w.n->negative && apart ? "-="
                                      : "+=",
             sum, sp_text_str(&e));
        if (e.status && !w.out->status) w.out->status = e.status;
        sp_text_free(&e);
        w.out = from->out;
        if (says(sp_text_str(&block), coordinate))
            sp_text_printf(w.out, "%*sconst long %s = %s;\n", 4 * (from->indent + 1), "", coordinate, c);
        sp_text_printf(w.out, "%s", sp_text_str(&block));
        if (block.status && !w.out->status) w.out->status = block.status;
        sp_text_free(&block);
        sp_write_close(&w);
    }
}

static bool reads(const sp_special *s, int node, int access)
{
    const sp_special_node *t = &s->node[node];
    if (t->kind == SP_TREE_ACCESS) return t->at == access;
    for (int i = 0; t->kind == SP_TREE_WORD && i < t->n; i++)
        if (reads(s, t->arg[i], access)) return true;
    return false;
}

/* What has its part only when all are summed is not loaded before. */
static void leave_out(writer *w, const sp_special_nest *scheduled, int loop)
{
    int node[SP_SPECIAL_NODES];
    const int n = sp_special_factors(w->s, scheduled, loop, false, node);
    for (int u = 0; u + 1 < scheduled->uses; u++) {
        bool inside = false;
        for (int i = 0; i < n; i++) inside |= reads(w->s, node[i], scheduled->use[u].access);
        w->loaded[u] |= !inside;
    }
}

/* Several positions at a time, each with sums of its own: what does not depend on them is loaded once for all. The loop in vectors stands around them; then those that
 * are left, one by one as they were scheduled. */
static void positions_together(const writer *from, int at, const char *first, const char *last, const char *q,
                               const char *coordinate)
{
    const int n = from->n->loop[at].together;
    const bool apart = from->n->loop[at + 1].apart;
    const char *name = apart ? "part" : "sum";
    sp_special_nest turned = *from->n;
    writer w = *from, left = *from;
    turned.loop[at] = from->n->loop[at + 1];
    turned.loop[at + 1] = from->n->loop[at];
    turned.loop[at].apart = false;
    turned.loop[at + 1].bind = SP_BIND_UNROLL;
    LINE(&w, "long next = %s;", first);
    LINE(&w, "const long end%d = %s;", at, last);
    w.opened = 0;
    OPEN(&w, "for (; next + %d <= end%d; next += %d)", n, at, n);
    writer in = w;
    in.n = &turned;
    in.scheduled = from->n;
    in.summing = true;
    in.opened = 0;
    if (apart) {
        in.apart = at + 1;
        leave_out(&in, from->n, at + 1);
    }
    declare_sums(&in, name, false);
    walk(&in, at);
    if (n % 4 == 0) sum_fours(&w, name, n);
    store_together(&w, at, q, coordinate, name);
    sp_write_close(&w);
    left.opened = 0;
    OPEN(&left, "for (; next < end%d; next++)", at);
    LINE(&left, "const long %s = next;", q);
    at_position(&left, at, q, coordinate);
}

static void segment_loop(const writer *from, int at)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    const sp_special_use *u = &w.n->use[l->use];
    char begin[128], end[128], first[SP_WRITE_SHARE], last[SP_WRITE_SHARE], name[48], q[64];
    sp_write_name(&w, l->use, name);
    snprintf(q, sizeof q, "%s_%d", name, l->level);
    if (l->digit.index < 0) /* a diagonal has no index of its own */
        snprintf(w.value[at], sizeof w.value[at], "%.24s_d", name);
    else if (l->positions && !l->digit.modulus &&
             l->digit.weight == 1) /* the loop is called after positions */
        snprintf(w.value[at], sizeof w.value[at], "%s", w.s->index[l->digit.index].name);
    else
        snprintf(w.value[at], sizeof w.value[at], "%s", l->name);
    w.opened = 0;
    begin_cursors(&w, at);
    sp_write_segment(name, u->format, l->level, w.at[l->use], begin, end);
    if (sp_special_runs(w.n, at - 1)) snprintf(end, sizeof end, "%s_run%d", name, l->level - 1);
    bounds(&w, at, begin, end, "1", first, last);
    cut(&w, at, first, last);
    if (l->gather && u->format->level[l->level].kind == SP_LEVEL_BITMAP) {
        bits_in_lanes(&w, at, begin, w.value[at]);
    } else if (u->format->level[l->level].kind == SP_LEVEL_BITMAP) {
        bits_loop(&w, name, l->level, w.at[l->use], begin, q, w.value[at]);
        at_position(&w, at, q, NULL);
    } else if (l->together && l->bind == SP_BIND_UNROLL) {
        each_together(&w, at, q, w.value[at]);
    } else if (l->together) {
        positions_together(&w, at, first, last, q, w.value[at]);
    } else if (l->bind == SP_BIND_UNROLL) {
        turns(&w, at, first, last, q, w.value[at]);
    } else if (l->range) {
        in_range(&w, at, begin, end, q);
    } else if (sp_special_runs(w.n, at)) {
        runs_loop(&w, at, first, last, q, w.value[at]);
    } else {
        OPEN(&w, "for (long %s = %s, end%d = %s; %s < end%d; %s++)", q, first, at, last, q, at, q);
        at_position(&w, at, q, w.value[at]);
    }
}

/* Pieces of what the loops inside go over: from `name` to `name_to`. */
static void pieces_loop(const writer *from, int at)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    const char *f = l->name;
    char begin[SP_WRITE_SHARE] = "0", end[SP_WRITE_SHARE], first[SP_WRITE_SHARE], last[SP_WRITE_SHARE],
         name[48];
    char outer[SP_WRITE_EXTENT], inner[SP_WRITE_EXTENT], segment[2][128];
    w.opened = 0;
    if (l->fused) sp_write_extent(&w, l->outer, outer);
    if (l->use < 0) {
        sp_write_extent(&w, l->digit, inner);
        snprintf(end, sizeof end, "(%.*s) * (%.*s)", SP_WRITE_PARTS / 2, outer, SP_WRITE_PARTS / 2, inner);
    } else {
        sp_write_name(&w, l->use, name);
        sp_write_segment(name, w.n->use[l->use].format, l->level, w.at[l->use], segment[0], segment[1]);
        if (l->fused)
            snprintf(end, sizeof end, "%s_pos%d[%s]", name, l->level, outer);
        else
            snprintf(begin, sizeof begin, "%s", segment[0]), snprintf(end, sizeof end, "%s", segment[1]);
    }
    cut(&w, at, begin, end);
    bounds(&w, at, begin, end, "1", first, last);
    if (l->piece) {
        OPEN(&w, "for (long %s = %s, %s_end = %s; %s < %s_end; %s += %lld)", f, first, f, last, f, f, f,
             (long long)l->piece);
        LINE(&w, "const long %s_to = min_of(%s + %lld, %s_end);", f, f, (long long)l->piece, f);
    } else {
        sp_write_block(&w);
        LINE(&w, "const long %s = %s, %s_to = %s;", f, first, f, last);
    }
    inside(&w, at);
}

static void merge_loop(const writer *from, int at)
{
    writer w = *from;
    const sp_special_loop *l = &w.n->loop[at];
    char name[48], c[SP_WRITE_PARTS], q[64];
    sp_write_name(&w, l->use, name);
    w.opened = 0;
    sp_write_level_text(&w, l->use, l->level, c);
    if (w.cursor[at]) {
        snprintf(q, sizeof q, "%s_at%d", name, l->level);
        LINE(&w, "while (%s < %s_end%d && %s_crd%d[%s] < %s) %s++;", q, name, l->level, name, l->level, q, c,
             q);
        OPEN(&w, "if (%s < %s_end%d && %s_crd%d[%s] == %s)", q, name, l->level, name, l->level, q, c);
    } else {
        sp_write_block(&w);
        sp_write_match(&w, name, l->use, w.n->use[l->use].format, l->level, w.at[l->use], c, q);
    }
    snprintf(w.at[l->use], sizeof w.at[0], "%s", q);
    w.levels[l->use] = l->level + 1;
    inside(&w, at);
}

static void declare_sums(const writer *w, const char *name, bool numbers)
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
    char sum[SUM_TEXT];
    sp_text e;
    sp_text_init(&e, w->out->cx);
    sp_write_product(w, at, true, t, &e);
    if (lanes_first(w->n)) {
        sum_together(w, "part", k, false, sum);
        LINE(w, "sum%d_0 %c= %s * %s[0];", k, sign, sum, sp_text_str(&e));
    } else if (v >= 0 && w->masked && summed(w->s, w->n, v))
        LINE(w, "sum%d_%d %c= first_vec(lanes, part%d_%d * %s, 0.f);", k, t, sign, k, t, sp_text_str(&e));
    else
        LINE(w, "sum%d_%d %c= part%d_%d * %s;", k, t, sign, k, t, sp_text_str(&e));
    if (e.status && !w->out->status) w->out->status = e.status;
    sp_text_free(&e);
}

/* The sums of this loop by themselves; then the factors that are known already. */
static void summing_apart(const writer *from, int at)
{
    writer w = *from;
    w.opened = 0;
    w.apart = at;
    sp_write_block(&w);
    declare_sums(&w, "part", false);
    walk(&w, at);
    for (int k = 0; k < sums(&w); k++)
        for (int t = 0; t < (lanes_first(w.n) ? 1 : sum_vectors(&w)); t++) add_apart(&w, at, k, t);
    sp_write_close(&w);
}

/* Where nothing is summed, each product goes to what is there in one step. */
static bool adds_at_once(const writer *w, int at)
{
    const int v = vector_loop(w->n);
    if (v >= 0 && summed(w->s, w->n, v)) return false;
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

/* The sums of all loops inside, from their start to where they are stored. */
static void summing(const writer *from, int at)
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
    declare_sums(&w, "sum", lanes_first(w.n));
    walk(&w, at);
    w.copy = 0;
    store_all(&w, at, sp_special_stores(w.s, w.number));
    sp_write_close(&w);
}

static void walk(const writer *from, int at)
{
    if (!from->summing && at == sp_special_sums(from->s, from->n)) {
        summing(from, at);
        return;
    }
    if (at < from->n->loops && from->n->loop[at].apart && from->apart < 0) {
        summing_apart(from, at);
        return;
    }
    writer w = *from;
    if (at == w.n->loops) {
        body(&w);
        return;
    }
    const sp_special_loop *l = &w.n->loop[at];
    if (l->over == SP_OVER_SEGMENT)
        segment_loop(&w, at);
    else if (l->over == SP_OVER_PIECES)
        pieces_loop(&w, at);
    else if (l->over == SP_OVER_MERGE)
        merge_loop(&w, at);
    else if (l->digit.index == SP_SPECIAL_RANGES)
        range_loop(&w, at);
    else if (l->bind == SP_BIND_VECTOR)
        vector_loops(&w, at);
    else if (l->bind == SP_BIND_UNROLL && !(w.masked && summed(w.s, w.n, at)))
        unrolled_loop(&w, at);
    else
        count_loop(
            &w,
            at); /* of sums in the last lanes too: written out they take the compiler longer than they save */
}

/* ------------------------------------------------------------------ functions */
static void print_nest(const sp_special *s, const sp_special_nest *n, sp_text *out)
{
    for (int i = 0; i < n->loops; i++) {
        const sp_special_loop *l = &n->loop[i];
        sp_text_printf(out, "%s%s", i ? " " : "", l->name);
        if (l->over == SP_OVER_COUNT && sp_special_steps(n, l))
            sp_text_printf(out, ":%lld", (long long)sp_special_steps(n, l));
        if (l->over == SP_OVER_PIECES) sp_text_printf(out, "@%s", l->fused ? "fused" : "pieces");
        if (l->over == SP_OVER_PIECES && l->use >= 0)
            sp_text_printf(out, ".%s.%d", s->operand[n->use[l->use].operand].name, l->level);
        if (l->piece) sp_text_printf(out, ":%lld", (long long)l->piece);
        if (l->over == SP_OVER_SEGMENT || l->over == SP_OVER_MERGE)
            sp_text_printf(out, "@%s.%s.%d", l->over == SP_OVER_MERGE ? "merge" : "segment",
                           s->operand[n->use[l->use].operand].name, l->level);
        if (l->digit.index == SP_SPECIAL_RANGES)
            sp_text_printf(out, ".ranges%lld", (long long)n->loop[sp_special_counted(n, i)].range);
        if (l->bind == SP_BIND_VECTOR) sp_text_printf(out, "*%d", l->vectors);
        if (l->bind == SP_BIND_UNROLL) sp_text_printf(out, l->gather ? ".gather" : ".unroll");
        if (l->bind == SP_BIND_UNROLL && l->over == SP_OVER_SEGMENT && l->vectors > 1)
            sp_text_printf(out, "%d", l->vectors);
        if (l->together) sp_text_printf(out, ".unroll%d", l->together);
        if (l->apart) sp_text_printf(out, ".apart");
        for (int u = 0; u < n->uses; u++)
            if (l->caches >> u & 1)
                sp_text_printf(out, l->lent >> u & 1 ? ".scratch_%s" : ".cache_%s",
                               s->operand[n->use[u].operand].name);
        if (l->threads) sp_text_printf(out, l->temporaries ? ".threads+" : ".threads");
    }
}

/* A term as it was written, words by their names. */
static void print_tree(const sp_special *s, int node, sp_text *out)
{
    const sp_special_node *t = &s->node[node];
    if (t->kind == SP_TREE_NUMBER) {
        sp_text_printf(out, "%g", t->number);
        return;
    }
    if (t->kind == SP_TREE_ACCESS) {
        sp_text_printf(out, "%s", s->operand[s->access[t->at].operand].name);
        return;
    }
    const bool product = t->at == SP_NEST_mul;
    if (!product) sp_text_printf(out, "%s(", sp_nest_word_row(t->at)->name);
    for (int i = 0; i < t->n; i++) {
        if (i) sp_text_printf(out, product ? "*" : ",");
        print_tree(s, t->arg[i], out);
    }
    if (!product) sp_text_printf(out, ")");
}

void sp_special_print(const sp_special *s, sp_text *out)
{
    for (int i = 0; i < s->nests; i++) {
        const sp_special_nest *n = s->nest[i];
        sp_text_printf(out, n->joined ? "%d, with %d: " : "%d: ", i, i - 1);
        print_nest(s, n, out);
        const char *result = s->operand[sp_special_target(n)->operand].name;
        const int reduce = s->statement[n->statement].reduce;
        const bool sums = reduce == SP_NEST_sum, stores = sp_special_stores(s, i);
        sp_text_printf(out, "; %s %s %s", result, stores || !sums ? "=" : "+=", n->negative ? "-" : "");
        if (!sums) sp_text_printf(out, "%s(", sp_nest_word_row(reduce)->name);
        if (!sums && !stores) sp_text_printf(out, "%s,", result);
        print_tree(s, n->root, out);
        if (!sums) sp_text_printf(out, ")");
        for (int u = 0; u < n->uses; u++)
            if (n->use[u].needed && s->operand[n->use[u].operand].leaves > 1)
                sp_text_printf(out, "; part %d of %s", n->use[u].leaf, s->operand[n->use[u].operand].name);
        sp_text_printf(out, "\n");
    }
}

/* Nests whose text differs in nothing but the part of a sum of formats that they read are one function, which gets the arrays of the part. */
static bool has_parts(const sp_special *s, int number)
{
    bool any = false;
    for (int u = 0; u < s->nest[number]->uses; u++) any |= sp_special_has_parts(s, &s->nest[number]->use[u]);
    return any && sp_special_group(s, number) == number + 1;
}

static void body_of(const sp_special *s, int number, sp_text *out)
{
    const sp_special_nest *n = s->nest[number];
    writer *w = sp_alloc(s->cx, sizeof *w);
    if (!w) {
        out->status = sp_ctx_status(s->cx);
        return;
    }
    *w = (writer){.s = s, .n = n, .out = out, .number = number, .last = -1, .apart = -1};
    w->parts = has_parts(s, number);
    w->indent = 1;
    sp_write_declare(w);
    if (!sp_special_shares(n)) LINE(w, "if (args->part) return;");
    sp_write_settle(w, -1);
    walk(w, 0);
    sp_write_close(w);
    sp_free(s->cx, w);
}

/* ", void *const *A_part, const long *A_size" as parameters, or what is given for them. */
static void part_arguments(const sp_special *s, int number, bool given, sp_text *out)
{
    for (int u = 0; u < s->nest[number]->uses; u++) {
        const sp_special_use *x = &s->nest[number]->use[u];
        const sp_special_operand *o = &s->operand[x->operand];
        char name[48];
        if (!sp_special_has_parts(s, x)) continue;
        sp_write_name(&(writer){.s = s, .n = s->nest[number]}, u, name);
        if (given)
            sp_text_printf(out, ", args->array + %d, args->size + %d", sp_special_array(o, x->leaf),
                           sp_special_sizes(o, x->leaf));
        else
            sp_text_printf(out, ", void *const *%s_part, const long *%s_size", name, name);
    }
}

/* The function for a part, unless an earlier nest has it: the number of the nest that does. */
static int part_function(const sp_special *s, int number, const char *prefix, const char **body, sp_text *out)
{
    int same = 0;
    sp_text text;
    sp_text_init(&text, s->cx);
    body_of(s, number, &text);
    if (text.status && !out->status) out->status = text.status;
    body[number] = sp_text_keep(&text, s->arena);
    if (!body[number]) {
        out->status = sp_ctx_status(s->cx);
        return number;
    }
    while (!body[same] || strcmp(body[same], body[number])) same++;
    if (same < number) return same;
    sp_text_printf(out, "static __attribute__((noinline)) void %spart_%d(const struct sp_special_args *args",
                   prefix, number);
    part_arguments(s, number, false, out);
    sp_text_printf(out, ")\n{\n%s}\n", body[number]);
    return same;
}

/* body: of the nests before that have parts, else NULL. */
static void function(const sp_special *s, int number, const char *prefix, const char **body, sp_text *out)
{
    const bool parts = has_parts(s, number);
    for (int i = number; i < sp_special_group(s, number); i++) {
        sp_text_printf(out, i > number ? "\n * nest %d: " : "\n/* nest %d: ", i);
        print_nest(s, s->nest[i], out);
    }
    sp_text_printf(out, " */\n");
    const int same = parts ? part_function(s, number, prefix, body, out) : number;
    sp_text_printf(out, "KERNEL void %s%d(const struct sp_special_args *args)\n{\n", prefix, number);
    if (!parts) {
        body_of(s, number, out);
    } else {
        sp_text_printf(out, "    %spart_%d(args", prefix, same);
        part_arguments(s, number, true, out);
        sp_text_printf(out, ");\n");
    }
    sp_text_printf(out, "}\n");
}

/* Of results that are no f32: how what nests write becomes theirs, and how what they add to begins. */
static void conversions(const sp_special *s, const char *prefix, sp_text *out)
{
    static const sparta_dtype types[] = {SPARTA_F16, SPARTA_BF16};
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        const char *name = sparta_dtype_name(types[t]);
        bool any = false;
        for (int i = 0; i < s->operands; i++) any |= s->operand[i].written && s->operand[i].dtype == types[t];
        if (!any) continue;
        sp_text_printf(
            out,
            "\nKERNEL void %snarrow_%s(const float *from, unsigned short *to, long n)\n{\n"
            "    for (long i = 0; i < n; i += LANES) put_%s(to + i, get_f32(from + i, n - i), n - i);\n}\n"
            "KERNEL void %swiden_%s(const unsigned short *from, float *to, long n)\n{\n"
            "    for (long i = 0; i < n; i += LANES) put_f32(to + i, get_%s(from + i, n - i), n - i);\n}\n",
            prefix, name, name, prefix, name, name);
    }
}

void sp_special_functions(const sp_special *s, const char *prefix, sp_text *out)
{
    sp_text_printf(out, "\n/* %s", s->text);
    for (int i = 0; i < s->operands; i++) {
        const sp_special_operand *o = &s->operand[i];
        const bool typed = o->dtype != SPARTA_F32;
        if (o->stored || typed) sp_text_printf(out, "\n *     %s: ", o->name);
        if (typed) sp_text_printf(out, o->stored ? "%s, " : "%s", sparta_dtype_name(o->dtype));
        if (o->stored) sp_format_print(&o->format, out);
    }
    sp_text_printf(out, " */\n");
    conversions(s, prefix, out);
    const char *body[SP_SPECIAL_NESTS] = {NULL};
    for (int i = 0; i < s->nests; i++)
        if (!s->nest[i]->joined) function(s, i, prefix, body, out);
}

#define EMBED(symbol, file)                                                                                  \
    __asm__(".pushsection .rodata\n.hidden sp_text_" symbol "\n.hidden sp_text_end_" symbol "\n"             \
            ".global sp_text_" symbol "\n.global sp_text_end_" symbol "\n"                                   \
            "sp_text_" symbol ":\n.incbin \"src/special/" file "\"\n"                                        \
            "sp_text_end_" symbol ":\n.byte 0\n.popsection\n");
EMBED("special_abi", "abi.h")
EMBED("special_words", "words.h")
extern const char sp_text_special_abi[], sp_text_end_special_abi[], sp_text_special_words[],
    sp_text_end_special_words[];

sparta_status sp_special_head(sp_target target, sp_text *out)
{
    SP_TRY(sp_emit_head(target, out));
    sp_text_put(out, sp_text_special_abi, (size_t)(sp_text_end_special_abi - sp_text_special_abi));
    sp_text_put(out, sp_text_special_words, (size_t)(sp_text_end_special_words - sp_text_special_words));
    return out->status;
}

sparta_status sp_special_text(sp_special *s, sp_target target, sp_text *out)
{
    SP_TRY(sp_special_head(target, out));
    sp_special_functions(s, "sp_special_", out);
    return out->status;
}
