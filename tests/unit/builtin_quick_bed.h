/* What tests of quick twins stand on: the same call by the twin, with the kernels of every target that runs here and one or three threads, and
 * by the reference. */
#ifndef SP_TESTS_BUILTIN_QUICK_BED_H
#define SP_TESTS_BUILTIN_QUICK_BED_H

#include "builtin/quick.h"
#include "builtin_bed.h"
#include "device/device.h"
#include <math.h>

static sp_pool *team;

static int enter(void **state)
{
    if (set_up(state)) return -1;
    team = sp_pool_create(cx, 3);
    return team ? 0 : -1;
}

static int leave(void **state)
{
    sp_pool_free(team);
    return tear_down(state);
}

/* Numbers between -1 and 1, in memory that is freed by the caller. */
static sparta_tensor random_floats(int rank, const int64_t *dim, uint64_t seed)
{
    sparta_tensor t;
    sp_rng rng = sp_rng_seed(seed);
    ok(sp_tensor_alloc(cx, SPARTA_F32, rank, dim, &t));
    for (int64_t i = 0; i < sparta_tensor_elements(&t); i++)
        ((float *)t.data)[i] = (float)(2 * sp_rng_uniform(&rng) - 1);
    return t;
}

/* Memory of the same shape and strides, every byte 0xff: what is not written is no answer. */
static sparta_tensor poisoned(const sparta_tensor *like)
{
    sparta_tensor t, all;
    int64_t span = 1;
    for (int i = 0; i < like->rank; i++) span += SP_MAX(like->dim[i] - 1, 0) * like->stride[i];
    ok(sp_tensor_alloc(cx, like->dtype, 1, &span, &all));
    memset(all.data, 0xff, (size_t)span * sparta_dtype_size(like->dtype));
    t = *like;
    t.data = all.data;
    return t;
}

static void assert_close(const sparta_tensor *got, const sparta_tensor *want, const char *what)
{
    const sparta_tensor *both[] = {got, want};
    for (sp_cursor w = sp_cursor_begin(got->rank, got->dim, 2, both); w.more; sp_cursor_next(&w)) {
        const double a = sp_element_get(got->dtype, got->data, w.at[0]),
                     b = sp_element_get(want->dtype, want->data, w.at[1]);
        const bool same = isnan(b) ? isnan(a) : isinf(b) ? a == b : fabs(a - b) <= 2e-5 * fmax(1, fabs(b));
        if (!same) fail_msg("%s: element %ld is %.9g, the reference says %.9g", what, (long)w.at[0], a, b);
    }
}

/* The twin must take it (or must decline: then the reference's answer is no test of it) and agree with the reference. `out` says types, dims and
 * strides; its data is not touched. */
static void twin(sp_op_id op, const sp_attrs *attrs, int n_in, const sparta_tensor *in, int n_out,
                 const sparta_tensor *out, sp_quick_fn fn, bool takes)
{
    static const sp_quick_kernels *const tables[] = {&sp_quick_avx512, &sp_quick_avx2, &sp_quick_portable};
    sparta_tensor want[2], got[2];
    for (int i = 0; i < n_out; i++) want[i] = poisoned(&out[i]);
    ok(sp_builtin_run(cx, op, &(sp_op_args){attrs, n_in, n_out, in, want}));
    for (int i = 0; i < 2 * (int)SP_COUNT(tables); i++) {
        const int t = i / 2;
        bool done = false;
        char what[64];
        if (!tables[t]->multiply || !sp_target_fits((sp_target)t)) continue;
        snprintf(what, sizeof what, "%s, %s", sp_builtin_row(op)->name, sp_target_name((sp_target)t));
        sp_quick_use(tables[t]);
        sp_ctx_lend(cx, i % 2 ? team : NULL);
        for (int o = 0; o < n_out; o++) got[o] = poisoned(&out[o]);
        ok(fn(cx, &(sp_op_args){attrs, n_in, n_out, in, got}, &done));
        sp_ctx_lend(cx, NULL);
        assert_int_equal(done, takes);
        for (int o = 0; o < n_out; o++) {
            if (done) assert_close(&got[o], &want[o], what);
            sp_free(cx, got[o].data);
        }
    }
    sp_quick_use(NULL);
    for (int i = 0; i < n_out; i++) sp_free(cx, want[i].data);
}

#endif
