/* attribute.c: an AttributeProto: a number, a text, a list or a tensor. What nests (graphs) or has no place
 * in our operators (lists of strings, types) is E_UNSUPPORTED. */
#include "import/onnx.h"
#include <string.h>

/* An AttributeProto as views; the lists are counted. */
typedef struct proto {
    sp_wire body;
    const char *name;
    int64_t type, i;
    float f;
    sp_bytes s, t;
    int64_t n_ints, n_floats;
    bool has_f, has_i, reference;
    uint32_t other; /* a field of a kind that we do not read; 0: none */
} proto;

static sparta_status read_float(const sp_wire *w, const sp_wire_field *f, float *out)
{
    if (f->type != SP_WIRE_32)
        return sp_fail(w->cx, SPARTA_E_FORMAT, "AttributeProto: the float has another wire type");
    uint32_t bits = (uint32_t)f->value;
    memcpy(out, &bits, sizeof bits);
    return SPARTA_OK;
}

static sparta_status count_list(const sp_wire *w, const sp_wire_field *f, sp_wire_type type, int64_t *n)
{
    sp_bytes rest;
    SP_TRY(sp_wire_pack(w, f, type, &rest));
    SP_TRY(sp_wire_count(w, type, rest, n));
    if (*n > 1 << 24)
        return sp_fail(w->cx, SPARTA_E_LIMIT, "AttributeProto: a list of more than 16 million numbers");
    return SPARTA_OK;
}

static sparta_status read_field(sp_arena *scratch, const sp_wire *w, const sp_wire_field *f, proto *p)
{
    switch (f->number) {
    case ATTRIBUTE_NAME: return sp_wire_string(w, f, scratch, &p->name);
    case ATTRIBUTE_TYPE: return sp_wire_int(w, f, &p->type);
    case ATTRIBUTE_F: p->has_f = true; return read_float(w, f, &p->f);
    case ATTRIBUTE_I: p->has_i = true; return sp_wire_int(w, f, &p->i);
    case ATTRIBUTE_S: return sp_wire_bytes(w, f, &p->s);
    case ATTRIBUTE_T: return sp_wire_once(w, f, &p->t);
    case ATTRIBUTE_FLOATS: return count_list(w, f, SP_WIRE_32, &p->n_floats);
    case ATTRIBUTE_INTS: return count_list(w, f, SP_WIRE_VARINT, &p->n_ints);
    case ATTRIBUTE_REF: p->reference = f->bytes.size > 0; return SPARTA_OK;
    case 13: return SPARTA_OK; /* doc_string */
    default: p->other = f->number; return SPARTA_OK;
    }
}

/* Files of before IR 4 may leave the type out: then what is there says it. */
static int64_t type_of(const proto *p)
{
    if (p->type) return p->type;
    if (p->other) return TYPE_GRAPH;
    if (p->t.data) return TYPE_TENSOR;
    if (p->s.data) return TYPE_STRING;
    if (p->n_ints) return TYPE_INTS;
    if (p->n_floats) return TYPE_FLOATS;
    return p->has_f && !p->has_i ? TYPE_FLOAT : TYPE_INT;
}

static sparta_status read_numbers(const proto *p, bool floats, void *out)
{
    sp_wire w = p->body;
    sp_wire_field f;
    sp_bytes rest;
    sp_wire_type type = floats ? SP_WIRE_32 : SP_WIRE_VARINT;
    uint8_t *to = out;
    for (;;) {
        SP_TRY(sp_wire_find(&w, floats ? ATTRIBUTE_FLOATS : ATTRIBUTE_INTS, &f));
        if (!f.number) return SPARTA_OK;
        SP_TRY(sp_wire_pack(&w, &f, type, &rest));
        while (rest.size) {
            uint64_t value;
            SP_TRY(sp_wire_entry(&w, type, &rest, &value));
            memcpy(to, &value, floats ? 4 : 8);
            to += floats ? 4 : 8;
        }
    }
}

static sparta_status list_value(sp_importer *im, const proto *p, sp_attr *out)
{
    bool floats = out->kind == SP_ATTR_FLOATS;
    int64_t n = floats ? p->n_floats : p->n_ints;
    void *data = sp_arena_array(im->scratch, (size_t)n, floats ? sizeof(float) : sizeof(int64_t));
    SP_NEED(im->cx, data);
    SP_TRY(read_numbers(p, floats, data));
    out->n = (int)n;
    if (floats)
        out->floats = data;
    else
        out->ints = data;
    return SPARTA_OK;
}

static sparta_status string_value(sp_importer *im, const proto *p, sp_attr *out)
{
    out->kind = SP_ATTR_STRING;
    if (p->s.size && memchr(p->s.data, 0, p->s.size))
        return sp_fail(im->cx, SPARTA_E_FORMAT, "the text has a zero byte in it");
    out->s = p->s.size ? sp_arena_bytes(im->scratch, (const char *)p->s.data, p->s.size) : "";
    SP_NEED(im->cx, out->s);
    return SPARTA_OK;
}

static sparta_status tensor_value(sp_importer *im, const proto *p, sp_attr *out)
{
    sparta_tensor *t = sp_arena_alloc(im->scratch, sizeof *t);
    SP_NEED(im->cx, t);
    if (!p->t.data) return sp_fail(im->cx, SPARTA_E_FORMAT, "it says it is a tensor and has none");
    out->kind = SP_ATTR_TENSOR;
    out->tensor = t;
    return sp_onnx_read_tensor(im->cx, im, im->scratch, p->t, t, NULL);
}

static sparta_status value_of(sp_importer *im, const proto *p, sp_attr *out)
{
    if (p->reference)
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "it refers to a function's attribute; inline functions first");
    switch (type_of(p)) {
    case TYPE_FLOAT:
        out->kind = SP_ATTR_FLOAT;
        out->f = p->f;
        return SPARTA_OK;
    case TYPE_INT:
        out->kind = SP_ATTR_INT;
        out->i = p->i;
        return SPARTA_OK;
    case TYPE_STRING: return string_value(im, p, out);
    case TYPE_TENSOR: return tensor_value(im, p, out);
    case TYPE_FLOATS: out->kind = SP_ATTR_FLOATS; return list_value(im, p, out);
    case TYPE_INTS: out->kind = SP_ATTR_INTS; return list_value(im, p, out);
    case TYPE_GRAPH:
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "sub-graphs are not supported; export the model without If, Loop and Scan");
    default:
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "attribute type %ld is not supported; int, float, string, ints, floats and tensor are",
                       (long)p->type);
    }
}

sparta_status sp_onnx_read_attribute(sp_importer *im, sp_bytes bytes, sp_attr *out)
{
    sp_wire w = sp_wire_of(im->cx, "AttributeProto", bytes);
    sp_wire_field f;
    proto p = {.body = w};
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        SP_TRY(read_field(im->scratch, &w, &f, &p));
    }
    if (!p.name || !*p.name) return sp_fail(im->cx, SPARTA_E_FORMAT, "an attribute has no name");
    *out = (sp_attr){.name = p.name};
    if (value_of(im, &p, out) != SPARTA_OK) return sp_fail_in(im->cx, "attribute '%.100s'", p.name);
    return SPARTA_OK;
}
