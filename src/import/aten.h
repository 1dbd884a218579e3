/* aten.h: PyTorch's operators as ours. A row of aten.def says which function builds the nodes of an overload; the functions are in
 * aten_math.c (element by element, reductions, products), aten_shape.c (views, new tensors), aten_index.c (lookups, windows, writes at places, bags)
 * and aten_net.c (layers).
 *
 *     static sp_value *addmm(sp_aten *b)
 *     {
 *         sp_value *product = OP(b, MatMul, sp_aten_as(b, "mat1"), sp_aten_as(b, "mat2"));
 *         return OP(b, Add, sp_aten_as(b, "self"), product);
 *     }
 *
 * What fails leaves its status in the sp_aten and gives NULL, and NULL for an operand gives NULL: only the caller looks at the status.
 * Types are those that the file says of the result (PyTorch's promotion is done when a program is exported); operands of another type are
 * cast. Arguments that the file leaves out have the defaults of PyTorch's schema. */
#ifndef SP_IMPORT_ATEN_H
#define SP_IMPORT_ATEN_H

#include "import/pt2.h"

typedef struct sp_aten sp_aten;
typedef sp_value *(*sp_aten_builder)(sp_aten *b);

typedef struct sp_aten_row {
    const char *overload; /* "aten.linear.default" */
    sp_aten_builder build;
    sp_op_id op; /* what the function makes of it, where it makes several; else SP_OPS */
    bool view;   /* the result may share its first operand's memory */
} sp_aten_row;

struct sp_aten {
    sp_pt2 *p;
    const sp_aten_row *row;
    const json_value *node;
    const char *name, *module; /* of the nodes that are made */
    sparta_dtype dtype;        /* of the first output */
    int rank;
    const json_value *meta;
    int n_names;           /* of the outputs in the file */
    const char **out_name; /* theirs */
    sp_value **out;        /* what is made for each; NULL: nothing */
    bool bound;            /* the names of the outputs stand for something already */
    sparta_status status;
};

extern const sp_aten_row sp_aten_rows[];
extern const int sp_aten_n_rows;
/* Fills p->overloads. */
sparta_status sp_aten_index(sp_pt2 *p) SP_MUST;
/* The row of a target, and whether that changes its first operand (add_ is add in place); NULL: not supported. */
const sp_aten_row *sp_aten_find(sp_pt2 *p, const char *target, bool *in_place);

/* ------------------------------------------------------------------ arguments */

const json_value *sp_aten_arg(const sp_aten *b, const char *name); /* NULL: left out, or None */
const sp_pt2_value *sp_aten_tensor(sp_aten *b, const char *name);  /* never NULL; v is NULL after an error */
const sp_pt2_value *sp_aten_maybe(sp_aten *b, const char *name);   /* NULL: left out, or None */
/* A tensor or a number as an operand of that type (sp_aten_as: the result's); a number has no dims. */
sp_value *sp_aten_in(sp_aten *b, const char *name, sparta_dtype dtype);
sp_value *sp_aten_as(sp_aten *b, const char *name);
int64_t sp_aten_int(sp_aten *b, const char *name, int64_t otherwise);
double sp_aten_number(sp_aten *b, const char *name, double otherwise);
bool sp_aten_yes(sp_aten *b, const char *name, bool otherwise);
const char *sp_aten_word(sp_aten *b, const char *name, const char *otherwise);
/* Numbers that are known, SPARTA_RANK at most; how many. 0 where the argument is left out. */
int sp_aten_ints(sp_aten *b, const char *name, int64_t out[SPARTA_RANK]);
/* Sizes that may vary: one as (1) or as a scalar, a list as (n). */
sp_value *sp_aten_size(sp_aten *b, const char *name);
sp_value *sp_aten_scalar_size(sp_aten *b, const char *name);
sp_value *sp_aten_sizes(sp_aten *b, const char *name);
/* Tensors of a list, n of them; NULL entries: None. */
const sp_pt2_value **sp_aten_tensors(sp_aten *b, const char *name, int *n);
/* A size of a tensor that the file says is a number. */
bool sp_aten_known(const json_value *meta, int axis, int64_t *out);
/* An axis that may count from the end, of so many. */
int64_t sp_aten_axis(sp_aten *b, const char *name, int64_t otherwise, int rank);

/* ------------------------------------------------------------------ nodes */

sp_value *sp_aten_node(sp_aten *b, sp_op_id op, const sp_attrs *attrs, int n_in, sp_value *const *in);
/* The same where inputs may be absent and there are several outputs. */
bool sp_aten_nodes(sp_aten *b, sp_op_id op, const sp_attrs *attrs, int n_in, sp_value *const *in, int n_out,
                   sp_value **out);
#define OP_WITH(b, op, attrs, ...)                                                                           \
    sp_aten_node(b, SP_OP_##op, attrs, (int)SP_COUNT(((sp_value *[]){__VA_ARGS__})),                         \
                 (sp_value *[]){__VA_ARGS__})
#define OP(b, op, ...) OP_WITH(b, op, NULL, __VA_ARGS__)
sp_value *sp_aten_cast(sp_aten *b, sp_value *v, sparta_dtype from, sparta_dtype to);
sp_value *sp_aten_number_of(sp_aten *b, sparta_dtype dtype, double value); /* a constant without dims */
sp_value *sp_aten_numbers(sp_aten *b, int n, const int64_t *value);        /* i64 (n) */
sp_value *sp_aten_filled(sp_aten *b, sparta_dtype dtype, int64_t n, double value); /* (n) */
sp_value *sp_aten_swap_last(sp_aten *b, sp_value *v, int rank);
/* What arguments start, end and step take of an axis, sizes as (1); true where that is all of it. */
bool sp_aten_slice(sp_aten *b, sp_value **from, sp_value **to, int64_t *step);
/* E_UNSUPPORTED, with what and what to do; NULL. */
void *sp_aten_refuse(sp_aten *b, const char *format, ...) SP_PRINTF(2, 3);

/* The builders, by the names of aten.def. */
#define SP_ATEN(overload, build, op)      sp_value *sp_aten_build_##build(sp_aten *b);
#define SP_ATEN_VIEW(overload, build, op) sp_value *sp_aten_build_##build(sp_aten *b);
#include "import/aten.def"
#undef SP_ATEN
#undef SP_ATEN_VIEW
#define BUILD(name) sp_value *sp_aten_build_##name(sp_aten *b)

#endif
