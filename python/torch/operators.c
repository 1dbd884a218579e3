/* The operators: each looks at its arguments, makes the result and calls sparta.h; and their registration. What the library checks (sizes of the
 * pattern, indices, types that agree) is not checked here. */
#include "box.h"
#include <stdio.h>
#include <string.h>

typedef long long ll;

/* ---------------------------------------------------------------- the pattern */
enum { SIDE = 65536 }; /* of a block, at most */

static bool inside(int64_t n, int64_t least, int64_t most)
{
    return least <= n && n <= most;
}

/* The library refuses these sizes too, but only once there is a result, which torch would have to make of them.
 * pos and crd are arguments k and k + 1; rows, cols, height and width s to s + 3. */
static bool pattern_of(sp_torch_call *call, int k, int s, sparta_blocks *out)
{
    *out = (sparta_blocks){.size = sizeof *out,
                           .rows = sp_torch_integer(call, s),
                           .cols = sp_torch_integer(call, s + 1),
                           .height = sp_torch_integer(call, s + 2),
                           .width = sp_torch_integer(call, s + 3),
                           .batch = 1,
                           .patterns = 1};
    if (!inside(out->rows, 0, INT32_MAX) || !inside(out->cols, 0, INT32_MAX) ||
        !inside(out->height, 1, SIDE) || !inside(out->width, 1, SIDE))
        return sp_torch_fail(call, SPARTA_E_RANGE,
                             "a matrix of %lld x %lld in blocks of %lld x %lld is none: rows and cols are 0 "
                             "to %d, height and width 1 to %d",
                             (ll)out->rows, (ll)out->cols, (ll)out->height, (ll)out->width, INT32_MAX, SIDE);
    return sp_torch_index_of(call, k, "pos", 1, SPARTA_I32, &out->pos) &&
           sp_torch_index_of(call, k + 1, "crd", 1, SPARTA_I32, &out->crd);
}

/* The same with keep and index, arguments k + 2 and k + 3. */
static bool blocks_of(sp_torch_call *call, int k, int s, sparta_blocks *out)
{
    if (!pattern_of(call, k, s, out)) return false;
    if (sp_torch_given(call, k + 2) && !sp_torch_index_of(call, k + 2, "keep", 3, SPARTA_BOOL, &out->keep))
        return false;
    if (!call->device || !sp_torch_given(call, k + 3)) return true;
    if (!sp_torch_index_of(call, k + 3, "index", 1, SPARTA_I32, &out->index)) return false;
    if (!out->index.dim[0]) out->index.rank = 0; /* what make_index gives where there is none */
    return true;
}

/* The same with patterns, argument s + 4. */
static bool patterns_of(sp_torch_call *call, int k, int s, sparta_blocks *out)
{
    if (!blocks_of(call, k, s, out)) return false;
    out->patterns = sp_torch_integer(call, s + 4);
    return inside(out->patterns, 1, INT32_MAX) ||
           sp_torch_fail(call, SPARTA_E_RANGE, "patterns is %lld; it must be 1 to %d", (ll)out->patterns,
                         INT32_MAX);
}

/* Argument k, row-major, as the values of the pattern. They say how many matrices there are, unless all share one. */
static bool values_of(sp_torch_call *call, int k, const char *text, sparta_blocks *blocks, sparta_tensor *out)
{
    sp_torch_array array;
    if (!sp_torch_array_of(call, k, text, &array) || !sp_torch_make_contiguous(call, &array)) return false;
    if (array.rank != 3 && (array.rank != 4 || blocks->patterns != 1))
        return sp_torch_fail(call, SPARTA_E_SHAPE,
                             "%s has %lld dims; with %lld patterns it must be %s(blocks, height, width)",
                             text, (ll)array.rank, (ll)blocks->patterns,
                             blocks->patterns == 1 ? "(batch, blocks, height, width) or " : "");
    blocks->batch = array.rank == 4 ? array.size[0] : blocks->patterns;
    *out = sp_torch_view(call, &array);
    return true;
}

/* Argument k as it is, of three dims. */
static bool batch_of(sp_torch_call *call, int k, const char *text, sparta_tensor *out)
{
    sp_torch_array array;
    if (!sp_torch_array_of(call, k, text, &array)) return false;
    if (array.rank != 3)
        return sp_torch_fail(call, SPARTA_E_SHAPE, "%s has %lld dims; it must be (batch, ., features)", text,
                             (ll)array.rank);
    *out = sp_torch_view(call, &array);
    return true;
}

/* torch's threads or stream, and the workspace for a verb with these operands. */
static bool launch_of(sp_torch_call *call, sparta_verb verb, const sparta_blocks *s, const sparta_tensor *x,
                      const sparta_tensor *y, sparta_launch *out)
{
    return sp_torch_launch(call, s->values.dtype, out) &&
           sp_torch_reserve(call, sparta_blocks_workspace(verb, s, x, y, out), out);
}

/* What a call of the library gave. Its message begins with its function, ours with the operator. */
static bool finish(sp_torch_call *call, sparta_status status)
{
    if (!sp_torch_launched(call)) return false;
    if (status == SPARTA_OK) return true;
    const char *words = strstr(call->message, ": ");
    if (words) memmove(call->message, words + 2, strlen(words + 2) + 1);
    call->status = status;
    return false;
}

/* ---------------------------------------------------------------- linear layers */
/* x (..., features) with everything before its last dim as one: (1, features, tokens), with a copy where its strides do not allow that. A GPU wants
 * features that lie side by side. */
static bool tokens_of(sp_torch_call *call, sp_torch_array *x, sparta_tensor *out)
{
    if (x->rank < 1 || x->rank > SP_TORCH_RANK)
        return sp_torch_fail(call, SPARTA_E_SHAPE, "x has %lld dims; it must have 1 to %d, (..., features)",
                             (ll)x->rank, SP_TORCH_RANK);
    bool none = false;
    for (int64_t i = 0; i < x->rank - 1; i++) none |= x->size[i] == 0;
    for (int copied = 0;; copied++) {
        int64_t tokens = 1, step = 0, i = x->rank - 2;
        for (; i >= 0; i--) {
            if (x->size[i] == 1) continue;
            if (tokens == 1)
                step = x->stride[i];
            else if (x->stride[i] != step * tokens)
                break;
            tokens *= x->size[i];
        }
        int64_t last = x->rank - 1;
        const bool beside = !call->device || x->stride[last] == 1 || x->size[last] <= 1;
        if ((i < 0 && beside) || none) {
            *out = (sparta_tensor){.dtype = x->dtype,
                                   .rank = 3,
                                   .dim = {1, x->size[last], none ? 0 : tokens},
                                   .stride = {0, x->stride[last], step},
                                   .device = call->device,
                                   .data = x->data};
            return true;
        }
        if (copied) return sp_torch_fail(call, SPARTA_E_SHAPE, "x has strides that are not understood");
        if (!sp_torch_make_contiguous(call, x)) return false;
    }
}

/* Argument k as a bias of so many elements, where it is given. */
static bool bias_of(sp_torch_call *call, int k, int64_t made, sparta_tensor *out,
                    sparta_multiply_options *options)
{
    sp_torch_array b;
    if (!sp_torch_given(call, k)) return true;
    if (!sp_torch_array_of(call, k, "bias", &b) || !sp_torch_make_contiguous(call, &b)) return false;
    if (b.rank != 1 || b.size[0] != made)
        return sp_torch_fail(call, SPARTA_E_SHAPE, "bias must be one dim of %lld", (ll)made);
    *out = sp_torch_view(call, &b);
    options->bias = out;
    return true;
}

/* The result for the tokens of x, with `made` features. */
static bool made_of(sp_torch_call *call, const sp_torch_array *x, const sparta_tensor *in, int64_t made,
                    sparta_tensor *out)
{
    int64_t size[SP_TORCH_RANK];
    memcpy(size, x->size, (size_t)x->rank * sizeof *size);
    size[x->rank - 1] = made;
    *out = (sparta_tensor){.dtype = in->dtype,
                           .rank = 3,
                           .dim = {1, made, in->dim[2]},
                           .stride = {0, 1, made},
                           .device = call->device};
    return sp_torch_make_result(call, in->dtype, x->rank, size, &out->data);
}

static bool features_fit(sp_torch_call *call, const sparta_tensor *in, int64_t features)
{
    return in->dim[1] == features ||
           sp_torch_fail(call, SPARTA_E_SHAPE, "x has %lld features; the weight takes %lld", (ll)in->dim[1],
                         (ll)features);
}

/* `bias` is the argument's place, or -1. */
static bool layer(sp_torch_call *call, int bias, int sizes, int turned)
{
    sparta_blocks w;
    sp_torch_array x;
    sparta_tensor in, added, out;
    if (!blocks_of(call, 2, sizes, &w) || !sp_torch_array_of(call, 0, "x", &x) || !tokens_of(call, &x, &in) ||
        !values_of(call, 1, "values", &w, &w.values))
        return false;
    w.batch = 1;
    int64_t features = turned ? w.rows : w.cols, made = turned ? w.cols : w.rows;
    if (!features_fit(call, &in, features)) return false;
    if (w.values.rank != 3)
        return sp_torch_fail(call, SPARTA_E_SHAPE, "values has 4 dims; it must be (blocks, height, width)");
    sparta_multiply_options options = {.size = sizeof options, .turned = turned};
    sparta_launch launch;
    sparta_verb verb = turned ? SPARTA_MULTIPLY_TURNED : SPARTA_MULTIPLY;
    if ((bias >= 0 && !bias_of(call, bias, made, &added, &options)) || !made_of(call, &x, &in, made, &out))
        return false;
    if (!launch_of(call, verb, &w, &in, &out, &launch)) return false;
    return finish(
        call, sparta_blocks_multiply(&w, &in, &out, &options, &launch, call->message, sizeof call->message));
}

static bool linear(sp_torch_call *call)
{
    return layer(call, 6, 7, 0);
}

static bool linear_turned(sp_torch_call *call)
{
    return layer(call, -1, 6, 1);
}

/* ---------------------------------------------------------------- batches */
static bool multiply(sp_torch_call *call)
{
    sparta_blocks s;
    sparta_tensor x, out;
    if (!patterns_of(call, 2, 6, &s) || !batch_of(call, 0, "x", &x) ||
        !values_of(call, 1, "values", &s, &s.values))
        return false;
    sparta_multiply_options options = {.size = sizeof options, .turned = sp_torch_truth(call, 11)};
    if (s.patterns == 1 && s.values.rank == 3) s.batch = x.dim[0];
    int64_t size[] = {s.batch, options.turned ? s.cols : s.rows, x.dim[2]};
    void *data;
    sparta_launch launch;
    if (!sp_torch_make_result(call, x.dtype, 3, size, &data)) return false;
    out = sp_torch_rows(call, x.dtype, 3, size, data);
    sparta_verb verb = options.turned ? SPARTA_MULTIPLY_TURNED : SPARTA_MULTIPLY;
    if (!launch_of(call, verb, &s, &x, &out, &launch)) return false;
    return finish(
        call, sparta_blocks_multiply(&s, &x, &out, &options, &launch, call->message, sizeof call->message));
}

static bool sample(sp_torch_call *call)
{
    sparta_blocks s;
    sparta_tensor a, c;
    if (!patterns_of(call, 2, 6, &s) || !batch_of(call, 0, "a", &a) || !batch_of(call, 1, "c", &c))
        return false;
    s.batch = s.patterns == 1 ? a.dim[0] : s.patterns;
    int64_t size[] = {s.batch, s.crd.dim[0], s.height, s.width};
    int shared = s.patterns == 1 ? 0 : 1;
    void *data;
    sparta_launch launch;
    if (!sp_torch_make_result(call, a.dtype, 4 - shared, size + shared, &data)) return false;
    s.values = sp_torch_rows(call, a.dtype, 4 - shared, size + shared, data);
    if (!launch_of(call, SPARTA_SAMPLE, &s, &a, &c, &launch)) return false;
    return finish(call, sparta_blocks_sample(&s, &a, &c, sp_torch_float(call, 11), &launch, call->message,
                                             sizeof call->message));
}

/* A result like the values. */
static bool values_like(sp_torch_call *call, const sparta_tensor *values, sparta_tensor *out)
{
    void *data;
    if (!sp_torch_make_result(call, values->dtype, values->rank, values->dim, &data)) return false;
    *out = sp_torch_rows(call, values->dtype, values->rank, values->dim, data);
    return true;
}

static bool softmax(sp_torch_call *call)
{
    sparta_blocks s;
    sparta_tensor out;
    sparta_launch launch;
    if (!patterns_of(call, 1, 5, &s) || !values_of(call, 0, "values", &s, &s.values) ||
        !values_like(call, &s.values, &out) || !launch_of(call, SPARTA_SOFTMAX, &s, NULL, NULL, &launch))
        return false;
    return finish(call, sparta_blocks_softmax(&s, sp_torch_float(call, 10), &out, &launch, call->message,
                                              sizeof call->message));
}

static bool softmax_gradient(sp_torch_call *call)
{
    sparta_blocks s;
    sparta_tensor gradient, out;
    sparta_launch launch;
    if (!patterns_of(call, 2, 6, &s) || !values_of(call, 1, "gradient", &s, &gradient) ||
        !values_of(call, 0, "probabilities", &s, &s.values) || !values_like(call, &s.values, &out) ||
        !launch_of(call, SPARTA_SOFTMAX_GRADIENT, &s, NULL, NULL, &launch))
        return false;
    return finish(call, sparta_blocks_softmax_gradient(&s, sp_torch_float(call, 11), &gradient, &out, &launch,
                                                       call->message, sizeof call->message));
}

/* ---------------------------------------------------------------- the index */
/* What GPU kernels follow in place of pos and crd; of no words on the CPU, and where none does. */
static bool make_index(sp_torch_call *call)
{
    sparta_blocks s;
    sparta_launch launch;
    void *data;
    if (!pattern_of(call, 0, 2, &s)) return false;
    int64_t words = call->device ? sparta_blocks_index_words(&s) : 0;
    if (!sp_torch_make_result(call, SPARTA_I32, 1, &words, &data)) return false;
    if (!words) return true;
    const sparta_tensor made = sp_torch_rows(call, SPARTA_I32, 1, &words, data);
    if (!sp_torch_launch(call, SPARTA_F16, &launch)) return false;
    if (finish(call, sparta_blocks_index(&s, &made, &launch, call->message, sizeof call->message)))
        return true;
    if (!sp_torch_untaken(call)) return false;
    sp_torch_tell(call);
    sp_torch.aoti_torch_delete_tensor_object(call->result);
    call->result = NULL;
    words = 0;
    return sp_torch_make_result(call, SPARTA_I32, 1, &words, &data);
}

/* ---------------------------------------------------------------- packed weights: 2:4 (half), and unstructured for few tokens (bits) */
static bool weight_of(sp_torch_call *call, sp_torch_array *w)
{
    if (!sp_torch_array_of(call, 0, "weight", w)) return false;
    if (w->rank != 2)
        return sp_torch_fail(call, SPARTA_E_SHAPE, "weight has %lld dims; it must be (rows, cols)",
                             (ll)w->rank);
    return sp_torch_make_contiguous(call, w);
}

typedef sparta_status packer(const sparta_tensor *weight, const sparta_tensor *packed,
                             const sparta_launch *launch, char *message, size_t message_size);
static bool pack(sp_torch_call *call, const sp_torch_array *w, int64_t bytes, packer *run)
{
    const sparta_tensor weight = sp_torch_view(call, w);
    const int64_t words = bytes / 4;
    sparta_launch launch;
    void *data;
    if (!sp_torch_make_result(call, SPARTA_I32, 1, &words, &data)) return false;
    const sparta_tensor packed = sp_torch_rows(call, SPARTA_I32, 1, &words, data);
    if (!sp_torch_launch(call, w->dtype, &launch)) return false;
    return finish(call, run(&weight, &packed, &launch, call->message, sizeof call->message));
}

static bool half_pack(sp_torch_call *call)
{
    sp_torch_array w;
    return weight_of(call, &w) &&
           pack(call, &w, sparta_half_bytes(w.dtype, w.size[0], w.size[1]), sparta_half_pack);
}

static bool bits_pack(sp_torch_call *call)
{
    sp_torch_array w;
    const int64_t pairs = sp_torch_integer(call, 1);
    if (!weight_of(call, &w)) return false;
    const int64_t most = w.size[0] * ((w.size[1] + 1) / 2);
    if (!inside(pairs, 0, most))
        return sp_torch_fail(call, SPARTA_E_RANGE, "pairs is %lld; a weight of %lld x %lld has 0 to %lld",
                             (ll)pairs, (ll)w.size[0], (ll)w.size[1], (ll)most);
    return pack(call, &w, sparta_bits_bytes(w.dtype, w.size[0], w.size[1], pairs), sparta_bits_pack);
}

typedef sparta_status packed_product(const sparta_tensor *packed, int64_t rows, int64_t cols,
                                     const sparta_tensor *x, const sparta_tensor *out,
                                     const sparta_multiply_options *options, const sparta_launch *launch,
                                     char *message, size_t message_size);
static bool packed_linear(sp_torch_call *call, packed_product *run)
{
    sp_torch_array x;
    sparta_tensor in, out, packed, added;
    sparta_launch launch;
    sparta_multiply_options options = {.size = sizeof options};
    const int64_t rows = sp_torch_integer(call, 3), cols = sp_torch_integer(call, 4);
    if (!inside(rows, 1, INT32_MAX) || !inside(cols, 1, INT32_MAX))
        return sp_torch_fail(call, SPARTA_E_RANGE,
                             "a weight of %lld x %lld is none: rows and cols are 1 to %d", (ll)rows, (ll)cols,
                             INT32_MAX);
    if (!sp_torch_array_of(call, 0, "x", &x) || !tokens_of(call, &x, &in) ||
        !sp_torch_index_of(call, 1, "packed", 1, SPARTA_I32, &packed) || !features_fit(call, &in, cols) ||
        !bias_of(call, 2, rows, &added, &options) || !made_of(call, &x, &in, rows, &out) ||
        !sp_torch_launch(call, in.dtype, &launch))
        return false;
    return finish(
        call, run(&packed, rows, cols, &in, &out, &options, &launch, call->message, sizeof call->message));
}

static bool half_linear(sp_torch_call *call)
{
    return packed_linear(call, sparta_half_multiply);
}

static bool bits_linear(sp_torch_call *call)
{
    return packed_linear(call, sparta_bits_multiply);
}

/* ---------------------------------------------------------------- registration */
#define BOXED(name, arguments, dense)                                                                        \
    static void name##_boxed(torch_value *stack, uint64_t inputs, uint64_t outputs)                          \
    {                                                                                                        \
        (void)inputs, (void)outputs;                                                                         \
        sp_torch_box("sparta::" #name, arguments, name, dense, stack);                                       \
    }
#define OPERATOR(name, arguments, schema) BOXED(name, arguments, NULL)
#define ON_GPU(name, arguments, schema)   BOXED(name, arguments, "sparta::" #name "_dense")
#define MAKER(name, arguments, schema)    BOXED(name, arguments, NULL)
#include "operators.def"
#undef BOXED

static const struct {
    const char *name, *schema;
    torch_boxed boxed; /* NULL: Python has it */
    bool cuda;
} operators[] = {
#define ROW(name, schema, boxed, cuda) {name, name "(" schema ") -> Tensor", boxed, cuda},
#define BOTH(name, schema, cuda)                                                                             \
    ROW(#name, schema, name##_boxed, cuda) ROW(#name "_run", schema, name##_boxed, cuda)
#define OPERATOR(name, arguments, schema) BOTH(name, schema, false)
#define ON_GPU(name, arguments, schema)   BOTH(name, schema, true) ROW(#name "_dense", schema, NULL, false)
#define MAKER(name, arguments, schema)    ROW(#name, schema, name##_boxed, true)
#define ASKED(name, schema)               {#name, schema, NULL, false},
#include "operators.def"
#undef ROW
#undef BOTH
};

static int32_t define(torch_library library, const char *schema)
{
    if (!sp_torch.torch_library_def_with_tags || !sp_torch.torch_tag_pt2_compliant_tag)
        return sp_torch.aoti_torch_library_def(library, schema);
    int32_t tag = sp_torch.torch_tag_pt2_compliant_tag();
    return sp_torch.torch_library_def_with_tags(library, schema, &tag, 1);
}

/* The kernels of one device, after the schemas; false: torch refused *which. */
static bool implement(torch_library kernels, bool cuda, const char **which)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        *which = operators[i].name;
        if (!operators[i].boxed || (cuda && !operators[i].cuda)) continue;
        if (sp_torch.torch_library_impl(kernels, *which, operators[i].boxed, TORCH_FLOOR)) return false;
    }
    return true;
}

static bool define_all(torch_library schemas, const char **which)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        *which = operators[i].name;
        if (define(schemas, operators[i].schema)) return false;
    }
    return true;
}

/* The library objects stay: an operator goes with its own. */
static const char *register_all(void)
{
    static char text[256];
    const char *which = sp_torch_shim_load();
    if (which) {
        snprintf(text, sizeof text, "torch 2.10 or newer is needed: no %s", which);
        return text;
    }
    sp_torch_box_start();
    const bool has_cuda = sp_torch.aoti_torch_get_current_cuda_stream != NULL;
    torch_library schemas, kernels, there;
    if (sp_torch.aoti_torch_library_init_def("sparta", __FILE__, __LINE__, &schemas) ||
        sp_torch.aoti_torch_library_init_impl("sparta", "CPU", __FILE__, __LINE__, &kernels) ||
        (has_cuda && sp_torch.aoti_torch_library_init_impl("sparta", "CUDA", __FILE__, __LINE__, &there)))
        return "the namespace sparta is taken in torch: is another copy of sparta loaded?";
    if (define_all(schemas, &which) && implement(kernels, false, &which) &&
        (!has_cuda || implement(there, true, &which)))
        return NULL;
    snprintf(text, sizeof text, "torch refused the operator %s", which);
    return text;
}

const char *sp_torch_register(void);

/* Once in a process: NULL, or what went wrong. Again: the same. The caller sees to it that one thread calls at a time. */
__attribute__((visibility("default"))) const char *sp_torch_register(void)
{
    static bool done;
    static const char *said;
    if (!done) said = register_all();
    done = true;
    return said;
}
