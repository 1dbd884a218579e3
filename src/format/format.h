/* format: how the elements of a tensor lie in memory, as a list of levels.
 *
 *     strip4   (n,k)->(n/4:dense, k:compressed, n%4:dense), crd=u16
 *
 *       level 0  n/4 : dense        nothing stored: position = n/4
 *       level 1  k   : compressed   pos[strip] .. pos[strip+1]-1 are the entries, crd[entry] = k
 *       level 2  n%4 : dense        position = entry*4 + n%4
 *       values[position]
 *
 * A level maps the position of its parent to (coordinate, position) pairs; its kind says what it stores
 * (levels.def; docs/formats.md draws each). The map gives each level's coordinate from the tensor's indices: i,
 * i/c, i%c, nested blocks i%32/4, and j-i or i+j before a last level i:range (diagonals). Text, object and
 * storage are three views of one thing: parse/print round-trip, check says whether it fits a shape (messages
 * name the column of the mistake), pack and unpack move elements. One generic assembler and one generic walker,
 * driven by the level table, serve every format: they are the oracle that faster paths are tested against.
 *
 * Rules: an element is stored when the mask has it (no mask: when it is not zero); blocks store their other
 * elements as 0; the last block is padded with 0 when the shape does not divide. Explicit zeros under a mask
 * are kept (zeroless drops them). -0.0 counts as zero without a mask. Slots that packed, structured and
 * singleton levels have too many hold the value 0 and the last coordinate of their segment, 0 in an empty one
 * (pad=zero: always 0). Where storage may hold an element twice (nonunique, nonordered) reading it adds.
 */
#ifndef SPARTA_FORMAT_H
#define SPARTA_FORMAT_H

#include "tensor/tensor.h"
#include "tesa/tesa.h"

#define SPARTA_LEVELS 12 /* the most levels of a format */

typedef enum {
#define SPARTA_LEVEL(id, name, pos, crd, arguments, properties) SPARTA_LEVEL_##id,
#include "format/levels.def"
#undef SPARTA_LEVEL
    SPARTA_LEVEL_KINDS
} sparta_level_kind;

/* Properties of a level. */
enum {
    SPARTA_PROP_NONUNIQUE = 1,  /* a coordinate may come again: one position an entry, or a new one when the
                                    packed level below is full */
    SPARTA_PROP_NONORDERED = 2, /* coordinates in any order (pack writes them ascending) */
    SPARTA_PROP_SOA = 4,        /* singleton: an array of its own */
    SPARTA_PROP_AOS = 8,        /* singleton: its coordinates lie beside those of the level above */
    SPARTA_PROP_PAD_ZERO = 16,  /* padding has coordinate 0 instead of the last one */
    SPARTA_PROP_ZEROLESS = 32,  /* explicit zeros are not stored */
};

typedef struct sparta_level {
    sparta_level_kind kind;
    int dim; /* which dimension of the tensor */
    enum {
        SPARTA_MAP_ALL,
        SPARTA_MAP_DIV,
        SPARTA_MAP_MOD,
        SPARTA_MAP_NEST, /* i%c/inner */
        SPARTA_MAP_SUB,  /* dim - other */
        SPARTA_MAP_ADD
    } map;
    int64_t c;             /* of i/c, i%c and i%c/inner */
    int64_t inner;         /* of i%c/inner */
    int other;             /* dimension of dim-other and dim+other */
    int64_t w, m;          /* packed[w], 0: auto; structured[w,m] */
    unsigned properties;   /* SPARTA_PROP_... */
    sparta_dtype pos, crd; /* widths; default i32 */
    int crd_bits;          /* 2 or 4: crd is u2 or u4, packed into bytes of type u8; 0: by its type */
} sparta_level;

typedef struct sparta_format {
    int rank, n;
    char dim_name[SPARTA_RANK][16];
    sparta_level level[SPARTA_LEVELS];
} sparta_format; /* a plain value: no memory of its own */

/* The text of a format or a name of formats.def with its arguments (csr, bsr(4,4), strip(4); the last
 * argument repeats: bsr(4)), either followed by widths: "csr, crd=u16, pos[1]=i64". Mistakes are E_USAGE with
 * line and column; sums of formats are not there yet: E_UNSUPPORTED. */
sparta_status sparta_format_parse(sparta_ctx *cx, const char *text, sparta_format *out) SPARTA_MUST;
void sparta_format_print(
    const sparta_format *f,
    sparta_text *out); /* canonical: equal texts are the same format, names of dimensions included */
/* Same storage? Names of dimensions do not matter. */
bool sparta_format_equal(const sparta_format *a, const sparta_format *b);
/* Does it fit these dims, with its widths? E_USAGE when not. */
sparta_status sparta_format_check(sparta_ctx *cx, const sparta_format *f, int rank,
                                  const int64_t *dim) SPARTA_MUST;

/* Stored form. Arrays of a level that has none are empty (n = 0). The crd of a bitmap are its bits (u8, each
 * segment a whole number of bytes); where levels share one array (aos) it is 2-D, under the first of them. */
typedef struct sparta_packed {
    sparta_format format;
    sparta_dtype dtype;
    int rank;
    int64_t dim[SPARTA_RANK];
    sparta_tensor pos[SPARTA_LEVELS], crd[SPARTA_LEVELS]; /* rank 0 and data NULL where absent */
    sparta_tensor values;                                 /* 1-D */
} sparta_packed;

typedef struct sparta_format_stats {
    int64_t elements;                         /* that the mask has (no mask: non-zero) */
    int64_t slots;                            /* values stored */
    size_t bytes;                             /* of all arrays */
    double fill;                              /* slots / max(elements, 1) */
    size_t pos_bytes, crd_bytes, value_bytes; /* what bytes is made of; bits count as crd */
    int64_t longest[SPARTA_LEVELS];           /* positions in the longest segment of each level */
    int64_t segments[SPARTA_LEVELS];          /* of each level: positions of the one above */
} sparta_format_stats;

/* Known before anything is allocated. */
sparta_status sparta_format_measure(sparta_ctx *cx, const sparta_format *f, const sparta_tensor *t,
                                    const sparta_mask *mask, sparta_format_stats *out) SPARTA_MUST;
#define SPARTA_FORMAT_LIMIT 4.0
/* E_LIMIT, with the numbers and what to use instead, when the fill is above the limit (0: the default). Formats
 * of dense levels only are exempt. Pack does not ask by itself: its caller may have reasons. */
sparta_status sparta_format_within(sparta_ctx *cx, const sparta_format *f, const sparta_format_stats *stats,
                                   double limit) SPARTA_MUST;
/* mask may be NULL; for 2-D tensors only (the mask's rows, cols are the tensor's). Free with
 * sparta_packed_free. */
sparta_status sparta_format_pack(sparta_ctx *cx, const sparta_format *f, const sparta_tensor *t,
                                 const sparta_mask *mask, sparta_packed *out) SPARTA_MUST;
/* Into a tensor of the right dtype and dims (any strides); absent elements become 0. Storage may be hostile:
 * every position and coordinate is checked (E_FORMAT), and padding must be 0. On failure the output is
 * untouched (unless somebody changed the storage meanwhile). */
sparta_status sparta_format_unpack(sparta_ctx *cx, const sparta_packed *p,
                                   const sparta_tensor *out) SPARTA_MUST;
/* Check the storage alone, without looking at values: array types and lengths agree with format and dims,
 * positions are monotone, coordinates in range and ascending (as far as the level's properties ask).
 * Afterwards a kernel may follow them. */
sparta_status sparta_packed_verify(sparta_ctx *cx, const sparta_packed *p) SPARTA_MUST;
void sparta_packed_free(sparta_ctx *cx, sparta_packed *p);

#endif
