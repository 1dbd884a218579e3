/* module.c: which module of PyTorch a node is part of. An exporter that transposes a Linear's weight gives the result a name of its own
 * ("onnx::MatMul_317", "val_53"); what people know it by is the module's path. Each exporter says it in its own way:
 *
 *     older   name of the node    /bert/encoder/layer.0/query/MatMul        ->  bert.encoder.layer.0.query
 *                                 /layers/layers.0/MatMul                   ->  layers.0     (a list repeats its name)
 *     newer   metadata            pkg.torch.onnx.name_scopes:
 *                                 ['', 'h.0', 'h.0.query', 'linear']        ->  h.0.query
 *     either  a product's weight  h.0.query.weight                          ->  h.0.query
 *             or bias             h.0.query.bias, where tools took the metadata away; one that others read too says nothing,
 *                                 because exporters and tools store equal biases once
 *
 * What does not look so is no error: the node then is part of no module that is known. A product whose name an exporter counted (node_MatMul_83)
 * is called as its module, which is how programs of torch.export have it; names that people gave stay. */
#include "import/onnx.h"
#include <string.h>

#define SCOPES "pkg.torch.onnx.name_scopes"

enum { LONGEST = 1000 }; /* path of a module */

/* The last but one of the quoted words: the last is the call inside the module. */
static sparta_status last_scope(sp_importer *im, const char *list, const char **out)
{
    const char *word = NULL, *before = NULL;
    size_t length = 0, length_before = 0;
    for (const char *p = strchr(list, '\''), *end; p && (end = strchr(p + 1, '\''));
         p = strchr(end + 1, '\'')) {
        before = word;
        length_before = length;
        word = p + 1;
        length = (size_t)(end - word);
    }
    if (!before || !length_before) return SPARTA_OK;
    const char *module =
        sp_arena_printf(im->scratch, "%.*s", (int)SP_MIN(length_before, (size_t)LONGEST), before);
    SP_NEED(im->cx, module);
    *out = module;
    return SPARTA_OK;
}

sparta_status sp_onnx_read_scopes(sp_importer *im, sp_bytes entry, const char **out)
{
    sp_wire w = sp_wire_of(im->cx, "StringStringEntryProto", entry);
    sp_wire_field f, value = {0};
    bool scopes = false;
    const char *list;
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == ENTRY_KEY && f.type == SP_WIRE_BYTES)
            scopes = f.bytes.size == strlen(SCOPES) && !memcmp(f.bytes.data, SCOPES, f.bytes.size);
        if (f.number == ENTRY_VALUE) value = f;
    }
    if (!scopes || !value.number) return SPARTA_OK;
    SP_TRY(sp_wire_string(&w, &value, im->scratch, &list));
    return last_scope(im, list, out);
}

/* Does the next segment say this one again, with an index: "layers" before "layers.0"? */
static bool is_repeated(const char *segment, size_t n, const char *next)
{
    return !strncmp(segment, next, n) && next[n] == '.';
}

/* Where the operator's segment begins; what onnxruntime's optimiser puts behind it, /query/MatMul/MatMulAddFusion, is none. */
static const char *operator_in(const char *name)
{
    static const char fusion[] = "Fusion";
    const char *last = strrchr(name, '/'), *before = last;
    const size_t n = last ? strlen(last) : 0, end = strlen(fusion);
    if (n <= end || strcmp(last + n - end, fusion) != 0) return last;
    while (before > name && *--before != '/') {}
    return before;
}

sparta_status sp_onnx_module_of_name(sp_importer *im, const char *name, const char **out)
{
    const char *last = operator_in(name);
    if (*name != '/' || last == name) return SPARTA_OK;
    char *path = sp_arena_alloc(im->scratch, (size_t)(last - name) + 1), *to = path;
    SP_NEED(im->cx, path);
    for (const char *p = name + 1; p < last;) {
        const size_t n = strcspn(p, "/");
        if (p + n == last || !is_repeated(p, n, p + n + 1)) {
            if (to > path) *to++ = '.';
            memcpy(to, p, n);
            to += n;
        }
        p += n + 1;
    }
    *to = 0;
    if (to > path) *out = path;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ layers */

/* "h.0.query.weight" -> "h.0.query", of a constant or of one that is transposed. Anything else leaves *out. */
static sparta_status owner(sp_graph *g, const sp_value *v, const char *tail, const char **out)
{
    if (v && v->producer && v->producer->op == SP_OP_Transpose) v = v->producer->in[0];
    const char *name = v && v->constant ? v->name : "";
    const size_t n = strlen(name), end = strlen(tail);
    if (*out || n <= end || n - end > LONGEST || strcmp(name + n - end, tail) != 0) return SPARTA_OK;
    *out = sp_arena_bytes(g->arena, name, n - end);
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

/* That of a bias, unless another node reads it too: it may be a layer normalisation's, which was equal to this one. */
static sparta_status owner_of_bias(sp_graph *g, const sp_users *u, const sp_value *v, const char **out)
{
    const bool alone = v && u->first[v->id + 1] - u->first[v->id] == 1;
    return alone ? owner(g, v, ".bias", out) : SPARTA_OK;
}

/* The module that a product's parameters are of: its own, or the bias that is added to it. */
static sparta_status owner_of(sp_graph *g, const sp_users *u, const sp_node *n, const char **out)
{
    *out = NULL;
    if (n->n_in > 1) SP_TRY(owner(g, n->in[1], ".weight", out));
    if (n->n_in > 2) SP_TRY(owner_of_bias(g, u, n->in[2], out));
    const bool weight = n->op == SP_OP_MatMul && n->in[1] && n->in[1]->constant;
    const int id = n->out[0]->id;
    for (int i = u->first[id]; i < u->first[id + 1] && weight; i++) {
        const sp_node *add = g->node[u->user[i]];
        if (add->op == SP_OP_Add) SP_TRY(owner_of_bias(g, u, add->in[add->in[0] == n->out[0]], out));
    }
    return SPARTA_OK;
}

/* Is the name an exporter's: none, node_linear, node_MatMul_83 or MatMul_12? What onnxruntime puts behind it does not matter:
 * node_MatMul_113/MatMulAddFusion. */
static bool is_counted(const sp_node *n)
{
    static const char newer[] = "node_";
    const char *op = sp_builtin_row(n->op)->name;
    const size_t length = strlen(op);
    if (!*n->name || !strncmp(n->name, newer, strlen(newer))) return true;
    if (strncmp(n->name, op, length) != 0 || n->name[length] != '_') return false;
    const char *count = n->name + length + 1;
    return *count && !count[strspn(count, "0123456789")];
}

sparta_status sp_onnx_name_layers(sp_importer *im)
{
    sp_graph *g = im->g;
    sp_users u;
    SP_TRY(sp_graph_users(g, im->keep, &u));
    for (int i = 0; i < g->n_nodes; i++) {
        sp_node *n = g->node[i];
        if (!SP_OP_AMONG(n->op, SP_OP_MatMul, SP_OP_Gemm, SP_OP_Conv, SP_OP_ConvTranspose, SP_OP_Einsum,
                         SP_OP_OnnxAttention) ||
            (strpbrk(n->name, "./") && !is_counted(n)))
            continue;
        if (!n->module) SP_TRY(owner_of(g, &u, n, &n->module));
        if (n->module && is_counted(n)) n->name = n->module;
    }
    return SPARTA_OK;
}
