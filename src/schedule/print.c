/* The canonical text: definitions, model, tensors; one clause a line. */
#include "schedule/inside.h"
#include <string.h>

void sparta_schedule_print_string(const char *s, sparta_text *out)
{
    sparta_text_put(out, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') sparta_text_put(out, "\\", 1);
        sparta_text_put(out, s, 1);
    }
    sparta_text_put(out, "\"", 1);
}

void sparta_schedule_print_call(const sparta_schedule_call *call, sparta_text *out)
{
    sparta_text_printf(out, "%s", call->name);
    for (int i = 0; i < call->n; i++) {
        const sparta_schedule_arg *a = &call->arg[i];
        sparta_text_printf(out, "%s%s%s", i ? ", " : "(", a->name ? a->name : "", a->name ? "=" : "");
        if (a->quoted)
            sparta_schedule_print_string(a->text, out);
        else
            sparta_text_printf(out, "%s", a->text);
    }
    if (call->n) sparta_text_printf(out, ")");
}

static void print_model(const sparta_schedule *s, sparta_text *out)
{
    if (!s->target && !s->n_dims) return;
    sparta_text_printf(out, "model {\n");
    if (s->target) sparta_text_printf(out, "    target %s\n", s->target);
    for (int i = 0; i < s->n_dims; i++)
        sparta_text_printf(out, "    dim %s=%s\n", s->dim[i].name, s->dim[i].text);
    sparta_text_printf(out, "}\n");
}

void sparta_schedule_write(const sparta_schedule *s, sparta_text *out)
{
    for (int i = 0; i < s->n_formats; i++)
        sparta_text_printf(out, "format %s = %s\n", s->format[i].name, s->format[i].text);
    for (int i = 0; i < s->n_sparsifiers; i++)
        sparta_text_printf(out, "sparsifier %s = %s\n", s->sparsifier[i].name, s->sparsifier[i].text);
    print_model(s, out);
    for (int i = 0; i < s->n_rules; i++) {
        const sparta_schedule_rule *rule = s->rule[i];
        sparta_text_printf(out, "tensor ");
        sparta_schedule_print_string(rule->glob, out);
        sparta_text_printf(out, " {\n");
        for (int k = 0; k < SPARTA_CLAUSES; k++)
            if (rule->clause[k].given)
                sparta_text_printf(out, "    %s %s\n", sparta_clause_word((sparta_clause_kind)k),
                                   rule->clause[k].text);
        sparta_text_printf(out, "}\n");
    }
}

sparta_status sparta_schedule_print(sparta_schedule *s, const char **out)
{
    sparta_text_free(&s->printed);
    sparta_text_init(&s->printed, s->cx);
    sparta_schedule_write(s, &s->printed);
    SPARTA_TRY(s->printed.status);
    *out = sparta_text_str(&s->printed);
    return SPARTA_OK;
}
