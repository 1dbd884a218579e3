/* The rows for few tokens on every target that fits, against the reference: 1 to 16 tokens and more, ragged sizes, densities from nothing to
 * everything, epilogues; and that nothing is read past the end of what they read: the arrays end where a page begins that
 * nobody may touch. (Slow: make test only.) */
#include "implement_bed.h"

static const sp_implement *const few[] = {&sp_implement_few_bitmap, &sp_implement_few_strip16,
                                          &sp_implement_few_csr, &sp_implement_few_dense,
                                          &sp_implement_few_skip};
static int ran[5][SP_CPU_TARGETS];

typedef struct layer {
    int64_t n, k, tokens;
    double density;
    int block;  /* rows of a block */
    bool plain; /* no activation and no residual; else GELU and both */
    int absent; /* of 1000 elements of the input, so many are 0 */
} layer;

static bed *few_bed(const layer *l)
{
    bed *b = bed_make();
    const uint64_t seed = sp_rng_next(&rng);
    float *x = bed_input(b, false, SPARTA_F32, DIMS(1, l->tokens, l->k))->data;
    for (int64_t i = 0; i < l->tokens * l->k; i++)
        if ((int)(sp_hash(&i, sizeof i, seed) % 1000) < l->absent) x[i] = i % 2 ? -0.f : 0;
    float *w = bed_input(b, true, SPARTA_F32, DIMS(l->n, l->k))->data;
    for (int64_t i = 0; i < l->n * l->k; i++) {
        const int64_t at[2] = {i / l->k / l->block, i % l->k};
        if ((double)(sp_hash(at, sizeof at, seed) % 1000) >= l->density * 1000) w[i] = 0;
    }
    bed_input(b, true, SPARTA_F32, DIMS(l->n));
    if (!l->plain) bed_input(b, false, SPARTA_F32, DIMS(1, l->tokens, l->n));
    bed_node(b, "sparta::Linear", l->plain ? "transposed=1" : "transposed=1, epilogue=\"bias gelu add\"",
             DIMS(1, l->tokens, l->n));
    reference(b);
    return b;
}

static sp_packed packed_for(const sp_implement *im, const sp_task *t, const sparta_tensor *w)
{
    sp_text text;
    sp_format format;
    sp_packed p;
    sp_text_init(&text, cx);
    sp_implement_print_format(im, t, &text);
    ok(sp_format_parse(cx, sp_text_str(&text), &format));
    sp_text_free(&text);
    ok(sp_store_pack(cx, &format, w, im->sparse ? t->mask : NULL, &p));
    return p;
}

static void try_row(bed *b, const layer *l, int i, const sp_task *t)
{
    char parameters[96], who[160];
    sp_packed packed = packed_for(few[i], t, &b->in[1]);
    sparta_tensor *ends[] = {&packed.values, &packed.pos[1], &packed.crd[1], &b->in[0], &b->in[b->n_in - 1]};
    fenced f[SP_COUNT(ends)];
    parameters_of(few[i], t, parameters, sizeof parameters);
    for (size_t k = 0; k < SP_COUNT(ends); k++) f[k] = fence(ends[k]);
    EACH_TARGET(target)
    {
        how h = {.kernel = few[i]->kernel, .packed = &packed, .parts = 1};
        if (!entry_of((sp_target)target, few[i]->kernel, parameters, &h.entry)) continue;
        snprintf(who, sizeof who, "%s, %s, %s, density %g", few[i]->name, sp_target_name((sp_target)target),
                 parameters, l->density);
        const float *y = run_kernel(b, &h);
        close_enough(b, y, NULL, 2e-5, 2e-6, who);
        h.parts = 2 + (int)below(4);
        same_bits(b, y, run_kernel(b, &h), who);
        ran[i][target]++;
    }
    for (size_t k = 0; k < SP_COUNT(ends); k++) unfence(&f[k], ends[k]);
    sp_packed_free(cx, &packed);
}

/* `expected` tokens are what the kernel is made for. */
static void try_layer(const layer *l, int64_t expected)
{
    bed *b = few_bed(l);
    sp_mask mask;
    sp_task t = task_of(b, &b->in[1], &mask);
    t.tokens = expected;
    t.present = 1 - l->absent * 1e-3;
    for (int i = 0; i < (int)SP_COUNT(few); i++) {
        if (!sp_implement_matches(few[i], &t)) continue;
        assert_true(few[i]->cost(&t) > 0);
        try_row(b, l, i, &t);
    }
    sp_mask_free(cx, &mask);
    bed_free(b);
}

static const double densities[] = {0, .001, .02, .1, .2, .3, .5, .8, .97, 1};
static const int blocks[] = {1, 1, 2, 4, 16};

static layer draw(int64_t tokens)
{
    static const int absent[] = {0, 0, 100, 500, 900, 999, 1000};
    layer l = {1 + below(200), 1 + below(200), tokens,        ONE_OF(densities),
               ONE_OF(blocks), below(2),       ONE_OF(absent)};
    if (below(4) == 0) l.n = 16 * (1 + below(5)), l.k = 16 * (1 + below(12));
    return l;
}

static void few_agrees_with_the_reference(void **state)
{
    (void)state;
    for (int round = 0; round < 60 / (FEWER > 1 ? 5 : 1); round++)
        for (int64_t tokens = 1; tokens <= SP_FEW_TOKENS; tokens++) {
            layer l = draw(tokens);
            /* a kernel takes the compiler a second: of the plain ones those for 2 and 8, of the others those for 1, 4 and 16 */
            l.plain = tokens == 2 || (tokens > 4 && tokens <= 8);
            try_layer(&l, tokens);
        }
}

/* A bound is no promise that there are so many, and a kernel never trusts it. */
static void other_numbers_of_tokens_work(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 5, 9, 15, 17, 33, 64, 65, 130}, made_for[] = {1, 4, 16};
    for (size_t i = 0; i < SP_COUNT(counts); i++)
        for (size_t k = 0; k < SP_COUNT(made_for); k++) {
            layer l = draw(counts[i]);
            l.plain = false;
            try_layer(&l, made_for[k]);
        }
}

/* Rows without a weight, rows with all, one long row among empty ones. */
static void uneven_rows(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        const layer l = {.n = 67, .k = 333, .tokens = 1, .density = 1, .block = 1};
        bed *b = few_bed(&l);
        float *w = b->in[1].data;
        for (int64_t n = 0; n < l.n; n++)
            for (int64_t k = 0; k < l.k; k++)
                if (kind == 0 ? n % 3 : kind == 1 ? n != 66 : n > 0 || k < 330) w[n * l.k + k] = 0;
        reference(b);
        sp_mask mask;
        sp_task t = task_of(b, &b->in[1], &mask);
        t.tokens = 1;
        for (int i = 0; i < (int)SP_COUNT(few); i++)
            if (sp_implement_matches(few[i], &t)) try_row(b, &l, i, &t);
        sp_mask_free(cx, &mask);
        bed_free(b);
    }
}

static void they_take_few_tokens_only(void **state)
{
    (void)state;
    const layer l = {.n = 32, .k = 40, .tokens = 3, .density = .2, .block = 16};
    bed *b = few_bed(&l);
    sp_mask mask;
    sp_task t = task_of(b, &b->in[1], &mask);
    t.tokens = 3;
    assert_false(sp_implement_matches(&sp_implement_few_skip, &t)); /* no Sparsify, and nobody asks for it */
    t.asked = true;
    assert_true(sp_implement_matches(&sp_implement_few_skip, &t));
    t.asked = false, t.present = .1;
    for (int i = 0; i < (int)SP_COUNT(few); i++) {
        const bool skips = few[i] == &sp_implement_few_skip; /* one by one where they are many */
        t.tokens = 0;
        assert_int_equal(sp_implement_matches(few[i], &t), skips);
        t.tokens = SP_FEW_TOKENS + 1;
        assert_int_equal(sp_implement_matches(few[i], &t), skips);
        t.present = .5;
        assert_false(sp_implement_matches(few[i], &t));
        t.present = .1;
        t.tokens = SP_FEW_TOKENS;
        assert_true(sp_implement_matches(few[i], &t));
        t.strict = true;
        assert_int_equal(sp_implement_matches(few[i], &t), !few[i]->sparse);
        t.strict = false;
        assert_true(!sp_implement_in_lanes(few[i]));
    }
    t.k = 65536; /* two bytes of coordinate */
    assert_false(sp_implement_matches(few[1], &t));
    assert_false(sp_implement_matches(few[2], &t));
    sp_mask_free(cx, &mask);
    bed_free(b);
}

/* Lists of inputs that are full, end where the inputs do, or are one longer; all tokens have other inputs; nothing is there at all. */
static void lists_that_are_full(void **state)
{
    (void)state;
    static const int64_t sizes[] = {SP_SKIP_ROOM - 1, SP_SKIP_ROOM, SP_SKIP_ROOM + 1, 3 * SP_SKIP_ROOM + 17};
    static const int absent[] = {0, 300, 700, 1000};
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (size_t k = 0; k < SP_COUNT(absent); k++) {
            const layer l = {.n = 65,
                             .k = sizes[i],
                             .tokens = i % 2 ? 1 : 4,
                             .density = 1,
                             .block = 1,
                             .absent = absent[k]};
            try_layer(&l, l.tokens);
        }
}

/* What is no number is there, and meets every weight; a weight that is none meets what is there alone. */
static void no_numbers_among_the_inputs(void **state)
{
    (void)state;
    const layer l = {.n = 70, .k = 200, .tokens = 2, .density = 1, .block = 1, .plain = true, .absent = 900};
    bed *b = few_bed(&l);
    float *x = b->in[0].data, *w = b->in[1].data;
    for (int i = 0; i < 200; i++) x[i] = x[200 + i] = i % 10 ? 0 : 1;
    x[3] = NAN, x[17] = INFINITY;
    w[5] = NAN, w[200 + 10] = INFINITY;
    sp_mask mask;
    sp_task t = task_of(b, &b->in[1], &mask);
    char parameters[96];
    t.tokens = 2, t.present = .1;
    sp_packed packed = packed_for(&sp_implement_few_skip, &t, &b->in[1]);
    parameters_of(&sp_implement_few_skip, &t, parameters, sizeof parameters);
    EACH_TARGET(target)
    {
        how h = {.kernel = "skip", .packed = &packed, .parts = 1};
        if (!entry_of((sp_target)target, "skip", parameters, &h.entry)) continue;
        const float *y = run_kernel(b, &h);
        for (int n = 0; n < 70; n++) assert_true(isnan(y[n])); /* of token 0, which has a NaN */
        assert_false(isnan(y[70]));                            /* 0 x NaN is skipped */
        assert_true(isinf(y[71]));
        assert_false(isinf(y[72]));
    }
    sp_packed_free(cx, &packed);
    sp_mask_free(cx, &mask);
    bed_free(b);
}

static sparta_tensor sized(int64_t tokens, int64_t features)
{
    return sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){tokens, features}, NULL);
}

static void the_kernel_refuses_what_it_cannot_read(void **state)
{
    (void)state;
    static const char *const others[] = {
        "csr",   "csc",        "(n,k)->(n/8:dense, k:compressed, n%8:dense), crd=u16",
        "dense", "quads(128)", "(n,k)->(n:dense, k:bitmap), pos=i64"};
    const layer l = {.n = 20, .k = 40, .tokens = 3, .density = .2, .block = 1};
    bed *b = few_bed(&l);
    for (size_t i = 0; i < SP_COUNT(others); i++) {
        sp_format format;
        sp_packed packed;
        ok(sp_format_parse(cx, others[i], &format));
        ok(sp_store_pack(cx, &format, &b->in[1], NULL, &packed));
        sp_job job = {.node = b->node, .n_in = b->n_in, .n_out = 1};
        bind_inputs(b, &(how){.kernel = "few", .packed = &packed}, &job);
        job.out[0].tensor = b->out;
        fails_saying(SPARTA_E_FORMAT, "stored neither as bitmap",
                     sp_panel_prepare(cx, b->arena, &sp_panel_few, &job));
        fails_saying(SPARTA_E_FORMAT, "not stored in strips of 64 rows",
                     sp_panel_prepare(cx, b->arena, &sp_panel_skip, &job));
        sp_packed_free(cx, &packed);
    }
    sp_mask mask;
    const sp_task t = task_of(b, &b->in[1], &mask);
    sp_packed packed = packed_for(few[0], &t, &b->in[1]);
    sp_job job;
    bind(b, &(how){.kernel = "few", .packed = &packed}, NULL, &job);
    sp_operand *x = &job.in[0], *y = &job.out[0], *residual = &job.in[3], was = *x;
    x->tensor = sized(3, 39);
    fails_saying(SPARTA_E_SHAPE, "input 0 has", sp_panel_few.check(cx, &job));
    *x = was, x->layout = SP_LAYOUT_PANEL;
    fails_saying(SPARTA_E_FORMAT, "input 0 is f32 in layout panel",
                 sp_panel_prepare(cx, b->arena, &sp_panel_few, &job));
    *x = was, was = *y, y->tensor = sized(3, 21);
    fails_saying(SPARTA_E_SHAPE, "the output has", sp_panel_few.check(cx, &job));
    *y = was, was = *residual, residual->tensor = sized(4, 20);
    fails_saying(SPARTA_E_SHAPE, "input 3 has", sp_panel_few.check(cx, &job));
    *residual = was, job.stat = true;
    fails_saying(SPARTA_E_FORMAT, "no statistics", sp_panel_prepare(cx, b->arena, &sp_panel_few, &job));
    sp_packed_free(cx, &packed);
    sp_mask_free(cx, &mask);
    bed_free(b);
}

/* Last: a row that nobody tried is a hole in this file. */
static void every_row_ran_on_every_target(void **state)
{
    (void)state;
    EACH_TARGET(target)
    for (int i = 0; i < (int)SP_COUNT(few); i++)
        if (target == SP_TARGET_PORTABLE || !no_compiler) assert_true(ran[i][target] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_agrees_with_the_reference),
        cmocka_unit_test(other_numbers_of_tokens_work),
        cmocka_unit_test(uneven_rows),
        cmocka_unit_test(lists_that_are_full),
        cmocka_unit_test(no_numbers_among_the_inputs),
        cmocka_unit_test(they_take_few_tokens_only),
        cmocka_unit_test(the_kernel_refuses_what_it_cannot_read),
        cmocka_unit_test(every_row_ran_on_every_target),
    };
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
