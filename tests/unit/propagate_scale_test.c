/* Propagation of large and of hostile graphs takes time and memory that grow with them, not faster. (Slow: make test only.) */
#include "bed.h"
#include "propagate/propagate.h"
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 8 }; /* instrumented code is */
#else
enum { SLOWER = 1 };
#endif

/* ------------------------------------------------------------------ building */
static sp_graph *g;

static sp_value *input(int rank, const int64_t *dim)
{
    sp_dims dims = {.rank = rank};
    sp_value *v;
    for (int i = 0; i < rank; i++)
        dims.dim[i] = dim[i] < 0 ? sp_expr_symbol(g->arena, "b") : sp_expr_const(g->arena, dim[i]);
    ok(sp_graph_add_input(g, NULL, SPARTA_F32, &dims, &v));
    return v;
}

/* Ones, and 0 where a column (or element) i has i % 4 == 1. */
static sp_value *weight(int rank, const int64_t *dim)
{
    sparta_tensor t;
    sp_value *v;
    ok(sp_tensor_alloc_in(g->arena, SPARTA_F32, rank, dim, &t));
    for (int64_t i = 0, n = sparta_tensor_elements(&t); i < n; i++)
        ((float *)t.data)[i] = i % dim[rank - 1] % 4 != 1;
    ok(sp_graph_add_constant(g, NULL, &t, false, &v));
    return v;
}

static sp_value *ints(int n, const int64_t *x)
{
    sp_value *v;
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){n}, (void *)(uintptr_t)x);
    ok(sp_graph_add_constant(g, NULL, &t, true, &v));
    return v;
}

static sp_value *node(sp_op_id op, int n_in, sp_value *const *in, const sp_attr *attr)
{
    sp_value *out = NULL;
    ok(sp_graph_add_node(g, op, NULL, n_in, in, 1, &out, &(sp_attrs){attr ? 1 : 0, attr}, NULL));
    return out;
}

static sp_value *both(sp_op_id op, sp_value *x, sp_value *y)
{
    return node(op, 2, (sp_value *[]){x, y}, NULL);
}

/* Of the processor: a machine that is busy changes little. */
static double since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Makes a graph of a size, and returns its output. */
typedef sp_value *builder(int n);

/* Infer, propagate and tie; seconds of the latter two. */
static double seconds(builder *build, int n, sp_propagate_report *r)
{
    ok(sp_graph_create(cx, "scaled", &g));
    ok(sp_graph_add_output(g, build(n)));
    ok(sp_ops_infer(g));
    const clock_t from = clock();
    ok(sp_propagate(g, NULL, r));
    ok(sp_propagate_tie(g));
    const double taken = since(from);
    printf("%d nodes, then %d; %lld parameters, then %lld; %d rounds; %.2f s; %zu MB at most\n",
           r->nodes_before, r->nodes_after, (long long)r->parameters_before, (long long)r->parameters_after,
           r->rounds, taken, sp_ctx_memory_peak(cx) >> 20);
    sp_graph_free(g);
    return taken;
}

/* Of two sizes: the time grows as what there is to look at does, `grows` times, with room for a machine that is busy. */
static void scales(builder *build, int some, int more, int grows, sp_propagate_report *r)
{
    const double before = seconds(build, some, r), after = seconds(build, more, r);
    if (after > 2 * grows * before + 0.5 * SLOWER)
        fail_msg("%.2f s at size %d and %.2f s at %d", before, some, after, more);
}

/* ------------------------------------------------------------------ large */
/* Blocks x + relu(x W1 + b1) W2 + b2: hidden unit i % 4 == 1 is a constant in every one of them. */
static sp_value *chain(int nodes)
{
    sp_value *x = input(2, (int64_t[]){-1, 8});
    while (g->n_nodes < nodes) {
        sp_value *h =
            both(SP_OP_Add, both(SP_OP_MatMul, x, weight(2, (int64_t[]){8, 16})), weight(1, (int64_t[]){16}));
        h = node(SP_OP_Relu, 1, &h, NULL);
        h = both(SP_OP_Add, both(SP_OP_MatMul, h, weight(2, (int64_t[]){16, 8})), weight(1, (int64_t[]){8}));
        x = both(SP_OP_Add, x, h);
    }
    return x;
}

static void test_ten_thousand_nodes(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(chain, 2500, 10000, 4, &r);
    assert_int_equal(r.parameters_before, 1667 * (8 * 16 + 16 + 16 * 8 + 8));
    assert_true(r.parameters_after <= 1667 * (8 * 12 + 12 + 12 * 8 + 8));
}

/* Blocks whose constants have no bias to go to: an Add is put after each of them. */
static sp_value *without_biases(int nodes)
{
    sp_value *x = input(2, (int64_t[]){-1, 8});
    while (g->n_nodes < nodes) {
        sp_value *h = both(SP_OP_MatMul, x, weight(2, (int64_t[]){8, 8}));
        h = node(SP_OP_Sigmoid, 1, &h, NULL); /* 0 becomes 0.5 */
        h = both(SP_OP_MatMul, h, weight(2, (int64_t[]){8, 8}));
        x = both(SP_OP_Add, x, h);
    }
    return x;
}

static void test_many_new_biases(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(without_biases, 2500, 10000, 4, &r);
    assert_true(r.parameters_after < r.parameters_before);
}

/* 64 MB of weights, of which a quarter of the columns is zero: what stays is copied, in less than twice the memory. */
enum { LAYERS = 16, N = 1024, LEFT = N / 4 * 3 };

static sp_value *large_weights(int layers)
{
    sp_value *x = input(2, (int64_t[]){-1, N});
    for (int i = 0; i < layers; i++) {
        x = both(SP_OP_MatMul, x, weight(2, (int64_t[]){N, N}));
        x = node(SP_OP_Relu, 1, &x, NULL);
    }
    return x;
}

static void test_large_weights(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(large_weights, LAYERS / 4, LAYERS, 4, &r);
    assert_int_equal(r.parameters_after, 2 * N * LEFT + (LAYERS - 2) * LEFT * LEFT);
    assert_true(sp_ctx_memory_peak(cx) < 2 * sizeof(float) * LAYERS * N * N);
}

/* ------------------------------------------------------------------ hostile */
enum { PARTS = 1000, SLOTS = 40000, COPIES = 20000, JOINED = 5000 };

static sp_value *wide_concat(int parts)
{
    static sp_value *part[PARTS];
    sp_value *x = input(2, (int64_t[]){-1, 8});
    for (int i = 0; i < parts; i++) part[i] = both(SP_OP_MatMul, x, weight(2, (int64_t[]){8, 16}));
    sp_value *y = node(SP_OP_Concat, parts, part, &(sp_attr){.name = "axis", .kind = SP_ATTR_INT, .i = 1});
    return both(SP_OP_MatMul, y, weight(2, (int64_t[]){16 * parts, 4}));
}

static void test_wide_concat(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(wide_concat, PARTS / 4, PARTS, 4, &r);
    assert_int_equal(r.parameters_after, PARTS * (8 * 12 + 12 * 4));
}

/* One node that has a value, and one that has constants of its own, in each of thousands of slots. */
static sp_value *many_slots(int slots)
{
    static sp_value *same[SLOTS], *own[SLOTS];
    sp_value *x = input(2, (int64_t[]){2, 2}), *y = input(2, (int64_t[]){2, 2});
    sparta_tensor zero = sparta_tensor_view(SPARTA_F32, 0, NULL, &(float){0});
    ok(sp_graph_add_constant(g, NULL, &zero, true, &own[0]));
    same[0] = own[0] = both(SP_OP_Add, x, own[0]);
    for (int i = 1; i < slots; i++) {
        same[i] = same[0];
        own[i] = weight(2, (int64_t[]){2, 2});
    }
    same[1] = y;
    return both(SP_OP_Add, node(SP_OP_Max, slots, same, NULL), node(SP_OP_Max, slots, own, NULL));
}

static void test_many_slots(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(many_slots, SLOTS / 4, SLOTS, 4, &r);
    assert_int_equal(r.nodes_after, 3);
}

/* Reshapes that join axes, all of which one node has: none can come apart without all others, and the output is in the way. */
static sp_value *many_joined(int joined)
{
    static sp_value *part[JOINED];
    sp_value *x = input(3, (int64_t[]){-1, 2, 3}), *shape = ints(2, (int64_t[]){-1, 3});
    for (int i = 0; i < joined; i++) part[i] = both(SP_OP_Reshape, x, shape);
    sp_value *y = node(SP_OP_Max, joined, part, NULL);
    return node(SP_OP_Neg, 1, &y, NULL);
}

static void test_many_joined(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(many_joined, JOINED / 4, JOINED, 4, &r);
}

/* A weight and thousands of transposed copies of it: all are tied to it, in the report and in the file. */
static sp_value *many_tied(int copies)
{
    sp_value *x = input(2, (int64_t[]){2, 2}), *w = weight(2, (int64_t[]){2, 2});
    w->origin = w->name;
    sp_value *y = both(SP_OP_MatMul, x, w);
    for (int i = 0; i < copies; i++)
        y = both(SP_OP_Add, y, both(SP_OP_MatMul, x, node(SP_OP_Transpose, 1, &w, NULL)));
    return y;
}

static void test_many_tied(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(many_tied, COPIES / 4, COPIES, 4, &r);
    assert_int_equal(r.parameters_before, 4);
}

/* One axis of thousands comes apart into four, whose order changes, and back; a gate has a fact for each element. */
static sp_value *large_composites(int side)
{
    const int64_t n = (int64_t)side * side * side * side;
    sp_value *x = input(2, (int64_t[]){-1, n});
    x = both(SP_OP_Mul, x, weight(1, (int64_t[]){n}));
    x = both(SP_OP_Reshape, x, ints(5, (int64_t[]){0, side, side, side, side}));
    x = node(SP_OP_Transpose, 1, &x,
             &(sp_attr){.name = "perm", .kind = SP_ATTR_INTS, .n = 5, .ints = (int64_t[]){0, 4, 2, 3, 1}});
    x = both(SP_OP_Reshape, x, ints(2, (int64_t[]){0, n}));
    x = node(SP_OP_Relu, 1, &x, NULL);
    return both(SP_OP_ReduceSum, x, ints(1, (int64_t[]){1}));
}

static void test_large_composites(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(large_composites, 16, 32, 16, &r);
}

/* Facts as fine as they are kept, and one step finer, through an outer product and sums of it. */
static sp_value *fine_facts(int n)
{
    sp_value *x = input(2, (int64_t[]){n, n});
    x = both(SP_OP_Mul, x, weight(2, (int64_t[]){n, n}));
    for (int i = 0; i < 4; i++)
        x = i % 2 ? both(SP_OP_Mul, x, weight(1, (int64_t[]){n})) : node(SP_OP_Relu, 1, &x, NULL);
    return both(SP_OP_ReduceSum, x, ints(1, (int64_t[]){1}));
}

static void test_fine_facts(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(fine_facts, 2048, 4096, 4, &r);
}

/* A product of two values with facts for every element: 2048^3 pairs are more than anybody wants to look at. */
static sp_value *fine_product(int n)
{
    sp_value *x = both(SP_OP_Mul, input(2, (int64_t[]){n, n}), weight(2, (int64_t[]){n, n}));
    sp_value *y = both(SP_OP_Mul, input(2, (int64_t[]){n, n}), weight(2, (int64_t[]){n, n}));
    return both(SP_OP_MatMul, x, y);
}

static void test_product_of_fine_facts(void **state)
{
    (void)state;
    sp_propagate_report r;
    scales(fine_product, 512, 2048, 16, &r);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {ON(test_ten_thousand_nodes), ON(test_many_new_biases),
                                       ON(test_large_weights),      ON(test_wide_concat),
                                       ON(test_many_slots),         ON(test_many_tied),
                                       ON(test_many_joined),        ON(test_large_composites),
                                       ON(test_fine_facts),         ON(test_product_of_fine_facts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
