/* Mutations of ONNX models that know what they change. Bytes that move at random are refused by the wire reader; here a model is
 * read into a tree of fields, one to three things are changed in it, and it is written again:
 *
 *     bytes --read--> model / graph / node / attribute / tensor ... --change--> tree --write--> bytes
 *
 * Numbers become those that break programs (0, -1, INT64_MIN, 2^31, NaN), edges point elsewhere, operators become others, nodes and
 * attributes are added, copied, taken away; weights get zeros in whole slices, so that there is something to propagate. Bytes that
 * are no tree are left to libFuzzer, as is one in sixteen that is. */
#ifndef SP_TESTS_FUZZ_ONNX_MUTATE_H
#define SP_TESTS_FUZZ_ONNX_MUTATE_H

#include "onnx_tree.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* ------------------------------------------------------------------ single fields */
static inline bool change_int(tree *t)
{
    item *x = tree_pick(t, IS_INT, 0);
    if (!x) return false;
    if (x->wire == 2) { /* packed: one of its bytes */
        if (x->size) x->data[tree_roll(t, (unsigned)x->size)] = (uint8_t)tree_roll(t, 128);
        return x->size != 0;
    }
    x->number =
        tree_roll(t, 3) ? (uint64_t)odd_int(&t->state) : x->number + (tree_roll(t, 2) ? 1 : UINT64_MAX);
    return true;
}

static inline bool change_attribute(tree *t)
{
    item *a = tree_pick(t, IS_ATTRIBUTE, 0), *x = a ? tree_child(t, a) : NULL;
    if (!x) return false;
    if (x->is == IS_INT && x->wire == 0 && x->field != ATTRIBUTE_TYPE)
        x->number = (uint64_t)odd_int(&t->state);
    if (x->is == IS_FLOAT && x->wire == 5) tree_set_float(x, odd_float(&t->state));
    if (x->is == IS_TEXT && x->field == 4) tree_set_text(t, x, odd_text(&t->state));
    return true;
}

static inline bool change_float(tree *t)
{
    item *x = tree_pick(t, IS_FLOAT, 0);
    if (!x) return false;
    float f = odd_float(&t->state);
    if (x->wire == 5) tree_set_float(x, f);
    if (x->wire == 2 && x->size >= 4) memcpy(x->data + 4 * tree_roll(t, (unsigned)x->size / 4), &f, 4);
    return true;
}

/* Opsets and types have few numbers that mean something. */
static inline bool change_version(tree *t)
{
    item *x = tree_pick(t, IS_OPSET, 0), *v = x ? tree_find(x, 2) : NULL;
    if (v) v->number = tree_roll(t, 16) ? 11 + tree_roll(t, 17) : tree_roll(t, 40);
    return v != NULL;
}

static inline bool change_op(tree *t)
{
    item *x = tree_pick(t, IS_NODE, 0), *op = x ? tree_find(x, NODE_OP) : NULL;
    if (op) tree_set_text(t, op, operators[tree_roll(t, OPERATORS)].name);
    return op != NULL;
}

/* ------------------------------------------------------------------ weights */
static inline unsigned width_of(const item *weight)
{
    static const uint8_t width[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
    item *x = tree_find(weight, WEIGHT_TYPE);
    return x && x->number < sizeof width ? width[x->number] : 1;
}

static inline void put_number(tree *t, uint8_t *at, unsigned width, uint64_t type)
{
    float f = odd_float(&t->state);
    double d = (double)f;
    int64_t i = odd_int(&t->state);
    const void *from = type == 1 ? (void *)&f : type == 11 ? (void *)&d : (void *)&i;
    uint16_t h = (uint16_t[]){0, 0x8000, 0x3c00, 0x7c00, 0x7e00, 1}[tree_roll(t, 6)];
    if (width == 2) from = &h;
    memcpy(at, from, width > 8 ? 8 : width);
}

static inline bool change_weight(tree *t)
{
    item *w = tree_pick(t, IS_TENSOR, 0), *raw = w ? tree_find(w, WEIGHT_RAW) : NULL;
    unsigned width = w ? width_of(w) : 0;
    if (!raw || !width || raw->size < width) return false;
    item *type = tree_find(w, WEIGHT_TYPE);
    put_number(t, raw->data + (size_t)width * tree_roll(t, (unsigned)(raw->size / width)), width,
               type ? type->number : 0);
    return true;
}

/* Zeros in slices of one axis. */
static inline bool mask_weight(tree *t)
{
    item *w = tree_pick(t, IS_TENSOR, 0), *raw = w ? tree_find(w, WEIGHT_RAW) : NULL;
    unsigned width = w ? width_of(w) : 0, slices = tree_roll(t, 1u << 16);
    if (!raw || !width) return false;
    size_t n = raw->size / width, inner = 1;
    unsigned skip = tree_roll(t, 4);
    for (int i = w->n - 1; i >= 0 && skip; i--)
        if (w->child[i]->field == WEIGHT_DIM && w->child[i]->number && w->child[i]->number < 4096)
            inner *= w->child[i]->number, skip--;
    for (size_t i = 0; i < n; i++)
        if (slices >> (i / inner % 16) & 1) memset(raw->data + i * width, 0, width);
    return true;
}

/* As many bytes as the dims and the type need; or a few more. */
static inline void fit_weight(tree *t, item *w, item *raw)
{
    uint64_t n = width_of(w);
    for (int i = 0; i < w->n; i++)
        if (w->child[i]->field == WEIGHT_DIM) n = n * w->child[i]->number % 65536;
    if (tree_roll(t, 8) == 0) n += tree_roll(t, 16);
    uint8_t *data = tree_get(t, n + 1);
    for (uint64_t i = 0; i < n; i++) data[i] = raw->size ? raw->data[i % raw->size] : 0;
    raw->data = data;
    raw->size = n;
}

static inline bool resize_weight(tree *t)
{
    item *w = tree_pick(t, IS_TENSOR, 0), *raw = w ? tree_find(w, WEIGHT_RAW) : NULL;
    if (!raw) return false;
    item *dim = tree_find_some(t, w, WEIGHT_DIM);
    if (dim) dim->number = tree_roll(t, 6);
    fit_weight(t, w, raw);
    return true;
}

static inline bool change_type(tree *t)
{
    static const uint8_t usual[] = {1, 1, 1, 7, 7, 6, 9, 10, 11, 2, 3, 16};
    bool weight = tree_roll(t, 2);
    item *x = tree_pick(t, weight ? IS_TENSOR : IS_TENSOR_TYPE, 0);
    item *v = x ? tree_find(x, weight ? WEIGHT_TYPE : 1) : NULL,
         *raw = x && weight ? tree_find(x, WEIGHT_RAW) : NULL;
    if (v) v->number = tree_roll(t, 16) ? usual[tree_roll(t, sizeof usual)] : tree_roll(t, 30);
    if (v && raw) fit_weight(t, x, raw);
    return v != NULL;
}

/* A name for what a graph reads from outside becomes weights: f32 with zeros, of the dims that it has. */
static inline bool freeze_input(tree *t)
{
    item *g = tree_pick(t, IS_GRAPH, 0), *v = g ? tree_find_some(t, g, GRAPH_INPUT) : NULL;
    item *type = v ? tree_find(v, 2) : NULL, *name = v ? tree_find(v, 1) : NULL;
    if (type) type = tree_find(type, 1);
    item *shape = type ? tree_find(type, 2) : NULL, *element = type ? tree_find(type, 1) : NULL;
    if (!shape || !name || !element) return false;
    item *w = tree_new(t, IS_TENSOR, GRAPH_WEIGHT, 2);
    uint64_t n = 1;
    for (int i = 0; i < shape->n; i++) {
        item *d = tree_find(shape->child[i], 1), *dim = tree_new(t, IS_INT, WEIGHT_DIM, 0);
        dim->number = d && d->number < 32 ? d->number : 3;
        n *= dim->number;
        tree_insert(t, w, w->n, dim);
    }
    if (n > 4096) return false;
    item *kind = tree_new(t, IS_INT, WEIGHT_TYPE, 0), *raw = tree_new(t, IS_DATA, WEIGHT_RAW, 2);
    kind->number = element->number;
    tree_insert(t, w, w->n, kind);
    item *copy = tree_copy(t, name);
    copy->field = WEIGHT_NAME;
    tree_insert(t, w, w->n, copy);
    raw->size = n * width_of(w);
    raw->data = tree_get(t, raw->size + 1);
    for (uint64_t i = 0; i < n && width_of(w); i++)
        if (tree_roll(t, 2)) put_number(t, raw->data + i * width_of(w), width_of(w), kind->number);
    tree_insert(t, w, w->n, raw);
    tree_insert(t, g, g->n, w);
    tree_remove(g, v);
    return true;
}

/* ------------------------------------------------------------------ edges and nodes */
/* A name that a graph has: of a value made by a node, a weight or an input. */
static inline item *some_name(tree *t)
{
    item *x = tree_pick(t, IS_TEXT, 1u << NODE_OUTPUT);
    if (tree_roll(t, 3) == 0) x = tree_pick(t, IS_TEXT, 1u << NODE_INPUT);
    if (tree_roll(t, 4) == 0) {
        item *w = tree_pick(t, IS_TENSOR, 0);
        x = w && tree_find(w, WEIGHT_NAME) ? tree_find(w, WEIGHT_NAME) : x;
    }
    return x;
}

static inline bool change_edge(tree *t)
{
    item *n = tree_pick(t, IS_NODE, 0), *to = n ? tree_find_some(t, n, NODE_INPUT) : NULL,
         *from = some_name(t);
    if (!to || !from) return false;
    to->data = from->data;
    to->size = tree_roll(t, 32) ? from->size : 0;
    return true;
}

/* A graph's output is another value, so that what follows is dead. */
static inline bool change_output(tree *t)
{
    item *g = tree_pick(t, IS_GRAPH, 0), *v = g ? tree_find_some(t, g, GRAPH_OUTPUT) : NULL;
    item *name = v ? tree_find(v, 1) : NULL, *from = some_name(t);
    if (!name || !from) return false;
    name->data = from->data;
    name->size = from->size;
    return true;
}

static inline void add_text(tree *t, item *to, uint32_t field, const uint8_t *text, size_t n)
{
    item *x = tree_new(t, IS_TEXT, field, 2);
    x->data = (uint8_t *)(uintptr_t)text;
    x->size = n;
    tree_insert(t, to, to->n, x);
}

static inline bool add_attribute_to(tree *t, item *n)
{
    item *op = tree_find(n, NODE_OP), *a = tree_new(t, IS_ATTRIBUTE, NODE_ATTRIBUTE, 2);
    unsigned rows = ATTRIBUTES, from = tree_roll(t, rows), i = from;
    if (!op) return false;
    do i = (i + 1) % rows;
    while (i != from &&
           (strlen(attributes[i].op) != op->size || memcmp(attributes[i].op, op->data, op->size)));
    add_text(t, a, ATTRIBUTE_NAME, (const uint8_t *)attributes[i].name, strlen(attributes[i].name));
    int type = attributes[i].type;
    bool many = type == TYPE_FLOATS || type == TYPE_INTS;
    for (unsigned k = 0, count = many ? tree_roll(t, 6) : 1; k < count; k++) {
        item *x = tree_new(t, IS_INT,
                           type == TYPE_FLOAT    ? 2
                           : type == TYPE_INT    ? 3
                           : type == TYPE_FLOATS ? 7
                                                 : 8,
                           type == TYPE_FLOAT || type == TYPE_FLOATS ? 5 : 0);
        if (x->wire == 5) tree_set_float(x, odd_float(&t->state));
        x->number = x->wire == 5 ? x->number : (uint64_t)odd_int(&t->state);
        if (type == TYPE_STRING) {
            const char *text = odd_text(&t->state);
            add_text(t, a, 4, (const uint8_t *)text, strlen(text));
        } else if (type != TYPE_TENSOR)
            tree_insert(t, a, a->n, x);
    }
    item *x = tree_new(t, IS_INT, ATTRIBUTE_TYPE, 0);
    x->number = (uint64_t)type;
    tree_insert(t, a, a->n, x);
    tree_insert(t, n, n->n, a);
    return true;
}

static inline bool add_attribute(tree *t)
{
    item *n = tree_pick(t, IS_NODE, 0);
    return n && add_attribute_to(t, n);
}

/* A node is put into an edge: what read a value reads what the new node makes of it. */
static inline bool add_node(tree *t)
{
    item *g = tree_pick(t, IS_GRAPH, 0), *reader = g ? tree_find_some(t, g, GRAPH_NODE) : NULL;
    item *edge = reader ? tree_find_some(t, reader, NODE_INPUT) : NULL, *second = some_name(t);
    if (!edge || !second) return false;
    item *n = tree_new(t, IS_NODE, GRAPH_NODE, 2);
    unsigned op = tree_roll(t, OPERATORS), least = (unsigned)operators[op].least;
    unsigned most = operators[op].most < 0 ? 4 : (unsigned)operators[op].most;
    unsigned inputs = least + (most > least ? tree_roll(t, most - least + 1) : 0);
    add_text(t, n, NODE_INPUT, edge->data, edge->size);
    for (unsigned i = 1; i < inputs; i++) {
        item *x = i == 1 ? second : some_name(t);
        if (x) add_text(t, n, NODE_INPUT, x->data, x->size);
    }
    uint8_t *name = tree_get(t, 16);
    int size = snprintf((char *)name, 16, "n%x", tree_roll(t, 1u << 20));
    add_text(t, n, NODE_OUTPUT, name, (size_t)size);
    add_text(t, n, NODE_OP, (const uint8_t *)operators[op].name, strlen(operators[op].name));
    if (tree_roll(t, 3) == 0) add_attribute_to(t, n);
    edge->data = name;
    edge->size = (size_t)size;
    tree_insert(t, g, tree_place(g, reader), n);
    return true;
}

/* A node goes; what read its first output reads its first input. */
static inline bool skip_node(tree *t)
{
    item *g = tree_pick(t, IS_GRAPH, 0), *n = g ? tree_find_some(t, g, GRAPH_NODE) : NULL;
    item *in = n ? tree_find(n, NODE_INPUT) : NULL, *out = n ? tree_find(n, NODE_OUTPUT) : NULL;
    if (!in || !out) return false;
    tree_remove(g, n);
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->child[i]->n; k++) {
            item *x = g->child[i]->child[k];
            bool reads =
                g->child[i]->is == IS_NODE ? x->field == NODE_INPUT : g->child[i]->field == GRAPH_OUTPUT;
            if (reads && x->is == IS_TEXT && x->size == out->size && !memcmp(x->data, out->data, x->size))
                x->data = in->data, x->size = in->size;
        }
    return true;
}

/* ------------------------------------------------------------------ any message */
static inline bool copy_child(tree *t)
{
    item *x = tree_pick_message(t), *c = x ? tree_child(t, x) : NULL;
    if (c) tree_insert(t, x, (int)tree_roll(t, (unsigned)x->n + 1), tree_copy(t, c));
    return c != NULL;
}

static inline bool remove_child(tree *t)
{
    item *x = tree_pick_message(t), *c = x ? tree_child(t, x) : NULL;
    if (c) tree_remove(x, c);
    return c != NULL;
}

static inline bool swap_children(tree *t)
{
    item *x = tree_pick_message(t);
    if (!x || x->n < 2) return false;
    unsigned a = tree_roll(t, (unsigned)x->n), b = tree_roll(t, (unsigned)x->n);
    item *c = x->child[a];
    x->child[a] = x->child[b];
    x->child[b] = c;
    return true;
}

/* One message becomes what another of its kind is. */
static inline bool become_another(tree *t)
{
    item *x = tree_pick_message(t), *y = x ? tree_pick(t, x->is, 0) : NULL;
    if (!y || x == y || x->is == IS_GRAPH || x->is == IS_MODEL) return false;
    uint32_t field = x->field;
    *x = *tree_copy(t, y);
    x->field = field;
    return true;
}

/* Dims that the file claims for what comes out are forgotten: they would refuse most of the other changes. */
static inline bool forget_shapes(tree *t)
{
    item *g = tree_pick(t, IS_GRAPH, 0);
    for (int i = g ? g->n - 1 : -1; i >= 0; i--) {
        item *v = g->child[i], *type = v->is == IS_VALUE ? tree_find(v, 2) : NULL;
        if (v->field == GRAPH_VALUE)
            tree_remove(g, v);
        else if (v->field == GRAPH_OUTPUT && type && (type = tree_find(type, 1)) && tree_find(type, 2))
            tree_remove(type, tree_find(type, 2));
    }
    return g != NULL;
}

/* ------------------------------------------------------------------ one mutation */
static bool (*const changes[])(tree *) = {
    change_int,     change_attribute, change_attribute, change_attribute, change_float,  change_version,
    change_type,    change_op,        change_weight,    change_weight,    mask_weight,   mask_weight,
    resize_weight,  freeze_input,     change_edge,      change_edge,      change_output, add_attribute,
    add_node,       add_node,         skip_node,        copy_child,       remove_child,  swap_children,
    become_another, forget_shapes,    forget_shapes,
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static tree t;
    tree_start(&t, seed);
    item *model = tree_roll(&t, 16) ? tree_read(&t, data, size) : NULL;
    if (!model) return LLVMFuzzerMutate(data, size, most);
    unsigned count = 1 + tree_roll(&t, 3);
    for (unsigned done = 0, tries = 0; done < count && tries < 32; tries++) {
        tree_list(&t, model);
        done += changes[tree_roll(&t, sizeof changes / sizeof *changes)](&t);
    }
    size_t n = tree_write(model, data, most);
    return n ? n : LLVMFuzzerMutate(data, size, most);
}

#endif
