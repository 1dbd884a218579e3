/* map: an epilogue without a product, element by element. in: a, b? in panels. Serves Add, Mul and the activations that no product could take. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_map.h"

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    (void)arena;
    const int word = sp_word_of(job->node->op, &job->node->attrs);
    if (word < 0 || sp_panel_has(job, 1) != (sp_word_row((sp_word_id)word)->slot > 0))
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: not an operator of kernel map", job->node->name);
    job->e = (struct sp_epilogue){.n = 1, .word = {word}};
    return SPARTA_OK;
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_map_args *a = &out->map;
    int64_t from, to;
    sp_panel_share(sp_panel_features(&job->out[0].tensor), 4, at, &from, &to);
    a->row0 = (long)from, a->row1 = (long)to;
    a->a = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 1, &a->e);
    a->vectors = sp_panel_vectors(job, at->panel);
    return to > from;
}

static const sp_slot slots[] = {{SP_F32_PANELS}, {SP_F32_PANELS, .maybe = true}};

const sp_panel_kernel sp_panel_map = {.name = "map",
                                      .portable = sp_kernel_map,
                                      .words = true,
                                      .prepare = prepare,
                                      .check = sp_panel_want_alike,
                                      .fill = fill,
                                      .slots = {slots, SP_COUNT(slots), 0, {SP_F32_PANELS}}};
