/* Pruning of a file in one shot, as a program asks for it: rooms import, compile and prune, and what came of each weight behind a handle. */
#include "api/api.h"
#include <math.h>
#include <string.h>

struct sparta_pruned {
    sp_arena *arena; /* of everything below, and of the handle itself */
    int64_t items;
    int n;
    sparta_pruned_weight *weight;
};

static sparta_status method_of(sparta_ctx *cx, const char *text, sp_prune_method *out)
{
    static const char *const methods[] = {"magnitude", "wanda", "sparsegpt"};
    *out = SP_PRUNE_MAGNITUDE;
    for (int i = 0; text && i < (int)SP_COUNT(methods); i++)
        if (!strcmp(text, methods[i])) {
            *out = (sp_prune_method)i;
            return SPARTA_OK;
        }
    if (!text) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE,
                   "prune: there is no method %.60s; there are magnitude, wanda and sparsegpt", text);
}

static sparta_status request_of(sparta_ctx *cx, const sparta_prune_options *o, sp_prune_request *out)
{
    *out = (sp_prune_request){.data = o->data,
                              .keep = o->keep,
                              .threads = o->threads,
                              .progress = o->progress,
                              .user = o->progress_user};
    if (!o->pattern)
        return sp_fail(cx, SPARTA_E_USAGE, "prune: which pattern? options.pattern is e.g. 4x1:0.9 or 2:4");
    while (o->keep && o->keep[out->n_keep]) out->n_keep++;
    SP_TRY(sp_prune_parse(cx, o->pattern, &out->spec));
    return method_of(cx, o->method, &out->method);
}

/* The graph's names go with it; reasons are constants. */
static sparta_status fill(sparta_ctx *cx, const sp_prune_report *r, sparta_pruned *out)
{
    out->items = r->items;
    out->weight = sp_arena_array(out->arena, (size_t)r->n + (size_t)r->n_left + 1, sizeof *out->weight);
    SP_NEED(cx, out->weight);
    for (int i = 0; i < r->n; i++) {
        const sp_prune_row *row = &r->row[i];
        out->weight[out->n++] =
            (sparta_pruned_weight){.name = sp_arena_string(out->arena, row->weight),
                                   .rank = 2,
                                   .dim = {row->n, row->k},
                                   .density = row->density,
                                   .norm_kept = row->norm_kept,
                                   .error = row->error,
                                   .left = row->why ? sp_arena_string(out->arena, row->why) : ""};
    }
    for (int i = 0; i < r->n_left; i++) {
        const sp_left *l = &r->left[i];
        sparta_pruned_weight w = {.name = sp_arena_string(out->arena, l->weight),
                                  .rank = l->tensor->rank,
                                  .density = NAN,
                                  .norm_kept = NAN,
                                  .error = NAN,
                                  .left = sparta_left_reason(l->why)};
        memcpy(w.dim, l->tensor->dim, sizeof w.dim);
        out->weight[out->n++] = w;
    }
    for (int i = 0; i < out->n; i++)
        if (!out->weight[i].name || !out->weight[i].left) return sp_ctx_status(cx);
    return SPARTA_OK;
}

static sparta_status run(sparta_ctx *cx, const char *onnx, const char *to, const sparta_prune_options *given,
                         const sparta_compile_options *options, sparta_pruned *out)
{
    sparta_prune_options o;
    sparta_compile_options compile;
    sp_prune_request request;
    sp_prune_report report;
    sp_opened opened;
    SP_TRY(sp_options(cx, "prune", given, &o, sizeof o));
    SP_TRY(sp_options(cx, "prune", options, &compile, sizeof compile));
    SP_TRY(request_of(cx, &o, &request));
    SP_TRY(sp_compile_open(cx, onnx, &compile, &opened));
    sparta_status s = sp_prune_model(opened.model->graph, &request, &report);
    if (s == SPARTA_OK) s = sp_model_check(cx, opened.model);
    if (s == SPARTA_OK) s = fill(cx, &report, out);
    if (s == SPARTA_OK) s = sp_onnx_write(cx, opened.model->graph, to);
    sp_compile_close(&opened);
    return s;
}

sparta_status sparta_prune_file(sparta_ctx *cx, const char *onnx, const char *pruned,
                                const sparta_prune_options *given, const sparta_compile_options *options,
                                sparta_pruned **out)
{
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_pruned *p = sp_arena_alloc(arena, sizeof *p);
    if (p) *p = (sparta_pruned){.arena = arena};
    const sparta_status status = p ? run(cx, onnx, pruned, given, options, p) : sp_ctx_status(cx);
    if (status || !out)
        sp_arena_free(arena);
    else
        *out = p;
    return status;
}

void sparta_pruned_free(sparta_pruned *p)
{
    if (p) sp_arena_free(p->arena);
}

const sparta_pruned_weight *sparta_pruned_weight_at(const sparta_pruned *p, int i)
{
    return i >= 0 && i < p->n ? &p->weight[i] : NULL;
}

int64_t sparta_pruned_items(const sparta_pruned *p)
{
    return p->items;
}
