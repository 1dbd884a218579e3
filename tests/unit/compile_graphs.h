/* What the tests of the passes share: a context per test, inputs, and the comparison of a graph with what the
 * passes made of it, both run on the references. */
#ifndef TESTS_COMPILE_GRAPHS_H
#define TESTS_COMPILE_GRAPHS_H

#include "bed.h"
#include "normal.h"
#include <math.h>
#include "compile/passes.h"
#include "import/import.h"
#include "ops/ops.h"

static float pool[1 << 12]; /* contents of every constant fetched by name */

static void fill(void)
{
    sp_rng r = sp_rng_seed(7);
    for (size_t i = 0; i < SP_COUNT(pool); i++) pool[i] = (float)(0.3 * normal(&r));
}

static int fill_and_set_up(void **state)
{
    fill();
    return set_up(state);
}

HELPER int fill_and_set_up_strict(void **state)
{
    fill();
    return set_up_strict(state);
}

/* ------------------------------------------------------------------ running and comparing */

typedef struct sizes {
    int64_t batch, sequence;
} sizes;

static int64_t size_of(const sp_expr *e, const sizes *s)
{
    const char *names[] = {"batch", "sequence"};
    int64_t values[] = {s->batch, s->sequence}, out;
    ok(sp_expr_eval(cx, e, &(sp_bindings){2, names, values}, &out));
    return out;
}

/* Ids below 2, masks that pad each row from another place on (the last row is all padding), floats around 0.
 */
static double element(const char *name, sparta_dtype dtype, const sizes *s, int64_t i, sp_rng *r)
{
    if (strstr(name, "mask")) {
        int64_t b = i / s->sequence, t = i % s->sequence;
        return s->batch > 1 && b == s->batch - 1 ? 0 : t < s->sequence - 2 * b;
    }
    if (strcmp(name, "input_ids") == 0) return (double)(sp_rng_next(r) % 100);
    return sp_dtype_is_float(dtype) ? normal(r) : (double)(sp_rng_next(r) % 2);
}

static int make_inputs(const sp_graph *g, const sizes *s, sparta_named_tensor *in)
{
    sp_rng r = sp_rng_seed(11);
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_value *v = g->input[i];
        int64_t dim[SPARTA_RANK];
        for (int k = 0; k < v->dims.rank; k++) dim[k] = size_of(v->dims.dim[k], s);
        in[i].name = v->name;
        ok(sp_tensor_alloc(cx, v->dtype, v->dims.rank, dim, &in[i].tensor));
        for (int64_t e = 0; e < sparta_tensor_elements(&in[i].tensor); e++)
            sp_element_set(v->dtype, in[i].tensor.data, e, element(v->name, v->dtype, s, e, &r));
    }
    return g->n_inputs;
}

/* NaN is an answer too (a row of scores that are all -inf), but not of the fixtures. */
static void compare(const char *what, const sparta_tensor *a, const sparta_tensor *b, bool nan_is_fine)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_true(sp_tensor_same_shape(a, b));
    for (int64_t i = 0; i < sparta_tensor_elements(a); i++) {
        double x = sp_element_get(a->dtype, a->data, i), y = sp_element_get(b->dtype, b->data, i);
        bool same = (nan_is_fine && isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-5 * fmax(1, fabs(x));
        if (!same) print_error("%s: element %ld is %.9g and becomes %.9g\n", what, (long)i, x, y);
        assert_true(same);
    }
}

/* `plain` is typed, `fused` went through the passes: the same outputs by name, type and value? */
static inline void same_answer(const char *what, const sp_graph *plain, const sp_graph *fused, sizes s,
                               bool nan_is_fine)
{
    sparta_named_tensor in[8];
    sparta_tensor a[4], b[4];
    assert_int_equal(plain->n_outputs, fused->n_outputs);
    assert_int_equal(plain->n_inputs, fused->n_inputs);
    int n = make_inputs(plain, &s, in);
    ok(sp_ops_run(cx, plain, in, n, a, NULL, NULL));
    ok(sp_ops_run(cx, fused, in, n, b, NULL, NULL));
    for (int i = 0; i < plain->n_outputs; i++) {
        assert_string_equal(plain->output[i]->name, fused->output[i]->name);
        compare(what, &a[i], &b[i], nan_is_fine);
        sp_free(cx, a[i].data);
        sp_free(cx, b[i].data);
    }
    for (int i = 0; i < n; i++) sp_free(cx, in[i].tensor.data);
}

static inline int count(const sp_graph *g, const char *op)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += strcmp(sp_builtin_row(g->node[i]->op)->name, op) == 0;
    return n;
}

/* Does the graph have exactly these? "Linear=9 MatMul=0" */
static inline void has(const char *what, const sp_graph *g, const char *wanted)
{
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", wanted);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = 0;
        int there = count(g, word);
        if (there != atoi(equals + 1)) {
            sp_text t;
            sp_text_init(&t, cx);
            sp_graph_print(g, &t);
            print_error("%s: %d of %s and not %s\n%s\n", what, there, word, equals + 1, sp_text_str(&t));
            sp_text_free(&t);
        }
        assert_int_equal(there, atoi(equals + 1));
    }
}

/* ------------------------------------------------------------------ texts */

static inline sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg;
    out->data = pool + strlen(name); /* another name of another length is another constant */
    return SPARTA_OK;
}

#define TEST(f)        cmocka_unit_test_setup_teardown(f, fill_and_set_up, tear_down)
#define TEST_STRICT(f) cmocka_unit_test_setup_teardown(f, fill_and_set_up_strict, tear_down)

#endif
