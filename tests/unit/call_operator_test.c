/* Operators by themselves (sparta.h, call/operator.h): answers against the references, many threads on one, and what is refused. */
#include "panel_bed.h"
#include "builtin/builtin.h"
#include "call/operator.h"
#include "implement/implement.h"
#include <math.h>
#include <pthread.h>

#define TENSOR(data, ...)                                                                                    \
    sparta_tensor_view(SPARTA_F32, (int)SP_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}, data)

static float *numbers(int64_t n, uint64_t seed)
{
    sp_rng r = sp_rng_seed(seed);
    float *f = sp_alloc_array(cx, (size_t)n + 1, sizeof *f);
    assert_non_null(f);
    for (int64_t i = 0; i < n; i++) f[i] = (float)(2 * sp_rng_uniform(&r) - 1);
    return f;
}

typedef struct product { /* y = relu(x w + b + r) of at most MOST tokens */
    float *x, *w, *b, *r, *want, *y;
    sparta_operator *op;
} product;
enum { MOST = 200, N = 24, K = 40 };

static const char expression[] = "y(m,n) = x(m,k)*w(n,k) + b(n) + r(m,n)";

static sparta_status make_product(product *p, const char *format, const sparta_arrays *packed)
{
    const sparta_tensor operand[] = {TENSOR(NULL, -1, N), TENSOR(NULL, -1, K),
                                     TENSOR(packed ? NULL : p->w, N, K), TENSOR(p->b, N),
                                     TENSOR(NULL, -1, N)};
    const sparta_arrays *arrays[5] = {NULL, NULL, packed};
    const sparta_operator_spec spec = {.size = sizeof spec,
                                       .expression = expression,
                                       .epilogue = "bias add relu",
                                       .n = 5,
                                       .operand = operand,
                                       .packed = arrays,
                                       .format = format};
    return sparta_operator_create(cx, &spec, &p->op);
}

static product make_numbers(void)
{
    product p = {numbers(MOST * K, 1), numbers(N * K, 2),    numbers(N, 3), numbers(MOST * N, 4),
                 numbers(MOST * N, 5), numbers(MOST * N, 6), NULL};
    for (int i = 0; i < N * K; i++)
        if ((i / K / 4 + i) % 5) p.w[i] = 0;
    const sp_attr attr[] = {{.name = "transposed", .kind = SP_ATTR_INT, .i = 1},
                            {.name = "epilogue", .kind = SP_ATTR_STRING, .s = "bias add relu"}};
    const sparta_tensor in[] = {TENSOR(p.x, MOST, K), TENSOR(p.w, N, K), TENSOR(p.b, N),
                                TENSOR(p.r, MOST, N)},
                        out = TENSOR(p.want, MOST, N);
    ok(sp_builtin_Linear(cx, &(sp_op_args){&(sp_attrs){2, attr}, 4, 1, in, &out}));
    return p;
}

static void free_numbers(product *p)
{
    float *const all[] = {p->x, p->w, p->b, p->r, p->want, p->y};
    for (size_t i = 0; i < SP_COUNT(all); i++) sp_free(cx, all[i]);
}

static sparta_status run_product(const product *p, int64_t tokens, float *y, sparta_launch launch,
                                 char *message)
{
    const sparta_tensor array[] = {TENSOR(y, tokens, N), TENSOR(p->x, tokens, K), TENSOR(p->r, tokens, N)};
    launch.size = sizeof launch;
    launch.workspace_bytes = sparta_operator_workspace(p->op, array, 3, &launch);
    assert_true(launch.workspace_bytes > 0);
    launch.workspace = malloc(launch.workspace_bytes);
    memset(launch.workspace, 0xff, launch.workspace_bytes);
    const sparta_status s = sparta_operator_run(p->op, array, 3, &launch, message, message ? 200 : 0);
    free(launch.workspace);
    return s;
}

static void same(const product *p, const float *y, int64_t tokens)
{
    for (int64_t i = 0; i < tokens * N; i++)
        if (!(fabsf(y[i] - p->want[i]) <= 1e-5f))
            fail_msg("element %d: %g, not %g", (int)i, y[i], p->want[i]);
}

static void backwards(void *host, int n, void (*fn)(void *, int), void *arg)
{
    ++*(int *)host;
    for (int i = n; i-- > 0;) fn(arg, i);
}

/* Every storage, every number of tokens, with and without the host's threads. */
static void products(void **state)
{
    (void)state;
    static const char *const formats[] = {NULL, "strip(4), crd=u16", "csr",
                                          "(n,k)->(n/4:dense, k:dense, n%4:dense)"};
    static const int64_t tokens[] = {0, 1, 63, 64, 65, 200};
    product p = make_numbers();
    for (size_t f = 0; f < SP_COUNT(formats); f++) {
        ok(make_product(&p, formats[f], NULL));
        assert_true(sparta_operator_reason(p.op)[0] != 0);
        if (f == 1) assert_non_null(strstr(sparta_operator_reason(p.op), "strip4"));
        for (size_t t = 0; t < SP_COUNT(tokens); t++) {
            int calls = 0;
            ok(run_product(&p, tokens[t], p.y, (sparta_launch){.size = 0}, NULL));
            same(&p, p.y, tokens[t]);
            ok(run_product(&p, tokens[t], p.y, (sparta_launch){.parallel_for = backwards, .host = &calls},
                           NULL));
            assert_int_equal(calls, 0); /* so little work is not shared */
            p.op->share_from = 0;
            memset(p.y, 0xff, (size_t)tokens[t] * N * sizeof(float));
            ok(run_product(&p, tokens[t], p.y, (sparta_launch){.parallel_for = backwards, .host = &calls},
                           NULL));
            same(&p, p.y, tokens[t]);
            assert_int_equal(calls, tokens[t] ? 3 : 0); /* fewer panels than threads: they are shared */
            for (int threads = 1; threads < 7; threads++) {
                calls = 0;
                memset(p.y, 0xff, (size_t)tokens[t] * N * sizeof(float));
                ok(run_product(&p, tokens[t], p.y,
                               (sparta_launch){.parallel_for = backwards, .host = &calls, .threads = threads},
                               NULL));
                same(&p, p.y, tokens[t]);
                if (threads == 2) assert_int_equal(calls, !tokens[t] ? 0 : tokens[t] > 64 ? 1 : 3);
                if (threads == 1) assert_int_equal(calls, 0);
            }
            p.op->share_from = SP_SHARE_FROM;
        }
        sparta_operator_free(p.op);
    }
    free_numbers(&p);
}

static sparta_status make_asked(product *p, int64_t tokens, sparta_operator_spec spec)
{
    const sparta_tensor operand[] = {TENSOR(NULL, tokens, N), TENSOR(NULL, tokens, K), TENSOR(p->w, N, K),
                                     TENSOR(p->b, N), TENSOR(NULL, tokens, N)};
    spec.size = sizeof spec;
    spec.expression = expression;
    spec.epilogue = "bias add relu";
    spec.n = 5;
    spec.operand = operand;
    return sparta_operator_create(cx, &spec, &p->op);
}

static void made_as(product *p, int64_t tokens, sparta_operator_spec spec, const char *reason)
{
    ok(make_asked(p, tokens, spec));
    if (!strstr(sparta_operator_reason(p->op), reason)) fail_msg("%s", sparta_operator_reason(p->op));
    if (tokens < 0) tokens = 70;
    memset(p->y, 0xff, (size_t)tokens * N * sizeof(float));
    ok(run_product(p, tokens, p->y, (sparta_launch){.size = 0}, NULL));
    same(p, p->y, tokens);
    sparta_operator_free(p->op);
}

/* By name, at a point, by times; few tokens in rows. */
static void implements(void **state)
{
    (void)state;
    product p = make_numbers();
    made_as(&p, -1, (sparta_operator_spec){.implement = "quads"}, "quads");
    made_as(&p, -1, (sparta_operator_spec){.implement = "dense4"}, "dense4");
    made_as(&p, -1, (sparta_operator_spec){.tune = 1, .db = ""}, "measured");
    made_as(&p, -1, (sparta_operator_spec){.tune = 1, .db = "", .implement = "strip4"}, "strip4");
    made_as(&p, 3, (sparta_operator_spec){.tune = 1, .db = ""}, "measured");
    made_as(&p, 3, (sparta_operator_spec){.implement = "few_csr"}, "few_csr");
    fails_saying(SPARTA_E_USAGE, "no implement 'cubes'",
                 make_asked(&p, -1, (sparta_operator_spec){.implement = "cubes"}));
    fails_saying(SPARTA_E_USAGE, "FOO",
                 make_asked(&p, -1, (sparta_operator_spec){.implement = "quads", .point = "FOO=1"}));
    fails_saying(SPARTA_E_USAGE, "say which",
                 make_asked(&p, -1, (sparta_operator_spec){.point = "RANGE=128"}));
    fails_saying(SPARTA_E_USAGE, "leave one out",
                 make_asked(&p, -1, (sparta_operator_spec){.implement = "quads", .format = "csr"}));
    fails_saying(SPARTA_E_UNSUPPORTED, "few_csr does not run",
                 make_asked(&p, -1, (sparta_operator_spec){.implement = "few_csr"}));
    free_numbers(&p);
}

/* A library competes for operators too, where there is one. */
static void a_library_is_asked(void **state)
{
    (void)state;
    product p = make_numbers();
    const sparta_operator_spec spec = {.implement = "onednn"};
    if (sp_implement_library(sp_target_best(SP_DEVICE_CPU)))
        made_as(&p, -1, spec, "onednn");
    else
        fails_saying(SPARTA_E_UNSUPPORTED, "onednn does not run", make_asked(&p, -1, spec));
    free_numbers(&p);
}

/* A copy that is ours, as a caller would make one to own the arrays. */
static sparta_tensor own(const sparta_tensor *t)
{
    sparta_tensor copy = *t;
    if (!t->data) return copy;
    const size_t bytes = (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype);
    copy.data = malloc(bytes + 1);
    memcpy(copy.data, t->data, bytes);
    return copy;
}

/* Arrays that the caller owns outlive the packed tensor they are from; their values may change between runs. */
static void packed_arrays(void **state)
{
    (void)state;
    product p = make_numbers();
    sparta_arrays a = SPARTA_OPTIONS(sparta_arrays);
    sparta_packed *packed;
    const sparta_tensor w = TENSOR(p.w, N, K);
    ok(sparta_packed_create(cx, "strip(4), crd=u16", &w, NULL, 0, &packed));
    ok(sparta_packed_arrays(cx, packed, &a));
    assert_string_equal(a.format, sparta_packed_format(packed));
    for (size_t i = 0; i < SP_COUNT(a.pos); i++) a.pos[i] = own(&a.pos[i]), a.crd[i] = own(&a.crd[i]);
    a.values = own(&a.values);
    sparta_packed_free(packed);
    ok(make_product(&p, NULL, &a));
    ok(run_product(&p, 70, p.y, (sparta_launch){.size = 0}, NULL));
    same(&p, p.y, 70);
    for (int64_t i = 0; i < a.values.dim[0]; i++) ((float *)a.values.data)[i] = 0;
    ok(run_product(&p, 70, p.y, (sparta_launch){.size = 0}, NULL));
    for (int i = 0; i < 70 * N; i++) assert_true(p.y[i] == fmaxf(p.b[i % N] + p.r[i], 0));
    sparta_operator_free(p.op);
    uint16_t *first = a.crd[1].data, right = *first;
    *first = K; /* an input that is not there */
    fails_saying(SPARTA_E_FORMAT, "", make_product(&p, NULL, &a));
    *first = right;
    a.size = offsetof(sparta_arrays, values); /* of an older header: there are no values */
    fails_saying(SPARTA_E_FORMAT, "", make_product(&p, NULL, &a));
    a.size = 0;
    fails_saying(SPARTA_E_USAGE, "size", make_product(&p, NULL, &a));
    a.size = sizeof a;
    a.crd[1].device = 2;
    fails_saying(SPARTA_E_UNSUPPORTED, "packed array 'crd': it is on device 2", make_product(&p, NULL, &a));
    for (size_t i = 0; i < SP_COUNT(a.pos); i++) free(a.pos[i].data), free(a.crd[i].data);
    free(a.values.data);
    free_numbers(&p);
}

/* As much of the struct as the caller's header has, and no sum, which has more than one set of arrays. */
static void arrays_of_packed(void **state)
{
    (void)state;
    float w[4][8] = {{1, 0, 3}, {0, 0, 4}};
    const sparta_tensor t = TENSOR(w, 4, 8);
    struct {
        sparta_arrays a;
        char behind[16];
    } b = {.a = {.size = offsetof(sparta_arrays, crd)}};
    sparta_packed *packed;
    ok(sparta_packed_create(cx, "csr", &t, NULL, 0, &packed));
    memset(&b.a.crd, 0x55, sizeof b - offsetof(sparta_arrays, crd));
    ok(sparta_packed_arrays(cx, packed, &b.a));
    assert_int_equal(b.a.size, offsetof(sparta_arrays, crd));
    assert_int_equal(b.a.pos[1].dim[0], 5);
    for (size_t i = offsetof(sparta_arrays, crd); i < sizeof b; i++)
        assert_int_equal(((unsigned char *)&b)[i], 0x55);
    b.a.size = sizeof b;
    ok(sparta_packed_arrays(cx, packed, &b.a));
    assert_int_equal(b.behind[0], 0x55);
    assert_int_equal(b.a.values.dim[0], 3);
    b.a.size = 0;
    fails_saying(SPARTA_E_USAGE, "size", sparta_packed_arrays(cx, packed, &b.a));
    sparta_packed_free(packed);
    sparta_ctx *other = sparta_ctx_create(NULL); /* a context keeps the sums it has read */
    assert_non_null(other);
    assert_int_equal(sparta_packed_create(other, "hyb(1,2)", &t, NULL, 100, &packed), SPARTA_OK);
    b.a.size = sizeof b.a;
    assert_int_equal(sparta_packed_arrays(other, packed, &b.a), SPARTA_E_UNSUPPORTED);
    assert_non_null(strstr(sparta_message(other), "sum"));
    sparta_packed_free(packed);
    sparta_ctx_free(other);
    sparta_tensor far = t;
    far.device = 1;
    fails_saying(SPARTA_E_UNSUPPORTED, "pack 'dense': it is on device 1",
                 sparta_packed_create(cx, "csr", &far, NULL, 0, &packed));
    fails_saying(SPARTA_E_UNSUPPORTED, "pack 'mask': it is on device 1",
                 sparta_packed_create(cx, "csr", &t, &far, 0, &packed));
    const sparta_named_tensor array = {"w", far};
    fails_saying(SPARTA_E_UNSUPPORTED, "array 'w': it is on device 1",
                 sparta_archive_save(cx, "build/never.npz", &array, 1));
    void *dl;
    fails_saying(SPARTA_E_UNSUPPORTED, "device 1", sparta_tensor_to_dlpack(cx, &far, &dl));
    sparta_tesa_facts facts = SPARTA_OPTIONS(sparta_tesa_facts);
    facts.dims = "[4,8]";
    facts.values = far;
    fails_saying(SPARTA_E_UNSUPPORTED, "tesa facts 'values': it is on device 1",
                 sparta_tesa_create(cx, &facts, &(sparta_tesa *){NULL}));
}

typedef struct caller {
    const product *p;
    int wrong;
} caller;

static void *call_often(void *arg)
{
    caller *c = arg;
    float *y = malloc(MOST * N * sizeof *y);
    for (int i = 0; i < 50; i++) {
        const int64_t tokens = 1 + i * 4 % MOST;
        memset(y, 0xff, MOST * N * sizeof *y);
        c->wrong += run_product(c->p, tokens, y, (sparta_launch){.size = 0}, NULL) != SPARTA_OK;
        for (int64_t k = 0; k < tokens * N; k++) c->wrong += !(fabsf(y[k] - c->p->want[k]) <= 1e-5f);
    }
    free(y);
    return NULL;
}

static void threads_share_one(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    product p = make_numbers();
    caller c[THREADS];
    pthread_t thread[THREADS];
    ok(make_product(&p, NULL, NULL));
    for (int i = 0; i < THREADS; i++) {
        c[i] = (caller){&p, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(c[i].wrong, 0);
    }
    sparta_operator_free(p.op);
    free_numbers(&p);
}

static void wrong_arrays(void **state)
{
    (void)state;
    product p = make_numbers();
    char message[200], small[64];
    ok(make_product(&p, NULL, NULL));
    const sparta_tensor right[] = {TENSOR(p.y, 7, N), TENSOR(p.x, 7, K), TENSOR(p.r, 7, N)};
    sparta_launch launch = {.size = sizeof launch, .workspace = small, .workspace_bytes = sizeof small};
    sparta_tensor a[3];
#define WRONG(status, words, change)                                                                         \
    {                                                                                                        \
        memcpy(a, right, sizeof a);                                                                          \
        change;                                                                                              \
        assert_int_equal(sparta_operator_run(p.op, a, 3, &launch, message, sizeof message), status);         \
        if (!strstr(message, words)) fail_msg("%s", message);                                                \
    }
    WRONG(SPARTA_E_MEMORY, "a workspace of 64 bytes", (void)0)
    WRONG(SPARTA_E_SHAPE, "'m' of r is 6, expected 7", a[2].dim[0] = 6)
    WRONG(SPARTA_E_SHAPE, "'k' of x is 39, expected 40", a[1].dim[1] = K - 1)
    WRONG(SPARTA_E_SHAPE, "y has 1 dims", a[0].rank = 1)
    WRONG(SPARTA_E_DTYPE, "x is f64, expected f32", a[1].dtype = SPARTA_F64)
    WRONG(SPARTA_E_UNSUPPORTED, "device 3", a[1].device = 3)
    WRONG(SPARTA_E_UNSUPPORTED, "not contiguous", a[1].stride[0] = 2 * K)
    WRONG(SPARTA_E_USAGE, "r has no data", a[2].data = NULL)
    assert_int_equal(sparta_operator_run(p.op, right, 2, &launch, NULL, 0), SPARTA_E_USAGE);
    assert_int_equal(sparta_operator_workspace(p.op, right, 2, NULL), 0);
    launch.size = 0;
    assert_int_equal(sparta_operator_run(p.op, right, 3, &launch, NULL, 0), SPARTA_E_USAGE);
    sparta_operator_free(p.op);
    free_numbers(&p);
}

static sparta_status make(const char *text, int n, const sparta_tensor *operand)
{
    sparta_operator *op;
    const sparta_operator_spec spec = {.size = sizeof spec, .expression = text, .n = n, .operand = operand};
    const sparta_status s = sparta_operator_create(cx, &spec, &op);
    if (s == SPARTA_OK) sparta_operator_free(op);
    return s;
}

static void wrong_expressions(void **state)
{
    (void)state;
    float w[12] = {1};
    const sparta_tensor o[] = {TENSOR(NULL, -1, 3), TENSOR(NULL, -1, 4), TENSOR(w, 3, 4)};
    ok(make("y(m,n)=x(m,k)*w(n,k)", 3, o));
    static const struct {
        const char *text, *words;
        sparta_status status;
    } wrong[] = {{"", "a name is expected", SPARTA_E_USAGE},
                 {"y(m,n)", "= is expected", SPARTA_E_USAGE},
                 {"y(m,n) = x(m,k) w(n,k)", "column 17", SPARTA_E_USAGE},
                 {"y(m,n) = x(m,k)*w(n,k) + ", "a name is expected", SPARTA_E_USAGE},
                 {"y(m,n) = x(m,k)*w(n,k) + b(n)", "3 operands are given", SPARTA_E_USAGE},
                 {"y(m,n) = x(m,k)*w(n,q)", "products that run", SPARTA_E_UNSUPPORTED},
                 {"y(m,n) = x(m,n)*w(n,k)", "'n' is 4 in x and 3", SPARTA_E_SHAPE},
                 {"y(m,n) = Mul(x(m,k), w(n,k))", "other dims", SPARTA_E_SHAPE},
                 {"y(m,n) = MatMul(x(m,k), w(n,k))", "operator", SPARTA_E_SHAPE},
                 {"y(m,n) = Nothing(x(m,k), w(n,k))", "Nothing", SPARTA_E_UNSUPPORTED}};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        const sparta_status s = make(wrong[i].text, 3, o);
        if (s != wrong[i].status || !strstr(sparta_message(cx), wrong[i].words))
            fail_msg("%s: %s, %s", wrong[i].text, sparta_status_name(s), sparta_message(cx));
    }
    const sparta_tensor relu[] = {TENSOR(NULL, -1, 3), TENSOR(NULL, -1, 3)};
    fails_saying(
        SPARTA_E_SHAPE, "other dims",
        make("y(m,q) = Relu(x(m,n))", 2, (sparta_tensor[]){TENSOR(NULL, -1, -1), TENSOR(NULL, -1, 3)}));
    fails_saying(SPARTA_E_UNSUPPORTED, "Relu does not run by itself yet",
                 make("y(m,n) = Relu(x(m,n))", 2, relu));
    sparta_tensor far[3];
    memcpy(far, o, sizeof far);
    far[1].device = 1;
    fails_saying(SPARTA_E_UNSUPPORTED, "device 1", make("y(m,n)=x(m,k)*w(n,k)", 3, far));
    const sparta_tensor any = TENSOR(NULL, -1, -1, 16), heads[] = {any, any, any, any};
    ok(make("y(b,s,e) = sparta::Attention(q(b,s,e), k(b,t,e), v(b,t,e)) {heads=2}", 4, heads));
    fails_saying(SPARTA_E_SHAPE,
                 "one index", /* kernels would read k and v as if there were as many as of q */
                 make("y(b,s,e) = sparta::Attention(q(b,s,e), k(c,t,e), v(c,t,e)) {heads=2}", 4, heads));
    fails_saying(SPARTA_E_SHAPE, "one index",
                 make("y(b,s,e) = sparta::Attention(q(b,s,e), k(b,t,e), v(b,u,e)) {heads=2}", 4, heads));
    const sparta_operator_spec words = {
        .size = sizeof words,
        .expression = "y(b,s,e) = sparta::Attention(q(b,s,e), k(b,t,e), v(b,t,e)) {heads=2}",
        .epilogue = "gelu",
        .n = 4,
        .operand = heads};
    fails_saying(SPARTA_E_UNSUPPORTED, "takes no epilogue",
                 sparta_operator_create(cx, &words, &(sparta_operator *){NULL}));
    sparta_tensor apart[3];
    memcpy(apart, o, sizeof apart);
    apart[2].stride[0] = 1, apart[2].stride[1] = 3;
    fails_saying(SPARTA_E_UNSUPPORTED, "not contiguous", make("y(m,n)=x(m,k)*w(n,k)", 3, apart));
    assert_int_equal(
        sparta_operator_create(cx, &(sparta_operator_spec){.size = 0}, &(sparta_operator *){NULL}),
        SPARTA_E_USAGE);
}

/* Operators with other kernels: against their references. */
static void run_against(const char *text, const char *name, const char *attrs, int n, sparta_tensor *array,
                        bool constants)
{
    sparta_operator *op;
    sparta_tensor operand[5], late[5];
    bed *b = bed_make();
    int n_late = 1;
    for (int i = 1; i < n; i++) {
        const bool constant = constants && i > 1;
        sparta_tensor *t = bed_input(b, constant, SPARTA_F32, array[i].rank, array[i].dim);
        operand[i] = *t;
        if (constant) continue;
        operand[i].data = NULL;
        operand[i].dim[0] = -1;
        late[n_late++] = *t;
    }
    bed_node(b, name, attrs, array[0].rank, array[0].dim);
    reference(b);
    operand[0] = late[0] = b->out;
    operand[0].data = NULL;
    operand[0].dim[0] = -1;
    float *y = numbers(sparta_tensor_elements(&b->out), 9);
    late[0].data = y;
    const sparta_operator_spec spec = {.size = sizeof spec, .expression = text, .n = n, .operand = operand};
    ok(sparta_operator_create(cx, &spec, &op));
    sparta_launch launch = {.size = sizeof launch};
    launch.workspace_bytes = sparta_operator_workspace(op, late, n_late, &launch);
    launch.workspace = malloc(launch.workspace_bytes);
    char message[200];
    const sparta_status s = sparta_operator_run(op, late, n_late, &launch, message, sizeof message);
    if (s != SPARTA_OK) fail_msg("%s", message);
    close_enough(b, y, NULL, 1e-5, 1e-5, text);
    free(launch.workspace);
    sp_free(cx, y);
    sparta_operator_free(op);
    bed_free(b);
}

static void norms_and_attention(void **state)
{
    (void)state;
    sparta_tensor norm[] = {TENSOR(NULL, 70, 36), TENSOR(NULL, 70, 36), TENSOR(NULL, 36), TENSOR(NULL, 36)};
    run_against("y(m,n) = LayerNormalization(x(m,n), g(n), h(n))", "LayerNormalization", "", 4, norm, true);
    sparta_tensor heads[] = {TENSOR(NULL, 2, 50, 16), TENSOR(NULL, 2, 50, 16), TENSOR(NULL, 2, 70, 16),
                             TENSOR(NULL, 2, 70, 16)};
    run_against("y(b,s,e) = sparta::Attention(q(b,s,e), k(b,t,e), v(b,t,e)) {heads=2, scale=0.35}",
                "sparta::Attention", "heads=2, scale=0.35", 4, heads, false);
}

/* Scores of a worker are large: the workspace has room for those of the threads that the launch says, and a run needs no more. */
static void workspace_by_threads(void **state)
{
    (void)state;
    enum { B = 2, S = 300, E = 16 };
    float *x = numbers(B * S * E, 1), *y = numbers(B * S * E, 2), *one = numbers(B * S * E, 3);
    sparta_operator *op;
    const sparta_tensor any = TENSOR(NULL, -1, -1, E), given = TENSOR(x, B, S, E),
                        operand[] = {any, any, any, any};
    const sparta_operator_spec spec = {
        .size = sizeof spec,
        .expression = "y(b,s,e) = sparta::Attention(q(b,s,e), k(b,t,e), v(b,t,e)) {heads=2, scale=0.35}",
        .n = 4,
        .operand = operand};
    ok(sparta_operator_create(cx, &spec, &op));
    op->share_from = 0;
    size_t before = 0;
    for (int threads = 1; threads <= 16; threads *= 2) {
        int calls = 0;
        char message[200];
        const sparta_tensor array[] = {TENSOR(threads == 1 ? one : y, B, S, E), given, given, given};
        sparta_launch l = {.size = sizeof l, .parallel_for = backwards, .host = &calls, .threads = threads};
        const size_t bytes = sparta_operator_workspace(op, array, 4, &l);
        assert_true(bytes > before);
        before = bytes;
        l.workspace = malloc(bytes);
        l.workspace_bytes = bytes - 1;
        assert_int_equal(sparta_operator_run(op, array, 4, &l, message, sizeof message), SPARTA_E_MEMORY);
        assert_non_null(strstr(message, "threads"));
        l.workspace_bytes = bytes;
        ok(sparta_operator_run(op, array, 4, &l, message, sizeof message));
        assert_int_equal(calls, threads == 1 ? 0 : 3);
        if (threads > 1) assert_memory_equal(y, one, B * S * E * sizeof *y);
        if (threads == 1) assert_int_equal(sparta_operator_workspace(op, array, 4, NULL), bytes);
        if (threads == 16) { /* as many as share a run at most */
            l.threads = 0;
            assert_int_equal(sparta_operator_workspace(op, array, 4, &l), bytes);
            l.threads = 100;
            assert_int_equal(sparta_operator_workspace(op, array, 4, &l), bytes);
            l.size = 0;
            assert_int_equal(sparta_operator_workspace(op, array, 4, &l), 0);
        }
        free(l.workspace);
    }
    sparta_operator_free(op);
    sp_free(cx, x), sp_free(cx, y), sp_free(cx, one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),           cmocka_unit_test(packed_arrays),
        cmocka_unit_test(arrays_of_packed),   cmocka_unit_test(implements),
        cmocka_unit_test(threads_share_one),  cmocka_unit_test(wrong_arrays),
        cmocka_unit_test(wrong_expressions),  cmocka_unit_test(norms_and_attention),
        cmocka_unit_test(a_library_is_asked), cmocka_unit_test(workspace_by_threads),
    };
    return cmocka_run_group_tests(tests, context_begin, tear_down);
}
