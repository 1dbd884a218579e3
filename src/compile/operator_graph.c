/* An operator's expression: read, its indices given sizes, and made a graph of one node. */
#include "compile/operator.h"
#include "ops/ops.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading { /* the expression, as far as it is read */
    making *m;
    const char *text, *at;
} reading;

/* ------------------------------------------------------------------ reading */

static sparta_status odd(const reading *r, const char *what)
{
    return sp_fail(r->m->cx, SPARTA_E_USAGE, "operator: column %d of \"%.100s\": %s",
                   (int)(r->at - r->text) + 1, r->text, what);
}

static void blanks(reading *r)
{
    while (*r->at == ' ') r->at++;
}

static bool take(reading *r, char c)
{
    blanks(r);
    if (*r->at != c) return false;
    r->at++;
    blanks(r);
    return true;
}

/* A name or a number. */
static sparta_status word(reading *r, const char *more, char *out, size_t room)
{
    size_t n = 0;
    blanks(r);
    while (r->at[n] && (isalnum((unsigned char)r->at[n]) || strchr(more, r->at[n]))) n++;
    if (n == 0) return odd(r, "a name is expected");
    if (n >= room) return odd(r, "the name is too long");
    memcpy(out, r->at, n);
    out[n] = 0;
    r->at += n;
    blanks(r);
    return SPARTA_OK;
}

static sparta_status read_ref(reading *r)
{
    if (r->m->n == SP_OPERATOR_OPERANDS) return odd(r, "too many operands");
    operator_ref *o = &r->m->ref[r->m->n++];
    SP_TRY(word(r, "_", o->name, sizeof o->name));
    if (!take(r, '(')) return odd(r, "( and indices are expected");
    do {
        if (o->rank == SPARTA_RANK) return odd(r, "too many indices");
        SP_TRY(word(r, "_", o->index[o->rank], sizeof o->index[0]));
        o->rank++;
    } while (take(r, ','));
    return take(r, ')') ? SPARTA_OK : odd(r, ") is expected");
}

/* y(m,n) = x(m,k)*w(n,k) + b(n), or y(..) = Operator(x(..), ...) {attributes} */
static sparta_status read_all(reading *r)
{
    SP_TRY(read_ref(r));
    if (!take(r, '=')) return odd(r, "= is expected");
    const char *begin = r->at;
    SP_TRY(word(r, "_:", r->m->name, sizeof r->m->name));
    r->m->attrs = "";
    if (!take(r, '(')) return odd(r, "( is expected");
    SP_TRY(word(r, "_", (char[32]){0}, 32));
    const bool operator= * r->at == '(';
    r->at = begin;
    if (operator) {
        SP_TRY(word(r, "_:", r->m->name, sizeof r->m->name));
        take(r, '(');
        do SP_TRY(read_ref(r));
        while (take(r, ','));
        if (!take(r, ')')) return odd(r, ") is expected");
        r->m->attrs = r->at;
        return *r->at == 0 || *r->at == '{' ? SPARTA_OK : odd(r, "{attributes} or the end are expected");
    }
    r->m->name[0] = 0;
    SP_TRY(read_ref(r));
    if (!take(r, '*')) return odd(r, "* is expected");
    do SP_TRY(read_ref(r));
    while (take(r, '+'));
    return *r->at ? odd(r, "the end is expected") : SPARTA_OK;
}

/* ------------------------------------------------------------------ a graph of one node */

int sp_operator_size(making *m, const char *name)
{
    sparta_operator *op = m->op;
    for (int i = 0; i < op->n_sizes; i++)
        if (!strcmp(op->size[i].name, name)) return i;
    snprintf(op->size[op->n_sizes].name, sizeof op->size[0].name, "%s", name);
    op->size[op->n_sizes].is = isdigit((unsigned char)*name) ? strtoll(name, NULL, 10) : -1;
    return op->n_sizes++;
}

/* Every index has one size; what is not said anywhere is any. */
static sparta_status find_sizes(making *m)
{
    for (int i = 0; i < m->n; i++) {
        const sparta_tensor *t = &m->spec->operand[i];
        const operator_ref *o = &m->ref[i];
        SP_TRY(sp_tensor_on_cpu(m->cx, t, "operand", o->name));
        if (t->rank != o->rank)
            return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: %s has %d dims and %d indices", o->name, t->rank,
                           o->rank);
        if (sp_operator_constant(m, i) && !sp_operator_packed(m, i) && !sp_tensor_contiguous(t))
            return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                           "operator: %s is not contiguous; make a row-major copy", o->name);
        for (int k = 0; k < o->rank; k++) {
            int64_t *is = &m->op->size[sp_operator_size(m, o->index[k])].is;
            if (t->dim[k] < 0) continue;
            if (*is >= 0 && *is != t->dim[k])
                return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: '%s' is %lld in %s and %lld before",
                               o->index[k], (long long)t->dim[k], o->name, (long long)*is);
            *is = t->dim[k];
        }
    }
    return SPARTA_OK;
}

static bool same_index(const making *m, int a, int ai, int b, int bi)
{
    return !strcmp(m->ref[a].index[ai], m->ref[b].index[bi]);
}

/* Operands of a product into the order of Linear: x, w, bias, residual. */
static sparta_status as_linear(making *m, bool *transposed)
{
    const operator_ref *y = &m->ref[0];
    const int x = sp_operator_constant(m, 1) && !sp_operator_constant(m, 2) ? 2 : 1, w = 3 - x,
              last = y->rank - 1;
    bool fits = m->ref[w].rank == 2 && m->ref[x].rank == y->rank && y->rank >= 2 &&
                sp_operator_constant(m, w) && !sp_operator_constant(m, x);
    *transposed = fits && same_index(m, w, 1, x, last) && same_index(m, w, 0, 0, last);
    fits = fits && (*transposed || (same_index(m, w, 0, x, last) && same_index(m, w, 1, 0, last)));
    for (int i = 0; i < last && fits; i++) fits = same_index(m, x, i, 0, i);
    m->input[0] = x, m->input[1] = m->weight = w, m->input[2] = m->input[3] = -1;
    m->n_in = 2;
    for (int i = 3; i < m->n && fits; i++) {
        const bool bias = m->ref[i].rank == 1;
        fits = m->input[bias ? 2 : 3] < 0 && sp_operator_constant(m, i) == bias;
        for (int k = 0; k < m->ref[i].rank && fits; k++)
            fits = same_index(m, i, k, 0, bias ? last : k) && (bias || m->ref[i].rank == y->rank);
        m->input[bias ? 2 : 3] = i;
        m->n_in = SP_MAX(m->n_in, bias ? 3 : 4);
    }
    if (fits) return SPARTA_OK;
    return sp_fail(
        m->cx, SPARTA_E_UNSUPPORTED,
        "operator: \"%.100s\": products that run are y(..,n) = x(..,k)*w(n,k) + b(n) + r(..,n), the weight "
        "(n,k) or (k,n) and the bias constant",
        m->spec->expression);
}

static void put_operand(const making *m, int i, sp_text *t)
{
    const operator_ref *o = &m->ref[i];
    sp_text_printf(t, "%s %s: %s[", sp_operator_constant(m, i) ? "const" : "input", o->name,
                   sparta_dtype_name(m->spec->operand[i].dtype));
    for (int k = 0; k < o->rank; k++) {
        const sp_size *s = NULL;
        for (int j = 0; j < m->op->n_sizes; j++)
            if (!strcmp(m->op->size[j].name, o->index[k])) s = &m->op->size[j];
        if (k) sp_text_printf(t, ",");
        if (s->is >= 0)
            sp_text_printf(t, "%lld", (long long)s->is);
        else
            sp_text_printf(t, "%s", s->name);
    }
    sp_text_printf(t, sp_operator_constant(m, i) ? "] @\"%s\"\n" : "]\n", o->name);
}

/* Constants by name; a packed one has no data, its kernel reads the arrays. */
static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    const making *m = arg;
    for (int i = 1; i < m->n; i++)
        if (!strcmp(m->ref[i].name, name)) {
            *out = m->spec->operand[i];
            return SPARTA_OK;
        }
    return sp_fail(m->cx, SPARTA_E_INTERNAL, "operator: no operand '%s'", name);
}

static void put_node(const making *m, bool transposed, sp_text *t)
{
    const char *words = m->spec->epilogue ? m->spec->epilogue : m->input[3] >= 0 ? "add" : "";
    sp_text_printf(t, "node %s: ? = %s(", m->ref[0].name, *m->name ? m->name : "sparta::Linear");
    for (int i = 0; i < m->n_in; i++)
        sp_text_printf(t, "%s%s", i ? ", " : "", m->input[i] < 0 ? "_" : m->ref[m->input[i]].name);
    sp_text_printf(t, ") ");
    if (*m->name)
        sp_text_printf(t, "%s", m->attrs);
    else
        sp_text_printf(t, "{transposed=%d, epilogue=\"%s%s\"}", transposed,
                       m->input[2] >= 0 && strncmp(words, "bias", 4) ? "bias " : "", words);
    sp_text_printf(t, " \"operator\"\noutput %s\n", m->ref[0].name);
}

/* After inference operand i has the indices that the text gives it: sizes that have to be equal have one name. A run checks sizes by name and
 * kernels trust them. */
static sparta_status check_dims(making *m, int i, const sp_value *v)
{
    const sp_dims *d = &v->dims;
    const operator_ref *y = &m->ref[i];
    bool fits = d->rank == y->rank && v->dtype == m->spec->operand[i].dtype;
    for (int k = 0; k < d->rank && fits; k++) {
        const char *name;
        int64_t is;
        const sp_size *s = &m->op->size[sp_operator_size(m, y->index[k])];
        fits = sp_expr_is_const(d->dim[k], &is)
                   ? s->is == is
                   : s->is < 0 && sp_expr_is_symbol(d->dim[k], &name) && !strcmp(name, y->index[k]);
    }
    if (fits) return SPARTA_OK;
    return sp_fail(m->cx, SPARTA_E_SHAPE,
                   "operator: \"%.100s\": %s has other dims or another type; sizes that have to be equal get "
                   "one index",
                   m->spec->expression, y->name);
}

static sparta_status check_operands(making *m)
{
    const sp_graph *g = m->op->graph;
    SP_TRY(check_dims(m, 0, g->output[0]));
    for (int i = 1; i < m->n; i++) {
        const sp_value *v = sp_graph_find(g, m->ref[i].name);
        if (v && !sp_operator_constant(m, i)) SP_TRY(check_dims(m, i, v));
    }
    if (!g->n_musts) return SPARTA_OK;
    return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: \"%.100s\": sizes that have to be equal get one index",
                   m->spec->expression);
}

static bool is_plain(const char *s)
{
    return !s || !strpbrk(s, "\"\\\n");
}

static bool is_known(const char *name)
{
    const bool ours = !strncmp(name, "sparta::", 8);
    return sp_builtin_find(ours ? "sparta" : "", ours ? name + 8 : name) != NULL;
}

static sparta_status make_graph(making *m)
{
    bool transposed = false;
    sp_text t;
    m->weight = -1;
    if (*m->name && !is_known(m->name))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED, "operator: there is no operator '%s'", m->name);
    if (!*m->name) {
        SP_TRY(as_linear(m, &transposed));
    } else {
        m->n_in = m->n - 1;
        for (int i = 0; i < m->n_in; i++) m->input[i] = i + 1;
    }
    if (*m->name && (m->spec->epilogue || m->spec->format))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                       "operator: %s takes no epilogue and no format; products do", m->name);
    if (!is_plain(m->spec->epilogue) || strchr(m->attrs, '\n'))
        return sp_fail(m->cx, SPARTA_E_USAGE, "operator: the epilogue is a list of words");
    sp_text_init(&t, m->cx);
    sp_text_printf(&t, "graph \"operator\"\n");
    for (int i = 1; i < m->n; i++) put_operand(m, i, &t);
    put_node(m, transposed, &t);
    sparta_status s = t.status;
    if (s == SPARTA_OK) s = sp_graph_parse(m->cx, sp_text_str(&t), fetch, m, &m->op->graph);
    sp_text_free(&t);
    SP_TRY(s);
    SP_TRY(sp_ops_infer(m->op->graph));
    return check_operands(m);
}

sparta_status sp_operator_graph(making *m)
{
    reading r = {m, m->spec->expression, m->spec->expression};
    SP_TRY(read_all(&r));
    if (m->spec->n != m->n)
        return sp_fail(m->cx, SPARTA_E_USAGE, "operator: %d operands are given, \"%.100s\" has %d",
                       m->spec->n, m->spec->expression, m->n);
    SP_TRY(find_sizes(m));
    return make_graph(m);
}
