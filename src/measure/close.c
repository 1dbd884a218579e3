/* Are two results the same, but for rounding? */
#include "measure/measure.h"
#include <math.h>

typedef struct sums {
    double ab, aa, bb; /* of finite pairs */
    double max_abs, max_b;
    bool broken; /* a NaN or an Inf on one side only */
} sums;

static void add(sums *s, double a, double b)
{
    if (isfinite(b)) s->max_b = fmax(s->max_b, fabs(b));
    if (!isfinite(a) || !isfinite(b)) {
        bool same = (isnan(a) && isnan(b)) || a == b;
        s->broken |= !same;
        return;
    }
    s->max_abs = fmax(s->max_abs, fabs(a - b));
    s->ab += a * b;
    s->aa += a * a;
    s->bb += b * b;
}

static sums compare(const sparta_tensor *a, const sparta_tensor *b)
{
    sums s = {0};
    const sparta_tensor *both[] = {a, b};
    for (sparta_walk w = sparta_walk_begin(a->rank, a->dim, 2, both); w.more; sparta_walk_next(&w))
        add(&s, sparta_element_get(a->dtype, a->data, w.at[0]),
            sparta_element_get(b->dtype, b->data, w.at[1]));
    return s;
}

bool sparta_close(const sparta_tensor *a, const sparta_tensor *b, double rtol, double atol,
                  sparta_verify_output *out)
{
    const char *name = out->name;
    *out = (sparta_verify_output){.name = name, .max_abs = INFINITY, .max_rel = INFINITY};
    if (a->dtype != b->dtype || !sparta_tensor_same_shape(a, b)) return false;
    sums s = compare(a, b);
    out->max_abs = s.broken ? INFINITY : s.max_abs;
    out->max_rel = out->max_abs == 0 ? 0 : out->max_abs / s.max_b;
    out->cosine = s.aa > 0 && s.bb > 0 ? s.ab / sqrt(s.aa * s.bb) : s.aa == s.bb;
    out->allowed = atol + rtol * s.max_b;
    out->ok = !s.broken && s.max_abs <= out->allowed;
    return out->ok;
}
