/* Packed tensors: what room format does, as a handle. */
#include "api/api.h"
#include <string.h>

struct sparta_packed {
    sparta_ctx *cx;
    sp_packed own; /* made here; its values are somebody else's where it is `borrowed` */
    bool borrowed;
    sp_store_file file;  /* or read; all 0 otherwise */
    const sp_packed *is; /* one of them */
    sp_text format;      /* canonical */
    sparta_storage storage;
};

static sparta_packed *create(sparta_ctx *cx)
{
    sparta_packed *p = sp_zalloc(cx, sizeof *p);
    if (!p) return NULL;
    p->cx = cx;
    p->is = &p->own;
    sp_text_init(&p->format, cx);
    return p;
}

/* What is asked of it later is told now, where it can fail. */
static sparta_status finish(sparta_packed *p, sparta_status s, sparta_packed **out)
{
    sp_store_stats stats;
    if (s == SPARTA_OK) s = sp_store_measure_packed(p->cx, p->is, &stats);
    if (s == SPARTA_OK) {
        p->storage = (sparta_storage){stats.elements, stats.slots, stats.bytes, stats.fill};
        sp_format_print(&p->is->format, &p->format);
        s = p->format.status;
    }
    if (s == SPARTA_OK)
        *out = p;
    else
        sparta_packed_free(p);
    return s;
}

sparta_status sparta_format_print(sparta_ctx *cx, const char *text, int rank, const int64_t *dim, char *out,
                                  size_t size)
{
    sp_format f;
    sp_text t;
    SP_TRY(sp_format_parse(cx, text, &f));
    if (dim) SP_TRY(sp_format_check(cx, &f, rank, dim));
    sp_text_init(&t, cx);
    sp_format_print(&f, &t);
    sparta_status s = t.status;
    if (s == SPARTA_OK && t.size >= size)
        s = sp_fail(cx, SPARTA_E_LIMIT, "format: its text has %zu characters; give room for %zu", t.size,
                    t.size + 1);
    if (s == SPARTA_OK) memcpy(out, sp_text_str(&t), t.size + 1);
    sp_text_free(&t);
    return s;
}

static sparta_status pack(sparta_packed *p, const char *format, const sparta_tensor *dense,
                          const sp_mask *mask, double limit)
{
    sp_format f;
    sp_store_stats stats;
    SP_TRY(sp_format_parse(p->cx, format, &f));
    SP_TRY(sp_format_check(p->cx, &f, dense->rank, dense->dim));
    SP_TRY(sp_store_measure(p->cx, &f, dense, mask, &stats));
    SP_TRY(sp_store_within(p->cx, &f, &stats, limit));
    return sp_store_pack(p->cx, &f, dense, mask, &p->own);
}

sparta_status sparta_packed_create(sparta_ctx *cx, const char *format, const sparta_tensor *dense,
                                   const sparta_tensor *mask, double limit, sparta_packed **out)
{
    sp_mask keep = {0};
    SP_TRY(sp_tensor_on_cpu(cx, dense, "pack", "dense"));
    if ((!dense->data && sparta_tensor_elements(dense)) ||
        (mask && !mask->data && sparta_tensor_elements(mask)))
        return sp_fail(cx, SPARTA_E_USAGE, "pack: there are no data to pack");
    if (mask) SP_TRY(sp_tensor_on_cpu(cx, mask, "pack", "mask"));
    if (mask && !sp_tensor_same_shape(dense, mask))
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "pack: the mask has another shape than the tensor; give one of its own");
    if (mask && mask->rank != 2)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "pack: a mask of rank %d; masks are for matrices",
                       mask->rank);
    sparta_packed *p = create(cx);
    SP_NEED(cx, p);
    sparta_status s = mask ? sp_mask_of(cx, mask, &keep) : SPARTA_OK;
    if (s == SPARTA_OK) s = pack(p, format, dense, mask ? &keep : NULL, limit);
    sp_mask_free(cx, &keep);
    return finish(p, s, out);
}

sparta_status sparta_packed_convert(sparta_ctx *cx, const sparta_packed *from, const char *format,
                                    double limit, sparta_packed **out)
{
    sp_format f;
    sp_store_stats stats;
    SP_TRY(sp_format_parse(cx, format, &f));
    SP_TRY(sp_store_measure_converted(cx, from->is, &f, &stats));
    SP_TRY(sp_store_within(cx, &f, &stats, limit));
    sparta_packed *p = create(cx);
    SP_NEED(cx, p);
    return finish(p, sp_store_convert(cx, from->is, &f, NULL, &p->own), out);
}

sparta_status sparta_packed_unpack(sparta_ctx *cx, const sparta_packed *p, const sparta_tensor *dense)
{
    SP_TRY(sp_tensor_on_cpu(cx, dense, "unpack", "dense"));
    return sp_store_unpack(cx, p->is, dense);
}

sparta_status sparta_packed_open(sparta_ctx *cx, const char *path, sparta_packed **out)
{
    sparta_packed *p = create(cx);
    SP_NEED(cx, p);
    const sparta_status s = sp_store_read(cx, path, &p->file);
    if (s == SPARTA_OK) p->is = &p->file.packed;
    return finish(p, s, out);
}

sparta_status sparta_packed_view(sparta_ctx *cx, const sparta_arrays *arrays, sparta_packed **out)
{
    sparta_packed *p = create(cx);
    SP_NEED(cx, p);
    p->borrowed = true;
    return finish(p, sp_store_arrays(cx, arrays, &p->own), out);
}

sparta_status sparta_packed_save(sparta_ctx *cx, const sparta_packed *p, const char *path)
{
    return sp_store_write(cx, path, p->is);
}

void sparta_packed_free(sparta_packed *p)
{
    if (!p) return;
    if (p->is == &p->own) {
        if (p->borrowed) p->own.values.data = NULL;
        sp_packed_free(p->cx, &p->own);
    } else
        sp_store_file_free(p->cx, &p->file);
    sp_text_free(&p->format);
    sp_free(p->cx, p);
}

const sp_packed *sp_api_packed(const sparta_packed *p)
{
    return p->is;
}

sparta_status sp_api_packed_view(sparta_ctx *cx, const sp_packed *of, sparta_packed **out)
{
    sparta_packed *p = create(cx);
    SP_NEED(cx, p);
    p->is = of;
    return finish(p, SPARTA_OK, out);
}

const char *sparta_packed_format(const sparta_packed *p)
{
    return sp_text_str(&p->format);
}
const sparta_storage *sparta_packed_storage(const sparta_packed *p)
{
    return &p->storage;
}
void sparta_packed_type(const sparta_packed *p, sparta_tensor *out)
{
    *out = sparta_tensor_view(p->is->dtype, p->is->rank, p->is->dim, NULL);
}

sparta_status sparta_packed_arrays(sparta_ctx *cx, const sparta_packed *p, sparta_arrays *out)
{
    sparta_arrays a;
    SP_TRY(sp_options(cx, "packed arrays", out, &a, sizeof a));
    if (p->is->format.sum)
        return sp_fail(
            cx, SPARTA_E_UNSUPPORTED,
            "packed arrays: a sum of formats has several sets of arrays; pack its parts by themselves");
    if (p->format.size >= sizeof a.format)
        return sp_fail(cx, SPARTA_E_LIMIT, "packed arrays: the format has %zu characters; %zu fit",
                       p->format.size, sizeof a.format - 1);
    a = (sparta_arrays){.size = SP_MIN(a.size, sizeof a),
                        .dtype = p->is->dtype,
                        .rank = p->is->rank,
                        .values = p->is->values};
    memcpy(a.format, sp_text_str(&p->format), p->format.size);
    memcpy(a.dim, p->is->dim, sizeof a.dim);
    memcpy(a.pos, p->is->pos, sizeof p->is->pos);
    memcpy(a.crd, p->is->crd, sizeof p->is->crd);
    memcpy(out, &a, a.size);
    return SPARTA_OK;
}
