/* onednn: a Linear by oneDNN's sgemm, where that library is found at run time (panel/library.h): the second dense competitor. A package
 * with it runs elsewhere too, with a product of ours in its place, so it is chosen only where it wins clearly (compile/choose.c). */
#include "implement/linear.h"
#include "panel/library.h"

bool sp_implement_library(sp_target target)
{
    const sp_target widest = sp_cpu_has("avx512f") ? SP_TARGET_AVX512
                             : sp_cpu_has("avx2")  ? SP_TARGET_AVX2
                                                   : SP_TARGET_PORTABLE;
    return target == widest && sp_library_sgemm() != NULL;
}

static bool match(const sp_task *t)
{
    return t->library && sp_linear_match(t);
}
/* The epilogue passes over the rows once more, and the weight is packed anew for every panel. */
static double cost(const sp_task *t)
{
    return (double)(t->n * t->k) * 1.1 + (double)t->n * 24;
}
static void parameters(const sp_task *t, sp_text *out)
{
    sp_linear_epilogue(t, out);
}
static void format(const sp_task *t, sp_text *out)
{
    (void)t;
    sp_text_printf(out, "(n,k)->(n:dense, k:dense)");
}

const sp_implement sp_implement_onednn = {.name = "onednn",
                                          .kernel = "library",
                                          .match = match,
                                          .cost = cost,
                                          .parameters = parameters,
                                          .format = format,
                                          .version = sp_library_version};
