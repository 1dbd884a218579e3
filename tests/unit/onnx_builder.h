/* onnx_builder.h: small ONNX models by hand, for tests. What is put into something else is used up (freed):
 *
 *     bytes g = graph_of("g");
 *     put_piece(&g, GRAPH_INPUT, info("x", 1, "n,4"));
 *     put_piece(&g, GRAPH_NODE, with_int(node_of("Softmax", "x", "y"), "axis", 1));
 *     put_piece(&g, GRAPH_OUTPUT, info("y", 1, NULL));
 *     bytes m = model_of(17, g);
 */
#ifndef TESTS_ONNX_BUILDER_H
#define TESTS_ONNX_BUILDER_H

#include "import/onnx.h"
#include <stdlib.h>
#include <string.h>

typedef struct bytes { /* on the ordinary heap: the context under test counts nothing of it */
    uint8_t *data;
    size_t size;
} bytes;

static inline void put(bytes *b, const void *data, size_t n)
{
    b->data = realloc(b->data, b->size + n + 1);
    if (n) memcpy(b->data + b->size, data, n);
    b->size += n;
}

static inline void put_varint(bytes *b, uint64_t x)
{
    do {
        uint8_t byte = (uint8_t)((x & 127) | (x > 127 ? 128 : 0));
        put(b, &byte, 1);
        x >>= 7;
    } while (x);
}

static inline void put_int(bytes *b, uint32_t field, int64_t x)
{
    put_varint(b, field << 3);
    put_varint(b, (uint64_t)x);
}

static inline void put_data(bytes *b, uint32_t field, const void *data, size_t n)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    put(b, data, n);
}

static inline void put_string(bytes *b, uint32_t field, const char *s)
{
    put_data(b, field, s, strlen(s));
}

static inline void put_float(bytes *b, uint32_t field, float x)
{
    put_varint(b, field << 3 | 5);
    put(b, &x, 4);
}

/* A message inside another; `m` is used up. */
static inline void put_piece(bytes *b, uint32_t field, bytes m)
{
    put_data(b, field, m.data, m.size);
    free(m.data);
}

/* ------------------------------------------------------------------ values */

/* dims: "2,n,?,=?" numbers, names, unnamed, after = whatever stands there as the name; NULL: no shape; "" a scalar. */
static inline bytes info(const char *name, int type, const char *dims)
{
    bytes shape = {0}, tensor = {0}, whole = {0}, out = {0};
    put(&shape, "", 0);
    for (const char *at = dims; at && *at;) {
        size_t n = strcspn(at, ",");
        char word[64] = "";
        memcpy(word, at, n);
        bytes dim = {0};
        put(&dim, "", 0);
        if (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'))
            put_int(&dim, DIM_VALUE, strtoll(word, NULL, 10));
        else if (word[0] != '?')
            put_string(&dim, DIM_PARAM, word + (word[0] == '='));
        put_piece(&shape, SHAPE_DIM, dim);
        at += n + (at[n] == ',');
    }
    put_int(&tensor, TENSOR_TYPE_ELEMENT, type);
    if (dims)
        put_piece(&tensor, TENSOR_TYPE_SHAPE, shape);
    else
        free(shape.data);
    put_piece(&whole, TYPE_OF_TENSOR, tensor);
    put_string(&out, INFO_NAME, name);
    put_piece(&out, INFO_TYPE, whole);
    return out;
}

/* A TensorProto without contents. */
static inline bytes tensor_head(const char *name, int type, int rank, const int64_t *dim)
{
    bytes t = {0};
    for (int i = 0; i < rank; i++) put_int(&t, TENSOR_DIMS, dim[i]);
    put_int(&t, TENSOR_TYPE, type);
    if (name) put_string(&t, TENSOR_NAME, name);
    return t;
}

static inline bytes raw_tensor(const char *name, int type, int rank, const int64_t *dim, const void *data,
                               size_t n)
{
    bytes t = tensor_head(name, type, rank, dim);
    put_data(&t, TENSOR_RAW, data, n);
    return t;
}

/* ------------------------------------------------------------------ nodes */

static inline void put_names(bytes *b, uint32_t field, const char *names) /* "a,,b": the second is absent */
{
    for (const char *at = names; at;) {
        size_t n = strcspn(at, ",");
        put_data(b, field, at, n);
        at = at[n] ? at + n + 1 : NULL;
    }
}

static inline bytes node_of(const char *op, const char *in, const char *out)
{
    bytes n = {0};
    if (*in) put_names(&n, NODE_INPUT, in);
    put_names(&n, NODE_OUTPUT, out);
    put_string(&n, NODE_OP, op);
    return n;
}

static inline bytes attribute_head(const char *name, int type)
{
    bytes a = {0};
    put_string(&a, ATTRIBUTE_NAME, name);
    put_int(&a, ATTRIBUTE_TYPE, type);
    return a;
}

static inline bytes with(bytes node, bytes attribute)
{
    put_piece(&node, NODE_ATTRIBUTE, attribute);
    return node;
}

static inline bytes with_int(bytes node, const char *name, int64_t x)
{
    bytes a = attribute_head(name, TYPE_INT);
    put_int(&a, ATTRIBUTE_I, x);
    return with(node, a);
}

static inline bytes with_float(bytes node, const char *name, float x)
{
    bytes a = attribute_head(name, TYPE_FLOAT);
    put_float(&a, ATTRIBUTE_F, x);
    return with(node, a);
}

static inline bytes with_string(bytes node, const char *name, const char *s)
{
    bytes a = attribute_head(name, TYPE_STRING);
    put_string(&a, ATTRIBUTE_S, s);
    return with(node, a);
}

static inline bytes with_ints(bytes node, const char *name, int n, const int64_t *x)
{
    bytes a = attribute_head(name, TYPE_INTS);
    for (int i = 0; i < n; i++) put_int(&a, ATTRIBUTE_INTS, x[i]);
    return with(node, a);
}

static inline bytes named(bytes node, const char *name)
{
    put_string(&node, NODE_NAME, name);
    return node;
}

static inline bytes in_domain(bytes node, const char *domain)
{
    put_string(&node, NODE_DOMAIN, domain);
    return node;
}

/* ------------------------------------------------------------------ models */

static inline bytes opset_of(const char *domain, int64_t version)
{
    bytes o = {0};
    put_string(&o, OPSET_DOMAIN, domain);
    put_int(&o, OPSET_VERSION, version);
    return o;
}

/* The graph is the last field, so that every cut of the file cuts the graph. `graph` is used up. */
static inline bytes model_of(int opset, bytes graph)
{
    bytes m = {0};
    put_int(&m, MODEL_IR_VERSION, 8);
    put_piece(&m, MODEL_OPSET, opset_of("", opset));
    put_piece(&m, MODEL_GRAPH, graph);
    return m;
}

static inline bytes graph_of(const char *name)
{
    bytes g = {0};
    put_string(&g, GRAPH_NAME, name);
    return g;
}

#endif
