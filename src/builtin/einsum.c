/* Einsum: result[kept loops] = sum over the other loops of the product of the operands, each at its own dims of the loops (attribute
 * equation, einsum.h). Floats in double, integers wrap. One nest of loops, the innermost the last that is summed over. */
#include "builtin/einsum.h"

typedef struct nest {
    const sp_op_args *args;
    sp_einsum e;
    int64_t size[SP_EINSUM_LOOPS], index[SP_EINSUM_LOOPS];
    int64_t *step; /* of operand i along loop l, in elements: step[i * loops + l] */
    int64_t *at;   /* element offset of operand i */
} nest;

static sparta_status disagree(sparta_ctx *cx, const nest *n, int i, int d, int64_t size)
{
    return sp_fail(cx, SPARTA_E_SHAPE,
                   "Einsum: equation \"%.100s\": dim %d of operand %d is %lld and was %lld before",
                   sp_attr_string(n->args->attrs, "equation", ""), d, i + 1, (long long)n->args->in[i].dim[d],
                   (long long)size);
}

static sparta_status find_sizes(sparta_ctx *cx, nest *n)
{
    bool known[SP_EINSUM_LOOPS] = {false};
    for (int i = 0; i < n->e.n; i++)
        for (int d = 0; d < n->args->in[i].rank; d++) {
            const int l = n->e.loop[i][d];
            const int64_t dim = n->args->in[i].dim[d];
            if (!known[l] || (n->e.wide[l] && n->size[l] == 1))
                n->size[l] = dim;
            else if (dim != n->size[l] && !(n->e.wide[l] && dim == 1))
                return disagree(cx, n, i, d, n->size[l]);
            known[l] = true;
        }
    return SPARTA_OK;
}

/* A letter that occurs twice steps along both dims: the diagonal. A size of 1 in "..." repeats. */
static void find_steps(nest *n)
{
    for (int i = 0; i < n->e.n; i++)
        for (int d = 0; d < n->args->in[i].rank; d++)
            if (n->args->in[i].dim[d] > 1)
                n->step[i * n->e.loops + n->e.loop[i][d]] += n->args->in[i].stride[d];
}

static void advance(nest *n)
{
    for (int l = n->e.loops - 1; l >= 0; l--) {
        const bool over = ++n->index[l] == n->size[l];
        for (int i = 0; i < n->e.n; i++)
            n->at[i] += n->step[i * n->e.loops + l] * (over ? 1 - n->size[l] : 1);
        if (!over) return;
        n->index[l] = 0;
    }
}

static double real_product(const nest *n)
{
    double x = 1;
    for (int i = 0; i < n->e.n; i++) x *= sp_element_get(n->args->in[i].dtype, n->args->in[i].data, n->at[i]);
    return x;
}

static uint64_t integer_product(const nest *n)
{
    uint64_t x = 1;
    for (int i = 0; i < n->e.n; i++)
        x *= (uint64_t)sp_element_get_int(n->args->in[i].dtype, n->args->in[i].data, n->at[i]);
    return x;
}

/* inner steps make one element of the result. */
static sparta_status run(sparta_ctx *cx, nest *n, int64_t inner)
{
    const sparta_tensor *out = &n->args->out[0];
    const bool real = sp_dtype_is_float(out->dtype);
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 1, &out); w.more; sp_cursor_next(&w)) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < inner; k++, advance(n)) {
            if (real)
                sum += real_product(n);
            else
                whole += integer_product(n);
            if ((k & 0xfffff) == 0xfffff) SP_TRY(sp_check_cancel(cx));
        }
        if (real)
            sp_element_set(out->dtype, out->data, w.at[0], sum);
        else
            sp_element_set_int(out->dtype, out->data, w.at[0], (int64_t)whole);
        SP_TRY(sp_check_cancel(cx));
    }
    return SPARTA_OK;
}

static sparta_status compute(sparta_ctx *cx, nest *n)
{
    int64_t inner = 1;
    SP_TRY(find_sizes(cx, n));
    find_steps(n);
    const sparta_tensor *out = &n->args->out[0];
    bool fits = out->rank == n->e.kept;
    for (int l = 0; l < n->e.kept && fits; l++) fits = out->dim[l] == n->size[l];
    if (!fits) return sp_fail(cx, SPARTA_E_SHAPE, "Einsum: the result has other dims than the equation says");
    bool none = false; /* a sum over nothing, whatever the other loops are */
    for (int l = n->e.kept; l < n->e.loops; l++) none |= n->size[l] == 0;
    for (int l = n->e.kept; l < n->e.loops && !none; l++)
        if (!sp_int_mul(inner, n->size[l], &inner))
            return sp_fail(cx, SPARTA_E_LIMIT, "Einsum: sums of more terms than 63 bits count");
    return run(cx, n, none ? 0 : inner);
}

sparta_status sp_builtin_Einsum(sparta_ctx *cx, const sp_op_args *args)
{
    nest n = {.args = args};
    int *rank = sp_alloc_array(cx, (size_t)args->n_in, sizeof *rank);
    SP_NEED(cx, rank);
    for (int i = 0; i < args->n_in; i++) rank[i] = args->in[i].rank;
    sparta_status status =
        sp_einsum_parse(cx, sp_attr_string(args->attrs, "equation", ""), args->n_in, rank, &n.e);
    sp_free(cx, rank);
    SP_TRY(status);
    n.step = sp_alloc_array(cx, (size_t)args->n_in * (size_t)(n.e.loops + 1), sizeof *n.step);
    n.at = sp_alloc_array(cx, (size_t)args->n_in, sizeof *n.at);
    status = n.step && n.at ? compute(cx, &n) : sp_ctx_status(cx);
    sp_free(cx, n.step);
    sp_free(cx, n.at);
    sp_free(cx, n.e.loop);
    return status;
}
