/* parse.c: text to graph, a line at a time. The text may come from a hostile package: names are defined
 * before they are used (so no cycle can be written), operators and attributes are those of the tables, sizes
 * are bounded by the text itself. */
#include "graph/text.h"
#include <string.h>

#define LONGEST ((size_t)256 << 20) /* bytes of text */

static sparta_status read_type(sp_graph_reader *r, bool *typed, sparta_dtype *dtype, sp_dims *dims)
{
    SP_TRY(sp_graph_expect(r, ':'));
    *typed = !sp_graph_eat(r, '?');
    if (!*typed) return SPARTA_OK;
    const char *word;
    SP_TRY(sp_graph_read_word(r, &word));
    if (!sp_dtype_parse(word, dtype)) return sp_graph_bad(r, "no such type");
    SP_TRY(sp_graph_read_dims(r, r->g->arena, dims));
    int64_t size;
    for (int i = 0; i < dims->rank; i++)
        if (sp_expr_is_const(dims->dim[i], &size) && size < 0) return sp_graph_bad(r, "a dim is negative");
    return SPARTA_OK;
}

static sparta_status read_input(sp_graph_reader *r)
{
    const char *name;
    bool typed;
    sparta_dtype dtype;
    sp_dims dims;
    SP_TRY(sp_graph_read_name(r, &name));
    SP_TRY(read_type(r, &typed, &dtype, &dims));
    if (!typed) return sp_graph_bad(r, "an input needs a type");
    return sp_graph_add_input(r->g, name, dtype, &dims, NULL);
}

/* ------------------------------------------------------------------ constants */

typedef struct fetching {
    sp_graph_fetch fetch;
    void *arg;
} fetching;

/* Ask the holder of the weights, and believe only what agrees with the text. */
static sparta_status fetch_constant(sp_graph_reader *r, const fetching *f, const char *origin,
                                    sparta_tensor *t)
{
    const sparta_tensor declared = *t;
    if (!f->fetch) return sp_graph_bad(r, "a constant is not written out and nobody holds the weights");
    SP_TRY(f->fetch(f->arg, origin, t));
    if (t->dtype != declared.dtype || !sp_tensor_same_shape(t, &declared) || !sp_tensor_contiguous(t))
        return sp_fail(r->cx, SPARTA_E_FORMAT,
                       "graph text, line %d: the weights '%.200s' have another type or shape", r->line,
                       origin);
    if ((uintptr_t)t->data % sparta_dtype_size(t->dtype))
        return sp_fail(r->cx, SPARTA_E_FORMAT, "graph text, line %d: the weights '%.200s' are misaligned",
                       r->line, origin);
    return SPARTA_OK;
}

static sparta_status constant_type(sp_graph_reader *r, sparta_tensor *out)
{
    bool typed;
    sparta_dtype dtype;
    sp_dims dims;
    int64_t dim[SPARTA_RANK];
    SP_TRY(read_type(r, &typed, &dtype, &dims));
    if (!typed || !sp_dims_const(&dims, dim))
        return sp_graph_bad(r, "a constant has a type and numbers as dims");
    *out = sparta_tensor_view(dtype, dims.rank, dim, NULL);
    size_t bytes;
    if (sp_tensor_bytes(r->cx, dtype, dims.rank, dim, &bytes) != SPARTA_OK)
        return sp_graph_bad(r, "the dims are too large");
    return SPARTA_OK;
}

static sparta_status read_constant(sp_graph_reader *r, const fetching *f)
{
    const char *name, *origin = NULL;
    sparta_tensor t;
    SP_TRY(sp_graph_read_name(r, &name));
    SP_TRY(constant_type(r, &t));
    bool written = sp_graph_eat(r, '=');
    if (written) SP_TRY(sp_graph_read_elements(r, r->g->arena, &t));
    if (sp_graph_eat(r, '@')) SP_TRY(sp_graph_read_string(r, &origin));
    if (!written && !origin) return sp_graph_bad(r, "expected = or @");
    if (!written) SP_TRY(fetch_constant(r, f, origin, &t));
    sp_value *v;
    SP_TRY(sp_graph_add_constant(r->g, name, &t, false, &v));
    if (origin) {
        v->origin = sp_arena_string(r->g->arena, origin);
        SP_NEED(r->cx, v->origin);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ nodes */

typedef struct list {
    sp_value **value;
    int n, capacity;
} list;

static sparta_status append(sp_graph_reader *r, list *l, sp_value *v)
{
    SP_GROW(r->scratch, l->value, l->n, l->capacity);
    l->value[l->n++] = v;
    return SPARTA_OK;
}

static sparta_status read_use(sp_graph_reader *r, sp_value **out)
{
    const char *name;
    SP_TRY(sp_graph_read_name(r, &name));
    *out = sp_graph_find(r->g, name);
    if (*out) return SPARTA_OK;
    return sp_fail(r->cx, SPARTA_E_FORMAT, "graph text, line %d: '%.200s' is used before it is defined",
                   r->line, name);
}

static sparta_status read_inputs(sp_graph_reader *r, list *in)
{
    SP_TRY(sp_graph_expect(r, '('));
    if (sp_graph_eat(r, ')')) return SPARTA_OK;
    do {
        sp_value *v = NULL;
        sp_graph_skip(r);
        if (r->at[0] == '_' && !sp_graph_word_byte(r->at[1], false))
            r->at++;
        else
            SP_TRY(read_use(r, &v));
        SP_TRY(append(r, in, v));
    } while (sp_graph_eat(r, ','));
    return sp_graph_expect(r, ')');
}

static sparta_status read_op(sp_graph_reader *r, const sp_builtin **out)
{
    const char *domain = "", *name;
    SP_TRY(sp_graph_read_word(r, &name));
    if (r->at[0] == ':' && r->at[1] == ':') {
        r->at += 2;
        domain = name;
        SP_TRY(sp_graph_read_word(r, &name));
    }
    *out = sp_builtin_find(domain, name);
    if (*out) return SPARTA_OK;
    return sp_fail(r->cx, SPARTA_E_FORMAT, "graph text, line %d: no operator '%.100s' in domain '%.100s'",
                   r->line, name, domain);
}

/* The outputs become values only after the inputs were read: a node cannot use what it makes. */
typedef struct declared {
    const char *name;
    bool typed;
    sparta_dtype dtype;
    sp_dims dims;
    struct declared *next;
} declared;

static sparta_status read_outputs(sp_graph_reader *r, declared **out)
{
    do {
        declared *d = sp_arena_alloc(r->scratch, sizeof *d);
        SP_NEED(r->cx, d);
        SP_TRY(sp_graph_read_name(r, &d->name));
        SP_TRY(read_type(r, &d->typed, &d->dtype, &d->dims));
        *out = d;
        out = &d->next;
    } while (sp_graph_eat(r, ','));
    return sp_graph_expect(r, '=');
}

static sparta_status add_outputs(sp_graph_reader *r, const declared *d, list *out)
{
    for (; d; d = d->next) {
        sp_value *v;
        SP_TRY(sp_graph_add_value(r->g, d->name, &v));
        v->typed = d->typed;
        if (d->typed) {
            v->dtype = d->dtype;
            v->dims = d->dims;
        }
        SP_TRY(append(r, out, v));
    }
    return SPARTA_OK;
}

static sparta_status read_node(sp_graph_reader *r)
{
    declared *outputs = NULL;
    const sp_builtin *op;
    list in = {0}, out = {0};
    sp_attrs attrs = {0};
    const char *name = "";
    SP_TRY(read_outputs(r, &outputs));
    SP_TRY(read_op(r, &op));
    SP_TRY(read_inputs(r, &in));
    sp_graph_skip(r);
    if (*r->at == '{') SP_TRY(sp_graph_read_attrs(r, &attrs));
    sp_graph_skip(r);
    if (*r->at == '"') SP_TRY(sp_graph_read_string(r, &name));
    SP_TRY(add_outputs(r, outputs, &out));
    return sp_graph_add_node(r->g, op->id, name, in.n, in.value, out.n, out.value, &attrs, NULL);
}

/* ------------------------------------------------------------------ lines */

/* n[512]: at most so many; n[16,512]: at least and at most. */
static sparta_status read_bound(sp_graph_reader *r)
{
    const char *symbol;
    sp_dims said;
    int64_t least = 0, most = 0;
    SP_TRY(sp_graph_read_name(r, &symbol));
    SP_TRY(sp_graph_read_dims(r, r->scratch, &said));
    const bool numbers = (said.rank == 1 || said.rank == 2) &&
                         (said.rank == 1 || sp_expr_is_const(said.dim[0], &least)) &&
                         sp_expr_is_const(said.dim[said.rank - 1], &most);
    if (!numbers || least < 0 || most < 1 || most < least)
        return sp_graph_bad(r, "a bound is one number of at least 1, or two that do not descend");
    return sp_graph_add_bound(r->g, symbol, least, most);
}

static sparta_status read_must(sp_graph_reader *r)
{
    sp_dims pair;
    const char *node;
    SP_TRY(sp_graph_read_dims(r, r->scratch, &pair));
    if (pair.rank != 2) return sp_graph_bad(r, "a must is two sizes");
    sp_graph_skip(r);
    SP_TRY(sp_graph_read_string(r, &node));
    return sp_graph_add_must(r->g, pair.dim[0], pair.dim[1], node);
}

static sparta_status read_line(sp_graph_reader *r, const fetching *f)
{
    const char *kind;
    SP_TRY(sp_graph_read_word(r, &kind));
    if (strcmp(kind, "input") == 0) return read_input(r);
    if (strcmp(kind, "const") == 0) return read_constant(r, f);
    if (strcmp(kind, "node") == 0) return read_node(r);
    if (strcmp(kind, "bound") == 0) return read_bound(r);
    if (strcmp(kind, "must") == 0) return read_must(r);
    if (strcmp(kind, "output") != 0)
        return sp_graph_bad(r, "expected input, bound, must, const, node or output");
    sp_value *v;
    SP_TRY(read_use(r, &v));
    return sp_graph_add_output(r->g, v);
}

static sparta_status end_line(sp_graph_reader *r)
{
    sp_graph_skip(r);
    if (*r->at != '\n' && *r->at) return sp_graph_bad(r, "more than was expected");
    if (*r->at) r->at++;
    r->line++;
    return SPARTA_OK;
}

static sparta_status read_lines(sp_graph_reader *r, const fetching *f)
{
    while (*r->at) {
        SP_TRY(sp_check_cancel(r->cx));
        sp_graph_skip(r);
        if (*r->at != '\n' && *r->at) {
            r->scratch = sp_arena_create(r->cx);
            SP_NEED(r->cx, r->scratch);
            sparta_status status = read_line(r, f);
            sp_arena_free(r->scratch);
            SP_TRY(status);
        }
        SP_TRY(end_line(r));
    }
    return sp_graph_verify(r->g);
}

static sparta_status read_header(sp_graph_reader *r, const char **name)
{
    const char *word;
    SP_TRY(sp_graph_read_word(r, &word));
    if (strcmp(word, "graph") != 0) return sp_graph_bad(r, "expected 'graph \"name\"' first");
    SP_TRY(sp_graph_read_string(r, name));
    return end_line(r);
}

sparta_status sp_graph_parse(sparta_ctx *cx, const char *text, sp_graph_fetch fetch, void *arg,
                             sp_graph **out)
{
    if (strnlen(text, LONGEST) == LONGEST)
        return sp_fail(cx, SPARTA_E_LIMIT, "graph text: longer than %zu MiB", LONGEST >> 20);
    sp_graph_reader r = {.cx = cx, .at = text, .line = 1};
    const char *name;
    r.scratch = sp_arena_create(cx);
    SP_NEED(cx, r.scratch);
    sparta_status status = read_header(&r, &name);
    if (status == SPARTA_OK) status = sp_graph_create(cx, name, &r.g);
    sp_arena_free(r.scratch);
    fetching f = {fetch, arg};
    if (status == SPARTA_OK) status = read_lines(&r, &f);
    if (status == SPARTA_OK)
        *out = r.g;
    else
        sp_graph_free(r.g);
    return status;
}
