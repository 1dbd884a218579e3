/* The table of implements, and kernel texts from templates and parameters. */
#include "implement/implement.h"
#include <string.h>

static const sp_implement *const table[] = {
#define SP_IMPLEMENT(name) &sp_implement_##name,
#include "implement/implements.def"
#undef SP_IMPLEMENT
};

int sp_implement_count(void)
{
    return (int)SP_COUNT(table);
}
const sp_implement *sp_implement_row(int i)
{
    return table[i];
}

const sp_implement *sp_implement_find(const char *name)
{
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i]->name, name)) return table[i];
    return NULL;
}

sparta_status sp_implement_text(const char *kernel, const char *parameters, sp_target target, sp_text *out)
{
    sp_text_printf(out, "/* sparta %s: kernel %s, target %s%s%s */\n", SPARTA_VERSION, kernel,
                   sp_target_name(target), *parameters ? ", " : "", parameters);
    sp_text_printf(out, "#define KERNEL __attribute__((visibility(\"default\")))\n");
    for (const char *p = parameters; *p;) {
        const size_t word = strcspn(p, " "), name = strcspn(p, "=");
        if (name < word)
            sp_text_printf(out, "#define %.*s %.*s\n", (int)name, p, (int)(word - name - 1), p + name + 1);
        p += word;
        p += strspn(p, " ");
    }
    return sp_panel_text(kernel, out);
}

bool sp_implement_tokens(const sp_value *v)
{
    int64_t features;
    return v && v->typed && v->dims.rank >= 2 && sp_expr_is_const(v->dims.dim[v->dims.rank - 1], &features) &&
           features > 0;
}

/* ------------------------------------------------------------------ slots */

static const sp_slot anything = {SP_IN(ROWS), ~0u, false, false};

const sp_slot *sp_implement_slot(const sp_implement *im, const sp_node *n, int i)
{
    return im->kernel ? sp_panel_slot(sp_panel_find(im->kernel), n->n_in, i) : &anything;
}

bool sp_implement_panels(const sp_implement *im)
{
    return im->kernel && sp_panel_find(im->kernel)->slots.out.layouts & SP_IN(PANELS);
}

static bool fits(const sp_slot *s, const sp_value *v)
{
    return s && v->typed && s->dtypes >> v->dtype & 1 && (!s->constant || v->constant) &&
           (!(s->layouts & SP_IN(PANELS)) || sp_implement_tokens(v));
}

bool sp_implement_matches(const sp_implement *im, const sp_task *t)
{
    const sp_node *n = t->node;
    const sp_panel_kernel *kernel = im->kernel ? sp_panel_find(im->kernel) : NULL;
    if (!kernel) return im->match(t);
    if (!kernel->takes(n->op) || n->n_in > SP_OPERANDS || n->n_out != 1) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !fits(sp_panel_slot(kernel, n->n_in, i), n->in[i])) return false;
    return fits(&kernel->slots.out, n->out[0]) && im->match(t);
}
