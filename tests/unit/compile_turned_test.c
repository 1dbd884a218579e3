/* pass turned: Einsum in place of MatMul with an activation that was turned for it. */
#include "compile_small.h"

#define TWO  GRAPH "input a: f32[batch,2,sequence,8]\ninput b: f32[batch,2,5,8]\n"
#define TURN NODE("t", "Transpose(b) {perm=[0,1,3,2]}")

static const small cases[] = {
    {"the second one is turned", TWO TURN NODE("y", "MatMul(a, t)") OUT("y"),
     "Einsum=1 MatMul=0 Transpose=0"},
    {"the first one is turned",
     GRAPH "input a: f32[batch,8,sequence]\ninput b: f32[batch,8,5]\n" NODE(
         "t", "Transpose(a) {perm=[0,2,1]}") NODE("y", "MatMul(t, b)") OUT("y"),
     "Einsum=1 MatMul=0 Transpose=0"},
    {"both are, matrices",
     GRAPH "input a: f32[8,sequence]\ninput b: f32[5,8]\n" NODE("s", "Transpose(a) {perm=[1,0]}")
         NODE("t", "Transpose(b) {perm=[1,0]}") NODE("y", "MatMul(s, t)") OUT("y"),
     "Einsum=1 MatMul=0 Transpose=0"},
};

static const small misses[] = {
    {"a batch that is repeated",
     GRAPH "input a: f32[batch,2,sequence,8]\ninput b: f32[1,2,5,8]\n" TURN NODE("y", "MatMul(a, t)")
         OUT("y"),
     "Einsum=0 MatMul=1"},
    {"another order of axes",
     GRAPH "input a: f32[batch,2,sequence,8]\ninput b: f32[batch,5,2,8]\n" NODE(
         "t", "Transpose(b) {perm=[0,2,3,1]}") NODE("y", "MatMul(a, t)") OUT("y"),
     "Einsum=0 MatMul=1 Transpose=1"},
    {"somebody else reads it turned",
     TWO TURN NODE("y", "MatMul(a, t)") NODE("z", "Tanh(t)") OUT("y") OUT("z"), "Einsum=0 MatMul=1"},
};

SMALL_TESTS(turned)
