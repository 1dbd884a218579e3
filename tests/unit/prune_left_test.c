/* Every matrix-like weight of a graph is pruned or left, once, with the reason that who reads it gives. */
#include "models.h"
#include "prune/prune.h"

static const char *const text =
    "graph \"g\"\ninput x: f32[batch,8]\ninput ids: i64[batch]\ninput image: f32[1,3,8,8]\n"
    "const wide: f32[8,12] @\"wide\"\nconst turned: f32[6,12] @\"turned\"\n"
    "const kernel: f32[4,3,3,3] @\"kernel\"\nconst table: f32[20,8] @\"table\"\n"
    "const tied: f32[20,8] @\"tied\"\nconst stack: f32[3,8,4] @\"stack\"\nconst mixed: f32[5,8,4] "
    "@\"mixed\"\n"
    "const one: f32[1,8,4] @\"one\"\nconst place: f32[9,8] @\"place\"\nconst bias: f32[12] @\"bias\"\n"
    "const first: i64[1] = [0]\nconst column: f32[8,1] @\"column\"\n"
    "node a: ? = MatMul(x, wide) \"a\"\nnode ab: ? = Add(a, bias) \"ab\"\n"
    "node b: ? = Gemm(ab, turned) {transB=1} \"b\"\n"
    "node c: ? = Conv(image, kernel) \"c\"\nnode d: ? = Gather(table, ids) \"d\"\n"
    "node e: ? = Gather(tied, ids) \"e\"\nnode t: ? = Transpose(tied) {perm=[1,0]} \"t\"\n"
    "node f: ? = MatMul(x, t) \"f\"\nnode h: ? = MatMul(x, stack) \"h\"\n"
    "node i: ? = Gather(mixed, first) \"i\"\nnode k: ? = MatMul(x, i) \"k\"\n"
    "node l: ? = MatMul(x, one) \"l\"\nnode m: ? = MatMul(place, wide) \"m\"\nnode n: ? = MatMul(x, column) "
    "\"n\"\n"
    "output b\noutput c\noutput d\noutput e\noutput f\noutput h\noutput k\noutput l\noutput m\noutput n\n";

static sp_left *find(sp_left *left, int n, const char *name)
{
    sp_left *found = NULL;
    for (int i = 0; i < n; i++)
        if (!strcmp(left[i].weight, name)) {
            assert_null(found); /* once */
            found = &left[i];
        }
    return found;
}

static void each_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        const char *weight;
        sparta_left why;
    } want[] = {{"kernel", SPARTA_LEFT_CONVOLUTION}, {"table", SPARTA_LEFT_EMBEDDING},
                {"tied", SPARTA_LEFT_TIED},          {"stack", SPARTA_LEFT_EXPERTS},
                {"mixed", SPARTA_LEFT_EXPERTS},      {"one", SPARTA_LEFT_OTHER},
                {"place", SPARTA_LEFT_OTHER}};
    sp_graph *g = graph(text);
    sp_schedule_match *match;
    sp_left *left;
    int n_match, n;
    ok(sp_prune_weights(g, g->arena, &match, &n_match));
    ok(sp_prune_left(g, match, n_match, g->arena, &left, &n));
    assert_int_equal(n_match, 3); /* wide, turned, column */
    for (size_t i = 0; i < SP_COUNT(want); i++) {
        const sp_left *l = find(left, n, want[i].weight);
        if (!l || l->why != want[i].why)
            fail_msg("%s: %s", want[i].weight, l ? sparta_left_reason(l->why) : "not listed");
    }
    assert_int_equal(n, SP_COUNT(want));
    sp_graph_free(g);
}

/* A model of convolutions alone: the message has the reason. */
static void nothing_but_others(void **state)
{
    (void)state;
    sp_graph *g = graph("graph \"g\"\ninput image: f32[1,3,8,8]\nconst kernel: f32[4,3,3,3] @\"kernel\"\n"
                        "node c: ? = Conv(image, kernel) \"c\"\noutput c\n");
    sp_schedule_match *match;
    int n;
    fails_saying(SPARTA_E_USAGE, "'kernel': a convolution", sp_prune_weights(g, g->arena, &match, &n));
    sp_graph_free(g);
}

static void reasons(void **state)
{
    (void)state;
    for (int i = 0; i <= SPARTA_LEFT_OTHER; i++) assert_true(*sparta_left_reason((sparta_left)i));
    assert_string_equal(sparta_left_reason((sparta_left)(SPARTA_LEFT_OTHER + 1)), "");
    assert_string_equal(sparta_left_reason((sparta_left)-1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_with_its_reason),
        cmocka_unit_test(nothing_but_others),
        cmocka_unit_test(reasons),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
