/* Layouts are rows of a table: this test is built with one more (tests/third/panel/layouts.def), and so are the rooms it runs. What the table says
 * holds for each row, and the third is packed, split, unpacked, settled for and converted to like the others, without a line of code for it. */
#include "models.h"
#include "compile/lower.h"
#include "store/store.h"

#define EACH_LAYOUT(l) for (sp_layout l = 0; l < SP_LAYOUTS; l++)

static void names_are_found(void **state)
{
    (void)state;
    sp_layout found;
    assert_true(SP_LAYOUTS > SP_LAYOUT_PLANES);
    EACH_LAYOUT(l)
    {
        assert_true(sp_layout_find(sp_layout_name(l), &found) && found == l);
        assert_int_equal(sp_layout_has_lanes(l), l != SP_LAYOUT_ROWS);
    }
    assert_false(sp_layout_find("packed", &found) || sp_layout_find("absent", &found) ||
                 sp_layout_find("", &found));
}

/* Strides and the format of a row say the same order of elements. */
static void strides_are_the_format(void **state)
{
    (void)state;
    enum { TOKENS = 192, FEATURES = 8 };
    static const char *const formats[] = {
#define SP_LAYOUT(id, name, format, panel, row) format,
#include "panel/layouts.def"
#undef SP_LAYOUT
    };
    float x[TOKENS * FEATURES], lain[TOKENS * FEATURES];
    const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){TOKENS, FEATURES}, x);
    for (int i = 0; i < TOKENS * FEATURES; i++) x[i] = (float)i;
    EACH_LAYOUT(l)
    {
        sp_format format;
        sp_packed packed;
        sp_lanes lanes;
        size_t bytes;
        ok(sp_format_parse(cx, formats[l], &format));
        ok(sp_store_pack(cx, &format, &t, NULL, &packed));
        memcpy(lain, x, sizeof x);
        if (sp_layout_has_lanes(l)) {
            assert_true(sp_lanes_of(l, &t, 0, &lanes, &bytes));
            assert_int_equal(bytes, sizeof x);
            for (int64_t i = 0; i < TOKENS * FEATURES; i++)
                memcpy(sp_lane_at(&lanes, SPARTA_F32, lain, i / FEATURES, i % FEATURES), &x[i], sizeof *x);
        }
        assert_memory_equal(lain, packed.values.data, sizeof x);
        sp_packed_free(cx, &packed);
    }
}

/* Elements of every type have bytes of their own, in the bytes that there are, in the word of their lane. */
static void types_share_words(void **state)
{
    (void)state;
    static const struct {
        sparta_dtype type;
        int64_t features, rows;
    } types[] = {{SPARTA_F32, 13, 16}, {SPARTA_BF16, 13, 8}, {SPARTA_F16, 16, 8}, {SPARTA_U8, 13, 4},
                 {SPARTA_BOOL, 17, 8}, {SPARTA_I32, 1, 4},   {SPARTA_F64, 4, 0},  {SPARTA_I64, 4, 0}};
    for (size_t i = 0; i < SP_COUNT(types); i++)
        for (int l = SP_LAYOUT_PANEL; l < SP_LAYOUTS; l++) {
            const sparta_tensor t =
                sparta_tensor_view(types[i].type, 3, (int64_t[]){5, 14, types[i].features}, NULL);
            const size_t size = sparta_dtype_size(types[i].type);
            sp_lanes lanes;
            size_t bytes = 0;
            assert_int_equal(sp_lanes_of((sp_layout)l, &t, 2, &lanes, &bytes), types[i].rows > 0);
            if (!types[i].rows) continue; /* larger than a word */
            assert_true(lanes.panels == 2 && lanes.rows == types[i].rows + 2);
            assert_int_equal(bytes, 2 * (types[i].rows + 2) * SP_PANEL * 4);
            char *taken = calloc(bytes, 1);
            for (int64_t token = 0; token < 70; token++)
                for (int64_t f = 0; f < types[i].features; f++) {
                    char *at = sp_lane_at(&lanes, types[i].type, taken, token, f);
                    assert_true(at >= taken && (size_t)(at - taken) + size <= bytes);
                    assert_int_equal((at - taken) / 4 % SP_PANEL, token % SP_PANEL);
                    for (size_t b = 0; b < size; b++) assert_int_equal(at[b]++, 0);
                }
            free(taken);
        }
    const sparta_tensor large = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){1, INT64_MAX}, NULL),
                        many =
                            sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){INT64_C(1) << 40, 1 << 30}, NULL);
    sp_lanes lanes;
    size_t bytes;
    assert_false(sp_lanes_of(SP_LAYOUT_PANEL, &large, 0, &lanes, &bytes) ||
                 sp_lanes_of(SP_LAYOUT_PANEL, &many, 0, &lanes, &bytes));
}

/* ------------------------------------------------------------------ plans */

/* There and back, a part by a view, on to panels, and once more from the same planes when another group has run: those live as a whole, the
 * others panel by panel in slots of threads. */
#define PLAN(name)                                                                                           \
    "graph \"g\"\ninput x: f32[batch,20]\nconst sizes: i64[2] = [12,8]\n"                                    \
    "node p: f32[batch,20] = Identity(x) {kernel=\"to_lanes\", layout=\"" name "\"} \"p\"\n"                 \
    "node a: f32[batch,12], b: f32[batch,8] = Split(p, sizes) {axis=-1, layout=\"" name "\"} \"split\"\n"    \
    "node c: f32[batch,8] = Identity(b) {kernel=\"to_rows\"} \"c\"\n"                                        \
    "node d: f32[batch,8] = Identity(c) {kernel=\"to_lanes\", layout=\"panel\"} \"d\"\n"                     \
    "node e: f32[batch,8] = Relu(d) {kernel=\"map\", layout=\"panel\"} \"e\"\n"                              \
    "node f: f32[batch,8] = Identity(e) {kernel=\"to_rows\"} \"f\"\n"                                        \
    "node g: f32[batch,8] = Neg(f) \"g\"\n"                                                                  \
    "node h: f32[batch,12] = Identity(a) {kernel=\"to_rows\"} \"h\"\n"                                       \
    "output g\noutput h\n"

static void run_plan(const char *text, int64_t tokens, int threads)
{
    sparta_package *p;
    ok(sp_package_create(cx, &p));
    p->plan = graph(text);
    sparta_session *s = session(p, threads);
    inputs in = make_inputs(p->plan, tokens, 1, 3);
    sparta_named_tensor out[] = {{.name = "g"}, {.name = "h"}};
    for (int again = 0; again < 2; again++) {
        ok(sparta_session_run(cx, s, in.in, in.n, out, 2));
        const float *x = in.in[0].tensor.data, *g = out[0].tensor.data, *h = out[1].tensor.data;
        for (int64_t t = 0; t < tokens; t++)
            for (int f = 0; f < 20; f++) {
                const float v = x[t * 20 + f];
                const float got = f < 12 ? h[t * 12 + f] : g[t * 8 + f - 12];
                if (got != (f < 12 ? v : v > 0 ? -v : -0.f))
                    fail_msg("%ld tokens, %d threads: token %ld, feature %d is %g of %g", (long)tokens,
                             threads, (long)t, f, (double)got, (double)v);
            }
    }
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
}

static void plans_run(void **state)
{
    (void)state;
    static const int64_t tokens[] = {1, 64, 70, 200, 1000};
    for (size_t i = 0; i < SP_COUNT(tokens); i++)
        for (int threads = 1; threads <= 3; threads++) {
            run_plan(PLAN("planes"), tokens[i], threads);
            run_plan(PLAN("panel"), tokens[i], threads);
        }
}

/* Kernels that do not say they take it do not get it. */
static void kernels_refuse_it(void **state)
{
    (void)state;
    sparta_package *p;
    sparta_session_options o = {.size = sizeof o, .threads = 1};
    sparta_session *s;
    ok(sp_package_create(cx, &p));
    p->plan = graph("graph \"g\"\ninput x: f32[batch,20]\n"
                    "node p: f32[batch,20] = Identity(x) {kernel=\"to_lanes\", layout=\"planes\"} \"p\"\n"
                    "node q: f32[batch,20] = Relu(p) {kernel=\"map\", layout=\"planes\"} \"q\"\n"
                    "node y: f32[batch,20] = Identity(q) {kernel=\"to_rows\"} \"y\"\noutput y\n");
    fails_saying(SPARTA_E_FORMAT, "f32 in layout planes, which kernel 'map' does not take",
                 sparta_session_create(cx, p, &o, &s));
    sparta_package_close(p);
}

/* ------------------------------------------------------------------ compiling */

static lower_node *named(lowering *l, const char *name)
{
    for (int i = 0; i < l->n_nodes; i++)
        if (!strcmp(l->node[i].node->name, name)) return &l->node[i];
    fail_msg("there is no node '%s'", name);
    return NULL;
}

/* One value, which a kernel reads in panels and a builtin in rows, could be made in any of three layouts. From planes to panels the way is over the
 * rows that the builtin reads. */
static void settle(double convert, const char *expected)
{
    sp_graph *g =
        typed(graph("graph \"g\"\ninput x: f32[4,64]\nnode a: ? = Identity(x) \"a\"\n"
                    "node b: ? = Tanh(a) \"b\"\nnode c: ? = Neg(a) \"c\"\nnode y: ? = Neg(b) \"y\"\n"
                    "output c\noutput y\n"));
    lowering l = {.cx = cx, .g = g, .arena = sp_arena_create(cx), .n_nodes = g->n_nodes};
    sp_text said;
    for (int i = 0; i < SP_DEVICES; i++) l.target[i] = SP_TARGET_PORTABLE;
    l.node = sp_arena_array(l.arena, (size_t)g->n_nodes, sizeof *l.node);
    EACH_LAYOUT(to) l.convert_us[to] = convert / 256 / LOWER_CONVERT;
    for (int i = 0; i < g->n_nodes; i++) {
        l.node[i].node = g->node[i];
        ok(sp_lower_task(cx, g, g->node[i], SP_TARGET_PORTABLE, &l.node[i]));
        l.node[i].im = &sp_implement_builtin;
    }
    lower_node *a = named(&l, "a"), *b = named(&l, "b");
    a->im = &sp_implement_to_lanes;
    a->way[SP_LAYOUT_ROWS] = (lower_way){.im = &sp_implement_builtin, .us = 60};
    a->way[SP_LAYOUT_PANEL] = (lower_way){.im = &sp_implement_to_lanes, .us = 40};
    a->way[SP_LAYOUT_PLANES] = (lower_way){.im = &sp_implement_to_lanes, .us = 10};
    b->im = &sp_implement_map;
    b->way[SP_LAYOUT_ROWS] = (lower_way){.im = &sp_implement_builtin, .us = 500};
    b->way[SP_LAYOUT_PANEL] = (lower_way){.im = &sp_implement_map, .us = 10};
    ok(sp_lower_settle(&l));
    ok(sp_lower_layout(&l));
    sp_text_init(&said, cx);
    for (int i = 0; i < l.n_nodes; i++)
        sp_text_printf(&said, "%s%s:%s", i ? " " : "", l.node[i].node->name,
                       sp_layout_name(l.node[i].layout));
    assert_string_equal(sp_text_str(&said), expected);
    sp_text_free(&said);
    for (int i = 0; i < l.n_nodes; i++) sp_lower_forget(cx, &l.node[i]);
    sp_arena_free(l.arena);
    sp_graph_free(g);
}

static void the_least_of_three(void **state)
{
    (void)state;
    settle(1, "a:planes a/to_rows:rows %0/to_lanes:panel b:panel b/to_rows:rows c:rows y:rows");
    settle(40, "a:panel b:panel a/to_rows:rows b/to_rows:rows c:rows y:rows");
    settle(1000, "a:rows b:rows c:rows y:rows");
}

/* The models of the house are compiled and run as ever. */
static void models_run_as_ever(void **state)
{
    (void)state;
    sp_graph *g = typed(zoo("bert-mini", "4x1:0.8", TINY_BERT));
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", TINY_BERT));
    sparta_session *s = session(p, 2);
    inputs in = make_inputs(p->plan, 3, 11, 5);
    agree(s, p, g, &in, "three layouts");
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),    cmocka_unit_test(strides_are_the_format),
        cmocka_unit_test(types_share_words),  cmocka_unit_test(plans_run),
        cmocka_unit_test(kernels_refuse_it),  cmocka_unit_test(the_least_of_three),
        cmocka_unit_test(models_run_as_ever),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
