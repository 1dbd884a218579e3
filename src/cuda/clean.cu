/* clean.cu: values (blocks, height, width) with zeros where an element does not exist: `keep` says so, or it lies past the edge of the matrix.
 *
 *     entry clean; BYTES 2 or 4 of an element. Any grid: each thread takes every so-manieth element. */
#if BYTES == 2
typedef u16 element;
#else
typedef u32 element;
#endif

KERNEL clean(element *to, const element *from, const u8 *keep, const i32 *pos, const i32 *crd, i64 blocks, i64 down,
             i64 rows, i64 cols, int height, int width)
{
    const i64 each = (i64)height * width, all = blocks * each;
    const bool ragged = rows % height || cols % width;
    for (i64 e = blockIdx.x * (i64)blockDim.x + threadIdx.x; e < all; e += (i64)gridDim.x * blockDim.x) {
        const i64 block = e / each;
        const i64 in = e - block * each, i = in / width, j = in - i * width;
        bool there = !keep || keep[e];
        if (ragged && there) {
            i64 low = 0, high = down; /* the row of blocks: the last whose first block is not behind this one */
            while (high - low > 1) {
                const i64 middle = (low + high) / 2;
                if (pos[middle] <= block)
                    low = middle;
                else
                    high = middle;
            }
            there = low * height + i < rows && (i64)crd[block] * width + j < cols;
        }
        to[e] = there ? from[e] : (element)0;
    }
}
