/* implement: the ways to run an operator.
 *
 * One ordered table (implements.def), best first; the last row is the builtin reference and always matches. A row says for which nodes
 * it is meant (match), which panel kernel runs it with which parameters, and how its weight is stored (format). Rows compete: compile
 * builds each that matches, checks it against the reference and times it. Of those whose results lie in one layout (panels, rows) it keeps the fastest, dense
 * and sparse on equal terms, and takes the one with which the whole graph is fastest, conversions included. Without measuring, the cost of
 * products decides, and what nodes of a kind usually take. The finished package is compared with the references before it is written.
 *
 *     strip4    Linear   weight in strips of 4 rows, blocks present only      4x1 and every block whose rows divide by 4
 *     quads     Linear   strips of 4 rows, inputs sorted by the rows that have them     1x1, 2x1, n:m, mixtures: no zero is stored
 *     pairs     Linear   rows of one length two by two, in ranges of inputs    1x1, n:m, 2x1: no zero, no surprising loop
 *     dense4    Linear   the same strips with all blocks                      the dense competitor
 *     onednn    Linear   dense rows, by oneDNN where it is found              the other dense competitor
 *     user      Linear   weight in the format of a kernel that a user registered, by C text of his     where he says that it fits
 *     user_function      Linear   the same, by a function of his                                 the same
 *     generated_linear   Linear   weight in any format that has levels, by code that room special writes for it     only where a schedule asks for a format that no other has
 *     walk      Linear   weight in any format, by the generic walker          the same, and where there is no code
 *     few_*     Linear   1 to 16 tokens in rows, the weight read once: bitmap, csr, strips of 16 rows, dense       memory-bound
 *     few_skip  Linear   tokens in rows, the weights of inputs that are 0 not read; of few tokens together, of many one by one     a schedule sparsifies the input as the model runs
 *     matmul_skip   MatMul   of two values that are computed: rows of the right one that a row of the left one has nothing for are not read     a schedule sparsifies the left one as the model runs
 *     attention_skip   Attention   keys of blocks that are listed, and no others     a schedule says `similarity` of the scores
 *     attention, norm, map, embed                                             the rest of a transformer, on panels
 *     interact                                                                the dots of a recommender's features, on panels
 *     generated, generated_lanes                                             what index notation says (room emit), in rows and on panels: code that nobody wrote
 *     to_lanes, to_rows   conversions between rows and layouts with lanes, where compile puts them
 *     builtin   anything                                                      the reference
 */
#ifndef SP_IMPLEMENT_H
#define SP_IMPLEMENT_H

#include "device/device.h"
#include "emit/emit.h"
#include "jit/jit.h"
#include "store/store.h"
#include "graph/graph.h"
#include "panel/panel.h"
#include "tesa/tesa.h"

/* A point of a row's space is a text of named parameters, "RANGE=128 CL=2": what the row makes #defines or storage of, by what its times are
 * remembered, and what reports show. A space is a list of knobs; one with a condition is turned only where the words before it meet that. */
#define SP_POINT 64
typedef struct sp_task sp_task;
typedef struct sp_knob {
    const char *name;
    int n;
    const int *value;
    const char *when; /* "FORM=2"; NULL: always */
} sp_knob;
typedef struct sp_space {
    int n;
    const sp_knob *knob;
    bool (*allowed)(
        const sp_task *t); /* does task.point make a difference for a weight of this size? NULL: all do */
} sp_space;
int64_t sp_point_get(const char *point, const char *name, int64_t otherwise);
bool sp_point_has(const char *point, const char *words); /* every one of them? */

/* What rows look at: a node and, for a Linear, its weight as (n, k). */
struct sp_task {
    const sp_node *node;
    int64_t n, k;
    sp_mask *mask; /* its own; NULL: not a Linear with a constant weight */
    sp_pattern pattern;
    double strip_fill;    /* slots that 4x1 strips would store over elements present */
    bool strict;          /* no product that skips 0 x Inf */
    bool stat;            /* statistics for the normalisation that follows */
    const char *format;   /* asked for, and stored by no row of its own; NULL: none (sp_implement_ask) */
    const char *kernel;   /* the schedule of its loops that is asked for, without blanks; NULL: the default */
    bool special;         /* room special writes code for that format */
    bool asked;           /* a schedule asks for a format: whether its row is worth it is no question */
    char point[SP_POINT]; /* of the row's space */
    bool conversion;      /* an Identity that changes the layout */
    bool each;            /* every token is computed by itself */
    int64_t tokens;       /* the most there can be; 0: not known */
    int64_t timed;        /* candidates are timed with so many tokens; 0: the usual number */
    double
        strip16_fill; /* slots that 16x1 strips would store over elements present; 0: not looked at, tokens are many */
    /* Share of the elements of the input that is thought to be there when it runs, since a Sparsify makes it; 0: all, as far as is known. */
    double present;
    const struct sp_user_kernels *user; /* what users registered with the context (user.c); NULL: nothing */
    unsigned users;                     /* a bit for each of these that takes the weight */
    const struct sp_called_functions *function; /* the same of functions (panel/called.h) */
    unsigned functions;
    bool library;       /* other people's libraries may compete (sp_implement_library) */
    unsigned generated; /* a bit for each layout in which code for the node can be generated */
};

typedef struct sp_implement {
    const char *name;
    bool sparse;
    /* It leaves out what is 0 in a run, of a weight or a value: how much that is nobody else knows. */
    bool skips;
    const char *kernel; /* row of panel.def, whose slots say what it takes; NULL: the builtin */
    /* Is it meant for this node? What the slots say is known to hold: ask sp_implement_matches. */
    bool (*match)(const sp_task *t);
    /* modelled multiply-adds a token, overheads included, to compare the rows of a Linear; NULL elsewhere */
    double (*cost)(const sp_task *t);
    int form; /* of its kernel's, where that has several */
    /* The #defines of its kernel: "FORM=1 CRD=2 EPILOGUE=v STAT=0"; NULL: none. */
    void (*parameters)(const struct sp_implement *im, const sp_task *t, sp_text *out);
    /* Of the weight; NULL: stored as it is. In it $CRD is the type that counts the inputs, $RANGE the knob of that name, $ASKED
     * what a schedule asks for, $USER what a user's kernel does, $FUNCTION a function of his: sp_implement_print_format writes it out. */
    const char *format;
    /* Of the library that runs it, found at run time; NULL: ours. Part of the key of its times. */
    const char *(*version)(void);
    bool fleeting;         /* it may be other code next time: its times are not remembered */
    const sp_space *space; /* its points compete like rows of their own; NULL: there is one, "" */
} sp_implement;
/* The points of a row, one after the other: how many numbers they have, and number k into task.point; false: it is none for this task. */
int sp_implement_points(const sp_implement *im);
bool sp_implement_point(const sp_implement *im, int k, sp_task *t);
/* Is there a point with these words for a weight of (n, k)? E_USAGE tells the knobs that there are. */
sparta_status sp_implement_has_point(sparta_ctx *cx, const sp_implement *im, const char *words, int64_t n,
                                     int64_t k) SP_MUST;

#define SP_IMPLEMENT(name) extern const sp_implement sp_implement_##name;
#include "implement/implements.def"
#undef SP_IMPLEMENT

/* Few enough tokens, and known to be: products are then timed with that many, and the rows few_* take part. */
static inline bool sp_implement_few(const sp_task *t)
{
    return t->tokens > 0 && t->tokens <= SP_FEW_TOKENS;
}

/* A weight with fewer zeros than this share of it is dense: what skipping them could save is less than times differ by. */
#define SP_ZEROS_SHARE .01
static inline bool sp_implement_dense_weight(const sp_task *t)
{
    return t->pattern.dense || t->pattern.density > 1 - SP_ZEROS_SHARE;
}

/* With more than few tokens, inputs of which at least this share is there are not worth listing. */
#define SP_SKIP_SHARE .3
/* The same of products of two values that are computed, whatever the tokens. */
#define SP_MATMUL_SHARE .25
/* Of all inputs those that are read together: that one of few tokens has, on average, when each has them independently of the others. */
double sp_implement_read(const sp_task *t);

/* The share of its input that a product's task may count on (sp_task.present). */
double sp_implement_present(const sp_node *n);

int sp_implement_count(void);
const sp_implement *sp_implement_row(int i);
const sp_implement *sp_implement_find(const char *name); /* or NULL */
/* A Linear's weight as (n, k), whichever way it lies; false when it is not a 2-D f32 constant. */
bool sp_implement_weight(const sp_node *n, sparta_tensor *view);
/* The task of a typed node that has at most this many tokens (0: not known), to be run by code for a target; of a Linear with its mask and
 * what is found in it. */
sparta_status sp_implement_task(sparta_ctx *cx, const sp_node *n, sp_target target, int64_t tokens,
                                sp_task *out) SP_MUST;
void sp_implement_task_free(sparta_ctx *cx, sp_task *t);

/* Text of a panel kernel with its parameters as #defines ("FORM=1 CRD=2 STAT=0"): where it came from, the ABI, the template. The parameters of a
 * generated one are the text of its nest. */
sparta_status sp_implement_text(const char *kernel, const char *parameters, sp_target target,
                                sp_text *out) SP_MUST;

/* Its machine code; NULL: there is none to be had (room jit has noted why), and the portable kernel runs. */
sparta_status sp_implement_code(sparta_ctx *cx, const char *kernel, const char *parameters, sp_target target,
                                const sp_object **out) SP_MUST;
/* The same of several texts, compiled side by side. */
sparta_status sp_implement_code_all(sparta_ctx *cx, sp_target target, int n, const char *const *text,
                                    const sp_object **out) SP_MUST;

/* Parameters of panel/epilogue.h: "EPILOGUE=word_relu(word_add(v,residual)) STAT=0". The bias is added to sums before all words, so it is not among them. */
void sp_implement_epilogue(const sp_words *words, bool stat, sp_text *out);

/* The format in which an implement that has one keeps the weight of a task: its text, and what that says. */
void sp_implement_print_format(const sp_implement *im, const sp_task *task, sp_text *out);
sparta_status sp_implement_format(sparta_ctx *cx, const sp_implement *im, const sp_task *task,
                                  sp_format *out) SP_MUST;
/* The implement that stores a weight of (n, k) in this format: a hand-made one, or the generic walker, which runs any; NULL:
 * none. Without `widths` those of positions and coordinates are the implement's choice. */
sparta_status sp_implement_for_format(sparta_ctx *cx, const sp_format *f, bool widths, int64_t n, int64_t k,
                                      const sp_implement **out) SP_MUST;

/* Does it store a weight in whatever format is asked for? */
static inline bool sp_implement_stores_any(const sp_implement *im)
{
    return im && (im == &sp_implement_walk || im == &sp_implement_generated_linear);
}
/* A format that no row has of its own, and how the loops of its kernel are scheduled (NULL: as is good without tuning), into a task; both texts must outlive
 * it. A schedule that cannot be applied is refused; a format that room special does not take is the walker's. */
#define SP_KERNEL_TEXT 2048 /* the longest schedule */
sparta_status sp_implement_ask(sparta_ctx *cx, const char *format, const char *kernel, sp_target target,
                               sp_task *t) SP_MUST;

/* Of a task that the rows `user` or `user_function` take: what the kernel is called (NULL: the row is neither), and its format. */
const char *sp_implement_user_name(const sp_implement *im, const sp_task *t);
const char *sp_implement_user_format(const sp_task *t);
const char *sp_implement_function_format(const sp_task *t);
/* The row of a user's kernel of that name, and its place among them (USER, FUNCTION: the knob of the row); NULL: there is none. */
const sp_implement *sp_implement_user_find(sparta_ctx *cx, const char *name, int *place);
static inline bool sp_implement_is_user(const sp_implement *im)
{
    return im == &sp_implement_user || im == &sp_implement_user_function;
}
/* What a kernel has to know besides its parameters: the name of its function; else NULL. */
const char *sp_implement_function_name(const sp_implement *im, const sp_task *t);

/* What an implement takes as input i of a node: the slot of its kernel; the builtin takes rows of any type. NULL: no such operand. */
const sp_slot *sp_implement_slot(const sp_implement *im, const sp_node *n, int i);
/* Where input i of a node lies when the result lies in `result`: as its slot says, and constants in rows where they may. */
sp_layout sp_implement_takes(const sp_implement *im, const sp_node *n, int i, sp_layout result);
/* Is its text written by room emit? Such kernels take the operands of a nest: that of the node by itself (sp_implement_nest), or of a chain of
 * nodes (compile/fuse.c). */
static inline bool sp_implement_generates(const sp_implement *im)
{
    return im->kernel && sp_panel_find(im->kernel)->generated;
}
/* Does an operator that has a nest move elements and compute nothing? */
bool sp_implement_only_moves(sp_op_id op);
/* The nest of a node, as the row `generated` or `generated_lanes` runs it; slot and can as sp_emit_node. */
sparta_status sp_implement_nest(sparta_ctx *cx, const sp_implement *im, const sp_node *n, sp_nest *out,
                                int *slot, bool *can) SP_MUST;
/* Layouts in which code for a node can be generated, a bit each. */
sparta_status sp_implement_layouts(sparta_ctx *cx, const sp_node *n, unsigned *out) SP_MUST;
/* Where its results lie: in the first layout of their slot. */
sp_layout sp_implement_layout(const sp_implement *im);
static inline bool sp_implement_in_lanes(const sp_implement *im)
{
    return sp_layout_has_lanes(sp_implement_layout(im));
}
/* Can it run the node of a task: every operand fits its slot, and the row is meant for it. */
bool sp_implement_matches(const sp_implement *im, const sp_task *t);

/* Is there a library that may compete with kernels for this target? It chooses its instructions itself, so only with the widest. */
bool sp_implement_library(sp_target target);

/* Of an Attention that reads a list (Route): the blocks of keys there are, and how many a list has room for; 0: not known. false: it reads none. */
bool sp_implement_listed(const sp_node *n, int64_t *blocks, int64_t *room);

/* Tokens and features: rank >= 2, and the features are a number: what lanes can hold. */
bool sp_implement_tokens(const sp_value *v);

#endif
