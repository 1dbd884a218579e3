/* Sparsifiers of users: what they are given, what becomes of their answer, and what is said when they do not keep to their word. */
#include "models.h"
#include "compile/lower.h"
#include "prune/prune.h"

#define ONE                                                                                                  \
    "graph \"g\"\ninput x: f32[batch,8]\nconst w: f32[8,16] @\"w\"\nnode y: ? = MatMul(x, w) "               \
    "\"/y\"\noutput y\n"
#define N 16
#define K 8

/* A function that answers what `says` has, and remembers what it was given. */
static uint8_t answer[N * K];
static int result, calls;
static bool touches; /* the weight's last element, which is not its to change */
static char given[256];
static double seen[N * K];
static int script(void *user, sparta_sparsifier_call *call)
{
    assert_ptr_equal(user, answer);
    assert_int_equal(call->weight.dim[0], N);
    assert_int_equal(call->weight.dim[1], K);
    snprintf(given, sizeof given, "%s:", call->tensor);
    for (int i = 0; i < call->n_arguments; i++)
        snprintf(given + strlen(given), sizeof given - strlen(given), " %s=%s", call->argument[i].name,
                 call->argument[i].text);
    for (int64_t i = 0; i < N * K; i++) {
        assert_int_equal(call->keep[i], 1);
        seen[i] = ((const float *)
                       call->weight.data)[i / K * call->weight.stride[0] + i % K * call->weight.stride[1]];
    }
    memcpy(call->keep, answer, sizeof answer);
    if (touches) ((float *)call->weight.data)[N * K - 1] += 1;
    if (result) snprintf(call->message, sizeof call->message, "it is Sunday");
    calls++;
    return result;
}

static void add(sparta_ctx *c, const char *name, const char *granularity, int64_t bound, bool topk)
{
    static const char *const arguments[] = {"ratio?", "topk?", NULL};
    const sparta_sparsifier s = {.size = sizeof s,
                                 .name = name,
                                 .mask = script,
                                 .user = answer,
                                 .arguments = arguments,
                                 .granularity = granularity,
                                 .bound = bound,
                                 .bound_argument = topk ? "topk" : NULL};
    ok_in(c, sparta_sparsifier_register(c, &s));
}

/* A context of its own: sparsifiers stay as long as it. */
static sparta_ctx *fresh(void)
{
    sparta_ctx *c = sparta_ctx_create(NULL);
    assert_non_null(c);
    add(c, "elements", NULL, 0, true);
    add(c, "few", NULL, 2, false);
    add(c, "blocks", "4x2", 0, true);
    add(c, "rows", "rows", 0, false);
    add(c, "cols", "cols", 0, true);
    add(c, "groups", "2:4", 0, false);
    add(c, "tall", "2:4@out", 0, false);
    return c;
}

static sparta_status obey(sparta_ctx *c, const char *text, sp_obeyed *o, sp_graph **g)
{
    sparta_schedule *s;
    ok_in(c, sparta_schedule_parse(c, text, "s", root, &s));
    *g = graph_in(c, ONE);
    const sparta_status status = sp_compile_schedule(c, *g, s, o);
    sparta_schedule_free(s);
    return status;
}

static void obeyed(sparta_ctx *c, const char *clauses)
{
    char text[400];
    sp_obeyed o;
    sp_graph *g;
    snprintf(text, sizeof text, "tensor \"w\" { %s }", clauses);
    const sparta_status status = obey(c, text, &o, &g);
    sp_graph_free(g);
    ok_in(c, status);
}

static void refused(sparta_ctx *c, const char *clauses, const char *message)
{
    char text[400];
    sp_obeyed o;
    sp_graph *g;
    snprintf(text, sizeof text, "tensor \"w\" { %s }", clauses);
    const sparta_status status = obey(c, text, &o, &g);
    sp_graph_free(g);
    if (status != SPARTA_E_USAGE || !strstr(sparta_message(c), message))
        fail_msg("%s\nsays (%d) '%s', not '%s'", text, status, sparta_message(c), message);
}

static void keep(const char *how) /* one letter an element; repeats */
{
    const size_t n = strlen(how);
    for (size_t i = 0; i < N * K; i++) answer[i] = how[i % n] == '1';
}

/* ------------------------------------------------------------------ */

static void asked(void **state)
{
    (void)state;
    sparta_ctx *c = fresh();
    sp_obeyed o;
    sp_graph *before = graph_in(c, ONE), *g;
    const float *a = sp_graph_find(before, "w")->constant->data;
    keep("100");
    calls = 0;
    ok_in(c, obey(c, "sparsifier mine = elements(0.5, topk=7)\ntensor \"w\" { sparsify mine }", &o, &g));
    const float *b = sp_graph_find(g, "w")->constant->data; /* (k, n): turned */
    assert_int_equal(calls, 1);
    assert_string_equal(given, "w: ratio=0.5 topk=7");
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++) {
            assert_true(seen[n * K + k] == a[k * N + n]);
            assert_true(b[k * N + n] == (answer[n * K + k] ? a[k * N + n] : 0));
        }
    assert_int_equal(o.n, 1);
    assert_string_equal(o.effect[0].tensor, "w");
    assert_float_equal(o.effect[0].after, 43 / 128., 1e-9);
    sp_graph_free(g), sp_graph_free(before);
    sparta_ctx_free(c);
}

static void misbehaving(void **state)
{
    (void)state;
    sparta_ctx *c = fresh();
    keep("1");
    result = 3;
    refused(c, "sparsify elements", "s:1:14: 'w': sparsifier 'elements': it failed (3): it is Sunday");
    result = 0;
    touches = true;
    refused(c, "sparsify elements", "'elements': it changed the weight; it may only write `keep`");
    touches = false;
    answer[19] = 2;
    refused(c, "sparsify elements", "'elements': it answered 2 for element (2, 3); 1 stays, 0 goes");
    keep("0");
    refused(c, "sparsify elements", "'elements': it keeps nothing of the weight");
    keep("1");
    obeyed(c, "sparsify blocks");
    answer[5 * K + 3] = 0;
    refused(c, "sparsify blocks",
            "'blocks': it keeps a part of block (1, 1), see element (5, 3); its granularity is 4x2");
    refused(c, "sparsify rows",
            "it keeps a part of block (5, 0), see element (5, 3); its granularity is rows");
    refused(c, "sparsify cols",
            "it keeps a part of block (0, 3), see element (5, 3); its granularity is cols");
    keep("11001010");
    obeyed(c, "sparsify groups");
    obeyed(c, "sparsify cols");
    refused(c, "sparsify tall", "it keeps 4 of elements 0 to 3 of column 0; its granularity is 2:4@out");
    answer[7 * K + 3] = 1;
    refused(c, "sparsify groups", "it keeps 3 of elements 0 to 3 of row 7; its granularity is 2:4");
    keep("10100000");
    obeyed(c, "sparsify few");
    obeyed(c, "sparsify elements(topk=2)");
    refused(c, "sparsify elements(topk=1)", "it keeps 2 elements in row 0 of them; its bound is 1");
    refused(c, "sparsify elements(topk=0)", "topk=0: expected how many may stay in a row");
    refused(c, "sparsify elements(topk=x)", "topk=x: expected how many may stay in a row");
    answer[9 * K + 7] = 1;
    refused(c, "sparsify few", "it keeps 3 elements in row 9 of them; its bound is 2");
    sparta_ctx_free(c);
}

/* What is promised against what the format holds (message 15), before the function is asked again. */
static void promises(void **state)
{
    (void)state;
    static const struct {
        const char *sparsifier, *format, *message; /* NULL: it suits */
    } rows[] = {
        {"elements", "(n,k)->(n:dense, k:packed[4])",
         "'w': sparsify: elements gives elements without a bound; 'packed[4]' needs one: set topk=4 or use "
         "'compressed'"},
        {"blocks", "(n,k)->(n/4:dense, k/2:packed[3], n%4:dense, k%2:dense)",
         "sparsify: blocks gives 4x2 blocks without a bound; 'packed[3]' needs one: set topk=3 or use "
         "'compressed'"},
        {"rows", "(n,k)->(n:dense, k:packed[4])",
         "rows gives rows without a bound; 'packed[4]' needs one: use 'compressed'"},
        {"elements(topk=4)", "(n,k)->(n:dense, k:packed[4])", NULL},
        {"elements(topk=5)", "(n,k)->(n:dense, k:packed[4])",
         "elements keeps up to 5 in a row of the format, 'packed[4]' holds 4; use packed[5]"},
        {"elements(topk=99)", "(n,k)->(n:dense, k:packed[8])", NULL}, /* there are 8 */
        {"blocks(topk=1)", "(n,k)->(n/4:dense, k/2:packed[1], n%4:dense, k%2:dense)", NULL},
        {"blocks(topk=1)", "(n,k)->(n:dense, k:packed[2])", NULL},
        {"blocks(topk=2)", "(n,k)->(n:dense, k:packed[3])", "keeps up to 4 in a row"},
        {"blocks(topk=1)", "(n,k)->(n/8:dense, k/2:packed[1], n%8:dense, k%2:dense)",
         "keeps up to 2 in a row"},
        {"few", "(n,k)->(n:dense, k:packed[2])", NULL},
        {"groups", "(n,k)->(n:dense, k:packed[4])", NULL}, /* 2 of 4, 8 columns */
        {"groups", "(n,k)->(n:dense, k:packed[3])", "keeps up to 4"},
        {"groups", "nm24", NULL},
        {"elements(topk=2)", "nm24", "elements gives elements; 'structured[2,4]' needs 2:4"},
        {"tall", "nm24", "tall gives 2:4@out; 'structured[2,4]' needs 2:4"},
        {"elements", "csr", NULL},
        {"elements", "(n,k)->(n:dense, k:packed[auto])", NULL},
    };
    sparta_ctx *c = fresh();
    const bool walk = sp_implement_find("walk") != NULL;
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        char text[256];
        keep("10000000");
        if (strstr(rows[i].sparsifier, "blocks")) keep("11000000");
        if (!strcmp(rows[i].sparsifier, "rows")) keep("1");
        if (!strcmp(rows[i].sparsifier, "tall")) {
            keep("0");
            memset(answer, 1, 2 * K);
        }
        snprintf(text, sizeof text, "sparsify %s; format %s", rows[i].sparsifier, rows[i].format);
        if (rows[i].message)
            refused(c, text, rows[i].message);
        else if (walk)
            obeyed(c, text);
    }
    sparta_ctx_free(c);
}

/* From a file to a package: the same model as a mask would make, and functions that roll dice are found out. */
static int by_turns;
static int corner(void *user, sparta_sparsifier_call *call)
{
    const int64_t n = call->weight.dim[0], k = call->weight.dim[1];
    const int shift = *(const int *)user ? by_turns++ % 2 : 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) call->keep[i * k + j] = (i / 4 + j + shift) % 3 == 0;
    return 0;
}

static void compiled(void **state)
{
    (void)state;
    sparta_ctx *c = context(cache, NULL);
    const char *onnx = in_root("model.onnx"), *out = in_root("model.sparta");
    sp_graph *g = zoo("mlp", NULL, SMALL_MLP);
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    int dice = 0;
    const sparta_sparsifier s = {
        .size = sizeof s, .name = "corner", .mask = corner, .user = &dice, .granularity = "4x1"};
    ok_in(c, sparta_sparsifier_register(c, &s));
    sparta_schedule *rules;
    sparta_schedule_rule *r;
    sparta_package *p = NULL;
    ok_in(c, sparta_schedule_create(c, NULL, &rules));
    ok_in(c, sparta_schedule_tensor(rules, "*.weight", &r));
    ok_in(c, sparta_schedule_sparsify(r, "corner"));
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    o.no_measure = 1;
    o.rules = rules;
    remove(out);
    ok_in(c, sparta_compile(c, onnx, out, &o));
    ok_in(c, sparta_package_open(c, out, &p));
    int layers = 0;
    for (int i = 0; i < p->plan->n_nodes; i++) {
        const double density = sp_attr_float(&p->plan->node[i]->attrs, "density", -1);
        if (density < 0) continue;
        assert_true(density > .3 && density < .4);
        layers++;
    }
    assert_true(layers > 0);
    sparta_package_close(p);
    remove(out);
    dice = 1;
    assert_int_equal(sparta_compile(c, onnx, out, &o), SPARTA_E_USAGE);
    if (!strstr(sparta_message(c), "keeps other elements when it is asked again"))
        fail_msg("%s", sparta_message(c));
    assert_int_equal(access(out, F_OK), -1);
    sparta_schedule_free(rules);
    sparta_ctx_free(c);
}

/* Whichever allocation fails: E_MEMORY, and nothing is lost; and the one that failed can be done again. */
static void memory(void **state)
{
    (void)state;
    keep("1100");
    for (uint64_t n = 1;; n++) {
        sparta_ctx *c = sparta_ctx_create(NULL);
        const sparta_sparsifier s = {.size = sizeof s,
                                     .name = "blocks",
                                     .mask = script,
                                     .user = answer,
                                     .arguments = (const char *const[]){"ratio?", "topk", NULL},
                                     .granularity = "4x2",
                                     .bound_argument = "topk"};
        sp_graph *g = graph_in(c, ONE);
        sparta_schedule *p = NULL;
        sparta_schedule_rule *r;
        const char *text;
        sp_obeyed o;
        sp_ctx_fail_alloc(c, n, false);
        sparta_status status = sparta_sparsifier_register(c, &s);
        if (!status) status = sparta_schedule_create(c, NULL, &p);
        if (!status) status = sparta_schedule_define_sparsifier(p, "b", "blocks(topk=4)");
        if (!status) status = sparta_schedule_define_format(p, "f", "strip(4)");
        if (!status) status = sparta_schedule_set_dim(p, "batch", "4");
        if (!status) status = sparta_schedule_tensor(p, "w", &r);
        if (!status) status = sparta_schedule_sparsify(r, "b");
        if (!status) status = sparta_schedule_set_format(r, "f");
        if (!status) status = sparta_schedule_print(p, &text);
        if (!status) status = sp_compile_schedule(c, g, p, &o);
        sp_ctx_fail_alloc(c, 0, false);
        sparta_schedule_free(p);
        sp_graph_free(g);
        if (status == SPARTA_OK) {
            assert_true(n > 5);
            sparta_ctx_free(c);
            break;
        }
        if (status != SPARTA_E_MEMORY) fail_msg("%d: %s", (int)n, sparta_message(c));
        if (sparta_sparsifier_register(c, &s) != SPARTA_OK)
            assert_true(strstr(sparta_message(c), "taken") != NULL);
        sparta_ctx_free(c);
    }
}

/* The model is imported once, though the graph as given and the smaller one compete, and once more by the check. */
static void imported_once(void **state)
{
    (void)state;
    sparta_ctx *c = fresh();
    const char *onnx = in_root("once.onnx");
    sp_graph *g = graph_in(c, "graph \"g\"\ninput x: f32[batch,8]\nconst w: f32[8,16] @\"w\"\n"
                              "const v: f32[16,4] @\"v\"\nnode h: ? = MatMul(x, w) \"/h\"\n"
                              "node y: ? = MatMul(h, v) \"/y\"\noutput y\n");
    ok_in(c, sp_ops_infer(g));
    ok_in(c, sp_onnx_write(c, g, onnx));
    sp_graph_free(g);
    memset(answer, 1, sizeof answer);
    for (int n = 0; n < N / 2; n++) memset(answer + n * K, 0, K); /* half of what h has goes */
    sparta_schedule *s;
    sparta_package *p = NULL;
    ok_in(c, sparta_schedule_parse(c, "tensor \"w\" { sparsify rows }", "s", root, &s));
    sp_compile_request r = quick();
    r.options.rules = s;
    for (int verified = 0; verified < 2; verified++) {
        calls = 0;
        r.no_verify = !verified;
        ok_in(c, sp_compile_file(c, onnx, &r, &p));
        assert_int_equal(calls, 1 + verified);
        assert_int_equal(p->parameters_given, 16 * 8 + 16 * 4);
        assert_int_equal(p->parameters_left, p->parameters_given / 2);
        sparta_package_close(p);
    }
    sparta_schedule_free(s);
    sparta_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(imported_once), cmocka_unit_test(asked),
                                       cmocka_unit_test(misbehaving),   cmocka_unit_test(promises),
                                       cmocka_unit_test(compiled),      cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, enter, leave);
}
