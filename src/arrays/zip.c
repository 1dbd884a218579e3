/* Reading a zip file's directory. Every length is checked against the file before it is used. */
#include "arrays/zip.h"
#include <pthread.h>
#include <string.h>

/* ------------------------------------------------------------------ CRC-32, eight bytes at a time */

static uint32_t crc_table[8][256];

static void make_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            crc_table[t][i] = crc_table[t - 1][i] >> 8 ^ crc_table[0][crc_table[t - 1][i] & 255];
}

uint32_t sp_crc32(uint32_t crc, const void *bytes, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint8_t *p = bytes;
    pthread_once(&once, make_crc_table);
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^
              crc_table[4][low >> 24] ^ crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^
              crc_table[0][p[7]];
    }
    for (; n; n--, p++) crc = crc_table[0][(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc;
}

/* ------------------------------------------------------------------ numbers */

static unsigned get16(const uint8_t *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static bool inside(const sp_mapped *m, uint64_t at, uint64_t n)
{
    return at <= m->size && n <= m->size - at;
}

static sparta_status broken(sparta_ctx *cx, const char *what)
{
    return sp_fail(cx, SPARTA_E_FORMAT, "zip: %s", what);
}

/* ------------------------------------------------------------------ the end of the directory */

/* The end record is the last thing in the file but for a comment, whose length it tells. */
static bool find_end(const sp_mapped *m, uint64_t *out)
{
    if (m->size < ZIP_END_SIZE) return false;
    uint64_t last = m->size - ZIP_END_SIZE, first = last > 65535 ? last - 65535 : 0;
    for (uint64_t at = last + 1; at-- > first;) {
        const uint8_t *p = m->data + at;
        if (get32(p) == ZIP_END && get16(p + 20) == last - at) {
            *out = at;
            return true;
        }
    }
    return false;
}

static sparta_status read_end64(sparta_ctx *cx, const sp_mapped *m, uint64_t end, zip_directory *d)
{
    uint64_t at = get64(m->data + end - ZIP_LOCATOR_SIZE + 8);
    if (!inside(m, at, ZIP_END64_SIZE) || get32(m->data + at) != ZIP_END64)
        return broken(cx, "the zip64 end record is missing");
    const uint8_t *p = m->data + at;
    if (get32(p + 16) || get32(p + 20) || get64(p + 24) != get64(p + 32))
        return broken(cx, "archives of several parts are not read");
    *d = (zip_directory){get64(p + 32), get64(p + 48), get64(p + 40)};
    return SPARTA_OK;
}

sparta_status sp_zip_directory(sparta_ctx *cx, const sp_mapped *m, zip_directory *out)
{
    uint64_t end;
    if (!find_end(m, &end)) return broken(cx, "not a zip file, or its end is cut off");
    const uint8_t *p = m->data + end;
    zip_directory d = {get16(p + 10), get32(p + 16), get32(p + 12)};
    if (end >= ZIP_LOCATOR_SIZE && get32(p - ZIP_LOCATOR_SIZE) == ZIP_LOCATOR)
        SP_TRY(read_end64(cx, m, end, &d));
    else if (get16(p + 4) || get16(p + 6) || get16(p + 8) != d.n)
        return broken(cx, "archives of several parts are not read");
    if (!inside(m, d.at, d.size) || d.at + d.size > end)
        return broken(cx, "the directory lies outside of the file");
    if (d.n > d.size / ZIP_CENTRAL_SIZE) return broken(cx, "the directory is too small for its entries");
    *out = d;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ entries */

/* Sizes and offsets that do not fit in 32 bits stand in an extra field, in this order, only those that are needed. */
static bool read_extra64(const uint8_t *p, size_t n, uint64_t *const value[3])
{
    while (n >= 4) {
        unsigned id = get16(p), size = get16(p + 2);
        p += 4;
        n -= 4;
        if (size > n) return false;
        if (id != 1) {
            p += size;
            n -= size;
            continue;
        }
        for (int i = 0; i < 3; i++) {
            if (*value[i] != UINT32_MAX) continue;
            if (size < 8) return false;
            *value[i] = get64(p);
            p += 8;
            size -= 8;
        }
        return true;
    }
    return *value[0] != UINT32_MAX && *value[1] != UINT32_MAX && *value[2] != UINT32_MAX;
}

static sparta_status find_data(sparta_ctx *cx, const sp_mapped *m, const zip_directory *d, uint64_t local,
                               zip_entry *e)
{
    if (!inside(m, local, ZIP_LOCAL_SIZE) || get32(m->data + local) != ZIP_LOCAL)
        return broken(cx, "an entry has no local header");
    const uint8_t *p = m->data + local;
    size_t name_size = get16(p + 26);
    uint64_t data = local + ZIP_LOCAL_SIZE + name_size + get16(p + 28);
    if (!inside(m, data, e->packed) || data + e->packed > d->at)
        return broken(cx, "the data of an entry lies outside of the file");
    if (name_size != e->name_size || memcmp(p + ZIP_LOCAL_SIZE, e->name, name_size))
        return broken(cx, "the directory and a local header disagree about a name");
    e->data = m->data + data;
    return SPARTA_OK;
}

static sparta_status check_entry(sparta_ctx *cx, const zip_entry *e, unsigned flags)
{
    if (flags & 1) return sp_fail(cx, SPARTA_E_UNSUPPORTED, "zip: encrypted entries are not read");
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "zip: compression method %d is not read; only stored and deflated are", e->method);
    if (e->method == ZIP_STORED && e->packed != e->size) return broken(cx, "a stored entry has two sizes");
    if (e->size / 1040 > e->packed) return broken(cx, "an entry promises more than deflate can hold");
    if (memchr(e->name, 0, e->name_size)) return broken(cx, "a name contains a zero byte");
    return SPARTA_OK;
}

sparta_status sp_zip_entry(sparta_ctx *cx, const sp_mapped *m, const zip_directory *d, uint64_t *at,
                           zip_entry *out)
{
    const uint64_t left = d->at + d->size - *at;
    const uint8_t *p = m->data + *at;
    if (left < ZIP_CENTRAL_SIZE || get32(p) != ZIP_CENTRAL) return broken(cx, "the directory is damaged");
    size_t name_size = get16(p + 28), extra_size = get16(p + 30), comment_size = get16(p + 32);
    uint64_t size = ZIP_CENTRAL_SIZE + (uint64_t)name_size + extra_size + comment_size, local = get32(p + 42);
    if (left < size) return broken(cx, "the directory is damaged");
    zip_entry e = {.name = (const char *)p + ZIP_CENTRAL_SIZE,
                   .name_size = name_size,
                   .method = (int)get16(p + 10),
                   .crc = get32(p + 16)};
    e.packed = get32(p + 20);
    e.size = get32(p + 24);
    uint64_t *const wide[3] = {&e.size, &e.packed, &local};
    if (!read_extra64(p + ZIP_CENTRAL_SIZE + name_size, extra_size, wide))
        return broken(cx, "an extra field is damaged");
    SP_TRY(check_entry(cx, &e, get16(p + 8)));
    SP_TRY(find_data(cx, m, d, local, &e));
    *at += size;
    *out = e;
    return SPARTA_OK;
}
