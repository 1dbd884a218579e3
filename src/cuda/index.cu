/* index.cu: the index of a pattern (index.h), from pos and crd.
 *
 *     entry lists    one block for each strip of both sides: its steps, their count
 *     entry order    after it: strips by their counts, pieces, the head
 *
 *   lists: the lines across are taken TABLE / parts at a time. A table in shared memory says which block each line has in each part:
 *
 *              part 0  part 1              strip 0 of blocks of 32x32 (the drawing of index.h)
 *     line 0     -1      -1
 *     line 1      3       9      ---->     step 0:  1:  3  9
 *     line 2     -1      10      ---->     step 1:  2: -1 10
 *     line 3     -1      -1
 *     line 4      4      -1      ---->     step 2:  4:  4 -1
 *
 *   Across, the rows of the strip are scattered into it. Turned, each row of blocks is searched for the first column of the strip, the others follow it.
 *   Lines that have a block are written in order: a ballot in each warp, then a sum over the warps.
 *
 *   order: the place of a strip is the number of strips before it, which a warp counts. Blocks 0 and 1 sum up the pieces of a side each.
 *
 *   What pos and crd hold may be anything: a row of blocks begins and ends within the blocks, columns outside of the matrix are passed over, of a column
 *   that is there twice the last block counts. What is wrong is said in item[strip], which `order` gathers into the head before it writes the sums there.
 *   Words behind the last step of a strip are not written. index.c has the same in plain C, to the bit. */
#define THREADS  256
#define WARPS    (THREADS / 32)
#define TABLE    8192 /* words: 32 KB */
#define ALL      0xffffffffu
#define NO_BLOCK (-1)

DEVICE int clamp(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

/* The blocks of a row of blocks: from `begin` to before `end`. */
struct range {
    int begin, end;
};
DEVICE range row_of(const i32 *pos, int row, int blocks)
{
    range r;
    r.begin = clamp(pos[row], 0, blocks);
    r.end = clamp(pos[row + 1], r.begin, blocks);
    return r;
}

/* Sums of all threads: of those before this one, and of all. `sums` is WARPS words. */
DEVICE int sum_before(int x, int *sums, int *all)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int up_to = x, before = 0, total = 0;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(ALL, up_to, d);
        if (lane >= d) up_to += other;
    }
    __syncthreads(); /* sums may still be read */
    if (lane == 31) sums[warp] = up_to;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        if (w < warp) before += sums[w];
        total += sums[w];
    }
    *all = total;
    return before + up_to - x;
}

/* ------------------------------------------------------------------ lists */
/* Lines `first` to `first + lines` of the table from the rows of blocks of this strip; what is wrong with them. */
DEVICE int scatter_rows(int *table, const sp_side &s, int strip, int first, int lines, const i32 *pos, const i32 *crd, int blocks)
{
    int wrong = 0;
    for (int part = 0; part < s.parts; part++) {
        const int row = strip * s.parts + part;
        if (row >= s.lines) break;
        const range r = row_of(pos, row, blocks);
        if (r.begin != pos[row] || r.end != pos[row + 1]) wrong |= SP_INDEX_BAD_POS;
        for (int b = r.begin + threadIdx.x; b < r.end; b += THREADS) {
            const int column = crd[b];
            if (column < 0 || column >= s.cross) wrong |= SP_INDEX_BAD_CRD;
            if (b > r.begin && crd[b - 1] >= column) wrong |= SP_INDEX_BAD_ORDER;
            if (column >= first && column - first < lines) atomicMax(table + (column - first) * s.parts + part, b);
        }
    }
    return wrong;
}

/* The same from the columns of blocks of this strip. */
DEVICE void search_rows(int *table, const sp_side &s, int strip, int first, int lines, const i32 *pos, const i32 *crd, int blocks)
{
    const int column = strip * s.parts;
    for (int line = threadIdx.x; line < lines; line += THREADS) {
        const range r = row_of(pos, first + line, blocks);
        int low = r.begin, high = r.end; /* the first block whose column is not before this one */
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (crd[middle] < column)
                low = middle + 1;
            else
                high = middle;
        }
        for (int b = low; b < r.end && b - low < s.parts; b++) {
            const int part = crd[b] - column;
            if (part >= 0 && part < s.parts && crd[b] < s.lines) table[line * s.parts + part] = b;
        }
    }
}

/* Steps of the table's lines that have a block, from `to` on; how many. */
DEVICE int write_steps(i32 *to, const int *table, const sp_side &s, int first, int lines, int *sums)
{
    int written = 0;
    for (int base = 0; base < lines; base += THREADS) {
        const int line = base + threadIdx.x;
        bool any = false;
        for (int part = 0; part < s.parts && line < lines; part++) any |= table[line * s.parts + part] != NO_BLOCK;
        int all;
        const int place = written + sum_before(any, sums, &all);
        if (any) {
            i32 *step = to + (i64)place * 2 * s.parts;
            step[0] = first + line;
            for (int part = 0; part < s.parts; part++) step[1 + part] = table[line * s.parts + part];
            for (int word = 1 + s.parts; word < 2 * s.parts; word++) step[word] = 0;
        }
        written += all;
    }
    return written;
}

KERNEL __launch_bounds__(THREADS) lists(i32 *index, const i32 *pos, const i32 *crd, int blocks, int height, int width, int down, int right)
{
    __shared__ int table[TABLE];
    __shared__ int sums[WARPS];
    const sp_side across = sp_side_across(height, width, down, right);
    const bool turned = blockIdx.x >= across.strips;
    const sp_side s = turned ? sp_side_turned(height, width, down, right) : across;
    const int strip = turned ? blockIdx.x - across.strips : blockIdx.x, each = TABLE / s.parts;
    i32 *const steps = index + s.step + (i64)strip * s.cross * 2 * s.parts;
    int count = 0, wrong = 0;
    for (int first = 0; first < s.cross; first += each) {
        const int lines = s.cross - first < each ? s.cross - first : each;
        __syncthreads(); /* the table has been read */
        for (int i = threadIdx.x; i < lines * s.parts; i += THREADS) table[i] = NO_BLOCK;
        __syncthreads();
        if (turned)
            search_rows(table, s, strip, first, lines, pos, crd, blocks);
        else
            wrong |= scatter_rows(table, s, strip, first, lines, pos, crd, blocks);
        __syncthreads();
        count += write_steps(steps + (i64)count * 2 * s.parts, table, s, first, lines, sums);
    }
    int said = 0;
#pragma unroll
    for (int bit = 1; bit <= SP_INDEX_BAD_ORDER; bit *= 2)
        if (__syncthreads_or(wrong & bit)) said |= bit;
    if (threadIdx.x == 0) {
        index[s.count + strip] = count;
        index[s.item + strip] = said;
    }
}

/* ------------------------------------------------------------------ order */
/* Where pieces begin; what is wrong with any strip. */
DEVICE int write_items(i32 *index, const sp_side &s, int *sums)
{
    int before = 0, wrong = 0;
    for (int base = 0; base < s.strips; base += THREADS) {
        const int strip = base + threadIdx.x;
        const bool is = strip < s.strips;
        const int pieces = is ? (index[s.count + strip] + s.per - 1) / s.per : 0;
        int all;
        if (is) wrong |= index[s.item + strip];
        const int place = before + sum_before(pieces, sums, &all);
        if (is) index[s.item + strip] = place;
        before += all;
    }
    if (threadIdx.x == 0) index[s.item + s.strips] = before;
    int said = 0;
#pragma unroll
    for (int bit = 1; bit <= SP_INDEX_BAD_ORDER; bit *= 2)
        if (__syncthreads_or(wrong & bit)) said |= bit;
    return said;
}

/* A warp: the strips with more steps, or with as many and a smaller number, come before this one. */
DEVICE void write_order(i32 *index, const sp_side &s, int strip)
{
    const i32 *count = index + s.count;
    const int lane = threadIdx.x % 32, own = count[strip];
    int before = 0;
    for (int other = lane; other < s.strips; other += 32) before += count[other] > own || (count[other] == own && other < strip);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) before += __shfl_down_sync(ALL, before, d);
    if (lane == 0) index[s.order + before] = strip;
}

KERNEL __launch_bounds__(THREADS) order(i32 *index, const i32 *pos, int blocks, int height, int width, int down, int right)
{
    __shared__ int sums[WARPS];
    const sp_side across = sp_side_across(height, width, down, right), turned = sp_side_turned(height, width, down, right);
    if (blockIdx.x >= 2) {
        const int i = (blockIdx.x - 2) * WARPS + threadIdx.x / 32;
        if (i < across.strips)
            write_order(index, across, i);
        else if (i - across.strips < turned.strips)
            write_order(index, turned, i - across.strips);
        return;
    }
    if (blockIdx.x == 1) {
        write_items(index, turned, sums);
        return;
    }
    int wrong = write_items(index, across, sums);
    if (threadIdx.x) return;
    if (pos[0] != 0 || pos[down] != blocks) wrong |= SP_INDEX_BAD_POS;
    const int head[SP_INDEX_HEAD] = {SP_INDEX_MARK, wrong, across.strips, turned.strips};
#pragma unroll
    for (int i = 0; i < SP_INDEX_HEAD; i++) index[i] = head[i];
}
