/* The program where a file is truncated under several threads: one message and exit code 1, no signal. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../cli/cli.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 30, SIZE = 1 << 16 };

typedef struct reading {
    const volatile char *bytes;
    pthread_barrier_t start;
} reading;

static void *read_all(void *arg)
{
    reading *r = arg;
    pthread_barrier_wait(&r->start);
    for (int i = 0; i < SIZE; i++) (void)r->bytes[i];
    return NULL;
}

static _Noreturn void fault(int said)
{
    reading r;
    char path[] = "/tmp/sparta-fault-XXXXXX";
    pthread_t thread[THREADS];
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, SIZE) || dup2(said, 2) < 0) _exit(3);
    r.bytes = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    if (r.bytes == MAP_FAILED || unlink(path) || ftruncate(fd, 0)) _exit(3);
    cli_watch_faults(false);
    pthread_barrier_init(&r.start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, read_all, &r)) _exit(3);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    _exit(0);
}

static void threads_fault_together(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int said[2], status = 0, lines = 0;
        assert_int_equal(pipe(said), 0);
        pid_t pid = fork();
        if (pid == 0) fault(said[1]);
        close(said[1]);
        for (char c; read(said[0], &c, 1) == 1;) lines += c == '\n';
        close(said[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_int_equal(lines, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_fault_together)};
    return cmocka_run_group_tests_name("cli: faults", tests, NULL, NULL);
}
