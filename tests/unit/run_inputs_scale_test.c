/* Models of very many inputs: the time to run grows with their number, not with its square, in a session and in the reference.
 * (Alone: it compares times.) */
#include "models.h"
#include "ops/ops.h"
#include <time.h>

typedef struct times {
    double session, reference;
} times;

static sp_graph *with_inputs(int n, const sparta_named_tensor *in)
{
    sp_text t;
    sp_graph *g = NULL;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "graph \"g\"\n");
    for (int i = 0; i < n; i++) sp_text_printf(&t, "input %s: f32[1]\n", in[i].name);
    sp_text_printf(&t, "node y: f32[1] = Relu(input0)\noutput y\n");
    ok(sp_graph_parse(cx, sp_text_str(&t), NULL, NULL, &g));
    sp_text_free(&t);
    return g;
}

static double since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static times seconds(int n)
{
    float one = 1;
    char(*text)[16] = calloc((size_t)n, sizeof *text);
    sparta_named_tensor *in = calloc((size_t)n, sizeof *in), out = {.name = "y"};
    sparta_tensor made;
    times taken;
    assert_true(text && in);
    for (int i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "input%d", i);
        in[i] = (sparta_named_tensor){text[i], sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){1}, &one)};
    }
    sp_graph *g = with_inputs(n, in);
    clock_t start = clock();
    ok(sp_ops_run(cx, g, in, n, &made, NULL, NULL));
    taken.reference = since(start);
    sp_free(cx, made.data);
    sparta_package *p = compile(g);
    sparta_session *s = session(p, 1);
    start = clock();
    ok(sparta_session_run(cx, s, in, n, &out, 1));
    taken.session = since(start);
    assert_true(*(const float *)out.tensor.data == 1);
    sparta_session_free(s);
    sparta_package_close(p);
    free(text);
    free(in);
    return taken;
}

static void many_inputs(void **state)
{
    (void)state;
    const times some = seconds(8000), more = seconds(32000);
    if (more.session > 8 * some.session + 0.2)
        fail_msg("session: %.2f s for 8,000 inputs and %.2f s for 32,000", some.session, more.session);
    if (more.reference > 8 * some.reference + 0.2)
        fail_msg("reference: %.2f s for 8,000 inputs and %.2f s for 32,000", some.reference, more.reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_inputs)};
    return cmocka_run_group_tests(tests, enter, leave);
}
