/* Attributes as text and as files: canonical, whole or refused, whatever the bytes are. */
#include "tesa_attribute_bed.h"
#include "file/file.h"
#include <stdio.h>
#include <unistd.h>

static char path[256];

static const char *in_tmp(const char *name)
{
    snprintf(path, sizeof path, "/tmp/sp_tesa_%d_%s", (int)getpid(), name);
    return path;
}

static void check_text(const sp_tesa *t)
{
    sp_text first, second;
    sp_tesa again;
    sp_text_init(&first, cx);
    sp_text_init(&second, cx);
    sp_tesa_print(t, &first);
    OK(first.status);
    OK(sp_tesa_parse(cx, sp_text_str(&first), &again));
    assert_true(sp_tesa_equal(t, &again) && sp_tesa_digest(t) == sp_tesa_digest(&again));
    sp_tesa_print(&again, &second);
    assert_string_equal(sp_text_str(&first), sp_text_str(&second));
    sp_tesa_free(cx, &again);
    sp_text_free(&first);
    sp_text_free(&second);
}

static void random_ones(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(11);
    static model m;
    for (int i = 0; i < 300; i++) {
        random_shape(&r, &m, true);
        random_facts(&r, &m, 7);
        sp_tesa t = tesa_of(&m);
        check_text(&t);
        if (i % 3 == 0) {
            OK(sp_tesa_set_bound(cx, &t, i % 2 && m.rank > 1 ? SP_HAS_BLOCKS : SP_HAS_OF_ROW, i,
                                 (int64_t[]){1 + i, 64}));
            check_text(&t);
        }
        sp_tesa_free(cx, &t);
    }
}

/* What is printed for what is said. */
static void says(const char *in, const char *out)
{
    sp_tesa t;
    sp_text text;
    if (sp_tesa_parse(cx, in, &t)) fail_msg("%s: %s", in, sparta_message(cx));
    sp_text_init(&text, cx);
    sp_tesa_print(&t, &text);
    assert_string_equal(sp_text_str(&text), out);
    sp_text_free(&text);
    check_text(&t);
    sp_tesa_free(cx, &t);
}

static void golden(void **state)
{
    (void)state;
    static const char *const same[] = {
        "tesa [768]; has all; precision f32",
        "tesa [batch:1..64, 128, 768]; has all; precision i8",
        "tesa [n:0..9223372036854775807, 4]; has along 1 mask 1x4 hex 6; precision any",
        "tesa [2, 8]; has along 0 1 mask 2x8 hex 0f 80; precision per [1, 0] i8 f16",
        "tesa [b:1..8, 4]; has all; constant f32 along 1 mask 1x4 hex a values 0.5 -2; precision f32",
        "tesa [4]; has all; constant f32 mask 1x1 hex 1 values #7fc00001; precision f32",
        "tesa [4]; has all; constant u64 mask 1x1 hex 1 values #ffffffffffffffff; precision u64",
        "tesa [3, 4]; has at most 2 of each row; precision f32",
        "tesa [128, 128]; has at most 1 blocks of 64x64 in each row; precision bf16",
        "tesa [3, 4]; has unknown; constant i64 mask 1x1 hex 1 values -7; precision i64",
        "tesa [0, 5]; has all; precision f32",
        "tesa [3, 4]; has none; precision i4"};
    for (size_t i = 0; i < SP_COUNT(same); i++) says(same[i], same[i]);
    says("tesa [2,2];has along 0 1 mask 2x2 rle 0 4;precision per [1,1] i8 i8 i8 i8",
         "tesa [2, 2]; has all; precision i8");
    says("tesa [2,2]; has along 0 mask 2x1 rle 0 1 1; constant f32 along 0 1 mask 2x2 hex 3 3 values 1 1 0 "
         "3; precision f32",
         "tesa [2, 2]; has along 0 mask 2x1 hex 1 0; constant f32 along 0 mask 2x1 hex 1 0 values 1; "
         "precision f32");
    says("tesa [1, 2]; has all; constant f32 along 1 mask 1x2 hex 3 values 0 3; precision f32",
         "tesa [1, 2]; has along 1 mask 1x2 hex 2; constant f32 along 1 mask 1x2 hex 2 values 3; precision "
         "f32");
    says("tesa [n:4..4]; has all; precision f32", "tesa [4]; has all; precision f32");
    says("tesa [0, 5]; has along 0 1 mask 0x5 rle; precision f32", "tesa [0, 5]; has all; precision f32");
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "tesa",
        "tesa []",
        "tesa [2",
        "tesa [2]",
        "tesa [2]; has",
        "tesa [2]; has all",
        "tesa [2]; has all; precision",
        "tesa [2]; has all; precision f33",
        "tesa [2]; has all; precision f32 f32",
        "tesa [2]; has all; precision f32;",
        "tesa [-1]; has all; precision f32",
        "tesa [1,2,3,4,5,6,7]; has all; precision f32",
        "tesa [99999999999999999999]; has all; precision f32",
        "tesa [n]; has all; precision f32",
        "tesa [n:2..1]; has all; precision f32",
        "tesa [n:1]; has all; precision f32",
        "tesa [abcdefghijklmnopqrstuvwxyzabcdefgh:1..2]; has all; precision f32",
        "tesa [n:1..2]; has along 0 mask 1x2 rle 1 1; precision f32", /* along a symbol */
        "tesa [2]; has along 1 mask 1x2 rle 1 1; precision f32",
        "tesa [2,2]; has along 1 0 mask 2x2 rle 1 3; precision f32",
        "tesa [2]; has along mask 1x2 rle 1 1; precision f32",
        "tesa [2]; has along 0 mask 1x3 rle 1 2; precision f32",
        "tesa [2]; has along 0 mask 2x1 rle 1 1; precision f32",
        "tesa [2]; has along 0 mask 1x2 rle 1; precision f32",
        "tesa [2]; has along 0 array; precision f32",
        "tesa [2]; has at most of each row; precision f32",
        "tesa [2]; has at most 2 blocks of 4x4 in each row; precision f32",
        "tesa [2,2]; has at most 2 blocks of 0x4 in each row; precision f32",
        "tesa [2]; has at most 2 of each; precision f32",
        "tesa [2]; has all; constant; precision f32",
        "tesa [2]; has all; constant f99 mask 1x1 rle 0 1 values 1; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1 values; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1 values 1 2; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1 values nan; precision f32",
        "tesa [2]; has all; constant f16 mask 1x1 rle 0 1 values 1e9; precision f32",
        "tesa [2]; has all; constant u8 mask 1x1 rle 0 1 values 300; precision f32",
        "tesa [2]; has all; constant u8 mask 1x1 rle 0 1 values -1; precision f32",
        "tesa [2]; has all; constant i8 mask 1x1 rle 0 1 values 1.5; precision f32",
        "tesa [2]; has all; constant f32 mask 1x1 rle 0 1 values #7fc; precision f32",
        "tesa [2]; has all; constant f32 along 0 mask 1x1 rle 0 1 values 1; precision f32",
        "tesa [2]; has all; precision per [1] f32",
        "tesa [2]; has all; precision per [1] f32 f32 f32",
        "tesa [2]; has all; precision per [1, 1] f32 f32",
        "tesa [n:1..2]; has all; precision per [1] f32 f32",
        "tesa [9223372036854775807, 9223372036854775807]; has all; precision per [1, 1] f32",
        "tesa [4611686018427387904, 4]; has along 0 1 mask 4611686018427387904x4 rle 1; precision f32"};
    sp_tesa t = {.rank = 77};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        sparta_status status = sp_tesa_parse(cx, bad[i], &t);
        if (!status) fail_msg("taken: %s", bad[i]);
        if (status != SPARTA_E_FORMAT && status != SPARTA_E_SHAPE && status != SPARTA_E_MEMORY)
            fail_msg("%s: %s", bad[i], sparta_message(cx));
        assert_int_equal(t.rank, 77);
    }
}

/* Every prefix and every changed character is taken whole or refused. */
static void mangled(void **state)
{
    (void)state;
    const char *text =
        "tesa [b:1..8, 2, 4]; has along 1 2 mask 1x8 rle 1 6 1; constant f32 along 2 mask 1x4 rle 1 1 1 1 "
        "values 0.5 -2; precision per [0, 1, 2] i8 f16 i8 f32";
    char changed[256];
    sp_tesa t;
    size_t n = strlen(text);
    int taken = 0;
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 96; c++) {
            memcpy(changed, text, n + 1);
            changed[i] = (char)(c ? 31 + c : 0);
            if (sp_tesa_parse(cx, changed, &t)) continue;
            check_text(&t);
            sp_tesa_free(cx, &t);
            taken++;
        }
    assert_true(taken > 10);
}

static void files(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(12);
    static model m;
    static const char *const names[] = {"layer.0/weight", "b", "has", "", "b/tesa"}, *const kinds[] = {
                                                                                         "a.npz",
                                                                                         "a.safetensors"};
    for (int i = 0; i < 40; i++) {
        sp_tesa t[5];
        sp_tesa_file f;
        const char *file = in_tmp(kinds[i % 2]);
        for (int k = 0; k < 5; k++) {
            random_shape(&r, &m, true);
            random_facts(&r, &m, 7);
            t[k] = tesa_of(&m);
        }
        OK(sp_tesa_set_bound(cx, &t[2], SP_HAS_OF_ROW, 5, NULL));
        OK(sp_tesa_write(cx, file, 5, names, t));
        OK(sp_tesa_read(cx, file, &f));
        assert_int_equal(f.n, 5);
        for (int k = 0; k < 5; k++) {
            int found = -1;
            for (int j = 0; j < f.n; j++)
                if (!strcmp(f.name[j], names[k])) found = j;
            assert_true(found >= 0 && sp_tesa_equal(&f.tesa[found], &t[k]));
            sp_tesa_free(cx, &t[k]);
        }
        sp_tesa_file_free(cx, &f);
        unlink(file);
    }
}

/* Arrays that do not fit the text are refused, and the message names the file. */
static void hostile_files(void **state)
{
    (void)state;
    static const char text[] =
        "tesa [2, 9]; has along 0 1 array; constant f32 along 1 array; precision per [1, 0] array f32 i8";
    uint8_t bits[4] = {0xff, 1, 0x0f, 0}, where[2] = {3, 0}, map[2] = {0, 1};
    float values[2] = {1, 2};
    const int64_t size = (int64_t)strlen(text), two = 2;
    const char *const names[] = {"w/tesa", "w/has", "w/constants", "w/values", "w/precision"};
    sparta_tensor good[5] = {sparta_tensor_view(SPARTA_U8, 1, &size, (void *)text),
                             sparta_tensor_view(SPARTA_U8, 2, (int64_t[]){2, 2}, bits),
                             sparta_tensor_view(SPARTA_U8, 2, (int64_t[]){1, 2}, where),
                             sparta_tensor_view(SPARTA_F32, 1, &two, values),
                             sparta_tensor_view(SPARTA_U8, 2, (int64_t[]){2, 1}, map)};
    const char *file = in_tmp("h.npz");
    sp_tesa_file f;
    OK(sp_npz_write(cx, file, 5, names, good));
    OK(sp_tesa_read(cx, file, &f));
    assert_true(f.n == 1 && f.tesa[0].constants == 2 && !strcmp(f.name[0], "w"));
    sp_tesa_file_free(cx, &f);
    for (int i = 0; i < 5; i++) { /* one is missing: another array stands in its place */
        const char *other[5];
        memcpy(other, names, sizeof other);
        other[i] = "w/else";
        OK(sp_npz_write(cx, file, 5, other, good));
        assert_int_equal(sp_tesa_read(cx, file, &f), SPARTA_E_FORMAT);
        assert_non_null(strstr(sparta_message(cx), "h.npz"));
    }
    for (int i = 0; i < 5; i++)
        for (int how = 0; how < 2; how++) { /* another type; fewer elements */
            sparta_tensor bad[5];
            memcpy(bad, good, sizeof bad);
            if (how)
                bad[i].dim[0]--;
            else
                bad[i].dtype = i == 3 ? SPARTA_I32 : SPARTA_I8;
            OK(sp_npz_write(cx, file, 5, names, bad));
            assert_int_equal(sp_tesa_read(cx, file, &f), SPARTA_E_FORMAT);
        }
    bits[3] = 2; /* a bit beyond the columns */
    OK(sp_npz_write(cx, file, 5, names, good));
    assert_int_equal(sp_tesa_read(cx, file, &f), SPARTA_E_FORMAT);
    bits[3] = 0, map[1] = 2; /* not in the list */
    OK(sp_npz_write(cx, file, 5, names, good));
    assert_int_equal(sp_tesa_read(cx, file, &f), SPARTA_E_FORMAT);
    unlink(file);
    sp_tesa t;
    OK(sp_tesa_parse(cx, "tesa [2]; has all; precision f32", &t));
    assert_int_equal(sp_tesa_write(cx, file, 2, (const char *[]){"a", "a"}, (sp_tesa[]){t, t}),
                     SPARTA_E_USAGE);
    sp_tesa_free(cx, &t);
}

static void memory(void **state)
{
    (void)state;
    const char *text =
        "tesa [b:1..8, 2, 4]; has along 1 2 mask 1x8 rle 1 6 1; constant f32 along 2 mask 1x4 rle 1 1 1 1 "
        "values 0.5 -2; precision per [0, 1, 2] i8 f16 i8 f32";
    const char *file = in_tmp("m.npz"), *name = "w";
    sp_tesa t, again;
    sp_tesa_file f;
    OK(sp_tesa_parse(cx, text, &t));
    OK(sp_tesa_write(cx, file, 1, &name, &t));
    for (int what = 0; what < 3; what++)
        for (uint64_t fail = 1;; fail++) {
            size_t before = sp_ctx_memory(cx);
            sp_ctx_fail_alloc(cx, fail, false);
            sparta_status status = what == 0   ? sp_tesa_parse(cx, text, &again)
                                   : what == 1 ? sp_tesa_write(cx, file, 1, &name, &t)
                                               : sp_tesa_read(cx, file, &f);
            sp_ctx_fail_alloc(cx, 0, false);
            if (!status && what == 0) sp_tesa_free(cx, &again);
            if (!status && what == 2) sp_tesa_file_free(cx, &f);
            if (!status) break;
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_int_equal(sp_ctx_memory(cx), before);
            assert_true(fail < 1000);
        }
    sp_tesa_free(cx, &t);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_ones), cmocka_unit_test(golden),
                                       cmocka_unit_test(refused),     cmocka_unit_test(mangled),
                                       cmocka_unit_test(files),       cmocka_unit_test(hostile_files),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
