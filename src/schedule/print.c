/* The canonical text: definitions, model, tensors; one clause a line. */
#include "schedule/inside.h"
#include <string.h>

void sp_schedule_print_string(const char *s, sp_text *out)
{
    sp_text_put(out, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') sp_text_put(out, "\\", 1);
        sp_text_put(out, s, 1);
    }
    sp_text_put(out, "\"", 1);
}

static bool is_bare(const sp_schedule_call *call, const sp_schedule_arg *a)
{
    if (!a->name) return true;
    for (const sp_parameter *p = call->row ? call->row->parameter : NULL; p && p->name; p++)
        if (p->bare && !strcmp(p->name, a->name)) return true;
    return false;
}

void sp_schedule_print_call(const sp_schedule_call *call, sp_text *out)
{
    sp_text_printf(out, "%s", call->name);
    for (int i = 0; i < call->n; i++) {
        const sp_schedule_arg *a = &call->arg[i];
        const bool bare = is_bare(call, a);
        sp_text_printf(out, "%s%s%s", i ? ", " : "(", bare ? "" : a->name, bare ? "" : "=");
        if (a->quoted)
            sp_schedule_print_string(a->text, out);
        else
            sp_text_printf(out, "%s", a->text);
    }
    if (call->n) sp_text_printf(out, ")");
}

static void print_model(const sparta_schedule *s, sp_text *out)
{
    if (!s->target && !s->n_dims) return;
    sp_text_printf(out, "model {\n");
    if (s->target) sp_text_printf(out, "    target %s\n", s->target);
    for (int i = 0; i < s->n_dims; i++)
        sp_text_printf(out, "    dim %s=%s\n", s->dim[i].name, s->dim[i].text);
    sp_text_printf(out, "}\n");
}

void sp_schedule_write(const sparta_schedule *s, sp_text *out)
{
    for (int i = 0; i < s->n_formats; i++)
        sp_text_printf(out, "format %s = %s\n", s->format[i].name, s->format[i].text);
    for (int i = 0; i < s->n_sparsifiers; i++)
        sp_text_printf(out, "sparsifier %s = %s\n", s->sparsifier[i].name, s->sparsifier[i].text);
    print_model(s, out);
    for (int i = 0; i < s->n_rules; i++) {
        const sparta_schedule_rule *rule = s->rule[i];
        sp_text_printf(out, "tensor ");
        sp_schedule_print_string(rule->glob, out);
        sp_text_printf(out, " {\n");
        for (int k = 0; k < SP_CLAUSES; k++)
            if (rule->clause[k].given)
                sp_text_printf(out, "    %s %s\n", sp_clause_word((sp_clause_kind)k), rule->clause[k].text);
        sp_text_printf(out, "}\n");
    }
}

sparta_status sparta_schedule_print(sparta_schedule *s, const char **out)
{
    sp_text_free(&s->printed);
    sp_text_init(&s->printed, s->cx);
    sp_schedule_write(s, &s->printed);
    SP_TRY(s->printed.status);
    *out = sp_text_str(&s->printed);
    return SPARTA_OK;
}
