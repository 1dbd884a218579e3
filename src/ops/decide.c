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
static bool within_here(const sp_graph *g, const sp_expr *x, const symbols *s, int64_t low, int64_t high)
{
    int64_t value;
    if (sp_expr_eval(g->cx, x, &(sp_bindings){s->n, s->name, s->value}, &value) != SPARTA_OK) {
        sp_ctx_clear(g->cx); /* only "not known" */
        return false;
    }
    return value >= low && value <= high;
}

static bool within(const sp_graph *g, const sp_expr *x, int64_t low, int64_t high)
{
    static const int64_t raised[] = {2, 3, 64, 100003}, mixed[] = {2, 3, 5, 7, 11, 13, 17, 64, 512, 1009};
    symbols s = {0};
    sp_expr_symbols(x, collect, &s);
    if (s.too_many) return false;
    for (int i = 0; i < s.n; i++) s.value[i] = 1;
    bool yes = within_here(g, x, &s, low, high);
    for (int i = 0; i < s.n && yes; i++) {
        for (size_t k = 0; k < SP_COUNT(raised) && yes; k++) {
            s.value[i] = raised[k];
            yes = within_here(g, x, &s, low, high);
        }
        s.value[i] = 1;
    }
    for (size_t k = 0; k < SP_COUNT(mixed) && yes; k++) {
        for (int i = 0; i < s.n; i++) s.value[i] = mixed[(k + 3 * (size_t)i) % SP_COUNT(mixed)];
        yes = within_here(g, x, &s, low, high);
    }
    return yes;
}

bool sp_ops_positive(const sp_graph *g, const sp_expr *x)
{
    return within(g, x, 1, INT64_MAX);
}

bool sp_ops_natural(const sp_graph *g, const sp_expr *x)
{
    return within(g, x, 0, INT64_MAX);
}

bool sp_ops_negative(const sp_graph *g, const sp_expr *x)
{
    return within(g, x, INT64_MIN, -1);
}

/* NULL (no memory, overflow) becomes "not known" unless it is memory. */
static sparta_status settle(sp_graph *g, const sp_expr *x, const sp_expr **out)
{
    *out = x;
    if (x || sp_ctx_status(g->cx) == SPARTA_E_MEMORY) return x ? SPARTA_OK : SPARTA_E_MEMORY;
    sp_ctx_clear(g->cx);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ arithmetic */
sparta_status sp_ops_divide(const sp_graph *g, const sp_expr *x, const sp_expr *y, const sp_expr **out)
{
    sp_ctx_clear(g->cx); /* "no" leaves no message, no memory does */
    *out = sp_expr_divide_exact(g->arena, x, y);
    return !*out && sp_ctx_status(g->cx) == SPARTA_E_MEMORY ? SPARTA_E_MEMORY : SPARTA_OK;
}

const sp_expr *sp_ops_plus(const sp_graph *g, const sp_expr *x, int64_t by)
{
    return sp_expr_add(g->arena, x, sp_expr_const(g->arena, by));
}

const sp_expr *sp_ops_share(const sp_graph *g, const sp_expr *x, int64_t by, bool up)
{
    return sp_expr_div(g->arena, up ? sp_ops_plus(g, x, by - 1) : x, sp_expr_const(g->arena, by));
}

const sp_expr *sp_ops_at_least_zero(const sp_graph *g, const sp_expr *x)
{
    return !x || sp_ops_natural(g, x) ? x : sp_expr_max(g->arena, x, sp_expr_const(g->arena, 0));
}

#define ARITHMETIC(verb)                                                                                     \
    sparta_status sp_ints_##verb(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out)       \
    {                                                                                                        \
        return settle(g, sp_expr_##verb(g->arena, a, b), out);                                               \
    }
ARITHMETIC(add)
ARITHMETIC(sub)
ARITHMETIC(mul)
ARITHMETIC(min)
ARITHMETIC(max)

/* ONNX cuts off, expressions floor: the same where nothing is negative. */
#define DIVISION(verb)                                                                                       \
    sparta_status sp_ints_##verb(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out)       \
    {                                                                                                        \
        *out = NULL;                                                                                         \
        if (!sp_ops_natural(g, a) || !sp_ops_positive(g, b)) return SPARTA_OK;                               \
        return settle(g, sp_expr_##verb(g->arena, a, b), out);                                               \
    }
DIVISION(div)
DIVISION(mod)

/* ------------------------------------------------------------------ comparisons: 0, 1 or not known */
sparta_status sp_ints_equal(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out)
{
    const sp_expr *up, *down;
    SP_TRY(sp_ints_sub(g, a, b, &up));
    SP_TRY(sp_ints_sub(g, b, a, &down));
    *out = NULL;
    if (!up || !down) return SPARTA_OK;
    if (sp_expr_is(up, 0)) return settle(g, sp_expr_const(g->arena, 1), out);
    if (sp_ops_positive(g, up) || sp_ops_positive(g, down)) return settle(g, sp_expr_const(g->arena, 0), out);
    return SPARTA_OK;
}

sparta_status sp_ints_less(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out)
{
    const sp_expr *up, *down;
    SP_TRY(sp_ints_sub(g, b, a, &up));
    SP_TRY(sp_ints_sub(g, a, b, &down));
    *out = NULL;
    if (!up || !down) return SPARTA_OK;
    if (sp_ops_positive(g, up)) return settle(g, sp_expr_const(g->arena, 1), out);
    if (sp_ops_natural(g, down)) return settle(g, sp_expr_const(g->arena, 0), out);
    return SPARTA_OK;
}

sparta_status sp_ints_greater(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out)
{
    return sp_ints_less(g, b, a, out);
}

static sparta_status negate(sp_graph *g, const sp_expr **truth)
{
    return *truth ? settle(g, sp_expr_const(g->arena, sp_expr_is(*truth, 0)), truth) : SPARTA_OK;
}

sparta_status sp_ints_less_or_equal(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out)
{
    SP_TRY(sp_ints_less(g, b, a, out));
    return negate(g, out);
}

sparta_status sp_ints_greater_or_equal(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out)
{
    SP_TRY(sp_ints_less(g, a, b, out));
    return negate(g, out);
}
