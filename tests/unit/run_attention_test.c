/* Attention in sessions, with the product that makes its q, k and v: at whole panels a thread takes one head of k and v with all heads of q that
 * share it, at other lengths panel by panel. Windows, masks and groups, every number of threads. */
#include "models.h"

#define QKV(n)                                                                                               \
    "graph \"g\"\ninput x: f32[batch,sequence,24]\nconst w: f32[24," n "] @\"w\"\n"                          \
    "node h: ? = sparta::Linear(x, w) {transposed=0, epilogue=\"\"} \"h\"\n"
#define ATTEND(parts, in, how)                                                                               \
    "const parts: i64[3] = " parts "\nnode q: ?, k: ?, v: ? = Split(h, parts) {axis=-1}\n"                   \
    "node y: ? = sparta::Attention(" in ") {" how "} \"y\"\noutput y\n"

static const char *const texts[] = {
    QKV("64") ATTEND("[32,16,16]", "q, k, v", "heads=4, kv_heads=2, right=0"),
    QKV("60") ATTEND("[36,12,12]", "q, k, v", "heads=6, kv_heads=2, left=9, right=3"),
    QKV("50") ATTEND("[30,10,10]", "q, k, v",
                     "heads=3, kv_heads=1, softcap=1.5"), /* heads across strips of 4 rows */
    QKV("72") "input mask: f32[1,4,sequence,sequence]\n" ATTEND("[32,16,24]", "q, k, v, mask",
                                                                "heads=4, kv_heads=2, right=0"),
};

static void folded_or_not(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 63, 64, 65, 128, 192};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_graph *want = typed(graph(texts[i]));
        sparta_package *p = compile(graph(texts[i]));
        for (int k = 0; k < p->plan->n_nodes; k++)
            if (p->plan->node[k]->op == SP_OP_Attention)
                assert_string_equal(sp_attr_string(&p->plan->node[k]->attrs, "kernel", ""), "attention");
        for (int threads = 1; threads <= 3; threads++) {
            sparta_session *s = session(p, threads);
            for (size_t k = 0; k < SP_COUNT(lengths); k++) {
                char what[64];
                inputs in = make_inputs(want, 1 + (int64_t)k % 3, lengths[k], k + 1);
                results expected = reference(want, &in), got = run(s, p, &in);
                snprintf(what, sizeof what, "text %zu, %ld tokens, %d threads", i, (long)lengths[k], threads);
                close_enough(&got, &expected, 1e-5, what);
                free_results(&got);
                free_results(&expected);
                free_inputs(&in);
            }
            sparta_session_free(s);
        }
        sparta_package_close(p);
        sp_graph_free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(folded_or_not, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
