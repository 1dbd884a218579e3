/* Sizes that must be equal and are not known to be: a symbol becomes what the model's own nodes say it is, and what is left is compared by
 * every run, on the references and in sessions, before anything is computed. */
#include "models.h"

static sp_graph *inferred(const char *text)
{
    sp_graph *g = NULL;
    if (sp_graph_parse(cx, text, NULL, NULL, &g) != SPARTA_OK) fail_msg("%s", sparta_message(cx));
    if (sp_ops_infer(g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    return g;
}

/* Dims of all inputs, one after the other. */
static void inputs_become(const char *text, const char *want, int musts)
{
    sp_graph *g = inferred(text);
    sp_text t;
    sp_text_init(&t, cx);
    for (int i = 0; i < g->n_inputs; i++) sp_dims_print(&g->input[i]->dims, &t);
    assert_string_equal(sp_text_str(&t), want);
    assert_int_equal(g->n_musts, musts);
    assert_int_equal(sp_ops_infer(g), SPARTA_OK); /* and stays so */
    assert_int_equal(g->n_musts, musts);
    sp_text_free(&t);
    sp_graph_free(g);
}

#define HEAD "graph \"g\"\n"

static void symbols_become_one(void **state)
{
    (void)state;
    inputs_become(HEAD "input a: f32[n,4]\ninput b: f32[m,4]\nnode y: ? = Add(a, b)\noutput y\n",
                  "[n,4][n,4]", 0);
    inputs_become(HEAD "input a: f32[n]\nconst c: f32[3] = [1,2,3]\nnode y: ? = Mul(a, c)\noutput y\n", "[3]",
                  0);
    /* the mask of a decoder is as long as past and present together */
    inputs_become(HEAD "input past: f32[p]\ninput now: f32[s]\ninput mask: f32[total]\n"
                       "node all: ? = Concat(past, now) {axis=0}\nnode y: ? = Mul(all, mask)\noutput y\n",
                  "[p][s][p+s]", 0);
    /* one that is 1 broadcasts, as ever */
    inputs_become(HEAD "input a: f32[n,1]\ninput b: f32[1,m]\nnode y: ? = Add(a, b)\noutput y\n",
                  "[n,1][1,m]", 0);
    /* a Reshape to another's batch, as GPT-2 has it */
    inputs_become(HEAD "input ids: i64[b1,s1]\ninput mask: i64[b2,s2]\nconst zero: i64[1] = [0]\n"
                       "const rest: i64[1] = [-1]\nnode s: ? = Shape(ids)\nnode b: ? = Gather(s, zero)\n"
                       "node to: ? = Concat(b, rest) {axis=0}\nnode y: ? = Reshape(mask, to)\noutput y\n",
                  "[b1,s1][b1,s2]", 0);
    /* what Squeeze takes away is 1 */
    inputs_become(HEAD
                  "input a: f32[n,m]\nconst axes: i64[1] = [0]\nnode y: ? = Squeeze(a, axes)\noutput y\n",
                  "[1,m]", 0);
    sp_ctx_forget_notes(cx);
}

/* Half of n, rounded up, is 1 for one and two alone. */
static void squeezes_compare(void **state)
{
    (void)state;
    sp_graph *g =
        inferred(HEAD "input x: f32[n]\nconst from: i64[1] = [0]\nconst to: i64[1] = [9223372036854775807]\n"
                      "const by: i64[1] = [2]\nnode h: ? = Slice(x, from, to, from, by)\n"
                      "node y: ? = Squeeze(h, from) \"one\"\noutput y\n");
    assert_int_equal(g->n_musts, 1);
    for (int64_t n = 1; n <= 3; n++) {
        float x[3] = {7, 8, 9};
        const sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){n}, x)};
        sparta_tensor out = {0};
        assert_int_equal(sp_ops_run(cx, g, &in, 1, &out, NULL, NULL), n < 3 ? SPARTA_OK : SPARTA_E_SHAPE);
        if (n < 3) assert_true(out.rank == 0 && *(const float *)out.data == 7);
        sp_free(cx, out.data);
    }
    sp_graph_free(g);
}

/* Half, and twice that again: right for even sizes alone. */
#define EVEN                                                                                                 \
    HEAD "input x: f32[n,2]\nconst two: i64[2] = [2,-1]\nconst s: i64[2] = [-1,2]\n"                         \
         "const from: i64[1] = [0]\nconst to: i64[1] = [9223372036854775807]\nconst by: i64[1] = [2]\n"      \
         "const axis: i64[1] = [0]\nnode h: ? = Slice(x, from, to, axis, by) \"half\"\n"                     \
         "node d: ? = Concat(h, h) {axis=0} \"twice\"\nnode y: ? = Add(x, d) \"sum\"\noutput y\n"

static void runs_compare(void **state)
{
    (void)state;
    sp_graph *g = inferred(EVEN);
    assert_int_equal(g->n_musts, 1);
    for (int64_t n = 3; n <= 4; n++) {
        float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        const sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){n, 2}, x)};
        sparta_tensor out = {0};
        const sparta_status s = sp_ops_run(cx, g, &in, 1, &out, NULL, NULL);
        assert_int_equal(s, n == 4 ? SPARTA_OK : SPARTA_E_SHAPE);
        if (s) assert_non_null(strstr(sparta_message(cx), "node 'sum': two sizes that must be equal differ"));
        sp_free(cx, out.data);
    }
    sp_graph_free(g);
}

/* The plan keeps it, through its text. */
static void sessions_compare(void **state)
{
    (void)state;
    sparta_package *p = compile(inferred(EVEN));
    sp_text t;
    sp_text_init(&t, cx);
    sp_graph_print(p->plan, &t);
    assert_non_null(strstr(sp_text_str(&t), "must   [n,2*((n+1)/2)] \"sum\""));
    sp_text_free(&t);
    sparta_session *s = session(p, 1);
    for (int64_t n = 5; n >= 2; n--) {
        float x[10] = {0};
        const sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){n, 2}, x)};
        sparta_named_tensor out = {.name = "y"};
        assert_int_equal(sparta_session_run(cx, s, &in, 1, &out, 1), n % 2 ? SPARTA_E_SHAPE : SPARTA_OK);
    }
    sparta_session_free(s);
    sparta_package_close(p);
}

/* An input whose size follows from those of others. */
static void arithmetic_of_inputs(void **state)
{
    (void)state;
    sparta_package *p = compile(
        inferred(HEAD "input past: f32[p]\ninput now: f32[s]\ninput mask: f32[total]\n"
                      "node all: ? = Concat(past, now) {axis=0}\nnode y: ? = Mul(all, mask)\noutput y\n"));
    sparta_session *s = session(p, 1);
    float x[8] = {0};
    for (int64_t total = 4; total <= 6; total++) {
        const sparta_named_tensor in[] = {{"past", sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){3}, x)},
                                          {"now", sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){2}, x)},
                                          {"mask", sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){total}, x)}};
        sparta_named_tensor out = {.name = "y"};
        assert_int_equal(sparta_session_run(cx, s, in, 3, &out, 1), total == 5 ? SPARTA_OK : SPARTA_E_SHAPE);
    }
    sparta_session_free(s);
    sparta_package_close(p);
}

/* Default sizes are such that every must holds. */
static void defaults_hold(void **state)
{
    (void)state;
    sp_graph *g = inferred(EVEN);
    const char *const name[] = {"n"};
    const bool fixed[] = {false};
    int64_t value[] = {1};
    assert_int_equal(sp_sizes_that_run(cx, g, 1, name, fixed, value), SPARTA_OK);
    assert_int_equal(value[0], 2);
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_become_one),   cmocka_unit_test(squeezes_compare),
        cmocka_unit_test(runs_compare),         cmocka_unit_test(sessions_compare),
        cmocka_unit_test(arithmetic_of_inputs), cmocka_unit_test(defaults_hold),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
