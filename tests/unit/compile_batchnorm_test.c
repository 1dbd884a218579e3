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
    {"a weight of two convolutions, which would be two weights",
     X3 W SCALE REST "const t: f32[5] = [2,1,1,1,1]\n" NODE("x1", "Neg(x)") NODE("c", "Conv(x, w, b)")
         NODE("d", "Conv(x1, w, b)") NODE("z", "BatchNormalization(d, t, h, m, v)") NORM OUT("z"),
     "BatchNormalization=2 Conv=2"},
    {"a gain that is NaN", X3 W "const s: f32[5] = [1,nan,1,1,1]\n" REST NODE("c", "Conv(x, w, b)") NORM,
     LEFT},
    {"a gain that is infinite", X3 W "const s: f32[5] = [1,1,inf,1,1]\n" REST NODE("c", "Conv(x, w, b)") NORM,
     LEFT},
    {"a variance below 0",
     X3 W SCALE "const h: f32[5] = [0,1,-1,0.5,2]\nconst m: f32[5] = [0.1,0,-0.5,1,0]\nconst v: f32[5] = "
                "[1,0.5,-2,0.01,4]\n" NODE("c", "Conv(x, w, b)") NORM,
     LEFT},
    {"of what is no convolution", GRAPH "input c: f32[batch,5,4,6]\n" SCALE REST NORM,
     "BatchNormalization=1 Conv=0"},
};

static void normalised_convolutions(void **state)
{
    (void)state;
    run_table(cases, SP_COUNT(cases));
}

static void look_alikes(void **state)
{
    (void)state;
    run_table(misses, SP_COUNT(misses));
}

/* Sums would be rounded otherwise. */
static void strict_ones(void **state)
{
    (void)state;
    check_small(&(small){"strict", X3 W SCALE REST NODE("c", "Conv(x, w, b)") NORM, LEFT});
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(normalised_convolutions), TEST(look_alikes),
                                       TEST_STRICT(strict_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
