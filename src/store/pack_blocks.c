/* The fast path: two dimensions, blocks in rows of blocks. It covers csr, csc, bsr, strips, panels and plain
 * dense.
 *
 *      y ->                              x/a : dense
 *    x   . . # # . .   any  = 0 0 1 1 0 0    y/b : dense or compressed
 *    |   . . # . . .   the OR of a rows of   x%a, y%b : dense, in either order
 *    v                 the mask, 64 bits a step
 *
 * One pass counts the blocks with anything in them, a second writes pos, crd and values. Where x is the
 * tensor's second dimension (csc) the mask is transposed first. The result is the generic assembler's, array
 * for array; the tests hold them together.
 */
#include "store/store_inside.h"
#include <string.h>

typedef struct {
    int x, y;           /* dimensions */
    int64_t a, b;       /* block */
    int64_t nx, ny;     /* elements */
    int64_t rows, cols; /* blocks */
    int64_t sx, sy;     /* of x%a and y%b within a block's values */
    int64_t tx, ty;     /* strides of the tensor */
    bool compressed;
    const sp_mask *mask; /* (x, y) */
    uint64_t *any;       /* one row of words */
} blocks;

static bool outer(const sp_level *l)
{
    return l->map == SP_MAP_ALL || l->map == SP_MAP_DIV;
}

bool sp_pack_blocks_can(const sp_format *f, const sparta_tensor *t)
{
    const sp_level *l = f->level;
    if (f->rank != 2 || t->rank != 2 || f->n < 2 || l[0].dim == l[1].dim || !outer(&l[0]) || !outer(&l[1]))
        return false;
    if (l[0].kind != SP_LEVEL_DENSE || (l[1].kind != SP_LEVEL_DENSE && l[1].kind != SP_LEVEL_COMPRESSED))
        return false;
    if (l[1].properties & SP_PROP_ZEROLESS) return false; /* nonunique and nonordered change nothing here */
    for (int i = 2; i < f->n; i++)
        if (l[i].kind != SP_LEVEL_DENSE || l[i].map != SP_MAP_MOD) return false;
    return true;
}

static blocks blocks_of(const sp_format *f, const sparta_tensor *t)
{
    const sp_level *l = f->level;
    blocks k = {.x = l[0].dim, .y = l[1].dim, .a = 1, .b = 1, .compressed = l[1].kind == SP_LEVEL_COMPRESSED};
    if (l[0].map == SP_MAP_DIV) k.a = l[0].c;
    if (l[1].map == SP_MAP_DIV) k.b = l[1].c;
    k.nx = t->dim[k.x], k.ny = t->dim[k.y];
    k.tx = t->stride[k.x], k.ty = t->stride[k.y];
    k.rows = sp_level_extent(&l[0], t->dim), k.cols = sp_level_extent(&l[1], t->dim);
    int64_t stride = 1;
    for (int i = f->n - 1; i >= 2; i--) {
        *(l[i].dim == k.x ? &k.sx : &k.sy) = stride;
        stride *= l[i].c;
    }
    return k;
}

/* any = the OR of the mask's rows in one row of blocks. */
static void look(const blocks *k, int64_t row)
{
    const sp_mask *m = k->mask;
    int64_t end = SP_MIN(k->nx, (row + 1) * k->a);
    memset(k->any, 0, (size_t)m->words * sizeof *k->any);
    for (int64_t x = row * k->a; x < end; x++)
        for (int64_t j = 0; j < m->words; j++) k->any[j] |= m->bits[x * m->words + j];
}

/* The next block of the row with anything in it (dense: the next block), or `cols`. */
static int64_t next_block(const blocks *k, int64_t from)
{
    if (!k->compressed || from >= k->cols) return from;
    int64_t y = sp_bits_next(k->any, from * k->b, k->ny);
    return y < k->ny ? y / k->b : k->cols;
}

static int64_t count(const blocks *k, int64_t *longest)
{
    *longest = k->compressed || !k->rows ? 0 : k->cols;
    if (!k->compressed) return k->rows * k->cols;
    if (!k->ny) return 0; /* however many rows */
    int64_t n = 0;
    for (int64_t row = 0; row < k->rows; row++) {
        int64_t before = n;
        look(k, row);
        for (int64_t q = next_block(k, 0); q < k->cols; q = next_block(k, q + 1)) n++;
        *longest = SP_MAX(*longest, n - before);
    }
    return n;
}

/* ------------------------------------------------------------------ values */

static inline __attribute__((always_inline)) void copy_block(const blocks *k, int64_t x0, int64_t y0,
                                                             const char *from, char *to, int64_t size)
{
    const sp_mask *m = k->mask;
    int64_t nx = SP_MIN(k->a, k->nx - x0), ny = SP_MIN(k->b, k->ny - y0);
    for (int64_t y = 0; y < ny; y++) {
        const uint64_t *word = m->bits + x0 * m->words + (y0 + y) / 64;
        const char *source = from + (x0 * k->tx + (y0 + y) * k->ty) * size;
        char *slot = to + y * k->sy * size;
        for (int64_t x = 0; x < nx; x++)
            if (word[x * m->words] >> ((y0 + y) % 64) & 1)
                memcpy(slot + x * k->sx * size, source + x * k->tx * size, (size_t)size);
    }
}

static void copy_sized(const blocks *k, int64_t x0, int64_t y0, const char *from, char *to, size_t size)
{
    switch (size) { /* a constant size makes each memcpy one move */
    case 1: copy_block(k, x0, y0, from, to, 1); break;
    case 2: copy_block(k, x0, y0, from, to, 2); break;
    case 4: copy_block(k, x0, y0, from, to, 4); break;
    default: copy_block(k, x0, y0, from, to, 8); break;
    }
}

static sparta_status fill(sparta_ctx *cx, const blocks *k, const sparta_tensor *t, sp_packed *out)
{
    size_t size = sparta_dtype_size(t->dtype), block = (size_t)(k->a * k->b) * size;
    const sp_level *l = &out->format.level[1];
    char *slot = out->values.data;
    int64_t n = 0;
    for (int64_t row = 0; row < k->rows; row++) {
        SP_TRY(sp_check_cancel(cx));
        if (k->compressed) look(k, row);
        for (int64_t q = next_block(k, 0); q < k->cols; q = next_block(k, q + 1), n++, slot += block) {
            if (k->compressed) sp_index_set(l->crd, out->crd[1].data, n, q);
            copy_sized(k, row * k->a, q * k->b, t->data, slot, size);
        }
        if (k->compressed) sp_index_set(l->pos, out->pos[1].data, row + 1, n);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sizes, then arrays */

/* The levels as the generic assembler counts them: `n` blocks lie below level 1. */
static void count_levels(const sp_format *f, const blocks *k, int64_t n, int64_t longest,
                         sp_store_stats *stats)
{
    stats->segments[0] = 1, stats->longest[0] = k->rows;
    stats->segments[1] = k->rows, stats->longest[1] = longest;
    for (int i = 2; i < f->n; i++) {
        stats->segments[i] = n, stats->longest[i] = n ? f->level[i].c : 0;
        n *= f->level[i].c; /* the product was checked */
    }
}

static sparta_status build(sparta_ctx *cx, const sp_pack_job *job, const blocks *k, sp_packed *out,
                           sp_store_stats *stats)
{
    const sp_level *l = &job->format->level[1];
    int64_t longest, n = count(k, &longest), edges = k->rows + 1;
    stats->elements = sp_mask_count(k->mask);
    if (!sp_int_mul(n, k->a * k->b, &stats->slots))
        return sp_fail(cx, SPARTA_E_LIMIT, "format: too many values");
    if (k->compressed) {
        SP_TRY(sp_level_pos_fits(cx, l, 1, n));
        SP_TRY(sp_tensor_bytes(cx, l->pos, 1, &edges, &stats->pos_bytes));
        SP_TRY(sp_tensor_bytes(cx, l->crd, 1, &n, &stats->crd_bytes));
    }
    count_levels(job->format, k, n, longest, stats);
    SP_TRY(sp_tensor_bytes(cx, job->t->dtype, 1, &stats->slots, &stats->value_bytes));
    if (!job->store) return SPARTA_OK;
    if (k->compressed) {
        SP_TRY(sp_tensor_alloc(cx, l->pos, 1, &edges, &out->pos[1]));
        SP_TRY(sp_tensor_alloc(cx, l->crd, 1, &n, &out->crd[1]));
    }
    SP_TRY(sp_tensor_alloc(cx, job->t->dtype, 1, &stats->slots, &out->values));
    return stats->slots ? fill(cx, k, job->t, out) : SPARTA_OK;
}

sparta_status sp_pack_blocks(sparta_ctx *cx, const sp_pack_job *job, sp_packed *out, sp_store_stats *stats)
{
    blocks k = blocks_of(job->format, job->t);
    sparta_tensor seen = {job->t->dtype, 2, {k.nx, k.ny}, {k.tx, k.ty}, job->t->data, 0}; /* as (x, y) */
    sp_mask own = {0};
    if (!job->mask)
        SP_TRY(sp_mask_of(cx, &seen, &own));
    else if (k.x == 1)
        SP_TRY(sp_mask_transpose(cx, job->mask, &own));
    k.mask = job->mask && k.x == 0 ? job->mask : &own;
    k.any = sp_zalloc(cx, k.nx ? (size_t)k.mask->words * sizeof *k.any : 0);
    sparta_status status = k.any ? build(cx, job, &k, out, stats) : sp_ctx_status(cx);
    sp_free(cx, k.any);
    sp_mask_free(cx, &own);
    return status;
}
