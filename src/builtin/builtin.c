/* The table of operators, made of the rows of ops.def, and how attributes are read. */
#include "builtin/builtin.h"
#include <string.h>

static const sparta_builtin table[] = {
#define SPARTA_OP(id, domain, name, min_in, max_in, max_out)                                                 \
    {SPARTA_OP_##id, domain, name, min_in, max_in, max_out, sparta_builtin_##id},
#include "builtin/ops.def"
#undef SPARTA_OP
};

const sparta_builtin *sparta_builtin_row(sparta_op_id id)
{
    return &table[id];
}

bool sparta_op_empty(const sparta_op_args *args)
{
    for (int i = 0; i < args->n_out; i++)
        if (args->out[i].rank >= 0 && sparta_tensor_elements(&args->out[i]) != 0) return false;
    return true;
}

/* What its dims multiply to, but for those of 0, is more than loops should run for nothing. */
static bool is_long(const sparta_tensor *t)
{
    const double most = 1 << 24;
    double n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i] ? (double)t->dim[i] : 1;
    return n > most;
}

sparta_status sparta_builtin_run(sparta_ctx *cx, sparta_op_id id, const sparta_op_args *args)
{
    bool lengthy = false;
    for (int i = 0; i < args->n_in; i++) lengthy |= is_long(&args->in[i]);
    for (int i = 0; i < args->n_out; i++) lengthy |= is_long(&args->out[i]);
    return lengthy && sparta_op_empty(args) ? SPARTA_OK : table[id].fn(cx, args);
}

const sparta_builtin *sparta_builtin_find(const char *domain, const char *name)
{
    if (!domain || !strcmp(domain, "ai.onnx")) domain = "";
    for (size_t i = 0; i < SPARTA_COUNT(table); i++)
        if (!strcmp(table[i].name, name) && !strcmp(table[i].domain, domain)) return &table[i];
    return NULL;
}

const sparta_attr *sparta_attr_find(const sparta_attrs *attrs, const char *name)
{
    for (int i = 0; attrs && i < attrs->n; i++)
        if (!strcmp(attrs->attr[i].name, name)) return &attrs->attr[i];
    return NULL;
}

/* An attribute of another kind counts as absent here; graphs hold none (graph/attributes.def). */
static const sparta_attr *find_kind(const sparta_attrs *attrs, const char *name, sparta_attr_kind kind)
{
    const sparta_attr *a = sparta_attr_find(attrs, name);
    return a && a->kind == kind ? a : NULL;
}

int64_t sparta_attr_int(const sparta_attrs *attrs, const char *name, int64_t otherwise)
{
    const sparta_attr *a = find_kind(attrs, name, SPARTA_ATTR_INT);
    return a ? a->i : otherwise;
}

float sparta_attr_float(const sparta_attrs *attrs, const char *name, float otherwise)
{
    const sparta_attr *a = find_kind(attrs, name, SPARTA_ATTR_FLOAT);
    return a ? a->f : otherwise;
}

const char *sparta_attr_string(const sparta_attrs *attrs, const char *name, const char *otherwise)
{
    const sparta_attr *a = find_kind(attrs, name, SPARTA_ATTR_STRING);
    return a ? a->s : otherwise;
}
