/* schedule: what a person says about the weights of a model, as a text and as an object.
 *
 *     include "common.sched"                                       beneath the folder of the schedule
 *     format     mine  = (n,k)->(n/4:dense, k:compressed, n%4:dense)
 *     sparsifier heavy = magnitude(pattern=4x1, sparsity=0.9)
 *     model { target avx512; dim batch=1:8:32 }
 *     tensor "encoder.*.dense.weight" {                            a rule: a glob and its clauses
 *         sparsify heavy                                           clauses end with a line, a ';' or the '}'
 *         format   mine
 *     }
 *
 *      text ---parse---> sparta_schedule <---build--- calls (sparta_schedule_tensor, _sparsify, _set_format, ...)
 *                           |        |
 *                         print    match ---> for each weight of a graph: which rule says what of it
 *
 * A rule names weights, or values that the model computes: by their names, or as what goes into and comes out of a node or module ("/fc2/MatMul:input",
 * "fc1:output"). Of those only `sparsify` can be said, and it is done as the model runs (operator Sparsify).
 *
 * The room knows the language, not what clauses do: `sparsify` is done by room prune, `format` means a text of room format, and
 * compile/obey.c brings them together. Everything belongs to the schedule's arena and is freed with it.
 *
 * Invariants. Text, object and calls are the same thing: the calls read their arguments with the parser's own rules, and print of
 * parse is stable (parsing what was printed prints the same). Print writes what is obeyed: includes are already inside. Names are
 * defined before they are used. A rule says each clause once. A weight is a 2-D float constant that a product multiplies by; it is
 * seen as (n, k) = (out, in), whichever way the file stores it. Errors say "file:line:column: what; what to do", columns in bytes.
 */
#ifndef SP_SCHEDULE_H
#define SP_SCHEDULE_H

#include "graph/graph.h"

#define SP_SCHEDULE_BYTES    (1 << 20) /* of one file */
#define SP_SCHEDULE_DEPTH    8         /* of includes */
#define SP_SCHEDULE_INCLUDES 64        /* in all */
#define SP_SCHEDULE_RULES    4096
#define SP_SCHEDULE_NAMES    256  /* definitions of each kind, and dims */
#define SP_SCHEDULE_WORD     1024 /* bytes of a word, name or string */
#define SP_SCHEDULE_FORMAT   4096 /* bytes of the text of a format */
#define SP_SCHEDULE_ARGS     16
#define SP_SCHEDULE_STEPS    64 /* of a kernel clause */

typedef enum {
#define SP_CLAUSE(id, word, example) SP_CLAUSE_##id,
#include "schedule/clauses.def"
#undef SP_CLAUSE
    SP_CLAUSES
} sp_clause_kind;
const char *sp_clause_word(sp_clause_kind kind);

typedef struct sp_schedule_at { /* where something was said */
    const char *file;
    int line, column;
} sp_schedule_at;

typedef struct sp_sparsifier_row sp_sparsifier_row;

typedef struct sp_schedule_arg { /* name=text, or text alone */
    const char *name;            /* NULL: none */
    const char *text;
    bool quoted; /* it was a string */
    sp_schedule_at at;
} sp_schedule_arg;

typedef struct sp_schedule_call { /* magnitude(pattern=4x1, sparsity=0.9) */
    const char *name;
    int n;
    sp_schedule_arg *arg;
    const sp_sparsifier_row *row; /* of a sparsifier; NULL: it is none */
    sp_schedule_at at;
} sp_schedule_call;

typedef struct sp_schedule_clause {
    bool given;
    sp_schedule_at at;
    const char *text;      /* behind its word, canonical, with the names that were written */
    const char *means;     /* the same with names replaced by what they stand for */
    sp_schedule_call call; /* sparsify, implement, quantize: of what it means */
    int n;                 /* kernel: its primitives */
    sp_schedule_call *step;
} sp_schedule_clause;

struct sparta_schedule_rule { /* tensor "glob" { ... } */
    sparta_schedule *schedule;
    const char *glob;
    sp_schedule_at at;
    sp_schedule_clause clause[SP_CLAUSES];
};

typedef struct sp_schedule_name { /* format NAME = text, sparsifier NAME = call, dim NAME = text */
    const char *name, *text;
    sp_schedule_call call; /* of a sparsifier */
    sp_schedule_at at;
} sp_schedule_name;

struct sparta_schedule {
    sparta_ctx *cx;
    sp_arena *arena;
    const char *folder; /* includes and mask files lie beneath it */
    const char *target; /* NULL: not said */
    sp_schedule_at target_at;
    int n_formats, n_sparsifiers, n_dims, n_rules, n_includes;
    int format_capacity, sparsifier_capacity, dim_capacity, rule_capacity;
    sp_schedule_name *format, *sparsifier, *dim; /* dim: name and "4" or "1:8:32" */
    sparta_schedule_rule **rule;                 /* rules stay where they are while the list grows */
    sp_text printed;                             /* what sparta_schedule_print gave last */
};

/* Made by sparta_schedule_create, _open, _parse, changed by _tensor, _sparsify, _set_format ...: sparta.h. This is print into any text. */
void sp_schedule_write(const sparta_schedule *s, sp_text *out);

/* ------------------------------------------------------------------ sparsifiers: those of sparsifiers.def and of users */
typedef enum {
    SP_PARAMETER_WORD = 1,
    SP_PARAMETER_SHARE,  /* a number between 0 and 1 */
    SP_PARAMETER_AMOUNT, /* a number of at least 0 */
    SP_PARAMETER_COUNT,  /* a whole one */
    SP_PARAMETER_PART,   /* how many elements of a line, or what share of it: 64, 12.5% */
    SP_PARAMETER_STRING,
    SP_PARAMETER_ANY /* a word or a string: what a user's function makes of it */
} sp_parameter_kind;
typedef struct sp_parameter {
    const char *name; /* NULL ends the list */
    sp_parameter_kind kind;
    bool optional;
    bool bare; /* printed without its name */
} sp_parameter;
typedef enum {
#define SP_SPARSIFIER(id, usage, ...) SP_SPARSIFIER_##id,
#include "schedule/sparsifiers.def"
#undef SP_SPARSIFIER
    SP_SPARSIFIERS
} sp_sparsifier_id;
struct sp_sparsifier_row {
    const char *name, *usage;
    sp_parameter parameter[SP_SCHEDULE_ARGS + 1]; /* in the order of unnamed arguments */
    sp_sparsifier_id id;                          /* SP_SPARSIFIERS: a user's */
    const void *own;                              /* a user's: what room prune keeps of it */
};
bool sp_schedule_is_name(const char *name); /* a letter, then letters, digits, '_', '.', '-' */
/* Add a user's: E_USAGE when the name is no name, or is taken. What the row points to lives as long as the context. */
sparta_status sp_schedule_add_sparsifier(sparta_ctx *cx, const sp_sparsifier_row *row) SP_MUST;
/* Memory that lives as long as the context's sparsifiers; NULL: the context has the message. */
sp_arena *sp_schedule_sparsifier_arena(sparta_ctx *cx) SP_MUST;

/* ------------------------------------------------------------------ use */
/* An argument, or NULL. Those of sparsifiers have their names, given or not. */
const sp_schedule_arg *sp_schedule_arg_of(const sp_schedule_call *call, const char *name);
/* Does the text of a format write widths (crd=u16)? Those that it does not write are the implement's choice. */
bool sp_schedule_says_widths(const char *format);
/* A path beneath the schedule's folder, in the arena; E_USAGE when it is absolute or climbs. */
sparta_status sp_schedule_path(const sparta_schedule *s, sp_arena *arena, const char *file,
                               const char **out) SP_MUST;

/* The weight of a product, and whether it lies as (k, n); NULL: the node has none. */
sp_value *sp_schedule_weight_of(const sp_node *n, bool *turned);
/* A weight as people know it: an exporter that transposes one calls it val_50, and its module says "lm_head.weight". NULL: no memory. */
const char *sp_schedule_known_as(sp_arena *arena, const sp_value *weight, const sp_node *user);
/* Does the glob name this weight of that node: by its own name or its initialiser's, by the node's, by PyTorch's module, or as the parameter of
 * it ("lm_head", "lm_head.weight") unless it is another parameter by its own name? */
bool sp_schedule_is_called(const char *glob, const sp_value *weight, const sp_node *user);

typedef struct sp_schedule_match { /* a weight that some rule names */
    sp_value *value;
    const sp_node *node;                          /* the product that uses it first */
    bool turned;                                  /* the constant is (k, n) */
    const sparta_schedule_rule *rule[SP_CLAUSES]; /* who says it; NULL: nobody */
} sp_schedule_match;
/* Which weights the rules name, by initialiser or by the path of a product. In the order of the graph; the array lives in `arena`.
 * A glob that matches nothing, and two rules that say different things of one weight, are E_USAGE. */
sparta_status sp_schedule_matches(const sparta_schedule *s, const sp_graph *g, sp_arena *arena,
                                  sp_schedule_match **out, int *n) SP_MUST;

typedef struct sp_schedule_edge { /* a value that the model computes, or one reading of it */
    sp_value *value;
    sp_node *reader;                              /* input 0 of this node; NULL: whoever reads the value */
    const sparta_schedule_rule *rule[SP_CLAUSES]; /* as above */
} sp_schedule_edge;
/* The values that rules name which name no weight. In the order of the rules; the array lives in `arena`. Errors as above. */
sparta_status sp_schedule_edges(const sparta_schedule *s, const sp_graph *g, sp_arena *arena,
                                sp_schedule_edge **out, int *n) SP_MUST;
/* An argument of kind PART as a number of elements of a line of `features`, at least 1 and at most all. */
int64_t sp_schedule_part(const sp_schedule_arg *a, int64_t features);

#endif
