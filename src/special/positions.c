/* Loops over the positions of a level, as C: one by one, in ranges of coordinates, by bits, in runs of equal coordinates, several in turns or as
 * lanes, several together around a loop in vectors. */
#include "special/tile.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

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
void sp_write_ranges(const writer *from, int at)
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
    sp_write_inside(&w, at);
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

/* ------------------------------------------------------------------ one by one, in turns, as lanes */
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
    sp_write_inside(&w, at);
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
        char c[160], sum[SP_WRITE_SUM], result[48], place[64];
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
        sp_write_sum_across(&w, name, t, n % 4 == 0, sum);
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
    sp_write_begin_sums(&in, name, false);
    sp_write_walk(&in, at);
    if (n % 4 == 0) sp_write_sum_fours(&w, name, n);
    store_together(&w, at, q, coordinate, name);
    sp_write_close(&w);
    left.opened = 0;
    OPEN(&left, "for (; next < end%d; next++)", at);
    LINE(&left, "const long %s = next;", q);
    at_position(&left, at, q, coordinate);
}

void sp_write_positions(const writer *from, int at)
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
    sp_write_bounds(&w, at, begin, end, "1", first, last);
    sp_write_cut(&w, at, first, last);
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
