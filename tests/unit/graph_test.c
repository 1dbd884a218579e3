/* The room graph: building, changing, verifying, and the text form with hostile texts. */
#include "bed.h"
#include <math.h>
#include "graph/graph.h"

static float big[17] = {1, 2, 3};

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg;
    if (strcmp(name, "encoder \"big\".weight") && strcmp(name, "w"))
        return sp_fail(cx, SPARTA_E_FORMAT, "no '%s'", name);
    out->data = big;
    return SPARTA_OK;
}

static sp_graph *parse(const char *text)
{
    sp_graph *g = NULL;
    ok(sp_graph_parse(cx, text, fetch, NULL, &g));
    return g;
}

static char *print(const sp_graph *g)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_graph_print(g, &t);
    assert_int_equal(t.status, SPARTA_OK);
    char *s = strdup(sp_text_str(&t));
    sp_text_free(&t);
    return s;
}

static void prints(const sp_graph *g, const char *expected)
{
    char *s = print(g);
    assert_string_equal(s, expected);
    free(s);
}

static const char sample[] =
    "graph \"a \\\"b\\\" \\x0a\\\\\"\n"
    "input  ids: i64[batch,sequence]\n"
    "input  \"odd name: 1\": f32[]\n"
    "input  \"_\": f16[2*batch+1,3]\n"
    "const  w: f32[17,1] @\"encoder \\\"big\\\".weight\"\n"
    "const  axes: i64[2] = [-1,9223372036854775807]\n"
    "const  halves: f16[3] = [0.5,-0.0,65504.0] @\"h\"\n"
    "const  none: f32[0,4] = []\n"
    "const  odd: f32[4] = [nan,-inf,inf,1.17549435e-38]\n"
    "const  u: u64[1] = [18446744073709551615]\n"
    "const  yes: bool[] = [1]\n"
    "node   /x/y: ? = Softmax(\"odd name: 1\") {axis=-1} \"/soft max\"\n"
    "node   a: f32[batch], \"b c\": ?, %7: ? = Split(/x/y, axes) {axis=0, num_outputs=3}\n"
    "node   c: ? = Clip(a, _, \"_\")\n"
    "node   d: ? = ConstantOfShape(axes) {value=f32[1]=[0.100000001]} \"n\"\n"
    "node   e: ? = Constant() {value_floats=floats[1.0,2.5,nan]}\n"
    "node   e2: ? = Constant() {value_floats=floats[]}\n"
    "node   f: ? = Transpose(w) {perm=[1,0]}\n"
    "node   f2: ? = Transpose(w) {perm=[]}\n"
    "node   g: f32[batch,17] = sparta::Linear(d, w, _, odd) {transposed=1, epilogue=\"gelu add\"}\n"
    "node   h: ? = Concat(halves, none, u, yes, f, e, e2, f2, c, ids) {axis=0}\n"
    "output g\n"
    "output h\n"
    "output \"b c\"\n"
    "output yes\n";

static void text_round_trip(void **state)
{
    (void)state;
    sp_graph *g = parse(sample);
    prints(g, sample);
    sp_value *v = sp_graph_find(g, "axes");
    assert_int_equal(v->n_ints, 2);
    assert_true(sp_expr_is(v->ints[0], -1));
    assert_null(sp_graph_find(g, "u")->ints); /* has no int64 */
    assert_ptr_equal(sp_graph_find(g, "w")->constant->data, big);
    assert_string_equal(sp_graph_find(g, "halves")->origin, "h");
    assert_true(sp_attr_find(&sp_graph_find(g, "e")->producer->attrs, "value_floats")->floats[1] == 2.5f);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ building */

static sp_value *constant(sp_graph *g, const char *name, int64_t n, const int64_t *data)
{
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, &n, (void *)data);
    sp_value *v = NULL;
    ok(sp_graph_add_constant(g, name, &t, true, &v));
    return v;
}

static sp_value *node(sp_graph *g, sp_op_id op, const char *name, sp_value *a, sp_value *b)
{
    sp_value *in[] = {a, b}, *out[] = {NULL};
    ok(sp_graph_add_node(g, op, name, b ? 2 : 1, in, 1, out, NULL, NULL));
    return out[0];
}

static sp_graph *started(sp_value **x)
{
    sp_graph *g = NULL;
    ok(sp_graph_create(cx, "t", &g));
    sp_dims d = {1, {sp_expr_symbol(g->arena, "n")}};
    ok(sp_graph_add_input(g, "x", SPARTA_F32, &d, x));
    return g;
}

static void building(void **state)
{
    (void)state;
    sp_value *x, *other;
    sp_graph *g = started(&x);
    int64_t numbers[] = {3, 4};
    sp_value *c = constant(g, "c", 2, numbers);
    numbers[0] = 9; /* it was copied */
    assert_true(sp_expr_is(c->ints[0], 3));
    sp_value *y = node(g, SP_OP_Add, "add", x, c);
    assert_string_equal(y->name, "%0");
    ok(sp_graph_add_value(g, "%1", &other));
    ok(sp_graph_add_value(g, NULL, &other));
    assert_string_equal(other->name, "%2");
    ok(sp_graph_add_output(g, y));
    fails_saying(SPARTA_E_FORMAT, "twice", sp_graph_add_output(g, y));
    fails_saying(SPARTA_E_FORMAT, "'x'", sp_graph_add_value(g, "x", &other));
    fails_saying(SPARTA_E_FORMAT, "'c'", sp_graph_add_input(g, "c", SPARTA_F32, &x->dims, NULL));
    ok(sp_graph_verify(g));
    assert_int_equal(sp_graph_uses(g, c), 1);
    sp_graph_free(g);
    sp_graph_free(NULL);
}

static void bad_nodes(void **state)
{
    (void)state;
    sp_value *x;
    sp_graph *g = started(&x);
    sp_value *in[] = {x, NULL, x}, *out[] = {NULL, NULL};
    fails_saying(SPARTA_E_FORMAT, "3 inputs",
                 sp_graph_add_node(g, SP_OP_Add, "a", 3, in, 1, out, NULL, NULL));
    fails_saying(SPARTA_E_FORMAT, "input 1 is absent",
                 sp_graph_add_node(g, SP_OP_Add, "a", 2, in, 1, out, NULL, NULL));
    fails_saying(SPARTA_E_FORMAT, "input 1 is absent",
                 sp_graph_add_node(g, SP_OP_Concat, "a", 3, in, 1, out, NULL, NULL));
    fails_saying(SPARTA_E_FORMAT, "2 outputs",
                 sp_graph_add_node(g, SP_OP_Relu, "a", 1, in, 2, out, NULL, NULL));
    fails_saying(SPARTA_E_FORMAT, "0 outputs",
                 sp_graph_add_node(g, SP_OP_Relu, "a", 1, in, 0, out, NULL, NULL));
    out[0] = x;
    fails_saying(SPARTA_E_FORMAT, "already defined",
                 sp_graph_add_node(g, SP_OP_Relu, "a", 1, in, 1, out, NULL, NULL));
    ok(sp_graph_add_value(g, "twice", &out[0]));
    out[1] = out[0];
    fails_saying(SPARTA_E_FORMAT, "listed twice",
                 sp_graph_add_node(g, SP_OP_Split, "a", 1, in, 2, out, NULL, NULL));
    sp_attr two[] = {{.name = "axis", .kind = SP_ATTR_INT}, {.name = "axis", .kind = SP_ATTR_INT}};
    sp_attr wrong = {.name = "axis", .kind = SP_ATTR_FLOAT}, unknown = {.name = "axes", .kind = SP_ATTR_INT};
    out[0] = NULL;
    fails_saying(SPARTA_E_FORMAT, "given twice",
                 sp_graph_add_node(g, SP_OP_Softmax, "a", 1, in, 1, out, &(sp_attrs){2, two}, NULL));
    fails_saying(SPARTA_E_FORMAT, "is a float",
                 sp_graph_add_node(g, SP_OP_Softmax, "a", 1, in, 1, out, &(sp_attrs){1, &wrong}, NULL));
    fails_saying(SPARTA_E_UNSUPPORTED, "'axes'",
                 sp_graph_add_node(g, SP_OP_Softmax, "a", 1, in, 1, out, &(sp_attrs){1, &unknown}, NULL));
    assert_int_equal(g->n_nodes, 0);
    ok(sp_graph_verify(g));
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ changing */

static void replace(sp_graph *g, sp_value *old, sp_value *by)
{
    sp_users u;
    ok(sp_graph_users(g, g->arena, &u));
    sp_graph_replace(g, &u, old, by);
}

static void changing(void **state)
{
    (void)state;
    sp_graph *g =
        parse("graph \"\"\ninput  x: f32[4]\nnode   a: ? = Relu(x) \"1\"\nnode   b: ? = Identity(a) \"2\"\n"
              "node   c: ? = Add(a, b) \"3\"\nnode   dead: ? = Tanh(c) \"4\"\nnode   dead2: ? = Tanh(dead) "
              "\"5\"\noutput b\noutput c\n");
    sp_value *a = sp_graph_find(g, "a"), *b = sp_graph_find(g, "b"), *x = sp_graph_find(g, "x");
    assert_int_equal(sp_graph_uses(g, a), 2);
    assert_int_equal(sp_graph_uses(g, b), 2);
    replace(g, b, a); /* the output keeps its name */
    ok(sp_graph_sweep(g));
    ok(sp_graph_verify(g));
    prints(g, "graph \"\"\ninput  x: f32[4]\nnode   b: ? = Relu(x) \"1\"\nnode   c: ? = Add(b, b) "
              "\"3\"\noutput b\noutput c\n");
    replace(g, a, x); /* an input cannot take the name over: the node stays for the output alone */
    ok(sp_graph_sweep(g));
    prints(g, "graph \"\"\ninput  x: f32[4]\nnode   b: ? = Relu(x) \"1\"\nnode   c: ? = Add(x, x) "
              "\"3\"\noutput b\noutput c\n");
    sp_node *add = g->node[1], *relu = g->node[0];
    sp_graph_move_node(g, 0, add);
    assert_ptr_equal(g->node[0], add);
    assert_int_equal(g->n_nodes, 2);
    sp_graph_move_node(g, 2, add); /* to the end */
    assert_ptr_equal(g->node[1], add);
    sp_graph_remove_node(g, 0);
    assert_null(relu->out[0]->producer);
    fails_saying(SPARTA_E_INTERNAL, "'b' is made by nobody", sp_graph_verify(g));
    ok(sp_graph_set_input(g, add, 3, x)); /* inputs between are absent */
    assert_int_equal(add->n_in, 4);
    assert_ptr_equal(add->in[0], x);
    assert_null(add->in[2]);
    assert_ptr_equal(add->in[3], x);
    bool used[8] = {false};
    sp_graph_used(g, used);
    for (int i = 0; i < g->n_values; i++)
        assert_int_equal(used[i], g->value[i]->is_output || g->value[i] == x);
    sp_graph_free(g);
}

/* Every slot that has a value is listed once, and replacing among them is replacing. */
/* A copy is the same graph; what happens to it does not happen to the original, nor the other way round. */
static void copying(void **state)
{
    (void)state;
    sp_graph *g = parse(sample), *h = NULL;
    char *before = print(g);
    ok(sp_graph_copy(g, &h));
    prints(h, before);
    ok(sp_graph_verify(h));
    for (int i = 0; i < g->n_values; i++) {
        assert_ptr_not_equal(h->value[i], g->value[i]);
        assert_ptr_equal(sp_graph_find(h, g->value[i]->name), h->value[i]);
    }
    sp_value *more;
    ok(sp_graph_add_bound(h, "another", 0, 7));
    ok(sp_graph_add_constant(h, "more", &(sparta_tensor){SPARTA_F32, 1, {17}, {1}, big, 0}, false, &more));
    replace(h, h->input[0], more);
    while (h->n_nodes) sp_graph_remove_node(h, h->n_nodes - 1);
    prints(g, before);
    ok(sp_graph_verify(g));
    sp_graph_free(h);
    for (uint64_t nth = 1;; nth++) { /* every allocation fails once */
        h = NULL;
        sp_ctx_fail_alloc(cx, nth, true);
        const sparta_status s = sp_graph_copy(g, &h);
        sp_ctx_fail_alloc(cx, 0, false);
        if (s == SPARTA_OK) break;
        assert_int_equal(s, SPARTA_E_MEMORY);
        assert_null(h);
    }
    sp_graph_free(h);
    prints(g, before);
    free(before);
    sp_graph_free(g);
}

static void users(void **state)
{
    (void)state;
    const char *text =
        "graph \"\"\ninput x: f32[4]\nnode a: ? = Relu(x)\nnode b: ? = Relu(a)\nnode c: ? = Add(b, b)\n"
        "node d: ? = Clip(b, _, c)\noutput d\noutput b\n";
    sp_graph *g = NULL;
    ok(sp_graph_parse(cx, text, NULL, NULL, &g));
    sp_arena *arena = sp_arena_create(cx);
    sp_users u;
    ok(sp_graph_users(g, arena, &u));
    const int expected[][5] = {{1, 0}, {2, 0, 1}, {4, 1, 2, 2, 3}, {2, 2, 3}, {1, 3}}; /* how many, which */
    for (int i = 0; i < 5; i++) {
        const int id = sp_graph_find(g, (const char[2]){"xabcd"[i], 0})->id;
        assert_int_equal(u.first[id + 1] - u.first[id], expected[i][0]);
        assert_memory_equal(u.user + u.first[id], expected[i] + 1, (size_t)expected[i][0] * sizeof(int));
    }
    sp_graph_replace(g, &u, sp_graph_find(g, "b"), sp_graph_find(g, "a"));
    prints(g, "graph \"\"\ninput  x: f32[4]\nnode   b: ? = Relu(x)\nnode   a: ? = Relu(b)\n"
              "node   c: ? = Add(b, b)\nnode   d: ? = Clip(b, _, c)\noutput d\noutput b\n");
    sp_arena_free(arena);
    sp_graph_free(g);
}

static void sorting(void **state)
{
    (void)state;
    enum { n = 50000 }; /* a chain, backwards: no recursion may be in it */
    sp_value *x, *value[n];
    sp_graph *g = started(&x);
    for (int i = 0; i < n; i++) ok(sp_graph_add_value(g, NULL, &value[i]));
    for (int i = n - 1; i >= 0; i--)
        ok(sp_graph_add_node(g, SP_OP_Relu, "", 1, i ? &value[i - 1] : &x, 1, &value[i], NULL, NULL));
    ok(sp_graph_add_output(g, value[n - 1]));
    fails_saying(SPARTA_E_INTERNAL, "not made before", sp_graph_verify(g));
    ok(sp_graph_sort(g));
    ok(sp_graph_verify(g));
    for (int i = 0; i < n; i++) assert_ptr_equal(g->node[i]->out[0], value[i]);
    g->node[0]->in[0] = value[n - 1];
    fails_saying(SPARTA_E_FORMAT, "cycle", sp_graph_sort(g));
    sp_graph_free(g);
}

static void sorting_is_stable(void **state)
{
    (void)state;
    sp_value *x;
    sp_graph *g = started(&x);
    sp_value *a = node(g, SP_OP_Relu, "1", x, NULL), *b = node(g, SP_OP_Abs, "2", x, NULL);
    node(g, SP_OP_Add, "3", b, a);
    node(g, SP_OP_Add, "4", a, x);
    ok(sp_graph_sort(g));
    for (int i = 0; i < 4; i++) assert_int_equal(g->node[i]->name[0], '1' + i);
    g->node[0]->in[0] = a; /* a node that eats its own output */
    fails_saying(SPARTA_E_FORMAT, "Relu '1'", sp_graph_sort(g));
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ verify */

#define BREAK(words, damage, repair)                                                                         \
    do {                                                                                                     \
        damage;                                                                                              \
        fails_saying(SPARTA_E_INTERNAL, words, sp_graph_verify(g));                                          \
        repair;                                                                                              \
        ok(sp_graph_verify(g));                                                                              \
    } while (0)

static void verify_finds(void **state)
{
    (void)state;
    sp_graph *g = parse(sample);
    sp_value *w = sp_graph_find(g, "w"), *axes = sp_graph_find(g, "axes"), *ids = sp_graph_find(g, "ids");
    sp_value *h = sp_graph_find(g, "h");
    const sparta_tensor *t = w->constant;
    sp_node *n = g->node[1], *keep = n->out[0]->producer;
    sp_value *in = n->in[0];
    const char *name = ids->name;
    BREAK("has id", ids->id = 5, ids->id = 0);
    BREAK("by its name", ids->name = "other", ids->name = name);
    BREAK("no type", ids->typed = false, ids->typed = true);
    BREAK("another type", w->dtype = SPARTA_F64, w->dtype = SPARTA_F32);
    BREAK("input and a constant", w->is_input = true, w->is_input = false);
    BREAK("other dims", w->dims.dim[0] = w->dims.dim[1], w->dims.dim[0] = sp_expr_const(g->arena, 17));
    BREAK("1 ints", axes->n_ints = 1, axes->n_ints = 2);
    BREAK("outputs are listed", g->n_outputs--, g->n_outputs++);
    BREAK("2 of 3 inputs", g->n_inputs--, g->n_inputs++);
    BREAK("lacks input 0", n->in[0] = NULL, n->in[0] = in);
    BREAK("not made before", n->in[0] = h, n->in[0] = in);
    BREAK("another producer", n->out[0]->producer = g->node[0], n->out[0]->producer = keep);
    BREAK("inputs and", n->n_in = 5, n->n_in = 2);
    BREAK("that is not in the graph", axes->producer = n, axes->producer = NULL);
    sparta_tensor strided = *t;
    strided.stride[0] = 2;
    BREAK("not row-major", w->constant = &strided, w->constant = t);
    sp_value stranger = *in;
    BREAK("not of this graph", n->in[0] = &stranger, n->in[0] = in);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ hostile texts */

static void bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "expected a name"},
        {"graf \"x\"\n", "first"},
        {"graph x\n", "expected '\"'"},
        {"graph \"x", "string does not end"},
        {"graph \"x\\", "string does not end"},
        {"graph \"\\x00\"\n", "wrong escape"},
        {"graph \"\"\nfoo x\n", "expected input, bound, must, const"},
        {"graph \"\"\nmust [n] \"a\"\n", "two sizes"},
        {"graph \"\"\nmust [n,m]\n", "expected"},
        {"graph \"\"\ninput x: f33[1]\n", "no such type"},
        {"graph \"\"\ninput x: ?\n", "needs a type"},
        {"graph \"\"\ninput x: f32[1\n", "do not end"},
        {"graph \"\"\ninput x: f32[((((]\n", "dims are wrong"},
        {"graph \"\"\ninput x: f32[n,-2]\n", "negative"},
        {"graph \"\"\ninput x: f32[1]\ninput x: f32[1]\n", "used twice"},
        {"graph \"\"\ninput x: f32[1] extra\n", "more than was expected"},
        {"graph \"\"\nconst x: f32[1000000000000] = [1]\n", "as many elements"},
        {"graph \"\"\nconst x: f32[2] = [1,]\n", "expected a number"},
        {"graph \"\"\nconst x: f32[1] = [1\n", "as many elements"},
        {"graph \"\"\nconst x: f32[n] = [1]\n", "numbers as dims"},
        {"graph \"\"\nconst x: f32[-1] = []\n", "negative"},
        {"graph \"\"\nconst x: f32[9223372036854775807,9223372036854775807] @\"w\"\n", "too large"},
        {"graph \"\"\nconst x: f32[9223372036854775806,0] @\"w\"\n", "too large"},
        {"graph \"\"\nconst x: i8[1] = [128]\n", "of this type"},
        {"graph \"\"\nconst x: u8[1] = [-1]\n", "of this type"},
        {"graph \"\"\nconst x: bool[1] = [2]\n", "of this type"},
        {"graph \"\"\nconst x: u64[1] = [18446744073709551616]\n", "of this type"},
        {"graph \"\"\nconst x: i64[1] = [0x10]\n", "of this type"},
        {"graph \"\"\nconst x: f32[1] = [infinity]\n", "not a number"},
        {"graph \"\"\nconst x: f32[1]\n", "expected = or @"},
        {"graph \"\"\nconst x: f32[99] @\"stranger\"\n", "no 'stranger'"},
        {"graph \"\"\noutput x\n", "before it is defined"},
        {"graph \"\"\nnode y: ? = Relu(y)\n", "before it is defined"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Relu(x, x)\n", "2 inputs"},
        {"graph \"\"\ninput x: f32[1]\nnode x: ? = Relu(x)\n", "used twice"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ?, y: ? = Split(x)\n", "used twice"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Frob(x)\n", "no operator 'Frob'"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = sparta::Relu(x)\n", "no operator 'Relu'"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Relu(_)\n", "absent"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Softmax(x) {axis=}\n", "expected a number"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Softmax(x) {axis=1.5}\n", "is a float"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Softmax(x) {axis=1, axis=1}\n", "given twice"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Softmax(x) {axis=1\n", "expected '}'"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Transpose(x) {perm=[0,1.5]}\n", "of this type"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = Transpose(x) {perm=[0\n", "does not end"},
        {"graph \"\"\ninput x: f32[1]\nnode y: ? = ConstantOfShape(x) {value=f32[99999999999]=[1]}\n",
         "as many elements"},
        {"graph \"\"\ninput x: f32[1]\noutput x\noutput x\n", "twice"},
    };
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        sp_graph *g = NULL;
        sparta_status status = sp_graph_parse(cx, bad[i].text, fetch, NULL, &g);
        if (status != SPARTA_E_FORMAT || !strstr(sparta_message(cx), bad[i].words))
            print_error("%s -> %s\n", bad[i].text, sparta_message(cx));
        assert_int_equal(status, SPARTA_E_FORMAT);
        assert_non_null(strstr(sparta_message(cx), bad[i].words));
        assert_null(g);
    }
    sp_graph *g = NULL;
    fails_saying(
        SPARTA_E_UNSUPPORTED, "'spin'",
        sp_graph_parse(cx, "graph \"\"\ninput x: f32[1]\nnode y: ? = Relu(x) {spin=1}\n", fetch, NULL, &g));
    fails_saying(SPARTA_E_LIMIT, "more than 8",
                 sp_graph_parse(cx, "graph \"\"\ninput x: f32[1,1,1,1,1,1,1,1,1]\n", fetch, NULL, &g));
    fails_saying(SPARTA_E_FORMAT, "nobody holds",
                 sp_graph_parse(cx, "graph \"\"\nconst x: f32[99] @\"w\"\n", NULL, NULL, &g));
}

static sparta_status lying_fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)name;
    int64_t eighteen = 18;
    int how = *(int *)arg;
    if (how == 0) *out = sparta_tensor_view(SPARTA_F32, 1, &eighteen, big);
    if (how == 1) out->dtype = SPARTA_I32;
    if (how == 2) out->data = (char *)big + 1;
    if (how == 3) out->stride[0] = 2;
    if (how == 4) out->data = NULL;
    return SPARTA_OK;
}

static void lying_weights(void **state)
{
    (void)state;
    const char *text = "graph \"\"\nconst  x: f32[17] @\"w\"\noutput x\n";
    for (int how = 0; how < 4; how++) {
        sp_graph *g = NULL;
        fails_saying(SPARTA_E_FORMAT, "'w'", sp_graph_parse(cx, text, lying_fetch, &how, &g));
    }
    int packed = 4; /* a weight that is not in rows: allowed, without contents, and its text is stable */
    sp_graph *g = NULL;
    sp_text printed;
    ok(sp_graph_parse(cx, text, lying_fetch, &packed, &g));
    assert_null(sp_graph_find(g, "x")->constant->data);
    sp_text_init(&printed, cx);
    sp_graph_print(g, &printed);
    assert_string_equal(sp_text_str(&printed), text);
    sp_text_free(&printed);
    sp_graph_free(g);
}

/* What is printed is read as it was. */
static void prints_again(const sp_graph *g)
{
    char *text = print(g);
    sp_graph *again = parse(text);
    prints(again, text);
    sp_graph_free(again);
    free(text);
}

static void bounds(void **state)
{
    (void)state;
    const char *text = "graph \"\"\ninput  x: f32[n,3]\nbound  n[512]\noutput x\n";
    sp_graph *g = NULL;
    sp_text printed;
    ok(sp_graph_parse(cx, text, NULL, NULL, &g));
    sp_text_init(&printed, cx);
    sp_graph_print(g, &printed);
    assert_string_equal(sp_text_str(&printed), text);
    sp_text_free(&printed);
    ok(sp_graph_add_bound(g, "n", 0, 100)); /* the smaller counts */
    ok(sp_graph_add_bound(g, "n", 0, 200));
    assert_int_equal(g->n_bounds, 1);
    assert_int_equal(g->bound[0].most, 100);
    ok(sp_graph_add_bound(g, "n", 16, INT64_MAX)); /* and the larger, of what it is at least */
    ok(sp_graph_add_bound(g, "n", 8, INT64_MAX));
    ok(sp_graph_add_bound(g, "open", 3, INT64_MAX));
    prints_again(g);
    const sp_bound n = sp_graph_bound(g, "n"), open = sp_graph_bound(g, "open"),
                   none = sp_graph_bound(g, "m");
    for (int64_t size = 0; size < 200; size++)
        assert_int_equal(sp_bound_check(cx, &n, size) == SPARTA_OK, size >= 16 && size <= 100);
    fails_saying(SPARTA_E_USAGE, "dim n: 15 ", sp_bound_check(cx, &n, 15));
    fails_saying(SPARTA_E_USAGE, "give 16 to 100", sp_bound_check(cx, &n, 101));
    fails_saying(SPARTA_E_USAGE, "give 3 or more", sp_bound_check(cx, &open, 2));
    ok(sp_bound_check(cx, &open, INT64_MAX));
    fails_saying(SPARTA_E_USAGE, "give 0 or more", sp_bound_check(cx, &none, -1));
    fails_saying(SPARTA_E_SHAPE, "dim n: at least 101 and at most 100 cannot both hold",
                 sp_graph_add_bound(g, "n", 101, INT64_MAX));
    fails_saying(SPARTA_E_SHAPE, "dim m: at least 9 and at most 3", sp_graph_add_bound(g, "m", 9, 3));
    prints_again(g);
    sp_graph_free(g);
    fails_saying(SPARTA_E_FORMAT, "do not descend",
                 sp_graph_parse(cx, "graph \"\"\nbound n[6,5]\n", NULL, NULL, &g));
    fails_saying(SPARTA_E_FORMAT, "do not descend",
                 sp_graph_parse(cx, "graph \"\"\nbound n[-6,5]\n", NULL, NULL, &g));
    fails_saying(SPARTA_E_FORMAT, "do not descend",
                 sp_graph_parse(cx, "graph \"\"\nbound n[1,2,3]\n", NULL, NULL, &g));
    fails_saying(SPARTA_E_FORMAT, "at least 1",
                 sp_graph_parse(cx, "graph \"\"\nbound n[0]\n", NULL, NULL, &g));
    fails_saying(SPARTA_E_FORMAT, "at least 1",
                 sp_graph_parse(cx, "graph \"\"\nbound n[m]\n", NULL, NULL, &g));
}

/* Whatever the bytes: an error, or a graph that verifies and whose text is stable. */
static int try(const char *text)
{
    sp_graph *g = NULL;
    sparta_status status = sp_graph_parse(cx, text, fetch, NULL, &g);
    if (status) {
        assert_int_not_equal(status, SPARTA_E_INTERNAL);
        return 0;
    }
    ok(sp_graph_verify(g));
    char *once = print(g);
    sp_graph *again = parse(once);
    prints(again, once);
    free(once);
    sp_graph_free(again);
    sp_graph_free(g);
    return 1;
}

static void mutated_texts(void **state)
{
    (void)state;
    char text[sizeof sample];
    int lived = 0;
    for (size_t n = 0; n < sizeof sample; n++) { /* cut at every byte */
        memcpy(text, sample, n);
        text[n] = 0;
        try(text);
    }
    sp_rng rng = sp_rng_seed(7);
    for (int i = 0; i < 20000; i++) {
        memcpy(text, sample, sizeof sample);
        for (int k = (int)(sp_rng_next(&rng) % 3); k >= 0; k--) {
            size_t at = sp_rng_next(&rng) % (sizeof sample - 1);
            static const char bytes[] = "[](){},=:\"\\@_?. \n019-aexn\xff\x01";
            text[at] = bytes[sp_rng_next(&rng) % (sizeof bytes - 1)];
        }
        lived += try(text);
    }
    assert_true(lived > 100); /* the mutations reach beyond the first error */
}

/* What compile writes on nodes is taken off by name: no operator may have an attribute of that name. */
static void annotations_are_no_attributes(void **state)
{
    (void)state;
    static const char *const attributes[] = {
#define SP_ATTRIBUTE(op, name, kind) name,
#include "graph/attributes.def"
#undef SP_ATTRIBUTE
    };
    static const char *const annotations[] = {
#define SP_ATTRIBUTE(op, name, kind)
#define SP_ANNOTATION(name, kind) name,
#include "graph/attributes.def"
#undef SP_ATTRIBUTE
    };
    for (size_t i = 0; i < SP_COUNT(annotations); i++)
        for (size_t k = 0; k < SP_COUNT(attributes); k++)
            assert_string_not_equal(annotations[i], attributes[k]);
}

static void out_of_memory(void **state)
{
    (void)state;
    sp_graph *g = NULL;
    for (uint64_t nth = 1;; nth++) {
        size_t before = sp_ctx_memory(cx);
        sp_ctx_fail_alloc(cx, nth, nth % 2);
        sparta_status status = sp_graph_parse(cx, sample, fetch, NULL, &g);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), before);
        assert_true(nth < 100000);
    }
    for (uint64_t nth = 1;; nth++) {
        sp_text t;
        sp_text_init(&t, cx);
        sp_ctx_fail_alloc(cx, nth, true);
        sp_graph_print(g, &t);
        sparta_status status = t.status ? t.status : sp_graph_sort(g);
        if (!status) status = sp_graph_sweep(g);
        if (!status) status = sp_graph_verify(g);
        sp_ctx_fail_alloc(cx, 0, false);
        sp_text_free(&t);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
    }
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(text_round_trip), TEST(building),      TEST(bad_nodes),
        TEST(changing),        TEST(sorting),       TEST(sorting_is_stable),
        TEST(verify_finds),    TEST(bad_texts),     TEST(lying_weights),
        TEST(bounds),          TEST(mutated_texts), TEST(annotations_are_no_attributes),
        TEST(out_of_memory),   TEST(users),         TEST(copying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
