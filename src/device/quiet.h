/* quiet: was the machine left alone while something was timed?
 *
 *     wall   |--run--|......|--run--|      a window of time: dots are where another program had the processor
 *     cpu    |--run--|--run--|             what the thread itself ran: this is the time of the window
 *
 * A window in which its thread waited is not lost: the processor time of the thread says what it took, near enough for the best of many. But times
 * that are taken while others work are longer for other reasons, too (caches, the clock, the other half of a core), so that who wants to
 * remember them asks whether the machine was disturbed:
 *
 *   - the thread waited for more than a twentieth of what was timed, or
 *   - other programs used more than a quarter of all processors (/proc/stat, less what this process and its children used), or
 *   - a short loop of known work ran slower by a quarter than it once did in this process: the clock is lower.
 *
 * SPARTA_TRUST=all trusts every time, for tests of what is remembered.
 */
#ifndef SP_DEVICE_QUIET_H
#define SP_DEVICE_QUIET_H

#include "base/base.h"

typedef struct sp_quiet {
    double timed, waited; /* seconds of windows, and of them those in which the thread did not run */
    double slow;          /* the loop's time over its best, at the beginning */
} sp_quiet;
typedef struct sp_watch {
    double wall, cpu;
} sp_watch;

void sp_quiet_begin(sp_quiet *q);
sp_watch sp_watch_start(void);
/* Seconds that the caller's thread ran since; q (may be NULL) is told how long it waited. */
double sp_watch_read(const sp_watch *w, sp_quiet *q);
/* Was the machine disturbed since sp_quiet_begin? */
bool sp_quiet_disturbed(const sp_quiet *q);
/* Processors that other programs used lately; 0: none, or not known. */
double sp_quiet_others(void);
/* SPARTA_TRUST=all */
bool sp_quiet_trusts_all(void);

/* Tests: clocks of their own; NULL: those of the machine. `used`: processor seconds of the whole machine, and of this process. */
typedef struct sp_quiet_source {
    double (*wall)(void), (*cpu)(void);
    bool (*used)(double *all, double *own);
    double (*loop)(void);
} sp_quiet_source;
void sp_quiet_set_source(const sp_quiet_source *s);

#endif
