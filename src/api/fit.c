/* Pruning to a time, as a program asks for it: room measure's fit behind a handle. */
#include "api/api.h"

struct sparta_fit {
    sp_arena *arena; /* of everything below, and of the handle itself */
    sparta_fit_facts facts;
    int n;
    sparta_fit_layer *layer;
};

static sparta_status fill(sparta_ctx *cx, const sp_fit *from, sparta_fit *out)
{
    out->facts = (sparta_fit_facts){.target_ms = from->target_ms,
                                    .dense_ms = from->dense_ms,
                                    .expected_ms = from->expected_ms,
                                    .measured_ms = from->measured_ms,
                                    .threads = from->threads,
                                    .rounds = from->rounds,
                                    .noisy = from->noisy};
    out->layer = sp_arena_array(out->arena, (size_t)from->n + 1, sizeof *out->layer);
    SP_NEED(cx, out->layer);
    out->n = from->n;
    for (int i = 0; i < from->n; i++) {
        const sp_fit_row *row = &from->row[i];
        out->layer[i] = (sparta_fit_layer){row->weight,   row->layer, row->n,     row->k,      row->tokens,
                                           row->dense_us, row->us,    row->error, row->pattern};
    }
    return SPARTA_OK;
}

static sparta_status run(sparta_ctx *cx, const char *model, const sparta_fit_options *given,
                         const sparta_compile_options *options, sparta_fit *out)
{
    sparta_fit_options o;
    sp_fit_request r = {.model = model, .seconds = 1, .compile = {.runs_here = true}};
    sp_fit found;
    SP_TRY(sp_options(cx, "fit", given, &o, sizeof o));
    SP_TRY(sp_options(cx, "fit", options, &r.compile.options, sizeof r.compile.options));
    r.ms = o.target_ms;
    r.speedup = o.target_speedup;
    r.pattern = o.patterns;
    while (o.patterns && o.patterns[r.n_patterns]) r.n_patterns++;
    if (o.seconds > 0) r.seconds = o.seconds;
    r.error = o.error;
    r.time = o.time;
    r.user = o.user;
    SP_TRY(sp_fit_run(cx, out->arena, &r, &found));
    return fill(cx, &found, out);
}

sparta_status sparta_fit_model(sparta_ctx *cx, const char *model, const sparta_fit_options *given,
                               const sparta_compile_options *options, sparta_fit **out)
{
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_fit *f = sp_arena_alloc(arena, sizeof *f);
    if (f) *f = (sparta_fit){.arena = arena};
    const sparta_status status = f ? run(cx, model, given, options, f) : sp_ctx_status(cx);
    if (status)
        sp_arena_free(arena);
    else
        *out = f;
    return status;
}

void sparta_fit_free(sparta_fit *f)
{
    if (f) sp_arena_free(f->arena);
}

const sparta_fit_facts *sparta_fit_facts_of(const sparta_fit *f)
{
    return &f->facts;
}

const sparta_fit_layer *sparta_fit_layer_at(const sparta_fit *f, int i)
{
    return i >= 0 && i < f->n ? &f->layer[i] : NULL;
}
