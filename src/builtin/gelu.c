/* Gelu: y = x/2 (1 + erf(x / sqrt 2)), or with attribute approximate="tanh" y = x/2 (1 + tanh(sqrt(2/pi) (x +
 * 0.044715 x^3))). */
#include "builtin/activation.h"

sparta_status sp_builtin_Gelu(sparta_ctx *cx, const sp_op_args *args)
{
    bool approximate = !strcmp(sp_attr_string(args->attrs, "approximate", "none"), "tanh");
    return sp_builtin_unary(cx, args,
                            &(sp_unary){.real = sp_activation_find(approximate ? "gelu_tanh" : "gelu")});
}
