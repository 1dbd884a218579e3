/* Matrix Market (NIST): a line that says what follows, comments, a line of sizes, the entries.
 *
 *     %%MatrixMarket matrix coordinate real general        %%MatrixMarket matrix array real general
 *     % a comment                                          2 2
 *     2 2 1                                                1.5      column by column
 *     1 2 3.5      row, column (from 1), value             ...
 *
 * As LAGraph has it, the first line may be missing (3 sizes: coordinate real general, 2: array real general), and a
 * comment before the sizes may name the type of the values (mtx_type.h).
 */
#include "arrays/mtx_type.h"
#include "arrays/arrays.h"
#include <stdio.h>
#include <string.h>

typedef enum { REAL, INTEGER, PATTERN } field;
typedef enum { GENERAL, SYMMETRIC, SKEW } symmetry;

typedef struct market {
    line_reader r;
    bool bare; /* without the first line */
    bool array;
    field field;
    bool complex; /* with imaginary parts, which must be 0 */
    symmetry symmetry;
    const mtx_type *type;        /* of the values */
    int64_t rows, cols, entries; /* entries as the file stores them */
    int side; /* of the diagonal on which a symmetric file has its entries: -1 below, 1 above, 0 not known yet */
    sp_coo coo;
    int64_t n; /* entries of coo made so far: twice as many off the diagonal of symmetric ones */
} market;

/* ------------------------------------------------------------------ the first line */

static sparta_status wrong_word(market *m, const char *what, line_token t, const char *known)
{
    if (!t.n) return sp_line_fail(&m->r, SPARTA_E_FORMAT, "the %s is missing; it is %s", what, known);
    return sp_line_fail(&m->r, SPARTA_E_FORMAT, "unknown %s '%s'; it is %s", what, sp_line_quote(&m->r, t),
                        known);
}

static sparta_status read_field(market *m)
{
    line_token t = sp_line_token(&m->r);
    m->complex = sp_line_is(t, "complex");
    bool real = m->complex || sp_line_is(t, "real") || sp_line_is(t, "double");
    bool integer = sp_line_is(t, "integer") || sp_line_is(t, "unsigned-integer"); /* SciPy's, of u64 */
    if (!real && !integer && !sp_line_is(t, "pattern"))
        return wrong_word(m, "field", t, "real, double, integer, complex or pattern");
    m->field = real ? REAL : integer ? INTEGER : PATTERN;
    return SPARTA_OK;
}

static sparta_status read_symmetry(market *m)
{
    line_token t = sp_line_token(&m->r);
    if (sp_line_is(t, "hermitian") && !m->complex)
        return sp_line_fail(&m->r, SPARTA_E_FORMAT, "hermitian goes with complex values only");
    if (sp_line_is(t, "general"))
        m->symmetry = GENERAL;
    else if (sp_line_is(t, "symmetric") || sp_line_is(t, "hermitian")) /* the same of real numbers */
        m->symmetry = SYMMETRIC;
    else if (sp_line_is(t, "skew-symmetric"))
        m->symmetry = SKEW;
    else
        return wrong_word(m, "symmetry", t, "general, symmetric, skew-symmetric or hermitian");
    if (m->symmetry == SKEW && m->field == PATTERN)
        return sp_line_fail(&m->r, SPARTA_E_FORMAT, "a pattern has no sign and cannot be skew-symmetric");
    return SPARTA_OK;
}

/* What follows %%MatrixMarket. */
static sparta_status read_banner(market *m)
{
    line_reader *r = &m->r;
    line_token t = sp_line_token(r);
    if (sp_line_is(t, "vector"))
        return sp_line_fail(r, SPARTA_E_UNSUPPORTED,
                            "vectors are not supported; save a matrix of one column");
    if (!sp_line_is(t, "matrix")) return wrong_word(m, "object", t, "matrix");
    t = sp_line_token(r);
    m->array = sp_line_is(t, "array");
    if (!m->array && !sp_line_is(t, "coordinate")) return wrong_word(m, "format", t, "coordinate or array");
    SP_TRY(read_field(m));
    SP_TRY(read_symmetry(m));
    SP_TRY(sp_line_end(r));
    if (m->array && m->field == PATTERN)
        return sp_line_fail(r, SPARTA_E_FORMAT, "an array of pattern has no values to read");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ comments before the sizes */

static sparta_status no_banner(market *m)
{
    return sp_line_fail(
        &m->r, SPARTA_E_FORMAT,
        "a Matrix Market file begins with %%%%MatrixMarket, or has numbers and comments only");
}

/* A comment that was meant to be the first line, misspelt or not the first: without it a symmetric matrix would lose
 * half of its entries and nobody would know. `first` is its first word, and the line goes on after it. */
static bool like_banner(line_reader ahead, line_token first)
{
    const bool marked = first.n > 2 && first.p[1] == '%' && first.p[2] != '%';
    if (marked && (ahead.line == 1 || sp_line_is(first, "%%MatrixMarket"))) return true;
    bool matrix = false;
    for (line_token t; (t = sp_line_token(&ahead)).n;) {
        if (matrix && (sp_line_is(t, "coordinate") || sp_line_is(t, "array"))) return true;
        matrix = sp_line_is(t, "matrix");
    }
    return false;
}

static sparta_status read_comment(market *m, line_token first)
{
    if (sp_line_is(first, "%%GraphBLAS")) return sp_mtx_type_line(&m->r, &m->type);
    return m->bare && like_banner(m->r, first) ? no_banner(m) : SPARTA_OK;
}

/* Everything before the line of sizes, which is the present one afterwards. */
static sparta_status read_head(market *m)
{
    line_reader *r = &m->r;
    while (sp_line_next(r)) {
        const char *begin = r->next;
        line_token t = sp_line_token(r);
        if (r->line == 1 && sp_line_is(t, "%%MatrixMarket")) {
            SP_TRY(read_banner(m));
            continue;
        }
        m->bare = m->bare || r->line == 1;
        if (t.n && t.p[0] != '%') {
            r->next = begin;
            return m->bare && (t.p[0] < '0' || t.p[0] > '9') ? no_banner(m) : SPARTA_OK;
        }
        SP_TRY(read_comment(m, t));
    }
    if (r->line > 0) return sp_line_fail(r, SPARTA_E_FORMAT, "the file ends before the line of sizes");
    r->line = 1; /* of an empty file */
    return no_banner(m);
}

/* What the type of the values is, and whether it goes with the first line. */
static sparta_status settle_type(market *m)
{
    if (!m->type) m->type = sp_mtx_type_of(m->field == REAL ? SPARTA_F64 : SPARTA_I64);
    if (m->type->complex && !m->complex)
        return sp_line_fail(&m->r, SPARTA_E_UNSUPPORTED,
                            "the type above is %s, and sparta has no complex numbers", m->type->name);
    if (m->symmetry == SKEW && !sp_dtype_is_signed(m->type->dtype))
        return sp_line_fail(&m->r, SPARTA_E_FORMAT,
                            "the type above is %s, which has no sign and cannot be skew-symmetric",
                            m->type->name);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sizes */

/* The next line that is neither blank nor a comment; false at the end of the file. */
static bool next_line(market *m)
{
    while (sp_line_next(&m->r)) {
        const char *p = m->r.next;
        while (p < m->r.eol && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
        if (p < m->r.eol && *p != '%') return true;
    }
    return false;
}

static bool goes_on(line_reader ahead)
{
    return sp_line_token(&ahead).n > 0;
}

/* Entries that an array file stores: all, or one triangle with or without its diagonal. */
static bool array_entries(const market *m, int64_t *out)
{
    int64_t n = m->rows, twice = 0;
    if (m->symmetry == GENERAL) return sp_int_mul(n, m->cols, out);
    if (n == 0) {
        *out = 0;
        return true;
    }
    if (!sp_int_mul(n, m->symmetry == SKEW ? n - 1 : n, &twice)) return false;
    if (m->symmetry == SYMMETRIC && !sp_int_add(twice, n, &twice)) return false;
    *out = twice / 2;
    return true;
}

static sparta_status read_sizes(market *m)
{
    SP_TRY(sp_line_natural(&m->r, "the number of rows", &m->rows));
    SP_TRY(sp_line_natural(&m->r, "the number of columns", &m->cols));
    if (m->bare) m->array = !goes_on(m->r);
    if (!m->array) SP_TRY(sp_line_natural(&m->r, "the number of entries", &m->entries));
    SP_TRY(sp_line_end(&m->r));
    if (m->symmetry != GENERAL && m->rows != m->cols)
        return sp_line_fail(&m->r, SPARTA_E_FORMAT, "a symmetric matrix of %lld rows and %lld columns",
                            (long long)m->rows, (long long)m->cols);
    if (m->array && !array_entries(m, &m->entries))
        return sp_line_fail(&m->r, SPARTA_E_RANGE, "%lld x %lld elements do not fit in 64 bits",
                            (long long)m->rows, (long long)m->cols);
    /* An entry takes at least "1 1" or "1" and a newline: nobody makes us ask for memory that the file cannot fill. */
    int64_t least = m->array ? 2 : m->field == PATTERN ? 4 : 6, left = (int64_t)(m->r.end - m->r.at);
    if (m->entries > left / least + 1)
        return sp_line_fail(&m->r, SPARTA_E_FORMAT,
                            "%lld entries are promised and the file has only %lld bytes left",
                            (long long)m->entries, (long long)left);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ entries */

/* There is no complex type: numbers that happen to be real are read, others refused. */
static sparta_status read_complex(market *m, double *real)
{
    double imaginary;
    SP_TRY(sp_line_real(&m->r, "the real part", real));
    SP_TRY(sp_line_real(&m->r, "the imaginary part", &imaginary));
    if (imaginary == 0) return SPARTA_OK;
    return sp_line_fail(&m->r, SPARTA_E_UNSUPPORTED,
                        "the imaginary part is %g, and sparta has no complex numbers; save the real and "
                        "the imaginary parts as two real files",
                        imaginary);
}

static sparta_status read_value(market *m, mtx_number *v)
{
    if (m->field == PATTERN) return SPARTA_OK;
    if (m->bare && !goes_on(m->r))
        return sp_line_fail(&m->r, SPARTA_E_FORMAT,
                            "the value is missing; a pattern begins with %%%%MatrixMarket matrix coordinate "
                            "pattern general");
    if (!m->complex) return sp_mtx_number(&m->r, m->type, m->field == INTEGER, v);
    SP_TRY(read_complex(m, &v->real));
    return sp_mtx_from_real(&m->r, m->type, v);
}

static void set_value(market *m, int64_t at, const mtx_number *v)
{
    if (m->field != PATTERN) sp_mtx_store(m->type, m->coo.values.data, at, v);
}

static void put_entry(market *m, int64_t row, int64_t col, const mtx_number *v)
{
    m->coo.index[0][m->n] = row;
    m->coo.index[1][m->n] = col;
    set_value(m, m->n, v);
    m->n++;
}

static sparta_status check_index(market *m, const char *what, int64_t i, int64_t size)
{
    if (i >= 1 && i <= size) return SPARTA_OK;
    return sp_line_fail(&m->r, SPARTA_E_RANGE, "the %s %lld is not between 1 and %lld", what, (long long)i,
                        (long long)size);
}

/* Both triangles in one file: would (1,2) and (2,1) be one entry or two? */
static sparta_status check_side(market *m, int64_t row, int64_t col)
{
    int side = row > col ? -1 : 1;
    if (m->side == -side)
        return sp_line_fail(
            &m->r, SPARTA_E_FORMAT,
            "the entry (%lld, %lld) is %s the diagonal and others are %s it; a symmetric file has one side",
            (long long)row, (long long)col, side < 0 ? "below" : "above", side < 0 ? "above" : "below");
    m->side = side;
    return SPARTA_OK;
}

static sparta_status read_entry(market *m)
{
    int64_t row = 0, col = 0;
    mtx_number v = {0};
    SP_TRY(sp_line_int(&m->r, "the row", &row));
    SP_TRY(sp_line_int(&m->r, "the column", &col));
    SP_TRY(read_value(m, &v));
    SP_TRY(sp_line_end(&m->r));
    SP_TRY(check_index(m, "row", row, m->rows));
    SP_TRY(check_index(m, "column", col, m->cols));
    put_entry(m, row - 1, col - 1, &v);
    if (m->symmetry == GENERAL) return SPARTA_OK;
    if (row == col) {
        if (m->symmetry == SYMMETRIC || (v.real == 0 && v.size == 0)) return SPARTA_OK;
        return sp_line_fail(&m->r, SPARTA_E_FORMAT, "the diagonal of a skew-symmetric matrix is zero");
    }
    SP_TRY(check_side(m, row, col));
    if (m->symmetry == SKEW) SP_TRY(sp_mtx_negate(&m->r, m->type, &v));
    put_entry(m, col - 1, row - 1, &v);
    return SPARTA_OK;
}

static sparta_status missing(market *m, int64_t have)
{
    return sp_line_fail(&m->r, SPARTA_E_FORMAT, "the file ends after %lld of %lld entries", (long long)have,
                        (long long)m->entries);
}

static sparta_status no_more(market *m)
{
    if (!next_line(m)) return SPARTA_OK;
    return sp_line_fail(&m->r, SPARTA_E_FORMAT, "more than the %lld entries that were promised",
                        (long long)m->entries);
}

static sparta_status read_coordinates(market *m)
{
    int64_t most = 0;
    if (!sp_int_mul(m->entries, m->symmetry == GENERAL ? 1 : 2, &most))
        return sp_line_fail(&m->r, SPARTA_E_RANGE, "too many entries");
    SP_TRY(sp_coo_alloc(m->r.cx, 2, (int64_t[]){m->rows, m->cols}, most,
                        m->field == PATTERN ? NULL : &m->type->dtype, &m->coo));
    for (int64_t i = 0; i < m->entries; i++) {
        if (i % 65536 == 0) SP_TRY(sp_check_cancel(m->r.cx));
        if (!next_line(m)) return missing(m, i);
        SP_TRY(read_entry(m));
    }
    m->coo.n = m->n;
    if (m->coo.values.data) m->coo.values.dim[0] = m->n;
    SP_TRY(no_more(m));
    return sp_coo_canonical(&m->coo);
}

/* ------------------------------------------------------------------ arrays */

static sparta_status read_element(market *m, int64_t row, int64_t col)
{
    mtx_number v = {0};
    SP_TRY(read_value(m, &v));
    SP_TRY(sp_line_end(&m->r));
    set_value(m, row * m->cols + col, &v);
    if (m->symmetry == GENERAL || row == col) return SPARTA_OK;
    if (m->symmetry == SKEW) SP_TRY(sp_mtx_negate(&m->r, m->type, &v));
    set_value(m, col * m->cols + row, &v);
    return SPARTA_OK;
}

static sparta_status read_array(market *m)
{
    int64_t dim[2] = {m->rows, m->cols}, seen = 0;
    m->coo = (sp_coo){.cx = m->r.cx, .dense = true, .rank = 2, .dim = {m->rows, m->cols}};
    SP_TRY(sp_tensor_alloc(m->r.cx, m->type->dtype, 2, dim, &m->coo.values));
    m->coo.n = m->rows * m->cols; /* a tensor of that many exists */
    for (int64_t col = 0; m->coo.n && col < m->cols; col++) {
        SP_TRY(sp_check_cancel(m->r.cx));
        for (int64_t row = m->symmetry == GENERAL ? 0 : col + (m->symmetry == SKEW); row < m->rows;
             row++, seen++) {
            if (!next_line(m)) return missing(m, seen);
            SP_TRY(read_element(m, row, col));
        }
    }
    return no_more(m);
}

/* ------------------------------------------------------------------ reading */

static sparta_status parse(market *m)
{
    SP_TRY(read_head(m));
    SP_TRY(settle_type(m));
    SP_TRY(read_sizes(m));
    return m->array ? read_array(m) : read_coordinates(m);
}

sparta_status sp_mtx_parse(sparta_ctx *cx, const void *bytes, size_t n, sp_coo *out)
{
    market m = {.r = {.cx = cx, .at = bytes, .end = (const char *)bytes + n}};
    if (parse(&m)) {
        sp_coo_free(&m.coo);
        return sp_ctx_status(cx);
    }
    *out = m.coo;
    return SPARTA_OK;
}
