/* Schedules obeyed: the model that a schedule prunes is the model that the zoo prunes; masks, thresholds, pins, dims; what is
 * refused. (Slow: make test only.) */
#include "models.h"
#include "compile/lower.h"
#include "arrays/arrays.h"

static const char *model_file(const char *name, const char *prune, const char *sizes)
{
    const char *path = in_root("model.onnx");
    sp_graph *g = zoo(name, prune, sizes);
    ok(sp_onnx_write(cx, g, path));
    sp_graph_free(g);
    return path;
}

static const char *schedule_file(const char *text)
{
    const char *path = in_root("s.sched");
    ok(sp_file_write(cx, path, text, strlen(text)));
    return path;
}

static sp_compile_request scheduled(const char *text)
{
    sp_compile_request r = quick();
    r.options.schedule = schedule_file(text);
    return r;
}

static sparta_package *compiled(const char *onnx, sp_compile_request r)
{
    sparta_package *p = NULL;
    ok(sp_compile_file(cx, onnx, &r, &p));
    return p;
}

/* Constants of two plans, in the order of the values, are equal byte for byte. */
static void same_weights(const sparta_package *a, const sparta_package *b)
{
    sp_graph *g, *h;
    ok(sp_compile_unplan(cx, a, &g));
    ok(sp_compile_unplan(cx, b, &h));
    assert_int_equal(g->n_values, h->n_values);
    for (int i = 0; i < g->n_values; i++) {
        const sparta_tensor *x = g->value[i]->constant, *y = h->value[i]->constant;
        assert_int_equal(!x, !y);
        if (!x || !x->data) continue;
        assert_true(sp_tensor_same_shape(x, y));
        assert_memory_equal(x->data, y->data,
                            (size_t)sparta_tensor_elements(x) * sparta_dtype_size(x->dtype));
    }
    sp_graph_free(g), sp_graph_free(h);
}

static void same_as_the_zoo(const char *model, const char *sizes, const char *prune, const char *schedule)
{
    sparta_package *p = compiled(model_file(model, prune, sizes), quick());
    sparta_package *q = compiled(model_file(model, NULL, sizes), scheduled(schedule));
    assert_int_equal(p->plan->n_nodes, q->plan->n_nodes);
    int sparse = 0;
    for (int i = 0; i < p->plan->n_nodes; i++) {
        const sp_node *a = p->plan->node[i], *b = q->plan->node[i];
        assert_string_equal(said_of(a, "implement"), said_of(b, "implement"));
        assert_string_equal(said_of(a, "pattern"), said_of(b, "pattern"));
        assert_float_equal(sp_attr_float(&a->attrs, "density", -1), sp_attr_float(&b->attrs, "density", -1),
                           0);
        const sp_implement *im = sp_implement_find(said_of(b, "implement"));
        sparse += im && im->sparse;
    }
    assert_true(sparse > 0);
    same_weights(p, q);
    sparta_package_close(p), sparta_package_close(q);
}

/* ------------------------------------------------------------------ */

static void magnitude(void **state)
{
    (void)state;
    same_as_the_zoo("bert-mini", SMALL_BERT, "4x1:0.8",
                    "tensor \"encoder.layer.*.weight\" { sparsify magnitude(pattern=4x1, sparsity=0.8) }");
    same_as_the_zoo("bert-mini", SMALL_BERT, "rows:0.5",
                    "sparsifier half = magnitude(rows, 0.5)\ntensor \"/encoder/*/MatMul\" { sparsify half }");
    same_as_the_zoo("mlp", SMALL_MLP, "4x1:0.9",
                    "tensor \"*1*.weight\" { sparsify magnitude(4x1, 0.9) }\ntensor \"*2*.weight\" { "
                    "sparsify magnitude(4x1, 0.9) }");
}

/* An effect of a schedule on a graph of one product. */
#define ONE                                                                                                  \
    "graph \"g\"\ninput x: f32[batch,8]\nconst w: f32[8,16] @\"w\"\nnode y: ? = MatMul(x, w) "               \
    "\"/y\"\noutput y\n"
static sp_graph *obey(const char *text, sp_obeyed *o, sparta_schedule **s)
{
    sp_graph *g = graph(ONE);
    ok(sparta_schedule_parse(cx, text, "s", root, s));
    ok(sp_compile_schedule(cx, g, *s, o));
    return g;
}

static void threshold(void **state)
{
    (void)state;
    sp_obeyed o;
    sparta_schedule *s;
    sp_graph *before = graph(ONE), *g = obey("tensor \"w\" { sparsify threshold(0.25) }", &o, &s);
    const float *a = sp_graph_find(before, "w")->constant->data, *b = sp_graph_find(g, "w")->constant->data;
    int gone = 0;
    for (int i = 0; i < 128; i++) {
        assert_true(b[i] == (fabsf(a[i]) < .25f ? 0 : a[i]));
        gone += b[i] == 0;
    }
    assert_true(gone > 30 && gone < 100);
    assert_int_equal(o.n, 1);
    assert_string_equal(o.effect[0].tensor, "w");
    assert_string_equal(o.effect[0].layer, "/y");
    assert_string_equal(o.effect[0].clause, "sparsify");
    assert_int_equal(o.effect[0].n, 16);
    assert_int_equal(o.effect[0].k, 8);
    assert_float_equal(o.effect[0].before, 1, 0);
    assert_float_equal(o.effect[0].after, 1 - gone / 128., 1e-9);
    sparta_schedule_free(s);
    sp_graph_free(g), sp_graph_free(before);
}

static void mask_file(void **state)
{
    (void)state;
    float keep[128] = {0};
    const char *name = "w";
    const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){8, 16}, keep),
                        wrong = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){16, 8}, keep);
    sp_obeyed o;
    sparta_schedule *s;
    for (int i = 0; i < 128; i += 3) keep[i] = 1;
    ok(sp_npz_write(cx, in_root("m.npz"), 1, &name, &t));
    ok(sp_npz_write(cx, in_root("wrong.npz"), 1, &name, &wrong));
    name = "v";
    ok(sp_npz_write(cx, in_root("other.npz"), 1, &name, &t));
    sp_graph *before = graph(ONE), *g = obey("tensor \"w\" { sparsify mask(\"m.npz\") }", &o, &s);
    const float *a = sp_graph_find(before, "w")->constant->data, *b = sp_graph_find(g, "w")->constant->data;
    for (int i = 0; i < 128; i++) assert_true(b[i] == (keep[i] != 0 ? a[i] : 0));
    sparta_schedule_free(s);
    sp_graph_free(g);
    /* several weights of one file, then another file */
    static const char three[] =
        "graph \"g\"\ninput x: f32[batch,8]\nconst w: f32[8,16] @\"w\"\nconst v: f32[8,16] @\"v\"\n"
        "const u: f32[8,16] @\"u\"\nnode a: ? = MatMul(x, w) \"/a\"\nnode b: ? = MatMul(x, v) \"/b\"\n"
        "node c: ? = MatMul(x, u) \"/c\"\noutput a\noutput b\noutput c\n";
    const char *both[] = {"w", "u"};
    ok(sp_npz_write(cx, in_root("both.npz"), 2, both, (const sparta_tensor[]){t, t}));
    g = graph(three);
    ok(sparta_schedule_parse(
        cx,
        "tensor \"w\" { sparsify mask(\"both.npz\") }\ntensor \"v\" { sparsify mask(\"other.npz\") }\n"
        "tensor \"u\" { sparsify mask(\"both.npz\") }",
        "s", root, &s));
    ok(sp_compile_schedule(cx, g, s, &o));
    assert_int_equal(o.n, 3);
    for (int i = 0; i < 3; i++) assert_float_equal(o.effect[i].after, 43 / 128., 1e-9);
    sparta_schedule_free(s);
    static const char *const bad[][2] = {
        {"tensor \"w\" { sparsify mask(\"wrong.npz\") }",
         "s:1:28: 'w': mask 'w': it is 16x8, the weight is 8x16"},
        {"tensor \"w\" { sparsify mask(\"other.npz\") }", "s:1:28: 'w': mask \"other.npz\" has no array 'w'"},
        {"tensor \"w\" { sparsify mask(\"nowhere.npz\") }", "s:1:28: 'w': "},
        {"tensor \"w\" { sparsify mask(\"/m.npz\") }", "leaves the folder of the schedule"},
        {"tensor \"w\" { sparsify mask(\"a/../../m.npz\") }", "leaves the folder of the schedule"}};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        ok(sparta_schedule_parse(cx, bad[i][0], "s", root, &s));
        assert_int_not_equal(sp_compile_schedule(cx, g, s, &o), SPARTA_OK);
        says(bad[i][1]);
        sparta_schedule_free(s);
    }
    sp_graph_free(g), sp_graph_free(before);
}

/* A format that an implement stores decides, whatever the times say, and even where nothing is absent. */
static void pins(void **state)
{
    (void)state;
    static const char *const formats[][2] = {{"rows(4)", "dense4"},
                                             {"strip(4)", "strip4"},
                                             {"(n,k)->(n/4:dense, k:compressed, n%4:dense)", "strip4"},
                                             {"(o,i)->(o/4:dense, i:dense, o%4:dense)", "dense4"},
                                             {"quads(128)", "quads"},
                                             {"pairs(128)", "pairs"}};
    for (size_t i = 0; i < 2 * SP_COUNT(formats); i++) {
        const size_t f = i / 2;
        const char *onnx = model_file("bert-mini", i % 2 ? NULL : "4x1:0.5", SMALL_BERT);
        char text[256];
        snprintf(text, sizeof text, "tensor \"encoder.layer.0.*.weight\" { format %s }", formats[f][0]);
        sparta_package *p = compiled(onnx, scheduled(text));
        int pinned = 0;
        for (int k = 0; k < p->plan->n_nodes; k++) {
            const sp_node *n = p->plan->node[k];
            if (n->op != SP_OP_Linear || !strstr(n->name, "layer.0")) continue;
            assert_string_equal(said_of(n, "implement"), formats[f][1]);
            if (i == 0) mentions(said_of(n, "reason"), "the schedule pins dense4", __FILE__, __LINE__);
            pinned++;
        }
        assert_int_equal(pinned, 4); /* QKV merged, projection, up, down */
        sparta_package_close(p);
    }
}

/* Nodes of a plan that run a kernel of the package. */
static int users_of(const sparta_package *p, const sp_graph *plan, int kernel)
{
    int users = 0;
    for (int k = 0; k < plan->n_nodes; k++) {
        const sp_node *n = plan->node[k];
        if (sp_attr_int(&n->attrs, "code", -1) != kernel) continue;
        assert_string_equal(said_of(n, "kernel"), p->kernel[kernel].kernel);
        users++;
    }
    return users;
}

/* Those that were compiled to be timed and lost are not in the package. */
static void every_kernel_is_run(const sparta_package *p)
{
    for (int i = 0; i < p->n_kernels; i++) {
        int users = users_of(p, p->plan, i);
        for (int k = 0; k < p->n_others; k++) users += users_of(p, p->other[k].plan, i);
        assert_true(users > 0);
    }
}

/* An implement by name, at a point of its space: it runs, whatever the times say, and the reason says who chose it. */
static void pinned_implements(void **state)
{
    (void)state;
    static const struct {
        const char *text, *implement, *format, *reason;
    } cases[] = {
        {"quads(RANGE=128)", "quads", "quads(128)", "the schedule pins quads at RANGE=128"},
        {"quads(RANGE=256)", "quads", "quads(256)", "the schedule pins quads at RANGE=256"},
        {"quads(RANGE=512)", "quads", "quads(512)", "the schedule pins quads at RANGE=512"},
        {"pairs(RANGE=256)", "pairs", "pairs(256)", "the schedule pins pairs at RANGE=256"},
        {"pairs", "pairs", "pairs(", "the schedule pins pairs at RANGE="}, /* the fastest of its points */
        {"dense4", "dense4", "n%4:dense", "the schedule pins dense4 ("},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_obeyed o;
        sparta_schedule *s;
        sp_layer *layer;
        int n;
        char text[128];
        snprintf(text, sizeof text, "tensor \"w\" { sparsify magnitude(1x1, 0.5)\nimplement %s }",
                 cases[i].text);
        sp_graph *g = graph("graph \"g\"\ninput x: f32[batch,512]\nconst w: f32[512,16] @\"w\"\n"
                            "node y: ? = MatMul(x, w) \"/y\"\noutput y\n");
        ok(sparta_schedule_parse(cx, text, "s", root, &s));
        ok(sp_compile_schedule(cx, g, s, &o));
        ok(sp_compile_passes(g));
        ok(sp_compile_layers(cx, g->arena, g, database, &o, &layer, &n));
        assert_int_equal(n, 1);
        assert_string_equal(layer[0].implement, cases[i].implement);
        mentions(layer[0].format, cases[i].format, __FILE__, __LINE__);
        mentions(layer[0].reason, cases[i].reason, __FILE__, __LINE__);
        sp_graph_free(g);
        sparta_schedule_free(s);
    }
    sparta_package *p =
        compiled(model_file("bert-mini", "4x1:0.5", SMALL_BERT),
                 scheduled("tensor \"encoder.layer.0.*.weight\" { implement pairs(RANGE=128) }"));
    int pinned = 0;
    for (int k = 0; k < p->plan->n_nodes; k++) {
        const sp_node *n = p->plan->node[k];
        if (n->op != SP_OP_Linear || !strstr(n->name, "layer.0")) continue;
        assert_string_equal(said_of(n, "implement"), "pairs");
        mentions(said_of(n, "reason"), "the schedule pins pairs at RANGE=128 (m", __FILE__, __LINE__);
        pinned++;
    }
    assert_int_equal(pinned, 4);
    sparta_package_close(p);
}

static void losers_are_not_kept(void **state)
{
    (void)state;
    sp_compile_request r = scheduled("tensor \"fc1.weight\" { sparsify magnitude(1x1, 0.7) }");
    r.options.no_measure = 0;
    sparta_package *p = compiled(model_file("mlp", NULL, SMALL_MLP), r);
    every_kernel_is_run(p);
    sparta_package_close(p);
}

/* A format that no implement stores is run by the walker, and the reason says so. */
static void walked(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "csr",
        "coo",
        "strip(4), crd=u8",
        "bsr(4)",
        "(n,k)->(n:dense, k:packed[auto])",
        "quads(64)",
        "quads(512)", /* a row has a setting for it, but not for so few inputs */
        "pairs(64)",
        "groups",
        "hyb(1,2)",
        "sum{rownnz<=4 -> csr;\n rownnz in (4,8] -> bitmap; rest -> coo}"};
    const char *onnx = model_file("bert-mini", "4x1:0.8", SMALL_BERT);
    for (size_t f = 0; f < SP_COUNT(formats); f++) {
        sparta_ctx *c = context(cache, NULL); /* sums stay with it */
        char text[400];
        snprintf(text, sizeof text,
                 "format mine = %s\ntensor \"encoder.layer.0.output.dense.weight\" { format mine }",
                 formats[f]);
        sp_compile_request r = scheduled(text);
        sparta_package *p = NULL;
        ok_in(c, sp_compile_file(c, onnx, &r, &p));
        int found = 0;
        for (int i = 0; i < p->plan->n_nodes; i++) {
            const sp_node *n = p->plan->node[i];
            const bool walker =
                !strcmp(said_of(n, "implement"), "walk"); /* the portable target, or no levels */
            if (!walker && strcmp(said_of(n, "implement"), "generated_linear")) continue;
            mentions(said_of(n, "reason"), walker ? "walker" : "one is generated", __FILE__, __LINE__);
            found++;
        }
        assert_int_equal(found, 1);
        sparta_package_close(p);
        sparta_ctx_free(c);
    }
}

/* The loops of a generated kernel as the schedule says; the package is verified when it is compiled. */
static void kernels_are_scheduled(void **state)
{
    (void)state;
    if (sp_target_best(SP_DEVICE_CPU) == SP_TARGET_PORTABLE) return;
    const char *onnx = model_file("bert-mini", NULL, SMALL_BERT);
    static const char *const texts[][2] = {
        {"{ }", "KERNEL= FORMAT="},
        {"{ reorder(m0,m1,n0,k0,k1,n1); vectorize(m1,2); unroll(n1); unroll(k1) }",
         "KERNEL=reorder(m0,m1,n0,k0,k1,n1);vectorize(m1,2);unroll(n1);unroll(k1) FORMAT="},
        {"{ reorder(m0, m1, n0, k0, n1, k1)\n vectorize(m1) }",
         "KERNEL=reorder(m0,m1,n0,k0,n1,k1);vectorize(m1) FORMAT="}};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "tensor \"encoder.layer.0.output.dense.weight\" { sparsify magnitude(4x4, 0.8); format "
                 "bsr(4,4)\n "
                 "kernel %s }",
                 texts[i][0]);
        sparta_package *p = compiled(onnx, scheduled(text));
        int found = 0;
        for (int k = 0; k < p->n_kernels; k++) {
            if (strcmp(p->kernel[k].kernel, "stored")) continue;
            mentions(p->kernel[k].parameters, texts[i][1], __FILE__, __LINE__);
            mentions(p->kernel[k].source, "KERNEL void sp_kernel_stored(", __FILE__, __LINE__);
            found++;
        }
        assert_int_equal(found, 1);
        sparta_package_close(p);
    }
}

/* What inspect tells of layers obeys the schedule as compile does. */
static void layers(void **state)
{
    (void)state;
    static const char *const formats[][2] = {{"rows(4)", "dense4"}, {"strip(4)", "strip4"}, {"csr", "walk"}};
    for (size_t f = 0; f < SP_COUNT(formats); f++) {
        char text[128];
        sp_obeyed o;
        sparta_schedule *s;
        sp_layer *layer;
        int n;
        snprintf(text, sizeof text, "tensor \"w\" { sparsify magnitude(4x1, 0.5); format %s }",
                 formats[f][0]);
        sp_graph *g = obey(text, &o, &s);
        assert_string_equal(o.effect[1].implement->name, formats[f][1]);
        assert_non_null(o.effect[1].format);
        ok(sp_compile_passes(g));
        ok(sp_compile_layers(cx, g->arena, g, database, &o, &layer, &n));
        assert_int_equal(n, 1);
        if (sp_implement_stores_any(o.effect[1].implement)) /* or the kernel that is generated for it */
            assert_true(sp_implement_stores_any(sp_implement_find(layer[0].implement)));
        else
            assert_string_equal(layer[0].implement, formats[f][1]);
        sp_graph_free(g);
        sparta_schedule_free(s);
    }
}

static void refused(const char *onnx, const char *text, sparta_status status, const char *message)
{
    sparta_package *p = NULL;
    sp_compile_request r = scheduled(text);
    fails(status, sp_compile_file(cx, onnx, &r, &p));
    says(message);
    assert_null(p);
}

/* Weights of merged layers are found by their names, whatever is in them: commas and braces too. */
static void names_of_merged_weights(void **state)
{
    (void)state;
    static const char text[] = "graph \"g\"\n"
                               "input x: f32[batch,16]\n"
                               "const \"l.{q,r}.w\": f32[16,16] @\"l.{q,r}.w\"\n"
                               "const \"l.k,v.w\": f32[16,16] @\"l.k,v.w\"\n"
                               "const \"l.}.w\": f32[16,16] @\"l.}.w\"\n"
                               "node p: ? = MatMul(x, \"l.{q,r}.w\") \"/p\"\n"
                               "node q: ? = MatMul(x, \"l.k,v.w\") \"/q\"\n"
                               "node r: ? = MatMul(x, \"l.}.w\") \"/r\"\n"
                               "output p\noutput q\noutput r\n";
    const char *onnx = in_root("names.onnx");
    sp_graph *g = typed(graph(text));
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    sparta_package *p =
        compiled(onnx, scheduled("tensor \"l.*.w\" { sparsify magnitude(4x1, 0.5); format strip(4) }"));
    int pinned = 0;
    for (int i = 0; i < p->plan->n_nodes; i++)
        pinned += !strcmp(said_of(p->plan->node[i], "implement"), "strip4");
    assert_int_equal(pinned, 1); /* all three are one */
    sparta_package_close(p);
    refused(onnx, "tensor \"l.k,v.w\" { sparsify magnitude(4x1, 0.5); format strip(4) }",
            SPARTA_E_UNSUPPORTED, "which is stored as one");
}

static void refusals(void **state)
{
    (void)state;
    const char *onnx = model_file("bert-mini", NULL, SMALL_BERT);
#define W "tensor \"encoder.layer.0.output.dense.weight\" "
    refused(onnx, W "{ sparsify python(\"m:f\") }", SPARTA_E_UNSUPPORTED,
            "python(\"m:f\") needs Python and PyTorch");
    refused(onnx, W "{\n quantize i8 }", SPARTA_E_UNSUPPORTED,
            "s.sched:2:2: quantize i8: this version does not quantise yet");
    refused(onnx, W "{ kernel { unroll(n) } }", SPARTA_E_USAGE,
            "it schedules the loops of the kernel of a format");
    refused(
        onnx, W "{ format strip(4)\n kernel { unroll(n) } }", SPARTA_E_USAGE,
        "s.sched:2:2: 'encoder.layer.0.output.dense.weight': kernel: the kernel of this format is written by "
        "hand, strip4");
    refused(onnx, W "{ format bsr(4,4)\n kernel { vectorize(m1, 2)\n  unroll(q) } }", SPARTA_E_USAGE,
            "s.sched:3:3: 'encoder.layer.0.output.dense.weight': kernel: schedule: unroll(q): there is no "
            "loop 'q'");
    refused(onnx, W "{ format csr\n kernel { reorder(k, n) } }", SPARTA_E_USAGE, "s.sched:2:11: ");
    refused(onnx, W "{ format quads(300)\n kernel { unroll(n) } }", SPARTA_E_USAGE, "has no levels");
    refused(onnx, W "{ format nm24 }", SPARTA_E_USAGE, "'encoder.layer.0.output.dense.weight': ");
    refused(onnx, W "{ format (n,k)->(n:dense, k:packed[3]) }", SPARTA_E_USAGE,
            "'encoder.layer.0.output.dense.weight': ");
    refused(
        onnx, "tensor \"encoder.layer.0.attention.self.query.weight\" { format rows(4) }",
        SPARTA_E_UNSUPPORTED,
        "is merged into 'encoder.layer.0.attention.self.{query,key,value}.weight', which is stored as one");
    refused(
        onnx, W "{ sparsify magnitude(4y1, 0.5) }", SPARTA_E_USAGE,
        "s.sched:1:67: 'encoder.layer.0.output.dense.weight': prune: '4y1' is no pattern; write NxM, n:m");
    refused(onnx, W "{ sparsify magnitude(4x1) }", SPARTA_E_USAGE,
            "s.sched:1:67: 'encoder.layer.0.output.dense.weight': magnitude: pattern 4x1 needs a sparsity; "
            "write magnitude(pattern=4x1, sparsity=0.9)");
    refused(onnx, W "{ sparsify magnitude(4x1:0.9) }", SPARTA_E_USAGE, "what is ':0.9'? write NxM, n:m");
    refused(onnx, W "{ sparsify magnitude(2:4, 0.5) }", SPARTA_E_USAGE,
            "s.sched:1:72: 'encoder.layer.0.output.dense.weight': magnitude: pattern 2:4 says its sparsity "
            "itself");
    refused(onnx, "tensor \"nothing\" { sparsify threshold(1) }", SPARTA_E_USAGE,
            "s.sched:1:1: tensor \"nothing\" matches no weight");
    refused(onnx, "model { dim lenght=4 }", SPARTA_E_USAGE, "s.sched:1:9: ");
    refused(onnx, "model { target z80 }", SPARTA_E_USAGE,
            "s.sched:1:9: target z80: unknown; this build knows ");
    refused(onnx, "model { target portabel }", SPARTA_E_USAGE, "did you mean 'portable'?");
    refused(onnx, W "{ format csf }", SPARTA_E_USAGE,
            "s.sched:1:48: format: 3 dimensions but tensor 'encoder.layer.0.output.dense.weight' has 2");
    refused(
        onnx, W "{ implement quds }", SPARTA_E_USAGE,
        "s.sched:1:48: implement quds: there is none of that name that runs a layer; did you mean 'quads'?");
    refused(onnx, W "{ implement walk }", SPARTA_E_USAGE, "there are strip4, quads, pairs, dense4, ");
    refused(onnx, W "{ implement norm }", SPARTA_E_USAGE, "none of that name that runs a layer");
    refused(onnx, W "{ implement quads(RNG=128) }", SPARTA_E_USAGE,
            "implement quads: RNG=128: it has no such knob; its knobs: RANGE=128|256|512");
    refused(onnx, W "{ implement quads(128) }", SPARTA_E_USAGE,
            "128: it has no such knob; its knobs: RANGE=");
    refused(onnx, W "{ implement quads(RANGE=100) }", SPARTA_E_USAGE,
            "RANGE=100: the knob has no such value; its knobs: RANGE=128|256|512");
    refused(onnx, W "{ implement quads(RANGE=512) }", SPARTA_E_USAGE, "it is the same as another point");
    refused(onnx, W "{ implement strip4(RANGE=128) }", SPARTA_E_USAGE, "its knobs: none");
    refused(onnx, W "{ format strip(4); implement strip4 }", SPARTA_E_USAGE, "leave one out");
    refused(
        onnx, W "{ implement few_csr }", SPARTA_E_UNSUPPORTED,
        "implement few_csr of layer '/encoder/layer.0/output/dense/MatMul': implement few_csr cannot run it");
    refused(onnx, "tensor \"encoder.layer.0.attention.self.query.weight\" { implement dense4 }",
            SPARTA_E_UNSUPPORTED, "say the same implement for all of them");
    refused(onnx, "model {", SPARTA_E_USAGE, "s.sched:1:8: expected target, dim or '}', found the end");
}

static void model_clauses(void **state)
{
    (void)state;
    const char *onnx = model_file("mlp", NULL, SMALL_MLP);
    sp_compile_request r = scheduled("model { target portable; dim batch=3 }");
    sparta_package *p = compiled(onnx, r);
    int64_t batch = 0;
    assert_true(sp_expr_is_const(p->plan->input[0]->dims.dim[0], &batch));
    assert_int_equal(batch, 3);
    sparta_package_close(p);
    r.options.dims = (const char *const[]){"batch=5", NULL}; /* the caller's word counts more */
    p = compiled(onnx, r);
    assert_true(sp_expr_is_const(p->plan->input[0]->dims.dim[0], &batch));
    assert_int_equal(batch, 5);
    sparta_package_close(p);
    p = compiled(onnx, scheduled("model { dim batch=1:2:7 }"));
    assert_int_equal(p->plan->n_bounds, 1);
    assert_int_equal(p->plan->bound[0].most, 7);
    sparta_package_close(p);
}

/* Whichever allocation fails, of parsing and of obeying: E_MEMORY, and nothing is lost. */
static void memory(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "tensor \"w\" { sparsify magnitude(4x1, 0.5); format strip(4) }",
        "format f = csr\ntensor \"w\" { sparsify threshold(0.2); format sum{rownnz<=4 -> f; rest -> coo} }\n"
        "tensor \"/y\" { format sum{rownnz<=4 -> csr; rest -> (i,j)->(i:compressed(nonunique), "
        "j:singleton(soa))} }",
        "tensor \"w\" { format quads(64) }"};
    for (size_t t = 0; t < SP_COUNT(texts); t++)
        for (uint64_t n = 1;; n++) {
            sparta_ctx *c = sparta_ctx_create(NULL);
            sp_graph *g = graph_in(c, ONE);
            sp_obeyed o = {0};
            sparta_schedule *s = NULL;
            sp_ctx_fail_alloc(c, n, false);
            sparta_status status = sparta_schedule_parse(c, texts[t], "s", root, &s);
            if (!status) status = sp_compile_schedule(c, g, s, &o);
            sp_ctx_fail_alloc(c, 0, false);
            const int effects = o.n;
            if (status && status != SPARTA_E_MEMORY) fail_msg("%d: %s", (int)n, sparta_message(c));
            sparta_schedule_free(s);
            sp_graph_free(g);
            sparta_ctx_free(c);
            if (!status) {
                if (n <= 5) fail_msg("text %d succeeds with failure %d", (int)t, (int)n);
                assert_true(effects > 0);
                break;
            }
            assert_int_equal(effects, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(magnitude),
                                       cmocka_unit_test(threshold),
                                       cmocka_unit_test(mask_file),
                                       cmocka_unit_test(pins),
                                       cmocka_unit_test(pinned_implements),
                                       cmocka_unit_test(losers_are_not_kept),
                                       cmocka_unit_test(walked),
                                       cmocka_unit_test(kernels_are_scheduled),
                                       cmocka_unit_test(layers),
                                       cmocka_unit_test(names_of_merged_weights),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(model_clauses),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, enter, leave);
}
