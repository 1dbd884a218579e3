/* head: one head of one item: its rows of the QKV product into scratch, then its attention from there.
 *
 *     scratch  [panel of the item][q k v][dim][64]      96 KiB for two panels of 64-row heads (run folds only what fits L2)
 *
 * The kernels are the ordinary ones. They index rows and panels from the start of the whole value, so they are given the address
 * at which the whole value would have to start for this head's rows to be where they are.
 */
#include "panel/panel.h"

static int64_t dim_of(const sparta_job *attention)
{
    return sparta_panel_features(&attention->in[0].tensor) /
           sparta_attr_int(&attention->node->attrs, "heads", 1);
}
static int64_t item_panels(const sparta_job *attention)
{
    return attention->in[0].tensor.dim[1] / SPARTA_PANEL;
}

static size_t scratch_floats(const sparta_job *attention)
{
    return (size_t)(item_panels(attention) * 3 * dim_of(attention) * SPARTA_PANEL);
}

size_t sparta_head_work(const sparta_job *attention)
{
    return scratch_floats(attention) * sizeof(float) + sparta_panel_attention.work(attention);
}

/* `p` moved back by n floats: the address the whole value would have. */
static float *whole(float *p, int64_t n)
{
    return (float *)((uintptr_t)p - (uintptr_t)n * sizeof(float));
}

void sparta_head_product(const sparta_head *h)
{
    const int64_t dim = dim_of(h->attention), panels = item_panels(h->attention);
    for (int64_t p = 0; p < panels; p++) {
        sparta_panel_args args;
        sparta_panel_linear.fill(h->product, &(sparta_place){.panel = h->item * panels + p, .parts = 1},
                                 &args);
        for (int i = 0; i < 3; i++) {
            const int64_t row = h->attention->in[i].row0 + h->head * dim;
            args.linear.strip0 = (long)(row / 4);
            args.linear.strip1 = (long)((row + dim) / 4);
            args.linear.y = whole(h->work + (p * 3 + i) * dim * SPARTA_PANEL, row * SPARTA_PANEL);
            h->product_entry(&args);
        }
    }
}

void sparta_head_attend(const sparta_head *h)
{
    const int64_t dim = dim_of(h->attention), panels = item_panels(h->attention),
                  gap = 3 * dim * SPARTA_PANEL;
    const int64_t rows = h->head * dim * SPARTA_PANEL, before = h->item * panels * gap;
    for (int64_t p = 0; p < panels; p++) {
        sparta_panel_args args;
        struct sparta_attention_args *a = &args.attention;
        sparta_panel_attention.fill(h->attention, &(sparta_place){.panel = h->item * panels + p, .parts = 1},
                                    &args);
        a->q = whole(h->work + p * gap, rows);
        a->k = whole(h->work + dim * SPARTA_PANEL, rows + before);
        a->v = whole(h->work + 2 * dim * SPARTA_PANEL, rows + before);
        a->gap_k = a->gap_v = (long)gap;
        a->head0 = (long)h->head;
        a->head1 = (long)h->head + 1;
        a->work = h->work + scratch_floats(h->attention);
        h->attention_entry(&args);
    }
}
