/* Readers: the entries of one row of a source, as a line. Each checks what it reads and says false when anything
 * is not as the format asks; convert.h tells what happens then. */
#include "store/convert.h"
#include <string.h>

/* ------------------------------------------------------------------ columns */

/* Ascending and below `cols`? */
static bool ascend(const int32_t *col, int64_t n, int64_t cols)
{
    int bad = 0;
    for (int64_t i = 1; i < n; i++) bad |= col[i - 1] >= col[i];
    return !n || (!bad && col[0] >= 0 && col[n - 1] < cols);
}

/* How often a column is not above the one before it. */
static uint32_t falls_of(const int32_t *col, int64_t n)
{
    uint32_t falls = 0;
    for (int64_t i = 1; i < n; i++) falls += col[i - 1] >= col[i];
    return falls;
}

/* Over a range of rows at once: as many falls as there are between rows, no more. Where columns ascend, the first and the
 * last of a row are the ones to be in range. No branch depends on the data: an empty row looks at entry 0. `col` begins
 * with row r0. */
bool sp_source_ascend(const sp_source *s, int64_t r0, int64_t r1, const int32_t *col)
{
    const int64_t *start = s->start, lo = start[r0], n = start[r1] - lo;
    if (!n) return true;
    uint32_t falls = falls_of(col, n), out = 0;
    for (int64_t r = r0; r < r1; r++) {
        bool any = start[r] < start[r + 1], between = any & (start[r] > lo);
        int64_t first = any ? start[r] - lo : 0, last = any ? start[r + 1] - lo - 1 : 0;
        out |= any & ((col[first] < 0) | (col[last] >= s->cols));
        falls -= between & (col[first - between] >= col[first]);
    }
    return !falls && !out;
}

bool sp_source_check(const sp_source *s, int64_t r0, int64_t r1)
{
    return !s->flat || sp_source_ascend(s, r0, r1, (const int32_t *)s->crd + s->start[r0]);
}

int64_t sp_source_some(const sp_source *s, int64_t row, int64_t end)
{
    if (!s->flat) return end;
    int64_t next = row + 1, full = s->start[row] + SP_SOURCE_SOME;
    while (next + 8 < end && s->start[next + 8] < full) next += 8; /* short rows: in strides */
    while (next < end && s->start[next] < full) next++;
    return next;
}

/* Stored columns [lo, lo + n) as 32 bits. */
static const int32_t *columns(const sp_source *s, int64_t lo, int64_t n, int32_t *own)
{
    if (s->crd_width == SPARTA_I32) return (const int32_t *)s->crd + lo;
    for (int64_t i = 0; i < n; i++) {
        int64_t c = sp_index_get(s->crd_width, s->crd, lo + i);
        own[i] = c < 0 || c >= s->cols ? -1 : (int32_t)c; /* -1: ascend says no */
    }
    return own;
}

static const char *values_at(const sp_source *s, int64_t position)
{
    return s->values ? s->values + (size_t)position * s->size : NULL;
}

static bool all_zero(const char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i]) return false;
    return true;
}

/* ------------------------------------------------------------------ csr, coo, dcsr: start says where a row is */

static bool count_start(const sp_source *s, int64_t row, int64_t *n)
{
    *n = s->start[row + 1] - s->start[row];
    return true;
}

static bool read_start(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    int64_t lo = s->start[row], n = s->start[row + 1] - lo;
    if (n > s->cols) return false; /* some column is there twice; scratch holds cols */
    *out = (sp_line){n, columns(s, lo, n, own->col), values_at(s, lo)};
    return s->flat || ascend(out->col, n, s->cols); /* flat: sp_source_check */
}

/* ------------------------------------------------------------------ dense */

static bool count_dense(const sp_source *s, int64_t row, int64_t *n)
{
    *n = sp_dense_count(s->values + (size_t)(row * s->cols) * s->size, s->cols, s->size);
    return true;
}

static bool read_dense(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    const char *from = s->values + (size_t)(row * s->cols) * s->size;
    out->n = sp_dense_entries(from, s->cols, s->size, s->cols, own->col, own->value);
    out->col = own->col;
    out->value = own->value;
    return true;
}

/* ------------------------------------------------------------------ bsr */

static bool read_bsr(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    const sp_storage *l = &s->storage;
    int64_t n = 0, last = -1, blocks = (s->cols + l->b - 1) / l->b;
    for (int64_t i = s->start[row / l->a]; i < s->start[row / l->a + 1]; i++) {
        const int64_t q = s->blocks ? s->blocks[i] : i, c = sp_index_get(s->crd_width, s->crd, q);
        if (c <= last || c >= blocks) return false;
        const char *from = s->values + (size_t)(q * l->a * l->b + row % l->a * l->sa) * s->size;
        last = c;
        for (int64_t y = 0; y < l->b; y++, from += (size_t)l->sb * s->size) {
            if (all_zero(from, s->size)) continue;
            if (c * l->b + y >= s->cols) return false; /* padding */
            own->col[n] = (int32_t)(c * l->b + y);
            memcpy(own->value + (size_t)n++ * s->size, from, s->size);
        }
    }
    *out = (sp_line){n, own->col, own->value};
    return true;
}

/* The rows that the last blocks have too many must be 0. */
static bool bsr_padding(const sp_source *s)
{
    const sp_storage *l = &s->storage;
    int64_t row = s->rows / l->a;
    for (int64_t q = s->rows % l->a ? s->start[row] : s->n; q < s->n; q++)
        for (int64_t x = s->rows % l->a; x < l->a; x++)
            for (int64_t y = 0; y < l->b; y++)
                if (!all_zero(s->values + (size_t)(q * l->a * l->b + x * l->sa + y * l->sb) * s->size,
                              s->size))
                    return false;
    return true;
}

/* ------------------------------------------------------------------ ell, nm: as many slots for each segment */

/* How many of a segment's slots are entries: they ascend, and padding does not. A segment of nothing but padding
 * is told by its value. -1: wrong. */
static int64_t filled(const int32_t *col, const char *value, int64_t w, size_t size, bool zero)
{
    int64_t n = 1;
    if (!w) return 0;
    while (n < w && col[n] > col[n - 1]) n++;
    for (int64_t k = n; k < w; k++)
        if (col[k] != (zero ? 0 : col[n - 1])) return -1;
    if (value && !all_zero(value + (size_t)n * size, (size_t)(w - n) * size)) return -1;
    if (n == 1 && value && !col[0] && all_zero(value, size)) return 0;
    return n;
}

static bool read_ell(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    int64_t w = s->storage.w, lo = row * w;
    bool zero = s->p->format.level[1].properties & SP_PROP_PAD_ZERO;
    *out = (sp_line){0, columns(s, lo, w, own->col), values_at(s, lo)};
    out->n = filled(out->col, out->value, w, s->size, zero);
    return out->n >= 0 && ascend(out->col, out->n, s->cols);
}

static int64_t slot_coordinate(const sp_level *l, const void *crd, int64_t segment, int64_t slot)
{
    if (!l->crd_bits) return sp_index_get(l->crd, crd, segment * l->w + slot);
    int64_t each = 8 / l->crd_bits, bytes = (l->w + each - 1) / each;
    uint8_t byte = ((const uint8_t *)crd)[segment * bytes + slot / each];
    return byte >> slot % each * l->crd_bits & ((1 << l->crd_bits) - 1);
}

static bool read_nm(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    const sp_level *l = &s->p->format.level[2];
    int64_t groups = (s->cols + l->m - 1) / l->m, n = 0;
    int32_t col[64];
    if (l->w > 64) return false;
    for (int64_t g = 0; g < groups; g++) {
        int64_t segment = row * groups + g;
        const char *value = values_at(s, segment * l->w);
        for (int64_t k = 0; k < l->w; k++) {
            int64_t c = slot_coordinate(l, s->crd, segment, k);
            if (c < 0 || c >= l->m) return false;
            col[k] = (int32_t)c;
        }
        int64_t here = filled(col, value, l->w, s->size, l->properties & SP_PROP_PAD_ZERO);
        if (here < 0) return false;
        for (int64_t k = 0; k < here; k++, n++) {
            if (g * l->m + col[k] >= s->cols) return false;
            own->col[n] = (int32_t)(g * l->m + col[k]);
            if (value) memcpy(own->value + (size_t)n * s->size, value + (size_t)k * s->size, s->size);
        }
    }
    *out = (sp_line){n, own->col, s->values ? own->value : NULL};
    return true;
}

/* ------------------------------------------------------------------ bitmap */

static bool read_bitmap(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    int64_t bytes = (s->cols + 7) / 8, n = 0;
    const uint8_t *bits = (const uint8_t *)s->crd + row * bytes;
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bits + i, (size_t)SP_MIN(8, bytes - i));
        for (; word; word &= word - 1) {
            int64_t c = i * 8 + __builtin_ctzll(word);
            if (c >= s->cols) return false;
            own->col[n++] = (int32_t)c;
        }
    }
    if (n != s->start[row + 1] - s->start[row]) return false;
    *out = (sp_line){n, own->col, values_at(s, s->start[row])};
    return true;
}

/* ------------------------------------------------------------------ dia */

static bool read_dia(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out)
{
    int64_t n = 0, last = -s->rows;
    for (int64_t q = 0; q < s->n; q++) {
        int64_t d = sp_index_get(s->crd_width, s->crd, q);
        if (d <= last || d >= s->cols) return false;
        const char *from = s->values + (size_t)(q * s->rows + row) * s->size;
        last = d;
        if (all_zero(from, s->size)) continue;
        if (row + d < 0 || row + d >= s->cols) return false; /* padding */
        own->col[n] = (int32_t)(row + d);
        memcpy(own->value + (size_t)n++ * s->size, from, s->size);
    }
    *out = (sp_line){n, own->col, own->value};
    return true;
}

/* ------------------------------------------------------------------ opening: array lengths, then row starts */

static int64_t length(const sparta_tensor *t)
{
    return t->rank == 1 && t->dim[0] >= 0 ? t->dim[0] : -1;
}

static bool values_are(const sp_source *s, int64_t n)
{
    return !s->values || sp_array_is(&s->p->values, s->p->dtype, n);
}

/* pos -> start: from 0, never falling, up to n. */
static bool edges(const sp_source *s, const sparta_tensor *pos, sparta_dtype width, int64_t parents)
{
    if (!sp_array_is(pos, width, parents + 1)) return false;
    int64_t last = 0;
    bool falls = false;
    for (int64_t p = 0; p <= parents; p++) {
        int64_t at =
            width == SPARTA_I32 ? ((const int32_t *)pos->data)[p] : sp_index_get(width, pos->data, p);
        falls |= at < last;
        s->start[p] = last = at;
    }
    return !falls && !s->start[0] && last == s->n;
}

/* coo: the rows of ascending entries -> start. Long runs are skipped over sixteen at a time. */
static bool long_runs(const sp_source *s, const int32_t *r)
{
    int64_t row = 0;
    for (int64_t i = 0; i < s->n; i++) {
        uint32_t other = i + 16 < s->n ? 0 : 1; /* than the last row, in the next sixteen? */
        for (int k = 0; !other && k < 16; k += 8)
            for (int m = 0; m < 8; m++) other |= (uint32_t)r[i + k + m] ^ (uint32_t)(row - 1);
        if (!other) i += 15;
        if (!other || r[i] == row - 1) continue;
        if (r[i] < row || r[i] >= s->rows) return false;
        while (row <= r[i]) s->start[row++] = i;
    }
    while (row <= s->rows) s->start[row++] = s->n;
    return true;
}

/* Short runs: every entry says where its row ends, the last one is right; rows without entries end where the one
 * before does. No branch depends on the data. */
static bool short_runs(const sp_source *s, const void *crd, sparta_dtype width)
{
    int64_t last = 0;
    memset(s->start, 0, (size_t)(s->rows + 1) * sizeof *s->start);
    for (int64_t i = 0; i < s->n; i++) {
        int64_t r = width == SPARTA_I32 ? ((const int32_t *)crd)[i] : sp_index_get(width, crd, i);
        if (r < last || r >= s->rows) return false;
        s->start[r + 1] = i + 1;
        last = r;
    }
    for (int64_t r = 0; r < s->rows; r++) s->start[r + 1] = SP_MAX(s->start[r + 1], s->start[r]);
    return true;
}

static bool runs(const sp_source *s, const void *crd, sparta_dtype width)
{
    bool skip = width == SPARTA_I32 && s->n / 64 >= s->rows;
    return skip ? long_runs(s, crd) : short_runs(s, crd, width);
}

/* dcsr: the rows that are there, and their edges -> start. */
static bool sparse_edges(const sp_source *s)
{
    const sp_level *l = s->p->format.level;
    const sparta_tensor *pos = s->p->pos, *crd = s->p->crd;
    int64_t there = length(&crd[0]), row = 0, at = 0;
    if (there < 0 || !sp_array_is(&crd[0], l[0].crd, there) || !sp_array_is(&pos[0], l[0].pos, 2) ||
        !sp_array_is(&pos[1], l[1].pos, there + 1))
        return false;
    if (sp_index_get(l[0].pos, pos[0].data, 0) != 0 || sp_index_get(l[0].pos, pos[0].data, 1) != there ||
        sp_index_get(l[1].pos, pos[1].data, 0) != 0)
        return false;
    for (int64_t q = 0; q < there; q++) {
        int64_t r = sp_index_get(l[0].crd, crd[0].data, q);
        int64_t end = sp_index_get(l[1].pos, pos[1].data, q + 1);
        if (r < row || r >= s->rows || end < at || end > s->n) return false;
        while (row <= r) s->start[row++] = at;
        at = end;
    }
    while (row <= s->rows) s->start[row++] = at;
    return at == s->n;
}

static bool open_coo(sp_source *s)
{
    const sp_level *l = s->p->format.level;
    const sparta_tensor *pos = &s->p->pos[0];
    s->n = length(&s->p->crd[1]);
    if (s->n < 0 || !sp_array_is(&s->p->crd[0], l[0].crd, s->n) ||
        !sp_array_is(&s->p->crd[1], l[1].crd, s->n) || !sp_array_is(pos, l[0].pos, 2) || !values_are(s, s->n))
        return false;
    if (sp_index_get(l[0].pos, pos->data, 0) != 0 || sp_index_get(l[0].pos, pos->data, 1) != s->n)
        return false;
    s->crd = s->p->crd[1].data, s->crd_width = l[1].crd;
    return true;
}

static bool open_compressed(sp_source *s)
{
    const sp_level *l = &s->p->format.level[1];
    s->n = length(&s->p->crd[1]);
    s->crd = s->p->crd[1].data, s->crd_width = l->crd;
    int64_t slots, units = (s->rows + s->storage.a - 1) / s->storage.a;
    if (s->n < 0 || !sp_array_is(&s->p->crd[1], l->crd, s->n) ||
        !sp_int_mul(s->n, s->storage.a * s->storage.b, &slots) || !values_are(s, slots))
        return false;
    return s->storage.kind == SP_STORAGE_DCSR ? sparse_edges(s) : edges(s, &s->p->pos[1], l->pos, units);
}

static bool open_fixed(sp_source *s)
{
    int last = s->p->format.n - 1;
    const sp_level *l = &s->p->format.level[last];
    int64_t segments = s->rows, n = length(&s->p->crd[last]), w = l->w, slots;
    if (s->storage.kind == SP_STORAGE_NM) segments *= (s->cols + l->m - 1) / l->m;
    if (n < 0 || !segments || !s->cols) return false; /* nothing to be fast at */
    if (!w) w = s->storage.w = n / segments;
    int64_t each = l->crd_bits ? (w * l->crd_bits + 7) / 8 : w;
    s->crd = s->p->crd[last].data, s->crd_width = l->crd;
    return sp_int_mul(segments, w, &slots) && segments * each == n &&
           sp_array_is(&s->p->crd[last], l->crd, n) && values_are(s, slots);
}

static bool open_bitmap(sp_source *s)
{
    const sp_level *l = &s->p->format.level[1];
    int64_t bytes = (s->cols + 7) / 8 * s->rows, parents = length(&s->p->pos[1]) - 1;
    if (parents != s->rows || !sp_array_is(&s->p->crd[1], SPARTA_U8, bytes)) return false;
    if (!sp_array_is(&s->p->pos[1], l->pos, s->rows + 1)) return false;
    s->n = sp_index_get(l->pos, s->p->pos[1].data, s->rows);
    s->crd = s->p->crd[1].data;
    return s->n >= 0 && values_are(s, s->n) && edges(s, &s->p->pos[1], l->pos, s->rows);
}

static bool open_dia(sp_source *s)
{
    const sp_level *l = &s->p->format.level[0];
    int64_t slots;
    s->n = length(&s->p->crd[0]);
    s->crd = s->p->crd[0].data, s->crd_width = l->crd;
    return s->n >= 0 && sp_array_is(&s->p->crd[0], l->crd, s->n) && sp_array_is(&s->p->pos[0], l->pos, 2) &&
           sp_index_get(l->pos, s->p->pos[0].data, 0) == 0 &&
           sp_index_get(l->pos, s->p->pos[0].data, 1) == s->n && sp_int_mul(s->n, s->rows, &slots) &&
           values_are(s, slots);
}

/* The kinds, in the order of sp_storage_kind. */
static bool open_dense(sp_source *s)
{
    return values_are(s, s->rows * s->cols);
}

static bool open_bsr(sp_source *s)
{
    return open_compressed(s) && bsr_padding(s);
}

static const struct {
    bool (*open)(sp_source *s);
    bool (*read)(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out);
    bool (*count)(const sp_source *s, int64_t row, int64_t *n);
    bool starts; /* needs them */
} readers[SP_STORAGE_KINDS] = {
    [SP_STORAGE_DENSE] = {open_dense, read_dense, count_dense, false},
    [SP_STORAGE_CSR] = {open_compressed, read_start, count_start, true},
    [SP_STORAGE_COO] = {open_coo, read_start, count_start, true},
    [SP_STORAGE_DCSR] = {open_compressed, read_start, count_start, true},
    [SP_STORAGE_BSR] = {open_bsr, read_bsr, NULL, true},
    [SP_STORAGE_ELL] = {open_fixed, read_ell, NULL, false},
    [SP_STORAGE_BITMAP] = {open_bitmap, read_bitmap, count_start, true},
    [SP_STORAGE_NM] = {open_fixed, read_nm, NULL, false},
    [SP_STORAGE_DIA] = {open_dia, read_dia, NULL, false},
    [SP_STORAGE_HYB] = {NULL, sp_hyb_read, NULL, false},
};

/* We keep a start for each row and work space for each column: fine beside as many elements, not for a few in a
 * matrix of a billion rows. And nothing is allocated for rows that storage does not have. */
static bool pays(const sp_source *s)
{
    const sp_packed *p = s->p;
    int64_t n = SP_MAX(length(&p->crd[0]), length(&p->crd[1]));
    n = SP_MAX(n, SP_MAX(length(&p->values), length(&p->pos[1])));
    if (s->rows + s->cols > 1 << 16 && (s->rows + s->cols) / 16 > n) return false;
    if (s->storage.kind == SP_STORAGE_CSR || s->storage.kind == SP_STORAGE_BSR)
        return length(&p->pos[1]) == (s->rows + s->storage.a - 1) / s->storage.a + 1;
    return true;
}

/* Entries of coo may come in any order. Where only the columns do, the first check finds out, and convert sorts. */
static sparta_status order(sparta_ctx *cx, sp_pool *pool, sp_source *s, bool *can)
{
    if (runs(s, s->p->crd[0].data, s->p->format.level[0].crd)) return SPARTA_OK;
    *can = s->storage.unordered; /* else it says that they ascend */
    return *can ? sp_source_sort(cx, pool, s, can) : SPARTA_OK;
}

sparta_status sp_source_open(sparta_ctx *cx, const sp_packed *p, sp_pool *pool, bool *can, sp_source *s)
{
    *s = (sp_source){.p = p, .size = sparta_dtype_size(p->dtype)};
    *can = false;
    if (p->rank != 2 || !sp_storage_of(&p->format, &s->storage)) return SPARTA_OK;
    s->rows = p->dim[s->storage.turned], s->cols = p->dim[!s->storage.turned];
    if (s->rows > INT32_MAX - 64 || s->cols > INT32_MAX - 64) return SPARTA_OK;
    if (p->pattern && p->dtype != SPARTA_BOOL) return SPARTA_OK;
    s->read = readers[s->storage.kind].read;
    s->count = readers[s->storage.kind].count;
    if (s->storage.kind == SP_STORAGE_HYB) return sp_hyb_open(cx, s, can);
    if (!pays(s)) return SPARTA_OK;
    bool valued = !p->pattern || sp_levels_pattern_has_values(&p->format);
    if (valued) s->values = p->values.data ? p->values.data : (void *)"";
    if (readers[s->storage.kind].starts) {
        s->start = sp_alloc(cx, (size_t)(s->rows + 1) * sizeof *s->start);
        SP_NEED(cx, s->start);
    }
    *can = readers[s->storage.kind].open(s);
    s->flat = s->read == read_start && s->crd_width == SPARTA_I32;
    if (*can && s->storage.kind == SP_STORAGE_BSR && s->storage.unordered)
        return sp_source_sort_blocks(cx, s, can);
    return *can && s->storage.kind == SP_STORAGE_COO ? order(cx, pool, s, can) : SPARTA_OK;
}

void sp_source_close(sparta_ctx *cx, sp_source *s)
{
    sp_free(cx, s->start);
    sp_free(cx, s->part);
    sp_free(cx, s->own_col);
    sp_free(cx, s->own_value);
    sp_free(cx, s->blocks);
}
