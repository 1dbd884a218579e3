/* For the files of this room only: the reader of one text, and what parse.c and build.c share. */
#ifndef SP_SCHEDULE_INSIDE_H
#define SP_SCHEDULE_INSIDE_H

#include "schedule/schedule.h"

typedef enum { END, WORD_TOKEN, STRING_TOKEN, SYMBOL } token_kind;

typedef struct token {
    token_kind kind;
    char symbol;      /* of SYMBOL: one of { } ( ) , ; = */
    const char *text; /* length bytes; of a string between its quotes, escapes not yet undone */
    int length;
    bool fresh_line; /* a line began before it: the clause before has ended */
    sp_schedule_at at;
} token;

typedef struct reader { /* one text */
    sparta_ctx *cx;
    sparta_schedule *s;
    const char *next;
    sp_schedule_at at;          /* of `next` */
    token now;                  /* the token to look at */
    const struct reader *outer; /* the text that includes this one */
} reader;

reader sp_schedule_reader(sparta_schedule *s, const char *text, const char *file);
sparta_status sp_schedule_next(reader *r) SP_MUST; /* fills `now` */
/* From here to the end of the clause: the text of a format. `now` is the token behind it. */
typedef struct sp_schedule_raw_text {
    const char *text;  /* blanks made one, comments left out */
    const char *bytes; /* as it stands there, comments blanked */
    sp_schedule_at at;
} sp_schedule_raw_text;
sparta_status sp_schedule_raw(reader *r, sp_schedule_raw_text *out) SP_MUST;
sparta_status sp_schedule_fail(sparta_ctx *cx, sp_schedule_at at, const char *format, ...) SP_PRINTF(3, 4);
/* "expected WHAT, found ..."; with names: and the nearest of them. */
sparta_status sp_schedule_expected(const reader *r, const char *what, const char *const *names, int n);
char *sp_schedule_copy(const reader *r, const token *t) SP_MUST; /* its text, in the arena */

/* A list that may hold one more; the old one stays in the arena. */
sparta_status sp_schedule_grow(sparta_schedule *s, void **list, int n, int *capacity, size_t size) SP_MUST;
const sp_schedule_name *sp_schedule_find(const sp_schedule_name *list, int n, const char *name);
/* One of sparsifiers.def or of the context's users, or NULL. */
const sp_sparsifier_row *sp_schedule_find_sparsifier(sparta_ctx *cx, const char *name);
/* Check the arguments of a sparsifier and name them; E_USAGE when there is none of that name. */
sparta_status sp_schedule_check_sparsifier(sparta_schedule *s, sp_schedule_call *call) SP_MUST;
void sp_schedule_print_call(const sp_schedule_call *call, sp_text *out);
void sp_schedule_print_string(const char *s, sp_text *out);

/* The text of a format as it is written, and what it means: without the names that the schedule defines. */
sparta_status sp_schedule_format_text(reader *r, const char **text, const char **means) SP_MUST;
/* What stands behind the word of a clause, in reader `r`. */
sparta_status sp_schedule_read_clause(reader *r, sparta_schedule_rule *rule, sp_clause_kind kind,
                                      sp_schedule_at at) SP_MUST;
sparta_status sp_schedule_read_format(reader *r, const char *name, sp_schedule_at at) SP_MUST;
sparta_status sp_schedule_read_sparsifier(reader *r, const char *name, sp_schedule_at at) SP_MUST;
sparta_status sp_schedule_add_dim(sparta_schedule *s, const char *name, const char *sizes,
                                  sp_schedule_at at) SP_MUST;
sparta_status sp_schedule_add_target(sparta_schedule *s, const char *target, sp_schedule_at at) SP_MUST;
/* What a rule says of something that others may have spoken of: two that differ are E_USAGE. */
sparta_status sp_schedule_say(const sparta_schedule *s, const char *name, const sparta_schedule_rule **said,
                              const sparta_schedule_rule *rule) SP_MUST;
/* Does it name this weight, by its name or by that of a product that uses it? */
bool sp_schedule_names_weight(const sparta_schedule_rule *rule, const sp_value *w, const sp_node *user);
/* ":input" or ":output" at the end of a rule's glob; NULL: neither. */
const char *sp_schedule_side(const sparta_schedule_rule *rule);
/* Does it name a value that the graph computes, or an input? (One that names weights names no values.) */
bool sp_schedule_names_computed(const sp_graph *g, const sparta_schedule_rule *rule);
sparta_status sp_schedule_add_rule(sparta_schedule *s, const char *glob, sp_schedule_at at,
                                   sparta_schedule_rule **out) SP_MUST;
#endif
