/* Several plans in one package: each number of tokens runs the plan that is for it, all give the one answer, and a package that lies about
 * its other plans is refused. Chosen by the cost model: nothing is measured. */
#include "models.h"
#include "package_damage.h"
#include "compile/lower.h"
#include "file/file.h"

static sparta_package *compile_for(const char *tokens, const char *prune, sp_graph **reference)
{
    const char *onnx = in_root("plans.onnx"), *file = in_root("plans.sparta");
    sp_compile_request r = quick();
    sparta_package *p = NULL;
    sp_graph *g = zoo("mlp", prune, SMALL_MLP);
    ok(sp_onnx_write(cx, g, onnx));
    r.options.tokens = tokens;
    ok(sp_compile_file(cx, onnx, &r, &p));
    ok(sparta_package_save(cx, p, file));
    sparta_package_close(p);
    ok(sparta_package_open(cx, file, &p));
    *reference = typed(g);
    return p;
}

/* Does the plan run products by a kernel for few tokens? */
static bool is_few(const sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(said_of(g->node[i], "kernel"), "few")) return true;
    return false;
}

static bool has_plan_for(const sparta_package *p, int64_t tokens)
{
    for (int i = 0; i < p->n_others; i++)
        if (p->other[i].least <= tokens && tokens <= p->other[i].most) return true;
    return false;
}

static void each_run_takes_its_plan(void **state)
{
    (void)state;
    static const char *const prune[] = {NULL, "4x1:0.9", "1x1:0.8"};
    static const int64_t batch[] = {1, 2, 15, 16, 17, 40, 3, 1, 128};
    for (size_t k = 0; k < SP_COUNT(prune); k++) {
        sp_graph *g;
        sparta_package *p = compile_for("16,1", prune[k], &g);
        assert_in_range(p->n_others, 1, 2);
        assert_false(is_few(p->plan));
        assert_true(has_plan_for(p, 1) && !has_plan_for(p, 17));
        for (int i = 0; i < p->n_others; i++) assert_true(is_few(p->other[i].plan));
        for (int threads = 1; threads <= 2; threads++) {
            sparta_session *s = session(p, threads);
            for (size_t i = 0; i < SP_COUNT(batch); i++) {
                inputs in = make_inputs(g, batch[i], 1, i);
                const sparta_step *steps;
                agree(s, p, g, &in, "plans");
                bool few = false;
                for (int n = sp_session_steps(s, &steps) - 1; n >= 0; n--)
                    few |= !strncmp(steps[n].implement, "few_", 4);
                assert_int_equal(few, has_plan_for(p, batch[i]));
                free_inputs(&in);
            }
            sparta_session_free(s);
        }
        sparta_package_close(p);
        sp_graph_free(g);
    }
}

/* Weights that two plans store alike are there once, and others under a name of their own. */
static void weights_are_shared(void **state)
{
    (void)state;
    sp_graph *g;
    sparta_package *one = compile_for("128", "4x1:0.9", &g);
    sp_graph_free(g);
    sparta_package *several = compile_for("1,16", "4x1:0.9", &g);
    assert_int_equal(one->n_others, 0);
    assert_true(several->n_weights > one->n_weights && several->n_weights < 3 * one->n_weights);
    for (int i = 0; i < one->n_weights; i++) assert_non_null(sp_package_weight(several, one->weight[i].name));
    sparta_package_close(one);
    sparta_package_close(several);
    sp_graph_free(g);
}

/* Layers that share a weight, or have the same one under two names, store it once; another of its size and one that lies the other way are their own. */
static void equal_weights_are_stored_once(void **state)
{
    (void)state;
    static const char text[] = "graph \"g\"\ninput x: f32[batch,64]\nconst a: f32[64,64] @\"w\"\n"
                               "const b: f32[64,64] @\"w\"\nconst c: f32[64,64] @\"v\"\n"
                               "const d: f32[32,128] @\"z|4x1:1\"\nconst e: f32[128,32] @\"z|4x1:1\"\n"
                               "const s: i64[2] = [-1,32]\nconst u: i64[2] = [-1,64]\n"
                               "node h: ? = MatMul(x, a) \"h\"\nnode i: ? = Relu(h) \"i\"\n"
                               "node j: ? = MatMul(i, b) \"j\"\nnode k: ? = Relu(j) \"k\"\n"
                               "node l: ? = MatMul(k, a) \"l\"\nnode m: ? = Relu(l) \"m\"\n"
                               "node n: ? = MatMul(m, c) \"n\"\nnode r: ? = Reshape(n, s) \"r\"\n"
                               "node o: ? = MatMul(r, d) \"o\"\nnode p: ? = Relu(o) \"p\"\n"
                               "node q: ? = MatMul(p, e) \"q\"\nnode t: ? = Reshape(q, u) \"t\"\noutput t\n";
    sp_graph *g = typed(graph(text));
    sparta_package *p = compile(graph(text)), *again;
    int packed = 0;
    ok(sparta_package_save(cx, p, in_root("once.sparta")));
    ok(sparta_package_open(cx, in_root("once.sparta"), &again));
    ok(sparta_package_check(cx, again));
    for (int i = 0; i < again->n_weights; i++) packed += again->weight[i].packed;
    assert_int_equal(packed, 4);
    sparta_session *s = session(again, 2);
    for (int64_t batch = 1; batch < 80; batch += 39) {
        inputs in = make_inputs(g, batch, 1, 3);
        agree(s, again, g, &in, "shared weights");
        free_inputs(&in);
    }
    sparta_session_free(s);
    sparta_package_close(again);
    sparta_package_close(p);
    sp_graph_free(g);
}

static sparta_status ranges_of(sp_graph *g, const char *tokens, lower_range *out, int *n)
{
    sp_compile_request r = quick();
    r.options.tokens = tokens;
    lowering l = {.cx = cx, .g = g, .request = &r};
    if (g) {
        ok(sp_ops_infer(g));
        ok(sp_compile_passes(g));
        ok(sp_compile_usual_sizes(cx, g->arena, g, &l.sizes));
    }
    return sp_lower_ranges(&l, out, n);
}

/* Nobody asked: a plan for one token where each item has one and items may be many, or where the model appends to a past, and none elsewhere. */
static void decoders_get_a_plan_for_one_token(void **state)
{
    (void)state;
    static const struct {
        const char *tokens, *of_past;
        int plans;
    } cases[] = {{"batch,1", "Neg(past)", 1},
                 {"batch,sequence", "Neg(past)", 0},
                 {"batch,200", "Neg(past)", 0},
                 {"2,1", "Neg(past)", 0},
                 {"batch,sequence", "Concat(past, x) {axis=1}", 1},
                 {"batch,sequence", "Concat(past, x) {axis=-2}", 1},
                 {"batch,sequence", "Concat(x, past) {axis=1}", 0},
                 {"2,1", "Concat(past, x) {axis=1}", 0}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[512];
        lower_range out[SP_OTHER_PLANS];
        int n;
        snprintf(text, sizeof text,
                 "graph \"g\"\ninput x: f32[%s,64]\ninput past: f32[%s,past,64]\n"
                 "const w: f32[64,64] @\"w\"\nnode h: ? = MatMul(x, w) \"h\"\n"
                 "node z: ? = %s \"z\"\noutput h\noutput z\n",
                 cases[i].tokens, cases[i].tokens[0] == '2' ? "2" : "batch", cases[i].of_past);
        sp_graph *g = graph(text);
        ok(ranges_of(g, NULL, out, &n));
        assert_int_equal(n, cases[i].plans);
        if (n) assert_memory_equal(&out[0], (&(lower_range){1, 1, 1}), sizeof *out);
        sp_graph_free(g);
    }
}

/* Nobody asked: where items are the tokens, and may be any number of them. */
static void items_alone_get_plans_for_few(void **state)
{
    (void)state;
    static const struct {
        const char *x, *more;
        int plans;
    } cases[] = {{"batch,64", "", 4},
                 {"1,64", "", 0},
                 {"batch,2,64", "", 0},
                 {"batch,64",
                  "input i: f32[batch,81]\nconst s: i64[4] = [0,1,9,9]\nnode r: ? = Reshape(i, s) \"r\"\n"
                  "const k: f32[2,1,3,3] @\"k\"\nnode c: ? = Conv(r, k) \"c\"\noutput c\n",
                  0}};
    static const lower_range wanted[] = {{1, 1, 1}, {4, 2, 4}, {8, 5, 8}, {16, 9, 16}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[512];
        lower_range out[SP_OTHER_PLANS];
        int n;
        snprintf(
            text, sizeof text,
            "graph \"g\"\ninput x: f32[%s]\nconst w: f32[64,64] @\"w\"\nnode h: ? = MatMul(x, w) \"h\"\n%s"
            "output h\n",
            cases[i].x, cases[i].more);
        sp_graph *g = graph(text);
        ok(ranges_of(g, NULL, out, &n));
        assert_int_equal(n, cases[i].plans);
        if (n) assert_memory_equal(out, wanted, sizeof wanted);
        sp_graph_free(g);
    }
}

static void ranges(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n;
        lower_range range[3];
    } cases[] = {{"128", 0, {{0}}},
                 {"1,16,1024", 3, {{1, 1, 1}, {16, 2, 16}, {1024, 363, INT64_MAX}}},
                 {"64", 1, {{64, 17, 90}}},
                 {"4,4,128,4", 1, {{4, 1, 4}}},
                 {"512,32", 2, {{32, 17, 64}, {512, 257, INT64_MAX}}}};
    lower_range out[SP_OTHER_PLANS];
    int n;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        ok(ranges_of(NULL, cases[i].text, out, &n));
        assert_int_equal(n, cases[i].n);
        for (int k = 0; k < n; k++) assert_memory_equal(&out[k], &cases[i].range[k], sizeof *out);
    }
    static const char *const wrong[] = {"",           "0", "1,", ",1", "x", "1;2", "-3", "1,2,3,4,5,6,7,8,9",
                                        "99999999999"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++)
        assert_int_equal(ranges_of(NULL, wrong[i], out, &n), SPARTA_E_USAGE);
}

/* A model of 128 tokens always has no plan for fewer. */
static void a_plan_that_never_runs_is_not_made(void **state)
{
    (void)state;
    const char *onnx = in_root("fixed.onnx");
    const char *const dims[] = {"batch=128", NULL};
    sp_compile_request r = quick();
    sparta_package *p;
    sp_graph *g = zoo("mlp", NULL, SMALL_MLP);
    ok(sp_onnx_write(cx, g, onnx));
    r.options.tokens = "1,16";
    r.options.dims = dims;
    ok(sp_compile_file(cx, onnx, &r, &p));
    assert_int_equal(p->n_others, 0);
    sparta_package_close(p);
    sp_graph_free(g);
}

/* Somebody who knows the format changes the section of other plans and signs it: a clear refusal, or a package that runs. */
static void hostile_plans(void **state)
{
    (void)state;
    static const char marks[] = "0123456789 \n\"@()[],-xk";
    sp_graph *g;
    sp_mapped file;
    sp_rng rng = sp_rng_seed(9);
    sparta_package_close(compile_for("1,16", "4x1:0.9", &g));
    ok(sp_mapped_open(cx, in_root("plans.sparta"), &file));
    uint8_t *bad = sp_alloc(cx, file.size);
    assert_non_null(bad);
    disk_header h;
    memcpy(&h, file.data, sizeof h);
    const disk_section *others = &h.section[DISK_OTHERS];
    inputs in = make_inputs(g, 3, 1, 1);
    int opened = 0, ran = 0;
    for (int round = 0; round < 600; round++) {
        memcpy(bad, file.data, file.size);
        for (int k = 0; k < 1 + round % 3; k++) {
            const uint64_t within = round % 2 ? others->size : SP_MIN(others->size, 40);
            bad[others->offset + sp_rng_next(&rng) % within] =
                (uint8_t)marks[sp_rng_next(&rng) % (sizeof marks - 1)];
        }
        sign(bad, file.size);
        sparta_package *p;
        if (sparta_package_open_memory(cx, bad, file.size, &p) != SPARTA_OK) continue;
        opened++;
        sparta_session *s = NULL;
        if (sparta_session_create(cx, p, NULL, &s) == SPARTA_OK)
            ran += sparta_session_run(cx, s, in.in, in.n, NULL, 0) == SPARTA_OK;
        sparta_session_free(s);
        sparta_package_close(p);
    }
    assert_in_range(opened, 1, 599);
    assert_in_range(ran, 1, opened);
    free_inputs(&in);
    sp_free(cx, bad);
    sp_mapped_close(&file);
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_run_takes_its_plan),
        cmocka_unit_test(weights_are_shared),
        cmocka_unit_test(equal_weights_are_stored_once),
        cmocka_unit_test(ranges),
        cmocka_unit_test(decoders_get_a_plan_for_one_token),
        cmocka_unit_test(items_alone_get_plans_for_few),
        cmocka_unit_test(a_plan_that_never_runs_is_not_made),
        cmocka_unit_test(hostile_plans),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
