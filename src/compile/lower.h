/* lower: from the fused graph to the plan; for the files of this room only.
 *
 *   choose.c   which implement runs each node     layout.c   which values live in panels, conversions, order
 *   reason.c   why a layer is not faster          pack.c     weights, code and annotations into the package
 *   verify.c   the package against the references
 */
#ifndef SPARTA_COMPILE_LOWER_H
#define SPARTA_COMPILE_LOWER_H

#include "call/call.h"
#include "compile/compile.h"
#include "implement/implement.h"
#include "tune/tune.h"

typedef struct lower_kernel { /* one compiled text */
    const char *kernel, *parameters, *source;
    const sparta_object *object; /* NULL: no compiler, the portable kernel runs */
} lower_kernel;

typedef enum {
    LOWER_NO_MATCH,
    LOWER_FORBIDDEN,
    LOWER_WRONG,
    LOWER_TIMED
} lower_sparse; /* what became of the sparse rows */

typedef struct lower_node { /* what was decided for one node */
    sparta_node *node;
    sparta_task task;
    sparta_mask mask;
    const sparta_implement *im;
    const sparta_implement *pin; /* the one that a schedule asks for; NULL: the fastest */
    bool panel;                  /* its output lives in panels */
    int kernel;                  /* index in lowering.kernel, or -1 */
    double us, dense_us,
        sparse_us; /* of the choice, of the best dense and of the best sparse row; 0: not tried */
    lower_sparse sparse;
    char reason[256], source[16];
} lower_node;

typedef struct lowering {
    sparta_ctx *cx;
    sparta_arena *arena;
    sparta_graph *g;
    const sparta_compile_request *request;
    sparta_target target;
    sparta_tune_db *db;
    double peak; /* operations a second of one thread; 0: not measured */
    int n_nodes;
    lower_node *node; /* one a node of the graph, in its order */
    int n_kernels;
    lower_kernel *kernel;
    sparta_package *package;
} lowering;

#define LOWER_KERNELS 64  /* the most different kernels of one package */
#define LOWER_TOKENS  128 /* tokens that candidates are timed with */

/* A task for a node; makes the mask of a Linear's constant weight (free it with sparta_mask_free). */
sparta_status sparta_lower_task(sparta_ctx *cx, const sparta_node *n, lower_node *out) SPARTA_MUST;
/* A Linear's weight as (n, k), whichever way it lies; false when it is not a 2-D f32 constant. */
bool sparta_lower_weight(const sparta_node *n, sparta_tensor *view);
/* The key under which times of an implement for a task are remembered; threads 1, LOWER_TOKENS tokens. */
void sparta_lower_key(const lower_node *ln, const sparta_implement *im, sparta_target target,
                      sparta_text *out);
/* A Linear whose output a normalisation reads should leave statistics for it. */
bool sparta_lower_wants_stat(const sparta_graph *g, const sparta_node *n);
/* Compile the text of a kernel, once per parameters; *out is its index. */
sparta_status sparta_lower_kernel(lowering *l, const char *kernel, const char *parameters,
                                  int *out) SPARTA_MUST;
/* Decide for every node. */
sparta_status sparta_lower_choose(lowering *l) SPARTA_MUST;
/* The implement that a schedule pins for a Linear, by its weight; NULL: none. Merged layers must agree. */
sparta_status sparta_lower_pin(sparta_ctx *cx, const sparta_obeyed *o, const sparta_node *n,
                               const sparta_implement **out) SPARTA_MUST;
/* The pinned implement cannot run the layer: E_UNSUPPORTED with the place and why. */
sparta_status sparta_lower_pin_failed(sparta_ctx *cx, const sparta_obeyed *o,
                                      const lower_node *ln) SPARTA_MUST;
sparta_status sparta_lower_pins_used(sparta_ctx *cx,
                                     const sparta_obeyed *o) SPARTA_MUST; /* every pin found its layer? */
/* Say why, from times that are known (dense_us, us) or modelled. */
void sparta_lower_reason(lower_node *ln, double peak);
/* Put conversions between rows and panels, statistics, order. */
sparta_status sparta_lower_layout(lowering *l) SPARTA_MUST;
/* Weights and annotations into the package. */
sparta_status sparta_lower_pack(lowering *l) SPARTA_MUST;
/* Remove every annotation: a file may carry some, only compile writes them. */
sparta_status sparta_lower_strip(sparta_graph *g) SPARTA_MUST;
/* Compare the package with the references of a graph on made-up inputs: E_DIFFER names the output. */
sparta_status sparta_lower_verify(sparta_ctx *cx, const sparta_package *p,
                                  const sparta_graph *reference) SPARTA_MUST;
/* Add or replace attributes of a node. */
sparta_status sparta_lower_annotate(sparta_graph *g, sparta_node *n, const sparta_attr *attr,
                                    int count) SPARTA_MUST;

#endif
