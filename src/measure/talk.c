/* A program that one talks with: one socket is its stdin and stdout, so that a write to a program that has ended is an error and no signal. */
#include "measure/talk.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { TICK_MS = 20 };

/* ------------------------------------------------------------------ starting */

static int set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *how, int socket, const char *errors)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int error = posix_spawn_file_actions_adddup2(files, socket, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(files, socket, 1);
    if (!error)
        error = posix_spawn_file_actions_addopen(files, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!error)
        error = posix_spawnattr_setflags(how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETSIGMASK);
    if (!error) error = posix_spawnattr_setpgroup(how, 0);
    if (!error) error = posix_spawnattr_setsigdefault(how, &all);
    if (!error) error = posix_spawnattr_setsigmask(how, &none);
    return error;
}

static int spawn(const char *const *argv, int socket, const char *errors, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&how);
    if (!error) {
        error = set_up(&files, &how, socket, errors);
        if (!error) error = posix_spawnp(pid, argv[0], &files, &how, (char *const *)argv, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

sparta_status sp_talk_start(sparta_ctx *cx, const char *const *argv, const char *errors, sp_talk *out)
{
    int pair[2];
    pid_t pid = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return sp_fail(cx, SPARTA_E_IO, "%s: no socket to talk with it: %s", argv[0], strerror(errno));
    const int error = spawn(argv, pair[1], errors, &pid);
    close(pair[1]);
    if (error) {
        close(pair[0]);
        return sp_fail(cx, SPARTA_E_IO, "%s: cannot be run: %s", argv[0], strerror(error));
    }
    *out = (sp_talk){.cx = cx, .pid = pid, .socket = pair[0]};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ talking */

static sparta_status gone(sp_talk *t)
{
    return sp_fail(t->cx, SPARTA_E_IO, "the program ended");
}

static sparta_status say(sp_talk *t, const char *line)
{
    const size_t size = strlen(line);
    for (size_t at = 0; at < size;) {
        const ssize_t n = send(t->socket, line + at, size - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return gone(t);
        at += (size_t)n;
    }
    return SPARTA_OK;
}

/* A whole line out of what was heard; false: there is none yet. */
static bool take(sp_talk *t, char *answer, size_t size)
{
    const char *end = memchr(t->heard, '\n', t->n);
    if (!end) return false;
    const size_t length = (size_t)(end - t->heard), keep = SP_MIN(length, size - 1);
    memcpy(answer, t->heard, keep);
    answer[keep] = 0;
    t->n -= length + 1;
    memmove(t->heard, end + 1, t->n);
    return true;
}

/* Wait a moment for more; E_IO at its end. */
static sparta_status hear(sp_talk *t)
{
    struct pollfd p = {t->socket, POLLIN, 0};
    if (poll(&p, 1, TICK_MS) <= 0) return SPARTA_OK;
    if (t->n == sizeof t->heard) return sp_fail(t->cx, SPARTA_E_IO, "the program says too much");
    const ssize_t n = recv(t->socket, t->heard + t->n, sizeof t->heard - t->n, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return gone(t);
    if (n > 0) t->n += (size_t)n;
    return SPARTA_OK;
}

sparta_status sp_talk_ask(sp_talk *t, const char *line, double seconds, char *answer, size_t size)
{
    const double until = sp_now() + seconds;
    kill(-t->pid, SIGCONT);
    if (line) SP_TRY(say(t, line));
    while (!take(t, answer, size)) {
        SP_TRY(sp_check_cancel(t->cx));
        if (sp_now() > until)
            return sp_fail(t->cx, SPARTA_E_IO, "the program did not answer within %g s", seconds);
        SP_TRY(hear(t));
    }
    return SPARTA_OK;
}

void sp_talk_pause(sp_talk *t)
{
    kill(-t->pid, SIGSTOP);
}

void sp_talk_end(sp_talk *t)
{
    if (!t->pid) return;
    close(t->socket);
    kill(-t->pid, SIGKILL);
    while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR) {}
    *t = (sp_talk){0};
}
