/* Packed tensors in files: the names and types of their arrays, what comes back, and every way a file can be wrong. */
#include <sys/stat.h>
#include <unistd.h>
#include "format_bed.h"

static char path[64];

static int set_up_file(void **state)
{
    snprintf(path, sizeof path, "/tmp/sparta-format-file-%ld.npz", (long)getpid());
    return set_up_strict(state);
}

static int tear_down_file(void **state)
{
    unlink(path);
    return tear_down(state);
}

/* ------------------------------------------------------------------ what is written */

static void expect_names(const char *text, const sparta_tensor *t, const char *want)
{
    sp_packed p = pack(text, t, NULL);
    sp_npz z;
    char got[1000] = "";
    OK(sp_store_write(cx, path, &p));
    OK(sp_npz_read(cx, path, &z));
    for (int i = 0; i < z.n; i++) {
        const sparta_tensor *a = &z.entry[i].tensor;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s %s %lld", z.entry[i].name,
                 sparta_dtype_name(a->dtype), (long long)a->dim[0]);
        if (a->rank == 2)
            snprintf(got + strlen(got), sizeof got - strlen(got), "x%lld", (long long)a->dim[1]);
        snprintf(got + strlen(got), sizeof got - strlen(got), "; ");
    }
    assert_true(sp_store_is_packed(&z));
    char *format = strstr(got, "; "); /* its length does not matter here */
    if (strcmp(format, want)) fail_msg("%s:\n  %s, wanted\n  %s", text, format, want);
    sp_npz_free(&z);
    sp_packed_free(cx, &p);
}

static void names(void **state)
{
    (void)state;
    float w[8] = {1, 0, 0, 2, 0, 0, 3, 0};
    sparta_tensor t = {SPARTA_F32, 2, {2, 4}, {4, 1}, w, 0};
    expect_names("csr, crd=u16", &t,
                 "; shape i64 2; sparta u8 1; p0_l1_pos i32 3; p0_l1_crd u16 3; p0_values f32 3; ");
    expect_names("bitmap, pos=u8", &t,
                 "; shape i64 2; sparta u8 1; p0_l1_pos u8 3; p0_l1_bits u8 2; p0_values f32 3; ");
    expect_names("dense", &t, "; shape i64 2; sparta u8 1; p0_values f32 8; ");
    expect_names("(i,j)->(i:compressed(nonunique), j:singleton(aos))", &t,
                 "; shape i64 2; sparta u8 1; p0_l0_pos i32 2; p0_l0_crd i32 3x2; p0_values f32 3; ");
    expect_names("nm24", &t, "; shape i64 2; sparta u8 1; p0_l2_crd u8 2; p0_values f32 4; ");
    expect_names("(i,j)->(i:dense, j:loose)", &t,
                 "; shape i64 2; sparta u8 1; p0_l1_pos i32 4; p0_l1_crd i32 3; p0_values f32 3; ");
    expect_names("sum{rownnz<=1 -> csr; rest -> coo}", &t,
                 "; shape i64 2; sparta u8 1; p0_l1_pos i32 3; p0_l1_crd i32 1; p0_values f32 1; "
                 "p1_l0_pos i32 2; p1_l0_crd i32 2; p1_l1_crd i32 2; p1_values f32 2; ");
    expect_names("quads", &t,
                 "; shape i64 2; sparta u8 1; p0_counts u16 16; p0_index u16 3; p0_values f32 3; ");
    expect_names("groups", &t,
                 "; shape i64 2; sparta u8 1; p0_pos i32 2; p0_index u16 4; p0_values f32 16; ");
}

static void random_files(void **state)
{
    (void)state;
    static drawn d;
    static char text[FORMAT_DRAWN];
    sp_rng r = sp_rng_seed(41);
    int64_t pos[2];
    int files = 0, patterns = 0;
    for (int n = 0; n < 600; n++) {
        int rank = 1 + (int)roll(&r, 4);
        draw_tensor(&r, (sparta_dtype)(n % SP_DTYPES), rank, 1 + roll(&r, 6), &d);
        format_draw(&r, rank, true, text, sizeof text);
        if (rank == 2 && roll(&r, 8) == 0) strcpy(text, roll(&r, 2) ? "quads(4)" : "groups");
        sp_format f = parse(text);
        sp_packed dense = sp_store_of_dense(&d.t), p;
        sp_coo c;
        OK(sp_store_to_coo(cx, &dense, &c));
        bool pattern = roll(&r, 4) == 0;
        if (pattern) {
            sp_free(cx, c.values.data);
            c.values = (sparta_tensor){0};
        }
        sp_packed view = sp_store_of_coo(&c, pos);
        if (sp_store_convert(cx, &view, &f, NULL, &p)) {
            sp_coo_free(&c);
            continue;
        }
        sp_store_file file;
        if (!pattern && sp_dtype_bits(d.t.dtype) < 8) { /* NumPy would not tell i4 from u4 */
            assert_int_equal(sp_store_write(cx, path, &p), SPARTA_E_UNSUPPORTED);
            sp_packed_free(cx, &p);
            sp_coo_free(&c);
            continue;
        }
        OK(sp_store_write(cx, path, &p));
        if (sp_store_read(cx, path, &file)) fail_msg("%s: %s", text, sparta_message(cx));
        assert_int_equal(file.packed.pattern, pattern); /* also where it has bools */
        if (!same_packed(&file.packed, &p)) fail_msg("%s: read is not what was written", text);
        sp_coo back;
        OK(sp_store_to_coo(cx, &file.packed, &back));
        assert_int_equal(back.n, c.n);
        for (int k = 0; k < rank; k++)
            assert_memory_equal(back.index[k], c.index[k], (size_t)c.n * sizeof(int64_t));
        files++, patterns += pattern;
        sp_coo_free(&back), sp_coo_free(&c);
        sp_store_file_free(cx, &file);
        sp_packed_free(cx, &p);
    }
    assert_true(files > 450 && patterns > 80);
}

/* ------------------------------------------------------------------ what is refused */

#define MOST 16
typedef struct {
    int n;
    char name[MOST][24];
    sparta_tensor tensor[MOST];
} arrays;

static void put(arrays *a, const char *name, sparta_tensor t)
{
    snprintf(a->name[a->n], sizeof a->name[0], "%s", name);
    a->tensor[a->n++] = t;
}

static sparta_tensor row_of(sparta_dtype dtype, int64_t n, const void *data)
{
    return sparta_tensor_view(dtype, 1, &n, (void *)data);
}

static void remove_array(arrays *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (!strcmp(a->name[i], name)) {
            memmove(&a->name[i], &a->name[i + 1], sizeof a->name[0] * (size_t)(a->n - i - 1));
            memmove(&a->tensor[i], &a->tensor[i + 1], sizeof a->tensor[0] * (size_t)(a->n - i - 1));
            a->n--;
            return;
        }
    fail_msg("no array %s", name);
}

static sparta_tensor *find_array(arrays *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (!strcmp(a->name[i], name)) return &a->tensor[i];
    fail_msg("no array %s", name);
    return NULL;
}

static void expect_refused(const arrays *a, const char *message)
{
    const char *name[MOST];
    sp_store_file file = {.packed.rank = 77};
    size_t before = sp_ctx_memory(cx);
    for (int i = 0; i < a->n; i++) name[i] = a->name[i];
    OK(sp_npz_write(cx, path, a->n, name, a->tensor));
    sparta_status status = sp_store_read(cx, path, &file);
    char want[600];
    snprintf(want, sizeof want, "%s: %s", path, message);
    expect_message(status, SPARTA_E_FORMAT, want);
    assert_true(file.packed.rank == 77 && sp_ctx_memory(cx) == before);
}

static const int32_t pos[] = {0, 2, 3}, crd[] = {0, 3, 2};
static const float values[] = {1, 2, 3};
static const int64_t shape[] = {2, 4};
static const uint8_t version[] = {1};

static arrays csr_file(const char *text)
{
    arrays a = {0};
    put(&a, "format", row_of(SPARTA_U8, (int64_t)strlen(text), text));
    put(&a, "shape", row_of(SPARTA_I64, 2, shape));
    put(&a, "sparta", row_of(SPARTA_U8, 1, version));
    put(&a, "p0_l1_pos", row_of(SPARTA_I32, 3, pos));
    put(&a, "p0_l1_crd", row_of(SPARTA_I32, 3, crd));
    put(&a, "p0_values", row_of(SPARTA_F32, 3, values));
    return a;
}

static void hostile(void **state)
{
    (void)state;
#define BREAK(message, change)                                                                               \
    do {                                                                                                     \
        arrays a = csr_file("csr");                                                                          \
        change;                                                                                              \
        expect_refused(&a, message);                                                                         \
    } while (0)
    static const uint8_t two[] = {2}, pattern[] = {1, 1};
    static const int64_t huge[] = {INT64_C(1) << 40, 4}, negative[] = {2, -4}, nine[9] = {1};
    static const int64_t absurd[] = {INT64_MAX, INT64_MAX};
    static const int32_t far[] = {0, 9, 2};
    BREAK("is no packed tensor of ours (no mark)", remove_array(&a, "sparta"));
    BREAK("is a packed tensor of version 2", find_array(&a, "sparta")->data = (void *)two);
    BREAK("is no packed tensor of ours (no mark)", find_array(&a, "sparta")->dtype = SPARTA_I8);
    BREAK("packed: a pattern in this format has no values",
          *find_array(&a, "sparta") = row_of(SPARTA_U8, 2, pattern));
    BREAK("the array format is no text", remove_array(&a, "format"));
    BREAK("the array format is no text", find_array(&a, "format")->dtype = SPARTA_I8);
    BREAK("the array format is no text", find_array(&a, "format")->dim[0] = 0);
    BREAK("the array format is no text", *find_array(&a, "format") = row_of(SPARTA_U8, 5, "csr\0x"));
    BREAK("format:1:1: unknown format 'cs'", find_array(&a, "format")->dim[0] = 2);
    BREAK("the array shape is no row of 1 to 8 sizes (i64)", remove_array(&a, "shape"));
    BREAK("the array shape is no row", *find_array(&a, "shape") = row_of(SPARTA_I64, 9, nine));
    BREAK("the array shape is no row", *find_array(&a, "shape") = row_of(SPARTA_U64, 2, shape));
    BREAK("packed: format: dimension j is -4", find_array(&a, "shape")->data = (void *)negative);
    BREAK("packed: level 1: pos has 3 entries", find_array(&a, "shape")->data = (void *)huge);
    BREAK("packed: format: crd=i32 holds", find_array(&a, "shape")->data = (void *)absurd);
    BREAK("packed: format: 2 dimensions but the tensor has 1", find_array(&a, "shape")->dim[0] = 1);
    BREAK("the array p0_l1_pos is missing", remove_array(&a, "p0_l1_pos"));
    BREAK("the array p0_l1_crd is missing", remove_array(&a, "p0_l1_crd"));
    BREAK("packed: crd of level 1 are u32, the format says i32",
          find_array(&a, "p0_l1_crd")->dtype = SPARTA_U32);
    BREAK("packed: level 1: pos has 2 entries", find_array(&a, "p0_l1_pos")->dim[0] = 2);
    BREAK("packed: level 1: crd[1] is 9", find_array(&a, "p0_l1_crd")->data = (void *)far);
    BREAK("packed: 2 values, the levels have 3", find_array(&a, "p0_values")->dim[0] = 2);
    BREAK("packed: values are no contiguous array", find_array(&a, "p0_values")->rank = 0);
    BREAK("the array p0_l0_pos is none that the format has",
          put(&a, "p0_l0_pos", row_of(SPARTA_I32, 3, pos)));
    BREAK("the array p1_values is none that the format has",
          put(&a, "p1_values", row_of(SPARTA_F32, 3, values)));
    BREAK("the array p0_l1_bits is none", put(&a, "p0_l1_bits", row_of(SPARTA_U8, 1, version)));
#undef BREAK
    arrays a = csr_file("csr"); /* names that are not ours are no business of ours */
    const char *name[MOST];
    put(&a, "note", row_of(SPARTA_U8, 1, version)), put(&a, "padding", row_of(SPARTA_U8, 1, version));
    for (int i = 0; i < a.n; i++) name[i] = a.name[i];
    OK(sp_npz_write(cx, path, a.n, name, a.tensor));
    sp_store_file file;
    OK(sp_store_read(cx, path, &file));
    expect_packed(&file.packed, "pos1 0 2 3; crd1 0 3 2; values 1 2 3; ");
    sp_store_file_free(cx, &file);
    parse("sum{rownnz<=1 -> csr; rest -> csr}"); /* the context keeps it */
    a = csr_file("sum{rownnz<=1 -> csr; rest -> csr}");
    expect_refused(&a, "the array p1_l1_pos is missing");
    put(&a, "p1_l1_pos", row_of(SPARTA_I32, 3, pos)), put(&a, "p1_l1_crd", row_of(SPARTA_I32, 3, crd));
    expect_refused(&a, "part 0: packed: a pattern in this format has no values");
    put(&a, "p1_values", row_of(SPARTA_F64, 1, shape));
    expect_refused(&a, "part 1: packed: values are f64, the format says f32");
}

static char *read_bytes(size_t *n)
{
    char *bytes;
    OK(sp_file_read(cx, path, 1 << 20, &bytes, n));
    return bytes;
}

/* The writer gives no name twice: rename an array in the bytes of the file. */
static void names_twice(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"p0_valueX", "p0_values"}, {"shapX", "shape"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        arrays a = csr_file("csr");
        const char *name[MOST];
        put(&a, cases[i][0], row_of(SPARTA_F32, 3, values));
        for (int k = 0; k < a.n; k++) name[k] = a.name[k];
        OK(sp_npz_write(cx, path, a.n, name, a.tensor));
        size_t n, length = strlen(cases[i][0]);
        char *bytes = read_bytes(&n);
        for (size_t at = 0; at + length <= n; at++)
            if (!memcmp(bytes + at, cases[i][0], length)) memcpy(bytes + at, cases[i][1], length);
        OK(sp_file_write(cx, path, bytes, n));
        sp_free(cx, bytes);
        sp_store_file file;
        char want[200];
        snprintf(want, sizeof want, "%s: npz: two arrays are named \"%s\"", path, cases[i][1]);
        expect_message(sp_store_read(cx, path, &file), SPARTA_E_FORMAT, want);
    }
}

/* Any truncation, and any flipped bit, is refused or reads as a tensor that verifies. */
static void truncated(void **state)
{
    (void)state;
    static const char *const texts[] = {"csr", "sum{rownnz<=1 -> csr; rest -> coo}", "quads", "groups",
                                        "dia"};
    float w[8] = {1, 0, 0, 2, 0, 0, 3, 0};
    sparta_tensor t = {SPARTA_F32, 2, {2, 4}, {4, 1}, w, 0};
    sp_rng r = sp_rng_seed(42);
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_packed p = pack(texts[i], &t, NULL);
        sp_store_file file;
        size_t n, step = i ? 7 : 1;
        OK(sp_store_write(cx, path, &p));
        char *bytes = read_bytes(&n);
        for (size_t cut = 0; cut < n; cut += step) {
            OK(sp_file_write(cx, path, bytes, cut));
            assert_int_equal(sp_store_read(cx, path, &file), SPARTA_E_FORMAT);
        }
        for (int flip = 0; flip < 300; flip++) {
            size_t at = roll(&r, (unsigned)n);
            bytes[at] ^= (char)(1 << flip % 8);
            OK(sp_file_write(cx, path, bytes, n));
            if (!sp_store_read(cx, path, &file)) {
                OK(sp_packed_verify(cx, &file.packed));
                sp_store_file_free(cx, &file);
            }
            bytes[at] ^= (char)(1 << flip % 8);
        }
        sp_free(cx, bytes);
        sp_packed_free(cx, &p);
    }
}

static void what_cannot_be_written(void **state)
{
    (void)state;
    float w[8] = {1, 0, 0, 2, 0, 0, 3, 0};
    sparta_tensor t = {SPARTA_F32, 2, {2, 4}, {4, 1}, w, 0};
    sp_packed p = pack("csr", &t, NULL);
    unlink(path);
    assert_int_equal(sp_store_write(cx, "/nowhere/at/all.npz", &p), SPARTA_E_IO);
    ((int32_t *)p.crd[1].data)[0] = 99;
    assert_int_equal(sp_store_write(cx, path, &p), SPARTA_E_FORMAT);
    struct stat st;
    assert_int_equal(stat(path, &st), -1); /* nothing was begun */
    sp_packed_free(cx, &p);
    sp_store_file file;
    assert_int_equal(sp_store_read(cx, path, &file), SPARTA_E_IO);
    sp_store_file_free(cx, NULL);
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {"csr", "sum{rownnz<=1 -> csr; rest -> quads}"};
    float w[8] = {1, 0, 0, 2, 0, 0, 3, 0};
    sparta_tensor t = {SPARTA_F32, 2, {2, 4}, {4, 1}, w, 0};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_packed p = pack(texts[i], &t, NULL);
        for (uint64_t nth = 1;; nth++) {
            sp_store_file file;
            size_t before = sp_ctx_memory(cx);
            assert_true(nth < 500);
            sp_ctx_fail_alloc(cx, nth, false);
            sparta_status status = sp_store_write(cx, path, &p);
            if (!status) status = sp_store_read(cx, path, &file);
            sp_ctx_fail_alloc(cx, 0, false);
            if (!status) sp_store_file_free(cx, &file);
            assert_int_equal(sp_ctx_memory(cx), before);
            if (!status) {
                assert_true(nth > 10);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
        }
        sp_packed_free(cx, &p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),        cmocka_unit_test(random_files),
        cmocka_unit_test(hostile),      cmocka_unit_test(names_twice),
        cmocka_unit_test(truncated),    cmocka_unit_test(what_cannot_be_written),
        cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up_file, tear_down_file);
}
