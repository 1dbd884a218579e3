/* Gelu: y = x/2 (1 + erf(x / sqrt 2)), or with attribute approximate="tanh" y = x/2 (1 + tanh(sqrt(2/pi) (x +
 * 0.044715 x^3))). */
#include "builtin/elementwise.h"
#include "builtin/epilogue.h"
#include <string.h>

sparta_status sp_builtin_Gelu(sparta_ctx *cx, const sp_op_args *args)
{
    const bool approximate = !strcmp(sp_attr_string(args->attrs, "approximate", "none"), "tanh");
    const sp_word *word = sp_word_row(approximate ? SP_WORD_GELU_TANH : SP_WORD_GELU);
    return sp_builtin_unary(cx, args, &(sp_unary){.real = word->f});
}
