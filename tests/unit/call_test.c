/* The room call: binding a node to code, running it, counting its operations. */
#include "panel_bed.h"
#include "call/call.h"

static bed *linear_bed(int64_t tokens, int64_t n, int64_t k)
{
    bed *b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(tokens, k));
    float *w = bed_input(b, true, SPARTA_F32, DIMS(n, k))->data;
    for (int64_t i = 0; i < n * k; i++)
        if (i % k % 3) w[i] = 0; /* columns 0, 3, 6, ... are left */
    bed_node(b, "sparta::Linear", "transposed=1", DIMS(tokens, n));
    reference(b);
    return b;
}

static sp_packed strips_of(const bed *b)
{
    sp_format f;
    sp_packed p;
    ok(sp_format_parse(cx, "strip(4), crd=u16", &f));
    ok(sp_store_pack(cx, &f, &b->in[1], NULL, &p));
    return p;
}

static void binds_the_portable_kernel(void **state)
{
    (void)state;
    bed *b = linear_bed(3, 4, 4);
    sp_call c;
    ok(sp_call_bind(cx, b->arena, b->node, "linear", NULL, &c));
    assert_ptr_equal(c.kernel, &sp_panel_linear);
    assert_ptr_equal((void *)(uintptr_t)c.entry, (void *)(uintptr_t)sp_panel_linear.portable);
    assert_null(c.object);
    assert_ptr_equal(c.job.node, b->node);
    assert_int_equal(c.job.n_in, 2);
    assert_int_equal(c.job.n_out, 1);
    ok(sp_call_bind(cx, b->arena, b->node, NULL, NULL, &c));
    assert_null(c.kernel);
    assert_ptr_equal(c.job.node, b->node);
    bed_free(b);
}

static void an_unknown_kernel_is_an_error(void **state)
{
    (void)state;
    bed *b = linear_bed(3, 4, 4);
    sp_call c;
    memset(&c, 0x5a, sizeof c);
    const sp_call before = c;
    fails_saying(SPARTA_E_FORMAT, "bed: there is no kernel 'lineal'",
                 sp_call_bind(cx, b->arena, b->node, "lineal", NULL, &c));
    fails_saying(SPARTA_E_FORMAT, "there is no kernel ''", sp_call_bind(cx, b->arena, b->node, "", NULL, &c));
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    fails_saying(SPARTA_E_FORMAT, "there is no kernel 'xxx",
                 sp_call_bind(cx, b->arena, b->node, longest, NULL, &c));
    assert_memory_equal(&c, &before, sizeof c); /* untouched */
    bed_free(b);
}

static void machine_code_must_have_the_kernel(void **state)
{
    (void)state;
    const sp_object *o = NULL;
    bed *b = linear_bed(3, 4, 4);
    sp_call c;
    sparta_status s = sp_jit_get(
        cx, SP_TARGET_PORTABLE,
        "__attribute__((visibility(\"default\"))) void sp_kernel_map(const void *a) { (void)a; }\n", &o,
        NULL);
    if (s == SPARTA_OK) {
        fails_saying(SPARTA_E_FORMAT, "bed: its machine code has no 'sp_kernel_linear'",
                     sp_call_bind(cx, b->arena, b->node, "linear", o, &c));
        sp_node relu = *b->node; /* of an operator that kernel map computes */
        relu.op = SP_OP_Relu, relu.n_in = 1;
        fails_saying(SPARTA_E_FORMAT, "kernel 'map' does not compute Linear",
                     sp_call_bind(cx, b->arena, b->node, "map", o, &c));
        ok(sp_call_bind(cx, b->arena, &relu, "map", o, &c));
        assert_ptr_equal(c.object, o);
        assert_ptr_equal((void *)(uintptr_t)c.entry, sp_jit_symbol(o, "sp_kernel_map"));
        sp_jit_close(o);
    }
    bed_free(b);
    if (s != SPARTA_OK) skip(); /* no compiler */
}

static void too_many_inputs_are_for_the_builtin_only(void **state)
{
    (void)state;
    bed *b = linear_bed(3, 4, 4);
    sp_value *in[40] = {0};
    for (int i = 0; i < 40; i++) in[i] = b->node->in[i % 2];
    const sp_node many = {
        .op = SP_OP_Concat, .name = "many", .n_in = 40, .n_out = 1, .in = in, .out = b->node->out};
    sp_call c;
    sp_node embed = many;
    embed.op = SP_OP_Embed;
    fails_saying(SPARTA_E_FORMAT, "many: 40 inputs are too many for kernel 'embed'",
                 sp_call_bind(cx, b->arena, &embed, "embed", NULL, &c));
    ok(sp_call_bind(cx, b->arena, &many, NULL, NULL, &c));
    assert_int_equal(c.job.n_in, SP_OPERANDS);
    bed_free(b);
}

/* A call in place, its operands those of the bed: `y` gets the answer in panels. */
static void place_call(bed *b, const sp_packed *w, lain *y, sp_call *c)
{
    *y = lay(b, &b->out, 1);
    ok(sp_call_bind(cx, b->arena, b->node, "linear", NULL, c));
    sp_job job;
    bind(b, &(how){.kernel = "linear", .packed = w, .parts = 1}, y, &job);
    c->job = job;
}

static void runs_all_panels(void **state)
{
    (void)state;
    for (int64_t tokens = 1; tokens < 300; tokens += 33) {
        bed *b = linear_bed(tokens, 10, 12);
        sp_packed w = strips_of(b);
        float *rows = sp_arena_array(b->arena, (size_t)tokens * 10, sizeof(float));
        lain y;
        sp_call c;
        place_call(b, &w, &y, &c);
        for (int64_t p = 0; p < c.job.panels; p++) sp_call_panel(&c, &(sp_place){.panel = p, .parts = 1});
        check_guards(b, &y, tokens, false);
        move_rows(&y, &b->out, rows, false);
        close_enough(b, rows, NULL, 1e-5, 1e-6, "sp_call_panel");
        sp_packed_free(cx, &w);
        bed_free(b);
    }
}

/* One part of one panel writes its own rows of that panel and nothing else. */
static void runs_one_part_of_one_panel(void **state)
{
    (void)state;
    bed *b = linear_bed(130, 16, 12);
    sp_packed w = strips_of(b);
    lain y;
    sp_call c;
    place_call(b, &w, &y, &c);
    sp_call_panel(&c, &(sp_place){.panel = 1, .part = 1, .parts = 4});
    for (int64_t t = 0; t < 130; t++)
        for (int64_t n = 0; n < 16; n++) {
            uint32_t bits;
            memcpy(&bits, lain_at(&y, t, n), 4);
            assert_int_equal(bits == GUARD, !(t / 64 == 1 && n / 4 == 1));
        }
    sp_packed_free(cx, &w);
    bed_free(b);
}

static void a_builtin_says_which_node_failed(void **state)
{
    (void)state;
    bed *b = bed_make();
    bed_input(b, true, SPARTA_F32, DIMS(3, 4));
    sparta_tensor *ids = bed_input(b, false, SPARTA_I64, DIMS(2));
    bed_node(b, "sparta::Embed", "", DIMS(2, 4));
    ok(sp_call_builtin(cx, b->node, b->in, &b->out));
    assert_memory_equal(b->out.data, b->in[0].data, 16);
    ((int64_t *)ids->data)[1] = 3;
    fails_saying(SPARTA_E_RANGE, "bed: ", sp_call_builtin(cx, b->node, b->in, &b->out));
    bed_free(b);
}

static void assert_ops(const sp_call *c, double real, double dense)
{
    double r = -1, d = -1;
    sp_call_ops(c, &r, &d);
    assert_true(r == real && d == dense);
}

static void counts_operations(void **state)
{
    (void)state;
    bed *b = linear_bed(10, 8, 12); /* 4 of 12 columns are left */
    sp_packed w = strips_of(b);
    lain y;
    sp_call c;
    place_call(b, &w, &y, &c);
    assert_ops(&c, 2. * 10 * 8 * 4, 2. * 10 * 8 * 12);
    ok(sp_call_bind(cx, b->arena, b->node, NULL, NULL, &c)); /* the builtin does everything */
    for (int i = 0; i < 2; i++) c.job.in[i] = (sp_operand){.layout = SP_LAYOUT_ROWS, .tensor = b->in[i]};
    c.job.out[0] = (sp_operand){.layout = SP_LAYOUT_ROWS, .tensor = b->out};
    assert_ops(&c, 2. * 10 * 8 * 12, 2. * 10 * 8 * 12);
    sp_packed_free(cx, &w);
    bed_free(b);

    b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(2, 5, 8));
    bed_input(b, false, SPARTA_F32, DIMS(2, 7, 8));
    bed_input(b, false, SPARTA_F32, DIMS(2, 7, 6));
    bed_node(b, "sparta::Attention", "heads=2", DIMS(2, 5, 6));
    ok(sp_call_bind(cx, b->arena, b->node, NULL, NULL, &c));
    for (int i = 0; i < 3; i++) c.job.in[i].tensor = b->in[i];
    c.job.out[0].tensor = b->out;
    assert_ops(&c, 2. * 2 * 5 * 7 * (8 + 6), 2. * 2 * 5 * 7 * (8 + 6)); /* two products */
    bed_free(b);

    b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(2, 3, 5));
    bed_input(b, false, SPARTA_F32, DIMS(5, 7));
    bed_node(b, "MatMul", "", DIMS(2, 3, 7));
    ok(sp_call_bind(cx, b->arena, b->node, NULL, NULL, &c));
    for (int i = 0; i < 2; i++) c.job.in[i].tensor = b->in[i];
    c.job.out[0].tensor = b->out;
    assert_ops(&c, 2. * 2 * 3 * 7 * 5, 2. * 2 * 3 * 7 * 5);
    bed_free(b);

    b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(2, 6, 9, 9));
    bed_input(b, false, SPARTA_F32, DIMS(8, 3, 5, 5)); /* 2 groups of 3 channels */
    bed_node(b, "Conv", "group=2", DIMS(2, 8, 5, 5));
    ok(sp_call_bind(cx, b->arena, b->node, NULL, NULL, &c));
    for (int i = 0; i < 2; i++) c.job.in[i].tensor = b->in[i];
    c.job.out[0].tensor = b->out;
    assert_ops(&c, 2. * 2 * 8 * 25 * 75, 2. * 2 * 8 * 25 * 75);
    bed_free(b);

    b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(2, 3));
    bed_node(b, "Relu", "", DIMS(2, 3));
    ok(sp_call_bind(cx, b->arena, b->node, "map", NULL, &c));
    assert_ops(&c, 0, 0); /* no product */
    bed_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binds_the_portable_kernel),
        cmocka_unit_test(an_unknown_kernel_is_an_error),
        cmocka_unit_test(machine_code_must_have_the_kernel),
        cmocka_unit_test(too_many_inputs_are_for_the_builtin_only),
        cmocka_unit_test(runs_all_panels),
        cmocka_unit_test(runs_one_part_of_one_panel),
        cmocka_unit_test(a_builtin_says_which_node_failed),
        cmocka_unit_test(counts_operations),
    };
    return cmocka_run_group_tests(tests, context_begin, tear_down);
}
