/* Packed storage, as far as readers and writers share it: its parts, what zeros mean in it, and its end. */
#include "format/text.h"
#include "format/walk.h"

void sp_packed_free(sparta_ctx *cx, sp_packed *p)
{
    if (!p) return;
    for (int i = 0; p->part && i < p->parts; i++) sp_packed_free(cx, &p->part[i]);
    sp_free(cx, p->part);
    for (int l = 0; l < SP_LEVELS; l++) {
        sp_free(cx, p->pos[l].data);
        sp_free(cx, p->crd[l].data);
    }
    sp_free(cx, p->values.data);
    *p = (sp_packed){0};
}

/* ------------------------------------------------------------------ parts of a sum */

/* How many pieces a part makes: colpart's columns, else one. */
int64_t sp_sum_pieces(const struct sp_sum_part *part)
{
    return part->select.kind == SP_SELECT_COLPART ? SP_MAX(part->select.b, 0) : 1;
}

static int leaves_below(const sp_format *f, int depth, int n, const sp_format *leaf[SP_PARTS])
{
    if (!f->sum) {
        if (n < SP_PARTS && leaf) leaf[n] = f;
        return n + 1;
    }
    if (depth == SP_FORMAT_DEPTH) return SP_PARTS + 1;
    for (int i = 0; i < f->sum->n && n <= SP_PARTS; i++)
        for (int64_t c = 0; c < sp_sum_pieces(&f->sum->part[i]) && n <= SP_PARTS; c++)
            n = leaves_below(&f->sum->part[i].format, depth + 1, n, leaf);
    return n;
}

int sp_sum_leaves(const sp_format *f, const sp_format *leaf[SP_PARTS])
{
    return leaves_below(f, 0, 0, leaf);
}

/* ------------------------------------------------------------------ values */

bool sp_element_stored(sparta_dtype dtype, const void *data, int64_t at)
{
    switch (sparta_dtype_size(dtype)) {
    case 1: return ((const uint8_t *)data)[at] != 0;
    case 2: return ((const uint16_t *)data)[at] != 0;
    case 4: return ((const uint32_t *)data)[at] != 0;
    default: return ((const uint64_t *)data)[at] != 0;
    }
}

void sp_element_add(sparta_dtype dtype, void *to, int64_t at, const void *from, int64_t source)
{
    if (sp_dtype_is_float(dtype)) {
        sp_element_set(dtype, to, at, sp_element_get(dtype, to, at) + sp_element_get(dtype, from, source));
        return;
    }
    uint64_t a = (uint64_t)sp_element_get_int(dtype, to, at);
    uint64_t b = (uint64_t)sp_element_get_int(dtype, from, source);
    sp_element_set_int(dtype, to, at, (int64_t)(dtype == SPARTA_BOOL ? a | b : a + b));
}

/* ------------------------------------------------------------------ what a format says of zeros */

bool sp_levels_zeroless(const sp_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].properties & SP_PROP_ZEROLESS) return true;
    return false;
}

bool sp_levels_zero_absent(const sp_format *f)
{
    sp_level_kind last = f->level[f->n - 1].kind;
    return last == SP_LEVEL_DENSE || last == SP_LEVEL_RAGGED || last == SP_LEVEL_RANGE;
}

bool sp_level_may_be_empty(const sp_format *f, int l)
{
    if (!sp_level_table[f->level[l].kind].ops->padding) return false;
    while (--l >= 0) {
        if (sp_level_table[f->level[l].kind].ops->padding) continue; /* as full as what is above it */
        return sp_level_table[f->level[l].kind].crd_kind == SP_CRD_NONE;
    }
    return true;
}

bool sp_levels_pattern_has_values(const sp_format *f)
{
    bool any = sp_levels_zero_absent(f);
    for (int l = 0; l < f->n; l++) any = any || sp_level_may_be_empty(f, l);
    return any;
}
