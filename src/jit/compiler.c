/* The C compiler: found by absolute path, asked for its version, run by argv in a private folder with limits. */
#include "jit/inside.h"
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 48, REMEMBERED = 8, TIMED_OUT = -1000 };

/* No headers, no libraries: the text stands alone. Errors of mathematics are values here, never errno or
 * traps. Every multiply-add is fused: gcc 13 and later leave those of a chain apart unless told otherwise (the parameter), which is
 * slower here, and not the same in every copy of a loop, so that bits would depend on how many tokens a panel has. */
#define FUSE "avoid-fma-max-bits"
static const char flags[] =
    "-O3 -std=gnu11 -shared -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=fast "
    "--param=" FUSE "=0 -fvisibility=hidden -nostdlib -x c";

/* What compiles for a device: where it usually lies, and the flags that all its targets have in common. */
static const struct {
    const char *usual[4], *flags;
} toolchain[SP_DEVICES] = {
    [SP_DEVICE_CPU] = {{"/usr/bin/cc", "/usr/bin/gcc", "/usr/local/bin/cc", "/usr/bin/clang"}, flags},
};

const char *sp_compiler_flags(sp_device device)
{
    return toolchain[device].flags;
}

/* ------------------------------------------------------------------ what is known about compilers
 * Asking for the version costs a process, one that hangs its whole time limit, one that does not know the parameter a process for each
 * kernel: all is remembered for the process, for as long as the program's file stays the same. */

enum { HANGS = 1, OLD = 2 }; /* OLD: it does not know FUSE */
typedef struct memory {
    sp_compiler c;
    unsigned habits;
} memory;
static memory known[REMEMBERED];
static int next_known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static memory *recall(const sp_compiler *c) /* under the lock */
{
    for (int i = 0; i < REMEMBERED; i++)
        if (!strcmp(known[i].c.path, c->path) && known[i].c.size == c->size &&
            known[i].c.mtime_ns == c->mtime_ns)
            return &known[i];
    return NULL;
}

static memory *keep(const sp_compiler *c) /* under the lock */
{
    memory *m = recall(c);
    if (!m) *(m = &known[next_known++ % REMEMBERED]) = (memory){0};
    m->c = *c;
    return m;
}

static void remember(const sp_compiler *c, unsigned habits)
{
    pthread_mutex_lock(&lock);
    keep(c)->habits |= habits;
    pthread_mutex_unlock(&lock);
}

static unsigned habits_of(const sp_compiler *c)
{
    pthread_mutex_lock(&lock);
    const memory *m = recall(c);
    const unsigned habits = m ? m->habits : 0;
    pthread_mutex_unlock(&lock);
    return habits;
}

/* Its version, where that was asked before. */
static bool look_up(sp_compiler *c)
{
    pthread_mutex_lock(&lock);
    const memory *m = recall(c);
    if (m) *c = m->c;
    pthread_mutex_unlock(&lock);
    return m != NULL;
}

/* ------------------------------------------------------------------ running */

static double time_limit(void)
{
    double seconds;
    const char *env = getenv("SPARTA_CC_TIMEOUT");
    return env && sp_parse_double(env, &seconds) && seconds > 0 && seconds <= 3600 ? seconds : 60;
}

/* The line that says most: the first with "error", else the first with anything in it. */
static void gist(const char *said, char *out, size_t size)
{
    const char *line = strstr(said, "error");
    while (line && line > said && line[-1] != '\n') line--;
    if (!line) line = said + strspn(said, " \t\r\n");
    snprintf(out, size, "%.*s", (int)SP_MIN(strcspn(line, "\r\n"), (size_t)300), line);
    for (char *p = out; *p; p++)
        if (!isprint((unsigned char)*p)) *p = '?';
    if (!out[0]) snprintf(out, size, "it said nothing");
}

/* `what` failed. Cancellation and memory are not the compiler's fault and pass. */
static sparta_status judge(sparta_ctx *cx, const sp_compiler *c, sparta_status ran, int code,
                           const char *said)
{
    char line[320];
    if (ran == SPARTA_E_CANCELLED || ran == SPARTA_E_MEMORY) return ran;
    if (ran) return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s", sparta_message(cx));
    if (code == 0) return SPARTA_OK;
    if (code == TIMED_OUT) {
        remember(c, HANGS);
        return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s took longer than %g s and was stopped", c->path,
                       time_limit());
    }
    gist(said, line, sizeof line);
    return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s failed (%s %d): %s", c->path,
                   code < 0 ? "signal" : "exit", code < 0 ? -code : code, line);
}

typedef struct surroundings { /* of a compiler that runs in a folder */
    char temp[SP_FOLDER + 8];
    const char *env[4];
    sp_spawn_options limits;
} surroundings;

static void surround(const char *folder, surroundings *out)
{
    snprintf(out->temp, sizeof out->temp, "TMPDIR=%s", folder);
    out->env[0] = "PATH=/usr/local/bin:/usr/bin:/bin";
    out->env[1] = "LC_ALL=C";
    out->env[2] = out->temp;
    out->env[3] = NULL;
    out->limits = (sp_spawn_options){
        .timeout = time_limit(), .memory = (size_t)4 << 30, .output = SP_OBJECT_MOST, .env = out->env};
}

static sparta_status run(sparta_ctx *cx, const sp_compiler *c, const char *const *argv, const char *folder,
                         sp_text *said)
{
    surroundings around;
    int code = 0;
    surround(folder, &around);
    sparta_status ran = sp_spawn(cx, argv, &around.limits, said, &code);
    return judge(cx, c, ran, code, sp_text_str(said));
}

void sp_compiler_note(sparta_ctx *cx)
{
    const char *notes = sparta_notes(cx);
    if (!strncmp(notes, "compiler:", 9) || strstr(notes, "\ncompiler:")) return;
    sp_note(cx, "%s", sparta_message(cx));
}

/* ------------------------------------------------------------------ finding */

static bool is_program(sp_compiler *c, const char *path)
{
    struct stat st;
    if (strlen(path) >= sizeof c->path || stat(path, &st) || !S_ISREG(st.st_mode) || access(path, X_OK))
        return false;
    memset(c, 0, sizeof *c);
    memcpy(c->path, path, strlen(path));
    c->size = (int64_t)st.st_size;
    c->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return true;
}

static sparta_status choose(sparta_ctx *cx, sp_device device, sp_compiler *out)
{
    const char *const *usual = toolchain[device].usual;
    const char *given = sp_ctx_options_of(cx)->compiler;
    if (given && !given[0]) return sp_fail(cx, SPARTA_E_COMPILER, "compiler: switched off");
    if (given && given[0] != '/')
        return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s is no absolute path", given);
    if (given && !is_program(out, given))
        return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s is no program", given);
    if (given) return SPARTA_OK;
    for (size_t i = 0; i < SP_COUNT(toolchain[device].usual) && usual[i]; i++)
        if (is_program(out, usual[i])) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_COMPILER, "compiler: none found; install gcc");
}

static sparta_status ask_version(sparta_ctx *cx, sp_compiler *c)
{
    const char *argv[] = {c->path, "--version", NULL};
    sp_text said;
    sp_text_init(&said, cx);
    sparta_status status = run(cx, c, argv, "/tmp", &said);
    if (status == SPARTA_OK) {
        gist(sp_text_str(&said), c->version, sizeof c->version);
        remember(c, 0);
    }
    sp_text_free(&said);
    return status;
}

sparta_status sp_compiler_find(sparta_ctx *cx, sp_device device, sp_compiler *out)
{
    sp_compiler c;
    SP_TRY(choose(cx, device, &c));
    if (!look_up(&c)) SP_TRY(ask_version(cx, &c));
    if (!c.version[0] && habits_of(&c) & HANGS)
        return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s hung before and is not tried again", c.path);
    *out = c;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ compiling */

/* Adds the words of `text` (cut in place) to argv, but those with `without` in them. */
static int add_words(const char **argv, int n, char *text, const char *without)
{
    for (char *word, *rest = text; n < MOST_ARGUMENTS && (word = strtok_r(NULL, " ", &rest));)
        if (!without || !strstr(word, without)) argv[n++] = word;
    return n;
}

typedef struct command { /* compiles <folder>/kernel.c to <folder>/kernel.so */
    char common[512], own[256], in[SP_FOLDER + 16], out[SP_FOLDER + 16];
    const char *argv[MOST_ARGUMENTS + 4];
} command;

static void write_command(const sp_compiler *c, sp_target target, const char *folder, const char *without,
                          command *out)
{
    memset(out->argv, 0, sizeof out->argv);
    out->argv[0] = c->path;
    snprintf(out->common, sizeof out->common, "%s", sp_compiler_flags(sp_target_device(target)));
    snprintf(out->own, sizeof out->own, "%s", sp_target_flags(target));
    snprintf(out->in, sizeof out->in, "%s/kernel.c", folder);
    snprintf(out->out, sizeof out->out, "%s/kernel.so", folder);
    int n = add_words(out->argv, 1, out->own, NULL);
    n = add_words(out->argv, n, out->common, without);
    out->argv[n++] = out->in;
    out->argv[n++] = "-o";
    out->argv[n] = out->out;
}

static sparta_status compile(sparta_ctx *cx, const sp_compiler *c, sp_target target, const char *folder,
                             const char *without, sp_text *said)
{
    command k;
    write_command(c, target, folder, without, &k);
    return run(cx, c, k.argv, folder, said);
}

/* gcc before 9 fuses everything and does not know the parameter: is that what this one said? From here on it does without. */
static bool is_old(const sp_compiler *c, const char *said)
{
    if (!strstr(said, FUSE)) return false;
    remember(c, OLD);
    return true;
}

sparta_status sp_compiler_run(sparta_ctx *cx, const sp_compiler *c, sp_target target, const char *folder)
{
    const unsigned habits = habits_of(c);
    if (habits & HANGS)
        return sp_fail(cx, SPARTA_E_COMPILER, "compiler: %s hung before and is not tried again", c->path);
    const char *without = habits & OLD ? FUSE : NULL;
    sp_text said;
    sp_text_init(&said, cx);
    sparta_status status = compile(cx, c, target, folder, without, &said);
    if (status == SPARTA_E_COMPILER && !without && is_old(c, sp_text_str(&said))) {
        sp_text_free(&said);
        sp_text_init(&said, cx);
        status = compile(cx, c, target, folder, FUSE, &said);
    }
    sp_text_free(&said);
    return status;
}

typedef struct one { /* of several that run */
    command k;
    surroundings around;
} one;

/* *said: what the first of them says, which speaks for all where the flags are at fault. */
static sparta_status run_each(sparta_ctx *cx, const sp_compiler *c, sp_target target, const char *without,
                              const sp_compilation *all, int n, one *each, sp_program *programs,
                              sp_text *said)
{
    for (int i = 0; i < n; i++) {
        write_command(c, target, all[i].folder, without, &each[i].k);
        surround(all[i].folder, &each[i].around);
        programs[i] =
            (sp_program){.argv = each[i].k.argv, .options = &each[i].around.limits, .said = i ? NULL : said};
    }
    SP_TRY(sp_spawn_all(cx, programs, n, sp_cores()));
    return said->status;
}

sparta_status sp_compiler_run_all(sparta_ctx *cx, const sp_compiler *c, sp_target target, sp_compilation *all,
                                  int n)
{
    const unsigned habits = habits_of(c);
    if (habits & HANGS) return SPARTA_OK;
    one *each = sp_alloc_array(cx, (size_t)n, sizeof *each);
    sp_program *programs = sp_alloc_array(cx, (size_t)n, sizeof *programs);
    const char *without = habits & OLD ? FUSE : NULL;
    sp_text said;
    sp_text_init(&said, cx);
    sparta_status s = each && programs ? SPARTA_OK : sp_ctx_status(cx);
    if (s == SPARTA_OK) s = run_each(cx, c, target, without, all, n, each, programs, &said);
    if (s == SPARTA_OK && programs[0].exit_code && !without && is_old(c, sp_text_str(&said)))
        s = run_each(cx, c, target, FUSE, all, n, each, programs, &said);
    for (int i = 0; i < n && s == SPARTA_OK; i++)
        all[i].made = !programs[i].error && programs[i].exit_code == 0;
    sp_text_free(&said);
    sp_free(cx, programs);
    sp_free(cx, each);
    return s;
}
