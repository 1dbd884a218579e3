/* The inside of a session; for the files of this room only. */
#ifndef SP_RUN_SESSION_H
#define SP_RUN_SESSION_H

#include "call/call.h"
#include "run/run.h"

typedef struct run_value { /* one value of the plan, by id */
    const sp_value *value;
    sparta_tensor tensor; /* dims at the present sizes; data for rows */
    sp_layout layout;
    bool stat;            /* with room for statistics */
    int parent;           /* a view of rows of another value in lanes, or -1 */
    int64_t row0;         /* first row of the view */
    int producer;         /* step that writes it, or -1: input, constant */
    int first, last;      /* steps between which its memory is its own */
    bool local;           /* lives in slots: dies in the group that made it */
    size_t offset, bytes; /* in the arena, or in a slot */
    sp_lanes lanes;
    const sparta_named_tensor *given; /* an input: what the present run was given */
} run_value;

typedef struct run_step {
    sp_call call;
    const sp_node *node;
    const char *implement;
    sparta_tensor *in, *out; /* a builtin's operands */
    int product;             /* attention: the step whose product it can do itself, head by head, or -1 */
    bool
        folded; /* done inside another step: a product at the present sizes by its attention, an Embed by its interaction */
    int group; /* -1: folded */
    double ops, dense_ops;
} run_step;

typedef struct run_group {
    int first, last; /* steps [first, last] */
    enum {
        RUN_ROWS,
        RUN_PANELS,
        RUN_HEADS
    } kind; /* one builtin; panel kernels; one attention with its product */
} run_group;

struct sparta_session {
    sparta_ctx *cx;
    sp_arena *arena;
    const sparta_package *package;
    const sp_graph *plan;
    sp_pool *pool;
    int threads;
    int team; /* threads that take part at the present sizes: all, or 1 where there is little to do */
    double share_from; /* operations of a run from which on there is more than little */
    bool profile;
    int n_values, n_steps, n_groups, n_symbols, n_objects;
    run_value *value;
    run_step *step;
    run_group *group;
    const sp_object **object; /* machine code, one a kernel of the package; NULL: portable */
    const char **symbol;
    int64_t *size;   /* of the symbols at present; -1: never bound */
    int64_t *wanted; /* of the symbols in this run */
    int64_t *bound;  /* the most that the model's own tables allow */
    bool laid_out;
    char *buffer; /* arena, slots, scratch */
    size_t buffer_bytes, slot_bytes, slots_at, work_at, work_bytes;
    const char *isa;
    int portable;  /* kernels that have no code which runs here */
    int64_t runs;  /* profiled */
    double *spent; /* [threads][steps] seconds */
    sparta_step *profiled;
};

/* execute.c: names of outputs and inputs looked at, and the types of inputs, with the sizes of all symbols into `wanted`; nothing that a run has
 * left changes. Then the same with inputs bound and buffers laid out for their sizes; then everything that is to be run. */
sparta_status sp_session_look(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                              int n_inputs, const sparta_named_tensor *outputs, int n_outputs,
                              bool data) SP_MUST;
sparta_status sp_session_prepare(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                                 int n_inputs, const sparta_named_tensor *outputs, int n_outputs) SP_MUST;
sparta_status sp_session_execute(sparta_ctx *cx, sparta_session *s) SP_MUST;
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
void sp_session_pairs(sparta_session *s); /* find run_step.product and the Embeds that are folded, once */
/* A value that is not stored: its Embed is folded into the interaction that reads it. */
bool sp_session_is_lookup(const sparta_session *s, const sp_value *v);

#endif
