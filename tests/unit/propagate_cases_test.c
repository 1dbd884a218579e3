/* Every operator with every parameter of ops_flow_cases.h, between what makes facts:
 *
 *     x ---> Mul ---> Add ---> OP ---> Mul ---> ReduceSum ---> output
 *             0s       bias             0s
 *
 * The zeros lie along one axis, or x is a constant with zeros. What propagation claims of every value is compared with runs on random
 * inputs, and so are the answers of the smaller model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/flow.h"
#include "propagate/propagate.h"

enum { ROUNDS = 24, TEXT = 1 << 16 };

static uint64_t seed = 88172645463325252u;

static int draw(int below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)(seed % (uint64_t)below);
}

typedef struct expectation {
    const char *text;
    sp_flow_how how;
    int limit, go;
} expectation;

#define G   "graph \"g\"\n"
#define X34 G "input x: f32[3,4]\n"
#define END "\noutput y\n"
#define FUN SP_FLOW_FUNCTION
#define PRO SP_FLOW_PRODUCT
#define MOV SP_FLOW_MOVE

static const expectation cases[] = {
#include "ops_flow_cases.h"
};

/* ------------------------------------------------------------------ the text of a model */
typedef struct shape {
    int rank, numbers; /* numbers: axes whose size is one */
    int64_t dim[SPARTA_RANK];
} shape;

static shape read_shape(const char *list)
{
    shape s = {0};
    for (const char *p = list + 1; *p && *p != ']'; p += strcspn(p, ",]"), p += *p == ',') {
        int n;
        s.dim[s.rank] = sscanf(p, "%d", &n) == 1 ? n : -1;
        s.numbers += s.dim[s.rank++] >= 0;
    }
    return s;
}

/* An axis with a number for its size; -1: none. */
static int pick_axis(const shape *s)
{
    int n = s->numbers ? draw(s->numbers) : -1;
    for (int i = 0; n >= 0 && i < s->rank; i++)
        if (s->dim[i] >= 0 && n-- == 0) return i;
    return -1;
}

static void put(char *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t at = strlen(out);
    int n = vsnprintf(out + at, TEXT - at, format, args);
    va_end(args);
    assert_true(n >= 0 && at + (size_t)n < TEXT);
}

static double number(int zeros)
{
    return zeros && draw(zeros) == 0 ? 0 : 0.25 + draw(6) * 0.25;
}

/* A constant that differs along an axis, or along none; all of it is 0 with zeros = 1. */
static void put_along(char *out, const char *name, const char *suffix, const shape *s, int axis, int zeros)
{
    int64_t n = axis >= 0 ? s->dim[axis] : 1;
    put(out, "const %s_%s: f32[", name, suffix);
    for (int i = SP_MAX(axis, 0); i < s->rank && axis >= 0; i++)
        put(out, "%s%lld", i > axis ? "," : "", i == axis ? (long long)n : 1LL);
    put(out, "] = [");
    for (int64_t i = 0; i < n; i++) put(out, "%s%g", i ? "," : "", zeros == 1 ? 0.0 : number(zeros));
    put(out, "]\n");
}

/* A whole constant, zeros in some slices of an axis; limit 0: no zeros. */
static void put_constant(char *out, const char *name, const char *type, const char *dims, const shape *s,
                         int limit)
{
    int axis = limit ? pick_axis(s) : -1;
    int64_t n = 1, inner = 1;
    bool zero[64];
    for (int i = 0; i < 64; i++) zero[i] = draw(3) == 0;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    for (int i = axis + 1; axis >= 0 && i < s->rank; i++) inner *= s->dim[i];
    put(out, "const %s: %s%s = [", name, type, dims);
    for (int64_t i = 0; i < n; i++) {
        bool gone = axis >= 0 && zero[i / inner % s->dim[axis]];
        if (!strcmp(type, "f32"))
            put(out, "%s%g", i ? "," : "", gone ? 0 : number(limit ? 5 : 0));
        else
            put(out, "%s%d", i ? "," : "", gone ? 0 : draw(strcmp(type, "bool") ? limit : 2));
    }
    put(out, "]\n");
}

/* One input of the case: as it is, a constant, or with a gate and a bias. limit 0: it must not be 0. */
static void dress(char *out, const char *name, const char *type, const char *dims, int limit)
{
    shape s = read_shape(dims);
    int style = draw(limit ? 6 : 3), axis = pick_axis(&s);
    if (style <= 1 && s.numbers == s.rank && !strchr(dims, '0')) {
        put_constant(out, name, type, dims, &s, limit);
    } else if (style == 2 || !limit || strcmp(type, "f32")) {
        put(out, "input %s: %s%s\n", name, type, dims);
    } else {
        put(out, "input %s_in: %s%s\n", name, type, dims);
        put_along(out, name, "gate", &s, style == 3 ? -1 : axis, style == 3 ? 1 : 2);
        put_along(out, name, "bias", &s, draw(2) ? axis : pick_axis(&s), 3);
        put(out, "node %s_m: ? = Mul(%s_in, %s_gate)\nnode %s: ? = Add(%s_m, %s_bias)\n", name, name, name,
            name, name, name);
    }
}

static void dress_all(char *out, const expectation *c)
{
    char line[1024], name[32], type[16], dims[64];
    out[0] = 0;
    for (const char *p = c->text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        size_t n = strcspn(p, "\n");
        assert_true(n < sizeof line);
        memcpy(line, p, n);
        line[n] = 0;
        bool input = sscanf(line, "input %31[^:]: %15[^[]%63s", name, type, dims) == 3;
        bool divides = strstr(c->text, " QuantizeLinear") &&
                       !strcmp(name, "k"); /* by 0 it is an infinity of either sign */
        if (input)
            dress(out, name, type, dims, divides ? 0 : c->limit);
        else
            put(out, "%s\n", line);
    }
}

static sp_graph *graph_of(sparta_ctx *cx, const char *text)
{
    sp_graph *g = NULL;
    sparta_status status = sp_graph_parse(cx, text, NULL, NULL, &g);
    if (status == SPARTA_OK) status = sp_ops_infer(g);
    if (status == SPARTA_OK) return g;
    sp_graph_free(g);
    return NULL;
}

/* Only some of y is wanted: y is not the output any more, but a sum of some of it. */
static void want_some(sparta_ctx *cx, char *text)
{
    sp_graph *g = graph_of(cx, text);
    if (!g) return;
    const sp_value *y = g->output[0];
    shape s = {.rank = y->dims.rank};
    for (int i = 0; i < s.rank; i++) {
        if (!sp_expr_is_const(y->dims.dim[i], &s.dim[i])) s.dim[i] = -1;
        s.numbers += s.dim[i] >= 0;
    }
    int axis = pick_axis(&s);
    bool good = y->dtype == SPARTA_F32 && axis >= 0 && s.dim[axis] > 0;
    sp_graph_free(g);
    if (!good) return;
    *strstr(text, "output y") = 0;
    put_along(text, "y", "gate", &s, axis, 2);
    put(text,
        "const y_axis: i64[1] = [%d]\nnode y_m: ? = Mul(y, y_gate)\nnode y_s: ? = ReduceSum(y_m, "
        "y_axis)\noutput y_s\n",
        axis);
}

/* ------------------------------------------------------------------ runs */
static int64_t size_of(const sp_expr *x)
{
    int64_t n = 0;
    const char *symbol;
    if (sp_expr_is_const(x, &n)) return n;
    assert_true(sp_expr_is_symbol(x, &symbol));
    return *symbol == 'b' ? 2 : *symbol == 's' ? 6 : 3;
}

/* A strict context promises for all numbers, so it gets all. */
static double any_number(bool positive, bool strict)
{
    static const double odd[] = {INFINITY, -INFINITY, NAN, 0, -0.0};
    if (strict && draw(6) == 0) return odd[draw(SP_COUNT(odd))];
    return (positive ? 0.5 : -1) + draw(1 << 20) / 524288.0;
}

static void draw_inputs(sparta_ctx *cx, const sp_graph *g, int limit, bool positive, sparta_named_tensor *in)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_value *v = g->input[i];
        int64_t dim[SPARTA_RANK];
        for (int k = 0; k < v->dims.rank; k++) dim[k] = size_of(v->dims.dim[k]);
        in[i].name = v->name;
        assert_int_equal(sp_tensor_alloc(cx, v->dtype, v->dims.rank, dim, &in[i].tensor), SPARTA_OK);
        for (int64_t k = 0; k < sparta_tensor_elements(&in[i].tensor); k++) {
            if (sp_dtype_is_float(v->dtype))
                sp_element_set(v->dtype, in[i].tensor.data, k, any_number(positive, sp_ctx_strict(cx)));
            else
                sp_element_set_int(v->dtype, in[i].tensor.data, k, draw(v->dtype == SPARTA_BOOL ? 2 : limit));
        }
    }
}

typedef struct watching {
    const sp_propagation *p;
    const char *text;
    bool strict;
    int64_t known, odd; /* of what operators give; not finite */
} watching;

static sparta_status look(void *arg, const sp_value *v, const sparta_tensor *t)
{
    watching *w = arg;
    int64_t index[SPARTA_RANK] = {0};
    if (v->is_input || v->constant) return SPARTA_OK;
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++) {
        double claimed, got = sp_element_get(t->dtype, t->data, i);
        bool known = sp_tesa_known(sp_propagation_tesa(w->p, v), index, &claimed);
        w->odd += !isfinite(got);
        w->known += known && !strcmp(v->name, "y");
        if (known && claimed != got && (!w->odd || w->strict))
            fail_msg("'%s' is called %.9g at element %lld and is %.9g\n%s", v->name, claimed, (long long)i,
                     got, w->text);
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dim[d]; d--) index[d] = 0;
    }
    return SPARTA_OK;
}

static void compare(const sparta_tensor *a, const sparta_tensor *b, const char *text)
{
    double most = 0;
    if (!sp_tensor_same_shape(a, b) || a->dtype != b->dtype) fail_msg("the answer has other dims\n%s", text);
    for (int64_t i = 0; i < sparta_tensor_elements(a); i++) {
        double x = fabs(sp_element_get(a->dtype, a->data, i));
        most = isfinite(x) ? SP_MAX(most, x) : most;
    }
    for (int64_t i = 0; i < sparta_tensor_elements(a); i++) {
        double x = sp_element_get(a->dtype, a->data, i), y = sp_element_get(b->dtype, b->data, i);
        if (!(x == y || (isnan(x) && isnan(y)) ||
              fabs(x - y) <= (sp_dtype_is_float(a->dtype) ? 1e-5 * most : 0)))
            fail_msg("the smaller model says %.9g for %.9g at element %lld\n%s", y, x, (long long)i, text);
    }
}

static int64_t odd_elements(const sparta_tensor *t)
{
    int64_t n = 0;
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++)
        n += !isfinite(sp_element_get(t->dtype, t->data, i));
    return n;
}

typedef struct tally {
    int64_t models, refused, known, smaller, odd;
} tally;

static void run_both(sparta_ctx *cx, sp_graph *g, const sp_graph *small, int limit, bool positive,
                     watching *w)
{
    sparta_named_tensor in[8];
    sparta_tensor a[1], b[1];
    draw_inputs(cx, g, limit, positive, in);
    if (sp_ops_run(cx, g, in, g->n_inputs, a, look, w) == SPARTA_OK) {
        if (sp_ops_run(cx, small, in, g->n_inputs, b, NULL, NULL) != SPARTA_OK)
            fail_msg("smaller: %s\n%s", sparta_message(cx), w->text);
        if (!w->odd || w->strict) compare(a, b, w->text);
        sp_free(cx, a[0].data);
        sp_free(cx, b[0].data);
    } else {
        w->odd++; /* an index that the draw put outside */
        sp_ctx_clear(cx);
    }
    for (int i = 0; i < g->n_inputs; i++) sp_free(cx, in[i].tensor.data);
}

static void check_model(sparta_ctx *cx, const char *text, int limit, tally *t)
{
    sp_graph *g = graph_of(cx, text), *small = g ? graph_of(cx, text) : NULL;
    sp_propagate_report report;
    watching w = {.text = text, .strict = sp_ctx_strict(cx)};
    t->models++;
    if (!g) { /* constants that the shape rule does not like */
        t->refused++;
        sp_ctx_clear(cx);
        return;
    }
    sp_propagation *p = NULL;
    if (sp_propagate_facts(g, NULL, &p) != SPARTA_OK) fail_msg("facts: %s\n%s", sparta_message(cx), text);
    if (sp_propagate(small, NULL, &report) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    w.p = p;
    for (int i = 0; i < g->n_values; i++) /* some were folded */
        if (g->value[i]->constant) w.odd += odd_elements(g->value[i]->constant);
    for (int i = 0; i < 2; i++) run_both(cx, g, small, limit, i, &w);
    t->known += w.known > 0;
    t->odd += w.odd > 0;
    t->smaller += report.parameters_after < report.parameters_before;
    sp_propagation_free(p);
    sp_graph_free(g);
    sp_graph_free(small);
}

static void check_all(bool strict)
{
    static char text[TEXT];
    sparta_ctx_options options = {.size = sizeof options, .strict = strict};
    sparta_ctx *cx = sparta_ctx_create(&options);
    tally t = {0};
    assert_non_null(cx);
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        for (int round = 0; round < (strict ? 2 : ROUNDS); round++) {
            dress_all(text, &cases[i]);
            if (round % 2) want_some(cx, text);
            sp_ctx_clear(cx);
            check_model(cx, text, cases[i].limit, &t);
        }
    printf("%lld models%s: %lld refused, %lld not finite, something is known of %lld results, %lld became "
           "smaller\n",
           (long long)t.models, strict ? " (strict)" : "", (long long)t.refused, (long long)t.odd,
           (long long)t.known, (long long)t.smaller);
    assert_true(t.refused * 50 <= t.models);
    if (!strict) { /* there is something to know, and to remove */
        assert_true(t.odd * 10 <= t.models);
        assert_true(t.known * 4 >= t.models);
        assert_true(t.smaller * 5 >= t.models);
    }
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

static void test_cases(void **state)
{
    (void)state;
    check_all(false);
}

static void test_strict(void **state)
{
    (void)state;
    check_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_strict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
