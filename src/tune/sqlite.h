/* SQLite, loaded when it is there: nothing is linked, so that the program and the library start on a machine without it. Names and numbers
 * are those of its stable interface; call sp_sqlite.step(s) for sqlite3_step(s), after sp_sqlite_problem() said NULL. */
#ifndef SP_TUNE_SQLITE_H
#define SP_TUNE_SQLITE_H

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

enum {
    SQLITE_OK = 0,
    SQLITE_ERROR = 1,
    SQLITE_BUSY = 5,
    SQLITE_LOCKED = 6,
    SQLITE_CORRUPT = 11,
    SQLITE_SCHEMA = 17,
    SQLITE_MISMATCH = 20,
    SQLITE_AUTH = 23,
    SQLITE_NOTADB = 26,
    SQLITE_ROW = 100,
    SQLITE_DONE = 101,
    SQLITE_OPEN_READWRITE = 0x2,
    SQLITE_OPEN_CREATE = 0x4,
    SQLITE_OPEN_NOMUTEX = 0x8000,
    SQLITE_PREPARE_PERSISTENT = 1,
    SQLITE_LIMIT_LENGTH = 0,
    SQLITE_LIMIT_ATTACHED = 7,
    SQLITE_DBCONFIG_ENABLE_TRIGGER = 1003,
    SQLITE_DBCONFIG_DEFENSIVE = 1010,
    SQLITE_DBCONFIG_ENABLE_VIEW = 1015,
    SQLITE_DBCONFIG_TRUSTED_SCHEMA = 1017
};

extern struct sp_sqlite {
#define SP_SQLITE(result, name, arguments) result(*name) arguments;
#include "tune/sqlite.def"
#undef SP_SQLITE
} sp_sqlite;

/* NULL: it is there. Otherwise why it is not used: "libsqlite3.so.0 is not found". */
const char *sp_sqlite_problem(void);

#endif
