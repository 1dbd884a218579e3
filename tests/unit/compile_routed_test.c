/* Attention whose keys are listed as the model runs: lists that Route makes and lists that no Route would make, by the kernel that skips, by the one that
 * hides, by any number of threads, against the references; Route by hand; no memory. */
#include "models.h"
#include "builtin/builtin.h"
#include "compile/lower.h"

#define LISTED(more)                                                                                         \
    "graph \"g\"\ninput q: f32[2,70,12]\ninput k: f32[2,90,6]\ninput v: f32[2,90,7]\ninput l: "              \
    "i32[2,2,5,4]\n"                                                                                         \
    "node y: ? = sparta::Attention(q, k, v, _, l) {heads=2, kv_heads=1, block=16" more                       \
    "} \"/y\"\noutput y\n"
#define ROUTED                                                                                               \
    "graph \"g\"\ninput q: f32[batch,2,sequence,6]\ninput k: f32[batch,2,6,sequence]\n"                      \
    "input v: f32[batch,2,sequence,5]\nnode s: ? = MatMul(q, k) \"/s\"\nnode p: ? = Softmax(s) \"/p\"\n"     \
    "node y: ? = MatMul(p, v) \"/y\"\noutput y\n"

/* ------------------------------------------------------------------ lists of others */

static void set_list(inputs *in, const int32_t *row)
{
    int32_t *list = in->in[3].tensor.data;
    for (int i = 0; i < 2 * 2 * 5 * 4; i++) list[i] = row[i % 4];
}

static void try_list(const char *text, const int32_t *row, bool dense)
{
    sp_compile_request r = quick();
    r.options.dense_only = dense;
    sp_graph *same = typed(graph(text));
    sparta_package *p = compile_in(cx, graph(text), r);
    assert_string_equal(said_of(node_named(p, "/y"), "implement"), dense ? "attention" : "attention_skip");
    assert_non_null(
        strstr(said_of(node_named(p, "/y"), "reason"), dense ? "dense implements only" : "skipped"));
    inputs in = make_inputs(same, 1, 1, 5);
    set_list(&in, row);
    results want = reference(same, &in), first = {0};
    for (int threads = 1; threads <= 3; threads++) {
        sparta_session *s = session(p, threads);
        results got = run(s, p, &in);
        close_enough(&got, &want, 1e-5, "listed");
        if (threads > 1) same_bits(&got, &first, "threads");
        if (threads > 1)
            free_results(&got);
        else
            first = got;
        sparta_session_free(s);
    }
    free_results(&first), free_results(&want);
    free_inputs(&in);
    sparta_package_close(p);
    sp_graph_free(same);
}

static void lists_are_read_with_care(void **state)
{
    (void)state;
    static const int32_t lists[][4] = {
        {0, 1, 2, 3},  {1, 3, 5, -1}, {5, -1, -1, -1},      {2, 2, 2, 2},
        {4, 1, 5, 0},  {3, 6, 7, 5},  {INT32_MAX, 1, 0, 4}, {INT32_MIN, 0, INT32_MIN, 3},
        {-1, 4, -7, 5}};
    for (size_t i = 0; i < SP_COUNT(lists); i++) {
        try_list(LISTED(""), lists[i], i % 2 == 1);
        try_list(LISTED(", left=9, right=0"), lists[i], i % 2 == 0);
    }
    /* nothing is seen */
    try_list(LISTED(", nan_to_zero=1"), (int32_t[]){-1, -1, -1, -1}, false);
    try_list(LISTED(", nan_to_zero=1"), (int32_t[]){6, 99, -5, INT32_MAX}, true);
}

static void refused(const char *text, const char *message)
{
    sp_graph *g = graph(text);
    assert_int_equal(sp_ops_infer(g), SPARTA_E_SHAPE);
    if (!strstr(sparta_message(cx), message)) fail_msg("'%s' does not say '%s'", sparta_message(cx), message);
    sp_ctx_clear(cx);
    sp_graph_free(g);
}

#define ROUTE(list)                                                                                          \
    "graph \"g\"\ninput q: f32[2,8,4]\ninput k: f32[2,9,4]\nnode y: ? = sparta::Route(q, k) {" list          \
    "}\noutput y\n"

static void shapes_are_checked(void **state)
{
    (void)state;
    refused("graph \"g\"\ninput q: f32[2,70,12]\ninput l: i32[2,2,4,4]\nnode y: ? = sparta::Attention(q, q, "
            "q, _, l) "
            "{heads=2, block=16}\noutput y\n",
            "blocks of queries");
    refused("graph \"g\"\ninput q: f32[2,70,12]\ninput l: i32[2,2,5,4]\nnode y: ? = sparta::Attention(q, q, "
            "q, _, l) "
            "{heads=2, block=0}\noutput y\n",
            "block is 0");
    refused(ROUTE("keep=0"), "both must be at least 1");
    refused(ROUTE("keep=1, block=-3"), "both must be at least 1");
    refused(ROUTE("keep=1, heads=3"), "do not divide into heads");
    refused(ROUTE("keep=1, heads=4, kv_heads=3"), "no multiple");
    refused(ROUTE("keep=1, own=1"), "with own");
    refused("graph \"g\"\ninput x: f32[4,4]\nnode y: ? = sparta::Sparsify(x, x) {keep=1}\noutput y\n",
            "it takes x, or x, q and k");
    refused("graph \"g\"\ninput x: f32[4,4]\ninput q: f32[5,2]\ninput k: f32[2,4]\n"
            "node y: ? = sparta::Sparsify(x, q, k) {keep=1}\noutput y\n",
            "rows of x and of q");
}

/* ------------------------------------------------------------------ by hand */

static void route(const float *q, const float *k, const float *mask, const sp_attrs *attrs,
                  const int32_t want[4])
{
    int32_t got[4];
    const int64_t rows[] = {1, 4, 1}, list[] = {1, 1, 2, 2}, full[] = {4, 4};
    const sparta_tensor in[] = {sparta_tensor_view(SPARTA_F32, 3, rows, (void *)(uintptr_t)q),
                                sparta_tensor_view(SPARTA_F32, 3, rows, (void *)(uintptr_t)k),
                                sparta_tensor_view(SPARTA_F32, 2, full, (void *)(uintptr_t)mask)},
                        out = sparta_tensor_view(SPARTA_I32, 4, list, got);
    ok(sp_builtin_run(cx, SP_OP_Route, &(sp_op_args){attrs, mask ? 3 : 2, 1, in, &out}));
    assert_memory_equal(got, want, sizeof got);
}

#define KEEP(n, own) SP_ATTRS(SP_INT("block", 2), SP_INT("keep", n), SP_INT("own", own))

static void means_decide(void **state)
{
    (void)state;
    const float q[] = {1, 1, -1, -1}, k[] = {1, 2, 5, 6}, nan[] = {NAN, 0, 9, 9}, same[] = {1, 1, 1, 1};
    float mask[16] = {0};
    route(q, k, NULL, KEEP(1, 0), (int32_t[]){1, -1, 0, -1});
    route(q, k, NULL, KEEP(1, 1), (int32_t[]){0, 1, 0, 1});
    route(q, k, NULL, KEEP(9, 0), (int32_t[]){0, 1, 0, 1});
    route(q, nan, NULL, KEEP(1, 0), (int32_t[]){0, -1, 0, -1});
    route(q, same, NULL, KEEP(1, 0), (int32_t[]){0, -1, 0, -1});
    for (int i = 0; i < 16; i++) mask[i] = i % 4 / 2 ? -INFINITY : 0; /* nobody sees block 1 */
    route(q, k, mask, KEEP(2, 0), (int32_t[]){0, -1, 0, -1});
    for (int i = 0; i < 16; i++) mask[i] = -INFINITY; /* nobody sees anything: as if there were no mask */
    route(q, k, mask, KEEP(1, 0), (int32_t[]){1, -1, 0, -1});
    mask[3] = -4999; /* one pair that is seen is enough */
    route(q, k, mask, KEEP(2, 0), (int32_t[]){1, -1, 0, 1});
    route(q, k, NULL, SP_ATTRS(SP_INT("block", 2), SP_INT("keep", 2), SP_INT("right", 0)),
          (int32_t[]){0, -1, 0, 1});
}

/* ------------------------------------------------------------------ from a schedule */

static sparta_status try_routed(sparta_ctx *c, const char *rules, const char *target, sparta_package **p)
{
    sp_obeyed o = {0};
    sparta_schedule *s = NULL;
    sp_graph *g = NULL;
    sp_compile_request r = quick();
    r.options.target = target;
    sparta_status status = sparta_schedule_parse(c, rules, "s", root, &s);
    if (status == SPARTA_OK) status = sp_graph_parse(c, ROUTED, NULL, NULL, &g);
    if (status == SPARTA_OK) status = sp_compile_schedule(c, g, s, &o);
    r.obeyed = &o;
    if (status == SPARTA_OK) {
        status = sp_compile_graph(c, g, &r, p);
        if (status == SPARTA_OK) g = NULL; /* the package's */
    }
    sp_graph_free(g);
    sparta_schedule_free(s);
    return status;
}

static void packages_are_written_and_read(void **state)
{
    (void)state;
    sparta_package *p = NULL, *again = NULL;
    sp_obeyed o;
    sparta_schedule *s;
    static const char rules[] = "tensor \"/p:input\" { sparsify similarity(topk=2, block=16) }";
    ok(try_routed(cx, rules, NULL, &p));
    ok(sparta_package_save(cx, p, in_root("routed.sparta")));
    sparta_package_close(p);
    ok(sparta_package_open(cx, in_root("routed.sparta"), &again));
    ok(sparta_package_check(cx, again));
    sp_graph *same = graph(ROUTED);
    ok(sparta_schedule_parse(cx, rules, "s", root, &s));
    ok(sp_compile_schedule(cx, same, s, &o));
    static const int64_t lengths[] = {1, 15, 64, 131};
    for (size_t i = 0; i < SP_COUNT(lengths); i++) {
        inputs in = make_inputs(typed(same), 3, lengths[i], 7 + i);
        results want = reference(same, &in);
        sparta_session *one = session(again, 2);
        results got = run(one, again, &in);
        close_enough(&got, &want, 1e-5, "read again");
        free_results(&got), free_results(&want), free_inputs(&in);
        sparta_session_free(one);
    }
    sparta_schedule_free(s);
    sp_graph_free(same);
    sparta_package_close(again);
}

/* A run: Route and Sparsify by themselves, which take memory. */
static sparta_status compute(sparta_ctx *c)
{
    float x[4] = {1, 2, 3, 4}, y[4];
    int32_t list[2];
    const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 2}, x),
                        q = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, 2, 2}, x),
                        to = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 2}, y),
                        l = sparta_tensor_view(SPARTA_I32, 4, (int64_t[]){1, 1, 2, 1}, list);
    const sp_attrs *attrs = SP_ATTRS(SP_INT("keep", 1));
    SP_TRY(sp_builtin_run(c, SP_OP_Route, &(sp_op_args){attrs, 2, 1, (sparta_tensor[]){q, q}, &l}));
    return sp_builtin_run(c, SP_OP_Sparsify, &(sp_op_args){attrs, 3, 1, (sparta_tensor[]){t, t, t}, &to});
}

/* Whichever allocation fails: E_MEMORY, and nothing is lost. */
static void memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        sparta_ctx *c = context(cache, NULL);
        sparta_package *p = NULL;
        sp_ctx_fail_alloc(c, n, true);
        sparta_status s = compute(c);
        if (s == SPARTA_OK)
            s = try_routed(c, "tensor \"/p:input\" { sparsify similarity(topk=2, block=16) }", "portable",
                           &p);
        sparta_package_close(p);
        const bool reached = sp_ctx_alloc_count(c) >= n;
        if (s != (reached ? SPARTA_E_MEMORY : SPARTA_OK))
            fail_msg("allocation %lu: %s: %s", (unsigned long)n, sparta_status_name(s), sparta_message(c));
        if (sp_ctx_memory(c)) fail_msg("allocation %lu: bytes are lost", (unsigned long)n);
        sparta_ctx_free(c);
        if (!reached) break;
    }
}

static const sp_node *attention_of(const sparta_package *p)
{
    for (int i = 0; i < p->plan->n_nodes; i++)
        if (p->plan->node[i]->op == SP_OP_Attention) return p->plan->node[i];
    fail_msg("there is no Attention");
    return NULL;
}

/* 0 x Inf counts: nothing may be skipped. */
static void strict_models_do_not_skip(void **state)
{
    (void)state;
    sparta_ctx_options strict = SPARTA_OPTIONS(sparta_ctx_options);
    strict.strict = 1;
    strict.cache_dir = cache;
    sparta_ctx *c = sparta_ctx_create(&strict);
    sparta_package *p = NULL;
    ok_in(c, try_routed(c, "tensor \"/p:input\" { sparsify similarity(topk=2, block=16) }", NULL, &p));
    assert_string_equal(said_of(attention_of(p), "implement"), "attention");
    assert_non_null(strstr(said_of(attention_of(p), "reason"), "0 x Inf"));
    sparta_package_close(p);
    sparta_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_with_care),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(means_decide),
        cmocka_unit_test(packages_are_written_and_read),
        cmocka_unit_test(strict_models_do_not_skip),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
