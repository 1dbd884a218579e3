/* Memory that the caller lends, changed and freed after what reads it was made: positions and coordinates are the library's own from then on, so that
 * whatever stands there later changes no answer and leads no kernel astray (run it with BUILD=asan); values are read where they lie. */
#include "unit/api_bed.h"

enum { I = 24, J = 20, K = 7 };
static float A[I * J], B[J * K];

typedef struct lent { /* a packed tensor's arrays in memory of the caller, each in a block of its own */
    sparta_arrays a;
} lent;

static sparta_tensor f32(int64_t a, int64_t b, void *data)
{
    return sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){a, b}, data);
}

/* Whole numbers: any order of sums gives the same. */
static int set(void **state)
{
    for (int i = 0; i < I * J; i++) A[i] = (i / J / 4 + i) % 5 ? 0 : (float)(i % 7 + 1);
    for (int i = 0; i < J * K; i++) B[i] = (float)(i % 9 - 4);
    return enter(state);
}

static size_t bytes_of(const sparta_tensor *t)
{
    return t->data ? (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype) : 0;
}

static void copied(sparta_tensor *t)
{
    void *memory = bytes_of(t) ? malloc(bytes_of(t)) : NULL;
    if (memory) memcpy(memory, t->data, bytes_of(t));
    t->data = memory;
}

enum { ARRAYS = 12 };

static lent lend(const char *format)
{
    lent l = {SPARTA_OPTIONS(sparta_arrays)};
    sparta_packed *p = NULL;
    const sparta_tensor a = f32(I, J, A);
    ok(sparta_packed_create(cx, format, &a, NULL, 100, &p));
    ok(sparta_packed_arrays(cx, p, &l.a));
    for (int i = 0; i < ARRAYS; i++) copied(&l.a.pos[i]), copied(&l.a.crd[i]);
    copied(&l.a.values);
    sparta_packed_free(p);
    return l;
}

typedef void spoil(sparta_tensor *t);

static void fill_with(sparta_tensor *t, int byte)
{
    if (t->data) memset(t->data, byte, bytes_of(t));
}
static void all_ones(sparta_tensor *t)
{
    fill_with(t, 0xff);
}
static void large(sparta_tensor *t)
{
    fill_with(t, 0x3b);
}
static void none(sparta_tensor *t)
{
    fill_with(t, 0);
}
static void let_go(sparta_tensor *t)
{
    free(t->data);
    t->data = NULL;
}
static spoil *const spoils[] = {all_ones, large, none, let_go};
enum { SPOILS = sizeof spoils / sizeof *spoils };

static void spoil_positions(lent *l, spoil *how)
{
    for (int i = 0; i < ARRAYS; i++) how(&l->a.pos[i]), how(&l->a.crd[i]);
}

static void give_back(lent *l)
{
    spoil_positions(l, let_go);
    let_go(&l->a.values);
}

/* Every way to read it: as it was lent, but for values, which are `times` what they were. */
static void reads_as(const sparta_packed *p, float times)
{
    float dense[I * J];
    const sparta_tensor out = f32(I, J, dense);
    sparta_packed *other = NULL;
    ok(sparta_packed_unpack(cx, p, &out));
    for (int i = 0; i < I * J; i++) assert_true(dense[i] == times * A[i]);
    ok(sparta_packed_convert(cx, p, "coo", 100, &other));
    ok(sparta_packed_unpack(cx, other, &out));
    for (int i = 0; i < I * J; i++) assert_true(dense[i] == times * A[i]);
    sparta_packed_free(other);
    ok(sparta_packed_save(cx, p, in_root("lent.npz")));
}

static void multiplies(sparta_expression *e, float times)
{
    float C[I * K];
    const sparta_named_tensor in = {"B", f32(J, K, B)}, out = {"C", f32(I, K, C)};
    ok(sparta_expression_run(e, &in, 1, &out, 1));
    for (int i = 0; i < I; i++)
        for (int k = 0; k < K; k++) {
            float sum = 0;
            for (int j = 0; j < J; j++) sum += times * A[i * J + j] * B[j * K + k];
            assert_true(C[i * K + k] == sum);
        }
}

static void twice(sparta_tensor *values)
{
    const int64_t n = sparta_tensor_elements(values);
    for (int64_t i = 0; i < n; i++) ((float *)values->data)[i] *= 2;
}

static const char *const formats[] = {"csr",
                                      "csc",
                                      "dcsr",
                                      "coo",
                                      "bsr(4,2)",
                                      "ell",
                                      "bitmap",
                                      "dia",
                                      "csr, pos=i64, crd=i64",
                                      "strip(4)",
                                      "(i,j)->(i/8:dense, j:compressed, i%8:dense)"};

/* One kernel of each format, spoiled in all ways in turn: from the second on its memory is already spoiled. */
static void views(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        lent l = lend(formats[f]);
        sparta_packed *p = NULL;
        sparta_expression *e = NULL;
        ok(sparta_packed_view(cx, &l.a, &p));
        const sparta_expression_operand operand = {.name = "A", .packed = p};
        sparta_expression_spec spec = SPARTA_OPTIONS(sparta_expression_spec);
        spec.text = "C(i,k) = A(i,j)*B(j,k)", spec.operand = &operand, spec.n = 1;
        const int runs = strcmp(formats[f], "strip(4)"); /* opaque ones have no loops */
        if (runs) ok(sparta_expression_create(cx, &spec, &e));
        float times = 1;
        for (int how = 0; how < SPOILS; how++) {
            spoil_positions(&l, spoils[how]);
            reads_as(p, times);
            if (runs) multiplies(e, times);
            twice(&l.a.values);
            times *= 2;
            reads_as(p, times);
            if (runs) multiplies(e, times);
        }
        sparta_expression_free(e);
        sparta_packed_free(p);
        give_back(&l);
    }
}

/* What is spoiled before is refused, and nothing of it is kept. */
static void refused_before(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int how = 0; how < 2; how++) {
            if (!strcmp(formats[f], "bitmap"))
                continue; /* other bits are other elements; its count says so or not */
            lent l = lend(formats[f]);
            sparta_packed *p = NULL;
            spoil_positions(&l, spoils[how]);
            refused(sparta_packed_view(cx, &l.a, &p), SPARTA_E_FORMAT, "");
            assert_null(p);
            give_back(&l);
        }
}

/* An array without elements, and one in a place that the format does not use, are the lender's: whoever frees them takes what lies before them for the
 * head of a block of his own (which these words would be, with another block to free). */
static void lent_without_elements(void **state)
{
    (void)state;
    static void *memory[64];
    for (int i = 1; i < 64; i += 4) memory[i] = memory;
    int32_t pos[I + 1] = {0};
    float dense[I * J];
    const sparta_tensor out = f32(I, J, dense),
                        none = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){0}, memory + 32);
    sparta_arrays a = SPARTA_OPTIONS(sparta_arrays);
    a.dtype = SPARTA_F32, a.rank = 2, a.dim[0] = I, a.dim[1] = J;
    strcpy(a.format, "csr");
    a.pos[1] = sparta_tensor_view(SPARTA_I32, 1, (int64_t[]){I + 1}, pos);
    a.crd[1] = a.pos[7] = none;
    a.values = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){0}, memory + 32);
    for (int how = 0; how < 2; how++) {
        sparta_packed *p = NULL;
        ok(sparta_packed_view(cx, &a, &p));
        ok(sparta_packed_unpack(cx, p, &out));
        for (int i = 0; i < I * J; i++) assert_true(dense[i] == 0);
        sparta_packed_free(p);
        a.crd[1].data = NULL;
    }
    a.crd[7] = sparta_tensor_view(SPARTA_I32, 2, (int64_t[]){2, 3}, memory + 32);
    a.crd[7].stride[0] = 1;
    sparta_packed *p = NULL;
    refused(sparta_packed_view(cx, &a, &p), SPARTA_E_FORMAT, "crd of level 7 are no contiguous array");
}

/* The weight of an operator. */
static void operators(void **state)
{
    (void)state;
    static const char *const stored[] = {
        "strip(4), crd=u16", "csr", "bsr(4,4)", "csc", "coo", "ell", "bitmap", "pairs(128)"};
    for (size_t f = 0; f < sizeof stored / sizeof *stored; f++) {
        lent l = lend(stored[f]);
        const sparta_tensor operand[] = {f32(-1, I, NULL), f32(-1, J, NULL), f32(I, J, NULL)};
        const sparta_arrays *const packed[] = {NULL, NULL, &l.a};
        sparta_operator_spec spec = SPARTA_OPTIONS(sparta_operator_spec);
        spec.expression = "y(m,n) = x(m,k)*w(n,k)", spec.n = 3, spec.operand = operand, spec.packed = packed;
        sparta_operator *op = NULL;
        ok(sparta_operator_create(cx, &spec, &op));
        float x[K * J], y[K * I], times = 1;
        for (int i = 0; i < K * J; i++) x[i] = (float)(i % 5 - 2);
        const sparta_tensor array[] = {f32(K, I, y), f32(K, J, x)};
        for (int how = 0; how < SPOILS; how++) {
            spoil_positions(&l, spoils[how]);
            twice(&l.a.values), times *= 2;
            sparta_launch launch = {.size = sizeof launch};
            launch.workspace_bytes = sparta_operator_workspace(op, array, 2, &launch);
            launch.workspace = aligned_alloc(64, (launch.workspace_bytes + 127) / 64 * 64);
            char said[300] = "";
            assert_int_equal(sparta_operator_run(op, array, 2, &launch, said, sizeof said), SPARTA_OK);
            free(launch.workspace);
            for (int m = 0; m < K; m++)
                for (int n = 0; n < I; n++) {
                    float sum = 0;
                    for (int k = 0; k < J; k++) sum += A[n * J + k] * x[m * J + k];
                    assert_true(y[m * I + n] == times * sum);
                }
        }
        sparta_operator_free(op);
        give_back(&l);
    }
}

/* What is generated reads values where they lie; the walker in its place would keep those of the beginning, and is refused. */
static void without_a_compiler(void **state)
{
    (void)state;
    static const char *const stored[] = {"strip(4), crd=u16", "csr", "coo"};
    sparta_ctx *const mine = cx;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.compiler = o.cache_dir = "";
    cx = sparta_ctx_create(&o);
    for (size_t f = 0; f < sizeof stored / sizeof *stored; f++) {
        lent l = lend(stored[f]);
        const sparta_tensor operand[] = {f32(-1, I, NULL), f32(-1, J, NULL), f32(I, J, NULL)};
        const sparta_arrays *const packed[] = {NULL, NULL, &l.a};
        sparta_operator_spec spec = SPARTA_OPTIONS(sparta_operator_spec);
        spec.expression = "y(m,n) = x(m,k)*w(n,k)", spec.n = 3, spec.operand = operand, spec.packed = packed;
        sparta_operator *op = NULL;
        if (f)
            refused(sparta_operator_create(cx, &spec, &op), SPARTA_E_UNSUPPORTED,
                    "there is no compiler here");
        else
            ok(sparta_operator_create(cx, &spec, &op));
        sparta_operator_free(op);
        give_back(&l);
    }
    sparta_ctx_free(cx);
    cx = mine;
}

/* Products on plain arrays keep nothing: positions are looked at in every call. */
static void plain(void **state)
{
    (void)state;
    lent l = lend("csr");
    float C[I * K];
    char said[300];
    const int64_t n = sparta_tensor_elements(&l.a.values);
    sparta_blocks s = {
        .size = sizeof s, .rows = I, .cols = J, .height = 1, .width = 1, .batch = 1, .patterns = 1};
    s.pos = l.a.pos[1], s.crd = l.a.crd[1];
    s.values = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){n, 1, 1}, l.a.values.data);
    const sparta_tensor x = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, J, K}, B),
                        y = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, I, K}, C);
    sparta_launch launch = {.size = sizeof launch};
    launch.workspace_bytes = sparta_blocks_workspace(SPARTA_MULTIPLY, &s, &x, &y, &launch);
    launch.workspace = aligned_alloc(64, (launch.workspace_bytes + 127) / 64 * 64);
    assert_int_equal(sparta_blocks_multiply(&s, &x, &y, NULL, &launch, said, sizeof said), SPARTA_OK);
    for (int how = 0; how < 2; how++)
        for (int which = 0; which < 2; which++) {
            lent again = lend("csr");
            s.pos = again.a.pos[1], s.crd = again.a.crd[1];
            spoils[how](which ? &s.pos : &s.crd);
            assert_int_not_equal(sparta_blocks_multiply(&s, &x, &y, NULL, &launch, said, sizeof said),
                                 SPARTA_OK);
            give_back(&again);
        }
    free(launch.workspace);
    give_back(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views),
        cmocka_unit_test(refused_before),
        cmocka_unit_test(lent_without_elements),
        cmocka_unit_test(operators),
        cmocka_unit_test(without_a_compiler),
        cmocka_unit_test(plain),
    };
    return cmocka_run_group_tests(tests, set, leave);
}
