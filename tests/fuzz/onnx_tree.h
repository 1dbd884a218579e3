/* A model as a tree of protobuf fields that can be changed, for onnx_mutate.h. The schema is the part of ONNX's that mutations know; all
 * other fields are carried along. Everything lives in one buffer that the next model takes over; a model that needs more of it
 * is written no more. */
#ifndef SP_TESTS_FUZZ_ONNX_TREE_H
#define SP_TESTS_FUZZ_ONNX_TREE_H

#include "operators.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the schema, as far as it matters */
typedef enum item_kind {
    IS_OTHER,
    IS_INT,
    IS_FLOAT,
    IS_TEXT,
    IS_DATA,
    IS_MODEL, /* from here on: messages */
    IS_OPSET,
    IS_GRAPH,
    IS_NODE,
    IS_ATTRIBUTE,
    IS_TENSOR,
    IS_SPARSE,
    IS_VALUE,
    IS_TYPE,
    IS_TENSOR_TYPE,
    IS_SHAPE,
    IS_DIM,
} item_kind;

enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_TYPE = 20
};
enum { GRAPH_NODE = 1, GRAPH_WEIGHT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_VALUE = 13 };
enum { WEIGHT_DIM = 1, WEIGHT_TYPE = 2, WEIGHT_NAME = 8, WEIGHT_RAW = 9 };

static const struct {
    item_kind in;
    uint32_t field;
    item_kind is;
} schema[] = {
    {IS_MODEL, 7, IS_GRAPH},
    {IS_MODEL, 8, IS_OPSET},
    {IS_OPSET, 1, IS_TEXT},
    {IS_OPSET, 2, IS_INT},
    {IS_GRAPH, GRAPH_NODE, IS_NODE},
    {IS_GRAPH, GRAPH_WEIGHT, IS_TENSOR},
    {IS_GRAPH, GRAPH_INPUT, IS_VALUE},
    {IS_GRAPH, GRAPH_OUTPUT, IS_VALUE},
    {IS_GRAPH, GRAPH_VALUE, IS_VALUE},
    {IS_GRAPH, 15, IS_SPARSE},
    {IS_NODE, NODE_INPUT, IS_TEXT},
    {IS_NODE, NODE_OUTPUT, IS_TEXT},
    {IS_NODE, NODE_OP, IS_TEXT},
    {IS_NODE, NODE_ATTRIBUTE, IS_ATTRIBUTE},
    {IS_ATTRIBUTE, ATTRIBUTE_NAME, IS_TEXT},
    {IS_ATTRIBUTE, 2, IS_FLOAT},
    {IS_ATTRIBUTE, 3, IS_INT},
    {IS_ATTRIBUTE, 4, IS_TEXT},
    {IS_ATTRIBUTE, 5, IS_TENSOR},
    {IS_ATTRIBUTE, 6, IS_GRAPH},
    {IS_ATTRIBUTE, 7, IS_FLOAT},
    {IS_ATTRIBUTE, 8, IS_INT},
    {IS_ATTRIBUTE, ATTRIBUTE_TYPE, IS_INT},
    {IS_TENSOR, WEIGHT_DIM, IS_INT},
    {IS_TENSOR, WEIGHT_TYPE, IS_INT},
    {IS_TENSOR, 4, IS_FLOAT},
    {IS_TENSOR, 5, IS_INT},
    {IS_TENSOR, 7, IS_INT},
    {IS_TENSOR, WEIGHT_NAME, IS_TEXT},
    {IS_TENSOR, WEIGHT_RAW, IS_DATA},
    {IS_SPARSE, 1, IS_TENSOR},
    {IS_SPARSE, 2, IS_TENSOR},
    {IS_SPARSE, 3, IS_INT},
    {IS_VALUE, 1, IS_TEXT},
    {IS_VALUE, 2, IS_TYPE},
    {IS_TYPE, 1, IS_TENSOR_TYPE},
    {IS_TENSOR_TYPE, 1, IS_INT},
    {IS_TENSOR_TYPE, 2, IS_SHAPE},
    {IS_SHAPE, 1, IS_DIM},
    {IS_DIM, 1, IS_INT},
    {IS_DIM, 2, IS_TEXT},
};

static inline item_kind kind_of(item_kind in, uint32_t field)
{
    for (size_t i = 0; i < sizeof schema / sizeof *schema; i++)
        if (schema[i].in == in && schema[i].field == field) return schema[i].is;
    return IS_OTHER;
}

/* ------------------------------------------------------------------ the tree */
typedef struct item {
    uint32_t field, wire;
    item_kind is;
    uint64_t number; /* wire 0, 1 and 5 */
    uint8_t *data;   /* wire 2, where it is no message */
    size_t size;
    int n, room;
    struct item **child; /* of a message */
} item;

/* A model of TREE_INPUT bytes and its changes need a fraction of TREE_BYTES, most of which are never touched. */
enum { TREE_INPUT = 1 << 18, TREE_BYTES = 256 << 20, TREE_ITEMS = 1 << 17, TREE_DEPTH = 16 };
typedef struct tree {
    uint64_t state;
    size_t used;
    int n;
    item *all[TREE_ITEMS]; /* every item of the model, as far as there is room */
    _Alignas(16) uint8_t bytes[TREE_BYTES];
} tree;

static inline void tree_start(tree *t, unsigned seed)
{
    t->state = seed * 0x9e3779b97f4a7c15u + 1;
    t->used = 0;
    t->n = 0;
}

static inline unsigned tree_roll(tree *t, unsigned n)
{
    return odd_roll(&t->state, n);
}

/* Zeros. */
static inline void *tree_get(tree *t, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > TREE_BYTES - t->used) abort();
    void *p = t->bytes + t->used;
    t->used += size;
    return memset(p, 0, size);
}

static inline item *tree_new(tree *t, item_kind is, uint32_t field, uint32_t wire)
{
    item *x = tree_get(t, sizeof *x);
    x->is = is;
    x->field = field;
    x->wire = wire;
    x->data = t->bytes;
    return x;
}

static inline void tree_insert(tree *t, item *to, int at, item *x)
{
    if (to->n == to->room) {
        to->room = 2 * to->room + 4;
        item **child = tree_get(t, (size_t)to->room * sizeof *child);
        if (to->n) memcpy(child, to->child, (size_t)to->n * sizeof *child);
        to->child = child;
    }
    memmove(to->child + at + 1, to->child + at, (size_t)(to->n - at) * sizeof *to->child);
    to->child[at] = x;
    to->n++;
}

static inline int tree_place(const item *in, const item *x)
{
    int at = 0;
    while (at < in->n && in->child[at] != x) at++;
    return at;
}

static inline void tree_remove(item *from, const item *x)
{
    int at = tree_place(from, x);
    if (at == from->n) return;
    from->n--;
    memmove(from->child + at, from->child + at + 1, (size_t)(from->n - at) * sizeof *from->child);
}

static inline item *tree_copy(tree *t, const item *x)
{
    item *y = tree_get(t, sizeof *y);
    *y = *x;
    y->n = y->room = 0;
    y->data = memcpy(tree_get(t, x->size + 1), x->data, x->size);
    for (int i = 0; i < x->n; i++) tree_insert(t, y, i, tree_copy(t, x->child[i]));
    return y;
}

static inline void tree_set_text(tree *t, item *x, const char *text)
{
    x->size = strlen(text);
    x->data = memcpy(tree_get(t, x->size + 1), text, x->size);
}

static inline void tree_set_float(item *x, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    x->number = bits;
}

/* ------------------------------------------------------------------ finding */
static inline void tree_add(tree *t, item *x)
{
    if (t->n < TREE_ITEMS) t->all[t->n++] = x;
    for (int i = 0; i < x->n; i++) tree_add(t, x->child[i]);
}

static inline void tree_list(tree *t, item *model)
{
    t->n = 0;
    tree_add(t, model);
}

/* One of the items that fit, each as likely as another; fields is a set of bits, 0: any. */
static inline item *tree_pick(tree *t, item_kind is, uint32_t fields)
{
    item *x = NULL;
    unsigned seen = 0;
    for (int i = 0; i < t->n; i++)
        if (t->all[i]->is == is && (!fields || fields >> t->all[i]->field % 32 & 1) &&
            tree_roll(t, ++seen) == 0)
            x = t->all[i];
    return x;
}

static inline item *tree_pick_message(tree *t)
{
    item_kind first = (item_kind)(IS_MODEL + tree_roll(t, IS_DIM - IS_MODEL + 1));
    return tree_pick(t, first, 0);
}

static inline item *tree_child(tree *t, const item *x)
{
    return x->n ? x->child[tree_roll(t, (unsigned)x->n)] : NULL;
}

static inline item *tree_find(const item *in, uint32_t field)
{
    for (int i = 0; i < in->n; i++)
        if (in->child[i]->field == field) return in->child[i];
    return NULL;
}

static inline item *tree_find_some(tree *t, const item *in, uint32_t field)
{
    item *x = NULL;
    unsigned seen = 0;
    for (int i = 0; i < in->n; i++)
        if (in->child[i]->field == field && tree_roll(t, ++seen) == 0) x = in->child[i];
    return x;
}

/* ------------------------------------------------------------------ bytes in and out */
typedef struct tree_span {
    const uint8_t *at, *end;
} tree_span;

static inline bool tree_varint(tree_span *s, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; s->at < s->end && shift < 64; shift += 7) {
        *out |= (uint64_t)(*s->at & 127) << shift;
        if (*s->at++ < 128) return true;
    }
    return false;
}

static inline bool tree_fixed(tree_span *s, size_t n, uint64_t *out)
{
    if ((size_t)(s->end - s->at) < n) return false;
    *out = 0;
    memcpy(out, s->at, n);
    s->at += n;
    return true;
}

static inline bool tree_fields(tree *t, tree_span s, int depth, item *to)
{
    while (s.at < s.end) {
        uint64_t key, size;
        if (!tree_varint(&s, &key) || key >> 3 == 0 || key >> 3 > 1000) return false;
        item *x = tree_new(t, kind_of(to->is, (uint32_t)(key >> 3)), (uint32_t)(key >> 3), key & 7);
        tree_insert(t, to, to->n, x);
        if (x->wire == 0 && tree_varint(&s, &x->number)) continue;
        if (x->wire == 1 && tree_fixed(&s, 8, &x->number)) continue;
        if (x->wire == 5 && tree_fixed(&s, 4, &x->number)) continue;
        if (x->wire != 2 || !tree_varint(&s, &size) || size > (uint64_t)(s.end - s.at)) return false;
        tree_span inside = {s.at, s.at + size};
        s.at += size;
        if (x->is >= IS_MODEL && depth < TREE_DEPTH) {
            if (!tree_fields(t, inside, depth + 1, x)) return false;
        } else {
            x->is = x->is >= IS_MODEL ? IS_OTHER : x->is;
            x->size = size;
            x->data = memcpy(tree_get(t, size + 1), inside.at, size);
        }
    }
    return true;
}

/* NULL: these bytes are no messages inside each other. */
static inline item *tree_read(tree *t, const uint8_t *data, size_t size)
{
    item *model = tree_new(t, IS_MODEL, 0, 2);
    return size <= TREE_INPUT && tree_fields(t, (tree_span){data, data + size}, 0, model) && model->n ? model
                                                                                                      : NULL;
}

typedef struct tree_sink {
    uint8_t *to; /* NULL: only counts */
    size_t n, most;
} tree_sink;

static inline void tree_put(tree_sink *out, const void *data, size_t n)
{
    if (out->to && n && out->n + n <= out->most) memcpy(out->to + out->n, data, n);
    out->n += n;
}

static inline void tree_put_varint(tree_sink *out, uint64_t x)
{
    uint8_t text[10];
    size_t n = 0;
    for (; x > 127; x >>= 7) text[n++] = (uint8_t)(x | 128);
    text[n++] = (uint8_t)x;
    tree_put(out, text, n);
}

static inline void tree_put_item(tree_sink *out, const item *x)
{
    tree_put_varint(out, (uint64_t)x->field << 3 | x->wire);
    if (x->wire == 0) tree_put_varint(out, x->number);
    if (x->wire == 1 || x->wire == 5) tree_put(out, &x->number, x->wire == 1 ? 8 : 4);
    if (x->wire != 2) return;
    tree_sink inside = {0};
    for (int i = 0; i < x->n; i++) tree_put_item(&inside, x->child[i]);
    tree_put_varint(out, x->n ? inside.n : x->size);
    if (!x->n) tree_put(out, x->data, x->size);
    for (int i = 0; i < x->n; i++) tree_put_item(out, x->child[i]);
}

/* 0: it does not fit. */
static inline size_t tree_write(const item *model, uint8_t *to, size_t most)
{
    tree_sink out = {to, 0, most};
    for (int i = 0; i < model->n; i++) tree_put_item(&out, model->child[i]);
    return out.n <= most ? out.n : 0;
}

#endif
