/* compile: the table of contents of the house.
 *
 *   import          room import        ONNX file -> graph
 *   obey            obey.c             what a schedule says to the weights: sparsified, formats pinned
 *   infer           room ops           types, shape arithmetic folded away
 *   propagate       room propagate     what is zero, constant or not needed goes; pinned weights keep their shape. The given graph and
 *                                      the smaller one go on side by side, until the sums of their steps' times (sum.c) decide
 *   passes          passes.def         the graph fused: Linear, Attention, LayerNormalization, Embed; QKV merged
 *   choose          choose.c           for each Linear the implements that match are built, checked, timed, remembered
 *   layout          layout.c           Identity nodes convert where neighbours want values in other layouts
 *   pack            pack.c             weights into their formats, once
 *   verify          verify.c           the package against the references of the file, before it is written
 *
 * The plan is an ordinary graph (text form included) in which nodes carry extra attributes that the runtime reads and that change
 * nothing about what is computed:
 *
 *   implement="strip4" kernel="linear" code=3   what runs it; without them the builtin reference does
 *   layout="panel"                              where its outputs lie, a row of panel/layouts.def; none: rows
 *   pattern="4x1" density=0.1 reason="..."      for the report
 *   format="(n,k)->(...)"
 *
 * so that the package's graph can be compiled again (the dense baseline), run on the references (verify) and read by people.
 */
#ifndef SP_COMPILE_H
#define SP_COMPILE_H

#include "compile/estimate.h"
#include "compile/modules.h"
#include "compile/passes.h"
#include "import/import.h"
#include "ops/close.h"
#include "package/package.h"
#include "propagate/propagate.h"
#include "schedule/schedule.h"

/* What one clause of a schedule did to one weight, or to a value that is computed (n is 0: k of each line, of which at most `after` stays). */
typedef struct sp_effect {
    sp_schedule_at at;
    const char *clause, *text;         /* "sparsify", "magnitude(...)" */
    const char *glob, *tensor, *layer; /* the rule's glob; the weight; the first product that uses it */
    const char *known;                 /* the weight as people know it; NULL: as `tensor` */
    int64_t n, k;
    double before, after; /* density */
    char pattern[24];     /* found afterwards */
    const char *format;   /* that is asked for, canonical; NULL: no format clause */
    const char *kernel;   /* the schedule of its generated kernel; NULL: none is asked for */
    /* That stores a layer so ("walk" when none does better), or is asked for. */
    const struct sp_implement *implement;
    const char *point; /* words of it that are asked for; "": none */
    bool used;         /* a layer was found for the pin */
    uint64_t digest;   /* of what is left of the weight */
} sp_effect;
typedef struct sp_obeyed {
    int n;
    sp_effect *effect;      /* of the graph's arena; texts are the schedule's */
    double limit;           /* for sp_compile_layers: as in sparta_compile_options */
    int64_t masked_nonzero; /* weights that were not 0 and that masks removed, those of --masks too */
} sp_obeyed;

/* What to do; the public options and what doors add. */
typedef struct sp_compile_request {
    sparta_compile_options options;
    const sp_obeyed *obeyed; /* formats and implements that a schedule pins; NULL: none */
    /* Skip the final check against the references (bench's own baselines). Products with weights are still checked one by one; what has none and was timed in an earlier compile is not. */
    bool no_verify;
    bool runs_here; /* what is compiled is run next: a target that this CPU cannot run is E_UNSUPPORTED */
    /* As sp_tune_now: times that were measured from then on are this compile's own; 0: from now on. */
    int64_t since;
    /* Nodes of other graphs of this compile that were chosen for before: what is told goes on from there. NULL: there are none. */
    int *chosen;
    /* Filled: microseconds that the steps of one run take together, estimated (sum.c). NULL: not wanted. */
    double *us;
} sp_compile_request;
/* What is close enough; an option that is not given is the usual. */
static inline sp_tolerance sp_compile_tolerance(const sparta_compile_options *o)
{
    return (sp_tolerance){o->rtol > 0 ? o->rtol : -1, o->atol > 0 ? o->atol : -1};
}

/* How far it is, to whoever asked to be told. */
static inline void sp_compile_tell(const sparta_compile_options *o, int done, int all, const char *what)
{
    if (o->progress) o->progress(o->progress_user, done, all, what);
}

/* Compile a graph (which is changed) into a package image in memory. */
sparta_status sp_compile_graph(sparta_ctx *cx, sp_graph *g, const sp_compile_request *request,
                               sparta_package **out) SP_MUST;
/* The package borrows weights from the model, which is closed with it; sessions look whether its files are as they were. */
void sp_compile_keep_model(sparta_package *p, sp_model *model);
/* ONNX file -> package in memory; the model stays open inside it. */
sparta_status sp_compile_file(sparta_ctx *cx, const char *onnx, const sp_compile_request *request,
                              sparta_package **out) SP_MUST;
/* A model with what the options say done to it, inferred: dims, masks, schedule; not yet what they remove. */
typedef struct sp_opened {
    sp_model *model;
    sparta_schedule *schedule; /* that obeyed refers to, opened here; NULL: none */
    sp_obeyed obeyed;
} sp_opened;
sparta_status sp_compile_open(sparta_ctx *cx, const char *onnx, const sparta_compile_options *options,
                              sp_opened *out) SP_MUST;
void sp_compile_close(sp_opened *o);
/* The schedule of options.schedule, opened; NULL when there are rules, or neither. Both are E_USAGE, and so are rules of another context. */
sparta_status sp_compile_rules(sparta_ctx *cx, const sparta_compile_options *o,
                               sparta_schedule **out) SP_MUST;
/* What options.dims say, done to a graph that was just imported: "name=4" fixes a symbol, "name=1:8:32" bounds it. */
sparta_status sp_compile_bind(sparta_ctx *cx, sp_graph *g, const char *const *dims) SP_MUST;
/* Make an inferred graph smaller; weights whose format a schedule pins keep their shape, what the options remove is removed first. */
sparta_status sp_compile_propagate(sp_graph *g, const sparta_compile_options *options,
                                   const sp_obeyed *obeyed, sp_propagate_report *out) SP_MUST;
/* What is known of the values of an inferred graph. What the options remove is removed from it, and from the options. */
sparta_status sp_compile_facts(sp_graph *g, sparta_compile_options *options, sp_propagation **out) SP_MUST;
/* Microseconds that one run of a graph takes after sp_compile_passes, at usual sizes on one thread: the sum over its nodes, from
 * the tuning database or the cost model. No code is built, nothing is timed. */
sparta_status sp_compile_sum(sparta_ctx *cx, sp_graph *g, const char *db, const sp_obeyed *obeyed,
                             double *us) SP_MUST;
/* Of two sums, is the smaller graph's the one to take? It has to be faster by more than the noise of times, or to save a sixteenth of the
 * parameters at no cost: single channels that go here and there leave blocks that no longer line up. */
bool sp_compile_worth(const sp_propagate_report *went, double smaller_us, double given_us);
/* Are products what they were? What stays lines up as it did, and what is gone are vectors. */
bool sp_compile_keeps_products(const sp_propagate_report *went);
/* Is it by what went alone? Then nobody has to be timed. Both graphs went through the passes. */
bool sp_compile_no_slower(const sp_propagate_report *went, const sp_graph *smaller, const sp_graph *given);
/* The graph of a package, weights unpacked, annotations removed: to compile again with other options. */
sparta_status sp_compile_unplan(sparta_ctx *cx, const sparta_package *package, sp_graph **out) SP_MUST;
/* The graph that a package was made from, before propagation, to be timed: integers are what they were, weights that went are made
 * from the seed. Where nothing went, the same as unplan. */
sparta_status sp_compile_given(sparta_ctx *cx, const sparta_package *package, uint64_t seed,
                               sp_graph **out) SP_MUST;
/* Set the elements of a weight to 0 where the mask is 0, which has its shape (the transposed one where it is turned). Adds to *lost those
 * that were not 0; E_USAGE where the transposed mask would have removed zeros only. */
sparta_status sp_compile_mask(sparta_ctx *cx, sp_graph *g, const sp_module_weight *w,
                              const sparta_tensor *mask, int64_t *lost) SP_MUST;
/* Apply a mask file (.npz or .safetensors: one array per weight, zero where it is gone) to the constants of a graph that was just imported.
 * Names are those of initialisers, or of PyTorch's parameters that the exporter renamed (modules.h). Unknown ones are E_USAGE.
 * *lost (may be NULL): removed weights that were not 0. */
sparta_status sp_compile_masks(sparta_ctx *cx, sp_graph *g, const char *path, int64_t *lost) SP_MUST;

/* Do what a schedule says to a graph that was just imported. Clauses whose room is not there are E_UNSUPPORTED with their place, formats that
 * do not fit their weight E_USAGE. The schedule must outlive the compilation. */
sparta_status sp_compile_schedule(sparta_ctx *cx, sp_graph *g, const sparta_schedule *s,
                                  sp_obeyed *out) SP_MUST;

/* What is said of one layer (a node that does arithmetic on a weight, or a product of activations). inspect prints it without compiling. */
typedef struct sp_layer {
    const char *name, *op;
    int64_t n, k;   /* of a Linear's weight; 0 otherwise */
    int64_t tokens; /* that its times are for: 128, or as many as there can be when they are 16 at most */
    sparta_dtype dtype;
    char pattern[24], block[16];
    double density; /* 1 for a product of activations */
    char implement[48];
    const char *format; /* that its weight is stored in, of the graph or of the arena; NULL: as it is */
    char reason[256]; /* why it is not faster than dense, or who chose it; "" when it is sparse and faster */
    char source[16];  /* "measured", "database" or "model": where the numbers of the reason come from */
    double us, dense_us; /* of the choice and of the best dense, at `tokens`, one thread; 0: not known */
} sp_layer;
/* Layers of a plan (package) or of an ONNX graph after sp_compile_passes: no code of the file is run, nothing is timed: times
 * come from the tuning database or the cost model. `obeyed`: formats that a schedule pins; NULL: none; one that stores too much is
 * refused as by compile. The array lives in `arena`. */
sparta_status sp_compile_layers(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const char *db,
                                const sp_obeyed *obeyed, sp_layer **out, int *n) SP_MUST;

/* A weight of a package as its constant in the plan has it: unpacked into fresh memory of `arena` when it is packed. */
sparta_status sp_compile_unpack(sp_arena *arena, const sp_weight *w, sparta_tensor *out) SP_MUST;

#endif
