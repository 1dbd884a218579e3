/* expr: canonical forms, text and back, values against a direct evaluator, hostile text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "expr/expr.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[] = {"a", "b", "n", "seq.len"};

static const sp_expr *parse(sp_arena *a, const char *text)
{
    const sp_expr *x = NULL;
    sparta_status status = sp_expr_parse(a, text, &x);
    if (status) fail_msg("\"%s\": %s", text, sparta_message(sp_arena_ctx(a)));
    return x;
}

static const char *print(sp_arena *a, const sp_expr *x)
{
    sp_text t;
    sp_text_init(&t, sp_arena_ctx(a));
    sp_expr_print(x, &t);
    char *s = sp_arena_string(a, sp_text_str(&t));
    sp_text_free(&t);
    return s;
}

static void test_canonical(void **state)
{
    sp_arena *a = *state;
    static const char *const rows[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"1+2*3", "7"},
        {"2*batch*sequence + 1", "2*batch*sequence+1"},
        {"1 + sequence*batch*2", "2*batch*sequence+1"},
        {"b+a", "a+b"},
        {"a-a", "0"},
        {"(a+b)*(a-b)", "a*a-b*b"},
        {"-(a)-b", "-a-b"},
        {"a*b/b", "a"},
        {"a*(b+n)/(b+n)", "a"},
        {"(a*a-b*b)/(a-b)", "a+b"},
        {"n*64/64", "n"},
        {"(4*a+8*b)/4", "a+2*b"},
        {"n/1", "n"},
        {"n/-1", "-n"},
        {"n%1", "0"},
        {"n%n", "0"},
        {"n/n", "1"},
        {"(n+63)/64", "(n+63)/64"},
        {"(64*n+63)/64", "n"},
        {"(n+65)/64", "(n+1)/64+1"},
        {"(n-1)/64", "(n+63)/64-1"},
        {"(2*n)/4", "n/2"},
        {"(2*n+3)/4", "(n+1)/2"},
        {"(2*n+3)/-4", "(-n)/2-1"},
        {"n/2/3", "n/6"},
        {"n//2", "n/2"},
        {"2*(n/2)", "2*(n/2)"},
        {"2*n/2", "n"},
        {"-(n/2)", "-(n/2)"},
        {"-n/2", "(-n)/2"},
        {"(a*b+n)/b", "a+n/b"},
        {"(a*b)/(b*n)", "a/n"},
        {"-7/2", "-4"},
        {"7/-2", "-4"},
        {"-7%2", "1"},
        {"7%-2", "-1"},
        {"(4*n+5)%4", "1"},
        {"(4*n+a+5)%4", "(a+1)%4"},
        {"a%4%4", "a%4"},
        {"a%-4", "-((-a)%4)"},
        {"min(3,5)", "3"},
        {"max(3,5)", "5"},
        {"min(a,a)", "a"},
        {"min(b,a)", "min(a,b)"},
        {"max(a,a+1)", "a+1"},
        {"min(a,a+b)", "a"},
        {"max(a+n/2,a)", "a+n/2"},
        {"max(n,0)", "n"},
        {"min + max", "max+min"},
        {"min(a,b)/2", "min(a,b)/2"},
        {" ( ( a ) ) ", "a"},
        {"--a", "a"},
        {"seq.len", "seq.len"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775807", "-9223372036854775807"},
    };
    for (size_t i = 0; i < SP_COUNT(rows); i++)
        assert_string_equal(print(a, parse(a, rows[i][0])), rows[i][1]);
}

static void test_refused(void **state)
{
    sp_arena *a = *state;
    static const struct {
        const char *text;
        sparta_status status;
    } rows[] = {
        {"", SPARTA_E_USAGE},
        {"+", SPARTA_E_USAGE},
        {"a+", SPARTA_E_USAGE},
        {"(a", SPARTA_E_USAGE},
        {"a)", SPARTA_E_USAGE},
        {"a b", SPARTA_E_USAGE},
        {"min(a)", SPARTA_E_USAGE},
        {"min(a,b", SPARTA_E_USAGE},
        {"2a", SPARTA_E_USAGE},
        {"1.5", SPARTA_E_USAGE},
        {"a$", SPARTA_E_USAGE},
        {"f(a)", SPARTA_E_USAGE},
        {"a///b", SPARTA_E_USAGE},
        {"\x80", SPARTA_E_USAGE},
        {"a/0", SPARTA_E_RANGE},
        {"a%(b-b)", SPARTA_E_RANGE},
        {"0/0", SPARTA_E_RANGE},
        {"9223372036854775808", SPARTA_E_RANGE},
        {"9223372036854775807+1", SPARTA_E_RANGE},
        {"4294967296*4294967296*a", SPARTA_E_RANGE},
        {"-9223372036854775807-1", SPARTA_E_RANGE},
    };
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        const sp_expr *x = (const sp_expr *)&rows[i];
        sparta_status status = sp_expr_parse(a, rows[i].text, &x);
        if (status != rows[i].status) fail_msg("\"%s\" gives %s", rows[i].text, sparta_status_name(status));
        assert_ptr_equal(x, &rows[i]); /* untouched */
        assert_true(sparta_message(sp_arena_ctx(a))[0] != 0);
    }
}

/* ------------------------------------------------------------------ limits */

static sparta_status parse_status(sparta_ctx *cx, const char *text)
{
    sp_arena *a = sp_arena_create(cx);
    SP_NEED(cx, a);
    const sp_expr *x;
    sparta_status status = sp_expr_parse(a, text, &x);
    sp_arena_free(a);
    return status;
}

static void test_limits(void **state)
{
    sparta_ctx *cx = sp_arena_ctx(*state);
    static char text[20000];
    const clock_t start = clock();
    memset(text, '(', 10000), text[10000] = 0;
    assert_int_equal(parse_status(cx, text), SPARTA_E_LIMIT);
    text[4000] = 0;
    assert_int_equal(parse_status(cx, text), SPARTA_E_LIMIT);
    memset(text, '-', 4000);
    assert_int_equal(parse_status(cx, text), SPARTA_E_LIMIT);
    size_t at = 0;
    for (int i = 0; i < 700; i++)
        at += (size_t)sprintf(text + at, "%sx%d", i ? "+" : "", i); /* too many terms */
    assert_true(at < 4096);
    assert_int_equal(parse_status(cx, text), SPARTA_E_LIMIT);
    at = 0;
    for (int i = 0; i < 30; i++)
        at += (size_t)sprintf(text + at, "%s(a%d+b%d)", i ? "*" : "", i, i); /* 2^30 terms */
    assert_int_equal(parse_status(cx, text), SPARTA_E_LIMIT);
    at = 0;
    for (int i = 0; i < 400; i++)
        at += (size_t)sprintf(text + at, "%s(a+1)", i ? "*" : ""); /* coefficients grow */
    assert_int_not_equal(parse_status(cx, text), SPARTA_OK);
    at = 0;
    for (int i = 0; i < 2000; i++) at += (size_t)sprintf(text + at, "%sa", i ? "*" : "");
    const clock_t begun = clock();
    assert_int_equal(parse_status(cx, text), SPARTA_OK); /* long but honest */
    const clock_t honest = clock() - begun;
    at = 0;
    for (int i = 0; i < 60; i++) at += (size_t)sprintf(text + at, "max(a,1-");
    at += (size_t)sprintf(text + at, "b");
    for (int i = 0; i < 60; i++) text[at++] = ')';
    text[at] = 0;
    assert_int_equal(parse_status(cx, text), SPARTA_E_LIMIT);
    assert_true(clock() - start < 10 * honest); /* of the processor: what is refused is soon refused */
}

/* Sharing makes a tree of 2^k leaves out of k steps: it must be refused, not walked. */
static void test_doubling(void **state)
{
    sp_arena *a = *state;
    const sp_expr *x = parse(a, "n"), *three = parse(a, "n-3"), *y = x;
    int steps = 0;
    for (; y && steps < 100; steps++) y = sp_expr_min(a, sp_expr_div(a, y, three), sp_expr_mod(a, y, three));
    assert_true(steps < 20);
    assert_int_equal(sp_ctx_status(sp_arena_ctx(a)), SPARTA_E_LIMIT);
    for (y = x, steps = 0; y && steps < 1000; steps++)
        y = sp_expr_mod(a, sp_expr_sub(a, x, y), three); /* deep, not wide */
    assert_true(steps < 100);
}

/* ------------------------------------------------------------------ random expressions */

/* A tree that is evaluated directly, without any of expr's rules. Values: ok is false where the tree has no
 * value. */
typedef struct tree {
    char op; /* + - * / % m M s(ymbol) c(onstant) */
    int64_t value;
    struct tree *x, *y;
} tree;
typedef struct result {
    bool ok;
    int64_t v;
} result;

static tree *grow(sp_arena *a, sp_rng *r, int depth)
{
    static const char ops[] = "++--**//%%mM";
    tree *t = sp_arena_alloc(a, sizeof *t);
    uint64_t pick = sp_rng_next(r) >> 20;
    if (depth == 0 || pick % 5 == 0) {
        t->op = pick & 32 ? 's' : 'c';
        t->value = t->op == 's' ? (int64_t)(pick >> 8 & 3) : (int64_t)(pick >> 8) % 9 - 3;
        return t;
    }
    t->op = ops[(pick >> 8) % (sizeof ops - 1)];
    t->x = grow(a, r, depth - 1);
    t->y = grow(a, r, depth - 1);
    return t;
}

static result value(const tree *t, const int64_t *symbols)
{
    if (t->op == 'c') return (result){true, t->value};
    if (t->op == 's') return (result){true, symbols[t->value]};
    result x = value(t->x, symbols), y = value(t->y, symbols);
    int64_t v = 0;
    if (!x.ok || !y.ok) return (result){false, 0};
    switch (t->op) {
    case '+': return (result){sp_int_add(x.v, y.v, &v), v};
    case '-': return (result){!__builtin_sub_overflow(x.v, y.v, &v), v};
    case '*': return (result){sp_int_mul(x.v, y.v, &v), v};
    case 'm': return (result){true, x.v < y.v ? x.v : y.v};
    case 'M': return (result){true, x.v > y.v ? x.v : y.v};
    }
    if (y.v == 0) return (result){false, 0};
    __int128 q = (__int128)x.v / y.v, m = (__int128)x.v % y.v;
    if (m && (m < 0) != (y.v < 0)) q--, m += y.v;
    return (result){true, t->op == '/' ? (int64_t)q : (int64_t)m};
}

static const sp_expr *build(sp_arena *a, const tree *t)
{
    if (t->op == 'c') return sp_expr_const(a, t->value);
    if (t->op == 's') return sp_expr_symbol(a, names[t->value]);
    const sp_expr *x = build(a, t->x), *y = x ? build(a, t->y) : NULL;
    if (!y) return NULL;
    switch (t->op) {
    case '+': return sp_expr_add(a, x, y);
    case '-': return sp_expr_sub(a, x, y);
    case '*': return sp_expr_mul(a, x, y);
    case '/': return sp_expr_div(a, x, y);
    case '%': return sp_expr_mod(a, x, y);
    case 'm': return sp_expr_min(a, x, y);
    default: return sp_expr_max(a, x, y);
    }
}

/* The tree as it was before any rule, for the message. */
static void write_tree(const tree *t, sp_text *out)
{
    if (t->op == 'c') {
        sp_text_printf(out, "%ld", (long)t->value);
    } else if (t->op == 's') {
        sp_text_printf(out, "%s", names[t->value]);
    } else {
        sp_text_printf(out, t->op == 'm' ? "min(" : t->op == 'M' ? "max(" : "(");
        write_tree(t->x, out);
        sp_text_printf(out, "%c", t->op == 'm' || t->op == 'M' ? ',' : t->op);
        write_tree(t->y, out);
        sp_text_printf(out, ")");
    }
}

static void check_values(sparta_ctx *cx, const tree *t, const sp_expr *x, const char *text, int *checked)
{
    static const int64_t some[] = {0, 1, 2, 3, 5, 7, 64, 100, 1000003};
    sp_rng r = sp_rng_seed(strlen(text));
    for (int k = 0; k < 25; k++) {
        int64_t symbols[4], v = 0;
        for (int i = 0; i < 4; i++) symbols[i] = some[sp_rng_next(&r) % SP_COUNT(some)];
        sp_bindings b = {4, names, symbols};
        result expected = value(t, symbols);
        if (!expected.ok) continue; /* a simplified form may have a value where the long one divides by 0 */
        sparta_status status = sp_expr_eval(cx, x, &b, &v);
        if (status == SPARTA_E_LIMIT)
            continue; /* expanded products overflow earlier: an error, no wrong answer */
        sp_text tree_text;
        sp_text_init(&tree_text, cx);
        if (status || v != expected.v) write_tree(t, &tree_text);
        if (status || v != expected.v)
            fail_msg("%s = %s at a=%ld b=%ld n=%ld seq.len=%ld: %ld, expected %ld (%s)",
                     sp_text_str(&tree_text), text, (long)symbols[0], (long)symbols[1], (long)symbols[2],
                     (long)symbols[3], (long)v, (long)expected.v, sparta_message(cx));
        ++*checked;
    }
}

static void test_random(void **state)
{
    sparta_ctx *cx = sp_arena_ctx(*state);
    sp_rng r = sp_rng_seed(42);
    int checked = 0, made = 0;
    for (int i = 0; i < 6000; i++) {
        sp_arena *a = sp_arena_create(cx), *other = sp_arena_create(cx);
        tree *t = grow(a, &r, 1 + i % 5);
        const sp_expr *x = build(a, t);
        if (x) {
            const char *text = print(a, x);
            const sp_expr *again = parse(other, text), *copy = sp_expr_copy(other, x);
            if (!sp_expr_equal(x, again)) fail_msg("%s parses to %s", text, print(other, again));
            assert_string_equal(print(other, again), text);
            assert_true(sp_expr_equal(x, copy) && sp_expr_equal(copy, x));
            check_values(cx, t, copy, text, &checked);
            made++;
        } else {
            sparta_status status = sp_ctx_status(cx);
            assert_true(status == SPARTA_E_RANGE || status == SPARTA_E_LIMIT);
        }
        sp_arena_free(a);
        sp_arena_free(other);
    }
    assert_true(made > 3000 && checked > 30000);
}

/* Random polynomials: equal exactly when the values are. */
static void test_polynomials(void **state)
{
    sparta_ctx *cx = sp_arena_ctx(*state);
    sp_rng r = sp_rng_seed(7);
    for (int i = 0; i < 500; i++) {
        sp_arena *a = sp_arena_create(cx);
        const sp_expr *x = parse(a, "a+2*b-1"), *y = parse(a, "n*b+3"), *z = parse(a, "a*n-b");
        const sp_expr *p[] = {x, y, z};
        const sp_expr *u = p[sp_rng_next(&r) % 3], *v = p[sp_rng_next(&r) % 3], *w = p[sp_rng_next(&r) % 3];
        const sp_expr *left = sp_expr_mul(a, sp_expr_add(a, u, v), w);
        const sp_expr *right = sp_expr_add(a, sp_expr_mul(a, w, v), sp_expr_mul(a, w, u));
        assert_true(sp_expr_equal(left, right));
        assert_true(sp_expr_equal(sp_expr_divide_exact(a, left, w), sp_expr_add(a, v, u)));
        assert_false(sp_expr_equal(left, sp_expr_add(a, right, parse(a, "a"))));
        assert_null(sp_expr_divide_exact(a, sp_expr_add(a, left, parse(a, "1")), w));
        sp_arena_free(a);
    }
}

/* ------------------------------------------------------------------ the rest */

static void test_looking(void **state)
{
    sp_arena *a = *state;
    sparta_ctx *cx = sp_arena_ctx(a);
    int64_t v = 9;
    const char *name = NULL;
    assert_true(sp_expr_is_const(parse(a, "3"), &v) && v == 3 && sp_expr_is(parse(a, "0"), 0) &&
                !sp_expr_is(parse(a, "a"), 0));
    assert_true(sp_expr_is_symbol(parse(a, "a"), &name) && !strcmp(name, "a"));
    assert_false(sp_expr_is_symbol(parse(a, "2*a"), NULL) || sp_expr_is_symbol(parse(a, "a*a"), NULL) ||
                 sp_expr_is_const(parse(a, "a"), NULL));
    sp_ctx_clear(cx);
    assert_null(sp_expr_divide_exact(a, parse(a, "a+1"), parse(a, "2")));
    assert_null(sp_expr_divide_exact(a, parse(a, "a"), parse(a, "0")));
    assert_string_equal(sparta_message(cx), "");
    assert_string_equal(print(a, sp_expr_divide_exact(a, parse(a, "12*batch*seq"), parse(a, "4*seq"))),
                        "3*batch");
    sp_bindings b = {2, (const char *const[]){"a", "b"}, (int64_t[]){-1, 0}};
    v = 9;
    assert_int_equal(sp_expr_eval(cx, parse(a, "n+1"), &b, &v), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "n"));
    assert_int_equal(sp_expr_eval(cx, parse(a, "a+1"), &b, &v), SPARTA_E_SHAPE);
    assert_int_equal(sp_expr_eval(cx, parse(a, "5/b"), &b, &v), SPARTA_E_RANGE);
    assert_int_equal(sp_expr_eval(cx, parse(a, "n"), NULL, &v), SPARTA_E_USAGE);
    assert_int_equal(v, 9);
    b.value = (int64_t[]){INT64_MAX, 2};
    assert_int_equal(sp_expr_eval(cx, parse(a, "a*b"), &b, &v), SPARTA_E_LIMIT);
    assert_int_equal(sp_expr_eval(cx, parse(a, "a+b"), &b, &v), SPARTA_E_LIMIT);
    assert_int_equal(sp_expr_eval(cx, parse(a, "a/b"), &b, &v), SPARTA_OK);
    assert_int_equal(v, INT64_MAX / 2);
}

static void test_symbol_names(void **state)
{
    sp_arena *a = *state;
    static const char *const odd[] = {"", "a b", "a-b", "a+b", "1a", "\xc3\xa9", ".x", "a,b]"};
    for (size_t i = 0; i < SP_COUNT(odd); i++) {
        const sp_expr *x = sp_expr_symbol(a, odd[i]);
        assert_true(sp_expr_equal(x, sp_expr_symbol(a, odd[i])));
        assert_true(sp_expr_equal(x, parse(a, print(a, x))));
        for (size_t k = 0; k < i; k++)
            assert_false(sp_expr_equal(x, sp_expr_symbol(a, odd[k]))); /* stay different */
    }
    static char longest[10000];
    memset(longest, 'x', sizeof longest - 1);
    const sp_expr *x = sp_expr_symbol(a, longest);
    longest[9000] = 'y';
    assert_false(sp_expr_equal(x, sp_expr_symbol(a, longest)));
    assert_true(sp_expr_equal(x, parse(a, print(a, x))));
    char name[SP_SYMBOL_SIZE];
    sp_expr_symbol_name("batch.1_x", name);
    assert_string_equal(name, "batch.1_x");
    memset(longest, 'x', 255), longest[255] = 0;
    sp_expr_symbol_name(longest, name);
    assert_string_equal(name, longest);
}

static void collect(void *arg, const char *name)
{
    strcat(strcat(arg, name), " ");
}

static void test_symbols(void **state)
{
    sp_arena *a = *state;
    char seen[100] = "";
    sp_expr_symbols(parse(a, "2*a*b + min(c,d/(e-f)) + 1"), collect, seen);
    for (const char *c = "abcdef"; *c; c++) assert_non_null(strchr(seen, *c));
    assert_int_equal(strlen(seen), 12);
}

static void test_dims(void **state)
{
    sp_arena *a = *state;
    sparta_ctx *cx = sp_arena_ctx(a);
    sp_dims d, e = {.rank = 55};
    int64_t v[SPARTA_RANK] = {9, 9, 9};
    sp_text t;
    sp_text_init(&t, cx);
    assert_int_equal(sp_dims_parse(a, " [ batch , min(a, 3)+1, 768 ] ", &d), SPARTA_OK);
    sp_dims_print(&d, &t);
    assert_string_equal(sp_text_str(&t), "[batch,min(a,3)+1,768]");
    assert_int_equal(sp_dims_parse(a, sp_text_str(&t), &e), SPARTA_OK);
    assert_true(sp_dims_equal(&d, &e));
    sp_text_free(&t);
    assert_false(sp_dims_const(&d, v));
    assert_int_equal(v[0], 9);
    sp_bindings b = {2, (const char *const[]){"a", "batch"}, (int64_t[]){1, 4}};
    assert_int_equal(sp_dims_eval(cx, &d, &b, v), SPARTA_OK);
    assert_true(v[0] == 4 && v[1] == 2 && v[2] == 768);
    assert_string_equal(print(a, sp_dims_elements(a, &d)), "768*batch*min(a,3)+768*batch");
    assert_int_equal(sp_dims_parse(a, "[]", &d), SPARTA_OK);
    assert_true(d.rank == 0 && sp_dims_const(&d, v) && sp_expr_is(sp_dims_elements(a, &d), 1));
    assert_int_equal(sp_dims_parse(a, "[a-5]", &d), SPARTA_OK);
    assert_int_equal(sp_dims_eval(cx, &d, &b, v), SPARTA_E_SHAPE);
    assert_int_equal(v[0], 4);
    assert_false(sp_dims_equal(&d, &e));
    e.rank = 55;
    static const char *const bad[] = {"", "[", "]", "[a", "[a,]", "[,a]", "[a]]", "a", "[a b]", "[a;b]"};
    for (size_t i = 0; i < SP_COUNT(bad); i++) assert_int_equal(sp_dims_parse(a, bad[i], &e), SPARTA_E_USAGE);
    assert_int_equal(sp_dims_parse(a, "[1,2,3,4,5,6,7,8,9]", &e), SPARTA_E_LIMIT);
    assert_int_equal(e.rank, 55);
}

static void test_fail_alloc(void **state)
{
    sparta_ctx *cx = sp_arena_ctx(*state);
    size_t held = sp_ctx_memory(cx);
    static char text[4000];
    size_t at = (size_t)sprintf(text, "(a*a-b*b)/(a-b)+(a*b+n)/b%%5+min((n+63)/64,n%%b)*(a+b+1)");
    for (int i = 0; i < 60; i++) at += (size_t)sprintf(text + at, "+x%d*(y+1)*(z+2)", i);
    uint64_t n = 1;
    for (;; n++) {
        sp_ctx_fail_alloc(cx, n, false);
        sparta_status status = parse_status(cx, text);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_int_equal(sp_ctx_memory(cx), held);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
    }
    assert_true(n > 10);
}

static int set_up(void **state)
{
    sparta_ctx *cx = sparta_ctx_create(NULL);
    return (*state = sp_arena_create(cx)) ? 0 : -1;
}

static int tear_down(void **state)
{
    sparta_ctx *cx = sp_arena_ctx(*state);
    sp_arena_free(*state);
    int held = sp_ctx_memory(cx) != 0;
    sparta_ctx_free(cx);
    return held;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_random),       cmocka_unit_test(test_looking),
        cmocka_unit_test(test_symbol_names), cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_polynomials),  cmocka_unit_test(test_dims),
        cmocka_unit_test(test_fail_alloc),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
