/* A softmax and its gradient on one row of f32 that was collected; the relative error of 2^x is 2e-7. */

/* `absent` where nothing is kept, and from lane `wide` on. */
INLINE vec where_kept(vec v, const uint8_t *keep, long n, long wide, float absent)
{
    if (keep)
        for (long l = 0; l < LANES && l < n; l++) v[l] = keep[l] ? v[l] : absent;
    if (wide < LANES)
        for (long l = wide > 0 ? wide : 0; l < LANES; l++) v[l] = absent;
    return v;
}

/* Row r of a row of blocks, one block after the other; what does not exist is `absent`, up to the next 16. */
INLINE int64_t collect_as(const sp_row *row, float *to, float sign, float absent, const int type)
{
    const long width = row->width, size = row->height * width;
    long at = row->r * width, n = 0;
    if (width == 1 && !row->keep) /* no block of one column reaches over the edge */
        for (; n < row->blocks; n++, at += size) to[n] = take(row->values, at, 1, type)[0] * sign;
    else
        for (long i = 0; i < row->blocks; i++, at += size, n += width) {
            const long wide = row->cols - row->crd[i] * width;
            for (long k = 0; k < width; k += LANES) {
                vec v = take(row->values, at + k, width - k, type) * splat(sign);
                if (row->keep || wide < width)
                    v = where_kept(v, row->keep ? row->keep + at + k : NULL, width - k, wide - k, absent);
                store_some(to + n + k, v, width - k);
            }
        }
    for (long l = n; l & 15; l++) to[l] = absent;
    return n;
}

INLINE void put_back_as(const sp_row *row, const float *from, void *to, const int type)
{
    const long width = row->width, size = row->height * width;
    long at = row->r * width, n = 0;
    for (long i = 0; i < row->blocks; i++, at += size, n += width) {
        const long wide = row->cols - row->crd[i] * width;
        for (long k = 0; k < width; k += LANES) {
            vec v = load_some(from + n + k, width - k);
            if (row->keep || wide < width)
                v = where_kept(v, row->keep ? row->keep + at + k : NULL, width - k, wide - k, 0.f);
            give(to, at + k, v, width - k, type);
        }
    }
}

static int64_t collect(const sp_row *row, float *to, float sign, float absent)
{
    int64_t n = 0;
#define CALL(type) n = collect_as(row, to, sign, absent, type)
    BY_TYPE(row->dtype, CALL)
#undef CALL
    return n;
}

static void put_back(const sp_row *row, const float *from, void *to)
{
#define CALL(type) put_back_as(row, from, to, type)
    BY_TYPE(row->dtype, CALL)
#undef CALL
}

static float sum_of(vec v)
{
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += v[l];
    return sum;
}

/* What lies past n is -infinity up to the next 16. */
static void softmax(float *row, int64_t n, float step)
{
    vec most = splat(-__builtin_inff()), sum = splat(0.f);
    float top = -__builtin_inff();
    for (long i = 0; i < n; i += LANES) most = larger(lanes_at(row + i), most);
    for (int l = 0; l < LANES; l++) top = most[l] > top ? most[l] : top;
    for (long i = 0; i < n; i += LANES) {
        const vec e = exp2_down((lanes_at(row + i) - splat(top)) * splat(step));
        put_lanes(row + i, e);
        sum += e;
    }
    const vec part = splat(1.f / sum_of(sum));
    for (long i = 0; i < n; i += LANES) put_lanes(row + i, lanes_at(row + i) * part);
}

/* What lies past n is 0 up to the next 16, in both. */
static void gradient(const float *p, float *g, int64_t n, float scale)
{
    vec sum = splat(0.f);
    for (long i = 0; i < n; i += LANES) sum += lanes_at(p + i) * lanes_at(g + i);
    const vec all = splat(sum_of(sum)), by = splat(scale);
    for (long i = 0; i < n; i += LANES) put_lanes(g + i, by * lanes_at(p + i) * (lanes_at(g + i) - all));
}
