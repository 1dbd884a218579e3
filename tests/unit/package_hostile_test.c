/* Packages that are damaged or made by an enemy: refused, or valid; never a crash. */
#include "models.h"
#include "package_damage.h"
#include "today.h"
#include <fcntl.h>

static uint8_t *image; /* a small valid package without machine code, for changing and signing again */
static size_t image_size;
static disk_header header;
static const char *const model =
    "graph \"small\"\ninput x: f32[batch,12]\n"
    "const a: f32[12,20] @\"a|4x1:0.7\"\nconst bias: f32[20] @\"bias\"\nconst b: f32[20,9] @\"b\"\n"
    "const g: f32[20] @\"g\"\nconst c: f32[9,14] @\"c\"\nconst d: f32[14,9] @\"d\"\n"
    "node h: ? = MatMul(x, a) \"h\"\nnode i: ? = Add(h, bias) \"i\"\nnode j: ? = Relu(i) \"j\"\n"
    "node n: ? = LayerNormalization(j, g) \"n\"\n"
    "node y: ? = MatMul(n, b) \"y\"\nnode u: ? = MatMul(y, c) \"u\"\nnode v: ? = MatMul(u, d) \"v\"\n"
    "node z: ? = Softmax(v) \"z\"\noutput z\n";
/* One weight in levels that the walker runs, one as a sum with an opaque part. */
static const char *const schedule =
    "tensor \"c\" { sparsify magnitude(1x1, 0.6)\nformat (n,k)->(n:compressed, k/4:compressed, k%4:bitmap) "
    "}\n"
    "tensor \"d\" { sparsify magnitude(1x1, 0.4)\nformat sum{blockdensity>=0.75 -> bsr(2); rest -> "
    "sum{first(2) -> quads(8); rest -> coo}} }\n";

static sparta_package *scheduled(sp_compile_request request)
{
    sparta_schedule *s;
    sp_obeyed o;
    sp_graph *g = graph(model);
    ok(sparta_schedule_parse(cx, schedule, "s", root, &s));
    ok(sp_compile_schedule(cx, g, s, &o));
    request.obeyed = &o;
    sparta_package *p = compile_in(cx, g, request);
    sparta_schedule_free(s);
    return p;
}

static int make_image(void **state)
{
    if (enter(state)) return -1;
    char *bytes;
    sp_compile_request request = quick();
    sparta_package *p = scheduled(request); /* this one with machine code */
    ok(sparta_package_save(cx, p, in_root("native.sparta")));
    sparta_package_close(p);
    request.options.target = "portable";
    p = scheduled(request);
    ok(sparta_package_save(cx, p, in_root("good.sparta")));
    sparta_package_close(p);
    ok(sp_file_read(cx, in_root("good.sparta"), 1 << 24, &bytes, &image_size));
    image = (uint8_t *)bytes;
    memcpy(&header, image, sizeof header);
    return 0;
}

static int drop_image(void **state)
{
    sp_free(cx, image);
    const size_t kept = sp_ctx_memory(cx); /* sums that were read belong to the context */
    sparta_ctx_free(cx);
    cx = context(cache, NULL);
    if (kept > 1 << 20) fprintf(stderr, "%zu bytes were kept\n", kept);
    return leave(state) || kept > 1 << 20;
}

static uint8_t *copied(void)
{
    uint8_t *c = sp_alloc(cx, image_size);
    assert_non_null(c);
    return memcpy(c, image, image_size);
}

static void put(const char *path, const void *bytes, size_t n) /* not synced, for speed */
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static sparta_status open_bytes(const void *bytes, size_t n, sparta_package **out)
{
    const char *path = in_root("hostile.sparta");
    unlink(path); /* an open mapping keeps its old file */
    put(path, bytes, n);
    return sparta_package_open(cx, path, out);
}

static void refused(const void *bytes, size_t n, const char *what, long where)
{
    sparta_package *p = NULL;
    const sparta_status s = open_bytes(bytes, n, &p);
    if (s != SPARTA_E_FORMAT) fail_msg("%s at %ld: %s", what, where, sparta_status_name(s));
    assert_null(p);
    assert_true(*sparta_message(cx));
}

/* ------------------------------------------------------------------ damage that digests find */

static void truncated(void **state)
{
    (void)state;
    for (size_t n = 0; n < image_size; n += 97) refused(image, n, "cut", (long)n);
    for (int i = 0; i < DISK_SECTIONS; i++)
        for (int d = -1; d <= 1; d++) {
            const uint64_t from = header.section[i].offset + (uint64_t)d,
                           to = header.section[i].offset + header.section[i].size + (uint64_t)d;
            if (from < image_size) refused(image, from, "cut before section", i);
            if (to < image_size) refused(image, to, "cut after section", i);
        }
}

/* One bit of the package with machine code, in the file itself; it is right again afterwards. */
static void flip(int fd, uint64_t at, unsigned bit)
{
    uint8_t was, bad;
    sparta_package *p = NULL;
    assert_int_equal(pread(fd, &was, 1, (off_t)at), 1);
    bad = (uint8_t)(was ^ 1u << bit);
    assert_int_equal(pwrite(fd, &bad, 1, (off_t)at), 1);
    fails(SPARTA_E_FORMAT, sparta_package_open(cx, in_root("native.sparta"), &p));
    assert_null(p);
    assert_int_equal(pwrite(fd, &was, 1, (off_t)at), 1);
}

static void flipped(void **state)
{
    (void)state;
    static const int sections[] = {DISK_PLAN, DISK_TABLES, DISK_CODE, DISK_SOURCE};
    sp_rng rng = sp_rng_seed(5);
    sparta_package *p;
    disk_header h;
    const int fd = open(in_root("native.sparta"), O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &h, sizeof h, 0), sizeof h);
    for (unsigned i = 0; i < HEADER_BYTES; i++) flip(fd, i, i % 8);
    for (int i = 0; i < 500; i++) {
        const disk_section *s = &h.section[sections[i % 4]];
        if (!s->size) continue;
        flip(fd, s->offset + sp_rng_next(&rng) % s->size, sp_rng_next(&rng) % 8);
        says("digest");
    }
    close(fd);
    ok(sparta_package_open(cx, in_root("native.sparta"), &p)); /* it is as it was */
    sparta_package_close(p);
}

/* Weights are not read on opening; the check finds the one that differs and names it. */
static void flipped_weights(void **state)
{
    (void)state;
    sparta_package *good = NULL, *p = NULL;
    ok(open_bytes(image, image_size, &good));
    ok(sparta_package_check(cx, good));
    uint8_t *bad = copied();
    for (int i = 0; i < good->n_digests; i++) {
        const sp_array_digest *d = &good->digest[i];
        if (!d->size || d->section) continue;
        const size_t at = (size_t)(d->bytes - good->file.data) + d->size / 2;
        char name[64];
        bad[at] ^= 4;
        snprintf(name, sizeof name, "weight '%s'", d->name);
        ok(open_bytes(bad, image_size, &p));
        fails(SPARTA_E_FORMAT, sparta_package_check(cx, p));
        sparta_package_close(p);
        says(name);
        bad[at] = image[at];
    }
    sp_free(cx, bad);
    sparta_package_close(good);
}

/* Every byte is opened or checked by one of the two: what no digest covers is padding, and 0. Of the text, most of the file, a share a day. */
static void every_byte(void **state)
{
    (void)state;
    int padding = 0;
    uint8_t *bad = copied();
    for (size_t i = 0; i < image_size; i++) {
        sparta_package *p = NULL;
        const bool text = i - header.section[DISK_SOURCE].offset < header.section[DISK_SOURCE].size;
        if (text && !todays(i, 64)) continue;
        bad[i] ^= (uint8_t)(1u << i % 8);
        sparta_status s = sparta_package_open_memory(cx, bad, image_size, &p);
        if (s == SPARTA_OK) s = sparta_package_check(cx, p);
        if (s != SPARTA_E_FORMAT) fail_msg("byte %zu: %s", i, sparta_status_name(s));
        padding += strstr(sparta_message(cx), "padding") != NULL;
        sparta_package_close(p);
        bad[i] = image[i];
    }
    assert_true(padding > 100);
    sp_free(cx, bad);
}

/* Zeros or not: a file ends where the package does. */
static void more_behind(void **state)
{
    (void)state;
    sparta_package *p = NULL;
    uint8_t *more = sp_alloc(cx, image_size + 1);
    memcpy(more, image, image_size);
    more[image_size] = 0;
    ok(open_bytes(more, image_size + 1, &p));
    fails(SPARTA_E_FORMAT, sparta_package_check(cx, p));
    says("behind the end");
    sparta_package_close(p);
    sp_free(cx, more);
}

/* Texts are read up to their end, which is not the first zero byte: signed by somebody who knows how, they are refused as well. */
static void zero_in_texts(void **state)
{
    (void)state;
    static const int texts[] = {DISK_PLAN, DISK_TABLES, DISK_SOURCE};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        const disk_section *s = &header.section[texts[i]];
        if (!s->size) continue;
        uint8_t *bad = copied();
        bad[s->offset + s->size - 1] = 0;
        sign(bad, image_size);
        refused(bad, image_size, "a zero byte in section", texts[i]);
        says("zero byte");
        sp_free(cx, bad);
    }
}

static void other_version(void **state)
{
    (void)state;
    uint8_t *bad = copied();
    for (uint32_t version = 0; version < DISK_VERSION + 3; version++) {
        if (version == DISK_VERSION) continue;
        memcpy(bad + 8, &version, 4);
        for (int signed_again = 0; signed_again < 2; signed_again++) {
            if (signed_again) sign(bad, image_size);
            refused(bad, image_size, "version", version);
            says("version");
            says("compile the model again");
        }
    }
    sp_free(cx, bad);
}

/* ------------------------------------------------------------------ signed again: the parsers themselves */

/* Whatever opens can be looked at, and, when its plan is the good one, run. */
static void use(sparta_package *p, bool run_it)
{
    sp_layer *layer;
    int n;
    sp_arena *arena = sp_arena_create(cx);
    assert_non_null(arena);
    sparta_status s = sparta_package_check(cx, p);
    assert_true(s == SPARTA_OK || s == SPARTA_E_FORMAT);
    s = sp_compile_layers(cx, arena, p->plan, database, NULL, &layer, &n);
    for (int i = 0; i < p->n_weights && s == SPARTA_OK; i++) {
        sparta_tensor t;
        s = sp_compile_unpack(arena, &p->weight[i], &t);
    }
    sp_arena_free(arena);
    sparta_session *session_ = NULL;
    sparta_session_options o = {.size = sizeof o, .threads = 2};
    if (run_it && sparta_session_create(cx, p, &o, &session_) == SPARTA_OK) {
        float x[3 * 12] = {1, 2, 3};
        sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 12}, x)},
                            out = {.name = "z"};
        s = sparta_session_run(cx, session_, &in, 1, &out, 1);
    }
    sparta_session_free(session_);
}

/* The indices of all weights, as a session takes them. */
static sparta_status follow(const sparta_package *p)
{
    sp_pool *team = sp_pool_create(cx, 2);
    assert_non_null(team);
    const sparta_status s = sp_package_ready(cx, p, team);
    sp_pool_free(team);
    return s;
}

/* 1: it opens, and its indices can be followed. */
static int try_signed(uint8_t *bad, size_t size, bool run_it)
{
    sparta_package *p = NULL;
    sign(bad, size);
    const sparta_status s = open_bytes(bad, size, &p);
    assert_int_not_equal(s, SPARTA_E_INTERNAL);
    assert_int_not_equal(s, SPARTA_E_USAGE);
    if (s != SPARTA_OK) return 0;
    use(p, run_it);
    const sparta_status good = follow(p);
    assert_true(good == SPARTA_OK || good == SPARTA_E_FORMAT);
    sparta_package_close(p);
    return good == SPARTA_OK;
}

/* A few bytes of a section become others: random ones, digits, marks of the texts. */
static void mutate(uint8_t *bad, const disk_section *s, sp_rng *rng)
{
    static const char marks[] = "0123456789 \n\"\\:=@(){}[],_%-x";
    for (int n = 1 + (int)(sp_rng_next(rng) % 4); n > 0; n--) {
        uint8_t *at = bad + s->offset + sp_rng_next(rng) % s->size;
        if (sp_rng_next(rng) % 3)
            *at = (uint8_t)marks[sp_rng_next(rng) % (sizeof marks - 1)];
        else
            *at ^= (uint8_t)(1u << sp_rng_next(rng) % 8);
    }
}

static void signed_sections(int which, bool run_it, int rounds)
{
    sp_rng rng = sp_rng_seed((uint64_t)which + 1);
    uint8_t *bad = copied();
    int opened = 0;
    for (int i = 0; i < rounds; i++) {
        mutate(bad, &header.section[which], &rng);
        opened += try_signed(bad, image_size, run_it);
        memcpy(bad, image, image_size);
    }
    assert_in_range(opened, 1, rounds - 1); /* some changes are harmless, some are not */
    sp_free(cx, bad);
}

static void signed_tables(void **state)
{
    (void)state;
    signed_sections(DISK_TABLES, true, 1500);
}
static void signed_plan(void **state)
{
    (void)state;
    signed_sections(DISK_PLAN, false, 1500);
}

/* Every byte of the positions and coordinates; kernels would follow them. */
static void signed_coordinates(void **state)
{
    (void)state;
    sparta_package *good = NULL;
    ok(open_bytes(image, image_size, &good));
    uint8_t *bad = copied();
    int opened = 0, tried = 0;
    for (int i = 0; i < good->n_digests; i++) {
        const sp_array_digest *d = &good->digest[i];
        if (d->size > 200 || d->section || !strchr("acd", *d->name) || d->name[1]) continue;
        for (size_t k = 0; k < d->size; k += *d->name == 'a' ? 1 : 3)
            for (int v = 0; v < 3; v++) {
                const size_t at = (size_t)(d->bytes - good->file.data) + k;
                bad[at] = (uint8_t)(v == 0 ? 255 : v == 1 ? image[at] + 1 : image[at] ^ 0x80);
                opened += try_signed(bad, image_size, true);
                tried++;
                bad[at] = image[at];
            }
    }
    assert_true(tried > 100 && opened < tried);
    sp_free(cx, bad);
    sparta_package_close(good);
}

/* Offsets and sizes of the sections at awkward values. */
static void signed_header(void **state)
{
    (void)state;
    const uint64_t values[] = {0,
                               1,
                               7,
                               63,
                               64,
                               4095,
                               4096,
                               image_size - 1,
                               image_size,
                               image_size + 1,
                               1ull << 31,
                               1ull << 32,
                               1ull << 63,
                               UINT64_MAX,
                               UINT64_MAX - 63};
    uint8_t *bad = copied();
    for (int i = 0; i < DISK_SECTIONS; i++)
        for (size_t v = 0; v < SP_COUNT(values); v++)
            for (int field = 0; field < 2; field++) {
                disk_header h = header;
                if (field)
                    h.section[i].size = values[v];
                else
                    h.section[i].offset = values[v];
                memcpy(bad, &h, sizeof h);
                try_signed(bad, image_size, true);
                memcpy(bad, image, image_size);
            }
    for (uint32_t sections = 0; sections < 9; sections++) {
        memcpy(bad + 12, &sections, 4);
        assert_int_equal(try_signed(bad, image_size, false), sections == DISK_SECTIONS);
        memcpy(bad, image, image_size);
    }
    sp_free(cx, bad);
}

/* The image with other tables or another plan, put at its end. */
static sparta_status open_with(int which, const char *text, sparta_package **out)
{
    const size_t at = (image_size + 63) & ~(size_t)63, n = strlen(text);
    uint8_t *bad = sp_zalloc(cx, at + n);
    disk_header h = header;
    assert_non_null(bad);
    memcpy(bad, image, image_size);
    memcpy(bad + at, text, n);
    h.section[which].offset = at;
    h.section[which].size = n;
    memcpy(bad, &h, sizeof h);
    sign(bad, at + n);
    const sparta_status s = open_bytes(bad, at + n, out);
    sp_free(cx, bad);
    return s;
}

#define NO_DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define EMPTY     " i32 0 0 0 " NO_DIGEST
#define ONE       " i32 1 0 4 " NO_DIGEST

static void wrong_tables(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "weight",
        "weight \n",
        "weight \"a\n",
        "weight \"a\" f31 1 1 f32 1 0 4 " NO_DIGEST "\n",
        "weight \"a\" f32 9 1 1 1 1 1 1 1 1 1 f32 1 0 4 " NO_DIGEST "\n",
        "weight \"a\" f32 1 2 f32 1 0 4 " NO_DIGEST "\n",                     /* too few elements */
        "weight \"a\" f32 1 1 i32 1 0 4 " NO_DIGEST "\n",                     /* other type */
        "weight \"a\" f32 1 1 f32 1 4 4 " NO_DIGEST "\n",                     /* not aligned */
        "weight \"a\" f32 1 1 f32 1 0 8 " NO_DIGEST "\n",                     /* wrong size */
        "weight \"a\" f32 1 1 f32 1 -64 4 " NO_DIGEST "\n",                   /* negative */
        "weight \"a\" f32 1 1 f32 1 1048576 4 " NO_DIGEST "\n",               /* outside */
        "weight \"a\" f32 2 4294967296 4294967296 f32 0 0 0 " NO_DIGEST "\n", /* overflow */
        "weight \"a\" f32 1 4611686018427387904 f32 4611686018427387904 0 0 " NO_DIGEST "\n",
        "weight \"a\" f32 1 1 f32 1 0 4 e3b0\n", /* short digest */
        "weight \"a\" f32 1 1 f32 1 0 4 zzb0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
        "weight \"a\\\" f32 1 1 f32 1 0 4 " NO_DIGEST "\n", /* bad escape */
        "weight \"a\\x0\" f32 1 1 f32 1 0 4 " NO_DIGEST "\n",
        "weight \"a\\x00\" f32 1 1 f32 1 0 4 " NO_DIGEST "\n",
        "weight \"a\" f32 1 1 f32 1 0 4 " NO_DIGEST " more\n",
        "weight \"a\" f32 1 1 f32 1 0 4 " NO_DIGEST "\nweight \"a\" f32 1 1 f32 1 0 4 " NO_DIGEST
        "\n", /* twice */
        " weight \"a\" f32 1 1 f32 1 0 4 " NO_DIGEST "\n weight \"c\" f32 1 1 f32 1 0 4 " NO_DIGEST
        "\n", /* not counted */
        "packed \"a\" 0 f32 2 4 4 \"nonsense\"" EMPTY EMPTY EMPTY "\n",
        "packed \"a\" 0 f32 3 4 4 4 \"(n,k)->(n:dense, k:dense)\"" EMPTY EMPTY EMPTY EMPTY EMPTY "\n",
        "packed \"a\" 0 f32 1 4 \"(n)->(n:dense)\"" EMPTY EMPTY EMPTY "\n",
        "packed \"a\" 0 f32 2 4 4 \"(n,k)->(n:dense, k:dense)\"" EMPTY EMPTY EMPTY EMPTY EMPTY
        "\n", /* no values */
        "packed \"a\" 0 f32 2 4294967296 4294967296 \"(n,k)->(n:dense, k:dense)\"" EMPTY EMPTY EMPTY EMPTY
            EMPTY "\n",
        "packed \"a\" 0 f32 2 4 4 \"(n,k)->(n:dense, k:compressed)\"" EMPTY EMPTY EMPTY EMPTY EMPTY
        "\n", /* no positions */
        "packed \"a\" 0 f32 2 4 4 \"sum{rest -> csr}\"" EMPTY EMPTY EMPTY EMPTY EMPTY
        "\n", /* no number of parts */
        "packed \"a\" 0 f32 2 4 4 \"sum{rownnz<=2 -> csr; rest -> coo}\" 0\n",
        "packed \"a\" 0 f32 2 4 4 \"sum{rownnz<=2 -> csr; rest -> coo}\" 65\n",
        "packed \"a\" 0 f32 2 4 4 \"sum{rownnz<=2 -> csr; rest -> coo}\" 9223372036854775807\n",
        "packed \"a\" 0 f32 2 4 4 \"sum{rownnz<=2 -> csr; rest -> coo}\" 2 \"csr\"" EMPTY EMPTY EMPTY EMPTY
            EMPTY "\n", /* one of two */
        "packed \"a\" 0 f32 2 4 4 \"sum{rownnz<=2 -> dcsr; rest -> dcsr}\" 1 \"dcsr\"" EMPTY ONE EMPTY EMPTY
            EMPTY EMPTY "\n", /* fewer than the sum has */
        "packed \"a\" 0 f32 2 4 4 \"sum{rownnz<=2 -> csr; rest -> coo}\" 1 \"sum{rest -> csr}\" 1 "
        "\"csr\"" EMPTY EMPTY EMPTY EMPTY EMPTY "\n", /* a sum in its parts */
        "packed \"a\" 0 f32 2 4 4 \"quads(4)\"" EMPTY EMPTY "\n",
        "packed \"a\" 0 f32 2 4 4 \"quads(99999999)\"" EMPTY EMPTY EMPTY EMPTY EMPTY "\n",
        "packed \"a\" 0 f32 2 4 4 \"groups\"" EMPTY EMPTY EMPTY EMPTY EMPTY "\n",
        "kernel \"linear\" \"\" 0 99999999 0\n",
        "kernel \"linear\" \"\" 18446744073709551615 1 0\n",
        "kernel \"linear\" \"\" 0 0 1 avx512 0 0 0\n", /* no digest */
        "kernel \"linear\" \"\" 0 0 1 avx512 000000000000000x 0 0\n",
        "kernel \"linear\" \"\" 0 0 1 avx512 00000000000000000 0 0\n",
        "kernel \"linear\" \"\" 0 0 1 avx512 0000000000000000 0 99999999\n",
        "kernel \"linear\" \"\" 0 0 1 sm_90a 0000000000000000 0 99999999\n",
        "kernel \"linear\" \"\" 0 0 2 avx512 0000000000000000 0 0\n",
        "kernel \"linear\" \"\" 0 0 9223372036854775807 avx512 0000000000000000 0 0\n",
        "something \"a\"\n",
        "\n",
    };
    for (size_t i = 0; i < SP_COUNT(lines); i++) {
        sparta_package *p = NULL;
        sparta_status s = open_with(DISK_TABLES, lines[i], &p);
        if (s == SPARTA_OK) s = follow(p); /* how many indices there are is seen when they are used */
        if (s != SPARTA_E_FORMAT)
            fail_msg("'%s': %s: %s", lines[i], sparta_status_name(s), sparta_message(cx));
        sparta_package_close(p);
    }
}

/* Plans that open, being graphs, and cannot be run. */
static void wrong_plans(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *why;
    } plans[] = {
        {"node y: f32[batch,20] = sparta::Linear(x, a) {kernel=\"linear\", layout=\"panel\"} \"y\"\noutput "
         "y\n",
         ""},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n"
         "node q: f32[batch,20], r: f32[batch,400] = Split(p) {axis=-1, layout=\"panel\"} \"s\"\n"
         "node y: f32[batch,400] = Identity(r) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         ""},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n"
         "node q: f32[batch,4], r: f32[100,8] = Split(p) {axis=-1, layout=\"panel\"} \"s\"\n"
         "node y: f32[100,8] = Identity(r) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         ""},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\noutput p\n",
         "not left in rows"},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n"
         "node q: f32[batch,4], r: f32[batch,8] = Split(p) {axis=-1, layout=\"panel\"} \"s\"\noutput r\n",
         "not left in rows"},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n"
         "node n: f32[batch,12] = LayerNormalization(p, gain) {kernel=\"norm\", layout=\"panel\", stat=1} "
         "\"n\"\n"
         "node y: f32[batch,12] = Identity(n) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         ""},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\", stat=1} \"p\"\n"
         "node q: f32[batch,12] = Split(p) {axis=-1, layout=\"panel\", stat=1} \"s\"\n"
         "node n: f32[batch,12] = LayerNormalization(q, gain) {kernel=\"norm\", layout=\"panel\", stat=1} "
         "\"n\"\n"
         "node y: f32[batch,12] = Identity(n) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         "statistics that nobody leaves"},
        {"node y: f32[4] = Constant() {value_floats=floats[1.0,2.0,3.0,4.0], kernel=\"to_rows\"} "
         "\"y\"\noutput y\n",
         ""},
        {"node y: f32[batch,12] = Identity(x) {kernel=\"nothing\"} \"y\"\noutput y\n", "nothing"},
        {"node y: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\", code=77} \"y\"\noutput "
         "y\n",
         "kernel 77"},
        {"node y: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", code=0} \"y\"\noutput y\n", ""},
        {"node y: i64[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"y\"\noutput y\n",
         "cannot have layout 'panel': it is i64"},
        {"node y: f32[batch,20] = MatMul(x, a) \"y\"\noutput y\n", "rows"},
        {"node y: f32[length,12] = Identity(x) \"y\"\noutput y\n", "length"},
        /* a kernel runs its own operators only */
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n"
         "node d: f32[batch,12] = Dropout(p, _, p) {kernel=\"attention\", layout=\"panel\"} \"d\"\n"
         "node y: f32[batch,12] = Identity(d) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         "does not compute Dropout"},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n"
         "node d: f32[batch,12] = sparta::Attention(p, x, p) {heads=3, kernel=\"attention\", "
         "layout=\"panel\"} \"d\"\n"
         "node y: f32[batch,12] = Identity(d) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         "input 1 is f32 in layout rows, which kernel 'attention' does not take"},
        /* layouts are those of the table, of values that a kernel makes or a view keeps as they are */
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"pandl\"} \"p\"\n"
         "node y: f32[batch,12] = Identity(p) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         "'p' has layout 'pandl', which this library does not know"},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"packed\"} \"p\"\n"
         "node y: f32[batch,12] = Identity(p) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         "layout 'packed'"},
        {"node p: f32[batch,12] = Relu(x) {layout=\"panel\"} \"p\"\n"
         "node y: f32[batch,12] = Identity(p) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         "no kernel that would make it"},
        {"node p: f32[batch,12] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} \"p\"\n"
         "node q: u8[batch,16], r: f32[batch,8] = Split(p) {axis=-1, layout=\"panel\"} \"s\"\n"
         "node y: f32[batch,8] = Identity(r) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         ""},
        {"node p: f32[batch,9223372036854775807] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} "
         "\"p\"\n"
         "node q: f32[batch,4], r: f32[batch,8] = Split(p) {axis=-1, layout=\"panel\"} \"s\"\n"
         "node y: f32[batch,8] = Identity(r) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         "splits what is not in lanes"},
        /* a packed weight under another name is still not in rows */
        {"const zz: f32[12,20] @\"a\"\nnode p: f32[12,20] = Identity(zz) {kernel=\"to_lanes\", "
         "layout=\"panel\"} "
         "\"p\"\n"
         "node y: f32[12,20] = Identity(p) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         ""},
        {"node p: f32[batch,2305843009213693952] = Identity(x) {kernel=\"to_lanes\", layout=\"panel\"} "
         "\"p\"\n"
         "node y: f32[batch,2305843009213693952] = Identity(p) {kernel=\"to_rows\"} \"y\"\noutput y\n",
         ""},
    };
    for (size_t i = 0; i < SP_COUNT(plans); i++) {
        char text[1024];
        sparta_package *p = NULL;
        sparta_session *s = NULL;
        float x[36] = {0};
        sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 12}, x)}, out;
        snprintf(text, sizeof text,
                 "graph \"g\"\ninput x: f32[batch,12]\nconst a: f32[12,20] @\"a\"\nconst gain: f32[12] = "
                 "[1,1,1,1,1,1,1,1,1,1,1,1]\n%s",
                 plans[i].plan);
        ok(open_with(DISK_PLAN, text, &p));
        sparta_session_options o = {.size = sizeof o, .threads = 2};
        sparta_status status = sparta_session_create(cx, p, &o, &s);
        out.name = sparta_package_output_name(p, 0);
        if (status == SPARTA_OK) status = sparta_session_run(cx, s, &in, 1, &out, 1);
        if (status == SPARTA_OK) fail_msg("plan %zu runs", i);
        mentions(sparta_message(cx), plans[i].why, __FILE__, __LINE__);
        sparta_session_free(s);
        sparta_package_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated),       cmocka_unit_test(flipped),
        cmocka_unit_test(flipped_weights), cmocka_unit_test(other_version),
        cmocka_unit_test(signed_tables),   cmocka_unit_test(signed_plan),
        cmocka_unit_test(signed_header),   cmocka_unit_test(signed_coordinates),
        cmocka_unit_test(wrong_tables),    cmocka_unit_test(wrong_plans),
        cmocka_unit_test(every_byte),      cmocka_unit_test(more_behind),
        cmocka_unit_test(zero_in_texts),
    };
    return cmocka_run_group_tests(tests, make_image, drop_image);
}
