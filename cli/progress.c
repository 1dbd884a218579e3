/* Progress on stderr: a line that rewrites itself on a terminal, lines or JSON when asked for, with the time that is left. */
#include "cli.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ------------------------------------------------------------------ how long */

/* Work comes in phases: one begins where the count falls or is of something else. What is left takes as long as what was done in this phase, each.
 * A count that begins at 1 tells what is begun, not what is done; one that goes on where `all` grows has nothing done yet. */
double cli_progress_left(cli_progress *p, double now, int done, int all)
{
    const bool falls = !p->counted || done < p->done;
    if (falls || all != p->all) p->first = falls ? SP_MIN(done, 1) : done, p->since = now;
    p->counted = true;
    p->all = all;
    p->done = done;
    const int finished = done - p->first, left = all - done + (p->first == 1);
    const double spent = now - p->since;
    return finished > 0 && left > 0 && spent > 1 ? spent / finished * left : NAN;
}

void cli_progress_time(double seconds, char *out, size_t size)
{
    *out = 0;
    if (isnan(seconds)) return;
    if (seconds < 60)
        snprintf(out, size, "%.0f s", ceil(seconds));
    else if (seconds < 3600)
        snprintf(out, size, "%.0f min", ceil(seconds / 60));
    else
        snprintf(out, size, "%.1f h", seconds / 3600);
}

/* ------------------------------------------------------------------ forms */

static void as_json(cli *c, int done, int all, double left, const char *what)
{
    sp_text t;
    sp_text_init(&t, c->cx);
    cli_json j = {.t = &t};
    cli_json_open(&j, NULL, '{');
    cli_json_int(&j, "done", done);
    cli_json_int(&j, "all", all);
    cli_json_real(&j, "seconds_left", left);
    cli_json_text(&j, "what", what);
    cli_json_close(&j, '}');
    fprintf(stderr, "%s\n", sp_text_str(&t));
    sp_text_free(&t);
}

/* Of the terminal that stderr is; a line that wraps cannot be rewritten. */
static int columns(void)
{
    struct winsize window;
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col ? window.ws_col : 80;
}

static void as_line(cli *c, const char *count, const char *what)
{
    const int room = columns() - 1 - (int)strlen(count);
    if (room > 0) fprintf(stderr, "\r\033[K%s%.*s", count, room, what);
    c->progress.shown = true;
}

/* How often it is told: a line is rewritten often; others are kept, and said when there is news: something else is done, or a tenth of it all. */
static bool is_due(const cli_progress *p, double now, int done, int all, const char *what)
{
    const bool news = strcmp(p->what, what) != 0 || done < p->told || (done - p->told) >= all / 10.;
    if (p->mode == CLI_PROGRESS_LINE) return now - p->last >= 0.1;
    return p->mode != CLI_PROGRESS_OFF && (news || now - p->last >= 1);
}

void cli_progress_show(void *arg, int done, int all, const char *what)
{
    cli *c = arg;
    cli_progress *p = &c->progress;
    char text[64], left[24], count[96];
    const double now = sp_now();
    double seconds = cli_progress_left(p, now, done, all);
    snprintf(text, sizeof text, "%s", what ? what : "");
    if (p->grows && strcmp(text, "measuring") != 0) seconds = NAN;
    if (!is_due(p, now, done, all, text)) return;
    p->last = now;
    p->told = done;
    snprintf(p->what, sizeof p->what, "%s", text);
    if (p->mode == CLI_PROGRESS_JSON) {
        as_json(c, done, all, seconds, what ? what : "");
        return;
    }
    sp_clean(text); /* layer names come from files */
    cli_progress_time(seconds, left, sizeof left);
    snprintf(count, sizeof count, "%d of %d%s%s%s: ", done, all, *left ? ", about " : "", left,
             *left ? " left" : "");
    if (p->mode == CLI_PROGRESS_PLAIN)
        fprintf(stderr, "sparta: %s%s\n", count, text);
    else
        as_line(c, count, text);
}

void cli_progress_end(cli *c)
{
    if (c->progress.shown) fprintf(stderr, "\r\033[K");
    c->progress.shown = false;
}
