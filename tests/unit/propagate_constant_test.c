/* What is kept of constants: states are alike where cells say so, whatever way they are kept; and cutting takes exactly what goes. */
#include "propagate/facts.h"
#include "propagate_bed.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int rank;
    int64_t dim[4];
} shape;

static const shape shapes[] = {{1, {7}},          {1, {1000}},  {2, {5, 300}},    {2, {300, 5}},
                               {2, {1, 64}},      {2, {64, 1}}, {3, {2, 3, 270}}, {4, {6, 5, 3, 3}},
                               {4, {2, 2, 2, 2}}, {0, {0}}};
enum { DENSE, ZERO, ROWS, COLUMNS, BOTH, SCATTERED, LATE, NOT_FINITE, WAYS };

static uint64_t seed;
static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Element i, of which `inner` make one index of the first axis. */
static float element(int way, int64_t i, int64_t inner, int64_t n)
{
    const int64_t row = i / inner, column = i % inner;
    switch (way) {
    case DENSE: return 1 + (float)i;
    case ZERO: return i % 2 ? -0.0f : 0;
    case ROWS: return row % 2 ? 0 : -1 - (float)i;
    case COLUMNS: return column % 3 ? 0 : 1e-38f * (float)(1 + i % 5);
    case BOTH: return row % 2 && column % 3 ? 0 : 2;
    case LATE: return i == n - 1 ? 0 : 3;
    case NOT_FINITE: return i == n / 2 ? (i % 2 ? NAN : INFINITY) : 1;
    default: return draw() % 2 ? 0 : 1;
    }
}

static void check_states(const sp_graph *g, const sp_value *v)
{
    sp_propagation *p;
    const sparta_tensor *t = v->constant;
    int64_t index[SPARTA_RANK] = {0};
    ok(sp_propagate_facts((sp_graph *)g, NULL, &p));
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++) {
        double known = -1, x = sp_element_get(t->dtype, t->data, i);
        const bool is = sp_tesa_known(sp_propagation_tesa(p, v), index, &known);
        assert_int_equal(is, isfinite(x));
        if (is) assert_true(known == x);
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dim[d]; d--) index[d] = 0;
    }
    sp_propagation_free(p);
}

/* x + c: a node that is not computed beforehand. */
static sp_graph *with_constant(const sparta_tensor *t, sp_value **v)
{
    sp_value *y;
    sp_graph *g = parse(t->dtype == SPARTA_F32   ? "graph \"g\"\ninput x: f32[]\noutput x\n"
                        : t->dtype == SPARTA_F16 ? "graph \"g\"\ninput x: f16[]\noutput x\n"
                                                 : "graph \"g\"\ninput x: i8[]\noutput x\n");
    ok(sp_graph_add_constant(g, "c", t, true, v));
    ok(sp_graph_add_value(g, "y", &y));
    ok(sp_graph_add_node(g, SP_OP_Add, "n", 2, (sp_value *[]){g->input[0], *v}, 1, &y, NULL, NULL));
    ok(sp_graph_add_output(g, y));
    ok(sp_ops_infer(g));
    return g;
}

static int64_t elements_of(const shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}

static void test_states(void **state)
{
    static const sparta_dtype types[] = {SPARTA_F32, SPARTA_F16, SPARTA_I8};
    (void)state;
    seed = 88172645463325252u;
    for (size_t k = 0; k < SP_COUNT(shapes); k++)
        for (int way = 0; way < WAYS; way++)
            for (size_t d = 0; d < SP_COUNT(types); d++) {
                if (way == NOT_FINITE && !sp_dtype_is_float(types[d])) continue;
                const int64_t n = elements_of(&shapes[k]), inner = shapes[k].rank ? n / shapes[k].dim[0] : 1;
                void *data = test_malloc((size_t)n * 4);
                for (int64_t i = 0; i < n; i++)
                    sp_element_set(types[d], data, i, (double)element(way, i, inner, n));
                sparta_tensor t = sparta_tensor_view(types[d], shapes[k].rank, shapes[k].dim, data);
                sp_value *v;
                sp_graph *g = with_constant(&t, &v);
                check_states(g, v);
                sp_graph_free(g);
                test_free(data);
            }
}

/* Against one element at a time. */
static void check_cut(const sparta_tensor *t, uint8_t *const *gone, const sparta_tensor *out)
{
    const size_t size = sparta_dtype_size(t->dtype);
    int64_t index[SPARTA_RANK] = {0}, at = 0;
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++) {
        bool goes = false;
        for (int d = 0; d < t->rank; d++) goes |= gone[d] && gone[d][index[d]];
        if (!goes)
            assert_memory_equal((char *)out->data + (size_t)at++ * size, (char *)t->data + (size_t)i * size,
                                size);
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dim[d]; d--) index[d] = 0;
    }
    assert_int_equal(at, sparta_tensor_elements(out));
}

static void test_cuts(void **state)
{
    static const sparta_dtype types[] = {SPARTA_I8, SPARTA_F16, SPARTA_F32, SPARTA_I64};
    (void)state;
    seed = 2463534242u;
    for (int round = 0; round < 600; round++) {
        sp_arena *arena = sp_arena_create(cx);
        const shape *s = &shapes[draw() % SP_COUNT(shapes)];
        uint8_t *gone[SPARTA_RANK] = {NULL};
        sparta_tensor t, out;
        sp_cut *cut = NULL;
        ok(sp_tensor_alloc_in(arena, types[draw() % 4], s->rank, s->dim, &t));
        for (size_t i = 0; i < (size_t)sparta_tensor_elements(&t) * sparta_dtype_size(t.dtype); i++)
            ((uint8_t *)t.data)[i] = (uint8_t)draw();
        for (int d = 0; d < s->rank; d++) {
            if (draw() % 2) continue;
            gone[d] = sp_arena_alloc(arena, (size_t)s->dim[d]);
            for (int64_t i = 0; i < s->dim[d]; i++) gone[d][i] = draw() % 3 == 0;
        }
        ok(sp_cut_plan(arena, arena, &t, gone, &out, &cut));
        ok(sp_cut_all(arena, cut, 1));
        check_cut(&t, gone, &out);
        sp_arena_free(arena);
    }
}

/* Enough for several threads: many cuts, each its own. */
static void test_many_cuts(void **state)
{
    enum { N = 24 };
    (void)state;
    sp_arena *arena = sp_arena_create(cx);
    sparta_tensor t[N], out[N];
    uint8_t *gone[N][2];
    sp_cut *cut = NULL;
    seed = 123456789;
    for (int k = 0; k < N; k++) {
        ok(sp_tensor_alloc_in(arena, SPARTA_F32, 2, (int64_t[]){700, 512}, &t[k]));
        for (int64_t i = 0; i < 700 * 512; i++) ((float *)t[k].data)[i] = (float)(k * 1000000 + i);
        for (int d = 0; d < 2; d++) {
            gone[k][d] = sp_arena_alloc(arena, 700);
            for (int i = 0; i < 700; i++) gone[k][d][i] = draw() % 9 == 0;
        }
        ok(sp_cut_plan(arena, arena, &t[k], gone[k], &out[k], &cut));
    }
    ok(sp_cut_all(arena, cut, 3));
    for (int k = 0; k < N; k++) check_cut(&t[k], gone[k], &out[k]);
    sp_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_states, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cuts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_cuts, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
