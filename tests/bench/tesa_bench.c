/* Times of detection and covers on a 4096x4096 mask, one thread, best of several (`make bench-formats`). */
#include <stdio.h>
#include <stdlib.h>
#include "tesa/words.h"

#define SIDE  4096
#define TIMES 21

static sparta_ctx *cx;

static void need(sparta_status status)
{
    if (status == SPARTA_OK) return;
    fprintf(stderr, "tesa_bench: %s\n", sparta_message(cx));
    exit(1);
}

/* Blocks of n x m, each present with a chance. */
static void add_blocks(sparta_mask *mask, sparta_rng *r, int n, int m, double chance)
{
    for (int64_t i = 0; i < SIDE; i += n)
        for (int64_t j = 0; j < SIDE; j += m)
            for (int64_t e = 0, in = sparta_rng_uniform(r) < chance; in && e < n * m; e++)
                sparta_mask_set(mask, i + e / m, j + e % m);
}

typedef struct {
    double detect, report, cover, segments, group;
} times;

static void keep(double *best, double start)
{
    double t = sparta_now() - start;
    if (t < *best) *best = t;
}

static void measure_once(const sparta_mask *m, times *best)
{
    static const sparta_cover_size plain[] = {{32, 32, 64, 1, 0}, {4, 4, 8, 1, 0}, {1, 1, 2, 2, 0}},
                                   rows[] = {{32, 32, 64, 1, 32}, {4, 4, 8, 1, 8}, {1, 1, 2, 2, 4}};
    static sparta_mask_facts facts;
    sparta_pattern p;
    sparta_cover cover;
    double t = sparta_now();
    need(sparta_mask_detect(cx, m, 1.05, &p));
    keep(&best->detect, t);
    t = sparta_now();
    need(sparta_mask_report(cx, m, &(sparta_report_options){.slack = 1.05, .head_rows = 64}, &facts));
    keep(&best->report, t);
    t = sparta_now();
    need(sparta_mask_cover(cx, m, plain, 3, SPARTA_COVER_GREEDY, &cover));
    keep(&best->cover, t);
    sparta_cover_free(cx, &cover);
    t = sparta_now();
    need(sparta_mask_cover(cx, m, rows, 3, SPARTA_COVER_GREEDY, &cover));
    keep(&best->segments, t);
    sparta_cover_free(cx, &cover);
}

static void measure(const char *name, const sparta_mask *m)
{
    times best = {1e9, 1e9, 1e9, 1e9, 1e9};
    for (int i = 0; i < TIMES; i++) measure_once(m, &best);
    sparta_grouping g;
    double t = sparta_now();
    need(sparta_mask_group_rows(cx, m, 4, 1, &g));
    keep(&best.group, t);
    sparta_free(cx, g.order);
    printf("| %s | %.1f | %.1f | %.1f | %.1f | %.0f |\n", name, 1e3 * best.detect, 1e3 * best.report,
           1e3 * best.cover, 1e3 * best.segments, 1e3 * best.group);
}

/* The tiles of a report alone, with less and less of the processor (it may have less than the name says). */
static void measure_ways(const sparta_mask *m)
{
    static const char *const name[] = {"portable C", "popcnt, AVX2", "AVX-512 VPOPCNTDQ"};
    static sparta_mask_facts facts;
    uint64_t in_col[SIDE / 64] = {0};
    printf("\n| tiles counted with at most | ms |\n|---|---|\n");
    for (int way = SPARTA_TILE_ANYWHERE; way <= SPARTA_TILE_VPOPCNT; way++) {
        double best = 1e9;
        for (int i = 0; i < TIMES; i++) {
            double t = sparta_now();
            need(sparta_count_tiles(cx, m, (sparta_tile_way)way, &facts, in_col));
            keep(&best, t);
        }
        printf("| %s | %.1f |\n", name[way], 1e3 * best);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        int n, m;
        double chance, single;
    } row[] = {{"1x1 at 50 %", 1, 1, 0.5, 0},
               {"1x1 at 90 %", 1, 1, 0.1, 0},
               {"1x1 at 99 %", 1, 1, 0.01, 0},
               {"4x4 at 90 %", 4, 4, 0.1, 0},
               {"32x32 at 90 %, and 1 % single", 32, 32, 0.1, 0.01}};
    cx = sparta_ctx_create(NULL);
    if (!cx) return 1;
    printf("milliseconds, %dx%d, one thread, best of %d (grouping: once)\n\n", SIDE, SIDE, TIMES);
    printf("| mask (share absent) | detect | report | cover | cover with segments | group rows 4x1 |\n");
    printf("|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < SPARTA_COUNT(row); i++) {
        sparta_rng r = sparta_rng_seed(i + 1);
        sparta_mask m;
        need(sparta_mask_create(cx, SIDE, SIDE, &m));
        add_blocks(&m, &r, row[i].n, row[i].m, row[i].chance);
        add_blocks(&m, &r, 1, 1, row[i].single);
        measure(row[i].name, &m);
        if (i == SPARTA_COUNT(row) - 1) measure_ways(&m);
        sparta_mask_free(cx, &m);
    }
    sparta_ctx_free(cx);
    return 0;
}
