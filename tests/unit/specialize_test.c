/* Sub-graphs for other compilers: kernels run as such a compiler would run them, against sums written here; what edges say; what is refused; memory
 * that fails. sparta_specialize itself compares every case with the references. */
#include "sanitized.h"
#include "specialize/specialize.h"
#include <math.h>

static int enter(void **state)
{
    if (make_root()) return -1;
    if (!SANITIZED) {
        (void)state;
        cx = context(in_root("cache"), NULL);
    } else
        cx = sanitizing_context(in_root("cache"));
    return cx ? 0 : -1;
}

#define LAYER                                                                                                \
    "graph \"g\"\ninput x: f32[batch,12]\nconst w: f32[12,20] @\"w\"\nconst b: f32[20] @\"b\"\n"             \
    "node m: ? = MatMul(x, w) \"m\"\nnode a: ? = Add(m, b) \"a\"\nnode y: ? = Relu(a) \"y\"\noutput y\n"

static float w[12 * 20], b[20], v[20 * 6], x[7 * 12];
static const int64_t dim_w[] = {12, 20}, dim_b[] = {20}, dim_v[] = {20, 6};
static sparta_named_tensor constants[3];
static const char *const batch[] = {"batch=7", NULL};

static sparta_specialize_options usual(void)
{
    sparta_specialize_options o = SPARTA_OPTIONS(sparta_specialize_options);
    sp_rng r = sp_rng_seed(3);
    for (size_t i = 0; i < SP_COUNT(w); i++) w[i] = i / 2 % 7 ? 0 : (float)sp_rng_uniform(&r) - .5f;
    for (size_t i = 0; i < SP_COUNT(b); i++) b[i] = (float)sp_rng_uniform(&r) - .5f;
    for (size_t i = 0; i < SP_COUNT(v); i++) v[i] = (float)sp_rng_uniform(&r) - .5f;
    for (size_t i = 0; i < SP_COUNT(x); i++) x[i] = (float)sp_rng_uniform(&r) - .5f;
    constants[0] = (sparta_named_tensor){"w", sparta_tensor_view(SPARTA_F32, 2, dim_w, w)};
    constants[1] = (sparta_named_tensor){"b", sparta_tensor_view(SPARTA_F32, 1, dim_b, b)};
    constants[2] = (sparta_named_tensor){"v", sparta_tensor_view(SPARTA_F32, 2, dim_v, v)};
    o.constant = constants, o.constants = 3;
    o.dims = batch;
    return o;
}

static void expected(float *y)
{
    for (int t = 0; t < 7; t++)
        for (int n = 0; n < 20; n++) {
            double sum = (double)b[n];
            for (int k = 0; k < 12; k++) sum += (double)x[t * 12 + k] * (double)w[k * 20 + n];
            y[t * 20 + n] = sum > 0 ? (float)sum : 0;
        }
}

/* A run as a caller does it, of one step that reads x and writes y, both row-major. */
static void run_one(const sparta_specialized *s, float *y)
{
    const sparta_specialized_step *step = sparta_specialized_step_at(s, 0);
    void *argument[16], (*kernel)(void *const *, long, long, long);
    const sp_object *object;
    float place_x[SP_COUNT(x) + 1],
        place_y[141]; /* floats anywhere: no more alignment than theirs is asked for */
    assert_non_null(step);
    memcpy(place_x + 1, x, sizeof x);
    memset(place_y, 0x7f, sizeof place_y);
    assert_null(sparta_specialized_step_at(s, 1));
    assert_true(step->arguments <= 16);
    for (int i = 0; i < step->arguments; i++) {
        const sparta_specialized_argument *a = &step->argument[i];
        argument[i] = !strcmp(a->role, "input") ? place_x + 1 : place_y + 1;
        if (!strcmp(a->role, "constant")) memcpy(&argument[i], &a->data, sizeof argument[i]);
    }
    const sparta_specialized_code *code = sparta_specialized_code_at(s, 0);
    ok(sp_jit_load(cx, code->code, code->bytes, &object));
    void *address = sp_jit_symbol(object, step->symbol);
    assert_non_null(address);
    memcpy(&kernel, &address, sizeof kernel);
    for (int phase = 0; phase < step->phases; phase++)
        for (int part = 2; part >= 0; part--) kernel(argument, phase, part, 3);
    sp_jit_close(object);
    memcpy(y, place_y + 1, 140 * sizeof *y);
}

/* ------------------------------------------------------------------ what comes out */
static void every_format_gives_the_same(void **state)
{
    static const char *const formats[] = {NULL,  "csr",    "csc", "bsr(4,2)", "ell",
                                          "dia", "bitmap", "coo", "dcsr",     "(i,j)->(j:dense, i:dense)"};
    float want[140], got[140];
    (void)state;
    for (size_t i = 0; i < SP_COUNT(formats); i++) {
        sparta_specialize_options o = usual();
        sparta_edge edge = {.value = "w", .format = formats[i]};
        sparta_specialized *s = NULL;
        o.edge = &edge, o.edges = 1, o.limit = 1e6;
        ok(sparta_specialize(cx, LAYER, &o, &s));
        memset(got, 0x7f, sizeof got);
        run_one(s, got);
        expected(want);
        for (int k = 0; k < 140; k++) assert_true(fabsf(got[k] - want[k]) < 1e-5f);
        sparta_specialized_free(s);
    }
}

static const sparta_specialized_value *value(const sparta_specialized *s, const char *name)
{
    const sparta_specialized_value *found;
    for (int i = 0; (found = sparta_specialized_value_at(s, i)); i++)
        if (!strcmp(found->name, name)) return found;
    return NULL;
}

static void all_is_said(void **state)
{
    sparta_specialize_options o = usual();
    sparta_specialized *s = NULL;
    (void)state;
    o.target = SANITIZED ? "portable" : "avx2,portable";
    ok(sparta_specialize(cx, LAYER, &o, &s));
    assert_non_null(strstr(sparta_specialized_graph(s), "sparta::Linear(x, w, b)"));
    assert_non_null(strstr(sparta_specialized_graph(s), "bias relu"));
    assert_string_equal(value(s, "x")->role, "input");
    assert_int_equal(value(s, "x")->dim[0], 7);
    assert_null(value(s, "x")->format);
    assert_string_equal(value(s, "y")->role, "output");
    assert_non_null(value(s, "w")->format);
    assert_non_null(strstr(value(s, "w")->reason, "found"));
    const sparta_specialized_step *step = sparta_specialized_step_at(s, 0);
    assert_string_equal(step->op, "Linear");
    assert_string_equal(step->argument[0].role, "output");
    assert_int_equal(step->argument[0].elements, 140);
    const sparta_specialized_code *code = sparta_specialized_code_at(s, 0);
    assert_non_null(strstr(code->text, "void sparta_step_0(void *const *argument"));
    assert_null(strstr(code->text, "#include"));
    assert_int_equal(memcmp(code->code, "\177ELF", 4), 0);
    assert_null(sparta_specialized_code_at(s, SANITIZED ? 1 : 2));
    assert_null(sparta_specialized_value_at(s, -1));
    sparta_specialized_free(s);
    sparta_specialized_free(NULL);
}

/* From 16 rows on a sparse weight is gone over in panels, which are scratch of the step. */
static void rows_go_through_panels(void **state)
{
    static const char *const formats[] = {NULL, "csr", "csc", "bsr(4,4)", "ell"};
    static const char *const dims[] = {"batch=70", NULL};
    (void)state;
    for (size_t i = 0; i < SP_COUNT(formats); i++) {
        const sparta_edge edge[] = {{.value = "w", .format = formats[i]}};
        sparta_specialize_options o = usual();
        sparta_specialized *s = NULL;
        int scratch = 0;
        o.dims = dims, o.limit = 20;
        if (formats[i]) o.edge = edge, o.edges = 1;
        ok(sparta_specialize(cx, LAYER, &o, &s));
        const sparta_specialized_step *step = sparta_specialized_step_at(s, 0);
        assert_non_null(strstr(step->what, "P(b,k) = X(b,k); Q(b,n) = P(b,k)*W(k,n); Y(b,n) = Q(b,n)+B(n)"));
        for (int k = 0; k < step->arguments; k++) {
            const sparta_specialized_argument *a = &step->argument[k];
            if (strcmp(a->role, "scratch")) continue;
            assert_null(a->value);
            assert_int_equal(a->dtype, SPARTA_F32);
            assert_int_equal(a->elements, scratch++ ? 128 * 20 : 128 * 12);
        }
        assert_int_equal(scratch, 2);
        sparta_specialized_free(s);
    }
}

/* Epilogues, products of activations, batches, broadcasts, reductions, shapes: each is compared with its reference inside. */
static void many_graphs(void **state)
{
    static const char *const graphs[] = {
        "input x: f32[3,7,12]\nconst w: f32[12,20] @\"w\"\nconst b: f32[20] @\"b\"\nnode m: ? = MatMul(x, w) "
        "\"m\"\nnode a: ? = Add(b, m) "
        "\"a\"\nnode s: ? = Sigmoid(a) \"s\"\nnode y: ? = Mul(a, s) \"y\"\noutput y\n",
        "input x: f32[7,12]\ninput r: f32[7,20]\nconst w: f32[12,20] @\"w\"\nnode m: ? = MatMul(x, w) "
        "\"m\"\nnode t: ? = Tanh(m) \"t\"\nnode "
        "y: ? = Add(t, r) \"y\"\noutput y\n",
        /* through panels: more than one, the last cut short; in batches */
        "input x: f32[70,12]\ninput r: f32[70,20]\nconst w: f32[12,20] @\"w\"\nconst b: f32[20] @\"b\"\n"
        "node m: ? = MatMul(x, w) \"m\"\nnode a: ? = Add(m, b) \"a\"\nnode t: ? = Tanh(a) \"t\"\n"
        "node y: ? = Add(t, r) \"y\"\noutput y\n",
        "input x: f32[2,17,12]\nconst w: f32[12,20] @\"w\"\nnode y: ? = MatMul(x, w) \"m\"\noutput y\n",
        "input p: f32[2,3,5,4]\ninput q: f32[3,4,6]\nnode y: ? = MatMul(p, q) \"y\"\noutput y\n",
        "input p: f32[2,1,5,4]\ninput q: f32[3,4,6]\nnode y: ? = MatMul(p, q) \"y\"\noutput y\n",
        "input p: f32[4]\ninput q: f32[3,4,6]\nnode y: ? = MatMul(p, q) \"y\"\noutput y\n",
        "input p: f32[4]\ninput q: f32[4]\nnode y: ? = MatMul(p, q) \"y\"\noutput y\n",
        "input p: f32[3,4]\nconst shape: i64[2] = [2,6]\nnode h: ? = Reshape(p, shape) \"h\"\nnode y: ? = "
        "Exp(h) \"y\"\noutput y\n",
        "input p: f32[3,4]\nconst shape: i64[2] = [2,6]\nnode y: ? = Reshape(p, shape) \"h\"\noutput y\n",
        "input p: f32[3,4]\ninput q: f32[4]\nnode s: ? = Softmax(p) \"s\"\nnode n: ? = LayerNormalization(s, "
        "q) \"n\"\nnode m: ? = "
        "ReduceMean(n) \"m\"\nnode t: ? = Transpose(n) \"t\"\noutput t\noutput m\n",
        "input p: f32[3,1]\ninput q: f32[1,4]\nnode g: ? = Greater(p, q) \"g\"\nnode y: ? = Where(g, p, q) "
        "\"w\"\noutput y\n"};
    (void)state;
    for (size_t i = 0; i < SP_COUNT(graphs); i++) {
        char text[1024];
        sparta_specialize_options o = usual();
        sparta_specialized *s = NULL;
        o.dims = NULL;
        snprintf(text, sizeof text, "graph \"g\"\n%s", graphs[i]);
        ok(sparta_specialize(cx, text, &o, &s));
        assert_non_null(sparta_specialized_step_at(s, 0));
        sparta_specialized_free(s);
    }
}

static void neighbours_are_one(void **state)
{
    sparta_specialize_options o = usual();
    sparta_specialized *s = NULL;
    (void)state;
    o.dims = NULL;
    ok(sparta_specialize(cx,
                         "graph \"g\"\ninput p: f32[5,9]\ninput q: f32[9]\nnode a: ? = Add(p, q) \"a\"\nnode "
                         "e: ? = Tanh(a) \"e\"\n"
                         "node y: ? = Softmax(e) \"y\"\nnode z: ? = Mul(e, q) \"z\"\noutput y\noutput z\n",
                         &o, &s));
    /* Add and Tanh are one; what Tanh gives is read twice, and stored. */
    assert_string_equal(sparta_specialized_step_at(s, 0)->name, "e");
    assert_string_equal(sparta_specialized_step_at(s, 1)->name, "y");
    assert_string_equal(sparta_specialized_step_at(s, 2)->name, "z");
    assert_null(sparta_specialized_step_at(s, 3));
    assert_null(value(s, "a"));
    sparta_specialized_free(s);
}

/* ------------------------------------------------------------------ what edges say */
static void formats_of_activations(void **state)
{
    static const char *const panel = "(i,j)->(i/4:dense, j:dense, i%4:dense)";
    sparta_edge edge[] = {{.value = "x", .format = "csr"}, {.value = "y", .format = panel}};
    sparta_specialize_options o = usual();
    sparta_specialized *s = NULL;
    int varying = 0;
    (void)state;
    o.edge = edge, o.edges = 2;
    ok(sparta_specialize(cx, LAYER, &o, &s));
    assert_string_equal(value(s, "y")->format, panel);
    assert_string_equal(value(s, "x")->reason, "asked for");
    const sparta_specialized_step *step = sparta_specialized_step_at(s, 0);
    for (int i = 0; i < step->arguments; i++) varying += step->argument[i].elements < 0;
    assert_int_equal(varying, 3); /* pos, crd and values of x */
    assert_int_equal(step->argument[0].elements, 8 * 20);
    sparta_specialized_free(s);
}

static sparta_specialized *with_tesa(const char *name, const char *text, int no_propagate)
{
    sparta_specialize_options o = usual();
    sparta_specialized *s = NULL;
    sparta_tesa *tesa;
    ok(sparta_tesa_parse(cx, text, &tesa));
    sparta_edge edge = {.value = name, .tesa = tesa};
    o.edge = &edge, o.edges = 1, o.no_propagate = no_propagate;
    ok(sparta_specialize(
        cx,
        "graph \"g\"\ninput x: f32[batch,12]\nconst w: f32[12,20] @\"w\"\nconst v: f32[20,6] @\"v\"\n"
        "node m: ? = MatMul(x, w) \"m\"\nnode y: ? = MatMul(m, v) \"y\"\noutput y\n",
        &o, &s));
    sparta_tesa_free(tesa);
    return s;
}

static void tesa_spreads(void **state)
{
    (void)state;
    /* 12 rows of the second weight are gone: so are the columns of the first that only they read. */
    sparta_specialized *s = with_tesa("v", "tesa [20,6]; has along 0 mask 20x1 rle 0 8 12; precision f32", 0);
    assert_int_equal(value(s, "w")->dim[1], 8);
    assert_int_equal(value(s, "v")->dim[0], 8);
    sparta_specialized_free(s);
    s = with_tesa("v", "tesa [20,6]; has along 0 mask 20x1 rle 0 8 12; precision f32", 1);
    assert_int_equal(value(s, "w")->dim[1], 20);
    sparta_specialized_free(s);
    /* Inputs that are 0, outputs that nobody needs. */
    s = with_tesa("x", "tesa [7,12]; has along 1 mask 1x12 rle 0 5 7; precision f32", 0);
    assert_non_null(strstr(sparta_specialized_graph(s), "Mul"));
    sparta_specialized_free(s);
    s = with_tesa("y", "tesa [7,6]; has along 1 mask 1x6 rle 0 2 4; precision f32", 0);
    assert_non_null(value(s, "y"));
    sparta_specialized_free(s);
}

/* ------------------------------------------------------------------ what is refused */
static void refused(sparta_status status, const char *words, const char *text, const sparta_edge *edge,
                    const char *target)
{
    sparta_specialize_options o = usual();
    sparta_specialized *s = NULL;
    o.edge = edge, o.edges = edge != NULL, o.target = target;
    fails_saying(status, words, sparta_specialize(cx, text, &o, &s));
    assert_null(s);
}

static void refusals(void **state)
{
    sparta_specialize_options o = usual();
    sparta_specialized *s = NULL;
    sparta_tesa *tesa;
    (void)state;
    refused(SPARTA_E_USAGE, "no such value", LAYER, &(sparta_edge){.value = "q", .format = "csr"}, NULL);
    refused(SPARTA_E_USAGE, "folded or fused away", LAYER, &(sparta_edge){.value = "m", .format = "csr"},
            NULL);
    refused(SPARTA_E_USAGE, "format of w", LAYER, &(sparta_edge){.value = "w", .format = "crs"}, NULL);
    refused(SPARTA_E_USAGE, "has no levels", LAYER, &(sparta_edge){.value = "w", .format = "quads"}, NULL);
    refused(SPARTA_E_LIMIT, "format of w", LAYER, &(sparta_edge){.value = "w", .format = "bsr(64,64)"}, NULL);
    refused(SPARTA_E_UNSUPPORTED, "packed level", LAYER, &(sparta_edge){.value = "x", .format = "ell"}, NULL);
    refused(SPARTA_E_USAGE, "no such target", LAYER, NULL, "avx3");
    refused(SPARTA_E_FORMAT, "", "graph", NULL, NULL);
    refused(SPARTA_E_USAGE, "nothing is given",
            "graph \"g\"\ninput x: f32[2,64]\nconst z: f32[64,2] @\"z\"\nnode y: ? = MatMul(x, z) "
            "\"y\"\noutput y\n",
            NULL, NULL);
    o.dims = NULL;
    fails_saying(SPARTA_E_USAGE, "options.dims", sparta_specialize(cx, LAYER, &o, &s));
    fails(SPARTA_E_USAGE, sparta_specialize(cx, NULL, &o, &s));
    o.size = 0;
    fails(SPARTA_E_USAGE, sparta_specialize(cx, LAYER, &o, &s));
    o = usual();
    o.dims = NULL;
    fails_saying(SPARTA_E_UNSUPPORTED, "CumSum",
                 sparta_specialize(cx,
                                   "graph \"g\"\ninput p: f32[3,4]\nconst a: i64[1] = [1]\nnode y: ? = "
                                   "CumSum(p, a) \"c\"\noutput y\n",
                                   &o, &s));
    fails_saying(SPARTA_E_LIMIT, "multiply-adds",
                 sparta_specialize(cx,
                                   "graph \"g\"\ninput p: f32[4000,4000]\ninput q: f32[4000,4000]\nnode y: ? "
                                   "= MatMul(p, q) \"y\"\noutput y\n",
                                   &o, &s));
    fails(SPARTA_E_MEMORY, sparta_specialize(cx,
                                             "graph \"g\"\ninput p: f32[4000000,1]\ninput q: "
                                             "f32[1,4000000]\nnode y: ? = MatMul(p, q) \"y\"\noutput y\n",
                                             &o, &s));
    fails_saying(SPARTA_E_UNSUPPORTED, "nothing computes it",
                 sparta_specialize(cx, "graph \"g\"\ninput p: f32[3,4]\noutput p\n", &o, &s));
    ok(sparta_tesa_parse(cx, "tesa [20,12]; has along 0 mask 20x1 rle 0 8 12; precision f32", &tesa));
    refused(SPARTA_E_SHAPE, "TeSA of w", LAYER, &(sparta_edge){.value = "w", .tesa = tesa}, NULL);
    sparta_tesa_free(tesa);
    ok(sparta_tesa_parse(cx, "tesa [12,20]; has all; precision i8", &tesa));
    refused(SPARTA_E_UNSUPPORTED, "precision", LAYER, &(sparta_edge){.value = "w", .tesa = tesa}, NULL);
    sparta_tesa_free(tesa);
}

/* ------------------------------------------------------------------ memory */
#define ALL_KINDS                                                                                            \
    "graph \"g\"\ninput x: f32[batch,12]\nconst w: f32[12,20] @\"w\"\nconst v: f32[20,6] @\"v\"\n"           \
    "const shape: i64[2] = [21,2]\nnode m: ? = MatMul(x, w) \"m\"\nnode s: ? = Softmax(m) \"s\"\n"           \
    "node d: ? = MatMul(s, v) \"d\"\nnode y: ? = Reshape(d, shape) \"r\"\noutput y\n"

static sparta_status work(sparta_ctx *c)
{
    sparta_specialize_options o = usual();
    sparta_specialized *s = NULL;
    sparta_tesa *tesa = NULL;
    sparta_status status =
        sparta_tesa_parse(c, "tesa [7,12]; has along 1 mask 1x12 rle 0 5 7; precision f32", &tesa);
    const sparta_edge edge[] = {{.value = "x", .tesa = tesa}, {.value = "w", .format = "csr"}};
    o.edge = edge, o.edges = 2, o.target = SANITIZED ? NULL : "portable";
    if (!status) status = sparta_specialize(c, ALL_KINDS, &o, &s);
    if (!status) status = sparta_specialized_save(c, s, in_root("out"));
    sparta_specialized_free(s);
    sparta_tesa_free(tesa);
    return status;
}

static void memory_fails(void **state)
{
    (void)state;
    ok(work(cx)); /* the kernel is in the cache now */
    for (uint64_t n = 1;; n++) {
        sparta_ctx *c = SANITIZED ? sanitizing_context(in_root("cache")) : context(in_root("cache"), NULL);
        sp_ctx_fail_alloc(c, n, true);
        const sparta_status s = work(c);
        const bool reached = sp_ctx_alloc_count(c) >= n;
        if (reached ? s != SPARTA_E_MEMORY : s != SPARTA_OK)
            fail_msg("allocation %lu: %s: %s", (unsigned long)n, sparta_status_name(s), sparta_message(c));
        if (!sp_ctx_slot(c, SP_SLOT_FORMATS)) assert_int_equal(sp_ctx_memory(c), 0);
        sparta_ctx_free(c);
        if (!reached) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_format_gives_the_same),
                                       cmocka_unit_test(all_is_said),
                                       cmocka_unit_test(rows_go_through_panels),
                                       cmocka_unit_test(many_graphs),
                                       cmocka_unit_test(formats_of_activations),
                                       cmocka_unit_test(neighbours_are_one),
                                       cmocka_unit_test(tesa_spreads),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(memory_fails)};
    return cmocka_run_group_tests(tests, enter, tear_down_folder);
}
