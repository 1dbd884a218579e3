/* The exchange of time for error: which pattern each layer takes so that all of them together fit into a time, and least is lost.
 *
 *     error^2 |          .  4x1:0.95                 of each layer the corners of the lower hull, from (0, 0), which is dense:
 *             |                                      each step to the next corner costs more for a microsecond than the one before
 *             |      .  4x1:0.9
 *             |  x  2:4 (above the hull: never)      steps of all layers, the cheapest microsecond first, until the time is reached;
 *             | .  4x1:0.5                           then what the last step saved too much is given back where that helps most
 *             +------------------- us saved
 *
 * Errors of layers are taken to add up as squares. Given the same numbers the answer is the same everywhere. */
#include "measure/measure.h"
#include <math.h>
#include <stdlib.h>

typedef struct step { /* of one layer, from a corner of its hull to the next */
    double slope, saved;
    int layer, order, option;
} step;

static double square(double x)
{
    return x * x;
}

static bool usable(const sp_exchange_layer *l, int i)
{
    return l->option[i].us < l->dense_us && l->option[i].error >= 0; /* false for NAN */
}

static double us_of(const sp_exchange_layer *l, int option)
{
    return option < 0 ? l->dense_us : l->option[option].us;
}

static double cost_of(const sp_exchange_layer *l, int option)
{
    return option < 0 ? 0 : square(l->option[option].error);
}

/* From option `at` (-1: dense) the next corner of the hull: the least error for a microsecond; of equals the one that saves most. */
static bool next_corner(const sp_exchange_layer *l, int at, step *out)
{
    bool found = false;
    for (int i = 0; i < l->n; i++) {
        const double saved = usable(l, i) ? us_of(l, at) - l->option[i].us : 0;
        if (!(saved > 0)) continue;
        const double slope = (cost_of(l, i) - cost_of(l, at)) / saved;
        if (found && (slope > out->slope || (slope == out->slope && saved <= out->saved))) continue;
        *out = (step){.slope = slope, .saved = saved, .option = i};
        found = true;
    }
    return found;
}

static int cheapest_first(const void *x, const void *y)
{
    const step *a = x, *b = y;
    if (a->slope != b->slope) return a->slope < b->slope ? -1 : 1;
    if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
    return a->order - b->order;
}

static int all_steps(const sp_exchange_layer *layer, int n, step *out)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        step s;
        double before = 0; /* rounding must not put a step before the one that it follows */
        for (int at = -1, order = 0; next_corner(&layer[i], at, &s); at = s.option, order++) {
            s.layer = i, s.order = order;
            s.slope = before = fmax(s.slope, before);
            out[count++] = s;
        }
    }
    return count;
}

/* One layer takes an option that loses less and still fits; the one that gains most. */
static bool give_back(sp_exchange_layer *layer, int n, double slack, double *used)
{
    int best = -1, option = -1;
    double most = 0;
    for (int i = 0; i < n; i++)
        for (int k = -1; k < layer[i].n; k++) {
            const sp_exchange_layer *l = &layer[i];
            if ((k >= 0 && !usable(l, k)) || us_of(l, k) - us_of(l, l->chosen) > slack) continue;
            const double gain = cost_of(l, l->chosen) - cost_of(l, k);
            if (gain > most) most = gain, best = i, option = k;
        }
    if (best < 0) return false;
    *used += us_of(&layer[best], option) - us_of(&layer[best], layer[best].chosen);
    layer[best].chosen = option;
    return true;
}

sparta_status sp_exchange(sparta_ctx *cx, sp_exchange_layer *layer, int n, double budget, double *us)
{
    size_t most = 1;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        layer[i].chosen = -1;
        most += (size_t)layer[i].n;
        sum += layer[i].dense_us;
    }
    step *steps = sp_alloc_array(cx, most, sizeof *steps);
    SP_NEED(cx, steps);
    const int count = all_steps(layer, n, steps);
    qsort(steps, (size_t)count, sizeof *steps, cheapest_first);
    for (int i = 0; i < count && sum > budget; i++) {
        layer[steps[i].layer].chosen = steps[i].option;
        sum -= steps[i].saved;
    }
    sp_free(cx, steps);
    while (sum <= budget && give_back(layer, n, budget - sum, &sum)) continue;
    *us = sum;
    return SPARTA_OK;
}
