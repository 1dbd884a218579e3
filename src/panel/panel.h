/* panel: fast kernels on token panels.
 *
 * A value (..., F) with T tokens in front is kept as panels of 64 tokens, from the first layer to the last:
 *
 *     [panel][F rounded up to 4][64 tokens]        token t is lane t % 64 of panel t / 64
 *
 * so that 64 tokens are the lanes of four vector registers, every operator that works token by token needs no other panel, and
 * nothing is ever transposed or reduced across lanes. Behind the rows of a panel there may be room for statistics (sum and sum
 * of squares per lane, one pair for each part that wrote rows), which a product leaves for the normalisation after it. Panels are
 * one layout of several that a value may have (lanes.h); all count words of 32 bits.
 *
 * Four kernels leave tokens in rows: few, for products of so few of them that reading the weight is all that takes time, skip, for those of them whose
 * inputs are mostly 0 when they run, matmul_skip, which is the same of two values that are computed, and attention_rows, for few queries and for keys
 * and values that lie in a cache.
 *
 * Each kernel (panel.def) is one template, kernel_<name>.h, used twice: compiled into this library as portable C, and embedded as
 * text, from which room implement makes the specialised kernel that the machine's compiler builds. Both take the same
 * arguments (abi.h) and the same stored weights, so that a package runs with either.
 *
 * What stands between products is generated instead (nest.c): its text comes from room emit, any operator and any chain of them may be one, and the
 * builtin references are its portable twin. A product with a weight in a format that no template reads is half of each (stored.c): its sums are generated
 * by room special, its end is that of the templates, and without code kernel walk takes its place. So is one whose sums a function of the caller's
 * computes (called.h).
 *
 *     job     what one step works on: prepared once (words, copies, indices), bound for each run (operands, sizes)
 *     place   which panel, and which part of it if several threads share it
 *     fill    job + place --> the arguments of one kernel call
 *     slots   what each operand may be: layouts, types, device; whether other panels are read. Rooms to the right decide by them where values lie,
 *             and sp_panel_prepare refuses a job that does not hold to them, so that kernels look at sizes and contents alone
 */
#ifndef SP_PANEL_H
#define SP_PANEL_H

#include "format/format.h"
#include "builtin/epilogue.h"
#include "graph/graph.h"
#include "kernel/abi.h"
#include "panel/lanes.h"

#define SP_OPERANDS 32 /* the 27 vectors of a recommender and their dots */

typedef struct sp_operand {
    sp_layout layout;
    sparta_tensor tensor;    /* logical dims, dtype and device always; data in ROWS */
    const sp_packed *packed; /* PACKED: a weight */
    void *at;                /* lanes: row 0 of panel (or slot) 0 */
    sp_lanes lanes; /* of the whole value it is a view of; their panels are slots where it lives in those */
    float *stat;    /* statistics of panel (or slot) 0 */
    bool slotted;   /* lives in per-thread slots: index by slot, not by panel */
    int64_t row0;   /* lanes: rows of the product it is a part of that lie before it */
    const struct sp_job *lookup; /* interact: what this Embed would look up, which is not stored */
} sp_operand;

typedef struct sp_job {
    /* Bound for a run: a copy of a prepared job with operands of its own is another run of it, at the same time if need be. */
    sp_operand *in, *out;
    int64_t tokens, panels; /* of the panel side */
    /* Prepared once. */
    const sp_node *node;
    int n_in, n_out;
    bool stat;                 /* linear: leave statistics; norm: use them */
    struct sp_epilogue e;      /* products, map: its words and bias */
    const long *start;         /* linear: where the inputs and weights of quads begin; NULL: strips */
    const long *end;           /* pairs: jobs up to the last of each range of inputs */
    const float *gain, *shift; /* norm: prepared copies */
    float scale;
    int64_t heads, groups; /* attention: of q; of k and v */
    /* walk: what the storage's walk found, the rows of each range of inputs, and where theirs begins */
    const struct sp_walk_note *walked;
    const unsigned *walked_row;
    const long *walked_pos;
    long walked_ranges;
    const struct sp_stored_leaf *stored; /* stored: the arrays of the weight, one a part of it */
    const struct sp_called *called;      /* called: the function, and these arrays for it */
    sp_product product;                  /* library: the one that was found, or NULL */
    const int *where; /* interact: [vectors][vectors], the row of the output that each dot goes to */
    /* nests: the text (called: the name of the function), what it says, and sizes and strides of the present run (of lanes: of a full panel and of the last one) */
    const char *text;
    struct sp_nest *nest;
    struct sp_nest_bound *bound;
} sp_job;

typedef struct sp_place {
    int64_t panel;
    int slot;        /* of slotted operands */
    int part, parts; /* this thread's share of the panel */
    float *work;     /* scratch of this thread */
} sp_place;

typedef union sp_panel_args {
    struct sp_linear_args linear;
    struct sp_pairs_args pairs;
    struct sp_walk_args walk;
    struct sp_stored_args stored;
    struct sp_library_args library;
    struct sp_few_args few;
    struct sp_skip_args skip;
    struct sp_matmul_skip_args matmul_skip;
    struct sp_called_args called;
    struct sp_attention_args attention;
    struct sp_norm_args norm;
    struct sp_rotary_args rotary;
    struct sp_map_args map;
    struct sp_embed_args embed;
    struct sp_interact_args interact;
    struct sp_conversion_args conversion;
    struct sp_nest_args nest;
} sp_panel_args;

typedef void (*sp_entry)(const void *args);

/* What a kernel takes as one operand, or gives as its result. */
typedef struct sp_slot {
    unsigned layouts; /* a bit for each sp_layout it may have */
    unsigned dtypes;  /* a bit for each sparta_dtype */
    bool constant;    /* it is read when a session is made: a weight, a bias, a table */
    bool beyond;      /* panels other than the one at hand are read: keys and values of attention */
    bool maybe;       /* it may be absent */
    bool gaps;        /* in rows: there may be gaps between the elements of all axes but the last */
    int device;       /* as in sparta_tensor; 0: the CPU */
} sp_slot;
#define SP_IN(layout) (1u << SP_LAYOUT_##layout)
#define SP_IN_LANES   (((1u << SP_LAYOUTS) - 1) & ~SP_IN(ROWS)) /* any, and all of them alike */
#define SP_OF(dtype)  (1u << SPARTA_##dtype)
/* The usual ones: {SP_F32_PANELS, .maybe = true}. */
#define SP_F32_PANELS .layouts = SP_IN(PANEL), .dtypes = SP_OF(F32)
#define SP_F32_ROWS   .layouts = SP_IN(ROWS), .dtypes = SP_OF(F32)
#define SP_F32_VECTOR SP_F32_ROWS, .constant = true
#define SP_F32_PACKED .layouts = SP_IN(PACKED), .dtypes = SP_OF(F32), .constant = true

/* Slots of all operands. Where an operator takes any number of them, the first `recur` slots come again and again, and the rest are those
 * of the last operands: (table, ids)*, or vector* dots. */
typedef struct sp_slots {
    const sp_slot *in;
    int n, recur;
    sp_slot out;
} sp_slots;

/* Two kernels of which one does the other's work in its place, so that what the other makes is never stored (run/group.c). */
typedef enum sp_fold {
    SP_FOLD_NONE,
    SP_FOLD_HEADS,  /* a product of q, k and v into their attention, head by head (sp_head) */
    SP_FOLD_LOOKUPS /* an Embed into the interaction of its vectors (sp_operand.lookup) */
} sp_fold;

typedef struct sp_panel_kernel {
    const char *name;
    sp_entry portable;
    sp_op_id op; /* the operator it computes */
    bool words;  /* or else, every one that is a word of epilogues */
    /* Or else, whatever its text says: there is no template and no portable kernel, operands are those of the text (sp_job.text), one output or
     * more. Where there is no code the builtin runs. */
    bool generated;
    /* Or its template calls what is generated for one weight's format, so that it has no portable kernel: without code this one does its work. */
    const struct sp_panel_kernel *otherwise;
    /* It works on whole values, not on panels: one place, shared by so many of at most `most` threads. */
    bool whole;
    int (*parts)(const sp_job *job, int most);
    /* By sp_panel_prepare, when not NULL: read attributes, copy what needs padding into the arena. */
    sparta_status (*prepare)(sparta_ctx *cx, sp_arena *arena, sp_job *job);
    /* When sizes are known: everything the kernel trusts must hold. */
    sparta_status (*check)(sparta_ctx *cx, const sp_job *job);
    /* Before every run, when not NULL: what depends on the contents of inputs (ids in range). */
    sparta_status (*ready)(sparta_ctx *cx, const sp_job *job);
    size_t (*work)(const sp_job *job); /* bytes of scratch a thread needs; NULL: none */
    /* Arguments for one place; false: nothing to do there. */
    bool (*fill)(const sp_job *job, const sp_place *at, sp_panel_args *out);
    sp_slots slots;
    sp_fold folds, folded; /* how it takes others in, how others may take it in */
} sp_panel_kernel;

static inline bool sp_panel_takes(const sp_panel_kernel *k, sp_op_id op)
{
    return k->generated || (k->words ? sp_word_of(op, &(sp_attrs){0}) >= 0 : op == k->op);
}
/* Operators that may be told the sums and squares of their input, which a product left. */
static inline bool sp_panel_takes_stat(sp_op_id op)
{
    return op == SP_OP_LayerNormalization || op == SP_OP_RMSNormalization;
}
/* Does it run the product that is fused (builtin/multiply.def)? */
static inline bool sp_panel_multiplies(const sp_panel_kernel *k)
{
    const sp_multiply *p = k->words || k->generated ? NULL : sp_multiply_of(k->op);
    return p && p->fused;
}
/* The slot of input i of n; NULL: the kernel takes no such operand. */
const sp_slot *sp_panel_slot(const sp_panel_kernel *k, int n, int i);
/* Where an operand of this slot lies when the result lies in `result`: there too if it may, else in the first layout that the slot has. */
sp_layout sp_slot_layout(const sp_slot *slot, sp_layout result);
/* Once, when a session is made and the layouts and types of a job's operands are known: they must be what the slots say. Then what the kernel
 * itself has to prepare. */
sparta_status sp_panel_prepare(sparta_ctx *cx, sp_arena *arena, const sp_panel_kernel *k,
                               sp_job *job) SP_MUST;

#define SP_PANEL_KERNEL(name)      extern const sp_panel_kernel sp_panel_##name;
#define SP_PANEL_NEST              SP_PANEL_KERNEL
#define SP_PANEL_SPECIAL           SP_PANEL_KERNEL
#define SP_PANEL_TWIN(name, other) SP_PANEL_KERNEL(name)
#include "panel/panel.def"
#undef SP_PANEL_KERNEL
#undef SP_PANEL_NEST
#undef SP_PANEL_SPECIAL
#undef SP_PANEL_TWIN

const sp_panel_kernel *sp_panel_find(const char *name); /* or NULL */
/* A digest of the argument structs (the texts of abi.h and kernel/abi.h): code that was compiled for another one reads what is not there. */
uint64_t sp_panel_abi(void);
/* The template of a kernel as text: abi, words, body. */
sparta_status sp_panel_text(const char *name, sp_text *out) SP_MUST;
/* The two halves of it, for a template that calls what stands between them. */
sparta_status sp_panel_head(sp_text *out) SP_MUST;
sparta_status sp_panel_body(const char *name, sp_text *out) SP_MUST;

/* Where the tokens of a place begin: row 0 of its panel, or in rows the first of them. Their statistics. */
static inline int64_t sp_operand_words(const sp_operand *o, const sp_place *at)
{
    return (o->slotted ? at->slot : at->panel) * o->lanes.panel;
}
static inline void *sp_panel_at(const sp_operand *o, const sp_place *at)
{
    const sparta_tensor *t = &o->tensor;
    if (o->layout != SP_LAYOUT_ROWS) return (uint32_t *)o->at + sp_operand_words(o, at);
    return (char *)t->data +
           at->panel * SP_PANEL * sp_panel_features(t) * (int64_t)sparta_dtype_size(t->dtype);
}
static inline float *sp_stat_at(const sp_operand *o, const sp_place *at)
{
    return o->stat + sp_operand_words(o, at);
}
/* Vectors that hold the tokens of a panel. */
static inline long sp_panel_vectors(const sp_job *job, int64_t panel)
{
    int64_t left = job->tokens - panel * SP_PANEL;
    return left >= SP_PANEL ? 4 : (long)(left + 15) / 16;
}
/* What its mask is one of (SP_MASK_*), whatever the sizes of a run: one that may have a value for each query is taken so. */
int sp_attention_mask(const sp_node *attention);
/* Rows of input i of an attention that belong to one head of k and v: 0 is q, with all heads that share it, 1 is k, 2 is v. */
static inline int64_t sp_head_rows(const sp_job *attention, int i)
{
    return sp_panel_features(&attention->in[i].tensor) / attention->groups;
}
/* Attention of one (item, head of k and v), with the product that makes q, k and v: the rows of one head at a time stay in cache instead
 * of all rows of all tokens. Items must be whole panels. */
typedef struct sp_head {
    const sp_job *product, *attention;
    sp_entry product_entry, attention_entry;
    int64_t item, head;
    float *work; /* sp_head_work bytes */
} sp_head;
size_t sp_head_work(const sp_job *attention);
void sp_head_product(const sp_head *h);
void sp_head_attend(const sp_head *h);

/* Dots (P, 2) of n vectors as a table where[n][n]: the dot of vectors i >= j goes to row where[i * n + j], the first one to
 * `row`; -1: nowhere. False: an index is no vector, or a dot is there twice. */
bool sp_panel_dots(const sparta_tensor *dots, int64_t n, int64_t row, int *where);

#endif
