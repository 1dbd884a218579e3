/* What the families of the zoo build with: each call appends a node or a constant and gives its value; after
 * a failure every later call does nothing and gives NULL, so that a model reads as a list of steps and looks
 * at the status once.
 *
 * Weights come from a generator of their own, seeded by (seed, name): a layer has the same bytes whatever
 * stands before it. */
#ifndef SP_ZOO_BUILD_H
#define SP_ZOO_BUILD_H

#include "zoo/zoo.h"

typedef struct sp_zoo_builder {
    sp_graph *g;
    const sp_zoo_request *request;
    sparta_status status; /* sticky */
} sp_zoo_builder;

/* A size that the request may override. */
typedef struct sp_zoo_size {
    const char *name;
    int64_t *value; /* the default on entry; NULL: a symbol of the model, free unless the request fixes it */
} sp_zoo_size;

/* Put the request's overrides into the sizes; a name that is not among them is E_USAGE. */
sparta_status sp_zoo_sizes(sp_graph *g, const sp_zoo_request *r, const sp_zoo_size *size, int n) SP_MUST;
/* The dimension of a symbol: its name, or the number that the request fixes it to. */
const sp_expr *sp_zoo_symbol(sp_zoo_builder *b, const char *name);
const sp_expr *sp_zoo_number(sp_zoo_builder *b, int64_t n); /* one that is a number */
sp_value *sp_zoo_input(sp_zoo_builder *b, const char *name, sparta_dtype dtype, int rank,
                       const sp_expr *const *dim);
void sp_zoo_output(sp_zoo_builder *b, sp_value *v, const char *name, int rank, const sp_expr *const *dim);

sp_value *sp_zoo_ints(sp_zoo_builder *b, const char *name, int n, const int64_t *value); /* i64[n] */
sp_value *sp_zoo_int(sp_zoo_builder *b, const char *name, int64_t value);                /* i64 scalar */
sp_value *sp_zoo_float(sp_zoo_builder *b, const char *name, float value);                /* f32 scalar */
/* A tensor whose contents are in the graph's arena. */
sp_value *sp_zoo_constant(sp_zoo_builder *b, const char *name, const sparta_tensor *t);
/* Nearly normal numbers around `mean`; never exactly `mean`, so that a dense weight has no zeros. */
sp_value *sp_zoo_vector(sp_zoo_builder *b, const char *name, int64_t n, float mean, float deviation);
sp_value *sp_zoo_matrix(sp_zoo_builder *b, const char *name, int64_t rows, int64_t cols, float deviation);
/* A weight that the request prunes, seen as (out, in); stored (in, out) when `in_out`, as MatMul wants it. */
sp_value *sp_zoo_weight(sp_zoo_builder *b, const char *name, int64_t out, int64_t in, bool in_out,
                        float deviation);

/* Filters of a convolution, dim (out, in, height, width); seen as (out, in*height*width) where the request prunes them. */
sp_value *sp_zoo_filters(sp_zoo_builder *b, const char *name, const int64_t dim[4], float deviation,
                         bool pruned);

/* A node with one output; the output's name is the node's with "_output_0", as PyTorch names them. */
sp_value *sp_zoo_node(sp_zoo_builder *b, sp_op_id op, const char *name, int n_in, sp_value *const *in,
                      const sp_attrs *attrs);
sp_value *sp_zoo_unary(sp_zoo_builder *b, sp_op_id op, const char *name, sp_value *x);
sp_value *sp_zoo_binary(sp_zoo_builder *b, sp_op_id op, const char *name, sp_value *x, sp_value *y);
sp_value *sp_zoo_concat(sp_zoo_builder *b, const char *name, int n, sp_value *const *in); /* along axis 1 */
sp_value *sp_zoo_transpose(sp_zoo_builder *b, const char *name, sp_value *x, int n, const int64_t *perm);

/* Equal parts along `axis`. */
void sp_zoo_split(sp_zoo_builder *b, const char *name, sp_value *x, int64_t axis, int n, sp_value **out);
/* Positions 0 .. sequence-1 of ids (batch, sequence): a slice of the constant `name`, [1, most] -> [1, sequence]. Nodes are named
 * "<node>/Shape" and so on. */
sp_value *sp_zoo_positions(sp_zoo_builder *b, const char *name, const char *node, int64_t most,
                           sp_value *ids);

/* torch.nn.Linear on two dimensions: Gemm with "<layer>.weight" (out, in), pruned or not, and "<layer>.bias"; weights of a size
 * that keeps the size of activations through Relu. */
sp_value *sp_zoo_gemm(sp_zoo_builder *b, const char *layer, sp_value *x, int64_t in, int64_t out,
                      bool pruned);

/* MatMul "<node>/MatMul" with "<path>.weight" (in, out), pruned: what exporters make of a linear layer on three dimensions. */
sp_value *sp_zoo_matmul(sp_zoo_builder *b, const char *path, const char *node, sp_value *x, int64_t in,
                        int64_t out, float deviation);
/* LayerNormalization over the last dimension with "<path>.weight" around 1 and "<path>.bias". */
sp_value *sp_zoo_layer_norm(sp_zoo_builder *b, const char *path, const char *node, sp_value *x, int64_t size,
                            float epsilon, float deviation);

const char *sp_zoo_numbered(sp_zoo_builder *b, const char *before, int64_t i, const char *after);
/* "prefix" and "rest" as one text that lives as long as the graph ("" after a failure). */
const char *sp_zoo_join(sp_zoo_builder *b, const char *prefix, const char *rest);

#define SP_ZOO(id, name, parameters, what) sparta_status sp_zoo_##id(sp_graph *g, const sp_zoo_request *r);
#include "zoo/zoo.def"
#undef SP_ZOO

#endif
