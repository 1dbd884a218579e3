/* Covers: a mask as a sum of disjoint parts.
 *
 *      1 1 . .     2x2:  1 1        1x1:  . . . .
 *      1 1 . .           1 1              . . . .
 *      . . . 1                            . . . 1
 *      . . . .
 *
 * Sizes nest, so blocks are a tree: a block is stored whole, or what is in it is stored by its children. With a
 * price for each size (block + slot*n*m) the cheapest choice comes from below: min(own price, sum of children).
 * Only segments (a strip of n rows with any block of that size, which costs a position) tie blocks together;
 * strips of the largest height are independent of each other. So for each of them we try sets of allowed sizes,
 * solve the tree for each, and keep the cheapest.
 *
 * All of it counts in the smallest block: `fine` has a bit for each, and with 1x1 it is the mask itself.
 */
#include "tesa/words.h"
#include <math.h>
#include <string.h>

#define SIZES        SP_COVER_SIZES
#define LARGEST_SIDE (INT64_C(1) << 20)
#define LARGEST_COST 1e30 /* sums of prices stay finite */

typedef enum { EMPTY, PASS, TAKE } choice;

typedef struct {
    sparta_ctx *cx;
    const sp_cover_size *size;
    int sizes;
    bool segments; /* some cost something */
    const sp_mask *fine;
    int64_t h[SIZES], w[SIZES]; /* in smallest blocks */
    int64_t strips[SIZES];      /* of this size in a strip of the largest height */
    int64_t across[SIZES];
    double price[SIZES];
    double *best[SIZES];    /* strips * across, all but the last size */
    uint8_t *choice[SIZES]; /* the same */
    int64_t *count;         /* of the last size but one: smallest blocks */
    uint64_t *cols, *rest;  /* a row of columns taken; the strip's rows less what is taken */
    sp_mask part[SIZES];    /* in smallest blocks */
} solver;

/* Is size l in the set of those that are allowed? */
static bool is_open(uint32_t open, int l)
{
    return open >> l & 1;
}

/* ------------------------------------------------------------------ the tree, from below */

static void count_strip(const solver *v, int64_t row, int64_t rows)
{
    int l = v->sizes - 2;
    memset(v->count, 0, (size_t)(v->strips[l] * v->across[l]) * sizeof *v->count);
    for (int64_t s = 0; s * v->h[l] < rows; s++)
        sp_strip_counts(v->fine, row + s * v->h[l], row + SP_MIN(rows, (s + 1) * v->h[l]), v->w[l],
                        v->count + s * v->across[l]);
}

static void decide(const solver *v, int l, int64_t block, double own, double below)
{
    v->choice[l][block] = own <= below ? TAKE : PASS;
    v->best[l][block] = own <= below ? own : below;
}

static void solve_lowest(const solver *v, uint32_t open)
{
    const int l = v->sizes - 2;
    const double own = is_open(open, l) ? v->price[l] : INFINITY;
    for (int64_t b = 0; b < v->strips[l] * v->across[l]; b++) {
        v->choice[l][b] = EMPTY, v->best[l][b] = 0;
        if (v->count[b])
            decide(v, l, b, own, is_open(open, l + 1) ? (double)v->count[b] * v->price[l + 1] : INFINITY);
    }
}

static void solve_above(const solver *v, uint32_t open, int l)
{
    int64_t down = v->h[l] / v->h[l + 1], wide = v->w[l] / v->w[l + 1];
    const double own = is_open(open, l) ? v->price[l] : INFINITY;
    for (int64_t s = 0; s < v->strips[l]; s++) {
        for (int64_t j = 0; j < v->across[l]; j++) {
            double below = 0;
            bool any = false;
            for (int64_t i = s * down; i < SP_MIN(v->strips[l + 1], (s + 1) * down); i++)
                for (int64_t k = j * wide; k < SP_MIN(v->across[l + 1], (j + 1) * wide); k++) {
                    any |= v->choice[l + 1][i * v->across[l + 1] + k] != EMPTY;
                    below += v->best[l + 1][i * v->across[l + 1] + k];
                }
            v->choice[l][s * v->across[l] + j] = EMPTY, v->best[l][s * v->across[l] + j] = 0;
            if (any) decide(v, l, s * v->across[l] + j, own, below);
        }
    }
}

/* ------------------------------------------------------------------ the parts, from above */

typedef struct {
    int64_t blocks[SIZES], segments[SIZES];
} tally;

static bool under_taken(const solver *v, int l, int64_t s, int64_t j)
{
    for (int a = 0; a < l; a++)
        if (v->choice[a][s * v->h[l] / v->h[a] * v->across[a] + j * v->w[l] / v->w[a]] == TAKE) return true;
    return false;
}

/* Blocks of size l in strip s: their columns into v->cols. */
static int64_t taken_columns(const solver *v, int l, int64_t s)
{
    int64_t blocks = 0;
    memset(v->cols, 0, (size_t)v->fine->words * sizeof *v->cols);
    for (int64_t j = 0; j < v->across[l]; j++)
        if (v->choice[l][s * v->across[l] + j] == TAKE && !under_taken(v, l, s, j)) {
            sp_bits_fill(v->cols, j * v->w[l], SP_MIN(v->fine->cols, (j + 1) * v->w[l]));
            blocks++;
        }
    return blocks;
}

static void take_rows(solver *v, int l, int64_t row, int64_t from, int64_t end)
{
    int64_t words = v->fine->words;
    for (int64_t i = from; i < end; i++) {
        uint64_t *rest = v->rest + i * words, *to = sp_mask_row(&v->part[l], row + i);
        for (int64_t j = 0; j < words; j++) {
            to[j] = rest[j] & v->cols[j];
            rest[j] &= ~v->cols[j];
        }
    }
}

/* Write the strip's rows of every part as the choices say. */
static void apply(solver *v, int64_t row, int64_t rows, tally *t)
{
    int last = v->sizes - 1;
    int64_t words = v->fine->words;
    *t = (tally){0};
    memcpy(v->rest, sp_mask_row(v->fine, row), (size_t)(rows * words) * sizeof *v->rest);
    for (int l = 0; l < last; l++)
        for (int64_t s = 0; s * v->h[l] < rows; s++) {
            int64_t blocks = taken_columns(v, l, s);
            take_rows(v, l, row, s * v->h[l], SP_MIN(rows, (s + 1) * v->h[l]));
            t->blocks[l] += blocks;
            t->segments[l] += blocks > 0;
        }
    for (int64_t i = 0; i < rows; i++) {
        int64_t blocks = 0;
        for (int64_t j = 0; j < words; j++) blocks += (int64_t)sp_ones(v->rest[i * words + j]);
        t->blocks[last] += blocks;
        t->segments[last] += blocks > 0;
        memcpy(sp_mask_row(&v->part[last], row + i), v->rest + i * words, (size_t)words * sizeof *v->rest);
    }
}

/* The cost of the strip with this set, INFINITY when something cannot be stored or when its blocks alone cost
 * `least` or more: then nothing is written. */
static double try_set(solver *v, uint32_t open, int64_t row, int64_t rows, double least, tally *t)
{
    if (v->sizes > 1) {
        solve_lowest(v, open);
        for (int l = v->sizes - 3; l >= 0; l--) solve_above(v, open, l);
        double blocks = 0;
        for (int64_t j = 0; j < v->across[0]; j++) blocks += v->best[0][j];
        if (blocks >= least) return INFINITY;
    }
    apply(v, row, rows, t);
    double cost = 0;
    for (int l = 0; l < v->sizes; l++)
        cost += (double)t->blocks[l] * v->price[l] + (double)t->segments[l] * v->size[l].segment;
    return cost;
}

static void solve_strip(solver *v, int64_t row, int64_t rows, uint32_t sets, tally *total)
{
    tally t = {0};
    double least = INFINITY, cost = 0;
    uint32_t best = sets - 1;
    if (v->sizes > 1) count_strip(v, row, rows);
    for (uint32_t open = sets - 1; v->segments && open; open--) {
        cost = try_set(v, open, row, rows, least, &t);
        if (cost < least) least = cost, best = open;
    }
    if (!v->segments || best != 1)
        try_set(v, best, row, rows, INFINITY, &t); /* set 1 was tried last: it stands */
    for (int l = 0; l < v->sizes; l++) {
        total->blocks[l] += t.blocks[l];
        total->segments[l] += t.segments[l];
    }
}

/* ------------------------------------------------------------------ set up */

static sparta_status check_sizes(sparta_ctx *cx, const sp_cover_size *size, int sizes)
{
    if (sizes < 1 || sizes > SIZES)
        return sp_fail(cx, SPARTA_E_USAGE, "cover: %d sizes; give 1 to %d", sizes, SIZES);
    for (int l = 0; l < sizes; l++) {
        const sp_cover_size *a = &size[l], *above = l ? &size[l - 1] : NULL;
        if (a->n < 1 || a->m < 1 || a->n > LARGEST_SIDE || a->m > LARGEST_SIDE)
            return sp_fail(cx, SPARTA_E_USAGE, "cover: %lldx%lld is no block; sides are 1 to %lld",
                           (long long)a->n, (long long)a->m, (long long)LARGEST_SIDE);
        if (above && (above->n % a->n || above->m % a->m || (above->n == a->n && above->m == a->m)))
            return sp_fail(
                cx, SPARTA_E_USAGE,
                "cover: %lldx%lld does not consist of several %lldx%lld; give sizes that nest, the "
                "largest first",
                (long long)above->n, (long long)above->m, (long long)a->n, (long long)a->m);
        double least = fmin(a->block, fmin(a->slot, a->segment)), most = a->block + a->slot + a->segment;
        if (!(least >= 0 && most <= LARGEST_COST))
            return sp_fail(
                cx, SPARTA_E_USAGE,
                "cover: %lldx%lld costs %g a block, %g a slot, %g a segment; costs are numbers from 0 "
                "to 1e30",
                (long long)a->n, (long long)a->m, a->block, a->slot, a->segment);
    }
    return SPARTA_OK;
}

/* Shapes, prices and memory; `fine` is there. */
static sparta_status set_up(solver *v, sp_arena *arena)
{
    const sp_cover_size *smallest = &v->size[v->sizes - 1];
    int64_t rows = SP_MIN(v->fine->rows, v->size[0].n / smallest->n);
    for (int l = 0; l < v->sizes; l++) {
        const sp_cover_size *a = &v->size[l];
        v->h[l] = a->n / smallest->n, v->w[l] = a->m / smallest->m;
        v->strips[l] = sp_ceil_div(rows, v->h[l]), v->across[l] = sp_ceil_div(v->fine->cols, v->w[l]);
        v->price[l] = a->block + a->slot * (double)(a->n * a->m);
        v->segments |= a->segment > 0;
        size_t blocks = (size_t)(v->strips[l] * v->across[l]);
        if (l == v->sizes - 1) break; /* the last size has what is left */
        v->best[l] = sp_arena_array(arena, blocks, sizeof(double));
        v->choice[l] = sp_arena_array(arena, blocks, 1);
        SP_NEED(v->cx, v->best[l] && v->choice[l] ? v : NULL);
        v->count = sp_arena_array(arena, l == v->sizes - 2 ? blocks : 0, sizeof *v->count);
        SP_NEED(v->cx, v->count);
    }
    v->cols = sp_arena_array(arena, (size_t)v->fine->words, sizeof *v->cols);
    v->rest = sp_arena_array(arena, (size_t)(rows * v->fine->words), sizeof *v->rest);
    SP_NEED(v->cx, v->cols && v->rest ? v : NULL);
    return SPARTA_OK;
}

static sparta_status solve(solver *v, tally *total)
{
    const int64_t tall = v->h[0];
    const uint32_t sets = UINT32_C(1) << v->sizes;
    for (int64_t row = 0; row < v->fine->rows; row += tall) {
        SP_TRY(sp_check_cancel(v->cx));
        solve_strip(v, row, SP_MIN(tall, v->fine->rows - row), sets, total);
    }
    return SPARTA_OK;
}

/* From smallest blocks to elements. */
static sparta_status to_elements(solver *v, const sp_mask *m)
{
    const sp_cover_size *smallest = &v->size[v->sizes - 1];
    if (smallest->n == 1 && smallest->m == 1) return SPARTA_OK;
    for (int l = 0; l < v->sizes; l++) {
        sp_mask wide;
        SP_TRY(sp_mask_refine(v->cx, &v->part[l], smallest->n, smallest->m, (int64_t[2]){m->rows, m->cols},
                              &wide));
        sp_mask_free(v->cx, &v->part[l]);
        v->part[l] = wide;
        for (int64_t i = 0; i < m->rows * m->words; i++) wide.bits[i] &= m->bits[i];
    }
    return SPARTA_OK;
}

static sparta_status run(solver *v, const sp_mask *m, sp_arena *arena, tally *total)
{
    for (int l = 0; l < v->sizes; l++)
        SP_TRY(sp_mask_create(v->cx, v->fine->rows, v->fine->cols, &v->part[l]));
    if (v->fine->rows && v->fine->words) {
        SP_TRY(set_up(v, arena));
        SP_TRY(solve(v, total));
    }
    return to_elements(v, m);
}

static void hand_over(solver *v, const tally *total, sp_cover *out)
{
    *out = (sp_cover){.parts = v->sizes};
    for (int l = 0; l < v->sizes; l++) {
        const sp_cover_size *a = &v->size[l];
        sp_cover_part *p = &out->part[l];
        *p = (sp_cover_part){.n = a->n,
                             .m = a->m,
                             .mask = v->part[l],
                             .blocks = total->blocks[l],
                             .slots = total->blocks[l] * a->n * a->m,
                             .segments = total->segments[l]};
        p->cost =
            (double)p->blocks * a->block + (double)p->slots * a->slot + (double)p->segments * a->segment;
        out->cost += p->cost;
    }
}

sparta_status sp_mask_cover(sparta_ctx *cx, const sp_mask *m, const sp_cover_size *size, int sizes,
                            sp_cover *out)
{
    SP_TRY(check_sizes(cx, size, sizes));
    const sp_cover_size *smallest = &size[sizes - 1];
    bool whole = smallest->n > 1 || smallest->m > 1;
    sp_mask fine = *m;
    if (whole) SP_TRY(sp_mask_coarsen(cx, m, smallest->n, smallest->m, &fine));
    sp_arena *arena = sp_arena_create(cx);
    solver v = {.cx = cx, .size = size, .sizes = sizes, .fine = &fine};
    tally total = {0};
    sparta_status status = arena ? run(&v, m, arena, &total) : sp_ctx_status(cx);
    sp_arena_free(arena);
    if (whole) sp_mask_free(cx, &fine);
    if (!status)
        hand_over(&v, &total, out);
    else
        for (int l = 0; l < sizes; l++) sp_mask_free(cx, &v.part[l]);
    return status;
}

void sp_cover_free(sparta_ctx *cx, sp_cover *cover)
{
    if (!cover) return;
    for (int l = 0; l < cover->parts; l++) sp_mask_free(cx, &cover->part[l].mask);
    *cover = (sp_cover){0};
}
