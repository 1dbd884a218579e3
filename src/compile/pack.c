/* pack: weights into their formats, machine code and annotations into the package. */
#include "compile/lower.h"
#include <string.h>

sparta_status sp_lower_annotate(sp_graph *g, sp_node *n, const sp_attr *attr, int count)
{
    sp_attr *all = sp_arena_array(g->arena, (size_t)(n->attrs.n + count), sizeof *all);
    int kept = 0;
    SP_NEED(g->cx, all);
    for (int i = 0; i < n->attrs.n; i++) {
        bool replaced = false;
        for (int j = 0; j < count; j++) replaced |= !strcmp(n->attrs.attr[i].name, attr[j].name);
        if (!replaced) all[kept++] = n->attrs.attr[i];
    }
    for (int j = 0; j < count; j++) {
        all[kept] = attr[j];
        if (attr[j].kind == SP_ATTR_STRING && !(all[kept].s = sp_arena_string(g->arena, attr[j].s)))
            return sp_ctx_status(g->cx);
        kept++;
    }
    n->attrs = (sp_attrs){kept, all};
    return SPARTA_OK;
}

static sp_attr text_attr(const char *name, const char *s)
{
    return (sp_attr){.name = name, .kind = SP_ATTR_STRING, .s = s};
}
static sp_attr int_attr(const char *name, int64_t i)
{
    return (sp_attr){.name = name, .kind = SP_ATTR_INT, .i = i};
}
static sp_attr float_attr(const char *name, double f)
{
    return (sp_attr){.name = name, .kind = SP_ATTR_FLOAT, .f = (float)f};
}

static sparta_status annotate(lowering *l, lower_node *ln)
{
    sp_attr a[16]; /* all of those below */
    const sp_weight *w = ln->task.mask ? sp_package_weight(l->package, ln->node->in[1]->origin) : NULL;
    sp_text format;
    int n = 0;
    sp_text_init(&format, l->cx);
    if (ln->layout != SP_LAYOUT_ROWS) a[n++] = text_attr("layout", sp_layout_name(ln->layout));
    if (ln->kernel >= 0) {
        a[n++] = text_attr("kernel", l->kernel[ln->kernel].kernel);
        a[n++] = text_attr("implement", ln->im->name);
        a[n++] = int_attr("code", l->code[ln->kernel]);
    }
    const char *function = ln->im ? sp_implement_function_name(ln->im, &ln->task) : NULL;
    if (function) a[n++] = text_attr("called", function);
    if (ln->chain) a[n++] = int_attr("chain", ln->chain);
    if (ln->nest) {
        a[n++] = text_attr("nest", ln->nest);
        a[n++] =
            (sp_attr){.name = "operands", .kind = SP_ATTR_INTS, .ints = ln->operands, .n = ln->n_operands};
    }
    if (ln->task.stat && sp_layout_has_lanes(ln->layout)) a[n++] = int_attr("stat", 1);
    if (ln->task.mask) {
        a[n++] = text_attr("pattern", ln->task.pattern.name);
        a[n++] = float_attr("density", ln->task.pattern.density);
        a[n++] = float_attr("us", ln->us);
        a[n++] = float_attr("dense_us", ln->dense_us);
        a[n++] = text_attr("source", ln->source);
    }
    if (*ln->reason) a[n++] = text_attr("reason", ln->reason);
    if (w && w->packed) {
        sp_format_print(&w->pack.format, &format);
        a[n++] = text_attr("format", sp_text_str(&format));
    }
    SP_ASSERT((size_t)n <= SP_COUNT(a));
    sparta_status s = format.status;
    if (s == SPARTA_OK && n) s = sp_lower_annotate(l->g, ln->node, a, n);
    sp_text_free(&format);
    return s;
}

/* ------------------------------------------------------------------ weights */

/* Is the weight stored like this already, by another plan of the package? Sums of formats are stored again. */
static bool same_storage(const sp_weight *w, const sp_weight *wanted)
{
    const sp_packed *a = &w->pack, *b = &wanted->pack;
    if (w->packed != wanted->packed) return false;
    if (!w->packed) return sp_tensor_same_bytes(&w->tensor, &wanted->tensor);
    if (w->swapped != wanted->swapped || a->dtype != b->dtype || a->parts || b->parts ||
        !sp_format_equal(&a->format, &b->format) || !sp_tensor_same_bytes(&a->values, &b->values))
        return false;
    for (int i = 0; i < SP_LEVELS; i++)
        if (!sp_tensor_same_bytes(&a->pos[i], &b->pos[i]) || !sp_tensor_same_bytes(&a->crd[i], &b->crd[i]))
            return false;
    return true;
}

/* The weight of the package that is stored as this one, whatever it is called: layers that share their weights, as ALBERT's do, have products of copies. */
static const sp_weight *stored_alike(const sparta_package *p, const sp_weight *wanted)
{
    for (int i = 0; i < p->n_weights && wanted->packed; i++) {
        const sp_packed *a = &p->weight[i].pack, *b = &wanted->pack;
        if (p->weight[i].packed && a->dim[0] == b->dim[0] && a->dim[1] == b->dim[1] &&
            same_storage(&p->weight[i], wanted))
            return &p->weight[i];
    }
    return NULL;
}

/* Under its name; where another plan stores it another way, under that and a number. What is there already is not stored again. */
static sparta_status add_weight(lowering *l, sp_value *v, sp_weight *wanted)
{
    sparta_package *p = l->package;
    int64_t known;
    const char *name = v->name;
    const sp_weight *alike = stored_alike(p, wanted);
    if (alike) {
        v->origin = alike->name;
        sp_packed_free(l->cx, &wanted->pack);
        return SPARTA_OK;
    }
    for (int i = 2; name && sp_map_get(p->by_name, name, &known); i++) {
        if (same_storage(&p->weight[known], wanted)) {
            v->origin = p->weight[known].name;
            return SPARTA_OK;
        }
        name = sp_arena_printf(p->arena, "%s@%d", v->name, i);
    }
    SP_NEED(l->cx, name);
    SP_TRY(sp_map_put(p->by_name, name, p->n_weights));
    v->origin = wanted->name = name;
    p->weight[p->n_weights++] = *wanted;
    return SPARTA_OK;
}

static sparta_status add_plain(lowering *l, sp_value *v)
{
    return add_weight(l, v, &(sp_weight){.tensor = *v->constant});
}

/* A weight that others use too, or that this plan already stores another way, is stored once more under its own name. */
static sparta_status own_weight(lowering *l, lower_node *ln)
{
    sp_value *w = ln->node->in[1], *copy;
    if (sp_graph_uses(l->g, w) == 1) return SPARTA_OK;
    const char *name = sp_arena_printf(l->g->arena, "%s#%s", w->name, ln->node->name);
    for (int i = 2; name && sp_graph_find(l->g, name); i++)
        name = sp_arena_printf(l->g->arena, "%s#%s#%d", w->name, ln->node->name, i);
    SP_NEED(l->cx, name);
    SP_TRY(sp_graph_add_constant(l->g, name, w->constant, false, &copy));
    ln->node->in[1] = copy;
    return SPARTA_OK;
}

static sparta_status pack_weight(lowering *l, lower_node *ln)
{
    sp_format format;
    sparta_tensor view;
    SP_TRY(own_weight(l, ln));
    sp_weight w = {.tensor = *ln->node->in[1]->constant, .packed = true, .owned = true};
    w.swapped = !sp_attr_int(&ln->node->attrs, "transposed", 0);
    if (ln->packed) {
        w.pack = *ln->packed;
        ln->packed = NULL;
    } else {
        SP_TRY(sp_implement_format(l->cx, ln->im, &ln->task, &format));
        sp_implement_weight(ln->node, &view);
        SP_TRY(sp_store_pack(l->cx, &format, &view, ln->im->sparse ? ln->task.mask : NULL, &w.pack));
    }
    const sparta_status s = add_weight(l, ln->node->in[1], &w);
    if (s != SPARTA_OK) sp_packed_free(l->cx, &w.pack);
    return s;
}

static sparta_status collect(lowering *l)
{
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SP_TRY(sp_check_cancel(l->cx));
        if (ln->im && ln->im->format) SP_TRY(pack_weight(l, ln));
        for (int k = 0; k < ln->node->n_in; k++) {
            sp_value *v = ln->node->in[k];
            const bool packed = k == 1 && ln->im && ln->im->format; /* above */
            if (v && v->constant && !v->producer && !packed) SP_TRY(add_plain(l, v));
        }
        SP_TRY(annotate(l, ln));
    }
    for (int i = 0; i < l->g->n_outputs; i++) {
        if (l->g->output[i]->constant && !l->g->output[i]->producer) SP_TRY(add_plain(l, l->g->output[i]));
    }
    return SPARTA_OK;
}

/* Kernels that were compiled to be timed and lost do not go into the package. */
static sparta_status drop_losers(lowering *l)
{
    int n = 0,
        *place = sp_arena_array(l->arena, (size_t)l->n_kernels + 1, sizeof *place); /* 0: nobody runs it */
    SP_NEED(l->cx, place);
    for (int i = 0; i < l->n_nodes; i++)
        if (l->node[i].kernel >= 0) place[l->node[i].kernel] = 1;
    for (int i = 0; i < l->n_kernels; i++) {
        if (place[i]) {
            l->kernel[n] = l->kernel[i];
            place[i] = n++;
        } else if (l->kernel[i].object) {
            sp_jit_close(l->kernel[i].object);
        }
    }
    for (int i = 0; i < l->n_nodes; i++)
        if (l->node[i].kernel >= 0) l->node[i].kernel = place[l->node[i].kernel];
    l->n_kernels = n;
    return SPARTA_OK;
}

/* One that another plan of the package runs; -1: none. */
static int find_kernel(const sparta_package *p, const lower_kernel *k)
{
    for (int i = 0; i < p->n_kernels; i++)
        if (!strcmp(p->kernel[i].kernel, k->kernel) && !strcmp(p->kernel[i].parameters, k->parameters))
            return i;
    return -1;
}

static sparta_status kernels(lowering *l)
{
    sparta_package *p = l->package;
    sp_kernel *all = sp_arena_array(p->arena, (size_t)(p->n_kernels + l->n_kernels) + 1, sizeof *all);
    l->code = sp_arena_array(l->arena, (size_t)l->n_kernels + 1, sizeof *l->code);
    if (!all || !l->code) return sp_ctx_status(l->cx);
    if (p->n_kernels) memcpy(all, p->kernel, (size_t)p->n_kernels * sizeof *all);
    p->kernel = all;
    for (int i = 0; i < l->n_kernels; i++) {
        const lower_kernel *k = &l->kernel[i];
        sp_kernel *out = &all[p->n_kernels];
        l->code[i] = find_kernel(p, k);
        if (l->code[i] >= 0) continue;
        out->kernel = sp_arena_string(p->arena, k->kernel);
        out->parameters = sp_arena_string(p->arena, k->parameters);
        out->source = sp_arena_string(p->arena, k->source);
        if (!out->kernel || !out->parameters || !out->source) return sp_ctx_status(l->cx);
        SP_TRY(sp_lower_code(l, k, out));
        l->code[i] = p->n_kernels++;
    }
    return SPARTA_OK;
}

/* Why the compiler made no code, as room jit noted it. */
static const char *compilers_fault(sparta_ctx *cx, int *length)
{
    static const char word[] = "compiler: ";
    const char *notes = sparta_notes(cx);
    while (*notes && strncmp(notes, word, sizeof word - 1)) {
        notes += strcspn(notes, "\n");
        notes += *notes == '\n';
    }
    if (*notes) notes += sizeof word - 1;
    *length = (int)strcspn(notes, "\n;");
    return notes;
}

/* Portable kernels that nobody asked for are told by the package itself: it may run far from where it was compiled. */
static sparta_status note_portable(lowering *l)
{
    const char *compiler = sp_ctx_options_of(l->cx)->compiler;
    sparta_package *p = l->package;
    int portable = 0, length;
    for (int i = 0; i < p->n_kernels; i++) portable += !p->kernel[i].n_code;
    if (!portable || l->targets.target[0] == SP_TARGET_PORTABLE || (compiler && !*compiler)) return SPARTA_OK;
    const char *why = compilers_fault(l->cx, &length);
    p->note = sp_arena_printf(
        p->arena, "%d of %d kernels are portable C, which is slower: %.*s; compile it again with a compiler",
        portable, p->n_kernels, length ? length : 20, length ? why : "they did not compile");
    SP_NEED(l->cx, p->note);
    return SPARTA_OK;
}

sparta_status sp_lower_pack(lowering *l)
{
    sparta_package *p = l->package;
    size_t weights = (size_t)p->n_weights + (size_t)l->g->n_outputs + 1;
    for (int i = 0; i < l->n_nodes; i++) weights += (size_t)l->node[i].node->n_in;
    sp_weight *all = sp_arena_array(p->arena, weights, sizeof *all);
    SP_NEED(l->cx, all);
    if (p->n_weights) memcpy(all, p->weight, (size_t)p->n_weights * sizeof *all);
    p->weight = all;
    SP_TRY(drop_losers(l));
    SP_TRY(kernels(l));
    SP_TRY(collect(l));
    return note_portable(l);
}
