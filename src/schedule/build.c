/* The object: made call by call, and by the parser with the same functions. */
#include "schedule/inside.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

sparta_status sparta_schedule_make(sparta_ctx *cx, const char *folder, sparta_schedule **out)
{
    sparta_arena *arena = sparta_arena_create(cx);
    SPARTA_NEED(cx, arena);
    sparta_schedule *s = sparta_arena_alloc(arena, sizeof *s);
    const char *kept = sparta_arena_string(arena, folder ? folder : ".");
    if (!s || !kept) {
        sparta_arena_free(arena);
        return sparta_ctx_status(cx);
    }
    s->cx = cx;
    s->arena = arena;
    s->folder = kept;
    *out = s;
    return SPARTA_OK;
}

sparta_status sparta_schedule_create(sparta_ctx *cx, sparta_schedule **out)
{
    return sparta_schedule_make(cx, NULL, out);
}

void sparta_schedule_free(sparta_schedule *s)
{
    if (s) sparta_arena_free(s->arena);
}

sparta_status sparta_schedule_grow(sparta_schedule *s, void **list, int n, int *capacity, size_t size)
{
    if (n < *capacity) return SPARTA_OK;
    const int more = SPARTA_MAX(8, 2 * n);
    void *grown = sparta_arena_array(s->arena, (size_t)more, size);
    SPARTA_NEED(s->cx, grown);
    if (n) memcpy(grown, *list, (size_t)n * size);
    *list = grown;
    *capacity = more;
    return SPARTA_OK;
}

const sparta_schedule_name *sparta_schedule_find(const sparta_schedule_name *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

/* ------------------------------------------------------------------ model */

sparta_status sparta_schedule_add_target(sparta_schedule *s, const char *target, sparta_schedule_at at)
{
    if (s->target && strcmp(s->target, target) != 0)
        return sparta_schedule_fail(s->cx, at, "target %.60s, but %.60s at %.100s:%d:%d; remove one", target,
                                    s->target, s->target_at.file, s->target_at.line, s->target_at.column);
    s->target = target;
    s->target_at = at;
    return SPARTA_OK;
}

/* N or MIN:OPT:MAX, each at least 1, in order. */
static bool are_sizes(const char *text)
{
    int64_t v[3] = {0};
    int n = 0;
    for (const char *p = text; n < 3; p++) {
        char word[20];
        const size_t length = strcspn(p, ":");
        if (length >= sizeof word) return false;
        memcpy(word, p, length);
        word[length] = 0;
        if (!sparta_parse_int(word, &v[n]) || v[n] < 1 || (n && v[n] < v[n - 1])) return false;
        n++;
        p += length;
        if (!*p) return n != 2;
    }
    return false;
}

sparta_status sparta_schedule_add_dim(sparta_schedule *s, const char *name, const char *sizes,
                                      sparta_schedule_at at)
{
    const sparta_schedule_name *old = sparta_schedule_find(s->dim, s->n_dims, name);
    if (!are_sizes(sizes))
        return sparta_schedule_fail(
            s->cx, at, "dim %.60s=%.60s: expected a size N or MIN:OPT:MAX, each at least 1", name, sizes);
    if (old && !strcmp(old->text, sizes)) return SPARTA_OK;
    if (old)
        return sparta_schedule_fail(s->cx, at, "dim %.60s=%.60s, but %.60s at %.100s:%d:%d; remove one", name,
                                    sizes, old->text, old->at.file, old->at.line, old->at.column);
    if (s->n_dims == SPARTA_SCHEDULE_NAMES)
        return sparta_schedule_fail(s->cx, at, "more than %d dims", SPARTA_SCHEDULE_NAMES);
    SPARTA_TRY(sparta_schedule_grow(s, (void **)&s->dim, s->n_dims, &s->dim_capacity, sizeof *s->dim));
    s->dim[s->n_dims++] = (sparta_schedule_name){.name = name, .text = sizes, .at = at};
    return SPARTA_OK;
}

sparta_status sparta_schedule_add_rule(sparta_schedule *s, const char *glob, sparta_schedule_at at,
                                       sparta_schedule_rule **out)
{
    if (s->n_rules == SPARTA_SCHEDULE_RULES)
        return sparta_schedule_fail(s->cx, at, "more than %d tensors", SPARTA_SCHEDULE_RULES);
    SPARTA_TRY(sparta_schedule_grow(s, (void **)&s->rule, s->n_rules, &s->rule_capacity, sizeof *s->rule));
    sparta_schedule_rule *rule = sparta_arena_alloc(s->arena, sizeof *rule);
    SPARTA_NEED(s->cx, rule);
    rule->schedule = s;
    rule->glob = glob;
    rule->at = at;
    s->rule[s->n_rules++] = rule;
    *out = rule;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ sparsifiers and their arguments */

typedef enum { NONE, WORD, SHARE, AMOUNT, STRING } parameter_kind;
typedef struct parameter {
    const char *name;
    parameter_kind kind;
    bool optional;
} parameter;
#define PARAMETERS 3
static const struct sparsifier {
    const char *name, *usage;
    parameter parameter[PARAMETERS];
} sparsifiers[] = {
#define SPARTA_SPARSIFIER(name, usage, ...) {name, usage, __VA_ARGS__},
#include "schedule/sparsifiers.def"
#undef SPARTA_SPARSIFIER
};

bool sparta_schedule_is_sparsifier(const char *name)
{
    for (size_t i = 0; i < SPARTA_COUNT(sparsifiers); i++)
        if (!strcmp(sparsifiers[i].name, name)) return true;
    return false;
}

/* A number in its shortest text, so that 0.90 and 0.9 are the same. */
static sparta_status number(sparta_schedule *s, sparta_schedule_arg *a, double most, const char *what)
{
    double v, back;
    char text[32];
    if (a->quoted || !sparta_parse_double(a->text, &v) || !(v >= 0 && v <= most))
        return sparta_schedule_fail(s->cx, a->at, "%s=%.60s: expected %s", a->name, a->text, what);
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v == 0 ? 0 : v);
        if (sparta_parse_double(text, &back) && back == v) break;
    }
    a->text = sparta_arena_string(s->arena, text);
    SPARTA_NEED(s->cx, a->text);
    return SPARTA_OK;
}

static sparta_status check_kind(sparta_schedule *s, const struct sparsifier *f, const parameter *p,
                                sparta_schedule_arg *a)
{
    switch (p->kind) {
    case SHARE: return number(s, a, 1, "a number between 0 and 1");
    case AMOUNT: return number(s, a, HUGE_VAL, "a number of at least 0");
    case STRING:
        if (a->quoted && *a->text) return SPARTA_OK;
        return sparta_schedule_fail(s->cx, a->at, "%s: expected a string in quotes, e.g. %s", p->name,
                                    f->usage);
    default:
        if (!a->quoted) return SPARTA_OK;
        return sparta_schedule_fail(s->cx, a->at, "%s: expected a word without quotes, e.g. %s", p->name,
                                    f->usage);
    }
}

static sparta_status unknown_sparsifier(sparta_schedule *s, const sparta_schedule_call *call)
{
    const char *names[SPARTA_COUNT(sparsifiers) + SPARTA_SCHEDULE_NAMES];
    int n = 0;
    for (size_t i = 0; i < SPARTA_COUNT(sparsifiers); i++) names[n++] = sparsifiers[i].name;
    for (int i = 0; i < s->n_sparsifiers; i++) names[n++] = s->sparsifier[i].name;
    const char *near = sparta_nearest(call->name, names, n);
    return sparta_schedule_fail(
        s->cx, call->at,
        "expected a sparsifier (magnitude, threshold, mask or one defined above), found '%.60s'%s%s%s",
        call->name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Which parameter an argument is: by its name, or the next one. */
static sparta_status place(sparta_schedule *s, const struct sparsifier *f, const sparta_schedule_arg *a,
                           int i, int *out)
{
    const char *names[PARAMETERS];
    int n = 0;
    while (n < PARAMETERS && f->parameter[n].name) names[n] = f->parameter[n].name, n++;
    if (!a->name && i >= n)
        return sparta_schedule_fail(s->cx, a->at, "%s takes no argument '%.60s'; write %s", f->name, a->text,
                                    f->usage);
    for (int k = 0; k < n && a->name; k++)
        if (!strcmp(a->name, names[k])) i = k, n = 0;
    if (a->name && n) {
        const char *near = sparta_nearest(a->name, names, n);
        return sparta_schedule_fail(s->cx, a->at, "%s has no argument '%.60s'%s%s%s; write %s", f->name,
                                    a->name, near ? "; did you mean '" : "", near ? near : "",
                                    near ? "'?" : "", f->usage);
    }
    *out = i;
    return SPARTA_OK;
}

sparta_status sparta_schedule_check_sparsifier(sparta_schedule *s, sparta_schedule_call *call)
{
    const struct sparsifier *f = NULL;
    sparta_schedule_arg sorted[PARAMETERS] = {{0}};
    int n = 0, at = 0;
    for (size_t i = 0; i < SPARTA_COUNT(sparsifiers); i++)
        if (!strcmp(sparsifiers[i].name, call->name)) f = &sparsifiers[i];
    if (!f) return unknown_sparsifier(s, call);
    for (int i = 0; i < call->n; i++) {
        SPARTA_TRY(place(s, f, &call->arg[i], i, &at));
        if (sorted[at].text)
            return sparta_schedule_fail(s->cx, call->arg[i].at, "argument '%s' twice; remove one",
                                        f->parameter[at].name);
        sorted[at] = call->arg[i];
        sorted[at].name = f->parameter[at].name;
        SPARTA_TRY(check_kind(s, f, &f->parameter[at], &sorted[at]));
    }
    for (int i = 0; i < PARAMETERS && f->parameter[i].name; i++)
        if (!sorted[i].text && !f->parameter[i].optional)
            return sparta_schedule_fail(s->cx, call->at, "%s needs '%s'; write %s", f->name,
                                        f->parameter[i].name, f->usage);
    for (int i = 0; i < PARAMETERS; i++)
        if (sorted[i].text) call->arg[n++] = sorted[i];
    return SPARTA_OK;
}

const char *sparta_schedule_arg_of(const sparta_schedule_call *call, const char *name)
{
    for (int i = 0; i < call->n; i++)
        if (call->arg[i].name && !strcmp(call->arg[i].name, name)) return call->arg[i].text;
    return NULL;
}

sparta_status sparta_schedule_path(const sparta_schedule *s, sparta_arena *arena, const char *file,
                                   const char **out)
{
    for (const char *p = file; *p; p += strcspn(p, "/"), p += *p == '/')
        if (file[0] == '/' || (strcspn(p, "/") == 2 && !strncmp(p, "..", 2)))
            return sparta_fail(s->cx, SPARTA_E_USAGE,
                               "'%.200s' leaves the folder of the schedule; put the file beneath it", file);
    const char *path = sparta_arena_printf(arena, "%s/%s", s->folder, file);
    SPARTA_NEED(s->cx, path);
    *out = path;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ call by call */

static sparta_status check_name(sparta_schedule *s, const char *what, const char *name)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-";
    if (!*name || strspn(name, letters) != strlen(name) || strchr("0123456789.-", *name) ||
        strlen(name) > SPARTA_SCHEDULE_WORD)
        return sparta_fail(s->cx, SPARTA_E_USAGE,
                           "%s '%.60s': a name begins with a letter and has letters, digits, '_', '.', '-'",
                           what, name);
    return SPARTA_OK;
}

static sparta_schedule_at call_at(const char *what)
{
    return (sparta_schedule_at){what, 1, 1};
}

/* Nothing but blanks may follow what was read. */
static sparta_status at_end(reader *r)
{
    return r->now.kind == END ? SPARTA_OK : sparta_schedule_expected(r, "the end", NULL, 0);
}

sparta_status sparta_schedule_set_target(sparta_schedule *s, const char *target)
{
    SPARTA_TRY(check_name(s, "target", target));
    const char *kept = sparta_arena_string(s->arena, target);
    SPARTA_NEED(s->cx, kept);
    return sparta_schedule_add_target(s, kept, call_at("target"));
}

sparta_status sparta_schedule_set_dim(sparta_schedule *s, const char *name, const char *sizes)
{
    SPARTA_TRY(check_name(s, "dim", name));
    const char *kept = sparta_arena_string(s->arena, name), *text = sparta_arena_string(s->arena, sizes);
    SPARTA_NEED(s->cx, kept);
    SPARTA_NEED(s->cx, text);
    return sparta_schedule_add_dim(s, kept, text, call_at("dim"));
}

sparta_status sparta_schedule_define_format(sparta_schedule *s, const char *name, const char *text)
{
    SPARTA_TRY(check_name(s, "format", name));
    const char *kept = sparta_arena_string(s->arena, name);
    SPARTA_NEED(s->cx, kept);
    reader r = sparta_schedule_reader(s, text, "format");
    const int before = s->n_formats;
    sparta_status status = sparta_schedule_read_format(&r, kept, call_at("format"));
    if (status == SPARTA_OK) status = at_end(&r);
    if (status != SPARTA_OK) s->n_formats = before;
    return status;
}

sparta_status sparta_schedule_define_sparsifier(sparta_schedule *s, const char *name, const char *text)
{
    SPARTA_TRY(check_name(s, "sparsifier", name));
    const char *kept = sparta_arena_string(s->arena, name);
    SPARTA_NEED(s->cx, kept);
    reader r = sparta_schedule_reader(s, text, "sparsifier");
    const int before = s->n_sparsifiers;
    sparta_status status = sparta_schedule_read_sparsifier(&r, kept, call_at("sparsifier"));
    if (status == SPARTA_OK) status = at_end(&r);
    if (status != SPARTA_OK) s->n_sparsifiers = before;
    return status;
}

sparta_status sparta_schedule_tensor(sparta_schedule *s, const char *glob, sparta_schedule_rule **out)
{
    for (const char *p = glob; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return sparta_fail(s->cx, SPARTA_E_USAGE, "tensor: a control byte in the name; remove it");
    if (!*glob || strlen(glob) > SPARTA_SCHEDULE_WORD / 2)
        return sparta_fail(s->cx, SPARTA_E_USAGE, "tensor: a name has 1 to %d bytes",
                           SPARTA_SCHEDULE_WORD / 2);
    const char *kept = sparta_arena_string(s->arena, glob);
    SPARTA_NEED(s->cx, kept);
    return sparta_schedule_add_rule(s, kept, call_at("tensor"), out);
}

sparta_status sparta_schedule_set(sparta_schedule_rule *rule, sparta_clause_kind kind, const char *text)
{
    reader r = sparta_schedule_reader(rule->schedule, text, sparta_clause_word(kind));
    const sparta_schedule_clause before = rule->clause[kind];
    sparta_status status = sparta_schedule_read_clause(&r, rule, kind, r.at);
    if (status == SPARTA_OK) status = at_end(&r);
    if (status != SPARTA_OK) rule->clause[kind] = before;
    return status;
}
