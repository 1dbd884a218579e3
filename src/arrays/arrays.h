/* arrays: files of numbers that other people's programs write and read.
 *
 *   npy npz      NumPy's arrays. npz entries are stored or deflated; zlib is loaded when it is there (dlopen), and a
 *                deflated entry without it is E_UNSUPPORTED
 *   safetensors  named arrays in one mapped file, read in place
 *   mtx smtx     Matrix Market and DLMC's text form; SciPy's save_npz: matrices, as the entries of a sp_coo
 *
 *     named arrays                     matrices
 *     .npz  .safetensors               .mtx  .smtx  SciPy's .npz
 *            \   /                              |
 *        sp_arrays                     sp_coo      entries in row-major order, no coordinate twice
 *
 * Everything read here is hostile: lengths are checked against the file before they are used, and memory comes from the context's
 * budget. A package needs none of this: the room is not in the runtime.
 */
#ifndef SP_ARRAYS_H
#define SP_ARRAYS_H

#include "arrays/coo.h"
#include "file/file.h"
#include "tensor/tensor.h"

/* npy: the tensor is a row-major copy (Fortran order is transposed), big-endian is E_UNSUPPORTED, strings too. */
/* Free out->data with sp_free. */
sparta_status sp_npy_read(sparta_ctx *cx, const char *path, sparta_tensor *out) SP_MUST;
sparta_status sp_npy_parse(sparta_ctx *cx, const void *bytes, size_t n, sparta_tensor *out) SP_MUST;
sparta_status sp_npy_write(sparta_ctx *cx, const char *path, const sparta_tensor *t) SP_MUST;
void sp_npy_header(const sparta_tensor *t, sp_text *out); /* magic, version 1.0, padded to 64 */

typedef struct sp_npz_entry {
    char *name;
    sparta_tensor tensor;
} sp_npz_entry;
typedef struct sp_npz {
    sparta_ctx *cx;
    int n;
    sp_npz_entry *entry;
} sp_npz;
sparta_status sp_npz_read(sparta_ctx *cx, const char *path, sp_npz *out) SP_MUST; /* names without ".npy" */
void sp_npz_free(sp_npz *z);
const sparta_tensor *sp_npz_find(const sp_npz *z, const char *name);
/* Entries are stored, not deflated. */
sparta_status sp_npz_write(sparta_ctx *cx, const char *path, int n, const char *const *names,
                           const sparta_tensor *tensors) SP_MUST;

/* ------------------------------------------------------------------ safetensors
 *
 *     header size (8 bytes, little-endian) | {"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...} | data
 *
 * The header has at most 100 MB, begins with '{' and repeats no key; data_offsets of all tensors tile the data
 * without gap or overlap, up to the end of the file. Types we lack are E_UNSUPPORTED and the message names the
 * tensor. Tensors are views of the mapping, except those that are not aligned for their type and bools that are
 * neither 0 nor 1: these are copies. Read-only, valid until close. */
typedef struct sp_key_value {
    const char *key, *value;
} sp_key_value;
typedef struct sp_safetensors {
    sp_mapped file;  /* empty when the bytes were borrowed */
    sp_arena *arena; /* names, entries, copies */
    int n;
    sp_npz_entry *entry; /* in the order of the data */
    int n_metadata;
    sp_key_value *metadata; /* of "__metadata__" */
} sp_safetensors;
sparta_status sp_safetensors_open(sparta_ctx *cx, const char *path, sp_safetensors *out) SP_MUST;
/* Borrows the bytes until close. */
sparta_status sp_safetensors_parse(sparta_ctx *cx, const void *bytes, size_t n, sp_safetensors *out) SP_MUST;
void sp_safetensors_close(sp_safetensors *s); /* one that is all zeros is fine */
/* Any strides; in the order and layout of the reference writer: widest type first, then by name. */
sparta_status sp_safetensors_write(sparta_ctx *cx, const char *path, int n, const char *const *names,
                                   const sparta_tensor *tensors, int n_metadata,
                                   const sp_key_value *metadata) SP_MUST;

/* Named arrays of an .npz or a .safetensors, whichever the first bytes (and, if they say nothing, the name) say. */
typedef struct sp_arrays {
    int n;
    const sp_npz_entry *entry;
    sp_npz npz; /* one of the two owns the entries */
    sp_safetensors safetensors;
} sp_arrays;
sparta_status sp_arrays_open(sparta_ctx *cx, const char *path, sp_arrays *out) SP_MUST;
void sp_arrays_close(sp_arrays *a);

/* ------------------------------------------------------------------ matrices, as their entries (coo.h) */

/* Matrix Market: coordinate and array; real (or double), integer, pattern; general, symmetric, skew-symmetric.
 * real gives f64, integer i64. Symmetric files are expanded; they hold one triangle, either one. Comments and blank
 * lines may stand anywhere after the first line. complex numbers (hermitian ones too) are read where every
 * imaginary part is 0, and E_UNSUPPORTED otherwise. "%%GraphBLAS type uint8_t" before the sizes gives the values that
 * type, into which they must fit. Without the first line three sizes are coordinate real general, two array real
 * general. Messages name the line: "line 7: the row 9 is not between 1 and 3". */
sparta_status sp_mtx_parse(sparta_ctx *cx, const void *bytes, size_t n, sp_coo *out) SP_MUST;
/* general; values print so that they read back the same. */
sparta_status sp_mtx_write(sparta_ctx *cx, const char *path, const sp_coo *c) SP_MUST;

/* SMTX, the text of the Deep Learning Matrix Collection: "rows, cols, nnz", a line of row offsets, a line of column
 * indices. A pattern: it has no values. */
sparta_status sp_smtx_parse(sparta_ctx *cx, const void *bytes, size_t n, sp_coo *out) SP_MUST;

/* SciPy's save_npz: csr csc coo bsr dia. As in SciPy, zeros in the blocks of a bsr are entries and zeros in a dia are not. */
bool sp_npz_is_scipy(const sp_npz *z);
sparta_status sp_scipy_matrix(sparta_ctx *cx, const sp_npz *z, sp_coo *out) SP_MUST;
sparta_status sp_scipy_read(sparta_ctx *cx, const char *path, sp_coo *out) SP_MUST;

/* Which of these a file is. */
typedef enum { SP_HOLDS_OTHER, SP_HOLDS_NPZ, SP_HOLDS_SAFETENSORS, SP_HOLDS_MTX, SP_HOLDS_SMTX } sp_holds;
sparta_status sp_file_holds(sparta_ctx *cx, const char *path, sp_holds *out) SP_MUST;
/* A matrix of any of these kinds; E_FORMAT for others. */
sparta_status sp_matrix_read(sparta_ctx *cx, const char *path, sp_coo *out) SP_MUST;

#endif
