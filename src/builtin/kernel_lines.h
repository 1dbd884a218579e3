/* Loops along lines of f32, included once for each target after kernel_product.h. The largest and the smallest number of a line are NaN where it
 * has one. Compilers make vectors of those that are plain loops. */
typedef int ints __attribute__((vector_size(4 * LANES), may_alias));
enum { TOGETHER = 4 }; /* vectors that do not wait for each other */

/* ------------------------------------------------------------------ one number of a line */
INLINE vec choose(ints mask, vec x, vec y)
{
    return (vec)(((ints)x & mask) | ((ints)y & ~mask));
}

INLINE float larger(float x, float y)
{
    return x > y || x != x ? x : y;
}

INLINE float smaller(float x, float y)
{
    return x < y || x != x ? x : y;
}

INLINE vec larger_lanes(vec x, vec y)
{
    return choose((x > y) | (x != x), x, y);
}

INLINE vec smaller_lanes(vec x, vec y)
{
    return choose((x < y) | (x != x), x, y);
}

INLINE float plus(float x, float y)
{
    return x + y;
}

INLINE vec plus_lanes(vec x, vec y)
{
    return x + y;
}

/* fold(fold(first, x[0]), x[1]) ..., in some order; `of` what is folded of an element. */
#define FOLD(name, fold, first, of)                                                                          \
    static float name(const float *x, int64_t n, float by)                                                   \
    {                                                                                                        \
        const vec none = (first) - (vec){0};                                                                 \
        vec most[TOGETHER] = {none, none, none, none};                                                       \
        float all = (first);                                                                                 \
        int64_t i = 0;                                                                                       \
        (void)by;                                                                                            \
        for (; i + TOGETHER * LANES <= n; i += TOGETHER * LANES) UNROLL for (int k = 0; k < TOGETHER; k++)   \
            {                                                                                                \
                const vec v = *(const vec *)(x + i + k * LANES);                                             \
                most[k] = fold##_lanes(of(v), most[k]);                                                      \
            }                                                                                                \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            const vec v = *(const vec *)(x + i);                                                             \
            most[0] = fold##_lanes(of(v), most[0]);                                                          \
        }                                                                                                    \
        UNROLL for (int k = 1; k < TOGETHER; k++) most[0] = fold##_lanes(most[k], most[0]);                  \
        for (int k = 0; k < LANES; k++) all = fold(most[0][k], all);                                         \
        for (; i < n; i++) all = fold(of(x[i]), all);                                                        \
        return all;                                                                                          \
    }
#define ITSELF(v)   (v)
#define DISTANCE(v) ((v)-by)
#define SQUARE(v)   (DISTANCE(v) * DISTANCE(v))
FOLD(largest, larger, -__builtin_inff(), ITSELF)
FOLD(smallest, smaller, __builtin_inff(), ITSELF)
FOLD(sum, plus, 0.0f, DISTANCE)
FOLD(squares, plus, 0.0f, SQUARE)

/* Is a number of the line larger (smaller) than the limit, or NaN? */
static bool beyond(const float *x, int64_t n, float limit, bool largest)
{
    ints any = {0};
    int found = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vec v = *(const vec *)(x + i);
        any |= (largest ? v > limit : v < limit) | (v != v);
    }
    for (int k = 0; k < LANES; k++) found |= any[k];
    for (; i < n; i++) found |= (largest ? x[i] > limit : x[i] < limit) || x[i] != x[i];
    return found;
}

/* ------------------------------------------------------------------ lines with lines */
/* y = a (x - by) + b */
static void scale(float *restrict y, const float *restrict x, int64_t n, float by, float a, float b)
{
    for (int64_t i = 0; i < n; i++) y[i] = a * (x[i] - by) + b;
}

static void fold_largest(float *restrict line, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) line[i] = larger(x[i], line[i]);
}

static void fold_sum(float *restrict line, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) line[i] += x[i];
}

/* y is the sum of this and all earlier rows, or only of those. Some rows are summed up in f32, on top of what the rows before add up to in f64: a sum
 * is as good at the end as at the beginning. */
INLINE void add_row(float *restrict some, const float *restrict before, const float *restrict x,
                    float *restrict y, int64_t n, const bool exclusive)
{
    for (int64_t i = 0; i < n; i++) {
        const float sum = some[i], more = sum + x[i];
        y[i] = before[i] + (exclusive ? sum : more);
        some[i] = more;
    }
}

static void running_sum(const float *x, float *y, int64_t rows, int64_t n, int64_t step, bool exclusive)
{
    enum { SOME = 64 };
    double total[SP_COLUMNS] = {0};
    float some[SP_COLUMNS] __attribute__((aligned(64))) = {0};
    float before[SP_COLUMNS] __attribute__((aligned(64))) = {0};
    for (int64_t r = 0; r < rows; r++, x += step, y += step) {
        for (int64_t i = 0; r && r % SOME == 0 && i < n; i++) {
            total[i] += some[i];
            before[i] = (float)total[i];
            some[i] = 0;
        }
        if (exclusive)
            add_row(some, before, x, y, n, true);
        else
            add_row(some, before, x, y, n, false);
    }
}

static void running_sum_ints(const uint64_t *x, uint64_t *y, int64_t rows, int64_t n, int64_t step,
                             bool exclusive)
{
    uint64_t total[SP_COLUMNS] = {0};
    for (int64_t r = 0; r < rows; r++, x += step, y += step)
        for (int64_t i = 0; i < n; i++) {
            const uint64_t old = total[i];
            total[i] = old + x[i];
            y[i] = exclusive ? old : total[i];
        }
}

/* y[i] = x[index[i] * step + i * along], where an index below 0 counts from the end of `size`; false: one is outside, and none was followed. They are
 * looked at first, which vectors do, and followed one by one, since instructions that gather are slower than loads. */
INLINE void follow(const int64_t *restrict index, int64_t n, int64_t size, int64_t step,
                   const uint32_t *restrict x, int64_t along, uint32_t *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index[i] + (index[i] >> 63 & size);
        __asm__("" : "+r"(at));
        y[i] = x[at * step + i * along];
    }
}

static bool pick(const int64_t *index, int64_t n, int64_t size, int64_t step, const uint32_t *x,
                 int64_t along, uint32_t *y)
{
    uint64_t outside = 0;
    for (int64_t i = 0; i < n; i++)
        outside |= (uint64_t)(index[i] + (index[i] >> 63 & size)) >= (uint64_t)size;
    if (outside) return false;
    if (step == 1 && along == 0)
        follow(index, n, size, 1, x, 0, y);
    else
        follow(index, n, size, step, x, along, y);
    return true;
}

/* y = the sum of weight[t] x[t], of at least one line. */
static void mix(float *restrict y, const float *const *x, const float *weight, int64_t lines, int64_t n)
{
    const float *a = x[0], *b = x[lines > 1];
    const float u = weight[0], v = weight[lines > 1];
    if (lines == 1)
        for (int64_t i = 0; i < n; i++) y[i] = u * a[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = u * a[i] + v * b[i];
    for (int64_t t = 2; t < lines; t++)
        for (int64_t i = 0; i < n; i++) y[i] += weight[t] * x[t][i];
}

/* Each number twice. */
static void twice(uint32_t *restrict y, const uint32_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[2 * i] = y[2 * i + 1] = x[i];
}

/* Bools, in bytes. */
typedef signed char bytes __attribute__((vector_size(4 * LANES), may_alias, aligned(1)));
#define LOGIC(name, of)                                                                                      \
    static void name(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n)                              \
    {                                                                                                        \
        int64_t i = 0;                                                                                       \
        for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                         \
            const bytes p = *(const bytes *)(a + i) != 0, q = *(const bytes *)(b + i) != 0;                  \
            *(bytes *)(y + i) = (of)&1;                                                                      \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            const int p = a[i] != 0, q = b[i] != 0;                                                          \
            y[i] = (of)&1;                                                                                   \
        }                                                                                                    \
    }
LOGIC(both, p &q)
LOGIC(either, p | q)
LOGIC(differ, p ^ q)
LOGIC(neither, ~(p | q))

/* As signed numbers, which vectors compare: magnitudes have no bit 31. */
INLINE int32_t magnitude(const float *x)
{
    int32_t bits;
    memcpy(&bits, x, sizeof bits);
    bits &= 0x7fffffff;
    return bits > 0x7f800000 ? 0x7fffffff : bits;
}

static int64_t magnitudes(uint32_t *restrict y, const float *restrict x, int64_t n, uint32_t least)
{
    int64_t all = 0;
    for (int64_t i = 0; i < n;) {
        int32_t there = 0; /* few enough to be counted in 32 bits, which vectors do */
        for (const int64_t end = n - i < 1 << 20 ? n : i + (1 << 20); i < end; i++) {
            const int32_t m = magnitude(x + i);
            y[i] = (uint32_t)m;
            there += m >= (int32_t)least;
        }
        all += there;
    }
    return all;
}

/* How many of a line that is short enough to be counted in 32 bits are at least `least`. */
static int32_t at_least(const uint32_t *m, int32_t n, uint32_t least)
{
    int32_t there = 0;
    for (int32_t i = 0; i < n; i++) there += (int32_t)m[i] >= (int32_t)least;
    return there;
}

static void thin(float *restrict y, const float *restrict x, int64_t n, uint32_t least)
{
    for (int64_t i = 0; i < n; i++) y[i] = magnitude(x + i) >= (int32_t)least ? x[i] : 0;
}

/* y *= a x */
static void multiply_by(float *restrict y, const float *restrict x, int64_t n, float a)
{
    for (int64_t i = 0; i < n; i++) y[i] *= a * x[i];
}

/* ------------------------------------------------------------------ windows
 * y[i] = fold of line[i * stride + t * dilation], t from 0 to taps. With a stride of 2 numbers at odd and at even places are taken apart, so that
 * each tap reads neighbours. */
static void part(const float *restrict line, int64_t n, float *restrict even, float *restrict odd)
{
    for (int64_t i = 0; i < n / 2; i++) {
        even[i] = line[2 * i];
        odd[i] = line[2 * i + 1];
    }
    if (n % 2) even[n / 2] = line[n - 1];
}

/* y = fold of two lines, of three. The last vector overlaps the one before: what is computed twice is the same. */
#define JOIN(fold)                                                                                           \
    static void fold##_of_two(float *restrict y, const float *a, const float *b, int64_t n)                  \
    {                                                                                                        \
        for (int64_t i = 0; n >= LANES && i < n; i += LANES) {                                               \
            const int64_t at = SP_MIN(i, n - LANES);                                                         \
            *(vec *)(y + at) = fold##_lanes(*(const vec *)(b + at), *(const vec *)(a + at));                 \
        }                                                                                                    \
        for (int64_t i = 0; n < LANES && i < n; i++) y[i] = fold(b[i], a[i]);                                \
    }                                                                                                        \
    static void fold##_of_three(float *restrict y, const float *a, const float *b, const float *c,           \
                                int64_t n)                                                                   \
    {                                                                                                        \
        for (int64_t i = 0; n >= LANES && i < n; i += LANES) {                                               \
            const int64_t at = SP_MIN(i, n - LANES);                                                         \
            const vec two = fold##_lanes(*(const vec *)(b + at), *(const vec *)(a + at));                    \
            *(vec *)(y + at) = fold##_lanes(*(const vec *)(c + at), two);                                    \
        }                                                                                                    \
        for (int64_t i = 0; n < LANES && i < n; i++) {                                                       \
            const float two = fold(b[i], a[i]);                                                              \
            y[i] = fold(c[i], two);                                                                          \
        }                                                                                                    \
    }
JOIN(larger)
JOIN(plus)

/* y = fold of n lines. */
#define JOIN_LINES(name, fold, into)                                                                         \
    static void name(float *y, const float *const *x, int64_t lines, int64_t n)                              \
    {                                                                                                        \
        if (lines == 1)                                                                                      \
            memcpy(y, x[0], (size_t)n * sizeof *y);                                                          \
        else if (lines == 2)                                                                                 \
            fold##_of_two(y, x[0], x[1], n);                                                                 \
        else                                                                                                 \
            fold##_of_three(y, x[0], x[1], x[2], n);                                                         \
        for (int64_t i = 3; i < lines; i++) into(y, x[i], n);                                                \
    }
JOIN_LINES(join_largest, larger, fold_largest)
JOIN_LINES(join_sum, plus, fold_sum)

#define SLIDE(name, fold, join)                                                                              \
    static void name(float *y, const float *line, int64_t n, int64_t stride, int64_t taps, int64_t dilation) \
    {                                                                                                        \
        float half[2][SP_LINE / 2 + 1];                                                                      \
        const float *from[SP_TAPS];                                                                          \
        if (stride > 2 || taps > SP_TAPS) {                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                                \
                y[i] = line[i * stride];                                                                     \
                for (int64_t t = 1; t < taps; t++) y[i] = fold(line[i * stride + t * dilation], y[i]);       \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        if (stride == 2) part(line, (n - 1) * 2 + (taps - 1) * dilation + 1, half[0], half[1]);              \
        for (int64_t t = 0, at = 0; t < taps; t++, at += dilation)                                           \
            from[t] = stride == 1 ? line + at : half[at & 1] + at / 2;                                       \
        join(y, from, taps, n);                                                                              \
    }
SLIDE(slide_largest, larger, join_largest)
SLIDE(slide_sum, plus, join_sum)
