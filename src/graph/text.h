/* text.h: what the files of the text form share (inside the room): the reader's state and its pieces. */
#ifndef SP_GRAPH_TEXT_H
#define SP_GRAPH_TEXT_H

#include "graph/graph.h"

/* A plain word needs no quotes: letters, digits and _ . / % -, not beginning with a digit or -. `_` alone
 * means "absent". */
bool sp_graph_word_byte(char c, bool first);

typedef struct sp_graph_reader {
    sparta_ctx *cx;
    sp_graph *g;
    sp_arena *scratch; /* of names and lists until the graph has copied them */
    const char *at;    /* in a text that ends with 0 */
    int line;
} sp_graph_reader;

sparta_status sp_graph_bad(sp_graph_reader *r, const char *what) SP_MUST; /* E_FORMAT with the line */
void sp_graph_skip(sp_graph_reader *r);                                   /* blanks, not newlines */
bool sp_graph_eat(sp_graph_reader *r, char c);                            /* after blanks */
sparta_status sp_graph_expect(sp_graph_reader *r, char c) SP_MUST;
sparta_status sp_graph_read_string(sp_graph_reader *r, const char **out) SP_MUST; /* "..." */
sparta_status sp_graph_read_word(sp_graph_reader *r, const char **out) SP_MUST;
sparta_status sp_graph_read_name(sp_graph_reader *r, const char **out) SP_MUST; /* a word or a string */
sparta_status sp_graph_read_dims(sp_graph_reader *r, sp_arena *arena, sp_dims *out) SP_MUST;
/* The elements [..] of a tensor whose dtype, rank and dim are set; data comes from the arena. */
sparta_status sp_graph_read_elements(sp_graph_reader *r, sp_arena *arena, sparta_tensor *t) SP_MUST;
sparta_status sp_graph_read_attrs(sp_graph_reader *r, sp_attrs *out) SP_MUST; /* {..}, in the scratch arena */

#endif
