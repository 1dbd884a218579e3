/* The contract between the runtime and a kernel. This very file is compiled into the library and stands at the head of every
 * generated text, so it includes nothing.
 *
 * Panels: 64 tokens lie side by side, one feature a row:  x[feature][64 tokens]  = 256 bytes, 64-byte aligned.
 * A kernel works on one panel. `vectors` (1 to 4) says how many groups of 16 tokens it must do; lanes past the last token hold
 * anything. Rows are padded to a multiple of 4.
 */
#ifndef SP_PANEL_ABI
#define SP_PANEL_ABI

#define SP_PANEL 64

/* How a product ends: words in order (builtin/epilogue.def has them in the same order), and where its results go. */
enum { SP_END_ADD, SP_END_BIAS, SP_END_RELU, SP_END_GELU, SP_END_GELU_TANH, SP_END_TANH, SP_END_SIGMOID };
struct sp_epilogue {
    float *y;              /* (n)[64]; tokens in rows: (tokens, n) */
    const float *residual; /* as y; y itself where there is none */
    float *stat; /* [2][64]: sum and sum of squares of what was written, this part's own; NULL: not wanted */
    const float *bias; /* n rounded up to 4, zeros where there is none */
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
struct sp_pairs_job {
    unsigned row[2], shared, own; /* twice the same row: it is alone; inputs of both, and of each besides */
};
struct sp_pairs_args {
    const float *x; /* (k)[64] */
    const struct sp_pairs_job *job;
    const long *end;           /* of each range: jobs up to its last */
    const unsigned short *crd; /* input rows within their range */
    const float *w;
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

/* The same for a weight in any format. The storage is walked once, when a session is made; the notes of that walk say for each output row
 * which inputs its weights multiply and where in the storage they lie. */
struct sp_walk_note {
    unsigned k, at; /* input row; place among the values */
};
struct sp_walk_part {
    const long *pos;                 /* rows + 1: notes of each output row */
    const struct sp_walk_note *note; /* in the order of the walk */
    const float *w;                  /* values as the format stores them */
};
struct sp_walk_args {
    const float *x;                  /* (k)[64] */
    const struct sp_walk_part *part; /* of the storage: several for a sum of formats */
    long parts, row0, row1, vectors;
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

/* o = softmax(scale q k^T + mask) v for heads [head0, head1), the queries of one panel */
struct sp_attention_args {
    const float *q; /* (heads*dim_k)[64]: this panel's queries */
    const float *k,
        *v;   /* (heads*dim_k)[64], (heads*dim_v)[64] of panel 0; panel p lies p * gap words further on */
    float *o; /* (heads*dim_v)[64] */
    const float *mask; /* NULL: none; element (item, head, query, key) at the strides below */
    long mask_item, mask_head, mask_query, mask_key;
    long gap_k, gap_v;
    long token0, tokens; /* first query token of this panel; of all panels */
    long queries, keys;  /* per item */
    long head0, head1;
    long dim_k, dim_v; /* rows of a head in q and k, in v and o: any numbers */
    float scale;
    int nan_to_zero;
    float *work; /* (keys + 8 + dim_k) * 64 floats of this thread */
};

/* y = (x - mean) / sqrt(variance + eps) * gain + shift down the rows, rows [row0, row1) */
struct sp_norm_args {
    const float *x;    /* (n)[64] */
    float *y;          /* (n)[64], not x */
    const float *stat; /* parts times [2][64] from the product before, or NULL */
    const float *gain, *shift;
    long n, row0, row1, vectors, parts;
    float eps;
    int has_stat;
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

/* y[where[i][j]][lane] = sum over d of v[i][d][lane] v[j][d][lane] for pairs i >= j, lanes [lane0, lane1) in sixteens */
struct sp_interact_args {
    const float *const *v;   /* [n] vectors in panels, each (dim)[64]; NULL: rows of a table */
    const float *const *row; /* [n][64] table rows of those, readable for lanes < count */
    float *work;             /* (n + 3)[dim + 1][16] */
    float *y;
    const int *where; /* [n][n] row of y; -1: the pair is not wanted */
    long n, dim, lane0, lane1, count;
    long keep; /* a vector that is copied to the first rows of y; -1: none */
};

/* Between row-major [tokens][features] and the rows of a panel, features [f0, f1) */
struct sp_pack_args {
    float *tokens, *lanes;
    long stride; /* floats from one token to the next, on the row-major side */
    long row;    /* and from one row of lanes to the next */
    long count;  /* tokens of this panel */
    long f0, f1;
};

#endif
