/* BatchNormalization after convolutions: gone into their weights, with the same answer; what is not known, or not one of them, stays. */
#include "compile_small.h"

#define X3    GRAPH "input x: f32[batch,3,4,6]\n"
#define W     "const w: f32[5,3,3,3] @\"weight\"\nconst b: f32[5] @\"bias\"\n"
#define SCALE "const s: f32[5] = [1,0.5,-2,3,0.25]\n"
#define REST                                                                                                 \
    "const h: f32[5] = [0,1,-1,0.5,2]\nconst m: f32[5] = [0.1,0,-0.5,1,0]\n"                                 \
    "const v: f32[5] = [1,0.5,2,0.01,4]\n"
#define NORM NODE("y", "BatchNormalization(c, s, h, m, v) {epsilon=1e-3}") OUT("y")
#define GONE "BatchNormalization=0 Conv=1"
#define LEFT "BatchNormalization=1 Conv=1"

static const small cases[] = {
    {"with a bias", X3 W SCALE REST NODE("c", "Conv(x, w, b) {pads=[1,1,1,1]}") NORM, GONE},
    {"without", X3 W SCALE REST NODE("c", "Conv(x, w) {strides=[2,2]}") NORM, GONE},
    {"of groups",
     GRAPH "input x: f32[batch,5,6]\nconst w: f32[5,1,3] @\"weight\"\n" SCALE REST NODE(
         "c", "Conv(x, w) {group=5}") NORM,
     GONE},
    {"of 1 x 1, which is a product",
     X3 "const w: f32[5,3,1,1] @\"weight\"\n" SCALE REST NODE("c", "Conv(x, w)")
         NODE("n", "BatchNormalization(c, s, h, m, v)") NODE("y", "Relu(n)") OUT("y"),
     "BatchNormalization=0 Conv=0 Linear=1"},
    {"twice",
     X3 W SCALE REST NODE("c0", "Conv(x, w, b)") NODE("c", "BatchNormalization(c0, s, m, h, v)") NORM, GONE},
};

static const small misses[] = {
    {"a gain of 0", X3 W "const s: f32[5] = [1,0,1,1,1]\n" REST NODE("c", "Conv(x, w, b)") NORM, LEFT},
    {"the sums wanted", X3 W SCALE REST NODE("c", "Conv(x, w, b)") NORM OUT("c"), LEFT},
    {"a gain that is given", X3 W "input s: f32[5]\n" REST NODE("c", "Conv(x, w, b)") NORM, LEFT},
    {"a weight that is given", X3 "input w: f32[5,3,3,3]\n" SCALE REST NODE("c", "Conv(x, w)") NORM, LEFT},
    {"of what is no convolution", GRAPH "input c: f32[batch,5,4,6]\n" SCALE REST NORM,
     "BatchNormalization=1 Conv=0"},
};

SMALL_TESTS(normalised_convolutions)
