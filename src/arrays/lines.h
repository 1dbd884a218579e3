/* Numbers in text, with the line they stand in: what the readers of .mtx and .smtx share. The text is not terminated
 * and not ours; tokens are what stands between blanks. Parsing does not depend on the locale. */
#ifndef SP_ARRAYS_LINES_H
#define SP_ARRAYS_LINES_H

#include "base/base.h"

typedef struct line_reader {
    sparta_ctx *cx;
    const char *at, *end;   /* what is left of the text */
    const char *next, *eol; /* what is left of the present line */
    bool commas;            /* are blanks too */
    int64_t line;           /* its number, from 1; 0 before the first */
    char quoted[32];        /* for messages */
} line_reader;

typedef struct line_token {
    const char *p;
    size_t n; /* 0: the line has no more */
} line_token;

bool sp_line_next(line_reader *r); /* the next line, whatever it holds; false at the end */
line_token sp_line_token(line_reader *r);
bool sp_line_is(line_token t, const char *word); /* in any case */
/* "line 4: <what>". */
sparta_status sp_line_fail(const line_reader *r, sparta_status status, const char *format, ...)
    SP_PRINTF(3, 4);
const char *sp_line_quote(line_reader *r, line_token t); /* printable, cut short; valid until the next call */
/* The next token as a number; `what` names it in messages. */
sparta_status sp_line_int(line_reader *r, const char *what, int64_t *out) SP_MUST;
/* A sign and 64 bits, for types whose range is not that of int64_t; 0 has no sign. */
sparta_status sp_line_whole(line_reader *r, const char *what, bool *minus, uint64_t *size) SP_MUST;
sparta_status sp_line_natural(line_reader *r, const char *what, int64_t *out) SP_MUST; /* not negative */
sparta_status sp_line_real(line_reader *r, const char *what, double *out) SP_MUST;     /* inf and nan too */
sparta_status sp_line_end(line_reader *r) SP_MUST;                                     /* nothing follows */

#endif
