/* reason: why a layer is not faster than dense, in words, with the numbers it rests on. */
#include "compile/lower.h"
#include <stdio.h>
#include <string.h>

static const char *how(const lower_node *ln)
{
    return strcmp(ln->source, "model") ? "measured" : "modelled";
}

/* A dense row won although something is absent: why, and at which density would it not have? */
static void dense_won(lower_node *ln, double peak)
{
    const sp_task *t = &ln->task;
    const sp_pattern *p = &t->pattern;
    const double stored = p->density * t->strip_fill; /* of the weight, in 4x1 strips */
    const double work =
        peak > 0 ? 2. * (double)(t->n * t->k) * stored * (double)sp_lower_tokens(t) / peak * 1e6 : 0;
    char *out = ln->reason;
    const size_t size = sizeof ln->reason;
    if (ln->sparse == LOWER_FORBIDDEN)
        snprintf(out, size, "density %.2f with pattern %s: dense implements only were asked for", p->density,
                 p->name);
    else if (ln->sparse == LOWER_WRONG)
        snprintf(out, size, "density %.2f with pattern %s: the sparse kernel disagreed with the reference",
                 p->density, p->name);
    else if (ln->sparse == LOWER_NO_MATCH)
        snprintf(out, size,
                 "density %.2f with pattern %s: strips of 4 rows would store %.2f of the dense weight",
                 p->density, p->name, stored);
    else if (ln->sparse_us <= ln->dense_us)
        snprintf(out, size,
                 "density %.2f with pattern %s: sparse would gain less than %.0f %% (%s: %.1f us sparse, "
                 "%.1f us dense)",
                 p->density, p->name, 100 * (1 - LOWER_SPARSE), how(ln), ln->sparse_us, ln->dense_us);
    else if (work > 0 && work < ln->sparse_us / 2) /* most of the sparse row's time is not work */
        snprintf(out, size, "n=%ld, k=%ld is too small: %.2f us of %.2f us is work (%s); dense takes %.2f us",
                 (long)t->n, (long)t->k, work, ln->sparse_us, how(ln), ln->dense_us);
    else
        snprintf(
            out, size,
            "density %.2f with pattern %s: dense is faster above %.2f (%s: %.1f us sparse, %.1f us dense)",
            p->density, p->name, p->density * ln->dense_us / ln->sparse_us, how(ln), ln->sparse_us,
            ln->dense_us);
}

/* The input is thinned out as the model runs: what that was worth, and on what assumption. */
static void thin_input(lower_node *ln)
{
    const sp_task *t = &ln->task;
    const double share = 100 * t->present;
    char *out = ln->reason;
    const size_t size = sizeof ln->reason;
    const double us = ln->us > 0 ? ln->us : ln->sparse_us;
    if (ln->im->skips && us > 0)
        snprintf(out, size,
                 "skips inputs that are 0, timed with %.3g %% of them there (%s: %.1f us, %.1f us dense)",
                 share, how(ln), us, ln->dense_us);
    else if (ln->im->skips)
        snprintf(out, size, "skips inputs that are 0, %.3g %% of them there (not timed)", share);
    else if (t->strict)
        snprintf(out, size, "input %.3g %% there: options.strict: a product that skips would skip 0 x Inf",
                 share);
    else if (!t->mask && t->present >= SP_MATMUL_SHARE)
        snprintf(out, size, "input %.3g %% there: of two activations skipping pays below %g %%", share,
                 100 * SP_MATMUL_SHARE);
    else if (!sp_implement_few(t) && t->present >= SP_SKIP_SHARE)
        snprintf(
            out, size,
            "input %.3g %% there: with more than %d tokens skipping pays below %g %%; bound them with --dim "
            "or give --tokens",
            share, SP_FEW_TOKENS, 100 * SP_SKIP_SHARE);
    else if (ln->sparse == LOWER_FORBIDDEN)
        snprintf(out, size, "input %.3g %% there: dense implements only were asked for", share);
    else if (!t->mask && !sp_implement_matches(&sp_implement_matmul_skip, t))
        snprintf(out, size,
                 "input %.3g %% there: what skips takes as many matrices on both sides, or one on the right",
                 share);
    else if (!(ln->sparse_us > 0 && ln->dense_us > 0))
        snprintf(out, size, "input %.3g %% there: %s", share,
                 ln->sparse == LOWER_WRONG ? "the kernel that skips disagreed with the reference"
                                           : "no kernel that skips was timed");
    else
        snprintf(out, size,
                 "input %.3g %% there: not skipping is faster (%s: %.1f us with what skips, %.1f us dense)",
                 share, how(ln), ln->sparse_us, ln->dense_us);
}

/* An attention that reads a list of blocks of keys. */
static void listed_keys(lower_node *ln, int64_t blocks, int64_t room)
{
    const long block = (long)sp_attr_int(&ln->node->attrs, "block", 1);
    const bool skips = ln->im == &sp_implement_attention_skip;
    char *out = ln->reason;
    size_t size = sizeof ln->reason;
    int n = blocks ? snprintf(out, size, "queries see at most %ld of %ld blocks of %ld keys: ", (long)room,
                              (long)blocks, block)
                   : snprintf(out, size, "queries see listed blocks of %ld keys: ", block);
    out += n, size -= (size_t)n;
    if (ln->sparse == LOWER_FORBIDDEN)
        snprintf(out, size, "dense implements only were asked for");
    else if (ln->task.strict)
        snprintf(out, size, "options.strict: skipping the others would skip 0 x Inf");
    else if (ln->dense_us > 0 && ln->sparse_us > 0)
        snprintf(out, size, "%s (%s: %.1f us, %.1f us dense)",
                 skips ? "the others are skipped" : "not skipping is faster", how(ln), ln->sparse_us,
                 ln->dense_us);
    else if (ln->sparse == LOWER_WRONG)
        snprintf(out, size, "the kernel that skips disagreed with the reference");
    else
        snprintf(out, size, "the others are skipped (not timed)");
}

/* A format that nobody wrote a kernel for: what runs it, and the price. */
static void walked(lower_node *ln)
{
    char *out = ln->reason;
    const size_t size = sizeof ln->reason;
    const bool slower = ln->us > ln->dense_us;
    const int n = snprintf(out, size, "format %.100s%s has no kernel of its own: %s", ln->pin->text,
                           strlen(ln->pin->text) > 100 ? "..." : "",
                           ln->im == &sp_implement_walk ? "run by the generic walker" : "one is generated");
    if (ln->us > 0 && ln->dense_us > 0)
        snprintf(out + n, size - (size_t)n, ", %.2f x %s than dense (%s: %.1f us, %.1f us dense)",
                 slower ? ln->us / ln->dense_us : ln->dense_us / ln->us, slower ? "slower" : "faster",
                 how(ln), ln->us, ln->dense_us);
}

/* An implement by name: said even where it is faster than dense, because it need not be the fastest. */
static void asked_for(lower_node *ln)
{
    const char *point = ln->point[0] ? ln->point : ln->pin->point;
    const int n = snprintf(ln->reason, sizeof ln->reason, "the schedule pins %s%s%s", ln->im->name,
                           *point ? " at " : "", point);
    if (ln->us > 0 && ln->dense_us > 0)
        snprintf(ln->reason + n, sizeof ln->reason - (size_t)n, " (%s: %.1f us, %.1f us dense)", how(ln),
                 ln->us, ln->dense_us);
}

void sp_lower_reason(lower_node *ln, double peak)
{
    const sp_task *t = &ln->task;
    ln->reason[0] = 0;
    if (!t->mask && ln->im && t->present > 0) {
        thin_input(ln);
        return;
    }
    if (!t->mask && (!ln->im || !ln->im->kernel) && sp_node_is_product(t->node)) {
        sp_compile_without_kernel(t->node, ln->reason, sizeof ln->reason);
        return;
    }
    int64_t blocks, room;
    if (sp_implement_listed(t->node, &blocks, &room)) {
        listed_keys(ln, blocks, room);
        return;
    }
    if (sp_node_is_product(t->node) && !t->mask && !t->node->in[1]->constant) {
        snprintf(ln->reason, sizeof ln->reason, "product of two activations: nothing to prune");
        return;
    }
    if (ln->pin && sp_implement_stores_any(ln->im)) {
        walked(ln);
        return;
    }
    if (ln->pin && ln->im == ln->pin->implement && !ln->pin->format) {
        asked_for(ln);
        return;
    }
    if (ln->pin && ln->im == ln->pin->implement && ln->sparse_us > 0 && ln->dense_us > 0) {
        if (!ln->im->sparse || ln->us > ln->dense_us)
            snprintf(ln->reason, sizeof ln->reason,
                     "the schedule pins %s (%s: %.1f us sparse, %.1f us dense)", ln->im->name, how(ln),
                     ln->sparse_us, ln->dense_us);
        return;
    }
    if (!t->mask || !ln->im) return;
    if (t->present > 0 && ln->im->kernel && (ln->im->skips || !ln->im->sparse)) {
        thin_input(ln);
        return;
    }
    if (ln->im->sparse) return;
    if (!ln->im->kernel)
        snprintf(ln->reason, sizeof ln->reason, "%s: the reference runs it",
                 ln->tried ? "every kernel disagreed with the reference"
                           : "no fast implement takes this layer");
    else if (t->pattern.dense)
        snprintf(ln->reason, sizeof ln->reason, "density 1.00: there are no zeros to skip");
    else if (sp_implement_dense_weight(t))
        snprintf(ln->reason, sizeof ln->reason, "%.2g %% zeros: a layer with less than %g %% is dense",
                 SP_MIN(100 * (1 - t->pattern.density), 99 * SP_ZEROS_SHARE), /* never rounded to the limit */
                 100 * SP_ZEROS_SHARE);
    else if (t->strict)
        snprintf(ln->reason, sizeof ln->reason, "options.strict: a sparse product would skip 0 x Inf");
    else
        dense_won(ln, peak);
}
