/* The products, all made of one step: one row of 64 lanes times a scalar for each of up to 4 rows of sums, 16 multiply-adds for 4 loads.
 *
 *   multiply   sums are rows of the result, scalars one column of a block, lanes the row of x that the column names
 *   turned     wide blocks: sums are 4 columns of a block, added to the result when the rows of the block are through;
 *              narrow ones: 4 rows of x stay in registers, and what they add to a row of the result is added at once
 */

INLINE vec lanes_at(const float *p)
{
    return *(const vec_anywhere *)p;
}
INLINE void put_lanes(float *p, vec v)
{
    *(vec_anywhere *)p = v;
}

/* acc[r][0..NV) += w[r * step] * x[0..NV) */
INLINE void mac_rows(vec (*acc)[4], const float *w, long step, const float *x, const int NR, const int NV)
{
    /* Four names, and pinned: gcc 12 would store an array, and load a row once for each of its uses. */
    vec q0 = lanes_at(x), q1 = q0, q2 = q0, q3 = q0;
    PIN(q0);
    if (NV > 1) {
        q1 = lanes_at(x + LANES);
        PIN(q1);
    }
    if (NV > 2) {
        q2 = lanes_at(x + 2 * LANES);
        PIN(q2);
    }
    if (NV > 3) {
        q3 = lanes_at(x + 3 * LANES);
        PIN(q3);
    }
    UNROLL for (int r = 0; r < NR; r++)
    {
        const vec b = splat(w[r * step]);
        acc[r][0] += b * q0;
        if (NV > 1) acc[r][1] += b * q1;
        if (NV > 2) acc[r][2] += b * q2;
        if (NV > 3) acc[r][3] += b * q3;
    }
}

#define EACH_SUM(NR, NV) UNROLL for (int r = 0; r < NR; r++) UNROLL for (int j = 0; j < NV; j++)

/* ------------------------------------------------------------------ multiply */

/* A long sum is taken in runs of about this many columns, whose sums are then added: rounding errors grow with the length of a run, not with that of
 * the row. */
#define RUN 128

/* The sums of a run go to those of the runs before, and begin again. */
INLINE void multiply_ran(vec (*acc)[4], vec (*sum)[4], const int NR, const int NV)
{
    EACH_SUM(NR, NV)
    {
        sum[r][j] += acc[r][j];
        acc[r][j] = splat(0.f);
    }
}

/* So many columns of a block, whose values in the rows of sums lie at v. */
INLINE void multiply_columns(const sp_multiplying *p, vec (*acc)[4], const float *v, long width,
                             const float *x, long wide, const int NR, const int NV)
{
    for (long k = 0; k < wide; k++, x += p->x_line) mac_rows(acc, v + k, width, x, NR, NV);
}

/* Blocks [i, end) of a row of blocks, none of them wider than a run. */
INLINE void multiply_blocks(const sp_multiplying *p, vec (*acc)[4], long i, long end, long r0, const int NR,
                            const int NV, const int H, const int W, const float *x)
{
    const long height = H ? H : p->height, width = W ? W : p->width;
    const long step = p->x_line * width, last = (p->cols - 1) / width;
    const float *v = p->values + (i * height + r0) * width;
    for (; i < end; i++, v += height * width) {
        const long at = p->crd[i];
        const float *from = x + at * step;
        if (W == 1) {
            mac_rows(acc, v, 1, from, NR, NV);
            continue;
        }
        const long wide = at == last ? p->cols - at * width : width;
        multiply_columns(p, acc, v, width, from, wide, NR, NV);
    }
}

/* One that is wider: its runs but for the last go to `sum`. */
INLINE void multiply_wide(const sp_multiplying *p, vec (*acc)[4], vec (*sum)[4], long i, long r0,
                          const int NR, const int NV, const float *x)
{
    const long width = p->width, at = p->crd[i];
    const float *v = p->values + (i * p->height + r0) * width;
    const long left = p->cols - at * width;
    long wide = left < width ? left : width;
    x += at * width * p->x_line;
    for (; wide > RUN; wide -= RUN, v += RUN, x += RUN * p->x_line) {
        multiply_columns(p, acc, v, width, x, RUN, NR, NV);
        multiply_ran(acc, sum, NR, NV);
    }
    multiply_columns(p, acc, v, width, x, wide, NR, NV);
}

/* NR rows from row r0 of a row of blocks on. W, H: width and height, if they are constant, else 0. */
INLINE void multiply_tile(const sp_multiplying *p, long line, long r0, const int NR, const int NV,
                          const int H, const int W, long base)
{
    const long height = H ? H : p->height, width = W ? W : p->width, row = line * height + r0;
    const long run = W == 1 ? RUN : width < RUN ? RUN / width : 1, end = p->pos[line + 1];
    long i = p->pos[line];
    vec acc[4][4], sum[4][4];
    EACH_SUM(NR, NV) acc[r][j] = sum[r][j] = splat(0.f);
    for (; !W && width > RUN && i < end; i++) {
        multiply_wide(p, acc, sum, i, r0, NR, NV, p->x + base);
        multiply_ran(acc, sum, NR, NV);
    }
    for (long stop; i < end; i = stop) {
        stop = end - i < run ? end : i + run;
        multiply_blocks(p, acc, i, stop, r0, NR, NV, H, W, p->x + base);
        multiply_ran(acc, sum, NR, NV);
    }
    float *y = p->y + (row - p->top) * p->y_line + base;
    if (p->bias) EACH_SUM(NR, NV) sum[r][j] += splat(p->bias[row + r]);
    EACH_SUM(NR, NV) put_lanes(y + r * p->y_line + LANES * j, sum[r][j]);
}

INLINE void multiply_rows(const sp_multiplying *p, long line, long r0, const int NR, const int H,
                          const int W){
#define TILE(NV, vector) multiply_tile(p, line, r0, NR, NV, H, W, (vector)*LANES)
    TILES(p->groups, TILE)
#undef TILE
}

INLINE void multiply_lines(const sp_multiplying *p, const int H, const int W)
{
    const long height = H ? H : p->height;
    for (long line = p->first; line < p->last; line++) {
        const long high = p->rows - line * height < height ? p->rows - line * height : height;
        long r0 = 0;
        for (; r0 + 4 <= high; r0 += 4) multiply_rows(p, line, r0, 4, H, W);
        switch (high - r0) {
        case 1: multiply_rows(p, line, r0, 1, H, W); break;
        case 2: multiply_rows(p, line, r0, 2, H, W); break;
        case 3: multiply_rows(p, line, r0, 3, H, W); break;
        default: break;
        }
    }
}

/* As many vectors at a time as there are registers for. */
#define WIDE_TILES(groups, CALL)                                                                             \
    {                                                                                                        \
        long v_ = 0;                                                                                         \
        const long end_ = (groups)*SPLIT;                                                                    \
        for (; v_ + 4 <= end_; v_ += 4) CALL(4, v_);                                                         \
        for (; v_ < end_; v_++) CALL(1, v_);                                                                 \
    }

/* 1x1: two elements at a time, so that the sums of one need not wait for the other's. */
INLINE void multiply_pairs(const sp_multiplying *p, vec (*acc)[4], long i, long end, const int NV,
                           const float *x)
{
    const float *v = p->values;
    const int32_t *crd = p->crd;
    const long step = p->x_line;
    for (; i + 2 <= end; i += 2) {
        mac_rows(acc, v + i, 1, x + crd[i] * step, 1, NV);
        mac_rows(acc + 1, v + i + 1, 1, x + crd[i + 1] * step, 1, NV);
    }
    if (i < end) mac_rows(acc, v + i, 1, x + crd[i] * step, 1, NV);
}

INLINE void multiply_row(const sp_multiplying *p, long line, const int NV, long base)
{
    const long end = p->pos[line + 1];
    long i = p->pos[line];
    float *y = p->y + (line - p->top) * p->y_line + base;
    vec acc[2][4], sum[2][4];
    EACH_SUM(2, NV) acc[r][j] = sum[r][j] = splat(0.f);
    for (; end - i > 2 * RUN; i += 2 * RUN) {
        multiply_pairs(p, acc, i, i + 2 * RUN, NV, p->x + base);
        multiply_ran(acc, sum, 2, NV);
    }
    multiply_pairs(p, acc, i, end, NV, p->x + base);
    EACH_SUM(2, NV) acc[r][j] += sum[r][j];
    const vec bias = splat(p->bias ? p->bias[line] : 0.f);
    UNROLL for (int j = 0; j < NV; j++) put_lanes(y + LANES * j, acc[0][j] + acc[1][j] + bias);
}

static void multiply(const sp_multiplying *p)
{
    if (p->height == 4 && p->width == 1)
        multiply_lines(p, 4, 1);
    else if (p->height == 1 && p->width == 1) {
#define TILE(NV, vector) multiply_row(p, line, NV, (vector)*LANES)
        for (long line = p->first; line < p->last; line++) WIDE_TILES(p->groups, TILE)
#undef TILE
    } else if (p->width == 1)
        multiply_lines(p, 0, 1);
    else
        multiply_lines(p, 0, 0);
}

/* ------------------------------------------------------------------ turned
 * Blocks of one column: the result is read and written once for each, so all rows pass over a range of columns whose lines stay in the first-level
 * cache, then over the next. p->cursor says how far each row is.
 */
#ifndef RANGE
#define RANGE 160 /* columns of 256 bytes */
#endif

/* The first block of a row of blocks, from `at` on, in column `column` or later. */
INLINE long block_at(const sp_multiplying *p, long at, long end, long column)
{
    while (at < end) {
        const long middle = (at + end) / 2;
        if (p->crd[middle] < column)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* NR rows of x, from row r0 of a row of blocks on, into every column of its blocks from i on, up to column `bound`; the block it ended at. */
INLINE long turned_rows(const sp_multiplying *p, long line, long i, long bound, long r0, const int NR,
                        const int NV, const int H, const int W, long base)
{
    const long height = H ? H : p->height, width = W ? W : p->width, end = p->pos[line + 1], step = p->y_line;
    const float *x = p->x + (line * height + r0 - p->top) * p->x_line + base;
    const float *v = p->values + (i * height + r0) * width;
    float *to = p->y + base;
    vec q[4][4];
    if (i == end || p->crd[i] >= bound) return i;
    EACH_SUM(NR, NV)
    {
        q[r][j] = lanes_at(x + r * p->x_line + LANES * j);
        PIN(q[r][j]);
    }
    for (; i < end && p->crd[i] < bound; i++, v += height * width) {
        const long col = p->crd[i] * width;
        const long wide = W == 1 ? 1 : p->cols - col < width ? p->cols - col : width;
        float *y = to + col * step;
        for (long k = 0; k < wide; k++, y += step) {
            vec s0 = splat(0.f), s1 = s0, s2 = s0, s3 = s0;
            UNROLL for (int r = 0; r < NR; r++)
            {
                const vec b = splat(v[r * width + k]);
                s0 += b * q[r][0];
                if (NV > 1) s1 += b * q[r][1];
                if (NV > 2) s2 += b * q[r][2];
                if (NV > 3) s3 += b * q[r][3];
            }
            put_lanes(y, lanes_at(y) + s0);
            if (NV > 1) put_lanes(y + LANES, lanes_at(y + LANES) + s1);
            if (NV > 2) put_lanes(y + 2 * LANES, lanes_at(y + 2 * LANES) + s2);
            if (NV > 3) put_lanes(y + 3 * LANES, lanes_at(y + 3 * LANES) + s3);
        }
    }
    return i;
}

INLINE void turned_narrow_line(const sp_multiplying *p, long line, long bound, const int NV, const int H,
                               const int W, long base)
{
    const long height = H ? H : p->height, left = p->rows - line * height,
               high = left < height ? left : height;
    const long i = p->cursor[line];
    long r0 = 0, end = i;
    for (; r0 + 4 <= high; r0 += 4) end = turned_rows(p, line, i, bound, r0, 4, NV, H, W, base);
    for (; r0 < high; r0++) end = turned_rows(p, line, i, bound, r0, 1, NV, H, W, base);
    p->cursor[line] = (int32_t)end;
}

INLINE void turned_narrow(const sp_multiplying *p, const int H, const int W)
{
    const long range = RANGE / (W ? W : p->width) + 1;
#define TILE(NV, vector)                                                                                     \
    {                                                                                                        \
        for (long line = p->first; line < p->last; line++)                                                   \
            p->cursor[line] = (int32_t)block_at(p, p->pos[line], p->pos[line + 1], p->from);                 \
        for (long bound = p->from; bound < p->to;) {                                                         \
            bound = bound + range < p->to ? bound + range : p->to;                                           \
            for (long line = p->first; line < p->last; line++)                                               \
                turned_narrow_line(p, line, bound, NV, H, W, (vector)*LANES);                                \
        }                                                                                                    \
    }
    TILES(p->groups, TILE)
#undef TILE
}

/* NC columns of a block, from column k on, summed up over its rows. */
INLINE void turned_columns(const sp_multiplying *p, const float *v, const float *x, float *y, long high,
                           long k, const int NC, const int NV)
{
    vec acc[4][4];
    EACH_SUM(NC, NV) acc[r][j] = splat(0.f);
    for (long r = 0; r < high; r++) mac_rows(acc, v + r * p->width + k, 1, x + r * p->x_line, NC, NV);
    EACH_SUM(NC, NV)
    {
        float *to = y + (k + r) * p->y_line + LANES * j;
        put_lanes(to, lanes_at(to) + acc[r][j]);
    }
}

INLINE void turned_wide(const sp_multiplying *p, long line, long from, long to, long high, const int NV,
                        long base)
{
    const float *x = p->x + (line * p->height - p->top) * p->x_line + base;
    for (long i = from; i < to; i++) {
        const long col = p->crd[i] * p->width, wide = p->cols - col < p->width ? p->cols - col : p->width;
        const float *v = p->values + i * p->height * p->width;
        float *y = p->y + col * p->y_line + base;
        long k = 0;
        for (; k + 4 <= wide; k += 4) turned_columns(p, v, x, y, high, k, 4, NV);
        for (; k < wide; k++) turned_columns(p, v, x, y, high, k, 1, NV);
    }
}

INLINE void turned_blocks(const sp_multiplying *p)
{
    for (long line = p->first; line < p->last; line++) {
        const long left = p->rows - line * p->height, high = left < p->height ? left : p->height;
        const long from = block_at(p, p->pos[line], p->pos[line + 1], p->from),
                   to = block_at(p, from, p->pos[line + 1], p->to);
#define TILE(NV, vector) turned_wide(p, line, from, to, high, NV, (vector)*LANES)
        TILES(p->groups, TILE)
#undef TILE
    }
}

/* Rows of the result that belong to these columns: zeros before the first band, the bias behind the last. */
INLINE void turned_begin(const sp_multiplying *p, long row, long end)
{
    for (; row < end; row++)
        for (long l = 0; l < p->groups * 16; l += LANES) put_lanes(p->y + row * p->y_line + l, splat(0.f));
}
INLINE void turned_end(const sp_multiplying *p, long row, long end)
{
    for (; row < end; row++)
        for (long l = 0; l < p->groups * 16; l += LANES) {
            float *y = p->y + row * p->y_line + l;
            put_lanes(y, lanes_at(y) + splat(p->bias[row]));
        }
}

static void turned(const sp_multiplying *p)
{
    const long past = p->to * p->width, end = past < p->cols ? past : p->cols, row = p->from * p->width;
    if (p->begin) turned_begin(p, row, end);
    if (p->height == 4 && p->width == 1)
        turned_narrow(p, 4, 1);
    else if (p->height == 1 && p->width == 1)
        turned_narrow(p, 1, 1);
    else if (p->width == 1)
        turned_narrow(p, 0, 1);
    else if (p->width >= 4 && p->height >= 4)
        turned_blocks(p);
    else
        turned_narrow(p, 0, 0);
    if (p->end && p->bias) turned_end(p, row, end);
}

/* ------------------------------------------------------------------ what follows */

static void finish(const sp_finishing *p)
{
    struct sp_epilogue e = {.n = p->words->n};
    for (int i = 0; i < e.n; i++) e.word[i] = (int)p->words->word[i];
    for (long row = 0; row < p->rows; row++)
        for (long l = 0; l < p->groups * 16; l += LANES) {
            float *y = p->y + row * p->y_line + l;
            const vec residual =
                p->residual ? lanes_at(p->residual + row * p->residual_line + l) : splat(0.f);
            put_lanes(y, end_list(&e, lanes_at(y), residual));
        }
}
