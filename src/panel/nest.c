/* nest, nest_lanes: what a text in index notation says (room kernel), by code that was generated from it (room emit). Operands are those of the text, inputs
 * first, then outputs.
 *
 *     nest         all in rows; one place, the largest loop is cut for the threads
 *     nest_lanes   token by token: activations in panels, as (tokens, features) in the text; constants in rows. A part is of vectors of tokens
 *
 * The text is an attribute of a plan and may say anything: it is parsed, its operands must be those at hand, and every access is shown to stay
 * inside at the sizes of a run before code that follows it is called. */
#include "kernel/kernel.h"
#include "panel/common.h"

enum { FULL, LAST }; /* which bound of nest_lanes: of a panel of 64 tokens, of the last one */

static const sp_operand *operand(const sp_job *job, int i)
{
    return i < job->n_in ? &job->in[i] : &job->out[i - job->n_in];
}

static sparta_status fits(sparta_ctx *cx, const sp_job *job, int i)
{
    const sp_nest_operand *want = &job->nest->operand[i];
    const sp_operand *o = operand(job, i);
    const bool lanes = sp_layout_has_lanes(o->layout);
    const char *wrong = want->out != (i >= job->n_in)                  ? "is read where it should be written"
                        : want->dtype != o->tensor.dtype               ? "has another type"
                        : want->lanes != lanes                         ? "lies in another layout"
                        : lanes && sparta_dtype_size(want->dtype) != 4 ? "has lanes that are no words"
                        : want->rank != (lanes ? 2 : o->tensor.rank)   ? "has another rank"
                        : o->layout != SP_LAYOUT_ROWS && !lanes        ? "is packed"
                                                                       : NULL;
    if (!wrong) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "%s: operand %d of its nest %s", job->node->name, i, wrong);
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const int n = job->n_in + job->n_out;
    job->nest = sp_arena_array(arena, 1, sizeof *job->nest);
    job->bound = sp_arena_array(arena, 2, sizeof *job->bound);
    if (!job->nest || !job->bound) return sp_ctx_status(cx);
    if (job->stat) return sp_fail(cx, SPARTA_E_FORMAT, "%s: a nest leaves no statistics", job->node->name);
    if (sp_nest_parse(cx, job->text ? job->text : "", job->nest) != SPARTA_OK)
        return sp_fail_in(cx, "%s", job->node->name);
    if (job->nest->operands != n)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: its nest has %d operands, not %d", job->node->name,
                       job->nest->operands, n);
    for (int i = 0; i < n; i++) SP_TRY(fits(cx, job, i));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ rows */

static sparta_status check_rows(sparta_ctx *cx, const sp_job *job)
{
    sparta_tensor tensor[SP_NEST_OPERANDS];
    for (int i = 0; i < job->nest->operands; i++) tensor[i] = operand(job, i)->tensor;
    const sparta_status s = sp_nest_bind(cx, job->nest, tensor, &job->bound[FULL]);
    return s == SPARTA_OK ? s : sp_fail_in(cx, "%s", job->node->name);
}

static size_t work_rows(const sp_job *job)
{
    return sp_nest_scratch(job->nest, &job->bound[FULL]);
}

static bool fill_rows(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    void *data[SP_NEST_OPERANDS];
    for (int i = 0; i < job->nest->operands; i++) data[i] = operand(job, i)->tensor.data;
    return sp_nest_cut(job->nest, &job->bound[FULL], data, at->part, at->parts, at->work, &out->nest);
}

/* To wake a thread takes longer than to compute a few thousand elements. */
static int parts_of(const sp_job *job, int most)
{
    enum { ALONE = 1 << 14 };
    return (int)SP_MIN(sp_nest_work(job->nest, &job->bound[FULL]) / ALONE + 1, (int64_t)most);
}

static const sp_slot any_rows[] = {{.layouts = SP_IN(ROWS), .dtypes = ~0u}};

const sp_panel_kernel sp_panel_nest = {.name = "nest",
                                       .generated = true,
                                       .whole = true,
                                       .parts = parts_of,
                                       .prepare = prepare,
                                       .check = check_rows,
                                       .work = work_rows,
                                       .fill = fill_rows,
                                       .slots = {any_rows, 1, 1, {.layouts = SP_IN(ROWS), .dtypes = ~0u}}};

/* ------------------------------------------------------------------ lanes */

/* Sizes and strides of a panel of so many tokens, whole vectors of them: lanes past the last token hold anything. */
static sparta_status bind_panel(sparta_ctx *cx, const sp_job *job, int64_t tokens, sp_nest_bound *out)
{
    sparta_tensor tensor[SP_NEST_OPERANDS];
    for (int i = 0; i < job->nest->operands; i++) {
        const sp_operand *o = operand(job, i);
        tensor[i] = o->tensor;
        if (!sp_layout_has_lanes(o->layout)) continue;
        if (sp_panel_tokens(&o->tensor) != job->tokens)
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: operand %d has %ld tokens, not %ld", job->node->name, i,
                           (long)sp_panel_tokens(&o->tensor), (long)job->tokens);
        const int64_t dim[2] = {(tokens + 15) / 16 * 16, sp_panel_features(&o->tensor)};
        tensor[i] = sparta_tensor_view(o->tensor.dtype, 2, dim, NULL);
        tensor[i].stride[0] = 1, tensor[i].stride[1] = o->lanes.row;
    }
    const sparta_status s = sp_nest_bind(cx, job->nest, tensor, out);
    return s == SPARTA_OK ? s : sp_fail_in(cx, "%s", job->node->name);
}

static sparta_status check_lanes(sparta_ctx *cx, const sp_job *job)
{
    SP_TRY(bind_panel(cx, job, SP_PANEL, &job->bound[FULL]));
    return bind_panel(cx, job, (job->tokens - 1) % SP_PANEL + 1, &job->bound[LAST]);
}

static size_t work_lanes(const sp_job *job)
{
    return SP_MAX(sp_nest_scratch(job->nest, &job->bound[FULL]),
                  sp_nest_scratch(job->nest, &job->bound[LAST]));
}

static bool fill_lanes(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    const sp_nest_bound *bound = &job->bound[at->panel == job->panels - 1 ? LAST : FULL];
    void *data[SP_NEST_OPERANDS];
    for (int i = 0; i < job->nest->operands; i++) {
        const sp_operand *o = operand(job, i);
        data[i] = sp_layout_has_lanes(o->layout) ? sp_panel_at(o, at) : o->tensor.data;
    }
    return sp_nest_cut(job->nest, bound, data, at->part, at->parts, at->work, &out->nest);
}

static const sp_slot any_lanes[] = {{.layouts = SP_IN(PANEL) | SP_IN(ROWS), .dtypes = ~0u}};

const sp_panel_kernel sp_panel_nest_lanes = {
    .name = "nest_lanes",
    .generated = true,
    .prepare = prepare,
    .check = check_lanes,
    .work = work_lanes,
    .fill = fill_lanes,
    .slots = {any_lanes, 1, 1, {.layouts = SP_IN(PANEL), .dtypes = ~0u}}};
