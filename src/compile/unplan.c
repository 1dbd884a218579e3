/* unplan: the graph of a package again, weights unpacked, annotations gone: to compile it with other options; or the one it was made
 * from, before propagation. */
#include "compile/lower.h"
#include <math.h>

typedef struct holder {
    sp_arena *arena;
    const sparta_package *package;
    sp_rng rng; /* of weights that are made up */
} holder;

sparta_status sp_compile_unpack(sp_arena *arena, const sp_weight *w, sparta_tensor *out)
{
    if (!w->packed) {
        *out = w->tensor;
        return SPARTA_OK;
    }
    const sp_packed *p;
    SP_TRY(sp_package_packed(sp_arena_ctx(arena), w, &p));
    const int64_t dim[2] = {p->dim[w->swapped], p->dim[!w->swapped]};
    sparta_tensor t;
    SP_TRY(sp_tensor_alloc_in(arena, p->dtype, 2, dim, &t));
    sparta_tensor as_packed = t;
    if (w->swapped) {
        as_packed.dim[0] = t.dim[1], as_packed.dim[1] = t.dim[0];
        as_packed.stride[0] = t.stride[1], as_packed.stride[1] = t.stride[0];
    }
    SP_TRY(sp_store_unpack(sp_arena_ctx(arena), p, &as_packed));
    *out = t;
    return SPARTA_OK;
}

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    const holder *h = arg;
    const sp_weight *w = sp_package_weight(h->package, name);
    if (!w)
        return sp_fail(sp_arena_ctx(h->arena), SPARTA_E_FORMAT,
                       "package: the plan names weight '%s', which is not there", name);
    return sp_compile_unpack(h->arena, w, out);
}

sparta_status sp_lower_strip(sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        sp_node *n = g->node[i];
        sp_attr *kept = sp_arena_array(g->arena, (size_t)n->attrs.n + 1, sizeof *kept);
        int count = 0;
        SP_NEED(g->cx, kept);
        for (int k = 0; k < n->attrs.n; k++)
            if (!sp_graph_is_annotation(n->attrs.attr[k].name)) kept[count++] = n->attrs.attr[k];
        n->attrs = (sp_attrs){count, kept};
    }
    return SPARTA_OK;
}

/* A text with weights that `ask` gives from h's arena, which the graph then owns. */
static sparta_status parse(sparta_ctx *cx, const char *text, sp_graph_fetch ask, holder *h, sp_graph **out)
{
    sp_graph *g = NULL;
    sparta_status s = sp_graph_parse(cx, text, ask, h, &g);
    if (s != SPARTA_OK) {
        sp_arena_free(h->arena);
        return s;
    }
    g->adopted = h->arena; /* unpacked weights live and die with the graph */
    s = sp_lower_strip(g);
    if (s != SPARTA_OK) {
        sp_graph_free(g);
        return s;
    }
    *out = g;
    return SPARTA_OK;
}

sparta_status sp_compile_unplan(sparta_ctx *cx, const sparta_package *package, sp_graph **out)
{
    sp_text text;
    holder h = {.arena = sp_arena_create(cx), .package = package};
    SP_NEED(cx, h.arena);
    sp_text_init(&text, cx);
    sp_graph_print(package->plan, &text);
    sparta_status s = text.status;
    if (s == SPARTA_OK)
        s = parse(cx, sp_text_str(&text), fetch, &h, out);
    else
        sp_arena_free(h.arena);
    sp_text_free(&text);
    return s;
}

/* ------------------------------------------------------------------ as it was given */

/* Weights that went, for a run that is only timed: floats of an order that keeps activations where they are, layer by layer; integers
 * that were too many to be written are 0, which is an index of everything. */
static void make_up(sp_rng *rng, const sparta_tensor *t)
{
    const int64_t n = sparta_tensor_elements(t), inputs = t->rank > 1 && t->dim[0] > 0 ? n / t->dim[0] : 1;
    const double scale = t->rank > 1 && inputs > 0 ? sqrt(3. / (double)inputs) : 1;
    for (int64_t i = 0; sp_dtype_is_float(t->dtype) && i < n; i++) {
        const double x = sp_rng_uniform(rng); /* vectors, of which some are divided by, stay away from 0 */
        sp_element_set(t->dtype, t->data, i, t->rank > 1 ? (2 * x - 1) * scale : .5 + x / 2);
    }
}

static sparta_status fetch_given(void *arg, const char *name, sparta_tensor *out)
{
    holder *h = arg;
    const sp_weight *w = sp_package_weight(h->package, name);
    if (w && !w->packed && w->tensor.dtype == out->dtype && sp_tensor_same_shape(&w->tensor, out)) {
        *out = w->tensor;
        return SPARTA_OK;
    }
    SP_TRY(sp_check_cancel(sp_arena_ctx(h->arena)));
    SP_TRY(sp_tensor_alloc_in(h->arena, out->dtype, out->rank, out->dim, out));
    make_up(&h->rng, out);
    return SPARTA_OK;
}

sparta_status sp_compile_given(sparta_ctx *cx, const sparta_package *package, uint64_t seed, sp_graph **out)
{
    if (!package->given) return sp_compile_unplan(cx, package, out);
    holder h = {sp_arena_create(cx), package, sp_rng_seed(seed)};
    SP_NEED(cx, h.arena);
    return parse(cx, package->given, fetch_given, &h, out);
}
