/* sparta doctor --times and --forget: what the tuning database remembers, how old and how noisy it is, whether it is believed, and how it
 * goes; and the same of the times of layers in PyTorch, which lie in a file of their own beside it (doctor_torch.c). */
#include "verbs.h"
#include "tune/tune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };
#define MACHINE " cpu=" /* a key from here on: versions and machine */
#define TUNED   "gpu"   /* tasks of points that were searched for begin so */

typedef struct memory {
    cli *c;
    char file[PATH_SIZE], torch[PATH_SIZE]; /* "": not asked for, or not there */
    const char *glob;                       /* of --forget; NULL: all but what was tuned */
    sp_tune_db *db;                         /* NULL: no file, nothing is remembered */
    const json_value *times;                /* of PyTorch; NULL: no file, or none to go by */
    int n;                                  /* of the database: that --forget names, or that went */
    int n_torch;                            /* of PyTorch */
    cli_rows *rows;
} memory;

static bool is_there(const char *path)
{
    struct stat st;
    return *path && !stat(path, &st) && S_ISREG(st.st_mode);
}

/* ------------------------------------------------------------------ one time */

/* The digits behind a word of a key, " cpu=0123...". */
static bool says(const char *key, const char *word, const char *value)
{
    const char *at = strstr(key, word);
    const size_t n = strlen(value);
    return !at ||
           (!strncmp(at + strlen(word), value, n) && (!at[strlen(word) + n] || at[strlen(word) + n] == ' '));
}

/* Why no compile goes by this time; NULL: it does. */
static const char *doubt(const char *key, const sp_trial *t)
{
    char cpu[24];
    snprintf(cpu, sizeof cpu, "%016lx", (unsigned long)sp_machine_digest());
    if (t->verdict != SP_VERDICT_OK) return "wrong answer";
    if (!says(key, " cpu=", cpu)) return "another machine";
    if (!says(key, " sparta=", SPARTA_VERSION)) return "another version";
    return strncmp(key, TUNED, strlen(TUNED)) ? sp_tune_doubt(t) : NULL;
}

/* A key without the words that tell machine and version. */
static const char *task_of(memory *m, const char *key)
{
    const char *end = strstr(key, MACHINE);
    const char *s = sp_arena_printf(m->c->arena, "%.*s", end ? (int)(end - key) : (int)strlen(key), key);
    return s ? s : "";
}

static bool show(void *arg, const char *key, const sp_trial *t)
{
    memory *m = arg;
    cli_rows *r = m->rows;
    const bool right = t->verdict == SP_VERDICT_OK;
    cli_rows_next(r);
    cli_rows_text(r, "task", task_of(m, key));
    cli_rows_text(r, "implement", t->implement);
    cli_rows_text(r, "point", t->point);
    cli_rows_real(r, "us", 1, right ? t->us : NAN);
    cli_rows_real(r, "spread", 2, right ? t->spread : NAN);
    cli_rows_int(r, "measured", t->measured);
    cli_rows_real(r, "age_days", 1, (double)(sp_tune_now() - t->at) / 86400e3);
    cli_rows_text(r, "doubt", doubt(key, t));
    m->n++;
    return !sp_ctx_cancelled(m->c->cx);
}

/* ------------------------------------------------------------------ which are forgotten */

bool cli_names_task(const char *glob, const char *key, const char *machine)
{
    char shown[PATH_SIZE];
    return sp_glob(glob, key) ||
           (snprintf(shown, sizeof shown, "%s%s*", glob, machine) < PATH_SIZE && sp_glob(shown, key));
}

static bool named(void *arg, const char *key, const sp_trial *t)
{
    const memory *m = arg;
    const size_t n = strlen(TUNED);
    if (!strncmp(key, TUNED " ", n + 1) && strncmp(m->glob, TUNED, n) != 0) return false;
    return cli_names_task(m->glob, key, MACHINE) || sp_glob(m->glob, t->implement);
}

static bool count(void *arg, const char *key, const sp_trial *t)
{
    memory *m = arg;
    m->n += named(m, key, t);
    return true;
}

/* How many would go. Without a glob those too that are damaged, whose names cannot be told. */
static int count_named(memory *m)
{
    if (!m->db) return 0;
    if (!m->glob) {
        const int all = sp_tune_count_all(m->db, TUNED " ");
        return SP_MAX(all, 0);
    }
    m->n = 0;
    sp_tune_each(m->db, "", count, m);
    return m->n;
}

static sparta_status forget_named(memory *m)
{
    if (!m->db) return SPARTA_OK;
    m->n = m->glob ? sp_tune_forget(m->db, named, m) : sp_tune_forget_all(m->db, TUNED " ");
    if (m->n >= 0) return SPARTA_OK;
    return sp_fail(m->c->cx, SPARTA_E_IO, "doctor: %s: it cannot be written; nothing was forgotten", m->file);
}

/* On a terminal the answer, else --yes. */
static sparta_status ask(memory *m, bool torch, bool *yes)
{
    char answer[16] = "", too[PATH_SIZE + 32] = "";
    *yes = cli_has(m->c, CLI_YES) || (!m->n && !torch);
    if (*yes) return SPARTA_OK;
    if (torch && m->glob) snprintf(too, sizeof too, " and %d of %s", m->n_torch, m->torch);
    if (torch && !m->glob) snprintf(too, sizeof too, " and all of %s", m->torch);
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return sp_fail(
            m->c->cx, SPARTA_E_USAGE,
            "doctor: --forget asks before %d times%s go, and here is no terminal to answer on; add --yes",
            m->n, too);
    fprintf(stderr, "Forget %d times of %s%s? [y/N] ", m->n, *m->file ? m->file : "the database", too);
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin)) *yes = answer[0] == 'y' || answer[0] == 'Y';
    return sp_check_cancel(m->c->cx);
}

static sparta_status forget(memory *m, cli_json *j)
{
    cli *c = m->c;
    bool yes;
    m->n_torch = cli_torch_times_named(m->times, m->glob);
    bool torch = *m->torch && (!m->glob || m->n_torch);
    m->n = count_named(m);
    SP_TRY(ask(m, torch, &yes));
    if (yes) SP_TRY(forget_named(m));
    torch = torch && yes;
    if (torch) SP_TRY(cli_torch_times_forget(c, m->torch, m->times, m->glob));
    m->n = yes ? m->n + m->n_torch : 0;
    cli_json_int(j, "forgotten", m->n);
    cli_json_bool(j, "torch_times_forgotten", torch);
    cli_say(c, "%d time%s forgotten%s%s\n", m->n, m->n == 1 ? "" : "s",
            !torch    ? ""
            : m->glob ? ", also in "
                      : ", and the file ",
            torch ? m->torch : "");
    if (!torch) return SPARTA_OK;
    m->times = NULL;
    if (!m->glob) m->torch[0] = 0;
    return m->glob ? cli_torch_times_read(c, m->torch, &m->times) : SPARTA_OK;
}

/* ------------------------------------------------------------------ all of it */

static sparta_status list(memory *m, cli_json *j)
{
    static const char *const names[] = {"task",   "implement", "point",    "us",
                                        "spread", "measured",  "age days", "not believed"};
    cli_rows rows = cli_rows_begin(m->c, j, "times", SP_COUNT(names), names);
    m->rows = &rows;
    m->n = 0;
    if (m->db) sp_tune_each(m->db, "", show, m);
    cli_torch_times_show(m->c, &rows, m->times);
    SP_TRY(cli_rows_end(&rows));
    SP_TRY(sp_check_cancel(m->c->cx));
    cli_say(m->c, "%d times in %s\n", m->n,
            *m->file ? m->file : "no file: times are forgotten at the end of each call");
    if (m->times)
        cli_say(m->c, "%d times of layers in PyTorch in %s\n", cli_torch_times_named(m->times, NULL),
                m->torch);
    return SPARTA_OK;
}

static sparta_status find_files(memory *m)
{
    cli *c = m->c;
    const char *db = cli_text(c, CLI_DB, NULL), *folder = sparta_cache_folder(c->cx);
    if (!sp_tune_file(c->cx, db, m->file, sizeof m->file)) m->file[0] = 0;
    if (db && !is_there(m->file))
        return sp_fail(c->cx, SPARTA_E_IO, "doctor: %s: there is no such file; --db names a tuning database",
                       db);
    const int n = snprintf(m->torch, sizeof m->torch, "%s/torch-times.json", folder);
    if (db || !*folder || n >= (int)sizeof m->torch || !is_there(m->torch)) m->torch[0] = 0;
    if (*m->torch) SP_TRY(cli_torch_times_read(c, m->torch, &m->times));
    if (!is_there(m->file)) return SPARTA_OK; /* looking makes none */
    SP_TRY(sp_tune_open(c->cx, db, &m->db));
    if (sp_tune_lasts(m->db)) return SPARTA_OK;
    return sp_fail(c->cx, SPARTA_E_IO,
                   "doctor: %s: nothing was shown or forgotten, since the file cannot be used now, as a note "
                   "says; call again when it can, or name another with --db",
                   m->file);
}

sparta_status cli_doctor_times(cli *c)
{
    memory m = {.c = c, .glob = cli_text(c, CLI_FORGET, NULL)};
    if (m.glob && !strcmp(m.glob, "default")) m.glob = NULL;
    sparta_status status = find_files(&m);
    if (status) {
        sp_tune_close(m.db);
        return status;
    }
    cli_json j = cli_json_begin(c, "doctor");
    cli_json_text(&j, "database", *m.file ? m.file : NULL);
    cli_json_text(&j, "torch_times", *m.torch ? m.torch : NULL);
    if (cli_has(c, CLI_FORGET)) status = forget(&m, &j);
    if (status == SPARTA_OK && cli_has(c, CLI_TIMES)) status = list(&m, &j);
    sp_tune_close(m.db);
    cli_json_end(c, &j);
    return status;
}
