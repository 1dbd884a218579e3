/* import: TensorProtos: every way to store elements, shapes that lie, and weights in other files. */
#include "import_check.h"
#include "onnx_tensor.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static sparta_status read_one(bytes t, sparta_tensor *out)
{
    uint8_t *exact = malloc(t.size ? t.size : 1);
    memcpy(exact, t.data, t.size);
    sparta_status status = onnx_tensor(cx, exact, t.size, out);
    free(exact);
    free(t.data);
    return status;
}

static void tensor_refused(bytes t, sparta_status status, const char *words)
{
    sparta_tensor out;
    uint64_t before = sp_ctx_memory_peak(cx);
    sparta_status got = read_one(t, &out);
    if (got != status) print_error("%s (%s)\n", sparta_status_name(got), sparta_message(cx));
    assert_int_equal(got, status);
    said(words);
    assert_true(sp_ctx_memory_peak(cx) < before + 65536); /* refused before anything large was asked for */
}

static void reads(bytes t, sparta_dtype dtype, int64_t n, const void *expected)
{
    sparta_tensor out;
    ok(read_one(t, &out));
    assert_int_equal(out.dtype, dtype);
    assert_int_equal(sparta_tensor_elements(&out), n);
    assert_memory_equal(out.data, expected, (size_t)n * sparta_dtype_size(dtype));
    sp_free(cx, out.data);
}

static const int64_t two[] = {2};

static bytes listed(int type, uint32_t field, int64_t a, int64_t b)
{
    bytes t = tensor_head("t", type, 1, two);
    put_int(&t, field, a); /* one apart, one packed */
    bytes packed = {0};
    put_varint(&packed, (uint64_t)b);
    put_piece(&t, field, packed);
    return t;
}

static void lists(void **state)
{
    (void)state;
    reads(listed(2, TENSOR_INT32S, 0, 255), SPARTA_U8, 2, (uint8_t[]){0, 255});
    reads(listed(3, TENSOR_INT32S, -128, 127), SPARTA_I8, 2, (int8_t[]){-128, 127});
    reads(listed(4, TENSOR_INT32S, 1, 65535), SPARTA_U16, 2, (uint16_t[]){1, 65535});
    reads(listed(5, TENSOR_INT32S, -32768, 9), SPARTA_I16, 2, (int16_t[]){-32768, 9});
    reads(listed(6, TENSOR_INT32S, INT32_MIN, INT32_MAX), SPARTA_I32, 2, (int32_t[]){INT32_MIN, INT32_MAX});
    reads(listed(7, TENSOR_INT64S, INT64_MIN, INT64_MAX), SPARTA_I64, 2, (int64_t[]){INT64_MIN, INT64_MAX});
    reads(listed(9, TENSOR_INT32S, 0, 1), SPARTA_BOOL, 2, (uint8_t[]){0, 1});
    reads(listed(10, TENSOR_INT32S, 0x3c00, 0xfc00), SPARTA_F16, 2, (uint16_t[]){0x3c00, 0xfc00});
    reads(listed(16, TENSOR_INT32S, 0x3f80, 0xff80), SPARTA_BF16, 2, (uint16_t[]){0x3f80, 0xff80});
    reads(listed(12, TENSOR_UINT64S, 0, UINT32_MAX), SPARTA_U32, 2, (uint32_t[]){0, UINT32_MAX});
    reads(listed(13, TENSOR_UINT64S, 0, -1), SPARTA_U64, 2, (uint64_t[]){0, UINT64_MAX});
    bytes t = tensor_head("t", 1, 1, two);
    put_float(&t, TENSOR_FLOATS, 1.5f);
    put_data(&t, TENSOR_FLOATS, (float[]){-2}, 4);
    reads(t, SPARTA_F32, 2, (float[]){1.5f, -2});
    t = tensor_head("t", 11, 1, two);
    put_data(&t, TENSOR_DOUBLES, (double[]){1.5, -2}, 16);
    reads(t, SPARTA_F64, 2, (double[]){1.5, -2});
    bytes packed = tensor_head("t", 22, 1, (int64_t[]){3}); /* low bits first; the last four are nobody's */
    put_data(&packed, TENSOR_RAW, (uint8_t[]){0x2f, 0xa3}, 2);
    reads(packed, SPARTA_I4, 3, (uint8_t[]){15, 2, 3});
    packed = tensor_head("t", 25, 1, (int64_t[]){5});
    put_data(&packed, TENSOR_RAW, (uint8_t[]){0xe4, 0xff}, 2);
    reads(packed, SPARTA_U2, 5, (uint8_t[]){0, 1, 2, 3, 3});
    packed = tensor_head("t", 21, 1, (int64_t[]){3});
    put_int(&packed, TENSOR_INT32S, 0x2f); /* a list has bytes of packed elements */
    put_int(&packed, TENSOR_INT32S, 0x03);
    reads(packed, SPARTA_U4, 3, (uint8_t[]){15, 2, 3});
    reads(tensor_head("t", 26, 1, (int64_t[]){0}), SPARTA_I2, 0, "");
    tensor_refused(listed(22, TENSOR_INT32S, 0, 1), SPARTA_E_FORMAT, "2 bytes, not 1");
    packed = tensor_head("t", 22, 1, (int64_t[]){3});
    put_data(&packed, TENSOR_RAW, (uint8_t[]){1, 2, 3}, 3); /* unpacked */
    tensor_refused(packed, SPARTA_E_FORMAT, "3 bytes, not 2");
    packed = tensor_head("t", 22, 2, (int64_t[]){INT64_C(1) << 31, INT64_C(1) << 31});
    put_data(&packed, TENSOR_RAW, (uint8_t[]){1, 2, 3}, 3);
    tensor_refused(packed, SPARTA_E_FORMAT, "3 bytes, not 2305843009213693952");
    tensor_refused(listed(2, TENSOR_INT32S, 0, 256), SPARTA_E_FORMAT, "fit into u8");
    tensor_refused(listed(3, TENSOR_INT32S, 0, -129), SPARTA_E_FORMAT, "fit into i8");
    tensor_refused(listed(9, TENSOR_INT32S, 0, 2), SPARTA_E_FORMAT, "fit into bool");
    tensor_refused(listed(10, TENSOR_INT32S, 0, -1), SPARTA_E_FORMAT, "fit into f16");
    tensor_refused(listed(6, TENSOR_INT32S, 0, (int64_t)1 << 31), SPARTA_E_FORMAT, "fit into i32");
    tensor_refused(listed(12, TENSOR_UINT64S, 0, -1), SPARTA_E_FORMAT, "fit into u32");
    tensor_refused(listed(7, TENSOR_INT32S, 0, 1), SPARTA_E_FORMAT, "belong into 7");
    tensor_refused(listed(8, TENSOR_INT32S, 0, 1), SPARTA_E_UNSUPPORTED, "strings");
    tensor_refused(listed(17, TENSOR_INT32S, 0, 1), SPARTA_E_UNSUPPORTED, "element type 17");
    tensor_refused(listed(0, TENSOR_INT32S, 0, 1), SPARTA_E_FORMAT, "element type 0");
    tensor_refused(listed(-1, TENSOR_INT32S, 0, 1), SPARTA_E_FORMAT, "element type -1");
}

static void raw(void **state)
{
    (void)state;
    static const float x[] = {1, 2};
    static const int64_t none[] = {0, 5};
    for (int i = 0; i < 8; i++) { /* at every alignment of the file */
        char name[16] = "tttttttt";
        name[i] = 0;
        reads(raw_tensor(name, 1, 1, two, x, 8), SPARTA_F32, 2, x);
    }
    reads(raw_tensor("scalar", 1, 0, NULL, x, 4), SPARTA_F32, 1, x);
    reads(raw_tensor("none", 1, 2, none, "", 0), SPARTA_F32, 0, x);
    reads(tensor_head("none", 7, 2, none), SPARTA_I64, 0, x);
    tensor_refused(raw_tensor("t", 1, 1, two, x, 7), SPARTA_E_FORMAT, "7 bytes");
    tensor_refused(raw_tensor("t", 1, 1, two, x, 4), SPARTA_E_FORMAT, "4 bytes");
    tensor_refused(tensor_head("t", 1, 1, two), SPARTA_E_FORMAT, "0 bytes");
    bytes both = raw_tensor("t", 1, 1, two, x, 8);
    put_data(&both, TENSOR_FLOATS, x, 8);
    tensor_refused(both, SPARTA_E_FORMAT, "one is allowed");
    bytes twice = tensor_head("t", 1, 1, two);
    put_data(&twice, TENSOR_FLOATS, x, 4);
    put_int(&twice, TENSOR_INT64S, 1);
    tensor_refused(twice, SPARTA_E_FORMAT, "two lists");
    bytes segment = raw_tensor("t", 1, 1, two, x, 8);
    put_data(&segment, TENSOR_SEGMENT, "", 0);
    tensor_refused(segment, SPARTA_E_UNSUPPORTED, "segments");
    bytes wrong = tensor_head("t", 1, 1, two);
    put_int(&wrong, TENSOR_RAW, 3);
    tensor_refused(wrong, SPARTA_E_FORMAT, "wire type");
}

/* A declared shape far larger than the file. */
static void large_shapes(void **state)
{
    (void)state;
    static const int64_t terabyte[] = {1 << 20, 1 << 20}, overflow[] = {INT64_MAX, INT64_MAX},
                         negative[] = {-1};
    static const int64_t wraps[] = {(int64_t)1 << 32, (int64_t)1 << 32},
                         nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const float x[] = {1, 2};
    tensor_refused(raw_tensor("t", 1, 2, terabyte, x, 8), SPARTA_E_FORMAT, "1099511627776 elements");
    tensor_refused(raw_tensor("t", 1, 2, overflow, x, 8), SPARTA_E_LIMIT, "tensor 't'");
    tensor_refused(raw_tensor("t", 1, 2, wraps, x, 8), SPARTA_E_LIMIT, "tensor 't'");
    tensor_refused(raw_tensor("t", 1, 1, negative, x, 8), SPARTA_E_FORMAT, "negative");
    tensor_refused(raw_tensor("t", 1, 9, nine, x, 4), SPARTA_E_UNSUPPORTED, "more than 8");
    bytes t = tensor_head("t", 1, 2, terabyte);
    put_data(&t, TENSOR_FLOATS, x, 8);
    tensor_refused(t, SPARTA_E_FORMAT, "2 elements");
    t = tensor_head("t", 1, 2, terabyte);
    put_data(&t, TENSOR_FLOATS, x, 7);
    tensor_refused(t, SPARTA_E_FORMAT, "ends within");
    t = tensor_head("t", 7, 1, two);
    put_data(&t, TENSOR_INT64S, "\x01\x80", 2);
    tensor_refused(t, SPARTA_E_FORMAT, "does not end");
    t = tensor_head("t", 7, 1, two);
    put_data(&t, TENSOR_INT64S, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
    tensor_refused(t, SPARTA_E_FORMAT, "does not end");
}

/* ------------------------------------------------------------------ external data */

static char folder[64];

static void put_entry(bytes *t, const char *key, const char *value)
{
    bytes e = {0};
    put_string(&e, ENTRY_KEY, key);
    put_string(&e, ENTRY_VALUE, value);
    put_piece(t, TENSOR_EXTERNAL, e);
}

/* A model whose output is a weight of two floats in another file. */
static bytes external_model(const char *location, const char *offset, const char *length, const char *key)
{
    bytes t = tensor_head("w", 1, 1, two), g = graph_of("g");
    if (location) put_entry(&t, "location", location);
    if (offset) put_entry(&t, "offset", offset);
    if (length) put_entry(&t, "length", length);
    if (key) put_entry(&t, key, "x");
    put_int(&t, TENSOR_LOCATION, 1);
    put_piece(&g, GRAPH_INITIALIZER, t);
    put_piece(&g, GRAPH_OUTPUT, info("w", 1, NULL));
    return model_of(17, g);
}

static char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void make_folder(void)
{
    static const float x[] = {1, 2, 3, 4};
    strcpy(folder, "/tmp/sparta_import_XXXXXX");
    assert_non_null(mkdtemp(folder));
    write_file("w.bin", x, sizeof x);
    write_file("linked.bin", x, sizeof x);
    assert_int_equal(mkdir(path_of("sub"), 0700), 0);
    write_file("sub/w.bin", x, sizeof x);
    char from[128];
    strcpy(from, path_of("linked.bin"));
    assert_int_equal(link(from, path_of("hard.bin")), 0);
    assert_int_equal(symlink("w.bin", path_of("soft.bin")), 0);
    assert_int_equal(symlink("sub", path_of("softsub")), 0);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
}

static void remove_folder(void)
{
    static const char *const names[] = {"w.bin",   "linked.bin", "hard.bin",  "soft.bin",
                                        "softsub", "pipe",       "sub/w.bin", "m.onnx"};
    for (size_t i = 0; i < SP_COUNT(names); i++) unlink(path_of(names[i]));
    rmdir(path_of("sub"));
    rmdir(folder);
}

static sparta_status open_model(bytes m, sp_model **out)
{
    write_file("m.onnx", m.data, m.size);
    free(m.data);
    return sp_model_open(cx, path_of("m.onnx"), NULL, out);
}

static sparta_status open_with(bytes m, const sparta_tensor *memory, sp_model **out)
{
    const sparta_named_tensor named[] = {{"other", {0}}, {"w.bin", *memory}};
    const sp_import_options options = {.external = named, .n_external = 2};
    write_file("m.onnx", m.data, m.size);
    free(m.data);
    return sp_model_open(cx, path_of("m.onnx"), &options, out);
}

static void external_refused(bytes m, const char *words)
{
    sp_model *model = NULL;
    sparta_status status = open_model(m, &model);
    if (!status || status == SPARTA_E_INTERNAL || status == SPARTA_E_MEMORY)
        print_error("%d %s\n", status, sparta_message(cx));
    assert_true(status == SPARTA_E_FORMAT || status == SPARTA_E_IO || status == SPARTA_E_UNSUPPORTED);
    assert_null(model);
    said(words);
    said("m.onnx: "); /* where */
}

static void external_reads(bytes m, float first, float second)
{
    sp_model *model = NULL;
    ok(open_model(m, &model));
    const float *data = model->graph->output[0]->constant->data;
    assert_int_equal((uintptr_t)data % 4, 0);
    assert_true(data[0] == first && data[1] == second);
    assert_int_equal(model->n_external, 1);
    sp_model_close(model);
}

static void external(void **state)
{
    (void)state;
    make_folder();
    external_reads(external_model("w.bin", NULL, NULL, NULL), 1, 2);
    external_reads(external_model("w.bin", "8", "8", NULL), 3, 4);
    external_reads(external_model("sub/w.bin", "4", "8", "checksum"), 2, 3);
    external_refused(external_model("../w.bin", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("sub/../w.bin", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("/etc/passwd", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("soft.bin", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("softsub/w.bin", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("hard.bin", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("sub", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("pipe", NULL, NULL, NULL), "tensor 'w'");
    external_refused(external_model("none.bin", NULL, NULL, NULL), "none.bin");
    external_refused(external_model("", NULL, NULL, NULL), "no location");
    external_refused(external_model(NULL, "0", NULL, NULL), "no location");
    external_refused(external_model("w.bin", "12", NULL, NULL), "bytes 12 to 20");
    external_refused(external_model("w.bin", "16", NULL, NULL), "16");
    external_refused(external_model("w.bin", "17", NULL, NULL), "17");
    external_refused(external_model("w.bin", "9223372036854775807", NULL, NULL), "truncated");
    external_refused(external_model("w.bin", "18446744073709551608", NULL, NULL), "no decimal");
    external_refused(external_model("w.bin", "-8", NULL, NULL), "no decimal");
    external_refused(external_model("w.bin", "+8", NULL, NULL), "no decimal");
    external_refused(external_model("w.bin", " 8", NULL, NULL), "no decimal");
    external_refused(external_model("w.bin", "0x8", NULL, NULL), "no decimal");
    external_refused(external_model("w.bin", "", NULL, NULL), "no decimal");
    external_refused(external_model("w.bin", "0", "4", NULL), "length is 4");
    external_refused(external_model("w.bin", "0", "16", NULL), "length is 16");
    external_refused(external_model("w.bin", "0", NULL, "offset"), "twice");
    external_refused(external_model("w.bin", NULL, NULL, "basepath"), "unknown");
    refused(external_model("w.bin", NULL, NULL, NULL), SPARTA_E_USAGE,
            "no folder"); /* bytes without a place */
    remove_folder();
}

/* Memory goes before a file of the same name, is read where it lies, and is held to its size. */
static void external_memory(void **state)
{
    (void)state;
    make_folder();
    static float numbers[4] = {5, 6, 7, 8};
    const int64_t dim[2] = {sizeof numbers, 1};
    const sparta_tensor t = sparta_tensor_view(SPARTA_U8, 1, dim, numbers);
    sp_model *model = NULL;
    ok(open_with(external_model("w.bin", "8", NULL, NULL), &t, &model));
    assert_ptr_equal(model->graph->output[0]->constant->data, &numbers[2]);
    assert_int_equal(model->n_external, 0);
    ok(sp_model_check(cx, model));
    sp_model_close(model);
    ok(open_with(external_model("sub/w.bin", NULL, NULL, NULL), &t, &model)); /* another location: a file */
    assert_int_equal(model->n_external, 1);
    sp_model_close(model);
    assert_int_equal(open_with(external_model("w.bin", "12", NULL, NULL), &t, &model), SPARTA_E_FORMAT);
    said("bytes 12 to 20");
    sparta_tensor wrong[] = {t, sparta_tensor_view(SPARTA_U8, 2, dim, numbers), t, t, t};
    wrong[0].dtype = SPARTA_F32;
    wrong[2].stride[0] = 2;
    wrong[3].data = NULL;
    wrong[4].device = 1;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(open_with(external_model("w.bin", NULL, NULL, NULL), &wrong[i], &model),
                         SPARTA_E_USAGE);
        said("no row of bytes");
    }
    remove_folder();
}

static void misaligned(void **state)
{
    (void)state;
    make_folder();
    static const uint8_t odd[9] = {0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}; /* 1 and 2 from byte 1 on */
    write_file("sub/w.bin", odd, sizeof odd);
    external_reads(external_model("sub/w.bin", "1", NULL, NULL), 1, 2);
    sp_model *model = NULL;
    ok(open_model(external_model("w.bin", "4", NULL, NULL), &model));
    assert_ptr_equal(model->graph->output[0]->constant->data,
                     model->external[0].data + 4); /* aligned: not copied */
    sp_model_close(model);
    sp_import_options from = {.external_data_root = path_of("sub")};
    char where[128];
    strcpy(where, from.external_data_root);
    from.external_data_root = where;
    write_file("sub/w.bin", (float[]){7, 8}, 8);
    assert_int_equal(sp_model_open(cx, path_of("m.onnx"), &from, &model), SPARTA_E_FORMAT);
    said("there are 8"); /* it was the other folder's */
    remove_folder();
}

static void no_file(void **state)
{
    (void)state;
    sp_model *model = NULL;
    assert_int_equal(sp_model_open(cx, "/nowhere/m.onnx", NULL, &model), SPARTA_E_IO);
    assert_int_not_equal(sp_model_open(cx, "/tmp", NULL, &model), SPARTA_OK);
    assert_null(model);
}

/* A weight that must be copied obeys the budget. */
static void budget(void **state)
{
    (void)state;
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = 1 << 20;
    sparta_ctx *small = sparta_ctx_create(&options);
    int64_t n = 1 << 20;
    bytes t = tensor_head("w", 9, 1, &n), g = graph_of("g"), packed = {0};
    packed.data = calloc(1, (size_t)n);
    packed.size = (size_t)n;
    put_piece(&t, TENSOR_INT32S, packed);
    put_piece(&g, GRAPH_INITIALIZER, t);
    put_piece(&g, GRAPH_OUTPUT, info("w", 9, NULL));
    bytes m = model_of(17, g);
    sp_model *model = NULL;
    assert_int_equal(sp_model_parse(small, m.data, m.size, NULL, &model), SPARTA_E_MEMORY);
    assert_int_equal(sp_ctx_memory(small), 0);
    sparta_ctx_free(small);
    free(m.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lists),           TEST(raw),        TEST(large_shapes), TEST(external),
        TEST(external_memory), TEST(misaligned), TEST(no_file),      TEST(budget)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
