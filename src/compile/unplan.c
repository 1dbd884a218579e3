/* unplan: the graph of a package again, weights unpacked, annotations gone: to compile it with other options; or the one it was made
 * from, before propagation. */
#include "compile/lower.h"
#include <math.h>

typedef struct holder {
    sparta_arena *arena;
    const sparta_package *package;
    sparta_rng rng; /* of weights that are made up */
} holder;

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    const holder *h = arg;
    const sparta_weight *w = sparta_package_weight(h->package, name);
    if (!w)
        return sparta_fail(sparta_arena_ctx(h->arena), SPARTA_E_FORMAT,
                           "package: the plan names weight '%s', which is not there", name);
    return sparta_package_fetch(h->arena, w, out);
}

sparta_status sparta_lower_strip(sparta_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        sparta_node *n = g->node[i];
        sparta_attr *kept = sparta_arena_array(g->arena, (size_t)n->attrs.n + 1, sizeof *kept);
        int count = 0;
        SPARTA_NEED(g->cx, kept);
        for (int k = 0; k < n->attrs.n; k++)
            if (!sparta_graph_is_annotation(n->attrs.attr[k].name)) kept[count++] = n->attrs.attr[k];
        n->attrs = (sparta_attrs){count, kept};
    }
    return SPARTA_OK;
}

/* A text with weights that `ask` gives from h's arena, which the graph then owns. */
static sparta_status parse(sparta_ctx *cx, const char *text, sparta_graph_fetch ask, holder *h,
                           sparta_graph **out)
{
    sparta_graph *g = NULL;
    sparta_status s = sparta_graph_parse(cx, text, ask, h, &g);
    if (s != SPARTA_OK) {
        sparta_arena_free(h->arena);
        return s;
    }
    g->adopted = h->arena; /* unpacked weights live and die with the graph */
    s = sparta_lower_strip(g);
    if (s != SPARTA_OK) {
        sparta_graph_free(g);
        return s;
    }
    *out = g;
    return SPARTA_OK;
}

sparta_status sparta_compile_unplan(sparta_ctx *cx, const sparta_package *package, sparta_graph **out)
{
    sparta_text text;
    holder h = {.arena = sparta_arena_create(cx), .package = package};
    SPARTA_NEED(cx, h.arena);
    sparta_text_init(&text, cx);
    sparta_graph_print(package->plan, &text);
    sparta_status s = text.status;
    if (s == SPARTA_OK)
        s = parse(cx, sparta_text_str(&text), fetch, &h, out);
    else
        sparta_arena_free(h.arena);
    sparta_text_free(&text);
    return s;
}

/* ------------------------------------------------------------------ as it was given */

/* Weights that went, for a run that is only timed: floats of an order that keeps activations where they are, layer by layer; integers
 * that were too many to be written are 0, which is an index of everything. */
static void make_up(sparta_rng *rng, const sparta_tensor *t)
{
    const int64_t n = sparta_tensor_elements(t), inputs = t->rank > 1 && t->dim[0] > 0 ? n / t->dim[0] : 1;
    const double scale = t->rank > 1 && inputs > 0 ? sqrt(3. / (double)inputs) : 1;
    for (int64_t i = 0; sparta_dtype_is_float(t->dtype) && i < n; i++) {
        const double x =
            sparta_rng_uniform(rng); /* vectors, of which some are divided by, stay away from 0 */
        sparta_element_set(t->dtype, t->data, i, t->rank > 1 ? (2 * x - 1) * scale : .5 + x / 2);
    }
}

static sparta_status fetch_given(void *arg, const char *name, sparta_tensor *out)
{
    holder *h = arg;
    const sparta_weight *w = sparta_package_weight(h->package, name);
    if (w && !w->packed && w->tensor.dtype == out->dtype && sparta_tensor_same_shape(&w->tensor, out)) {
        *out = w->tensor;
        return SPARTA_OK;
    }
    SPARTA_TRY(sparta_check_cancel(sparta_arena_ctx(h->arena)));
    SPARTA_TRY(sparta_tensor_alloc_in(h->arena, out->dtype, out->rank, out->dim, out));
    make_up(&h->rng, out);
    return SPARTA_OK;
}

sparta_status sparta_compile_given(sparta_ctx *cx, const sparta_package *package, uint64_t seed,
                                   sparta_graph **out)
{
    if (!package->given) return sparta_compile_unplan(cx, package, out);
    holder h = {sparta_arena_create(cx), package, sparta_rng_seed(seed)};
    SPARTA_NEED(cx, h.arena);
    return parse(cx, package->given, fetch_given, &h, out);
}
