/* The text of a mask: hex words or runs, whichever is shorter. Canonical: equal masks print the same. */
#include "tesa/words.h"
#include <string.h>

/* ------------------------------------------------------------------ print */

/* Runs of absent and present elements in row order; the first may be 0 long. */
typedef struct {
    const sp_mask *m;
    int64_t row, col;
    bool present;
} runs;

static int64_t next_absent(const uint64_t *row, int64_t from, int64_t end)
{
    while (from < end) {
        uint64_t x = ~row[from / WORD] >> (from % WORD);
        if (x) return SP_MIN(end, from + __builtin_ctzll(x));
        from = (from / WORD + 1) * WORD;
    }
    return end;
}

static bool next_run(runs *r, int64_t *length)
{
    const sp_mask *m = r->m;
    *length = 0;
    if (!m->words || r->row >= m->rows) return false;
    for (; r->row < m->rows; r->row++, r->col = 0) {
        const uint64_t *row = sp_mask_row(m, r->row);
        int64_t end = r->present ? next_absent(row, r->col, m->cols) : sp_bits_next(row, r->col, m->cols);
        *length += end - r->col;
        r->col = end;
        if (end < m->cols) break;
    }
    r->present = !r->present;
    return true;
}

static int64_t digits(int64_t x)
{
    int64_t n = 1;
    for (; x > 9; x /= 10) n++;
    return n;
}

/* Are the runs at most `most` characters, a space before each? */
static bool runs_fit(const sp_mask *m, int64_t most)
{
    runs r = {.m = m};
    for (int64_t length, size = 0; next_run(&r, &length);)
        if ((size += 1 + digits(length)) > most) return false;
    return true;
}

static void print_hex(const sp_mask *m, sp_text *out)
{
    for (int64_t n = 0; n < m->rows && !out->status; n++) {
        sp_text_put(out, " ", 1);
        for (int64_t k = 0; k < m->cols; k += 4)
            sp_text_put(out, &"0123456789abcdef"[sp_mask_row(m, n)[k / WORD] >> (k % WORD) & 15], 1);
    }
}

void sp_mask_print(const sp_mask *m, sp_text *out)
{
    bool short_runs = !m->words || runs_fit(m, m->rows * (sp_ceil_div(m->cols, 4) + 1));
    sp_text_printf(out, "mask %lldx%lld %s", (long long)m->rows, (long long)m->cols,
                   short_runs ? "rle" : "hex");
    if (!short_runs) {
        print_hex(m, out);
        return;
    }
    runs r = {.m = m};
    for (int64_t length; next_run(&r, &length) && !out->status;)
        sp_text_printf(out, " %lld", (long long)length);
}

/* ------------------------------------------------------------------ parse */

typedef struct {
    sparta_ctx *cx;
    const char *start, *at;
} reader;

static sparta_status wrong(const reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT, "mask text, character %lld: %s; e.g. mask 2x8 rle 4 4 3 1 4",
                   (long long)(r->at - r->start) + 1, what);
}

static void skip_space(reader *r)
{
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r') r->at++;
}

static bool take_word(reader *r, const char *word)
{
    size_t n = strlen(word);
    skip_space(r);
    if (strncmp(r->at, word, n)) return false;
    r->at += n;
    return true;
}

static sparta_status take_number(reader *r, int64_t *out)
{
    int64_t x = 0;
    if (*r->at < '0' || *r->at > '9') return wrong(r, "a number is missing here");
    for (; *r->at >= '0' && *r->at <= '9'; r->at++)
        if (!sp_int_mul(x, 10, &x) || !sp_int_add(x, *r->at - '0', &x))
            return wrong(r, "this number is too large");
    *out = x;
    return SPARTA_OK;
}

/* Elements [from, from + n) in row order become present. */
static void fill_run(sp_mask *m, int64_t from, int64_t n)
{
    while (n > 0) {
        int64_t row = from / m->cols, col = from % m->cols, some = SP_MIN(n, m->cols - col);
        sp_bits_fill(sp_mask_row(m, row), col, col + some);
        from += some, n -= some;
    }
}

static sparta_status read_runs(reader *r, sp_mask *m)
{
    int64_t all = m->rows * m->cols, at = 0, length;
    for (int64_t i = 0; at < all || !i; i++) {
        if (!all) break;
        const char *before = r->at;
        skip_space(r);
        if (r->at == before) return wrong(r, "runs end before the elements do, or are not apart");
        SP_TRY(take_number(r, &length));
        if (!length && i) return wrong(r, "only the first run may be 0");
        if (length > all - at) return wrong(r, "runs have more elements than the shape");
        if (i % 2) fill_run(m, at, length);
        at += length;
    }
    return SPARTA_OK;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static sparta_status read_hex(reader *r, sp_mask *m)
{
    for (int64_t n = 0; m->words && n < m->rows; n++) {
        const char *before = r->at;
        skip_space(r);
        if (r->at == before) return wrong(r, "rows end before the shape does, or are not apart");
        for (int64_t k = 0; k < m->cols; k += 4, r->at++) {
            int x = hex_value(*r->at);
            if (x < 0) return wrong(r, "a digit 0-9 a-f is missing");
            if (m->cols - k < 4 && x >> (m->cols - k))
                return wrong(r, "this digit has columns beyond the shape");
            sp_mask_row(m, n)[k / WORD] |= (uint64_t)x << (k % WORD);
        }
    }
    return SPARTA_OK;
}

sparta_status sp_mask_parse(sparta_ctx *cx, const char *text, sp_mask *out)
{
    reader r = {cx, text, text};
    int64_t rows, cols;
    if (!take_word(&r, "mask")) return wrong(&r, "the word 'mask' is missing");
    const char *word = r.at;
    skip_space(&r);
    if (r.at == word) return wrong(&r, "a space is missing after 'mask'");
    SP_TRY(take_number(&r, &rows));
    if (*r.at != 'x') return wrong(&r, "a shape is ROWSxCOLS");
    r.at++;
    SP_TRY(take_number(&r, &cols));
    bool rle = take_word(&r, "rle");
    if (!rle && !take_word(&r, "hex")) return wrong(&r, "'rle' or 'hex' is missing");
    sp_mask m;
    SP_TRY(sp_mask_create(cx, rows, cols, &m));
    sparta_status status = rle ? read_runs(&r, &m) : read_hex(&r, &m);
    skip_space(&r);
    if (!status && *r.at) status = wrong(&r, "there is something after the end");
    if (status)
        sp_mask_free(cx, &m);
    else
        *out = m;
    return status;
}
