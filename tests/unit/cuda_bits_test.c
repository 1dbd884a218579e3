/* bits.cu without a GPU: a weight packed and multiplied as its lanes do it, with the functions that the kernel itself uses, against the plain product. */
#include "bed.h"
#include "cuda/bits.h"
#include "cuda/bits.cu"

enum { LANES = SP_BITS_LANES, TOKENS = 8, MOST_LINES = 200 };

static uint32_t seed = 1;
static int draw(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

/* Elements are small integers in place of halves: sums are exact in any order. */
static int16_t weight[MOST_LINES][MOST_LINES], x[TOKENS][MOST_LINES];

static uint32_t pair_at(int rows, int cols, int row, int col)
{
    const uint16_t low = row < rows && col < cols ? (uint16_t)weight[row][col] : 0,
                   high = row < rows && col + 1 < cols ? (uint16_t)weight[row][col + 1] : 0;
    return low | (uint32_t)high << 16;
}

/* ------------------------------------------------------------------ as `count`, `place` and `write` do it */
static uint32_t pairs_of(int rows, int cols, int tile, int lane, uint32_t pair[SP_BITS_PAIRS], uint64_t *bits)
{
    const int steps = (cols + SP_BITS_SIDE - 1) / SP_BITS_SIDE;
    uint32_t n = 0;
    *bits = 0;
    for (int j = 0; j < 8; j++)
        for (int p = 0; p < 8; p++) {
            const uint32_t v = pair_at(rows, cols, tile / steps * SP_BITS_SIDE + lane / 4 + 8 * j,
                                       tile % steps * SP_BITS_SIDE + p / 4 * 32 + lane % 4 * 8 + p % 4 * 2);
            pair[sp_bits_bit(j, p)] = v;
            *bits |= (uint64_t)(v != 0) << sp_bits_bit(j, p);
            n += v != 0;
        }
    return n;
}

static void write_record(int rows, int cols, int tile, uint8_t *record)
{
    uint32_t pair[SP_BITS_PAIRS], *to = (uint32_t *)(void *)(record + SP_BITS_HEAD);
    uint16_t start = 0;
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t bits;
        const uint32_t n = pairs_of(rows, cols, tile, lane, pair, &bits);
        memcpy(record + 8 * lane, &bits, 8);
        memcpy(record + SP_BITS_START + 2 * lane, &start, 2);
        for (int i = 0, k = start; i < SP_BITS_PAIRS; i++)
            if (bits >> i & 1) to[k++] = pair[i];
        start = (uint16_t)(start + n);
    }
}

/* False: the records do not fit. */
static bool pack(int rows, int cols, uint8_t *packed, size_t bytes)
{
    const int steps = (cols + SP_BITS_SIDE - 1) / SP_BITS_SIDE,
              tiles = (rows + SP_BITS_SIDE - 1) / SP_BITS_SIDE * steps;
    uint32_t *directory = (uint32_t *)(void *)packed, at = sp_bits_directory(tiles), pair[SP_BITS_PAIRS];
    const uint32_t units = (uint32_t)((bytes - SP_BITS_TAIL) / SP_BITS_UNIT);
    for (int tile = 0; tile < tiles; tile++) {
        uint32_t n = 0;
        uint64_t bits;
        for (int lane = 0; lane < LANES; lane++) n += pairs_of(rows, cols, tile, lane, pair, &bits);
        directory[tile] = at;
        at += sp_bits_record((int)n);
        if (at <= units) write_record(rows, cols, tile, packed + (size_t)directory[tile] * SP_BITS_UNIT);
    }
    directory[tiles] = at;
    return at <= units;
}

/* ------------------------------------------------------------------ as `bits` does it */
/* mma.m16n8k16 as PTX draws it: register r of lane 4 g + q is row g (+ 8 where r is odd), k = 2 q, 2 q + 1 (+ 8 where r is 2 or 3). */
static void multiply_fragment(uint32_t a[LANES][4], uint32_t b[LANES][2], int32_t sum[16][TOKENS])
{
    int32_t left[16][16], right[16][TOKENS];
    for (int lane = 0; lane < LANES; lane++) {
        const int g = lane / 4, q = lane % 4;
        for (int r = 0; r < 4; r++)
            for (int e = 0; e < 2; e++)
                left[g + r % 2 * 8][2 * q + e + r / 2 * 8] = (int16_t)(a[lane][r] >> 16 * e);
        for (int r = 0; r < 2; r++)
            for (int e = 0; e < 2; e++) right[2 * q + e + 8 * r][g] = (int16_t)(b[lane][r] >> 16 * e);
    }
    for (int i = 0; i < 16; i++)
        for (int t = 0; t < TOKENS; t++)
            for (int k = 0; k < 16; k++) sum[i][t] += left[i][k] * right[k][t];
}

/* Of the two times 8 columns of x that a lane has, those for k16 number s: a word each for k 2 q and 2 q + 8. */
static uint32_t x_word(int cols, int step, int lane, int s, int word)
{
    uint32_t v = 0;
    for (int e = 0; e < 2; e++) {
        const int col = step * SP_BITS_SIDE + s / 2 * 32 + lane % 4 * 8 + s % 2 * 4 + word * 2 + e;
        v |= (uint32_t)(uint16_t)(col < cols ? x[lane / 4][col] : 0) << 16 * e;
    }
    return v;
}

static void multiply_tile(const uint8_t *record, uint32_t bytes, int cols, int step,
                          int32_t sum[SP_BITS_SIDE][TOKENS])
{
    uint32_t at[LANES];
    uint64_t bits[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        uint16_t start;
        memcpy(&bits[lane], record + 8 * lane, 8);
        memcpy(&start, record + SP_BITS_START + 2 * lane, 2);
        if (!sp_bits_inside(start, __builtin_popcountll(bits[lane]), bytes)) bits[lane] = 0;
        at[lane] = SP_BITS_HEAD + start * 4u;
    }
    for (int s = 0; s < 4; s++)
        for (int m = 0; m < 4; m++) {
            uint32_t a[LANES][4] = {{0}}, b[LANES][2];
            for (int lane = 0; lane < LANES; lane++) {
                for (int r = 0; r < 4; r++) {
                    if (!(bits[lane] >> (16 * s + 4 * m + r) & 1)) continue;
                    assert_true(at[lane] + 4 <= bytes);
                    memcpy(&a[lane][r], record + at[lane], 4);
                    at[lane] += 4;
                }
                for (int w = 0; w < 2; w++) b[lane][w] = x_word(cols, step, lane, s, w);
            }
            multiply_fragment(a, b, sum + 16 * m);
        }
}

/* The strip's rows of the product. */
static void multiply_strip(const uint8_t *packed, size_t bytes, int cols, int strip,
                           int32_t sum[SP_BITS_SIDE][TOKENS])
{
    const uint32_t *directory = (const uint32_t *)(const void *)packed;
    const uint32_t units = (uint32_t)((bytes - SP_BITS_TAIL) / SP_BITS_UNIT);
    const int steps = (cols + SP_BITS_SIDE - 1) / SP_BITS_SIDE;
    for (int step = 0; step < steps; step++) {
        const uint32_t *place = directory + strip * steps + step;
        const uint32_t length = sp_bits_bytes_of(place[0], place[1], units);
        if (!length) continue;
        assert_true((size_t)place[0] * SP_BITS_UNIT + length <= bytes);
        multiply_tile(packed + (size_t)place[0] * SP_BITS_UNIT, length, cols, step, sum);
    }
}

static void product_is_right(const uint8_t *packed, size_t bytes, int rows, int cols)
{
    for (int strip = 0; strip * SP_BITS_SIDE < rows; strip++) {
        int32_t sum[SP_BITS_SIDE][TOKENS] = {{0}};
        multiply_strip(packed, bytes, cols, strip, sum);
        for (int i = 0; i < SP_BITS_SIDE; i++)
            for (int t = 0; t < TOKENS; t++) {
                int32_t want = 0;
                for (int k = 0; k < cols && strip * SP_BITS_SIDE + i < rows; k++)
                    want += weight[strip * SP_BITS_SIDE + i][k] * x[t][k];
                assert_int_equal(sum[i][t], want);
            }
    }
}

/* ------------------------------------------------------------------ tests */
static int fill(int rows, int cols, int percent)
{
    int pairs = 0;
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < cols; k++)
            weight[i][k] = draw(100) < percent ? (int16_t)(draw(2) ? 1 + draw(7) : -1 - draw(7)) : 0;
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < cols; k += 2) pairs += weight[i][k] || (k + 1 < cols && weight[i][k + 1]);
    for (int t = 0; t < TOKENS; t++)
        for (int k = 0; k < cols; k++) x[t][k] = (int16_t)(draw(15) - 7);
    return pairs;
}

static const int sizes[][2] = {{64, 64},  {1, 1},     {1, 130}, {130, 1},  {63, 65},
                               {128, 64}, {200, 200}, {72, 24}, {65, 129}, {16, 192}};

static void products(void **state)
{
    (void)state;
    static const int percents[] = {0, 3, 30, 50, 100};
    for (size_t s = 0; s < SP_COUNT(sizes); s++)
        for (size_t p = 0; p < SP_COUNT(percents); p++) {
            const int rows = sizes[s][0], cols = sizes[s][1], pairs = fill(rows, cols, percents[p]);
            const size_t bytes = sp_bits_bytes(rows, cols, pairs);
            uint8_t *packed = calloc(1, bytes);
            assert_non_null(packed);
            assert_true(pack(rows, cols, packed, bytes)); /* the bound holds, and memory is not overrun */
            product_is_right(packed, bytes, rows, cols);
            free(packed);
        }
}

/* Less room than the pairs need is seen, and whatever is there leads nowhere else. */
static void hostile(void **state)
{
    (void)state;
    const int rows = 150, cols = 190;
    fill(rows, cols, 60);
    const size_t bytes = sp_bits_bytes(rows, cols, 2000);
    uint8_t *packed = calloc(1, bytes);
    assert_non_null(packed);
    assert_false(pack(rows, cols, packed, bytes));
    for (int round = 0; round < 200; round++) {
        int32_t sum[SP_BITS_SIDE][TOKENS] = {{0}};
        for (int strip = 0; strip < 3; strip++) multiply_strip(packed, bytes, cols, strip, sum);
        for (int i = 0; i < 20; i++) packed[draw(round < 100 ? 64 : (int)bytes)] = (uint8_t)draw(256);
    }
    free(packed);
}

/* All pairs of a tile, each once, where the functions say. */
static void bits_meet_all(void **state)
{
    (void)state;
    bool seen[SP_BITS_SIDE][SP_BITS_SIDE / 2] = {{0}};
    for (int lane = 0; lane < LANES; lane++)
        for (int n = 0; n < SP_BITS_PAIRS; n++) {
            const int row = sp_bits_row(lane, n), pair = sp_bits_column(lane, n) / 2;
            assert_true(row < SP_BITS_SIDE && pair < SP_BITS_SIDE / 2 && !seen[row][pair]);
            assert_int_equal(sp_bits_bit(row / 8, pair / 16 * 4 + pair % 4), n);
            seen[row][pair] = true;
        }
}

static void bytes_of_sizes(void **state)
{
    (void)state;
    assert_int_equal(sp_bits_bytes(64, 64, 0), 16 + SP_BITS_HEAD + 16 + SP_BITS_TAIL);
    assert_true(sp_bits_bytes(8192, 28672, 8192 * 14336 / 2) < (size_t)8192 * 28672 * 2 * 6 / 10);
    assert_int_equal(sp_bits_bytes(64, 64, 2049), 0);
    assert_int_equal(sp_bits_bytes(64, 64, -1), 0);
    assert_int_equal(sp_bits_bytes(0, 64, 0), 0);
    assert_int_equal(sp_bits_bytes(64, (int64_t)1 << 40, 0), 0);
    assert_int_equal(sp_bits_bytes(1 << 24, 1 << 24, 0), 0);
    assert_true(sp_bits_bytes(1 << 17, 1 << 17, (int64_t)1 << 33) / SP_BITS_UNIT < UINT32_MAX);
}

static int value_of(const sp_cuda_point *p, const char *name)
{
    for (int k = 0; k < p->n; k++)
        if (!strcmp(p->parameter[k].name, name)) return p->parameter[k].value;
    return 0;
}
static void points_fit_shared_memory(void **state)
{
    (void)state;
    sp_cuda_point p;
    const char *entry;
    sp_target target;
    for (int i = 0; sp_cuda_points_bits(i, &p, &entry, &target); i++) {
        const int warps = value_of(&p, "WARPS"), tiles = value_of(&p, "TILES"), slots = value_of(&p, "SLOTS");
        if (strcmp(entry, "bits")) continue;
        assert_true(warps >= 4 && slots >= 2);
        assert_true(SP_BITS_RING(warps, slots, value_of(&p, "SLOT")) < 225 << 10);
        assert_true(SP_BITS_SUMS(warps, value_of(&p, "STRIPS"), tiles) < 225 << 10);
        assert_int_equal(value_of(&p, "BULK"), target == SP_TARGET_SM90A);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(hostile),
        cmocka_unit_test(bits_meet_all),
        cmocka_unit_test(bytes_of_sizes),
        cmocka_unit_test(points_fit_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
