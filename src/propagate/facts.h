/* What propagation keeps of every value: its TeSA (tesa/attribute.h), which flows forward, and which of its elements are needed, cells
 * of the same kind, which flows backward.
 *
 *     tesa    what is 0, or this constant. In a strict context -0.0 is a constant other than 0: what divides by it can tell
 *     need    1: some output depends on it
 *
 * gone[axis] lists indices that may go: at first those that nobody needs or whose elements are known, in the end those that do.
 */
#ifndef SP_PROPAGATE_FACTS_H
#define SP_PROPAGATE_FACTS_H

#include "ops/flow.h"
#include "propagate/propagate.h"
#include <math.h>

#define SP_CELLS ((int64_t)1 << 22) /* facts of more cells are not kept: all unknown, all needed */
#define SP_WORK  ((int64_t)1 << 28) /* elements that one run on constants may touch */

/* What is left of what a whole propagation, all of its rounds, may take. It ends a hostile model, not an honest one: when something has
 * run out, the rest is unknown, needed, and stays. */
typedef struct sp_effort {
    double steps;   /* of contractions, runs on constants and moves: about a nanosecond each */
    double visits;  /* indices looked at while agreeing: about ten */
    double bytes;   /* of facts */
    double share;   /* of the numbers below that there were in the beginning */
    double room;    /* bytes that there were, this round */
    unsigned spent; /* what was asked for and not there: a set of these */
} sp_effort;
enum { SP_SPENT_STEPS = 1, SP_SPENT_VISITS = 2, SP_SPENT_BYTES = 4, SP_SPENT_ROUNDS = 8 };
#define SP_STEPS  0x1p32
#define SP_VISITS 0x1p29
#define SP_ROUNDS 16 /* each makes the graph smaller; more than a few have not been seen */

typedef struct sp_cause { /* who holds an index that could go */
    const sp_node *node;  /* NULL: nobody yet */
    const char *why;      /* of a label; NULL: an operand that keeps it */
    const sp_value *value;
    int axis;
    int64_t index, other; /* here, and there */
} sp_cause;

typedef struct sp_fact {
    sp_tesa tesa; /* its value has the state's extents; of a constant it is the constant itself */
    sp_cells need;
    bool wild; /* it has constants that are not finite: 0 times them is not 0 */
    uint8_t *gone[SPARTA_RANK], *wanted[SPARTA_RANK]; /* NULL: none */
    sp_cause cause[SPARTA_RANK];
} sp_fact;

struct sp_propagation {
    sp_graph *g;
    sparta_ctx *cx;
    sp_arena *arena;
    bool strict;
    int n_values;
    sp_fact *fact; /* by value id */
    sp_axes *axes; /* by node */
    sp_users users;
    const sp_propagate_options *options;
    sp_effort *effort, own; /* of all rounds; of facts alone */
    int moved;              /* products whose constants went into a bias */
};

static inline sp_fact *sp_fact_of(const sp_propagation *p, const sp_value *v)
{
    return &p->fact[v->id];
}
/* Take this much off what is left; false: there is not so much. */
bool sp_spend(const sp_propagation *p, double steps);
bool sp_room(const sp_propagation *p, int64_t n, size_t bytes); /* n times as many bytes */
/* Is a PRODUCT 0 where one of its factors is? Of floats not in a strict context, and not with constants that are not finite. */
bool sp_zero_wins(const sp_propagation *p, const sp_axes *a);
/* Size of an axis, or -1. */
int64_t sp_axis_size(const sp_value *v, int axis);
int64_t sp_cells_count(int rank, const int64_t *extent); /* -1: too many to keep */
/* into |= from, with the finer extents of both. */
sparta_status sp_cells_add(const sp_propagation *p, int rank, sp_cells *into, const sp_cells *from) SP_MUST;

/* ------------------------------------------------------------------ contraction
 * Cells seen through the labels of a node: a stride for each label, 0 where alike. Index spaces of WHOLE labels are another one on
 * the side of the inputs: label + SP_LABELS. */
enum { SP_SPACES = 2 * SP_LABELS };
typedef struct sp_cells_view {
    const uint8_t *at;
    uint8_t bit; /* that counts */
    int64_t stride[SP_SPACES];
} sp_cells_view;
/* out[...] |= there is an index of what `out` does not have at which all views have their bit. `bits` is what is put there. Beyond
 * `most` steps it is put everywhere. The steps it took come back. */
double sp_contract(const sp_axes *a, const sp_cells_view *view, int n, uint8_t *out,
                   const int64_t out_stride[SP_SPACES], uint8_t bits, double most);
/* The same, out of the effort. */
void sp_contract_some(const sp_propagation *p, const sp_axes *a, const sp_cells_view *view, int n,
                      uint8_t *out, const int64_t out_stride[SP_SPACES], uint8_t bits);
/* Strides of an operand's cells by label. */
void sp_view_strides(const sp_axes *a, const sp_flow_operand *o, int rank, const int64_t *extent, bool input,
                     int64_t stride[SP_SPACES]);
sp_cells_view sp_view_of(const sp_axes *a, const sp_flow_operand *o, const sp_value *v, const sp_cells *c,
                         bool input, uint8_t bit);
/* 1 where it is not known to be other than 0. */
sparta_status sp_may_be_zero(const sp_propagation *p, const sp_value *v, sp_cells *out) SP_MUST;
/* Views of what may hide input i, by `hides`, behind the *n that are there, up to `most`: it counts where all have their bit. needs: a
 * zero that hides its line counts itself. */
sparta_status sp_hiders(const sp_propagation *p, const sp_axes *a, int i, bool needs, int most,
                        sp_cells_view *view, int *n) SP_MUST;
/* Mark the labels along which the view differs. */
void sp_view_vary(const sp_cells_view *v, bool vary[SP_SPACES]);
/* Those along which what is known of input i differs. */
void sp_fact_vary(const sp_axes *a, int i, const sp_fact *f, bool vary[SP_SPACES]);
/* A composite axis that varies varies along all its labels. */
void sp_vary_whole(const sp_axes *a, bool *vary);
/* Extents for an operand that differs along these labels: an axis has its size when one of its labels varies. false: one cannot be
 * had (a symbol), and has 1. */
bool sp_extents(const sp_axes *a, const sp_flow_operand *o, const sp_value *v, bool input,
                const bool vary[SP_SPACES], int64_t *extent);

/* ------------------------------------------------------------------ the passes */
sparta_status sp_known_constant(sp_propagation *p, const sp_value *v) SP_MUST;
sparta_status sp_known_node(sp_propagation *p, int at) SP_MUST;
sparta_status sp_needed_node(sp_propagation *p, int at) SP_MUST;
sparta_status sp_move_known(sp_propagation *p, int at) SP_MUST;
sparta_status sp_move_needed(sp_propagation *p, int at) SP_MUST;
/* Run a node's reference on its known elements, 0 for the others, and where `only` is not NULL on those of label `label` that it
 * has. *ran is false where it could not be. terms: with the TERMs, else without. Outputs are in the arena, with run sizes as dims. */
typedef struct sp_evaluation {
    bool vary[SP_SPACES];
    bool products; /* sums matter; otherwise summed labels have one index and factors are 0 */
    bool terms;
    int label; /* -1: all */
    const uint8_t *only;
    const int64_t *pick; /* the indices that `only` has, and how many; set by sp_evaluate */
    int64_t picks;
} sp_evaluation;
/* Are the sizes of such a run known and moderate? */
bool sp_evaluable(const sp_axes *a, const sp_evaluation *e);
sparta_status sp_evaluate(sp_propagation *p, const sp_axes *a, const sp_evaluation *e, sparta_tensor *out,
                          bool *ran) SP_MUST;
/* Which indices of each axis could go: sp_fact.gone and wanted. Then which of them do. */
sparta_status sp_spare(sp_propagation *p) SP_MUST;
sparta_status sp_agree(sp_propagation *p) SP_MUST;
/* Why no index of a label ever goes, in words; NULL: some may. And what is said of an operator without a rule. */
const char *sp_label_fixed(const sp_axes *a, int label);
extern const char sp_says_nothing[];
/* What is left of each label when all is agreed: kept[l][i]; NULL: all. */
sparta_status sp_labels_left(const sp_propagation *p, const sp_axes *a, uint8_t *kept[SP_LABELS]) SP_MUST;
/* Of label l of a PRODUCT: 0 its summand is not known, 1 it is 0, 2 it is a constant that a bias can take. out has its size. */
sparta_status sp_summands(sp_propagation *p, const sp_axes *a, int label, uint8_t *out) SP_MUST;

/* ------------------------------------------------------------------ changing the graph */
sparta_status sp_fold_values(sp_propagation *p, bool *changed) SP_MUST;
sparta_status sp_compact(sp_propagation *p, bool *changed) SP_MUST;
/* A tensor without the indices that go: its dims and memory in `arena`; its contents after sp_cut_all. */
typedef struct sp_cut sp_cut;
sparta_status sp_cut_plan(sp_arena *scratch, sp_arena *arena, const sparta_tensor *t, uint8_t *const *gone,
                          sparta_tensor *out, sp_cut **list) SP_MUST;
sparta_status sp_cut_all(sp_arena *scratch, const sp_cut *list, int threads) SP_MUST;
/* What the constants that go add to a node's output: a vector along bias_axis of the output as it is before compaction;
 * data NULL: nothing. */
sparta_status sp_fold_summands(sp_propagation *p, const sp_axes *a, sparta_tensor *out) SP_MUST;
/* What is dequantised only to be moved and quantised again alike is moved as it is. */
sparta_status sp_cancel_round_trips(sp_graph *g, bool *changed) SP_MUST;
/* By value id: a node or the caller of the model reads it. */
sparta_status sp_used(const sp_graph *g, sp_arena *arena, bool **out) SP_MUST;
/* The weight in the file of which v is a transposed copy, and which is used as well; NULL: none. */
sp_value *sp_tied(const sp_graph *g, const bool *used, const sp_value *v);
/* May input i of a node, which is v, be smaller than its dims say? When the operator broadcasts and another input has those dims. */
bool sp_may_broadcast(const sp_axes *a, int i, const sp_value *v);
/* Constants that were folded and repeat are kept once where all of their users broadcast. */
sparta_status sp_keep_once(sp_graph *g) SP_MUST;
/* Chains that hide axes are written plainly. */
sparta_status sp_tidy(sp_graph *g) SP_MUST;
/* The dims and precision of every value, after p->axes. */
sparta_status sp_precisions(sp_propagation *p) SP_MUST;

/* ------------------------------------------------------------------ the report */
typedef struct sp_explainer {
    const sp_propagation *p;
    int64_t *looks; /* at nodes and cells, that are left to all explanations together */
} sp_explainer;
/* Hostile models have many who hold, and many to ask: then the words are fewer. */
static inline bool sp_look(const sp_explainer *e, int64_t n)
{
    *e->looks -= n;
    return *e->looks > 0;
}
/* Who holds the dead slices of an axis of a constant, after "because". inputs: its layer reads that axis. */
void sp_explain(const sp_explainer *e, const sp_value *about, int axis, bool inputs, sp_text *t);
/* " in MatMul '/encoder/query/MatMul'" for a weight whose name an exporter made up. */
void sp_tell_place(const sp_explainer *e, const sp_value *w, sp_text *t);
typedef struct sp_reporting {
    sp_propagate_report report;
    sp_value **value; /* of each tensor */
    int weights; /* the first tensors; those after them are masks of requests, which stay where they cannot be obeyed */
} sp_reporting;
sparta_status sp_report_begin(sp_graph *g, sp_reporting *r) SP_MUST;
/* What requests added to a graph that had n_values before. */
sparta_status sp_report_requests(sp_graph *g, int n_values, sp_reporting *r) SP_MUST;
/* Why dead slices of constants stay, after the agreement. */
sparta_status sp_report_blocked(const sp_propagation *p, sp_reporting *r) SP_MUST;
sparta_status sp_report_end(sp_graph *g, const sp_effort *effort, sp_reporting *r) SP_MUST;

#endif
