/* What the drivers of the kernels share: float, whatever the memory holds; rows of blocks in equal shares; rooms in the workspace. */
#ifndef SP_SPARSE_SHARE_H
#define SP_SPARSE_SHARE_H

#include "sparse/kernels.h"

/* Room for n floats more, aligned to 64 bytes: where it begins. */
static inline size_t sp_room(size_t *bytes, int64_t n)
{
    const size_t at = *bytes;
    *bytes += ((size_t)n * sizeof(float) + 63) & ~(size_t)63;
    return at;
}

/* Where matrix b has its rows of blocks in pos. */
static inline const int32_t *sp_lines_of(const sp_blocks *s, int64_t b)
{
    return s->pos + (s->patterns > 1 ? b * s->down : 0);
}

/* The first of n rows of blocks that begins at `block` or later. */
static inline int64_t sp_line_at(const int32_t *pos, int64_t n, int64_t block)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (pos[middle] < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Calls fn for each row of blocks of each matrix that is this worker's: as many blocks as the others have. */
static inline void sp_each_line(const sp_work *w, int worker, void (*fn)(void *arg, int64_t b, int64_t line),
                                void *arg)
{
    const sp_blocks *s = &w->s;
    const bool one = s->patterns == 1;
    const int64_t lines = s->down * s->patterns, all = one ? s->blocks * s->batch : s->blocks;
    const int64_t first = all * worker / w->team, last = all * (worker + 1) / w->team;
    for (int64_t b = 0; b < (one ? s->batch : 1); b++) {
        const int64_t base = b * s->blocks;
        if (base + s->blocks <= first || base >= last) continue;
        const int64_t from = sp_line_at(s->pos, lines, first - base),
                      to = sp_line_at(s->pos, lines, last - base);
        for (int64_t line = from; line < to; line++)
            if (s->pos[line] < s->pos[line + 1]) fn(arg, one ? b : line / s->down, line % s->down);
    }
}

#endif
