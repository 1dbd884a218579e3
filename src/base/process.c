/* Run a program by argv: no shell, own process group, limits, output through a pipe.
 *
 *     parent                               child (after fork: async-signal-safe calls only)
 *       read `failed` until exec closes it   setpgid, dup2, setrlimit, execve; errno into `failed` when that
 * fails read `said`, look every 20 ms for a cancellation, the timeout, the child's end kill the group, then
 * reap: the id cannot be reused before
 */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAID_MOST = 16 << 10, TICK_MS = 20, TIMED_OUT = -1000 };

typedef struct child {
    pid_t pid;
    int said;         /* read end */
    double stop_at;   /* 0: never */
    sparta_text *out; /* may be NULL */
    size_t kept;      /* bytes put into out */
} child;

/* ------------------------------------------------------------------ the child's side */

static int limit(int which, size_t value)
{
    struct rlimit l = {value, value};
    return value ? setrlimit(which, &l) : 0;
}

static void close_others(int from)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)from, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) == 0) return;
#endif
    for (int fd = from; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

static void reset_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int s = 1; s < NSIG; s++) sigaction(s, &plain, NULL); /* those that cannot change refuse: fine */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const char *const *argv, const char *const *env, const sparta_spawn_options *o,
                             const int said[2], const int failed[2])
{
    struct rlimit no_core = {0, 0};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    reset_signals();
    if (null >= 0 && dup2(null, 0) >= 0 && dup2(said[1], 1) >= 0 && dup2(said[1], 2) >= 0 &&
        !limit(RLIMIT_AS, o->memory) && !limit(RLIMIT_FSIZE, o->output)) {
        setrlimit(RLIMIT_CORE, &no_core);
        close_others(3);
        execve(argv[0], (char *const *)argv, (char *const *)env);
    }
    int error = errno;
    ssize_t ignored = write(failed[1], &error, sizeof error);
    (void)ignored;
    _exit(127);
}

/* ------------------------------------------------------------------ starting */

static void close_both(const int fd[2])
{
    close(fd[0]);
    close(fd[1]);
}

/* A pipe whose ends are above 2, so that the child's dup2 does not run over one when the host closed its own
 * streams. */
static bool make_pipe(int fd[2])
{
    if (pipe2(fd, O_CLOEXEC)) return false;
    for (int i = 0; i < 2; i++) {
        if (fd[i] > 2) continue;
        int high = fcntl(fd[i], F_DUPFD_CLOEXEC, 3);
        if (high < 0) {
            close_both(fd);
            return false;
        }
        close(fd[i]);
        fd[i] = high;
    }
    return true;
}

/* Signals are blocked around the fork: no handler of the host may run in the child. */
static pid_t fork_quietly(const char *const *argv, const sparta_spawn_options *o, const int said[2],
                          const int failed[2])
{
    static const char *const plain_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", NULL};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) become(argv, o->env ? o->env : plain_env, o, said, failed);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

static void reap(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {}
}

static int exec_error(int fd)
{
    int error = 0;
    ssize_t n;
    while ((n = read(fd, &error, sizeof error)) < 0 && errno == EINTR) {}
    return n == (ssize_t)sizeof error ? error : 0;
}

static sparta_status cannot(sparta_ctx *cx, const char *program, int error)
{
    return sparta_fail(cx, SPARTA_E_IO, "spawn: %s cannot be run: %s", program, strerror(error));
}

static sparta_status start(sparta_ctx *cx, const char *const *argv, const sparta_spawn_options *o, child *c)
{
    int said[2], failed[2];
    if (!make_pipe(said)) return cannot(cx, argv[0], errno);
    if (!make_pipe(failed)) {
        sparta_status status = cannot(cx, argv[0], errno);
        close_both(said);
        return status;
    }
    c->pid = fork_quietly(argv, o, said, failed);
    int error = c->pid < 0 ? errno : 0;
    close(said[1]);
    close(failed[1]);
    if (c->pid > 0 && (error = exec_error(failed[0])) != 0) reap(c->pid, NULL);
    close(failed[0]);
    if (error) {
        close(said[0]);
        return cannot(cx, argv[0], error);
    }
    fcntl(said[0], F_SETFL, O_NONBLOCK);
    c->said = said[0];
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ watching */

/* Take what the child has said so far; false at its end. More than the cap is read and dropped: a full pipe
 * would stop it. */
static bool hear(child *c)
{
    char buffer[4096];
    for (;;) {
        ssize_t n = read(c->said, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        if (n == 0) return false;
        size_t keep = SPARTA_MIN((size_t)n, SAID_MOST - c->kept);
        if (c->out && keep) sparta_text_put(c->out, buffer, keep);
        c->kept += keep;
    }
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void nap(double seconds)
{
    struct timespec t = {0, (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

/* Until it ends by itself (OK), is cancelled, or *timed_out. */
static sparta_status watch(sparta_ctx *cx, child *c, bool *timed_out)
{
    bool open = true;
    double pause = 1e-4;
    while (!has_ended(c->pid)) {
        SPARTA_TRY(sparta_check_cancel(cx));
        if (c->stop_at > 0 && sparta_now() >= c->stop_at) {
            *timed_out = true;
            return SPARTA_OK;
        }
        if (open) {
            struct pollfd p = {c->said, POLLIN, 0};
            if (poll(&p, 1, TICK_MS) > 0) open = hear(c);
        } else { /* its streams are closed: it is about to end, or it hides */
            nap(pause);
            pause = SPARTA_MIN(2 * pause, TICK_MS * 1e-3);
        }
    }
    return SPARTA_OK;
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

sparta_status sparta_spawn(sparta_ctx *cx, const char *const *argv, const sparta_spawn_options *options,
                           sparta_text *said, int *exit_code)
{
    static const sparta_spawn_options none = {0};
    const sparta_spawn_options *o = options ? options : &none;
    child c = {.out = said};
    bool timed_out = false;
    int ended = 0;
    if (!argv || !argv[0] || argv[0][0] != '/')
        return sparta_fail(cx, SPARTA_E_USAGE, "spawn: %s is no absolute path",
                           argv && argv[0] ? argv[0] : "nothing");
    SPARTA_TRY(sparta_check_cancel(cx));
    if (o->timeout > 0) c.stop_at = sparta_now() + o->timeout;
    SPARTA_TRY(start(cx, argv, o, &c));
    sparta_status status = watch(cx, &c, &timed_out);
    kill(-c.pid, SIGKILL); /* also what it may have left behind */
    reap(c.pid, &ended);
    hear(&c);
    close(c.said);
    if (status == SPARTA_OK && said && said->status) status = said->status;
    if (status == SPARTA_OK) *exit_code = timed_out ? TIMED_OUT : code_of(ended);
    return status;
}
