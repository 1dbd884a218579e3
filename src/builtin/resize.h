/* Resize: where each output coordinate lies in the input, along one axis.
 *
 *     out coordinate o --(attribute coordinate_transformation_mode)--> x in [0, in) --(mode)--> neighbours and their weights
 */
#ifndef SP_BUILTIN_RESIZE_H
#define SP_BUILTIN_RESIZE_H

#include "builtin/view.h"

typedef enum {
    SP_HALF_PIXEL,
    SP_HALF_PIXEL_SYMMETRIC,
    SP_PYTORCH_HALF_PIXEL,
    SP_ALIGN_CORNERS,
    SP_ASYMMETRIC,
    SP_CROP_AND_RESIZE,
    SP_COORDINATES
} sp_coordinates;
typedef enum { SP_NEAREST, SP_LINEAR, SP_CUBIC } sp_interpolation;
typedef enum { SP_PREFER_FLOOR, SP_PREFER_CEIL, SP_FLOOR, SP_CEIL } sp_nearest_mode;
typedef enum { SP_STRETCH, SP_NOT_LARGER, SP_NOT_SMALLER } sp_aspect;

typedef struct sp_resize { /* the attributes */
    sp_coordinates coordinates;
    sp_interpolation mode;
    sp_nearest_mode nearest;
    sp_aspect aspect;
    bool antialias, exclude_outside;
    double cubic, outside;         /* cubic_coeff_a, extrapolation_value */
    int n_axes, axis[SPARTA_RANK]; /* attribute axes, or all */
} sp_resize;

/* Words that are none and axes that are none or given twice: E_UNSUPPORTED, E_SHAPE. */
sparta_status sp_resize_read(sparta_ctx *cx, const sp_attrs *attrs, int rank, sp_resize *out) SP_MUST;

typedef struct sp_resize_axis {
    int64_t in, out;
    double scale;
    double start, end; /* of the region of interest, as parts of the axis */
} sp_resize_axis;

/* Where output o lies in the input. *outside: beyond the region that tf_crop_and_resize can see. */
double sp_resize_at(const sp_resize *r, const sp_resize_axis *a, int64_t o, bool *outside);

/* Every axis of x, with what the inputs say of it. */
sparta_status sp_resize_axes(sparta_ctx *cx, const sp_op_args *args, const sp_resize *r,
                             sp_resize_axis *axis) SP_MUST;
/* An axis that stays as it is, whatever the mode. */
bool sp_resize_stays(const sp_resize_axis *a);
/* The index that is nearest to output o; -1: outside. */
int64_t sp_resize_nearest(const sp_resize *r, const sp_resize_axis *a, int64_t o);
/* The neighbours of x, which repeat at the edges or, with exclude_outside, do not count there: *first and n weights that add up to
 * 1. When shrinking, antialias takes as many as one step of the output spans. */
int64_t sp_resize_neighbours(const sp_resize *r, const sp_resize_axis *a, double x, int64_t *first,
                             double *weight);
/* The most neighbours that an output has; 0 when that is absurd. */
size_t sp_resize_most(const sp_resize *r, const sp_resize_axis *a);

#endif
