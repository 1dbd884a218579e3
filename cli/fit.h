/* How a table for people fits the width of the terminal. Nothing is lost but what the remark below the table names:
 *
 *   names       what many names have in common goes first ("/encoder/layer.0/attention/self/query/MatMul" is "..0/attention/self/query..");
 *               numbers stay, and names that differ go on to differ
 *   columns     then those that matter least are left out (gives_way in fit.c), and a remark names them
 *   last text   the last column, when it is text, is wrapped in its column, or folded under its row when there is no room beside it
 *
 * In a file or a pipe there is no width and everything is printed. */
#ifndef SP_CLI_FIT_H
#define SP_CLI_FIT_H

#include "cli.h"

typedef struct cli_layout {
    int n;            /* columns that are shown, left to right */
    int *column;      /* which */
    int *width;       /* of each of the table's columns */
    int room;         /* of the last one, when it is text; 0: no limit */
    bool folded;      /* it stands under its row, as wide as the terminal, and is not counted in n */
    int limit;        /* the terminal's width; 0: none */
    const char *gone; /* names of the columns that are left out, "" when none */
} cli_layout;

int cli_columns(void); /* of the terminal; 0: no limit */
sparta_status cli_fit(cli_table *t, int rows, cli_layout *out) SP_MUST;
int cli_width(const char *s); /* of a text, in characters */
/* The first line of s when it is wrapped at `room` characters: its bytes; *next begins the rest. */
size_t cli_wrap(const char *s, int room, const char **next);
/* A text over several lines, each but the first after `indent` spaces; the last line stays open. */
void cli_wrapped(sp_text *out, const char *s, int room, int indent);
void cli_pad(sp_text *out, int n); /* n spaces */
void cli_end_line(sp_text *out);   /* without spaces before its end */

#endif
