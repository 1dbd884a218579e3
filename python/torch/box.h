/* box: one call of an operator, between torch's dispatcher and sparta.h.
 *
 *     stack of handles -> sp_torch_box -> the operator's function -> sparta_blocks_...
 *                            takes          looks and makes           computes
 *
 * The dispatcher gives away every handle on its stack, and an error leaves by an exception of C++ that passes through our frames. So one place
 * takes what is on the stack, calls the operator's function, deletes everything (arguments, temporaries, on failure the result), and only
 * then raises RuntimeError("sparta::linear: x has 5 features; the weight takes 4 [E_SHAPE]"), which _torch.py makes a ValueError. Operators own
 * nothing, and fail by `return sp_torch_fail(call, ...)`.
 *
 * All tensors of a call are where its first is: on the CPU, or on one GPU. There the work is queued on torch's current stream, and workspaces are torch's
 * tensors: its allocator gives their memory to nobody before the stream is past the call, and knows of graphs that are captured. What the library has no
 * kernel for on a GPU goes on, with the same arguments, to the operator NAME_dense, which is torch's own product of the unpacked matrix (_reference.py).
 */
#ifndef SPARTA_TORCH_BOX_H
#define SPARTA_TORCH_BOX_H
#include "shim.h"
#include "sparta.h"

enum { SP_TORCH_ARGUMENTS = 12, SP_TORCH_TEMPORARIES = 4, SP_TORCH_RANK = 64, SP_TORCH_MESSAGE = 512 };

typedef struct sp_torch_call {
    const char *name; /* "sparta::linear" */
    const char *
        arguments; /* a letter for each: T a tensor, ? a tensor or none, i an integer, b a truth, f a float */
    torch_value value[SP_TORCH_ARGUMENTS];
    int device; /* of all tensors, as sparta_tensor counts: 0 the CPU, n CUDA's GPU n - 1 */
    torch_tensor temporary[SP_TORCH_TEMPORARIES];
    int temporaries;
    torch_tensor result;
    sparta_status status; /* of a failure, with its message */
    char message[SP_TORCH_MESSAGE];
} sp_torch_call;

typedef bool (*sp_torch_function)(sp_torch_call *call);

/* Once, after the shim is loaded: torch's numbers of types and devices. */
void sp_torch_box_start(void);
/* `dense`: the operator that runs what a GPU has no kernel for; NULL: none does. */
void sp_torch_box(const char *name, const char *arguments, sp_torch_function function, const char *dense,
                  torch_value *stack);

/* Sets the message and its kind; false. */
bool sp_torch_fail(sp_torch_call *call, sparta_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Did it fail only because this GPU, or this driver, has no kernel for it? */
bool sp_torch_untaken(const sp_torch_call *call);
/* Of such a failure: where no call can be taken, since nothing compiles or no driver answers, says so in Python, once in a process. */
void sp_torch_tell(const sp_torch_call *call);

/* ---------------------------------------------------------------- arguments
 * An argument's view: where it lies, its type and sizes. `text` is its name in messages. */
typedef struct sp_torch_array {
    torch_tensor handle;
    const char *text;
    sparta_dtype dtype;
    int64_t rank;
    const int64_t *size, *stride; /* in elements; torch's own memory */
    void *data;
} sp_torch_array;

int64_t sp_torch_integer(const sp_torch_call *call, int k);
double sp_torch_float(const sp_torch_call *call, int k);
bool sp_torch_truth(const sp_torch_call *call, int k);
bool sp_torch_given(const sp_torch_call *call, int k);
/* A tensor where the others are, of one of our types. */
bool sp_torch_array_of(sp_torch_call *call, int k, const char *text, sp_torch_array *out);
/* The same with `rank` dims of type `dtype`, and row-major: what is not is an error. */
bool sp_torch_index_of(sp_torch_call *call, int k, const char *text, int rank, sparta_dtype dtype,
                       sparta_tensor *out);
/* A row-major copy in its place, where it is not. */
bool sp_torch_make_contiguous(sp_torch_call *call, sp_torch_array *array);
/* As the library takes it; at most SPARTA_RANK dims. */
sparta_tensor sp_torch_view(const sp_torch_call *call, const sp_torch_array *array);
/* Row-major memory of this call's device. */
sparta_tensor sp_torch_rows(const sp_torch_call *call, sparta_dtype dtype, int rank, const int64_t *size,
                            void *data);

/* ---------------------------------------------------------------- results and work */
/* The result, row-major. */
bool sp_torch_make_result(sp_torch_call *call, sparta_dtype dtype, int64_t rank, const int64_t *size,
                          void **data);
/* A launch with torch's threads (the library knows how many are worth waking), or on torch's current stream. `dtype`: of the product. */
bool sp_torch_launch(sp_torch_call *call, sparta_dtype dtype, sparta_launch *out);
/* A workspace of so many bytes at least: this thread's, or the stream's. */
bool sp_torch_reserve(sp_torch_call *call, size_t bytes, sparta_launch *launch);
/* After it: did torch's threads do it? The workspace is kept for the next call, unless it is large. */
bool sp_torch_launched(sp_torch_call *call);
#endif
