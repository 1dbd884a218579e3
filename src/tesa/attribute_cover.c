/* Covers by precision: the elements of each precision apart, each covered by blocks with its own costs.
 *
 *     precision  i8 i8 | f16      i8:   2x2 blocks and a rest      f16:  1x1
 *                i8 i8 | f16
 */
#include "tesa/attribute_inside.h"
#include <string.h>

/* The elements of one precision, whether they exist or not. */
static void fill_precision(const sp_tesa *t, sp_precision p, sp_mask *m)
{
    int64_t down = sp_groups_of(&t->dim[0], t->group[0]), across = sp_groups_of(&t->dim[1], t->group[1]);
    int64_t n = t->group[0] ? t->group[0] : m->rows, k = t->group[1] ? t->group[1] : m->cols;
    for (int64_t i = 0; i < down * across; i++) {
        if (t->precision[i] != p) continue;
        int64_t col = i % across * k, end = m->cols - col < k ? m->cols : col + k;
        for (int64_t r = i / across * n; r < m->rows && r - i / across * n < n; r++)
            sp_bits_fill(sp_mask_row(m, r), col, end);
    }
}

static const sp_tesa_cost *find_cost(const sp_tesa_cost *cost, int costs, sp_precision p)
{
    const sp_tesa_cost *any = NULL;
    for (int i = 0; i < costs; i++) {
        if (cost[i].precision == p) return &cost[i];
        if (cost[i].precision == SP_PRECISION_ANY) any = &cost[i];
    }
    return any;
}

static sparta_status cover_precision(sparta_ctx *cx, const sp_tesa *t, const sp_mask *has,
                                     const sp_tesa_cost *cost, int costs, sp_precision p, sp_cover_how how,
                                     sp_tesa_cover *c)
{
    sp_mask m;
    SP_TRY(sp_mask_create(cx, has->rows, has->cols, &m));
    fill_precision(t, p, &m);
    sparta_status status = sp_mask_and(cx, &m, has);
    if (!status && sp_mask_count(&m)) {
        const sp_tesa_cost *row = find_cost(cost, costs, p);
        status =
            row ? sp_mask_cover(cx, &m, row->size, row->sizes, how, &c->part[c->parts].cover)
                : sp_fail(cx, SPARTA_E_USAGE, "cover: no costs for %s; give a row for it, or one for any",
                          sp_precision_name(p));
        if (!status) {
            c->part[c->parts].precision = p;
            c->cost += c->part[c->parts++].cover.cost;
        }
    }
    sp_mask_free(cx, &m);
    return status;
}

sparta_status sp_tesa_cover_by(sparta_ctx *cx, const sp_tesa *t, const sp_tesa_cost *cost, int costs,
                               sp_cover_how how, sp_tesa_cover *out)
{
    if (t->rank != 2 || t->dim[0].name[0] || t->dim[1].name[0] || t->has != SP_HAS_SET)
        return sp_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "cover: it needs two dimensions that are numbers and elements that are known before it runs");
    sp_precision palette[SP_PRECISIONS];
    sp_mask has;
    int n = sp_tesa_palette(t, palette);
    SP_TRY(sp_set_mask(cx, &t->set, (int64_t[]){t->dim[0].max, t->dim[1].max}, &has));
    sp_tesa_cover *c = sp_zalloc(cx, sizeof *c);
    sparta_status status = c ? SPARTA_OK : sp_ctx_status(cx);
    for (int i = 0; i < n && !status; i++)
        status = cover_precision(cx, t, &has, cost, costs, palette[i], how, c);
    sp_mask_free(cx, &has);
    if (!status)
        *out = *c;
    else
        sp_tesa_cover_free(cx, c);
    sp_free(cx, c);
    return status;
}

void sp_tesa_cover_free(sparta_ctx *cx, sp_tesa_cover *cover)
{
    if (!cover) return;
    for (int i = 0; i < cover->parts; i++) sp_cover_free(cx, &cover->part[i].cover);
    *cover = (sp_tesa_cover){0};
}
