/* Clocks, what others do, and the loop that tells the clock of the processor. */
#include "device/quiet.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WAITED   .05  /* of what was timed */
#define OTHERS   .25  /* of all processors */
#define SLOWER   1.25 /* times the loop's best: turbo comes and goes with less */
#define INTERVAL .1   /* seconds between two looks at /proc/stat */
#define TICKS    .02  /* seconds that two looks may be wrong by: it counts in hundredths */
#define COARSE   1e-4 /* seconds: a clock of the thread that moves in such steps says nothing of a window */

/* ------------------------------------------------------------------ what the machine says */

static double thread_seconds(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(int who)
{
    struct rusage u;
    if (getrusage(who, &u)) return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* "cpu  user nice system idle iowait irq softirq steal": all but idle and iowait is work. */
static bool used_seconds(double *all, double *own)
{
    unsigned long long t[8] = {0};
    FILE *f = fopen("/proc/stat", "re");
    const int n = f ? fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
                             &t[4], &t[5], &t[6], &t[7])
                    : 0;
    const long ticks = sysconf(_SC_CLK_TCK);
    if (f) fclose(f);
    if (n < 4 || ticks <= 0) return false;
    *all = (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)ticks;
    *own = seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN);
    return true;
}

/* A chain of multiplications, each of which waits for the one before: cycles, whatever the memory does. The best of a few. */
static double loop_seconds(void)
{
    enum { STEPS = 5000, TIMES = 5 };
    double best = 1;
    volatile uint64_t sink = 1;
    for (int k = 0; k < TIMES; k++) {
        uint64_t x = sink | 1;
        const double start = thread_seconds();
        for (int i = 0; i < STEPS; i++) x = x * 6364136223846793005u + 1442695040888963407u;
        best = SP_MIN(best, thread_seconds() - start);
        sink = x;
    }
    return best;
}

static const sp_quiet_source machine = {sp_now, thread_seconds, used_seconds, loop_seconds};
static const sp_quiet_source *source = &machine;

/* What was found before, for all threads. */
static struct {
    pthread_mutex_t lock;
    double at, all, own; /* the last look; at 0: none yet */
    double others;
    double loop; /* the best */
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void sp_quiet_set_source(const sp_quiet_source *s)
{
    source = s ? s : &machine;
    known.at = known.others = known.loop = 0;
}

/* ------------------------------------------------------------------ windows */

/* Does the thread's clock move by ticks, as in some sandboxes? Asked once, by the first window that seems to have waited. */
static bool is_coarse(void)
{
    static _Atomic int answer; /* 0: nobody asked yet; 1: no; 2: yes */
    if (source != &machine) return false;
    if (!answer) {
        const double wall = sp_now(), before = thread_seconds();
        double after = before;
        while (after <= before && sp_now() - wall < .05) after = thread_seconds();
        answer = after <= before || after - before > COARSE ? 2 : 1;
    }
    return answer == 2;
}

/* The thread's clock is a call of the kernel: outside of the other, it is not timed. */
sp_watch sp_watch_start(void)
{
    const double cpu = source->cpu();
    return (sp_watch){.cpu = cpu, .wall = source->wall()};
}

double sp_watch_read(const sp_watch *w, sp_quiet *q)
{
    const double wall = source->wall() - w->wall, cpu = source->cpu() - w->cpu, waited = wall - cpu;
    const bool ran = cpu <= 0 || waited < 3e-6 + .02 * wall || is_coarse();
    if (q) q->timed += wall;
    if (q && !ran) q->waited += waited;
    return ran ? wall : cpu;
}

/* ------------------------------------------------------------------ the verdict */

bool sp_quiet_trusts_all(void)
{
    const char *trust = getenv("SPARTA_TRUST");
    return trust && !strcmp(trust, "all");
}

double sp_quiet_others(void)
{
    double all = 0, own = 0;
    const double now = source->wall();
    pthread_mutex_lock(&known.lock);
    const double since = now - known.at;
    if ((!known.at || since >= INTERVAL) && source->used(&all, &own)) {
        if (known.at) known.others = SP_MAX(0, all - known.all - (own - known.own) - TICKS) / since;
        known.at = now;
        known.all = all;
        known.own = own;
    }
    const double others = known.others;
    pthread_mutex_unlock(&known.lock);
    return others;
}

/* The loop's time over the best that was ever seen. */
static double slowness(void)
{
    const double took = source->loop();
    pthread_mutex_lock(&known.lock);
    if (known.loop <= 0 || took < known.loop) known.loop = took;
    const double slow = known.loop > 0 ? took / known.loop : 1;
    pthread_mutex_unlock(&known.lock);
    return slow;
}

void sp_quiet_begin(sp_quiet *q)
{
    sp_quiet_others();
    *q = (sp_quiet){.slow = slowness()};
}

bool sp_quiet_disturbed(const sp_quiet *q)
{
    if (sp_quiet_trusts_all()) return false;
    return q->waited > WAITED * q->timed ||
           sp_quiet_others() > OTHERS * (double)sysconf(_SC_NPROCESSORS_ONLN) ||
           (q->slow > SLOWER && slowness() > SLOWER);
}
