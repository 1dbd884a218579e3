/* Ctrl-C and its kin. The first signal asks the work to stop, which leaves no half-written file; the second kills (SA_RESETHAND). A closed
 * pipe and a file past its limit are errors of writing, not a death. */
#include "cli.h"
#include <signal.h>

static sparta_ctx *volatile interrupted; /* whose work a signal stops; NULL: nobody's */

static void on_signal(int signal)
{
    (void)signal;
    sparta_ctx_cancel(interrupted);
}

void cli_watch_signals(sparta_ctx *cx)
{
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND},
                     ignore = {.sa_handler = SIG_IGN};
    interrupted = cx;
    sigemptyset(&stop.sa_mask);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
}

void cli_leave_signals(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &ignore, NULL);
    sigaction(SIGTERM, &ignore, NULL);
    interrupted = NULL;
}
