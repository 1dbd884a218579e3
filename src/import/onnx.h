/* onnx.h: what the files of the room import share.
 *
 *   wire.c      bytes -> fields            tensor.c    TensorProto -> tensor
 *   model.c     the walk over a model      node.c      NodeProto -> upgrade.c -> nodes of the graph
 *   value.c     inputs, dims, symbols      external.c  weights in other files
 *   attribute.c AttributeProto             write.c     graph -> ONNX
 *   module.c    paths of PyTorch's modules  parts.h     operators that become several of ours
 *
 * Field numbers are those of onnx.proto. An error says where by sp_fail_in on its way up: file, then node
 * or initialiser.
 */
#ifndef SP_IMPORT_ONNX_H
#define SP_IMPORT_ONNX_H

#include "import/import.h"
#include "import/wire.h"

enum {
    SP_OPSET_OLDEST = 11,
    SP_OPSET_NEWEST = 27,
    SP_OPSET_WRITTEN = 21, /* the lowest */
    SP_IR_WRITTEN = 10
};

/* Field numbers of onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_FUNCTIONS = 25
};
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum {
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE = 15
};
enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    NODE_METADATA = 9
};
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    ATTRIBUTE_REF = 21
};
enum {
    TYPE_FLOAT = 1,
    TYPE_INT = 2,
    TYPE_STRING = 3,
    TYPE_TENSOR = 4,
    TYPE_GRAPH = 5,
    TYPE_FLOATS = 6,
    TYPE_INTS = 7
};
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_FLOATS = 4,
    TENSOR_INT32S = 5,
    TENSOR_STRINGS = 6,
    TENSOR_INT64S = 7,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_DOUBLES = 10,
    TENSOR_UINT64S = 11,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { INFO_NAME = 1, INFO_TYPE = 2 };
enum {
    TYPE_OF_TENSOR = 1,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2
};

/* One import under way. */
typedef struct sp_importer {
    sparta_ctx *cx;
    sp_model *model;
    sp_graph *g;
    sp_arena *keep;                   /* dies with the import */
    sp_arena *scratch;                /* dies with the message being read */
    const char *folder;               /* of external data; NULL: none is allowed */
    const sp_import_options *options; /* NULL: none */
    int external_capacity;
    bool other_domains; /* opsets of other domains are there */
    sp_map *files;      /* external location -> index in model->external */
    sp_map *symbols;    /* symbol in use -> index in `meant` */
    sp_map *renamed;    /* dim_param as the file has it -> index in `meant` */
    const char **meant; /* symbols as they stand in our expressions */
    const char **said;  /* and as the file has them */
    int n_symbols, symbol_capacity, said_capacity, suffix;
    struct sp_onnx_missing *missing; /* operators, while they are looked for (hint.c) */
} sp_importer;

/* tensor.c. `external` is NULL where external data is not allowed. `data` is in the file, or in `arena` when
 * it had to be converted or was misaligned. Nothing is allocated before the declared shape was compared with
 * the bytes that are there. */
sparta_status sp_onnx_read_tensor(sparta_ctx *cx, sp_importer *external, sp_arena *arena, sp_bytes bytes,
                                  sparta_tensor *out, const char **name) SP_MUST;
/* Bytes of n elements in the file: those narrower than a byte are packed there. */
size_t sp_onnx_packed(sparta_dtype dtype, int64_t n);
/* foreign.c. Is it, by its bytes, a known file of something else? E_UNSUPPORTED, with how to get ONNX out of it (foreign.def). */
sparta_status sp_onnx_not_foreign(sparta_ctx *cx, sp_bytes file) SP_MUST;

/* external.c: `size` bytes of external data as the entries (in their TensorProto) say. */
typedef struct sp_onnx_external {
    const char *location, *offset, *length;
    bool checksum;
} sp_onnx_external;
sparta_status sp_onnx_read_external(sp_arena *a, const sp_wire *w, const sp_wire_field *f,
                                    sp_onnx_external *out) SP_MUST;
sparta_status sp_onnx_open_external(sp_importer *im, const sp_onnx_external *e, size_t size,
                                    const uint8_t **out) SP_MUST;

/* value.c */
sparta_status sp_onnx_add_input(sp_importer *im, sp_bytes info) SP_MUST;
/* After all inputs: a dim called "past + 1" is one more than the dim called "past". */
sparta_status sp_onnx_relate_dims(sp_importer *im) SP_MUST;
sparta_status sp_onnx_info_name(sp_importer *im, sp_bytes info, const char **name) SP_MUST;

/* attribute.c: an AttributeProto; everything in the scratch arena. */
sparta_status sp_onnx_read_attribute(sp_importer *im, sp_bytes bytes, sp_attr *out) SP_MUST;

/* module.c: the path of PyTorch's module that a node is part of, from a metadata entry of the newer exporter or from the node's name as
 * the older one writes it. *out stays as it is where neither says one. */
sparta_status sp_onnx_read_scopes(sp_importer *im, sp_bytes entry, const char **out) SP_MUST;
sparta_status sp_onnx_module_of_name(sp_importer *im, const char *name, const char **out) SP_MUST;
/* Gives products whose names are numbers' those of their modules. */
sparta_status sp_onnx_name_layers(sp_importer *im) SP_MUST;

/* node.c: first every output gets its value (nodes may stand in any order), then the nodes are made. */
sparta_status sp_onnx_declare_node(sp_importer *im, sp_bytes bytes) SP_MUST;
sparta_status sp_onnx_add_node(sp_importer *im, sp_bytes bytes) SP_MUST;

/* upgrade.c: a node as the file has it, which becomes one or more nodes in the newest form. */
typedef struct sp_onnx_node {
    const char *domain, *op, *name;
    const char *module; /* as sp_node has it */
    int n_in, n_out, n_attr;
    sp_value **in, **out; /* NULL entries: absent */
    sp_attr *attr;
} sp_onnx_node;
sparta_status sp_onnx_upgrade(sp_importer *im, sp_onnx_node *n) SP_MUST;

/* hint.c: are the operators of all nodes such that upgrade can make nodes of them? E_UNSUPPORTED names all that are not, and what would help.
 * `each_node` calls sp_onnx_see_node (node.c) with every node of the graph, and that sp_onnx_look_at. */
sparta_status sp_onnx_check_operators(sp_importer *im, sp_bytes graph,
                                      sparta_status (*each_node)(sp_importer *, sp_bytes)) SP_MUST;
sparta_status sp_onnx_look_at(sp_importer *im, const sp_onnx_node *n, sp_bytes bytes) SP_MUST;
sparta_status sp_onnx_see_node(sp_importer *im, sp_bytes bytes) SP_MUST;

/* write.c, with another limit than 2 GiB, above which the weights go to a file beside it. */
sparta_status sp_onnx_write_within(sparta_ctx *cx, const sp_graph *g, const char *path,
                                   uint64_t limit) SP_MUST;

#endif
