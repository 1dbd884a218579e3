/* onednn: a Linear by oneDNN's sgemm, where that library is found at run time (panel/library.h): the second dense competitor. A package
 * with it runs elsewhere too, with a product of ours in its place, so it is chosen only where it wins clearly (compile/choose.c). */
#include "implement/linear.h"
#include "panel/library.h"

bool sparta_implement_library(sparta_target target)
{
    const sparta_target widest = sparta_cpu_has("avx512f") ? SPARTA_TARGET_AVX512
                                 : sparta_cpu_has("avx2")  ? SPARTA_TARGET_AVX2
                                                           : SPARTA_TARGET_PORTABLE;
    return target == widest && sparta_library_sgemm() != NULL;
}

static bool match(const sparta_task *t)
{
    return t->library && sparta_linear_match(t);
}
/* The epilogue passes over the rows once more, and the weight is packed anew for every panel. */
static double cost(const sparta_task *t)
{
    return (double)(t->n * t->k) * 1.1 + (double)t->n * 24;
}
static void parameters(const sparta_task *t, sparta_text *out)
{
    sparta_linear_epilogue(t, out);
}
static void format(const sparta_task *t, sparta_text *out)
{
    (void)t;
    sparta_text_printf(out, "(n,k)->(n:dense, k:dense)");
}

const sparta_implement sparta_implement_onednn = {.name = "onednn",
                                                  .kernel = "library",
                                                  .match = match,
                                                  .cost = cost,
                                                  .parameters = parameters,
                                                  .format = format,
                                                  .version = sparta_library_version};
