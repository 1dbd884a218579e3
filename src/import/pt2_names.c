/* pt2_names.c: words of a .pt2 file that mean something: sizes, which it writes as SymPy's srepr, the structure of what the module gives
 * back, and the modules that a node is part of.
 *
 *     Add(Symbol('s36', positive=True, integer=True), Integer(1))        past + 1
 *     [1, {"type": "builtins.dict", "context": "[\"a\"]", "children_spec": [...]}] */
#include "import/pt2.h"
#include <string.h>

/* ------------------------------------------------------------------ sizes */

enum { SIZE_DEPTH = 16, INPUT_KEPT = 40 };

typedef struct words {
    sp_pt2 *p;
    const char *at, *text;
} words;

static sparta_status unknown(const words *w)
{
    return sp_fail(
        w->p->cx, SPARTA_E_UNSUPPORTED,
        "a size is '%.200s'; sums, products, quotients and remainders of symbols and numbers are read",
        w->text);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool next_is(words *w, char c)
{
    while (*w->at == ' ') w->at++;
    if (*w->at != c) return false;
    w->at++;
    return true;
}

static sparta_status symbol(sp_pt2 *p, const char *name, const char *ours, const sp_expr **out)
{
    int64_t at;
    if (sp_map_get(p->symbols, name, &at)) {
        *out = p->symbol[at];
        return SPARTA_OK;
    }
    if (sp_map_get(p->symbol_used, ours, NULL))
        return sp_fail(p->cx, SPARTA_E_FORMAT, "two sizes would be called '%.100s'", ours);
    SP_GROW(p->keep, p->symbol, p->n_symbols, p->symbol_capacity);
    *out = p->symbol[p->n_symbols] = sp_expr_symbol(p->g->arena, ours);
    SP_NEED(p->cx, *out);
    SP_TRY(sp_map_put(p->symbol_used, ours, 1));
    return sp_map_put(p->symbols, name, p->n_symbols++);
}

/* 's77' with whatever is said of it, up to its bracket. */
static sparta_status quoted(words *w, const char **out)
{
    const char *end;
    if (!next_is(w, '\'') || !(end = strchr(w->at, '\''))) return unknown(w);
    *out = sp_arena_bytes(w->p->keep, w->at, (size_t)(end - w->at));
    SP_NEED(w->p->cx, *out);
    w->at = end + strcspn(end, ")");
    return next_is(w, ')') ? SPARTA_OK : unknown(w);
}

typedef const sp_expr *(*combine)(sp_arena *, const sp_expr *, const sp_expr *);

static sparta_status read_size(words *w, int depth, const sp_expr **out);

static sparta_status read_all(words *w, int depth, combine f, const sp_expr **out)
{
    const sp_expr *x;
    SP_TRY(read_size(w, depth - 1, out));
    while (next_is(w, ',')) {
        SP_TRY(read_size(w, depth - 1, &x));
        *out = f(w->p->g->arena, *out, x);
        SP_NEED(w->p->cx, *out);
    }
    return next_is(w, ')') ? SPARTA_OK : unknown(w);
}

static sparta_status read_number(words *w, const sp_expr **out)
{
    const size_t n = strspn(w->at, "-0123456789");
    int64_t value;
    const char *digits = sp_arena_bytes(w->p->keep, w->at, n);
    SP_NEED(w->p->cx, digits);
    if (!sp_parse_int(digits, &value)) return unknown(w);
    w->at += n;
    *out = sp_expr_const(w->p->g->arena, value);
    SP_NEED(w->p->cx, *out);
    return SPARTA_OK;
}

static sparta_status read_size(words *w, int depth, const sp_expr **out)
{
    static const struct {
        const char *word;
        combine f;
    } functions[] = {{"Add", sp_expr_add}, {"Mul", sp_expr_mul},       {"FloorDiv", sp_expr_div},
                     {"Mod", sp_expr_mod}, {"PythonMod", sp_expr_mod}, {"Max", sp_expr_max},
                     {"Min", sp_expr_min}};
    char word[32] = {0};
    size_t n = 0;
    if (!depth) return unknown(w);
    next_is(w, ' ');
    while (is_letter(w->at[n])) n++;
    if (!n || n >= sizeof word) return *w->at == '-' ? read_number(w, out) : unknown(w);
    memcpy(word, w->at, n);
    if (word[0] >= '0' && word[0] <= '9') return read_number(w, out);
    w->at += n;
    if (!next_is(w, '(')) {
        const char *name = sp_arena_string(w->p->keep, word);
        SP_NEED(w->p->cx, name);
        return symbol(w->p, name, name, out);
    }
    if (!strcmp(word, "Symbol")) {
        const char *name;
        SP_TRY(quoted(w, &name));
        return symbol(w->p, name, name, out);
    }
    if (!strcmp(word, "Integer")) {
        SP_TRY(read_number(w, out));
        return next_is(w, ')') ? SPARTA_OK : unknown(w);
    }
    for (size_t i = 0; i < SP_COUNT(functions); i++)
        if (!strcmp(word, functions[i].word)) return read_all(w, depth, functions[i].f, out);
    return unknown(w);
}

static const char *size_text(const json_value *size)
{
    return sp_json_text(sp_json_get(sp_json_get(size, "as_expr"), "expr_str"));
}

/* torch's name of the symbol that a size is; "" where it is none. */
static sparta_status alone(sp_pt2 *p, const char *text, const char **name)
{
    words w = {p, text, text};
    const size_t n = strcspn(text, "(");
    *name = "";
    if (!text[n]) {
        if (text[0] < '0' || text[0] > '9') *name = text;
        return SPARTA_OK;
    }
    if (strncmp(text, "Symbol(", n + 1) != 0) return SPARTA_OK;
    w.at = text + n + 1;
    SP_TRY(quoted(&w, name));
    return *w.at ? unknown(&w) : SPARTA_OK;
}

/* Sizes are words of expressions, which are printed and read again: a name is one, as C's are. */
static bool is_name(const char *text)
{
    size_t n = 0;
    while (n <= INPUT_KEPT && is_letter(text[n])) n++;
    return n && n <= INPUT_KEPT && !text[n] && !(text[0] >= '0' && text[0] <= '9');
}

/* input_axis, or what whoever saved the program calls that (extra_files of torch.export.save). */
static sparta_status size_name(sp_pt2 *p, const char *input, int axis, const char **out)
{
    char clean[INPUT_KEPT + 1];
    size_t n = 0;
    for (; input[n] && n < INPUT_KEPT; n++) clean[n] = is_letter(input[n]) ? input[n] : '_';
    clean[n] = 0;
    *out = sp_arena_printf(p->keep, "%s%s_%d", clean[0] >= '0' && clean[0] <= '9' ? "_" : "", clean, axis);
    SP_NEED(p->cx, *out);
    const json_value *given = sp_json_get(p->sizes, *out);
    if (!given) return SPARTA_OK;
    const char *said = sp_json_text(given);
    if (!said || !is_name(said))
        return sp_fail(p->cx, SPARTA_E_FORMAT,
                       "extra/sparta-sizes.json: %s is called '%.100s'; a name is a letter and up to %d "
                       "letters, digits and underscores more",
                       *out, said ? said : "", INPUT_KEPT - 1);
    *out = said;
    return SPARTA_OK;
}

sparta_status sp_pt2_name_symbols(sp_pt2 *p, const char *input, const json_value *sizes)
{
    const sp_expr *e;
    int axis = 0;
    for (const json_value *v = sp_json_first(sizes); v; v = v->next, axis++) {
        const char *text = size_text(v), *name;
        if (!text) continue;
        SP_TRY(alone(p, text, &name));
        if (!*name || sp_map_get(p->symbols, name, NULL)) continue;
        const char *ours;
        SP_TRY(size_name(p, input, axis, &ours));
        SP_TRY(symbol(p, name, ours, &e));
    }
    return SPARTA_OK;
}

sparta_status sp_pt2_dims(sp_pt2 *p, const json_value *sizes, sp_dims *out)
{
    *out = (sp_dims){0};
    if (!sizes || sizes->kind != JSON_ARRAY) return sp_fail(p->cx, SPARTA_E_FORMAT, "it has no sizes");
    if (sizes->n > SPARTA_RANK)
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED, "more than %d dims; reshape it before the model",
                       SPARTA_RANK);
    for (const json_value *v = sizes->first; v; v = v->next) {
        const sp_expr **dim = &out->dim[out->rank++];
        const char *text = size_text(v);
        int64_t size;
        if (sp_json_int(sp_json_get(v, "as_int"), &size) && size >= 0) {
            *dim = sp_expr_const(p->g->arena, size);
            SP_NEED(p->cx, *dim);
            continue;
        }
        if (!text) return sp_fail(p->cx, SPARTA_E_FORMAT, "a size is neither a number nor an expression");
        words w = {p, text, text};
        SP_TRY(read_size(&w, SIZE_DEPTH, dim));
        if (*w.at) return unknown(&w);
    }
    return SPARTA_OK;
}

/* Every size that may vary is at least 2 in torch's eyes, as 0 and 1 are special when it exports, and its own check of a run lets them pass:
 * a minimum says something from 3 on. */
enum { SPECIAL_SIZES = 2 };

sparta_status sp_pt2_bounds(sp_pt2 *p, const json_value *ranges)
{
    for (const json_value *v = sp_json_first(ranges); v && v->key; v = v->next) {
        int64_t at, least, most;
        const char *name;
        if (!sp_map_get(p->symbols, v->key, &at) || !sp_expr_is_symbol(p->symbol[at], &name)) continue;
        const bool from = sp_json_int(sp_json_get(v, "min_val"), &least) && least > SPECIAL_SIZES;
        const bool to = sp_json_int(sp_json_get(v, "max_val"), &most) && most > 0 && most < INT32_MAX;
        if (from || to) SP_TRY(sp_graph_add_bound(p->g, name, from ? least : 0, to ? most : INT64_MAX));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ outputs */

typedef struct naming {
    sp_pt2 *p;
    const char **name;
    int n, most;
} naming;

/* Keys of a node: the list that its context is, where that has one for each child. */
static sparta_status read_keys(sp_pt2 *p, const json_value *spec, int children, const json_value **out)
{
    const char *context = sp_json_text(sp_json_get(spec, "context"));
    *out = NULL;
    if (!context || *context != '[') return SPARTA_OK;
    SP_TRY(sp_json_tree(p->keep, context, strlen(context), out));
    bool all = (*out)->kind == JSON_ARRAY && (*out)->n == children;
    for (const json_value *k = (*out)->first; k && all; k = k->next) all = k->kind == JSON_STRING;
    if (!all) *out = NULL;
    return SPARTA_OK;
}

static sparta_status name_leaves(naming *n, const json_value *spec, const char *path, int depth)
{
    const json_value *children = sp_json_get(spec, "children_spec"), *keys, *type = sp_json_get(spec, "type");
    int i = 0;
    if (!depth || !spec)
        return sp_fail(n->p->cx, SPARTA_E_FORMAT, "the structure of the outputs is malformed");
    if (!type || type->kind == JSON_NULL) {
        if (n->n < n->most) n->name[n->n] = path;
        n->n++;
        return SPARTA_OK;
    }
    SP_TRY(read_keys(n->p, spec, children ? children->n : 0, &keys));
    const json_value *key = sp_json_first(keys);
    for (const json_value *c = sp_json_first(children); c; c = c->next, i++) {
        const char *below = key ? *path ? sp_arena_printf(n->p->keep, "%s_%s", path, key->text) : key->text
                                : sp_arena_printf(n->p->keep, "%s_%d", *path ? path : "output", i);
        SP_NEED(n->p->cx, below);
        SP_TRY(name_leaves(n, c, below, depth - 1));
        if (key) key = key->next;
    }
    return SPARTA_OK;
}

sparta_status sp_pt2_output_names(sp_pt2 *p, const char *spec, int n, const char **out)
{
    naming names = {p, out, 0, n};
    const json_value *tree;
    for (int i = 0; i < n; i++) out[i] = "";
    if (!spec) return SPARTA_OK;
    if (sp_json_tree(p->keep, spec, strlen(spec), &tree) != SPARTA_OK) return sp_fail_in(p->cx, "out_spec");
    /* [version, tree] */
    return name_leaves(&names, tree->first ? tree->first->next : NULL, "", JSON_TREE_DEPTH);
}

/* ------------------------------------------------------------------ modules */

const char *sp_pt2_module(sp_pt2 *p, const char *stack)
{
    const char *last = stack ? strrchr(stack, ';') : NULL;
    const char *entry = last ? last + 1 : stack, *from = entry ? strchr(entry, ',') : NULL;
    const size_t n = from ? strcspn(from + 1, ",") : 0;
    if (!n || from[1] == '_') return NULL; /* _empty_nn_module_stack_... */
    return sp_arena_bytes(p->g->arena, from + 1, SP_MIN(n, (size_t)1000));
}
