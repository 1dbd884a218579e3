/* Packed matrices as other people's arrays and back (layouts.h). */
#include "store/layouts.h"
#include <stdio.h>

/* ------------------------------------------------------------------ ours as theirs */

static bool is_level(const sp_level *l, sp_level_kind kind, int map)
{
    return l->kind == kind && (int)l->map == map;
}

/* Which of the layouts the levels are; false: none. */
static bool match(const sp_format *f, sp_layout *out)
{
    const sp_level *l = f->level;
    bool blocks = f->n == 4;
    out->block[0] = out->block[1] = 1;
    if (f->rank != 2 || f->sum || f->opaque || (f->n != 2 && f->n != 4) || l[0].dim == l[1].dim) return false;
    if (f->n == 2 && is_level(&l[0], SP_LEVEL_COMPRESSED, SP_MAP_ALL) &&
        is_level(&l[1], SP_LEVEL_SINGLETON, SP_MAP_ALL)) {
        out->kind = SP_LAYOUT_COO;
        return l[0].properties & SP_PROP_NONUNIQUE;
    }
    int map = blocks ? SP_MAP_DIV : SP_MAP_ALL;
    if (!is_level(&l[0], SP_LEVEL_DENSE, map) || !is_level(&l[1], SP_LEVEL_COMPRESSED, map)) return false;
    out->kind =
        blocks ? (l[0].dim ? SP_LAYOUT_BSC : SP_LAYOUT_BSR) : (l[0].dim ? SP_LAYOUT_CSC : SP_LAYOUT_CSR);
    for (int i = 2; i < f->n; i++)
        if (!is_level(&l[i], SP_LEVEL_DENSE, SP_MAP_MOD)) return false;
    for (int i = 0; blocks && i < 2; i++) out->block[l[i].dim] = l[i].c;
    return true;
}

static const char *const names[] = {"csr", "csc", "bsr", "bsc", "coo"};

/* The text of the nearest format that has the view. */
static void suggest(const sp_layout *l, sp_layout_for who, char *text, size_t size)
{
    if (l->kind == SP_LAYOUT_COO && who == SP_LAYOUT_TORCH)
        snprintf(text, size, "(i,j)->(i:compressed(nonunique), j:singleton(aos)), pos=i64, crd=i64");
    else if (l->kind == SP_LAYOUT_BSR || l->kind == SP_LAYOUT_BSC)
        snprintf(text, size, "%s(%lld,%lld), pos=i64, crd=i64", names[l->kind], (long long)l->block[0],
                 (long long)l->block[1]);
    else
        snprintf(text, size, "%s, pos=i64, crd=i64", names[l->kind]);
}

/* What is in the way, or NULL. */
static const char *obstacle(const sp_packed *p, const sp_layout *l, sp_layout_for who)
{
    const sp_level *level = p->format.level;
    bool coo = l->kind == SP_LAYOUT_COO, torch = who == SP_LAYOUT_TORCH;
    sparta_dtype crd = level[coo ? 0 : 1].crd,
                 other = coo && !(level[1].properties & SP_PROP_AOS) ? level[1].crd : crd;
    sparta_dtype pos = coo ? crd : level[1].pos;
    if ((crd != SPARTA_I32 && crd != SPARTA_I64) || pos != crd || other != crd)
        return "positions and coordinates are not both i32 or both i64";
    if (torch && coo && crd != SPARTA_I64) return "PyTorch's coo has i64";
    if (torch && (level[1].properties & (SP_PROP_NONORDERED | (coo ? 0 : SP_PROP_NONUNIQUE))))
        return "PyTorch's indices ascend without repetition";
    if (!coo && p->format.n == 4 && level[2].dim != 0) return "each block lies column by column";
    if (coo && torch && (!(level[1].properties & SP_PROP_AOS) || level[0].dim))
        return "rows and columns lie apart";
    return NULL;
}

static sparta_tensor strided(const sparta_tensor *a, int64_t n, int64_t step, int64_t first)
{
    sparta_tensor t =
        sparta_tensor_view(a->dtype, 1, &n, (char *)a->data + first * (int64_t)sparta_dtype_size(a->dtype));
    t.stride[0] = step;
    return t;
}

static void view_coo(const sp_packed *p, sp_layout *l)
{
    bool beside = p->format.level[1].properties & SP_PROP_AOS;
    int first = p->format.level[0].dim;
    int64_t n = beside && p->crd[0].rank == 1 ? p->crd[0].dim[0] / 2 : p->crd[0].dim[0];
    sparta_tensor index[2] = {strided(&p->crd[0], n, beside ? 2 : 1, 0),
                              strided(beside ? &p->crd[0] : &p->crd[1], n, beside ? 2 : 1, beside)};
    l->row = index[first], l->col = index[!first];
    if (beside && !first) {
        l->indices = sparta_tensor_view(p->crd[0].dtype, 2, (int64_t[]){2, n}, p->crd[0].data);
        l->indices.stride[0] = 1, l->indices.stride[1] = 2;
    }
}

sparta_status sp_layout_of_packed(sparta_ctx *cx, const sp_packed *p, sp_layout_for who, sp_layout *out)
{
    sp_layout l = {.dim = {p->dim[0], p->dim[1]}};
    char better[96];
    if (!match(&p->format, &l))
        return sp_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "layout: this format is none of csr csc bsr bsc coo; convert it to csr, pos=i64, crd=i64");
    const char *why = obstacle(p, &l, who);
    suggest(&l, who, better, sizeof better);
    if (why) return sp_fail(cx, SPARTA_E_UNSUPPORTED, "layout: %s; convert it to %s", why, better);
    if (who == SP_LAYOUT_SCIPY && l.kind == SP_LAYOUT_BSC)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "layout: SciPy has no bsc; convert it to bsr(%lld,%lld)",
                       (long long)l.block[0], (long long)l.block[1]);
    if (l.dim[0] % l.block[0] || l.dim[1] % l.block[1])
        return sp_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "layout: blocks of %lldx%lld do not divide %lldx%lld; convert it to csr, pos=i64, crd=i64",
            (long long)l.block[0], (long long)l.block[1], (long long)l.dim[0], (long long)l.dim[1]);
    l.unordered = p->format.level[1].properties & (SP_PROP_NONORDERED | SP_PROP_NONUNIQUE);
    if (l.kind == SP_LAYOUT_COO) {
        l.unordered |= p->format.level[0].properties & SP_PROP_NONORDERED;
        view_coo(p, &l);
    } else {
        l.offsets = p->pos[1], l.indices = p->crd[1];
    }
    bool blocks = p->format.n == 4;
    int64_t n = blocks ? l.indices.dim[0] : p->values.dim[0];
    if (!p->pattern || blocks) /* the bools of a pattern say which elements of a block exist */
        l.values = sparta_tensor_view(p->dtype, blocks ? 3 : 1, (int64_t[]){n, l.block[0], l.block[1]},
                                      p->values.data);
    *out = l;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ theirs as ours */

static sparta_status check_index(sparta_ctx *cx, const sparta_tensor *t, const char *what)
{
    if (t->dtype != SPARTA_I32 && t->dtype != SPARTA_I64)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "layout: %s are %s; convert them to i32 or i64", what,
                       sparta_dtype_name(t->dtype));
    if (t->rank != 1)
        return sp_fail(cx, SPARTA_E_FORMAT, "layout: %s have %d dimensions; give one", what, t->rank);
    if (!sp_tensor_contiguous(t))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "layout: %s have gaps; make them contiguous", what);
    return SPARTA_OK;
}

/* Values (n) or (n, b, c) as one row of them. */
static sparta_status take_values(sparta_ctx *cx, const sp_layout *l, int64_t n, sp_packed *p)
{
    const sparta_tensor *v = &l->values;
    bool blocks = l->kind == SP_LAYOUT_BSR || l->kind == SP_LAYOUT_BSC;
    p->pattern = !v->rank && !v->data;
    p->dtype = p->pattern ? SPARTA_BOOL : v->dtype;
    if (p->pattern) return SPARTA_OK;
    bool fits = v->rank == (blocks ? 3 : 1) && v->dim[0] == n;
    if (blocks && fits) fits = v->dim[1] == l->block[0] && v->dim[2] == l->block[1];
    if (!fits)
        return sp_fail(cx, SPARTA_E_FORMAT, "layout: values of %d dimensions; %lld indices have (%lld%s)",
                       v->rank, (long long)n, (long long)n, blocks ? ", b, c" : "");
    if (!sp_tensor_contiguous(v))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "layout: values have gaps or lie in another order; make them contiguous");
    int64_t all = sparta_tensor_elements(v);
    p->values = sparta_tensor_view(v->dtype, 1, &all, v->data);
    return SPARTA_OK;
}

static sparta_status take_compressed(sparta_ctx *cx, const sp_layout *l, sp_packed *p, char *text,
                                     size_t size)
{
    bool blocks = l->kind == SP_LAYOUT_BSR || l->kind == SP_LAYOUT_BSC;
    bool columns = l->kind == SP_LAYOUT_CSC || l->kind == SP_LAYOUT_BSC;
    const char *order = l->unordered ? "(nonunique, nonordered)" : "", *outer = columns ? "j" : "i",
               *inner = columns ? "i" : "j";
    long long b = l->block[0], c = l->block[1];
    if (blocks && (b < 1 || c < 1)) return sp_fail(cx, SPARTA_E_FORMAT, "layout: blocks of %lldx%lld", b, c);
    SP_TRY(check_index(cx, &l->offsets, "offsets"));
    SP_TRY(check_index(cx, &l->indices, "indices"));
    const char *pos = sparta_dtype_name(l->offsets.dtype), *crd = sparta_dtype_name(l->indices.dtype);
    if (blocks)
        snprintf(text, size,
                 "(i,j)->(%s/%lld:dense, %s/%lld:compressed%s, i%%%lld:dense, j%%%lld:dense), pos=%s, crd=%s",
                 outer, columns ? c : b, inner, columns ? b : c, order, b, c, pos, crd);
    else
        snprintf(text, size, "(i,j)->(%s:dense, %s:compressed%s), pos=%s, crd=%s", outer, inner, order, pos,
                 crd);
    p->pos[1] = l->offsets, p->crd[1] = l->indices;
    return take_values(cx, l, l->indices.dim[0], p);
}

static sparta_status take_coo(sparta_ctx *cx, const sp_layout *l, int64_t pos[2], sp_packed *p, char *text,
                              size_t size)
{
    const sparta_tensor *both = &l->indices;
    sparta_tensor row = l->row, col = l->col;
    bool beside = both->rank == 2 && both->dim[0] == 2 && both->stride[0] == 1 && both->stride[1] == 2;
    if (both->rank && (both->rank != 2 || both->dim[0] != 2))
        return sp_fail(cx, SPARTA_E_FORMAT, "layout: indices of coo are (2, n)");
    if (both->rank && !beside) {
        int64_t n = both->dim[1];
        row = strided(both, n, both->stride[1], 0),
        col = strided(both, n, both->stride[1], n ? both->stride[0] : 0);
    } else if (beside) {
        row = col = strided(both, 2 * both->dim[1], 1, 0);
    }
    SP_TRY(check_index(cx, &row, "rows of coo"));
    SP_TRY(check_index(cx, &col, "columns of coo"));
    int64_t n = beside ? both->dim[1] : row.dim[0], two = 2;
    if (row.dim[0] != col.dim[0] || (beside ? 0 : col.dim[0] != n))
        return sp_fail(cx, SPARTA_E_FORMAT, "layout: coo has %lld rows and %lld columns",
                       (long long)row.dim[0], (long long)col.dim[0]);
    const char *order = l->unordered ? "nonunique, nonordered" : "nonunique",
               *last = l->unordered ? "nonunique, nonordered, " : "";
    snprintf(text, size, "(i,j)->(i:compressed(%s), j:singleton(%s%s)), pos=i64, crd[0]=%s, crd[1]=%s", order,
             last, beside ? "aos" : "soa", sparta_dtype_name(row.dtype), sparta_dtype_name(col.dtype));
    pos[0] = 0, pos[1] = n;
    p->pos[0] = sparta_tensor_view(SPARTA_I64, 1, &two, pos);
    p->crd[0] = beside ? sparta_tensor_view(row.dtype, 2, (int64_t[]){n, 2}, row.data) : row;
    if (!beside) p->crd[1] = col;
    return take_values(cx, l, n, p);
}

sparta_status sp_packed_of_layout(sparta_ctx *cx, const sp_layout *l, int64_t pos[2], sp_packed *out)
{
    sp_packed p = {.rank = 2, .dim = {l->dim[0], l->dim[1]}};
    char text[192];
    if (l->dim[0] < 0 || l->dim[1] < 0)
        return sp_fail(cx, SPARTA_E_SHAPE, "layout: %lldx%lld is no shape", (long long)l->dim[0],
                       (long long)l->dim[1]);
    if (l->kind == SP_LAYOUT_COO)
        SP_TRY(take_coo(cx, l, pos, &p, text, sizeof text));
    else
        SP_TRY(take_compressed(cx, l, &p, text, sizeof text));
    SP_TRY(sp_format_parse(cx, text, &p.format));
    SP_TRY(sp_packed_verify(cx, &p));
    *out = p;
    return SPARTA_OK;
}
