/* What tests of references stand on: a context that must end empty, and shorthands for tensors, attributes and calls. */
#ifndef SP_TESTS_BUILTIN_BED_H
#define SP_TESTS_BUILTIN_BED_H

#include "bed.h"
#include "builtin/builtin.h"

/* ------------------------------------------------------------------ shorthands */
#define DIMS(...)                                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                                   \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define F32(data, ...) sparta_tensor_view(SPARTA_F32, DIMS(__VA_ARGS__), data)
#define I64(data, ...) sparta_tensor_view(SPARTA_I64, DIMS(__VA_ARGS__), data)
#define ATTRS(...)     (&(sp_attrs){sizeof((sp_attr[]){__VA_ARGS__}) / sizeof(sp_attr), (sp_attr[]){__VA_ARGS__}})
#define INT(key, value)                                                                                      \
    {                                                                                                        \
        .name = key, .kind = SP_ATTR_INT, .i = value                                                         \
    }
#define FLOAT(key, value)                                                                                    \
    {                                                                                                        \
        .name = key, .kind = SP_ATTR_FLOAT, .f = value                                                       \
    }
#define STRING(key, value)                                                                                   \
    {                                                                                                        \
        .name = key, .kind = SP_ATTR_STRING, .s = value                                                      \
    }

static const sp_attrs none;
static const sparta_tensor absent __attribute__((unused)) = {.rank = -1};

HELPER sparta_status call(sp_op_id op, const sp_attrs *attrs, int n_in, const sparta_tensor *in,
                          sparta_tensor out)
{
    return sp_builtin_row(op)->fn(cx, &(sp_op_args){attrs, n_in, 1, in, &out});
}
#define CALL(op, attrs, out, ...)                                                                            \
    call(SP_OP_##op, attrs, (int)(sizeof((sparta_tensor[]){__VA_ARGS__}) / sizeof(sparta_tensor)),           \
         (sparta_tensor[]){__VA_ARGS__}, out)

#endif
