/* Trials in memory: each key has a list, the fastest trial first. Everything lives in one arena. */
#include "tune/records.h"
#include <string.h>

typedef struct record record;
struct record {
    sp_trial trial;
    record *next;
};

struct sp_records {
    sparta_ctx *cx;
    sp_arena *arena;
    sp_map *lists; /* key: address of the record* that begins its list */
};

sp_records *sp_records_create(sparta_ctx *cx)
{
    sp_records *r = sp_zalloc(cx, sizeof *r);
    if (!r) return NULL;
    r->cx = cx;
    r->arena = sp_arena_create(cx);
    r->lists = r->arena ? sp_map_create(cx) : NULL;
    if (r->lists) return r;
    sp_records_free(r);
    return NULL;
}

void sp_records_free(sp_records *r)
{
    if (!r) return;
    sp_map_free(r->lists);
    if (r->arena) sp_arena_free(r->arena);
    sp_free(r->cx, r);
}

static record **list_of(const sp_records *r, const char *key)
{
    int64_t at;
    return sp_map_get(r->lists, key, &at) ? (record **)(intptr_t)at : NULL;
}

int sp_records_find(const sp_records *r, const char *key, sp_trial *out, int most)
{
    record **list = list_of(r, key);
    int n = 0;
    for (const record *x = list ? *list : NULL; x; x = x->next, n++)
        if (n < most) out[n] = x->trial;
    return n;
}

static sparta_status new_list(sp_records *r, const char *key, record ***out)
{
    record **list = sp_arena_array(r->arena, 1, sizeof *list);
    const char *kept = sp_arena_string(r->arena, key);
    SP_NEED(r->cx, list);
    SP_NEED(r->cx, kept);
    SP_TRY(sp_map_put(r->lists, kept, (int64_t)(intptr_t)list));
    *out = list;
    return SPARTA_OK;
}

/* The order of the database: the right ones, by time, then by name. */
static bool before(const sp_trial *a, const sp_trial *b)
{
    if (a->verdict != b->verdict) return a->verdict < b->verdict;
    if (a->disturbed != b->disturbed) return b->disturbed;
    if (a->us != b->us) return a->us < b->us;
    const int names = strcmp(a->implement, b->implement);
    return names ? names < 0 : strcmp(a->point, b->point) < 0;
}

/* Takes the record of the same implement and point out of the list; NULL: there is none. */
static record *take(record **list, const sp_trial *t)
{
    for (; *list; list = &(*list)->next) {
        record *x = *list;
        if (strcmp(x->trial.implement, t->implement) || strcmp(x->trial.point, t->point)) continue;
        *list = x->next;
        return x;
    }
    return NULL;
}

/* As the database says it (db.c). */
static bool better(const sp_trial *t, const sp_trial *old, int64_t at)
{
    if (strcmp(t->code, old->code)) return true;
    if (t->verdict != SP_VERDICT_OK) return false;
    if (old->verdict != SP_VERDICT_OK || (!t->disturbed && old->disturbed)) return true;
    return t->disturbed == old->disturbed &&
           (t->us < old->us || t->anew || at - old->at > SP_TUNE_MS || old->at > at + 86400000);
}

sparta_status sp_records_add(sp_records *r, const char *key, const sp_trial *t)
{
    const int64_t at = t->at ? t->at : sp_tune_now();
    const int times = SP_MAX(t->measured, 1);
    record **list = list_of(r, key);
    if (!list) SP_TRY(new_list(r, key, &list));
    record *x = take(list, t);
    if (!x) {
        x = sp_arena_array(r->arena, 1, sizeof *x);
        SP_NEED(r->cx, x);
        x->trial = *t;
        x->trial.at = at;
        x->trial.measured = 0;
    }
    const int measured = strcmp(t->code, x->trial.code) || (!t->disturbed && x->trial.disturbed)
                             ? times
                             : x->trial.measured + (t->disturbed == x->trial.disturbed ? times : 0);
    if (better(t, &x->trial, at)) {
        x->trial = *t;
        x->trial.at = at;
    }
    x->trial.measured = measured;
    while (*list && before(&(*list)->trial, &x->trial)) list = &(*list)->next;
    x->next = *list;
    *list = x;
    return SPARTA_OK;
}
