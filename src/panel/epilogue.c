/* The epilogue of a product's job: prepared once, filled in for each place. */
#include "panel/common.h"

#define SP_WORD(id, name, slot, f, op, approximate, alpha)                                                   \
    _Static_assert((int)SP_END_##id == (int)SP_WORD_##id, name " has the same number in abi.h");
#include "builtin/epilogue.def"
#undef SP_WORD
_Static_assert(SP_COUNT(((struct sp_epilogue *)0)->word) == SP_EPILOGUE_WORDS, "abi.h has room for a list");

sparta_status sp_panel_end_prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    sp_words words;
    const char *problem = sp_words_of(&job->node->attrs, sp_panel_has(job, 2), sp_panel_has(job, 3), &words);
    if (problem) return sp_fail(cx, SPARTA_E_FORMAT, "%s: %s", job->node->name, problem);
    job->e.n = words.n;
    for (int i = 0; i < words.n; i++) job->e.word[i] = (int)words.word[i];
    return sp_panel_vector(cx, arena, job, 2, job->in[1].packed->dim[0], &job->e.bias);
}

const sp_slot sp_panel_product_in[4] = {
    {SP_F32_PANELS}, {SP_F32_PACKED}, {SP_F32_VECTOR, .maybe = true}, {SP_F32_PANELS, .maybe = true}};
const sp_slot sp_panel_product_rows_in[4] = {
    {SP_F32_ROWS}, {SP_F32_PACKED}, {SP_F32_VECTOR, .maybe = true}, {SP_F32_ROWS, .maybe = true}};

sparta_status sp_panel_product_check(sparta_ctx *cx, const sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    SP_TRY(sp_panel_want(cx, job, 0, w->dim[1]));
    SP_TRY(sp_panel_want(cx, job, -1, w->dim[0]));
    return sp_panel_want(cx, job, 3, w->dim[0]);
}

void sp_panel_end(const sp_job *job, const sp_place *at, int residual, struct sp_epilogue *out)
{
    *out = job->e;
    out->y = sp_panel_at(&job->out[0], at);
    out->residual = sp_panel_has(job, residual) ? sp_panel_at(&job->in[residual], at) : out->y;
    out->stat = job->stat ? sp_stat_at(&job->out[0], at) + at->part * 2 * SP_PANEL : 0;
}
