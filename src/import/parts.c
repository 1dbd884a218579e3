/* parts.c: pieces that rewrites of a node are made of: what parts.h says. */
#include "import/parts.h"
#include "tensor/tensor.h"
#include <math.h>
#include <string.h>

enum { RANK_STEPS = 64 };

/* ------------------------------------------------------------------ errors */

void *sp_part_refuse(sp_parts *p, const char *words)
{
    if (p->status == SPARTA_OK)
        p->status = sp_fail(p->im->cx, SPARTA_E_UNSUPPORTED, "%s '%.200s': %s", p->n->op, p->n->name, words);
    return NULL;
}

static void *malformed(sp_parts *p, const char *what)
{
    if (p->status == SPARTA_OK)
        p->status = sp_fail(p->im->cx, SPARTA_E_FORMAT, "%s '%.200s': %s", p->n->op, p->n->name, what);
    return NULL;
}

/* ------------------------------------------------------------------ nodes */

/* A product has the name of the node, as layers are called; what else becomes of it says what it is behind that. */
static const char *part_name(const sp_parts *p, sp_op_id op, bool result)
{
    if (result || SP_OP_AMONG(op, SP_OP_MatMul, SP_OP_Gemm, SP_OP_Conv)) return p->n->name;
    return sp_arena_printf(p->im->scratch, "%s/%s", p->n->name, sp_builtin_row(op)->name);
}

sp_value *sp_part(sp_parts *p, sp_value *result, sp_op_id op, const sp_attrs *attrs, int n_in,
                  sp_value *const *in)
{
    sp_value *out = result;
    sp_node *made;
    if (p->status != SPARTA_OK) return NULL;
    while (n_in > 1 && !in[n_in - 1]) n_in--;
    const char *name = part_name(p, op, result != NULL);
    p->status = name ? sp_graph_add_node(p->im->g, op, name, n_in, in, 1, &out, attrs, &made)
                     : sp_ctx_status(p->im->cx);
    if (p->status != SPARTA_OK) return NULL;
    if (p->n->module && !(made->module = sp_arena_string(p->im->g->arena, p->n->module)))
        p->status = sp_ctx_status(p->im->cx);
    return out;
}

static sp_value *constant(sp_parts *p, const sparta_tensor *t)
{
    sp_value *v = NULL;
    if (p->status == SPARTA_OK) p->status = sp_graph_add_constant(p->im->g, NULL, t, true, &v);
    return p->status == SPARTA_OK ? v : NULL;
}

sp_value *sp_part_number(sp_parts *p, sparta_dtype dtype, double value)
{
    uint64_t room = 0;
    sp_element_set(dtype, &room, 0, value);
    const sparta_tensor t = sparta_tensor_view(dtype, 0, NULL, &room);
    return constant(p, &t);
}

sp_value *sp_part_filled(sp_parts *p, int64_t n, float value)
{
    sparta_tensor t;
    if (p->status == SPARTA_OK) p->status = sp_tensor_alloc_in(p->im->scratch, SPARTA_F32, 1, &n, &t);
    for (int64_t i = 0; p->status == SPARTA_OK && i < n; i++) ((float *)t.data)[i] = value;
    return constant(p, &t);
}

sp_value *sp_part_ints(sp_parts *p, int n, const int64_t *value)
{
    const int64_t dim = n;
    const sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, &dim, (void *)(uintptr_t)value);
    return constant(p, &t);
}

sp_value *sp_part_cast(sp_parts *p, sp_value *v, sparta_dtype to)
{
    return PART_WITH(p, Cast, SP_ATTRS(SP_INT("to", sp_dtype_to_onnx(to))), v);
}

/* ------------------------------------------------------------------ attributes */

static bool take(sp_parts *p, const char *name, sp_attr_kind kind, sp_attr *out)
{
    sp_onnx_node *n = p->n;
    for (int i = 0; i < n->n_attr; i++) {
        if (strcmp(n->attr[i].name, name) != 0) continue;
        *out = n->attr[i];
        memmove(n->attr + i, n->attr + i + 1, (size_t)(n->n_attr - i - 1) * sizeof *n->attr);
        n->n_attr--;
        if (out->kind == kind) return true;
        malformed(p, "an attribute is of another type");
    }
    return false;
}

float sp_part_float(sp_parts *p, const char *name, float otherwise)
{
    sp_attr a;
    return take(p, name, SP_ATTR_FLOAT, &a) ? a.f : otherwise;
}

int64_t sp_part_int(sp_parts *p, const char *name, int64_t otherwise)
{
    sp_attr a;
    return take(p, name, SP_ATTR_INT, &a) ? a.i : otherwise;
}

const char *sp_part_word(sp_parts *p, const char *name, const char *otherwise)
{
    sp_attr a;
    return take(p, name, SP_ATTR_STRING, &a) ? a.s : otherwise;
}

void sp_part_floats(sp_parts *p, const char *name, int n, float *out)
{
    sp_attr a;
    for (int i = 0; i < n; i++) out[i] = NAN;
    if (!take(p, name, SP_ATTR_FLOATS, &a)) return;
    if (a.n > n) malformed(p, "an attribute has more numbers than it may");
    for (int i = 0; i < a.n && i < n; i++) out[i] = a.floats[i];
}

/* ------------------------------------------------------------------ what is known of a value */

/* In so many steps, over all branches: a hostile graph has a value on both sides of each node. */
static int rank_within(const sp_value *v, int *steps)
{
    if (!v || !*steps) return -1;
    --*steps;
    if (v->typed) return v->dims.rank;
    const sp_node *n = v->producer;
    if (!n) return -1;
    const sp_attr *perm = sp_attr_find(&n->attrs, "perm");
    if (n->op == SP_OP_Transpose) return perm ? perm->n : rank_within(n->in[0], steps);
    if (n->op == SP_OP_Reshape) {
        const sp_value *shape = n->n_in > 1 ? n->in[1] : NULL;
        return shape && shape->typed && shape->dims.rank == 1 && shape->constant
                   ? (int)SP_MIN(sparta_tensor_elements(shape->constant), (int64_t)SPARTA_RANK + 1)
                   : -1;
    }
    if (!SP_OP_AMONG(n->op, SP_OP_Add, SP_OP_Mul, SP_OP_Sub, SP_OP_Div, SP_OP_MatMul, SP_OP_Cast,
                     SP_OP_Identity, SP_OP_Softmax, SP_OP_LayerNormalization, SP_OP_Gelu, SP_OP_Relu))
        return -1;
    int most = -1;
    for (int i = 0; i < n->n_in && i < 2; i++) {
        const int rank = rank_within(n->in[i], steps);
        if (rank < 0 || i == 1) return i == 1 && rank >= 0 ? SP_MAX(most, rank) : -1;
        most = rank;
        if (!SP_OP_AMONG(n->op, SP_OP_Add, SP_OP_Mul, SP_OP_Sub, SP_OP_Div, SP_OP_MatMul)) return most;
    }
    return most;
}

int sp_part_rank(const sp_value *v)
{
    return rank_within(v, &(int){RANK_STEPS});
}

/* ------------------------------------------------------------------ the doors */

const sp_part_row *sp_part_find(const char *domain, const char *op)
{
    const struct {
        const sp_part_row *row;
        int n;
    } tables[] = {{sp_integer_rows, sp_integer_n_rows}, {sp_contrib_rows, sp_contrib_n_rows}};
    if (!strcmp(domain, "ai.onnx")) domain = "";
    for (size_t t = 0; t < SP_COUNT(tables); t++)
        for (int i = 0; i < tables[t].n; i++)
            if (!strcmp(tables[t].row[i].op, op) && !strcmp(tables[t].row[i].domain, domain))
                return &tables[t].row[i];
    return NULL;
}

sparta_status sp_part_build(sp_importer *im, sp_onnx_node *n, const sp_part_row *row)
{
    sp_parts p = {.im = im, .n = n};
    bool all = n->n_in <= row->most && n->n_out > 0 && n->n_out <= row->outputs && n->out[0];
    for (int i = 0; i < row->least; i++) all &= i < n->n_in && n->in[i];
    if (!all)
        return sp_fail(
            im->cx, SPARTA_E_FORMAT,
            "%s '%.200s': %d inputs, of which the first %d must be there and %d may, and %d outputs "
            "of at most %d",
            n->op, n->name, n->n_in, row->least, row->most, n->n_out, row->outputs);
    for (int i = 0; i < n->n_in; i++) p.in[i] = n->in[i];
    for (int i = 0; i < n->n_out; i++) p.out[i] = n->out[i];
    row->build(&p);
    if (p.status == SPARTA_OK && n->n_attr)
        p.status = sp_fail(im->cx, SPARTA_E_UNSUPPORTED, "%s '%.200s': attribute '%.100s' is not supported",
                           n->op, n->name, n->attr[0].name);
    return p.status;
}
