/* What propagation keeps of every value, and the boolean arrays that facts are.
 *
 * Cells: a byte for each element, with an extent for each axis that is its size, or 1 where all are alike. A pruned channel of
 * (batch, 64, h, w) is 64 bytes {1, 64, 1, 1} whatever the sizes are; axes whose size is a symbol always have extent 1.
 *
 *     state   bit 1: may be other than 0     bit 0: may be anything      0 zero, 2 a constant, 3 unknown
 *             in a strict context -0.0 is a constant other than 0: what divides by it can tell
 *     need    1: some output depends on it
 *
 * gone[axis] lists indices that may go: at first those that nobody needs or whose elements are known, in the end those that do.
 */
#ifndef SPARTA_PROPAGATE_FACTS_H
#define SPARTA_PROPAGATE_FACTS_H

#include "ops/flow.h"
#include "propagate/propagate.h"
#include <math.h>

enum { SPARTA_SOME = 2, SPARTA_UNKNOWN = 3 };
#define SPARTA_CELLS                                                                                         \
    ((int64_t)1 << 22) /* facts finer than so many cells are not kept: all unknown, all needed */
#define SPARTA_WORK ((int64_t)1 << 28) /* elements that one run on constants may touch */

/* What is left of what a whole propagation, all of its rounds, may take. It ends a hostile model, not an honest one: when something has
 * run out, the rest is unknown, needed, and stays. */
typedef struct sparta_effort {
    double steps;   /* of contractions, runs on constants and moves: about a nanosecond each */
    double visits;  /* indices looked at while agreeing: about ten */
    double bytes;   /* of facts */
    double share;   /* of the numbers below that there were in the beginning */
    double room;    /* bytes that there were, this round */
    unsigned spent; /* what was asked for and not there: a set of these */
} sparta_effort;
enum { SPARTA_SPENT_STEPS = 1, SPARTA_SPENT_VISITS = 2, SPARTA_SPENT_BYTES = 4, SPARTA_SPENT_ROUNDS = 8 };
#define SPARTA_STEPS  0x1p32
#define SPARTA_VISITS 0x1p29
#define SPARTA_ROUNDS 16 /* each makes the graph smaller; more than a few have not been seen */

typedef struct sparta_cells {
    int64_t extent[SPARTA_RANK];
    uint8_t *at; /* row-major; NULL: not decided */
} sparta_cells;

typedef struct sparta_cause { /* who holds an index that could go */
    const sparta_node *node;  /* NULL: nobody yet */
    const char *why;          /* of a label; NULL: an operand that keeps it */
    const sparta_value *value;
    int axis;
    int64_t index, other; /* here, and there */
} sparta_cause;

typedef struct sparta_fact {
    sparta_cells state, need;
    bool wild;           /* it has constants that are not finite: 0 times them is not 0 */
    sparta_tensor value; /* dims are state's extents, of a constant its own; data NULL: no constants but 0 */
    uint8_t *gone[SPARTA_RANK], *wanted[SPARTA_RANK]; /* NULL: none */
    sparta_cause cause[SPARTA_RANK];
} sparta_fact;

struct sparta_propagation {
    sparta_graph *g;
    sparta_ctx *cx;
    sparta_arena *arena;
    bool strict;
    int n_values;
    sparta_fact *fact; /* by value id */
    sparta_axes *axes; /* by node */
    sparta_users users;
    const sparta_propagate_options *options;
    uint8_t *precision;         /* a sparta_precision by value id */
    sparta_effort *effort, own; /* of all rounds; of facts alone */
    int moved;                  /* products whose constants went into a bias */
};

static inline sparta_fact *sparta_fact_of(const sparta_propagation *p, const sparta_value *v)
{
    return &p->fact[v->id];
}
static inline uint8_t sparta_state_of(const sparta_propagation *p, double x)
{
    return x == 0 ? (p->strict && signbit(x) ? SPARTA_SOME : 0) : isfinite(x) ? SPARTA_SOME : SPARTA_UNKNOWN;
}
/* What a user calls a constant: its name in the file. */
static inline const char *sparta_initialiser_name(const sparta_value *v)
{
    return v->origin ? v->origin : v->name;
}
/* How many differ along an axis, in state or value. */
static inline int64_t sparta_fact_extent(const sparta_fact *f, int axis)
{
    return f->value.data ? SPARTA_MAX(f->state.extent[axis], f->value.dim[axis]) : f->state.extent[axis];
}
/* Take this much off what is left; false: there is not so much. */
bool sparta_spend(const sparta_propagation *p, double steps);
bool sparta_room(const sparta_propagation *p, int64_t n, size_t bytes); /* for n times so many bytes */
/* Is a PRODUCT 0 where one of its factors is? Of floats not in a strict context, and not with constants that are not finite. */
bool sparta_zero_wins(const sparta_propagation *p, const sparta_axes *a);
/* Size of an axis, or -1. */
int64_t sparta_axis_size(const sparta_value *v, int axis);
int64_t sparta_cells_held(const sparta_cells *c, int rank);  /* how many there are */
int64_t sparta_cells_count(int rank, const int64_t *extent); /* -1: too many to keep */
sparta_status sparta_cells_new(const sparta_propagation *p, int rank, const int64_t *extent,
                               sparta_cells *out) SPARTA_MUST;
/* One cell for the whole value. */
sparta_status sparta_cells_one(const sparta_propagation *p, uint8_t x, sparta_cells *out) SPARTA_MUST;
int64_t sparta_cell_at(int rank, const int64_t *extent, const int64_t *index); /* where it lies */
uint8_t sparta_cells_get(const sparta_cells *c, int rank, const int64_t *index);
bool sparta_cells_has(const sparta_cells *c, int rank, uint8_t bit); /* some cell has the bit */
bool sparta_cells_all(const sparta_cells *c, int rank, uint8_t bit);
/* Row-major (outer, size, inner bytes): are all the same along the middle? Keep its first, in place. */
bool sparta_slices_alike(const void *data, int64_t outer, int64_t size, size_t inner);
void sparta_slices_first(void *data, int64_t outer, int64_t size, size_t inner);
/* Axes along which all cells are alike get extent 1. */
void sparta_cells_tighten(sparta_cells *c, int rank);
/* into |= from, with the finer extents of both. */
sparta_status sparta_cells_add(const sparta_propagation *p, int rank, sparta_cells *into,
                               const sparta_cells *from) SPARTA_MUST;

/* ------------------------------------------------------------------ contraction
 * Cells seen through the labels of a node: a stride for each label, 0 where alike. Index spaces of WHOLE labels are another one on
 * the side of the inputs: label + SPARTA_LABELS. */
enum { SPARTA_SPACES = 2 * SPARTA_LABELS };
typedef struct sparta_view {
    const uint8_t *at;
    uint8_t bit; /* that counts */
    int64_t stride[SPARTA_SPACES];
} sparta_view;
/* out[...] |= there is an index of what `out` does not have at which all views have their bit. `bits` is what is put there. Beyond
 * `most` steps it is put everywhere. The steps it took come back. */
double sparta_contract(const sparta_axes *a, const sparta_view *view, int n, uint8_t *out,
                       const int64_t out_stride[SPARTA_SPACES], uint8_t bits, double most);
/* The same, out of the effort. */
void sparta_contract_some(const sparta_propagation *p, const sparta_axes *a, const sparta_view *view, int n,
                          uint8_t *out, const int64_t out_stride[SPARTA_SPACES], uint8_t bits);
/* Strides of an operand's cells by label. */
void sparta_view_strides(const sparta_axes *a, const sparta_flow_operand *o, int rank, const int64_t *extent,
                         bool input, int64_t stride[SPARTA_SPACES]);
sparta_view sparta_view_of(const sparta_axes *a, const sparta_flow_operand *o, const sparta_value *v,
                           const sparta_cells *c, bool input, uint8_t bit);
/* 1 where it is not known to be other than 0. */
sparta_status sparta_may_be_zero(const sparta_propagation *p, const sparta_value *v,
                                 sparta_cells *out) SPARTA_MUST;
/* Views of what may hide input i, by `hides`, behind the *n that are there, up to `most`: it counts where all have their bit. needs: a
 * zero that hides its line counts itself. */
sparta_status sparta_hiders(const sparta_propagation *p, const sparta_axes *a, int i, bool needs, int most,
                            sparta_view *view, int *n) SPARTA_MUST;
/* Mark the labels along which the view differs. */
void sparta_view_vary(const sparta_view *v, bool vary[SPARTA_SPACES]);
/* Those along which what is known of input i differs. */
void sparta_fact_vary(const sparta_axes *a, int i, const sparta_fact *f, bool vary[SPARTA_SPACES]);
/* A composite axis that varies varies along all its labels. */
void sparta_vary_whole(const sparta_axes *a, bool *vary);
/* Extents for an operand that differs along these labels: an axis has its size when one of its labels varies. false: one cannot be
 * had (a symbol), and has 1. */
bool sparta_extents(const sparta_axes *a, const sparta_flow_operand *o, const sparta_value *v, bool input,
                    const bool vary[SPARTA_SPACES], int64_t *extent);

/* ------------------------------------------------------------------ the passes */
sparta_status sparta_known_constant(sparta_propagation *p, const sparta_value *v) SPARTA_MUST;
sparta_status sparta_known_node(sparta_propagation *p, int at) SPARTA_MUST;
sparta_status sparta_needed_node(sparta_propagation *p, int at) SPARTA_MUST;
sparta_status sparta_move_known(sparta_propagation *p, int at) SPARTA_MUST;
sparta_status sparta_move_needed(sparta_propagation *p, int at) SPARTA_MUST;
/* Run a node's reference on its known elements, 0 for the others, and where `only` is not NULL on those of label `label` that it
 * has. *ran is false where it could not be. terms: with the TERMs, else without. Outputs are in the arena, with run sizes as dims. */
typedef struct sparta_evaluation {
    bool vary[SPARTA_SPACES];
    bool products; /* sums matter; otherwise summed labels have one index and factors are 0 */
    bool terms;
    int label; /* -1: all */
    const uint8_t *only;
    const int64_t *pick; /* the indices that `only` has, and how many; set by sparta_evaluate */
    int64_t picks;
} sparta_evaluation;
/* Are the sizes of such a run known and moderate? */
bool sparta_evaluable(const sparta_axes *a, const sparta_evaluation *e);
sparta_status sparta_evaluate(sparta_propagation *p, const sparta_axes *a, const sparta_evaluation *e,
                              sparta_tensor *out, bool *ran) SPARTA_MUST;
sparta_status sparta_agree(sparta_propagation *p) SPARTA_MUST;
/* Why no index of a label ever goes, in words; NULL: some may. And what is said of an operator without a rule. */
const char *sparta_label_fixed(const sparta_axes *a, int label);
extern const char sparta_says_nothing[];
/* What is left of each label when all is agreed: kept[l][i]; NULL: all. */
sparta_status sparta_labels_left(const sparta_propagation *p, const sparta_axes *a,
                                 uint8_t *kept[SPARTA_LABELS]) SPARTA_MUST;
/* Of label l of a PRODUCT: 0 its summand is not known, 1 it is 0, 2 it is a constant that a bias can take. out has its size. */
sparta_status sparta_summands(sparta_propagation *p, const sparta_axes *a, int label,
                              uint8_t *out) SPARTA_MUST;

/* ------------------------------------------------------------------ changing the graph */
sparta_status sparta_fold_values(sparta_propagation *p, bool *changed) SPARTA_MUST;
sparta_status sparta_compact(sparta_propagation *p, bool *changed) SPARTA_MUST;
/* A tensor without the indices that go: its dims and memory in `arena`; its contents after sparta_cut_all. */
typedef struct sparta_cut sparta_cut;
sparta_status sparta_cut_plan(sparta_arena *scratch, sparta_arena *arena, const sparta_tensor *t,
                              uint8_t *const *gone, sparta_tensor *out, sparta_cut **list) SPARTA_MUST;
sparta_status sparta_cut_all(sparta_arena *scratch, const sparta_cut *list, int threads) SPARTA_MUST;
/* What the constants that go add to a node's output: a vector along bias_axis of the output as it is before compaction;
 * data NULL: nothing. */
sparta_status sparta_fold_summands(sparta_propagation *p, const sparta_axes *a,
                                   sparta_tensor *out) SPARTA_MUST;
/* What is dequantised only to be moved and quantised again alike is moved as it is. */
sparta_status sparta_cancel_pairs(sparta_graph *g, bool *changed) SPARTA_MUST;
/* By value id: a node or the caller of the model reads it. */
sparta_status sparta_used(const sparta_graph *g, sparta_arena *arena, bool **out) SPARTA_MUST;
/* The weight in the file of which v is a transposed copy, and which is used as well; NULL: none. */
sparta_value *sparta_tied(const sparta_graph *g, const bool *used, const sparta_value *v);
/* May input i of a node, which is v, be smaller than its dims say? When the operator broadcasts and another input has those dims. */
bool sparta_may_broadcast(const sparta_axes *a, int i, const sparta_value *v);
/* Constants that were folded and repeat are kept once where all of their users broadcast. */
sparta_status sparta_keep_once(sparta_graph *g) SPARTA_MUST;
/* Chains that hide axes are written plainly. */
sparta_status sparta_tidy(sparta_graph *g) SPARTA_MUST;
/* p->precision, after p->axes. */
sparta_status sparta_precisions(sparta_propagation *p) SPARTA_MUST;

/* ------------------------------------------------------------------ the report */
typedef struct sparta_explainer {
    const sparta_propagation *p;
    int64_t *looks; /* at nodes and cells, that are left to all explanations together */
} sparta_explainer;
/* Hostile models have many who hold, and many to ask: then the words are fewer. */
static inline bool sparta_look(const sparta_explainer *e, int64_t n)
{
    *e->looks -= n;
    return *e->looks > 0;
}
/* Who holds the dead slices of an axis of a constant, after "because". inputs: its layer reads that axis. */
void sparta_explain(const sparta_explainer *e, const sparta_value *about, int axis, bool inputs,
                    sparta_text *t);
/* " in MatMul '/encoder/query/MatMul'" for a weight whose name an exporter made up. */
void sparta_tell_place(const sparta_explainer *e, const sparta_value *w, sparta_text *t);
typedef struct sparta_reporting {
    sparta_propagate_report report;
    sparta_value **value; /* of each tensor */
    int weights; /* the first tensors; those after them are masks of requests, which stay where they cannot be obeyed */
} sparta_reporting;
sparta_status sparta_report_begin(sparta_graph *g, sparta_reporting *r) SPARTA_MUST;
/* What requests added to a graph that had so many values. */
sparta_status sparta_report_requests(sparta_graph *g, int n_values, sparta_reporting *r) SPARTA_MUST;
/* Why dead slices of constants stay, after the agreement. */
sparta_status sparta_report_blocked(const sparta_propagation *p, sparta_reporting *r) SPARTA_MUST;
sparta_status sparta_report_end(sparta_graph *g, const sparta_effort *effort,
                                sparta_reporting *r) SPARTA_MUST;

#endif
