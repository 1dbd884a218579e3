/* What the files of this room share: checks of operands. Not for other rooms. */
#ifndef SPARTA_PANEL_COMMON_H
#define SPARTA_PANEL_COMMON_H

#include "panel/panel.h"

/* Operand `o` must be f32 panels of `features` features and the job's tokens. */
sparta_status sparta_panel_want(sparta_ctx *cx, const sparta_job *job, const sparta_operand *o,
                                int64_t features, const char *what) SPARTA_MUST;
/* `n` floats of a constant in rows, copied and padded with zeros to a multiple of 4; all zeros when it is absent. */
sparta_status sparta_panel_vector(sparta_ctx *cx, sparta_arena *arena, const sparta_job *job,
                                  const sparta_operand *o, int64_t n, const float **out) SPARTA_MUST;
/* For products on panels; in: x, w (packed), bias?, residual? */
static inline bool sparta_panel_has_residual(const sparta_job *job)
{
    return job->n_in > 3 && job->in[3].kind != SPARTA_OPERAND_ABSENT;
}
sparta_status sparta_panel_product_check(sparta_ctx *cx, const sparta_job *job) SPARTA_MUST;
/* This part's share [from, to) of n things, in units of `unit`. */
void sparta_panel_share(int64_t n, int64_t unit, const sparta_place *at, int64_t *from, int64_t *to);

/* Of an embed's job: where the rows of table i for tokens [token0, token0 + count) lie. */
void sparta_panel_table_rows(const sparta_job *embed, int i, int64_t token0, long count, const float **row);

/* For kernels that need nothing prepared. */
sparta_status sparta_panel_unprepared(sparta_ctx *cx, sparta_arena *arena, sparta_job *job) SPARTA_MUST;
/* For pack and unpack: f32 rows on one side, panels of the same tokens and features on the other; the share of a place, and where
 * its tokens lie in the rows. */
sparta_status sparta_panel_want_rows(sparta_ctx *cx, const sparta_job *job, const sparta_operand *rows,
                                     const sparta_operand *panels) SPARTA_MUST;
float *sparta_panel_tokens_at(const sparta_job *job, const sparta_place *at, const sparta_operand *rows,
                              struct sparta_pack_args *out);

/* Inputs of a range of quads or pairs, and how many ranges there are. */
static inline long sparta_panel_range(const sparta_packed *w)
{
    return (long)(w->format.argument[0] > 0 ? SPARTA_MIN(w->format.argument[0], w->dim[1]) : w->dim[1]);
}
static inline long sparta_panel_ranges(const sparta_packed *w)
{
    return (long)(w->dim[1] / sparta_panel_range(w) + (w->dim[1] % sparta_panel_range(w) != 0));
}

#endif
