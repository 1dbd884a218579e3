/* text.h: what the files of the text form share (inside the room): the reader's state and its pieces. */
#ifndef SPARTA_GRAPH_TEXT_H
#define SPARTA_GRAPH_TEXT_H

#include "graph/graph.h"

/* A plain word needs no quotes: letters, digits and _ . / % -, not beginning with a digit or -. `_` alone
 * means "absent". */
bool sparta_graph_word_byte(char c, bool first);

typedef struct sparta_graph_reader {
    sparta_ctx *cx;
    sparta_graph *g;
    sparta_arena *scratch; /* of names and lists until the graph has copied them */
    const char *at;        /* in a text that ends with 0 */
    int line;
} sparta_graph_reader;

sparta_status sparta_graph_bad(sparta_graph_reader *r,
                               const char *what) SPARTA_MUST; /* E_FORMAT with the line */
void sparta_graph_skip(sparta_graph_reader *r);               /* blanks, not newlines */
bool sparta_graph_eat(sparta_graph_reader *r, char c);        /* after blanks */
sparta_status sparta_graph_expect(sparta_graph_reader *r, char c) SPARTA_MUST;
sparta_status sparta_graph_read_string(sparta_graph_reader *r, const char **out) SPARTA_MUST; /* "..." */
sparta_status sparta_graph_read_word(sparta_graph_reader *r, const char **out) SPARTA_MUST;
sparta_status sparta_graph_read_name(sparta_graph_reader *r,
                                     const char **out) SPARTA_MUST; /* a word or a string */
sparta_status sparta_graph_read_dims(sparta_graph_reader *r, sparta_arena *arena,
                                     sparta_dims *out) SPARTA_MUST;
/* The elements [..] of a tensor whose dtype, rank and dim are set; data comes from the arena. */
sparta_status sparta_graph_read_elements(sparta_graph_reader *r, sparta_arena *arena,
                                         sparta_tensor *t) SPARTA_MUST;
sparta_status sparta_graph_read_attrs(sparta_graph_reader *r,
                                      sparta_attrs *out) SPARTA_MUST; /* {..}, in the scratch arena */

#endif
