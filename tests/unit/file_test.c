/* file: mapped and atomic files, folders, npy. npz has a file of its own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "arrays/arrays.h"
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[] = "/tmp/sparta-file-XXXXXX";

/* A path in the test's folder; four at a time. */
static const char *in(const char *name)
{
    static char paths[4][5000];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static int files_in_folder(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static void check_content(sparta_ctx *cx, const char *path, const char *expected)
{
    char *bytes;
    size_t n;
    assert_int_equal(sp_file_read(cx, path, 1 << 20, &bytes, &n), SPARTA_OK);
    assert_int_equal(n, strlen(expected));
    assert_string_equal(bytes, expected);
    sp_free(cx, bytes);
}

/* ------------------------------------------------------------------ atomic */

static void test_write_and_read(void **state)
{
    sparta_ctx *cx = *state;
    char *bytes = NULL;
    size_t n = 7;
    assert_int_equal(sp_file_write(cx, in("a"), "hello", 5), SPARTA_OK);
    check_content(cx, in("a"), "hello");
    assert_int_equal(chmod(in("a"), 0640), 0);
    assert_int_equal(sp_file_write(cx, in("a"), "", 0), SPARTA_OK);
    check_content(cx, in("a"), "");
    struct stat st;
    assert_int_equal(stat(in("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640); /* permissions stay */
    assert_int_equal(sp_file_write(cx, in("a"), "hello", 5), SPARTA_OK);
    assert_int_equal(sp_file_read(cx, in("a"), 5, &bytes, NULL), SPARTA_OK);
    sp_free(cx, bytes);
    bytes = NULL;
    assert_int_equal(sp_file_read(cx, in("a"), 4, &bytes, &n), SPARTA_E_LIMIT);
    assert_int_equal(sp_file_read(cx, in("none"), 4, &bytes, &n), SPARTA_E_IO);
    assert_int_equal(sp_file_read(cx, folder, 4, &bytes, &n), SPARTA_E_IO);
    assert_int_equal(sp_file_read(cx, "/dev/zero", 4, &bytes, &n), SPARTA_E_IO);
    assert_true(!bytes && n == 7);
    assert_int_equal(sp_file_read(cx, "/proc/self/status", 1 << 20, &bytes, &n),
                     SPARTA_OK); /* its size is said to be 0 */
    assert_true(n > 10 && strlen(bytes) == n);
    sp_free(cx, bytes);
}

static void test_atomic(void **state)
{
    sparta_ctx *cx = *state;
    static uint8_t block[200000];
    for (size_t i = 0; i < sizeof block; i++) block[i] = (uint8_t)(i * 31);
    int before = files_in_folder();
    sp_file_write(cx, in("b"), "old", 3) == SPARTA_OK ? (void)0 : fail();
    sp_atomic *f = sp_atomic_open(cx, in("b"));
    assert_non_null(f);
    assert_int_equal(files_in_folder(), before + 2);
    assert_int_equal(sp_atomic_write(f, "head", 4), SPARTA_OK);
    assert_int_equal(sp_atomic_align(f, 64), SPARTA_OK);
    assert_int_equal(sp_atomic_align(f, 64), SPARTA_OK);
    assert_int_equal(sp_atomic_offset(f), 64);
    assert_int_equal(sp_atomic_write(f, block, sizeof block), SPARTA_OK); /* larger than the buffer */
    assert_int_equal(sp_atomic_write(f, block, 65535), SPARTA_OK);
    assert_int_equal(sp_atomic_write(f, block, 3), SPARTA_OK);
    assert_int_equal(sp_atomic_align(f, 65536), SPARTA_OK);
    uint64_t end = sp_atomic_offset(f);
    assert_int_equal(end % 65536, 0);
    assert_int_equal(sp_atomic_patch(f, 1, "EAD!", 4), SPARTA_OK);
    assert_int_equal(sp_atomic_offset(f), end);
    assert_int_equal(sp_atomic_write(f, "end", 3), SPARTA_OK);
    check_content(cx, in("b"), "old"); /* until the end */
    assert_int_equal(sp_atomic_end(f, SPARTA_OK), SPARTA_OK);
    assert_int_equal(files_in_folder(), before + 1);
    sp_mapped m;
    assert_int_equal(sp_mapped_open(cx, in("b"), &m), SPARTA_OK);
    assert_int_equal(m.size, end + 3);
    assert_memory_equal(m.data, "hEAD!\0\0\0", 8);
    assert_memory_equal(m.data + 64, block, sizeof block);
    assert_memory_equal(m.data + 64 + sizeof block, block, 65535);
    assert_memory_equal(m.data + end, "end", 3);
    sp_mapped_close(&m);
}

static void test_abort(void **state)
{
    sparta_ctx *cx = *state;
    int before = files_in_folder();
    sp_atomic *f = sp_atomic_open(cx, in("never"));
    assert_int_equal(sp_atomic_write(f, "x", 1), SPARTA_OK);
    assert_int_equal(sp_atomic_end(f, SPARTA_E_CANCELLED), SPARTA_E_CANCELLED);
    assert_int_equal(sp_atomic_end(NULL, SPARTA_E_MEMORY), SPARTA_E_MEMORY);
    f = sp_atomic_open(cx, in("never"));
    assert_int_equal(sp_atomic_patch(f, 0, "x", 1), SPARTA_E_INTERNAL); /* nothing there yet */
    assert_int_equal(sp_atomic_write(f, "x", 1), SPARTA_E_INTERNAL);    /* sticky */
    assert_int_equal(sp_atomic_end(f, SPARTA_OK), SPARTA_E_INTERNAL);
    assert_int_equal(files_in_folder(), before);
}

static void test_bad_targets(void **state)
{
    sparta_ctx *cx = *state;
    int before = files_in_folder();
    static const char *const bad[] = {"/dev/null", "/no/such/folder/file", "", "/tmp/",
                                      "/tmp",      "/proc/version/x"};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        assert_null(sp_atomic_open(cx, bad[i]));
        assert_int_equal(sp_ctx_status(cx), SPARTA_E_IO);
    }
    assert_int_equal(sp_file_write(cx, "/dev/null", "x", 1), SPARTA_E_IO);
    assert_string_equal(sparta_message(cx), "/dev/null: not a regular file");
    char name[300];
    memset(name, 'n', 250), name[250] = 0; /* the temporary name is longer: it must be cut */
    assert_int_equal(sp_file_write(cx, in(name), "x", 1), SPARTA_OK);
    check_content(cx, in(name), "x");
    assert_int_equal(remove(in(name)), 0);
    memset(name, 'n', 299), name[299] = 0;
    assert_int_equal(sp_file_write(cx, in(name), "x", 1), SPARTA_E_IO);
    assert_int_equal(files_in_folder(), before);
}

/* A file that may not grow stands for a full disk. */
static void test_full_disk(void **state)
{
    sparta_ctx *cx = *state;
    static uint8_t block[300000];
    int before = files_in_folder();
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    sparta_status status = sp_file_write(cx, in("full"), block, sizeof block);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, SPARTA_E_IO);
    assert_non_null(strstr(sparta_message(cx), "File too large"));
    assert_int_equal(files_in_folder(), before);
}

static void test_make_folder(void **state)
{
    sparta_ctx *cx = *state;
    assert_int_equal(sp_make_folder(cx, in("x/y//z/")), SPARTA_OK);
    assert_int_equal(sp_make_folder(cx, in("x/y")), SPARTA_OK);
    assert_int_equal(sp_file_write(cx, in("x/y/z/f"), "1", 1), SPARTA_OK);
    assert_int_equal(sp_make_folder(cx, in("x/y/z/f")), SPARTA_E_IO);
    assert_int_equal(sp_make_folder(cx, in("x/y/z/f/g")), SPARTA_E_IO);
    assert_int_equal(sp_make_folder(cx, ""), SPARTA_E_IO);
    assert_int_equal(sp_make_folder(cx, "/"), SPARTA_OK);
}

/* ------------------------------------------------------------------ mapped */

static void test_mapped(void **state)
{
    sparta_ctx *cx = *state;
    sp_mapped m = {.size = 99};
    assert_int_equal(sp_file_write(cx, in("empty"), "", 0), SPARTA_OK);
    assert_int_equal(sp_mapped_open(cx, in("nothing"), &m), SPARTA_E_IO);
    assert_int_equal(sp_mapped_open(cx, folder, &m), SPARTA_E_IO);
    assert_int_equal(sp_mapped_open(cx, "/dev/null", &m), SPARTA_E_IO);
    assert_int_equal(mkfifo(in("fifo"), 0600), 0);
    assert_int_equal(sp_mapped_open(cx, in("fifo"), &m), SPARTA_E_IO); /* does not wait for a writer */
    assert_int_equal(m.size, 99);
    assert_int_equal(sp_mapped_open(cx, in("empty"), &m), SPARTA_OK);
    assert_true(m.size == 0 && m.data);
    sp_mapped_close(&m);
    sp_mapped_close(&m);
}

static void check_beneath(sparta_ctx *cx);

static void test_beneath(void **state)
{
    sparta_ctx *cx = *state;
    assert_int_equal(sp_make_folder(cx, in("model/sub")), SPARTA_OK);
    assert_int_equal(sp_file_write(cx, in("model/w.bin"), "weights", 7), SPARTA_OK);
    assert_int_equal(sp_file_write(cx, in("model/sub/w.bin"), "inner", 5), SPARTA_OK);
    assert_int_equal(sp_file_write(cx, in("secret"), "secret", 6), SPARTA_OK);
    assert_int_equal(sp_file_write(cx, in("model/..x"), "dots", 4), SPARTA_OK);
    assert_int_equal(symlink(in("secret"), in("model/link")), 0);
    assert_int_equal(symlink("w.bin", in("model/inner-link")), 0);
    assert_int_equal(symlink("..", in("model/up")), 0);
    assert_int_equal(symlink("sub", in("model/sub-link")), 0);
    assert_int_equal(link(in("secret"), in("model/hard")), 0);
    assert_int_equal(mkfifo(in("model/fifo"), 0600), 0);
    check_beneath(cx);
}

static void check_beneath(sparta_ctx *cx)
{
    sp_mapped m = {.size = 99};
    static const char *const bad[] = {
        "../secret", "sub/../../secret", "/etc/passwd", "",     "..",  "link", "inner-link",
        "up/secret", "sub-link/w.bin",   "hard",        "fifo", "sub", "none", "sub/..",
        ".",         "w.bin/",           "w.bin/x"};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        sparta_status status = sp_mapped_open_beneath(cx, in("model"), bad[i], &m);
        if (status != SPARTA_E_IO) fail_msg("\"%s\" gives %s", bad[i], sparta_status_name(status));
        assert_non_null(strstr(sparta_message(cx), bad[i]));
        assert_int_equal(m.size, 99);
    }
    static const char *const good[][2] = {
        {"w.bin", "weights"}, {"sub/w.bin", "inner"}, {"./sub//w.bin", "inner"}, {"..x", "dots"}};
    for (size_t i = 0; i < SP_COUNT(good); i++) {
        assert_int_equal(sp_mapped_open_beneath(cx, in("model"), good[i][0], &m), SPARTA_OK);
        assert_int_equal(m.size, strlen(good[i][1]));
        assert_memory_equal(m.data, good[i][1], m.size);
        sp_mapped_close(&m);
    }
    assert_int_equal(sp_mapped_open_beneath(cx, in("no-model"), "w.bin", &m), SPARTA_E_IO);
}

/* ------------------------------------------------------------------ npy */

static void test_npy_round_trip(void **state)
{
    sparta_ctx *cx = *state;
    static const int64_t shapes[][4] = {{0}, {1, 5}, {2, 3, 4}, {3, 2, 0, 3}, {3, 2, 3, 4}};
    for (int d = 0; d < SP_DTYPES; d++)
        for (size_t k = 0; k < SP_COUNT(shapes); k++) {
            sparta_tensor t, u;
            int rank = (int)shapes[k][0];
            assert_int_equal(sp_tensor_alloc(cx, (sparta_dtype)d, rank, shapes[k] + 1, &t), SPARTA_OK);
            int64_t n = sparta_tensor_elements(&t);
            for (int64_t i = 0; i < n; i++) sp_element_set(t.dtype, t.data, i, (double)(i % 50));
            assert_int_equal(sp_npy_write(cx, in("t.npy"), &t), SPARTA_OK);
            assert_int_equal(sp_npy_read(cx, in("t.npy"), &u), SPARTA_OK);
            if (sp_dtype_bits(t.dtype) < 8) { /* V1: all are read as the widest, and named anew */
                assert_int_equal(u.dtype, SPARTA_U4);
                assert_true(sp_tensor_narrow(&u, t.dtype));
            }
            assert_int_equal(u.dtype, t.dtype);
            assert_true(sp_tensor_same_shape(&t, &u));
            assert_memory_equal(t.data, u.data, (size_t)n * sparta_dtype_size(t.dtype));
            sp_free(cx, t.data);
            sp_free(cx, u.data);
        }
}

static void test_npy_strided(void **state)
{
    sparta_ctx *cx = *state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 2}, data), u;
    t.stride[0] = 1, t.stride[1] = 3; /* the transpose of (2,3) */
    assert_int_equal(sp_npy_write(cx, in("t.npy"), &t), SPARTA_OK);
    assert_int_equal(sp_npy_read(cx, in("t.npy"), &u), SPARTA_OK);
    assert_memory_equal(u.data, ((float[]){1, 4, 2, 5, 3, 6}), 24);
    sp_free(cx, u.data);
}

/* A .npy of this version and dictionary, followed by n bytes 0 1 2 ... */
static size_t compose(uint8_t *out, int version, const char *dictionary, size_t n)
{
    size_t length = strlen(dictionary), start = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version, out[7] = 0;
    for (size_t i = 8; i < start; i++) out[i] = (uint8_t)(length >> (8 * (i - 8)));
    memcpy(out + start, dictionary, length);
    for (size_t i = 0; i < n; i++) out[start + length + i] = (uint8_t)i;
    return start + length + n;
}

static void test_npy_header(void **state)
{
    sparta_ctx *cx = *state;
    sp_text text;
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){3}, NULL);
    sp_text_init(&text, cx);
    sp_npy_header(&t, &text);
    assert_int_equal(text.size, 128);
    assert_memory_equal(text.data,
                        "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  ", 69);
    assert_int_equal(text.data[127], '\n');
    sp_text_free(&text);
    static uint8_t bytes[1000];
    static const char *const good[] = {
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }   \n",
        "{'shape':(2,3),\"descr\":\"<i2\",'fortran_order':False}",
        " { 'shape' : ( 2 , 3 , ) , 'descr' : '<i2' , 'fortran_order' : False , } \n",
    };
    for (int version = 1; version <= 3; version++)
        for (size_t i = 0; i < SP_COUNT(good); i++) {
            size_t n = compose(bytes, version, good[i], 12);
            assert_int_equal(sp_npy_parse(cx, bytes, n, &t), SPARTA_OK);
            assert_true(t.dtype == SPARTA_I16 && t.rank == 2 && t.dim[0] == 2 && t.dim[1] == 3);
            assert_memory_equal(t.data, ((uint8_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), 12);
            sp_free(cx, t.data);
        }
    size_t n = compose(bytes, 1, "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3)}", 6);
    assert_int_equal(sp_npy_parse(cx, bytes, n, &t), SPARTA_OK);
    assert_memory_equal(t.data, ((uint8_t[]){0, 2, 4, 1, 3, 5}), 6);
    sp_free(cx, t.data);
    n = compose(bytes, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", 4);
    assert_int_equal(sp_npy_parse(cx, bytes, n, &t), SPARTA_OK);
    assert_memory_equal(t.data, ((uint8_t[]){0, 1, 1, 1}), 4); /* 2 and 3 are true */
    sp_free(cx, t.data);
}

static void test_npy_hostile(void **state)
{
    sparta_ctx *cx = *state;
    static uint8_t bytes[200000];
    static const struct {
        const char *dictionary;
        sparta_status status;
    } rows[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", SPARTA_E_UNSUPPORTED},
        {"{'descr': '|S8', 'fortran_order': False, 'shape': (1,)}", SPARTA_E_UNSUPPORTED},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", SPARTA_E_UNSUPPORTED},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", SPARTA_E_UNSUPPORTED},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", SPARTA_E_UNSUPPORTED},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", SPARTA_E_UNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}", SPARTA_E_UNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}", SPARTA_E_LIMIT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,4294967296,4294967296)}", SPARTA_E_LIMIT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'shape': (2,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", SPARTA_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", SPARTA_E_FORMAT},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", SPARTA_E_FORMAT},
        {"{'descr': '<f4", SPARTA_E_FORMAT},
        {"{'descr", SPARTA_E_FORMAT},
        {"{", SPARTA_E_FORMAT},
        {"", SPARTA_E_FORMAT},
        {"{}", SPARTA_E_FORMAT},
    };
    sparta_tensor t = {.rank = 55};
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        size_t n = compose(bytes, 1, rows[i].dictionary, 8);
        if (i == 0) assert_true(n > 8);
        sparta_status status = sp_npy_parse(cx, bytes, n, &t);
        if (status != rows[i].status)
            fail_msg("%s gives %s: %s", rows[i].dictionary, sparta_status_name(status), sparta_message(cx));
    }
    const char *good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    for (int version = 1; version <= 2; version++) {
        size_t n = compose(bytes, version, good, 8);
        for (size_t cut = 0; cut < n;
             cut++) { /* cut anywhere; a copy of that size, so that the sanitizer sees the end */
            uint8_t *part = malloc(cut + 1);
            memcpy(part, bytes, cut);
            assert_int_equal(sp_npy_parse(cx, part, cut, &t), SPARTA_E_FORMAT);
            free(part);
        }
    }
    size_t n = compose(bytes, 4, good, 8);
    assert_int_equal(sp_npy_parse(cx, bytes, n, &t), SPARTA_E_UNSUPPORTED);
    compose(bytes, 2, good, 8);
    bytes[10] = 2; /* a header of 128 KiB */
    assert_int_equal(sp_npy_parse(cx, bytes, sizeof bytes, &t), SPARTA_E_LIMIT);
    assert_int_equal(t.rank, 55);
    assert_int_equal(sp_npy_read(cx, in("none.npy"), &t), SPARTA_E_IO);
    sp_file_write(cx, in("bad.npy"), "xx", 2) == SPARTA_OK ? (void)0 : fail();
    assert_int_equal(sp_npy_read(cx, in("bad.npy"), &t), SPARTA_E_FORMAT);
    assert_memory_equal(sparta_message(cx), folder, strlen(folder)); /* the message names the file */
}

/* ------------------------------------------------------------------ failures */

static void test_fail_alloc(void **state)
{
    sparta_ctx *cx = *state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 2}, data), u;
    t.stride[0] = 1, t.stride[1] = 3;
    uint64_t n = 1;
    int before = files_in_folder();
    for (;; n++) {
        sp_ctx_fail_alloc(cx, n, false);
        sparta_status status = sp_npy_write(cx, in("failing.npy"), &t);
        if (!status) status = sp_npy_read(cx, in("failing.npy"), &u);
        sp_ctx_fail_alloc(cx, 0, false);
        if (!status) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), 0);
        assert_true(files_in_folder() <= before + 1); /* no temporary file left */
    }
    assert_true(n > 4);
    sp_free(cx, u.data);
    sparta_ctx *poor =
        sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .max_memory = 1000});
    assert_int_equal(sp_npy_write(poor, in("poor.npy"), &t), SPARTA_E_MEMORY);
    sparta_ctx_free(poor);
}

static void test_cancelled(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    int before = files_in_folder();
    sparta_ctx_cancel(cx);
    assert_int_equal(sp_file_write(cx, in("cancelled"), "x", 1), SPARTA_E_CANCELLED);
    assert_int_equal(files_in_folder(), before);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

/* Kernels and sandboxes without openat2 answer ENOSYS: the rules must hold all the same. Cannot be undone:
 * the last test. */
static void test_beneath_without_openat2(void **state)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {SP_COUNT(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        skip();
    assert_int_equal(syscall(SYS_openat2, -1, "", NULL, 0), -1);
    assert_int_equal(errno, ENOSYS);
    check_beneath(*state);
}

static int set_up(void **state)
{
    if (!mkdtemp(folder)) return -1;
    return (*state = sparta_ctx_create(NULL)) ? 0 : -1;
}

static int tear_down(void **state)
{
    const char *argv[] = {"/bin/rm", "-rf", folder, NULL};
    int code = 1;
    if (sp_spawn(*state, argv, NULL, NULL, &code)) return -1;
    int held = sp_ctx_memory(*state) != 0;
    sparta_ctx_free(*state);
    return held || code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_atomic),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_bad_targets),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_make_folder),
        cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_beneath),
        cmocka_unit_test(test_npy_round_trip),
        cmocka_unit_test(test_npy_strided),
        cmocka_unit_test(test_npy_header),
        cmocka_unit_test(test_npy_hostile),
        cmocka_unit_test(test_fail_alloc),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_beneath_without_openat2),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
