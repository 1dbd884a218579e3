/* Another library in a Python process.
 *
 *   here                          Python (the text below)
 *     in0.npy in1.npy ...  ---->   load, make the session            folder: temporary, ours alone
 *                          <----   ready 1.20.1              or: missing
 *     run                  ---->   one run by its own clock
 *                          <----   0.0123
 *     save                 ---->   out0.npy out1.npy ...
 *                          <----   saved
 *
 * What it says is not believed: a line that is no time is an error, arrays are read as every file is.
 */
#include "measure/peer.h"
#include "measure/talk.h"
#include "arrays/arrays.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Modules of the current folder are not imported; what libraries print does not mix with answers. */
#define PROGRAM(name, make, run)                                                                             \
    "import os, sys, time\n"                                                                                 \
    "sys.path[:] = [p for p in sys.path if p]\n"                                                             \
    "answers = os.fdopen(os.dup(1), 'w')\n"                                                                  \
    "os.dup2(2, 1)\n"                                                                                        \
    "def say(line): print(line, file=answers, flush=True)\n"                                                 \
    "try:\n"                                                                                                 \
    "    import numpy, " name "\n"                                                                           \
    "except Exception:\n"                                                                                    \
    "    say('missing')\n"                                                                                   \
    "    sys.exit()\n"                                                                                       \
    "model, folder, threads, n = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])\n"             \
    "inputs, outputs = sys.argv[5:5 + n], sys.argv[5 + n:]\n"                                                \
    "feed = {name: numpy.load(f'{folder}/in{i}.npy') for i, name in enumerate(inputs)}\n" make               \
    "say('ready ' + version)\n"                                                                              \
    "for line in sys.stdin:\n"                                                                               \
    "    if line == 'run\\n':\n"                                                                             \
    "        start = time.perf_counter()\n"                                                                  \
    "        y = " run "\n"                                                                                  \
    "        say(repr(time.perf_counter() - start))\n"                                                       \
    "    elif line == 'save\\n':\n"                                                                          \
    "        for i, a in enumerate(y):\n"                                                                    \
    "            numpy.save(f'{folder}/out{i}.npy', a)\n"                                                    \
    "        say('saved')\n"

typedef struct library {
    const char *name, *package, *program;
} library;

static const library libraries[] = {
#define SP_PEER(name, package, make, run) {#name, package, PROGRAM(#name, make, run)},
#include "measure/peers.def"
#undef SP_PEER
};

static const library *find(const char *name)
{
    for (size_t i = 0; name && i < SP_COUNT(libraries); i++)
        if (!strcmp(libraries[i].name, name)) return &libraries[i];
    return NULL;
}

const char *sp_peer_near(const char *name)
{
    const char *names[SP_COUNT(libraries)];
    char lower[32];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof lower; n++)
        lower[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] - 'A' + 'a' : name[n]);
    lower[n] = 0;
    for (size_t i = 0; i < SP_COUNT(libraries); i++) names[i] = libraries[i].name;
    return name[n] ? NULL : sp_nearest(lower, names, (int)SP_COUNT(libraries));
}

bool sp_peer_known(const char *name)
{
    return find(name) != NULL;
}

/* Seconds: to import and load a model; for one run. */
static const double patience = 300;

struct sp_peer {
    sparta_ctx *cx;
    const library *library;
    char folder[256];
    int n_in, n_out;
    sp_talk talk;
    char name[64];
};

/* ------------------------------------------------------------------ the folder */

static void path_of(const sp_peer *p, const char *what, int i, char *out, size_t size)
{
    if (i < 0)
        snprintf(out, size, "%s/%s", p->folder, what);
    else
        snprintf(out, size, "%s/%s%d.npy", p->folder, what, i);
}

static sparta_status make_folder(sp_peer *p)
{
    const char *root = getenv("TMPDIR");
    char folder[sizeof p->folder];
    const int n = snprintf(folder, sizeof folder, "%s/sparta-peer-XXXXXX", root && *root ? root : "/tmp");
    if (n >= (int)sizeof folder - 32 || !mkdtemp(folder))
        return sp_fail(p->cx, SPARTA_E_IO, "bench: no folder in %.150s for the inputs of %s: %s; set TMPDIR",
                       root && *root ? root : "/tmp", p->library->name, strerror(errno));
    snprintf(p->folder, sizeof p->folder, "%s", folder);
    return SPARTA_OK;
}

static void remove_folder(const sp_peer *p)
{
    char path[320];
    if (!*p->folder) return;
    for (int i = 0; i < p->n_in; i++) path_of(p, "in", i, path, sizeof path), unlink(path);
    for (int i = 0; i < p->n_out; i++) path_of(p, "out", i, path, sizeof path), unlink(path);
    path_of(p, "errors", -1, path, sizeof path);
    unlink(path);
    rmdir(p->folder);
}

static sparta_status write_inputs(const sp_peer *p, const sp_peer_model *m)
{
    char path[320];
    for (int i = 0; i < m->n_in; i++) {
        path_of(p, "in", i, path, sizeof path);
        SP_TRY(sp_npy_write(p->cx, path, &m->in[i].tensor));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ starting */

/* The last line that Python said on stderr, as far as it can be shown: why it failed. */
static void last_words(const sp_peer *p, char *out, size_t size)
{
    char path[320], text[2048];
    path_of(p, "errors", -1, path, sizeof path);
    FILE *f = fopen(path, "re");
    size_t n = 0;
    *out = 0;
    if (!f) return;
    if (!fseek(f, 0, SEEK_END) && ftell(f) > (long)sizeof text - 1)
        fseek(f, -(long)sizeof text + 1, SEEK_END);
    else
        rewind(f);
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' ')) n--;
    size_t from = n;
    while (from && text[from - 1] != '\n') from--;
    n = SP_MIN(n - from, size - 1);
    for (size_t i = 0; i < n; i++)
        out[i] = text[from + i] >= 0x20 && text[from + i] < 0x7f ? text[from + i] : '?';
    out[n] = 0;
}

/* E_IO becomes what Python said. */
static sparta_status explain(sp_peer *p, sparta_status status)
{
    char why[300];
    if (status != SPARTA_E_IO) return status;
    last_words(p, why, sizeof why);
    return sp_fail_in(p->cx, "bench: %s%s%.290s", p->library->name, *why ? ": " : "", why);
}

/* *found false: this Python does not have it, or is not there. */
static sparta_status start(sp_peer *p, const char *python, const char *const *arguments, bool *found)
{
    char errors[320], answer[64];
    const char **argv = (const char **)arguments;
    argv[0] = python;
    *found = false;
    path_of(p, "errors", -1, errors, sizeof errors);
    if (sp_talk_start(p->cx, argv, errors, &p->talk)) {
        sp_ctx_clear(p->cx);
        return SPARTA_OK;
    }
    SP_TRY(explain(p, sp_talk_ask(&p->talk, NULL, patience, answer, sizeof answer)));
    *found = !strncmp(answer, "ready ", 6);
    if (*found) {
        snprintf(p->name, sizeof p->name, "%s %.30s", p->library->name, answer + 6);
        return SPARTA_OK;
    }
    sp_talk_end(&p->talk);
    if (!strcmp(answer, "missing")) return SPARTA_OK;
    return sp_fail(p->cx, SPARTA_E_IO, "bench: %s is no Python: it said \"%.40s\"; set SPARTA_PYTHON to one",
                   python, answer);
}

static sparta_status try_all(sp_peer *p, const char *const *arguments)
{
    const char *given = getenv("SPARTA_PYTHON");
    const char *const usual[] = {"python3", ".venv/bin/python"};
    bool found = false;
    if (given && *given)
        SP_TRY(start(p, given, arguments, &found));
    else
        for (size_t i = 0; i < SP_COUNT(usual) && !found; i++) SP_TRY(start(p, usual[i], arguments, &found));
    if (found) return SPARTA_OK;
    return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                   "bench: %s cannot be imported by %.200s; pip install %s, or set SPARTA_PYTHON to a "
                   "Python that has it",
                   p->library->name, given && *given ? given : "python3 nor by .venv/bin/python",
                   p->library->package);
}

static sparta_status launch(sp_peer *p, const sp_peer_model *m)
{
    char threads[16], n_in[16];
    const size_t count = 8 + (size_t)m->n_in + (size_t)m->n_out;
    const char **argv = sp_alloc_array(p->cx, count, sizeof *argv);
    SP_NEED(p->cx, argv);
    snprintf(threads, sizeof threads, "%d", m->threads);
    snprintf(n_in, sizeof n_in, "%d", m->n_in);
    const char *const head[] = {NULL, "-c", p->library->program, m->path, p->folder, threads, n_in};
    memcpy(argv, head, sizeof head);
    for (int i = 0; i < m->n_in; i++) argv[7 + i] = m->in[i].name;
    for (int i = 0; i < m->n_out; i++) argv[7 + m->n_in + i] = m->out[i].name;
    sparta_status status = try_all(p, argv);
    sp_free(p->cx, argv);
    return status;
}

sparta_status sp_peer_open(sparta_ctx *cx, const sp_peer_model *model, sp_peer **out)
{
    sp_peer *p = sp_zalloc(cx, sizeof *p);
    SP_NEED(cx, p);
    p->cx = cx;
    p->library = find(model->library);
    p->n_in = model->n_in;
    p->n_out = model->n_out;
    sparta_status status = make_folder(p);
    if (!status) status = write_inputs(p, model);
    if (!status) status = launch(p, model);
    if (status)
        sp_peer_close(p);
    else
        *out = p;
    return status;
}

const char *sp_peer_name(const sp_peer *p)
{
    return p->name;
}

/* ------------------------------------------------------------------ running */

sparta_status sp_peer_run(sp_peer *p, double *seconds)
{
    char answer[64];
    double took;
    SP_TRY(explain(p, sp_talk_ask(&p->talk, "run\n", patience, answer, sizeof answer)));
    sp_talk_pause(&p->talk);
    if (!sp_parse_double(answer, &took) || !(took > 0) || !(took < 1e6))
        return sp_fail(p->cx, SPARTA_E_IO, "bench: %s said \"%.40s\", which is no time", p->library->name,
                       answer);
    if (seconds) *seconds = took;
    return SPARTA_OK;
}

sparta_status sp_peer_output(sp_peer *p, int i, sparta_tensor *out)
{
    char answer[64], path[320];
    if (i == 0) SP_TRY(explain(p, sp_talk_ask(&p->talk, "save\n", patience, answer, sizeof answer)));
    path_of(p, "out", i, path, sizeof path);
    return sp_npy_read(p->cx, path, out);
}

void sp_peer_close(sp_peer *p)
{
    if (!p) return;
    sp_talk_end(&p->talk);
    remove_folder(p);
    sp_free(p->cx, p);
}
