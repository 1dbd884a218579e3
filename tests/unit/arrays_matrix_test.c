/* arrays: matrices written and read again, and in files: SciPy's and real ones against a reader of a few lines that believes everything; SMTX;
 * failing memory. */
#include "arrays_bed.h"
#include "normal.h"
#include <dirent.h>
#include <math.h>

#define CORPUS "tests/fuzz/corpus/fuzz_mtx/"
#define PATH   in_root("mtx")

/* ------------------------------------------------------------------ round trips */

static bool same(const sp_coo *a, const sp_coo *b)
{
    if (a->dense != b->dense || a->n != b->n || a->dim[0] != b->dim[0] || a->dim[1] != b->dim[1])
        return false;
    if (!a->values.data != !b->values.data) return false;
    for (int d = 0; d < 2 && !a->dense; d++)
        if (a->n && memcmp(a->index[d], b->index[d], (size_t)a->n * 8)) return false;
    for (int64_t i = 0; a->values.data && i < a->n; i++) {
        double x = sp_element_get(a->values.dtype, a->values.data, i),
               y = sp_element_get(b->values.dtype, b->values.data, i);
        if (isnan(x) ? !isnan(y) : memcmp(&x, &y, 8) != 0) return false;
    }
    return true;
}

static sp_coo random_matrix(sp_rng *rng, sparta_dtype t, bool pattern)
{
    sp_coo c;
    int64_t dim[2] = {(int64_t)(sp_rng_next(rng) % 20), (int64_t)(sp_rng_next(rng) % 20)};
    int64_t n = dim[0] && dim[1] ? (int64_t)(sp_rng_next(rng) % 40) : 0;
    assert_int_equal(sp_coo_alloc(cx, 2, dim, n, pattern ? NULL : &t, &c), SPARTA_OK);
    for (int64_t i = 0; i < n; i++) {
        for (int d = 0; d < 2; d++) c.index[d][i] = (int64_t)(sp_rng_next(rng) % (uint64_t)dim[d]);
        if (!pattern)
            sp_element_set(t, c.values.data, i,
                           sp_dtype_is_float(t) ? normal(rng) * 1e-3 : (double)(sp_rng_next(rng) % 3));
    }
    assert_int_equal(sp_coo_canonical(&c), SPARTA_OK);
    return c;
}

static void test_round_trip(void **state)
{
    (void)state;
    sp_rng rng = sp_rng_seed(9);
    for (int round = 0; round < 300; round++) {
        sparta_dtype t = (sparta_dtype)(round % (SPARTA_BOOL + 1)); /* sums would not fit narrower ones */
        sp_coo c = random_matrix(&rng, t, round % 7 == 0), back, whole = {.cx = cx, .dense = true, .rank = 2};
        if (c.n && c.values.data && t == SPARTA_F64)
            ((double *)c.values.data)[0] = round % 2 ? -INFINITY : -0.0;
        assert_int_equal(sp_mtx_write(cx, PATH, &c), SPARTA_OK);
        assert_int_equal(sp_matrix_read(cx, PATH, &back), SPARTA_OK);
        assert_true(same(&c, &back));
        sp_coo_free(&back);
        whole.values = dense_of(&c);
        whole.dim[0] = c.dim[0], whole.dim[1] = c.dim[1], whole.n = c.dim[0] * c.dim[1];
        assert_int_equal(sp_mtx_write(cx, PATH, &whole), SPARTA_OK);
        assert_int_equal(sp_matrix_read(cx, PATH, &back), SPARTA_OK);
        assert_true(same(&whole, &back));
        sp_coo_free(&back);
        sp_coo_free(&c), sp_coo_free(&whole);
    }
    sp_coo c;
    sparta_dtype u64 = SPARTA_U64;
    assert_int_equal(sp_coo_alloc(cx, 2, (int64_t[]){1, 1}, 1, &u64, &c), SPARTA_OK);
    *(uint64_t *)c.values.data = UINT64_MAX;
    assert_int_equal(sp_mtx_write(cx, PATH, &c), SPARTA_E_RANGE);
    c.rank = 1;
    assert_int_equal(sp_mtx_write(cx, PATH, &c), SPARTA_E_SHAPE);
    c.rank = 2;
    sp_coo_free(&c);
}

/* ------------------------------------------------------------------ files: SciPy's, and real matrices */

/* sscanf, no checks. Dense, so that nothing of the reader under test is used. */
static double *naive(const char *file, int *rows, int *cols)
{
    char line[2048], format[32], field[32], symmetry[32];
    int n = 0, seen = 0;
    double *a = NULL;
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(sscanf(line, "%%%%MatrixMarket matrix %31s %31s %31s", format, field, symmetry), 3);
    bool array = !strcmp(format, "array");
    while (fgets(line, sizeof line, f)) {
        int i, j;
        double v = 1;
        if (line[0] == '%' || strspn(line, " \t\r\n") == strlen(line)) continue;
        if (!a) {
            sscanf(line, "%d %d %d", rows, cols, &n);
            a = calloc((size_t)*rows * (size_t)*cols + 1, sizeof *a);
            i = j = 0;
            continue;
        }
        if (array) { /* column by column, down from the diagonal when symmetric */
            int at = seen++, from = 0;
            sscanf(line, "%lf", &v);
            for (j = 0;; j++) {
                from = !strcmp(symmetry, "general") ? 0 : j + !strcmp(symmetry, "skew-symmetric");
                if (at < *rows - from) break;
                at -= *rows - from;
            }
            i = from + at;
        } else {
            sscanf(line, "%d %d %lf", &i, &j, &v);
            i--, j--;
        }
        a[i * *cols + j] += v;
        if (i != j && strcmp(symmetry, "general"))
            a[j * *cols + i] += !strcmp(symmetry, "symmetric") ? v : -v;
    }
    fclose(f);
    return a;
}

static bool equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void compare_file(const char *file)
{
    sp_coo c;
    sparta_tensor t;
    int rows = 0, cols = 0;
    if (sp_matrix_read(cx, file, &c)) fail_msg("%s", sparta_message(cx));
    double *a = naive(file, &rows, &cols);
    assert_true(c.dim[0] == rows && c.dim[1] == cols);
    t = dense_of(&c);
    for (int64_t i = 0; i < (int64_t)rows * cols; i++)
        if (!equal(sp_element_get(t.dtype, t.data, i), a[i]))
            fail_msg("%s: element %lld differs", file, (long long)i);
    sp_coo_free(&c);
    sp_free(cx, t.data);
    free(a);
}

static int compare_folder(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char file[400];
        snprintf(file, sizeof file, "%s/%.250s", folder, e->d_name);
        if (!strstr(e->d_name, ".mtx")) continue;
        compare_file(file);
        n++;
    }
    if (d) closedir(d);
    return n;
}

static void test_scipy_files(void **state)
{
    (void)state;
    assert_int_equal(compare_folder(CORPUS), 6);
}

/* Where the data folder is not beside the repository, the test says so. */
static const char *shared(const char *what)
{
    static char folder[200];
    snprintf(folder, sizeof folder, "../shared/data/%s", what);
    if (!access(folder, R_OK)) return folder;
    print_message("skipped: %s is not here; test_scipy_files and test_refused cover the same\n", folder);
    return NULL;
}

static void test_shared_matrices(void **state)
{
    (void)state;
    const char *folder = shared("matrices");
    if (!folder) skip();
    assert_true(compare_folder(folder) >= 14);
}

static void test_shared_mangled(void **state)
{
    (void)state;
    static const char *const says[] = {"line 1: unknown object 'mangled'",
                                       "line 1: unknown format 'mangled'",
                                       "line 1: unknown field 'mangled'",
                                       "line 1: unknown symmetry 'mangled'",
                                       "line 1: hermitian",
                                       "line 1: hermitian",
                                       "line 2: unknown type 'gunk'",
                                       "line 4: the number of columns is missing"};
    const char *folder = shared("mangled");
    if (!folder) skip();
    for (int i = 0; i < 8; i++) {
        char file[300];
        sp_coo c;
        snprintf(file, sizeof file, "%s/mangled%d.mtx", folder, i + 1);
        assert_int_equal(sp_matrix_read(cx, file, &c), SPARTA_E_FORMAT);
        if (!strstr(sparta_message(cx), says[i]) || !strstr(sparta_message(cx), file))
            fail_msg("%s", sparta_message(cx));
    }
}

/* ------------------------------------------------------------------ SMTX */

static void test_smtx(void **state)
{
    (void)state;
    sp_coo c;
    assert_int_equal(sp_matrix_read(cx, CORPUS "dlmc.smtx", &c), SPARTA_OK);
    assert_true(c.dim[0] == 4 && c.dim[1] == 6 && !c.values.data);
    entries(&c, 5, (int64_t[]){0, 0, 2, 2, 3}, (int64_t[]){1, 5, 0, 1, 5});
    sp_coo_free(&c);
    static const char *const fine[] = {"2, 2, 0\n0 0 0\n\n", "2, 2, 0\n0 0 0", "0, 5, 0\n0\n",
                                       "1,2,2\n0 2\n1 0\n\n", "1 2 1\r\n0 1\r\n1\r\n"};
    for (size_t i = 0; i < SP_COUNT(fine); i++) {
        if (sp_smtx_parse(cx, fine[i], strlen(fine[i]), &c)) fail_msg("%s: %s", fine[i], sparta_message(cx));
        sp_coo_free(&c);
    }
    static const char *const bad[][2] = {
        {"", "line 1: the file ends"},
        {"2, 2\n0 0 0\n", "line 1: the number of non-zeros is missing"},
        {"2, 2, 0, 1\n0 0 0\n", "line 1: '1' follows"},
        {"2, 2, 0\n", "line 1: 2 rows"},
        {"1, 2, 0\n", "line 2: the file ends"},
        {"9000000000000000000, 2, 0\n0 0\n", "line 1: 9000000000000000000 rows"},
        {"2, 2, 1\n0 1\n0\n", "line 2: a row offset is missing"},
        {"2, 2, 1\n1 1 1\n0\n", "line 2: the first row offset is 1"},
        {"2, 2, 2\n0 2 1\n0 1\n", "line 2: the row offset 1"},
        {"2, 2, 1\n0 1 3\n0\n", "line 2: the row offset 3"},
        {"2, 2, 2\n0 1 1\n0 1\n", "line 2: the last row offset is 1"},
        {"2, 2, 1\n0 1 1 1\n0\n", "line 2: '1' follows"},
        {"2, 2, 2\n0 1 2\n0\n", "line 3: a column is missing"},
        {"2, 2, 2\n0 1 2", "line 3: the file ends"},
        {"2, 2, 1\n0 1 1\n2\n", "line 3: the column 2 is not below 2"},
        {"2, 2, 1\n0 1 1\n0 0\n", "line 3: '0' follows"},
        {"2, 2, 1\n0 1 1\n0\n1\n", "line 4: '1' follows"},
        {"2, 2, 1\n0 1 1\n-1\n", "line 3: a column -1 is negative"}};
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        if (!sp_smtx_parse(cx, bad[i][0], strlen(bad[i][0]), &c) || !strstr(sparta_message(cx), bad[i][1]))
            fail_msg("%s: %s", bad[i][0], sparta_message(cx));
}

/* ------------------------------------------------------------------ memory */

static void test_memory(void **state)
{
    (void)state;
    const char *text = MM "coordinate real symmetric\n9 9 3\n9 1 1\n2 1 1\n2 1 3\n";
    sparta_status status = SPARTA_E_MEMORY;
    sp_coo c;
    for (uint64_t nth = 1; status; nth++) {
        assert_true(nth < 100);
        sp_ctx_fail_alloc(cx, nth, true);
        status = sp_mtx_parse(cx, text, strlen(text), &c);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        if (status) assert_int_equal(sp_ctx_memory(cx), 0);
    }
    size_t held = sp_ctx_memory(cx);
    status = SPARTA_E_MEMORY;
    for (uint64_t nth = 1; status; nth++) {
        assert_true(nth < 100);
        sp_ctx_fail_alloc(cx, nth, true);
        status = sp_mtx_write(cx, PATH, &c);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), held);
    }
    sp_coo_free(&c);
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = 4096;
    sparta_ctx *poor = sparta_ctx_create(&options);
    assert_non_null(poor);
    if (shared("matrices")) {
        char file[300];
        snprintf(file, sizeof file, "%s/cora.mtx", shared("matrices"));
        assert_int_equal(sp_matrix_read(poor, file, &c), SPARTA_E_MEMORY);
    }
    assert_int_equal(sp_ctx_memory(poor), 0);
    c = parse(MM "coordinate pattern general\n4611686018427387904 4611686018427387904 0\n");
    sp_coo_free(&c);
    sparta_ctx_free(poor);
    sparta_ctx_cancel(cx); /* last test: a cancellation stays */
    assert_int_equal(sp_matrix_read(cx, CORPUS "real.mtx", &c), SPARTA_E_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_scipy_files),
                                       cmocka_unit_test(test_shared_matrices),
                                       cmocka_unit_test(test_shared_mangled),
                                       cmocka_unit_test(test_smtx),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, set_up_folder, tear_down_folder);
}
