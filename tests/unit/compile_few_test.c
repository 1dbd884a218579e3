/* Models whose tokens are few and known to be: their products stay in rows, by the implements few_*; with a batch that may be anything they
 * do not. Threads, packages written and read, damaged ones, and what happens without memory. (Slow: make test only.) */
#include "models.h"
#include "compile/lower.h"
#include "package_damage.h"

/* Two products with every epilogue: bias and ReLU; bias and residual before a normalisation. Sizes that nothing divides. */
#define MODEL(batch, prune)                                                                                  \
    "graph \"g\"\ninput x: f32[" batch ",42]\nconst w: f32[42,375] @\"w|" prune                              \
    "\"\nconst b: f32[375] @\"b\"\nconst v: f32[375,42] @\"v|" prune "\"\nconst c: f32[42] @\"c\"\n"         \
    "const gain: f32[42] @\"gain\"\nnode h: ? = MatMul(x, w) \"/h\"\nnode i: ? = Add(h, b) \"/i\"\n"         \
    "node j: ? = Relu(i) \"/j\"\nnode k: ? = MatMul(j, v) \"/k\"\nnode l: ? = Add(k, c) \"/l\"\n"            \
    "node m: ? = Add(l, x) \"/m\"\nnode n: ? = LayerNormalization(m, gain) \"/n\"\noutput n\n"

static bool is_few(const sp_node *n)
{
    const bool few = !strncmp(said_of(n, "implement"), "few_", 4);
    if (few) {
        assert_string_equal(said_of(n, "kernel"), "few");
        assert_string_equal(said_of(n, "layout"), ""); /* rows */
        assert_int_equal(sp_attr_int(&n->attrs, "stat", 0), 0);
    }
    return few;
}

/* Compiled, against the references, on one thread and on two, from memory and from a file. */
static void try_graph(const char *text, sp_graph *from, sp_compile_request request, int64_t batch, bool few)
{
    sp_graph *g = typed(graph(text));
    sparta_package *p = compile_in(cx, from, request), *again = NULL;
    inputs in = make_inputs(g, batch, 1, 5);
    results want = reference(g, &in);
    assert_int_equal(is_few(node_named(p, "/h")), few);
    assert_int_equal(is_few(node_named(p, "/k")), few);
    ok(sparta_package_save(cx, p, in_root("few.sparta")));
    ok(sparta_package_open(cx, in_root("few.sparta"), &again));
    ok(sparta_package_check(cx, again));
    results first = {0};
    for (int i = 0; i < 6; i++) {
        const sparta_package *q = i < 3 ? p : again;
        sparta_session *s = session(q, 1 + i % 3);
        results got = run(s, q, &in), second = run(s, q, &in);
        close_enough(&got, &want, 1e-5, text);
        same_bits(&got, &second, text);
        if (i) same_bits(&got, &first, text);
        if (i)
            free_results(&got);
        else
            first = got;
        free_results(&second);
        sparta_session_free(s);
    }
    free_results(&first);
    free_results(&want);
    free_inputs(&in);
    sparta_package_close(again);
    sparta_package_close(p);
    sp_graph_free(g);
}

static void try_model(const char *text, sp_compile_request request, int64_t batch, bool few)
{
    try_graph(text, graph(text), request, batch, few);
}

static void fixed_batches_stay_in_rows(void **state)
{
    (void)state;
    try_model(MODEL("1", "1x1:0.5"), quick(), 1, true);
    try_model(MODEL("1", "1x1:0.97"), quick(), 1, true);
    try_model(MODEL("1", "16x1:0.8"), quick(), 1, true);
    try_model(MODEL("3", "1x1:0.7"), quick(), 3, true);
    try_model(MODEL("4", "rows:0.5"), quick(), 4, true);
}

/* A schedule may ask for each of them where nothing is pruned: whether it is worth it is no question then. */
static void pinned_on_dense_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"few_bitmap", "few_strip16", "few_csr", "few_dense"};
    const char *text = MODEL("3", "1x1:0");
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        char rules[80];
        sparta_schedule *s;
        sp_obeyed o;
        sp_compile_request r = quick();
        sp_graph *g = typed(graph(text));
        snprintf(rules, sizeof rules, "tensor \"*\" { implement %s }", names[i]);
        ok(sparta_schedule_parse(cx, rules, "s", root, &s));
        ok(sp_compile_schedule(cx, g, s, &o));
        r.obeyed = &o;
        try_graph(text, g, r, 3, true);
        sparta_schedule_free(s);
    }
}

/* 16 may be faster either way; it has to be right. */
static void sixteen_and_seventeen(void **state)
{
    (void)state;
    sp_compile_request timed = {.options = {.size = sizeof(sparta_compile_options), .db = database}};
    sp_graph *g = typed(graph(MODEL("16", "1x1:0.8")));
    sparta_package *p = compile_in(cx, graph(MODEL("16", "1x1:0.8")), timed);
    inputs in = make_inputs(g, 16, 1, 5);
    results want = reference(g, &in);
    for (int threads = 1; threads <= 2; threads++) {
        sparta_session *s = session(p, threads);
        results got = run(s, p, &in);
        close_enough(&got, &want, 1e-5, "16 tokens");
        free_results(&got);
        sparta_session_free(s);
    }
    free_results(&want);
    free_inputs(&in);
    sparta_package_close(p);
    sp_graph_free(g);
    try_model(MODEL("17", "1x1:0.8"), quick(), 17, false);
}

static void a_batch_that_may_be_anything_does_not(void **state)
{
    (void)state;
    sp_ctx_clear(cx);
    sparta_package_close(
        compile(graph(MODEL("batch", "1x1:0.8")))); /* how many cannot be told, which is no failure */
    assert_string_equal(sparta_message(cx), "");
    try_model(MODEL("batch", "1x1:0.8"), quick(), 1, false);
    try_model(MODEL("batch", "1x1:0.8"), quick(), 5, false);
}

/* A symbol with a bound: every size up to it, in one package. */
static void a_bound_is_enough(void **state)
{
    (void)state;
    sp_graph *g = typed(graph(MODEL("batch", "1x1:0.8"))), *bounded = graph(MODEL("batch", "1x1:0.8"));
    ok(sp_graph_add_bound(bounded, "batch", 0, 4));
    sparta_package *p = compile(bounded);
    assert_true(is_few(node_named(p, "/h")));
    sparta_session *s = session(p, 2);
    for (int64_t batch = 1; batch <= 4; batch++) {
        inputs in = make_inputs(g, batch, 1, 9);
        agree(s, p, g, &in, "bounded");
        free_inputs(&in);
    }
    inputs in = make_inputs(g, 5, 1, 9);
    sparta_named_tensor out = {.name = "n"};
    fails(SPARTA_E_USAGE, sparta_session_run(cx, s, in.in, in.n, &out, 1));
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
    sp_graph_free(g);
}

/* Every candidate is built, checked and timed with the tokens there are; the keys of their times say how many. */
static void candidates_are_timed_with_that_many(void **state)
{
    (void)state;
    sp_compile_request timed = {.options = {.size = sizeof(sparta_compile_options), .db = database}};
    sparta_package *p = compile_in(cx, graph(MODEL("2", "1x1:0.8")), timed);
    assert_string_equal(said_of(node_named(p, "/h"), "source"), "measured");
    assert_true(sp_attr_float(&node_named(p, "/h")->attrs, "dense_us", 0) > 0);
    sparta_package_close(p);
    p = compile_in(cx, graph(MODEL("2", "1x1:0.8")), timed);
    assert_string_equal(said_of(node_named(p, "/h"), "source"), "database");
    sparta_package_close(p);
    p = compile_in(cx, graph(MODEL("1", "1x1:0.8")), timed); /* other tokens, other times */
    assert_string_equal(said_of(node_named(p, "/h"), "source"), "measured");
    sparta_package_close(p);
}

/* --strict: no product that skips zeros; dense ones stay. */
static void strict_models_run_dense(void **state)
{
    (void)state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.strict = 1;
    o.cache_dir = cache;
    sparta_ctx *c = sparta_ctx_create(&o);
    assert_non_null(c);
    sparta_package *p = compile_in(c, graph_in(c, MODEL("1", "1x1:0.8")), quick());
    assert_string_equal(said_of(node_named(p, "/h"), "implement"), "few_dense");
    sparta_package_close(p);
    sparta_ctx_free(c);
}

/* A transformer of one item: attention and normalisation live in panels between products in rows. */
static void a_small_transformer(void **state)
{
    (void)state;
    sp_graph *g = typed(zoo("bert-mini", "1x1:0.8", TINY_BERT));
    sp_graph *fixed = zoo("bert-mini", "1x1:0.8", TINY_BERT);
    int few = 0;
    ok(sp_graph_add_bound(fixed, "batch", 0, 1));
    ok(sp_graph_add_bound(fixed, "sequence", 0, 3));
    sparta_package *p = compile(fixed);
    for (int i = 0; i < p->plan->n_nodes; i++) few += is_few(p->plan->node[i]);
    assert_true(few > 0);
    for (int threads = 1; threads <= 2; threads++) {
        sparta_session *s = session(p, threads);
        for (int64_t tokens = 1; tokens <= 3; tokens++) {
            inputs in = make_inputs(g, 1, tokens, 3);
            agree(s, p, g, &in, "bert of few tokens");
            free_inputs(&in);
        }
        sparta_session_free(s);
    }
    sparta_package_close(p);
    sp_graph_free(g);
}

/* One of the arrays of weights. Sections are not damaged here: who changes code and signs it has written another program. */
static const sp_array_digest *any_array(const sparta_package *p, sp_rng *rng)
{
    const sp_array_digest *d;
    do d = &p->digest[sp_rng_next(rng) % (uint64_t)p->n_digests];
    while (d->section);
    return d;
}

/* Bytes of positions, bits and coordinates that somebody changed and signed: refused, or harmless. */
static void damaged_packages(void **state)
{
    (void)state;
    static const char *const models[] = {MODEL("1", "1x1:0.5"), MODEL("1", "1x1:0.97"),
                                         MODEL("1", "16x1:0.8")};
    const char *path = in_root("few.sparta"), *bad_path = in_root("bad.sparta");
    sp_rng rng = sp_rng_seed(4);
    int refused = 0;
    for (int m = 0; m < 3; m++) {
        sparta_package *p = compile(graph(models[m])), *good = NULL;
        ok(sparta_package_save(cx, p, path));
        sparta_package_close(p);
        ok(sparta_package_open(cx, path, &good));
        uint8_t *bad = sp_alloc(cx, good->file.size);
        assert_non_null(bad);
        for (int round = 0; round < 120; round++) {
            const sp_array_digest *d = any_array(good, &rng);
            const size_t at = (size_t)(d->bytes - (const uint8_t *)good->file.data) +
                              sp_rng_next(&rng) % SP_MAX(d->size, 1);
            memcpy(bad, good->file.data, good->file.size);
            if (at < good->file.size) bad[at] ^= (uint8_t)(1u << sp_rng_next(&rng) % 8);
            sign(bad, good->file.size);
            FILE *f = fopen(bad_path, "wb");
            assert_non_null(f);
            assert_int_equal(fwrite(bad, 1, good->file.size, f), good->file.size);
            assert_int_equal(fclose(f), 0);
            p = NULL;
            const sparta_status s = sparta_package_open(cx, bad_path, &p);
            refused += s != SPARTA_OK;
            if (s != SPARTA_OK) continue;
            sparta_session *run_it = NULL;
            const sparta_session_options two = {.size = sizeof two, .threads = 2};
            if (sparta_session_create(cx, p, &two, &run_it) != SPARTA_OK) { /* indices are verified here */
                refused++;
                sparta_package_close(p);
                continue;
            }
            sp_session_share_from(run_it, 0); /* small models, by all threads */
            inputs in = make_inputs(p->plan, 1, 1, 2);
            results got = run(run_it, p, &in);
            free_results(&got);
            free_inputs(&in);
            sparta_session_free(run_it);
            sparta_package_close(p);
        }
        sp_free(cx, bad);
        sparta_package_close(good);
    }
    assert_true(refused > 0);
}

/* Compile on one thread, by the model or with candidates built, checked and timed; make a session. */
static sparta_status compile_and_bind(sparta_ctx *c, bool measure, const char *db)
{
    const sparta_session_options o = {.size = sizeof o, .threads = 1};
    sp_compile_request request = quick();
    sparta_package *p = NULL;
    sparta_session *session_ = NULL;
    sp_graph *g = NULL;
    maker m = {sp_arena_create(c)};
    if (!m.arena) return sp_ctx_status(c);
    request.options.no_measure = !measure;
    request.options.target = "portable";
    request.options.db = db;
    sparta_status s = sp_graph_parse(c, MODEL("1", "1x1:0.8"), make_weight, &m, &g);
    if (s == SPARTA_OK) s = sp_compile_graph(c, g, &request, &p);
    if (s != SPARTA_OK) sp_graph_free(g);
    if (s == SPARTA_OK) s = sparta_session_create(c, p, &o, &session_);
    sparta_session_free(session_);
    sparta_package_close(p);
    sp_arena_free(m.arena);
    return s;
}

/* Allocations fail from the n-th on; `step` from one n to the next. */
static void sweep(bool measure, uint64_t step)
{
    for (uint64_t n = 1;; n += step) {
        char db[128];
        snprintf(db, sizeof db, "%s/sweep%lu.db", root, (unsigned long)n);
        sparta_ctx *c = context(cache, NULL);
        sp_ctx_fail_alloc(c, n, true);
        const sparta_status s = compile_and_bind(c, measure, measure ? db : database);
        const bool reached = sp_ctx_alloc_count(c) >= n;
        if (s != SPARTA_OK && s != SPARTA_E_MEMORY)
            fail_msg("allocation %lu: %s: %s", (unsigned long)n, sparta_status_name(s), sparta_message(c));
        if (sp_ctx_memory(c)) fail_msg("allocation %lu: bytes are lost", (unsigned long)n);
        if (reached && s == SPARTA_OK) fail_msg("allocation %lu: nobody noticed", (unsigned long)n);
        sparta_ctx_free(c);
        if (reached) continue;
        assert_int_equal(s, SPARTA_OK);
        break;
    }
}

static void without_memory(void **state)
{
    (void)state;
    sweep(false, 1);
    sweep(true, 37);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_batches_stay_in_rows), cmocka_unit_test(pinned_on_dense_weights),
        cmocka_unit_test(sixteen_and_seventeen),      cmocka_unit_test(a_batch_that_may_be_anything_does_not),
        cmocka_unit_test(a_bound_is_enough),          cmocka_unit_test(candidates_are_timed_with_that_many),
        cmocka_unit_test(strict_models_run_dense),    cmocka_unit_test(a_small_transformer),
        cmocka_unit_test(damaged_packages),           cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
