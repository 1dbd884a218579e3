/* The little JSON that the header of a safetensors file is: a reader that walks over text it does not own, with
 * no recursion but for values that are skipped, which may nest JSON_DEPTH deep.
 *
 *     json_reader r = {cx, begin, begin, end};
 *     TRY(sparta_json_open(&r, '{'));
 *     while (sparta_json_more(&r, '}', &more), more) { TRY(sparta_json_key(&r, &name)); TRY(sparta_json_skip(&r)); }
 */
#ifndef SPARTA_FILE_JSON_H
#define SPARTA_FILE_JSON_H

#include "base/base.h"

enum { JSON_DEPTH = 16 };

typedef struct json_reader {
    sparta_ctx *cx;
    const char *begin, *at, *end;
    bool first; /* no element of the innermost container was read yet */
} json_reader;

sparta_status sparta_json_wrong(const json_reader *r, const char *what) SPARTA_MUST; /* names the byte */
sparta_status sparta_json_open(json_reader *r, char bracket) SPARTA_MUST;
/* Is there another element before `bracket`? Reads the comma, or the bracket. */
sparta_status sparta_json_more(json_reader *r, char bracket, bool *more) SPARTA_MUST;
/* Decoded into `out` (emptied first): valid UTF-8, no NUL. */
sparta_status sparta_json_string(json_reader *r, sparta_text *out) SPARTA_MUST;
sparta_status sparta_json_key(json_reader *r, sparta_text *out) SPARTA_MUST; /* a string and its colon */
sparta_status sparta_json_size(json_reader *r, uint64_t *out) SPARTA_MUST;   /* a natural number of 64 bits */
sparta_status sparta_json_skip(json_reader *r) SPARTA_MUST;                  /* any value */
sparta_status sparta_json_end(json_reader *r) SPARTA_MUST;                   /* nothing but space follows */

bool sparta_json_is_text(const char *s); /* valid UTF-8: what a JSON string can say */

#endif
