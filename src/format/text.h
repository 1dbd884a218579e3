/* What the files about texts share: the lexer, and who calls whom.
 *
 *     lex.c        characters -> tokens that know their line and column; the shape of messages
 *     parse.c      one function per rule: maps, levels, widths
 *     sum_text.c   sum{...}: selectors, one copy of equal sums in the context
 *     sum_check.c  which parts may stand together
 *     names.c      the table of names, opaque ones, users' ones; names_file.c reads files of them
 *     print.c      back to text
 */
#ifndef SPARTA_FORMAT_TEXT_H
#define SPARTA_FORMAT_TEXT_H

#include "format/level.h"
#include "format/opaque.h"

#define SPARTA_FORMAT_TEXT  4096 /* the most bytes of a text, also when it is written out */
#define SPARTA_FORMAT_DEPTH 8    /* sums inside sums */

/* ------------------------------------------------------------------ lex.c */

typedef enum {
    SPARTA_TOKEN_END,
    SPARTA_TOKEN_NAME,
    SPARTA_TOKEN_NUMBER,
    SPARTA_TOKEN_ARROW,
    SPARTA_TOKEN_DOTS,
    SPARTA_TOKEN_SYMBOL
} sparta_token_kind;

typedef struct sparta_token {
    sparta_token_kind kind;
    char symbol;      /* of SYMBOL */
    const char *text; /* length bytes */
    int length;
    sparta_place at;
} sparta_token;

typedef struct sparta_parser {
    sparta_ctx *cx;
    const char *next;
    sparta_place at;  /* of `next` */
    sparta_token now; /* the token to look at */
    int depth;        /* of the sums and names we are inside of */
} sparta_parser;

sparta_parser sparta_lex(sparta_ctx *cx, const char *text, sparta_place at); /* at the first token */
void sparta_lex_next(sparta_parser *p);
/* Names of formats may have '-' inside: take such a word as one token. */
void sparta_lex_join(sparta_parser *p);
bool sparta_lex_is(const sparta_parser *p, char symbol);
bool sparta_token_is(const sparta_token *t, const char *name);
int sparta_token_find(const sparta_token *t, const char *const *names, int n); /* -1: none of them */
/* A token for a message: printable and short. */
const char *sparta_token_show(const sparta_token *t, char out[40]);
/* The nearest of the names, as "; did you mean 'x'?", or "". */
const char *sparta_token_hint(const sparta_token *t, const char *const *names, int n, char out[80]);
/* "format:1:8: message", E_USAGE. */
sparta_status sparta_lex_fail(sparta_parser *p, sparta_place at, const char *format, ...) SPARTA_PRINTF(3, 4);
sparta_status sparta_lex_expected(sparta_parser *p, const char *what);
sparta_status sparta_lex_need(sparta_parser *p, char symbol) SPARTA_MUST;
sparta_status sparta_lex_number(sparta_parser *p, const char *what, int64_t least, int64_t most,
                                int64_t *out) SPARTA_MUST;
sparta_status sparta_lex_decimal(sparta_parser *p, const char *what,
                                 double *out) SPARTA_MUST; /* 0.25, 1e-3 */

/* ------------------------------------------------------------------ check.c */

/* "format:1:8: message" when the place is known, else "format: message"; E_USAGE. */
sparta_status sparta_format_wrong(sparta_ctx *cx, const sparta_place *at, const char *format, ...)
    SPARTA_PRINTF(3, 4);
static inline bool sparta_level_is_blocked(const sparta_level *l)
{
    return l->map == SPARTA_MAP_DIV || l->map == SPARTA_MAP_MOD || l->map == SPARTA_MAP_NEST;
}
static inline bool sparta_level_is_diagonal(const sparta_level *l)
{
    return l->map == SPARTA_MAP_SUB || l->map == SPARTA_MAP_ADD;
}

/* ------------------------------------------------------------------ the rules */

/* A format, up to the first token that does not belong to it. `out` must be all 0. */
sparta_status sparta_parse_format(sparta_parser *p, sparta_format *out) SPARTA_MUST;
sparta_status sparta_parse_named(sparta_parser *p, sparta_format *out) SPARTA_MUST;
sparta_status sparta_parse_sum(sparta_parser *p, sparta_format *out) SPARTA_MUST;
typedef struct sparta_width { /* crd[1..2]=u16 */
    bool crd;                 /* else pos */
    int from, to;
    sparta_dtype type;
    int bits;
    sparta_place at; /* of the u16 */
    bool used;       /* out: a level had such an array */
} sparta_width;
sparta_status sparta_parse_apply_width(sparta_parser *p, sparta_format *f, sparta_width *w) SPARTA_MUST;
sparta_status sparta_sum_apply_width(sparta_parser *p, sparta_format *f,
                                     sparta_width *w) SPARTA_MUST; /* to all parts */
/* The whole of a text that begins at this place of a file. */
sparta_status sparta_format_parse_at(sparta_ctx *cx, const char *text, sparta_place at,
                                     sparta_format *out) SPARTA_MUST;

/* ------------------------------------------------------------------ sums */

#define SPARTA_SELECT_TEXT 64
const char *sparta_select_show(const sparta_select *s, char out[SPARTA_SELECT_TEXT]);
/* May the parts of f->sum stand together? `place` of each selector; NULL: unknown. */
sparta_status sparta_sum_structure(sparta_ctx *cx, const sparta_format *f,
                                   const sparta_place *place) SPARTA_MUST;
/* The context's copy of an equal sum, as a format; `sum` is freed, or becomes that copy. */
sparta_status sparta_sum_intern(sparta_ctx *cx, sparta_sum *sum, const sparta_place *place,
                                sparta_format *out) SPARTA_MUST;

/* What users add, in the context's slot; made when first needed. */
typedef struct sparta_format_name {
    struct sparta_format_name *next;
    sparta_format format;
    int line;   /* of its definition; 0: by a call */
    char *file; /* NULL: by a call */
    char name[];
} sparta_format_name;

typedef struct sparta_format_copy {
    struct sparta_format_copy *next;
    uint64_t hash;
    char *text; /* canonical */
    sparta_sum *sum;
} sparta_format_copy;

typedef struct sparta_formats {
    sparta_format_name *names; /* the newest first */
    sparta_format_copy *sums;
    int n_names;
} sparta_formats;
sparta_formats *sparta_formats_of(sparta_ctx *cx) SPARTA_MUST; /* NULL: out of memory */
/* Give a name that was checked; file NULL: by a call. */
sparta_status sparta_format_define_as(sparta_ctx *cx, const char *name, const sparta_format *f,
                                      const char *file, int line) SPARTA_MUST;
/* The names of a file with these contents, which are changed on the way. */
sparta_status sparta_format_define_text(sparta_ctx *cx, const char *path, char *text) SPARTA_MUST;
/* Forget names until `last` is the newest; NULL: all. */
void sparta_formats_forget(sparta_ctx *cx, sparta_formats *all, const sparta_format_name *last);
bool sparta_select_is_word(const char *word); /* rownnz, first, ... */

#endif
