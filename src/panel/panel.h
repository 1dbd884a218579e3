/* panel: fast kernels on token panels.
 *
 * A value (..., F) with T tokens in front is kept as panels of 64 tokens, from the first layer to the last:
 *
 *     [panel][F rounded up to 4][64 tokens]        token t is lane t % 64 of panel t / 64
 *
 * so that 64 tokens are the lanes of four vector registers, every operator that works token by token needs no other panel, and
 * nothing is ever transposed or reduced across lanes. Behind the rows of a panel there may be room for statistics (sum and sum
 * of squares per lane, one pair for each part that wrote rows), which a product leaves for the normalisation after it.
 *
 * One kernel leaves tokens in rows: few, for products of so few of them that reading the weight is all that takes time.
 *
 * Each kernel (panel.def) is one template, kernel_<name>.h, used twice: compiled into this library as portable C, and embedded as
 * text, from which room implement makes the specialised kernel that the machine's compiler builds. Both take the same
 * arguments (abi.h) and the same stored weights, so that a package runs with either.
 *
 *     job     what one step works on: prepared once (words, copies, indices), bound for each run (operands, sizes)
 *     place   which panel, and which part of it if several threads share it
 *     fill    job + place --> the arguments of one kernel call
 *     slots   what each operand may be: panels, rows or packed, its types; who needs more than one panel asks them
 */
#ifndef SP_PANEL_H
#define SP_PANEL_H

#include "format/format.h"
#include "builtin/epilogue.h"
#include "graph/graph.h"
#include "panel/abi.h"

#define SP_OPERANDS 32 /* the 27 vectors of a recommender and their pairs */

typedef enum { SP_OPERAND_ABSENT, SP_OPERAND_ROWS, SP_OPERAND_PANELS, SP_OPERAND_PACKED } sp_operand_kind;

typedef struct sp_operand {
    sp_operand_kind kind;
    sparta_tensor tensor;    /* logical dims and dtype always; data when ROWS */
    const sp_packed *packed; /* PACKED: a weight */
    float *panel;            /* PANELS: rows of panel (or slot) 0 */
    int64_t gap;             /* floats from one panel to the next */
    float *stat;             /* statistics area of panel (or slot) 0 */
    bool slotted;            /* lives in per-thread slots: index by slot, not by panel */
    int64_t row0;            /* PANELS: rows of the product it is a part of that lie before it */
    const struct sp_job
        *rows; /* interact: what this Embed would look up; it is not stored and the kernel does it */
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
    int64_t heads;                     /* attention */
    const struct sp_walk_part *walked; /* walk: what the storage's walk found, one a part of the weight */
    int walked_parts;
    sp_product product; /* library: the one that was found, or NULL */
    const int *where;   /* interact: [vectors][vectors], the row of the output that each dot goes to */
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
    struct sp_library_args library;
    struct sp_few_args few;
    struct sp_attention_args attention;
    struct sp_norm_args norm;
    struct sp_map_args map;
    struct sp_embed_args embed;
    struct sp_interact_args interact;
    struct sp_pack_args pack;
} sp_panel_args;

typedef void (*sp_entry)(const void *args);

/* What a kernel takes as one operand, or gives as its result. */
typedef struct sp_slot {
    unsigned layouts; /* a bit for each sp_operand_kind it may have */
    unsigned dtypes;  /* a bit for each sparta_dtype */
    bool constant;    /* it is read when a session is made: a weight, a bias, a table */
    bool beyond;      /* panels other than the one at hand are read: keys and values of attention */
} sp_slot;
#define SP_IN(kind)  (1u << SP_OPERAND_##kind)
#define SP_OF(dtype) (1u << SPARTA_##dtype)
#define SP_F32_PANELS                                                                                        \
    {                                                                                                        \
        SP_IN(PANELS), SP_OF(F32), false, false                                                              \
    }
#define SP_F32_ROWS                                                                                          \
    {                                                                                                        \
        SP_IN(ROWS), SP_OF(F32), false, false                                                                \
    }
#define SP_F32_VECTOR                                                                                        \
    {                                                                                                        \
        SP_IN(ROWS), SP_OF(F32), true, false                                                                 \
    }
#define SP_F32_PACKED                                                                                        \
    {                                                                                                        \
        SP_IN(PACKED), SP_OF(F32), true, false                                                               \
    }

/* Slots of all operands. Where an operator takes any number of them, the first `recur` slots come again and again, and the rest are those
 * of the last operands: (table, ids)*, or vector* pairs. */
typedef struct sp_slots {
    const sp_slot *in;
    int n, recur;
    sp_slot out;
} sp_slots;

typedef struct sp_panel_kernel {
    const char *name;
    sp_entry portable;
    sp_op_id op; /* the operator it computes */
    bool words;  /* or else, every one that is a word of epilogues */
    /* Once, when a session is made: read attributes, copy what needs padding into the arena; NULL: there is nothing to prepare. */
    sparta_status (*prepare)(sparta_ctx *cx, sp_arena *arena, sp_job *job);
    /* When sizes are known: everything the kernel trusts must hold. */
    sparta_status (*check)(sparta_ctx *cx, const sp_job *job);
    /* Before every run, when not NULL: what depends on the contents of inputs (ids in range). */
    sparta_status (*ready)(sparta_ctx *cx, const sp_job *job);
    size_t (*work)(const sp_job *job); /* bytes of scratch a thread needs; NULL: none */
    /* Arguments for one place; false: nothing to do there. */
    bool (*fill)(const sp_job *job, const sp_place *at, sp_panel_args *out);
    sp_slots slots;
} sp_panel_kernel;

static inline bool sp_panel_takes(const sp_panel_kernel *k, sp_op_id op)
{
    return k->words ? sp_word_of(op, &(sp_attrs){0}) >= 0 : op == k->op;
}
/* The slot of input i of n; NULL: the kernel takes no such operand. */
const sp_slot *sp_panel_slot(const sp_panel_kernel *k, int n, int i);

#define SP_PANEL_KERNEL(name) extern const sp_panel_kernel sp_panel_##name;
#include "panel/panel.def"
#undef SP_PANEL_KERNEL

const sp_panel_kernel *sp_panel_find(const char *name); /* or NULL */
/* A digest of the argument structs (the text of abi.h): code that was compiled for another one reads what is not there. */
uint64_t sp_panel_abi(void);
/* The template of a kernel as text: abi, words, body. */
sparta_status sp_panel_text(const char *name, sp_text *out) SP_MUST;

static inline int64_t sp_panel_rows(int64_t features)
{
    return (features + 3) & ~INT64_C(3);
}
static inline int64_t sp_panels(int64_t tokens)
{
    return (tokens + SP_PANEL - 1) / SP_PANEL;
}
/* Tokens and features of a value's dims: all but the last are tokens. */
static inline int64_t sp_panel_tokens(const sparta_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++) n *= t->dim[i];
    return n;
}
static inline int64_t sp_panel_features(const sparta_tensor *t)
{
    return t->rank ? t->dim[t->rank - 1] : 1;
}
/* Rows of a PANELS operand at a place. */
static inline float *sp_panel_at(const sp_operand *o, const sp_place *at)
{
    return o->panel + (o->slotted ? at->slot : at->panel) * o->gap;
}
static inline float *sp_stat_at(const sp_operand *o, const sp_place *at)
{
    return o->stat + (o->slotted ? at->slot : at->panel) * o->gap;
}
/* Vectors that hold the tokens of a panel. */
static inline long sp_panel_vectors(const sp_job *job, int64_t panel)
{
    int64_t left = job->tokens - panel * SP_PANEL;
    return left >= SP_PANEL ? 4 : (long)(left + 15) / 16;
}
/* Rows that one head has of input i of an attention: 0 and 1 are q and k, 2 is v. */
static inline int64_t sp_head_rows(const sp_job *attention, int i)
{
    return sp_panel_features(&attention->in[i].tensor) / attention->heads;
}
/* Attention of one (item, head), with the product that makes q, k and v: the rows of one head at a time stay in cache instead of all
 * rows of all tokens. Items must be whole panels. */
typedef struct sp_head {
    const sp_job *product, *attention;
    sp_entry product_entry, attention_entry;
    int64_t item, head;
    float *work; /* sp_head_work bytes */
} sp_head;
size_t sp_head_work(const sp_job *attention);
void sp_head_product(const sp_head *h);
void sp_head_attend(const sp_head *h);

/* Pairs (P, 2) of n vectors as a table where[n][n]: the dot of vectors i >= j goes to row where[i * n + j], the first pair's to
 * `row`; -1: nowhere. False: an index is no vector, or a pair is there twice. */
bool sp_panel_dots(const sparta_tensor *pairs, int64_t n, int64_t row, int *where);

#endif
