/* Making an operator: the expression becomes a graph of one node, an implement takes it, and its kernel is prepared. */
#include "call/operator.h"
#include "compile/compile.h"
#include "device/device.h"
#include "implement/implement.h"
#include "ops/ops.h"
#include "store/store.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ref { /* name(index, index) */
    char name[32];
    int rank;
    char index[SPARTA_RANK][32];
} ref;

typedef struct reading { /* the expression as it is read */
    sparta_ctx *cx;
    const char *text, *at;
    int n;
    ref ref[SP_OPERATOR_OPERANDS]; /* the result first */
    char op[64];                   /* sparta::Attention; "": a product */
    const char *attrs;             /* "{heads=4}" of an operator; "" */
} reading;

/* ------------------------------------------------------------------ reading */

static sparta_status odd(const reading *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_USAGE, "operator: column %d of \"%.100s\": %s", (int)(r->at - r->text) + 1,
                   r->text, what);
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
    if (r->n == SP_OPERATOR_OPERANDS) return odd(r, "too many operands");
    ref *o = &r->ref[r->n++];
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
    SP_TRY(word(r, "_:", r->op, sizeof r->op));
    r->attrs = "";
    if (!take(r, '(')) return odd(r, "( is expected");
    SP_TRY(word(r, "_", (char[32]){0}, 32));
    const bool operator= * r->at == '(';
    r->at = begin;
    if (operator) {
        SP_TRY(word(r, "_:", r->op, sizeof r->op));
        take(r, '(');
        do SP_TRY(read_ref(r));
        while (take(r, ','));
        if (!take(r, ')')) return odd(r, ") is expected");
        r->attrs = r->at;
        return *r->at == 0 || *r->at == '{' ? SPARTA_OK : odd(r, "{attributes} or the end are expected");
    }
    r->op[0] = 0;
    SP_TRY(read_ref(r));
    if (!take(r, '*')) return odd(r, "* is expected");
    do SP_TRY(read_ref(r));
    while (take(r, '+'));
    return *r->at ? odd(r, "the end is expected") : SPARTA_OK;
}

/* ------------------------------------------------------------------ a graph of one node */

typedef struct making {
    sparta_ctx *cx;
    const sparta_operator_spec *spec;
    reading r;
    sparta_operator *op;
    int input[SP_OPERATOR_OPERANDS]; /* of the node: which operand; -1: absent */
    int n_in, weight;                /* operand that is a product's weight, or -1 */
} making;

static bool is_packed(const making *m, int i)
{
    return m->spec->packed && m->spec->packed[i];
}
static bool is_constant(const making *m, int i)
{
    return i > 0 && (m->spec->operand[i].data || is_packed(m, i));
}

static int find_size(making *m, const char *name)
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
    for (int i = 0; i < m->r.n; i++) {
        const sparta_tensor *t = &m->spec->operand[i];
        const ref *o = &m->r.ref[i];
        SP_TRY(sp_tensor_on_cpu(m->cx, t, "operand", o->name));
        if (is_constant(m, i) && !is_packed(m, i) && !sp_tensor_contiguous(t))
            return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                           "operator: %s is not contiguous; make a row-major copy", o->name);
        if (t->rank != o->rank)
            return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: %s has %d dims and %d indices", o->name, t->rank,
                           o->rank);
        for (int k = 0; k < o->rank; k++) {
            int64_t *is = &m->op->size[find_size(m, o->index[k])].is;
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
    return !strcmp(m->r.ref[a].index[ai], m->r.ref[b].index[bi]);
}

/* Operands of a product into the order of Linear: x, w, bias, residual. */
static sparta_status as_linear(making *m, bool *transposed)
{
    const ref *y = &m->r.ref[0];
    const int x = is_constant(m, 1) && !is_constant(m, 2) ? 2 : 1, w = 3 - x, last = y->rank - 1;
    bool fits = m->r.ref[w].rank == 2 && m->r.ref[x].rank == y->rank && y->rank >= 2 && is_constant(m, w) &&
                !is_constant(m, x);
    *transposed = fits && same_index(m, w, 1, x, last) && same_index(m, w, 0, 0, last);
    fits = fits && (*transposed || (same_index(m, w, 0, x, last) && same_index(m, w, 1, 0, last)));
    for (int i = 0; i < last && fits; i++) fits = same_index(m, x, i, 0, i);
    m->input[0] = x, m->input[1] = m->weight = w, m->input[2] = m->input[3] = -1;
    m->n_in = 2;
    for (int i = 3; i < m->r.n && fits; i++) {
        const bool bias = m->r.ref[i].rank == 1;
        fits = m->input[bias ? 2 : 3] < 0 && is_constant(m, i) == bias;
        for (int k = 0; k < m->r.ref[i].rank && fits; k++)
            fits = same_index(m, i, k, 0, bias ? last : k) && (bias || m->r.ref[i].rank == y->rank);
        m->input[bias ? 2 : 3] = i;
        m->n_in = SP_MAX(m->n_in, bias ? 3 : 4);
    }
    if (fits) return SPARTA_OK;
    return sp_fail(
        m->cx, SPARTA_E_UNSUPPORTED,
        "operator: \"%.100s\": products that run are y(..,n) = x(..,k)*w(n,k) + b(n) + r(..,n), the weight "
        "(n,k) or (k,n) and the bias constant",
        m->r.text);
}

static void put_operand(const making *m, int i, sp_text *t)
{
    const ref *o = &m->r.ref[i];
    sp_text_printf(t, "%s %s: %s[", is_constant(m, i) ? "const" : "input", o->name,
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
    sp_text_printf(t, is_constant(m, i) ? "] @\"%s\"\n" : "]\n", o->name);
}

/* Constants by name; a packed one has no data, its kernel reads the arrays. */
static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    const making *m = arg;
    for (int i = 1; i < m->r.n; i++)
        if (!strcmp(m->r.ref[i].name, name)) {
            *out = m->spec->operand[i];
            return SPARTA_OK;
        }
    return sp_fail(m->cx, SPARTA_E_INTERNAL, "operator: no operand '%s'", name);
}

static void put_node(const making *m, bool transposed, sp_text *t)
{
    const char *words = m->spec->epilogue ? m->spec->epilogue : m->input[3] >= 0 ? "add" : "";
    sp_text_printf(t, "node %s: ? = %s(", m->r.ref[0].name, *m->r.op ? m->r.op : "sparta::Linear");
    for (int i = 0; i < m->n_in; i++)
        sp_text_printf(t, "%s%s", i ? ", " : "", m->input[i] < 0 ? "_" : m->r.ref[m->input[i]].name);
    sp_text_printf(t, ") ");
    if (*m->r.op)
        sp_text_printf(t, "%s", m->r.attrs);
    else
        sp_text_printf(t, "{transposed=%d, epilogue=\"%s%s\"}", transposed,
                       m->input[2] >= 0 && strncmp(words, "bias", 4) ? "bias " : "", words);
    sp_text_printf(t, " \"operator\"\noutput %s\n", m->r.ref[0].name);
}

/* After inference operand i has the indices that the text gives it: sizes that have to be equal have one name. A run checks sizes by name and
 * kernels trust them. */
static sparta_status check_dims(making *m, int i, const sp_value *v)
{
    const sp_dims *d = &v->dims;
    const ref *y = &m->r.ref[i];
    bool fits = d->rank == y->rank && v->dtype == m->spec->operand[i].dtype;
    for (int k = 0; k < d->rank && fits; k++) {
        const char *name;
        int64_t is;
        const sp_size *s = &m->op->size[find_size(m, y->index[k])];
        fits = sp_expr_is_const(d->dim[k], &is)
                   ? s->is == is
                   : s->is < 0 && sp_expr_is_symbol(d->dim[k], &name) && !strcmp(name, y->index[k]);
    }
    if (fits) return SPARTA_OK;
    return sp_fail(m->cx, SPARTA_E_SHAPE,
                   "operator: \"%.100s\": %s has other dims or another type; sizes that have to be equal get "
                   "one index",
                   m->r.text, y->name);
}

static sparta_status check_operands(making *m)
{
    const sp_graph *g = m->op->graph;
    SP_TRY(check_dims(m, 0, g->output[0]));
    for (int i = 1; i < m->r.n; i++) {
        const sp_value *v = sp_graph_find(g, m->r.ref[i].name);
        if (v && !is_constant(m, i)) SP_TRY(check_dims(m, i, v));
    }
    if (!g->n_musts) return SPARTA_OK;
    return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: \"%.100s\": sizes that have to be equal get one index",
                   m->r.text);
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
    if (*m->r.op && !is_known(m->r.op))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED, "operator: there is no operator '%s'", m->r.op);
    if (!*m->r.op) {
        SP_TRY(as_linear(m, &transposed));
    } else {
        m->n_in = m->r.n - 1;
        for (int i = 0; i < m->n_in; i++) m->input[i] = i + 1;
    }
    if (*m->r.op && (m->spec->epilogue || m->spec->format))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                       "operator: %s takes no epilogue and no format; products do", m->r.op);
    if (!is_plain(m->spec->epilogue) || strchr(m->r.attrs, '\n'))
        return sp_fail(m->cx, SPARTA_E_USAGE, "operator: the epilogue is a list of words");
    sp_text_init(&t, m->cx);
    sp_text_printf(&t, "graph \"operator\"\n");
    for (int i = 1; i < m->r.n; i++) put_operand(m, i, &t);
    put_node(m, transposed, &t);
    sparta_status s = t.status;
    if (s == SPARTA_OK) s = sp_graph_parse(m->cx, sp_text_str(&t), fetch, m, &m->op->graph);
    sp_text_free(&t);
    SP_TRY(s);
    SP_TRY(sp_ops_infer(m->op->graph));
    return check_operands(m);
}

/* ------------------------------------------------------------------ an implement and its weight */

/* The cheapest by its cost, or the first that matches. */
static const sp_implement *cheapest(sp_task *t)
{
    const sp_implement *best = NULL;
    char point[SP_POINT] = "";
    double least = 0;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        for (int p = 0; im->kernel && p < sp_implement_points(im); p++) {
            if (!sp_implement_point(im, p, t) || !sp_implement_matches(im, t)) continue;
            const double cost = im->cost ? im->cost(t) : 0;
            if (best && cost >= least) continue;
            best = im, least = cost;
            snprintf(point, sizeof point, "%s", t->point);
        }
    }
    snprintf(t->point, sizeof t->point, "%s", point);
    return best;
}

_Static_assert(SP_COUNT(((sparta_arrays *)0)->pos) >= SP_LEVELS,
               "sparta_arrays holds all levels of a format");

static sparta_status packed_of(sparta_ctx *cx, const sparta_arrays *given, sp_packed *out)
{
    sparta_arrays a;
    SP_TRY(sp_options(cx, "operator: packed arrays", given, &a, sizeof a));
    *out = (sp_packed){.dtype = a.dtype, .rank = a.rank, .values = a.values};
    if (!memchr(a.format, 0, sizeof a.format))
        return sp_fail(cx, SPARTA_E_USAGE, "operator: the format of the packed arrays has no end");
    SP_TRY(sp_format_parse(cx, a.format, &out->format));
    if (out->format.sum || out->format.rank != a.rank)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "operator: \"%.100s\" is no format of one set of arrays for %d dims", a.format,
                       a.rank);
    memcpy(out->dim, a.dim, sizeof out->dim);
    memcpy(out->pos, a.pos, sizeof out->pos);
    memcpy(out->crd, a.crd, sizeof out->crd);
    for (int i = 0; i < SP_LEVELS; i++) {
        SP_TRY(sp_tensor_on_cpu(cx, &out->pos[i], "packed array", "pos"));
        SP_TRY(sp_tensor_on_cpu(cx, &out->crd[i], "packed array", "crd"));
    }
    SP_TRY(sp_tensor_on_cpu(cx, &out->values, "packed array", "values"));
    return sp_packed_verify(cx, out);
}

/* The implement that stores a weight in a format that was asked for. */
static sparta_status by_format(making *m, const sp_format *f, const char *text, sp_task *t,
                               const sp_implement **im)
{
    SP_TRY(sp_implement_for_format(m->cx, f, true, t->n, t->k, im));
    if (*im && (*im)->sparse && sp_ctx_strict(m->cx))
        return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                       "operator: %.100s skips products with 0, which a strict context does not allow", text);
    t->asked = true;
    t->format = text;
    return SPARTA_OK;
}

static sparta_status choose(making *m, sp_task *t, const sp_implement **im)
{
    const int w = m->weight;
    const char *format = m->spec->format;
    sp_format f;
    if (w >= 0 && is_packed(m, w)) {
        SP_TRY(packed_of(m->cx, m->spec->packed[w], &m->op->packed));
        const sp_node *n = m->op->graph->node[0];
        const bool transposed = sp_attr_int(&n->attrs, "transposed", 0);
        if (!transposed)
            return sp_fail(m->cx, SPARTA_E_UNSUPPORTED, "operator: a weight in a format is (n, k): w(%s,%s)",
                           m->r.ref[0].index[m->r.ref[0].rank - 1], m->r.ref[w].index[0]);
        *t = (sp_task){.node = n, .n = m->op->packed.dim[0], .k = m->op->packed.dim[1]};
        for (int i = 0; i < 2; i++)
            if (m->op->packed.dim[i] != m->spec->operand[w].dim[i])
                return sp_fail(m->cx, SPARTA_E_SHAPE, "operator: the arrays of %s are of another shape",
                               m->r.ref[w].name);
        return by_format(m, &m->op->packed.format, m->spec->packed[w]->format, t, im);
    }
    SP_TRY(sp_implement_task(m->cx, m->op->graph->node[0], 0, t));
    if (w >= 0 && format) {
        SP_TRY(sp_format_parse(m->cx, format, &f));
        SP_TRY(by_format(m, &f, format, t, im));
    } else
        *im = cheapest(t);
    if (*im && (*im)->format) {
        sparta_tensor dense;
        if (!sp_implement_weight(t->node, &dense))
            return sp_fail(m->cx, SPARTA_E_INTERNAL, "operator: no weight to pack");
        if (!format) SP_TRY(sp_implement_format(m->cx, *im, t, &f));
        SP_TRY(sp_format_pack(m->cx, &f, &dense, (*im)->sparse ? t->mask : NULL, &m->op->packed));
        m->op->owned = true;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ code */

/* Machine code of a kernel where there is a compiler; else the portable one, and a note says so. */
static sparta_status build(making *m, const char *kernel, const char *parameters, sp_target target,
                           const sp_object **out)
{
    sp_text text;
    *out = NULL;
    if (target == SP_TARGET_PORTABLE) return SPARTA_OK;
    sp_text_init(&text, m->cx);
    sparta_status s = sp_implement_text(kernel, parameters, target, &text);
    if (s == SPARTA_OK) s = sp_jit_get(m->cx, target, sp_text_str(&text), out, NULL);
    sp_text_free(&text);
    if (s != SPARTA_E_COMPILER) return s;
    *out = NULL;
    sp_note(m->cx, "operator: %s; the portable kernel runs, which is slower", sparta_message(m->cx));
    sp_ctx_clear(m->cx);
    return SPARTA_OK;
}

static sparta_status say_why(making *m, const sp_implement *im, sp_target target)
{
    sp_text format;
    sp_text_init(&format, m->cx);
    if (im->format) sp_format_print(&m->op->packed.format, &format);
    const sparta_status s = format.status;
    snprintf(m->op->reason, sizeof m->op->reason, "%s%s%.300s, %s", im->name,
             im->format ? ", weight as " : "", sp_text_str(&format), sp_target_name(target));
    sp_text_free(&format);
    return s;
}

static sparta_status load(making *m, const sp_implement *im, const sp_task *t)
{
    const sp_target target = sp_target_best(SP_DEVICE_CPU);
    sparta_operator *op = m->op;
    sp_text parameters;
    sp_text_init(&parameters, m->cx);
    if (im->parameters) im->parameters(t, &parameters);
    sparta_status s = parameters.status;
    if (s == SPARTA_OK) s = build(m, im->kernel, sp_text_str(&parameters), target, &op->object[0]);
    sp_text_free(&parameters);
    SP_TRY(s);
    SP_TRY(build(m, "pack", "", target, &op->object[1]));
    SP_TRY(build(m, "unpack", "", target, &op->object[2]));
    void *pack = op->object[1] ? sp_jit_symbol(op->object[1], "sp_kernel_pack") : NULL,
         *unpack = op->object[2] ? sp_jit_symbol(op->object[2], "sp_kernel_unpack") : NULL;
    op->pack = pack ? (sp_entry)(uintptr_t)pack : sp_panel_pack.portable;
    op->unpack = unpack ? (sp_entry)(uintptr_t)unpack : sp_panel_unpack.portable;
    SP_TRY(say_why(m, im, op->object[0] ? target : SP_TARGET_PORTABLE));
    return sp_call_bind(m->cx, op->arena, op->graph->node[0], im->kernel, op->object[0], &op->call);
}

/* ------------------------------------------------------------------ all of it */

static void note_late(making *m, int operand, int at)
{
    sp_late *l = &m->op->late[m->op->n_late++];
    const ref *o = &m->r.ref[operand];
    snprintf(l->name, sizeof l->name, "%s", o->name);
    l->at = at;
    l->dtype = m->spec->operand[operand].dtype;
    l->rank = o->rank;
    for (int k = 0; k < o->rank; k++) l->size[k] = find_size(m, o->index[k]);
}

/* Constants are bound now, the others with each run, in the order of the expression. */
static sparta_status bind(making *m)
{
    sparta_operator *op = m->op;
    sp_job *j = &op->call.job;
    note_late(m, 0, -1);
    for (int operand = 1; operand < m->r.n; operand++)
        for (int i = 0; i < m->n_in; i++) {
            const sp_slot *slot = sp_panel_slot(op->call.kernel, j->n_in, i);
            if (m->input[i] != operand) continue;
            if (!slot)
                return sp_fail(m->cx, SPARTA_E_UNSUPPORTED, "operator: %s is one operand too many",
                               m->r.ref[operand].name);
            j->in[i] = (sp_operand){.kind = SP_OPERAND_ROWS, .tensor = m->spec->operand[operand]};
            if (slot->layouts & SP_IN(PACKED)) {
                j->in[i].kind = SP_OPERAND_PACKED;
                j->in[i].packed = &op->packed;
            } else if (!is_constant(m, operand)) {
                if (slot->layouts & SP_IN(PANELS)) j->in[i].kind = SP_OPERAND_PANELS;
                op->beyond |= slot->beyond;
                note_late(m, operand, i);
            } else if (!slot->constant)
                return sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                               "operator: %s cannot be constant: it comes with each run",
                               m->r.ref[operand].name);
        }
    j->out[0].kind = op->call.kernel->slots.out.layouts & SP_IN(PANELS) ? SP_OPERAND_PANELS : SP_OPERAND_ROWS;
    SP_TRY(op->call.kernel->prepare(m->cx, op->arena, j));
    return sp_operator_try(m->cx, op);
}

static bool is_run(sp_op_id op)
{
    return op == SP_OP_Linear || op == SP_OP_Attention || op == SP_OP_LayerNormalization;
}

static sparta_status make(making *m)
{
    const sp_implement *im = NULL;
    sp_task t = {0};
    SP_TRY(read_all(&m->r));
    if (m->spec->n != m->r.n)
        return sp_fail(m->cx, SPARTA_E_USAGE, "operator: %d operands are given, \"%.100s\" has %d",
                       m->spec->n, m->r.text, m->r.n);
    SP_TRY(find_sizes(m));
    SP_TRY(make_graph(m));
    if (!is_run(m->op->graph->node[0]->op))
        return sp_fail(
            m->cx, SPARTA_E_UNSUPPORTED,
            "operator: %s does not run by itself yet; products, sparta::Attention and LayerNormalization do",
            sp_builtin_row(m->op->graph->node[0]->op)->name);
    sparta_status s = choose(m, &t, &im);
    if (s == SPARTA_OK && (!im || !im->kernel))
        s = sp_fail(m->cx, SPARTA_E_UNSUPPORTED,
                    "operator: no kernel runs \"%.100s\" with these types and sizes (f32; features and "
                    "weights known)",
                    m->r.text);
    if (s == SPARTA_OK) s = load(m, im, &t);
    if (s == SPARTA_OK) s = bind(m);
    sp_implement_task_free(m->cx, &t);
    return s;
}

sparta_status sparta_operator_create(sparta_ctx *cx, const sparta_operator_spec *given, sparta_operator **out)
{
    sparta_operator_spec spec;
    SP_TRY(sp_options(cx, "operator", given, &spec, sizeof spec));
    if (!spec.expression || !spec.operand)
        return sp_fail(cx, SPARTA_E_USAGE, "operator: an expression and its operands are needed");
    making m = {.cx = cx, .spec = &spec, .r = {.cx = cx, .text = spec.expression, .at = spec.expression}};
    m.op = sp_zalloc(cx, sizeof *m.op);
    SP_NEED(cx, m.op);
    m.op->cx = cx;
    m.op->arena = sp_arena_create(cx);
    const sparta_status s = m.op->arena ? make(&m) : sp_ctx_status(cx);
    if (s == SPARTA_OK)
        *out = m.op;
    else
        sparta_operator_free(m.op);
    return s;
}
