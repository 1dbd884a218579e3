/* Which weights a schedule's rules name: by initialiser, by path, from either side; nothing matched; conflicts. */
#include "bed.h"
#include "schedule/schedule.h"

static sp_graph *g;
static float numbers[64];

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg, (void)name;
    out->data = numbers;
    return SPARTA_OK;
}

#define GRAPH                                                                                                \
    "graph \"g\"\ninput x: f32[batch,8]\n"                                                                   \
    "const %0: f32[8,4] @\"encoder.0.up.weight\"\nconst %1: f32[8,4] @\"encoder.0.down.weight\"\n"           \
    "const b: f32[4] = [1,2,3,4]\nconst tied: f32[8,8] @\"tied.weight\"\n"                                   \
    "node u: ? = MatMul(x, %0) \"/encoder/0/up/MatMul\"\n"                                                   \
    "node v: ? = Gemm(u, %1, _) {transB=1} \"/encoder/0/down/Gemm\"\n"                                       \
    "node w: ? = MatMul(v, tied) \"/first\"\n"                                                               \
    "node t: ? = Transpose(tied) {perm=[1,0]} \"/turn\"\n"                                                   \
    "node z: ? = MatMul(w, t) \"/second\"\n"                                                                 \
    "node a: ? = Add(u, b) \"/add\"\noutput z\noutput a\n"

static int enter(void **state)
{
    if (set_up(state)) return -1;
    for (int i = 0; i < 64; i++) numbers[i] = (float)(i + 1);
    if (sp_graph_parse(cx, GRAPH, fetch, NULL, &g) == SPARTA_OK) return 0;
    print_error("%s\n", sparta_message(cx));
    return -1;
}

static int leave(void **state)
{
    sp_graph_free(g);
    return tear_down(state);
}

static sparta_status matched(const char *text, sp_arena *arena, sp_schedule_match **m, int *n,
                             sparta_schedule **s)
{
    *s = NULL;
    assert_int_equal(sparta_schedule_parse(cx, text, "s", NULL, s), SPARTA_OK);
    return sp_schedule_matches(*s, g, arena, m, n);
}

/* The names of the weights that rules name, and the text of a clause of each. */
static void names(const char *text, const char *expected)
{
    sp_arena *arena = sp_arena_create(cx);
    sp_schedule_match *m;
    sparta_schedule *s;
    sp_text t;
    int n;
    if (matched(text, arena, &m, &n, &s) != SPARTA_OK) fail_msg("%s", sparta_message(cx));
    sp_text_init(&t, cx);
    for (int i = 0; i < n; i++) {
        sp_text_printf(&t, "%s%s:", m[i].value->origin ? m[i].value->origin : m[i].value->name,
                       m[i].turned ? "~" : "");
        for (int k = 0; k < SP_CLAUSES; k++)
            if (m[i].rule[k]) sp_text_printf(&t, " %s", m[i].rule[k]->clause[k].text);
        sp_text_printf(&t, "\n");
    }
    assert_string_equal(sp_text_str(&t), expected);
    sp_text_free(&t);
    sparta_schedule_free(s);
    sp_arena_free(arena);
}

static void refused(const char *text, sparta_status status, const char *message)
{
    sp_arena *arena = sp_arena_create(cx);
    sp_schedule_match *m;
    sparta_schedule *s;
    int n;
    const sparta_status got = matched(text, arena, &m, &n, &s);
    if (got != status || strcmp(sparta_message(cx), message) != 0)
        fail_msg("says (%d) %s\nnot (%d) %s", got, sparta_message(cx), status, message);
    sparta_schedule_free(s);
    sp_arena_free(arena);
}

static void by_name(void **state)
{
    (void)state;
    names("tensor \"encoder.*.weight\" { format csr }",
          "encoder.0.up.weight~: csr\nencoder.0.down.weight: csr\n");
    names("tensor \"encoder.0.?p.weight\" { format csr }", "encoder.0.up.weight~: csr\n");
    names("tensor \"/encoder/0/down/*\" { format csr }", "encoder.0.down.weight: csr\n");
    names("tensor \"*down*\" { format csr }\ntensor \"*down*\" { quantize i8 }",
          "encoder.0.down.weight: csr i8\n");
    names("tensor \"encoder.*\" { }", "");
    names("", "");
}

static void nothing(void **state)
{
    (void)state;
    refused(
        "\n tensor \"encoder.*.wieght\" { }", SPARTA_E_USAGE,
        "s:2:2: tensor \"encoder.*.wieght\" matches no weight; the nearest names are 'encoder.0.up.weight', "
        "'encoder.0.down.weight', 'tied.weight'");
    refused("tensor \"b\" { }", SPARTA_E_USAGE,
            "s:1:1: tensor \"b\" matches 'b', which is no weight of a product; only those can be scheduled");
    refused("tensor \"/add\" { format csr }", SPARTA_E_USAGE,
            "s:1:1: tensor \"/add\" matches no weight; the nearest names are '/encoder/0/up/MatMul', "
            "'/encoder/0/down/Gemm', '/first'");
}

static void conflicts(void **state)
{
    (void)state;
    refused("tensor \"*up*\" { format csr }\ntensor \"encoder.*\" {\n  format csc }", SPARTA_E_USAGE,
            "s:3:3: format csc conflicts with format csr at s:1:17: both are said of 'encoder.0.up.weight'; "
            "narrow one "
            "of the globs");
    refused("tensor \"/encoder/0/up/MatMul\" { sparsify threshold(1) }\ntensor \"*up.weight\" { sparsify "
            "threshold(2) }",
            SPARTA_E_USAGE,
            "s:2:23: sparsify threshold(value=2) conflicts with sparsify threshold(value=1) at s:1:33: both "
            "are said of "
            "'encoder.0.up.weight'; narrow one of the globs");
    /* the same meaning in other words is no conflict */
    names("sparsifier h = threshold(1.0)\ntensor \"*up*\" { sparsify h }\ntensor \"*up*\" { sparsify "
          "threshold(1) }",
          "encoder.0.up.weight~: h\n");
    /* formats too, however they are spelt; widths that are written are something else than widths that are not */
    names("format mine = (o,i) -> (o/4:dense,i:compressed,o%4:dense)\ntensor \"*up*\" { format strip(4) }\n"
          "tensor \"*up*\" { format mine }\ntensor \"*up*\" { format (n,k)->(n/4:dense, k:compressed, "
          "n%4:dense) }",
          "encoder.0.up.weight~: strip(4)\n");
    names("tensor \"*up*\" { format bsr(4) }\ntensor \"*up*\" { format bsr(4,4) }",
          "encoder.0.up.weight~: bsr(4)\n");
    refused("tensor \"*up*\" { format csr }\ntensor \"*up*\" { format csr, crd=i32 }", SPARTA_E_USAGE,
            "s:2:17: format csr, crd=i32 conflicts with format csr at s:1:17: both are said of "
            "'encoder.0.up.weight'; narrow one of the globs");
    assert_true(sp_schedule_says_widths("csr, crd=i32"));
    assert_true(sp_schedule_says_widths("sum{rownnz<=4 -> csr, pos[1]=u16; rest -> coo}"));
    assert_false(sp_schedule_says_widths("sum{rownnz<=4 -> csr; blockdensity>=0.5 -> bsr(4); rest -> coo}"));
    assert_false(sp_schedule_says_widths("(i,j)->(i:dense, j:packed[4](pad=zero))"));
    refused("tensor \"tied*\" { sparsify threshold(1) }", SPARTA_E_UNSUPPORTED,
            "s:1:1: 'tied.weight' is used as it is by '/first' and transposed by '/second'; leave it out");
}

/* A weight that an exporter numbered is its module's; one with a parameter's name is that parameter, wherever it is used. */
static void by_module(void **state)
{
    (void)state;
    sp_arena *arena = sp_arena_create(cx);
    sp_node product = {.name = "", .module = "mha"};
    const sp_value *tied = sp_graph_find(g, "tied"), *plain = sp_graph_find(g, "b");
    assert_true(sp_schedule_is_called("mha.weight", plain, &product));
    assert_true(sp_schedule_is_called("mha", plain, &product));
    assert_false(sp_schedule_is_called("mha.weight", tied, &product));
    assert_true(sp_schedule_is_called("mha", tied, &product));
    assert_true(sp_schedule_is_called("tied.weight", tied, &product));
    assert_string_equal(sp_schedule_known_as(arena, plain, &product), "mha.weight");
    assert_string_equal(sp_schedule_known_as(arena, tied, &product), "tied.weight");
    product.module = NULL;
    assert_false(sp_schedule_is_called("mha", plain, &product));
    assert_string_equal(sp_schedule_known_as(arena, plain, &product), "b");
    sp_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_name), cmocka_unit_test(nothing),
                                       cmocka_unit_test(conflicts), cmocka_unit_test(by_module)};
    return cmocka_run_group_tests(tests, enter, leave);
}
