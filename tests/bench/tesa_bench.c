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
static void add_blocks(sp_mask *mask, sp_rng *r, int n, int m, double chance)
{
    for (int64_t i = 0; i < SIDE; i += n)
        for (int64_t j = 0; j < SIDE; j += m)
            for (int64_t e = 0, in = sp_rng_uniform(r) < chance; in && e < n * m; e++)
                sp_mask_set(mask, i + e / m, j + e % m);
}

typedef struct {
    double detect, report, cover, segments, group;
} times;

static void keep(double *best, double start)
{
    double t = sp_now() - start;
    if (t < *best) *best = t;
}

static void measure_once(const sp_mask *m, times *best)
{
    static const sp_cover_size plain[] = {{32, 32, 64, 1, 0}, {4, 4, 8, 1, 0}, {1, 1, 2, 2, 0}},
                               rows[] = {{32, 32, 64, 1, 32}, {4, 4, 8, 1, 8}, {1, 1, 2, 2, 4}};
    static sp_mask_facts facts;
    sp_pattern p;
    sp_cover cover;
    double t = sp_now();
    need(sp_mask_detect(cx, m, 1.05, &p));
    keep(&best->detect, t);
    t = sp_now();
    need(sp_mask_report(cx, m, &(sp_report_options){.slack = 1.05, .head_rows = 64}, &facts));
    keep(&best->report, t);
    t = sp_now();
    need(sp_mask_cover(cx, m, plain, 3, &cover));
    keep(&best->cover, t);
    sp_cover_free(cx, &cover);
    t = sp_now();
    need(sp_mask_cover(cx, m, rows, 3, &cover));
    keep(&best->segments, t);
    sp_cover_free(cx, &cover);
}

static void measure(const char *name, const sp_mask *m)
{
    times best = {1e9, 1e9, 1e9, 1e9, 1e9};
    for (int i = 0; i < TIMES; i++) measure_once(m, &best);
    sp_row_order g;
    double t = sp_now();
    need(sp_mask_order_rows(cx, m, 4, 1, &g));
    keep(&best.group, t);
    sp_free(cx, g.order);
    printf("| %s | %.1f | %.1f | %.1f | %.1f | %.0f |\n", name, 1e3 * best.detect, 1e3 * best.report,
           1e3 * best.cover, 1e3 * best.segments, 1e3 * best.group);
}

/* The tiles of a report alone, with less and less of the processor (it may have less than the name says). */
static void measure_ways(const sp_mask *m)
{
    static const char *const name[] = {"portable C", "popcnt, AVX2", "AVX-512 VPOPCNTDQ"};
    static sp_mask_facts facts;
    uint64_t in_col[SIDE / 64] = {0};
    printf("\n| tiles counted with at most | ms |\n|---|---|\n");
    for (int way = SP_TILE_ANYWHERE; way <= SP_TILE_VPOPCNT; way++) {
        double best = 1e9;
        for (int i = 0; i < TIMES; i++) {
            double t = sp_now();
            need(sp_count_tiles(cx, m, (sp_tile_way)way, &facts, in_col));
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
    printf("| mask (share absent) | detect | report | cover | cover with segments | order of rows 4x1 |\n");
    printf("|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < SP_COUNT(row); i++) {
        sp_rng r = sp_rng_seed(i + 1);
        sp_mask m;
        need(sp_mask_create(cx, SIDE, SIDE, &m));
        add_blocks(&m, &r, row[i].n, row[i].m, row[i].chance);
        add_blocks(&m, &r, 1, 1, row[i].single);
        measure(row[i].name, &m);
        if (i == SP_COUNT(row) - 1) measure_ways(&m);
        sp_mask_free(cx, &m);
    }
    sparta_ctx_free(cx);
    return 0;
}
