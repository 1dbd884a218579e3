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
 * The room knows the language, not what clauses do: `sparsify` is done by room prune, `format` means a text of room format, and
 * compile/obey.c brings them together. Everything belongs to the schedule's arena and is freed with it.
 *
 * Invariants. Text, object and calls are the same thing: the calls read their arguments with the parser's own rules, and print of
 * parse is stable (parsing what was printed prints the same). Print writes what is obeyed: includes are already inside. Names are
 * defined before they are used. A rule says each clause once. A weight is a 2-D float constant that a product multiplies by; it is
 * seen as (n, k) = (out, in), whichever way the file stores it. Errors say "file:line:column: what; what to do", columns in bytes.
 */
#ifndef SPARTA_SCHEDULE_H
#define SPARTA_SCHEDULE_H

#include "graph/graph.h"

#define SPARTA_SCHEDULE_BYTES    (1 << 20) /* of one file */
#define SPARTA_SCHEDULE_DEPTH    8         /* of includes */
#define SPARTA_SCHEDULE_INCLUDES 64        /* in all */
#define SPARTA_SCHEDULE_RULES    4096
#define SPARTA_SCHEDULE_NAMES    256  /* definitions of each kind, and dims */
#define SPARTA_SCHEDULE_WORD     1024 /* bytes of a word, name or string */
#define SPARTA_SCHEDULE_ARGS     16
#define SPARTA_SCHEDULE_STEPS    64 /* of a kernel clause */

typedef enum {
#define SPARTA_CLAUSE(id, word, example) SPARTA_CLAUSE_##id,
#include "schedule/clauses.def"
#undef SPARTA_CLAUSE
    SPARTA_CLAUSES
} sparta_clause_kind;
const char *sparta_clause_word(sparta_clause_kind kind);

typedef struct sparta_schedule_at { /* where something was said */
    const char *file;
    int line, column;
} sparta_schedule_at;

typedef struct sparta_schedule_arg { /* name=text, or text alone */
    const char *name;                /* NULL: none */
    const char *text;
    bool quoted; /* it was a string */
    sparta_schedule_at at;
} sparta_schedule_arg;

typedef struct sparta_schedule_call { /* magnitude(pattern=4x1, sparsity=0.9) */
    const char *name;
    int n;
    sparta_schedule_arg *arg;
    sparta_schedule_at at;
} sparta_schedule_call;

typedef struct sparta_schedule_clause {
    bool given;
    sparta_schedule_at at;
    const char *text;          /* behind its word, canonical, with the names that were written */
    const char *means;         /* the same with names replaced by what they stand for */
    sparta_schedule_call call; /* sparsify, quantize: of what it means */
    int n;                     /* kernel: its primitives */
    sparta_schedule_call *step;
} sparta_schedule_clause;

typedef struct sparta_schedule sparta_schedule;

typedef struct sparta_schedule_rule { /* tensor "glob" { ... } */
    sparta_schedule *schedule;
    const char *glob;
    sparta_schedule_at at;
    sparta_schedule_clause clause[SPARTA_CLAUSES];
} sparta_schedule_rule;

typedef struct sparta_schedule_name { /* format NAME = text, sparsifier NAME = call, dim NAME = text */
    const char *name, *text;
    sparta_schedule_call call; /* of a sparsifier */
    sparta_schedule_at at;
} sparta_schedule_name;

struct sparta_schedule {
    sparta_ctx *cx;
    sparta_arena *arena;
    const char *folder; /* includes and mask files lie beneath it */
    const char *target; /* NULL: not said */
    sparta_schedule_at target_at;
    int n_formats, n_sparsifiers, n_dims, n_rules, n_includes;
    int format_capacity, sparsifier_capacity, dim_capacity, rule_capacity;
    sparta_schedule_name *format, *sparsifier, *dim; /* dim: name and "4" or "1:8:32" */
    sparta_schedule_rule **rule;                     /* rules stay where they are while the list grows */
};

/* ------------------------------------------------------------------ text */
/* `name` is said in messages; `folder` NULL: the current one. */
sparta_status sparta_schedule_parse(sparta_ctx *cx, const char *text, const char *name, const char *folder,
                                    sparta_schedule **out) SPARTA_MUST;
sparta_status sparta_schedule_open(sparta_ctx *cx, const char *path, sparta_schedule **out) SPARTA_MUST;
void sparta_schedule_print(const sparta_schedule *s, sparta_text *out);
void sparta_schedule_free(sparta_schedule *s);

/* ------------------------------------------------------------------ the same, call by call
 * Texts are read by the parser's rules; mistakes are E_USAGE with the column in that text. On failure the schedule is as before. */
sparta_status sparta_schedule_create(sparta_ctx *cx, sparta_schedule **out) SPARTA_MUST;
sparta_status sparta_schedule_set_target(sparta_schedule *s, const char *target) SPARTA_MUST;
sparta_status sparta_schedule_set_dim(sparta_schedule *s, const char *name, const char *sizes) SPARTA_MUST;
sparta_status sparta_schedule_define_format(sparta_schedule *s, const char *name,
                                            const char *text) SPARTA_MUST;
sparta_status sparta_schedule_define_sparsifier(sparta_schedule *s, const char *name,
                                                const char *text) SPARTA_MUST;
sparta_status sparta_schedule_tensor(sparta_schedule *s, const char *glob,
                                     sparta_schedule_rule **out) SPARTA_MUST;
sparta_status sparta_schedule_set(sparta_schedule_rule *rule, sparta_clause_kind kind,
                                  const char *text) SPARTA_MUST;
static inline SPARTA_MUST sparta_status sparta_schedule_sparsify(sparta_schedule_rule *r, const char *text)
{
    return sparta_schedule_set(r, SPARTA_CLAUSE_SPARSIFY, text);
}
static inline SPARTA_MUST sparta_status sparta_schedule_set_format(sparta_schedule_rule *r, const char *text)
{
    return sparta_schedule_set(r, SPARTA_CLAUSE_FORMAT, text);
}
static inline SPARTA_MUST sparta_status sparta_schedule_quantize(sparta_schedule_rule *r, const char *text)
{
    return sparta_schedule_set(r, SPARTA_CLAUSE_QUANTIZE, text);
}
static inline SPARTA_MUST sparta_status sparta_schedule_kernel(sparta_schedule_rule *r, const char *text)
{
    return sparta_schedule_set(r, SPARTA_CLAUSE_KERNEL, text);
}

/* ------------------------------------------------------------------ use */
/* The text of an argument, or NULL. Arguments of sparsifiers have their names, given or not. */
const char *sparta_schedule_arg_of(const sparta_schedule_call *call, const char *name);
/* A path beneath the schedule's folder, in the arena; E_USAGE when it is absolute or climbs. */
sparta_status sparta_schedule_path(const sparta_schedule *s, sparta_arena *arena, const char *file,
                                   const char **out) SPARTA_MUST;

typedef struct sparta_schedule_match { /* a weight that some rule names */
    sparta_value *value;
    const sparta_node *node;                          /* the product that uses it first */
    bool turned;                                      /* the constant is (k, n) */
    const sparta_schedule_rule *rule[SPARTA_CLAUSES]; /* who says it; NULL: nobody */
} sparta_schedule_match;
/* Which weights the rules name, by initialiser or by the path of a product. In the order of the graph; the array lives in `arena`.
 * A glob that matches nothing, and two rules that say different things of one weight, are E_USAGE. */
sparta_status sparta_schedule_matches(const sparta_schedule *s, const sparta_graph *g, sparta_arena *arena,
                                      sparta_schedule_match **out, int *n) SPARTA_MUST;

#endif
