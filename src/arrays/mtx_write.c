/* Matrices written as text: Matrix Market, general. */
#include "arrays/arrays.h"
#include <math.h>

enum { FLUSH = 1 << 16 };

typedef struct writer {
    sparta_ctx *cx;
    sp_atomic *f;
    sp_text text;
} writer;

static sparta_status flush(writer *w, size_t most)
{
    if (w->text.status) return w->text.status;
    if (w->text.size <= most) return SPARTA_OK;
    SP_TRY(sp_check_cancel(w->cx));
    SP_TRY(sp_atomic_write(w->f, w->text.data, w->text.size));
    w->text.size = 0;
    return SPARTA_OK;
}

/* As many digits as bring the same double back, also of a narrower number: it is read as one. */
static sparta_status put_value(writer *w, const sparta_tensor *v, int64_t at)
{
    if (!sp_dtype_is_float(v->dtype)) {
        int64_t x = sp_element_get_int(v->dtype, v->data, at);
        if (v->dtype == SPARTA_U64 && x < 0)
            return sp_fail(w->cx, SPARTA_E_RANGE, "mtx: the value %llu does not fit in 63 bits",
                           (unsigned long long)x);
        sp_text_printf(&w->text, "%lld", (long long)x);
        return SPARTA_OK;
    }
    double x = sp_element_get(v->dtype, v->data, at);
    if (isnan(x))
        sp_text_printf(&w->text, "nan");
    else if (isinf(x))
        sp_text_printf(&w->text, x < 0 ? "-inf" : "inf");
    else
        sp_text_printf(&w->text, "%.17g", x);
    return SPARTA_OK;
}

static sparta_status write_array(writer *w, const sp_coo *c)
{
    sp_text_printf(&w->text, "%lld %lld\n", (long long)c->dim[0], (long long)c->dim[1]);
    for (int64_t col = 0; c->n && col < c->dim[1]; col++)
        for (int64_t row = 0; row < c->dim[0]; row++) {
            SP_TRY(put_value(w, &c->values, row * c->values.stride[0] + col * c->values.stride[1]));
            sp_text_printf(&w->text, "\n");
            SP_TRY(flush(w, FLUSH));
        }
    return SPARTA_OK;
}

static sparta_status write_coordinates(writer *w, const sp_coo *c)
{
    sp_text_printf(&w->text, "%lld %lld %lld\n", (long long)c->dim[0], (long long)c->dim[1], (long long)c->n);
    for (int64_t i = 0; i < c->n; i++) {
        sp_text_printf(&w->text, "%lld %lld", (long long)c->index[0][i] + 1, (long long)c->index[1][i] + 1);
        if (c->values.data) {
            sp_text_printf(&w->text, " ");
            SP_TRY(put_value(w, &c->values, i));
        }
        sp_text_printf(&w->text, "\n");
        SP_TRY(flush(w, FLUSH));
    }
    return SPARTA_OK;
}

static sparta_status write_mtx(writer *w, const sp_coo *c)
{
    const char *field = !c->values.data ? "pattern" : sp_dtype_is_float(c->values.dtype) ? "real" : "integer";
    sp_text_printf(&w->text, "%%%%MatrixMarket matrix %s %s general\n", c->dense ? "array" : "coordinate",
                   field);
    return c->dense ? write_array(w, c) : write_coordinates(w, c);
}

sparta_status sp_mtx_write(sparta_ctx *cx, const char *path, const sp_coo *c)
{
    writer w = {.cx = cx};
    if (c->rank != 2) return sp_fail(cx, SPARTA_E_SHAPE, "mtx: %d dimensions; a matrix has 2", c->rank);
    w.f = sp_atomic_open(cx, path);
    SP_NEED(cx, w.f);
    sp_text_init(&w.text, cx);
    sparta_status status = write_mtx(&w, c);
    if (!status) status = flush(&w, 0);
    sp_text_free(&w.text);
    return sp_atomic_end(w.f, status);
}
