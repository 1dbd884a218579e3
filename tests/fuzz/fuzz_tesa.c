/* Any bytes as the text of a mask. What parses must print to a text that parses to the same mask, canonically; and
 * everything the room does with it must hold its laws. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tesa/tesa.h"

#define MOST 65536 /* elements of a mask that is worked with */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok) abort();
}

static void print_and_parse(sparta_ctx *cx, const sparta_mask *m)
{
    sparta_text first, second;
    sparta_mask again;
    sparta_text_init(&first, cx);
    sparta_text_init(&second, cx);
    sparta_mask_print(m, &first);
    if (!first.status && sparta_mask_parse(cx, sparta_text_str(&first), &again) == SPARTA_OK) {
        must(sparta_mask_equal(m, &again) && sparta_mask_digest(m) == sparta_mask_digest(&again));
        sparta_mask_print(&again, &second);
        must(second.status || !strcmp(sparta_text_str(&first), sparta_text_str(&second)));
        sparta_mask_free(cx, &again);
    } else {
        must(sparta_ctx_status(cx) == SPARTA_E_MEMORY);
    }
    sparta_text_free(&first);
    sparta_text_free(&second);
}

static void cover(sparta_ctx *cx, const sparta_mask *m)
{
    static const sparta_cover_size size[] = {{8, 8, 3, 1, 2}, {4, 1, 2, 1, 1}, {1, 1, 1, 1, 1}};
    sparta_cover c;
    int64_t count = 0;
    if (sparta_mask_cover(cx, m, size, 3, SPARTA_COVER_GREEDY, &c)) {
        must(sparta_ctx_status(cx) == SPARTA_E_MEMORY);
        return;
    }
    for (int i = 0; i < c.parts; i++) {
        must(sparta_mask_within(&c.part[i].mask, m));
        count += sparta_mask_count(&c.part[i].mask);
    }
    must(count == sparta_mask_count(m));
    sparta_cover_free(cx, &c);
}

static void report(sparta_ctx *cx, const sparta_mask *m)
{
    static sparta_mask_facts f;
    if (sparta_mask_report(cx, m, &(sparta_report_options){.slack = 1.1, .head_rows = 3, .head_cols = 5},
                           &f)) {
        must(sparta_ctx_status(cx) == SPARTA_E_MEMORY);
        return;
    }
    must(f.present == sparta_mask_count(m));
    for (int64_t i = 0; i < f.finding_count; i++)
        must(f.finding[i].missed >= 0 && f.finding[i].slots + f.finding[i].missed >= f.present);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sparta_ctx *cx =
        sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .max_memory = 1 << 22});
    char *text = malloc(size + 1);
    sparta_mask m;
    if (!cx || !text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    if (sparta_mask_parse(cx, text, &m) == SPARTA_OK) {
        print_and_parse(cx, &m);
        if (m.cols <= MOST && m.rows <= MOST && m.rows * m.cols <= MOST) {
            cover(cx, &m);
            report(cx, &m);
        }
        sparta_mask_free(cx, &m);
    } else {
        must(*sparta_message(cx) != 0);
    }
    must(sparta_ctx_memory(cx) == 0);
    sparta_ctx_free(cx);
    free(text);
    return 0;
}
