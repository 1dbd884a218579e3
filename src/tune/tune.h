/* tune: what was measured, remembered.
 *
 * One SQLite file, <cache>/tune.db (or --db), with one table of trials. The key of a trial is the task (bed.h): operator, sizes, mask (of a
 * large one: pattern, density, fill), types, target, machine, version. Its other columns say which implement ran, at which point, by which code
 * (a digest of its text: an edited kernel is never judged by old times), and what came of it. Who won a task is a query: its
 * first trial. Safe with several processes (WAL); for a lock that another one holds a process waits a second in all, and a sixtieth of
 * the time that goes by (another second each minute), and then does without the file. A file of ours that is corrupted, or of an older schema, is set
 * aside, one that is not ours is left alone and memory is used, all with a note and never an error: the memory is a help, not a
 * need. Without a cache folder, or without SQLite, which is loaded when it is there (sqlite.h), it lives in memory.
 *
 *     bed.h      one node by itself: contenders built, checked, timed
 *     gpu.c      points of a kernel on a GPU: the same for sparta_blocks_tune; what was found is told to room cuda
 *     this file  what came of it, remembered; how a function is timed
 */
#ifndef SP_TUNE_H
#define SP_TUNE_H

#include "device/quiet.h"
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
    bool disturbed; /* others worked meanwhile (device/quiet.h): good for now, and not believed later */
    bool anew;      /* to be recorded: it takes the place of what is there, faster or not */
    /* How often it was measured, and when this time was (sp_tune_now). To be recorded, 0: once, and now. */
    int measured;
    int64_t at;
} sp_trial;
/* May a later compile go by this time? Not when the machine was disturbed, and not after SP_TUNE_DAYS days: kernels, microcode and what else runs
 * on a machine change. */
#define SP_TUNE_DAYS 90
#define SP_TUNE_MS   (SP_TUNE_DAYS * 86400000LL)
int64_t sp_tune_now(void); /* Unix milliseconds */
bool sp_tune_believes(const sp_trial *t);
const char *sp_tune_doubt(const sp_trial *t); /* why not, in two words or three; NULL: it may */

sparta_status sp_tune_open(sparta_ctx *cx, const char *path,
                           sp_tune_db **out) SP_MUST; /* path NULL: beside the kernel cache */
void sp_tune_close(sp_tune_db *db);
/* Seconds that this process meant to wait for locks of others; on a busy machine each wait takes longer than it should. */
double sp_tune_waited(void);
/* Do records lie in a file, and not in memory alone? */
bool sp_tune_lasts(const sp_tune_db *db);
/* The file that sp_tune_open opens, or makes; false: there is none, records live in memory. */
bool sp_tune_file(sparta_ctx *cx, const char *path, char *out, size_t size);
/* All trials of a key, those that were right first, those of a quiet machine before others, the fastest first; returns how many there are (at most `most` are written). */
int sp_tune_find(sp_tune_db *db, const char *key, sp_trial *out, int most);
/* Record a trial. Of the same key, implement, point and code the faster time stays, but one of a quiet machine takes the place of a disturbed one
 * or of one that is too old, and a right answer that of a wrong one; other code takes the place of the old. */
void sp_tune_add(sp_tune_db *db, const char *key, const sp_trial *t);

/* Every trial whose key begins so, keys in order, those of a key as sp_tune_find gives them; false ends it. Nothing where records live in memory: what is there was put
 * there by this process. */
void sp_tune_each(sp_tune_db *db, const char *prefix,
                  bool (*fn)(void *arg, const char *key, const sp_trial *trial), void *arg);
/* Forget what `fn` says yes to; how many records went, or -1: the file cannot be written, or records live in memory. */
int sp_tune_forget(sp_tune_db *db, bool (*fn)(void *arg, const char *key, const sp_trial *trial), void *arg);
/* All records, those too that are damaged and that nobody reads, but of keys that begin with `but`: how many there are, and how many went. */
int sp_tune_count_all(sp_tune_db *db, const char *but);
int sp_tune_forget_all(sp_tune_db *db, const char *but);

/* Time fn(arg), which the caller's thread runs by itself: repeats for about `seconds`, in windows of at least 20 us, after one warm-up call. quiet
 * (may be NULL) is told how long it waited for others. */
typedef struct sp_timing {
    double best, median;
    int windows;
} sp_timing; /* seconds a call */
sparta_status sp_time(sparta_ctx *cx, void (*fn)(void *arg), void *arg, double seconds, sp_quiet *quiet,
                      sp_timing *out) SP_MUST;

#endif
