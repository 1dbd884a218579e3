/* What a level kind is made of, for the files of this room and of room store.
 *
 * A kind is a row of levels.def, a file level_<name>.c that defines sp_level_ops_<ID>: how its positions are checked and walked, and
 * in room store how they are assembled (store/assemblers.c). The walker (walk.c) knows no kind by name.
 */
#ifndef SP_FORMAT_LEVEL_H
#define SP_FORMAT_LEVEL_H

#include "format/format.h"

/* One level while it is read. */
typedef struct sp_level_view {
    const sp_level *level;
    int number;
    int64_t extent, origin, parents;
    int64_t size;  /* positions of this level; known after verify */
    int64_t width; /* positions in each segment, where they are as many; known after verify */
    const sparta_tensor *pos, *crd;
    int64_t crd_n;               /* entries of crd, for one level */
    int64_t crd_step, crd_first; /* crd[position * step + first]: 1 and 0, unless the array is shared (aos) */
    int64_t seen_parent, seen_position, seen_coordinate; /* where a bitmap was read last */
} sp_level_view;

typedef struct sp_level_ops {
    /* Check the arrays (their types and contiguity were checked by the caller as far as the table says) and set size and width. */
    sparta_status (*verify)(sparta_ctx *cx, sp_level_view *v);
    /* The positions below one of the parent's: [lo, hi), within [0, size). Never outside, even when the
     * arrays change while we read. */
    void (*segment)(const sp_level_view *v, int64_t parent, int64_t *lo, int64_t *hi);
    /* The coordinate of a position; -1 when it is not below the extent. */
    int64_t (*coordinate)(sp_level_view *v, int64_t parent, int64_t position);
    /* Is it a slot without an entry? NULL: there are none. */
    bool (*padding)(sp_level_view *v, int64_t parent, int64_t position);
    /* Might its whole segment be without one: coordinate 0 in the first slot, and nothing but padding after it? Only the
     * value tells, where the level may be empty at all. NULL where padding is. */
    bool (*doubtful)(sp_level_view *v, int64_t parent, int64_t position);
} sp_level_ops;

#define SP_LEVEL(id, name, pos, crd, arguments, properties, begin, end, coordinate)                          \
    extern const sp_level_ops sp_level_ops_##id;
#include "format/levels.def"
#undef SP_LEVEL

typedef enum { SP_CRD_NONE, SP_CRD_INDEX, SP_CRD_BITS } sp_crd_kind;
typedef struct sp_level_info {
    const char *name;
    bool has_pos;
    sp_crd_kind crd_kind;
    int arguments;       /* in [ ] */
    unsigned properties; /* that it takes */
    const sp_level_ops *ops;
} sp_level_info;
extern const sp_level_info sp_level_table[SP_LEVEL_KINDS];
static inline bool sp_level_has_crd(const sp_level *l)
{
    return sp_level_table[l->kind].crd_kind == SP_CRD_INDEX;
}

/* ------------------------------------------------------------------ what kinds share */

/* parents times each, E_LIMIT when 64 bits do not hold it. */
sparta_status sp_level_product(sparta_ctx *cx, int number, int64_t parents, int64_t each,
                               int64_t *size) SP_MUST;
/* pos[0] = 0, pos[p+1] - pos[p] positions below parent p: compressed, ragged, bitmap. */
sparta_status sp_edges_verify(sparta_ctx *cx, const sp_level_view *v, int64_t n) SP_MUST;
void sp_edges_segment(const sp_level_view *v, int64_t parent, int64_t *lo, int64_t *hi);
/* A segment of stored coordinates: compressed, loose. */
sparta_status sp_coordinates_verify(sparta_ctx *cx, const sp_level_view *v, int64_t parent, int64_t lo,
                                    int64_t hi) SP_MUST;
int64_t sp_coordinates_get(sp_level_view *v, int64_t parent, int64_t position);
/* As many positions below every parent: packed, structured, singleton (shared.c, with the rest of this part). */
int64_t sp_fixed_bytes(const sp_level *l, int64_t width); /* of a segment of u2 or u4 */
sparta_status sp_fixed_verify(sparta_ctx *cx, sp_level_view *v, int64_t width) SP_MUST;
void sp_fixed_segment(const sp_level_view *v, int64_t parent, int64_t *lo, int64_t *hi);
int64_t sp_fixed_coordinate(sp_level_view *v, int64_t parent, int64_t position);
bool sp_fixed_padding(sp_level_view *v, int64_t parent, int64_t position);
bool sp_fixed_doubtful(sp_level_view *v, int64_t parent, int64_t position);

static inline int64_t sp_bitmap_bytes(int64_t extent)
{
    return extent / 8 + (extent % 8 != 0);
}

/* ------------------------------------------------------------------ check.c */

typedef struct sp_text_place {
    int line, column;
} sp_text_place; /* of a mistake in a text; line 0: not from a text */
/* Is the list of levels one that can store something, whatever the shape: known kinds, widths, an invertible
 * map? The places, of each level and of each dimension, may be NULL. */
sparta_status sp_format_structure(sparta_ctx *cx, const sp_format *f, const sp_text_place *level,
                                  const sp_text_place *dim) SP_MUST;
/* How many coordinates level `l` has for these dims. */
int64_t sp_level_extent(const sp_level *l, const int64_t *dim);
/* The least coordinate as crd holds it: 1 - n of the other dimension for j-i, else 0. */
int64_t sp_level_origin(const sp_level *l, const int64_t *dim);
/* How many levels from `i` on share the coordinate array of level i (aos); 1: none. */
int sp_level_shares(const sp_format *f, int i);
int64_t sp_width_max(sparta_dtype width); /* the largest value an index of this type holds */
int64_t sp_crd_max(const sp_level *l);
const char *sp_crd_name(const sp_level *l); /* "u2", "i32" */
bool sp_width_valid(sparta_dtype width);
sparta_status sp_level_pos_fits(sparta_ctx *cx, const sp_level *l, int number, int64_t size) SP_MUST;
/* "k", "n/4", "n%4", "n%32/4", "j-i". */
void sp_level_print_map(const sp_format *f, const sp_level *l, char out[48]);

/* ------------------------------------------------------------------ index arrays */

static inline int64_t sp_index_get(sparta_dtype width, const void *data, int64_t i)
{
    switch (width) {
    case SPARTA_U8: return ((const uint8_t *)data)[i];
    case SPARTA_U16: return ((const uint16_t *)data)[i];
    case SPARTA_U32: return ((const uint32_t *)data)[i];
    case SPARTA_I32: return ((const int32_t *)data)[i];
    default:
        return (
            (const int64_t *)data)[i]; /* a u64 past int64 reads as negative, which no check lets through */
    }
}

static inline void sp_index_set(sparta_dtype width, void *data, int64_t i, int64_t value)
{
    switch (width) {
    case SPARTA_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    case SPARTA_U16: ((uint16_t *)data)[i] = (uint16_t)value; break;
    case SPARTA_U32: ((uint32_t *)data)[i] = (uint32_t)value; break;
    case SPARTA_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    default: ((int64_t *)data)[i] = value; break;
    }
}

/* ------------------------------------------------------------------ values and patterns */

/* Is any bit of the element set? The one test of "zero" in this room: -0.0 and NaN are values. */
bool sp_element_stored(sparta_dtype dtype, const void *data, int64_t at);
/* to[at] += from[source]; integers wrap, bools are or-ed. For storage that has an element twice. */
void sp_element_add(sparta_dtype dtype, void *to, int64_t at, const void *from, int64_t source);
/* Does storing a zero of this format (levels) mean that the element is absent? A last level dense, ragged or range. */
bool sp_levels_zero_absent(const sp_format *f);
/* Does a pattern in this format need values (bools) to say which elements exist? So it is where zeros mean absent, and
 * where a packed, structured or singleton segment may be empty: its slots then hold coordinate 0 and value 0, and
 * nothing but the value tells it from an element at coordinate 0. */
bool sp_levels_pattern_has_values(const sp_format *f);
/* May a segment of this level (one that pads) be without an entry? Not below a level that has positions only where there are entries. */
bool sp_level_may_be_empty(const sp_format *f, int l);
bool sp_levels_zeroless(const sp_format *f);

#endif
