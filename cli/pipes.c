/* Process substitution: a file that is a pipe can be read once, from its start to its end, and the verbs open files as often as they
 * like. So a pipe is read whole before they begin, into a file in memory, and the option names that one. */
#include "cli.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

static const cli_option_id files[] = {CLI_SCHEDULE, CLI_FORMATS, CLI_MASKS, CLI_INPUTS};

static sparta_status io_error(cli *c, const char *path, const char *what)
{
    return sp_fail(c->cx, SPARTA_E_IO, "%s: a pipe that %s: %s; write it to a file and give that", path, what,
                   strerror(errno));
}

/* open(), read() and write() go on after a signal, unless it asks to stop. */
static sparta_status again(cli *c, const char *path, const char *what)
{
    SP_TRY(sp_check_cancel(c->cx));
    return errno == EINTR ? SPARTA_OK : io_error(c, path, what);
}

static sparta_status write_whole(cli *c, const char *path, int to, const char *bytes, size_t n)
{
    while (n) {
        ssize_t done = write(to, bytes, n);
        if (done < 0) SP_TRY(again(c, path, "cannot be kept in memory"));
        if (done < 0) continue;
        bytes += done;
        n -= (size_t)done;
    }
    return SPARTA_OK;
}

static sparta_status copy(cli *c, const char *path, int from, int to)
{
    char buffer[16384];
    const size_t most = sp_ctx_budget(c->cx);
    for (size_t all = 0;;) {
        ssize_t n = read(from, buffer, sizeof buffer);
        if (n < 0) SP_TRY(again(c, path, "cannot be read"));
        if (n < 0) continue;
        if (n == 0) return SPARTA_OK;
        all += (size_t)n;
        if (all > most)
            return sp_fail(c->cx, SPARTA_E_LIMIT,
                           "%s: a pipe with more than the budget of %zu bytes; raise --max-memory", path,
                           most);
        SP_TRY(write_whole(c, path, to, buffer, (size_t)n));
    }
}

/* Waits for a writer. */
static sparta_status open_pipe(cli *c, const char *path, int *out)
{
    while ((*out = open(path, O_RDONLY | O_CLOEXEC)) < 0) SP_TRY(again(c, path, "cannot be opened"));
    return SPARTA_OK;
}

/* The copy lives as long as the process. */
static sparta_status keep(cli *c, const char **path)
{
    int from, to = memfd_create("pipe", MFD_CLOEXEC);
    if (to < 0) return io_error(c, *path, "cannot be kept in memory");
    sparta_status status = open_pipe(c, *path, &from);
    if (!status) status = copy(c, *path, from, to);
    if (from >= 0) close(from);
    if (status) {
        close(to);
        return status;
    }
    const char *kept = sp_arena_printf(c->arena, "/proc/self/fd/%d", to);
    SP_NEED(c->cx, kept);
    *path = kept;
    return SPARTA_OK;
}

sparta_status cli_keep_pipes(cli *c)
{
    for (size_t i = 0; i < SP_COUNT(files); i++) {
        cli_values *v = &c->option[files[i]];
        struct stat s;
        for (int k = 0; k < v->n; k++)
            if (!stat(v->value[k], &s) && S_ISFIFO(s.st_mode)) SP_TRY(keep(c, &v->value[k]));
    }
    return SPARTA_OK;
}
