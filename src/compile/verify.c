/* verify: compile's own check. The references of the file are run on one item of a few tokens; the package on COPIES of that item at once, so
 * that full panels, part-filled ones and panels shared by threads all have to give the one answer. */
#include "compile/lower.h"
#include "ops/ops.h"
#include "run/run.h"
#include <math.h>
#include <string.h>

enum { COPIES = 11, TOKENS = 6, SYMBOLS = 32 }; /* 66 tokens: one full panel and two lanes */

/* ------------------------------------------------------------------ sizes and inputs */

typedef struct sizes {
    int n;
    const char *name[SYMBOLS];
    int64_t size[SYMBOLS];
} sizes;

/* Symbols in front (batch-like) are 1, others TOKENS, within their bounds. */
static void small_sizes(const sparta_graph *g, sizes *out)
{
    out->n = 0;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++) {
            const char *symbol;
            bool known = false;
            if (!sparta_expr_is_symbol(g->input[i]->dims.dim[d], &symbol)) continue;
            for (int k = 0; k < out->n; k++) known |= !strcmp(out->name[k], symbol);
            if (known || out->n == SYMBOLS) continue;
            out->name[out->n] = symbol;
            out->size[out->n++] = SPARTA_MIN(d == 0 ? 1 : TOKENS, sparta_symbol_bound(g, symbol));
        }
}

/* The symbol that counts items: first in every input and output and nowhere else in the inputs; NULL: there is none. */
static const char *item_symbol(const sparta_graph *g)
{
    const char *item = NULL, *name;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++) {
            const bool symbol = sparta_expr_is_symbol(g->input[i]->dims.dim[d], &name);
            if (d == 0 && !symbol) return NULL;
            if (d == 0 && item && strcmp(item, name)) return NULL;
            if (d == 0)
                item = name;
            else if (symbol && item && !strcmp(item, name))
                return NULL;
        }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->output[i]->dims.rank < 1 || !sparta_expr_is_symbol(g->output[i]->dims.dim[0], &name) ||
            !item || strcmp(item, name))
            return NULL;
    return item;
}

/* `copies` times the one item of each input. */
static sparta_status repeat(sparta_ctx *cx, const sparta_named_tensor *one, int n, int64_t copies,
                            sparta_named_tensor *out)
{
    for (int i = 0; i < n; i++) {
        int64_t dim[SPARTA_RANK];
        size_t bytes;
        memcpy(dim, one[i].tensor.dim, sizeof dim);
        sparta_status s = sparta_tensor_bytes(cx, one[i].tensor.dtype, one[i].tensor.rank, dim, &bytes);
        if (copies > 1) dim[0] = copies;
        out[i].name = one[i].name;
        if (s == SPARTA_OK)
            s = sparta_tensor_alloc(cx, one[i].tensor.dtype, one[i].tensor.rank, dim, &out[i].tensor);
        if (s != SPARTA_OK) {
            sparta_inputs_free(cx, out, i);
            return s;
        }
        for (int64_t c = 0; c < copies; c++)
            memcpy((char *)out[i].tensor.data + (size_t)c * bytes, one[i].tensor.data, bytes);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ comparing */

/* The largest difference of any copy in `a` to `b`. */
static double difference(const sparta_tensor *a, const sparta_tensor *b, double *most)
{
    const int64_t n = sparta_tensor_elements(b), all = sparta_tensor_elements(a);
    double worst = 0;
    *most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double y = sparta_element_get(b->dtype, b->data, i);
        if (isfinite(y) && fabs(y) > *most) *most = fabs(y);
    }
    for (int64_t i = 0; i < all; i++) {
        const double x = sparta_element_get(a->dtype, a->data, i),
                     y = sparta_element_get(b->dtype, b->data, i % n);
        if ((isnan(x) && isnan(y)) || x == y) continue;
        if (!(fabs(x - y) <= worst)) worst = isnan(x - y) ? INFINITY : fabs(x - y);
    }
    return worst;
}

static sparta_status check_outputs(sparta_ctx *cx, const sparta_graph *g, const sparta_named_tensor *got,
                                   const sparta_tensor *want)
{
    for (int i = 0; i < g->n_outputs; i++) {
        double most, worst = difference(&got[i].tensor, &want[i], &most);
        if (isinf(worst) && !sparta_ctx_strict(cx))
            return sparta_fail(cx, SPARTA_E_DIFFER,
                               "compile: output '%s' is NaN or Inf on one side only, and nothing was "
                               "written; are there such "
                               "weights? A sparse product skips 0 x NaN: mend them, or compile with --strict",
                               got[i].name);
        if (worst > 1e-6 + 1e-4 * most)
            return sparta_fail(cx, SPARTA_E_DIFFER,
                               "compile: output '%s' differs from the reference by %g (largest value %g); "
                               "nothing was written",
                               got[i].name, worst, most);
    }
    return SPARTA_OK;
}

static sparta_status run_package(sparta_ctx *cx, const sparta_package *p, const sparta_graph *g, int threads,
                                 const sparta_named_tensor *inputs, const sparta_tensor *want)
{
    const sparta_session_options options = {.size = sizeof options, .threads = threads};
    sparta_named_tensor *got = sparta_alloc_array(cx, (size_t)g->n_outputs + 1, sizeof *got);
    sparta_session *session = NULL;
    SPARTA_NEED(cx, got);
    for (int i = 0; i < g->n_outputs; i++) got[i].name = g->output[i]->name;
    sparta_status s = sparta_session_create(cx, p, &options, &session);
    if (s == SPARTA_OK) {
        sparta_session_share_from(session, 0); /* a few tokens, by all threads */
        s = sparta_session_run(cx, session, inputs, g->n_inputs, got, g->n_outputs);
    }
    if (s == SPARTA_OK) s = check_outputs(cx, g, got, want);
    sparta_session_free(session);
    sparta_free(cx, got);
    return s;
}

static sparta_status compare(sparta_ctx *cx, const sparta_package *p, const sparta_graph *g,
                             const sparta_named_tensor *one, const sparta_named_tensor *many)
{
    sparta_tensor *want = sparta_alloc_array(cx, (size_t)g->n_outputs + 1, sizeof *want);
    SPARTA_NEED(cx, want);
    sparta_status s = sparta_ops_run(cx, g, one, g->n_inputs, want, NULL, NULL);
    for (int threads = 1; threads <= 2 && s == SPARTA_OK; threads++)
        s = run_package(cx, p, g, threads, many, want);
    for (int i = 0; i < g->n_outputs; i++) sparta_free(cx, want[i].data);
    sparta_free(cx, want);
    return s;
}

sparta_status sparta_lower_verify(sparta_ctx *cx, const sparta_package *p, const sparta_graph *g)
{
    sizes z;
    const char *item = item_symbol(g);
    const int64_t copies = item ? SPARTA_MIN(COPIES, sparta_symbol_bound(g, item)) : 1;
    sparta_named_tensor *one = sparta_alloc_array(cx, (size_t)g->n_inputs * 2 + 2, sizeof *one);
    SPARTA_NEED(cx, one);
    sparta_named_tensor *many = one + g->n_inputs + 1;
    small_sizes(g, &z);
    const bool fixed[SYMBOLS] = {false};
    sparta_status s = sparta_sizes_that_run(cx, g, z.n, z.name, fixed, z.size);
    if (s == SPARTA_OK) s = sparta_inputs_make(cx, g, &(sparta_make_inputs){11, {z.n, z.name, z.size}}, one);
    if (s == SPARTA_OK) {
        s = repeat(cx, one, g->n_inputs, copies, many);
        if (s == SPARTA_OK) {
            s = compare(cx, p, g, one, many);
            sparta_inputs_free(cx, many, g->n_inputs);
        }
        sparta_inputs_free(cx, one, g->n_inputs);
    }
    sparta_free(cx, one);
    return s;
}
