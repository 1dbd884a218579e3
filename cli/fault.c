/* A file that somebody truncates while it is mapped: reading past its new end is SIGBUS. The program then says which file it was
 * and ends with exit code 1, as for any other file that cannot be read.
 *
 * The handler calls async-signal-safe functions only: it looks up the address in /proc/self/maps with a buffer of its own. An address
 * that lies in no file is something else (a bug, broken memory), and the signal does what it always does. Threads that share the work
 * fault together: the first speaks, the others wait for the end. */
#include "cli.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static bool wants_json;

static void put(int fd, const char *text, size_t n)
{
    while (n) {
        ssize_t done = write(fd, text, n);
        if (done <= 0) return;
        text += done;
        n -= (size_t)done;
    }
}

static void say(int fd, const char *text)
{
    put(fd, text, strlen(text));
}

static const char *hex(const char *p, uintptr_t *out)
{
    *out = 0;
    for (;; p++) {
        const int digit = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;
        if (digit < 0) return p;
        *out = *out << 4 | (uintptr_t)digit;
    }
}

/* "7f01-7f02 r--p 00000000 08:01 1234   /path": the path, when the address lies in the range; NULL: not this line. */
static const char *path_in(const char *line, uintptr_t address)
{
    uintptr_t from, to;
    const char *p = hex(line, &from);
    if (*p != '-') return NULL;
    hex(p + 1, &to);
    return address >= from && address < to ? strchr(line, '/') : NULL;
}

/* One line of the file at a time, what does not fit is dropped; false at the end. */
static bool next_line(int fd, char *line, size_t size)
{
    size_t n = 0;
    char c;
    ssize_t got;
    while ((got = read(fd, &c, 1)) == 1 && c != '\n')
        if (n + 1 < size) line[n++] = c;
    line[n] = 0;
    return got == 1;
}

static void explain(const char *path)
{
    static const char what[] = "the file was truncated while it was in use",
                      help[] = "write a new file and rename it over the old one, or give --copy";
    if (wants_json) {
        say(1, "{\"error\": {\"code\": \"E_IO\", \"exit\": 1, \"where\": \"\", \"message\": \"");
        say(1, what), say(1, "\", \"hint\": \""), say(1, help), say(1, "\"}}\n");
    }
    say(2, "sparta: ");
    for (const char *p = path; *p; p++) put(2, (unsigned char)*p < 32 || *p == 127 ? "?" : p, 1);
    say(2, ": "), say(2, what), say(2, "; "), say(2, help), say(2, "\n");
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    static char line[4096 + 128];
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    const char *path = NULL;
    while (atomic_flag_test_and_set(&taken)) pause();
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !path && next_line(fd, line, sizeof line))
        path = path_in(line, (uintptr_t)info->si_addr);
    if (path) {
        explain(path);
        _exit(1);
    }
    sigaction(signal, &plain, NULL);
    raise(signal); /* it kills when the handler returns */
}

void cli_watch_faults(bool json)
{
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    wants_json = json;
    sigemptyset(&act.sa_mask);
    sigaction(SIGBUS, &act, NULL);
}
