/* emit: the functions of words.h against double precision, on every target that runs here: the errors that words.h states hold for a million floats
 * of all magnitudes, and for those that are special. */
#include "unit/emit_bed.h"
#include <float.h>

enum { STEP = 4093, ALL = (int)((1ull << 32) / STEP) }; /* every STEP-th float: a prime */

typedef struct stated {
    const char *word;
    double (*exact)(double);
    double relative, absolute; /* the error is at most the larger */
    double low, high;          /* where that is stated; NaN stays NaN everywhere */
} stated;

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}
static double softplus_of(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double rsqrt_of(double x)
{
    return 1 / sqrt(x);
}
static double gelu_of(double x)
{
    return x / 2 * erfc(-x / sqrt(2));
}

static const stated words[] = {
    {"exp", exp, 2e-7, 0, -INFINITY, INFINITY},
    {"expm1", expm1, 4e-7, 0, -INFINITY, INFINITY},
    {"log", log, 2e-7, 0, -INFINITY, INFINITY},
    {"rsqrt", rsqrt_of, 1.2e-7, 0, -INFINITY, INFINITY},
    {"tanh", tanh, 5e-7, 0, -INFINITY, INFINITY},
    {"erf", erf, 5e-7, 0, -INFINITY, INFINITY},
    {"sigmoid", sigmoid_of, 5e-7, 2e-35, -INFINITY, INFINITY},
    {"softplus", softplus_of, 5e-7, 0, -INFINITY, INFINITY},
    {"sin", sin, 0, 2e-7, -0x1p30, 0x1p30},
    {"cos", cos, 0, 2e-7, -0x1p30, 0x1p30},
    {"gelu", gelu_of, 2.5e-7, 2.5e-7, -0x1p30, 0x1p30},
};

static const float special[] = {0.f,     -0.f,     1.f,     -1.f,     INFINITY,    -INFINITY,   NAN,
                                FLT_MIN, -FLT_MIN, FLT_MAX, -FLT_MAX, 1.4e-45f,    -1.4e-45f,   0.2f,
                                0.5f,    0.35f,    88.72f,  88.73f,   88.8f,       -87.3f,      -103.9f,
                                -104.f,  80.f,     -80.f,   10.f,     0.70710678f, 1.41421356f, 1.0000001f};

/* Subnormal results may be off by a step of theirs. */
static double allowed(const stated *w, double x, double want)
{
    const double scale = strcmp(w->word, "gelu") ? 1 : fmax(1, fabs(x));
    return fmax(fmax(w->relative * fabs(want), w->absolute * scale), 3e-45);
}

static void check_word(const stated *w, const sp_nest *n, kernel_fn fn, sparta_tensor tensor[2], sp_target t)
{
    double worst = 0;
    const float *x = tensor[0].data, *y = tensor[1].data;
    run_nest(n, fn, tensor, 1);
    for (int i = 0; i < tensor[0].dim[0]; i++) {
        const double at = x[i], got = y[i], want = w->exact(at);
        if (at < w->low || at > w->high) continue;
        if (want != want ? got != got : got == want) continue;
        if (fabs(want) > 3.40e38 && fabs(got) > 3.39e38) continue; /* infinity a little early, or late */
        if (!strcmp(w->word, "tanh") && (fabs(got) > 1 || (fabs(at) >= 9 && fabs(got) != 1)))
            fail_msg("%s, tanh(%.9g): %.9g is not 1, or beyond it", sp_target_name(t), at, got);
        const double off = fabs(got - want) / allowed(w, at, want);
        if (!(off <= 1))
            fail_msg("%s, %s(%.9g): %.9g in place of %.9g", sp_target_name(t), w->word, at, got, want);
        worst = fmax(worst, off);
    }
    print_message("%s %s: at most %.2f of the error that is stated\n", sp_target_name(t), w->word, worst);
}

static void errors_are_as_stated(void **state)
{
    (void)state;
    static sp_nest nests[SP_COUNT(words)];
    const int64_t count = ALL + (int64_t)SP_COUNT(special);
    sp_target target[SP_CPU_TARGETS];
    sparta_tensor tensor[2] = {{.dtype = SPARTA_F32, .rank = 1, .dim = {count}, .stride = {1}}};
    float *x = calloc((size_t)count, sizeof *x);
    for (uint32_t i = 0; i < ALL; i++) {
        const uint32_t bits = i * STEP;
        memcpy(&x[i], &bits, sizeof bits);
    }
    memcpy(x + ALL, special, sizeof special);
    tensor[1] = tensor[0];
    tensor[0].data = x;
    tensor[1].data = calloc((size_t)count, sizeof *x);
    for (size_t i = 0; i < SP_COUNT(words); i++) {
        char text[128];
        snprintf(text, sizeof text, "i*; x0: f32[i]; y0: f32[i]; y0 = %s(x0)", words[i].word);
        must(sp_nest_parse(cx, text, &nests[i]), text);
    }
    for (int t = 0, n = targets(target); t < n; t++) {
        const sp_object *o = compile_nests(nests, SP_COUNT(words), target[t]);
        for (int i = 0; i < (int)SP_COUNT(words); i++)
            check_word(&words[i], &nests[i], symbol_of(o, i), tensor, target[t]);
        sp_jit_close(o);
    }
    free(x);
    free(tensor[1].data);
}

/* a^b: relative error 3e-7 + 1.5e-7 |b ln a|, and what C says of zeros, infinities, NaN and whole exponents of negative numbers. */
static void powers_are_as_stated(void **state)
{
    (void)state;
    static const float bases[] = {0.f,   -0.f,   1.f,   -1.f,     2.f,       -2.f, 0.3f,
                                  -0.3f, 1e-20f, 1e20f, INFINITY, -INFINITY, NAN},
                       exponents[] = {0.f,  -0.f,  1.f, -1.f,     2.f,       3.f, -3.f,
                                      0.5f, -2.5f, 7.f, INFINITY, -INFINITY, NAN};
    enum { SPECIAL = (int)(SP_COUNT(bases) * SP_COUNT(exponents)), MORE = 100000, COUNT = SPECIAL + MORE };
    static float a[COUNT], b[COUNT], y[COUNT];
    sp_nest nest;
    sp_target target[SP_CPU_TARGETS];
    for (int i = 0; i < COUNT; i++) {
        a[i] = i < SPECIAL ? bases[i % (int)SP_COUNT(bases)] : (float)exp(uniform(-20, 20));
        b[i] = i < SPECIAL ? exponents[i / (int)SP_COUNT(bases)] : (float)uniform(-4, 4);
    }
    sparta_tensor tensor[3] = {{.dtype = SPARTA_F32, .rank = 1, .dim = {COUNT}, .stride = {1}}};
    tensor[2] = tensor[1] = tensor[0];
    tensor[0].data = a, tensor[1].data = b, tensor[2].data = y;
    must(sp_nest_parse(cx, "i*; x0: f32[i]; x1: f32[i]; y0: f32[i]; y0 = pow(x0,x1)", &nest), "pow");
    for (int t = 0, n = targets(target); t < n; t++) {
        const sp_object *o = compile_nests(&nest, 1, target[t]);
        run_nest(&nest, symbol_of(o, 0), tensor, 1);
        for (int i = 0; i < COUNT; i++) {
            const double want = pow(a[i], b[i]), size = fabs(b[i] * log(fabs(a[i])));
            const double allowed = fabs(want) * (3e-7 + 1.5e-7 * (isfinite(size) ? size : 0));
            if (y[i] == want || (want != want && y[i] != y[i]) || fabs(y[i] - want) <= fmax(allowed, 3e-45))
                continue;
            if (fabs(want) > 3.40e38 && fabs(y[i]) > 3.39e38 && (y[i] > 0) == (want > 0)) continue;
            fail_msg("%s, pow(%.9g, %.9g): %.9g in place of %.9g", sp_target_name(target[t]), a[i], b[i],
                     y[i], want);
        }
        sp_jit_close(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_as_stated),
        cmocka_unit_test(powers_are_as_stated),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
