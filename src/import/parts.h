/* parts.h: a node of the file that becomes several of ours. The rewrites of integer.c and contrib.c read like the formula they stand for:
 *
 *     sp_value *sum = PART(p, Add, p->in[0], p->in[1]);
 *     RESULT(p, 0, LayerNormalization, SP_ATTRS(SP_INT("axis", -1)), sum, p->in[2], p->in[3]);
 *
 * What fails leaves its status in the parts and gives NULL, and NULL for an operand that must be there gives NULL: only the caller looks. */
#ifndef SP_IMPORT_PARTS_H
#define SP_IMPORT_PARTS_H

#include "import/onnx.h"

enum { SP_PARTS_IN = 12, SP_PARTS_OUT = 6 };

typedef struct sp_parts {
    sp_importer *im;
    sp_onnx_node *n;
    sp_value *in[SP_PARTS_IN], *out[SP_PARTS_OUT]; /* of the file's node; NULL: absent */
    sparta_status status;
} sp_parts;

/* A new value, or *result where it is not NULL. Trailing operands that are NULL are absent. */
sp_value *sp_part(sp_parts *p, sp_value *result, sp_op_id op, const sp_attrs *attrs, int n_in,
                  sp_value *const *in);
#define PART_WITH(p, op, attrs, ...)                                                                         \
    sp_part(p, NULL, SP_OP_##op, attrs, (int)SP_COUNT(((sp_value *[]){__VA_ARGS__})),                        \
            (sp_value *[]){__VA_ARGS__})
#define PART(p, op, ...) PART_WITH(p, op, NULL, __VA_ARGS__)
/* The i-th output of the file's node. */
#define RESULT_WITH(p, i, op, attrs, ...)                                                                    \
    sp_part(p, (p)->out[i], SP_OP_##op, attrs, (int)SP_COUNT(((sp_value *[]){__VA_ARGS__})),                 \
            (sp_value *[]){__VA_ARGS__})
#define RESULT(p, i, op, ...) RESULT_WITH(p, i, op, NULL, __VA_ARGS__)

sp_value *sp_part_number(sp_parts *p, sparta_dtype dtype, double value); /* a constant without dims */
sp_value *sp_part_filled(sp_parts *p, int64_t n, float value);           /* f32 (n) */
sp_value *sp_part_ints(sp_parts *p, int n, const int64_t *value);        /* i64 (n) */
sp_value *sp_part_cast(sp_parts *p, sp_value *v, sparta_dtype to);
/* An attribute, taken out of the node: what is left at the end is refused. */
float sp_part_float(sp_parts *p, const char *name, float otherwise);
int64_t sp_part_int(sp_parts *p, const char *name, int64_t otherwise);
const char *sp_part_word(sp_parts *p, const char *name, const char *otherwise);
void sp_part_floats(sp_parts *p, const char *name, int n, float *out); /* NAN where it has fewer */
/* E_UNSUPPORTED, with the node in front; NULL. */
void *sp_part_refuse(sp_parts *p, const char *words);
/* How many dims, where the file lets that be known here; -1. */
int sp_part_rank(const sp_value *v);

typedef struct sp_part_row {
    const char *domain, *op;
    int least, most, outputs; /* inputs that must and may be there; outputs that may */
    void (*build)(sp_parts *p);
    const char *means; /* for docs/operators.md */
} sp_part_row;
extern const sp_part_row sp_integer_rows[], sp_contrib_rows[];
extern const int sp_integer_n_rows, sp_contrib_n_rows;
/* parts.c: the row of an operator; NULL: none. */
const sp_part_row *sp_part_find(const char *domain, const char *op);
sparta_status sp_part_build(sp_importer *im, sp_onnx_node *n, const sp_part_row *row) SP_MUST;

#endif
