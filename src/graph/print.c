/* print.c: a graph as text. Only what is alive is written: all inputs, the constants somebody uses, the
 * nodes, the outputs. */
#include "graph/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool sp_graph_word_byte(char c, bool first)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '/' || c == '%')
        return true;
    return !first && ((c >= '0' && c <= '9') || c == '-');
}

static void put_string(sp_text *out, const char *s)
{
    sp_text_put(out, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            sp_text_printf(out, "\\%c", c);
        else if (c < 32 || c == 127)
            sp_text_printf(out, "\\x%02x", c);
        else
            sp_text_put(out, s, 1);
    }
    sp_text_put(out, "\"", 1);
}

static void put_name(sp_text *out, const char *s)
{
    bool plain = s[0] && sp_graph_word_byte(s[0], true) && strcmp(s, "_") != 0;
    for (const char *c = s; *c && plain; c++) plain = sp_graph_word_byte(*c, false);
    if (plain)
        sp_text_put(out, s, strlen(s));
    else
        put_string(out, s);
}

/* Shortest that surely reads back as the same number, always recognisable as a float, whatever the locale. */
static void put_float(sp_text *out, double x, int digits)
{
    char text[40];
    if (isnan(x))
        snprintf(text, sizeof text, "nan");
    else if (isinf(x))
        snprintf(text, sizeof text, x < 0 ? "-inf" : "inf");
    else {
        snprintf(text, sizeof text, "%.*g", digits, x);
        for (char *c = text; *c; c++)
            if (*c == ',') *c = '.';
        if (!strpbrk(text, ".e")) strcat(text, ".0");
    }
    sp_text_put(out, text, strlen(text));
}

static void put_elements(sp_text *out, const sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t);
    sp_text_printf(out, "[");
    for (int64_t i = 0; i < n && out->status == SPARTA_OK; i++) {
        if (i) sp_text_printf(out, ",");
        if (sp_dtype_is_float(t->dtype))
            put_float(out, sp_element_get(t->dtype, t->data, i), t->dtype == SPARTA_F64 ? 17 : 9);
        else if (t->dtype == SPARTA_U64)
            sp_text_printf(out, "%" PRIu64, (uint64_t)sp_element_get_int(t->dtype, t->data, i));
        else
            sp_text_printf(out, "%" PRId64, sp_element_get_int(t->dtype, t->data, i));
    }
    sp_text_printf(out, "]");
}

static void put_tensor_type(sp_text *out, const sparta_tensor *t)
{
    sp_text_printf(out, "%s[", sparta_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) sp_text_printf(out, i ? ",%" PRId64 : "%" PRId64, t->dim[i]);
    sp_text_printf(out, "]");
}

static void put_attr(sp_text *out, const sp_attr *a)
{
    put_name(out, a->name);
    sp_text_printf(out, "=");
    switch (a->kind) {
    case SP_ATTR_INT: sp_text_printf(out, "%" PRId64, a->i); break;
    case SP_ATTR_FLOAT: put_float(out, (double)a->f, 9); break;
    case SP_ATTR_STRING: put_string(out, a->s); break;
    case SP_ATTR_INTS:
        sp_text_printf(out, "[");
        for (int i = 0; i < a->n; i++) sp_text_printf(out, i ? ",%" PRId64 : "%" PRId64, a->ints[i]);
        sp_text_printf(out, "]");
        break;
    case SP_ATTR_FLOATS:
        sp_text_printf(out, "floats[");
        for (int i = 0; i < a->n; i++) {
            if (i) sp_text_printf(out, ",");
            put_float(out, (double)a->floats[i], 9);
        }
        sp_text_printf(out, "]");
        break;
    case SP_ATTR_TENSOR:
        put_tensor_type(out, a->tensor);
        sp_text_printf(out, "=");
        put_elements(out, a->tensor);
        break;
    }
}

static void put_typed(sp_text *out, const sp_value *v)
{
    put_name(out, v->name);
    if (!v->typed) {
        sp_text_printf(out, ": ?");
        return;
    }
    sp_text_printf(out, ": %s", sparta_dtype_name(v->dtype));
    sp_dims_print(&v->dims, out);
}

static bool is_written(const sparta_tensor *t, int64_t integers)
{
    if (!t->data) return false;
    return sparta_tensor_elements(t) <= (sp_dtype_is_float(t->dtype) ? SP_GRAPH_WRITTEN : integers);
}

static void put_constant(sp_text *out, const sp_value *v, int64_t integers)
{
    sp_text_printf(out, "const  ");
    put_typed(out, v);
    const bool large = !is_written(v->constant, integers);
    if (!large) {
        sp_text_printf(out, " = ");
        put_elements(out, v->constant);
    }
    if (large || v->origin) {
        sp_text_printf(out, " @");
        put_string(out, sp_initialiser_name(v));
    }
    sp_text_printf(out, "\n");
}

static void put_node(sp_text *out, const sp_node *n)
{
    const sp_builtin *row = sp_builtin_row(n->op);
    sp_text_printf(out, "node   ");
    for (int i = 0; i < n->n_out; i++) {
        if (i) sp_text_printf(out, ", ");
        put_typed(out, n->out[i]);
    }
    sp_text_printf(out, " = %s%s%s(", row->domain, *row->domain ? "::" : "", row->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i) sp_text_printf(out, ", ");
        if (n->in[i])
            put_name(out, n->in[i]->name);
        else
            sp_text_printf(out, "_");
    }
    sp_text_printf(out, ")");
    for (int i = 0; i < n->attrs.n; i++) {
        sp_text_printf(out, i ? ", " : " {");
        put_attr(out, &n->attrs.attr[i]);
    }
    if (n->attrs.n) sp_text_printf(out, "}");
    if (*n->name) {
        sp_text_printf(out, " ");
        put_string(out, n->name);
    }
    sp_text_printf(out, "\n");
}

void sp_graph_print(const sp_graph *g, sp_text *out)
{
    sp_graph_print_integers(g, SP_GRAPH_WRITTEN, out);
}

void sp_graph_print_integers(const sp_graph *g, int64_t integers, sp_text *out)
{
    bool *used = sp_alloc_array(g->cx, (size_t)g->n_values, sizeof *used);
    if (!used) {
        out->status = sp_ctx_status(g->cx);
        return;
    }
    sp_graph_used(g, used);
    sp_text_printf(out, "graph ");
    put_string(out, g->name);
    sp_text_printf(out, "\n");
    for (int i = 0; i < g->n_inputs; i++) {
        sp_text_printf(out, "input  ");
        put_typed(out, g->input[i]);
        sp_text_printf(out, "\n");
    }
    for (int i = 0; i < g->n_bounds; i++) {
        sp_text_printf(out, "bound  ");
        put_name(out, g->bound[i].symbol);
        sp_text_printf(out, "[");
        if (g->bound[i].least) sp_text_printf(out, "%lld,", (long long)g->bound[i].least);
        sp_text_printf(out, "%lld]\n", (long long)g->bound[i].most);
    }
    for (int i = 0; i < g->n_musts; i++) {
        const sp_dims pair = {2, {g->must[i].a, g->must[i].b}};
        sp_text_printf(out, "must   ");
        sp_dims_print(&pair, out);
        sp_text_printf(out, " ");
        put_string(out, g->must[i].node);
        sp_text_printf(out, "\n");
    }
    for (int i = 0; i < g->n_values; i++)
        if (used[i] && g->value[i]->constant && !g->value[i]->producer)
            put_constant(out, g->value[i], integers);
    for (int i = 0; i < g->n_nodes; i++) put_node(out, g->node[i]);
    for (int i = 0; i < g->n_outputs; i++) {
        sp_text_printf(out, "output ");
        put_name(out, g->output[i]->name);
        sp_text_printf(out, "\n");
    }
    sp_free(g->cx, used);
}
