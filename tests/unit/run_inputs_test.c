/* What callers can do wrong, and what a session must bear: names, types, sizes, ids, budgets, cancellation, memory that fails. */
#include "models.h"

enum { BATCH = 2, LENGTH = 5 };
static sparta_package *package;
static sparta_session *sessions[2];
static inputs good;

static int make(void **state)
{
    if (enter(state)) return -1;
    package = compile(zoo("bert-mini", "4x1:0.5", TINY_BERT));
    for (int i = 0; i < 2; i++) sessions[i] = session(package, i + 1);
    good = make_inputs(package->plan, BATCH, LENGTH, 1);
    return 0;
}

static int drop(void **state)
{
    free_inputs(&good);
    for (int i = 0; i < 2; i++) sparta_session_free(sessions[i]);
    sparta_package_close(package);
    return leave(state);
}

/* Refused by both sessions with these words, and afterwards a good run works. */
static void refused(sparta_status status, const inputs *in, const char *words)
{
    for (int i = 0; i < 2; i++) {
        sparta_named_tensor out = {.name = "last_hidden_state", .tensor = {.rank = 77}};
        fails(status, sparta_session_run(cx, sessions[i], in->in, in->n, &out, 1));
        says(words);
        assert_int_equal(out.tensor.rank, 77); /* untouched */
        results r = run(sessions[i], package, &good);
        free_results(&r);
    }
}

static sparta_named_tensor *named(inputs *in, const char *name)
{
    for (int i = 0; i < in->n; i++)
        if (!strcmp(in->in[i].name, name)) return &in->in[i];
    fail();
    return NULL;
}

static void names(void **state)
{
    (void)state;
    inputs bad = good;
    bad.n--;
    refused(SPARTA_E_USAGE, &bad, "missing; the model takes input_ids, attention_mask, token_type_ids");
    bad.n = 0;
    refused(SPARTA_E_USAGE, &bad, "missing");
    bad = good;
    bad.in[bad.n++] = (sparta_named_tensor){"pixels", good.in[0].tensor};
    refused(SPARTA_E_USAGE, &bad, "'pixels': the model has no such input");
    bad = good;
    bad.in[bad.n++] =
        (sparta_named_tensor){"last_hidden_state", good.in[0].tensor}; /* a value, but no input */
    refused(SPARTA_E_USAGE, &bad, "no such input");
    bad = good;
    bad.in[bad.n++] = bad.in[0];
    refused(SPARTA_E_USAGE, &bad, "twice");
    sparta_named_tensor out = {.name = "logits"};
    fails(SPARTA_E_USAGE, sparta_session_run(cx, sessions[0], good.in, good.n, &out, 1));
    says("output 'logits'");
    out.name = "input_ids"; /* an input is no output */
    fails(SPARTA_E_USAGE, sparta_session_run(cx, sessions[0], good.in, good.n, &out, 1));
    ok(sparta_session_run(cx, sessions[0], good.in, good.n, NULL, 0)); /* nobody wants the result: fine */
}

/* Any order, an output asked for twice. */
static void order(void **state)
{
    (void)state;
    inputs turned = good;
    for (int i = 0; i < good.n; i++) turned.in[i] = good.in[good.n - 1 - i];
    results a = run(sessions[0], package, &good), b = run(sessions[0], package, &turned);
    same_bits(&a, &b, "turned");
    sparta_named_tensor out[2] = {{.name = "last_hidden_state"}, {.name = "last_hidden_state"}};
    ok(sparta_session_run(cx, sessions[0], good.in, good.n, out, 2));
    assert_ptr_equal(out[0].tensor.data, out[1].tensor.data);
    free_results(&a), free_results(&b);
}

static void types_and_shapes(void **state)
{
    (void)state;
    int64_t ids[BATCH * 16] = {0};
    inputs bad = good;
    named(&bad, "input_ids")->tensor.dtype = SPARTA_I32;
    refused(SPARTA_E_USAGE, &bad, "it is i32, the model wants i64");
    bad = good;
    named(&bad, "input_ids")->tensor.dtype = SPARTA_F32;
    refused(SPARTA_E_USAGE, &bad, "input 'input_ids': it is f32");
    for (int rank = 0; rank <= 3; rank++) {
        if (rank == 2) continue;
        bad = good;
        named(&bad, "token_type_ids")->tensor =
            sparta_tensor_view(SPARTA_I64, rank, (int64_t[]){BATCH, LENGTH, 1}, ids);
        refused(SPARTA_E_USAGE, &bad, "dimensions, the model wants 2");
    }
    bad = good;
    named(&bad, "attention_mask")->tensor =
        sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){BATCH, LENGTH + 1}, ids);
    refused(SPARTA_E_USAGE, &bad, "'sequence'");
    named(&bad, "attention_mask")->tensor =
        sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){BATCH + 1, LENGTH}, ids);
    refused(SPARTA_E_USAGE, &bad, "'batch'");
    bad = good;
    named(&bad, "input_ids")->tensor.stride[0] = LENGTH + 1;
    refused(SPARTA_E_USAGE, &bad, "row-major");
    bad = good;
    named(&bad, "input_ids")->tensor.data = NULL;
    refused(SPARTA_E_USAGE, &bad, "no data");
}

static void wrong_sizes(void **state)
{
    (void)state;
    static int64_t ids[64];
    static const struct {
        int64_t batch, sequence;
        const char *words;
    } cases[] = {{-1, LENGTH, "dim batch: -1 "},
                 {BATCH, -5, "dim sequence: -5 "},
                 {1, 21, "give 0 to 20"},
                 {1, INT64_MAX, "give 0 to 20"},
                 {1, 64, "give 0 to 20"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        inputs bad = good;
        for (int k = 0; k < bad.n; k++)
            bad.in[k].tensor =
                sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){cases[i].batch, cases[i].sequence}, ids);
        refused(SPARTA_E_USAGE, &bad, cases[i].words);
    }
    inputs most = make_inputs(package->plan, 1, 20, 1); /* all positions there are */
    results r = run(sessions[0], package, &most);
    free_results(&r), free_inputs(&most);
}

static void fixed_dims(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("mlp", NULL, SMALL_MLP));
    sparta_session *s = session(p, 1);
    float x[64] = {0};
    sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){1, 38}, x)},
                        out = {.name = "logits"};
    fails(SPARTA_E_USAGE, sparta_session_run(cx, s, &in, 1, &out, 1));
    says("dimension 1 is 38, the model wants 37");
    sparta_session_free(s);
    sparta_package_close(p);
}

static void ids_out_of_range(void **state)
{
    (void)state;
    static const int64_t ids[] = {20, 21, 1000000, INT64_MAX, INT64_MIN, -21};
    inputs bad = make_inputs(package->plan, BATCH, LENGTH, 1);
    int64_t *at = (int64_t *)named(&bad, "input_ids")->tensor.data + BATCH * LENGTH - 1, was = *at;
    for (size_t i = 0; i < SP_COUNT(ids); i++) {
        *at = ids[i];
        refused(SPARTA_E_RANGE, &bad, "is outside of the table's 20 rows");
    }
    *at = was;
    ((int64_t *)named(&bad, "token_type_ids")->tensor.data)[0] = 2;
    refused(SPARTA_E_RANGE, &bad, "2 rows");
    free_inputs(&bad);
}

/* ------------------------------------------------------------------ budgets, cancellation, memory */

static void budget(void **state)
{
    (void)state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.max_memory = 1 << 20;
    sparta_ctx *small = sparta_ctx_create(&o);
    sparta_session *s = session_in(small, package, 1);
    sparta_named_tensor out = {.name = "last_hidden_state"};
    inputs large = make_inputs(package->plan, 2000, 20, 1);
    expect(small, SPARTA_E_MEMORY, sparta_session_run(small, s, large.in, large.n, &out, 1), "run", __FILE__,
           __LINE__);
    mentions(sparta_message(small), "options.max_memory", __FILE__, __LINE__);
    ok_in(small, sparta_session_run(small, s, good.in, good.n, &out, 1)); /* small sizes still fit */
    free_inputs(&large);
    sparta_session_free(s);
    assert_int_equal(sp_ctx_memory(small), 0);
    sparta_ctx_free(small);
}

/* A run belongs to whoever calls it; the session's memory stays its own. */
static void another_context_runs(void **state)
{
    (void)state;
    sparta_ctx *other = context("", "");
    sparta_session *s = session(package, 1);
    results want = run(sessions[0], package, &good), got = run_in(other, s, package, &good);
    close_enough(&got, &want, 1e-6, "other context");
    free_results_in(other, &got), free_results(&want);
    assert_int_equal(sp_ctx_memory(other), 0);
    sparta_ctx_free(other);
    sparta_session_free(s);
}

static void cancelled(void **state)
{
    (void)state;
    sparta_ctx *c = context("", "");
    sparta_session *s = session_in(c, package, 2);
    sparta_named_tensor out = {.name = "last_hidden_state"};
    ok_in(c, sparta_session_run(c, s, good.in, good.n, &out, 1));
    sparta_ctx_cancel(c);
    expect(c, SPARTA_E_CANCELLED, sparta_session_run(c, s, good.in, good.n, &out, 1), "run", __FILE__,
           __LINE__);
    sparta_session_free(s);
    assert_int_equal(sp_ctx_memory(c), 0);
    sparta_ctx_free(c);
}

/* Every allocation of making a session and running it fails, once or from then on. */
static void failing_memory(void **state)
{
    (void)state;
    for (int forever = 0; forever < 2; forever++)
        for (uint64_t n = 1;; n++) {
            sparta_ctx *c = context("", "");
            sparta_session *s = NULL;
            sparta_session_options o = {.size = sizeof o, .threads = 2};
            sparta_named_tensor out = {.name = "last_hidden_state"};
            sp_ctx_fail_alloc(c, n, forever);
            sparta_status status = sparta_session_create(c, package, &o, &s);
            if (status == SPARTA_OK) status = sparta_session_run(c, s, good.in, good.n, &out, 1);
            if (status != SPARTA_OK) assert_int_equal(status, SPARTA_E_MEMORY);
            sp_ctx_fail_alloc(c, 0, false);
            if (s && status) { /* it recovers */
                ok_in(c, sparta_session_run(c, s, good.in, good.n, &out, 1));
                results want = run(sessions[1], package, &good);
                assert_true(apart(&out.tensor, &want.t[0]) < 1e-6);
                free_results(&want);
            }
            sparta_session_free(s);
            assert_int_equal(sp_ctx_memory(c), 0);
            sparta_ctx_free(c);
            if (status == SPARTA_OK) {
                assert_true(n > 5);
                break;
            }
        }
}

/* Inputs that are made, for trying a model, divide by no zero: not directly, nor after a reshape. What nothing is divided by may be zero. */
static void made_divisors(void **state)
{
    (void)state;
    static const char text[] =
        "graph \"g\"\ninput x: i32[batch,64]\ninput d: i32[batch,64]\ninput m: i32[64,batch]\n"
        "node q: i32[batch,64] = Div(x, d)\nnode t: i32[batch,64] = Transpose(m) {perm=[1,0]}\n"
        "node r: i32[batch,64] = Mod(q, t)\noutput r\n";
    sp_graph *g;
    ok(sp_graph_parse(cx, text, NULL, NULL, &g));
    inputs made = make_inputs(g, 3, 1, 7);
    for (int i = 0; i < made.n; i++) {
        const int32_t *v = made.in[i].tensor.data;
        bool zero = false;
        for (int k = 0; k < 3 * 64; k++) zero |= v[k] == 0;
        assert_int_equal(zero, i == 0);
    }
    free_inputs(&made);
    sp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(order),
        cmocka_unit_test(types_and_shapes),
        cmocka_unit_test(wrong_sizes),
        cmocka_unit_test(fixed_dims),
        cmocka_unit_test(ids_out_of_range),
        cmocka_unit_test(budget),
        cmocka_unit_test(another_context_runs),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(failing_memory),
        cmocka_unit_test(made_divisors),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
