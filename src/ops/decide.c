/* Signs and comparisons of expressions.
 *
 * A sign is decided on points: every symbol 1, then each alone raised, then some mixed ones. For a sum of
 * symbols with integer factors the first two kinds are a proof (the value at 1, and no symbol lowers it);
 * products, quotients and the like are covered by the mixed points, and by the references, which check their
 * arguments again. */
#include "ops/ints.h"
#include <string.h>

#define SYMBOLS 12

typedef struct symbols {
    int n;
    bool too_many;
    const char *name[SYMBOLS];
    int64_t value[SYMBOLS];
} symbols;

static void collect(void *arg, const char *name)
{
    symbols *s = arg;
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->name[i], name)) return;
    s->too_many |= s->n == SYMBOLS;
    if (!s->too_many) s->name[s->n++] = name;
}

/* low <= x <= high at this point? */
static bool within_here(const sparta_graph *g, const sparta_expr *x, const symbols *s, int64_t low,
                        int64_t high)
{
    int64_t value;
    if (sparta_expr_eval(g->cx, x, &(sparta_bindings){s->n, s->name, s->value}, &value) != SPARTA_OK) {
        sparta_ctx_clear(g->cx); /* only "not known" */
        return false;
    }
    return value >= low && value <= high;
}

static bool within(const sparta_graph *g, const sparta_expr *x, int64_t low, int64_t high)
{
    static const int64_t raised[] = {2, 3, 64, 100003}, mixed[] = {2, 3, 5, 7, 11, 13, 17, 64, 512, 1009};
    symbols s = {0};
    sparta_expr_symbols(x, collect, &s);
    if (s.too_many) return false;
    for (int i = 0; i < s.n; i++) s.value[i] = 1;
    bool yes = within_here(g, x, &s, low, high);
    for (int i = 0; i < s.n && yes; i++) {
        for (size_t k = 0; k < SPARTA_COUNT(raised) && yes; k++) {
            s.value[i] = raised[k];
            yes = within_here(g, x, &s, low, high);
        }
        s.value[i] = 1;
    }
    for (size_t k = 0; k < SPARTA_COUNT(mixed) && yes; k++) {
        for (int i = 0; i < s.n; i++) s.value[i] = mixed[(k + 3 * (size_t)i) % SPARTA_COUNT(mixed)];
        yes = within_here(g, x, &s, low, high);
    }
    return yes;
}

bool sparta_ops_positive(const sparta_graph *g, const sparta_expr *x)
{
    return within(g, x, 1, INT64_MAX);
}

bool sparta_ops_natural(const sparta_graph *g, const sparta_expr *x)
{
    return within(g, x, 0, INT64_MAX);
}

bool sparta_ops_negative(const sparta_graph *g, const sparta_expr *x)
{
    return within(g, x, INT64_MIN, -1);
}

/* NULL (no memory, overflow) becomes "not known" unless it is memory. */
static sparta_status settle(sparta_graph *g, const sparta_expr *x, const sparta_expr **out)
{
    *out = x;
    if (x || sparta_ctx_status(g->cx) == SPARTA_E_MEMORY) return x ? SPARTA_OK : SPARTA_E_MEMORY;
    sparta_ctx_clear(g->cx);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ arithmetic */
sparta_status sparta_ops_divide(const sparta_graph *g, const sparta_expr *x, const sparta_expr *y,
                                const sparta_expr **out)
{
    sparta_ctx_clear(g->cx); /* "no" leaves no message, no memory does */
    *out = sparta_expr_divide_exact(g->arena, x, y);
    return !*out && sparta_ctx_status(g->cx) == SPARTA_E_MEMORY ? SPARTA_E_MEMORY : SPARTA_OK;
}

sparta_status sparta_ints_add(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out)
{
    return settle(g, sparta_expr_add(g->arena, a, b), out);
}

sparta_status sparta_ints_sub(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out)
{
    return settle(g, sparta_expr_sub(g->arena, a, b), out);
}

sparta_status sparta_ints_mul(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out)
{
    return settle(g, sparta_expr_mul(g->arena, a, b), out);
}

/* ONNX cuts off, expressions floor: the same where nothing is negative. */
sparta_status sparta_ints_div(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out)
{
    *out = NULL;
    if (!sparta_ops_natural(g, a) || !sparta_ops_positive(g, b)) return SPARTA_OK;
    return settle(g, sparta_expr_div(g->arena, a, b), out);
}

sparta_status sparta_ints_mod(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out)
{
    *out = NULL;
    if (!sparta_ops_natural(g, a) || !sparta_ops_positive(g, b)) return SPARTA_OK;
    return settle(g, sparta_expr_mod(g->arena, a, b), out);
}

sparta_status sparta_ints_min(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out)
{
    return settle(g, sparta_expr_min(g->arena, a, b), out);
}

sparta_status sparta_ints_max(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out)
{
    return settle(g, sparta_expr_max(g->arena, a, b), out);
}

/* ------------------------------------------------------------------ comparisons: 0, 1 or not known */
sparta_status sparta_ints_equal(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                const sparta_expr **out)
{
    const sparta_expr *up, *down;
    SPARTA_TRY(sparta_ints_sub(g, a, b, &up));
    SPARTA_TRY(sparta_ints_sub(g, b, a, &down));
    *out = NULL;
    if (!up || !down) return SPARTA_OK;
    if (sparta_expr_is(up, 0)) return settle(g, sparta_expr_const(g->arena, 1), out);
    if (sparta_ops_positive(g, up) || sparta_ops_positive(g, down))
        return settle(g, sparta_expr_const(g->arena, 0), out);
    return SPARTA_OK;
}

sparta_status sparta_ints_less(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                               const sparta_expr **out)
{
    const sparta_expr *up, *down;
    SPARTA_TRY(sparta_ints_sub(g, b, a, &up));
    SPARTA_TRY(sparta_ints_sub(g, a, b, &down));
    *out = NULL;
    if (!up || !down) return SPARTA_OK;
    if (sparta_ops_positive(g, up)) return settle(g, sparta_expr_const(g->arena, 1), out);
    if (sparta_ops_natural(g, down)) return settle(g, sparta_expr_const(g->arena, 0), out);
    return SPARTA_OK;
}

sparta_status sparta_ints_greater(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                  const sparta_expr **out)
{
    return sparta_ints_less(g, b, a, out);
}

static sparta_status negate(sparta_graph *g, const sparta_expr **truth)
{
    return *truth ? settle(g, sparta_expr_const(g->arena, sparta_expr_is(*truth, 0)), truth) : SPARTA_OK;
}

sparta_status sparta_ints_less_or_equal(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                        const sparta_expr **out)
{
    SPARTA_TRY(sparta_ints_less(g, b, a, out));
    return negate(g, out);
}

sparta_status sparta_ints_greater_or_equal(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                           const sparta_expr **out)
{
    SPARTA_TRY(sparta_ints_less(g, a, b, out));
    return negate(g, out);
}
