/* matmul_skip: y = x w of two values that are computed, most of x being 0 when it runs. in: x (..., m, k), w (..., k, n) with the same matrices in front or one for
 * all of them; out: (..., m, n); all in rows. Threads share the rows of all matrices. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_matmul_skip.h"

typedef struct sizes {
    int64_t matrices, m, k, n;
    bool shared; /* one w for all */
} sizes;

/* False: they are no such matrices. */
static bool sizes_of(const sp_job *job, sizes *out)
{
    const sparta_tensor *x = &job->in[0].tensor, *w = &job->in[1].tensor, *y = &job->out[0].tensor;
    const int rank = x->rank;
    if (rank < 2 || y->rank != rank || w->rank < 2 || w->rank > rank) return false;
    *out = (sizes){1, x->dim[rank - 2], x->dim[rank - 1], y->dim[rank - 1], true};
    bool same = w->rank == rank;
    for (int d = 0; d + 2 < rank; d++) {
        if (x->dim[d] != y->dim[d]) return false;
        same = same && w->dim[d] == x->dim[d];
        out->matrices *= x->dim[d];
    }
    for (int d = 0; d + 2 < w->rank; d++) out->shared = out->shared && w->dim[d] == 1;
    return (same || out->shared) && y->dim[rank - 2] == out->m && w->dim[w->rank - 2] == out->k &&
           w->dim[w->rank - 1] == out->n;
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    sizes s;
    if (!sizes_of(job, &s))
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: these are no matrices that kernel 'matmul_skip' multiplies",
                       job->node->name);
    if (s.k >= INT32_MAX)
        return sp_fail(cx, SPARTA_E_LIMIT, "%s: a list has no room for the numbers of %ld elements",
                       job->node->name, (long)s.k);
    const sparta_tensor *const of[] = {&job->in[0].tensor, &job->in[1].tensor, &job->out[0].tensor};
    for (size_t i = 0; i < SP_COUNT(of); i++)
        if (!sp_tensor_contiguous(of[i]))
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: there are gaps between its elements", job->node->name);
    return SPARTA_OK;
}

/* To wake a thread takes longer than to look at a few thousand elements. */
static int parts_of(const sp_job *job, int most)
{
    enum { ALONE = 1 << 14 };
    const int64_t rows = sp_panel_tokens(&job->in[0].tensor),
                  work = sparta_tensor_elements(&job->in[0].tensor) +
                         sparta_tensor_elements(&job->out[0].tensor);
    return (int)SP_MAX(SP_MIN(SP_MIN(work / ALONE + 1, rows), (int64_t)most), 1);
}

/* A list, whatever is there. */
static size_t work(const sp_job *job)
{
    (void)job;
    return SP_SKIP_ROOM * sizeof(unsigned);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    enum { NEAR = 1 << 17, UNIT = 128 }; /* floats of w that stay in the cache; columns */
    struct sp_matmul_skip_args *a = &out->matmul_skip;
    int64_t row0, row1;
    sizes s;
    if (!sizes_of(job, &s)) return false;
    sp_panel_share(s.matrices * s.m, 1, at, &row0, &row1);
    a->row0 = (long)row0, a->row1 = (long)row1;
    a->m = (long)s.m, a->k = (long)s.k, a->n = (long)s.n;
    a->item = s.shared ? 0 : (long)(s.k * s.n);
    a->wide = (long)SP_MAX(NEAR / SP_MAX(s.k, 1) / UNIT, 1) * UNIT;
    a->x = job->in[0].tensor.data;
    a->w = job->in[1].tensor.data;
    a->y = job->out[0].tensor.data;
    a->crd = (unsigned *)(void *)at->work;
    return a->row1 > a->row0;
}

/* A row reads rows of w that have other numbers. */
static const sp_slot slots[] = {{SP_F32_ROWS}, {SP_F32_ROWS, .beyond = true}};

const sp_panel_kernel sp_panel_matmul_skip = {.name = "matmul_skip",
                                              .portable = sp_kernel_matmul_skip,
                                              .op = SP_OP_MatMul,
                                              .whole = true,
                                              .parts = parts_of,
                                              .check = check,
                                              .work = work,
                                              .fill = fill,
                                              .slots = {slots, SP_COUNT(slots), 0, {SP_F32_ROWS}}};
