/* lanes: where a value lies, and the words it is made of.
 *
 * A value (..., F) with T tokens in front lies in one of the layouts of layouts.def. In rows it is a tensor like others. In all others
 * 64 tokens are the lanes of a row of 64 words of 32 bits, and a panel is all rows of 64 tokens:
 *
 *     a row            | w w w w ... w |            64 words, one a token
 *     a word, f32      [ feature f ]
 *     a word, bf16     [ f, f + 1 ]                 and f16
 *     a word, 8 bits   [ f, f + 1, f + 2, f + 3 ]
 *
 * So a layout is two strides in words, from panel to panel and from row to row, whatever the type; a type is the number of features that
 * share a word. Rows are padded to a multiple of 4. Behind those of the features may be others, with statistics of what was written:
 * they are rows as well.
 *
 *     panel    [panel][row][64]     row = 64, panel = rows * 64
 *
 * Which device a value is on is no matter of its layout: its tensor says that.
 */
#ifndef SP_PANEL_LANES_H
#define SP_PANEL_LANES_H

#include "panel/abi.h"
#include "tensor/tensor.h"

typedef enum sp_layout {
#define SP_LAYOUT(id, name, format, panel, row) SP_LAYOUT_##id,
#include "panel/layouts.def"
#undef SP_LAYOUT
    SP_LAYOUTS,
    /* What an operand may be besides: a weight in a format of its own; nothing at all. */
    SP_LAYOUT_PACKED = SP_LAYOUTS,
    SP_LAYOUT_ABSENT
} sp_layout;

const char *sp_layout_name(sp_layout l); /* "panel", "packed", "absent" */
/* The row of that name; false: there is none. */
bool sp_layout_find(const char *name, sp_layout *out);
/* Are its tokens lanes? */
static inline bool sp_layout_has_lanes(sp_layout l)
{
    return l != SP_LAYOUT_ROWS && l < SP_LAYOUTS;
}

typedef struct sp_lanes {
    int64_t panels, rows;
    int64_t panel, row; /* words from one to the next */
} sp_lanes;

/* Features that share a word; 0: the type is larger than that. */
static inline int64_t sp_lane_features(sparta_dtype t)
{
    const size_t size = sparta_dtype_size(t);
    return size > 0 && size <= 4 ? (int64_t)(4 / size) : 0;
}
/* Rows of so many features. */
static inline int64_t sp_lane_rows(sparta_dtype t, int64_t features)
{
    const int64_t each = sp_lane_features(t);
    return ((features + each - 1) / each + 3) & ~INT64_C(3);
}
/* The lanes of a value, one panel at least, with `more` rows behind those of its features, and the bytes they take. False: it is too large, or
 * its type does not fit into words. */
bool sp_lanes_of(sp_layout l, const sparta_tensor *value, int64_t more, sp_lanes *out, size_t *bytes);
/* Where a feature of a token lies, of lanes that begin at `at`. */
void *sp_lane_at(const sp_lanes *l, sparta_dtype t, void *at, int64_t token, int64_t feature);

static inline int64_t sp_panels(int64_t tokens)
{
    return (tokens + SP_PANEL - 1) / SP_PANEL;
}
/* Tokens and features of a value's dims: all but the last are tokens. */
static inline int64_t sp_panel_tokens(const sparta_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < t->rank; i++) n *= t->dim[i];
    return n;
}
static inline int64_t sp_panel_features(const sparta_tensor *t)
{
    return t->rank ? t->dim[t->rank - 1] : 1;
}
/* One panel of a value, as a value: what a slot holds. */
static inline sparta_tensor sp_panel_one(const sparta_tensor *t)
{
    return sparta_tensor_view(t->dtype, 2, (int64_t[]){SP_PANEL, sp_panel_features(t)}, NULL);
}

#endif
