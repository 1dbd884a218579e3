/* The room sparse: every function x type x block x size x batch x pattern x strides x keep against double loops over a dense twin, with the
 * kernels of every target that this CPU runs. */
#include "sparse_bed.h"
#include "device/device.h"

static const int64_t blocks[][2] = {{1, 1},  {2, 1},  {4, 1},  {8, 8}, {16, 16}, {32, 32}, {64, 64}, {3, 5},
                                    {1, 16}, {16, 1}, {5, 48}, {7, 1}, {4, 4},   {1, 130}, {5, 400}};
static const sparta_dtype types[] = {SPARTA_F32, SPARTA_F16, SPARTA_BF16, SPARTA_F64};
static const char *const epilogues[] = {
    NULL,      "",          "bias",     "bias relu",      "add", "bias gelu add", "bias add relu", "tanh",
    "sigmoid", "gelu_tanh", "silu mul", "bias quick_gelu"};

static shape random_shape(int64_t height, int64_t width, sparta_dtype dtype)
{
    shape h = {.height = height, .width = width, .dtype = dtype, .batch = below(8) ? 1 + below(3) : 0};
    h.rows = below(12) ? 1 + below(below(3) ? 40 : 150) : 0;
    h.cols = below(12) ? 1 + below(below(3) ? 40 : 150) : 0;
    h.own = below(2);
    h.keep = below(2);
    h.density = (double)below(5) / 5;
    return h;
}
static int64_t random_free(void)
{
    static const int64_t sizes[] = {0, 1, 2, 7, 16, 31, 48, 64, 65, 80, 128, 150};
    return sizes[below(SP_COUNT(sizes))];
}

static void is_near(double is, double should, sparta_dtype dtype, const char *what)
{
    if (!(fabs(is - should) <= tolerance(dtype, should)))
        fail_msg("%s of %s: %.9g, expected %.9g", what, sparta_dtype_name(dtype), is, should);
}

/* ------------------------------------------------------------------ multiply */

static double ended(double v, const char *words, double bias, double residual)
{
    sp_words list;
    assert_null(sp_words_parse(words, !words || strstr(words, "bias"),
                               words && (strstr(words, "add") || strstr(words, "mul")), &list));
    for (int i = 0; i < list.n; i++) {
        const sp_word *w = sp_word_row(list.word[i]);
        v = sp_word_apply(w, v, list.word[i] == SP_WORD_BIAS ? bias : residual);
    }
    return v;
}

static void multiply_once(int64_t height, int64_t width, sparta_dtype dtype)
{
    shape h = random_shape(height, width, dtype);
    h.shared = !h.own && below(3) == 0;
    matrix m = make_matrix(&h);
    const int turned = (int)below(2), threads = (int)below(4);
    const int64_t in = turned ? h.rows : h.cols, out = turned ? h.cols : h.rows, f = random_free();
    const char *words = epilogues[below(SP_COUNT(epilogues))];
    sparta_tensor x = cube(dtype, h.batch, in, f, below(4) == 0), y = cube(dtype, h.batch, out, f, false),
                  residual = cube(dtype, h.batch, out, f, below(4) == 0),
                  bias = cube(dtype, 1, 1, out, false);
    bias = (sparta_tensor){
        .dtype = dtype, .rank = 1, .dim = {out}, .stride = {bias.stride[2]}, .data = bias.data};
    sparta_multiply_options o = {.size = sizeof o, .turned = turned, .epilogue = words};
    if (!words || strstr(words, "bias")) o.bias = &bias;
    if (words && (strstr(words, "add") || strstr(words, "mul"))) o.residual = &residual;
    sparta_launch l = launch_of(turned ? SPARTA_MULTIPLY_TURNED : SPARTA_MULTIPLY, &m, &x, &y, threads);
    works(sparta_blocks_multiply(&m.s, &x, &y, &o, &l, message, sizeof message));
    for (int64_t b = 0; b < h.batch; b++)
        for (int64_t i = 0; i < out; i++)
            for (int64_t k = 0; k < f; k++) {
                double sum = 0;
                for (int64_t j = 0; j < in; j++)
                    sum +=
                        m.dense[turned ? (b * in + j) * out + i : (b * out + i) * in + j] * at3(&x, b, j, k);
                is_near(at3(&y, b, i, k),
                        ended(sum, words, element(&bias, i * bias.stride[0]), at3(&residual, b, i, k)), dtype,
                        turned ? "turned" : "multiply");
            }
    free(l.workspace);
    free(x.data), free(y.data), free(residual.data), free(bias.data);
    free_matrix(&m);
}

/* A bias is added to whole sums, however large it is: to the bit what comes of adding it to the product without one. */
static void biased_once(int64_t height, int64_t width, sparta_dtype dtype)
{
    shape h = random_shape(height, width, dtype);
    matrix m = make_matrix(&h);
    const int turned = (int)below(2), threads = (int)below(4);
    const int64_t in = turned ? h.rows : h.cols, out = turned ? h.cols : h.rows, f = random_free();
    sparta_tensor x = cube(dtype, h.batch, in, f, false), y = cube(dtype, h.batch, out, f, false),
                  sums = cube(dtype, h.batch, out, f, false), bias = plain(dtype, 1, &out);
    sparta_multiply_options o = {.size = sizeof o, .turned = turned};
    for (int64_t i = 0; i < out; i++) set_element(&bias, i, 3000 * number());
    for (int biased = 0; biased < 2 && dtype == SPARTA_F32; biased++) {
        sparta_tensor *to = biased ? &y : &sums;
        sparta_launch l = launch_of(turned ? SPARTA_MULTIPLY_TURNED : SPARTA_MULTIPLY, &m, &x, to, threads);
        o.bias = biased ? &bias : NULL;
        works(sparta_blocks_multiply(&m.s, &x, to, &o, &l, message, sizeof message));
        free(l.workspace);
    }
    for (int64_t i = 0; i < h.batch * out * f && dtype == SPARTA_F32; i++) {
        const int64_t b = i / (out * f), row = i / f % out, k = i % f;
        const float should = (float)at3(&sums, b, row, k) + (float)element(&bias, row);
        if (at3(&y, b, row, k) != (double)should)
            fail_msg("%ldx%ld%s: %.9g with a bias of %.9g, expected %.9g", (long)height, (long)width,
                     turned ? " turned" : "", at3(&y, b, row, k), element(&bias, row), (double)should);
    }
    free(x.data), free(y.data), free(sums.data), free(bias.data);
    free_matrix(&m);
}

/* What a dense product in f32 gives, which takes runs of 256 inputs, as those of other libraries do. */
static float plain_sum(const matrix *m, const sparta_tensor *x, int64_t i, int64_t k)
{
    const int64_t in = m->s.cols;
    float all = 0;
    for (int64_t j0 = 0; j0 < in; j0 += 256) {
        float sum = 0;
        for (int64_t j = j0; j < SP_MIN(j0 + 256, in); j++)
            sum = fmaf((float)m->dense[i * in + j], (float)at3(x, 0, j, k), sum);
        all += sum;
    }
    return all;
}

/* Long sums of numbers that have a mean, where every addition rounds: twice what a dense product is off by, and a rounding of the largest sum. */
static void exact_once(int64_t height, int64_t width, double density)
{
    const int64_t in = 1500, out = 24, f = 20;
    const shape h = {.rows = out,
                     .cols = in,
                     .height = height,
                     .width = width,
                     .batch = 1,
                     .density = density,
                     .dtype = SPARTA_F32};
    matrix m = make_matrix(&h);
    const sparta_tensor x = cube(SPARTA_F32, 1, in, f, false), y = cube(SPARTA_F32, 1, out, f, false);
    double ours = 0, plain = 0, largest = 0;
    for (int64_t j = 0; j < in * f; j++) {
        const int64_t at = j / f * x.stride[1] + j % f * x.stride[2];
        set_element(&x, at, element(&x, at) + 30);
    }
    for (int64_t i = 0; i < sparta_tensor_elements(&m.s.values); i++) ((float *)m.s.values.data)[i] += 3;
    twin(&m, &m.s.values, m.dense);
    sparta_launch l = launch_of(SPARTA_MULTIPLY, &m, &x, &y, 1);
    works(sparta_blocks_multiply(&m.s, &x, &y, NULL, &l, message, sizeof message));
    for (int64_t i = 0; i < out * f; i++) {
        double sum = 0;
        for (int64_t j = 0; j < in; j++) sum += m.dense[i / f * in + j] * at3(&x, 0, j, i % f);
        ours += pow(at3(&y, 0, i / f, i % f) - sum, 2) / (double)(out * f);
        plain += pow(plain_sum(&m, &x, i / f, i % f) - sum, 2) / (double)(out * f);
        largest = fmax(largest, fabs(sum));
    }
    if (!(sqrt(ours) <= 2 * sqrt(plain) + largest * 0x1p-24))
        fail_msg("%ldx%ld, density %g: off by %g, a dense product by %g", (long)height, (long)width, density,
                 sqrt(ours), sqrt(plain));
    free(l.workspace), free(x.data), free(y.data);
    free_matrix(&m);
}

/* ------------------------------------------------------------------ sample, softmax */

/* What does not exist in the blocks is 0. */
static void rest_is_zero(const matrix *m, const sparta_tensor *values)
{
    const int64_t n = sparta_tensor_elements(values);
    uint8_t *seen = calloc((size_t)n + 1, 1);
    for (int64_t b = 0; b < m->s.batch; b++)
        for (int64_t i = 0; i < m->s.rows; i++)
            for (int64_t j = 0; j < m->s.cols; j++) {
                const int64_t at = place_of(m, b, i, j);
                if (at >= 0) seen[b * matrix_step(m) + at] = 1;
            }
    for (int64_t i = 0; i < n; i++)
        if (!seen[i] && element(values, i) != 0) fail_msg("value %d is not 0 but does not exist", (int)i);
    free(seen);
}

static void sample_once(int64_t height, int64_t width, sparta_dtype dtype)
{
    const shape h = random_shape(height, width, dtype);
    matrix m = make_matrix(&h);
    const int64_t f = random_free();
    const double scale = number();
    sparta_tensor a = cube(dtype, h.batch, h.rows, f, below(4) == 0),
                  c = cube(dtype, h.batch, h.cols, f, below(4) == 0);
    sparta_launch l = launch_of(SPARTA_SAMPLE, &m, &a, &c, (int)below(4));
    works(sparta_blocks_sample(&m.s, &a, &c, scale, &l, message, sizeof message));
    twin(&m, &m.s.values, m.dense);
    for (int64_t b = 0; b < h.batch; b++)
        for (int64_t i = 0; i < h.rows; i++)
            for (int64_t j = 0; j < h.cols; j++) {
                double sum = 0;
                for (int64_t k = 0; k < f; k++) sum += at3(&a, b, i, k) * at3(&c, b, j, k);
                const int64_t at = (b * h.rows + i) * h.cols + j;
                if (m.there[at]) is_near(m.dense[at], scale * sum, dtype, "sample");
            }
    rest_is_zero(&m, &m.s.values);
    free(l.workspace);
    free(a.data), free(c.data);
    free_matrix(&m);
}

static void softmax_once(int64_t height, int64_t width, sparta_dtype dtype)
{
    const shape h = random_shape(height, width, dtype);
    matrix m = make_matrix(&h);
    const double scale = below(5) ? number() * 8 : 0;
    const int64_t all = h.batch * h.rows * h.cols;
    sparta_tensor out = below(2) ? m.s.values : new_values(&m, &h), g = new_values(&m, &h);
    double *p = malloc((size_t)all * sizeof *p + 1), *dp = malloc((size_t)all * sizeof *dp + 1);
    sparta_launch l = launch_of(SPARTA_SOFTMAX, &m, NULL, NULL, (int)below(4));
    works(sparta_blocks_softmax(&m.s, scale, &out, &l, message, sizeof message));
    twin(&m, &out, p);
    for (int64_t r = 0; r < h.batch * h.rows; r++) {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < h.cols; j++)
            if (m.there[r * h.cols + j]) most = fmax(most, scale * m.dense[r * h.cols + j]);
        for (int64_t j = 0; j < h.cols; j++)
            if (m.there[r * h.cols + j]) sum += exp(scale * m.dense[r * h.cols + j] - most);
        for (int64_t j = 0; j < h.cols; j++)
            if (m.there[r * h.cols + j])
                is_near(p[r * h.cols + j], exp(scale * m.dense[r * h.cols + j] - most) / sum, dtype,
                        "softmax");
    }
    rest_is_zero(&m, &out);
    free(l.workspace);
    fill_values(&m, &g);
    twin(&m, &g, dp);
    sparta_tensor values = m.s.values, to = below(2) ? g : below(2) ? out : new_values(&m, &h);
    m.s.values = out;
    l = launch_of(SPARTA_SOFTMAX_GRADIENT, &m, NULL, NULL, (int)below(4));
    works(sparta_blocks_softmax_gradient(&m.s, scale, &g, &to, &l, message, sizeof message));
    twin(&m, &to, m.dense);
    for (int64_t r = 0; r < h.batch * h.rows; r++) {
        double sum = 0;
        for (int64_t j = 0; j < h.cols; j++) sum += p[r * h.cols + j] * dp[r * h.cols + j];
        for (int64_t j = 0; j < h.cols; j++)
            is_near(m.dense[r * h.cols + j], scale * p[r * h.cols + j] * (dp[r * h.cols + j] - sum), dtype,
                    "gradient of the softmax");
    }
    rest_is_zero(&m, &to);
    if (to.data != g.data && to.data != out.data) free(to.data);
    if (out.data != values.data) free(out.data);
    m.s.values = values;
    free(l.workspace), free(g.data), free(p), free(dp);
    free_matrix(&m);
}

/* ------------------------------------------------------------------ all of it, with each target */

typedef void (*once)(int64_t height, int64_t width, sparta_dtype dtype);

static void everywhere(once one)
{
    const sp_kernels *const tables[] = {[SP_TARGET_AVX512] = &sp_kernels_avx512,
                                        [SP_TARGET_AVX2] = &sp_kernels_avx2,
                                        [SP_TARGET_PORTABLE] = &sp_kernels_portable};
    for (int t = 0; t < SP_CPU_TARGETS; t++) {
        if (!tables[t]->outside || !sp_target_fits((sp_target)t)) continue;
        sp_kernels_use(tables[t]);
        rng = sp_rng_seed(7); /* the same cases for each */
        for (size_t i = 0; i < SP_COUNT(blocks); i++)
            for (size_t k = 0; k < SP_COUNT(types); k++)
                for (int times = 0; times < 12; times++) {
                    sp_sparse_share_from = below(2) ? 0 : 1e9;
                    one(blocks[i][0], blocks[i][1], types[k]);
                }
    }
    sp_kernels_use(NULL);
}

static void multiplies(void **state)
{
    (void)state;
    everywhere(multiply_once);
    assert_true(shared_out > 100);
}

static void biases_are_added_to_whole_sums(void **state)
{
    (void)state;
    everywhere(biased_once);
}
static void sums_are_as_exact_as_those_of_a_dense_product(void **state)
{
    static const double densities[] = {1, 0.5, 0.1};
    (void)state;
    for (size_t i = 0; i < SP_COUNT(blocks); i++)
        for (size_t k = 0; k < SP_COUNT(densities); k++) exact_once(blocks[i][0], blocks[i][1], densities[k]);
}
static void samples(void **state)
{
    (void)state;
    everywhere(sample_once);
}
static void softmaxes(void **state)
{
    (void)state;
    everywhere(softmax_once);
}

/* ------------------------------------------------------------------ non-finite numbers */

static void infinities_are_those_of_a_dense_softmax(void **state)
{
    (void)state;
    int32_t pos[] = {0, 3, 6, 9, 9}, crd[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    float v[] = {-INFINITY, 0, 1, -INFINITY, -INFINITY, -INFINITY, 0, INFINITY, 1}, out[9];
    sparta_blocks s = {
        .size = sizeof s, .rows = 4, .cols = 3, .height = 1, .width = 1, .batch = 1, .patterns = 1};
    s.pos = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){5}, pos);
    s.crd = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){9}, crd);
    s.values = sparta_tensor_view(SPARTA_F32, 4, (int64_t[]){1, 9, 1, 1}, v);
    const sparta_tensor o = sparta_tensor_view(SPARTA_F32, 4, (int64_t[]){1, 9, 1, 1}, out);
    char room[4096];
    const sparta_launch l = {.size = sizeof l, .workspace = room, .workspace_bytes = sizeof room};
    works(sparta_blocks_softmax(&s, 1, &o, &l, message, sizeof message));
    assert_true(out[0] == 0 && fabsf(out[1] - 0.268941f) < 1e-6f && fabsf(out[2] - 0.731059f) < 1e-6f);
    assert_true(isnan(out[3]) && isnan(out[4]) && isnan(out[5]) && isnan(out[7]));
    for (int i = 0; i < 9; i++) v[i] = (float)i;
    works(sparta_blocks_softmax(&s, NAN, &o, &l, message, sizeof message));
    for (int i = 0; i < 9; i++) assert_true(isnan(out[i]));
}

/* An element of a block that does not exist is a 0 like any other, in every type. */
static void zero_by_infinity_is_nan(void **state)
{
    (void)state;
    int32_t pos[] = {0, 1}, crd[] = {0};
    uint8_t keep[] = {1, 0, 1, 1};
    char values[4 * 8], x[2 * 8], y[2 * 8], room[4096];
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        sparta_blocks s = {
            .size = sizeof s, .rows = 2, .cols = 2, .height = 2, .width = 2, .batch = 1, .patterns = 1};
        s.pos = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){2}, pos);
        s.crd = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){1}, crd);
        s.keep = sparta_tensor_view(SPARTA_BOOL, 3, (int64_t[]){1, 2, 2}, keep);
        s.values = sparta_tensor_view(types[t], 3, (int64_t[]){1, 2, 2}, values);
        const sparta_tensor in = sparta_tensor_view(types[t], 3, (int64_t[]){1, 2, 1}, x),
                            out = sparta_tensor_view(types[t], 3, (int64_t[]){1, 2, 1}, y);
        for (int i = 0; i < 4; i++) set_element(&s.values, i, 1);
        set_element(&in, 0, 1), set_element(&in, 1, INFINITY);
        const sparta_launch l = {.size = sizeof l, .workspace = room, .workspace_bytes = sizeof room};
        works(sparta_blocks_multiply(&s, &in, &out, NULL, &l, message, sizeof message));
        assert_true(isnan(element(&out, 0)) && isinf(element(&out, 1)));
    }
}

/* ------------------------------------------------------------------ what is refused */

typedef struct small {
    int32_t pos[4], crd[5];
    float values[5 * 4], x[6 * 8], y[10 * 8];
    uint8_t keep[5 * 4];
    sparta_blocks s;
    sparta_tensor in, out;
    char room[1 << 16];
    sparta_launch l;
} small;

/* 10 x 6 in strips of 4: {1 3} {0 2 5} {}. */
static void make_small(small *m)
{
    *m = (small){.pos = {0, 2, 5, 5}, .crd = {1, 3, 0, 2, 5}};
    m->s = (sparta_blocks){
        .size = sizeof m->s, .rows = 10, .cols = 6, .height = 4, .width = 1, .batch = 1, .patterns = 1};
    m->s.pos = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){4}, m->pos);
    m->s.crd = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){5}, m->crd);
    m->s.values = sparta_tensor_view(SPARTA_F32, 4, (int64_t[]){1, 5, 4, 1}, m->values);
    m->in = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, 6, 8}, m->x);
    m->out = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, 10, 8}, m->y);
    m->l = (sparta_launch){.size = sizeof m->l, .workspace = m->room, .workspace_bytes = sizeof m->room};
    for (size_t i = 0; i < SP_COUNT(m->y); i++) m->y[i] = 7;
}

/* Fails, says so, and leaves the result as it was. */
static void refused(small *m, sparta_status status, const char *words)
{
    const sparta_status is =
        sparta_blocks_multiply(&m->s, &m->in, &m->out, NULL, &m->l, message, sizeof message);
    if (is != status || !strstr(message, words))
        fail_msg("%s: '%s', expected %s: '%s'", sparta_status_name(is), message, sparta_status_name(status),
                 words);
    assert_true(!strncmp(message, "multiply: ", 10));
    for (size_t i = 0; i < SP_COUNT(m->y); i++) assert_true(m->y[i] == 7);
    assert_int_equal(sparta_blocks_multiply(&m->s, &m->in, &m->out, NULL, &m->l, NULL, 0), status);
    make_small(m);
}

static void hostile_indices_are_refused(void **state)
{
    (void)state;
    static small m;
    make_small(&m);
    works(sparta_blocks_multiply(&m.s, &m.in, &m.out, NULL, &m.l, message, sizeof message));
    make_small(&m);
    m.crd[1] = 6;
    refused(&m, SPARTA_E_RANGE, "crd[1] is 6, the matrix has 6 columns of blocks");
    m.crd[4] = -1;
    refused(&m, SPARTA_E_RANGE, "crd[4] is -1");
    m.crd[4] = INT32_MIN;
    refused(&m, SPARTA_E_RANGE, "crd[4] is -2147483648");
    m.crd[3] = 0;
    refused(&m, SPARTA_E_RANGE, "crd[3] is 0 behind 0, expected to ascend");
    m.crd[0] = 5;
    refused(&m, SPARTA_E_RANGE, "crd[1] is 3 behind 5");
    m.pos[1] = 6;
    refused(&m, SPARTA_E_RANGE, "pos[0] is 0 and pos[1] is 6, expected to ascend from 0 to 5");
    m.pos[1] = -1;
    refused(&m, SPARTA_E_RANGE, "pos[0] is 0 and pos[1] is -1");
    m.pos[0] = 1;
    refused(&m, SPARTA_E_RANGE, "pos[0] is 1");
    m.pos[3] = 4;
    refused(&m, SPARTA_E_RANGE, "pos[2] is 5 and pos[3] is 4");
    m.pos[2] = m.pos[3] = 4;
    refused(&m, SPARTA_E_RANGE, "pos ends with 4, there are 5 blocks");
    m.pos[1] = 0, m.crd[0] = 2, m.crd[1] = 1; /* the row before begins there, but it is empty */
    refused(&m, SPARTA_E_RANGE, "crd[1] is 1 behind 2");
}

/* A device that no machine has: GPUs are numbered from 0, devices from 1, and no more than 64 are looked at. */
static void on_no_gpu(small *m)
{
    m->s.pos.device = m->s.crd.device = m->s.values.device = m->in.device = m->out.device = 65;
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static small m;
    make_small(&m);
    m.s.size = 0;
    refused(&m, SPARTA_E_USAGE, "size of the blocks");
    m.s.height = 0;
    refused(&m, SPARTA_E_SHAPE, "height is 0, expected 1 to 65536");
    m.s.rows = -1;
    refused(&m, SPARTA_E_SHAPE, "rows is -1");
    m.s.rows = 13;
    refused(&m, SPARTA_E_SHAPE, "pos is 4, expected 5");
    m.s.patterns = 2;
    refused(&m, SPARTA_E_SHAPE, "2 patterns for a batch of 1");
    m.s.pos.dtype = SPARTA_I64;
    refused(&m, SPARTA_E_DTYPE, "pos is i64, expected i32");
    m.s.crd.stride[0] = 2;
    refused(&m, SPARTA_E_UNSUPPORTED, "crd is not contiguous");
    m.s.crd.data = NULL;
    refused(&m, SPARTA_E_USAGE, "crd has no data");
    m.s.values.dim[1] = 4;
    refused(&m, SPARTA_E_SHAPE, "values is 1x4x4x1, expected 1x5x4x1");
    m.s.values.dtype = SPARTA_I32;
    refused(&m, SPARTA_E_DTYPE, "values are i32");
    m.s.values.device = 1;
    refused(&m, SPARTA_E_UNSUPPORTED, "pos is on device 0 and the values on 1; move it");
    m.in.device = 1;
    refused(&m, SPARTA_E_UNSUPPORTED, "x is on device 1 and the values on 0; move it");
    on_no_gpu(&m);
    refused(&m, SPARTA_E_UNSUPPORTED, "with contiguous features");
    on_no_gpu(&m);
    m.in.stride[1] = m.out.stride[1] = 1;
    m.in.stride[2] = 6, m.out.stride[2] = 10;
    refused(&m, SPARTA_E_DEVICE, "there is no GPU 64");
    m.s.keep = sparta_tensor_view(SPARTA_BOOL, 3, (int64_t[]){5, 1, 4}, m.keep);
    refused(&m, SPARTA_E_SHAPE, "keep is 5x1x4, expected 5x4x1");
    m.s.keep = sparta_tensor_view(SPARTA_BOOL, 3, (int64_t[]){0, 4, 1}, NULL);
    refused(&m, SPARTA_E_SHAPE, "keep is 0x4x1, expected 5x4x1");
    m.s.keep = sparta_tensor_view(SPARTA_BOOL, 3, (int64_t[]){5, 4, 1}, NULL);
    refused(&m, SPARTA_E_USAGE, "keep has no data");
    m.in.dim[1] = 5;
    refused(&m, SPARTA_E_SHAPE, "x is 1x5x8, expected 1x6x8");
    m.in.rank = 2;
    refused(&m, SPARTA_E_SHAPE, "x is 1x6, expected 1x6x?");
    m.out.dim[2] = 9;
    refused(&m, SPARTA_E_SHAPE, "out is 1x10x9, expected 1x10x8");
    m.out.stride[2] = 0;
    refused(&m, SPARTA_E_USAGE, "out has a stride of 0");
    m.in.dtype = SPARTA_F16;
    refused(&m, SPARTA_E_DTYPE, "x is f16, expected f32");
    m.in.data = NULL;
    refused(&m, SPARTA_E_USAGE, "x has no data");
    m.l.workspace_bytes = 64;
    refused(&m, SPARTA_E_MEMORY, "a workspace of 64 bytes");
    m.l.workspace = NULL;
    refused(&m, SPARTA_E_MEMORY, "a workspace of 0 bytes");
    m.l.size = 0;
    refused(&m, SPARTA_E_USAGE, "launch");
    m.l.stream = &m;
    refused(&m, SPARTA_E_UNSUPPORTED, "streams");
    /* So large that bytes would overflow, and without memory: a stride of 0. */
    m.s.batch = INT32_MAX;
    m.s.values = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){5, 4, 1}, m.values);
    m.in = (sparta_tensor){SPARTA_F32, 3, {INT32_MAX, 6, INT32_MAX}, {0, 0, 0}, m.x, 0};
    m.out = (sparta_tensor){SPARTA_F32, 3, {INT32_MAX, 10, INT32_MAX}, {1, 1, 1}, m.y, 0};
    refused(&m, SPARTA_E_LIMIT, "too large");
}

/* Arrays without elements have strides of 0, dims of one element any stride. */
static void strides_that_lead_nowhere_are_not_read(void **state)
{
    (void)state;
    static small m;
    make_small(&m);
    m.in = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, 6, 0}, NULL);
    m.out = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, 10, 0}, NULL);
    works(sparta_blocks_multiply(&m.s, &m.in, &m.out, NULL, &m.l, message, sizeof message));
    m.crd[1] = 6; /* what has no result is checked too */
    refused(&m, SPARTA_E_RANGE, "crd[1] is 6");
    m.in.stride[0] = INT64_MAX, m.out.stride[0] = INT64_MIN;
    works(sparta_blocks_multiply(&m.s, &m.in, &m.out, NULL, &m.l, message, sizeof message));
    works(sparta_blocks_sample(&m.s, &m.out, &m.in, 1, &m.l, message, sizeof message));
    m.in.dim[2] = m.out.dim[2] = 1, m.in.stride[2] = INT64_MAX, m.out.stride[2] = INT64_MIN;
    works(sparta_blocks_multiply(&m.s, &m.in, &m.out, NULL, &m.l, message, sizeof message));
    works(sparta_blocks_sample(&m.s, &m.out, &m.in, 1, &m.l, message, sizeof message));
    /* Turned, with no rows: the operand has none, the result is 0. */
    const sparta_multiply_options turned = {.size = sizeof turned, .turned = 1};
    make_small(&m);
    m.s.rows = 0, m.pos[0] = 0;
    m.s.pos.dim[0] = 1, m.s.crd.dim[0] = m.s.values.dim[1] = 0;
    const sparta_tensor none = {SPARTA_F32, 3, {1, 0, 8}, {INT64_MAX, INT64_MAX, INT64_MAX}, NULL, 0};
    m.out.dim[1] = 6;
    works(sparta_blocks_multiply(&m.s, &none, &m.out, &turned, &m.l, message, sizeof message));
    for (int i = 0; i < 6 * 8; i++) assert_true(m.y[i] == 0);
}

/* No room is asked for what is not there: without features there is nothing to bring into order. */
static void nothing_needs_no_room(void **state)
{
    (void)state;
    const int64_t batch = 1 << 24;
    for (int wide = 0; wide < 2; wide++) {
        sparta_blocks s = {
            .size = sizeof s, .rows = 4, .cols = INT32_MAX, .height = 4, .batch = batch, .patterns = 1};
        s.width = wide ? 16 : 1;
        s.pos = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){2}, NULL);
        s.crd = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){0}, NULL);
        s.values = sparta_tensor_view(SPARTA_F16, 4, (int64_t[]){batch, 0, 4, s.width}, NULL);
        const sparta_tensor a = sparta_tensor_view(SPARTA_F16, 3, (int64_t[]){batch, 4, 0}, NULL),
                            c = sparta_tensor_view(SPARTA_F16, 3, (int64_t[]){batch, INT32_MAX, 0}, NULL);
        assert_int_equal(sparta_blocks_workspace(SPARTA_SAMPLE, &s, &a, &c, NULL), 0);
    }
}

static void wrong_endings_are_refused(void **state)
{
    (void)state;
    static small m;
    make_small(&m);
    const sparta_tensor bias = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){10}, m.x);
    const struct {
        const char *epilogue, *words;
        int64_t rows;
    } cases[] = {{"bias swish", "a word that is not known", 10},
                 {"relu bias", "the bias behind other words", 10},
                 {"relu", "disagree about a bias", 10},
                 {"bias add", "disagree about a residual", 10},
                 {"bias relu relu relu relu relu relu relu relu", "more than 8 words", 10},
                 {"bias", "bias is 9, expected 10", 9}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sparta_tensor b = bias;
        b.dim[0] = cases[i].rows;
        const sparta_multiply_options o = {.size = sizeof o, .epilogue = cases[i].epilogue, .bias = &b};
        assert_int_not_equal(sparta_blocks_multiply(&m.s, &m.in, &m.out, &o, &m.l, message, sizeof message),
                             SPARTA_OK);
        if (!strstr(message, cases[i].words)) fail_msg("'%s', expected '%s'", message, cases[i].words);
    }
    /* One matrix for a whole batch can only be multiplied. */
    m.s.batch = 2;
    m.s.values = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){5, 4, 1}, m.values);
    m.in.dim[0] = m.out.dim[0] = 2;
    m.in.stride[0] = m.out.stride[0] = 0;
    assert_int_equal(sparta_blocks_sample(&m.s, &m.out, &m.in, 1, &m.l, message, sizeof message),
                     SPARTA_E_SHAPE);
    assert_non_null(strstr(message, "sample: values are those of one matrix"));
    assert_int_equal(sparta_blocks_softmax(&m.s, 1, &m.s.values, &m.l, message, sizeof message),
                     SPARTA_E_SHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multiplies),
        cmocka_unit_test(biases_are_added_to_whole_sums),
        cmocka_unit_test(sums_are_as_exact_as_those_of_a_dense_product),
        cmocka_unit_test(samples),
        cmocka_unit_test(softmaxes),
        cmocka_unit_test(infinities_are_those_of_a_dense_softmax),
        cmocka_unit_test(zero_by_infinity_is_nan),
        cmocka_unit_test(hostile_indices_are_refused),
        cmocka_unit_test(strides_that_lead_nowhere_are_not_read),
        cmocka_unit_test(nothing_needs_no_room),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(wrong_endings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
