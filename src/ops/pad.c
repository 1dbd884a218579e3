/* Pad: every axis grows by its two pads of the second input, or those axes that the fourth names; pads may be negative. */
#include "ops/ints.h"
#include <string.h>

static sparta_status read_axes(sp_graph *g, sp_node *n, int rank, int *axis, int *count)
{
    int64_t axes[SPARTA_RANK];
    bool set[SPARTA_RANK];
    SP_TRY(sp_ops_axes(g, n, 3, rank, set, count)); /* none twice */
    SP_TRY(sp_ops_constants(g, n, 3, "axes", SPARTA_RANK, axes, count));
    if (*count < 0) *count = rank;
    for (int i = 0; i < *count; i++)
        SP_TRY(sp_ops_axis(g, n, sp_ops_has(n, 3) ? axes[i] : i, rank, &axis[i]));
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const char *mode = sp_attr_string(&n->attrs, "mode", "constant");
    sp_dims dims = n->in[0]->dims;
    sp_list pads;
    int axis[SPARTA_RANK], count;
    if (strcmp(mode, "constant") && strcmp(mode, "reflect") && strcmp(mode, "edge") && strcmp(mode, "wrap"))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "mode is \"%.40s\"; it must be constant, reflect, edge or wrap", mode);
    SP_TRY(sp_ops_same_type(g, n, 0, 2));
    SP_TRY(sp_ops_scalar(g, n, 2));
    SP_TRY(sp_ops_list(g, n, 1, "the pads", &pads));
    SP_TRY(read_axes(g, n, dims.rank, axis, &count));
    if (pads.n != 2 * count)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%d pads for %d axes; two for each are needed", pads.n,
                           count);
    sp_dims grown = {.rank = 0};
    for (int i = 0; i < dims.rank; i++) {
        const sp_expr *size = dims.dim[i];
        for (int k = 0; k < count; k++) {
            if (axis[k] != i) continue;
            size = sp_expr_add(g->arena, size, pads.x[k]);
            size = sp_expr_add(g->arena, size, pads.x[count + k]);
        }
        SP_TRY(sp_ops_append(g, n, &grown, size));
    }
    return sp_ops_done(n, n->in[0]->dtype, &grown);
}

/* ------------------------------------------------------------------ flow */
/* Pads of one axis; 0 where it has none. */
static sparta_status pads_of(sp_axes *a, int64_t before[SPARTA_RANK], int64_t after[SPARTA_RANK])
{
    int axis[SPARTA_RANK], count, n;
    int64_t pads[2 * SPARTA_RANK];
    SP_TRY(read_axes(a->g, (sp_node *)a->n, a->n->in[0]->dims.rank, axis, &count));
    SP_TRY(sp_ops_constants(a->g, a->n, 1, "the pads", 2 * SPARTA_RANK, pads, &n));
    for (int i = 0; i < SPARTA_RANK; i++) before[i] = after[i] = 0;
    for (int i = 0; i < count; i++) {
        before[axis[i]] = pads[i];
        after[axis[i]] = pads[count + i];
    }
    return SPARTA_OK;
}

/* Pads whose sums and differences need no second look; beyond them nothing is said. */
static bool moderate(const int64_t pads[SPARTA_RANK])
{
    const int64_t most = (int64_t)1 << 40;
    for (int i = 0; i < SPARTA_RANK; i++)
        if (pads[i] < -most || pads[i] > most) return false;
    return true;
}

/* A padded axis whose border is made of x: of what is alike it is alike. A run has enough to reflect. */
static sparta_status mixed_axis(sp_axes *a, int k, int64_t before, int64_t after, int out)
{
    int in;
    SP_TRY(sp_axes_label(a, a->n->in[0]->dims.dim[k], SP_WHOLE, "Pad makes its border of them", &in));
    int64_t run = 1 + (before < 0 ? -before : before) + (after < 0 ? -after : after);
    a->label[in].run = run;
    a->label[in].alike = true;
    a->label[out].run = run + before + after;
    a->in[0].axis[k] = sp_axis_of(in);
    return SPARTA_OK;
}

/* Constant: x is a window of y. Otherwise the border is made of x, and padded axes are mixed. */
static sparta_status axes(sp_axes *a)
{
    const sp_node *n = a->n;
    int64_t before[SPARTA_RANK], after[SPARTA_RANK];
    bool fill = sp_ops_has(n, 2), plain = !strcmp(sp_attr_string(&n->attrs, "mode", "constant"), "constant");
    if (!n->in[1]->constant) return SPARTA_OK; /* opaque */
    SP_TRY(pads_of(a, before, after));
    if (!moderate(before) || !moderate(after)) return SPARTA_OK;
    plain &= !fill || n->in[2]->constant;
    a->how = plain ? SP_FLOW_MOVE : SP_FLOW_FUNCTION;
    a->no_values = !plain && fill; /* a border that is computed */
    a->fill = plain && fill ? n->in[2]->constant : NULL;
    a->in[0].role = a->out[0].role = SP_ARG;
    if (!plain && fill) a->in[2].role = SP_ARG;
    for (int k = 0; k < n->out[0]->dims.rank; k++) {
        bool padded = before[k] || after[k], crops = before[k] < 0 || after[k] < 0;
        int out;
        SP_TRY(sp_axes_label(a, n->out[0]->dims.dim[k], SP_EACH,
                             padded && (crops || !plain) ? "Pad makes its border of them" : NULL, &out));
        a->in[0].axis[k] = a->out[0].axis[k] = sp_axis_of(out);
        if (padded && plain) a->in[0].axis[k] = sp_axis_window(out, before[k], 1);
        if (padded && !plain) SP_TRY(mixed_axis(a, k, before[k], after[k], out));
    }
    return SPARTA_OK;
}

/* What is left of the border. */
static sparta_status shrink(const sp_shrink *s)
{
    int64_t before[SPARTA_RANK], after[SPARTA_RANK], pads[2 * SPARTA_RANK];
    int axis[SPARTA_RANK], count;
    sp_axes a = *s->axes;
    if (s->axes->how != SP_FLOW_MOVE) return SPARTA_OK;
    SP_TRY(pads_of(&a, before, after));
    SP_TRY(read_axes(s->g, s->n, s->n->in[0]->dims.rank, axis, &count));
    for (int i = 0; i < count; i++) {
        int k = axis[i], l = s->axes->out[0].axis[k].label[0];
        int64_t size = s->axes->label[l].size;
        bool whole = before[k] < 0 || after[k] < 0 || size < 0; /* those stay as they are */
        pads[i] = whole ? before[k] : sp_shrink_count(s, l, 0, before[k]);
        pads[count + i] = whole ? after[k] : sp_shrink_count(s, l, size - after[k], size);
    }
    return sp_shrink_list(s, 1, 2 * count, pads);
}

SP_RULE(Pad, shape, SP_ANY, SP_EXACT, axes, shrink,
        "the same elements with a border; a padded border is not the constant", "");
