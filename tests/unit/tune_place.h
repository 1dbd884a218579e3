/* A folder, a cache and a context of its own for every test of the tuning database, and what both of its files use. */
#ifndef SP_TESTS_TUNE_PLACE_H
#define SP_TESTS_TUNE_PLACE_H

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

static inline sparta_ctx *context(const char *cache)
{
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = cache;
    sparta_ctx *cx = sparta_ctx_create(&o);
    assert_non_null(cx);
    return cx;
}

static inline int enter(void **state)
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

static inline int leave(void **state)
{
    place *p = *state;
    char command[80];
    sparta_ctx_free(p->cx);
    snprintf(command, sizeof command, "rm -rf %s", p->root);
    int rc = system(command);
    free(p);
    return rc;
}

static inline sp_tune_db *open_db(sparta_ctx *cx, const char *path)
{
    sp_tune_db *db = NULL;
    assert_int_equal(sp_tune_open(cx, path, &db), SPARTA_OK);
    assert_non_null(db);
    return db;
}

static inline sp_trial trial(const char *implement, const char *parameters, double us, int threads)
{
    sp_trial t = {.us = us, .threads = threads};
    snprintf(t.implement, sizeof t.implement, "%s", implement);
    snprintf(t.point, sizeof t.point, "%s", parameters);
    return t;
}

static inline void add(sp_tune_db *db, const char *key, const char *implement, const char *parameters,
                       double us)
{
    sp_trial t = trial(implement, parameters, us, 2);
    sp_tune_add(db, key, &t);
}

static inline int count(sp_tune_db *db, const char *key)
{
    return sp_tune_find(db, key, NULL, 0);
}

/* The first column of the first row of a query, by another connection. */
static inline void query(const char *file, const char *text, char *out, size_t size)
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

static inline void execute(const char *file, const char *text)
{
    sqlite3 *sql;
    assert_null(sp_sqlite_problem());
    assert_int_equal(sp_sqlite.open_v2(file, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
                     SQLITE_OK);
    assert_int_equal(sp_sqlite.exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
    sp_sqlite.close(sql);
}

static inline int files_like(const char *folder, const char *part)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
    if (d) closedir(d);
    return n;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

#endif
