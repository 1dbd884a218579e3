/* Interact on every target that fits, against the reference: any number of vectors and items, pairs in any order, vectors in panels and
 * vectors that the kernel looks up in tables itself. (Slow: make test only.) */
#include "implement_bed.h"

typedef struct shape {
    int n;
    int64_t items, dim;
    int64_t keep; /* -1: none */
    bool self;    /* pairs of a vector with itself too */
} shape;

/* The pairs of n vectors in random order, some left out, either one first, some counted from the end. */
static int64_t make_pairs(const shape *s, int64_t (*pair)[2])
{
    int64_t count = 0;
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < i + s->self; j++) {
            if (below(8) == 0) continue;
            const int64_t at = below(count + 1); /* the one there goes to the end */
            pair[count][0] = pair[at][0], pair[count][1] = pair[at][1];
            const bool turned = below(2);
            pair[at][0] = turned ? j : i, pair[at][1] = turned ? i : j;
            if (below(4) == 0) pair[at][below(2)] -= s->n;
            count++;
        }
    return count;
}

static bed *interact_bed(const shape *s)
{
    int64_t pair[SP_OPERANDS * SP_OPERANDS][2];
    char attrs[32];
    bed *b = bed_make();
    int64_t count = make_pairs(s, pair);
    if (!count) pair[0][0] = pair[0][1] = 0, count = 1;
    for (int i = 0; i < s->n; i++) bed_input(b, false, SPARTA_F32, DIMS(s->items, s->dim));
    const sparta_dtype dtype = below(2) ? SPARTA_I64 : SPARTA_I32;
    sparta_tensor *pairs = bed_input(b, true, dtype, DIMS(count, 2));
    for (int64_t i = 0; i < 2 * count; i++) sp_element_set_int(dtype, pairs->data, i, pair[i / 2][i % 2]);
    snprintf(attrs, sizeof attrs, "keep=%ld", (long)s->keep);
    bed_node(b, "sparta::Interact", attrs, DIMS(s->items, count + (s->keep >= 0 ? s->dim : 0)));
    return b;
}

/* ------------------------------------------------------------------ vectors from tables */

typedef struct lookup {
    bed *b;
    sp_job job;
} lookup;

/* Vector i of the bed is what this Embed gives: ids in rows of their own, or a column of a matrix. */
static void look_up(bed *b, const shape *s, int i, lookup *out)
{
    static const int64_t sizes[] = {1, 5, 1000};
    const int64_t rows = ONE_OF(sizes), columns = below(2) ? 1 + below(5) : 0;
    const sparta_dtype dtype = below(2) ? SPARTA_I64 : SPARTA_I32;
    char attrs[32] = "";
    bed *e = bed_make();
    bed_input(e, true, SPARTA_F32, DIMS(rows, s->dim));
    sparta_tensor *ids = columns ? bed_input(e, false, dtype, DIMS(s->items, columns))
                                 : bed_input(e, false, dtype, DIMS(s->items));
    for (int64_t k = 0; k < sparta_tensor_elements(ids); k++)
        sp_element_set_int(dtype, ids->data, k, below(2 * rows) - rows);
    if (columns) snprintf(attrs, sizeof attrs, "column=%ld", (long)below(columns));
    bed_node(e, "sparta::Embed", attrs, DIMS(s->items, s->dim));
    reference(e);
    memcpy(b->in[i].data, e->out.data, (size_t)(s->items * s->dim) * sizeof(float));
    out->b = e;
    out->job = (sp_job){.node = e->node, .n_in = 2, .n_out = 1, .tokens = s->items};
    make_operands(e, &out->job);
    for (int k = 0; k < 2; k++) out->job.in[k] = (sp_operand){.layout = SP_LAYOUT_ROWS, .tensor = e->in[k]};
    out->job.out[0] = (sp_operand){.layout = SP_LAYOUT_PANEL, .tensor = e->out};
}

/* The same node with these vectors looked up: their panels are gone. */
static float *run_with_lookups(bed *b, const how *h, const shape *s, const lookup *from)
{
    sp_job job;
    float *rows = sp_arena_array(b->arena, (size_t)sparta_tensor_elements(&b->out), sizeof(float));
    assert_non_null(rows);
    const lain y = lay(b, &b->out, h->parts);
    bind(b, h, &y, &job);
    for (int i = 0; i < s->n; i++)
        if (from[i].b) job.in[i].lookup = &from[i].job, job.in[i].at = NULL;
    ok(sp_panel_interact.check(cx, &job));
    run_places(b, h, &job);
    check_guards(b, &y, job.tokens, false);
    move_rows(&y, &b->out, rows, false);
    return rows;
}

/* ------------------------------------------------------------------ the cases */

static void try_shape(const shape *s)
{
    lookup from[SP_OPERANDS] = {0};
    bed *b = interact_bed(s);
    for (int i = 0; i < s->n; i++)
        if (below(3) > 0) look_up(b, s, i, &from[i]);
    reference(b);
    const sp_task task = task_of(b, NULL, NULL);
    assert_true(sp_implement_matches(&sp_implement_interact, &task));
    EACH_TARGET(t)
    {
        how h = {.kernel = "interact", .parts = 1};
        if (!entry_of((sp_target)t, "interact", "", &h.entry)) continue;
        const float *y = run_kernel(b, &h);
        close_enough(b, y, NULL, 2e-6, 1e-7, sp_target_name((sp_target)t));
        for (h.parts = 1; h.parts <= 5; h.parts++) {
            same_bits(b, y, run_kernel(b, &h), "parts");
            same_bits(b, y, run_with_lookups(b, &h, s, from), "looked up");
        }
    }
    for (int i = 0; i < s->n; i++)
        if (from[i].b) bed_free(from[i].b);
    bed_free(b);
}

static void agrees_with_the_reference(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 3, 4, 8, 15, 16, 17, 32, 40, 128};
    for (int i = 0; i < 300 / FEWER; i++) {
        shape s = {.n = 1 + (int)below(SP_OPERANDS - 1), .items = 1 + below(200), .dim = ONE_OF(dims)};
        s.self = s.n == 1 || below(2);
        s.keep = below(2) ? below(s.n) : -1;
        try_shape(&s);
    }
}

static void the_recommender_of_the_zoo(void **state)
{
    (void)state;
    for (int64_t items = 1; items <= 200; items += FEWER > 1 ? 37 : 9)
        try_shape(&(shape){.n = 27, .items = items, .dim = 128, .keep = 0});
}

/* Vectors longer than a run of the sum. */
static void long_vectors(void **state)
{
    (void)state;
    static const int64_t dims[] = {255, 256, 257, 512, 700};
    for (size_t i = 0; i < SP_COUNT(dims); i++)
        try_shape(&(shape){.n = 6, .items = 70, .dim = dims[i], .keep = 5, .self = true});
}

/* An item's infinities and NaNs stay its own. */
static void lanes_are_apart(void **state)
{
    (void)state;
    const shape s = {.n = 5, .items = 100, .dim = 8, .keep = 1};
    bed *b = interact_bed(&s);
    ((float *)b->in[2].data)[33 * 8 + 3] = INFINITY;
    ((float *)b->in[1].data)[77 * 8] = NAN;
    reference(b);
    EACH_TARGET(t)
    {
        how h = {.kernel = "interact", .parts = 1};
        if (!entry_of((sp_target)t, "interact", "", &h.entry)) continue;
        close_enough(b, run_kernel(b, &h), NULL, 2e-6, 1e-7, sp_target_name((sp_target)t));
    }
    bed_free(b);
}

/* ------------------------------------------------------------------ what is left to the reference, and refused */

static bed *pairs_bed(int64_t items, int64_t count, const int64_t *pair, bool constant)
{
    bed *b = bed_make();
    for (int i = 0; i < 3; i++) bed_input(b, false, SPARTA_F32, DIMS(items, 4));
    sparta_tensor *pairs = bed_input(b, constant, SPARTA_I64, DIMS(count, 2));
    memcpy(pairs->data, pair, (size_t)count * 2 * sizeof *pair);
    bed_node(b, "sparta::Interact", "keep=-1", DIMS(items, count));
    return b;
}

static void check_pairs(int64_t count, const int64_t *pair, bool constant, bool wanted)
{
    bed *b = pairs_bed(3, count, pair, constant);
    const sp_task t = task_of(b, NULL, NULL);
    assert_int_equal(sp_implement_matches(&sp_implement_interact, &t), wanted);
    sp_job job = {.node = b->node, .n_in = b->n_in, .n_out = 1, .tokens = 3};
    bind_inputs(b, &(how){.kernel = "interact"}, &job);
    job.in[3].layout = SP_LAYOUT_ROWS, job.in[3].tensor = b->in[3];
    if (!constant) job.in[3].tensor.data = NULL; /* as when a session is made */
    const lain y = lay(b, &b->out, 0);
    job.out[0] = lain_operand(&y, &b->out);
    const sparta_status s = sp_panel_prepare(cx, b->arena, &sp_panel_interact, &job);
    if (wanted)
        ok(s);
    else
        fails_saying(SPARTA_E_FORMAT, constant ? "dots" : "input 3 must be a constant", s);
    bed_free(b);
}

static void dots_must_be_of_two_vectors(void **state)
{
    (void)state;
    check_pairs(2, (int64_t[]){1, 0, 2, 0}, true, true);
    check_pairs(2, (int64_t[]){1, 0, -1, -3}, true, true);
    check_pairs(2, (int64_t[]){1, 0, 2, 0}, false, false); /* not a constant */
    check_pairs(2, (int64_t[]){1, 0, 1, 0}, true, false);
    check_pairs(2, (int64_t[]){1, 0, 0, 1}, true, false); /* the same pair turned */
    check_pairs(1, (int64_t[]){3, 0}, true, false);
    check_pairs(1, (int64_t[]){0, -4}, true, false);
    check_pairs(1, (int64_t[]){INT64_MIN, INT64_MAX}, true, false);
}

static void vectors_must_fit(void **state)
{
    (void)state;
    bed *b = pairs_bed(10, 2, (int64_t[]){1, 0, 2, 0}, true);
    const lain y = lay(b, &b->out, 0);
    sp_job job;
    bind(b, &(how){.kernel = "interact", .parts = 1}, &y, &job);
    job.in[1].tensor.dim[1]++;
    fails_saying(SPARTA_E_SHAPE, "input 1 has", sp_panel_interact.check(cx, &job));
    job.in[1].tensor.dim[1]--;
    job.in[2].tensor.dim[0]--;
    fails_saying(SPARTA_E_SHAPE, "input 2 has 9 tokens", sp_panel_interact.check(cx, &job));
    job.in[2].tensor.dim[0]++;
    job.out[0].tensor.dim[1]++;
    fails_saying(SPARTA_E_SHAPE, "the output has", sp_panel_interact.check(cx, &job));
    job.out[0].tensor.dim[1]--;
    ok(sp_panel_interact.check(cx, &job));
    bed_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_reference),
        cmocka_unit_test(the_recommender_of_the_zoo),
        cmocka_unit_test(long_vectors),
        cmocka_unit_test(lanes_are_apart),
        cmocka_unit_test(dots_must_be_of_two_vectors),
        cmocka_unit_test(vectors_must_fit),
    };
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
