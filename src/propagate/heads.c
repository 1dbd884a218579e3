/* "encoder.2.heads=3,5": where the heads of an attention are, and what is multiplied by zero there.
 *
 *     Softmax (b, h, s, t)                   its output, by [1, h, 1, 1]
 *     Attention (b, h, s, d)                 its output, by [1, h, 1, 1]
 *     Attention (b, s, h*d)                  its output, by [1, 1, h*d], each head's columns alike
 *     Softmax (b*h, s, t)                    the batch is in the way; heads are what a later Reshape joins with the columns
 *                                            of the values, and what that makes is multiplied:
 *
 *         Softmax --> MatMul --> Transpose --> Reshape --> * [1, 1, h*d]
 *         b*h s t     b*h s d    s b*h d       s b h*d
 *
 * An attention is named by words of a path. They are looked for in the name of its node and of its module, in that of its output, and (for
 * exporters that number their nodes) in those of the weights that its scores come from. */
#include "propagate/request.h"
#include <string.h>

enum {
    TOLD = 3,        /* names in a message */
    LOOKS = 64,      /* nodes before an attention that are looked at for a weight */
    PLACES = 4,      /* values that what one attention makes goes to */
    BEHIND = 1 << 15 /* slots of nodes behind all of them that are looked at for heads */
};

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

static bool is_attention(const sp_node *n)
{
    if (n->op == SP_OP_OnnxAttention || n->op == SP_OP_Attention) return true;
    const int rank = n->out[0]->dims.rank;
    const int64_t axis = n->op == SP_OP_Softmax ? sp_attr_int(&n->attrs, "axis", -1) : 0;
    return n->op == SP_OP_Softmax && rank > 2 && (axis == -1 || axis == rank - 1);
}

static const char *attention_name(const sp_node *n)
{
    return *n->name ? n->name : n->out[0]->name;
}

/* A constant of this node whose name is a path, as modules' are; generated names are not. */
static const char *path_of(const sp_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const bool vector = n->in[i] && n->in[i]->constant && n->in[i]->constant->rank > 0;
        const char *name = vector ? sp_initialiser_name(n->in[i]) : "";
        if (strpbrk(name, "./")) return name;
    }
    return NULL;
}

/* The nearest layer that a value comes from, by the name of its weight or bias; NULL: none near has one. No further than that layer:
 * the one before it is another's. */
static const char *layer_before(const sp_value *v, int *looks, bool *reached)
{
    const sp_node *n = v ? v->producer : NULL;
    if (!n || --*looks < 0) return NULL;
    for (int i = 0; i < n->n_in; i++) {
        const bool weight = n->in[i] && n->in[i]->constant && n->in[i]->constant->rank == 2;
        *reached |= weight && (n->op == SP_OP_MatMul || n->op == SP_OP_Gemm);
    }
    if (*reached) return path_of(n);
    for (int i = 0; i < n->n_in; i++) {
        const char *found = layer_before(n->in[i], looks, reached);
        if (found || *reached) return found ? found : path_of(n);
    }
    return NULL;
}

static const char *layer_of(const sp_node *n)
{
    int looks = LOOKS;
    bool reached = false;
    return layer_before(n->in[0], &looks, &reached);
}

/* By the node's name, its module's, that of its output, or that of the layer before it. */
static int likeness(const char *path, const sp_node *n, int *of)
{
    const char *const name[] = {n->name, n->module, n->out[0]->name, layer_of(n)};
    int best = 0;
    for (size_t i = 0; i < SP_COUNT(name); i++)
        best = SP_MAX(best, tokens_in(path, name[i] ? name[i] : "", of));
    return best;
}

static sparta_status no_attention(const sp_wish *w, const char *path)
{
    sp_text t;
    int best = 0, told = 0, of;
    sp_text_init(&t, w->g->cx);
    for (int i = 0; i < w->g->n_nodes; i++)
        if (is_attention(w->g->node[i])) best = SP_MAX(best, likeness(path, w->g->node[i], &of));
    for (int i = 0; i < w->g->n_nodes && told < TOLD; i++) {
        const sp_node *n = w->g->node[i];
        if (!is_attention(n) || likeness(path, n, &of) != best) continue;
        const char *layer = layer_of(n);
        sp_text_printf(&t, "%s'%.100s'", told++ ? ", " : "", attention_name(n));
        if (layer) sp_text_printf(&t, " (of '%.100s')", layer);
    }
    sparta_status status = sp_fail(
        w->g->cx, SPARTA_E_USAGE,
        "options.remove %.200s: no Softmax or Attention has '%.200s' in its path; %s%s", w->text, path,
        told ? "the nearest are " : "the model has none, so no attention heads to remove", sp_text_str(&t));
    sp_text_free(&t);
    return status;
}

/* ------------------------------------------------------------------ where heads are */
typedef struct place {
    sp_value *v;
    int axis;
    int64_t size, heads, inner; /* index i of the axis is head i / inner % heads */
} place;

static bool place_at(sp_value *v, int axis, int64_t heads, place *out)
{
    *out = (place){.v = v, .axis = axis};
    if (axis >= v->dims.rank || !sp_expr_is_const(v->dims.dim[axis], &out->size)) return false;
    out->heads = heads ? heads : out->size;
    if (out->heads < 1 || out->size % out->heads) return false;
    out->inner = out->size / out->heads;
    return out->inner > 0;
}

static bool plain_place(const sp_node *n, place *out)
{
    const int rank = n->out[0]->dims.rank;
    if (rank == 4) return place_at(n->out[0], 1, 0, out);
    if (rank != 3 || n->op == SP_OP_Softmax) return false;
    const char *attribute = n->op == SP_OP_Attention ? "heads" : "q_num_heads";
    return place_at(n->out[0], 2, sp_attr_int(&n->attrs, attribute, 0), out);
}

/* ------------------------------------------------------------------ a batch of heads */
/* Axes of a value that the axis batch*heads came apart into, and the one with the columns of the values: -1 before the product. */
typedef struct trail {
    sp_value *v;
    uint32_t folded; /* a set of axes */
    int columns;
} trail;

typedef struct search {
    const sp_wish *w;
    sp_users users; /* while one attention is looked at */
    trail *queue;   /* that are still to be followed: no more than BEHIND */
    int n_queue;
    int *looks; /* slots of nodes that may still be looked at */
    bool lost;  /* what the product makes goes where heads cannot be told */
    place found[PLACES];
    int n_found;
} search;

static uint32_t labels_of(const sp_axis *x)
{
    uint32_t set = 0;
    for (int j = 0; j < x->n; j++) set |= 1u << x->label[j];
    return set;
}

/* One step through a node: 1 and the trail behind it, 2 and the place where heads meet columns, 0 neither. */
static int step(const sp_axes *a, int in, const trail *t, trail *next, place *out)
{
    const sp_flow_operand *from = &a->in[in];
    sp_value *y = a->n->out[0];
    uint32_t folded = 0, columns = 0, mine = 0, left;
    for (int k = 0; k < t->v->dims.rank; k++) {
        if (from->axis[k].window) return 0;
        mine |= labels_of(&from->axis[k]);
        if (t->folded & (1u << k)) folded |= labels_of(&from->axis[k]);
    }
    const sp_axis *last = &from->axis[t->columns < 0 ? t->v->dims.rank - 1 : t->columns];
    const bool product = t->columns < 0 && last->n == 1 && a->label[last->label[0]].kind == SP_SUM;
    if (t->columns >= 0 && last->n != 1) return 0;
    if (t->columns >= 0) columns = labels_of(last);
    *next = (trail){.v = y, .columns = -1};
    left = folded;
    for (int k = 0; k < y->dims.rank; k++) {
        const sp_axis *x = &a->out[0].axis[k];
        const uint32_t all = labels_of(x);
        const int end = x->n ? x->label[x->n - 1] : 0;
        if (x->n > 1 && columns == 1u << end && folded & (1u << x->label[x->n - 2]))
            return place_at(y, k, a->label[x->label[x->n - 2]].size, out) ? 2 : 0;
        if (x->n && !(all & ~folded)) next->folded |= 1u << k;
        if (x->n && !(all & ~folded)) left &= ~all;
        if (x->n == 1 && (all == columns || (product && !(all & mine)))) next->columns = k;
    }
    return !left && next->folded && (next->columns >= 0) == (product || t->columns >= 0);
}

static void add_place(search *s, const place *p)
{
    for (int j = 0; j < s->n_found; j++)
        if (s->found[j].v == p->v) return;
    s->lost |= s->n_found == PLACES;
    if (s->n_found < PLACES) s->found[s->n_found++] = *p;
}

/* Every way on from here, through nodes that keep the axes apart, to where heads are or is still to be looked. */
static sparta_status follow(search *s, const trail *t)
{
    const sp_users *u = &s->users;
    bool ends = true;
    for (int i = u->first[t->v->id], last = -1; i < u->first[t->v->id + 1]; last = u->user[i++]) {
        const sp_node *n = s->w->g->node[u->user[i]];
        if (u->user[i] == last) continue; /* another slot of it */
        sp_axes a = {.n = NULL};          /* until n turns out to have the value */
        for (int k = 0; k < n->n_in && !s->lost; k++) {
            trail next = {0};
            place p;
            if (n->in[k] != t->v) continue;
            *s->looks -= a.n ? 1 : sp_node_slots(n);
            s->lost |= *s->looks <= 0;
            if (s->lost) return SPARTA_OK;
            if (!a.n) SP_TRY(sp_axes_of(s->w->g, n, s->w->arena, &a));
            if (a.how == SP_FLOW_SIZES) continue; /* it is measured, not read */
            const bool plain = a.how != SP_FLOW_OPAQUE && n->n_out == 1 && a.in[k].role != SP_SIDE;
            const int way = plain ? step(&a, k, t, &next, &p) : 0;
            ends = false;
            s->lost |= !way && t->columns >= 0;
            if (way == 1) s->queue[s->n_queue++] = next;
            if (way == 2) add_place(s, &p);
        }
    }
    s->lost |= ends && t->columns >= 0;
    return SPARTA_OK;
}

static sparta_status cannot_tell(const sp_wish *w, const sp_node *n)
{
    return sp_fail(
        w->g->cx, SPARTA_E_UNSUPPORTED,
        "options.remove %.200s: '%.200s' of rank %d does not say which of its axes are heads (axis 1 of 4 "
        "is, and "
        "of rank 3 "
        "what a Reshape behind it joins with the columns of the values); name output channels of the weight "
        "that makes "
        "the values instead, as in v_proj.weight=192-255 for head 3 of 64 columns, and make its bias 0 there",
        w->text, attention_name(n), n->out[0]->dims.rank);
}

/* Places of one attention; none when nobody but the caller of the model reads its Softmax: that is no attention. */
static sparta_status find_places(search *s, const sp_node *n)
{
    if (plain_place(n, &s->found[0])) {
        s->n_found = 1;
        return SPARTA_OK;
    }
    if (n->op != SP_OP_Softmax || n->out[0]->dims.rank != 3) return cannot_tell(s->w, n);
    sp_arena *scratch = sp_arena_create(s->w->g->cx);
    SP_NEED(s->w->g->cx, scratch);
    sparta_status status = sp_graph_users(s->w->g, scratch, &s->users);
    s->queue[s->n_queue++] = (trail){.v = n->out[0], .folded = 1, .columns = -1};
    for (int i = 0; status == SPARTA_OK && i < s->n_queue && !s->lost; i++) status = follow(s, &s->queue[i]);
    sp_arena_free(scratch);
    SP_TRY(status);
    const bool read = sp_graph_uses(s->w->g, n->out[0]) > n->out[0]->is_output;
    return s->lost || (read && !s->n_found) ? cannot_tell(s->w, n) : SPARTA_OK;
}

/* ------------------------------------------------------------------ the edit */
static int node_index(const sp_graph *g, const sp_node *n)
{
    int at = 0;
    while (g->node[at] != n) at++;
    return at;
}

/* "encoder/Softmax/heads", or with a number where that is there. Reports call it so when it cannot go. */
static sparta_status name_mask(sp_graph *g, const sp_node *n, const char **out)
{
    const char *name = sp_arena_printf(g->arena, "%s/heads", attention_name(n));
    for (int i = g->n_values; name && sp_graph_find(g, name); i++)
        name = sp_arena_printf(g->arena, "%s/heads_%d", attention_name(n), i);
    SP_NEED(g->cx, name);
    *out = name;
    return SPARTA_OK;
}

/* A value is multiplied by a mask for every node that reads it; as an output of the model it stays as it is. */
static sparta_status insert_mask(const sp_wish *w, const place *p, const uint8_t *gone, const char *name)
{
    sp_graph *g = w->g;
    sp_node *product;
    sp_value *y = p->v, *mask, *out = NULL;
    sparta_tensor t;
    int64_t dim[SPARTA_RANK];
    for (int k = 0; k < y->dims.rank; k++) dim[k] = k == p->axis ? p->size : 1;
    SP_TRY(sp_tensor_alloc_in(g->arena, y->dtype, y->dims.rank, dim, &t));
    for (int64_t i = 0; i < p->size; i++)
        sp_element_set(t.dtype, t.data, i, gone[i / p->inner % p->heads] ? 0 : 1);
    SP_TRY(sp_graph_add_constant(g, name, &t, false, &mask));
    const int n_nodes = g->n_nodes;
    SP_TRY(sp_graph_add_node(g, SP_OP_Mul, name, 2, (sp_value *[]){y, mask}, 1, &out, NULL, &product));
    for (int i = 0; i < n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == y) g->node[i]->in[k] = out;
    sp_graph_move_node(g, node_index(g, y->producer) + 1, product);
    return sp_ops_infer_node(g, product);
}

sparta_status sp_wish_heads(const sp_wish *w, const char *path)
{
    bool some = false;
    int looks = BEHIND;
    trail *queue = sp_arena_array(w->arena, BEHIND + 1, sizeof *queue);
    SP_NEED(w->g->cx, queue);
    for (int i = 0; i < w->g->n_nodes; i++) {
        const sp_node *n = w->g->node[i];
        search s = {.w = w, .queue = queue, .looks = &looks};
        const char *name;
        int of;
        if (!is_attention(n) || likeness(path, n, &of) < of) continue;
        SP_TRY(find_places(&s, n));
        for (int k = 0; k < s.n_found; k++) {
            uint8_t *gone = sp_arena_alloc(w->arena, (size_t)s.found[k].heads);
            SP_NEED(w->g->cx, gone);
            SP_TRY(sp_wish_indices(w, s.found[k].heads, attention_name(n), gone));
            SP_TRY(name_mask(w->g, n, &name));
            SP_TRY(insert_mask(w, &s.found[k], gone, name));
            some = true;
        }
    }
    return some ? SPARTA_OK : no_attention(w, path);
}
