/* Is every byte of a package's file what was written? What a digest covers has it, and what lies between is 0: padding is no place for anything. */
#include "package/disk.h"
#include <stdlib.h>
#include <string.h>

typedef struct range {
    size_t from, size;
} range;

static int compare(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static sparta_status digests(sparta_ctx *cx, const sparta_package *p)
{
    for (int i = 0; i < p->n_digests; i++) {
        const sp_array_digest *d = &p->digest[i];
        uint8_t digest[32];
        SP_TRY(sp_check_cancel(cx));
        sp_sha256_of(d->bytes, d->size, digest);
        if (memcmp(digest, d->digest, 32))
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "%s'%s': its digest does not fit; the file is damaged, compile it again",
                           d->section ? "section " : "weight ", d->name);
    }
    return SPARTA_OK;
}

static sparta_status padding(sparta_ctx *cx, const sparta_package *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (p->file.data[i])
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "byte %zu: it is padding and not 0; the file is damaged, compile it again", i);
    return SPARTA_OK;
}

/* Ranges may overlap: nobody but us writes them apart. */
static sparta_status between(sparta_ctx *cx, const sparta_package *p, range *all)
{
    size_t at = HEADER_BYTES; /* the header has its own digest, of all of it */
    for (int i = 0; i < p->n_digests; i++)
        all[i] = (range){(size_t)(p->digest[i].bytes - p->file.data), p->digest[i].size};
    qsort(all, (size_t)p->n_digests, sizeof *all, compare);
    for (int i = 0; i < p->n_digests; i++) {
        if (!all[i].size) continue;
        if (all[i].from > at) SP_TRY(padding(cx, p, at, all[i].from));
        at = SP_MAX(at, all[i].from + all[i].size);
    }
    if (at < p->file.size)
        return sp_fail(
            cx, SPARTA_E_FORMAT,
            "byte %zu: it lies behind the end of the package; the file is damaged, compile it again", at);
    return SPARTA_OK;
}

sparta_status sparta_package_check(sparta_ctx *cx, const sparta_package *p)
{
    uint8_t digest[32];
    if (!p->n_digests) return SPARTA_OK; /* just compiled: there is no file */
    sp_sha256_of(p->file.data, HEADER_BYTES - 32, digest);
    if (memcmp(digest, p->file.data + HEADER_BYTES - 32, 32))
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "the header's digest does not fit; the file is damaged, compile it again");
    SP_TRY(digests(cx, p));
    range *all = sp_alloc(cx, (size_t)p->n_digests * sizeof *all);
    SP_NEED(cx, all);
    const sparta_status s = between(cx, p, all);
    sp_free(cx, all);
    return s;
}
