/* file: npz written and read back, and zip files made by hand that no writer would make. */
#include "bed.h"
#include "arrays/zip.h"

#define PATH in_root("npz")

static void write_sample(void)
{
    static float w[6] = {1, 2, 3, 4, 5, 6};
    static int64_t one = 77;
    sparta_tensor t[3] = {sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 2}, w),
                          sparta_tensor_view(SPARTA_I64, 0, NULL, &one),
                          sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){0}, NULL)};
    t[0].stride[0] = 1, t[0].stride[1] = 3; /* a transposed view */
    assert_int_equal(sp_npz_write(cx, PATH, 3, (const char *const[]){"layer/w", "\xc3\xa9", ""}, t),
                     SPARTA_OK);
}

static void test_round_trip(void **state)
{
    (void)state;
    sp_npz z;
    write_sample();
    assert_int_equal(sp_npz_read(cx, PATH, &z), SPARTA_OK);
    assert_int_equal(z.n, 3);
    const sparta_tensor *t = sp_npz_find(&z, "layer/w");
    assert_true(t && t->dtype == SPARTA_F32 && t->rank == 2 && t->dim[0] == 3);
    assert_memory_equal(t->data, ((float[]){1, 4, 2, 5, 3, 6}), 24);
    t = sp_npz_find(&z, "\xc3\xa9");
    assert_true(t && t->rank == 0 && *(int64_t *)t->data == 77);
    t = sp_npz_find(&z, "");
    assert_true(t && t->rank == 1 && t->dim[0] == 0);
    assert_null(sp_npz_find(&z, "layer"));
    sp_npz_free(&z);
    sp_npz_free(&z);
    assert_int_equal(sp_npz_write(cx, PATH, 0, NULL, NULL), SPARTA_OK);
    assert_int_equal(sp_npz_read(cx, PATH, &z), SPARTA_OK);
    assert_int_equal(z.n, 0);
    sp_npz_free(&z);
}

static void test_many(void **state)
{
    (void)state;
    enum { N = 66000 }; /* more than 16 bits count: the zip64 end record */
    char(*text)[16] = calloc(N, sizeof *text);
    const char **names = calloc(N, sizeof *names);
    sparta_tensor *t = calloc(N, sizeof *t);
    uint8_t *data = calloc(N, 1);
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "t%d", i);
        names[i] = text[i];
        data[i] = (uint8_t)i;
        t[i] = sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){1}, &data[i]);
    }
    assert_int_equal(sp_npz_write(cx, PATH, N, names, t), SPARTA_OK);
    sp_npz z;
    assert_int_equal(sp_npz_read(cx, PATH, &z), SPARTA_OK);
    assert_int_equal(z.n, N);
    for (int i = 0; i < N; i++) assert_int_equal(*(uint8_t *)z.entry[i].tensor.data, data[i]);
    sp_npz_free(&z);
    names[5] = names[6];
    assert_int_equal(sp_npz_write(cx, PATH, N, names, t), SPARTA_E_USAGE);
    free(text), free(names), free(t), free(data);
}

static void test_written_layout(void **state)
{
    (void)state;
    sp_mapped m;
    zip_directory d;
    write_sample();
    assert_int_equal(sp_mapped_open(cx, PATH, &m), SPARTA_OK);
    assert_int_equal(sp_zip_directory(cx, &m, &d), SPARTA_OK);
    uint64_t at = d.at;
    for (uint64_t i = 0; i < d.n; i++) {
        zip_entry e;
        assert_int_equal(sp_zip_entry(cx, &m, &d, &at, &e), SPARTA_OK);
        assert_int_equal((uint64_t)(e.data - m.data) % 64, 0);
        assert_int_equal(e.method, ZIP_STORED);
    }
    assert_int_equal(at, d.at + d.size);
    sp_mapped_close(&m);
}

static void test_crc(void **state)
{
    (void)state;
    assert_int_equal(sp_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(sp_crc32(sp_crc32(0, "1234", 4), "56789", 5), 0xcbf43926);
    assert_int_equal(sp_crc32(0, "", 0), 0);
}

/* ------------------------------------------------------------------ by hand */

typedef struct made { /* one entry, and what is wrong with it */
    const char *name;
    int method, flags;
    const uint8_t *data;
    size_t packed, size;
    uint32_t crc;
    bool extra64; /* sizes in the extra field */
    const char *local_name;
} made;

static uint8_t zip[20000];
static size_t zip_size;

static void put(uint64_t v, int n)
{
    for (int i = 0; i < n; i++) zip[zip_size++] = (uint8_t)(v >> (8 * i));
}
static void put_bytes(const void *p, size_t n)
{
    memcpy(zip + zip_size, p, n);
    zip_size += n;
}

static void put_head(const made *e, const char *name)
{
    put(20, 2), put((uint64_t)e->flags, 2), put((uint64_t)e->method, 2), put(0, 4), put(e->crc, 4);
    put(e->extra64 ? UINT32_MAX : e->packed, 4), put(e->extra64 ? UINT32_MAX : e->size, 4);
    put(strlen(name), 2), put(e->extra64 ? 20 : 0, 2);
}

static void put_tail(const made *e, const char *name)
{
    put_bytes(name, strlen(name));
    if (e->extra64) put(1, 2), put(16, 2), put(e->size, 8), put(e->packed, 8);
}

static void make_zip(const made *entries, int n)
{
    size_t at[8];
    zip_size = 0;
    for (int i = 0; i < n; i++) {
        const made *e = &entries[i];
        const char *name = e->local_name ? e->local_name : e->name;
        at[i] = zip_size;
        put(ZIP_LOCAL, 4), put_head(e, name), put_tail(e, name);
        if (e->data) put_bytes(e->data, e->packed);
    }
    size_t start = zip_size;
    for (int i = 0; i < n; i++) {
        const made *e = &entries[i];
        put(ZIP_CENTRAL, 4), put(20, 2), put_head(e, e->name), put(0, 8), put(0, 2), put(at[i], 4),
            put_tail(e, e->name);
    }
    size_t size = zip_size - start;
    put(ZIP_END, 4), put(0, 4), put((uint64_t)n, 2), put((uint64_t)n, 2), put(size, 4), put(start, 4),
        put(0, 2);
}

static sparta_status read_zip(const uint8_t *bytes, size_t n, sp_npz *z)
{
    FILE *f = fopen(PATH, "wb");
    assert_true(f && (n == 0 || fwrite(bytes, n, 1, f) == 1) && !fclose(f));
    return sp_npz_read(cx, PATH, z);
}

static void expect_read(const made *entries, int n, sparta_status expected)
{
    sp_npz z = {.n = 55};
    make_zip(entries, n);
    sparta_status status = read_zip(zip, zip_size, &z);
    if (status != expected) fail_msg("%s: %s", sparta_status_name(status), sparta_message(cx));
    if (status == SPARTA_OK)
        sp_npz_free(&z);
    else
        assert_int_equal(z.n, 55);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

/* An array of 3 bytes, as it is and as one stored block of deflate. */
static uint8_t npy[200], deflated[300];
static size_t npy_size;

static made sample(void)
{
    sp_text t;
    sparta_tensor v = sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){3}, NULL);
    sp_text_init(&t, cx);
    sp_npy_header(&v, &t);
    memcpy(npy, t.data, t.size);
    memcpy(npy + t.size, "\7\10\11", 3);
    npy_size = t.size + 3;
    sp_text_free(&t);
    deflated[0] = 1;
    deflated[1] = (uint8_t)npy_size, deflated[2] = (uint8_t)(npy_size >> 8);
    deflated[3] = (uint8_t)~deflated[1], deflated[4] = (uint8_t)~deflated[2];
    memcpy(deflated + 5, npy, npy_size);
    return (made){.name = "a.npy",
                  .data = npy,
                  .packed = npy_size,
                  .size = npy_size,
                  .crc = sp_crc32(0, npy, npy_size)};
}

static made deflated_sample(void)
{
    made e = sample();
    e.method = ZIP_DEFLATED, e.data = deflated, e.packed = npy_size + 5;
    return e;
}

static void test_by_hand(void **state)
{
    (void)state;
    made e = sample(), two[2] = {e, e};
    expect_read(&e, 1, SPARTA_OK);
    expect_read(two, 2, SPARTA_E_FORMAT); /* the same name twice */
    two[1].name = "b.npy";
    expect_read(two, 2, SPARTA_OK);
    made bad = e;
    bad.extra64 = true;
    expect_read(&bad, 1, SPARTA_OK);
    bad = e, bad.crc ^= 1;
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.name = "a.txt";
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.name = "npy";
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.local_name = "b.npy";
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.flags = 1;
    expect_read(&bad, 1, SPARTA_E_UNSUPPORTED);
    bad = e, bad.method = 14;
    expect_read(&bad, 1, SPARTA_E_UNSUPPORTED);
    bad = e, bad.size++;
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.size = bad.packed = 100000, bad.data = NULL; /* beyond the file */
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad.size = bad.packed = SIZE_MAX - 10, bad.extra64 = true;
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.packed = bad.size = npy_size - 1,
    bad.crc = sp_crc32(0, npy, npy_size - 1); /* an npy cut short, honestly */
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    assert_non_null(strstr(sparta_message(cx), "array a"));
}

static void test_deflated(void **state)
{
    (void)state;
    made e = deflated_sample(), bad = e;
    sp_npz z;
    make_zip(&e, 1);
    sparta_status status = read_zip(zip, zip_size, &z);
    if (status == SPARTA_E_UNSUPPORTED) skip(); /* no zlib here */
    assert_int_equal(status, SPARTA_OK);
    assert_memory_equal(z.entry[0].tensor.data, "\7\10\11", 3);
    sp_npz_free(&z);
    bad.size--; /* more comes out than is promised */
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.size++; /* less */
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.packed--; /* the stream does not end */
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.packed++; /* something after its end */
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.crc++;
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    bad = e, bad.size = (size_t)1 << 40, bad.extra64 = true; /* a bomb: refused before memory is asked for */
    expect_read(&bad, 1, SPARTA_E_FORMAT);
    deflated[0] = 7; /* a block of a kind that does not exist */
    expect_read(&e, 1, SPARTA_E_FORMAT);
}

/* Many directory entries that share one piece of data. */
static void test_overlap(void **state)
{
    (void)state;
    static const char *const names[] = {"a.npy", "b.npy", "c.npy", "d.npy",
                                        "e.npy", "f.npy", "g.npy", "h.npy"};
    made e = sample(), all[8];
    for (int i = 0; i < 8; i++) all[i] = e, all[i].name = names[i];
    make_zip(all, 8);
    size_t end = zip_size - ZIP_END_SIZE, start = end - 8 * (ZIP_CENTRAL_SIZE + 5);
    for (int i = 0; i < 8; i++) /* every entry points at the first one's data */
        memset(zip + start + (size_t)i * (ZIP_CENTRAL_SIZE + 5) + 42, 0, 4);
    sp_npz z;
    assert_int_equal(read_zip(zip, zip_size, &z), SPARTA_E_FORMAT);
}

static void use(const uint8_t *bytes, size_t n, int *read)
{
    sp_npz z;
    if (read_zip(bytes, n, &z) == SPARTA_OK) {
        ++*read;
        sp_npz_free(&z);
    } else {
        assert_true(sparta_message(cx)[0] != 0);
    }
    assert_int_equal(sp_ctx_memory(cx), 0);
}

static void test_damage(void **state)
{
    (void)state;
    made e[2] = {sample(), deflated_sample()};
    e[0].name = "b.npy", e[0].data = npy;
    make_zip(e, 2);
    static uint8_t copy[sizeof zip];
    int read = 0;
    for (size_t cut = 0; cut < zip_size; cut++) use(zip, cut, &read);
    assert_int_equal(read, 0);
    size_t first = ZIP_LOCAL_SIZE + 5;
    for (size_t i = 0; i < zip_size; i++)
        for (int bit = 0; bit < 8; bit += 1 + (int)(i % 3)) {
            int before = read;
            memcpy(copy, zip, zip_size);
            copy[i] ^= (uint8_t)(1 << bit);
            use(copy, zip_size, &read);
            if (i >= first && i < first + npy_size) assert_int_equal(read, before); /* the CRC sees it */
        }
    sp_rng r = sp_rng_seed(3);
    for (int round = 0; round < 1500; round++) { /* several bytes at once, in the structures */
        memcpy(copy, zip, zip_size);
        for (int k = 0; k < 4; k++) copy[zip_size - 1 - sp_rng_next(&r) % 130] = (uint8_t)sp_rng_next(&r);
        use(copy, zip_size, &read);
    }
    memset(copy, 0, sizeof copy);
    use(copy, sizeof copy, &read);
    for (size_t i = 0; i + 4 < sizeof copy; i += 4) memcpy(copy + i, "PK\5\6", 4);
    use(copy, sizeof copy, &read);
}

static void test_fail_alloc(void **state)
{
    (void)state;
    sp_npz z;
    sparta_tensor t = sparta_tensor_view(SPARTA_U8, 2, (int64_t[]){2, 3}, npy);
    t.stride[0] = 1, t.stride[1] = 2;
    uint64_t n = 1;
    for (;; n++) {
        sp_ctx_fail_alloc(cx, n, false);
        sparta_status status = sp_npz_write(cx, PATH, 1, (const char *const[]){"w"}, &t);
        if (!status) status = sp_npz_read(cx, PATH, &z);
        sp_ctx_fail_alloc(cx, 0, false);
        if (!status) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), 0);
    }
    sp_npz_free(&z);
    assert_true(n > 10);
    made e = deflated_sample();
    make_zip(&e, 1);
    for (n = 1;; n++) {
        sp_ctx_fail_alloc(cx, n, true);
        sparta_status status = read_zip(zip, zip_size, &z);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status == SPARTA_OK || status == SPARTA_E_UNSUPPORTED) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), 0);
    }
    if (sp_ctx_memory(cx)) sp_npz_free(&z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_many),
        cmocka_unit_test(test_written_layout), cmocka_unit_test(test_crc),
        cmocka_unit_test(test_by_hand),        cmocka_unit_test(test_deflated),
        cmocka_unit_test(test_overlap),        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_fail_alloc),
    };
    return cmocka_run_group_tests(tests, set_up_folder, tear_down_folder);
}
