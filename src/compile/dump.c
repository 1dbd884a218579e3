/* dump: the graph after one of the passes, as text. It goes the way of compile up to there: import, masks and schedule, propagation. */
#include "compile/lower.h"
#include <string.h>

static sparta_status print_after(sparta_ctx *cx, const char *onnx, const char *pass,
                                 const sparta_compile_options *options, sp_text *out)
{
    sp_propagate_report went;
    sp_opened o;
    SP_TRY(sp_compile_has_pass(cx, pass));
    SP_TRY(sp_compile_open(cx, onnx, options, &o));
    sp_graph *g = o.model->graph;
    sparta_status s = options->no_propagate ? SPARTA_OK : sp_compile_propagate(g, options, &o.obeyed, &went);
    if (s == SPARTA_OK) s = sp_lower_strip(g);
    if (s == SPARTA_OK) s = sp_compile_passes_to(g, pass);
    if (s == SPARTA_OK) sp_graph_print(g, out);
    if (s == SPARTA_OK) s = sp_model_check(cx, o.model);
    sp_compile_close(&o);
    return s;
}

sparta_status sparta_compile_dump(sparta_ctx *cx, const char *onnx, const char *pass,
                                  const sparta_compile_options *options,
                                  void (*say)(void *user, const char *text), void *user)
{
    sparta_compile_options all;
    sp_text text;
    if (!pass || !say) return sp_fail(cx, SPARTA_E_USAGE, "dump: a pass and a function are needed");
    SP_TRY(sp_options(cx, "dump", options, &all, sizeof all));
    sp_text_init(&text, cx);
    sparta_status s = SPARTA_OK;
    if (!strcmp(pass, "list"))
        sp_compile_list_passes(&text);
    else
        s = print_after(cx, onnx, pass, &all, &text);
    if (s == SPARTA_OK) s = text.status;
    if (s == SPARTA_OK) say(user, sp_text_str(&text));
    sp_text_free(&text);
    return s;
}
