/* Storage that is broken, by kind and by chance; packing and unpacking without memory, and cancelled. */
#include "store_formats.h"
#include "store/store_inside.h"

/* ------------------------------------------------------------------ broken storage */

/* A packed tensor whose arrays are blocks of exactly their size, so that the sanitizer sees a step too far.
 */
static sp_packed tight(const sp_packed *from)
{
    sp_packed p = *from;
    for (int i = 0; i <= 2 * SP_LEVELS; i++) {
        sparta_tensor *t = i == 2 * SP_LEVELS ? &p.values : i % 2 ? &p.pos[i / 2] : &p.crd[i / 2];
        if (!t->data) continue;
        size_t bytes = (size_t)t->dim[0] * sparta_dtype_size(t->dtype);
        void *copy = malloc(bytes ? bytes : 1);
        memcpy(copy, t->data, bytes);
        t->data = copy;
    }
    return p;
}

static void tight_free(sp_packed *p)
{
    for (int l = 0; l < SP_LEVELS; l++) free(p->pos[l].data), free(p->crd[l].data);
    free(p->values.data);
}

static void expect_broken(const sp_packed *p, const sparta_tensor *out, const char *message)
{
    float before[35];
    memcpy(before, out->data, sizeof before);
    assert_int_equal(sp_packed_verify(cx, p), SPARTA_E_FORMAT);
    if (strncmp(sparta_message(cx), message, strlen(message)))
        fail_msg("'%s', wanted '%s'", sparta_message(cx), message);
    assert_int_equal(sp_store_unpack(cx, p, out), SPARTA_E_FORMAT);
    assert_memory_equal(out->data, before, sizeof before);
}

static void each_kind_of_damage(void **state)
{
    (void)state;
    float w[35], target[35];
    for (int i = 0; i < 35; i++) w[i] = i % 3 ? (float)i : 0, target[i] = -1;
    sparta_tensor t = {SPARTA_F32, 2, {5, 7}, {7, 1}, w, 0}, out = {SPARTA_F32, 2, {5, 7}, {7, 1}, target, 0};
    sp_format f = parse("csr");
    sp_packed good, p;
    assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &good), SPARTA_OK);
#define DAMAGE(message, change)                                                                              \
    do {                                                                                                     \
        p = tight(&good);                                                                                    \
        int32_t *pos = p.pos[1].data, *crd = p.crd[1].data;                                                  \
        sp_packed owner = p;                                                                                 \
        (void)pos, (void)crd;                                                                                \
        change;                                                                                              \
        expect_broken(&p, &out, message);                                                                    \
        tight_free(&owner);                                                                                  \
    } while (0)
    DAMAGE("packed: level 1: pos[0] is 1, it must be 0", pos[0] = 1);
    DAMAGE("packed: level 1: pos[2] is 1 after 4", pos[2] = 1);
    DAMAGE("packed: level 1: pos[2] is -7 after 4", pos[2] = -7);
    DAMAGE("packed: level 1: pos[1] is 2147483647 after 0", pos[1] = INT32_MAX);
    DAMAGE("packed: level 1: pos ends at", pos[5] -= 1);
    DAMAGE("packed: level 1: crd[2] is 7, coordinates are below 7", crd[2] = 7);
    DAMAGE("packed: level 1: crd[2] is -1, coordinates are below 7", crd[2] = -1);
    DAMAGE("packed: level 1: crd[1] is 1 after 1; segment 0 must ascend", crd[1] = crd[0]);
    DAMAGE("packed: level 1: pos has 5 entries for 5 segments", p.pos[1].dim[0] = 5);
    DAMAGE("packed: level 1: pos has 0 entries for 5 segments", p.pos[1].dim[0] = 0);
    DAMAGE("packed: level 1: pos[5] is 23 after 18; positions must not fall, nor pass 22",
           p.crd[1].dim[0] -= 1);
    DAMAGE("packed: pos of level 1 are no contiguous", p.pos[1].dim[0] = -1);
    DAMAGE("packed: pos of level 1 are no contiguous", p.pos[1].rank = 0);
    DAMAGE("packed: crd of level 1 are no contiguous", p.crd[1].stride[0] = 2);
    DAMAGE("packed: crd of level 1 are u32, the format says i32", p.crd[1].dtype = SPARTA_U32);
    DAMAGE("packed: crd of level 1 are of no type", p.crd[1].dtype = (sparta_dtype)99);
    DAMAGE("packed: crd of level 1 are not aligned", p.crd[1].data = NULL);
    DAMAGE("packed: pos of level 1 are not aligned", p.pos[1].data = (char *)p.pos[1].data + 1);
    DAMAGE("packed: 22 values, the levels have 23 positions", p.values.dim[0] -= 1);
    DAMAGE("packed: values are f64, the format says f32", p.values.dtype = SPARTA_F64);
    DAMAGE("packed: level 0 has an array crd", p.crd[0] = p.crd[1]);
    DAMAGE("packed: type 99 is unknown", p.dtype = (sparta_dtype)99);
    DAMAGE("packed: format: 2 dimensions but the tensor has 3", p.rank = 3);
    DAMAGE("packed: format: dimension j is -1", p.dim[1] = -1);
    DAMAGE("packed: level 1: pos has 6 entries for 6 segments", p.dim[0] = 6);
    DAMAGE("packed: level 1: crd[", p.dim[1] = 3);
    DAMAGE("packed: format: the padded tensor", p.dim[0] = p.dim[1] = INT64_MAX / 2;
           p.format.level[1].crd = p.crd[1].dtype = SPARTA_I64);
    DAMAGE("packed: format: level 0 is no level", p.format.level[0].kind = 99);
    DAMAGE("packed: format: 2 dimensions and 99 levels", p.format.n = 99);
#undef DAMAGE
    sparta_tensor wrong = out;
    wrong.dtype = SPARTA_I32;
    assert_int_equal(sp_store_unpack(cx, &good, &wrong), SPARTA_E_DTYPE);
    wrong = out;
    wrong.dim[0] = 4;
    assert_int_equal(sp_store_unpack(cx, &good, &wrong), SPARTA_E_SHAPE);
    wrong.rank = 1;
    assert_int_equal(sp_store_unpack(cx, &good, &wrong), SPARTA_E_SHAPE);
    sp_packed_free(cx, &good);
}

static void padding_must_be_zero(void **state)
{
    (void)state;
    float w[35], target[35] = {0};
    for (int i = 0; i < 35; i++) w[i] = 1;
    sparta_tensor t = {SPARTA_F32, 2, {5, 7}, {7, 1}, w, 0}, out = {SPARTA_F32, 2, {5, 7}, {7, 1}, target, 0};
    sp_format f = parse("strip(4)");
    sp_packed p;
    assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_OK);
    ((float *)p.values.data)[7 * 4 + 1] = 3;               /* row 5 of 5 */
    assert_int_equal(sp_packed_verify(cx, &p), SPARTA_OK); /* it does not look at values */
    assert_int_equal(sp_store_unpack(cx, &p, &out), SPARTA_E_FORMAT);
    assert_string_equal(sparta_message(cx),
                        "packed: value 29 lies outside the tensor, in the padding, and is not 0");
    assert_true(target[0] == 0);
    sp_packed_free(cx, &p);
}

/* Flip bytes at random: refused, or walked without a step outside (the sanitizers watch). */
static void random_damage(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(4);
    int refused = 0, accepted = 0;
    for (size_t i = 0; i < SP_COUNT(formats_2d); i++) {
        sp_format f = parse(formats_2d[i]);
        float w[13 * 6], target[13 * 6];
        for (int e = 0; e < 13 * 6; e++) w[e] = sp_rng_next(&r) % 3 ? 0 : 1;
        sparta_tensor t = {SPARTA_F32, 2, {13, 6}, {6, 1}, w, 0},
                      out = {SPARTA_F32, 2, {13, 6}, {6, 1}, target, 0};
        sp_packed good;
        assert_int_equal(sp_store_pack(cx, &f, &t, NULL, &good), SPARTA_OK);
        for (int n = 0; n < 300; n++) {
            sp_packed p = tight(&good), owner = p;
            sparta_tensor *all[] = {&p.pos[0], &p.pos[1], &p.pos[2], &p.pos[3], &p.crd[0],
                                    &p.crd[1], &p.crd[2], &p.crd[3], &p.values};
            sparta_tensor *a = all[sp_rng_next(&r) % SP_COUNT(all)];
            size_t bytes = a->data ? (size_t)a->dim[0] * sparta_dtype_size(a->dtype) : 0;
            if (bytes)
                ((unsigned char *)a->data)[sp_rng_next(&r) % bytes] ^=
                    (unsigned char)(1u << sp_rng_next(&r) % 8);
            if (sp_rng_next(&r) % 8 == 0) a->dim[0] -= (int64_t)(sp_rng_next(&r) % 3);
            if (sp_rng_next(&r) % 8 == 0) p.dim[sp_rng_next(&r) % 2] += (int64_t)(sp_rng_next(&r) % 5) - 2;
            sparta_status status = sp_packed_verify(cx, &p);
            assert_true(status == SPARTA_OK || status == SPARTA_E_FORMAT);
            *(status ? &refused : &accepted) += 1;
            sparta_status unpacked = sp_store_unpack(cx, &p, &out);
            if (status) assert_int_equal(unpacked, status);
            tight_free(&owner);
        }
        sp_packed_free(cx, &good);
    }
    assert_true(refused > 500 && accepted > 500);
}

/* ------------------------------------------------------------------ memory and cancellation */

static sparta_status pack_unpack(sparta_ctx *c, const char *text, const sparta_tensor *t, const sp_mask *m,
                                 const sparta_tensor *out)
{
    sp_format f;
    sp_packed p = {0};
    sp_store_stats stats;
    sp_text printed;
    sp_text_init(&printed, c);
    sparta_status status = sp_format_parse(c, text, &f);
    if (!status) sp_format_print(&f, &printed);
    if (!status) status = printed.status;
    if (!status) status = sp_store_measure(c, &f, t, m, &stats);
    if (!status) status = sp_store_pack(c, &f, t, m, &p);
    if (!status) status = sp_store_unpack(c, &p, out);
    sp_packed_free(c, &p);
    sp_text_free(&printed);
    return status;
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "csr", "csc", "strip(4)", "panel", "dcsr", "(i,j)->(j:compressed, i/2:compressed, i%2:compressed)"};
    float w[63], target[63];
    for (int i = 0; i < 63; i++) w[i] = (float)(i % 4);
    sparta_tensor t = {SPARTA_F32, 2, {9, 7}, {7, 1}, w, 0}, out = {SPARTA_F32, 2, {9, 7}, {7, 1}, target, 0};
    sp_mask m;
    assert_int_equal(sp_mask_of(cx, &t, &m), SPARTA_OK);
    size_t before = sp_ctx_memory(cx);
    for (size_t i = 0; i < 2 * SP_COUNT(texts); i++)
        for (uint64_t nth = 1;; nth++) {
            sp_ctx_fail_alloc(cx, nth, false);
            sparta_status status = pack_unpack(cx, texts[i / 2], &t, i % 2 ? &m : NULL, &out);
            sp_ctx_fail_alloc(cx, 0, false);
            assert_int_equal(sp_ctx_memory(cx), before);
            if (status == SPARTA_OK) {
                assert_true(nth > 3);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_true(nth < 200);
        }
    sp_mask_free(cx, &m);
}

static void cancelled(void **state)
{
    (void)state;
    float w[63] = {1, 2}, target[63];
    sparta_tensor t = {SPARTA_F32, 2, {9, 7}, {7, 1}, w, 0}, out = {SPARTA_F32, 2, {9, 7}, {7, 1}, target, 0};
    static const char *const texts[] = {"csr", "dcsr"};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sparta_ctx *other = sparta_ctx_create(NULL);
        sp_format f;
        sp_packed p, done;
        assert_int_equal(sp_format_parse(other, texts[i], &f), SPARTA_OK);
        assert_int_equal(sp_store_pack(other, &f, &t, NULL, &done), SPARTA_OK);
        sparta_ctx_cancel(other);
        assert_int_equal(sp_store_pack(other, &f, &t, NULL, &p), SPARTA_E_CANCELLED);
        assert_int_equal(sp_store_unpack(other, &done, &out), SPARTA_E_CANCELLED);
        sp_packed_free(other, &done);
        assert_int_equal(sp_ctx_memory(other), 0);
        sparta_ctx_free(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_damage), cmocka_unit_test(padding_must_be_zero),
        cmocka_unit_test(random_damage), cmocka_unit_test(out_of_memory), cmocka_unit_test(cancelled)};
    return cmocka_run_group_tests(tests, set_up_strict, tear_down);
}
