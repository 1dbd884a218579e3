/* pt2.h: what the readers of torch.export's files (.pt2) share.
 *
 *   model.pt2    a zip archive; one folder in it, called as the file was:
 *     models/model.json                         graph, signature, ranges of sizes, version of the schema
 *     data/weights/model_weights_config.json    parameter -> file, type, sizes, strides, offset
 *     data/weights/weight_0 ...                 storages, raw and little-endian, where the archive is mapped
 *     data/constants/...                        the same of tensors that are no parameters
 *     data/sample_inputs/model.pt               pickled: never read
 *     extra/sparta-sizes.json                   names for sizes, where somebody gave some: {"input_ids_0": "batch"}
 *
 *   pt2_archive.c   members, and tensors by name        pt2_graph.c   signature, symbols, nodes, outputs
 *   pt2_names.c     sizes and names of outputs          aten.h        overload -> nodes of the graph (aten.def)
 *
 * The schema is PyTorch's of major version 8 (2.10 and later); keys that are not known are ignored, as its own loader does. Tensors come
 * under the names of their parameters, nodes under the paths of their modules. A size that may vary is a symbol that is called after the first
 * input and axis that have it, input_ids_1, since PyTorch keeps no other name. Anything in it may be hostile: nothing is believed that is
 * not checked here or by the shape rules.
 */
#ifndef SP_IMPORT_PT2_H
#define SP_IMPORT_PT2_H

#include "arrays/json_tree.h"
#include "arrays/zip.h"
#include "import/import.h"
#include "import/wire.h"

enum { SP_PT2_MAJOR = 8, SP_PT2_DEPTH = 8 /* of graphs in graphs */ };

/* An object of the file by its keys: those of a model have thousands. */
typedef struct sp_pt2_index {
    sp_map *map;
    const json_value **row;
} sp_pt2_index;

/* What a name of the graph stands for. */
typedef struct sp_pt2_value {
    const char *name;
    sp_value
        *v; /* a size: i64 of one element, (1); NULL: a truth about sizes, which nothing can be made of */
    sparta_dtype dtype;
    int rank;
    const json_value *meta; /* the tensor_values entry; NULL: none */
    bool size;
    bool fixed;        /* an input or a weight: what changes in place may not change it */
    int root, version; /* whose memory it is a view of, and as which change left that */
} sp_pt2_value;

typedef struct sp_pt2 {
    sparta_ctx *cx;
    sp_model *model;
    sp_graph *g;
    sp_arena *keep; /* dies with the import */

    sp_mapped file; /* the archive; not ours to close */
    zip_entry *entry;
    const uint8_t **data; /* of entries that were asked for */
    sp_map *members;      /* path -> index of its entry */
    const char *folder;   /* "model": all paths begin with it */
    const char *name;     /* of the model in models/ */

    const json_value *sizes; /* names that the archive has for sizes, {"input_ids_0": "batch"}; NULL: none */
    sp_map *symbols;         /* torch's "s77" -> index in `symbol` */
    sp_map *symbol_used;     /* our names of them */
    const sp_expr **symbol;
    int n_symbols, symbol_capacity;

    sp_pt2_index metas; /* tensor_values of the graph being read */
    sp_map *scope;      /* name of the graph -> index in `value` */
    sp_pt2_value *value;
    int n_values, value_capacity;
    int *versions; /* of roots: how often they were changed in place */
    int n_roots, version_capacity;
    int depth;         /* of the graph being read, in others */
    sp_map *overloads; /* -> row of aten.def */
} sp_pt2;

/* ------------------------------------------------------------------ pt2_archive.c */

bool sp_pt2_is(sp_bytes file); /* by its first bytes and its directory */
sparta_status sp_pt2_open(sp_pt2 *p, sp_bytes file) SP_MUST;
/* A JSON member, "models/model.json"; NULL where there is none. */
sparta_status sp_pt2_json(sp_pt2 *p, const char *path, const json_value **out) SP_MUST;
/* The tensor that its row of a config says is there, among the weights or constants (kind). data is in the file where it can be, else in
 * the graph's arena. */
sparta_status sp_pt2_tensor(sp_pt2 *p, const json_value *row, const char *kind, sparta_tensor *out) SP_MUST;
/* object NULL: an empty one. The map is the caller's to free. */
sparta_status sp_pt2_index_of(sp_pt2 *p, const json_value *object, sp_pt2_index *out) SP_MUST;
const json_value *sp_pt2_row(const sp_pt2_index *x, const char *key); /* or NULL */
bool sp_pt2_dtype(int64_t code, sparta_dtype *out);                   /* the schema's ScalarType */

/* ------------------------------------------------------------------ pt2_names.c */

/* Names for the symbols that stand alone in an input's sizes: input_axis. */
sparta_status sp_pt2_name_symbols(sp_pt2 *p, const char *input, const json_value *sizes) SP_MUST;
/* Sizes as expressions. A symbol that no input has alone keeps torch's name. */
sparta_status sp_pt2_dims(sp_pt2 *p, const json_value *sizes, sp_dims *out) SP_MUST;
/* "range_constraints": the least and the most of each symbol. */
sparta_status sp_pt2_bounds(sp_pt2 *p, const json_value *ranges) SP_MUST;
/* The names of `n` outputs, from the structure that the module gives back: output, output_0, or the keys of a dict. */
sparta_status sp_pt2_output_names(sp_pt2 *p, const char *spec, int n, const char **out) SP_MUST;
/* The last path in "L__self__,,M;L__self__fc,fc,torch.nn.Linear": fc. NULL: none. */
const char *sp_pt2_module(sp_pt2 *p, const char *stack);

/* ------------------------------------------------------------------ pt2_graph.c */

sparta_status sp_pt2_import(sp_model *m, sparta_ctx *cx, sp_bytes file) SP_MUST;
/* By name; E_FORMAT where nothing is called so, E_UNSUPPORTED where it is a view of what was changed in place since. */
sparta_status sp_pt2_find(sp_pt2 *p, const char *name, sp_pt2_value **out) SP_MUST;
/* A graph that a call brings with it, made of what the call gives it; its outputs get the names of the call's, n of them. */
sparta_status sp_pt2_graph_in(sp_pt2 *p, const json_value *graph, const json_value *call, int n,
                              const char *const *names) SP_MUST;

#endif
