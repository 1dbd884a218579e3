/* Any bytes as an expression, formats of its operands and a schedule, each ended by a 0. What parses is lowered and written with the default and with the
 * schedule; whatever is refused has a message, and nothing is left in memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "special/special.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok) abort();
}

/* The next piece of the input, as a text. */
static const char *piece(const uint8_t **data, size_t *size, char out[1024])
{
    size_t n = 0;
    while (n < *size && n + 1 < 1024 && (*data)[n]) out[n] = (char)(*data)[n], n++;
    out[n] = 0;
    *data += n < *size ? n + 1 : n;
    *size -= n < *size ? n + 1 : n;
    return out;
}

static void write_texts(sparta_ctx *cx, sp_special *s, const char *schedule)
{
    for (int way = 0; way < 2; way++) {
        sp_text text;
        sparta_status status = sp_special_lower(s);
        if (!status) status = sp_special_schedule(s, way ? schedule : NULL, SP_TARGET_AVX512);
        must(way || status != SPARTA_E_USAGE ||
             strstr(sparta_message(cx), "rename")); /* the default is legal */
        sp_text_init(&text, cx);
        if (!status) sp_special_print(s, &text);
        if (!status) sp_special_functions(s, "f", &text);
        must(!status || *sparta_message(cx));
        sp_text_free(&text);
        if (status) return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024], word[1024];
    sp_special *s;
    sparta_ctx *cx =
        sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .max_memory = 16 << 20});
    if (!cx) return 0;
    if (sp_special_parse(cx, piece(&data, &size, text), &s) == SPARTA_OK) {
        const int formats = size ? *data % 4 : 0;
        if (size) data++, size--;
        for (int i = 0; i < formats && i < s->operands; i++) {
            const sparta_status status =
                sp_special_format(s, s->operand[(i + 1) % s->operands].name, piece(&data, &size, word));
            must(!status || *sparta_message(cx));
        }
        write_texts(cx, s, piece(&data, &size, word));
        sp_special_free(s);
    } else {
        must(*sparta_message(cx) != 0);
    }
    sparta_ctx_free(cx);
    return 0;
}
