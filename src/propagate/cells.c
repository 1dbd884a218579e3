/* Cells and their contraction: out |= for some index of the labels it lacks, all of the views. */
#include "propagate/facts.h"
#include <math.h>
#include <string.h>

bool sp_spend(const sp_propagation *p, double steps)
{
    if (p->effort->steps < steps) {
        p->effort->spent |= SP_SPENT_STEPS;
        return false;
    }
    p->effort->steps -= steps;
    return true;
}

bool sp_room(const sp_propagation *p, int64_t n, size_t bytes)
{
    const double size = (double)n * (double)bytes;
    if (p->effort->bytes < size) {
        p->effort->spent |= SP_SPENT_BYTES;
        return false;
    }
    p->effort->bytes -= size;
    return true;
}

int64_t sp_axis_size(const sp_value *v, int axis)
{
    int64_t n;
    return sp_expr_is_const(v->dims.dim[axis], &n) ? n : -1;
}

int64_t sp_cells_count(int rank, const int64_t *extent)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        if (!sp_int_mul(n, extent[i], &n) || n > SP_CELLS) return -1;
    return n;
}

sparta_status sp_cells_add(const sp_propagation *p, int rank, sp_cells *into, const sp_cells *from)
{
    if (!into->at) {
        *into = *from;
        return SPARTA_OK;
    }
    sp_cells sum;
    int64_t extent[SPARTA_RANK] = {0}, index[SPARTA_RANK] = {0};
    for (int i = 0; i < rank; i++) extent[i] = SP_MAX(into->extent[i], from->extent[i]);
    int64_t n = sp_cells_count(rank, extent);
    if (n < 0 || !sp_room(p, n, 1)) return sp_cells_one(p->arena, 1, into); /* too fine to keep: all of it */
    SP_TRY(sp_cells_new(p->arena, rank, extent, &sum));
    for (int64_t at = 0; at < n; at++) {
        sum.at[at] = sp_cells_get(into, rank, index) | sp_cells_get(from, rank, index);
        for (int i = rank - 1; i >= 0 && ++index[i] == extent[i]; i--) index[i] = 0;
    }
    *into = sum;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ views */
static int space(const sp_axes *a, const sp_flow_operand *o, int label, bool input)
{
    return label + (input && !o->after && a->label[label].kind == SP_WHOLE ? SP_LABELS : 0);
}

void sp_view_strides(const sp_axes *a, const sp_flow_operand *o, int rank, const int64_t *extent, bool input,
                     int64_t stride[SP_SPACES])
{
    int64_t step = 1;
    memset(stride, 0, SP_SPACES * sizeof *stride);
    for (int i = rank - 1; i >= 0; i--) {
        int64_t inner = step;
        for (int j = o->axis[i].n - 1; extent[i] != 1 && j >= 0; j--) {
            int l = o->axis[i].label[j];
            stride[space(a, o, l, input)] += inner; /* += : a diagonal has a label twice */
            inner *= a->label[l].size;
        }
        step *= extent[i];
    }
}

sp_cells_view sp_view_of(const sp_axes *a, const sp_flow_operand *o, const sp_value *v, const sp_cells *c,
                         bool input, uint8_t bit)
{
    sp_cells_view view = {.at = c->at, .bit = bit};
    sp_view_strides(a, o, v->dims.rank, c->extent, input, view.stride);
    return view;
}

void sp_fact_vary(const sp_axes *a, int i, const sp_fact *f, bool vary[SP_SPACES])
{
    const int rank = a->n->in[i]->dims.rank;
    int64_t extent[SPARTA_RANK], stride[SP_SPACES];
    for (int k = 0; k < rank; k++) extent[k] = sp_tesa_extent(&f->tesa, k);
    sp_view_strides(a, &a->in[i], rank, extent, true, stride);
    for (int l = 0; l < SP_SPACES; l++) vary[l] |= stride[l] != 0;
}

void sp_view_vary(const sp_cells_view *v, bool vary[SP_SPACES])
{
    for (int l = 0; l < SP_SPACES; l++) vary[l] |= v->stride[l] != 0;
}

bool sp_extents(const sp_axes *a, const sp_flow_operand *o, const sp_value *v, bool input,
                const bool vary[SP_SPACES], int64_t *extent)
{
    bool fine = true;
    for (int i = 0; i < v->dims.rank; i++) {
        bool differs = false;
        int64_t size = sp_axis_size(v, i);
        for (int j = 0; j < o->axis[i].n; j++) differs |= vary[space(a, o, o->axis[i].label[j], input)];
        extent[i] = differs && size >= 0 ? size : 1;
        fine &= !differs || size >= 0;
    }
    return fine;
}

void sp_vary_whole(const sp_axes *a, bool *vary)
{
    for (bool again = true; again;) {
        again = false;
        /* In and out are one array; axes that are not there have no labels. */
        for (int o = 0; o < sp_node_slots(a->n); o++) {
            for (int i = 0; a->in[o].role != SP_SIDE && i < SPARTA_RANK; i++) {
                const sp_axis *x = &a->in[o].axis[i];
                bool some = false, all = true;
                for (int j = 0; j < x->n; j++) {
                    some |= vary[x->label[j]];
                    all &= vary[x->label[j]];
                }
                for (int j = 0; some && !all && j < x->n; j++) vary[x->label[j]] = true;
                again |= some && !all;
            }
        }
    }
}

/* ------------------------------------------------------------------ loops */
typedef struct loops {
    int depth, n;
    int64_t size[SP_SPACES];
    int64_t stride[SP_SPACES][8], out[SP_SPACES];
    int last[8]; /* the innermost loop that moves a view; -1: none */
    uint8_t bit[8], bits;
    double left; /* steps */
} loops;

/* Most of the time goes into rows: eight cells at a time, of each the bit that is asked for. */
static uint64_t eight(const uint8_t *a, uint8_t bit)
{
    uint64_t x;
    memcpy(&x, a, 8);
    return (x >> (bit == SP_SOME)) & 0x0101010101010101u;
}

/* out |= bits where a has its bit. */
static void or_row(const uint8_t *a, uint8_t bit, int64_t n, uint8_t *out, uint8_t bits)
{
    for (; n >= 8; n -= 8, a += 8, out += 8) {
        uint64_t y;
        memcpy(&y, out, 8);
        y |= eight(a, bit) * bits;
        memcpy(out, &y, 8);
    }
    for (int64_t i = 0; i < n; i++) out[i] |= a[i] & bit ? bits : 0;
}

/* Is there a place where a has its bit, and b too, unless it is NULL? Steps taken come back. */
static int64_t meet(const uint8_t *a, uint8_t ma, const uint8_t *b, uint8_t mb, int64_t n, bool *found)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        *found = (eight(a + i, ma) & (b ? eight(b + i, mb) : UINT64_MAX)) != 0;
        if (*found) return i / 8 + 1;
    }
    for (; i < n && !*found; i++) *found = a[i] & ma && (!b || b[i] & mb);
    return n / 8 + 1;
}

/* The innermost loop: o |= all views have their bit. Views that do not move have been looked at. Steps taken come back. */
static int64_t inner(const loops *s, int d, const uint8_t *const *at, uint8_t *out)
{
    int moving = 0;
    int64_t i = 0, n = s->size[d], so = s->out[d], sa = 0, sb = 0;
    const uint8_t *a = NULL, *b = NULL;
    uint8_t ma = 0, mb = 0;
    bool found = false;
    for (int k = 0; k < s->n; k++) {
        if (!s->stride[d][k]) continue;
        if (moving++ == 0)
            a = at[k], sa = s->stride[d][k], ma = s->bit[k];
        else
            b = at[k], sb = s->stride[d][k], mb = s->bit[k];
    }
    if (moving == 0) {
        for (; i < n; i++) out[i * so] |= s->bits;
    } else if (moving <= 2 && so == 0 && sa == 1 && (!b || sb == 1)) {
        if ((out[0] & s->bits) != s->bits) i = meet(a, ma, b, mb, n, &found);
        if (found) out[0] |= s->bits;
    } else if (moving == 1 && so == 0) {
        for (; i < n && (out[0] & s->bits) != s->bits; i++)
            if (a[i * sa] & ma) out[0] |= s->bits;
    } else if (moving == 1 && so == 1 && sa == 1) {
        or_row(a, ma, n, out, s->bits);
        i = n / 8;
    } else if (moving == 1) {
        for (; i < n; i++)
            if (a[i * sa] & ma) out[i * so] |= s->bits;
    } else if (moving == 2) {
        for (; i < n; i++)
            if (a[i * sa] & ma && b[i * sb] & mb) out[i * so] |= s->bits;
    } else {
        for (; i < n; i++) {
            bool all = true;
            for (int k = 0; k < s->n; k++) all &= (at[k][i * s->stride[d][k]] & s->bit[k]) != 0;
            if (all) out[i * so] |= s->bits;
        }
    }
    return i;
}

#define LOOK 16 /* rows after which to see whether there is anything left to find */

/* Is every cell that the innermost loop can set already set? */
static bool is_full(const loops *s, const uint8_t *out)
{
    const int d = s->depth - 1;
    for (int64_t i = 0; i < (s->out[d] ? s->size[d] : 1); i++)
        if ((out[i * s->out[d]] & s->bits) != s->bits) return false;
    return true;
}

static void descend(loops *s, int d, const uint8_t *const *at, uint8_t *out)
{
    s->left -= 4;
    if (s->left < 0) return;
    /* A view that has come to its place and lacks the bit settles everything below. */
    for (int i = 0; i < s->n; i++)
        if (s->last[i] < d && !(at[i][0] & s->bit[i])) return;
    if (d == s->depth) {
        out[0] |= s->bits;
        return;
    }
    if (d == s->depth - 1) {
        s->left -= (double)inner(s, d, at, out);
        return;
    }
    const uint8_t *here[8];
    for (int64_t i = 0; i < s->size[d] && s->left >= 0; i++) {
        /* The same cells over and over. */
        const bool again = d == s->depth - 2 && !s->out[d] && i % LOOK == LOOK - 1;
        if (again && is_full(s, out)) return;
        for (int k = 0; k < s->n; k++) here[k] = at[k] + i * s->stride[d][k];
        descend(s, d + 1, here, out + i * s->out[d]);
    }
}

double sp_contract(const sp_axes *a, const sp_cells_view *view, int n, uint8_t *out,
                   const int64_t out_stride[SP_SPACES], uint8_t bits, double most_steps)
{
    loops s = {.n = n, .bits = bits, .left = most_steps};
    const uint8_t *at[8];
    int64_t weight[SP_SPACES];
    for (int i = 0; i < n; i++) {
        at[i] = view[i].at;
        s.bit[i] = view[i].bit;
    }
    for (int l = 0; l < SP_SPACES; l++) {
        bool moves = out_stride[l] != 0;
        int64_t most = out_stride[l];
        for (int i = 0; i < n; i++) {
            moves |= view[i].stride[l] != 0;
            most = SP_MAX(most, view[i].stride[l]);
        }
        if (!moves) continue;
        int d = s.depth++; /* larger strides outside */
        while (d > 0 && weight[d - 1] < most) {
            weight[d] = weight[d - 1];
            s.size[d] = s.size[d - 1];
            s.out[d] = s.out[d - 1];
            memcpy(s.stride[d], s.stride[d - 1], sizeof s.stride[d]);
            d--;
        }
        weight[d] = most;
        s.size[d] = a->label[l % SP_LABELS].size;
        s.out[d] = out_stride[l];
        for (int i = 0; i < n; i++) s.stride[d][i] = view[i].stride[l];
    }
    for (int i = 0; i < n; i++) {
        s.last[i] = s.depth - 1;
        while (s.last[i] >= 0 && !s.stride[s.last[i]][i]) s.last[i]--;
    }
    descend(&s, 0, at, out);
    if (s.left >= 0) return most_steps - s.left;
    s.n = 0; /* all of it, and nothing asked */
    s.left = INFINITY;
    for (int d = 0; d < s.depth; d++)
        if (!s.out[d]) s.size[d] = SP_MIN(s.size[d], 1);
    descend(&s, 0, at, out);
    return most_steps;
}

void sp_contract_some(const sp_propagation *p, const sp_axes *a, const sp_cells_view *view, int n,
                      uint8_t *out, const int64_t out_stride[SP_SPACES], uint8_t bits)
{
    const double left = SP_MAX(p->effort->steps, 0);
    p->effort->steps = left - sp_contract(a, view, n, out, out_stride, bits, left);
    if (p->effort->steps <= 0) p->effort->spent |= SP_SPENT_STEPS;
}
