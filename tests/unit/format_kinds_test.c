/* The level kinds: arrays worked out by hand, random formats of the grammar on random tensors, what does not fit, and
 * broken storage of every kind.
 */
#include "bed.h"
#include "store/store_inside.h"
#include "unit/format_random.h"

static sp_format parse(const char *text)
{
    sp_format f;
    if (sp_format_parse(cx, text, &f)) fail_msg("%s: %s", text, sparta_message(cx));
    return f;
}

static sp_packed pack(const char *text, const sparta_tensor *t, const sp_mask *m)
{
    sp_format f = parse(text);
    sp_packed p;
    if (sp_store_pack(cx, &f, t, m, &p)) fail_msg("%s: %s", text, sparta_message(cx));
    if (sp_packed_verify(cx, &p)) fail_msg("%s: %s", text, sparta_message(cx));
    return p;
}

/* ------------------------------------------------------------------ arrays as text */

static void print_array(char *out, size_t size, const char *name, int level, const sparta_tensor *t)
{
    if (!t->rank) return;
    int64_t n = t->dim[0] * (t->rank == 2 ? t->dim[1] : 1);
    size_t used = strlen(out);
    used += (size_t)(level < 0 ? snprintf(out + used, size - used, "%s", name)
                               : snprintf(out + used, size - used, "%s%d", name, level));
    for (int64_t i = 0; i < n; i++)
        used += (size_t)snprintf(out + used, size - used, " %g", sp_element_get(t->dtype, t->data, i));
    snprintf(out + used, size - used, "; ");
}

static void expect_arrays(const char *text, const sparta_tensor *t, const char *want)
{
    sp_packed p = pack(text, t, NULL);
    char got[2000] = "";
    for (int l = 0; l < p.format.n; l++) {
        print_array(got, sizeof got, "pos", l, &p.pos[l]);
        print_array(got, sizeof got, "crd", l, &p.crd[l]);
    }
    print_array(got, sizeof got, "values", -1, &p.values);
    if (strcmp(got, want)) fail_msg("%s:\n  %s, wanted\n  %s", text, got, want);
    sp_packed_free(cx, &p);
}

static void worked_out_by_hand(void **state)
{
    (void)state;
    float w[] = {0, 1, 0, 2, /* */
                 0, 0, 0, 0, /* */
                 3, 0, 4, 5, /* */
                 0, 0, 6, 0};
    sparta_tensor t = {SPARTA_F32, 2, {4, 4}, {4, 1}, w, 0};
    expect_arrays("coo", &t, "pos0 0 6; crd0 0 0 2 2 2 3; crd1 1 3 0 2 3 2; values 1 2 3 4 5 6; ");
    expect_arrays("(i,j)->(i:compressed(nonunique), j:singleton(aos))", &t,
                  "pos0 0 6; crd0 0 1 0 3 2 0 2 2 2 3 3 2; values 1 2 3 4 5 6; ");
    expect_arrays("ell", &t, "crd1 1 3 3 0 0 0 0 2 3 2 2 2; values 1 2 0 0 0 0 3 4 5 6 0 0; ");
    expect_arrays("(i,j)->(i:dense, j:packed[4](pad=zero))", &t,
                  "crd1 1 3 0 0 0 0 0 0 0 2 3 0 2 0 0 0; values 1 2 0 0 0 0 0 0 3 4 5 0 6 0 0 0; ");
    expect_arrays("bitmap", &t, "pos1 0 2 2 5 6; crd1 10 0 13 4; values 1 2 3 4 5 6; ");
    expect_arrays("(i,j)->(i:dense, j:ragged)", &t, "pos1 0 4 4 8 11; values 0 1 0 2 3 0 4 5 0 0 6; ");
    expect_arrays("(i,j)->(i:dense, j:loose)", &t,
                  "pos1 0 2 2 2 2 5 5 6; crd1 1 3 0 2 3 2; values 1 2 3 4 5 6; ");
    expect_arrays("dia", &t, "pos0 0 5; crd0 -2 -1 0 1 3; values 0 0 3 0 0 0 0 6 0 0 4 0 1 0 5 0 2 0 0 0; ");
    expect_arrays("(i,j)->(j-i:compressed, j:range)", &t,
                  "pos0 0 5; crd0 -2 -1 0 1 3; values 3 0 0 0 0 0 6 0 0 0 4 0 0 1 0 5 0 0 0 2; ");
    expect_arrays("(i,j)->(i+j:compressed, i:range)", &t,
                  "pos0 0 5; crd0 1 2 3 4 5; values 1 0 0 0 0 0 3 0 2 0 0 0 0 0 4 0 0 0 5 6; ");
    expect_arrays("(i,j)->(i:compressed(nonunique), j:packed[2])", &t,
                  "pos0 0 4; crd0 0 2 2 3; crd1 1 3 0 2 3 3 2 2; values 1 2 3 4 5 0 6 0; ");
    expect_arrays("sr-bcrs(2,2)", &t,
                  "pos0 0 3; crd0 0 1 1; crd1 1 3 0 2 3 3; values 1 0 2 0 3 0 4 6 5 0 0 0; ");
    expect_arrays("bell(2)", &t, "crd1 0 1 0 1; values 0 1 0 0 0 2 0 0 3 0 0 0 4 5 6 0; ");
    expect_arrays("(i,j)->(i/2:dense, j/2:bitmap, i%2:dense, j%2:dense)", &t,
                  "pos1 0 2 4; crd1 3 3; values 0 1 0 0 0 2 0 0 3 0 0 0 4 5 6 0; ");
    float s[] = {0, 1, 0, 2, 3, 0, 0, 0, /* */
                 4, 0, 0, 5, 0, 0, 6, 7};
    sparta_tensor n = {SPARTA_F32, 2, {2, 8}, {8, 1}, s, 0};
    expect_arrays("nm24", &n, "crd2 13 0 12 14; values 1 2 3 0 4 5 6 7; ");
    expect_arrays("nm24, crd=u4", &n, "crd2 49 0 48 50; values 1 2 3 0 4 5 6 7; ");
    expect_arrays("nm24, crd=u8", &n, "crd2 1 3 0 0 0 3 2 3; values 1 2 3 0 4 5 6 7; ");
    expect_arrays("(i,j)->(i:dense, j/8:dense, j%8:structured[5,8]), crd=u4", &n,
                  "crd2 49 68 4 48 118 7; values 1 2 3 0 0 4 5 6 7 0; ");
    float v[12] = {0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3, 0};
    sparta_tensor one = {SPARTA_F32, 1, {12}, {1}, v, 0};
    expect_arrays("(i)->(i/8:dense, i%8/2:compressed, i%2:dense)", &one,
                  "pos1 0 1 3; crd1 0 0 1; values 0 1 0 2 3 0; ");
}

static void three_dimensions(void **state)
{
    (void)state;
    float w[8] = {1, 0, 0, 2, 0, 0, 3, 0};
    sparta_tensor t = {SPARTA_F32, 3, {2, 2, 2}, {4, 2, 1}, w, 0};
    expect_arrays("csf", &t,
                  "pos0 0 2; crd0 0 1; pos1 0 2 3; crd1 0 1 1; pos2 0 1 2 3; crd2 0 1 0; values 1 2 3; ");
    expect_arrays("(i,j,k)->(i:compressed(nonunique), j:singleton(nonunique), k:singleton)", &t,
                  "pos0 0 3; crd0 0 0 1; crd1 0 1 1; crd2 0 1 0; values 1 2 3; ");
    expect_arrays("(i,j,k)->(i:compressed(nonunique), j:singleton(nonunique,aos), k:singleton(aos))", &t,
                  "pos0 0 3; crd0 0 0 0 0 1 1 1 1 0; values 1 2 3; ");
    expect_arrays("(b,i,j)->(b:dense, j-i:compressed, i:range)", &t,
                  "pos1 0 1 2; crd1 0 -1; values 1 2 0 3; ");
}

/* ------------------------------------------------------------------ rules */

static void zeros_and_masks(void **state)
{
    (void)state;
    float w[] = {0, -0.0f, 1, 2}, back[4];
    sparta_tensor t = {SPARTA_F32, 2, {2, 2}, {2, 1}, w, 0}, out = {SPARTA_F32, 2, {2, 2}, {2, 1}, back, 0};
    sp_mask m;
    assert_int_equal(sp_mask_create(cx, 2, 2, &m), SPARTA_OK);
    sp_mask_set(&m, 0, 0), sp_mask_set(&m, 0, 1), sp_mask_set(&m, 1, 1);
    sp_packed p = pack("ell", &t, &m);
    assert_int_equal(p.values.dim[0], 4); /* two in row 0; row 1 has one and padding */
    memset(back, 0xa5, sizeof back);
    assert_int_equal(sp_store_unpack(cx, &p, &out), SPARTA_OK);
    assert_memory_equal(back, ((float[]){0, -0.0f, 0, 2}), sizeof back);
    sp_packed_free(cx, &p);
    static const char *const texts[] = {"(i,j)->(i:dense, j:packed[auto](zeroless))",
                                        "(i,j)->(i:dense, j:compressed(zeroless))",
                                        "(i,j)->(i:dense, j:bitmap(zeroless))"};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        p = pack(texts[i], &t, &m);
        assert_int_equal(p.values.dim[0], 2); /* -0.0 is no zero */
        sp_packed_free(cx, &p);
    }
    sp_mask_free(cx, &m);
}

/* Duplicates that a source stores are summed, in any order where the format says so. */
static void duplicates_add(void **state)
{
    (void)state;
    float w[4] = {1, 2, 3, 0}, back[4];
    sparta_tensor t = {SPARTA_F32, 2, {2, 2}, {2, 1}, w, 0}, out = {SPARTA_F32, 2, {2, 2}, {2, 1}, back, 0};
    sp_packed p = pack("coo", &t, NULL);
    ((int32_t *)p.crd[1].data)[1] = 0;
    assert_int_equal(sp_store_unpack(cx, &p, &out), SPARTA_OK);
    assert_memory_equal(back, ((float[]){3, 0, 3, 0}), sizeof back);
    ((int32_t *)p.crd[0].data)[0] = 1;
    assert_int_equal(sp_packed_verify(cx, &p), SPARTA_E_FORMAT); /* falls */
    p.format.level[0].properties |= SP_PROP_NONORDERED;
    assert_int_equal(sp_store_unpack(cx, &p, &out), SPARTA_OK);
    assert_memory_equal(back, ((float[]){2, 0, 4, 0}), sizeof back);
    sp_packed_free(cx, &p);
    int64_t big[2] = {INT64_MAX, 1}, sum[2];
    sparta_tensor l = {SPARTA_I64, 2, {1, 2}, {2, 1}, big, 0}, lo = {SPARTA_I64, 2, {1, 2}, {2, 1}, sum, 0};
    p = pack("coo", &l, NULL);
    ((int32_t *)p.crd[1].data)[1] = 0;
    assert_int_equal(sp_store_unpack(cx, &p, &lo), SPARTA_OK); /* wraps, as integers do */
    assert_true(sum[0] == INT64_MIN);
    sp_packed_free(cx, &p);
}

static void expect_refused(const char *text, const sparta_tensor *t, sparta_status want, const char *message)
{
    sp_format f = parse(text);
    sp_packed p = {.rank = 77};
    sp_store_stats stats = {.slots = 77};
    sparta_status status = sp_store_pack(cx, &f, t, NULL, &p);
    if (status != want || strcmp(sparta_message(cx), message))
        fail_msg("%s: status %d, '%s', wanted '%s'", text, status, sparta_message(cx), message);
    assert_int_equal(sp_store_measure(cx, &f, t, NULL, &stats), want);
    assert_true(p.rank == 77 && stats.slots == 77);
}

static void what_does_not_fit(void **state)
{
    (void)state;
    float w[5 * 8] = {0};
    for (int j = 0; j < 7; j++) w[3 * 8 + j] = 1;
    w[8] = w[9] = w[10] = 1;
    sparta_tensor t = {SPARTA_F32, 2, {5, 8}, {8, 1}, w, 0};
    expect_refused("(i,j)->(i:dense, j:packed[4])", &t, SPARTA_E_USAGE,
                   "pack: row 3 has 7 entries, packed[4] holds 4; use packed[7] or packed[auto], or a sum: "
                   "sum{rownnz<=4 -> ...; rest -> coo}");
    expect_refused("(i,j)->(j:dense, i:packed[1])", &t, SPARTA_E_USAGE,
                   "pack: column 0 has 2 entries, packed[1] holds 1; use packed[2] or packed[auto]");
    expect_refused("(i,j)->(i/2:dense, j/2:packed[2], i%2:dense, j%2:dense)", &t, SPARTA_E_USAGE,
                   "pack: i/2 = 1 has 4 entries, packed[2] holds 2; use packed[4] or packed[auto]");
    expect_refused("nm24", &t, SPARTA_E_USAGE,
                   "pack: i = 3, j/4 = 0 has 4 nonzeros in 4 neighbours, structured[2,4] holds 2; run a 2:4 "
                   "sparsifier first");
    expect_refused("(i,j)->(i:dense, j:singleton)", &t, SPARTA_E_USAGE,
                   "pack: row 3 has 7 entries, a singleton holds 1; make the level above nonunique, or use "
                   "packed[auto]");
    expect_refused("(i,j)->(i:packed[1], j:compressed)", &t, SPARTA_E_USAGE,
                   "pack: the tensor has 2 entries, packed[1] holds 1; use packed[2] or packed[auto]");
    float *wide = sp_alloc_array(cx, 400, sizeof *wide);
    assert_non_null(wide);
    for (int i = 0; i < 300; i++) wide[i] = 1;
    sparta_tensor row = {SPARTA_F32, 2, {1, 300}, {300, 1}, wide, 0};
    static const char *const narrow[] = {"(i,j)->(i:dense, j:ragged), pos=u8", "bitmap, pos=u8",
                                         "(i,j)->(i:dense, j:loose), pos=u8"};
    for (size_t i = 0; i < SP_COUNT(narrow); i++)
        expect_refused(narrow[i], &row, SPARTA_E_USAGE,
                       "format: pos=u8 holds positions up to 255, level 1 has 300; use pos=u16");
    sp_free(cx, wide);
}

static void the_limit(void **state)
{
    (void)state;
    float w[16 * 16] = {0};
    for (int j = 0; j < 16; j++) w[j] = 1;
    w[17] = 1;
    sparta_tensor t = {SPARTA_F32, 2, {16, 16}, {16, 1}, w, 0};
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"ell", "pack: the format would store 15.1x the nonzeros (limit 4.0x; longest segment 16, mean 1.1); "
                "use compressed in place of packed, or a sum of packed levels with the long segments in its "
                "rest, or raise the limit"},
        {"dia", "pack: the format would store 15.1x the nonzeros (limit 4.0x); few of its diagonals are "
                "full: use compressed levels of i and j, or raise the limit"},
        {"bsr(16)", "pack: the format would store 15.1x the nonzeros (limit 4.0x); use smaller blocks, or "
                    "compressed levels of single elements, or raise the limit"}};
    sp_store_stats stats;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_format f = parse(cases[i].text);
        assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_OK);
        assert_int_equal(sp_store_within(cx, &f, &stats, 0), SPARTA_E_LIMIT);
        assert_string_equal(sparta_message(cx), cases[i].message);
        assert_int_equal(sp_store_within(cx, &f, &stats, 16), SPARTA_OK);
        assert_int_equal(sp_store_within(cx, &f, &stats, 15), SPARTA_E_LIMIT);
    }
    static const char *const fine[] = {"dense", "panel",  "csr",
                                       "coo",   "bitmap", "(i,j)->(i:dense, j:ragged)"};
    for (size_t i = 0; i < SP_COUNT(fine); i++) {
        sp_format f = parse(fine[i]);
        assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_OK);
        assert_int_equal(sp_store_within(cx, &f, &stats, 0), SPARTA_OK);
    }
    sp_format f = parse("ell");
    assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_OK);
    assert_int_equal(stats.longest[0], 16);
    assert_int_equal(stats.longest[1], 16);
    assert_int_equal(stats.segments[1], 16);
    assert_int_equal(stats.crd_bytes, 16 * 16 * 4);
    assert_int_equal(stats.pos_bytes, 0);
    assert_int_equal(stats.value_bytes, 16 * 16 * 4);
}

/* ------------------------------------------------------------------ random formats of the grammar */

static size_t bytes_of(const sparta_tensor *t)
{
    return t->rank ? (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype) : 0;
}

static void expect_stable_text(const char *text, const sp_format *f)
{
    sp_text a, b;
    sp_format again;
    sp_text_init(&a, cx), sp_text_init(&b, cx);
    sp_format_print(f, &a);
    if (sp_format_parse(cx, sp_text_str(&a), &again)) fail_msg("%s: %s", text, sparta_message(cx));
    assert_true(sp_format_equal(f, &again));
    sp_format_print(&again, &b);
    assert_string_equal(sp_text_str(&a), sp_text_str(&b));
    sp_text_free(&a), sp_text_free(&b);
}

static void expect_stats(const sp_packed *p, const sp_store_stats *s, int64_t elements)
{
    size_t pos = 0, crd = 0;
    for (int l = 0; l < p->format.n; l++) pos += bytes_of(&p->pos[l]), crd += bytes_of(&p->crd[l]);
    assert_int_equal(s->elements, elements);
    assert_int_equal(s->slots, p->values.dim[0]);
    assert_int_equal(s->pos_bytes, pos);
    assert_int_equal(s->crd_bytes, crd);
    assert_int_equal(s->value_bytes, bytes_of(&p->values));
    assert_int_equal(s->bytes, pos + crd + bytes_of(&p->values));
}

#define ELEMENTS 4096

/* Flip bits: refused or read safely (the sanitizers watch), and never accepted by one reader only. */
static void damage(sp_rng *r, sp_packed *p, const sparta_tensor *out)
{
    for (int n = 0; n < 4; n++) {
        int l = (int)roll(r, (unsigned)p->format.n);
        sparta_tensor *all[] = {&p->pos[l], &p->crd[l], &p->values}, *a = all[roll(r, 3)];
        size_t bytes = bytes_of(a);
        if (bytes) ((uint8_t *)a->data)[roll(r, (unsigned)bytes)] ^= (uint8_t)(1 << roll(r, 8));
        if (roll(r, 6) == 0 && a->rank == 1 && a->dim[0] > 0) a->dim[0]--;
        sparta_status verified = sp_packed_verify(cx, p), unpacked = sp_store_unpack(cx, p, out);
        assert_true(verified == SPARTA_OK || verified == SPARTA_E_FORMAT || verified == SPARTA_E_LIMIT);
        if (verified) assert_int_equal(unpacked, verified);
    }
}

static void random_formats(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(7);
    static int16_t w[ELEMENTS], back[ELEMENTS];
    int packed = 0, refused = 0;
    for (int n = 0; n < 6000; n++) {
        char text[512];
        int rank = 1 + (int)roll(&r, 6);
        sparta_tensor t = {.dtype = SPARTA_I16, .rank = rank, .data = w};
        int64_t all = 1, elements = 0;
        for (int d = rank - 1; d >= 0; d--) {
            t.dim[d] = rank < 3 ? (int64_t)roll(&r, 20) : 1 + (int64_t)roll(&r, 4);
            t.stride[d] = all;
            all *= t.dim[d];
        }
        unsigned one_in = 1 + roll(&r, 6);
        for (int64_t i = 0; i < all; i++)
            elements += w[i] = roll(&r, one_in) ? 0 : (int16_t)(1 + roll(&r, 99));
        elements = 0;
        for (int64_t i = 0; i < all; i++) elements += w[i] != 0;
        format_draw(&r, rank, false, text, sizeof text);
        sp_format f = parse(text);
        expect_stable_text(text, &f);
        sp_packed p;
        sp_store_stats stats;
        sparta_status status = sp_store_pack(cx, &f, &t, NULL, &p);
        if (status) { /* a singleton or a width that is too narrow */
            assert_int_equal(status, SPARTA_E_USAGE);
            assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), status);
            refused++;
            continue;
        }
        packed++;
        assert_int_equal(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_OK);
        expect_stats(&p, &stats, elements);
        sparta_tensor out = t;
        out.data = back;
        memset(back, 0xa5, sizeof back);
        if (sp_store_unpack(cx, &p, &out)) fail_msg("%s: %s", text, sparta_message(cx));
        if (memcmp(back, w, (size_t)all * sizeof *w)) fail_msg("%s: other elements came back", text);
        damage(&r, &p, &out);
        sp_packed_free(cx, &p);
    }
    assert_true(packed > 4000 && refused > 100);
}

/* ------------------------------------------------------------------ every named format */

static void every_named_format(void **state)
{
    (void)state;
    static const char *const names[] = {"dense",     "csr",      "csc",      "coo",     "dcsr",
                                        "dcsc",      "bsr(3,2)", "bsc(2,5)", "dbsr(4)", "ell",
                                        "bell(2,3)", "dia",      "bitmap",   "cv(4)",   "sr-bcrs(4,2)",
                                        "panel",     "vnni",     "strip(4)", "rows(4)", "ranges(4)"};
    static const int64_t shapes[][2] = {{0, 0}, {0, 3}, {3, 0}, {1, 1}, {1, 9}, {9, 1}, {7, 5}, {17, 33}};
    sp_rng r = sp_rng_seed(11);
    static double w[17 * 33], back[17 * 33];
    for (size_t i = 0; i < SP_COUNT(names); i++)
        for (size_t s = 0; s < SP_COUNT(shapes); s++)
            for (unsigned one_in = 0; one_in < 4; one_in++) { /* empty, full, half, a third */
                int64_t rows = shapes[s][0], cols = shapes[s][1];
                for (int64_t e = 0; e < rows * cols; e++)
                    w[e] = one_in && roll(&r, one_in) == 0 ? (double)(1 + roll(&r, 99)) : 0;
                sparta_tensor t = {SPARTA_F64, 2, {rows, cols}, {cols, 1}, w, 0}, out = t;
                out.data = back;
                memset(back, 0xa5, sizeof back);
                sp_packed p = pack(names[i], &t, NULL);
                if (sp_store_unpack(cx, &p, &out)) fail_msg("%s: %s", names[i], sparta_message(cx));
                assert_memory_equal(back, w, (size_t)(rows * cols) * sizeof *w);
                sp_packed_free(cx, &p);
            }
}

/* ------------------------------------------------------------------ broken storage of each kind */

static void broken(void **state)
{
    (void)state;
    float w[16] = {0, 1, 0, 2, 0, 0, 0, 0, 3, 0, 4, 5, 0, 0, 6, 0}, back[16];
    sparta_tensor t = {SPARTA_F32, 2, {4, 4}, {4, 1}, w, 0}, out = {SPARTA_F32, 2, {4, 4}, {4, 1}, back, 0};
#define BREAK(text, message, change)                                                                         \
    do {                                                                                                     \
        sp_packed good = pack(text, &t, NULL), p = good;                                                     \
        int32_t *pos = p.pos[1].data, *crd = p.crd[1].data;                                                  \
        (void)pos, (void)crd;                                                                                \
        change;                                                                                              \
        assert_int_equal(sp_store_unpack(cx, &p, &out), SPARTA_E_FORMAT);                                    \
        if (strncmp(sparta_message(cx), message, strlen(message)))                                           \
            fail_msg("'%s', wanted '%s'", sparta_message(cx), message);                                      \
        sp_packed_free(cx, &good);                                                                           \
    } while (0)
    BREAK("ell", "packed: level 1: crd[2] is 2 after 3; segment 0 must ascend, then repeat its last",
          crd[2] = 2);
    BREAK("ell", "packed: level 1: crd[4] is 4, coordinates are below 4", crd[4] = 4);
    BREAK("ell", "packed: level 1: crd[0] is -1", crd[0] = -1);
    BREAK("ell", "packed: level 1: crd has 11 entries, 4 segments of 2 need 8", p.crd[1].dim[0] = 11);
    BREAK("ell", "packed: value 2 lies outside the tensor, in the padding", ((float *)p.values.data)[2] = 1);
    BREAK("(i,j)->(i:dense, j:packed[3](pad=zero))",
          "packed: level 1: crd[2] is 3 after 3; segment 0 must ascend, then repeat 0", crd[2] = 3);
    BREAK("bitmap", "packed: level 1: segment 0 has 3 bits set, pos says 2", ((uint8_t *)crd)[0] |= 1);
    BREAK("bitmap", "packed: level 1: segment 0 has bits set past its 4", ((uint8_t *)crd)[0] = 0x82);
    BREAK("bitmap", "packed: level 1: bits have 3 bytes, they need 4", p.crd[1].dim[0] = 3);
    BREAK("bitmap", "packed: bits of level 1 are i8, the format says u8", p.crd[1].dtype = SPARTA_I8);
    BREAK("bitmap", "packed: level 1: pos[1] is 2 after 0; positions must not fall, nor pass 0", pos[4] = -1);
    BREAK("(i,j)->(i:dense, j:ragged)", "packed: level 1: segment 0 has 5 positions, coordinates are below 4",
          pos[1] = pos[2] = 5);
    BREAK("(i,j)->(i:dense, j:ragged)", "packed: level 1: pos[2] is 1 after 4", pos[2] = 1);
    BREAK("(i,j)->(i:dense, j:ragged)", "packed: 11 values, the levels have 12", pos[4] = 12);
    BREAK("(i,j)->(i:dense, j:loose)", "packed: level 1: segment 1 is 1 to 2 after 2", pos[2] = 1);
    BREAK("(i,j)->(i:dense, j:loose)", "packed: level 1: segment 3 is 5 to 7 after 5", pos[7] = 7);
    BREAK("(i,j)->(i:dense, j:loose)", "packed: level 1: pos has 7 entries for 4 segments",
          p.pos[1].dim[0] = 7);
    BREAK("coo", "packed: level 1: crd[3] is 4, coordinates are below 4", crd[3] = 4);
    BREAK("coo", "packed: level 1: crd has 5 entries, 6 segments of 1 need 6", p.crd[1].dim[0] = 5);
    BREAK("(i,j)->(i:compressed(nonunique), j:singleton(aos))",
          "packed: crd of level 0 are no contiguous array of n by 2", p.crd[0].rank = 1;
          p.crd[0].dim[0] = 5);
    BREAK("(i,j)->(i:compressed(nonunique), j:singleton(aos))",
          "packed: level 1 has an array crd that its kind", p.crd[1] = p.pos[0]);
    BREAK("dia", "packed: level 0: crd[0] is -4, offsets are -3 to 3", ((int32_t *)p.crd[0].data)[0] = -4);
    BREAK("dia", "packed: level 0: crd[1] is -2 after -2", ((int32_t *)p.crd[0].data)[1] = -2);
    BREAK("dia", "packed: value 0 lies outside the tensor, in the padding", ((float *)p.values.data)[0] = 1);
#undef BREAK
}

/* A package keeps shared coordinates as one row. */
static void shared_in_one_row(void **state)
{
    (void)state;
    float w[4] = {1, 2, 0, 3}, back[4];
    sparta_tensor t = {SPARTA_F32, 2, {2, 2}, {2, 1}, w, 0}, out = {SPARTA_F32, 2, {2, 2}, {2, 1}, back, 0};
    sp_packed p = pack("(i,j)->(i:compressed(nonunique), j:singleton(aos))", &t, NULL);
    assert_int_equal(p.crd[0].dim[0], 3);
    assert_int_equal(p.crd[0].dim[1], 2);
    p.crd[0].rank = 1, p.crd[0].dim[0] = 6, p.crd[0].stride[0] = 1;
    assert_int_equal(sp_store_unpack(cx, &p, &out), SPARTA_OK);
    assert_memory_equal(back, w, sizeof w);
    sp_packed_free(cx, &p);
}

/* Room between the segments of a loose level belongs to nobody. */
static void holes(void **state)
{
    (void)state;
    int32_t pos[] = {1, 2, 4, 6}, crd[] = {99, 2, -5, 7, 0, 1};
    float values[] = {9, 1, 9, 9, 2, 3}, back[6];
    sp_packed p = {
        .format = parse("(i,j)->(i:dense, j:loose)"), .dtype = SPARTA_F32, .rank = 2, .dim = {2, 3}};
    p.pos[1] = (sparta_tensor){SPARTA_I32, 1, {4}, {1}, pos, 0};
    p.crd[1] = (sparta_tensor){SPARTA_I32, 1, {6}, {1}, crd, 0};
    p.values = (sparta_tensor){SPARTA_F32, 1, {6}, {1}, values, 0};
    sparta_tensor out = {SPARTA_F32, 2, {2, 3}, {3, 1}, back, 0};
    if (sp_store_unpack(cx, &p, &out)) fail_msg("%s", sparta_message(cx));
    assert_memory_equal(back, ((float[]){0, 0, 1, 2, 3, 0}), sizeof back);
}

/* Sizes that no machine holds: an error or an answer at once. */
static void absurd(void **state)
{
    (void)state;
    static const char *const texts[] = {"ell, crd=i64",    "(i,j)->(i:dense, j:packed[2147483647]), crd=i64",
                                        "bitmap",          "(i,j)->(i:dense, j:ragged), pos=i64",
                                        "coo, crd=i64",    "(i,j)->(i:dense, j:loose), crd=i64, pos=i64",
                                        "dia, crd=i64",    "(i,j)->(i:dense, j:singleton), crd=i64",
                                        "bell(7), crd=i64"};
    int64_t dims[][2] = {{INT64_C(1) << 60, 0}, {0, INT64_C(1) << 60}, {INT64_MAX, 0}, {0, INT64_MAX}};
    float none[1];
    for (size_t i = 0; i < SP_COUNT(texts); i++)
        for (size_t d = 0; d < SP_COUNT(dims); d++) {
            sp_format f = parse(texts[i]);
            sparta_tensor t = {SPARTA_F32, 2, {dims[d][0], dims[d][1]}, {0, 0}, none, 0};
            sp_packed p;
            if (sp_store_pack(cx, &f, &t, NULL, &p)) continue;
            assert_int_equal(sp_packed_verify(cx, &p), SPARTA_OK);
            assert_int_equal(sp_store_unpack(cx, &p, &t), SPARTA_OK);
            sp_packed_free(cx, &p);
        }
    sp_format f = parse("dia, crd=i64");
    assert_int_equal(sp_format_check(cx, &f, 2, (int64_t[]){INT64_MAX, INT64_MAX}), SPARTA_E_LIMIT);
    assert_int_equal(sp_format_check(cx, &f, 2, (int64_t[]){2, INT64_MAX}), SPARTA_E_LIMIT);
    f = parse("dia");
    assert_int_equal(sp_format_check(cx, &f, 2, (int64_t[]){INT64_C(1) << 31, 1}), SPARTA_OK);
    assert_int_equal(sp_format_check(cx, &f, 2, (int64_t[]){(INT64_C(1) << 31) + 1, 1}), SPARTA_E_USAGE);
    f = parse("(i,j)->(i:dense, j/8:dense, j%8:structured[2,8]), crd=u2");
    assert_int_equal(sp_format_check(cx, &f, 2, (int64_t[]){8, 8}), SPARTA_E_USAGE);
    assert_string_equal(sparta_message(cx),
                        "format: crd=u2 holds coordinates below 4, level j%8 has 8; use crd=u8");
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {"coo",    "(i,j)->(i:compressed(nonunique), j:singleton(aos))",
                                        "ell",    "dia",
                                        "bitmap", "(i,j)->(j:ragged, i:loose)"};
    float w[63], back[63];
    for (int i = 0; i < 63; i++) w[i] = (float)(i % 4);
    sparta_tensor t = {SPARTA_F32, 2, {9, 7}, {7, 1}, w, 0}, out = {SPARTA_F32, 2, {9, 7}, {7, 1}, back, 0};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_format f = parse(texts[i]);
        for (uint64_t nth = 1;; nth++) {
            sp_packed p = {0};
            assert_true(nth < 200);
            sp_ctx_fail_alloc(cx, nth, false);
            sparta_status status = sp_store_pack(cx, &f, &t, NULL, &p);
            if (!status) status = sp_store_unpack(cx, &p, &out);
            sp_ctx_fail_alloc(cx, 0, false);
            sp_packed_free(cx, &p);
            assert_int_equal(sp_ctx_memory(cx), 0);
            if (status == SPARTA_OK) {
                assert_true(nth > 4);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(worked_out_by_hand),
                                       cmocka_unit_test(three_dimensions),
                                       cmocka_unit_test(zeros_and_masks),
                                       cmocka_unit_test(duplicates_add),
                                       cmocka_unit_test(what_does_not_fit),
                                       cmocka_unit_test(the_limit),
                                       cmocka_unit_test(random_formats),
                                       cmocka_unit_test(every_named_format),
                                       cmocka_unit_test(broken),
                                       cmocka_unit_test(holes),
                                       cmocka_unit_test(shared_in_one_row),
                                       cmocka_unit_test(absurd),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
