/* Covers by precision: the elements of each precision apart, each covered by blocks with its own costs.
 *
 *     precision  i8 i8 | f16      i8:   2x2 blocks and a rest      f16:  1x1
 *                i8 i8 | f16
 */
#include "tesa/attribute_inside.h"
#include <string.h>

/* The elements of one precision, whether they exist or not. */
static void fill_precision(const sparta_tesa *t, sparta_precision p, sparta_mask *m)
{
    int64_t down = sparta_groups_of(&t->dim[0], t->group[0]),
            across = sparta_groups_of(&t->dim[1], t->group[1]);
    int64_t n = t->group[0] ? t->group[0] : m->rows, k = t->group[1] ? t->group[1] : m->cols;
    for (int64_t i = 0; i < down * across; i++) {
        if (t->precision[i] != p) continue;
        int64_t col = i % across * k, end = m->cols - col < k ? m->cols : col + k;
        for (int64_t r = i / across * n; r < m->rows && r - i / across * n < n; r++)
            sparta_bits_fill(sparta_mask_row(m, r), col, end);
    }
}

static const sparta_tesa_cost *find_cost(const sparta_tesa_cost *cost, int costs, sparta_precision p)
{
    const sparta_tesa_cost *any = NULL;
    for (int i = 0; i < costs; i++) {
        if (cost[i].precision == p) return &cost[i];
        if (cost[i].precision == SPARTA_PRECISION_ANY) any = &cost[i];
    }
    return any;
}

static sparta_status cover_precision(sparta_ctx *cx, const sparta_tesa *t, const sparta_mask *has,
                                     const sparta_tesa_cost *cost, int costs, sparta_precision p,
                                     sparta_cover_how how, sparta_tesa_cover *c)
{
    sparta_mask m;
    SPARTA_TRY(sparta_mask_create(cx, has->rows, has->cols, &m));
    fill_precision(t, p, &m);
    sparta_status status = sparta_mask_and(cx, &m, has);
    if (!status && sparta_mask_count(&m)) {
        const sparta_tesa_cost *row = find_cost(cost, costs, p);
        status =
            row ? sparta_mask_cover(cx, &m, row->size, row->sizes, how, &c->part[c->parts].cover)
                : sparta_fail(cx, SPARTA_E_USAGE, "cover: no costs for %s; give a row for it, or one for any",
                              sparta_precision_name(p));
        if (!status) {
            c->part[c->parts].precision = p;
            c->cost += c->part[c->parts++].cover.cost;
        }
    }
    sparta_mask_free(cx, &m);
    return status;
}

sparta_status sparta_tesa_cover_by(sparta_ctx *cx, const sparta_tesa *t, const sparta_tesa_cost *cost,
                                   int costs, sparta_cover_how how, sparta_tesa_cover *out)
{
    if (t->rank != 2 || t->dim[0].name[0] || t->dim[1].name[0] || t->has != SPARTA_HAS_SET)
        return sparta_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "cover: it needs two dimensions that are numbers and elements that are known before it runs");
    sparta_precision palette[SPARTA_PRECISIONS];
    sparta_mask has;
    int n = sparta_tesa_palette(t, palette);
    SPARTA_TRY(sparta_set_mask(cx, &t->set, (int64_t[]){t->dim[0].max, t->dim[1].max}, &has));
    sparta_tesa_cover *c = sparta_zalloc(cx, sizeof *c);
    sparta_status status = c ? SPARTA_OK : sparta_ctx_status(cx);
    for (int i = 0; i < n && !status; i++)
        status = cover_precision(cx, t, &has, cost, costs, palette[i], how, c);
    sparta_mask_free(cx, &has);
    if (!status)
        *out = *c;
    else
        sparta_tesa_cover_free(cx, c);
    sparta_free(cx, c);
    return status;
}

void sparta_tesa_cover_free(sparta_ctx *cx, sparta_tesa_cover *cover)
{
    if (!cover) return;
    for (int i = 0; i < cover->parts; i++) sparta_cover_free(cx, &cover->part[i].cover);
    *cover = (sparta_tesa_cover){0};
}
