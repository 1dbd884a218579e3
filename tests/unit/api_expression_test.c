/* Expressions, as a program sees them: products, samples and sums over operands in any formats against loops over dense arrays. */
#include "unit/api_bed.h"

enum { I = 13, J = 11, K = 19, F = 5 };
static float A[I * J], B[J * K], C[I * K], X[I * F], Y[J * F];

static sparta_tensor f32(int rank, int64_t a, int64_t b, void *data)
{
    const int64_t dim[2] = {a, b};
    return sparta_tensor_view(SPARTA_F32, rank, dim, data);
}

/* Whole numbers, so that any order of sums gives the same. */
static void fill(float *x, int n, int seed, int every)
{
    for (int i = 0; i < n; i++) {
        const int r = (i * 7919 + seed * 104729) % 1009;
        x[i] = r % every ? 0 : (float)(r % 9 - 4 + (r % 9 == 4));
    }
}

static int set(void **state)
{
    fill(A, I * J, 1, 3), fill(B, J * K, 2, 1), fill(X, I * F, 3, 1), fill(Y, J * F, 4, 1);
    return enter(state);
}

static void make(const char *text, const sparta_expression_operand *operand, int n, const char *schedule,
                 sparta_expression **e)
{
    sparta_expression_spec spec = SPARTA_OPTIONS(sparta_expression_spec);
    spec.text = text, spec.operand = operand, spec.n = n, spec.schedule = schedule, spec.limit = 100;
    *e = NULL;
    ok(sparta_expression_create(cx, &spec, e));
}

static void refuse(const char *text, const sparta_expression_operand *operand, int n, const char *schedule,
                   sparta_status status, const char *words)
{
    sparta_expression *e = NULL;
    sparta_expression_spec spec = SPARTA_OPTIONS(sparta_expression_spec);
    spec.text = text, spec.operand = operand, spec.n = n, spec.schedule = schedule;
    refused(sparta_expression_create(cx, &spec, &e), status, words);
    assert_null(e);
}

static void run(sparta_expression *e, const char *in, sparta_tensor x, const char *out, sparta_tensor y)
{
    const sparta_named_tensor input = {in, x}, output = {out, y};
    ok(sparta_expression_run(e, &input, 1, &output, 1));
}

/* C = A B for the first k columns. */
static void is_product(const float *a, const float *b, const float *c, int k, float before)
{
    for (int i = 0; i < I; i++)
        for (int n = 0; n < k; n++) {
            float sum = before;
            for (int j = 0; j < J; j++) sum += a[i * J + j] * b[j * k + n];
            assert_true(c[i * k + n] == sum);
        }
}

static void products(void **state)
{
    (void)state;
    static const char *const formats[] = {"csr", "csc",      "dcsr",
                                          "coo", "bsr(4,2)", "ell",
                                          "dia", "hyb(2,2)", "(i,j)->(j/3:dense, i:compressed, j%3:dense)"};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const sparta_expression_operand a = {.name = "A", .format = formats[f], .tensor = f32(2, I, J, A)};
        sparta_expression *e;
        make("C(i,k) = A(i,j)*B(j,k)", &a, 1, NULL, &e);
        for (int k = K; k > 0; k -= 6) { /* other sizes, and another B, without another kernel */
            fill(B, J * k, k, 1);
            memset(C, 77, sizeof C);
            run(e, "B", f32(2, J, k, B), "C", f32(2, I, k, C));
            is_product(A, B, C, k, 0);
        }
        sparta_expression_free(e);
    }
}

static void adding(void **state)
{
    (void)state;
    const sparta_expression_operand a = {.name = "A", .format = "csr", .tensor = f32(2, I, J, A)};
    sparta_expression *e;
    make("C(i,k) += A(i,j)*B(j,k)", &a, 1, "reorder(i,k,j); vectorize(k,2)", &e);
    for (int i = 0; i < I * K; i++) C[i] = 5;
    run(e, "B", f32(2, J, K, B), "C", f32(2, I, K, C));
    is_product(A, B, C, K, 5);
    assert_non_null(strstr(sparta_expression_nest(e), "k"));
    assert_non_null(strstr(sparta_expression_text(e), "sp_special_0"));
    sparta_expression_free(e);
}

static float sampled(int i, int j)
{
    float sum = 0;
    for (int f = 0; f < F; f++) sum += X[i * F + f] * Y[j * F + f];
    return A[i * J + j] * sum;
}

/* A result with the pattern of an operand: unpacked into what is given, and as it lies. */
static void samples(void **state)
{
    (void)state;
    sparta_packed *p = NULL;
    const sparta_tensor a = f32(2, I, J, A);
    ok(sparta_packed_create(cx, "csr", &a, NULL, 0, &p));
    const sparta_expression_operand operand[] = {{.name = "A", .packed = p}, {.name = "D", .format = "csr"}};
    sparta_expression *e;
    make("D(i,j) = A(i,j)*X(i,f)*Y(j,f)", operand, 2, NULL, &e);
    float D[I * J];
    const sparta_named_tensor in[] = {{"Y", f32(2, J, F, Y)}, {"X", f32(2, I, F, X)}},
                              out = {"D", f32(2, I, J, D)};
    ok(sparta_expression_run(e, in, 2, &out, 1));
    for (int i = 0; i < I; i++)
        for (int j = 0; j < J; j++) assert_true(D[i * J + j] == sampled(i, j));
    X[0] += 1;
    ok(sparta_expression_run(e, in, 2, NULL, 0)); /* only as it is stored */
    sparta_arrays arrays = SPARTA_OPTIONS(sparta_arrays);
    ok(sparta_packed_arrays(cx, sparta_expression_result(e, "D"), &arrays));
    const int *pos = arrays.pos[1].data, *crd = arrays.crd[1].data;
    const float *values = arrays.values.data;
    for (int i = 0; i < I; i++)
        for (int q = pos[i]; q < pos[i + 1]; q++) assert_true(values[q] == sampled(i, crd[q]));
    assert_null(sparta_expression_result(e, "A"));
    assert_null(sparta_expression_result(e, "nobody"));
    sparta_expression_free(e);
    sparta_packed_free(p);
}

/* Another library's csr is an operand as it lies; what is wrong with it is found before a kernel follows it. */
static void foreign(void **state)
{
    (void)state;
    static int pos[I + 1], crd[I * J];
    static float values[I * J];
    for (int i = 0; i < I; i++) {
        pos[i + 1] = pos[i];
        for (int j = 0; j < J; j++)
            if (A[i * J + j] != 0) values[pos[i + 1]] = A[i * J + j], crd[pos[i + 1]++] = j;
    }
    const int64_t rows = I + 1, n = pos[I];
    sparta_arrays arrays = SPARTA_OPTIONS(sparta_arrays);
    strcpy(arrays.format, "csr");
    arrays.dtype = SPARTA_F32, arrays.rank = 2, arrays.dim[0] = I, arrays.dim[1] = J;
    arrays.pos[1] = sparta_tensor_view(SPARTA_I32, 1, &rows, pos);
    arrays.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &n, crd);
    arrays.values = sparta_tensor_view(SPARTA_F32, 1, &n, values);
    sparta_packed *p = NULL;
    sparta_expression *e;
    ok(sparta_packed_view(cx, &arrays, &p));
    make("C(i,k) = A(i,j)*B(j,k)", &(sparta_expression_operand){.name = "A", .packed = p}, 1, NULL, &e);
    run(e, "B", f32(2, J, K, B), "C", f32(2, I, K, C));
    is_product(A, B, C, K, 0);
    sparta_expression_free(e);
    sparta_packed_free(p);
    crd[3] = J;
    p = NULL;
    refused(sparta_packed_view(cx, &arrays, &p), SPARTA_E_FORMAT, "crd");
    assert_null(p);
}

/* A result in dense levels has the size of a tensor that is given for it, or that packed operands give it. */
static void laid_out(void **state)
{
    (void)state;
    static const char *const panels = "(i,j)->(i/4:dense, j:dense, i%4:dense)";
    sparta_expression_operand operand[] = {{.name = "A", .format = "csr", .tensor = f32(2, I, J, A)},
                                           {.name = "C", .format = panels}};
    sparta_expression *e;
    refuse("C(i,k) = A(i,j)*B(j,k)", operand, 2, NULL, SPARTA_E_SHAPE, "C");
    operand[1].tensor = f32(2, I, K, NULL);
    make("C(i,k) = A(i,j)*B(j,k)", operand, 2, NULL, &e);
    run(e, "B", f32(2, J, K, B), "C", f32(2, I, K, C));
    is_product(A, B, C, K, 0);
    const sparta_named_tensor wide = {"B", f32(2, J, 7, B)};
    refused(sparta_expression_run(e, &wide, 1, NULL, 0), SPARTA_E_SHAPE, "k");
    sparta_expression_free(e);
}

static void types(void **state)
{
    (void)state;
    const sparta_expression_operand a = {.name = "A", .format = "csr", .tensor = f32(2, I, J, A)};
    sparta_expression *e;
    make("C(i,k) = A(i,j)*B(j,k)", &a, 1, NULL, &e);
    const sparta_named_tensor in = {"B", f32(2, J, 6, NULL)};
    sparta_named_tensor out = {.name = "C"};
    ok(sparta_expression_types(e, &in, 1, &out, 1));
    assert_true(out.tensor.rank == 2 && out.tensor.dim[0] == I && out.tensor.dim[1] == 6);
    const sparta_expression_value *v = sparta_expression_value_at(e, 0);
    assert_string_equal(v->name, "C");
    assert_true(v->written && !v->format && v->dim[1] == -1);
    v = sparta_expression_value_at(e, 1);
    assert_string_equal(v->format, "(i,j)->(i:dense, j:compressed)");
    assert_true(!v->written && v->dim[0] == I && v->dim[1] == J);
    assert_null(sparta_expression_value_at(e, 3));
    assert_null(sparta_expression_value_at(e, -1));
    sparta_expression_free(e);
    sparta_expression_free(NULL);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const product = "C(i,k) = A(i,j)*B(j,k)";
    const sparta_expression_operand a = {.name = "A", .format = "csr", .tensor = f32(2, I, J, A)},
                                    twice[] = {a, a}, nobody = {.name = "Q", .format = "csr"},
                                    empty = {.name = "A", .format = "csr", .tensor = f32(2, I, J, NULL)},
                                    flat = {.name = "A", .format = "csr", .tensor = f32(1, I, 0, A)};
    refuse("C(i,k) = A(i,j", NULL, 0, NULL, SPARTA_E_USAGE, "expression");
    refuse(NULL, NULL, 0, NULL, SPARTA_E_USAGE, "text");
    refuse(product, twice, 2, NULL, SPARTA_E_USAGE, "twice");
    refuse(product, &nobody, 1, NULL, SPARTA_E_USAGE, "no operand 'Q'");
    refuse(product, &empty, 1, NULL, SPARTA_E_USAGE, "no data");
    refuse(product, &flat, 1, NULL, SPARTA_E_SHAPE, "1 dimension");
    refuse(product, &a, 1, "vectorize(q,2)", SPARTA_E_USAGE, "q");
    sparta_expression *e;
    make(product, &a, 1, NULL, &e);
    sparta_named_tensor in = {"B", f32(2, J, K, B)}, out = {"C", f32(2, I, K, C)};
    refused(sparta_expression_run(e, NULL, 0, &out, 1), SPARTA_E_USAGE, "nothing is given for B");
    refused(sparta_expression_run(e, &in, 1, NULL, 0), SPARTA_E_USAGE, "nothing is given for C");
    refused(sparta_expression_run(e, &out, 1, &in, 1), SPARTA_E_USAGE, "C is written");
    in.tensor.data = C;
    refused(sparta_expression_run(e, &in, 1, &out, 1), SPARTA_E_USAGE, "shares memory");
    in.tensor = f32(2, J + 1, K, B);
    refused(sparta_expression_run(e, &in, 1, &out, 1), SPARTA_E_SHAPE, "j");
    in.tensor = f32(2, J, K, B), in.tensor.dtype = SPARTA_F64;
    refused(sparta_expression_run(e, &in, 1, &out, 1), SPARTA_E_DTYPE, "f64");
    in.tensor = f32(2, J, K, B), in.tensor.stride[0] = 1, in.tensor.stride[1] = J;
    refused(sparta_expression_run(e, &in, 1, &out, 1), SPARTA_E_SHAPE, "row-major");
    in.tensor = f32(2, J, K, B), in.name = "A";
    refused(sparta_expression_run(e, &in, 1, &out, 1), SPARTA_E_USAGE, "was packed");
    in.name = "B";
    ok(sparta_expression_run(e, &in, 1, &out, 1)); /* and it is as good as before */
    is_product(A, B, C, K, 0);
    sparta_expression_free(e);
}

/* Whatever the budget, it is made or refused, and nothing is lost. */
static void budgets(void **state)
{
    (void)state;
    const sparta_expression_operand operand[] = {
        {.name = "A", .format = "hyb(2,2)", .tensor = f32(2, I, J, A)}, {.name = "D", .format = "hyb(2,2)"}};
    sparta_expression_spec spec = SPARTA_OPTIONS(sparta_expression_spec);
    spec.text = "D(i,j) = A(i,j)*X(i,f)*Y(j,f)", spec.operand = operand, spec.n = 2, spec.limit = 100;
    int made = 0, refused_ones = 0;
    for (size_t budget = 16 << 10; budget < 64 << 20; budget += budget / 8) {
        sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
        o.max_memory = budget, o.cache_dir = in_root("cache");
        sparta_ctx *small = sparta_ctx_create(&o);
        if (!small) continue;
        sparta_expression *e = NULL;
        const sparta_status status = sparta_expression_create(small, &spec, &e);
        if (status != SPARTA_OK && status != SPARTA_E_MEMORY) fail_msg("%s", sparta_message(small));
        made += !status, refused_ones += status != SPARTA_OK;
        sparta_expression_free(e);
        sparta_ctx_free(small);
    }
    assert_true(made > 0 && refused_ones > 0);
}

/* Small whole numbers as bf16, the upper half of a float, and as f16, by the compiler's own type. */
static void put_in(sparta_dtype type, uint16_t *to, int i, float v)
{
    const _Float16 half = (_Float16)v;
    uint32_t bits;
    memcpy(&bits, &v, 4);
    to[i] = (uint16_t)(bits >> 16);
    if (type == SPARTA_F16) memcpy(&to[i], &half, 2);
}
static float got(sparta_dtype type, const uint16_t *from, int i)
{
    const uint32_t bits = (uint32_t)from[i] << 16;
    _Float16 half;
    float v;
    memcpy(&v, &bits, 4);
    memcpy(&half, &from[i], 2);
    return type == SPARTA_F16 ? (float)half : v;
}

static void other_types(void **state)
{
    (void)state;
    static uint16_t a[I * J], b[J * K], c[I * K], kept[I * J];
    const sparta_dtype type[] = {SPARTA_BF16, SPARTA_F16};
    for (int turn = 0; turn < 2; turn++) {
        const sparta_dtype t = type[turn], other = type[!turn];
        const int64_t of_a[] = {I, J}, of_b[] = {J, K}, of_c[] = {I, K};
        sparta_tensor ta = sparta_tensor_view(t, 2, of_a, a), tb = sparta_tensor_view(other, 2, of_b, b),
                      tc = sparta_tensor_view(t, 2, of_c, c);
        for (int i = 0; i < I * J; i++) put_in(t, a, i, A[i]);
        for (int i = 0; i < J * K; i++) put_in(other, b, i, B[i]);
        const sparta_expression_operand operand[] = {
            {.name = "A", .format = turn ? "bsr(4,4)" : "csr", .tensor = ta},
            {.name = "B", .tensor = {.dtype = other}}, /* the type alone */
            {.name = "C", .tensor = {.dtype = t}}};
        sparta_expression *e;
        make("C(i,k) = A(i,j)*B(j,k)", operand, 3, NULL, &e);
        assert_int_equal(sparta_expression_value_at(e, 0)->dtype, t);
        for (int again = 0; again < 2; again++) {
            memset(c, 0xff, sizeof c);
            run(e, "B", tb, "C", tc);
            for (int i = 0; i < I * K; i++) C[i] = got(t, c, i);
            is_product(A, B, C, K, 0);
        }
        const sparta_named_tensor in = {"B", tb};
        sparta_named_tensor out = {.name = "C"};
        ok(sparta_expression_types(e, &in, 1, &out, 1));
        assert_int_equal(out.tensor.dtype, t);
        const sparta_named_tensor wide = {"B", f32(2, J, K, B)}, result = {"C", tc};
        refused(sparta_expression_run(e, &wide, 1, &result, 1), SPARTA_E_DTYPE, "say the type");
        sparta_expression_free(e);
        /* += adds to what is there; a result with a pattern has a type, too */
        make("C(i,k) += A(i,j)*B(j,k)", operand, 3, NULL, &e);
        for (int i = 0; i < I * K; i++) put_in(t, c, i, 5);
        run(e, "B", tb, "C", tc);
        for (int i = 0; i < I * K; i++) C[i] = got(t, c, i);
        is_product(A, B, C, K, 5);
        sparta_expression_free(e);
        const sparta_expression_operand like[] = {
            operand[0], {.name = "S", .format = operand[0].format, .tensor = {.dtype = other}}};
        make("S(i,j) = A(i,j)*w", like, 2, NULL, &e);
        float w = 2;
        sparta_tensor ts = sparta_tensor_view(other, 2, of_a, kept);
        run(e, "w", f32(0, 0, 0, &w), "S", ts);
        for (int i = 0; i < I * J; i++) assert_true(got(other, kept, i) == 2 * A[i]);
        sparta_packed_type(sparta_expression_result(e, "S"), &ts);
        assert_int_equal(ts.dtype, other);
        sparta_expression_free(e);
    }
    refuse("C(i,k) = A(i,j)*B(j,k)",
           &(sparta_expression_operand){.name = "B", .tensor = {.dtype = SPARTA_F64}}, 1, NULL,
           SPARTA_E_DTYPE, "f64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_types), cmocka_unit_test(products), cmocka_unit_test(adding),
        cmocka_unit_test(samples),     cmocka_unit_test(foreign),  cmocka_unit_test(laid_out),
        cmocka_unit_test(types),       cmocka_unit_test(refusals), cmocka_unit_test(budgets),
    };
    return cmocka_run_group_tests(tests, set, leave);
}
