/* The times of layers in PyTorch that sparta doctor --times shows and --forget forgets: <cache>/torch-times.json, which python/sparta/_times.py
 * reads and writes.
 *
 *     {"linear 512x512, 4x1, ...; torch 2.13.0, sparta 0.1.0 18c2, Some CPU, 2 cores, 8 GiB":
 *         {"ways": {"dense": 91.5, "4x1": 30.25}, "at": seconds, "disturbed": false}}
 *
 * A file that PyTorch would not go by (one row that is not so spoils it) is named in a note and left. The folder is ours alone: the cache is not
 * used otherwise. */
#include "verbs.h"
#include "file/file.h"
#include "tune/tune.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 24 }; /* PyTorch reads no more either */
#define MACHINE "; torch "     /* a key from here on: versions and machine */

/* ------------------------------------------------------------------ reading */

static bool is_number(const json_value *v, double *out)
{
    return v && v->kind == JSON_NUMBER && sp_json_double(v, out) && *out < 1e12;
}

static bool is_row(const json_value *row)
{
    const json_value *ways = sp_json_get(row, "ways"), *disturbed = sp_json_get(row, "disturbed");
    double x;
    if (row->n != 3 || !ways || ways->kind != JSON_OBJECT || !disturbed || disturbed->kind != JSON_BOOL)
        return false;
    for (const json_value *way = sp_json_first(ways); way; way = way->next)
        if (!is_number(way, &x) || !(x > 0)) return false;
    return is_number(sp_json_get(row, "at"), &x) && x >= 0;
}

static sparta_status check(sparta_ctx *cx, const json_value *file)
{
    if (file->kind != JSON_OBJECT) return sp_fail(cx, SPARTA_E_FORMAT, "it is no object of times");
    for (const json_value *row = sp_json_first(file); row; row = row->next)
        if (!is_row(row))
            return sp_fail(cx, SPARTA_E_FORMAT, "\"%.100s\" has not what a time is made of", row->key);
    return SPARTA_OK;
}

sparta_status cli_torch_times_read(cli *c, const char *path, const json_value **out)
{
    char *bytes = NULL;
    size_t n = 0;
    *out = NULL;
    const json_value *file = NULL;
    sparta_status status = sp_file_read(c->cx, path, MOST_BYTES, &bytes, &n);
    if (!status) status = sp_json_tree(c->arena, bytes, n, &file);
    sp_free(c->cx, bytes);
    if (!status) status = check(c->cx, file);
    if (status == SPARTA_E_CANCELLED || status == SPARTA_E_MEMORY) return status; /* no word about the file */
    if (status)
        sp_note(c->cx,
                "doctor: %s: no time in it is believed, shown, or forgotten by its name: %s; PyTorch writes "
                "it anew, --forget without a glob removes it",
                path, sparta_message(c->cx));
    else
        *out = file;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ showing */

/* What a key of this machine ends with; as much of it as can be told. */
static void machine_words(char *out, size_t size)
{
    char line[256], name[200] = "";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && !*name && fgets(line, sizeof line, f)) {
        const char *at = !strncmp(line, "model name", 10) ? strchr(line, ':') : NULL;
        if (!at) continue;
        at += 1 + strspn(at + 1, " \t");
        size_t n = strcspn(at, "\n");
        while (n && (at[n - 1] == ' ' || at[n - 1] == '\t')) n--;
        snprintf(name, sizeof name, ", %.*s", (int)n, at);
    }
    if (f) fclose(f);
    const double gib = (double)sysconf(_SC_PAGESIZE) * (double)sysconf(_SC_PHYS_PAGES) / 0x1p30;
    snprintf(out, size, "%s, %ld cores, %.0f GiB", name, sysconf(_SC_NPROCESSORS_ONLN), gib);
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* Why PyTorch does not go by this time; NULL: nothing that can be seen from here, where neither torch nor the build of its sparta is known. */
static const char *doubt(const char *key, const char *here, bool disturbed, double at)
{
    const sp_trial t = {.disturbed = disturbed, .at = (int64_t)(at * 1e3)};
    const char *machine = strstr(key, MACHINE);
    if (!machine || !ends_with(machine, here)) return "another machine";
    if (!strstr(machine, ", sparta " SPARTA_VERSION " ")) return "another version";
    return sp_tune_doubt(&t);
}

static void show(cli *c, cli_rows *r, const json_value *row, const char *here)
{
    double at = 0, us = 0; /* check() saw that these are numbers */
    (void)sp_json_double(sp_json_get(row, "at"), &at);
    const char *end = strstr(row->key, MACHINE);
    const char *task = sp_arena_bytes(c->arena, row->key, end ? (size_t)(end - row->key) : strlen(row->key));
    const char *why = doubt(row->key, here, sp_json_get(row, "disturbed")->yes, at);
    for (const json_value *way = sp_json_first(sp_json_get(row, "ways")); way; way = way->next) {
        (void)sp_json_double(way, &us);
        cli_rows_next(r);
        cli_rows_text(r, "task", task ? task : "");
        cli_rows_text(r, "implement", "torch");
        cli_rows_text(r, "point", way->key);
        cli_rows_real(r, "us", 1, us);
        cli_rows_real(r, "spread", 2, NAN);
        cli_rows_real(r, "measured", 0, NAN);
        cli_rows_real(r, "age_days", 1, ((double)sp_tune_now() - at * 1e3) / 86400e3);
        cli_rows_text(r, "doubt", why);
    }
}

void cli_torch_times_show(cli *c, cli_rows *r, const json_value *file)
{
    char here[320];
    machine_words(here, sizeof here);
    for (const json_value *row = sp_json_first(file); row && !sp_ctx_cancelled(c->cx); row = row->next)
        show(c, r, row, here);
}

/* ------------------------------------------------------------------ forgetting */

static bool named(const char *glob, const json_value *row, const json_value *way)
{
    return !glob || cli_names_task(glob, row->key, MACHINE) || sp_glob(glob, "torch") ||
           sp_glob(glob, way->key);
}

static int left_of(const json_value *row, const char *glob)
{
    int n = 0;
    for (const json_value *way = sp_json_first(sp_json_get(row, "ways")); way; way = way->next)
        n += !named(glob, row, way);
    return n;
}

int cli_torch_times_named(const json_value *file, const char *glob)
{
    int n = 0;
    for (const json_value *row = sp_json_first(file); row; row = row->next)
        n += sp_json_get(row, "ways")->n - left_of(row, glob);
    return n;
}

/* One entry with the ways that stay, its numbers as they stood. */
static void put_row(sp_text *t, const json_value *row, const char *glob)
{
    const char *between = "";
    sp_text_json(t, row->key);
    sp_text_printf(t, ": {\n\"ways\": {");
    for (const json_value *way = sp_json_first(sp_json_get(row, "ways")); way; way = way->next) {
        if (named(glob, row, way)) continue;
        sp_text_printf(t, "%s\n", between);
        sp_text_json(t, way->key);
        sp_text_printf(t, ": %s", way->text);
        between = ",";
    }
    sp_text_printf(t, "\n},\n\"at\": %s,\n\"disturbed\": %s\n}", sp_json_get(row, "at")->text,
                   sp_json_get(row, "disturbed")->yes ? "true" : "false");
}

static sparta_status rewrite(cli *c, const char *path, const json_value *file, const char *glob)
{
    sp_text t;
    const char *between = "";
    sp_text_init(&t, c->cx);
    sp_text_printf(&t, "{");
    for (const json_value *row = sp_json_first(file); row; row = row->next) {
        if (!left_of(row, glob)) continue;
        sp_text_printf(&t, "%s\n", between);
        put_row(&t, row, glob);
        between = ",";
    }
    sp_text_printf(&t, "\n}");
    const char *all = sp_text_keep(&t, c->arena);
    SP_NEED(c->cx, all);
    return sp_file_write(c->cx, path, all, strlen(all));
}

sparta_status cli_torch_times_forget(cli *c, const char *path, const json_value *file, const char *glob)
{
    if (glob) return rewrite(c, path, file, glob);
    if (unlink(path) && errno != ENOENT)
        return sp_fail(c->cx, SPARTA_E_IO, "doctor: %s: %s; remove it by hand", path, strerror(errno));
    return SPARTA_OK;
}
