/* Known constants: bits and a value for each, moved along with them.
 *
 *     where  . 1 1 .     value  0.5 2.0 7.0      the k-th bit in row-major order has the k-th value
 *            1 . . .
 *
 * `before` counts the bits before each word, so the value of an index is found in one step; every movement of
 * constants is then: move the bits, and for each new one ask where it came from.
 */
#include "tesa/attribute_inside.h"
#include <string.h>

sp_constants sp_constants_of(const sp_tesa *t)
{
    sp_constants c = {.value = t->value};
    if (!t->constants) return c;
    c.where = (sp_span){.rank = t->rank, .mask = t->where};
    memcpy(c.where.extent, t->extent, sizeof t->extent);
    return c;
}

void sp_constants_free(sparta_ctx *cx, sp_constants *c)
{
    sp_mask_free(cx, &c->where.mask);
    sp_free(cx, c->value.data);
    *c = (sp_constants){0};
}

sparta_status sp_constants_rank(sparta_ctx *cx, const sp_span *where, int64_t **before)
{
    int64_t words = where->mask.rows * where->mask.words, count = 0;
    int64_t *b = sp_alloc_array(cx, (size_t)words + 1, sizeof *b);
    SP_NEED(cx, b);
    for (int64_t i = 0; i < words; i++) {
        b[i] = count;
        count += (int64_t)sp_ones(where->mask.bits[i]);
    }
    *before = b;
    return SPARTA_OK;
}

int64_t sp_constants_place(const sp_span *where, const int64_t *before, const int64_t *index)
{
    int64_t row, col;
    sp_span_place(where, index, &row, &col);
    if (!sp_mask_get(&where->mask, row, col)) return -1;
    int64_t word = row * where->mask.words + col / WORD;
    return before[word] + (int64_t)sp_ones(where->mask.bits[word] & sp_low(col % WORD));
}

typedef struct {
    sparta_ctx *cx;
    const sp_constants *from;
    int n;
    int64_t **before; /* of each source */
    sp_constants_source source;
    const void *arg;
} gatherer;

/* The bytes of the value, or NULL: not a constant after all. */
static const char *fetch(const gatherer *g, const int64_t *index, size_t size)
{
    int which = 0;
    int64_t there[SP_TESA_RANK] = {0};
    if (!g->source(g->arg, index, &which, there)) return NULL;
    int64_t place = sp_constants_place(&g->from[which].where, g->before[which], there);
    return place < 0 ? NULL : (const char *)g->from[which].value.data + (size_t)place * size;
}

static sparta_status gather(const gatherer *g, sp_span *where, sparta_tensor *value)
{
    int64_t index[SP_TESA_RANK] = {0}, count = sp_mask_count(&where->mask), n = 0, cols = where->mask.cols;
    size_t size = sparta_dtype_size(g->from[0].value.dtype);
    SP_TRY(sp_tensor_alloc(g->cx, g->from[0].value.dtype, 1, &count, value));
    for (int64_t r = 0; count && r < where->mask.rows; r++) {
        uint64_t *row = sp_mask_row(&where->mask, r);
        for (int64_t c = sp_bits_next(row, 0, cols); c < cols; c = sp_bits_next(row, c + 1, cols)) {
            sp_span_index(where, r, c, index);
            const char *bytes = fetch(g, index, size);
            if (bytes)
                memcpy((char *)value->data + (size_t)n++ * size, bytes, size);
            else
                row[c / WORD] &= ~(UINT64_C(1) << (c % WORD));
        }
    }
    value->dim[0] = n;
    return SPARTA_OK;
}

sparta_status sp_constants_gather(sparta_ctx *cx, const sp_constants *from, int n, sp_span *where,
                                  sp_constants_source source, const void *arg, sp_constants *out)
{
    gatherer g = {cx, from, n, sp_alloc_array(cx, (size_t)n, sizeof(int64_t *)), source, arg};
    sparta_tensor value = {0};
    sparta_status status = g.before ? SPARTA_OK : sp_ctx_status(cx);
    for (int i = 0; i < n && !status; i++)
        if (from[i].where.rank) status = sp_constants_rank(cx, &from[i].where, &g.before[i]);
    if (!status) status = gather(&g, where, &value);
    for (int i = 0; g.before && i < n; i++) sp_free(cx, g.before[i]);
    sp_free(cx, g.before);
    if (status)
        sp_mask_free(cx, &where->mask);
    else
        *out = (sp_constants){*where, value};
    return status;
}
