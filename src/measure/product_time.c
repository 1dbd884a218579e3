/* One measurement, or what is remembered of it. Sparse and dense are timed in turns; both times are remembered under the shape, pattern and sparsity. */
#include "measure/product_time.h"
#include "implement/implement.h"
#include "tune/tune.h"
#include <stdio.h>
#include <string.h>

sparta_status sp_break_even_code(sparta_ctx *cx, uint64_t *out)
{
    sp_text text;
    sp_text_init(&text, cx);
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < sp_implement_count() && !s; i++) {
        const char *kernel = sp_implement_row(i)->kernel;
        if (kernel && sp_panel_multiplies(sp_panel_find(kernel))) s = sp_panel_text(kernel, &text);
    }
    if (!s) s = text.status;
    *out = s ? 0 : sp_hash(sp_text_str(&text), text.size, 0);
    sp_text_free(&text);
    return s;
}

sparta_status sp_product_timer_open(sparta_ctx *cx, const char *db, const char *target, sp_product_timer *out)
{
    sp_product_timer t = {.target = target};
    SP_TRY(sp_break_even_code(cx, &t.code));
    SP_TRY(sp_tune_open(cx, db, &t.db));
    *out = t;
    return SPARTA_OK;
}

static void key_of(const sp_product_timer *t, const sp_product_time *p, sp_text *out)
{
    const char *library = sp_implement_onednn.version();
    sp_text_printf(out,
                   "break-even n=%ld k=%ld pattern=%s sparsity=%.6g tokens=%ld target=%s library=%s "
                   "cpu=%016lx code=%016lx sparta=%s",
                   (long)p->n, (long)p->k, p->pattern, p->sparsity, (long)p->tokens,
                   t->target ? t->target : sp_target_name(sp_target_best(SP_DEVICE_CPU)),
                   library ? library : "none", (unsigned long)sp_machine_digest(), (unsigned long)t->code,
                   SPARTA_VERSION);
}

/* A sparse time and a dense one under the same key. */
static bool recall(const sp_product_timer *timer, const char *key, sp_product_time *out)
{
    sp_trial t[8];
    double sparse = 0, dense = 0;
    int n = sp_tune_find(timer->db, key, t, (int)SP_COUNT(t));
    for (int i = 0; i < SP_MIN(n, (int)SP_COUNT(t)); i++) {
        const sp_implement *im = sp_implement_find(t[i].implement);
        double *best = im && im->sparse ? &sparse : &dense;
        if (!im || *best > 0 || !sp_tune_believes(&t[i])) continue;
        *best = t[i].us;
        if (im->sparse) snprintf(out->implement, sizeof out->implement, "%s", im->name);
    }
    out->us = sparse;
    out->dense_us = dense;
    return sparse > 0 && dense > 0;
}

static void keep(const sp_product_timer *timer, const char *key, const char *implement, double us,
                 bool disturbed)
{
    sp_trial t = {.us = us, .threads = 1, .disturbed = disturbed};
    snprintf(t.implement, sizeof t.implement, "%s", implement);
    sp_tune_add(timer->db, key, &t);
}

static sparta_status measure(sparta_ctx *cx, const sp_product_timer *t, const char *key, sp_product_time *p)
{
    sp_kernel_result r;
    const sp_kernel_request q = {.m = p->tokens,
                                 .n = p->n,
                                 .k = p->k,
                                 .pattern = p->pattern,
                                 .sparsity = p->sparsity,
                                 .threads = 1,
                                 .target = t->target,
                                 .seconds = .01,
                                 .quick = true};
    SP_TRY(sp_kernel_bench(cx, &q, &r));
    const sp_implement *im = sp_implement_find(r.implement);
    if (!im || !im->sparse || !(r.dense_best_us > 0))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "break-even: no sparse implement takes it");
    p->measured = true;
    p->us = r.best_us;
    p->dense_us = r.dense_best_us;
    snprintf(p->implement, sizeof p->implement, "%s", r.implement);
    keep(t, key, r.implement, r.best_us, r.disturbed);
    keep(t, key, r.dense_name, r.dense_best_us, r.disturbed);
    return SPARTA_OK;
}

sparta_status sp_product_time_find(sparta_ctx *cx, const sp_product_timer *t, sp_product_time *p)
{
    sp_text key;
    sp_text_init(&key, cx);
    key_of(t, p, &key);
    sparta_status status = key.status;
    p->measured = false;
    if (!status && !recall(t, sp_text_str(&key), p)) status = measure(cx, t, sp_text_str(&key), p);
    sp_text_free(&key);
    return status;
}
