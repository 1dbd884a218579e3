/* Lowering small graphs of every awkward kind, each run at several sizes and compared with the references; and what surrounds it: no
 * compiler, no cache, cancellation, budgets, masks, fixed dims, files. */
#include "models.h"
#include <pthread.h>

#define G  "graph \"g\"\n"
#define X  "input x: f32[batch,24]\n"
#define X3 "input x: f32[batch,sequence,24]\n"

static void options_without_a_size(void **state)
{
    (void)state;
    const sparta_compile_options o = {.no_measure = 1};
    fails(SPARTA_E_USAGE, sparta_compile(cx, "model.onnx", "model.sparta", &o));
    says("compile: the size of its options is 0");
    fails(SPARTA_E_USAGE, sparta_propagate_file(cx, "model.onnx", "smaller.onnx", &o));
    says("propagate: the size of its options is 0");
}

/* Nodes of a plan that an implement runs ("" counts what the builtins run). */
static int run_by(const sparta_package *p, const char *implement)
{
    int n = 0;
    for (int i = 0; i < p->plan->n_nodes; i++)
        n += !strcmp(said_of(p->plan->node[i], "implement"), implement);
    return n;
}

static void expect_runs(const char *text, const char *implement, int count)
{
    sparta_package *p = check_text(text);
    const int got = run_by(p, implement);
    if (got != count) {
        sp_text t;
        sp_text_init(&t, cx);
        sp_graph_print(p->plan, &t);
        fprintf(stderr, "%s\n", sp_text_str(&t));
        sp_text_free(&t);
        fail_msg("%d nodes by %s, expected %d", got, implement, count);
    }
    sparta_package_close(p);
}

/* ------------------------------------------------------------------ linear layers */

static void shapes_of_linear(void **state)
{
    (void)state;
    static const int nk[][2] = {{1, 1}, {4, 1}, {5, 1},  {1, 7},    {3, 3},
                                {4, 4}, {7, 9}, {64, 3}, {66, 130}, {130, 66}};
    static const char *const weights[] = {"w", "w|4x1:0.6", "w|1x1:0.8", "w|1x1:1.0", "w|cols:0.5"};
    for (size_t i = 0; i < SP_COUNT(nk); i++)
        for (size_t k = 0; k < SP_COUNT(weights); k++) {
            char text[512];
            snprintf(text, sizeof text,
                     G "input x: f32[batch,%d]\nconst w: f32[%d,%d] @\"%s\"\nconst b: f32[%d] @\"b\"\n"
                       "node m: ? = MatMul(x, w) \"m\"\nnode y: ? = Add(m, b) \"y\"\noutput y\n",
                     nk[i][1], nk[i][1], nk[i][0], weights[k], nk[i][0]);
            sparta_package *p = check_text(text);
            assert_int_equal(
                run_by(p, "dense4") + run_by(p, "strip4") + run_by(p, "quads") + run_by(p, "pairs"), 1);
            sparta_package_close(p);
        }
}

/* Coordinates that need more than 16 bits. */
static void very_wide(void **state)
{
    (void)state;
    static const char text[] = G "input x: f32[batch,70001]\nconst w: f32[70001,8] @\"w|4x1:0.9\"\nnode y: ? "
                                 "= MatMul(x, w) \"y\"\noutput y\n";
    sp_graph *want = typed(graph(text));
    sparta_package *p = compile(graph(text));
    assert_string_equal(said_of(node_named(p, "y"), "implement"), "strip4");
    assert_int_equal(p->weight[0].pack.format.level[1].crd, SPARTA_U32);
    ok(sparta_package_save(cx, p, in_root("wide.sparta")));
    sparta_package *q;
    ok(sparta_package_open(cx, in_root("wide.sparta"), &q));
    sparta_session *s = session(p, 2), *t = session(q, 1);
    inputs in = make_inputs(want, 3, 1, 1);
    agree(s, p, want, &in, "wide");
    agree(t, q, want, &in, "wide, opened");
    free_inputs(&in);
    sparta_session_free(s), sparta_session_free(t);
    sparta_package_close(p), sparta_package_close(q);
    sp_graph_free(want);
}

static void activations_and_residuals(void **state)
{
    (void)state;
    static const char *const acts[] = {
        "Relu(b1)", "Tanh(b1)", "Sigmoid(b1)", "Gelu(b1)", "Gelu(b1) {approximate=\"tanh\"}", "Identity(b1)"};
    for (size_t i = 0; i < SP_COUNT(acts); i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 G X
                 "const w: f32[24,24] @\"w|4x1:0.5\"\nconst b: f32[24] @\"b\"\nconst v: f32[24,24] @\"v\"\n"
                 "node m: ? = MatMul(x, w) \"m\"\nnode b1: ? = Add(m, b) \"b1\"\nnode a: ? = %s \"a\"\n"
                 "node n: ? = MatMul(a, v) \"n\"\nnode r: ? = Add(n, x) \"r\"\nnode t: ? = Add(r, a) "
                 "\"t\"\noutput t\n",
                 acts[i]);
        sparta_package_close(check_text(text));
    }
    /* An activation after the residual, as residual networks have it, is part of the product too. */
    sparta_package *p = check_text(
        G X
        "const w: f32[24,24] @\"w|4x1:0.5\"\nconst b: f32[24] @\"b\"\nnode m: ? = MatMul(x, w) \"m\"\nnode "
        "c: ? = Add(m, b) \"c\"\nnode r: ? = Add(x, c) \"r\"\nnode y: ? = Relu(r) \"y\"\noutput y\n");
    int linears = 0;
    for (int i = 0; i < p->plan->n_nodes; i++) {
        const sp_node *n = p->plan->node[i];
        assert_true(n->op == SP_OP_Linear || n->op == SP_OP_Identity);
        if (n->op != SP_OP_Linear) continue;
        linears++;
        assert_string_equal(sp_attr_string(&n->attrs, "epilogue", ""), "bias add relu");
    }
    assert_int_equal(linears, 1);
    sparta_package_close(p);
}

/* A weight that several layers use is stored for each in its own way. */
static void shared_weights(void **state)
{
    (void)state;
    /* two layers, the same way */
    expect_runs(G X "const w: f32[24,24] @\"w|4x1:0.7\"\nnode a: ? = MatMul(x, w) \"a\"\nnode r: ? = Relu(a) "
                    "\"r\"\nnode y: ? = MatMul(r, w) \"y\"\noutput y\n",
                "strip4", 2);
    /* the other way round */
    expect_runs(G X "const w: f32[24,24] @\"w|4x1:0.7\"\nnode a: ? = MatMul(x, w) \"a\"\nnode y: ? = Gemm(a, "
                    "w) {transB=1} \"y\"\noutput y\n",
                "dense4", 0);
    /* as rows too: an embedding tied to the last layer, and the weight itself as an output */
    sparta_package_close(check_text(
        G
        "input i: i64[batch,sequence]\nconst w: f32[50,24] @\"w^4x1:0.7\"\nnode e: ? = Gather(w, i) \"e\"\n"
        "node t: ? = Transpose(w) {perm=[1,0]} \"t\"\nnode y: ? = MatMul(e, t) \"y\"\noutput y\noutput w\n"));
    /* with names that are the same */
    sparta_package_close(check_text(G X
                                    "const w: f32[24,24] @\"w\"\nnode a: ? = MatMul(x, w) \"\"\nnode r: ? = "
                                    "Tanh(a) \"\"\nnode b: ? = MatMul(r, w) \"\"\n"
                                    "node s: ? = Tanh(b) \"\"\nnode y: ? = MatMul(s, w) \"\"\noutput y\n"));
}

static void products_that_stay(void **state)
{
    (void)state;
    sparta_package *p = check_text(
        G X3
        "input z: f32[batch,24,sequence]\nnode y: ? = MatMul(x, z) \"y\"\noutput y\n"); /* two activations */
    assert_string_equal(said_of(node_named(p, "y"), "kernel"), "");
    assert_string_equal(said_of(node_named(p, "y"), "reason"),
                        "product of two activations that is no attention: the reference runs it");
    sparta_package_close(p);
    expect_runs(G X3 "const w: f32[24] @\"w\"\nnode y: ? = MatMul(x, w) \"y\"\noutput y\n", "",
                1); /* a vector */
    static const char stack[] =
        G "input x: f32[batch,3,5,24]\nconst w: f32[3,24,8] @\"w\"\nnode y: ? = MatMul(x, w) \"y\"\n"
          "output y\n";
    expect_runs(stack, "", 1);
    p = check_text(stack);
    assert_string_equal(said_of(node_named(p, "y"), "reason"),
                        "product with a constant in a form that has no kernel, as a stack of matrices: the "
                        "reference runs it");
    sparta_package_close(p);
    expect_runs(
        G "input x: f64[batch,24]\nconst w: f64[24,8] @\"w\"\nnode y: ? = MatMul(x, w) \"y\"\noutput y\n", "",
        1);
    expect_runs(G "input x: f32[24]\nconst w: f32[24,8] @\"w\"\nnode y: ? = MatMul(x, w) \"y\"\noutput y\n",
                "", 1);
}

/* ------------------------------------------------------------------ outputs */

static void awkward_outputs(void **state)
{
    (void)state;
    static const char *const texts[] = {
        G X "output x\n",                                                                 /* an input */
        G X "const c: f32[3] = [1,2,3]\nconst d: f32[40,2] @\"d\"\noutput c\noutput d\n", /* constants */
        G X "const w: f32[24,8] @\"w\"\nnode y: ? = MatMul(x, w) \"y\"\noutput y\noutput x\noutput "
            "w\n", /* all kinds */
        G X "const w: f32[24,24] @\"w|4x1:0.7\"\nnode a: ? = MatMul(x, w) \"a\"\nnode b: ? = Relu(a) "
            "\"b\"\noutput a\noutput b\n",
        G X "const w: f32[24,24] @\"w\"\nconst v: f32[24,8] @\"v\"\nnode a: ? = MatMul(x, w) "
            "\"a\"\nnode b: ? = MatMul(a, v) \"b\"\noutput a\noutput b\n",
        G X "const w: f32[24,24] @\"w\"\nconst g: f32[24] @\"g\"\nnode a: ? = MatMul(x, w) \"a\"\nnode "
            "b: ? = LayerNormalization(a, g) \"b\"\n"
            "node c: ? = Softmax(a) \"c\"\noutput a\noutput b\noutput c\n", /* panels and rows read it */
        G X "const w: f32[24,24] @\"w\"\nnode a: ? = MatMul(x, w) \"a\"\nnode b: ? = Add(a, x) "
            "\"b\"\nnode c: ? = Add(b, a) \"c\"\noutput b\noutput c\noutput a\n",
        G X "node y: ? = Relu(x) \"y\"\noutput y\n", /* nothing but a map */
        G X "const g: f32[24] @\"g\"\nnode y: ? = LayerNormalization(x, g) \"y\"\noutput y\n",
        G "input x: f32[batch,24]\ninput z: f32[batch,24]\nnode y: ? = Add(x, z) \"y\"\noutput y\n",
    };
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sparta_package *p = check_text(texts[i]), *q;
        ok(sparta_package_save(cx, p, in_root("outputs.sparta")));
        ok(sparta_package_open(cx, in_root("outputs.sparta"), &q));
        sparta_session *a = session(p, 2), *b = session(q, 2);
        inputs in = make_inputs(p->plan, 5, 3, 1);
        results r = run(a, p, &in), t = run(b, q, &in);
        same_bits(&r, &t, texts[i]);
        free_results(&r), free_results(&t), free_inputs(&in);
        sparta_session_free(a), sparta_session_free(b);
        sparta_package_close(p), sparta_package_close(q);
    }
}

/* ------------------------------------------------------------------ layouts */

/* A wide Split of panels, gathered again in rows: many conversions for few nodes. */
static void many_conversions(void **state)
{
    (void)state;
    enum { PARTS = 60 };
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, G X "const w: f32[24,%d] @\"w\"\nnode a: ? = MatMul(x, w) \"a\"\nnode ", 4 * PARTS);
    for (int i = 0; i < PARTS; i++) sp_text_printf(&t, "%ss%d: ?", i ? ", " : "", i);
    sp_text_printf(&t, " = Split(a) {axis=1, num_outputs=%d} \"s\"\nnode y: ? = Concat(", PARTS);
    for (int i = 0; i < PARTS; i++) sp_text_printf(&t, "%ss%d", i ? ", " : "", PARTS - 1 - i);
    sp_text_printf(&t, ") {axis=0} \"y\"\noutput y\n");
    sparta_package *p = check_text(sp_text_str(&t));
    assert_int_equal(run_by(p, "to_rows"), PARTS);
    sparta_package_close(p);
    sp_text_free(&t);
}

static void splits(void **state)
{
    (void)state;
    /* uneven, not of fours: the reference splits rows */
    sparta_package_close(check_text(
        G X3
        "const w: f32[24,12] @\"w\"\nconst sizes: i64[2] = [5,7]\nnode a: ? = MatMul(x, w) \"a\"\n"
        "node p: ?, q: ? = Split(a, sizes) {axis=2} \"s\"\nnode r: ? = Relu(p) \"r\"\noutput r\noutput q\n"));
    /* of fours, both read by layers */
    sparta_package_close(
        check_text(G X3 "const w: f32[24,32] @\"w\"\nconst u: f32[20,8] @\"u|4x1:0.5\"\nconst v: f32[12,8] "
                        "@\"v\"\nconst sizes: i64[2] = [20,12]\n"
                        "node a: ? = MatMul(x, w) \"a\"\nnode p: ?, q: ? = Split(a, sizes) {axis=-1} "
                        "\"s\"\nnode b: ? = MatMul(p, u) \"b\"\n"
                        "node c: ? = MatMul(q, v) \"c\"\nnode y: ? = Add(b, c) \"y\"\noutput y\n"));
    /* a split of a split, one part an output */
    sparta_package_close(check_text(
        G X3 "const w: f32[24,32] @\"w\"\nconst s2: i64[2] = [16,16]\nconst s3: i64[2] = [4,12]\nnode a: ? = "
             "MatMul(x, w) \"a\"\n"
             "node p: ?, q: ? = Split(a, s2) {axis=2} \"s\"\nnode e: ?, f: ? = Split(q, s3) {axis=2} \"t\"\n"
             "node g: ? = Tanh(f) \"g\"\nnode h: ? = Relu(e) \"h\"\noutput p\noutput g\noutput h\n"));
    /* along the tokens: no view of panels */
    sparta_package_close(check_text(G "input x: f32[batch,6,24]\nconst w: f32[24,32] @\"w\"\nconst s2: "
                                      "i64[2] = [2,4]\nnode a: ? = MatMul(x, w) \"a\"\n"
                                      "node p: ?, q: ? = Split(a, s2) {axis=1} \"s\"\noutput p\noutput q\n"));
}

static void rows_and_panels_mixed(void **state)
{
    (void)state;
    sparta_package_close(check_text(
        G X3 "const w: f32[24,24] @\"w|4x1:0.7\"\nconst v: f32[24,24] @\"v\"\nconst g: f32[24] @\"g\"\nconst "
             "half: f32[] = [0.5]\n"
             "node a: ? = MatMul(x, w) \"a\"\nnode n: ? = LayerNormalization(a, g, g) \"n\"\nnode s: ? = "
             "Softmax(n) \"s\"\n"
             "node m: ? = Mul(s, half) \"m\"\nnode b: ? = MatMul(m, v) \"b\"\nnode r: ? = Add(b, n) \"r\"\n"
             "node t: ? = Transpose(r) {perm=[1,0,2]} \"t\"\nnode c: ? = MatMul(t, w) \"c\"\nnode y: ? = "
             "Sub(c, t) \"y\"\noutput y\n"));
    /* the tokens change their shape in between: rank 4, rank 2 */
    sparta_package_close(check_text(G "input x: f32[batch,2,sequence,8]\nconst w: f32[8,12] @\"w\"\nconst "
                                      "shape: i64[2] = [-1,24]\nconst v: f32[24,16] @\"v|1x1:0.9\"\n"
                                      "node a: ? = MatMul(x, w) \"a\"\nnode f: ? = Reshape(a, shape) "
                                      "\"f\"\nnode y: ? = MatMul(f, v) \"y\"\noutput y\n"));
    /* layers on differently many tokens side by side */
    sparta_package_close(check_text(G X3
                                    "input z: f32[batch,24]\nconst w: f32[24,24] @\"w\"\nconst one: i64[1] = "
                                    "[1]\nnode a: ? = MatMul(x, w) \"a\"\nnode b: ? = MatMul(z, w) \"b\"\n"
                                    "node c: ? = Relu(b) \"c\"\nnode d: ? = Unsqueeze(c, one) \"d\"\nnode y: "
                                    "? = Add(a, d) \"y\"\noutput y\n"));
}

static void attentions(void **state)
{
    (void)state;
    /* heads, their rows in q and k, in v: not all of fours, and as propagation leaves them, not equal */
    static const int heads[][3] = {{2, 12, 12}, {3, 8, 8}, {6, 4, 4}, {4, 6, 6}, {8, 3, 3}, {1, 24, 24},
                                   {4, 5, 8},   {4, 8, 5}, {4, 3, 7}, {2, 6, 1}, {3, 5, 7}, {1, 1, 9}};
    for (size_t i = 0; i < SP_COUNT(heads); i++) {
        char text[1792];
        const int n = heads[i][0], e = heads[i][1], d = heads[i][2];
        snprintf(
            text, sizeof text,
            G X3
            "const wq: f32[24,%d] @\"wq\"\nconst wk: f32[24,%d] @\"wk|4x1:0.5\"\nconst wv: "
            "f32[24,%d] @\"wv\"\nconst wo: f32[%d,24] @\"wo\"\nconst to: i64[4] = [0,0,%d,%d]\n"
            "const vto: i64[4] = [0,0,%d,%d]\nconst from: i64[3] = [0,0,%d]\nconst scale: f32[] = [0.3]\n"
            "node q: ? = MatMul(x, wq) \"q\"\nnode k: ? = MatMul(x, wk) \"k\"\nnode v: ? = "
            "MatMul(x, wv) \"v\"\n"
            "node q1: ? = Reshape(q, to) \"q1\"\nnode k1: ? = Reshape(k, to) \"k1\"\nnode v1: ? = "
            "Reshape(v, vto) \"v1\"\n"
            "node q2: ? = Transpose(q1) {perm=[0,2,1,3]} \"q2\"\nnode k2: ? = Transpose(k1) "
            "{perm=[0,2,3,1]} \"k2\"\nnode v2: ? = Transpose(v1) {perm=[0,2,1,3]} \"v2\"\n"
            "node s: ? = MatMul(q2, k2) \"s\"\nnode s1: ? = Mul(s, scale) \"s1\"\nnode p: ? = "
            "Softmax(s1) \"p\"\nnode o: ? = MatMul(p, v2) \"o\"\n"
            "node o1: ? = Transpose(o) {perm=[0,2,1,3]} \"o1\"\nnode o2: ? = Reshape(o1, from) "
            "\"o2\"\nnode y: ? = MatMul(o2, wo) \"y\"\noutput y\n",
            n * e, n * e, n * d, n * d, n, e, n, d, n * d);
        expect_runs(text, "attention", 1);
    }
}

/* ------------------------------------------------------------------ non-finite values */

static void non_finite(void **state)
{
    (void)state;
    static const char text[] =
        G X "const w: f32[24,24] @\"w|4x1:0.7\"\nnode y: ? = MatMul(x, w) \"y\"\noutput y\n";
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.strict = 1, o.cache_dir = cache;
    sparta_ctx *strict = sparta_ctx_create(&o);
    sp_graph *want = typed(graph(text));
    sparta_package *p = compile_in(strict, graph_in(strict, text), quick()), *sparse = compile(graph(text));
    assert_string_equal(said_of(node_named(p, "y"), "implement"), "dense4");
    mentions(said_of(node_named(p, "y"), "reason"), "options.strict", __FILE__, __LINE__);
    assert_string_equal(said_of(node_named(sparse, "y"), "implement"), "strip4");
    sparta_session *s = session(p, 1), *t = session(sparse, 1);
    inputs in = make_inputs(want, 4, 1, 1);
    float *x = in.in[0].tensor.data;
    x[3] = INFINITY, x[24 + 5] = -INFINITY, x[48 + 7] = NAN;
    agree(s, p, want, &in, "strict"); /* 0 x Inf is NaN */
    results a = run(t, sparse, &in), b = reference(want, &in);
    for (int i = 3 * 24; i < 4 * 24; i++)
        assert_true(fabsf(((float *)a.t[0].data)[i] - ((float *)b.t[0].data)[i]) <
                    1e-4f); /* finite tokens are not touched */
    free_results(&a), free_results(&b), free_inputs(&in);
    sparta_session_free(s), sparta_session_free(t);
    sparta_package_close(p), sparta_package_close(sparse);
    sp_graph_free(want);
    sparta_ctx_free(strict);
}

/* ------------------------------------------------------------------ the machine's help may be absent */

static void script(const char *path, const char *text)
{
    ok(sp_file_write(cx, path, text, strlen(text)));
    chmod(path, 0700);
}

static void works_with(const char *cache_dir, const char *compiler, bool code, const char *note)
{
    sparta_ctx *c = context(cache_dir, compiler);
    sp_graph *want = typed(zoo("mlp", "4x1:0.8", "inputs=37 hidden1=64 hidden2=31 classes=10"));
    sp_compile_request request = quick();
    request.options.db = NULL;
    sparta_package *p =
        compile_in(c, zoo_in(c, "mlp", "4x1:0.8", "inputs=37 hidden1=64 hidden2=31 classes=10"), request);
    sparta_session *s = session_in(c, p, 2);
    inputs in = make_inputs(want, 9, 1, 1);
    results got = run_in(c, s, p, &in), expected = reference(want, &in);
    close_enough(&got, &expected, 1e-4, note);
    for (int i = 0; i < p->n_kernels; i++)
        assert_int_equal(p->kernel[i].n_code > 0,
                         code && sp_target_best(SP_DEVICE_CPU) != SP_TARGET_PORTABLE);
    if (sp_target_best(SP_DEVICE_CPU) != SP_TARGET_PORTABLE)
        mentions(sparta_notes(c), note, __FILE__, __LINE__);
    free_results_in(c, &got), free_results(&expected), free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
    sp_graph_free(want);
    assert_int_equal(sp_ctx_memory(c), 0);
    sparta_ctx_free(c);
}

static void without_help(void **state)
{
    (void)state;
    const char *empty = in_root("empty-cache"), *file = in_root("a-file");
    script(file, "");
    script(in_root("fails"), "#!/bin/sh\necho sorry >&2\nexit 3\n");
    script(in_root("nothing"), "#!/bin/sh\nexit 0\n");
    works_with("", "", false, "compiler"); /* none of either */
    works_with(in_root("cache-a"), "", false, "compiler");
    works_with(in_root("cache-b"), in_root("fails"), false, "compiler");
    works_with(in_root("cache-c"), in_root("nothing"), false, "");
    works_with(in_root("cache-d"), in_root("does-not-exist"), false, "compiler");
    works_with(file, NULL, true, "cache"); /* not a folder */
    assert_int_equal(mkdir(empty, 0777), 0);
    chmod(empty, 0777); /* anybody's */
    works_with(empty, NULL, true, "cache");
}

static void *cancel_soon(void *arg)
{
    usleep(20000);
    sparta_ctx_cancel(arg);
    return NULL;
}

static void cancel_at(void *arg, int done, int all, const char *what)
{
    (void)all, (void)what;
    if (done == 2) sparta_ctx_cancel(arg);
}

/* Compilers take longest: that is told before they run. */
static void cancel_before(void *arg, int done, int all, const char *what)
{
    (void)all;
    if (done == 0 && !strcmp(what, "compiling kernels")) sparta_ctx_cancel(arg);
}

static void cancelled(void **state)
{
    (void)state;
    const char *onnx = in_root("c.onnx"), *out = in_root("c.sparta");
    sp_graph *g = zoo("bert-mini", "4x1:0.8", SMALL_BERT);
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    void (*const progress[4])(void *, int, int, const char *) = {[1] = cancel_at, [3] = cancel_before};
    for (int how = 0; how < 4; how++) {
        sparta_ctx *c = context(in_root("cold"), NULL); /* an empty cache: the compiler would have to run */
        sp_compile_request request = {
            .options = {.size = sizeof request.options, .progress = progress[how], .progress_user = c}};
        sparta_package *p = NULL;
        pthread_t thread;
        if (how == 0) sparta_ctx_cancel(c);
        if (how == 2) assert_int_equal(pthread_create(&thread, NULL, cancel_soon, c), 0);
        sparta_status s =
            how == 0 ? sparta_compile(c, onnx, out, NULL) : sp_compile_file(c, onnx, &request, &p);
        if (how == 2) pthread_join(thread, NULL);
        assert_int_equal(s, SPARTA_E_CANCELLED);
        assert_null(p);
        assert_int_not_equal(access(out, F_OK), 0);
        assert_int_equal(sp_ctx_memory(c), 0);
        sparta_ctx_free(c);
    }
}

static void budget(void **state)
{
    (void)state;
    const char *onnx = in_root("b.onnx"), *out = in_root("b.sparta");
    sp_graph *g = zoo("bert-mini", "4x1:0.8", SMALL_BERT);
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = cache;
    o.max_memory = 100000;
    sparta_ctx *c = sparta_ctx_create(&o);
    assert_int_equal(sparta_compile(c, onnx, out, NULL), SPARTA_E_MEMORY);
    mentions(sparta_message(c), "options.max_memory", __FILE__, __LINE__);
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_equal(sp_ctx_memory(c), 0);
    sparta_ctx_free(c);
}

/* ------------------------------------------------------------------ files: masks, dims */

static sparta_status compile_with(const char *onnx, const char *masks, const char *const *dims,
                                  const char *out)
{
    sparta_compile_options o = {.size = sizeof o, .masks = masks, .no_measure = 1, .dims = dims};
    unlink(out);
    sparta_status s = sparta_compile(cx, onnx, out, &o);
    assert_int_equal(access(out, F_OK) == 0, s == SPARTA_OK);
    return s;
}

static void masks(void **state)
{
    (void)state;
    const char *onnx = in_root("m.onnx"), *npz = in_root("m.npz"), *out = in_root("m.sparta");
    static uint8_t keep[20 * 24], wrong[24 * 20];
    sp_graph *g = graph(G X "const w: f32[24,20] @\"w\"\nnode y: ? = MatMul(x, w) \"y\"\noutput y\n");
    ok(sp_ops_infer(g));
    ok(sp_onnx_write(cx, g, onnx));
    for (int i = 0; i < 24 * 20; i++) keep[i] = i / 20 % 3 == 0; /* inputs 0, 3, 6, ... */
    const char *names[] = {"w"};
    sparta_tensor t = sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){24, 20}, keep);
    ok(sp_npz_write(cx, npz, 1, names, &t));
    ok(compile_with(onnx, npz, NULL, out));
    sparta_package *p;
    ok(sparta_package_open(cx, out, &p));
    const sp_node *y = node_named(p, "y");
    assert_string_equal(said_of(y, "implement"), "strip4");
    assert_string_equal(said_of(y, "pattern"), "cols");
    assert_true(fabs(sp_attr_float(&y->attrs, "density", 0) - 1 / 3.) < 1e-6);
    float *w = (float *)(uintptr_t)sp_graph_find(g, "w")->constant->data;
    for (int i = 0; i < 24 * 20; i++)
        if (!keep[i]) w[i] = 0;
    sparta_session *s = session(p, 1);
    inputs in = make_inputs(g, 7, 1, 1);
    agree(s, p, g, &in, "masked");
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);

    /* the same masks as safetensors make the same package */
    const char *tensors = in_root("m.safetensors"), *other = in_root("m2.sparta");
    char *one = NULL, *two = NULL;
    size_t n_one = 0, n_two = 0;
    ok(sp_safetensors_write(cx, tensors, 1, names, &t, 0, NULL));
    ok(compile_with(onnx, tensors, NULL, other));
    ok(sp_file_read(cx, out, 1 << 24, &one, &n_one));
    ok(sp_file_read(cx, other, 1 << 24, &two, &n_two));
    assert_int_equal(n_one, n_two);
    assert_memory_equal(one, two, n_one);
    sp_free(cx, one), sp_free(cx, two);
    names[0] = "nobody's";
    ok(sp_safetensors_write(cx, tensors, 1, names, &t, 0, NULL));
    fails(SPARTA_E_USAGE, compile_with(onnx, tensors, NULL, other));
    says("the model has no weight 'nobody's'");
    ok(sp_file_write(cx, tensors, "\2\0\0\0\0\0\0\0[]", 10));
    fails(SPARTA_E_FORMAT, compile_with(onnx, tensors, NULL, other));
    says("does not begin with '{'");
    fails(SPARTA_E_FORMAT, compile_with(onnx, onnx, NULL, other)); /* a model is no masks */
    says("give an .npz or a .safetensors");

    names[0] = "no such weight";
    ok(sp_npz_write(cx, npz, 1, names, &t));
    fails(SPARTA_E_USAGE, compile_with(onnx, npz, NULL, out));
    says("no such weight");
    names[0] = "w";
    t = sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){20, 24}, wrong);
    ok(sp_npz_write(cx, npz, 1, names, &t));
    fails(SPARTA_E_USAGE, compile_with(onnx, npz, NULL, out));
    says("it is 20x24, the weight is 24x20");
    fails(SPARTA_E_IO, compile_with(onnx, in_root("missing.npz"), NULL, out));
    ok(sp_file_write(cx, npz, "PK nonsense", 11));
    fails(SPARTA_E_FORMAT, compile_with(onnx, npz, NULL, out));
    sp_graph_free(g);
}

static void dims(void **state)
{
    (void)state;
    const char *onnx = in_root("d.onnx"), *out = in_root("d.sparta");
    sp_graph *g = zoo("bert-mini", "4x1:0.8", TINY_BERT);
    ok(sp_onnx_write(cx, g, onnx));
    ok(compile_with(onnx, NULL, (const char *[]){"batch=3", "sequence=4:7:20", NULL}, out));
    sparta_package *p;
    ok(sparta_package_open(cx, out, &p));
    sparta_session *s = session(p, 2);
    ok(sp_ops_infer(g));
    inputs in = make_inputs(g, 3, 9, 1), other = make_inputs(g, 2, 9, 1);
    agree(s, p, g, &in, "batch=3");
    sparta_named_tensor y = {.name = "last_hidden_state"};
    fails(SPARTA_E_USAGE, sparta_session_run(cx, s, other.in, other.n, &y, 1));
    says("dimension 0 is 2, the model wants 3");
    free_inputs(&in), free_inputs(&other);
    for (int64_t length = 3; length <= 21; length += 18) { /* beside the promised 4 to 20 */
        other = make_inputs(g, 3, length, 1);
        fails(SPARTA_E_USAGE, sparta_session_run(cx, s, other.in, other.n, &y, 1));
        says("give 4 to 20");
        free_inputs(&other);
    }
    for (int64_t length = 4; length <= 20; length += 16) {
        in = make_inputs(g, 3, length, 1);
        agree(s, p, g, &in, "an end of the range");
        free_inputs(&in);
    }
    sparta_session_free(s);
    sparta_package_close(p);
    static const char *const wrong[] = {"batch",           "=3",
                                        "batch=",          "batch=0",
                                        "batch=-1",        "batch=3x",
                                        "batch=1:2",       "batch=:",
                                        "batch=3:2:1",     "batch=1:2:3:4",
                                        "batch=1:2:",      "batsch=3",
                                        "batsch=1:2:3",    "batch= 3",
                                        "batch=1:2:3junk", "batch=99999999999999999999",
                                        "batch=3:"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        const sparta_status status = compile_with(onnx, NULL, (const char *[]){wrong[i], NULL}, out);
        if (status != SPARTA_E_USAGE) fail_msg("--dim '%s': %s", wrong[i], sparta_status_name(status));
    }
    sp_graph_free(g);
}

static void files(void **state)
{
    (void)state;
    const char *onnx = in_root("f.onnx"), *out = in_root("f.sparta");
    fails(SPARTA_E_IO, compile_with(in_root("missing.onnx"), NULL, NULL, out));
    ok(sp_file_write(cx, onnx, "\x08", 1));
    assert_int_not_equal(compile_with(onnx, NULL, NULL, out), SPARTA_OK);
    sp_graph *g = zoo("mlp", "4x1:0.8", SMALL_MLP);
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    fails(SPARTA_E_IO, sparta_compile(cx, onnx, in_root("no/such/folder"), NULL));
    sparta_compile_options o = {.size = sizeof o, .no_measure = 1, .target = "z80"};
    fails(SPARTA_E_USAGE, sparta_compile(cx, onnx, out, &o));
    says("z80");
    o.target = "portable";
    ok(sparta_compile(cx, onnx, out, &o));
    ok(sparta_compile(cx, onnx, out, NULL)); /* the defaults: measured */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_without_a_size),
        cmocka_unit_test(shapes_of_linear),
        cmocka_unit_test(very_wide),
        cmocka_unit_test(activations_and_residuals),
        cmocka_unit_test(shared_weights),
        cmocka_unit_test(products_that_stay),
        cmocka_unit_test(awkward_outputs),
        cmocka_unit_test(many_conversions),
        cmocka_unit_test(splits),
        cmocka_unit_test(rows_and_panels_mixed),
        cmocka_unit_test(attentions),
        cmocka_unit_test(non_finite),
        cmocka_unit_test(without_help),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(budget),
        cmocka_unit_test(masks),
        cmocka_unit_test(dims),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
