/* What the tests of room emit share: a nest run index by index in double precision, which knows nothing of phases, lanes or lines, and one run
 * as code, which is under the sanitizers of the test. */
#ifndef EMIT_BED_H
#define EMIT_BED_H

#include "code_bed.h"
#include "emit/emit.h"
#include "jit/jit.h"
#include <math.h>

/* ------------------------------------------------------------------ index by index */
typedef struct walk {
    const sp_nest *n;
    const sparta_tensor *tensor;
    int64_t index[SP_NEST_LOOPS], size[SP_NEST_LOOPS];
    int64_t inner;                     /* indices of all inner loops */
    double *value[SP_NEST_STATEMENTS]; /* one for each of them */
} walk;

static int64_t place_of(const walk *w, int operand)
{
    const sp_nest_operand *o = &w->n->operand[operand];
    int64_t at = 0;
    for (int i = 0; i < o->rank; i++) {
        int64_t index = o->axis[i].plus;
        for (int k = 0; k < o->axis[i].n; k++)
            index += o->axis[i].term[k].times * w->index[o->axis[i].term[k].loop];
        assert_true(index >= 0 && index < w->tensor[operand].dim[i]);
        at += index * w->tensor[operand].stride[i];
    }
    return at;
}

static double round_to(sparta_dtype d, double v)
{
    double slot = 0; /* 8 bytes for any element */
    if (d == SPARTA_F64) return v;
    if (d == SPARTA_BOOL) return v != 0;
    if (sp_dtype_is_float(d)) {
        sp_element_set(d, &slot, 0, v);
        return sp_element_get(d, &slot, 0);
    }
    sp_element_set_int(d, &slot, 0, (int64_t)v);
    return (double)sp_element_get_int(d, &slot, 0);
}

static double wrap(sparta_dtype d, int64_t v)
{
    double slot = 0;
    sp_element_set_int(d, &slot, 0, v);
    return (double)sp_element_get_int(d, &slot, 0);
}

static double compute(int word, sparta_dtype d, const double *a)
{
    const bool whole = !sp_dtype_is_float(d);
    const bool exact = whole && word != SP_NEST_steps; /* of whole numbers */
    const int64_t i = exact ? (int64_t)a[0] : 0, j = exact ? (int64_t)a[1] : 0;
    switch (word) {
    case SP_NEST_copy: return a[0];
    case SP_NEST_cast:
        return whole && d != SPARTA_BOOL && !(fabs(a[0]) < 0x1p63) ? round_to(d, -0x1p63) : round_to(d, a[0]);
    case SP_NEST_add: return whole ? wrap(d, (int64_t)((uint64_t)i + (uint64_t)j)) : a[0] + a[1];
    case SP_NEST_sub: return whole ? wrap(d, (int64_t)((uint64_t)i - (uint64_t)j)) : a[0] - a[1];
    case SP_NEST_mul: return whole ? wrap(d, (int64_t)((uint64_t)i * (uint64_t)j)) : a[0] * a[1];
    case SP_NEST_div: return a[0] / a[1];
    case SP_NEST_min: return a[0] != a[0] || a[0] < a[1] ? a[0] : a[1];
    case SP_NEST_max: return a[0] != a[0] || a[0] > a[1] ? a[0] : a[1];
    case SP_NEST_neg: return whole ? wrap(d, (int64_t)(0 - (uint64_t)i)) : -a[0];
    case SP_NEST_abs: return whole ? wrap(d, (int64_t)(i < 0 ? 0 - (uint64_t)i : (uint64_t)i)) : fabs(a[0]);
    case SP_NEST_sign: return a[0] != a[0] ? a[0] : (a[0] > 0) - (a[0] < 0);
    case SP_NEST_relu: return a[0] < 0 ? 0 : a[0];
    case SP_NEST_equal: return a[0] == a[1];
    case SP_NEST_less: return a[0] < a[1];
    case SP_NEST_less_equal: return a[0] <= a[1];
    case SP_NEST_is_nan: return isnan(a[0]);
    case SP_NEST_is_inf: return isinf(a[0]) != 0;
    case SP_NEST_and: return a[0] && a[1];
    case SP_NEST_or: return a[0] || a[1];
    case SP_NEST_xor: return !a[0] != !a[1];
    case SP_NEST_not: return !a[0];
    case SP_NEST_where: return a[0] ? a[1] : a[2];
    case SP_NEST_sqrt: return sqrt(a[0]);
    case SP_NEST_rsqrt: return 1 / sqrt(a[0]);
    case SP_NEST_reciprocal: return 1 / a[0];
    case SP_NEST_floor: return floor(a[0]);
    case SP_NEST_ceil: return ceil(a[0]);
    case SP_NEST_round: return nearbyint(a[0]);
    case SP_NEST_steps: {
        const double q = nearbyint((double)(float)(a[0] / a[1]));
        return !(q > a[2]) ? a[2] : q < a[3] ? q : a[3];
    }
    case SP_NEST_exp: return exp(a[0]);
    case SP_NEST_expm1: return expm1(a[0]);
    case SP_NEST_log: return log(a[0]);
    case SP_NEST_sin: return sin(a[0]);
    case SP_NEST_cos: return cos(a[0]);
    case SP_NEST_tanh: return tanh(a[0]);
    case SP_NEST_erf: return erf(a[0]);
    case SP_NEST_sigmoid: return 1 / (1 + exp(-a[0]));
    case SP_NEST_softplus: return a[0] > 0 ? a[0] + log1p(exp(-a[0])) : log1p(exp(a[0]));
    case SP_NEST_gelu: return a[0] / 2 * (1 + erf(a[0] / sqrt(2)));
    case SP_NEST_gelu_tanh:
        return a[0] / 2 * (1 + tanh(sqrt(2 / M_PI) * (a[0] + 0.044715 * a[0] * a[0] * a[0])));
    case SP_NEST_pow: return pow(a[0], a[1]);
    }
    fail_msg("word %s", sp_nest_word_row(word)->name);
    return 0;
}

static double argument(const walk *w, const sp_nest_arg *a, int64_t at)
{
    if (a->kind == SP_ARG_NUMBER) return (double)(float)a->number;
    if (a->kind == SP_ARG_STATEMENT) return w->value[a->at][at];
    const sparta_tensor *t = &w->tensor[a->at];
    if (sp_dtype_is_float(t->dtype)) return sp_element_get(t->dtype, t->data, place_of(w, a->at));
    return (double)sp_element_get_int(t->dtype, t->data, place_of(w, a->at));
}

/* The indices of inner position `at`. */
static void inner_index(walk *w, int64_t at)
{
    for (int l = w->n->loops; l-- > 0 && w->n->loop[l].inner; at /= w->size[l]) w->index[l] = at % w->size[l];
}

static void walk_statement(walk *w, int at)
{
    const sp_nest_statement *s = &w->n->statement[at];
    const int64_t inner = SP_MAX(w->inner, 1);
    double a[SP_NEST_ARGS] = {0}, sum = s->word == SP_NEST_prod       ? 1
                                        : s->word == SP_NEST_smallest ? (s->dtype == SPARTA_I32   ? INT32_MAX
                                                                         : s->dtype == SPARTA_I64 ? 0x1p63
                                                                                                  : INFINITY)
                                        : s->word == SP_NEST_largest  ? (s->dtype == SPARTA_I32   ? INT32_MIN
                                                                         : s->dtype == SPARTA_I64 ? -0x1p63
                                                                                                  : -INFINITY)
                                                                      : 0;
    for (int64_t i = 0; i < (sp_nest_reduces(s) ? w->inner : inner); i++) {
        if (w->inner) inner_index(w, i);
        if (!w->inner && s->inner) break;
        for (int k = 0; k < s->n; k++) a[k] = argument(w, &s->arg[k], i);
        if (!sp_nest_reduces(s))
            w->value[at][i] = compute(s->word, s->dtype, a);
        else if (s->word == SP_NEST_smallest || s->word == SP_NEST_largest)
            sum = compute(s->word == SP_NEST_smallest ? SP_NEST_min : SP_NEST_max, s->dtype,
                          (double[]){sum, a[0]});
        else
            sum =
                compute(s->word == SP_NEST_prod ? SP_NEST_mul : SP_NEST_add, s->dtype, (double[]){sum, a[0]});
    }
    if (sp_nest_reduces(s))
        for (int64_t i = 0; i < inner; i++)
            w->value[at][i] = s->word == SP_NEST_mean ? sum / (double)w->inner : sum;
    if (s->stores < 0) return;
    const sparta_tensor *y = &w->tensor[s->stores];
    const bool each = sp_nest_inner(w->n, &w->n->operand[s->stores]);
    for (int64_t i = 0; i < (each ? w->inner : 1); i++) {
        if (w->inner) inner_index(w, i);
        if (sp_dtype_is_float(y->dtype))
            sp_element_set(y->dtype, y->data, place_of(w, s->stores), w->value[at][i]);
        else
            sp_element_set_int(y->dtype, y->data, place_of(w, s->stores),
                               w->value[at][i] >= 0x1p63 ? INT64_MAX : (int64_t)w->value[at][i]);
    }
}

static void walk_loops(walk *w, int loop)
{
    if (loop == w->n->loops || w->n->loop[loop].inner) {
        for (int i = 0; i < w->n->statements; i++) walk_statement(w, i);
        return;
    }
    for (w->index[loop] = 0; w->index[loop] < w->size[loop]; w->index[loop]++) walk_loops(w, loop + 1);
}

/* What a nest computes, into the outputs. */
static __attribute__((unused)) void walk_nest(const sp_nest *n, const sparta_tensor *tensor)
{
    walk w = {.n = n, .tensor = tensor, .inner = 1};
    const int inputs = sp_nest_inputs(n);
    for (int l = 0; l < n->loops; l++) {
        w.size[l] = n->loop[l].size;
        for (int k = 0; k < n->operands && w.size[l] < 0; k++) {
            const int at = (k + inputs) % n->operands;
            const sp_nest_operand *o = &n->operand[at];
            for (int i = 0; i < o->rank && w.size[l] < 0; i++)
                if (o->axis[i].n == 1 && o->axis[i].term[0].loop == l && o->axis[i].term[0].times == 1 &&
                    !o->axis[i].plus)
                    w.size[l] = tensor[at].dim[i];
        }
        if (n->loop[l].inner) w.inner *= w.size[l];
    }
    for (int i = 0; i < n->statements; i++) w.value[i] = calloc((size_t)SP_MAX(w.inner, 1), sizeof(double));
    walk_loops(&w, 0);
    for (int i = 0; i < n->statements; i++) free(w.value[i]);
}

/* ------------------------------------------------------------------ as code */
typedef void (*kernel_fn)(const void *args);

/* Runs a kernel in `parts` parts, one after the other. */
static void run_nest(const sp_nest *n, kernel_fn fn, const sparta_tensor *tensor, int parts)
{
    sp_nest_bound b;
    void *data[SP_NEST_OPERANDS];
    must(sp_nest_bind(cx, n, tensor, &b), "bind");
    for (int i = 0; i < n->operands; i++) data[i] = tensor[i].data;
    enum { BEHIND = 1 << 16 }; /* bytes that stay as they are */
    const size_t scratch = sp_nest_scratch(n, &b);
    unsigned char *work = aligned_alloc(64, (scratch + BEHIND + 63) / 64 * 64);
    memset(work + scratch, 0xc5, BEHIND);
    for (int part = 0; part < parts; part++) {
        struct sp_nest_args a;
        if (sp_nest_cut(n, &b, data, part, parts, work, &a)) fn(&a);
    }
    for (int i = 0; i < BEHIND; i++)
        if (work[scratch + i] != 0xc5) fail_msg("it writes %d bytes behind its scratch of %zu", i, scratch);
    free(work);
}

/* Several nests in one object, by symbols k0, k1, ...: the compiler's start is most of its time. */
static __attribute__((unused)) const sp_object *compile_nests(const sp_nest *n, int count, sp_target target)
{
    sp_text text;
    const sp_object *object;
    sp_text_init(&text, cx);
    must(sp_emit_head(target, &text), "head");
    for (int i = 0; i < count; i++) {
        char symbol[16];
        snprintf(symbol, sizeof symbol, "k%d", i);
        sp_emit_function(&n[i], symbol, &text);
    }
    if (getenv("EMIT_SHOW"))
        fprintf(stderr, "%s\n",
                strstr(sp_text_str(&text), "#endif\n/* ") ? strstr(sp_text_str(&text), "#endif\n/* ") : "");
    must(sp_jit_get(cx, target, sp_text_str(&text), &object, NULL), "compile");
    sp_text_free(&text);
    return object;
}
static kernel_fn symbol_of(const sp_object *o, int i)
{
    char symbol[16];
    snprintf(symbol, sizeof symbol, "k%d", i);
    kernel_fn fn = (kernel_fn)sp_jit_symbol(o, symbol);
    assert_non_null(fn);
    return fn;
}

/* Targets that this CPU runs, compiled by texts: the portable text too, which the library never compiles. */
static int targets(sp_target out[SP_CPU_TARGETS])
{
    int n = 0;
    for (int t = 0; t < SP_CPU_TARGETS; t++)
        if (sp_target_fits((sp_target)t)) out[n++] = (sp_target)t;
    return n;
}

/* ------------------------------------------------------------------ tensors for a nest */
static uint64_t seed_state = 15;
static double uniform(double low, double high)
{
    sp_rng r = {seed_state};
    const double v = low + (high - low) * sp_rng_uniform(&r);
    seed_state = r.state;
    return v;
}
static int below(int n)
{
    return (int)uniform(0, n);
}

/* Operands as large as accesses ask for when loops have these sizes; `spare` elements more between rows (lanes: rows of 64). */
static __attribute__((unused)) void make_tensors(const sp_nest *n, const int64_t *size, int64_t spare,
                                                 sparta_tensor *out)
{
    for (int i = 0; i < n->operands; i++) {
        const sp_nest_operand *o = &n->operand[i];
        sparta_tensor *t = &out[i];
        *t = (sparta_tensor){.dtype = o->dtype, .rank = o->rank};
        int64_t stride = 1;
        for (int k = o->rank; k-- > 0;) {
            int64_t most = o->axis[k].plus;
            bool empty = false;
            for (int j = 0; j < o->axis[k].n; j++) {
                const sp_nest_term *x = &o->axis[k].term[j];
                empty |= !size[x->loop];
                most += SP_MAX(0, x->times * (size[x->loop] - 1));
            }
            t->dim[k] = empty ? 0 : most + 1;
            t->stride[k] = stride;
            stride *= SP_MAX(1, t->dim[k]) + (k == o->rank - 1 ? spare : 0);
        }
        if (o->lanes) {
            t->stride[0] = 1;
            t->stride[1] = 64;
            stride = 64 * SP_MAX(1, t->dim[1]);
        }
        t->data = aligned_alloc(64, (size_t)(stride * 8 + 127) / 64 * 64);
        memset(t->data, 0x55, (size_t)stride * 8);
        for (int64_t k = 0; k < stride; k++)
            if (sp_dtype_is_float(o->dtype))
                sp_element_set(o->dtype, t->data, k, o->out ? 77 : uniform(-4, 4));
            else
                sp_element_set_int(o->dtype, t->data, k,
                                   o->out ? 77
                                   : o->dtype == SPARTA_BOOL
                                       ? below(2)
                                       : below(200) - (sp_dtype_is_signed(o->dtype) ? 100 : 0));
    }
}
static __attribute__((unused)) void free_tensors(const sp_nest *n, sparta_tensor *t)
{
    for (int i = 0; i < n->operands; i++) free(t[i].data);
}

/* Every element of the view, and what lies between its rows, of two outputs that began alike. */
static __attribute__((unused)) void compare(const char *what, const sp_nest *n, const sparta_tensor *got,
                                            const sparta_tensor *want, double tolerance)
{
    double inputs = 0;
    for (int i = 0; i < sp_nest_inputs(n); i++) inputs = 4;
    for (int i = sp_nest_inputs(n); i < n->operands; i++) {
        int64_t all = 1, tokens = 64;
        double largest = 0;
        for (int k = 0; k < got[i].rank; k++) all = SP_MAX(all, got[i].dim[k] * got[i].stride[k]);
        if (n->operand[i].lanes) tokens = got[i].dim[0];
        for (int64_t k = 0; k < all; k++) {
            const double b = sp_element_get(want[i].dtype, want[i].data, k);
            if (isfinite(b)) largest = fmax(largest, fabs(b));
        }
        const double rounding = n->operand[i].dtype == SPARTA_F16    ? 2e-3
                                : n->operand[i].dtype == SPARTA_BF16 ? 1e-2
                                                                     : tolerance;
        const double allowed =
            sp_dtype_is_float(n->operand[i].dtype) ? rounding * largest + 1e-6 * inputs : 0;
        for (int64_t k = 0; k < all; k++) {
            if (k % 64 >= tokens) continue; /* lanes past the last token hold anything */
            const double a = sp_element_get(got[i].dtype, got[i].data, k),
                         b = sp_element_get(want[i].dtype, want[i].data, k);
            if (a == b || (a != a && b != b) || fabs(a - b) <= allowed) continue;
            fail_msg("%s: output %d, element %d: %.9g in place of %.9g (of %g)", what, i, (int)k, a, b,
                     largest);
        }
    }
}

/* A nest at one list of sizes: as code, in several shares, against the walk. */
static __attribute__((unused)) void check_nest(const char *what, const sp_nest *n, kernel_fn fn,
                                               const int64_t *size, int64_t spare, double tolerance)
{
    sparta_tensor got[SP_NEST_OPERANDS], want[SP_NEST_OPERANDS];
    const uint64_t seed = seed_state;
    make_tensors(n, size, spare, got);
    seed_state = seed;
    make_tensors(n, size, spare, want);
    run_nest(n, fn, got, 1 + below(4));
    walk_nest(n, want);
    compare(what, n, got, want, tolerance);
    free_tensors(n, got);
    free_tensors(n, want);
}

#endif
