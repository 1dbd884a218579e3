/* Every product on every target that fits, in double's eyes: large biases, inputs and weights that have a mean, residuals that take away what was
 * summed up. What it may be off by is twice what a plain product in f32 is off by, which sums up 256 terms at a time and adds bias and residual to whole
 * sums, as onnxruntime does: a kernel whose sums begin with the bias loses the digits of the bias with every term.
 *
 * Generated products are an exception (docs/checking.md): their sums are one run, and so is what they are held to here, 7 times onnxruntime's error with 3000 inputs. This
 * finds bias and residual in the wrong place, not long sums. */
#include "implement_bed.h"

enum { RUN = 256 };
enum { BIAS, MEAN, MEANS, CANCELLING, KINDS };
static const char *const kind_name[KINDS] = {"a large bias", "inputs with a mean",
                                             "inputs and weights with means", "a residual that cancels"};
static long cases;
static bool tried[64]; /* by row of implements.def */

/* ------------------------------------------------------------------ the layer */
typedef struct layer {
    int kind;
    int64_t n, k, tokens;
    int density; /* of 100 weights that are there; blocks of 4 rows, or single ones where they are few */
} layer;

/* What a plain product in f32 makes of it, in runs of so many terms. */
static float peer_at(const bed *b, const layer *l, int64_t run, int64_t t, int64_t n)
{
    const float *x = (const float *)b->in[0].data + t * l->k, *w = (const float *)b->in[1].data + n * l->k;
    float all = 0;
    for (int64_t k0 = 0; k0 < l->k; k0 += run) {
        float sum = 0;
        for (int64_t k = k0; k < SP_MIN(k0 + run, l->k); k++) sum = fmaf(x[k], w[k], sum);
        all += sum;
    }
    all += ((const float *)b->in[2].data)[n];
    return b->n_in > 3 ? all + ((const float *)b->in[3].data)[t * l->n + n] : all;
}

/* The sum in double, without bias and residual. */
static double sum_at(const bed *b, const layer *l, int64_t t, int64_t n)
{
    const float *x = (const float *)b->in[0].data + t * l->k, *w = (const float *)b->in[1].data + n * l->k;
    double sum = 0;
    for (int64_t k = 0; k < l->k; k++) sum += (double)x[k] * w[k];
    return sum;
}

static void move_by(sparta_tensor *t, float by)
{
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++) ((float *)t->data)[i] += by;
}

static void draw_weight(sparta_tensor *w, const layer *l)
{
    const uint64_t seed = sp_rng_next(&rng);
    if (l->kind == MEANS) move_by(w, 3);
    for (int64_t i = 0; i < l->n * l->k; i++) {
        const int64_t at[2] = {i / l->k / (l->density < 5 ? 1 : 4), i % l->k};
        if ((int)(sp_hash(at, sizeof at, seed) % 100) >= l->density) ((float *)w->data)[i] = 0;
    }
}

static bed *bed_of(const layer *l)
{
    bed *b = bed_make();
    sparta_tensor *x = bed_input(b, false, SPARTA_F32, DIMS(1, l->tokens, l->k));
    if (l->kind == MEAN || l->kind == MEANS) move_by(x, 30);
    draw_weight(bed_input(b, true, SPARTA_F32, DIMS(l->n, l->k)), l);
    float *bias = bed_input(b, true, SPARTA_F32, DIMS(l->n))->data;
    for (int64_t n = 0; n < l->n && l->kind == BIAS; n++) bias[n] = (n % 2 ? 1000.f : -1000.f) + bias[n];
    if (l->kind == CANCELLING) {
        float *r = bed_input(b, false, SPARTA_F32, DIMS(1, l->tokens, l->n))->data;
        for (int64_t i = 0; i < l->tokens * l->n; i++)
            r[i] = 1e-3f * r[i] - (float)(sum_at(b, l, i / l->n, i % l->n) + bias[i % l->n]);
    }
    bed_node(b, "sparta::Linear", "transposed=1", DIMS(1, l->tokens, l->n));
    return b;
}

/* ------------------------------------------------------------------ the error */
typedef struct errors {
    double *exact;     /* of every element */
    double allowed[2]; /* [1]: of what is generated, the exception */
} errors;

/* The root of the mean of squares: the largest alone would be chance. */
static double error_of(const bed *b, const double *exact, const float *y)
{
    const int64_t n = sparta_tensor_elements(&b->out);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (y[i] - exact[i]) * (y[i] - exact[i]) / (double)n;
    return sqrt(sum);
}

/* Twice the peer's, and a rounding of the largest sum, which is chance where sums are short. */
static errors errors_of(bed *b, const layer *l)
{
    const int64_t all = l->tokens * l->n, run[] = {RUN, l->k};
    double largest = 0;
    errors e = {.exact = sp_arena_array(b->arena, (size_t)all, sizeof *e.exact)};
    float *peer = sp_arena_array(b->arena, (size_t)all, sizeof *peer);
    assert_true(e.exact && peer);
    for (int64_t i = 0; i < all; i++) {
        const int64_t t = i / l->n, n = i % l->n;
        e.exact[i] = sum_at(b, l, t, n) + (double)((const float *)b->in[2].data)[n];
        largest = fmax(largest, fabs(e.exact[i]));
        if (b->n_in > 3) e.exact[i] += (double)((const float *)b->in[3].data)[i];
    }
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < all; i++) peer[i] = peer_at(b, l, run[k], i / l->n, i % l->n);
        e.allowed[k] = 2 * error_of(b, e.exact, peer) + largest * 0x1p-24;
    }
    return e;
}

/* ------------------------------------------------------------------ every way to run it */
static sp_packed packed_for(const sp_implement *im, const sp_task *t, const sparta_tensor *w)
{
    sp_text text;
    sp_format format;
    sp_packed p;
    sp_text_init(&text, cx);
    sp_implement_print_format(im, t, &text);
    ok(sp_format_parse(cx, sp_text_str(&text), &format));
    sp_text_free(&text);
    ok(sp_store_pack(cx, &format, w, im->sparse ? t->mask : NULL, &p));
    return p;
}

static void try_point(bed *b, const layer *l, const sp_implement *im, const sp_task *t, const errors *e)
{
    char parameters[1000];
    sp_packed packed = packed_for(im, t, &b->in[1]);
    parameters_of(im, t, parameters, sizeof parameters);
    EACH_TARGET(target)
    {
        how h = {.kernel = im->kernel,
                 .packed = &packed,
                 .function = sp_implement_function_name(im, t),
                 .parts = 1};
        if (!entry_of((sp_target)target, im->kernel, parameters, &h.entry)) continue;
        const double error = error_of(b, e->exact, run_kernel(b, &h));
        const double allowed = e->allowed[im == &sp_implement_generated_linear];
        if (!(error <= allowed))
            fail_msg("%s, %s, %s: %s: %ld tokens, %ld inputs, %d %% of the weights: off by %.3g, and twice a "
                     "plain product's error is %.3g",
                     im->name, sp_target_name((sp_target)target), parameters, kind_name[l->kind],
                     (long)l->tokens, (long)l->k, l->density, error, allowed);
        cases++;
    }
    sp_packed_free(cx, &packed);
}

static void try_layer(const layer *l, const char *format)
{
    bed *b = bed_of(l);
    sp_mask mask;
    const errors e = errors_of(b, l);
    sp_task t = task_of(b, &b->in[1], &mask);
    t.tokens = l->tokens;
    t.present = 1;
    ok(sp_implement_ask(cx, format, NULL, SP_TARGET_AVX2, &t));
    t.library = true;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int k = 0; im->kernel && k < sp_implement_points(im); k++)
            if (sp_implement_point(im, k, &t) && sp_implement_matches(im, &t)) {
                try_point(b, l, im, &t, &e);
                tried[i] = true;
            }
    }
    sp_mask_free(cx, &mask);
    bed_free(b);
}

static void products_are_as_exact_as_a_plain_one(void **state)
{
    (void)state;
    static const int64_t inputs[] = {64, 300, 3000}, tokens[] = {1, 4, 25, 105};
    static const int densities[] = {100, 10, 4};
    static const char *const formats[] = {"csr", "csc", "bsr(4)", "bitmap"};
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t k = 0; k < SP_COUNT(inputs); k++)
            for (size_t t = 0; t < SP_COUNT(tokens); t++)
                for (size_t d = 0; d < SP_COUNT(densities); d++) {
                    const layer l = {kind, 200, inputs[k], tokens[t], densities[d]};
                    try_layer(&l, ONE_OF(formats));
                }
}

/* Many inputs, where a chain of the sums of short runs is longer than the runs. */
static void long_sums(void **state)
{
    (void)state;
    static const int64_t tokens[] = {1, 5, 25};
    for (size_t t = 0; t < SP_COUNT(tokens); t++)
        for (int density = 50; density <= 100; density += 50)
            try_layer(&(layer){MEANS, 48, 8192, tokens[t], density}, "csr");
}

/* Last: a product that nobody tried is a hole in this file. */
static void every_product_was_tried(void **state)
{
    (void)state;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        /* the sums of a user's are his own */
        if (!im->kernel || !im->format || im == &sp_implement_user || im == &sp_implement_user_function)
            continue;
        if (!tried[i]) fail_msg("%s was not tried", im->name);
    }
    print_message("implement_accuracy_test: %ld cases\n", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_as_exact_as_a_plain_one),
                                       cmocka_unit_test(long_sums),
                                       cmocka_unit_test(every_product_was_tried)};
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
