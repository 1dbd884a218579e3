/* The recommender of the zoo in sessions: every number of items, its lookups folded into the interaction or not, ids that are wrong,
 * memory that fails. (Slow: make test only.) */
#include "models.h"

#define SMALL_DLRM "rows=30 tables=5 columns=16"

static int64_t count(const sparta_package *p, sp_op_id op)
{
    int64_t n = 0;
    for (int i = 0; i < p->plan->n_nodes; i++) n += p->plan->node[i]->op == op;
    return n;
}

static void every_number_of_items(void **state)
{
    (void)state;
    static const char *const prunes[] = {NULL, "16x4:0.85", "1x1:0.5"};
    static const int64_t batches[] = {1, 2, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129, 200};
    for (size_t k = 0; k < SP_COUNT(prunes); k++) {
        sp_graph *g = typed(zoo("dlrm", prunes[k], SMALL_DLRM));
        sparta_package *p = compile(zoo("dlrm", prunes[k], SMALL_DLRM));
        assert_int_equal(count(p, SP_OP_Interact), 1);
        assert_int_equal(count(p, SP_OP_Embed), 5);
        assert_int_equal(count(p, SP_OP_MatMul) + count(p, SP_OP_Gather), 0);
        sparta_session *one = session(p, 1), *two = session(p, 2), *three = session(p, 3);
        for (size_t i = 0; i < SP_COUNT(batches); i++) {
            inputs in = make_inputs(g, batches[i], 1, 5 + i);
            agree(one, p, g, &in, "one thread");
            results a = run(one, p, &in), b = run(two, p, &in), c = run(three, p, &in);
            same_bits(&a, &b, "two threads");
            same_bits(&a, &c, "three threads");
            free_results(&a), free_results(&b), free_results(&c);
            free_inputs(&in);
        }
        sparta_session_free(one), sparta_session_free(two), sparta_session_free(three);
        sparta_package_close(p);
        sp_graph_free(g);
    }
}

/* Generated ids stay inside of the tables, whether the graph is compiled or not. */
static void generated_ids_fit(void **state)
{
    (void)state;
    sp_graph *g = typed(zoo("dlrm", NULL, SMALL_DLRM));
    sparta_package *p = compile(zoo("dlrm", NULL, SMALL_DLRM));
    const sp_graph *both[] = {g, p->plan};
    for (int k = 0; k < 2; k++) {
        inputs in = make_inputs(both[k], 500, 1, 7);
        const int64_t *ids = in.in[1].tensor.data;
        int64_t least = INT64_MAX, most = INT64_MIN;
        for (int i = 0; i < 2500; i++) least = SP_MIN(least, ids[i]), most = SP_MAX(most, ids[i]);
        assert_int_equal(least, 0);
        assert_int_equal(most, 29);
        free_inputs(&in);
    }
    sparta_package_close(p);
    sp_graph_free(g);
}

static void wrong_ids_are_refused(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("dlrm", NULL, SMALL_DLRM));
    sparta_session *s = session(p, 2);
    inputs in = make_inputs(p->plan, 70, 1, 9);
    int64_t *ids = in.in[1].tensor.data;
    results before = run(s, p, &in);
    static const int64_t wrong[] = {30, -31, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        sparta_named_tensor out = {.name = "probability"};
        const int64_t was = ids[69 * 5 + 3];
        ids[69 * 5 + 3] = wrong[i];
        fails(SPARTA_E_RANGE, sparta_session_run(cx, s, in.in, in.n, &out, 1));
        says("/emb_l.3/Gather: id");
        ids[69 * 5 + 3] = was;
        results again = run(s, p, &in);
        same_bits(&before, &again, "after a wrong id");
        free_results(&again);
    }
    free_results(&before);
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
}

/* Inputs that lie elsewhere in the next run are read there. */
static void ids_may_move(void **state)
{
    (void)state;
    sp_graph *g = typed(zoo("dlrm", NULL, SMALL_DLRM));
    sparta_package *p = compile(zoo("dlrm", NULL, SMALL_DLRM));
    sparta_session *s = session(p, 1);
    inputs a = make_inputs(g, 70, 1, 1), b = make_inputs(g, 70, 1, 2);
    agree(s, p, g, &a, "first");
    agree(s, p, g, &b, "second");
    agree(s, p, g, &a, "first again");
    free_inputs(&a), free_inputs(&b);
    sparta_session_free(s);
    sparta_package_close(p);
    sp_graph_free(g);
}

/* A lookup that somebody else reads, one that is an output, one read twice, a sum of two: all must be stored. */
static const char others[] =
    "graph \"t\"\ninput ids: i64[batch,3]\ninput x: f32[batch,8]\nconst w: f32[8,8] @\"w\"\n"
    "const a: f32[9,8] @\"a\"\nconst b: f32[7,8] @\"b\"\nconst c: f32[6,8] @\"c\"\nconst d: f32[5,8] @\"d\"\n"
    "const zero: i64[] = [0]\nconst one: i64[] = [1]\nconst two: i64[] = [2]\n"
    "const pairs: i64[5,2] = [1,0, 2,0, 2,1, 3,0, 4,3]\n"
    "node i0: ? = Gather(ids, zero) {axis=1}\nnode i1: ? = Gather(ids, one) {axis=1}\n"
    "node i2: ? = Gather(ids, two) {axis=1}\n"
    "node v0: ? = sparta::Linear(x, w) {transposed=1, epilogue=\"relu\"}\n"
    "node v1: ? = Gather(a, i0)\nnode v2: ? = Gather(b, i1)\nnode s1: ? = Gather(c, i2)\n"
    "node s2: ? = Gather(d, i2)\nnode v3: ? = Add(s1, s2)\n"
    "node z: ? = sparta::Interact(v0, v1, v2, v3, v1, pairs) {keep=2}\nnode r: ? = Relu(v3)\noutput "
    "z\noutput v2\noutput r\n";

static void lookups_that_are_stored(void **state)
{
    (void)state;
    sp_graph *g = typed(graph(others));
    sparta_package *p = compile(graph(others));
    for (int threads = 1; threads <= 2; threads++) {
        sparta_session *s = session(p, threads);
        for (int64_t batch = 1; batch < 150; batch += 37) {
            inputs in = make_inputs(g, batch, 1, (uint64_t)batch);
            agree(s, p, g, &in, "stored");
            free_inputs(&in);
        }
        sparta_session_free(s);
    }
    sparta_package_close(p);
    sp_graph_free(g);
}

static void through_a_file(void **state)
{
    (void)state;
    sp_graph *g = typed(zoo("dlrm", "16x4:0.85", SMALL_DLRM));
    sparta_package *p = compile(zoo("dlrm", "16x4:0.85", SMALL_DLRM)), *read = NULL;
    ok(sparta_package_save(cx, p, in_root("dlrm.sparta")));
    ok(sparta_package_open(cx, in_root("dlrm.sparta"), &read));
    sparta_session *s = session(read, 2);
    inputs in = make_inputs(read->plan, 77, 1, 3);
    agree(s, read, g, &in, "read");
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(read);
    sparta_package_close(p);
    sp_graph_free(g);
}

/* Plans from a file may be anything: an error, no crash. */
static void odd_plans(void **state)
{
    (void)state;
#define PLAN(vectors)                                                                                        \
    "graph \"t\"\ninput ids: i64[batch]\ninput x: f32[batch,8]\nconst a: f32[9,8] @\"a\"\n"                  \
    "const pairs: i64[1,2] = [1,0]\n"                                                                        \
    "node p: f32[batch,8] = Identity(x) {layout=\"panel\", kernel=\"to_lanes\"} \"p\"\n"                     \
    "node e: f32[batch,8] = sparta::Embed(a, ids) {layout=\"panel\", kernel=\"embed\"} \"e\"\n"              \
    "node z: f32[batch,1] = sparta::Interact(" vectors ") {layout=\"panel\", kernel=\"interact\"} \"z\"\n"   \
    "node y: f32[batch,1] = Identity(z) {kernel=\"to_rows\"} \"y\"\noutput y\n"
    static const struct {
        const char *text;
        sparta_status status;
    } plans[] = {{PLAN("p, e, pairs"), SPARTA_OK},       {PLAN("p, pairs"), SPARTA_E_FORMAT},
                 {PLAN("p, e, x"), SPARTA_E_FORMAT},     {PLAN("p, x, pairs"), SPARTA_E_FORMAT},
                 {PLAN("e, e, pairs"), SPARTA_OK},       {PLAN("p, e, e, pairs"), SPARTA_OK},
                 {PLAN("pairs, pairs"), SPARTA_E_FORMAT}};
    for (size_t i = 0; i < SP_COUNT(plans); i++) {
        sparta_package *p;
        ok(sp_package_create(cx, &p));
        p->plan = graph(plans[i].text);
        sparta_session_options o = {.size = sizeof o, .threads = 1};
        sparta_named_tensor out = {.name = "y"};
        sparta_session *s = NULL;
        inputs in = make_inputs(p->plan, 70, 1, 3);
        sparta_status status = sparta_session_create(cx, p, &o, &s);
        if (!status) status = sparta_session_run(cx, s, in.in, in.n, &out, 1);
        if (status != plans[i].status) fail_msg("plan %zu: %s", i, status ? sparta_message(cx) : "ran");
        sparta_session_free(s);
        free_inputs(&in);
        sparta_package_close(p);
    }
}

static void memory_may_fail(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("dlrm", NULL, "rows=3 tables=2 columns=8"));
    inputs in = make_inputs(p->plan, 70, 1, 3);
    bool done = false;
    for (uint64_t n = 1; !done && n < 5000; n++) {
        sparta_session_options o = {.size = sizeof o, .threads = 1};
        sparta_named_tensor out = {.name = "probability"};
        sparta_session *s = NULL;
        sp_ctx_fail_alloc(cx, n, true);
        sparta_status status = sparta_session_create(cx, p, &o, &s);
        if (!status) status = sparta_session_run(cx, s, in.in, in.n, &out, 1);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_true(status == SPARTA_OK || status == SPARTA_E_MEMORY);
        done = status == SPARTA_OK;
        sparta_session_free(s);
    }
    assert_true(done);
    free_inputs(&in);
    sparta_package_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_number_of_items, enter, leave),
        cmocka_unit_test_setup_teardown(generated_ids_fit, enter, leave),
        cmocka_unit_test_setup_teardown(wrong_ids_are_refused, enter, leave),
        cmocka_unit_test_setup_teardown(ids_may_move, enter, leave),
        cmocka_unit_test_setup_teardown(lookups_that_are_stored, enter, leave),
        cmocka_unit_test_setup_teardown(through_a_file, enter, leave),
        cmocka_unit_test_setup_teardown(odd_plans, enter, leave),
        cmocka_unit_test_setup_teardown(memory_may_fail, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
