/* head: one head of one item (one of k and v, with those of q that share it): its rows of the QKV product into scratch, then its attention
 * from there.
 *
 *     scratch  [panel of the item][q k v][rows][64]      96 KiB for two panels of 64-row heads (run folds only what fits L2)
 *
 * The kernels are the ordinary ones. They index rows and panels from the start of the whole value, so they are given the address
 * at which the whole value would have to start for this head's rows to be where they are.
 *
 * A product makes strips of 4 rows. Where heads do not divide into them, the first and the last strip of a head hold rows of its
 * neighbours as well, which are made once more and not used:
 *
 *     strips   |0 1 2 3|4 5 6 7|8 9 ...          heads of 5 rows: head 1 has rows 5 to 9, and strips 1 and 2
 */
#include "panel/panel.h"

typedef struct span { /* of one of q, k, v */
    int64_t row;      /* of the product, its first */
    int64_t strip0, strip1;
    int64_t at; /* row of the scratch that its strips begin at */
} span;

static int64_t item_panels(const sp_job *attention)
{
    return attention->in[0].tensor.dim[1] / SP_PANEL;
}

/* Rows of scratch for a head of `rows` rows, wherever in a strip it begins. */
static int64_t room(int64_t rows)
{
    return rows % 4 ? sp_lane_rows(SPARTA_F32, rows) + 4 : rows;
}

/* Rows of scratch of one panel. */
static int64_t scratch_rows(const sp_job *attention)
{
    int64_t rows = 0;
    for (int i = 0; i < 3; i++) rows += room(sp_head_rows(attention, i));
    return rows;
}

static size_t scratch_floats(const sp_job *attention)
{
    return (size_t)(item_panels(attention) * scratch_rows(attention) * SP_PANEL);
}

size_t sp_head_work(const sp_job *attention)
{
    return scratch_floats(attention) * sizeof(float) + sp_panel_attention.work(attention);
}

static void find_spans(const sp_head *h, span out[3])
{
    int64_t at = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t rows = sp_head_rows(h->attention, i), row = h->attention->in[i].row0 + h->head * rows;
        out[i] = (span){row, row / 4, (row + rows + 3) / 4, at};
        at += room(rows);
    }
}

/* `p` moved back by n floats: the address the whole value would have. */
static float *whole(float *p, int64_t n)
{
    return (float *)((uintptr_t)p - (uintptr_t)n * sizeof(float));
}

void sp_head_product(const sp_head *h)
{
    const int64_t panels = item_panels(h->attention), rows = scratch_rows(h->attention);
    span of[3];
    find_spans(h, of);
    for (int64_t p = 0; p < panels; p++) {
        sp_panel_args args;
        sp_panel_linear.fill(h->product, &(sp_place){.panel = h->item * panels + p, .parts = 1}, &args);
        for (int i = 0; i < 3; i++) {
            args.linear.strip0 = (long)of[i].strip0;
            args.linear.strip1 = (long)of[i].strip1;
            args.linear.e.y = whole(h->work + (p * rows + of[i].at) * SP_PANEL, of[i].strip0 * 4 * SP_PANEL);
            args.linear.e.residual = args.linear.e.y; /* it has none */
            h->product_entry(&args);
        }
    }
}

/* Where input i of the attention would have to start: its head's first row, back over the heads before it. */
static float *start_of(const sp_head *h, int i, const span *of)
{
    const int64_t first = of->at + of->row - of->strip0 * 4;
    return whole(h->work + first * SP_PANEL, h->head * sp_head_rows(h->attention, i) * SP_PANEL);
}

void sp_head_attend(const sp_head *h)
{
    const int64_t panels = item_panels(h->attention), gap = scratch_rows(h->attention) * SP_PANEL;
    const int64_t before = h->item * panels * gap;
    span of[3];
    find_spans(h, of);
    for (int64_t p = 0; p < panels; p++) {
        sp_panel_args args;
        struct sp_attention_args *a = &args.attention;
        sp_panel_attention.fill(h->attention, &(sp_place){.panel = h->item * panels + p, .parts = 1}, &args);
        a->q = start_of(h, 0, &of[0]) + p * gap;
        a->k = whole(start_of(h, 1, &of[1]), before);
        a->v = whole(start_of(h, 2, &of[2]), before);
        a->gap_k = a->gap_v = (long)gap;
        a->head0 = (long)h->head * a->share;
        a->head1 = a->head0 + a->share;
        a->work = h->work + scratch_floats(h->attention);
        h->attention_entry(&args);
    }
}
