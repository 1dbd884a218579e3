/* The table of layouts, and the addresses that follow from it. */
#include "panel/lanes.h"
#include <string.h>

static const char *const table[] = {
#define SP_LAYOUT(id, name, format, panel, row) name,
#include "panel/layouts.def"
#undef SP_LAYOUT
};

const char *sp_layout_name(sp_layout l)
{
    return l < SP_LAYOUTS ? table[l] : l == SP_LAYOUT_PACKED ? "packed" : "absent";
}

bool sp_layout_find(const char *name, sp_layout *out)
{
    for (int i = 0; i < SP_LAYOUTS; i++)
        if (!strcmp(table[i], name)) {
            *out = (sp_layout)i;
            return true;
        }
    return false;
}

static sp_lanes strides(sp_layout l, int64_t panels, int64_t rows)
{
    switch (l) {
#define SP_LAYOUT(id, name, format, panel, row)                                                              \
    case SP_LAYOUT_##id:                                                                                     \
        return (sp_lanes){panels, rows, panel, row};
#include "panel/layouts.def"
#undef SP_LAYOUT
    default: return (sp_lanes){0};
    }
}

bool sp_lanes_of(sp_layout l, const sparta_tensor *value, int64_t more, sp_lanes *out, size_t *bytes)
{
    const int64_t features = sp_panel_features(value), panels = SP_MAX(sp_panels(sp_panel_tokens(value)), 1);
    int64_t words;
    if (!sp_lane_features(value->dtype) || features > INT64_MAX / 2 - more) return false;
    const int64_t rows = sp_lane_rows(value->dtype, features) + more;
    if (!sp_int_mul(rows, panels, &words) || !sp_int_mul(words, SP_PANEL * sizeof(uint32_t), &words))
        return false;
    *out = strides(l, panels, rows);
    *bytes = (size_t)words;
    return true;
}

void *sp_lane_at(const sp_lanes *l, sparta_dtype t, void *at, int64_t token, int64_t feature)
{
    const int64_t each = sp_lane_features(t), word = token / SP_PANEL * l->panel + feature / each * l->row;
    return (char *)at + (word + token % SP_PANEL) * 4 + feature % each * (int64_t)sparta_dtype_size(t);
}
