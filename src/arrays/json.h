/* JSON, as the header of a safetensors file is: a reader that walks over text it does not own, with
 * no recursion but for values that are skipped, which may nest JSON_DEPTH deep.
 *
 *     json_reader r = {cx, begin, begin, end};
 *     TRY(sp_json_open(&r, '{'));
 *     while (sp_json_more(&r, '}', &more), more) { TRY(sp_json_key(&r, &name)); TRY(sp_json_skip(&r)); }
 */
#ifndef SP_ARRAYS_JSON_H
#define SP_ARRAYS_JSON_H

#include "base/base.h"

enum { JSON_DEPTH = 16 };

typedef struct json_reader {
    sparta_ctx *cx;
    const char *begin, *at, *end;
    bool first; /* no element of the innermost container was read yet */
} json_reader;

sparta_status sp_json_wrong(const json_reader *r, const char *what) SP_MUST; /* names the byte */
sparta_status sp_json_open(json_reader *r, char bracket) SP_MUST;
/* Is there another element before `bracket`? Reads the comma, or the bracket. */
sparta_status sp_json_more(json_reader *r, char bracket, bool *more) SP_MUST;
/* Decoded into `out` (emptied first): valid UTF-8, no NUL. */
sparta_status sp_json_string(json_reader *r, sp_text *out) SP_MUST;
sparta_status sp_json_key(json_reader *r, sp_text *out) SP_MUST;   /* a string and its colon */
sparta_status sp_json_size(json_reader *r, uint64_t *out) SP_MUST; /* a natural number of 64 bits */
sparta_status sp_json_skip(json_reader *r) SP_MUST;                /* any value */
sparta_status sp_json_end(json_reader *r) SP_MUST;                 /* nothing but space follows */

bool sp_json_is_text(const char *s); /* valid UTF-8: what a JSON string can say */

#endif
