/* Packages on disk: what is written is what is opened, by whom and as often as they like; writing is all or nothing. */
#include "models.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static int files_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(d);
    return n;
}

static sparta_package *opened(sparta_ctx *c, const char *path)
{
    sparta_package *p = NULL;
    ok_in(c, sparta_package_open(c, path, &p));
    return p;
}

/* ------------------------------------------------------------------ there and back */

static void round_trip(const char *model, const char *prune, const char *sizes)
{
    const char *path = in_root("round.sparta");
    sparta_package *made = compile(zoo(model, prune, sizes));
    ok(sparta_package_save(cx, made, path));
    sparta_package *a = opened(cx, path), *b = opened(cx, path);
    ok(sparta_package_check(cx, a));
    assert_int_equal(a->n_weights, made->n_weights);
    assert_int_equal(a->n_kernels, made->n_kernels);
    for (int threads = 1; threads <= 2; threads++) {
        sparta_session *s[3] = {session(made, threads), session(a, threads), session(b, threads)};
        inputs in = make_inputs(made->plan, 3, 19, 5);
        results r[3];
        for (int i = 0; i < 3; i++) r[i] = run(s[i], made, &in);
        same_bits(&r[0], &r[1], "opened");
        same_bits(&r[0], &r[2], "opened again");
        for (int i = 0; i < 3; i++) free_results(&r[i]), sparta_session_free(s[i]);
        free_inputs(&in);
    }
    /* written again from what was opened, the file is the same */
    const char *copy = in_root("copy.sparta");
    char *first, *second;
    size_t n, m;
    ok(sparta_package_save(cx, a, copy));
    ok(sp_file_read(cx, path, 1 << 24, &first, &n));
    ok(sp_file_read(cx, copy, 1 << 24, &second, &m));
    assert_int_equal(n, m);
    assert_int_equal(n, a->bytes);
    assert_memory_equal(first, second, n);
    sp_free(cx, first), sp_free(cx, second);
    sparta_package_close(made), sparta_package_close(a), sparta_package_close(b);
}

static void there_and_back(void **state)
{
    (void)state;
    round_trip("bert-mini", NULL, SMALL_BERT);
    round_trip("bert-mini", "4x1:0.8", SMALL_BERT);
    round_trip("mlp", "1x1:0.9", SMALL_MLP);
}

/* Weights come back as the model has them, packed or not, whichever way they lie. */
static void weights_come_back(void **state)
{
    (void)state;
    const char *text =
        "graph \"g\"\ninput x: f32[batch,12]\n"
        "const a: f32[12,10] @\"a|4x1:0.7\"\nconst b: f32[6,10] @\"b^1x1:0.5\"\nconst bias: f32[10] "
        "@\"bias\"\n"
        "node h: f32[batch,10] = MatMul(x, a) \"h\"\nnode i: f32[batch,10] = Add(h, bias) \"i\"\n"
        "node y: f32[batch,6] = Gemm(i, b) {transB=1} \"y\"\noutput y\n";
    sp_graph *g = graph(text);
    sparta_package *made = compile(graph(text));
    ok(sparta_package_save(cx, made, in_root("w.sparta")));
    sparta_package *p = opened(cx, in_root("w.sparta"));
    sp_arena *arena = sp_arena_create(cx);
    int packed = 0;
    for (int i = 0; i < p->n_weights; i++) {
        sparta_tensor t;
        const sp_value *v = sp_graph_find(g, p->weight[i].name);
        assert_non_null(v);
        ok(sp_compile_unpack(arena, &p->weight[i], &t));
        assert_true(apart(&t, v->constant) == 0);
        packed += p->weight[i].packed;
    }
    assert_int_equal(packed, 2);
    assert_null(sp_package_weight(p, "none"));
    assert_ptr_equal(sp_package_weight(p, "a"), &p->weight[sp_package_weight(p, "a") - p->weight]);
    sp_arena_free(arena);
    sparta_package_close(p), sparta_package_close(made);
    sp_graph_free(g);
}

/* Names that need quoting survive. */
static void odd_names(void **state)
{
    (void)state;
    sparta_package *p = check_text("graph \"a \\\"b\\\" \\\\ c\"\ninput \"x y\": f32[batch,8]\n"
                                   "const \"w\\\"1\\\\ \": f32[8,24] @\"w\"\nnode \"out put\": ? = "
                                   "MatMul(\"x y\", \"w\\\"1\\\\ \") \"no de\"\n"
                                   "output \"out put\"\n");
    ok(sparta_package_save(cx, p, in_root("odd.sparta")));
    sparta_package *q = opened(cx, in_root("odd.sparta"));
    assert_string_equal(sparta_package_input_name(q, 0), "x y");
    assert_string_equal(sparta_package_output_name(q, 0), "out put");
    assert_non_null(sp_package_weight(q, "w\"1\\ "));
    sparta_session *a = session(p, 1), *b = session(q, 1);
    inputs in = make_inputs(q->plan, 2, 1, 1);
    results x = run(a, p, &in), y = run(b, q, &in);
    same_bits(&x, &y, "odd names");
    free_results(&x), free_results(&y), free_inputs(&in);
    sparta_session_free(a), sparta_session_free(b);
    sparta_package_close(p), sparta_package_close(q);
}

/* ------------------------------------------------------------------ other machines */

/* Results of a session made with `c`, against those of the compiler's own session. */
static void close_to(sparta_ctx *c, const sparta_package *p, const results *want, const inputs *in,
                     const char *isa)
{
    sparta_session *s = session_in(c, p, 2);
    assert_string_equal(sparta_session_isa(s), isa);
    results got = run_in(c, s, p, in);
    close_enough(&got, want, 1e-4, isa);
    free_results_in(c, &got);
    sparta_session_free(s);
}

static void other_targets(void **state)
{
    (void)state;
    const char *path = in_root("native.sparta"), *portable = in_root("portable.sparta");
    const char *best = sp_target_name(sp_target_best(SP_DEVICE_CPU));
    sp_compile_request request = quick();
    sparta_package *made = compile_in(cx, zoo("bert-mini", "4x1:0.8", SMALL_BERT), request), *p;
    sparta_session *s = session(made, 2);
    inputs in = make_inputs(made->plan, 3, 30, 5);
    results want = run(s, made, &in);
    ok(sparta_package_save(cx, made, path));
    request.options.target = "portable";
    p = compile_in(cx, zoo("bert-mini", "4x1:0.8", SMALL_BERT), request);
    ok(sparta_package_save(cx, p, portable));
    sparta_package_close(p);

    sparta_ctx *bare = context("", ""); /* a machine with neither compiler nor cache runs what is inside */
    p = opened(bare, path);
    close_to(bare, p, &want, &in, best);
    assert_string_equal(sparta_notes(bare), "");
    setenv("SPARTA_TARGET", "portable", 1); /* a lesser CPU: portable code, and a remark */
    close_to(bare, p, &want, &in, "portable");
    unsetenv("SPARTA_TARGET");
    if (strcmp(best, "portable")) mentions(sparta_notes(bare), "portable versions do", __FILE__, __LINE__);
    sparta_package_close(p);
    p = opened(bare, portable); /* made for any CPU */
    for (int i = 0; i < p->n_kernels; i++) assert_int_equal(p->kernel[i].n_code, 0);
    close_to(bare, p, &want, &in, "portable");
    sparta_package_close(p);
    assert_int_equal(sp_ctx_memory(bare), 0);
    sparta_ctx_free(bare);

    free_results(&want), free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(made);
}

/* A small package with machine code; `change` is done to every kernel before it is written. */
static const char *written_with(const char *name, void (*change)(sp_kernel *k))
{
    const char *path = in_root(name);
    sparta_package *p = compile(zoo("mlp", "4x1:0.8", SMALL_MLP));
    for (int k = 0; k < p->n_kernels; k++) change(&p->kernel[k]);
    ok(sparta_package_save(cx, p, path));
    sparta_package_close(p);
    return path;
}

/* Runs, with the code of `isa`; `note` is in the remarks. */
static void runs(const char *path, const char *isa, const char *note)
{
    sparta_ctx *c = context("", "");
    sparta_package *p = opened(c, path);
    sparta_session *s = session_in(c, p, 1);
    inputs in = make_inputs_in(c, p->plan, 3, 1, 5);
    results r = run_in(c, s, p, &in);
    assert_string_equal(sparta_session_isa(s), isa);
    mentions(sparta_notes(c), note, __FILE__, __LINE__);
    free_results_in(c, &r);
    sp_inputs_free(c, in.in, in.n);
    sparta_session_free(s);
    sparta_package_close(p);
    assert_int_equal(sp_ctx_memory(c), 0);
    sparta_ctx_free(c);
}

/* Code of targets that a newer sparta has, around the one that runs here. */
static void more_targets(sp_kernel *k)
{
    enum { VARIANTS = 9, KERNELS = 32 };
    static sp_kernel_code all[KERNELS][VARIANTS];
    static int next;
    if (!k->n_code) return;
    sp_kernel_code *code = all[next++ % KERNELS];
    for (int i = 0; i < VARIANTS; i++) {
        code[i] = k->code[0];
        if (i == VARIANTS / 2) continue;
        code[i].target = SP_TARGETS;
        code[i].bytes = (const uint8_t *)"junk", code[i].size = 4;
    }
    k->code = code;
    k->n_code = VARIANTS;
}

static void other_arguments(sp_kernel *k)
{
    for (int i = 0; i < k->n_code; i++) k->code[i].abi ^= 1;
}

static void code_of_other_versions(void **state)
{
    (void)state;
    const char *best = sp_target_name(sp_target_best(SP_DEVICE_CPU));
    if (!strcmp(best, "portable")) skip();
    runs(written_with("more.sparta", more_targets), best,
         "it has code for unknown, which this sparta does not");
    runs(written_with("other.sparta", other_arguments), "portable", "compiled by another version of sparta");
}

/* ------------------------------------------------------------------ from memory */

static void in_memory(void **state)
{
    (void)state;
    const char *path = in_root("memory.sparta");
    sparta_package *made = compile(zoo("bert-mini", "2:4", TINY_BERT)), *p = NULL;
    sparta_session *s = session(made, 1);
    inputs in = make_inputs(made->plan, 2, 5, 5);
    results want = run(s, made, &in);
    char *bytes;
    size_t size;
    ok(sparta_package_save(cx, made, path));
    ok(sp_file_read(cx, path, 1 << 24, &bytes, &size));
    sparta_session_free(s);
    char *room = sp_alloc(cx, size + 128);
    for (int off = 0; off <= 64; off += 8) { /* aligned it is borrowed, else copied */
        const size_t before = sp_ctx_memory(cx);
        memcpy(room + off, bytes, size);
        ok(sparta_package_open_memory(cx, room + off, size, &p));
        if (off % 64) memset(room, 0, size + 128);
        ok(sparta_package_check(cx, p));
        s = session(p, 1);
        results got = run(s, p, &in);
        same_bits(&got, &want, "in memory");
        free_results(&got);
        sparta_session_free(s);
        sparta_package_close(p);
        assert_int_equal(sp_ctx_memory(cx), before);
    }
    for (size_t n = 0; n < size; n += 1 + n / 3) {
        p = NULL;
        fails(SPARTA_E_FORMAT, sparta_package_open_memory(cx, bytes, n, &p));
        says("package in memory: ");
        assert_null(p);
    }
    free_results(&want), free_inputs(&in);
    sparta_package_close(made); /* the names of the inputs are its own */
    sp_free(cx, room), sp_free(cx, bytes);
}

/* ------------------------------------------------------------------ several threads, one package */

typedef struct worker {
    const sparta_package *package;
    const inputs *in;
    const results *want;
    int index;
    double worst;
    sparta_status status;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    sparta_ctx *c = sparta_ctx_create(
        &(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .cache_dir = "", .compiler = ""});
    sparta_session_options o = {.size = sizeof o, .threads = 1 + w->index % 2};
    sparta_named_tensor out = {.name = "last_hidden_state"};
    sparta_session *s = NULL;
    for (int round = 0; round < 3 && w->status == SPARTA_OK; round++) {
        w->status = sparta_session_create(c, w->package, &o, &s);
        for (int i = 0; i < 4 && w->status == SPARTA_OK; i++) {
            const int at = (i + w->index) % 4;
            w->status = sparta_session_run(c, s, w->in[at].in, w->in[at].n, &out, 1);
            if (w->status == SPARTA_OK) w->worst = fmax(w->worst, apart(&out.tensor, &w->want[at].t[0]));
        }
        sparta_session_free(s);
        s = NULL;
    }
    sparta_ctx_free(c);
    return NULL;
}

static void concurrent_sessions(void **state)
{
    (void)state;
    static const int64_t sizes[4][2] = {{1, 7}, {2, 40}, {3, 64}, {1, 1}};
    sparta_package *made = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT));
    ok(sparta_package_save(cx, made, in_root("shared.sparta")));
    sparta_package *p = opened(cx, in_root("shared.sparta"));
    sparta_session *s = session(made, 1);
    inputs in[4];
    results want[4];
    for (int i = 0; i < 4; i++) {
        in[i] = make_inputs(p->plan, sizes[i][0], sizes[i][1], (uint64_t)i + 1);
        want[i] = run(s, made, &in[i]);
    }
    for (int portable = 0; portable < 2; portable++) { /* sanitizers see the portable kernels only */
        pthread_t thread[4];
        worker w[4];
        if (portable) setenv("SPARTA_TARGET", "portable", 1);
        for (int i = 0; i < 4; i++) {
            w[i] = (worker){.package = p, .in = in, .want = want, .index = i};
            assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
        }
        for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
        unsetenv("SPARTA_TARGET");
        for (int i = 0; i < 4; i++) {
            assert_int_equal(w[i].status, SPARTA_OK);
            assert_true(w[i].worst < (portable ? 1e-4 : 1e-6));
        }
    }
    for (int i = 0; i < 4; i++) free_inputs(&in[i]), free_results(&want[i]);
    sparta_session_free(s);
    sparta_package_close(made), sparta_package_close(p);
}

/* ------------------------------------------------------------------ writing is all or nothing */

static void write_old(const char *path)
{
    ok(sp_file_write(cx, path, "old", 3));
}
static void still_old(const char *folder, const char *path)
{
    char *bytes;
    size_t n;
    ok(sp_file_read(cx, path, 100, &bytes, &n));
    assert_string_equal(bytes, "old");
    sp_free(cx, bytes);
    assert_int_equal(files_in(folder), 1); /* no temporary file stays */
}

static void failing_writes(void **state)
{
    (void)state;
    const char *folder = in_root("out"), *path = in_root("out/model.sparta");
    sparta_package *p = compile(zoo("mlp", "4x1:0.8", SMALL_MLP));
    assert_int_equal(mkdir(folder, 0700), 0);
    write_old(path);
    fails(SPARTA_E_IO, sparta_package_save(cx, p, in_root("nowhere/model.sparta")));
    says("nowhere");
    fails(SPARTA_E_IO, sparta_package_save(cx, p, folder));
    struct rlimit was, small = {20000, RLIM_INFINITY}; /* as a full disk: the file ends in its middle */
    getrlimit(RLIMIT_FSIZE, &was);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    sparta_status s = sparta_package_save(cx, p, path);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_int_equal(s, SPARTA_E_IO);
    still_old(folder, path);
    for (uint64_t n = 1;; n++) { /* memory fails at each allocation */
        sp_ctx_fail_alloc(cx, n, true);
        s = sparta_package_save(cx, p, path);
        sp_ctx_fail_alloc(cx, 0, false);
        if (s == SPARTA_OK) break;
        assert_int_equal(s, SPARTA_E_MEMORY);
        still_old(folder, path);
    }
    sparta_package *q = opened(cx, path);
    assert_int_equal(files_in(folder), 1);
    sparta_package_close(p), sparta_package_close(q);
}

static void cancelled_write(void **state)
{
    (void)state;
    const char *folder = in_root("stopped"), *path = in_root("stopped/model.sparta");
    sparta_ctx *c = context("", "");
    sparta_package *p = compile_in(c, zoo_in(c, "mlp", NULL, SMALL_MLP), quick());
    assert_int_equal(mkdir(folder, 0700), 0);
    write_old(path);
    sparta_ctx_cancel(c);
    expect(c, SPARTA_E_CANCELLED, sparta_package_save(c, p, path), "write", __FILE__, __LINE__);
    still_old(folder, path);
    sparta_package_close(p);
    assert_int_equal(sp_ctx_memory(c), 0);
    sparta_ctx_free(c);
}

static void wrong_files(void **state)
{
    (void)state;
    sparta_package *p = (sparta_package *)1;
    fails(SPARTA_E_IO, sparta_package_open(cx, in_root("missing.sparta"), &p));
    fails(SPARTA_E_IO, sparta_package_open(cx, root, &p));
    ok(sp_file_write(cx, in_root("empty"), "", 0));
    fails(SPARTA_E_FORMAT, sparta_package_open(cx, in_root("empty"), &p));
    ok(sp_file_write(cx, in_root("text"), "SPARTA\r\n", 8));
    fails(SPARTA_E_FORMAT, sparta_package_open(cx, in_root("text"), &p));
    says("not a package");
    assert_ptr_equal(p, (sparta_package *)1);
    sparta_package_close(NULL);
    sparta_session_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(weights_come_back),
        cmocka_unit_test(code_of_other_versions),
        cmocka_unit_test(in_memory),
        cmocka_unit_test(odd_names),
        cmocka_unit_test(other_targets),
        cmocka_unit_test(concurrent_sessions),
        cmocka_unit_test(failing_writes),
        cmocka_unit_test(cancelled_write),
        cmocka_unit_test(wrong_files),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
