/* What the tests of package, run and compile share: a folder with its own cache and database, small models (of the zoo, or from the
 * text form of a graph with weights made from their names), compiling them, running them, comparing with the references. */
#ifndef SP_TEST_MODELS_H
#define SP_TEST_MODELS_H

#include "bed.h"
#include "compile/compile.h"
#include "ops/ops.h"
#include "run/run.h"
#include "zoo/zoo.h"
#include <math.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------ a folder with a cache and a database */

static char cache[96], database[96];

HELPER int enter(void **state)
{
    (void)state;
    unsetenv("SPARTA_TARGET");
    setenv("SPARTA_TRUST", "all", 1); /* whatever runs beside the tests */
    if (make_root()) return -1;
    snprintf(cache, sizeof cache, "%s/cache", root);
    snprintf(database, sizeof database, "%s/tune.db", root);
    cx = context(cache, NULL);
    return 0;
}

HELPER int leave(void **state)
{
    return tear_down_folder(state);
}

/* ------------------------------------------------------------------ models */

/* Sizes as text, "layers=1 hidden=64". */
HELPER sp_graph *zoo_in(sparta_ctx *c, const char *name, const char *prune, const char *sizes)
{
    static char text[256];
    const char *names[16];
    int64_t value[16];
    sp_zoo_request r = {.name = name, .seed = 3, .dims = {0, names, value}};
    sp_prune_spec spec;
    sp_graph *g = NULL;
    snprintf(text, sizeof text, "%s", sizes);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *eq = strchr(word, '=');
        *eq = 0;
        names[r.dims.n] = word;
        value[r.dims.n++] = atoll(eq + 1);
    }
    if (prune) {
        ok_in(c, sp_prune_parse(c, prune, &spec));
        r.prune = &spec;
    }
    ok_in(c, sp_zoo_build(c, &r, &g));
    return g;
}

#define SMALL_BERT "layers=2 hidden=64 heads=4 ffn=128 vocab=50 positions=130"
#define TINY_BERT  "layers=1 hidden=16 heads=2 ffn=32 vocab=20 positions=20"
#define SMALL_MLP  "inputs=37 hidden1=64 hidden2=30 classes=10"

HELPER sp_graph *zoo(const char *name, const char *prune, const char *sizes)
{
    return zoo_in(cx, name, prune, sizes);
}

typedef struct maker {
    sp_arena *arena;
} maker;

/* "w", "w|4x1:0.8": numbers from the name, pruned as (k,n) are; "w^4x1:0.8": as (n,k). */
HELPER sparta_status make_weight(void *arg, const char *name, sparta_tensor *out)
{
    const maker *m = arg;
    sparta_ctx *c = sp_arena_ctx(m->arena);
    sp_rng rng = sp_rng_seed(sp_hash(name, strlen(name), 1));
    const char *how = strpbrk(name, "|^");
    SP_TRY(sp_tensor_alloc_in(m->arena, out->dtype, out->rank, out->dim, out));
    for (int64_t i = 0, n = sparta_tensor_elements(out); i < n; i++)
        if (sp_dtype_is_float(out->dtype))
            sp_element_set(out->dtype, out->data, i, sp_rng_uniform(&rng) - .5);
        else
            sp_element_set_int(out->dtype, out->data, i, i);
    if (!how) return SPARTA_OK;
    sp_prune_spec spec;
    sparta_tensor view = *out;
    if (*how == '|') {
        view.dim[0] = out->dim[1], view.dim[1] = out->dim[0];
        view.stride[0] = out->stride[1], view.stride[1] = out->stride[0];
    }
    SP_TRY(sp_prune_parse(c, how + 1, &spec));
    return sp_prune(c, &spec, &view, NULL);
}

HELPER sp_graph *graph_in(sparta_ctx *c, const char *text)
{
    maker m = {sp_arena_create(c)};
    sp_graph *g = NULL;
    assert_non_null(m.arena);
    ok_in(c, sp_graph_parse(c, text, make_weight, &m, &g));
    g->adopted = m.arena;
    return g;
}
HELPER sp_graph *graph(const char *text)
{
    return graph_in(cx, text);
}

/* The same graph again, typed: what results are compared with. */
HELPER sp_graph *typed(sp_graph *g)
{
    ok_in(g->cx, sp_ops_infer(g));
    return g;
}

HELPER sp_compile_request quick(void)
{
    return (sp_compile_request){
        .options = {.size = sizeof(sparta_compile_options), .no_measure = 1, .db = database}};
}

/* The graph becomes part of the package. */
HELPER sparta_package *compile_in(sparta_ctx *c, sp_graph *g, sp_compile_request request)
{
    sparta_package *p = NULL;
    ok_in(c, sp_compile_graph(c, g, &request, &p));
    return p;
}
HELPER sparta_package *compile(sp_graph *g)
{
    return compile_in(cx, g, quick());
}

HELPER sparta_session *session_in(sparta_ctx *c, const sparta_package *p, int threads)
{
    sparta_session_options o = {.size = sizeof o, .threads = threads};
    sparta_session *s = NULL;
    ok_in(c, sparta_session_create(c, p, &o, &s));
    sp_session_share_from(s, 0); /* small models, by all threads */
    return s;
}
HELPER sparta_session *session(const sparta_package *p, int threads)
{
    return session_in(cx, p, threads);
}

/* The node of that name, or else the first whose name holds it: those of conversions ("x/to_lanes") hold a lot. */
HELPER const sp_node *node_named(const sparta_package *p, const char *part)
{
    for (int i = 0; i < p->plan->n_nodes; i++)
        if (!strcmp(p->plan->node[i]->name, part)) return p->plan->node[i];
    for (int i = 0; i < p->plan->n_nodes; i++)
        if (strstr(p->plan->node[i]->name, part)) return p->plan->node[i];
    fail_msg("no node like '%s'", part);
    return NULL;
}
HELPER const char *said_of(const sp_node *n, const char *attribute)
{
    return sp_attr_string(&n->attrs, attribute, "");
}

/* ------------------------------------------------------------------ running */

enum { MOST = 8 }; /* inputs and outputs of a model */

typedef struct inputs {
    int n;
    sparta_named_tensor in[MOST];
} inputs;

HELPER inputs make_inputs_in(sparta_ctx *c, const sp_graph *g, int64_t batch, int64_t sequence, uint64_t seed)
{
    inputs i = {.n = g->n_inputs};
    assert_true(g->n_inputs <= MOST);
    const sp_make_inputs how = {seed,
                                {2, (const char *[]){"batch", "sequence"}, (int64_t[]){batch, sequence}}};
    ok_in(c, sp_inputs_make(c, g, &how, i.in));
    return i;
}
HELPER inputs make_inputs(const sp_graph *g, int64_t batch, int64_t sequence, uint64_t seed)
{
    return make_inputs_in(cx, g, batch, sequence, seed);
}
HELPER void free_inputs(inputs *i)
{
    sp_inputs_free(cx, i->in, i->n);
}

typedef struct results {
    int n;
    sparta_tensor t[MOST]; /* copies */
} results;

HELPER void free_results_in(sparta_ctx *c, results *r)
{
    for (int i = 0; i < r->n; i++) sp_free(c, r->t[i].data);
    r->n = 0;
}
HELPER void free_results(results *r)
{
    free_results_in(cx, r);
}

HELPER results run_in(sparta_ctx *c, sparta_session *s, const sparta_package *p, const inputs *in)
{
    sparta_named_tensor out[MOST];
    results r = {.n = sparta_package_outputs(p)};
    for (int i = 0; i < r.n; i++) out[i].name = sparta_package_output_name(p, i);
    ok_in(c, sparta_session_run(c, s, in->in, in->n, out, r.n));
    for (int i = 0; i < r.n; i++) {
        ok_in(c, sp_tensor_alloc(c, out[i].tensor.dtype, out[i].tensor.rank, out[i].tensor.dim, &r.t[i]));
        ok_in(c, sp_tensor_copy(c, &out[i].tensor, &r.t[i]));
    }
    return r;
}
HELPER results run(sparta_session *s, const sparta_package *p, const inputs *in)
{
    return run_in(cx, s, p, in);
}

HELPER results reference_in(sparta_ctx *c, const sp_graph *g, const inputs *in)
{
    results r = {.n = g->n_outputs};
    ok_in(c, sp_ops_run(c, g, in->in, in->n, r.t, NULL, NULL));
    return r;
}
HELPER results reference(const sp_graph *g, const inputs *in)
{
    return reference_in(cx, g, in);
}

/* The largest difference over the largest value; 1e9 when shapes or non-finite values differ. */
HELPER double apart(const sparta_tensor *a, const sparta_tensor *b)
{
    double most = 1e-6, worst = 0;
    if (a->dtype != b->dtype || !sp_tensor_same_shape(a, b)) return 1e9;
    for (int64_t i = 0, n = sparta_tensor_elements(a); i < n; i++) {
        const double x = sp_element_get(a->dtype, a->data, i), y = sp_element_get(b->dtype, b->data, i);
        if (x == y || (isnan(x) && isnan(y))) {
            if (isfinite(y)) most = fmax(most, fabs(y));
            continue;
        }
        if (!isfinite(x) || !isfinite(y)) return 1e9;
        most = fmax(most, fabs(y));
        worst = fmax(worst, fabs(x - y));
    }
    return worst / most;
}

HELPER void close_enough(const results *a, const results *b, double limit, const char *what)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        const double d = apart(&a->t[i], &b->t[i]);
        if (d > limit) fail_msg("%s: output %d differs by %g of its largest value", what, i, d);
    }
}

HELPER void same_bits(const results *a, const results *b, const char *what)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        size_t bytes;
        ok(sp_tensor_bytes(cx, a->t[i].dtype, a->t[i].rank, a->t[i].dim, &bytes));
        if (!sp_tensor_same_shape(&a->t[i], &b->t[i]) || memcmp(a->t[i].data, b->t[i].data, bytes))
            fail_msg("%s: output %d is not the same, %g apart", what, i, apart(&a->t[i], &b->t[i]));
    }
}

/* One run of a session against the references of a graph. */
HELPER void agree(sparta_session *s, const sparta_package *p, const sp_graph *g, const inputs *in,
                  const char *what)
{
    results got = run(s, p, in), want = reference(g, in);
    close_enough(&got, &want, 1e-4, what);
    free_results(&got);
    free_results(&want);
}

/* Compile a graph given as text, run it at some sizes with one and with three threads, compare. */
HELPER sparta_package *check_text_with(const char *text, sp_compile_request request)
{
    static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {65, 2}, {2, 64}};
    sp_graph *want = typed(graph(text));
    sparta_package *p = compile_in(cx, graph(text), request);
    for (int threads = 1; threads <= 3; threads += 2) {
        sparta_session *s = session(p, threads);
        for (size_t i = 0; i < SP_COUNT(sizes); i++) {
            char what[64];
            inputs in = make_inputs(want, sizes[i][0], sizes[i][1], i + 1);
            snprintf(what, sizeof what, "%ld x %ld, %d threads", (long)sizes[i][0], (long)sizes[i][1],
                     threads);
            agree(s, p, want, &in, what);
            free_inputs(&in);
        }
        sparta_session_free(s);
    }
    sp_graph_free(want);
    return p;
}
HELPER sparta_package *check_text(const char *text)
{
    return check_text_with(text, quick());
}

#endif
