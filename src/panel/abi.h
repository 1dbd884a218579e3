/* The contract between the runtime and a kernel. This very file is compiled into the library and stands at the head of every
 * generated text, so it includes nothing.
 *
 * Panels: 64 tokens lie side by side, one feature a row:  x[feature][64 tokens]  = 256 bytes, 64-byte aligned.
 * A kernel works on one panel. `vectors` (1 to 4) says how many groups of 16 tokens it must do; lanes past the last token hold
 * anything. Rows are padded to a multiple of 4.
 */
#ifndef SPARTA_PANEL_ABI
#define SPARTA_PANEL_ABI

#define SPARTA_PANEL 64
enum {
    SPARTA_ACT_NONE,
    SPARTA_ACT_RELU,
    SPARTA_ACT_GELU,
    SPARTA_ACT_GELU_TANH,
    SPARTA_ACT_TANH,
    SPARTA_ACT_SIGMOID
};

/* y = act(w x + bias) + residual, for strips [strip0, strip1) of 4 output rows */
struct sparta_linear_args {
    const float *x;        /* (k)[64] */
    float *y;              /* (n)[64] */
    const float *residual; /* (n)[64] */
    float *stat;           /* [2][64]: sum and sum of squares of what was written, this part's own */
    const int *pos;        /* strips + 1, sparse only */
    const void *crd;       /* input row of each block, sparse only */
    const float *w;        /* blocks of 4 weights, one for each row of the strip */
    const float *bias;     /* n rounded up to 4; never NULL */
    long strip0, strip1, k, vectors;
    int sparse, crd_bytes, act, has_residual, has_stat;
};

/* o = softmax(scale q k^T + mask) v for heads [head0, head1), the queries of one panel */
struct sparta_attention_args {
    const float *q;     /* (heads*dim)[64]: this panel's queries */
    const float *k, *v; /* the same rows of panel 0; panel p lies p * gap floats further on */
    float *o;           /* (heads*dim)[64] */
    const float *mask;  /* NULL: none; element (item, head, query, key) at the strides below */
    long mask_item, mask_head, mask_query, mask_key;
    long gap_k, gap_v;
    long token0, tokens;    /* first query token of this panel; of all panels */
    long queries, keys;     /* per item */
    long head0, head1, dim; /* dim: a multiple of 4 */
    float scale;
    int nan_to_zero;
    float *work; /* (keys + 8 + dim) * 64 floats of this thread */
};

/* y = (x - mean) / sqrt(variance + eps) * gain + shift down the rows, rows [row0, row1) */
struct sparta_norm_args {
    const float *x;    /* (n)[64] */
    float *y;          /* (n)[64], not x */
    const float *stat; /* parts times [2][64] from the product before, or NULL */
    const float *gain, *shift;
    long n, row0, row1, vectors, parts;
    float eps;
    int has_stat;
};

/* y = act(a + b), rows [row0, row1) */
struct sparta_map_args {
    const float *a, *b; /* b NULL: act(a) */
    float *y;
    long row0, row1, vectors;
    int act;
};

/* y[f][lane] = sum over tables of row[t][lane][f]; features [f0, f1), multiples of 16 but for the last */
struct sparta_embed_args {
    const float *const *row; /* [tables][64] pointers to table rows, readable for lanes < count */
    float *y;
    long tables, count, f0, f1;
};

/* Between row-major [tokens][features] and a panel, features [f0, f1) */
struct sparta_pack_args {
    const float *from;
    float *to;
    long stride; /* floats between tokens on the row-major side */
    long count;  /* tokens of this panel */
    long f0, f1;
};

#endif
