/* Digests and the generator: a fast hash for keys, SHA-256 (FIPS 180-4), HMAC (RFC 2104), xorshift64*. */
#include "base/base.h"
#include <stdatomic.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

/* ------------------------------------------------------------------ fast hash */

static uint64_t read64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Both halves of the 128-bit product: every bit of a and b reaches every bit of the answer. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t sp_hash(const void *bytes, size_t n, uint64_t seed)
{
    const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xc2b2ae3d27d4eb4fu, k2 = 0x165667b19e3779f9u;
    const uint8_t *p = bytes;
    uint64_t h = fold(seed ^ k0, (uint64_t)n ^ k1);
    size_t left = n;
    for (; left > 16; left -= 16, p += 16)
        h = fold(read64(p) ^ k1 ^ h, read64(p + 8) ^ k2) ^ (h << 1 | h >> 63);
    uint64_t tail[2] = {0, 0};
    if (left) memcpy(tail, p, left);
    h = fold(tail[0] ^ k1 ^ h, tail[1] ^ k2) ^ (h << 1 | h >> 63);
    return fold(h ^ k2, k0 ^ (h >> 32));
}

/* ------------------------------------------------------------------ SHA-256 */

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t read_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void compress_plain(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) w[i] = read_be32(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) { /* the eight move down by one each round; here the names move instead */
        uint32_t a = v[-i & 7], b = v[(1 - i) & 7], c = v[(2 - i) & 7], e = v[(4 - i) & 7],
                 f = v[(5 - i) & 7], g = v[(6 - i) & 7];
        uint32_t t = v[(7 - i) & 7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                     round_constant[i] + w[i];
        v[(3 - i) & 7] += t;
        v[(7 - i) & 7] = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
}

#ifdef __x86_64__
static bool ask_for_sha(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}
/* Asked once: the question is slow in a virtual machine. */
static bool cpu_has_sha(void)
{
    static atomic_int answer; /* 0: not asked yet */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (!known) {
        known = ask_for_sha() ? 1 : -1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known > 0;
}

/* The CPU's own instructions: two rounds each, the state as (a b e f) and (c d g h). A package with tables of a gigabyte is digested in
 * a second instead of ten. */
__attribute__((target("sha,sse4.1"))) static void compress_fast(uint32_t h[8], const uint8_t *block, size_t n)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abef = _mm_set_epi32((int)h[0], (int)h[1], (int)h[4], (int)h[5]);
    __m128i cdgh = _mm_set_epi32((int)h[2], (int)h[3], (int)h[6], (int)h[7]);
    for (; n > 0; n--, block += 64) {
        const __m128i abef0 = abef, cdgh0 = cdgh;
        __m128i w[4];
        for (int i = 0; i < 16; i++) { /* four rounds, with the four words they need */
            if (i < 4) {
                w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)block + i), swap);
            } else {
                const __m128i last = w[(i + 3) & 3];
                __m128i t = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
                t = _mm_add_epi32(t, _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
                w[i & 3] = _mm_sha256msg2_epu32(t, last);
            }
            __m128i k = _mm_add_epi32(
                w[i & 3], _mm_loadu_si128((const __m128i *)(const void *)(round_constant + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef0);
        cdgh = _mm_add_epi32(cdgh, cdgh0);
    }
    h[0] = (uint32_t)_mm_extract_epi32(abef, 3), h[1] = (uint32_t)_mm_extract_epi32(abef, 2);
    h[4] = (uint32_t)_mm_extract_epi32(abef, 1), h[5] = (uint32_t)_mm_extract_epi32(abef, 0);
    h[2] = (uint32_t)_mm_extract_epi32(cdgh, 3), h[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
    h[6] = (uint32_t)_mm_extract_epi32(cdgh, 1), h[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}
#endif

/* n blocks of 64 bytes */
static void compress(uint32_t h[8], const uint8_t *block, size_t n)
{
#ifdef __x86_64__
    if (n && cpu_has_sha()) {
        compress_fast(h, block, n);
        return;
    }
#endif
    for (; n > 0; n--, block += 64) compress_plain(h, block);
}

void sp_sha256_init(sp_sha256 *s)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->h, first, sizeof first);
    s->length = 0;
}

void sp_sha256_add(sp_sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    size_t have = s->length % 64;
    s->length += n;
    if (have) {
        size_t take = SP_MIN(n, 64 - have);
        if (take) memcpy(s->block + have, p, take);
        if (have + take < 64) return;
        compress(s->h, s->block, 1);
        p += take;
        n -= take;
    }
    compress(s->h, p, n / 64);
    if (n % 64) memcpy(s->block, p + n / 64 * 64, n % 64);
}

void sp_sha256_end(sp_sha256 *s, uint8_t out[32])
{
    uint8_t pad[72] = {0x80};
    uint64_t bits = s->length * 8;
    size_t zeros = (s->length % 64 < 56 ? 56 : 120) - s->length % 64;
    for (int i = 0; i < 8; i++) pad[zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sp_sha256_add(s, pad, zeros + 8);
    for (int i = 0; i < 32; i++) out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sp_sha256_of(const void *bytes, size_t n, uint8_t out[32])
{
    sp_sha256 s;
    sp_sha256_init(&s);
    sp_sha256_add(&s, bytes, n);
    sp_sha256_end(&s, out);
}

void sp_hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t n, uint8_t out[32])
{
    uint8_t pad[64] = {0}, inner[32];
    sp_sha256 s;
    if (key_size > 64)
        sp_sha256_of(key, key_size, pad);
    else if (key_size)
        memcpy(pad, key, key_size);
    for (int i = 0; i < 64; i++) pad[i] ^= 0x36;
    sp_sha256_init(&s);
    sp_sha256_add(&s, pad, 64);
    sp_sha256_add(&s, bytes, n);
    sp_sha256_end(&s, inner);
    for (int i = 0; i < 64; i++) pad[i] ^= 0x36 ^ 0x5c;
    sp_sha256_init(&s);
    sp_sha256_add(&s, pad, 64);
    sp_sha256_add(&s, inner, 32);
    sp_sha256_end(&s, out);
}

void sp_hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

/* ------------------------------------------------------------------ generator */

sp_rng sp_rng_seed(uint64_t seed)
{
    /* splitmix64: near seeds give far states; the state 0 would stay 0 */
    uint64_t z = seed + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (sp_rng){z ? z : 1};
}

uint64_t sp_rng_next(sp_rng *r)
{
    uint64_t x = r->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    r->state = x;
    return x * 0x2545f4914f6cdd1du;
}

double sp_rng_uniform(sp_rng *r)
{
    return (double)(sp_rng_next(r) >> 11) * 0x1p-53;
}
