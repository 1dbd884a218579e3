/* Generated kernels in a session: nests in rows and in lanes, by themselves and as chains, at odd sizes, on some threads; without code, on the references; and
 * plans whose nests do not fit them, which are refused. The code is written here, so that nothing but the way to it is tested. */
#include "call/call.h"
#include "models.h"

/* Loops as they come, whatever they compute: t of x and w at each index. */
#define CODE(symbol, expression)                                                                             \
    "struct args { void *array[16]; long stride[16][8]; long size[8]; long block, line; void *work; };\n"    \
    "__attribute__((visibility(\"default\"))) void " symbol "(const void *p)\n{\n"                           \
    "    const struct args *a = p;\n"                                                                        \
    "    for (long i = 0; i < a->size[0]; i++)\n"                                                            \
    "        for (long k = 0; k < a->size[1]; k++) {\n"                                                      \
    "#define AT(o) ((float *)a->array[o])[i * a->stride[o][0] + k * a->stride[o][1]]\n"                      \
    "            const float x = AT(0), w = AT(1);\n            " expression "\n        }\n}\n"

#define SUM   "AT(2) = x + w;"
#define BOTH  "const float t = x + w; AT(2) = (t > 0 ? t : 0) * x; AT(3) = t;"
#define ROWS  "i k*; x0: f32[i,k]; x1: f32[k]; "
#define PANEL "k i*; x0: lanes f32[i,k]; x1: f32[k]; "

/* A package of a plan, with one kernel. */
static sparta_package *package(const char *plan, const char *kernel, const char *code)
{
    sparta_package *p;
    const sp_object *object = NULL;
    ok(sp_package_create(cx, &p));
    p->plan = graph(plan);
    p->n_kernels = 1;
    p->kernel = sp_arena_array(p->arena, 1, sizeof *p->kernel);
    p->kernel[0] = (sp_kernel){.kernel = kernel, .parameters = "", .source = ""};
    if (!code) return p;
    const sp_target target = sp_target_best(SP_DEVICE_CPU);
    ok(sp_jit_get(cx, target, code, &object, NULL));
    p->kernel[0].code = sp_arena_array(p->arena, 1, sizeof(sp_kernel_code));
    p->kernel[0].code[0] =
        (sp_kernel_code){target, sp_panel_abi(),
                         (const uint8_t *)sp_arena_bytes(p->arena, (const char *)object->bytes, object->size),
                         object->size, false};
    p->kernel[0].n_code = 1;
    sp_jit_close(object);
    return p;
}

static void run_all(const sparta_package *p, const char *what)
{
    static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {65, 2}, {0, 4}, {2, 64}, {300, 7}, {3, 5}};
    for (int threads = 1; threads <= 3; threads++) {
        sparta_session *s = session(p, threads);
        for (size_t i = 0; i < SP_COUNT(sizes); i++) {
            inputs in = make_inputs(p->plan, sizes[i][0], sizes[i][1], i + 1);
            agree(s, p, p->plan, &in, what);
            free_inputs(&in);
        }
        sparta_session_free(s);
    }
}

static void check(const char *plan, const char *kernel, const char *code)
{
    sparta_package *p = package(plan, kernel, code);
    run_all(p, "generated");
    const sparta_step *step;
    sparta_session *s = session(p, 1);
    const int n = sp_session_steps(s, &step);
    bool found = false;
    for (int i = 0; i < n; i++) found |= !strcmp(step[i].implement, "generated");
    assert_int_equal(found, code != NULL); /* by the kernel where there is one */
    sparta_session_free(s);
    sparta_package_close(p);
}

#define NEST(kernel, nest, operands, more)                                                                   \
    "{kernel=\"" kernel "\", implement=\"generated\", code=0, nest=\"" nest "\", operands=[" operands        \
    "]" more "}"

/* ------------------------------------------------------------------ plans that run */

#define ADD(nest, operands)                                                                                  \
    "graph \"g\"\ninput x: f32[batch,sequence]\ninput w: f32[sequence]\n"                                    \
    "node y: f32[batch,sequence] = Add(x, w) " NEST("nest", nest, operands, "") " \"y\"\noutput y\n"
#define GOOD ROWS "y0: f32[i,k]; y0 = add(x0,x1)"

static void rows_run(void **state)
{
    (void)state;
    check(ADD(GOOD, "0,0,0,1,0,2"), "nest", CODE("sp_kernel_nest", SUM));
    check(ADD(GOOD, "0,0,0,1,0,2"), "nest", NULL);
}

/* The sum is read by a node behind the chain as well, so that it is stored beside the product; the activation is not. */
#define CHAIN(first, last, between, behind)                                                                  \
    "graph \"g\"\ninput x: f32[batch,13]\nconst w: f32[13] @\"w\"\n" first                                   \
    "node t: f32[batch,13] = Add(" between ", w) {chain=4" last "} \"t\"\n"                                  \
    "node r: f32[batch,13] = Relu(t) {chain=4" last "} \"r\"\n"
#define CHAIN_ROWS                                                                                           \
    CHAIN("", "", "x", )                                                                                     \
    "node y: f32[batch,13] = Mul(r, x) " NEST(                                                               \
        "nest", ROWS "y0: f32[i,k]; y1: f32[i,k]; y1 = add(x0,x1); t1 = relu(y1); y0 = mul(t1,x0)",          \
        "0,0,0,1,2,2,0,2", ", chain=4") " \"y\"\nnode z: f32[batch,13] = Neg(t) \"z\"\noutput y\noutput z\n"
#define CHAIN_LANES                                                                                          \
    CHAIN("node p: f32[batch,13] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n",             \
          ", layout=\"panel\"", "p", )                                                                       \
    "node m: f32[batch,13] = Mul(r, p) " NEST(                                                               \
        "nest_lanes",                                                                                        \
        PANEL "y0: lanes f32[i,k]; y1: lanes f32[i,k]; y1 = add(x0,x1); t1 = relu(y1); y0 = mul(t1,x0)",     \
        "0,0,0,1,2,2,0,2",                                                                                   \
        ", chain=4, layout=\"panel\"") " \"m\"\n"                                                            \
                                       "node v: f32[batch,13] = Tanh(t) {kernel=\"map\", layout=\"panel\"} " \
                                       "\"v\"\n"                                                             \
                                       "node y: f32[batch,13] = Identity(m) {kernel=\"to_rows\"} \"y\"\n"    \
                                       "node z: f32[batch,13] = Identity(v) {kernel=\"to_rows\"} "           \
                                       "\"z\"\noutput y\noutput z\n"

/* Loops of the text in lanes are features and then tokens. */
static void chains_run(void **state)
{
    (void)state;
    check(CHAIN_ROWS, "nest", CODE("sp_kernel_nest", BOTH));
    check(CHAIN_ROWS, "nest", NULL);
    check(CHAIN_LANES, "nest_lanes", CODE("sp_kernel_nest_lanes", BOTH));
    check(CHAIN_LANES, "nest_lanes", NULL);
}

/* A chain is one line of a profile, and names what it does. */
static void profiles_name_the_chain(void **state)
{
    (void)state;
    sparta_package *p = package(CHAIN_ROWS, "nest", CODE("sp_kernel_nest", BOTH));
    sparta_session *s = session(p, 1);
    const sparta_step *step;
    assert_int_equal(sp_session_steps(s, &step), 4);
    assert_string_equal(step[2].op, "Add+Relu+Mul");
    assert_string_equal(step[0].op, "Add");
    assert_string_equal(step[0].implement, "generated");
    assert_string_equal(step[3].implement, "builtin");
    sparta_session_free(s);
    sparta_package_close(p);
}

/* ------------------------------------------------------------------ plans that are refused */

static void refused(const char *plan, const char *words, bool at_once)
{
    sparta_package *p = package(plan, "nest", CODE("sp_kernel_nest", SUM));
    sparta_session_options o = {.size = sizeof o, .threads = 1};
    sparta_session *s = NULL;
    sparta_status status = sparta_session_create(cx, p, &o, &s);
    if (!at_once) {
        ok(status);
        inputs in = make_inputs(p->plan, 3, 5, 1);
        sparta_named_tensor out[] = {{.name = "y"}};
        status = sparta_session_run(cx, s, in.in, in.n, out, 1);
        free_inputs(&in);
    }
    if (status == SPARTA_OK || !strstr(sparta_message(cx), words))
        fail_msg("%s: '%s' lacks '%s'", sparta_status_name(status), sparta_message(cx), words);
    if (s) sparta_session_free(s);
    sparta_package_close(p);
}

static void hostile_nests_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *words;
        bool at_once;
    } all[] = {
        {ADD("", "0,0,0,1,0,2"), "y", true},
        {ADD("i k*; rubbish", "0,0,0,1,0,2"), "y", true},
        {ADD(GOOD, "0,0,0,1"), "reads or makes nothing", true},
        {ADD(GOOD, "0,0,0,2"), "3 operands, not 2", true},
        {ADD(GOOD, "0,0,0,1,0"), "not told", true},
        {ADD(GOOD, "0,0,0,1,0,3"), "not there", true},
        {ADD(GOOD, "0,0,0,1,1,2"), "not there", true},
        {ADD(GOOD, "0,0,-1,1,0,2"), "not there", true},
        {ADD(GOOD, "0,2,0,0,0,1"), "come first", true},
        {ADD(GOOD, "0,0,0,0,0,2"), "another rank", true},
        {ADD("i k*; x0: f64[i,k]; x1: f32[k]; y0: f32[i,k]; y0 = copy(x1)", "0,0,0,1,0,2"), "another type",
         true},
        {ADD("k i*; x0: lanes f32[i,k]; x1: f32[k]; y0: lanes f32[i,k]; y0 = add(x0,x1)", "0,0,0,1,0,2"),
         "another layout", true},
        /* in bounds by its text, out of them at the sizes of a run */
        {ADD("i k*; x0: f32[i,k+1]; x1: f32[k]; y0: f32[i,k]; y0 = add(x0,x1)", "0,0,0,1,0,2"),
         "not all among", false},
        {ADD("i k*; x0: f32[i,2*k]; x1: f32[k]; y0: f32[i,k]; y0 = add(x0,x1)", "0,0,0,1,0,2"),
         "not all among", false},
        {ADD("i:9 k*; x0: f32[0,k]; x1: f32[k]; y0: f32[i,k]; y0 = add(x0,x1)", "0,0,0,1,0,2"),
         "not all among", false},
        {ADD("i k*; x0: f32[k,i]; x1: f32[k]; y0: f32[i,k]; y0 = add(x0,x1)", "0,0,0,1,0,2"), "not all among",
         false},
    };
    for (size_t i = 0; i < SP_COUNT(all); i++) refused(all[i].plan, all[i].words, all[i].at_once);
}

#define TWO(between, nest, operands)                                                                         \
    "graph \"g\"\ninput x: f32[batch,sequence]\ninput w: f32[sequence]\n"                                    \
    "node t: f32[batch,sequence] = Add(x, w) {chain=1} \"t\"\n" between                                      \
    "node y: f32[batch,sequence] = Relu(t) " NEST("nest", nest, operands, ", chain=1") " \"y\"\noutput y\n"

static void hostile_chains_are_refused(void **state)
{
    (void)state;
    refused(TWO("node z: f32[batch,sequence] = Neg(t) \"z\"\n", GOOD, "0,0,0,1,1,1"), "read by another node",
            true);
    /* stored, and read before it is */
    refused(TWO("node z: f32[batch,sequence] = Neg(t) \"z\"\n",
                ROWS "y0: f32[i,k]; y1: f32[i,k]; y0 = add(x0,x1); y1 = copy(y0)", "0,0,0,1,1,1,0,2"),
            "read by another node", true);
    refused(TWO("", GOOD, "0,0,1,0,1,1"), "what it makes itself", true);
    refused(TWO("", ROWS "y0: f32[i,k]; y1: f32[i,k]; y0 = add(x0,x1); y1 = copy(y0)", "0,0,0,1,1,1,1,1"),
            "makes a value twice", true);
    refused(TWO("output t\n", GOOD, "0,0,0,1,1,1"), "does not store an output", true);
    refused(
        TWO("node z: f32[batch,sequence] = Neg(x) " NEST("nest", GOOD, "0,0,0,0,0,1", ", chain=1") " \"z\"\n",
            GOOD, "0,0,0,1,1,1"),
        "", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_run),
        cmocka_unit_test(chains_run),
        cmocka_unit_test(profiles_name_the_chain),
        cmocka_unit_test(hostile_nests_are_refused),
        cmocka_unit_test(hostile_chains_are_refused),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
