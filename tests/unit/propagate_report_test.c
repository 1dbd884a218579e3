/* What the report says where zeros stay, and that it helps: each case has a model whose report says this of a weight, and the same model after
 * the advice is taken, in which they go. And that it does not pass over what it did not look at. */
#include "propagate_bed.h"
#include <stdio.h>
#include <string.h>

typedef struct scenario {
    const char *weight;
    const char *says;           /* all of it */
    const char *text;           /* one %s */
    const char *before, *after; /* what stands there; after NULL: there is no cure */
    int64_t fewer;              /* parameters, with the cure */
} scenario;

#define IMAGE "graph \"g\"\ninput x: f32[1,2,4,4]\n"
#define LINES "graph \"g\"\ninput x: f32[1,3,4]\n"
#define BATCHNORM                                                                                            \
    "const mean: f32[3] = [1,2,3]\nconst var: f32[3] = [1,2,3]\n"                                            \
    "node n: ? = BatchNormalization(a, \"bn.weight\", \"bn.bias\", mean, var) \"bn\"\n"
#define HEADS                                                                                                \
    "const cut: i64[4] = [0,0,2,2]\nconst join: i64[3] = [0,0,-1]\n"                                         \
    "const \"k.weight\": f32[4,4] = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]\n"                                     \
    "node q0: ? = MatMul(x, \"q.weight\")\nnode q: ? = Add(q0, \"q.bias\")\nnode k: ? = MatMul(x, "          \
    "\"k.weight\")\n"                                                                                        \
    "node v0: ? = MatMul(x, \"v.weight\")\nnode v: ? = Add(v0, \"v.bias\")\n"                                \
    "node q1: ? = Reshape(q, cut)\nnode q2: ? = Transpose(q1) {perm=[0,2,1,3]}\n"                            \
    "node k1: ? = Reshape(k, cut)\nnode k2: ? = Transpose(k1) {perm=[0,2,3,1]}\n"                            \
    "node v1: ? = Reshape(v, cut) \"cut\"\nnode v2: ? = Transpose(v1) {perm=[0,2,1,3]}\n"                    \
    "node s: ? = MatMul(q2, k2) \"scores\"\nnode p: ? = Softmax(s) \"share\"\nnode o: ? = MatMul(p, v2) "    \
    "\"mix\"\n"                                                                                              \
    "node o1: ? = Transpose(o) {perm=[0,2,1,3]}\nnode o2: ? = Reshape(o1, join)\n"                           \
    "const \"o.weight\": f32[4,2] = [1,2,3,4,5,6,7,8]\nnode y: ? = MatMul(o2, \"o.weight\")\noutput y\n"
#define Q                                                                                                    \
    "const \"q.weight\": f32[4,4] = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]\nconst \"q.bias\": f32[4] = "          \
    "[1,1,1,1]\n"
#define V   "const \"v.weight\": f32[4,4] = [0,0,3,4,0,0,7,8,0,0,3,4,0,0,7,8]\n"
#define VB0 "const \"v.bias\": f32[4] = [0,0,1,2]\n"

static const scenario scenarios[] = {
    {"a.weight", "keeps 1 zero output of 3, because 'b.weight' needs them: prune both alike",
     IMAGE
     "const \"a.weight\": f32[3,2,1,1] = [0,0,1,2,3,4]\nconst \"b.weight\": f32[3,2,1,1] = [%s,1,2,3,4]\n"
     "const \"c.weight\": f32[1,3,1,1] = [1,2,3]\n"
     "node a: ? = Conv(x, \"a.weight\")\nnode b: ? = Conv(x, \"b.weight\")\nnode s: ? = Add(a, b)\n"
     "node r: ? = Relu(s)\nnode y: ? = Conv(r, \"c.weight\")\noutput y\n",
     "5,6", "0,0", 2 + 2 + 1},
    {"a.weight",
     "keeps 1 zero output of 3, because Conv 'next' gets a constant for them that is not 0, and 0 at its "
     "padded "
     "border: make 'bn.weight' and 'bn.bias' 0 there too",
     IMAGE "const \"a.weight\": f32[3,2,1,1] = [0,0,1,2,3,4]\n"
           "const \"bn.weight\": f32[3] = [%s,1,2]\nconst \"bn.bias\": f32[3] = [0,1,2]\n"
           "node a: ? = Conv(x, \"a.weight\")\n" BATCHNORM
           "const \"c.weight\": f32[1,3,2,1] = [1,2,3,4,5,6]\n"
           "node y: ? = Conv(n, \"c.weight\") {pads=[1,0,0,0]} \"next\"\noutput y\n",
     "1", "0", 2 + 4 + 2},
    {"bn.weight",
     "keeps 1 zero channel of 3, because Conv 'next' gets a constant for them that is not 0, and 0 at its "
     "padded "
     "border: make 'bn.bias' 0 there too",
     IMAGE "const \"a.weight\": f32[3,2,1,1] = [1,1,1,2,3,4]\n"
           "const \"bn.weight\": f32[3] = [0,1,2]\nconst \"bn.bias\": f32[3] = [%s,1,2]\n"
           "node a: ? = Conv(x, \"a.weight\")\n" BATCHNORM
           "const \"c.weight\": f32[1,3,2,1] = [1,2,3,4,5,6]\n"
           "node y: ? = Conv(n, \"c.weight\") {pads=[1,0,0,0]} \"next\"\noutput y\n",
     "1", "0", 2 + 4 + 2},
    {"v.weight",
     "keeps 2 zero outputs of 4, because MatMul 'mix' gets a constant for them that is not 0: make 'v.bias' "
     "0 "
     "there too",
     LINES Q V "const \"v.bias\": f32[4] = [%s,1,2]\n" HEADS, "1,1", "0,0", 8 + 8 + 8 + 2 + 2 + 4},
    {"v.weight",
     "keeps 1 zero output of 4, because of Reshape 'cut': it takes them as 2 x 2; prune whole blocks of that "
     "(heads, groups), or the same places in every block",
     LINES Q "const \"v.weight\": f32[4,4] = [0,%s,3,4,0,%s,7,8,0,%s,3,4,0,%s,7,8]\n" VB0 HEADS, "1", "0",
     8 + 8 + 8 + 2 + 2 + 4},
    {"q.weight",
     "keeps 2 zero outputs of 4, because of Softmax 'share': equal scores still take the mean of a head's "
     "values; "
     "prune those with their bias, or what reads the head",
     LINES "const \"q.weight\": f32[4,4] = [0,0,3,4,0,0,7,8,0,0,3,4,0,0,7,8]\nconst \"q.bias\": f32[4] = "
           "[0,0,1,1]\n"
           "const \"v.weight\": f32[4,4] = [%s,3,4,%s,7,8,%s,3,4,%s,7,8]\n" VB0 HEADS,
     "1,1", "0,0", 8 + 8 + 8 + 2 + 2 + 4},
    {"q.weight",
     "keeps 2 zero outputs of 4, because of MatMul 'scores': it makes scores of them; prune the same columns "
     "of "
     "every head in queries and keys with their biases, or of a whole head its values with their bias",
     LINES "const \"q.weight\": f32[4,4] = [0,0,3,4,0,0,7,8,0,0,3,4,0,0,7,8]\nconst \"q.bias\": f32[4] = "
           "[1,1,1,1]\n"
           "const \"v.weight\": f32[4,4] = [%s,3,4,%s,7,8,%s,3,4,%s,7,8]\n" VB0 HEADS,
     "1,1", "0,0", 8 + 8 + 8 + 2 + 2 + 4},
    {"a.weight", "keeps 1 zero input of 3, because 'b.weight' reads them: prune both alike",
     IMAGE
     "const \"w.weight\": f32[3,2,1,1] = [1,2,3,4,5,6]\nconst \"a.weight\": f32[2,3,1,1] = [0,2,3,0,4,5]\n"
     "const \"b.weight\": f32[2,3,1,1] = [%s,2,3,0,4,5]\n"
     "node w: ? = Conv(x, \"w.weight\")\nnode r: ? = Relu(w)\nnode a: ? = Conv(r, \"a.weight\")\n"
     "node b: ? = Conv(r, \"b.weight\")\nnode y: ? = Add(a, b)\noutput y\n",
     "1", "0", 2 + 2 + 2},
    {"g.weight",
     "keeps 1 zero output of 4, because of Conv 'grouped': it takes them as 2 x 2; prune whole blocks of "
     "that "
     "(heads, groups), or the same places in every block",
     IMAGE "const \"w.weight\": f32[2,2,1,1] = [1,2,3,4]\nconst \"g.weight\": f32[4,1,1,1] = [0,%s,3,4]\n"
           "const \"o.weight\": f32[1,4,1,1] = [1,2,3,4]\n"
           "node w: ? = Conv(x, \"w.weight\")\nnode g: ? = Conv(w, \"g.weight\") {group=2} \"grouped\"\n"
           "node y: ? = Conv(g, \"o.weight\")\noutput y\n",
     "1", "0", 2 + 2 + 2},
    {"a.weight",
     "keeps 1 zero output of 4, because of LayerNormalization 'norm': its statistics run over them; prune "
     "inside "
     "layers, not what it normalises",
     LINES "const \"a.weight\": f32[4,4] = [0,2,3,4,0,6,7,8,0,2,3,4,0,6,7,8]\nconst s: f32[4] = [1,2,%s,3]\n"
           "node a: ? = MatMul(x, \"a.weight\")\nnode h: ? = Add(a, x)\n"
           "node n: ? = LayerNormalization(h, s) \"norm\"\nnode y: ? = ReduceMax(n)\noutput y\n",
     "1", NULL, 0},
    {"onnx_7",
     "keeps 1 zero output of 3 in MatMul '/enc/fc/MatMul', because 'y' is an output of the model, whose size "
     "stays",
     LINES "const onnx_7: f32[4,3] = [0,2,3,0,5,6,0,8,9,0,2,%s]\n"
           "node y: ? = MatMul(x, onnx_7) \"/enc/fc/MatMul\"\noutput y\n",
     "1", NULL, 0},
    {"e.weight",
     "keeps 1 zero row of 3, because of Gather 'lookup': which of them it takes is known only as the model "
     "runs",
     "graph \"g\"\ninput i: i64[2]\nconst \"e.weight\": f32[3,2] = [0,0,1,2,3,%s]\n"
     "node y: ? = Gather(\"e.weight\", i) \"lookup\"\noutput y\n",
     "4", NULL, 0},
};

static sp_graph *made(const scenario *s, const char *with)
{
    char text[8192];
    size_t n = 0;
    for (const char *p = s->text; *p; p++) { /* every %s is the same */
        if (p[0] == '%' && p[1] == 's') {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", with);
            p++;
        } else {
            text[n++] = *p;
        }
        assert_true(n + 1 < sizeof text);
    }
    text[n] = 0;
    return parse(text);
}

static void test_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(scenarios); i++) {
        const scenario *s = &scenarios[i];
        sp_propagate_report r;
        const char *said = NULL;
        sp_graph *g = made(s, s->before);
        ok(sp_propagate(g, NULL, &r));
        for (int k = 0; k < r.n; k++)
            if (!strcmp(r.tensor[k].name, s->weight)) said = r.tensor[k].blocked_by;
        if (!said || strcmp(said, s->says)) fail_msg("%zu, %s: %s\nnot %s", i, s->weight, said, s->says);
        assert_string_equal(r.cut_short, "");
        sp_graph_free(g);
        if (!s->after) continue;
        g = made(s, s->after);
        ok(sp_propagate(g, NULL, &r));
        if (r.parameters_before - r.parameters_after != s->fewer)
            fail_msg("%zu, %s: with the advice %lld went, not %lld", i, s->weight,
                     (long long)(r.parameters_before - r.parameters_after), (long long)s->fewer);
        sp_graph_free(g);
    }
}

static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(scenarios); i += 3)
        for (uint64_t n = 1;; n++) {
            sp_propagate_report r;
            sp_graph *g = made(&scenarios[i], scenarios[i].before);
            sp_ctx_fail_alloc(cx, n, false);
            sparta_status status = sp_propagate(g, NULL, &r);
            sp_ctx_fail_alloc(cx, 0, false);
            sp_graph_free(g);
            if (status == SPARTA_OK) break;
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_in_range(n, 1, 100000);
        }
}

/* ------------------------------------------------------------------ what was not looked at */
/* Channel 0 goes, if there is time to see it. */
#define DEAD                                                                                                 \
    IMAGE "const a: f32[3,2,1,1] = [0,0,1,2,3,4]\nconst c: f32[1,3,1,1] = [1,2,3]\nnode h: ? = Conv(x, a)\n" \
          "node y: ? = Conv(h, c)\noutput y\n"

static void shortened(double effort, const char *says, int64_t fewer)
{
    sp_propagate_report r;
    sp_graph *g = parse(DEAD);
    ok(sp_propagate(g, &(sp_propagate_options){.effort = effort}, &r));
    if (says ? !strstr(r.cut_short, says) : *r.cut_short != 0) fail_msg("%g: \"%s\"", effort, r.cut_short);
    assert_int_equal(r.parameters_before - r.parameters_after, fewer);
    sp_graph_free(g);
}

static void test_effort(void **state)
{
    (void)state;
    shortened(0, NULL, 3);
    shortened(1, NULL, 3);
    shortened(1e-9,
              "looked at no more after 4.295e-06 million steps: what is left counts as needed, and stays; "
              "`sparta_propagate_file` on what it wrote",
              0);
    /* every share between them says so, or has done all of it */
    for (double share = 1e-9; share < 1e-5; share *= 1.5) {
        sp_propagate_report r;
        sp_graph *g = parse(DEAD);
        ok(sp_propagate(g, &(sp_propagate_options){.effort = share}, &r));
        assert_true(*r.cut_short || r.parameters_before - r.parameters_after == 3);
        sp_graph_free(g);
    }
}

/* A weight of scattered zeros, of whose elements a byte each is kept, and a row of zeros. */
enum { SIDE = 512 };
static float scattered[SIDE * SIDE];

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg;
    (void)name;
    for (int i = 0; i < SIDE * SIDE; i++)
        scattered[i] = i < SIDE ? 0 : (float)((unsigned)i * 2654435761u >> 31);
    out->data = scattered;
    return SPARTA_OK;
}

/* Where facts do not fit into the memory it may take, it says so, and with more it does not. */
static void test_little_memory(void **state)
{
    (void)state;
    static const char text[] = "graph \"g\"\ninput x: f32[1,512]\nconst w: f32[512,512] @\"w\"\n"
                               "node h: ? = Gemm(x, w) {transB=1}\nnode y: ? = Gemm(h, w)\noutput y\n";
    for (int more = 0; more < 2; more++) {
        sparta_ctx *little = sparta_ctx_create(&(sparta_ctx_options){
            .size = sizeof(sparta_ctx_options), .max_memory = (more ? 8u : 400u) << (more ? 20 : 10)});
        assert_non_null(little);
        sp_graph *g;
        sp_propagate_report r;
        assert_int_equal(sp_graph_parse(little, text, fetch, NULL, &g), SPARTA_OK);
        assert_int_equal(sp_ops_infer(g), SPARTA_OK);
        if (sp_propagate(g, NULL, &r) != SPARTA_OK) fail_msg("%s", sparta_message(little));
        const int64_t fewer = r.parameters_before - r.parameters_after;
        const bool told = strstr(r.cut_short, "MB of facts") && strstr(r.cut_short, "options.max_memory");
        if (told == more || (fewer > 0) != more)
            fail_msg("%d: %lld went, \"%s\"", more, (long long)fewer, r.cut_short);
        sp_graph_free(g);
        sparta_ctx_free(little);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_effort, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_little_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
