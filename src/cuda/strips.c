/* Products over strips on sm_90a: which jobs, at which point, dealt how. The kernel is strips.cu. */
#include "cuda/cuda.h"
#include <pthread.h>
#include <string.h>

enum {
    ELEMENT = 2,       /* bytes of one */
    ALIGNMENT = 1024,  /* of stages */
    BARRIER = 8,       /* bytes */
    CHUNK = 64,        /* tokens of one store */
    STAGES = 16,       /* at most */
    GROUP = 128,       /* threads of a warpgroup */
    WARP = 32,         /* the producer's */
    RESERVED = 1024,   /* bytes of shared memory that each block costs besides its own */
    PLENTY = 8,        /* stages beyond which another does nothing */
    LONGEST = 1 << 30, /* of anything that a coordinate of a box counts */
    SHALLOW = 128,     /* lines of x: strips that meet no more are mostly storing */
    FEW_ROUNDS = 64,   /* beyond, every deal is even */
    BANDS = 4,         /* widths of a band that are compared */
    SAMPLE = 32        /* clusters that `even` looks at */
};

/* ------------------------------------------------------------------ points */
/* Names as in strips.cu; the order of `choices` below. */
typedef struct shape {
    int ks, tok, nwg, st, ob, occ, cl, pdl;
    int band, ways; /* how items are dealt (sp_deal); band 0: by itself */
} shape;
_Static_assert(sizeof(shape) == sizeof(sp_choice), "a shape is a choice with names");

/* ------------------------------------------------------------------ the side of a job */
typedef struct product {
    sp_side side;
    bool turned;
    int64_t taken, made; /* features of x and of y */
} product;

static product product_of(const sp_cuda_job *job)
{
    const int height = (int)job->height, width = (int)job->width, down = (int)job->down,
              right = (int)job->right;
    product p = {.turned = job->verb == SPARTA_MULTIPLY_TURNED};
    p.side =
        p.turned ? sp_side_turned(height, width, down, right) : sp_side_across(height, width, down, right);
    p.taken = p.turned ? job->rows : job->cols;
    p.made = p.turned ? job->cols : job->rows;
    return p;
}

static sp_cut cut_of(const product *p, const shape *s)
{
    return (sp_cut){p->turned, p->side.side, p->side.depth, s->ks, s->nwg, s->cl};
}

static int64_t tiles_of(const sp_cuda_job *job, const shape *s)
{
    return (job->tokens + s->tok * s->cl - 1) / (s->tok * s->cl);
}
static int64_t items_of(const sp_cuda_job *job, const product *p, const shape *s)
{
    return (int64_t)p->side.strips * sp_cut_pieces(cut_of(p, s)) * tiles_of(job, s);
}

/* ------------------------------------------------------------------ the rule */
static int stage_bytes(const shape *s)
{
    return (s->tok + s->nwg * SP_STRIP) * s->ks * ELEMENT;
}
static int fixed_bytes(const shape *s)
{
    return ALIGNMENT + s->nwg * s->ob * CHUNK * SP_STRIP * ELEMENT;
}
/* Stages that fit beside the buffers of the result; a stage has two barriers, a buffer one. */
static int stages(const shape *s, const sp_gpu *gpu)
{
    const int room = (gpu->shared + RESERVED) / s->occ - RESERVED - fixed_bytes(s) - s->nwg * s->ob * BARRIER;
    return SP_MIN(room / (stage_bytes(s) + 2 * BARRIER), (int)STAGES);
}

/* Where few tiles meet many multiprocessors: smaller ones. */
static void make_small(const sp_cuda_job *job, const product *p, const sp_gpu *gpu, shape *s)
{
    s->tok = 128;
    s->nwg = s->cl = 1;
    s->occ = 1; /* one whose loads run ahead into the next tile beats two that begin anew */
    if (items_of(job, p, s) < gpu->processors) s->tok = 64;
}

/* Lines of x that a strip meets, about. */
static int64_t lines_of(const sp_cuda_job *job, const product *p)
{
    return job->blocks * p->side.depth / p->side.lines;
}

/* As measured on an H200: where 128 lines of a block share x, two warpgroups; narrower strips do better as two blocks on a multiprocessor, whose stores hide behind each
 * other's products, or as three with half the tokens where storing is most of the work. If x comes from memory they take half as many lines in a step: their rings are then
 * five stages long, not two. Two blocks of a cluster that share the values gain nothing over two that wait for nobody. */
static shape rule(const sp_cuda_job *job, const product *p, const sp_gpu *gpu)
{
    shape s = {.ks = SP_MIN(p->side.depth, 64), .tok = 256, .nwg = 1, .ob = 2, .occ = 2, .cl = 1};
    if (p->side.side % 128 == 0) s.nwg = 2, s.occ = 1;
    s.pdl = (size_t)(job->tokens * p->taken * ELEMENT) <= gpu->l2 / 4 * 3;
    if (items_of(job, p, &s) < 2 * gpu->processors)
        make_small(job, p, gpu, &s);
    else if (s.nwg == 1 && lines_of(job, p) <= SHALLOW)
        s.tok = 128, s.occ = 3;
    else if (s.nwg == 1 && !s.pdl)
        s.ks = SP_MIN(s.ks, 32);
    return s;
}

static bool is_one_of(int x, int a, int b, int c)
{
    return x == a || x == b || x == c;
}
/* Blocks of a multiprocessor that leave a thread registers for its sums. */
static int most_blocks(const shape *s)
{
    return s->tok == 256 ? 2 / s->nwg : 4 / s->nwg;
}
/* What is wanted, where it can be had for this job. */
static void override(const product *p, const shape *wanted, shape *s)
{
    if (is_one_of(wanted->ks, 16, 32, 64) && p->side.depth % wanted->ks == 0) s->ks = wanted->ks;
    if (is_one_of(wanted->tok, 64, 128, 256)) s->tok = wanted->tok;
    if (wanted->nwg == 1 || (wanted->nwg == 2 && p->side.side % 128 == 0)) s->nwg = wanted->nwg;
    if (wanted->cl == 1 || (wanted->cl == 2 && p->side.side >= SP_STRIP)) s->cl = wanted->cl;
    if (wanted->occ >= 1) s->occ = wanted->occ;
    s->occ = SP_MIN(s->occ, most_blocks(s));
    if (wanted->ob == 1 || wanted->ob == 2) s->ob = wanted->ob;
    if (wanted->pdl == 0 || wanted->pdl == 1) s->pdl = wanted->pdl;
    if (wanted->band > 0) s->band = wanted->band;
    if (wanted->ways >= 0) s->ways = wanted->ways;
}

/* As many stages as fit, two at least: one is held while the next is waited for. One buffer of results instead of two where that makes room for a stage that is missed. */
static void set_stages(const sp_gpu *gpu, const shape *wanted, shape *s)
{
    s->st = stages(s, gpu);
    if (s->ob == 2 && wanted->ob != 2 && s->st < PLENTY) {
        s->ob = 1;
        const int more = stages(s, gpu);
        if (more == s->st) s->ob = 2;
        s->st = more;
    }
    while (s->st < 2 && s->occ > 1) {
        s->occ--;
        s->st = stages(s, gpu);
    }
    if (wanted->st >= 2) s->st = SP_MIN(s->st, wanted->st);
}

static shape shape_of(const sp_cuda_job *job, const product *p, const sp_gpu *gpu, const sp_choice *choice)
{
    shape s = rule(job, p, gpu), wanted;
    memcpy(&wanted, choice, sizeof wanted);
    override(p, &wanted, &s);
    set_stages(gpu, &wanted, &s);
    return s;
}

static void point_of(const product *p, const shape *s, sp_cuda_point *point)
{
    sp_cuda_set(point, "TURNED", p->turned);
    sp_cuda_set(point, "SIDE", p->side.side);
    sp_cuda_set(point, "DEPTH", p->side.depth);
    sp_cuda_set(point, "KS", s->ks);
    sp_cuda_set(point, "TOK", s->tok);
    sp_cuda_set(point, "NWG", s->nwg);
    sp_cuda_set(point, "ST", s->st);
    sp_cuda_set(point, "OB", s->ob);
    sp_cuda_set(point, "OCC", s->occ);
    sp_cuda_set(point, "CL", s->cl);
    sp_cuda_set(point, "PDL", s->pdl);
}

static sp_grid grid_of(const shape *s)
{
    const bool giving = s->nwg == 2 && s->occ == 1; /* GIVING in strips.cu */
    return (sp_grid){.threads = (unsigned)(GROUP * s->nwg + (giving ? GROUP : WARP)),
                     .shared = (unsigned)(fixed_bytes(s) + s->st * stage_bytes(s)),
                     .cluster = (unsigned)s->cl,
                     .overlap = s->pdl};
}

/* ------------------------------------------------------------------ dealing
 * Lengths of strips are on the device. Here they are taken as those of a random pattern, in order: nearly a normal distribution, with more long strips than short ones. */
static double length(int group, int groups)
{
    const double spread = .35, skew = .06, v = 1 - (2 * group + 1.) / groups,
                 z = 1.25 * v + .85 * v * v * v * v * v; /* how many deviations above the mean */
    return 1 + spread * (z + skew * (z * z - 1));
}
/* What the mean cluster does over what the busiest does; of many clusters only some are looked at. */
static double even(sp_deal d)
{
    const int samples = SP_MIN(d.clusters, (int)SAMPLE);
    double most = 0;
    for (int i = 0; i < samples; i++) {
        const int cluster = samples > 1 ? (int)((int64_t)i * (d.clusters - 1) / (samples - 1)) : 0;
        double load = 0;
        for (int round = 0;; round++) {
            const sp_item item = sp_deal_at(d, cluster, round);
            if (item.group < 0) break;
            load += length(item.group, d.groups);
        }
        if (load > most) most = load;
    }
    return (double)d.groups * d.tiles / d.clusters / most;
}

sp_deal sp_strips_deal(int groups, int tiles, int clusters, int most)
{
    static const int ways[] = {SP_DEAL_TURN, SP_DEAL_SNAKE, SP_DEAL_TURN | SP_DEAL_SNAKE,
                               SP_DEAL_TURN | SP_DEAL_ROTATE, SP_DEAL_SNAKE | SP_DEAL_ROTATE};
    const bool whole = most >= tiles;
    sp_deal best = {groups, tiles, whole ? tiles : most, whole ? SP_DEAL_SNAKE : SP_DEAL_TURN, clusters};
    double score = 0;
    if (whole || (int64_t)groups * tiles / clusters > FEW_ROUNDS) return best;
    for (int band = 1; band <= SP_MIN(most, (int)BANDS); band++)
        for (size_t i = 0; i < SP_COUNT(ways); i++) {
            const sp_deal d = {groups, tiles, band, ways[i], clusters};
            const double s = even(d);
            if (s > score + .005) score = s, best = d; /* a narrow band reads less */
        }
    return best;
}

/* What is asked of the driver or takes long, once for a kernel and its sizes. */
typedef struct plan {
    const sp_gpu_kernel *kernel;
    int groups, tiles, most;
    sp_deal deal;
} plan;
enum { PLANS = 64 };
static plan plans[PLANS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool find_plan(const plan *key, plan **slot)
{
    const size_t mixed = ((size_t)key->kernel >> 4) * 31 + (size_t)key->groups * 7 + (size_t)key->tiles * 3;
    *slot = &plans[mixed % PLANS];
    return (*slot)->kernel == key->kernel && (*slot)->groups == key->groups && (*slot)->tiles == key->tiles &&
           (*slot)->most == key->most;
}

static sp_deal deal_of(const sp_gpu *gpu, const sp_gpu_kernel *kernel, const sp_grid *grid, int groups,
                       int tiles, int most)
{
    plan key = {.kernel = kernel, .groups = groups, .tiles = tiles, .most = most}, *slot;
    pthread_mutex_lock(&lock);
    if (find_plan(&key, &slot)) {
        key.deal = slot->deal;
    } else {
        const int64_t clusters = sp_gpu_holds(gpu, kernel, grid) / (int)grid->cluster,
                      items = (int64_t)groups * tiles;
        if (clusters > 0) {
            key.deal = sp_strips_deal(groups, tiles, (int)SP_MIN(clusters, items), most);
            *slot = key;
        }
    }
    pthread_mutex_unlock(&lock);
    return key.deal;
}

/* Tiles of tokens in a band: x of all of them, or as much as a third of the cache holds. */
static int most_of(const sp_cuda_job *job, const product *p, const sp_gpu *gpu, const shape *s)
{
    const int64_t tiles = tiles_of(job, s), each = (int64_t)s->tok * s->cl * p->taken * ELEMENT,
                  all = job->tokens * p->taken * ELEMENT;
    if (all <= (int64_t)(gpu->l2 / 4 * 3)) return (int)tiles;
    const int64_t most = (int64_t)(gpu->l2 / 3) / each;
    return (int)(most < 1 ? 1 : SP_MIN(most, tiles));
}

/* ------------------------------------------------------------------ maps */
typedef struct boxes {
    sp_box x, values, y, residual;
} boxes;

static boxes boxes_of(const sp_cuda_job *job, const product *p, const shape *s)
{
    const sp_cut cut = cut_of(p, s);
    boxes b;
    b.x = (sp_box){
        .dtype = job->dtype, .base = job->x, .inner = p->taken, .outer = job->tokens, .step = job->x_step};
    b.values = b.x; /* without blocks no step reads any, but a map is of something */
    if (job->blocks)
        b.values = (sp_box){.dtype = job->dtype,
                            .base = job->values,
                            .inner = job->width,
                            .outer = job->blocks * job->height,
                            .step = job->width};
    b.y = (sp_box){
        .dtype = job->dtype, .base = job->y, .inner = p->made, .outer = job->tokens, .step = job->y_step};
    b.x.box_inner = s->ks, b.x.box_outer = s->tok;
    b.values.box_inner = sp_cut_box_inner(cut), b.values.box_outer = sp_cut_box_outer(cut);
    b.y.box_inner = SP_STRIP, b.y.box_outer = CHUNK;
    b.residual = b.y;
    if (job->residual) b.residual.base = job->residual, b.residual.step = job->residual_step;
    return b;
}

/* ------------------------------------------------------------------ the row */
/* Can this job, which has work, run at this point? */
static bool can(const sp_cuda_job *job, const product *p, const shape *s)
{
    const boxes b = boxes_of(job, p, s);
    return s->st >= 2 && items_of(job, p, s) <= LONGEST && sp_tensor_map_can(&b.x) &&
           sp_tensor_map_can(&b.values) && sp_tensor_map_can(&b.y) && sp_tensor_map_can(&b.residual);
}

static bool settle(const sp_cuda_job *job, const sp_gpu *gpu, sp_choice *point)
{
    const product p = product_of(job);
    const shape s = shape_of(job, &p, gpu, point);
    memcpy(point, &s, sizeof s);
    return job->tokens && p.made && can(job, &p, &s);
}

static const sp_choices choices = {
    .name = {"KS", "TOK", "NWG", "ST", "OB", "OCC", "CL", "PDL", "BAND", "WAYS"},
    .variable = "SPARTA_CUDA_POINT",
    .text = SP_CUDA_TEXT_strips,
    .settle = settle,
    .space = {"TOK=256 NWG=2 OCC=1 CL=2", "TOK=256 NWG=2 OCC=1 CL=1", "TOK=256 NWG=1 OCC=2 CL=1",
              "TOK=256 NWG=1 OCC=2 CL=2", "TOK=256 NWG=1 OCC=1 CL=1", "TOK=128 NWG=2 OCC=1 CL=1",
              "TOK=128 NWG=2 OCC=1 CL=2", "TOK=128 NWG=1 OCC=2 CL=1", "TOK=128 NWG=1 OCC=3 CL=1",
              "TOK=128 NWG=1 OCC=1 CL=1", "TOK=64 NWG=1 OCC=2 CL=1", "TOK=64 NWG=1 OCC=1 CL=1", "KS=32",
              "PDL=0", "PDL=1", "BAND=2 WAYS=1", "BAND=4 WAYS=3"},
};

static bool takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    if (gpu->target != SP_TARGET_SM90A || (job->dtype != SPARTA_F16 && job->dtype != SPARTA_BF16) ||
        (job->verb != SPARTA_MULTIPLY && job->verb != SPARTA_MULTIPLY_TURNED) ||
        !sp_index_words(job->height, job->width, job->down, job->right))
        return false;
    if (job->tokens > LONGEST || job->rows > LONGEST || job->cols > LONGEST ||
        job->blocks * job->height > LONGEST)
        return false;
    const product p = product_of(job);
    if (!job->tokens || !p.made) return true;
    if (p.side.side == 16 && p.side.depth == 16) return false; /* row tiles leaves out what is not there */
    const sp_choice wanted = sp_choice_quietly(&choices, job);
    const shape s = shape_of(job, &p, gpu, &wanted);
    return can(job, &p, &s);
}

static size_t room(const sp_cuda_job *job, const sp_gpu *gpu)
{
    (void)job, (void)gpu;
    return 0;
}

/* The kernel's last parameter, as strips.cu has it. */
typedef struct task {
    const int32_t *count, *order, *step;
    const void *bias;
    int strips, cross, tokens, made;
    sp_deal deal;
} task;

static sparta_status launch(const sp_complaint *c, const sp_cuda_job *job, const product *p, const shape *s,
                            const sp_gpu_kernel *kernel, const sp_gpu *gpu)
{
    const boxes b = boxes_of(job, p, s);
    const int groups = p->side.strips * sp_cut_pieces(cut_of(p, s));
    sp_tensor_map x, values, y, residual;
    sp_grid grid = grid_of(s);
    task t = {.count = job->index + p->side.count,
              .order = job->index + p->side.order,
              .step = job->index + p->side.step,
              .bias = job->bias,
              .strips = p->side.strips,
              .cross = p->side.cross,
              .tokens = (int)job->tokens,
              .made = (int)p->made};
    void *argument[] = {&x, &values, &y, &residual, &t};
    SP_TRY(sp_tensor_map_make(c, &b.x, &x));
    SP_TRY(sp_tensor_map_make(c, &b.values, &values));
    SP_TRY(sp_tensor_map_make(c, &b.y, &y));
    SP_TRY(sp_tensor_map_make(c, &b.residual, &residual));
    t.deal = deal_of(gpu, kernel, &grid, groups, (int)tiles_of(job, s), most_of(job, p, gpu, s));
    if (!t.deal.clusters)
        return sp_refuse(
            c, SPARTA_E_DEVICE,
            "kernel strips: the GPU has no room for a block of %u threads and %u bytes of shared "
            "memory; see whether SPARTA_CUDA_POINT is set, or another process limits it",
            grid.threads, grid.shared);
    if (s->band) t.deal.band = SP_MIN(s->band, t.deal.tiles), t.deal.ways = s->ways;
    grid.x = (unsigned)(t.deal.clusters * s->cl);
    return sp_gpu_launch(c, kernel, &grid, job->stream, argument);
}

static sparta_status run(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    const sp_gpu_kernel *kernel;
    sp_cuda_point point = {0};
    sp_choice wanted;
    const product p = product_of(job);
    if (!job->tokens || !p.made) return SPARTA_OK;
    SP_TRY(sp_choice_wanted(c, &choices, job, &wanted));
    const shape s = shape_of(job, &p, gpu, &wanted);
    point_of(&p, &s, &point);
    sp_cuda_set_job(&point, job);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_strips, "strips", &point, &kernel));
    return launch(c, job, &p, &s, kernel, gpu);
}

static bool kernel_of(const sp_cuda_job *job, const sp_gpu *gpu, int i, sp_cuda_asked *out)
{
    const product p = product_of(job);
    const sp_choice wanted = sp_choice_quietly(&choices, job);
    const shape s = shape_of(job, &p, gpu, &wanted);
    if (i || !job->tokens || !p.made) return false;
    *out = (sp_cuda_asked){.text = SP_CUDA_TEXT_strips, .entry = "strips"};
    point_of(&p, &s, &out->point);
    sp_cuda_set_job(&out->point, job);
    return true;
}

const sp_cuda_row sp_cuda_strips = {
    .name = "strips", .takes = takes, .room = room, .run = run, .choices = &choices, .kernel = kernel_of};

/* ------------------------------------------------------------------ points that tests compile */
bool sp_cuda_points_strips(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const struct {
        int height, width;
        sparta_verb verb;
        sparta_dtype dtype;
        int tokens;
        sp_words words;
    } sample[] = {
        {128, 128, SPARTA_MULTIPLY, SPARTA_BF16, 8192, {3, {SP_WORD_BIAS, SP_WORD_GELU, SP_WORD_ADD}}},
        {64, 64, SPARTA_MULTIPLY_TURNED, SPARTA_BF16, 8192, {0}},
        {128, 128, SPARTA_MULTIPLY, SPARTA_F16, 8192, {0}},
        {128, 128, SPARTA_MULTIPLY_TURNED, SPARTA_F16, 8192, {0}},
        {64, 64, SPARTA_MULTIPLY, SPARTA_F16, 8192, {0}},
        {64, 64, SPARTA_MULTIPLY, SPARTA_BF16, 8192, {3, {SP_WORD_BIAS, SP_WORD_ADD, SP_WORD_RELU}}},
        {64, 64, SPARTA_MULTIPLY, SPARTA_F16, 100, {2, {SP_WORD_BIAS, SP_WORD_GELU_TANH}}},
        {64, 64, SPARTA_MULTIPLY, SPARTA_F16, 40, {2, {SP_WORD_SILU, SP_WORD_MUL}}},
        {32, 32, SPARTA_MULTIPLY, SPARTA_F16, 8192, {1, {SP_WORD_BIAS}}},
        {32, 32, SPARTA_MULTIPLY_TURNED, SPARTA_F16, 8192, {0}},
        {16, 16, SPARTA_MULTIPLY, SPARTA_BF16, 8192, {0}},
        {16, 16, SPARTA_MULTIPLY_TURNED, SPARTA_F16, 8192, {0}},
        {128, 32, SPARTA_MULTIPLY, SPARTA_F16, 8192, {0}},
        {128, 32, SPARTA_MULTIPLY_TURNED, SPARTA_F16, 8192, {0}},
        {64, 16, SPARTA_MULTIPLY, SPARTA_F16, 8192, {0}},
        {32, 64, SPARTA_MULTIPLY, SPARTA_F16, 8192, {0}},
        {192, 64, SPARTA_MULTIPLY, SPARTA_F16, 8192, {0}},
    };
    static const sp_gpu h200 = {
        .processors = 132, .l2 = 50 << 20, .shared = 227 << 10, .target = SP_TARGET_SM90A};
    enum { WIDE = 6144, THROUGH_THE_SPACE = 2 };
    sp_choice wanted;
    if (!sp_choice_sample(&choices, i, SP_COUNT(sample), THROUGH_THE_SPACE, &wanted, &i)) return false;
    const sp_cuda_job job = {.verb = sample[i].verb,
                             .dtype = sample[i].dtype,
                             .rows = WIDE,
                             .cols = WIDE,
                             .height = sample[i].height,
                             .width = sample[i].width,
                             .down = WIDE / sample[i].height,
                             .right = WIDE / sample[i].width,
                             .tokens = sample[i].tokens,
                             .words = sample[i].words};
    const product p = product_of(&job);
    const shape s = shape_of(&job, &p, &h200, &wanted);
    *point = (sp_cuda_point){0};
    point_of(&p, &s, point);
    sp_cuda_set_job(point, &job);
    *entry = "strips";
    *target = SP_TARGET_SM90A;
    return true;
}
