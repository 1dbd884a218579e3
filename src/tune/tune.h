/* tune: what was measured, remembered.
 *
 * One SQLite file, <cache>/tune.db (or --db), two tables: `trial` (every measurement) and `winner` (the best
 * per key). The key says everything that could change the answer: operator, shape, mask (of a large one: pattern, density, fill), format,
 * target, machine, version. Safe with several processes (WAL, busy timeout); a file of ours that is
 * corrupted is set aside, one that is not ours is left alone and memory is used, both with a note and never
 * an error: the memory is a help, not a need. Without a cache folder, or without SQLite, which is loaded
 * when it is there (sqlite.h), it lives in memory.
 */
#ifndef SP_TUNE_H
#define SP_TUNE_H

#include "jit/jit.h"

typedef struct sp_tune_db sp_tune_db;
typedef struct sp_trial {
    char implement[48];
    char parameters[96];
    double us; /* best time measured, microseconds */
    int threads;
} sp_trial;

sparta_status sp_tune_open(sparta_ctx *cx, const char *path,
                           sp_tune_db **out) SP_MUST; /* path NULL: beside the kernel cache */
void sp_tune_close(sp_tune_db *db);
/* All trials of a key, fastest first; returns how many there are (at most `most` are written). */
int sp_tune_find(sp_tune_db *db, const char *key, sp_trial *out, int most);
/* Record a trial; the same key, implement and parameters keeps the faster time. */
void sp_tune_add(sp_tune_db *db, const char *key, const sp_trial *t);

/* Time fn(arg): repeats for about `seconds`, in windows of at least 20 us, after one warm-up call. */
typedef struct sp_timing {
    double best, median;
    int windows;
} sp_timing; /* seconds a call */
sparta_status sp_time(sparta_ctx *cx, void (*fn)(void *arg), void *arg, double seconds,
                      sp_timing *out) SP_MUST;

#endif
