/* The index of a pattern: its size, made on the device (index.cu), and made in plain C. */
#include "cuda/cuda.h"
#include <string.h>

/* ------------------------------------------------------------------ its size */
/* Words of one side after `at`, as sp_side_of counts them; -1: too many. */
static int64_t side_end(int64_t side, int64_t lines, int64_t cross, int64_t at)
{
    const int64_t parts = side >= SP_STRIP ? 1 : SP_STRIP / side, strips = (lines + parts - 1) / parts,
                  step = (at + 3 * strips + 1 + 7) & ~(int64_t)7;
    int64_t words;
    if (__builtin_mul_overflow(strips, cross * 2 * parts, &words) || words > INT32_MAX) return -1;
    const int64_t end = (step + words + 7) & ~(int64_t)7;
    return end > INT32_MAX ? -1 : end;
}

int64_t sp_index_words(int64_t height, int64_t width, int64_t down, int64_t right)
{
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX || !sp_index_takes((int)height) ||
        !sp_index_takes((int)width))
        return 0;
    if (down < 0 || right < 0 || down > INT32_MAX || right > INT32_MAX) return 0;
    const int64_t across = side_end(height, down, right, SP_INDEX_HEAD);
    const int64_t turned = across < 0 ? -1 : side_end(width, right, down, across);
    return turned < 0 ? 0 : turned;
}

/* ------------------------------------------------------------------ on the device */
static sparta_status launch(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, int32_t *index)
{
    enum { THREADS = 256, WARPS = THREADS / 32 };
    const sp_gpu_kernel *lists, *order;
    const sp_cuda_point point = {0};
    int height = (int)job->height, width = (int)job->width, down = (int)job->down, right = (int)job->right,
        blocks = (int)SP_MIN(job->blocks, INT32_MAX);
    const void *pos = job->pos, *crd = job->crd;
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_index, "lists", &point, &lists));
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_index, "order", &point, &order));
    const unsigned strips = (unsigned)sp_side_across(height, width, down, right).strips +
                            (unsigned)sp_side_turned(height, width, down, right).strips;
    const sp_grid each = {.x = strips, .threads = THREADS},
                  both = {.x = 2 + (strips + WARPS - 1) / WARPS, .threads = THREADS};
    if (strips)
        SP_TRY(sp_gpu_launch(c, lists, &each, job->stream,
                             (void *[]){&index, &pos, &crd, &blocks, &height, &width, &down, &right}));
    return sp_gpu_launch(c, order, &both, job->stream,
                         (void *[]){&index, &pos, &blocks, &height, &width, &down, &right});
}

sparta_status sp_cuda_index(const sp_complaint *c, const sp_cuda_job *job, int32_t *index)
{
    const sp_gpu *gpu = sp_gpu_at(job->gpu);
    sp_gpu_visit visit;
    if (!gpu) return sp_refuse(c, SPARTA_E_DEVICE, "there is no GPU %d: %s", job->gpu, sp_gpu_problem());
    if (!sp_index_words(job->height, job->width, job->down, job->right))
        return sp_refuse(
            c, SPARTA_E_UNSUPPORTED,
            "there is no index of %lldx%lld blocks of %lldx%lld: sides are 16, 32 or a multiple of 64, "
            "and it has at most 2^31 - 1 words",
            (long long)job->down, (long long)job->right, (long long)job->height, (long long)job->width);
    SP_TRY(sp_gpu_enter(c, gpu, &visit));
    const sparta_status status = launch(c, job, gpu, index);
    sp_gpu_leave(&visit);
    return status;
}

bool sp_cuda_points_index(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const char *const entries[] = {"lists", "order"};
    static const sp_target targets[] = {SP_TARGET_SM90A, SP_TARGET_SM80};
    if (i < 0 || i >= (int)(SP_COUNT(entries) * SP_COUNT(targets))) return false;
    *point = (sp_cuda_point){0};
    *entry = entries[i / SP_COUNT(targets)];
    *target = targets[i % SP_COUNT(targets)];
    return true;
}

/* ------------------------------------------------------------------ in plain C */
/* A pattern on the CPU. */
typedef struct pattern {
    int blocks;
    const int32_t *pos, *crd;
} pattern;

/* The blocks of a row of blocks: from `begin` to before `end`, whatever pos holds. */
typedef struct range {
    int begin, end;
} range;

static range row_of(const pattern *p, int row)
{
    const int begin = SP_MIN(SP_MAX(p->pos[row], 0), p->blocks);
    return (range){begin, SP_MIN(SP_MAX(p->pos[row + 1], begin), p->blocks)};
}

/* The block at a line across of a part of a strip, or -1: the last of that column. */
static int block_across(const pattern *p, int row, int column)
{
    const range r = row_of(p, row);
    int found = -1;
    for (int b = r.begin; b < r.end; b++)
        if (p->crd[b] == column) found = b;
    return found;
}

/* Blocks of columns `column` to `column + parts` in a row of blocks. Where columns do not ascend this says what the device says: it searches. */
static void blocks_turned(const pattern *p, const sp_side *s, int row, int column, int32_t *block)
{
    const range r = row_of(p, row);
    int low = r.begin, high = r.end;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (p->crd[middle] < column)
            low = middle + 1;
        else
            high = middle;
    }
    for (int b = low; b < r.end && b - low < s->parts; b++) {
        const int64_t part = (int64_t)p->crd[b] - column;
        if (part >= 0 && part < s->parts && p->crd[b] < s->lines) block[part] = b;
    }
}

/* One step at `to` if the strip has a block on this line. */
static bool write_step(const pattern *p, const sp_side *s, bool turned, int strip, int line, int32_t *to)
{
    int32_t block[SP_STRIP / 16];
    bool any = false;
    for (int part = 0; part < s->parts; part++) {
        const int row = strip * s->parts + part;
        block[part] = turned || row >= s->lines ? -1 : block_across(p, row, line);
    }
    if (turned) blocks_turned(p, s, line, strip * s->parts, block);
    for (int part = 0; part < s->parts; part++) any |= block[part] >= 0;
    if (!any) return false;
    memset(to, 0, (size_t)s->parts * 2 * sizeof *to);
    to[0] = line;
    memcpy(to + 1, block, (size_t)s->parts * sizeof *to);
    return true;
}

static void write_side(const pattern *p, const sp_side *s, bool turned, int32_t *index)
{
    int32_t *count = index + s->count, *order = index + s->order, *item = index + s->item;
    item[0] = 0;
    for (int strip = 0; strip < s->strips; strip++) {
        int32_t *steps = index + s->step + (int64_t)strip * s->cross * 2 * s->parts;
        count[strip] = 0;
        for (int line = 0; line < s->cross; line++)
            count[strip] +=
                write_step(p, s, turned, strip, line, steps + (int64_t)count[strip] * 2 * s->parts);
        item[strip + 1] = item[strip] + (count[strip] + s->per - 1) / s->per;
    }
    for (int strip = 0; strip < s->strips; strip++) {
        int before = 0;
        for (int other = 0; other < s->strips; other++)
            before += count[other] > count[strip] || (count[other] == count[strip] && other < strip);
        order[before] = strip;
    }
}

static int what_is_wrong(const pattern *p, int down, int right)
{
    int wrong = p->pos[0] || p->pos[down] != p->blocks ? SP_INDEX_BAD_POS : 0;
    for (int row = 0; row < down && right > 0; row++) {
        const range r = row_of(p, row);
        if (r.begin != p->pos[row] || r.end != p->pos[row + 1]) wrong |= SP_INDEX_BAD_POS;
        for (int b = r.begin; b < r.end; b++) {
            if (p->crd[b] < 0 || p->crd[b] >= right) wrong |= SP_INDEX_BAD_CRD;
            if (b > r.begin && p->crd[b - 1] >= p->crd[b]) wrong |= SP_INDEX_BAD_ORDER;
        }
    }
    return wrong;
}

void sp_index_plain(int64_t height, int64_t width, int64_t down, int64_t right, int64_t blocks,
                    const int32_t *pos, const int32_t *crd, int32_t *index)
{
    const pattern p = {(int)SP_MIN(blocks, INT32_MAX), pos, crd};
    const sp_side across = sp_side_across((int)height, (int)width, (int)down, (int)right),
                  turned = sp_side_turned((int)height, (int)width, (int)down, (int)right);
    const int32_t head[SP_INDEX_HEAD] = {SP_INDEX_MARK, what_is_wrong(&p, (int)down, (int)right),
                                         across.strips, turned.strips};
    memcpy(index, head, sizeof head);
    write_side(&p, &across, false, index);
    write_side(&p, &turned, true, index);
}
