/* Propagation rules against the references, by experiment. For every operator and some parameters:
 *
 *   locality   change one element of an input: only outputs that share its labels may change
 *   moves      an output of a MOVE holds exactly the element that its labels name
 *   zeros      a PRODUCT is zero where a factor is zero along all that is summed
 *   hidden     change what another operand hides: nothing changes
 *   shrink     take indices that may go out of a label: the smaller node computes the same as the slices of the larger one
 *
 * Graphs with symbols are described as they are and run with the symbols bound. */
#include "ops_flow_bench.h"

/* May an output at `out` depend on input i at `in`? */
static bool related(const bench *b, int i, const int64_t *in, const int64_t *out)
{
    for (int l = 0; l < b->a.labels; l++)
        if ((b->a.label[l].kind != SP_WHOLE || b->a.in[i].after) && in[l] >= 0 && out[l] >= 0 &&
            in[l] != out[l])
            return false;
    return true;
}

static void change(const bench *b, const sparta_tensor *t, int64_t e)
{
    if (sp_dtype_is_float(t->dtype))
        sp_element_set(t->dtype, t->data, e, sp_element_get(t->dtype, t->data, e) + 0.75);
    else
        sp_element_set_int(t->dtype, t->data, e,
                           (sp_element_get_int(t->dtype, t->data, e) + 1) %
                               (t->dtype == SPARTA_BOOL ? 2 : b->limit));
}

static void copy_outputs(const bench *b, sparta_tensor *out)
{
    for (int o = 0; o < b->n->n_out; o++) {
        out[o] = room_for(b->run->out[o]);
        assert_int_equal(sp_tensor_copy(cx, &b->out[o], &out[o]), SPARTA_OK);
    }
}

static void free_all(sparta_tensor *t, int n)
{
    for (int i = 0; i < n; i++) sp_free(cx, t[i].data);
}

static bool same_element(const sparta_tensor *a, int64_t i, const sparta_tensor *b, int64_t j)
{
    size_t size = sparta_dtype_size(a->dtype);
    return !memcmp((char *)a->data + (size_t)i * size, (char *)b->data + (size_t)j * size, size);
}

static void check_element(const bench *b, int i, int64_t e, const sparta_tensor *before)
{
    int64_t in[SP_LABELS], out[SP_LABELS];
    bool inside = place(b, i, e, in);
    for (int o = 0; o < b->n->n_out; o++)
        for (int64_t k = 0; k < sparta_tensor_elements(&b->out[o]); k++) {
            bool changed = !same_element(&before[o], k, &b->out[o], k);
            if (!changed) continue;
            place(b, b->n->n_in + o, k, out);
            if (!inside || !related(b, i, in, out))
                fail_msg(
                    "input %d element %lld changes output %d element %lld, which its labels do not allow\n%s",
                    i, (long long)e, o, (long long)k, b->text);
        }
}

static void check_locality(const bench *b)
{
    sparta_tensor before[8];
    copy_outputs(b, before);
    for (int i = 0; i < b->n->n_in; i++) {
        if (!b->n->in[i] || b->a.in[i].role == SP_SIDE || b->run->in[i]->constant) continue;
        for (int64_t e = 0; e < sparta_tensor_elements(&b->in[i]); e++) {
            sparta_tensor keep;
            assert_int_equal(sp_tensor_alloc(cx, b->in[i].dtype, b->in[i].rank, b->in[i].dim, &keep),
                             SPARTA_OK);
            assert_int_equal(sp_tensor_copy(cx, &b->in[i], &keep), SPARTA_OK);
            change(b, &b->in[i], e);
            run(b);
            check_element(b, i, e, before);
            assert_int_equal(sp_tensor_copy(cx, &keep, &b->in[i]), SPARTA_OK);
            sp_free(cx, keep.data);
        }
    }
    run(b);
    free_all(before, b->n->n_out);
}

/* ------------------------------------------------------------------ form */
static bool has_label(const bench *b, bool outputs, int l)
{
    bool has = false;
    for (int o = outputs ? b->n->n_in : 0; o < b->n->n_in + (outputs ? b->n->n_out : 0); o++)
        for (int i = 0; operand(b, o) && b->a.in[o].role != SP_SIDE && i < tensor(b, o)->rank; i++)
            for (int j = 0; j < b->a.in[o].axis[i].n; j++) has |= b->a.in[o].axis[i].label[j] == l;
    return has;
}

/* Labels make up the sizes of their axes; what only one side has is summed, whole or says why it stays. */
static void check_form(const bench *b)
{
    for (int o = 0; o < b->n->n_in + b->n->n_out; o++)
        for (int i = 0; operand(b, o) && b->a.in[o].role != SP_SIDE && i < tensor(b, o)->rank; i++) {
            const sp_axis *x = &b->a.in[o].axis[i];
            int64_t size = 1;
            for (int j = 0; j < x->n; j++) size *= b->size[x->label[j]];
            if (x->window && (x->n != 1 || b->a.how != SP_FLOW_MOVE))
                fail_msg("a window that is none\n%s", b->text);
            if (!x->window && size != tensor(b, o)->dim[i])
                fail_msg("operand %d axis %d has labels of %lld\n%s", o, i, (long long)size, b->text);
        }
    for (int l = 0; l < b->a.labels; l++) {
        const sp_label *x = &b->a.label[l];
        bool in = has_label(b, false, l), out = has_label(b, true, l);
        if (!in && !out) continue;
        if (x->kind == SP_SUM && (out || b->a.how != SP_FLOW_PRODUCT))
            fail_msg("label %d is no sum\n%s", l, b->text);
        if (x->kind == SP_EACH && !out && b->a.how != SP_FLOW_MOVE)
            fail_msg("label %d is in no output\n%s", l, b->text);
        if (x->made && (in || !out || b->a.how != SP_FLOW_MOVE))
            fail_msg("label %d is not made\n%s", l, b->text);
        if ((!in || (!out && x->kind != SP_SUM)) && x->size != 1 && !x->why && !x->made)
            fail_msg("label %d does not say why\n%s", l, b->text);
        if (x->kind == SP_WHOLE && !x->why)
            fail_msg("label %d is whole and does not say why\n%s", l, b->text);
    }
}

/* ------------------------------------------------------------------ moves and zeros */
/* Every output element is the one input element whose labels agree, or the fill where there is none. */
static void check_moves(const bench *b)
{
    int64_t in[SP_LABELS], out[SP_LABELS];
    for (int l = 0; l < b->a.labels; l++)
        if (b->a.label[l].size < 0) return;
    for (int o = 0; o < b->n->n_out; o++)
        for (int64_t k = 0; k < sparta_tensor_elements(&b->out[o]); k++) {
            int found = 0;
            place(b, b->n->n_in + o, k, out);
            for (int i = 0; i < b->n->n_in; i++)
                for (int64_t e = 0;
                     b->n->in[i] && b->a.in[i].role != SP_SIDE && e < sparta_tensor_elements(&b->in[i]);
                     e++) {
                    if (!place(b, i, e, in) || !related(b, i, in, out)) continue;
                    found++;
                    if (!same_element(&b->in[i], e, &b->out[o], k))
                        fail_msg("output %d element %lld is not input %d element %lld\n%s", o, (long long)k,
                                 i, (long long)e, b->text);
                }
            double fill = b->a.fill ? sp_element_get(b->a.fill->dtype, b->a.fill->data, 0) : 0;
            bool filled = found == 0 && sp_element_get(b->out[o].dtype, b->out[o].data, k) == fill;
            if (found != 1 && !filled)
                fail_msg("output %d element %lld has %d sources\n%s", o, (long long)k, found, b->text);
        }
}

/* Zero a random slice of a factor: outputs all of whose related elements of it are zero are zero, less the terms, which are 0. */
static void check_zeros(const bench *b, int factor)
{
    int64_t in[SP_LABELS], out[SP_LABELS];
    int l = (int)draw((uint64_t)SP_MAX(b->a.labels, 1));
    if (b->run->in[factor]->constant) return;
    for (int i = 0; i < b->n->n_in; i++)
        if (b->n->in[i] && b->a.in[i].role == SP_TERM) {
            if (b->run->in[i]->constant) return;
            sp_tensor_clear(&b->in[i]);
        }
    int64_t index = b->a.labels && b->size[l] > 0 ? (int64_t)draw((uint64_t)b->size[l]) : 0;
    for (int64_t e = 0; e < sparta_tensor_elements(&b->in[factor]); e++) {
        place(b, factor, e, in);
        if (draw(4) == 0 || !b->a.labels || in[l] < 0 || in[l] == index)
            sp_element_set(b->in[factor].dtype, b->in[factor].data, e, 0);
    }
    run(b);
    for (int o = 0; o < b->n->n_out; o++)
        for (int64_t k = 0; k < sparta_tensor_elements(&b->out[o]); k++) {
            bool zero = true;
            place(b, b->n->n_in + o, k, out);
            for (int64_t e = 0; zero && e < sparta_tensor_elements(&b->in[factor]); e++) {
                place(b, factor, e, in);
                zero = !related(b, factor, in, out) ||
                       sp_element_get(b->in[factor].dtype, b->in[factor].data, e) == 0;
            }
            if (zero && sp_element_get(b->out[o].dtype, b->out[o].data, k) != 0)
                fail_msg("output %d element %lld is not zero where factor %d is\n%s", o, (long long)k, factor,
                         b->text);
        }
}

/* ------------------------------------------------------------------ what hides */
/* Does operand k hide element `e` of input i from the output at `out`? With `value`: every element of k that both meet is 0, or none is.
 * Itself: another one that the output depends on is 0. */
static bool is_hidden(const bench *b, int k, bool value, int i, int64_t e, const int64_t *out)
{
    int64_t at[SP_LABELS], mine[SP_LABELS];
    bool all = true, other = false;
    place(b, i, e, mine);
    for (int64_t n = 0; n < sparta_tensor_elements(&b->in[k]); n++) {
        bool is = sp_element_get(b->in[k].dtype, b->in[k].data, n) != 0, meets = true;
        place(b, k, n, at);
        for (int l = 0; k != i && l < b->a.labels; l++) meets &= at[l] < 0 || mine[l] < 0 || at[l] == mine[l];
        if (!meets || !related(b, k, at, out)) continue;
        all &= is == value;
        other |= n != e && is == value;
    }
    return k == i ? other : all;
}

static int hidden; /* elements that were changed and should not be seen */

/* Anything: NaN where the rule is for all values. */
static void replace(const bench *b, int i, int64_t e)
{
    if (sp_dtype_is_float(b->in[i].dtype) && b->a.how == SP_FLOW_FUNCTION)
        sp_element_set(b->in[i].dtype, b->in[i].data, e, draw(2) ? (double)NAN : (double)INFINITY);
    else
        change(b, &b->in[i], e);
}

static void check_hidden(const bench *b, int k, bool value, int i)
{
    sparta_tensor before[8], keep;
    int64_t out[SP_LABELS];
    if (b->run->in[k]->constant || b->run->in[i]->constant) return;
    random_fill(b, &b->in[i]);
    for (int64_t e = 0; e < sparta_tensor_elements(&b->in[k]); e++)
        sp_element_set(b->in[k].dtype, b->in[k].data, e, draw(3) ? value : !value);
    run(b);
    copy_outputs(b, before);
    for (int64_t e = 0; e < sparta_tensor_elements(&b->in[i]); e++) {
        assert_int_equal(sp_tensor_alloc(cx, b->in[i].dtype, b->in[i].rank, b->in[i].dim, &keep), SPARTA_OK);
        assert_int_equal(sp_tensor_copy(cx, &b->in[i], &keep), SPARTA_OK);
        replace(b, i, e);
        run(b);
        for (int64_t n = 0; n < sparta_tensor_elements(&b->out[0]); n++) {
            place(b, b->n->n_in, n, out);
            if (!is_hidden(b, k, value, i, e, out)) continue;
            hidden++;
            if (!same_element(&before[0], n, &b->out[0], n))
                fail_msg("input %d is to hide input %d element %lld from output element %lld\n%s", k, i,
                         (long long)e, (long long)n, b->text);
        }
        assert_int_equal(sp_tensor_copy(cx, &keep, &b->in[i]), SPARTA_OK);
        sp_free(cx, keep.data);
    }
    free_all(before, b->n->n_out);
}

/* ------------------------------------------------------------------ shrinking */
/* A label that may go: no why, a number, both sides have it unless it is summed. */
static bool may_go(const bench *b, int l)
{
    const sp_label *x = &b->a.label[l];
    if (x->why || x->size < 2 || x->kind == SP_WHOLE) return false;
    return (x->made || has_label(b, false, l)) && (x->kind == SP_SUM || has_label(b, true, l));
}

/* Which indices of an axis stay; how many. */
static int64_t stays(const bench *b, int o, int axis, int l, const uint8_t *kept, uint8_t *out)
{
    const sp_axis *x = &b->a.in[o].axis[axis];
    int64_t count = 0;
    for (int64_t i = 0; i < tensor(b, o)->dim[axis]; i++) {
        int64_t rest = x->window ? sp_axis_at(x, i) : i;
        out[i] = 1;
        for (int j = x->n - 1; j >= 0; j--) {
            int64_t at = j ? rest % b->size[x->label[j]] : rest;
            if (x->label[j] == l) out[i] &= kept[at];
            rest /= j ? b->size[x->label[j]] : 1;
        }
        count += out[i];
    }
    return count;
}

/* The part of an operand that stays, row-major. */
static sparta_tensor part(const bench *b, int o, int l, const uint8_t *kept)
{
    const sparta_tensor *t = tensor(b, o);
    uint8_t stay[SPARTA_RANK][256];
    int64_t dim[SPARTA_RANK], to = 0;
    sparta_tensor out;
    for (int i = 0; i < t->rank; i++) dim[i] = stays(b, o, i, l, kept, stay[i]);
    assert_int_equal(sp_tensor_alloc(cx, t->dtype, t->rank, dim, &out), SPARTA_OK);
    for (int64_t e = 0; e < sparta_tensor_elements(t); e++) {
        int64_t rest = e;
        bool keep = true;
        for (int i = t->rank - 1; i >= 0; i--) {
            keep &= stay[i][rest % t->dim[i]];
            rest /= t->dim[i];
        }
        size_t size = sparta_dtype_size(t->dtype);
        if (keep) memcpy((char *)out.data + (size_t)to++ * size, (char *)t->data + (size_t)e * size, size);
    }
    return out;
}

/* Dims of a value without the indices: numbers become the tensor's, 64*b becomes 32*b. */
static void shrink_dims(const bench *b, int o, const sparta_tensor *t)
{
    sp_value *v = operand(b, o);
    for (int i = 0; i < v->dims.rank; i++) {
        int64_t was = tensor(b, o)->dim[i];
        if (was == t->dim[i]) continue;
        const sp_expr *x = sp_expr_mul(b->g->arena, v->dims.dim[i], sp_expr_const(b->g->arena, t->dim[i]));
        v->dims.dim[i] = x ? sp_expr_divide_exact(b->g->arena, x, sp_expr_const(b->g->arena, was)) : NULL;
        assert_non_null(v->dims.dim[i]);
    }
}

/* Summed indices go where they add nothing. */
static void clear_summands(const bench *b, int l, const uint8_t *kept)
{
    int64_t at[SP_LABELS];
    for (int i = 0; i < b->n->n_in; i++)
        for (int64_t e = 0;
             b->n->in[i] && b->a.in[i].role == SP_FACTOR && e < sparta_tensor_elements(&b->in[i]); e++) {
            place(b, i, e, at);
            if (at[l] >= 0 && !kept[at[l]]) sp_element_set(b->in[i].dtype, b->in[i].data, e, 0);
        }
    run(b);
}

static void compare_parts(const bench *b, const sparta_tensor *is, const sparta_tensor *want)
{
    assert_int_equal(sparta_tensor_elements(is), sparta_tensor_elements(want));
    for (int64_t e = 0; e < sparta_tensor_elements(is); e++) {
        double x = sp_element_get(is->dtype, is->data, e), y = sp_element_get(want->dtype, want->data, e);
        if (x - y > 1e-5 || y - x > 1e-5)
            fail_msg("the smaller node gives %g for %g at %lld\n%s", x, y, (long long)e, b->text);
    }
}

/* The smaller node, on the parts of its inputs. */
static void run_parts(const bench *b, sparta_tensor *part_of, const sparta_tensor *want)
{
    sp_op_args args = {&b->n->attrs, b->n->n_in, b->n->n_out, part_of, part_of + 8};
    for (int i = 0; i < b->n->n_in; i++) {
        if (b->n->in[i] && b->n->in[i]->constant && (i >= b->run->n_in || b->a.in[i].role == SP_SIDE))
            part_of[i] = *b->n->in[i]->constant;
        if (!b->n->in[i]) part_of[i] = (sparta_tensor){.rank = -1};
    }
    for (int o = 0; o < b->n->n_out; o++)
        assert_int_equal(sp_tensor_alloc(cx, want[o].dtype, want[o].rank, want[o].dim, &part_of[8 + o]),
                         SPARTA_OK);
    if (sp_builtin_row(b->n->op)->fn(cx, &args) != SPARTA_OK)
        fail_msg("shrunk: %s\n%s", sparta_message(cx), b->text);
    for (int o = 0; o < b->n->n_out; o++) compare_parts(b, &part_of[8 + o], &want[o]);
}

/* Operands that are one value lose the same indices of it? Otherwise nobody would agree to this. */
static bool twins_agree(const bench *b, int l, const uint8_t *kept)
{
    uint8_t one[256] = {0}, two[256] = {0};
    for (int o = 0; o < b->n->n_in; o++)
        for (int k = 0; k < o; k++)
            for (int i = 0; operand(b, o) && operand(b, o) == operand(b, k) && i < tensor(b, o)->rank; i++) {
                stays(b, o, i, l, kept, one);
                stays(b, k, i, l, kept, two);
                if (memcmp(one, two, (size_t)tensor(b, o)->dim[i])) return false;
            }
    return true;
}

/* Take indices out of label l. false: an axis would have none left, or parameters are constants that are data. */
static bool check_shrink(const bench *b, int l)
{
    uint8_t kept[256] = {0}, scratch[256];
    const uint8_t *all[SP_LABELS] = {NULL};
    sparta_tensor parts[16], want[8];
    int ins = b->n->n_in;
    for (int64_t i = 0; i < b->size[l]; i++) kept[i] = draw(3) != 0;
    if (!twins_agree(b, l, kept)) return false;
    for (int o = 0; o < ins + b->n->n_out; o++) {
        if (!operand(b, o) || b->a.in[o].role == SP_SIDE) continue;
        if (o < ins && b->run->in[o]->constant) return false;
        for (int i = 0; i < tensor(b, o)->rank; i++)
            if (!stays(b, o, i, l, kept, scratch)) return false;
    }
    if (b->a.label[l].kind == SP_SUM) clear_summands(b, l, kept);
    bool mine[8] = {false};
    sp_dims expected[8];
    for (int o = 0; o < ins; o++) {
        if (!operand(b, o)) continue;
        mine[o] = b->a.in[o].role != SP_SIDE || !b->n->in[o]->constant;
        parts[o] = mine[o] ? part(b, o, l, kept) : b->in[o];
        if (b->a.in[o].role != SP_SIDE) {
            bool done = false; /* the same value twice */
            for (int k = 0; k < o; k++) done |= operand(b, k) == operand(b, o);
            if (!done) shrink_dims(b, o, &parts[o]);
        }
    }
    for (int o = 0; o < b->n->n_out; o++) {
        want[o] = part(b, ins + o, l, kept);
        shrink_dims(b, ins + o, &want[o]);
        expected[o] = b->n->out[o]->dims;
    }
    all[l] = kept;
    const sp_rule *flow = sp_rule_of(b->n->op);
    sp_shrink s = {b->g, b->n, &b->a, all};
    if (flow->shrink && flow->shrink(&s) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), b->text);
    if (sp_attr_find(&b->n->attrs, "num_outputs") && b->n->n_in > 1)
        fail_msg("ONNX has lengths or a number of parts\n%s", b->text);
    if (sp_ops_infer_node(b->g, b->n) != SPARTA_OK) fail_msg("shrunk: %s\n%s", sparta_message(cx), b->text);
    for (int o = 0; o < b->n->n_out; o++)
        if (!sp_dims_equal(&b->n->out[o]->dims, &expected[o]))
            fail_msg("other dims than agreed\n%s", b->text);
    run_parts(b, parts, want);
    for (int o = 0; o < ins; o++)
        if (mine[o]) sp_free(cx, parts[o].data);
    free_all(parts + 8, b->n->n_out);
    free_all(want, b->n->n_out);
    return true;
}

/* ------------------------------------------------------------------ the cases */
typedef struct expectation {
    const char *text;
    sp_flow_how how;
    int limit, go; /* go: how many labels may lose indices; -1: neither is known */
} expectation;

static int shrunk;

static void check(const expectation *c)
{
    bench b = open_bench(c->text, c->limit);
    int go = 0;
    if (c->go >= 0 && b.a.how != c->how) fail_msg("how is %d, not %d\n%s", b.a.how, c->how, c->text);
    bool data = b.a.how == SP_FLOW_FUNCTION || b.a.how == SP_FLOW_PRODUCT || b.a.how == SP_FLOW_MOVE;
    for (int l = 0; data && l < b.a.labels; l++) go += may_go(&b, l);
    if (c->go >= 0 && go != c->go) fail_msg("%d labels may go, not %d\n%s", go, c->go, c->text);
    if (data) check_form(&b);
    if (data) check_locality(&b);
    if (b.a.how == SP_FLOW_MOVE) check_moves(&b);
    for (int i = 0; i < b.n->n_in; i++)
        if (b.n->in[i] && b.a.in[i].role == SP_FACTOR) check_zeros(&b, i);
    for (int k = 0; data && k < b.n->n_in; k++)
        for (int v = 0; v < 2; v++)
            for (int i = 0; i < b.n->n_in; i++)
                if (b.a.in[k].hides[v] >> i & 1) check_hidden(&b, k, v, i);
    int labels = b.a.labels;
    close_bench(&b);
    for (int round = 0; data && round < 4 * labels; round++) { /* a fresh graph for each */
        b = open_bench(c->text, c->limit);
        int l = round % labels;
        if (may_go(&b, l)) shrunk += check_shrink(&b, l);
        close_bench(&b);
    }
}

#define G   "graph \"g\"\n"
#define X34 G "input x: f32[3,4]\n"
#define END "\noutput y\n"
#define FUN SP_FLOW_FUNCTION
#define PRO SP_FLOW_PRODUCT
#define MOV SP_FLOW_MOVE

static const expectation cases[] = {
#include "ops_flow_cases.h"
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(cases); i++) check(&cases[i]);
    printf("%d nodes were made smaller, %d times something was hidden\n", shrunk, hidden);
    if (hidden < 200) fail_msg("only %d times something was hidden", hidden);
    if (shrunk < 2000) fail_msg("only %d nodes were made smaller", shrunk);
}

/* ------------------------------------------------------------------ random parameters */
/* Dims whose product is that of the factors, in text; the number of them. */
static int group(char *text, const int *factor, int n)
{
    int rank = 0, dim = 1, at = 0;
    for (int i = 0; i < n; i++) {
        dim *= factor[i];
        if (i < n - 1 && draw(2)) continue;
        at += sprintf(text + at, "%s%d", rank++ ? "," : "", dim);
        dim = 1;
        if (rank < 5 && draw(8) == 0) at += sprintf(text + at, ",%d", 1), rank++;
    }
    return rank;
}

static void test_random_reshape(void **state)
{
    (void)state;
    static const int prime[] = {2, 2, 2, 3, 5};
    for (int round = 0; round < 150; round++) {
        int factor[5], other[5], n = 2 + (int)draw(4), elements = 1;
        char x[64], y[64], text[300];
        for (int i = 0; i < n; i++) elements *= factor[i] = elements > 40 ? 1 : prime[draw(5)];
        for (int i = 0; i < n; i++) { /* the same factors in another order, often */
            int k = draw(2) ? i : (int)draw((uint64_t)i + 1);
            other[i] = other[k];
            other[k] = factor[i];
        }
        group(x, factor, n);
        int rank = group(y, other, n);
        sprintf(text, G "input x: f32[%s]\nconst n: i64[%d] = [%s]\nnode y: ? = Reshape(x, n)" END, x, rank,
                y);
        check(&(expectation){text, MOV, 2, -1});
    }
}

static void test_random_slice(void **state)
{
    (void)state;
    for (int round = 0; round < 150; round++) {
        char text[400];
        int bound[4], step[2];
        for (int i = 0; i < 4; i++) bound[i] = (int)draw(16) - 8;
        for (int i = 0; i < 2; i++) step[i] = draw(3) ? 1 : (int)draw(2) ? 2 : -1;
        sprintf(text,
                G "input x: f32[5,2,6]\nconst f: i64[2] = [%d,%d]\nconst e: i64[2] = [%d,%d]\nconst a: "
                  "i64[2] = [-1,0]\n"
                  "const p: i64[2] = [%d,%d]\nnode y: ? = Slice(x, f, e, a, p)" END,
                bound[0], bound[1], bound[2], bound[3], step[0], step[1]);
        check(&(expectation){text, MOV, 2, -1});
    }
}

static void test_random_gather(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        char text[300], list[64];
        int n = 1 + (int)draw(5), axis = (int)draw(4) - 2, at = 0;
        for (int i = 0; i < n; i++) at += sprintf(list + at, "%s%d", i ? "," : "", (int)draw(10) - 5);
        char shape[16];
        sprintf(shape, draw(2) ? "%d,1" : "1,%d", n);
        sprintf(text, G "input x: f32[5,5]\nconst i: i64[%s] = [%s]\nnode y: ? = Gather(x, i) {axis=%d}" END,
                shape, list, axis);
        check(&(expectation){text, MOV, 2, 2});
    }
}

static sp_axes axes_of(const char *text, sp_graph **g)
{
    sp_axes a;
    *g = graph_of(text, false);
    if (sp_axes_of(*g, (*g)->output[0]->producer, (*g)->arena, &a) != SPARTA_OK)
        fail_msg("%s\n%s", sparta_message(cx), text);
    return a;
}

/* Sizes are read, contents are not; with numbers for symbols the node is gone. */
static void test_sizes(void **state)
{
    (void)state;
    sp_graph *g;
    sp_axes a = axes_of(G "input x: f32[2,b,3]\nnode y: ? = Shape(x) {start=-2}" END, &g);
    assert_int_equal(a.how, SP_FLOW_SIZES);
    assert_int_equal(a.first, 1);
    for (int i = 0; i < 3; i++) assert_null(a.label[a.in[0].axis[i].label[0]].why);
    sp_graph_free(g);
    a = axes_of(G "input x: f32[2,b]\nnode y: ? = Size(x)" END, &g);
    assert_int_equal(a.how, SP_FLOW_SIZES);
    for (int i = 0; i < 2; i++) assert_non_null(a.label[a.in[0].axis[i].label[0]].why);
    sp_graph_free(g);
}

/* What is made of one value may be smaller; with numbers for symbols the node is gone. */
static void test_made(void **state)
{
    (void)state;
    sp_graph *g;
    sp_axes a = axes_of(G "input x: f32[b,3]\nnode s: ? = Shape(x)\nnode y: ? = ConstantOfShape(s)" END, &g);
    assert_int_equal(a.how, SP_FLOW_MOVE);
    assert_int_equal(a.in[0].role, SP_SIDE);
    for (int i = 0; i < 2; i++) assert_true(a.label[a.out[0].axis[i].label[0]].made);
    sp_graph_free(g);
}

/* The labels of a Reshape are the largest blocks that stay whole. */
static void test_reshape(void **state)
{
    (void)state;
    sp_graph *g;
    sp_axes a =
        axes_of(G "input x: f32[12,64]\nconst n: i64[2] = [24,32]\nnode y: ? = Reshape(x, n)" END, &g);
    static const int64_t sizes[] = {12, 2, 32};
    assert_int_equal(a.labels, 3);
    for (int l = 0; l < 3; l++) assert_int_equal(a.label[l].size, sizes[l]);
    assert_int_equal(a.in[0].axis[1].n, 2);
    assert_int_equal(a.in[0].axis[1].label[0], 1);
    assert_int_equal(a.out[0].axis[0].n, 2);
    assert_int_equal(a.out[0].axis[0].label[1], 1);
    sp_graph_free(g);
    a = axes_of(G "input x: f32[3,5]\nconst n: i64[2] = [5,3]\nnode y: ? = Reshape(x, n)" END, &g);
    assert_true(a.no_values);
    for (int l = 0; l < a.labels; l++)
        assert_string_equal(a.label[l].why, "it cuts these axes across, not between whole blocks");
    sp_graph_free(g);
}

/* A description fails cleanly when there is no memory. */
static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_graph *g = graph_of(cases[i].text, false);
        sparta_status status = SPARTA_E_MEMORY;
        for (uint64_t n = 1; status == SPARTA_E_MEMORY && n < 1000; n++) {
            sp_axes a;
            sp_ctx_fail_alloc(cx, n, true);
            sp_arena *arena = sp_arena_create(cx);
            if (arena) status = sp_axes_of(g, g->output[0]->producer, arena, &a);
            sp_ctx_fail_alloc(cx, 0, false);
            sp_arena_free(arena);
        }
        if (status != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), cases[i].text);
        sp_graph_free(g);
    }
}

/* Every operator with a rule that says something has a case. */
static void test_all(void **state)
{
    (void)state;
    bool seen[SP_OPS] = {[SP_OP_Shape] = true, [SP_OP_Size] = true, [SP_OP_ConstantOfShape] = true};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_graph *g = graph_of(cases[i].text, false);
        seen[g->output[0]->producer->op] = true;
        sp_graph_free(g);
    }
    for (int op = 0; op < SP_OPS; op++) {
        const sp_rule *f = sp_rule_of((sp_op_id)op);
        const char *name = sp_builtin_row((sp_op_id)op)->name;
        if (f->exact != SP_OPAQUE && !seen[op])
            fail_msg("%s has no case: give it one in ops_flow_cases.h", name);
        if ((f->exact == SP_OPAQUE) != !f->axes) fail_msg("%s is opaque and has a rule, or neither", name);
        if (!f->says || !*f->says || !f->types || !f->refuses) fail_msg("%s lacks words", name);
    }
}

static void test_counts(void **state)
{
    (void)state;
    int count[3] = {0};
    for (int op = 0; op < SP_OPS; op++) count[sp_rule_of((sp_op_id)op)->exact]++;
    printf("note: propagation rules: %d exact, %d conservative, %d opaque\n", count[SP_EXACT],
           count[SP_CONSERVATIVE], count[SP_OPAQUE]);
    assert_true(count[SP_EXACT] >= 97);
    assert_true(count[SP_OPAQUE] <= 5); /* Route, which a pass makes, is never propagated through */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_made),         cmocka_unit_test(test_reshape),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_random_reshape),
        cmocka_unit_test(test_random_slice), cmocka_unit_test(test_random_gather),
        cmocka_unit_test(test_all),          cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
