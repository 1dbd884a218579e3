/* The tree over json.c's reader. */
#include "arrays/json_tree.h"
#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct builder {
    json_reader r;
    sp_arena *arena;
    sp_text word;
} builder;

static sparta_status read_value(builder *b, int depth, json_value *out);

static sparta_status keep(builder *b, const char **out)
{
    *out = sp_arena_bytes(b->arena, sp_text_str(&b->word), b->word.size);
    SP_NEED(b->r.cx, *out);
    return SPARTA_OK;
}

static sparta_status read_elements(builder *b, char open, int depth, json_value *out)
{
    const char close = open == '{' ? '}' : ']';
    const json_value **link = &out->first;
    bool more;
    if (depth == JSON_TREE_DEPTH) return sp_json_wrong(&b->r, "values are nested too deep");
    out->kind = open == '{' ? JSON_OBJECT : JSON_ARRAY;
    SP_TRY(sp_json_open(&b->r, open));
    for (;;) {
        SP_TRY(sp_json_more(&b->r, close, &more));
        if (!more) return SPARTA_OK;
        json_value *v = sp_arena_alloc(b->arena, sizeof *v);
        SP_NEED(b->r.cx, v);
        *v = (json_value){0};
        if (open == '{') {
            SP_TRY(sp_json_key(&b->r, &b->word));
            SP_TRY(keep(b, &v->key));
        }
        SP_TRY(read_value(b, depth + 1, v));
        if (out->n == INT_MAX) return sp_json_wrong(&b->r, "too many elements");
        out->n++;
        *link = v;
        link = &v->next;
    }
}

/* true, false, null or a number. */
static sparta_status read_plain(builder *b, json_value *out)
{
    const char *from = b->r.at;
    SP_TRY(sp_json_skip(&b->r));
    const size_t n = (size_t)(b->r.at - from);
    out->kind = *from == 't' || *from == 'f' ? JSON_BOOL : *from == 'n' ? JSON_NULL : JSON_NUMBER;
    out->yes = *from == 't';
    if (out->kind != JSON_NUMBER) return SPARTA_OK;
    out->text = sp_arena_bytes(b->arena, from, n);
    SP_NEED(b->r.cx, out->text);
    return SPARTA_OK;
}

static sparta_status read_value(builder *b, int depth, json_value *out)
{
    json_reader *r = &b->r;
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
    const char c = r->at < r->end ? *r->at : 0;
    if (c == '{' || c == '[') return read_elements(b, c, depth, out);
    if (c != '"') return read_plain(b, out);
    out->kind = JSON_STRING;
    SP_TRY(sp_json_string(r, &b->word));
    return keep(b, &out->text);
}

sparta_status sp_json_tree(sp_arena *arena, const char *text, size_t n, const json_value **out)
{
    sparta_ctx *cx = sp_arena_ctx(arena);
    builder b = {.r = {cx, text, text, text + n, false}, .arena = arena};
    json_value *v = sp_arena_alloc(arena, sizeof *v);
    SP_NEED(cx, v);
    *v = (json_value){0};
    sp_text_init(&b.word, cx);
    sparta_status status = read_value(&b, 0, v);
    sp_text_free(&b.word);
    if (status == SPARTA_OK) status = sp_json_end(&b.r);
    *out = v;
    return status;
}

const json_value *sp_json_first(const json_value *v)
{
    return v ? v->first : NULL;
}

const json_value *sp_json_get(const json_value *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (const json_value *v = object->first; v; v = v->next)
        if (!strcmp(v->key, key)) return v;
    return NULL;
}

const char *sp_json_text(const json_value *v)
{
    return v && v->kind == JSON_STRING ? v->text : NULL;
}

bool sp_json_int(const json_value *v, int64_t *out)
{
    return v && v->kind == JSON_NUMBER && sp_parse_int(v->text, out);
}

bool sp_json_double(const json_value *v, double *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"NaN", NAN}};
    for (size_t i = 0; v && v->kind == JSON_STRING && i < SP_COUNT(words); i++)
        if (!strcmp(v->text, words[i].text)) {
            *out = words[i].value;
            return true;
        }
    return v && v->kind == JSON_NUMBER && sp_parse_double(v->text, out);
}
