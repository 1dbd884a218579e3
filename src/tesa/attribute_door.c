/* sparta_tesa of sparta.h: an attribute in an arena of its own, with its facts and its text. */
#include "tesa/attribute.h"
#include <string.h>

struct sparta_tesa {
    sparta_ctx *cx;
    sp_arena *arena;
    sp_tesa tesa;
    sparta_tesa_facts facts;
    const char *text; /* NULL: not printed yet */
};

void sparta_tesa_free(sparta_tesa *t)
{
    if (!t) return;
    sp_arena_free(t->arena);
    sp_free(t->cx, t);
}

/* One of the three ways to make one. */
typedef struct source {
    const sparta_tesa_facts *facts;
    const char *text;
    const char *path, *name;
} source;

static sparta_status open_named(sp_arena *arena, const source *s, sp_tesa *out)
{
    sparta_ctx *cx = sp_arena_ctx(arena);
    sp_tesas f;
    sparta_tesa_facts facts;
    int at = -1, n = 0;
    SP_TRY(sp_tesas_open(cx, s->path, &f));
    for (int i = 0; i < f.n; i++) {
        if (f.entry[i].array || (s->name && strcmp(f.entry[i].name, s->name))) continue;
        at = i;
        n++;
    }
    sparta_status status =
        n == 1 ? sp_tesa_facts(arena, &f.entry[at].tesa, &facts)
               : sp_fail(cx, SPARTA_E_USAGE, "%.200s: %s", s->path,
                         n ? "it has several attributes; say which" : "it has no such attribute");
    if (!status) status = sp_tesa_of_facts(arena, &facts, out); /* a copy, which outlives the file */
    sp_tesas_close(&f);
    return status;
}

static sparta_status make(sparta_ctx *cx, const source *s, sparta_tesa **out)
{
    sparta_tesa *t = sp_zalloc(cx, sizeof *t);
    SP_NEED(cx, t);
    t->cx = cx;
    t->arena = sp_arena_create(cx);
    sparta_status status = !t->arena  ? sp_ctx_status(cx)
                           : s->facts ? sp_tesa_of_facts(t->arena, s->facts, &t->tesa)
                           : s->text  ? sp_tesa_parse(t->arena, s->text, &t->tesa)
                                      : open_named(t->arena, s, &t->tesa);
    if (!status) status = sp_tesa_facts(t->arena, &t->tesa, &t->facts);
    if (status) {
        sparta_tesa_free(t);
        return status;
    }
    *out = t;
    return SPARTA_OK;
}

sparta_status sparta_tesa_create(sparta_ctx *cx, const sparta_tesa_facts *facts, sparta_tesa **out)
{
    sparta_tesa_facts f = {0};
    SP_TRY(sp_options(cx, "tesa facts", facts, &f, sizeof f));
    const sparta_named_tensor array[] = {
        {"has", f.has}, {"known", f.known}, {"values", f.values}, {"which", f.which}};
    for (size_t i = 0; i < SP_COUNT(array); i++)
        SP_TRY(sp_tensor_on_cpu(cx, &array[i].tensor, "tesa facts", array[i].name));
    return make(cx, &(source){.facts = &f}, out);
}

sparta_status sparta_tesa_parse(sparta_ctx *cx, const char *text, sparta_tesa **out)
{
    return make(cx, &(source){.text = text}, out);
}

sparta_status sparta_tesa_open(sparta_ctx *cx, const char *path, const char *name, sparta_tesa **out)
{
    return make(cx, &(source){.path = path, .name = name}, out);
}

void sparta_tesa_get(const sparta_tesa *tesa, sparta_tesa_facts *out)
{
    const size_t size = SP_MIN(out->size, sizeof *out);
    memcpy(out, &tesa->facts, size);
    if (size) out->size = size;
}

sparta_status sparta_tesa_print(sparta_tesa *tesa, const char **out)
{
    sp_text text;
    if (!tesa->text) {
        sp_text_init(&text, tesa->cx);
        sparta_status status = sp_tesa_print(&tesa->tesa, &text);
        if (!status) tesa->text = sp_arena_string(tesa->arena, sp_text_str(&text));
        sp_text_free(&text);
        SP_TRY(status);
        SP_NEED(tesa->cx, tesa->text);
    }
    *out = tesa->text;
    return SPARTA_OK;
}

sparta_status sparta_tesa_save(sparta_ctx *cx, const char *path, int n, const char *const *name,
                               const sparta_tesa *const *tesa)
{
    const sp_tesa **list = sp_alloc_array(cx, (size_t)SP_MAX(n, 1), sizeof *list);
    SP_NEED(cx, list);
    for (int i = 0; i < n; i++) list[i] = &tesa[i]->tesa;
    sparta_status status = sp_tesa_write(cx, path, n, name, list);
    sp_free(cx, list);
    return status;
}
