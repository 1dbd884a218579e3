/* The functions of vector.h against the exact ones in double, on every target that fits: a dense grid, zeros of both signs, denormals,
 * infinities and NaN. */
#include "implement_bed.h"

static double exact_gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}
static double exact_gelu_tanh(double x)
{
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double exact_relu(double x)
{
    return x < 0 ? 0 : x;
}

static double exact_silu(double x)
{
    return x * exact_sigmoid(x);
}
static double exact_quick_gelu(double x)
{
    return x * exact_sigmoid(1.702 * x);
}

/* Probes: y[i] = f(x[i]) for n vectors of 16, made from the words of vector.h. */
struct probe_args {
    const float *x;
    float *y;
    long n;
};
static const char probe_text[] =
    "struct probe_args { const float *x; float *y; long n; };\n"
    "#define PROBE(name, f) KERNEL void name(const void *args) { const struct probe_args *a = args;"
    " for (long i = 0; i < a->n * SPLIT; i++) store(a->y + LANES * i, f(load(a->x + LANES * i))); }\n"
    "PROBE(probe_exp2, exp2v) PROBE(probe_exp2_down, exp2_down) PROBE(probe_gelu, gelu) PROBE(probe_tanh, "
    "tanhv)\n"
    "PROBE(probe_gelu_tanh, gelu_tanh) PROBE(probe_sigmoid, sigmoid)\n"
    "INLINE vec probe_silu_of(vec x) { return word_silu(x); } PROBE(probe_silu, probe_silu_of)\n"
    "INLINE vec probe_quick_of(vec x) { return word_quick_gelu(x); } PROBE(probe_quick, probe_quick_of)\n"
    "INLINE vec probe_relu_of(vec x) { return word_relu(x); } PROBE(probe_relu, "
    "probe_relu_of)\n";

/* The probes of a target; portable means the same text compiled without its flags. NULL: no compiler. */
static const sp_object *probes(sp_target target)
{
    sp_text text;
    sp_text_init(&text, cx);
    ok(sp_implement_text("map", "", target, &text));
    sp_text_printf(&text, "%s", probe_text);
    ok(text.status);
    const sp_object *o = load_text(target, sp_text_str(&text));
    sp_text_free(&text);
    return o;
}

/* -range to range in equal steps, then the odd ones, many decades of both signs. */
static float *grid(double range, int64_t *n)
{
    const int64_t steps = 400000 / FEWER, decades = 20000;
    static const float odd[] = {
        0.f,  -0.f,  1e-45f, -1e-45f, 1e-39f, -1e-39f, 1.17549435e-38f, -1.17549435e-38f,
        88.f, -88.f, 89.f,   -89.f,   1e4f,   -1e4f,   3.4e38f,         -3.4e38f};
    *n = (steps + 2 * decades + 16 + 15) / 16 * 16;
    float *x = sp_alloc_array(cx, (size_t)*n, sizeof *x);
    assert_non_null(x);
    int64_t at = 0;
    for (int64_t i = 0; i < steps; i++) x[at++] = (float)(range * (2. * (double)i / (double)(steps - 1) - 1));
    for (int64_t i = 0; i < decades; i++) {
        const float f = (float)(range * pow(10, -40. * (double)i / (double)decades));
        x[at++] = f;
        x[at++] = -f;
    }
    memcpy(x + at, odd, sizeof odd);
    for (int64_t i = 0; range < 0 && i < *n; i++) x[i] = -fabsf(x[i]);
    return x;
}

typedef struct measure {
    const char *symbol;
    double (*exact)(double);
    double range;                     /* negative: below 0 only */
    double relative, absolute, slope; /* error <= relative |f(x)| + absolute max(1, |x|) + slope |x f(x)| */
} measure;

static void measure_one(const sp_object *o, const measure *m, const char *target)
{
    int64_t n;
    float *x = grid(m->range, &n), *y = sp_alloc_array(cx, (size_t)n, sizeof *y);
    double worst = 0, where = 0;
    sp_entry f = (sp_entry)(uintptr_t)sp_jit_symbol(o, m->symbol);
    assert_non_null(f);
    f(&(struct probe_args){x, y, (long)(n / 16)});
    for (int64_t i = 0; i < n; i++) {
        const double e = m->exact(x[i]);
        const double bound = m->relative * fabs(e) + m->absolute * fmax(1, fabs(x[i])) +
                             m->slope * fabs(x[i] * e) + 1.2e-38; /* denormals may go */
        const double off = y[i] == (float)e ? 0 : fabs(y[i] - e) / bound;
        if (!(off <= worst)) worst = off, where = x[i];
    }
    if (!(worst <= 1)) {
        float one[16] __attribute__((aligned(64))) = {(float)where}, got[16] __attribute__((aligned(64)));
        f(&(struct probe_args){one, got, 1});
        fail_msg("%s on %s: %.9g at %.9g, should be %.9g (%.2f times the bound)", m->symbol, target,
                 (double)got[0], where, m->exact(where), worst);
    }
    sp_free(cx, x);
    sp_free(cx, y);
}

static const measure measures[] = {
    {"probe_relu", exact_relu, 20, 0, 0, 0},
    {"probe_gelu", exact_gelu, 20, 0, 2.5e-7, 0},
    {"probe_gelu_tanh", exact_gelu_tanh, 20, 4e-7, 2e-7, 0},
    {"probe_tanh", tanh, 20, 4e-7, 0, 0},
    {"probe_sigmoid", exact_sigmoid, 20, 3e-7, 0,
     7e-8}, /* the rounding of -x log2(e) shows where the answer is tiny */
    {"probe_silu", exact_silu, 20, 4e-7, 2e-7, 0},
    {"probe_quick", exact_quick_gelu, 20, 4e-7, 2e-7, 0},
    {"probe_exp2", exp2, 126, 4e-7, 0, 0},
    {"probe_exp2_down", exp2, -126, 4e-7, 0,
     0}, /* a degree less: for probabilities, whose scores were rounded before */
};

static void functions_are_as_exact_as_they_say(void **state)
{
    (void)state;
    for (int t = SP_CPU_TARGETS - 1; t >= 0; t--) {
        if (!sp_target_fits((sp_target)t)) continue;
        const sp_object *o = probes((sp_target)t);
        if (!o) skip();
        for (size_t i = 0; i < SP_COUNT(measures); i++)
            measure_one(o, &measures[i], sp_target_name((sp_target)t));
        sp_jit_close(o);
    }
}

/* One vector through a probe: the answer of its first lane, which must be that of every lane. */
static float probe(const sp_object *o, const char *symbol, float x)
{
    float in[16] __attribute__((aligned(64))), out[16] __attribute__((aligned(64)));
    for (int i = 0; i < 16; i++) in[i] = x;
    sp_entry f = (sp_entry)(uintptr_t)sp_jit_symbol(o, symbol);
    assert_non_null(f);
    f(&(struct probe_args){in, out, 1});
    for (int i = 1; i < 16; i++) assert_memory_equal(&out[i], &out[0], 4);
    return out[0];
}

static void ends(const sp_object *o)
{
    static const struct {
        const char *symbol;
        float x, y;
    } table[] = {
        {"probe_relu", INFINITY, INFINITY},
        {"probe_relu", -INFINITY, 0},
        {"probe_relu", -0.f, 0},
        {"probe_gelu", INFINITY, INFINITY},
        {"probe_gelu", 3e38f, 3e38f},
        {"probe_gelu", -3e38f, 0},
        {"probe_gelu", 1e4f, 1e4f},
        {"probe_gelu", -1e4f, 0},
        {"probe_gelu", -7, 0},
        {"probe_gelu_tanh", INFINITY, INFINITY},
        {"probe_gelu_tanh", 3e38f, 3e38f},
        {"probe_gelu_tanh", -3e38f, 0},
        {"probe_tanh", INFINITY, 1},
        {"probe_tanh", -INFINITY, -1},
        {"probe_tanh", 3e38f, 1},
        {"probe_tanh", -0.f, 0},
        {"probe_sigmoid", INFINITY, 1},
        {"probe_sigmoid", -INFINITY, 0},
        {"probe_sigmoid", 0, .5f},
        {"probe_sigmoid", -3e38f, 0},
        {"probe_silu", INFINITY, INFINITY},
        {"probe_silu", 3e38f, 3e38f},
        {"probe_silu", -3e38f, 0},
        {"probe_quick", INFINITY, INFINITY},
        {"probe_exp2", INFINITY, INFINITY},
        {"probe_exp2", -INFINITY, 0},
        {"probe_exp2", 128, INFINITY},
        {"probe_exp2", -127, 0},
        {"probe_exp2", 0, 1},
        {"probe_exp2", -126, 0x1p-126f},
        {"probe_exp2", 127, 0x1p127f},
        {"probe_exp2_down", 0, 1},
        {"probe_exp2_down", -INFINITY, 0},
        {"probe_exp2_down", -3e38f, 0},
        {"probe_exp2_down", -126, 0x1p-126f},
        {"probe_exp2_down", -200, 0},
    };
    for (size_t i = 0; i < SP_COUNT(table); i++) {
        const float y = probe(o, table[i].symbol, table[i].x);
        if (y != table[i].y)
            fail_msg("%s of %g is %.9g, should be %.9g", table[i].symbol, (double)table[i].x, (double)y,
                     (double)table[i].y);
    }
    for (size_t i = 0; i < SP_COUNT(measures); i++)
        if (!isnan(probe(o, measures[i].symbol, NAN)) || !isnan(probe(o, measures[i].symbol, -NAN)))
            fail_msg("%s loses a NaN", measures[i].symbol);
}

static void infinities_and_nan_follow_ieee(void **state)
{
    (void)state;
    for (int t = SP_CPU_TARGETS - 1; t >= 0; t--) {
        if (!sp_target_fits((sp_target)t)) continue;
        const sp_object *o = probes((sp_target)t);
        if (!o) skip();
        ends(o);
        sp_jit_close(o);
    }
}

/* The kernel in the library itself, compiled with the library's flags: every operator of map on the odd numbers, in all lanes. */
static void the_library_agrees(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attrs;
        double (*exact)(double);
    } ops[] = {{"Relu", "", exact_relu},
               {"Tanh", "", tanh},
               {"Sigmoid", "", exact_sigmoid},
               {"Gelu", "", exact_gelu},
               {"Gelu", "approximate=\"tanh\"", exact_gelu_tanh},
               {"Swish", "", exact_silu},
               {"Swish", "alpha=1.702", exact_quick_gelu}};
    for (size_t op = 0; op < SP_COUNT(ops); op++) {
        int64_t n;
        float *x = grid(20, &n);
        bed *b = bed_make();
        float *in = bed_input(b, false, SPARTA_F32, DIMS(n / 16, 16))->data;
        memcpy(in, x, (size_t)n * sizeof *x);
        in[5] = NAN, in[17] = INFINITY;
        bed_node(b, ops[op].op, ops[op].attrs, DIMS(n / 16, 16));
        const float *y = run_kernel(b, &(how){.kernel = "map", .parts = 1});
        for (int64_t i = 0; i < n; i++) {
            const double e = ops[op].exact(in[i]);
            if (!(fabs(y[i] - e) <= 2e-7 * fmin(fmax(1, fabs(in[i])), 20) + 4e-7 * fabs(e)) &&
                !(isnan(e) && isnan(y[i])) && y[i] != (float)e)
                fail_msg("%s %s of %.9g is %.9g, should be %.9g", ops[op].op, ops[op].attrs, (double)in[i],
                         (double)y[i], e);
        }
        assert_true(isnan(y[5]));
        bed_free(b);
        sp_free(cx, x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_as_exact_as_they_say),
        cmocka_unit_test(infinities_and_nan_follow_ieee),
        cmocka_unit_test(the_library_agrees),
    };
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
