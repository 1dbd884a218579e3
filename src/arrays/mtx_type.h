/* The numbers of a Matrix Market file and the types that a line of GraphBLAS gives them: "%%GraphBLAS type int8_t". */
#ifndef SP_ARRAYS_MTX_TYPE_H
#define SP_ARRAYS_MTX_TYPE_H

#include "arrays/lines.h"
#include "tensor/tensor.h"

typedef struct mtx_type {
    const char *name, *grb; /* as C writes it, as GraphBLAS does */
    sparta_dtype dtype;
    bool complex; /* dtype is that of the real part */
} mtx_type;

const mtx_type *sp_mtx_type_of(sparta_dtype t); /* of files that name none */

/* A value: a real number of types with fractions, a sign and a size of the others (so that all 64 bits are there). */
typedef struct mtx_number {
    double real;
    uint64_t size;
    bool minus;
} mtx_number;

/* The type that a comment, read up to its first word, gives; *out stays as it is if that says nothing of types. */
sparta_status sp_mtx_type_line(line_reader *r, const mtx_type **out) SP_MUST;
/* The next token; a whole number only, or one with a fraction that the type may or may not have. */
sparta_status sp_mtx_number(line_reader *r, const mtx_type *type, bool whole, mtx_number *out) SP_MUST;
/* v->real was read: as a value of the type. */
sparta_status sp_mtx_from_real(line_reader *r, const mtx_type *type, mtx_number *v) SP_MUST;
sparta_status sp_mtx_negate(line_reader *r, const mtx_type *type, mtx_number *v) SP_MUST;
void sp_mtx_store(const mtx_type *type, void *data, int64_t at, const mtx_number *v);

#endif
