/* epilogue: what happens to the sums of a product before they are stored, as a list of words in the order in which it happens:
 *
 *     "bias gelu"       gelu(x w + b)              "bias relu add"     relu(x w + b) + residual
 *     "bias add relu"   relu(x w + b + residual)   ""                  x w
 *     "silu mul"        silu(x w) times the input that is added elsewhere: the gate of a SwiGLU
 *
 * The words are the rows of epilogue.def. Those that take an operand name the input it comes from; each input is taken once, and the bias
 * comes first, because kernels begin their sums with it. The reference walks the list, and so do the portable kernels; a
 * compiled kernel has it as an expression (implement/linear.c).
 */
#ifndef SP_BUILTIN_EPILOGUE_H
#define SP_BUILTIN_EPILOGUE_H

#include "builtin/builtin.h"

#define SP_EPILOGUE_WORDS 8 /* the most in a list */

typedef enum sp_word_id {
#define SP_WORD(id, name, slot, f, op, approximate, alpha) SP_WORD_##id,
#include "builtin/epilogue.def"
#undef SP_WORD
    SP_WORDS
} sp_word_id;

typedef struct sp_word {
    const char *name;
    int slot;              /* the input that it takes; 0: none, it is a function */
    double (*f)(double x); /* NULL: it adds, or multiplies where op is Mul */
    sp_op_id op;           /* the operator that is the same */
    const char *approximate;
    float alpha;
} sp_word;

typedef struct sp_words {
    int n;
    sp_word_id word[SP_EPILOGUE_WORDS];
} sp_words;

const sp_word *sp_word_row(sp_word_id id);
/* What it makes of v; `operand` is an element of the input that it takes. */
static inline double sp_word_apply(const sp_word *w, double v, double operand)
{
    return w->f ? w->f(v) : w->op == SP_OP_Mul ? v * operand : v + operand;
}
/* The word that does what a node of this operator does, or -1. */
int sp_word_of(sp_op_id op, const sp_attrs *attrs);
/* The list of a product that has these inputs (attribute `epilogue`; without it what is there is added). NULL: fine; else what is wrong. */
const char *sp_words_of(const sp_attrs *attrs, bool bias, bool residual, sp_words *out);
/* The same of a text; NULL: what is there is added. */
const char *sp_words_parse(const char *text, bool bias, bool residual, sp_words *out);
bool sp_words_only_add(const sp_words *words); /* no function among them, and no factor */

#endif
