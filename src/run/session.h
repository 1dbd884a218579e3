/* The inside of a session; for the files of this room only. */
#ifndef SP_RUN_SESSION_H
#define SP_RUN_SESSION_H

#include "call/call.h"
#include "run/run.h"

typedef struct run_value { /* one value of the plan, by id */
    const sp_value *value;
    sparta_tensor tensor; /* dims at the present sizes; data for rows */
    bool sized;           /* which are the same at all sizes, and known */
    sp_layout layout;
    bool stat;       /* with room for statistics */
    int parent;      /* a view of another value: some rows of one in lanes, all of one in rows; -1: none */
    int64_t row0;    /* first row of a view in lanes */
    int producer;    /* step that writes it, or -1: input, constant */
    int first, last; /* steps between which its memory is its own */
    bool local;      /* lives in slots: dies in the group that made it */
    size_t offset, bytes; /* in the arena, or in a slot */
    sp_lanes lanes;
    const sparta_named_tensor *given; /* an input: what the present run was given */
    bool gaps;                        /* an input or an output that may have gaps: a cache (append.c) */
    bool appended;                    /* the output of an append */
    bool lent;                        /* which lies in the caller's memory in this run */
    sparta_tensor own;                /* and else here */
} run_value;

typedef struct run_step {
    sp_call call;
    const sp_node *node;
    const char *implement;
    const char *op; /* what it computes; of a chain "Pow+ReduceMean+Add" */
    /* The operands of its call: the node's own, or those that a chain's kernel touches. */
    int n_reads;
    sp_value *const *reads, *const *writes;
    sparta_tensor *in, *out; /* a builtin's operands */
    int product;             /* attention: the step whose product it can do itself, head by head, or -1 */
    bool
        folded; /* done inside another step: a product at the present sizes by its attention, an Embed by its interaction, a node by its chain */
    bool small; /* at the present sizes: to wake another thread takes longer than it saves */
    bool appends; /* a Concat of an input and what goes behind it into an output (append.c) */
    int group;    /* -1: folded */
    double ops, dense_ops;
} run_step;

typedef struct run_chained { /* a node of a chain */
    int64_t chain;
    int at; /* in the plan */
} run_chained;

typedef struct run_group {
    int first, last; /* steps [first, last] */
    enum {
        RUN_ROWS,
        RUN_WHOLE,
        RUN_PANELS,
        RUN_HEADS
    } kind; /* one builtin; a kernel of whole values; panel kernels; one attention with its product */
} run_group;

/* What a session has for a run of another number of tokens: a session of its own on the same threads. */
typedef struct run_other {
    int64_t least, most;
    sparta_session *session;
} run_other;

typedef struct run_turn {              /* a line of its own */
    _Alignas(64) _Atomic int64_t next; /* of a thread's panels or heads, the first that nobody has taken */
} run_turn;

struct sparta_session {
    sparta_ctx *cx;
    sp_arena *arena;
    const sparta_package *package;
    const sp_graph *plan;
    sp_pool *pool;
    bool borrowed; /* the pool is another session's */
    int n_others;
    run_other *other;
    int n_products; /* values with different numbers of tokens that products read */
    const sp_value **product;
    sparta_session *last; /* that ran: itself, or another */
    int only;             /* the plan that every run takes: 0 is its own, i + 1 other[i]; -1: by tokens */
    int threads;
    int team; /* threads that take part at the present sizes: all, or 1 where there is little to do */
    double share_from; /* operations of a run from which on there is more than little */
    bool profile;
    int n_chained;
    run_chained
        *chained; /* nodes of chains, sorted; NULL: nobody asked yet (chain.c), nor for the users of values */
    sp_users users;
    int n_values, n_steps, n_groups, n_symbols, n_objects;
    run_value *value;
    run_step *step;
    run_group *group;
    const sp_object **object; /* machine code, one a kernel of the package; NULL: portable */
    const char **symbol;
    int64_t *size;   /* of the symbols at present; -1: never bound */
    int64_t *wanted; /* of the symbols in this run */
    sp_bound *bound; /* what they may be */
    bool laid_out;
    char *buffer; /* arena, slots, scratch */
    size_t buffer_bytes, slot_bytes, slots_at, work_at, work_bytes;
    const char *isa;
    int portable;   /* kernels that have no code which runs here */
    int64_t runs;   /* profiled */
    double *spent;  /* [threads][steps] seconds */
    run_turn *turn; /* [threads] */
    sparta_step *profiled;
};

/* execute.c: names of outputs and inputs looked at, and the types of inputs, with the sizes of all symbols into `wanted`; nothing that a run has
 * left changes. Then inputs bound and buffers laid out for what was looked at; then everything that is to be run. */
sparta_status sp_session_look(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                              int n_inputs, const sparta_named_tensor *outputs, int n_outputs,
                              bool data) SP_MUST;
sparta_status sp_session_prepare(sparta_ctx *cx, sparta_session *s) SP_MUST;
sparta_status sp_session_execute(sparta_ctx *cx, sparta_session *s) SP_MUST;
/* chain.c: the step's kernel is generated, and there is code for it: its operands, and what else it does in its place. */
sparta_status sp_session_chain(sparta_session *s, run_step *step, int at) SP_MUST;
/* append.c: steps that append to a cache, once; outputs of theirs that are made where the caller wants them, before and after a run; one such step. */
void sp_session_appends(sparta_session *s);
void sp_session_lend(sparta_session *s, const sparta_named_tensor *outputs, int n);
void sp_session_take_back(sparta_session *s);
sparta_status sp_session_append(sparta_ctx *cx, const sparta_session *s, const run_step *step) SP_MUST;
/* append.c: rows one after the other, none in another's place: a tensor that may have gaps. */
bool sp_session_in_order(const sparta_tensor *t);
/* reference.c: the builtin of a step, whatever layouts its operands have. */
sparta_status sp_session_reference(sparta_ctx *cx, sparta_session *s, const run_step *step) SP_MUST;
/* plans.c: sessions of the other plans; the one that a run with these inputs takes, looked at. */
sparta_status sp_session_others(sparta_session *s, const sparta_session_options *options) SP_MUST;
sparta_status sp_session_for(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                             int n_inputs, const sparta_named_tensor *outputs, int n_outputs, bool data,
                             sparta_session **out) SP_MUST;
/* session.c: of one plan of a package; pool NULL: threads of its own. */
sparta_status sp_session_create(sparta_ctx *cx, const sparta_package *package, const sp_graph *plan,
                                const sparta_session_options *options, sp_pool *pool,
                                sparta_session **out) SP_MUST;
/* layout.c: evaluate all dims, place every buffer, bind every operand. */
sparta_status sp_session_layout(sparta_ctx *cx, sparta_session *s) SP_MUST;
/* place.c: an offset for each of n values, so that none shares memory with one that lives at the same time. Sorts the list. */
#define RUN_MOST_BYTES ((size_t)1 << 48)
sparta_status sp_session_place(sparta_ctx *cx, run_value **list, int n, size_t *total) SP_MUST;
static inline bool sp_session_in_lanes(const run_value *r)
{
    return sp_layout_has_lanes(r->layout);
}
/* group.c: steps into groups, lifetimes of values; again at new sizes, since they decide whether products are folded. */
bool sp_session_same_tokens(const sp_value *a, const sp_value *b); /* all dims but the last are the same */
void sp_session_groups(sparta_session *s);
void sp_session_folds(sparta_session *s); /* find run_step.product and the Embeds that are folded, once */
/* A value that is not stored: its Embed is folded into the interaction that reads it. */
bool sp_session_is_lookup(const sparta_session *s, const sp_value *v);

#endif
