/* Finds SQLite at run time. */
#include "tune/sqlite.h"
#include "base/base.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sp_sqlite sp_sqlite;

static const struct {
    const char *name;
    void **at;
} functions[] = {
#define SP_SQLITE(result, name, arguments) {"sqlite3_" #name, (void **)&sp_sqlite.name},
#include "tune/sqlite.def"
#undef SP_SQLITE
};

static const char *problem;

static void look(void)
{
    void *handle = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    problem = handle ? NULL : "libsqlite3.so.0 is not found";
    for (size_t i = 0; i < SP_COUNT(functions) && !problem; i++) {
        *functions[i].at = dlsym(handle, functions[i].name);
        if (!*functions[i].at) problem = "libsqlite3.so.0 is too old";
    }
}

const char *sp_sqlite_problem(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *wanted = getenv("SPARTA_SQLITE");
    if (wanted && !strcmp(wanted, "0")) return "switched off by SPARTA_SQLITE=0";
    pthread_once(&once, look);
    return problem;
}
