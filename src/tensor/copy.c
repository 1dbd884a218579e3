/* Copying with any strides on both sides, at the speed of memory where strides allow it.
 *
 * The dims of a copy are made few and long first: those of size 1 go, the others stand in the order in which they lie in the target,
 * neighbours that are one run on both sides become one dim, and short runs (two f32, say) become one wider element. Then the two
 * innermost dims are a plane, and what is special about it decides:
 *
 *     runs        the inner dim lies side by side on both sides      memcpy
 *     tiles       side by side in the target along the inner dim, in the source along the outer one: a transpose, done in squares whose
 *                 sides are a cache line, so that every line is read once and written once, whatever the strides are
 *     single      anything else; a stride of 0 in the source repeats an element
 *
 * Sources and targets may stand at any address: data comes out of files. */
#include "tensor/tensor.h"
#include <string.h>

enum {
    LINE = 64,       /* bytes of a cache line */
    SMALL = 1 << 16, /* bytes that are not worth a plan */
};

typedef struct pair { /* where an element comes from and goes to */
    const char *from;
    char *to;
} pair;

typedef struct plane { /* two dims: outer, inner; strides in bytes */
    int64_t n[2], from[2], to[2];
} plane;

typedef void (*plane_fn)(pair at, const plane *p);

/* ------------------------------------------------------------------ elements of one size */
typedef uint8_t any_1 __attribute__((aligned(1), may_alias));
typedef uint16_t any_2 __attribute__((aligned(1), may_alias));
typedef uint32_t any_4 __attribute__((aligned(1), may_alias));
typedef uint64_t any_8 __attribute__((aligned(1), may_alias));
typedef uint64_t any_16 __attribute__((vector_size(16), aligned(1), may_alias));

#define EACH_SIZE(MAKE) MAKE(1) MAKE(2) MAKE(4) MAKE(8) MAKE(16)

/* A loop for each of the forms that an inner dim often has: the compiler makes vectors of the first two. */
#define SINGLE(size)                                                                                         \
    static void fill_##size(any_##size *to, any_##size x, int64_t n)                                         \
    {                                                                                                        \
        enum { FIRST = 2048 / (size) };                                                                      \
        const int64_t some =                                                                                 \
            SP_MIN(n, (int64_t)FIRST); /* one bound: of two the compiler makes no vectors */                 \
        for (int64_t k = 0; k < some; k++) to[k] = x;                                                        \
        for (int64_t k = FIRST; k < n; k *= 2) memcpy(to + k, to, (size_t)(SP_MIN(k, n - k) * (size)));      \
    }                                                                                                        \
    static void single_##size(pair at, const plane *p)                                                       \
    {                                                                                                        \
        const int64_t n = p->n[1], from = p->from[1], to = p->to[1];                                         \
        for (int64_t i = 0; i < p->n[0]; i++, at.from += p->from[0], at.to += p->to[0]) {                    \
            if (to == (size) && from == 0)                                                                   \
                fill_##size((any_##size *)at.to, *(const any_##size *)at.from, n);                           \
            else if (to == (size) && from == 2 * (size))                                                     \
                for (int64_t k = 0; k < n; k++)                                                              \
                    ((any_##size *)at.to)[k] = ((const any_##size *)at.from)[2 * k];                         \
            else                                                                                             \
                for (int64_t k = 0; k < n; k++)                                                              \
                    *(any_##size *)(at.to + k * to) = *(const any_##size *)(at.from + k * from);             \
        }                                                                                                    \
    }
EACH_SIZE(SINGLE)

/* ------------------------------------------------------------------ runs */
/* The inner dim counts bytes. */
static void runs(pair at, const plane *p)
{
    const size_t n = (size_t)p->n[1];
    for (int64_t i = 0; i < p->n[0]; i++) sp_move(at.to + i * p->to[0], at.from + i * p->from[0], n);
}

/* ------------------------------------------------------------------ tiles */
typedef uint8_t many_1 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t many_2 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t many_4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t many_8 __attribute__((vector_size(16), aligned(1), may_alias));
#define LOW_1  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_2  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_2 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_4  0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8  0, 2
#define HIGH_8 1, 3

/* A square whose side is one vector, in registers: rows i and i + half are interleaved, as often as it takes. */
#define SQUARE(size)                                                                                         \
    static inline void square_##size(const char *from, int64_t from_row, char *to, int64_t to_row)           \
    {                                                                                                        \
        enum { N = 16 / (size) };                                                                            \
        many_##size r[N], t[N];                                                                              \
        for (int i = 0; i < N; i++) r[i] = *(const many_##size *)(from + i * from_row);                      \
        for (int step = 1; step < N; step *= 2) {                                                            \
            for (int i = 0; i < N / 2; i++) {                                                                \
                t[2 * i] = __builtin_shufflevector(r[i], r[i + N / 2], LOW_##size);                          \
                t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + N / 2], HIGH_##size);                     \
            }                                                                                                \
            for (int i = 0; i < N; i++) r[i] = t[i];                                                         \
        }                                                                                                    \
        for (int i = 0; i < N; i++) *(many_##size *)(to + i * to_row) = r[i];                                \
    }
SQUARE(1)
SQUARE(2)
SQUARE(4)
SQUARE(8)

static inline void square_16(const char *from, int64_t from_row, char *to, int64_t to_row)
{
    (void)from_row, (void)to_row;
    *(any_16 *)to = *(const any_16 *)from;
}

/* Elements of the inner dim lie from[1] apart in the source, those of the outer dim to[0] in the target. What is no whole tile goes one by
 * one. */
#define TILES(size)                                                                                          \
    static void tile_##size(pair at, int64_t from_row, int64_t to_row)                                       \
    {                                                                                                        \
        char room[LINE / (size)][LINE] __attribute__((aligned(LINE)));                                       \
        for (int i = 0; i < LINE; i += 16)                                                                   \
            for (int k = 0; k < LINE; k += 16)                                                               \
                square_##size(at.from + k / (size)*from_row + i, from_row, &room[i / (size)][k], LINE);      \
        for (int i = 0; i < LINE / (size); i++) memcpy(at.to + i * to_row, room[i], LINE);                   \
    }                                                                                                        \
    static void tiles_##size(pair at, const plane *p)                                                        \
    {                                                                                                        \
        enum { N = LINE / (size) };                                                                          \
        const int64_t rows = p->n[0] / N * N, columns = p->n[1] / N * N;                                     \
        for (int64_t i = 0; i < rows; i += N)                                                                \
            for (int64_t k = 0; k < columns; k += N)                                                         \
                tile_##size(                                                                                 \
                    (pair){at.from + i * (size) + k * p->from[1], at.to + i * p->to[0] + k * (size)},        \
                    p->from[1], p->to[0]);                                                                   \
        const plane right = {{rows, p->n[1] - columns}, {(size), p->from[1]}, {p->to[0], (size)}};           \
        const plane below = {{p->n[1], p->n[0] - rows}, {p->from[1], (size)}, {(size), p->to[0]}};           \
        if (right.n[1])                                                                                      \
            single_##size((pair){at.from + columns * p->from[1], at.to + columns * (size)}, &right);         \
        if (below.n[1]) single_##size((pair){at.from + rows * (size), at.to + rows * p->to[0]}, &below);     \
    }
EACH_SIZE(TILES)

/* ------------------------------------------------------------------ dims, made few and long */
typedef struct nest {
    sp_strides d;
    size_t size;
    plane_fn fn;
    pair at;
    int shared; /* the dim whose parts threads take */
} nest;

static void swap_dims(sp_strides *d, int a, int b)
{
    const int64_t dim = d->dim[a], from = d->from[a], to = d->to[a];
    d->dim[a] = d->dim[b], d->from[a] = d->from[b], d->to[a] = d->to[b];
    d->dim[b] = dim, d->from[b] = from, d->to[b] = to;
}

static int64_t absolute(int64_t x)
{
    return x < 0 ? -x : x;
}

/* The last dim is the densest of the target. */
static void sort(sp_strides *d)
{
    for (int i = 1; i < d->rank; i++)
        for (int k = i; k > 0 && absolute(d->to[k - 1]) < absolute(d->to[k]); k--) swap_dims(d, k - 1, k);
}

static void drop_ones(sp_strides *d)
{
    int n = 0;
    for (int i = 0; i < d->rank; i++)
        if (d->dim[i] != 1) swap_dims(d, n++, i);
    d->rank = n;
}

/* Dim i and the one after it are one when a step of the outer is as long as all of the inner, on both sides. */
static void merge(sp_strides *d)
{
    int n = 0;
    for (int i = 1; i < d->rank; i++) {
        const bool one = d->from[n] == d->from[i] * d->dim[i] && d->to[n] == d->to[i] * d->dim[i];
        if (one)
            d->dim[n] *= d->dim[i], d->from[n] = d->from[i], d->to[n] = d->to[i];
        else
            swap_dims(d, ++n, i);
    }
    d->rank = SP_MIN(d->rank, n + 1);
}

static bool is_run(const sp_strides *d, size_t size)
{
    const int last = d->rank - 1;
    return last >= 0 && d->from[last] == (int64_t)size && d->to[last] == (int64_t)size;
}

static void push_one(sp_strides *d)
{
    for (int i = d->rank++; i > 0; i--) swap_dims(d, i, i - 1);
    d->dim[0] = 1, d->from[0] = d->to[0] = 0;
}

#define ROW(bytes) {bytes, single_##bytes, tiles_##bytes},
static const struct {
    size_t size;
    plane_fn single, tiles;
} by_size[] = {EACH_SIZE(ROW)};

/* A short run is one element, where there is one of that size. */
static void widen(nest *n)
{
    if (!is_run(&n->d, n->size) || n->d.dim[n->d.rank - 1] > 16) return;
    const size_t bytes = n->size * (size_t)n->d.dim[n->d.rank - 1];
    for (size_t i = 0; i < SP_COUNT(by_size); i++)
        if (by_size[i].size == bytes) {
            n->size = bytes;
            n->d.rank--;
            return;
        }
}

/* The dim along which the source lies side by side stands beside the innermost, which does in the target? Where the source repeats an element along
 * that, it is filled. */
static bool transposes(sp_strides *d, int64_t size)
{
    const int last = d->rank - 1;
    if (d->to[last] != size || d->dim[last] < LINE / size || d->from[last] == 0) return false;
    for (int i = last - 1; i >= 0; i--)
        if (d->from[i] == size && d->dim[i] >= LINE / size) {
            for (; i < last - 1; i++) swap_dims(d, i, i + 1);
            return true;
        }
    return false;
}

static void choose(nest *n)
{
    sp_strides *d = &n->d;
    int row = 0;
    drop_ones(d);
    sort(d);
    merge(d);
    widen(n);
    while (d->rank < 2) push_one(d);
    const int last = d->rank - 1;
    while (by_size[row].size != n->size) row++;
    if (is_run(d, n->size)) {
        n->fn = runs;
        d->dim[last] *= (int64_t)n->size;
        d->from[last] = d->to[last] = (int64_t)(n->size = 1);
    } else if (transposes(d, (int64_t)n->size)) {
        n->fn = by_size[row].tiles;
    } else {
        n->fn = by_size[row].single;
        /* The longer of the two inner dims inside, but where that would scatter what can be written side by side. */
        if (d->dim[last] < 8 && d->dim[last - 1] > d->dim[last]) swap_dims(d, last, last - 1);
    }
}

/* ------------------------------------------------------------------ going over it */
static void walk(const nest *n, const sp_strides *d, int axis, pair at)
{
    if (axis == d->rank - 2) {
        n->fn(at, &(plane){{d->dim[axis], d->dim[axis + 1]},
                           {d->from[axis], d->from[axis + 1]},
                           {d->to[axis], d->to[axis + 1]}});
        return;
    }
    for (int64_t i = 0; i < d->dim[axis]; i++, at.from += d->from[axis], at.to += d->to[axis])
        walk(n, d, axis + 1, at);
}

static void part(void *arg, int64_t from, int64_t to)
{
    const nest *n = arg;
    sp_strides d = n->d;
    d.dim[n->shared] = to - from;
    walk(n, &d, 0, (pair){n->at.from + from * d.from[n->shared], n->at.to + from * d.to[n->shared]});
}

/* Threads share the first dim that has enough for them, else the longest. */
static int shared_dim(const sp_strides *d)
{
    int longest = 0;
    for (int i = 0; i < d->rank; i++) {
        if (d->dim[i] >= 64) return i;
        if (d->dim[i] > d->dim[longest]) longest = i;
    }
    return longest;
}

sparta_status sp_strided_copy(sparta_ctx *cx, const sp_strides *dims, size_t size, const void *from, void *to)
{
    nest n = {.d = *dims, .size = size, .at = {from, to}};
    double bytes = (double)size;
    for (int i = 0; i < dims->rank; i++)
        if (dims->dim[i] <= 0) return SPARTA_OK;
    for (int i = 0; i < dims->rank; i++) bytes *= (double)dims->dim[i];
    choose(&n);
    n.shared = shared_dim(&n.d);
    const int64_t items = n.d.dim[n.shared];
    return sp_ctx_share(cx, items, (int64_t)(SP_MIN(bytes, 0x1p60) / (double)items), part, &n);
}

sparta_status sp_tensor_copy(sparta_ctx *cx, const sparta_tensor *from, const sparta_tensor *to)
{
    const int64_t n = sparta_tensor_elements(from), size = (int64_t)sparta_dtype_size(from->dtype);
    sp_strides d = {.rank = from->rank};
    if (from->dtype != to->dtype)
        return sp_fail(cx, SPARTA_E_DTYPE, "copy: from %s to %s; convert first",
                       sparta_dtype_name(from->dtype), sparta_dtype_name(to->dtype));
    if (n < 0 || !sp_tensor_same_shape(from, to))
        return sp_fail(cx, SPARTA_E_SHAPE, "copy: the shapes differ");
    if (n == 0) return SPARTA_OK;
    const char *a = from->data, *b = to->data;
    const bool large = n * size > SMALL, apart = a >= b + n * size || b >= a + n * size;
    if (sp_tensor_contiguous(from) && sp_tensor_contiguous(to) && !(large && apart)) {
        memmove(to->data, from->data, (size_t)(n * size));
        return SPARTA_OK;
    }
    for (int i = 0; i < d.rank; i++) {
        if ((d.dim[i] = from->dim[i]) == 1) continue; /* its strides may be anything */
        d.from[i] = from->stride[i] * size;
        d.to[i] = to->stride[i] * size;
    }
    return sp_strided_copy(cx, &d, (size_t)size, from->data, to->data);
}

/* ------------------------------------------------------------------ runs picked by offsets */
#define PICK(size)                                                                                           \
    static void pick_##size(const sp_picked *p, const char *from, char *to, int64_t first, int64_t end)      \
    {                                                                                                        \
        for (int64_t i = first; i < end; i++)                                                                \
            *(any_##size *)(to + i * (size)) = *(const any_##size *)(from + p->offset[i]);                   \
    }
EACH_SIZE(PICK)

static void pick_some(const sp_picked *p, const char *from, char *to, int64_t first, int64_t end)
{
    const size_t n = p->bytes;
    for (int64_t i = first; i < end; i++) sp_move(to + i * (int64_t)n, from + p->offset[i], n);
}

/* Runs [from, to) of all, over all times. */
static void pick(void *arg, int64_t from, int64_t to)
{
    const sp_picked *p = arg;
    while (from < to) {
        const int64_t time = from / p->n, first = from % p->n, end = SP_MIN(p->n, first + to - from);
        const char *source = (const char *)p->from + time * p->from_step;
        char *target = (char *)p->to + time * p->n * (int64_t)p->bytes;
        switch (p->bytes) {
        case 1: pick_1(p, source, target, first, end); break;
        case 2: pick_2(p, source, target, first, end); break;
        case 4: pick_4(p, source, target, first, end); break;
        case 8: pick_8(p, source, target, first, end); break;
        case 16: pick_16(p, source, target, first, end); break;
        default: pick_some(p, source, target, first, end); break;
        }
        from += end - first;
    }
}

sparta_status sp_picked_copy(sparta_ctx *cx, const sp_picked *p)
{
    sp_picked all = *p;
    if (!p->n || !p->times || !p->bytes) return SPARTA_OK;
    return sp_ctx_share(cx, p->n * p->times, (int64_t)p->bytes + 8, pick, &all);
}
