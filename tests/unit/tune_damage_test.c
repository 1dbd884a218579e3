/* tune: files that are damaged, of others, of other versions; writers at once, killed ones, disks that fill. */
#include "tune_place.h"

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
    execute(p->file, "PRAGMA user_version=3; DROP TABLE trial"); /* ours by name, but not by content */
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

static double began; /* this process */

/* No more than was promised since it began, whatever a wait took: each is taken off by the clock, which the one that was the last may overrun. */
static void waited_a_second(void)
{
    const double last = .01, most = 1 + (sp_now() - began) / 60 + last, waited = sp_tune_waited();
    if (waited > most) fail_msg("waits of %g s, not %g s", waited, most);
}

/* Another process holds the file and does not let go: all who come wait a second between them, remember in memory, and say so in any case. One
 * that is locked out on its way goes on in memory as well. */
static void locks_of_others_cost_a_second(void **state)
{
    place *p = *state;
    sqlite3 *sql;
    fill(p, 3);
    sp_tune_db *open = open_db(p->cx, NULL);
    assert_null(sp_sqlite_problem());
    assert_int_equal(sp_sqlite.open_v2(p->file, &sql, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sp_sqlite.exec(sql, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 0; i < 4; i++) {
        sp_tune_db *db = open_db(p->cx, NULL);
        add(db, "k", "dense", "", 5);
        assert_int_equal(count(db, "k"), 1);
        sp_tune_close(db);
        assert_true(sp_tune_waited() > 0);
        waited_a_second();
    }
    add(open, "k", "dense", "", 5);
    add(open, "k", "strip4", "", 4);
    assert_int_equal(count(open, "k"), 2);
    waited_a_second();
    assert_non_null(strstr(sp_warnings(p->cx), "another process holds its lock; records live in memory"));
    assert_null(strstr(sp_warnings(p->cx), "lost"));
    sp_tune_close(open);
    sp_sqlite.close(sql);
    open = open_db(p->cx, NULL); /* and is read again when it is free */
    assert_int_equal(count(open, "key 1"), 1);
    assert_int_equal(count(open, "k"), 0);
    sp_tune_close(open);
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

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
        /* a machine that is too busy to write anything in that time gets more */
        const uint64_t most = i < 20 ? 4000 : before ? 30000 : 300000;
        pid_t pid[2];
        for (int k = 0; k < 2; k++)
            if ((pid[k] = fork()) == 0) write_on(p, i + k);
        for (int k = 0; k < 2; k++) {
            usleep((unsigned)(sp_rng_next(&rng) % most));
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

int main(void)
{
    unsetenv("SPARTA_CACHE");
    began = sp_now();
    const struct CMUnitTest tests[] = {
        TEST(damaged_files_are_set_aside),
        TEST(flipped_bytes_never_crash),
        TEST(files_of_others_are_left_alone),
        TEST(later_versions_are_left_alone),
        TEST(earlier_versions_are_set_aside),
        TEST(what_ran_counts),
        TEST(processes_write_at_once),
        TEST(killed_writers_do_no_harm),
        TEST(full_disks_do_no_harm),
        /* Last: no second is left after it. */
        TEST(locks_of_others_cost_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
