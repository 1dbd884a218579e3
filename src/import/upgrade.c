/* upgrade.c: old forms of operators become the newest, so that the rooms to the right know one form each.
 *
 *     Squeeze, Unsqueeze, Reduce*   attribute axes                ->  second input
 *     Split                         attribute split, or nothing   ->  second input, or num_outputs
 *     Softmax, LogSoftmax, Hardmax  before 13: over all dims from `axis` on, as one; since then over one.
 *                                   x -> Flatten(axis) -> Softmax(-1) -> Reshape(Shape(x))
 *                                   unless axis is known to be the last.
 *     Dropout                       attribute ratio               ->  second input
 *     Resize                        empty region, scales or sizes ->  absent
 *     GroupNormalization            before 21: scale and bias of each group  ->  of each channel
 *     what becomes several nodes of ours: products of integers (integer.c), onnxruntime's own operators (contrib.c)
 *
 * A default that changed between versions is written out: Softmax has its axis always. */
#include "import/parts.h"
#include <string.h>

typedef sparta_status (*rewrite)(sp_importer *im, sp_onnx_node *n, sp_op_id op);

/* ------------------------------------------------------------------ pieces */

/* Takes the attribute out of the node; false when it has none. */
static bool take(sp_onnx_node *n, const char *name, sp_attr *out)
{
    for (int i = 0; i < n->n_attr; i++) {
        if (strcmp(n->attr[i].name, name) != 0) continue;
        *out = n->attr[i];
        memmove(n->attr + i, n->attr + i + 1, (size_t)(n->n_attr - i - 1) * sizeof *n->attr);
        n->n_attr--;
        return true;
    }
    return false;
}

static sparta_status wrong(sp_importer *im, const sp_onnx_node *n, const char *what)
{
    return sp_fail(im->cx, SPARTA_E_FORMAT, "%s '%.200s': %s", n->op, n->name, what);
}

/* node.c leaves two places more than a node may have attributes. */
static void give_int(sp_onnx_node *n, const char *name, int64_t value)
{
    n->attr[n->n_attr++] = (sp_attr){.name = name, .kind = SP_ATTR_INT, .i = value};
}

static sparta_status emit(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    sp_attrs attrs = {n->n_attr, n->attr};
    sp_node *made;
    SP_TRY(sp_graph_add_node(im->g, op, n->name, n->n_in, n->in, n->n_out, n->out, &attrs, &made));
    if (n->module) {
        made->module = sp_arena_string(im->g->arena, n->module);
        SP_NEED(im->cx, made->module);
    }
    return SPARTA_OK;
}

/* A node with one fresh output, named after the one it comes from. `attr` may be NULL. */
static sparta_status emit_part(sp_importer *im, const sp_onnx_node *n, sp_op_id op, int n_in, sp_value **in,
                               const sp_attr *attr, sp_value **out)
{
    sp_attrs attrs = {attr ? 1 : 0, attr};
    const char *name = sp_arena_printf(im->scratch, "%s/%s", n->name, sp_builtin_row(op)->name);
    SP_NEED(im->cx, name);
    *out = NULL;
    return sp_graph_add_node(im->g, op, name, n_in, in, 1, out, &attrs, NULL);
}

/* Input 1 of the node becomes this tensor. */
static sparta_status give_input(sp_importer *im, sp_onnx_node *n, const sparta_tensor *t)
{
    if (n->n_in != 1) return wrong(im, n, "what an attribute says is an input too; one of them is allowed");
    sp_value **in = sp_arena_array(im->scratch, 2, sizeof *in);
    SP_NEED(im->cx, in);
    in[0] = n->in[0];
    SP_TRY(sp_graph_add_constant(im->g, NULL, t, true, &in[1]));
    n->in = in;
    n->n_in = 2;
    return SPARTA_OK;
}

static sparta_status ints_to_input(sp_importer *im, sp_onnx_node *n, const char *name)
{
    sp_attr a;
    if (!take(n, name, &a)) return SPARTA_OK;
    if (a.kind != SP_ATTR_INTS) return wrong(im, n, "the axes or sizes are no ints");
    const int64_t count = a.n;
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, &count, (void *)a.ints);
    return give_input(im, n, &t);
}

/* ------------------------------------------------------------------ the rewrites */

static sparta_status with_axes(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    SP_TRY(ints_to_input(im, n, "axes"));
    return emit(im, n, op);
}

static sparta_status split(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    sp_attr a;
    SP_TRY(ints_to_input(im, n, "split"));
    if (take(n, "num_outputs", &a) && (a.kind != SP_ATTR_INT || a.i != n->n_out || n->n_in > 1))
        return wrong(im, n, "num_outputs is not the number of outputs, or sizes are given too");
    if (n->n_in == 1) give_int(n, "num_outputs", n->n_out);
    return emit(im, n, op);
}

static sparta_status dropout(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    sp_attr a;
    if (take(n, "ratio", &a)) {
        if (a.kind != SP_ATTR_FLOAT) return wrong(im, n, "ratio is no float");
        sparta_tensor t = sparta_tensor_view(SPARTA_F32, 0, NULL, &a.f);
        SP_TRY(give_input(im, n, &t));
    }
    return emit(im, n, op);
}

/* Before 13 what is not given is an empty tensor. */
static sparta_status resize(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->constant && sparta_tensor_elements(n->in[i]->constant) == 0)
            n->in[i] = NULL;
    while (n->n_in > 1 && !n->in[n->n_in - 1]) n->n_in--;
    return emit(im, n, op);
}

/* In training it had up to five outputs. */
static sparta_status batch_normalization(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    if (n->n_out > 1 && im->model->opset < 14)
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "BatchNormalization '%.200s': it has %d outputs, as in training; export the model for "
                       "inference, with model.eval()",
                       n->name, n->n_out);
    return emit(im, n, op);
}

/* v (groups) -> (channels): each number as often as its group has channels; each (1). */
static sparta_status repeat_groups(sp_importer *im, const sp_onnx_node *n, sp_value *groups, sp_value *each,
                                   sp_value **v)
{
    static int64_t one = 1, minus = -1;
    const sp_attr axis = {.name = "axis", .kind = SP_ATTR_INT, .i = 0};
    const int64_t dim = 1;
    sparta_tensor at = sparta_tensor_view(SPARTA_I64, 1, &dim, &one),
                  rest = sparta_tensor_view(SPARTA_I64, 1, &dim, &minus);
    sp_value *column, *shape, *wide, *last, *all;
    SP_TRY(sp_graph_add_constant(im->g, NULL, &at, true, &last));
    SP_TRY(sp_graph_add_constant(im->g, NULL, &rest, true, &all));
    SP_TRY(emit_part(im, n, SP_OP_Unsqueeze, 2, (sp_value *[]){*v, last}, NULL, &column));
    SP_TRY(emit_part(im, n, SP_OP_Concat, 2, (sp_value *[]){groups, each}, &axis, &shape));
    SP_TRY(emit_part(im, n, SP_OP_Expand, 2, (sp_value *[]){column, shape}, NULL, &wide));
    return emit_part(im, n, SP_OP_Reshape, 2, (sp_value *[]){wide, all}, NULL, v);
}

static sparta_status group_normalization(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    static int64_t one = 1;
    const sp_attr from = {.name = "axis", .kind = SP_ATTR_INT, .i = 0};
    const int64_t dim = 1;
    sp_attr a;
    sp_value *shape, *place, *channels, *groups, *each;
    if (im->model->opset >= 21) return emit(im, n, op);
    if (n->n_in != 3 || !n->in[0] || !n->in[1] || !n->in[2]) return wrong(im, n, "it has three inputs");
    if (!take(n, "num_groups", &a) || a.kind != SP_ATTR_INT || a.i < 1)
        return wrong(im, n, "num_groups is missing or less than 1");
    sparta_tensor second = sparta_tensor_view(SPARTA_I64, 1, &dim, &one),
                  count = sparta_tensor_view(SPARTA_I64, 1, &dim, &a.i);
    SP_TRY(sp_graph_add_constant(im->g, NULL, &second, true, &place));
    SP_TRY(sp_graph_add_constant(im->g, NULL, &count, true, &groups));
    SP_TRY(emit_part(im, n, SP_OP_Shape, 1, n->in, NULL, &shape));
    SP_TRY(emit_part(im, n, SP_OP_Gather, 2, (sp_value *[]){shape, place}, &from, &channels));
    SP_TRY(emit_part(im, n, SP_OP_Div, 2, (sp_value *[]){channels, groups}, NULL, &each));
    for (int i = 1; i < 3; i++) SP_TRY(repeat_groups(im, n, groups, each, &n->in[i]));
    give_int(n, "num_groups", a.i);
    return emit(im, n, op);
}

/* The flattening form. Sizes of 0 in the shape are sizes, hence allowzero. */
static sparta_status flat_softmax(sp_importer *im, sp_onnx_node *n, sp_op_id op, int64_t axis)
{
    const sp_attr at = {.name = "axis", .kind = SP_ATTR_INT, .i = axis};
    const sp_attr last = {.name = "axis", .kind = SP_ATTR_INT, .i = -1};
    sp_value *flat, *soft, *shape;
    SP_TRY(emit_part(im, n, SP_OP_Flatten, 1, n->in, &at, &flat));
    SP_TRY(emit_part(im, n, op, 1, &flat, &last, &soft));
    SP_TRY(emit_part(im, n, SP_OP_Shape, 1, n->in, NULL, &shape));
    sp_value *in[] = {soft, shape};
    sp_onnx_node reshape = *n;
    reshape.in = in;
    reshape.n_in = 2;
    give_int(&reshape, "allowzero", 1);
    return emit(im, &reshape, SP_OP_Reshape);
}

static sparta_status softmax(sp_importer *im, sp_onnx_node *n, sp_op_id op)
{
    sp_attr a;
    bool old = im->model->opset < 13;
    int64_t axis = old ? 1 : -1;
    if (n->n_in != 1 || !n->in[0] || n->n_out != 1) return wrong(im, n, "it has one input and one output");
    if (take(n, "axis", &a)) {
        if (a.kind != SP_ATTR_INT) return wrong(im, n, "axis is no int");
        axis = a.i;
    }
    bool last = axis == -1 || (n->in[0]->typed && axis == n->in[0]->dims.rank - 1);
    if (old && !last) return flat_softmax(im, n, op, axis);
    give_int(n, "axis", old ? -1 : axis);
    return emit(im, n, op);
}

static const struct {
    sp_op_id op;
    rewrite rewrite;
} rewrites[] = {
    {SP_OP_Resize, resize},
    {SP_OP_BatchNormalization, batch_normalization},
    {SP_OP_GroupNormalization, group_normalization},
    {SP_OP_Squeeze, with_axes},
    {SP_OP_Unsqueeze, with_axes},
#define SP_REDUCE(id, ...)      {SP_OP_##id, with_axes},
#define SP_REDUCE_REAL(id, ...) {SP_OP_##id, with_axes},
#include "builtin/reductions.def"
    {SP_OP_Split, split},
    {SP_OP_Dropout, dropout},
    {SP_OP_Softmax, softmax},
    {SP_OP_LogSoftmax, softmax},
    {SP_OP_Hardmax, softmax},
};

/* ------------------------------------------------------------------ all */

sparta_status sp_onnx_upgrade(sp_importer *im, sp_onnx_node *n)
{
    const sp_part_row *row = sp_part_find(n->domain, n->op);
    if (row) return sp_part_build(im, n, row);
    sp_op_id op = sp_builtin_find("", n->op)->id;
    for (size_t i = 0; i < SP_COUNT(rewrites); i++)
        if (rewrites[i].op == op) return rewrites[i].rewrite(im, n, op);
    return emit(im, n, op);
}
