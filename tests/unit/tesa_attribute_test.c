/* Attributes and sets against a plain model, element by element; normal form, contradictions, bounds, memory. */
#include "tesa_attribute_bed.h"

#define ROUNDS 400

static void made(void **state)
{
    (void)state;
    sparta_rng r = sparta_rng_seed(1);
    static model m;
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        sparta_tesa t = tesa_of(&m), copy;
        OK(sparta_tesa_copy(cx, &t, &copy));
        assert_model(&copy, &m);
        assert_model(&t, &m);
    }
}

static void and_or(void **state)
{
    (void)state;
    sparta_rng r = sparta_rng_seed(2);
    static model a, b, both, one;
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &a, true);
        b = a;
        random_facts(&r, &a, 7);
        random_facts(&r, &b, i % 2 ? 7 : 8);
        both = one = a;
        bool contradiction = false;
        for (int64_t at = 0; at < elements(&a); at++) {
            bool ca = a.has[at] && a.constant[at], cb = b.has[at] && b.constant[at];
            both.has[at] = a.has[at] && b.has[at], one.has[at] = a.has[at] || b.has[at];
            contradiction |= both.has[at] && ca && cb && a.value[at] != b.value[at];
            both.constant[at] = both.has[at] && (ca || cb);
            both.value[at] = ca ? a.value[at] : b.value[at];
            one.constant[at] = ca && cb && a.value[at] == b.value[at];
            both.precision[at] = SPARTA_MIN(a.precision[at], b.precision[at]);
            one.precision[at] = (uint8_t)sparta_precision_join(a.precision[at], b.precision[at]);
        }
        sparta_tesa x = tesa_of(&a), y = tesa_of(&b), z;
        sparta_status status = sparta_tesa_and(cx, &x, &y, &z);
        assert_int_equal(status, contradiction ? SPARTA_E_USAGE : SPARTA_OK);
        if (!status) assert_model(&z, &both);
        OK(sparta_tesa_or(cx, &x, &y, &z));
        assert_model(&z, &one);
        sparta_tesa_free(cx, &x);
        sparta_tesa_free(cx, &y);
    }
}

static void slice_and_concat(void **state)
{
    (void)state;
    sparta_rng r = sparta_rng_seed(3);
    static model m, half[2];
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        int axis = (int)below(&r, m.rank);
        int64_t cut = below(&r, m.dim[axis] + 1), index[SPARTA_TESA_RANK];
        sparta_tesa whole = tesa_of(&m), part[2], again;
        sparta_status status = sparta_tesa_slice(cx, &whole, axis, 0, m.symbol[axis] ? 2 : cut, &part[0]);
        assert_int_equal(status, m.symbol[axis] ? SPARTA_E_SHAPE : SPARTA_OK); /* a symbol n: 1..99 */
        if (!status) {
            OK(sparta_tesa_slice(cx, &whole, axis, cut, m.dim[axis], &part[1]));
            OK(sparta_tesa_concat(cx, axis, (const sparta_tesa *[]){&part[0], &part[1]}, 2, &again));
            assert_model(&again, &m);
            for (int h = 0; h < 2; h++) {
                half[h] = m;
                half[h].dim[axis] = h ? m.dim[axis] - cut : cut;
                for (int64_t at = 0; at < elements(&half[h]); at++) {
                    index_of(&half[h], at, index);
                    index[axis] += h * cut;
                    int64_t from = place_of(&m, index);
                    half[h].has[at] = m.has[from], half[h].constant[at] = m.constant[from];
                    half[h].value[at] = m.value[from], half[h].precision[at] = m.precision[from];
                }
                if (half[h].dim[axis])
                    assert_model(&part[h], &half[h]);
                else
                    sparta_tesa_free(cx, &part[h]);
            }
        }
        sparta_tesa_free(cx, &whole);
    }
}

static void transpose_and_broadcast(void **state)
{
    (void)state;
    sparta_rng r = sparta_rng_seed(4);
    static model m, to;
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        sparta_tesa t = tesa_of(&m), moved, wide;
        int order[SPARTA_TESA_RANK];
        int64_t index[SPARTA_TESA_RANK], there[SPARTA_TESA_RANK];
        for (int k = 0; k < m.rank; k++) order[k] = k;
        for (int k = m.rank - 1; k > 0; k--) {
            int other = (int)below(&r, k + 1), swap = order[k];
            order[k] = order[other], order[other] = swap;
        }
        to = m;
        for (int k = 0; k < m.rank; k++) to.dim[k] = m.dim[order[k]], to.symbol[k] = m.symbol[order[k]];
        for (int64_t at = 0; at < elements(&to); at++) {
            index_of(&to, at, index);
            for (int k = 0; k < m.rank; k++) there[order[k]] = index[k];
            int64_t from = place_of(&m, there);
            to.has[at] = m.has[from], to.constant[at] = m.constant[from];
            to.value[at] = m.value[from], to.precision[at] = m.precision[from];
        }
        OK(sparta_tesa_transpose(cx, &t, order, &moved));
        assert_model(&moved, &to);
        /* a new axis in front, and axes of 1 repeated */
        to = m;
        to.rank = m.rank + 1;
        to.dim[0] = 2, to.symbol[0] = false;
        for (int k = 0; k < m.rank; k++)
            to.dim[k + 1] = m.dim[k] == 1 ? 3 : m.dim[k], to.symbol[k + 1] = m.symbol[k];
        if (elements(&to) <= MODEL) {
            sparta_tesa_dim dim[SPARTA_TESA_RANK];
            for (int64_t at = elements(&to) - 1; at >= 0; at--) {
                index_of(&to, at, index);
                for (int k = 0; k < m.rank; k++) there[k] = m.dim[k] == 1 ? 0 : index[k + 1];
                int64_t from = place_of(&m, there);
                to.has[at] = m.has[from], to.constant[at] = m.constant[from];
                to.value[at] = m.value[from], to.precision[at] = m.precision[from];
            }
            model_dims(&to, dim);
            OK(sparta_tesa_broadcast(cx, &t, to.rank, dim, &wide));
            assert_model(&wide, &to);
        }
        sparta_tesa_free(cx, &t);
    }
}

static sparta_tesa simple(int64_t rows, int64_t cols)
{
    sparta_tesa t;
    OK(sparta_tesa_create(cx, 2, (sparta_tesa_dim[]){sparta_tesa_size(rows), sparta_tesa_size(cols)},
                          SPARTA_PRECISION_F32, &t));
    return t;
}

/* The elements of a model in row-major order under other sizes: axes joined, split, and 1s put in. */
static void reshape(void **state)
{
    (void)state;
    sparta_rng r = sparta_rng_seed(14);
    static model m, to;
    int symbols = 0;
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        sparta_tesa t = tesa_of(&m), made;
        sparta_tesa_dim dim[SPARTA_TESA_RANK];
        to = m;
        to.rank = 0;
        for (int k = 0; k < m.rank; k++) {
            int64_t d = m.dim[k], part = 1 + below(&r, 4);
            bool join = to.rank && !m.symbol[k] && !to.symbol[to.rank - 1] && below(&r, 2);
            if (join) {
                to.dim[to.rank - 1] *= d;
            } else {
                bool split = !m.symbol[k] && d % part == 0 && to.rank + (m.rank - k) < SPARTA_TESA_RANK;
                if (split) to.symbol[to.rank] = false, to.dim[to.rank++] = part, d /= part;
                to.symbol[to.rank] = m.symbol[k], to.dim[to.rank++] = d;
                symbols += m.symbol[k];
            }
        }
        model_dims(&to, dim);
        OK(sparta_tesa_reshape(cx, &t, to.rank, dim, &made));
        assert_model(&made, &to); /* has, constant, value, precision are row-major in both */
        if (!to.symbol[to.rank - 1]) {
            dim[to.rank - 1].min = ++dim[to.rank - 1].max;
            assert_int_equal(sparta_tesa_reshape(cx, &t, to.rank, dim, &made), SPARTA_E_SHAPE);
        }
        sparta_tesa_free(cx, &t);
    }
    assert_true(symbols > 50);
    sparta_tesa a = simple(8, 256), b;
    OK(sparta_tesa_set_bound(cx, &a, SPARTA_HAS_OF_ROW, 4, NULL));
    OK(sparta_tesa_reshape(cx, &a, 3, (sparta_tesa_dim[]){{2, 2, ""}, {4, 4, ""}, {256, 256, ""}}, &b));
    assert_true(b.has == SPARTA_HAS_OF_ROW && b.most == 4);
    sparta_tesa_free(cx, &b);
    OK(sparta_tesa_reshape(cx, &a, 2, (sparta_tesa_dim[]){{16, 16, ""}, {128, 128, ""}}, &b));
    assert_true(b.has == SPARTA_HAS_UNKNOWN);
    sparta_tesa_free(cx, &b);
    sparta_tesa_free(cx, &a);
    a = simple(0, 3);
    OK(sparta_tesa_reshape(cx, &a, 1, &(sparta_tesa_dim){0, 0, ""}, &b));
    assert_true(sparta_set_is_all(&b.set));
    sparta_tesa_free(cx, &b);
    assert_int_equal(sparta_tesa_reshape(cx, &a, 1, &(sparta_tesa_dim){3, 3, ""}, &b), SPARTA_E_SHAPE);
    sparta_tesa_free(cx, &a);
}

/* A large set: in tiles or in plain bits it is the same set, and its operations are those of the mask. */
static void tiles(void **state)
{
    (void)state;
    const int64_t side[2] = {1500, 1300};
    sparta_mask m = mask_of_shape(side[0], side[1]), back;
    for (int64_t n = 100; n < 1500; n++)
        for (int64_t k = 0; k < 700; k++) sparta_mask_set(&m, n, k);
    clear(&m, 1000, 500);
    sparta_mask_set(&m, 3, 1299);
    sparta_set s, copy, plain, other;
    OK(sparta_set_of_mask(cx, 2, side, &m, &s));
    assert_null(s.mask.bits); /* in tiles */
    assert_non_null(s.words);
    plain = (sparta_set){.rank = 2, .extent = {1500, 1300}, .mask = m};
    assert_true(sparta_set_equal(&s, &plain) && sparta_set_equal(&plain, &s));
    assert_true(sparta_set_digest(&s) == sparta_set_digest(&plain));
    assert_int_equal(sparta_set_count(&s, side), sparta_mask_count(&m));
    OK(sparta_set_mask(cx, &s, side, &back));
    assert_true(sparta_mask_equal(&m, &back));
    for (int64_t i = 0; i < 1500; i += 7)
        for (int64_t k = 0; k < 1300; k += 3)
            assert_int_equal(sparta_set_get(&s, (int64_t[]){i, k}), sparta_mask_get(&m, i, k));
    OK(sparta_set_copy(cx, &s, &copy));
    assert_true(sparta_set_equal(&s, &copy));
    sparta_set_free(cx, &copy);
    OK(sparta_set_not(cx, &s, &copy));
    assert_false(sparta_set_equal(&s, &copy));
    OK(sparta_set_combine(cx, SPARTA_SET_OR, &s, &copy, &other));
    assert_true(sparta_set_is_all(&other));
    sparta_set_free(cx, &other);
    OK(sparta_set_combine(cx, SPARTA_SET_AND, &s, &copy, &other));
    assert_true(sparta_set_is_none(&other));
    sparta_set_free(cx, &other);
    sparta_mask_set(&back, 0, 0);
    OK(sparta_set_of_mask(cx, 2, side, &back, &other));
    assert_false(sparta_set_equal(&s, &other));
    assert_true(sparta_set_digest(&s) != sparta_set_digest(&other));
    sparta_set_free(cx, &other);
    sparta_set_free(cx, &copy);
    OK(sparta_set_reduce(cx, &s, 0, &copy));
    for (int64_t k = 0; k < 1300; k++)
        assert_int_equal(sparta_set_get(&copy, (int64_t[]){5, k}), k < 700 || k == 1299);
    sparta_set_free(cx, &copy);
    sparta_set_free(cx, &s);
    FREE(&m, &back);
}

/* A constant 0 is an absent element, -0.0 and NaN are constants; what is absent is no constant. */
static void zeros(void **state)
{
    (void)state;
    sparta_tesa t = simple(1, 4);
    float value[4] = {0.0f, -0.0f, NAN, 2.0f};
    sparta_tensor v = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){1, 4}, value);
    sparta_set all, has;
    OK(sparta_set_all(cx, 2, true, &all));
    OK(sparta_tesa_set_constants(cx, &t, &all, &v));
    assert_int_equal(t.constants, 3);
    assert_false(sparta_tesa_present(&t, (int64_t[]){0, 0}));
    for (int64_t k = 1; k < 4; k++) assert_true(sparta_tesa_present(&t, (int64_t[]){0, k}));
    sparta_mask m = drawn(1, (const char *[]){"11.."});
    OK(sparta_set_of_mask(cx, 2, (int64_t[]){1, 4}, &m, &has));
    OK(sparta_tesa_set_has(cx, &t, &has));
    assert_int_equal(t.constants, 1); /* -0.0: element 0 exists again, and nothing is known of it */
    assert_true(sparta_tesa_present(&t, (int64_t[]){0, 0}));
    OK(sparta_tesa_set_constants(cx, &t, &all, NULL));
    assert_int_equal(t.constants, 0);
    sparta_set_free(cx, &has);
    sparta_set_free(cx, &all);
    FREE(&m);
    sparta_tesa_free(cx, &t);
}

static void bounds(void **state)
{
    (void)state;
    sparta_tesa a = simple(128, 256), b = simple(128, 256), c;
    OK(sparta_tesa_set_bound(cx, &a, SPARTA_HAS_OF_ROW, 4, NULL));
    OK(sparta_tesa_set_bound(cx, &b, SPARTA_HAS_OF_ROW, 9, NULL));
    OK(sparta_tesa_and(cx, &a, &b, &c));
    assert_true(c.has == SPARTA_HAS_OF_ROW && c.most == 4);
    sparta_tesa_free(cx, &c);
    OK(sparta_tesa_or(cx, &a, &b, &c));
    assert_true(c.has == SPARTA_HAS_OF_ROW && c.most == 13);
    sparta_tesa_free(cx, &c);
    OK(sparta_tesa_concat(cx, 1, (const sparta_tesa *[]){&a, &b}, 2, &c));
    assert_true(c.has == SPARTA_HAS_OF_ROW && c.most == 13 && c.dim[1].max == 512);
    sparta_tesa_free(cx, &c);
    OK(sparta_tesa_concat(cx, 0, (const sparta_tesa *[]){&a, &b}, 2, &c));
    assert_true(c.most == 9);
    sparta_tesa_free(cx, &c);
    OK(sparta_tesa_transpose(cx, &a, (int[]){1, 0}, &c));
    assert_true(c.has == SPARTA_HAS_UNKNOWN && c.most == 0);
    sparta_tesa_free(cx, &c);
    OK(sparta_tesa_set_bound(cx, &b, SPARTA_HAS_BLOCKS, 2, (int64_t[]){64, 64}));
    OK(sparta_tesa_slice(cx, &b, 1, 64, 200, &c));
    assert_true(c.has == SPARTA_HAS_BLOCKS && c.most == 2);
    sparta_tesa_free(cx, &c);
    OK(sparta_tesa_slice(cx, &b, 1, 65, 200, &c));
    assert_true(c.has == SPARTA_HAS_UNKNOWN && c.block[0] == 0);
    sparta_tesa_free(cx, &c);
    OK(sparta_tesa_or(cx, &a, &b, &c));
    assert_true(c.has == SPARTA_HAS_UNKNOWN);
    sparta_tesa_free(cx, &c);
    assert_int_equal(sparta_tesa_set_bound(cx, &b, SPARTA_HAS_BLOCKS, 2, (int64_t[]){0, 64}), SPARTA_E_USAGE);
    assert_int_equal(sparta_tesa_set_bound(cx, &b, SPARTA_HAS_OF_ROW, -1, NULL), SPARTA_E_USAGE);
    sparta_tesa_free(cx, &a);
    sparta_tesa_free(cx, &b);
}

/* Groups become as large as they can: 6 columns alike in pairs of 2 are groups of 2, whatever was said. */
static void groups(void **state)
{
    (void)state;
    const sparta_precision i8 = SPARTA_PRECISION_I8, f32 = SPARTA_PRECISION_F32;
    sparta_tesa a = simple(4, 6), b = simple(4, 6);
    OK(sparta_tesa_set_precision(cx, &a, (int64_t[]){0, 1}, (sparta_precision[]){i8, i8, f32, f32, i8, i8}));
    OK(sparta_tesa_set_precision(cx, &b, (int64_t[]){2, 2}, (sparta_precision[]){i8, f32, i8, i8, f32, i8}));
    assert_int_equal(a.group[0], 0);
    assert_int_equal(a.group[1], 2);
    assert_true(sparta_tesa_equal(&a, &b) && sparta_tesa_digest(&a) == sparta_tesa_digest(&b));
    assert_int_equal(sparta_tesa_set_precision(cx, &a, (int64_t[]){-1, 0}, &i8), SPARTA_E_USAGE);
    assert_int_equal(sparta_tesa_set_precision(cx, &a, (int64_t[]){0, 0}, (sparta_precision[]){99}),
                     SPARTA_E_USAGE);
    assert_true(sparta_tesa_equal(&a, &b)); /* as before */
    sparta_tesa_free(cx, &a);
    sparta_tesa_free(cx, &b);
}

static void precisions(void **state)
{
    (void)state;
    assert_int_equal(sparta_precision_join(SPARTA_PRECISION_I8, SPARTA_PRECISION_U8), SPARTA_PRECISION_I16);
    assert_int_equal(sparta_precision_join(SPARTA_PRECISION_F16, SPARTA_PRECISION_BF16),
                     SPARTA_PRECISION_F32);
    assert_int_equal(sparta_precision_join(SPARTA_PRECISION_I4, SPARTA_PRECISION_F32), SPARTA_PRECISION_F32);
    assert_int_equal(sparta_precision_join(SPARTA_PRECISION_I64, SPARTA_PRECISION_F64), SPARTA_PRECISION_ANY);
    assert_int_equal(sparta_precision_join(SPARTA_PRECISION_U8, SPARTA_PRECISION_F16), SPARTA_PRECISION_F16);
    assert_int_equal(sparta_precision_of(SPARTA_BF16), SPARTA_PRECISION_BF16);
    for (int a = 0; a < SPARTA_PRECISIONS; a++)
        assert_int_equal(sparta_precision_join((sparta_precision)a, (sparta_precision)a), a);
    for (int a = 0; a < SPARTA_PRECISIONS; a++)
        for (int b = 0; b < SPARTA_PRECISIONS; b++) {
            sparta_precision j = sparta_precision_join((sparta_precision)a, (sparta_precision)b);
            assert_true(sparta_precision_holds(j, (sparta_precision)a) &&
                        sparta_precision_holds(j, (sparta_precision)b));
            assert_int_equal(j, sparta_precision_join((sparta_precision)b, (sparta_precision)a));
        }
}

/* Symbols: a number meets a symbol, bounds intersect and span, other names are other shapes. */
static void symbols(void **state)
{
    (void)state;
    sparta_tesa a, b, c, d;
    OK(sparta_tesa_create(cx, 1, &(sparta_tesa_dim){1, 64, "batch"}, SPARTA_PRECISION_F32, &a));
    OK(sparta_tesa_create(cx, 1, &(sparta_tesa_dim){8, 99, "batch"}, SPARTA_PRECISION_F32, &b));
    OK(sparta_tesa_create(cx, 1, &(sparta_tesa_dim){16, 16, ""}, SPARTA_PRECISION_F32, &c));
    OK(sparta_tesa_and(cx, &a, &b, &d));
    assert_true(d.dim[0].min == 8 && d.dim[0].max == 64);
    sparta_tesa_free(cx, &d);
    OK(sparta_tesa_or(cx, &a, &b, &d));
    assert_true(d.dim[0].min == 1 && d.dim[0].max == 99);
    sparta_tesa_free(cx, &d);
    OK(sparta_tesa_and(cx, &a, &c, &d));
    assert_true(d.dim[0].max == 16 && !d.dim[0].name[0]);
    sparta_tesa_free(cx, &d);
    assert_int_equal(sparta_tesa_or(cx, &a, &c, &d), SPARTA_E_SHAPE);
    /* one that may have no elements is no axis of 1, which repeats */
    const sparta_tesa_dim maybe = {0, 1, "maybe"}, three = sparta_tesa_size(3);
    sparta_tesa e;
    OK(sparta_tesa_create(cx, 1, &maybe, SPARTA_PRECISION_F32, &e));
    assert_int_equal(sparta_tesa_broadcast(cx, &e, 1, &three, &d), SPARTA_E_SHAPE);
    OK(sparta_tesa_broadcast(cx, &e, 2, (sparta_tesa_dim[]){three, maybe}, &d));
    assert_true(d.dim[0].max == 3 && d.dim[1].min == 0 && d.dim[1].max == 1);
    sparta_tesa_free(cx, &d);
    sparta_tesa_free(cx, &e);
    assert_int_equal(sparta_tesa_create(cx, 1, &(sparta_tesa_dim){5, 4, "x"}, SPARTA_PRECISION_F32, &d),
                     SPARTA_E_SHAPE);
    assert_int_equal(sparta_tesa_create(cx, 1, &(sparta_tesa_dim){1, 4, "a b"}, SPARTA_PRECISION_F32, &d),
                     SPARTA_E_USAGE);
    assert_int_equal(sparta_tesa_create(cx, 7, NULL, SPARTA_PRECISION_F32, &d), SPARTA_E_SHAPE);
    sparta_tesa_free(cx, &a);
    sparta_tesa_free(cx, &b);
    sparta_tesa_free(cx, &c);
}

static void from_values(void **state)
{
    (void)state;
    float w[2][3][2] = {{{1, 0}, {0, 2}, {0, 0}}, {{0, 0}, {0, 3}, {-0.0f, NAN}}};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 3, 2}, w);
    sparta_tesa a;
    OK(sparta_tesa_of_tensor(cx, &t, &a));
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(sparta_tesa_present(&a, (int64_t[]){i / 6, i / 2 % 3, i % 2}),
                         i == 0 || i == 3 || i == 9 || i == 11); /* -0.0 is not there */
    assert_int_equal(a.precision[0], SPARTA_PRECISION_F32);
    sparta_tesa_free(cx, &a);
    OK(sparta_tesa_of_tensor(cx, &(sparta_tensor){SPARTA_F32, 1, {0}, {1}, w}, &a));
    assert_true(sparta_set_is_all(&a.set));
    sparta_tesa_free(cx, &a);
}

/* Every allocation may fail; nothing leaks and the inputs stay. */
static void memory(void **state)
{
    (void)state;
    sparta_rng r = sparta_rng_seed(5);
    static model m, n;
    memset(&m, 0, sizeof m);
    m.rank = 2, m.dim[0] = 6, m.dim[1] = 5;
    n = m;
    random_facts(&r, &m, 7);
    random_facts(&r, &n, 7);
    for (int64_t i = 0; i < 30; i += 3)
        m.has[i] = m.constant[i] = n.has[i] = n.constant[i + 1] = n.has[i + 1] = true;
    sparta_tesa a = tesa_of(&m), b = tesa_of(&n), out;
    for (int what = 0; what < 6; what++)
        for (uint64_t fail = 1;; fail++) {
            sparta_status status;
            size_t before = sparta_ctx_memory(cx);
            sparta_ctx_fail_alloc(cx, fail, false);
            switch (what) {
            case 0: status = sparta_tesa_and(cx, &a, &b, &out); break;
            case 1: status = sparta_tesa_or(cx, &a, &b, &out); break;
            case 2: status = sparta_tesa_concat(cx, 0, (const sparta_tesa *[]){&a, &b}, 2, &out); break;
            case 3: status = sparta_tesa_transpose(cx, &a, (int[]){1, 0}, &out); break;
            case 4: status = sparta_tesa_reshape(cx, &a, 1, &(sparta_tesa_dim){30, 30, ""}, &out); break;
            default: status = sparta_tesa_slice(cx, &a, 1, 1, 4, &out); break;
            }
            sparta_ctx_fail_alloc(cx, 0, false);
            if (!status) {
                sparta_tesa_free(cx, &out);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_int_equal(sparta_ctx_memory(cx), before);
            assert_true(fail < 1000);
        }
    assert_model(&a, &m);
    assert_model(&b, &n);
}

/* Parts by precision are disjoint, their union is what exists, and each has its own precision only. */
static void cover(void **state)
{
    (void)state;
    sparta_rng r = sparta_rng_seed(6);
    const sparta_tesa_cost cost[] = {
        {SPARTA_PRECISION_I8, 2, {{4, 4, 2, 0.25, 0}, {1, 1, 1, 1, 0}}},
        {SPARTA_PRECISION_ANY, 3, {{8, 8, 4, 1, 1}, {2, 2, 2, 1, 1}, {1, 1, 1, 1, 1}}}};
    static model m;
    for (int i = 0; i < 60; i++) {
        memset(&m, 0, sizeof m);
        m.rank = 2, m.dim[0] = 1 + below(&r, 40), m.dim[1] = 1 + below(&r, 40);
        random_facts(&r, &m, 7);
        sparta_tesa t = tesa_of(&m);
        sparta_tesa_cover c;
        OK(sparta_tesa_cover_by(cx, &t, cost, 2, SPARTA_COVER_GREEDY, &c));
        double sum = 0;
        int64_t stored = 0, present = 0;
        for (int p = 0; p < c.parts; p++) {
            sum += c.part[p].cover.cost;
            assert_true(!p || c.part[p].precision > c.part[p - 1].precision);
            for (int k = 0; k < c.part[p].cover.parts; k++)
                stored += sparta_mask_count(&c.part[p].cover.part[k].mask);
        }
        assert_true(fabs(sum - c.cost) < 1e-9);
        for (int64_t at = 0; at < elements(&m); at++) {
            int found = 0;
            for (int p = 0; p < c.parts; p++)
                for (int k = 0; k < c.part[p].cover.parts; k++)
                    if (sparta_mask_get(&c.part[p].cover.part[k].mask, at / m.dim[1], at % m.dim[1])) {
                        found++;
                        assert_int_equal(m.precision[at], c.part[p].precision);
                    }
            assert_int_equal(found, m.has[at]);
            present += m.has[at];
        }
        assert_int_equal(stored, present);
        sparta_tesa_cover_free(cx, &c);
        if (present) {
            bool all_i8 = true;
            for (int64_t at = 0; at < elements(&m); at++)
                all_i8 &= !m.has[at] || m.precision[at] == SPARTA_PRECISION_I8;
            assert_int_equal(sparta_tesa_cover_by(cx, &t, cost, 1, SPARTA_COVER_EXACT, &c),
                             all_i8 ? SPARTA_OK : SPARTA_E_USAGE);
            if (all_i8) sparta_tesa_cover_free(cx, &c);
        }
        OK(sparta_tesa_set_bound(cx, &t, SPARTA_HAS_UNKNOWN, 0, NULL));
        assert_int_equal(sparta_tesa_cover_by(cx, &t, cost, 2, SPARTA_COVER_GREEDY, &c),
                         SPARTA_E_UNSUPPORTED);
        sparta_tesa_free(cx, &t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(made),
                                       cmocka_unit_test(and_or),
                                       cmocka_unit_test(slice_and_concat),
                                       cmocka_unit_test(transpose_and_broadcast),
                                       cmocka_unit_test(reshape),
                                       cmocka_unit_test(tiles),
                                       cmocka_unit_test(zeros),
                                       cmocka_unit_test(bounds),
                                       cmocka_unit_test(groups),
                                       cmocka_unit_test(precisions),
                                       cmocka_unit_test(symbols),
                                       cmocka_unit_test(from_values),
                                       cmocka_unit_test(memory),
                                       cmocka_unit_test(cover)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
