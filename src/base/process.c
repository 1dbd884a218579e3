/* Run programs by argv, one or several side by side: no shell, own process group, limits, output through a pipe.
 *
 *     parent                         keeper (a fork of us, leads the group)         program
 *       reads `said` and `report`      waits for the program's end, for the time      setrlimit, execve; errno into
 *       closes `life` to stop it       that it has, for the end of `life`             `report` when that fails
 *                                      exit code into `report`, kills the group
 *
 * The keeper is there because the parent is somebody else's process. A host may ignore SIGCHLD or reap every child itself, which
 * loses the exit code of ours; it may be killed, and then `life` ends and the compiler with it. Keeper and program call nothing but
 * async-signal-safe functions: other threads of the host may have held any lock when we forked.
 */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAID_MOST = 16 << 10, TICK_MS = 20, TIMED_OUT = -1000, AT_ONCE_MOST = 64 };

typedef struct report { /* one write to a pipe: whole or not at all */
    int error;          /* errno of an exec that failed, or 0 */
    int code;           /* as sp_spawn gives it */
} report;

typedef struct pipes { /* [0]: read end, [1]: write end */
    int said[2], report[2], life[2];
} pipes;

typedef struct child {
    sp_program *of;
    pid_t pid;              /* of the keeper */
    int said, report, life; /* our ends */
    size_t kept;            /* bytes put into of->said */
    bool silent;            /* it has closed its output */
} child;

/* ------------------------------------------------------------------ the program's side */

/* No more than `value`, and no more than the host itself may have. */
static int limit(int which, size_t value)
{
    struct rlimit l;
    if (!value) return 0;
    if (getrlimit(which, &l)) return -1;
    if (l.rlim_max == RLIM_INFINITY || l.rlim_max > value) l.rlim_max = value;
    l.rlim_cur = l.rlim_max;
    return setrlimit(which, &l);
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

static void close_range_of(int first, int last)
{
    if (first > last) return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) == 0) return;
#endif
    for (int fd = first; fd <= last && fd < 1024; fd++) close(fd);
}

static void reset_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int s = 1; s < NSIG; s++) sigaction(s, &plain, NULL); /* those that cannot change refuse: fine */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void tell(const pipes *p, int error, int code)
{
    report r = {error, code};
    ssize_t ignored = write(p->report[1], &r, sizeof r);
    (void)ignored;
}

static _Noreturn void become(const char *const *argv, const sp_spawn_options *o, const pipes *p)
{
    static const char *const plain_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", NULL};
    const char *const *env = o->env ? o->env : plain_env;
    struct rlimit no_core = {0, 0};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should somebody kill the keeper */
    reset_signals();
    if (null >= 0 && dup2(null, 0) >= 0 && dup2(p->said[1], 1) >= 0 && dup2(p->said[1], 2) >= 0 &&
        !limit(RLIMIT_AS, o->memory) && !limit(RLIMIT_FSIZE, o->output)) {
        setrlimit(RLIMIT_CORE, &no_core);
        close_others(3);
        execve(argv[0], (char *const *)argv, (char *const *)env);
    }
    tell(p, errno, 0);
    _exit(127);
}

/* ------------------------------------------------------------------ the keeper's side */

static void interrupt_poll(int signal)
{
    (void)signal;
}

/* It lives as long as the program: what the host closes meanwhile must be closed. */
static void keep_only(const pipes *p)
{
    const int keep[] = {p->said[1], p->report[1], p->life[0]};
    for (int fd = 3; fd < INT_MAX;) {
        int next = INT_MAX;
        for (size_t i = 0; i < SP_COUNT(keep); i++)
            if (keep[i] >= fd && keep[i] < next) next = keep[i];
        close_range_of(fd, next - 1);
        fd = next < INT_MAX ? next + 1 : next;
    }
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Until the program ends, its time is over, or nobody waits for it any more. SIGCHLD gets through in ppoll alone, so that none is
 * missed. */
static void watch_program(pid_t pid, double stop_at, const pipes *p)
{
    sigset_t none;
    sigemptyset(&none);
    for (int status;;) {
        struct pollfd life = {p->life[0], 0, 0};
        const double left = stop_at > 0 ? stop_at - sp_now() : 3600;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            tell(p, 0, code_of(status));
            return;
        }
        if (left <= 0) {
            tell(p, 0, TIMED_OUT);
            return;
        }
        const struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        if (ppoll(&life, 1, &t, &none) > 0) return;
    }
}

static _Noreturn void keep(const char *const *argv, const sp_spawn_options *o, const pipes *p)
{
    const double stop_at = o->timeout > 0 ? sp_now() + o->timeout : 0;
    struct sigaction wake = {.sa_handler = interrupt_poll}, ignore = {.sa_handler = SIG_IGN};
    sigset_t ended;
    reset_signals();
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    sigaction(SIGCHLD, &wake, NULL);
    sigaction(SIGPIPE, &ignore, NULL); /* nobody may be left to read the report */
    if (setpgid(0, 0)) {               /* without a group of its own it must not kill its group */
        tell(p, errno, 0);
        _exit(1);
    }
    keep_only(p);
    /* glibc's fork takes locks that another thread of the host may have held; and the tables of a large host are copied once, not twice. */
    pid_t pid = vfork();
    if (pid == 0) become(argv, o, p);
    if (pid < 0)
        tell(p, errno, 0);
    else
        watch_program(pid, stop_at, p);
    kill(0, SIGKILL); /* the program, what it may have left behind, and us */
    _exit(1);
}

/* ------------------------------------------------------------------ starting */

static void close_both(const int fd[2])
{
    close(fd[0]);
    close(fd[1]);
}

/* A pipe whose ends are above 2, so that the child's dup2 does not run over one when the host closed its own streams. */
static bool make_pipe(int fd[2])
{
    if (pipe2(fd, O_CLOEXEC)) return false;
    for (int i = 0; i < 2; i++) {
        if (fd[i] > 2) continue;
        int high = fcntl(fd[i], F_DUPFD_CLOEXEC, 3);
        if (high < 0) {
            close_both(fd);
            fd[0] = fd[1] = -1;
            return false;
        }
        close(fd[i]);
        fd[i] = high;
    }
    return true;
}

static void close_pipes(const pipes *p)
{
    close_both(p->said);
    close_both(p->report);
    close_both(p->life);
}

static bool make_pipes(pipes *p)
{
    *p = (pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (make_pipe(p->said) && make_pipe(p->report) && make_pipe(p->life)) return true;
    int error = errno;
    close_pipes(p);
    errno = error;
    return false;
}

/* Signals are blocked around the fork: no handler of the host may run in the keeper. */
static pid_t fork_quietly(const char *const *argv, const sp_spawn_options *o, const pipes *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) keep(argv, o, p);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

/* Whether it runs; else why not is in the program. */
static bool start(sp_program *program, child *c)
{
    static const sp_spawn_options none = {0};
    pipes p;
    *c = (child){.of = program};
    if (!make_pipes(&p)) {
        program->error = errno;
        return false;
    }
    c->pid = fork_quietly(program->argv, program->options ? program->options : &none, &p);
    if (c->pid < 0) {
        program->error = errno;
        close_pipes(&p);
        return false;
    }
    close(p.said[1]);
    close(p.report[1]);
    close(p.life[0]);
    c->said = p.said[0];
    c->report = p.report[0];
    c->life = p.life[1];
    fcntl(c->said, F_SETFL, O_NONBLOCK);
    fcntl(c->report, F_SETFL, O_NONBLOCK);
    return true;
}

/* ------------------------------------------------------------------ watching */

/* Take what the program has said so far; false at its end. More than the cap is read and dropped: a full pipe would stop it. */
static bool hear(child *c)
{
    char buffer[4096];
    for (;;) {
        ssize_t n = read(c->said, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        if (n == 0) return false;
        size_t keep = SP_MIN((size_t)n, SAID_MOST - c->kept);
        if (c->of->said && keep) sp_text_put(c->of->said, buffer, keep);
        c->kept += keep;
    }
}

static bool has_report(const child *c, report *r)
{
    ssize_t n;
    while ((n = read(c->report, r, sizeof *r)) < 0 && errno == EINTR) {}
    return n == (ssize_t)sizeof *r;
}

/* Also when the host has reaped it. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    int got = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return got ? errno == ECHILD : info.si_pid == pid;
}

/* Is it done? Then the program has what came of it. A keeper that was killed reports nothing. */
static bool is_done(const child *c)
{
    report r;
    const bool ended = has_ended(c->pid); /* before the look: what came before the end is seen */
    if (!has_report(c, &r)) {
        if (!ended) return false;
        r = (report){0, -SIGKILL};
    }
    c->of->error = r.error;
    c->of->exit_code = r.code;
    return true;
}

/* Until one of them has something to say, or a moment has passed. */
static void wait_for(child *c, int n)
{
    struct pollfd p[2 * AT_ONCE_MOST];
    for (int i = 0; i < n; i++) {
        p[2 * i] = (struct pollfd){c[i].silent ? -1 : c[i].said, POLLIN, 0};
        p[2 * i + 1] = (struct pollfd){c[i].report, POLLIN, 0};
    }
    if (poll(p, 2 * (nfds_t)n, TICK_MS) <= 0) return;
    for (int i = 0; i < n; i++)
        if (p[2 * i].revents) c[i].silent = !hear(&c[i]);
}

/* `stop`: the keeper is not done. A fork of the host may hold `life` open too: the end of that is not enough to stop it. */
static void finish(child *c, bool stop)
{
    close(c->life); /* whatever still runs ends now */
    if (stop && !has_ended(c->pid)) kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {}
    hear(c);
    close(c->said);
    close(c->report);
}

sparta_status sp_spawn_all(sparta_ctx *cx, sp_program *all, int n, int at_once)
{
    child running[AT_ONCE_MOST];
    int next = 0, n_running = 0;
    const int most = SP_MAX(1, SP_MIN(at_once, AT_ONCE_MOST));
    sparta_status status = sp_check_cancel(cx);
    while (status == SPARTA_OK && (next < n || n_running)) {
        while (next < n && n_running < most) n_running += start(&all[next++], &running[n_running]);
        const int before = n_running;
        for (int i = n_running; i-- > 0;) {
            if (!is_done(&running[i])) continue;
            finish(&running[i], false);
            for (; running[i].of->exit_code == TIMED_OUT && next < n; next++) all[next].error = ETIMEDOUT;
            running[i] = running[--n_running];
        }
        if (n_running == before) wait_for(running, n_running);
        status = sp_check_cancel(cx);
    }
    while (n_running) finish(&running[--n_running], true);
    return status;
}

sparta_status sp_spawn(sparta_ctx *cx, const char *const *argv, const sp_spawn_options *options,
                       sp_text *said, int *exit_code)
{
    sp_program p = {.argv = argv, .options = options, .said = said};
    if (!argv || !argv[0] || argv[0][0] != '/')
        return sp_fail(cx, SPARTA_E_USAGE, "spawn: %s is no absolute path",
                       argv && argv[0] ? argv[0] : "nothing");
    SP_TRY(sp_spawn_all(cx, &p, 1, 1));
    if (p.error) return sp_fail(cx, SPARTA_E_IO, "spawn: %s cannot be run: %s", argv[0], strerror(p.error));
    if (said && said->status) return said->status;
    *exit_code = p.exit_code;
    return SPARTA_OK;
}
