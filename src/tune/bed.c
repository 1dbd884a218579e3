/* The bed: operands, the answer, contenders in place, and their times. */
#include "tune/bed.h"
#include "builtin/quick.h"
#include "tune/fence.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SAMPLES = SP_FEW_TOKENS,
    WINDOWS = 100000,
    PIECES = 128,
    PIECE = 4 << 20,
    TURNS = 16,
    MIXED = 4,
    COMPARED = 1 << 20
};

typedef struct operand {
    const char *name;   /* "input 2", "the result" */
    sparta_tensor rows; /* rank -1: absent */
    sparta_tensor some; /* of the tokens that are compared; all of it where all are */
    struct {
        void *at; /* NULL: nobody asked yet */
        sp_lanes lanes;
        size_t bytes;
    } lain[SP_LAYOUTS]; /* the same in other layouts */
} operand;

struct sp_bed {
    sparta_ctx *cx;
    sp_arena *arena;
    sp_bed_request r;
    const sp_node *node;
    int threads;
    sp_fence *fence; /* around all that contenders are given */
    int samples;     /* tokens that the reference computes; 0: all */
    int64_t sample[SAMPLES];
    bool mixed; /* the other tokens are these again */
    operand in[SP_OPERANDS], out;
    float *turns; /* input 0 with other elements absent, TURNS times; NULL: it is always the same */
    int64_t turn;
    sparta_tensor answer, got;
    double slack, builtin_seconds;
    sp_units units; /* what one unit of the operands does (ops/close.h); mark.data NULL: nobody asked yet */
    sp_quiet quiet;
};

/* ------------------------------------------------------------------ operands */

/* Can tokens be others again? Where elements are absent or rows are looked up, the time is that of different ones. */
static bool can_mix(const sp_bed *b)
{
    bool can = b->r.tokens > SAMPLES && !(b->r.task->present > 0);
    for (int i = 0; i < b->node->n_in; i++) {
        const sp_value *v = b->node->in[i];
        if (v && !v->constant) can &= sp_dtype_is_float(v->dtype);
    }
    return can;
}

/* The reference computes few tokens, which are all compared. Many are four, again and again, each group of four in another order: all of
 * them are compared with what is known of four. Where they cannot be, the first, the last and two in between are. */
static void choose_samples(sp_bed *b)
{
    const int64_t tokens = b->r.tokens, spread[MIXED] = {0, tokens / 6, tokens / 3, tokens - 1};
    b->mixed = can_mix(b);
    b->samples = tokens > SAMPLES ? MIXED : (int)tokens;
    for (int s = 0; s < b->samples; s++) b->sample[s] = tokens > SAMPLES && !b->mixed ? spread[s] : s;
}

/* Where sample s stands in a group. One that the last group has no place for is in the first. */
static int64_t token_of(const sp_bed *b, int64_t group, int s)
{
    if (!b->mixed) return b->sample[s];
    const uint64_t turned = group ? (uint64_t)group * 0x9e3779b97f4a7c15 >> 62 : 0;
    const int64_t t = group * MIXED + (int64_t)(((uint64_t)s + turned) % MIXED);
    return t < b->r.tokens ? t : s;
}

static int64_t groups_of(const sp_bed *b)
{
    return b->mixed ? (b->r.tokens + MIXED - 1) / MIXED : 1;
}

sparta_status sp_bed_shape(sparta_ctx *cx, const sp_bed_request *r, const sp_value *v, int *rank,
                           int64_t *dim)
{
    *rank = v->dims.rank;
    if (v->constant || !r->tokens) return sp_dims_eval(cx, &v->dims, r->sizes, dim);
    *rank = 2;
    dim[0] = r->tokens;
    if (v->dims.rank >= 2 && sp_expr_is_const(v->dims.dim[v->dims.rank - 1], &dim[1])) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_INTERNAL, "'%s' has no tokens", v->name);
}

/* Floats in (-1, 1); integers are ids of rows of the operand before them. */
static void fill(const sparta_tensor *t, int64_t below, sp_rng *rng)
{
    const int64_t n = sparta_tensor_elements(t);
    const bool real = sp_dtype_is_float(t->dtype);
    for (int64_t i = 0; i < n; i++)
        if (t->dtype == SPARTA_F32)
            ((float *)t->data)[i] = (float)(int32_t)(sp_rng_next(rng) >> 40) * 0x1p-23f - 1;
        else if (real)
            sp_element_set(t->dtype, t->data, i, sp_rng_uniform(rng) * 2 - 1);
        else
            sp_element_set_int(t->dtype, t->data, i,
                               (int64_t)(sp_rng_next(rng) % (uint64_t)SP_MAX(below, 1)));
}

/* Blocks of keys as Route lists them: so many that ascend, others in each line. */
static void fill_list(const sparta_tensor *t, int64_t keys, int64_t block, sp_rng *rng)
{
    const int64_t room = t->dim[3], n = sparta_tensor_elements(t),
                  blocks = keys / block + (keys % block != 0);
    int32_t *list = t->data;
    for (int64_t i = 0; i < n; i += room)
        for (int64_t j = 0, taken = 0; j < blocks && taken < room;
             j++) /* each with the chance that is left */
            if (sp_rng_uniform(rng) * (double)(blocks - j) < (double)(room - taken))
                list[i + taken++] = (int32_t)j;
}

/* As a Sparsify would leave it: every element is there with this chance, by itself, so that tokens have different ones. A run finds other ones there
 * than the run before, and with them other weights to read: they take turns, or those of one run would be found in the cache by the next. */
static sparta_status thin_out(sp_bed *b, const sparta_tensor *t, double present, sp_rng *rng)
{
    const size_t n = (size_t)sparta_tensor_elements(t);
    const size_t turns = sp_implement_few(b->r.task) ? TURNS : 1; /* many tokens read all weights */
    float *x = t->data;
    size_t bytes;
    if (!sp_size_mul(n, turns * sizeof *b->turns, &bytes)) bytes = SIZE_MAX;
    b->turns = sp_fence_alloc(b->arena, &b->fence, b->in[0].name, bytes);
    SP_NEED(b->cx, b->turns);
    for (size_t i = 0; i < n * turns; i++) b->turns[i] = sp_rng_uniform(rng) < present ? x[i % n] : 0;
    memcpy(x, b->turns, n * sizeof *x);
    if (turns == 1) b->turns = NULL;
    return SPARTA_OK;
}

/* Token t of an operand, as a row, out of the layout it has or into it. */
static void move(const operand *o, sp_layout layout, int64_t t, char *row, bool in)
{
    const int64_t features = sp_panel_features(&o->rows);
    const size_t size = sparta_dtype_size(o->rows.dtype);
    if (layout == SP_LAYOUT_ROWS)
        memcpy(row, (char *)o->rows.data + (size_t)(t * features) * size, (size_t)features * size);
    else
        for (int64_t f = 0; f < features; f++) {
            char *at = sp_lane_at(&o->lain[layout].lanes, o->rows.dtype, o->lain[layout].at, t, f),
                 *other = row + (size_t)f * size;
            memcpy(in ? at : other, in ? other : at, size);
        }
}

/* The samples of a group, one after the other; where there are none, all tokens. */
static void gather(const sp_bed *b, const operand *o, sp_layout layout, int64_t group,
                   const sparta_tensor *to)
{
    const size_t features = (size_t)sp_panel_features(&o->rows), size = sparta_dtype_size(to->dtype);
    const int64_t n = sparta_tensor_elements(to) / SP_MAX((int64_t)features, 1);
    for (int64_t s = 0; s < n; s++)
        move(o, layout, b->samples ? token_of(b, group, (int)s) : s,
             (char *)to->data + (size_t)s * features * size, false);
}

/* The first four tokens, wherever they stand. */
static void mix(const sp_bed *b, const sparta_tensor *rows)
{
    const size_t row = (size_t)sp_panel_features(rows) * sparta_dtype_size(rows->dtype);
    char *x = rows->data;
    for (int64_t g = 1; g < groups_of(b); g++)
        for (int s = 0; s < MIXED; s++)
            if (token_of(b, g, s) != s) memcpy(x + (size_t)token_of(b, g, s) * row, x + (size_t)s * row, row);
}

static sparta_status some_of(sp_bed *b, const operand *o, sparta_tensor *out)
{
    *out = o->rows;
    if (b->samples) out->dim[0] = b->samples;
    return sp_fence_tensor(b->arena, &b->fence, o->name, out);
}

/* The input that is the same value as input i; -1: none is. A generated kernel reads both once. */
static int same_input(const sp_bed *b, int i)
{
    int same = 0;
    while (same < i && b->node->in[same] != b->node->in[i]) same++;
    return same < i ? same : -1;
}

static sparta_status make_input(sp_bed *b, int i, sp_rng *rng)
{
    const sp_value *v = b->node->in[i];
    operand *o = &b->in[i];
    int rank;
    int64_t dim[SPARTA_RANK];
    o->rows = o->some = (sparta_tensor){.rank = -1};
    o->name = sp_arena_printf(b->arena, "input %d", i);
    SP_NEED(b->cx, o->name);
    if (!v) return SPARTA_OK;
    const int same = same_input(b, i);
    if (same >= 0) {
        o->rows = b->in[same].rows;
        o->some = b->in[same].some;
        return SPARTA_OK;
    }
    if (v->constant) {
        o->rows = o->some = *v->constant;
        return SPARTA_OK;
    }
    SP_TRY(sp_bed_shape(b->cx, &b->r, v, &rank, dim));
    o->rows = sparta_tensor_view(v->dtype, rank, dim, NULL);
    SP_TRY(sp_fence_tensor(b->arena, &b->fence, o->name, &o->rows));
    if (b->node->op == SP_OP_Attention && i == 4) {
        const sparta_tensor *k = &b->in[1].rows;
        fill_list(&o->rows, k->dim[k->rank == 4 ? 2 : 1], sp_attr_int(&b->node->attrs, "block", 1), rng);
    } else
        fill(&o->rows, i ? b->in[i - 1].rows.dim[0] : 1, rng);
    if (i == 0 && b->r.task->present > 0 && v->dtype == SPARTA_F32)
        SP_TRY(thin_out(b, &o->rows, b->r.task->present, rng));
    o->some = o->rows;
    if (!b->samples) return SPARTA_OK;
    if (b->mixed) mix(b, &o->rows);
    SP_TRY(some_of(b, o, &o->some));
    gather(b, o, SP_LAYOUT_ROWS, 0, &o->some);
    return SPARTA_OK;
}

/* As sp_scales_watch, but weights are large: those of f32 without gaps are gone through at the speed of memory. */
static sparta_status watch(sp_scales *s, const sp_value *v, const sparta_tensor *t)
{
    const float *x = t->data;
    float most = 0;
    if (t->dtype != SPARTA_F32 || !sp_tensor_contiguous(t)) return sp_scales_watch(s, v, t);
    for (int64_t i = 0, n = sparta_tensor_elements(t); i < n; i++)
        most = fabsf(x[i]) > most && fabsf(x[i]) <= FLT_MAX ? fabsf(x[i]) : most;
    s->largest[v->id] = (double)most;
    return SPARTA_OK;
}

/* What close.h forgives sums of operands of this size. */
static sparta_status find_slack(sp_bed *b)
{
    const sp_value *y = b->node->out[0];
    int ids = y->id;
    for (int i = 0; i < b->node->n_in; i++)
        if (b->node->in[i]) ids = SP_MAX(ids, b->node->in[i]->id);
    sp_scales s = {.cx = b->cx, .largest = sp_arena_array(b->arena, (size_t)ids + 1, sizeof(double))};
    SP_NEED(b->cx, s.largest);
    for (int i = 0; i <= ids; i++) s.largest[i] = -1;
    for (int i = 0; i < b->node->n_in; i++)
        if (b->node->in[i]) SP_TRY(watch(&s, b->node->in[i], &b->in[i].some));
    SP_TRY(sp_scales_watch(&s, y, &b->answer));
    b->slack = sp_computed_by(y) == b->node ? sp_slack(&s, y) : 0;
    return SPARTA_OK;
}

static sparta_status make(sp_bed *b)
{
    sparta_tensor in[SP_OPERANDS];
    sp_rng rng = sp_rng_seed(b->r.seed);
    int rank;
    int64_t dim[SPARTA_RANK];
    if (b->r.tokens) choose_samples(b);
    for (int i = 0; i < b->node->n_in; i++) {
        SP_TRY(make_input(b, i, &rng));
        in[i] = b->in[i].some;
    }
    SP_TRY(sp_bed_shape(b->cx, &b->r, b->node->out[0], &rank, dim));
    b->out.rows = sparta_tensor_view(b->node->out[0]->dtype, rank, dim, NULL);
    b->out.name = "the result";
    SP_TRY(some_of(b, &b->out, &b->answer));
    SP_TRY(some_of(b, &b->out, &b->got));
    sp_watch watch = sp_watch_start();
    SP_TRY(sp_call_builtin(b->cx, b->node, in, &b->answer));
    b->builtin_seconds = sp_watch_read(&watch, &b->quiet);
    /* A session runs the quick twin. The first call finds its memory cold, which no other contender is timed on, and any may meet a slow moment. */
    double spent = 0;
    for (int i = 0; sp_quick_has(b->node->op) && (i == 0 || (i < 4 && spent < .02)); i++) {
        watch = sp_watch_start();
        SP_TRY(sp_call_quick(b->cx, b->node, in, &b->got));
        const double once = sp_watch_read(&watch, &b->quiet);
        b->builtin_seconds = i == 0 ? once : SP_MIN(b->builtin_seconds, once);
        spent += once;
    }
    if (b->samples) b->builtin_seconds *= (double)b->r.tokens / b->samples;
    const char *outside = sp_fence_broken(b->fence);
    if (outside)
        return sp_fail(b->cx, SPARTA_E_INTERNAL, "%s: the reference writes outside of %s", b->node->name,
                       outside);
    return find_slack(b);
}

sparta_status sp_bed_create(sparta_ctx *cx, const sp_bed_request *r, sp_bed **out)
{
    const sp_node *node = r->task->node;
    if (node->n_in > SP_OPERANDS || node->n_out != 1)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "%s: a bed has room for %d inputs and one output",
                       node->name, SP_OPERANDS);
    sp_bed *b = sp_zalloc(cx, sizeof *b);
    SP_NEED(cx, b);
    *b = (sp_bed){.cx = cx, .r = *r, .node = node, .threads = r->pool ? sp_pool_threads(r->pool) : 1};
    sp_quiet_begin(&b->quiet);
    b->arena = sp_arena_create(cx);
    const sparta_status s = b->arena ? make(b) : sp_ctx_status(cx);
    if (s == SPARTA_OK)
        *out = b;
    else
        sp_bed_free(b);
    return s;
}

void sp_bed_free(sp_bed *b)
{
    if (!b) return;
    sp_arena_free(b->arena);
    sp_free(b->cx, b);
}

bool sp_bed_disturbed(const sp_bed *b)
{
    return sp_quiet_disturbed(&b->quiet);
}

double sp_bed_builtin_seconds(const sp_bed *b)
{
    return b->builtin_seconds;
}

/* ------------------------------------------------------------------ a contender in its place */

/* Rows for statistics behind those of an operand, as a session has them: of a result that leaves some. Elsewhere another panel begins there. */
static int64_t stat_rows(const sp_bed *b, const operand *o)
{
    return o == &b->out && b->r.task->stat ? 2 * b->threads : 0;
}

/* An operand in another layout. */
static sparta_status make_lanes(sp_bed *b, operand *o, sp_layout layout)
{
    if (o->lain[layout].at) return SPARTA_OK;
    const int64_t features = sp_panel_features(&o->rows);
    size_t *bytes = &o->lain[layout].bytes;
    if (!sp_lanes_of(layout, &o->rows, stat_rows(b, o), &o->lain[layout].lanes, bytes)) *bytes = SIZE_MAX;
    o->lain[layout].at = sp_fence_alloc(b->arena, &b->fence, o->name, *bytes);
    SP_NEED(b->cx, o->lain[layout].at);
    for (int64_t t = 0; o->rows.data && t < sp_panel_tokens(&o->rows); t++)
        move(o, layout, t, (char *)o->rows.data + (size_t)(t * features) * sparta_dtype_size(o->rows.dtype),
             true);
    return SPARTA_OK;
}

static sparta_status make_rows(sp_bed *b, operand *o)
{
    if (o->rows.data || o->rows.rank < 0) return SPARTA_OK;
    return sp_fence_tensor(b->arena, &b->fence, o->name, &o->rows);
}

/* Input i, or the result (-1). */
static sparta_status place(sp_bed *b, const sp_contender *c, int i, sp_operand *out)
{
    operand *o = i < 0 ? &b->out : &b->in[i];
    const sp_layout result = sp_implement_layout(c->im);
    *out = (sp_operand){.layout = SP_LAYOUT_ABSENT, .tensor = o->rows};
    if (o->rows.rank < 0) return SPARTA_OK;
    if (i >= 0 && !sp_implement_slot(c->im, b->node, i))
        return sp_fail(b->cx, SPARTA_E_INTERNAL, "%s: an operand too many", b->node->name);
    out->layout = i < 0 ? result : sp_implement_takes(c->im, b->node, i, result);
    out->packed = c->packed;
    if (sp_layout_has_lanes(out->layout)) {
        SP_TRY(make_lanes(b, o, out->layout));
        const sp_lanes *l = &o->lain[out->layout].lanes;
        out->at = o->lain[out->layout].at;
        out->lanes = *l;
        out->stat = (float *)out->at + (l->rows - stat_rows(b, o)) * l->row;
    } else if (out->layout == SP_LAYOUT_ROWS) {
        SP_TRY(make_rows(b, o));
        out->tensor = o->rows;
    }
    return SPARTA_OK;
}

/* The operands of a generated kernel are those of its nest. */
static sparta_status place_nest(sp_bed *b, sp_contender *c)
{
    sp_job *j = &c->call.job;
    int slot[SP_NEST_OPERANDS];
    bool can;
    sp_text text;
    sp_nest *nest = sp_arena_array(c->arena, 1, sizeof *nest);
    SP_NEED(b->cx, nest);
    SP_TRY(sp_implement_nest(b->cx, c->im, b->node, nest, slot, &can));
    if (!can) return sp_fail(b->cx, SPARTA_E_INTERNAL, "%s: there is no nest for it", b->node->name);
    const int n_in = sp_nest_inputs(nest);
    SP_TRY(sp_call_operands(b->cx, c->arena, n_in, nest->operands - n_in, &c->call));
    for (int i = 0; i < nest->operands; i++)
        SP_TRY(place(b, c, i < n_in ? slot[i] : -1, &j->in[i])); /* results follow the inputs */
    sp_text_init(&text, b->cx);
    sp_nest_print(nest, &text);
    j->text = text.status == SPARTA_OK ? sp_arena_string(c->arena, sp_text_str(&text)) : NULL;
    sp_text_free(&text);
    return j->text ? SPARTA_OK : sp_ctx_status(b->cx);
}

static sparta_status place_all(sp_bed *b, sp_contender *c)
{
    sp_job *j = &c->call.job;
    if (c->call.kernel->generated) return place_nest(b, c);
    for (int i = 0; i < b->node->n_in; i++) SP_TRY(place(b, c, i, &j->in[i]));
    j->text = sp_implement_function_name(c->im, b->r.task);
    return place(b, c, -1, &j->out[0]);
}

static sparta_status bind(sp_bed *b, sp_contender *c)
{
    sp_job *j = &c->call.job;
    SP_TRY(sp_call_bind(b->cx, c->arena, b->node, c->im->kernel, c->object, &c->call));
    if (!c->call.kernel) return make_rows(b, &b->out);
    SP_TRY(place_all(b, c));
    const bool lanes = sp_implement_in_lanes(c->im);
    j->tokens = sp_panel_tokens(lanes ? &b->out.rows : &b->in[0].rows);
    j->panels = c->call.kernel->whole ? 1 : sp_panels(j->tokens);
    j->stat = b->r.task->stat && lanes;
    SP_TRY(sp_panel_prepare(b->cx, c->arena, c->call.kernel, j));
    SP_TRY(c->call.kernel->check(b->cx, j));
    if (c->call.kernel->ready) SP_TRY(c->call.kernel->ready(b->cx, j));
    if (!c->call.kernel->work) return SPARTA_OK;
    c->each = (c->call.kernel->work(j) / sizeof(float) + 15) / 16 * 16;
    c->work =
        sp_fence_alloc(c->arena, &c->fence, "its scratch", c->each * (size_t)b->threads * sizeof(float));
    SP_NEED(b->cx, c->work);
    return SPARTA_OK;
}

/* Of all its arrays. */
static int64_t bytes_of(const sp_packed *p)
{
    int64_t n =
        p->values.data ? sparta_tensor_elements(&p->values) * (int64_t)sparta_dtype_size(p->values.dtype) : 0;
    for (int i = 0; i < SP_LEVELS; i++)
        for (int k = 0; k < 2; k++) {
            const sparta_tensor *t = k ? &p->crd[i] : &p->pos[i];
            if (t->data) n += sparta_tensor_elements(t) * (int64_t)sparta_dtype_size(t->dtype);
        }
    for (int i = 0; i < p->parts; i++) n += bytes_of(&p->part[i]);
    return n;
}

static sparta_status pack(sp_bed *b, sp_contender *c)
{
    sp_format format;
    sp_text text;
    sparta_tensor w;
    sp_task task = *b->r.task;
    if (!c->im->format) return SPARTA_OK;
    snprintf(task.point, sizeof task.point, "%s", c->point);
    if (!sp_implement_weight(b->node, &w))
        return sp_fail(b->cx, SPARTA_E_INTERNAL, "%s: no weight to pack", b->node->name);
    sp_text_init(&text, b->cx);
    sp_implement_print_format(c->im, &task, &text);
    sparta_status s = text.status;
    if (s == SPARTA_OK) s = sp_format_parse(b->cx, sp_text_str(&text), &format);
    snprintf(c->format, sizeof c->format, "%s", sp_text_str(&text));
    sp_text_free(&text);
    SP_TRY(s);
    sp_packed *packed = sp_arena_array(c->arena, 1, sizeof *packed);
    SP_NEED(b->cx, packed);
    SP_TRY(sp_store_pack(b->cx, &format, &w, c->im->sparse ? task.mask : NULL, packed));
    c->packed = packed;
    c->bytes = bytes_of(packed);
    return SPARTA_OK;
}

sparta_status sp_bed_build(sp_bed *b, sp_contender *c)
{
    if (c->arena) return SPARTA_OK;
    c->arena = sp_arena_create(b->cx);
    SP_NEED(b->cx, c->arena);
    sparta_status s = pack(b, c);
    if (s == SPARTA_OK) s = bind(b, c);
    if (s != SPARTA_OK) sp_bed_drop(b, c);
    return s;
}

void sp_bed_drop(sp_bed *b, sp_contender *c)
{
    if (c->packed) sp_packed_free(b->cx, c->packed);
    if (c->arena) sp_arena_free(c->arena);
    sp_free(b->cx, c->times);
    c->packed = NULL;
    c->arena = NULL;
    c->times = NULL;
    c->work = NULL;
    c->fence = NULL;
    c->n_times = 0;
}

/* ------------------------------------------------------------------ running, as a session runs a group of one step */

typedef struct team {
    const sp_bed *b;
    const sp_contender *c;
    int64_t whole;
    int piece, pieces;
} team;

static void work(void *arg, int thread)
{
    const team *t = arg;
    const sp_contender *c = t->c;
    const int threads = t->b->threads;
    float *mine = c->work ? c->work + c->each * (size_t)thread : NULL;
    for (int64_t p = t->whole * thread / threads; p < t->whole * (thread + 1) / threads; p++)
        sp_call_panel(&c->call, &(sp_place){.panel = p, .slot = thread, .part = 0, .parts = 1, .work = mine});
    for (int64_t p = t->whole; p < c->call.job.panels; p++)
        sp_call_panel(&c->call, &(sp_place){.panel = p,
                                            .slot = thread,
                                            .part = t->piece * threads + thread,
                                            .parts = t->pieces * threads,
                                            .work = mine});
}

static void run_piece(const sp_bed *b, const sp_contender *c, int piece, int pieces)
{
    team t = {b, c, c->call.job.panels / b->threads * b->threads, piece, pieces};
    if (pieces > 1) t.whole = 0;
    if (b->r.pool)
        sp_pool_run(b->r.pool, work, &t);
    else
        work(&t, 0);
}

static sparta_status run_builtin(sp_bed *b)
{
    sparta_tensor in[SP_OPERANDS];
    for (int i = 0; i < b->node->n_in; i++) in[i] = b->in[i].rows;
    return sp_call_quick(b->cx, b->node, in, &b->out.rows);
}

/* NaN in every output: what a contender does not write is not its answer, nor is that of the one before. */
static void poison(const operand *o)
{
    for (int l = 0; l < SP_LAYOUTS; l++)
        if (o->lain[l].at) memset(o->lain[l].at, 0xff, o->lain[l].bytes);
    if (o->rows.data)
        memset(o->rows.data, 0xff,
               (size_t)sparta_tensor_elements(&o->rows) * sparta_dtype_size(o->rows.dtype));
}

/* Input 0 of the next run, in rows: another one, or the one whose answer is known. */
static void turn(sp_bed *b, sp_contender *c, bool known)
{
    const int64_t n = sparta_tensor_elements(&b->in[0].rows);
    if (!b->turns || !c->call.kernel || c->call.job.in[0].layout != SP_LAYOUT_ROWS) return;
    b->turn = (b->turn + 1) % TURNS;
    c->call.job.in[0].tensor.data = known ? b->in[0].rows.data : b->turns + b->turn * n;
}

/* Are all its arrays' blocks (base.h)? They lie where a package takes them from, so that no wider fence fits around. */
static bool whole(const sp_packed *p)
{
    bool yes = sp_block_whole(p->values.data);
    for (int i = 0; i < SP_LEVELS; i++)
        yes &= sp_block_whole(p->pos[i].data) && sp_block_whole(p->crd[i].data);
    for (int i = 0; i < p->parts; i++) yes &= whole(&p->part[i]);
    return yes;
}

/* Did it stay inside? Who did not gives no answer, whatever it says, and is timed no more. */
static bool inside(const sp_bed *b, sp_contender *c)
{
    const char *of_bed = sp_fence_broken(b->fence), *own = sp_fence_broken(c->fence);
    if (of_bed || own) c->outside = of_bed ? of_bed : own;
    if (!c->outside && c->packed && !whole(c->packed)) c->outside = "its weight";
    if (c->outside) c->found.ok = false;
    return !c->outside;
}

/* The reference once more, on operands that are a unit off. */
static sparta_status find_change(sp_bed *b)
{
    sparta_tensor in[SP_OPERANDS], moved = b->answer;
    sp_rng rng = sp_rng_seed(b->r.seed);
    if (b->units.mark.data) return SPARTA_OK;
    for (int i = 0; i < b->node->n_in; i++) {
        const int same = same_input(b, i);
        in[i] = same < 0 ? b->in[i].some : in[same];
        if (same >= 0 || !b->node->in[i] || b->node->in[i]->constant) continue;
        SP_TRY(sp_tensor_alloc_in(b->arena, in[i].dtype, in[i].rank, in[i].dim, &in[i]));
        SP_TRY(sp_tensor_copy(b->cx, &b->in[i].some, &in[i]));
        sp_move_units(&in[i], 1, &rng);
    }
    SP_TRY(sp_tensor_alloc_in(b->arena, moved.dtype, moved.rank, moved.dim, &moved));
    SP_TRY(sp_call_builtin(b->cx, b->node, in, &moved));
    b->units = sp_units_of(&moved, &b->answer);
    return SPARTA_OK;
}

/* One group of tokens; the worst of all is kept. */
static sparta_status compare(sp_bed *b, sp_contender *c, int64_t group)
{
    static const sp_tolerance usual = {-1, -1};
    sp_closeness found;
    gather(b, &b->out, sp_implement_layout(c->im), group, &b->got);
    if (!sp_close(&b->got, &b->answer, &usual, b->slack, &found)) {
        SP_TRY(find_change(b));
        sp_close_units(&b->got, &b->answer, &usual, b->slack, &b->units, &found);
    }
    if (!group || found.max_abs > c->found.max_abs) c->found = found;
    return SPARTA_OK;
}

/* All groups, or as many as there is time for. */
static sparta_status compare_all(sp_bed *b, sp_contender *c)
{
    const int64_t groups = groups_of(b),
                  room = COMPARED / SP_MAX(sparta_tensor_elements(&b->got), (int64_t)1);
    const int64_t step = (groups - 1) / SP_MAX(room, (int64_t)1) + 1;
    int64_t group = 0;
    for (c->found.ok = true; group < groups && (!group || c->found.ok); group += step)
        SP_TRY(compare(b, c, group));
    return c->found.ok && group - step < groups - 1 ? compare(b, c, groups - 1) : SPARTA_OK;
}

sparta_status sp_bed_check(sp_bed *b, sp_contender *c)
{
    SP_TRY(sp_bed_build(b, c));
    turn(b, c, true);
    poison(&b->out);
    if (c->call.kernel)
        run_piece(b, c, 0, 1);
    else
        SP_TRY(run_builtin(b));
    SP_TRY(compare_all(b, c));
    (void)inside(b, c);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ timing */

typedef struct timed {
    sp_bed *b;
    sp_contender *c;
} timed;

static void run_once(void *arg)
{
    const timed *t = arg;
    turn(t->b, t->c, false);
    run_piece(t->b, t->c, 0, 1);
}

sparta_status sp_bed_time(sp_bed *b, sp_contender *c, double seconds)
{
    sp_timing t = {0};
    SP_TRY(sp_bed_build(b, c));
    SP_TRY(sp_time(b->cx, run_once, &(timed){b, c}, seconds, &b->quiet, &t));
    if (!inside(b, c)) return SPARTA_OK;
    if (c->best == 0 || t.best < c->best) c->best = t.best;
    c->spread = t.median / t.best - 1;
    return SPARTA_OK;
}

typedef struct racer {
    sp_contender *c;
    int64_t repeats;            /* calls in a span */
    int64_t spans;              /* spans in a window */
    int pieces;                 /* a call is timed in so many */
    double piece[PIECES], span; /* the best of each; how long one span takes */
} racer;

/* Seconds a call, the mean of the window's spans. */
static double window(sp_bed *b, racer *r)
{
    double sum = 0;
    for (int64_t s = 0; s < r->spans; s++)
        for (int p = 0; p < r->pieces; p++) {
            const sp_watch watch = sp_watch_start();
            const double start = sp_now();
            for (int64_t i = 0; i < r->repeats; i++) {
                turn(b, r->c, false);
                run_piece(b, r->c, p, r->pieces);
            }
            /* Several threads wait for each other: what one of them ran says little. */
            const double took =
                (b->threads > 1 ? sp_now() - start : sp_watch_read(&watch, &b->quiet)) / (double)r->repeats;
            r->piece[p] = fmin(r->piece[p], took);
            sum += took;
        }
    return sum / (double)r->spans;
}

/* Spans long enough for the clock, short enough to fit between two interruptions. Where tokens are few nothing takes time but reading the
 * weight: a large one is read in pieces, and the best of each is added up, since a window of 20 ms never has the machine for itself. */
static void calibrate(sp_bed *b, racer *r)
{
    r->repeats = r->spans = 1;
    const bool cut =
        sp_implement_few(b->r.task) &&
        !sp_implement_in_lanes(r->c->im); /* panels have room for statistics of each thread only */
    const double read = r->c->im == &sp_implement_few_skip ? sp_implement_read(b->r.task) : 1;
    r->pieces = cut ? (int)SP_MIN(SP_MAX((int64_t)((double)r->c->bytes * read) / PIECE, 1), PIECES) : 1;
    window(b, r);
    const double first = window(b, r), once = fmin(first, window(b, r)); /* one may meet a slow moment */
    r->repeats = SP_MAX(1, (int64_t)(30e-6 / SP_MAX(once, 1e-9)));
    r->span = once * (double)r->repeats;
}

static sparta_status note_time(sp_bed *b, racer *r)
{
    sp_contender *c = r->c;
    double best = 0;
    if (!(c->n_times & (c->n_times - 1))) { /* a power of two: full */
        double *more = sp_alloc_array(b->cx, (size_t)SP_MAX(2 * c->n_times, 1), sizeof *more);
        SP_NEED(b->cx, more);
        if (c->n_times) memcpy(more, c->times, (size_t)c->n_times * sizeof *more);
        sp_free(b->cx, c->times);
        c->times = more;
    }
    c->times[c->n_times++] = window(b, r);
    for (int p = 0; p < r->pieces; p++) best += r->piece[p];
    if (c->best == 0 || best < c->best) c->best = best;
    return SPARTA_OK;
}

sparta_status sp_bed_race(sp_bed *b, sp_contender *const *all, int n, double seconds, int least)
{
    double longest = 200e-6;
    sparta_status s = SPARTA_OK;
    racer *r = sp_alloc_array(b->cx, (size_t)n + 1, sizeof *r);
    SP_NEED(b->cx, r);
    for (int i = 0; i < n; i++) {
        SP_ASSERT(all[i]->arena); /* it is built */
        r[i].c = all[i];
        calibrate(b, &r[i]);
        (void)inside(b, all[i]); /* all pieces ran */
        longest = fmax(longest, r[i].span);
    }
    /* As long as the longest span: a fast kernel in short windows would find quiet moments that a slow one never has. */
    for (int i = 0; i < n; i++) {
        r[i].spans = SP_MAX(1, (int64_t)(longest / SP_MAX(r[i].span, 1e-6) + 0.5));
        for (int p = 0; p < r[i].pieces; p++) r[i].piece[p] = INFINITY;
    }
    const double start = sp_now(), whole = seconds * n;
    for (int64_t w = 0; w < WINDOWS && (w < least || sp_now() - start < whole) && s == SPARTA_OK; w++) {
        s = sp_check_cancel(b->cx);
        for (int i = 0; i < n && s == SPARTA_OK; i++) s = note_time(b, &r[i]);
    }
    sp_free(b->cx, r);
    return s;
}
