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
 * name the column of the mistake), verify says whether storage is whole, and one generic walker, driven by the level
 * table, goes over the elements of every format. Making storage is room store's.
 *
 * A format is a list of levels, or one of
 *
 *     a sum      sum{rownnz<=4 -> (i,j)->(i:compressed, j:packed[4]); rest -> coo}   each element in one part
 *     opaque     quads(128)       storage that coordinate maps cannot say: a row of opaque.def and a file
 *
 * Everything below takes all three.
 *
 * Rules. From a dense source an element is stored when the mask has it (no mask: when it is not 0; NaN and
 * infinities are stored, -0.0 in a strict context only). Stored zeros are kept (zeroless drops them), except where a format has
 * slots for elements that nobody asked for: below a last level that is dense, ragged or range a zero is an absent
 * element, and so is a zero at coordinate 0 that is alone in a packed, structured or singleton segment that may be
 * empty. Blocks store their other elements as 0; the last block is padded with 0 when the shape does not divide.
 * Slots that packed, structured and singleton levels have too many hold the value 0 and the last coordinate of
 * their segment, 0 in an empty one (pad=zero: always 0). Where storage may hold an element twice (nonunique,
 * nonordered, two parts of a sum) reading it adds: integers wrap, bools are or-ed. A pattern has no values where the
 * format itself says which elements exist; where it does not (where a zero may be an absent element) its values are
 * bools.
 */
#ifndef SP_FORMAT_H
#define SP_FORMAT_H

#include "tensor/tensor.h"

#define SP_LEVELS 12 /* the most levels of a format */

typedef enum {
#define SP_LEVEL(id, name, pos, crd, arguments, properties, begin, end, coordinate) SP_LEVEL_##id,
#include "format/levels.def"
#undef SP_LEVEL
    SP_LEVEL_KINDS
} sp_level_kind;

/* Properties of a level. */
enum {
    /* A coordinate may come again: one position an entry, or a new one when the packed level below is full. */
    SP_PROP_NONUNIQUE = 1,
    SP_PROP_NONORDERED = 2, /* coordinates in any order (written ascending; blocks may be as they come) */
    SP_PROP_SOA = 4,        /* singleton: an array of its own */
    SP_PROP_AOS = 8,        /* singleton: its coordinates lie beside those of the level above */
    SP_PROP_PAD_ZERO = 16,  /* padding has coordinate 0 instead of the last one */
    SP_PROP_ZEROLESS = 32,  /* explicit zeros are not stored */
};

typedef struct sp_level {
    sp_level_kind kind;
    int dim; /* which dimension of the tensor */
    enum {
        SP_MAP_ALL,
        SP_MAP_DIV,
        SP_MAP_MOD,
        SP_MAP_NEST, /* i%c/inner */
        SP_MAP_SUB,  /* dim - other */
        SP_MAP_ADD
    } map;
    int64_t c;             /* of i/c, i%c and i%c/inner */
    int64_t inner;         /* of i%c/inner */
    int other;             /* dimension of dim-other and dim+other */
    int64_t w, m;          /* packed[w], 0: auto; structured[w,m] */
    unsigned properties;   /* SP_PROP_... */
    sparta_dtype pos, crd; /* widths; default i32 */
    int crd_bits;          /* 2 or 4: crd is u2 or u4, packed into bytes of type u8; 0: by its type */
} sp_level;

typedef struct sp_sum sp_sum;
typedef struct sp_opaque sp_opaque;
#define SP_FORMAT_ARGUMENTS 4

/* A plain value. The parts of a sum belong to the context that parsed it and live as long. */
typedef struct sp_format {
    int rank, n; /* n: levels; 0: a sum, or opaque */
    char dim_name[SPARTA_RANK][16];
    sp_level level[SP_LEVELS];
    const sp_sum *sum;                     /* NULL: none */
    const sp_opaque *opaque;               /* NULL: none */
    int64_t argument[SP_FORMAT_ARGUMENTS]; /* of the opaque one */
} sp_format;

/* Which elements a part of a sum takes. Rows are the first dimension, columns the last; counts are of all
 * elements that the sum sees. The parts of one sum use one kind of selector, with `rest` at the end for what the
 * others leave: so each element has one place. rownnz may come with several ranges that do not meet, the others once, colpart
 * alone; a second blockdensity goes into a sum under `rest`. An element that no part takes is an error when packing. */
typedef enum {
    SP_SELECT_ROWNNZ,  /* rownnz<=n, rownnz in (a,b]: rows with more than a and at most b elements */
    SP_SELECT_COLPART, /* colpart(c): all, in c parts of equally many columns, each stored so */
    SP_SELECT_BLOCKDENSITY, /* blockdensity>=x: blocks (those of the part's levels i/c) at least so full, 0 < x <= 1 */
    SP_SELECT_FIRST, /* first(k): the first k elements of each row */
    SP_SELECT_REST
} sp_select_kind;
typedef struct sp_select {
    sp_select_kind kind;
    int64_t a, b; /* rownnz in (a,b]; colpart and first: b */
    double x;     /* blockdensity */
} sp_select;
#define SP_PARTS 128 /* the most parts a packed sum has, colpart's counted: hyb(16,5) has 112 */
struct sp_sum {
    int n;
    struct sp_sum_part {
        sp_select select;
        sp_format format; /* may be a sum again */
    } part[];
};

/* The text of a format or a name of formats.def with its arguments (csr, bsr(4,4), strip(4), hyb(2,4); the last
 * argument repeats: bsr(4)), either followed by widths: "csr, crd=u16, pos[1]=i64"; those of a sum are for all its
 * parts. Mistakes are E_USAGE with line and column. */
sparta_status sp_format_parse(sparta_ctx *cx, const char *text, sp_format *out) SP_MUST;
/* Canonical: equal texts are the same format, names of dimensions included. */
void sp_format_print(const sp_format *f, sp_text *out);
/* Same storage? Names of dimensions do not matter. */
bool sp_format_equal(const sp_format *a, const sp_format *b);
/* Does it fit these dims, with its widths? E_USAGE when not. */
sparta_status sp_format_check(sparta_ctx *cx, const sp_format *f, int rank, const int64_t *dim) SP_MUST;

/* Names. A user's stand for the context's life and may be used in later texts; to define one again is fine when it means the same. */
bool sp_format_is_name(sparta_ctx *cx, const char *name); /* of formats.def, opaque.def or the user's */
/* May a user take this name? E_USAGE when it is no word, one of the tables', or a word of the language. */
sparta_status sp_format_name_check(sparta_ctx *cx, const char *name) SP_MUST;

/* ------------------------------------------------------------------ storage */

/* Stored form. Arrays of a level that has none are empty (n = 0). The crd of a bitmap are its bits (u8, each
 * segment a whole number of bytes); where levels share one array (aos) it is 2-D, under the first of them. An
 * opaque format keeps its arrays in crd[0..], as its row names them. A sum has parts and no arrays of its own:
 * leaves of the sum in the order of its text, colpart's one after the other; each of the whole shape. */
typedef struct sp_packed sp_packed;
struct sp_packed {
    sp_format format;
    sparta_dtype dtype; /* a pattern's: BOOL */
    bool pattern;       /* no values: every element is 1 */
    int rank;
    int64_t dim[SPARTA_RANK];
    sparta_tensor pos[SP_LEVELS], crd[SP_LEVELS]; /* rank 0 and data NULL where absent */
    sparta_tensor values;                         /* 1-D */
    int parts;
    sp_packed *part; /* (parts), of a sum */
};

/* Check the storage alone, without looking at values: array types and lengths agree with format and dims,
 * positions are monotone, coordinates in range and ascending (as far as the level's properties ask).
 * Afterwards a kernel may follow them. */
sparta_status sp_packed_verify(sparta_ctx *cx, const sp_packed *p) SP_MUST;
/* Format, type and dims of any storage, the number of its parts, or which arrays its levels have and of which type: nothing of what is in
 * them. E_FORMAT. */
sparta_status sp_packed_head_check(sparta_ctx *cx, const sp_packed *p) SP_MUST;
void sp_packed_free(sparta_ctx *cx, sp_packed *p);
/* Every stored element: its index, and where its value lies in `part` (p itself, or the part of a sum that has
 * it). Padding is left out. An element that is stored twice comes twice. */
typedef sparta_status (*sp_visit)(void *arg, const int64_t *index, const sp_packed *part, int64_t position);
sparta_status sp_packed_walk(sparta_ctx *cx, const sp_packed *p, sp_visit visit, void *arg) SP_MUST;

#endif
