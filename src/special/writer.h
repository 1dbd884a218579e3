/* The state of a text while it is written, and what the files that write it do for each other: text.c functions, loops.c and positions.c their loops,
 * sums.c what these sum, write.c indices, positions and elements. Inside of room special. */
#ifndef SP_SPECIAL_WRITER_H
#define SP_SPECIAL_WRITER_H

#include "emit/emit.h"
#include "special/inside.h"
#include "special/known.h"

/* Room for pieces of text: every part of an index that has one in each loop, with a name, a factor and a plus; a choice between two such; a
 * thread's share of that. */
enum {
    SP_WRITE_PARTS = SP_SPECIAL_LOOPS * 48,
    SP_WRITE_EXTENT = 2 * SP_WRITE_PARTS + 128,
    SP_WRITE_SHARE = SP_WRITE_EXTENT + 128
};

typedef struct writer {
    const sp_special *s;
    const sp_special_nest *n;
    sp_text *out;
    int number; /* of the nest */
    bool
        parts; /* what it reads of sums of formats is given to the function: those of other parts have the same text */
    int indent, opened;
    bool bound[SP_SPECIAL_LOOPS];
    char value[SP_SPECIAL_LOOPS][32];   /* what the loop is called here, or the value of an unrolled one */
    char index[SP_SPECIAL_INDICES][32]; /* ""; its name once it is known */
    int64_t inside[SP_SPECIAL_INDICES]; /* blocks of so many of its values were seen to be inside; 0: none */
    bool complete[SP_SPECIAL_INDICES];  /* all its parts are bound and it was seen to that it is inside */
    int levels[SP_SPECIAL_ACCESSES];
    char at[SP_SPECIAL_ACCESSES][64]; /* the position in the last of these levels */
    bool loaded[SP_SPECIAL_ACCESSES];
    bool cursor
        [SP_SPECIAL_LOOPS]; /* this search goes on from where it was: the coordinates it is asked for ascend */
    int last;               /* the loop that was opened last */
    int vectors;            /* of the vector loop that is open */
    bool masked;            /* and it has `lanes` lanes */
    bool summing;
    int apart;     /* the loop whose sum is computed by itself, once it is reached; -1 */
    int copy;      /* which sum the unrolled loops are at */
    int turn;      /* and which of several positions */
    bool gathered; /* positions are lanes */
    const sp_special_nest *
        scheduled; /* the nest, where n has two of its loops the other way round for several positions together; else NULL */
} writer;

void sp_write_line(writer *w, const char *format, ...) SP_PRINTF(2, 3);
void sp_write_open(writer *w, const char *format, ...) SP_PRINTF(2, 3); /* ... {; closed by sp_write_close */
void sp_write_block(writer *w);                                         /* { alone */
void sp_write_close(writer *w);
#define LINE sp_write_line
#define OPEN sp_write_open

/* ------------------------------------------------------------------ loops.c */
/* Loop `at` and all that is inside of it. */
void sp_write_walk(const writer *from, int at);
/* What is inside of loop `at`, which was opened. */
void sp_write_inside(writer *in, int at);
/* Where a loop runs from and to: the share of a thread; what the pieces around it give it. */
void sp_write_bounds(const writer *w, int at, const char *from, const char *to, const char *unit,
                     char first[SP_WRITE_SHARE], char end[SP_WRITE_SHARE]);
void sp_write_cut(const writer *w, int at, char from[SP_WRITE_SHARE], char to[SP_WRITE_SHARE]);

/* ------------------------------------------------------------------ positions.c */
/* A loop over the positions of a level; over ranges of coordinates that such a loop inside of it goes over. */
void sp_write_positions(const writer *from, int at);
void sp_write_ranges(const writer *from, int at);

/* ------------------------------------------------------------------ sums.c */
/* The sums of all loops from `at` on, from their start to where they are stored; those of loop `at` by themselves, then the factors that are known already. */
void sp_write_summing(const writer *from, int at);
void sp_write_summing_apart(const writer *from, int at);
/* One more comes to the sums. */
void sp_write_body(writer *w);
void sp_write_begin_sums(const writer *w, const char *name, bool numbers);
/* The sum of position t across lanes, as a text; four of them at once where they are. */
enum { SP_WRITE_SUM = 16 + 16 * SP_SPECIAL_VECTORS };
void sp_write_sum_across(const writer *w, const char *name, int t, bool fours, char out[SP_WRITE_SUM]);
void sp_write_sum_fours(writer *w, const char *name, int n);

/* ------------------------------------------------------------------ write.c */
void sp_write_declare(writer *w);
/* What follows from the loops that are open: indices, positions, elements. use -1: all but the result; else this one alone. */
void sp_write_settle(writer *w, int use);
void sp_write_name(const writer *w, int use, char out[48]);
/* The elements at LANES positions from `place` on, whose coordinates are c: those of operand `lead`, and of all others at these. */
void sp_write_gather(writer *w, int lead, const char *c, const char *place);
/* The same where a bit says for each of LANES coordinates from c on whether there is an element. */
void sp_write_expand(writer *w, int lead, const char *c);
void sp_write_expression(const writer *w, int node, int t, sp_text *out);
/* The factors that are known outside of a loop, or those that are not, as a product. */
void sp_write_product(const writer *w, int loop, bool outside, int t, sp_text *out);
/* The type of an operand's values where they lie: get_, put_ and one_ of it are words. */
const char *sp_write_type(const writer *w, int use);
/* An element of an array of the operand, as f32. */
void sp_write_element(const writer *w, int use, const char *array, const char *at, char out[160]);
/* What the element of a use is called, in vector t. */
void sp_write_value(const writer *w, int use, int t, char out[64]);
/* The use whose positions are those of the result: itself, or the operand whose pattern it has. */
int sp_write_result_use(const writer *w);
/* Where in the values the element of the result lies. */
void sp_write_result_place(const writer *w, char out[64]);
/* An element that a last block has too much is not stored. */
void sp_write_guard_result(writer *w);
void sp_write_extent(const writer *w, sp_special_digit d, char out[SP_WRITE_EXTENT]);
void sp_write_vector_extent(const writer *w, sp_special_digit d, char out[SP_WRITE_EXTENT]);
/* Positions of a level below one of its parent's; the coordinate at one; the coordinate that is asked for. */
void sp_write_segment(const char *name, const sp_format *f, int level, const char *parent, char begin[128],
                      char end[128]);
void sp_write_coordinate(const writer *w, int use, int level, const char *parent, const char *q,
                         char out[160]);
/* Part of an index, as the loops that are open make it up. */
void sp_write_digit(const writer *w, sp_special_digit d, char out[SP_WRITE_PARTS]);
void sp_write_level_text(const writer *w, int use, int level, char out[SP_WRITE_PARTS]);
/* Opens what runs for the positions whose coordinate is c; their name in q. */
void sp_write_match(writer *w, const char *name, int use, const sp_format *f, int level, const char *parent,
                    const char *c, char q[64]);

#endif
