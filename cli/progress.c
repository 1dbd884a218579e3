/* Progress on stderr: a line that rewrites itself on a terminal, lines or JSON when asked for. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

static void as_json(cli *c, int done, int all, const char *what)
{
    sp_text t;
    sp_text_init(&t, c->cx);
    cli_json j = {.t = &t};
    cli_json_open(&j, NULL, '{');
    cli_json_int(&j, "done", done);
    cli_json_int(&j, "all", all);
    cli_json_text(&j, "what", what);
    cli_json_close(&j, '}');
    fprintf(stderr, "%s\n", sp_text_str(&t));
    sp_text_free(&t);
}

void cli_progress_show(void *arg, int done, int all, const char *what)
{
    cli *c = arg;
    cli_progress *p = &c->progress;
    double now = sp_now();
    if (p->mode == CLI_PROGRESS_OFF || (p->mode == CLI_PROGRESS_LINE && now - p->last < 0.1)) return;
    p->last = now;
    if (p->mode == CLI_PROGRESS_JSON) {
        as_json(c, done, all, what ? what : "");
        return;
    }
    char text[64];
    snprintf(text, sizeof text, "%s", what ? what : "");
    sp_clean(text); /* layer names come from files */
    if (p->mode == CLI_PROGRESS_PLAIN)
        fprintf(stderr, "sparta: %d of %d: %s\n", done, all, text);
    else
        fprintf(stderr, "\r\033[K%d of %d: %s", done, all, text);
    p->shown = p->mode == CLI_PROGRESS_LINE;
}

void cli_progress_end(cli *c)
{
    if (c->progress.shown) fprintf(stderr, "\r\033[K");
    c->progress.shown = false;
}
