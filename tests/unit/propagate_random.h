/* Random models for the tests of propagation: always valid, small, and full of what propagation looks for.
 *
 *     draw d;
 *     sparta_status status = draw_graph(cx, seed, wild, &d);      d.g is inferred; sp_graph_free
 *     sparta_named_tensor in[DRAW_INPUTS];
 *     draw_inputs(&d, seed, in);                                  draw_inputs_free
 *
 * The same seed gives the same model. A model is made node by node: an operator is drawn from the table in
 * propagate_random_ops.h (adding an operator is one row), its maker chooses operands that fit from what there is and
 * makes the constants it needs: weights with masks (rows, columns, heads, blocks, single zeros, -0.0), shared with
 * others now and then. `reach` bounds the magnitudes, so that finite inputs stay finite; a wild model has no bounds. */
#ifndef SP_TESTS_PROPAGATE_RANDOM_H
#define SP_TESTS_PROPAGATE_RANDOM_H

#include "propagate/propagate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW_VALUES = 4096, DRAW_INPUTS = 4, DRAW_ELEMENTS = 1024 };

typedef struct draw {
    sparta_ctx *cx;
    sp_graph *g;
    sp_rng r;
    bool wild;
    int n, n_constants, n_symbols;
    sp_value *value[DRAW_VALUES], *constant[DRAW_VALUES];
    double reach[DRAW_VALUES]; /* by value id */
    int made[SP_OPS], refused[SP_OPS];
} draw;

static inline unsigned roll(draw *d, unsigned n)
{
    return n ? (unsigned)(sp_rng_next(&d->r) >> 33) % n : 0;
}

/* ------------------------------------------------------------------ dims */
/* Size of an axis; -1: a symbol, or arithmetic on one. */
static inline int64_t size_of(const sp_value *v, int axis)
{
    int64_t n;
    return sp_expr_is_const(v->dims.dim[axis], &n) ? n : -1;
}

/* Product of the dims that are numbers. */
static inline int64_t numbers_of(const sp_value *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->dims.rank; i++) n *= SP_MAX(size_of(v, i), 1);
    return n;
}

/* An axis that is a number of at least `least`, or -1. */
static inline int draw_axis(draw *d, const sp_value *v, int64_t least)
{
    for (int tries = 0; tries < 8; tries++) {
        int axis = (int)roll(d, (unsigned)v->dims.rank);
        if (v->dims.rank && size_of(v, axis) >= least) return axis;
    }
    return -1;
}

static inline bool all_numbers(const sp_value *v)
{
    for (int i = 0; i < v->dims.rank; i++)
        if (size_of(v, i) < 0) return false;
    return true;
}

/* ------------------------------------------------------------------ constants */
static inline double draw_number(draw *d)
{
    return ((double)roll(d, 17) - 8) / 4; /* sums of a few products are exact */
}

/* Zero where the mask says: whole slices of an axis, runs of them, blocks, or single elements. */
static inline void draw_mask(draw *d, sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t), inner = 1;
    unsigned kind = roll(d, 8);
    int axis = t->rank ? (int)roll(d, (unsigned)t->rank) : 0;
    for (int i = axis + 1; i < t->rank; i++) inner *= t->dim[i];
    int64_t size = t->rank ? t->dim[axis] : 1, from = roll(d, (unsigned)size),
            run = 1 + roll(d, (unsigned)size);
    uint64_t slices = sp_rng_next(&d->r) >> 20;
    if (kind == 0) return;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i / inner % size;
        bool zero = kind < 4    ? slices >> (at % 32) & 1       /* rows, columns */
                    : kind == 4 ? at >= from && at < from + run /* a head */
                    : kind == 5 ? (slices >> ((i / 2 + 7 * (i / inner / 2)) % 32) & 1) != 0 /* blocks */
                    : kind == 6 ? roll(d, 2) == 0
                                : roll(d, 16) != 0;
        if (zero) sp_element_set(t->dtype, t->data, i, roll(d, 4) ? 0.0 : -0.0);
    }
}

static inline sp_value *put_constant(draw *d, const sparta_tensor *t, double reach)
{
    sp_value *v;
    if (d->n_constants == DRAW_VALUES || sp_graph_add_constant(d->g, NULL, t, true, &v) != SPARTA_OK)
        return NULL;
    if (v->id < DRAW_VALUES) d->reach[v->id] = reach;
    d->constant[d->n_constants++] = v;
    return v;
}

/* A constant of these dims with a mask; one that is there already, now and then. */
static inline sp_value *draw_constant(draw *d, sparta_dtype dtype, int rank, const int64_t *dim)
{
    if (roll(d, 6) == 0)
        for (int i = 0; i < d->n_constants; i++) {
            const sparta_tensor *t = d->constant[i]->constant;
            bool same = t->rank == rank && t->dtype == dtype;
            for (int k = 0; same && k < rank; k++) same &= t->dim[k] == dim[k];
            if (same && d->reach[d->constant[i]->id] == 2) return d->constant[i];
        }
    uint8_t data[8 * 8 * DRAW_ELEMENTS];
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, data);
    int64_t n = sparta_tensor_elements(&t);
    if (n < 0 || n > 8 * DRAW_ELEMENTS) return NULL;
    for (int64_t i = 0; i < n; i++)
        sp_element_set(dtype, data, i,
                       dtype == SPARTA_BOOL       ? roll(d, 2)
                       : sp_dtype_is_float(dtype) ? draw_number(d)
                                                  : (double)roll(d, 4));
    draw_mask(d, &t);
    return put_constant(d, &t, 2);
}

static inline sp_value *draw_vector(draw *d, sparta_dtype dtype, int64_t n)
{
    return draw_constant(d, dtype, 1, &n);
}

static inline sp_value *put_scalar(draw *d, sparta_dtype dtype, double x)
{
    uint64_t data = 0;
    sp_element_set(dtype, &data, 0, x);
    sparta_tensor t = sparta_tensor_view(dtype, 0, NULL, &data);
    return put_constant(d, &t, fabs(x));
}

static inline sp_value *put_ints(draw *d, int n, const int64_t *x)
{
    int64_t count = n;
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, &count, (void *)(uintptr_t)x);
    return put_constant(d, &t, 8);
}

/* ------------------------------------------------------------------ nodes */
#define DRAW_INT(name_, x)                                                                                   \
    {                                                                                                        \
        .name = name_, .kind = SP_ATTR_INT, .i = x                                                           \
    }
#define DRAW_FLOAT(name_, x)                                                                                 \
    {                                                                                                        \
        .name = name_, .kind = SP_ATTR_FLOAT, .f = x                                                         \
    }
#define DRAW_STRING(name_, x)                                                                                \
    {                                                                                                        \
        .name = name_, .kind = SP_ATTR_STRING, .s = x                                                        \
    }
#define DRAW_INTS(name_, count, x)                                                                           \
    {                                                                                                        \
        .name = name_, .kind = SP_ATTR_INTS, .n = count, .ints = x                                           \
    }

static inline const sp_builtin *draw_find(const char *op)
{
    return strncmp(op, "sparta::", 8) ? sp_builtin_find("", op) : sp_builtin_find("sparta", op + 8);
}

static inline bool fits(const sp_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        for (int k = 0; k < n->out[i]->dims.rank; k++)
            if (numbers_of(n->out[i]) > DRAW_ELEMENTS || size_of(n->out[i], k) == 0 ||
                n->out[i]->dims.rank > 5)
                return false;
    return true;
}

/* Append a node; its outputs are typed and can be drawn. false: it does not fit, and is not there. */
static inline bool put_nodes(draw *d, const char *op, int n_in, sp_value *const *in, int n_out,
                             sp_value **out, double reach, int n_attr, const sp_attr *attr)
{
    const sp_builtin *row = draw_find(op);
    sp_node *n;
    sp_attrs attrs = {n_attr, attr};
    for (int i = 0; row && i < SP_MIN(n_in, row->min_in); i++)
        if (!in[i]) return false;
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    if (!row || d->n + n_out > DRAW_VALUES || d->g->n_values + n_out > DRAW_VALUES) return false;
    const int musts = d->g->n_musts;
    sparta_status status = sp_graph_add_node(d->g, row->id, NULL, n_in, in, n_out, out, &attrs, &n);
    if (status == SPARTA_OK)
        status = sp_ops_infer_node(d->g, n);
    else {
        d->refused[row->id]++;
        sp_ctx_clear(d->cx);
        return false;
    }
    if (status != SPARTA_OK || !fits(n) || d->g->n_musts > musts) { /* inputs are drawn for any sizes */
        d->g->n_musts = musts;
        if (getenv("SPARTA_DRAW_SAY") && status != SPARTA_OK)
            fprintf(stderr, "refused: %s\n", sparta_message(d->cx));
        if (status != SPARTA_OK) d->refused[row->id]++;
        sp_ctx_clear(d->cx);
        sp_graph_remove_node(d->g, d->g->n_nodes - 1);
        return false;
    }
    d->made[row->id]++;
    for (int i = 0; i < n_out; i++) {
        d->reach[out[i]->id] = reach;
        d->value[d->n++] = out[i];
    }
    return true;
}

static inline sp_value *put_node(draw *d, const char *op, int n_in, sp_value *const *in, double reach,
                                 int n_attr, const sp_attr *attr)
{
    sp_value *out = NULL;
    return put_nodes(d, op, n_in, in, 1, &out, reach, n_attr, attr) ? out : NULL;
}

static inline sp_value *put1(draw *d, const char *op, sp_value *x, double reach)
{
    return put_node(d, op, 1, (sp_value *[]){x}, reach, 0, NULL);
}

static inline sp_value *put2(draw *d, const char *op, sp_value *x, sp_value *y, double reach)
{
    return put_node(d, op, 2, (sp_value *[]){x, y}, reach, 0, NULL);
}

static inline double reach_of(const draw *d, const sp_value *v)
{
    return d->reach[v->id];
}

/* ------------------------------------------------------------------ operands */
/* A value of this type; any type for SP_DTYPES. Those that nobody uses yet are likely, so that most of the model is alive. */
static inline sp_value *draw_value(draw *d, sparta_dtype dtype, int min_rank, int max_rank)
{
    bool unused = roll(d, 3) != 0;
    for (int tries = 0; tries < 24; tries++) {
        sp_value *v = d->value[roll(d, (unsigned)d->n)];
        if (unused && tries < 12 && sp_graph_uses(d->g, v)) continue;
        if (dtype != SP_DTYPES && v->dtype != dtype) continue;
        if (v->dims.rank >= min_rank && v->dims.rank <= max_rank) return v;
    }
    return NULL;
}

/* Bring a value into reach again. */
static inline sp_value *tame(draw *d, sp_value *x, double most)
{
    if (!x || d->wild || reach_of(d, x) <= most) return x;
    if (most < 1 || roll(d, 3) == 0) {
        sp_value *scale = put_scalar(d, x->dtype, exp2(floor(log2(most / reach_of(d, x)))));
        return scale ? put2(d, "Mul", x, scale, most) : NULL;
    }
    if (roll(d, 2)) return put1(d, "Tanh", x, 1);
    sp_value *low = put_scalar(d, x->dtype, -most), *high = put_scalar(d, x->dtype, most);
    return low && high ? put_node(d, "Clip", 3, (sp_value *[]){x, low, high}, most, 0, NULL) : NULL;
}

static inline sp_value *draw_float(draw *d, int min_rank, int max_rank)
{
    sp_value *x = draw_value(d, roll(d, 12) ? SPARTA_F32 : SPARTA_F64, min_rank, max_rank);
    return tame(d, x, 32);
}

/* Another value that broadcasts with x. */
static inline sp_value *draw_partner(draw *d, const sp_value *x)
{
    for (int tries = 0; tries < 40; tries++) {
        sp_value *y = d->value[roll(d, (unsigned)d->n)];
        bool good = y->dtype == x->dtype && y->dims.rank <= x->dims.rank;
        for (int i = 0; good && i < y->dims.rank; i++) {
            const sp_expr *a = y->dims.dim[y->dims.rank - 1 - i], *b = x->dims.dim[x->dims.rank - 1 - i];
            good &= sp_expr_equal(a, b) || sp_expr_is(a, 1) || sp_expr_is(b, 1);
        }
        if (good && (y != x || roll(d, 4) == 0)) return tame(d, y, 32);
    }
    return NULL;
}

/* A constant that broadcasts with x: a scalar, a vector along one axis, or of its dims. */
static inline sp_value *draw_beside(draw *d, const sp_value *x)
{
    int64_t dim[SPARTA_RANK];
    int rank = x->dims.rank,
        only = roll(d, 4) ? rank - 1 - (int)roll(d, (unsigned)SP_MIN(SP_MAX(rank, 1), 2)) : -1;
    bool full = roll(d, 4) == 0;
    if (rank == 0 || (only < 0 && !full)) return draw_constant(d, x->dtype, 0, NULL);
    int from = full ? (int)roll(d, (unsigned)rank) : only;
    for (int i = from; i < rank; i++)
        dim[i - from] = (full || i == only) && size_of(x, i) > 0 ? size_of(x, i) : 1;
    return draw_constant(d, x->dtype, rank - from, dim);
}

/* A constant for each index of one axis of x that settles things: zeros and others, or all of one kind. */
static inline sp_value *draw_switch(draw *d, const sp_value *x, sparta_dtype dtype)
{
    int axis = x->dims.rank ? draw_axis(d, x, 1) : -1;
    int64_t dim[SPARTA_RANK] = {1}, size = axis < 0 ? 1 : size_of(x, axis);
    int rank = axis < 0 ? 0 : x->dims.rank - axis;
    double data[64];
    unsigned kind = roll(d, 4); /* none, all, mixed */
    if (size > 64) return NULL;
    for (int i = 0; i < rank; i++) dim[i] = i ? 1 : size;
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, data);
    for (int64_t i = 0; i < size; i++) {
        bool on = kind == 0 ? false : kind == 1 ? true : roll(d, 2);
        sp_element_set(dtype, data, i, !on ? 0 : dtype == SPARTA_BOOL ? 1 : 1 + roll(d, 2));
    }
    return put_constant(d, &t, 2);
}

/* The scale of a normalisation: slimmed now and then. */
static inline sp_value *draw_scale(draw *d, sparta_dtype dtype, int rank, const int64_t *dim)
{
    uint8_t data[8 * DRAW_ELEMENTS];
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, data);
    int64_t n = sparta_tensor_elements(&t);
    if (roll(d, 3) || n > DRAW_ELEMENTS) return draw_constant(d, dtype, rank, dim);
    bool all = roll(d, 2);
    for (int64_t i = 0; i < n; i++)
        sp_element_set(dtype, data, i, all || roll(d, 3) ? roll(d, 2) ? 0.0 : -0.0 : draw_number(d));
    return put_constant(d, &t, 2);
}

/* ------------------------------------------------------------------ the whole graph */
typedef struct draw_row {
    const char *op;
    int weight;
    bool (*make)(draw *d, const char *op);
} draw_row;

static const draw_row *draw_table(int *n); /* in propagate_random_ops.h */

static inline sparta_status put_input(draw *d, const char *name, sparta_dtype dtype, int rank,
                                      const int64_t *dim, bool symbol)
{
    sp_dims dims = {.rank = rank};
    sp_value *v;
    for (int i = 0; i < rank; i++) {
        dims.dim[i] =
            symbol && i == 0 ? sp_expr_symbol(d->g->arena, "b") : sp_expr_const(d->g->arena, dim[i]);
        SP_NEED(d->cx, dims.dim[i]);
    }
    SP_TRY(sp_graph_add_input(d->g, name, dtype, &dims, &v));
    d->reach[v->id] = dtype == SPARTA_F32 ? 2 : 3;
    d->value[d->n++] = v;
    return SPARTA_OK;
}

static inline sparta_status draw_all_inputs(draw *d)
{
    static const int64_t sizes[] = {2, 3, 4, 4, 6, 8};
    int count = 1 + (int)roll(d, 2);
    bool symbol = roll(d, 2);
    char name[16];
    for (int i = 0; i < count; i++) {
        int64_t dim[SPARTA_RANK];
        int rank = 2 + (int)roll(d, 3);
        for (int k = 0; k < rank; k++) dim[k] = k == 0 ? 1 + roll(d, 3) : sizes[roll(d, SP_COUNT(sizes))];
        snprintf(name, sizeof name, "x%d", i);
        SP_TRY(put_input(d, name, SPARTA_F32, rank, dim, symbol));
    }
    if (roll(d, 3)) return SPARTA_OK;
    return put_input(d, "ids", SPARTA_I64, 2, (int64_t[]){2, 3}, symbol);
}

static inline void draw_step(draw *d)
{
    int total = 0, n;
    const draw_row *row = draw_table(&n);
    for (int i = 0; i < n; i++) total += draw_find(row[i].op) ? row[i].weight : 0;
    int at = (int)roll(d, (unsigned)total);
    for (int i = 0; i < n; i++) {
        if (!draw_find(row[i].op) || (at -= row[i].weight) >= 0) continue;
        (void)row[i].make(d, row[i].op);
        return;
    }
}

/* Most of the values that nobody uses, as they are (an output holds what it has) or summed over an axis, and now and then one that
 * somebody does use. */
static inline sparta_status draw_outputs(draw *d)
{
    int all = d->n;
    for (int i = 0; i < all; i++) {
        sp_value *v = d->value[i];
        if (!v->producer) continue;
        unsigned kind = sp_graph_uses(d->g, v) ? roll(d, 40) ? 0 : 1 : i == all - 1 ? 1 : roll(d, 5);
        if (kind == 0) continue;
        sp_value *sum = NULL;
        if (kind > 1 && v->dims.rank && v->dtype == SPARTA_F32)
            sum = put_node(d, "ReduceSum", 2,
                           (sp_value *[]){v, put_ints(d, 1, (int64_t[]){roll(d, (unsigned)v->dims.rank)})},
                           64, 0, NULL);
        SP_TRY(sp_graph_add_output(d->g, sum ? sum : v));
    }
    return SPARTA_OK;
}

static inline sparta_status draw_graph(sparta_ctx *cx, uint64_t seed, bool wild, draw *d)
{
    *d = (draw){.cx = cx, .r = sp_rng_seed(seed * 2654435761u + 17), .wild = wild};
    SP_TRY(sp_graph_create(cx, "random", &d->g));
    int nodes = 10 + (int)roll(d, 51);
    sparta_status status = draw_all_inputs(d);
    for (int tries = 0; status == SPARTA_OK && d->g->n_nodes < nodes && tries < 8 * nodes; tries++)
        draw_step(d);
    if (status == SPARTA_OK) status = draw_outputs(d);
    if (status == SPARTA_OK) status = sp_ops_infer(d->g);
    if (status != SPARTA_OK) {
        sp_graph_free(d->g);
        d->g = NULL;
    }
    return status;
}

/* ------------------------------------------------------------------ inputs */
static inline sparta_status draw_inputs(draw *d, uint64_t seed, sparta_named_tensor *out)
{
    d->r = sp_rng_seed(seed);
    int64_t symbol = 1 + roll(d, 3);
    for (int i = 0; i < d->g->n_inputs; i++) {
        const sp_value *v = d->g->input[i];
        int64_t dim[SPARTA_RANK];
        for (int k = 0; k < v->dims.rank; k++) dim[k] = size_of(v, k) < 0 ? symbol : size_of(v, k);
        out[i].name = v->name;
        SP_TRY(sp_tensor_alloc(d->cx, v->dtype, v->dims.rank, dim, &out[i].tensor));
        int64_t n = sparta_tensor_elements(&out[i].tensor);
        for (int64_t k = 0; k < n; k++) {
            static const double odd[] = {INFINITY, -INFINITY, NAN, 0, -0.0};
            double x = v->dtype == SPARTA_I64
                           ? roll(d, 4)
                           : draw_number(d) + (roll(d, 2) ? 0 : (sp_rng_uniform(&d->r) - 0.5) / 8);
            if (d->wild && v->dtype == SPARTA_F32 && roll(d, 6) == 0) x = odd[roll(d, SP_COUNT(odd))];
            sp_element_set(v->dtype, out[i].tensor.data, k, x);
        }
    }
    return SPARTA_OK;
}

static inline void draw_inputs_free(const draw *d, sparta_named_tensor *in)
{
    for (int i = 0; i < d->g->n_inputs; i++) sp_free(d->cx, in[i].tensor.data);
}

#include "propagate_random_ops.h"
#endif
