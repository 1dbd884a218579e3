/* Every row of implements.def on every target that fits, against the reference: patterns of zeros, ragged sizes, numbers of tokens and
 * epilogues, thousands of them drawn from one seed. Attention has a file of its own, and so has what is generated. (Slow: make test only.) */
#include "implement_bed.h"
#include "implement/generated.h"
#include "panel/library.h"

static int ran[32][SP_CPU_TARGETS]; /* by row of implements.def */
static long cases;

static int row_of(const sp_implement *im)
{
    for (int i = 0; i < sp_implement_count(); i++)
        if (sp_implement_row(i) == im) return i;
    fail_msg("%s is no row", im->name);
    return -1;
}

static const int64_t token_counts[] = {1, 7, 15, 16, 17, 63, 64, 65, 100, 128, 1000};
static const char *const activations[] = {"",     "relu",    "gelu", "gelu_tanh",
                                          "tanh", "sigmoid", "silu", "quick_gelu"};

/* ------------------------------------------------------------------ Linear */

static const int64_t outputs[] = {1, 2, 3, 4, 5, 7, 8, 13, 32, 64, 65, 100},
                     inputs[] = {1, 3, 4, 13, 32, 64, 129, 256, 257, 300, 800};
enum { DENSE, EMPTY, ONE, B4X1, B16X4, B32X32, B1X1, N2M4, ZERO_ROWS, ZERO_STRIPS, PATTERNS };

static bool present(int pattern, uint64_t seed, int64_t n, int64_t k, int64_t n0, int64_t k0)
{
    static const int block[PATTERNS][2] = {
        [B4X1] = {4, 1}, [B16X4] = {16, 4}, [B32X32] = {32, 32}, [B1X1] = {1, 1}};
    const int64_t at[2] = {block[pattern][0] ? n / block[pattern][0] : n,
                           block[pattern][1] ? k / block[pattern][1] : k};
    switch (pattern) {
    case DENSE: return true;
    case EMPTY: return false;
    case ONE: return n == n0 && k == k0;
    case N2M4: return k % 4 == (int64_t)(sp_hash((int64_t[]){n, k / 4}, 16, seed) % 4) || k % 4 == n % 4;
    case ZERO_ROWS: return sp_hash(&n, 8, seed) % 2;
    case ZERO_STRIPS: return sp_hash((int64_t[]){n / 4}, 8, seed) % 2 && (n + k) % 3 == 0;
    default: return sp_hash(at, sizeof at, seed) % 10 < 2;
    }
}

typedef struct layer { /* a Linear to try */
    int64_t n, k, tokens;
    int pattern, act;
    bool transposed, bias, residual, stat;
    bool late;   /* the residual comes before the activation */
    bool factor; /* it is multiplied, not added */
} layer;

/* The weight as (n, k), whichever way it lies. */
static sparta_tensor weight_of(const bed *b, const layer *l)
{
    sparta_tensor w = b->in[1];
    if (l->transposed) return w;
    w.dim[0] = l->n, w.dim[1] = l->k;
    w.stride[0] = 1, w.stride[1] = l->n;
    return w;
}

static void draw_weight(const bed *b, const layer *l)
{
    const sparta_tensor w = weight_of(b, l);
    const uint64_t seed = sp_rng_next(&rng);
    const int64_t n0 = below(l->n), k0 = below(l->k);
    for (int64_t n = 0; n < l->n; n++)
        for (int64_t k = 0; k < l->k; k++)
            if (!present(l->pattern, seed, n, k, n0, k0))
                ((float *)w.data)[n * w.stride[0] + k * w.stride[1]] = 0;
}

static bed *linear_bed(const layer *l)
{
    char attrs[96];
    bed *b = bed_make();
    const int64_t one = SP_MAX(l->tokens / 7, 1),
                  items = l->tokens % 7 ? 1 : 7; /* tokens in one or two leading dims */
    const int64_t middle = items == 7 ? one : l->tokens;
    bed_input(b, false, SPARTA_F32, DIMS(items, middle, l->k));
    if (l->transposed)
        bed_input(b, true, SPARTA_F32, DIMS(l->n, l->k));
    else
        bed_input(b, true, SPARTA_F32, DIMS(l->k, l->n));
    draw_weight(b, l);
    if (l->bias)
        bed_input(b, true, SPARTA_F32, DIMS(l->n));
    else if (l->residual)
        bed_absent(b);
    if (l->residual) bed_input(b, false, SPARTA_F32, DIMS(items, middle, l->n));
    const char *add = !l->residual ? "" : l->factor ? "mul" : "add", *act = activations[l->act];
    snprintf(attrs, sizeof attrs, "transposed=%d, epilogue=\"%s %s %s\"", l->transposed,
             l->bias ? "bias" : "", l->late ? add : act, l->late ? act : add);
    bed_node(b, "sparta::Linear", attrs, DIMS(items, middle, l->n));
    reference(b);
    return b;
}

/* sum |w||x| + |bias| + |residual|: what the error is measured against. */
static float *magnitudes(bed *b)
{
    sparta_tensor in[4], out;
    const sp_attr plain = {.name = "transposed", .i = sp_attr_int(&b->node->attrs, "transposed", 0)};
    const sp_attrs attrs = {1, &plain};
    for (int i = 0; i < b->n_in; i++) {
        in[i] = b->in[i];
        if (in[i].rank < 0) continue;
        ok(sp_tensor_alloc_in(b->arena, SPARTA_F32, in[i].rank, in[i].dim, &in[i]));
        for (int64_t j = 0; j < sparta_tensor_elements(&in[i]); j++)
            ((float *)in[i].data)[j] = fabsf(((float *)b->in[i].data)[j]);
    }
    ok(sp_tensor_alloc_in(b->arena, SPARTA_F32, b->out.rank, b->out.dim, &out));
    ok(sp_builtin_Linear(cx, &(sp_op_args){&attrs, b->n_in, 1, in, &out}));
    return out.data;
}

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

/* One kernel for each set of parameters takes the compiler a second: not every activation with every other epilogue. Those for few tokens are
 * compiled in a file of their own. */
static bool worth_compiling(const layer *l)
{
    return (!l->residual && !l->stat) || l->act == 0 || l->act == 2;
}

static void try_row(bed *b, const layer *l, const sp_implement *im, const sp_task *t, const float *size)
{
    char parameters[1000], who[1160];
    const sparta_tensor w = weight_of(b, l);
    sp_packed packed = packed_for(im, t, &w);
    parameters_of(im, t, parameters, sizeof parameters);
    EACH_TARGET(target)
    {
        how h = {.kernel = im->kernel,
                 .packed = &packed,
                 .function = sp_implement_function_name(im, t),
                 .parts = 1,
                 .stat = l->stat && sp_implement_in_lanes(im)};
        if (target != SP_TARGET_PORTABLE && (!sp_implement_in_lanes(im) || !worth_compiling(l))) continue;
        if (!entry_of((sp_target)target, im->kernel, parameters, &h.entry)) continue;
        snprintf(who, sizeof who, "%s, %s, %s, pattern %d", im->name, sp_target_name((sp_target)target),
                 parameters, l->pattern);
        const float *y = run_kernel(b, &h);
        close_enough(b, y, size, 4e-6, 5e-7, who);
        h.parts = 2 + (int)below(3);
        same_bits(b, y, run_kernel(b, &h), who);
        ran[row_of(im)][target]++;
        cases += 2;
    }
    sp_packed_free(cx, &packed);
}

/* Once more without the library that was just used: the kernel's own product takes its place. */
static void try_row_alone(bed *b, const layer *l, const sp_implement *im, const sp_task *t, const float *size)
{
    if (!sp_library_version()) return;
    setenv("SPARTA_ONEDNN", "0", 1);
    try_row(b, l, im, t, size);
    unsetenv("SPARTA_ONEDNN");
}

/* Formats that hold every mask, for the walker. */
static const char *const formats[] = {
    "dense",
    "csr",
    "csc",
    "coo",
    "dcsr",
    "dcsc",
    "bsr(4)",
    "bsr(3,5)",
    "bsc(2,7)",
    "dbsr(5,2)",
    "ell",
    "bell(4)",
    "dia",
    "bitmap",
    "cv(3)",
    "sr-bcrs(4,2)",
    "vnni",
    "(n,k)->(n:dense, k:ragged)",
    "(n,k)->(k:bitmap, n:bitmap)",
    "(n,k)->(n/16:dense, k/8:compressed, n%16/4:dense, k%8/2:compressed, n%4:dense, k%2:bitmap)"};

static void try_layer(const layer *l)
{
    bed *b = linear_bed(l);
    sp_mask mask;
    const sparta_tensor w = weight_of(b, l);
    const float *size = magnitudes(b);
    sp_task t = task_of(b, &w, &mask);
    t.stat = l->stat;
    t.tokens = l->tokens;
    t.present =
        l->tokens > SP_FEW_TOKENS ? .1 : 1; /* of any input, so that it may be thought to have zeros */
    /* Every format is generated with one end, and one format with every end: each is compiled. */
    const char *format = ONE_OF(formats);
    ok(sp_implement_ask(cx, format, NULL, SP_TARGET_AVX2, &t));
    t.special &= format == formats[0] || !(l->act || l->residual || l->stat);
    t.library = true;
    if (!(l->act || l->residual || l->stat)) ok(sp_implement_users(cx, &w, &t));
    int matched = 0;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int k = 0; k < sp_implement_points(im); k++) {
            if (!sp_implement_point(im, k, &t) || !sp_implement_matches(im, &t)) continue;
            matched++;
            assert_true(!im->format || im->cost(&t) > 0);
            if (im->kernel) try_row(b, l, im, &t, size);
            if (im->version) try_row_alone(b, l, im, &t, size);
        }
    }
    assert_true(
        matched >=
        4); /* dense4, onednn and, when asked for a format, walk take every one, the builtin everything */
    sp_mask_free(cx, &mask);
    bed_free(b);
}

static layer draw_layer(void)
{
    layer l;
    do { /* large in some of its sizes, never in all */
        l = (layer){.n = ONE_OF(outputs), .k = ONE_OF(inputs), .tokens = ONE_OF(token_counts)};
    } while (l.n * l.k * l.tokens > 400000);
    l.pattern = (int)below(PATTERNS), l.act = (int)below(SP_COUNT(activations));
    l.transposed = below(2), l.bias = below(2), l.residual = below(3) == 0, l.stat = below(3) == 0,
    l.late = below(2);
    l.factor = l.residual && l.act >= 5; /* kernels that are not compiled here */
    return l;
}

/* Row user_function. */
static void csr_product(void *user, const sparta_product *p)
{
    const int *pos = p->part[0].pos[1], *crd = p->part[0].crd[1];
    (void)user;
    for (long i = 0; i < p->n; i++)
        for (long t = 0; t < p->tokens; t++) {
            float sum = 0;
            for (int at = pos[i]; at < pos[i + 1]; at++) sum += p->part[0].w[at] * p->x[64 * crd[at] + t];
            p->y[64 * i + t] = sum;
        }
}

static void linear_agrees_with_the_reference(void **state)
{
    (void)state;
    const sparta_kernel_function f = {
        .size = sizeof f, .name = "own", .format = "csr", .product = csr_product};
    if (!no_compiler) ok(sparta_kernel_open(cx, "examples/kernel.c"));
    ok(sparta_kernel_function_register(cx, &f));
    for (int i = 0; i < 4000 / FEWER; i++) {
        const layer l = draw_layer();
        try_layer(&l);
    }
}

static void linear_takes_every_size(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 17; n++)
        for (int64_t tokens = 1; tokens <= 129; tokens += FEWER > 1 ? 32 : 4) {
            const layer l = {n,        1 + below(9),       tokens,       .pattern = (int)below(PATTERNS),
                             .act = 2, .transposed = true, .bias = true, .residual = true};
            try_layer(&l);
        }
}

/* Past 65535 inputs a coordinate needs four bytes. */
static void linear_with_wide_coordinates(void **state)
{
    (void)state;
    const layer l = {.n = 6, .k = 65541, .tokens = 3, .pattern = B4X1, .transposed = true, .bias = true};
    try_layer(&l);
    const layer edge = {.n = 4, .k = 65535, .tokens = 2, .pattern = B1X1, .transposed = true};
    try_layer(&edge);
}

/* A weight that is absent does not touch its input; one that is present does, and IEEE rules. */
static void linear_on_infinite_inputs(void **state)
{
    (void)state;
    layer l = {.n = 8, .k = 8, .tokens = 20, .pattern = DENSE, .transposed = true};
    for (int sparse = 0; sparse < 2; sparse++) {
        bed *b = linear_bed(&l);
        float *x = b->in[0].data, *w = b->in[1].data;
        for (int n = 0; n < 8; n++) w[n * 8 + 3] = n < 4 ? 0 : 1; /* column 3: absent in the first strip */
        x[5 * 8 + 3] = INFINITY, x[6 * 8 + 3] = NAN;
        sp_mask mask;
        sp_task t = task_of(b, &b->in[1], &mask);
        const sp_implement *im = sparse ? &sp_implement_strip4 : &sp_implement_dense4;
        sp_packed packed = packed_for(im, &t, &b->in[1]);
        assert_true(sp_implement_matches(im, &t));
        t.strict = true;
        assert_int_equal(sp_implement_matches(im, &t), !sparse);
        const float *y = run_kernel(b, &(how){.kernel = "linear", .packed = &packed, .parts = 1});
        for (int n = 0; n < 8; n++) {
            assert_true(isfinite(y[4 * 8 + n]));
            assert_int_equal(isfinite(y[5 * 8 + n]), sparse && n < 4);
            assert_int_equal(isfinite(y[6 * 8 + n]), sparse && n < 4);
            if (n >= 4) assert_true(isinf(y[5 * 8 + n]) && isnan(y[6 * 8 + n]));
        }
        sp_packed_free(cx, &packed);
        sp_mask_free(cx, &mask);
        bed_free(b);
    }
}

/* ------------------------------------------------------------------ LayerNormalization */

/* What the error of a token's row is measured against. */
static float *norm_sizes(bed *b, const float *x, double eps)
{
    const int64_t n = sp_panel_features(&b->out), tokens = sp_panel_tokens(&b->out);
    float *size = sp_arena_array(b->arena, (size_t)(n * tokens) + 1, sizeof(float));
    assert_non_null(size);
    for (int64_t t = 0; t < tokens; t++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += (double)x[t * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++) variance += pow(x[t * n + i] - mean, 2) / (double)n;
        const double deviation = sqrt(variance + eps);
        for (int64_t i = 0; i < n; i++)
            size[t * n + i] = (float)(fabs(((float *)b->in[1].data)[i]) *
                                          (1 + (fabs(x[t * n + i] - mean) + .5 * fabs(mean)) / deviation) +
                                      (b->n_in > 2 ? fabs(((float *)b->in[2].data)[i]) : 0));
    }
    return size;
}

/* Without a mean: errors are against the answer itself. */
static void rms_agrees_with_the_reference(void **state)
{
    (void)state;
    static const double spreads[] = {1, 1, .01, 100, 0};
    for (int i = 0; i < 150 / FEWER; i++) {
        const int64_t n = ONE_OF(outputs), tokens = ONE_OF(token_counts);
        const double spread = ONE_OF(spreads);
        bed *b = bed_make();
        float *x = bed_input(b, false, SPARTA_F32, DIMS(tokens, n))->data;
        for (int64_t j = 0; j < n * tokens; j++) x[j] = (float)(spread * x[j]);
        if (below(8) == 0) x[below(n * tokens)] = below(2) ? NAN : INFINITY;
        bed_input(b, true, SPARTA_F32, DIMS(n));
        bed_node(b, "RMSNormalization", "axis=-1, epsilon=1e-05", DIMS(tokens, n));
        reference(b);
        const sp_task t = task_of(b, NULL, NULL);
        assert_true(sp_implement_matches(&sp_implement_rms, &t));
        assert_false(sp_implement_matches(&sp_implement_norm, &t));
        float *size = sp_arena_array(b->arena, (size_t)(n * tokens) + 1, sizeof *size);
        assert_non_null(size);
        for (int64_t j = 0; j < n * tokens; j++) size[j] = fabsf(((float *)b->out.data)[j]);
        EACH_TARGET(target)
        {
            how h = {.kernel = "rms", .parts = 1};
            if (!entry_of((sp_target)target, "rms", "", &h.entry)) continue;
            const float *y = run_kernel(b, &h);
            close_enough(b, y, size, 1e-6, 1e-7, sp_target_name((sp_target)target));
            h.parts = 2 + (int)below(3);
            same_bits(b, y, run_kernel(b, &h), "parts of rms");
            ran[row_of(&sp_implement_rms)][target]++;
            cases += 2;
        }
        bed_free(b);
    }
}

static void rotary_agrees_with_the_reference(void **state)
{
    (void)state;
    static const int64_t halves[] = {1, 2, 3, 8, 16};
    for (int i = 0; i < 100 / FEWER; i++) {
        const int64_t half = ONE_OF(halves), rest = below(3) ? 0 : below(7), heads = 1 + below(5),
                      batch = 1 + below(3), length = ONE_OF(token_counts) % 150 + 1, dim = 2 * half + rest;
        char attrs[96];
        bed *b = bed_make();
        float *x = bed_input(b, false, SPARTA_F32, DIMS(batch, length, heads * dim))->data;
        if (below(4) == 0) x[below(batch * length * heads * dim)] = below(2) ? NAN : INFINITY;
        for (int k = 0; k < 2; k++) bed_input(b, false, SPARTA_F32, DIMS(batch, length, half));
        snprintf(attrs, sizeof attrs, "num_heads=%d, rotary_embedding_dim=%d, interleaved=%d", (int)heads,
                 rest || below(2) ? (int)(2 * half) : 0, (int)below(2));
        bed_node(b, "RotaryEmbedding", attrs, DIMS(batch, length, heads * dim));
        reference(b);
        const sp_task t = task_of(b, NULL, NULL);
        assert_true(sp_implement_matches(&sp_implement_rotary, &t));
        float *size = sp_arena_array(b->arena, (size_t)sparta_tensor_elements(&b->out) + 1, sizeof *size);
        assert_non_null(size);
        for (int64_t j = 0; j < sparta_tensor_elements(&b->out); j++)
            size[j] = 8; /* of normal numbers: |c x| + |s x| */
        EACH_TARGET(target)
        {
            how h = {.kernel = "rotary", .parts = 1};
            if (!entry_of((sp_target)target, "rotary", "", &h.entry)) continue;
            const float *y = run_kernel(b, &h);
            close_enough(b, y, size, 2e-7, 2e-7, sp_target_name((sp_target)target));
            h.parts = 2 + (int)below(3);
            same_bits(b, y, run_kernel(b, &h), "parts of rotary");
            ran[row_of(&sp_implement_rotary)][target]++;
            cases += 2;
        }
        bed_free(b);
    }
}

static void norm_agrees_with_the_reference(void **state)
{
    (void)state;
    static const double means[] = {0, 0, 1, -30, 1000}, spreads[] = {1, 1, .01, 100};
    for (int i = 0; i < 300 / FEWER; i++) {
        const int64_t n = ONE_OF(outputs), tokens = ONE_OF(token_counts);
        const double mean = ONE_OF(means), spread = ONE_OF(spreads);
        bed *b = bed_make();
        float *x = bed_input(b, false, SPARTA_F32, DIMS(tokens, n))->data;
        for (int64_t j = 0; j < n * tokens; j++) x[j] = (float)(mean + spread * x[j]);
        bed_input(b, true, SPARTA_F32, DIMS(n));
        if (below(2)) bed_input(b, true, SPARTA_F32, DIMS(n));
        bed_node(b, "LayerNormalization", "axis=-1, epsilon=1e-05", DIMS(tokens, n));
        reference(b);
        const sp_task t = task_of(b, NULL, NULL);
        assert_true(sp_implement_matches(&sp_implement_norm, &t));
        const float *size = norm_sizes(b, x, 1e-5);
        EACH_TARGET(target)
        {
            how h = {.kernel = "norm", .parts = 1};
            if (!entry_of((sp_target)target, "norm", "", &h.entry)) continue;
            const float *y = run_kernel(b, &h);
            close_enough(b, y, size, 4e-6, 1e-7, sp_target_name((sp_target)target));
            h.parts = 2 + (int)below(3);
            same_bits(b, y, run_kernel(b, &h), "parts of norm");
            ran[row_of(&sp_implement_norm)][target]++;
            cases += 2;
        }
        bed_free(b);
    }
}

/* A product leaves statistics, the normalisation after it uses them: the answer is the reference's of both. */
static void try_statistics(const layer *l, double mean, bool centred)
{
    const char *kernel = centred ? "norm" : "rms";
    bed *b = linear_bed(l), *after = bed_make();
    for (int64_t j = 0; l->bias && j < l->n; j++) ((float *)b->in[2].data)[j] += (float)mean;
    reference(b);
    const int64_t n = l->n;
    float *x = bed_input(after, false, SPARTA_F32, b->out.rank, b->out.dim)->data;
    memcpy(x, b->out.data, (size_t)sparta_tensor_elements(&b->out) * sizeof *x);
    bed_input(after, true, SPARTA_F32, DIMS(n));
    if (centred) bed_input(after, true, SPARTA_F32, DIMS(n));
    bed_node(after, centred ? "LayerNormalization" : "RMSNormalization", "axis=-1, epsilon=1e-05",
             b->out.rank, b->out.dim);
    reference(after);
    const float *size = norm_sizes(after, x, 1e-5);
    const sparta_tensor w = weight_of(b, l);
    sp_mask mask;
    sp_task t = task_of(b, &w, &mask);
    const sp_implement *im = below(2) ? &sp_implement_strip4 : &sp_implement_pairs;
    t.stat = true;
    sp_packed packed = packed_for(im, &t, &w);
    char parameters[96];
    parameters_of(im, &t, parameters, sizeof parameters);
    EACH_TARGET(target) for (int parts = 1; parts <= 4; parts++)
    {
        const lain y = lay(b, &b->out, parts);
        how h = {.kernel = im->kernel, .packed = &packed, .parts = parts, .stat = true, .y = &y};
        how g = {.kernel = kernel, .parts = parts, .stat = true, .x = &y};
        if (!entry_of((sp_target)target, im->kernel, parameters, &h.entry) ||
            !entry_of((sp_target)target, kernel, "", &g.entry))
            break;
        run_kernel(b, &h);
        /* The product's own error, seen through the normalisation, comes on top. */
        close_enough(after, run_kernel(after, &g), size, 2e-5, 1e-6, sp_target_name((sp_target)target));
        cases++;
    }
    sp_packed_free(cx, &packed);
    sp_mask_free(cx, &mask);
    bed_free(after);
    bed_free(b);
}

static void norm_uses_the_statistics_of_a_product(void **state)
{
    (void)state;
    static const int64_t sizes[] = {4, 5, 7, 13, 32, 64, 65, 100};
    static const double means[] = {0, 0, 2, 50};
    for (int i = 0; i < 120 / FEWER; i++) {
        const layer l = {.n = ONE_OF(sizes),
                         .k = 64,
                         .tokens = ONE_OF(token_counts) % 200 + 1,
                         .pattern = below(2) ? B4X1 : B1X1,
                         .act = below(2) ? 2 : 0,
                         .transposed = true,
                         .bias = true,
                         .residual = below(2),
                         .stat = true};
        try_statistics(&l, ONE_OF(means), i % 3 > 0);
    }
    /* An activation that is not 0 at 0: rows that only pad must not count. */
    const layer l = {.n = 5,
                     .k = 13,
                     .tokens = 20,
                     .pattern = DENSE,
                     .act = 5,
                     .transposed = true,
                     .bias = true,
                     .stat = true};
    try_statistics(&l, 0, true);
    try_statistics(&l, 0, false);
}

/* A token's answer is its own: the same bits whatever its neighbours hold. */
static void norm_keeps_tokens_apart(void **state)
{
    (void)state;
    const layer l = {
        .n = 64, .k = 32, .tokens = 40, .pattern = B4X1, .transposed = true, .bias = true, .stat = true};
    bed *b = linear_bed(&l), *after = bed_make();
    bed_input(after, false, SPARTA_F32, b->out.rank, b->out.dim);
    bed_input(after, true, SPARTA_F32, DIMS(64));
    bed_node(after, "LayerNormalization", "", b->out.rank, b->out.dim);
    sp_mask mask;
    sp_task t = task_of(b, &b->in[1], &mask);
    t.stat = true;
    sp_packed packed = packed_for(&sp_implement_dense4, &t, &b->in[1]);
    char parameters[96];
    parameters_of(&sp_implement_dense4, &t, parameters, sizeof parameters);
    EACH_TARGET(target)
    {
        const lain y = lay(b, &b->out, 1), z = lay(b, &b->out, 1);
        how h = {.kernel = "linear", .packed = &packed, .parts = 1, .stat = true, .y = &y},
            g = {.kernel = "norm", .parts = 1, .stat = true, .x = &y};
        if (!entry_of((sp_target)target, "linear", parameters, &h.entry) ||
            !entry_of((sp_target)target, "norm", "", &g.entry))
            continue;
        float *x = b->in[0].data;
        for (int i = 0; i < 32; i++) x[21 * 32 + i] = 1;
        run_kernel(b, &h);
        const float *before = run_kernel(after, &g);
        for (int i = 0; i < 32; i++) x[21 * 32 + i] = NAN;
        h.y = g.x = &z;
        run_kernel(b, &h);
        const float *now = run_kernel(after, &g);
        for (int i = 0; i < 40 * 64; i++) {
            if (i / 64 == 21)
                assert_true(isnan(now[i]));
            else if (now[i] != before[i])
                fail_msg("token %d is %.9g beside NaN and was %.9g", i / 64, (double)now[i],
                         (double)before[i]);
        }
    }
    sp_packed_free(cx, &packed);
    sp_mask_free(cx, &mask);
    bed_free(after);
    bed_free(b);
}

/* ------------------------------------------------------------------ map, embed, conversions */

/* Run `kernel` on every target in one part and in several: the same bits, and close to the reference. */
static void try_kernel(bed *b, const char *kernel, const sp_implement *im, double absolute)
{
    if (im) {
        sp_task t = task_of(b, NULL, NULL);
        t.conversion = b->node->op == SP_OP_Identity;
        assert_true(sp_implement_matches(im, &t) && !im->cost && !strcmp(im->kernel, kernel));
    }
    EACH_TARGET(target)
    {
        how h = {.kernel = kernel, .parts = 1};
        if (!entry_of((sp_target)target, kernel, "", &h.entry)) continue;
        const float *y = run_kernel(b, &h);
        close_enough(b, y, NULL, absolute, absolute, sp_target_name((sp_target)target));
        for (h.parts = 2; h.parts <= 4; h.parts++) same_bits(b, y, run_kernel(b, &h), kernel);
        if (im) ran[row_of(im)][target]++;
        cases += 4;
    }
    bed_free(b);
}

static void map_agrees_with_the_reference(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attrs;
        int n;
    } ops[] = {{"Add", "", 2},
               {"Relu", "", 1},
               {"Tanh", "", 1},
               {"Sigmoid", "", 1},
               {"Gelu", "approximate=\"none\"", 1},
               {"Gelu", "approximate=\"tanh\"", 1},
               {"Mul", "", 2},
               {"Swish", "", 1},
               {"Swish", "alpha=1.702", 1}};
    for (int i = 0; i < 200 / FEWER; i++) {
        const int64_t n = ONE_OF(outputs), tokens = ONE_OF(token_counts);
        const size_t op = (size_t)i % SP_COUNT(ops);
        bed *b = bed_make();
        for (int j = 0; j < ops[op].n; j++) bed_input(b, false, SPARTA_F32, DIMS(tokens, n));
        bed_node(b, ops[op].op, ops[op].attrs, DIMS(tokens, n));
        reference(b);
        try_kernel(b, "map", &sp_implement_map, op < 2 ? 0 : 4e-7); /* Add and Relu: to the bit */
    }
}

static bed *embed_bed(int tables, int64_t batch, int64_t sequence, int64_t n)
{
    bed *b = bed_make();
    for (int i = 0; i < tables; i++) {
        static const int64_t sizes[] = {1, 2, 30};
        const int64_t rows = ONE_OF(sizes);
        const sparta_dtype dtype = below(2) ? SPARTA_I64 : SPARTA_I32;
        bed_input(b, true, SPARTA_F32, DIMS(rows, n));
        const int shape = i ? (int)below(4) : 0; /* (B,S), (1,S), (S) or (B,1) */
        sparta_tensor *ids = shape == 0   ? bed_input(b, false, dtype, DIMS(batch, sequence))
                             : shape == 1 ? bed_input(b, false, dtype, DIMS(1, sequence))
                             : shape == 2 ? bed_input(b, false, dtype, DIMS(sequence))
                                          : bed_input(b, false, dtype, DIMS(batch, 1));
        for (int64_t j = 0; j < sparta_tensor_elements(ids); j++)
            sp_element_set_int(dtype, ids->data, j, below(2 * rows) - rows); /* half of them negative */
    }
    bed_node(b, "sparta::Embed", "", DIMS(batch, sequence, n));
    reference(b);
    return b;
}

static void embed_agrees_with_the_reference(void **state)
{
    (void)state;
    static const int64_t sequences[] = {1, 7, 16, 17, 63, 64, 65, 128};
    for (int i = 0; i < 200 / FEWER; i++)
        try_kernel(embed_bed(1 + (int)below(4), 1 + below(4), ONE_OF(sequences), ONE_OF(outputs)), "embed",
                   &sp_implement_embed, 4e-7);
}

/* More in implement_interact_test.c. */
static void interact_agrees_with_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 100 / FEWER; i++) {
        const int64_t tokens = ONE_OF(token_counts), dim = 1 + below(40), n = 2 + below(8);
        bed *b = bed_make();
        for (int64_t j = 0; j < n; j++) bed_input(b, false, SPARTA_F32, DIMS(tokens, dim));
        int64_t *pair = bed_input(b, true, SPARTA_I64, DIMS(n - 1, 2))->data;
        for (int64_t j = 0; j < n - 1; j++) pair[2 * j] = j + 1, pair[2 * j + 1] = j;
        bed_node(b, "sparta::Interact", "keep=1", DIMS(tokens, dim + n - 1));
        reference(b);
        try_kernel(b, "interact", &sp_implement_interact, 2e-6);
    }
}

static void conversions_move_every_element(void **state)
{
    (void)state;
    for (int i = 0; i < 200 / FEWER; i++) {
        const int64_t n = ONE_OF(outputs), tokens = ONE_OF(token_counts);
        bed *b = bed_make();
        bed_input(b, false, SPARTA_F32, DIMS(tokens, n));
        bed_node(b, "Identity", "", DIMS(tokens, n));
        reference(b);
        try_kernel(b, i % 2 ? "to_lanes" : "to_rows", i % 2 ? &sp_implement_to_lanes : &sp_implement_to_rows,
                   0);
    }
}

/* ------------------------------------------------------------------ what rows take and what they leave */

static bool matches(const sp_implement *im, bed *b)
{
    const sp_task t = task_of(b, NULL, NULL);
    const bool m = sp_implement_matches(im, &t);
    bed_free(b);
    return m;
}

static void rows_leave_what_they_cannot_do(void **state)
{
    (void)state;
    bed *b = bed_make(); /* a gain of one element would have to be repeated */
    bed_input(b, false, SPARTA_F32, DIMS(3, 8));
    bed_input(b, true, SPARTA_F32, DIMS(1));
    bed_node(b, "LayerNormalization", "axis=-1", DIMS(3, 8));
    assert_false(matches(&sp_implement_norm, b));
    b = bed_make(); /* over two axes */
    bed_input(b, false, SPARTA_F32, DIMS(3, 4, 8));
    bed_input(b, true, SPARTA_F32, DIMS(4, 8));
    bed_node(b, "LayerNormalization", "axis=1", DIMS(3, 4, 8));
    assert_false(matches(&sp_implement_norm, b));
    b = bed_make(); /* a gain that is computed */
    bed_input(b, false, SPARTA_F32, DIMS(3, 8));
    bed_input(b, false, SPARTA_F32, DIMS(8));
    bed_node(b, "LayerNormalization", "axis=-1", DIMS(3, 8));
    assert_false(matches(&sp_implement_norm, b));
    b = bed_make(); /* shapes that broadcast */
    bed_input(b, false, SPARTA_F32, DIMS(3, 8));
    bed_input(b, false, SPARTA_F32, DIMS(1, 8));
    bed_node(b, "Add", "", DIMS(3, 8));
    assert_false(matches(&sp_implement_map, b));
    b = bed_make(); /* an activation that is no word */
    bed_input(b, false, SPARTA_F32, DIMS(3, 8));
    bed_node(b, "Swish", "alpha=3.0", DIMS(3, 8));
    assert_false(matches(&sp_implement_map, b));
    b = bed_make(); /* tables that repeat for each item */
    bed_input(b, false, SPARTA_F32, DIMS(2, 3, 8));
    bed_input(b, false, SPARTA_F32, DIMS(2, 3, 2));
    bed_input(b, false, SPARTA_F32, DIMS(1, 3, 2));
    bed_node(b, "RotaryEmbedding", "num_heads=2", DIMS(2, 3, 8));
    assert_false(matches(&sp_implement_rotary, b));
    b = bed_make(); /* a table that is computed */
    bed_input(b, false, SPARTA_F32, DIMS(3, 8));
    bed_input(b, false, SPARTA_I64, DIMS(2, 5));
    bed_node(b, "sparta::Embed", "", DIMS(2, 5, 8));
    assert_false(matches(&sp_implement_embed, b));
    b = bed_make(); /* a table without its ids */
    bed_input(b, true, SPARTA_F32, DIMS(3, 8));
    bed_input(b, false, SPARTA_I64, DIMS(2, 5));
    bed_input(b, true, SPARTA_F32, DIMS(3, 8));
    bed_node(b, "sparta::Embed", "", DIMS(2, 5, 8));
    assert_false(matches(&sp_implement_embed, b));
    b = bed_make(); /* no mask: the weight is no constant */
    bed_input(b, false, SPARTA_F32, DIMS(3, 8));
    bed_input(b, false, SPARTA_F32, DIMS(4, 8));
    bed_node(b, "sparta::Linear", "transposed=1", DIMS(3, 4));
    const sp_task t = task_of(b, NULL, NULL);
    assert_false(sp_implement_matches(&sp_implement_strip4, &t) ||
                 sp_implement_matches(&sp_implement_dense4, &t));
    assert_true(matches(&sp_implement_builtin, b));
}

static void a_dense_weight_is_not_for_strip4(void **state)
{
    (void)state;
    const layer l = {.n = 8, .k = 8, .tokens = 2, .pattern = DENSE, .transposed = true};
    bed *b = linear_bed(&l);
    sp_mask mask;
    sp_task t = task_of(b, &b->in[1], &mask);
    assert_false(sp_implement_matches(&sp_implement_strip4, &t));
    assert_true(sp_implement_matches(&sp_implement_dense4, &t));
    sp_mask_free(cx, &mask);
    bed_free(b);
}

/* Where blocks are whole, quads have nothing but their ranges: one point of long inputs competes, none of short ones; asked for, all do. */
static void whole_blocks_are_for_strip4(void **state)
{
    (void)state;
    static const struct {
        int64_t k;
        int points[2]; /* of whole blocks, and with an element less */
    } shapes[] = {{768, {0, 3}}, {1024, {0, 3}}, {1028, {1, 3}}};
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (int broken = 0; broken < 2; broken++) {
            const layer l = {.n = 4, .k = shapes[i].k, .tokens = 2, .pattern = DENSE, .transposed = true};
            bed *b = linear_bed(&l);
            float *w = b->in[1].data;
            for (int64_t k = 0; k < 4 * l.k; k++) w[k] = k % l.k % 3 ? 1 : 0;
            if (broken) w[1] = 0;
            sp_mask mask;
            sp_task t = task_of(b, &b->in[1], &mask);
            int n[2] = {0};
            for (int asked = 0; asked < 2; asked++)
                for (int point = 0; point < sp_implement_points(&sp_implement_quads); point++) {
                    t.asked = asked;
                    n[asked] += sp_implement_point(&sp_implement_quads, point, &t) &&
                                sp_implement_matches(&sp_implement_quads, &t);
                }
            assert_int_equal(n[0], shapes[i].points[broken]);
            assert_int_equal(n[1], 3);
            sp_mask_free(cx, &mask);
            bed_free(b);
        }
}

static void texts_say_where_they_came_from(void **state)
{
    (void)state;
    sp_text t;
    sp_text_init(&t, cx);
    ok(sp_implement_text("linear", "FORM=1  STAT=0 ", SP_TARGET_AVX512, &t));
    assert_non_null(strstr(sp_text_str(&t), "/* sparta " SPARTA_VERSION
                                            ": kernel linear, target avx512, FORM=1  STAT=0  */\n"));
    assert_non_null(strstr(sp_text_str(&t), "\n#define FORM 1\n#define STAT 0\n/* The contract"));
    assert_null(strstr(sp_text_str(&t), "#include"));
    sp_text_free(&t);
    fails_saying(SPARTA_E_INTERNAL, "'nothing'", sp_implement_text("nothing", "", SP_TARGET_PORTABLE, &t));
    sp_text_free(&t);
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        assert_ptr_equal(sp_implement_find(im->name), im);
        if (im->kernel) assert_non_null(sp_panel_find(im->kernel));
    }
    assert_null(sp_implement_find("strip"));
    assert_ptr_equal(sp_implement_row(sp_implement_count() - 1), &sp_implement_builtin);
}

/* Last: a row that nobody tried is a hole in this file. */
static void every_row_ran_on_every_target(void **state)
{
    (void)state;
    EACH_TARGET(target) for (int i = 0; i < sp_implement_count(); i++)
    {
        const sp_implement *im = sp_implement_row(i);
        /* attention has tests of its own: implement_attention_test, compile_routed_test; so has matmul_skip: implement_matmul_test */
        if (!im->kernel || im == &sp_implement_attention || im == &sp_implement_attention_rows ||
            im == &sp_implement_attention_skip || im == &sp_implement_matmul_skip ||
            sp_implement_generates(im) ||
            (target == SP_TARGET_PORTABLE && sp_panel_find(im->kernel)->otherwise) || /* walk */
            (!sp_implement_in_lanes(im) && im != &sp_implement_to_rows && target != SP_TARGET_PORTABLE) ||
            (target != SP_TARGET_PORTABLE && no_compiler))
            continue;
        if (!ran[i][target]) fail_msg("%s never ran on %s", im->name, sp_target_name((sp_target)target));
    }
    if (!sp_library_version())
        print_message("oneDNN is %s: only the product that takes its place is tested\n",
                      sp_library_problem());
    print_message("implement_table_test: %ld cases\n", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_agrees_with_the_reference),
        cmocka_unit_test(linear_takes_every_size),
        cmocka_unit_test(linear_with_wide_coordinates),
        cmocka_unit_test(linear_on_infinite_inputs),
        cmocka_unit_test(norm_agrees_with_the_reference),
        cmocka_unit_test(rms_agrees_with_the_reference),
        cmocka_unit_test(rotary_agrees_with_the_reference),
        cmocka_unit_test(norm_uses_the_statistics_of_a_product),
        cmocka_unit_test(norm_keeps_tokens_apart),
        cmocka_unit_test(map_agrees_with_the_reference),
        cmocka_unit_test(embed_agrees_with_the_reference),
        cmocka_unit_test(interact_agrees_with_the_reference),
        cmocka_unit_test(conversions_move_every_element),
        cmocka_unit_test(rows_leave_what_they_cannot_do),
        cmocka_unit_test(a_dense_weight_is_not_for_strip4),
        cmocka_unit_test(whole_blocks_are_for_strip4),
        cmocka_unit_test(texts_say_where_they_came_from),
        cmocka_unit_test(every_row_ran_on_every_target),
    };
    return cmocka_run_group_tests(tests, kernels_begin, kernels_end);
}
