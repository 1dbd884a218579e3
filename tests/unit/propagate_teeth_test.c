/* The soundness test has teeth: with a wrong rule planted in one operator, some random model is found unsound.
 *
 * Each planted rule is the operator's own with one mistake in it, of the kind that people make: a label that may be cut and may not, an
 * order of axes, an offset, a role. Models are drawn until one is caught. (Slow: make test only.) */
#include "ops/flow.h"
#include "propagate_sound.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST = 1000 }; /* models until a mistake must have been caught */

static const sp_rule *right; /* the rule of the operator that is being spoiled */
static const sp_rule *planted_rule[SP_OPS];

/* The linker puts this in place of sp_rule_of (--wrap, in the Makefile): a planted rule comes before the operator's own. */
const sp_rule *__real_sp_rule_of(sp_op_id op);
const sp_rule *__wrap_sp_rule_of(sp_op_id op);
const sp_rule *__wrap_sp_rule_of(sp_op_id op)
{
    return planted_rule[op] ? planted_rule[op] : __real_sp_rule_of(op);
}

/* ------------------------------------------------------------------ mistakes */
/* Everything may be cut. */
static sparta_status may_go(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int l = 0; l < a->labels; l++) {
        a->label[l].why = NULL;
        if (a->label[l].kind == SP_WHOLE) a->label[l].kind = SP_EACH;
    }
    return SPARTA_OK;
}

/* Zero where one input is. */
static sparta_status as_product(sp_axes *a)
{
    return sp_flow_times(a);
}

/* The first input passes as it is. */
static sparta_status as_move(sp_axes *a)
{
    return sp_flow_same(a);
}

/* The last two labels of the output have changed places. */
static sparta_status swapped(sp_axes *a)
{
    SP_TRY(right->axes(a));
    int rank = a->n->out[0]->dims.rank;
    if (rank < 2 || !sp_expr_equal(a->n->out[0]->dims.dim[rank - 1], a->n->out[0]->dims.dim[rank - 2]))
        return SPARTA_OK;
    sp_axis x = a->out[0].axis[rank - 1];
    a->out[0].axis[rank - 1] = a->out[0].axis[rank - 2];
    a->out[0].axis[rank - 2] = x;
    return SPARTA_OK;
}

/* Composite axes are taken for minor first. */
static sparta_status minor_first(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int k = 0; k < a->n->out[0]->dims.rank; k++) {
        sp_axis *x = &a->out[0].axis[k];
        if (x->n != 2) continue;
        int l = x->label[0];
        x->label[0] = x->label[1];
        x->label[1] = l;
    }
    return SPARTA_OK;
}

/* Windows of inputs of equal length are in the wrong order. */
static sparta_status windows_swapped(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int k = 0; a->n->n_in > 1 && k < a->n->out[0]->dims.rank; k++) {
        sp_axis *x = &a->in[0].axis[k], *y = &a->in[1].axis[k];
        if (!x->window || !sp_expr_equal(a->n->in[0]->dims.dim[k], a->n->in[1]->dims.dim[k])) continue;
        int64_t from = x->from;
        x->from = y->from;
        y->from = from;
    }
    return SPARTA_OK;
}

/* Windows begin where the axis does. */
static sparta_status windows_at_0(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int o = 0; o < a->n->n_out; o++)
        for (int k = 0; k < a->n->out[o]->dims.rank; k++)
            if (a->out[o].axis[k].window && !a->out[o].axis[k].at && a->out[o].axis[k].step == 1)
                a->out[o].axis[k].from = 0;
    return SPARTA_OK;
}

/* Picks are the first ones. */
static sparta_status picks_in_order(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int k = 0; k < a->n->out[0]->dims.rank; k++) {
        sp_axis *x = &a->out[0].axis[k];
        int64_t n = x->at ? size_of(a->n->out[0], k) : 0, size = x->at ? a->label[x->label[0]].size : 0;
        int64_t *at = x->at ? sp_arena_array(a->arena, (size_t)n, sizeof *at) : NULL;
        for (int64_t i = 0; at && i < n; i++) at[i] = i % size;
        if (at) x->at = at;
    }
    return SPARTA_OK;
}

/* What is added is taken for a factor. */
static sparta_status term_for_factor(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int i = 2; i < a->n->n_in; i++)
        if (a->in[i].role == SP_TERM) a->in[i].role = SP_FACTOR;
    return SPARTA_OK;
}

/* What is hidden by a zero is said to be by everything else, and the other way round. */
static sparta_status hides_wrongly(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int i = 0; i < a->n->n_in; i++) {
        uint64_t zero = a->in[i].hides[false];
        a->in[i].hides[false] = a->in[i].hides[true];
        a->in[i].hides[true] = zero;
    }
    return SPARTA_OK;
}

/* One zero is enough. */
static sparta_status zero_hides_line(sp_axes *a)
{
    SP_TRY(right->axes(a));
    a->how = SP_FLOW_PRODUCT;
    a->in[0].role = SP_FACTOR;
    a->in[0].hides[false] = 1;
    return SPARTA_OK;
}

/* The scale is said to come before the mixing, index by index. */
static sparta_status not_mixed(sp_axes *a)
{
    SP_TRY(right->axes(a));
    for (int l = 0; l < a->labels; l++)
        if (a->label[l].kind == SP_WHOLE) a->label[l].kind = SP_EACH;
    return SPARTA_OK;
}

/* Further outputs are scaled, too. */
static sparta_status all_scaled(sp_axes *a)
{
    static const sp_role role[3] = {SP_ARG, SP_FACTOR, SP_TERM};
    SP_TRY(right->axes(a));
    a->how = SP_FLOW_PRODUCT;
    for (int i = 0; i < a->n->n_in; i++) a->in[i].role = role[i];
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the table */
static const struct {
    const char *op, *mistake;
    sparta_status (*axes)(sp_axes *a);
    bool keeps_shrink;
} planted[] = {
    {"Add", "zero where one input is", as_product, true},
    {"Relu", "constants pass as they are", as_move, true},
    {"Sigmoid", "constants pass as they are", as_move, true},
    {"Max", "zero where one input is", as_product, true},
    {"Where", "zero where one input is", as_product, true},
    {"Softmax", "what it runs over may go", may_go, true},
    {"LayerNormalization", "what it runs over may go", may_go, true},
    {"ReduceMean", "what it averages may go", may_go, true},
    {"Transpose", "two axes changed places", swapped, true},
    {"Flatten", "the minor axis first", minor_first, true},
    {"Reshape", "the minor axis first", minor_first, true},
    {"Tile", "the minor axis first", minor_first, true},
    {"Concat", "two inputs changed places", windows_swapped, true},
    {"Slice", "it begins where the axis does", windows_at_0, true},
    {"Split", "each part begins where the axis does", windows_at_0, true},
    {"Split", "the lengths are not written anew", NULL, false},
    {"Slice", "the bounds are not written anew", NULL, false},
    {"Gather", "the indices are not written anew", NULL, false},
    {"Reshape", "the shape is not written anew", NULL, false},
    {"Gather", "the first rows are picked", picks_in_order, true},
    {"Gemm", "the bias is a factor", term_for_factor, true},
    {"MatMul", "two axes changed places", swapped, true},
    {"Trilu", "what is cut off passes", as_move, true},
    {"CumSum", "what it adds up may go", may_go, true},
    {"Conv", "the group is the minor axis", minor_first, true},
    {"Conv", "the number of groups is not written anew", NULL, false},
    {"BatchNormalization", "constants pass as they are", as_move, true},
    {"InstanceNormalization", "what its statistics run over may go", may_go, true},
    {"AveragePool", "what a window slides over may go", may_go, true},
    {"Where", "the condition takes the other choice", hides_wrongly, true},
    {"Or", "false settles it", hides_wrongly, true},
    {"Pow", "a power other than 0 settles it", hides_wrongly, true},
    {"ReduceMax", "one zero is enough", zero_hides_line, true},
    {"LayerNormalization", "statistics of each element alone", not_mixed, true},
    {"LayerNormalization", "the scale is one of the mean, too", all_scaled, true},
    {"LayerNormalization", "the bias is a factor", term_for_factor, true},
    {"GroupNormalization", "statistics of each element alone", not_mixed, true},
    {"RMSNormalization", "statistics of each element alone", not_mixed, true},
};

static uint64_t caught_at(sp_op_id op, const sp_rule *wrong, soundness *s)
{
    sparta_ctx *cx = sparta_ctx_create(NULL);
    uint64_t seed = 1;
    assert_non_null(cx);
    planted_rule[op] = wrong;
    while (seed <= MOST && check_seed(cx, seed, s)) seed++;
    planted_rule[op] = NULL;
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
    return seed;
}

static void test_wrong_rules_are_caught(void **state)
{
    (void)state;
    static soundness s;
    int missed = 0;
    s.inputs = 3;
    for (size_t i = 0; i < SP_COUNT(planted); i++) {
        const sp_builtin *row = draw_find(planted[i].op);
        assert_non_null(row);
        right = sp_rule_of(row->id);
        sp_rule wrong = *right;
        if (planted[i].axes) wrong.axes = planted[i].axes;
        if (!planted[i].keeps_shrink) wrong.shrink = NULL;
        uint64_t seed = caught_at(row->id, &wrong, &s);
        printf("%-20s %-40s %s %llu: %s\n", planted[i].op, planted[i].mistake,
               seed > MOST ? "NOT CAUGHT by" : "caught by seed", (unsigned long long)SP_MIN(seed, MOST),
               s.why);
        missed += seed > MOST;
    }
    printf("note: propagation: %d wrong rules planted, %d of them caught\n", (int)SP_COUNT(planted),
           (int)SP_COUNT(planted) - missed);
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_rules_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
