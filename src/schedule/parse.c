/* The grammar, one function a rule (docs/schedules.md has it whole):
 *
 *     schedule := { include | format | sparsifier | model | tensor }
 *     include  := 'include' string
 *     format   := 'format' name '=' text of a format
 *     sparsifier := 'sparsifier' name '=' call
 *     model    := 'model' '{' { 'target' name | 'dim' name '=' sizes } '}'
 *     tensor   := 'tensor' string '{' { clause } '}'
 *     clause   := 'sparsify' call | 'format' text | 'implement' call | 'quantize' call | 'kernel' '{' { call } '}'
 *     call     := name [ '(' [ arg { ',' arg } ] ')' ]        arg := [ name '=' ] ( word | string )
 */
#include "file/file.h"
#include "format/format.h"
#include "schedule/inside.h"
#include <ctype.h>
#include <string.h>

static const char *const items[] = {"include", "format", "sparsifier", "model", "tensor"};
static const char *const clauses[] = {
#define SP_CLAUSE(id, word, example) word,
#include "schedule/clauses.def"
#undef SP_CLAUSE
};
static const char *const model_clauses[] = {"target", "dim"};

const char *sp_clause_word(sp_clause_kind kind)
{
    return clauses[kind];
}

/* ------------------------------------------------------------------ small pieces */

static bool is_word(const reader *r, const char *word)
{
    return r->now.kind == WORD_TOKEN && (size_t)r->now.length == strlen(word) &&
           !memcmp(r->now.text, word, strlen(word));
}
static bool is_symbol(const reader *r, char c)
{
    return r->now.kind == SYMBOL && r->now.symbol == c;
}

static sparta_status symbol(reader *r, char c, const char *what)
{
    if (!is_symbol(r, c)) return sp_schedule_expected(r, what, NULL, 0);
    return sp_schedule_next(r);
}

/* A name begins with a letter and has letters, digits, '_', '.', '-'. */
static bool is_name(const token *t)
{
    if (t->kind != WORD_TOKEN || (!isalpha((unsigned char)t->text[0]) && t->text[0] != '_')) return false;
    for (int i = 0; i < t->length; i++)
        if (!isalnum((unsigned char)t->text[i]) && !strchr("_.-", t->text[i])) return false;
    return true;
}

static sparta_status name(reader *r, const char *what, const char **out)
{
    if (!is_name(&r->now)) return sp_schedule_expected(r, what, NULL, 0);
    const char *copy = sp_schedule_copy(r, &r->now);
    SP_NEED(r->cx, copy);
    SP_TRY(sp_schedule_next(r));
    *out = copy;
    return SPARTA_OK;
}

static sparta_status string(reader *r, const char *what, const char **out)
{
    if (r->now.kind != STRING_TOKEN) return sp_schedule_expected(r, what, NULL, 0);
    const char *copy = sp_schedule_copy(r, &r->now);
    SP_NEED(r->cx, copy);
    if (!*copy) return sp_schedule_fail(r->cx, r->now.at, "this string is empty; it should be %s", what);
    SP_TRY(sp_schedule_next(r));
    *out = copy;
    return SPARTA_OK;
}

/* A clause ended: ';', a new line, the closing bracket or the end of the text. */
static sparta_status ended(reader *r, const char *what)
{
    if (!is_symbol(r, ';') && !is_symbol(r, '}') && !r->now.fresh_line && r->now.kind != END)
        return sp_schedule_expected(r, what, NULL, 0);
    while (is_symbol(r, ';')) SP_TRY(sp_schedule_next(r));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ calls */

static sparta_status argument(reader *r, sp_schedule_arg *out)
{
    *out = (sp_schedule_arg){.at = r->now.at};
    for (int i = 0; i < 2; i++) {
        if (r->now.kind != WORD_TOKEN && r->now.kind != STRING_TOKEN)
            return sp_schedule_expected(r, "an argument", NULL, 0);
        const bool named = is_name(&r->now) && !out->name;
        out->quoted = r->now.kind == STRING_TOKEN;
        out->text = sp_schedule_copy(r, &r->now);
        SP_NEED(r->cx, out->text);
        SP_TRY(sp_schedule_next(r));
        if (!named || !is_symbol(r, '=')) return SPARTA_OK;
        out->name = out->text;
        SP_TRY(sp_schedule_next(r));
    }
    return SPARTA_OK;
}

static sparta_status arguments(reader *r, sp_schedule_call *call)
{
    sp_schedule_arg list[SP_SCHEDULE_ARGS];
    SP_TRY(sp_schedule_next(r));
    while (!is_symbol(r, ')')) {
        if (call->n) SP_TRY(symbol(r, ',', "',' or ')'"));
        if (call->n == SP_SCHEDULE_ARGS)
            return sp_schedule_fail(r->cx, r->now.at, "'%.60s' has more than %d arguments", call->name,
                                    SP_SCHEDULE_ARGS);
        SP_TRY(argument(r, &list[call->n]));
        for (int i = 0; i < call->n; i++)
            if (list[i].name && list[call->n].name && !strcmp(list[i].name, list[call->n].name))
                return sp_schedule_fail(r->cx, list[call->n].at, "argument '%.60s' twice; remove one",
                                        list[i].name);
        call->n++;
    }
    call->arg = sp_arena_array(r->s->arena, (size_t)call->n + 1, sizeof *call->arg);
    SP_NEED(r->cx, call->arg);
    if (call->n) memcpy(call->arg, list, (size_t)call->n * sizeof *list);
    return sp_schedule_next(r);
}

static sparta_status read_call(reader *r, const char *what, sp_schedule_call *out)
{
    sp_schedule_call call = {.at = r->now.at};
    SP_TRY(name(r, what, &call.name));
    if (is_symbol(r, '(') && !r->now.fresh_line) SP_TRY(arguments(r, &call));
    *out = call;
    return SPARTA_OK;
}

static sparta_status text_of(sparta_schedule *s, const sp_schedule_call *call, int n, const char **out)
{
    sp_text t;
    sp_text_init(&t, s->cx);
    for (int i = 0; i < n; i++) {
        if (i) sp_text_printf(&t, "; ");
        sp_schedule_print_call(&call[i], &t);
    }
    *out = sp_text_keep(&t, s->arena);
    SP_NEED(s->cx, *out);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what stands behind a clause's word */

static sparta_status sparsify(reader *r, sp_schedule_clause *c)
{
    SP_TRY(sp_schedule_next(r));
    SP_TRY(read_call(r, "a sparsifier, e.g. magnitude(pattern=4x1, sparsity=0.9)", &c->call));
    const sp_schedule_name *known = sp_schedule_find(r->s->sparsifier, r->s->n_sparsifiers, c->call.name);
    if (known && c->call.n)
        return sp_schedule_fail(r->cx, c->call.at,
                                "'%.60s' is defined at %.100s:%d:%d and takes no arguments", known->name,
                                known->at.file, known->at.line, known->at.column);
    if (known) {
        c->call = known->call;
        c->text = known->name;
        c->means = known->text;
        return SPARTA_OK;
    }
    SP_TRY(sp_schedule_check_sparsifier(r->s, &c->call));
    SP_TRY(text_of(r->s, &c->call, 1, &c->text));
    c->means = c->text;
    return SPARTA_OK;
}

/* A call whose names are known to whoever obeys it. */
static sparta_status plain_call(reader *r, const char *what, sp_schedule_clause *c)
{
    SP_TRY(sp_schedule_next(r));
    SP_TRY(read_call(r, what, &c->call));
    SP_TRY(text_of(r->s, &c->call, 1, &c->text));
    c->means = c->text;
    return SPARTA_OK;
}

static sparta_status kernel(reader *r, sp_schedule_clause *c)
{
    sp_schedule_call list[SP_SCHEDULE_STEPS];
    const char *steps;
    SP_TRY(sp_schedule_next(r));
    SP_TRY(symbol(r, '{', "'{' and the primitives of the kernel"));
    while (!is_symbol(r, '}')) {
        if (c->n == SP_SCHEDULE_STEPS)
            return sp_schedule_fail(r->cx, r->now.at, "more than %d primitives", SP_SCHEDULE_STEPS);
        SP_TRY(read_call(r, "a primitive, e.g. vectorize(m1), or '}'", &list[c->n]));
        c->n++;
        if (r->now.kind == END) return sp_schedule_expected(r, "'}'", NULL, 0);
        SP_TRY(ended(r, "';', a new line or '}'"));
    }
    SP_TRY(sp_schedule_next(r));
    c->step = sp_arena_array(r->s->arena, (size_t)c->n + 1, sizeof *c->step);
    SP_NEED(r->cx, c->step);
    if (c->n) memcpy(c->step, list, (size_t)c->n * sizeof *list);
    SP_TRY(text_of(r->s, list, c->n, &steps));
    c->text = c->means = sp_arena_printf(r->s->arena, *steps ? "{ %s }" : "{ }", steps);
    SP_NEED(r->cx, c->text);
    return SPARTA_OK;
}

sparta_status sp_schedule_read_clause(reader *r, sparta_schedule_rule *rule, sp_clause_kind kind,
                                      sp_schedule_at at)
{
    sp_schedule_clause c = {.given = true, .at = at}, *old = &rule->clause[kind];
    if (old->given)
        return sp_schedule_fail(r->cx, at,
                                "tensor \"%.100s\" says '%s' twice, first at %.100s:%d:%d; remove one",
                                rule->glob, clauses[kind], old->at.file, old->at.line, old->at.column);
    switch (kind) {
    case SP_CLAUSE_SPARSIFY: SP_TRY(sparsify(r, &c)); break;
    case SP_CLAUSE_FORMAT: SP_TRY(sp_schedule_format_text(r, &c.text, &c.means)); break;
    case SP_CLAUSE_KERNEL: SP_TRY(kernel(r, &c)); break;
    case SP_CLAUSE_IMPLEMENT: SP_TRY(plain_call(r, "an implement, e.g. quads(RANGE=256)", &c)); break;
    default: SP_TRY(plain_call(r, "a precision, e.g. i8(per_channel)", &c));
    }
    SP_TRY(ended(r, "';', a new line or '}'"));
    *old = c;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ definitions */

static sparta_status taken(const sparta_schedule *s, const sp_schedule_name *list, int n, const char *what,
                           const char *word, sp_schedule_at at)
{
    const sp_schedule_name *old = sp_schedule_find(list, n, word);
    if (old)
        return sp_schedule_fail(s->cx, at, "%s '%.60s' is defined already at %.100s:%d:%d; rename one", what,
                                word, old->at.file, old->at.line, old->at.column);
    if (n == SP_SCHEDULE_NAMES)
        return sp_schedule_fail(s->cx, at, "more than %d definitions", SP_SCHEDULE_NAMES);
    return SPARTA_OK;
}

sparta_status sp_schedule_read_format(reader *r, const char *word, sp_schedule_at at)
{
    sparta_schedule *s = r->s;
    const char *text, *means;
    SP_TRY(taken(s, s->format, s->n_formats, "format", word, at));
    if (sp_format_is_name(r->cx, word) || !strcmp(word, "sum"))
        return sp_schedule_fail(r->cx, at, "format '%.60s' is one of sparta's own; choose another name",
                                word);
    SP_TRY(sp_schedule_format_text(r, &text, &means));
    SP_TRY(sp_schedule_grow(s, (void **)&s->format, s->n_formats, &s->format_capacity, sizeof *s->format));
    s->format[s->n_formats++] = (sp_schedule_name){.name = word, .text = means, .at = at};
    return ended(r, "a new line after the format");
}

sparta_status sp_schedule_read_sparsifier(reader *r, const char *word, sp_schedule_at at)
{
    sparta_schedule *s = r->s;
    sp_schedule_clause c = {0};
    SP_TRY(taken(s, s->sparsifier, s->n_sparsifiers, "sparsifier", word, at));
    if (sp_schedule_find_sparsifier(r->cx, word))
        return sp_schedule_fail(r->cx, at, "sparsifier '%.60s' is there already; choose another name", word);
    SP_TRY(sparsify(r, &c));
    SP_TRY(sp_schedule_grow(s, (void **)&s->sparsifier, s->n_sparsifiers, &s->sparsifier_capacity,
                            sizeof *s->sparsifier));
    s->sparsifier[s->n_sparsifiers++] =
        (sp_schedule_name){.name = word, .text = c.means, .call = c.call, .at = at};
    return ended(r, "a new line after the sparsifier");
}

/* 'format' name '=', and the same of a sparsifier. Behind the '=' a format is raw text, so that the next token is not read here. */
static sparta_status definition(reader *r, bool format)
{
    const sp_schedule_at at = r->now.at;
    const char *word;
    SP_TRY(sp_schedule_next(r));
    SP_TRY(name(r, "a name to define", &word));
    if (!is_symbol(r, '=')) return sp_schedule_expected(r, "'='", NULL, 0);
    return format ? sp_schedule_read_format(r, word, at) : sp_schedule_read_sparsifier(r, word, at);
}

/* ------------------------------------------------------------------ model and tensor */

static sparta_status dim(reader *r, sp_schedule_at at)
{
    const char *word, *sizes;
    SP_TRY(name(r, "the name of a dimension", &word));
    SP_TRY(symbol(r, '=', "'='"));
    if (r->now.kind != WORD_TOKEN) return sp_schedule_expected(r, "a size N or MIN:OPT:MAX", NULL, 0);
    sizes = sp_schedule_copy(r, &r->now);
    SP_NEED(r->cx, sizes);
    SP_TRY(sp_schedule_next(r));
    return sp_schedule_add_dim(r->s, word, sizes, at);
}

static sparta_status model_clause(reader *r)
{
    const sp_schedule_at at = r->now.at;
    const bool target = is_word(r, "target");
    const char *word;
    if (!target && !is_word(r, "dim"))
        return sp_schedule_expected(r, "target, dim or '}'", model_clauses, (int)SP_COUNT(model_clauses));
    SP_TRY(sp_schedule_next(r));
    if (!target) {
        SP_TRY(dim(r, at));
    } else {
        SP_TRY(name(r, "the name of a target", &word));
        SP_TRY(sp_schedule_add_target(r->s, word, at));
    }
    return ended(r, "';', a new line or '}'");
}

static sparta_status model(reader *r)
{
    SP_TRY(sp_schedule_next(r));
    SP_TRY(symbol(r, '{', "'{'"));
    while (is_symbol(r, ';')) SP_TRY(sp_schedule_next(r));
    while (!is_symbol(r, '}')) SP_TRY(model_clause(r));
    return sp_schedule_next(r);
}

static sparta_status tensor_clause(reader *r, sparta_schedule_rule *rule)
{
    for (int k = 0; k < SP_CLAUSES; k++)
        if (is_word(r, clauses[k])) return sp_schedule_read_clause(r, rule, (sp_clause_kind)k, r->now.at);
    return sp_schedule_expected(r, "sparsify, format, implement, quantize, kernel or '}'", clauses,
                                SP_CLAUSES);
}

static sparta_status tensor(reader *r)
{
    const sp_schedule_at at = r->now.at;
    const char *glob;
    sparta_schedule_rule *rule;
    SP_TRY(sp_schedule_next(r));
    SP_TRY(string(r, "the names of tensors in quotes, e.g. \"encoder.*.weight\"", &glob));
    SP_TRY(sp_schedule_add_rule(r->s, glob, at, &rule));
    SP_TRY(symbol(r, '{', "'{'"));
    while (is_symbol(r, ';')) SP_TRY(sp_schedule_next(r));
    while (!is_symbol(r, '}')) SP_TRY(tensor_clause(r, rule));
    return sp_schedule_next(r);
}

/* ------------------------------------------------------------------ includes */

static sparta_status items_of(reader *r);

static sparta_status may_include(const reader *r, const char *file, sp_schedule_at at)
{
    int depth = 0;
    for (const reader *o = r; o; o = o->outer, depth++)
        if (!strcmp(o->at.file, file))
            return sp_schedule_fail(r->cx, at, "'%.200s' includes itself; remove one include", file);
    if (depth > SP_SCHEDULE_DEPTH)
        return sp_schedule_fail(r->cx, at, "includes are more than %d deep", SP_SCHEDULE_DEPTH);
    if (r->s->n_includes++ >= SP_SCHEDULE_INCLUDES)
        return sp_schedule_fail(r->cx, at, "more than %d includes", SP_SCHEDULE_INCLUDES);
    return SPARTA_OK;
}

/* A small file beneath the folder, as text in the arena. */
static sparta_status text_beneath(reader *r, const char *file, sp_schedule_at at, const char **out)
{
    sp_mapped m;
    const char *path; /* asked for the message: the file is opened by the folder, which no link may leave */
    if (sp_schedule_path(r->s, r->s->arena, file, &path) != SPARTA_OK ||
        sp_mapped_open_beneath(r->cx, r->s->folder, file, &m) != SPARTA_OK)
        return sp_fail_in(r->cx, "%.200s:%d:%d: include", at.file, at.line, at.column);
    const bool fits = m.size <= SP_SCHEDULE_BYTES, is_text = !m.size || !memchr(m.data, 0, m.size);
    const char *text = fits && is_text ? sp_arena_bytes(r->s->arena, (const char *)m.data, m.size) : NULL;
    sp_mapped_close(&m);
    if (!fits)
        return sp_schedule_fail(r->cx, at, "'%.200s' is larger than %d bytes", file, SP_SCHEDULE_BYTES);
    if (!is_text) return sp_schedule_fail(r->cx, at, "'%.200s' is no text: it has a zero byte", file);
    SP_NEED(r->cx, text);
    *out = text;
    return SPARTA_OK;
}

static sparta_status include(reader *r)
{
    const sp_schedule_at at = r->now.at;
    const char *file, *text = NULL;
    SP_TRY(sp_schedule_next(r));
    SP_TRY(string(r, "the name of a file in quotes", &file));
    SP_TRY(may_include(r, file, at));
    SP_TRY(text_beneath(r, file, at, &text));
    reader inner = sp_schedule_reader(r->s, text, file);
    inner.outer = r;
    return items_of(&inner);
}

/* ------------------------------------------------------------------ the whole */

static sparta_status item(reader *r)
{
    if (is_word(r, "include")) return include(r);
    if (is_word(r, "format")) return definition(r, true);
    if (is_word(r, "sparsifier")) return definition(r, false);
    if (is_word(r, "model")) return model(r);
    if (is_word(r, "tensor")) return tensor(r);
    return sp_schedule_expected(r, "include, format, sparsifier, model or tensor", items,
                                (int)SP_COUNT(items));
}

static sparta_status items_of(reader *r)
{
    SP_TRY(sp_schedule_next(r));
    while (r->now.kind != END) {
        SP_TRY(sp_check_cancel(r->cx));
        while (is_symbol(r, ';')) SP_TRY(sp_schedule_next(r));
        if (r->now.kind != END) SP_TRY(item(r));
    }
    return SPARTA_OK;
}

sparta_status sparta_schedule_parse(sparta_ctx *cx, const char *text, const char *file, const char *folder,
                                    sparta_schedule **out)
{
    sparta_schedule *s;
    if (!text) return sp_fail(cx, SPARTA_E_USAGE, "schedule: the text is NULL; give one");
    if (!file) file = "schedule";
    if (strnlen(text, SP_SCHEDULE_BYTES + 1) > SP_SCHEDULE_BYTES)
        return sp_fail(cx, SPARTA_E_LIMIT, "%.200s: a schedule has at most %d bytes", file,
                       SP_SCHEDULE_BYTES);
    SP_TRY(sparta_schedule_create(cx, folder, &s));
    const char *kept = sp_arena_string(s->arena, file);
    reader r = sp_schedule_reader(s, text, kept);
    sparta_status status = kept ? items_of(&r) : sp_ctx_status(cx);
    if (status != SPARTA_OK) {
        sparta_schedule_free(s);
        return status;
    }
    *out = s;
    return SPARTA_OK;
}

sparta_status sparta_schedule_open(sparta_ctx *cx, const char *path, sparta_schedule **out)
{
    char *text;
    size_t n;
    SP_TRY(sp_file_read(cx, path, SP_SCHEDULE_BYTES, &text, &n));
    const char *slash = strrchr(path, '/');
    sp_text folder;
    sp_text_init(&folder, cx);
    sp_text_put(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + (slash == path) : 1);
    sparta_status status = folder.status;
    if (status == SPARTA_OK && strlen(text) != n)
        status = sp_fail(cx, SPARTA_E_FORMAT, "%.200s: no text: it has a zero byte", path);
    /* messages name the file as includes would, so that one that includes itself is seen */
    if (status == SPARTA_OK)
        status = sparta_schedule_parse(cx, text, slash ? slash + 1 : path, sp_text_str(&folder), out);
    sp_text_free(&folder);
    sp_free(cx, text);
    return status;
}
