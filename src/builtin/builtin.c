/* The table of operators, made of the rows of ops.def, and how attributes are read. */
#include "builtin/builtin.h"
#include <string.h>

static const sp_builtin table[] = {
#define SP_OP(id, domain, name, since, min_in, max_in, max_out)                                              \
    {SP_OP_##id, domain, name, since, min_in, max_in, max_out, sp_builtin_##id},
#include "builtin/ops.def"
#undef SP_OP
};

const sp_builtin *sp_builtin_row(sp_op_id id)
{
    return &table[id];
}

bool sp_op_empty(const sp_op_args *args)
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

sparta_status sp_builtin_run(sparta_ctx *cx, sp_op_id id, const sp_op_args *args)
{
    bool lengthy = false;
    for (int i = 0; i < args->n_in; i++) lengthy |= is_long(&args->in[i]);
    for (int i = 0; i < args->n_out; i++) lengthy |= is_long(&args->out[i]);
    return lengthy && sp_op_empty(args) ? SPARTA_OK : table[id].fn(cx, args);
}

const sp_builtin *sp_builtin_find(const char *domain, const char *name)
{
    if (!domain || !strcmp(domain, "ai.onnx")) domain = "";
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i].name, name) && !strcmp(table[i].domain, domain)) return &table[i];
    return NULL;
}

const sp_attr *sp_attr_find(const sp_attrs *attrs, const char *name)
{
    for (int i = 0; attrs && i < attrs->n; i++)
        if (!strcmp(attrs->attr[i].name, name)) return &attrs->attr[i];
    return NULL;
}

/* An attribute of another kind counts as absent here; graphs hold none (graph/attributes.def). */
static const sp_attr *find_kind(const sp_attrs *attrs, const char *name, sp_attr_kind kind)
{
    const sp_attr *a = sp_attr_find(attrs, name);
    return a && a->kind == kind ? a : NULL;
}

int64_t sp_attr_int(const sp_attrs *attrs, const char *name, int64_t otherwise)
{
    const sp_attr *a = find_kind(attrs, name, SP_ATTR_INT);
    return a ? a->i : otherwise;
}

float sp_attr_float(const sp_attrs *attrs, const char *name, float otherwise)
{
    const sp_attr *a = find_kind(attrs, name, SP_ATTR_FLOAT);
    return a ? a->f : otherwise;
}

const char *sp_attr_string(const sp_attrs *attrs, const char *name, const char *otherwise)
{
    const sp_attr *a = find_kind(attrs, name, SP_ATTR_STRING);
    return a ? a->s : otherwise;
}
