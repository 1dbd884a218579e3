/* Trials in memory: each key has a list, the fastest trial first. Everything lives in one arena. */
#include "tune/records.h"
#include <string.h>

typedef struct record record;
struct record {
    sparta_trial trial;
    record *next;
};

struct sparta_records {
    sparta_ctx *cx;
    sparta_arena *arena;
    sparta_map *lists; /* key: address of the record* that begins its list */
};

sparta_records *sparta_records_create(sparta_ctx *cx)
{
    sparta_records *r = sparta_zalloc(cx, sizeof *r);
    if (!r) return NULL;
    r->cx = cx;
    r->arena = sparta_arena_create(cx);
    r->lists = r->arena ? sparta_map_create(cx) : NULL;
    if (r->lists) return r;
    sparta_records_free(r);
    return NULL;
}

void sparta_records_free(sparta_records *r)
{
    if (!r) return;
    sparta_map_free(r->lists);
    if (r->arena) sparta_arena_free(r->arena);
    sparta_free(r->cx, r);
}

static record **list_of(const sparta_records *r, const char *key)
{
    int64_t at;
    return sparta_map_get(r->lists, key, &at) ? (record **)(intptr_t)at : NULL;
}

int sparta_records_find(const sparta_records *r, const char *key, sparta_trial *out, int most)
{
    record **list = list_of(r, key);
    int n = 0;
    for (const record *x = list ? *list : NULL; x; x = x->next, n++)
        if (n < most) out[n] = x->trial;
    return n;
}

static sparta_status new_list(sparta_records *r, const char *key, record ***out)
{
    record **list = sparta_arena_array(r->arena, 1, sizeof *list);
    const char *kept = sparta_arena_string(r->arena, key);
    SPARTA_NEED(r->cx, list);
    SPARTA_NEED(r->cx, kept);
    SPARTA_TRY(sparta_map_put(r->lists, kept, (int64_t)(intptr_t)list));
    *out = list;
    return SPARTA_OK;
}

/* The order of the database: by time, then by name. */
static bool before(const sparta_trial *a, const sparta_trial *b)
{
    if (a->us != b->us) return a->us < b->us;
    const int names = strcmp(a->implement, b->implement);
    return names ? names < 0 : strcmp(a->parameters, b->parameters) < 0;
}

/* Takes the record of the same implement and parameters out of the list; NULL: there is none. */
static record *take(record **list, const sparta_trial *t)
{
    for (; *list; list = &(*list)->next) {
        record *x = *list;
        if (strcmp(x->trial.implement, t->implement) || strcmp(x->trial.parameters, t->parameters)) continue;
        *list = x->next;
        return x;
    }
    return NULL;
}

sparta_status sparta_records_add(sparta_records *r, const char *key, const sparta_trial *t)
{
    record **list = list_of(r, key);
    if (!list) SPARTA_TRY(new_list(r, key, &list));
    record *x = take(list, t);
    if (!x) {
        x = sparta_arena_array(r->arena, 1, sizeof *x);
        SPARTA_NEED(r->cx, x);
        x->trial = *t;
    }
    if (t->us < x->trial.us) x->trial = *t;
    while (*list && before(&(*list)->trial, &x->trial)) list = &(*list)->next;
    x->next = *list;
    *list = x;
    return SPARTA_OK;
}
