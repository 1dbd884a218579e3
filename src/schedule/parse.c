/* The grammar, one function a rule (docs/schedules.md has it whole):
 *
 *     schedule := { include | format | sparsifier | model | tensor }
 *     include  := 'include' string
 *     format   := 'format' name '=' text of a format
 *     sparsifier := 'sparsifier' name '=' call
 *     model    := 'model' '{' { 'target' name | 'dim' name '=' sizes } '}'
 *     tensor   := 'tensor' string '{' { clause } '}'
 *     clause   := 'sparsify' call | 'format' text | 'quantize' call | 'kernel' '{' { call } '}'
 *     call     := name [ '(' [ arg { ',' arg } ] ')' ]        arg := [ name '=' ] ( word | string )
 */
#include "file/file.h"
#include "format/format.h"
#include "schedule/inside.h"
#include <ctype.h>
#include <string.h>

static const char *const items[] = {"include", "format", "sparsifier", "model", "tensor"};
static const char *const clauses[] = {
#define SPARTA_CLAUSE(id, word, example) word,
#include "schedule/clauses.def"
#undef SPARTA_CLAUSE
};
static const char *const model_clauses[] = {"target", "dim"};

const char *sparta_clause_word(sparta_clause_kind kind)
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
    if (!is_symbol(r, c)) return sparta_schedule_expected(r, what, NULL, 0);
    return sparta_schedule_next(r);
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
    if (!is_name(&r->now)) return sparta_schedule_expected(r, what, NULL, 0);
    const char *copy = sparta_schedule_copy(r, &r->now);
    SPARTA_NEED(r->cx, copy);
    SPARTA_TRY(sparta_schedule_next(r));
    *out = copy;
    return SPARTA_OK;
}

static sparta_status string(reader *r, const char *what, const char **out)
{
    if (r->now.kind != STRING_TOKEN) return sparta_schedule_expected(r, what, NULL, 0);
    const char *copy = sparta_schedule_copy(r, &r->now);
    SPARTA_NEED(r->cx, copy);
    if (!*copy) return sparta_schedule_fail(r->cx, r->now.at, "this string is empty; it should be %s", what);
    SPARTA_TRY(sparta_schedule_next(r));
    *out = copy;
    return SPARTA_OK;
}

/* A clause ended: ';', a new line, the closing bracket or the end of the text. */
static sparta_status ended(reader *r, const char *what)
{
    if (!is_symbol(r, ';') && !is_symbol(r, '}') && !r->now.fresh_line && r->now.kind != END)
        return sparta_schedule_expected(r, what, NULL, 0);
    while (is_symbol(r, ';')) SPARTA_TRY(sparta_schedule_next(r));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ calls */

static sparta_status argument(reader *r, sparta_schedule_arg *out)
{
    *out = (sparta_schedule_arg){.at = r->now.at};
    for (int i = 0; i < 2; i++) {
        if (r->now.kind != WORD_TOKEN && r->now.kind != STRING_TOKEN)
            return sparta_schedule_expected(r, "an argument", NULL, 0);
        const bool named = is_name(&r->now) && !out->name;
        out->quoted = r->now.kind == STRING_TOKEN;
        out->text = sparta_schedule_copy(r, &r->now);
        SPARTA_NEED(r->cx, out->text);
        SPARTA_TRY(sparta_schedule_next(r));
        if (!named || !is_symbol(r, '=')) return SPARTA_OK;
        out->name = out->text;
        SPARTA_TRY(sparta_schedule_next(r));
    }
    return SPARTA_OK;
}

static sparta_status arguments(reader *r, sparta_schedule_call *call)
{
    sparta_schedule_arg list[SPARTA_SCHEDULE_ARGS];
    SPARTA_TRY(sparta_schedule_next(r));
    while (!is_symbol(r, ')')) {
        if (call->n) SPARTA_TRY(symbol(r, ',', "',' or ')'"));
        if (call->n == SPARTA_SCHEDULE_ARGS)
            return sparta_schedule_fail(r->cx, r->now.at, "'%.60s' has more than %d arguments", call->name,
                                        SPARTA_SCHEDULE_ARGS);
        SPARTA_TRY(argument(r, &list[call->n]));
        for (int i = 0; i < call->n; i++)
            if (list[i].name && list[call->n].name && !strcmp(list[i].name, list[call->n].name))
                return sparta_schedule_fail(r->cx, list[call->n].at, "argument '%.60s' twice; remove one",
                                            list[i].name);
        call->n++;
    }
    call->arg = sparta_arena_array(r->s->arena, (size_t)call->n + 1, sizeof *call->arg);
    SPARTA_NEED(r->cx, call->arg);
    if (call->n) memcpy(call->arg, list, (size_t)call->n * sizeof *list);
    return sparta_schedule_next(r);
}

static sparta_status read_call(reader *r, const char *what, sparta_schedule_call *out)
{
    sparta_schedule_call call = {.at = r->now.at};
    SPARTA_TRY(name(r, what, &call.name));
    if (is_symbol(r, '(') && !r->now.fresh_line) SPARTA_TRY(arguments(r, &call));
    *out = call;
    return SPARTA_OK;
}

static sparta_status text_of(sparta_schedule *s, const sparta_schedule_call *call, int n, const char **out)
{
    sparta_text t;
    sparta_text_init(&t, s->cx);
    for (int i = 0; i < n; i++) {
        if (i) sparta_text_printf(&t, "; ");
        sparta_schedule_print_call(&call[i], &t);
    }
    *out = t.status == SPARTA_OK ? sparta_arena_string(s->arena, sparta_text_str(&t)) : NULL;
    sparta_text_free(&t);
    SPARTA_NEED(s->cx, *out);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what stands behind a clause's word */

static sparta_status sparsify(reader *r, sparta_schedule_clause *c)
{
    SPARTA_TRY(sparta_schedule_next(r));
    SPARTA_TRY(read_call(r, "a sparsifier, e.g. magnitude(pattern=4x1, sparsity=0.9)", &c->call));
    const sparta_schedule_name *known =
        sparta_schedule_find(r->s->sparsifier, r->s->n_sparsifiers, c->call.name);
    if (known && c->call.n)
        return sparta_schedule_fail(r->cx, c->call.at,
                                    "'%.60s' is defined at %.100s:%d:%d and takes no arguments", known->name,
                                    known->at.file, known->at.line, known->at.column);
    if (known) {
        c->call = known->call;
        c->text = known->name;
        c->means = known->text;
        return SPARTA_OK;
    }
    SPARTA_TRY(sparta_schedule_check_sparsifier(r->s, &c->call));
    SPARTA_TRY(text_of(r->s, &c->call, 1, &c->text));
    c->means = c->text;
    return SPARTA_OK;
}

static sparta_status kernel(reader *r, sparta_schedule_clause *c)
{
    sparta_schedule_call list[SPARTA_SCHEDULE_STEPS];
    const char *steps;
    SPARTA_TRY(sparta_schedule_next(r));
    SPARTA_TRY(symbol(r, '{', "'{' and the primitives of the kernel"));
    while (!is_symbol(r, '}')) {
        if (c->n == SPARTA_SCHEDULE_STEPS)
            return sparta_schedule_fail(r->cx, r->now.at, "more than %d primitives", SPARTA_SCHEDULE_STEPS);
        SPARTA_TRY(read_call(r, "a primitive, e.g. vectorize(m1), or '}'", &list[c->n]));
        c->n++;
        if (r->now.kind == END) return sparta_schedule_expected(r, "'}'", NULL, 0);
        SPARTA_TRY(ended(r, "';', a new line or '}'"));
    }
    SPARTA_TRY(sparta_schedule_next(r));
    c->step = sparta_arena_array(r->s->arena, (size_t)c->n + 1, sizeof *c->step);
    SPARTA_NEED(r->cx, c->step);
    if (c->n) memcpy(c->step, list, (size_t)c->n * sizeof *list);
    SPARTA_TRY(text_of(r->s, list, c->n, &steps));
    c->text = c->means = sparta_arena_printf(r->s->arena, *steps ? "{ %s }" : "{ }", steps);
    SPARTA_NEED(r->cx, c->text);
    return SPARTA_OK;
}

sparta_status sparta_schedule_read_clause(reader *r, sparta_schedule_rule *rule, sparta_clause_kind kind,
                                          sparta_schedule_at at)
{
    sparta_schedule_clause c = {.given = true, .at = at}, *old = &rule->clause[kind];
    if (old->given)
        return sparta_schedule_fail(r->cx, at,
                                    "tensor \"%.100s\" says '%s' twice, first at %.100s:%d:%d; remove one",
                                    rule->glob, clauses[kind], old->at.file, old->at.line, old->at.column);
    switch (kind) {
    case SPARTA_CLAUSE_SPARSIFY: SPARTA_TRY(sparsify(r, &c)); break;
    case SPARTA_CLAUSE_FORMAT: SPARTA_TRY(sparta_schedule_format_text(r, &c.text, &c.means)); break;
    case SPARTA_CLAUSE_KERNEL: SPARTA_TRY(kernel(r, &c)); break;
    default:
        SPARTA_TRY(sparta_schedule_next(r));
        SPARTA_TRY(read_call(r, "a precision, e.g. i8(per_channel)", &c.call));
        SPARTA_TRY(text_of(r->s, &c.call, 1, &c.text));
        c.means = c.text;
    }
    SPARTA_TRY(ended(r, "';', a new line or '}'"));
    *old = c;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ definitions */

static sparta_status taken(const sparta_schedule *s, const sparta_schedule_name *list, int n,
                           const char *what, const char *word, sparta_schedule_at at)
{
    const sparta_schedule_name *old = sparta_schedule_find(list, n, word);
    if (old)
        return sparta_schedule_fail(s->cx, at, "%s '%.60s' is defined already at %.100s:%d:%d; rename one",
                                    what, word, old->at.file, old->at.line, old->at.column);
    if (n == SPARTA_SCHEDULE_NAMES)
        return sparta_schedule_fail(s->cx, at, "more than %d definitions", SPARTA_SCHEDULE_NAMES);
    return SPARTA_OK;
}

sparta_status sparta_schedule_read_format(reader *r, const char *word, sparta_schedule_at at)
{
    sparta_schedule *s = r->s;
    const char *text, *means;
    SPARTA_TRY(taken(s, s->format, s->n_formats, "format", word, at));
    if (sparta_format_is_name(r->cx, word) || !strcmp(word, "sum"))
        return sparta_schedule_fail(r->cx, at, "format '%.60s' is one of sparta's own; choose another name",
                                    word);
    SPARTA_TRY(sparta_schedule_format_text(r, &text, &means));
    SPARTA_TRY(
        sparta_schedule_grow(s, (void **)&s->format, s->n_formats, &s->format_capacity, sizeof *s->format));
    s->format[s->n_formats++] = (sparta_schedule_name){.name = word, .text = means, .at = at};
    return ended(r, "a new line after the format");
}

sparta_status sparta_schedule_read_sparsifier(reader *r, const char *word, sparta_schedule_at at)
{
    sparta_schedule *s = r->s;
    sparta_schedule_clause c = {0};
    SPARTA_TRY(taken(s, s->sparsifier, s->n_sparsifiers, "sparsifier", word, at));
    if (sparta_schedule_find_sparsifier(r->cx, word))
        return sparta_schedule_fail(r->cx, at, "sparsifier '%.60s' is there already; choose another name",
                                    word);
    SPARTA_TRY(sparsify(r, &c));
    SPARTA_TRY(sparta_schedule_grow(s, (void **)&s->sparsifier, s->n_sparsifiers, &s->sparsifier_capacity,
                                    sizeof *s->sparsifier));
    s->sparsifier[s->n_sparsifiers++] =
        (sparta_schedule_name){.name = word, .text = c.means, .call = c.call, .at = at};
    return ended(r, "a new line after the sparsifier");
}

/* 'format' name '=', and the same of a sparsifier. Behind the '=' a format is raw text, so that the next token is not read here. */
static sparta_status definition(reader *r, bool format)
{
    const sparta_schedule_at at = r->now.at;
    const char *word;
    SPARTA_TRY(sparta_schedule_next(r));
    SPARTA_TRY(name(r, "a name to define", &word));
    if (!is_symbol(r, '=')) return sparta_schedule_expected(r, "'='", NULL, 0);
    return format ? sparta_schedule_read_format(r, word, at) : sparta_schedule_read_sparsifier(r, word, at);
}

/* ------------------------------------------------------------------ model and tensor */

static sparta_status dim(reader *r, sparta_schedule_at at)
{
    const char *word, *sizes;
    SPARTA_TRY(name(r, "the name of a dimension", &word));
    SPARTA_TRY(symbol(r, '=', "'='"));
    if (r->now.kind != WORD_TOKEN) return sparta_schedule_expected(r, "a size N or MIN:OPT:MAX", NULL, 0);
    sizes = sparta_schedule_copy(r, &r->now);
    SPARTA_NEED(r->cx, sizes);
    SPARTA_TRY(sparta_schedule_next(r));
    return sparta_schedule_add_dim(r->s, word, sizes, at);
}

static sparta_status model_clause(reader *r)
{
    const sparta_schedule_at at = r->now.at;
    const bool target = is_word(r, "target");
    const char *word;
    if (!target && !is_word(r, "dim"))
        return sparta_schedule_expected(r, "target, dim or '}'", model_clauses,
                                        (int)SPARTA_COUNT(model_clauses));
    SPARTA_TRY(sparta_schedule_next(r));
    if (!target) {
        SPARTA_TRY(dim(r, at));
    } else {
        SPARTA_TRY(name(r, "the name of a target", &word));
        SPARTA_TRY(sparta_schedule_add_target(r->s, word, at));
    }
    return ended(r, "';', a new line or '}'");
}

static sparta_status model(reader *r)
{
    SPARTA_TRY(sparta_schedule_next(r));
    SPARTA_TRY(symbol(r, '{', "'{'"));
    while (is_symbol(r, ';')) SPARTA_TRY(sparta_schedule_next(r));
    while (!is_symbol(r, '}')) SPARTA_TRY(model_clause(r));
    return sparta_schedule_next(r);
}

static sparta_status tensor_clause(reader *r, sparta_schedule_rule *rule)
{
    for (int k = 0; k < SPARTA_CLAUSES; k++)
        if (is_word(r, clauses[k]))
            return sparta_schedule_read_clause(r, rule, (sparta_clause_kind)k, r->now.at);
    return sparta_schedule_expected(r, "sparsify, format, quantize, kernel or '}'", clauses, SPARTA_CLAUSES);
}

static sparta_status tensor(reader *r)
{
    const sparta_schedule_at at = r->now.at;
    const char *glob;
    sparta_schedule_rule *rule;
    SPARTA_TRY(sparta_schedule_next(r));
    SPARTA_TRY(string(r, "the names of tensors in quotes, e.g. \"encoder.*.weight\"", &glob));
    SPARTA_TRY(sparta_schedule_add_rule(r->s, glob, at, &rule));
    SPARTA_TRY(symbol(r, '{', "'{'"));
    while (is_symbol(r, ';')) SPARTA_TRY(sparta_schedule_next(r));
    while (!is_symbol(r, '}')) SPARTA_TRY(tensor_clause(r, rule));
    return sparta_schedule_next(r);
}

/* ------------------------------------------------------------------ includes */

static sparta_status items_of(reader *r);

static sparta_status may_include(const reader *r, const char *file, sparta_schedule_at at)
{
    int depth = 0;
    for (const reader *o = r; o; o = o->outer, depth++)
        if (!strcmp(o->at.file, file))
            return sparta_schedule_fail(r->cx, at, "'%.200s' includes itself; remove one include", file);
    if (depth > SPARTA_SCHEDULE_DEPTH)
        return sparta_schedule_fail(r->cx, at, "includes are more than %d deep", SPARTA_SCHEDULE_DEPTH);
    if (r->s->n_includes++ >= SPARTA_SCHEDULE_INCLUDES)
        return sparta_schedule_fail(r->cx, at, "more than %d includes", SPARTA_SCHEDULE_INCLUDES);
    return SPARTA_OK;
}

/* A small file beneath the folder, as text in the arena. */
static sparta_status text_beneath(reader *r, const char *file, sparta_schedule_at at, const char **out)
{
    sparta_mapped m;
    const char *path; /* asked for the message: the file is opened by the folder, which no link may leave */
    if (sparta_schedule_path(r->s, r->s->arena, file, &path) != SPARTA_OK ||
        sparta_map_open_beneath(r->cx, r->s->folder, file, &m) != SPARTA_OK)
        return sparta_fail_in(r->cx, "%.200s:%d:%d: include", at.file, at.line, at.column);
    const bool fits = m.size <= SPARTA_SCHEDULE_BYTES, is_text = !m.size || !memchr(m.data, 0, m.size);
    const char *text = fits && is_text ? sparta_arena_bytes(r->s->arena, (const char *)m.data, m.size) : NULL;
    sparta_map_close(&m);
    if (!fits)
        return sparta_schedule_fail(r->cx, at, "'%.200s' is larger than %d bytes", file,
                                    SPARTA_SCHEDULE_BYTES);
    if (!is_text) return sparta_schedule_fail(r->cx, at, "'%.200s' is no text: it has a zero byte", file);
    SPARTA_NEED(r->cx, text);
    *out = text;
    return SPARTA_OK;
}

static sparta_status include(reader *r)
{
    const sparta_schedule_at at = r->now.at;
    const char *file, *text = NULL;
    SPARTA_TRY(sparta_schedule_next(r));
    SPARTA_TRY(string(r, "the name of a file in quotes", &file));
    SPARTA_TRY(may_include(r, file, at));
    SPARTA_TRY(text_beneath(r, file, at, &text));
    reader inner = sparta_schedule_reader(r->s, text, file);
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
    return sparta_schedule_expected(r, "include, format, sparsifier, model or tensor", items,
                                    (int)SPARTA_COUNT(items));
}

static sparta_status items_of(reader *r)
{
    SPARTA_TRY(sparta_schedule_next(r));
    while (r->now.kind != END) {
        SPARTA_TRY(sparta_check_cancel(r->cx));
        while (is_symbol(r, ';')) SPARTA_TRY(sparta_schedule_next(r));
        if (r->now.kind != END) SPARTA_TRY(item(r));
    }
    return SPARTA_OK;
}

sparta_status sparta_schedule_parse(sparta_ctx *cx, const char *text, const char *file, const char *folder,
                                    sparta_schedule **out)
{
    sparta_schedule *s;
    if (!text) return sparta_fail(cx, SPARTA_E_USAGE, "schedule: the text is NULL; give one");
    if (!file) file = "schedule";
    if (strnlen(text, SPARTA_SCHEDULE_BYTES + 1) > SPARTA_SCHEDULE_BYTES)
        return sparta_fail(cx, SPARTA_E_LIMIT, "%.200s: a schedule has at most %d bytes", file,
                           SPARTA_SCHEDULE_BYTES);
    SPARTA_TRY(sparta_schedule_create(cx, folder, &s));
    const char *kept = sparta_arena_string(s->arena, file);
    reader r = sparta_schedule_reader(s, text, kept);
    sparta_status status = kept ? items_of(&r) : sparta_ctx_status(cx);
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
    SPARTA_TRY(sparta_file_read(cx, path, SPARTA_SCHEDULE_BYTES, &text, &n));
    const char *slash = strrchr(path, '/');
    sparta_text folder;
    sparta_text_init(&folder, cx);
    sparta_text_put(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + (slash == path) : 1);
    sparta_status status = folder.status;
    if (status == SPARTA_OK && strlen(text) != n)
        status = sparta_fail(cx, SPARTA_E_FORMAT, "%.200s: no text: it has a zero byte", path);
    /* messages name the file as includes would, so that one that includes itself is seen */
    if (status == SPARTA_OK)
        status = sparta_schedule_parse(cx, text, slash ? slash + 1 : path, sparta_text_str(&folder), out);
    sparta_text_free(&folder);
    sparta_free(cx, text);
    return status;
}
