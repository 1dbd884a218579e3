/* Writing a package: sections one after the other, the header patched in at the end, the whole by atomic rename. */
#include "format/opaque.h"
#include "package/disk.h"
#include <string.h>

typedef struct writer {
    sparta_ctx *cx;
    const sparta_package *p;
    sparta_atomic *file;
    sparta_text tables;
    disk_header header;
    uint64_t weights_at;
} writer;

static void quote(sparta_text *t, const char *s)
{
    sparta_text_put(t, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\' || (unsigned char)*s < 32)
            sparta_text_printf(t, "\\x%02x", (unsigned char)*s);
        else
            sparta_text_put(t, s, 1);
    }
    sparta_text_put(t, "\"", 1);
}

/* One array into WEIGHTS, aligned; its line entry into the tables. */
static sparta_status put_array(writer *w, const sparta_tensor *t)
{
    size_t bytes = 0;
    uint8_t digest[32];
    char hex[65];
    if (t->data) SPARTA_TRY(sparta_tensor_bytes(w->cx, t->dtype, t->rank, t->dim, &bytes));
    SPARTA_TRY(sparta_atomic_align(w->file, 64));
    sparta_sha256_of(t->data ? t->data : "", bytes, digest);
    sparta_hex(digest, 32, hex);
    sparta_text_printf(&w->tables, " %s %ld %llu %zu %s", sparta_dtype_name(t->dtype),
                       t->data ? (long)sparta_tensor_elements(t) : 0L,
                       (unsigned long long)(sparta_atomic_offset(w->file) - w->weights_at), bytes, hex);
    return sparta_atomic_write(w->file, t->data ? t->data : "", bytes);
}

static void put_format(writer *w, const sparta_format *f)
{
    sparta_text text;
    sparta_text_init(&text, w->cx);
    sparta_format_print(f, &text);
    if (text.status != SPARTA_OK) w->tables.status = text.status;
    sparta_text_printf(&w->tables, " ");
    quote(&w->tables, sparta_text_str(&text));
    sparta_text_free(&text);
}

static sparta_status put_storage(writer *w, const sparta_packed *p)
{
    if (p->format.sum) {
        sparta_text_printf(&w->tables, " %d", p->parts);
        for (int i = 0; i < p->parts; i++) {
            put_format(w, &p->part[i].format);
            SPARTA_TRY(put_storage(w, &p->part[i])); /* a leaf: not deeper than this */
        }
        return SPARTA_OK;
    }
    for (int i = 0; p->format.opaque && i < SPARTA_OPAQUE_ARRAYS && p->format.opaque->array[i]; i++)
        SPARTA_TRY(put_array(w, &p->crd[i]));
    for (int i = 0; i < p->format.n; i++) {
        SPARTA_TRY(put_array(w, &p->pos[i]));
        SPARTA_TRY(put_array(w, &p->crd[i]));
    }
    return put_array(w, &p->values);
}

static sparta_status put_weight(writer *w, const sparta_weight *weight)
{
    const sparta_tensor *t = &weight->tensor;
    SPARTA_TRY(sparta_check_cancel(w->cx));
    sparta_text_printf(&w->tables, "%s ", weight->packed ? "packed" : "weight");
    quote(&w->tables, weight->name);
    if (!weight->packed) {
        sparta_text_printf(&w->tables, " %s %d", sparta_dtype_name(t->dtype), t->rank);
        for (int i = 0; i < t->rank; i++) sparta_text_printf(&w->tables, " %ld", (long)t->dim[i]);
        SPARTA_TRY(put_array(w, t));
    } else {
        const sparta_packed *p = &weight->pack;
        sparta_text_printf(&w->tables, " %d %s %d", weight->swapped, sparta_dtype_name(p->dtype), p->rank);
        for (int i = 0; i < p->rank; i++) sparta_text_printf(&w->tables, " %ld", (long)p->dim[i]);
        put_format(w, &p->format);
        SPARTA_TRY(put_storage(w, p));
    }
    sparta_text_printf(&w->tables, "\n");
    return w->tables.status;
}

static sparta_status put_section(writer *w, int which, const void *bytes, size_t n)
{
    disk_section *s = &w->header.section[which];
    SPARTA_TRY(sparta_atomic_align(w->file, 64));
    s->offset = sparta_atomic_offset(w->file);
    s->size = n;
    sparta_sha256_of(bytes, n, s->digest);
    return sparta_atomic_write(w->file, bytes, n);
}

static sparta_status put_kernels(writer *w)
{
    sparta_text code, source;
    sparta_text_init(&code, w->cx), sparta_text_init(&source, w->cx);
    for (int i = 0; i < w->p->n_kernels; i++) {
        const sparta_kernel *k = &w->p->kernel[i];
        sparta_text_printf(&w->tables, "kernel ");
        quote(&w->tables, k->kernel);
        sparta_text_printf(&w->tables, " ");
        quote(&w->tables, k->parameters);
        sparta_text_printf(&w->tables, " %zu %zu %d", source.size, strlen(k->source), k->n_code);
        sparta_text_put(&source, k->source, strlen(k->source));
        for (int c = 0; c < k->n_code; c++) {
            sparta_text_printf(&w->tables, " %s%s %zu %zu", sparta_target_name(k->code[c].target),
                               k->code[c].unchecked ? DISK_UNCHECKED : "", code.size, k->code[c].size);
            sparta_text_put(&code, k->code[c].bytes, k->code[c].size);
        }
        sparta_text_printf(&w->tables, "\n");
    }
    sparta_status s = code.status != SPARTA_OK ? code.status : source.status;
    if (s == SPARTA_OK) s = put_section(w, DISK_CODE, code.size ? code.data : "", code.size);
    if (s == SPARTA_OK) s = put_section(w, DISK_SOURCE, source.size ? source.data : "", source.size);
    sparta_text_free(&code), sparta_text_free(&source);
    return s;
}

static sparta_status put_plan(writer *w)
{
    sparta_text plan;
    sparta_text_init(&plan, w->cx);
    sparta_graph_print(w->p->plan, &plan);
    sparta_status s =
        plan.status == SPARTA_OK ? put_section(w, DISK_PLAN, sparta_text_str(&plan), plan.size) : plan.status;
    sparta_text_free(&plan);
    return s;
}

static sparta_status put_given(writer *w)
{
    const char *given = w->p->given ? w->p->given : "";
    return put_section(w, DISK_GIVEN, given, strlen(given));
}

static sparta_status put_header(writer *w)
{
    uint8_t page[HEADER_BYTES] = {0};
    memcpy(w->header.magic, DISK_MAGIC, 8);
    w->header.version = DISK_VERSION;
    w->header.sections = DISK_SECTIONS;
    memcpy(page, &w->header, sizeof w->header);
    sparta_sha256_of(page, HEADER_BYTES - 32, page + HEADER_BYTES - 32);
    return sparta_atomic_patch(w->file, 0, page, sizeof page);
}

static sparta_status put_all(writer *w)
{
    static const uint8_t empty[HEADER_BYTES];
    disk_section *weights = &w->header.section[DISK_WEIGHTS];
    SPARTA_TRY(sparta_atomic_write(w->file, empty, sizeof empty));
    SPARTA_TRY(put_plan(w));
    SPARTA_TRY(put_given(w));
    SPARTA_TRY(put_kernels(w));
    SPARTA_TRY(sparta_atomic_align(w->file, 4096));
    weights->offset = w->weights_at = sparta_atomic_offset(w->file);
    for (int i = 0; i < w->p->n_weights; i++) SPARTA_TRY(put_weight(w, &w->p->weight[i]));
    SPARTA_TRY(sparta_atomic_align(w->file, 64));
    weights->size = sparta_atomic_offset(w->file) - weights->offset;
    if (w->p->note) {
        sparta_text_printf(&w->tables, "note ");
        quote(&w->tables, w->p->note);
        sparta_text_printf(&w->tables, "\n");
    }
    SPARTA_TRY(w->tables.status);
    SPARTA_TRY(put_section(w, DISK_TABLES, sparta_text_str(&w->tables), w->tables.size));
    return put_header(w);
}

sparta_status sparta_package_write(sparta_ctx *cx, const sparta_package *p, const char *path)
{
    writer w = {.cx = cx, .p = p};
    w.file = sparta_atomic_open(cx, path);
    SPARTA_NEED(cx, w.file);
    sparta_text_init(&w.tables, cx);
    sparta_status s = put_all(&w);
    if (s == SPARTA_OK)
        s = sparta_package_unchanged(cx, p); /* weights may be borrowed from the model's file */
    sparta_text_free(&w.tables);
    if (s != SPARTA_OK) {
        sparta_atomic_abort(w.file);
        return s;
    }
    return sparta_atomic_commit(w.file);
}
