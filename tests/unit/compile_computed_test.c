/* Values that a schedule sparsifies as the model runs: the answers are those of the references with the same Sparsify, whatever runs the product
 * that reads it; who is chosen and why; what is refused; packages written, read and damaged; no memory. (Slow: make test only.) */
#include "models.h"
#include "compile/lower.h"
#include "package_damage.h"

/* Two layers and a residual. Sizes that nothing divides; more inputs than a list of kernel skip has room for. */
#define MODEL(batch)                                                                                         \
    "graph \"g\"\ninput x: f32[" batch ",42]\nconst w: f32[42,1375] @\"w\"\nconst b: f32[1375] @\"b\"\n"     \
    "const v: f32[1375,70] @\"v\"\nconst c: f32[70] @\"c\"\nnode h: ? = MatMul(x, w) \"/h\"\n"               \
    "node i: ? = Add(h, b) \"/i\"\nnode j: ? = Relu(i) \"/j\"\nnode k: ? = MatMul(j, v) \"/k\"\n"            \
    "node l: ? = Add(k, c) \"/l\"\nnode m: ? = Tanh(l) \"/m\"\noutput m\n"

/* The same of two values that are computed: probabilities and what they weigh, and a matrix on the right for all items. */
#define PAIR                                                                                                 \
    "graph \"g\"\ninput q: f32[2,3,40,16]\ninput t: f32[2,3,16,300]\ninput v: f32[2,3,300,24]\n"             \
    "input r: f32[24,300]\ninput u: f32[300,70]\nnode s: ? = MatMul(q, t) \"/s\"\n"                          \
    "node p: ? = Softmax(s) {axis=-1} \"/p\"\nnode k: ? = MatMul(p, v) \"/k\"\n"                             \
    "node a: ? = MatMul(k, r) \"/a\"\nnode j: ? = Relu(a) \"/j\"\nnode m: ? = MatMul(j, u) \"/m\"\noutput "  \
    "m\n"

static sp_graph *obeyed(const char *text, const char *rules, sp_obeyed *o, sparta_schedule **s)
{
    sp_graph *g = graph(text);
    ok(sparta_schedule_parse(cx, rules, "s", root, s));
    ok(sp_compile_schedule(cx, g, *s, o));
    ok(sp_graph_verify(g));
    return g;
}

typedef struct wanted {
    const char *rules;
    const char *implement; /* of "/k"; NULL: whatever it is */
    const char *reason;    /* a part of it */
    bool dense;
} wanted;

static void check_runs(const sparta_package *p, const sp_graph *reference_graph, int64_t batch,
                       const char *what)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        inputs in = make_inputs(reference_graph, batch, 1, seed);
        results want = reference(reference_graph, &in), first = {0};
        for (int threads = 1; threads <= 3; threads++) {
            sparta_session *s = session(p, threads);
            sp_session_share_from(s, 0); /* small models, by all threads */
            results got = run(s, p, &in);
            close_enough(&got, &want, 3e-5, what); /* sums of 1375 */
            if (threads > 1) {
                same_bits(&got, &first, what);
                free_results(&got);
            } else {
                first = got;
            }
            sparta_session_free(s);
        }
        free_results(&first);
        free_results(&want);
        free_inputs(&in);
    }
}

static void try_model(const char *text, int64_t batch, const wanted *w)
{
    sp_obeyed o, again;
    sparta_schedule *s, *t;
    sp_graph *g = obeyed(text, w->rules, &o, &s), *same = typed(obeyed(text, w->rules, &again, &t));
    sp_compile_request r = quick();
    sparta_package *p, *read = NULL;
    r.obeyed = &o;
    r.options.dense_only = w->dense;
    p = compile_in(cx, g, r);
    const sp_node *k = node_named(p, "/k");
    if (w->implement) assert_string_equal(said_of(k, "implement"), w->implement);
    if (w->reason && !strstr(said_of(k, "reason"), w->reason))
        fail_msg("'%s' does not say '%s'", said_of(k, "reason"), w->reason);
    check_runs(p, same, batch, w->rules);
    ok(sparta_package_save(cx, p, in_root("computed.sparta")));
    ok(sparta_package_open(cx, in_root("computed.sparta"), &read));
    ok(sparta_package_check(cx, read));
    check_runs(read, same, batch, w->rules);
    sparta_package_close(read);
    sparta_package_close(p);
    sp_graph_free(same);
    sparta_schedule_free(s), sparta_schedule_free(t);
}

#define J "tensor \"/j:output\" "

static void answers_are_the_references(void **state)
{
    (void)state;
    static const wanted cases[] = {
        {J "{ sparsify topk(10%) }", "few_skip", "timed with 10 % of them there", false},
        {J "{ sparsify topk(1) }", "few_skip", NULL, false},
        {J "{ sparsify topk(99999) }", "few_dense", "input 100 % there: not skipping is faster", false},
        {J "{ sparsify threshold(0.5, bound=5%) }", "few_skip", "timed with 5.", false},
        {J "{ sparsify threshold(0.5, bound=80%, expect=50) }", "few_skip", "timed with 3.64 %", false},
        {J "{ sparsify threshold(1e20) }", NULL, NULL, false}, /* nothing stays */
        {"tensor \"/k:input\" { sparsify topk(100) }", "few_skip", NULL, false},
        {"tensor \"j\" { sparsify topk(100) }", "few_skip", NULL, false},
        {"tensor \"x\" { sparsify topk(4) }\n" J "{ sparsify topk(3) }", "few_skip", NULL, false},
        {J "{ sparsify topk(10%) }\ntensor \"v\" { implement few_dense }", "few_dense", "pins few_dense",
         false},
        {J "{ sparsify topk(10%) }", "few_dense", "dense implements only", true},
        {"tensor \"v\" { implement few_skip }", "few_skip", "pins few_skip", false},
        {"tensor \"v\" { sparsify magnitude(1x1, 0.9) }\n" J "{ sparsify topk(50%) }", NULL, NULL, false},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        try_model(MODEL("1"), 1, &cases[i]);
        if (i % 3 == 0) try_model(MODEL("3"), 3, &(wanted){.rules = cases[i].rules, .dense = cases[i].dense});
    }
    try_model(MODEL("16"), 16, &(wanted){.rules = J "{ sparsify topk(1%) }"});
    static const int64_t many[] = {1, 17, 64, 70, 200};
    for (size_t i = 0; i < SP_COUNT(many); i++)
        try_model(MODEL("batch"), many[i],
                  &(wanted){.rules = J "{ sparsify topk(2%) }",
                            .implement = "few_skip",
                            .reason = "timed with 2.04 % of them there"});
    try_model(MODEL("batch"), 70,
              &(wanted){.rules = "tensor \"v\" { implement few_skip }", .implement = "few_skip"});
    try_model(MODEL("batch"), 70,
              &(wanted){.rules = J "{ sparsify topk(40%) }",
                        .implement = "dense4",
                        .reason = "with more than 16 tokens skipping pays below 30 %"});
}

/* Of a line what is larger than the one before it. */
static int rising(void *user, const float *line, int64_t n, uint8_t *keep)
{
    (void)user;
    for (int64_t i = 0; i < n; i++) keep[i] = i && line[i] > line[i - 1];
    return 0;
}

/* A function of the caller's; bands; what is said of a value and once more for one who reads it: nodes with names of their own. */
static void other_ways_to_choose(void **state)
{
    (void)state;
    sparta_ctx *before = cx;
    cx = context(cache, NULL);
    sparta_line_function f = SPARTA_OPTIONS(sparta_line_function);
    f.name = "rising", f.keep = rising;
    ok(sparta_line_function_register(cx, &f));
    static const wanted cases[] = {
        {J "{ sparsify function(\"rising\", bound=3%) }", "few_skip", NULL, false},
        {J "{ sparsify function(\"rising\") }", NULL, NULL, false},
        {J "{ sparsify bands(left=40, right=3) }", "few_skip", "timed with 3.2 %", false},
        {J "{ sparsify bands(5, 0, expect=1%) }", "few_skip", "timed with 1.02 %", false},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        try_model(MODEL("3"), 3, &cases[i]);
        try_model(MODEL("batch"), 40, &(wanted){.rules = cases[i].rules});
    }
    sp_obeyed o;
    sparta_schedule *s;
    sp_graph *g =
        obeyed("graph \"g\"\ninput x: f32[2,8]\nnode j: ? = Neg(x) \"/j\"\nnode k: ? = Abs(j) \"/k\"\n"
               "node l: ? = Exp(j) \"/l\"\nnode m: ? = Add(k, l) \"/m\"\noutput m\n",
               "tensor \"/k:input\" { sparsify topk(3) }\ntensor \"/l:input\" { sparsify topk(5) }", &o, &s);
    int nodes = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < i; k++) assert_string_not_equal(g->node[i]->name, g->node[k]->name);
    for (int i = 0; i < g->n_nodes; i++) nodes += g->node[i]->op == SP_OP_Sparsify;
    assert_int_equal(nodes, 2);
    sp_graph_free(g);
    sparta_schedule_free(s);
    /* a package has the name; who runs it has to know the function */
    g = obeyed(MODEL("1"), cases[0].rules, &o, &s);
    sp_compile_request r = quick();
    r.obeyed = &o;
    sparta_package *p = compile_in(cx, g, r), *read = NULL;
    ok(sparta_package_save(cx, p, in_root("rising.sparta")));
    sparta_package_close(p);
    sparta_schedule_free(s);
    sparta_ctx_free(cx);
    cx = before;
    ok(sparta_package_open(cx, in_root("rising.sparta"), &read));
    sp_graph *given = typed(graph(MODEL("1")));
    inputs in = make_inputs(given, 1, 1, 1);
    sparta_session *run_it = session(read, 1);
    sparta_named_tensor out = {.name = "m"};
    fails_saying(SPARTA_E_USAGE, "no function 'rising'",
                 sparta_session_run(cx, run_it, in.in, in.n, &out, 1));
    sparta_session_free(run_it);
    free_inputs(&in);
    sp_graph_free(given);
    sparta_package_close(read);
}

/* Of weights, too. */
static void bands_of_weights(void **state)
{
    (void)state;
    sp_obeyed o;
    sparta_schedule *s;
    sp_graph *g = obeyed(MODEL("1"), "tensor \"v\" { sparsify bands(left=3, right=1) }", &o, &s);
    const sparta_tensor *v = sp_graph_find(g, "v")->constant; /* (k, n) */
    for (int64_t k = 0; k < v->dim[0]; k++)
        for (int64_t n = 0; n < v->dim[1]; n++) {
            const int64_t off = k - (n + v->dim[0] - v->dim[1]);
            const float x = ((const float *)v->data)[k * v->dim[1] + n];
            assert_int_equal(x != 0, off >= -3 && off <= 1);
        }
    sp_graph_free(g);
    sparta_schedule_free(s);
}

/* What is 0 already may be skipped at no price: the answer is that of the model as it was. */
static void zeros_of_relu_cost_nothing(void **state)
{
    (void)state;
    sp_obeyed o;
    sparta_schedule *s;
    sp_graph *given = typed(graph(MODEL("2")));
    sp_compile_request r = quick();
    sp_graph *g = obeyed(MODEL("2"), J "{ sparsify threshold(0, expect=10%) }", &o, &s);
    r.obeyed = &o;
    sparta_package *p = compile_in(cx, g, r);
    assert_string_equal(said_of(node_named(p, "/k"), "implement"), "few_skip");
    check_runs(p, given, 2, "zeros of Relu");
    assert_int_equal(o.n, 1);
    assert_true(o.effect[0].after == 1 && o.effect[0].n == 0 && o.effect[0].k == 1375);
    sparta_package_close(p);
    sp_graph_free(given);
    sparta_schedule_free(s);
}

/* A model in f16 is computed in f32, and what is computed with it. */
static void narrow_models(void **state)
{
    (void)state;
    sp_obeyed o;
    sparta_schedule *s;
    sp_compile_request r = quick();
    sp_graph *g =
        obeyed("graph \"g\"\ninput x: f16[1,42]\nconst w: f16[42,1375] @\"w\"\nconst v: f16[1375,70] @\"v\"\n"
               "node h: ? = MatMul(x, w) \"/h\"\nnode j: ? = Relu(h) \"/j\"\nnode k: ? = MatMul(j, v) "
               "\"/k\"\noutput k\n",
               J "{ sparsify topk(5%) }", &o, &s);
    r.obeyed = &o;
    sparta_package *p = compile_in(cx, g, r);
    int skip = 0;
    for (int i = 0; i < p->plan->n_nodes; i++)
        skip += !strcmp(said_of(p->plan->node[i], "implement"), "few_skip");
    assert_int_equal(skip, 1);
    sparta_package_close(p);
    sparta_schedule_free(s);
}

/* Where the number of tokens varies, the plan for few of them skips, and the usual one does not. */
static void plans_for_few_tokens(void **state)
{
    (void)state;
    static const char rules[] = "tensor \"/fc1/Relu:output\" { sparsify topk(28%) }";
    sp_graph *g = zoo("mlp", NULL, "inputs=40 hidden1=2000 hidden2=300 classes=10");
    sp_compile_request r = quick();
    sparta_package *p = NULL;
    int skip[2] = {0};
    ok(sp_onnx_write(cx, g, in_root("m.onnx")));
    sp_graph_free(g);
    ok(sp_file_write(cx, in_root("s.sched"), rules, strlen(rules)));
    r.options.schedule = in_root("s.sched");
    r.options.tokens = "1";
    ok(sp_compile_file(cx, in_root("m.onnx"), &r, &p));
    assert_int_equal(p->n_others, 1);
    for (int k = 0; k < 2; k++) {
        const sp_graph *plan = k ? p->other[0].plan : p->plan;
        for (int i = 0; i < plan->n_nodes; i++)
            skip[k] += !strcmp(said_of(plan->node[i], "implement"), "few_skip");
    }
    assert_int_equal(skip[0], 0);
    assert_int_equal(skip[1], 1);
    sparta_package_close(p);
}

#define P "tensor \"/p:output\" "

/* Products of two values that are computed: rows of the right one are listed. */
static void pairs_of_computed_values(void **state)
{
    (void)state;
    static const wanted cases[] = {
        {P "{ sparsify topk(10%) }", "matmul_skip", "10 % of them there (not timed)", false},
        {P "{ sparsify topk(1) }\n" J "{ sparsify topk(3) }", "matmul_skip", NULL, false},
        {P "{ sparsify threshold(0.01, bound=5%) }", "matmul_skip", "5 % of them there", false},
        {P "{ sparsify threshold(0.001, bound=80%, expect=9) }", "matmul_skip", "3 % of them", false},
        {P "{ sparsify threshold(1e20, expect=1) }", "matmul_skip", NULL, false}, /* nothing stays */
        {P "{ sparsify threshold(0, expect=10%) }", "matmul_skip", NULL, false},  /* all stays */
        {P "{ sparsify bands(left=5, right=9) }", "matmul_skip", "timed", false},
        {"tensor \"/k:input\" { sparsify topk(20) }", "matmul_skip", "6.67 %", false},
        {P "{ sparsify topk(40%) }", "", "skipping pays below 25 %", false},
        {P "{ sparsify topk(10%) }", "", "dense implements only", true},
        {J "{ sparsify topk(10%) }", NULL, NULL, false}, /* the attention stays one */
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) try_model(PAIR, 2, &cases[i]);
    try_model("graph \"g\"\ninput x: f32[1,30,80]\ninput v: f32[4,80,16]\nnode j: ? = Neg(x) \"/j\"\n"
              "node k: ? = MatMul(j, v) \"/k\"\noutput k\n",
              1, &(wanted){J "{ sparsify topk(10%) }", "", "as many matrices on both sides", false});
    sp_obeyed o;
    sparta_schedule *s;
    sp_compile_request timed = {.options = {.size = sizeof(sparta_compile_options), .db = database}};
    for (int turn = 0; turn < 2; turn++) { /* the second time from the database */
        sp_graph *same, *g = obeyed(PAIR, P "{ sparsify topk(2%) }\n" J "{ sparsify topk(2%) }", &o, &s);
        timed.obeyed = &o;
        ok(sp_graph_copy(g, &same));
        sparta_package *p = compile_in(cx, g, timed);
        for (int i = 0; i < 2; i++) {
            const sp_node *k = node_named(p, i ? "/k" : "/m");
            assert_string_equal(said_of(k, "implement"), "matmul_skip");
            assert_non_null(strstr(said_of(k, "reason"), "timed with 2 % of them there (measured: "));
        }
        check_runs(p, typed(same), 1, "timed");
        sparta_package_close(p);
        sp_graph_free(same);
        sparta_schedule_free(s);
    }
}

/* Candidates are built, checked and timed, with as many elements of the input there as the schedule says. */
static void they_compete(void **state)
{
    (void)state;
    sp_obeyed o;
    sparta_schedule *s;
    sp_graph *same;
    sp_compile_request timed = {.options = {.size = sizeof(sparta_compile_options), .db = database}};
    for (int turn = 0; turn < 2; turn++) { /* the second time from the database */
        sp_graph *g = obeyed(MODEL("1"), J "{ sparsify topk(2%) }", &o, &s);
        timed.obeyed = &o;
        ok(sp_graph_copy(g, &same));
        sparta_package *p = compile_in(cx, g, timed);
        const sp_node *k = node_named(p, "/k");
        assert_string_equal(said_of(k, "source"), turn ? "database" : "measured");
        assert_true(sp_attr_float(&k->attrs, "us", 0) > 0 && sp_attr_float(&k->attrs, "dense_us", 0) > 0);
        assert_non_null(strstr(said_of(k, "reason"), "us dense)"));
        check_runs(p, typed(same), 1, "timed");
        sparta_package_close(p);
        sp_graph_free(same);
        sparta_schedule_free(s);
    }
}

static void strict_models_do_not_skip(void **state)
{
    (void)state;
    sp_obeyed o;
    sparta_schedule *s;
    sp_compile_request r = quick();
    sparta_ctx *before = cx;
    sparta_ctx_options strict = SPARTA_OPTIONS(sparta_ctx_options);
    strict.strict = 1;
    strict.cache_dir = cache;
    cx = sparta_ctx_create(&strict);
    assert_non_null(cx);
    sp_graph *g = obeyed(MODEL("1"), J "{ sparsify topk(10%) }", &o, &s);
    r.obeyed = &o;
    sparta_package *p = compile_in(cx, g, r);
    assert_string_equal(said_of(node_named(p, "/k"), "implement"), "few_dense");
    assert_non_null(strstr(said_of(node_named(p, "/k"), "reason"), "options.strict"));
    sparta_package_close(p);
    sparta_schedule_free(s);
    g = obeyed(PAIR, P "{ sparsify topk(10%) }", &o, &s);
    p = compile_in(cx, g, r);
    assert_string_equal(said_of(node_named(p, "/k"), "implement"), "");
    assert_non_null(strstr(said_of(node_named(p, "/k"), "reason"), "options.strict"));
    sparta_package_close(p);
    sparta_schedule_free(s);
    sparta_ctx_free(cx);
    cx = before;
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        sparta_status status;
        const char *message;
    } cases[] = {
        {J "{ sparsify magnitude(1x1, 0.9) }", SPARTA_E_UNSUPPORTED,
         "s:1:22: 'j': sparsify magnitude is for weights; what is computed as the model runs takes topk(64)"},
        {J "{ sparsify mask(\"m.npz\") }", SPARTA_E_UNSUPPORTED, "s:1:22: 'j': sparsify mask is for weights"},
        {J "{ sparsify python(\"a:b\") }", SPARTA_E_UNSUPPORTED,
         "s:1:22: 'j': sparsify python is for weights"},
        {J "{ sparsify topk(10%, expect=20%) }", SPARTA_E_USAGE,
         "s:1:22: 'j': expect=20%: at most 138 of 1375 stay; expect no more than that"},
        {J "{ sparsify threshold(1e31) }", SPARTA_E_USAGE, "nothing is as large as 1e+31"},
        {J "{ sparsify topk(1); format csr }", SPARTA_E_UNSUPPORTED,
         "s:1:40: 'j': format csr: of what is computed only sparsify can be said"},
        {J "{ implement few_skip }", SPARTA_E_UNSUPPORTED,
         "s:1:22: 'j': implement few_skip: of what is computed"},
        {"tensor \"/m:output\" { sparsify topk(1) }", SPARTA_E_UNSUPPORTED,
         "s:1:22: 'm': it is an output of the model"},
        {"tensor \"v\" { sparsify topk(1) }", SPARTA_E_UNSUPPORTED,
         "s:1:14: 'v': topk is of what is computed as the model runs"},
        {"tensor \"v\" { sparsify threshold(1, bound=3) }", SPARTA_E_USAGE,
         "s:1:36: 'v': threshold: bound=3 is said of what is computed as the model runs; of a weight leave "
         "it out"},
        {J "{ sparsify function(\"nobody\") }", SPARTA_E_USAGE,
         "s:1:22: 'j': Sparsify: there is no function 'nobody'"},
        {"tensor \"v\" { sparsify function(\"f\") }", SPARTA_E_UNSUPPORTED,
         "s:1:32: 'v': function is of what is computed as the model runs"},
        {"tensor \"v\" { sparsify bands(1, 1, expect=3) }", SPARTA_E_USAGE, "of a weight leave it out"},
        {"tensor \"/o:output\" { sparsify topk(1) }", SPARTA_E_USAGE, "there is no node or module '/o'"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sparta_schedule *s;
        sp_obeyed o;
        sp_graph *g = graph(MODEL("1"));
        ok(sparta_schedule_parse(cx, cases[i].rules, "s", root, &s));
        const sparta_status got = sp_compile_schedule(cx, g, s, &o);
        if (got != cases[i].status || !strstr(sparta_message(cx), cases[i].message))
            fail_msg("%s\nsays (%d) %s\nnot (%d) %s", cases[i].rules, got, sparta_message(cx),
                     cases[i].status, cases[i].message);
        sparta_schedule_free(s);
        sp_graph_free(g);
    }
    static const char *const graphs[] = {
        "graph \"g\"\ninput x: i64[2,4]\nnode y: ? = Neg(x) \"/y\"\nnode z: ? = Neg(y) \"/z\"\noutput z\n",
        "graph \"g\"\ninput x: f32[2,n]\nnode y: ? = Neg(x) \"/y\"\nnode z: ? = Neg(y) \"/z\"\noutput z\n"};
    static const char *const says[] = {"it holds i64", "its last dimension is no number"};
    for (int i = 0; i < 2; i++) {
        sparta_schedule *s;
        sp_obeyed o;
        sp_graph *g = graph(graphs[i]);
        ok(sparta_schedule_parse(cx, "tensor \"y\" { sparsify topk(1) }", "s", root, &s));
        fails_saying(i ? SPARTA_E_UNSUPPORTED : SPARTA_E_USAGE, says[i], sp_compile_schedule(cx, g, s, &o));
        sparta_schedule_free(s);
        sp_graph_free(g);
    }
}

/* The same by calls of the public header. */
static void by_calls(void **state)
{
    (void)state;
    sp_graph *g = zoo("mlp", NULL, "inputs=40 hidden1=2000 hidden2=300 classes=10");
    sparta_schedule *s = NULL;
    sparta_schedule_rule *rule;
    sparta_package *p = NULL;
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    ok(sp_onnx_write(cx, g, in_root("m.onnx")));
    sp_graph_free(g);
    ok(sparta_schedule_create(cx, NULL, &s));
    ok(sparta_schedule_tensor(s, "/fc1/Relu:output", &rule));
    fails_saying(SPARTA_E_USAGE, "a share such as 25%", sparta_schedule_sparsify(rule, "topk(0%)"));
    ok(sparta_schedule_sparsify(rule, "topk(5%)"));
    o.rules = s;
    o.no_measure = 1;
    o.db = database;
    o.dims = (const char *const[]){"batch=1", NULL};
    ok(sparta_compile_package(cx, in_root("m.onnx"), &o, &p));
    assert_string_equal(said_of(node_named(p, "/fc2/Gemm"), "implement"), "few_skip");
    sparta_package_close(p);
    sparta_schedule_free(s);
}

/* From a file, with compile's own check: elements that lie at the edge of staying may be chosen otherwise by the references. */
static void whole_models(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "tensor \"/fc?/Relu:output\" { sparsify topk(25%) }",
        "tensor \"/fc?/Relu:output\" { sparsify threshold(0.05, bound=50%) }\nmodel { dim batch=2 }",
        "tensor \"/fc1/Relu:output\" { sparsify threshold(0, expect=20%) }\nmodel { dim batch=1:1:4 }"};
    for (size_t i = 0; i < SP_COUNT(rules); i++) {
        sp_graph *g = zoo("mlp", NULL, "inputs=100 hidden1=700 hidden2=300 classes=10");
        sp_compile_request r = quick();
        sparta_package *p = NULL;
        ok(sp_onnx_write(cx, g, in_root("m.onnx")));
        sp_graph_free(g);
        ok(sp_file_write(cx, in_root("s.sched"), rules[i], strlen(rules[i])));
        r.options.schedule = in_root("s.sched");
        ok(sp_compile_file(cx, in_root("m.onnx"), &r, &p));
        sparta_package_close(p);
    }
    sp_graph *g = zoo("gpt2-small", NULL, "layers=1 hidden=32 heads=2 ffn=64 vocab=50 positions=20");
    sp_compile_request r = quick();
    sparta_package *p = NULL;
    ok(sp_onnx_write(cx, g, in_root("m.onnx")));
    sp_graph_free(g);
    static const char text[] = "tensor \"/h.0/mlp/*MatMul:input\" { sparsify topk(50%) }";
    ok(sp_file_write(cx, in_root("s.sched"), text, strlen(text)));
    r.options.schedule = in_root("s.sched");
    if (sp_compile_file(cx, in_root("m.onnx"), &r, &p) != SPARTA_OK) fail_msg("%s", sparta_message(cx));
    sparta_package_close(p);
}

/* Bytes of the plan around the Sparsify, of weights and of all else, changed and signed: refused, or harmless. */
static void damage(const char *model, const char *rules)
{
    sp_obeyed o;
    sparta_schedule *s;
    sp_graph *g = obeyed(model, rules, &o, &s);
    sp_compile_request r = quick();
    sparta_package *p, *good = NULL;
    sp_rng rng = sp_rng_seed(9);
    int refused = 0, ran = 0;
    r.obeyed = &o;
    r.options.target = "portable"; /* machine code is trusted with its signature */
    p = compile_in(cx, g, r);
    ok(sparta_package_save(cx, p, in_root("good.sparta")));
    sparta_package_close(p);
    sparta_schedule_free(s);
    ok(sparta_package_open(cx, in_root("good.sparta"), &good));
    const size_t size = good->file.size;
    const uint8_t *image = good->file.data, *at = memmem(image, size, "Sparsify(", 9);
    assert_non_null(at);
    uint8_t *bad = sp_alloc(cx, size);
    assert_non_null(bad);
    for (int round = 0; round < 300; round++) {
        memcpy(bad, image, size);
        if (round % 2) /* a digit of its attributes, or a letter */
            bad[at - image + 9 + (long)(sp_rng_next(&rng) % 60)] = "0-9.e1{nai"[sp_rng_next(&rng) % 10];
        else
            bad[sp_rng_next(&rng) % size] ^= (uint8_t)(1u << sp_rng_next(&rng) % 8);
        sign(bad, size);
        ok(sp_file_write(cx, in_root("bad.sparta"), (const char *)bad, size));
        sparta_session *run_it = NULL;
        p = NULL;
        const sparta_session_options two = {.size = sizeof two, .threads = 2};
        if (sparta_package_open(cx, in_root("bad.sparta"), &p) != SPARTA_OK ||
            sparta_session_create(cx, p, &two, &run_it) != SPARTA_OK) {
            refused++;
            sparta_package_close(p);
            continue;
        }
        inputs in = make_inputs(p->plan, 1, 1, 2);
        results got = run(run_it, p, &in);
        ran++;
        free_results(&got);
        free_inputs(&in);
        sparta_session_free(run_it);
        sparta_package_close(p);
    }
    assert_true(refused > 0 && ran > 0);
    sp_free(cx, bad);
    sparta_package_close(good);
}

static void damaged_packages(void **state)
{
    (void)state;
    damage(MODEL("1"), J "{ sparsify threshold(0.1, bound=10%, expect=5%) }");
    damage(PAIR, P "{ sparsify threshold(0.1, bound=10%, expect=5%) }");
}

/* Whichever allocation fails, of obeying, compiling and running: E_MEMORY, and nothing is lost. */
static sparta_status all_of_it(sparta_ctx *c)
{
    sparta_schedule *s = NULL;
    sparta_package *p = NULL;
    sparta_session *runs = NULL;
    sp_graph *g = NULL;
    sp_obeyed o;
    sp_compile_request request = quick();
    const sparta_session_options one = {.size = sizeof one, .threads = 1};
    maker m = {sp_arena_create(c)};
    if (!m.arena) return sp_ctx_status(c);
    request.options.target = "portable";
    sparta_status got = sp_graph_parse(c, MODEL("1"), make_weight, &m, &g);
    if (got == SPARTA_OK)
        got = sparta_schedule_parse(c, J "{ sparsify topk(10%) }\ntensor \"x\" { sparsify threshold(0.1) }",
                                    "s", root, &s);
    if (got == SPARTA_OK) got = sp_compile_schedule(c, g, s, &o);
    request.obeyed = &o;
    if (got == SPARTA_OK) got = sp_compile_graph(c, g, &request, &p);
    if (got != SPARTA_OK) sp_graph_free(g);
    if (got == SPARTA_OK) got = sparta_session_create(c, p, &one, &runs);
    sparta_session_free(runs);
    sparta_package_close(p);
    sparta_schedule_free(s);
    sp_arena_free(m.arena);
    return got;
}

static void memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        sparta_ctx *c = context(cache, NULL);
        sp_ctx_fail_alloc(c, n, true);
        const sparta_status s = all_of_it(c);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_references),
        cmocka_unit_test(other_ways_to_choose),
        cmocka_unit_test(bands_of_weights),
        cmocka_unit_test(zeros_of_relu_cost_nothing),
        cmocka_unit_test(narrow_models),
        cmocka_unit_test(plans_for_few_tokens),
        cmocka_unit_test(pairs_of_computed_values),
        cmocka_unit_test(they_compete),
        cmocka_unit_test(strict_models_do_not_skip),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(by_calls),
        cmocka_unit_test(whole_models),
        cmocka_unit_test(damaged_packages),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
