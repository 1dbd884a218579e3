/* The product of a library found at run time: found or not, switched off, one thread a call, and the host's settings as they were;
 * and the kernel that puts an epilogue over it, with and without the library. Where there is none, a line says so. */
#include "panel_bed.h"
#include "panel/library.h"
#include "normal.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>

static void off(void **state)
{
    (void)state;
    setenv("SPARTA_ONEDNN", "0", 1);
    assert_null(sp_library_sgemm());
    assert_null(sp_library_version());
    assert_string_equal(sp_library_problem(), "switched off by SPARTA_ONEDNN=0");
    unsetenv("SPARTA_ONEDNN");
}

/* There, with a version, or not, with a reason; the same every time. */
static void there_or_not(void **state)
{
    (void)state;
    const bool there = sp_library_sgemm() != NULL;
    assert_int_equal(there, sp_library_version() != NULL);
    assert_int_equal(there, sp_library_problem() == NULL);
    assert_ptr_equal(sp_library_sgemm(), sp_library_sgemm());
    if (there)
        assert_non_null(strstr(sp_library_version(), "oneDNN "));
    else
        print_message("oneDNN is %s: only the product that takes its place is tested\n",
                      sp_library_problem());
    setenv("SPARTA_ONEDNN", "1", 1); /* only 0 switches off */
    assert_int_equal(there, sp_library_version() != NULL);
    unsetenv("SPARTA_ONEDNN");
}

/* ------------------------------------------------------------------ the function */

enum { ROWS = 256, INPUTS = 512 };
typedef struct work {
    float *w, *x, *y;
    int wrong;
} work;

static work make_work(uint64_t seed)
{
    sp_rng r = sp_rng_seed(seed);
    work k = {sp_alloc_array(cx, ROWS * INPUTS, sizeof(float)),
              sp_alloc_array(cx, INPUTS * SP_PANEL, sizeof(float)),
              sp_alloc_array(cx, ROWS * SP_PANEL, sizeof(float)), 0};
    assert_true(k.w && k.x && k.y);
    for (int i = 0; i < ROWS * INPUTS; i++) k.w[i] = (float)normal(&r);
    for (int i = 0; i < INPUTS * SP_PANEL; i++) k.x[i] = (float)normal(&r);
    return k;
}

static void free_work(work *k)
{
    sp_free(cx, k->w), sp_free(cx, k->x), sp_free(cx, k->y);
}

/* y = w x of these sizes, and lanes that are not asked for untouched. */
static void multiply(work *k, long rows, long inputs, long tokens)
{
    for (long i = 0; i < ROWS * SP_PANEL; i++) k->y[i] = NAN;
    if (sp_library_sgemm()(k->w, k->x, k->y, rows, inputs, tokens)) k->wrong++;
    for (long n = 0; n < rows; n++)
        for (long t = 0; t < SP_PANEL; t++) {
            const float y = k->y[n * SP_PANEL + t];
            double sum = 0, size = 0;
            for (long i = 0; i < inputs; i++) {
                const double one = (double)k->w[n * inputs + i] * k->x[i * SP_PANEL + t];
                sum += one, size += fabs(one);
            }
            k->wrong += t < tokens ? !(fabs(y - sum) <= 4e-6 * size + 1e-7) : !isnan(y);
        }
    for (long i = rows * SP_PANEL; i < ROWS * SP_PANEL; i++) k->wrong += !isnan(k->y[i]);
}

static int process_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static void right_on_one_thread(void **state)
{
    (void)state;
    if (!sp_library_sgemm()) skip();
    static const long rows[] = {1, 2, 5, 16, 47, ROWS}, inputs[] = {1, 3, 64, 257, INPUTS},
                      tokens[] = {16, 32, 48, 64};
    const int before = process_threads();
    work k = make_work(5);
    for (size_t i = 0; i < SP_COUNT(rows); i++)
        for (size_t j = 0; j < SP_COUNT(inputs); j++)
            for (size_t t = 0; t < SP_COUNT(tokens); t++) multiply(&k, rows[i], inputs[j], tokens[t]);
    assert_int_equal(k.wrong, 0);
    assert_int_equal(process_threads(), before);
    free_work(&k);
}

/* What the host asked of OpenMP is what it finds afterwards. */
static void settings_of_the_host(void **state)
{
    (void)state;
    if (!sp_library_sgemm()) skip();
    void *openmp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!openmp) skip();
    int (*threads)(void);
    void (*set_threads)(int),
        *found[] = {dlsym(openmp, "omp_get_max_threads"), dlsym(openmp, "omp_set_num_threads")};
    memcpy(&threads, &found[0], sizeof threads);
    memcpy(&set_threads, &found[1], sizeof set_threads);
    const int first = threads(), before = process_threads();
    work k = make_work(6);
    for (int n = 1; n < 5; n++) {
        set_threads(n);
        multiply(&k, ROWS, INPUTS, SP_PANEL);
        assert_int_equal(threads(), n);
    }
    set_threads(first);
    assert_int_equal(k.wrong, 0);
    assert_int_equal(process_threads(), before);
    free_work(&k);
    dlclose(openmp);
}

static void *again_and_again(void *arg)
{
    for (long i = 0; i < 20; i++) multiply(arg, 16 + i, INPUTS - i, SP_PANEL);
    return NULL;
}

static void several_threads_at_once(void **state)
{
    (void)state;
    if (!sp_library_sgemm()) skip();
    work k[4];
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) k[i] = make_work((uint64_t)i);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, again_and_again, &k[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(k[i].wrong, 0);
        free_work(&k[i]);
    }
}

/* ------------------------------------------------------------------ the kernel */

static sp_packed pack(const sparta_tensor *w, const char *text)
{
    sp_format format;
    sp_packed p;
    ok(sp_format_parse(cx, text, &format));
    ok(sp_store_pack(cx, &format, w, NULL, &p));
    return p;
}

static bed *layer(int64_t tokens, int64_t n, int64_t k)
{
    bed *b = bed_make();
    bed_input(b, false, SPARTA_F32, DIMS(tokens, k));
    bed_input(b, true, SPARTA_F32, DIMS(n, k));
    bed_input(b, true, SPARTA_F32, DIMS(n));
    bed_node(b, "sparta::Linear", "transposed=1, epilogue=\"bias relu\"", DIMS(tokens, n));
    reference(b);
    return b;
}

static int asked;
static int gives_up(const float *w, const float *x, float *y, long rows, long k, long tokens)
{
    (void)w, (void)x, (void)k;
    for (long i = 0; i < rows; i++)
        for (long t = 0; t < tokens; t++) y[i * SP_PANEL + t] = NAN;
    asked++;
    return 1;
}

/* The library has no memory, say: it may have written anything, and the answer is right. */
static void a_library_that_gives_up(void **state)
{
    (void)state;
    bed *b = layer(70, 37, 300);
    sp_packed p = pack(&b->in[1], "(n,k)->(n:dense, k:dense)");
    const how h = {.kernel = "library", .packed = &p, .parts = 2};
    const lain y = lay(b, &b->out, 2);
    sp_job job;
    bind(b, &h, &y, &job);
    job.product = gives_up;
    run_places(b, &h, &job);
    assert_int_equal(asked, 4);
    float *rows = sp_arena_array(b->arena, (size_t)sparta_tensor_elements(&b->out), sizeof(float));
    assert_non_null(rows);
    move_rows(&y, &b->out, rows, false);
    close_enough(b, rows, NULL, 1e-5, 0, "after giving up");
    sp_packed_free(cx, &p);
    bed_free(b);
}

/* Without the library the job says so, and computes. */
static void a_note_where_there_is_none(void **state)
{
    (void)state;
    bed *b = layer(17, 9, 20);
    sp_packed p = pack(&b->in[1], "(n,k)->(n:dense, k:dense)");
    setenv("SPARTA_ONEDNN", "0", 1);
    const float *y = run_kernel(b, &(how){.kernel = "library", .packed = &p, .parts = 1});
    unsetenv("SPARTA_ONEDNN");
    close_enough(b, y, NULL, 1e-5, 0, "without the library");
    assert_non_null(strstr(sparta_notes(cx), "oneDNN, for which a layer was compiled, is switched off"));
    sp_packed_free(cx, &p);
    bed_free(b);
}

static void other_formats_are_refused(void **state)
{
    (void)state;
    static const char *const formats[] = {"(n,k)->(k:dense, n:dense)",
                                          "csr",
                                          "rows(4)",
                                          "(n,k)->(n/4:dense, k:dense, n%4:dense)",
                                          "quads(128)",
                                          "bitmap"};
    bed *b = layer(5, 8, 8);
    for (size_t i = 0; i < SP_COUNT(formats); i++) {
        sp_packed p = pack(&b->in[1], formats[i]);
        sp_job job = {.node = b->node, .n_in = 3, .n_out = 1};
        bind_inputs(b, &(how){.kernel = "library", .packed = &p}, &job);
        fails_saying(SPARTA_E_FORMAT, "row by row", sp_panel_library.prepare(cx, b->arena, &job));
        sp_packed_free(cx, &p);
    }
    bed_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off),
        cmocka_unit_test(there_or_not),
        cmocka_unit_test(right_on_one_thread),
        cmocka_unit_test(settings_of_the_host),
        cmocka_unit_test(several_threads_at_once),
        cmocka_unit_test(a_library_that_gives_up),
        cmocka_unit_test(a_note_where_there_is_none),
        cmocka_unit_test(other_formats_are_refused),
    };
    return cmocka_run_group_tests(tests, context_begin, tear_down);
}
