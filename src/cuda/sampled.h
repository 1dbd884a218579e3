/* The gradient of values on Hopper, as numbers: which piece of the result a block of threads makes, and of which tokens. Compiled by the C compiler
 * (sampled.c; the tests walk it) and by NVRTC (sampled.cu).
 *
 *   item     up to 256 columns of one strip of rows: `per` steps of it (index.h), or a part of a block that is larger:
 *
 *              blocks of 64x64, strip 5 has 6 steps         blocks of 256x512, items of 128 rows (2 warpgroups)
 *                 . [ ][ ] . [ ][ ]  |  [ ][ ] .               +-------+-------+
 *                   item 11 (per = 4)   item 12                | 0     | 1     |   tall = 2, wide = 2: each step is 4 items
 *                                                              +-------+-------+
 *                                                              | 2     | 3     |
 *                                                              +-------+-------+
 *
 *   box      up to 64 columns of it: what the copy engine brings at once. Items have up to 256 / box of them
 *   crew     a block of threads; there are as many as the chip holds at once
 *   share    crew c makes items c, c + crews, c + 2 * crews, ... whole, as long as all crews have one. What remains, R < crews items of K steps of
 *            tokens, is cut along the tokens where that saves time:
 *
 *              R = 3, crews = 8, K = 16: length 6, 2 heads of each item           crew 6 and 7: the tails, in one line cut equally
 *                item 0   | crew 0 | crew 3 | tail |
 *                item 1   | crew 1 | crew 4 | tail |                              | tail 0 : tail 1 : tail 2 |
 *                item 2   | crew 2 | crew 5 | tail |                              | crew 6     | crew 7      |
 *
 *            Heads begin at the same tokens, so that crews side by side read the same lines of memory at the same time.
 *   slot     where a part leaves its sums for the second kernel, which adds those of an item in the order of tokens. There are fewer than two for each crew.
 *
 * All of it follows from three numbers: items, steps, crews. Nothing is counted while it runs, so results are the same bits in every run. */
#ifndef SP_CUDA_SAMPLED_H
#define SP_CUDA_SAMPLED_H

#ifndef __CUDACC__
#include "cuda/index.h"
#endif

#define SP_SAMPLED_COLUMNS 256 /* of an item, at most */
#define SP_SAMPLED_BOX     64  /* columns of a box, at most */
#define SP_SAMPLED_LEAST   256 /* tokens: shorter parts are not made, and cutting saves as many */
#define SP_SAMPLED_WHOLE   85  /* percent of the crews: with more items in the last round they are not cut */

/* What both kernels get. */
typedef struct sp_sampled {
    const int *index;
    const unsigned char *keep; /* or NULL */
    void *values;
    float *scratch;
    int down, right, blocks;
    int rows, cols;
    int steps; /* of tokens */
    int crews;
    float scale;
} sp_sampled;

/* ------------------------------------------------------------------ items */
typedef struct sp_sampling {
    sp_side side;
    int part;       /* rows of a block in a strip, at most 64 */
    int box, boxes; /* columns of a box; boxes of one step in an item, at most */
    int rows;       /* of an item */
    int tall, wide; /* items of one block, down and across */
} sp_sampling;

SP_BOTH sp_sampling sp_sampling_of(int height, int width, int down, int right, int warpgroups)
{
    sp_sampling s;
    s.side = sp_side_across(height, width, down, right);
    s.part = height < SP_STRIP ? height : SP_STRIP;
    s.box = width < SP_SAMPLED_BOX ? width : SP_SAMPLED_BOX;
    s.boxes = (width < SP_SAMPLED_COLUMNS ? width : SP_SAMPLED_COLUMNS) / s.box;
    s.rows = SP_STRIP * warpgroups;
    s.tall = height > s.rows ? height / s.rows : 1;
    s.wide = (width + SP_SAMPLED_COLUMNS - 1) / SP_SAMPLED_COLUMNS;
    return s;
}

/* Runs of steps that there can be at most. */
SP_BOTH int sp_sampled_most(const sp_sampling *s)
{
    return s->side.strips * ((s->side.cross + s->side.per - 1) / s->side.per);
}

/* All items; `runs` is the last word of `item` in the index. */
SP_BOTH int sp_sampled_items(const sp_sampling *s, int runs)
{
    const int most = sp_sampled_most(s);
    return (runs < 0 ? 0 : runs > most ? most : runs) * (s->tall * s->wide);
}

/* The run of steps that an item belongs to. */
SP_BOTH int sp_sampled_run(const sp_sampling *s, int item)
{
    return item / (s->tall * s->wide);
}

typedef struct sp_tile {
    int row;         /* of the matrix: its first */
    int down, along; /* in each block: its first row and column, where blocks are larger */
    int steps, at;   /* how many, 0 to per; the word of the index with the first */
    int boxes;       /* of all steps */
} sp_tile;

/* `strip`: the last one whose runs begin at the item's or before; `begin`, `count`: what the index says of it, which nothing is assumed of. */
SP_BOTH sp_tile sp_tile_of(const sp_sampling *s, int item, int strip, int begin, int count)
{
    const sp_side *side = &s->side;
    const int within = item % (s->tall * s->wide);
    const unsigned before = (unsigned)sp_sampled_run(s, item) - (unsigned)begin;
    const int most = count < 0 ? 0 : count > side->cross ? side->cross : count;
    const int first = before > (unsigned)(side->cross / side->per) ? side->cross : (int)before * side->per;
    const int left = most > first ? most - first : 0;
    sp_tile t;
    t.down = within / s->wide * s->rows;
    t.along = within % s->wide * SP_SAMPLED_COLUMNS;
    t.row = strip * (side->parts > 1 ? SP_STRIP : side->side) + t.down;
    t.steps = left < side->per ? left : side->per;
    t.at = side->step + (strip * side->cross + (left ? first : 0)) * 2 * side->parts;
    const int boxes = (side->depth - t.along) / s->box;
    t.boxes = t.steps * (boxes < s->boxes ? boxes : s->boxes);
    return t;
}

/* Of box b, which exists: the word of the index with its step; its first column in the block. */
SP_BOTH int sp_tile_step(const sp_sampling *s, const sp_tile *t, int b)
{
    return t->at + b / s->boxes * 2 * s->side.parts;
}
SP_BOTH int sp_tile_along(const sp_sampling *s, const sp_tile *t, int b)
{
    return t->along + b % s->boxes * s->box;
}

/* ------------------------------------------------------------------ shares */
typedef struct sp_share {
    int crews, steps;
    int whole;  /* items 0 .. whole - 1 are not cut */
    int cut;    /* those after them that are */
    int heads;  /* parts of `length` steps that each of these has */
    int length; /* the last may be shorter */
    int tail;   /* steps that remain of each */
    int run;    /* steps of the line of tails that a crew without a head gets */
} sp_share;

/* `least`: steps of a part, and steps that cutting saves. There is at least one step and one crew. */
SP_BOTH sp_share sp_share_of(int items, int steps, int crews, int least)
{
    const int rest = items % crews;
    sp_share s = {crews, steps, items, 0, 0, 0, 0, 0};
    if (rest == 0 || (long long)rest * 100 > (long long)crews * SP_SAMPLED_WHOLE) return s;
    const int equal = (int)(((long long)rest * steps + crews - 1) / crews);
    const int length = equal > least ? equal : least;
    if (length + least > steps) return s;
    const int fit = crews / rest, need = (steps + length - 1) / length;
    s.whole = items - rest;
    s.cut = rest;
    s.heads = fit < need ? fit : need;
    s.length = length;
    s.tail = s.heads < need ? steps - s.heads * length : 0;
    const int idle = crews - s.heads * rest;
    s.run = s.tail ? (int)(((long long)rest * s.tail + idle - 1) / idle) : 0;
    return s;
}

typedef struct sp_piece {
    int item;
    int first, steps; /* of tokens */
    int slot;         /* -1: it is the whole item */
} sp_piece;

/* Part p of cut item r (of `cut`): 0: there is none. */
SP_BOTH int sp_share_part(const sp_share *s, int r, int p, sp_piece *out)
{
    out->item = s->whole + r;
    if (p < s->heads) {
        out->first = p * s->length;
        out->steps = s->steps - out->first < s->length ? s->steps - out->first : s->length;
        out->slot = p * s->cut + r;
        return 1;
    }
    if (s->tail == 0) return 0;
    /* Its tail is [begin, end) of the line; crew c of the line has [c * run, (c + 1) * run). */
    const long long begin = (long long)r * s->tail, end = begin + s->tail;
    const long long c = begin / s->run + (p - s->heads);
    const long long from = c * s->run > begin ? c * s->run : begin;
    const long long to = (c + 1) * s->run < end ? (c + 1) * s->run : end;
    if (from >= to) return 0;
    out->first = s->heads * s->length + (int)(from - begin);
    out->steps = (int)(to - from);
    out->slot = s->heads * s->cut + r + (int)c;
    return 1;
}

/* What a crew makes, i = 0, 1, ...; 0: that was all. */
SP_BOTH int sp_share_piece(const sp_share *s, int crew, int i, sp_piece *out)
{
    const long long item = (long long)i * s->crews + crew;
    if (item < s->whole) {
        out->item = (int)item;
        out->first = 0;
        out->steps = s->steps;
        out->slot = -1;
        return 1;
    }
    if (s->cut == 0) return 0;
    const int k = i - s->whole / s->crews; /* all crews have as many whole ones */
    if (crew < s->heads * s->cut) return k == 0 && sp_share_part(s, crew % s->cut, crew / s->cut, out);
    if (s->tail == 0) return 0;
    const long long c = crew - s->heads * s->cut, from = c * s->run, all = (long long)s->cut * s->tail;
    const long long r = from / s->tail + k;
    if (from >= all || r >= s->cut || r * s->tail >= from + s->run) return 0;
    return sp_share_part(s, (int)r, s->heads + (int)(c - r * s->tail / s->run), out);
}

#endif
