/* pt2_graph.c: the walk over a program of torch.export:
 *
 *     version -> every overload known? -> inputs, weights -> nodes, in their order -> outputs -> verify
 *
 * Nodes name what they read; a name stands for a value of our graph (the scope). Overloads that change their first operand in place give the
 * name another value. What else was a view of that memory is then out of date: reading it is an error, not an old answer. */
#include "import/aten.h"
#include <string.h>

/* ------------------------------------------------------------------ the scope */

static sparta_status bind(sp_pt2 *p, const sp_pt2_value *value)
{
    SP_GROW(p->keep, p->value, p->n_values, p->value_capacity);
    p->value[p->n_values] = *value;
    return sp_map_put(p->scope, value->name, p->n_values++);
}

/* Memory of its own. */
static sparta_status new_root(sp_pt2 *p, sp_pt2_value *v)
{
    SP_GROW(p->keep, p->versions, p->n_roots, p->version_capacity);
    p->versions[p->n_roots] = 0;
    v->version = 0;
    v->root = p->n_roots++;
    return SPARTA_OK;
}

sparta_status sp_pt2_find(sp_pt2 *p, const char *name, sp_pt2_value **out)
{
    int64_t at;
    if (!sp_map_get(p->scope, name, &at))
        return sp_fail(p->cx, SPARTA_E_FORMAT, "'%.200s' is read and nothing before it makes it", name);
    sp_pt2_value *v = &p->value[at];
    if (!v->v)
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED, "'%.200s' is a result that is not supported", name);
    if (v->version != p->versions[v->root])
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                       "'%.200s' is a view of memory that was changed in place since; make the program "
                       "functional before it is saved: "
                       "program.run_decompositions({})",
                       name);
    *out = v;
    return SPARTA_OK;
}

/* Type and rank as the file says. */
static sparta_status read_type(sp_pt2 *p, const json_value *meta, sp_pt2_value *out)
{
    const json_value *sizes = sp_json_get(meta, "sizes");
    int64_t code;
    if (!sizes || sizes->kind != JSON_ARRAY || !sp_json_int(sp_json_get(meta, "dtype"), &code))
        return sp_fail(p->cx, SPARTA_E_FORMAT, "'%.200s' has no type", out->name);
    if (!sp_pt2_dtype(code, &out->dtype) || sizes->n > SPARTA_RANK)
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                       "'%.200s': element type %lld of PyTorch's schema, or %d dims; f32, f16, bf16, f64, "
                       "bool and integers of at most %d "
                       "dims are supported",
                       out->name, (long long)code, sizes->n, SPARTA_RANK);
    out->rank = sizes->n;
    out->meta = meta;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ inputs and weights */

static const char *tensor_name(const json_value *arg)
{
    return sp_json_text(sp_json_get(sp_json_get(arg, "as_tensor"), "name"));
}

static sparta_status add_input(sp_pt2 *p, const json_value *spec)
{
    const json_value *arg = sp_json_get(spec, "arg");
    sp_pt2_value v = {.name = tensor_name(arg), .fixed = true};
    sp_dims dims;
    if (!v.name) {
        const json_value *what = sp_json_first(arg);
        if (what && what->key && !strcmp(what->key, "as_none")) return SPARTA_OK;
        return sp_fail(
            p->cx, SPARTA_E_UNSUPPORTED,
            "an input is a number or another object that varies; export the module with tensors as inputs");
    }
    SP_TRY(read_type(p, sp_pt2_row(&p->metas, v.name), &v));
    sparta_status s = sp_pt2_dims(p, sp_json_get(v.meta, "sizes"), &dims);
    if (s == SPARTA_OK) s = sp_graph_add_input(p->g, v.name, v.dtype, &dims, &v.v);
    if (s == SPARTA_OK) s = new_root(p, &v);
    if (s == SPARTA_OK) s = bind(p, &v);
    return s == SPARTA_OK ? s : sp_fail_in(p->cx, "input '%.200s'", v.name);
}

typedef struct stored { /* where tensors are said to be */
    sp_pt2_index weights, constants;
} stored;

/* A parameter, buffer or constant: `name` in the graph, `full` in the module. */
static sparta_status add_weight(sp_pt2 *p, const stored *where, const char *name, const char *full)
{
    sp_pt2_value v = {.name = name, .fixed = true};
    const json_value *weight = full ? sp_pt2_row(&where->weights, full) : NULL,
                     *row = weight ? weight
                            : full ? sp_pt2_row(&where->constants, full)
                                   : NULL;
    sparta_tensor t;
    if (!name || !full) return sp_fail(p->cx, SPARTA_E_FORMAT, "a parameter has no name");
    if (!row)
        return sp_fail(p->cx, SPARTA_E_FORMAT,
                       "'%.200s' is not among the archive's weights; export the program again with PyTorch "
                       "2.10 or later",
                       full);
    SP_TRY(sp_pt2_tensor(p, row, weight ? "weights" : "constants", &t));
    v.dtype = t.dtype;
    v.rank = t.rank;
    v.meta = sp_json_get(row, "tensor_meta");
    /* An input or node may have the name already: theirs is what people type. */
    SP_TRY(sp_graph_add_constant(p->g, sp_graph_find(p->g, full) ? NULL : full, &t, false, &v.v));
    v.v->origin = sp_arena_string(p->g->arena, full);
    SP_NEED(p->cx, v.v->origin);
    if (sp_dtype_is_float(t.dtype) &&
        !sp_int_add(p->model->parameters, sparta_tensor_elements(&t), &p->model->parameters))
        return sp_fail(p->cx, SPARTA_E_LIMIT, "more parameters than can be counted");
    SP_TRY(new_root(p, &v));
    return bind(p, &v);
}

static sparta_status add_stored(sp_pt2 *p, const stored *where, const json_value *spec)
{
    static const char *const kinds[][2] = {{"parameter", "parameter_name"},
                                           {"buffer", "buffer_name"},
                                           {"tensor_constant", "tensor_constant_name"}};
    for (size_t i = 0; i < SP_COUNT(kinds); i++) {
        if (strcmp(spec->key, kinds[i][0]) != 0) continue;
        const char *full = sp_json_text(sp_json_get(spec, kinds[i][1]));
        if (add_weight(p, where, sp_json_text(sp_json_get(sp_json_get(spec, "arg"), "name")), full) !=
            SPARTA_OK)
            return sp_fail_in(p->cx, "%s '%.200s'", kinds[i][0], full ? full : "");
        return SPARTA_OK;
    }
    if (!strcmp(spec->key, "constant_input") || !strcmp(spec->key, "user_input")) return SPARTA_OK;
    return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                   "an input of kind '%.100s'; tensors and parameters are supported", spec->key);
}

/* Call `step` with what every spec of a list says; its key is the kind. */
static sparta_status each_spec(sp_pt2 *p, const json_value *list,
                               sparta_status (*step)(sp_pt2 *, const json_value *))
{
    for (const json_value *s = sp_json_first(list); s; s = s->next) {
        const json_value *what = sp_json_first(s);
        SP_TRY(sp_check_cancel(p->cx));
        if (!what || !what->key) return sp_fail(p->cx, SPARTA_E_FORMAT, "the signature is malformed");
        SP_TRY(step(p, what));
    }
    return SPARTA_OK;
}

static sparta_status name_sizes(sp_pt2 *p, const json_value *spec)
{
    const char *name = strcmp(spec->key, "user_input") ? NULL : tensor_name(sp_json_get(spec, "arg"));
    return name ? sp_pt2_name_symbols(p, name, sp_json_get(sp_pt2_row(&p->metas, name), "sizes")) : SPARTA_OK;
}

static sparta_status add_if_input(sp_pt2 *p, const json_value *spec)
{
    return strcmp(spec->key, "user_input") ? SPARTA_OK : add_input(p, spec);
}

static sparta_status add_all_stored(sp_pt2 *p, const stored *where, const json_value *list)
{
    for (const json_value *s = sp_json_first(list); s; s = s->next) {
        SP_TRY(sp_check_cancel(p->cx));
        SP_TRY(add_stored(p, where, s->first));
    }
    return SPARTA_OK;
}

static sparta_status read_config(sp_pt2 *p, const char *kind, sp_pt2_index *out)
{
    const json_value *config;
    const char *path = sp_arena_printf(p->keep, "data/%s/%s_%s_config.json", kind, p->name, kind);
    SP_NEED(p->cx, path);
    SP_TRY(sp_pt2_json(p, path, &config));
    return sp_pt2_index_of(p, sp_json_get(config, "config"), out);
}

static sparta_status add_inputs(sp_pt2 *p, const json_value *specs)
{
    stored where = {{0}, {0}};
    SP_TRY(each_spec(p, specs, name_sizes));
    SP_TRY(each_spec(p, specs, add_if_input));
    sparta_status s = read_config(p, "weights", &where.weights);
    if (s == SPARTA_OK) s = read_config(p, "constants", &where.constants);
    if (s == SPARTA_OK) s = add_all_stored(p, &where, specs);
    sp_map_free(where.weights.map);
    sp_map_free(where.constants.map);
    return s;
}

/* ------------------------------------------------------------------ nodes */

/* Names of what a node gives: {"as_tensor": {"name"}}, {"as_tensors": [{"name"}, ...]}, {"as_sym_int": {"as_name"}}. */
static sparta_status read_outputs(sp_pt2 *p, sp_aten *b, bool *sizes)
{
    const json_value *list = sp_json_get(b->node, "outputs");
    int most = 1;
    *sizes = false;
    for (const json_value *o = sp_json_first(list); o; o = o->next)
        most += 1 + (sp_json_first(o) ? sp_json_first(o)->n : 0);
    b->out_name = sp_arena_array(p->keep, (size_t)most, sizeof *b->out_name);
    b->out = sp_arena_array(p->keep, (size_t)most, sizeof *b->out);
    if (!b->out_name || !b->out) return sp_ctx_status(p->cx);
    for (const json_value *o = sp_json_first(list); o; o = o->next) {
        const json_value *what = sp_json_first(o);
        if (!what || !what->key) continue;
        const bool many = what->kind == JSON_ARRAY;
        for (const json_value *v = many ? what->first : what; v; v = many ? v->next : NULL) {
            const char *name = sp_json_text(sp_json_get(v, "name")),
                       *size = sp_json_text(sp_json_get(v, "as_name"));
            *sizes |= size != NULL;
            if (!name && !size) continue;
            b->out[b->n_names] = NULL;
            b->out_name[b->n_names++] = name ? name : size;
        }
    }
    return SPARTA_OK;
}

/* The name that the file has for it, where it has none of its own yet. */
static sparta_status name_value(sp_pt2 *p, sp_value *v, const char *name)
{
    if (!v->producer || v->name[0] != '%' || sp_graph_find(p->g, name)) return SPARTA_OK;
    return sp_graph_rename(p->g, v, name);
}

static sparta_status bind_output(sp_pt2 *p, const sp_aten *b, int i, const sp_pt2_value *first, bool in_place,
                                 bool size)
{
    sp_pt2_value v = {.name = b->out_name[i], .v = b->out[i], .dtype = SPARTA_I64, .rank = 1, .size = size};
    if (!size && v.v) SP_TRY(read_type(p, sp_pt2_row(&p->metas, v.name), &v));
    if (v.v) SP_TRY(name_value(p, v.v, v.name));
    if (first && (in_place || (b->row->view && v.dtype == first->dtype))) { /* another type is a copy */
        v.root = first->root;
        v.version = p->versions[v.root];
        v.fixed = first->fixed;
        return bind(p, &v);
    }
    SP_TRY(new_root(p, &v));
    return bind(p, &v);
}

/* The operand that a node may change, or whose memory its result may share. */
static sp_pt2_value *first_operand(sp_pt2 *p, const sp_aten *b)
{
    const json_value *arg = sp_json_get(sp_json_first(sp_json_get(b->node, "inputs")), "arg");
    const char *name = tensor_name(arg);
    int64_t at;
    return name && sp_map_get(p->scope, name, &at) ? &p->value[at] : NULL;
}

/* The first operand is the result from now on; other views of its memory are out of date. */
static sparta_status change(sp_pt2 *p, const sp_aten *b, sp_pt2_value *first)
{
    if (!first || !b->out[0]) return sp_fail(p->cx, SPARTA_E_FORMAT, "it changes nothing");
    if (b->out[0] == first->v) return SPARTA_OK; /* as dropout_ in eval mode leaves it */
    if (first->fixed)
        return sp_fail(
            p->cx, SPARTA_E_UNSUPPORTED,
            "it changes '%.200s', an input or a weight, in place; export module.eval(), or keep a copy",
            first->name);
    p->versions[first->root]++;
    sp_pt2_value after = *first;
    after.v = b->out[0];
    after.version = p->versions[first->root];
    return bind(p, &after);
}

static sparta_status build(sp_pt2 *p, sp_aten *b, bool in_place, bool size)
{
    sp_value *y = b->row->build(b);
    if (b->status != SPARTA_OK) return b->status;
    if (b->bound) return SPARTA_OK;
    if (b->n_names) b->out[0] = y;
    sp_pt2_value *first = first_operand(p, b);
    if (in_place) {
        SP_TRY(change(p, b, first));
        first = first_operand(p, b);
    }
    for (int i = 0; i < b->n_names; i++) SP_TRY(bind_output(p, b, i, first, in_place, size));
    return SPARTA_OK;
}

static sparta_status describe(sp_pt2 *p, sp_aten *b, bool size)
{
    sp_pt2_value type = {.name = b->n_names ? b->out_name[0] : ""};
    const json_value *meta = size || !b->n_names ? NULL : sp_pt2_row(&p->metas, type.name);
    const char *called = sp_json_text(sp_json_get(b->node, "name"));
    b->module =
        sp_pt2_module(p, sp_json_text(sp_json_get(sp_json_get(b->node, "metadata"), "nn_module_stack")));
    b->name = b->module ? b->module : called ? called : type.name;
    b->dtype = SPARTA_I64;
    if (!meta) return SPARTA_OK;
    SP_TRY(read_type(p, meta, &type));
    b->dtype = type.dtype;
    b->rank = type.rank;
    b->meta = meta;
    return SPARTA_OK;
}

static sparta_status add_node(sp_pt2 *p, const json_value *node)
{
    const char *target = sp_json_text(sp_json_get(node, "target"));
    bool in_place, size;
    sp_aten b = {.p = p, .node = node};
    if (!target || !(b.row = sp_aten_find(p, target, &in_place)))
        return sp_fail(p->cx, SPARTA_E_FORMAT, "a node has no operator");
    SP_TRY(read_outputs(p, &b, &size));
    sparta_status s = describe(p, &b, size);
    if (s == SPARTA_OK) s = build(p, &b, in_place, size);
    if (s != SPARTA_OK)
        return sp_fail_in(p->cx, "node '%.200s' (%.100s)", b.n_names ? b.out_name[0] : b.name,
                          b.row->overload);
    return SPARTA_OK;
}

static sparta_status add_nodes(sp_pt2 *p, const json_value *graph)
{
    for (const json_value *n = sp_json_first(sp_json_get(graph, "nodes")); n; n = n->next) {
        SP_TRY(sp_check_cancel(p->cx));
        SP_TRY(add_node(p, n));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ graphs in graphs */

/* The inputs of an inner graph: what the call gives behind the graph itself, in their order. */
static sparta_status bind_inner(sp_pt2 *p, sp_map *outer, const json_value *graph, const json_value *call)
{
    const json_value *given = sp_json_first(sp_json_get(call, "inputs"));
    while (given && !sp_json_get(sp_json_get(given, "arg"), "as_graph")) given = given->next;
    given = given ? given->next : NULL;
    for (const json_value *in = sp_json_first(sp_json_get(graph, "inputs")); in; in = in->next) {
        const json_value *arg = sp_json_get(given, "arg");
        const char *size = sp_json_text(sp_json_get(sp_json_get(arg, "as_sym_int"), "as_name")),
                   *to = tensor_name(in)
                             ? tensor_name(in)
                             : sp_json_text(sp_json_get(sp_json_get(in, "as_sym_int"), "as_name")),
                   *from = tensor_name(arg) ? tensor_name(arg) : size;
        int64_t at;
        if (!to || !from || !sp_map_get(outer, from, &at))
            return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                           "an input of its graph is neither a tensor nor a size");
        sp_pt2_value v = p->value[at];
        v.name = to;
        SP_TRY(bind(p, &v));
        given = given->next;
    }
    return SPARTA_OK;
}

static sparta_status bind_results(sp_pt2 *p, sp_map *inner, sp_map *outer, const json_value *graph, int n,
                                  const char *const *names)
{
    const json_value *out = sp_json_first(sp_json_get(graph, "outputs"));
    for (int i = 0; i < n; i++, out = out->next) {
        const char *size = sp_json_text(sp_json_get(sp_json_get(out, "as_sym_int"), "as_name")),
                   *from = tensor_name(out) ? tensor_name(out) : size;
        sp_pt2_value *found;
        if (!from)
            return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                           "an output of its graph is neither a tensor nor a size");
        p->scope = inner;
        SP_TRY(sp_pt2_find(p, from, &found));
        sp_pt2_value v = *found;
        v.name = names[i];
        p->scope = outer;
        SP_TRY(bind(p, &v));
    }
    return SPARTA_OK;
}

static sparta_status walk_inner(sp_pt2 *p, sp_map *outer, const json_value *graph, const json_value *call,
                                int n, const char *const *names)
{
    sp_map *inner = p->scope;
    SP_TRY(sp_pt2_index_of(p, sp_json_get(graph, "tensor_values"), &p->metas));
    SP_TRY(bind_inner(p, outer, graph, call));
    SP_TRY(add_nodes(p, graph));
    return bind_results(p, inner, outer, graph, n, names);
}

sparta_status sp_pt2_graph_in(sp_pt2 *p, const json_value *graph, const json_value *call, int n,
                              const char *const *names)
{
    sp_map *outer = p->scope, *inner = sp_map_create(p->cx);
    const sp_pt2_index metas = p->metas;
    SP_NEED(p->cx, inner);
    p->scope = inner;
    p->metas = (sp_pt2_index){0};
    const sparta_status s = walk_inner(p, outer, graph, call, n, names);
    sp_map_free(p->metas.map);
    sp_map_free(inner);
    p->scope = outer;
    p->metas = metas;
    return s;
}

/* ------------------------------------------------------------------ what is not supported */

enum { TOLD = 20 }; /* overloads in a message */

typedef struct unknown {
    sp_map *seen;
    sp_text list;
    int n;
} unknown;

static sparta_status look_at(sp_pt2 *p, const json_value *graph, unknown *u, int depth)
{
    bool in_place;
    if (!depth) return sp_fail(p->cx, SPARTA_E_LIMIT, "graphs are nested too deep");
    for (const json_value *n = sp_json_first(sp_json_get(graph, "nodes")); n; n = n->next) {
        const char *target = sp_json_text(sp_json_get(n, "target"));
        SP_TRY(sp_check_cancel(p->cx));
        if (!target) return sp_fail(p->cx, SPARTA_E_FORMAT, "a node has no operator");
        for (const json_value *a = sp_json_first(sp_json_get(n, "inputs")); a; a = a->next) {
            const json_value *inner = sp_json_get(sp_json_get(sp_json_get(a, "arg"), "as_graph"), "graph");
            if (inner) SP_TRY(look_at(p, inner, u, depth - 1));
        }
        if (sp_aten_find(p, target, &in_place) || sp_map_get(u->seen, target, NULL)) continue;
        SP_TRY(sp_map_put(u->seen, target, 1));
        const char *plain = strncmp(target, "torch.ops.", 10) ? target : target + 10;
        if (u->n < TOLD) sp_text_printf(&u->list, "%s%.100s", u->n ? ", " : "", plain);
        u->n++;
    }
    return SPARTA_OK;
}

/* Has it been through run_decompositions()? Then PyTorch's verifier of core ATen passed it. */
static bool is_functional(const json_value *program)
{
    const char *verifier = sp_json_text(sp_json_first(sp_json_get(program, "verifiers")));
    return verifier && !strcmp(verifier, "ATEN");
}

static sparta_status check_overloads(sp_pt2 *p, const json_value *program, const json_value *graph)
{
    unknown u = {.seen = sp_map_create(p->cx)};
    SP_NEED(p->cx, u.seen);
    sp_text_init(&u.list, p->cx);
    sparta_status s = look_at(p, graph, &u, SP_PT2_DEPTH);
    if (s == SPARTA_OK && u.n)
        s = sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                    "%s not supported: %s%s; leave that part out of the module%s "
                    "(docs/operators.md lists what is)",
                    u.n > 1 ? "these operators are" : "this operator is", sp_text_str(&u.list),
                    u.n > TOLD ? " and more" : "",
                    is_functional(program) ? "" : ", or try program.run_decompositions() before it is saved");
    sp_text_free(&u.list);
    sp_map_free(u.seen);
    return s;
}

/* ------------------------------------------------------------------ outputs */

/* A name like `wanted` that nothing has. */
static const char *free_name(sp_pt2 *p, const char *wanted)
{
    const char *name = wanted;
    for (int i = 1; name && sp_graph_find(p->g, name); i++)
        name = sp_arena_printf(p->keep, "%s_%d", wanted, i);
    return name;
}

static sparta_status add_output(sp_pt2 *p, const sp_pt2_value *x, const char *name)
{
    sp_value *v = x->v;
    if (*name && strcmp(v->name, name) != 0) name = free_name(p, name);
    SP_NEED(p->cx, name);
    if (v->is_input || v->is_output || !v->producer) { /* one value, another output */
        sp_value *out = NULL;
        SP_TRY(sp_graph_add_node(p->g, SP_OP_Identity, name, 1, &v, 1, &out, NULL, NULL));
        v = out;
    }
    if (*name && strcmp(v->name, name) != 0) SP_TRY(sp_graph_rename(p->g, v, name));
    return sp_graph_add_output(p->g, v);
}

static sparta_status add_outputs(sp_pt2 *p, const json_value *specs, const json_value *calls)
{
    const char *structure =
        sp_json_text(sp_json_get(sp_json_get(sp_json_first(calls), "signature"), "out_spec"));
    const int n = specs && specs->kind == JSON_ARRAY ? specs->n : 0;
    const char **name = sp_arena_array(p->keep, (size_t)n + 1, sizeof *name);
    int at = 0;
    SP_NEED(p->cx, name);
    SP_TRY(sp_pt2_output_names(p, structure, n, name));
    for (const json_value *s = sp_json_first(specs); s; s = s->next) {
        const json_value *spec = sp_json_get(s, "user_output");
        sp_pt2_value *x;
        SP_TRY(sp_check_cancel(p->cx));
        if (!spec)
            return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                           "it changes an input, a buffer or a parameter (%.60s); export module.eval(), and "
                           "give back what changes",
                           s->first && s->first->key ? s->first->key : "");
        const char *from = tensor_name(sp_json_get(spec, "arg")), *to = name[at++];
        if (!from) continue; /* None and numbers */
        if (sp_pt2_find(p, from, &x) != SPARTA_OK) return sp_fail_in(p->cx, "output %d", at - 1);
        SP_TRY(add_output(p, x, n == 1 && !*to ? "output" : to));
    }
    return p->g->n_outputs ? SPARTA_OK : sp_fail(p->cx, SPARTA_E_FORMAT, "it gives no tensors back");
}

/* ------------------------------------------------------------------ all of it */

static sparta_status check_version(sp_pt2 *p, const json_value *program)
{
    const json_value *version = sp_json_get(program, "schema_version");
    const char *torch = sp_json_text(sp_json_get(program, "torch_version"));
    int64_t major;
    if (!sp_json_int(sp_json_get(version, "major"), &major))
        return sp_fail(p->cx, SPARTA_E_FORMAT,
                       "it does not say the version of its schema; it is no program of torch.export");
    if (major != SP_PT2_MAJOR)
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                       "its schema has version %lld (PyTorch %.40s) and version %d is read; export the "
                       "program again with PyTorch 2.10 or "
                       "later, or write ONNX: torch.onnx.export(torch.export.load(FILE), f=\"model.onnx\")",
                       (long long)major, torch ? torch : "?", SP_PT2_MAJOR);
    return SPARTA_OK;
}

static sparta_status import(sp_pt2 *p, sp_bytes file)
{
    const json_value *program;
    SP_TRY(sp_graph_create(p->cx, "program", &p->model->graph));
    p->g = p->model->graph;
    SP_TRY(sp_aten_index(p));
    SP_TRY(sp_pt2_open(p, file));
    const char *path = sp_arena_printf(p->keep, "models/%s.json", p->name);
    SP_NEED(p->cx, path);
    SP_TRY(sp_pt2_json(p, path, &program));
    SP_TRY(check_version(p, program));
    SP_TRY(sp_pt2_json(p, "extra/sparta-sizes.json", &p->sizes));
    if (p->sizes && p->sizes->kind != JSON_OBJECT)
        return sp_fail(p->cx, SPARTA_E_FORMAT,
                       "extra/sparta-sizes.json: expected {\"x_0\": \"batch\"}: a name for each size");
    const json_value *module = sp_json_get(program, "graph_module"), *graph = sp_json_get(module, "graph"),
                     *signature = sp_json_get(module, "signature");
    if (!graph || !signature) return sp_fail(p->cx, SPARTA_E_FORMAT, "%.200s: there is no graph in it", path);
    SP_TRY(check_overloads(p, program, graph));
    SP_TRY(sp_pt2_index_of(p, sp_json_get(graph, "tensor_values"), &p->metas));
    SP_TRY(add_inputs(p, sp_json_get(signature, "input_specs")));
    SP_TRY(sp_pt2_bounds(p, sp_json_get(program, "range_constraints")));
    SP_TRY(add_nodes(p, graph));
    SP_TRY(add_outputs(p, sp_json_get(signature, "output_specs"), sp_json_get(module, "module_call_graph")));
    SP_TRY(sp_graph_sweep(p->g));
    return sp_graph_verify(p->g);
}

sparta_status sp_pt2_import(sp_model *m, sparta_ctx *cx, sp_bytes file)
{
    sp_pt2 p = {.cx = cx,
                .model = m,
                .keep = sp_arena_create(cx),
                .members = sp_map_create(cx),
                .symbols = sp_map_create(cx),
                .symbol_used = sp_map_create(cx),
                .scope = sp_map_create(cx)};
    const bool all = p.keep && p.members && p.symbols && p.symbol_used && p.scope;
    const sparta_status s = all ? import(&p, file) : sp_ctx_status(cx);
    sp_map *const maps[] = {p.members, p.symbols, p.symbol_used, p.scope, p.metas.map, p.overloads};
    for (size_t i = 0; i < SP_COUNT(maps); i++) sp_map_free(maps[i]);
    sp_arena_free(p.keep);
    return s;
}
