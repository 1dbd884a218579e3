/* Schedules and sparsifiers as a program sees them: sparta.h and nothing else of the library. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <sparta.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sparta_ctx *cx;

static int enter(void **state)
{
    (void)state;
    cx = sparta_ctx_create(NULL);
    return cx ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    sparta_ctx_free(cx);
    return 0;
}

static void ok(sparta_status status)
{
    if (status != SPARTA_OK) fail_msg("%s", sparta_message(cx));
}

static void refused(sparta_status status, const char *message)
{
    assert_int_equal(status, SPARTA_E_USAGE);
    if (!strstr(sparta_message(cx), message)) fail_msg("'%s' does not say '%s'", sparta_message(cx), message);
}

static void says(sparta_schedule *s, const char *expected)
{
    const char *text = NULL;
    ok(sparta_schedule_print(s, &text));
    assert_string_equal(text, expected);
}

/* ------------------------------------------------------------------ */

static void built(void **state)
{
    (void)state;
    sparta_schedule *s, *t;
    sparta_schedule_rule *a, *b;
    ok(sparta_schedule_create(cx, NULL, &s));
    says(s, "");
    ok(sparta_schedule_define_format(s, "mine", "sum{rownnz<=4 -> csr;\n rest -> coo}"));
    ok(sparta_schedule_define_sparsifier(s, "heavy", "magnitude(4x1, 0.90)"));
    ok(sparta_schedule_set_target(s, "portable"));
    ok(sparta_schedule_set_dim(s, "batch", "1:8:32"));
    ok(sparta_schedule_tensor(s, "a.*", &a));
    ok(sparta_schedule_tensor(s, "b", &b));
    ok(sparta_schedule_set_format(b, "mine"));
    ok(sparta_schedule_sparsify(a, "heavy"));
    ok(sparta_schedule_kernel(a, "{ split(m, 4); unroll(n) }"));
    ok(sparta_schedule_quantize(b, "i8(per_channel)"));
    ok(sparta_schedule_set_implement(a, "quads(RANGE=256)"));
    static const char text[] = "format mine = sum{rownnz<=4 -> csr; rest -> coo}\n"
                               "sparsifier heavy = magnitude(pattern=4x1, sparsity=0.9)\n"
                               "model {\n    target portable\n    dim batch=1:8:32\n}\n"
                               "tensor \"a.*\" {\n    sparsify heavy\n    implement quads(RANGE=256)\n    "
                               "kernel { split(m, 4); unroll(n) }\n}\n"
                               "tensor \"b\" {\n    format mine\n    quantize i8(per_channel)\n}\n";
    says(s, text);
    says(s, text); /* again */
    ok(sparta_schedule_parse(cx, text, "text", NULL, &t));
    says(t, text);
    ok(sparta_schedule_tensor(t, "c", &a)); /* a parsed one grows too */
    sparta_schedule_free(s);
    sparta_schedule_free(t);
    sparta_schedule_free(NULL);
}

static void mistakes(void **state)
{
    (void)state;
    sparta_schedule *s;
    sparta_schedule_rule *r, *none = NULL;
    ok(sparta_schedule_create(cx, NULL, &s));
    ok(sparta_schedule_tensor(s, "w", &r));
    refused(sparta_schedule_sparsify(r, NULL), "sparsify: the text is NULL");
    refused(sparta_schedule_set_format(r, NULL), "format: the text is NULL");
    refused(sparta_schedule_set_format(r, ""), "format of \"w\":1:1: expected the text of a format");
    refused(sparta_schedule_set_format(r, "csr } tensor \"x\" { format csc"), "expected the end, found '}'");
    refused(sparta_schedule_set_format(r, "csr\nformat csc"), "expected the end, found 'format'");
    refused(sparta_schedule_set_format(r, "sum{rest -> csr"), "format of \"w\":1:16: format: expected ';'");
    refused(sparta_schedule_set_format(r, "sum{rest -> csr; } }"), "format of \"w\":1:");
    refused(sparta_schedule_set_format(r, "csr {rest}"), "expected ';', a new line or '}', found '{'");
    refused(sparta_schedule_sparsify(r, "magnitud(4x1)"), "did you mean 'magnitude'?");
    refused(sparta_schedule_sparsify(r, "magnitude(4x1"), "sparsify of \"w\":1:14: expected ',' or ')'");
    refused(sparta_schedule_sparsify(r, "magnitude(patern=4x1)"), "did you mean 'pattern'?");
    refused(sparta_schedule_quantize(r, "8"), "expected a precision");
    refused(sparta_schedule_set_implement(r, "8"), "expected an implement");
    refused(sparta_schedule_kernel(r, "unroll(n)"), "expected '{'");
    refused(sparta_schedule_tensor(s, NULL, &none), "tensor: the text is NULL");
    refused(sparta_schedule_tensor(s, "", &none), "a name has 1 to");
    refused(sparta_schedule_tensor(s, "a\nb", &none), "a control byte");
    refused(sparta_schedule_set_dim(s, "batch", NULL), "dim: the text is NULL");
    refused(sparta_schedule_set_dim(s, NULL, "1"), "dim: the text is NULL");
    refused(sparta_schedule_set_dim(s, "batch", "4}"), "dim batch:1:1: dim batch=4}: expected a size");
    refused(sparta_schedule_set_target(s, "a b"), "a name begins with a letter");
    refused(sparta_schedule_define_format(s, "csr", "csc"), "format 'csr' is one of sparta's own");
    refused(sparta_schedule_define_format(s, "strip", "csr"), "format 'strip' is one of sparta's own");
    refused(sparta_schedule_define_format(s, "quads", "csr"), "format 'quads' is one of sparta's own");
    refused(sparta_schedule_define_format(s, "sum", "csr"), "format 'sum' is one of sparta's own");
    refused(sparta_schedule_define_format(s, "x", NULL), "format: the text is NULL");
    refused(sparta_schedule_define_sparsifier(s, "mask", "threshold(1)"), "'mask' is there already");
    refused(sparta_schedule_define_sparsifier(s, "x", "x"), "expected a sparsifier");
    refused(sparta_schedule_parse(cx, NULL, "s", NULL, &s), "schedule: the text is NULL");
    refused(sparta_schedule_parse(cx, "x", NULL, NULL, &s), "schedule:1:1: expected include");
    assert_null(none);
    says(s, "tensor \"w\" {\n}\n"); /* as before */
    sparta_schedule_free(s);
}

/* ------------------------------------------------------------------ property: calls and text make the same */

static uint32_t seed = 1;
static int dice(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

typedef struct both { /* a schedule made by calls, and the text that says the same */
    sparta_schedule *s;
    char text[16384];
    size_t n;
    int formats, sparsifiers;
} both;

static void put(both *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    b->n += (size_t)vsnprintf(b->text + b->n, sizeof b->text - b->n, format, args);
    va_end(args);
    assert_true(b->n < sizeof b->text);
}

/* Something that ends a clause, or nothing that matters between two things. */
static const char *end_of(void)
{
    static const char *const ends[] = {"\n", ";", " ; # done\n", "\n\n  ", ";;"};
    return ends[dice(5)];
}

static const char *some_format(const both *b, char out[128])
{
    static const char *const formats[] = {
        "csr",
        "bsr( 4 ,\n 2)",
        "(n,k)->(n/4:dense, # rows\n k:compressed, n%4:dense)",
        "csr, crd=u16",
        "sum{rownnz<=4 -> csr; rest -> coo}",
        "sum { rownnz<=1->ell ;\n\n rest\t-> sum{first(2) -> csr; rest -> coo} }",
        "hyb(1,2)",
        "quads(64)",
        "nm24"};
    if (b->formats && dice(3) == 0)
        snprintf(out, 128, dice(2) ? "f%d" : "sum{first(1) -> f%d; rest -> csc}", dice(b->formats));
    else
        snprintf(out, 128, "%s", formats[dice((int)(sizeof formats / sizeof *formats))]);
    return out;
}

static const char *some_sparsifier(const both *b, char out[128])
{
    switch (dice(6)) {
    case 4: snprintf(out, 128, "python(\"m%d:f\")", dice(10)); break;
    case 0: snprintf(out, 128, "magnitude(%dx%d, 0.%d0)", 1 + dice(8), 1 + dice(8), dice(10)); break;
    case 1: snprintf(out, 128, "magnitude( sparsity = 0.%d, pattern = rows )", dice(100)); break;
    case 2: snprintf(out, 128, "threshold(%de-%d)", dice(100), dice(6)); break;
    case 3: snprintf(out, 128, "mask(\"m\\\"%d.npz\")", dice(10)); break;
    default:
        snprintf(out, 128, b->sparsifiers ? "s%d" : "magnitude(2:4)",
                 dice(SPARTA_RANK) % (b->sparsifiers ? b->sparsifiers : 1));
    }
    return out;
}

static void define_some(both *b)
{
    char name[16], text[128];
    if (dice(2)) {
        snprintf(name, sizeof name, "f%d", b->formats);
        ok(sparta_schedule_define_format(b->s, name, some_format(b, text)));
        put(b, "format %s = %s%s", name, text, end_of());
        b->formats++;
    } else {
        snprintf(name, sizeof name, "s%d", b->sparsifiers);
        ok(sparta_schedule_define_sparsifier(b->s, name, some_sparsifier(b, text)));
        put(b, "sparsifier %s = %s%s", name, text, end_of());
        b->sparsifiers++;
    }
}

static void say_model(both *b)
{
    char name[16], sizes[32];
    snprintf(name, sizeof name, "d%d", dice(1000000));
    snprintf(sizes, sizeof sizes, dice(2) ? "%d" : "1:2:%d", 2 + dice(9));
    ok(sparta_schedule_set_dim(b->s, name, sizes));
    put(b, "model {%s dim %s=%s%s}", end_of(), name, sizes, end_of());
    if (dice(2)) {
        ok(sparta_schedule_set_target(b->s, "portable"));
        put(b, "model { target portable }\n");
    }
}

static void say_tensor(both *b)
{
    sparta_schedule_rule *r;
    char text[128];
    snprintf(text, sizeof text, "layer.%d.*", dice(100));
    ok(sparta_schedule_tensor(b->s, text, &r));
    put(b, "tensor \"%s\" {%s", text, end_of());
    if (dice(2)) {
        ok(sparta_schedule_set_format(r, some_format(b, text)));
        put(b, "format %s%s", text, end_of());
    }
    if (dice(2)) {
        ok(sparta_schedule_sparsify(r, some_sparsifier(b, text)));
        put(b, " sparsify\t%s%s", text, end_of());
    }
    if (dice(4) == 0) {
        ok(sparta_schedule_set_implement(r, "pairs(RANGE=128)"));
        put(b, "implement pairs( RANGE =128 )%s", end_of());
    }
    if (dice(4) == 0) {
        ok(sparta_schedule_quantize(r, "i8(per_channel)"));
        put(b, "quantize i8( per_channel)%s", end_of());
    }
    if (dice(4) == 0) {
        ok(sparta_schedule_kernel(r, "{split(m,4);\nunroll(n)}"));
        put(b, "kernel { split(m, 4)\n unroll(n) }%s", end_of());
    }
    put(b, "}");
}

static void same(void **state)
{
    (void)state;
    both *b = malloc(sizeof *b);
    for (int round = 0; round < 500; round++) {
        sparta_schedule *parsed, *again;
        const char *by_calls, *by_text, *twice;
        *b = (both){0};
        ok(sparta_schedule_create(cx, ".", &b->s));
        for (int i = dice(12); i > 0; i--) {
            switch (dice(3)) {
            case 0: define_some(b); break;
            case 1: say_model(b); break;
            default: say_tensor(b);
            }
        }
        if (sparta_schedule_parse(cx, b->text, "text", ".", &parsed) != SPARTA_OK)
            fail_msg("%s\n%s", b->text, sparta_message(cx));
        ok(sparta_schedule_print(b->s, &by_calls));
        ok(sparta_schedule_print(parsed, &by_text));
        assert_string_equal(by_calls, by_text);
        ok(sparta_schedule_parse(cx, by_text, "again", ".", &again));
        ok(sparta_schedule_print(again, &twice));
        assert_string_equal(twice, by_text);
        sparta_schedule_free(b->s), sparta_schedule_free(parsed), sparta_schedule_free(again);
    }
    free(b);
}

/* ------------------------------------------------------------------ sparsifiers */

static int all(void *user, sparta_sparsifier_call *call)
{
    (void)user, (void)call;
    return 0;
}

static void registered(void **state)
{
    (void)state;
    static const char *const arguments[] = {"ratio", "topk?", NULL};
    char name[32] = "mine";
    sparta_sparsifier s = {.size = sizeof s,
                           .name = name,
                           .mask = all,
                           .arguments = arguments,
                           .granularity = "4x1",
                           .bound_argument = "topk"};
    sparta_schedule *p;
    sparta_schedule_rule *r;
    refused(sparta_schedule_parse(cx, "tensor \"w\" { sparsify mine(1) }", "s", NULL, &p), "found 'mine'");
    ok(sparta_sparsifier_register(cx, &s));
    memset(name, 'x', 4); /* it keeps no pointers */
    ok(sparta_schedule_parse(
        cx, "sparsifier half = mine(\"a b\")\ntensor \"w\" { sparsify mine(topk=3, ratio=0.50) }", "s", NULL,
        &p));
    says(p,
         "sparsifier half = mine(ratio=\"a b\")\ntensor \"w\" {\n    sparsify mine(ratio=0.50, topk=3)\n}\n");
    ok(sparta_schedule_tensor(p, "v", &r));
    refused(sparta_schedule_sparsify(r, "mine"), "mine needs 'ratio'; write mine(ratio=..., topk=...)");
    refused(sparta_schedule_sparsify(r, "mine(1, 2, 3)"), "mine takes no argument '3'");
    refused(sparta_schedule_sparsify(r, "mine(1, topkk=3)"), "did you mean 'topk'?");
    refused(sparta_schedule_sparsify(r, "mie(1)"),
            "(magnitude, threshold, topk, bands, function, similarity, mask, python, mine or one "
            "defined above), found 'mie'; did you mean 'mine'?");
    refused(sparta_schedule_define_sparsifier(p, "mine", "threshold(1)"), "'mine' is there already");
    sparta_schedule_free(p);
    strcpy(name, "mine");
    refused(sparta_sparsifier_register(cx, &s), "the name is taken");
    strcpy(name, "mask");
    refused(sparta_sparsifier_register(cx, &s), "the name is taken");
    strcpy(name, "a b");
    refused(sparta_sparsifier_register(cx, &s), "a name begins with a letter");
    strcpy(name, "other");
    s.granularity = "4y1";
    refused(sparta_sparsifier_register(cx, &s),
            "sparsifier 'other': granularity: prune: '4y1' is no pattern");
    s.granularity = "4x1:0.5";
    refused(sparta_sparsifier_register(cx, &s), "what is ':0.5'?");
    s.granularity = NULL;
    s.bound_argument = "most";
    refused(sparta_sparsifier_register(cx, &s), "it has no argument 'most'");
    s.bound_argument = NULL;
    s.bound = -1;
    refused(sparta_sparsifier_register(cx, &s), "the bound is -1");
    s.bound = 0;
    s.arguments = (const char *const[]){"a", "a", NULL};
    refused(sparta_sparsifier_register(cx, &s), "argument 'a' twice");
    s.arguments = (const char *const[]){"a?b", NULL};
    refused(sparta_sparsifier_register(cx, &s), "argument 'a?b' is no name");
    s.arguments = NULL;
    s.mask = NULL;
    refused(sparta_sparsifier_register(cx, &s), "it needs its size, a name and a function");
    s.mask = all;
    s.size = 0;
    refused(sparta_sparsifier_register(cx, &s), "it needs its size, a name and a function");
    s.size = sizeof s;
    ok(sparta_sparsifier_register(cx, &s)); /* nothing of the failures was kept */
}

static void compile_options(void **state)
{
    (void)state;
    sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options);
    sparta_ctx *other = sparta_ctx_create(NULL);
    sparta_schedule *s;
    assert_int_equal(sparta_schedule_create(other, NULL, &s), SPARTA_OK);
    o.rules = s;
    refused(sparta_compile(cx, "none.onnx", "none.sparta", &o), "the rules belong to another context");
    o.schedule = "none.sched";
    refused(sparta_compile(cx, "none.onnx", "none.sparta", &o), "a schedule file and rules");
    sparta_schedule_free(s);
    sparta_ctx_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(built), cmocka_unit_test(mistakes),
                                       cmocka_unit_test(same), cmocka_unit_test(registered),
                                       cmocka_unit_test(compile_options)};
    return cmocka_run_group_tests(tests, enter, leave);
}
