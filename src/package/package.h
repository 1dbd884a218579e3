/* package: the compiled model, in memory and on disk.
 *
 *   +--------------------------------------------------------------+
 *   | header   magic, version, where the sections are, digests     |  4 KiB; digest checked on opening
 *   | plan     the graph in its text form with annotations         |  digest checked on opening
 *   | others   plans for other numbers of tokens than the usual     |  digest checked on opening; mostly empty
 *   | given    text of the graph that the plan is smaller than     |  digest checked on opening; empty when it is not
 *   | code     one shared object per kernel and target             |  digest checked on opening; none of a target that is unknown
 *   | source   kernel text, for reading only, never compiled       |  digest checked on opening
 *   | weights  64-byte aligned arrays, mapped not copied           |  digest each, checked by verify; indices when they are first used
 *   | tables   weights (name, dtype, dims, format, where), kernels |  digest checked on opening
 *   +--------------------------------------------------------------+
 *   Between them lies padding, which verify and `inspect --check` hold to be 0 (check.c): every byte of the file counts.
 *
 * A package is trusted like an executable: sessions run its code; opening and inspecting do not. Digests find damage, they
 * are no signature. What is checked is what is used: header, plan, tables and code are copied out of the file before they are
 * checked; weights are read through bounds that come from the checked tables. Weights stay in the mapped file: whoever writes into it
 * changes what runs, so sessions look before and after each run whether the file is as it was when it was opened.
 *
 * Positions and coordinates of packed weights, which kernels follow without looking, are the exception: they are copied and verified, not
 * on opening but before anybody follows them (ready.c), by all threads of the session that does. Whoever wants the storage of a packed weight
 * asks sp_package_packed, never sp_weight.pack.
 *
 * Code is taken only where it was compiled for the argument structs that this library fills (panel/abi.h): it carries a digest of their text.
 *
 * A weight is stored as it is, or packed by a format (format.h) into several arrays: positions and coordinates of its levels (or the
 * arrays of an opaque format), values; once for each part of a sum. Its constant in the plan has the same name and the logical
 * shape. Formats that are sums belong to the context that opened the package: it must outlive the package, as it must anyhow for
 * its memory.
 */
#ifndef SP_PACKAGE_H
#define SP_PACKAGE_H

#include "device/device.h"
#include "file/file.h"
#include "format/format.h"
#include "graph/graph.h"

typedef struct sp_unverified sp_unverified; /* indices that nobody may follow yet */
typedef struct sp_index_room sp_index_room; /* for copies of them */
typedef struct sp_weight {
    const char *name;
    bool packed;
    sparta_tensor tensor;   /* when not packed */
    sp_packed pack;         /* when packed, as (n, k): for sp_package_packed; types and sizes may be read */
    bool owned;             /* pack was allocated for this package */
    bool swapped;           /* packed, and its constant in the plan is (k, n) */
    sp_unverified *indices; /* of a packed one that came from a file; NULL: they were made here */
} sp_weight;

/* Something that must live as long as the package: freed with it. */
typedef struct sp_model_owner {
    void *object;
    void (*release)(void *object);
    sparta_status (*check)(sparta_ctx *cx, const void *object); /* are its files as they were? */
} sp_model_owner;

/* One kernel: how it was made, and machine code for some targets. */
typedef struct sp_kernel_code {
    sp_target target;
    uint64_t abi; /* sp_panel_abi of the library that compiled it */
    const uint8_t *bytes;
    size_t size;
    bool unchecked; /* compiled where it could not run: nobody has compared its answers */
} sp_kernel_code;
typedef struct sp_kernel {
    const char *kernel;     /* row of panel.def: "linear" */
    const char *parameters; /* "FORM=1 CRD=2 EPILOGUE=word_gelu(v) STAT=0" */
    const char *source;     /* text for reading */
    int n_code;
    sp_kernel_code *code;
} sp_kernel;

typedef struct sp_array_digest { /* what the file says of one array of weights, or of a section */
    const char *name;            /* of the weight, or of the section */
    bool section;
    const uint8_t *bytes; /* in the mapping */
    size_t size;
    uint8_t digest[32];
} sp_array_digest;

/* A plan of the same model for runs whose products have `least` to `most` tokens. */
typedef struct sp_other_plan {
    int64_t least, most;
    sp_graph *plan;
} sp_other_plan;
enum { SP_OTHER_PLANS = 8 };

struct sparta_package {
    sparta_ctx *cx;
    sp_arena *arena;
    sp_graph *plan;
    int n_others;
    sp_other_plan other[SP_OTHER_PLANS]; /* no two of them for the same number of tokens */
    /* The model before propagation, as text without its weights: for bench, whose dense baseline is what was given. NULL: the plan
     * has everything that was given. */
    const char *given;
    int n_weights;
    sp_weight *weight;
    sp_map *by_name;      /* weight name -> index */
    sp_index_room *rooms; /* of indices that came from a file */
    int n_kernels;
    sp_kernel *kernel;
    const char *path; /* of the file; NULL: it was opened in memory or just compiled */
    sp_mapped file;   /* weights live here when it was opened; empty when it was just compiled */
    bool borrowed;    /* `file` is the caller's memory */
    size_t bytes;     /* of the file */
    int n_digests;
    sp_array_digest *digest; /* of the sections and arrays in the file */
    const char *note;        /* what its user should know; NULL: nothing */
    /* Of one that was just compiled, for its report; 0 of one that was opened: elements of weights before propagation and after it, and
     * weights that were not 0 and that masks removed. */
    int64_t parameters_given, parameters_left, masked_nonzero;
    sp_model_owner owner; /* keeps borrowed weights alive when just compiled; object NULL otherwise */
};

/* The targets that the package has code for, best first; returns how many. */
typedef struct sp_package_target {
    sp_target target;
    int kernels; /* that have code for it */
    bool unchecked;
} sp_package_target;
int sp_package_targets(const sparta_package *p, sp_package_target out[SP_TARGETS]);

sparta_status sp_package_create(sparta_ctx *cx,
                                sparta_package **out) SP_MUST; /* empty, to be filled by compile */
/* E_IO when the file that its weights lie in was written since it was opened: its package, or the model it was just made of. */
sparta_status sp_package_unchanged(sparta_ctx *cx, const sparta_package *p) SP_MUST;
/* The storage of a packed weight, verified; from any thread. E_FORMAT: its indices cannot be followed. */
sparta_status sp_package_packed(sparta_ctx *cx, const sp_weight *w, const sp_packed **out) SP_MUST;
/* The same for all of them, by a team; failures name the package. */
sparta_status sp_package_ready(sparta_ctx *cx, const sparta_package *p, sp_pool *team) SP_MUST;
const sp_weight *sp_package_weight(const sparta_package *p, const char *name); /* or NULL */

#endif
