/* Calls whose arrays are on a GPU, on a fake driver: what the host decides without looking at device memory, whatever the sizes are. */
#include "fake_bed.h"
#include "cuda/cuda.h"

static char said[400];
static int32_t room[4096]; /* stands for device memory: the fake driver runs nothing */

static sparta_tensor array(sparta_dtype dtype, int rank, const int64_t *dim)
{
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, room);
    t.device = 1;
    return t;
}

static sparta_blocks blocks_of(int64_t rows, int64_t cols, int64_t side, int64_t blocks)
{
    const int64_t lines = (rows + side - 1) / side + 1, dim[] = {blocks, side, side};
    return (sparta_blocks){.size = sizeof(sparta_blocks),
                           .rows = rows,
                           .cols = cols,
                           .height = side,
                           .width = side,
                           .batch = 1,
                           .patterns = 1,
                           .pos = array(SPARTA_I32, 1, &lines),
                           .crd = array(SPARTA_I32, 1, &blocks),
                           .values = array(SPARTA_F16, 3, dim)};
}

/* Tokens with contiguous features. */
static sparta_tensor tokens_of(int64_t features, int64_t tokens)
{
    const int64_t dim[] = {1, features, tokens};
    sparta_tensor t = array(SPARTA_F16, 3, dim);
    t.stride[0] = features * tokens;
    t.stride[1] = 1;
    t.stride[2] = features;
    return t;
}

static sparta_status call(sparta_verb verb, const sparta_blocks *s, int64_t tokens)
{
    const bool turned = verb == SPARTA_MULTIPLY_TURNED, sample = verb == SPARTA_SAMPLE;
    const sparta_tensor x = tokens_of(turned || sample ? s->rows : s->cols, tokens),
                        y = tokens_of(turned || sample ? s->cols : s->rows, tokens);
    sparta_launch launch = {.size = sizeof launch, .workspace = room, .workspace_bytes = (size_t)1 << 40};
    const sparta_multiply_options options = {.size = sizeof options, .turned = turned};
    (void)sparta_blocks_workspace(verb, s, &x, &y, &launch);
    if (sample) return sparta_blocks_sample(s, &x, &y, 1, &launch, said, sizeof said);
    return sparta_blocks_multiply(s, &x, &y, &options, &launch, said, sizeof said);
}

/* Sizes are whatever a caller says; pos and crd are on the device, so that blocks without rows are not found out. */
static void any_sizes_are_answered(void **state)
{
    (void)state;
    (void)fake_library();
    assert_int_equal(sp_gpu_count(), 1);
    fake_fail("cuMemsetD8Async", 1); /* which would write: the workspace is not as large as it says */
    static const int64_t sizes[] = {0, 1, 64, 1000, INT32_MAX}, sides[] = {1, 16, 48, 64, 320, 65536},
                         counts[] = {0, 1, 7, INT32_MAX}, tokens[] = {0, 1, 64, 65, INT32_MAX};
    static const sparta_verb verbs[] = {SPARTA_MULTIPLY, SPARTA_MULTIPLY_TURNED, SPARTA_SAMPLE};
    for (size_t i = 0; i < SP_COUNT(sizes) * SP_COUNT(sizes) * SP_COUNT(sides) * SP_COUNT(counts); i++) {
        const sparta_blocks s =
            blocks_of(sizes[i % SP_COUNT(sizes)], sizes[i / 5 % SP_COUNT(sizes)],
                      sides[i / 25 % SP_COUNT(sides)], counts[i / 150 % SP_COUNT(counts)]);
        (void)sparta_blocks_index_words(&s);
        for (size_t v = 0; v < SP_COUNT(verbs); v++)
            for (size_t t = 0; t < SP_COUNT(tokens); t++) {
                said[0] = 0;
                const sparta_status status = call(verbs[v], &s, tokens[t]);
                if (status != SPARTA_OK) assert_string_not_equal(said, "");
            }
    }
}

static void old_gpus_are_unsupported(void **state)
{
    (void)state;
    const sparta_blocks s = blocks_of(128, 128, 64, 2);
    int64_t words = sparta_blocks_index_words(&s);
    const sparta_tensor index = array(SPARTA_I32, 1, &words);
    assert_true(words > 0);
    assert_int_equal(sparta_blocks_index(&s, &index, NULL, said, sizeof said), SPARTA_E_UNSUPPORTED);
    assert_non_null(strstr(said, "too old"));
    assert_int_equal(call(SPARTA_MULTIPLY, &s, 128), SPARTA_E_UNSUPPORTED);
}

/* A text that does not compile is not compiled again. */
static void failures_are_remembered(void **state)
{
    (void)state;
    const sparta_blocks s = blocks_of(128, 128, 64, 2);
    int64_t words = sparta_blocks_index_words(&s);
    const sparta_tensor index = array(SPARTA_I32, 1, &words);
    setenv("SPARTA_CACHE", "off", 1);
    setenv("SPARTA_NVRTC", "/nonexistent", 1);
    char first[sizeof said];
    assert_int_equal(sparta_blocks_index(&s, &index, NULL, first, sizeof first), SPARTA_E_COMPILER);
    assert_int_equal(sparta_blocks_index(&s, &index, NULL, said, sizeof said), SPARTA_E_COMPILER);
    assert_string_equal(first, said);
    assert_non_null(strstr(said, "/nonexistent"));
}

int main(void)
{
    static const fake_test tests[] = {
        {"any_sizes_are_answered", "cuda.so", "", any_sizes_are_answered},
        {"any_sizes_are_answered_by_sm_80", "cuda.so", "major=8 minor=0", any_sizes_are_answered},
        {"old_gpus_are_unsupported", "cuda.so", "major=7 minor=5", old_gpus_are_unsupported},
        {"failures_are_remembered", "cuda.so", "", failures_are_remembered},
    };
    setenv("SPARTA_NVRTC", "/nonexistent", 1); /* the host's side alone: nothing is compiled */
    setenv("SPARTA_CACHE", "off", 1);
    return fake_run(tests, SP_COUNT(tests));
}
