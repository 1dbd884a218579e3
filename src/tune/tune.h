/* tune: what was measured, remembered.
 *
 * One SQLite file, <cache>/tune.db (or --db), with one table of trials. The key of a trial is the task (bed.h): operator, sizes, mask (of a
 * large one: pattern, density, fill), types, target, machine, version. Its other columns say which implement ran, at which point, by which code
 * (a digest of its text: an edited kernel is never judged by old times), and what came of it. Who won a task is a query: its
 * first trial. Safe with several processes (WAL); for a lock that another one holds a process waits a second in all, and then does without the file. A file of ours that is corrupted, or of an older schema, is set
 * aside, one that is not ours is left alone and memory is used, all with a note and never an error: the memory is a help, not a
 * need. Without a cache folder, or without SQLite, which is loaded when it is there (sqlite.h), it lives in memory.
 *
 *     bed.h      one node by itself: contenders built, checked, timed
 *     gpu.c      points of a kernel on a GPU: the same for sparta_blocks_tune; what was found is told to room cuda
 *     this file  what came of it, remembered; how a function is timed
 */
#ifndef SP_TUNE_H
#define SP_TUNE_H

#include "jit/jit.h"

typedef struct sp_tune_db sp_tune_db;
typedef enum { SP_VERDICT_OK, SP_VERDICT_WRONG, SP_VERDICTS } sp_verdict;
typedef struct sp_trial {
    char implement[48];
    char point[64];
    char code[40]; /* digest of the text that ran, and the library's version where one did */
    sp_verdict verdict;
    double us;     /* best time measured, microseconds; 0 unless it is right */
    double spread; /* how much longer the median was, as a share of us */
    int threads;
} sp_trial;

sparta_status sp_tune_open(sparta_ctx *cx, const char *path,
                           sp_tune_db **out) SP_MUST; /* path NULL: beside the kernel cache */
void sp_tune_close(sp_tune_db *db);
/* All trials of a key, those that were right first, the fastest first; returns how many there are (at most `most` are written). */
int sp_tune_find(sp_tune_db *db, const char *key, sp_trial *out, int most);
/* Record a trial. Of the same key, implement, point and code the faster time stays, and a right answer rather than a wrong one; other code
 * takes the place of the old. */
void sp_tune_add(sp_tune_db *db, const char *key, const sp_trial *t);

/* Every trial whose key begins so, keys in order, those of a key as sp_tune_find gives them; false ends it. Nothing where records live in memory: what is there was put
 * there by this process. */
void sp_tune_each(sp_tune_db *db, const char *prefix,
                  bool (*fn)(void *arg, const char *key, const sp_trial *trial), void *arg);

/* Time fn(arg): repeats for about `seconds`, in windows of at least 20 us, after one warm-up call. */
typedef struct sp_timing {
    double best, median;
    int windows;
} sp_timing; /* seconds a call */
sparta_status sp_time(sparta_ctx *cx, void (*fn)(void *arg), void *arg, double seconds,
                      sp_timing *out) SP_MUST;

#endif
