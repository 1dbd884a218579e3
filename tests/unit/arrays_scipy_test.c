/* file: the matrices of scipy.sparse.save_npz, SciPy's own files and ones that it would not write. */
#include "arrays_bed.h"
#include "arrays/zip.h"

#define CORPUS "tests/fuzz/corpus/fuzz_npz/"

#define PATH in_root("scipy")

/* The matrix of tests/fixtures/make_matrices.py. */
static const double matrix[4][6] = {{0, 1.5, 0, 0, 0, -2}, {0}, {3, 4}, {0, 0, 0, 0, 0, 7}};

static void check(const sp_coo *c, int64_t n, bool whole)
{
    assert_int_equal(c->n, n);
    assert_true(c->dim[0] == 4 && c->dim[1] == 6 && c->rank == 2 && !c->dense);
    for (int64_t i = 1; i < n; i++)
        assert_true(c->index[0][i - 1] * 6 + c->index[1][i - 1] < c->index[0][i] * 6 + c->index[1][i]);
    sparta_tensor t = dense_of(c);
    for (int i = 0; i < 24; i++) {
        double want = whole ? matrix[i / 6][i % 6] : (double)(int)matrix[i / 6][i % 6];
        assert_true(sp_element_get(t.dtype, t.data, i) == want);
    }
    sp_free(cx, t.data);
}

static void test_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        sparta_dtype dtype;
        int64_t n;
    } files[] = {
        {"csr", SPARTA_F32, 5},  {"csc", SPARTA_F32, 5},
        {"dia", SPARTA_F32, 5},  {"coo", SPARTA_F32, 6}, /* an explicit zero; a duplicate summed */
        {"bsr", SPARTA_F32, 24}, /* every block of 2 x 3 has something: zeros in blocks are entries */
        {"stored", SPARTA_I8, 5}};
    for (size_t i = 0; i < SP_COUNT(files); i++) {
        char file[200];
        sp_coo c;
        snprintf(file, sizeof file, CORPUS "%s.npz", files[i].name);
        sparta_status status = sp_matrix_read(cx, file, &c);
        if (status == SPARTA_E_UNSUPPORTED && strstr(sparta_message(cx), "libz"))
            continue; /* all but one are deflated */
        if (status) fail_msg("%s", sparta_message(cx));
        assert_int_equal(c.values.dtype, files[i].dtype);
        check(&c, files[i].n, files[i].dtype == SPARTA_F32);
        sp_coo_free(&c);
    }
    sp_coo c;
    assert_int_equal(sp_scipy_read(cx, CORPUS "objects.npz", &c),
                     SPARTA_E_UNSUPPORTED); /* pickles are never opened */
    assert_non_null(strstr(sparta_message(cx), "|O"));
}

/* ------------------------------------------------------------------ made here */

typedef struct part {
    const char *name;
    sparta_dtype dtype;
    int rank;
    int64_t dim[3];
    const double *value;
} part;

/* The layout is spelled in `format`; arrays are made from doubles. */
static sparta_status read_parts(const char *format, const part *parts, int n, sp_coo *out)
{
    sp_npz_entry entry[8] = {0};
    sp_npz z = {cx, n + 1, entry};
    for (int i = 0; i < n; i++) {
        entry[i].name = (char *)parts[i].name;
        assert_int_equal(sp_tensor_alloc(cx, parts[i].dtype, parts[i].rank, parts[i].dim, &entry[i].tensor),
                         SPARTA_OK);
        for (int64_t k = 0; k < sparta_tensor_elements(&entry[i].tensor); k++)
            sp_element_set(parts[i].dtype, entry[i].tensor.data, k, parts[i].value[k]);
    }
    entry[n].name = "format";
    entry[n].tensor = sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){(int64_t)strlen(format)}, (void *)format);
    sparta_status status = sp_scipy_matrix(cx, &z, out);
    for (int i = 0; i < n; i++) sp_free(cx, entry[i].tensor.data);
    return status;
}

#define D(...) ((const double[]){__VA_ARGS__})
static part shape = {"shape", SPARTA_I64, 1, {2}, (const double[]){2, 3}};

static void csr(const char *format, const double *indptr, int64_t np, const double *indices,
                sparta_status want, const char *says)
{
    sp_coo c = {.n = 77};
    part parts[] = {shape,
                    {"data", SPARTA_F32, 1, {2}, D(5, 6)},
                    {"indptr", SPARTA_I32, 1, {np}, indptr},
                    {"indices", SPARTA_I32, 1, {2}, indices}};
    sparta_status status = read_parts(format, parts, 4, &c);
    if (status != want || (status && !strstr(sparta_message(cx), says)))
        fail_msg("status %d: %s", status, sparta_message(cx));
    if (status) assert_int_equal(c.n, 77);
    if (!status) sp_coo_free(&c);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

static void test_segments(void **state)
{
    (void)state;
    csr("csr", D(0, 1, 2), 3, D(2, 0), SPARTA_OK, "");
    csr("csr", D(0, 1, 1), 3, D(2, 99), SPARTA_OK, ""); /* more slots than are used */
    csr("csc", D(0, 1, 2, 2), 4, D(1, 0), SPARTA_OK, "");
    csr("csr", D(0, 1, 2, 2), 4, D(2, 0), SPARTA_E_FORMAT, "indptr has 4 elements, not 3");
    csr("csr", D(0), 0, D(2, 0), SPARTA_E_FORMAT, "indptr has 0 elements");
    csr("csr", D(1, 1, 2), 3, D(2, 0), SPARTA_E_FORMAT, "indptr[0] is 1");
    csr("csr", D(0, 2, 1), 3, D(2, 0), SPARTA_E_FORMAT, "indptr[2] is 1");
    csr("csr", D(0, 1, 3), 3, D(2, 0), SPARTA_E_FORMAT, "indptr[2] is 3");
    csr("csr", D(0, -1, 2), 3, D(2, 0), SPARTA_E_FORMAT, "indptr[1] is -1");
    csr("csr", D(0, 1, 2), 3, D(3, 0), SPARTA_E_RANGE, "indices[0] is 3, not below 3");
    csr("csr", D(0, 1, 2), 3, D(0, -1), SPARTA_E_RANGE, "indices[1] is -1");
    csr("csc", D(0, 1, 2, 2), 4, D(2, 0), SPARTA_E_RANGE, "indices[0] is 2, not below 2");
    csr("lil", D(0, 1, 2), 3, D(2, 0), SPARTA_E_UNSUPPORTED, "\"lil\"");
    csr("", D(0, 1, 2), 3, D(2, 0), SPARTA_E_UNSUPPORTED, "\"\"");
}

static void refused(const char *format, const part *parts, int n, sparta_status want, const char *says)
{
    sp_coo c = {.n = 77};
    sparta_status status = read_parts(format, parts, n, &c);
    if (status != want || !strstr(sparta_message(cx), says))
        fail_msg("status %d: %s", status, sparta_message(cx));
    assert_int_equal(c.n, 77);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

static void test_refused(void **state)
{
    (void)state;
    part data = {"data", SPARTA_F32, 1, {2}, D(5, 6)}, row = {"row", SPARTA_I64, 1, {2}, D(0, 1)},
         col = {"col", SPARTA_I64, 1, {2}, D(0, 2)};
    part bad[3] = {shape, data, row};
    refused("coo", bad, 3, SPARTA_E_FORMAT, "\"col\" is missing");
    refused("coo", (part[]){shape, data, row, {"col", SPARTA_F64, 1, {2}, D(0, 2)}}, 4, SPARTA_E_FORMAT,
            "\"col\" is f64, not integer");
    refused("coo", (part[]){shape, data, row, {"col", SPARTA_I32, 1, {1}, D(0)}}, 4, SPARTA_E_FORMAT,
            "\"col\" has 1 elements, not 2");
    refused("coo", (part[]){shape, data, row, {"col", SPARTA_I32, 2, {2, 1}, D(0, 0)}}, 4, SPARTA_E_FORMAT,
            "\"col\" has 2 dimensions, not 1");
    refused("coo", (part[]){shape, data, row, {"col", SPARTA_I32, 1, {2}, D(0, 3)}}, 4, SPARTA_E_RANGE,
            "the index 3 of dimension 1");
    refused("coo", (part[]){shape, data, row, {"col", SPARTA_I32, 1, {2}, D(-1, 2)}}, 4, SPARTA_E_RANGE,
            "the index -1");
    refused("coo", (part[]){{"shape", SPARTA_I64, 1, {3}, D(2, 3, 4)}, data, row, col}, 4,
            SPARTA_E_UNSUPPORTED, "3 dimensions");
    refused("coo", (part[]){{"shape", SPARTA_I64, 1, {2}, D(-2, 3)}, data, row, col}, 4, SPARTA_E_FORMAT,
            "-2 x 3");
    refused("coo", (part[]){shape, data, row, col, {"sparta", SPARTA_U8, 1, {1}, D(1)}}, 5, SPARTA_E_FORMAT,
            "packed by sparta");
    refused("coo", (part[]){data, row, col}, 3, SPARTA_E_FORMAT, "scipy.sparse.save_npz");
    refused("bsr", (part[]){shape, {"data", SPARTA_F32, 3, {1, 2, 2}, D(1, 2, 3, 4)}}, 2, SPARTA_E_FORMAT,
            "blocks of 2 x 2 do not divide");
    refused("bsr", (part[]){shape, {"data", SPARTA_F32, 3, {1, 0, 3}, D(1)}}, 2, SPARTA_E_FORMAT,
            "blocks of 0 x 3");
    refused("bsr", (part[]){shape, data}, 2, SPARTA_E_FORMAT, "\"data\" has 1 dimensions, not 3");
    part diagonals = {"data", SPARTA_F32, 2, {2, 3}, D(1, 2, 3, 4, 5, 6)};
    refused("dia", (part[]){shape, diagonals, {"offsets", SPARTA_I32, 1, {2}, D(1, 1)}}, 3, SPARTA_E_FORMAT,
            "twice");
    refused("dia", (part[]){shape, diagonals, {"offsets", SPARTA_I32, 1, {2}, D(1, 9)}}, 3, SPARTA_E_RANGE,
            "outside");
    refused("dia", (part[]){shape, diagonals, {"offsets", SPARTA_I32, 1, {3}, D(1, 0, 2)}}, 3,
            SPARTA_E_FORMAT, "3 elements, not 2");
}

static void test_diagonals(void **state)
{
    (void)state;
    sp_coo c;
    /* [1 5 .]  a short data array, slots outside of the matrix, a zero inside
     * [. 2 6] */
    part parts[] = {shape,
                    {"data", SPARTA_F64, 2, {2, 3}, D(1, 2, 9, 9, 5, 6)},
                    {"offsets", SPARTA_I64, 1, {2}, D(0, 1)}};
    assert_int_equal(read_parts("dia", parts, 3, &c), SPARTA_OK);
    assert_int_equal(c.n, 4);
    assert_memory_equal(c.index[0], ((int64_t[]){0, 0, 1, 1}), 32);
    assert_memory_equal(c.index[1], ((int64_t[]){0, 1, 1, 2}), 32);
    assert_memory_equal(c.values.data, ((double[]){1, 5, 2, 6}), 32);
    sp_coo_free(&c);
    part empty[] = {shape, {"data", SPARTA_F64, 2, {0, 0}, D(0)}, {"offsets", SPARTA_I64, 1, {0}, D(0)}};
    assert_int_equal(read_parts("dia", empty, 3, &c), SPARTA_OK);
    assert_int_equal(c.n, 0);
    sp_coo_free(&c);
}

/* ------------------------------------------------------------------ damage */

static void test_truncated(void **state)
{
    (void)state;
    char *bytes;
    size_t n;
    sp_coo c;
    assert_int_equal(sp_file_read(cx, CORPUS "stored.npz", 4096, &bytes, &n), SPARTA_OK);
    for (size_t k = 0; k < n; k += 3) {
        FILE *f = fopen(PATH, "wb");
        assert_true(f && fwrite(bytes, 1, k, f) == k && !fclose(f));
        assert_int_equal(sp_scipy_read(cx, PATH, &c), SPARTA_E_FORMAT);
    }
    sp_free(cx, bytes);
}

static void test_memory(void **state)
{
    (void)state;
    sparta_status status = SPARTA_E_MEMORY;
    sp_coo c;
    for (uint64_t nth = 1; status; nth++) {
        assert_true(nth < 1000);
        sp_ctx_fail_alloc(cx, nth, true);
        status = sp_scipy_read(cx, CORPUS "stored.npz", &c);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        if (!status) sp_coo_free(&c);
        assert_int_equal(sp_ctx_memory(cx), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),     cmocka_unit_test(test_segments),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_diagonals), cmocka_unit_test(test_truncated), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up_folder, tear_down_folder);
}
