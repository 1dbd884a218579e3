/* Random formats, drawn from the grammar: for the tests of text, storage and conversion.
 *
 *     char text[FORMAT_DRAWN];
 *     format_draw(&r, 2, true, text, sizeof text);
 *
 *       (i,j)->(j%3:compressed, i:bitmap, j/3:dense), pos=u16
 *       sum{rownnz<=2 -> (i,j)->(...); rownnz in (2,5] -> sum{first(1) -> ...; rest -> ...}; rest -> coo}
 *
 * Whatever is drawn parses and fits every shape of its rank. Storage may still refuse a tensor: a row that is longer
 * than a singleton or a packed level, a width that is too narrow, an element that no part of a sum takes.
 */
#ifndef SP_TESTS_FORMAT_RANDOM_H
#define SP_TESTS_FORMAT_RANDOM_H

#include <stdio.h>
#include <string.h>
#include "store/store.h"

#define FORMAT_DRAWN 4096 /* enough for any text that is drawn */

static inline unsigned roll(sp_rng *r, unsigned n)
{
    return (unsigned)(sp_rng_next(r) >> 33) % n;
}

/* A kind for a level that may be anything; `first`: level 0. */
static inline const char *format_any_kind(sp_rng *r, bool first)
{
    static const char *const kinds[] = {"dense",
                                        "dense",
                                        "compressed",
                                        "compressed",
                                        "packed[auto]",
                                        "packed[auto](pad=zero)",
                                        "packed[20]",
                                        "bitmap",
                                        "ragged",
                                        "loose",
                                        "compressed(nonordered)",
                                        "loose(nonunique)",
                                        "compressed(nonunique)",
                                        "packed[auto](zeroless)",
                                        "singleton"};
    return kinds[roll(r, SP_COUNT(kinds) - (first ? 1 : 0))];
}

/* The levels of the tensor's dimensions, cut into blocks, in any order, with any kinds. */
static inline void format_draw_levels(sp_rng *r, int rank, char *out, size_t size)
{
    static const char names[] = "ijklmn";
    static const int outer[] = {2, 3, 4, 8}, inner[] = {1, 1, 2, 4};
    char expr[SP_LEVELS][24], kind[SP_LEVELS][40];
    int n = 0;
    bool diagonal = rank >= 2 && roll(r, 6) == 0;
    for (int d = diagonal ? 2 : 0; d < rank; d++) {
        unsigned b = roll(r, 4), way = n > 6 ? 0 : roll(r, 4);
        int before = n;
        snprintf(expr[n++], 24, way < 2 ? "%c" : "%c/%d", names[d], outer[b]);
        if (way == 3) snprintf(expr[n++], 24, "%c%%%d/%d", names[d], outer[b], inner[b]);
        if (way >= 2) snprintf(expr[n++], 24, "%c%%%d", names[d], way == 3 ? inner[b] : outer[b]);
        for (int l = before; l < n; l++) kind[l][0] = 0;
        if (way == 2 && roll(r, 3) == 0)
            snprintf(kind[n - 1], 40, "structured[%d,%d]", outer[b], outer[b]); /* n of n always fits */
    }
    for (int l = n - 1; l > 0; l--) { /* shuffle */
        int o = (int)roll(r, (unsigned)l + 1);
        char swap[40];
        memcpy(swap, expr[l], 24), memcpy(expr[l], expr[o], 24), memcpy(expr[o], swap, 24);
        memcpy(swap, kind[l], 40), memcpy(kind[l], kind[o], 40), memcpy(kind[o], swap, 40);
    }
    size_t used = 0;
    for (int d = 0; d < rank; d++)
        used += (size_t)snprintf(out + used, size - used, "%c%c", d ? ',' : '(', names[d]);
    used += (size_t)snprintf(out + used, size - used, ")->(");
    for (int l = 0; l < n; l++)
        used += (size_t)snprintf(out + used, size - used, "%s%s:%s", l ? ", " : "", expr[l],
                                 kind[l][0] ? kind[l] : format_any_kind(r, l == 0));
    if (diagonal)
        used += (size_t)snprintf(out + used, size - used, "%s%s:%s, %s:range", n ? ", " : "",
                                 roll(r, 2) ? "j-i" : "i+j", roll(r, 2) ? "compressed" : "dense",
                                 roll(r, 2) ? "i" : "j");
    bool has_pos = strstr(out, "compressed") || strstr(out, "bitmap") || strstr(out, "loose");
    snprintf(out + used, size - used, "%s", !has_pos || roll(r, 3) ? ")" : "), pos=u16");
}

static inline void format_draw_sum(sp_rng *r, int rank, int depth, char *out, size_t size);

/* What stands behind the arrow of a part; `blocks`: with at least one i/c. */
static inline void format_draw_part(sp_rng *r, int rank, int depth, bool blocks, char *out, size_t size)
{
    static const char *const names[] = {"csr", "coo",         "csr, crd=u16",  "dcsr",   "bsr(2,3)",
                                        "ell", "ell, crd=u8", "dcsr, pos=u16", "bitmap", "csc"};
    if (blocks) {
        char d[64] = "i", rest[128] = "";
        for (int k = 1; k < rank; k++) {
            static const char letters[] = "ijklmn";
            sprintf(d + strlen(d), ",%c", letters[k]);
            sprintf(rest + strlen(rest), ", %c:dense", letters[k]);
        }
        snprintf(out, size, "(%s)->(i/2:compressed, i%%2:dense%s)", d, rest);
    } else if (depth == 0 && roll(r, 4) == 0) {
        format_draw_sum(r, rank, depth + 1, out, size);
    } else if (rank == 2 && roll(r, 3) == 0) {
        snprintf(out, size, "%s", names[roll(r, SP_COUNT(names))]);
    } else {
        format_draw_levels(r, rank, out, size);
    }
}

/* One kind of selector, then `rest` (mostly). */
static inline void format_draw_sum(sp_rng *r, int rank, int depth, char *out, size_t size)
{
    char part[FORMAT_DRAWN / 2], select[64];
    size_t used = (size_t)snprintf(out, size, "sum{");
    int kind = (int)roll(r, 5), parts = kind == 0 ? 1 + (int)roll(r, 3) : kind == 4 ? 0 : 1;
    int from = (int)roll(r, 2);
    for (int k = 0; k < parts; k++) {
        int to = from + 1 + (int)roll(r, 4);
        switch (kind) {
        case 0:
            if (from)
                snprintf(select, sizeof select, "rownnz in (%d,%d]", from, to);
            else
                snprintf(select, sizeof select, "rownnz<=%d", to);
            break;
        case 1: snprintf(select, sizeof select, "colpart(%d)", 1 + (int)roll(r, 3)); break;
        case 2: snprintf(select, sizeof select, "blockdensity>=%g", (1 + roll(r, 8)) / 8.0); break;
        default: snprintf(select, sizeof select, "first(%d)", 1 + (int)roll(r, 3));
        }
        from = to + (int)roll(r, 2);
        /* at most one part is a sum again: the text stays short */
        format_draw_part(r, rank, k ? 1 : depth, kind == 2, part, sizeof part);
        used += (size_t)snprintf(out + used, size - used, "%s%s -> %s", k ? "; " : "", select, part);
    }
    if (kind == 4 || (kind != 1 && roll(r, 8))) {
        format_draw_part(r, rank, parts ? 1 : depth, false, part, sizeof part);
        used += (size_t)snprintf(out + used, size - used, "%srest -> %s", parts ? "; " : "", part);
    }
    snprintf(out + used, size - used, "}");
}

/* rank: 1 to 6. With `sums` about a third of what is drawn are sums. */
static inline void format_draw(sp_rng *r, int rank, bool sums, char *out, size_t size)
{
    if (sums && roll(r, 3) == 0)
        format_draw_sum(r, rank, 0, out, size);
    else
        format_draw_levels(r, rank, out, size);
}

#endif
