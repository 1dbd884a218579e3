/* What the experiments of ops_flow_test.c stand on: one node in a graph as it is written, the same with numbers for symbols, its
 * tensors, and where an element is in the labels of its rule. */
#ifndef SP_TESTS_OPS_FLOW_BENCH_H
#define SP_TESTS_OPS_FLOW_BENCH_H

#include "bed.h"
#include <math.h>
#include "ops/flow.h"

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* ------------------------------------------------------------------ one case */
typedef struct bench {
    const char *text;
    sp_graph *g, *bound; /* as written; with numbers for symbols */
    sp_node *n, *run;    /* the node that makes y, in both */
    sp_axes a;
    int64_t size[SP_LABELS];     /* of labels, with the symbols bound */
    sparta_tensor in[8], out[8]; /* of run */
    int limit;                   /* integers that are inputs are in [0, limit) */
} bench;

static const sp_bindings bindings = {3, (const char *const[]){"b", "s", "t"}, (const int64_t[]){2, 6, 3}};

static sp_graph *graph_of(const char *text, bool bind)
{
    sp_graph *g = NULL;
    sparta_status status = sp_graph_parse(cx, text, NULL, NULL, &g);
    for (int i = 0; bind && status == SPARTA_OK && i < bindings.n; i++) {
        sp_bindings one = {1, &bindings.name[i], &bindings.value[i]};
        if (sp_ops_bind(g, &one) != SPARTA_OK) sp_ctx_clear(cx); /* not every graph has every symbol */
    }
    if (status == SPARTA_OK) status = sp_ops_infer(g);
    if (status != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    return g;
}

static sp_value *operand(const bench *b, int o)
{
    return o < b->n->n_in ? b->n->in[o] : b->n->out[o - b->n->n_in];
}

static const sparta_tensor *tensor(const bench *b, int o)
{
    return o < b->n->n_in ? &b->in[o] : &b->out[o - b->n->n_in];
}

static void random_fill(const bench *b, const sparta_tensor *t)
{
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++) {
        if (sp_dtype_is_float(t->dtype))
            sp_element_set(t->dtype, t->data, i, 0.5 + (double)draw(1 << 20) / (1 << 20));
        else
            sp_element_set_int(t->dtype, t->data, i,
                               (int64_t)draw(t->dtype == SPARTA_BOOL ? 2 : (uint64_t)b->limit));
    }
}

static sparta_tensor room_for(const sp_value *v)
{
    int64_t dim[SPARTA_RANK];
    sparta_tensor t;
    assert_true(sp_dims_const(&v->dims, dim));
    assert_int_equal(sp_tensor_alloc(cx, v->dtype, v->dims.rank, dim, &t), SPARTA_OK);
    return t;
}

static void run(const bench *b)
{
    sp_op_args args = {&b->run->attrs, b->run->n_in, b->run->n_out, b->in, b->out};
    if (sp_builtin_row(b->run->op)->fn(cx, &args) != SPARTA_OK)
        fail_msg("%s\n%s", sparta_message(cx), b->text);
}

/* Sizes of labels that are symbols: what the dims leave for them. */
static void bind_sizes(bench *b)
{
    for (int l = 0; l < b->a.labels; l++) b->size[l] = b->a.label[l].size;
    for (int again = 0; again < SP_LABELS; again++)
        for (int o = 0; o < b->n->n_in + b->n->n_out; o++)
            for (int i = 0; operand(b, o) && b->a.in[o].role != SP_SIDE && i < tensor(b, o)->rank; i++) {
                const sp_axis *x = &b->a.in[o].axis[i];
                int64_t known = 1;
                int open = -1, opens = 0;
                for (int j = 0; j < x->n; j++) {
                    if (b->size[x->label[j]] < 0)
                        open = x->label[j], opens++;
                    else
                        known *= b->size[x->label[j]];
                }
                if (opens == 1 && !x->window && known) b->size[open] = tensor(b, o)->dim[i] / known;
            }
}

static bench open_bench(const char *text, int limit)
{
    bench b = {.text = text, .g = graph_of(text, false), .bound = graph_of(text, true), .limit = limit};
    b.n = b.g->output[0]->producer;
    b.run = b.bound->output[0]->producer;
    assert_true(b.n && b.run && b.n->op == b.run->op && b.n->n_in == b.run->n_in);
    if (sp_axes_of(b.g, b.n, b.g->arena, &b.a) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    for (int i = 0; i < b.n->n_in; i++) {
        b.in[i] = (sparta_tensor){.rank = -1};
        if (!b.run->in[i]) continue;
        b.in[i] = b.run->in[i]->constant ? *b.run->in[i]->constant : room_for(b.run->in[i]);
        if (!b.run->in[i]->constant) random_fill(&b, &b.in[i]);
    }
    for (int i = 0; i < b.n->n_out; i++) b.out[i] = room_for(b.run->out[i]);
    bind_sizes(&b);
    run(&b);
    return b;
}

static void close_bench(bench *b)
{
    for (int i = 0; i < b->n->n_out; i++) sp_free(cx, b->out[i].data);
    for (int i = 0; i < b->run->n_in; i++)
        if (b->run->in[i] && !b->run->in[i]->constant) sp_free(cx, b->in[i].data);
    sp_graph_free(b->g);
    sp_graph_free(b->bound);
}

/* ------------------------------------------------------------------ labels of an element */
/* at[l] is the index of label l at this element of operand o, -1 where it has none. false: the element is outside of a window's label. */
static bool place(const bench *b, int o, int64_t element, int64_t *at)
{
    const sparta_tensor *t = tensor(b, o);
    bool inside = true;
    for (int l = 0; l < SP_LABELS; l++) at[l] = -1;
    for (int i = t->rank - 1; i >= 0; i--) {
        const sp_axis *x = &b->a.in[o].axis[i];
        int64_t rest = element % t->dim[i];
        element /= t->dim[i];
        if (x->n == 0) assert_int_equal(t->dim[i], 1);
        if (x->window) rest = sp_axis_at(x, rest);
        for (int j = x->n - 1; j >= 0; j--) {
            int l = x->label[j];
            at[l] = j ? rest % b->size[l] : rest;
            rest /= j ? b->size[l] : 1;
            if (at[l] < 0 || (at[l] >= b->size[l] && b->a.label[l].size >= 0)) {
                assert_true(x->window); /* only a window may be elsewhere */
                inside = false;
            }
        }
    }
    return inside;
}

#endif
