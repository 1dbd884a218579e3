/* Attributes and coordinates of resize.h. */
#include "builtin/resize.h"
#include <string.h>

static sparta_status read_word(sparta_ctx *cx, const sp_attrs *attrs, const char *name, int n,
                               const char *const *words, int *out)
{
    const char *said = sp_attr_string(attrs, name, words[0]);
    for (int i = 0; i < n; i++)
        if (!strcmp(said, words[i])) {
            *out = i;
            return SPARTA_OK;
        }
    return sp_fail(cx, SPARTA_E_UNSUPPORTED, "%s is \"%.60s\", which is not supported; \"%s\" is", name, said,
                   words[0]);
}

static sparta_status read_axes(sparta_ctx *cx, const sp_attrs *attrs, int rank, sp_resize *r)
{
    const sp_attr *a = sp_attr_find(attrs, "axes");
    bool seen[SPARTA_RANK] = {false};
    r->n_axes = a ? a->n : rank;
    if (r->n_axes > rank)
        return sp_fail(cx, SPARTA_E_SHAPE, "%d axes of an input of rank %d", r->n_axes, rank);
    for (int i = 0; i < r->n_axes; i++) {
        SP_TRY(sp_builtin_axis(cx, "Resize", a ? a->ints[i] : i, rank, &r->axis[i]));
        if (seen[r->axis[i]]) return sp_fail(cx, SPARTA_E_SHAPE, "axis %d is named twice", r->axis[i]);
        seen[r->axis[i]] = true;
    }
    return SPARTA_OK;
}

sparta_status sp_resize_read(sparta_ctx *cx, const sp_attrs *attrs, int rank, sp_resize *out)
{
    static const char *const coordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                              "align_corners", "asymmetric",           "tf_crop_and_resize"},
                             *const modes[] = {"nearest", "linear", "cubic"},
                             *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
                             *const aspects[] = {"stretch", "not_larger", "not_smaller"};
    int c = 0, m = 0, n = 0, k = 0;
    SP_TRY(read_word(cx, attrs, "coordinate_transformation_mode", 6, coordinates, &c));
    SP_TRY(read_word(cx, attrs, "mode", 3, modes, &m));
    SP_TRY(read_word(cx, attrs, "nearest_mode", 4, nearest, &n));
    SP_TRY(read_word(cx, attrs, "keep_aspect_ratio_policy", 3, aspects, &k));
    sp_resize r = {
        .coordinates = (sp_coordinates)c,
        .mode = (sp_interpolation)m,
        .nearest = (sp_nearest_mode)n,
        .aspect = (sp_aspect)k,
        .antialias = sp_attr_int(attrs, "antialias", 0),
        .exclude_outside = sp_attr_int(attrs, "exclude_outside", 0),
        .cubic = sp_attr_float(attrs, "cubic_coeff_a", -0.75f),
        .outside = sp_attr_float(attrs, "extrapolation_value", 0),
    };
    SP_TRY(read_axes(cx, attrs, rank, &r));
    *out = r;
    return SPARTA_OK;
}

double sp_resize_at(const sp_resize *r, const sp_resize_axis *a, int64_t o, bool *outside)
{
    const double in = (double)a->in, whole = a->scale * in; /* the size of the output before it was rounded */
    const double centre = ((double)o + 0.5) / a->scale - 0.5;
    double x = centre;
    *outside = false;
    switch (r->coordinates) {
    case SP_HALF_PIXEL: break;
    case SP_HALF_PIXEL_SYMMETRIC: x += in / 2 * (1 - (double)a->out / whole); break;
    case SP_PYTORCH_HALF_PIXEL: x = whole == 1 ? -0.5 : centre; break;
    case SP_ALIGN_CORNERS: x = whole == 1 ? 0 : (double)o * (in - 1) / (whole - 1); break;
    case SP_ASYMMETRIC: x = (double)o / a->scale; break;
    case SP_CROP_AND_RESIZE:
        x = (a->end - a->start) * (in - 1);
        x = whole == 1 ? x / 2 : (double)o * x / (whole - 1);
        x += a->start * (in - 1);
        *outside = !(x >= 0 && x <= in - 1);
        break;
    case SP_COORDINATES: break;
    }
    return x;
}
