/* Writing a package: sections one after the other, the header patched in at the end, the whole by atomic rename. */
#include "format/opaque.h"
#include "package/disk.h"
#include <string.h>

typedef struct writer {
    sparta_ctx *cx;
    const sparta_package *p;
    sp_atomic *file;
    sp_text tables;
    disk_header header;
    uint64_t weights_at;
} writer;

static void quote(sp_text *t, const char *s)
{
    sp_text_put(t, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\' || (unsigned char)*s < 32)
            sp_text_printf(t, "\\x%02x", (unsigned char)*s);
        else
            sp_text_put(t, s, 1);
    }
    sp_text_put(t, "\"", 1);
}

/* One array into WEIGHTS, aligned; its line entry into the tables. */
static sparta_status put_array(writer *w, const sparta_tensor *t)
{
    size_t bytes = 0;
    uint8_t digest[32];
    char hex[65];
    if (t->data) SP_TRY(sp_tensor_bytes(w->cx, t->dtype, t->rank, t->dim, &bytes));
    SP_TRY(sp_atomic_align(w->file, 64));
    SP_ASSERT((sp_atomic_offset(w->file) - w->weights_at) % 64 == 0);
    sp_sha256_of(t->data ? t->data : "", bytes, digest);
    sp_hex(digest, 32, hex);
    sp_text_printf(&w->tables, " %s %ld %llu %zu %s", sparta_dtype_name(t->dtype),
                   t->data ? (long)sparta_tensor_elements(t) : 0L,
                   (unsigned long long)(sp_atomic_offset(w->file) - w->weights_at), bytes, hex);
    return sp_atomic_write(w->file, t->data ? t->data : "", bytes);
}

static void put_format(writer *w, const sp_format *f)
{
    sp_text text;
    sp_text_init(&text, w->cx);
    sp_format_print(f, &text);
    if (text.status != SPARTA_OK) w->tables.status = text.status;
    sp_text_printf(&w->tables, " ");
    quote(&w->tables, sp_text_str(&text));
    sp_text_free(&text);
}

static sparta_status put_storage(writer *w, const sp_packed *p)
{
    if (p->format.sum) {
        sp_text_printf(&w->tables, " %d", p->parts);
        for (int i = 0; i < p->parts; i++) {
            put_format(w, &p->part[i].format);
            SP_TRY(put_storage(w, &p->part[i])); /* a leaf: not deeper than this */
        }
        return SPARTA_OK;
    }
    for (int i = 0; p->format.opaque && i < SP_OPAQUE_ARRAYS && p->format.opaque->array[i]; i++)
        SP_TRY(put_array(w, &p->crd[i]));
    for (int i = 0; i < p->format.n; i++) {
        SP_TRY(put_array(w, &p->pos[i]));
        SP_TRY(put_array(w, &p->crd[i]));
    }
    return put_array(w, &p->values);
}

static sparta_status put_weight(writer *w, const sp_weight *weight)
{
    const sparta_tensor *t = &weight->tensor;
    SP_TRY(sp_check_cancel(w->cx));
    sp_text_printf(&w->tables, "%s ", weight->packed ? "packed" : "weight");
    quote(&w->tables, weight->name);
    if (!weight->packed) {
        sp_text_printf(&w->tables, " %s %d", sparta_dtype_name(t->dtype), t->rank);
        for (int i = 0; i < t->rank; i++) sp_text_printf(&w->tables, " %ld", (long)t->dim[i]);
        SP_TRY(put_array(w, t));
    } else {
        const sp_packed *p;
        SP_TRY(sp_package_packed(w->cx, weight, &p));
        sp_text_printf(&w->tables, " %d %s %d", weight->swapped, sparta_dtype_name(p->dtype), p->rank);
        for (int i = 0; i < p->rank; i++) sp_text_printf(&w->tables, " %ld", (long)p->dim[i]);
        put_format(w, &p->format);
        SP_TRY(put_storage(w, p));
    }
    sp_text_printf(&w->tables, "\n");
    return w->tables.status;
}

static sparta_status put_section(writer *w, int which, const void *bytes, size_t n)
{
    disk_section *s = &w->header.section[which];
    SP_TRY(sp_atomic_align(w->file, 64));
    s->offset = sp_atomic_offset(w->file);
    s->size = n;
    sp_sha256_of(bytes, n, s->digest);
    return sp_atomic_write(w->file, bytes, n);
}

static sparta_status put_kernels(writer *w)
{
    sp_text code, source;
    sp_text_init(&code, w->cx), sp_text_init(&source, w->cx);
    for (int i = 0; i < w->p->n_kernels; i++) {
        const sp_kernel *k = &w->p->kernel[i];
        sp_text_printf(&w->tables, "kernel ");
        quote(&w->tables, k->kernel);
        sp_text_printf(&w->tables, " ");
        quote(&w->tables, k->parameters);
        sp_text_printf(&w->tables, " %zu %zu %d", source.size, strlen(k->source), k->n_code);
        sp_text_put(&source, k->source, strlen(k->source));
        for (int c = 0; c < k->n_code; c++) {
            sp_text_printf(&w->tables, " %s%s %016llx %zu %zu", sp_target_name(k->code[c].target),
                           k->code[c].unchecked ? DISK_UNCHECKED : "", (unsigned long long)k->code[c].abi,
                           code.size, k->code[c].size);
            sp_text_put(&code, k->code[c].bytes, k->code[c].size);
        }
        sp_text_printf(&w->tables, "\n");
    }
    sparta_status s = code.status != SPARTA_OK ? code.status : source.status;
    if (s == SPARTA_OK) s = put_section(w, DISK_CODE, code.size ? code.data : "", code.size);
    if (s == SPARTA_OK) s = put_section(w, DISK_SOURCE, source.size ? source.data : "", source.size);
    sp_text_free(&code), sp_text_free(&source);
    return s;
}

static sparta_status put_plan(writer *w)
{
    sp_text plan;
    sp_text_init(&plan, w->cx);
    sp_graph_print(w->p->plan, &plan);
    sparta_status s =
        plan.status == SPARTA_OK ? put_section(w, DISK_PLAN, sp_text_str(&plan), plan.size) : plan.status;
    sp_text_free(&plan);
    return s;
}

static sparta_status put_others(writer *w)
{
    sp_text all;
    sp_text_init(&all, w->cx);
    for (int i = 0; i < w->p->n_others; i++) {
        const sp_other_plan *o = &w->p->other[i];
        sp_text one;
        sp_text_init(&one, w->cx);
        sp_graph_print(o->plan, &one);
        sp_text_printf(&all, "%lld %lld %zu\n", (long long)o->least, (long long)o->most, one.size);
        sp_text_put(&all, sp_text_str(&one), one.size);
        if (one.status != SPARTA_OK) all.status = one.status;
        sp_text_free(&one);
    }
    sparta_status s = all.status;
    if (s == SPARTA_OK) s = put_section(w, DISK_OTHERS, sp_text_str(&all), all.size);
    sp_text_free(&all);
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
    sp_sha256_of(page, HEADER_BYTES - 32, page + HEADER_BYTES - 32);
    return sp_atomic_patch(w->file, 0, page, sizeof page);
}

static sparta_status put_all(writer *w)
{
    static const uint8_t empty[HEADER_BYTES];
    disk_section *weights = &w->header.section[DISK_WEIGHTS];
    SP_TRY(sp_atomic_write(w->file, empty, sizeof empty));
    SP_TRY(put_plan(w));
    SP_TRY(put_others(w));
    SP_TRY(put_given(w));
    SP_TRY(put_kernels(w));
    SP_TRY(sp_atomic_align(w->file, 4096));
    weights->offset = w->weights_at = sp_atomic_offset(w->file);
    for (int i = 0; i < w->p->n_weights; i++) SP_TRY(put_weight(w, &w->p->weight[i]));
    SP_TRY(sp_atomic_align(w->file, 64));
    weights->size = sp_atomic_offset(w->file) - weights->offset;
    if (w->p->note) {
        sp_text_printf(&w->tables, "note ");
        quote(&w->tables, w->p->note);
        sp_text_printf(&w->tables, "\n");
    }
    SP_TRY(w->tables.status);
    SP_TRY(put_section(w, DISK_TABLES, sp_text_str(&w->tables), w->tables.size));
    return put_header(w);
}

sparta_status sparta_package_save(sparta_ctx *cx, const sparta_package *p, const char *path)
{
    writer w = {.cx = cx, .p = p};
    SP_TRY(sp_check_cancel(cx));
    w.file = sp_atomic_open(cx, path);
    SP_NEED(cx, w.file);
    sp_text_init(&w.tables, cx);
    sparta_status s = put_all(&w);
    if (s == SPARTA_OK) s = sp_package_unchanged(cx, p); /* weights may be borrowed from the model's file */
    sp_text_free(&w.tables);
    return sp_atomic_end(w.file, s);
}
