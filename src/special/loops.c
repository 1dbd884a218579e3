/* The loops of a nest as C, in their order, and in each what follows from it as soon as it does: indices, positions, elements.
 *
 * The state of the writer is copied for each loop, so that what a loop makes known is forgotten where it ends. A loop in vectors is written twice:
 * several vectors at a time, then what is left, one vector at a time with the lanes that there are. */
#include "special/tile.h"
#include <stdio.h>
#include <string.h>

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
        sp_write_walk(&w, 1);
        sp_write_close(&w);
    }
}

void sp_write_inside(writer *in, int at)
{
    in->bound[at] = true;
    in->last = at;
    if (!at && sp_special_group(in->s, in->number) > in->number + 1) {
        each_nest(in);
    } else {
        sp_write_settle(in, -1);
        sp_write_tiles(in, at);
        sp_write_walk(in, at + 1);
    }
    sp_write_close(in);
}

void sp_write_bounds(const writer *w, int at, const char *from, const char *to, const char *unit,
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
void sp_write_cut(const writer *w, int at, char from[SP_WRITE_SHARE], char to[SP_WRITE_SHARE])
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
    sp_write_bounds(&w, at, "0", end, "1", first, last);
    sp_write_cut(&w, at, first, last);
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
    sp_write_inside(&w, at);
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
    sp_write_bounds(&w, at, "0", end, unit, first, last);
    sp_write_cut(&w, at, first, last);
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
        sp_write_inside(&in, at);
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
        if (!sp_special_summed(w.s, w.n, at)) w.copy = from->copy * (int)sp_special_steps(w.n, l) + v;
        sp_write_inside(&w, at);
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
    sp_write_cut(&w, at, begin, end);
    sp_write_bounds(&w, at, begin, end, "1", first, last);
    if (l->piece) {
        OPEN(&w, "for (long %s = %s, %s_end = %s; %s < %s_end; %s += %lld)", f, first, f, last, f, f, f,
             (long long)l->piece);
        LINE(&w, "const long %s_to = min_of(%s + %lld, %s_end);", f, f, (long long)l->piece, f);
    } else {
        sp_write_block(&w);
        LINE(&w, "const long %s = %s, %s_to = %s;", f, first, f, last);
    }
    sp_write_inside(&w, at);
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
    sp_write_inside(&w, at);
}

void sp_write_walk(const writer *from, int at)
{
    if (!from->summing && at == sp_special_sums(from->s, from->n)) {
        sp_write_summing(from, at);
        return;
    }
    if (at < from->n->loops && from->n->loop[at].apart && from->apart < 0) {
        sp_write_summing_apart(from, at);
        return;
    }
    writer w = *from;
    if (at == w.n->loops) {
        sp_write_body(&w);
        return;
    }
    const sp_special_loop *l = &w.n->loop[at];
    if (l->over == SP_OVER_SEGMENT)
        sp_write_positions(&w, at);
    else if (l->over == SP_OVER_PIECES)
        pieces_loop(&w, at);
    else if (l->over == SP_OVER_MERGE)
        merge_loop(&w, at);
    else if (sp_special_counts_ranges(l))
        sp_write_ranges(&w, at);
    else if (l->bind == SP_BIND_VECTOR)
        vector_loops(&w, at);
    /* Sums in the last lanes are not written out: that takes the compiler longer than it saves. */
    else if (l->bind == SP_BIND_UNROLL && !(w.masked && sp_special_summed(w.s, w.n, at)))
        unrolled_loop(&w, at);
    else
        count_loop(&w, at);
}
