/* Resize: where each output coordinate lies in the input, along one axis.
 *
 *     out coordinate o --(attribute coordinate_transformation_mode)--> x in [0, in) --(mode)--> neighbours and their weights
 */
#ifndef SPARTA_BUILTIN_RESIZE_H
#define SPARTA_BUILTIN_RESIZE_H

#include "builtin/view.h"

typedef enum {
    SPARTA_HALF_PIXEL,
    SPARTA_HALF_PIXEL_SYMMETRIC,
    SPARTA_PYTORCH_HALF_PIXEL,
    SPARTA_ALIGN_CORNERS,
    SPARTA_ASYMMETRIC,
    SPARTA_CROP_AND_RESIZE,
    SPARTA_COORDINATES
} sparta_coordinates;
typedef enum { SPARTA_NEAREST, SPARTA_LINEAR, SPARTA_CUBIC } sparta_interpolation;
typedef enum { SPARTA_PREFER_FLOOR, SPARTA_PREFER_CEIL, SPARTA_FLOOR, SPARTA_CEIL } sparta_nearest_mode;
typedef enum { SPARTA_STRETCH, SPARTA_NOT_LARGER, SPARTA_NOT_SMALLER } sparta_aspect;

typedef struct sparta_resize { /* the attributes */
    sparta_coordinates coordinates;
    sparta_interpolation mode;
    sparta_nearest_mode nearest;
    sparta_aspect aspect;
    bool antialias, exclude_outside;
    double cubic, outside;         /* cubic_coeff_a, extrapolation_value */
    int n_axes, axis[SPARTA_RANK]; /* attribute axes, or all */
} sparta_resize;

/* Words that are none and axes that are none or given twice: E_UNSUPPORTED, E_SHAPE. */
sparta_status sparta_resize_read(sparta_ctx *cx, const sparta_attrs *attrs, int rank,
                                 sparta_resize *out) SPARTA_MUST;

typedef struct sparta_resize_axis {
    int64_t in, out;
    double scale;
    double start, end; /* of the region of interest, as parts of the axis */
} sparta_resize_axis;

/* Where output o lies in the input. *outside: beyond the region that tf_crop_and_resize can see. */
double sparta_resize_at(const sparta_resize *r, const sparta_resize_axis *a, int64_t o, bool *outside);

#endif
