/* compile's own check: it runs on real batches where items are mixed, repeats only what has items, catches what is planted; and what it
 * stands on: which graphs keep items apart, what a run costs, layer normalisation of awkward rows. */
#include "models.h"
#include "compile/lower.h"

#define G  "graph \"g\"\n"
#define X  "input x: f32[batch,8]\n"
#define W  "const w: f32[8,8] @\"w\"\n"
#define MM "node h: ? = MatMul(x, w) \"h\"\n"

static const sp_tolerance by_default = {-1, -1};

/* The package of one text against the references of another. */
static sparta_status check_against(const char *text, const char *reference, const sp_tolerance *t)
{
    sp_graph *want = typed(graph(reference));
    sparta_package *p = compile(graph(text));
    sparta_status status = sp_lower_verify(cx, p, want, t);
    sparta_package_close(p);
    sp_graph_free(want);
    return status;
}

/* ------------------------------------------------------------------ items */

static const struct {
    const char *text;
    bool apart;
} cases[] = {
    {G X W MM "output h\n", true},
    {G X W MM "node y: ? = Softmax(h) {axis=0} \"y\"\noutput y\n", false},
    {G X W MM "node y: ? = Softmax(h) {axis=1} \"y\"\noutput y\n", true},
    {G X W MM "const a: i64[] = [0]\nnode y: ? = CumSum(h, a) \"y\"\noutput y\n", false},
    {G X "node t: ? = Transpose(x) {perm=[1,0]} \"t\"\nnode y: ? = MatMul(x, t) \"y\"\noutput y\n", false},
    {G X "const a: i64[1] = [0]\nnode m: ? = ReduceMean(x, a) \"m\"\nnode y: ? = Sub(x, m) \"y\"\noutput y\n",
     false},
    {G X "const i: i64[] = [0]\nnode f: ? = Gather(x, i) \"f\"\nnode y: ? = Add(x, f) \"y\"\noutput y\n",
     false},
    {G X
     "node s: ? = Shape(x) {start=0,end=1} \"s\"\nnode f: ? = Cast(s) {to=1} \"f\"\nnode y: ? = Div(x, f) "
     "\"y\"\noutput y\n",
     false},
    {G X "input temperature: f32[]\n" W MM "node y: ? = Div(h, temperature) \"y\"\noutput y\n", true},
    {G X "input v: f32[8,sequence]\n" W MM "node y: ? = MatMul(h, v) \"y\"\noutput y\n", true},
    {G X "input v: f32[batch,8]\ninput c: f32[1]\n" W MM
         "node a: ? = Add(h, v) \"a\"\nnode y: ? = Mul(a, c) \"y\"\noutput y\n",
     true},
    {G "input x: f32[batch,sequence,8]\nconst r: i64[2] = [-1,8]\nnode f: ? = Reshape(x, r) \"f\"\n" W
       "node h: ? = MatMul(f, w) \"h\"\nnode s: ? = Shape(x) \"s\"\nnode y: ? = Reshape(h, s) \"y\"\noutput "
       "y\n",
     true},
};

static void items_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_graph *g = typed(graph(cases[i].text));
        bool apart = !cases[i].apart;
        ok(sp_ops_items_apart(g, "batch", &apart));
        if (apart != cases[i].apart) fail_msg("%d for\n%s", apart, cases[i].text);
        sp_graph_free(g);
    }
}

/* What people compile: were it not proven, the check would be many times slower. */
static void items_of_the_zoo(void **state)
{
    (void)state;
    static const char *const models[][2] = {{"bert-mini", TINY_BERT},
                                            {"mlp", SMALL_MLP},
                                            {"gpt2-small", TINY_BERT},
                                            {"dlrm", "rows=10 tables=3 columns=16"},
                                            {"resnet50", "image=32 width=8 classes=4"},
                                            {"unet", "image=32 width=4 classes=2"}};
    for (size_t i = 0; i < SP_COUNT(models); i++) {
        sp_graph *g = typed(zoo(models[i][0], NULL, models[i][1]));
        bool apart = false;
        ok(sp_ops_items_apart(g, "batch", &apart));
        if (!apart) fail_msg("%s", models[i][0]);
        sp_graph_free(g);
    }
}

static void right_packages_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(cases); i++) ok(check_against(cases[i].text, cases[i].text, &by_default));
}

/* So costly that the references run on fewer items, which are then given again and again: not where an input has them behind
 * another axis, or twice as many. */
static void items_that_do_not_repeat(void **state)
{
    (void)state;
    static const char *const starts[] = {
        G
        "input x: f32[batch,65536]\ninput z: f32[65536,batch]\nnode t: ? = Transpose(z) {perm=[1,0]} \"t\"\n"
        "node n0: ? = Add(x, t) \"n0\"\n",
        G "input x: f32[batch,65536]\ninput z: f32[other,32768]\nconst r: i64[2] = [-1,32768]\nconst s: "
          "i64[2] = "
          "[-1,65536]\nnode p: ? = Reshape(x, r) \"p\"\nnode a: ? = Add(p, z) \"a\"\nnode n0: ? = Reshape(a, "
          "s) "
          "\"n0\"\n"};
    enum { NODES = 40 };
    for (size_t i = 0; i < SP_COUNT(starts); i++) {
        sp_text t;
        sp_text_init(&t, cx);
        sp_text_printf(&t, "%s", starts[i]);
        for (int n = 1; n <= NODES; n++) sp_text_printf(&t, "node n%d: ? = Neg(n%d) \"n%d\"\n", n, n - 1, n);
        sp_text_printf(&t, "output n%d\n", NODES);
        ok(check_against(sp_text_str(&t), sp_text_str(&t), &by_default));
        sp_text_free(&t);
    }
}

/* A dim without a name is a symbol of its own: a decoder's past has many. */
static void many_symbols(void **state)
{
    (void)state;
    enum { INPUTS = 60 };
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, G W);
    for (int i = 0; i < INPUTS; i++) sp_text_printf(&t, "input x%d: f32[s%d,8]\n", i, i);
    for (int i = 0; i < INPUTS; i++) sp_text_printf(&t, "node h%d: ? = MatMul(x%d, w) \"h%d\"\n", i, i, i);
    for (int i = 0; i < INPUTS; i++) sp_text_printf(&t, "output h%d\n", i);
    ok(check_against(sp_text_str(&t), sp_text_str(&t), &by_default));
    sp_text_free(&t);
}

/* Another weight before the same end. */
#define ENDS(end)                                                                                            \
    {                                                                                                        \
        G X "const w: f32[8,8] @\"other\"\n" MM end "output y\n", G X W MM end "output y\n"                  \
    }

/* Attention of these inputs with these attributes, and of others. */
#define QKV                                                                                                  \
    G "input x: f32[batch,5,8]\nnode k0: ? = Neg(x) \"k0\"\nconst i: i64[4] = [0,2,4,6]\n"                   \
      "node k: ? = Gather(k0, i) {axis=2} \"k\"\nnode v0: ? = Sigmoid(x) \"v0\"\n"                           \
      "node v: ? = Gather(v0, i) {axis=2} \"v\"\n"
#define ATTENDS(in, how, others, right)                                                                      \
    {                                                                                                        \
        QKV "node y: ? = sparta::Attention(" in ") {heads=4, kv_heads=2, " how "} \"y\"\noutput y\n", QKV    \
            "node y: ? = sparta::Attention(" others ") {heads=4, kv_heads=2, " right "} \"y\"\noutput y\n"   \
    }

static void wrong_packages_are_caught(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        /* another weight */
        {G X "const w: f32[8,8] @\"other\"\n" MM "output h\n", G X W MM "output h\n"},
        {G X "const w: f32[8,8] @\"other\"\n" MM "node y: ? = Softmax(h) {axis=0} \"y\"\noutput y\n",
         G X W MM "node y: ? = Softmax(h) {axis=0} \"y\"\noutput y\n"},
        /* item 0 in place of each item: one item repeated would not tell */
        {G X "const i: i64[] = [0]\nnode f: ? = Gather(x, i) \"f\"\nnode y: ? = Add(x, f) \"y\"\noutput y\n",
         G X "node y: ? = Add(x, x) \"y\"\noutput y\n"},
        /* small outputs */
        {G X "const c: f32[1] = [1e-8]\nnode y: ? = Mul(x, c) \"y\"\noutput y\n",
         G X "const c: f32[1] = [2e-8]\nnode y: ? = Mul(x, c) \"y\"\noutput y\n"},
        /* operands that are large and of which nothing gets into the output */
        ENDS("const c: f32[] = [3.4e38]\nnode y: ? = Clip(h, _, c) \"y\"\n"),
        ENDS("const c: f32[] = [-3.4e38]\nnode y: ? = Max(h, c) \"y\"\n"),
        ENDS("const c: f32[] = [-3.4e38]\nnode g: ? = Greater(h, c) \"g\"\nnode y: ? = Where(g, h, c) "
             "\"y\"\n"),
        ENDS("const c: f32[1,8] = [0,0,0,0,0,0,0,-3.4e38]\nconst a: i64[1] = [1]\nnode k: ? = Add(h, c) "
             "\"k\"\n"
             "node y: ? = ReduceMax(k, a) \"y\"\n"),
        /* and those that make it small */
        ENDS("const c: f32[] = [1e4]\nnode k: ? = Mul(h, c) \"k\"\nnode y: ? = Reciprocal(k) \"y\"\n"),
        ENDS("const c: f32[] = [60]\nnode k: ? = Sub(h, c) \"k\"\nnode y: ? = Exp(k) \"y\"\n"),
        /* attention: a key too many, one too few, k and v swapped, another group of heads, no cap */
        ATTENDS("x, k, v", "left=1", "x, k, v", "left=1, right=0"),
        ATTENDS("x, k, v", "left=1, right=0", "x, k, v", "left=2, right=0"),
        ATTENDS("x, v, k", "right=0", "x, k, v", "right=0"),
        ATTENDS("x, v, v", "right=0", "x, k, v", "right=0"),
        ATTENDS("x, k, v", "softcap=0.0", "x, k, v", "softcap=0.5"),
    };
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        fails(SPARTA_E_DIFFER, check_against(wrong[i][0], wrong[i][1], &by_default));
        says("nothing was written");
        says("give options.rtol");
    }
    ok(check_against(wrong[0][0], wrong[0][1], &(sp_tolerance){10, -1}));
    ok(check_against(wrong[0][0], wrong[0][1], &(sp_tolerance){-1, 100}));
    fails(SPARTA_E_DIFFER, check_against(wrong[0][0], wrong[0][1], &(sp_tolerance){-1, 1e-3}));
}

/* ------------------------------------------------------------------ models that magnify rounding */

/* A normalisation of numbers about 20 that are 1 apart, written as squares: the variance is what is left of 400. A node is off by a thousandth
 * where it says so; `n` may be one operator, the same function rounded otherwise. */
static const char *magnifying(const char *wrong, const char *off, const char *n, char *text, size_t room)
{
    static const char *const node[][2] = {{"a", "Add(h, far)"},
                                          {"q", "Mul(a, a)"},
                                          {"p", "ReduceMean(q, last)"},
                                          {"m", "ReduceMean(a, last)"},
                                          {"k", "Mul(m, m)"},
                                          {"v", "Sub(p, k)"},
                                          {"s", "Sqrt(v)"},
                                          {"d", "Sub(a, m)"},
                                          {"n", "Div(d, s)"},
                                          {"y", "Tanh(n)"}};
    size_t at = (size_t)snprintf(
        text, room,
        G X W MM "const far: f32[1] = [20]\nconst last: i64[1] = [1]\nconst one: f32[8] = [1,1,1,1,1,1,1,1]\n"
                 "const off: f32[%d] = [%s]\n",
        strchr(off, ',') ? 8 : 1, off);
    for (size_t i = 0; i < SP_COUNT(node); i++) {
        const char *name = node[i][0], *rest = n && *name == 'n' ? n : node[i][1];
        const bool here = wrong && !strcmp(name, wrong);
        at += (size_t)snprintf(text + at, room - at, "node %s%s: ? = %s \"%s%s\"\n", name, here ? "0" : "",
                               rest, name, here ? "0" : "");
        if (here)
            at += (size_t)snprintf(text + at, room - at, "node %s: ? = Mul(%s0, off) \"%s\"\n", name, name,
                                   name);
    }
    (void)snprintf(text + at, room - at, "output y\n");
    return text;
}

/* What is right passes, though not within the fixed allowance; each of 22 faults of a thousandth in what is magnified is refused. */
static void magnified_rounding(void **state)
{
    (void)state;
    static const char *const element[] = {"1.001,1,1,1,1,1,1,1", "1,1.001,1,1,1,1,1,1", "1,1,1.001,1,1,1,1,1",
                                          "1,1,1,1.001,1,1,1,1", "1,1,1,1,1.001,1,1,1", "1,1,1,1,1,1.001,1,1",
                                          "1,1,1,1,1,1,1.001,1", "1,1,1,1,1,1,1,1.001"},
                             *const all[] = {"1.001", "0.999"};
    char right[4096], other[4096];
    int faults = 0;
    magnifying(NULL, "1", NULL, right, sizeof right);
    magnifying(NULL, "1", "LayerNormalization(a, one) {axis=-1,epsilon=1e-12}", other, sizeof other);
    ok(check_against(other, right, &by_default));
    fails(SPARTA_E_DIFFER, check_against(other, right, &(sp_tolerance){-1, 0}));
    for (int n = 0; n < 5; n++) {
        const char *wrong = (const char *const[]){"a", "q", "p", "m", "k"}[n];
        for (size_t i = 0; i < (n < 2 ? SP_COUNT(element) : SP_COUNT(all)); i++, faults++) {
            magnifying(wrong, n < 2 ? element[i] : all[i], NULL, other, sizeof other);
            if (check_against(other, right, &by_default) != SPARTA_E_DIFFER)
                fail_msg("%s is off, and passes", wrong);
        }
    }
    assert_int_equal(faults, 22);
}

/* Numbers below 1.2e-38 have few digits, which a kernel that stores no step between has more of; a model that never was trained fades away to them. What is wrong is wrong there as
 * well. */
static void few_digits(void **state)
{
    (void)state;
#define FADES G X W MM "const a: f32[1] = [1e-43]\nconst b: f32[1] = [10000]\n"
    static const char reference[] =
        FADES "node t: ? = Mul(h, a) \"t\"\nnode y: ? = Mul(t, b) \"y\"\noutput y\n";
    ok(check_against(G X W MM "const c: f32[1] = [1e-39]\nnode y: ? = Mul(h, c) \"y\"\noutput y\n", reference,
                     &by_default));
    static const char *const wrong[] = {"1.1e-39", "0.9e-39", "-1e-39", "0"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       G X W MM "const c: f32[1] = [%s]\nnode y: ? = Mul(h, c) \"y\"\noutput y\n", wrong[i]);
        fails(SPARTA_E_DIFFER, check_against(text, reference, &by_default));
    }
#undef FADES
}

/* Roots of what is 0 but for rounding, in four columns of eight, are NaN or numbers by chance: `other` may say either there, and has to be right in the rest. */
#define ROOTS(c)                                                                                             \
    G X W MM "const one: f32[1] = [1]\nconst c: f32[8] = [" c "]\nnode k: ? = Mul(h, one) \"k\"\n"           \
             "node d: ? = Sub(h, k) \"d\"\nnode v: ? = Add(d, c) \"v\"\n"                                    \
             "node y: ? = Sqrt(v) \"y\"\noutput y\n"

static void rounding_makes_nan(void **state)
{
    (void)state;
    static const char right[] = ROOTS("0,0,0,0,1,1,1,1");
    ok(check_against(ROOTS("-1,-1,0,0,1,1,1,1"), right, &by_default));
    ok(check_against(right, ROOTS("-1e-15,-1e-15,0,0,1,1,1,1"), &by_default));
    static const char *const wrong[] = {ROOTS("-1,-1,0,0,1,1,1,1.01"), ROOTS("-1,-1,0,0,1,1,1,-1"),
                                        ROOTS("0,0,0,0,1,1,1,1.01"), ROOTS("0,0,0,0,1,1,1,-1")};
    for (size_t i = 0; i < SP_COUNT(wrong); i++)
        fails(SPARTA_E_DIFFER, check_against(wrong[i], right, &by_default));
    /* where none is left to compare it is said, and no kernel accused */
    fails(SPARTA_E_DIFFER, check_against(ROOTS("-1,0,0,0,0,0,0,0"), ROOTS("0,0,0,0,0,0,0,0"), &by_default));
    says("cannot be checked: one unit in the last place changes");
    says("elements NaN or Inf");
    assert_null(strstr(sparta_message(cx), "kernel"));
}

/* What makes NaN on one side only is named where it is known. */
static void nan_on_one_side(void **state)
{
    (void)state;
#define PLAIN(w) G "input x: f32[batch,2]\nconst w: f32[2,2] = [" w "]\n" MM "output h\n"
    fails(SPARTA_E_DIFFER, check_against(PLAIN("1,2,3,4"), PLAIN("1,nan,3,4"), &by_default));
    says("weight 'w' has such numbers");
    says("options.strict");
#undef PLAIN
    fails(SPARTA_E_DIFFER, check_against(ROOTS("1,1,1,1,1,1,1,1"), ROOTS("1,1,1,1,1,1,1,-1"), &by_default));
    says("in 66 elements");
    says("options.strict");
    assert_null(strstr(sparta_message(cx), "weight"));
}

/* ------------------------------------------------------------------ quantised graphs */

#define QDQ(x, q, y)                                                                                         \
    "node " q ": ? = QuantizeLinear(" x ", s, z) \"" q "\"\nnode " y ": ? = DequantizeLinear(" q             \
    ", s, z) \"" y "\"\n"
#define QUANTISED(weight, end)                                                                               \
    G "input x: f32[batch,64]\nconst w: f32[64,64] @\"" weight                                               \
      "\"\nconst v: f32[64,64] @\"v\"\nconst s: f32[] = [0.05]\n"                                            \
      "const z: u8[] = [128]\nnode h: ? = MatMul(x, w) \"h\"\n" QDQ(                                         \
          "h", "p",                                                                                          \
          "a") "node k: ? = MatMul(a, v) \"k\"\n" QDQ("k", "q",                                              \
                                                      "b") "node t: ? = Tanh(b) \"t\"\noutput " end "\n"

/* The middle between two steps: 0.025 is 0.5 steps. Both neighbours are right, as one output and with what comes after it; and the
 * answer of another weight is not. */
static void flips_are_forgiven(void **state)
{
    (void)state;
    static const char on_the_edge[] = G
        "input x: f32[batch,8]\nconst c: f32[1] = [%s]\nconst n: f32[1] = [0]\nconst s: f32[] = "
        "[0.05]\nconst z: u8[] = "
        "[128]\nnode o: ? = Mul(x, n) \"o\"\nnode h: ? = Add(o, c) \"h\"\n" QDQ("h", "q", "y") "output %s\n";
    static const char *const outputs[] = {"q", "y"};
    for (int i = 0; i < 2; i++) {
        char below[512], above[512], far[512];
        snprintf(below, sizeof below, on_the_edge, "0.0249999", outputs[i]);
        snprintf(above, sizeof above, on_the_edge, "0.0250001", outputs[i]);
        snprintf(far, sizeof far, on_the_edge, "0.1250001", outputs[i]);
        ok(check_against(below, above, &by_default));
        ok(check_against(above, below, &by_default));
        fails(SPARTA_E_DIFFER, check_against(far, below, &by_default));
    }
    static const char *const ends[][2] = {{QUANTISED("w", "t"), QUANTISED("u", "t")},
                                          {QUANTISED("w", "q"), QUANTISED("u", "q")},
                                          {QUANTISED("w", "b"), QUANTISED("u", "b")}};
    for (size_t i = 0; i < SP_COUNT(ends); i++) {
        ok(check_against(ends[i][0], ends[i][0], &by_default));
        fails(SPARTA_E_DIFFER, check_against(ends[i][1], ends[i][0], &by_default));
    }
}

/* Nothing is forgiven that no flip can do: what is quantised but not computed, and graphs without quantisers. */
static void slack_of_graphs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool flips;
    } of[] = {{QUANTISED("w", "t"), true},
              {G "input x: f32[batch,64]\nconst s: f32[] = [0.05]\nconst z: u8[] = [128]\n" QDQ(
                   "x", "q", "y") "output y\n",
               false},
              {G X W MM "output h\n", false}};
    for (size_t i = 0; i < SP_COUNT(of); i++) {
        sp_graph *g = typed(graph(of[i].text));
        inputs in = make_inputs(g, 5, 1, 1);
        sparta_tensor out;
        double slack;
        ok(sp_ops_answer(cx, g, &(sp_answer){in.in, in.n, &out, &slack}));
        assert_true(of[i].flips ? slack > 1e-4 && slack < 0.2 : slack < 1e-5);
        sp_free(cx, out.data);
        free_inputs(&in);
        sp_graph_free(g);
    }
}

/* The n-th allocation fails, for every n: an error, and nothing is lost or freed twice. */
static void check_without_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {QUANTISED("w", "t"), G X W MM "output h\n"};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_graph *want = typed(graph(texts[i]));
        sparta_package *p = compile(graph(texts[i]));
        const size_t before = sp_ctx_memory(cx);
        sparta_status status = SPARTA_E_MEMORY;
        for (uint64_t n = 1; status != SPARTA_OK && n < 10000; n++) {
            sp_ctx_fail_alloc(cx, n, false);
            status = sp_lower_verify(cx, p, want, &by_default);
            if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        }
        sp_ctx_fail_alloc(cx, 0, false);
        assert_int_equal(status, SPARTA_OK);
        assert_true(sp_ctx_memory(cx) <= before + 4096); /* the graph's arena may have grown */
        sparta_package_close(p);
        sp_graph_free(want);
    }
}

static void costs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double want;
    } of[] = {
        {G X W MM "output h\n", 10 * 8 * 8},
        {G
         "input x: f32[batch,3,16,16]\nconst w: f32[4,3,3,3] @\"w\"\nnode y: ? = Conv(x, w) {pads=[1,1,1,1]} "
         "\"y\"\noutput y\n",
         10 * 4 * 16 * 16 * 27},
        {G "input x: f32[batch,8,4,4]\nconst w: f32[8,64,3,3] @\"w\"\nnode y: ? = ConvTranspose(x, w) "
           "\"y\"\noutput y\n",
         10 * 8 * 16 * 64 * 9},
        {G "input x: f32[batch,64,32]\nnode y: ? = sparta::Attention(x, x, x) {heads=4} \"y\"\noutput y\n",
         10 * 2 * 64 * 64 * 32},
        {G "input x: f32[batch,4,64,32]\nnode y: ? = Attention(x, x, x) \"y\"\noutput y\n",
         10 * 2 * 4 * 64 * 64 * 32},
        {G "input x: f32[batch,64]\nconst w: f32[64,48] @\"w\"\nnode y: ? = Einsum(x, w) "
           "{equation=\"ij,jk->ik\"} \"y\"\n"
           "output y\n",
         10 * 64 * 48}};
    for (size_t i = 0; i < SP_COUNT(of); i++) {
        sp_graph *g = typed(graph(of[i].text));
        const double cost = sp_ops_cost(cx, g, &(sp_bindings){1, (const char *[]){"batch"}, (int64_t[]){10}});
        assert_true(cost >= of[i].want && cost <= 2.5 * of[i].want);
        sp_graph_free(g);
    }
}

/* ------------------------------------------------------------------ layer normalisation */

/* Rows of x * gain + mean through a kernel, alone and behind a product that leaves statistics; the largest difference to the
 * references. */
static double norm_error(const char *text, const char *target, const char *kernel, float gain, float mean)
{
    sp_graph *want = typed(graph(text));
    sp_compile_request request = quick();
    request.options.target = target;
    sparta_package *p = compile_in(cx, graph(text), request);
    sparta_session *s = session(p, 1);
    inputs in = make_inputs(want, 67, 1, 3);
    float *x = in.in[0].tensor.data;
    for (int64_t i = 0; i < sparta_tensor_elements(&in.in[0].tensor); i++) x[i] = x[i] * gain + mean;
    results got = run(s, p, &in), expected = reference(want, &in);
    double worst = 0;
    for (int64_t i = 0; i < sparta_tensor_elements(&got.t[0]); i++)
        worst =
            fmax(worst, fabs((double)((float *)got.t[0].data)[i] - (double)((float *)expected.t[0].data)[i]));
    assert_string_equal(said_of(node_named(p, "y"), "kernel"), kernel);
    free_results(&got);
    free_results(&expected);
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
    sp_graph_free(want);
    return worst;
}

static void norm_of_awkward_rows(void **state)
{
    (void)state;
    static const int widths[] = {1, 5, 24, 256, 768, 5000};
    static const float means[] = {0.1f, 1000, -1e5f, 3e7f};
    for (size_t i = 0; i < SP_COUNT(widths); i++) {
        char alone[256];
        snprintf(alone, sizeof alone,
                 G "input x: f32[batch,%d]\nconst g: f32[%d] @\"g\"\nnode y: ? = LayerNormalization(x, g) "
                   "\"y\"\noutput y\n",
                 widths[i], widths[i]);
        /* by itself it is generated, in rows; on panels, and where there is no compiler, it is kernel norm */
        for (int by_hand = 0; by_hand < 2; by_hand++) {
            const char *target = by_hand ? "portable" : NULL;
            const char *kernel =
                by_hand || sp_target_best(SP_DEVICE_CPU) == SP_TARGET_PORTABLE ? "norm" : "nest";
            for (size_t k = 0; k < SP_COUNT(means); k++)
                assert_true(norm_error(alone, target, kernel, 0, means[k]) == 0);
            if (widths[i] > 1) assert_true(norm_error(alone, target, kernel, 1, 1000) < 2e-6);
        }
    }
}

/* A product that adds 1000 to everything, and one all of whose weights are gone. */
static void norm_behind_a_product(void **state)
{
    (void)state;
    static const char shifted[] = G "input x: f32[batch,64]\nconst w: f32[64,64] @\"w\"\nconst k: f32[64] "
                                    "@\"k\"\nconst m: f32[1] = [1000]\n"
                                    "const g: f32[64] @\"g\"\nnode h: ? = MatMul(x, w) \"h\"\nnode b: ? = "
                                    "Add(h, k) \"b\"\nnode a: ? = Add(b, m) "
                                    "\"a\"\nnode y: ? = LayerNormalization(a, g) \"y\"\noutput y\n";
    static const char pruned[] = G "input x: f32[batch,64]\nconst w: f32[64,64] @\"w|1x1:1.0\"\nconst g: "
                                   "f32[64] @\"g\"\nconst m: f32[1] = "
                                   "[1000.1]\nnode h: ? = MatMul(x, w) \"h\"\nnode a: ? = Add(h, m) "
                                   "\"a\"\nnode y: ? = LayerNormalization(a, g) "
                                   "\"y\"\noutput y\n";
    assert_true(norm_error(shifted, NULL, "norm", 1, 0) < 5e-4); /* the product's own digits end at 6e-5 */
    assert_true(norm_error(pruned, NULL, "norm", 1, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_apart),
        cmocka_unit_test(items_of_the_zoo),
        cmocka_unit_test(right_packages_pass),
        cmocka_unit_test(wrong_packages_are_caught),
        cmocka_unit_test(items_that_do_not_repeat),
        cmocka_unit_test(many_symbols),
        cmocka_unit_test(magnified_rounding),
        cmocka_unit_test(few_digits),
        cmocka_unit_test(rounding_makes_nan),
        cmocka_unit_test(nan_on_one_side),
        cmocka_unit_test(flips_are_forgiven),
        cmocka_unit_test(slack_of_graphs),
        cmocka_unit_test(check_without_memory),
        cmocka_unit_test(costs),
        cmocka_unit_test(norm_of_awkward_rows),
        cmocka_unit_test(norm_behind_a_product),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
