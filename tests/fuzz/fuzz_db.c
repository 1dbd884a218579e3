/* fuzz_db.c: libFuzzer's target for the tuning database. An input is an SQLite file, perhaps followed by a line "---" and its log (-wal). Whatever
 * it is, the database opens (on it, or in memory with a note), finds, adds, and finds what it added. */
#include "tune/tune.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

/* Files that were set aside go too. */
static void clear(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (*e->d_name != '.') unlink(path);
    }
    if (d) closedir(d);
}
static void leave(void)
{
    clear();
    rmdir(folder);
}

static void put(const char *name, const void *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f)) abort();
}

static void check_found(const sp_trial *t, int n, int most)
{
    for (int i = 0; i < n && i < most; i++) {
        if (!memchr(t[i].implement, 0, sizeof t[i].implement) || !memchr(t[i].point, 0, sizeof t[i].point) ||
            !memchr(t[i].code, 0, sizeof t[i].code))
            abort();
        if (i && t[i].verdict == t[i - 1].verdict && t[i].disturbed == t[i - 1].disturbed &&
            t[i].us < t[i - 1].us)
            abort(); /* fastest first */
        (void)sp_tune_believes(&t[i]);
        if (!isfinite(t[i].us)) abort();
    }
}

/* Some of what is there. */
static bool some(void *arg, const char *key, const sp_trial *t)
{
    (void)arg;
    check_found(t, 1, 1);
    return strlen(key) % 2;
}

/* Records under a key that the file may have, and one of our own. */
static void use(sp_tune_db *db)
{
    static const char *const keys[] = {"Linear 64x64 dense", "k", ""};
    sp_trial found[4], mine = {.implement = "strip4", .point = "NV=4", .us = 12.5, .threads = 1};
    for (size_t i = 0; i < SP_COUNT(keys); i++) check_found(found, sp_tune_find(db, keys[i], found, 4), 4);
    sp_tune_add(db, "k", &mine);
    sp_tune_add(db, "k", &mine);
    check_found(found, sp_tune_find(db, "k", found, 4), 4);
    sp_tune_each(db, "", some, NULL);
    if (sp_tune_forget(db, some, NULL) < -1) abort();
    if (sp_tune_count_all(db, "k") < -1 || sp_tune_forget_all(db, "k") < -1)
        abort(); /* of a damaged file they may differ */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    char path[128];
    options.max_memory = (size_t)16 << 20;
    options.cache_dir = options.compiler = "";
    if (!*folder) {
        snprintf(folder, sizeof folder, "/dev/shm/sparta-fuzz-db-%d", (int)getpid());
        if (mkdir(folder, 0700)) abort();
        atexit(leave);
    }
    sparta_ctx *cx = sparta_ctx_create(&options);
    const uint8_t *mark = size ? memmem(data, size, "\n---\n", 5) : NULL;
    sp_tune_db *db = NULL;
    if (!cx) abort();
    put("tune.db", data, mark ? (size_t)(mark - data) : size);
    if (mark) put("tune.db-wal", mark + 5, (size_t)(data + size - mark - 5));
    snprintf(path, sizeof path, "%s/tune.db", folder);
    if (sp_tune_open(cx, path, &db) != SPARTA_OK) abort(); /* a help, not a need */
    use(db);
    sp_tune_close(db);
    clear();
    sparta_ctx_free(cx);
    return 0;
}
