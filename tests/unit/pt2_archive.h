/* pt2_archive.h: archives as torch.export.save writes them, by hand. JSON is written with ' for " and ` for '.
 *
 *     pt2_archive a = {0};
 *     pt2_put(&a, "m/archive_format", "pt2", 3);
 *     pt2_end(&a);                                     a.data, a.size; free(a.data)
 */
#ifndef TESTS_PT2_ARCHIVE_H
#define TESTS_PT2_ARCHIVE_H

#include "arrays/zip.h"
#include <stdlib.h>
#include <string.h>

typedef struct pt2_archive {
    uint8_t *data;
    size_t size;
    int n;
    struct {
        const char *name;
        size_t at, size;
        uint32_t crc;
    } member[16];
} pt2_archive;

static inline void pt2_bytes(pt2_archive *a, const void *bytes, size_t n)
{
    a->data = realloc(a->data, a->size + n + 1);
    if (!a->data) abort();
    if (n) memcpy(a->data + a->size, bytes, n);
    a->size += n;
}

static inline void pt2_number(pt2_archive *a, uint32_t value, int n)
{
    for (int i = 0; i < n; i++) pt2_bytes(a, &(uint8_t){(uint8_t)(value >> (8 * i))}, 1);
}

/* Version, flags, method, time, date; CRC and sizes; lengths of the name and what is beside it. */
static inline void pt2_header(pt2_archive *a, int i)
{
    for (int k = 0; k < 5; k++) pt2_number(a, 0, 2);
    pt2_number(a, a->member[i].crc, 4);
    pt2_number(a, (uint32_t)a->member[i].size, 4);
    pt2_number(a, (uint32_t)a->member[i].size, 4);
    pt2_number(a, (uint32_t)strlen(a->member[i].name), 2);
    pt2_number(a, 0, 2);
}

static inline void pt2_put(pt2_archive *a, const char *name, const void *bytes, size_t n)
{
    const int i = a->n++;
    a->member[i].name = name;
    a->member[i].at = a->size;
    a->member[i].size = n;
    a->member[i].crc = sp_crc32(0, bytes, n);
    pt2_number(a, ZIP_LOCAL, 4);
    pt2_header(a, i);
    pt2_bytes(a, name, strlen(name));
    pt2_bytes(a, bytes, n);
}

static inline void pt2_json(pt2_archive *a, const char *name, const char *text)
{
    char *json = strdup(text);
    if (!json) abort();
    for (char *p = json; *p; p++) *p = *p == '\'' ? '"' : *p == '`' ? '\'' : *p;
    pt2_put(a, name, json, strlen(json));
    free(json);
}

static inline void pt2_end(pt2_archive *a)
{
    const size_t at = a->size;
    for (int i = 0; i < a->n; i++) {
        pt2_number(a, ZIP_CENTRAL, 4);
        pt2_number(a, 0, 2);
        pt2_header(a, i);
        for (int k = 0; k < 5; k++) pt2_number(a, 0, 2);
        pt2_number(a, (uint32_t)a->member[i].at, 4);
        pt2_bytes(a, a->member[i].name, strlen(a->member[i].name));
    }
    const size_t size = a->size - at;
    pt2_number(a, ZIP_END, 4);
    pt2_number(a, 0, 4);
    pt2_number(a, (uint32_t)a->n, 2);
    pt2_number(a, (uint32_t)a->n, 2);
    pt2_number(a, (uint32_t)size, 4);
    pt2_number(a, (uint32_t)at, 4);
    pt2_number(a, 0, 2);
}

#endif
