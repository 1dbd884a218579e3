/* Which implement wins and why: measured, remembered, modelled; and the way back from a package to a graph. (Slow: make test only. Alone: times decide.) */
#include "models.h"
#include "compile/lower.h"

#define LAYER(weight)                                                                                        \
    "graph \"g\"\ninput x: f32[batch,96]\nconst w: f32[96,128] @\"" weight                                   \
    "\"\nnode y: ? = MatMul(x, w) \"y\"\noutput y\n"

static const char *fresh_db(void)
{
    static char path[128];
    static int n;
    snprintf(path, sizeof path, "%s/fresh%d.db", root, n++);
    return path;
}

static sp_compile_request measured(const char *db)
{
    return (sp_compile_request){.options = {.size = sizeof(sparta_compile_options), .db = db}};
}

/* Pretend that this implement took `us` for the layer of `text`, when its code was what it is now, or other code. */
static void remember_of(const char *db_path, const char *text, const char *implement, double us, bool edited)
{
    sp_graph *g = graph(text);
    sp_tune_db *db;
    const sp_implement *im = sp_implement_find(implement);
    ok(sp_compile_passes(g));
    ok(sp_tune_open(cx, db_path, &db));
    for (int i = 0; i < g->n_nodes; i++) {
        lower_node ln = {.node = g->node[i]};
        sp_contender c = {.im = im, .best = us * 1e-6, .found = {.ok = true}};
        sp_recall recall;
        char code[40];
        if (g->node[i]->op != SP_OP_Linear) continue;
        ok(sp_lower_task(cx, g, g->node[i], SP_TARGET_PORTABLE, &ln));
        const sp_bed_request bed = sp_lower_bed(&ln, NULL);
        ok(sp_recall_open(cx, db, &bed, sp_target_best(SP_DEVICE_CPU), &recall));
        for (int k = 0; k < sp_implement_points(im); k++) {
            if (!sp_implement_point(im, k, &ln.task)) continue;
            memcpy(c.point, ln.task.point, sizeof c.point);
            ok(sp_recall_code(cx, &ln.task, im, sp_target_best(SP_DEVICE_CPU), code));
            if (edited) code[0] = code[0] == '0' ? '1' : '0';
            sp_recall_add(&recall, &c, code);
        }
        sp_recall_close(&recall);
        sp_lower_forget(cx, &ln);
    }
    sp_tune_close(db);
    sp_graph_free(g);
}

static void remember(const char *db_path, const char *text, const char *implement, double us)
{
    remember_of(db_path, text, implement, us, false);
}

typedef struct decision {
    char implement[32], source[16], reason[256];
    double us, dense_us;
} decision;

static decision decide(const char *text, sp_compile_request request)
{
    decision d = {0};
    sparta_package *p = compile_in(cx, graph(text), request);
    const sp_node *y = node_named(p, "y");
    snprintf(d.implement, sizeof d.implement, "%s", said_of(y, "implement"));
    snprintf(d.source, sizeof d.source, "%s", said_of(y, "source"));
    snprintf(d.reason, sizeof d.reason, "%s", said_of(y, "reason"));
    d.us = sp_attr_float(&y->attrs, "us", 0);
    d.dense_us = sp_attr_float(&y->attrs, "dense_us", 0);
    sparta_package_close(p);
    return d;
}

/* What inspect would say, without compiling. */
static sp_layer inspect(const char *text, const char *db)
{
    sp_graph *g = graph(text);
    sp_arena *arena = sp_arena_create(cx);
    sp_layer *layer;
    int n;
    ok(sp_compile_passes(g));
    ok(sp_compile_layers(cx, arena, g, db, NULL, &layer, &n));
    assert_int_equal(n, 1);
    sp_layer l = layer[0];
    l.name = l.op = NULL; /* they go with the graph */
    sp_arena_free(arena);
    sp_graph_free(g);
    return l;
}

/* ------------------------------------------------------------------ */

static bool is_sparse(const char *implement)
{
    return sp_implement_find(implement)->sparse;
}

/* Very sparse: sparse rows win by far on any machine; the second time nothing is measured. */
static void sparse_wins(void **state)
{
    (void)state;
    const char *db = fresh_db(), *text = LAYER("w|4x1:0.95");
    decision first = decide(text, measured(db)), second = decide(text, measured(db));
    assert_true(is_sparse(first.implement));
    assert_string_equal(first.source, "measured");
    assert_string_equal(first.reason, "");
    assert_true(first.us > 0 && first.us < first.dense_us);
    assert_string_equal(second.source, "database");
    assert_true(second.us == first.us && second.dense_us == first.dense_us);
    const sp_layer l = inspect(text, db);
    assert_string_equal(l.implement, first.implement);
    assert_string_equal(l.source, "database");
    assert_true(fabs(l.us - first.us) < 1e-3 && l.n == 128 && l.k == 96);
    assert_string_equal(l.block, "4x1");
    assert_true(fabs(l.density - .05) < .01);
}

/* A kernel whose text was edited since is timed anew, and then its new time is what is known. */
static void edited_kernels_are_timed_anew(void **state)
{
    (void)state;
    const char *db = fresh_db(), *text = LAYER("w|4x1:0.95");
    decide(text, measured(db));
    remember_of(db, text, "dense4", 1e-3, true); /* faster than anything, by other code */
    const decision d = decide(text, measured(db));
    assert_string_equal(d.source, "measured");
    assert_true(is_sparse(d.implement) && d.dense_us > 1e-2);
    assert_string_equal(decide(text, measured(db)).source, "database");
}

/* A time may be remembered from another weight of the same mask, the answer may not. Sums that leave f32 on the way and come back
 * to it at the end are right by the reference alone, which adds in f64: no other row may run them. */
static void remembered_rows_are_checked(void **state)
{
    (void)state;
    const char *db = fresh_db(), *text = LAYER("w|4x1:0.8");
    assert_string_not_equal(decide(text, measured(db)).implement, "builtin");
    for (int modelled = 0; modelled < 2; modelled++) {
        sp_graph *g[2] = {graph(text), typed(graph(text))};
        for (int k = 0; k < 2; k++) {
            const sparta_tensor *w = sp_graph_find(g[k], "w")->constant;
            for (int64_t i = 0; i < sparta_tensor_elements(w); i++)
                ((float *)w->data)[i] = (float)(((float *)w->data)[i] * 6e38);
        }
        sp_compile_request request = measured(db);
        request.options.no_measure = request.no_verify = modelled;
        sparta_package *p = compile_in(cx, g[0], request);
        assert_null(sp_attr_find(&node_named(p, "y")->attrs, "kernel"));
        mentions(sparta_notes(cx), "disagrees with the reference", __FILE__, __LINE__);
        mentions(said_of(node_named(p, "y"), "reason"), "every kernel disagreed", __FILE__, __LINE__);
        sparta_session *s = session(p, 1);
        inputs in = make_inputs(g[1], 70, 1, 3);
        agree(s, p, g[1], &in, "sums that overflow");
        free_inputs(&in);
        sparta_session_free(s);
        sparta_package_close(p);
        sp_graph_free(g[1]);
    }
}

/* A remembered time that cannot be is taken anew, and the answer looked at: who is wrong is out, however fast it is. */
static void doubted_rows_are_checked(void **state)
{
    (void)state;
    static const char *const rows[] = {"strip4", "quads", "dense4"};
    const char *db = fresh_db(), *text = LAYER("w|4x1:0.8");
    for (size_t i = 0; i < SP_COUNT(rows); i++) remember(db, text, rows[i], 1e5);
    sp_graph *g = graph(text);
    const sparta_tensor *w = sp_graph_find(g, "w")->constant;
    for (int64_t i = 0; i < sparta_tensor_elements(w); i++)
        ((float *)w->data)[i] = (float)(((float *)w->data)[i] * 6e38);
    sp_compile_request request = measured(db);
    request.no_verify = true;
    sparta_package *p = compile_in(cx, g, request);
    assert_null(sp_attr_find(&node_named(p, "y")->attrs, "kernel"));
    mentions(said_of(node_named(p, "y"), "reason"), "every kernel disagreed", __FILE__, __LINE__);
    sparta_package_close(p);
}

/* Nearly dense: whoever wins, the numbers say so. */
static void nearly_dense(void **state)
{
    (void)state;
    const char *db = fresh_db();
    const decision d = decide(LAYER("w|4x1:0.05"), measured(db));
    const decision one = decide(LAYER("w|1x1:0.05"), measured(db)); /* strips would hold everything */
    const decision both[] = {d, one};
    for (int i = 0; i < 2; i++)
        if (is_sparse(both[i].implement)) /* the earlier row stays where the difference is noise */
            assert_true(both[i].us <= both[i].dense_us * (1 + LOWER_NOISE));
        else
            mentions(both[i].reason, "(measured", __FILE__, __LINE__);
    const decision full = decide(LAYER("w"), measured(db));
    assert_string_equal(full.implement, "dense4");
    mentions(full.reason, "no zeros", __FILE__, __LINE__);
}

/* A difference that is noise makes no layer sparse: whatever is remembered, sparse must win by 3 %. */
static void sparse_must_win_clearly(void **state)
{
    (void)state;
    static const char text[] = LAYER("w|4x1:0.5");
    static const double us[] = {9.99, 9.8, 9.6, 7};
    for (size_t i = 0; i < SP_COUNT(us); i++) {
        const char *db = fresh_db();
        remember(db, text, "strip4", us[i]);
        remember(db, text, "quads", us[i] + 1);
        remember(db, text, "dense4", 10);
        const decision d = decide(text, measured(db));
        const sp_layer l = inspect(text, db);
        const bool clear = us[i] <= 10 * LOWER_SPARSE;
        assert_string_equal(d.implement, clear ? "strip4" : "dense4");
        assert_string_equal(l.implement, d.implement);
        if (clear)
            assert_string_equal(d.reason, "");
        else
            mentions(d.reason, "sparse would gain less than 3 % (measured: ", __FILE__, __LINE__);
    }
}

/* A layer of `tokens` (0: any number) from 96 to n whose weight has so many zeros, no two of them beside each other. */
static decision with_zeros(int tokens, int n, int zeros, sp_compile_request request)
{
    char text[256];
    decision d = {0};
    snprintf(text, sizeof text,
             "graph \"g\"\ninput x: f32[%s,96]\nconst w: f32[96,%d] @\"w\"\nnode y: ? = MatMul(x, w) "
             "\"y\"\noutput y\n",
             tokens ? "2" : "batch", n);
    sp_graph *g = graph(text);
    float *w = sp_graph_find(g, "w")->constant->data;
    for (int i = 0; i < 96 * n; i++) w[i] = w[i] == 0 ? 1 : w[i];
    for (int i = 0; i < zeros; i++) w[i * 97 % (96 * n)] = 0;
    sparta_package *p = compile_in(cx, g, request);
    const sp_node *y = node_named(p, "y");
    snprintf(d.implement, sizeof d.implement, "%s", said_of(y, "implement"));
    snprintf(d.reason, sizeof d.reason, "%s", said_of(y, "reason"));
    d.us = sp_attr_float(&y->attrs, "us", 0);
    sparta_package_close(p);
    return d;
}

/* Less than 1 % zeros: dense, measured or modelled, few tokens or many, and the reason says how many there are. */
static void a_few_zeros_are_none(void **state)
{
    (void)state;
    static const struct {
        int n, zeros;
        const char *said;
    } cases[] = {{128, 1, "0.0081 % zeros: a layer with less than 1 % is dense"},
                 {128, 12, "0.098 % zeros: a layer with less than 1 % is dense"},
                 {128, 122, "0.99 % zeros: a layer with less than 1 % is dense"},
                 {313, 300, "0.99 % zeros: a layer with less than 1 % is dense"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        for (int how = 0; how < 4; how++) {
            const decision d =
                with_zeros(how % 2, cases[i].n, cases[i].zeros, how / 2 ? quick() : measured(fresh_db()));
            assert_false(is_sparse(d.implement));
            assert_string_equal(d.reason, cases[i].said);
        }
    const decision more = with_zeros(0, 128, 123, quick());
    assert_null(strstr(more.reason, "zeros:")); /* a hundredth is worth a look */
}

/* Reasons are measured: another memory, another decision, another text. */
static void the_database_decides(void **state)
{
    (void)state;
    static const char text[] = LAYER("w|4x1:0.5");
    static const struct {
        double sparse, dense;
    } cases[] = {{20, 10}, {25, 10}, {10, 20}, {9, 30}};
    char reasons[4][256];
    for (int i = 0; i < 4; i++) {
        const char *db = fresh_db();
        remember(db, text, "strip4", cases[i].sparse);
        remember(db, text, "quads", cases[i].sparse + 1);
        remember(db, text, "dense4", cases[i].dense);
        const decision d = decide(text, measured(db));
        const sp_layer l = inspect(text, db);
        const bool sparse = cases[i].sparse < cases[i].dense;
        assert_string_equal(d.implement, sparse ? "strip4" : "dense4");
        assert_string_equal(d.source, "database");
        assert_true(d.us == SP_MIN(cases[i].sparse, cases[i].dense) && d.dense_us == cases[i].dense);
        assert_string_equal(l.implement, d.implement);
        assert_true(fabs(l.us - d.us) < 1e-3 && fabs(l.dense_us - d.dense_us) < 1e-3);
        snprintf(reasons[i], sizeof reasons[i], "%s", l.reason);
        if (sparse)
            assert_string_equal(l.reason, "");
        else
            mentions(l.reason, "(measured: ", __FILE__, __LINE__);
    }
    assert_string_not_equal(reasons[0], reasons[1]);
    mentions(reasons[0], "dense is faster above 0.25 (measured: 20.0 us sparse, 10.0 us dense)", __FILE__,
             __LINE__);
    mentions(reasons[1], "dense is faster above 0.20 (measured: 25.0 us sparse, 10.0 us dense)", __FILE__,
             __LINE__);
    /* half a memory: the other half is measured, and what the memory says of the first is believed */
    const char *db = fresh_db();
    remember(db, text, "strip4", 0.001);
    const decision d = decide(text, measured(db));
    assert_string_equal(d.implement, "strip4");
    assert_string_equal(d.source, "measured");
    assert_true(d.dense_us > d.us);
}

static void modelled(void **state)
{
    (void)state;
    const char *db = fresh_db(), *text = LAYER("w|4x1:0.05");
    const decision d = decide(text, quick());
    const sp_layer l = inspect(text, db);
    assert_string_equal(d.source, "model");
    assert_string_equal(l.source, "model");
    assert_string_equal(d.implement, l.implement);
    if (!strcmp(d.implement, "dense4")) mentions(d.reason, "modelled", __FILE__, __LINE__);
    assert_true(d.us > 0 && d.dense_us > 0);
    remember(db, text, "strip4", 5); /* not all rows are known: still the model */
    assert_string_equal(inspect(text, db).source, "model");
}

static void dense_only(void **state)
{
    (void)state;
    for (int measure = 0; measure < 2; measure++) {
        sp_compile_request request = measure ? measured(fresh_db()) : quick();
        request.options.dense_only = 1;
        sparta_package *p = compile_in(cx, zoo("bert-mini", "4x1:0.9", SMALL_BERT), request);
        for (int i = 0; i < p->plan->n_nodes; i++)
            assert_string_not_equal(said_of(p->plan->node[i], "implement"), "strip4");
        for (int i = 0; i < p->n_weights; i++)
            if (p->weight[i].packed) assert_int_equal(p->weight[i].pack.format.level[1].kind, SP_LEVEL_DENSE);
        sparta_package_close(p);
        mentions(decide(LAYER("w|4x1:0.9"), request).reason, "dense implements only were asked for", __FILE__,
                 __LINE__);
    }
}

/* What the portable kernels took says nothing of compiled ones: another key. */
static void portable_times_are_their_own(void **state)
{
    (void)state;
    const char *db = fresh_db(), *text = LAYER("w|4x1:0.9");
    sp_compile_request request = measured(db);
    request.options.target = "portable";
    assert_string_equal(decide(text, request).source, "measured");
    assert_string_equal(decide(text, request).source, "database");
    request.options.target = NULL;
    assert_string_equal(decide(text, request).source,
                        sp_target_best(SP_DEVICE_CPU) == SP_TARGET_PORTABLE ? "database" : "measured");
}

/* What is said of a whole model: every product once, with its pattern; the same from the package that was written. */
static void layers_of_a_model(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT)), *q;
    sp_arena *arena = sp_arena_create(cx);
    sp_layer *a, *b;
    int n, m;
    ok(sparta_package_save(cx, p, in_root("layers.sparta")));
    ok(sparta_package_open(cx, in_root("layers.sparta"), &q));
    ok(sp_compile_layers(cx, arena, p->plan, database, NULL, &a, &n));
    ok(sp_compile_layers(cx, arena, q->plan, database, NULL, &b, &m));
    assert_int_equal(n, 10); /* two layers of qkv, attention, projection, up, down */
    assert_int_equal(m, n);
    for (int i = 0; i < n; i++) {
        const bool product = !strcmp(a[i].op, "Attention");
        assert_string_equal(a[i].pattern, product ? "none" : "4x1");
        assert_true(product ? a[i].density == 1 : fabs(a[i].density - .2) < .01);
        if (product)
            assert_string_equal(a[i].reason, "product of two activations: nothing to prune");
        else
            assert_true(a[i].n % 64 == 0 && a[i].k % 64 == 0 && a[i].n > 0 && a[i].us > 0);
        assert_string_equal(a[i].name, b[i].name);
        assert_string_equal(a[i].implement, b[i].implement);
        assert_string_equal(a[i].reason, b[i].reason);
        assert_true(a[i].n == b[i].n && a[i].k == b[i].k && a[i].density == b[i].density &&
                    a[i].us == b[i].us);
    }
    sp_arena_free(arena);
    sparta_package_close(p), sparta_package_close(q);
}

/* ------------------------------------------------------------------ a library that may be there */

/* These tests speak of our own rows; the two below of the library's too. */
static int without_library(void **state)
{
    setenv("SPARTA_ONEDNN", "0", 1);
    return enter(state);
}
static int library_on(void **state)
{
    (void)state;
    unsetenv("SPARTA_ONEDNN");
    return 0;
}
static int library_off(void **state)
{
    (void)state;
    return setenv("SPARTA_ONEDNN", "0", 1);
}

/* It must win by more than 5 %; the best dense time is its own either way. */
static void a_library_must_win_clearly(void **state)
{
    (void)state;
    static const char text[] = LAYER("w");
    if (!sp_implement_library(sp_target_best(SP_DEVICE_CPU))) skip();
    for (int clear = 0; clear < 2; clear++) {
        const char *db = fresh_db();
        const double us = clear ? 9 : 9.6;
        remember(db, text, "dense4", 10);
        remember(db, text, "onednn", us);
        const decision d = decide(text, measured(db));
        const sp_layer l = inspect(text, db);
        assert_string_equal(d.implement, clear ? "onednn" : "dense4");
        assert_string_equal(d.source, "database");
        assert_true(d.us == (clear ? us : 10) && fabs(d.dense_us - us) < 1e-5);
        assert_string_equal(l.implement, d.implement);
    }
    /* what it took says nothing where it is not, and another target has no use for it */
    const char *db = fresh_db();
    remember(db, text, "dense4", 10);
    remember(db, text, "onednn", 5);
    sp_compile_request request = measured(db);
    request.options.target = "portable";
    assert_string_equal(decide(text, request).implement, "dense4");
    setenv("SPARTA_ONEDNN", "0", 1);
    assert_string_equal(decide(text, measured(db)).implement, "dense4");
}

/* A package made with the library, where it is and where it is not: the same answer, and a note. */
static void a_package_runs_without_its_library(void **state)
{
    (void)state;
    static const char text[] = LAYER("w");
    if (!sp_implement_library(sp_target_best(SP_DEVICE_CPU))) skip();
    const char *db = fresh_db();
    remember(db, text, "dense4", 10);
    remember(db, text, "onednn", 5);
    sp_graph *want = typed(graph(text));
    sparta_package *p = compile_in(cx, graph(text), measured(db));
    assert_string_equal(said_of(node_named(p, "y"), "implement"), "onednn");
    ok(sparta_package_save(cx, p, in_root("library.sparta")));
    sparta_package_close(p);
    inputs in = make_inputs(want, 70, 1, 4);
    for (int here = 1; here >= 0; here--)
        for (int threads = 1; threads <= 3; threads++) {
            if (!here) setenv("SPARTA_ONEDNN", "0", 1);
            sp_ctx_forget_notes(cx);
            ok(sparta_package_open(cx, in_root("library.sparta"), &p));
            sparta_session *s = session(p, threads);
            agree(s, p, want, &in, here ? "with the library" : "without");
            assert_int_equal(strstr(sparta_notes(cx), "sparta's own product takes its place") != NULL, !here);
            sparta_session_free(s);
            sparta_package_close(p);
        }
    free_inputs(&in);
    sp_graph_free(want);
}

/* ------------------------------------------------------------------ there and back again */

static void unplanned(const char *model, const char *prune, const char *sizes)
{
    sp_compile_request dense = quick();
    dense.options.dense_only = 1;
    sp_graph *want = typed(zoo(model, prune, sizes)), *g;
    sparta_package *p = compile(zoo(model, prune, sizes)), *q;
    ok(sparta_package_save(cx, p, in_root("un.sparta")));
    sparta_package_close(p);
    ok(sparta_package_open(cx, in_root("un.sparta"), &p));
    ok(sp_compile_unplan(cx, p, &g));
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->attrs.n; k++)
            assert_false(sp_graph_is_annotation(g->node[i]->attrs.attr[k].name));
    inputs in = make_inputs(want, 3, 11, 4);
    results a = reference(want, &in), b = reference(g, &in);
    close_enough(&b, &a, 1e-5, "the plan on the references");
    q = compile_in(cx, g, dense);
    sparta_session *s = session(q, 2), *t = session(p, 2);
    agree(s, q, want, &in, "dense again");
    agree(t, p, want, &in, "the package is as before");
    free_results(&a), free_results(&b), free_inputs(&in);
    sparta_session_free(s), sparta_session_free(t);
    sparta_package_close(q), sparta_package_close(p);
    sp_graph_free(want);
}

static void unplan(void **state)
{
    (void)state;
    unplanned("bert-mini", "4x1:0.8", SMALL_BERT);
    unplanned("bert-mini", NULL, TINY_BERT);
    unplanned("mlp", "1x1:0.9", SMALL_MLP);
}

/* Compiling a package's graph the same way gives the same plan. */
static void settled(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT)), *q;
    sp_graph *g;
    ok(sp_compile_unplan(cx, p, &g));
    q = compile_in(cx, g, quick());
    assert_int_equal(p->n_weights, q->n_weights);
    assert_int_equal(p->plan->n_nodes, q->plan->n_nodes);
    for (int i = 0; i < p->plan->n_nodes; i++) {
        assert_string_equal(said_of(p->plan->node[i], "kernel"), said_of(q->plan->node[i], "kernel"));
        assert_string_equal(said_of(p->plan->node[i], "implement"), said_of(q->plan->node[i], "implement"));
    }
    sparta_package_close(q), sparta_package_close(p);
}

/* Annotations that a file brings along are not believed. */
static void foreign_annotations(void **state)
{
    (void)state;
    sparta_package_close(check_text(
        "graph \"g\"\ninput x: f32[batch,24]\nconst w: f32[24,24] @\"w\"\n"
        "node y: ? = MatMul(x, w) {kernel=\"linear\", layout=\"panel\", code=5, reason=\"trust me\"} \"y\"\n"
        "node z: ? = Softmax(y) {kernel=\"to_lanes\", layout=\"panel\"} \"z\"\noutput z\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_wins),
        cmocka_unit_test(edited_kernels_are_timed_anew),
        cmocka_unit_test(remembered_rows_are_checked),
        cmocka_unit_test(doubted_rows_are_checked),
        cmocka_unit_test(nearly_dense),
        cmocka_unit_test(sparse_must_win_clearly),
        cmocka_unit_test(a_few_zeros_are_none),
        cmocka_unit_test(the_database_decides),
        cmocka_unit_test(modelled),
        cmocka_unit_test(dense_only),
        cmocka_unit_test(layers_of_a_model),
        cmocka_unit_test(unplan),
        cmocka_unit_test(settled),
        cmocka_unit_test(foreign_annotations),
        cmocka_unit_test(portable_times_are_their_own),
        cmocka_unit_test_setup_teardown(a_library_must_win_clearly, library_on, library_off),
        cmocka_unit_test_setup_teardown(a_package_runs_without_its_library, library_on, library_off),
    };
    return cmocka_run_group_tests(tests, without_library, leave);
}
