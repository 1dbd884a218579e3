/* Pools, Conv and Resize (builtin/quick.h) against their references, by one thread and by three (sp_pool_create). */
#include "builtin_quick_bed.h"

typedef struct window {
    int rank; /* of the image: 1, 2 or 3 */
    int64_t in[3], kernel[3], stride[3], dilation[3], pads[6], ceil;
} window;

/* Overlapping, apart, dilated, wider than a vector, padded on one side, one element, and rows that do not fit into one line. */
static const window windows[] = {
    {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0}, 0},
    {2, {9, 35}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 0},
    {2, {9, 36}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 0},
    {2, {10, 64}, {2, 2}, {2, 2}, {1, 1}, {0}, 0},
    {2, {11, 37}, {2, 3}, {2, 2}, {1, 1}, {0, 0, 1, 2}, 1},
    {2, {7, 50}, {5, 1}, {1, 3}, {1, 1}, {2, 0, 2, 0}, 0},
    {2, {12, 40}, {3, 4}, {2, 1}, {2, 3}, {1, 2, 0, 3}, 0},
    {2, {6, 45}, {3, 7}, {3, 2}, {1, 2}, {0}, 1},
    {2, {3, 33}, {3, 20}, {1, 1}, {1, 1}, {1, 10, 1, 10}, 0},
    {1, {5000}, {3}, {2}, {1}, {1, 1}, 0},
    {1, {4100}, {9}, {1}, {1}, {4, 4}, 0},
    {1, {2100}, {2}, {5}, {1}, {0}, 1},
    {2, {1, 9}, {2, 3}, {2, 2}, {1, 1}, {0}, 1},
    {2, {3, 2}, {2, 4}, {1, 3}, {1, 1}, {0}, 1},
    {3, {5, 6, 19}, {2, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1, 1, 1, 1}, 0},
    {2, {200, 70}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 0},
};

static int64_t outputs(const window *w, int i)
{
    const int64_t size =
        w->in[i] + w->pads[i] + w->pads[w->rank + i] - ((w->kernel[i] - 1) * w->dilation[i] + 1);
    int64_t n = (w->ceil ? (size + w->stride[i] - 1) / w->stride[i] : size / w->stride[i]) + 1;
    if (w->ceil && (n - 1) * w->stride[i] >= w->in[i] + w->pads[i]) n--;
    return n;
}

static void spoil(sparta_tensor *t, int how)
{
    static const float bad[] = {-0.0f, INFINITY, -INFINITY, NAN};
    for (int64_t i = 7; how && i < sparta_tensor_elements(t); i += 97)
        ((float *)t->data)[i] = bad[i / 97 % how];
}

static void pools(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(windows); i++)
        for (int way = 0; way < 9; way++) {
            const window *w = &windows[i];
            const int r = w->rank, kind = way % 3; /* largest, average, average with padding */
            int64_t x_dim[5] = {2, 3}, y_dim[5] = {2, 3};
            for (int d = 0; d < r; d++) {
                x_dim[2 + d] = w->in[d];
                y_dim[2 + d] = outputs(w, d);
            }
            sparta_tensor x = random_floats(2 + r, x_dim, 1);
            spoil(&x, (int[]){0, 2, 4}[way / 3]);
            const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 2 + r, y_dim, NULL);
            const sp_attrs *attrs =
                SP_ATTRS(SP_INTS("kernel_shape", r, w->kernel), SP_INTS("strides", r, w->stride),
                         SP_INTS("dilations", r, w->dilation), SP_INTS("pads", 2 * r, w->pads),
                         SP_INT("ceil_mode", w->ceil), SP_INT("count_include_pad", kind == 2));
            if (kind == 0)
                twin(SP_OP_MaxPool, attrs, 1, &x, 1, &out, sp_quick_MaxPool, true);
            else
                twin(SP_OP_AveragePool, attrs, 1, &x, 1, &out, sp_quick_AveragePool, true);
            sp_free(cx, x.data);
        }
}

/* Places of the largest, a strided image, and windows wider than a line are the reference's; a kernel that does not fit is an error. */
static void declined(void **state)
{
    (void)state;
    sparta_tensor x = random_floats(DIMS(1, 2, 6, 8), 2), turned = x;
    const int64_t two[] = {2, 2};
    const sp_attrs *attrs = SP_ATTRS(SP_INTS("kernel_shape", 2, two), SP_INTS("strides", 2, two));
    const sparta_tensor out[] = {F32(NULL, 1, 2, 3, 4), I64(NULL, 1, 2, 3, 4)};
    twin(SP_OP_MaxPool, attrs, 1, &x, 2, out, sp_quick_MaxPool, false);
    turned.dim[2] = 8, turned.dim[3] = 6;
    turned.stride[2] = 1, turned.stride[3] = 8;
    twin(SP_OP_MaxPool, attrs, 1, &turned, 1, (sparta_tensor[]){F32(NULL, 1, 2, 4, 3)}, sp_quick_MaxPool,
         false);
    float y[2];
    const int64_t large[] = {7, 7};
    fails_saying(SPARTA_E_SHAPE, "kernel spans",
                 sp_builtin_quick(cx, SP_OP_MaxPool,
                                  &(sp_op_args){SP_ATTRS(SP_INTS("kernel_shape", 2, large)), 1, 1, &x,
                                                (sparta_tensor[]){F32(y, 1, 2, 1, 1)}}));
    sp_free(cx, x.data);
}

static void whole_planes(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {
        {1, 1, 1, 1}, {2, 3, 5, 7}, {1, 2, 16, 16}, {3, 5, 23, 23}, {700, 1, 20, 20}};
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (int how = 0; how < 5; how += 2) {
            sparta_tensor x = random_floats(4, sizes[i], 3);
            const sparta_tensor out =
                sparta_tensor_view(SPARTA_F32, DIMS(sizes[i][0], sizes[i][1], 1, 1), NULL);
            spoil(&x, how);
            twin(SP_OP_GlobalMaxPool, &none, 1, &x, 1, &out, sp_quick_GlobalMaxPool, true);
            twin(SP_OP_GlobalAveragePool, &none, 1, &x, 1, &out, sp_quick_GlobalAveragePool, true);
            sp_free(cx, x.data);
        }
}

/* ------------------------------------------------------------------ Conv */
static void conv(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(windows); i++)
        for (int way = 0; way < 6; way++) {
            const window *w = &windows[i];
            const int r = w->rank, groups = (int[]){1, 3, 6}[way % 3],
                      biased = way / 3; /* 6 channels, 12 filters */
            int64_t x_dim[5] = {2, 6}, k_dim[5] = {12, 6 / groups}, y_dim[5] = {2, 12};
            if (w->ceil) continue;
            for (int d = 0; d < r; d++) {
                x_dim[2 + d] = w->in[d];
                k_dim[2 + d] = w->kernel[d];
                y_dim[2 + d] = outputs(w, d);
            }
            sparta_tensor in[3] = {random_floats(2 + r, x_dim, 1), random_floats(2 + r, k_dim, 2),
                                   random_floats(1, y_dim + 1, 3)};
            spoil(&in[0], biased ? 4 : 0);
            const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 2 + r, y_dim, NULL);
            const sp_attrs *attrs =
                SP_ATTRS(SP_INTS("strides", r, w->stride), SP_INTS("dilations", r, w->dilation),
                         SP_INTS("pads", 2 * r, w->pads), SP_INT("group", groups));
            twin(SP_OP_Conv, attrs, 2 + biased, in, 1, &out, sp_quick_Conv, true);
            for (int k = 0; k < 3; k++) sp_free(cx, in[k].data);
        }
}

/* Many bands, and an infinite weight, which padding must not meet. */
static void conv_large(void **state)
{
    (void)state;
    const int64_t ones[] = {1, 1, 1, 1};
    sparta_tensor in[2] = {random_floats(DIMS(1, 40, 70, 70), 1), random_floats(DIMS(9, 40, 3, 3), 2)};
    const sparta_tensor out = sparta_tensor_view(SPARTA_F32, DIMS(1, 9, 70, 70), NULL);
    twin(SP_OP_Conv, SP_ATTRS(SP_INTS("pads", 4, ones)), 2, in, 1, &out, sp_quick_Conv, true);
    ((float *)in[1].data)[5] = INFINITY;
    twin(SP_OP_Conv, SP_ATTRS(SP_INTS("pads", 4, ones)), 2, in, 1, &out, sp_quick_Conv, false);
    sp_free(cx, in[0].data);
    sp_free(cx, in[1].data);
}

/* ------------------------------------------------------------------ Resize */
static void resize(void **state)
{
    (void)state;
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const places[] = {"half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize"};
    static const int64_t to[][4] = {{2, 3, 18, 22}, {2, 3, 9, 22},  {2, 3, 5, 7},
                                    {2, 3, 27, 11}, {1, 3, 13, 40}, {2, 3, 1, 1}};
    float region[] = {0, 0, -.2f, .1f, 1, 1, .9f, 1.3f};
    for (size_t i = 0; i < SP_COUNT(to); i++)
        for (int mode = 0; mode < 3; mode++)
            for (int place = 0; place < 4; place++)
                for (int way = 0; way < 4; way++) {
                    int64_t sizes[4];
                    memcpy(sizes, to[i], sizeof sizes);
                    sparta_tensor x = random_floats(DIMS(2, 3, 9, 11), 4);
                    if (way & 2) ((float *)x.data)[17] = INFINITY;
                    const sparta_tensor in[] = {x, F32(region, 8), absent, I64(sizes, 4)};
                    const sparta_tensor out = sparta_tensor_view(SPARTA_F32, 4, sizes, NULL);
                    const sp_attrs *attrs = ATTRS(
                        STRING("mode", modes[mode]), STRING("coordinate_transformation_mode", places[place]),
                        STRING("nearest_mode", "floor"), FLOAT("extrapolation_value", 7),
                        INT("antialias", way & 1), INT("exclude_outside", way & 1));
                    twin(SP_OP_Resize, attrs, 4, in, 1, &out, sp_quick_Resize, true);
                    sp_free(cx, x.data);
                }
}

/* Integers are copied by nearest, and left to the reference where they would be mixed. */
static void resize_integers(void **state)
{
    (void)state;
    int32_t x[6] = {1, -2, INT32_MAX, 4, 5, 6};
    int64_t sizes[] = {4, 5};
    const sparta_tensor in[] = {sparta_tensor_view(SPARTA_I32, DIMS(2, 3), x), absent, absent, I64(sizes, 2)};
    const sparta_tensor out = sparta_tensor_view(SPARTA_I32, DIMS(4, 5), NULL);
    twin(SP_OP_Resize, ATTRS(STRING("mode", "nearest")), 4, in, 1, &out, sp_quick_Resize, true);
    twin(SP_OP_Resize, ATTRS(STRING("mode", "linear")), 4, in, 1, &out, sp_quick_Resize, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools),           cmocka_unit_test(declined),
        cmocka_unit_test(whole_planes),    cmocka_unit_test(conv),
        cmocka_unit_test(conv_large),      cmocka_unit_test(resize),
        cmocka_unit_test(resize_integers),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
