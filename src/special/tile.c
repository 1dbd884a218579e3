/* Tiles: what the loops inside of a loop read of a row-major operand, copied to an array of its own first (cache).
 *
 *     m/16                             loop m0: X_tile[k][m % 16] = X(m,k) for all k of a bound, transposed
 *         n  k@segment  m%16           reads X_tile, lanes side by side
 *
 * An index that is known outside is fixed. One that is cut there has its inner part as a dimension, others all of their values, which a bound says.
 * The index in vectors is the last dimension, whatever the operand has last.
 *
 * A tile lies on the stack and is small. In scratch (cache(B,k0,scratch)) it is as large as it must be, a strip of a matrix that then stays in the L2 cache: all rows,
 * a few columns, side by side where the matrix has them a row apart. */
#include "special/tile.h"
#include <stdio.h>
#include <string.h>

enum {
    MOST_ELEMENTS = 4096, /* 16 KB: half of an L1 cache */
    MOST_LENT = 1 << 24,
    GROUP = 16 /* a tile in scratch is copied in vectors, of so many lanes at most */
};

/* ------------------------------------------------------------------ what is in one */
int sp_special_cached(const sp_special_nest *n, int use)
{
    for (int l = 0; l < n->loops; l++)
        if (n->loop[l].caches >> use & 1) return l;
    return -1;
}

/* How much of an index loops outside leave open: its values in one of their steps; 0: all of it, -1: what they bind is no upper part. */
static int64_t open_part(const sp_special_nest *n, int index, const bool *outside)
{
    int part[SP_SPECIAL_LOOPS];
    int64_t least = 0;
    bool any = false;
    for (int l = 0; l < n->loops; l++) {
        const sp_special_loop *o = &n->loop[l];
        if (!outside[l] || !sp_special_binds(o) || o->digit.index != index) continue;
        any = true;
        if (sp_special_digit_parts(n, (sp_special_digit){index, 0, o->digit.weight}, outside, part) > 0 &&
            (!least || o->digit.weight < least))
            least = o->digit.weight;
    }
    return any && !least ? -1 : least;
}

static const char *add_dim(const sp_special *s, const sp_special_nest *n, int index, const bool *outside,
                           sp_special_tile *t, char why[160])
{
    const char *name = s->index[index].name;
    const int64_t part = open_part(n, index, outside), size = part ? part : n->bound[index];
    const bool first = t->scratch && !part && !size && !(t->n && !t->dim[0].size);
    if (part < 0) {
        snprintf(why, 160, "an inner part of %s is outside of it, and an outer one is not", name);
        return why;
    }
    if (first) { /* all of it: how many there are need not be known, since nothing lies behind one row of others */
        memmove(t->dim + 1, t->dim, (size_t)t->n++ * sizeof *t->dim);
        t->dim[0] = (sp_special_tile_dim){.index = index};
        return NULL;
    }
    if (!size) {
        snprintf(why, 160, "nothing says how many values of %s a tile has; say bound(%s,64), or split it",
                 name, name);
        return why;
    }
    const int64_t most = t->scratch ? MOST_LENT : MOST_ELEMENTS;
    t->elements = size > most ? most + 1 : t->elements * size;
    if (t->elements > most) {
        snprintf(why, 160, "a tile would have more than %lld elements", (long long)most);
        return why;
    }
    t->dim[t->n].index = index;
    t->dim[t->n].part = part;
    t->dim[t->n++].size = size;
    return NULL;
}

/* The index in vectors goes last. */
static void lanes_last(const sp_special_nest *n, sp_special_tile *t)
{
    for (int l = 0; l < n->loops; l++)
        for (int d = 0; n->loop[l].bind == SP_BIND_VECTOR && d + 1 < t->n; d++)
            if (t->dim[d].index == n->loop[l].digit.index) {
                const sp_special_tile_dim lanes = t->dim[d];
                memmove(t->dim + d, t->dim + d + 1, (size_t)(t->n - d - 1) * sizeof lanes);
                t->dim[t->n - 1] = lanes;
                return;
            }
}

/* A tile in scratch is copied in vectors. */
static const char *lent_refused(const sp_special *s, const sp_special_use *u, const sp_special_tile *t)
{
    const sp_special_tile_dim *last = &t->dim[t->n - 1];
    const int rank = s->operand[u->operand].rank;
    if (!last->size || last->size % GROUP ||
        sp_special_plain(&s->access[u->access].axis[rank - 1]) != last->index)
        return "what lies in scratch has the operand's last index last, cut by 16 or a multiple of it";
    return NULL;
}

const char *sp_special_tile_of(const sp_special *s, const sp_special_nest *n, int loop, int use,
                               sp_special_tile *t, char why[160])
{
    const sp_special_use *u = &n->use[use];
    bool outside[SP_SPECIAL_LOOPS] = {false};
    sp_special_known k;
    *t = (sp_special_tile){.elements = 1, .scratch = n->loop[loop].lent >> use & 1};
    if (s->operand[u->operand].stored) return "it has a format; what lies row-major is cached";
    if (u->operand == sp_special_target(n)->operand) return "it is the result";
    for (int l = 0; l <= loop; l++) {
        outside[l] = true;
        if (n->loop[l].bind == SP_BIND_VECTOR && sp_special_uses(s, u, n->loop[l].digit.index))
            return "a loop of it that is in vectors would be outside of the tile";
    }
    sp_special_known_with(s, n, outside, &k);
    for (int d = 0; d < s->operand[u->operand].rank; d++) {
        const int index = sp_special_plain(&s->access[u->access].axis[d]);
        if (index < 0) return "an index of it is a sum";
        for (int e = 0; e < t->n; e++)
            if (t->dim[e].index == index) return "it has an index twice";
        const char *refused = k.index[index] ? NULL : add_dim(s, n, index, outside, t, why);
        if (refused) return refused;
    }
    if (!t->n) return "which element it is, is known there: it is in a register";
    lanes_last(n, t);
    return t->scratch ? lent_refused(s, u, t) : NULL;
}

/* ------------------------------------------------------------------ text */
static const sp_special_tile_dim *find_dim(const sp_special_tile *t, int index)
{
    for (int d = 0; d < t->n; d++)
        if (t->dim[d].index == index) return &t->dim[d];
    return NULL;
}

int64_t sp_special_scratch(const sp_special *s, int nest)
{
    int64_t most = 0;
    for (int i = nest; i < sp_special_group(s, nest); i++)
        for (int u = 0; u < s->nest[i]->uses; u++) {
            const int loop = sp_special_cached(s->nest[i], u);
            sp_special_tile t;
            char why[160];
            if (loop < 0 || !(s->nest[i]->loop[loop].lent >> u & 1)) continue;
            sp_special_tile_of(s, s->nest[i], loop, u, &t, why);
            const int64_t rows = t.dim[0].size ? 1 : s->index[t.dim[0].index].size;
            if (rows > ((int64_t)1 << 56) / t.elements) return -1;
            most = SP_MAX(most, rows * t.elements);
        }
    return most;
}

/* The coordinate in dimension d of the operand while the tile is copied: what is known outside, and a counter for the rest. True: it may be past the end. */
static bool coordinate(writer *w, const char *name, int d, int index, const sp_special_tile *t)
{
    const sp_special_tile_dim *dim = find_dim(t, index);
    char outer[SP_WRITE_PARTS];
    if (!dim) {
        LINE(w, "const long %s_i%d = %s;", name, d, w->index[index]);
        return false;
    }
    const int at = (int)(dim - t->dim);
    if (!dim->part) {
        LINE(w, "const long %s_i%d = %s_t%d;", name, d, name, at);
        return false;
    }
    sp_write_digit(w, (sp_special_digit){index, 0, dim->part}, outer);
    LINE(w, "const long %s_i%d = %s * %lld + %s_t%d;", name, d, outer, (long long)dim->part, name, at);
    return true;
}

static void copy_element(writer *w, int use, const sp_special_tile *t, const char *name)
{
    const sp_special_use *u = &w->n->use[use];
    const int rank = w->s->operand[u->operand].rank;
    sp_text there;
    sp_text_init(&there, w->out->cx);
    for (int d = 0; d < rank; d++) {
        const int index = sp_special_plain(&w->s->access[u->access].axis[d]);
        const bool past = coordinate(w, name, d, index, t);
        if (past && t->scratch && d < rank - 1)
            sp_text_printf(&there, "%s_i%d >= n_%s ? 0 : ", name, d, w->s->index[index].name);
        else if (past && !t->scratch)
            LINE(w, "if (%s_i%d >= n_%s) continue;", name, d, w->s->index[index].name);
        if (d)
            LINE(w, "const long %s_p%d = %s_%c%d * %s_n%d + %s_i%d;", name, d, name, d > 1 ? 'p' : 'i', d - 1,
                 name, d, name, d);
    }
    int64_t stride = t->elements;
    sp_text at;
    sp_text_init(&at, w->out->cx);
    for (int d = 0; d < t->n; d++) {
        if (t->dim[d].size) stride /= t->dim[d].size;
        sp_text_printf(&at, stride > 1 ? "%s%s_t%d * %lld" : "%s%s_t%d", d ? " + " : "", name, d,
                       (long long)stride);
    }
    const char last = rank > 1 ? 'p' : 'i';
    if (t->scratch)
        LINE(w, "put_f32(%s_tile + %s, get_%s(%s_values + %s_%c%d, %smax_of(0, n_%s - %s_i%d)), LANES);",
             name, sp_text_str(&at), sp_write_type(w, use), name, name, last, rank - 1, sp_text_str(&there),
             w->s->index[t->dim[t->n - 1].index].name, name, rank - 1);
    else {
        char array[64], place[64], element[160];
        snprintf(array, sizeof array, "%s_values", name);
        snprintf(place, sizeof place, "%s_%c%d", name, last, rank - 1);
        sp_write_element(w, use, array, place, element);
        LINE(w, "%s_tile[%s] = %s;", name, sp_text_str(&at), element);
    }
    if (at.status && !w->out->status) w->out->status = at.status;
    if (there.status && !w->out->status) w->out->status = there.status;
    sp_text_free(&at);
    sp_text_free(&there);
}

static void copy_tile(const writer *from, int loop, int use)
{
    writer w = *from;
    sp_special_tile t;
    char why[160], name[48];
    sp_special_tile_of(w.s, w.n, loop, use, &t, why);
    sp_write_name(&w, use, name);
    if (t.scratch)
        LINE(&w, "float *const %s_tile = args->scratch;", name);
    else
        LINE(&w, "float %s_tile[%lld] = {0};", name, (long long)t.elements);
    w.opened = 0;
    for (int d = 0; d < t.n; d++) {
        char size[40], step[32];
        snprintf(size, sizeof size, "%lld", (long long)t.dim[d].size);
        if (!t.dim[d].size) snprintf(size, sizeof size, "n_%s", w.s->index[t.dim[d].index].name);
        snprintf(step, sizeof step, t.scratch && d == t.n - 1 ? " += LANES" : "++");
        OPEN(&w, "for (long %s_t%d = 0; %s_t%d < %s; %s_t%d%s)", name, d, name, d, size, name, d, step);
    }
    copy_element(&w, use, &t, name);
    sp_write_close(&w);
}

void sp_write_tiles(const writer *w, int loop)
{
    for (int u = 0; u < w->n->uses; u++)
        if (w->n->loop[loop].caches >> u & 1) copy_tile(w, loop, u);
}

bool sp_write_tile_place(writer *w, int use, char out[64])
{
    const int loop = sp_special_cached(w->n, use);
    sp_special_tile t;
    char why[160], name[48], text[SP_WRITE_PARTS];
    if (!w->bound[loop]) return false;
    sp_special_tile_of(w->s, w->n, loop, use, &t, why);
    for (int d = 0; d < t.n; d++) {
        const int index = t.dim[d].index;
        int part[SP_SPECIAL_LOOPS];
        if (*w->index[index] && !t.dim[d].part) continue;
        if (!t.dim[d].part ||
            !sp_special_digit_parts(w->n, (sp_special_digit){index, t.dim[d].part, 1}, w->bound, part))
            return false;
    }
    int64_t stride = t.elements;
    sp_text at;
    sp_text_init(&at, w->out->cx);
    for (int d = 0; d < t.n; d++) {
        const sp_special_tile_dim *dim = &t.dim[d];
        if (dim->size) stride /= dim->size;
        if (dim->part)
            sp_write_digit(w, (sp_special_digit){dim->index, dim->part, 1}, text);
        else
            snprintf(text, sizeof text, "%s", w->index[dim->index]);
        sp_text_printf(&at, stride > 1 ? "%s%s * %lld" : "%s%s", d ? " + " : "", text, (long long)stride);
    }
    sp_write_name(w, use, name);
    snprintf(out, 64, "%s_t", name);
    LINE(w, "const long %s = %s;", out, sp_text_str(&at));
    if (at.status && !w->out->status) w->out->status = at.status;
    sp_text_free(&at);
    return true;
}
