/* What mutations of models draw from: operators and their attributes, from the tables that the library itself is made of, and numbers and words
 * that break programs. */
#ifndef SP_TESTS_FUZZ_OPERATORS_H
#define SP_TESTS_FUZZ_OPERATORS_H

#include <math.h>
#include <stdint.h>

static const struct {
    const char *domain, *name;
    int least, most; /* inputs; -1: any number */
} operators[] = {
#define SP_OP(id, domain, name, since, least, most, outputs) {domain, name, least, most},
#include "builtin/ops.def"
#undef SP_OP
};

/* Types as AttributeProto numbers them. */
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_TENSOR = 4, TYPE_FLOATS = 6, TYPE_INTS = 7 };
static const struct {
    const char *op, *name;
    int type;
} attributes[] = {
#define SP_ATTRIBUTE(op, name, type) {#op, name, TYPE_##type},
#include "graph/attributes.def"
#undef SP_ATTRIBUTE
};
enum {
    OPERATORS = sizeof operators / sizeof *operators,
    ATTRIBUTES = sizeof attributes / sizeof *attributes
};

/* A number below n; 0 where n is. */
static inline unsigned odd_roll(uint64_t *state, unsigned n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return n ? (unsigned)(*state >> 33) % n : 0;
}

/* Two in three are small. */
static inline int64_t odd_int(uint64_t *state)
{
    static const int64_t odd[] = {
        0,        1,        -1,       2,        3,         4,         5,
        7,        8,        -2,       -3,       16,        33,        64,
        255,      1000,     65536,    1 << 20,  1 << 24,   INT32_MAX, INT32_MIN,
        1L << 31, 1L << 32, 1L << 40, 1L << 62, INT64_MAX, INT64_MIN, INT64_MAX - 1};
    return odd[odd_roll(state, 3) ? odd_roll(state, 12) : odd_roll(state, sizeof odd / sizeof *odd)];
}

static inline float odd_float(uint64_t *state)
{
    static const float odd[] = {0.0f,     -0.0f,    1.0f,      -1.0f,    0.5f,        2.0f,
                                1e-3f,    3.0f,     1e-45f,    1.2e-38f, 1e30f,       3.4e38f,
                                -3.4e38f, INFINITY, -INFINITY, NAN,      16777217.0f, 1e-7f};
    return odd[odd_roll(state, sizeof odd / sizeof *odd)];
}

static inline const char *odd_text(uint64_t *state)
{
    /* clang-format off */
    static const char *const odd[] = {
        "", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "none", "tanh",
        "floor", "ceil", "add", "mul", "max", "min", "DCR", "CRD", "half_pixel", "asymmetric", "align_corners", "round_prefer_floor",
        "tf_crop_and_resize", "pytorch_half_pixel", "->", "ij,jk->ik", "ij->ji", "ii->i", "ij->", "i,i->", "...ij,...jk->...ik", "bij,bjk",
        "ij,ij->ij", "ijk->", "i,j->ij", "iij->j"};
    /* clang-format on */
    return odd[odd_roll(state, sizeof odd / sizeof *odd)];
}

#endif
