/* value.c: the inputs of a model: their types and dims. A named dim is a symbol; the same name is the same
 * symbol everywhere. A dim without a name, or with one that says nothing (-1, ?), is a symbol of its own, called
 * after its input and axis, so that a person can type it: input_ids_1. Names that are no symbols are mangled by
 * expr; two names that would become one are kept apart here. A name that is arithmetic on other names ("past + 1",
 * as PyTorch's exporter and optimum write the length of a mask) is what it says. */
#include "import/onnx.h"
#include <string.h>

/* ------------------------------------------------------------------ symbols */

static sparta_status remember(sp_importer *im, const char *key, const char *symbol)
{
    SP_GROW(im->keep, im->meant, im->n_symbols, im->symbol_capacity);
    SP_GROW(im->keep, im->said, im->n_symbols, im->said_capacity);
    key = sp_arena_string(im->keep, key);
    SP_NEED(im->cx, key);
    im->meant[im->n_symbols] = symbol;
    im->said[im->n_symbols] = key;
    SP_TRY(sp_map_put(im->renamed, key, im->n_symbols));
    SP_TRY(sp_map_put(im->symbols, symbol, im->n_symbols));
    im->n_symbols++;
    return SPARTA_OK;
}

/* The symbol for `wanted`; `key` tells apart what must be apart. */
static sparta_status symbol_for(sp_importer *im, const char *key, const char *wanted, const sp_expr **out)
{
    int64_t index;
    if (sp_map_get(im->renamed, key, &index)) {
        *out = sp_expr_symbol(im->g->arena, im->meant[index]);
        SP_NEED(im->cx, *out);
        return SPARTA_OK;
    }
    const char *name = NULL, *text = wanted;
    for (;;) {
        const sp_expr *e = sp_expr_symbol(im->g->arena, text);
        SP_NEED(im->cx, e);
        if (!sp_expr_is_symbol(e, &name))
            return sp_fail(im->cx, SPARTA_E_INTERNAL, "symbol '%.100s' is none", text);
        *out = e;
        if (!sp_map_get(im->symbols, name, &index)) return remember(im, key, name);
        /* Never tried twice, however hostile the names. */
        text = sp_arena_printf(im->scratch, "%s_%d", wanted, im->suffix++);
        SP_NEED(im->cx, text);
    }
}

enum { NAME_KEPT = 40 }; /* characters of an input's name */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Different dims have it without being one size: "?", "-1", "None". */
static bool says_nothing(const char *param)
{
    bool letter = false;
    for (const char *p = param; *p; p++) letter |= is_word(*p) && !(*p >= '0' && *p <= '9');
    return !letter || strcmp(param, "None") == 0;
}

static sparta_status unnamed_dim(sp_importer *im, const char *input, int axis, const sp_expr **out)
{
    char clean[NAME_KEPT + 1];
    size_t n = 0;
    for (const char *p = input; *p && n < NAME_KEPT; p++) clean[n++] = is_word(*p) ? *p : '_';
    clean[n] = 0;
    char *name =
        sp_arena_printf(im->scratch, "%s%s_%d", clean[0] >= '0' && clean[0] <= '9' ? "_" : "", clean, axis);
    SP_NEED(im->cx, name);
    /* No dim_param looks like this by accident. */
    char *key = sp_arena_printf(im->scratch, "\001%s.%d", input, axis);
    SP_NEED(im->cx, key);
    return symbol_for(im, key, name, out);
}

/* ------------------------------------------------------------------ dims */

static sparta_status read_dim(sp_importer *im, sp_bytes bytes, const char *input, int axis,
                              const sp_expr **out)
{
    sp_wire w = sp_wire_of(im->cx, "Dimension", bytes);
    sp_wire_field f;
    const char *param = "";
    int64_t value = 0;
    bool fixed = false;
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == DIM_VALUE) {
            SP_TRY(sp_wire_int(&w, &f, &value));
            fixed = true;
        } else if (f.number == DIM_PARAM) {
            SP_TRY(sp_wire_string(&w, &f, im->scratch, &param));
            fixed = false;
        }
    }
    if (fixed ? value < 0 : says_nothing(param)) return unnamed_dim(im, input, axis, out);
    if (!fixed) return symbol_for(im, param, param, out);
    *out = sp_expr_const(im->g->arena, value);
    SP_NEED(im->cx, *out);
    return SPARTA_OK;
}

static sparta_status read_shape(sp_importer *im, sp_bytes bytes, const char *input, sp_dims *out)
{
    sp_wire w = sp_wire_of(im->cx, "TensorShapeProto", bytes);
    sp_wire_field f;
    sp_bytes dim;
    *out = (sp_dims){0};
    for (;;) {
        SP_TRY(sp_wire_find(&w, SHAPE_DIM, &f));
        if (!f.number) return SPARTA_OK;
        if (out->rank == SPARTA_RANK)
            return sp_fail(im->cx, SPARTA_E_UNSUPPORTED, "more than %d dims; reshape it before the model",
                           SPARTA_RANK);
        SP_TRY(sp_wire_bytes(&w, &f, &dim));
        SP_TRY(read_dim(im, dim, input, out->rank, &out->dim[out->rank]));
        out->rank++;
    }
}

/* ------------------------------------------------------------------ types */

static sparta_status read_tensor_type(sp_importer *im, sp_bytes bytes, const char *input, sparta_dtype *dtype,
                                      sp_dims *dims)
{
    sp_wire w = sp_wire_of(im->cx, "TypeProto.Tensor", bytes);
    sp_wire_field f;
    sp_bytes shape = {0};
    int64_t element = 0;
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == TENSOR_TYPE_ELEMENT) SP_TRY(sp_wire_int(&w, &f, &element));
        if (f.number == TENSOR_TYPE_SHAPE) SP_TRY(sp_wire_once(&w, &f, &shape));
    }
    if (!sp_dtype_from_onnx(element, dtype))
        return sp_fail(
            im->cx, element <= 0 ? SPARTA_E_FORMAT : SPARTA_E_UNSUPPORTED,
            "element type %ld is not supported; f32, f16, bf16, f64, bool and integers of 8 to 64 bits are",
            (long)element);
    if (!shape.data)
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "the number of dims is unknown; export the model with a shape for every input");
    return read_shape(im, shape, input, dims);
}

static sparta_status read_type(sp_importer *im, sp_bytes bytes, const char *input, sparta_dtype *dtype,
                               sp_dims *dims)
{
    sp_wire w = sp_wire_of(im->cx, "TypeProto", bytes);
    sp_wire_field f;
    sp_bytes tensor;
    SP_TRY(sp_wire_find(&w, TYPE_OF_TENSOR, &f));
    if (!f.number)
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "it is no dense tensor (a sequence, map, optional or sparse one); export the "
                       "model with tensors only");
    SP_TRY(sp_wire_bytes(&w, &f, &tensor));
    return read_tensor_type(im, tensor, input, dtype, dims);
}

static sparta_status read_info(sp_importer *im, sp_bytes info, const char **name, sp_bytes *type)
{
    sp_wire w = sp_wire_of(im->cx, "ValueInfoProto", info);
    sp_wire_field f;
    *name = "";
    *type = (sp_bytes){0};
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == INFO_NAME) SP_TRY(sp_wire_string(&w, &f, im->scratch, name));
        if (f.number == INFO_TYPE) SP_TRY(sp_wire_once(&w, &f, type));
    }
    if (!**name) return sp_fail(im->cx, SPARTA_E_FORMAT, "an input or output has no name");
    return SPARTA_OK;
}

sparta_status sp_onnx_info_name(sp_importer *im, sp_bytes info, const char **name)
{
    sp_bytes type;
    return read_info(im, info, name, &type);
}

sparta_status sp_onnx_add_input(sp_importer *im, sp_bytes info)
{
    const char *name;
    sp_bytes type;
    sparta_dtype dtype;
    sp_dims dims;
    SP_TRY(read_info(im, info, &name, &type));
    const sp_value *known = sp_graph_find(im->g, name);
    if (known && known->constant)
        return SPARTA_OK; /* an initialiser listed as an input (IR 3): its value is the default */
    if (!type.data) return sp_fail(im->cx, SPARTA_E_FORMAT, "input '%.200s': it has no type", name);
    if (read_type(im, type, name, &dtype, &dims) != SPARTA_OK)
        return sp_fail_in(im->cx, "input '%.200s'", name);
    return sp_graph_add_input(im->g, name, dtype, &dims, NULL);
}

/* ------------------------------------------------------------------ dims that are arithmetic on others */

enum { ARITHMETIC_LENGTH = 200 };

/* Words and numbers with + or * between them: a minus or a slash in a name is more often a hyphen or a path. */
static bool is_arithmetic(const char *text)
{
    bool any = false, word = false;
    if (strlen(text) > ARITHMETIC_LENGTH) return false;
    for (const char *p = text; *p; p++) {
        if (is_word(*p) || *p == '_' || *p == '.') {
            if (word && p[-1] == ' ') return false;
            word = true;
        } else if (*p == '+' || *p == '*') {
            if (!word) return false;
            any = true;
            word = false;
        } else if (*p != ' ')
            return false;
    }
    return any && word;
}

typedef struct relation {
    const sp_importer *im;
    bool known; /* every symbol is a dim of an input, under its own name */
} relation;

static void look_up(void *arg, const char *name)
{
    relation *r = arg;
    int64_t index;
    if (!sp_map_get(r->im->renamed, name, &index) || strcmp(r->im->meant[index], name) != 0) r->known = false;
}

static sparta_status relate(sp_importer *im, const sp_expr **dim)
{
    const char *name;
    int64_t index;
    const sp_expr *means;
    if (!sp_expr_is_symbol(*dim, &name) || !sp_map_get(im->symbols, name, &index)) return SPARTA_OK;
    if (!is_arithmetic(im->said[index])) return SPARTA_OK;
    SP_TRY(sp_expr_parse(im->g->arena, im->said[index], &means));
    relation r = {im, !sp_expr_is_const(means, NULL)};
    sp_expr_symbols(means, look_up, &r);
    if (r.known) *dim = means;
    return SPARTA_OK;
}

sparta_status sp_onnx_relate_dims(sp_importer *im)
{
    for (int i = 0; i < im->g->n_inputs; i++) {
        sp_value *v = im->g->input[i];
        for (int d = 0; d < v->dims.rank; d++)
            if (relate(im, &v->dims.dim[d]) != SPARTA_OK)
                return sp_fail_in(im->cx, "input '%.200s'", v->name);
    }
    return SPARTA_OK;
}
