/* The format of a constant matrix that nobody asked for: of the patterns found in it, the one whose arrays take the fewest bytes, where that is at most
 * half of what all its elements take. */
#include "specialize/specialize.h"
#include "store/store.h"

static sparta_status note(sparta_specialized *s, const sp_value *v, const char *reason)
{
    SP_NEED(s->cx, reason);
    s->value[v->id].reason = reason;
    return SPARTA_OK;
}

static sparta_status choose(sparta_specialized *s, const sp_value *v, const sp_mask_facts *facts,
                            const char **out)
{
    const double dense = 4.0 * (double)sparta_tensor_elements(v->constant);
    const sp_finding *best = NULL;
    for (int64_t i = 0; i < facts->finding_count && !best; i++) { /* by bytes */
        sp_format f;
        const sp_finding *found = &facts->finding[i];
        if (found->missed || 2 * (double)found->bytes > dense) continue;
        const sparta_status status = sp_format_parse(s->cx, found->format, &f);
        if (status == SPARTA_E_MEMORY) return status;
        if (status == SPARTA_OK && !f.opaque && !f.sum) best = found;
    }
    if (!best)
        return note(s, v,
                    sp_arena_printf(s->arena, "%.0f %% of it is there: no format takes half of its bytes",
                                    1e2 * (double)facts->present / SP_MAX(dense / 4, 1)));
    *out = sp_arena_string(s->arena, best->format);
    SP_NEED(s->cx, *out);
    return note(s, v,
                sp_arena_printf(s->arena, "%s found: %.0f %% of the bytes of all elements", best->name,
                                1e2 * (double)best->bytes / dense));
}

sparta_status sp_specialize_choose(sparta_specialized *s, const sp_value *v, const char **out)
{
    sp_mask mask;
    *out = sp_specialize_asked(s, v);
    if (*out) return note(s, v, "asked for");
    if (!v->constant || v->constant->rank != 2 || v->constant->dtype != SPARTA_F32) return SPARTA_OK;
    if (s->value[v->id].format) { /* another step reads it too */
        *out = s->value[v->id].format;
        return SPARTA_OK;
    }
    sp_mask_facts *facts = sp_arena_array(s->arena, 1, sizeof *facts);
    SP_NEED(s->cx, facts);
    SP_TRY(sp_mask_of(s->cx, v->constant, &mask));
    sparta_status status = sp_mask_report(s->cx, &mask, &(sp_report_options){.slack = 1.05}, facts);
    sp_mask_free(s->cx, &mask);
    return status ? status : choose(s, v, facts, out);
}
