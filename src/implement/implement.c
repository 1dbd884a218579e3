/* The table of implements, and kernel texts from templates and parameters. */
#include "implement/implement.h"
#include <string.h>

static const sparta_implement *const table[] = {
#define SPARTA_IMPLEMENT(name) &sparta_implement_##name,
#include "implement/implements.def"
#undef SPARTA_IMPLEMENT
};

int sparta_implement_count(void)
{
    return (int)SPARTA_COUNT(table);
}
const sparta_implement *sparta_implement_row(int i)
{
    return table[i];
}

const sparta_implement *sparta_implement_find(const char *name)
{
    for (size_t i = 0; i < SPARTA_COUNT(table); i++)
        if (!strcmp(table[i]->name, name)) return table[i];
    return NULL;
}

sparta_status sparta_implement_text(const char *kernel, const char *parameters, sparta_target target,
                                    sparta_text *out)
{
    sparta_text_printf(out, "/* sparta %s: kernel %s, target %s%s%s */\n", SPARTA_VERSION, kernel,
                       sparta_target_name(target), *parameters ? ", " : "", parameters);
    sparta_text_printf(out, "#define KERNEL __attribute__((visibility(\"default\")))\n");
    for (const char *p = parameters; *p;) {
        const size_t word = strcspn(p, " "), name = strcspn(p, "=");
        if (name < word)
            sparta_text_printf(out, "#define %.*s %.*s\n", (int)name, p, (int)(word - name - 1),
                               p + name + 1);
        p += word;
        p += strspn(p, " ");
    }
    return sparta_panel_text(kernel, out);
}

bool sparta_implement_tokens(const sparta_value *v)
{
    int64_t features;
    return v && v->typed && v->dtype == SPARTA_F32 && v->dims.rank >= 2 &&
           sparta_expr_is_const(v->dims.dim[v->dims.rank - 1], &features) && features > 0;
}
