/* hint.c: what a loop of a model is for, where its body shows it, so that the advice fits. */
#include "import/onnx.h"
#include <string.h>

enum { ATTRIBUTE_G = 6, LOOKS_UP = 1, REDUCES = 2 };

static int what_it_does(const char *op)
{
    if (!strcmp(op, "Gather")) return LOOKS_UP;
    return !strcmp(op, "ReduceSum") || !strcmp(op, "ReduceMean") || !strcmp(op, "ReduceMax") ? REDUCES : 0;
}

/* Call `look` with every message of one field; what is malformed is somebody else's to say. */
static int each(sp_importer *im, const char *what, sp_bytes of, uint32_t field,
                int (*look)(sp_importer *, sp_bytes))
{
    sp_wire w = sp_wire_of(im->cx, what, of);
    sp_wire_field f;
    sp_bytes bytes;
    int found = 0;
    while (sp_wire_find(&w, field, &f) == SPARTA_OK && f.number && sp_wire_bytes(&w, &f, &bytes) == SPARTA_OK)
        found |= look(im, bytes);
    return found;
}

static int in_node(sp_importer *im, sp_bytes node)
{
    sp_wire w = sp_wire_of(im->cx, "NodeProto", node);
    sp_wire_field f;
    const char *op = "";
    if (sp_wire_find(&w, NODE_OP, &f) != SPARTA_OK || !f.number) return 0;
    return sp_wire_string(&w, &f, im->scratch, &op) == SPARTA_OK ? what_it_does(op) : 0;
}

static int in_graph(sp_importer *im, sp_bytes graph)
{
    return each(im, "GraphProto", graph, GRAPH_NODE, in_node);
}

static int in_attribute(sp_importer *im, sp_bytes attribute)
{
    return each(im, "AttributeProto", attribute, ATTRIBUTE_G, in_graph);
}

bool sp_onnx_is_bag(sp_importer *im, sp_bytes node)
{
    return each(im, "NodeProto", node, NODE_ATTRIBUTE, in_attribute) == (LOOKS_UP | REDUCES);
}
