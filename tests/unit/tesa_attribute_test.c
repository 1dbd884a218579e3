/* Attributes: random ones against a plain model, element by element, through arrays, texts and files; canonical; whole or refused. */
#include "tesa_bed.h"
#include "tesa/attribute.h"
#include <stdio.h>
#include <unistd.h>

#define MODEL 512 /* the most elements */

typedef struct model { /* every element by itself; a symbol counts one */
    int rank;
    int64_t dim[4];
    bool symbol[4];
    uint8_t has[MODEL], known[MODEL], precision[MODEL];
    float value[MODEL];
} model;

static char path[256];

static const char *in_tmp(const char *name)
{
    snprintf(path, sizeof path, "/tmp/sp_tesa_%d_%s", (int)getpid(), name);
    return path;
}

/* ------------------------------------------------------------------ models */
static int64_t elements(const model *m)
{
    int64_t n = 1;
    for (int i = 0; i < m->rank; i++) n *= m->dim[i];
    return n;
}

static void index_of(const model *m, int64_t at, int64_t *index)
{
    for (int i = m->rank - 1; i >= 0; i--) {
        index[i] = at % m->dim[i];
        at /= m->dim[i];
    }
}

/* The place of an element when all are alike along the axes that are not in `vary`. */
static int64_t folded(const model *m, int64_t at, unsigned vary)
{
    int64_t index[4], place = 0;
    index_of(m, at, index);
    for (int i = 0; i < m->rank; i++) place = place * m->dim[i] + (vary >> i & 1 ? index[i] : 0);
    return place;
}

static model random_model(sp_rng *r)
{
    static const float numbers[] = {0, -0.0f, 1, -2, 0.5f, INFINITY, NAN};
    static const uint8_t precisions[] = {SP_PRECISION_I8, SP_PRECISION_F16, SP_PRECISION_F32};
    model m = {.rank = (int)(sp_rng_next(r) % 4)};
    unsigned vary[4], fixed = 0;
    for (int i = 0; i < m.rank; i++) {
        m.symbol[i] = sp_rng_next(r) % 4 == 0;
        m.dim[i] = m.symbol[i] ? 1 : 1 + (int64_t)(sp_rng_next(r) % 6);
        fixed |= m.symbol[i] ? 0 : 1u << i;
    }
    for (int k = 0; k < 4; k++) vary[k] = (unsigned)sp_rng_next(r) & fixed;
    for (int64_t i = 0; i < elements(&m); i++) {
        m.has[i] = sp_rng_next(r) % 3 > 0;
        m.known[i] = sp_rng_next(r) % 2 > 0;
        m.value[i] = numbers[sp_rng_next(r) % SP_COUNT(numbers)];
        m.precision[i] = precisions[sp_rng_next(r) % 3];
    }
    model out = m;
    for (int64_t i = 0; i < elements(&m); i++) {
        out.has[i] = m.has[folded(&m, i, vary[0])];
        out.known[i] = m.known[folded(&m, i, vary[1])];
        out.value[i] = m.value[folded(&m, i, vary[2])];
        out.precision[i] = m.precision[folded(&m, i, vary[3])];
    }
    return out;
}

/* Written out in full; the list of precisions has one that nobody uses. */
static sparta_tesa *tesa_of(const model *m)
{
    char dims[64] = "[";
    uint8_t which[MODEL];
    sparta_tesa *t;
    for (int i = 0; i < m->rank; i++)
        sprintf(dims + strlen(dims), m->symbol[i] ? "%sb%d" : "%s%d", i ? "," : "",
                m->symbol[i] ? i : (int)m->dim[i]);
    strcat(dims, "]");
    for (int64_t i = 0; i < elements(m); i++)
        which[i] = m->precision[i] == SP_PRECISION_I8 ? 3 : m->precision[i] == SP_PRECISION_F16 ? 1 : 0;
    ok(sparta_tesa_create(
        cx,
        &(sparta_tesa_facts){.size = sizeof(sparta_tesa_facts),
                             .dims = dims,
                             .has = sparta_tensor_view(SPARTA_BOOL, m->rank, m->dim, (void *)m->has),
                             .known = sparta_tensor_view(SPARTA_BOOL, m->rank, m->dim, (void *)m->known),
                             .values = sparta_tensor_view(SPARTA_F32, m->rank, m->dim, (void *)m->value),
                             .precision = "f32 f16 u4 i8",
                             .which = sparta_tensor_view(SPARTA_U8, m->rank, m->dim, which)},
        &t));
    return t;
}

static const char *text_of(sparta_tesa *t)
{
    const char *text;
    ok(sparta_tesa_print(t, &text));
    return text;
}

/* Every element of an attribute, read from its text, is the model's. */
static void check_elements(const model *m, const char *text)
{
    sp_tesa t;
    sp_arena *arena = sp_arena_create(cx);
    ok(sp_tesa_parse(arena, text, &t));
    for (int64_t i = 0; i < elements(m); i++) {
        int64_t index[4];
        double x = 99;
        const bool zero = !m->has[i] || (m->known[i] && m->value[i] == 0);
        const bool known = zero || (m->known[i] && isfinite(m->value[i]));
        index_of(m, i, index);
        if (sp_tesa_known(&t, index, &x) != known || (known && x != (zero ? 0 : (double)m->value[i])) ||
            sp_tesa_precision(&t, index) != m->precision[i])
            fail_msg("element %d of %s", (int)i, text);
    }
    sp_arena_free(arena);
}

static void random_ones(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(11);
    for (int i = 0; i < 400; i++) {
        const model m = random_model(&r);
        sparta_tesa *t = tesa_of(&m), *again, *facts;
        sparta_tesa_facts f = {.size = sizeof f};
        check_elements(&m, text_of(t));
        ok(sparta_tesa_parse(cx, text_of(t), &again)); /* text and arrays say the same, in the same form */
        assert_string_equal(text_of(again), text_of(t));
        sparta_tesa_get(t, &f);
        ok(sparta_tesa_create(cx, &f, &facts));
        assert_string_equal(text_of(facts), text_of(t));
        for (int k = 0; f.has.data && k < m.rank; k++)
            assert_true(f.has.dim[k] == 1 || f.has.dim[k] == m.dim[k]);
        sparta_tesa_free(facts);
        sparta_tesa_free(again);
        sparta_tesa_free(t);
    }
}

/* ------------------------------------------------------------------ texts */
static void prints(const char *in, const char *out)
{
    sparta_tesa *t;
    if (sparta_tesa_parse(cx, in, &t)) fail_msg("%s: %s", in, sparta_message(cx));
    assert_string_equal(text_of(t), out);
    sparta_tesa_free(t);
}

static void golden(void **state)
{
    (void)state;
    static const char *const same[] = {
        "tesa [768]; has all; precision f32",
        "tesa []; has none; precision i64",
        "tesa []; has all; constant i64 mask 1x1 hex 1 values -7; precision i64",
        "tesa [batch,128,768]; has all; precision i8",
        "tesa [batch*sequence,4]; has along 1 mask 1x4 hex 6; precision any",
        "tesa [2,8]; has along 0 1 mask 2x8 hex 0f 80; precision along 0 i8 f16",
        "tesa [b,4]; has all; constant f32 along 1 mask 1x4 hex a values 0.5 -2; precision f32",
        "tesa [4]; has all; constant u64 mask 1x1 hex 1 values 18446744073709551615; precision u64",
        "tesa [0,5]; has all; precision f32",
        "tesa [3,4]; has none; precision i4"};
    for (size_t i = 0; i < SP_COUNT(same); i++) prints(same[i], same[i]);
    prints("tesa [ 2 , 2 ];has along 0 1 mask 2x2 rle 0 4;precision along 0 1 i8 i8 i8 i8",
           "tesa [2,2]; has all; precision i8");
    prints("tesa [2,2]; has along 0 mask 2x1 rle 0 1 1; constant f32 along 0 1 mask 2x2 hex 3 3 values 1 1 0 "
           "3; precision f32",
           "tesa [2,2]; has along 0 mask 2x1 hex 1 0; constant f32 along 0 mask 2x1 hex 1 0 values 1; "
           "precision f32");
    prints("tesa [1,2]; has all; constant f32 along 1 mask 1x2 hex 3 values 0 3; precision f32",
           "tesa [1,2]; has along 1 mask 1x2 hex 2; constant f32 along 1 mask 1x2 hex 2 values 3; precision "
           "f32");
    prints("tesa [0,5]; has along 0 1 mask 0x5 rle; precision f32", "tesa [0,5]; has all; precision f32");
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "tesa", "tesa [2", "tesa [2]", "tesa [2]; has", "tesa [2]; has all",
        "tesa [2]; has all; precision", "tesa [2]; has all; precision f33",
        "tesa [2]; has all; precision f32 f32", "tesa [2]; has all; precision f32;",
        "tesa [-1]; has all; precision f32", "tesa [1,2,3,4,5,6,7,8,9]; has all; precision f32",
        "tesa [99999999999999999999]; has all; precision f32",
        "tesa [n]; has along 0 mask 1x2 rle 1 1; precision f32", /* along a symbol */
        "tesa [2]; has along 1 mask 1x2 rle 1 1; precision f32",
        "tesa [2,2]; has along 1 0 mask 2x2 rle 1 3; precision f32",
        "tesa [2]; has along mask 1x2 rle 1 1; precision f32",
        "tesa [2]; has along 0 mask 1x3 rle 1 2; precision f32",
        "tesa [2]; has along 0 mask 2x1 rle 1 1; precision f32",
        "tesa [2]; has along 0 mask 1x2 rle 1; precision f32", "tesa [2]; has all; constant; precision f32",
        "tesa [2]; has all; constant f99 mask 1x1 rle 0 1 values 1; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1 values; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1 values 1 2; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1 values nan; precision f32",
        "tesa [2]; has all; constant f16 mask 1x1 rle 0 1 values 1e9; precision f32",
        "tesa [2]; has all; constant u8 mask 1x1 rle 0 1 values 300; precision f32",
        "tesa [2]; has all; constant u8 mask 1x1 rle 0 1 values -1; precision f32",
        "tesa [2]; has all; constant u64 mask 1x1 rle 0 1 values 18446744073709551616; precision f32",
        "tesa [2]; has all; constant i8 mask 1x1 rle 0 1 values 1.5; precision f32",
        "tesa [2]; has all; constant f32 along 0 mask 1x1 rle 0 1 values 1; precision f32",
        "tesa [2]; has all; precision along 0 f32", "tesa [2]; has all; precision along 0 f32 f32 f32",
        "tesa [n]; has all; precision along 0 f32 f32",
        "tesa [9223372036854775807,9223372036854775807]; has all; precision along 0 1 f32",
        "tesa [4611686018427387904,4]; has along 0 1 mask 4611686018427387904x4 rle 1; precision f32",
        /* both are small, and together more than there is memory */
        "tesa [4000000,4000000]; has along 0 mask 4000000x1 rle 1 3999999; "
        "constant f32 along 1 mask 1x4000000 rle 3999999 1 values 1; precision f32"};
    sparta_tesa *t = NULL;
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        const sparta_status status = sparta_tesa_parse(cx, bad[i], &t);
        if (!status) fail_msg("taken: %s", bad[i]);
        if (status == SPARTA_E_INTERNAL || !*sparta_message(cx))
            fail_msg("%s: %s", bad[i], sparta_message(cx));
        assert_null(t);
    }
}

static const char *const long_text =
    "tesa [b,2,4]; has along 1 2 mask 1x8 rle 1 6 1; constant f32 along 2 mask 1x4 rle 1 1 1 1 "
    "values 0.5 -2; precision along 1 2 i8 f16 i8 f32 i8 i8 f16 any";

/* Every prefix and every changed character is taken whole or refused. */
static void mangled(void **state)
{
    (void)state;
    char changed[256];
    sparta_tesa *t;
    const size_t n = strlen(long_text);
    int taken = 0;
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 96; c++) {
            memcpy(changed, long_text, n + 1);
            changed[i] = (char)(c ? 31 + c : 0);
            if (sparta_tesa_parse(cx, changed, &t)) continue;
            prints(text_of(t), text_of(t));
            sparta_tesa_free(t);
            taken++;
        }
    assert_true(taken > 10);
}

/* ------------------------------------------------------------------ files */
static void files(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(12);
    static const char *const names[] = {"layer.0/weight", "b", "has", "", "b/tesa"};
    static const char *const kinds[] = {"a.npz", "a.safetensors"};
    for (int i = 0; i < 40; i++) {
        sparta_tesa *t[5], *again;
        const char *file = in_tmp(kinds[i % 2]);
        for (int k = 0; k < 5; k++) {
            const model m = random_model(&r);
            t[k] = tesa_of(&m);
        }
        ok(sparta_tesa_save(cx, file, 5, names, (const sparta_tesa *const *)t));
        for (int k = 0; k < 5; k++) {
            ok(sparta_tesa_open(cx, file, names[k], &again));
            assert_string_equal(text_of(again), text_of(t[k]));
            sparta_tesa_free(again);
            sparta_tesa_free(t[k]);
        }
        assert_int_equal(sparta_tesa_open(cx, file, NULL, &again), SPARTA_E_USAGE); /* which? */
        assert_int_equal(sparta_tesa_open(cx, file, "c", &again), SPARTA_E_USAGE);
        unlink(file);
    }
    sparta_tesa *one;
    ok(sparta_tesa_parse(cx, long_text, &one));
    assert_int_equal(sparta_tesa_save(cx, in_tmp("a.npz"), 2, (const char *[]){"a", "a"},
                                      (const sparta_tesa *[]){one, one}),
                     SPARTA_E_USAGE);
    sparta_tesa_free(one);
}

/* Arrays that do not fit are refused, and the message names the file. */
static void hostile_files(void **state)
{
    (void)state;
    char text[] = "[2,9] f32 i8";
    uint8_t has[18] = {1, 0, 1}, known[9] = {1, 1}, which[2] = {0, 1};
    float values[9] = {1, 2};
    const int64_t size = (int64_t)strlen(text);
    const char *const names[] = {"w/tesa", "w/has", "w/known", "w/values", "w/precision"};
    const sparta_tensor good[5] = {sparta_tensor_view(SPARTA_U8, 1, &size, text),
                                   sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){2, 9}, has),
                                   sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){1, 9}, known),
                                   sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){1, 9}, values),
                                   sparta_tensor_view(SPARTA_U8, 2, (int64_t[]){2, 1}, which)};
    const char *file = in_tmp("h.npz");
    sparta_tesa *t;
    ok(sp_npz_write(cx, file, 5, names, good));
    ok(sparta_tesa_open(cx, file, NULL, &t));
    assert_string_equal(
        text_of(t),
        "tesa [2,9]; has along 0 1 mask 2x9 hex 500 000; constant f32 along 0 1 mask 2x9 rle 0 1 17 "
        "values 1; precision along 0 f32 i8");
    sparta_tesa_free(t);
    for (int i = 0; i < 5; i++)
        for (int how = 0; how < 3; how++) { /* another type; other dims; another rank */
            sparta_tensor bad[5];
            memcpy(bad, good, sizeof bad);
            if (how == 0 && i == 3) continue; /* values have any type */
            if (how == 1 && i == 4) bad[4] = sparta_tensor_view(SPARTA_U8, 2, (int64_t[]){3, 1}, has);
            if (how == 0) bad[i].dtype = SPARTA_I8;
            if (how == 1)
                bad[i].dim[i == 4 ? 0 : bad[i].rank - 1] =
                    i == 0 ? 4 : 3; /* "[2,9", or no dim of the value */
            if (how == 2) bad[i] = sparta_tensor_view(bad[i].dtype, 3, (int64_t[]){1, 1, 1}, bad[i].data);
            ok(sp_npz_write(cx, file, 5, names, bad));
            if (!sparta_tesa_open(cx, file, NULL, &t)) fail_msg("array %d, change %d: taken", i, how);
            assert_non_null(strstr(sparta_message(cx), "h.npz"));
        }
    which[1] = 2; /* not in the list */
    ok(sp_npz_write(cx, file, 5, names, good));
    assert_int_equal(sparta_tesa_open(cx, file, NULL, &t), SPARTA_E_RANGE);
    unlink(file);
}

/* Attributes and plain arrays side by side, as masks. */
static void masks(void **state)
{
    (void)state;
    const char *file = in_tmp("k.npz");
    uint8_t has[3] = {1, 0, 1};
    float plain[4] = {0, 2, 0, 1};
    char text[] = "[2,3] f32";
    const char *const names[] = {"w/has", "v", "w/tesa"};
    sp_tesas f;
    sparta_tensor mask;
    ok(sp_npz_write(cx, file, 3, names,
                    (sparta_tensor[]){sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){1, 3}, has),
                                      sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 2}, plain),
                                      sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){9}, text)}));
    ok(sp_tesas_open(cx, file, &f));
    assert_int_equal(f.n, 2);
    for (int i = 0; i < 2; i++) {
        ok(sp_tesas_mask(&f, i, &mask));
        if (f.entry[i].array) {
            assert_string_equal(f.entry[i].name, "v");
            assert_true(mask.data == f.entry[i].array->data);
            continue;
        }
        assert_string_equal(f.entry[i].name, "w");
        assert_true(mask.rank == 2 && mask.dim[0] == 2 && mask.dim[1] == 3);
        assert_memory_equal(mask.data, ((uint8_t[]){1, 0, 1, 1, 0, 1}), 6);
    }
    sp_tesas_close(&f);
    unlink(file);
}

/* ------------------------------------------------------------------ facts that are refused, and memory */
static void facts_refused(void **state)
{
    (void)state;
    uint8_t bits[4] = {1, 0, 1, 1};
    float x[4] = {1};
    const sparta_tensor row = sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){1, 4}, bits);
    const sparta_tensor number = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){1, 4}, x);
    const sparta_tensor unknown = sparta_tensor_view(SPARTA_BOOL, 2, (int64_t[]){1, -1}, bits);
    const size_t size = sizeof(sparta_tesa_facts);
    const sparta_tesa_facts bad[] = {{.dims = "[2,4]"}, /* no size */
                                     {.size = size},
                                     {.size = size, .dims = "[2"},
                                     {.size = size, .dims = "[2,4]", .has = number},
                                     {.size = size, .dims = "[2,n]", .has = row},
                                     {.size = size, .dims = "[2,n]", .has = unknown},
                                     {.size = size, .dims = "[4]", .has = row},
                                     {.size = size, .dims = "[2,4]", .known = row},
                                     {.size = size, .dims = "[2,4]", .known = number, .values = number},
                                     {.size = size, .dims = "[2,4]", .precision = "f31"},
                                     {.size = size, .dims = "[2,4]", .precision = ""},
                                     {.size = size, .dims = "[2,4]", .precision = "f32", .which = row}};
    sparta_tesa *t = NULL;
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        if (!sparta_tesa_create(cx, &bad[i], &t)) fail_msg("facts %d are taken", (int)i);
        assert_null(t);
    }
    ok(sparta_tesa_create(cx, &(sparta_tesa_facts){.size = size, .dims = "[2,4]", .has = row}, &t));
    sparta_tesa_facts some = {.size = offsetof(sparta_tesa_facts, values), .precision = "as it was"};
    sparta_tesa_get(t, &some); /* a caller of an older version */
    assert_true(some.size == offsetof(sparta_tesa_facts, values) && some.has.dim[1] == 4);
    assert_string_equal(some.precision, "as it was");
    sparta_tesa_free(t);
    sparta_tesa_free(NULL);
}

static void memory(void **state)
{
    (void)state;
    const char *file = in_tmp("m.npz"), *name = "w";
    sparta_tesa *t, *again;
    ok(sparta_tesa_parse(cx, long_text, &t));
    ok(sparta_tesa_save(cx, file, 1, &name, (const sparta_tesa *const *)&t));
    for (int what = 0; what < 3; what++)
        for (uint64_t fail = 1;; fail++) {
            const size_t before = sp_ctx_memory(cx);
            again = NULL;
            sp_ctx_fail_alloc(cx, fail, false);
            const sparta_status status =
                what == 0   ? sparta_tesa_parse(cx, long_text, &again)
                : what == 1 ? sparta_tesa_save(cx, file, 1, &name, (const sparta_tesa *const *)&t)
                            : sparta_tesa_open(cx, file, NULL, &again);
            sp_ctx_fail_alloc(cx, 0, false);
            sparta_tesa_free(again);
            assert_int_equal(sp_ctx_memory(cx), before);
            if (!status) break;
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_true(fail < 1000);
        }
    sparta_tesa_free(t);
    unlink(file);
}

/* ------------------------------------------------------------------ precisions */
static void precisions(void **state)
{
    (void)state;
    for (int a = 0; a < SP_PRECISIONS; a++)
        for (int b = 0; b < SP_PRECISIONS; b++) {
            const sp_precision join = sp_precision_join((sp_precision)a, (sp_precision)b);
            assert_true(sp_precision_holds(join, (sp_precision)a) &&
                        sp_precision_holds(join, (sp_precision)b));
            assert_int_equal(join, sp_precision_join((sp_precision)b, (sp_precision)a));
            for (int p = 0; p < (int)join; p++)
                assert_false(sp_precision_holds((sp_precision)p, (sp_precision)a) &&
                             sp_precision_holds((sp_precision)p, (sp_precision)b));
        }
    assert_int_equal(sp_precision_join(SP_PRECISION_I8, SP_PRECISION_U8), SP_PRECISION_I16);
    assert_int_equal(sp_precision_join(SP_PRECISION_F16, SP_PRECISION_BF16), SP_PRECISION_F32);
    assert_int_equal(sp_precision_of(SPARTA_F32), SP_PRECISION_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_ones), cmocka_unit_test(golden),
                                       cmocka_unit_test(refused),     cmocka_unit_test(mangled),
                                       cmocka_unit_test(files),       cmocka_unit_test(hostile_files),
                                       cmocka_unit_test(masks),       cmocka_unit_test(facts_refused),
                                       cmocka_unit_test(memory),      cmocka_unit_test(precisions)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
