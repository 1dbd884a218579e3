/* A bed for kernels: one node with its inputs in rows and the reference's answer, and the same node through a panel kernel.
 *
 * Wherever no element lies (lanes past the last token, rows past the last feature, gaps between panels, the scratch) the bed puts a
 * NaN of its own. A kernel that reads one into an answer is found by the comparison, one that writes where it must not is found
 * because the NaN is gone. Needs room panel and what is left of it.
 */
#ifndef SP_PANEL_BED_H
#define SP_PANEL_BED_H

#include "bed.h"
#include <math.h>
#include "panel/panel.h"
#include "store/store.h"
#include "normal.h"
#include "today.h"

/* Of random cases a day does a quarter, other ones each day, and a sanitizer, which makes everything slow, a tenth. */
#ifdef __SANITIZE_ADDRESS__
#define FEWER 10
#else
#define FEWER (test_all() ? 1 : 4)
#endif
#define GUARD 0x7fc0dea1u /* a quiet NaN that nobody computes */
#define DIMS(...)                                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                                   \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static sp_rng rng;

static inline int64_t below(int64_t n)
{
    return (int64_t)(sp_rng_next(&rng) % (uint64_t)n);
}
#define ONE_OF(array) (array)[below((int64_t)SP_COUNT(array))]

typedef struct bed {
    sp_arena *arena; /* everything of this case */
    sp_graph *graph;
    const sp_node *node;
    int n_in;
    sparta_tensor in[SP_OPERANDS]; /* in rows; rank -1: absent */
    bool constant[SP_OPERANDS];
    sparta_tensor out; /* the reference's answer */
    char what[256];    /* for messages */
} bed;

/* ------------------------------------------------------------------ a node and its inputs */

static inline bed *bed_make(void)
{
    sp_arena *arena = sp_arena_create(cx);
    assert_non_null(arena);
    bed *b = sp_arena_alloc(arena, sizeof *b);
    assert_non_null(b);
    b->arena = arena;
    return b;
}

static inline void bed_free(bed *b)
{
    for (int i = 0; i < b->n_in; i++) sp_free(cx, b->in[i].data);
    sp_graph_free(b->graph);
    sp_arena_free(b->arena);
}

/* The next input, in rows: normal numbers when it is f32, else zeros. */
static inline sparta_tensor *bed_input(bed *b, bool constant, sparta_dtype dtype, int rank,
                                       const int64_t *dim)
{
    sparta_tensor *t = &b->in[b->n_in];
    b->constant[b->n_in++] = constant;
    ok(sp_tensor_alloc(cx, dtype, rank, dim, t)); /* a block of its own: a sanitizer sees its end */
    for (int64_t i = 0; dtype == SPARTA_F32 && i < sparta_tensor_elements(t); i++)
        ((float *)t->data)[i] = (float)normal(&rng);
    return t;
}

static inline void bed_absent(bed *b)
{
    b->in[b->n_in++] = (sparta_tensor){.rank = -1};
}

static inline sparta_status bed_fetch(void *arg, const char *name, sparta_tensor *out)
{
    out->data = ((bed *)arg)->in[atoi(name + 1)].data;
    return SPARTA_OK;
}

static inline void put_dims(sp_text *t, const sparta_tensor *x)
{
    sp_text_printf(t, "%s[", sparta_dtype_name(x->dtype));
    for (int d = 0; d < x->rank; d++) sp_text_printf(t, "%s%ld", d ? "," : "", (long)x->dim[d]);
    sp_text_printf(t, "]");
}

/* The node itself: `op` as texts of graphs write it, `attrs` without its braces. Its output has these dims and is f32. */
static inline void bed_node(bed *b, const char *op, const char *attrs, int rank, const int64_t *dim)
{
    sp_text t;
    ok(sp_tensor_alloc_in(b->arena, SPARTA_F32, rank, dim, &b->out));
    sp_text_init(&t, cx);
    sp_text_printf(&t, "graph \"bed\"\n");
    for (int i = 0; i < b->n_in; i++) {
        if (b->in[i].rank < 0) continue;
        sp_text_printf(&t, "%s i%d: ", b->constant[i] ? "const" : "input", i);
        put_dims(&t, &b->in[i]);
        sp_text_printf(&t, b->constant[i] ? " @\"i%d\"\n" : "\n", i);
    }
    sp_text_printf(&t, "node y: ");
    put_dims(&t, &b->out);
    sp_text_printf(&t, " = %s(", op);
    for (int i = 0; i < b->n_in; i++) {
        sp_text_printf(&t, b->in[i].rank < 0 ? "%s_" : "%si%d", i ? ", " : "", i);
    }
    sp_text_printf(&t, ")%s%s%s \"bed\"\noutput y\n", *attrs ? " {" : "", attrs, *attrs ? "}" : "");
    ok(t.status);
    snprintf(b->what, sizeof b->what, "%.255s", strstr(sp_text_str(&t), "node y"));
    if (sp_graph_parse(cx, sp_text_str(&t), bed_fetch, b, &b->graph))
        fail_msg("%s in\n%s", sparta_message(cx), sp_text_str(&t));
    sp_text_free(&t);
    b->node = b->graph->node[0];
}

static inline void reference(const bed *b)
{
    const sp_op_args args = {&b->node->attrs, b->n_in, 1, b->in, &b->out};
    ok(sp_builtin_row(b->node->op)->fn(cx, &args));
}

/* ------------------------------------------------------------------ panels full of guards */

typedef struct lain { /* a value in panels, as a view of rows in the middle of larger ones */
    float *base;
    int64_t row0, rows, panels, gap; /* rows: rounded up to 4 */
    int parts;                       /* rooms for statistics at the end of each panel */
} lain;

static inline lain lay(bed *b, const sparta_tensor *t, int parts)
{
    lain l = {.row0 = 4 * below(3), .rows = sp_lane_rows(SPARTA_F32, sp_panel_features(t)), .parts = parts};
    l.panels = sp_panels(sp_panel_tokens(t));
    l.gap = (l.row0 + l.rows + below(3) + 2 * parts) * SP_PANEL;
    l.base = sp_arena_array(b->arena, (size_t)(l.gap * l.panels) + 16, sizeof(float));
    assert_non_null(l.base);
    for (int64_t i = 0; i < l.gap * l.panels; i++) ((uint32_t *)(void *)l.base)[i] = GUARD;
    return l;
}

static inline float *lain_at(const lain *l, int64_t token, int64_t feature)
{
    return l->base + token / SP_PANEL * l->gap + (l->row0 + feature) * SP_PANEL + token % SP_PANEL;
}

static inline void move_rows(const lain *l, const sparta_tensor *t, float *rows, bool in)
{
    const int64_t features = sp_panel_features(t), tokens = sp_panel_tokens(t);
    for (int64_t i = 0; i < tokens; i++)
        for (int64_t f = 0; f < features; f++) {
            if (in)
                *lain_at(l, i, f) = rows[i * features + f];
            else
                rows[i * features + f] = *lain_at(l, i, f);
        }
}

static inline sp_operand lain_operand(const lain *l, const sparta_tensor *t)
{
    sp_operand o = {.layout = SP_LAYOUT_PANEL,
                    .tensor = *t,
                    .at = l->base + l->row0 * SP_PANEL,
                    .lanes = {l->panels, l->gap / SP_PANEL, l->gap, SP_PANEL}};
    o.tensor.data = NULL;
    o.stat = l->base + l->gap - l->parts * 2 * SP_PANEL;
    return o;
}

/* A kernel may write the rows of its output for the vectors it does, and its statistics. */
static inline void check_guards(const bed *b, const lain *l, int64_t tokens, bool stat)
{
    for (int64_t i = 0; i < l->gap * l->panels; i++) {
        const int64_t lane = i % SP_PANEL, row = i % l->gap / SP_PANEL - l->row0, panel = i / l->gap;
        const int64_t lanes = SP_MIN(SP_PANEL, (tokens - panel * SP_PANEL + 15) / 16 * 16);
        if (row >= 0 && row < l->rows && lane < lanes) continue;
        if (stat && i % l->gap >= l->gap - l->parts * 2 * SP_PANEL) continue;
        if (((uint32_t *)(void *)l->base)[i] != GUARD)
            fail_msg("%s: panel %ld row %ld lane %ld was written", b->what, (long)panel, (long)row,
                     (long)lane);
    }
}

/* ------------------------------------------------------------------ one kernel on the bed */

typedef struct how { /* the way to run it */
    const char *kernel;
    sp_entry entry; /* NULL: the portable one */
    const sp_packed *packed;
    const char *function; /* called: its name */
    int parts;
    bool stat;
    const lain *x, *y; /* panels to use instead of fresh ones for input 0 and the output; may be NULL */
} how;

static inline bool in_panels(const char *kernel, int i)
{
    if (!strcmp(kernel, "linear") || !strcmp(kernel, "walk") || !strcmp(kernel, "pairs") ||
        !strcmp(kernel, "library") || !strcmp(kernel, "stored") || !strcmp(kernel, "called"))
        return i == 0 || i == 3;
    if (!strcmp(kernel, "attention")) return i < 3;
    if (!strcmp(kernel, "norm") || !strcmp(kernel, "rms")) return i == 0;
    if (!strcmp(kernel, "rotary")) return true;
    return !strcmp(kernel, "map") || !strcmp(kernel, "to_rows") || !strcmp(kernel, "interact");
}

static inline void make_operands(bed *b, sp_job *job)
{
    job->in = sp_arena_array(b->arena, (size_t)job->n_in + (size_t)job->n_out, sizeof *job->in);
    assert_non_null(job->in);
    job->out = job->in + job->n_in;
    for (int i = 0; i < job->n_in; i++) job->in[i].layout = SP_LAYOUT_ABSENT;
}

static inline void bind_inputs(bed *b, const how *h, sp_job *job)
{
    make_operands(b, job);
    for (int i = 0; i < job->n_in; i++) {
        sp_operand *o = &job->in[i];
        if (b->in[i].rank < 0) continue;
        if (in_panels(h->kernel, i) && !b->constant[i]) {
            const lain l = i == 0 && h->x ? *h->x : lay(b, &b->in[i], 0);
            if (!(i == 0 && h->x)) move_rows(&l, &b->in[i], b->in[i].data, true);
            *o = lain_operand(&l, &b->in[i]);
        } else {
            *o = (sp_operand){.layout = SP_LAYOUT_ROWS, .tensor = b->in[i]};
            if (i == 1 && h->packed) o->layout = SP_LAYOUT_PACKED, o->packed = h->packed;
        }
    }
}

/* Operands, tokens, prepare and check: as room run does it. */
static inline void bind(bed *b, const how *h, const lain *y, sp_job *job)
{
    const sp_panel_kernel *kernel = sp_panel_find(h->kernel);
    *job = (sp_job){.node = b->node, .n_in = b->n_in, .n_out = 1, .stat = h->stat, .text = h->function};
    bind_inputs(b, h, job);
    job->out[0] = y ? lain_operand(y, &b->out) : (sp_operand){.layout = SP_LAYOUT_ROWS, .tensor = b->out};
    job->tokens = sp_panel_tokens(&b->out);
    job->panels = sp_panels(job->tokens);
    ok(sp_panel_prepare(cx, b->arena, kernel, job));
    ok(kernel->check(cx, job));
    if (kernel->ready) ok(kernel->ready(cx, job));
}

static inline void run_places(bed *b, const how *h, const sp_job *job)
{
    const sp_panel_kernel *kernel = sp_panel_find(h->kernel);
    const size_t floats = (kernel->work ? kernel->work(job) : 0) / sizeof(float);
    uint32_t *work = sp_alloc(cx, (floats + 16) * sizeof(float));
    assert_non_null(work);
    for (int64_t p = 0; p < job->panels; p++)
        for (int part = 0; part < h->parts; part++) {
            const sp_place at = {.panel = p, .part = part, .parts = h->parts, .work = (float *)(void *)work};
            sp_panel_args args;
            memset(&args, 0xa5, sizeof args); /* what fill leaves out shows */
            for (size_t i = 0; i < floats + 16; i++) work[i] = GUARD;
            if (kernel->fill(job, &at, &args)) (h->entry ? h->entry : kernel->portable)(&args);
            for (size_t i = floats; i < floats + 16; i++)
                if (work[i] != GUARD) fail_msg("%s: wrote past its scratch", b->what);
        }
    sp_free(cx, work);
}

/* Run it; the answer in rows, in the bed's arena. */
static inline float *run_kernel(bed *b, const how *h)
{
    sp_job job;
    const size_t elements = (size_t)sparta_tensor_elements(&b->out),
                 past = 16 * (size_t)sp_panel_features(&b->out);
    float *rows = sp_arena_array(b->arena, elements + past, sizeof(float));
    assert_non_null(rows);
    const bool to_rows =
        !(sp_panel_find(h->kernel)->slots.out.layouts & SP_IN_LANES); /* there and nowhere else */
    lain y = {0};
    if (!to_rows) y = h->y ? *h->y : lay(b, &b->out, h->parts);
    bind(b, h, to_rows ? NULL : &y, &job);
    if (to_rows) job.out[0].tensor.data = rows;
    run_places(b, h, &job);
    for (size_t i = elements; i < elements + past; i++)
        if (rows[i] != 0) fail_msg("%s: rows past the last token were written", b->what);
    if (to_rows) return rows;
    check_guards(b, &y, job.tokens, h->stat);
    move_rows(&y, &b->out, rows, false);
    return rows;
}

/* ------------------------------------------------------------------ comparing */

static inline void same_bits(const bed *b, const float *one, const float *two, const char *who)
{
    const int64_t n = sparta_tensor_elements(&b->out);
    for (int64_t i = 0; i < n; i++) {
        uint32_t x, y;
        memcpy(&x, &one[i], 4);
        memcpy(&y, &two[i], 4);
        if (x != y && !(isnan(one[i]) && isnan(two[i])))
            fail_msg("%s: %s: element %ld is %.9g and %.9g", b->what, who, (long)i, (double)one[i],
                     (double)two[i]);
    }
}

/* |y - reference| <= relative * size[i] + absolute, and NaN exactly where the reference has it. size NULL: the largest of the reference */
static inline void close_enough(const bed *b, const float *y, const float *size, double relative,
                                double absolute, const char *who)
{
    const float *r = b->out.data;
    const int64_t n = sparta_tensor_elements(&b->out);
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(r[i])) most = fmax(most, fabs(r[i]));
    for (int64_t i = 0; i < n; i++) {
        if (r[i] == y[i] || (isnan(r[i]) && isnan(y[i]))) continue;
        if (!(fabs((double)y[i] - r[i]) <= relative * (size ? size[i] : most) + absolute))
            fail_msg("%s: %s: element %ld is %.9g, the reference %.9g", b->what, who, (long)i, (double)y[i],
                     (double)r[i]);
    }
}

/* ------------------------------------------------------------------ the program */

static inline int context_begin(void **state)
{
    (void)state;
    cx = context("", NULL); /* the user's own cache is none of a test's business */
    rng = sp_rng_seed(20240607);
    return 0;
}

#endif
