/* write.h: what write.c, write_node.c and write_opset.c share. */
#ifndef SPARTA_IMPORT_WRITE_H
#define SPARTA_IMPORT_WRITE_H

#include "import/onnx.h"

/* write.c: a TensorProto with its contents, for attributes. */
void sparta_onnx_put_tensor(sparta_text *out, uint32_t field, const sparta_tensor *t);
/* write_opset.c: what the file has to say it needs. */
typedef struct sparta_onnx_versions {
    int opset, ir;
} sparta_onnx_versions;
sparta_onnx_versions sparta_onnx_versions_of(const sparta_graph *g);
/* write_node.c: a node as one or more NodeProtos appended to a GraphProto. */
sparta_status sparta_onnx_put_node(sparta_text *graph, const sparta_graph *g,
                                   const sparta_node *n) SPARTA_MUST;

#endif
