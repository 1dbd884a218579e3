/* What vision transformers write. Convolutions whose windows do not overlap become products; packed projections are split. Convolutions that
 * only look like it (padding, dilation, groups, other strides, a rest) stay. Both ways the answer is compared. */
#include "compile_small.h"

#define IMAGE(sizes)     GRAPH "input x: f32[" sizes "]\n"
#define WEIGHT(w)        "const w: f32[" w "] @\"weight\"\nconst b: f32[5] @\"bias\"\n"
#define CONV(attributes) NODE("y", "Conv(x, w, b) {" attributes "}") OUT("y")
#define STAYS            "Conv=1 Linear=0"
#define GOES             "Conv=0 Linear=1"

static const small convolutions[] = {
    {"patches", IMAGE("batch,3,4,6") WEIGHT("5,3,2,3") CONV("strides=[2,3]"), GOES " Reshape=3 Transpose=2"},
    {"all written out",
     IMAGE("batch,3,4,6") WEIGHT("5,3,2,3") CONV(
         "strides=[2,3], kernel_shape=[2,3], pads=[0,0,0,0], dilations=[1,1], group=1, auto_pad=\"NOTSET\""),
     GOES},
    {"valid", IMAGE("batch,3,4,6") WEIGHT("5,3,2,3") CONV("strides=[2,3], auto_pad=\"VALID\""), GOES},
    {"no bias", IMAGE("batch,3,4,6") WEIGHT("5,3,2,2") NODE("y", "Conv(x, w) {strides=[2,2]}") OUT("y"),
     GOES},
    {"one image, sizes known", IMAGE("1,3,4,4") WEIGHT("5,3,2,2") CONV("strides=[2,2]"), GOES},
    {"one patch", IMAGE("batch,3,4,4") WEIGHT("5,3,4,4") CONV("strides=[4,4]"), GOES},
    {"tokens: flatten, transpose",
     IMAGE("batch,3,4,6")
         WEIGHT("5,3,2,2") "const flat: i64[3] = [0,5,-1]\n" NODE("c", "Conv(x, w, b) {strides=[2,2]}")
             NODE("f", "Reshape(c, flat)") NODE("y", "Transpose(f) {perm=[0,2,1]}") OUT("y"),
     GOES " Transpose=1 Reshape=2"},
    {"1 x 1, sizes not known", IMAGE("batch,3,sequence,sequence") WEIGHT("5,3,1,1") CONV("strides=[1,1]"),
     GOES},
    {"1 x 1, dilated: nothing lies between",
     IMAGE("batch,3,sequence,4") WEIGHT("5,3,1,1") CONV("dilations=[2,2]"), GOES},
    {"1 x 1, gaps", IMAGE("batch,3,4,6") WEIGHT("5,3,1,1") CONV("strides=[2,2]"), GOES " Slice=1"},
    {"1 x 1, gaps and a rest", IMAGE("batch,3,5,7") WEIGHT("5,3,1,1") CONV("strides=[2,3]"), GOES " Slice=1"},
    {"a line", IMAGE("batch,3,6") WEIGHT("5,3,2") CONV("strides=[2]"), GOES},
    {"a volume", IMAGE("batch,2,4,2,6") WEIGHT("5,2,2,2,3") CONV("strides=[2,2,3]"), GOES},
    {"columns only", IMAGE("batch,3,4,6") WEIGHT("5,3,1,3") CONV("strides=[1,3]"), GOES},

    {"overlap", IMAGE("batch,3,4,6") WEIGHT("5,3,2,2") CONV("strides=[1,1]"), STAYS},
    {"gaps of unknown sizes", IMAGE("batch,3,sequence,6") WEIGHT("5,3,1,1") CONV("strides=[2,2]"), STAYS},
    {"gaps one way, windows the other", IMAGE("batch,3,5,6") WEIGHT("5,3,1,3") CONV("strides=[4,3]"), STAYS},
    {"gaps, padded", IMAGE("batch,3,4,6") WEIGHT("5,3,1,1") CONV("strides=[2,2], pads=[1,1,1,1]"), STAYS},
    {"padded", IMAGE("batch,3,4,6") WEIGHT("5,3,2,2") CONV("strides=[2,2], pads=[1,1,1,1]"), STAYS},
    {"padded behind", IMAGE("batch,3,3,6") WEIGHT("5,3,2,2") CONV("strides=[2,2], pads=[0,0,1,0]"), STAYS},
    {"padded to the same",
     IMAGE("batch,3,3,5") WEIGHT("5,3,2,2") CONV("strides=[2,2], auto_pad=\"SAME_UPPER\""), STAYS},
    {"dilated", IMAGE("batch,3,6,6") WEIGHT("5,3,2,2") CONV("strides=[2,2], dilations=[2,2]"), STAYS},
    {"groups", IMAGE("batch,10,4,6") WEIGHT("5,2,2,2") CONV("strides=[2,2], group=5"), STAYS},
    {"a rest", IMAGE("batch,3,5,6") WEIGHT("5,3,2,2") CONV("strides=[2,2]"), STAYS},
    {"height not known", IMAGE("batch,3,sequence,4") WEIGHT("5,3,1,2") CONV("strides=[1,2]"), GOES},
    {"weight given",
     GRAPH "input x: f32[batch,3,4,6]\ninput w: f32[5,3,2,2]\n" NODE("y", "Conv(x, w) {strides=[2,2]}")
         OUT("y"),
     STAYS},
};

static const small pads[] = {
    {"by nothing",
     GRAPH X "const p: i64[6] = [0,0,0,0,0,0]\n" NODE("q", "Pad(x, p)") NODE("y", "Relu(q)") OUT("y"),
     "Pad=0"},
    {"by nothing, of five dims",
     IMAGE("batch,1,2,3,4") "const p: i64[10] = [0,0,0,0,0,0,0,0,0,0]\n" NODE("q", "Pad(x, p)")
         NODE("y", "Relu(q)") OUT("y"),
     "Pad=0"},
    {"moved by one",
     GRAPH X "const p: i64[6] = [0,0,1,0,0,-1]\n" NODE("q", "Pad(x, p)") NODE("y", "Relu(q)") OUT("y"),
     "Pad=1"},
    {"by one",
     GRAPH X "const p: i64[6] = [0,0,0,0,0,1]\n" NODE("q", "Pad(x, p)") NODE("y", "Relu(q)") OUT("y"),
     "Pad=1"},
};

/* x (batch, 4, 24) as (3, batch, 2 heads, 4, 4): query, key and value as timm writes them, unbound by either exporter */
#define PACKED                                                                                               \
    GRAPH                                                                                                    \
    "input x: f32[batch,4,24]\nconst s: i64[5] = [0,0,3,2,4]\nconst zero: i64[1] = [0]\nconst one: "         \
    "i64[1] = [1]\n"                                                                                         \
    "const two: i64[1] = [2]\nconst three: i64[1] = [3]\nconst ones: i64[3] = [1,1,1]\nconst uneven: "       \
    "i64[2] = [2,1]\n"                                                                                       \
    "const back: i64[1] = [-1]\nconst far: i64[1] = [9223372036854775807]\n" NODE("r", "Reshape(x, s)")      \
        NODE("t", "Transpose(r) {perm=[2,0,3,1,4]}")
#define SQUEEZED NODE("p", "Squeeze(p1, zero)") NODE("q", "Squeeze(q1, zero)") NODE("w", "Squeeze(r1, zero)")
#define SUM      NODE("pq", "Sub(p, q)") NODE("y", "Mul(pq, w)") OUT("y")

static const small unbound[] = {
    {"split", PACKED "node p1: ?, q1: ?, r1: ? = Split(t, ones) {axis=0}\n" SQUEEZED SUM,
     "Gather=0 Split=1 Slice=0 Squeeze=0"},
    {"slices",
     PACKED NODE("p1", "Slice(t, zero, one, zero)") NODE("q1", "Slice(t, one, two, zero, one)")
         NODE("r1", "Slice(t, two, far, zero)") SQUEEZED SUM,
     "Gather=0 Split=1 Slice=0 Squeeze=0"},
    {"counted from the end",
     PACKED NODE("p1", "Slice(t, zero, one, zero)") NODE("q1", "Slice(t, one, two, zero)")
         NODE("r1", "Slice(t, back, far, zero)") SQUEEZED SUM,
     "Gather=0 Split=1 Slice=0 Squeeze=0"},
    {"one is not taken",
     PACKED NODE("p1", "Slice(t, zero, one, zero)") NODE("q1", "Slice(t, two, three, zero)")
         NODE("p", "Squeeze(p1, zero)") NODE("q", "Squeeze(q1, zero)") NODE("y", "Sub(p, q)") OUT("y"),
     "Split=0 Gather=2"},
    {"a part of two",
     PACKED "node p1: ?, q1: ? = Split(t, uneven) {axis=0}\n" NODE("q", "Squeeze(q1, zero)")
         NODE("y", "Sub(p1, q)") OUT("y"),
     "Gather=1 Split=1"},
    {"another axis is squeezed",
     GRAPH "input x: f32[2,1,batch]\nconst zero: i64[1] = [0]\nconst one: i64[1] = [1]\n" NODE(
         "p", "Slice(x, zero, one, zero)") NODE("q", "Squeeze(p, one)") NODE("y", "Relu(q)") OUT("y"),
     "Gather=0 Slice=1"},
};

static void unbind(void **state)
{
    (void)state;
    run_table(unbound, SP_COUNT(unbound));
}

static void convolution(void **state)
{
    (void)state;
    run_table(convolutions, SP_COUNT(convolutions));
}

static void padding(void **state)
{
    (void)state;
    run_table(pads, SP_COUNT(pads));
}

/* The weight is the same memory, keeps its name, and the layer its own. */
static void names(void **state)
{
    (void)state;
    sp_graph *g = NULL;
    ok(sp_graph_parse(cx, convolutions[0].text, fetch, NULL, &g));
    ok(sp_compile_passes(g));
    const sp_value *w = NULL;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i]->op == SP_OP_Linear) w = g->node[i]->in[1];
    assert_non_null(w);
    assert_string_equal(w->origin, "weight");
    assert_int_equal(w->constant->rank, 2);
    assert_ptr_equal(w->constant->data, pool + strlen("weight"));
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(convolution), TEST(padding), TEST(names), TEST(unbind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
