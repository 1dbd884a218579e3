/* Sparsifiers: one table of rows, those of sparsifiers.def and those that users added to the context, and how the arguments of a
 * call are checked against its row:
 *
 *     magnitude(4x1, sparsity=0.90)   ->   pattern=4x1, sparsity=0.9      each in its place, with its name, in its shortest text
 */
#include "schedule/inside.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OWN 256 /* the most that users may add */

static const sp_sparsifier_row built_in[] = {
#define SP_SPARSIFIER(id, usage, ...) {#id, usage, __VA_ARGS__, SP_SPARSIFIER_##id, NULL},
#include "schedule/sparsifiers.def"
#undef SP_SPARSIFIER
};

typedef struct registry { /* of a context: SP_SLOT_SPARSIFIERS */
    sp_arena *arena;
    int n;
    const sp_sparsifier_row *row[OWN];
} registry;

/* ------------------------------------------------------------------ the table */

static void forget(sparta_ctx *cx, void *thing)
{
    sp_arena_free(((registry *)thing)->arena);
    sp_free(cx, thing);
}

static registry *registered(sparta_ctx *cx)
{
    return sp_ctx_slot(cx, SP_SLOT_SPARSIFIERS);
}

sp_arena *sp_schedule_sparsifier_arena(sparta_ctx *cx)
{
    registry *own = sp_ctx_make_slot(cx, SP_SLOT_SPARSIFIERS, sizeof *own, forget);
    if (own && !own->arena) own->arena = sp_arena_create(cx);
    return own ? own->arena : NULL;
}

/* Row i of both lists, built-in ones first; NULL: past the last. */
static const sp_sparsifier_row *row_at(sparta_ctx *cx, int i)
{
    const registry *own = registered(cx);
    if (i < SP_SPARSIFIERS) return &built_in[i];
    i -= SP_SPARSIFIERS;
    return own && i < own->n ? own->row[i] : NULL;
}

const sp_sparsifier_row *sp_schedule_find_sparsifier(sparta_ctx *cx, const char *name)
{
    const sp_sparsifier_row *row;
    for (int i = 0; (row = row_at(cx, i)); i++)
        if (!strcmp(row->name, name)) return row;
    return NULL;
}

sparta_status sp_schedule_add_sparsifier(sparta_ctx *cx, const sp_sparsifier_row *row)
{
    sp_arena *arena = sp_schedule_sparsifier_arena(cx);
    SP_NEED(cx, arena);
    registry *own = registered(cx);
    if (!sp_schedule_is_name(row->name))
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "sparsifier '%.60s': a name begins with a letter and has letters, digits, '_', '.', '-'",
            row->name);
    if (sp_schedule_find_sparsifier(cx, row->name))
        return sp_fail(cx, SPARTA_E_USAGE, "sparsifier '%.60s': the name is taken; choose another",
                       row->name);
    if (own->n == OWN)
        return sp_fail(cx, SPARTA_E_LIMIT, "sparsifier '%.60s': a context has at most %d", row->name, OWN);
    sp_sparsifier_row *kept = sp_arena_alloc(arena, sizeof *kept);
    SP_NEED(cx, kept);
    *kept = *row;
    own->row[own->n++] = kept;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ arguments */

/* A number in its shortest text, so that 0.90 and 0.9 are the same, and a sign behind it. */
static sparta_status shortest(sparta_schedule *s, sp_schedule_arg *a, double v, const char *sign)
{
    double back;
    char text[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v == 0 ? 0 : v);
        if (sp_parse_double(text, &back) && back == v) break;
    }
    a->text = sp_arena_printf(s->arena, "%s%s", text, sign);
    SP_NEED(s->cx, a->text);
    return SPARTA_OK;
}

static sparta_status number(sparta_schedule *s, sp_schedule_arg *a, double most, const char *what)
{
    double v;
    if (a->quoted || !sp_parse_double(a->text, &v) || !(v >= 0 && v <= most))
        return sp_schedule_fail(s->cx, a->at, "%s=%.60s: expected %s", a->name, a->text, what);
    return shortest(s, a, v, "");
}

/* "12.5%" as a share; false: it is none above 0. */
static bool percent(const char *text, double *out)
{
    char digits[32];
    const size_t n = strlen(text);
    if (n < 2 || n > sizeof digits || text[n - 1] != '%') return false;
    memcpy(digits, text, n - 1);
    digits[n - 1] = 0;
    return sp_parse_double(digits, out) && *out > 0 && *out <= 100;
}

static sparta_status part(sparta_schedule *s, sp_schedule_arg *a)
{
    double v;
    int64_t count;
    if (!a->quoted && percent(a->text, &v)) return shortest(s, a, v, "%");
    if (!a->quoted && sp_parse_int(a->text, &count) && count >= 1) {
        a->text = sp_arena_printf(s->arena, "%lld", (long long)count); /* 08 is 8 */
        SP_NEED(s->cx, a->text);
        return SPARTA_OK;
    }
    return sp_schedule_fail(
        s->cx, a->at, "%s=%.60s: expected how many elements of a line, at least 1, or a share such as 25%%",
        a->name, a->text);
}

int64_t sp_schedule_part(const sp_schedule_arg *a, int64_t features)
{
    double share;
    int64_t count;
    if (percent(a->text, &share)) { /* 7 % of 100 are 7, whatever rounding makes of 0.07 */
        share *= (double)features / 100;
        count = (int64_t)ceil(share - share * 1e-12);
    } else if (!sp_parse_int(a->text, &count))
        count = features;
    return SP_MAX(1, SP_MIN(count, features));
}

static sparta_status count_of(sparta_schedule *s, sp_schedule_arg *a)
{
    int64_t count;
    if (a->quoted || !sp_parse_int(a->text, &count) || count < 0)
        return sp_schedule_fail(s->cx, a->at, "%s=%.60s: expected a whole number of at least 0", a->name,
                                a->text);
    a->text = sp_arena_printf(s->arena, "%lld", (long long)count);
    SP_NEED(s->cx, a->text);
    return SPARTA_OK;
}

static sparta_status check_kind(sparta_schedule *s, const sp_sparsifier_row *f, const sp_parameter *p,
                                sp_schedule_arg *a)
{
    switch (p->kind) {
    case SP_PARAMETER_SHARE: return number(s, a, 1, "a number between 0 and 1");
    case SP_PARAMETER_AMOUNT: return number(s, a, HUGE_VAL, "a number of at least 0");
    case SP_PARAMETER_PART: return part(s, a);
    case SP_PARAMETER_COUNT: return count_of(s, a);
    case SP_PARAMETER_STRING:
        if (a->quoted && *a->text) return SPARTA_OK;
        return sp_schedule_fail(s->cx, a->at, "%s: expected a string in quotes, e.g. %s", p->name, f->usage);
    case SP_PARAMETER_WORD:
        if (!a->quoted) return SPARTA_OK;
        return sp_schedule_fail(s->cx, a->at, "%s: expected a word without quotes, e.g. %s", p->name,
                                f->usage);
    case SP_PARAMETER_ANY: break;
    }
    return SPARTA_OK;
}

static sparta_status unknown(sparta_schedule *s, const sp_schedule_call *call)
{
    const char *names[SP_SPARSIFIERS + OWN + SP_SCHEDULE_NAMES];
    const sp_sparsifier_row *row;
    char listed[200] = "", hint[SP_HINT];
    size_t used = 0;
    int n = 0;
    for (; (row = row_at(s->cx, n)); n++) {
        names[n] = row->name;
        if (used < sizeof listed - 70)
            used +=
                (size_t)snprintf(listed + used, sizeof listed - used, "%s%.60s", n ? ", " : "", row->name);
    }
    for (int i = 0; i < s->n_sparsifiers; i++) names[n++] = s->sparsifier[i].name;
    return sp_schedule_fail(s->cx, call->at,
                            "expected a sparsifier (%s or one defined above), found '%.60s'%s", listed,
                            call->name, sp_did_you_mean(call->name, names, n, "", hint));
}

/* Which parameter an argument is: by its name, or the next one. */
static sparta_status place(sparta_schedule *s, const sp_sparsifier_row *f, const sp_schedule_arg *a, int i,
                           int *out)
{
    const char *names[SP_SCHEDULE_ARGS];
    char hint[SP_HINT];
    int n = 0, at = a->name ? -1 : i;
    for (; f->parameter[n].name; n++) {
        names[n] = f->parameter[n].name;
        if (a->name && !strcmp(a->name, names[n])) at = n;
    }
    if (at >= n)
        return sp_schedule_fail(s->cx, a->at, "%s takes no argument '%.60s'; write %s", f->name, a->text,
                                f->usage);
    if (at < 0)
        return sp_schedule_fail(s->cx, a->at, "%s has no argument '%.60s'%s; write %s", f->name, a->name,
                                sp_did_you_mean(a->name, names, n, "", hint), f->usage);
    *out = at;
    return SPARTA_OK;
}

sparta_status sp_schedule_check_sparsifier(sparta_schedule *s, sp_schedule_call *call)
{
    const sp_sparsifier_row *f = sp_schedule_find_sparsifier(s->cx, call->name);
    sp_schedule_arg sorted[SP_SCHEDULE_ARGS] = {{0}};
    int n = 0, at = 0;
    if (!f) return unknown(s, call);
    for (int i = 0; i < call->n; i++) {
        SP_TRY(place(s, f, &call->arg[i], i, &at));
        if (sorted[at].text)
            return sp_schedule_fail(s->cx, call->arg[i].at, "argument '%s' twice; remove one",
                                    f->parameter[at].name);
        sorted[at] = call->arg[i];
        sorted[at].name = f->parameter[at].name;
        SP_TRY(check_kind(s, f, &f->parameter[at], &sorted[at]));
    }
    for (int i = 0; f->parameter[i].name; i++)
        if (!sorted[i].text && !f->parameter[i].optional)
            return sp_schedule_fail(s->cx, call->at, "%s needs '%s'; write %s", f->name, f->parameter[i].name,
                                    f->usage);
    for (int i = 0; i < SP_SCHEDULE_ARGS; i++)
        if (sorted[i].text) call->arg[n++] = sorted[i];
    call->row = f;
    return SPARTA_OK;
}

const sp_schedule_arg *sp_schedule_arg_of(const sp_schedule_call *call, const char *name)
{
    for (int i = 0; i < call->n; i++)
        if (call->arg[i].name && !strcmp(call->arg[i].name, name)) return &call->arg[i];
    return NULL;
}
