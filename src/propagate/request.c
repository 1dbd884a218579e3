/* What a user asks to remove, as an edit of the graph: the smaller model then gives the answer of the edited one.
 *
 *     encoder.2.heads=3,5          heads 3 and 5 of the attention whose Softmax has "encoder" and "2" in its path, in this order:
 *                                  its output is multiplied by [1, heads, 1, 1] with zeros there
 *     layer1.0.conv1.weight=4-7    output channels 4 to 7 of that weight (or of all that a glob names) are set to zero;
 *                                  a bias stays, which makes those channels constants
 *
 * A path is cut at '.' and '/'; indices count from 0. What does not fit is E_USAGE, and says what would.
 */
#include "propagate/facts.h"
#include <string.h>

#define TOLD 3 /* names in a message */

static const char *name_of(const sparta_value *v)
{
    return v->origin ? v->origin : v->name;
}

/* ------------------------------------------------------------------ "3,5,8-11" */
typedef struct wish {
    sparta_graph *g;
    const char *text;    /* the whole request */
    const char *left;    /* of the =, in the arena */
    const char *indices; /* right of it */
} wish;

static sparta_status wrong_indices(const wish *w, const char *what, int64_t size, const char *of)
{
    return sparta_fail(
        w->g->cx, SPARTA_E_USAGE,
        "--remove %.200s: %s; give indices from 0 to %lld of '%.200s', each once, as in 3,5,8-11", w->text,
        what, (long long)size - 1, of);
}

/* A number of at most 18 digits; moves on. */
static bool read_number(const char **at, int64_t *out)
{
    const char *s = *at;
    *out = 0;
    while (*s >= '0' && *s <= '9' && s - *at < 18) *out = *out * 10 + (*s++ - '0');
    const bool some = s > *at && !(*s >= '0' && *s <= '9');
    *at = s;
    return some;
}

/* gone[i] is 1 for each index of the list; `size` of them are there, of something that messages call `of`. */
static sparta_status read_indices(const wish *w, int64_t size, const char *of, uint8_t *gone)
{
    const char *s = w->indices;
    memset(gone, 0, (size_t)size);
    for (;;) {
        int64_t first, last;
        if (!read_number(&s, &first)) return wrong_indices(w, "the list of indices is not one", size, of);
        last = first;
        if (*s == '-') {
            s++;
            if (!read_number(&s, &last)) return wrong_indices(w, "a range has no end", size, of);
            if (last < first) return wrong_indices(w, "a range ends before it begins", size, of);
        }
        if (last >= size) return wrong_indices(w, "an index is past the end", size, of);
        for (int64_t i = first; i <= last; i++) {
            if (gone[i]) return wrong_indices(w, "an index is there twice", size, of);
            gone[i] = 1;
        }
        if (!*s) return SPARTA_OK;
        if (*s++ != ',') return wrong_indices(w, "the list of indices is not one", size, of);
    }
}

/* ------------------------------------------------------------------ paths */
static size_t token(const char **s)
{
    while (**s == '.' || **s == '/') ++*s;
    return strcspn(*s, "./");
}

/* How many of the first tokens of `path` are in `name`, in this order. */
static int tokens_in(const char *path, const char *name, int *of)
{
    int found = 0;
    bool lost = false;
    *of = 0;
    for (size_t n; (n = token(&path)); path += n) {
        size_t m = 0;
        ++*of;
        while (!lost && (m = token(&name)) && (m != n || memcmp(path, name, n))) name += m;
        lost |= !m;
        name += lost ? 0 : m;
        found += !lost;
    }
    return found;
}

static const char *softmax_name(const sparta_node *n)
{
    return *n->name ? n->name : n->out[0]->name;
}

/* By the node's name, or that of its output. */
static int likeness(const char *path, const sparta_node *n, int *of)
{
    const int by_node = tokens_in(path, n->name, of), by_value = tokens_in(path, n->out[0]->name, of);
    return SPARTA_MAX(by_node, by_value);
}

/* ------------------------------------------------------------------ heads */
static sparta_status no_attention(const wish *w, const char *path)
{
    sparta_text t;
    int best = 0, told = 0, of;
    sparta_text_init(&t, w->g->cx);
    for (int i = 0; i < w->g->n_nodes; i++)
        if (w->g->node[i]->op == SPARTA_OP_Softmax)
            best = SPARTA_MAX(best, likeness(path, w->g->node[i], &of));
    for (int i = 0; i < w->g->n_nodes && told < TOLD; i++) {
        const sparta_node *n = w->g->node[i];
        if (n->op == SPARTA_OP_Softmax && likeness(path, n, &of) == best)
            sparta_text_printf(&t, "%s'%.100s'", told++ ? ", " : "", softmax_name(n));
    }
    sparta_status status = sparta_fail(
        w->g->cx, SPARTA_E_USAGE, "--remove %.200s: no Softmax has '%.200s' in its path; %s%s", w->text, path,
        told ? "the nearest are " : "the model has no Softmax, so no attention heads to remove",
        sparta_text_str(&t));
    sparta_text_free(&t);
    return status;
}

/* y = Softmax(...) is multiplied by a mask for everybody who reads it; an output of the model stays as it is. */
static sparta_status insert_mask(const wish *w, int at, const uint8_t *gone, int64_t heads)
{
    sparta_graph *g = w->g;
    sparta_node *softmax = g->node[at], *product;
    sparta_value *y = softmax->out[0], *mask, *out = NULL;
    sparta_tensor t;
    SPARTA_TRY(sparta_tensor_alloc_in(g->arena, y->dtype, 4, (int64_t[]){1, heads, 1, 1}, &t));
    for (int64_t h = 0; h < heads; h++) sparta_element_set(t.dtype, t.data, h, gone[h] ? 0 : 1);
    SPARTA_TRY(sparta_graph_add_constant(g, NULL, &t, false, &mask));
    const char *name = sparta_arena_printf(g->arena, "%s/heads", softmax_name(softmax));
    SPARTA_NEED(g->cx, name);
    const int n_nodes = g->n_nodes;
    SPARTA_TRY(sparta_graph_add_node(g, SPARTA_OP_Mul, name, 2, (sparta_value *[]){y, mask}, 1, &out, NULL,
                                     &product));
    for (int i = 0; i < n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == y) g->node[i]->in[k] = out;
    SPARTA_TRY(sparta_graph_insert_node(g, at + 1, product));
    return sparta_ops_infer_node(g, product);
}

static sparta_status remove_heads(const wish *w, const char *path)
{
    bool some = false;
    for (int i = 0; i < w->g->n_nodes; i++) {
        const sparta_node *n = w->g->node[i];
        int of;
        int64_t heads;
        if (n->op != SPARTA_OP_Softmax || likeness(path, n, &of) < of) continue;
        if (n->out[0]->dims.rank != 4 || !sparta_expr_is_const(n->out[0]->dims.dim[1], &heads))
            return sparta_fail(w->g->cx, SPARTA_E_UNSUPPORTED,
                               "--remove %.200s: '%.200s' has no axis of heads that is a number; they are "
                               "looked for at axis 1 of 4, "
                               "name the weights instead",
                               w->text, softmax_name(n));
        uint8_t *gone = sparta_arena_alloc(w->g->arena, (size_t)SPARTA_MAX(heads, 1));
        SPARTA_NEED(w->g->cx, gone);
        SPARTA_TRY(read_indices(w, heads, softmax_name(n), gone));
        SPARTA_TRY(insert_mask(w, i, gone, heads));
        some = true;
    }
    return some ? SPARTA_OK : no_attention(w, path);
}

/* ------------------------------------------------------------------ weights */
static bool has_label(const sparta_flow_operand *o, int rank, int label)
{
    for (int k = 0; k < rank; k++)
        for (int j = 0; j < o->axis[k].n; j++)
            if (o->axis[k].label[j] == label) return true;
    return false;
}

/* The axis of factor `at` that is its output's alone, or (the channels of a depthwise convolution) all of whose labels the output
 * has; -1: none. */
static int output_axis(const sparta_axes *a, int at)
{
    const sparta_value *w = a->n->in[at], *y = a->n->out[0];
    int shared = -1, sums = 0;
    for (int l = 0; l < a->labels; l++) sums += a->label[l].kind == SPARTA_SUM;
    for (int k = 0; k < w->dims.rank; k++) {
        const sparta_axis *x = &a->in[at].axis[k];
        bool whole = x->n > 0;
        for (int j = 0; j < x->n; j++) {
            bool others = false;
            for (int i = 0; i < a->n->n_in; i++)
                others |= i != at && a->in[i].role == SPARTA_FACTOR &&
                          has_label(&a->in[i], a->n->in[i]->dims.rank, x->label[j]);
            const bool out = has_label(&a->out[0], y->dims.rank, x->label[j]);
            if (out && !others) return k;
            whole &= out;
        }
        if (whole && sums && shared < 0) shared = k;
    }
    return shared;
}

/* The axis of the weight's outputs: -1, no product uses it; -2, two products see it from different sides. */
static sparta_status find_axis(const wish *w, sparta_arena *arena, const sparta_value *v, int *out)
{
    *out = -1;
    for (int i = 0; i < w->g->n_nodes; i++) {
        const sparta_node *n = w->g->node[i];
        sparta_axes a;
        bool uses = false;
        for (int k = 0; k < n->n_in; k++) uses |= n->in[k] == v;
        if (!uses) continue;
        SPARTA_TRY(sparta_axes_of(w->g, n, arena, &a));
        for (int k = 0; k < n->n_in && a.how == SPARTA_FLOW_PRODUCT; k++) {
            const int axis = n->in[k] == v && a.in[k].role == SPARTA_FACTOR ? output_axis(&a, k) : -1;
            if (axis >= 0) *out = *out == -1 || *out == axis ? axis : -2;
        }
    }
    return SPARTA_OK;
}

static sparta_status clear_channels(const wish *w, sparta_value *v, int axis)
{
    sparta_graph *g = w->g;
    const sparta_tensor *t = v->constant;
    sparta_tensor *copy = sparta_arena_alloc(g->arena, sizeof *copy);
    uint8_t *gone = sparta_arena_alloc(g->arena, (size_t)SPARTA_MAX(t->dim[axis], 1));
    SPARTA_NEED(g->cx, copy && gone);
    SPARTA_TRY(read_indices(w, t->dim[axis], name_of(v), gone));
    SPARTA_TRY(sparta_tensor_alloc_in(g->arena, t->dtype, t->rank, t->dim, copy));
    int64_t step = 1;
    for (int k = axis + 1; k < t->rank; k++) step *= t->dim[k];
    const size_t bytes = (size_t)step * sparta_dtype_size(t->dtype);
    const int64_t n = step ? sparta_tensor_elements(t) / step : 0;
    for (int64_t i = 0; i < n; i++)
        if (!gone[i % t->dim[axis]])
            memcpy((char *)copy->data + (size_t)i * bytes, (const char *)t->data + (size_t)i * bytes, bytes);
    v->constant = copy;
    return SPARTA_OK;
}

static bool is_weight(const sparta_value *v)
{
    return v->constant && v->constant->data && v->constant->rank >= 2 && sparta_dtype_is_float(v->dtype);
}

static sparta_status no_weight(const wish *w, bool other)
{
    const char **names =
        sparta_arena_array(w->g->arena, (size_t)SPARTA_MAX(w->g->n_values, 1), sizeof *names);
    int n = 0;
    SPARTA_NEED(w->g->cx, names);
    for (int i = 0; i < w->g->n_values; i++)
        if (is_weight(w->g->value[i])) names[n++] = name_of(w->g->value[i]);
    const char *near = sparta_nearest(w->left, names, n);
    if (other)
        return sparta_fail(
            w->g->cx, SPARTA_E_USAGE,
            "--remove %.200s: '%.200s' is no weight of a product, and has no output channels; name a weight",
            w->text, w->left);
    return sparta_fail(
        w->g->cx, SPARTA_E_USAGE, "--remove %.200s: the model has no weight '%.200s'; %s%.100s%s", w->text,
        w->left, near ? "did you mean '" : "name one (`sparta inspect` lists them), or PATH.heads=INDICES",
        near ? near : "", near ? "'?" : "");
}

static sparta_status remove_channels(const wish *w, sparta_arena *arena)
{
    bool some = false, other = false;
    for (int i = 0; i < w->g->n_values; i++) {
        sparta_value *v = w->g->value[i];
        int axis;
        if (!v->constant || (!sparta_glob(w->left, name_of(v)) && !sparta_glob(w->left, v->name))) continue;
        SPARTA_TRY(find_axis(w, arena, v, &axis));
        if (axis == -2)
            return sparta_fail(w->g->cx, SPARTA_E_UNSUPPORTED,
                               "--remove %.200s: products use '%.200s' as it is and transposed; its output "
                               "channels are not one axis",
                               w->text, name_of(v));
        other = true;
        if (axis < 0 || !is_weight(v)) continue;
        SPARTA_TRY(clear_channels(w, v, axis));
        some = true;
    }
    return some ? SPARTA_OK : no_weight(w, other);
}

/* ------------------------------------------------------------------ both */
static bool names_constant(const sparta_graph *g, const char *name)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->constant &&
            (!strcmp(name_of(g->value[i]), name) || !strcmp(g->value[i]->name, name)))
            return true;
    return false;
}

sparta_status sparta_propagate_remove(sparta_graph *g, const char *request)
{
    const char *equals = strrchr(request, '=');
    const size_t length = equals ? (size_t)(equals - request) : 0, word = strlen("heads");
    if (!length || !equals[1])
        return sparta_fail(
            g->cx, SPARTA_E_USAGE,
            "--remove %.200s: expected PATH.heads=INDICES or WEIGHT=INDICES, as in encoder.2.heads=3,5",
            request);
    wish w = {g, request, sparta_arena_bytes(g->arena, request, length), equals + 1};
    SPARTA_NEED(g->cx, w.left);
    const bool heads = length >= word && !strcmp(w.left + length - word, "heads") &&
                       (length == word || strchr("./", w.left[length - word - 1]));
    if (heads && !names_constant(g, w.left)) {
        char *path = sparta_arena_bytes(g->arena, w.left, length - word);
        SPARTA_NEED(g->cx, path);
        return remove_heads(&w, path);
    }
    sparta_arena *arena = sparta_arena_create(g->cx);
    SPARTA_NEED(g->cx, arena);
    sparta_status status = remove_channels(&w, arena);
    sparta_arena_free(arena);
    return status;
}
