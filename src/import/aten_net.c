/* aten_net.c: builders of layers: attention, normalisations, convolutions, pools, embeddings; and of graphs in graphs. */
#include "import/aten.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ attention */

/* (.., g, T, e) -> (.., g*times, T, e), each head `times` times. */
static sp_value *repeated_heads(sp_aten *b, const sp_pt2_value *x, int64_t times)
{
    int64_t group, width;
    const int axis = x->rank - 3;
    if (x->rank != 4 || !sp_aten_known(x->meta, axis, &group) || !sp_aten_known(x->meta, 3, &width))
        return sp_aten_refuse(b, "heads of keys and values whose number or width is not fixed");
    sp_value *wide = OP(b, Tile, OP(b, Unsqueeze, x->v, sp_aten_numbers(b, 1, &(int64_t){2})),
                        sp_aten_numbers(b, 5, (int64_t[]){1, 1, times, 1, 1}));
    return OP(b, Reshape, wide, sp_aten_numbers(b, 4, (int64_t[]){0, group * times, -1, width}));
}

/* Keys or values as heads of the queries. */
static sp_value *heads_of(sp_aten *b, const sp_pt2_value *q, const char *name)
{
    const sp_pt2_value *x = sp_aten_tensor(b, name);
    int64_t heads, groups;
    if (!sp_aten_yes(b, "enable_gqa", false)) return x->v;
    if (q->rank < 3 || x->rank < 3 || !sp_aten_known(q->meta, q->rank - 3, &heads) ||
        !sp_aten_known(x->meta, x->rank - 3, &groups) || !groups || heads % groups)
        return sp_aten_refuse(b, "its heads of queries are no multiple of those of keys");
    return heads == groups ? x->v : repeated_heads(b, x, heads / groups);
}

/* 0 where a mask of bools is true and -inf elsewhere; a mask of numbers as it is. */
static sp_value *added_mask(sp_aten *b, const sp_pt2_value *mask)
{
    if (mask->dtype != SPARTA_BOOL) return sp_aten_cast(b, mask->v, mask->dtype, b->dtype);
    return OP(b, Where, mask->v, sp_aten_number_of(b, b->dtype, 0),
              sp_aten_number_of(b, b->dtype, -INFINITY));
}

/* True where key <= query, both counted from their first. */
static sp_value *causal(sp_aten *b, const sp_pt2_value *q, const sp_pt2_value *k)
{
    sp_value *end[2];
    for (int i = 0; i < 2; i++) {
        const sp_pt2_value *x = i ? k : q;
        sp_value *shape =
            OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", x->rank - 2), SP_INT("end", x->rank - 1)), x->v);
        sp_value *size = OP(b, Squeeze, shape, sp_aten_numbers(b, 1, &(int64_t){0}));
        end[i] = OP(b, Range, sp_aten_number_of(b, SPARTA_I64, 0), size, sp_aten_number_of(b, SPARTA_I64, 1));
    }
    sp_value *row = OP(b, Unsqueeze, end[0], sp_aten_numbers(b, 1, &(int64_t){1}));
    return OP(b, Where, OP(b, LessOrEqual, end[1], row), sp_aten_number_of(b, b->dtype, 0),
              sp_aten_number_of(b, b->dtype, -INFINITY));
}

/* A row that is masked as a whole gives zeros, as PyTorch has it: Where(IsNaN(p), 0, p). */
BUILD(attention)
{
    const sp_pt2_value *q = sp_aten_tensor(b, "query"), *key = sp_aten_tensor(b, "key"),
                       *mask = sp_aten_maybe(b, "attn_mask");
    int64_t width = 0;
    if (sp_aten_number(b, "dropout_p", 0) != 0)
        return sp_aten_refuse(b, "it drops at random, as in training; export module.eval()");
    if (q->rank < 2 || !sp_aten_known(q->meta, q->rank - 1, &width) || !width)
        return sp_aten_refuse(b, "heads whose width is not fixed");
    const double scale = sp_aten_number(b, "scale", 1 / sqrt((double)width));
    sp_value *k = heads_of(b, q, "key"), *v = heads_of(b, q, "value");
    sp_value *s = OP(b, MatMul, q->v, sp_aten_swap_last(b, k, key->rank));
    s = OP(b, Mul, s, sp_aten_number_of(b, b->dtype, scale));
    if (sp_aten_yes(b, "is_causal", false)) s = OP(b, Add, s, causal(b, q, key));
    if (mask) s = OP(b, Add, s, added_mask(b, mask));
    sp_value *p = OP_WITH(b, Softmax, SP_ATTRS(SP_INT("axis", -1)), s);
    if (mask) p = OP(b, Where, OP(b, IsNaN, p), sp_aten_number_of(b, b->dtype, 0), p);
    return OP(b, MatMul, p, v);
}

/* ------------------------------------------------------------------ normalisations */

/* A weight or bias; where there is none, `n` times `otherwise`. */
static sp_value *weight_or(sp_aten *b, const char *name, int64_t n, double otherwise)
{
    return sp_aten_arg(b, name) ? sp_aten_as(b, name) : sp_aten_filled(b, b->dtype, n, otherwise);
}

static sp_value *shape_or(sp_aten *b, const char *name, int n, const int64_t *shape, double otherwise)
{
    int64_t all = 1;
    if (sp_aten_arg(b, name)) return sp_aten_as(b, name);
    for (int i = 0; i < n; i++)
        if (shape[i] < 1 || __builtin_mul_overflow(all, shape[i], &all) || all > INT32_MAX)
            return sp_aten_refuse(b, "the shape it normalises");
    sp_value *v = sp_aten_filled(b, b->dtype, all, otherwise);
    return n == 1 ? v : OP(b, Reshape, v, sp_aten_numbers(b, n, shape));
}

BUILD(layer_norm)
{
    int64_t shape[SPARTA_RANK];
    const int n = sp_aten_ints(b, "normalized_shape", shape);
    const float eps = (float)sp_aten_number(b, "eps", 1e-5);
    return OP_WITH(b, LayerNormalization, SP_ATTRS(SP_INT("axis", -n), SP_FLOAT("epsilon", eps)),
                   sp_aten_as(b, "input"), shape_or(b, "weight", n, shape, 1),
                   shape_or(b, "bias", n, shape, 0));
}

BUILD(rms_norm)
{
    int64_t shape[SPARTA_RANK];
    const int n = sp_aten_ints(b, "normalized_shape", shape);
    const float eps = (float)sp_aten_number(b, "eps", 0x1p-23);
    return OP_WITH(b, RMSNormalization, SP_ATTRS(SP_INT("axis", -n), SP_FLOAT("epsilon", eps)),
                   sp_aten_as(b, "input"), shape_or(b, "weight", n, shape, 1));
}

/* Channels: the second dim. */
static int64_t channels(sp_aten *b)
{
    int64_t n = 0;
    const sp_pt2_value *x = sp_aten_tensor(b, "input");
    if (!sp_aten_known(x->meta, 1, &n)) sp_aten_refuse(b, "how many channels there are is not fixed");
    return n;
}

BUILD(batch_norm)
{
    const int64_t n = channels(b);
    const float eps = (float)sp_aten_number(b, "eps", 1e-5);
    if (sp_aten_yes(b, "training", false) || !sp_aten_arg(b, "running_mean"))
        return sp_aten_refuse(b, "it normalises by the batch, as in training; export module.eval()");
    return OP_WITH(b, BatchNormalization, SP_ATTRS(SP_FLOAT("epsilon", eps)), sp_aten_as(b, "input"),
                   weight_or(b, "weight", n, 1), weight_or(b, "bias", n, 0), sp_aten_as(b, "running_mean"),
                   sp_aten_as(b, "running_var"));
}

BUILD(group_norm)
{
    const int64_t n = channels(b),
                  groups = sp_aten_int(b, sp_aten_arg(b, "num_groups") ? "num_groups" : "group", 1);
    const float eps = (float)sp_aten_number(b, "eps", 1e-5);
    return OP_WITH(b, GroupNormalization, SP_ATTRS(SP_FLOAT("epsilon", eps), SP_INT("num_groups", groups)),
                   sp_aten_as(b, "input"), weight_or(b, "weight", n, 1), weight_or(b, "bias", n, 0));
}

BUILD(instance_norm)
{
    const int64_t n = channels(b);
    const float eps = (float)sp_aten_number(b, "eps", 1e-5);
    if (!sp_aten_yes(b, "use_input_stats", true)) return sp_aten_build_batch_norm(b);
    return OP_WITH(b, InstanceNormalization, SP_ATTRS(SP_FLOAT("epsilon", eps)), sp_aten_as(b, "input"),
                   weight_or(b, "weight", n, 1), weight_or(b, "bias", n, 0));
}

/* ------------------------------------------------------------------ windows */

typedef struct windows { /* over the last n dims */
    int n;
    int64_t kernel[SPARTA_RANK], stride[SPARTA_RANK], dilation[SPARTA_RANK], pad[2 * SPARTA_RANK],
        more[SPARTA_RANK];
} windows;

/* n numbers of an argument: one stands for all, none is `otherwise`. */
static void each(sp_aten *b, const char *name, int n, int64_t otherwise, int64_t *out)
{
    int64_t given[SPARTA_RANK];
    const int k = sp_aten_ints(b, name, given);
    if (k > 1 && k != n) sp_aten_refuse(b, "argument '%s' has %d numbers for %d dims", name, k, n);
    for (int i = 0; i < n; i++) out[i] = k == 0 ? otherwise : k == 1 ? given[0] : given[i];
}

/* Dims that windows go over: of a batch of images, of which there must be one. */
static bool over(sp_aten *b, const sp_pt2_value *x, windows *w)
{
    const char *digit = strpbrk(b->row->overload, "123");
    *w = (windows){.n = x->rank - 2};
    if (w->n < 1 || w->n > 3 || (digit && *digit - '0' != w->n)) {
        sp_aten_refuse(b, "an input of %d dims; batch and channels come first (of one image: x.unsqueeze(0))",
                       x->rank);
        return false;
    }
    return true;
}

/* "same": as much on both sides, one more behind where that is odd. */
static void pad_same(sp_aten *b, windows *w)
{
    for (int i = 0; i < w->n; i++) {
        const int64_t all = w->dilation[i] * (w->kernel[i] - 1);
        if (w->kernel[i] < 1 || w->kernel[i] > INT32_MAX || w->dilation[i] < 0 || w->dilation[i] > INT32_MAX)
            sp_aten_refuse(b, "its kernel");
        w->pad[i] = all / 2;
        w->pad[w->n + i] = all - all / 2;
    }
}

static void read_pads(sp_aten *b, windows *w)
{
    const json_value *arg = sp_aten_arg(b, "padding");
    if (arg && arg->kind == JSON_STRING) {
        if (!strcmp(arg->text, "same")) pad_same(b, w);
        return;
    }
    each(b, "padding", w->n, 0, w->pad);
    memcpy(w->pad + w->n, w->pad, (size_t)w->n * sizeof *w->pad);
}

static sp_value *convolved(sp_aten *b, bool turned)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "input"), *weight = sp_aten_tensor(b, "weight");
    windows w;
    if (!over(b, x, &w)) return NULL;
    for (int i = 0; i < w.n; i++)
        if (!sp_aten_known(weight->meta, 2 + i, &w.kernel[i]))
            return sp_aten_refuse(b, "a kernel whose size is not fixed");
    each(b, "stride", w.n, 1, w.stride);
    each(b, "dilation", w.n, 1, w.dilation);
    read_pads(b, &w);
    each(b, "output_padding", w.n, 0, w.more);
    const sp_attr attr[] = {SP_INTS("kernel_shape", w.n, w.kernel),
                            SP_INTS("strides", w.n, w.stride),
                            SP_INTS("pads", 2 * w.n, w.pad),
                            SP_INTS("dilations", w.n, w.dilation),
                            SP_INT("group", sp_aten_int(b, "groups", 1)),
                            SP_INTS("output_padding", w.n, w.more)};
    const sp_attrs attrs = {turned ? 6 : 5, attr};
    const bool bias = sp_aten_arg(b, "bias") != NULL;
    sp_value *in[] = {sp_aten_as(b, "input"), sp_aten_as(b, "weight"), bias ? sp_aten_as(b, "bias") : NULL};
    return sp_aten_node(b, turned ? SP_OP_ConvTranspose : SP_OP_Conv, &attrs, bias ? 3 : 2, in);
}

BUILD(conv)
{
    return convolved(b, sp_aten_yes(b, "transposed", false));
}

BUILD(conv_transpose)
{
    return convolved(b, true);
}

BUILD(pool)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const bool average = b->row->op == SP_OP_AveragePool, ceil = sp_aten_yes(b, "ceil_mode", false);
    windows w;
    if (!over(b, x, &w)) return NULL;
    each(b, "kernel_size", w.n, 1, w.kernel);
    each(b, "stride", w.n, 0, w.stride);
    for (int i = 0; i < w.n; i++)
        if (!w.stride[i]) w.stride[i] = w.kernel[i];
    each(b, "dilation", w.n, 1, w.dilation);
    read_pads(b, &w);
    if (average && (ceil || sp_aten_arg(b, "divisor_override")))
        return sp_aten_refuse(b, "averages with ceil_mode or a divisor of their own");
    const sp_attr attr[] = {SP_INTS("kernel_shape", w.n, w.kernel), SP_INTS("strides", w.n, w.stride),
                            SP_INTS("pads", 2 * w.n, w.pad), SP_INT("ceil_mode", ceil),
                            average ? SP_INT("count_include_pad", sp_aten_yes(b, "count_include_pad", true))
                                    : SP_INTS("dilations", w.n, w.dilation)};
    const sp_attrs attrs = {5, attr};
    return sp_aten_node(b, b->row->op, &attrs, 1, (sp_value *[]){x->v});
}

enum { MOST_PLACES = 1 << 20 };

/* The shares of elements in windows that may overlap, from floor(i*from/to) to ceil((i+1)*from/to), and where they are; both (to, most), shorter
 * windows repeating their last element with a share of 0. */
static bool windows_of(sp_aten *b, int64_t from, int64_t to, int64_t most, int64_t *at, sparta_tensor *share)
{
    if (b->status == SPARTA_OK && !at) b->status = sp_ctx_status(b->p->cx);
    if (b->status == SPARTA_OK)
        b->status = sp_tensor_alloc_in(b->p->keep, b->dtype, 2, (int64_t[]){to, most}, share);
    if (b->status != SPARTA_OK) return false;
    for (int64_t i = 0; i < to * most; i++) {
        const int64_t begin = i / most * from / to, end = ((i / most + 1) * from + to - 1) / to;
        at[i] = SP_MIN(begin + i % most, end - 1);
        sp_element_set(b->dtype, share->data, i, begin + i % most < end ? 1.0 / (double)(end - begin) : 0);
    }
    return true;
}

/* One axis of v, of `rank` dims, from so many into so many. */
static sp_value *uneven(sp_aten *b, sp_value *v, int rank, int axis, const int64_t size[2])
{
    const int64_t from = size[0], to = size[1];
    if (from < 1 || to < 1 || from > MOST_PLACES || to > MOST_PLACES)
        return sp_aten_refuse(b, "of no size, or into more windows than a million");
    const int64_t most = (from + to - 1) / to + 1; /* of a window */
    int64_t *at = sp_arena_array(b->p->keep, (size_t)(to * most), sizeof *at), behind[SPARTA_RANK];
    sparta_tensor share;
    if (!windows_of(b, from, to, most, at, &share)) return NULL;
    const int n = rank - 1 - axis;
    sp_value *by = NULL, *one = sp_aten_numbers(b, 1, &(int64_t){axis + 1}),
             *places = OP(b, Reshape, sp_aten_numbers(b, (int)(to * most), at),
                          sp_aten_numbers(b, 2, (int64_t[]){to, most})),
             *window = OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", axis)), v, places); /* (.., to, most, ..) */
    if (b->row->op != SP_OP_AveragePool)
        return OP_WITH(b, ReduceMax, SP_ATTRS(SP_INT("keepdims", 0)), window, one);
    if (b->status == SPARTA_OK) b->status = sp_graph_add_constant(b->p->g, NULL, &share, true, &by);
    for (int i = 0; i < n; i++) behind[i] = 2 + i;
    if (n && b->status == SPARTA_OK) by = OP(b, Unsqueeze, by, sp_aten_numbers(b, n, behind));
    /* What fills a short window up may be infinite, and counts for nothing. */
    sp_value *none = sp_aten_number_of(b, b->dtype, 0),
             *shared = OP(b, Where, OP(b, Equal, by, none), none, OP(b, Mul, window, by));
    return OP_WITH(b, ReduceSum, SP_ATTRS(SP_INT("keepdims", 0)), shared, one);
}

/* Into one: a global pool. Into more: windows side by side, where they divide the size; else axis by axis. */
BUILD(adaptive_pool)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "self");
    const bool average = b->row->op == SP_OP_AveragePool;
    int64_t to[SPARTA_RANK], size;
    bool one = true;
    windows w;
    if (!over(b, x, &w)) return NULL;
    each(b, "output_size", w.n, 1, to);
    for (int i = 0; i < w.n; i++) one &= to[i] == 1;
    if (one)
        return sp_aten_node(b, average ? SP_OP_GlobalAveragePool : SP_OP_GlobalMaxPool, NULL, 1,
                            (sp_value *[]){x->v});
    bool even = true;
    const int first = x->rank - w.n;
    int64_t sizes[SPARTA_RANK][2];
    for (int i = 0; i < w.n; i++) {
        if (!sp_aten_known(x->meta, first + i, &size) || to[i] < 1)
            return sp_aten_refuse(b, "of a size that is not fixed, into more than one");
        even &= size % to[i] == 0;
        w.kernel[i] = size / to[i];
        sizes[i][0] = size, sizes[i][1] = to[i];
    }
    if (even)
        return sp_aten_node(
            b, b->row->op,
            SP_ATTRS(SP_INTS("kernel_shape", w.n, w.kernel), SP_INTS("strides", w.n, w.kernel)), 1,
            (sp_value *[]){x->v});
    sp_value *v = x->v;
    for (int i = 0; i < w.n; i++)
        if (sizes[i][0] != sizes[i][1]) v = uneven(b, v, x->rank, first + i, sizes[i]);
    return v;
}

/* ------------------------------------------------------------------ images */

BUILD(upsample)
{
    const sp_pt2_value *x = sp_aten_tensor(b, "input");
    const bool linear = strstr(b->row->overload, "bilinear") != NULL;
    const char *places = !linear                                  ? "asymmetric"
                         : sp_aten_yes(b, "align_corners", false) ? "align_corners"
                                                                  : "half_pixel";
    const sp_attrs *attrs =
        SP_ATTRS(SP_STRING("mode", linear ? "linear" : "nearest"),
                 SP_STRING("coordinate_transformation_mode", places), SP_STRING("nearest_mode", "floor"));
    const json_value *scales = sp_aten_arg(b, "scale_factors");
    sp_value *in[4] = {x->v}, *out;
    if (scales) {
        float by[4] = {1, 1};
        double scale;
        int n = 2;
        for (const json_value *v = sp_json_first(scales); v; v = v->next)
            if (n == 4 || !sp_json_double(v, &scale))
                return sp_aten_refuse(b, "its scale_factors");
            else
                by[n++] = (float)scale;
        const int64_t dim = 4;
        const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 1, &dim, by);
        if (b->status == SPARTA_OK) b->status = sp_graph_add_constant(b->p->g, NULL, &t, true, &in[2]);
    } else {
        sp_value *first = OP_WITH(b, Shape, SP_ATTRS(SP_INT("start", 0), SP_INT("end", 2)), x->v);
        in[3] = OP_WITH(b, Concat, SP_ATTRS(SP_INT("axis", 0)), first, sp_aten_sizes(b, "output_size"));
    }
    return x->v && sp_aten_nodes(b, SP_OP_Resize, attrs, scales ? 3 : 4, in, 1, &out) ? out : NULL;
}

BUILD(pixel_shuffle)
{
    const int64_t by = sp_aten_int(b, "upscale_factor", 1);
    return OP_WITH(b, DepthToSpace, SP_ATTRS(SP_INT("blocksize", by), SP_STRING("mode", "CRD")),
                   sp_aten_tensor(b, "self")->v);
}

BUILD(embedding)
{
    return OP_WITH(b, Gather, SP_ATTRS(SP_INT("axis", 0)), sp_aten_tensor(b, "weight")->v,
                   sp_aten_tensor(b, "indices")->v);
}

/* ------------------------------------------------------------------ graphs in graphs */

/* A part of the module that ran under torch.no_grad, which changes nothing about what it computes. */
BUILD(inlined)
{
    const json_value *graph = NULL;
    for (const json_value *a = sp_json_first(sp_json_get(b->node, "inputs")); a && !graph; a = a->next)
        graph = sp_json_get(sp_json_get(sp_json_get(a, "arg"), "as_graph"), "graph");
    if (!graph) return sp_aten_refuse(b, "it has no graph");
    b->bound = true;
    b->status = sp_pt2_graph_in(b->p, graph, b->node, b->n_names, b->out_name);
    return NULL;
}
