/* sparta: a model and what is sparse about it in; the same answer, faster, out.
 *
 *     sparta_ctx *cx = sparta_ctx_create(NULL);
 *     sparta_package *p;
 *     sparta_session *s;
 *     if (sparta_compile(cx, "bert.onnx", "bert.sparta", NULL) || sparta_package_open(cx, "bert.sparta", &p) ||
 *         sparta_session_create(cx, p, NULL, &s) || sparta_session_run(cx, s, inputs, 3, outputs, 1))
 *         puts(sparta_message(cx));
 *
 * docs/api.md goes through it in ten minutes. The rules:
 *
 *   status    every function that can fail returns one, and the compiler warns when it is not looked at; sparta_message(cx) says where,
 *             what and what to do. On failure outputs are as they were
 *   handles   are freed by their own *_free or *_close, which accept NULL, and before the context that made them
 *   threads   a context serves one thread at a time; an opened package may be shared by threads, each with its own context and sessions
 *   options   start with their size, so that they can grow: begin with SPARTA_OPTIONS(type), in C and in C++, or pass NULL for the defaults.
 *             A size of 0 is refused. 0 and NULL are the default of every field. Messages name a field as "options.dims"
 *   structs   that the library hands out by pointer may get more fields at their end
 */
#ifndef SPARTA_H
#define SPARTA_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header; sparta_version() and sparta_version_number() are those of the library that runs. */
#define SPARTA_VERSION       "0.1.0"
#define SPARTA_VERSION_MAJOR 0
#define SPARTA_VERSION_MINOR 1
#define SPARTA_VERSION_PATCH 0
#define SPARTA_VERSION_NUMBER                                                                                \
    (SPARTA_VERSION_MAJOR * 10000 + SPARTA_VERSION_MINOR * 100 + SPARTA_VERSION_PATCH)

#if defined(__GNUC__)
#define SPARTA_API  __attribute__((visibility("default")))
#define SPARTA_MUST __attribute__((warn_unused_result))
#else
#define SPARTA_API
#define SPARTA_MUST
#endif

/* Options with nothing set but their size: sparta_compile_options o = SPARTA_OPTIONS(sparta_compile_options); */
#ifdef __cplusplus
extern "C++" {
template <class options> inline options sparta_options()
{
    options o = options();
    o.size = sizeof o;
    return o;
}
}
#define SPARTA_OPTIONS(type) (sparta_options<type>())
extern "C" {
#else
#define SPARTA_OPTIONS(type) ((type){.size = sizeof(type)})
#endif

typedef enum sparta_status {
    SPARTA_OK = 0,
    SPARTA_E_IO,          /* a file could not be read or written */
    SPARTA_E_FORMAT,      /* a file is not what it should be */
    SPARTA_E_SHAPE,       /* shapes do not fit */
    SPARTA_E_DTYPE,       /* types do not fit */
    SPARTA_E_RANGE,       /* an index is out of range */
    SPARTA_E_COMPILER,    /* the C compiler failed */
    SPARTA_E_USAGE,       /* wrong use: an option, an input name, a text */
    SPARTA_E_DIFFER,      /* answers differ */
    SPARTA_E_UNSUPPORTED, /* not supported */
    SPARTA_E_MEMORY,      /* out of memory or of its budget */
    SPARTA_E_LIMIT,       /* past a limit */
    SPARTA_E_CANCELLED,   /* cancelled */
    SPARTA_E_INTERNAL,    /* a bug in sparta */
    SPARTA_E_DEVICE,      /* a GPU or its driver failed */
} sparta_status;

/* ------------------------------------------------------------------ context */
typedef struct sparta_ctx sparta_ctx;

typedef struct sparta_ctx_options {
    size_t size;
    /* Bytes that everything this context holds may take together; 0: the smaller of 8 GiB and half of the machine's memory. */
    size_t max_memory;
    /* 1: no shortcut that differs on non-finite values. */
    int strict;
    /* Threads of the host: called instead of our own pool. It must call fn(arg, i) for each i in [0, n). */
    void (*parallel_for)(void *host, int n, void (*fn)(void *arg, int i), void *arg);
    void *host;
    /* Compiled kernels and tuning records; NULL: $XDG_CACHE_HOME/sparta or ~/.cache/sparta; "": none. */
    const char *cache_dir;
    /* Absolute path of the C compiler; NULL: cc as found in /usr/bin or /usr/local/bin; "": none. */
    const char *compiler;
    /* Models and packages are mapped, so that weights cost no memory twice; who writes into such a file changes what runs. 1: they are
     * copied when they are opened, within max_memory, and nothing that happens to the file matters afterwards. */
    int copy_files;
} sparta_ctx_options;

/* NULL: there is no memory, or the options have no size. */
SPARTA_API sparta_ctx *sparta_ctx_create(const sparta_ctx_options *options);
SPARTA_API void sparta_ctx_free(sparta_ctx *cx);
/* Of the last failure: "where: what; what to do". "" when there was none. */
SPARTA_API const char *sparta_message(const sparta_ctx *cx);
/* Remarks that are no failures ("no code of the package runs here: the portable kernels do"), one a line; "" when there are none. */
SPARTA_API const char *sparta_notes(const sparta_ctx *cx);
/* From any thread or a signal handler: long work of this context stops with E_CANCELLED, now and until it is reset. */
SPARTA_API void sparta_ctx_cancel(sparta_ctx *cx);
/* Forgets message, notes and a cancellation; what was made and registered stays. */
SPARTA_API void sparta_ctx_reset(sparta_ctx *cx);
/* "E_SHAPE"; "unknown" for what is none. */
SPARTA_API const char *sparta_status_name(sparta_status status);
/* The folder of compiled kernels and tuning records, made and checked; "" when there is none to use. It lives as long as the process. */
SPARTA_API const char *sparta_cache_folder(sparta_ctx *cx);
SPARTA_API const char *sparta_version(void);
SPARTA_API int sparta_version_number(void);

/* ------------------------------------------------------------------ tensors */
typedef enum sparta_dtype {
    SPARTA_F32,
    SPARTA_F16,
    SPARTA_BF16,
    SPARTA_F64,
    SPARTA_I8,
    SPARTA_U8,
    SPARTA_I16,
    SPARTA_U16,
    SPARTA_I32,
    SPARTA_U32,
    SPARTA_I64,
    SPARTA_U64,
    SPARTA_BOOL,
    SPARTA_U4, /* of 4 and 2 bits: one element per byte in memory, in its low bits */
    SPARTA_I4,
    SPARTA_U2,
    SPARTA_I2,
} sparta_dtype;

#define SPARTA_RANK 8 /* the most dimensions a tensor may have */

/* A strided view; strides count elements. The memory belongs to somebody else. */
typedef struct sparta_tensor {
    sparta_dtype dtype;
    int rank;
    int64_t dim[SPARTA_RANK];
    int64_t stride[SPARTA_RANK];
    void *data;
    int device; /* where the data lies; 0: the CPU; n: the GPU number n - 1 of CUDA */
} sparta_tensor;

/* A row-major view of `data`. */
SPARTA_API sparta_tensor sparta_tensor_view(sparta_dtype dtype, int rank, const int64_t *dim, void *data);
SPARTA_API int64_t sparta_tensor_elements(const sparta_tensor *t); /* -1: too many */
SPARTA_API size_t sparta_dtype_size(sparta_dtype dtype);
SPARTA_API const char *sparta_dtype_name(sparta_dtype dtype);
/* DLPack: a view as a DLManagedTensorVersioned, whose deleter is called before the context goes; and a view of a DLTensor (the dl_tensor of
 * either managed kind), whose memory stays its owner's. Memory of the CPU only. */
SPARTA_API SPARTA_MUST sparta_status sparta_tensor_to_dlpack(sparta_ctx *cx, const sparta_tensor *t,
                                                             void **out);
SPARTA_API SPARTA_MUST sparta_status sparta_tensor_from_dlpack(sparta_ctx *cx, const void *dl,
                                                               sparta_tensor *out);

typedef struct sparta_named_tensor {
    const char *name;
    sparta_tensor tensor;
} sparta_named_tensor;

/* ------------------------------------------------------------------ TeSA: what is known of a tensor's elements (docs/tesa.md)
 *
 *     tesa [batch,128,768]; has along 2 mask 1x768 rle 0 700 68; precision f32        as text; 68 features are gone
 *
 * Arrays have a dim for each axis of the tensor: its size, or 1 where all are alike, as NumPy broadcasts. One without data is not there. */
typedef struct sparta_tesa sparta_tesa;

typedef struct sparta_tesa_facts {
    size_t size;
    const char *dims;      /* "[batch,128,768]": numbers, symbols, or arithmetic on them */
    sparta_tensor has;     /* bool: which elements exist, the others are 0; not there: all */
    sparta_tensor known;   /* bool: those that are constants; not there: none */
    sparta_tensor values;  /* of any type: the values of those */
    const char *precision; /* "i8"; or several, "i8 f16"; NULL: any */
    sparta_tensor which;   /* u8: each element's place among these; not there: the first */
} sparta_tesa_facts;

SPARTA_API SPARTA_MUST sparta_status sparta_tesa_create(sparta_ctx *cx, const sparta_tesa_facts *facts,
                                                        sparta_tesa **out);
SPARTA_API SPARTA_MUST sparta_status sparta_tesa_parse(sparta_ctx *cx, const char *text, sparta_tesa **out);
/* From an .npz or .safetensors: the attribute of that name; NULL: the only one. */
SPARTA_API SPARTA_MUST sparta_status sparta_tesa_open(sparta_ctx *cx, const char *path, const char *name,
                                                      sparta_tesa **out);
/* Into an .npz, or a .safetensors when the path ends so. */
SPARTA_API SPARTA_MUST sparta_status sparta_tesa_save(sparta_ctx *cx, const char *path, int n,
                                                      const char *const *name,
                                                      const sparta_tesa *const *tesa);
/* Both live as long as the tesa. Its facts, `size` of the struct set; and its text, which parses to the same. */
SPARTA_API void sparta_tesa_get(const sparta_tesa *tesa, sparta_tesa_facts *out);
SPARTA_API SPARTA_MUST sparta_status sparta_tesa_print(sparta_tesa *tesa, const char **out);
SPARTA_API void sparta_tesa_free(sparta_tesa *tesa);

/* ------------------------------------------------------------------ schedules: what to do with which weights
 *
 *     sparta_schedule_create(cx, NULL, &s);                                  the same as the text
 *     sparta_schedule_tensor(s, "encoder.*.weight", &rule);                  tensor "encoder.*.weight" {
 *     sparta_schedule_sparsify(rule, "magnitude(pattern=4x1, sparsity=0.9)");    sparsify magnitude(pattern=4x1, sparsity=0.9)
 *     sparta_schedule_set_format(rule, "strip(4)");                              format strip(4)
 *                                                                            }
 * The language is in docs/schedules.md; each call reads its text by the rules of the language. On failure (E_USAGE; the
 * message has the column) a schedule is as before. It belongs to its context. */
typedef struct sparta_schedule sparta_schedule;
/* What is said of the weights that a glob names; lives as long as its schedule. */
typedef struct sparta_schedule_rule sparta_schedule_rule;

/* An empty one. Masks lie beneath `folder`; NULL: the current one. */
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_create(sparta_ctx *cx, const char *folder,
                                                            sparta_schedule **out);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_open(sparta_ctx *cx, const char *path,
                                                          sparta_schedule **out);
/* Messages say `name` where a file's would say the file; includes and masks lie beneath `folder`. */
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_parse(sparta_ctx *cx, const char *text, const char *name,
                                                           const char *folder, sparta_schedule **out);
SPARTA_API void sparta_schedule_free(sparta_schedule *schedule);
/* A new rule; several may name one weight as long as they agree. "/fc1/Relu:output" names what a node computes, "/fc2/MatMul:input" what it reads:
 * sparsify "topk(10%)" or "threshold(0.01, bound=25%)" is done to it in every run. */
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_tensor(sparta_schedule *schedule, const char *glob,
                                                            sparta_schedule_rule **out);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_sparsify(sparta_schedule_rule *rule,
                                                              const char *sparsifier);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_set_format(sparta_schedule_rule *rule,
                                                                const char *format);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_set_implement(sparta_schedule_rule *rule,
                                                                   const char *implement);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_quantize(sparta_schedule_rule *rule,
                                                              const char *precision);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_kernel(sparta_schedule_rule *rule,
                                                            const char *primitives);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_set_target(sparta_schedule *schedule,
                                                                const char *target);
/* sizes: "4" or "1:8:32". */
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_set_dim(sparta_schedule *schedule, const char *name,
                                                             const char *sizes);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_define_format(sparta_schedule *schedule,
                                                                   const char *name, const char *format);
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_define_sparsifier(sparta_schedule *schedule,
                                                                       const char *name,
                                                                       const char *sparsifier);
/* The whole as text, which parses to the same; it belongs to the schedule, until the next print. */
SPARTA_API SPARTA_MUST sparta_status sparta_schedule_print(sparta_schedule *schedule, const char **out);

/* ------------------------------------------------------------------ sparsifiers of your own
 *
 *     static int lower(void *user, sparta_sparsifier_call *call)          keeps the lower triangle
 *     {
 *         for (int64_t n = 0; n < call->weight.dim[0]; n++)
 *             for (int64_t k = n + 1; k < call->weight.dim[1]; k++) call->keep[n * call->weight.dim[1] + k] = 0;
 *         return 0;
 *     }
 *     sparta_sparsifier s = {.size = sizeof s, .name = "lower", .mask = lower};
 *     sparta_sparsifier_register(cx, &s);                                 a schedule may now say: sparsify lower
 */
typedef struct sparta_sparsifier_argument { /* as the schedule has it */
    const char *name, *text;
} sparta_sparsifier_argument;

typedef struct sparta_sparsifier_call { /* one weight */
    const char *tensor;                 /* its name */
    sparta_tensor weight; /* (n, k) = (outputs, inputs), floats, any strides; not to be changed */
    int n_arguments;
    const sparta_sparsifier_argument *argument;
    uint8_t *keep;     /* (n, k) row by row, all 1 at first: 1 stays, 0 goes */
    char message[200]; /* for a function that fails: why */
} sparta_sparsifier_call;

typedef struct sparta_sparsifier {
    size_t size;
    const char *name;
    /* Called once or more for each weight; the same weight must give the same answer. 0: done. */
    int (*mask)(void *user, sparta_sparsifier_call *call);
    void *user;
    /* Names of its arguments, in the order of unnamed ones, ended by NULL; "topk?" may be left out. NULL: it takes none. */
    const char *const *arguments;
    /* What stays or goes as one: "4x1", "rows", "cols", or "2:4", "2:4@out" for at most 2 of 4 neighbours. NULL: elements. It is
     * checked. */
    const char *granularity;
    int64_t bound; /* at most so many elements or blocks stay in a row of them; 0: no bound. It is checked. */
    const char *bound_argument; /* the argument that sets the bound, "topk"; NULL: none does */
} sparta_sparsifier;
/* For the context's life. E_USAGE: the name is taken, or something is wrong with it. */
SPARTA_API SPARTA_MUST sparta_status sparta_sparsifier_register(sparta_ctx *cx,
                                                                const sparta_sparsifier *sparsifier);
/* The same of what a model computes, at every run: schedules name it as function("mine", bound=25%), packages keep the name, and whoever runs one
 * registers the function first. It gets one line along the last dimension; keep is all 1 at first. Others may call it at the same time. 0: done. */
typedef struct sparta_line_function {
    size_t size;
    const char *name;
    int (*keep)(void *user, const float *line, int64_t n, uint8_t *keep);
    void *user;
} sparta_line_function;
/* For the context's life. E_USAGE: the name is taken, or something is wrong with it. */
SPARTA_API SPARTA_MUST sparta_status sparta_line_function_register(sparta_ctx *cx,
                                                                   const sparta_line_function *function);

/* ------------------------------------------------------------------ kernels of your own
 *
 *     static void product(const struct sparta_product *p)                     y = w x of some tokens, w in the format
 *     {
 *         const int *pos = p->part[0].pos[1], *crd = p->part[0].crd[1];       csr
 *         for (long i = 0; i < p->n; i++) ...
 *     }
 *
 * C text for the product of a linear layer, without its bias and what follows it. Where the weight fits its format and its conditions hold it competes
 * with the kernels of the library: built, checked against the reference, timed. What is wrong is not used, and a note says so. Packages carry
 * its code and its text. docs/kernels.md has what it is given. It is trusted: it runs with everything that you may do. */
typedef struct sparta_kernel {
    size_t size;
    const char *name;   /* letters, digits and _ */
    const char *op;     /* NULL: "Linear", the one that there is */
    const char *format; /* of the weight (n, k), made of levels */
    const char
        *when; /* "density < 0.2, n%16 == 0": of n, k, tokens (0: not known) and density; NULL: always */
    const char *text;
} sparta_kernel;
/* For the context's life. E_COMPILER: it does not compile, or there is no compiler; E_USAGE: the name is taken, or something is wrong with it. */
SPARTA_API SPARTA_MUST sparta_status sparta_kernel_register(sparta_ctx *cx, const sparta_kernel *kernel);
/* The same from a file, whose first comment says the fields: "sparta kernel", then lines "name: value". */
SPARTA_API SPARTA_MUST sparta_status sparta_kernel_open(sparta_ctx *cx, const char *path);

/* The same by a function of the process, for what is no C text: another compiler's code, assembly, a library. Packages cannot carry it: they keep its name,
 * and every context that runs one registers the function first; without it, or where it takes another format, the generic walker runs the layer and
 * a note says so. */
typedef struct sparta_product_part { /* the weight as it is stored; of a sum of formats there are several */
    const float *w;
    const void *pos[12], *crd[12]; /* of each level; NULL where it has none */
    long size[12];                 /* coordinates of the level, or slots of a segment */
} sparta_product_part;
typedef struct sparta_product { /* y = w x of some tokens, which lie side by side */
    const float *x;             /* input j of token t: x[64 * j + t] */
    float *y;                   /* output i of token t: y[64 * i + t], all to be written */
    long n, k, tokens;          /* tokens: 16, 32, 48 or 64 */
    const sparta_product_part *part;
} sparta_product;
typedef struct sparta_kernel_function {
    size_t size;
    const char *name;   /* letters, digits and _ */
    const char *format; /* of the weight (n, k), made of levels */
    /* Threads call it at the same time, each for other tokens. */
    void (*product)(void *user, const sparta_product *p);
    /* Is it meant for such a layer? tokens: the most there can be, 0: not known. Asked when a model is compiled; NULL: always. */
    int (*when)(void *user, int64_t n, int64_t k, int64_t tokens, double density);
    void *user;
} sparta_kernel_function;
/* For the context's life. E_USAGE: the name is taken, or something is wrong with it. */
SPARTA_API SPARTA_MUST sparta_status sparta_kernel_function_register(sparta_ctx *cx,
                                                                     const sparta_kernel_function *function);

/* Plugins: a shared library for `sparta --plugin ./mine.so` defines this function, which the library does not have. The program calls it once; it
 * registers sparsifiers or kernels and may call everything of this header (examples/plugin.c). A plugin is trusted code. */
sparta_status sparta_plugin(sparta_ctx *cx);

/* ------------------------------------------------------------------ files
 * What a file is, by its first bytes. What is nothing else is taken for ONNX, whose reader says what is wrong with it; so is a program of
 * torch.export (.pt2), a model, too. */
typedef enum sparta_file_kind {
    SPARTA_FILE_ONNX,
    SPARTA_FILE_PACKAGE,
    SPARTA_FILE_NPY,
    SPARTA_FILE_NPZ
} sparta_file_kind;
SPARTA_API SPARTA_MUST sparta_status sparta_file_kind_of(sparta_ctx *cx, const char *path,
                                                         sparta_file_kind *out);

/* Named arrays in a file: .npz and .safetensors, and .npy with one array named "". Arrays are read-only and live until it is closed; past
 * the last: NULL. */
typedef struct sparta_archive sparta_archive;
SPARTA_API SPARTA_MUST sparta_status sparta_archive_open(sparta_ctx *cx, const char *path,
                                                         sparta_archive **out);
SPARTA_API void sparta_archive_close(sparta_archive *archive);
SPARTA_API const sparta_named_tensor *sparta_archive_array(const sparta_archive *archive, int i);
SPARTA_API const sparta_tensor *sparta_archive_find(const sparta_archive *archive, const char *name);
/* The end of the path says which: .npz, .safetensors, or .npy for one array. Strides may be any. */
SPARTA_API SPARTA_MUST sparta_status sparta_archive_save(sparta_ctx *cx, const char *path,
                                                         const sparta_named_tensor *array, int n);

/* ------------------------------------------------------------------ formats: how the elements of a tensor lie in memory (docs/formats.md) */
typedef struct sparta_packed sparta_packed;
typedef struct sparta_storage { /* fill: slots over elements, at least 1 element */
    int64_t elements, slots;
    size_t bytes;
    double fill;
} sparta_storage;
/* The canonical text of a format, "csr" or "(i,j)->(i:dense, j:compressed)"; E_USAGE has line and column. dim NULL: fit to no shape. */
SPARTA_API SPARTA_MUST sparta_status sparta_format_print(sparta_ctx *cx, const char *text, int rank,
                                                         const int64_t *dim, char *out, size_t size);
/* The elements that are not 0, or those that the mask (a tensor of the same shape, NULL: none) has. limit: slots an element, past which it
 * is E_LIMIT; 0: 4. */
SPARTA_API SPARTA_MUST sparta_status sparta_packed_create(sparta_ctx *cx, const char *format,
                                                          const sparta_tensor *dense,
                                                          const sparta_tensor *mask, double limit,
                                                          sparta_packed **out);
/* The same elements in another format, never through a dense copy. */
SPARTA_API SPARTA_MUST sparta_status sparta_packed_convert(sparta_ctx *cx, const sparta_packed *from,
                                                           const char *format, double limit,
                                                           sparta_packed **out);
/* Into a tensor of its type; absent elements become 0. */
SPARTA_API SPARTA_MUST sparta_status sparta_packed_unpack(sparta_ctx *cx, const sparta_packed *packed,
                                                          const sparta_tensor *dense);
/* An .npz that NumPy opens (docs/files.md). */
SPARTA_API SPARTA_MUST sparta_status sparta_packed_open(sparta_ctx *cx, const char *path,
                                                        sparta_packed **out);
SPARTA_API SPARTA_MUST sparta_status sparta_packed_save(sparta_ctx *cx, const sparta_packed *packed,
                                                        const char *path);
SPARTA_API void sparta_packed_free(sparta_packed *packed);
SPARTA_API const char *sparta_packed_format(const sparta_packed *packed);
SPARTA_API const sparta_storage *sparta_packed_storage(const sparta_packed *packed);
SPARTA_API void sparta_packed_type(const sparta_packed *packed, sparta_tensor *out);

/* The same as plain arrays, which can be copied into memory of one's own: positions and coordinates of each level, values. What the format does
 * not have has rank 0 and no data. */
typedef struct sparta_arrays {
    size_t size;
    char format[512];
    sparta_dtype dtype;
    int rank;
    int64_t dim[SPARTA_RANK];
    sparta_tensor pos[12], crd[12], values;
} sparta_arrays;
/* Arrays of somebody else (docs/formats.md says which are SciPy's and torch's) as a packed tensor. Positions and coordinates are copied and verified;
 * values are not copied, stay where they are until it is freed, and may change. */
SPARTA_API SPARTA_MUST sparta_status sparta_packed_view(sparta_ctx *cx, const sparta_arrays *arrays,
                                                        sparta_packed **out);
/* A view of its arrays, which lives as long as it does; `size` of the struct set. E_UNSUPPORTED: a sum of formats, which has several sets of them. */
SPARTA_API SPARTA_MUST sparta_status sparta_packed_arrays(sparta_ctx *cx, const sparta_packed *packed,
                                                          sparta_arrays *out);

/* ------------------------------------------------------------------ compile */
typedef struct sparta_package sparta_package;

typedef struct sparta_compile_options {
    size_t size;
    /* .npz or .safetensors with an array per weight, zero where the weight is gone; NULL: exact zeros are the mask. */
    const char *masks;
    /* "avx512", "portable", "avx512,avx2" for a package with code for both, also for what this machine cannot run: such code is not
     * checked, and marked; NULL: the best this machine has. */
    const char *target;
    /* Use no sparse implement: the honest baseline. */
    int dense_only;
    /* Choose by the cost model instead of timing candidates. */
    int no_measure;
    /* For measuring; 0: the cores available. */
    int threads;
    /* Where a model's external weights lie; NULL: the folder of the model. */
    const char *external_data_root;
    /* "name=value" or "name=min:opt:max", ended by NULL. */
    const char *const *dims;
    /* "1,16,1024": a plan for each of these numbers of tokens besides the usual one, where another is faster; a run takes the plan that its sizes
     * fall into. NULL: one plan, for 128 tokens (for fewer where dims say so), and without being asked one for one token where the model decodes (few tokens at
     * usual sizes, or a past that it appends to), and plans for 1, 4, 8 and 16 where its items are its tokens (a multi-layer perceptron, a recommender).
     * "128": the usual plan alone. */
    const char *tokens;
    /* A file that says what to do with which weights (docs/schedules.md); NULL: none. */
    const char *schedule;
    /* The same as an object of this context; NULL: none. Not both. */
    const sparta_schedule *rules;
    /* Slots that a format of the schedule may store for each non-zero; 0: 4. */
    double limit;
    /* "encoder.2.heads=3,5" or "conv1.weight=4-7" (docs/propagation.md), ended by NULL. */
    const char *const *remove;
    /* Axes of weights that become smaller stay multiples of this; 0: 1. */
    int multiple;
    /* Of compile's own check, relative to the largest value of an output; 0: 1e-4 (f32). */
    double rtol;
    /* Absolute; 0: 1e-6 of what the output is added up from (docs/checking.md). */
    double atol;
    /* Compile the graph as it is; otherwise a smaller one, where that is faster. */
    int no_propagate;
    /* propagate_file: an .npz or .safetensors for what is known of every value (docs/tesa.md); NULL: none. */
    const char *tesa;
    /* Tuning database; NULL: beside the kernel cache. */
    const char *db;
    /* Called now and then by the thread that compiles: `done` of `all`, and what is being done. It may cancel the context. Each step is counted once;
     * `all` grows where another graph is tried, or made for other numbers of tokens. */
    void (*progress)(void *user, int done, int all, const char *what);
    void *progress_user;
    /* Do not run the result against the references of the file: for a caller that has the answers and compares them itself. */
    int no_verify;
    /* Memory in the place of files beside the model, by the location that its external data names: bytes (U8), one axis. It is the
     * caller's and has to stay as it is until the package or model is closed, which may read it where it lies; copy_files does not copy it. */
    const sparta_named_tensor *external;
    int n_external;
    /* Believe no time that an earlier compile remembered: all are taken again, and take the place of the old ones (docs/times.md). Not with no_measure. */
    int remeasure;
} sparta_compile_options;

/* Compile a model, ONNX or a program of torch.export (.pt2), into a package. Verifies its own result before it writes,
 * but for options.no_verify. */
SPARTA_API SPARTA_MUST sparta_status sparta_compile(sparta_ctx *cx, const char *onnx, const char *package,
                                                    const sparta_compile_options *options);

/* The same in memory, where it can be run at once; the model's file stays open until it is closed. */
SPARTA_API SPARTA_MUST sparta_status sparta_compile_package(sparta_ctx *cx, const char *onnx,
                                                            const sparta_compile_options *options,
                                                            sparta_package **out);
/* The graph after a pass over it, as text without its weights, handed to `say`: what compile made of the model so far. "list": the
 * passes and what they do, whatever the model. Nothing is compiled. */
SPARTA_API SPARTA_MUST sparta_status sparta_compile_dump(sparta_ctx *cx, const char *onnx, const char *pass,
                                                         const sparta_compile_options *options,
                                                         void (*say)(void *user, const char *text),
                                                         void *user);
/* Into a file: the old one or the new one is there, never a half. */
SPARTA_API SPARTA_MUST sparta_status sparta_package_save(sparta_ctx *cx, const sparta_package *package,
                                                         const char *path);

/* Write a smaller ONNX model that gives the same answer: what is known to be zero or constant, and what no output needs, goes
 * (docs/propagation.md). Of the options masks, schedule, rules, external_data_root, external, dims, remove, multiple, threads and tesa count. */
SPARTA_API SPARTA_MUST sparta_status sparta_propagate_file(sparta_ctx *cx, const char *onnx,
                                                           const char *smaller,
                                                           const sparta_compile_options *options);

/* ------------------------------------------------------------------ what pruning leaves
 *
 * Weights that look like matrices and are left as they are, by `sparta prune`, `--what-if` and Python's report: why. */
typedef enum sparta_left {
    /* A convolution; a stack of matrices, as of experts; in_proj_weight of torch's MultiheadAttention. */
    SPARTA_LEFT_CONVOLUTION,
    SPARTA_LEFT_EXPERTS,
    SPARTA_LEFT_IN_PROJECTION,
    /* Of a product and of an embedding at once; of an embedding. */
    SPARTA_LEFT_TIED,
    SPARTA_LEFT_EMBEDDING,
    SPARTA_LEFT_RECURRENT,
    SPARTA_LEFT_QUANTISED,
    /* Out of other parameters, in each call. */
    SPARTA_LEFT_COMPUTED,
    /* Of a module whose code nobody has read; whatever else. */
    SPARTA_LEFT_OWN,
    SPARTA_LEFT_OTHER
} sparta_left;
/* In words; "" for a number that is none of these. */
SPARTA_API const char *sparta_left_reason(sparta_left why);

/* ------------------------------------------------------------------ pruning in one shot
 * A trained model in, the same with less of its weights out, and what each weight lost: `sparta prune`. */
typedef struct sparta_prune_options {
    size_t size;
    /* "4x1:0.9", "2:4" (docs/patterns.md). */
    const char *pattern;
    /* "magnitude", "wanda" or "sparsegpt"; NULL: magnitude. */
    const char *method;
    /* .npz or .safetensors with an array for each input, items along its first dimension; NULL: none, which magnitude does without. */
    const char *data;
    /* Globs of weights, or of layers, to leave; ended by NULL. */
    const char *const *keep;
    /* Of runs on data; 0: the cores available. */
    int threads;
    void (*progress)(void *user, int done, int all, const char *what);
    void *progress_user;
} sparta_prune_options;

typedef struct sparta_pruned_weight {
    const char *name;
    int rank;
    int64_t dim[SPARTA_RANK];
    /* What is left of its elements and of its norm; the share of its layer's output that is lost on the data; NAN: not known. */
    double density, norm_kept, error;
    /* Why it was left as it is; "": it was pruned. */
    const char *left;
} sparta_pruned_weight;
typedef struct sparta_pruned sparta_pruned;
/* Writes the ONNX file; `out` may be NULL. Of the options of compile masks, schedule, rules, external_data_root, external and dims count. */
SPARTA_API SPARTA_MUST sparta_status sparta_prune_file(sparta_ctx *cx, const char *onnx, const char *pruned,
                                                       const sparta_prune_options *prune,
                                                       const sparta_compile_options *options,
                                                       sparta_pruned **out);
SPARTA_API void sparta_pruned_free(sparta_pruned *pruned);
/* Every matrix-like weight of the model; past the last: NULL. Items of the data. */
SPARTA_API const sparta_pruned_weight *sparta_pruned_weight_at(const sparta_pruned *pruned, int i);
SPARTA_API int64_t sparta_pruned_items(const sparta_pruned *pruned);

/* ------------------------------------------------------------------ the same answer?
 * Two models, each a package, an ONNX file or a .pt2, on the same inputs: `sparta verify`. */
typedef struct sparta_verify_options {
    size_t size;
    /* Of both; none: made from the seed, at a few sizes. */
    const sparta_named_tensor *inputs;
    int n_inputs;
    uint64_t seed;
} sparta_verify_options;

typedef struct sparta_verified_output {
    const char *name;
    int same;
    /* The largest difference, that relative to the largest value, and what is allowed of the first (docs/checking.md). */
    double max_abs, max_rel, cosine, allowed;
} sparta_verified_output;
typedef struct sparta_verified_facts {
    int same; /* all outputs are */
    /* The first value of the graph that differs; NULL: none does, or it is not known. */
    const char *first_difference;
    /* What was compared, "batch=1 sequence=65"; NULL behind the last, and where inputs were given. */
    const char *sizes[4];
} sparta_verified_facts;
typedef struct sparta_verified sparta_verified;
/* SPARTA_OK also when they differ. Of the options of compile masks, schedule, remove, external_data_root, external, threads, rtol, atol and dims ("name=4":
 * sizes of the inputs that are made) count. A package is run; its digests are compared first. */
SPARTA_API SPARTA_MUST sparta_status sparta_verify(sparta_ctx *cx, const char *model, const char *against,
                                                   const sparta_verify_options *verify,
                                                   const sparta_compile_options *options,
                                                   sparta_verified **out);
SPARTA_API void sparta_verified_free(sparta_verified *verified);
SPARTA_API const sparta_verified_facts *sparta_verified_facts_of(const sparta_verified *verified);
SPARTA_API const sparta_verified_output *sparta_verified_output_at(const sparta_verified *verified, int i);

/* ------------------------------------------------------------------ pruning to a time
 *
 * A time in; which weight takes which pattern so that the model runs within it, and least is lost. Times of layers are measured and remembered, a
 * choice is compiled and run in turns with the dense model, and corrected by what it really saves. Nothing is pruned: who asks does that. */
typedef struct sparta_fit_options {
    size_t size;
    /* Milliseconds of a run, or its speed over that of the dense model; one of the two. */
    double target_ms, target_speedup;
    /* "4x1:0.9", "2:4"; "4x1" stands for several sparsities; ended by NULL. NULL: 4x1 and 2:4. */
    const char *const *patterns;
    /* To measure a choice and, in turns with it, the dense model: each; 0: 1. */
    double seconds;
    /* The share of a layer's output that is lost when its weight takes a pattern, 0 to 1; NAN: leave it. NULL: the share of the norm. */
    double (*error)(void *user, const char *weight, const char *pattern);
    /* Microseconds that the products of a weight take; pattern NULL: dense; NAN: the pattern is none. Then nothing is compiled or measured. NULL:
     * they are measured. */
    double (*time)(void *user, const char *weight, const char *pattern);
    void *user;
} sparta_fit_options;

typedef struct sparta_fit_layer {
    const char *weight, *layer;
    /* Outputs and inputs of the weight; rows of inputs that its products have in one run. */
    int64_t n, k, tokens;
    /* On one thread, all tokens; the share that is lost. */
    double dense_us, us, error;
    /* "": it stays dense. */
    const char *pattern;
} sparta_fit_layer;
typedef struct sparta_fit_facts {
    /* Of the whole model; expected is by the sum of its layers; measured NAN: times were given. */
    double target_ms, dense_ms, expected_ms, measured_ms;
    /* Of a run; choices that were measured; medians could not be relied on, and the best of runs counted. */
    int threads, rounds, noisy;
} sparta_fit_facts;
typedef struct sparta_fit sparta_fit;
/* Of the options of compile dims, threads, target, external_data_root, db and progress count. E_RANGE: the time cannot be reached; the message has
 * the best that can. */
SPARTA_API SPARTA_MUST sparta_status sparta_fit_model(sparta_ctx *cx, const char *onnx,
                                                      const sparta_fit_options *fit,
                                                      const sparta_compile_options *options,
                                                      sparta_fit **out);
SPARTA_API void sparta_fit_free(sparta_fit *fit);
SPARTA_API const sparta_fit_facts *sparta_fit_facts_of(const sparta_fit *fit);
SPARTA_API const sparta_fit_layer *sparta_fit_layer_at(const sparta_fit *fit, int i);

/* ------------------------------------------------------------------ for other compilers: kernels that need no library of ours
 *
 *     sparta_specialize(cx, "graph \"g\"\ninput x: f32[8,64]\nconst w: f32[64,32] @\"w\"\n...", &o, &s)
 *     for (int i = 0; (step = sparta_specialized_step_at(s, i)); i++)                           run by a graph executor of one's own
 *         for (int phase = 0; phase < step->phases; phase++) kernel(pointers of step->argument, phase, 0, 1);
 *
 * A sub-graph in its text form, what is known of its edges and how they are to be stored go in; the transformed graph, the formats it settled on and
 * a C function for every node come out (docs/specialize.md). All sizes are numbers. What is handed out lives until it is freed; past the last: NULL. */
typedef struct sparta_specialized sparta_specialized;

typedef struct sparta_edge {
    /* A value of the graph. */
    const char *value;
    /* Which of its elements exist; of a constant the others become 0, of another value they are 0 from there on. NULL: all. */
    const sparta_tesa *tesa;
    /* How it is stored, "csr", "panel"; NULL: row-major, of a constant whatever takes the fewest bytes. */
    const char *format;
} sparta_edge;

typedef struct sparta_specialize_options {
    size_t size;
    /* "avx512", "avx512,portable"; NULL: the best of this machine. */
    const char *target;
    const sparta_edge *edge;
    int edges;
    /* Contents of the constants that the text has by name; copied. */
    const sparta_named_tensor *constant;
    int constants;
    /* "name=value" of the symbols in the text, ended by NULL. */
    const char *const *dims;
    /* Take the graph as it is; otherwise what is zero, constant or not needed goes first. */
    int no_propagate;
    /* Slots that a format may store for each non-zero; 0: 4. */
    double limit;
} sparta_specialize_options;

typedef struct sparta_specialized_value {
    const char *name;
    const char *role; /* "input", "output", "constant", "inner" */
    sparta_dtype dtype;
    int rank;
    int64_t dim[SPARTA_RANK];
    const char *format; /* canonical; NULL: row-major */
    const char *reason; /* why it is stored so; "" where nothing was to decide */
} sparta_specialized_value;

/* One pointer of a kernel's list. */
typedef struct sparta_specialized_argument {
    const char *value; /* of the transformed graph; NULL: scratch */
    const char *array; /* "values", or as files of packed tensors name it: "p0_l1_pos" (docs/files.md) */
    const char *role;  /* "input": is read; "output": is written; "constant": its data is here; "scratch" */
    sparta_dtype dtype;
    int64_t elements; /* -1: as many as what is stored has */
    const void *data; /* of a constant */
} sparta_specialized_argument;

typedef struct sparta_specialized_step {
    const char *name, *op; /* of the node */
    /* void symbol(void *const *argument, long phase, long part, long parts): every part of a phase before the next phase; (0, 1) does all of one.
     * NULL: no code, the second argument is the first one's memory under another shape. */
    const char *symbol;
    int phases;
    const char *what; /* what it computes: an expression or a nest (docs/kernels.md) */
    int arguments;
    const sparta_specialized_argument *argument;
} sparta_specialized_step;

typedef struct sparta_specialized_code { /* of all steps, for one target */
    const char *target;
    const char *text; /* C, which includes nothing */
    const void *code; /* a shared object: write it to a file and dlopen it */
    size_t bytes;
    int fits; /* this machine runs it, and its answer was compared with the references */
} sparta_specialized_code;

SPARTA_API SPARTA_MUST sparta_status sparta_specialize(sparta_ctx *cx, const char *graph,
                                                       const sparta_specialize_options *options,
                                                       sparta_specialized **out);
SPARTA_API void sparta_specialized_free(sparta_specialized *specialized);
SPARTA_API const char *sparta_specialized_graph(const sparta_specialized *specialized);
SPARTA_API const sparta_specialized_value *sparta_specialized_value_at(const sparta_specialized *specialized,
                                                                       int i);
SPARTA_API const sparta_specialized_step *sparta_specialized_step_at(const sparta_specialized *specialized,
                                                                     int i);
SPARTA_API const sparta_specialized_code *sparta_specialized_code_at(const sparta_specialized *specialized,
                                                                     int i);
/* All of it into a folder, made where it is missing: plan.json, graph.txt, weights.bin, kernels_TARGET.c and kernels_TARGET.so. */
SPARTA_API SPARTA_MUST sparta_status sparta_specialized_save(sparta_ctx *cx,
                                                             const sparta_specialized *specialized,
                                                             const char *folder);

/* ------------------------------------------------------------------ reports: what runs each layer, and why it is not faster
 *
 *     for (int i = 0; (l = sparta_report_layer(report, i)); i++)
 *         printf("%s: %s, density %.2f, %s %s\n", l->name, l->pattern, l->density, l->implement, l->reason);
 *
 * No code is run and nothing is timed. What is handed out lives as long as its report. Past the last of a list: NULL. */
typedef struct sparta_layer {
    const char *name, *op;
    /* Outputs and inputs of a Linear's weight; 0 otherwise. */
    int64_t n, k;
    sparta_dtype dtype;
    /* The pattern found in the weight, "4x1", and its block, "" where it has none; density 0 to 1. */
    const char *pattern, *block;
    double density;
    /* What runs it, "strip4"; "builtin": the reference. Whether that skips what is zero; how the weight is stored, NULL: as it is. */
    const char *implement;
    int sparse;
    const char *format;
    /* Why it is not faster than dense; "" when it is. */
    const char *reason;
    /* Microseconds of the choice and of the best dense one, for so many tokens on one thread; NAN: not known. Where they come from:
     * "measured", "database" (measured here before) or "model"; NULL: there are none. */
    double us, dense_us;
    int64_t tokens;
    const char *source;
} sparta_layer;

typedef struct
    sparta_symbol { /* a size that every run may choose; most INT64_MAX, least 0: without a bound */
    const char *name;
    int64_t most, least;
} sparta_symbol;

typedef struct sparta_operator_use { /* an operator, and how many nodes are one */
    const char *name;
    int nodes;
} sparta_operator_use;

typedef struct sparta_target { /* that a package has code for; not checked: compiled where it could not run */
    const char *name;
    int kernels, checked;
} sparta_target;

/* What one clause of a schedule did to one weight; or to a value that is computed: n is 0, k the length of its lines, density what stays at most. */
typedef struct sparta_effect {
    /* "mini.sched:3:5"; "sparsify", "magnitude(...)"; the rule's glob; the weight, and the first layer that uses it. */
    const char *at, *clause, *text, *glob, *tensor, *layer;
    int64_t n, k;
    double density_before, density;
    /* Found afterwards; what stores the format that is asked for, NULL: none is. */
    const char *pattern, *implement;
} sparta_effect;

typedef struct sparta_facts {
    int nodes, kernels, sparse_layers;
    /* Of an ONNX model; 0 of a package or a .pt2. */
    int opset;
    /* Of the file, or of all files of a model; 0: a package that was just compiled. */
    size_t bytes;
    /* Floats of all weights. */
    int64_t parameters;
    /* Elements of weights before propagation and after it; the same where it takes nothing, or where that is not known any more. */
    int64_t parameters_given, parameters_left;
    /* Of a package that was just compiled: weights that were not 0 and that masks removed. */
    int64_t masked_nonzero;
    /* Share of the estimated time that no kernel runs, 0 to 1, why and what would help; NULL: there is none. */
    double unaccelerated;
    const char *unaccelerated_reason, *unaccelerated_hint;
    /* Of a package: the numbers of tokens that have a plan of their own, "1 and 2 to 16"; "" where one plan runs all. */
    const char *other_plans;
} sparta_facts;

typedef struct sparta_report sparta_report;
/* Of the options db counts, for layers without a kernel. */
SPARTA_API SPARTA_MUST sparta_status sparta_package_report(sparta_ctx *cx, const sparta_package *package,
                                                           const sparta_compile_options *options,
                                                           sparta_report **out);
/* What compile would choose, as far as that is known without building or timing anything. Of the options external_data_root, external, dims, masks,
 * schedule, rules, limit, no_propagate and db count. */
SPARTA_API SPARTA_MUST sparta_status sparta_model_report(sparta_ctx *cx, const char *onnx,
                                                         const sparta_compile_options *options,
                                                         sparta_report **out);
SPARTA_API void sparta_report_free(sparta_report *report);
SPARTA_API const sparta_facts *sparta_report_facts(const sparta_report *report);
SPARTA_API const sparta_layer *sparta_report_layer(const sparta_report *report, int i);
SPARTA_API const sparta_symbol *sparta_report_symbol(const sparta_report *report, int i);
SPARTA_API const sparta_operator_use *sparta_report_operator(const sparta_report *report, int i);
SPARTA_API const sparta_target *sparta_report_target(const sparta_report *report, int i);
SPARTA_API const sparta_effect *sparta_report_effect(const sparta_report *report, int i);

/* ------------------------------------------------------------------ run */
typedef struct sparta_session sparta_session;

typedef struct sparta_session_options {
    size_t size;
    /* 0: the cores available. */
    int threads;
    /* Time every step. */
    int profile;
} sparta_session_options;

SPARTA_API SPARTA_MUST sparta_status sparta_package_open(sparta_ctx *cx, const char *path,
                                                         sparta_package **out);
/* The same from memory, which must stay as it is until the package is closed. Not aligned to 64 bytes, it is copied. */
SPARTA_API SPARTA_MUST sparta_status sparta_package_open_memory(sparta_ctx *cx, const void *bytes,
                                                                size_t size, sparta_package **out);
SPARTA_API void sparta_package_close(sparta_package *package);
/* What it takes and gives. Past the last a name is NULL. */
SPARTA_API int sparta_package_inputs(const sparta_package *package);
SPARTA_API int sparta_package_outputs(const sparta_package *package);
SPARTA_API const char *sparta_package_input_name(const sparta_package *package, int i);
SPARTA_API const char *sparta_package_output_name(const sparta_package *package, int i);
/* Type and dims, without data; a dimension that is not the same in every run is -1. Past the last: rank -1. */
SPARTA_API void sparta_package_input_type(const sparta_package *package, int i, sparta_tensor *out);
SPARTA_API void sparta_package_output_type(const sparta_package *package, int i, sparta_tensor *out);
/* What whoever runs it should know, "" when there is nothing: kernels that are slow portable C, because the compiler did not make
 * them when the model was compiled, and why. */
SPARTA_API const char *sparta_package_note(const sparta_package *package);
/* Every byte of the file: digests of sections and weights, padding that is 0, nothing behind the end. E_FORMAT names the first that differs.
 * Opening compares all digests but those of weights. */
SPARTA_API SPARTA_MUST sparta_status sparta_package_check(sparta_ctx *cx, const sparta_package *package);

SPARTA_API SPARTA_MUST sparta_status sparta_session_create(sparta_ctx *cx, const sparta_package *package,
                                                           const sparta_session_options *options,
                                                           sparta_session **out);
SPARTA_API void sparta_session_free(sparta_session *session);
/* Inputs in any order, by name. outputs[i].name chooses; its tensor is filled with a view that lives until the next run. */
SPARTA_API SPARTA_MUST sparta_status sparta_session_run(sparta_ctx *cx, sparta_session *session,
                                                        const sparta_named_tensor *inputs, int n_inputs,
                                                        sparta_named_tensor *outputs, int n_outputs);
/* The types that outputs will have for inputs of these types, whose data is not looked at; nothing is run, and views of the last run stay. */
SPARTA_API SPARTA_MUST sparta_status sparta_session_types(sparta_ctx *cx, sparta_session *session,
                                                          const sparta_named_tensor *inputs, int n_inputs,
                                                          sparta_named_tensor *outputs, int n_outputs);
/* The same as run, into memory of the caller: each output's tensor says where, with its type and dims, any strides. Written when all has run:
 * it may be the memory of an input (a cache). On failure it is as it was.
 * A cache that grows (an output that is an input with more behind it) may lie in one place with room for what is to come: where both begin at one
 * address and have the same strides, gaps and all, only what is new is written, while it runs. Then a failure leaves what was there before. */
SPARTA_API SPARTA_MUST sparta_status sparta_session_run_into(sparta_ctx *cx, sparta_session *session,
                                                             const sparta_named_tensor *inputs, int n_inputs,
                                                             const sparta_named_tensor *outputs,
                                                             int n_outputs);
/* The target whose code it runs, "avx512"; "portable": no code of the package runs here, and slower portable C does. */
SPARTA_API const char *sparta_session_isa(const sparta_session *session);
/* Kernels of the package that run as portable C, because it has no code for them that runs here; 0: all is as compiled. */
SPARTA_API int sparta_session_portable(const sparta_session *session);
SPARTA_API int sparta_session_threads(const sparta_session *session);

/* A step of a session that was created with options.profile: means over the runs since then, or since they were forgotten. */
typedef struct sparta_step {
    const char *name, *op, *implement;
    /* Thread time over threads, of one run. */
    double seconds;
    /* Multiply-adds times two of one run at the sizes of the last one, done and as a dense product would do; 0: not a product. */
    double ops, dense_ops;
} sparta_step;
/* In the order they run; NULL past the last. Valid until it is asked for again. */
SPARTA_API const sparta_step *sparta_session_step(sparta_session *session, int i);
SPARTA_API void sparta_session_forget_times(sparta_session *session);

/* ------------------------------------------------------------------ references: a model as ONNX defines it
 * Node by node in plain C: slow, and what answers are compared with. */
typedef struct sparta_model sparta_model;
/* Of the options external_data_root, external and dims ("name=4") count: sizes that its shapes cannot be known without. */
SPARTA_API SPARTA_MUST sparta_status sparta_model_open(sparta_ctx *cx, const char *onnx,
                                                       const sparta_compile_options *options,
                                                       sparta_model **out);
SPARTA_API void sparta_model_close(sparta_model *model);
/* What it takes and gives. Past the last a name is NULL. */
SPARTA_API int sparta_model_inputs(const sparta_model *model);
SPARTA_API int sparta_model_outputs(const sparta_model *model);
SPARTA_API const char *sparta_model_input_name(const sparta_model *model, int i);
SPARTA_API const char *sparta_model_output_name(const sparta_model *model, int i);
/* As sparta_session_run; views live until the next run, or until it is closed. The context is that which opened it, or outlives it. */
SPARTA_API SPARTA_MUST sparta_status sparta_model_run(sparta_ctx *cx, sparta_model *model,
                                                      const sparta_named_tensor *inputs, int n_inputs,
                                                      sparta_named_tensor *outputs, int n_outputs);

/* ------------------------------------------------------------------ inputs for a run: given ones, the others made from a seed
 * Floats between -1 and 1, ids inside the tables they index, masks of ones: for trying, timing and comparing. */
typedef struct sparta_inputs sparta_inputs;

typedef struct sparta_inputs_options {
    size_t size;
    uint64_t seed;
    /* "name=4", ended by NULL: sizes that no given array has. Otherwise sequences are 128 long, images 224 by 224, and there is 1 of others. */
    const char *const *dims;
    /* Arrays that are there already, borrowed; and an .npz or .safetensors with more of them, by name; NULL: none. */
    const sparta_named_tensor *given;
    int n_given;
    const char *archive;
    /* "name=random" or "name=random:0:255", ended by NULL: to be made, in this range, which an array of that name contradicts. */
    const char *const *random;
} sparta_inputs_options;
SPARTA_API SPARTA_MUST sparta_status sparta_package_make_inputs(sparta_ctx *cx, const sparta_package *package,
                                                                const sparta_inputs_options *options,
                                                                sparta_inputs **out);
SPARTA_API SPARTA_MUST sparta_status sparta_model_make_inputs(sparta_ctx *cx, const sparta_model *model,
                                                              const sparta_inputs_options *options,
                                                              sparta_inputs **out);
SPARTA_API void sparta_inputs_free(sparta_inputs *inputs);
/* Every input in order, as a run takes them; NULL past the last. 1: it was made, nobody gave it. */
SPARTA_API const sparta_named_tensor *sparta_inputs_array(const sparta_inputs *inputs, int i);
SPARTA_API int sparta_inputs_made(const sparta_inputs *inputs, int i);

/* ------------------------------------------------------------------ one operator, without a model (docs/api.md)
 *
 *     sparta_tensor operand[] = {y, x, w, b};                      f32 (-1,64), (-1,128), (64,128), (64); w and b with data
 *     sparta_operator_spec spec = {sizeof spec, "y(m,n) = x(m,k)*w(n,k) + b(n)", "bias gelu", 4, operand};
 *     sparta_operator_create(cx, &spec, &op);
 *     sparta_operator_run(op, (sparta_tensor[]){y, x}, 2, &launch, message, sizeof message);          from any thread
 *
 * Expressions: a product as above, its weight (n,k) or (k,n), with a bias and a residual added, any number of indices before the last; or
 * an operator with indices on its operands, "y(b,s,e) = sparta::Attention(q(b,s,e), k(b,t,e), v(b,t,e)) {heads=4, scale=0.125}",
 * "y(m,n) = LayerNormalization(x(m,n), g(n), h(n))". Anything else is E_UNSUPPORTED. Where an index occurs twice the sizes agree. */
typedef struct sparta_operator sparta_operator;

typedef struct sparta_operator_spec {
    size_t size;
    const char *expression;
    /* What a product does with its sums, in order: "bias gelu add"; NULL: it adds what the expression adds. */
    const char *epilogue;
    /* In the order of the expression, the result first: type, dims (-1: any, known when it runs). With data: a constant. */
    int n;
    const sparta_tensor *operand;
    /* (n), or NULL: the weight as arrays instead of dense data. Positions and coordinates are copied; values stay where they are as long
     * as the operator lives, and may change between runs. */
    const sparta_arrays *const *packed;
    /* To pack a dense weight into; NULL: that of the implement that is chosen. */
    const char *format;
    /* What runs a product, "quads", and parameters of its space that are to be so, "RANGE=128"; NULL: the fastest. */
    const char *implement, *point;
    /* 1: candidates for a product are checked and timed, as by compile, and remembered in the database (NULL: beside the kernel cache);
     * 0: the cost model chooses. */
    int tune;
    const char *db;
} sparta_operator_spec;
SPARTA_API SPARTA_MUST sparta_status sparta_operator_create(sparta_ctx *cx, const sparta_operator_spec *spec,
                                                            sparta_operator **out);
SPARTA_API void sparta_operator_free(sparta_operator *op);
/* Which implement runs it, with which storage of the weight, on which target. */
SPARTA_API const char *sparta_operator_reason(const sparta_operator *op);

typedef struct sparta_launch {
    size_t size;
    void *
        stream; /* of the GPU where the arrays are, which does the work later; NULL: its default one. The CPU has none. */
    void *workspace;
    size_t workspace_bytes;
    /* Threads of the host: calls fn(arg, i) for each i in [0, n); NULL: the calling thread does it all. */
    void (*parallel_for)(void *host, int n, void (*fn)(void *arg, int i), void *arg);
    void *host;
    /* How many they are: more than 16 do not share a run of an operator (64: one with a sparse matrix, below), fewer than panels of 64
     * tokens do not share panels; 0: 16. */
    int threads;
    /* On a GPU, 1: f32 may be rounded to tf32 (10 bits) before it is multiplied, which is faster. */
    int tf32;
    /* On a GPU, 1: kernels of this library alone. 0: where cuBLASLt is installed it multiplies what they do not take, and weights that are so full that it is faster. */
    int own;
} sparta_launch;
/* Bytes of workspace for these arrays and the threads of this launch (NULL: the calling one); 0: they do not fit, which a run has words for. */
SPARTA_API size_t sparta_operator_workspace(const sparta_operator *op, const sparta_tensor *array, int n,
                                            const sparta_launch *launch);
/* The result and every operand that is not constant, row-major, in the order of the expression. Takes no context, allocates nothing, and may be
 * called by any number of threads at once, each with a workspace of its own. On failure `message` (may be NULL) says why. */
SPARTA_API SPARTA_MUST sparta_status sparta_operator_run(const sparta_operator *op,
                                                         const sparta_tensor *array, int n,
                                                         const sparta_launch *launch, char *message,
                                                         size_t message_size);

/* ------------------------------------------------------------------ an expression over operands in any formats (docs/kernels.md)
 *
 *     sparta_expression_operand a = {.name = "A", .format = "csr", .tensor = weights};                  packed once
 *     sparta_expression_spec spec = {.size = sizeof spec, .text = "C(i,k) = A(i,j)*B(j,k)", .n = 1, .operand = &a};
 *     sparta_expression_create(cx, &spec, &e);
 *     sparta_expression_run(e, &(sparta_named_tensor){"B", b}, 1, &(sparta_named_tensor){"C", c}, 1);    as often as you like
 *
 * A kernel is written for just this expression, these formats and this schedule, and compiled. What has a format is packed when it is made; every
 * other operand is row-major memory of the caller's, given with each run and used as it lies; its sizes may be others in each run, as far
 * as those of what is packed allow. Operands are f32, f16 or bf16 and computed with as f32; a result that is not f32 is rounded once, at the end. `=` writes a result, `+=` adds to what is there. It serves one caller at a time, and belongs to its context, which
 * has the message of a failure. Without a C compiler it is E_COMPILER. */
typedef struct sparta_expression sparta_expression;

typedef struct sparta_expression_operand {
    const char *name;
    /* "csr", any format that has levels; NULL: row-major. A result takes dense levels alone, or the format of an operand with the same indices,
     * whose pattern it then has. */
    const char *format;
    /* With a format: what is packed; the elements that are not 0. Without: sizes to expect, its data is not looked at. Not there: rank 0. Its
     * type counts in any case: what is not listed, and what is all 0, is f32. */
    sparta_tensor tensor;
    /* Instead of format and tensor: packed already. It is borrowed, and stays as long as the expression does. */
    const sparta_packed *packed;
} sparta_expression_operand;

typedef struct sparta_expression_spec {
    size_t size;
    const char *text;
    /* Those that have a format, and others whose sizes are known; in any order. */
    int n;
    const sparta_expression_operand *operand;
    /* "reorder(k,i,j); vectorize(k,4)" (docs/schedules.md); NULL: what is good without tuning. */
    const char *schedule;
    /* "avx2"; NULL: the best of this machine. */
    const char *target;
    /* 0: the cores available. */
    int threads;
    /* Slots that a format may store for each non-zero; 0: 4. */
    double limit;
} sparta_expression_spec;

typedef struct sparta_expression_value {
    const char *name;
    const char *format; /* canonical; NULL: row-major */
    int written;        /* it is a result */
    int rank;
    int64_t dim[SPARTA_RANK]; /* -1: that of a run */
    sparta_dtype dtype;
} sparta_expression_value;

SPARTA_API SPARTA_MUST sparta_status sparta_expression_create(sparta_ctx *cx,
                                                              const sparta_expression_spec *spec,
                                                              sparta_expression **out);
SPARTA_API void sparta_expression_free(sparta_expression *expression);
/* Its operands in the order of the text; past the last: NULL. All that is handed out lives as long as the expression. */
SPARTA_API const sparta_expression_value *sparta_expression_value_at(const sparta_expression *expression,
                                                                     int i);
/* The loops after the schedule, and the C text. */
SPARTA_API const char *sparta_expression_nest(const sparta_expression *expression);
SPARTA_API const char *sparta_expression_text(const sparta_expression *expression);
/* Types that results have for inputs of these types (their data is not looked at), by name. */
SPARTA_API SPARTA_MUST sparta_status sparta_expression_types(sparta_expression *expression,
                                                             const sparta_named_tensor *input, int inputs,
                                                             sparta_named_tensor *output, int outputs);
/* Every operand that is not packed: what is only read among the inputs, what is written among the outputs, whose memory is their own. A result with a
 * format may be left out; one that is given is unpacked. */
SPARTA_API SPARTA_MUST sparta_status sparta_expression_run(sparta_expression *expression,
                                                           const sparta_named_tensor *input, int inputs,
                                                           const sparta_named_tensor *output, int outputs);
/* A result that has a format, as it is stored after the last run; NULL: there is none of that name. */
SPARTA_API const sparta_packed *sparta_expression_result(const sparta_expression *expression,
                                                         const char *name);

/* ------------------------------------------------------------------ products with one sparse matrix, given with each call (docs/api.md)
 *
 *     sparta_blocks w = {.size = sizeof w, .rows = 64, .cols = 128, .height = 4, .width = 1, .batch = 1, .patterns = 1,
 *                        .pos = pos, .crd = crd, .values = values};
 *     sparta_blocks_multiply(&w, &x, &y, NULL, &launch, message, sizeof message);                     y = w x
 *
 * What training and dynamic sparsity need: values, and the pattern too, may be others in every call. Closed under gradients: those of multiply
 * are sample and the turned multiply, those of sample two multiplies. As sparta_operator_run they take no context, allocate nothing, and may be
 * called by any number of threads at once, each with a workspace of its own; `message` (may be NULL) says why one failed, and outputs are then
 * as they were. Indices are checked in every call. Sums are f32, of f64 f64. All arrays of a call have one type: f32, f16, bf16 or f64.
 * Results never overlap what is read, but for those of the softmax. */
typedef struct sparta_blocks {
    size_t size;
    /* Of a matrix, and of a block. Where blocks do not divide it the last ones reach over its edge; what lies there is not read, and written as 0. */
    int64_t rows, cols, height, width;
    /* Matrices, and patterns: 1, which all of them share, or as many. Those lie one after the other: pos counts on, crd begins anew. */
    int64_t batch, patterns;
    /* i32 (patterns * rows of blocks + 1): where the blocks of each row of blocks begin; i32 (blocks): the column of blocks of each, ascending. */
    sparta_tensor pos, crd;
    /* bool (blocks, height, width): which elements exist, the others count as 0 (by infinity: NaN, as in a dense product); of rank 0: all do. */
    sparta_tensor keep;
    /* (batch, blocks, height, width) with 1 pattern, else (blocks, height, width) for the blocks of all. With 1 pattern the latter is one
     * matrix that the whole batch shares, which multiply takes. Row-major, like all of these. */
    sparta_tensor values;
    /* On a GPU: what sparta_blocks_index made of pos and crd; of rank 0: a call makes it again. The CPU does not look at it. */
    sparta_tensor index;
} sparta_blocks;

/* Arrays on a GPU (all of a call on the same): f16, bf16 and f32, a batch of 1, features contiguous, blocks with sides of 16, 32 or a multiple of 64;
 * products and samples. Others are E_UNSUPPORTED. The memory of workspaces is the GPU's too. What pos and crd hold is not looked at by the host: elements
 * outside of the matrix are passed over, and the index says that there are such.
 * Words (i32) of the index of a pattern; 0: no kernel follows one. */
SPARTA_API int64_t sparta_blocks_index_words(const sparta_blocks *s);
/* Makes it, on the stream: a row-major i32 of so many words. Word 1 is then 0 when pos and crd are right. */
SPARTA_API SPARTA_MUST sparta_status sparta_blocks_index(const sparta_blocks *s, const sparta_tensor *index,
                                                         const sparta_launch *launch, char *message,
                                                         size_t message_size);
/* GPUs that can be used, and why there is none ("": there is). */
SPARTA_API int sparta_gpus(void);
SPARTA_API const char *sparta_gpu_problem(void);

typedef struct sparta_multiply_options {
    size_t size;
    /* 1: the matrix is turned. out(b,j,f) = sum over i of S(b,i,j) x(b,i,f). */
    int turned;
    /* What happens to the sums, in order: "bias gelu add"; NULL: what is there is added. */
    const char *epilogue;
    /* One for each row of the result; and as the result, any strides. NULL: none. */
    const sparta_tensor *bias, *residual;
} sparta_multiply_options;

typedef enum sparta_verb {
    SPARTA_MULTIPLY,
    SPARTA_MULTIPLY_TURNED,
    SPARTA_SAMPLE,
    SPARTA_SOFTMAX,
    SPARTA_SOFTMAX_GRADIENT,
} sparta_verb;

/* Bytes of workspace for such a call with these operands (x and out, a and c; of the softmax NULL) and the threads of this launch (NULL: the
 * calling one). Arrays need no data yet, and indices are not looked at. 0: none is needed, or the call would fail, which has words for it. */
SPARTA_API size_t sparta_blocks_workspace(sparta_verb verb, const sparta_blocks *s, const sparta_tensor *x,
                                          const sparta_tensor *y, const sparta_launch *launch);
/* out(b,i,f) = sum over j of S(b,i,j) x(b,j,f). x and out have three dims and any strides; 0 shares. */
SPARTA_API SPARTA_MUST sparta_status sparta_blocks_multiply(const sparta_blocks *s, const sparta_tensor *x,
                                                            const sparta_tensor *out,
                                                            const sparta_multiply_options *options,
                                                            const sparta_launch *launch, char *message,
                                                            size_t message_size);
/* S(b,i,j) = scale * sum over f of a(b,i,f) c(b,j,f) at the elements that exist, 0 elsewhere in its blocks: writes s->values. */
SPARTA_API SPARTA_MUST sparta_status sparta_blocks_sample(const sparta_blocks *s, const sparta_tensor *a,
                                                          const sparta_tensor *c, double scale,
                                                          const sparta_launch *launch, char *message,
                                                          size_t message_size);
/* The softmax of scale * S along the rows of each matrix, over the elements that exist; a row without any is 0. `out` is like s->values, and may
 * be the same memory. */
SPARTA_API SPARTA_MUST sparta_status sparta_blocks_softmax(const sparta_blocks *s, double scale,
                                                           const sparta_tensor *out,
                                                           const sparta_launch *launch, char *message,
                                                           size_t message_size);
/* Its gradient: s->values are the probabilities that it gave, `gradient` that of them; out = scale * p * (gradient - sum of p * gradient in the row).
 * May be the same memory as either. */
SPARTA_API SPARTA_MUST sparta_status sparta_blocks_softmax_gradient(const sparta_blocks *s, double scale,
                                                                    const sparta_tensor *gradient,
                                                                    const sparta_tensor *out,
                                                                    const sparta_launch *launch,
                                                                    char *message, size_t message_size);

/* ------------------------------------------------------------------ 2:4 weights on a GPU
 *
 *     words = sparta_half_bytes(SPARTA_F16, rows, cols) / 4;                                          packed: i32 (words) on the GPU, 16-byte aligned
 *     sparta_half_pack(&weight, &packed, &launch, message, sizeof message);                           once for each change of the weight
 *     sparta_half_multiply(&packed, rows, cols, &x, &y, NULL, &launch, message, sizeof message);      y = w x
 *
 * Of a weight (rows, cols) at most 2 of 4 neighbours along cols are not 0; sizes are any. It is packed to about 9/16 of its bytes, as the tensor cores of
 * sm_90a take it. f16 and bf16; others, and other GPUs, are E_UNSUPPORTED. Neither call needs a workspace.
 * Bytes of the packed weight; 0: there is none of this type or these sizes. */
SPARTA_API int64_t sparta_half_bytes(sparta_dtype dtype, int64_t rows, int64_t cols);
/* Packs it, on the stream. The elements of a row lie side by side; rows are any step apart. The last word is then 0; 1: somewhere more than 2 of 4 are not 0,
 * of which the two largest were taken. */
SPARTA_API SPARTA_MUST sparta_status sparta_half_pack(const sparta_tensor *weight,
                                                      const sparta_tensor *packed,
                                                      const sparta_launch *launch, char *message,
                                                      size_t message_size);
/* out(0,i,f) = sum over j of w(i,j) x(0,j,f): x (1, cols, tokens) and out (1, rows, tokens) as in sparta_blocks_multiply, with features side by side and tokens
 * that begin on 16 bytes. Words, bias and residual as there; not turned. The type is that of x, which has to be the weight's. Whatever `packed` holds, nothing else is read. */
SPARTA_API SPARTA_MUST sparta_status sparta_half_multiply(
    const sparta_tensor *packed, int64_t rows, int64_t cols, const sparta_tensor *x, const sparta_tensor *out,
    const sparta_multiply_options *options, const sparta_launch *launch, char *message, size_t message_size);

/* ------------------------------------------------------------------ unstructured weights on a GPU, for 1 to 64 tokens
 *
 *     words = sparta_bits_bytes(SPARTA_F16, rows, cols, pairs) / 4;                                   packed: i32 (words) on the GPU, 16-byte aligned
 *     sparta_bits_pack(&weight, &packed, &launch, message, sizeof message);                           once for each change of the weight
 *     sparta_bits_multiply(&packed, rows, cols, &x, &y, NULL, &launch, message, sizeof message);      y = w x
 *
 * A bit for each pair of neighbours along cols, and the pairs that are there: with so few tokens a product takes as long as its bytes. f16 and bf16, sm_80 and newer; others are
 * E_UNSUPPORTED. Neither call needs a workspace.
 * Bytes for any weight with at most `pairs` pairs (elements 2 j, 2 j + 1 of a row) of which one is not 0: count them in the mask, or take all, rows * ((cols + 1) / 2).
 * 0: there is none of this type or these sizes. */
SPARTA_API int64_t sparta_bits_bytes(sparta_dtype dtype, int64_t rows, int64_t cols, int64_t pairs);
/* Packs it, on the stream. The elements of a row lie side by side; rows are any step apart. `packed` has any number of words that is a multiple of 4 and enough for no pairs.
 * The last word is then 0; 1: more is there than fits, and products with it are wrong. */
SPARTA_API SPARTA_MUST sparta_status sparta_bits_pack(const sparta_tensor *weight,
                                                      const sparta_tensor *packed,
                                                      const sparta_launch *launch, char *message,
                                                      size_t message_size);
/* out(0,i,f) = sum over j of w(i,j) x(0,j,f) as sparta_half_multiply, for at most 64 tokens that begin on 16 bytes, or 56 at any place, which is slower. Whatever `packed` holds,
 * nothing else is read. */
SPARTA_API SPARTA_MUST sparta_status sparta_bits_multiply(
    const sparta_tensor *packed, int64_t rows, int64_t cols, const sparta_tensor *x, const sparta_tensor *out,
    const sparta_multiply_options *options, const sparta_launch *launch, char *message, size_t message_size);

/* ------------------------------------------------------------------ tuning on a GPU (docs/gpu.md)
 *
 *     sparta_tune_call call = {.size = sizeof call, .verb = SPARTA_MULTIPLY, .s = &w, .x = &x, .y = &y};
 *     sparta_tuned found = {.size = sizeof found};
 *     sparta_blocks_tune(cx, &call, &found);                                 "TOK=128 NWG=2": 231.0 us, by rule 252.4
 *
 * A kernel on a GPU runs at a point: sizes of its tiles, stages, blocks of a multiprocessor. A rule chooses it. Tuning times the points that such a call can run at, on its
 * own arrays: the answer of each is compared with the rule's on a poisoned result, then they take turns, by the device's time. One that is faster than the rule's by 2 % wins.
 * The winner is used by later calls that are alike (GPU, verb, type, sizes, share of blocks, about as many tokens, epilogue) in this process, and is remembered in the tuning
 * database for others. Any thread may call multiply and sample meanwhile. */
typedef struct sparta_tune_call {
    size_t size;
    sparta_verb verb; /* SPARTA_MULTIPLY, SPARTA_MULTIPLY_TURNED or SPARTA_SAMPLE */
    /* What such a call gets: x and out, or a and c. None of it is written: results go to memory of the device that is taken for it, twice the size of one. */
    const sparta_blocks *s;
    const sparta_tensor *x, *y;
    const sparta_multiply_options *options; /* without `turned`, which the verb says; NULL: none */
    /* A product with a packed 2:4 weight (sparta_half_pack) of these sizes instead of `s`; NULL: none. */
    const sparta_tensor *packed;
    int64_t rows, cols;
    int tf32; /* as in sparta_launch */
    /* To compile, check and time, about; what it does not reach is left for another time. 0: 30. */
    double seconds;
    const char *db; /* tuning database; NULL: beside the kernel cache; ":memory:": none */
    int again;      /* 1: measure what the database has, too */
} sparta_tune_call;

typedef struct sparta_tuned {
    size_t size;
    char implement[48]; /* which kernel, "strips" */
    char point[64];     /* where it differs from the rule's; "": the rule's, or the kernel has no choice */
    double us, rule_us; /* medians; 0: it has no choice, and nothing was timed */
    int points,
        measured; /* that the call can run at, the rule's among them; timed now, the others are the database's */
    int wrong, failed; /* whose answer differs, which do not run: notes of the context say which */
} sparta_tuned;
SPARTA_API SPARTA_MUST sparta_status sparta_blocks_tune(sparta_ctx *cx, const sparta_tune_call *call,
                                                        sparta_tuned *out);
/* Winners that the database (NULL: beside the kernel cache) has for the GPUs and the kernels of this process are used from now on. Returns how many; a database that
 * cannot be read has none, and notes say why. sparta_blocks_tune does it for its own call. */
SPARTA_API int sparta_blocks_recall(sparta_ctx *cx, const char *db);

/* ------------------------------------------------------------------ kernels for GPUs, compiled ahead (docs/gpu.md)
 *
 *     sparta_gpu_wish wish = {.size = sizeof wish, .device = "sm_90a", .verb = SPARTA_MULTIPLY, .dtype = SPARTA_F16, .rows = 4096, .cols = 4096,
 *                             .height = 64, .width = 64, .tokens = 2048, .density = 0.1, .epilogue = "bias gelu"};
 *     sparta_gpu_pack(cx, &wish, 1, "mine.sparta-gpu");                      where NVRTC is; needs no GPU
 *     sparta_gpu_load(cx, "mine.sparta-gpu");                                where the GPU is; needs no NVRTC. The same as SPARTA_GPU_KERNELS=mine.sparta-gpu
 *
 * The file has the kernels that such calls run by rule, on chips of that kind of any size, with what makes the index. Other sizes may run other kernels. It is code: load what you
 * trust. A version of the library has kernels of its own, and passes over those of others. */
typedef struct sparta_gpu_wish {
    size_t size;
    const char *device; /* "sm_90a" (Hopper), or another chip from sm_80 on, "sm_89" */
    sparta_verb verb;   /* a product or a sample */
    sparta_dtype dtype;
    int tf32;
    int64_t rows, cols, tokens;
    int64_t height, width; /* of blocks; 0: a packed 2:4 weight */
    double density;        /* share of the blocks that exist; 0: 0.1 */
    const char *epilogue;  /* "bias gelu"; NULL: none */
} sparta_gpu_wish;
SPARTA_API SPARTA_MUST sparta_status sparta_gpu_pack(sparta_ctx *cx, const sparta_gpu_wish *wish, int n,
                                                     const char *path);
/* For this process, from now on. E_FORMAT: it is damaged, or none. */
SPARTA_API SPARTA_MUST sparta_status sparta_gpu_load(sparta_ctx *cx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
