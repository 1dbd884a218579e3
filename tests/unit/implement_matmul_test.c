/* matmul_skip on every target that fits, against the reference: matrices by themselves, many of them, one on the right for all; sizes that nothing divides; rows with
 * nothing, something and everything in them; threads; no numbers. Operands end where a page begins that nobody may touch. (Slow: make test only.) */
#include "implement_bed.h"

typedef struct product {
    int rank;     /* of x: 2 to 4 */
    int64_t lead; /* matrices along each axis in front */
    int shared;   /* 0: w has the same axes; 1: it has none; 2: they are 1 */
    int64_t m, k, n;
    int absent; /* of 1000 elements of x, so many are 0 */
} product;

static int ran[SP_CPU_TARGETS];

static bed *product_bed(const product *p)
{
    const int64_t x[4] = {p->lead, p->lead, p->m, p->k}, y[4] = {p->lead, p->lead, p->m, p->n};
    const int64_t own = p->shared ? 1 : p->lead, w[4] = {own, own, p->k, p->n};
    const int at = 4 - p->rank, flat = p->shared == 1 ? 2 : at;
    const uint64_t seed = sp_rng_next(&rng);
    bed *b = bed_make();
    sparta_tensor *t = bed_input(b, false, SPARTA_F32, p->rank, x + at);
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++)
        if ((int)(sp_hash(&i, sizeof i, seed) % 1000) < p->absent) ((float *)t->data)[i] = i % 2 ? -0.f : 0;
    bed_input(b, false, SPARTA_F32, 4 - flat, w + flat);
    bed_node(b, "MatMul", "", p->rank, y + at);
    reference(b);
    return b;
}

static void try_product(const product *p)
{
    bed *b = product_bed(p);
    const sp_task t = {.node = b->node, .present = .1};
    assert_true(sp_implement_matches(&sp_implement_matmul_skip, &t));
    fenced f[2] = {fence(&b->in[0]), fence(&b->in[1])};
    EACH_TARGET(target)
    {
        how h = {.kernel = "matmul_skip", .parts = 1};
        if (!entry_of((sp_target)target, h.kernel, "", &h.entry)) continue;
        const float *y = run_kernel(b, &h);
        close_enough(b, y, NULL, 2e-5, 2e-6, sp_target_name((sp_target)target));
        h.parts = 2 + (int)below(4);
        same_bits(b, y, run_kernel(b, &h), sp_target_name((sp_target)target));
        ran[target]++;
    }
    for (int i = 0; i < 2; i++) unfence(&f[i], &b->in[i]);
    bed_free(b);
}

static void it_agrees_with_the_reference(void **state)
{
    (void)state;
    static const int absent[] = {0, 500, 750, 900, 980, 1000};
    static const int64_t columns[] = {1, 5, 8, 16, 17, 32, 48, 60, 64, 96, 128, 129, 200, 300};
    for (int i = 0; i < 200 / FEWER; i++) {
        product p = {2 + (int)below(3), 1 + below(4),    (int)below(3), 1 + below(9),
                     1 + below(90),     ONE_OF(columns), ONE_OF(absent)};
        try_product(&p);
    }
}

/* More elements than a list has room for; more columns than are taken together. */
static void lists_that_are_full(void **state)
{
    (void)state;
    static const int64_t k[] = {1008, 1009, 1024, 1025, 2100, 3000};
    for (size_t i = 0; i < SP_COUNT(k); i++)
        for (int absent = 0; absent <= 1000; absent += 250)
            try_product(&(product){2, 1, 1, 3, k[i], i % 2 ? 150 : 20, absent});
}

/* One row of it: no lines at all, or lines of no elements. */
static void nothing_to_multiply(void **state)
{
    (void)state;
    try_product(&(product){3, 2, 0, 4, 0, 20, 0}); /* sums of nothing */
    try_product(&(product){3, 2, 0, 0, 5, 20, 0});
    try_product(&(product){3, 0, 0, 3, 5, 20, 0});
    try_product(&(product){3, 2, 0, 3, 5, 0, 0});
}

/* What is no number is there and meets every column; a row of w that is none meets what is there alone. */
static void no_numbers(void **state)
{
    (void)state;
    bed *b = product_bed(&(product){2, 1, 1, 3, 40, 20, 1000});
    float *x = b->in[0].data, *w = b->in[1].data;
    x[3] = NAN, x[40 + 7] = 1, x[80 + 9] = 2;
    for (int n = 0; n < 20; n++) w[5 * 20 + n] = NAN, w[9 * 20 + n] = INFINITY;
    EACH_TARGET(target)
    {
        how h = {.kernel = "matmul_skip", .parts = 1};
        if (!entry_of((sp_target)target, h.kernel, "", &h.entry)) continue;
        const float *y = run_kernel(b, &h);
        for (int n = 0; n < 20; n++) {
            assert_true(isnan(y[n]));
            assert_true(y[20 + n] == w[7 * 20 + n]); /* 0 x NaN is skipped */
            assert_true(isinf(y[40 + n]));
        }
    }
    bed_free(b);
}

static void when_it_is_taken(void **state)
{
    (void)state;
    bed *b = product_bed(&(product){3, 4, 0, 5, 30, 6, 900});
    sp_task t = {.node = b->node, .present = .1};
    assert_true(sp_implement_matches(&sp_implement_matmul_skip, &t));
    t.strict = true;
    assert_false(sp_implement_matches(&sp_implement_matmul_skip, &t)); /* 0 x Inf */
    t.strict = false, t.present = 0;
    assert_false(sp_implement_matches(&sp_implement_matmul_skip, &t)); /* nobody sparsifies it */
    t.present = SP_MATMUL_SHARE;
    assert_false(sp_implement_matches(&sp_implement_matmul_skip, &t)); /* too much is there */
    bed_free(b);
    b = bed_make(); /* matrices of the left one are repeated, not of the right one */
    bed_input(b, false, SPARTA_F32, DIMS(1, 3, 8));
    bed_input(b, false, SPARTA_F32, DIMS(4, 8, 5));
    bed_node(b, "MatMul", "", DIMS(4, 3, 5));
    t = (sp_task){.node = b->node, .present = .1};
    assert_false(sp_implement_matches(&sp_implement_matmul_skip, &t));
    bed_free(b);
}

/* A package may say anything: sizes that are no product are refused before anything is read. */
static void the_kernel_refuses_what_it_cannot_read(void **state)
{
    (void)state;
    bed *b = product_bed(&(product){3, 4, 0, 5, 30, 6, 900});
    sp_job job;
    bind(b, &(how){.kernel = "matmul_skip"}, NULL, &job);
    sp_operand *const of[] = {&job.in[0], &job.in[1], &job.out[0]};
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 3; d++) {
            const sp_operand was = *of[i];
            of[i]->tensor.dim[d] += 1 + below(3);
            fails_saying(SPARTA_E_SHAPE, "no matrices that kernel", sp_panel_matmul_skip.check(cx, &job));
            *of[i] = was;
            of[i]->tensor.rank = d;
            fails_saying(SPARTA_E_SHAPE, "no matrices that kernel", sp_panel_matmul_skip.check(cx, &job));
            *of[i] = was;
            of[i]->tensor.stride[0] += 1;
            fails_saying(SPARTA_E_SHAPE, "there are gaps", sp_panel_matmul_skip.check(cx, &job));
            *of[i] = was;
        }
    job.in[1].layout = SP_LAYOUT_PANEL;
    fails_saying(SPARTA_E_FORMAT, "input 1 is f32 in layout panel",
                 sp_panel_prepare(cx, b->arena, &sp_panel_matmul_skip, &job));
    bed_free(b);
}

/* Last: a target that nobody tried is a hole in this file. */
static void it_ran_on_every_target(void **state)
{
    (void)state;
    EACH_TARGET(target)
    if (target == SP_TARGET_PORTABLE || !no_compiler) assert_true(ran[target] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_the_reference),
        cmocka_unit_test(lists_that_are_full),
        cmocka_unit_test(nothing_to_multiply),
        cmocka_unit_test(no_numbers),
        cmocka_unit_test(when_it_is_taken),
        cmocka_unit_test(the_kernel_refuses_what_it_cannot_read),
        cmocka_unit_test(it_ran_on_every_target),
    };
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
