/* import: ONNX in and out, programs of torch.export in.
 *
 *   model.onnx --mmap--> wire reader (views) --> names resolved, old operator forms rewritten --> graph
 *   model.pt2  --mmap--> zip, JSON (pt2.h)   --> overloads of ATen as ONNX's operators (aten.def) --> graph
 *
 * The wire reader is our own: protobuf fields as (pointer, length) views, depth at most 64, counts and bytes
 * budgeted. Weights stay in the mapping (sp_model keeps it open) unless they must be converted or are
 * misaligned. External data is opened beneath the model's folder only (file.h). Opsets 11 to 27; every node
 * is rewritten to the newest form of its operator, so that the rooms to the right know one form each: axes as
 * inputs, Softmax's old flattening as Flatten/Softmax/Reshape, ... An operator that is not in ops.def is
 * E_UNSUPPORTED, naming operator, domain, node, and what would help.
 *
 * Input dims that are named become symbols; unnamed unknown dims become symbols made of input's name and axis
 * ("input_ids.1").
 */
#ifndef SP_IMPORT_H
#define SP_IMPORT_H

#include "file/file.h"
#include "graph/graph.h"

typedef struct sp_model {
    sp_graph *graph;
    const char *path; /* of the file; NULL: parsed from memory */
    sp_mapped file;
    int n_external;
    sp_mapped *external; /* further files that weights live in */
    int opset;           /* of the default domain, as the file says; 0: no ONNX file */
    int64_t parameters;  /* elements of all float initialisers */
} sp_model;

typedef struct sp_import_options {
    const char *external_data_root; /* NULL: the folder of the model */
    /* By location, in the place of files: bytes, the caller's as long as the model is open. */
    const sparta_named_tensor *external;
    int n_external;
} sp_import_options;
static inline sp_import_options sp_import_options_of(const sparta_compile_options *o)
{
    return (sp_import_options){o->external_data_root, o->external, o->external ? o->n_external : 0};
}

sparta_status sp_model_open(sparta_ctx *cx, const char *path, const sp_import_options *options,
                            sp_model **out) SP_MUST;
/* The bytes must outlive the model. folder NULL: no external data. */
sparta_status sp_model_parse(sparta_ctx *cx, const void *bytes, size_t n, const char *folder,
                             sp_model **out) SP_MUST;
void sp_model_close(sp_model *m);
/* E_IO when one of its files was written since it was opened (file.h): before what was made of it is believed or written. */
sparta_status sp_model_check(sparta_ctx *cx, const sp_model *m) SP_MUST;

/* Write a graph as ONNX (IR 10 and opset 21, or the lowest later ones that have all its operators and types; fused operators in
 * their decomposed form or E_UNSUPPORTED). Atomic.
 * Files up to 2 GiB in one; larger ones put weights beside it as external data ("<name>.data"). */
sparta_status sp_onnx_write(sparta_ctx *cx, const sp_graph *g, const char *path) SP_MUST;

/* Is it a program of torch.export (.pt2)? By what is in it, whatever it is called. */
sparta_status sp_import_is_program(sparta_ctx *cx, const char *path, bool *out) SP_MUST;
/* E_UNSUPPORTED for a known file of something that is neither a model nor arrays (a module of PyTorch, say): what it is and how one gets
 * ONNX out of it. */
sparta_status sp_import_can_show(sparta_ctx *cx, const char *path) SP_MUST;

#endif
