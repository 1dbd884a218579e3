/* tune: records that survive processes, kills and damage; timing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "tune/tune.h"
#include "tune/sqlite.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct place {
    char root[48], cache[64], file[80];
    sparta_ctx *cx;
} place;

static sparta_ctx *context(const char *cache)
{
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = cache;
    sparta_ctx *cx = sparta_ctx_create(&o);
    assert_non_null(cx);
    return cx;
}

static int enter(void **state)
{
    place *p = calloc(1, sizeof *p);
    snprintf(p->root, sizeof p->root, "/tmp/sparta-tune-test-XXXXXX");
    if (!mkdtemp(p->root)) return -1;
    snprintf(p->cache, sizeof p->cache, "%s/cache", p->root);
    snprintf(p->file, sizeof p->file, "%s/tune.db", p->cache);
    p->cx = context(p->cache);
    *state = p;
    return 0;
}

static int leave(void **state)
{
    place *p = *state;
    char command[80];
    sparta_ctx_free(p->cx);
    snprintf(command, sizeof command, "rm -rf %s", p->root);
    int rc = system(command);
    free(p);
    return rc;
}

static sp_tune_db *open_db(sparta_ctx *cx, const char *path)
{
    sp_tune_db *db = NULL;
    assert_int_equal(sp_tune_open(cx, path, &db), SPARTA_OK);
    assert_non_null(db);
    return db;
}

static sp_trial trial(const char *implement, const char *parameters, double us, int threads)
{
    sp_trial t = {.us = us, .threads = threads};
    snprintf(t.implement, sizeof t.implement, "%s", implement);
    snprintf(t.point, sizeof t.point, "%s", parameters);
    return t;
}

static void add(sp_tune_db *db, const char *key, const char *implement, const char *parameters, double us)
{
    sp_trial t = trial(implement, parameters, us, 2);
    sp_tune_add(db, key, &t);
}

static int count(sp_tune_db *db, const char *key)
{
    return sp_tune_find(db, key, NULL, 0);
}

/* The first column of the first row of a query, by another connection. */
static void query(const char *file, const char *text, char *out, size_t size)
{
    sqlite3 *sql;
    sqlite3_stmt *s;
    assert_null(sp_sqlite_problem());
    assert_int_equal(sp_sqlite.open_v2(file, &sql, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sp_sqlite.prepare_v2(sql, text, -1, &s, NULL), SQLITE_OK);
    out[0] = 0;
    if (sp_sqlite.step(s) == SQLITE_ROW) snprintf(out, size, "%s", (const char *)sp_sqlite.column_text(s, 0));
    sp_sqlite.finalize(s);
    sp_sqlite.close(sql);
}

static void execute(const char *file, const char *text)
{
    sqlite3 *sql;
    assert_null(sp_sqlite_problem());
    assert_int_equal(sp_sqlite.open_v2(file, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
                     SQLITE_OK);
    assert_int_equal(sp_sqlite.exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
    sp_sqlite.close(sql);
}

static int files_like(const char *folder, const char *part)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
    if (d) closedir(d);
    return n;
}

/* ------------------------------------------------------------------ records */

static void remembers_fastest_first(void **state)
{
    place *p = *state;
    sp_trial t[8];
    char text[64];
    sp_tune_db *db = open_db(p->cx, NULL);
    assert_int_equal(count(db, "k"), 0);
    add(db, "k", "dense", "", 30);
    add(db, "k", "strip4", "tile=64", 10);
    add(db, "k", "strip4", "tile=32", 20);
    add(db, "other", "dense", "", 1);
    sp_tune_close(db);
    db = open_db(p->cx, NULL);
    assert_int_equal(sp_tune_find(db, "k", t, 8), 3);
    assert_string_equal(t[0].point, "tile=64");
    assert_string_equal(t[1].point, "tile=32");
    assert_string_equal(t[2].implement, "dense");
    assert_true(t[0].us == 10 && t[1].us == 20 && t[2].us == 30);
    assert_int_equal(t[0].threads, 2);
    memset(&t[1], 0x55, sizeof t[1]);
    assert_int_equal(sp_tune_find(db, "k", t, 1), 3); /* all are counted, one is written */
    assert_int_equal(((unsigned char *)&t[1])[0], 0x55);
    sp_tune_close(db);
    query(p->file, "SELECT implement||'/'||point FROM trial WHERE key='k' ORDER BY us LIMIT 1", text,
          sizeof text);
    assert_string_equal(text, "strip4/tile=64");
    query(p->file, "PRAGMA journal_mode", text, sizeof text);
    assert_string_equal(text, "wal");
    query(p->file, "PRAGMA user_version", text, sizeof text);
    assert_string_equal(text, "2");
    assert_string_equal(sparta_notes(p->cx), "");
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

static void keeps_the_faster_time(void **state)
{
    place *p = *state;
    sp_trial t, slow = trial("dense", "x", 12, 1), fast = trial("dense", "x", 7, 4);
    char text[64];
    sp_tune_db *db = open_db(p->cx, NULL);
    sp_tune_add(db, "k", &slow);
    sp_tune_add(db, "k", &fast);
    sp_tune_add(db, "k", &slow);
    assert_int_equal(sp_tune_find(db, "k", &t, 1), 1);
    assert_true(t.us == 7);
    assert_int_equal(t.threads, 4); /* of the faster one */
    add(db, "k", "other", "", 9);
    sp_tune_close(db);
    query(p->file, "SELECT implement||us||measured FROM trial WHERE key='k'", text, sizeof text);
    assert_string_equal(text, "dense7.03");
}

static void nonsense_is_not_recorded(void **state)
{
    place *p = *state;
    sp_tune_db *db = open_db(p->cx, ":memory:");
    sp_trial t = trial("dense", "", 1, 1);
    const double bad[] = {0, -1, 1.0 / 0.0, 0.0 / 0.0};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        t.us = bad[i];
        sp_tune_add(db, "k", &t);
    }
    t.us = 1;
    t.threads = 0;
    sp_tune_add(db, "k", &t);
    t.threads = 1;
    memset(t.implement, 'x', sizeof t.implement); /* no end */
    sp_tune_add(db, "k", &t);
    assert_int_equal(count(db, "k"), 0);
    sp_tune_add(NULL, "k", &t);
    assert_int_equal(sp_tune_find(NULL, "k", &t, 1), 0);
    add(db, "'; DROP TABLE trial; --", "im'pl", "pa\"r\n", 3); /* text is text */
    assert_int_equal(sp_tune_find(db, "'; DROP TABLE trial; --", &t, 1), 1);
    assert_string_equal(t.point, "pa\"r\n");
    sp_tune_close(db);
    sp_tune_close(NULL);
}

/* Records somebody else put there: hints that fit, or nothing. */
static void foreign_records_are_checked(void **state)
{
    place *p = *state;
    sp_trial t[4];
    sp_tune_close(open_db(p->cx, NULL));
    execute(p->file,
            "INSERT INTO trial VALUES('k', hex(zeroblob(500)), '', '', 1, 0, 'ok', 1, 1, 0);"
            "INSERT INTO trial VALUES('k', 'dense', hex(zeroblob(48)), '', 1, 0, 'ok', 1, 1, 0);"
            "INSERT INTO trial VALUES('k', 'a'||char(0)||'b', '', '', 1, 0, 'ok', 1, 1, 0);"
            "INSERT INTO trial VALUES('k', 'inf', '', '', 9e999, 0, 'ok', 1, 1, 0),"
            " ('k', 'neg', '', '', -5, 0, 'ok', 1, 1, 0), ('k', 'none', '', '', 5, 0, 'ok', 0, 1, 0),"
            " ('k', 'code', '', hex(zeroblob(40)), 5, 0, 'ok', 1, 1, 0),"
            " ('k', 'new', '', '', 5, 0, 'eaten', 1, 1, 0), ('k', 'odd', '', '', 5, 0, 'wrong', 1, 1, 0),"
            " ('k', 'wide', '', '', 5, -1, 'ok', 1, 1, 0);"
            "INSERT INTO trial VALUES('k', 'good', '', '', 2, 0, 'ok', 1, 1, 0);"
            "CREATE TRIGGER evil AFTER INSERT ON trial BEGIN DELETE FROM trial; END;");
    sp_tune_db *db = open_db(p->cx, NULL);
    assert_int_equal(sp_tune_find(db, "k", t, 4), 1);
    assert_string_equal(t[0].implement, "good");
    add(db, "a", "dense", "", 1);
    add(db, "b", "dense", "", 1);
    sp_tune_close(db);
    char text[64];
    query(p->file, "SELECT count(*) FROM trial WHERE key IN ('a', 'b')", text, sizeof text);
    assert_string_equal(text, "2"); /* a trigger of the file's does not run */
}

static void lives_in_memory_without_a_folder(void **state)
{
    place *p = *state;
    sparta_ctx *cx = context("");
    sp_tune_db *db = open_db(cx, NULL), *other = open_db(cx, NULL);
    add(db, "k", "dense", "", 5);
    assert_int_equal(count(db, "k"), 1);
    assert_int_equal(count(other, "k"), 0);
    sp_tune_close(db);
    sp_tune_close(other);
    db = open_db(cx, "/nonexistent/folder/tune.db");
    assert_non_null(strstr(sparta_notes(cx), "in memory"));
    add(db, "k", "dense", "", 5);
    assert_int_equal(count(db, "k"), 1);
    sp_tune_close(db);
    sparta_ctx_free(cx);
    assert_int_equal(access(p->cache, F_OK), -1);
}

/* Without SQLite: a note, no file, and the same rules until the end. */
static void does_without_sqlite(void **state)
{
    place *p = *state;
    sp_trial t[4], slow = trial("dense", "x", 12, 1), fast = trial("dense", "x", 7, 4);
    assert_int_equal(setenv("SPARTA_SQLITE", "0", 1), 0);
    sp_tune_db *db = open_db(p->cx, NULL);
    assert_int_equal(unsetenv("SPARTA_SQLITE"), 0);
    assert_non_null(strstr(sparta_notes(p->cx), "SPARTA_SQLITE=0; measured times are forgotten"));
    sp_tune_add(db, "k", &slow);
    sp_tune_add(db, "k", &fast);
    sp_tune_add(db, "k", &slow);
    add(db, "k", "strip4", "tile=64", 5);
    add(db, "k", "strip4", "tile=32", 5);
    add(db, "other", "dense", "", 1);
    assert_int_equal(sp_tune_find(db, "k", t, 4), 3);
    assert_string_equal(t[0].point, "tile=32");
    assert_string_equal(t[1].point, "tile=64");
    assert_true(t[2].us == 7 && t[2].threads == 4);
    sp_tune_close(db);
    assert_int_equal(access(p->file, F_OK), -1);
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

static void odd_names_are_plain_names(void **state)
{
    place *p = *state;
    static const char *const odd[] = {"file:x?mode=memory", ":x:", "-wal", "with space.db"};
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(p->root), 0);
    for (size_t i = 0; i < SP_COUNT(odd); i++) {
        sp_tune_db *db = open_db(p->cx, odd[i]);
        add(db, "k", "dense", "", 5);
        sp_tune_close(db);
        assert_int_equal(access(odd[i], F_OK), 0);
    }
    assert_int_equal(chdir(before), 0);
    char *deep = malloc(9000);
    memset(deep, 'a', 8999);
    deep[8999] = 0;
    sp_tune_close(open_db(p->cx, deep));
    free(deep);
}

/* ------------------------------------------------------------------ damage */

static void overwrite(const char *file, long offset, size_t n)
{
    FILE *f = fopen(file, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    for (size_t i = 0; i < n; i++) fputc(0xa5, f);
    assert_int_equal(fclose(f), 0);
}

static void fill(const place *p, int n)
{
    sp_tune_db *db = open_db(p->cx, NULL);
    for (int i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        add(db, key, "dense", "some parameters", i + 1);
    }
    sp_tune_close(db);
}

/* Whatever part is damaged: it works after, and where nothing could be read a note says so. */
static void damaged_files_are_set_aside(void **state)
{
    place *p = *state;
    static const struct {
        long offset;
        size_t n;
    } at[] = {{0, 16}, {0, 4096}, {100, 3000}, {4096, 4096}, {0, 100000}};
    for (size_t i = 0; i < SP_COUNT(at); i++) {
        fill(p, 200);
        overwrite(p->file, at[i].offset, at[i].n);
        sp_tune_db *db = open_db(p->cx, NULL);
        count(db, "key 7");
        add(db, "new", "dense", "", 5);
        add(db, "new", "strip4", "", 4);
        assert_int_equal(count(db, "new"), 2);
        sp_tune_close(db);
        if (!strstr(sparta_notes(p->cx), "set aside as"))
            fail_msg("no note after damage %zu: %s", i, sparta_notes(p->cx));
        sp_ctx_forget_notes(p->cx);
        db = open_db(p->cx, NULL); /* and it lasts */
        assert_int_equal(count(db, "new"), 2);
        sp_tune_close(db);
        assert_string_equal(sparta_notes(p->cx), "");
        char command[128];
        assert_true(files_like(p->cache, ".corrupt-") > 0);
        snprintf(command, sizeof command, "rm -f %s*", p->file);
        assert_int_equal(system(command), 0);
    }
}

static void flipped_bytes_never_crash(void **state)
{
    place *p = *state;
    sp_rng r = sp_rng_seed(7);
    fill(p, 100);
    struct stat st;
    assert_int_equal(stat(p->file, &st), 0);
    for (int i = 0; i < 60; i++) {
        for (int k = 0; k < 20; k++) overwrite(p->file, (long)(sp_rng_next(&r) % (uint64_t)st.st_size), 1);
        sp_tune_db *db = open_db(p->cx, NULL);
        sp_trial t[4];
        sp_tune_find(db, "key 50", t, 4);
        add(db, "new", "dense", "", 5);
        assert_int_equal(count(db, "new"), 1);
        sp_tune_close(db);
        if (stat(p->file, &st)) fail();
        sp_ctx_forget_notes(p->cx);
        if (st.st_size < 8192) fill(p, 100);
        assert_int_equal(stat(p->file, &st), 0);
    }
}

/* A file named by mistake stays what it is. */
static void files_of_others_are_left_alone(void **state)
{
    place *p = *state;
    char file[96], text[64];
    snprintf(file, sizeof file, "%s/photos.db", p->root);
    execute(file, "CREATE TABLE photo(name); INSERT INTO photo VALUES('cat')");
    sp_tune_db *db = open_db(p->cx, file);
    add(db, "k", "dense", "", 5);
    assert_int_equal(count(db, "k"), 1);
    sp_tune_close(db);
    assert_non_null(strstr(sparta_notes(p->cx), "not a tuning database"));
    query(file, "SELECT group_concat(name) FROM sqlite_schema", text, sizeof text);
    assert_string_equal(text, "photo");
    snprintf(file, sizeof file, "%s/model.onnx", p->root);
    FILE *f = fopen(file, "w");
    for (int i = 0; i < 1000; i++) fputs("not a database ", f);
    fclose(f);
    sp_tune_close(open_db(p->cx, file));
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, 15000);
    assert_int_equal(files_like(p->root, "corrupt"), 0);
    snprintf(file, sizeof file, "%s", p->root); /* a folder */
    sp_tune_close(open_db(p->cx, file));
}

static uint64_t file_digest(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint64_t d = 1469598103934665603u;
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;) d = (d ^ (uint64_t)c) * 1099511628211u;
    fclose(f);
    return d;
}

static void later_versions_are_left_alone(void **state)
{
    place *p = *state;
    char text[64];
    fill(p, 3);
    execute(p->file, "PRAGMA user_version=99");
    const uint64_t bytes = file_digest(p->file);
    sp_tune_db *db = open_db(p->cx, NULL);
    assert_non_null(strstr(sparta_notes(p->cx), "later version"));
    assert_int_equal(count(db, "key 1"), 0);
    add(db, "k", "dense", "", 1);
    assert_int_equal(count(db, "k"), 1); /* in memory */
    sp_tune_close(db);
    assert_true(file_digest(p->file) == bytes); /* untouched */
    query(p->file, "SELECT count(*) FROM trial", text, sizeof text);
    assert_string_equal(text, "3");
    execute(p->file, "PRAGMA user_version=2; DROP TABLE trial"); /* ours by name, but not by content */
    sp_ctx_forget_notes(p->cx);
    db = open_db(p->cx, NULL);
    add(db, "k", "dense", "", 1);
    sp_tune_close(db);
    assert_non_null(strstr(sparta_notes(p->cx), "set aside"));
    query(p->file, "SELECT count(*) FROM trial", text, sizeof text);
    assert_string_equal(text, "1");
}

/* What an earlier version wrote is not read, and not destroyed. */
static void earlier_versions_are_set_aside(void **state)
{
    place *p = *state;
    sp_tune_close(open_db(p->cx, NULL));
    execute(p->file,
            "DROP TABLE trial; CREATE TABLE trial(key TEXT, us REAL); INSERT INTO trial VALUES('k', 1);"
            "CREATE TABLE winner(key TEXT); PRAGMA application_id=1936749665; PRAGMA user_version=1;");
    const uint64_t bytes = file_digest(p->file);
    sp_tune_db *db = open_db(p->cx, NULL);
    assert_int_equal(count(db, "k"), 0);
    add(db, "k", "dense", "", 1);
    sp_tune_close(db);
    assert_non_null(strstr(sparta_notes(p->cx), "earlier version"));
    const char *aside = strstr(sparta_notes(p->cx), "set aside as ");
    assert_non_null(aside);
    char file[512];
    snprintf(file, sizeof file, "%.*s", (int)strcspn(aside + 13, " "), aside + 13);
    assert_non_null(strstr(file, ".old-"));
    assert_true(file_digest(file) == bytes);
    char text[64];
    query(p->file, "SELECT count(*) FROM trial", text, sizeof text);
    assert_string_equal(text, "1");
}

/* In the file and in memory: other code is another matter, and a right answer counts more than a wrong one. */
static void what_ran_counts(void **state)
{
    place *p = *state;
    const char *places[] = {NULL, ":memory:"};
    for (size_t i = 0; i < SP_COUNT(places); i++) {
        sp_tune_db *db = open_db(p->cx, places[i]);
        sp_trial t[4], old = trial("dense", "", 5, 1), new = trial("dense", "", 9, 1),
                       wrong = trial("strip4", "", 0, 1);
        snprintf(old.code, sizeof old.code, "old");
        snprintf(new.code, sizeof new.code, "new");
        wrong.verdict = SP_VERDICT_WRONG;
        sp_tune_add(db, "k", &wrong);
        sp_tune_add(db, "k", &old);
        sp_tune_add(db, "k", &new); /* slower, but the old code is gone */
        assert_int_equal(sp_tune_find(db, "k", t, 4), 2);
        assert_true(t[0].us == 9 && t[0].verdict == SP_VERDICT_OK && t[1].verdict == SP_VERDICT_WRONG);
        assert_string_equal(t[0].code, "new");
        sp_trial right = trial("strip4", "", 7, 1);
        right.spread = .25;
        sp_tune_add(db, "k", &right);
        sp_tune_add(db, "k", &wrong); /* of another weight that looks the same */
        assert_int_equal(sp_tune_find(db, "k", t, 4), 2);
        assert_string_equal(t[0].implement, "strip4"); /* who won */
        assert_true(t[0].us == 7 && t[0].spread == .25 && t[0].verdict == SP_VERDICT_OK);
        sp_tune_close(db);
    }
}

/* ------------------------------------------------------------------ at once */

static void processes_write_at_once(void **state)
{
    place *p = *state;
    enum { PROCESSES = 4, RECORDS = 50 };
    pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        if ((pid[i] = fork()) != 0) continue;
        sparta_ctx *cx = context(p->cache);
        sp_tune_db *db;
        if (sp_tune_open(cx, NULL, &db)) _exit(1);
        for (int k = 0; k < RECORDS; k++) {
            char parameters[64];
            snprintf(parameters, sizeof parameters, "process=%d n=%d", i, k);
            add(db, "shared", "dense", parameters, 100 * i + k + 1);
        }
        sp_tune_close(db);
        if (sparta_notes(cx)[0]) fprintf(stderr, "%s\n", sparta_notes(cx));
        _exit(sparta_notes(cx)[0] ? 2 : 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    sp_tune_db *db = open_db(p->cx, NULL);
    sp_trial t;
    assert_int_equal(sp_tune_find(db, "shared", &t, 1), PROCESSES * RECORDS);
    assert_true(t.us == 1);
    sp_tune_close(db);
}

/* Writes for ever. */
static void write_on(const place *p, int i)
{
    sparta_ctx *cx = context(p->cache);
    sp_tune_db *db;
    if (sp_tune_open(cx, NULL, &db)) _exit(1);
    for (int k = 0;; k++) {
        char parameters[64];
        snprintf(parameters, sizeof parameters, "%d.%d", i, k);
        add(db, "k", "dense", parameters, k + 1);
    }
}

/* Two at a time, each killed at a moment of its own: while it opens, makes tables, writes, checkpoints. */
static void killed_writers_do_no_harm(void **state)
{
    place *p = *state;
    sp_rng rng = sp_rng_seed((uint64_t)getpid());
    int before = 0;
    for (int i = 0; i < 50; i += 2) {
        pid_t pid[2];
        for (int k = 0; k < 2; k++)
            if ((pid[k] = fork()) == 0) write_on(p, i + k);
        for (int k = 0; k < 2; k++) {
            usleep((unsigned)(sp_rng_next(&rng) % (i < 20 ? 4000 : 30000)));
            kill(pid[k], SIGKILL);
            assert_int_equal(waitpid(pid[k], NULL, 0), pid[k]);
        }
        sp_tune_db *db = open_db(p->cx, NULL);
        int n = count(db, "k");
        assert_true(n >= before); /* what was there stays */
        before = n;
        sp_tune_close(db);
    }
    assert_true(before > 0);
    assert_string_equal(sparta_notes(p->cx), "");
    char text[64];
    query(p->file, "PRAGMA integrity_check", text, sizeof text);
    assert_string_equal(text, "ok");
}

/* ------------------------------------------------------------------ a disk that fills */

/* No file of this process grows beyond `bytes` from now on; writing fails like on a full disk. */
static void fill_disk(rlim_t bytes)
{
    const struct rlimit limit = {bytes, bytes};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(10);
}

static int add_until_full(const place *p, rlim_t bytes)
{
    sparta_ctx *cx = context(p->cache);
    sp_tune_db *db;
    fill_disk(bytes);
    if (sp_tune_open(cx, NULL, &db)) return 1;
    for (int k = 0; k < 400; k++) {
        char parameters[64];
        snprintf(parameters, sizeof parameters, "%060d", k);
        add(db, "k", "dense", parameters, k + 1);
    }
    if (!strstr(sparta_notes(cx), "tune: ")) return 2;     /* it is said */
    if (bytes > 8192 && count(db, "key 1") != 1) return 3; /* and what was there is still found */
    if (bytes <= 8192 && count(db, "k") != 400) return 4;  /* no file at all: memory serves */
    sp_tune_close(db);
    return sp_ctx_memory(cx) ? 5 : 0;
}

static void full_disks_do_no_harm(void **state)
{
    place *p = *state;
    char text[64];
    static const rlim_t sizes[] = {0, 100, 4096, 40000, 50000, 70000};
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        int status;
        if (i == 3) fill(p, 3); /* from here on there is a database */
        pid_t pid = fork();
        if (pid == 0) _exit(add_until_full(p, sizes[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        if (i < 3) {
            unlink(p->file);
            continue;
        }
        query(p->file, "PRAGMA integrity_check", text, sizeof text);
        assert_string_equal(text, "ok");
        sp_tune_db *db = open_db(p->cx, NULL); /* room again: it goes on */
        add(db, "later", "dense", "", 1);
        assert_int_equal(count(db, "later"), 1);
        assert_int_equal(count(db, "key 1"), 1);
        sp_tune_close(db);
    }
    assert_string_equal(sparta_notes(p->cx), "");
}

/* ------------------------------------------------------------------ timing */

static void spin(void *arg)
{
    double end = sp_now() + *(double *)arg;
    while (sp_now() < end) {}
}

static void nothing(void *arg)
{
    ++*(volatile uint64_t *)arg;
}

static void times_are_right(void **state)
{
    place *p = *state;
    sp_timing t = {0};
    double us50 = 50e-6, us1 = 1e-6;
    uint64_t calls = 0;
    assert_int_equal(sp_time(p->cx, spin, &us50, 0.05, &t), SPARTA_OK);
    assert_true(t.best >= 50e-6 && t.best < 75e-6);
    assert_true(t.median >= t.best);
    assert_true(t.windows > 10);
    assert_int_equal(sp_time(p->cx, spin, &us1, 0.05, &t), SPARTA_OK);
    assert_true(t.best >= 1e-6 && t.best < 2e-6);
    double start = sp_now();
    assert_int_equal(sp_time(p->cx, nothing, &calls, 0.02, &t), SPARTA_OK);
    assert_true(sp_now() - start < 2);
    assert_true(t.best > 0 && t.best < 1e-6);
    assert_true(calls > 20000);
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

static void odd_times_are_served(void **state)
{
    place *p = *state;
    sp_timing t = {0};
    double ms5 = 5e-3;
    assert_int_equal(sp_time(p->cx, spin, &ms5, 0, &t), SPARTA_OK); /* at least one window */
    assert_int_equal(t.windows, 1);
    assert_true(t.best >= 5e-3 && t.median == t.best);
    assert_int_equal(sp_time(p->cx, spin, &ms5, 0.0 / 0.0, &t), SPARTA_OK);
    assert_int_equal(sp_time(p->cx, spin, &ms5, -1, &t), SPARTA_OK);
    sp_timing kept = t;
    sp_ctx_fail_alloc(p->cx, 1, false);
    assert_int_equal(sp_time(p->cx, spin, &ms5, 0, &t), SPARTA_E_MEMORY);
    assert_memory_equal(&kept, &t, sizeof t);
}

static void *cancel_soon(void *cx)
{
    usleep(100000);
    sparta_ctx_cancel(cx);
    return NULL;
}

static void timing_can_be_cancelled(void **state)
{
    place *p = *state;
    pthread_t thread;
    sp_timing t = {0};
    double us50 = 50e-6, start = sp_now();
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, p->cx), 0);
    assert_int_equal(sp_time(p->cx, spin, &us50, 600, &t), SPARTA_E_CANCELLED);
    assert_true(sp_now() - start < 10);
    pthread_join(thread, NULL);
    assert_int_equal(t.windows, 0);
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void)
{
    unsetenv("SPARTA_CACHE");
    const struct CMUnitTest tests[] = {
        TEST(remembers_fastest_first),
        TEST(keeps_the_faster_time),
        TEST(nonsense_is_not_recorded),
        TEST(foreign_records_are_checked),
        TEST(lives_in_memory_without_a_folder),
        TEST(does_without_sqlite),
        TEST(odd_names_are_plain_names),
        TEST(damaged_files_are_set_aside),
        TEST(flipped_bytes_never_crash),
        TEST(files_of_others_are_left_alone),
        TEST(later_versions_are_left_alone),
        TEST(earlier_versions_are_set_aside),
        TEST(what_ran_counts),
        TEST(processes_write_at_once),
        TEST(killed_writers_do_no_harm),
        TEST(full_disks_do_no_harm),
        TEST(times_are_right),
        TEST(odd_times_are_served),
        TEST(timing_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
