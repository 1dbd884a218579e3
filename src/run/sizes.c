/* Sizes of symbols that nobody gave: large enough for the model to run, or small enough. A convolution or a pool needs as much as its kernel reaches,
 * a skip connection that both sides have one size; every dim of the graph says what it needs. */
#include "run/run.h"
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 16, IMAGE_STEPS = 8 };

typedef struct needs {
    sparta_ctx *cx;
    const sp_graph *g;
    int n; /* dims that are arithmetic, each once */
    const sp_expr **dim;
    const sp_bindings *sizes;
} needs;

static int by_address(const void *a, const void *b)
{
    const sp_expr *x = *(const sp_expr *const *)a, *y = *(const sp_expr *const *)b;
    return x < y ? -1 : x > y;
}

static bool is_arithmetic(const sp_expr *x)
{
    return !sp_expr_is_const(x, NULL) && !sp_expr_is_symbol(x, NULL);
}

/* Values share their expressions: few of many dims are left. */
static sparta_status collect(needs *s)
{
    size_t most = 0, n = 0;
    for (int i = 0; i < s->g->n_values; i++) most += (size_t)s->g->value[i]->dims.rank;
    s->dim = sp_alloc_array(s->cx, most + 1, sizeof *s->dim);
    SP_NEED(s->cx, s->dim);
    for (int i = 0; i < s->g->n_values; i++) {
        const sp_value *v = s->g->value[i];
        for (int d = 0; v->typed && d < v->dims.rank; d++)
            if (is_arithmetic(v->dims.dim[d])) s->dim[n++] = v->dims.dim[d];
    }
    qsort(s->dim, n, sizeof *s->dim, by_address);
    for (size_t i = 0; i < n; i++)
        if (!i || s->dim[i] != s->dim[i - 1]) s->dim[s->n++] = s->dim[i];
    return SPARTA_OK;
}

static bool is_broken(const needs *s, const sp_must *m)
{
    int64_t a = 0, b = 1;
    const bool known = sp_expr_eval(s->cx, m->a, s->sizes, &a) == SPARTA_OK &&
                       sp_expr_eval(s->cx, m->b, s->sizes, &b) == SPARTA_OK;
    if (!known) sp_ctx_clear(s->cx);
    return a != b;
}

/* The first that is broken at these sizes, as the one of its sides that is no number; NULL: none is. */
static const sp_expr *broken(const needs *s)
{
    for (int i = 0; i < s->g->n_musts; i++) {
        const sp_must *m = &s->g->must[i];
        if (is_broken(s, m)) return sp_expr_is_const(m->a, NULL) ? m->b : m->a;
    }
    return NULL;
}

static bool is_empty(const needs *s, const sp_expr *dim)
{
    int64_t size = 0;
    if (sp_expr_eval(s->cx, dim, s->sizes, &size) != SPARTA_OK) sp_ctx_clear(s->cx);
    return size < 1;
}

/* The first dim that is not at least 1 at these sizes, or one that must equal another and does not; NULL: all are well. */
static const sp_expr *unmet(const needs *s)
{
    const sp_expr *dim = broken(s);
    for (int i = 0; i < s->n && !dim; i++)
        if (is_empty(s, s->dim[i])) dim = s->dim[i];
    return dim;
}

static int count_unmet(const needs *s)
{
    int n = 0;
    for (int i = 0; i < s->g->n_musts; i++) n += is_broken(s, &s->g->must[i]);
    for (int i = 0; i < s->n; i++) n += is_empty(s, s->dim[i]);
    return n;
}

typedef struct raising {
    const sp_graph *g;
    const sp_bindings *sizes;
    const bool *fixed;
    int64_t *value;
    const int64_t *was; /* a symbol that occurs twice is doubled once */
    bool any;
} raising;

static void raise_one(void *arg, const char *name)
{
    raising *r = arg;
    for (int i = 0; i < r->sizes->n; i++) {
        if (strcmp(r->sizes->name[i], name) || r->fixed[i] || r->value[i] != r->was[i]) continue;
        const int64_t most = sp_symbol_within(r->g, name, LARGEST);
        if (r->value[i] >= most) continue;
        r->value[i] = SP_MIN(2 * r->value[i], most);
        r->any = true;
    }
}

/* Double what a dim that is too small is made of, until none is. False: that does not help. */
static bool raise_all(const needs *s, const bool *fixed, int64_t *value, int64_t *was)
{
    const sp_expr *dim;
    while ((dim = unmet(s))) {
        memcpy(was, value, (size_t)s->sizes->n * sizeof *was);
        raising r = {s->g, s->sizes, fixed, value, was, false};
        sp_expr_symbols(dim, raise_one, &r);
        if (!r.any) return false;
    }
    return true;
}

typedef struct lowering {
    const needs *s;
    const bool *fixed;
    int64_t *value;
    bool any;
} lowering;

/* The next smaller size that leaves less unmet. Usual sizes are small, so that all below can be tried. */
static void lower_one(void *arg, const char *name)
{
    lowering *l = arg;
    const sp_bindings *sizes = l->s->sizes;
    const int64_t least = SP_MAX(1, sp_graph_bound(l->s->g, name).least);
    for (int i = 0; i < sizes->n && !l->any; i++) {
        const int64_t was = l->value[i];
        if (strcmp(sizes->name[i], name) || l->fixed[i] || was > LARGEST) continue;
        const int before = count_unmet(l->s);
        while (!l->any && --l->value[i] >= least && !sp_ctx_cancelled(l->s->cx))
            l->any = count_unmet(l->s) < before;
        if (!l->any) l->value[i] = was;
    }
}

/* A size that must be a number may be met by smaller ones alone: `(h - 1)/48 + 1 == 1`. */
static void lower_all(const needs *s, const bool *fixed, int64_t *value)
{
    const sp_expr *dim;
    lowering l = {s, fixed, value, true};
    while (l.any && (dim = broken(s))) {
        l.any = false;
        sp_expr_symbols(dim, lower_one, &l);
    }
}

static bool meet(const needs *s, const bool *fixed, const int64_t *wished, int64_t *value, int64_t *was)
{
    if (raise_all(s, fixed, value, was)) return true;
    memcpy(value, wished, (size_t)s->sizes->n * sizeof *value);
    lower_all(s, fixed, value);
    return raise_all(s, fixed, value, was);
}

static void keep_first(void *arg, const char *name)
{
    const char **first = arg;
    if (!*first) *first = name;
}

/* What would say which symbol to give, where nothing runs without. */
static void note_broken(const needs *s)
{
    const char *name = NULL;
    const sp_expr *dim = broken(s);
    if (dim) sp_expr_symbols(dim, keep_first, &name);
    if (name) sp_note(s->cx, "no sizes were found that the model runs at; options.dims %s=N gives one", name);
}

/* Doubling went too far by up to a half: as small as each can be. */
static void lower_each(const needs *s, const int64_t *wished, int64_t *value)
{
    for (int i = 0; i < s->sizes->n; i++)
        for (int64_t low = wished[i] - 1, high = value[i]; high - low > 1;) {
            value[i] = low + (high - low) / 2;
            if (unmet(s))
                low = value[i];
            else
                high = value[i];
            value[i] = high;
        }
}

sparta_status sp_sizes_that_run(sparta_ctx *cx, const sp_graph *g, int n, const char *const *name,
                                const bool *fixed, int64_t *value)
{
    const sp_bindings sizes = {n, name, value};
    needs s = {.cx = cx, .g = g, .sizes = &sizes};
    int64_t *wished = sp_alloc_array(cx, 2 * (size_t)n + 1, sizeof *wished);
    SP_NEED(cx, wished);
    memcpy(wished, value, (size_t)n * sizeof *wished);
    sparta_status status = collect(&s);
    if (status == SPARTA_OK && unmet(&s)) {
        if (meet(&s, fixed, wished, value, wished + n)) {
            lower_each(&s, wished, value);
        } else {
            memcpy(value, wished, (size_t)n * sizeof *wished);
            note_broken(&s);
        }
    }
    sp_free(cx, s.dim);
    sp_free(cx, wished);
    return status;
}

static bool add_symbol(sp_symbols *s, const char *name, int axis)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->name[i], name)) return true;
    if (s->n == SP_GRAPH_SYMBOLS) return false;
    s->name[s->n] = name;
    s->axis[s->n++] = axis;
    return true;
}

sparta_status sp_input_symbols(sparta_ctx *cx, const sp_graph *g, sp_symbols *out)
{
    const char *name;
    out->n = 0;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++)
            if (sp_expr_is_symbol(g->input[i]->dims.dim[d], &name) && !add_symbol(out, name, d))
                return sp_fail(cx, SPARTA_E_LIMIT,
                               "model: its inputs have more than %d sizes that are not known; give some of "
                               "them a number",
                               SP_GRAPH_SYMBOLS);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ images */

/* Does a convolution read it, as it is or normalised, cast, padded on the way? `left` nodes may still be looked at. */
static bool is_convolved(const sp_graph *g, const sp_value *v, int steps, int64_t *left)
{
    for (int i = 0; i < g->n_nodes && --*left > 0; i++) {
        const sp_node *n = g->node[i];
        if (!n->n_in || n->in[0] != v) continue;
        if (n->op == SP_OP_Conv) return true;
        if (steps > 1 && n->out[0]->dims.rank == 4 && is_convolved(g, n->out[0], steps - 1, left))
            return true;
    }
    return false;
}

bool sp_symbol_is_image_side(const sp_graph *g, const char *symbol)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_value *v = g->input[i];
        const sp_expr *const *dim = v->dims.dim;
        if (v->dims.rank != 4 || !(sp_expr_is(dim[1], 1) || sp_expr_is(dim[1], 3))) continue;
        for (int d = 2; d < 4; d++) {
            const char *name;
            int64_t left = 1000000;
            if (sp_expr_is_symbol(dim[d], &name) && !strcmp(name, symbol))
                return is_convolved(g, v, IMAGE_STEPS, &left);
        }
    }
    return false;
}

/* ------------------------------------------------------------------ items and tokens */

static bool is_place_of_tokens(const sp_value *v, int axis)
{
    if (axis < 1) return false;
    return sp_dtype_is_float(v->dtype) ? axis == 1 && v->dims.rank == 3 : axis == v->dims.rank - 1;
}

/* Does it stand in front of an input, and where tokens stand in one? */
static void places_of(const sp_graph *g, const char *symbol, bool *front, bool *tokens)
{
    const char *name;
    *front = *tokens = false;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++) {
            if (!sp_expr_is_symbol(g->input[i]->dims.dim[d], &name) || strcmp(name, symbol) != 0) continue;
            *front |= !d;
            *tokens |= is_place_of_tokens(g->input[i], d);
        }
}

bool sp_symbol_counts_items(const sp_graph *g, const char *symbol)
{
    bool front, tokens;
    if (strstr(symbol, "batch")) return true;
    places_of(g, symbol, &front, &tokens);
    return front && !strstr(symbol, "seq");
}

bool sp_symbol_counts_tokens(const sp_graph *g, const char *symbol)
{
    bool front, tokens;
    if (strstr(symbol, "seq")) return true;
    places_of(g, symbol, &front, &tokens);
    return tokens && !front;
}

/* ------------------------------------------------------------------ words */

void sp_sizes_print(const sp_bindings *sizes, sp_text *out)
{
    for (int i = 0; i < sizes->n; i++)
        sp_text_printf(out, "%s%s=%lld", i ? " " : "", sizes->name[i], (long long)sizes->value[i]);
}

void sp_sizes_note(sparta_ctx *cx, const sp_bindings *given, const sp_bindings *sizes)
{
    const char *varies = NULL; /* the largest: of a batch and a sequence, the sequence */
    int64_t most = 0;
    sp_text t;
    sp_text_init(&t, cx);
    for (int i = 0; i < sizes->n; i++) {
        bool assumed = true;
        for (int k = 0; k < given->n && assumed; k++) assumed = strcmp(given->name[k], sizes->name[i]) != 0;
        if (!assumed) continue;
        if (sizes->value[i] >= most) varies = sizes->name[i], most = sizes->value[i];
        sp_text_printf(&t, "%s%s=%lld", t.size ? " " : "", sizes->name[i], (long long)sizes->value[i]);
    }
    if (varies) sp_note(cx, "sizes assumed: %s; options.dims %s=N", sp_text_str(&t), varies);
    sp_text_free(&t);
}
