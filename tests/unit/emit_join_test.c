/* emit: neighbours joined. Chains that exporters write become one nest; thousands of random ones are compiled, in whatever pieces they become, and
 * compared with the references at many sizes. */
#include "unit/emit_bed.h"
#include "ops/close.h"
#include "ops/ops.h"

enum { NODES = 24, SHAPES = 24, GRAPHS = 48, BATCH = 24 };

/* ------------------------------------------------------------------ fusing, as simply as can be */
typedef struct chain {
    sp_nest nest;
    const void *value[SP_NEST_OPERANDS];
    int last; /* the node that it runs at; -1: it is part of another */
} chain;

static bool read_outside(const sp_graph *g, const int *of, const sp_value *v, int a, int c, int last,
                         bool *may)
{
    bool kept = v->is_output;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] == v && of[i] != a && of[i] != c) {
                kept = true;
                if (i < last) *may = false;
            }
    return kept;
}

/* Chains of a graph; returns how many kernels there are. */
static int fuse(const sp_graph *g, bool lanes, chain *c, int *of)
{
    int kernels = 0;
    for (int i = 0; i < g->n_nodes; i++) of[i] = -1;
    for (int i = 0; i < g->n_nodes; i++) {
        int slot[SP_NEST_OPERANDS];
        bool can;
        must(sp_emit_node(cx, g->node[i], lanes, &c[i].nest, slot, &can), g->node[i]->name);
        if (!can) return -1;
        for (int k = 0; k < c[i].nest.operands; k++) c[i].value[k] = sp_node_slot(g->node[i], slot[k]);
        of[i] = c[i].last = i;
        for (int k = 0; k < c[i].nest.operands && !c[i].nest.operand[k].out; k++) {
            const sp_value *v = c[i].value[k];
            if (!v->producer) continue;
            int maker = 0;
            while (g->node[maker] != v->producer) maker++;
            const int a = of[maker];
            bool keep[SP_NEST_OPERANDS] = {false}, may = true, done;
            for (int q = 0; q < c[a].nest.operands; q++)
                keep[q] = c[a].nest.operand[q].out && read_outside(g, of, c[a].value[q], a, i, i, &may);
            if (!may) continue;
            chain both = {.last = i};
            must(sp_emit_join(cx, &c[a].nest, c[a].value, keep, &c[i].nest, c[i].value, &both.nest,
                              both.value, &done),
                 "join");
            if (!done) continue;
            sp_text t;
            sp_nest again;
            sp_text_init(&t, cx);
            sp_nest_print(&both.nest, &t);
            must(sp_nest_parse(cx, sp_text_str(&t), &again), sp_text_str(&t));
            sp_text_free(&t);
            c[i] = both;
            c[a].last = -1;
            for (int m = 0; m < i; m++)
                if (of[m] == a) of[m] = i;
            k = -1;
        }
    }
    for (int i = 0; i < g->n_nodes; i++) kernels += c[i].last >= 0;
    return kernels;
}

static sp_graph *parse_graph(const char *text)
{
    sp_graph *g;
    must(sp_graph_parse(cx, text, NULL, NULL, &g), text);
    must(sp_ops_infer(g), text);
    return g;
}

/* ------------------------------------------------------------------ chains of exporters are one kernel */
#define X "graph \"g\"\ninput x: f32[2,5,48]\n"
static const struct {
    const char *name, *text, *nest;
    bool lanes;
    int kernels;
} known[] = {
    {"RMSNorm",
     X
     "const two: f32[] = [2]\nconst e: f32[] = [0.000001]\nconst axes: i64[1] = [-1]\nconst w: f32[1] = [3]\n"
     "node a: ? = Pow(x, two) \"1\"\nnode b: ? = ReduceMean(a, axes) \"2\"\nnode c: ? = Add(b, e) "
     "\"3\"\nnode d: ? = Sqrt(c) \"4\"\n"
     "node f: ? = Div(x, d) \"5\"\nnode y: ? = Mul(f, w) \"6\"\noutput y\n",
     "i j | k*; x0: f32[i,j,k]; y0: f32[i,j,k]; t0 = mul(x0,x0); t1 = mean(t0); t2 = "
     "add(t1,9.999999974752427e-07); t3 = sqrt(t2); t4 = div(x0,t3); "
     "y0 = mul(t4,3)",
     false, 1},
    {"RMSNorm on panels",
     X "const two: f32[] = [2]\nconst e: f32[] = [0.000001]\nconst axes: i64[1] = [-1]\n"
       "node a: ? = Pow(x, two) \"1\"\nnode b: ? = ReduceMean(a, axes) \"2\"\nnode c: ? = Add(b, e) "
       "\"3\"\nnode d: ? = Sqrt(c) \"4\"\n"
       "node y: ? = Div(x, d) \"5\"\noutput y\n",
     "t* | f; x0: lanes f32[t,f]; y0: lanes f32[t,f]; t0 = mul(x0,x0); t1 = mean(t0); t2 = "
     "add(t1,9.999999974752427e-07); t3 = sqrt(t2); "
     "y0 = div(x0,t3)",
     true, 1},
    {"SwiGLU",
     X "input u: f32[2,5,48]\nnode a: ? = Sigmoid(x) \"1\"\nnode b: ? = Mul(x, a) \"2\"\nnode y: ? = Mul(b, "
       "u) \"3\"\noutput y\n",
     "i j k*; x0: f32[i,j,k]; x1: f32[i,j,k]; y0: f32[i,j,k]; t0 = sigmoid(x0); t1 = mul(x0,t0); y0 = "
     "mul(t1,x1)",
     false, 1},
    {"LayerNorm",
     X "const two: f32[] = [2]\nconst e: f32[] = [0.00001]\nconst axes: i64[1] = [-1]\ninput w: "
       "f32[48]\ninput s: f32[48]\n"
       "node m: ? = ReduceMean(x, axes) \"1\"\nnode d: ? = Sub(x, m) \"2\"\nnode q: ? = Pow(d, two) "
       "\"3\"\nnode v: ? = ReduceMean(q, axes) \"4\"\n"
       "node a: ? = Add(v, e) \"5\"\nnode r: ? = Sqrt(a) \"6\"\nnode n: ? = Div(d, r) \"7\"\nnode g: ? = "
       "Mul(n, w) \"8\"\nnode y: ? = Add(g, s) \"9\"\noutput y\n",
     NULL, false, 1},
    {"masked softmax",
     X "input k: f32[2,1,48]\nconst c: f32[] = [0.125]\nnode a: ? = Mul(x, c) \"1\"\nnode b: ? = Add(a, k) "
       "\"2\"\nnode y: ? = Softmax(b) {axis=-1} \"3\"\noutput y\n",
     NULL, false, 1},
    {"GELU as written out",
     X "const a: f32[] = [1.41421356]\nconst o: f32[] = [1]\nconst h: f32[] = [0.5]\ninput s: f32[48]\nnode "
       "z: ? = Add(x, s) \"0\"\nnode b: ? = Div(z, a) \"1\"\nnode c: ? = Erf(b) \"2\"\n"
       "node d: ? = Add(c, o) \"3\"\nnode f: ? = Mul(z, d) \"4\"\nnode y: ? = Mul(f, h) \"5\"\noutput y\n",
     NULL, false, 1},
    {"a costly value for many",
     X "input s: f32[2,5,1]\nnode a: ? = Sigmoid(s) \"1\"\nnode y: ? = Mul(x, a) \"2\"\noutput y\n", NULL,
     false, 2},
    {"another axis",
     X "const p: i64[1] = [1]\nnode a: ? = Softmax(x) {axis=-1} \"1\"\nnode y: ? = ReduceMean(a, p) "
       "\"2\"\noutput y\n",
     NULL, false, 2},
    {"read twice, kept once",
     X "const c: f32[] = [0.125]\nnode a: ? = Mul(x, c) \"1\"\nnode b: ? = Tanh(a) \"2\"\nnode y: ? = Add(b, "
       "a) \"3\"\noutput a\noutput y\n",
     NULL, false, 1},
};

static void test_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(known); i++) {
        static chain c[NODES];
        int of[NODES];
        sp_graph *g = parse_graph(known[i].text);
        const int kernels = fuse(g, known[i].lanes, c, of);
        sp_text t;
        sp_text_init(&t, cx);
        sp_nest_print(&c[g->n_nodes - 1].nest, &t);
        if (kernels != known[i].kernels)
            fail_msg("%s: %d kernels in place of %d; the last is %s", known[i].name, kernels,
                     known[i].kernels, sp_text_str(&t));
        if (known[i].nest) assert_string_equal(sp_text_str(&t), known[i].nest);
        sp_text_free(&t);
        sp_graph_free(g);
    }
}

/* ------------------------------------------------------------------ random chains */
/* A graph of a few nodes over axes of which some values have size 1; the same seed at other sizes is the same graph. */
static void random_graph(uint64_t seed, const int64_t *dim, sp_text *out)
{
    static const char *const one[] = {"Sigmoid", "Tanh", "Neg",      "Abs",  "Relu",
                                      "Erf",     "Gelu", "Softplus", "Mish", "Softsign"};
    static const char *const two[] = {"Add", "Sub", "Mul", "Max", "Min"};
    static const char *const all[] = {"ReduceMean", "ReduceMax", "ReduceSum",
                                      "ReduceMin",  "ReduceL2",  "ReduceSumSquare"};
    const uint64_t saved = seed_state;
    int shape[16], values = 0, nodes = 0; /* bit a: axis a is whole */
    seed_state = sp_hash(&seed, sizeof seed, 1);
    const int rank = 2 + below(2), inputs = 1 + below(3);
    sp_text_printf(out, "graph \"g\"\nconst h: f32[] = [0.5]\nconst two: f32[] = [2]\n");
    for (int a = 0; a < rank; a++) sp_text_printf(out, "const axis%d: i64[1] = [%d]\n", a, a);
    for (; values < inputs; values++) {
        shape[values] = values && !below(3) ? below(1 << rank) : (1 << rank) - 1;
        sp_text_printf(out, "input v%d: f32[", values);
        for (int a = 0; a < rank; a++)
            sp_text_printf(out, "%s%d", a ? "," : "", shape[values] >> a & 1 ? (int)dim[a] : 1);
        sp_text_printf(out, "]\n");
    }
    for (const int most = 3 + below(5); nodes < most; nodes++) {
        const int x = below(2) ? values - 1 : below(values), y = below(values), axis = below(rank),
                  way = below(10);
        shape[values] = shape[x];
        sp_text_printf(out, "node v%d: ? = ", values);
        if (way < 3)
            sp_text_printf(out, "%s(v%d)", one[below(10)], x);
        else if (way < 6) {
            sp_text_printf(out, "%s(v%d, v%d)", two[below(5)], x, y);
            shape[values] |= shape[y];
        } else if (way == 6)
            sp_text_printf(out, below(2) ? "Mul(v%d, h)" : "Pow(v%d, two)", x);
        else if (way == 7)
            sp_text_printf(out, "Softmax(v%d) {axis=%d}", x, axis);
        else {
            sp_text_printf(out, "%s(v%d, axis%d)", all[below(6)], x, axis);
            shape[values] &= ~(1 << axis);
        }
        sp_text_printf(out, " \"n%d\"\n", nodes);
        values++;
    }
    for (int i = inputs; i < values; i++)
        if (i == values - 1 || !below(6)) sp_text_printf(out, "output v%d\n", i);
    seed_state = saved;
}

static sp_graph *graph_at(uint64_t seed, const int64_t *dim)
{
    sp_text t;
    sp_text_init(&t, cx);
    random_graph(seed, dim, &t);
    sp_graph *g = parse_graph(sp_text_str(&t));
    sp_text_free(&t);
    return g;
}

typedef struct trial {
    uint64_t seed;
    sp_graph *g;
    chain c[NODES];
    int of[NODES], first; /* of its kernels, in the batch */
} trial;

/* Runs the kernels of a graph at other sizes, and compares every output. */
static void check_graph(trial *t, kernel_fn *fn, const int64_t *dim)
{
    sp_graph *g = graph_at(t->seed, dim);
    sparta_tensor *value = calloc((size_t)g->n_values, sizeof *value), want[16];
    sparta_named_tensor in[4];
    double slack[16];
    for (int i = 0; i < g->n_values; i++) {
        int64_t d[SPARTA_RANK];
        const sp_value *v = g->value[i];
        if (v->constant) value[i] = *v->constant;
        if (v->constant || !v->typed) continue;
        assert_true(sp_dims_const(&v->dims, d));
        must(sp_tensor_alloc(cx, v->dtype, v->dims.rank, d, &value[i]), "room");
        for (int64_t k = 0; k < sparta_tensor_elements(&value[i]); k++)
            ((float *)value[i].data)[k] = (float)uniform(-2, 2);
    }
    for (int i = 0; i < g->n_inputs; i++)
        in[i] = (sparta_named_tensor){g->input[i]->name, value[g->input[i]->id]};
    must(sp_ops_answer(cx, g, &(sp_answer){in, g->n_inputs, want, slack}), "reference");
    int k = t->first;
    for (int i = 0; i < g->n_nodes; i++) {
        const chain *c = &t->c[i];
        sparta_tensor tensor[SP_NEST_OPERANDS];
        if (c->last < 0) continue;
        for (int o = 0; o < c->nest.operands; o++) tensor[o] = value[((const sp_value *)c->value[o])->id];
        run_nest(&c->nest, fn[k++], tensor, 1 + below(3));
    }
    for (int i = 0; i < g->n_outputs; i++) {
        sp_closeness close;
        if (!sp_close(&value[g->output[i]->id], &want[i], &(sp_tolerance){-1, -1}, slack[i], &close)) {
            sp_text text;
            sp_text_init(&text, cx);
            random_graph(t->seed, dim, &text);
            for (int q = 0; q < g->n_nodes; q++)
                if (t->c[q].last >= 0) {
                    sp_text_printf(&text, "\n");
                    sp_nest_print(&t->c[q].nest, &text);
                }
            fail_msg("output %s is %g apart, %g allowed:\n%s", g->output[i]->name, close.max_abs,
                     close.allowed, sp_text_str(&text));
        }
        sp_free(cx, want[i].data);
    }
    for (int i = 0; i < g->n_values; i++)
        if (!g->value[i]->constant) sp_free(cx, value[i].data);
    free(value);
    sp_graph_free(g);
}

static void run_batch(trial *all, int count, sp_nest *nests, int kernels, sp_target target)
{
    static const int64_t sizes[] = {2, 3, 5, 7, 16, 17, 33, 64, 65};
    kernel_fn fn[BATCH + NODES];
    const sp_object *o = compile_nests(nests, kernels, target);
    for (int i = 0; i < kernels; i++) fn[i] = symbol_of(o, i);
    for (int i = 0; i < count; i++)
        for (int round = 0; round < SHAPES; round++) {
            const int64_t dim[] = {sizes[below(6)], sizes[below(9)], sizes[below(9)]};
            check_graph(&all[i], fn, dim);
        }
    sp_jit_close(o);
}

static void test_random(void **state)
{
    (void)state;
    static trial all[GRAPHS];
    static sp_nest nests[BATCH + NODES];
    sp_target target[SP_CPU_TARGETS];
    int count = 0, kernels = 0, nodes = 0, launched = 0;
    targets(target);
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        trial *t = &all[count];
        const int64_t dim[] = {4, 6, 9};
        t->seed = seed;
        t->g = graph_at(seed, dim);
        t->first = kernels;
        const int n = fuse(t->g, false, t->c, t->of);
        if (n < 0) fail_msg("a node of graph %d has no nest", (int)seed);
        nodes += t->g->n_nodes;
        launched += n;
        for (int i = 0; i < t->g->n_nodes; i++)
            if (t->c[i].last >= 0) nests[kernels++] = t->c[i].nest;
        count++;
        if (kernels < BATCH && seed < GRAPHS) continue;
        run_batch(all, count, nests, kernels, target[0]);
        for (int i = 0; i < count; i++) sp_graph_free(all[i].g);
        count = kernels = 0;
    }
    print_message("%d random graphs of %d nodes, %d kernels, %d sizes each\n", GRAPHS, nodes, launched,
                  SHAPES);
    assert_true(launched < nodes * 2 / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, enter, leave);
}
