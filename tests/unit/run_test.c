/* Sessions: small models of the zoo at many sizes one after the other, with one to four threads, against the references.
 * (Slow: make test only.) */
#include "models.h"
#include "call/call.h"

typedef struct size {
    int64_t batch, sequence;
} size;
static const size sizes[] = {{1, 1}, {1, 7}, {5, 7}, {3, 64}, {1, 65}, {2, 128}, {7, 33}, {1, 1}};

typedef struct model {
    const char *name, *prune, *sizes;
    int dense_only;
} model;
static const model models[] = {
    {"bert-mini", NULL, SMALL_BERT, 0},
    {"bert-mini", "4x1:0.8", SMALL_BERT, 0},
    {"bert-mini", "1x1:0.8", SMALL_BERT, 0},
    {"bert-mini", "4x1:0.8", SMALL_BERT, 1},
    {"bert-mini", "rows:0.5", "layers=1 hidden=24 heads=3 ffn=20 vocab=50 positions=130", 0},
    {"bert-mini", "4x1:1.0", "layers=1 hidden=16 heads=1 ffn=36 vocab=3 positions=130", 0},
    {"mlp", NULL, SMALL_MLP, 0},
    {"mlp", "4x1:0.8", SMALL_MLP, 0},
    {"mlp", "1x1:0.97", SMALL_MLP, 0},
};

static void options_without_a_size(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("mlp", NULL, SMALL_MLP));
    sparta_session *s = NULL;
    const sparta_session_options o = {.threads = 1};
    fails(SPARTA_E_USAGE, sparta_session_create(cx, p, &o, &s));
    says("session: the size of its options is 0");
    assert_null(s);
    sparta_package_close(p);
}

/* x0 [s0,3] + x0 [s0,3], ...: as many symbols as there are inputs. */
static sp_graph *with_symbols(int n)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "graph \"symbols\"\n");
    for (int i = 0; i < n; i++) sp_text_printf(&t, "input  x%d: f32[s%d,3]\n", i, i);
    for (int i = 0; i < n; i++) sp_text_printf(&t, "bound  s%d[%d]\n", i, i + 1);
    for (int i = 0; i < n; i++) sp_text_printf(&t, "node   y%d: ? = Add(x%d, x%d)\n", i, i, i);
    for (int i = 0; i < n; i++) sp_text_printf(&t, "output y%d\n", i);
    ok(t.status);
    sp_graph *g = graph(sp_text_str(&t));
    sp_text_free(&t);
    return g;
}

/* One limit for all who work with symbols: what fits is compiled, checked and run, each with its own size and bound; one more is
 * refused by name. */
static void many_symbols(void **state)
{
    (void)state;
    enum { N = SP_GRAPH_SYMBOLS };
    static float data[N + 1][3];
    sparta_package *p = compile(with_symbols(N));
    sparta_session *s = session(p, 1);
    sparta_named_tensor *in = calloc(N, sizeof *in), *out = calloc(N, sizeof *out);
    for (int i = 0; i < N; i++) {
        const int64_t dim[2] = {1 + i % 2, 3};
        data[i][0] = (float)i;
        in[i].name = sparta_package_input_name(p, i);
        in[i].tensor = sparta_tensor_view(SPARTA_F32, 2, dim, data[i]);
        out[i].name = sparta_package_output_name(p, i);
    }
    fails(SPARTA_E_USAGE, sparta_session_run(cx, s, in + 1, 1, out, 1)); /* others are missing */
    in[0].tensor.dim[0] = 1;
    ok(sparta_session_run(cx, s, in, N, out, N));
    for (int i = 0; i < N; i++) {
        assert_int_equal(out[i].tensor.dim[0], in[i].tensor.dim[0]);
        assert_float_equal(*(float *)out[i].tensor.data, 2.f * (float)i, 0);
    }
    in[1].tensor.dim[0] = 3; /* s1 is at most 2 */
    fails(SPARTA_E_USAGE, sparta_session_run(cx, s, in, N, out, N));
    sparta_session_free(s);
    sparta_package_close(p);
    free(in), free(out);

    /* the references that a compiled file is checked against, too */
    sparta_compile_options timeless = SPARTA_OPTIONS(sparta_compile_options);
    timeless.no_measure = 1;
    sp_graph *g = typed(with_symbols(N));
    ok(sp_onnx_write(cx, g, in_root("many.onnx")));
    ok(sparta_compile(cx, in_root("many.onnx"), in_root("many.sparta"), &timeless));
    sp_graph_free(g);

    sp_compile_request r = quick();
    g = graph("graph \"g\"\ninput x: f32[batch]\nnode y: ? = Relu(x)\noutput y\n");
    for (int i = 0; i <= N; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        sp_value *v;
        sp_dims dims = {.rank = 1};
        dims.dim[0] = sp_expr_symbol(g->arena, name);
        ok(sp_graph_add_input(g, name, SPARTA_F32, &dims, &v));
    }
    p = NULL;
    fails(SPARTA_E_LIMIT, sp_compile_graph(cx, g, &r, &p));
    says("more than 256 sizes");
    sp_graph_free(g);
}

/* Half of every sequence is padding, the last item has one token only. */
static void mask_some(const inputs *in)
{
    for (int i = 0; i < in->n; i++) {
        const sparta_tensor *t = &in->in[i].tensor;
        if (strcmp(in->in[i].name, "attention_mask")) continue;
        for (int64_t b = 0; b < t->dim[0]; b++)
            for (int64_t s = 0; s < t->dim[1]; s++)
                sp_element_set_int(t->dtype, t->data, b * t->dim[1] + s,
                                   b + 1 == t->dim[0] ? s == 0 : s <= t->dim[1] / 2);
    }
}

static void every_size(const model *m, bool masked)
{
    sp_graph *want = typed(zoo(m->name, m->prune, m->sizes));
    sp_compile_request request = quick();
    request.options.dense_only = m->dense_only;
    sparta_package *p = compile_in(cx, zoo(m->name, m->prune, m->sizes), request);
    sparta_session *s[4];
    for (int t = 0; t < 4; t++) s[t] = session(p, t + 1);
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        char what[128];
        inputs in = make_inputs(want, sizes[i].batch, sizes[i].sequence, i + 1);
        if (masked) mask_some(&in);
        results expected = reference(want, &in), one = {0};
        for (int t = 0; t < 4; t++) {
            snprintf(what, sizeof what, "%s %s %ld x %ld, %d threads", m->name, m->prune ? m->prune : "dense",
                     (long)sizes[i].batch, (long)sizes[i].sequence, t + 1);
            results got = run(s[t], p, &in);
            close_enough(&got, &expected, 1e-4, what);
            if (t == 0)
                one = got;
            else {
                close_enough(&got, &one, 1e-6, what);
                free_results(&got);
            }
        }
        free_results(&one);
        free_results(&expected);
        free_inputs(&in);
    }
    for (int t = 0; t < 4; t++) sparta_session_free(s[t]);
    sparta_package_close(p);
    sp_graph_free(want);
}

static void all_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(models); i++) every_size(&models[i], false);
}

/* The kernels inside the library, which the sanitizers see through. */
static void portable_kernels(void **state)
{
    (void)state;
    setenv("SPARTA_TARGET", "portable", 1);
    every_size(&models[0], true);
    every_size(&models[1], false);
    every_size(&models[8], false);
    unsetenv("SPARTA_TARGET");
}

static void padding(void **state)
{
    (void)state;
    every_size(&models[0], true);
    every_size(&models[1], true);
}

/* Tokens behind the mask do not matter. */
static void masked_tokens_change_nothing(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT));
    sparta_session *s = session(p, 2);
    inputs in = make_inputs(p->plan, 3, 70, 1);
    mask_some(&in);
    results before = run(s, p, &in);
    for (int i = 0; i < in.n; i++)
        if (!strcmp(in.in[i].name, "input_ids"))
            for (int64_t b = 0; b < 3; b++)
                for (int64_t t = b == 2 ? 1 : 36; t < 70; t++)
                    ((int64_t *)in.in[i].tensor.data)[b * 70 + t] = (b + t) % 50;
    results after = run(s, p, &in);
    for (int64_t b = 0; b < 3; b++)
        assert_memory_equal((float *)before.t[0].data + b * 70 * 64, (float *)after.t[0].data + b * 70 * 64,
                            (b == 2 ? 1 : 36) * 64 * sizeof(float));
    assert_true(apart(&before.t[0], &after.t[0]) > 1e-3);
    free_results(&before);
    free_results(&after);
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
}

/* Items of a batch are independent: in another order, the same results in that order. */
static void permuted_batch(void **state)
{
    (void)state;
    enum { BATCH = 5, LENGTH = 33, WIDTH = LENGTH * 64 };
    static const int order[BATCH] = {3, 0, 4, 1, 2};
    sparta_package *p = compile(zoo("bert-mini", "1x1:0.8", SMALL_BERT));
    sparta_session *s = session(p, 3);
    inputs in = make_inputs(p->plan, BATCH, LENGTH, 9), other = make_inputs(p->plan, BATCH, LENGTH, 10);
    mask_some(&in);
    for (int i = 0; i < in.n; i++)
        for (int b = 0; b < BATCH; b++)
            memcpy((int64_t *)other.in[i].tensor.data + b * LENGTH,
                   (int64_t *)in.in[i].tensor.data + order[b] * LENGTH, LENGTH * sizeof(int64_t));
    results a = run(s, p, &in), c = run(s, p, &other);
    for (int b = 0; b < BATCH; b++) {
        int64_t dim[1] = {WIDTH};
        const sparta_tensor x =
            sparta_tensor_view(SPARTA_F32, 1, dim, (float *)a.t[0].data + order[b] * WIDTH);
        const sparta_tensor y = sparta_tensor_view(SPARTA_F32, 1, dim, (float *)c.t[0].data + b * WIDTH);
        assert_true(apart(&y, &x) < 1e-6);
    }
    free_results(&a), free_results(&c);
    free_inputs(&in), free_inputs(&other);
    sparta_session_free(s);
    sparta_package_close(p);
}

/* The same input gives the same bits, whatever was run in between. */
static void repeatable(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT));
    for (int threads = 1; threads <= 3; threads++) {
        sparta_session *s = session(p, threads);
        inputs a = make_inputs(p->plan, 2, 40, 1), b = make_inputs(p->plan, 1, 129, 2);
        results first = run(s, p, &a), between = run(s, p, &b), again = run(s, p, &a);
        same_bits(&first, &again, "again");
        free_results(&first), free_results(&between), free_results(&again);
        free_inputs(&a), free_inputs(&b);
        sparta_session_free(s);
    }
    sparta_package_close(p);
}

/* Two sessions of one package in one thread keep out of each other's way. */
static void two_sessions(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", NULL, SMALL_BERT));
    sparta_session *s[2] = {session(p, 1), session(p, 2)};
    inputs a = make_inputs(p->plan, 2, 40, 1), b = make_inputs(p->plan, 4, 9, 2);
    sparta_named_tensor x = {.name = "last_hidden_state"}, y = x;
    ok(sparta_session_run(cx, s[0], a.in, a.n, &x, 1));
    ok(sparta_session_run(cx, s[1], b.in, b.n, &y, 1)); /* must not touch x */
    results fresh = run(s[1], p, &a);
    assert_true(apart(&x.tensor, &fresh.t[0]) < 1e-6);
    free_results(&fresh);
    free_inputs(&a), free_inputs(&b);
    sparta_session_free(s[0]), sparta_session_free(s[1]);
    sparta_package_close(p);
}

/* The host's own threads; this host has none and goes backwards. */
static void backwards(void *host, int n, void (*fn)(void *arg, int i), void *arg)
{
    ++*(int *)host;
    for (int i = n - 1; i >= 0; i--) fn(arg, i);
}

static void host_threads(void **state)
{
    (void)state;
    int calls = 0;
    sparta_ctx_options o = {.size = sizeof o, .cache_dir = cache, .parallel_for = backwards, .host = &calls};
    sparta_ctx *host = sparta_ctx_create(&o);
    sp_graph *want = typed(zoo("bert-mini", "4x1:0.8", SMALL_BERT));
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT));
    sparta_session *s = session_in(host, p, 3);
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        inputs in = make_inputs(want, sizes[i].batch, sizes[i].sequence, i);
        agree(s, p, want, &in, "host");
        free_inputs(&in);
    }
    assert_true(calls > 20);
    sparta_session_free(s);
    sparta_package_close(p);
    sp_graph_free(want);
    sparta_ctx_free(host);
}

/* Every number is summed by one thread in one order, however many there are: only the statistics of a panel that threads share are
 * added up in parts. So a model without norms gives the same bits at every size, one with them where all panels are whole. */
static void threads_give_the_same_bits(void **state)
{
    (void)state;
    static const struct {
        const char *name, *prune, *sizes;
        size at[4];
    } cases[] = {
        {"mlp", NULL, SMALL_MLP, {{1, 1}, {63, 1}, {65, 1}, {200, 1}}},
        {"mlp", "4x1:0.8", SMALL_MLP, {{1, 1}, {16, 1}, {129, 1}, {300, 1}}},
        {"mlp", "1x1:0.7", SMALL_MLP, {{3, 1}, {64, 1}, {127, 1}, {320, 1}}},
        {"mlp", "2:4", SMALL_MLP, {{5, 1}, {64, 1}, {127, 1}, {320, 1}}},
        {"bert-mini", "1x1:0.8", SMALL_BERT, {{12, 64}, {12, 64}, {12, 128}, {24, 32}}},
        {"bert-mini", "16x4:0.7", SMALL_BERT, {{12, 64}, {12, 64}, {12, 128}, {24, 32}}},
    };
    for (size_t c = 0; c < SP_COUNT(cases); c++) {
        sparta_package *p = compile(zoo(cases[c].name, cases[c].prune, cases[c].sizes));
        sparta_session *s[4];
        for (int t = 0; t < 4; t++) s[t] = session(p, t + 1);
        for (size_t i = 0; i < SP_COUNT(cases[c].at); i++) {
            inputs in = make_inputs(p->plan, cases[c].at[i].batch, cases[c].at[i].sequence, i + 1);
            results one = run(s[0], p, &in);
            for (int t = 1; t < 4; t++) {
                results got = run(s[t], p, &in);
                same_bits(&got, &one, cases[c].name);
                free_results(&got);
            }
            free_results(&one), free_inputs(&in);
        }
        for (int t = 0; t < 4; t++) sparta_session_free(s[t]);
        sparta_package_close(p);
    }
}

/* Below a million operations nobody is woken, from there on all take part, and the bits are the same. */
static void small_runs_stay_on_one_thread(void **state)
{
    (void)state;
    static const struct {
        int64_t batch;
        bool shared;
    } at[] = {{1, false}, {64, false}, {80, false}, {128, true}, {320, true}, {2, false}, {1024, true}};
    int calls = 0;
    sparta_ctx_options o = {.size = sizeof o, .cache_dir = cache, .parallel_for = backwards, .host = &calls};
    sparta_session_options two = {.size = sizeof two, .threads = 2};
    sparta_ctx *host = sparta_ctx_create(&o);
    sparta_package *p = compile(zoo("mlp", NULL, SMALL_MLP)); /* 2 * 4588 operations a token */
    sparta_session *one = session(p, 1), *s = NULL;
    ok_in(host, sparta_session_create(host, p, &two, &s));
    for (size_t i = 0; i < SP_COUNT(at); i++) {
        inputs in = make_inputs(p->plan, at[i].batch, 1, i);
        calls = 0;
        results want = run(one, p, &in), got = run(s, p, &in);
        if ((calls > 0) != at[i].shared) fail_msg("batch %ld: %d jobs", (long)at[i].batch, calls);
        same_bits(&got, &want, "mlp");
        sp_session_share_from(s, 0); /* all of it */
        calls = 0;
        free_results(&got);
        got = run(s, p, &in);
        assert_true(calls > 0);
        same_bits(&got, &want, "mlp shared");
        sp_session_share_from(s, SP_SHARE_FROM);
        free_results(&want), free_results(&got), free_inputs(&in);
    }
    sparta_session_free(one), sparta_session_free(s);
    sparta_package_close(p);
    sparta_ctx_free(host);
}

/* Memory follows the sizes: larger for more tokens, given back for few, and freeing everything leaves nothing. */
static void memory_follows(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("mlp", "4x1:0.8", SMALL_MLP));
    sparta_session *s = session(p, 1);
    size_t small, large;
    for (int round = 0; round < 2; round++) {
        inputs in = make_inputs(p->plan, 4, 1, 1);
        results r = run(s, p, &in);
        small = sp_session_memory(s);
        free_results(&r), free_inputs(&in);
        in = make_inputs(p->plan, 2000, 1, 1);
        r = run(s, p, &in);
        large = sp_session_memory(s);
        assert_true(large > 2 * small && small > 0);
        free_results(&r), free_inputs(&in);
    }
    sparta_session_free(s);
    sparta_package_close(p);
}

static void profile(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT));
    sparta_session_options o = {.size = sizeof o, .threads = 2, .profile = 1};
    sparta_session *s = NULL;
    const sparta_step *step;
    ok(sparta_session_create(cx, p, &o, &s));
    inputs in = make_inputs(p->plan, 2, 32, 1);
    for (int i = 0; i < 3; i++) {
        results r = run(s, p, &in);
        free_results(&r);
    }
    const int n = sp_session_steps(s, &step);
    int strips = 0, attentions = 0;
    for (int i = 0; i < n; i++) {
        const bool chained =
            sp_attr_find(&sp_session_node(s, i)->attrs, "chain"); /* its time may be another's */
        assert_true((step[i].seconds > 0 || chained) && step[i].ops <= step[i].dense_ops);
        if (!strcmp(step[i].implement, "strip4") || !strcmp(step[i].implement, "quads")) {
            strips++;
            assert_true(step[i].ops > 0 && step[i].ops < .3 * step[i].dense_ops);
        }
        attentions +=
            !strcmp(step[i].op, "Attention") && !strcmp(step[i].implement, "attention") && step[i].ops > 0;
    }
    assert_int_equal(strips, 8); /* qkv, projection, up, down in each of two layers */
    assert_int_equal(attentions, 2);
    sparta_session_forget_times(s);
    for (int i = 0; i < n; i++) assert_true(sparta_session_step(s, i)->seconds == 0);
    assert_null(sparta_session_step(s, n));
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
}

/* The same elements in other dims are no step: they lie where they lie, also as an output and through several. */
static void other_dims_cost_nothing(void **state)
{
    (void)state;
    sparta_package *p = check_text(
        "graph \"g\"\ninput x: f32[batch,sequence,12]\nconst to: i64[4] = [0,0,3,4]\nconst back: i64[3] = "
        "[0,0,12]\n"
        "const axes: i64[1] = [0]\nnode a: ? = Exp(x) \"a\"\nnode r: ? = Reshape(a, to) \"r\"\n"
        "node u: ? = Unsqueeze(r, axes) \"u\"\nnode k: ? = CumSum(r, axes) \"k\"\n"
        "node q: ? = Reshape(k, back) \"q\"\nnode y: ? = Add(q, a) \"y\"\noutput y\noutput u\noutput q\n");
    sparta_session *s = session(p, 1);
    const sparta_step *step;
    const int n = sp_session_steps(s, &step);
    for (int i = 0; i < n; i++) assert_true(strcmp(step[i].op, "Reshape") && strcmp(step[i].op, "Unsqueeze"));
    sparta_session_free(s);
    sparta_package_close(p);
}

/* A plan that shows more than there is. */
static void hostile_views_are_refused(void **state)
{
    (void)state;
    sparta_package *p;
    ok(sp_package_create(cx, &p));
    p->plan = graph(
        "graph \"g\"\ninput x: f32[batch,12]\nconst to: i64[2] = [0,13]\n"
        "node a: f32[batch,12] = Exp(x) \"a\"\nnode y: f32[batch,13] = Reshape(a, to) \"y\"\noutput y\n");
    sparta_session *s = session(p, 1);
    inputs in = make_inputs(p->plan, 3, 1, 1);
    sparta_named_tensor out[] = {{.name = "y"}};
    assert_int_equal(sparta_session_run(cx, s, in.in, in.n, out, 1), SPARTA_E_SHAPE);
    assert_non_null(strstr(sparta_message(cx), "39 elements out of 36"));
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_without_a_size),
        cmocka_unit_test(many_symbols),
        cmocka_unit_test(all_models),
        cmocka_unit_test(portable_kernels),
        cmocka_unit_test(padding),
        cmocka_unit_test(masked_tokens_change_nothing),
        cmocka_unit_test(permuted_batch),
        cmocka_unit_test(repeatable),
        cmocka_unit_test(two_sessions),
        cmocka_unit_test(host_threads),
        cmocka_unit_test(memory_follows),
        cmocka_unit_test(profile),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(small_runs_stay_on_one_thread),
        cmocka_unit_test(other_dims_cost_nothing),
        cmocka_unit_test(hostile_views_are_refused),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
