/* Kernels compiled ahead: packed here, run by another process without NVRTC on the fake driver, and what damaged files give. */
#include "fake_bed.h"
#include "cuda/cuda.h"
#include "jit/inside.h"

enum { SIDE = 64, WIDE = 256, DOWN = WIDE / SIDE, BLOCKS = 8 };
static char path[200];
static _Alignas(256) char room[1 << 20];
static _Alignas(16) uint16_t memory[1 << 18]; /* stands for device memory */
static sparta_ctx *cx;

static void begin(void)
{
    cx = sparta_ctx_create(NULL);
    assert_non_null(cx);
}

static sparta_gpu_wish wish(sparta_verb verb, int64_t tokens)
{
    return (sparta_gpu_wish){.size = sizeof(sparta_gpu_wish),
                             .device = "sm_90a",
                             .verb = verb,
                             .dtype = SPARTA_F16,
                             .rows = WIDE,
                             .cols = WIDE,
                             .height = SIDE,
                             .width = SIDE,
                             .tokens = tokens,
                             .density = .5};
}

static void need_nvrtc(void)
{
    if (sp_nvrtc_version()) return;
    print_message("%s\n", sp_nvrtc_problem());
    skip();
}

static void need_file(void)
{
    if (access(path, R_OK)) skip();
}

static void what_is_wished_is_packed(void **state)
{
    (void)state;
    const sparta_gpu_wish wishes[] = {wish(SPARTA_MULTIPLY, 16), wish(SPARTA_MULTIPLY, 300),
                                      wish(SPARTA_MULTIPLY_TURNED, 300), wish(SPARTA_SAMPLE, 300)};
    need_nvrtc();
    begin();
    if (sparta_gpu_pack(cx, wishes, (int)SP_COUNT(wishes), path)) fail_msg("%s", sparta_message(cx));
    assert_non_null(strstr(sparta_notes(cx), "kernels"));
    sparta_ctx_free(cx);
}

/* ------------------------------------------------------------------ without NVRTC */
static sparta_tensor array(sparta_dtype dtype, int rank, const int64_t *dim)
{
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, memory);
    t.device = 1;
    return t;
}

static sparta_status call(sparta_verb verb, int64_t tokens, char said[300])
{
    const sparta_blocks s = {.size = sizeof s,
                             .rows = WIDE,
                             .cols = WIDE,
                             .height = SIDE,
                             .width = SIDE,
                             .batch = 1,
                             .patterns = 1,
                             .pos = array(SPARTA_I32, 1, (int64_t[]){DOWN + 1}),
                             .crd = array(SPARTA_I32, 1, (int64_t[]){BLOCKS}),
                             .values = array(SPARTA_F16, 3, (int64_t[]){BLOCKS, SIDE, SIDE})};
    sparta_tensor x = array(SPARTA_F16, 3, (int64_t[]){1, WIDE, tokens}), y;
    x.stride[1] = 1;
    x.stride[2] = WIDE;
    y = x;
    y.data = memory + (1 << 17);
    const sparta_launch how = {.size = sizeof how, .workspace = room, .workspace_bytes = sizeof room};
    const sparta_multiply_options o = {.size = sizeof o, .turned = verb == SPARTA_MULTIPLY_TURNED};
    if (verb == SPARTA_SAMPLE) return sparta_blocks_sample(&s, &x, &y, 1, &how, said, 300);
    return sparta_blocks_multiply(&s, &x, &y, &o, &how, said, 300);
}

static void run_all(void)
{
    char said[300] = "";
    assert_int_equal(sp_nvrtc_version(), 0);
    if (call(SPARTA_MULTIPLY, 16, said) || call(SPARTA_MULTIPLY, 300, said) ||
        call(SPARTA_MULTIPLY_TURNED, 300, said) || call(SPARTA_SAMPLE, 300, said))
        fail_msg("%s", said);
    assert_true(fake()->launches >= 4 + 4); /* each makes its index, too */
}

static void a_process_without_nvrtc_runs_them(void **state)
{
    (void)state;
    need_file();
    setenv("SPARTA_GPU_KERNELS", path, 1);
    run_all();
}

static void without_the_file_there_is_none(void **state)
{
    (void)state;
    char said[300];
    need_file();
    begin();
    assert_int_equal(call(SPARTA_MULTIPLY, 16, said), SPARTA_E_COMPILER);
    assert_non_null(strstr(said, "NVRTC"));
    sparta_ctx_free(cx);
}

static void loaded_by_a_call(void **state)
{
    (void)state;
    need_file();
    begin();
    assert_int_equal(sparta_gpu_load(cx, path), SPARTA_OK);
    run_all();
    sparta_ctx_free(cx);
}

static void a_file_that_is_none(void **state)
{
    (void)state;
    char said[300] = "";
    setenv("SPARTA_GPU_KERNELS", "/proc/self/exe", 1);
    assert_int_equal(call(SPARTA_MULTIPLY, 16, said), SPARTA_E_FORMAT);
    assert_non_null(strstr(said, "SPARTA_GPU_KERNELS"));
    begin();
    assert_int_equal(sparta_gpu_load(cx, "/nowhere/at/all"), SPARTA_E_IO);
    assert_int_equal(sparta_gpu_load(cx, NULL), SPARTA_E_USAGE);
    sparta_ctx_free(cx);
}

/* ------------------------------------------------------------------ damage */
static uint8_t *whole;
static size_t size;

static void sign(uint8_t *bytes, size_t n)
{
    enum { HEAD = 64, DIGEST = 24 };
    sp_sha256_of(bytes + HEAD, n - HEAD, bytes + DIGEST);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    FILE *f = fopen(path, "rb");
    if (!f) skip();
    whole = malloc(1 << 22);
    assert_non_null(whole);
    size = fread(whole, 1, 1 << 22, f);
    fclose(f);
    assert_null(sp_gpu_pack_check(whole, size));
    for (size_t n = 0; n < size; n += n < 400 ? 1 : 997) assert_non_null(sp_gpu_pack_check(whole, n));
    for (size_t at = 0; at < size; at += at < 1200 ? 1 : 997) {
        if (at >= 56 && at < 64) continue; /* nothing is there */
        whole[at] ^= 1;
        assert_non_null(sp_gpu_pack_check(whole, size));
        whole[at] ^= 1;
    }
    /* By somebody who signs it: offsets and sizes of the first kernel, and how many there are. */
    enum { COUNT = 12, OFFSET = 64 + 32, SIZE = OFFSET + 8 };
    static const struct {
        size_t at;
        uint64_t value;
    } lies[] = {{OFFSET, 0}, {OFFSET, 8}, {OFFSET, UINT64_MAX - 15}, {OFFSET, 1 << 30},
                {SIZE, 0},   {SIZE, 3},   {SIZE, UINT64_MAX},        {SIZE, 1 << 30}};
    for (size_t i = 0; i < SP_COUNT(lies); i++) {
        uint64_t was;
        memcpy(&was, whole + lies[i].at, sizeof was);
        memcpy(whole + lies[i].at, &lies[i].value, sizeof was);
        sign(whole, size);
        assert_non_null(sp_gpu_pack_check(whole, size));
        memcpy(whole + lies[i].at, &was, sizeof was);
    }
    memset(whole + COUNT, 0xff, 4);
    sign(whole, size);
    assert_non_null(sp_gpu_pack_check(whole, size));
    free(whole);
}

static void wishes_that_cannot_be_had(void **state)
{
    (void)state;
    begin();
    static const char *const devices[] = {NULL, "", "cuda:0", "sm_70", "sm_90ab", "sm_", "sm_80x"};
    sparta_gpu_wish w = wish(SPARTA_MULTIPLY, 16);
    for (size_t i = 0; i < SP_COUNT(devices); i++) {
        w.device = devices[i];
        assert_int_equal(sparta_gpu_pack(cx, &w, 1, "/nowhere/at/all"), SPARTA_E_USAGE);
    }
    w = wish(SPARTA_MULTIPLY, 0);
    need_nvrtc();
    assert_int_equal(sparta_gpu_pack(cx, &w, 1, "/nowhere/at/all"), SPARTA_E_USAGE);
    w = wish(SPARTA_MULTIPLY, 16), w.rows = INT64_MAX;
    assert_int_equal(sparta_gpu_pack(cx, &w, 1, "/nowhere/at/all"), SPARTA_E_USAGE);
    w = wish(SPARTA_MULTIPLY, 16), w.height = INT64_MAX;
    assert_int_equal(sparta_gpu_pack(cx, &w, 1, "/nowhere/at/all"), SPARTA_E_USAGE);
    w = wish(SPARTA_MULTIPLY, 16), w.height = 4;
    assert_int_equal(sparta_gpu_pack(cx, &w, 1, "/nowhere/at/all"), SPARTA_E_UNSUPPORTED);
    w = wish(SPARTA_MULTIPLY, 16), w.epilogue = "bias and more";
    assert_int_equal(sparta_gpu_pack(cx, &w, 1, "/nowhere/at/all"), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "epilogue \"bias and more\""));
    w = wish(SPARTA_MULTIPLY, 16), w.size = 0;
    assert_int_equal(sparta_gpu_pack(cx, &w, 1, "/nowhere/at/all"), SPARTA_E_USAGE);
    sparta_ctx_free(cx);
}

#define ON(test)                                                                                             \
    {                                                                                                        \
#test, "cuda.so", "", test                                                                           \
    }
int main(void)
{
    static const fake_test packing[] = {ON(what_is_wished_is_packed), ON(wishes_that_cannot_be_had)};
    static const fake_test running[] = {ON(a_process_without_nvrtc_runs_them),
                                        ON(without_the_file_there_is_none), ON(loaded_by_a_call),
                                        ON(a_file_that_is_none), ON(damaged_files_are_refused)};
    snprintf(path, sizeof path, "/tmp/sparta-cuda-pack-%ld", (long)getpid());
    setenv("SPARTA_CACHE", "off", 1);
    int failed = fake_run(packing, SP_COUNT(packing));
    setenv("SPARTA_NVRTC", "/nowhere", 1);
    failed += fake_run(running, SP_COUNT(running));
    unlink(path);
    return failed;
}
