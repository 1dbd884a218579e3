/* What a layer met: sums over its inputs, batch after batch, and the first of them. */
#include "prune/prune.h"
#include "builtin/quick.h"
#include <math.h>
#include <string.h>

enum {
    ROWS = 256,
    COLUMNS = 128,
    LINE = 16
}; /* of a product that is added to the sums; floats of a line of the cache */

sparta_status sp_prune_met_create(sparta_ctx *cx, int64_t k, bool hessian, sp_prune_met *out)
{
    sp_prune_met met = {.k = k};
    met.squares = sp_alloc_array(cx, (size_t)k, sizeof *met.squares);
    met.sample = sp_alloc_array(cx, (size_t)k * SP_PRUNE_SAMPLE, sizeof *met.sample);
    if (hessian) met.hessian = sp_alloc_array(cx, (size_t)k * (size_t)k, sizeof *met.hessian);
    if (!met.squares || !met.sample || (hessian && !met.hessian)) {
        sp_prune_met_free(cx, &met);
        return sp_ctx_status(cx);
    }
    *out = met;
    return SPARTA_OK;
}

void sp_prune_met_free(sparta_ctx *cx, sp_prune_met *met)
{
    sp_free(cx, met->squares);
    sp_free(cx, met->sample);
    sp_free(cx, met->hessian);
    *met = (sp_prune_met){0};
}

/* (k, rows): rows of x lie a power of 2 apart, mostly, and would push each other out of the cache. */
static void turn(const float *x, int64_t rows, int64_t k, float *out)
{
    for (int64_t c = 0; c < k; c += LINE)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = c; j < SP_MIN(c + LINE, k); j++) out[j * rows + i] = x[i * k + j];
}

/* X'X of a few rows, added: what is on and above the diagonal, some columns at a time. */
static sparta_status add_products(sparta_ctx *cx, sp_prune_met *met, const float *x, int64_t rows,
                                  float *room)
{
    const int64_t k = met->k;
    turn(x, rows, k, room);
    for (int64_t c = 0; c < k; c += COLUMNS) {
        const int64_t wide = SP_MIN(COLUMNS, k - c);
        bool done;
        SP_TRY(sp_quick_products(cx,
                                 &(sp_products){.m = c + wide,
                                                .n = wide,
                                                .k = rows,
                                                .a = room,
                                                .a_row = rows,
                                                .a_col = 1,
                                                .b = x + c,
                                                .b_row = k,
                                                .b_col = 1,
                                                .c = met->hessian + c,
                                                .c_row = k,
                                                .c_col = 1,
                                                .add = true},
                                 &done));
    }
    return SPARTA_OK;
}

static void add_rows(sp_prune_met *met, const float *x, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < met->k; j++) met->squares[j] += (double)x[i * met->k + j] * x[i * met->k + j];
    const int64_t more = SP_MIN(rows, SP_PRUNE_SAMPLE - met->n_sample);
    if (more > 0) memcpy(met->sample + met->n_sample * met->k, x, (size_t)(more * met->k) * sizeof *x);
    met->n_sample += SP_MAX(more, 0);
    met->rows += rows;
}

static sparta_status add_f32(sparta_ctx *cx, sp_prune_met *met, const float *x, int64_t rows)
{
    float *room = met->hessian ? sp_alloc_array(cx, (size_t)met->k * ROWS, sizeof *room) : NULL;
    sparta_status status = met->hessian && !room ? sp_ctx_status(cx) : SPARTA_OK;
    for (int64_t i = 0; i < rows && room && !status; i += ROWS)
        status = add_products(cx, met, x + i * met->k, SP_MIN(ROWS, rows - i), room);
    if (!status) add_rows(met, x, rows);
    sp_free(cx, room);
    return status;
}

sparta_status sp_prune_met_add(sparta_ctx *cx, sp_prune_met *met, const sparta_tensor *x)
{
    const int64_t elements = sparta_tensor_elements(x);
    if (x->rank < 1 || x->dim[x->rank - 1] != met->k || !sp_dtype_is_float(x->dtype))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "prune: the input of a layer of %lld features has another shape", (long long)met->k);
    sparta_tensor plain;
    SP_TRY(sp_tensor_alloc(cx, SPARTA_F32, x->rank, x->dim, &plain));
    sparta_status status = SPARTA_OK;
    if (x->dtype == SPARTA_F32)
        status = sp_tensor_copy(cx, x, &plain);
    else
        for (int64_t i = 0; i < elements; i++)
            ((float *)plain.data)[i] = (float)sp_element_get(x->dtype, x->data, i);
    if (!status) status = add_f32(cx, met, plain.data, elements / met->k);
    sp_free(cx, plain.data);
    return status;
}

/* Squares of x w', and of x (w - left)'. */
static sparta_status squares(sparta_ctx *cx, const sp_prune_met *met, int64_t n, const float *w, float *room,
                             double *out)
{
    bool done;
    SP_TRY(sp_quick_products(cx,
                             &(sp_products){.m = met->n_sample,
                                            .n = n,
                                            .k = met->k,
                                            .a = met->sample,
                                            .a_row = met->k,
                                            .a_col = 1,
                                            .b = w,
                                            .b_row = 1,
                                            .b_col = met->k,
                                            .c = room,
                                            .c_row = n,
                                            .c_col = 1},
                             &done));
    *out = 0;
    for (int64_t i = 0; i < met->n_sample * n; i++) *out += (double)room[i] * room[i];
    return SPARTA_OK;
}

sparta_status sp_prune_met_error(sparta_ctx *cx, const sp_prune_met *met, int64_t n, const float *w,
                                 const float *left, double *out)
{
    double whole = 0, lost = 0;
    *out = NAN;
    if (!met->n_sample) return SPARTA_OK;
    float *room = sp_alloc_array(cx, (size_t)(met->n_sample * n), sizeof *room);
    float *gone = sp_alloc_array(cx, (size_t)(n * met->k), sizeof *gone);
    sparta_status status = room && gone ? squares(cx, met, n, w, room, &whole) : sp_ctx_status(cx);
    for (int64_t i = 0; i < n * met->k && !status; i++) gone[i] = w[i] - left[i];
    if (!status) status = squares(cx, met, n, gone, room, &lost);
    if (!status) *out = whole > 0 ? sqrt(lost / whole) : 0;
    sp_free(cx, room);
    sp_free(cx, gone);
    return status;
}
