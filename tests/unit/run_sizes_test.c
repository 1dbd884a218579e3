/* Sizes that nobody gave: the smallest at which every dim of a graph has an element, and which symbols are sides of an image. */
#include "ops_bed.h"
#include "run/run.h"

static const char *const NAMES[] = {"h", "w"};

static sp_graph *inferred(const char *text)
{
    sp_graph *g = parse(text);
    if (sp_ops_infer(g) != SPARTA_OK) fail_msg("%s", sparta_message(cx));
    return g;
}

static void from(sp_graph *g, const bool *fixed, const int64_t *wished, const int64_t *expected)
{
    int64_t value[] = {wished[0], wished[1]};
    assert_int_equal(sp_sizes_that_run(cx, g, 2, NAMES, fixed, value), SPARTA_OK);
    assert_int_equal(value[0], expected[0]);
    assert_int_equal(value[1], expected[1]);
    sp_graph_free(g);
}

static void raised(const char *text, const bool *fixed, int64_t h, int64_t w)
{
    from(inferred(text), fixed, (int64_t[]){1, 1}, (int64_t[]){h, w});
}

/* A kernel of 5x3, then a pool of 2x2: 6 by 4 is the least that leaves an element. */
static void a_kernel_reaches(void **state)
{
    (void)state;
    static const bool none[2] = {false}, first[2] = {true, false};
    static const char text[] = "graph \"pools\"\n"
                               "input x: f32[1,3,h,w]\n"
                               "node  y: ? = MaxPool(x) {kernel_shape=[5,3]}\n"
                               "node  z: ? = MaxPool(y) {kernel_shape=[2,2]}\n"
                               "output z\n";
    raised(text, none, 6, 4);
    raised(text, first, 1, 1); /* h is 1 because somebody says so: nothing helps, and nothing is changed */
}

/* A model's own table bounds what may be tried. */
static void bounds_stay(void **state)
{
    (void)state;
    static const bool none[2] = {false};
    static const char text[] = "graph \"bounded\"\n"
                               "input x: f32[1,3,h,w]\n"
                               "bound h[4]\n"
                               "node  y: ? = MaxPool(x) {kernel_shape=[5,1]}\n"
                               "output y\n";
    raised(text, none, 1, 1);
}

/* Some equalities only smaller sizes meet: of these the largest, beside a size that has to be raised, and none that is fixed. */
static void small_enough(void **state)
{
    (void)state;
    static const bool none[2] = {false}, first[2] = {true, false};
    static const char text[] = "graph \"strip\"\n"
                               "input x: f32[1,3,h,w]\n"
                               "must   [(h-1)/48+1,1] \"squeeze\"\n"
                               "must   [w/300,1] \"long\"\n"
                               "output x\n";
    from(parse(text), none, (int64_t[]){224, 224}, (int64_t[]){48, 300});
    from(parse(text), none, (int64_t[]){224, 1000}, (int64_t[]){48, 599});
    from(parse(text), none, (int64_t[]){40, 300}, (int64_t[]){40, 300});
    from(parse(text), first, (int64_t[]){224, 224}, (int64_t[]){224, 224});
    static const char bounded[] = "graph \"strip\"\n"
                                  "input x: f32[1,3,h,w]\n"
                                  "bound  h[49,500]\n"
                                  "must   [(h-1)/48+1,1] \"squeeze\"\n"
                                  "output x\n";
    from(parse(bounded), none, (int64_t[]){224, 1}, (int64_t[]){224, 1});
}

static void sides_of_an_image(void **state)
{
    (void)state;
    sp_graph *g = inferred("graph \"image\"\n"
                           "input x: f32[n,3,h,w]\n"
                           "input t: f32[1,3,a,b]\n"
                           "const k: f32[1,3,1,1] = [1, 1, 1]\n"
                           "node  y: ? = Relu(x)\n"
                           "node  z: ? = Conv(y, k)\n"
                           "node  u: ? = Relu(t)\n"
                           "output z\noutput u\n");
    assert_true(sp_symbol_is_image_side(g, "h"));
    assert_true(sp_symbol_is_image_side(g, "w"));
    assert_false(sp_symbol_is_image_side(g, "n"));
    assert_false(sp_symbol_is_image_side(g, "a")); /* nothing convolves it */
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_reaches),
        cmocka_unit_test(bounds_stay),
        cmocka_unit_test(small_enough),
        cmocka_unit_test(sides_of_an_image),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
