/* parse.c: text to graph, a line at a time. The text may come from a hostile package: names are defined
 * before they are used (so no cycle can be written), operators and attributes are those of the tables, sizes
 * are bounded by the text itself. */
#include "graph/text.h"
#include <string.h>

#define LONGEST ((size_t)256 << 20) /* bytes of text */

static sparta_status read_type(sparta_graph_reader *r, bool *typed, sparta_dtype *dtype, sparta_dims *dims)
{
    SPARTA_TRY(sparta_graph_expect(r, ':'));
    *typed = !sparta_graph_eat(r, '?');
    if (!*typed) return SPARTA_OK;
    const char *word;
    SPARTA_TRY(sparta_graph_read_word(r, &word));
    if (!sparta_dtype_parse(word, dtype)) return sparta_graph_bad(r, "no such type");
    SPARTA_TRY(sparta_graph_read_dims(r, r->g->arena, dims));
    int64_t size;
    for (int i = 0; i < dims->rank; i++)
        if (sparta_expr_is_const(dims->dim[i], &size) && size < 0)
            return sparta_graph_bad(r, "a dim is negative");
    return SPARTA_OK;
}

static sparta_status read_input(sparta_graph_reader *r)
{
    const char *name;
    bool typed;
    sparta_dtype dtype;
    sparta_dims dims;
    SPARTA_TRY(sparta_graph_read_name(r, &name));
    SPARTA_TRY(read_type(r, &typed, &dtype, &dims));
    if (!typed) return sparta_graph_bad(r, "an input needs a type");
    return sparta_graph_add_input(r->g, name, dtype, &dims, NULL);
}

/* ------------------------------------------------------------------ constants */

typedef struct fetching {
    sparta_graph_fetch fetch;
    void *arg;
} fetching;

/* Ask the holder of the weights, and believe only what agrees with the text. */
static sparta_status fetch_constant(sparta_graph_reader *r, const fetching *f, const char *origin,
                                    sparta_tensor *t)
{
    const sparta_tensor declared = *t;
    if (!f->fetch) return sparta_graph_bad(r, "a constant is not written out and nobody holds the weights");
    SPARTA_TRY(f->fetch(f->arg, origin, t));
    if (t->dtype != declared.dtype || !sparta_tensor_same_shape(t, &declared) || !sparta_tensor_contiguous(t))
        return sparta_fail(r->cx, SPARTA_E_FORMAT,
                           "graph text, line %d: the weights '%.200s' have another type or shape", r->line,
                           origin);
    if ((uintptr_t)t->data % sparta_dtype_size(t->dtype))
        return sparta_fail(r->cx, SPARTA_E_FORMAT, "graph text, line %d: the weights '%.200s' are misaligned",
                           r->line, origin);
    return SPARTA_OK;
}

static sparta_status constant_type(sparta_graph_reader *r, sparta_tensor *out)
{
    bool typed;
    sparta_dtype dtype;
    sparta_dims dims;
    int64_t dim[SPARTA_RANK];
    SPARTA_TRY(read_type(r, &typed, &dtype, &dims));
    if (!typed || !sparta_dims_const(&dims, dim))
        return sparta_graph_bad(r, "a constant has a type and numbers as dims");
    *out = sparta_tensor_view(dtype, dims.rank, dim, NULL);
    if (sparta_tensor_elements(out) < 0) return sparta_graph_bad(r, "the dims are too large");
    return SPARTA_OK;
}

static sparta_status read_constant(sparta_graph_reader *r, const fetching *f)
{
    const char *name, *origin = NULL;
    sparta_tensor t;
    SPARTA_TRY(sparta_graph_read_name(r, &name));
    SPARTA_TRY(constant_type(r, &t));
    bool written = sparta_graph_eat(r, '=');
    if (written) SPARTA_TRY(sparta_graph_read_elements(r, r->g->arena, &t));
    if (sparta_graph_eat(r, '@')) SPARTA_TRY(sparta_graph_read_string(r, &origin));
    if (!written && !origin) return sparta_graph_bad(r, "expected = or @");
    if (!written) SPARTA_TRY(fetch_constant(r, f, origin, &t));
    sparta_value *v;
    SPARTA_TRY(sparta_graph_add_constant(r->g, name, &t, false, &v));
    if (origin) {
        v->origin = sparta_arena_string(r->g->arena, origin);
        SPARTA_NEED(r->cx, v->origin);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ nodes */

typedef struct list {
    sparta_value **value;
    int n, capacity;
} list;

static sparta_status append(sparta_graph_reader *r, list *l, sparta_value *v)
{
    if (l->n == l->capacity) {
        int wanted = l->capacity ? l->capacity * 2 : 8;
        sparta_value **grown = sparta_arena_array(r->scratch, (size_t)wanted, sizeof *grown);
        SPARTA_NEED(r->cx, grown);
        if (l->n) memcpy(grown, l->value, (size_t)l->n * sizeof *grown);
        l->value = grown;
        l->capacity = wanted;
    }
    l->value[l->n++] = v;
    return SPARTA_OK;
}

static sparta_status read_use(sparta_graph_reader *r, sparta_value **out)
{
    const char *name;
    SPARTA_TRY(sparta_graph_read_name(r, &name));
    *out = sparta_graph_find(r->g, name);
    if (*out) return SPARTA_OK;
    return sparta_fail(r->cx, SPARTA_E_FORMAT, "graph text, line %d: '%.200s' is used before it is defined",
                       r->line, name);
}

static sparta_status read_inputs(sparta_graph_reader *r, list *in)
{
    SPARTA_TRY(sparta_graph_expect(r, '('));
    if (sparta_graph_eat(r, ')')) return SPARTA_OK;
    do {
        sparta_value *v = NULL;
        sparta_graph_skip(r);
        if (r->at[0] == '_' && !sparta_graph_word_byte(r->at[1], false))
            r->at++;
        else
            SPARTA_TRY(read_use(r, &v));
        SPARTA_TRY(append(r, in, v));
    } while (sparta_graph_eat(r, ','));
    return sparta_graph_expect(r, ')');
}

static sparta_status read_op(sparta_graph_reader *r, const sparta_builtin **out)
{
    const char *domain = "", *name;
    SPARTA_TRY(sparta_graph_read_word(r, &name));
    if (r->at[0] == ':' && r->at[1] == ':') {
        r->at += 2;
        domain = name;
        SPARTA_TRY(sparta_graph_read_word(r, &name));
    }
    *out = sparta_builtin_find(domain, name);
    if (*out) return SPARTA_OK;
    return sparta_fail(r->cx, SPARTA_E_FORMAT, "graph text, line %d: no operator '%.100s' in domain '%.100s'",
                       r->line, name, domain);
}

/* The outputs become values only after the inputs were read: a node cannot use what it makes. */
typedef struct declared {
    const char *name;
    bool typed;
    sparta_dtype dtype;
    sparta_dims dims;
    struct declared *next;
} declared;

static sparta_status read_outputs(sparta_graph_reader *r, declared **out)
{
    do {
        declared *d = sparta_arena_alloc(r->scratch, sizeof *d);
        SPARTA_NEED(r->cx, d);
        SPARTA_TRY(sparta_graph_read_name(r, &d->name));
        SPARTA_TRY(read_type(r, &d->typed, &d->dtype, &d->dims));
        *out = d;
        out = &d->next;
    } while (sparta_graph_eat(r, ','));
    return sparta_graph_expect(r, '=');
}

static sparta_status add_outputs(sparta_graph_reader *r, const declared *d, list *out)
{
    for (; d; d = d->next) {
        sparta_value *v;
        SPARTA_TRY(sparta_graph_add_value(r->g, d->name, &v));
        v->typed = d->typed;
        if (d->typed) {
            v->dtype = d->dtype;
            v->dims = d->dims;
        }
        SPARTA_TRY(append(r, out, v));
    }
    return SPARTA_OK;
}

static sparta_status read_node(sparta_graph_reader *r)
{
    declared *outputs = NULL;
    const sparta_builtin *op;
    list in = {0}, out = {0};
    sparta_attrs attrs = {0};
    const char *name = "";
    SPARTA_TRY(read_outputs(r, &outputs));
    SPARTA_TRY(read_op(r, &op));
    SPARTA_TRY(read_inputs(r, &in));
    sparta_graph_skip(r);
    if (*r->at == '{') SPARTA_TRY(sparta_graph_read_attrs(r, &attrs));
    sparta_graph_skip(r);
    if (*r->at == '"') SPARTA_TRY(sparta_graph_read_string(r, &name));
    SPARTA_TRY(add_outputs(r, outputs, &out));
    return sparta_graph_add_node(r->g, op->id, name, in.n, in.value, out.n, out.value, &attrs, NULL);
}

/* ------------------------------------------------------------------ lines */

static sparta_status read_bound(sparta_graph_reader *r)
{
    const char *symbol;
    sparta_dims most;
    int64_t number;
    SPARTA_TRY(sparta_graph_read_name(r, &symbol));
    SPARTA_TRY(sparta_graph_read_dims(r, r->scratch, &most));
    if (most.rank != 1 || !sparta_expr_is_const(most.dim[0], &number) || number < 1)
        return sparta_graph_bad(r, "a bound is one number of at least 1");
    return sparta_graph_add_bound(r->g, symbol, number);
}

static sparta_status read_must(sparta_graph_reader *r)
{
    sparta_dims pair;
    const char *node;
    SPARTA_TRY(sparta_graph_read_dims(r, r->scratch, &pair));
    if (pair.rank != 2) return sparta_graph_bad(r, "a must is two sizes");
    sparta_graph_skip(r);
    SPARTA_TRY(sparta_graph_read_string(r, &node));
    return sparta_graph_add_must(r->g, pair.dim[0], pair.dim[1], node);
}

static sparta_status read_line(sparta_graph_reader *r, const fetching *f)
{
    const char *kind;
    SPARTA_TRY(sparta_graph_read_word(r, &kind));
    if (strcmp(kind, "input") == 0) return read_input(r);
    if (strcmp(kind, "const") == 0) return read_constant(r, f);
    if (strcmp(kind, "node") == 0) return read_node(r);
    if (strcmp(kind, "bound") == 0) return read_bound(r);
    if (strcmp(kind, "must") == 0) return read_must(r);
    if (strcmp(kind, "output") != 0)
        return sparta_graph_bad(r, "expected input, bound, must, const, node or output");
    sparta_value *v;
    SPARTA_TRY(read_use(r, &v));
    return sparta_graph_add_output(r->g, v);
}

static sparta_status end_line(sparta_graph_reader *r)
{
    sparta_graph_skip(r);
    if (*r->at != '\n' && *r->at) return sparta_graph_bad(r, "more than was expected");
    if (*r->at) r->at++;
    r->line++;
    return SPARTA_OK;
}

static sparta_status read_lines(sparta_graph_reader *r, const fetching *f)
{
    while (*r->at) {
        SPARTA_TRY(sparta_check_cancel(r->cx));
        sparta_graph_skip(r);
        if (*r->at != '\n' && *r->at) {
            r->scratch = sparta_arena_create(r->cx);
            SPARTA_NEED(r->cx, r->scratch);
            sparta_status status = read_line(r, f);
            sparta_arena_free(r->scratch);
            SPARTA_TRY(status);
        }
        SPARTA_TRY(end_line(r));
    }
    return sparta_graph_verify(r->g);
}

static sparta_status read_header(sparta_graph_reader *r, const char **name)
{
    const char *word;
    SPARTA_TRY(sparta_graph_read_word(r, &word));
    if (strcmp(word, "graph") != 0) return sparta_graph_bad(r, "expected 'graph \"name\"' first");
    SPARTA_TRY(sparta_graph_read_string(r, name));
    return end_line(r);
}

sparta_status sparta_graph_parse(sparta_ctx *cx, const char *text, sparta_graph_fetch fetch, void *arg,
                                 sparta_graph **out)
{
    if (strnlen(text, LONGEST) == LONGEST)
        return sparta_fail(cx, SPARTA_E_LIMIT, "graph text: longer than %zu MiB", LONGEST >> 20);
    sparta_graph_reader r = {.cx = cx, .at = text, .line = 1};
    const char *name;
    r.scratch = sparta_arena_create(cx);
    SPARTA_NEED(cx, r.scratch);
    sparta_status status = read_header(&r, &name);
    if (status == SPARTA_OK) status = sparta_graph_create(cx, name, &r.g);
    sparta_arena_free(r.scratch);
    fetching f = {fetch, arg};
    if (status == SPARTA_OK) status = read_lines(&r, &f);
    if (status == SPARTA_OK)
        *out = r.g;
    else
        sparta_graph_free(r.g);
    return status;
}
