/* The TeSA of a value: what is known of its elements before the model runs. Propagation keeps one for every value of a graph, files and
 * texts carry them, and sparta.h has them as sparta_tesa.
 *
 *     tesa [batch,128,768]; has along 2 mask 1x768 rle 0 700 68; constant f32 along 2 mask 1x768 rle 0 2 766 values 0.5 -2; precision i8
 *
 *   dims       expressions: a number, a symbol, batch*sequence
 *   state      of each element: it is 0 (it does not exist), it is a constant, or it may be anything
 *   value      of those that are constants: a pruned channel after a bias
 *   precision  of each element
 *
 * Cells: a byte for each element, with an extent for each axis that is its size, or 1 where all are alike. A pruned channel of
 * (batch, 64, h, w) is 64 bytes {1, 64, 1, 1} whatever the sizes are; an axis whose size is no number always has extent 1. The tensor
 * of values has dims of that kind too, which may be finer than the state's: of a weight it is the weight itself.
 *
 * Everything lives in one arena, or is borrowed from whoever made it. Outside, the same facts are arrays that broadcast as NumPy's do:
 * sparta_tesa_facts (sparta.h) is what texts and files are made of and read into, and what the checks are in terms of.
 *
 * Invariants. A constant is finite, and is not 0: 0 is the state 0, also -0.0 unless the context is strict. What is NaN or infinite may be
 * anything: nothing is concluded from it. What was made from facts, a text or a file has the smallest extents, so that what says the same
 * prints the same.
 */
#ifndef SP_TESA_ATTRIBUTE_H
#define SP_TESA_ATTRIBUTE_H

#include "expr/expr.h"
#include "arrays/arrays.h"
#include "tesa/tesa.h"

/* ------------------------------------------------------------------ precisions */
typedef enum {
#define SP_PRECISION(id, name, sign, exponent, value) SP_PRECISION_##id,
#include "tesa/precisions.def"
#undef SP_PRECISION
    SP_PRECISIONS
} sp_precision;
const char *sp_precision_name(sp_precision p);
bool sp_precision_parse(const char *name, size_t size, sp_precision *out);
sp_precision sp_precision_of(sparta_dtype dtype);
bool sp_precision_holds(sp_precision wide, sp_precision narrow); /* every value of narrow */
sp_precision sp_precision_join(sp_precision a, sp_precision b);  /* the first that holds both */

/* ------------------------------------------------------------------ cells */
typedef struct sp_cells {
    int64_t extent[SPARTA_RANK];
    uint8_t *at; /* row-major; NULL: not decided */
} sp_cells;

sparta_status sp_cells_new(sp_arena *arena, int rank, const int64_t *extent, sp_cells *out) SP_MUST;
/* One cell for the whole value. */
sparta_status sp_cells_one(sp_arena *arena, uint8_t x, sp_cells *out) SP_MUST;
int64_t sp_cells_held(const sp_cells *c, int rank);                        /* how many there are */
int64_t sp_cell_at(int rank, const int64_t *extent, const int64_t *index); /* where it lies */
uint8_t sp_cells_get(const sp_cells *c, int rank, const int64_t *index);
bool sp_cells_has(const sp_cells *c, int rank, uint8_t bit); /* some cell has the bit */
bool sp_cells_all(const sp_cells *c, int rank, uint8_t bit);
/* Row-major (outer, size, inner bytes): are all the same along the middle? Keep its first, in place. */
bool sp_slices_alike(const void *data, int64_t outer, int64_t size, size_t inner);
void sp_slices_first(void *data, int64_t outer, int64_t size, size_t inner);
/* Axes along which all cells are alike get extent 1. */
void sp_cells_tighten(sp_cells *c, int rank);
/* The same of row-major elements of any size. */
void sp_extents_tighten(void *data, size_t element, int rank, int64_t *extent);

/* ------------------------------------------------------------------ the object */
/* States. Bit 1: may be other than 0. Bit 0: may be anything. */
enum { SP_ZERO = 0, SP_SOME = 2, SP_UNKNOWN = 3 };

typedef struct sp_tesa {
    sp_dims dims;
    sp_cells state;      /* at NULL: nothing is known */
    sparta_tensor value; /* each dim is the value's or 1; data NULL: no constants but 0 */
    sp_cells precision;  /* a sp_precision each; at NULL: any */
} sp_tesa;

/* The state of a number. */
uint8_t sp_state_of(bool strict, double x);
/* How many differ along an axis, in state or value. */
int64_t sp_tesa_extent(const sp_tesa *t, int axis);
/* What is known of one element: true with its value, or false. */
bool sp_tesa_known(const sp_tesa *t, const int64_t *index, double *value);
sp_precision sp_tesa_precision(const sp_tesa *t, const int64_t *index); /* NULL: of the first */
/* Elements of which 0, or another constant, is known, as shares of all of them. */
void sp_tesa_shares(const sp_tesa *t, double *zeros, double *constants);

/* ------------------------------------------------------------------ facts, texts, files: everything in `arena` */
/* Checks them (E_SHAPE, E_DTYPE, E_USAGE) and takes copies. */
sparta_status sp_tesa_of_facts(sp_arena *arena, const sparta_tesa_facts *facts, sp_tesa *out) SP_MUST;
sparta_status sp_tesa_facts(sp_arena *arena, const sp_tesa *t, sparta_tesa_facts *out) SP_MUST;

/* attribute_text.c has the grammar. E_FORMAT, with the character, for what is not whole. */
sparta_status sp_tesa_print(const sp_tesa *t, sp_text *out) SP_MUST;
sparta_status sp_tesa_parse(sp_arena *arena, const char *text, sp_tesa *out) SP_MUST;

/* Named attributes in one .npz, or .safetensors when the path ends so: arrays NAME/tesa, NAME/has, NAME/known, NAME/values, NAME/precision
 * (attribute_file.c). */
sparta_status sp_tesa_write(sparta_ctx *cx, const char *path, int n, const char *const *name,
                            const sp_tesa *const *tesa) SP_MUST;

/* What a file has: attributes, and arrays that belong to none. */
typedef struct sp_named_tesa {
    const char *name;
    const sparta_tensor *array; /* NULL: an attribute */
    sp_tesa tesa;
} sp_named_tesa;
typedef struct sp_tesas {
    sp_arrays arrays;
    sp_arena *arena; /* attributes and masks */
    int n;
    sp_named_tesa *entry;
} sp_tesas;
/* Is this the name of the array that an attribute begins with? */
bool sp_tesa_is_array(const char *name);
sparta_status sp_tesas_open(sparta_ctx *cx, const char *path, sp_tesas *out) SP_MUST;
void sp_tesas_close(sp_tesas *f); /* one that is all zeros is fine */
/* Entry i as a mask, zero where an element is gone: the array itself, or what exists of an attribute whose dims are numbers. */
sparta_status sp_tesas_mask(const sp_tesas *f, int i, sparta_tensor *out) SP_MUST;

#endif
