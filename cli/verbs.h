/* What several verbs share. */
#ifndef SPARTA_CLI_VERBS_H
#define SPARTA_CLI_VERBS_H

#include "cli.h"
#include "compile/compile.h"
#include "measure/measure.h"

/* The flags that say how to compile. */
sparta_status cli_compile_request(cli *c, sparta_compile_request *out) SPARTA_MUST;
/* Fail now, not after minutes of work, when the folder of `path` cannot be written. */
sparta_status cli_writable(cli *c, const char *path) SPARTA_MUST;
sparta_status cli_file_size(cli *c, const char *path, size_t *out) SPARTA_MUST;
void cli_layers_json(cli_json *j, const sparta_layer *layer, int n); /* "layers": [...] */

/* Inputs of a graph from --input, or generated from the seed; given in part: E_USAGE naming the missing ones.
 * `sizes` is complete afterwards. Free with sparta_inputs_free. */
typedef struct cli_inputs {
    int n;
    sparta_named_tensor *tensor;
    bool *generated; /* made here, not read from a file */
} cli_inputs;
sparta_status cli_inputs_make(cli *c, const sparta_graph *g, cli_inputs *out) SPARTA_MUST;
void cli_inputs_free(cli *c, cli_inputs *in);
void cli_tensor_json(cli_json *j, const sparta_tensor *t); /* "dtype", "shape" */

/* inspect, of files that are no model: a .npy; named arrays (.npz, .safetensors) or a matrix (.mtx, .smtx, SciPy's .npz). */
sparta_status cli_holds_arrays(cli *c, bool *out) SPARTA_MUST; /* one of the latter? */
sparta_status cli_inspect_npy(cli *c) SPARTA_MUST;
sparta_status cli_inspect_arrays(cli *c) SPARTA_MUST;

#endif
