/* What callers may get wrong: sizes, types, strides, indices. Messages begin with the function. */
#include "cuda/cuda.h"
#include "sparse/kernels.h"
#include <stdio.h>
#include <string.h>

enum { MOST = INT32_MAX, MOST_OF_BLOCK = 65536 }; /* of a size: indices have 32 bits */
/* Of a whole array, strides of 0 included, and of what is made of it: with these no sum of bytes can overflow. */
#define MOST_ELEMENTS (INT64_C(1) << 44)

/* "2x3x4"; what is not known is "?" */
static const char *shape(int rank, const int64_t *dim, char out[96])
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < rank && i < SPARTA_RANK && n < 90; i++)
        n += (size_t)(dim[i] < 0 ? snprintf(out + n, 96 - n, i ? "x?" : "?")
                                 : snprintf(out + n, 96 - n, i ? "x%lld" : "%lld", (long long)dim[i]));
    return out;
}

static sparta_status check_shape(const sp_complaint *c, const sparta_tensor *t, const char *name, int rank,
                                 const int64_t *dim)
{
    char is[96], should[96];
    bool same = t->rank == rank;
    for (int i = 0; same && i < rank; i++) same = t->dim[i] == dim[i];
    if (same) return SPARTA_OK;
    return sp_refuse(c, SPARTA_E_SHAPE, "%s is %s, expected %s", name, shape(t->rank, t->dim, is),
                     shape(rank, dim, should));
}

static sparta_status check_place(const sp_complaint *c, const sparta_tensor *t, const char *name,
                                 sparta_dtype dtype, int device)
{
    if (t->device != device)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED, "%s is on device %d and the values on %d; move it", name,
                         t->device, device);
    if (t->dtype != dtype)
        return sp_refuse(c, SPARTA_E_DTYPE, "%s is %s, expected %s", name, sparta_dtype_name(t->dtype),
                         sparta_dtype_name(dtype));
    return SPARTA_OK;
}

static sparta_status check_data(const sp_complaint *c, const sparta_tensor *t, const char *name)
{
    if (t->data || c->planning || sparta_tensor_elements(t) == 0) return SPARTA_OK;
    return sp_refuse(c, SPARTA_E_USAGE, "%s has no data", name);
}

/* Row-major, with data unless it is empty. */
static sparta_status check_plain(const sp_complaint *c, const sparta_tensor *t, const char *name,
                                 sparta_dtype dtype, int rank, const int64_t *dim, int device)
{
    SP_TRY(check_place(c, t, name, dtype, device));
    SP_TRY(check_shape(c, t, name, rank, dim));
    const int64_t elements = sparta_tensor_elements(t);
    if (elements < 0 || elements > MOST_ELEMENTS)
        return sp_refuse(c, SPARTA_E_LIMIT, "%s is too large", name);
    if (!sp_tensor_contiguous(t))
        return sp_refuse(c, SPARTA_E_UNSUPPORTED, "%s is not contiguous; make a row-major copy", name);
    return check_data(c, t, name);
}

/* ------------------------------------------------------------------ the matrix */

static sparta_status check_sizes(const sp_complaint *c, const sparta_blocks *b)
{
    const struct {
        const char *name;
        int64_t is, least, most;
    } sizes[] = {
        {"rows", b->rows, 0, MOST},
        {"cols", b->cols, 0, MOST},
        {"height", b->height, 1, MOST_OF_BLOCK},
        {"batch", b->batch, 0, MOST},
        {"patterns", b->patterns, 0, MOST},
        {"width", b->width, 1, MOST_OF_BLOCK},
    };
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        if (sizes[i].is < sizes[i].least || sizes[i].is > sizes[i].most)
            return sp_refuse(c, SPARTA_E_SHAPE, "%s is %lld, expected %lld to %lld", sizes[i].name,
                             (long long)sizes[i].is, (long long)sizes[i].least, (long long)sizes[i].most);
    if (b->patterns != 1 && b->patterns != b->batch)
        return sp_refuse(c, SPARTA_E_SHAPE, "%lld patterns for a batch of %lld, expected 1 or as many",
                         (long long)b->patterns, (long long)b->batch);
    return SPARTA_OK;
}

static sparta_status check_arrays(const sp_complaint *c, const sparta_blocks *b, sp_blocks *s)
{
    const int64_t blocks = b->crd.rank == 1 ? b->crd.dim[0] : -1, lines = s->down * b->patterns + 1;
    const int64_t own[] = {b->batch, blocks, b->height, b->width};
    const bool shared = b->values.rank == 3;
    if (blocks > MOST || lines > MOST)
        return sp_refuse(c, SPARTA_E_LIMIT, "more blocks, or rows of blocks, than %d", MOST);
    SP_TRY(check_plain(c, &b->pos, "pos", SPARTA_I32, 1, &lines, s->device));
    SP_TRY(check_plain(c, &b->crd, "crd", SPARTA_I32, 1, &blocks, s->device));
    if (b->keep.rank) SP_TRY(check_plain(c, &b->keep, "keep", SPARTA_BOOL, 3, own + 1, s->device));
    if (!sp_dtype_is_float(b->values.dtype))
        return sp_refuse(c, SPARTA_E_DTYPE, "values are %s, expected f32, f16, bf16 or f64",
                         sparta_dtype_name(b->values.dtype));
    if (b->patterns == 1 && !shared)
        SP_TRY(check_plain(c, &b->values, "values", b->values.dtype, 4, own, s->device));
    else
        SP_TRY(check_plain(c, &b->values, "values", b->values.dtype, 3, own + 1, s->device));
    if (b->index.rank && s->device) {
        const int64_t words = sp_index_words(b->height, b->width, s->down, s->right);
        SP_TRY(check_plain(c, &b->index, "index", SPARTA_I32, 1, &words, s->device));
        s->index = b->index.data;
    }
    s->blocks = blocks;
    s->each = shared ? 0 : blocks * b->height * b->width;
    return SPARTA_OK;
}

sparta_status sp_blocks_read(const sp_complaint *c, const sparta_blocks *given, sp_blocks *out)
{
    sparta_blocks b = {0};
    if (!given || given->size < sizeof given->size)
        return sp_refuse(c, SPARTA_E_USAGE, "the size of the blocks is not that of their struct");
    memcpy(&b, given, SP_MIN(given->size, sizeof b));
    SP_TRY(check_sizes(c, &b));
    *out = (sp_blocks){.rows = b.rows,
                       .cols = b.cols,
                       .height = b.height,
                       .width = b.width,
                       .batch = b.batch,
                       .patterns = b.patterns,
                       .down = (b.rows + b.height - 1) / b.height,
                       .right = (b.cols + b.width - 1) / b.width,
                       .device = b.values.device,
                       .pos = b.pos.data,
                       .crd = b.crd.data,
                       .keep = b.keep.rank ? b.keep.data : NULL,
                       .masked = b.keep.rank != 0,
                       .dtype = b.values.dtype,
                       .values = b.values.data};
    return check_arrays(c, &b, out);
}

/* ------------------------------------------------------------------ indices */

/* The first that is wrong, for a message: somebody found that there is one. */
static sparta_status name_wrong(const sp_complaint *c, const sp_blocks *s, int64_t lines)
{
    if (s->pos[0]) return sp_refuse(c, SPARTA_E_RANGE, "pos[0] is %d, expected 0", s->pos[0]);
    for (int64_t r = 0; r < lines; r++) {
        if (s->pos[r] < 0 || s->pos[r] > s->pos[r + 1] || s->pos[r + 1] > s->blocks)
            return sp_refuse(c, SPARTA_E_RANGE,
                             "pos[%lld] is %d and pos[%lld] is %d, expected to ascend from 0 to %lld",
                             (long long)r, s->pos[r], (long long)r + 1, s->pos[r + 1], (long long)s->blocks);
        for (int64_t i = s->pos[r]; i < s->pos[r + 1]; i++) {
            if (s->crd[i] < 0 || s->crd[i] >= s->right)
                return sp_refuse(c, SPARTA_E_RANGE, "crd[%lld] is %d, the matrix has %lld columns of blocks",
                                 (long long)i, s->crd[i], (long long)s->right);
            if (i > s->pos[r] && s->crd[i] <= s->crd[i - 1])
                return sp_refuse(c, SPARTA_E_RANGE,
                                 "crd[%lld] is %d behind %d, expected to ascend in a row of blocks",
                                 (long long)i, s->crd[i], s->crd[i - 1]);
        }
    }
    return sp_refuse(c, SPARTA_E_RANGE, "pos ends with %d, there are %lld blocks", s->pos[lines],
                     (long long)s->blocks);
}

sparta_status sp_blocks_check(const sp_complaint *c, const sp_blocks *s)
{
    const sp_kernels *k = sp_kernels_here();
    const int64_t lines = s->down * s->patterns;
    int wrong = s->pos[0] != 0 || s->pos[lines] != s->blocks;
    for (int64_t r = 0; r < lines; r++) wrong |= s->pos[r] > s->pos[r + 1];
    if (wrong || k->outside(s->crd, s->blocks, s->right)) return name_wrong(c, s, lines);
    int64_t falls = k->falls(s->crd, s->blocks);
    /* Where a row begins a coordinate may be lower than the one before. */
    for (int64_t r = 0; falls && r < lines; r++) {
        const int64_t i = s->pos[r];
        if (i > 0 && i < s->pos[r + 1]) falls -= s->crd[i] <= s->crd[i - 1];
    }
    return falls ? name_wrong(c, s, lines) : SPARTA_OK;
}

/* ------------------------------------------------------------------ what it is multiplied with */

sparta_status sp_cube_read(const sp_complaint *c, const sp_blocks *s, const sparta_tensor *t,
                           const char *name, int64_t size, int64_t *free, bool result, sp_cube *out)
{
    if (!t) return sp_refuse(c, SPARTA_E_USAGE, "%s is not given", name);
    if (*free < 0 && t->rank == 3) *free = t->dim[2];
    const int64_t dim[] = {s->batch, size, *free};
    SP_TRY(check_place(c, t, name, s->dtype, s->device));
    SP_TRY(check_shape(c, t, name, 3, dim));
    const int64_t elements = sparta_tensor_elements(t);
    if (elements < 0 || elements > MOST_ELEMENTS || *free > MOST)
        return sp_refuse(c, SPARTA_E_LIMIT, "%s is too large", name);
    SP_TRY(check_data(c, t, name));
    int64_t step[3];
    for (int i = 0; i < 3; i++) {
        const bool leads = elements && t->dim[i] > 1;
        if (result && leads && t->stride[i] == 0)
            return sp_refuse(c, SPARTA_E_USAGE, "%s has a stride of 0, its elements would be written twice",
                             name);
        step[i] = leads ? t->stride[i] : 0;
    }
    *out = (sp_cube){t->data, step[0], step[1], step[2]};
    return SPARTA_OK;
}

sparta_status sp_values_read(const sp_complaint *c, const sparta_tensor *values, const sparta_tensor *t,
                             const char *name, void **out)
{
    if (!t) return sp_refuse(c, SPARTA_E_USAGE, "%s is not given", name);
    SP_TRY(check_plain(c, t, name, values->dtype, values->rank, values->dim, values->device));
    *out = t->data;
    return SPARTA_OK;
}

sparta_status sp_ending_read(const sp_complaint *c, const sp_blocks *s,
                             const sparta_multiply_options *options, int64_t rows, int64_t *free,
                             sp_ending *out)
{
    *out = (sp_ending){.bias = NULL};
    const char *problem =
        sp_words_parse(options->epilogue, options->bias != NULL, options->residual != NULL, &out->words);
    if (problem) return sp_refuse(c, SPARTA_E_USAGE, "%s", problem);
    if (options->bias) {
        SP_TRY(check_place(c, options->bias, "bias", s->dtype, s->device));
        SP_TRY(check_shape(c, options->bias, "bias", 1, &rows));
        SP_TRY(check_data(c, options->bias, "bias"));
        out->bias = options->bias->data;
        out->bias_step = rows > 1 ? options->bias->stride[0] : 0;
    }
    if (options->residual)
        SP_TRY(sp_cube_read(c, s, options->residual, "residual", rows, free, false, &out->residual));
    return SPARTA_OK;
}

sparta_status sp_launch_read(const sp_complaint *c, const sparta_launch *launch, sparta_launch *out)
{
    *out = (sparta_launch){.size = sizeof *out};
    if (launch && launch->size < sizeof launch->size)
        return sp_refuse(c, SPARTA_E_USAGE, "the launch's size is not that of its struct");
    if (launch) memcpy(out, launch, SP_MIN(launch->size, sizeof *out));
    if (!out->parallel_for) out->threads = 1;
    if (out->threads <= 0) out->threads = 16;
    out->threads = SP_MIN(out->threads, SP_TEAM);
    return SPARTA_OK;
}

void sp_share(const sparta_launch *how, int n, void (*fn)(void *arg, int i), void *arg)
{
    if (how->parallel_for && n > 1)
        how->parallel_for(how->host, n, fn, arg);
    else
        for (int i = 0; i < n; i++) fn(arg, i);
}
