/* The program: reads the line, runs the verb, prints what it said, and exits with the code of its status. */
#include "cli.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------ what goes out */

/* "where: what; what to do" in its three parts; the last two ends may be missing. */
static void split(char *message, const char **where, const char **what, const char **hint)
{
    char *colon = strstr(message, ": "), *semicolon = NULL;
    for (char *p = strstr(message, "; "); p; p = strstr(p + 2, "; ")) semicolon = p;
    *where = colon ? message : "";
    *what = colon ? colon + 2 : message;
    *hint = semicolon && semicolon > colon ? semicolon + 2 : "";
    if (colon) *colon = 0;
    if (**hint) *semicolon = 0;
}

static void error_object(cli *c, sparta_status status, const char *text)
{
    char message[1200];
    const char *where, *what, *hint;
    snprintf(message, sizeof message, "%s", text);
    split(message, &where, &what, &hint);
    cli_json j = {.t = &c->out};
    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "error", '{');
    cli_json_text(&j, "code", sparta_status_name(status));
    cli_json_int(&j, "exit", sp_exit_code(status));
    cli_json_text(&j, "where", where);
    cli_json_text(&j, "message", what);
    cli_json_text(&j, "hint", hint);
    cli_json_close(&j, '}');
    cli_json_close(&j, '}');
    sp_text_printf(&c->out, "\n");
}

static void print_notes(cli *c)
{
    const char *notes = cli_words_of(c, cli_has(c, CLI_QUIET) ? sp_warnings(c->cx) : sparta_notes(c->cx));
    for (const char *p = notes; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (*p != '\n') fprintf(stderr, "sparta: note: %.*s\n", (int)strcspn(p, "\n"), p);
    sp_ctx_forget_notes(c->cx);
    if (c->warning) fprintf(stderr, "sparta: warning: %s\n", c->warning);
}

/* stdout may be closed or its disk full: that is a failure like any other. A reader that has seen enough (`| head`) is none. */
static int print_out(cli *c, int code)
{
    if (c->out.status) {
        fprintf(stderr, "sparta: stdout: %s\n", sparta_message(c->cx));
        return code ? code : sp_exit_code(c->out.status);
    }
    errno = 0;
    bool wrong = c->out.size && fwrite(c->out.data, 1, c->out.size, stdout) != c->out.size;
    if (fflush(stdout) || wrong) {
        if (errno == EPIPE) return code;
        fprintf(stderr, "sparta: stdout: cannot write: %s; look at where it goes\n", strerror(errno));
        return code ? code : 1;
    }
    return code;
}

static int finish(cli *c, sparta_status status)
{
    int code = sp_exit_code(status);
    cli_progress_end(c);
    print_notes(c);
    /* What a verb said before it failed is an answer only when it says that answers differ, or that it stands. */
    bool stands = status == SPARTA_E_DIFFER || c->stands;
    if (status && !stands) sp_text_free(&c->out);
    char message[1200];
    snprintf(message, sizeof message, "%s", sparta_message(c->cx));
    cli_words(message);
    if (status == SPARTA_E_CANCELLED)
        snprintf(message, sizeof message, "%s: interrupted; %s", c->verb ? c->verb->name : "command line",
                 stands ? "what was measured so far is printed"
                        : "no file was left half-written, start it again");
    if (!*message) snprintf(message, sizeof message, "%s", sparta_status_name(status));
    if (status && cli_wants_json(c) && !c->out.size) error_object(c, status, message);
    code = print_out(c, code);
    if (status) fprintf(stderr, "sparta: %s\n", message);
    return code;
}

/* ------------------------------------------------------------------ what comes in */

/* Flags that make the context, and --json, must be known before the line is parsed. */
static const char *peek(int argc, char **argv, const char *flag)
{
    size_t n = strlen(flag);
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        if (strncmp(argv[i], flag, n)) continue;
        if (argv[i][n] == '=') return argv[i] + n + 1;
        if (!argv[i][n] && i + 1 < argc) return argv[i + 1];
    }
    return NULL;
}

static bool asks_json(int argc, char **argv)
{
    bool asks = false;
    for (int i = 1; i < argc; i++) asks |= !strcmp(argv[i], "--json");
    return asks;
}

static const char *or_none(const char *path)
{
    return path && !strcmp(path, "none") ? "" : path;
}

/* The budget is a flag as well: parse it with a context that has the default, then make the real one. */
static sparta_ctx *make_context(int argc, char **argv)
{
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = or_none(peek(argc, argv, "--cache"));
    o.compiler = or_none(peek(argc, argv, "--compiler"));
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        o.strict |= !strcmp(argv[i], "--strict");
        o.copy_files |= !strcmp(argv[i], "--copy");
    }
    const char *memory = peek(argc, argv, "--max-memory");
    if (memory) o.max_memory = cli_parse_size(memory);
    return sparta_ctx_create(&o);
}

static void set_progress(cli *c)
{
    const char *how = cli_text(c, CLI_PROGRESS, "auto");
    if (cli_has(c, CLI_QUIET) || !strcmp(how, "off"))
        c->progress.mode = CLI_PROGRESS_OFF;
    else if (!strcmp(how, "plain"))
        c->progress.mode = CLI_PROGRESS_PLAIN;
    else if (!strcmp(how, "json"))
        c->progress.mode = CLI_PROGRESS_JSON;
    else
        c->progress.mode = isatty(STDERR_FILENO) ? CLI_PROGRESS_LINE : CLI_PROGRESS_OFF;
}

static sparta_status act(cli *c)
{
    if (cli_has(c, CLI_VERSION)) {
        sp_text_printf(&c->out, "sparta %s\n", sparta_version());
        return SPARTA_OK;
    }
    if (cli_has(c, CLI_MAN)) {
        cli_man(c);
        return SPARTA_OK;
    }
    if (cli_has(c, CLI_COMPLETION)) {
        cli_completion(c);
        return SPARTA_OK;
    }
    if (cli_has(c, CLI_HELP) || c->bare) {
        cli_help(c);
        return SPARTA_OK;
    }
    if (!c->verb) return sp_fail(c->cx, SPARTA_E_USAGE, "command line: no verb; `sparta --help` lists them");
    if (!c->verb->run)
        return sp_fail(c->cx, SPARTA_E_UNSUPPORTED,
                       "%s: this version cannot %s yet; `sparta --help` lists what it can", c->verb->name,
                       c->verb->what);
    set_progress(c);
    SP_TRY(cli_check_environment(c));
    SP_TRY(cli_keep_pipes(c));
    SP_TRY(cli_define_formats(c));
    SP_TRY(cli_load_plugins(c));
    return c->verb->run(c);
}

int main(int argc, char **argv)
{
    sparta_ctx *cx = make_context(argc, argv);
    if (!cx) {
        fprintf(stderr, "sparta: command line: no memory to start; close something\n");
        return sp_exit_code(SPARTA_E_MEMORY);
    }
    cli_watch_signals(cx);
    cli_watch_faults(asks_json(argc, argv));
    cli c = {.cx = cx, .bare = argc < 2};
    sp_text_init(&c.out, cx);
    sparta_status status = SPARTA_E_MEMORY;
    c.arena = sp_arena_create(cx);
    if (c.arena) status = cli_parse(&c, argc, argv);
    if (c.arena && !status) status = act(&c);
    if (status) /* --json counts also when the line is wrong */
        if (asks_json(argc, argv) && !cli_has(&c, CLI_JSON)) c.option[CLI_JSON].n = 1;
    int code = finish(&c, status);
    sp_text_free(&c.out);
    if (c.arena) sp_arena_free(c.arena);
    cli_leave_signals();
    sparta_ctx_free(cx);
    return code;
}
