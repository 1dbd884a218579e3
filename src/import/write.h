/* write.h: what write.c, write_node.c and write_opset.c share. */
#ifndef SP_IMPORT_WRITE_H
#define SP_IMPORT_WRITE_H

#include "import/onnx.h"

/* write.c: a TensorProto with its contents, for attributes. */
void sp_onnx_put_tensor(sp_text *out, uint32_t field, const sparta_tensor *t);
/* write_opset.c: what the file has to say it needs. */
typedef struct sp_onnx_versions {
    int opset, ir;
} sp_onnx_versions;
sp_onnx_versions sp_onnx_versions_of(const sp_graph *g);
/* write_node.c: all nodes, each as one or more NodeProtos, appended to a GraphProto. No two have one name: a module that calls ReLU twice
 * gives both its path, and onnxruntime refuses such a file. */
sparta_status sp_onnx_put_nodes(sp_text *graph, const sp_graph *g) SP_MUST;

#endif
