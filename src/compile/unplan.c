/* unplan: the graph of a package again, weights unpacked, annotations gone: to compile it with other options. */
#include "compile/lower.h"

typedef struct holder {
    sparta_arena *arena;
    const sparta_package *package;
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

sparta_status sparta_compile_unplan(sparta_ctx *cx, const sparta_package *package, sparta_graph **out)
{
    sparta_text text;
    sparta_graph *g = NULL;
    holder h = {sparta_arena_create(cx), package};
    SPARTA_NEED(cx, h.arena);
    sparta_text_init(&text, cx);
    sparta_graph_print(package->plan, &text);
    sparta_status s = text.status == SPARTA_OK ? sparta_graph_parse(cx, sparta_text_str(&text), fetch, &h, &g)
                                               : text.status;
    sparta_text_free(&text);
    if (s != SPARTA_OK) {
        sparta_arena_free(h.arena);
        return s;
    }
    g->adopted = h.arena; /* unpacked weights live and die with the graph */
    s = sparta_lower_strip(g);
    if (s != SPARTA_OK) {
        sparta_graph_free(g);
        return s;
    }
    *out = g;
    return SPARTA_OK;
}
