/* The object: made call by call, and by the parser with the same functions. */
#include "schedule/inside.h"
#include <stdio.h>
#include <string.h>

sparta_status sparta_schedule_create(sparta_ctx *cx, const char *folder, sparta_schedule **out)
{
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_schedule *s = sp_arena_alloc(arena, sizeof *s);
    const char *kept = sp_arena_string(arena, folder ? folder : ".");
    if (!s || !kept) {
        sp_arena_free(arena);
        return sp_ctx_status(cx);
    }
    s->cx = cx;
    s->arena = arena;
    s->folder = kept;
    sp_text_init(&s->printed, cx);
    *out = s;
    return SPARTA_OK;
}

void sparta_schedule_free(sparta_schedule *s)
{
    if (!s) return;
    sp_text_free(&s->printed);
    sp_arena_free(s->arena);
}

sparta_status sp_schedule_grow(sparta_schedule *s, void **list, int n, int *capacity, size_t size)
{
    if (n < *capacity) return SPARTA_OK;
    const int more = SP_MAX(8, 2 * n);
    void *grown = sp_arena_array(s->arena, (size_t)more, size);
    SP_NEED(s->cx, grown);
    if (n) memcpy(grown, *list, (size_t)n * size);
    *list = grown;
    *capacity = more;
    return SPARTA_OK;
}

const sp_schedule_name *sp_schedule_find(const sp_schedule_name *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

/* ------------------------------------------------------------------ model */

sparta_status sp_schedule_add_target(sparta_schedule *s, const char *target, sp_schedule_at at)
{
    if (s->target && strcmp(s->target, target) != 0)
        return sp_schedule_fail(s->cx, at, "target %.60s, but %.60s at %.100s:%d:%d; remove one", target,
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
        if (!sp_parse_int(word, &v[n]) || v[n] < 1 || (n && v[n] < v[n - 1])) return false;
        n++;
        p += length;
        if (!*p) return n != 2;
    }
    return false;
}

sparta_status sp_schedule_add_dim(sparta_schedule *s, const char *name, const char *sizes, sp_schedule_at at)
{
    const sp_schedule_name *old = sp_schedule_find(s->dim, s->n_dims, name);
    if (!are_sizes(sizes))
        return sp_schedule_fail(
            s->cx, at, "dim %.60s=%.60s: expected a size N or MIN:OPT:MAX, each at least 1", name, sizes);
    if (old && !strcmp(old->text, sizes)) return SPARTA_OK;
    if (old)
        return sp_schedule_fail(s->cx, at, "dim %.60s=%.60s, but %.60s at %.100s:%d:%d; remove one", name,
                                sizes, old->text, old->at.file, old->at.line, old->at.column);
    if (s->n_dims == SP_SCHEDULE_NAMES)
        return sp_schedule_fail(s->cx, at, "more than %d dims", SP_SCHEDULE_NAMES);
    SP_TRY(sp_schedule_grow(s, (void **)&s->dim, s->n_dims, &s->dim_capacity, sizeof *s->dim));
    s->dim[s->n_dims++] = (sp_schedule_name){.name = name, .text = sizes, .at = at};
    return SPARTA_OK;
}

sparta_status sp_schedule_add_rule(sparta_schedule *s, const char *glob, sp_schedule_at at,
                                   sparta_schedule_rule **out)
{
    if (s->n_rules == SP_SCHEDULE_RULES)
        return sp_schedule_fail(s->cx, at, "more than %d tensors", SP_SCHEDULE_RULES);
    SP_TRY(sp_schedule_grow(s, (void **)&s->rule, s->n_rules, &s->rule_capacity, sizeof *s->rule));
    sparta_schedule_rule *rule = sp_arena_alloc(s->arena, sizeof *rule);
    SP_NEED(s->cx, rule);
    rule->schedule = s;
    rule->glob = glob;
    rule->at = at;
    s->rule[s->n_rules++] = rule;
    *out = rule;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ use */

sparta_status sp_schedule_path(const sparta_schedule *s, sp_arena *arena, const char *file, const char **out)
{
    for (const char *p = file; *p; p += strcspn(p, "/"), p += *p == '/')
        if (file[0] == '/' || (strcspn(p, "/") == 2 && !strncmp(p, "..", 2)))
            return sp_fail(s->cx, SPARTA_E_USAGE,
                           "'%.200s' leaves the folder of the schedule; put the file beneath it", file);
    const char *path = sp_arena_printf(arena, "%s/%s", s->folder, file);
    SP_NEED(s->cx, path);
    *out = path;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ call by call: sparta.h
 * A place is the call itself: `format of "a.*":1:5` is column 5 of the text that set_format got. */

bool sp_schedule_is_name(const char *name)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-";
    return *name && strspn(name, letters) == strlen(name) && !strchr("0123456789.-", *name) &&
           strlen(name) <= SP_SCHEDULE_WORD;
}

static sparta_status absent(sparta_ctx *cx, const char *what)
{
    return sp_fail(cx, SPARTA_E_USAGE, "%s: the text is NULL; give one", what);
}

static sparta_status check_name(sparta_schedule *s, const char *what, const char *name)
{
    if (!name) return absent(s->cx, what);
    if (!sp_schedule_is_name(name))
        return sp_fail(s->cx, SPARTA_E_USAGE,
                       "%s '%.60s': a name begins with a letter and has letters, digits, '_', '.', '-'", what,
                       name);
    return SPARTA_OK;
}

/* The place of a call about a name: "format mine:1:1". */
static sparta_status call_at(sparta_schedule *s, const char *what, const char *name, sp_schedule_at *out)
{
    const char *file = sp_arena_printf(s->arena, "%s %.60s", what, name);
    SP_NEED(s->cx, file);
    *out = (sp_schedule_at){file, 1, 1};
    return SPARTA_OK;
}

/* Nothing but blanks may follow what was read. */
static sparta_status at_end(reader *r)
{
    return r->now.kind == END ? SPARTA_OK : sp_schedule_expected(r, "the end", NULL, 0);
}

sparta_status sparta_schedule_set_target(sparta_schedule *s, const char *target)
{
    sp_schedule_at at;
    SP_TRY(check_name(s, "target", target));
    SP_TRY(call_at(s, "target", target, &at));
    const char *kept = sp_arena_string(s->arena, target);
    SP_NEED(s->cx, kept);
    return sp_schedule_add_target(s, kept, at);
}

sparta_status sparta_schedule_set_dim(sparta_schedule *s, const char *name, const char *sizes)
{
    sp_schedule_at at;
    SP_TRY(check_name(s, "dim", name));
    if (!sizes) return absent(s->cx, "dim");
    SP_TRY(call_at(s, "dim", name, &at));
    const char *kept = sp_arena_string(s->arena, name), *text = sp_arena_string(s->arena, sizes);
    SP_NEED(s->cx, kept);
    SP_NEED(s->cx, text);
    return sp_schedule_add_dim(s, kept, text, at);
}

/* format NAME = TEXT, sparsifier NAME = TEXT */
static sparta_status define(sparta_schedule *s, const char *what, const char *name, const char *text, int *n,
                            sparta_status (*read)(reader *r, const char *name, sp_schedule_at at))
{
    const int before = *n;
    sp_schedule_at at;
    SP_TRY(check_name(s, what, name));
    if (!text) return absent(s->cx, what);
    SP_TRY(call_at(s, what, name, &at));
    const char *kept = sp_arena_string(s->arena, name);
    SP_NEED(s->cx, kept);
    reader r = sp_schedule_reader(s, text, at.file);
    sparta_status status = read(&r, kept, at);
    if (status == SPARTA_OK) status = at_end(&r);
    if (status != SPARTA_OK) *n = before;
    return status;
}

sparta_status sparta_schedule_define_format(sparta_schedule *s, const char *name, const char *text)
{
    return define(s, "format", name, text, &s->n_formats, sp_schedule_read_format);
}

sparta_status sparta_schedule_define_sparsifier(sparta_schedule *s, const char *name, const char *text)
{
    return define(s, "sparsifier", name, text, &s->n_sparsifiers, sp_schedule_read_sparsifier);
}

sparta_status sparta_schedule_tensor(sparta_schedule *s, const char *glob, sparta_schedule_rule **out)
{
    sp_schedule_at at;
    if (!glob) return absent(s->cx, "tensor");
    for (const char *p = glob; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return sp_fail(s->cx, SPARTA_E_USAGE, "tensor: a control byte in the name; remove it");
    if (!*glob || strlen(glob) > SP_SCHEDULE_WORD / 2)
        return sp_fail(s->cx, SPARTA_E_USAGE, "tensor: a name has 1 to %d bytes", SP_SCHEDULE_WORD / 2);
    SP_TRY(call_at(s, "tensor", glob, &at));
    const char *kept = sp_arena_string(s->arena, glob);
    SP_NEED(s->cx, kept);
    return sp_schedule_add_rule(s, kept, at, out);
}

/* A clause of a rule. */
static sparta_status set(sparta_schedule_rule *rule, sp_clause_kind kind, const char *text)
{
    sparta_schedule *s = rule->schedule;
    const sp_schedule_clause before = rule->clause[kind];
    if (!text) return absent(s->cx, sp_clause_word(kind));
    const char *file = sp_arena_printf(s->arena, "%s of \"%.60s\"", sp_clause_word(kind), rule->glob);
    SP_NEED(s->cx, file);
    const sp_schedule_at at = {file, 1, 1};
    reader r = sp_schedule_reader(s, text, at.file);
    sparta_status status = sp_schedule_read_clause(&r, rule, kind, at);
    if (status == SPARTA_OK) status = at_end(&r);
    if (status != SPARTA_OK) rule->clause[kind] = before;
    return status;
}

sparta_status sparta_schedule_sparsify(sparta_schedule_rule *rule, const char *text)
{
    return set(rule, SP_CLAUSE_SPARSIFY, text);
}

sparta_status sparta_schedule_set_format(sparta_schedule_rule *rule, const char *text)
{
    return set(rule, SP_CLAUSE_FORMAT, text);
}

sparta_status sparta_schedule_set_implement(sparta_schedule_rule *rule, const char *text)
{
    return set(rule, SP_CLAUSE_IMPLEMENT, text);
}

sparta_status sparta_schedule_quantize(sparta_schedule_rule *rule, const char *text)
{
    return set(rule, SP_CLAUSE_QUANTIZE, text);
}

sparta_status sparta_schedule_kernel(sparta_schedule_rule *rule, const char *text)
{
    return set(rule, SP_CLAUSE_KERNEL, text);
}
