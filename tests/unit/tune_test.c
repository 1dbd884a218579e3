/* tune: records that survive processes; timing. Damage and writers at once: tune_damage_test.c. */
#include "tune_place.h"
#include <math.h>
#include <time.h>

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
    assert_string_equal(text, "3");
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
    execute(
        p->file,
        "INSERT INTO trial VALUES('k', hex(zeroblob(500)), '', '', 1, 0, 'ok', 1, 1, 0, 0);"
        "INSERT INTO trial VALUES('k', 'dense', hex(zeroblob(48)), '', 1, 0, 'ok', 1, 1, 0, 0);"
        "INSERT INTO trial VALUES('k', 'a'||char(0)||'b', '', '', 1, 0, 'ok', 1, 1, 0, 0);"
        "INSERT INTO trial VALUES('k', 'inf', '', '', 9e999, 0, 'ok', 1, 1, 0, 0),"
        " ('k', 'neg', '', '', -5, 0, 'ok', 1, 1, 0, 0), ('k', 'none', '', '', 5, 0, 'ok', 0, 1, 0, 0),"
        " ('k', 'code', '', hex(zeroblob(40)), 5, 0, 'ok', 1, 1, 0, 0),"
        " ('k', 'new', '', '', 5, 0, 'eaten', 1, 1, 0, 0), ('k', 'odd', '', '', 5, 0, 'wrong', 1, 1, 0, 0),"
        " ('k', 'wide', '', '', 5, -1, 'ok', 1, 1, 0, 0);"
        "INSERT INTO trial VALUES('k', 'ever', '', '', 1, 0, 'ok', 1, 1, 9223372036854775807, 0),"
        " ('k', 'never', '', '', 1, 0, 'ok', 1, 1, -9223372036854775807, 0);"
        "INSERT INTO trial VALUES('k', 'good', '', '', 2, 0, 'ok', 1, 1, 0, 0);"
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

/* ------------------------------------------------------------------ timing */

/* Seconds that the thread runs, however long others hold it up. */
static double thread_now(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void spin(void *arg)
{
    double end = thread_now() + *(double *)arg;
    while (thread_now() < end) {}
}

static void nothing(void *arg)
{
    ++*(volatile uint64_t *)arg;
}

/* Never shorter than it takes, and about as long: a machine that is busy gets other tries, a timer that is wrong does not pass by them. */
static void takes_about(sparta_ctx *cx, double seconds, double most)
{
    bool about = false;
    for (int tries = 0; tries < 40 && !about; tries++) {
        sp_timing t = {0};
        assert_int_equal(sp_time(cx, spin, &seconds, 0.05, NULL, &t), SPARTA_OK);
        assert_true(t.best >= seconds && t.median >= t.best);
        about = t.best < most && t.windows > 10;
    }
    assert_true(about);
}

static void times_are_right(void **state)
{
    place *p = *state;
    sp_timing t = {0};
    uint64_t calls = 0;
    takes_about(p->cx, 50e-6, 75e-6);
    takes_about(p->cx, 1e-6, 2e-6);
    const clock_t start = clock();
    assert_int_equal(sp_time(p->cx, nothing, &calls, 0.02, NULL, &t), SPARTA_OK);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 10);
    assert_true(t.best > 0 && t.best < 1e-6);
    assert_true(calls > 20000);
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

static void odd_times_are_served(void **state)
{
    place *p = *state;
    sp_timing t = {0};
    double ms5 = 5e-3;
    assert_int_equal(sp_time(p->cx, spin, &ms5, 0, NULL, &t), SPARTA_OK); /* at least one window */
    assert_int_equal(t.windows, 1);
    assert_true(t.best >= 5e-3 && t.median == t.best);
    assert_int_equal(sp_time(p->cx, spin, &ms5, 0.0 / 0.0, NULL, &t), SPARTA_OK);
    assert_int_equal(sp_time(p->cx, spin, &ms5, -1, NULL, &t), SPARTA_OK);
    sp_timing kept = t;
    sp_ctx_fail_alloc(p->cx, 1, false);
    assert_int_equal(sp_time(p->cx, spin, &ms5, 0, NULL, &t), SPARTA_E_MEMORY);
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
    assert_int_equal(sp_time(p->cx, spin, &us50, 600, NULL, &t), SPARTA_E_CANCELLED);
    assert_true(sp_now() - start < 300); /* half of what it was given */
    pthread_join(thread, NULL);
    assert_int_equal(t.windows, 0);
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

/* ------------------------------------------------------------------ beside others */

/* A machine whose clocks a test moves: `fake_wall` for all, `fake_cpu` while the thread runs. */
static double fake_wall, fake_cpu, fake_all, fake_own, fake_loop;
static double get_wall(void)
{
    return fake_wall;
}
static double get_cpu(void)
{
    return fake_cpu;
}
static bool get_used(double *all, double *own)
{
    *all = fake_all, *own = fake_own;
    return true;
}
static double get_loop(void)
{
    return fake_loop;
}
static const sp_quiet_source fake = {get_wall, get_cpu, get_used, get_loop};

static int fake_clocks(void **state)
{
    fake_wall = 1000, fake_cpu = 1, fake_all = 500, fake_own = 1, fake_loop = 1e-5;
    unsetenv("SPARTA_TRUST");
    sp_quiet_set_source(&fake);
    return enter(state);
}
static int real_clocks(void **state)
{
    sp_quiet_set_source(NULL);
    return leave(state);
}

static void run_for(double seconds)
{
    fake_wall += seconds, fake_cpu += seconds, fake_own += seconds, fake_all += seconds;
}

/* A call of 100 us beside loops on every core: where it is held up, others run for 8 ms. */
static int held_up; /* one call in so many; 0: none */
static void call_of_100_us(void *arg)
{
    int *calls = arg;
    run_for(100e-6);
    if (held_up && ++*calls % held_up == 0) fake_wall += 8e-3, fake_all += 16e-3;
}

/* Whatever share of the windows waits, all of them included, the time is that of the call, and the machine is said to be disturbed. */
static void waiting_is_not_timed(void **state)
{
    place *p = *state;
    static const int shares[] = {0, 7, 2, 1};
    for (size_t i = 0; i < SP_COUNT(shares); i++) {
        sp_quiet quiet;
        sp_timing t = {0};
        int calls = 0;
        sp_quiet_begin(&quiet);
        held_up = shares[i];
        assert_int_equal(sp_time(p->cx, call_of_100_us, &calls, .05, &quiet, &t), SPARTA_OK);
        assert_true(fabs(t.best - 100e-6) < 1e-9 && fabs(t.median - 100e-6) < 1e-9);
        assert_int_equal(sp_quiet_disturbed(&quiet), held_up > 0);
    }
}

/* Others that leave this thread alone are seen too, and a clock that went down; SPARTA_TRUST=all sees neither. */
static void a_busy_machine_is_noticed(void **state)
{
    (void)state;
    sp_quiet quiet;
    const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    sp_quiet_begin(&quiet);
    run_for(1);
    assert_false(sp_quiet_disturbed(&quiet));
    run_for(1);
    fake_all += cores / 2; /* half of all processors */
    assert_true(sp_quiet_disturbed(&quiet));
    assert_true(fabs(sp_quiet_others() - cores / 2) < .03); /* less what /proc/stat may be wrong by */
    setenv("SPARTA_TRUST", "all", 1);
    assert_false(sp_quiet_disturbed(&quiet));
    unsetenv("SPARTA_TRUST");
    run_for(1); /* they are gone */
    assert_false(sp_quiet_disturbed(&quiet));
    fake_loop = 1.2e-5; /* turbo */
    sp_quiet_begin(&quiet);
    assert_false(sp_quiet_disturbed(&quiet));
    fake_loop = 2e-5;
    sp_quiet_begin(&quiet);
    assert_true(sp_quiet_disturbed(&quiet));
    fake_loop = 1e-5; /* and up again */
    assert_false(sp_quiet_disturbed(&quiet));
}

/* What was measured beside others is not believed later, and the next quiet time takes its place, slower or not; never the other way. So in
 * the file and in memory. */
static void quiet_times_take_the_place_of_others(void **state)
{
    place *p = *state;
    const char *places[] = {NULL, ":memory:"};
    for (size_t i = 0; i < SP_COUNT(places); i++) {
        sp_tune_db *db = open_db(p->cx, places[i]);
        sp_trial t, lie = trial("dense", "", 3, 1), slow = trial("dense", "", 13864, 1),
                    quiet = trial("dense", "", 1624, 1);
        lie.disturbed = slow.disturbed = true;
        sp_tune_add(db, "k", &slow);
        assert_int_equal(sp_tune_find(db, "k", &t, 1), 1);
        assert_true(t.disturbed && t.us == 13864 && !sp_tune_believes(&t) && t.measured == 1);
        sp_tune_add(db, "k", &lie);
        sp_tune_add(db, "k", &quiet);
        assert_int_equal(sp_tune_find(db, "k", &t, 1), 1);
        assert_true(!t.disturbed && t.us == 1624 && sp_tune_believes(&t) && t.measured == 1);
        sp_tune_add(db, "k", &lie);
        add(db, "k", "strip4", "", 2000); /* slower, and quiet as well */
        lie.us = 1;
        snprintf(lie.implement, sizeof lie.implement, "quads");
        sp_tune_add(db, "k", &lie);
        sp_trial all[4];
        assert_int_equal(sp_tune_find(db, "k", all, 4), 3);
        assert_string_equal(all[0].implement, "dense"); /* disturbed ones come last */
        assert_string_equal(all[2].implement, "quads");
        sp_tune_add(db, "k", &quiet);
        assert_int_equal(sp_tune_find(db, "k", &t, 1), 3);
        assert_true(t.measured == 2);
        quiet.us = 1700, quiet.anew = true; /* measured anew: the new time counts */
        sp_tune_add(db, "k", &quiet);
        assert_int_equal(sp_tune_find(db, "k", &t, 1), 3);
        assert_true(t.us == 1700);
        sp_tune_close(db);
    }
}

/* Times are believed for 90 days, and none of a clock that was ahead; then the next one takes their place. */
static void times_grow_old(void **state)
{
    place *p = *state;
    sp_trial t;
    static const struct {
        long days;
        const char *doubt;
    } ages[] = {{1, NULL}, {SP_TUNE_DAYS - 1, NULL}, {SP_TUNE_DAYS + 1, "too old"}, {-300, "in the future"}};
    for (size_t i = 0; i < SP_COUNT(ages); i++) {
        sp_tune_db *db = open_db(p->cx, NULL);
        char text[128];
        sp_trial again = trial("dense", "", 9, 1);
        add(db, "k", "dense", "", 5);
        sp_tune_close(db);
        snprintf(text, sizeof text, "UPDATE trial SET us=5, at=%lld",
                 (long long)sp_tune_now() - ages[i].days * 86400000LL);
        execute(p->file, text);
        db = open_db(p->cx, NULL);
        assert_int_equal(sp_tune_find(db, "k", &t, 1), 1);
        const char *doubt = sp_tune_doubt(&t);
        assert_int_equal(sp_tune_believes(&t), !doubt);
        assert_string_equal(doubt ? doubt : "", ages[i].doubt ? ages[i].doubt : "");
        sp_tune_add(db, "k", &again);
        assert_int_equal(sp_tune_find(db, "k", &t, 1), 1);
        assert_true(sp_tune_believes(&t) && t.us == (ages[i].doubt ? 9 : 5));
        sp_tune_close(db);
    }
}

static bool of_others(void *arg, const char *key, const sp_trial *t)
{
    ++*(int *)arg;
    return key[0] == 'o' || t->us > 100;
}

static void forgets_what_it_is_told(void **state)
{
    place *p = *state;
    int seen = 0;
    sp_tune_db *db = open_db(p->cx, NULL);
    add(db, "k", "dense", "", 5);
    add(db, "k", "strip4", "", 500);
    add(db, "other", "dense", "", 5);
    add(db, "other", "strip4", "'; DROP TABLE trial; --", 6);
    assert_int_equal(sp_tune_forget(db, of_others, &seen), 3);
    assert_int_equal(seen, 4);
    assert_int_equal(count(db, "k"), 1);
    assert_int_equal(count(db, "other"), 0);
    sp_tune_close(db);
    assert_int_equal(setenv("SPARTA_SQLITE", "0", 1), 0);
    db = open_db(p->cx, NULL);
    assert_int_equal(sp_tune_forget(db, of_others, &seen), -1); /* there is a file, and nobody writes it */
    sp_tune_close(db);
    assert_int_equal(unsetenv("SPARTA_SQLITE"), 0);
}

/* Whatever is wrong with a row, it goes with all others; what was asked to stay stays. */
static void forgets_what_nobody_reads(void **state)
{
    place *p = *state;
    char text[64];
    sp_tune_db *db = open_db(p->cx, NULL);
    add(db, "k", "dense", "", 5);
    add(db, "gpu k", "dense", "", 5);
    execute(p->file, "INSERT INTO trial VALUES(hex(zeroblob(512)), 'dense', '', '', 1, 0, 'ok', 1, 1, 0, 0);"
                     "INSERT INTO trial VALUES('minus', 'dense', '', '', -1, 0, 'ok', 1, 1, 0, 0);"
                     "INSERT INTO trial VALUES('verdict', 'dense', '', '', 1, 0, 'odd', 1, 1, 0, 0);"
                     "INSERT INTO trial VALUES('gpu', 'dense', '', '', 1, 0, 'ok', 1, 1, 0, 0);"
                     "INSERT INTO trial VALUES('\xc3\xa4', 'dense', '', '', 1, 0, 'ok', 1, 1, 0, 0);");
    assert_int_equal(sp_tune_count_all(db, "gpu "), 6);
    assert_int_equal(sp_tune_forget_all(db, "gpu "), 6);
    assert_int_equal(sp_tune_forget_all(db, "gpu "), 0);
    sp_tune_close(db);
    query(p->file, "SELECT group_concat(key) FROM trial", text, sizeof text);
    assert_string_equal(text, "gpu k");
    db = open_db(p->cx, ":memory:");
    assert_int_equal(sp_tune_forget_all(db, "gpu "), -1);
    sp_tune_close(db);
}

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
        TEST(times_are_right),
        TEST(odd_times_are_served),
        TEST(timing_can_be_cancelled),
        cmocka_unit_test_setup_teardown(waiting_is_not_timed, fake_clocks, real_clocks),
        cmocka_unit_test_setup_teardown(a_busy_machine_is_noticed, fake_clocks, real_clocks),
        cmocka_unit_test_setup_teardown(quiet_times_take_the_place_of_others, fake_clocks, real_clocks),
        TEST(times_grow_old),
        TEST(forgets_what_it_is_told),
        TEST(forgets_what_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
