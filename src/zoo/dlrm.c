/* dlrm: a recommender that crosses its features by dot products, as its authors publish it for the Criteo data.
 *
 *   dense (B,13) --Gemm Relu: 512, 256, 128--> x (B,128) ---------------------.------------------------------.
 *   ids (B,26) --a column each--> Gather from its table --> 26 of (B,128) --Concat--> T (B,27,128)           |
 *                                                                              T T^T --351 elements--> Concat (B,479)
 *   --Gemm Relu: 1024, 1024, 512, 256--> --Gemm Sigmoid: 1--> probability (B,1)
 *
 * The elements are those below the diagonal, row by row. All layers are pruned but the first and the last (13-512, 256-1), the tables
 * are not. Sizes: rows (of every table) tables columns. */
#include "zoo/build.h"

enum { DENSE = 13, BOTTOM = 3, TOP = 5 };

typedef struct shape {
    int64_t rows, tables, columns;
} shape;

static sp_value *layer(sp_zoo_builder *b, const char *name, int i, sp_value *x, int64_t in, int64_t out,
                       bool pruned)
{
    /* Layers of torch.nn.Sequential are counted with their activations. */
    return sp_zoo_gemm(b, sp_zoo_numbered(b, name, 2 * (int64_t)i, ""), x, in, out, pruned);
}

static sp_value *bottom(sp_zoo_builder *b, const shape *s, sp_value *x)
{
    const int64_t size[BOTTOM + 1] = {DENSE, 512, 256, s->columns};
    for (int i = 0; i < BOTTOM; i++) {
        x = layer(b, "bot_l.", i, x, size[i], size[i + 1], i > 0);
        x = sp_zoo_unary(b, SP_OP_Relu, sp_zoo_numbered(b, "/bot_l/", 2 * i + 1, "/Relu"), x);
    }
    return x;
}

static sp_value *top(sp_zoo_builder *b, sp_value *x, int64_t features)
{
    const int64_t size[TOP + 1] = {features, 1024, 1024, 512, 256, 1};
    for (int i = 0; i < TOP; i++) {
        const bool last = i == TOP - 1;
        x = layer(b, "top_l.", i, x, size[i], size[i + 1], !last);
        x = sp_zoo_unary(b, last ? SP_OP_Sigmoid : SP_OP_Relu,
                         sp_zoo_numbered(b, "/top_l/", 2 * i + 1, last ? "/Sigmoid" : "/Relu"), x);
    }
    return x;
}

static sp_value *gather_columns(sp_zoo_builder *b, const char *name, sp_value *x, sp_value *index)
{
    return sp_zoo_node(b, SP_OP_Gather, name, 2, (sp_value *[]){x, index}, SP_ATTRS(SP_INT("axis", 1)));
}

static sp_value *look_up(sp_zoo_builder *b, const shape *s, sp_value *ids, int64_t i)
{
    sp_value *column = sp_zoo_int(b, sp_zoo_numbered(b, "/Constant_", i, ""), i);
    sp_value *table = sp_zoo_matrix(b, sp_zoo_numbered(b, "emb_l.", i, ".weight"), s->rows, s->columns, 0.1f);
    return sp_zoo_binary(b, SP_OP_Gather, sp_zoo_numbered(b, "/emb_l.", i, "/Gather"), table,
                         gather_columns(b, sp_zoo_numbered(b, "/Gather_", i, ""), ids, column));
}

/* Places of the elements below the diagonal of an n x n matrix, row by row. */
static sp_value *below_diagonal(sp_zoo_builder *b, int64_t n)
{
    int64_t pairs = n * (n - 1) / 2, at = 0;
    sparta_tensor t;
    if (!b->status) b->status = sp_tensor_alloc_in(b->g->arena, SPARTA_I64, 1, &pairs, &t);
    if (b->status) return NULL;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) ((int64_t *)t.data)[at++] = i * n + j;
    return sp_zoo_constant(b, "/Constant_pairs", &t);
}

/* x and the dots of all pairs of x and the rows of the tables: (B, columns + pairs) */
static sp_value *cross(sp_zoo_builder *b, const shape *s, sp_value *x, sp_value *ids)
{
    static const int64_t turn[] = {0, 2, 1};
    const int64_t n = s->tables + 1;
    sp_value **vector = sp_arena_array(b->g->arena, (size_t)n, sizeof *vector);
    if (!vector) b->status = sp_ctx_status(b->g->cx);
    if (b->status) return NULL;
    vector[0] = x;
    for (int64_t i = 0; i < s->tables; i++) vector[i + 1] = look_up(b, s, ids, i);
    sp_value *t = sp_zoo_concat(b, "/Concat", (int)n, vector);
    t = sp_zoo_binary(b, SP_OP_Reshape, "/Reshape", t,
                      sp_zoo_ints(b, "/Constant_stack", 3, (int64_t[]){-1, n, s->columns}));
    sp_value *z = sp_zoo_binary(b, SP_OP_MatMul, "/MatMul", t, sp_zoo_transpose(b, "/Transpose", t, 3, turn));
    z = sp_zoo_binary(b, SP_OP_Reshape, "/Reshape_1", z,
                      sp_zoo_ints(b, "/Constant_flat", 2, (int64_t[]){-1, n * n}));
    sp_value *part[] = {x, gather_columns(b, "/Gather", z, below_diagonal(b, n))};
    return sp_zoo_concat(b, "/Concat_1", 2, part);
}

sparta_status sp_zoo_dlrm(sp_graph *g, const sp_zoo_request *r)
{
    shape s = {.rows = 100000, .tables = 26, .columns = 128};
    const sp_zoo_size size[] = {
        {"rows", &s.rows}, {"tables", &s.tables}, {"columns", &s.columns}, {"batch", NULL}};
    SP_TRY(sp_zoo_sizes(g, r, size, (int)SP_COUNT(size)));
    if (s.tables > 1000)
        return sp_fail(g->cx, SPARTA_E_USAGE, "zoo %s: tables=%lld; at most 1000", g->name,
                       (long long)s.tables);
    sp_zoo_builder b = {.g = g, .request = r};
    const sp_expr *dim[2] = {sp_zoo_symbol(&b, "batch"), sp_zoo_number(&b, DENSE)};
    sp_value *x = sp_zoo_input(&b, "dense", SPARTA_F32, 2, dim);
    dim[1] = sp_zoo_number(&b, s.tables);
    sp_value *ids = sp_zoo_input(&b, "ids", SPARTA_I64, 2, dim);
    x = cross(&b, &s, bottom(&b, &s, x), ids);
    x = top(&b, x, s.columns + (s.tables + 1) * s.tables / 2);
    dim[1] = sp_zoo_number(&b, 1);
    sp_zoo_output(&b, x, "probability", 2, dim);
    return b.status;
}
