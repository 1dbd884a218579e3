/* Unstructured weights for few tokens, as far as the CPU goes: sizes, and what is refused before a GPU is asked for. tests/gpu/run.py has the rest. */
#include "bed.h"
#include "sparta.h"

enum { ROWS = 64, COLS = 128, PAIRS = 100 };
static char message[256];
static sparta_tensor weight, packed, x, out;

/* All right, but that everything is on the CPU. */
static int arrays(void **state)
{
    static _Alignas(16) char memory[ROWS * COLS * 2];
    const int64_t w[] = {ROWS, COLS}, in[] = {1, COLS, 3}, made[] = {1, ROWS, 3},
                  words = sparta_bits_bytes(SPARTA_F16, ROWS, COLS, PAIRS) / 4;
    (void)state;
    weight = sparta_tensor_view(SPARTA_F16, 2, w, memory);
    packed = sparta_tensor_view(SPARTA_I32, 1, &words, memory);
    x = sparta_tensor_view(SPARTA_F16, 3, in, memory);
    out = sparta_tensor_view(SPARTA_F16, 3, made, memory);
    return 0;
}

static void said(sparta_status is, sparta_status status, const char *words)
{
    assert_int_equal(is, status);
    if (!strstr(message, words)) print_error("%s\n", message);
    assert_non_null(strstr(message, words));
}
static void refuses_to_pack(sparta_status status, const char *words)
{
    said(sparta_bits_pack(&weight, &packed, NULL, message, sizeof message), status, words);
    assert_int_equal(sparta_bits_pack(&weight, &packed, NULL, NULL, 0), status);
}
static void refuses_to_multiply(int64_t rows, int64_t cols, const sparta_multiply_options *o,
                                sparta_status status, const char *words)
{
    said(sparta_bits_multiply(&packed, rows, cols, &x, &out, o, NULL, message, sizeof message), status,
         words);
}

static void sizes(void **state)
{
    (void)state;
    assert_true(sparta_bits_bytes(SPARTA_F16, 4096, 4096, 4096 * 2048 / 2) < 4096 * 4096 * 2 * 6 / 10);
    assert_int_equal(sparta_bits_bytes(SPARTA_BF16, 5, 7, 20) % 16, 0);
    assert_true(sparta_bits_bytes(SPARTA_BF16, 5, 7, 20) > sparta_bits_bytes(SPARTA_BF16, 5, 7, 0));
    assert_int_equal(sparta_bits_bytes(SPARTA_BF16, 5, 7, 21), 0);
    assert_int_equal(sparta_bits_bytes(SPARTA_F32, 64, 64, 0), 0);
    assert_int_equal(sparta_bits_bytes(SPARTA_F16, 0, 64, 0), 0);
    assert_int_equal(sparta_bits_bytes(SPARTA_F16, 64, 64, -1), 0);
    assert_int_equal(sparta_bits_bytes(SPARTA_F16, INT64_MAX, INT64_MAX, INT64_MAX), 0);
}

static void wrong_weights(void **state)
{
    (void)state;
    refuses_to_pack(SPARTA_E_UNSUPPORTED, "not on a GPU");
    packed.dim[0]--;
    refuses_to_pack(SPARTA_E_SHAPE, "multiple of 4");
    packed.dim[0] = sparta_bits_bytes(SPARTA_F16, ROWS, COLS, 0) / 4 - 4;
    refuses_to_pack(SPARTA_E_SHAPE, "at least");
    packed.dim[0] = INT64_MIN;
    refuses_to_pack(SPARTA_E_SHAPE, "packed");
    packed.dim[0] = sparta_bits_bytes(SPARTA_F16, ROWS, COLS, 0) / 4;
    packed.dtype = SPARTA_F32;
    refuses_to_pack(SPARTA_E_DTYPE, "packed is f32, expected i32");
    packed.dtype = SPARTA_I32;
    packed.rank = 2;
    refuses_to_pack(SPARTA_E_SHAPE, "packed is");
    packed.rank = 1;
    packed.device = 1;
    refuses_to_pack(SPARTA_E_UNSUPPORTED, "device");
    weight.device = 1;
    weight.stride[1] = 2;
    refuses_to_pack(SPARTA_E_UNSUPPORTED, "row-major copy");
    weight.stride[1] = 1;
    packed.data = (char *)packed.data + 4;
    refuses_to_pack(SPARTA_E_USAGE, "16 bytes");
    weight.dtype = SPARTA_F64;
    refuses_to_pack(SPARTA_E_UNSUPPORTED, "f16 and bf16");
    weight.rank = 3;
    refuses_to_pack(SPARTA_E_SHAPE, "3 dims");
    assert_int_equal(sparta_bits_pack(NULL, &packed, NULL, message, sizeof message), SPARTA_E_USAGE);
    assert_int_equal(sparta_bits_pack(&weight, NULL, NULL, message, sizeof message), SPARTA_E_USAGE);
}

static void wrong_products(void **state)
{
    (void)state;
    refuses_to_multiply(ROWS, COLS, NULL, SPARTA_E_UNSUPPORTED, "not on a GPU");
    packed.device = x.device = out.device = 1;
    refuses_to_multiply(ROWS - 1, COLS, NULL, SPARTA_E_SHAPE, "out is 1x64x3, expected 1x63x3");
    refuses_to_multiply(ROWS, 1 << 16, NULL, SPARTA_E_SHAPE, "at least");
    refuses_to_multiply(INT64_MIN, COLS, NULL, SPARTA_E_UNSUPPORTED, "not packed");
    const sparta_multiply_options turned = {.size = sizeof turned, .turned = 1};
    refuses_to_multiply(ROWS, COLS, &turned, SPARTA_E_UNSUPPORTED, "not turned");
    const sparta_multiply_options unknown = {.size = sizeof unknown, .epilogue = "sing"};
    refuses_to_multiply(ROWS, COLS, &unknown, SPARTA_E_USAGE, "not known");
    const sparta_multiply_options none = {.size = 1};
    refuses_to_multiply(ROWS, COLS, &none, SPARTA_E_USAGE, "size");
    refuses_to_multiply(ROWS, COLS, NULL, SPARTA_E_UNSUPPORTED, "side by side");
    out.device = 2;
    refuses_to_multiply(ROWS, COLS, NULL, SPARTA_E_UNSUPPORTED, "out is on device 2");
    x.dtype = SPARTA_F32;
    refuses_to_multiply(ROWS, COLS, NULL, SPARTA_E_UNSUPPORTED, "f16 and bf16");
    assert_int_equal(sparta_bits_multiply(NULL, 1, 1, &x, &out, NULL, NULL, NULL, 0), SPARTA_E_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sizes, arrays),
        cmocka_unit_test_setup(wrong_weights, arrays),
        cmocka_unit_test_setup(wrong_products, arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
