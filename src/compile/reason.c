/* reason: why a layer is not faster than dense, in words, with the numbers it rests on. */
#include "compile/lower.h"
#include <stdio.h>
#include <string.h>

static const char *how(const lower_node *ln)
{
    return strcmp(ln->source, "model") ? "measured" : "modelled";
}

/* A dense implement won although something is absent: at which density would it not have? Times of the sparse row grow with its slots. */
static void dense_won(lower_node *ln, double sparse_us)
{
    const sparta_pattern *p = &ln->task.pattern;
    if (sparse_us <= 0)
        snprintf(ln->reason, sizeof ln->reason,
                 "density %.2f with pattern %s: 4x1 strips would store as much as dense", p->density,
                 p->name);
    else
        snprintf(
            ln->reason, sizeof ln->reason,
            "density %.2f with pattern %s: dense is faster above %.2f (%s: %.1f us sparse, %.1f us dense)",
            p->density, p->name, p->density * ln->dense_us / sparse_us, how(ln), sparse_us, ln->dense_us);
}

void sparta_lower_reason(lower_node *ln, double peak)
{
    const sparta_task *t = &ln->task;
    ln->reason[0] = 0;
    if (t->node->op == SPARTA_OP_Attention ||
        (t->node->op == SPARTA_OP_MatMul && !t->node->in[1]->constant)) {
        snprintf(ln->reason, sizeof ln->reason, "product of two activations: nothing to prune");
        return;
    }
    if (!t->mask || !ln->im) return;
    if (ln->im->sparse && ln->us < ln->dense_us) return;
    const double work =
        peak > 0 ? 2. * (double)(t->n * t->k) * t->pattern.density * LOWER_TOKENS / peak * 1e6 : 0;
    if (!ln->im->kernel)
        snprintf(ln->reason, sizeof ln->reason, "no fast implement takes this layer: the reference runs it");
    else if (t->strict && !t->pattern.dense)
        snprintf(ln->reason, sizeof ln->reason, "--strict: a sparse product would skip 0 x Inf");
    else if (t->pattern.dense)
        snprintf(ln->reason, sizeof ln->reason, "density 1.00: there are no zeros to skip");
    else if (work > 0 && ln->us > 3 * work)
        snprintf(ln->reason, sizeof ln->reason, "n=%ld, k=%ld is too small: %.2f us of %.2f us is work (%s)",
                 (long)t->n, (long)t->k, work, ln->us, how(ln));
    else
        dense_won(ln, ln->sparse_us);
}
