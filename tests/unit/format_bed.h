/* What the tests of storage share: a context, formats from their text, tensors with every kind of value, and comparing
 * packed tensors array for array. */
#ifndef SP_TESTS_FORMAT_BED_H
#define SP_TESTS_FORMAT_BED_H

#include "bed.h"
#include <math.h>
#include "store/entries.h"
#include "unit/format_random.h"

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if (call) fail_msg("%s: %s", #call, sparta_message(cx));                                             \
    } while (0)

/* Storage keeps -0.0, which a dense source has in a strict context only. */
/* Sums stay in the context until it is freed: tests compare the memory before and after themselves. */
static inline sp_format parse(const char *text)
{
    sp_format f;
    if (sp_format_parse(cx, text, &f)) fail_msg("%s: %s", text, sparta_message(cx));
    return f;
}

static inline sp_packed pack(const char *text, const sparta_tensor *t, const sp_mask *m)
{
    sp_format f = parse(text);
    sp_packed p;
    if (sp_store_pack(cx, &f, t, m, &p)) fail_msg("%s: %s", text, sparta_message(cx));
    if (sp_packed_verify(cx, &p)) fail_msg("%s: %s", text, sparta_message(cx));
    return p;
}

static inline sp_packed convert(const sp_packed *from, const char *text)
{
    sp_format f = parse(text);
    sp_packed p;
    if (sp_store_convert(cx, from, &f, NULL, &p)) fail_msg("%s: %s", text, sparta_message(cx));
    if (sp_packed_verify(cx, &p)) fail_msg("%s: %s", text, sparta_message(cx));
    return p;
}

static inline void expect_message(sparta_status status, sparta_status want, const char *message)
{
    if (status != want || strncmp(sparta_message(cx), message, strlen(message)))
        fail_msg("status %d (wanted %d): '%s', wanted '%s'", status, want, status ? sparta_message(cx) : "",
                 message);
}

/* ------------------------------------------------------------------ arrays */

static inline size_t bytes_of(const sparta_tensor *t)
{
    return t->rank ? (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype) : 0;
}

static inline bool same_array(const sparta_tensor *a, const sparta_tensor *b)
{
    if (a->rank != b->rank || (a->rank && a->dtype != b->dtype)) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dim[d] != b->dim[d]) return false;
    return !bytes_of(a) || !memcmp(a->data, b->data, bytes_of(a));
}

static inline bool same_packed(const sp_packed *a, const sp_packed *b)
{
    if (a->dtype != b->dtype || a->pattern != b->pattern || a->rank != b->rank || a->parts != b->parts ||
        memcmp(a->dim, b->dim, sizeof a->dim) || !sp_format_equal(&a->format, &b->format))
        return false;
    for (int l = 0; l < SP_LEVELS; l++)
        if (!same_array(&a->pos[l], &b->pos[l]) || !same_array(&a->crd[l], &b->crd[l])) return false;
    for (int i = 0; i < a->parts; i++)
        if (!same_packed(&a->part[i], &b->part[i])) return false;
    return same_array(&a->values, &b->values);
}

static inline bool same_entries(const sp_coo *a, const sp_coo *b)
{
    bool same = a->rank == b->rank && a->n == b->n && same_array(&a->values, &b->values);
    for (int d = 0; same && d < a->rank; d++)
        same = a->dim[d] == b->dim[d] && !memcmp(a->index[d], b->index[d], (size_t)a->n * sizeof(int64_t));
    return same;
}

static inline void print_array(char *out, size_t size, const char *name, const sparta_tensor *t)
{
    if (!t->rank) return;
    size_t used = strlen(out);
    used += (size_t)snprintf(out + used, size - used, "%s", name);
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++)
        used += (size_t)snprintf(out + used, size - used, " %g", sp_element_get(t->dtype, t->data, i));
    snprintf(out + used, size - used, "; ");
}

/* "pos1 0 2; crd1 0 3; values 1 2; ", with "| " before each further part. */
static inline void print_packed(char *out, size_t size, const sp_packed *p)
{
    char name[24];
    out[0] = 0;
    for (int i = 0; i < sp_packed_leaves(p); i++) {
        const sp_packed *leaf = sp_packed_leaf(p, i);
        if (i) snprintf(out + strlen(out), size - strlen(out), "| ");
        for (int l = 0; l < SP_LEVELS; l++) {
            snprintf(name, sizeof name, "pos%d", l), print_array(out, size, name, &leaf->pos[l]);
            snprintf(name, sizeof name, "crd%d", l), print_array(out, size, name, &leaf->crd[l]);
        }
        print_array(out, size, "values", &leaf->values);
    }
}

static inline void expect_packed(const sp_packed *p, const char *want)
{
    char got[4000];
    print_packed(got, sizeof got, p);
    if (strcmp(got, want)) fail_msg("%s, wanted\n  %s", got, want);
}

static inline void expect_arrays(const char *text, const sparta_tensor *t, const char *want)
{
    sp_packed p = pack(text, t, NULL);
    char got[4000];
    print_packed(got, sizeof got, &p);
    if (strcmp(got, want)) fail_msg("%s:\n  %s, wanted\n  %s", text, got, want);
    sp_packed_free(cx, &p);
}

/* ------------------------------------------------------------------ tensors */

#define ROOM 4096 /* elements of a drawn tensor */
typedef struct {
    sparta_tensor t; /* row-major */
    _Alignas(64) uint8_t bytes[ROOM * 8];
} drawn;

/* One element in `one_in` is there; floats have every odd value, all of them kept bit for bit. */
static inline void draw_tensor(sp_rng *r, sparta_dtype dtype, int rank, unsigned one_in, drawn *out)
{
    static const double odd[] = {INFINITY, -INFINITY, NAN, -0.0, 1e-45};
    int64_t dim[SPARTA_RANK];
    for (int d = 0; d < rank; d++)
        dim[d] = rank < 3   ? (int64_t)roll(r, 20)
                 : rank < 5 ? 1 + (int64_t)roll(r, 5)
                            : 1 + (int64_t)roll(r, 3);
    out->t = sparta_tensor_view(dtype, rank, dim, out->bytes);
    for (int64_t i = 0; i < sparta_tensor_elements(&out->t); i++) {
        double v = roll(r, one_in) ? 0 : dtype == SPARTA_BOOL ? 1 : (double)(1 + roll(r, 99));
        if (v != 0 && sp_dtype_is_float(dtype) && roll(r, 8) == 0) v = odd[roll(r, SP_COUNT(odd))];
        sp_element_set(dtype, out->bytes, i, v);
    }
}

/* Unpacked into a tensor full of garbage, it is the same bit for bit. */
static inline void expect_tensor(const sp_packed *p, const sparta_tensor *want, const char *text)
{
    static _Alignas(64) uint8_t back[ROOM * 8];
    sparta_tensor out = *want;
    out.data = back;
    memset(back, 0xa5, sizeof back);
    if (sp_store_unpack(cx, p, &out)) fail_msg("%s: %s", text, sparta_message(cx));
    if (memcmp(back, want->data, bytes_of(want))) fail_msg("%s: other elements came back", text);
}

#endif
