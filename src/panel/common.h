/* What the files of this room share: checks of operands. Not for other rooms. */
#ifndef SP_PANEL_COMMON_H
#define SP_PANEL_COMMON_H

#include "panel/panel.h"

static inline bool sp_panel_has(const sp_job *job, int i)
{
    return i < job->n_in && job->in[i].layout != SP_LAYOUT_ABSENT;
}
/* "input 2"; -1: "the output". */
const char *sp_panel_what(int i, char text[32]);
/* Input i (-1: the output) must have `features` features and the job's tokens, in rows without gaps; or be absent. */
sparta_status sp_panel_want(sparta_ctx *cx, const sp_job *job, int i, int64_t features) SP_MUST;
/* All operands must have as many features as the output. */
sparta_status sp_panel_want_alike(sparta_ctx *cx, const sp_job *job) SP_MUST;
/* `n` floats of input i, a constant in rows, copied and padded with zeros to a multiple of 4; all zeros when it is absent. */
sparta_status sp_panel_vector(sparta_ctx *cx, sp_arena *arena, const sp_job *job, int i, int64_t n,
                              const float **out) SP_MUST;
/* For products on panels, or on rows; in: x, w (packed), bias?, residual? */
extern const sp_slot sp_panel_product_in[4], sp_panel_product_rows_in[4];
#define SP_PRODUCT_SLOTS                                                                                     \
    {                                                                                                        \
        sp_panel_product_in, 4, 0,                                                                           \
        {                                                                                                    \
            SP_F32_PANELS                                                                                    \
        }                                                                                                    \
    }
#define SP_PRODUCT_ROWS_SLOTS                                                                                \
    {                                                                                                        \
        sp_panel_product_rows_in, 4, 0,                                                                      \
        {                                                                                                    \
            SP_F32_ROWS                                                                                      \
        }                                                                                                    \
    }
/* For products; in: x, w (packed), bias?, residual?: their epilogue when a session is made, their operands when sizes are
 * known, and the epilogue at one place, which adds input `residual`. */
sparta_status sp_panel_end_prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job) SP_MUST;
sparta_status sp_panel_product_check(sparta_ctx *cx, const sp_job *job) SP_MUST;
void sp_panel_end(const sp_job *job, const sp_place *at, int residual, struct sp_epilogue *out);
/* For products whose kernel follows positions and coordinates as they are stored: all of them are followed once, then the arrays of the weight
 * are in job->stored, one set a part of it. */
sparta_status sp_panel_leaves(sparta_ctx *cx, sp_arena *arena, sp_job *job) SP_MUST;
/* This part's share [from, to) of n things: in units of `unit`; or by their weight, of which before(job, i) lies before thing i. */
void sp_panel_share(int64_t n, int64_t unit, const sp_place *at, int64_t *from, int64_t *to);
void sp_panel_share_by(const sp_job *job, int64_t n, int64_t (*before)(const sp_job *job, int64_t i),
                       const sp_place *at, long *from, long *to);
/* Of the vectors of a panel, for products that do all rows of some: which, and whether there is something to do. */
bool sp_panel_share_vectors(const sp_job *job, const sp_place *at, long *first, long *vectors);

/* What both kernels of attention do alike: all arguments but k, v and dim_v. */
sparta_status sp_attention_prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job) SP_MUST;
sparta_status sp_attention_check_mask(sparta_ctx *cx, const sp_job *job) SP_MUST;
int64_t sp_attention_keys(const sp_job *job); /* of an item */
void sp_attention_fill(const sp_job *job, const sp_place *at, struct sp_attention_args *a);

/* Of an embed's job: where the rows of table i for tokens [token0, token0 + count) lie. */
void sp_panel_table_rows(const sp_job *embed, int i, int64_t token0, long count, const float **row);

/* Inputs of a range of quads or pairs, and how many ranges there are. */
static inline long sp_panel_range(const sp_packed *w)
{
    return (long)(w->format.argument[0] > 0 ? SP_MIN(w->format.argument[0], w->dim[1]) : w->dim[1]);
}
static inline long sp_panel_ranges(const sp_packed *w)
{
    return (long)(w->dim[1] / sp_panel_range(w) + (w->dim[1] % sp_panel_range(w) != 0));
}

#endif
