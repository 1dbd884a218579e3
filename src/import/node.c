/* node.c: a NodeProto. Nodes may stand in any order in the file, so all outputs become values first
 * (declare), and then the nodes are made and find their inputs by name. Constant nodes become constants at
 * once. */
#include "import/onnx.h"
#include <string.h>

/* No operator has half as many; upgrade.c may add two. */
#define MOST_ATTRIBUTES 32

static sparta_status read_node(sp_importer *im, sp_bytes bytes, sp_onnx_node *n)
{
    sp_wire w = sp_wire_of(im->cx, "NodeProto", bytes);
    sp_wire_field f;
    const char *output = "";
    *n = (sp_onnx_node){.domain = "", .op = "", .name = ""};
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        switch (f.number) {
        case 0:
            if (!*n->name) n->name = output; /* layers are known by their names */
            return *n->op ? SPARTA_OK
                          : sp_fail(im->cx, SPARTA_E_FORMAT, "node '%.200s': it has no operator", n->name);
        case NODE_INPUT: n->n_in++; break;
        case NODE_OUTPUT:
            if (!n->n_out++) SP_TRY(sp_wire_string(&w, &f, im->scratch, &output));
            break;
        case NODE_ATTRIBUTE: n->n_attr++; break;
        case NODE_NAME: SP_TRY(sp_wire_string(&w, &f, im->scratch, &n->name)); break;
        case NODE_OP: SP_TRY(sp_wire_string(&w, &f, im->scratch, &n->op)); break;
        case NODE_DOMAIN: SP_TRY(sp_wire_string(&w, &f, im->scratch, &n->domain)); break;
        default: break;
        }
        if (n->n_attr > MOST_ATTRIBUTES)
            return sp_fail(im->cx, SPARTA_E_LIMIT, "node '%.200s': more than %d attributes", n->name,
                           MOST_ATTRIBUTES);
    }
}

static sparta_status read_attributes(sp_importer *im, sp_bytes bytes, sp_onnx_node *n)
{
    sp_wire w = sp_wire_of(im->cx, "NodeProto", bytes);
    sp_wire_field f;
    sp_bytes attribute;
    n->attr = sp_arena_array(im->scratch, MOST_ATTRIBUTES + 2, sizeof *n->attr);
    SP_NEED(im->cx, n->attr);
    for (int i = 0; i < n->n_attr; i++) {
        SP_TRY(sp_wire_find(&w, NODE_ATTRIBUTE, &f));
        SP_TRY(sp_wire_bytes(&w, &f, &attribute));
        SP_TRY(sp_onnx_read_attribute(im, attribute, &n->attr[i]));
    }
    return SPARTA_OK;
}

/* What the newer exporter writes beside the node counts more than its name. */
static sparta_status read_module(sp_importer *im, sp_bytes bytes, sp_onnx_node *n)
{
    sp_wire w = sp_wire_of(im->cx, "NodeProto", bytes);
    sp_wire_field f;
    sp_bytes entry;
    for (;;) {
        SP_TRY(sp_wire_find(&w, NODE_METADATA, &f));
        if (!f.number) break;
        SP_TRY(sp_wire_bytes(&w, &f, &entry));
        SP_TRY(sp_onnx_read_scopes(im, entry, &n->module));
    }
    return n->module ? SPARTA_OK : sp_onnx_module_of_name(im, n->name, &n->module);
}

static bool is_constant(const sp_onnx_node *n)
{
    return strcmp(n->op, "Constant") == 0 && (!*n->domain || strcmp(n->domain, "ai.onnx") == 0);
}

/* ------------------------------------------------------------------ declaring */

/* The tensor of a Constant node, whichever way it is said. It points into the scratch arena or the file. */
static sparta_status constant_tensor(sp_importer *im, const sp_attr *a, sparta_tensor *out)
{
    const int64_t n = a->n;
    if (a->kind == SP_ATTR_TENSOR && strcmp(a->name, "value") == 0)
        *out = *a->tensor;
    else if (a->kind == SP_ATTR_INT && strcmp(a->name, "value_int") == 0)
        *out = sparta_tensor_view(SPARTA_I64, 0, NULL, (void *)&a->i);
    else if (a->kind == SP_ATTR_FLOAT && strcmp(a->name, "value_float") == 0)
        *out = sparta_tensor_view(SPARTA_F32, 0, NULL, (void *)&a->f);
    else if (a->kind == SP_ATTR_INTS && strcmp(a->name, "value_ints") == 0)
        *out = sparta_tensor_view(SPARTA_I64, 1, &n, (void *)a->ints);
    else if (a->kind == SP_ATTR_FLOATS && strcmp(a->name, "value_floats") == 0)
        *out = sparta_tensor_view(SPARTA_F32, 1, &n, (void *)a->floats);
    else
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "attribute '%.100s' is not supported; value, value_int(s) and value_float(s) are",
                       a->name);
    return SPARTA_OK;
}

static sparta_status declare_constant(sp_importer *im, sp_bytes bytes, sp_onnx_node *n, const char *output)
{
    sparta_tensor t;
    SP_TRY(read_attributes(im, bytes, n));
    if (n->n_attr != 1 || n->n_in != 0 || n->n_out != 1)
        return sp_fail(im->cx, SPARTA_E_FORMAT,
                       "a Constant has one attribute, one output and no input; this has %d, %d and %d",
                       n->n_attr, n->n_out, n->n_in);
    SP_TRY(constant_tensor(im, &n->attr[0], &t));
    return sp_graph_add_constant(im->g, output, &t, true, NULL); /* the scratch arena dies: copy */
}

static sparta_status declare_outputs(sp_importer *im, sp_bytes bytes, sp_onnx_node *n)
{
    sp_wire w = sp_wire_of(im->cx, "NodeProto", bytes);
    sp_wire_field f;
    sp_value *v;
    const char *output;
    for (;;) {
        SP_TRY(sp_wire_find(&w, NODE_OUTPUT, &f));
        if (!f.number) return SPARTA_OK;
        SP_TRY(sp_wire_string(&w, &f, im->scratch, &output));
        if (!*output) continue; /* an output nobody wants */
        if (is_constant(n))
            SP_TRY(declare_constant(im, bytes, n, output));
        else
            SP_TRY(sp_graph_add_value(im->g, output, &v));
    }
}

sparta_status sp_onnx_see_node(sp_importer *im, sp_bytes bytes)
{
    sp_onnx_node n;
    SP_TRY(read_node(im, bytes, &n));
    return sp_onnx_look_at(im, &n, bytes);
}

sparta_status sp_onnx_declare_node(sp_importer *im, sp_bytes bytes)
{
    sp_onnx_node n;
    SP_TRY(read_node(im, bytes, &n));
    if (declare_outputs(im, bytes, &n) != SPARTA_OK)
        return sp_fail_in(im->cx, "node '%.200s' (%.100s)", n.name, n.op);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ making */

/* The value of an input or output; an empty name is an absent one. */
static sparta_status resolve(sp_importer *im, const sp_wire *w, const sp_wire_field *f, sp_value **out)
{
    const char *name;
    SP_TRY(sp_wire_string(w, f, im->scratch, &name));
    *out = *name ? sp_graph_find(im->g, name) : NULL;
    if (*name && !*out)
        return sp_fail(im->cx, SPARTA_E_FORMAT, "input '%.200s' is defined nowhere in the model", name);
    return SPARTA_OK;
}

static sparta_status resolve_all(sp_importer *im, sp_bytes bytes, sp_onnx_node *n)
{
    sp_wire w = sp_wire_of(im->cx, "NodeProto", bytes);
    sp_wire_field f;
    n->in = sp_arena_array(im->scratch, (size_t)n->n_in, sizeof *n->in);
    n->out = sp_arena_array(im->scratch, (size_t)n->n_out, sizeof *n->out);
    if (!n->in || !n->out) return sp_ctx_status(im->cx);
    int in = 0, out = 0;
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == NODE_INPUT) SP_TRY(resolve(im, &w, &f, &n->in[in++]));
        if (f.number == NODE_OUTPUT) SP_TRY(resolve(im, &w, &f, &n->out[out++]));
    }
    while (n->n_in > 0 && !n->in[n->n_in - 1]) n->n_in--;
    while (n->n_out > 1 && !n->out[n->n_out - 1]) n->n_out--;
    return SPARTA_OK;
}

sparta_status sp_onnx_add_node(sp_importer *im, sp_bytes bytes)
{
    sp_onnx_node n;
    SP_TRY(read_node(im, bytes, &n));
    if (is_constant(&n)) return SPARTA_OK; /* declared: all there is to it */
    sparta_status status = resolve_all(im, bytes, &n);
    if (status == SPARTA_OK) status = read_attributes(im, bytes, &n);
    if (status == SPARTA_OK) status = read_module(im, bytes, &n);
    if (status != SPARTA_OK) return sp_fail_in(im->cx, "node '%.200s' (%.100s)", n.name, n.op);
    return sp_onnx_upgrade(im, &n);
}
