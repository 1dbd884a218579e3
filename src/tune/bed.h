/* bed: one node by itself, as a package runs it.
 *
 *     task, sizes --seed--> operands in rows --builtin--> the answer
 *                              |
 *     contender  --pack, place as its slots ask--> call --> poisoned outputs, run --> right or wrong --> windows --> time
 *
 * A contender is an implement at a point of its space. choose and `kernel bench` both put the node of a model (or one made for the purpose)
 * on a bed and let contenders run on it, so that what is said of an implement is always found in the same way:
 *
 *   - Operands are the same for all of them. Constants are the node's own; activations are made from the seed, with zeros where the task says that
 *     a Sparsify leaves some; ids are in range.
 *   - Before a contender is checked its outputs are filled with NaN: what it does not write, and what the one before it has written, is no
 *     answer. Right is what ops/close.h calls close.
 *   - What the bed makes (inputs, the result, scratch) lies between fences (fence.h), packed weights between those of every block (base.h). A contender
 *     that writes beyond is wrong, whatever its answer is, and is said to be.
 *   - Where every token is computed by itself, the reference computes four tokens; the others are these again, in other places, so that all of them
 *     are compared (of ids and of operands with absent elements just the four); else everything is computed and compared.
 *   - Times are the best of short windows, of what the thread ran, not of what it waited for others (device/quiet.h). In a race the windows of all contenders take turns and are about as long, so that all see the same
 *     machine.
 *
 * A contender that is built holds its packed weight; sp_bed_drop lets go of it, and whoever wants to keep the weight takes it first.
 */
#ifndef SP_TUNE_BED_H
#define SP_TUNE_BED_H

#include "call/call.h"
#include "implement/implement.h"
#include "ops/close.h"
#include "tune/tune.h"

typedef struct sp_bed sp_bed;

typedef struct sp_bed_request {
    const sp_task *task; /* borrowed as long as the bed lives; its point is set by contenders */
    /* The node works token by token, and activations are (tokens, features). 0: they have their own dims, at `sizes`. */
    int64_t tokens;
    const sp_bindings *sizes;
    uint64_t seed;
    sp_pool *pool; /* NULL: one thread */
} sp_bed_request;

typedef struct sp_contender {
    const sp_implement *im;
    char point[SP_POINT];
    const sp_object *object; /* its machine code, the caller's; NULL: portable */
    /* Filled by the bed. */
    sp_packed *packed; /* its weight, of its arena; NULL: it has none, or somebody took it */
    int64_t bytes;     /* of it */
    char format[256];  /* of it; a longer one is cut */
    sp_call call;
    sp_arena *arena;        /* of what its kernel prepares, and its scratch; NULL: it is not built */
    float *work;            /* of all threads, one after the other; NULL: it needs none */
    size_t each;            /* floats of a thread */
    struct sp_fence *fence; /* around its scratch */
    const char *
        outside; /* the operand beyond which it wrote (fence.h), of the bed: it is out; NULL: it stayed inside */
    sp_closeness found;
    double best;    /* seconds a call; 0: not timed */
    double spread;  /* how much longer the median was, as a share of it */
    bool disturbed; /* others worked while it was timed; for sp_recall_add */
    int measured;   /* how often it was timed, apart from the others; 0: once; for sp_recall_add */
    double *times;  /* of the windows of a race */
    int64_t n_times;
} sp_contender;

sparta_status sp_bed_create(sparta_ctx *cx, const sp_bed_request *r, sp_bed **out) SP_MUST;
void sp_bed_free(sp_bed *b); /* NULL is fine; contenders are dropped first */
/* Pack its weight, place its operands; nothing when that is done already. */
sparta_status sp_bed_build(sp_bed *b, sp_contender *c) SP_MUST;
/* Run it once on poisoned outputs: c->found says whether it is close to the answer. */
sparta_status sp_bed_check(sp_bed *b, sp_contender *c) SP_MUST;
/* Time it by itself for about so long: c->best. */
sparta_status sp_bed_time(sp_bed *b, sp_contender *c, double seconds) SP_MUST;
/* Time all of them, window by window in turns, for about so long each, `least` windows at least. All must be built. */
sparta_status sp_bed_race(sp_bed *b, sp_contender *const *all, int n, double seconds, int least) SP_MUST;
void sp_bed_drop(sp_bed *b, sp_contender *c);
/* Was the machine disturbed since the bed was made? */
bool sp_bed_disturbed(const sp_bed *b);
/* Seconds that the builtin took for one answer. */
double sp_bed_builtin_seconds(const sp_bed *b);

/* Dims that a value of the node has on a bed. */
sparta_status sp_bed_shape(sparta_ctx *cx, const sp_bed_request *r, const sp_value *v, int *rank,
                           int64_t *dim) SP_MUST;

/* What is remembered of a task: by operator, attributes, sizes, types, mask, target, machine and version. What a time has to do with a large
 * mask is how much is present and how that lies in strips, not which elements: layers that look alike share their trials, so that
 * a model of 48 layers of 4 shapes has 4 of them to time. A small mask is itself. */
typedef struct sp_recall {
    sparta_ctx *cx;
    sp_tune_db *db;
    sp_text key, any; /* of this mask, of any */
    int n, own;       /* trials, those of this mask first */
    sp_trial *trial;
    /* What was measured from then on is believed, though the machine was disturbed; before it nothing, where all is to be measured anew. */
    int64_t since;
    bool anew;
} sp_recall;
sparta_status sp_recall_open(sparta_ctx *cx, sp_tune_db *db, const sp_bed_request *bed, sp_target target,
                             sp_recall *out) SP_MUST;
void sp_recall_close(sp_recall *r);
/* The key of a task; of `any` mask: what its dense times are remembered by. */
sparta_status sp_recall_key(sparta_ctx *cx, const sp_bed_request *bed, sp_target target, bool any,
                            sp_text *out) SP_MUST;
/* Microseconds that an implement took at a point, by this code, and how often that was measured (may be NULL); 0: not known, or not to be believed. */
double sp_recall_us(sp_recall *r, const sp_implement *im, const char *point, const char *code, int *measured);
/* Remember what came of a contender that was checked, and timed if it was right. */
void sp_recall_add(sp_recall *r, const sp_contender *c, const char *code);
/* What the code of an implement is for a task: a digest of the text that runs, and the version of a library. */
sparta_status sp_recall_code(sparta_ctx *cx, const sp_task *t, const sp_implement *im, sp_target target,
                             char out[40]) SP_MUST;

#endif
