/* Taking a call off the dispatcher's stack; arguments as views; results, threads, workspaces. */
#include "box.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- types */
/* torch's number of each type that we take, asked for once. */
static struct {
    sparta_dtype ours;
    int32_t torch;
} types[] = {{SPARTA_F32, 0}, {SPARTA_F16, 0}, {SPARTA_BF16, 0},
             {SPARTA_F64, 0}, {SPARTA_I32, 0}, {SPARTA_BOOL, 0}};
enum { TYPES = sizeof types / sizeof *types };
static int32_t cpu, cuda, row_major;

void sp_torch_box_start(void)
{
    int32_t (*const number[TYPES])(void) = {
        sp_torch.aoti_torch_dtype_float32,  sp_torch.aoti_torch_dtype_float16,
        sp_torch.aoti_torch_dtype_bfloat16, sp_torch.aoti_torch_dtype_float64,
        sp_torch.aoti_torch_dtype_int32,    sp_torch.aoti_torch_dtype_bool};
    for (int i = 0; i < TYPES; i++) types[i].torch = number[i]();
    cpu = sp_torch.aoti_torch_device_type_cpu();
    cuda = sp_torch.aoti_torch_device_type_cuda();
    row_major = sp_torch.aoti_torch_memory_format_contiguous_format();
}

static bool type_of(int32_t torch, sparta_dtype *out)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].torch == torch) {
            *out = types[i].ours;
            return true;
        }
    return false;
}

static int32_t torch_type(sparta_dtype ours)
{
    int i = 0;
    while (types[i].ours != ours) i++;
    return types[i].torch;
}

/* ---------------------------------------------------------------- a call */
bool sp_torch_fail(sp_torch_call *call, sparta_status status, const char *format, ...)
{
    call->status = status;
    va_list list;
    va_start(list, format);
    vsnprintf(call->message, sizeof call->message, format, list);
    va_end(list);
    return false;
}

/* Why the last function of torch failed; NULL where it does not say. */
static const char *torchs_words(void)
{
    const char *why = sp_torch.torch_exception_get_what_without_backtrace
                          ? sp_torch.torch_exception_get_what_without_backtrace()
                          : NULL;
    return why && *why ? why : NULL;
}

/* For a function of torch that failed, which we did not expect. */
static bool torch_failed(sp_torch_call *call, const char *what)
{
    const char *why = torchs_words();
    if (!why) return sp_torch_fail(call, SPARTA_E_INTERNAL, "torch could not %s", what);
    return sp_torch_fail(call, SPARTA_E_INTERNAL, "torch could not %s: %.*s", what, (int)strcspn(why, "\n"),
                         why);
}

static bool no_memory(sp_torch_call *call, const char *what)
{
    if (!call->device) return sp_torch_fail(call, SPARTA_E_MEMORY, "no memory for %s", what);
    return sp_torch_fail(call, SPARTA_E_MEMORY, "no memory on cuda:%d for %s", call->device - 1, what);
}

/* What torch says of a GPU without memory. */
#define LACK "out of memory"

/* For memory that torch did not give. Not every failure of a GPU is a lack of it: an error of a kernel before may come up here. */
static bool not_made(sp_torch_call *call, const char *what)
{
    const char *why = torchs_words();
    return call->device && why && !strstr(why, LACK) ? torch_failed(call, "make a tensor")
                                                     : no_memory(call, what);
}

/* The argument in its slot: of a tensor or none, the slot points to a cell on the heap. */
static torch_value value_in(char kind, torch_value slot)
{
    return kind == '?' && slot ? *(torch_value *)slot : slot;
}

static void free_cell(torch_value *cell)
{
    if (sp_torch.torch_delete_stable_ivalue)
        sp_torch.torch_delete_stable_ivalue(cell);
    else
        sp_torch.operator_delete(cell);
}

/* What an operator made on its way. */
static void drop(sp_torch_call *call, bool result)
{
    for (int i = 0; i < call->temporaries; i++) sp_torch.aoti_torch_delete_tensor_object(call->temporary[i]);
    call->temporaries = 0;
    if (result && call->result) sp_torch.aoti_torch_delete_tensor_object(call->result);
}

static void release(const sp_torch_call *call, torch_value *stack)
{
    for (int i = 0; call->arguments[i]; i++) {
        if (!strchr("T?", call->arguments[i]) || !stack[i]) continue;
        sp_torch.aoti_torch_delete_tensor_object((torch_tensor)call->value[i]);
        if (call->arguments[i] == '?') free_cell((torch_value *)stack[i]);
    }
}

/* What is on no device: None, which the dispatcher lets through where another argument is a tensor. */
static bool no_tensor(sp_torch_call *call, const char *text)
{
    return sp_torch_fail(call, SPARTA_E_USAGE, "%s is None; give a tensor", text);
}

/* Where the first argument is, which is a tensor. */
static bool find_device(sp_torch_call *call)
{
    torch_tensor first = (torch_tensor)call->value[0];
    int32_t device, index = 0;
    if (sp_torch.aoti_torch_get_device_type(first, &device)) return no_tensor(call, "the first argument");
    if (device != cpu && sp_torch.aoti_torch_get_device_index(first, &index))
        return torch_failed(call, "look into a tensor");
    call->device = device == cpu ? 0 : 1 + index;
    return device == cpu || device == cuda ||
           sp_torch_fail(call, SPARTA_E_DTYPE,
                         "the first argument is neither on the CPU nor on CUDA, where others are");
}

bool sp_torch_untaken(const sp_torch_call *call)
{
    if (!call->device) return false;
    if (call->status == SPARTA_E_DEVICE) return sparta_gpus() < call->device;
    return call->status == SPARTA_E_UNSUPPORTED || call->status == SPARTA_E_COMPILER;
}

/* Why no kernel runs on a GPU, of the first call that found out; written before `told` is set. */
static char problem[SP_TORCH_MESSAGE];
static atomic_bool found, told;

const char *sp_torch_problem(void);

/* For Python: NULL where there is none, or none was met. */
__attribute__((visibility("default"))) const char *sp_torch_problem(void)
{
    return atomic_load(&told) ? problem : NULL;
}

void sp_torch_tell(const sp_torch_call *call)
{
    torch_value stack[1] = {0};
    if (call->status == SPARTA_E_UNSUPPORTED || atomic_exchange(&found, true)) return;
    memcpy(problem, call->message, sizeof problem);
    atomic_store(&told, true);
    (void)sp_torch.torch_call_dispatcher("sparta::tell", "", stack, TORCH_FLOOR);
}

static void complain(const sp_torch_call *call)
{
    char text[SP_TORCH_MESSAGE + 64];
    snprintf(text, sizeof text, "%s: %s [%s]", call->name, call->message, sparta_status_name(call->status));
    /* Nothing is ours any more. */
    sp_torch.aoti_torch_check(false, call->name, __FILE__, __LINE__, text);
}

void sp_torch_box(const char *name, const char *arguments, sp_torch_function function, const char *dense,
                  torch_value *stack)
{
    sp_torch_call call;
    call.name = name;
    call.arguments = arguments;
    call.temporaries = 0;
    call.result = NULL;
    for (int i = 0; arguments[i]; i++) call.value[i] = value_in(arguments[i], stack[i]);
    const bool done = find_device(&call) && function(&call);
    drop(&call, !done);
    const bool untaken = !done && sp_torch_untaken(&call);
    if (untaken) sp_torch_tell(&call);
    if (untaken && dense) {
        /* The dispatcher takes over what is on the stack, even when it fails. */
        if (!sp_torch.torch_call_dispatcher(dense, "", stack, TORCH_FLOOR)) return;
        torch_failed(&call, "run the dense product");
        if (strstr(call.message, LACK)) no_memory(&call, "the dense product");
        complain(&call);
    }
    release(&call, stack);
    if (!done) complain(&call);
    stack[0] = (torch_value)call.result;
}

/* ---------------------------------------------------------------- arguments */
int64_t sp_torch_integer(const sp_torch_call *call, int k)
{
    return (int64_t)call->value[k];
}

double sp_torch_float(const sp_torch_call *call, int k)
{
    double value;
    memcpy(&value, &call->value[k], sizeof value);
    return value;
}

bool sp_torch_truth(const sp_torch_call *call, int k)
{
    return (call->value[k] & 0xff) != 0;
}

bool sp_torch_given(const sp_torch_call *call, int k)
{
    return call->value[k] != 0;
}

static bool look(sp_torch_call *call, torch_tensor handle, sp_torch_array *out)
{
    int64_t *size, *stride;
    const void *data;
    if (sp_torch.aoti_torch_get_dim(handle, &out->rank) || sp_torch.aoti_torch_get_sizes(handle, &size) ||
        sp_torch.aoti_torch_get_strides(handle, &stride) || sp_torch.torch_get_const_data_ptr(handle, &data))
        return torch_failed(call, "look into a tensor");
    out->handle = handle;
    out->size = size;
    out->stride = stride;
    out->data = (void *)data;
    return true;
}

bool sp_torch_array_of(sp_torch_call *call, int k, const char *text, sp_torch_array *out)
{
    torch_tensor handle = (torch_tensor)call->value[k];
    int32_t device, index = 0, type;
    if (sp_torch.aoti_torch_get_device_type(handle, &device)) return no_tensor(call, text);
    if ((call->device && sp_torch.aoti_torch_get_device_index(handle, &index)) ||
        sp_torch.aoti_torch_get_dtype(handle, &type))
        return torch_failed(call, "look into a tensor");
    /* The dispatcher chooses us by one argument; the others may lie anywhere. */
    if (device != (call->device ? cuda : cpu) || (call->device && call->device != 1 + index)) {
        if (!call->device)
            return sp_torch_fail(call, SPARTA_E_DTYPE, "%s is not on the CPU, where the others are", text);
        return sp_torch_fail(call, SPARTA_E_DTYPE, "%s is not on cuda:%d, where the others are", text,
                             call->device - 1);
    }
    if (!type_of(type, &out->dtype))
        return sp_torch_fail(
            call, SPARTA_E_DTYPE,
            "%s has a type that is not taken; values are float32, float64, bfloat16 or float16, "
            "pos and crd int32, keep bool",
            text);
    out->text = text;
    return look(call, handle, out);
}

bool sp_torch_index_of(sp_torch_call *call, int k, const char *text, int rank, sparta_dtype dtype,
                       sparta_tensor *out)
{
    sp_torch_array array;
    bool dense;
    if (!sp_torch_array_of(call, k, text, &array)) return false;
    if (sp_torch.aoti_torch_is_contiguous(array.handle, &dense))
        return torch_failed(call, "look into a tensor");
    if (array.dtype != dtype || array.rank != rank || !dense)
        return sp_torch_fail(call, array.dtype != dtype ? SPARTA_E_DTYPE : SPARTA_E_SHAPE,
                             "%s is %s of %lld dims%s; it must be contiguous %s of %d", text,
                             sparta_dtype_name(array.dtype), (long long)array.rank,
                             dense ? "" : ", not contiguous", sparta_dtype_name(dtype), rank);
    *out = sp_torch_rows(call, dtype, rank, array.size, array.data);
    return true;
}

bool sp_torch_make_contiguous(sp_torch_call *call, sp_torch_array *array)
{
    bool dense;
    torch_tensor handle;
    if (sp_torch.aoti_torch_is_contiguous(array->handle, &dense))
        return torch_failed(call, "look into a tensor");
    if (dense) return true;
    if (sp_torch.aoti_torch_new_tensor_handle(array->handle, &handle))
        return torch_failed(call, "share a tensor");
    /* The dispatcher takes over what it is given, even when it fails. */
    torch_value stack[] = {(torch_value)handle, (torch_value)row_major};
    if (sp_torch.torch_call_dispatcher("aten::contiguous", "", stack, TORCH_FLOOR))
        return torch_failed(call, "copy a tensor");
    call->temporary[call->temporaries++] = (torch_tensor)stack[0];
    return look(call, (torch_tensor)stack[0], array);
}

sparta_tensor sp_torch_view(const sp_torch_call *call, const sp_torch_array *array)
{
    sparta_tensor view = {
        .dtype = array->dtype, .rank = (int)array->rank, .data = array->data, .device = call->device};
    memcpy(view.dim, array->size, (size_t)array->rank * sizeof *view.dim);
    memcpy(view.stride, array->stride, (size_t)array->rank * sizeof *view.stride);
    return view;
}

sparta_tensor sp_torch_rows(const sp_torch_call *call, sparta_dtype dtype, int rank, const int64_t *size,
                            void *data)
{
    sparta_tensor view = sparta_tensor_view(dtype, rank, size, data);
    view.device = call->device;
    return view;
}

/* ---------------------------------------------------------------- results */
/* Memory of this call's device. */
static bool make(const sp_torch_call *call, int64_t rank, const int64_t *size, const int64_t *stride,
                 sparta_dtype dtype, torch_tensor *out)
{
    return !sp_torch.aoti_torch_empty_strided(rank, size, stride, torch_type(dtype),
                                              call->device ? cuda : cpu, call->device ? call->device - 1 : 0,
                                              out);
}

bool sp_torch_make_result(sp_torch_call *call, sparta_dtype dtype, int64_t rank, const int64_t *size,
                          void **data)
{
    int64_t stride[SP_TORCH_RANK], step = 1;
    for (int64_t i = rank - 1; i >= 0; i--) {
        stride[i] = step;
        if (size[i] > 0 && __builtin_mul_overflow(step, size[i], &step)) step = INT64_MAX;
    }
    if (step > INT64_MAX / 8)
        return sp_torch_fail(call, SPARTA_E_RANGE, "the result would have more elements than a tensor can");
    if (!make(call, rank, size, stride, dtype, &call->result))
        return not_made(call, "the result, or it is too large");
    if (sp_torch.torch_get_mutable_data_ptr(call->result, data))
        return torch_failed(call, "look into a tensor");
    return true;
}

/* ---------------------------------------------------------------- threads and workspaces */
typedef struct share {
    void (*fn)(void *arg, int i);
    void *arg;
} share;

static void run_share(int64_t begin, int64_t end, void *context)
{
    const share *s = context;
    for (int64_t i = begin; i < end; i++) s->fn(s->arg, (int)i);
}

/* Each thread keeps a workspace. It goes with its thread; a forked child has its parent's, as all memory. */
typedef struct workspace {
    void *memory;
    size_t bytes;
    bool stays;  /* until its thread ends, which frees it */
    bool failed; /* torch's threads did, in this call */
} workspace;
static const size_t kept = 64 << 20;
static __thread workspace mine;
static pthread_key_t at_exit;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forget(void *memory)
{
    (void)memory;
    free(mine.memory);
    mine = (workspace){0};
}

static void make_key(void)
{
    has_key = pthread_key_create(&at_exit, forget) == 0;
}

static bool reserve(size_t bytes)
{
    if (bytes <= mine.bytes) return true;
    forget(NULL);
    if (posix_memalign(&mine.memory, 64, bytes)) mine.memory = NULL;
    mine.bytes = mine.memory ? bytes : 0;
    pthread_once(&once, make_key);
    mine.stays = has_key && pthread_setspecific(at_exit, mine.memory) == 0;
    return mine.memory != NULL;
}

/* sparta_launch's threads are torch's. */
static void parallel_for(void *host, int n, void (*fn)(void *arg, int i), void *arg)
{
    (void)host;
    share s = {fn, arg};
    if (sp_torch.torch_parallel_for(0, n, 1, run_share, &s)) mine.failed = true;
}

/* torch's setting for products of f32 on CUDA, which Python knows. */
static bool rounds_to_tf32(void)
{
    torch_value stack[1] = {0};
    return !sp_torch.torch_call_dispatcher("sparta::tf32", "", stack, TORCH_FLOOR) && (stack[0] & 0xff);
}

bool sp_torch_launch(sp_torch_call *call, sparta_dtype dtype, sparta_launch *out)
{
    *out = (sparta_launch){.size = sizeof *out};
    if (call->device) {
        out->tf32 = dtype == SPARTA_F32 && rounds_to_tf32();
        out->own = 1; /* what no kernel of ours takes is torch's dense product, which differentiates itself */
        return !sp_torch.aoti_torch_get_current_cuda_stream(call->device - 1, &out->stream) ||
               torch_failed(call, "name its current stream");
    }
    uint32_t n = 1;
    if (sp_torch.torch_get_num_threads(&n) || n < 1 || n > 1024) n = 1;
    out->parallel_for = n > 1 ? parallel_for : NULL;
    out->threads = (int)n;
    return true;
}

/* Of the stream: freed when the call returns, which the allocator orders after the kernels. */
static bool reserve_there(sp_torch_call *call, size_t bytes, sparta_launch *launch)
{
    const int64_t words = (int64_t)((bytes + 3) / 4), stride = 1;
    torch_tensor memory;
    if (!bytes) return true;
    if (!make(call, 1, &words, &stride, SPARTA_I32, &memory)) return not_made(call, "a workspace");
    call->temporary[call->temporaries++] = memory;
    launch->workspace_bytes = (size_t)words * 4;
    return !sp_torch.torch_get_mutable_data_ptr(memory, &launch->workspace) ||
           torch_failed(call, "look into a tensor");
}

bool sp_torch_reserve(sp_torch_call *call, size_t bytes, sparta_launch *launch)
{
    mine.failed = false;
    if (call->device) return reserve_there(call, bytes, launch);
    if (!reserve(bytes)) return no_memory(call, "a workspace");
    launch->workspace = mine.memory;
    launch->workspace_bytes = mine.bytes;
    return true;
}

bool sp_torch_launched(sp_torch_call *call)
{
    if (call->device) return true;
    bool failed = mine.failed;
    if (mine.bytes > kept || !mine.stays) forget(NULL);
    return !failed || torch_failed(call, "run its threads");
}
