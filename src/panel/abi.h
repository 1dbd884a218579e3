/* The contract between the runtime and a kernel. This very file is compiled into the library and stands at the head of every
 * generated text, so it includes nothing.
 *
 * Panels: 64 tokens lie side by side, one feature a row:  x[feature][64 tokens]  = 256 bytes, 64-byte aligned.
 * A kernel works on one panel. `vectors` (1 to 4) says how many sixteens of tokens it must do; lanes past the last token hold
 * anything. Rows are padded to a multiple of 4.
 */
#ifndef SP_PANEL_ABI
#define SP_PANEL_ABI

#define SP_PANEL 64

/* How a product ends: words in order (builtin/epilogue.def has them in the same order), and where its results go. */
enum {
    SP_END_ADD,
    SP_END_BIAS,
    SP_END_RELU,
    SP_END_GELU,
    SP_END_GELU_TANH,
    SP_END_TANH,
    SP_END_SIGMOID,
    SP_END_MUL,
    SP_END_SILU,
    SP_END_QUICK_GELU
};
struct sp_epilogue {
    float *y;              /* (n)[64]; tokens in rows: (tokens, n) */
    const float *residual; /* as y; y itself where there is none */
    float *stat; /* [2][64]: sum and sum of squares of what was written, this part's own; NULL: not wanted */
    const float *bias; /* n rounded up to 4, zeros where there is none; added to whole sums */
    int n, word[8];
};

/* How a weight is stored: strips of 4 output rows with every input, with the inputs present, or with the inputs sorted by which of
 * the 4 rows have them (quads). */
enum { SP_FORM_DENSE, SP_FORM_STRIPS, SP_FORM_QUADS };

/* A product: y = w x and its epilogue, for strips [strip0, strip1) of 4 output rows */
struct sp_linear_args {
    const float *x;  /* (k)[64] */
    const int *pos;  /* strips: strips + 1 */
    const void *crd; /* strips: input row of each block; quads: input row within its range, 2 bytes */
    const unsigned short
        *count; /* quads: for each range and strip 16 numbers, of inputs by the set of rows that have them */
    const long *start; /* quads: for each range and strip where its crd and its weights begin */
    const float *w;    /* blocks of 4 weights, one for each row of the strip; quads: those present */
    long strip0, strip1, strips, k, vectors;
    long range; /* quads: inputs of a range */
    int form, crd_bytes;
    struct sp_epilogue e;
};

/* The same for a weight whose rows are stored two by two (format pairs), for vectors [vector0, vector0 + vectors) of all rows: a thread's
 * share is of tokens, because each range of inputs has other pairs. */
#define SP_PAIRS_NEAR 256
struct sp_pairs_job {
    unsigned row[2], shared, own; /* twice the same row: it is alone; inputs of both, and of each besides */
};
struct sp_pairs_args {
    const float *x; /* (k)[64] */
    const struct sp_pairs_job *job;
    const long *end;           /* of each range: jobs up to its last */
    const unsigned short *crd; /* input rows within their range */
    const float *w;
    float *work; /* of this thread: half a range, SP_PAIRS_NEAR inputs at most */
    long n, k, range, ranges, vector0, vectors;
    struct sp_epilogue e;
};

/* The same for few tokens in rows. How the weight is stored: a bit an element, strips of 16 output rows with the inputs present or with
 * every input, rows with the inputs present. */
#define SP_FEW_TOKENS 16 /* the most that a weight is read once for */
enum { SP_FEW_BITMAP, SP_FEW_STRIPS, SP_FEW_DENSE, SP_FEW_CSR };
struct sp_few_args {
    const float *x;  /* (tokens, k) */
    const int *pos;  /* weights before each row, blocks before each strip; one more */
    const void *crd; /* bits, whole bytes a row; or input of each weight or block, 2 bytes */
    const float *w;
    float *work; /* of this thread: the activations as the loops read them */
    long tokens, k, n, row0, row1,
        weights; /* rows in whole strips but for the last; weights: how many are stored */
    int form;
    struct sp_epilogue e;
};

/* The same for tokens in rows of which most inputs are 0, as is found out when it runs: the weights of inputs that no token of a tile has are
 * not read. The weight has every input, in strips of SP_SKIP_WIDE output rows. */
#define SP_SKIP_WIDE 64
#define SP_SKIP_ROOM 256 /* inputs of a list, a run of a sum; more of them are taken list by list */
struct sp_skip_args {
    const float *x; /* (tokens, k) */
    const float *w; /* (strips)[k][SP_SKIP_WIDE] */
    unsigned *crd; /* of this thread, SP_SKIP_ROOM: inputs that are there; for many tokens [lists] of these */
    float *
        value; /* of this thread, [SP_SKIP_ROOM][SP_FEW_TOKENS]: what they are in the tokens of a tile; [lists][SP_SKIP_ROOM] */
    long tokens, k, n, row0, row1; /* rows in whole strips but for the last */
    long lists;                    /* room for so many at once: 1, or SP_PANEL where tokens are many */
    struct sp_epilogue e;
};

/* y = x w for matrices that are both computed, most of x being 0: the rows of w that a row of x has nothing for are not read. */
struct sp_matmul_skip_args {
    const float *x;  /* (rows, k) */
    const float *w;  /* (k, n); row r takes the matrix r / m, which lies `item` floats further on each time */
    float *y;        /* (rows, n) */
    unsigned *crd;   /* of this thread, SP_SKIP_ROOM: elements of a row that are there */
    long row0, row1; /* this thread's rows */
    long m, k, n, item;
    long wide; /* columns that are taken together, so that all rows of them stay in the cache */
};

/* The same for a weight in any format. The storage is walked once, when a session is made; the notes of that walk say for each output row
 * of each range of inputs which inputs its weights multiply, and the weights. */
struct sp_walk_note {
    unsigned k; /* input row */
    float w;
};
struct sp_walk_args {
    const float *x;      /* (k)[64] */
    const unsigned *row; /* (ranges)(rows): the rows of a range, those with as many notes together */
    const long *pos;     /* (ranges)(rows), and the end: where the notes of each of these begin */
    const struct sp_walk_note *note; /* in that order, those of one in the order of the walk */
    long rows, ranges, vector0, vectors;
    struct sp_epilogue e;
};

/* The same for a weight in any format, by code that was generated for this format (room special): its arrays as they are stored, for vectors
 * [vector0, vector0 + vectors) of all rows. */
#define SP_STORED_LEVELS 12
struct sp_stored_leaf {
    const float *w;
    const void *pos[SP_STORED_LEVELS], *crd[SP_STORED_LEVELS]; /* 0 where a level has none */
    long size[SP_STORED_LEVELS]; /* coordinates of the level, or slots of a segment */
};
struct sp_stored_args {
    const float *x;                    /* (k)[64] */
    const struct sp_stored_leaf *leaf; /* of the storage: several for a sum of formats */
    long n, k, vector0, vectors;
    struct sp_epilogue e;
};

struct sp_called; /* called.c */
/* And where a function of the caller's computes the sums: it gets the first of its tokens. */
struct sp_called_args {
    const float *x; /* (k)[64] */
    void (*sums)(const struct sp_called *what, const float *x, float *y, long tokens);
    const struct sp_called *what;
    long n, vector0, vectors;
    struct sp_epilogue e;
};

/* The same for a dense weight that lies row by row, its product by a library found at run time:
 * y[rows][64] = w[rows][k] x[k][64] for the first `tokens` lanes on the calling thread; 0: done, else y holds anything. */
typedef int (*sp_product)(const float *w, const float *x, float *y, long rows, long k, long tokens);
struct sp_library_args {
    const float *x;     /* (k)[64] */
    const float *w;     /* (n, k) */
    sp_product product; /* NULL: the kernel multiplies itself */
    long row0, row1, k, vectors;
    struct sp_epilogue e;
};

/* A mask of attention: none; one value a key; one value a query and key. */
enum { SP_MASK_NONE, SP_MASK_KEY, SP_MASK_FULL };

/* Keys that attention takes: all; those of blocks that are listed; all, and the others are hidden. */
enum { SP_LIST_NONE, SP_LIST_SKIP, SP_LIST_HIDE };
#define SP_PIECE_ROWS(block)                                                                                 \
    (((block) + 3) / 4 * 4 + 4) /* keys are taken in fours, wherever the first lies */

/* o = softmax(cap(scale q k^T) + mask) v for heads [head0, head1), the queries of one panel; kernel attention_rows: of 64 tokens in rows */
struct sp_attention_args {
    const float *q; /* (heads*dim_k)[64]: this panel's queries; in rows: (tokens, heads*dim_k) */
    const float *k,
        *v;   /* (groups*dim_k)[64], (groups*dim_v)[64] of panel 0; panel p lies p * gap words further on */
    float *o; /* (heads*dim_v)[64]; in rows: (tokens, heads*dim_v) */
    long k_item, k_group, k_key, v_item, v_group, v_key; /* in rows: from one to the next, in floats */
    const float *mask; /* NULL: none; element (item, head, query, key) at the strides below */
    long mask_item, mask_head, mask_query, mask_key;
    long mask_items; /* item i has the mask of i % mask_items */
    long gap_k, gap_v;
    long token0, tokens; /* first query token of this panel; of all panels */
    long queries, keys;  /* per item */
    long heads, head0, head1;
    long share;        /* heads of q that one head of k and v serves */
    long dim_k, dim_v; /* rows of a head in q and k, in v and o: any numbers */
    long left, right;  /* keys that a query sees before and after its place */
    float scale, cap;
    float hidden;                               /* score of keys that a window hides */
    int nan_to_zero, window, capped, mask_kind; /* window: left or right count; capped: cap does */
    /* (items, heads, blocks of `block` queries, room): the blocks of keys that they see, ascending. listed: SP_LIST_... */
    const int *list;
    long block, room;
    int listed;
    int *taken; /* of this thread: as many as blocks of keys are taken */
    long rows;  /* of scores: keys + 8, or SP_PIECE_ROWS for each block of keys that may be taken */
    float *
        work; /* (rows + dim_k) * 64 floats of this thread; with a mask of (query, key) (keys + 16) * 64 more. In rows: dim_k * 16 + 8 * (keys + 32) */
};

/* y = (x - mean) / sqrt(variance + eps) * gain + shift down the rows, rows [row0, row1); kernel rms: the mean and the shift are 0 */
struct sp_norm_args {
    const float *x;    /* (n)[64] */
    float *y;          /* (n)[64], not x */
    const float *stat; /* parts times [2][64] from the product before, or NULL */
    const float *gain, *shift;
    long n, row0, row1, vectors, parts;
    float eps;
    int has_stat;
};

/* Pairs of rows of heads [head0, head1) turned by the angle of their token */
struct sp_rotary_args {
    const float *x;         /* (heads*dim)[64] */
    const float *cos, *sin; /* (half)[64] */
    float *y;               /* (heads*dim)[64], not x */
    long head0, head1, dim, half, vectors;
    int interleaved; /* pairs are neighbours; else `half` rows apart */
};

/* An epilogue without a product: of a, rows [row0, row1) */
struct sp_map_args {
    const float *a; /* (n)[64] */
    long row0, row1, vectors;
    struct sp_epilogue e;
};

/* y[f][lane] = sum over tables of row[t][lane][f]; features [f0, f1), multiples of 16 but for the last */
struct sp_embed_args {
    const float *const *row; /* [tables][64] pointers to table rows, readable for lanes < count */
    float *y;
    long tables, count, f0, f1;
};

/* y[where[i][j]][lane] = sum over d of v[i][d][lane] v[j][d][lane] for vectors i >= j, lanes [lane0, lane1) in sixteens */
struct sp_interact_args {
    const float *const *v;   /* [n] vectors in panels, each (dim)[64]; NULL: rows of a table */
    const float *const *row; /* [n][64] table rows of those, readable for lanes < count */
    float *work;             /* (n + 3)[dim + 1][16] */
    float *y;
    const int *where; /* [n][n] row of y; -1: this dot is not wanted */
    long n, dim, lane0, lane1, count;
    long keep; /* a vector that is copied to the first rows of y; -1: none */
};

/* Between row-major [tokens][features] and the rows of a panel, features [f0, f1) */
struct sp_conversion_args {
    float *tokens, *lanes;
    long stride; /* floats from one token to the next, on the row-major side */
    long row;    /* and from one row of lanes to the next */
    long count;  /* tokens of this panel */
    long f0, f1;
};

#endif
