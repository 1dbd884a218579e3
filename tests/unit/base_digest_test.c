/* SHA-256 by the CPU's instructions and without them: the same digests. Compiled from the source itself, to reach both. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../src/base/digest.c"

static void instructions_agree_with_plain_code(void **state)
{
    (void)state;
#ifdef __x86_64__
    if (!cpu_has_sha()) skip();
    sp_rng rng = sp_rng_seed(5);
    uint8_t block[8 * 64 + 1];
    for (int round = 0; round < 200; round++) {
        uint32_t fast[8], plain[8];
        const size_t n = round % 9;
        for (size_t i = 0; i < sizeof block; i++) block[i] = (uint8_t)sp_rng_next(&rng);
        for (int i = 0; i < 8; i++) fast[i] = plain[i] = (uint32_t)sp_rng_next(&rng);
        compress_fast(fast, block + round % 2, n);
        for (size_t i = 0; i < n; i++) compress_plain(plain, block + round % 2 + 64 * i);
        assert_memory_equal(fast, plain, sizeof fast);
    }
#else
    skip();
#endif
}

/* FIPS 180-4: "abc" and a million times "a", in pieces of every size. */
static void known_digests(void **state)
{
    (void)state;
    static const uint8_t abc[4] = {0xba, 0x78, 0x16, 0xbf}, million[4] = {0xcd, 0xc7, 0x6e, 0x5c};
    uint8_t digest[32], piece[200];
    sp_sha256 s;
    sp_sha256_of("abc", 3, digest);
    assert_memory_equal(digest, abc, 4);
    memset(piece, 'a', sizeof piece);
    sp_sha256_init(&s);
    for (size_t left = 1000000, n = 0; left; left -= n) {
        n = SP_MIN(left, 1 + left % sizeof piece);
        sp_sha256_add(&s, piece, n);
    }
    sp_sha256_end(&s, digest);
    assert_memory_equal(digest, million, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_agree_with_plain_code),
        cmocka_unit_test(known_digests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
