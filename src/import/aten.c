/* aten.c: the arguments of a call and the nodes that builders make: what aten.h says. */
#include "import/aten.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ the table */

const sp_aten_row sp_aten_rows[] = {
#define SP_OP_OPS                         SP_OPS
#define SP_ATEN(overload, build, op)      {overload, sp_aten_build_##build, SP_OP_##op, false},
#define SP_ATEN_VIEW(overload, build, op) {overload, sp_aten_build_##build, SP_OP_##op, true},
#include "import/aten.def"
#undef SP_ATEN
#undef SP_ATEN_VIEW
};
const int sp_aten_n_rows = (int)SP_COUNT(sp_aten_rows);

sparta_status sp_aten_index(sp_pt2 *p)
{
    p->overloads = sp_map_create(p->cx);
    SP_NEED(p->cx, p->overloads);
    for (int i = 0; i < sp_aten_n_rows; i++) SP_TRY(sp_map_put(p->overloads, sp_aten_rows[i].overload, i));
    return SPARTA_OK;
}

static const sp_aten_row *find(const sp_pt2 *p, const char *overload)
{
    int64_t at;
    return sp_map_get(p->overloads, overload, &at) ? &sp_aten_rows[at] : NULL;
}

/* aten.add_.Tensor -> aten.add.Tensor; NULL where the name does not end with one underscore. */
static const char *functional(sp_pt2 *p, const char *overload)
{
    const char *dot = strrchr(overload, '.');
    if (!dot || dot - overload < 2 || dot[-1] != '_' || dot[-2] == '_') return NULL;
    return sp_arena_printf(p->keep, "%.*s%s", (int)SP_MIN(dot - 1 - overload, 200), overload, dot);
}

const sp_aten_row *sp_aten_find(sp_pt2 *p, const char *target, bool *in_place)
{
    static const char before[] = "torch.ops.";
    if (!strncmp(target, before, strlen(before))) target += strlen(before);
    *in_place = false;
    const sp_aten_row *row = find(p, target);
    if (row) return row;
    const char *twin = functional(p, target);
    *in_place = twin != NULL;
    return twin ? find(p, twin) : NULL;
}

/* ------------------------------------------------------------------ errors */

void *sp_aten_refuse(sp_aten *b, const char *format, ...)
{
    char text[400];
    va_list args;
    if (b->status != SPARTA_OK) return NULL;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->status = sp_fail(b->p->cx, SPARTA_E_UNSUPPORTED, "%s", text);
    return NULL;
}

static void *malformed(sp_aten *b, const char *name)
{
    if (b->status == SPARTA_OK)
        b->status =
            sp_fail(b->p->cx, SPARTA_E_FORMAT, "argument '%.100s' is missing, or not of its type", name);
    return NULL;
}

static void *lacking(sp_aten *b)
{
    if (b->status == SPARTA_OK) b->status = sp_ctx_status(b->p->cx);
    return NULL;
}

/* ------------------------------------------------------------------ arguments */

const json_value *sp_aten_arg(const sp_aten *b, const char *name)
{
    for (const json_value *a = sp_json_first(sp_json_get(b->node, "inputs")); a; a = a->next) {
        const char *called = sp_json_text(sp_json_get(a, "name"));
        if (!called || strcmp(called, name) != 0) continue;
        const json_value *arg = sp_json_first(sp_json_get(a, "arg"));
        return arg && arg->key && strcmp(arg->key, "as_none") != 0 ? arg : NULL;
    }
    return NULL;
}

static bool is(const json_value *arg, const char *kind)
{
    return arg && arg->key && !strcmp(arg->key, kind);
}

static const sp_pt2_value *named(sp_aten *b, const json_value *tensor, const char *argument)
{
    static const sp_pt2_value none = {.name = ""};
    const char *name = sp_json_text(sp_json_get(tensor, "name"));
    sp_pt2_value *found;
    if (b->status != SPARTA_OK) return &none;
    if (!name) {
        malformed(b, argument);
        return &none;
    }
    b->status = sp_pt2_find(b->p, name, &found);
    return b->status == SPARTA_OK ? found : &none;
}

const sp_pt2_value *sp_aten_tensor(sp_aten *b, const char *name)
{
    const json_value *arg = sp_aten_arg(b, name);
    return named(b, is(arg, "as_tensor") ? arg : NULL, name);
}

const sp_pt2_value *sp_aten_maybe(sp_aten *b, const char *name)
{
    const json_value *arg = sp_aten_arg(b, name);
    if (is(arg, "as_optional_tensor")) {
        arg = sp_json_first(arg);
        if (!is(arg, "as_tensor")) return NULL;
    }
    return arg ? named(b, is(arg, "as_tensor") ? arg : NULL, name) : NULL;
}

int64_t sp_aten_int(sp_aten *b, const char *name, int64_t otherwise)
{
    const json_value *arg = sp_aten_arg(b, name);
    int64_t value = otherwise;
    if (!arg) return otherwise;
    if (is(arg, "as_sym_int")) arg = sp_json_get(arg, "as_int");
    if (!sp_json_int(arg, &value)) sp_aten_refuse(b, "argument '%s' is no fixed number", name);
    return value;
}

double sp_aten_number(sp_aten *b, const char *name, double otherwise)
{
    const json_value *arg = sp_aten_arg(b, name);
    double value = otherwise;
    if (!arg) return otherwise;
    if (arg->kind == JSON_BOOL) return arg->yes;
    if (!sp_json_double(arg, &value)) sp_aten_refuse(b, "argument '%s' is no fixed number", name);
    return value;
}

bool sp_aten_yes(sp_aten *b, const char *name, bool otherwise)
{
    const json_value *arg = sp_aten_arg(b, name);
    if (arg && arg->kind != JSON_BOOL) malformed(b, name);
    return arg ? arg->yes : otherwise;
}

const char *sp_aten_word(sp_aten *b, const char *name, const char *otherwise)
{
    const json_value *arg = sp_aten_arg(b, name);
    if (arg && !sp_json_text(arg)) malformed(b, name);
    return arg && sp_json_text(arg) ? sp_json_text(arg) : otherwise;
}

int sp_aten_ints(sp_aten *b, const char *name, int64_t out[SPARTA_RANK])
{
    const json_value *arg = sp_aten_arg(b, name);
    int n = 0;
    if (!arg) return 0;
    if (arg->kind != JSON_ARRAY) {
        out[0] = sp_aten_int(b, name, 0);
        return 1;
    }
    for (const json_value *v = arg->first; v; v = v->next) {
        if (n == SPARTA_RANK ||
            !sp_json_int(v->kind == JSON_OBJECT ? sp_json_get(v, "as_int") : v, &out[n])) {
            sp_aten_refuse(b, "argument '%s' is no short list of fixed numbers", name);
            return 0;
        }
        n++;
    }
    return n;
}

int64_t sp_aten_axis(sp_aten *b, const char *name, int64_t otherwise, int rank)
{
    int64_t axis = sp_aten_int(b, name, otherwise);
    if (axis < 0) axis += SP_MAX(rank, 1); /* of one number it may be said, too */
    if (b->status == SPARTA_OK && (axis < 0 || axis >= SP_MAX(rank, 1))) malformed(b, name);
    return b->status == SPARTA_OK ? axis : 0;
}

bool sp_aten_known(const json_value *meta, int axis, int64_t *out)
{
    const json_value *size = sp_json_first(sp_json_get(meta, "sizes"));
    for (int i = 0; size && i < axis; i++) size = size->next;
    return sp_json_int(sp_json_get(size, "as_int"), out) && *out >= 0;
}

const sp_pt2_value **sp_aten_tensors(sp_aten *b, const char *name, int *n)
{
    const json_value *arg = sp_aten_arg(b, name);
    *n = 0;
    if (!arg || arg->kind != JSON_ARRAY) return malformed(b, name);
    const sp_pt2_value **list = sp_arena_array(b->p->keep, (size_t)arg->n + 1, sizeof *list);
    if (!list) return lacking(b);
    for (const json_value *v = arg->first; v; v = v->next) {
        const json_value *inner = is(arg, "as_optional_tensors") ? sp_json_first(v) : v;
        list[(*n)++] = is(inner, "as_none") ? NULL : named(b, inner, name);
    }
    return b->status == SPARTA_OK ? list : NULL;
}

/* ------------------------------------------------------------------ sizes */

/* {"as_int": 4}, {"as_name": "sym_size_int"} or a plain number, as (1). */
static sp_value *one_size(sp_aten *b, const json_value *v, const char *name)
{
    int64_t number;
    sp_pt2_value *found;
    const json_value *plain = v && v->kind == JSON_OBJECT ? sp_json_get(v, "as_int") : v;
    const char *called = sp_json_text(sp_json_get(v, "as_name"));
    if (b->status != SPARTA_OK) return NULL;
    if (sp_json_int(plain, &number)) return sp_aten_numbers(b, 1, &number);
    if (!called) return malformed(b, name);
    b->status = sp_pt2_find(b->p, called, &found);
    if (b->status == SPARTA_OK && !found->size) malformed(b, name);
    return b->status == SPARTA_OK ? found->v : NULL;
}

sp_value *sp_aten_size(sp_aten *b, const char *name)
{
    return one_size(b, sp_aten_arg(b, name), name);
}

sp_value *sp_aten_scalar_size(sp_aten *b, const char *name)
{
    const json_value *arg = sp_aten_arg(b, name);
    int64_t number;
    if (is(arg, "as_sym_int") && !sp_json_get(arg, "as_int"))
        return OP(b, Squeeze, one_size(b, arg, name), sp_aten_numbers(b, 1, &(int64_t){0}));
    if (!sp_json_int(is(arg, "as_sym_int") ? sp_json_get(arg, "as_int") : arg, &number))
        return malformed(b, name);
    const sparta_tensor t = sparta_tensor_view(SPARTA_I64, 0, NULL, &number);
    sp_value *v = NULL;
    if (b->status == SPARTA_OK) b->status = sp_graph_add_constant(b->p->g, NULL, &t, true, &v);
    return v;
}

sp_value *sp_aten_sizes(sp_aten *b, const char *name)
{
    const json_value *arg = sp_aten_arg(b, name);
    int64_t number[SPARTA_RANK];
    sp_value *part[SPARTA_RANK];
    int n = 0, known = 0;
    if (!arg) return malformed(b, name);
    if (arg->kind != JSON_ARRAY) return sp_aten_size(b, name);
    if (arg->n > SPARTA_RANK) return sp_aten_refuse(b, "more than %d sizes", SPARTA_RANK);
    for (const json_value *v = arg->first; v; v = v->next, n++)
        known += sp_json_int(v->kind == JSON_OBJECT ? sp_json_get(v, "as_int") : v, &number[n]);
    if (known == n) return sp_aten_numbers(b, n, number);
    n = 0;
    for (const json_value *v = arg->first; v; v = v->next) part[n++] = one_size(b, v, name);
    return sp_aten_node(b, SP_OP_Concat, SP_ATTRS(SP_INT("axis", 0)), n, part);
}

/* ------------------------------------------------------------------ nodes */

/* A product has the name of its module; what else becomes of a call says what it is behind that. */
static const char *node_name(sp_aten *b, sp_op_id op)
{
    if (SP_OP_AMONG(op, SP_OP_MatMul, SP_OP_Gemm, SP_OP_Conv, SP_OP_ConvTranspose, SP_OP_Einsum,
                    SP_OP_OnnxAttention))
        return b->name;
    return sp_arena_printf(b->p->keep, "%s/%s", b->name, sp_builtin_row(op)->name);
}

bool sp_aten_nodes(sp_aten *b, sp_op_id op, const sp_attrs *attrs, int n_in, sp_value *const *in, int n_out,
                   sp_value **out)
{
    sp_node *made;
    if (b->status != SPARTA_OK) return false;
    const char *name = node_name(b, op);
    if (!name) return lacking(b);
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    b->status = sp_graph_add_node(b->p->g, op, name, n_in, in, n_out, out, attrs, &made);
    if (b->status != SPARTA_OK) return false;
    made->module = b->module;
    return true;
}

sp_value *sp_aten_node(sp_aten *b, sp_op_id op, const sp_attrs *attrs, int n_in, sp_value *const *in)
{
    sp_value *out = NULL;
    for (int i = 0; i < n_in; i++)
        if (!in[i]) return b->status == SPARTA_OK ? sp_aten_refuse(b, "an operand is no tensor") : NULL;
    return sp_aten_nodes(b, op, attrs, n_in, in, 1, &out) ? out : NULL;
}

sp_value *sp_aten_cast(sp_aten *b, sp_value *v, sparta_dtype from, sparta_dtype to)
{
    if (from == to || !v) return v;
    return OP_WITH(b, Cast, SP_ATTRS(SP_INT("to", sp_dtype_to_onnx(to))), v);
}

static sp_value *constant(sp_aten *b, const sparta_tensor *t)
{
    sp_value *v = NULL;
    if (b->status == SPARTA_OK) b->status = sp_graph_add_constant(b->p->g, NULL, t, true, &v);
    return b->status == SPARTA_OK ? v : NULL;
}

sp_value *sp_aten_numbers(sp_aten *b, int n, const int64_t *value)
{
    const int64_t dim = n;
    const sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, &dim, (void *)(uintptr_t)value);
    return constant(b, &t);
}

/* A tensor of one value; what no integer can be is refused. */
static sp_value *filled(sp_aten *b, sparta_dtype dtype, int rank, int64_t n, double value)
{
    sparta_tensor t;
    if (!sp_dtype_is_float(dtype) && !(value >= -0x1p63 && value < 0x1p63))
        return sp_aten_refuse(b, "%g is no number of type %s", value, sparta_dtype_name(dtype));
    if (b->status != SPARTA_OK) return NULL;
    b->status = sp_tensor_alloc_in(b->p->keep, dtype, rank, &n, &t);
    for (int64_t i = 0; b->status == SPARTA_OK && i < n; i++) sp_element_set(dtype, t.data, i, value);
    return constant(b, &t);
}

sp_value *sp_aten_filled(sp_aten *b, sparta_dtype dtype, int64_t n, double value)
{
    return filled(b, dtype, 1, n, value);
}

sp_value *sp_aten_number_of(sp_aten *b, sparta_dtype dtype, double value)
{
    return filled(b, dtype, 0, 1, value);
}

sp_value *sp_aten_in(sp_aten *b, const char *name, sparta_dtype dtype)
{
    const json_value *arg = sp_aten_arg(b, name);
    if (is(arg, "as_tensor") || is(arg, "as_optional_tensor")) {
        const sp_pt2_value *x = sp_aten_maybe(b, name);
        return x ? sp_aten_cast(b, x->v, x->dtype, dtype) : malformed(b, name);
    }
    if (!arg) return malformed(b, name);
    if (is(arg, "as_sym_int") || (is(arg, "as_int") && dtype == SPARTA_I64))
        return sp_aten_cast(b, sp_aten_scalar_size(b, name), SPARTA_I64, dtype);
    return sp_aten_number_of(b, dtype, sp_aten_number(b, name, 0));
}

sp_value *sp_aten_as(sp_aten *b, const char *name)
{
    return sp_aten_in(b, name, b->dtype);
}

sp_value *sp_aten_swap_last(sp_aten *b, sp_value *v, int rank)
{
    int64_t perm[SPARTA_RANK];
    if (rank < 2 || rank > SPARTA_RANK) return sp_aten_refuse(b, "a factor has %d dims", rank);
    for (int i = 0; i < rank; i++) perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return OP_WITH(b, Transpose, SP_ATTRS(SP_INTS("perm", rank, perm)), v);
}
