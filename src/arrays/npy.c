/* NumPy's arrays.
 *
 *     "\x93NUMPY" major minor | length (2 bytes little-endian, 4 from version 2) | {'descr': '<f4',
 * 'fortran_order': False, 'shape': (3, 4), } spaces \n | data
 */
#include "arrays/zip.h"
#include <string.h>

enum { HEADER_MOST = 1 << 16 };

typedef struct reader { /* of the header's text */
    sparta_ctx *cx;
    const char *at, *end;
} reader;

typedef struct description {
    char descr[16];
    bool fortran;
    int rank;
    int64_t dim[SPARTA_RANK];
    unsigned seen; /* a bit per key */
} description;
enum { SEEN_DESCR = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4, SEEN_ALL = 7 };

/* ------------------------------------------------------------------ the dictionary */

static sparta_status malformed(const reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT, "npy: malformed header: %s", what);
}

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
}

static bool accept(reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    skip_space(r);
    return true;
}

static bool accept_word(reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n)) return false;
    r->at += n;
    return true;
}

static sparta_status read_string(reader *r, char *out, size_t size)
{
    char quote = r->at < r->end ? *r->at : 0;
    size_t n = 0;
    if (quote == '[')
        return sp_fail(r->cx, SPARTA_E_UNSUPPORTED,
                       "npy: structured arrays are not supported; save one array per field");
    if (quote != '\'' && quote != '"') return malformed(r, "a string was expected");
    for (r->at++; r->at < r->end && *r->at != quote; r->at++) {
        if (n + 1 == size || *r->at == '\\') return malformed(r, "a string is too long or has an escape");
        out[n++] = *r->at;
    }
    if (r->at == r->end) return malformed(r, "a string does not end");
    r->at++;
    out[n] = 0;
    return SPARTA_OK;
}

static sparta_status read_size(reader *r, int64_t *out)
{
    int64_t v = 0;
    const char *start = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (!sp_int_mul(v, 10, &v) || !sp_int_add(v, *r->at - '0', &v))
            return malformed(r, "a size does not fit in 64 bits");
    if (r->at == start) return malformed(r, "a size was expected");
    *out = v;
    return SPARTA_OK;
}

/* () (3,) (3, 4) (3, 4,) but not (3) */
static sparta_status read_shape(reader *r, description *d)
{
    bool comma = true;
    if (!accept(r, '(')) return malformed(r, "the shape is no tuple");
    while (!accept(r, ')')) {
        if (!comma) return malformed(r, "the shape lacks a comma");
        if (d->rank == SPARTA_RANK)
            return sp_fail(r->cx, SPARTA_E_UNSUPPORTED, "npy: more than %d dimensions are not supported",
                           SPARTA_RANK);
        SP_TRY(read_size(r, &d->dim[d->rank]));
        d->rank++;
        comma = accept(r, ',');
    }
    if (d->rank == 1 && !comma) return malformed(r, "the shape is no tuple");
    return SPARTA_OK;
}

static sparta_status read_item(reader *r, description *d)
{
    char key[16];
    unsigned bit;
    SP_TRY(read_string(r, key, sizeof key));
    if (!accept(r, ':')) return malformed(r, "':' was expected");
    bit = !strcmp(key, "descr")           ? SEEN_DESCR
          : !strcmp(key, "fortran_order") ? SEEN_ORDER
          : !strcmp(key, "shape")         ? SEEN_SHAPE
                                          : 0;
    if (!bit || (d->seen & bit)) return malformed(r, "a key is unknown or occurs twice");
    d->seen |= bit;
    if (bit == SEEN_DESCR) return read_string(r, d->descr, sizeof d->descr);
    if (bit == SEEN_SHAPE) return read_shape(r, d);
    d->fortran = accept_word(r, "True");
    return d->fortran || accept_word(r, "False") ? SPARTA_OK
                                                 : malformed(r, "fortran_order is neither True nor False");
}

static sparta_status read_dictionary(reader *r, description *d)
{
    if (!accept(r, '{')) return malformed(r, "it is no dictionary");
    while (!accept(r, '}')) {
        SP_TRY(read_item(r, d));
        if (accept(r, ',')) continue;
        if (accept(r, '}')) break;
        return malformed(r, "',' or '}' was expected");
    }
    if (r->at != r->end) return malformed(r, "something follows the dictionary");
    return d->seen == SEEN_ALL ? SPARTA_OK : malformed(r, "a key is missing");
}

static sparta_status find_dtype(sparta_ctx *cx, const char *descr, sparta_dtype *out)
{
    bool little = descr[0] == '<' || descr[0] == '|';
    for (int i = 0; i < SP_DTYPES && little; i++)
        if (!strcmp(descr + 1, sp_dtype_descr((sparta_dtype)i) + 1)) {
            *out = (sparta_dtype)i;
            return SPARTA_OK;
        }
    if (descr[0] == '>')
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "npy: %s is big-endian; save it with .astype('<...')",
                       descr);
    return sp_fail(cx, SPARTA_E_UNSUPPORTED, "npy: arrays of type %s are not supported", descr);
}

/* ------------------------------------------------------------------ reading */

static sparta_status read_header(sparta_ctx *cx, const uint8_t *bytes, size_t n, description *d,
                                 size_t *data_at)
{
    if (n < 10 || memcmp(bytes, "\x93NUMPY", 6))
        return sp_fail(cx, SPARTA_E_FORMAT, "npy: not a .npy file (its first bytes differ)");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "npy: version %d.%d is not supported; 1.0, 2.0 and 3.0 are",
                       bytes[6], bytes[7]);
    size_t start = bytes[6] == 1 ? 10 : 12, size = bytes[8] | (size_t)bytes[9] << 8;
    if (n < start) return sp_fail(cx, SPARTA_E_FORMAT, "npy: the file ends inside its header");
    if (start == 12) size |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (size > HEADER_MOST)
        return sp_fail(cx, SPARTA_E_LIMIT, "npy: a header of %zu bytes; at most %d are read", size,
                       HEADER_MOST);
    if (size > n - start) return sp_fail(cx, SPARTA_E_FORMAT, "npy: the file ends inside its header");
    const char *text = (const char *)bytes + start;
    reader r = {cx, text, text + size};
    *data_at = start + size;
    return read_dictionary(&r, d);
}

/* In Fortran's order the first index runs fastest. */
static void reverse_strides(sparta_tensor *t)
{
    int64_t stride = 1;
    for (int i = 0; i < t->rank; i++) {
        t->stride[i] = stride;
        stride *= t->dim[i];
    }
}

/* Other bytes than 0 and 1 mean true to NumPy, and trouble to C; types narrower than a byte have no more than their bits. */
static void clean(sparta_tensor *t, size_t bytes)
{
    uint8_t *b = t->data;
    for (size_t i = 0; t->dtype == SPARTA_BOOL && i < bytes; i++) b[i] = b[i] != 0;
    const int bits = sp_dtype_bits(t->dtype);
    for (size_t i = 0; bits < 8 && i < bytes; i++) b[i] &= (uint8_t)((1 << bits) - 1);
}

/* The string |S3 as three bytes. */
static void spell(description *d)
{
    char *end = d->descr + 2;
    int64_t n = 0;
    if (d->rank != 0 || d->descr[0] != '|' || d->descr[1] != 'S') return;
    for (; *end >= '0' && *end <= '9' && n < 1000000; end++) n = n * 10 + (*end - '0');
    if (end == d->descr + 2 || *end) return;
    d->rank = 1;
    d->dim[0] = n;
    memcpy(d->descr, "|u1", 4);
}

static sparta_status parse(sparta_ctx *cx, const void *bytes, size_t n, bool text, sparta_tensor *out)
{
    description d = {0};
    size_t at = 0, size = 0;
    sparta_dtype dtype = SPARTA_F32;
    sparta_tensor t;
    SP_TRY(read_header(cx, bytes, n, &d, &at));
    if (text) spell(&d);
    SP_TRY(find_dtype(cx, d.descr, &dtype));
    SP_TRY(sp_tensor_bytes(cx, dtype, d.rank, d.dim, &size));
    if (n - at != size) /* checked before any memory is asked for */
        return sp_fail(cx, SPARTA_E_FORMAT, "npy: the header promises %zu bytes of data and %zu are there",
                       size, n - at);
    SP_TRY(sp_tensor_alloc(cx, dtype, d.rank, d.dim, &t));
    sparta_tensor from = sparta_tensor_view(dtype, d.rank, d.dim, (uint8_t *)bytes + at);
    if (d.fortran) reverse_strides(&from);
    sparta_status status = sp_tensor_copy(cx, &from, &t);
    if (status) {
        sp_free(cx, t.data);
        return status;
    }
    clean(&t, size);
    *out = t;
    return SPARTA_OK;
}

sparta_status sp_npy_parse(sparta_ctx *cx, const void *bytes, size_t n, sparta_tensor *out)
{
    return parse(cx, bytes, n, false, out);
}

sparta_status sp_npy_parse_text(sparta_ctx *cx, const void *bytes, size_t n, sparta_tensor *out)
{
    return parse(cx, bytes, n, true, out);
}

sparta_status sp_npy_read(sparta_ctx *cx, const char *path, sparta_tensor *out)
{
    sp_mapped m;
    SP_TRY(sp_mapped_open(cx, path, &m));
    sparta_status status = sp_npy_parse(cx, m.data, m.size, out);
    sp_mapped_close(&m);
    return status ? sp_fail_in(cx, "%s", path) : SPARTA_OK;
}

/* ------------------------------------------------------------------ writing */

void sp_npy_header(const sparta_tensor *t, sp_text *out)
{
    size_t start = out->size;
    sp_text_put(out, "\x93NUMPY\1\0\0\0", 10);
    sp_text_printf(out, "{'descr': '%s', 'fortran_order': False, 'shape': (", sp_dtype_descr(t->dtype));
    for (int i = 0; i < t->rank; i++) sp_text_printf(out, i ? ", %lld" : "%lld", (long long)t->dim[i]);
    sp_text_printf(out, t->rank == 1 ? ",), }" : "), }");
    if (out->status) return;
    size_t size = (out->size - start + 1 + 63) & ~(size_t)63; /* + the final newline */
    sp_text_printf(out, "%*s\n", (int)(size - (out->size - start) - 1), "");
    if (out->status) return;
    out->data[start + 8] = (char)((size - 10) & 255);
    out->data[start + 9] = (char)((size - 10) >> 8);
}

static sparta_status write_to(sp_atomic *f, sparta_ctx *cx, const sparta_tensor *t, size_t bytes)
{
    sp_text header;
    const sparta_tensor *rows;
    sparta_tensor own;
    sp_text_init(&header, cx);
    sp_npy_header(t, &header);
    sparta_status status = header.status;
    if (!status) status = sp_atomic_write(f, header.data, header.size);
    sp_text_free(&header);
    SP_TRY(status);
    SP_TRY(sp_tensor_row_major(cx, t, &own, &rows));
    status = sp_atomic_write(f, rows->data, bytes);
    sp_free(cx, own.data);
    return status;
}

sparta_status sp_npy_write(sparta_ctx *cx, const char *path, const sparta_tensor *t)
{
    size_t bytes;
    SP_TRY(sp_tensor_bytes(cx, t->dtype, t->rank, t->dim, &bytes));
    sp_atomic *f = sp_atomic_open(cx, path);
    SP_NEED(cx, f);
    return sp_atomic_end(f, write_to(f, cx, t, bytes));
}
