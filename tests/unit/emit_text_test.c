/* emit: nests as C on every target that runs here, against the same nests walked index by index; golden texts. */
#include "unit/emit_bed.h"
#include <sys/wait.h>

static const char *const texts[] = {
    /* element by element: a gate, a broadcast in every place, several outputs, types */
    "i j*; x0: f32[i,j]; x1: f32[i,j]; y0: f32[i,j]; t0 = sigmoid(x0); t1 = mul(x0,t0); y0 = mul(t1,x1)",
    "i j k*; x0: f32[i,j,k]; x1: f32[k]; x2: f32[j,0]; x3: f32[]; y0: f32[i,j,k]; t0 = add(x0,x1); t1 = "
    "gelu(t0); t2 = mul(t1,x2); y0 = sub(t2,x3)",
    "i j*; x0: f32[j,i]; y0: f32[i,j]; y1: f32[j,i]; y0 = exp(x0); y1 = tanh(x0)",
    "i j:3 k*; x0: f32[i,2*j+k]; x1: f32[-1*j+2,k+1]; y0: f32[j,i,k]; y0 = add(x0,x1)",
    "i*; x0: i32[i]; x1: i32[0]; y0: i32[i]; y1: bool[i]; y0: i32 = mul(x0,x1); t1: i32 = abs(y0); y1: bool "
    "= less(t1,7)",
    "i*; x0: i64[i]; x1: i64[i]; y0: i64[i]; y1: f32[i]; t0: bool = less_equal(x0,x1); y0: i64 = "
    "where(t0,x0,x1); y1 = cast(y0)",
    "i*; x0: u8[i]; x1: i8[i]; y0: u8[i]; y1: i8[i]; y0: u8 = mul(x0,x0); y1: i8 = neg(x1)",
    "i*; x0: f16[i]; x1: bf16[i]; y0: f16[i]; y1: bf16[i]; y0 = add(x0,x1); y1 = mul(x0,x1)",
    "i*; x0: f64[i]; x1: f64[0]; y0: f64[i]; y1: f32[i]; t0: f64 = sub(x0,x1); y0: f64 = max(t0,x1); y1 = "
    "cast(y0)",
    "i j*; x0: bool[i,j]; x1: f32[i,j]; y0: f32[i,j]; y0 = where(x0,x1,-inf)",
    "i*; x0: f32[i]; y0: u8[i]; t0 = div(x0,0.05); t1 = round(t0); t2 = add(t1,128); t3 = max(t2,0); t4 = "
    "min(t3,255); y0: u8 = cast(t4)",
    "i*; x0: u8[i]; y0: f32[i]; t0: f32 = cast(x0); t1 = sub(t0,128); y0 = mul(t1,0.05)",
    "i*; x0: f32[i]; y0: f32[i]; y1: f32[i]; t0 = abs(x0); t1 = add(t0,0.1); t2 = log(t1); t3 = pow(t1,2.5); "
    "t4 = sqrt(t3); y0 = add(t4,t2); y1 = rsqrt(t1)",
    "i*; x0: f32[i]; y0: f32[i]; y1: f32[i]; y2: f32[i]; t0 = sin(x0); t1 = cos(x0); y0 = mul(t0,t1); t3 = "
    "erf(x0); y1 = add(t3,t0); t5 = softplus(x0); y2 = expm1(t5)",
    "i*; x0: f32[i]; y0: f32[i]; y1: f32[i]; y2: f32[i]; y3: f32[i]; y0 = floor(x0); y1 = ceil(x0); y2 = "
    "sign(x0); y3 = relu(x0)",
    "i*; x0: u64[i]; x1: i16[i]; y0: u64[i]; y1: i16[i]; y0: u64 = copy(x0); y1: i16 = max(x1,3)",
    "i*; x0: bool[i]; x1: bool[i]; y0: bool[i]; y1: i32[i]; t0: bool = and(x0,x1); t1: bool = xor(x0,t0); "
    "t2: bool = or(t1,x1); y0: bool = not(t2); y1: i32 = cast(y0)",
    /* across */
    "i | k*; x0: f32[i,k]; x1: f32[k]; y0: f32[i,k]; t0 = mul(x0,x0); t1 = mean(t0); t2 = add(t1,1e-06); t3 "
    "= rsqrt(t2); t4 = mul(x0,t3); y0 = mul(t4,x1)",
    "i | k*; x0: f32[i,k]; y0: f32[i,k]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); t3 = sum(t2); y0 = "
    "div(t2,t3)",
    "i | j k*; x0: f32[i,j,k]; x1: f32[j]; x2: f32[j]; y0: f32[i,j,k]; y1: f32[i]; t0 = mean(x0); t1 = "
    "sub(x0,t0); t2 = mul(t1,t1); t3 = mean(t2); t4 = "
    "add(t3,1e-05); t5 = sqrt(t4); t6 = div(t1,t5); t7 = mul(t6,x1); y0 = add(t7,x2); y1 = copy(t0)",
    "| i j*; x0: f32[i,j]; y0: f32[]; y1: f32[]; y0 = sum(x0); y1 = smallest(x0)",
    "i | k*; x0: i32[i,k]; y0: i32[i]; y1: i32[i,0]; y0: i32 = sum(x0); y1: i32 = largest(x0)",
    "i | k*; x0: i64[i,k]; y0: i64[i]; y1: i64[i]; y0: i64 = sum(x0); y1: i64 = smallest(x0)",
    "i | k*; x0: f32[k,i]; x1: f32[i]; y0: f32[i]; t0 = exp(x0); t1 = sum(t0); t2 = log(t1); y0 = add(t2,x1)",
    "i | j k*; x0: f32[i,j,k]; y0: f32[i,j,k]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); t3 = "
    "sum(t2); y0 = div(t2,t3)",
    "i | k*; x0: f32[i,k]; y0: f32[i,k]; y0 = sum(x0)",
    /* down */
    "i j* | k; x0: f32[i,k,j]; y0: f32[i,k,j]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); t3 = "
    "sum(t2); y0 = div(t2,t3)",
    "j* | i k; x0: f32[i,j,k]; x1: f32[j]; y0: f32[j]; t0 = mean(x0); y0 = mul(t0,x1)",
    "i j* | k; x0: f32[i,k,j]; x1: f32[i]; y0: f32[i,0,j]; y1: f32[i,j]; t0 = add(x0,x1); t1 = sum(t0); t2 = "
    "mul(t1,x1); t3 = mul(t2,t2); y0 = largest(x0); t5 = add(t3,y0); y1 = "
    "copy(t5)",
    "j* | k; x0: i32[k,j]; y0: i32[j]; y1: i32[k,j]; y0: i32 = sum(x0); y1: i32 = copy(y0)",
    "j* | k l; x0: f32[k,l,j]; y0: f32[k,l,j]; t0 = mean(x0); t1 = sub(x0,t0); t2 = tanh(t1); t3 = sum(t2); "
    "y0 = add(t2,t3)",
    /* panels */
    "f t*; x0: lanes f32[t,f]; x1: lanes f32[t,f]; x2: f32[f]; y0: lanes f32[t,f]; t0 = sigmoid(x0); t1 = "
    "mul(t0,x1); y0 = add(t1,x2)",
    "t* | f; x0: lanes f32[t,f]; x1: f32[f]; y0: lanes f32[t,f]; t0 = mul(x0,x0); t1 = mean(t0); t2 = "
    "add(t1,1e-06); t3 = rsqrt(t2); t4 = mul(x0,t3); y0 = mul(t4,x1)",
    "t* | f; x0: lanes f32[t,f]; y0: lanes f32[t,f]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); t3 = "
    "sum(t2); y0 = div(t2,t3)",
    "h:3 f:4 t*; x0: lanes f32[t,8*h+f+4]; y0: lanes f32[t,8*h+f]; y0 = neg(x0)",
    "i j*; x0: f32[i,j]; x1: f32[i]; y0: i8[i,j]; t0: i32 = steps(x0,x1,-100,27); t1: i32 = add(t0,-28); y0: "
    "i8 = cast(t1)",
    "i j*; x0: f32[i,j]; y0: i32[i,j]; y0: i32 = steps(x0,0.125,-7,8)",
    /* what is narrow is wrapped for who reads it, and by storing it */
    "i j*; x0: u8[i,j]; y0: u8[i,j]; y1: i32[i,j]; y0: u8 = mul(x0,x0); y1: i32 = cast(y0)",
};

static void check_sizes(const char *what, const sp_nest *n, kernel_fn fn)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 70};
    int64_t size[SP_NEST_LOOPS];
    for (int round = 0; round < 24; round++) {
        for (int l = 0; l < n->loops; l++) {
            size[l] = n->loop[l].size >= 0 ? n->loop[l].size
                                           : sizes[below(n->loop[l].bind == SP_BIND_VECTOR ? 12 : 6)];
            if (!round) size[l] = n->loop[l].size >= 0 ? n->loop[l].size : 1;
            if (round == 1 && n->loop[l].size < 0 && l == below(n->loops) && !sp_nest_lanes(n)) size[l] = 0;
            if (round == 2 && l == sp_nest_vector(n) && !sp_nest_lanes(n)) size[l] = 300;
            if (sp_nest_lanes(n) && l == sp_nest_vector(n)) size[l] = SP_MIN(size[l], 64);
        }
        check_nest(what, n, fn, size, round % 3 == 2 ? 5 : 0, 1e-5);
    }
}

static void test_targets(void **state)
{
    (void)state;
    static sp_nest nests[SP_COUNT(texts)];
    sp_target target[SP_CPU_TARGETS];
    for (size_t i = 0; i < SP_COUNT(texts); i++) must(sp_nest_parse(cx, texts[i], &nests[i]), texts[i]);
    for (int t = 0, n = targets(target); t < n; t++) {
        const sp_object *o = compile_nests(nests, SP_COUNT(texts), target[t]);
        for (int i = 0; i < (int)SP_COUNT(texts); i++) {
            char what[1024];
            snprintf(what, sizeof what, "%s: %s", sp_target_name(target[t]), texts[i]);
            check_sizes(what, &nests[i], symbol_of(o, i));
        }
        sp_jit_close(o);
    }
}

/* ------------------------------------------------------------------ golden texts */
/* tests/fixtures/kernels/<name>.c, byte by byte; EMIT_GOLDEN=write writes them anew. Every shape that text.c knows: no bar, ACROSS with and without a
 * kept line, DOWN in rows and on panels, types and strides. */
static const struct {
    const char *name, *nest;
} golden[] = {
    {"gate", "i j*; x0: f32[i,j]; x1: f32[i,j]; x2: f32[j]; y0: f32[i,j]; t0 = add(x0,x2); t1 = sigmoid(t0); "
             "t2 = mul(t0,t1); y0 = mul(t2,x1)"},
    {"mask", "i j k*; x0: i64[i,k]; x1: i64[j,0]; x2: f32[k,j]; y0: f32[i,j,k]; t0: bool = less(x1,x0); y0 = "
             "where(t0,-inf,x2)"},
    {"rms", "i | k*; x0: f32[i,k]; x1: f32[k]; y0: f32[i,k]; t0 = mul(x0,x0); t1 = mean(t0); t2 = "
            "add(t1,1e-06); t3 = rsqrt(t2); t4 = mul(x0,t3); y0 = mul(t4,x1)"},
    {"softmax", "i | k*; x0: f32[i,k]; y0: f32[i,k]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); t3 = "
                "sum(t2); y0 = div(t2,t3)"},
    {"largest_down", "i j* | k; x0: f32[i,k,j]; y0: f32[i,j]; y0 = largest(x0)"},
    {"rms_lanes", "t* | f; x0: lanes f32[t,f]; x1: f32[f]; y0: lanes f32[t,f]; t0 = mul(x0,x0); t1 = "
                  "mean(t0); t2 = add(t1,1e-06); t3 = rsqrt(t2); t4 = mul(x0,t3); y0 = mul(t4,x1)"},
};

static void check_golden(const char *path, const char *text)
{
    if (getenv("EMIT_GOLDEN")) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(text, f);
        assert_int_equal(fclose(f), 0);
    }
    static char want[1 << 16];
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s is missing; EMIT_GOLDEN=write writes it", path);
    want[fread(want, 1, sizeof want - 1, f)] = 0;
    fclose(f);
    if (strcmp(text, want))
        fail_msg("%s differs from what is generated now; EMIT_GOLDEN=write writes it anew:\n%s", path, text);
}

static void golden_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(golden); i++) {
        char path[128], symbol[64];
        sp_nest nest;
        sp_text text;
        snprintf(path, sizeof path, "tests/fixtures/kernels/%s.c", golden[i].name);
        snprintf(symbol, sizeof symbol, "sp_kernel_%s", golden[i].name);
        must(sp_nest_parse(cx, golden[i].nest, &nest), golden[i].nest);
        sp_text_init(&text, cx);
        sp_emit_function(&nest, symbol, &text);
        must(text.status, "text");
        check_golden(path, sp_text_str(&text));
        sp_text_free(&text);
    }
}

/* Numbers are written with the digits that they need, and keep their last bit. */
static void numbers_read_back(void **state)
{
    (void)state;
    static const struct {
        const char *number, *text;
    } cases[] = {{"0.1", "splat(0.1f)"},
                 {"1e-06", "splat(1e-06f)"},
                 {"3", "splat(3.f)"},
                 {"-2.5", "splat(-2.5f)"},
                 {"0.30000001", "splat(0.3f)"},
                 {"16777216", "splat(16777216.f)"},
                 {"inf", "splat(__builtin_inff())"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char nest_text[128];
        sp_nest nest;
        sp_text text;
        snprintf(nest_text, sizeof nest_text, "i*; x0: f32[i]; y0: f32[i]; y0 = add(x0,%s)", cases[i].number);
        must(sp_nest_parse(cx, nest_text, &nest), nest_text);
        sp_text_init(&text, cx);
        sp_emit_function(&nest, "k", &text);
        if (!strstr(sp_text_str(&text), cases[i].text))
            fail_msg("no %s for %s in:\n%s", cases[i].text, cases[i].number, sp_text_str(&text));
        sp_text_free(&text);
    }
}

/* ------------------------------------------------------------------ sanitizers */
/* Runs a copy that is told of more elements than there are, as code that goes too far would. */
static int run_too_far(kernel_fn fn, const sp_nest *n)
{
    float *x = calloc(64, sizeof *x), *y = calloc(256, sizeof *y);
    void *data[] = {x, y};
    sparta_tensor tensor[2] = {{.dtype = SPARTA_F32, .rank = 1, .dim = {64}, .stride = {1}}};
    tensor[1] = tensor[0];
    sp_nest_bound b;
    struct sp_nest_args a;
    if (sp_nest_bind(cx, n, tensor, &b) || !sp_nest_cut(n, &b, data, 0, 1, NULL, &a)) return 2;
    a.size[0] += 64;
    fn(&a);
    free(x);
    free(y);
    return 0;
}

/* A read behind the end of an operand is seen in generated code: what the tests of this room say of it in a build with sanitizers counts. */
static void sanitizers_see_generated_code(void **state)
{
    (void)state;
    sp_nest nest;
    int status = 0;
    if (!SANITIZED) skip();
    must(sp_nest_parse(cx, "i*; x0: f32[i]; y0: f32[i]; y0 = neg(x0)", &nest), "copy");
    const sp_object *o = compile_nests(&nest, 1, SP_TARGET_PORTABLE);
    const kernel_fn fn = symbol_of(o, 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        close(STDERR_FILENO); /* the report is expected */
        _exit(run_too_far(fn, &nest));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 1);
    sp_jit_close(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(golden_texts),
        cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(sanitizers_see_generated_code),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
