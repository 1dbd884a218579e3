/* file, where others write too: what killed processes left behind, files that change while they are in use, copies. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "arrays/arrays.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct place {
    char folder[40];
    sparta_ctx *cx;
} place;

static const char *in(const place *p, const char *name)
{
    static char paths[4][200];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", p->folder, name);
    return path;
}

/* As cp does it: the same file, other bytes. */
static void overwrite(const char *path, const char *text)
{
    usleep(20000); /* file systems count time in steps of some milliseconds */
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* ------------------------------------------------------------------ what is left behind */

static void killed_writers_are_swept(void **state)
{
    const place *p = *state;
    pid_t pid = fork();
    if (pid == 0) {
        sp_atomic *f = sp_atomic_open(p->cx, in(p, "out"));
        if (!f || sp_atomic_write(f, "half", 4)) _exit(1);
        raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(sp_file_write(p->cx, in(p, "other"), "whole", 5), SPARTA_OK);
    char command[100];
    snprintf(command, sizeof command, "test \"$(ls -A %s)\" = other", p->folder);
    assert_int_equal(system(command), 0);
}

static void make(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

/* Names that are like ours and are not, and one that somebody is writing. */
static void other_files_stay(void **state)
{
    const place *p = *state;
    static const char *const stay[] = {"x.0123abcd.sparta-tmp", ".x.0123abcg.sparta-tmp",
                                       ".x.0123abcd",           ".0123abcd.sparta-tmp",
                                       ".x.23abcd.sparta-tmp",  ".x.0123abcd.sparta-tmp~"};
    for (size_t i = 0; i < SP_COUNT(stay); i++) make(in(p, stay[i]));
    make(in(p, ".x.0123abcd.sparta-tmp"));
    make(in(p, ".y.0123abcd.sparta-tmp"));
    int fd = open(in(p, ".y.0123abcd.sparta-tmp"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(sp_file_write(p->cx, in(p, "x"), "whole", 5), SPARTA_OK);
    for (size_t i = 0; i < SP_COUNT(stay); i++) assert_int_equal(access(in(p, stay[i]), F_OK), 0);
    assert_int_equal(access(in(p, ".x.0123abcd.sparta-tmp"), F_OK), -1);
    assert_int_equal(access(in(p, ".y.0123abcd.sparta-tmp"), F_OK), 0);
    close(fd);
}

/* ------------------------------------------------------------------ files that change */

static void a_changed_file_is_found_out(void **state)
{
    const place *p = *state;
    sp_mapped m;
    const char *path = in(p, "w");
    assert_int_equal(sp_file_write(p->cx, path, "0123456789", 10), SPARTA_OK);
    assert_int_equal(sp_mapped_open(p->cx, path, &m), SPARTA_OK);
    assert_int_equal(sp_mapped_check(p->cx, &m, path), SPARTA_OK);
    overwrite(path, "01234x"); /* the same size */
    assert_int_equal(sp_mapped_check(p->cx, &m, path), SPARTA_E_IO);
    assert_non_null(strstr(sparta_message(p->cx), "it was written while it was in use"));
    sp_mapped_close(&m);

    assert_int_equal(sp_mapped_open_beneath(p->cx, p->folder, "w", &m), SPARTA_OK);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(sp_mapped_check(p->cx, &m, path), SPARTA_E_IO);
    assert_non_null(strstr(sparta_message(p->cx), "truncated"));
    sp_mapped_close(&m);

    assert_int_equal(sp_mapped_open(p->cx, path, &m), SPARTA_OK);
    assert_int_equal(sp_file_write(p->cx, path, "another", 7), SPARTA_OK); /* renamed over it */
    assert_int_equal(sp_mapped_check(p->cx, &m, path), SPARTA_OK);
    assert_memory_equal(m.data, "012", 3);
    sp_mapped_close(&m);
}

/* More files than descriptors: those that are not watched are mapped all the same. */
static void few_descriptors_are_enough(void **state)
{
    const place *p = *state;
    struct rlimit before, few;
    sp_mapped m[100];
    assert_int_equal(sp_file_write(p->cx, in(p, "w"), "weights", 7), SPARTA_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (size_t i = 0; i < SP_COUNT(m); i++)
        assert_int_equal(sp_mapped_open(p->cx, in(p, "w"), &m[i]), SPARTA_OK);
    assert_true(m[0].kept);
    for (size_t i = 0; i < SP_COUNT(m); i++) sp_mapped_close(&m[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_copy_stays_as_it_was(void **state)
{
    const place *p = *state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    sp_mapped m;
    const char *path = in(p, "w");
    o.copy_files = 1;
    o.max_memory = 1 << 20;
    sparta_ctx *cx = sparta_ctx_create(&o);
    assert_int_equal(sp_file_write(cx, path, "0123456789", 10), SPARTA_OK);
    assert_int_equal(sp_mapped_open(cx, path, &m), SPARTA_OK);
    overwrite(path, "x");
    assert_int_equal(truncate(path, 1), 0);
    assert_int_equal(sp_mapped_check(cx, &m, path), SPARTA_OK);
    sp_mapped_forget(&m, m.data, m.size);
    assert_memory_equal(m.data, "0123456789", 10);
    sp_mapped_close(&m);
    sp_mapped_close(&m);
    assert_int_equal(sp_ctx_memory(cx), 0);

    assert_int_equal(truncate(path, 2 << 20), 0);
    assert_int_equal(sp_mapped_open(cx, path, &m), SPARTA_E_MEMORY); /* within the budget */
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

/* Descriptors are the host's: only low ones are kept. */
static void descriptors_are_not_used_up(void **state)
{
    const place *p = *state;
    enum { FILES = 700 };
    static sp_mapped m[FILES];
    const char *path = in(p, "w");
    assert_int_equal(sp_file_write(p->cx, path, "0123456789", 10), SPARTA_OK);
    for (int i = 0; i < FILES; i++) assert_int_equal(sp_mapped_open(p->cx, path, &m[i]), SPARTA_OK);
    int fd = open("/dev/null", O_RDONLY);
    assert_true(fd >= 0 && fd <= 513);
    close(fd);
    for (int i = 0; i < FILES; i++) sp_mapped_close(&m[i]);
    fd = open("/dev/null", O_RDONLY);
    assert_true(fd < 100);
    close(fd);
}

static int enter(void **state)
{
    place *p = calloc(1, sizeof *p);
    snprintf(p->folder, sizeof p->folder, "/tmp/sparta-file-host-XXXXXX");
    if (!mkdtemp(p->folder)) return -1;
    *state = p;
    return (p->cx = sparta_ctx_create(NULL)) ? 0 : -1;
}

static int leave(void **state)
{
    place *p = *state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", p->folder);
    int wrong = sp_ctx_memory(p->cx) != 0 || system(command);
    sparta_ctx_free(p->cx);
    free(p);
    return wrong;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(killed_writers_are_swept),    TEST(other_files_stay),
        TEST(a_changed_file_is_found_out), TEST(a_copy_stays_as_it_was),
        TEST(descriptors_are_not_used_up), TEST(few_descriptors_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
