/* Do two models give the same answer? As a program asks for it: room measure's comparison behind a handle. */
#include "api/api.h"

struct sparta_verified {
    sp_arena *arena; /* of everything below, and of the handle itself */
    sparta_verified_facts facts;
    int n;
    sparta_verified_output *output;
};

static sparta_status fill(sparta_ctx *cx, const sp_verify_result *from, sparta_verified *out)
{
    out->facts.same = from->ok;
    if (from->first_difference) {
        out->facts.first_difference = sp_arena_string(out->arena, from->first_difference);
        SP_NEED(cx, out->facts.first_difference);
    }
    for (int i = 0; i < from->n_sizes; i++) out->facts.sizes[i] = from->sizes[i];
    out->output = sp_arena_array(out->arena, (size_t)from->n_outputs + 1, sizeof *out->output);
    SP_NEED(cx, out->output);
    out->n = from->n_outputs;
    for (int i = 0; i < from->n_outputs; i++) {
        const sp_verify_output *o = &from->output[i];
        out->output[i] =
            (sparta_verified_output){o->name, o->ok, o->max_abs, o->max_rel, o->cosine, o->allowed};
    }
    return SPARTA_OK;
}

static sparta_status run(sparta_ctx *cx, const char *a, const char *against,
                         const sparta_verify_options *given, const sparta_compile_options *options,
                         sparta_verified *out)
{
    sparta_verify_options o;
    sp_verify_result result;
    sp_verify_request r = {.a = a, .against = against, .compile = {.runs_here = true}};
    SP_TRY(sp_options(cx, "verify", given, &o, sizeof o));
    SP_TRY(sp_options(cx, "verify", options, &r.compile.options, sizeof r.compile.options));
    if (o.n_inputs < 0 || (o.n_inputs > 0 && !o.inputs))
        return sp_fail(cx, SPARTA_E_USAGE, "verify: n_inputs is %d and inputs is %s; give both or neither",
                       o.n_inputs, o.inputs ? "given" : "NULL");
    const sparta_compile_options *c = &r.compile.options;
    r.tolerance = sp_compile_tolerance(c);
    r.masks = c->masks;
    r.seed = o.seed;
    r.threads = c->threads;
    r.inputs = o.n_inputs ? o.inputs : NULL;
    r.n_inputs = o.n_inputs;
    SP_TRY(sp_api_dims(cx, out->arena, c->dims, &r.sizes));
    r.compile.options.dims = NULL; /* sizes of runs, not of what is compiled */
    SP_TRY(sp_verify(cx, out->arena, &r, &result));
    return fill(cx, &result, out);
}

sparta_status sparta_verify(sparta_ctx *cx, const char *a, const char *against,
                            const sparta_verify_options *given, const sparta_compile_options *options,
                            sparta_verified **out)
{
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_verified *v = sp_arena_alloc(arena, sizeof *v);
    if (v) *v = (sparta_verified){.arena = arena};
    const sparta_status status = v ? run(cx, a, against, given, options, v) : sp_ctx_status(cx);
    if (status)
        sp_arena_free(arena);
    else
        *out = v;
    return status;
}

void sparta_verified_free(sparta_verified *v)
{
    if (v) sp_arena_free(v->arena);
}

const sparta_verified_facts *sparta_verified_facts_of(const sparta_verified *v)
{
    return &v->facts;
}

const sparta_verified_output *sparta_verified_output_at(const sparta_verified *v, int i)
{
    return i >= 0 && i < v->n ? &v->output[i] : NULL;
}
