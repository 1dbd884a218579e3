/* The index of a pattern on the GPU: what pos and crd say, in the order in which kernels take it (ADR 10).
 *
 *     head     8 words: 0 SP_INDEX_MARK; 1 what is wrong with pos and crd (SP_INDEX_BAD_*, 0: nothing); 2 strips of rows; 3 of columns; the others 0
 *     across   strips of rows: for y = S x and for sampling
 *     turned   strips of columns: for y = S' x
 *
 * Each side:
 *
 *     count    (strips)                        steps of each
 *     order    (strips)                        strips, those with the most steps first
 *     item     (strips + 1)                    sum of ceil(count / `per`) of the strips before: where the pieces of each begin (sampling; see sp_side)
 *     step     (strips, cross, 2 * parts)      a step: the line across, then the block of each part, or -1; what remains of the 2 * parts words is 0
 *
 *   A strip is 64 lines of the matrix, or one block where that is more:
 *
 *     blocks of 32x32, parts = 2              block 3 at (0,1), 4 at (0,4), 9 at (1,1), 10 at (1,2):
 *        .  3  .  .  4                        steps of strip 0:   1: 3 9     2: -1 10     4: 4 -1
 *        .  9 10  .  .
 *
 * Sides of blocks are 16, 32 or a multiple of 64; there is no index of others. Compiled by the C compiler and by NVRTC. */
#ifndef SP_CUDA_INDEX_H
#define SP_CUDA_INDEX_H

#define SP_INDEX_MARK 0x53504958
#define SP_INDEX_HEAD 8
/* Word 1 of the head: pos does not ascend from 0 to the number of blocks; columns outside of the matrix; columns of a row of blocks that do not ascend. */
#define SP_INDEX_BAD_POS   1
#define SP_INDEX_BAD_CRD   2
#define SP_INDEX_BAD_ORDER 4
#define SP_STRIP           64

#ifdef __CUDACC__
#define SP_BOTH static __device__ __forceinline__
#else
#define SP_BOTH static inline
#endif

/* One side, as numbers: places count words from the start of the index. */
typedef struct sp_side {
    int side;   /* of a block, along the strip: its height, turned its width */
    int depth;  /* of a block, along the steps */
    int lines;  /* of blocks along the strips: down, turned right */
    int cross;  /* of blocks along the steps: right, turned down */
    int parts;  /* blocks of a strip side by side: 1, 2 or 4 */
    int strips; /* ceil(lines / parts) */
    int per;    /* steps of a piece in sampling: 256 columns' worth, at least one */
    int count, order, item, step, end;
} sp_side;

SP_BOTH int sp_index_takes(int side)
{
    return side == 16 || side == 32 || (side >= 64 && side % 64 == 0);
}

/* `at`: the first word of this side. Sizes are such that everything fits 31 bits (sp_index_words). */
SP_BOTH sp_side sp_side_of(int side, int depth, int lines, int cross, int at)
{
    sp_side s;
    s.side = side;
    s.depth = depth;
    s.lines = lines;
    s.cross = cross;
    s.parts = side >= SP_STRIP ? 1 : SP_STRIP / side;
    s.strips = (lines + s.parts - 1) / s.parts;
    s.per = depth >= 256 ? 1 : 256 / depth;
    s.count = at;
    s.order = s.count + s.strips;
    s.item = s.order + s.strips;
    s.step = (s.item + s.strips + 1 + 7) & ~7; /* vectors of up to 8 words */
    s.end = (s.step + s.strips * cross * 2 * s.parts + 7) & ~7;
    return s;
}

/* Both sides of a matrix of down x right blocks. */
SP_BOTH sp_side sp_side_across(int height, int width, int down, int right)
{
    return sp_side_of(height, width, down, right, SP_INDEX_HEAD);
}
SP_BOTH sp_side sp_side_turned(int height, int width, int down, int right)
{
    return sp_side_of(width, height, right, down, sp_side_across(height, width, down, right).end);
}

/* ------------------------------------------------------------------ a product over strips (strips.cu)
 * Which tiles of the result a cluster of blocks makes, and where the boxes of a step lie. Here, so that a test on the CPU walks as the kernel does. */

/* How tiles are cut: numbers of a point, constants in the kernel. */
typedef struct sp_cut {
    int turned, side, depth; /* of the product; of a block, as in sp_side */
    int ks;                  /* lines across of a step: 16, 32 or 64, divides depth */
    int nwg; /* warpgroups: 64 lines of the strip each; more than 1 only inside of one block */
    int cl;  /* blocks of a cluster: each loads one of `cl` shares of a tile and gives it to all */
} sp_cut;
SP_BOTH int sp_cut_part(sp_cut c) /* lines of a strip that are of one block, 64 at most */
{
    return c.side < SP_STRIP ? c.side : SP_STRIP;
}
SP_BOTH int sp_cut_lines(sp_cut c) /* of the strip in one item */
{
    return SP_STRIP * c.nwg;
}
SP_BOTH int sp_cut_pieces(sp_cut c) /* items along a strip */
{
    return c.side > sp_cut_lines(c) ? c.side / sp_cut_lines(c) : 1;
}
/* Boxes that make one tile of values (lines x ks), one behind the other in shared memory. */
SP_BOTH int sp_cut_boxes(sp_cut c)
{
    if (c.side < SP_STRIP) return SP_STRIP / c.side; /* one of each part */
    return c.turned && c.nwg > c.cl ? c.nwg : c.cl;
}
SP_BOTH int sp_cut_box_inner(sp_cut c)
{
    return c.turned ? sp_cut_part(c) : c.ks;
}
SP_BOTH int sp_cut_box_outer(sp_cut c)
{
    return sp_cut_lines(c) * c.ks / sp_cut_boxes(c) / sp_cut_box_inner(c);
}

/* Coordinates of a box. Whatever the block: those of none (-1) lie outside of the matrix of values, where a box reads zeros. */
typedef struct sp_place {
    int inner, outer;
} sp_place;
SP_BOTH sp_place sp_cut_place(sp_cut c, int piece, int block, int sub, int box)
{
    sp_place p;
    int line = piece * sp_cut_lines(c), across = sub * c.ks;
    if (c.side >= SP_STRIP && !c.turned) line += box * sp_cut_box_outer(c);
    if (c.side >= SP_STRIP &&
        c.turned) { /* boxes of 64 lines; where a cluster has more blocks than that, of a part of the step */
        const int share = sp_cut_boxes(c) / c.nwg;
        line += box / share * SP_STRIP;
        across += box % share * sp_cut_box_outer(c);
    }
    p.inner = c.turned ? line : across;
    p.outer = (int)((unsigned)block * (unsigned)(c.turned ? c.depth : c.side)) + (c.turned ? across : line);
    return p;
}
SP_BOTH int sp_cut_across(sp_cut c, int line, int sub) /* of x, where a step begins */
{
    return (int)((unsigned)line * (unsigned)c.depth) + sub * c.ks;
}

/* Items are (group of lines, tile of tokens); groups are the pieces of strips, those of the longest strip first. They stand in a row, band by band; a band is
 * all groups for a few tiles of tokens, whose x stays in the cache:
 *
 *     band 0   g0 t0, g0 t1, g1 t0, g1 t1, ...   band 1, from the other end (SP_DEAL_TURN)   ..., g1 t2, g1 t3, g0 t2, g0 t3
 *
 * and each round deals the next `clusters` of them, from the other end in odd rounds (SP_DEAL_SNAKE), every two rounds beginning with another cluster
 * (SP_DEAL_ROTATE), about the golden section further. */
#define SP_DEAL_TURN   1
#define SP_DEAL_SNAKE  2
#define SP_DEAL_ROTATE 4
typedef struct sp_deal {
    int groups, tiles, band; /* band: tiles of tokens, at least 1 */
    int ways;                /* SP_DEAL_* */
    int clusters;
} sp_deal;
typedef struct sp_item {
    int group, tile;
} sp_item;
/* What a cluster does in a round; group -1: nothing, and nothing after. There are at most 2^30 items, and the round is at most three past the last. */
SP_BOTH sp_item sp_deal_at(sp_deal d, int cluster, int round)
{
    sp_item item = {-1, 0};
    int seat = cluster;
    if (d.ways & SP_DEAL_SNAKE && round & 1) seat = d.clusters - 1 - seat;
    if (d.ways & SP_DEAL_ROTATE) seat = (seat + round / 2 * (d.clusters * 5 / 8)) % d.clusters;
    const int at = round * d.clusters + seat;
    if (at >= d.groups * d.tiles) return item;
    const int whole = d.groups * d.band, band = at / whole, in = at - band * whole,
              left = d.tiles - band * d.band, wide = left < d.band ? left : d.band;
    item.group = in / wide;
    item.tile = band * d.band + (in - item.group * wide);
    if (d.ways & SP_DEAL_TURN && band & 1) item.group = d.groups - 1 - item.group;
    return item;
}

#endif
