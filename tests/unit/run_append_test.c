/* Caches: past keys and values come in, present ones go out. In place where the caller keeps both together, with the same answer wherever they lie. */
#include "models.h"
#include <sys/mman.h>
#include <unistd.h>

#define TEXT                                                                                                 \
    "graph \"g\"\ninput q: f32[batch,sequence,16]\ninput k: f32[batch,sequence,8]\n"                         \
    "input v: f32[batch,sequence,8]\ninput pk: f32[batch,2,past,4]\ninput pv: f32[batch,2,past,4]\n"         \
    "node y: ?, nk: ?, nv: ? = Attention(q, k, v, _, pk, pv) {q_num_heads=4, kv_num_heads=2, "               \
    "is_causal=1} \"a\"\noutput y\noutput nk\noutput nv\n"

enum { Q, K, V, PK, PV, Y = 0, NK, NV };
#define GUARD 7e7f

typedef struct stage {
    sparta_package *package;
    sparta_session *session;
    inputs in;
    results want;
    int64_t batch, past, sequence;
} stage;

static stage open_stage(int64_t batch, int64_t past, int64_t sequence, int threads)
{
    stage s = {.batch = batch, .past = past, .sequence = sequence};
    sp_graph *g = typed(graph(TEXT));
    const sp_make_inputs how = {
        3, {3, (const char *[]){"batch", "sequence", "past"}, (int64_t[]){batch, sequence, past}}};
    s.in.n = g->n_inputs;
    ok(sp_inputs_make(cx, g, &how, s.in.in));
    s.want = reference(g, &s.in);
    sp_graph_free(g);
    s.package = compile(graph(TEXT));
    s.session = session(s.package, threads);
    for (int i = 0; i < s.in.n; i++) s.in.in[i].name = sparta_package_input_name(s.package, i);
    return s;
}

static void close_stage(stage *s)
{
    free_results(&s->want);
    free_inputs(&s->in);
    sparta_session_free(s->session);
    sparta_package_close(s->package);
}

/* (batch, 2, tokens, 4) in memory with room for `room` tokens of each head. */
static sparta_tensor kept(const stage *s, float *at, int64_t tokens, int64_t room)
{
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 4, (int64_t[]){s->batch, 2, tokens, 4}, at);
    t.stride[1] = room * 4;
    t.stride[0] = 2 * room * 4;
    return t;
}

/* Memory for a cache that holds the past of input i, guards elsewhere. */
static float *make_cache(const stage *s, int i, int64_t room)
{
    const int64_t n = s->batch * 2 * room * 4;
    float *at = sp_alloc(cx, (size_t)n * sizeof *at);
    assert_non_null(at);
    for (int64_t j = 0; j < n; j++) at[j] = GUARD;
    sparta_tensor t = kept(s, at, s->past, room);
    ok(sp_tensor_copy(cx, &s->in.in[i].tensor, &t));
    return at;
}

static void as_wanted(const stage *s, const sparta_tensor *got, int i, const char *what)
{
    sparta_tensor rows;
    ok(sp_tensor_alloc(cx, got->dtype, got->rank, got->dim, &rows));
    ok(sp_tensor_copy(cx, got, &rows));
    const double d = apart(&rows, &s->want.t[i]);
    if (d > 1e-5) fail_msg("%s: output %d differs by %g", what, i, d);
    sp_free(cx, rows.data);
}

static sparta_named_tensor result_rows(const stage *s, const char *name, int i)
{
    sparta_named_tensor out = {.name = name};
    ok(sp_tensor_alloc(cx, SPARTA_F32, s->want.t[i].rank, s->want.t[i].dim, &out.tensor));
    return out;
}

/* Outputs nk and nv at `to`, past keys and values at `from`, which has room for `room`. */
static void run_between(const stage *s, float *const from[2], float *const to[2], int64_t room,
                        const char *what)
{
    inputs in = s->in;
    sparta_named_tensor out[3] = {result_rows(s, "y", Y), {.name = "nk"}, {.name = "nv"}};
    for (int i = 0; i < 2; i++) {
        in.in[PK + i].tensor = kept(s, from[i], s->past, room);
        out[NK + i].tensor = kept(s, to[i], s->past + s->sequence, room);
    }
    ok(sparta_session_run_into(cx, s->session, in.in, in.n, out, 3));
    for (int i = 0; i < 3; i++) as_wanted(s, &out[i].tensor, i, what);
    sp_free(cx, out[Y].tensor.data);
}

static void guards_stay(const stage *s, const float *at, int64_t room)
{
    for (int64_t i = 0; i < s->batch * 2 * room * 4; i++)
        if (i / 4 % room >= s->past + s->sequence) assert_true(at[i] == GUARD);
}

static void every_size(void **state)
{
    (void)state;
    static const int64_t pasts[] = {0, 1, 5, 16, 128, 200}, lengths[] = {1, 2, 17, 70};
    for (size_t p = 0; p < SP_COUNT(pasts); p++)
        for (size_t l = 0; l < SP_COUNT(lengths); l++) {
            stage s = open_stage(1 + (int64_t)(p + l) % 3, pasts[p], lengths[l], 1 + (int)(p + l) % 2);
            const int64_t room = pasts[p] + lengths[l] + (int64_t)l;
            float *c[2] = {make_cache(&s, PK, room), make_cache(&s, PV, room)};
            float *other[2] = {make_cache(&s, PK, room), make_cache(&s, PV, room)};
            for (int again = 0; again < 2; again++) run_between(&s, c, c, room, "in place");
            guards_stay(&s, c[0], room), guards_stay(&s, c[1], room);
            run_between(&s, c, other, room, "elsewhere");
            results got = run(s.session, s.package, &s.in); /* views of the session's own memory again */
            close_enough(&got, &s.want, 1e-5, "without gaps");
            free_results(&got);
            for (int i = 0; i < 2; i++) sp_free(cx, c[i]), sp_free(cx, other[i]);
            close_stage(&s);
        }
}

/* Nothing of the past is written: it may be memory that cannot be. */
static void the_past_is_left_alone(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 8 * page;
    stage s = open_stage(1, (int64_t)(page / 16), 3, 2);
    const int64_t room = 2 * s.past;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    float *c[2] = {(float *)(void *)memory, (float *)(void *)(memory + 4 * page)};
    for (int i = 0; i < 2; i++) {
        sparta_tensor t = kept(&s, c[i], s.past, room);
        ok(sp_tensor_copy(cx, &s.in.in[PK + i].tensor, &t));
    }
    for (int head = 0; head < 4; head++)
        assert_int_equal(mprotect(memory + (size_t)head * 2 * page, page, PROT_READ), 0);
    run_between(&s, c, c, room, "the past cannot be written");
    munmap(memory, bytes);
    close_stage(&s);
}

/* Keys go where values are, and the other way round: nothing may be written before all is read. */
static void outputs_on_other_inputs(void **state)
{
    (void)state;
    stage s = open_stage(2, 9, 4, 1);
    float *c[2] = {make_cache(&s, PK, 16), make_cache(&s, PV, 16)};
    float *turned[2] = {c[1], c[0]};
    run_between(&s, c, turned, 16, "exchanged");
    for (int i = 0; i < 2; i++) sp_free(cx, c[i]);
    close_stage(&s);
}

/* Heads of keys and of values take turns in one memory: their spans meet, their elements do not. */
static void caches_side_by_side(void **state)
{
    (void)state;
    stage s = open_stage(1, 6, 2, 1);
    enum { ROOM = 8 };
    float *both = sp_alloc(cx, sizeof(float) * 4 * 4 * ROOM);
    assert_non_null(both);
    sparta_named_tensor out[3] = {result_rows(&s, "y", Y), {.name = "nk"}, {.name = "nv"}};
    inputs in = s.in;
    for (int i = 0; i < 2; i++) {
        in.in[PK + i].tensor = kept(&s, both + i * 4 * ROOM, s.past, 2 * ROOM);
        out[NK + i].tensor = kept(&s, both + i * 4 * ROOM, s.past + s.sequence, 2 * ROOM);
        ok(sp_tensor_copy(cx, &s.in.in[PK + i].tensor, &in.in[PK + i].tensor));
    }
    ok(sparta_session_run_into(cx, s.session, in.in, in.n, out, 3));
    for (int i = 0; i < 3; i++) as_wanted(&s, &out[i].tensor, i, "side by side");
    sp_free(cx, out[Y].tensor.data);
    sp_free(cx, both);
    close_stage(&s);
}

/* Gaps are for caches. */
static void others_have_no_gaps(void **state)
{
    (void)state;
    stage s = open_stage(2, 3, 2, 1);
    inputs in = s.in;
    sparta_named_tensor out = {.name = "y"};
    in.in[K].tensor.stride[0] += 8;
    assert_int_equal(sparta_session_run(cx, s.session, in.in, in.n, &out, 1), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "input 'k': it must be row-major without gaps"));
    sp_ctx_clear(cx);
    close_stage(&s);
}

/* What shows the present in other dims reads what the caller sees. */
static void views_of_the_present(void **state)
{
    (void)state;
    static const char text[] =
        "graph \"g\"\ninput pk: f32[2,past,4]\ninput k: f32[2,1,4]\nconst axes: i64[1] = [0]\n"
        "node nk: ? = Concat(pk, k) {axis=1} \"nk\"\nnode u: ? = Unsqueeze(nk, axes) \"u\"\n"
        "node y: ? = CumSum(u, axes) \"y\"\noutput nk\noutput u\noutput y\n";
    enum { PAST = 3, ROOM = 8 };
    sp_graph *g = typed(graph(text));
    const sp_make_inputs how = {5, {1, (const char *[]){"past"}, (int64_t[]){PAST}}};
    inputs in = {.n = 2};
    ok(sp_inputs_make(cx, g, &how, in.in));
    results want = reference(g, &in);
    sparta_package *p = compile(graph(text));
    sparta_session *s = session(p, 1);
    float memory[2 * ROOM * 4] = {0}, u[2 * (PAST + 1) * 4], y[2 * (PAST + 1) * 4];
    sparta_tensor past = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, PAST, 4}, memory), present = past;
    past.stride[0] = present.stride[0] = ROOM * 4;
    present.dim[1] = PAST + 1;
    for (int gaps = 0; gaps < 2; gaps++) {
        sparta_named_tensor out[] = {
            {"nk", present},
            {"u", sparta_tensor_view(SPARTA_F32, 4, (int64_t[]){1, 2, PAST + 1, 4}, u)},
            {"y", sparta_tensor_view(SPARTA_F32, 4, (int64_t[]){1, 2, PAST + 1, 4}, y)}};
        inputs given = in;
        ok(sp_tensor_copy(cx, &in.in[0].tensor, &past));
        if (gaps) given.in[0].tensor = past;
        const sparta_status status = sparta_session_run_into(cx, s, given.in, 2, out, 3);
        if (gaps && status == SPARTA_E_USAGE) { /* a past with gaps is for those who take it */
            sp_ctx_clear(cx);
            continue;
        }
        ok(status);
        for (int i = 0; i < 3; i++) as_wanted(&(stage){.want = want}, &out[i].tensor, i, "views");
    }
    free_results(&want);
    free_inputs(&in);
    sp_graph_free(g);
    sparta_session_free(s);
    sparta_package_close(p);
}

/* One output in two places, one of them where the past is: both are written, and nothing is kept of them. */
static void an_output_twice(void **state)
{
    (void)state;
    for (int64_t past = 0; past < 6; past += 5) {
        stage s = open_stage(1, past, 2, 1);
        float *c[2] = {make_cache(&s, PK, 16), make_cache(&s, PV, 16)};
        inputs in = s.in;
        in.in[PK].tensor = kept(&s, c[0], past, 16);
        sparta_named_tensor out[3] = {result_rows(&s, "y", Y), {.name = "nk"}, result_rows(&s, "nk", NK)};
        out[1].tensor = kept(&s, c[0], past + s.sequence, 16);
        ok(sparta_session_run_into(cx, s.session, in.in, in.n, out, 3));
        as_wanted(&s, &out[0].tensor, Y, "twice");
        as_wanted(&s, &out[1].tensor, NK, "twice, in place");
        as_wanted(&s, &out[2].tensor, NK, "twice, elsewhere");
        for (int i = 0; i < 2; i++) sp_free(cx, c[i]);
        sp_free(cx, out[0].tensor.data), sp_free(cx, out[2].tensor.data);
        results got = run(s.session, s.package, &s.in); /* the session has its own memory again */
        close_enough(&got, &s.want, 1e-5, "afterwards");
        free_results(&got);
        close_stage(&s);
    }
}

/* Plans whose sizes do not fit, or whose axis there is not. */
static void hostile_appends_are_refused(void **state)
{
    (void)state;
    static const char *const plans[] = {"graph \"g\"\ninput p: f32[1,4]\ninput k: f32[1,4]\nnode n: f32[1,4] "
                                        "= Concat(p, k) {axis=1} \"n\"\noutput n\n",
                                        "graph \"g\"\ninput p: f32[1,4]\ninput k: f32[1,4]\nnode n: f32[1,8] "
                                        "= Concat(p, k) {axis=100} \"n\"\noutput n\n",
                                        "graph \"g\"\ninput p: f32[1,4]\ninput k: f32[4]\nnode n: f32[1,8] = "
                                        "Concat(p, k) {axis=1} \"n\"\noutput n\n"};
    for (size_t i = 0; i < SP_COUNT(plans); i++) {
        sparta_package *p;
        ok(sp_package_create(cx, &p));
        p->plan = graph(plans[i]);
        sparta_session *s = session(p, 1);
        inputs in = make_inputs(p->plan, 1, 1, 1);
        sparta_named_tensor out = {.name = "n"};
        assert_true(sparta_session_run(cx, s, in.in, in.n, &out, 1) != SPARTA_OK);
        sp_ctx_clear(cx);
        free_inputs(&in);
        sparta_session_free(s);
        sparta_package_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_past_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outputs_on_other_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(caches_side_by_side, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_have_no_gaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(views_of_the_present, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_output_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_appends_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
