/* The tuning database. Nothing here is an error for the caller: a record that cannot be read was not made,
 * one that cannot be written is forgotten, and a note says why.
 *
 *     trial   (key, implement, point) -> code, us, spread, verdict, threads, measured (how often), at (when, Unix milliseconds), disturbed
 *
 * The file says that it is ours: application_id "spta" and user_version 3. One that is ours (or lies in our
 * cache folder) and cannot be read is renamed to <file>.corrupt-<time>, one of an older schema to <file>.old-<time>; any other file that was
 * named by mistake is left alone, and memory is used, as where there is no cache folder or no SQLite (records.c). */
#include "tune/tune.h"
#include "tune/records.h"
#include "tune/sqlite.h"
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    APPLICATION = 0x73707461 /* "spta" */,
    SCHEMA = 3,
    LONGEST = 1 << 20,
    PATH_SIZE = 4096,
    KEY_SIZE = 1024 /* of what sp_tune_each hands out; longer keys are passed over */
};

struct sp_tune_db {
    sparta_ctx *cx;
    sqlite3 *sql;
    sqlite3_stmt *find, *add;
    sp_records *records;  /* instead of the two above: in memory */
    bool ours;            /* in the cache folder: may be set aside whatever is in it */
    char path[PATH_SIZE]; /* "" in memory */
    ino_t inode;          /* of the file that is open */
};

static const char *const verdicts[SP_VERDICTS] = {"ok", "wrong"};

static const char schema[] =
    "CREATE TABLE trial(key TEXT NOT NULL, implement TEXT NOT NULL, point TEXT NOT NULL, code TEXT NOT NULL,"
    " us REAL NOT NULL, spread REAL NOT NULL, verdict TEXT NOT NULL, threads INTEGER NOT NULL,"
    " measured INTEGER NOT NULL, at INTEGER NOT NULL, disturbed INTEGER NOT NULL,"
    " PRIMARY KEY(key, implement, point)) STRICT, WITHOUT ROWID;"
    "PRAGMA application_id=1936749665; PRAGMA user_version=3;";
static const char find_text[] =
    "SELECT implement, point, code, us, spread, verdict, threads, measured, at, disturbed FROM trial"
    " WHERE key=?1 ORDER BY verdict<>'ok', disturbed, us, implement, point";
/* What no reader takes (plausible() below): bytes that went bad without the file being unreadable. */
#define DAMAGED                                                                                              \
    "NOT(us>=0 AND us<9e999 AND spread>=0 AND threads>0 AND disturbed IN(0,1) AND at BETWEEN 0 AND 1<<60)"
/* An upsert's SET sees the old row. */
#define BETTER                                                                                               \
    "(excluded.code<>code OR " DAMAGED                                                                       \
    " OR (excluded.verdict='ok' AND (verdict<>'ok' OR excluded.disturbed<"                                   \
    "disturbed OR (excluded.disturbed=disturbed AND (excluded.us<us OR ?11 OR excluded.at-at>?12 OR"         \
    " at>excluded.at+86400000)))))"
#define KEEP(column) column "=iif(" BETTER ", excluded." column ", " column ")"
static const char add_text[] =
    "INSERT INTO trial VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?13,?9,?10) ON CONFLICT(key, implement, point) DO "
    "UPDATE "
    "SET"
    " measured=iif(excluded.code<>code OR excluded.disturbed<disturbed, ?13, "
    "measured+?13*(excluded.disturbed=disturbed)), " KEEP("code") ", " KEEP("us") ", " KEEP(
        "spread") ", " KEEP("verdict") ", " KEEP("threads") ", " KEEP("at") ", " KEEP("disturbed");

/* ------------------------------------------------------------------ locks of others */

/* Seconds that this process waits for locks of others: one, whatever it opens, and a sixtieth of the time that goes by. Who never lets go
 * (a backup, a program that was stopped) costs no more than that. */
static struct {
    pthread_mutex_t lock;
    double left, since, asked;
} patience = {PTHREAD_MUTEX_INITIALIZER, 1, -1, 0};

/* What is left of them, less what was just spent. */
static double left_after(double spent)
{
    const double now = sp_now();
    pthread_mutex_lock(&patience.lock);
    if (patience.since >= 0) patience.left += (now - patience.since) / 60;
    patience.left = fmin(1, patience.left) - spent;
    patience.since = now;
    const double left = patience.left;
    pthread_mutex_unlock(&patience.lock);
    return left;
}

/* SQLite asks how it should go on; 0: it gives up, and says that the file is busy. */
static int wait_for_lock(void *arg, int times)
{
    const struct timespec time = {0, times < 10 ? 1000000 : 10000000};
    const double start = sp_now();
    if (sp_ctx_cancelled(((sp_tune_db *)arg)->cx) || left_after(0) <= 0) return 0;
    nanosleep(&time, NULL);
    left_after(sp_now() - start);
    pthread_mutex_lock(&patience.lock);
    patience.asked += (double)time.tv_nsec * 1e-9;
    pthread_mutex_unlock(&patience.lock);
    return 1;
}

double sp_tune_waited(void)
{
    pthread_mutex_lock(&patience.lock);
    const double asked = patience.asked;
    pthread_mutex_unlock(&patience.lock);
    return asked;
}

static bool busy(int rc)
{
    return (rc & 255) == SQLITE_BUSY || (rc & 255) == SQLITE_LOCKED;
}

/* ------------------------------------------------------------------ the file */

static void shut(sp_tune_db *db)
{
    if (!db->sql) return;
    sp_sqlite.finalize(db->find);
    sp_sqlite.finalize(db->add);
    sp_sqlite.close(db->sql);
    db->find = db->add = NULL;
    db->sql = NULL;
}

static int run(sp_tune_db *db, const char *text)
{
    return sp_sqlite.exec(db->sql, text, NULL, NULL, NULL);
}

static int number(sp_tune_db *db, const char *text, int64_t *out)
{
    sqlite3_stmt *s = NULL;
    int rc = sp_sqlite.prepare_v2(db->sql, text, -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sp_sqlite.step(s);
    if (rc == SQLITE_ROW) *out = sp_sqlite.column_int64(s, 0);
    sp_sqlite.finalize(s);
    return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* The file may come from somewhere else: nothing in its schema gets to run. */
static void harden(sp_tune_db *db)
{
    sp_sqlite.busy_handler(db->sql, wait_for_lock, db);
    sp_sqlite.limit(db->sql, SQLITE_LIMIT_LENGTH, LONGEST);
    sp_sqlite.limit(db->sql, SQLITE_LIMIT_ATTACHED, 0);
    sp_sqlite.db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sp_sqlite.db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sp_sqlite.db_config(db->sql, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sp_sqlite.db_config(db->sql, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
}

/* Under a write lock, so that of two processes with a new file one makes the tables. SQLITE_AUTH: somebody
 * else's database; SQLITE_MISMATCH: of a later sparta; SQLITE_SCHEMA: of an earlier one. */
static int agree_on_schema(sp_tune_db *db)
{
    int64_t id = 0, version = 0, tables = 0;
    int rc = number(db, "PRAGMA application_id", &id);
    if (!rc) rc = number(db, "PRAGMA user_version", &version);
    if (!rc) rc = number(db, "SELECT count(*) FROM sqlite_schema", &tables);
    if (rc) return rc;
    if (!id && !version && !tables) return run(db, schema);
    if (id != APPLICATION) return SQLITE_AUTH;
    if (version > 0 && version < SCHEMA) return SQLITE_SCHEMA;
    return version == SCHEMA ? SQLITE_OK : version > SCHEMA ? SQLITE_MISMATCH : SQLITE_CORRUPT;
}

static int prepare(sp_tune_db *db)
{
    int rc = sp_sqlite.prepare_v3(db->sql, find_text, -1, SQLITE_PREPARE_PERSISTENT, &db->find, NULL);
    if (!rc) rc = sp_sqlite.prepare_v3(db->sql, add_text, -1, SQLITE_PREPARE_PERSISTENT, &db->add, NULL);
    return rc == SQLITE_ERROR ? SQLITE_CORRUPT : rc; /* it says that it is ours and has not our tables */
}

static int start(sp_tune_db *db)
{
    struct stat st;
    int rc = sp_sqlite.open_v2(db->path, &db->sql,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc) return rc;
    db->inode = !stat(db->path, &st) ? st.st_ino : 0;
    harden(db);
    rc = run(db, "BEGIN IMMEDIATE");
    if (rc) return rc;
    rc = agree_on_schema(db);
    if (!rc) rc = run(db, "COMMIT");
    if (!rc) rc = prepare(db);
    if (rc) return rc;
    /* Only now: a file that is not ours stays as it is. Another process may be just switching too; then it
     * does it for us. */
    run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cell_size_check=ON");
    return SQLITE_OK;
}

/* ------------------------------------------------------------------ when it goes wrong */

/* SQLite's header carries our id at offset 68, also where the rest is unreadable. */
static bool says_it_is_ours(const char *path)
{
    unsigned char head[72] = {0};
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    bool whole = read(fd, head, sizeof head) == (ssize_t)sizeof head;
    close(fd);
    return whole && !memcmp(head, "SQLite format 3", 16) && !memcmp(head + 68, "spta", 4);
}

/* Files go in this order: a log without its database is harmless, a new database beside an old log is not. */
static bool set_aside(sp_tune_db *db, const char *why, char *name, size_t size)
{
    static const char *const parts[] = {"-wal", "-shm", ""};
    char from[PATH_SIZE + 8], to[PATH_SIZE + 64];
    struct stat st;
    snprintf(name, size, "%s.%s-%lld", db->path, why, (long long)time(NULL));
    if (lstat(db->path, &st) || (db->inode && st.st_ino != db->inode))
        return true; /* another process was faster */
    if (!S_ISREG(st.st_mode)) return false;
    int failed = 0;
    for (size_t i = 0; i < SP_COUNT(parts); i++) {
        snprintf(from, sizeof from, "%s%s", db->path, parts[i]);
        snprintf(to, sizeof to, "%s%s", name, parts[i]);
        failed = rename(from, to);
    }
    return !failed;
}

static bool use_memory(sp_tune_db *db)
{
    shut(db);
    db->path[0] = 0;
    db->inode = 0;
    db->records = sp_records_create(db->cx);
    return db->records != NULL;
}

static bool unreadable(int rc)
{
    return (rc & 255) == SQLITE_CORRUPT || (rc & 255) == SQLITE_NOTADB;
}

static const char *reason(int rc)
{
    if (rc == SQLITE_AUTH) return "it is not a tuning database";
    if (rc == SQLITE_MISMATCH) return "it was written by a later version";
    if (rc == SQLITE_SCHEMA) return "it was written by an earlier version";
    if (busy(rc)) return "another process holds its lock";
    return sp_sqlite.errstr(rc);
}

/* Make a working database out of one that failed with rc: a new file, or memory. False: not even that. */
static bool recover(sp_tune_db *db, int rc)
{
    char name[PATH_SIZE + 48];
    const bool older = rc == SQLITE_SCHEMA; /* which only a file says that is ours */
    const bool may = older || ((unreadable(rc) || rc == SQLITE_AUTH) &&
                               (db->ours || (unreadable(rc) && says_it_is_ours(db->path))));
    shut(db);
    if (may && set_aside(db, older ? "old" : "corrupt", name, sizeof name)) {
        db->inode = 0;
        sp_warn(db->cx, "tune: %s: %s; it was set aside as %s and a new one is started", db->path, reason(rc),
                name);
        if ((rc = start(db)) == SQLITE_OK) return true;
    }
    sp_warn(db->cx, "tune: %s: %s; records live in memory; options.db names another file", db->path,
            reason(rc));
    return use_memory(db);
}

/* ------------------------------------------------------------------ open and close */

static void choose_path(sparta_ctx *cx, sp_tune_db *db, const char *path)
{
    if (path && !strcmp(path, ":memory:")) path = "";
    db->ours = !path;
    const char *root = path ? path : sparta_cache_folder(cx);
    /* "./" in front: SQLite reads a name that begins with "file:" or ":" as more than a name. */
    const char *here = root[0] && root[0] != '/' ? "./" : "";
    int n = snprintf(db->path, sizeof db->path, "%s%s%s", here, root, db->ours && root[0] ? "/tune.db" : "");
    if (n >= 0 && (size_t)n < sizeof db->path) return;
    db->path[0] = 0;
    sp_warn(cx, "tune: the path of the database is longer than %d bytes; records live in memory",
            PATH_SIZE - 1);
}

bool sp_tune_file(sparta_ctx *cx, const char *path, char *out, size_t size)
{
    sp_tune_db db = {.cx = cx};
    choose_path(cx, &db, path);
    snprintf(out, size, "%s", db.path);
    return db.path[0] && strlen(db.path) < size;
}

static bool open_either(sp_tune_db *db)
{
    if (!db->path[0]) return use_memory(db);
    const char *problem = sp_sqlite_problem();
    if (problem) {
        sp_note(db->cx, "tune: %s: %s; measured times are forgotten at the end", db->path, problem);
        return use_memory(db);
    }
    int rc = start(db);
    return rc == SQLITE_OK || recover(db, rc);
}

sparta_status sp_tune_open(sparta_ctx *cx, const char *path, sp_tune_db **out)
{
    sp_tune_db *db = sp_zalloc(cx, sizeof *db);
    SP_NEED(cx, db);
    db->cx = cx;
    choose_path(cx, db, path);
    if (open_either(db)) {
        *out = db;
        return SPARTA_OK;
    }
    sp_tune_close(db);
    return sp_ctx_status(cx);
}

void sp_tune_close(sp_tune_db *db)
{
    if (!db) return;
    shut(db);
    sp_records_free(db->records);
    sp_free(db->cx, db);
}

bool sp_tune_lasts(const sp_tune_db *db)
{
    return db && db->sql;
}

/* ------------------------------------------------------------------ reading */

/* A text that fits whole, or none: what is cut is another name. */
static bool copy(sqlite3_stmt *s, int column, char *out, size_t size)
{
    const char *text = (const char *)sp_sqlite.column_text(s, column);
    size_t n = (size_t)sp_sqlite.column_bytes(s, column);
    if (!text || n >= size || strlen(text) != n) return false;
    memcpy(out, text, n + 1);
    return true;
}

static bool plausible(const sp_trial *t)
{
    return (int)t->verdict >= 0 && t->verdict < SP_VERDICTS && isfinite(t->us) && isfinite(t->spread) &&
           t->spread >= 0 && t->threads > 0 && t->at >= 0 && t->at <= (int64_t)1 << 60 &&
           (t->verdict == SP_VERDICT_OK ? t->us > 0 : t->us == 0);
}

static bool read_trial(sqlite3_stmt *s, sp_trial *t)
{
    memset(t, 0, sizeof *t);
    t->us = sp_sqlite.column_double(s, 3);
    t->spread = sp_sqlite.column_double(s, 4);
    t->threads = sp_sqlite.column_int(s, 6);
    t->measured = sp_sqlite.column_int(s, 7);
    t->at = sp_sqlite.column_int64(s, 8);
    t->disturbed = sp_sqlite.column_int(s, 9) != 0;
    const char *verdict = (const char *)sp_sqlite.column_text(s, 5);
    while (verdict && t->verdict < SP_VERDICTS && strcmp(verdict, verdicts[t->verdict])) t->verdict++;
    return verdict && copy(s, 0, t->implement, sizeof t->implement) &&
           copy(s, 1, t->point, sizeof t->point) && copy(s, 2, t->code, sizeof t->code) && plausible(t);
}

static int find(sp_tune_db *db, const char *key, sp_trial *out, int most, int *count)
{
    int n = 0, rc;
    sp_trial t;
    sp_sqlite.bind_text(db->find, 1, key, -1, NULL);
    while ((rc = sp_sqlite.step(db->find)) == SQLITE_ROW) {
        if (!read_trial(db->find, &t)) continue;
        if (n < most) out[n] = t;
        n++;
    }
    sp_sqlite.reset(db->find);
    sp_sqlite.clear_bindings(db->find);
    *count = n;
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int64_t sp_tune_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *sp_tune_doubt(const sp_trial *t)
{
    const int64_t age = sp_tune_now() - t->at;
    if (t->disturbed && !sp_quiet_trusts_all()) return "disturbed";
    return age >= SP_TUNE_MS ? "too old" : age <= -86400000 ? "in the future" : NULL;
}

bool sp_tune_believes(const sp_trial *t)
{
    return !sp_tune_doubt(t);
}

int sp_tune_find(sp_tune_db *db, const char *key, sp_trial *out, int most)
{
    int n = 0;
    if (db && db->records) return sp_records_find(db->records, key, out, most);
    if (!db || !db->sql) return 0;
    int rc = find(db, key, out, most, &n);
    if (rc == SQLITE_OK) return n;
    if (unreadable(rc) || busy(rc)) recover(db, rc);
    return 0;
}

/* Keys that begin with `prefix` lie between it and itself with one more in its last byte. */
void sp_tune_each(sp_tune_db *db, const char *prefix,
                  bool (*fn)(void *arg, const char *key, const sp_trial *trial), void *arg)
{
    static const char text[] =
        "SELECT implement, point, code, us, spread, verdict, threads, measured, at, disturbed, key FROM trial"
        " WHERE key>=?1 AND key<?2 ORDER BY key, verdict<>'ok', disturbed, us, implement, point";
    char after[64], key[KEY_SIZE];
    sqlite3_stmt *s = NULL;
    sp_trial t;
    const size_t n = strlen(prefix);
    SP_ASSERT(n < sizeof after);
    if (!db || !db->sql || sp_sqlite.prepare_v2(db->sql, text, -1, &s, NULL)) return;
    snprintf(after, sizeof after, "%s", n ? prefix : "\x7f"); /* all of them: keys are ASCII */
    if (n) after[n - 1]++;
    sp_sqlite.bind_text(s, 1, prefix, -1, NULL);
    sp_sqlite.bind_text(s, 2, after, -1, NULL);
    while (sp_sqlite.step(s) == SQLITE_ROW)
        if (read_trial(s, &t) && copy(s, 10, key, sizeof key) && !fn(arg, key, &t)) break;
    sp_sqlite.finalize(s);
}

/* ------------------------------------------------------------------ writing */

static int add(sp_tune_db *db, const char *key, const sp_trial *t)
{
    sqlite3_stmt *s = db->add;
    const char *text[] = {key, t->implement, t->point, t->code};
    for (int i = 0; i < (int)SP_COUNT(text); i++) sp_sqlite.bind_text(s, i + 1, text[i], -1, NULL);
    sp_sqlite.bind_double(s, 5, t->us);
    sp_sqlite.bind_double(s, 6, t->spread);
    sp_sqlite.bind_text(s, 7, verdicts[t->verdict], -1, NULL);
    sp_sqlite.bind_int(s, 8, t->threads);
    sp_sqlite.bind_int64(s, 9, t->at ? t->at : sp_tune_now());
    sp_sqlite.bind_int(s, 10, t->disturbed);
    sp_sqlite.bind_int(s, 11, t->anew);
    sp_sqlite.bind_int64(s, 12, SP_TUNE_MS);
    sp_sqlite.bind_int(s, 13, SP_MAX(t->measured, 1));
    int rc = sp_sqlite.step(s);
    sp_sqlite.reset(s);
    sp_sqlite.clear_bindings(s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static bool sound(const char *key, const sp_trial *t)
{
    return strlen(key) < LONGEST / 2 && memchr(t->implement, 0, sizeof t->implement) &&
           memchr(t->point, 0, sizeof t->point) && memchr(t->code, 0, sizeof t->code) && plausible(t);
}

/* An error of SQLite, or of no memory: what the record was lost to. */
static const char *add_to_file(sp_tune_db *db, const char *key, const sp_trial *t)
{
    int rc = add(db, key, t);
    if ((unreadable(rc) || busy(rc)) && recover(db, rc)) rc = db->sql ? add(db, key, t) : SQLITE_OK;
    return rc ? sp_sqlite.errstr(rc) : NULL;
}

void sp_tune_add(sp_tune_db *db, const char *key, const sp_trial *t)
{
    if (!db || (!db->sql && !db->records) || !sound(key, t)) return;
    const char *lost = db->sql ? add_to_file(db, key, t) : NULL;
    if (db->records && sp_records_add(db->records, key, t) != SPARTA_OK) lost = "no memory";
    if (lost) sp_warn(db->cx, "tune: %s: %s; a record was lost", db->path[0] ? db->path : "memory", lost);
}

/* ------------------------------------------------------------------ forgetting */

typedef struct forgetting {
    bool (*fn)(void *arg, const char *key, const sp_trial *trial);
    void *arg;
    sqlite3_stmt *s;
    int n, rc;
} forgetting;

static bool forget_one(void *arg, const char *key, const sp_trial *t)
{
    forgetting *f = arg;
    if (!f->fn(f->arg, key, t)) return true;
    const char *text[] = {key, t->implement, t->point};
    for (int i = 0; i < (int)SP_COUNT(text); i++) sp_sqlite.bind_text(f->s, i + 1, text[i], -1, NULL);
    f->rc = sp_sqlite.step(f->s);
    sp_sqlite.reset(f->s);
    sp_sqlite.clear_bindings(f->s);
    f->n++;
    return f->rc == SQLITE_DONE;
}

int sp_tune_forget(sp_tune_db *db, bool (*fn)(void *arg, const char *key, const sp_trial *trial), void *arg)
{
    static const char text[] = "DELETE FROM trial WHERE key=?1 AND implement=?2 AND point=?3";
    forgetting f = {.fn = fn, .arg = arg, .rc = SQLITE_DONE};
    if (!db || !db->sql || sp_sqlite.prepare_v2(db->sql, text, -1, &f.s, NULL)) return -1;
    bool done = !run(db, "BEGIN IMMEDIATE");
    if (done) {
        sp_tune_each(db, "", forget_one, &f);
        done = f.rc == SQLITE_DONE && !run(db, "COMMIT");
        if (!done) run(db, "ROLLBACK");
    }
    sp_sqlite.finalize(f.s);
    return done ? f.n : -1;
}

/* How many rows a statement has, whose first parameter this is; -1: it cannot be done. */
static int rows_of(sp_tune_db *db, const char *text, const char *parameter)
{
    sqlite3_stmt *s = NULL;
    int n = 0, rc;
    if (!db || !db->sql || sp_sqlite.prepare_v2(db->sql, text, -1, &s, NULL)) return -1;
    sp_sqlite.bind_text(s, 1, parameter, -1, NULL);
    while ((rc = sp_sqlite.step(s)) == SQLITE_ROW) n++;
    sp_sqlite.finalize(s);
    return rc == SQLITE_DONE ? n : -1;
}

#define ALL_BUT " FROM trial WHERE substr(key, 1, length(?1))<>?1"

int sp_tune_count_all(sp_tune_db *db, const char *but)
{
    return rows_of(db, "SELECT 1" ALL_BUT, but);
}

int sp_tune_forget_all(sp_tune_db *db, const char *but)
{
    return rows_of(db, "DELETE" ALL_BUT " RETURNING 1", but);
}
