/* file: safetensors, the reference writer's bytes and every rule of the format broken once. */
#include "bed.h"
#include "arrays/arrays.h"

#define REFERENCE "tests/fuzz/corpus/fuzz_safetensors/reference.safetensors"

static const sparta_tensor *find(const sp_safetensors *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->entry[i].name, name)) return &s->entry[i].tensor;
    return NULL;
}

#define PATH in_root("safetensors")

/* A file of this header and n bytes of data, 1 2 3 ... */
static uint8_t store[4096] __attribute__((aligned(64)));
static uint8_t *make(const char *header, size_t n, size_t *size)
{
    size_t k = strlen(header);
    for (int i = 0; i < 8; i++) store[i] = (uint8_t)(k >> (8 * i));
    memcpy(store + 8, header, k);
    for (size_t i = 0; i < n; i++) store[8 + k + i] = (uint8_t)(i + 1);
    *size = 8 + k + n;
    return store;
}

static void accepts(const char *header, size_t n, int tensors)
{
    size_t size;
    sp_safetensors s;
    uint8_t *bytes = make(header, n, &size);
    sparta_status status = sp_safetensors_parse(cx, bytes, size, &s);
    if (status) fail_msg("%s: %s", header, sparta_message(cx));
    assert_int_equal(s.n, tensors);
    sp_safetensors_close(&s);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

static void refuses(sparta_status expected, const char *header, size_t n, const char *says)
{
    size_t size;
    sp_safetensors s = {.n = 77};
    uint8_t *bytes = make(header, n, &size);
    sparta_status status = sp_safetensors_parse(cx, bytes, size, &s);
    if (status != expected || !strstr(sparta_message(cx), says))
        fail_msg("%s: status %d, \"%s\" does not say \"%s\"", header, status, sparta_message(cx), says);
    assert_int_equal(s.n, 77); /* untouched */
    assert_int_equal(sp_ctx_memory(cx), 0);
}

#define T(dtype, shape, from, to)                                                                            \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void test_accepted(void **state)
{
    (void)state;
    accepts("{}", 0, 0);
    accepts("{}    ", 0, 0);
    accepts("{\"__metadata__\":{}}", 0, 0);
    accepts("{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 3 ] , \"data_offsets\" : [ 0 , 3 ] } } \n", 3, 1);
    accepts("{\"b\":" T("U8", "[2]", 3, 5) ",\"a\":" T("U8", "[3]", 0, 3) "}", 5, 2);
    accepts("{\"a\":" T("F32", "[]", 0, 4) "}", 4, 1);
    accepts(
        "{\"a\":{\"x\":[[{\"y\":-1.5e3}],true,null],\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        1, 1);
    /* empty tensors, at the start, in the middle, at the end, several at one place */
    accepts("{\"e\":" T("F32", "[0]", 0, 0) "}", 0, 1);
    accepts("{\"e\":" T("F32", "[0,5]", 0, 0) ",\"a\":" T("U8", "[3]", 0, 3) ",\"f\":" T(
                "F64", "[2,0]", 3,
                3) ",\"g\":" T("F64", "[0]", 3, 3) ",\"b\":" T("U8", "[2]", 3, 5) ",\"z\":" T("I8", "[0]", 5,
                                                                                              5) "}",
            5, 6);
}

static void test_structure(void **state)
{
    (void)state;
    refuses(SPARTA_E_FORMAT, "", 0, "'{'");
    refuses(SPARTA_E_FORMAT, " {}", 0, "'{'");
    refuses(SPARTA_E_FORMAT, "[]", 0, "'{'");
    refuses(SPARTA_E_FORMAT, "{", 0, "a string was expected");
    refuses(SPARTA_E_FORMAT, "{}x", 0, "follows");
    refuses(SPARTA_E_FORMAT, "{\"a\":1}", 0, "'{' was expected");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[1]", 0, 1) ",}", 1, "a string was expected");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[1]", 0, 1) "\"b\"}", 1, "',' or '}'");
    refuses(SPARTA_E_FORMAT, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "lacks");
    refuses(SPARTA_E_FORMAT,
            "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "twice");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[1]", 0, 1) ",\"a\":" T("U8", "[1]", 1, 2) "}", 2,
            "\"a\" occurs twice");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[1]", 0, 1) ",\"\\u0061\":" T("U8", "[1]", 1, 2) "}", 2,
            "\"a\" occurs twice");
    refuses(SPARTA_E_FORMAT, "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "occurs twice");
    refuses(SPARTA_E_FORMAT, "{\"__metadata__\":{\"k\":\"v\",\"k\":\"w\"}}", 0, "\"k\" occurs twice");
    refuses(SPARTA_E_FORMAT, "{\"__metadata__\":{\"k\":1}}", 0, "a string was expected");
    refuses(SPARTA_E_FORMAT, "{\"__metadata__\":[]}", 0, "__metadata__");
    refuses(SPARTA_E_FORMAT, "{\"a\":{\"x\":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}}", 0, "nested too deep");
    static const char *const offsets[] = {
        "[0]",    "[0,1,2]", "[]",        "[0,1.0]", "[0,1e0]",
        "[0,-1]", "[00,1]",  "[\"0\",1]", "0",       "[0,18446744073709551616]"};
    for (size_t i = 0; i < SP_COUNT(offsets); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":%s}}",
                 offsets[i]);
        refuses(SPARTA_E_FORMAT, text, 1, "tensor \"a\"");
    }
}

static void test_strings(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\\x",  "\\u12", "\\ud800",  "\\udc00",      "\\ud800\\u0041",   "\\u0000",
        "\x01", "\xff",  "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"%s\":" T("U8", "[1]", 0, 1) "}", bad[i]);
        refuses(SPARTA_E_FORMAT, text, 1, "malformed JSON at byte");
    }
    size_t size;
    sp_safetensors s;
    make("{\"\\ud83d\\ude00\\u00e9\\n\\/\xe2\x82\xac\":" T("U8", "[1]", 0,
                                                           1) ",\"__metadata__\":{\"k\":\"\\\"v\\\\\"}}",
         1, &size);
    assert_int_equal(sp_safetensors_parse(cx, store, size, &s), SPARTA_OK);
    assert_non_null(find(&s, "\xf0\x9f\x98\x80\xc3\xa9\n/\xe2\x82\xac"));
    assert_string_equal(s.metadata[0].value, "\"v\\");
    sp_safetensors_close(&s);
}

static void test_data(void **state)
{
    (void)state;
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[3]", 1, 4) "}", 4, "leaves a gap");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 3, 5) "}", 5,
            "tensor \"b\": its data begins at 3, which leaves a gap");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[3]", 0, 3) ",\"b\":" T("U8", "[3]", 2, 5) "}", 5,
            "tensor \"b\": its data begins at 2, which overlaps");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[3]", 0, 3) ",\"b\":" T("U8", "[3]", 0, 3) "}", 3,
            "overlaps");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[3]", 0, 3) ",\"e\":" T("U8", "[0]", 1, 1) "}", 3,
            "overlaps");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[3]", 0, 3) "}", 4,
            "the tensors end at byte 3 of the data, the file at 4");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[3]", 0, 3) "}", 2, "not inside the 2 bytes");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[3]", 3, 0) "}", 3, "not inside");
    refuses(SPARTA_E_FORMAT, "{}", 1, "the tensors end at byte 0");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("F32", "[3]", 0, 3) "}", 3,
            "tensor \"a\": its shape and type need 12 bytes");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[]", 0, 0) "}", 0, "need 1 bytes");
    refuses(SPARTA_E_LIMIT, "{\"a\":" T("U8", "[4294967296,4294967296,4294967296]", 0, 0) "}", 0,
            "tensor \"a\"");
    refuses(SPARTA_E_FORMAT, "{\"a\":" T("U8", "[9223372036854775808]", 0, 0) "}", 0, "63 bits");
    refuses(SPARTA_E_UNSUPPORTED, "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1,
            "tensor \"a\": more than 8 dimensions");
    refuses(SPARTA_E_UNSUPPORTED, "{\"x.y\":" T("F8_E4M3", "[1]", 0, 1) "}", 1,
            "tensor \"x.y\": the type F8_E4M3");
    refuses(SPARTA_E_UNSUPPORTED, "{\"x.y\":" T("C64", "[1]", 0, 8) "}", 8, "C64");
}

static void test_length(void **state)
{
    (void)state;
    uint8_t bytes[16] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    sp_safetensors s;
    assert_int_equal(sp_safetensors_parse(cx, bytes, 10, &s), SPARTA_OK);
    sp_safetensors_close(&s);
    for (size_t n = 0; n < 10; n++) assert_int_equal(sp_safetensors_parse(cx, bytes, n, &s), SPARTA_E_FORMAT);
    bytes[0] = 3;
    assert_int_equal(sp_safetensors_parse(cx, bytes, 10, &s), SPARTA_E_FORMAT);
    bytes[4] = 1;
    assert_int_equal(sp_safetensors_parse(cx, bytes, 10, &s), SPARTA_E_LIMIT);
    memset(bytes, 255, 8);
    assert_int_equal(sp_safetensors_parse(cx, bytes, 10, &s), SPARTA_E_LIMIT);
    assert_non_null(strstr(sparta_message(cx), "100000000"));
}

/* Data that C cannot read in place is copied, other data is not. */
static void test_views(void **state)
{
    (void)state;
    size_t size;
    sp_safetensors s;
    const char *header = "{\"b\":" T("BOOL", "[2]", 0, 2) ",\"f\":" T("U16", "[2]", 2, 6) ",\"i\":" T(
        "I32", "[1]", 6, 10) ",\"u\":" T("U8", "[1]", 10, 11) "}";
    make(header, 11, &size);
    const uint8_t *data = store + size - 11;
    assert_int_equal(sp_safetensors_parse(cx, store, size, &s), SPARTA_OK);
    const sparta_tensor *b = find(&s, "b"), *i = find(&s, "i"), *u = find(&s, "u");
    assert_true(b && i && u);
    assert_memory_equal(b->data, "\1\1", 2); /* it was 1 2 */
    assert_ptr_not_equal(b->data, data);
    assert_int_equal(*(int32_t *)i->data, 0x0a090807);
    assert_int_equal((uintptr_t)i->data % 4, 0);
    assert_ptr_equal(u->data, data + 10);
    assert_null(find(&s, "x"));
    sp_safetensors_close(&s);
    sp_safetensors_close(&s);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

/* ------------------------------------------------------------------ writing */

static float w[6] = {0, 3, 1, 4, 2, 5}; /* transposed */
static int64_t ab[2] = {1, -2};
static uint8_t flag[3] = {1, 0, 1}, one[1] = {255};
static double scalar = 2.5;
static uint16_t half[3] = {0x3c00, 0x3800, 0xc000};

static sparta_status write_reference(void)
{
    const char *names[] = {"w", "a.b", "empty", "flag", "scalar", "h", "\xc3\xa9\"\\"};
    sparta_tensor t[] = {sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 3}, w),
                         sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){2}, ab),
                         sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){0, 4}, NULL),
                         sparta_tensor_view(SPARTA_BOOL, 1, (int64_t[]){3}, flag),
                         sparta_tensor_view(SPARTA_F64, 0, NULL, &scalar),
                         sparta_tensor_view(SPARTA_F16, 1, (int64_t[]){3}, half),
                         sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){1}, one)};
    t[0].stride[0] = 1, t[0].stride[1] = 2;
    return sp_safetensors_write(cx, PATH, 7, names, t, 1, &(sp_key_value){"format", "np"});
}

/* tests/fixtures/make_matrices.py wrote the same tensors with the reference library: the same file, byte for byte. */
static void test_reference(void **state)
{
    (void)state;
    sp_mapped theirs, ours;
    sp_safetensors s;
    assert_int_equal(write_reference(), SPARTA_OK);
    assert_int_equal(sp_mapped_open(cx, REFERENCE, &theirs), SPARTA_OK);
    assert_int_equal(sp_mapped_open(cx, PATH, &ours), SPARTA_OK);
    assert_int_equal(ours.size, theirs.size);
    assert_memory_equal(ours.data, theirs.data, ours.size);
    sp_mapped_close(&theirs), sp_mapped_close(&ours);
    assert_int_equal(sp_safetensors_open(cx, REFERENCE, &s), SPARTA_OK);
    assert_int_equal(s.n, 7);
    assert_string_equal(s.metadata[0].key, "format");
    const sparta_tensor *t = find(&s, "w");
    assert_true(t && t->rank == 2 && t->dim[0] == 2 && t->dim[1] == 3);
    for (int i = 0; i < 6; i++) assert_true(((float *)t->data)[i] == (float)i);
    t = find(&s, "scalar");
    assert_true(t && t->rank == 0 && *(double *)t->data == 2.5);
    t = find(&s, "empty");
    assert_true(t && t->rank == 2 && t->dim[0] == 0 && t->dim[1] == 4);
    sp_safetensors_close(&s);
}

static void test_every_type(void **state)
{
    (void)state;
    enum { TYPES = SPARTA_BOOL + 1 }; /* those after it have no form */
    static uint8_t data[TYPES][24];
    char text[TYPES][8];
    const char *names[TYPES];
    sparta_tensor t[TYPES];
    sp_safetensors s;
    for (int i = 0; i < TYPES; i++) {
        for (int k = 0; k < 24; k++) data[i][k] = i == SPARTA_BOOL ? k & 1 : (uint8_t)(i * 31 + k);
        snprintf(text[i], sizeof text[i], "t%d", i);
        names[i] = text[i];
        t[i] = sparta_tensor_view((sparta_dtype)i, 1, (int64_t[]){3}, data[i]);
    }
    assert_int_equal(sp_safetensors_write(cx, PATH, TYPES, names, t, 0, NULL), SPARTA_OK);
    assert_int_equal(sp_safetensors_open(cx, PATH, &s), SPARTA_OK);
    assert_int_equal(s.n, TYPES);
    for (int i = 0; i < TYPES; i++) {
        const sparta_tensor *x = find(&s, names[i]);
        assert_true(x && x->dtype == (sparta_dtype)i);
        assert_memory_equal(x->data, data[i], 3 * sparta_dtype_size((sparta_dtype)i));
        assert_true((uint8_t *)x->data >= s.file.data && (uint8_t *)x->data < s.file.data + s.file.size);
    }
    sp_safetensors_close(&s);
    for (int i = TYPES; i < SP_DTYPES; i++) {
        sparta_tensor narrow = sparta_tensor_view((sparta_dtype)i, 1, (int64_t[]){3}, data[0]);
        assert_int_equal(sp_safetensors_write(cx, PATH, 1, names, &narrow, 0, NULL), SPARTA_E_UNSUPPORTED);
    }
    names[1] = names[0];
    assert_int_equal(sp_safetensors_write(cx, PATH, 2, names, t, 0, NULL), SPARTA_E_USAGE);
    names[1] = "\xff";
    assert_int_equal(sp_safetensors_write(cx, PATH, 2, names, t, 0, NULL), SPARTA_E_USAGE);
    sp_key_value twice[2] = {{"k", "v"}, {"k", "w"}};
    assert_int_equal(sp_safetensors_write(cx, PATH, 1, names, t, 2, twice), SPARTA_E_USAGE);
    names[1] = "__metadata__";
    assert_int_equal(sp_safetensors_write(cx, PATH, 2, names, t, 0, NULL), SPARTA_E_USAGE);
}

/* ------------------------------------------------------------------ damage */

static void test_truncated(void **state)
{
    (void)state;
    char *bytes;
    size_t n;
    sp_safetensors s;
    assert_int_equal(sp_file_read(cx, REFERENCE, 4096, &bytes, &n), SPARTA_OK);
    for (size_t k = 0; k < n; k++) {
        uint8_t *cut = malloc(k + 1); /* a byte past the end is ASan's to see */
        memcpy(cut + 1, bytes, k);
        assert_int_equal(sp_safetensors_parse(cx, cut + 1, k, &s), SPARTA_E_FORMAT);
        free(cut);
    }
    sp_free(cx, bytes);
}

static void test_mutated(void **state)
{
    (void)state;
    char *bytes;
    size_t n;
    sp_rng rng = sp_rng_seed(5);
    assert_int_equal(sp_file_read(cx, REFERENCE, 4096, &bytes, &n), SPARTA_OK);
    size_t header = 8 + (size_t)(uint8_t)bytes[0] + 256 * (size_t)(uint8_t)bytes[1], accepted = 0;
    for (int round = 0; round < 20000; round++) {
        sp_safetensors s;
        size_t at = sp_rng_next(&rng) % header;
        char old = bytes[at];
        bytes[at] = (char)sp_rng_next(&rng);
        if (sp_safetensors_parse(cx, bytes, n, &s) == SPARTA_OK) {
            uint64_t end = 0;
            for (int i = 0; i < s.n; i++)
                end += (uint64_t)sparta_tensor_elements(&s.entry[i].tensor) *
                       sparta_dtype_size(s.entry[i].tensor.dtype);
            assert_int_equal(end, n - header);
            accepted++;
            sp_safetensors_close(&s);
        }
        bytes[at] = old;
    }
    assert_true(accepted > 0 && accepted < 10000); /* a name's letters may change, little else */
    sp_free(cx, bytes);
}

static void test_memory(void **state)
{
    (void)state;
    sp_safetensors s;
    sparta_status status = SPARTA_E_MEMORY;
    for (uint64_t nth = 1; status; nth++) {
        assert_true(nth < 1000);
        sp_ctx_fail_alloc(cx, nth, true);
        status = sp_safetensors_open(cx, REFERENCE, &s);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        if (!status) sp_safetensors_close(&s);
        assert_int_equal(sp_ctx_memory(cx), 0);
    }
    status = SPARTA_E_MEMORY;
    for (uint64_t nth = 1; status; nth++) {
        assert_true(nth < 1000);
        sp_ctx_fail_alloc(cx, nth, true);
        status = write_reference();
        sp_ctx_fail_alloc(cx, 0, false);
        if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), 0);
    }
}

/* A header that is large but legal stays inside the budget. */
static void test_budget(void **state)
{
    (void)state;
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = 1 << 20;
    sparta_ctx *poor = sparta_ctx_create(&options);
    sp_text t;
    sp_safetensors s;
    sp_text_init(&t, cx);
    sp_text_put(&t, "\0\0\0\0\0\0\0\0{", 9);
    for (int i = 0; i < 20000; i++) sp_text_printf(&t, "%s\"t%d\":" T("U8", "[0]", 0, 0), i ? "," : "", i);
    sp_text_put(&t, "}", 1);
    for (int i = 0; i < 8; i++) t.data[i] = (char)((t.size - 8) >> (8 * i) & 255);
    assert_int_equal(sp_safetensors_parse(poor, t.data, t.size, &s), SPARTA_E_MEMORY);
    assert_int_equal(sp_ctx_memory(poor), 0);
    assert_int_equal(sp_safetensors_parse(cx, t.data, t.size, &s), SPARTA_OK);
    assert_int_equal(s.n, 20000);
    sp_safetensors_close(&s);
    sp_text_free(&t);
    sparta_ctx_free(poor);
}

static void test_arrays(void **state)
{
    (void)state;
    sp_arrays a;
    sp_holds holds;
    assert_int_equal(sp_arrays_open(cx, REFERENCE, &a), SPARTA_OK);
    assert_int_equal(a.n, 7);
    sp_arrays_close(&a);
    sp_arrays_close(&a);
    assert_int_equal(sp_arrays_open(cx, "tests/fuzz/corpus/fuzz_npz/csr.npz", &a), SPARTA_OK);
    assert_int_equal(a.n, 5);
    sp_arrays_close(&a);
    assert_int_equal(sp_arrays_open(cx, "tests/fuzz/corpus/fuzz_mtx/real.mtx", &a), SPARTA_E_FORMAT);
    assert_int_equal(sp_arrays_open(cx, "/nonexistent/x.npz", &a), SPARTA_E_IO);
    assert_int_equal(write_reference(), SPARTA_OK); /* the name says nothing, the bytes do */
    assert_int_equal(sp_file_holds(cx, PATH, &holds), SPARTA_OK);
    assert_int_equal(holds, SP_HOLDS_SAFETENSORS);
    assert_int_equal(sp_file_holds(cx, "tests/fuzz/corpus/fuzz_mtx/dlmc.smtx", &holds), SPARTA_OK);
    assert_int_equal(holds, SP_HOLDS_SMTX);
    assert_int_equal(sp_file_holds(cx, "Makefile", &holds), SPARTA_OK);
    assert_int_equal(holds, SP_HOLDS_OTHER);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),  cmocka_unit_test(test_structure),  cmocka_unit_test(test_strings),
        cmocka_unit_test(test_data),      cmocka_unit_test(test_length),     cmocka_unit_test(test_views),
        cmocka_unit_test(test_reference), cmocka_unit_test(test_every_type), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_mutated),   cmocka_unit_test(test_memory),     cmocka_unit_test(test_budget),
        cmocka_unit_test(test_arrays),
    };
    return cmocka_run_group_tests(tests, set_up_folder, tear_down_folder);
}
