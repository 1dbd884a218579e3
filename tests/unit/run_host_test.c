/* Sessions on hosts that fork, and on files that change under them; how many threads there are does not matter. */
#include "models.h"
#include <sys/wait.h>

enum { BATCH = 12, LENGTH = 64 };

static sparta_package *saved(sparta_ctx *c, const char *path)
{
    sparta_package *made = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT)), *p = NULL;
    ok(sparta_package_save(cx, made, path));
    sparta_package_close(made);
    ok_in(c, sparta_package_open(c, path, &p));
    return p;
}

/* As cp does it: the same file, written again. */
static void write_again(const char *path)
{
    usleep(20000); /* file systems count time in steps of some milliseconds */
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -64, SEEK_END), 0);
    assert_int_equal(fputc('x', f), 'x');
    assert_int_equal(fclose(f), 0);
}

static sparta_status try_run(sparta_ctx *c, sparta_session *s, const sparta_package *p, const inputs *in)
{
    sparta_named_tensor out = {.name = sparta_package_output_name(p, 0)};
    return sparta_session_run(c, s, in->in, in->n, &out, 1);
}

static void a_package_that_changes(void **state)
{
    (void)state;
    const char *path = in_root("live.sparta");
    sparta_package *p = saved(cx, path);
    sparta_session *s = session(p, 1), *late = NULL;
    inputs in = make_inputs(p->plan, 2, 7, 1);
    ok(try_run(cx, s, p, &in));
    write_again(path);
    fails(SPARTA_E_IO, try_run(cx, s, p, &in));
    says("it was written while it was in use");
    fails(SPARTA_E_IO, sparta_session_create(cx, p, NULL, &late));
    assert_int_equal(truncate(path, 5000), 0);
    fails(SPARTA_E_IO, try_run(cx, s, p, &in)); /* and no signal */
    says("truncated");
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);

    p = saved(cx, path); /* renamed over the file: who has the old one open keeps it */
    s = session(p, 1);
    in = make_inputs(p->plan, 2, 7, 1);
    sparta_package_close(saved(cx, path));
    ok(try_run(cx, s, p, &in));
    free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
}

static void a_copy_does_not_mind(void **state)
{
    (void)state;
    const char *path = in_root("copied.sparta");
    sparta_ctx_options o = {.size = sizeof o, .cache_dir = cache, .copy_files = 1};
    sparta_ctx *copying = sparta_ctx_create(&o);
    sparta_package *p = saved(copying, path);
    sparta_session *s = session_in(copying, p, 2);
    inputs in = make_inputs(p->plan, 2, 7, 1);
    results before = run_in(copying, s, p, &in);
    write_again(path);
    assert_int_equal(truncate(path, 100), 0);
    results after = run_in(copying, s, p, &in);
    same_bits(&after, &before, "bert-mini");
    free_results_in(copying, &before), free_results_in(copying, &after), free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
    assert_int_equal(sp_ctx_memory(copying), 0);
    sparta_ctx_free(copying);
}

/* The child has no threads but its own: it does not wait for the others, and finds the same bits. */
static void a_child_of_fork(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.8", SMALL_BERT));
    sparta_session *s = session(p, 3);
    inputs in = make_inputs(p->plan, BATCH, LENGTH, 1);
    results want = run(s, p, &in);
#ifdef __SANITIZE_ADDRESS__
    usleep(
        100000); /* a thread that still begins holds locks of the sanitizer's, which a child would wait for */
#endif
    pid_t pid = fork();
    if (pid == 0) {
        alarm(600); /* it hangs */
        results got = run(s, p, &in);
        same_bits(&got, &want, "in the child");
        free_results(&got);
        sparta_session_free(s);
#ifndef __SANITIZE_THREAD__ /* it wants no new threads after a fork */
        sparta_session *own = session(p, 2);
        got = run(own, p, &in);
        same_bits(&got, &want, "in a session of the child");
        sparta_session_free(own);
#endif
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    results again = run(s, p, &in);
    same_bits(&again, &want, "in the parent");
    free_results(&want), free_results(&again), free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(p);
}

/* What the README promises: the same bits from run to run and in every session of as many threads, and for other numbers of threads too
 * where no layer normalisation follows a product or every thread has whole panels. */
static void bits_and_threads(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 5};
    static const struct {
        const char *name, *prune, *sizes;
        int64_t batch, sequence;
        bool promised;
    } cases[] = {
        {"mlp", NULL, SMALL_MLP, 77, 1, true},
        {"mlp", "4x1:0.8", SMALL_MLP, 300, 1, true},
        {"bert-mini", "1x1:0.8", SMALL_BERT, 30, 64, true}, /* 30 panels: 1, 2, 3 and 5 divide them */
        {"bert-mini", "4x1:0.8", SMALL_BERT, 3, 37, false},
        {"gpt2-small", NULL, "layers=1 hidden=32 heads=2 vocab=40 positions=130", 30, 64, true},
    };
    for (size_t c = 0; c < SP_COUNT(cases); c++) {
        sparta_package *p = compile(zoo(cases[c].name, cases[c].prune, cases[c].sizes));
        inputs in = make_inputs(p->plan, cases[c].batch, cases[c].sequence, c + 1);
        results one = {0};
        for (size_t t = 0; t < SP_COUNT(threads); t++) {
            sparta_session *s = session(p, threads[t]), *other = session(p, threads[t]);
            results got = run(s, p, &in), again = run(s, p, &in), elsewhere = run(other, p, &in);
            same_bits(&again, &got, "run again");
            same_bits(&elsewhere, &got, "another session");
            if (t && cases[c].promised) same_bits(&got, &one, cases[c].name);
            if (t) close_enough(&got, &one, 1e-6, cases[c].name);
            free_results(&again), free_results(&elsewhere);
            if (t)
                free_results(&got);
            else
                one = got;
            sparta_session_free(s), sparta_session_free(other);
        }
        free_results(&one), free_inputs(&in);
        sparta_package_close(p);
    }
}

/* A batch or a sequence of none has an answer: as many empty numbers as the references have. */
static void nothing_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *name, *prune, *sizes;
        int64_t batch, sequence;
    } cases[] = {
        {"mlp", "4x1:0.8", SMALL_MLP, 0, 1},       {"bert-mini", "4x1:0.8", SMALL_BERT, 0, 64},
        {"bert-mini", NULL, SMALL_BERT, 3, 0},     {"bert-mini", "1x1:0.8", SMALL_BERT, 0, 0},
        {"dlrm", NULL, "rows=8 columns=16", 0, 1},
    };
    for (size_t c = 0; c < SP_COUNT(cases); c++) {
        sp_graph *g = typed(zoo(cases[c].name, cases[c].prune, cases[c].sizes));
        sparta_package *p = compile(zoo(cases[c].name, cases[c].prune, cases[c].sizes));
        sparta_named_tensor *in = sp_alloc_array(cx, (size_t)g->n_inputs + 1, sizeof *in);
        assert_true(g->n_inputs <= 32);
        const int64_t size[] = {cases[c].batch, cases[c].sequence};
        const sp_make_inputs how = {1, {2, (const char *[]){"batch", "sequence"}, size}};
        ok(sp_inputs_make(cx, g, &how, in));
        for (int bare = 0; bare <= 1; bare++) { /* a tensor without elements needs no address */
            sparta_tensor want;
            sparta_named_tensor given[32];
            for (int i = 0; i < g->n_inputs; i++) {
                given[i] = in[i];
                if (bare && !sparta_tensor_elements(&in[i].tensor)) given[i].tensor.data = NULL;
            }
            ok(sp_ops_run(cx, g, given, g->n_inputs, &want, NULL, NULL));
            for (int threads = 1; threads <= 3; threads += 2) {
                sparta_session *s = session(p, threads);
                sparta_named_tensor out = {.name = sparta_package_output_name(p, 0)};
                ok(sparta_session_run(cx, s, given, g->n_inputs, &out, 1));
                assert_true(sp_tensor_same_shape(&out.tensor, &want));
                assert_int_equal(sparta_tensor_elements(&out.tensor), 0);
                sparta_session_free(s);
            }
            sp_free(cx, want.data);
        }
        sp_inputs_free(cx, in, g->n_inputs);
        sp_free(cx, in);
        sparta_package_close(p);
        sp_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_package_that_changes), cmocka_unit_test(a_copy_does_not_mind),
        cmocka_unit_test(a_child_of_fork),        cmocka_unit_test(bits_and_threads),
        cmocka_unit_test(nothing_to_do),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
