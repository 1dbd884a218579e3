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
static int each(sparta_importer *im, const char *what, sparta_view of, uint32_t field,
                int (*look)(sparta_importer *, sparta_view))
{
    sparta_wire w = sparta_wire_of(im->cx, what, of);
    sparta_wire_field f;
    sparta_view bytes;
    int found = 0;
    while (sparta_wire_find(&w, field, &f) == SPARTA_OK && f.number &&
           sparta_wire_bytes(&w, &f, &bytes) == SPARTA_OK)
        found |= look(im, bytes);
    return found;
}

static int in_node(sparta_importer *im, sparta_view node)
{
    sparta_wire w = sparta_wire_of(im->cx, "NodeProto", node);
    sparta_wire_field f;
    const char *op = "";
    if (sparta_wire_find(&w, NODE_OP, &f) != SPARTA_OK || !f.number) return 0;
    return sparta_wire_string(&w, &f, im->scratch, &op) == SPARTA_OK ? what_it_does(op) : 0;
}

static int in_graph(sparta_importer *im, sparta_view graph)
{
    return each(im, "GraphProto", graph, GRAPH_NODE, in_node);
}

static int in_attribute(sparta_importer *im, sparta_view attribute)
{
    return each(im, "AttributeProto", attribute, ATTRIBUTE_G, in_graph);
}

bool sparta_onnx_is_bag(sparta_importer *im, sparta_view node)
{
    return each(im, "NodeProto", node, NODE_ATTRIBUTE, in_attribute) == (LOOKS_UP | REDUCES);
}
