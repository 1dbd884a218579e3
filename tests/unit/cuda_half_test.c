/* 2:4 tiles without a GPU: which two of four are taken, and that a tile has every element of a weight where wgmma.sp looks for it. */
#include "bed.h"
#include "cuda/half.h"
#include "cuda/half.cu"

/* All of two or fewer; of more the two largest, and it is said. Bits order magnitudes; signs do not count. */
static void takes_the_two_largest(void **state)
{
    (void)state;
    for (int code = 0; code < 6 * 6 * 6 * 6; code++) {
        static const unsigned short some[] = {0, 0x8000, 0x3c00, 0xbc00, 0x4000, 0x7e00};
        const unsigned short v[] = {some[code % 6], some[code / 6 % 6], some[code / 36 % 6],
                                    some[code / 216]};
        const sp_half_two two = sp_half_choose(v);
        const unsigned first = two.where & 3, second = two.where >> 2;
        int there = 0;
        assert_true(first < second && second < 4);
        assert_int_equal(two.kept, v[first] | (unsigned)v[second] << 16);
        for (unsigned i = 0; i < 4; i++) {
            there += (v[i] & 0x7fff) != 0;
            if (i == first || i == second) continue;
            assert_true((v[i] & 0x7fff) <= (v[first] & 0x7fff) && (v[i] & 0x7fff) <= (v[second] & 0x7fff));
        }
        assert_int_equal(two.fits, there <= 2);
    }
}

/* ------------------------------------------------------------------ a weight there and back */
enum { ROWS = 300, COLS = 200 }; /* neither fills its tiles */
static unsigned short weight[ROWS][COLS];

/* As threads of `compress` do it; false: it says that more than two of four are there. */
static bool compress(unsigned char *tiles)
{
    const int steps = sp_half_steps(COLS);
    bool fits = true;
    for (int block = 0; block < sp_half_strips(ROWS) * steps; block++)
        for (int q = 0; q < 128; q++) {
            const int strip = block / steps, step = block % steps;
            unsigned char *to = tiles + sp_half_tile(strip, step, steps) * SP_HALF_TILE;
            unsigned word = 0;
            for (int g = 0; g < 8; g++) { /* four groups of each of two rows */
                const int r = sp_half_row(q) + g / 4 * 8, row = strip * SP_STRIP + r,
                          col = step * SP_STRIP + q % 4 * 16 + g % 4 * 4;
                unsigned short v[4];
                for (int i = 0; i < 4; i++) v[i] = row < ROWS && col + i < COLS ? weight[row][col + i] : 0;
                const sp_half_two two = sp_half_choose(v);
                memcpy(to + sp_half_place(r, q % 4) + g % 4 * 4, &two.kept, 4);
                word |= two.where << (g / 4 * 16 + g % 4 * 4);
                fits = fits && two.fits;
            }
            memcpy(to + SP_HALF_VALUES + 4 * q, &word, 4);
        }
    return fits;
}

/* What wgmma.sp takes for element (r, c) of a tile, by the layouts that PTX draws, not by half.cu's functions: lines of 64 bytes whose address bits 4, 5 are
 * crossed with bits 7, 8; the word of lane 4 * (r % 8) + c / 16 of warp r / 16, its half by r / 8, its nibble by c / 4. */
static unsigned short element(const unsigned char *tile, int r, int c)
{
    const int q = r / 16 * 32 + r % 8 * 4 + c / 32 * 2 + c % 32 / 16;
    unsigned word;
    memcpy(&word, tile + SP_HALF_VALUES + 4 * q, 4);
    const unsigned nibble = word >> (r % 16 / 8 * 16 + c % 16 / 4 * 4) & 15;
    for (int i = 0; i < 2; i++) {
        if ((nibble >> 2 * i & 3) != (unsigned)c % 4) continue;
        const int plain = r * 64 + (c / 4 * 2 + i) * 2, at = plain ^ (plain >> 7 & 3) << 4;
        unsigned short v;
        memcpy(&v, tile + at, 2);
        return v;
    }
    return 0;
}

static void comes_back(const unsigned char *tiles)
{
    const int strips = sp_half_strips(ROWS), steps = sp_half_steps(COLS);
    for (int row = 0; row < strips * SP_STRIP; row++)
        for (int col = 0; col < steps * SP_STRIP; col++) {
            const int strip = row / SP_STRIP, step = col / SP_STRIP;
            const size_t tile = ((size_t)(strip / 2) * (size_t)steps + (size_t)step) * 2 + (size_t)strip % 2;
            const unsigned short want = row < ROWS && col < COLS ? weight[row][col] : 0;
            assert_int_equal(element(tiles + tile * SP_HALF_TILE, row % SP_STRIP, col % SP_STRIP), want);
        }
}

static void a_weight_comes_back(void **state)
{
    (void)state;
    unsigned char *tiles = malloc(sp_half_bytes(ROWS, COLS));
    unsigned seed = 1;
    assert_non_null(tiles);
    for (int row = 0; row < ROWS; row++)
        for (int col = 0; col < COLS; col += 4) {
            seed = seed * 1664525 + 1013904223;
            const int one = seed >> 28 & 3, other = seed >> 26 & 3; /* at times the same: only one is there */
            weight[row][col + one] = (unsigned short)(seed >> 8 | 1);
            weight[row][col + other] = (unsigned short)(seed >> 9 | 1);
        }
    assert_true(compress(tiles));
    comes_back(tiles);
    for (int i = 0; i < 4; i++) weight[ROWS - 1][COLS - 4 + i] = (unsigned short)(i + 1);
    assert_false(compress(tiles));
    weight[ROWS - 1][COLS - 4] = weight[ROWS - 1][COLS - 3] = 0;
    comes_back(tiles);
    free(tiles);
}

/* The 256 chunks of a tile lie in different places of its 4096 bytes. */
static void chunks_fill_a_tile(void **state)
{
    (void)state;
    bool seen[SP_HALF_VALUES / 16] = {0};
    for (int q = 0; q < 128; q++)
        for (int lower = 0; lower < 2; lower++) {
            const int at = sp_half_place(q / 32 * 16 + q % 32 / 4 + 8 * lower, q % 4);
            assert_true(at % 16 == 0 && at < SP_HALF_VALUES && !seen[at / 16]);
            seen[at / 16] = true;
        }
}

static void sizes_are_whole_tiles(void **state)
{
    (void)state;
    assert_int_equal(sp_half_strips(1), 4);
    assert_int_equal(sp_half_strips(257), 8);
    assert_int_equal(sp_half_steps(64), 2);
    assert_int_equal(sp_half_steps(129), 4);
    assert_int_equal(sp_half_bytes(256, 128), 8 * SP_HALF_TILE + SP_HALF_TAIL);
    assert_int_equal(sp_half_bytes(0, 128), 0);
    assert_int_equal(sp_half_bytes(256, (int64_t)1 << 40), 0);
}

static void points_fit_shared_memory(void **state)
{
    (void)state;
    sp_cuda_point p;
    const char *entry;
    sp_target target;
    for (int i = 0; sp_cuda_points_half(i, &p, &entry, &target); i++) {
        int tile = 0, stages = 0;
        for (int k = 0; k < p.n; k++) {
            if (!strcmp(p.parameter[k].name, "TILE")) tile = p.parameter[k].value;
            if (!strcmp(p.parameter[k].name, "STAGES")) stages = p.parameter[k].value;
        }
        assert_int_equal(target, SP_TARGET_SM90A);
        if (!strcmp(entry, "half")) assert_true(stages >= 4 && SP_HALF_SHARED(tile, stages) < 227 << 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_two_largest),    cmocka_unit_test(a_weight_comes_back),
        cmocka_unit_test(chunks_fill_a_tile),       cmocka_unit_test(sizes_are_whole_tiles),
        cmocka_unit_test(points_fit_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
