/* Any bytes as the text of a mask, or, when they begin with "tesa", of an attribute. What parses must print to a text that
 * parses to the same, canonically; and everything the room does with it must hold its laws. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tesa/attribute.h"

#define MOST 65536 /* elements of a mask that is worked with */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok) abort();
}

static void print_and_parse(sparta_ctx *cx, const sp_mask *m)
{
    sp_text first, second;
    sp_mask again;
    sp_text_init(&first, cx);
    sp_text_init(&second, cx);
    sp_mask_print(m, &first);
    if (!first.status && sp_mask_parse(cx, sp_text_str(&first), &again) == SPARTA_OK) {
        must(sp_mask_digest(m) == sp_mask_digest(&again));
        sp_mask_print(&again, &second);
        must(second.status || !strcmp(sp_text_str(&first), sp_text_str(&second)));
        sp_mask_free(cx, &again);
    } else {
        must(sp_ctx_status(cx) == SPARTA_E_MEMORY);
    }
    sp_text_free(&first);
    sp_text_free(&second);
}

static void cover(sparta_ctx *cx, const sp_mask *m)
{
    static const sp_cover_size size[] = {{8, 8, 3, 1, 2}, {4, 1, 2, 1, 1}, {1, 1, 1, 1, 1}};
    sp_cover c;
    int64_t count = 0;
    if (sp_mask_cover(cx, m, size, 3, &c)) {
        must(sp_ctx_status(cx) == SPARTA_E_MEMORY);
        return;
    }
    for (int i = 0; i < c.parts; i++) {
        for (int64_t k = 0; k < m->rows * m->words; k++) must(!(c.part[i].mask.bits[k] & ~m->bits[k]));
        count += sp_mask_count(&c.part[i].mask);
    }
    must(count == sp_mask_count(m));
    sp_cover_free(cx, &c);
}

static void report(sparta_ctx *cx, const sp_mask *m)
{
    static sp_mask_facts f;
    if (sp_mask_report(cx, m, &(sp_report_options){.slack = 1.1, .head_rows = 3, .head_cols = 5}, &f)) {
        must(sp_ctx_status(cx) == SPARTA_E_MEMORY);
        return;
    }
    must(f.present == sp_mask_count(m));
    for (int64_t i = 0; i < f.finding_count; i++)
        must(f.finding[i].missed >= 0 && f.finding[i].slots + f.finding[i].missed >= f.present);
}

/* What parses prints to a text that parses, and prints the same. */
static void attribute(sparta_ctx *cx, const char *text)
{
    sparta_tesa *t, *again;
    const char *first, *second;
    if (sparta_tesa_parse(cx, text, &t)) {
        must(*sparta_message(cx) != 0);
        return;
    }
    if (sparta_tesa_print(t, &first) || sparta_tesa_parse(cx, first, &again)) {
        must(sp_ctx_status(cx) == SPARTA_E_MEMORY);
    } else {
        must(sparta_tesa_print(again, &second) || !strcmp(first, second));
        sparta_tesa_free(again);
    }
    sparta_tesa_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx *cx =
        sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .max_memory = 1 << 22});
    char *text = malloc(size + 1);
    sp_mask m;
    if (!cx || !text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    if (!strncmp(text, "tesa", 4)) {
        attribute(cx, text);
    } else if (sp_mask_parse(cx, text, &m) == SPARTA_OK) {
        print_and_parse(cx, &m);
        if (m.cols <= MOST && m.rows <= MOST && m.rows * m.cols <= MOST) {
            cover(cx, &m);
            report(cx, &m);
        }
        sp_mask_free(cx, &m);
    } else {
        must(*sparta_message(cx) != 0);
    }
    must(sp_ctx_memory(cx) == 0);
    sparta_ctx_free(cx);
    free(text);
    return 0;
}
