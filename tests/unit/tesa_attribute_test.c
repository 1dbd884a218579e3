/* Attributes and sets against a plain model, element by element; normal form, contradictions, bounds, memory. */
#include "tesa_attribute_bed.h"

#define ROUNDS 400

static void made(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(1);
    static model m;
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        sp_tesa t = tesa_of(&m), copy;
        OK(sp_tesa_copy(cx, &t, &copy));
        assert_model(&copy, &m);
        assert_model(&t, &m);
    }
}

static void and_or(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(2);
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
            both.precision[at] = SP_MIN(a.precision[at], b.precision[at]);
            one.precision[at] = (uint8_t)sp_precision_join(a.precision[at], b.precision[at]);
        }
        sp_tesa x = tesa_of(&a), y = tesa_of(&b), z;
        sparta_status status = sp_tesa_and(cx, &x, &y, &z);
        assert_int_equal(status, contradiction ? SPARTA_E_USAGE : SPARTA_OK);
        if (!status) assert_model(&z, &both);
        OK(sp_tesa_or(cx, &x, &y, &z));
        assert_model(&z, &one);
        sp_tesa_free(cx, &x);
        sp_tesa_free(cx, &y);
    }
}

static void slice_and_concat(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(3);
    static model m, half[2];
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        int axis = (int)below(&r, m.rank);
        int64_t cut = below(&r, m.dim[axis] + 1), index[SP_TESA_RANK];
        sp_tesa whole = tesa_of(&m), part[2], again;
        sparta_status status = sp_tesa_slice(cx, &whole, axis, 0, m.symbol[axis] ? 2 : cut, &part[0]);
        assert_int_equal(status, m.symbol[axis] ? SPARTA_E_SHAPE : SPARTA_OK); /* a symbol n: 1..99 */
        if (!status) {
            OK(sp_tesa_slice(cx, &whole, axis, cut, m.dim[axis], &part[1]));
            OK(sp_tesa_concat(cx, axis, (const sp_tesa *[]){&part[0], &part[1]}, 2, &again));
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
                    sp_tesa_free(cx, &part[h]);
            }
        }
        sp_tesa_free(cx, &whole);
    }
}

static void transpose_and_broadcast(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(4);
    static model m, to;
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        sp_tesa t = tesa_of(&m), moved, wide;
        int order[SP_TESA_RANK];
        int64_t index[SP_TESA_RANK], there[SP_TESA_RANK];
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
        OK(sp_tesa_transpose(cx, &t, order, &moved));
        assert_model(&moved, &to);
        /* a new axis in front, and axes of 1 repeated */
        to = m;
        to.rank = m.rank + 1;
        to.dim[0] = 2, to.symbol[0] = false;
        for (int k = 0; k < m.rank; k++)
            to.dim[k + 1] = m.dim[k] == 1 ? 3 : m.dim[k], to.symbol[k + 1] = m.symbol[k];
        if (elements(&to) <= MODEL) {
            sp_tesa_dim dim[SP_TESA_RANK];
            for (int64_t at = elements(&to) - 1; at >= 0; at--) {
                index_of(&to, at, index);
                for (int k = 0; k < m.rank; k++) there[k] = m.dim[k] == 1 ? 0 : index[k + 1];
                int64_t from = place_of(&m, there);
                to.has[at] = m.has[from], to.constant[at] = m.constant[from];
                to.value[at] = m.value[from], to.precision[at] = m.precision[from];
            }
            model_dims(&to, dim);
            OK(sp_tesa_broadcast(cx, &t, to.rank, dim, &wide));
            assert_model(&wide, &to);
        }
        sp_tesa_free(cx, &t);
    }
}

static sp_tesa simple(int64_t rows, int64_t cols)
{
    sp_tesa t;
    OK(sp_tesa_create(cx, 2, (sp_tesa_dim[]){sp_tesa_size(rows), sp_tesa_size(cols)}, SP_PRECISION_F32, &t));
    return t;
}

/* The elements of a model in row-major order under other sizes: axes joined, split, and 1s put in. */
static void reshape(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(14);
    static model m, to;
    int symbols = 0;
    for (int i = 0; i < ROUNDS; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        sp_tesa t = tesa_of(&m), made;
        sp_tesa_dim dim[SP_TESA_RANK];
        to = m;
        to.rank = 0;
        for (int k = 0; k < m.rank; k++) {
            int64_t d = m.dim[k], part = 1 + below(&r, 4);
            bool join = to.rank && !m.symbol[k] && !to.symbol[to.rank - 1] && below(&r, 2);
            if (join) {
                to.dim[to.rank - 1] *= d;
            } else {
                bool split = !m.symbol[k] && d % part == 0 && to.rank + (m.rank - k) < SP_TESA_RANK;
                if (split) to.symbol[to.rank] = false, to.dim[to.rank++] = part, d /= part;
                to.symbol[to.rank] = m.symbol[k], to.dim[to.rank++] = d;
                symbols += m.symbol[k];
            }
        }
        model_dims(&to, dim);
        OK(sp_tesa_reshape(cx, &t, to.rank, dim, &made));
        assert_model(&made, &to); /* has, constant, value, precision are row-major in both */
        if (!to.symbol[to.rank - 1]) {
            dim[to.rank - 1].min = ++dim[to.rank - 1].max;
            assert_int_equal(sp_tesa_reshape(cx, &t, to.rank, dim, &made), SPARTA_E_SHAPE);
        }
        sp_tesa_free(cx, &t);
    }
    assert_true(symbols > 50);
    sp_tesa a = simple(8, 256), b;
    OK(sp_tesa_set_bound(cx, &a, SP_HAS_OF_ROW, 4, NULL));
    OK(sp_tesa_reshape(cx, &a, 3, (sp_tesa_dim[]){{2, 2, ""}, {4, 4, ""}, {256, 256, ""}}, &b));
    assert_true(b.has == SP_HAS_OF_ROW && b.most == 4);
    sp_tesa_free(cx, &b);
    OK(sp_tesa_reshape(cx, &a, 2, (sp_tesa_dim[]){{16, 16, ""}, {128, 128, ""}}, &b));
    assert_true(b.has == SP_HAS_UNKNOWN);
    sp_tesa_free(cx, &b);
    sp_tesa_free(cx, &a);
    a = simple(0, 3);
    OK(sp_tesa_reshape(cx, &a, 1, &(sp_tesa_dim){0, 0, ""}, &b));
    assert_true(sp_set_is_all(&b.set));
    sp_tesa_free(cx, &b);
    assert_int_equal(sp_tesa_reshape(cx, &a, 1, &(sp_tesa_dim){3, 3, ""}, &b), SPARTA_E_SHAPE);
    sp_tesa_free(cx, &a);
}

/* A large set: in tiles or in plain bits it is the same set, and its operations are those of the mask. */
static void tiles(void **state)
{
    (void)state;
    const int64_t side[2] = {1500, 1300};
    sp_mask m = mask_of_shape(side[0], side[1]), back;
    for (int64_t n = 100; n < 1500; n++)
        for (int64_t k = 0; k < 700; k++) sp_mask_set(&m, n, k);
    clear(&m, 1000, 500);
    sp_mask_set(&m, 3, 1299);
    sp_set s, copy, plain, other;
    OK(sp_set_of_mask(cx, 2, side, &m, &s));
    assert_null(s.mask.bits); /* in tiles */
    assert_non_null(s.words);
    plain = (sp_set){.rank = 2, .extent = {1500, 1300}, .mask = m};
    assert_true(sp_set_equal(&s, &plain) && sp_set_equal(&plain, &s));
    assert_true(sp_set_digest(&s) == sp_set_digest(&plain));
    assert_int_equal(sp_set_count(&s, side), sp_mask_count(&m));
    OK(sp_set_mask(cx, &s, side, &back));
    assert_true(sp_mask_equal(&m, &back));
    for (int64_t i = 0; i < 1500; i += 7)
        for (int64_t k = 0; k < 1300; k += 3)
            assert_int_equal(sp_set_get(&s, (int64_t[]){i, k}), sp_mask_get(&m, i, k));
    OK(sp_set_copy(cx, &s, &copy));
    assert_true(sp_set_equal(&s, &copy));
    sp_set_free(cx, &copy);
    OK(sp_set_not(cx, &s, &copy));
    assert_false(sp_set_equal(&s, &copy));
    OK(sp_set_combine(cx, SP_SET_OR, &s, &copy, &other));
    assert_true(sp_set_is_all(&other));
    sp_set_free(cx, &other);
    OK(sp_set_combine(cx, SP_SET_AND, &s, &copy, &other));
    assert_true(sp_set_is_none(&other));
    sp_set_free(cx, &other);
    sp_mask_set(&back, 0, 0);
    OK(sp_set_of_mask(cx, 2, side, &back, &other));
    assert_false(sp_set_equal(&s, &other));
    assert_true(sp_set_digest(&s) != sp_set_digest(&other));
    sp_set_free(cx, &other);
    sp_set_free(cx, &copy);
    OK(sp_set_reduce(cx, &s, 0, &copy));
    for (int64_t k = 0; k < 1300; k++)
        assert_int_equal(sp_set_get(&copy, (int64_t[]){5, k}), k < 700 || k == 1299);
    sp_set_free(cx, &copy);
    sp_set_free(cx, &s);
    FREE(&m, &back);
}

/* A constant 0 is an absent element, -0.0 and NaN are constants; what is absent is no constant. */
static void zeros(void **state)
{
    (void)state;
    sp_tesa t = simple(1, 4);
    float value[4] = {0.0f, -0.0f, NAN, 2.0f};
    sparta_tensor v = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){1, 4}, value);
    sp_set all, has;
    OK(sp_set_all(cx, 2, true, &all));
    OK(sp_tesa_set_constants(cx, &t, &all, &v));
    assert_int_equal(t.constants, 3);
    assert_false(sp_tesa_present(&t, (int64_t[]){0, 0}));
    for (int64_t k = 1; k < 4; k++) assert_true(sp_tesa_present(&t, (int64_t[]){0, k}));
    sp_mask m = drawn(1, (const char *[]){"11.."});
    OK(sp_set_of_mask(cx, 2, (int64_t[]){1, 4}, &m, &has));
    OK(sp_tesa_set_has(cx, &t, &has));
    assert_int_equal(t.constants, 1); /* -0.0: element 0 exists again, and nothing is known of it */
    assert_true(sp_tesa_present(&t, (int64_t[]){0, 0}));
    OK(sp_tesa_set_constants(cx, &t, &all, NULL));
    assert_int_equal(t.constants, 0);
    sp_set_free(cx, &has);
    sp_set_free(cx, &all);
    FREE(&m);
    sp_tesa_free(cx, &t);
}

static void bounds(void **state)
{
    (void)state;
    sp_tesa a = simple(128, 256), b = simple(128, 256), c;
    OK(sp_tesa_set_bound(cx, &a, SP_HAS_OF_ROW, 4, NULL));
    OK(sp_tesa_set_bound(cx, &b, SP_HAS_OF_ROW, 9, NULL));
    OK(sp_tesa_and(cx, &a, &b, &c));
    assert_true(c.has == SP_HAS_OF_ROW && c.most == 4);
    sp_tesa_free(cx, &c);
    OK(sp_tesa_or(cx, &a, &b, &c));
    assert_true(c.has == SP_HAS_OF_ROW && c.most == 13);
    sp_tesa_free(cx, &c);
    OK(sp_tesa_concat(cx, 1, (const sp_tesa *[]){&a, &b}, 2, &c));
    assert_true(c.has == SP_HAS_OF_ROW && c.most == 13 && c.dim[1].max == 512);
    sp_tesa_free(cx, &c);
    OK(sp_tesa_concat(cx, 0, (const sp_tesa *[]){&a, &b}, 2, &c));
    assert_true(c.most == 9);
    sp_tesa_free(cx, &c);
    OK(sp_tesa_transpose(cx, &a, (int[]){1, 0}, &c));
    assert_true(c.has == SP_HAS_UNKNOWN && c.most == 0);
    sp_tesa_free(cx, &c);
    OK(sp_tesa_set_bound(cx, &b, SP_HAS_BLOCKS, 2, (int64_t[]){64, 64}));
    OK(sp_tesa_slice(cx, &b, 1, 64, 200, &c));
    assert_true(c.has == SP_HAS_BLOCKS && c.most == 2);
    sp_tesa_free(cx, &c);
    OK(sp_tesa_slice(cx, &b, 1, 65, 200, &c));
    assert_true(c.has == SP_HAS_UNKNOWN && c.block[0] == 0);
    sp_tesa_free(cx, &c);
    OK(sp_tesa_or(cx, &a, &b, &c));
    assert_true(c.has == SP_HAS_UNKNOWN);
    sp_tesa_free(cx, &c);
    assert_int_equal(sp_tesa_set_bound(cx, &b, SP_HAS_BLOCKS, 2, (int64_t[]){0, 64}), SPARTA_E_USAGE);
    assert_int_equal(sp_tesa_set_bound(cx, &b, SP_HAS_OF_ROW, -1, NULL), SPARTA_E_USAGE);
    sp_tesa_free(cx, &a);
    sp_tesa_free(cx, &b);
}

/* Groups become as large as they can: 6 columns alike in pairs of 2 are groups of 2, whatever was said. */
static void groups(void **state)
{
    (void)state;
    const sp_precision i8 = SP_PRECISION_I8, f32 = SP_PRECISION_F32;
    sp_tesa a = simple(4, 6), b = simple(4, 6);
    OK(sp_tesa_set_precision(cx, &a, (int64_t[]){0, 1}, (sp_precision[]){i8, i8, f32, f32, i8, i8}));
    OK(sp_tesa_set_precision(cx, &b, (int64_t[]){2, 2}, (sp_precision[]){i8, f32, i8, i8, f32, i8}));
    assert_int_equal(a.group[0], 0);
    assert_int_equal(a.group[1], 2);
    assert_true(sp_tesa_equal(&a, &b) && sp_tesa_digest(&a) == sp_tesa_digest(&b));
    assert_int_equal(sp_tesa_set_precision(cx, &a, (int64_t[]){-1, 0}, &i8), SPARTA_E_USAGE);
    assert_int_equal(sp_tesa_set_precision(cx, &a, (int64_t[]){0, 0}, (sp_precision[]){99}), SPARTA_E_USAGE);
    assert_true(sp_tesa_equal(&a, &b)); /* as before */
    sp_tesa_free(cx, &a);
    sp_tesa_free(cx, &b);
}

static void precisions(void **state)
{
    (void)state;
    assert_int_equal(sp_precision_join(SP_PRECISION_I8, SP_PRECISION_U8), SP_PRECISION_I16);
    assert_int_equal(sp_precision_join(SP_PRECISION_F16, SP_PRECISION_BF16), SP_PRECISION_F32);
    assert_int_equal(sp_precision_join(SP_PRECISION_I4, SP_PRECISION_F32), SP_PRECISION_F32);
    assert_int_equal(sp_precision_join(SP_PRECISION_I64, SP_PRECISION_F64), SP_PRECISION_ANY);
    assert_int_equal(sp_precision_join(SP_PRECISION_U8, SP_PRECISION_F16), SP_PRECISION_F16);
    assert_int_equal(sp_precision_of(SPARTA_BF16), SP_PRECISION_BF16);
    for (int a = 0; a < SP_PRECISIONS; a++)
        assert_int_equal(sp_precision_join((sp_precision)a, (sp_precision)a), a);
    for (int a = 0; a < SP_PRECISIONS; a++)
        for (int b = 0; b < SP_PRECISIONS; b++) {
            sp_precision j = sp_precision_join((sp_precision)a, (sp_precision)b);
            assert_true(sp_precision_holds(j, (sp_precision)a) && sp_precision_holds(j, (sp_precision)b));
            assert_int_equal(j, sp_precision_join((sp_precision)b, (sp_precision)a));
        }
}

/* Symbols: a number meets a symbol, bounds intersect and span, other names are other shapes. */
static void symbols(void **state)
{
    (void)state;
    sp_tesa a, b, c, d;
    OK(sp_tesa_create(cx, 1, &(sp_tesa_dim){1, 64, "batch"}, SP_PRECISION_F32, &a));
    OK(sp_tesa_create(cx, 1, &(sp_tesa_dim){8, 99, "batch"}, SP_PRECISION_F32, &b));
    OK(sp_tesa_create(cx, 1, &(sp_tesa_dim){16, 16, ""}, SP_PRECISION_F32, &c));
    OK(sp_tesa_and(cx, &a, &b, &d));
    assert_true(d.dim[0].min == 8 && d.dim[0].max == 64);
    sp_tesa_free(cx, &d);
    OK(sp_tesa_or(cx, &a, &b, &d));
    assert_true(d.dim[0].min == 1 && d.dim[0].max == 99);
    sp_tesa_free(cx, &d);
    OK(sp_tesa_and(cx, &a, &c, &d));
    assert_true(d.dim[0].max == 16 && !d.dim[0].name[0]);
    sp_tesa_free(cx, &d);
    assert_int_equal(sp_tesa_or(cx, &a, &c, &d), SPARTA_E_SHAPE);
    /* one that may have no elements is no axis of 1, which repeats */
    const sp_tesa_dim maybe = {0, 1, "maybe"}, three = sp_tesa_size(3);
    sp_tesa e;
    OK(sp_tesa_create(cx, 1, &maybe, SP_PRECISION_F32, &e));
    assert_int_equal(sp_tesa_broadcast(cx, &e, 1, &three, &d), SPARTA_E_SHAPE);
    OK(sp_tesa_broadcast(cx, &e, 2, (sp_tesa_dim[]){three, maybe}, &d));
    assert_true(d.dim[0].max == 3 && d.dim[1].min == 0 && d.dim[1].max == 1);
    sp_tesa_free(cx, &d);
    sp_tesa_free(cx, &e);
    assert_int_equal(sp_tesa_create(cx, 1, &(sp_tesa_dim){5, 4, "x"}, SP_PRECISION_F32, &d), SPARTA_E_SHAPE);
    assert_int_equal(sp_tesa_create(cx, 1, &(sp_tesa_dim){1, 4, "a b"}, SP_PRECISION_F32, &d),
                     SPARTA_E_USAGE);
    assert_int_equal(sp_tesa_create(cx, 7, NULL, SP_PRECISION_F32, &d), SPARTA_E_SHAPE);
    sp_tesa_free(cx, &a);
    sp_tesa_free(cx, &b);
    sp_tesa_free(cx, &c);
}

static void from_values(void **state)
{
    (void)state;
    float w[2][3][2] = {{{1, 0}, {0, 2}, {0, 0}}, {{0, 0}, {0, 3}, {-0.0f, NAN}}};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 3, 2}, w);
    sp_tesa a;
    OK(sp_tesa_of_tensor(cx, &t, &a));
    for (int64_t i = 0; i < 12; i++)
        assert_int_equal(sp_tesa_present(&a, (int64_t[]){i / 6, i / 2 % 3, i % 2}),
                         i == 0 || i == 3 || i == 9 || i == 11); /* -0.0 is not there */
    assert_int_equal(a.precision[0], SP_PRECISION_F32);
    sp_tesa_free(cx, &a);
    OK(sp_tesa_of_tensor(cx, &(sparta_tensor){SPARTA_F32, 1, {0}, {1}, w}, &a));
    assert_true(sp_set_is_all(&a.set));
    sp_tesa_free(cx, &a);
}

/* Every allocation may fail; nothing leaks and the inputs stay. */
static void memory(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(5);
    static model m, n;
    memset(&m, 0, sizeof m);
    m.rank = 2, m.dim[0] = 6, m.dim[1] = 5;
    n = m;
    random_facts(&r, &m, 7);
    random_facts(&r, &n, 7);
    for (int64_t i = 0; i < 30; i += 3)
        m.has[i] = m.constant[i] = n.has[i] = n.constant[i + 1] = n.has[i + 1] = true;
    sp_tesa a = tesa_of(&m), b = tesa_of(&n), out;
    for (int what = 0; what < 6; what++)
        for (uint64_t fail = 1;; fail++) {
            sparta_status status;
            size_t before = sp_ctx_memory(cx);
            sp_ctx_fail_alloc(cx, fail, false);
            switch (what) {
            case 0: status = sp_tesa_and(cx, &a, &b, &out); break;
            case 1: status = sp_tesa_or(cx, &a, &b, &out); break;
            case 2: status = sp_tesa_concat(cx, 0, (const sp_tesa *[]){&a, &b}, 2, &out); break;
            case 3: status = sp_tesa_transpose(cx, &a, (int[]){1, 0}, &out); break;
            case 4: status = sp_tesa_reshape(cx, &a, 1, &(sp_tesa_dim){30, 30, ""}, &out); break;
            default: status = sp_tesa_slice(cx, &a, 1, 1, 4, &out); break;
            }
            sp_ctx_fail_alloc(cx, 0, false);
            if (!status) {
                sp_tesa_free(cx, &out);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_int_equal(sp_ctx_memory(cx), before);
            assert_true(fail < 1000);
        }
    assert_model(&a, &m);
    assert_model(&b, &n);
}

/* Parts by precision are disjoint, their union is what exists, and each has its own precision only. */
static void cover(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(6);
    const sp_tesa_cost cost[] = {{SP_PRECISION_I8, 2, {{4, 4, 2, 0.25, 0}, {1, 1, 1, 1, 0}}},
                                 {SP_PRECISION_ANY, 3, {{8, 8, 4, 1, 1}, {2, 2, 2, 1, 1}, {1, 1, 1, 1, 1}}}};
    static model m;
    for (int i = 0; i < 60; i++) {
        memset(&m, 0, sizeof m);
        m.rank = 2, m.dim[0] = 1 + below(&r, 40), m.dim[1] = 1 + below(&r, 40);
        random_facts(&r, &m, 7);
        sp_tesa t = tesa_of(&m);
        sp_tesa_cover c;
        OK(sp_tesa_cover_by(cx, &t, cost, 2, SP_COVER_GREEDY, &c));
        double sum = 0;
        int64_t stored = 0, present = 0;
        for (int p = 0; p < c.parts; p++) {
            sum += c.part[p].cover.cost;
            assert_true(!p || c.part[p].precision > c.part[p - 1].precision);
            for (int k = 0; k < c.part[p].cover.parts; k++)
                stored += sp_mask_count(&c.part[p].cover.part[k].mask);
        }
        assert_true(fabs(sum - c.cost) < 1e-9);
        for (int64_t at = 0; at < elements(&m); at++) {
            int found = 0;
            for (int p = 0; p < c.parts; p++)
                for (int k = 0; k < c.part[p].cover.parts; k++)
                    if (sp_mask_get(&c.part[p].cover.part[k].mask, at / m.dim[1], at % m.dim[1])) {
                        found++;
                        assert_int_equal(m.precision[at], c.part[p].precision);
                    }
            assert_int_equal(found, m.has[at]);
            present += m.has[at];
        }
        assert_int_equal(stored, present);
        sp_tesa_cover_free(cx, &c);
        if (present) {
            bool all_i8 = true;
            for (int64_t at = 0; at < elements(&m); at++)
                all_i8 &= !m.has[at] || m.precision[at] == SP_PRECISION_I8;
            assert_int_equal(sp_tesa_cover_by(cx, &t, cost, 1, SP_COVER_EXACT, &c),
                             all_i8 ? SPARTA_OK : SPARTA_E_USAGE);
            if (all_i8) sp_tesa_cover_free(cx, &c);
        }
        OK(sp_tesa_set_bound(cx, &t, SP_HAS_UNKNOWN, 0, NULL));
        assert_int_equal(sp_tesa_cover_by(cx, &t, cost, 2, SP_COVER_GREEDY, &c), SPARTA_E_UNSUPPORTED);
        sp_tesa_free(cx, &t);
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
