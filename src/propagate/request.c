/* What a user asks to remove, as an edit of the graph: the smaller model then gives the answer of the edited one.
 *
 *     encoder.2.heads=3,5          heads 3 and 5 of the attention that has "encoder" and "2" in its path, in this order: what they
 *                                  give is multiplied by zero (heads.c)
 *     layer1.0.conv1.weight=4-7    output channels 4 to 7 of that weight (or of all that a glob names) are set to zero;
 *                                  a bias stays, which makes those channels constants; of a weight that an exporter numbered
 *                                  (val_50) the module says the name
 *
 * A path is cut at '.' and '/'; indices count from 0. What does not fit is E_USAGE, and says what would.
 */
#include "propagate/request.h"
#include "schedule/schedule.h"
#include <string.h>

/* ------------------------------------------------------------------ "3,5,8-11" */
static sparta_status wrong_indices(const sp_wish *w, const char *what, int64_t size, const char *of)
{
    return sp_fail(
        w->g->cx, SPARTA_E_USAGE,
        "options.remove %.200s: %s; give indices from 0 to %lld of '%.200s', each once, as in 3,5,8-11",
        w->text, what, (long long)size - 1, of);
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

sparta_status sp_wish_indices(const sp_wish *w, int64_t size, const char *of, uint8_t *gone)
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

/* ------------------------------------------------------------------ weights */
static bool has_label(const sp_flow_operand *o, int rank, int label)
{
    for (int k = 0; k < rank; k++)
        if (sp_axis_has(&o->axis[k], label)) return true;
    return false;
}

/* The axis of factor `at` that is its output's alone, or (the channels of a depthwise convolution) all of whose labels the output
 * has; -1: none. */
static int output_axis(const sp_axes *a, int at)
{
    const sp_value *w = a->n->in[at], *y = a->n->out[0];
    int shared = -1, sums = 0;
    for (int l = 0; l < a->labels; l++) sums += a->label[l].kind == SP_SUM;
    for (int k = 0; k < w->dims.rank; k++) {
        const sp_axis *x = &a->in[at].axis[k];
        bool whole = x->n > 0;
        for (int j = 0; j < x->n; j++) {
            bool others = false;
            for (int i = 0; i < a->n->n_in; i++)
                others |= i != at && a->in[i].role == SP_FACTOR &&
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
static sparta_status find_axis(const sp_wish *w, const sp_users *u, const sp_value *v, int *out)
{
    *out = -1;
    for (int i = u->first[v->id], last = -1; i < u->first[v->id + 1]; last = u->user[i++]) {
        const sp_node *n = w->g->node[u->user[i]];
        sp_axes a;
        if (u->user[i] == last) continue; /* another slot of it */
        SP_TRY(sp_axes_of(w->g, n, w->arena, &a));
        for (int k = 0; k < n->n_in && a.how == SP_FLOW_PRODUCT; k++) {
            const int axis = n->in[k] == v && a.in[k].role == SP_FACTOR ? output_axis(&a, k) : -1;
            if (axis >= 0) *out = *out == -1 || *out == axis ? axis : -2;
        }
    }
    return SPARTA_OK;
}

static sparta_status clear_channels(const sp_wish *w, sp_value *v, int axis)
{
    sp_graph *g = w->g;
    const sparta_tensor *t = v->constant;
    sparta_tensor *copy = sp_arena_alloc(g->arena, sizeof *copy);
    uint8_t *gone = sp_arena_alloc(g->arena, (size_t)SP_MAX(t->dim[axis], 1));
    SP_NEED(g->cx, copy && gone);
    SP_TRY(sp_wish_indices(w, t->dim[axis], sp_initialiser_name(v), gone));
    SP_TRY(sp_tensor_alloc_in(g->arena, t->dtype, t->rank, t->dim, copy));
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

static bool is_weight(const sp_value *v)
{
    return v->constant && v->constant->data && v->constant->rank >= 2 && sp_dtype_is_float(v->dtype);
}

/* Of each value, by its number: what people call it, by the module of a product that reads it where its own name says nothing. */
static sparta_status known_names(const sp_wish *w, const char ***out)
{
    const sp_graph *g = w->g;
    const char **name = sp_arena_array(w->arena, (size_t)SP_MAX(g->n_values, 1), sizeof *name);
    SP_NEED(g->cx, name);
    for (int i = 0; i < g->n_values; i++) name[g->value[i]->id] = sp_initialiser_name(g->value[i]);
    for (int i = g->n_nodes; i-- > 0;) { /* the first one has it */
        bool turned;
        const sp_value *v = sp_schedule_weight_of(g->node[i], &turned);
        if (!v) continue;
        name[v->id] = sp_schedule_known_as(w->arena, v, g->node[i]);
        SP_NEED(g->cx, name[v->id]);
    }
    *out = name;
    return SPARTA_OK;
}

static sparta_status no_weight(const sp_wish *w, const char *const *known, bool other)
{
    const char **names = sp_arena_array(w->g->arena, (size_t)SP_MAX(w->g->n_values, 1), sizeof *names);
    int n = 0;
    SP_NEED(w->g->cx, names);
    for (int i = 0; i < w->g->n_values; i++)
        if (is_weight(w->g->value[i])) names[n++] = known[w->g->value[i]->id];
    char hint[SP_HINT];
    if (other)
        return sp_fail(w->g->cx, SPARTA_E_USAGE,
                       "options.remove %.200s: '%.200s' is no weight of a product, and has no output "
                       "channels; name a weight",
                       w->text, w->left);
    return sp_fail(
        w->g->cx, SPARTA_E_USAGE, "options.remove %.200s: the model has no weight '%.200s'%s", w->text,
        w->left,
        sp_did_you_mean(
            w->left, names, n,
            "; name one, LAYER.weight of a layer that `sparta_model_report` lists, or PATH.heads=INDICES",
            hint));
}

static sparta_status remove_channels(const sp_wish *w)
{
    bool some = false, other = false;
    const char **known;
    sp_users u;
    SP_TRY(known_names(w, &known));
    SP_TRY(sp_graph_users(w->g, w->arena, &u));
    for (int i = 0; i < w->g->n_values; i++) {
        sp_value *v = w->g->value[i];
        int axis;
        if (!v->constant) continue;
        if (!sp_glob(w->left, sp_initialiser_name(v)) && !sp_glob(w->left, v->name) &&
            !sp_glob(w->left, known[v->id]))
            continue;
        SP_TRY(find_axis(w, &u, v, &axis));
        if (axis == -2)
            return sp_fail(w->g->cx, SPARTA_E_UNSUPPORTED,
                           "options.remove %.200s: products use '%.200s' as it is and transposed; its output "
                           "channels are not one axis",
                           w->text, sp_initialiser_name(v));
        other = true;
        if (axis < 0 || !is_weight(v)) continue;
        SP_TRY(clear_channels(w, v, axis));
        some = true;
    }
    return some ? SPARTA_OK : no_weight(w, known, other);
}

/* ------------------------------------------------------------------ both */
static bool names_constant(const sp_graph *g, const char *name)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->constant &&
            (!strcmp(sp_initialiser_name(g->value[i]), name) || !strcmp(g->value[i]->name, name)))
            return true;
    return false;
}

/* PATH.heads=..., and no initialiser has that name. */
static bool wants_heads(const sp_wish *w, size_t *path)
{
    const size_t length = strlen(w->left), word = strlen("heads");
    if (length < word || strcmp(w->left + length - word, "heads")) return false;
    *path = length - word;
    if (*path && !strchr("./", w->left[*path - 1])) return false;
    while (*path && strchr("./", w->left[*path - 1])) --*path;
    return !names_constant(w->g, w->left);
}

static sparta_status obey(sp_wish *w, const char *equals)
{
    size_t length;
    w->left = sp_arena_bytes(w->arena, w->text, (size_t)(equals - w->text));
    SP_NEED(w->g->cx, w->left);
    if (!wants_heads(w, &length)) return remove_channels(w);
    const char *path = sp_arena_bytes(w->arena, w->left, length);
    SP_NEED(w->g->cx, path);
    return sp_wish_heads(w, path);
}

sparta_status sp_propagate_remove(sp_graph *g, const char *request)
{
    const char *equals = strrchr(request, '=');
    if (!equals || equals == request || !equals[1])
        return sp_fail(
            g->cx, SPARTA_E_USAGE,
            "options.remove %.200s: expected PATH.heads=INDICES or WEIGHT=INDICES, as in encoder.2.heads=3,5",
            request);
    sp_wish w = {.g = g, .arena = sp_arena_create(g->cx), .text = request, .indices = equals + 1};
    SP_NEED(g->cx, w.arena);
    sparta_status status = obey(&w, equals);
    sp_arena_free(w.arena);
    return status;
}
