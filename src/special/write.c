/* What stands in the loops of a text: declarations, indices, positions, elements, searches. */
#include "emit/spell.h"
#include "special/tile.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ names and sizes */
/* The text has names of its own that begin as those of such an operand would: sizes n_i, ends end_k, sums sum0_1. Those of an index are a letter
 * and digits, so nothing else in the text is. */
static bool taken(const char *name)
{
    return !strcmp(name, "n") || !strcmp(name, "end") ||
           (!strncmp(name, "sum", 3) && strspn(name + 3, "0123456789") == strlen(name + 3)) ||
           (!strncmp(name, "part", 4) && strspn(name + 4, "0123456789") == strlen(name + 4));
}

void sp_write_name(const writer *w, int use, char out[48])
{
    const int again = sp_special_again(w->n, use);
    const char *name = w->s->operand[w->n->use[use].operand].name;
    snprintf(out, 48, again ? "%s%s_%d" : "%s%s", name, taken(name) ? "_" : "", again + 1);
}

/* Part (index % modulus) / weight of an index has so many values, when no block is cut short. */
void sp_write_extent(const writer *w, sp_special_digit d, char out[SP_WRITE_EXTENT])
{
    const char *i = w->s->index[d.index].name;
    if (d.modulus)
        snprintf(out, 64, "%lld", (long long)(d.modulus / d.weight));
    else if (d.weight > 1)
        snprintf(out, 64, "(n_%s + %lld) / %lld", i, (long long)d.weight - 1, (long long)d.weight);
    else
        snprintf(out, 64, "n_%s", i);
}

/* The value of an index as its parts make it up; `but` is left out. */
static void parts_of(const writer *w, int index, int but, char out[SP_WRITE_PARTS])
{
    size_t used = 0;
    *out = 0;
    for (int l = 0; l < w->n->loops; l++) {
        const sp_special_loop *o = &w->n->loop[l];
        if (l == but || !sp_special_binds(o) || o->digit.index != index) continue;
        used +=
            (size_t)snprintf(out + used, SP_WRITE_PARTS - used, o->digit.weight > 1 ? "%s%s * %lld" : "%s%s",
                             used ? " + " : "", w->value[l], (long long)o->digit.weight);
    }
}

static int parts(const writer *w, int index)
{
    int n = 0;
    for (int l = 0; l < w->n->loops; l++)
        n += sp_special_binds(&w->n->loop[l]) && w->n->loop[l].digit.index == index;
    return n;
}

void sp_write_vector_extent(const writer *w, sp_special_digit d, char out[SP_WRITE_EXTENT])
{
    char rest[SP_WRITE_PARTS];
    const char *i = w->s->index[d.index].name;
    int self = 0;
    while (!sp_special_same(w->n->loop[self].digit, d) || !sp_special_binds(&w->n->loop[self])) self++;
    parts_of(w, d.index, self, rest);
    if (!d.modulus)
        snprintf(out, 64, "n_%s", i);
    else
        snprintf(out, SP_WRITE_EXTENT, "n_%s - (%s) < %lld ? n_%s - (%s) : %lld", i, rest,
                 (long long)d.modulus, i, rest, (long long)d.modulus);
}

static int64_t fixed_extent(const sp_level *l)
{
    return l->map == SP_MAP_MOD ? l->c : l->map == SP_MAP_NEST ? l->c / l->inner : 0;
}

/* ------------------------------------------------------------------ level functions, from the columns of levels.def */
static const struct {
    const char *begin, *end, *coordinate;
} functions[] = {
#define SP_LEVEL(id, name, pos, crd, arguments, properties, begin, end, coordinate) {begin, end, coordinate},
#include "format/levels.def"
#undef SP_LEVEL
};

/* The array that holds a level's coordinates: its own, or the first of those that share one (aos). */
static void crd_text(const char *name, const sp_format *f, int level, const char *q, char *out, size_t size)
{
    const sp_level *l = &f->level[level];
    int head = level;
    for (int h = 0; h < level; h++)
        if (level < h + sp_level_shares(f, h)) {
            head = h;
            break;
        }
    const int step = sp_level_shares(f, head);
    if (l->crd_bits)
        snprintf(out, size, "narrow(%s_crd%d, %s, %lld, %d)", name, level, q, (long long)l->w, l->crd_bits);
    else if (step > 1)
        snprintf(out, size, "%s_crd%d[%s * %d + %d]", name, head, q, step, level - head);
    else
        snprintf(out, size, "%s_crd%d[%s]", name, level, q);
}

/* Words of a column, in their place: p, q, N, W, pos, crd(q). */
static void paste(const char *column, const char *name, const sp_format *f, int level, const char *p,
                  const char *q, char *out, size_t size)
{
    const sp_level *l = &f->level[level];
    size_t used = 0;
    *out = 0;
    for (const char *c = column; *c && used + 1 < size;) {
        char word[160] = {*c, 0};
        size_t n = 0;
        while (isalpha((unsigned char)c[n])) n++;
        if (n == 1 && *c == 'p') {
            snprintf(word, sizeof word, "%s", *p ? p : "0");
        } else if (n == 1 && *c == 'q') {
            snprintf(word, sizeof word, "%s", q);
        } else if (n == 1 && *c == 'N') {
            if (fixed_extent(l))
                snprintf(word, sizeof word, "%lld", (long long)fixed_extent(l));
            else
                snprintf(word, sizeof word, "%s_n%d", name, level);
        } else if (n == 1 && *c == 'W') {
            snprintf(word, sizeof word, "%s_n%d", name, level);
        } else if (n == 3 && !strncmp(c, "pos", 3)) {
            snprintf(word, sizeof word, "%s_pos%d", name, level);
        } else if (n == 3 && !strncmp(c, "crd(q)", 6)) {
            crd_text(name, f, level, q, word, sizeof word);
            n = 6;
        }
        c += n ? n : 1;
        used += (size_t)snprintf(out + used, size - used, "%s", word);
    }
}

void sp_write_segment(const char *name, const sp_format *f, int level, const char *parent, char begin[128],
                      char end[128])
{
    const sp_level_kind kind = f->level[level].kind;
    paste(functions[kind].begin, name, f, level, parent, "", begin, 128);
    paste(functions[kind].end, name, f, level, parent, "", end, 128);
}

/* Of a diagonal j-i: as it is said, from 1 - n on; where it is not stored it is counted from 0. */
static void from_origin(const writer *w, int use, const sp_format *f, int level, char sign, char *out,
                        size_t size)
{
    const sp_level *l = &f->level[level];
    const size_t used = strlen(out);
    if (l->map != SP_MAP_SUB || l->kind != SP_LEVEL_DENSE) return;
    const int other = sp_special_plain(&w->s->access[w->n->use[use].access].axis[l->other]);
    snprintf(out + used, size - used, " %c (1 - n_%s)", sign, w->s->index[other].name);
}

static void coordinate_of(const writer *w, const char *name, int use, const sp_format *f, int level,
                          const char *parent, const char *q, char out[160])
{
    paste(functions[f->level[level].kind].coordinate, name, f, level, parent, q, out, 160);
    from_origin(w, use, f, level, '+', out, 160);
}

void sp_write_coordinate(const writer *w, int use, int level, const char *parent, const char *q,
                         char out[160])
{
    char name[48];
    sp_write_name(w, use, name);
    coordinate_of(w, name, use, w->n->use[use].format, level, parent, q, out);
}

/* ------------------------------------------------------------------ coordinates that are known */
static const char *index_text(const writer *w, int index)
{
    return w->index[index];
}

static void axis_text(const writer *w, const sp_nest_axis *x, char out[SP_WRITE_PARTS])
{
    size_t used = 0;
    for (int t = 0; t < x->n; t++) {
        const int64_t times = x->term[t].times;
        used += (size_t)snprintf(out + used, SP_WRITE_PARTS - used, times == 1 ? "%s%s" : "%s%s * %lld",
                                 t ? " + " : "", index_text(w, x->term[t].loop), (long long)times);
    }
    if (x->plus || !x->n)
        snprintf(out + used, SP_WRITE_PARTS - used, x->n ? " + %lld" : "%lld", (long long)x->plus);
}

static bool whole(sp_special_digit d)
{
    return !d.modulus && d.weight == 1;
}

void sp_write_digit(const writer *w, sp_special_digit d, char out[SP_WRITE_PARTS])
{
    int part[SP_SPECIAL_LOOPS];
    const int parts = sp_special_digit_parts(w->n, d, w->bound, part);
    size_t used = 0;
    if (parts > 1 && whole(d) && w->n->loop[part[0]].bind == SP_BIND_UNROLL && *w->index[d.index]) {
        snprintf(out, SP_WRITE_PARTS, "%s", w->index[d.index]); /* it was seen to that it is inside */
        return;
    }
    for (int i = parts - 1; i >= 0; i--) {
        const int64_t times = w->n->loop[part[i]].digit.weight / d.weight;
        used += (size_t)snprintf(out + used, SP_WRITE_PARTS - used, times > 1 ? "%s%s * %lld" : "%s%s",
                                 used        ? " + "
                                 : parts > 1 ? "("
                                             : "",
                                 w->value[part[i]], (long long)times);
    }
    if (parts > 1) snprintf(out + used, SP_WRITE_PARTS - used, ")");
    if (parts) return;
    if (d.modulus && d.weight > 1)
        snprintf(out, SP_WRITE_PARTS, "%s %% %lld / %lld", index_text(w, d.index), (long long)d.modulus,
                 (long long)d.weight);
    else if (d.modulus)
        snprintf(out, SP_WRITE_PARTS, "%s %% %lld", index_text(w, d.index), (long long)d.modulus);
    else if (d.weight > 1)
        snprintf(out, SP_WRITE_PARTS, "%s / %lld", index_text(w, d.index), (long long)d.weight);
    else
        snprintf(out, SP_WRITE_PARTS, "%s", index_text(w, d.index));
}

/* Of a level of a leaf of the use; the format is given, since a search goes over several. */
static void known_coordinate(const writer *w, int use, const sp_format *f, int level,
                             char out[SP_WRITE_PARTS])
{
    sp_special_use u = w->n->use[use];
    int dim, other;
    u.format = f;
    if (sp_special_diagonal(w->s, &u, level, &dim, &other))
        snprintf(out, SP_WRITE_PARTS, "%s %c %s", index_text(w, dim),
                 f->level[level].map == SP_MAP_SUB ? '-' : '+', index_text(w, other));
    else
        sp_write_digit(w, sp_special_level_digit(w->s, &u, level), out);
}

void sp_write_level_text(const writer *w, int use, int level, char out[SP_WRITE_PARTS])
{
    const sp_special_use *u = &w->n->use[use];
    if (u->format)
        known_coordinate(w, use, u->format, level, out);
    else
        axis_text(w, &w->s->access[u->access].axis[level], out);
}

/* Can what is asked for be told with the loops that are open? */
static bool has_text(const writer *w, int use, int level)
{
    const sp_special_use *u = &w->n->use[use];
    int dim, other;
    if (!u->format) {
        const sp_nest_axis *x = &w->s->access[u->access].axis[level];
        for (int t = 0; t < x->n; t++)
            if (!*w->index[x->term[t].loop]) return false;
        return true;
    }
    if (sp_special_diagonal(w->s, u, level, &dim, &other)) return *w->index[dim] && *w->index[other];
    const sp_special_digit d = sp_special_level_digit(w->s, u, level);
    int part[SP_SPECIAL_LOOPS];
    return sp_special_digit_parts(w->n, d, w->bound, part) > 0 || *w->index[d.index];
}

/* ------------------------------------------------------------------ searches */
static const char *crd_type(const sp_level *l)
{
    return sparta_dtype_name(l->crd);
}

void sp_write_match(writer *w, const char *name, int use, const sp_format *f, int level, const char *parent,
                    const char *c, char q[64])
{
    const sp_level *l = &f->level[level];
    char begin[128], end[128], at[160];
    snprintf(q, 64, "%s_%d", name, level);
    sp_write_segment(name, f, level, parent, begin, end);
    if (sp_special_ordered(l) && sp_level_shares(f, level) == 1) {
        LINE(w, "const long %s = find_%s(%s_crd%d, %s, %s, %s);", q, crd_type(l), name, level, begin, end, c);
        OPEN(w, "if (%s >= 0)", q);
    } else if (l->kind == SP_LEVEL_BITMAP) {
        LINE(w, "const long %s = find_bit(%s_crd%d + %s * ((%s_n%d + 7) / 8), %s, %s);", q, name, level,
             *parent ? parent : "0", name, level, c, begin);
        OPEN(w, "if (%s >= 0)", q);
    } else {
        OPEN(w, "for (long %s = %s; %s < %s; %s++)", q, begin, q, end, q);
        coordinate_of(w, name, use, f, level, parent, q, at);
        LINE(w, "if (%s != %s) continue;", at, c);
    }
}

static void position(writer *w, const char *name, const sp_format *f, int level, const char *parent,
                     const char *c, char q[64])
{
    char n[48];
    if (f && fixed_extent(&f->level[level]))
        snprintf(n, sizeof n, "%lld", (long long)fixed_extent(&f->level[level]));
    else
        snprintf(n, sizeof n, "%s_n%d", name, level);
    if (!*parent && strspn(c, "0123456789abcdefghijklmnopqrstuvwxyz_") == strlen(c)) {
        snprintf(q, 64, "%s", c);
        return;
    }
    snprintf(q, 64, "%s_%d", name, level);
    if (*parent)
        LINE(w, "const long %s = %s * %s + %s;", q, parent, n, c);
    else
        LINE(w, "const long %s = %s;", q, c);
}

/* ------------------------------------------------------------------ elements */
const char *sp_write_type(const writer *w, int use)
{
    return sparta_dtype_name(sp_special_lies(&w->s->operand[w->n->use[use].operand]));
}

void sp_write_element(const writer *w, int use, const char *array, const char *at, char out[160])
{
    const bool plain = sp_special_lies(&w->s->operand[w->n->use[use].operand]) == SPARTA_F32;
    if (plain)
        snprintf(out, 160, "%s[%s]", array, at);
    else
        snprintf(out, 160, "one_%s(%s[%s])", sp_write_type(w, use), array, at);
}

/* The element of an operand that the term does without, looked up in each of its parts: 0 where there is none. */
static void look_up(writer *w, int use)
{
    const sp_special_operand *o = &w->s->operand[w->n->use[use].operand];
    char name[48], part[64], parent[64], c[SP_WRITE_PARTS], q[64], array[80], element[160];
    sp_write_name(w, use, name);
    LINE(w, "float %s_found = 0.f;", name);
    for (int leaf = 0; leaf < o->leaves; leaf++) {
        const sp_format *f = sp_special_leaf(o, leaf);
        const int opened = w->opened;
        sp_special_use u = w->n->use[use];
        u.format = f;
        snprintf(part, sizeof part, "%s_p%d", name, leaf);
        *parent = 0;
        OPEN(w, "/* part %d */", leaf);
        for (int l = 0; l < f->n; l++) {
            known_coordinate(w, use, f, l, c);
            if (sp_special_level_dense(&u, l))
                position(w, part, f, l, parent, c, q);
            else
                sp_write_match(w, part, use, f, l, parent, c, q);
            snprintf(parent, sizeof parent, "%s", q);
        }
        snprintf(array, sizeof array, "%s_values", part);
        sp_write_element(w, use, array, parent, element);
        LINE(w, "%s_found += %s;", name, element);
        while (w->opened > opened) {
            w->opened--, w->indent--;
            LINE(w, "}");
        }
    }
}

/* ------------------------------------------------------------------ settling */
/* Is the whole value of an index asked for, not only its parts, by the first of these uses? */
static bool wanted(const writer *w, int index, int uses)
{
    for (int u = 0; u < uses; u++) {
        const sp_special_use *use = &w->n->use[u];
        if (!sp_special_uses(w->s, use, index)) continue;
        if (!use->format) return true;
        for (int l = 0; l < use->format->n; l++) {
            int dim, other;
            bool all[SP_SPECIAL_LOOPS];
            memset(all, true, sizeof all);
            if (sp_special_diagonal(w->s, use, l, &dim, &other)) {
                if (dim == index || other == index) return true;
                continue;
            }
            const sp_special_digit d = sp_special_level_digit(w->s, use, l);
            int part[SP_SPECIAL_LOOPS];
            if (d.index == index && !sp_special_digit_parts(w->n, d, all, part)) return true;
        }
    }
    return false;
}

/* Does a use read at the whole value of an index whose loops may go past its end? */
static bool read_whole(const writer *w, int index)
{
    for (int u = 0; u + 1 < w->n->uses; u++)
        for (int l = 0; w->n->use[u].format && l < w->n->use[u].format->n; l++) {
            const sp_special_digit d = sp_special_level_digit(w->s, &w->n->use[u], l);
            if (d.index == index && whole(d)) return true;
        }
    return false;
}

static bool all_bound(const writer *w, int index)
{
    int64_t sum = 0;
    for (int l = 0; l < w->n->loops; l++) {
        if (!sp_special_binds(&w->n->loop[l]) || w->n->loop[l].digit.index != index) continue;
        if (!w->bound[l]) return false;
        sum++;
    }
    return sum > 0;
}

/* Blocks that a loop over blocks of blocks has too many do not exist, not even as padding. */
static void guard_blocks(writer *w, int index)
{
    for (int l = 0; l < w->n->loops; l++) {
        const sp_special_digit d = w->n->loop[l].digit;
        int part[SP_SPECIAL_LOOPS];
        if (d.index != index || d.weight < 2 || (w->inside[index] && d.weight >= w->inside[index])) continue;
        const int parts =
            sp_special_digit_parts(w->n, (sp_special_digit){index, 0, d.weight}, w->bound, part);
        if (parts < 2) continue;
        char value[SP_WRITE_PARTS];
        sp_write_digit(w, (sp_special_digit){index, 0, d.weight}, value);
        OPEN(w, "if (%s * %lld < n_%s)", value, (long long)d.weight, w->s->index[index].name);
        w->inside[index] = d.weight;
    }
}

static void complete(writer *w, int index)
{
    const char *name = w->s->index[index].name;
    const int last = w->last;
    char value[SP_WRITE_PARTS];
    w->complete[index] = true;
    parts_of(w, index, -1, value);
    if (parts(w, index) == 1 && last >= 0) {
        int only = 0;
        while (!sp_special_binds(&w->n->loop[only]) || w->n->loop[only].digit.index != index) only++;
        memcpy(w->index[index], w->value[only], sizeof w->index[0]);
        return;
    }
    const bool unrolled =
        last >= 0 && w->n->loop[last].bind == SP_BIND_UNROLL && w->n->loop[last].digit.index == index;
    const bool vector =
        last >= 0 && w->n->loop[last].bind == SP_BIND_VECTOR && w->n->loop[last].digit.index == index;
    const bool spare = unrolled && sp_special_in_result(w->s, w->n, index);
    const bool want = wanted(w, index, w->n->uses - spare) || /* where a sum is stored is found out there */
                      (spare && read_whole(w, index));
    if (!vector && !spare) OPEN(w, "if (%s < n_%s)", value, name);
    if (want && spare)
        LINE(w, "const long %s = %s < n_%s ? %s : n_%s - 1;", name, value, name, value, name);
    else if (want)
        LINE(w, "const long %s = %s;", name, value);
    if (want) snprintf(w->index[index], sizeof w->index[0], "%s", name);
}

/* Is an index in lanes? Then its loop stays where the other end of a diagonal is inside as well. */
static bool lanes_along(const writer *w, int index)
{
    for (int l = 0; l < w->n->loops; l++)
        if (w->n->loop[l].bind == SP_BIND_VECTOR && w->n->loop[l].digit.index == index) return true;
    return false;
}

/* One end of a diagonal from the other. */
static bool derive(writer *w, int use)
{
    const sp_special_use *u = &w->n->use[use];
    for (int l = 0; u->needed && l < u->format->n; l++) {
        int dim, other;
        if (!sp_special_diagonal(w->s, u, l, &dim, &other)) continue;
        const int loop = sp_special_loop_of(w->n, use, l);
        if (loop < 0 || w->n->loop[loop].over == SP_OVER_MERGE || !w->bound[loop] ||
            !*w->index[dim] == !*w->index[other])
            return false;
        const bool add = u->format->level[l].map == SP_MAP_ADD;
        const int to = *w->index[dim] ? other : dim, from = to == dim ? other : dim;
        const char *name = w->s->index[to].name, *d = w->value[loop], *x = w->index[from];
        if (add)
            LINE(w, "const long %s = %s - %s;", name, d, x);
        else if (to == dim)
            LINE(w, "const long %s = %s + %s;", name, x, d);
        else
            LINE(w, "const long %s = %s - %s;", name, x, d);
        if (!lanes_along(w, from)) OPEN(w, "if (%s >= 0 && %s < n_%s)", name, name, name);
        snprintf(w->index[to], sizeof w->index[0], "%s", name);
        w->complete[to] = true;
        return true;
    }
    return false;
}

static bool in_lanes(const writer *w, int use)
{
    if (w->gathered) return true; /* refused.c: every operand has the index */
    for (int l = 0; l < w->n->loops; l++) {
        int diagonal;
        bool ahead;
        if (w->n->loop[l].bind != SP_BIND_VECTOR) continue;
        const int other = sp_special_slides(w->s, w->n, l, &diagonal, &ahead);
        return sp_special_uses(w->s, &w->n->use[use], w->n->loop[l].digit.index) ||
               (other >= 0 && sp_special_uses(w->s, &w->n->use[use], other));
    }
    return false;
}
static bool has_vectors(const writer *w)
{
    if (w->gathered) return true;
    for (int l = 0; l < w->n->loops; l++)
        if (w->n->loop[l].bind == SP_BIND_VECTOR) return true;
    return false;
}

/* The element, or the vectors of them, into variables. */
static void load(writer *w, int use)
{
    const sp_special_use *u = &w->n->use[use];
    const bool found = sp_special_looked_up(u);
    char name[48], array[64], value[160];
    sp_write_name(w, use, name);
    w->loaded[use] = true;
    if (found) look_up(w, use);
    const char *at = *w->at[use] ? w->at[use] : "0";
    const bool tile = sp_special_cached(w->n, use) >= 0; /* of f32 */
    snprintf(array, sizeof array, tile ? "%s_tile" : "%s_values", name);
    if (!found && in_lanes(w, use)) {
        bool several = false;
        for (int l = 0; l < w->n->loops; l++) several |= w->n->loop[l].bind == SP_BIND_UNROLL && !w->bound[l];
        for (int t = 0; t < w->vectors; t++) {
            char plus[24] = "";
            if (t) snprintf(plus, sizeof plus, t > 1 ? " + %d * LANES" : " + LANES", t);
            LINE(w, "vec %s_v%d = get_%s(%s + %s%s, %s);", name, t, tile ? "f32" : sp_write_type(w, use),
                 array, at, plus, w->masked ? "lanes" : "LANES");
            if (several) LINE(w, "PIN(%s_v%d);", name, t);
        }
        return;
    }
    if (found)
        snprintf(value, sizeof value, "%s_found", name);
    else if (tile)
        snprintf(value, sizeof value, "%s[%s]", array, at);
    else
        sp_write_element(w, use, array, at, value);
    const sp_special_loop *last = w->n->loops ? &w->n->loop[w->n->loops - 1] : NULL;
    if (has_vectors(w) && !found && !tile && sp_special_lies(&w->s->operand[u->operand]) != SPARTA_F32)
        LINE(w, "const vec %s_v = all_%s(%s + %s);", name, sp_write_type(w, use), array, at);
    else if (has_vectors(w))
        LINE(w, "const vec %s_v = splat(%s);", name, value);
    else
        LINE(w, "float %s_v = %s;", name, value);
    if (last && last->over == SP_OVER_SEGMENT && last->bind == SP_BIND_UNROLL && !last->together &&
        w->bound[w->n->loops - 1])
        LINE(w, "HOLD(%s_v);", name);
}

void sp_write_gather(writer *w, int lead, const char *c, const char *place)
{
    for (int u = 0; u + 1 < w->n->uses; u++) {
        const char *type = sp_write_type(w, u);
        char name[48], gather[24] = "gather_at";
        sp_write_name(w, u, name);
        if (strcmp(type, "f32")) snprintf(gather, sizeof gather, "gather_at_%s", type);
        if (u == lead)
            LINE(w, "const vec %s_v0 = get_%s(%s_values + %s, LANES);", name, type, name, place);
        else if (*w->at[u])
            LINE(w, "const vec %s_v0 = %s(%s_values + %s * %s_n%d, %s);", name, gather, name, w->at[u], name,
                 w->levels[u], c);
        else
            LINE(w, "const vec %s_v0 = %s(%s_values, %s);", name, gather, name, c);
    }
}

void sp_write_expand(writer *w, int lead, const char *c)
{
    for (int u = 0; u + 1 < w->n->uses; u++) {
        char name[48];
        sp_write_name(w, u, name);
        if (u == lead)
            LINE(w, "const vec %s_v0 = expand_at(%s_values + next, bits);", name, name);
        else if (*w->at[u])
            LINE(w, "const vec %s_v0 = get_where(%s_values + %s * %s_n%d + %s, bits);", name, name, w->at[u],
                 name, w->levels[u], c);
        else
            LINE(w, "const vec %s_v0 = get_where(%s_values + %s, bits);", name, name, c);
    }
}

static bool advance(writer *w, int use)
{
    const sp_special_use *u = &w->n->use[use];
    const int levels = sp_special_levels(w->s, u);
    char name[48], c[SP_WRITE_PARTS], q[64];
    if (w->levels[use] == levels || (use == w->n->uses - 1 && w->s->operand[u->operand].like >= 0))
        return false;
    if (sp_special_cached(w->n, use) >= 0) {
        if (!sp_write_tile_place(w, use, w->at[use])) return false;
        w->levels[use] = levels;
        return true;
    }
    if (u->follows >= 0) {
        if (w->levels[u->follows] < levels) return false;
        memcpy(w->at[use], w->at[u->follows], sizeof w->at[0]);
        w->levels[use] = levels;
        return true;
    }
    const int l = w->levels[use];
    if (sp_special_loop_of(w->n, use, l) >= 0 || !sp_special_level_dense(u, l) || !has_text(w, use, l))
        return false;
    sp_write_level_text(w, use, l, c);
    if (sp_special_looked_up(u)) { /* looked up: that its indices are there is enough */
        w->levels[use]++;
        return true;
    }
    sp_write_name(w, use, name);
    position(w, name, u->format, l, w->at[use], c, q);
    snprintf(w->at[use], sizeof w->at[0], "%s", q);
    w->levels[use]++;
    return true;
}

/* An operand goes along the lanes once their loop is open: its position before is that of no element. */
static bool ready(const writer *w, int use)
{
    if (w->loaded[use] || w->levels[use] < sp_special_levels(w->s, &w->n->use[use])) return false;
    return !in_lanes(w, use) || w->vectors;
}

void sp_write_settle(writer *w, int only)
{
    bool more = true;
    const int uses = w->n->uses;
    while (more) {
        more = false;
        for (int i = 0; i < w->s->indices; i++) {
            if (only < 0) guard_blocks(w, i);
            if (!w->complete[i] && all_bound(w, i)) complete(w, i), more = true;
        }
        for (int u = 0; u < uses; u++) {
            if (only >= 0 ? u != only : u == uses - 1) continue;
            if (only < 0) more |= derive(w, u);
            more |= advance(w, u);
            if (only < 0 && ready(w, u)) load(w, u), more = true;
        }
    }
}

void sp_write_guard_result(writer *w)
{
    for (int i = 0; i < w->s->indices; i++) {
        char value[SP_WRITE_PARTS];
        if (w->complete[i] || !all_bound(w, i) || !sp_special_in_result(w->s, w->n, i)) continue;
        parts_of(w, i, -1, value);
        w->complete[i] = true;
        OPEN(w, "if (%s < n_%s)", value, w->s->index[i].name);
        if (wanted(w, i, w->n->uses)) {
            LINE(w, "const long %s = %s;", w->s->index[i].name, value);
            snprintf(w->index[i], sizeof w->index[0], "%s", w->s->index[i].name);
        }
    }
}

int sp_write_result_use(const writer *w)
{
    const int like = sp_special_like(w->s, w->n);
    return like >= 0 ? like : w->n->uses - 1;
}

void sp_write_result_place(const writer *w, char out[64])
{
    const int use = sp_write_result_use(w);
    snprintf(out, 64, "%s", *w->at[use] ? w->at[use] : "0");
}

/* ------------------------------------------------------------------ expressions */
static void number_text(double v, bool vectors, sp_text *out)
{
    char s[40];
    for (int digits = 1; digits <= 9; digits++) {
        double back;
        snprintf(s, sizeof s, "%.*e", digits, v);
        for (char *c = s; *c; c++)
            if (*c == ',') *c = '.';
        if (sp_parse_double(s, &back) && (float)back == (float)v) break;
    }
    sp_text_printf(out, vectors ? "splat(%sf)" : "%sf", s);
}

void sp_write_value(const writer *w, int use, int t, char out[64])
{
    char name[48];
    sp_write_name(w, use, name);
    if (in_lanes(w, use) && !sp_special_looked_up(&w->n->use[use]))
        snprintf(out, 64, "%s_v%d", name, t);
    else
        snprintf(out, 64, "%s_v", name);
}

static void expression(const writer *w, int node, int t, bool top, sp_text *out)
{
    const sp_special_node *x = &w->s->node[node];
    const bool vectors = has_vectors(w);
    char name[64];
    if (x->kind == SP_TREE_NUMBER) {
        number_text(x->number, vectors, out);
        return;
    }
    if (x->kind == SP_TREE_ACCESS) {
        int use = 0;
        while (w->n->use[use].access != x->at) use++;
        sp_write_value(w, use, t, name);
        sp_text_printf(out, "%s", name);
        return;
    }
    /* An operator is one of floats too; a function is asked of vectors. */
    const char *how = sp_spell_word(x->at);
    const bool plain = vectors || (!strchr(how, '(') && !strchr(how, '['));
    if (!top || !plain) sp_text_printf(out, plain ? "(" : "((");
    for (const char *c = how; *c; c++) {
        if (*c != '$') {
            sp_text_printf(out, "%c", *c);
            continue;
        }
        if (!plain) sp_text_printf(out, "splat(");
        expression(w, x->arg[*++c - '0'], t, false, out);
        if (!plain) sp_text_printf(out, ")");
    }
    if (!top || !plain) sp_text_printf(out, plain ? ")" : ")[0])");
}

void sp_write_expression(const writer *w, int node, int t, sp_text *out)
{
    expression(w, node, t, true, out);
}

void sp_write_product(const writer *w, int loop, bool outside, int t, sp_text *out)
{
    int node[SP_SPECIAL_NODES];
    const int n = sp_special_factors(w->s, w->n, loop, outside, node);
    if (n > 1) sp_text_printf(out, "(");
    for (int i = 0; i < n; i++) {
        if (i) sp_text_printf(out, " * ");
        expression(w, node[i], t, n == 1 && !outside, out); /* what is outside is multiplied by */
    }
    if (n > 1) sp_text_printf(out, ")");
}

/* ------------------------------------------------------------------ declarations */
static const char *index_type(sparta_dtype d)
{
    switch (d) {
    case SPARTA_U8: return "unsigned char";
    case SPARTA_U16: return "unsigned short";
    case SPARTA_U32: return "unsigned";
    case SPARTA_U64: return "unsigned long";
    case SPARTA_I64: return "long";
    default: return "int";
    }
}

/* Does the text ask how many coordinates a level has, or positions? Not of the outermost. */
static bool sized(const sp_level *l, int level)
{
    if (!l) return level > 0;
    const bool diagonal = l->map == SP_MAP_SUB || l->map == SP_MAP_ADD;
    switch (l->kind) {
    case SP_LEVEL_PACKED:
    case SP_LEVEL_BITMAP: return true;
    case SP_LEVEL_DENSE:
    case SP_LEVEL_RANGE: return (level > 0 && !fixed_extent(l)) || diagonal;
    default: return false;
    }
}

/* Array `at` of a part, or the size of a level: one of all, or of those that the function is given for this part. */
static const char *array_text(const char *name, const sp_special_operand *o, int leaf, bool given, int at,
                              char out[96])
{
    if (given)
        snprintf(out, 96, "%s_part[%d]", name, at);
    else
        snprintf(out, 96, "args->array[%d]", sp_special_array(o, leaf) + at);
    return out;
}
static const char *size_text(const char *name, const sp_special_operand *o, int leaf, bool given, int level,
                             char out[96])
{
    if (given)
        snprintf(out, 96, "%s_size[%d]", name, level);
    else
        snprintf(out, 96, "args->size[%d]", sp_special_sizes(o, leaf) + level);
    return out;
}

static void declare_leaf(writer *w, const char *name, const sp_special_operand *o, int leaf, bool given)
{
    const sp_format *f = sp_special_leaf(o, leaf);
    const int levels = f ? f->n : o->rank;
    char from[96];
    for (int l = 0; l < levels; l++) {
        const sp_level *v = f ? &f->level[l] : NULL;
        if (v && v->w && !(given && v->kind == SP_LEVEL_PACKED)) /* which may be another in each part */
            LINE(w, "const long %s_n%d = %lld;", name, l, (long long)v->w);
        else if (sized(v, l))
            LINE(w, "const long %s_n%d = %s;", name, l, size_text(name, o, leaf, given, l, from));
        if (v && sp_level_table[v->kind].has_pos)
            LINE(w, "const %s *const %s_pos%d = %s;", index_type(v->pos), name, l,
                 array_text(name, o, leaf, given, 1 + 2 * l, from));
        if (v && sp_level_table[v->kind].crd_kind != SP_CRD_NONE)
            LINE(w, "const %s *const %s_crd%d = %s;",
                 v->crd_bits || v->kind == SP_LEVEL_BITMAP ? "unsigned char" : index_type(v->crd), name, l,
                 array_text(name, o, leaf, given, 2 + 2 * l, from));
    }
}

void sp_write_declare(writer *w)
{
    const sp_special_nest *n = w->n;
    bool own =
        n->joined || sp_special_group(w->s, w->number) > w->number + 1; /* others have the same arrays */
    for (int i = 0; i < w->s->indices; i++) {
        bool used = false;
        for (int u = 0; u < n->uses; u++) used |= sp_special_uses(w->s, &n->use[u], i);
        if (used && n->bound[i])
            LINE(w, "const long n_%s = %lld;", w->s->index[i].name, (long long)n->bound[i]);
        else if (used)
            LINE(w, "const long n_%s = args->size[%d];", w->s->index[i].name, i);
    }
    for (int u = 0; u < n->uses - 1; u++) own |= n->use[u].operand == sp_special_target(n)->operand;
    for (int u = 0; u < n->uses; u++) {
        const sp_special_operand *o = &w->s->operand[n->use[u].operand];
        const bool result = u == n->uses - 1, found = n->use[u].leaf < 0;
        char name[48], part[64];
        sp_write_name(w, u, name);
        for (int leaf = found ? 0 : n->use[u].leaf; leaf <= (found ? o->leaves - 1 : n->use[u].leaf);
             leaf++) {
            snprintf(part, sizeof part, found ? "%s_p%d" : "%s", name, leaf);
            const bool given = w->parts && sp_special_has_parts(w->s, &n->use[u]);
            char from[96];
            if (n->use[u].follows < 0 && (!result || o->like < 0)) declare_leaf(w, part, o, leaf, given);
            LINE(w, "%s%s *%sconst %s_values = %s;", result ? "" : "const ",
                 sp_special_lies(o) == SPARTA_F32 ? "float" : "unsigned short", own ? "" : "restrict ", part,
                 array_text(part, o, leaf, given, 0, from));
        }
    }
}
