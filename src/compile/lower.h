/* lower: from the fused graph to the plan; for the files of this room only.
 *
 *   choose.c   which implement runs each node     layout.c   conversions between layouts, order
 *   contest.c  its candidates checked and timed   task.c     what rows look at in a node, the code of kernels
 *   reason.c   why a layer is not faster          pack.c     weights, code and annotations into the package
 *   verify.c   the package against the references pins.c     formats that a schedule asks for, layer by layer
 *   computed.c what a schedule says of values that are computed
 *   smaller.c  propagation, before all of them    targets.c  the targets of one package: code and check of each
 *   settle.c   where values lie, node by node, so that the whole takes least; the sum of it, by which the given graph and the smaller one compete
 *   sum.c      what one node takes                tokens.c   plans for other numbers of tokens, in the same package
 *   fuse.c     neighbours that run as one generated kernel
 */
#ifndef SP_COMPILE_LOWER_H
#define SP_COMPILE_LOWER_H

#include "call/call.h"
#include "compile/compile.h"
#include "implement/implement.h"
#include "ops/close.h"
#include "tune/bed.h"

typedef struct lower_kernel { /* one text, compiled when it is needed */
    const char *kernel, *parameters, *source;
    const sp_object *object; /* NULL: no compiler, the portable kernel runs */
    bool built;              /* the compiler was asked */
} lower_kernel;

typedef enum {
    LOWER_NO_MATCH,
    LOWER_FORBIDDEN,
    LOWER_WRONG,
    LOWER_TIMED
} lower_sparse; /* what became of the sparse rows */

typedef struct lower_way {  /* the fastest whose result lies in one layout */
    const sp_implement *im; /* NULL: none does */
    char point[SP_POINT];
    double us; /* 0: not known */
} lower_way;

typedef struct lower_node { /* what was decided for one node */
    sp_node *node;
    sp_task task;
    const sp_implement *im;
    lower_way way[SP_LAYOUTS]; /* from which it was chosen */
    const sp_effect *pin;      /* the format that a schedule asks for and its implement; NULL: the fastest */
    sp_layout layout;          /* of its outputs */
    int kernel;                /* index in lowering.kernel, or -1 */
    char point[SP_POINT];      /* of im */
    sp_packed *packed; /* the weight as im stores it, kept since it was checked; NULL: still to be packed */
    /* Of the choice, of the best dense and of the best sparse row; 0: not tried. */
    double us, dense_us, sparse_us;
    lower_sparse sparse;
    /* Of a generated kernel (fuse.c): the number of its chain (0: none), and where it runs, at the last node of it, what it is made from. */
    int64_t chain;
    const char *nest;        /* NULL: it runs elsewhere, or is not generated */
    const int64_t *operands; /* of the nest: node of the chain, slot of the node */
    int n_operands;
    bool tried;     /* there were rows to choose from */
    bool pin_wrong; /* one that the pin asks for is wrong, and a note said so */
    char reason[256], source[16];
} lower_node;

typedef struct lower_targets { /* what the package is for */
    int n;
    sp_target target[SP_CPU_TARGETS]; /* best first */
    sp_target main[SP_DEVICES];       /* the best of them that runs here, by device; none does: portable */
    bool foreign;                     /* none runs here: nothing can be timed */
} lower_targets;

typedef struct lowering {
    sparta_ctx *cx;
    sp_arena *arena;
    sp_graph *g;
    const sp_compile_request *request;
    lower_targets targets;
    sp_target target[SP_DEVICES]; /* the main ones: kernels are checked and timed on them */
    bool no_measure;              /* choose by the cost model */
    sp_tune_db *db;
    int64_t since;  /* when this compile began: what it measured itself it believes */
    bool disturbed; /* other programs worked while something was timed */
    double peak;    /* operations a second of one thread; 0: not measured */
    double us;      /* what all nodes take together, conversions included, estimated */
    /* Usual ones, which nodes are timed at whose tokens look at each other, and sums are made for. */
    sp_bindings sizes;
    double convert_us[SP_LAYOUTS]; /* of one element, into each from rows, and into rows; 0: not known */
    int n_nodes;
    lower_node *node; /* one a node of the graph, in its order */
    int n_kernels, room_kernels;
    lower_kernel *kernel;
    int *code;     /* of each kernel: its number in the package */
    sp_map *alike; /* key of a task that is no product: the first node that has it */
    int64_t kept;  /* bytes of packed weights of nodes */
    sparta_package *package;
} lowering;

/* bytes of packed weights that stay until the package is made; others are packed again */
#define LOWER_KEEP    (1 << 28)
#define LOWER_CONVERT 2   /* times: it also ends a group, and what it touches leaves the cache */
#define LOWER_NOISE   .02 /* what best times differ by when nothing differs */
#define LOWER_SPARSE  .97 /* of the dense time: what a sparse row may take at most to be chosen */
#define LOWER_TOKENS  128 /* tokens that candidates are timed with when there may be many */

/* A task for a node of the graph; free it with sp_implement_task_free. */
sparta_status sp_lower_task(sparta_ctx *cx, const sp_graph *g, const sp_node *n, sp_target target,
                            lower_node *out) SP_MUST;
/* The first row that matches, for what is not timed; the builtin if no kernel does. Rows that store a weight have been tried before. */
const sp_implement *sp_lower_first(const sp_task *t, bool dense_only);
void sp_lower_forget(sparta_ctx *cx, lower_node *ln); /* its mask and what it has packed */
/* The most tokens of a value, with every symbol at its bound; 0: not known, or more than need counting. */
sparta_status sp_lower_most_tokens(sparta_ctx *cx, const sp_graph *g, const sp_value *v,
                                   int64_t *out) SP_MUST;
/* Tokens that candidates for a task are timed with: as many as its plan is for, or as it has when they are few, else LOWER_TOKENS. */
static inline int64_t sp_lower_tokens(const sp_task *t)
{
    return t->timed ? t->timed : sp_implement_few(t) ? t->tokens : LOWER_TOKENS;
}
/* Microseconds that the cost model of a row says for that many. Panels do 16 tokens in the time of one. */
double sp_lower_modelled(const sp_task *t, const sp_implement *im);
/* The bed that candidates for a node are timed on: sp_lower_tokens where tokens are computed by themselves, else `sizes`. */
sp_bed_request sp_lower_bed(const lower_node *ln, const sp_bindings *sizes);
/* By id of a value: a Linear makes it and a normalisation reads it, so that the Linear should leave statistics; NULL: no memory. */
bool *sp_lower_stats(sp_arena *arena, const sp_graph *g);
/* The text of a kernel, once per parameters; *out is its index. It has code after sp_lower_build. */
sparta_status sp_lower_kernel(lowering *l, const char *kernel, const char *parameters, int *out) SP_MUST;
/* The one that a row runs at the point of a task; -1: it has none. */
sparta_status sp_lower_want(lowering *l, const sp_implement *im, const sp_task *t, int *out) SP_MUST;
/* Compile all that are not yet, side by side. */
sparta_status sp_lower_build(lowering *l) SP_MUST;
/* A row took so long at the point of the task (0: it cannot run it): the choice, if it is the fastest so far. */
void sp_lower_try(sparta_ctx *cx, lower_node *ln, const sp_implement *im, double us);
/* Of the ways of each node the one with which all nodes and the conversions between them take least; l->us: that time (settle.c). */
sparta_status sp_lower_settle(lowering *l) SP_MUST;
/* Microseconds of a way of a node at l->sizes, measured, modelled or estimated (sum.c). */
sparta_status sp_lower_us(const lowering *l, const lower_node *ln, const lower_way *way, double *us) SP_MUST;
/* A Split of lanes along their rows, which costs nothing. */
bool sp_lower_is_view(const sp_node *n);
/* Where input i of a node has to lie when this implement makes its outputs in this layout; NULL, or the builtin in lanes: a view. */
sp_layout sp_lower_takes(const sp_node *n, const sp_implement *im, sp_layout layout, int i);
/* Want the kernels of the rows that will compete for a node. */
sparta_status sp_lower_enlist(lowering *l, const lower_node *ln) SP_MUST;
/* Let the rows that match a node compete: ln->way, and the best of them as its choice (contest.c). */
sparta_status sp_lower_contest(lowering *l, lower_node *ln) SP_MUST;
/* Decide for every node. */
sparta_status sp_lower_choose(lowering *l) SP_MUST;
/* Put the place of a clause before the present message; returns its status. */
sparta_status sp_lower_fail_at(sparta_ctx *cx, sp_schedule_at at);
/* What a schedule says of values that the model computes: Sparsify nodes into the graph, effects behind those of weights (computed.c). */
sparta_status sp_lower_computed(sparta_ctx *cx, sp_graph *g, const sparta_schedule *s,
                                sp_obeyed *done) SP_MUST;
/* The format clause that speaks of a Linear, by its weight; NULL: none. Merged layers must agree. */
sparta_status sp_lower_pin(sparta_ctx *cx, const sp_obeyed *o, const sp_node *n,
                           const sp_effect **out) SP_MUST;
/* The format that a pin to the walker asks for, into the task: it must hold the weight, and store at most `limit` slots an element
 * (0: the default). Failures name the clause. */
sparta_status sp_lower_asked(sparta_ctx *cx, lower_node *ln, sp_target target, double limit) SP_MUST;
/* Is the pin met by this row: it itself, or another that stores any format, where it does? */
static inline bool sp_lower_meets(const sp_effect *pin, const sp_implement *im)
{
    return im == pin->implement ||
           (!pin->kernel && sp_implement_stores_any(im) && sp_implement_stores_any(pin->implement));
}
/* The pinned implement cannot run the layer: E_UNSUPPORTED with the place of the clause and why. */
sparta_status sp_lower_pin_failed(sparta_ctx *cx, const lower_node *ln) SP_MUST;
sparta_status sp_lower_pins_used(sparta_ctx *cx, const sp_obeyed *o) SP_MUST; /* every pin found its layer? */
/* Say why, from times that are known (dense_us, us) or modelled. */
void sp_lower_reason(lower_node *ln, double peak);
/* Put conversions between layouts, statistics, order. */
sparta_status sp_lower_layout(lowering *l) SP_MUST;
/* Generated kernels of neighbours become one (fuse.c); after this every kernel is known. */
sparta_status sp_lower_fuse(lowering *l) SP_MUST;
/* The plan laid out, packed and annotated; weights, kernels and code go into l->package, which may have some already. */
sparta_status sp_lower_plan(lowering *l) SP_MUST;
/* The plans besides the usual one: of options.tokens, or what the model itself asks for; out has SP_OTHER_PLANS places. */
typedef struct lower_range {
    int64_t tokens, least, most;
} lower_range;
sparta_status sp_lower_ranges(const lowering *l, lower_range *out, int *n) SP_MUST;
/* Are the items of a model its tokens: inputs of at most two dims, the first of them open and no other, and no convolution? */
bool sp_lower_has_items_alone(const sp_graph *g);
/* What was decided for these tokens as another plan of l->package, which owns the graph from now on; gone again when it is not faster there than the plan. */
sparta_status sp_lower_other(lowering *l, const lower_range *range) SP_MUST;
/* Can all products of the graph have as few tokens? */
bool sp_lower_may_have(const sp_graph *g, int64_t tokens);
/* What was chosen for each node, as text: plans of equal texts run alike. */
void sp_lower_choices(const lowering *l, sp_text *out);
/* Weights and annotations into the package. */
sparta_status sp_lower_pack(lowering *l) SP_MUST;
/* Remove every annotation: a file may carry some, only compile writes them. */
sparta_status sp_lower_strip(sp_graph *g) SP_MUST;
/* Compare the package with the references of a graph on made-up inputs: E_DIFFER names the output. */
sparta_status sp_lower_verify(sparta_ctx *cx, const sparta_package *p, sp_graph *reference,
                              const sp_tolerance *tolerance) SP_MUST;
/* The same for every target of the package that runs here; a note names those that do not. */
sparta_status sp_lower_verify_targets(sparta_ctx *cx, const sparta_package *p, sp_graph *reference,
                                      const sp_tolerance *tolerance) SP_MUST;
/* "avx512,avx2"; NULL: the best that runs here. */
sparta_status sp_lower_targets(sparta_ctx *cx, const char *list, lower_targets *out) SP_MUST;
/* Machine code of a kernel for every target. */
sparta_status sp_lower_code(lowering *l, const lower_kernel *k, sp_kernel *out) SP_MUST;
/* Add or replace attributes of a node. */
sparta_status sp_lower_annotate(sp_graph *g, sp_node *n, const sp_attr *attr, int count) SP_MUST;

#endif
