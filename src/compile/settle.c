/* settle: where does each value lie? A node has a fastest way in each layout that somebody makes its result in, or one way only. Where neighbours
 * differ a conversion stands between them, over rows and once for all readers of a value. The sum of both is made small in sweeps over the graph: a node takes the way that is cheapest with what its
 * neighbours have now, until none changes. Models are nearly chains, so that a few sweeps do. They begin twice, with each node where it is fastest by itself and with all that can in rows, and what takes
 * less counts: out of a chain in panels none moves alone.
 *
 *     norm --panels--> [few_dense: 10 us, in rows] --panels--> norm      with two conversions of 3 us the product in panels, 12 us, is faster
 */
#include "compile/lower.h"
#include <string.h>

enum { SWEEPS = 8 };

typedef struct settling {
    lowering *l;
    sp_layout *way;           /* of each node: its present one */
    sp_layout *lies;          /* of each value */
    int (*reads)[SP_LAYOUTS]; /* of each value: how many operands want it there */
    double (*us)[SP_LAYOUTS]; /* of each node in each way */
    double *elements;         /* of each value */
    double each[SP_LAYOUTS];  /* microseconds to convert an element, as lowering.convert_us */
} settling;

/* ------------------------------------------------------------------ ways */

bool sp_lower_is_view(const sp_node *n)
{
    if (n->op != SP_OP_Split || !n->in[0] || n->in[0]->constant) return false;
    const int64_t axis = sp_attr_int(&n->attrs, "axis", 0);
    if (axis != -1 && axis != n->in[0]->dims.rank - 1) return false;
    for (int i = 0; i < n->n_out; i++) {
        int64_t features;
        if (!sp_expr_is_const(n->out[i]->dims.dim[n->out[i]->dims.rank - 1], &features) || features % 4 ||
            n->out[i]->is_output)
            return false;
    }
    return n->in[0]->dtype == SPARTA_F32 && n->in[0]->dims.rank >= 2;
}

/* What was not timed has the way that was chosen, and the reference. */
static void complete(lower_node *ln)
{
    lower_way *mine = &ln->way[sp_implement_layout(ln->im)], *rows = &ln->way[SP_LAYOUT_ROWS];
    if (!mine->im) {
        *mine = (lower_way){.im = ln->im, .us = ln->us};
        memcpy(mine->point, ln->point, sizeof mine->point);
    }
    if (rows->im || ln->task.mask || ln->pin) return;
    rows->im = sp_implement_matches(&sp_implement_generated, &ln->task) ? &sp_implement_generated
                                                                        : &sp_implement_builtin;
}

static bool has(const lower_node *ln, sp_layout way)
{
    return ln->way[way].im || (sp_layout_has_lanes(way) && sp_lower_is_view(ln->node));
}

sp_layout sp_lower_takes(const sp_node *n, const sp_implement *im, sp_layout layout, int i)
{
    if (!im || (!im->kernel && sp_layout_has_lanes(layout))) return i == 0 ? layout : SP_LAYOUT_ROWS;
    return sp_implement_takes(im, n, i, layout);
}

/* Constants lie in rows and are converted when a session is made, if ever. */
static bool counts(const sp_value *v)
{
    return v && !v->constant;
}

/* ------------------------------------------------------------------ sums */

/* Take node i's reads in, or out again, and put its results where its present way has them. */
static void count(settling *s, int i, int by)
{
    const lower_node *ln = &s->l->node[i];
    const sp_layout way = s->way[i];
    for (int k = 0; k < ln->node->n_in; k++)
        if (counts(ln->node->in[k]))
            s->reads[ln->node->in[k]->id][sp_lower_takes(ln->node, ln->way[way].im, way, k)] += by;
    for (int k = 0; k < ln->node->n_out; k++) s->lies[ln->node->out[k]->id] = way;
}

static void move(settling *s, int i, sp_layout way)
{
    count(s, i, -1);
    s->way[i] = way;
    count(s, i, 1);
}

/* Out of lanes into rows, for whoever wants it elsewhere, and from rows into each layout that somebody wants. */
static double conversion(const settling *s, const sp_value *v)
{
    const sp_layout from = s->lies[v->id];
    bool other = v->is_output && from != SP_LAYOUT_ROWS;
    double us = 0;
    for (int to = 0; to < SP_LAYOUTS; to++) {
        if (to == (int)from || !s->reads[v->id][to]) continue;
        other = true;
        if (to != SP_LAYOUT_ROWS) us += s->each[to];
    }
    if (other && from != SP_LAYOUT_ROWS) us += s->each[SP_LAYOUT_ROWS];
    return us * s->elements[v->id];
}

/* What node i and the conversions around it take. */
static double around(const settling *s, int i)
{
    const sp_node *n = s->l->node[i].node;
    double us = s->us[i][s->way[i]];
    for (int k = 0; k < n->n_in; k++) {
        bool again = !counts(n->in[k]);
        for (int j = 0; j < k && !again && k < SP_OPERANDS; j++) again = n->in[j] == n->in[k];
        if (!again) us += conversion(s, n->in[k]);
    }
    for (int k = 0; k < n->n_out; k++) us += conversion(s, n->out[k]);
    return us;
}

static bool sweep(settling *s)
{
    bool changed = false;
    for (int i = 0; i < s->l->n_nodes; i++)
        for (int way = 0; way < SP_LAYOUTS; way++) {
            const sp_layout was = s->way[i];
            if (way == (int)was || !has(&s->l->node[i], (sp_layout)way)) continue;
            const double now = around(s, i);
            move(s, i, (sp_layout)way);
            if (around(s, i) < now * (1 - LOWER_NOISE))
                changed = true;
            else
                move(s, i, was);
        }
    return changed;
}

/* ------------------------------------------------------------------ the decision */

static sparta_status begin(settling *s)
{
    lowering *l = s->l;
    const size_t nodes = (size_t)l->n_nodes + 1, values = (size_t)l->g->n_values + 1;
    s->us = sp_arena_array(l->arena, nodes, sizeof *s->us);
    s->lies = sp_arena_array(l->arena, values, sizeof *s->lies);
    s->reads = sp_arena_array(l->arena, values, sizeof *s->reads);
    s->elements = sp_arena_array(l->arena, values, sizeof *s->elements);
    if (!s->us || !s->lies || !s->reads || !s->elements) return sp_ctx_status(l->cx);
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        complete(ln);
        for (int w = 0; w < SP_LAYOUTS; w++)
            if (ln->way[w].im) SP_TRY(sp_lower_us(l, ln, &ln->way[w], &s->us[i][w]));
    }
    return SPARTA_OK;
}

/* Each where it is fastest by itself, or in rows where it can be; a view where its input is. */
static void start(settling *s, bool rows)
{
    for (int i = 0; i < s->l->g->n_values; i++) {
        s->lies[i] = SP_LAYOUT_ROWS;
        memset(s->reads[i], 0, sizeof s->reads[i]);
    }
    for (int i = 0; i < s->l->n_nodes; i++) {
        const lower_node *ln = &s->l->node[i];
        s->way[i] = sp_lower_is_view(ln->node)           ? s->lies[ln->node->in[0]->id]
                    : rows && ln->way[SP_LAYOUT_ROWS].im ? SP_LAYOUT_ROWS
                                                         : sp_implement_layout(ln->im);
        count(s, i, 1);
    }
}

/* What all of it takes. */
static double total(const settling *s)
{
    double us = 0;
    for (int i = 0; i < s->l->n_nodes; i++) us += s->us[i][s->way[i]];
    for (int i = 0; i < s->l->g->n_values; i++) us += conversion(s, s->l->g->value[i]);
    return us;
}

/* Leaves the ways it came to in s->way, and what they take in *us. */
static sparta_status sweep_from(settling *s, bool rows, double *us)
{
    s->way = sp_arena_array(s->l->arena, (size_t)s->l->n_nodes + 1, sizeof *s->way);
    SP_NEED(s->l->cx, s->way);
    start(s, rows);
    for (int k = 0; k < SWEEPS && sweep(s); k++) SP_TRY(sp_check_cancel(s->l->cx));
    *us = total(s);
    return SPARTA_OK;
}

static sparta_status price(settling *s)
{
    const lowering *l = s->l;
    for (int to = 0; to < SP_LAYOUTS; to++)
        s->each[to] = (l->convert_us[to] > 0 ? l->convert_us[to] : 2.5e-4) * LOWER_CONVERT;
    for (int i = 0; i < l->g->n_values; i++) {
        const sp_value *v = l->g->value[i];
        double n = 1;
        if (!v->typed || v->constant) continue;
        for (int d = 0; d < v->dims.rank; d++) {
            int64_t size = 1;
            const sparta_status status = sp_expr_eval(l->cx, v->dims.dim[d], &l->sizes, &size);
            if (status == SPARTA_E_MEMORY || status == SPARTA_E_CANCELLED) return status;
            if (status != SPARTA_OK) sp_ctx_clear(l->cx);
            n *= (double)SP_MAX(size, 1);
        }
        s->elements[v->id] = n;
    }
    return SPARTA_OK;
}

/* The way that was settled for, into the node. */
static void take(lowering *l, lower_node *ln, sp_layout layout)
{
    const lower_way *way = &ln->way[layout];
    const sp_implement *was = ln->im;
    ln->layout = layout;
    if (!way->im) return; /* a view */
    ln->im = way->im;
    if (ln->im == was) return;
    if (ln->packed) sp_packed_free(l->cx, ln->packed); /* as the other way stores it */
    ln->packed = NULL;
    ln->us = way->us;
    memcpy(ln->point, way->point, sizeof ln->point);
    memcpy(ln->task.point, way->point, sizeof ln->point);
    if (ln->task.mask) sp_lower_reason(ln, l->peak);
}

sparta_status sp_lower_settle(lowering *l)
{
    settling s = {.l = l};
    SP_TRY(begin(&s));
    SP_TRY(price(&s));
    double in_rows;
    SP_TRY(sweep_from(&s, true, &in_rows));
    const sp_layout *way = s.way;
    SP_TRY(sweep_from(&s, false, &l->us));
    if (in_rows < l->us * (1 - LOWER_NOISE))
        l->us = in_rows;
    else
        way = s.way;
    for (int i = 0; i < l->n_nodes; i++) take(l, &l->node[i], way[i]);
    for (int i = 0; i < l->n_nodes; i++) SP_ASSERT(l->node[i].im);
    return SPARTA_OK;
}
