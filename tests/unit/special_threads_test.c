/* special: generated kernels on several threads, and runs that end before their time. Apart from the others, because TSan looks at these alone. */
#include "special_bed.h"

/* Threads that would write one element: each has a result of its own, and these are added up in their order, so that numbers that round are the same in
 * every run. */
static void temporaries_of_threads(void **state)
{
    (void)state;
    static const char *const texts[] = {"y(j) = A(i,j)*x(i)", "y(j) += A(i,j)*x(i)",
                                        "y(j) = largest(A(i,j)*x(i))", "s = A(i,j)*x(i)"};
    sp_pool *pool = sp_pool_create(cx, 4);
    assert_non_null(pool);
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_rng r = sp_rng_seed(3);
        sparta_tensor first, second;
        special_case c = {.s = expression(texts[i], (const char *const[]){"A", "csr", NULL})};
        ok(sp_special_size(c.s, "i", 61));
        ok(sp_special_size(c.s, "j", 37));
        ok(sp_special_sized(c.s));
        ok(sp_special_lower(c.s));
        ok(sp_special_schedule(c.s, "threads(i,temporaries)", sp_target_best(SP_DEVICE_CPU)));
        make_operands(&c, &r, 30);
        for (int64_t e = 0; e < 61; e++) ((float *)c.operand[2].data)[e] /= 3;
        ok(sp_special_build(c.s, c.operand, sp_target_best(SP_DEVICE_CPU), &c.kernel));
        ok(sp_special_run(&c.kernel, pool));
        ok(sp_special_result(&c.kernel, 0, &first));
        if (!c.s->statement[0].adds) {
            ok(sp_special_run(&c.kernel, pool));
            ok(sp_special_result(&c.kernel, 0, &second));
            assert_memory_equal(first.data, second.data, (size_t)sparta_tensor_elements(&first) * 4);
            sp_free(cx, second.data);
        }
        by_index(c.s, c.operand, &c.kernel);
        for (int64_t e = 0; e < sparta_tensor_elements(&first); e++) {
            const float got = ((float *)first.data)[e], want = ((float *)c.operand[0].data)[e];
            assert_true(got == want || fabsf(got - want) <= 1e-5f * (1 + fabsf(want)));
        }
        sp_ctx_fail_alloc(cx, 3, false);
        fails(SPARTA_E_MEMORY, sp_special_run(&c.kernel, pool));
        sp_ctx_fail_alloc(cx, 0, false);
        sp_free(cx, first.data);
        end_case(&c);
    }
    sp_pool_free(pool);
}

/* What takes long asks, between parts of it, whether to go on. */
static void long_runs_can_be_cancelled(void **state)
{
    (void)state;
    enum { N = 20000 };
    sparta_tensor got;
    special_case c = {.s = expression("y(i) = a(i)*b(j)", NULL)};
    ok(sp_special_size(c.s, "i", N));
    ok(sp_special_size(c.s, "j", N));
    ok(sp_special_sized(c.s));
    ok(sp_special_lower(c.s));
    ok(sp_special_schedule(c.s, NULL, sp_target_best(SP_DEVICE_CPU)));
    for (int i = 0; i < 3; i++)
        must(sp_tensor_alloc(cx, SPARTA_F32, 1, c.s->operand[i].dim, &c.operand[i]), "operand");
    for (int i = 0; i < N; i++)
        ((float *)c.operand[1].data)[i] = 1, ((float *)c.operand[2].data)[i] = i < 1000;
    ok(sp_special_build(c.s, c.operand, sp_target_best(SP_DEVICE_CPU), &c.kernel));
    ok(sp_special_run(&c.kernel, NULL));
    ok(sp_special_result(&c.kernel, 0, &got));
    for (int i = 0; i < N; i++) assert_true(((float *)got.data)[i] == 1000);
    sp_free(cx, got.data);
    sparta_ctx_cancel(cx);
    fails(SPARTA_E_CANCELLED, sp_special_run(&c.kernel, NULL));
    end_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(temporaries_of_threads, enter, leave),
        cmocka_unit_test_setup_teardown(long_runs_can_be_cancelled, enter, leave)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
