/* For the files of this room only: the reader of one text, and what parse.c and build.c share. */
#ifndef SPARTA_SCHEDULE_INSIDE_H
#define SPARTA_SCHEDULE_INSIDE_H

#include "schedule/schedule.h"

typedef enum { END, WORD_TOKEN, STRING_TOKEN, SYMBOL } token_kind;

typedef struct token {
    token_kind kind;
    char symbol;      /* of SYMBOL: one of { } ( ) , ; = */
    const char *text; /* length bytes; of a string between its quotes, escapes not yet undone */
    int length;
    bool fresh_line; /* a line began before it: the clause before has ended */
    sparta_schedule_at at;
} token;

typedef struct reader { /* one text */
    sparta_ctx *cx;
    sparta_schedule *s;
    const char *next;
    sparta_schedule_at at;      /* of `next` */
    token now;                  /* the token to look at */
    const struct reader *outer; /* the text that includes this one */
} reader;

reader sparta_schedule_reader(sparta_schedule *s, const char *text, const char *file);
sparta_status sparta_schedule_next(reader *r) SPARTA_MUST; /* fills `now` */
/* From here to the end of the clause: the text of a format. `now` is the token behind it. */
typedef struct sparta_schedule_raw_text {
    const char *text;  /* blanks made one, comments left out */
    const char *bytes; /* as it stands there, comments blanked */
    sparta_schedule_at at;
} sparta_schedule_raw_text;
sparta_status sparta_schedule_raw(reader *r, sparta_schedule_raw_text *out) SPARTA_MUST;
sparta_status sparta_schedule_fail(sparta_ctx *cx, sparta_schedule_at at, const char *format, ...)
    SPARTA_PRINTF(3, 4);
/* "expected WHAT, found ..."; with names: and the nearest of them. */
sparta_status sparta_schedule_expected(const reader *r, const char *what, const char *const *names, int n);
char *sparta_schedule_copy(const reader *r, const token *t) SPARTA_MUST; /* its text, in the arena */

/* A list that may hold one more; the old one stays in the arena. */
sparta_status sparta_schedule_grow(sparta_schedule *s, void **list, int n, int *capacity,
                                   size_t size) SPARTA_MUST;
const sparta_schedule_name *sparta_schedule_find(const sparta_schedule_name *list, int n, const char *name);
/* One of sparsifiers.def or of the context's users, or NULL. */
const sparta_sparsifier_row *sparta_schedule_find_sparsifier(sparta_ctx *cx, const char *name);
/* Check the arguments of a sparsifier and name them; E_USAGE when there is none of that name. */
sparta_status sparta_schedule_check_sparsifier(sparta_schedule *s, sparta_schedule_call *call) SPARTA_MUST;
void sparta_schedule_print_call(const sparta_schedule_call *call, sparta_text *out);
void sparta_schedule_print_string(const char *s, sparta_text *out);

/* The text of a format as it is written, and what it means: without the names that the schedule defines. */
sparta_status sparta_schedule_format_text(reader *r, const char **text, const char **means) SPARTA_MUST;
/* What stands behind the word of a clause, in reader `r`. */
sparta_status sparta_schedule_read_clause(reader *r, sparta_schedule_rule *rule, sparta_clause_kind kind,
                                          sparta_schedule_at at) SPARTA_MUST;
sparta_status sparta_schedule_read_format(reader *r, const char *name, sparta_schedule_at at) SPARTA_MUST;
sparta_status sparta_schedule_read_sparsifier(reader *r, const char *name, sparta_schedule_at at) SPARTA_MUST;
sparta_status sparta_schedule_add_dim(sparta_schedule *s, const char *name, const char *sizes,
                                      sparta_schedule_at at) SPARTA_MUST;
sparta_status sparta_schedule_add_target(sparta_schedule *s, const char *target,
                                         sparta_schedule_at at) SPARTA_MUST;
sparta_status sparta_schedule_add_rule(sparta_schedule *s, const char *glob, sparta_schedule_at at,
                                       sparta_schedule_rule **out) SPARTA_MUST;
#endif
