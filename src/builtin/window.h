/* Windows that slide over the spatial dims of (N, C, D1, ..., Dn): what Conv, ConvTranspose and the pools share.
 *
 *      before          in             after         kernel 3, dilation 2, stride 4: the taps of two outputs
 *     . . . . | x x x x x x x x x x | . . . .
 *         k   k   k                                 effective kernel (3-1)*2+1 = 5
 *                 k   k   k
 *
 * One to three spatial dims are always seen as three: the missing ones stand in front, with size, kernel, stride and
 * dilation 1 and no padding, so that one loop over z, y, x serves all.
 */
#ifndef SP_BUILTIN_WINDOW_H
#define SP_BUILTIN_WINDOW_H

#include "builtin/view.h"

#define SP_WINDOW_DIMS 3

/* Attribute auto_pad: as pads say, SAME with the odd one behind or in front, VALID. */
typedef enum { SP_PAD_GIVEN, SP_PAD_UPPER, SP_PAD_LOWER, SP_PAD_NONE } sp_padding;

typedef struct sp_window {
    int n; /* spatial dims that there are; they are the last n of each array */
    sp_padding padding;
    int64_t kernel[SP_WINDOW_DIMS], stride[SP_WINDOW_DIMS], dilation[SP_WINDOW_DIMS];
    int64_t before[SP_WINDOW_DIMS], after[SP_WINDOW_DIMS];
    int64_t extra[SP_WINDOW_DIMS]; /* output_padding of ConvTranspose */
    int64_t group;                 /* of a convolution: at least 1 */
    bool ceil;                     /* of a pool: the last window may end beyond the padding */
} sp_window;

/* The attributes for n spatial dims, all checked: sizes of at least 1, pads of at least 0. The kernel is that of the
 * weights, or of attribute kernel_shape when `kernel` is NULL. E_SHAPE or E_UNSUPPORTED says what is wrong. */
sparta_status sp_window_read(sparta_ctx *cx, const sp_attrs *attrs, int n, const int64_t *kernel,
                             sp_window *out) SP_MUST;
static inline int64_t sp_window_effective(const sp_window *w, int i)
{
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}
/* The spatial dims of t as three. */
void sp_window_sizes(const sp_window *w, const sparta_tensor *t, int64_t size[SP_WINDOW_DIMS]);
/* Does at least one window stand in an input of that size and its padding? */
bool sp_window_fits(const sp_window *w, int i, int64_t size);
/* The padding that SAME means for these sizes; E_SHAPE when a kernel is larger than the padded input. */
sparta_status sp_window_place(sparta_ctx *cx, sp_window *w, const int64_t in[SP_WINDOW_DIMS],
                              const int64_t out[SP_WINDOW_DIMS]) SP_MUST;
/* The i in [from, to) of [0, count) with 0 <= first + i*step < limit: bounds leave the inner loops. step >= 1. */
void sp_window_range(int64_t first, int64_t step, int64_t limit, int64_t count, int64_t *from, int64_t *to);
/* Taps of the window at output o of dim i: from *first on, those in [*from, *to) are inside. How many count: these, or with count_padding
 * those in the padding too. */
int64_t sp_window_taps(const sp_window *w, const int64_t in[SP_WINDOW_DIMS], int i, int64_t o,
                       bool count_padding, int64_t *first, int64_t *from, int64_t *to);
/* The elements of t in row-major order as doubles. */
void sp_window_load(const sparta_tensor *t, double *to);
static inline int64_t sp_window_volume(const int64_t size[SP_WINDOW_DIMS])
{
    return size[0] * size[1] * size[2];
}

#endif
