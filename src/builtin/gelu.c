/* Gelu: y = x/2 (1 + erf(x / sqrt 2)), or with attribute approximate="tanh" y = x/2 (1 + tanh(sqrt(2/pi) (x +
 * 0.044715 x^3))). */
#include "builtin/activation.h"

sparta_status sparta_builtin_Gelu(sparta_ctx *cx, const sparta_op_args *args)
{
    bool approximate = !strcmp(sparta_attr_string(args->attrs, "approximate", "none"), "tanh");
    return sparta_builtin_unary(
        cx, args, &(sparta_unary){.real = sparta_activation_find(approximate ? "gelu_tanh" : "gelu")});
}
