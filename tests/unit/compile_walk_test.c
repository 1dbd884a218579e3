/* Formats that no implement has a kernel for, asked for by schedules: stored as they say, run by the generic walker, written, read, verified,
 * unpacked again; what is refused, and what happens without memory. (Slow: make test only.) */
#include "models.h"
#include "compile/lower.h"
#include "package_damage.h"

/* Two products with every epilogue: bias and GELU; residual and the statistics of a normalisation. Sizes that no block divides. */
#define MODEL                                                                                                \
    "graph \"g\"\ninput x: f32[batch,42]\nconst w: f32[42,75] @\"w\"\nconst b: f32[75] @\"b\"\n"             \
    "const v: f32[75,42] @\"v\"\nconst c: f32[42] @\"c\"\nconst gain: f32[42] @\"gain\"\n"                   \
    "node h: ? = MatMul(x, w) \"/h\"\nnode i: ? = Add(h, b) \"/i\"\nnode j: ? = Relu(i) \"/j\"\n"            \
    "node k: ? = MatMul(j, v) \"/k\"\nnode l: ? = Add(k, c) \"/l\"\nnode m: ? = Add(l, x) \"/m\"\n"          \
    "node n: ? = LayerNormalization(m, gain) \"/n\"\noutput n\n"

typedef struct wish {              /* how the weights are pruned, and in which format they are asked for */
    const char *format, *sparsify; /* sparsify "band": elements near the diagonal only */
} wish;

/* Zero where |n - k| > 1. */
static void keep_band(sp_graph *g, const char *name)
{
    const sparta_tensor *w = sp_graph_find(g, name)->constant;
    for (int64_t i = 0; i < w->dim[0]; i++)
        for (int64_t j = 0; j < w->dim[1]; j++)
            if (i - j > 1 || j - i > 1) ((float *)w->data)[i * w->dim[1] + j] = 0;
}

/* The model as the wish prunes it; `o` says what it pins. */
static sp_graph *wished(const wish *q, sparta_schedule **s, sp_obeyed *o)
{
    const bool band = !strcmp(q->sparsify, "band");
    char text[2048];
    sp_graph *g = graph(MODEL);
    if (band) keep_band(g, "w"), keep_band(g, "v");
    snprintf(text, sizeof text, "tensor \"?\" {\n  %s%s\n  format %s\n}\n", band ? "" : "sparsify ",
             band ? "" : q->sparsify, q->format);
    ok(sparta_schedule_parse(cx, text, "wish", root, s));
    ok(sp_compile_schedule(cx, g, *s, o));
    return g;
}

static sparta_package *compiled(const wish *q, sp_compile_request r, sparta_status want)
{
    sparta_schedule *s;
    sp_obeyed o;
    sparta_package *p = NULL;
    sp_graph *g = wished(q, &s, &o);
    r.obeyed = &o;
    fails(want, sp_compile_graph(cx, g, &r, &p));
    if (want) sp_graph_free(g);
    sparta_schedule_free(s);
    return p;
}

/* ------------------------------------------------------------------ what is in the package */

static size_t bytes_of(const sp_packed *p)
{
    size_t bytes = 0, one;
    for (int i = -1; i < 2 * SP_LEVELS; i++) {
        const sparta_tensor *t = i < 0 ? &p->values : i % 2 ? &p->pos[i / 2] : &p->crd[i / 2];
        if (!t->data) continue;
        ok(sp_tensor_bytes(cx, t->dtype, t->rank, t->dim, &one));
        bytes += one;
    }
    for (int i = 0; i < p->parts; i++) bytes += bytes_of(&p->part[i]);
    return bytes;
}

/* The weight lies in exactly the format that was asked for, with as many bytes as the format says. */
static void stored_so(const sparta_package *p, const char *name, const char *asked)
{
    const sp_weight *w = sp_package_weight(p, name);
    sp_format f;
    sp_store_stats stats;
    sp_arena *arena = sp_arena_create(cx);
    sparta_tensor t;
    assert_non_null(w);
    assert_true(w->packed);
    ok(sp_format_parse(cx, asked, &f));
    if (!sp_format_equal(&w->pack.format, &f)) fail_msg("%s: not stored as %s", name, asked);
    ok(sp_compile_unpack(arena, w, &t));
    sparta_tensor as_packed = t;
    if (w->swapped) {
        as_packed.dim[0] = t.dim[1], as_packed.dim[1] = t.dim[0];
        as_packed.stride[0] = t.stride[1], as_packed.stride[1] = t.stride[0];
    }
    ok(sp_store_measure(cx, &f, &as_packed, NULL, &stats));
    if (stats.bytes != bytes_of(&w->pack))
        fail_msg("%s as %s: %zu bytes, measure says %zu", name, asked, bytes_of(&w->pack), stats.bytes);
    sp_arena_free(arena);
}

/* Formats of levels alone may have code of their own, but for the portable target, which has none. Where nearly nothing is stored the walker is
 * thought to be as fast. */
static const char *target_of_all;
static int generated_ones;
static bool is_generated(const char *format)
{
    return !target_of_all && sp_target_best(SP_DEVICE_CPU) != SP_TARGET_PORTABLE &&
           !strstr(format, "quads") && !strstr(format, "groups");
}

static void says_walk(const sparta_package *p, const char *node, const wish *q)
{
    const sp_node *n = node_named(p, node);
    const bool special = is_generated(q->format) && strcmp(said_of(n, "kernel"), "walk");
    generated_ones += special;
    sp_format f, stored;
    assert_string_equal(said_of(n, "implement"), special ? "generated_linear" : "walk");
    assert_string_equal(said_of(n, "kernel"), special ? "stored" : "walk");
    mentions(said_of(n, "reason"),
             special ? "has no kernel of its own: one is generated"
                     : "has no kernel of its own: run by the generic walker",
             __FILE__, __LINE__);
    mentions(said_of(n, "reason"), " than dense (modelled: ", __FILE__, __LINE__);
    if (strlen(q->format) <= 100) mentions(said_of(n, "reason"), q->format, __FILE__, __LINE__);
    ok(sp_format_parse(cx, said_of(n, "format"), &stored));
    ok(sp_format_parse(cx, q->format, &f));
    assert_true(sp_format_equal(&f, &stored));
}

/* ------------------------------------------------------------------ every format */

static const wish wishes[] = {
    {"dense", "magnitude(1x1, 0.5)"},
    {"csr", "magnitude(1x1, 0.8)"},
    {"csr, crd=u8, pos=i64", "magnitude(1x1, 0.8)"},
    {"csc", "magnitude(1x1, 0.8)"},
    {"coo", "magnitude(1x1, 0.8)"},
    {"dcsr", "magnitude(rows, 0.5)"},
    {"dcsc", "magnitude(cols, 0.5)"},
    {"bsr(4)", "magnitude(4x4, 0.7)"},
    {"bsr(3,5)", "magnitude(1x1, 0.5)"},
    {"bsc(2,4)", "magnitude(2x4, 0.6)"},
    {"dbsr(4,2)", "magnitude(4x2, 0.8)"},
    {"ell", "magnitude(1x1, 0.6)"},
    {"bell(4)", "magnitude(4x4, 0.5)"},
    {"dia", "band"},
    {"nm24", "magnitude(2:4)"},
    {"bitmap", "magnitude(1x1, 0.7)"},
    {"cv(8)", "magnitude(8x1, 0.7)"},
    {"sr-bcrs(4,2)", "magnitude(4x1, 0.7)"},
    {"vnni", "magnitude(1x1, 0.5)"},
    {"(n,k)->(n:dense, k:ragged)", "magnitude(1x1, 0.5)"},
    {"(n,k)->(n/16:dense, k/8:compressed, n%16/4:dense, k%8/2:bitmap, n%4:dense, k%2:dense)",
     "magnitude(4x2, 0.8)"},
    {"(n,k)->(n:compressed(nonunique), k:singleton(aos)), crd=u16", "magnitude(1x1, 0.9)"},
    {"hyb(1,2)", "magnitude(1x1, 0.8)"},
    {"hyb(2,2)", "magnitude(1x1, 0.8)"},
    {"sum{blockdensity>=0.5 -> bsr(4,4); rest -> csr}", "magnitude(1x1, 0.6)"},
    {"sum{rownnz<=8 -> ell; rownnz in (8,20] -> bitmap; rest -> coo}", "magnitude(1x1, 0.7)"},
    {"sum{first(3) -> ell; rest -> sum{blockdensity>=0.5 -> bsr(2,2); rest -> dcsr}}", "magnitude(1x1, 0.7)"},
    {"quads(100)", "magnitude(4x1, 0.7)"},
    {"groups", "magnitude(4x1, 0.7)"},
    {"sum{blockdensity>=0.75 -> bsr(4,1); rest -> quads(64)}", "magnitude(1x1, 0.6)"},
    {"csr", "threshold(100)"}, /* nothing is left */
    {"sum{rownnz<=4 -> csr; rest -> quads(16)}", "threshold(100)"},
    {"csr", "threshold(0)"}, /* nothing is gone */
};

/* At several sizes: one panel, a full one and a rest, several; alone and with two threads. */
static void answers(const sparta_package *p, const sp_graph *want, const char *what)
{
    static const int64_t batch[] = {1, 67, 300};
    results first[SP_COUNT(batch)];
    for (int threads = 1; threads <= 2; threads++) {
        sparta_session *s = session(p, threads);
        for (size_t i = 0; i < SP_COUNT(batch); i++) {
            inputs in = make_inputs(want, batch[i], 1, i + 1);
            results got = run(s, p, &in), right = reference(want, &in);
            close_enough(&got, &right, 2e-5, what);
            free_results(&right);
            free_inputs(&in);
            if (threads == 1) {
                first[i] = got;
                continue;
            }
            close_enough(&got, &first[i], 1e-6, what); /* statistics are summed by parts */
            free_results(&got), free_results(&first[i]);
        }
        sparta_session_free(s);
    }
}

/* The graph again: the weights are those that went in, bit for bit, and it compiles dense. */
static void unpacks(const sparta_package *p, const sp_graph *want)
{
    sp_graph *g;
    ok(sp_compile_unplan(cx, p, &g));
    for (int i = 0; i < 2; i++) {
        const sparta_tensor *a = sp_graph_find(g, i ? "v" : "w")->constant,
                            *b = sp_graph_find(want, i ? "v" : "w")->constant;
        assert_true(sp_tensor_same_shape(a, b));
        assert_memory_equal(a->data, b->data, (size_t)sparta_tensor_elements(b) * sizeof(float));
    }
    sp_compile_request r = quick();
    r.options.dense_only = 1;
    sparta_package *dense = compile_in(cx, g, r);
    assert_string_equal(said_of(node_named(dense, "/h"), "implement"), "dense4");
    answers(dense, want, "dense");
    sparta_package_close(dense);
}

static void try_wish(const wish *q, const char *target)
{
    sparta_schedule *s;
    sp_obeyed o;
    sp_graph *want = typed(wished(q, &s, &o));
    sp_compile_request r = quick();
    sparta_package *p, *again;
    r.options.target = target_of_all = target;
    p = compiled(q, r, SPARTA_OK);
    says_walk(p, "/h", q), says_walk(p, "/k", q);
    stored_so(p, "w", q->format), stored_so(p, "v", q->format);
    answers(p, want, q->format);
    ok(sparta_package_save(cx, p, in_root("walk.sparta")));
    ok(sparta_package_open(cx, in_root("walk.sparta"), &again));
    ok(sparta_package_check(cx, again));
    says_walk(again, "/h", q), says_walk(again, "/k", q);
    stored_so(again, "w", q->format), stored_so(again, "v", q->format);
    answers(again, want, q->format);
    unpacks(again, want);
    print_message("%-60s %8zu bytes of weights, %8zu of package\n", q->format,
                  bytes_of(&sp_package_weight(p, "w")->pack) + bytes_of(&sp_package_weight(p, "v")->pack),
                  again->bytes);
    sparta_package_close(again), sparta_package_close(p);
    sparta_schedule_free(s);
    sp_graph_free(want);
}

/* Sums that were read belong to the context: one of this test's own. A second time they take no more. */
static void every_format(void **state)
{
    (void)state;
    sparta_ctx *mine = cx;
    cx = context(cache, NULL);
    for (size_t i = 0; i < SP_COUNT(wishes); i++) try_wish(&wishes[i], i % 2 ? "portable" : NULL);
    const size_t held = sp_ctx_memory(cx);
    for (size_t i = 0; i < SP_COUNT(wishes); i += 3) try_wish(&wishes[i], i % 2 ? NULL : "portable");
    assert_int_equal(sp_ctx_memory(cx), held);
    assert_true(sp_target_best(SP_DEVICE_CPU) == SP_TARGET_PORTABLE || generated_ones > 4);
    sparta_ctx_free(cx);
    cx = mine;
}

/* ------------------------------------------------------------------ models of the zoo, through files */

static const char *zoo_file(const char *name, const char *sizes)
{
    const char *path = in_root("model.onnx");
    sp_graph *g = zoo(name, NULL, sizes);
    ok(sp_onnx_write(cx, g, path));
    sp_graph_free(g);
    return path;
}

static int walkers(const sparta_package *p)
{
    int n = 0;
    for (int i = 0; i < p->plan->n_nodes; i++) {
        const char *im = said_of(p->plan->node[i], "implement");
        n += !strcmp(im, "walk") || !strcmp(im, "generated_linear");
    }
    return n;
}

/* Query, key and value are one product of three times the rows; sequences of whole panels and others. */
static void transformers(void **state)
{
    (void)state;
    static const char *const formats[] = {"csr", "bsr(4)", "dcsr", "bitmap"};
    for (size_t f = 0; f < SP_COUNT(formats); f++) {
        const char *onnx = zoo_file("bert-mini", SMALL_BERT), *schedule = in_root("s.sched");
        char text[256];
        sp_compile_request r = quick();
        sparta_package *p, *again;
        snprintf(text, sizeof text,
                 "tensor \"encoder.layer.*.weight\" { sparsify magnitude(4x4, 0.7); format %s }\n",
                 formats[f]);
        ok(sp_file_write(cx, schedule, text, strlen(text)));
        r.options.schedule = schedule;
        ok(sp_compile_file(cx, onnx, &r, &p)); /* compares with the references of the file */
        assert_int_equal(walkers(p), 8);       /* of each layer: QKV, projection, up, down */
        ok(sparta_package_save(cx, p, in_root("bert.sparta")));
        ok(sparta_package_open(cx, in_root("bert.sparta"), &again));
        ok(sparta_package_check(cx, again));
        for (int threads = 1; threads <= 2; threads++) {
            sparta_session *s = session(p, threads), *t = session(again, threads);
            for (int64_t sequence = 7; sequence <= 64; sequence += 57) {
                inputs in = make_inputs(p->plan, 3, sequence, 5);
                results a = run(s, p, &in), b = run(t, again, &in);
                same_bits(&a, &b, formats[f]);
                free_results(&a), free_results(&b), free_inputs(&in);
            }
            sparta_session_free(s), sparta_session_free(t);
        }
        sparta_package_close(again), sparta_package_close(p);
    }
}

/* ------------------------------------------------------------------ it runs only when asked for */

static void never_by_itself(void **state)
{
    (void)state;
    sp_compile_request r = quick();
    sparta_package *p = compile(graph(MODEL));
    assert_int_equal(walkers(p), 0);
    sparta_package_close(p);
    p = compiled(&(wish){"strip(4)", "magnitude(4x1, 0.8)"}, r, SPARTA_OK); /* that has a kernel */
    assert_int_equal(walkers(p), 0);
    sparta_package_close(p);
}

static void times_are_measured(void **state)
{
    (void)state;
    const wish q = {"csr", "magnitude(1x1, 0.9)"};
    sp_compile_request r = quick();
    r.options.no_measure = 0;
    for (int round = 0; round < 2; round++) { /* the second time from the database */
        sparta_package *p = compiled(&q, r, SPARTA_OK);
        const sp_node *n = node_named(p, "/h");
        mentions(said_of(n, "reason"), "format csr has no kernel of its own: ", __FILE__, __LINE__);
        mentions(said_of(n, "reason"), " than dense (measured: ", __FILE__, __LINE__);
        assert_string_equal(said_of(n, "source"), round ? "database" : "measured");
        assert_true(sp_attr_float(&n->attrs, "us", 0) > 0);
        assert_true(sp_attr_float(&n->attrs, "dense_us", 0) > 0);
        sparta_package_close(p);
    }
    /* Another format of the same weight has a time of its own. */
    sparta_package *p = compiled(&(wish){"csc", "magnitude(1x1, 0.9)"}, r, SPARTA_OK);
    assert_string_equal(said_of(node_named(p, "/h"), "source"), "measured");
    sparta_package_close(p);
}

/* inspect says what compile would do. */
static void layers_show_pins(void **state)
{
    (void)state;
    sparta_schedule *s;
    sp_obeyed o;
    sp_layer *layer;
    int n;
    sp_arena *arena = sp_arena_create(cx);
    sp_graph *g = wished(&(wish){"ell", "magnitude(1x1, 0.9)"}, &s, &o);
    ok(sp_compile_passes(g));
    ok(sp_compile_layers(cx, arena, g, in_root("none.db"), &o, &layer, &n));
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++) {
        assert_true(sp_implement_stores_any(sp_implement_find(layer[i].implement)));
        assert_non_null(layer[i].format);
        mentions(layer[i].format, "packed[auto]", __FILE__, __LINE__);
        mentions(layer[i].reason, "format ell has no kernel of its own", __FILE__, __LINE__);
    }
    ok(sp_compile_layers(cx, arena, g, in_root("none.db"), NULL, &layer, &n));
    for (int i = 0; i < n; i++)
        assert_true(sp_implement_find(layer[i].implement)->sparse && strcmp(layer[i].implement, "walk"));
    sp_arena_free(arena);
    sp_graph_free(g);
    sparta_schedule_free(s);
}

/* ------------------------------------------------------------------ refusals */

static void inspected(const wish *q, double limit, sparta_status expected)
{
    sparta_schedule *s;
    sp_obeyed o;
    sp_layer *layer;
    int n;
    sp_graph *g = wished(q, &s, &o);
    o.limit = limit;
    ok(sp_compile_passes(g));
    fails(expected, sp_compile_layers(cx, g->arena, g, in_root("none.db"), &o, &layer, &n));
    sp_graph_free(g);
    sparta_schedule_free(s);
}

static void too_much(void **state)
{
    (void)state;
    const wish q = {"bsr(16)", "magnitude(1x1, 0.95)"};
    sp_compile_request r = quick();
    compiled(&q, r, SPARTA_E_LIMIT);
    says("wish:3:3: "); /* the clause */
    says("format bsr(16) of '/h'");
    says("x the nonzeros (limit 4.0x");
    inspected(&q, 0, SPARTA_E_LIMIT);
    says("wish:3:3: ");
    says("x the nonzeros (limit 4.0x");
    inspected(&q, 1e9, SPARTA_OK);
    r.options.limit = 1e9;
    sparta_package_close(compiled(&q, r, SPARTA_OK));
    r.options.limit = 1.5;
    compiled(&(wish){"bsr(4)", "magnitude(1x1, 0.5)"}, r, SPARTA_E_LIMIT);
    says("(limit 1.5x");
    sparta_package_close(
        compiled(&(wish){"dense", "magnitude(1x1, 0.9)"}, r, SPARTA_OK)); /* it says so itself */
}

/* A weight that the format cannot hold. */
static void crowded(void **state)
{
    (void)state;
    sparta_schedule *s;
    sp_obeyed o;
    sparta_package *p;
    sp_graph *g = graph(MODEL);
    const char *text = "tensor \"w\" { sparsify magnitude(1x1, 0.5)\n    format nm24 }";
    ok(sparta_schedule_parse(cx, text, "wish", root, &s));
    sp_compile_request r = quick();
    r.obeyed = &o;
    sparta_status status = sp_compile_schedule(cx, g, s, &o);
    if (status == SPARTA_OK) status = sp_compile_graph(cx, g, &r, &p);
    assert_int_not_equal(status, SPARTA_OK);
    says("wish:2:5: ");
    sp_graph_free(g);
    sparta_schedule_free(s);
}

static void refusals(void **state)
{
    (void)state;
    const wish q = {"csr", "magnitude(1x1, 0.8)"};
    sp_compile_request r = quick();
    r.options.dense_only = 1;
    compiled(&q, r, SPARTA_E_UNSUPPORTED);
    says("wish:3:3: ");
    says("only dense implements were asked for");
    sparta_ctx_options co = SPARTA_OPTIONS(sparta_ctx_options);
    sparta_ctx *mine = cx;
    co.cache_dir = cache;
    co.strict = 1;
    cx = sparta_ctx_create(&co);
    compiled(&q, quick(), SPARTA_E_UNSUPPORTED);
    says("options.strict allows no sparse product");
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
    cx = mine;
}

/* ------------------------------------------------------------------ memory that fails */

#define LEVELS "tensor \"w\" { sparsify magnitude(4x1, 0.5)\nformat bsr(4,3) }\ntensor \"v\" { format dcsr }"
#define SUMS                                                                                                 \
    "tensor \"w\" { sparsify magnitude(4x1, 0.5)\nformat sum{rownnz<=20 -> ell; rest -> quads(16)} }\n"      \
    "tensor \"v\" { format groups }"
typedef struct held {
    sp_arena *arena;
    sp_graph *graph;
    sparta_package *package;
    sparta_session *session;
} held;

static sparta_status everything(sparta_ctx *c, const char *text, held *h)
{
    sp_compile_request r = quick();
    sp_obeyed o;
    sparta_schedule *schedule = NULL;
    maker m = {h->arena};
    SP_TRY(sparta_schedule_parse(c, text, "s", root, &schedule));
    r.obeyed = &o;
    r.options.target = "portable";
    sparta_status status = sp_graph_parse(c, MODEL, make_weight, &m, &h->graph);
    if (status == SPARTA_OK) status = sp_compile_schedule(c, h->graph, schedule, &o);
    if (status == SPARTA_OK) status = sp_compile_graph(c, h->graph, &r, &h->package);
    sparta_schedule_free(schedule);
    SP_TRY(status);
    h->graph = NULL; /* the package's */
    SP_TRY(sparta_package_save(c, h->package, in_root("sweep.sparta")));
    sparta_package_close(h->package);
    h->package = NULL;
    SP_TRY(sparta_package_open(c, in_root("sweep.sparta"), &h->package));
    const sparta_session_options so = {.size = sizeof so, .threads = 1};
    return sparta_session_create(c, h->package, &so, &h->session);
}

static void sweep(const char *text, bool keeps)
{
    for (uint64_t n = 1;; n++) {
        sparta_ctx *c = context("", NULL);
        held h = {.arena = sp_arena_create(c)};
        sp_ctx_fail_alloc(c, n, false);
        const sparta_status status = everything(c, text, &h);
        const bool reached = sp_ctx_alloc_count(c) >= n;
        if (status != SPARTA_OK && status != SPARTA_E_MEMORY)
            fail_msg("allocation %lu: %s: %s", (unsigned long)n, sparta_status_name(status),
                     sparta_message(c));
        sparta_session_free(h.session);
        sparta_package_close(h.package);
        sp_graph_free(h.graph);
        sp_arena_free(h.arena);
        if (!keeps && sp_ctx_memory(c))
            fail_msg("allocation %lu: %zu bytes are lost", (unsigned long)n, sp_ctx_memory(c));
        sparta_ctx_free(c);
        if (reached) continue;
        assert_int_equal(status, SPARTA_OK);
        assert_true(n > 100);
        break;
    }
}

static void without_memory(void **state)
{
    (void)state;
    sweep(LEVELS, false);
    sweep(SUMS, true); /* formats that are sums stay with the context; a sanitizer sees what is lost */
}

/* Bytes of stored weights changed and signed, under code that follows positions and coordinates as they lie: refused when a session is made, or harmless. */
static void damaged_under_code(void **state)
{
    (void)state;
    static const wish some[] = {{"csc", "magnitude(1x1, 0.7)"},
                                {"bsr(4,4)", "magnitude(4x4, 0.7)"},
                                {"(i,j)->(i/8:compressed, j:compressed, i%8:dense)", "magnitude(4x4, 0.8)"}};
    sp_rng rng = sp_rng_seed(31);
    int refused = 0, ran = 0, code = 0;
    for (size_t w = 0; w < SP_COUNT(some); w++) {
        sparta_package *p = compiled(&some[w], quick(), SPARTA_OK), *good = NULL;
        code += !strcmp(said_of(node_named(p, "/h"), "kernel"), "stored");
        ok(sparta_package_save(cx, p, in_root("good.sparta")));
        sparta_package_close(p);
        ok(sparta_package_open(cx, in_root("good.sparta"), &good));
        const size_t size = good->file.size;
        disk_header h;
        memcpy(&h, good->file.data, sizeof h);
        const disk_section *weights = &h.section[DISK_WEIGHTS];
        uint8_t *bad = sp_alloc(cx, size);
        assert_non_null(bad);
        for (int round = 0; round < 80; round++) {
            memcpy(bad, good->file.data, size);
            const size_t at = weights->offset + sp_rng_next(&rng) % (weights->size - 4);
            if (round % 2)
                bad[at] ^= (uint8_t)(1u << sp_rng_next(&rng) % 8);
            else
                memset(bad + at, round % 4 ? 0xff : 0x7f, 4);
            sign(bad, size);
            ok(sp_file_write(cx, in_root("bad.sparta"), (const char *)bad, size));
            sparta_session *s = NULL;
            p = NULL;
            if (sparta_package_open(cx, in_root("bad.sparta"), &p) != SPARTA_OK ||
                sparta_session_create(cx, p, NULL, &s) != SPARTA_OK) {
                refused++;
                sparta_package_close(p);
                continue;
            }
            inputs in = make_inputs(p->plan, 70, 1, 2);
            results got = run(s, p, &in);
            ran++;
            free_results(&got);
            free_inputs(&in);
            sparta_session_free(s);
            sparta_package_close(p);
        }
        sp_free(cx, bad);
        sparta_package_close(good);
    }
    assert_true(refused > 0 && ran > 0);
    if (is_generated("csc")) assert_true(code > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),     cmocka_unit_test(transformers),
        cmocka_unit_test(never_by_itself),  cmocka_unit_test(times_are_measured),
        cmocka_unit_test(layers_show_pins), cmocka_unit_test(too_much),
        cmocka_unit_test(crowded),          cmocka_unit_test(refusals),
        cmocka_unit_test(without_memory),   cmocka_unit_test(damaged_under_code),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
