/* few.cu without a GPU: its list, its units and its order of k, walked lane by lane with the functions that the kernel itself uses, against the plain product. */
#include "bed.h"
#include "cuda/cuda.h"
#include "cuda/few.cu"

enum { LANES = 32, MOST_ROWS = 64, TOKENS = 8, MOST_STEPS = 64, MOST_WARPS = 4 };

static uint32_t seed = 1;
static int draw(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

/* ------------------------------------------------------------------ a matrix */
/* Values are small integers: sums are exact in any order. */
typedef struct matrix {
    int height, width, down, right, blocks, rows, cols;
    int *at; /* (down, right): the block, or -1 */
    int32_t *index;
    int *values; /* (blocks, height, width) */
    int *x;      /* (TOKENS, cols) */
} matrix;

static void index_make(matrix *s)
{
    int32_t *pos = calloc((size_t)s->down + 1, 4), *crd = calloc((size_t)s->blocks + 1, 4);
    for (int i = 0; i < s->down * s->right; i++) {
        pos[i / s->right + 1] += s->at[i] >= 0;
        if (s->at[i] >= 0) crd[s->at[i]] = i % s->right;
    }
    for (int i = 0; i < s->down; i++) pos[i + 1] += pos[i];
    s->index = calloc((size_t)sp_index_words(s->height, s->width, s->down, s->right), 4);
    sp_index_plain(s->height, s->width, s->down, s->right, s->blocks, pos, crd, s->index);
    free(pos);
    free(crd);
}

static matrix matrix_make(int height, int width, int down, int right, int percent)
{
    matrix s = {.height = height, .width = width, .down = down, .right = right};
    s.rows = down * height;
    s.cols = right * width;
    s.at = calloc((size_t)(down * right), sizeof(int));
    for (int i = 0; i < down * right; i++) s.at[i] = draw(100) < percent ? s.blocks++ : -1;
    index_make(&s);
    s.values = calloc((size_t)(s.blocks * height * width + 1), sizeof(int));
    s.x = calloc((size_t)(TOKENS * s.cols), sizeof(int));
    for (int i = 0; i < s.blocks * height * width; i++) s.values[i] = draw(15) - 7;
    for (int i = 0; i < TOKENS * s.cols; i++) s.x[i] = draw(15) - 7;
    return s;
}
static void matrix_free(matrix *s)
{
    free(s->at);
    free(s->index);
    free(s->values);
    free(s->x);
}

static int64_t expected(const matrix *s, int row, int token)
{
    int64_t sum = 0;
    for (int j = 0; j < s->cols; j++) {
        const int block = s->at[row / s->height * s->right + j / s->width];
        if (block < 0) continue;
        sum += (int64_t)s->values[(block * s->height + row % s->height) * s->width + j % s->width] *
               s->x[token * s->cols + j];
    }
    return sum;
}

/* ------------------------------------------------------------------ the kernel's walk */
typedef struct list {
    int n, column[MOST_STEPS], block[4][MOST_STEPS];
} list;

/* The steps of a strip that have a block in these rows. */
static list list_of(const matrix *s, int strip, int rows, int piece)
{
    const sp_side side = sp_side_across(s->height, s->width, s->down, s->right);
    const int first = sp_few_first(s->height, rows, piece), parts = sp_few_parts(s->height, rows);
    const int32_t *step = s->index + side.step + strip * side.cross * 2 * side.parts;
    list l = {0};
    assert_true(first + parts <= side.parts);
    for (int i = 0; i < s->index[side.count + strip]; i++, step += 2 * side.parts) {
        bool present = false;
        l.column[l.n] = step[0];
        for (int p = 0; p < parts; p++) {
            l.block[p][l.n] = step[1 + first + p];
            present |= l.block[p][l.n] >= 0;
        }
        l.n += present;
    }
    return l;
}

/* mma.m16n8k16 as the PTX manual says it: four registers of two elements of a, two of b, of each lane. */
static void mma(int a[LANES][4][2], int b[LANES][2][2], int64_t d[LANES][4])
{
    int wide[16][16], narrow[16][8];
    for (int lane = 0; lane < LANES; lane++)
        for (int r = 0; r < 4; r++)
            for (int e = 0; e < 2; e++) {
                const int g = lane / 4, k = 2 * (lane % 4) + e + r / 2 * 8;
                wide[g + r % 2 * 8][k] = a[lane][r][e];
                if (r < 2) narrow[2 * (lane % 4) + e + 8 * r][g] = b[lane][r][e];
            }
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 16; k++)
                d[lane][i] += (int64_t)wide[lane / 4 + i / 2 * 8][k] * narrow[k][2 * (lane % 4) + i % 2];
}

typedef struct chunk {
    int element[SP_FEW_CHUNK];
} chunk;
static chunk value_of(const matrix *s, const list *l, int place, int part, int row)
{
    chunk c = {{0}};
    const int step = place / s->width, block = step < l->n ? l->block[part][step] : -1;
    assert_true(row < s->height && place % s->width + SP_FEW_CHUNK <= s->width);
    for (int e = 0; block >= 0 && e < SP_FEW_CHUNK; e++)
        c.element[e] = s->values[(block * s->height + row) * s->width + place % s->width + e];
    return c;
}
static chunk x_of(const matrix *s, const list *l, int place, int token)
{
    chunk c = {{0}};
    const int step = place / s->width;
    for (int e = 0; step < l->n && e < SP_FEW_CHUNK; e++)
        c.element[e] = s->x[token * s->cols + l->column[step] * s->width + place % s->width + e];
    return c;
}

/* 32 columns of a tile of 16 rows: two mma. */
static void multiply(const matrix *s, const list *l, int rows, int piece, int m, const int place[4],
                     int64_t d[LANES][4])
{
    int a[2][LANES][4][2], b[2][LANES][2][2];
    for (int lane = 0; lane < LANES; lane++) {
        const int g = lane / SP_FEW_LANES, at = place[lane % SP_FEW_LANES];
        const int part = sp_few_part(s->height, rows, m),
                  row = sp_few_top(s->height, rows, piece) + sp_few_down(s->height, rows, m) + g;
        const chunk up = value_of(s, l, at, part, row), low = value_of(s, l, at, part, row + 8),
                    x = x_of(s, l, at, g);
        for (int e = 0; e < SP_FEW_CHUNK; e++) {
            const int step = e / 4, half = e / 2 % 2;
            a[step][lane][2 * half][e % 2] = up.element[e];
            a[step][lane][2 * half + 1][e % 2] = low.element[e];
            b[step][lane][half][e % 2] = x.element[e];
        }
    }
    for (int step = 0; step < 2; step++) mma(a[step], b[step], d);
}

static void check_piece(const matrix *s, int strip, int rows, int piece, int span)
{
    const list l = list_of(s, strip, rows, piece);
    int64_t d[MOST_ROWS / SP_FEW_TILE][LANES][4] = {0};
    const int units = sp_few_units(s->width, span, l.n);
    for (int warp = 0; warp < MOST_WARPS; warp++)
        for (int unit = warp; unit < units; unit += MOST_WARPS)
            for (int half = 0; half < span / 32; half++)
                for (int m = 0; m < rows / SP_FEW_TILE; m++) {
                    int place[SP_FEW_LANES];
                    for (int q = 0; q < SP_FEW_LANES; q++) place[q] = sp_few_place(span, unit, half, q);
                    multiply(s, &l, rows, piece, m, place, d[m]);
                }
    for (int m = 0; m < rows / SP_FEW_TILE; m++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < 4; i++) {
                const int row =
                    strip * sp_few_strip(s->height) + piece * rows + m * SP_FEW_TILE + lane / 4 + i / 2 * 8;
                if (row < s->rows) assert_int_equal(d[m][lane][i], expected(s, row, 2 * (lane % 4) + i % 2));
            }
}

/* Every shape of block, every size of a piece, with absent blocks, none at all and all of them. */
static void walks_like_the_plain_product(void **state)
{
    (void)state;
    static const int sides[] = {16, 32, 64, 128, 192}, percents[] = {0, 30, 100};
    for (size_t h = 0; h < SP_COUNT(sides); h++)
        for (size_t w = 0; w < SP_COUNT(sides); w++)
            for (size_t p = 0; p < SP_COUNT(percents); p++) {
                matrix s = matrix_make(sides[h], sides[w], 128 / SP_MIN(sides[h], 128) + 1, 5, percents[p]);
                const sp_side side = sp_side_across(s.height, s.width, s.down, s.right);
                for (int rows = 16; rows <= MOST_ROWS; rows *= 2)
                    for (int span = 32; span <= 64; span *= 2)
                        for (int strip = 0; strip < side.strips; strip++)
                            for (int piece = 0; piece < sp_few_strip(s.height) / rows; piece++)
                                check_piece(&s, strip, rows, piece, span);
                matrix_free(&s);
            }
}

/* A lane's 16 bytes never cross a block, and units meet without gaps. */
static void units_cover_the_run_once(void **state)
{
    (void)state;
    static const int widths[] = {16, 32, 64, 192};
    for (size_t w = 0; w < SP_COUNT(widths); w++)
        for (int span = 32; span <= 64; span *= 2)
            for (int n = 0; n < 9; n++) {
                int next = 0;
                for (int unit = 0; unit < sp_few_units(widths[w], span, n); unit++)
                    for (int half = 0; half < span / 32; half++)
                        for (int q = 0; q < SP_FEW_LANES; q++, next += SP_FEW_CHUNK) {
                            assert_int_equal(sp_few_place(span, unit, half, q), next);
                            assert_int_equal(sp_few_step(widths[w], span, unit, half, q), next / widths[w]);
                            assert_int_equal(sp_few_column(widths[w], span, unit, half, q), next % widths[w]);
                        }
                assert_true(next >= n * widths[w] && next < n * widths[w] + span);
            }
}

static int value_named(const sp_cuda_point *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->parameter[i].name, name)) return p->parameter[i].value;
    fail_msg("the point has no %s", name);
    return 0;
}

static void points_are_possible(void **state)
{
    (void)state;
    sp_cuda_point p;
    const char *entry;
    sp_target target;
    int i = 0;
    for (; sp_cuda_points_few(i, &p, &entry, &target); i++) {
        const int rows = value_named(&p, "ROWS"), warps = value_named(&p, "WARPS");
        assert_string_equal(entry, "few");
        assert_int_equal(sp_few_strip(value_named(&p, "HEIGHT")) % rows, 0);
        assert_true(warps >= 1 && warps * 32 <= SP_FEW_LIST && value_named(&p, "OCC") >= 1);
        assert_true(SP_FEW_SHARED(warps, rows, value_named(&p, "TILES")) <= 211 << 10);
        assert_true(value_named(&p, "PDL") <= (target == SP_TARGET_SM90A));
    }
    assert_true(i > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_like_the_plain_product),
        cmocka_unit_test(units_cover_the_run_once),
        cmocka_unit_test(points_are_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
