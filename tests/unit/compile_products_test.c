/* Products of constants that a pass makes constants, and the limits that it stops at. */
#include "compile_graphs.h"

static float zeros[1024 * 8193];

static sparta_status fetch_zeros(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg, (void)name;
    out->data = zeros;
    return SPARTA_OK;
}

/* Products that are left after the pass. */
static int left(const char *text)
{
    sp_graph *g = NULL;
    ok(sp_graph_parse(cx, text, fetch_zeros, NULL, &g));
    ok(sp_ops_infer(g));
    ok(sp_pass_products(g));
    const int n = count(g, "MatMul");
    sp_graph_free(g);
    return n;
}

#define PRODUCT(m, k, n)                                                                                     \
    "graph \"t\"\nconst a: f32[" m "," k "] @\"zeros\"\nconst b: f32[" k "," n                               \
    "] @\"zeros\"\nnode y: ? = MatMul(a, b)\noutput y\n"
#define LARGE PRODUCT("528", "512", "512") /* for the reference: infer leaves it */

static void within_limits(void **state)
{
    (void)state;
    assert_int_equal(left(LARGE), 0);
}

static void one_that_takes_too_long(void **state)
{
    (void)state;
    assert_int_equal(left(PRODUCT("1024", "8193", "1024")), 1);
}

/* A result takes at most an eighth of the memory: it is 1.03 MiB. */
static void little_memory(void **state)
{
    (void)state;
    static const struct {
        uint64_t memory;
        int left;
    } cases[] = {{(uint64_t)8 << 20, 1}, {(uint64_t)9 << 20, 0}};
    sparta_ctx *usual = cx;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        cx = sparta_ctx_create(
            &(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .max_memory = cases[i].memory});
        assert_non_null(cx);
        assert_int_equal(left(LARGE), cases[i].left);
        sparta_ctx_free(cx);
    }
    cx = usual;
}

static void strict_ones(void **state)
{
    (void)state;
    assert_int_equal(left(LARGE), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(within_limits), TEST(one_that_takes_too_long),
                                       TEST(little_memory), TEST_STRICT(strict_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
