/* implement: the ways to run an operator.
 *
 * One ordered table (implements.def), best first; the last row is the builtin reference and always matches. A row says for which nodes
 * it is meant (match), which panel kernel runs it with which parameters, and how its weight is stored (format). The rows of a
 * Linear compete: compile builds each that matches, checks it against the reference, times it and keeps the fastest, dense
 * and sparse on equal terms; without measuring, their cost decides. Of the others the first that matches runs, and the
 * finished package is compared with the references before it is written.
 *
 *     strip4    Linear   weight in strips of 4 rows, blocks present only      4x1 and every block whose rows divide by 4
 *     dense4    Linear   the same strips with all blocks                      the dense competitor
 *     attention, norm, map, embed                                             the rest of a transformer, on panels
 *     builtin   anything                                                      the reference
 */
#ifndef SPARTA_IMPLEMENT_H
#define SPARTA_IMPLEMENT_H

#include "device/device.h"
#include "graph/graph.h"
#include "panel/panel.h"
#include "tesa/tesa.h"

/* What rows look at: a node and, for a Linear, its weight as (n, k). */
typedef struct sparta_task {
    const sparta_node *node;
    int64_t n, k;
    const sparta_mask *mask; /* NULL: not a Linear with a constant weight */
    sparta_pattern pattern;
    double strip_fill; /* slots that 4x1 strips would store over elements present */
    bool strict;       /* no product that skips 0 x Inf */
    bool stat;         /* statistics for the normalisation that follows */
} sparta_task;

typedef struct sparta_implement {
    const char *name;
    bool sparse;
    const char *kernel; /* row of panel.def; NULL: the builtin */
    bool (*match)(const sparta_task *t);
    /* modelled multiply-adds a token, overheads included, to compare the rows of a Linear; NULL elsewhere */
    double (*cost)(const sparta_task *t);
    void (*parameters)(const sparta_task *t, sparta_text *out); /* "SPARSE=1 ACT=2"; NULL: none */
    void (*format)(const sparta_task *t, sparta_text *out);     /* of the weight; NULL: stored as it is */
} sparta_implement;

#define SPARTA_IMPLEMENT(name) extern const sparta_implement sparta_implement_##name;
#include "implement/implements.def"
#undef SPARTA_IMPLEMENT

int sparta_implement_count(void);
const sparta_implement *sparta_implement_row(int i);
const sparta_implement *sparta_implement_find(const char *name); /* or NULL */
/* Text of a panel kernel with its parameters as #defines ("SPARSE=1 ACT=2"): where it came from, the ABI, the template. */
sparta_status sparta_implement_text(const char *kernel, const char *parameters, sparta_target target,
                                    sparta_text *out) SPARTA_MUST;

/* For rows: does the node's value live on f32 tokens: rank >= 2 (3 for attention), constant features? */
bool sparta_implement_tokens(const sparta_value *v);

#endif
