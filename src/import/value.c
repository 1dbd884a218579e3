/* value.c: the inputs of a model: their types and dims. A named dim is a symbol; the same name is the same
 * symbol everywhere. A dim without a name, or with one that says nothing (-1, ?), is a symbol of its own, called
 * after its input and axis, so that a person can type it: input_ids_1. Names that are no symbols are mangled by
 * expr; two names that would become one are kept apart here. */
#include "import/onnx.h"
#include <string.h>

/* ------------------------------------------------------------------ symbols */

static sparta_status remember(sparta_importer *im, const char *key, const char *symbol)
{
    if (im->n_symbols == im->symbol_capacity) {
        int wanted = im->symbol_capacity ? im->symbol_capacity * 2 : 16;
        const char **grown = sparta_arena_array(im->keep, (size_t)wanted, sizeof *grown);
        SPARTA_NEED(im->cx, grown);
        if (im->n_symbols) memcpy(grown, im->meant, (size_t)im->n_symbols * sizeof *grown);
        im->meant = grown;
        im->symbol_capacity = wanted;
    }
    im->meant[im->n_symbols] = symbol;
    key = sparta_arena_string(im->keep, key);
    SPARTA_NEED(im->cx, key);
    SPARTA_TRY(sparta_map_put(im->renamed, key, im->n_symbols));
    SPARTA_TRY(sparta_map_put(im->symbols, symbol, im->n_symbols));
    im->n_symbols++;
    return SPARTA_OK;
}

/* The symbol for `wanted`; `key` tells apart what must be apart. */
static sparta_status symbol_for(sparta_importer *im, const char *key, const char *wanted,
                                const sparta_expr **out)
{
    int64_t index;
    if (sparta_map_get(im->renamed, key, &index)) {
        *out = sparta_expr_symbol(im->g->arena, im->meant[index]);
        SPARTA_NEED(im->cx, *out);
        return SPARTA_OK;
    }
    const char *name = NULL, *text = wanted;
    for (;;) {
        const sparta_expr *e = sparta_expr_symbol(im->g->arena, text);
        SPARTA_NEED(im->cx, e);
        if (!sparta_expr_is_symbol(e, &name))
            return sparta_fail(im->cx, SPARTA_E_INTERNAL, "symbol '%.100s' is none", text);
        *out = e;
        if (!sparta_map_get(im->symbols, name, &index)) return remember(im, key, name);
        text = sparta_arena_printf(im->scratch, "%s_%d", wanted,
                                   im->suffix++); /* never tried twice, however hostile the names */
        SPARTA_NEED(im->cx, text);
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

static sparta_status unnamed_dim(sparta_importer *im, const char *input, int axis, const sparta_expr **out)
{
    char clean[NAME_KEPT + 1];
    size_t n = 0;
    for (const char *p = input; *p && n < NAME_KEPT; p++) clean[n++] = is_word(*p) ? *p : '_';
    clean[n] = 0;
    char *name = sparta_arena_printf(im->scratch, "%s%s_%d", clean[0] >= '0' && clean[0] <= '9' ? "_" : "",
                                     clean, axis);
    SPARTA_NEED(im->cx, name);
    char *key = sparta_arena_printf(im->scratch, "\001%s.%d", input,
                                    axis); /* no dim_param looks like this by accident */
    SPARTA_NEED(im->cx, key);
    return symbol_for(im, key, name, out);
}

/* ------------------------------------------------------------------ dims */

static sparta_status read_dim(sparta_importer *im, sparta_view bytes, const char *input, int axis,
                              const sparta_expr **out)
{
    sparta_wire w = sparta_wire_of(im->cx, "Dimension", bytes);
    sparta_wire_field f;
    const char *param = "";
    int64_t value = 0;
    bool fixed = false;
    for (;;) {
        SPARTA_TRY(sparta_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == DIM_VALUE) {
            SPARTA_TRY(sparta_wire_int(&w, &f, &value));
            fixed = true;
        } else if (f.number == DIM_PARAM) {
            SPARTA_TRY(sparta_wire_string(&w, &f, im->scratch, &param));
            fixed = false;
        }
    }
    if (fixed ? value < 0 : says_nothing(param)) return unnamed_dim(im, input, axis, out);
    if (!fixed) return symbol_for(im, param, param, out);
    *out = sparta_expr_const(im->g->arena, value);
    SPARTA_NEED(im->cx, *out);
    return SPARTA_OK;
}

static sparta_status read_shape(sparta_importer *im, sparta_view bytes, const char *input, sparta_dims *out)
{
    sparta_wire w = sparta_wire_of(im->cx, "TensorShapeProto", bytes);
    sparta_wire_field f;
    sparta_view dim;
    *out = (sparta_dims){0};
    for (;;) {
        SPARTA_TRY(sparta_wire_find(&w, SHAPE_DIM, &f));
        if (!f.number) return SPARTA_OK;
        if (out->rank == SPARTA_RANK)
            return sparta_fail(im->cx, SPARTA_E_UNSUPPORTED, "more than %d dims; reshape it before the model",
                               SPARTA_RANK);
        SPARTA_TRY(sparta_wire_bytes(&w, &f, &dim));
        SPARTA_TRY(read_dim(im, dim, input, out->rank, &out->dim[out->rank]));
        out->rank++;
    }
}

/* ------------------------------------------------------------------ types */

static sparta_status read_tensor_type(sparta_importer *im, sparta_view bytes, const char *input,
                                      sparta_dtype *dtype, sparta_dims *dims)
{
    sparta_wire w = sparta_wire_of(im->cx, "TypeProto.Tensor", bytes);
    sparta_wire_field f;
    sparta_view shape = {0};
    int64_t element = 0;
    for (;;) {
        SPARTA_TRY(sparta_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == TENSOR_TYPE_ELEMENT) SPARTA_TRY(sparta_wire_int(&w, &f, &element));
        if (f.number == TENSOR_TYPE_SHAPE) SPARTA_TRY(sparta_wire_once(&w, &f, &shape));
    }
    if (!sparta_dtype_from_onnx(element, dtype))
        return sparta_fail(
            im->cx, element <= 0 ? SPARTA_E_FORMAT : SPARTA_E_UNSUPPORTED,
            "element type %ld is not supported; f32, f16, bf16, f64, bool and integers of 8 to 64 bits are",
            (long)element);
    if (!shape.data)
        return sparta_fail(im->cx, SPARTA_E_UNSUPPORTED,
                           "the number of dims is unknown; export the model with a shape for every input");
    return read_shape(im, shape, input, dims);
}

static sparta_status read_type(sparta_importer *im, sparta_view bytes, const char *input, sparta_dtype *dtype,
                               sparta_dims *dims)
{
    sparta_wire w = sparta_wire_of(im->cx, "TypeProto", bytes);
    sparta_wire_field f;
    sparta_view tensor;
    SPARTA_TRY(sparta_wire_find(&w, TYPE_OF_TENSOR, &f));
    if (!f.number)
        return sparta_fail(im->cx, SPARTA_E_UNSUPPORTED,
                           "it is no dense tensor (a sequence, map, optional or sparse one); export the "
                           "model with tensors only");
    SPARTA_TRY(sparta_wire_bytes(&w, &f, &tensor));
    return read_tensor_type(im, tensor, input, dtype, dims);
}

static sparta_status read_info(sparta_importer *im, sparta_view info, const char **name, sparta_view *type)
{
    sparta_wire w = sparta_wire_of(im->cx, "ValueInfoProto", info);
    sparta_wire_field f;
    *name = "";
    *type = (sparta_view){0};
    for (;;) {
        SPARTA_TRY(sparta_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == INFO_NAME) SPARTA_TRY(sparta_wire_string(&w, &f, im->scratch, name));
        if (f.number == INFO_TYPE) SPARTA_TRY(sparta_wire_once(&w, &f, type));
    }
    if (!**name) return sparta_fail(im->cx, SPARTA_E_FORMAT, "an input or output has no name");
    return SPARTA_OK;
}

sparta_status sparta_onnx_info_name(sparta_importer *im, sparta_view info, const char **name)
{
    sparta_view type;
    return read_info(im, info, name, &type);
}

sparta_status sparta_onnx_add_input(sparta_importer *im, sparta_view info)
{
    const char *name;
    sparta_view type;
    sparta_dtype dtype;
    sparta_dims dims;
    SPARTA_TRY(read_info(im, info, &name, &type));
    const sparta_value *known = sparta_graph_find(im->g, name);
    if (known && known->constant)
        return SPARTA_OK; /* an initialiser listed as an input (IR 3): its value is the default */
    if (!type.data) return sparta_fail(im->cx, SPARTA_E_FORMAT, "input '%.200s': it has no type", name);
    if (read_type(im, type, name, &dtype, &dims) != SPARTA_OK)
        return sparta_fail_in(im->cx, "input '%.200s'", name);
    return sparta_graph_add_input(im->g, name, dtype, &dims, NULL);
}
