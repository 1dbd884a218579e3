/* task: what rows look at in a node of the graph, the bed it is timed on, and the code that kernels of it run. */
#include "compile/lower.h"
#include "run/run.h"
#include <string.h>

/* Sizes that shrink as a symbol grows may become more than this says, which costs time and nothing else. What cannot be worked out (a
 * symbol without a bound, an overflow) is no failure: the tokens are not known to be few, and nothing is left of the attempt but that. */
sparta_status sp_lower_most_tokens(sparta_ctx *cx, const sp_graph *g, const sp_value *v, int64_t *out)
{
    sp_symbols all;
    int64_t most[SP_GRAPH_SYMBOLS], tokens = v->dims.rank >= 2;
    sp_bindings b = {0, all.name, most};
    SP_TRY(sp_input_symbols(cx, g, &all));
    for (int i = 0; i < all.n; i++) {
        all.name[b.n] = all.name[i];
        most[b.n] = sp_symbol_bound(g, all.name[i]).most;
        b.n += most[b.n] <= SP_FEW_TOKENS; /* one that may be more makes for many tokens */
    }
    for (int d = 0; d + 1 < v->dims.rank && tokens; d++) {
        int64_t size = 0;
        const sparta_status s = sp_expr_eval(cx, v->dims.dim[d], &b, &size);
        if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
        if (s != SPARTA_OK) sp_ctx_clear(cx);
        if (size < 1 || !sp_int_mul(tokens, size, &tokens)) tokens = 0;
    }
    if (g->most_tokens && v->dims.rank >= 2)
        tokens = tokens ? SP_MIN(tokens, g->most_tokens) : g->most_tokens;
    *out = tokens;
    return SPARTA_OK;
}

double sp_lower_modelled(const sp_task *t, const sp_implement *im)
{
    const int64_t tokens = sp_lower_tokens(t);
    return im->cost(t) * (double)(sp_implement_in_lanes(im) ? (tokens + 15) / 16 * 16 : tokens) * 2 /
           1e5; /* at 100 Gop/s */
}

sparta_status sp_lower_task(sparta_ctx *cx, const sp_graph *g, const sp_node *n, sp_target target,
                            lower_node *out)
{
    int64_t tokens = 0;
    out->kernel = -1;
    if (n->n_in && n->in[0]) SP_TRY(sp_lower_most_tokens(cx, g, n->in[0], &tokens));
    SP_TRY(sp_implement_task(cx, n, target, tokens, &out->task));
    out->task.timed = g->most_tokens ? tokens : 0;
    return SPARTA_OK;
}

const sp_implement *sp_lower_first(const sp_task *t, bool dense_only)
{
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        if (!(im->format && t->mask) && !(im->sparse && dense_only) && sp_implement_matches(im, t)) return im;
    }
    return &sp_implement_builtin;
}

void sp_lower_forget(sparta_ctx *cx, lower_node *ln)
{
    if (ln->packed) sp_packed_free(cx, ln->packed);
    ln->packed = NULL;
    sp_implement_task_free(cx, &ln->task);
}

sparta_status sp_lower_asked(sparta_ctx *cx, lower_node *ln, sp_target target, double limit)
{
    const sp_effect *pin = ln->pin;
    sparta_tensor w;
    sp_format format;
    sp_store_stats stats = {0};
    ln->task.asked = pin != NULL;
    if (!pin || !sp_implement_stores_any(pin->implement) || !sp_implement_weight(ln->node, &w))
        return SPARTA_OK;
    sparta_status s = sp_format_parse(cx, pin->format, &format);
    if (s == SPARTA_OK) s = sp_format_check(cx, &format, 2, w.dim); /* merged layers have another shape */
    if (s == SPARTA_OK) s = sp_store_measure(cx, &format, &w, ln->task.mask, &stats);
    if (s == SPARTA_OK) s = sp_store_within(cx, &format, &stats, limit);
    if (s != SPARTA_OK) {
        sp_fail_in(cx, "format %.100s of '%.100s'", pin->text, ln->node->name);
        return sp_lower_fail_at(cx, pin->at);
    }
    return sp_implement_ask(cx, pin->format, pin->kernel, target, &ln->task);
}

sp_bed_request sp_lower_bed(const lower_node *ln, const sp_bindings *sizes)
{
    return (sp_bed_request){.task = &ln->task,
                            .tokens = ln->task.each ? sp_lower_tokens(&ln->task) : 0,
                            .sizes = sizes,
                            .seed = 7};
}

sparta_status sp_lower_kernel(lowering *l, const char *kernel, const char *parameters, int *out)
{
    for (int i = 0; i < l->n_kernels; i++)
        if (!strcmp(l->kernel[i].kernel, kernel) && !strcmp(l->kernel[i].parameters, parameters)) {
            *out = i;
            return SPARTA_OK;
        }
    SP_GROW(l->arena, l->kernel, l->n_kernels, l->room_kernels);
    sp_text text;
    sp_text_init(&text, l->cx);
    sparta_status s = sp_implement_text(kernel, parameters, l->target[SP_DEVICE_CPU], &text);
    lower_kernel k = {.kernel = kernel,
                      .parameters = sp_arena_string(l->arena, parameters),
                      .source = s == SPARTA_OK ? sp_arena_string(l->arena, sp_text_str(&text)) : NULL};
    if (s == SPARTA_OK && (!k.parameters || !k.source)) s = sp_ctx_status(l->cx);
    sp_text_free(&text);
    SP_TRY(s);
    l->kernel[l->n_kernels] = k;
    *out = l->n_kernels++;
    return SPARTA_OK;
}

sparta_status sp_lower_want(lowering *l, const sp_implement *im, const sp_task *t, int *out)
{
    sp_text text;
    *out = -1;
    if (!im->kernel) return SPARTA_OK;
    sp_text_init(&text, l->cx);
    if (im->parameters) im->parameters(im, t, &text);
    const sparta_status s =
        text.status == SPARTA_OK ? sp_lower_kernel(l, im->kernel, sp_text_str(&text), out) : text.status;
    sp_text_free(&text);
    return s;
}

sparta_status sp_lower_build(lowering *l)
{
    const sp_target target = l->target[SP_DEVICE_CPU];
    int n = 0;
    const char **text = sp_arena_array(l->arena, (size_t)l->n_kernels + 1, sizeof *text);
    const sp_object **object = sp_arena_array(l->arena, (size_t)l->n_kernels + 1, sizeof *object);
    if (!text || !object) return sp_ctx_status(l->cx);
    for (int i = 0; i < l->n_kernels; i++)
        if (!l->kernel[i].built) text[n++] = l->kernel[i].source;
    SP_TRY(sp_implement_code_all(l->cx, target, n, text, object));
    for (int i = 0, at = 0; i < l->n_kernels; i++) {
        if (l->kernel[i].built) continue;
        l->kernel[i].object = object[at++];
        l->kernel[i].built = true;
    }
    return SPARTA_OK;
}
