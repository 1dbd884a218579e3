/* arrays: what is read of Matrix Market, and everything that is refused. */
#include "arrays_bed.h"
#include <math.h>

#define CORPUS "tests/fuzz/corpus/fuzz_mtx/"

/* ------------------------------------------------------------------ what is read */

static void test_coordinate(void **state)
{
    (void)state;
    sp_coo c = parse(
        MM "coordinate real general\n% c\n\n3 4 3\n3 1 -.5\n%x\n \t\r\n1 4 1e2\r\n  1  2\t+2.E-1  \n\n% end");
    assert_true(!c.dense && c.rank == 2 && c.dim[0] == 3 && c.dim[1] == 4 && c.values.dtype == SPARTA_F64);
    entries(&c, 3, (int64_t[]){0, 0, 2}, (int64_t[]){1, 3, 0});
    assert_memory_equal(c.values.data, ((double[]){.2, 100, -.5}), 24);
    sp_coo_free(&c);
    c = parse("%%matrixmarket MATRIX Coordinate Double General\n1 1 1\n1 1 nan");
    assert_true(isnan(*(double *)c.values.data));
    sp_coo_free(&c);
    c = parse(MM "coordinate integer general\n2 2 2\n1 1 9223372036854775807\n2 2 -9223372036854775808\n");
    assert_int_equal(c.values.dtype, SPARTA_I64);
    assert_memory_equal(c.values.data, ((int64_t[]){INT64_MAX, INT64_MIN}), 16);
    sp_coo_free(&c);
    c = parse(MM "coordinate unsigned-integer general\n1 1 1\n1 1 4\n");
    assert_int_equal(*(int64_t *)c.values.data, 4);
    sp_coo_free(&c);
    c = parse(MM "coordinate pattern general\n2 2 2\n2 1\n1 2");
    assert_null(c.values.data);
    entries(&c, 2, (int64_t[]){0, 1}, (int64_t[]){1, 0});
    sp_coo_free(&c);
    c = parse(MM "coordinate real general\n0 0 0\n");
    assert_int_equal(c.n, 0);
    sp_coo_free(&c);
    sp_coo_free(&c);
    c = parse(MM "coordinate pattern general\n9223372036854775807 9223372036854775807 "
                 "2\n9223372036854775807 1\n1 9223372036854775807\n");
    entries(&c, 2, (int64_t[]){0, INT64_MAX - 1}, (int64_t[]){INT64_MAX - 1, 0});
    sp_coo_free(&c);
}

static void test_symmetric(void **state)
{
    (void)state;
    sp_coo c = parse(MM "coordinate real symmetric\n3 3 3\n1 1 5\n3 1 7\n3 2 0\n");
    entries(&c, 5, (int64_t[]){0, 0, 1, 2, 2}, (int64_t[]){0, 2, 2, 0, 1});
    assert_memory_equal(c.values.data, ((double[]){5, 7, 0, 7, 0}), 40); /* the explicit zero is an entry */
    assert_int_equal(c.values.dim[0], 5);
    sp_coo_free(&c);
    c = parse(MM
              "coordinate integer skew-symmetric\n3 3 2\n1 2 4\n1 3 -9\n"); /* above the diagonal: fine too */
    entries(&c, 4, (int64_t[]){0, 0, 1, 2}, (int64_t[]){1, 2, 0, 0});
    assert_memory_equal(c.values.data, ((int64_t[]){4, -9, -4, 9}), 32);
    sp_coo_free(&c);
    c = parse(MM "coordinate pattern symmetric\n2 2 2\n2 1\n2 2\n");
    entries(&c, 3, (int64_t[]){0, 1, 1}, (int64_t[]){1, 0, 1});
    sp_coo_free(&c);
}

/* No complex numbers, but numbers that are real after all. */
static void test_complex(void **state)
{
    (void)state;
    sp_coo c = parse(MM "coordinate complex general\n2 2 3\n1 1 5 0\n2 1 7 -0.0\n2 2 0 0e5\n");
    entries(&c, 3, (int64_t[]){0, 1, 1}, (int64_t[]){0, 0, 1});
    assert_memory_equal(c.values.data, ((double[]){5, 7, 0}), 24);
    sp_coo_free(&c);
    c = parse(MM "coordinate complex hermitian\n2 2 2\n1 1 5 0\n2 1 7 0\n");
    entries(&c, 3, (int64_t[]){0, 0, 1}, (int64_t[]){0, 1, 0});
    assert_memory_equal(c.values.data, ((double[]){5, 7, 7}), 24);
    sp_coo_free(&c);
    c = parse(MM "array complex skew-symmetric\n2 2\n3 0\n");
    assert_true(((double *)c.values.data)[1] == -3 && ((double *)c.values.data)[2] == 3);
    sp_coo_free(&c);
}

/* LAGraph's full_noheader.mtx and west0067_noheader.mtx are such files. */
static void test_no_first_line(void **state)
{
    (void)state;
    sp_coo c = parse("%%% c\n\n% the array of a matrix\n2 3\n1\n2\n%c\n3\n4\n5\n6.5\n");
    assert_true(c.dense && c.n == 6 && c.dim[0] == 2 && c.values.dtype == SPARTA_F64);
    assert_memory_equal(c.values.data, ((double[]){1, 3, 5, 2, 4, 6.5}), 48);
    sp_coo_free(&c);
    c = parse("  3 4 2 \r\n3 1 -.5\r\n1 4 1e2");
    assert_true(!c.dense && c.dim[0] == 3 && c.dim[1] == 4 && c.values.dtype == SPARTA_F64);
    entries(&c, 2, (int64_t[]){0, 2}, (int64_t[]){3, 0});
    assert_memory_equal(c.values.data, ((double[]){100, -.5}), 16);
    sp_coo_free(&c);
    c = parse("%%GraphBLAS type int8_t\n1 2\n-128\n127\n");
    assert_int_equal(c.values.dtype, SPARTA_I8);
    assert_memory_equal(c.values.data, ((int8_t[]){-128, 127}), 2);
    sp_coo_free(&c);
}

/* The ends of every type, and one beyond them; in files of integers and, with a point or without, of reals. */
static const struct {
    const char *name, *grb;
    sparta_dtype dtype;
    const char *least, *most, *below, *above;
} typed[] = {
    {"bool", "GrB_BOOL", SPARTA_BOOL, "0", "1", "-1", "2"},
    {"int8_t", "GrB_INT8", SPARTA_I8, "-128", "127", "-129", "128"},
    {"int16_t", "GrB_INT16", SPARTA_I16, "-32768", "32767", "-32769", "32768"},
    {"int32_t", "GrB_INT32", SPARTA_I32, "-2147483648", "2147483647", "-2147483649", "2147483648"},
    {"int64_t", "GrB_INT64", SPARTA_I64, "-9223372036854775808", "9223372036854775807",
     "-9223372036854775809", "9223372036854775808"},
    {"uint8_t", "GrB_UINT8", SPARTA_U8, "0", "255", "-1", "256"},
    {"uint16_t", "GrB_UINT16", SPARTA_U16, "0", "65535", "-1", "65536"},
    {"uint32_t", "GrB_UINT32", SPARTA_U32, "0", "4294967295", "-1", "4294967296"},
    {"uint64_t", "GrB_UINT64", SPARTA_U64, "0", "18446744073709551615", "-1", "18446744073709551616"},
};

static void refuse(const char *text, const char *says)
{
    sp_coo c;
    if (sp_mtx_parse(cx, text, strlen(text), &c) != SPARTA_E_RANGE || !strstr(sparta_message(cx), says))
        fail_msg("%s: %s", text, sparta_message(cx));
}

static void type_ends(size_t i, const char *field)
{
    char text[400];
    snprintf(text, sizeof text, "%sarray %s general\n%% c\n%%%%graphblas type %s \n1 2\n%s\n%s\n", MM, field,
             typed[i].name, typed[i].least, typed[i].most);
    sp_coo c = parse(text);
    assert_int_equal(c.values.dtype, typed[i].dtype);
    assert_true(sp_element_get_int(c.values.dtype, c.values.data, 0) == strtoll(typed[i].least, NULL, 10));
    assert_true((uint64_t)sp_element_get_int(c.values.dtype, c.values.data, 1) ==
                strtoull(typed[i].most, NULL, 10));
    sp_coo_free(&c);
}

static void type_beyond(size_t i, const char *field, bool above)
{
    char text[400], says[80];
    snprintf(text, sizeof text, "%scoordinate %s general\n%%%%GraphBLAS %s\n1 1 1\n1 1 %s\n", MM, field,
             typed[i].grb, above ? typed[i].above : typed[i].below);
    snprintf(says, sizeof says, "does not fit in %s",
             above && typed[i].dtype == SPARTA_U64 ? "64 bits" : typed[i].name);
    refuse(text, says);
    assert_non_null(strstr(sparta_message(cx), "line 4: the value"));
}

/* In a file of reals a value may have a point, but no fraction. */
static void type_points(size_t i)
{
    static const char *const none[] = {"0.5", "inf", "nan", "1e30", "1e400"};
    char text[400];
    for (size_t v = 0; v < SP_COUNT(none); v++) {
        snprintf(text, sizeof text, "%sarray real general\n%%%%GraphBLAS type %s\n1 1\n%s\n", MM,
                 typed[i].name, none[v]);
        refuse(text, "line 4: the value");
    }
    snprintf(text, sizeof text, "%sarray real general\n%%%%GraphBLAS type %s\n1 2\n1.0\n-0.0\n", MM,
             typed[i].name);
    sp_coo c = parse(text);
    assert_int_equal(sp_element_get_int(c.values.dtype, c.values.data, 0), 1);
    assert_int_equal(sp_element_get_int(c.values.dtype, c.values.data, 1), 0);
    sp_coo_free(&c);
}

static void test_types(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(typed); i++) {
        for (int real = 0; real < 2; real++) {
            const char *field = real ? "real" : "integer";
            type_ends(i, field);
            type_beyond(i, field, false);
            type_beyond(i, field, true);
        }
        type_points(i);
    }
}

static void test_types_real(void **state)
{
    (void)state;
    sp_coo c = parse(MM "array real general\n%%GraphBLAS type float\n1 3\n.1\n-inf\n3.4028235e38\n");
    assert_int_equal(c.values.dtype, SPARTA_F32);
    assert_memory_equal(c.values.data, ((float[]){.1f, -INFINITY, 3.4028235e38f}), 12);
    sp_coo_free(&c);
    refuse(MM "array real general\n%%GraphBLAS type float\n1 1\n-1e39\n",
           "line 4: the value -9.9999999999999994e+38 does not fit in float");
    c = parse(MM "coordinate integer skew-symmetric\n%%GraphBLAS type double\n2 2 1\n2 1 7\n");
    assert_memory_equal(c.values.data, ((double[]){-7, 7}), 16);
    sp_coo_free(&c);
    c = parse(MM "coordinate complex general\n%%GraphBLAS type float complex\n1 1 1\n1 1 .5 0\n");
    assert_true(c.values.dtype == SPARTA_F32 && *(float *)c.values.data == .5f);
    sp_coo_free(&c);
    c = parse(MM "coordinate pattern symmetric\n%%GraphBLAS type bool\n2 2 1\n2 1\n"); /* still a pattern */
    assert_true(c.n == 2 && !c.values.data);
    sp_coo_free(&c);
    /* comments on other things, and after the sizes, are comments */
    c = parse(MM "array integer general\n%%GraphBLAS comment\n1 1\n%%GraphBLAS type bool\n300\n");
    assert_true(c.values.dtype == SPARTA_I64 && *(int64_t *)c.values.data == 300);
    sp_coo_free(&c);
    refuse(MM "coordinate integer general\n%%GraphBLAS type uint8_t\n2 2 2\n2 2 255\n2 2 1\n",
           "element (1, 1): the sum of duplicate entries");
}

static void test_array(void **state)
{
    (void)state;
    sp_coo c = parse(MM "array real general\n2 3\n1\n2\n%c\n3\n4\n\n5\n6");
    assert_true(c.dense && c.n == 6 && !c.index[0]);
    assert_memory_equal(c.values.data, ((double[]){1, 3, 5, 2, 4, 6}), 48);
    sp_coo_free(&c);
    c = parse(MM "array integer symmetric\n3 3\n1\n2\n3\n4\n5\n6\n");
    assert_memory_equal(c.values.data, ((int64_t[]){1, 2, 3, 2, 4, 5, 3, 5, 6}), 72);
    sp_coo_free(&c);
    c = parse(MM "array real skew-symmetric\n3 3\n1\n2\n3\n");
    assert_memory_equal(((double *)c.values.data) + 1, ((double[]){-1, -2}), 16);
    assert_memory_equal(((double *)c.values.data) + 6, ((double[]){2, 3}), 16);
    sp_coo_free(&c);
    c = parse(MM "array real general\n0 5\n");
    assert_true(c.dense && c.n == 0);
    sp_coo_free(&c);
}

static void test_duplicates(void **state)
{
    (void)state;
    sp_coo c = parse(MM "coordinate real general\n2 2 5\n2 2 1\n1 1 .5\n2 2 2\n1 1 .25\n2 2 4\n");
    entries(&c, 2, (int64_t[]){0, 1}, (int64_t[]){0, 1});
    assert_memory_equal(c.values.data, ((double[]){.75, 7}), 16);
    assert_int_equal(c.values.dim[0], 2);
    sp_coo_free(&c);
    c = parse(MM "coordinate pattern general\n2 2 3\n2 2\n1 1\n2 2\n");
    assert_int_equal(c.n, 2);
    sp_coo_free(&c);
    const char *big = MM "coordinate integer general\n2 2 2\n2 2 9223372036854775807\n2 2 1\n";
    assert_int_equal(sp_mtx_parse(cx, big, strlen(big), &c), SPARTA_E_RANGE);
    assert_non_null(strstr(sparta_message(cx), "element (1, 1): the sum of duplicate entries"));
}

/* Every integer type sums exactly or refuses. */
static void test_sums(void **state)
{
    (void)state;
    for (int d = 0; d < SP_DTYPES; d++) {
        sparta_dtype t = (sparta_dtype)d;
        for (int big = 0; big < 2; big++) {
            sp_coo c;
            assert_int_equal(sp_coo_alloc(cx, 1, (int64_t[]){4}, 2, &t, &c), SPARTA_OK);
            c.index[0][0] = c.index[0][1] = 3;
            bool real = sp_dtype_is_float(t), boolean = t == SPARTA_BOOL;
            const int64_t one = 1, two = boolean ? 1 : t == SPARTA_I2 ? -2 : 2; /* i2 ends at 1 */
            const int bits = sp_dtype_bits(t) - sp_dtype_is_signed(t);
            if (real || !big || boolean) {
                sp_element_set_int(t, c.values.data, 0, two), sp_element_set_int(t, c.values.data, 1, one);
                assert_int_equal(sp_coo_canonical(&c), SPARTA_OK);
                assert_true(c.n == 1 && sp_element_get_int(t, c.values.data, 0) == (boolean ? 1 : two + one));
            } else {
                /* the largest: all bits but the sign */
                sp_element_set_int(t, c.values.data, 0, (int64_t)(UINT64_MAX >> (64 - bits)));
                sp_element_set_int(t, c.values.data, 1, one);
                assert_int_equal(sp_coo_canonical(&c), SPARTA_E_RANGE);
                assert_int_equal(c.n, 2);
            }
            sp_coo_free(&c);
        }
    }
}

/* Many entries in any order, with far indices, against qsort. */
static int by_index(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    for (int d = 0; d < 3; d++)
        if (x[d] != y[d]) return x[d] < y[d] ? -1 : 1;
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    enum { N = 5000 };
    static const int64_t dims[][3] = {
        {7, 9, 3}, {1, 100000, 1}, {INT64_MAX, 5, INT64_C(1) << 40}, {3000, 3000, 3000}};
    static int64_t plain[N][4];
    sp_rng rng = sp_rng_seed(3);
    for (size_t k = 0; k < SP_COUNT(dims); k++) {
        sp_coo c;
        int64_t n = 0;
        sparta_dtype t = SPARTA_I64;
        assert_int_equal(sp_coo_alloc(cx, 3, dims[k], N, &t, &c), SPARTA_OK);
        for (int64_t i = 0; i < N; i++) {
            for (int d = 0; d < 3; d++)
                plain[i][d] = c.index[d][i] = (int64_t)(sp_rng_next(&rng) >> 1) % dims[k][d];
            plain[i][3] = ((int64_t *)c.values.data)[i] = (int64_t)(sp_rng_next(&rng) >> 40);
        }
        qsort(plain, N, sizeof plain[0], by_index);
        assert_int_equal(sp_coo_canonical(&c), SPARTA_OK);
        for (int64_t i = 0; i < N; n++) {
            int64_t sum = 0, first = i;
            for (; i < N && !by_index(plain[first], plain[i]); i++) sum += plain[i][3];
            assert_true(n < c.n);
            for (int d = 0; d < 3; d++) assert_int_equal(c.index[d][n], plain[first][d]);
            assert_int_equal(((int64_t *)c.values.data)[n], sum);
        }
        assert_int_equal(c.n, n);
        c.index[1][n / 2] = dims[k][1];
        assert_int_equal(sp_coo_canonical(&c), SPARTA_E_RANGE);
        sp_coo_free(&c);
    }
}

/* ------------------------------------------------------------------ what is refused */

static const struct {
    sparta_status status;
    const char *text, *says;
} refused[] = {
    {SPARTA_E_FORMAT, "", "line 1: a Matrix Market file begins with %%MatrixMarket"},
    {SPARTA_E_FORMAT, "\n" MM "coordinate real general\n1 1 0\n", "line 2: a Matrix Market file begins with"},
    {SPARTA_E_FORMAT, "% c\n%%MatrixMarket\n1 1 0\n", "line 2: a Matrix Market file begins with"},
    {SPARTA_E_FORMAT, "%%MatrixMarkt matrix coordinate real symmetric\n1 1 0\n",
     "line 1: a Matrix Market file"},
    {SPARTA_E_FORMAT, "%%Matrix\n1 1 0\n", "line 1: a Matrix Market file begins with"},
    {SPARTA_E_FORMAT, "%MatrixMarkt matrix coordinate real symmetric\n1 1 0\n",
     "line 1: a Matrix Market file"},
    {SPARTA_E_FORMAT, "%\n% a matrix array real symmetric\n1 1 0\n", "line 2: a Matrix Market file"},
    {SPARTA_E_FORMAT, "MatrixMarket matrix array real general\n1 1\n1\n", "line 1: a Matrix Market file"},
    {SPARTA_E_FORMAT, "\xef\xbb\xbf" MM "array real general\n1 1\n1\n", "line 1: a Matrix Market file"},
    {SPARTA_E_FORMAT, "-1 1\n1\n", "line 1: a Matrix Market file"},
    {SPARTA_E_FORMAT, "% c\n\n", "line 2: the file ends before the line of sizes"},
    {SPARTA_E_FORMAT, "% c\n3\n1\n", "line 2: the number of columns is missing"},
    {SPARTA_E_FORMAT, "1 1 1 1\n1 1 1\n", "line 1: '1' follows"},
    {SPARTA_E_FORMAT, "2 2 1\n1 1\n", "line 2: the value is missing; a pattern begins with %%MatrixMarket"},
    {SPARTA_E_FORMAT, "2 2\n1\n2\n3\n", "line 4: the file ends after 3 of 4 entries"},
    {SPARTA_E_FORMAT, "9 9 9000000000000000000\n1 1 1\n", "line 1: 9000000000000000000 entries are promised"},
    {SPARTA_E_RANGE, "4294967296 4294967296\n1\n", "line 1: 4294967296 x 4294967296"},
    {SPARTA_E_FORMAT, MM "array real general\n%%GraphBLAS type gunk\n1 1\n1\n",
     "line 2: unknown type 'gunk'"},
    {SPARTA_E_FORMAT, MM "array real general\n%%GraphBLAS type\n1 1\n1\n", "line 2: unknown type ''"},
    {SPARTA_E_FORMAT, MM "array real general\n%%GraphBLAS type int8_t x\n1 1\n1\n", "line 2: 'x' follows"},
    {SPARTA_E_FORMAT, MM "array real general\n%\n%%GraphBLAS type int complex\n1 1\n1\n",
     "line 3: unknown type 'int'"},
    {SPARTA_E_FORMAT, MM "array real general\n%%GraphBLAS type bool\n%%GraphBLAS type float\n1 1\n1\n",
     "line 3: the type is float here and bool above"},
    {SPARTA_E_UNSUPPORTED, MM "array real general\n%%GraphBLAS type float complex\n1 1\n1\n",
     "line 3: the type above is float complex"},
    {SPARTA_E_UNSUPPORTED, MM "coordinate pattern general\n%%GraphBLAS GxB_FC64\n1 1 0\n",
     "line 3: the type above is double complex"},
    {SPARTA_E_UNSUPPORTED, MM "array complex general\n%%GraphBLAS type float complex\n1 1\n1 1\n",
     "line 4: the imaginary part is 1"},
    {SPARTA_E_FORMAT, MM "array integer skew-symmetric\n%%GraphBLAS type uint8_t\n2 2\n0\n",
     "line 3: the type above is uint8_t, which has no sign"},
    {SPARTA_E_FORMAT, MM "array integer skew-symmetric\n%%GraphBLAS type bool\n2 2\n0\n",
     "line 3: the type above is bool, which has no sign"},
    {SPARTA_E_RANGE, MM "array integer skew-symmetric\n%%GraphBLAS type int8_t\n2 2\n-128\n",
     "line 4: the negative of the value, 128 does not fit in int8_t"},
    {SPARTA_E_FORMAT, MM "array integer general\n%%GraphBLAS type float\n1 1\n1.5\n",
     "line 4: the value '1.5' is no integer"},
    {SPARTA_E_FORMAT, "%%MatrixMarket\n", "line 1: the object is missing"},
    {SPARTA_E_FORMAT, "%%MatrixMarket graph coordinate real general\n1 1 0\n",
     "line 1: unknown object 'graph'"},
    {SPARTA_E_UNSUPPORTED, "%%MatrixMarket vector array real general\n1\n", "line 1: vectors"},
    {SPARTA_E_FORMAT, MM "sparse real general\n1 1 0\n", "line 1: unknown format 'sparse'"},
    {SPARTA_E_FORMAT, MM "coordinate float general\n1 1 0\n", "line 1: unknown field 'float'"},
    {SPARTA_E_FORMAT, MM "coordinate real diagonal\n1 1 0\n", "line 1: unknown symmetry 'diagonal'"},
    {SPARTA_E_FORMAT, MM "coordinate real\n1 1 0\n", "line 1: the symmetry is missing"},
    {SPARTA_E_FORMAT, MM "coordinate real general x\n1 1 0\n", "line 1: 'x' follows"},
    {SPARTA_E_UNSUPPORTED, MM "coordinate complex general\n1 1 1\n1 1 1 -2.5\n",
     "line 3: the imaginary part is -2.5, and sparta has no complex numbers"},
    {SPARTA_E_UNSUPPORTED, MM "array complex hermitian\n1 1\n1 1\n", "line 3: the imaginary part is 1"},
    {SPARTA_E_UNSUPPORTED, MM "coordinate complex general\n1 1 1\n1 1 1 nan\n",
     "line 3: the imaginary part is nan"},
    {SPARTA_E_FORMAT, MM "coordinate complex general\n1 1 1\n1 1 1\n", "line 3: the imaginary part"},
    {SPARTA_E_FORMAT, MM "array complex general\n1 1\n1 0 0\n", "line 3"},
    {SPARTA_E_FORMAT, MM "coordinate real hermitian\n1 1 1\n1 1 1\n", "line 1: hermitian"},
    {SPARTA_E_FORMAT, MM "coordinate pattern skew-symmetric\n1 1 0\n", "line 1: a pattern has no sign"},
    {SPARTA_E_FORMAT, MM "array pattern general\n1 1\n", "line 1: an array of pattern"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n% only\n",
     "line 2: the file ends before the line of sizes"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n%\n3\n1 1\n", "line 3: the number of columns is missing"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n1 1\n", "line 2: the number of entries is missing"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n1 1 0 0\n", "line 2: '0' follows"},
    {SPARTA_E_FORMAT, MM "array real general\n1 1 1\n1\n", "line 2: '1' follows"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n-1 1 0\n", "line 2: the number of rows -1 is negative"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n1.0 1 0\n",
     "line 2: the number of rows '1.0' is no integer"},
    {SPARTA_E_RANGE, MM "coordinate real general\n1 9223372036854775808 0\n",
     "line 2: the number of columns '9223372036854775808' does not fit"},
    {SPARTA_E_FORMAT, MM "coordinate real symmetric\n2 3 0\n",
     "line 2: a symmetric matrix of 2 rows and 3 columns"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n9 9 9000000000000000000\n1 1 1\n",
     "line 2: 9000000000000000000 entries are promised"},
    {SPARTA_E_RANGE, MM "array real general\n4294967296 4294967296\n", "line 2: 4294967296 x 4294967296"},
    {SPARTA_E_RANGE, MM "array real symmetric\n4294967296 4294967296\n", "line 2: "},
    {SPARTA_E_FORMAT, MM "array real general\n100000 100000\n1\n",
     "line 2: 10000000000 entries are promised"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n2 2 2\n1 1 1\n",
     "line 3: the file ends after 1 of 2 entries"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n2 2 1\n1 1 1\n\n2 2 2\n",
     "line 5: more than the 1 entries"},
    {SPARTA_E_FORMAT, MM "array real general\n2 1\n1\n2\n3\n", "line 5: more than the 2 entries"},
    {SPARTA_E_FORMAT, MM "array real general\n2 1\n1\n%\n", "line 4: the file ends after 1 of 2 entries"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n2 2 1\n1 1\n   ", "line 3: the value is missing"},
    {SPARTA_E_FORMAT, MM "coordinate pattern general\n2 2 1\n1 1 1\n", "line 3: '1' follows"},
    {SPARTA_E_RANGE, MM "coordinate real general\n2 2 1\n0 1 1\n",
     "line 3: the row 0 is not between 1 and 2"},
    {SPARTA_E_RANGE, MM "coordinate real general\n2 2 1\n3 1 1\n", "line 3: the row 3"},
    {SPARTA_E_RANGE, MM "coordinate real general\n2 2 1\n1 -1 1\n", "line 3: the column -1"},
    {SPARTA_E_RANGE, MM "coordinate real general\n0 2 1\n1 1 1\n",
     "line 3: the row 1 is not between 1 and 0"},
    {SPARTA_E_RANGE, MM "coordinate real general\n2 2 1\n1 1 1e400\n",
     "line 3: the value '1e400' does not fit in a double"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n2 2 1\n1 1 0x1p3\n",
     "line 3: the value '0x1p3' is no number"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n2 2 1\n1 1 1,5\n", "line 3: the value '1,5' is no number"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n2 2 1\n1 1 1e\n", "line 3: the value '1e' is no number"},
    {SPARTA_E_FORMAT, MM "coordinate real general\n2 2 1\n1 1 .\n", "line 3: the value '.' is no number"},
    {SPARTA_E_FORMAT, MM "coordinate integer general\n2 2 1\n1 1 1.0\n",
     "line 3: the value '1.0' is no integer"},
    {SPARTA_E_FORMAT, MM "coordinate integer general\n2 2 1\n1 1 -\n\n",
     "line 3: the value '-' is no integer"},
    {SPARTA_E_RANGE, MM "coordinate integer general\n2 2 1\n1 1 99999999999999999999\n",
     "line 3: the value '99999999999999999999' does not"},
    {SPARTA_E_FORMAT, MM "coordinate real symmetric\n3 3 2\n2 1 1\n1 3 1\n",
     "line 4: the entry (1, 3) is above"},
    {SPARTA_E_FORMAT, MM "coordinate real skew-symmetric\n3 3 1\n2 2 1\n", "line 3: the diagonal"},
    {SPARTA_E_RANGE, MM "coordinate integer skew-symmetric\n2 2 1\n2 1 -9223372036854775808\n",
     "line 3: the negative"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(refused); i++) {
        sp_coo c = {.n = 77};
        size_t n = strlen(refused[i].text);
        char *exact = malloc(n ? n : 1); /* not terminated */
        memcpy(exact, refused[i].text, n);
        sparta_status status = sp_mtx_parse(cx, exact, n, &c);
        if (status != refused[i].status || !strstr(sparta_message(cx), refused[i].says))
            fail_msg("%s: status %d, \"%s\" does not say \"%s\"", refused[i].text, status, sparta_message(cx),
                     refused[i].says);
        assert_int_equal(c.n, 77);
        assert_int_equal(sp_ctx_memory(cx), 0);
        free(exact);
    }
    const char nul[] = MM "coordinate real general\n1 1 1\n1 1 1\0\n";
    sp_coo c;
    assert_int_equal(sp_mtx_parse(cx, nul, sizeof nul - 1, &c), SPARTA_E_FORMAT);
}

/* A text cut anywhere gives an error, or (at a line's end of the value) what a shorter number says: never more entries. */
static void test_truncated(void **state)
{
    (void)state;
    const char *text = MM "coordinate integer symmetric\n% c\n12 12 3\n10 1 7\n11 2 8\n12 12 9\n";
    size_t n = strlen(text), read = 0;
    for (size_t k = 0; k < n; k++) {
        sp_coo c;
        char *cut = malloc(k ? k : 1);
        memcpy(cut, text, k);
        if (sp_mtx_parse(cx, cut, k, &c) == SPARTA_OK) {
            read++;
            sp_coo_free(&c);
        } else
            assert_non_null(strstr(sparta_message(cx), "line "));
        free(cut);
    }
    assert_int_equal(read, 1); /* without the last newline */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coordinate), cmocka_unit_test(test_symmetric),
        cmocka_unit_test(test_complex),    cmocka_unit_test(test_no_first_line),
        cmocka_unit_test(test_types),      cmocka_unit_test(test_types_real),
        cmocka_unit_test(test_array),      cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_sums),       cmocka_unit_test(test_order),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_truncated)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
