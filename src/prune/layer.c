/* One layer, pruned so that its output changes little on the inputs that it met.
 *
 *     magnitude   |w|
 *     wanda       |w| times the norm of its input, within each row of blocks
 *     sparsegpt   w^2 / U[i,i]^2; what stays makes up for what goes, column after column:
 *
 *                     err = w[i] / U[i,i]      w[i+1:] -= err U[i, i+1:]          for each w[i] that goes
 *
 * U is that of factor.c. A row's errors touch that row alone, so that rows run one after the other within a piece of columns; what is right of the piece
 * loses errors times U, a product. Which blocks go is chosen by sp_prune, on scores in place of weights. Rows of blocks, and pieces of columns, each
 * give what all up to them must have lost less what went before: rounding up to whole blocks does not add up. python/sparta/prune/one_shot.py does the
 * same with torch. */
#include "prune/prune.h"
#include "builtin/quick.h"
#include <math.h>
#include <string.h>

enum { COLUMNS = 128 };

typedef struct layer {
    sparta_ctx *cx;
    const sp_prune_spec *spec;
    int64_t n, k;
    float *w; /* (n, k) */
    float *u; /* (k, k) */
    float *
        square; /* (piece, piece), of u at the piece: rows of u lie a power of 2 apart, and push each other out of the cache */
    float *score;  /* (n, k), 1 where it stays once it was pruned; only that is used of it */
    float *errors; /* (n, piece), what is added to w, times u */
} layer;

static sparta_tensor view(float *data, int64_t rows, int64_t cols, int64_t step)
{
    return (sparta_tensor){
        .dtype = SPARTA_F32, .rank = 2, .dim = {rows, cols}, .stride = {step, 1}, .data = data};
}

static bool whole(const sp_prune_spec *s)
{
    return !s->of && (!s->block_n || !s->block_m);
}

/* Scores of what goes become 0; what is 0 before, and stays, must not be taken for it. */
static void lift(float *score, int64_t count)
{
    for (int64_t i = 0; i < count; i++) score[i] = score[i] > 1e-30f ? score[i] : 1e-30f;
}

/* ------------------------------------------------------------------ wanda */
static sparta_status by_rows(const layer *l)
{
    if (whole(l->spec) || l->spec->of) {
        const sparta_tensor all = view(l->score, l->n, l->k, l->k);
        return sp_prune(l->cx, l->spec, &all, NULL);
    }
    int64_t gone = 0;
    for (int64_t i = 0; i < l->n; i += l->spec->block_n) {
        const int64_t to = SP_MIN(i + l->spec->block_n, l->n);
        const sparta_tensor rows = view(l->score + i * l->k, to - i, l->k, l->k);
        const int64_t need = sp_prune_needed(to * l->k, l->spec->sparsity);
        SP_TRY(sp_prune_count(l->cx, l->spec, &rows, need - gone, &gone));
    }
    return SPARTA_OK;
}

static sparta_status wanda(const layer *l, const sp_prune_met *met)
{
    for (int64_t i = 0; i < l->n; i++)
        for (int64_t j = 0; j < l->k; j++)
            l->score[i * l->k + j] = (float)(fabs((double)l->w[i * l->k + j]) * sqrt(met->squares[j]));
    lift(l->score, l->n * l->k);
    SP_TRY(by_rows(l));
    for (int64_t i = 0; i < l->n * l->k; i++) l->w[i] = l->score[i] != 0 ? l->w[i] : 0;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sparsegpt */
static float cost(const layer *l, int64_t j)
{
    const float d = l->u[j * l->k + j];
    return d * d;
}

/* Which of columns c to c + p stay, by what they are now; *gone is what went left of them. */
static sparta_status choose(const layer *l, int64_t c, int64_t p, int64_t *gone)
{
    for (int64_t i = 0; i < l->n; i++)
        for (int64_t j = c; j < c + p; j++) {
            const float x = l->w[i * l->k + j];
            l->score[i * l->k + j] = SP_MAX(x * x / cost(l, j), 1e-30f);
        }
    const sparta_tensor piece = view(l->score + c, l->n, p, l->k);
    if (l->spec->of) return sp_prune(l->cx, l->spec, &piece, NULL);
    const int64_t need = sp_prune_needed(l->n * (c + p), l->spec->sparsity);
    return sp_prune_count(l->cx, l->spec, &piece, need - *gone, gone);
}

/* Of a group of n:m: those that enough others outrank go; of equals the first. */
static void choose_group(const layer *l, const float *w, float *score, int count, const float *diagonal,
                         int64_t step)
{
    float worth[256];
    for (int i = 0; i < count; i++) {
        const float d = diagonal[i * step];
        worth[i] = w[i] * w[i] / (d * d);
    }
    for (int i = 0; i < count; i++) {
        int better = 0;
        for (int t = 0; t < count; t++) better += worth[t] > worth[i] || (worth[t] == worth[i] && t > i);
        score[i] = better < l->spec->keep ? 1 : 0;
    }
}

typedef struct columns {
    const layer *l;
    int64_t c, p;
    bool groups;
} columns;

/* One row of a piece of columns. */
static void make_up(const layer *l, int64_t i, int64_t c, int64_t p, bool groups)
{
    float *w = l->w + i * l->k + c, *score = l->score + i * l->k + c, *error = l->errors + i * p;
    for (int64_t j = 0; j < p; j++) {
        const float *u = l->square + j * p;
        if (groups && j % l->spec->of == 0)
            choose_group(l, w + j, score + j, (int)SP_MIN((int64_t)l->spec->of, p - j), u + j, p + 1);
        error[j] = score[j] != 0 ? 0 : -w[j] / u[j];
        if (score[j] != 0) continue;
        for (int64_t t = j + 1; t < p; t++) w[t] += error[j] * u[t];
        w[j] = 0;
    }
}

static void make_up_rows(void *arg, int64_t from, int64_t to)
{
    const columns *t = arg;
    for (int64_t i = from; i < to; i++) make_up(t->l, i, t->c, t->p, t->groups);
}

/* What is right of the piece. */
static sparta_status make_up_right(const layer *l, int64_t c, int64_t p)
{
    bool done;
    if (c + p == l->k) return SPARTA_OK;
    return sp_quick_products(l->cx,
                             &(sp_products){.m = l->n,
                                            .n = l->k - c - p,
                                            .k = p,
                                            .a = l->errors,
                                            .a_row = p,
                                            .a_col = 1,
                                            .b = l->u + c * l->k + c + p,
                                            .b_row = l->k,
                                            .b_col = 1,
                                            .c = l->w + c + p,
                                            .c_row = l->k,
                                            .c_col = 1,
                                            .add = true},
                             &done);
}

/* A multiple of what goes together along the input. */
static int64_t piece_of(const sp_prune_spec *s)
{
    const int64_t each = s->of ? (s->along_out ? 1 : s->of) : SP_MAX(s->block_m, 1);
    return each * SP_MAX(COLUMNS / each, 1);
}

static sparta_status sparsegpt(const layer *l)
{
    const bool groups = l->spec->of && !l->spec->along_out;
    const int64_t wide = piece_of(l->spec);
    int64_t gone = 0;
    if (whole(l->spec)) SP_TRY(choose(l, 0, l->k, &gone));
    for (int64_t c = 0; c < l->k; c += wide) {
        const int64_t p = SP_MIN(wide, l->k - c);
        SP_TRY(sp_check_cancel(l->cx));
        if (!groups && !whole(l->spec)) SP_TRY(choose(l, c, p, &gone));
        for (int64_t j = 0; j < p; j++)
            memcpy(l->square + j * p, l->u + (c + j) * l->k + c, (size_t)p * sizeof *l->u);
        SP_TRY(sp_ctx_share(l->cx, l->n, p * p / 8, make_up_rows, &(columns){l, c, p, groups}));
        SP_TRY(make_up_right(l, c, p));
    }
    return SPARTA_OK;
}

/* Inputs that are always 0: their weights go, and H is as if they were by themselves. */
static sparta_status prepare(const layer *l, sp_prune_met *met)
{
    for (int64_t j = 0; j < l->k; j++) {
        if (met->hessian[j * l->k + j] != 0) continue;
        met->hessian[j * l->k + j] = 1;
        for (int64_t i = 0; i < l->n; i++) l->w[i * l->k + j] = 0;
    }
    return sp_prune_factor(l->cx, l->k, met->hessian, l->u);
}

/* ------------------------------------------------------------------ the public part */
static sparta_status with_room(layer *l, sp_prune_method method, sp_prune_met *met)
{
    if (method == SP_PRUNE_WANDA) return wanda(l, met);
    l->u = sp_alloc_array(l->cx, (size_t)l->k * (size_t)l->k, sizeof *l->u);
    const size_t piece = (size_t)SP_MIN(piece_of(l->spec), l->k);
    l->square = sp_alloc_array(l->cx, piece * piece, sizeof *l->square);
    l->errors = sp_alloc_array(l->cx, (size_t)l->n * piece, sizeof *l->errors);
    sparta_status status = l->u && l->square && l->errors ? prepare(l, met) : sp_ctx_status(l->cx);
    if (!status) status = sparsegpt(l);
    sp_free(l->cx, l->u);
    sp_free(l->cx, l->square);
    sp_free(l->cx, l->errors);
    return status;
}

sparta_status sp_prune_layer(sparta_ctx *cx, const sp_prune_spec *spec, sp_prune_method method,
                             sp_prune_met *met, int64_t n, float *w)
{
    layer l = {.cx = cx, .spec = spec, .n = n, .k = met ? met->k : 0, .w = w};
    if (method == SP_PRUNE_MAGNITUDE || !met)
        return sp_fail(cx, SPARTA_E_INTERNAL, "prune: a layer by magnitude is sp_prune's");
    for (int64_t j = 0; j < l.k; j++)
        if (!isfinite(met->squares[j]))
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "prune: it meets inputs that are NaN or Inf, or too large; look at the data");
    l.score = sp_alloc_array(cx, (size_t)n * (size_t)l.k, sizeof *l.score);
    SP_NEED(cx, l.score);
    const sparta_status status = with_room(&l, method, met);
    sp_free(cx, l.score);
    return status;
}
