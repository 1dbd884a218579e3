/* Any bytes as the text of a format, or, when they begin with "format", as a file of names. What parses must print to a text
 * that parses to the same; where it fits a small tensor, packing and unpacking must give the tensor back, by the fast path
 * and by the generic assembler, array for array. The bytes after a 0 in the input choose the tensor, and then damage the
 * storage, which must be refused or walked safely. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "format/text.h"
#include "store/store_inside.h"

#define MOST 64 /* elements of the tensor */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok) abort();
}

static void print_and_parse(sparta_ctx *cx, const sp_format *f)
{
    sp_text first, second;
    sp_format again;
    sp_text_init(&first, cx);
    sp_text_init(&second, cx);
    sp_format_print(f, &first);
    must(sp_format_parse(cx, sp_text_str(&first), &again) == SPARTA_OK);
    must(sp_format_equal(f, &again));
    sp_format_print(&again, &second);
    must(!strcmp(sp_text_str(&first), sp_text_str(&second)));
    sp_text_free(&first);
    sp_text_free(&second);
}

static int same(const sparta_tensor *a, const sparta_tensor *b)
{
    if (a->rank != b->rank) return 0;
    int64_t n = a->rank ? sparta_tensor_elements(a) : 0;
    return !a->rank || (n == sparta_tensor_elements(b) &&
                        !memcmp(a->data, b->data, (size_t)n * sparta_dtype_size(a->dtype)));
}

static void compare_with_generic(sparta_ctx *cx, const sp_format *f, const sparta_tensor *t,
                                 const sp_packed *p)
{
    sp_packed oracle = {.format = *f};
    sp_store_stats stats = {0};
    sparta_status status = sp_pack_generic(cx, &(sp_pack_job){f, t, NULL, true}, &oracle, &stats);
    must(!status || status == SPARTA_E_MEMORY); /* the budget is small, and the first copy is still there */
    for (int l = 0; !status && l < f->n; l++)
        must(same(&p->pos[l], &oracle.pos[l]) && same(&p->crd[l], &oracle.crd[l]));
    must(status || same(&p->values, &oracle.values));
    sp_packed_free(cx, &oracle);
}

/* Change bytes of the storage as the input says; whatever it is now, reading it must be safe. */
static void damage(sparta_ctx *cx, sp_packed *p, const sparta_tensor *out, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 2 < size; i += 3) {
        sp_packed *part = p->parts ? &p->part[data[i + 1] % p->parts] : p;
        int l = data[i] % (part->format.opaque ? SP_OPAQUE_ARRAYS : part->format.n);
        sparta_tensor *a = data[i] & 64 ? &part->values : data[i] & 128 ? &part->pos[l] : &part->crd[l];
        size_t bytes = a->rank ? (size_t)sparta_tensor_elements(a) * sparta_dtype_size(a->dtype) : 0;
        if (bytes) ((uint8_t *)a->data)[data[i + 1] % bytes] = data[i + 2];
    }
    sparta_status verified = sp_packed_verify(cx, p), unpacked = sp_store_unpack(cx, p, out);
    must(!verified || unpacked);
}

static void pack_and_unpack(sparta_ctx *cx, const sp_format *f, const uint8_t *data, size_t size)
{
    uint8_t elements[MOST] = {0}, back[MOST];
    sparta_tensor t = {.dtype = SPARTA_U8, .rank = f->rank, .data = elements};
    int64_t n = 1;
    for (int d = f->rank - 1; d >= 0; d--) {
        t.dim[d] = size ? data[0] % 9 : 3;
        if (size) data++, size--;
        if (n * t.dim[d] > MOST) t.dim[d] = 1;
        t.stride[d] = n;
        n *= t.dim[d];
    }
    for (int64_t i = 0; i < n && size; i++, data++, size--) elements[i] = data[0] & 1 ? data[0] : 0;
    sparta_tensor out = t;
    out.data = back;
    sp_packed p;
    if (sp_store_pack(cx, f, &t, NULL, &p))
        return; /* does not fit: the padding may be huge, widths and segments narrow */
    if (f->n) compare_with_generic(cx, f, &t, &p);
    memset(back, 0xa5, sizeof back);
    must(sp_store_unpack(cx, &p, &out) == SPARTA_OK);
    must(!memcmp(back, elements, (size_t)n));
    damage(cx, &p, &out, data, size);
    sp_packed_free(cx, &p);
}

/* A text that begins with "format" is a file of names: each must stand for what its text says. */
static void names(sparta_ctx *cx, char *text)
{
    if (sp_format_define_text(cx, "names", text)) {
        const sp_formats *all = sp_ctx_slot(cx, SP_SLOT_FORMATS);
        must(*sparta_message(cx) != 0 && (!all || !all->names)); /* all or none */
        return;
    }
    const sp_formats *all = sp_ctx_slot(cx, SP_SLOT_FORMATS);
    for (const sp_format_name *n = all->names; n; n = n->next) {
        sp_format f;
        must(sp_format_parse(cx, n->name, &f) == SPARTA_OK && sp_format_equal(&f, &n->format));
        must(sp_format_name_check(cx, n->name) == SPARTA_OK && sp_format_is_name(cx, n->name));
        print_and_parse(cx, &f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx *cx =
        sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .max_memory = 1 << 20});
    char text[1024];
    size_t length = 0;
    if (!cx) return 0;
    while (length < size && length + 1 < sizeof text && data[length])
        text[length] = (char)data[length], length++;
    text[length] = 0;
    data += length < size ? length + 1 : length;
    size -= length < size ? length + 1 : length;
    sp_format f;
    if (!strncmp(text, "format", 6)) {
        names(cx, text);
    } else if (sp_format_parse(cx, text, &f) == SPARTA_OK) {
        print_and_parse(cx, &f);
        size_t kept = sp_ctx_memory(cx); /* the parts of sums stay until the context goes */
        must(f.sum || !kept);
        pack_and_unpack(cx, &f, data, size);
        must(sp_ctx_memory(cx) == kept);
    } else {
        must(*sparta_message(cx) != 0);
    }
    sparta_ctx_free(cx);
    return 0;
}
