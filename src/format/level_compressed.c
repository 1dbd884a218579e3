/* compressed: only the coordinates that are there, ascending; pos says where each parent's begin.
 *
 *      parent      0        1     2
 *      pos         0        2     2     3     its positions are pos[parent] .. pos[parent+1]-1
 *      crd         1  3           0
 *      position    0  1           2
 */
#include "format/level.h"

static bool fresh(const sparta_assembly *a, int64_t e, int64_t parent, int64_t last_parent)
{
    return e == 0 || parent != last_parent || a->coord[e] != a->coord[e - 1];
}

static int64_t count(const sparta_assembly *a)
{
    int64_t size = 0;
    for (int64_t e = 0; e < a->n; e++) size += fresh(a, e, a->at[e], e ? a->at[e - 1] : 0);
    return size;
}

/* pos has room for parents+1 and is 0: count each parent's positions one place up, then sum. */
static void fill(sparta_assembly *a)
{
    sparta_dtype pw = a->level->pos, cw = a->level->crd;
    int64_t position = -1, last_parent = 0;
    for (int64_t e = 0; e < a->n; e++) {
        int64_t parent = a->at[e];
        if (fresh(a, e, parent, last_parent)) {
            position++;
            if (a->store) {
                sparta_index_set(cw, a->crd.data, position, a->coord[e]);
                sparta_index_set(pw, a->pos.data, parent + 1,
                                 sparta_index_get(pw, a->pos.data, parent + 1) + 1);
            }
        }
        a->at[e] = position;
        last_parent = parent;
    }
    if (!a->store) return;
    int64_t sum = 0;
    for (int64_t p = 0; p <= a->parents; p++)
        sparta_index_set(pw, a->pos.data, p, sum += sparta_index_get(pw, a->pos.data, p));
}

static sparta_status assemble(sparta_ctx *cx, sparta_assembly *a)
{
    a->size = count(a);
    int64_t edges;
    if (!sparta_int_add(a->parents, 1, &edges))
        return sparta_fail(cx, SPARTA_E_LIMIT, "format: level %d has too many parents", a->number);
    SPARTA_TRY(sparta_level_pos_fits(cx, a->level, a->number, a->size));
    size_t pos_bytes, crd_bytes;
    SPARTA_TRY(sparta_tensor_bytes(cx, a->level->pos, 1, &edges, &pos_bytes));
    SPARTA_TRY(sparta_tensor_bytes(cx, a->level->crd, 1, &a->size, &crd_bytes));
    if (!sparta_size_add(pos_bytes, crd_bytes, &a->bytes))
        return sparta_fail(cx, SPARTA_E_LIMIT, "format: level %d is too large", a->number);
    if (a->store) {
        SPARTA_TRY(sparta_tensor_alloc(cx, a->level->pos, 1, &edges, &a->pos));
        SPARTA_TRY(sparta_tensor_alloc(cx, a->level->crd, 1, &a->size, &a->crd));
    }
    fill(a);
    return SPARTA_OK;
}

static sparta_status verify_segment(sparta_ctx *cx, const sparta_level_view *v, int64_t parent, int64_t lo,
                                    int64_t hi)
{
    sparta_dtype cw = v->level->crd;
    for (int64_t q = lo, last = -1; q < hi; q++) {
        int64_t c = sparta_index_get(cw, v->crd->data, q);
        if (c < 0 || c >= v->extent)
            return sparta_fail(cx, SPARTA_E_FORMAT,
                               "packed: level %d: crd[%lld] is %lld, coordinates are below %lld", v->number,
                               (long long)q, (long long)c, (long long)v->extent);
        if (c <= last)
            return sparta_fail(cx, SPARTA_E_FORMAT,
                               "packed: level %d: crd[%lld] is %lld after %lld; segment %lld must ascend",
                               v->number, (long long)q, (long long)c, (long long)last, (long long)parent);
        last = c;
    }
    return SPARTA_OK;
}

static sparta_status verify(sparta_ctx *cx, const sparta_level_view *v, int64_t *size)
{
    int64_t n = v->crd->dim[0], lo = 0;
    sparta_dtype pw = v->level->pos;
    if (v->pos->dim[0] - 1 != v->parents) /* dim >= 0, so this cannot overflow */
        return sparta_fail(
            cx, SPARTA_E_FORMAT,
            "packed: level %d: pos has %lld entries for %lld segments; it needs one more than segments",
            v->number, (long long)v->pos->dim[0], (long long)v->parents);
    if (sparta_index_get(pw, v->pos->data, 0) != 0)
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: level %d: pos[0] is %lld, it must be 0", v->number,
                           (long long)sparta_index_get(pw, v->pos->data, 0));
    for (int64_t p = 0; p < v->parents; p++) {
        int64_t hi = sparta_index_get(pw, v->pos->data, p + 1);
        if (hi < lo || hi > n)
            return sparta_fail(
                cx, SPARTA_E_FORMAT,
                "packed: level %d: pos[%lld] is %lld after %lld; positions must not fall, nor pass %lld",
                v->number, (long long)(p + 1), (long long)hi, (long long)lo, (long long)n);
        SPARTA_TRY(verify_segment(cx, v, p, lo, hi));
        lo = hi;
    }
    if (lo != n)
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: level %d: pos ends at %lld, crd has %lld entries",
                           v->number, (long long)lo, (long long)n);
    *size = n;
    return SPARTA_OK;
}

static void segment(const sparta_level_view *v, int64_t parent, int64_t *lo, int64_t *hi)
{
    int64_t a = sparta_index_get(v->level->pos, v->pos->data, parent);
    int64_t b = sparta_index_get(v->level->pos, v->pos->data, parent + 1);
    bool inside = a >= 0 && a <= b && b <= v->size;
    *lo = inside ? a : 0;
    *hi = inside ? b : 0;
}

static int64_t coordinate(const sparta_level_view *v, int64_t parent, int64_t position)
{
    (void)parent;
    int64_t c = sparta_index_get(v->level->crd, v->crd->data, position);
    return c < v->extent ? c : -1; /* a negative one is its own */
}

const sparta_level_ops sparta_level_ops_COMPRESSED = {assemble, verify, segment, coordinate};
