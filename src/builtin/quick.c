/* Which twin, and which table of kernels (quick.h). */
#include "builtin/quick.h"
#include "device/device.h"
#include <stdatomic.h>

static const sp_quick_fn table[SP_OPS] = {
#define SP_QUICK(op) [SP_OP_##op] = sp_quick_##op,
#include "builtin/quick.def"
#undef SP_QUICK
};

bool sp_quick_has(sp_op_id id)
{
    return table[id] != NULL;
}

const char *sp_builtin_digest(void)
{
#ifdef SP_BUILTIN_DIGEST
    return SP_BUILTIN_DIGEST;
#else
    return "";
#endif
}

sparta_status sp_builtin_quick(sparta_ctx *cx, sp_op_id id, const sp_op_args *args)
{
    bool done = false;
    if (table[id] && !sp_op_empty(args)) SP_TRY(table[id](cx, args, &done));
    return done ? SPARTA_OK : sp_builtin_run(cx, id, args);
}

static _Atomic(const sp_quick_kernels *) chosen; /* by the first call */

const sp_quick_kernels *sp_quick_here(void)
{
    static const sp_quick_kernels *const tables[] = {[SP_TARGET_AVX512] = &sp_quick_avx512,
                                                     [SP_TARGET_AVX2] = &sp_quick_avx2,
                                                     [SP_TARGET_PORTABLE] = &sp_quick_portable};
    const sp_quick_kernels *best = atomic_load_explicit(&chosen, memory_order_relaxed);
    for (int t = 0; !best; t++)
        if (tables[t]->multiply && sp_target_fits((sp_target)t)) best = tables[t];
    atomic_store_explicit(&chosen, best, memory_order_relaxed);
    return best;
}

void sp_quick_use(const sp_quick_kernels *kernels)
{
    atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
}
