/* Products over strips (cuda/strips.cu) without a GPU: what the kernel computes of the index, of items and of boxes is in cuda/index.h, and is walked here as the kernel does,
 * with boxes that read zeros outside of their matrix and operands at the places where wgmma looks for them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "cuda/cuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 1;
static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}
static double value(void)
{
    return (below(2001) - 1000) / 1000.;
}
static void *many(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    assert_non_null(p);
    return p;
}

/* ------------------------------------------------------------------ a matrix and its index */
typedef struct matrix {
    int rows, cols, height, width, down, right, blocks;
    int *at;        /* (down, right): the block, or -1 */
    double *values; /* (blocks, height, width), zeros past the edges */
} matrix;

static matrix matrix_of(int rows, int cols, int height, int width, int percent)
{
    matrix m = {rows, cols, height, width, (rows + height - 1) / height, (cols + width - 1) / width,
                0,    NULL, NULL};
    m.at = many((size_t)(m.down * m.right), sizeof *m.at);
    for (int i = 0; i < m.down; i++)
        for (int j = 0; j < m.right; j++)
            m.at[i * m.right + j] = i % 5 != 3 && below(100) < percent ? m.blocks++ : -1;
    m.values = many((size_t)m.blocks * (size_t)(height * width), sizeof *m.values);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            const int block = m.at[i / height * m.right + j / width];
            if (block >= 0) m.values[(block * height + i % height) * width + j % width] = value();
        }
    return m;
}
static double element(const matrix *m, int i, int j)
{
    const int block = m->at[i / m->height * m->right + j / m->width];
    return block < 0 ? 0 : m->values[(block * m->height + i % m->height) * m->width + j % m->width];
}
static void matrix_free(matrix *m)
{
    free(m->at);
    free(m->values);
}

/* One side of the index, as index.h draws it. */
static int *side_made(const matrix *m, const sp_side *s, bool turned)
{
    int *index = many((size_t)s->end, sizeof *index);
    for (int g = 0; g < s->strips; g++) {
        int *step = index + s->step + g * s->cross * 2 * s->parts;
        for (int line = 0; line < s->cross; line++) {
            bool any = false;
            int block[4];
            for (int p = 0; p < s->parts; p++) {
                const int along = g * s->parts + p;
                block[p] = along >= s->lines
                               ? -1
                               : m->at[turned ? line * m->right + along : along * m->right + line];
                any |= block[p] >= 0;
            }
            if (!any) continue;
            step[0] = line;
            for (int p = 0; p < s->parts; p++) step[1 + p] = block[p];
            step += 2 * s->parts;
            index[s->count + g]++;
        }
        int at = g; /* longest first */
        for (; at > 0 && index[s->count + index[s->order + at - 1]] < index[s->count + g]; at--)
            index[s->order + at] = index[s->order + at - 1];
        index[s->order + at] = g;
    }
    return index;
}

/* ------------------------------------------------------------------ the kernel */
static double at_or_0(const double *a, int inner, int outer, int i, int o)
{
    return i < 0 || o < 0 || i >= inner || o >= outer ? 0 : a[(int64_t)o * inner + i];
}
static void box(double *to, const double *from, int inner, int outer, sp_place at, int box_inner,
                int box_outer)
{
    for (int o = 0; o < box_outer; o++)
        for (int i = 0; i < box_inner; i++)
            to[o * box_inner + i] = at_or_0(from, inner, outer, at.inner + i, at.outer + o);
}

typedef struct bed {
    const matrix *m;
    sp_side side;
    sp_cut cut;
    sp_deal deal;
    const int *index;
    int tok, tokens, taken, made;
    const double *x;
    double *y;
    int *written;
} bed;

/* All of a cluster put their shares of the values' tile into place; it is the same tile in each. */
static void values_tile(const bed *b, double *tile, int piece, const int *step, int sub)
{
    const sp_cut c = b->cut;
    const int boxes = sp_cut_boxes(c), share = boxes / c.cl, all = sp_cut_lines(c) * c.ks;
    for (int rank = 0; rank < c.cl; rank++)
        for (int i = 0; i < share; i++) {
            const int which = rank * share + i;
            box(tile + which * (all / boxes), b->m->values, b->m->width, b->m->blocks * b->m->height,
                sp_cut_place(c, piece, step[1 + (b->side.parts > 1 ? i : 0)], sub, which),
                sp_cut_box_inner(c), sp_cut_box_outer(c));
        }
}
/* Operand A of a warpgroup: a line is a row, or, turned, one k of `part` rows. */
static double a_at(const sp_cut *c, const double *tile, int group, int row, int k)
{
    const double *mine = tile + group * SP_STRIP * c->ks;
    const int part = sp_cut_part(*c);
    return c->turned ? mine[row / part * (c->ks * part) + k * part + row % part] : mine[row * c->ks + k];
}

static void item_runs(const bed *b, int strip, int piece, int token)
{
    const sp_cut c = b->cut;
    const int lines = sp_cut_lines(c), line = strip * (c.side < SP_STRIP ? SP_STRIP : c.side) + piece * lines;
    double *sum = many((size_t)(lines * b->tok), sizeof *sum),
           *tile = many((size_t)(lines * c.ks), sizeof *tile), *x = many((size_t)(b->tok * c.ks), sizeof *x);
    for (int i = 0; i < b->index[b->side.count + strip]; i++)
        for (int sub = 0; sub < c.depth / c.ks; sub++) {
            const int *step = b->index + b->side.step + (strip * b->side.cross + i) * 2 * b->side.parts;
            values_tile(b, tile, piece, step, sub);
            box(x, b->x, b->taken, b->tokens, (sp_place){sp_cut_across(c, step[0], sub), token}, c.ks,
                b->tok);
            for (int l = 0; l < lines; l++)
                for (int t = 0; t < b->tok && token + t < b->tokens; t++)
                    for (int k = 0; k < c.ks; k++)
                        sum[l * b->tok + t] +=
                            a_at(&c, tile, l / SP_STRIP, l % SP_STRIP, k) * x[t * c.ks + k];
        }
    for (int l = 0; l < lines && line + l < b->made; l++)
        for (int t = 0; t < b->tok && token + t < b->tokens; t++) {
            b->y[(token + t) * b->made + line + l] = sum[l * b->tok + t];
            b->written[(token + t) * b->made + line + l]++;
        }
    free(sum);
    free(tile);
    free(x);
}

static void kernel_runs(const bed *b)
{
    const int pieces = sp_cut_pieces(b->cut);
    for (int cluster = 0; cluster < b->deal.clusters; cluster++)
        for (int round = 0;; round++) {
            const sp_item item = sp_deal_at(b->deal, cluster, round);
            if (item.group < 0) break;
            for (int rank = 0; rank < b->cut.cl; rank++)
                item_runs(b, b->index[b->side.order + item.group / pieces], item.group % pieces,
                          (item.tile * b->cut.cl + rank) * b->tok);
        }
}

static void compare(const bed *b)
{
    for (int t = 0; t < b->tokens; t++)
        for (int l = 0; l < b->made; l++) {
            double want = 0;
            for (int k = 0; k < b->taken; k++)
                want += (b->cut.turned ? element(b->m, k, l) : element(b->m, l, k)) * b->x[t * b->taken + k];
            assert_int_equal(b->written[t * b->made + l], 1);
            assert_true(fabs(b->y[t * b->made + l] - want) < 1e-9);
        }
}

static void one(const matrix *m, bool turned, int nwg, int cl, int tokens, int clusters)
{
    const sp_side side = turned ? sp_side_turned(m->height, m->width, m->down, m->right)
                                : sp_side_across(m->height, m->width, m->down, m->right);
    if (nwg == 2 && side.side % 128) return;
    if (cl == 2 && side.side < SP_STRIP) return;
    bed b = {.m = m,
             .side = side,
             .cut = {turned, side.side, side.depth, SP_MIN(side.depth, 64), nwg, cl},
             .tok = 16,
             .tokens = tokens,
             .taken = turned ? m->rows : m->cols,
             .made = turned ? m->cols : m->rows};
    const int tiles = (tokens + b.tok * cl - 1) / (b.tok * cl), groups = side.strips * sp_cut_pieces(b.cut);
    int *index = side_made(m, &side, turned);
    double *x = many((size_t)(tokens * b.taken), sizeof *x);
    for (int i = 0; i < tokens * b.taken; i++) x[i] = value();
    b.deal = sp_strips_deal(groups, tiles, SP_MIN(clusters, groups * tiles), 2);
    b.index = index;
    b.x = x;
    b.y = many((size_t)(tokens * b.made), sizeof *b.y);
    b.written = many((size_t)(tokens * b.made), sizeof *b.written);
    kernel_runs(&b);
    compare(&b);
    free(index);
    free(x);
    free(b.y);
    free(b.written);
}

static void products_are_right(void **state)
{
    (void)state;
    static const int block[][2] = {{16, 16}, {32, 32}, {64, 64},  {128, 128}, {192, 192}, {128, 32}, {64, 16},
                                   {32, 64}, {16, 64}, {256, 64}, {64, 128},  {16, 32},   {32, 128}};
    for (size_t i = 0; i < SP_COUNT(block); i++)
        for (int ragged = 0; ragged < 2; ragged++) {
            const int height = block[i][0], width = block[i][1], edge = ragged ? 5 : 0;
            matrix m = matrix_of(height * (height < 64 ? 7 : 3) - edge, width * (width < 64 ? 9 : 3) - edge,
                                 height, width, ragged ? 30 : 60);
            for (int turned = 0; turned < 2; turned++)
                for (int nwg = 1; nwg <= 2; nwg++)
                    for (int cl = 1; cl <= 2; cl++) one(&m, turned, nwg, cl, ragged ? 41 : 16, 3 + below(5));
            matrix_free(&m);
        }
}

static void nothing_is_zeros(void **state)
{
    (void)state;
    matrix m = matrix_of(100, 90, 32, 32, 0);
    one(&m, false, 1, 1, 20, 4);
    one(&m, true, 1, 1, 20, 4);
    matrix_free(&m);
}

/* ------------------------------------------------------------------ dealing */
static void covers(sp_deal d)
{
    char *seen = many((size_t)(d.groups * d.tiles), 1);
    int n = 0;
    for (int cluster = 0; cluster < d.clusters; cluster++)
        for (int round = 0;; round++) {
            const sp_item item = sp_deal_at(d, cluster, round);
            if (item.group < 0) { /* and nothing after */
                assert_int_equal(sp_deal_at(d, cluster, round + 1).group, -1);
                break;
            }
            assert_in_range(item.group, 0, d.groups - 1);
            assert_in_range(item.tile, 0, d.tiles - 1);
            assert_int_equal(seen[item.group * d.tiles + item.tile]++, 0);
            n++;
        }
    assert_int_equal(n, d.groups * d.tiles);
    free(seen);
}
static void every_item_once(void **state)
{
    (void)state;
    static const int groups[] = {1, 2, 7, 12, 64, 129}, tiles[] = {1, 2, 3, 5, 16},
                     clusters[] = {1, 2, 5, 66, 132, 264};
    for (size_t g = 0; g < SP_COUNT(groups); g++)
        for (size_t t = 0; t < SP_COUNT(tiles); t++)
            for (size_t c = 0; c < SP_COUNT(clusters); c++) {
                for (int band = 1; band <= tiles[t]; band++)
                    for (int ways = 0; ways < 8; ways++)
                        covers((sp_deal){groups[g], tiles[t], band, ways, clusters[c]});
                covers(sp_strips_deal(groups[g], tiles[t], clusters[c], 1 + below(6)));
            }
}

/* Steps of the mean cluster over those of the busiest, for a random pattern. */
static double balance(int tokens, int rows, int cols, int side, int percent, int tok, int clusters, int most)
{
    matrix m = {.down = rows / side, .right = cols / side, .height = side, .width = side};
    m.at = many((size_t)(m.down * m.right), sizeof *m.at);
    for (int i = 0; i < m.down * m.right; i++) m.at[i] = below(100) < percent ? 1 : -1;
    const sp_side s = sp_side_across(side, side, m.down, m.right);
    const sp_deal d = sp_strips_deal(s.strips, tokens / tok, clusters, most);
    int *index = side_made(&m, &s, false);
    double all = 0, longest = 0;
    for (int cluster = 0; cluster < clusters; cluster++) {
        double load = 0;
        for (int round = 0; sp_deal_at(d, cluster, round).group >= 0; round++)
            load += index[s.count + index[s.order + sp_deal_at(d, cluster, round).group]];
        all += load;
        longest = fmax(longest, load);
    }
    free(index);
    free(m.at);
    return all / clusters / longest;
}
static void deals_are_even(void **state)
{
    (void)state;
    static const struct {
        int tokens, rows, cols, side, tok, clusters, most;
        double least;
    } shape[] = {{8192, 8192, 8192, 128, 512, 66, 2, .9},  {8192, 8192, 8192, 64, 256, 264, 4, .9},
                 {8192, 8192, 8192, 32, 256, 264, 4, .93}, {4096, 4096, 4096, 128, 512, 66, 8, .8},
                 {4096, 4096, 4096, 64, 256, 264, 16, .9}, {4096, 4096, 4096, 32, 256, 264, 16, .93},
                 {8192, 8448, 8192, 64, 256, 132, 4, .9},  {8192, 4224, 8192, 64, 256, 132, 4, .9}};
    static const int percent[] = {20, 10, 5};
    for (size_t i = 0; i < SP_COUNT(shape); i++)
        for (size_t p = 0; p < SP_COUNT(percent); p++) {
            const double b = balance(shape[i].tokens, shape[i].rows, shape[i].cols, shape[i].side, percent[p],
                                     shape[i].tok, shape[i].clusters, shape[i].most);
            print_message("%dx%dx%d blocks of %d, %d%% there: balance %.3f\n", shape[i].tokens, shape[i].rows,
                          shape[i].cols, shape[i].side, percent[p], b);
            assert_true(b > shape[i].least);
        }
}

/* Points are such that the kernel's constants make sense. */
static int parameter(const sp_cuda_point *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->parameter[i].name, name)) return p->parameter[i].value;
    fail();
    return 0;
}
static void points_fit_the_chip(void **state)
{
    (void)state;
    sp_cuda_point p;
    const char *entry;
    sp_target target;
    int n = 0;
    for (; sp_cuda_points_strips(n, &p, &entry, &target); n++) {
        const int ks = parameter(&p, "KS"), tok = parameter(&p, "TOK"), nwg = parameter(&p, "NWG"),
                  st = parameter(&p, "ST"), ob = parameter(&p, "OB"), occ = parameter(&p, "OCC");
        const int bytes = 1024 + st * ((tok + 64 * nwg) * ks * 2 + 16) + nwg * ob * 64 * 64 * 2;
        assert_true(st >= 2 && bytes <= 227 << 10 && occ * (bytes + 1024) <= 228 << 10);
        assert_int_equal(parameter(&p, "DEPTH") % ks, 0);
        assert_true(nwg == 1 || parameter(&p, "SIDE") % 128 == 0);
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right),  cmocka_unit_test(nothing_is_zeros),
        cmocka_unit_test(every_item_once),     cmocka_unit_test(deals_are_even),
        cmocka_unit_test(points_fit_the_chip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
