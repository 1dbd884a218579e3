/* Building a nest for a node: loops over the axes of one value, accesses of the others by broadcasting, statements. Inside of room emit. */
#ifndef SP_EMIT_BUILD_H
#define SP_EMIT_BUILD_H

#include "emit/emit.h"

typedef struct sp_build {
    const sp_node *node;
    bool lanes;
    sp_nest *out;
    int *slot; /* of each operand: which input, and then output, of the node */
    const sp_dims *space;
    int loop[SPARTA_RANK]; /* of each axis of the space; -1: it has size 1. In lanes: the last axis' alone */
    int token;             /* lanes: the loop over tokens */
    bool can;              /* all that was asked for could be said */
} sp_build;

/* Loops over the axes of `space`; those that are reduced stand right of a bar. */
void sp_build_loops(sp_build *b, const sp_dims *space, const bool *reduced);
/* Input i of the node, which broadcasts to the space; a constant of one element is its number. */
sp_nest_arg sp_build_input(sp_build *b, int i);
/* The same with its axis k being axis[k] of the space (-1: index 0). */
sp_nest_arg sp_build_input_at(sp_build *b, int i, const int *axis);
/* Input i, of one element: an operand though it is a constant, but for 0. Kernels are told apart by their texts, and every quantiser has another scale. */
sp_nest_arg sp_build_parameter(sp_build *b, int i);
sp_nest_arg sp_build_number(double v);
/* A word of as many arguments as it takes. */
sp_nest_arg sp_build_of(sp_build *b, int word, sparta_dtype dtype, const sp_nest_arg *arg);
#define SP_NONE ((sp_nest_arg){SP_ARG_NUMBER, 0, 0})
/* One of three at most. */
static inline sp_nest_arg sp_build_statement(sp_build *b, int word, sparta_dtype dtype, sp_nest_arg x,
                                             sp_nest_arg y, sp_nest_arg z)
{
    return sp_build_of(b, word, dtype, (const sp_nest_arg[]){x, y, z});
}
/* f32 */
static inline sp_nest_arg sp_build_1(sp_build *b, int word, sp_nest_arg x)
{
    return sp_build_statement(b, word, SPARTA_F32, x, SP_NONE, SP_NONE);
}
static inline sp_nest_arg sp_build_2(sp_build *b, int word, sp_nest_arg x, sp_nest_arg y)
{
    return sp_build_statement(b, word, SPARTA_F32, x, y, SP_NONE);
}
/* Output i of the node is `v`; its axis k is axis[k] of the space (-1: of size 1), NULL: the same axes. Inputs come before. */
void sp_build_output(sp_build *b, int i, const int *axis, sp_nest_arg v);
/* What values of this type are computed in. */
sparta_dtype sp_build_dtype(sparta_dtype dtype);

#endif
