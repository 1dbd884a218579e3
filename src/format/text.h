/* What the files about texts share: the lexer, and who calls whom.
 *
 *     lex.c        characters -> tokens that know their line and column; the shape of messages
 *     parse.c      one function per rule: maps, levels, widths
 *     sum_text.c   sum{...}: selectors, one copy of equal sums in the context
 *     sum_check.c  which parts may stand together
 *     names.c      the table of names, opaque ones, users' ones; names_file.c reads files of them
 *     print.c      back to text
 */
#ifndef SP_FORMAT_TEXT_H
#define SP_FORMAT_TEXT_H

#include "format/level.h"
#include "format/opaque.h"

#define SP_FORMAT_TEXT  4096 /* the most bytes of a text, also when it is written out */
#define SP_FORMAT_DEPTH 8    /* sums inside sums */

/* ------------------------------------------------------------------ lex.c */

typedef enum {
    SP_TOKEN_END,
    SP_TOKEN_NAME,
    SP_TOKEN_NUMBER,
    SP_TOKEN_ARROW,
    SP_TOKEN_DOTS,
    SP_TOKEN_SYMBOL
} sp_token_kind;

typedef struct sp_token {
    sp_token_kind kind;
    char symbol;      /* of SYMBOL */
    const char *text; /* length bytes */
    int length;
    sp_text_place at;
} sp_token;

typedef struct sp_parser {
    sparta_ctx *cx;
    const char *next;
    sp_text_place at; /* of `next` */
    sp_token now;     /* the token to look at */
    int depth;        /* of the sums and names we are inside of */
} sp_parser;

sp_parser sp_lex(sparta_ctx *cx, const char *text, sp_text_place at); /* at the first token */
void sp_lex_next(sp_parser *p);
/* Names of formats may have '-' inside: take such a word as one token. */
void sp_lex_join(sp_parser *p);
bool sp_lex_is(const sp_parser *p, char symbol);
bool sp_token_is(const sp_token *t, const char *name);
int sp_token_find(const sp_token *t, const char *const *names, int n); /* -1: none of them */
/* A token for a message: printable and short. */
const char *sp_token_show(const sp_token *t, char out[40]);
/* The nearest of the names, as "; did you mean 'x'?", or "". */
const char *sp_token_hint(const sp_token *t, const char *const *names, int n, char out[SP_HINT]);
sparta_status sp_lex_expected(sp_parser *p, const char *what);
sparta_status sp_lex_need(sp_parser *p, char symbol) SP_MUST;
sparta_status sp_lex_number(sp_parser *p, const char *what, int64_t least, int64_t most,
                            int64_t *out) SP_MUST;
sparta_status sp_lex_decimal(sp_parser *p, const char *what, double *out) SP_MUST; /* 0.25, 1e-3 */

/* ------------------------------------------------------------------ check.c */

/* "format:1:8: message" when the place is known, else "format: message"; E_USAGE. */
sparta_status sp_format_wrong(sparta_ctx *cx, const sp_text_place *at, const char *format, ...)
    SP_PRINTF(3, 4);
static inline bool sp_level_is_blocked(const sp_level *l)
{
    return l->map == SP_MAP_DIV || l->map == SP_MAP_MOD || l->map == SP_MAP_NEST;
}
static inline bool sp_level_is_diagonal(const sp_level *l)
{
    return l->map == SP_MAP_SUB || l->map == SP_MAP_ADD;
}

/* ------------------------------------------------------------------ the rules */

/* A format, up to the first token that does not belong to it. `out` must be all 0. */
sparta_status sp_parse_format(sp_parser *p, sp_format *out) SP_MUST;
sparta_status sp_parse_named(sp_parser *p, sp_format *out) SP_MUST;
sparta_status sp_parse_sum(sp_parser *p, sp_format *out) SP_MUST;
typedef struct sp_width { /* crd[1..2]=u16 */
    bool crd;             /* else pos */
    int from, to;
    sparta_dtype type;
    int bits;
    sp_text_place at; /* of the u16 */
    bool used;        /* out: a level had such an array */
} sp_width;
sparta_status sp_parse_apply_width(sp_parser *p, sp_format *f, sp_width *w) SP_MUST;
sparta_status sp_sum_apply_width(sp_parser *p, sp_format *f, sp_width *w) SP_MUST; /* to all parts */
/* The whole of a text that begins at this place of a file. */
sparta_status sp_format_parse_at(sparta_ctx *cx, const char *text, sp_text_place at, sp_format *out) SP_MUST;

/* ------------------------------------------------------------------ sums */

#define SP_SELECT_TEXT 64
const char *sp_select_show(const sp_select *s, char out[SP_SELECT_TEXT]);
/* May the parts of f->sum stand together? `place` of each selector; NULL: unknown. */
sparta_status sp_sum_structure(sparta_ctx *cx, const sp_format *f, const sp_text_place *place) SP_MUST;
/* The context's copy of an equal sum, as a format; `sum` is freed, or becomes that copy. */
sparta_status sp_sum_intern(sparta_ctx *cx, sp_sum *sum, const sp_text_place *place, sp_format *out) SP_MUST;

/* What users add, in the context's slot; made when first needed. */
typedef struct sp_format_name {
    struct sp_format_name *next;
    sp_format format;
    int line;   /* of its definition; 0: by a call */
    char *file; /* NULL: by a call */
    char name[];
} sp_format_name;

typedef struct sp_format_copy {
    struct sp_format_copy *next;
    uint64_t hash;
    char *text; /* canonical */
    sp_sum *sum;
} sp_format_copy;

typedef struct sp_formats {
    sp_format_name *names; /* the newest first */
    sp_format_copy *sums;
    int n_names;
} sp_formats;
sp_formats *sp_formats_of(sparta_ctx *cx) SP_MUST; /* NULL: out of memory */
/* Give a name that was checked; file NULL: by a call. */
sparta_status sp_format_define_as(sparta_ctx *cx, const char *name, const sp_format *f, const char *file,
                                  int line) SP_MUST;
/* The names of a file with these contents, which are changed on the way. */
sparta_status sp_format_define_text(sparta_ctx *cx, const char *path, char *text) SP_MUST;
/* Forget names until `last` is the newest; NULL: all. */
void sp_formats_forget(sparta_ctx *cx, sp_formats *all, const sp_format_name *last);
bool sp_select_is_word(const char *word); /* rownnz, first, ... */

#endif
